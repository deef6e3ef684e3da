"""Keeps the database under max_db_size by removing what is oldest, from those who hold most.

What counts is pages in use, not the file: a reader keeps the file from shrinking, and pruning that waits for
that removes everything. Nothing is compacted here: a VACUUM needs the whole size again and stops writers.

The user who holds most gives first, so that nobody's rows push out those of somebody who holds less: old
conversations before memories, since what mattered in them has been stored as memories; never the latest
conversation, never pinned memories, never facts.
"""

from __future__ import annotations

import logging
import re

from shepherd._native.store import Connection
from shepherd.errors import UsageError
from shepherd.memory import memories, sessions
from shepherd.memory.database import Database
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["MINIMUM_BYTES", "is_over", "parse_size", "prune", "used_bytes"]

MINIMUM_BYTES = 1 << 20

_log = logging.getLogger(__name__)
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([BKMGT]?)(?:I?B)?\s*", re.IGNORECASE | re.ASCII)
_UNITS = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40}

# Rows per transaction: a writer beside us waits a few milliseconds at most.
_MOST_ROWS = 128
# Pages of the full-text index to merge per transaction: its entries only free their pages when merged.
_MERGED_PAGES = 64


def parse_size(text: str) -> int:
    """Bytes of "10G", "1.5M", "65536B"; units are powers of 1024; at least 1 MiB."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"max_db_size: {text[:40]!r} is no size", hint="write it like 500M, 1.5G or 10G")
    size = int(float(match[1]) * (1 << _UNITS[match[2].upper()]))
    if not MINIMUM_BYTES <= size < 1 << 63:
        raise UsageError(f"max_db_size: {text[:40]!r} is out of range", hint="use at least 1M")
    return size


def used_bytes(connection: Connection) -> int:
    """Bytes of the pages in use, as this connection's transaction sees them."""
    page_size = connection.execute("PRAGMA page_size")[0][0]
    pages = connection.execute("PRAGMA page_count")[0][0] - connection.execute("PRAGMA freelist_count")[0][0]
    return int(pages * page_size)


def is_over(connection: Connection, limit: int) -> bool:
    """Whether there is something to prune."""
    return used_bytes(connection) > limit


def prune(database: Database, limit: int) -> int:
    """Removes what is oldest, in small transactions, until the rest fits; how many memories that were."""
    n_removed = 0
    exhausted: set[int] = set()
    while True:
        with database.write() as connection:
            excess = used_bytes(connection) - limit
            if excess <= 0:
                return n_removed
            holders = connection.execute(
                "SELECT number, user_id, n, bytes FROM tenants ORDER BY bytes DESC, number LIMIT ?",
                (len(exhausted) + 2,),
            )
            holders = [holder for holder in holders if holder[0] not in exhausted]
            if not holders:
                _log.warning("%s: over max_db_size, and nothing is left that may be removed", database.path)
                return n_removed
            tenant, user_id, n, size = holders[0]
            runner_up = holders[1][3] if len(holders) > 1 else 0
            if not sessions.drop_oldest(connection, user_id):
                n_rows = _rows_to_remove(n, size, min(excess, size - runner_up))
                removed = memories.delete(connection, tenant, _oldest(connection, tenant, n_rows))
                n_removed += removed
                if not removed:
                    exhausted.add(tenant)
                    continue
            if is_over(connection, limit):
                connection.execute(
                    "INSERT INTO context_fts(context_fts, rank) VALUES('merge', ?)", (_MERGED_PAGES,)
                )


def _rows_to_remove(n: int, size: int, wanted: int) -> int:
    # Half of what seems to be needed: what a row frees shows only afterwards, and too much would be lost.
    return min(max(wanted * n // (2 * max(size, 1)), 1), _MOST_ROWS)


def _oldest(connection: Connection, tenant: int, n_rows: int) -> list[int]:
    rows = connection.execute(
        f"SELECT id FROM context WHERE id >> {SEQUENCE_BITS} = ? AND pinned = 0"
        " ORDER BY timestamp, id LIMIT ?",
        (tenant, n_rows),
    )
    return [memory_id for (memory_id,) in rows]
