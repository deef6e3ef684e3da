"""Real clients, real HTTP on loopback, pauses that take no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from shepherd.providers import ProviderSettings, RemoteModel, open_remote
from shepherd.providers.accounting import RatioStore
from shepherd.providers.exchange import RetryPolicy
from tests.providers.upstream import Step, Upstream, running

KEY = "sk-test-1234567890abcdef"


@pytest.fixture
def upstream() -> Iterator[Callable[..., Upstream]]:
    """Starts a server with a script."""
    with ExitStack() as stack:
        yield lambda *script: stack.enter_context(running(*script))


@pytest.fixture
def new_model(upstream, tmp_path) -> Iterator[Callable[..., RemoteModel]]:
    """A model of a kind at a server that follows the steps; keywords are the provider's fields."""
    with ExitStack() as stack:

        def make(kind: str, *script: Step, **fields) -> RemoteModel:
            options = {name: fields.pop(name) for name in ("sends", "asks_memory") if name in fields}
            server = upstream(*script) if script else None
            path = "" if kind == "anthropic" else "/v1"
            defaults = {"model": "m", "timeout": 5.0, "api_key": KEY}
            if server is not None:
                defaults["base_url"] = server.url + path
            provider = ProviderSettings("work", kind, **{**defaults, **fields})
            policy = RetryPolicy(provider.retries, first_s=0.001, longest_s=0.1)
            ratios = RatioStore(tmp_path / "ratios.json")
            model = open_remote(provider, policy=policy, ratios=ratios, **options)
            stack.callback(model.close)
            model.upstream = server
            return model

        yield make
