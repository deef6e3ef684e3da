"""Settings of a configured provider: its kind, its fields, and their defaults."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from shepherd.config import Setting
from shepherd.config.file import ConfigFile
from shepherd.config.schema import shortened
from shepherd.errors import ConfigError, UsageError
from shepherd.http_endpoint import split_address
from shepherd.wording import joined_hints

__all__ = ["FIELDS", "KINDS", "LOCAL", "Kind", "ProviderSettings", "ProviderTable", "parsed"]


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of provider.

    `key_variables`: where others put the key; read only for the kind's own address, so that the key of one
    company is not sent to the server of another. `window_tokens` is assumed until it is set or learned.
    `options`: what of RemoteModel.generate it can be asked for; "json" is any JSON object, "schema" one by a
    schema.
    """

    name: str
    help: str
    base_url: str = ""
    key_variables: tuple[str, ...] = ()
    needs_key: bool = False
    client: str = ""
    extra: str = ""
    window_tokens: int = 0
    is_local: bool = False
    options: frozenset[str] = frozenset()


_ALL = frozenset({"stop", "json", "schema", "must_call"})

# Gemini and Ollama speak OpenAI's protocol themselves. Their own clients would bring a second and a third
# way to do the same: google-genai alone is larger than Shepherd, and what it adds (files, cache objects) is
# not used here.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("llamacpp", "a GGUF model in this process", is_local=True),
        Kind(
            "openai",
            "OpenAI, or any server that speaks its protocol (vLLM, llama-server, Grok …)",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            needs_key=True,
            client="openai",
            extra="openai",
            window_tokens=128_000,
            options=_ALL,
        ),
        Kind(
            "anthropic",
            "Anthropic's Claude",
            base_url="https://api.anthropic.com",
            key_variables=("ANTHROPIC_API_KEY",),
            needs_key=True,
            client="anthropic",
            extra="anthropic",
            window_tokens=200_000,
            options=_ALL - {"json"},  # its schemas name every property
        ),
        Kind(
            "gemini",
            "Google's Gemini, through its OpenAI-compatible address",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            needs_key=True,
            client="openai",
            extra="gemini",
            window_tokens=1_000_000,
            options=_ALL,
        ),
        Kind(
            "ollama",
            "an Ollama server, by default the one on this machine",
            base_url="http://127.0.0.1:11434/v1",
            key_variables=("OLLAMA_API_KEY",),
            client="openai",
            extra="ollama",
            # Ollama's own default; it truncates longer prompts silently.
            window_tokens=4_096,
            options=_ALL - {"must_call"},  # it takes the field, and does not follow it
        ),
        Kind(
            "shepherd",
            "another Shepherd, which uses its own memory",
            base_url="http://127.0.0.1:8000/v1",
            key_variables=("SHEPHERD_API_KEY",),
            client="openai",
            extra="openai",
            window_tokens=8_192,
            options=_ALL,
        ),
    )
}

# The model in this process, which needs no entry.
LOCAL = "local"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)

FIELDS = {
    setting.key: setting
    for setting in (
        Setting("kind", "text", "", "kind of the provider", choices=tuple(KINDS)),
        Setting("model", "text", "", "the provider's name of the model; llamacpp: a path or local name"),
        Setting("base_url", "text", "", "address of the server; empty: the default of the kind"),
        Setting(
            "memory",
            "switch",
            "auto",
            "whether to recall and learn with this provider; auto (default): only for models in this process",
            choices=("auto",),
        ),
        Setting(
            "window", "whole number", 0, "window in tokens; 0: the default of the kind", least=0, most=1 << 24
        ),
        Setting(
            "max_tokens",
            "whole number",
            0,
            "longest answer in tokens; 0: the setting max_tokens",
            least=0,
            most=1 << 24,
        ),
        Setting(
            "thinking",
            "whole number",
            0,
            "anthropic: limit on thinking tokens; 0: off",
            least=0,
            most=1 << 20,
        ),
        Setting(
            "timeout",
            "number",
            120.0,
            "seconds to wait for output before a request fails",
            least=0.1,
            most=3600,
        ),
        Setting("retries", "whole number", 3, "how often to retry a request", least=0, most=20),
        Setting("key_env", "text", "", "environment variable that holds the API key"),
        Setting("api_key", "text", "", "the API key itself, if not in the environment", secret=True),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider as it is configured. `key_env` and `api_key` are for shepherd.providers.keys alone."""

    name: str
    kind: str
    model: str = ""
    base_url: str = ""
    memory: bool | str = "auto"
    window: int = 0
    max_tokens: int = 0
    thinking: int = 0
    timeout: float = 120.0
    retries: int = 3
    key_env: str = ""
    api_key: str = field(default="", repr=False)

    @classmethod
    def from_entry(cls, name: str, entry: object) -> ProviderSettings:
        """Read an entry, without unknown fields. Raises ConfigError for an invalid value."""
        if not isinstance(entry, Mapping):
            raise ConfigError(f"provider {name}: expected an object {{…}}", hint=_again(name))
        values: dict[str, Any] = {}
        for key, setting in FIELDS.items():
            if key not in entry:
                continue
            try:
                values[key] = setting.check(entry[key])
            except ValueError:
                raise _problem(name, setting) from None
        if "kind" not in values:
            raise ConfigError(f"provider {name}: its kind is missing", hint=_again(name))
        if values.get("base_url"):
            try:
                _checked_url(values["base_url"])
            except UsageError as error:
                raise ConfigError(
                    f"provider {name}: {error}",
                    hint=f"{error.hint}: shepherd provider set {shlex.quote(name)} base_url URL",
                ) from None
        return cls(name, **values)

    @property
    def row(self) -> Kind:
        """Row of its kind in the table."""
        return KINDS[self.kind]

    @property
    def is_local(self) -> bool:
        """Return whether the model runs in this process."""
        return self.row.is_local

    @property
    def address(self) -> str:
        """Return where its server is."""
        return self.base_url.rstrip("/") or self.row.base_url

    @property
    def is_at_home(self) -> bool:
        """Return whether that is the address of the kind itself, for which its usual key is meant."""
        return self.address == self.row.base_url

    @property
    def uses_memory(self) -> bool:
        """Return whether this process recalls and learns while the provider is in use.

        Another Shepherd never gets what this one knows: it has a memory of its own.
        """
        if self.kind == "shepherd":
            return False
        return self.is_local if self.memory == "auto" else self.memory is True

    @property
    def window_tokens(self) -> int:
        """Return the window to reckon with."""
        return self.window or self.row.window_tokens


def _checked_name(name: str) -> str:
    """`name` itself when a provider may be called so, else UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a provider cannot be called {ascii(name)[:42]}",
            hint="use up to 40 letters, digits, dots, dashes and underscores",
        )
    return name


def _checked_url(url: str) -> str:
    """`url` itself when it is the plain address of a server, else UsageError, which does not repeat it."""
    parts = split_address(url)
    if parts is None or url != url.strip():
        raise UsageError("base_url is not an HTTP address", hint="write it like http://127.0.0.1:8080/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "base_url holds more than an address", hint="put a key into api_key, not into the address"
        )
    return url


def _problem(name: str, setting: Setting) -> ConfigError:
    return ConfigError(
        f"provider {name}: {setting.key} is not valid; expected {setting.expected}",
        hint=_again(name)
        if setting.key == "kind"
        else f"shepherd provider set {shlex.quote(name)} {setting.key} VALUE",
    )


def _again(name: str) -> str:
    return f"shepherd provider remove {shlex.quote(name)}; then add it again"


_SECTION = "providers"


class ProviderTable:
    """Read and changes them. Each change is one atomic change of the file, under its lock."""

    def __init__(self, file: ConfigFile | None = None) -> None:
        self._file = file or ConfigFile()

    def names(self) -> list[str]:
        """List all names, the local one first, the others in the order in which they were added."""
        return [LOCAL, *(name for name in self._entries() if name != LOCAL)]

    def get(self, name: str) -> ProviderSettings:
        """Return the provider of that name, "" being the local one; UsageError when there is none."""
        name = name or LOCAL
        entries = self._entries()
        if name in entries:
            return ProviderSettings.from_entry(name, entries[name])
        if name == LOCAL:
            return ProviderSettings(LOCAL, "llamacpp")
        raise UsageError(f"there is no provider {ascii(name)[:42]}", hint=_hint_for(name, entries))

    def configured(self, name: str) -> ProviderSettings:
        """Like `get`, but the error's hint also says how to choose another provider."""
        try:
            return self.get(name)
        except UsageError as error:
            choose = "choose one with -p NAME, or with shepherd config set provider NAME"
            error.hint = joined_hints(error.hint, choose)
            raise

    def add(self, name: str, values: dict[str, Any]) -> ProviderSettings:
        """Make a new one; UsageError when the name is taken, or a value does not fit."""
        _checked_name(name)
        if name == LOCAL or name in self._entries():
            raise UsageError(
                f"provider {name!a} already exists",
                hint=f"shepherd provider set {name} KEY VALUE changes it",
            )
        return ProviderSettings.from_entry(name, self._store(name, values))

    def set(self, name: str, key: str, text: str) -> ProviderSettings | None:
        """Change one field to what a person wrote; "" goes back to the default. The kind stays.

        Returns None, with the field stored, if another field is broken: `get` says which.
        """
        name = name or LOCAL
        entry = self._entries().get(name)
        if not isinstance(entry, Mapping) or entry.get("kind") not in KINDS:
            self.get(name)  # other fields than the one to set can be broken
        if key not in FIELDS or key == "kind":
            known = [field for field in FIELDS if field != "kind"]
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"fields: {', '.join(known)}"
            raise UsageError(f"a provider has no field {ascii(key)[:42]} to set", hint=hint)
        entry = self._store(name, {key: parsed(key, text)}, is_repair=True)
        with suppress(ConfigError):
            return ProviderSettings.from_entry(name, entry)
        return None

    def remove(self, name: str) -> None:
        """Forget it, and its key in the file with it; of the local one, what was set."""
        name = name or LOCAL
        if name not in self._entries():  # one that is there can be broken
            self.get(name)
            raise UsageError(
                "'local' cannot be removed",
                hint="it stands for the model in this process, and is always there",
            )
        with self._file.changing() as document:
            document.get(_SECTION, {}).pop(name, None)
            if document.get("provider") == name:
                del document["provider"]

    def _store(self, name: str, values: dict[str, Any], *, is_repair: bool = False) -> dict[str, Any]:
        """Store fields of an entry, and return it; a repair stores them though others are still broken."""
        with self._file.changing() as document:
            section = document.setdefault(_SECTION, {})
            if not isinstance(section, dict):
                raise _no_table(self._file)
            entry = {"kind": "llamacpp"} | dict(section.get(name, {})) | values
            entry = {key: value for key, value in entry.items() if value is not None}
            if not is_repair:
                ProviderSettings.from_entry(name, entry)
            section[name] = entry
        return entry

    def _entries(self) -> dict[str, Any]:
        section = self._file.read().get(_SECTION, {})
        if not isinstance(section, dict):
            raise _no_table(self._file)
        return section


def parsed(key: str, text: str) -> Any:
    """Return the value of a field that a person wrote; None for "", the default. Raises UsageError."""
    if not text.strip():
        return None
    setting = FIELDS[key]
    try:
        text.encode("utf-8")
        value = setting.parse(text.strip())
    except ValueError:
        default = str(setting.default).lower() or "empty"
        raise UsageError(
            f"{key} is {'not valid' if setting.secret else shortened(text)}; expected {setting.expected}",
            hint=f"'' resets it to the default ({default})",
        ) from None
    return _checked_url(value) if key == "base_url" else value


def _hint_for(name: str, entries: Iterable[str]) -> str:
    if name in KINDS:  # the kind is known, and nobody has added one of it
        return f"to add it under that name, run shepherd provider add {name} {name}"
    if near := get_close_matches(name, [LOCAL, *entries], n=2):
        return f"did you mean {' or '.join(near)}?"
    return "shepherd provider list shows all providers; shepherd provider add NAME KIND adds one"


def _no_table(file: ConfigFile) -> ConfigError:
    return ConfigError(
        f"{file.path}: providers is not a table of providers",
        hint='correct it in an editor: "providers": {"name": {"kind": …}}',
    )
