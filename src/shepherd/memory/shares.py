"""What each user's rows take: who holds most gives first when the database is full. Knowledge never gives.

Estimates from lengths of texts, on both engines; whether there is room at all is the engine's to measure.
Inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shepherd.memory.connection import Connection
from shepherd.memory.tenants import ROW_BYTES

__all__ = ["OWN_BYTES_SQL", "Holder", "KnowledgeBytes", "holders", "knowledge_bytes"]

# Of a row of `tenants`: the text of memories, as much again for their words, and conversations.
OWN_BYTES_SQL = "2 * bytes + message_bytes"
# What is cut into chunks is there as itself, as its chunks and as their words. An edge counts half at either
# end. Lengths alone: neither engine reads a long text to tell its length.
_KNOWLEDGE = (
    "SELECT user_id, CAST(sum(3 * (octet_length(source_text) + octet_length(title)"
    " + octet_length(description) + octet_length(notes)) + octet_length(metadata) + octet_length(link)"
    f" + {2 * ROW_BYTES} + {ROW_BYTES // 2} * n_edges) AS BIGINT) FROM nodes GROUP BY user_id"
)
# A node that comes or goes, or gets another text, changes one of these; rolled back, they are as before.
_STATE = (
    "SELECT count(*), coalesce(sum(version), 0), coalesce(sum(next_node + next_edge), 0) FROM knowledge_sums"
)


class Holder(NamedTuple):
    """A user, and about what that user's rows take with their indexes; `memory_bytes` is text alone."""

    tenant: int
    user_id: str
    n: int
    memory_bytes: int
    all_bytes: int


class KnowledgeBytes:
    """knowledge_bytes, added up anew when knowledge has changed. For committed rows alone."""

    # 100,000 nodes take a tenth of a second, and a full database asks with every write.
    def __init__(self) -> None:
        self._known: tuple[object, Mapping[str, int]] = (None, {})

    def of(self, connection: Connection) -> Mapping[str, int]:
        """By user, as this transaction sees it; who has none is missing."""
        [state] = connection.execute(_STATE)
        if self._known[0] != state:
            self._known = (state, knowledge_bytes(connection))
        return self._known[1]


def knowledge_bytes(connection: Connection) -> dict[str, int]:
    """About what each user's knowledge takes; who has none is missing."""
    return dict(connection.execute(_KNOWLEDGE))


def holders(connection: Connection, knowledge: Mapping[str, int], n_first: int) -> list[Holder]:
    """Users, the one who holds most first: all of them, or where nobody has knowledge the first `n_first`."""
    first = "" if knowledge else f" ORDER BY {OWN_BYTES_SQL} DESC, number LIMIT {n_first}"
    rows = connection.execute(f"SELECT number, user_id, n, bytes, {OWN_BYTES_SQL} FROM tenants{first}")
    found = [
        Holder(number, user_id, n, memory_bytes, own_bytes + knowledge.get(user_id, 0))
        for number, user_id, n, memory_bytes, own_bytes in rows
    ]
    return sorted(found, key=lambda holder: (-holder.all_bytes, holder.tenant))
