"""Adapters of Python's values for psycopg, where its own do not suffice.

PostgreSQL's text cannot hold U+0000, SQLite's can. Here it is stored as the noncharacter U+10FFFE and "0",
and that noncharacter itself as U+10FFFE and "1", so that any text comes back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8Dumper

__all__ = ["Copied", "escaped", "lines", "register"]

_ESCAPE = "\U0010fffe"
_NUL, _ITSELF = _ESCAPE + "0", _ESCAPE + "1"
# A field of COPY.
Copied = int | str | bytes | Sequence[str] | Sequence[int] | None
_OF_COPY = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_SPECIAL = re.compile(r"[\\\t\n\r]")


def escaped(text: str) -> str:
    """Return `text` as it is stored."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ITSELF).replace("\0", _NUL)


def lines(rows: Iterable[Sequence[Copied]]) -> bytes:
    """Return rows in COPY's text format. The texts of a sequence are terms."""
    return "".join(["\t".join([_copied(value) for value in row]) + "\n" for row in rows]).encode()


def _copied(value: Copied) -> str:
    if isinstance(value, str):
        value = escaped(value)
        return value.translate(_OF_COPY) if _SPECIAL.search(value) else value
    if value is None:
        return r"\N"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return rf"\\x{value.hex()}"
    if not value or isinstance(value[0], int):
        return "{" + ",".join(map(str, value)) + "}"
    # Quoted, since a word may be null. Terms have no quotes, backslashes or blanks.
    return '{"' + '","'.join(value) + '"}'  # type: ignore[arg-type]


def register(context: AdaptContext) -> None:
    """Register the adapters with a connection."""
    adapters = context.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("text", _BinaryTextLoader)
    # One type for all integers: with types by size there would be several prepared statements for each.
    adapters.register_dumper(int, Int8Dumper)
    # The type of sum() over BIGINT, always an integer here.
    adapters.register_loader("numeric", _WholeNumberLoader)


class _TextDumper(Dumper):
    # No oid: the server infers the type.
    def dump(self, obj: str) -> bytes:
        return escaped(obj).encode()


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        if _ESCAPE in text:
            text = text.replace(_NUL, "\0").replace(_ITSELF, _ESCAPE)
        return text


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


class _WholeNumberLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data))
