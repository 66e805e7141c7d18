"""`loader`: a test runs on libyaml and on the loader in pure Python, which some installations have alone."""

from __future__ import annotations

import pytest
import yaml

from composer_obs.placeholders.sources import yaml_nodes

LOADERS = [yaml.SafeLoader] + ([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__)
def loader(request, monkeypatch):
    ours = type("Loader", (yaml_nodes._Tags, request.param), {})
    monkeypatch.setattr(yaml_nodes, "_LOADER", ours)
    return ours
