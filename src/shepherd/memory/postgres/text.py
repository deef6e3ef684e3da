"""How Python's values cross to PostgreSQL and back, where psycopg's own way would not do.

PostgreSQL's text cannot hold U+0000, a file of SQLite can. Here it is stored as the noncharacter U+10FFFE and
"0", and that noncharacter itself with "1": whatever was stored comes back.
"""

from __future__ import annotations

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8Dumper

__all__ = ["escaped", "register"]

_ESCAPE = "\U0010fffe"
_NUL, _ITSELF = _ESCAPE + "0", _ESCAPE + "1"


def escaped(text: str) -> str:
    """`text` as it is stored."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ITSELF).replace("\0", _NUL)


def register(context: AdaptContext) -> None:
    """Makes a connection speak that way."""
    adapters = context.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("text", _BinaryTextLoader)
    # One type for all whole numbers: by size there would be several prepared statements of each.
    adapters.register_dumper(int, Int8Dumper)
    # What sum() makes of BIGINT; whole, all of it.
    adapters.register_loader("numeric", _WholeNumberLoader)


class _TextDumper(Dumper):
    # No oid: the server takes the type that the place wants.
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
