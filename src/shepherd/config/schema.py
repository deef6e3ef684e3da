"""One setting: what its value may be, how a person writes it, and how it may be shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from shepherd.bytesize import LEAST_DATABASE_BYTES, parse_size
from shepherd.errors import ConfigError

__all__ = ["Kind", "Setting", "listed", "percentages", "shortened"]

Kind = Literal["text", "whole number", "number", "switch", "size"]

_SHOWN_CHARS = 40
_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the table: how its value is read, checked and explained.

    `reads` raises ValueError for a text that is none of what `form` says in words.
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
        """The value as it may be printed: that a secret is set, not what it is."""
        return "(set)" if self.secret and value else _without_password(value)

    @property
    def environment(self) -> str:
        """The name of the variable that overrides it."""
        return f"SHEPHERD_{self.key.upper()}"

    @property
    def expected(self) -> str:
        """What a value may be, in words: `a whole number from 0 to 100`."""
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
        """The value that a person wrote as `text`; raises ValueError when it is none."""
        if self.kind == "switch":
            return self.check(_WORDS.get(text.strip().lower(), text.strip()))
        if text.strip() in self.choices:
            return text.strip()
        if self.kind == "whole number":
            return self.check(int(text.strip()))
        if self.kind == "number":
            return self.check(float(text.strip()))
        return self.check(text)

    def check(self, value: object) -> Any:
        """`value` itself when its type and range are right, numbers as this key's type; else ValueError."""
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
            good = isinstance(value, str) and (not self.choices or value in self.choices)
            good = good and (self.kind != "size" or _is_size(str(value)))
        if not good:
            raise ValueError(self.expected)
        if self.reads is not None:
            self.reads(str(value))
        return value

    def problem(self, value: object, where: str) -> ConfigError:
        """The error that says that `value`, found in `where`, does not fit this key."""
        return ConfigError(
            f"{where}{': ' if where else ''}{self.key} is {shortened(value)}; expected {self.expected}",
            hint=f"shepherd config set {self.key} {_written(self.default)}   (the default)",
        )


def listed(text: str, names: Collection[str]) -> tuple[str, ...]:
    """The names in `text`, with commas between them, each once; ValueError names the first that is none."""
    found = [name for name in (part.strip() for part in text.split(",")) if name]
    for name in found:
        if name not in names:
            raise ValueError(f"there is no {shortened(name)}")
    return tuple(dict.fromkeys(found))


def percentages(text: str, names: Collection[str]) -> dict[str, int]:
    """`history=40, memory=60` as whole numbers that make 100; ValueError says what is wrong."""
    shares: dict[str, int] = {}
    for pair in filter(None, (pair.strip() for pair in text.split(","))):
        name, _, number = (part.strip() for part in pair.partition("="))
        listed(name, names)
        if not name or name in shares or not (number.isascii() and number.isdecimal()) or len(number) > 3:
            raise ValueError(f"{shortened(pair)} is no share")
        shares[name] = int(number)
    if (total := sum(shares.values())) != 100:
        raise ValueError(f"they add up to {total}, not to 100")
    return shares


def _without_password(value: Any) -> Any:
    """`value` as it may be shown: of an address such as postgresql://… the password is left out."""
    if not isinstance(value, str) or "://" not in value:
        return value
    value = re.sub(r"(://[^/?#@:]*):[^/?#]*@", r"\1:***@", value)
    return re.sub(r"(?i)([?&](?:ssl)?password=)[^&#]*", r"\1***", value)


def _is_size(text: str) -> bool:
    try:
        return parse_size(text, least=LEAST_DATABASE_BYTES) > 0
    except ValueError:
        return False


def _range(least: float, most: float) -> str:
    if math.isinf(most):
        return "" if math.isinf(least) else f" of at least {least:g}"
    return f" from {_plain(least)} to {_plain(most)}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def shortened(value: object) -> str:
    """A value as JSON, shortened for a message."""
    text = json.dumps(value, ensure_ascii=True) if not isinstance(value, str) else f'"{ascii(value)[1:-1]}"'
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _written(value: object) -> str:
    """A value as one would type it after `config set`."""
    return value if isinstance(value, str) and value else json.dumps(value)
