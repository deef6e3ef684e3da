"""Sizes as people write them: `10G`, `1.5M`, `65536`."""

from __future__ import annotations

import re

from shepherd.errors import UsageError

__all__ = ["LEAST_DATABASE_BYTES", "parse_limit", "parse_size"]

# A database cannot be kept below this: its tables and indexes alone need a part of it.
LEAST_DATABASE_BYTES = 1 << 20

_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([BKMGT]?)(?:I?B)?\s*", re.IGNORECASE | re.ASCII)
_UNITS = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40}
# SQLite counts pages in 64 bits; more digits than this are no size anybody has.
_MOST_BYTES = 1 << 63


def parse_size(text: str, *, least: int = 0) -> int:
    """Bytes of "10G", "1.5M", "65536B"; powers of 1024. ValueError for none or one below `least`."""
    match = _SIZE.fullmatch(text)
    size = float(match[1]) * (1 << _UNITS[match[2].upper()]) if match else -1.0
    if not least <= size < _MOST_BYTES:
        raise ValueError(f"no size of at least {least} bytes")
    return int(size)


def parse_limit(max_db_size: str) -> int:
    """Bytes of the setting max_db_size; UsageError for what is none."""
    try:
        return parse_size(max_db_size, least=LEAST_DATABASE_BYTES)
    except ValueError:
        raise UsageError(
            f"max_db_size: {max_db_size[:40]!r} is no size of at least 1M",
            hint="write it like 500M, 1.5G or 10G",
        ) from None
