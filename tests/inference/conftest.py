"""A loopback hub with one tiny model, an empty cache, and a registry between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd.inference.models import ModelRegistry
from tests import models
from tests.hub import LoopbackHub
from tests.inference.registries import FILE, REPO, registry_for


@pytest.fixture(scope="session")
def model_bytes(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    models.llama(path)
    return path.read_bytes()


@pytest.fixture
def hub(model_bytes):
    with LoopbackHub() as served:
        served.add(REPO, FILE, model_bytes)
        served.add(REPO, "README.md", b"hello")
        yield served


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def registry(hub, cache) -> ModelRegistry:
    return registry_for(hub, cache)
