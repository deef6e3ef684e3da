"""API keys: the sources in which one is looked up, and the protection against leaks.

Environment, then the system's keyring, then config.json (mode 0600). A key is handed to the client library
and to nothing else; every text that comes back from a server passes `without_key` before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from shepherd import system_keyring
from shepherd.errors import ProviderKeyError
from shepherd.http_endpoint import is_header_value
from shepherd.providers.settings import ProviderSettings

__all__ = ["ApiKey", "find_key", "forget_in_keyring", "require_key", "store_in_keyring", "without_key"]

# Shorter ones are words, which a message may well hold by itself.
_LEAST_SECRET_CHARS = 6


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key and where it was found: `OPENAI_API_KEY`, `keyring`, `config.json`; both empty without one."""

    value: str = field(default="", repr=False)
    source: str = ""

    def __bool__(self) -> bool:
        return bool(self.value)


def find_key(provider: ProviderSettings, environ: Mapping[str, str] | None = None) -> ApiKey:
    """Return the provider's key, if there is one. A keyring that cannot be opened has none."""
    environ = os.environ if environ is None else environ
    variables = [provider.key_env] if provider.key_env else []
    if provider.is_at_home and not provider.key_env:
        variables = list(provider.row.key_variables)
    for variable in variables:
        if value := environ.get(variable, "").strip():
            return ApiKey(value, variable)
    if value := system_keyring.lookup(provider.name):
        return ApiKey(value, "keyring")
    return ApiKey(provider.api_key, "config.json") if provider.api_key else ApiKey()


def require_key(provider: ProviderSettings) -> ApiKey:
    """Return the key; ProviderKeyError when this provider cannot do without and there is none.

    A key that no HTTP header can carry is refused here: clients say so with the key in their message.
    """
    key = find_key(provider)
    if not key and provider.row.needs_key and provider.is_at_home:
        variable = provider.key_env or provider.row.key_variables[0]
        raise ProviderKeyError(
            f"provider {provider.name} has no API key",
            hint=f"export {variable}=…, or shepherd provider set {provider.name} api_key",
        )
    if not is_header_value(key.value):
        raise ProviderKeyError(
            f"the API key of provider {provider.name} contains characters that no key has",
            hint=f"copy it again; it comes from {key.source}",
        )
    return key


def store_in_keyring(name: str, value: str) -> None:
    """Put the key of the provider of that name into the system's keyring."""
    system_keyring.store(name, value, instead="drop --keyring")


def forget_in_keyring(name: str) -> None:
    """Take the key out of the keyring, if one is there."""
    system_keyring.forget(name)


def without_key(text: str, key: str) -> str:
    """Return the text with the key replaced, should somebody have repeated it."""
    return text.replace(key, "***") if len(key) >= _LEAST_SECRET_CHARS else text
