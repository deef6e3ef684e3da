"""The configured providers: the table `providers` of config.json."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from shepherd.config.file import ConfigFile
from shepherd.errors import ConfigError, UsageError
from shepherd.providers.settings import FIELDS, LOCAL, ProviderSettings, checked_name, checked_url

__all__ = ["ProviderTable"]

_SECTION = "providers"


class ProviderTable:
    """Reads and changes them. Each change is one atomic change of the file, under its lock."""

    def __init__(self, file: ConfigFile | None = None) -> None:
        self._file = file or ConfigFile()

    def names(self) -> list[str]:
        """All names, the local one first, the others in the order in which they were added."""
        return [LOCAL, *(name for name in self._entries() if name != LOCAL)]

    def get(self, name: str) -> ProviderSettings:
        """The provider of that name, "" being the local one; UsageError when there is none."""
        name = name or LOCAL
        entries = self._entries()
        if name in entries:
            return ProviderSettings.from_entry(name, entries[name])
        if name == LOCAL:
            return ProviderSettings(LOCAL, "llamacpp")
        near = get_close_matches(name, [LOCAL, *entries], n=2)
        raise UsageError(
            f"there is no provider {ascii(name)[:42]}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else "shepherd provider list shows all of them; -p or the setting 'provider' names one",
        )

    def add(self, name: str, values: dict[str, Any]) -> ProviderSettings:
        """Make a new one; UsageError when the name is taken, or a value does not fit."""
        checked_name(name)
        if name == LOCAL or name in self._entries():
            raise UsageError(
                f"there is a provider {name} already",
                hint=f"shepherd provider set {name} KEY VALUE changes it",
            )
        return self._store(name, values)

    def set(self, name: str, key: str, text: str) -> ProviderSettings:
        """Change one field to what a person wrote; "" goes back to the default. The kind stays."""
        provider = self.get(name)
        if key not in FIELDS or key == "kind":
            known = [field for field in FIELDS if field != "kind"]
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"fields: {', '.join(known)}"
            raise UsageError(f"a provider has no field {ascii(key)[:42]} to set", hint=hint)
        return self._store(provider.name, {key: parsed(key, text)})

    def remove(self, name: str) -> None:
        """Forget it, and its key in the file with it; of the local one, what was set."""
        if self.get(name).name not in self._entries():
            raise UsageError("the model in this process cannot be removed", hint="it needs no entry")
        with self._file.changing() as document:
            document.get(_SECTION, {}).pop(name, None)
            if document.get("provider") == name:
                del document["provider"]

    def _store(self, name: str, values: dict[str, Any]) -> ProviderSettings:
        with self._file.changing() as document:
            section = document.setdefault(_SECTION, {})
            if not isinstance(section, dict):
                raise _no_table(self._file)
            entry = {"kind": "llamacpp"} | dict(section.get(name, {})) | values
            entry = {key: value for key, value in entry.items() if value is not None}
            stored = ProviderSettings.from_entry(name, entry)
            section[name] = entry
        return stored

    def _entries(self) -> dict[str, Any]:
        section = self._file.read().get(_SECTION, {})
        if not isinstance(section, dict):
            raise _no_table(self._file)
        return section


def parsed(key: str, text: str) -> Any:
    """The value of a field that a person wrote; None for "", the default. Raises UsageError."""
    if not text.strip():
        return None
    setting = FIELDS[key]
    try:
        text.encode("utf-8")
        value = setting.parse(text.strip())
    except ValueError:
        default = str(setting.default).lower() or "empty"
        raise UsageError(
            f"{key} does not fit; expected {setting.expected}", hint=f"'' is the default: {default}"
        ) from None
    return checked_url(value) if key == "base_url" else value


def _no_table(file: ConfigFile) -> ConfigError:
    return ConfigError(
        f"{file.path}: providers is no table of providers",
        hint='correct it in an editor: "providers": {"name": {"kind": …}}',
    )
