"""From a configured provider to a model that answers."""

from __future__ import annotations

from collections.abc import Callable, Collection

from shepherd.errors import UsageError
from shepherd.providers.accounting import RatioStore
from shepherd.providers.anthropic_messages import AnthropicMessages
from shepherd.providers.chat_completions import ChatCompletions
from shepherd.providers.clients import require_client
from shepherd.providers.exchange import RetryPolicy
from shepherd.providers.keys import require_key
from shepherd.providers.remote import RemoteModel, Transport
from shepherd.providers.settings import ProviderSettings

__all__ = ["open_remote"]

# Kinds whose server serves one model, or chooses one itself.
_CHOOSES = {"shepherd"}


def open_remote(
    provider: ProviderSettings,
    *,
    sends: Collection[str] = (),
    asks_memory: Callable[[], bool] = lambda: True,
    policy: RetryPolicy | None = None,
    ratios: RatioStore | None = None,
) -> RemoteModel:
    """A model of this provider, to be closed. Nothing is sent and no client is loaded yet.

    UsageError when its client is not installed or no model is named, ProviderKeyError when the key is
    missing.
    """
    if provider.is_local:
        raise UsageError(f"provider {provider.name} is in this process", hint="open its model with Engine")
    if (
        not provider.model
        and provider.kind not in _CHOOSES
        and (provider.kind != "openai" or provider.is_at_home)
    ):
        raise UsageError(
            f"provider {provider.name} has no model",
            hint=f"shepherd provider set {provider.name} model NAME, or -m NAME",
        )
    require_client(provider)
    key = require_key(provider)
    transport: Transport
    transport = (
        AnthropicMessages(provider, key) if provider.kind == "anthropic" else ChatCompletions(provider, key)
    )
    return RemoteModel(
        provider, transport, sends=sends, asks_memory=asks_memory, policy=policy, ratios=ratios
    )
