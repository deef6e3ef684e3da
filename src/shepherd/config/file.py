"""Sources of settings: `config.json`, `SHEPHERD_<KEY>` in the environment, options of the command line.

The file keeps keys that this version does not know. A later source wins: default, file, environment, option.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from shepherd.config import SETTINGS, Config, known_setting
from shepherd.config.schema import Setting
from shepherd.errors import ConfigError
from shepherd.paths import config_file, is_special, locked, write_atomically

__all__ = ["ConfigFile", "Loaded", "Source", "all_of", "load", "load_valid", "parse_document", "unknown_keys"]

Source = Literal["default", "file", "environment", "option"]

# Keys of the file with a table of their own.
_TABLES = ("providers",)
_ELSEWHERE = "SHEPHERD_CONFIG=<path> names another file"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Effective settings, and the source of each; `problems` are the errors of invalid ones, by key."""

    config: Config
    sources: Mapping[str, Source]
    path: Path
    problems: Mapping[str, ConfigError] = field(default_factory=dict)


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
) -> Loaded:
    """Return the effective settings: defaults, then file, SHEPHERD_<KEY> and `options` but None.

    An empty variable counts as not set. Raises ConfigError, which names all invalid values.
    """
    loaded = load_valid(path, environ=environ, options=options)
    if loaded.problems:
        raise all_of(loaded)
    return loaded


def load_valid(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
) -> Loaded:
    """Return the settings as `load` does, but ignore invalid values: the valid ones before them stay.

    Raises ConfigError for a file that cannot be read.
    """
    environ = os.environ if environ is None else environ
    file = ConfigFile(path)
    given: list[tuple[Source, str, Callable[[], Any]]] = []
    for key, value in file.read().items():
        if key in SETTINGS:
            given.append(("file", key, partial(_checked, SETTINGS[key], value, str(file.path))))
    for key, setting in SETTINGS.items():
        if text := environ.get(setting.environment):
            given.append(("environment", key, partial(_parsed, setting, text, setting.environment)))
    for key, value in (options or {}).items():
        if value is not None:
            given.append(("option", key, partial(_checked, SETTINGS[key], value, "command line")))
    values: dict[str, Any] = {key: setting.default for key, setting in SETTINGS.items()}
    sources: dict[str, Source] = dict.fromkeys(SETTINGS, "default")
    problems: dict[str, ConfigError] = {}
    for source, key, read in given:
        try:
            values[key], sources[key] = read(), source
        except ConfigError as error:
            problems.setdefault(key, error)
            sources[key] = source
    return Loaded(Config(**values), sources, file.path, problems)


def all_of(loaded: Loaded) -> ConfigError:
    """Return one error for all invalid values; the path of the file is named once."""
    first, *others = loaded.problems.values()
    told = [str(first), *(str(error).removeprefix(f"{loaded.path}: ") for error in others)]
    return ConfigError(". Also, ".join(told), hint="; ".join(one.hint for one in loaded.problems.values()))


def unknown_keys(document: Mapping[str, object]) -> list[str]:
    """Return the keys of a configuration file that this version does not know."""
    return [key for key in document if key not in SETTINGS and key not in _TABLES]


class ConfigFile:
    """`config.json`, written atomically with mode 0600.

    `set` and `unset` check no other key than the one they change, so that a bad file can be repaired.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_file()

    def read(self) -> dict[str, Any]:
        """Return everything in the file, unknown keys too; {} when there is no file."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except (IsADirectoryError, NotADirectoryError) as error:
            raise ConfigError(f"{self.path}: this is a folder, not a file", hint=_ELSEWHERE) from error
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}", hint=_ELSEWHERE) from error
        document = parse_document(data, self.path)
        if not isinstance(document, dict):
            raise ConfigError(
                f"{self.path}: expected an object {{…}}, found {_json_name(document)}",
                hint="put the settings between { and }, or remove the file to start afresh",
            )
        return document

    def set(self, key: str, text: str) -> Any:
        """Change one setting to the value that a user wrote as `text`, and return it."""
        value = _parsed(known_setting(key), text)
        with self.changing() as document:
            document[key] = value
        return value

    def unset(self, key: str) -> bool:
        """Reset one setting to its default; returns False when the file did not have it."""
        with self.changing() as document:
            if key not in document:
                known_setting(key)
                return False
            del document[key]
        return True

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Give the whole document, and write it back at the end of the block if it was changed."""
        # Read and write under one lock, so that two processes can change different keys at once.
        target = Path(os.path.realpath(self.path))  # a link into a dotfiles folder stays a link
        if is_special(target):  # a rename would delete it, and reading a pipe could wait forever
            raise ConfigError(f"{self.path}: this is a device or a pipe, not a file", hint=_ELSEWHERE)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(target.parent):
                document = self.read()
                before = json.dumps(document)
                yield document
                if json.dumps(document) != before or not target.exists():
                    write_atomically(target, _serialised(document))
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be written: {error.strerror}; nothing was changed", hint=_ELSEWHERE
            ) from error


def parse_document(data: bytes, path: Path) -> object:
    """Return the content of a JSON file, {} for an empty one; raises ConfigError with line and column."""
    try:
        return json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start} is not UTF-8", hint=f"save the file as UTF-8, or remove it: {path}"
        ) from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}: line {error.lineno}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}",
            hint="correct it in an editor, or remove the file to start afresh",
        ) from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits; ten thousand brackets
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise ConfigError(f"{path}: {reason}", hint="correct it in an editor, or remove the file") from None


def _serialised(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate, which only JSON's own escapes can carry
        return (json.dumps(document, indent=2) + "\n").encode("ascii")


def _checked(setting: Setting, value: object, where: str) -> Any:
    try:
        return setting.check(value)
    except ValueError:
        raise setting.problem(value, where) from None


def _parsed(setting: Setting, text: str, where: str = "") -> Any:
    try:
        text.encode("utf-8")
        return setting.parse(text)
    except ValueError:
        raise setting.problem(text, where) from None


def _json_name(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
