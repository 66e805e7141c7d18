"""Observability for MosaicML Composer runs: what arrived, what is wrong, what to do.

The public names are loaded on first use, so that ``import composer_obs`` costs milliseconds and
imports neither torch nor composer.

Example:
    >>> import composer_obs
    >>> sorted(composer_obs.__all__)[:2]
    ['ComposerObsError', 'Finding']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from composer_obs.errors import ComposerObsError as ComposerObsError
    from composer_obs.findings import Finding as Finding
    from composer_obs.findings import Rule as Rule
    from composer_obs.findings import Severity as Severity
    from composer_obs.placeholders.lint import lint_kwargs as lint_kwargs
    from composer_obs.placeholders.linter import PlaceholderLinter as PlaceholderLinter
    from composer_obs.uploads.auditor import UploadAuditor as UploadAuditor

__version__ = "0.1.0"

_HOME = {
    "ComposerObsError": "composer_obs.errors",
    "Finding": "composer_obs.findings",
    "PlaceholderLinter": "composer_obs.placeholders.linter",
    "Rule": "composer_obs.findings",
    "Severity": "composer_obs.findings",
    "UploadAuditor": "composer_obs.uploads.auditor",
    "lint_kwargs": "composer_obs.placeholders.lint",
}
__all__ = [
    "ComposerObsError",
    "Finding",
    "PlaceholderLinter",
    "Rule",
    "Severity",
    "UploadAuditor",
    "__version__",
    "lint_kwargs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
