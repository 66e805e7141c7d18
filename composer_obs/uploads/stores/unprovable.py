"""Destinations that offer no way to ask what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from composer_obs.uploads.stores.base import Store, StoredObject, StoreUnsupportedError

__all__ = ["UnprovableStore"]


class UnprovableStore(Store):
    """Answers every question with the reason why it cannot be answered.

    Args:
        reason (str): Why, and what a person can do instead.
    """

    kind = "unprovable"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> UnprovableStore:
        return cls(str(options["reason"]))

    def head(self, key: str) -> StoredObject:
        del key
        raise StoreUnsupportedError(self._reason)
