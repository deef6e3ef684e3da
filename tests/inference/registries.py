"""Tiny models on a loopback hub, and a registry that pulls from it."""

from __future__ import annotations

from pathlib import Path

from shepherd.inference.hub import Hub
from shepherd.inference.models import ModelRegistry
from tests.hub import LoopbackHub

REPO = "acme/Tiny-GGUF"
SPEC = f"hf:{REPO}:Q8_0"
FILE = "tiny-q8_0.gguf"


def registry_for(hub: LoopbackHub, cache: Path, *, token: str | bool = False) -> ModelRegistry:
    client = Hub(endpoint=hub.endpoint, token=token, retry_wait_s=0.01)
    return ModelRegistry(cache=cache, hub=client, built_in=cache / "none.gguf")


def everything_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def with_name(data: bytes, number: int) -> bytes:
    """The same model under another name of the same length, so that checksums differ."""
    return data.replace(b"tiny-plain", b"tiny-par-%d" % number)


def fail_store(hub: LoopbackHub, **fault: object) -> None:
    """Spoil the next answer of the store alone; the hub's own paths have /resolve/ in them."""
    hub.fail(f"/{REPO}/{FILE}", **fault)
