"""Schema of a setting: how its value is read, checked and shown."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from shepherd.errors import ConfigError, UsageError

__all__ = ["Kind", "Setting", "listed", "parse_limit", "parse_size", "percentages", "shortened"]

Kind = Literal["text", "whole number", "number", "switch", "size"]

_SHOWN_CHARS = 40
_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
# A database cannot be kept below this: its tables and indexes alone need a part of it.
_LEAST_DATABASE_BYTES = 1 << 20
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([BKMGT]?)(?:I?B)?\s*", re.IGNORECASE | re.ASCII)
_UNITS = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_MOST_BYTES = 1 << 63  # SQLite counts pages in 64 bits


@dataclass(frozen=True, slots=True)
class Setting:
    """A key with the type, default, range and help of its value.

    `reads` raises ValueError for a text that has not the form that `form` describes.
    """

    key: str
    kind: Kind
    default: Any
    help: str
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()
    secret: bool = False
    form: str = ""
    reads: Callable[[str], object] | None = None

    def shown(self, value: Any) -> Any:
        """Return the value for display: a secret only as set, an address without its password."""
        return "(set)" if self.secret and value else _without_password(value)

    @property
    def environment(self) -> str:
        """Environment variable that overrides the setting."""
        return f"SHEPHERD_{self.key.upper()}"

    @property
    def expected(self) -> str:
        """Description of the valid values: `a whole number from 0 to 100`."""
        if self.kind == "switch":
            return " or ".join(["true", "false", *self.choices])
        if self.choices and self.kind != "text":
            return f"a {self.kind}{_range(self.least, self.most)}, or {' or '.join(self.choices)}"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "size":
            return "a size of at least 1M, such as 500M or 10G"
        if self.kind == "text":
            return self.form or "text"
        return f"a {self.kind}{_range(self.least, self.most)}"

    def parse(self, text: str) -> Any:
        """Return the value that a user wrote as `text`; raises ValueError when it is invalid."""
        if self.kind == "switch":
            return self.check(_SWITCHES.get(text.strip().lower(), text.strip()))
        if text.strip() in self.choices:
            return text.strip()
        if self.kind == "whole number":
            return self.check(int(text.strip()))
        if self.kind == "number":
            return self.check(float(text.strip()))
        return self.check(text)

    def check(self, value: object) -> Any:
        """Return `value`, numbers as this key's type, and a path as text.

        Raises ValueError for a wrong type or range.
        """
        if self.kind == "text" and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if self.kind == "switch":
            good = isinstance(value, bool) or value in self.choices
        elif isinstance(value, str) and value in self.choices:
            good = True
        elif self.kind == "whole number":
            good = type(value) is int and self.least <= value <= self.most
        elif self.kind == "number":
            # NaN fails every comparison, so it is out of every range.
            good = type(value) in (int, float) and self.least <= value <= self.most  # type: ignore[operator]
            value = float(value) if good else value  # type: ignore[arg-type]
        else:
            good = isinstance(value, str) and not self.choices
        if not good:
            raise ValueError(self.expected)
        if self.kind == "size":
            parse_size(str(value), least=_LEAST_DATABASE_BYTES)
        if self.reads is not None:
            self.reads(str(value))
        return value

    def checked(self, value: object) -> Any:
        """Return `value` as `check` does; raises ConfigError with a hint for a program."""
        try:
            return self.check(value)
        except ValueError:
            error = self.problem(value, "Config")
            error.hint = f"the default is {shortened(self.default)}"
            raise error from None

    def problem(self, value: object, where: str) -> ConfigError:
        """Return the error for an invalid `value` that was found in `where`."""
        is_variable = where == self.environment
        return ConfigError(
            f"{where}{': ' if where else ''}{self.key} is {shortened(value)}; expected {self.expected}",
            hint=f"unset {where}, or give it another value"
            if is_variable
            else f"shepherd config set {self.key} {_written(self.default)}   (the default)",
        )


def listed(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the comma-separated names in `text`, each once; raises ValueError for an unknown one."""
    found = [name for name in (part.strip() for part in text.split(",")) if name]
    for name in found:
        if name not in names:
            raise ValueError(f"there is no {shortened(name)}")
    return tuple(dict.fromkeys(found))


def percentages(text: str, names: Collection[str]) -> dict[str, int]:
    """Return the shares of `history=40, memory=60`; raises ValueError unless they add up to 100."""
    shares: dict[str, int] = {}
    for pair in filter(None, (pair.strip() for pair in text.split(","))):
        name, _, number = (part.strip() for part in pair.partition("="))
        listed(name, names)
        if not name or name in shares or not (number.isascii() and number.isdecimal()) or len(number) > 3:
            raise ValueError(f"{shortened(pair)} is not a share")
        shares[name] = int(number)
    if (total := sum(shares.values())) != 100:
        raise ValueError(f"they add up to {total}, not to 100")
    return shares


def parse_size(text: str, *, least: int = 0) -> int:
    """Return the bytes of "10G", "1.5M" or "65536B", in powers of 1024.

    Raises ValueError for a text that is no size, or one below `least`.
    """
    match = _SIZE.fullmatch(text)
    size = float(match[1]) * (1 << _UNITS[match[2].upper()]) if match else -1.0
    if not least <= size < _MOST_BYTES:
        raise ValueError(f"no size of at least {least} bytes")
    return int(size)


def parse_limit(max_db_size: str) -> int:
    """Return the bytes of the setting max_db_size; raises UsageError when it is no size."""
    try:
        return parse_size(max_db_size, least=_LEAST_DATABASE_BYTES)
    except ValueError:
        raise UsageError(
            f"max_db_size: {max_db_size[:40]!r} is not a size of at least 1M",
            hint="write it like 500M, 1.5G or 10G",
        ) from None


def _without_password(value: Any) -> Any:
    """Hide the password of an address such as postgresql://…."""
    if not isinstance(value, str) or "://" not in value:
        return value
    value = re.sub(r"(://[^/?#@:]*):[^/?#]*@", r"\1:***@", value)
    return re.sub(r"(?i)([?&](?:ssl)?password=)[^&#]*", r"\1***", value)


def _range(least: float, most: float) -> str:
    if math.isinf(most):
        return "" if math.isinf(least) else f" of at least {least:g}"
    return f" from {_plain(least)} to {_plain(most)}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def shortened(value: object) -> str:
    """Return a value as JSON, shortened for a message."""
    try:
        text = f'"{ascii(value)[1:-1]}"' if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):  # programs can pass any object
        text = f"of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _written(value: object) -> str:
    """Return a value as a user types it after `config set`."""
    return value if isinstance(value, str) and value else json.dumps(value)
