"""Removal of a user: all rows, in every table, with the words of their texts."""

from __future__ import annotations

from collections import Counter

from shepherd.memory import forgetting, memories, tenants
from shepherd.memory.schema import memory_range
from shepherd.memory.store import MemoryStore
from shepherd.transactions import Connection

__all__ = ["KEYS_IN_META", "parts_of", "remove_user", "revoke"]

_AT_ONCE = 200
# In an order that the foreign keys allow; messages and chunks, which have more to them, are removed before.
_TABLES = (
    "facts",
    "fact_history",
    "learned",
    "ledger",
    "extraction_jobs",
    "trace",
    "focused_nodes",
    "node_dimensions",
    "dimensions",
    "edges",
    "nodes",
    "sessions",
)
# Keys in `meta` that end with a user's id.
KEYS_IN_META = ("learned_shown/", "learned_last/", "account/")


def parts_of(connection: Connection, user_id: str) -> list[str]:
    """Return the user, and the parts of the memory that programs with one of the user's keys have named."""
    if not connection.execute("SELECT 1 FROM api_keys WHERE owner = ? LIMIT 1", (user_id,)):
        return [user_id]
    found = {
        part
        for table in ("tenants", *_TABLES)
        for (part,) in connection.execute(
            f"SELECT DISTINCT user_id FROM {table} WHERE user_id >= ? AND user_id < ?",
            (f"{user_id}/", f"{user_id}0"),
        )
    }
    return [user_id, *sorted(found)]


def remove_user(store: MemoryStore, user_id: str, now: int) -> tuple[Counter[str], list[str], list[str]]:
    """Delete everything of a user; return the rows by table, and what MemoryStore.erase returns.

    Memories and chunks go in small transactions, so that other users can write. Keys of the user are revoked
    and lose the name; their hashes stay, so that no server that needed a key is open to everybody.
    """
    removed: Counter[str] = Counter()
    files: list[str] = []
    for one in store.read(lambda connection: parts_of(connection, user_id)):
        more, more_files = _remove_one(store, one)
        removed += more
        files += more_files
    store.write(user_id, lambda connection: revoke(connection, user_id, now))
    # Once more: the names are in the log.
    return +removed, files, store.erase(user_id)[1] + store.older_keys()


def _remove_one(store: MemoryStore, user_id: str) -> tuple[Counter[str], list[str]]:
    removed: Counter[str] = Counter(context=store.remove_unreadable(user_id))
    files: list[str] = []
    is_done = False
    while not is_done:
        removed += _remove_rows(store, user_id)
        files += store.erase(user_id)[0]
        tenant = store.read(lambda connection: tenants.find(connection, user_id))
        late, is_done = store.write(user_id, lambda connection: _take_name(connection, store, user_id))
        removed += late
    if late and tenant is not None:
        store.follow(user_id)
        # Meanwhile an index may have been saved with these words.
        files += store.erase(f"{tenants.REMOVED}{tenant}")[0]
    return removed, files


def _remove_rows(store: MemoryStore, user_id: str) -> Counter[str]:
    removed: Counter[str] = Counter()
    tenant = store.read(lambda connection: tenants.find(connection, user_id))
    if tenant is not None:
        while n := store.write(user_id, lambda connection: _remove_memories(connection, store, tenant)):
            removed["context"] += n
        while n := store.write(user_id, lambda connection: _remove_chunks(connection, store, tenant)):
            removed["chunks"] += n
    store.follow(user_id)
    return removed + store.write(user_id, lambda connection: _remove_rest(connection, user_id))


def _remove_memories(connection: Connection, store: MemoryStore, tenant: int) -> int:
    ids = [
        memory_id
        for (memory_id,) in connection.execute(
            f"SELECT id FROM context WHERE id BETWEEN ? AND ? ORDER BY id LIMIT {_AT_ONCE}",
            memory_range(tenant),
        )
    ]
    if ids:
        forgetting.note(connection)
    return memories.delete(connection, tenant, ids, store.terms)


def _remove_chunks(connection: Connection, store: MemoryStore, tenant: int) -> int:
    rows = connection.execute(
        f"SELECT id, text, doc_len FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id LIMIT {_AT_ONCE}",
        memory_range(tenant),
    )
    if not rows:
        return 0
    connection.execute("DELETE FROM chunks WHERE id BETWEEN ? AND ?", (rows[0][0], rows[-1][0]))
    store.chunks.remove(connection, [(chunk_id, text) for chunk_id, text, _ in rows])
    [(version,)] = connection.execute(
        "UPDATE knowledge_sums SET n = n - ?, total_length = total_length - ?, version = version + 1"
        " WHERE number = ? RETURNING version",
        (len(rows), sum(length for _, _, length in rows), tenant),
    )
    store.chunks.note_removed(connection, tenant, version, [row[0] for row in rows])
    forgetting.note(connection)
    return len(rows)


def _remove_rest(connection: Connection, user_id: str) -> Counter[str]:
    removed: Counter[str] = Counter()
    mine = "session_id IN (SELECT id FROM sessions WHERE user_id = ?)"
    for table in ("messages", "session_entities", "session_summaries"):
        removed[table] = _delete(connection, table, mine, user_id)
    for table in _TABLES:
        removed[table] = _delete(connection, table, "user_id = ?", user_id)
    for key in KEYS_IN_META:
        _delete(connection, "meta", "key = ?", key + user_id)
    connection.execute("UPDATE tenants SET message_bytes = 0 WHERE user_id = ?", (user_id,))
    forgetting.note(connection)
    return removed


def _delete(connection: Connection, table: str, condition: str, value: str) -> int:
    return len(connection.execute(f"DELETE FROM {table} WHERE {condition} RETURNING 1", (value,)))


def _take_name(connection: Connection, store: MemoryStore, user_id: str) -> tuple[Counter[str], bool]:
    """Remove what another program has stored since, which nobody could find any more, and the name.

    Return the rows by table, and whether that was all; otherwise the name stays.
    """
    removed: Counter[str] = Counter()
    tenant = tenants.find(connection, user_id)
    if tenant is not None:
        removed["context"] = _remove_memories(connection, store, tenant)
        removed["chunks"] = _remove_chunks(connection, store, tenant)
    if _AT_ONCE in removed.values():
        return removed, False
    removed += _remove_rest(connection, user_id)
    connection.execute(
        "UPDATE tenants SET user_id = ? || number WHERE user_id = ?", (tenants.REMOVED, user_id)
    )
    store.destroy_key(connection, user_id)
    return removed, True


def revoke(connection: Connection, owner: str, now: int) -> None:
    """Revoke the keys of a user, and take the name from them."""
    connection.execute(
        "UPDATE api_keys SET owner = ?, label = '',"
        " revoked_at = CASE WHEN revoked_at = 0 THEN ? ELSE revoked_at END WHERE owner = ?",
        (tenants.NO_OWNER, now, owner),
    )
