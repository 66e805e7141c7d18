"""What the linter says about Composer, shown with Composer.

Each test in this folder proves the claim of one rule: a template that breaks it fails as the rule says, and
one that keeps it does not. A test that goes red after an upgrade of Composer names the rule to change.
"""

from __future__ import annotations

import importlib
import pkgutil

from composer_obs.findings import Severity
from composer_obs.placeholders.rules import RULES
from tests.system import claims
from tests.system.claims._claims import PROVEN

#: Says nothing about what Composer does.
ABOUT_TEXT = {"PH000"}


def test_every_error_that_speaks_of_composer_is_proven_with_composer() -> None:
    for module in pkgutil.iter_modules(claims.__path__):
        importlib.import_module(f"{claims.__name__}.{module.name}")
    errors = {rule.code for rule in RULES if rule.severity is Severity.ERROR}
    assert errors - ABOUT_TEXT <= PROVEN
