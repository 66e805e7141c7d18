"""The stores that uploads go to, and how to open the one that a ledger names.

`base` says what is asked of a store; every other module answers for one kind of it. Packages add
kinds under the entry-point group ``composer_obs.stores``.
"""

from __future__ import annotations

from composer_obs import plugins
from composer_obs.uploads.ledger import Destination
from composer_obs.uploads.stores.base import Store, StoreError, StoreUnsupportedError

__all__ = ["open_store"]


def open_store(destination: Destination) -> Store:
    """The store of a destination, by the name that its ledger gives it.

    Raises:
        StoreError: No installed package knows this store, or its options lack something.
    """
    try:
        store_class = plugins.find(destination.store, plugins.STORES).load()
    except plugins.PluginError as error:
        raise StoreUnsupportedError(str(error)) from error
    try:
        store: Store = store_class.from_options(destination.options)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"cannot open {destination.uri}: {type(error).__name__}: {error}") from error
    return store
