"""Maintenance of a whole schema: sizes, the index of terms, and the check for damage."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shepherd._native.text import TOKENIZER_VERSION
from shepherd.errors import StoreReadOnlyError
from shepherd.memory import consistency, discourse, memories, tenants
from shepherd.memory.postgres import user_keys
from shepherd.memory.postgres.by_user import leaves
from shepherd.memory.postgres.database import REBUILDING, Connection, Database
from shepherd.memory.postgres.schema import TABLES
from shepherd.memory.postgres.size_limit import Limit
from shepherd.memory.postgres.terms import TERMS, ServerChunks, Terms, terms_of
from shepherd.memory.records import CheckReport, MemoryStats
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.wording import inflected

__all__ = ["check", "refresh_index", "reindex", "settle", "stats"]

_PAGE = 500
_COUNTED = (
    (
        "FROM context c WHERE NOT EXISTS (SELECT 1 FROM context_terms t"
        f" WHERE t.tenant = c.id >> {SEQUENCE_BITS} AND t.id = c.id)",
        "{} [memory is|memories are] missing from the index of terms",
    ),
    (
        "FROM context_terms t WHERE NOT EXISTS (SELECT 1 FROM context c WHERE c.id = t.id)",
        "{} [entry of the index of terms has|entries of the index of terms have] no memory",
    ),
    (
        f"FROM context c JOIN context_terms t ON t.tenant = c.id >> {SEQUENCE_BITS} AND t.id = c.id"
        " WHERE (t.doc_len, t.timestamp) IS DISTINCT FROM (c.doc_len, c.timestamp)",
        "{} [entry of the index of terms differs from its|entries of the index of terms differ from their]"
        " memory",
    ),
    (
        "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = current_schema() AND NOT i.indisvalid",
        "{} [index is|indexes are] not valid; REINDEX SCHEMA makes [it|them] again",
    ),
)
_ROWS = (
    "SELECT c.id, c.user_message, c.assistant_response, c.content_hash, c.doc_len,"
    " c.source, t.usual, t.terms, t.repeated, t.counts, t.doc_len"
    f" FROM context c LEFT JOIN context_terms t ON t.tenant = c.id >> {SEQUENCE_BITS} AND t.id = c.id"
    f" WHERE c.id > ? ORDER BY c.id LIMIT {_PAGE}"
)


def stats(database: Database, user_id: str, limit: Limit) -> MemoryStats:
    """Return counts of a user and sizes of the schema."""
    used = limit.used(database)

    def count(connection: Connection) -> MemoryStats:
        [(file_bytes,)] = connection.execute(
            # Of a divided table, its partitions have the rows.
            "SELECT CAST(sum(pg_total_relation_size(coalesce(part.relid, name::regclass))) AS BIGINT)"
            " FROM unnest(?::text[]) AS name"
            " LEFT JOIN LATERAL pg_partition_tree(name::regclass) AS part ON part.isleaf",
            (list(TABLES),),
        )
        return replace(
            tenants.counts(connection, user_id),
            used_bytes=used,
            file_bytes=file_bytes,
            limit_bytes=limit.bytes,
            path=database.shown,
        )

    return database.read(count)


def settle(database: Database) -> None:
    """Sort the pending entries of the indexes of terms, and update the planner's statistics."""

    def tidy(connection: Connection) -> None:
        for index in ("context_terms_gin", "chunk_terms_gin"):
            for leaf in leaves(connection, index):
                connection.execute("SELECT gin_clean_pending_list(?::text::regclass)", (leaf,))
        connection.run("ANALYZE context, context_terms, chunks, chunk_terms, nodes, edges")

    # Only the tables' owner may; autovacuum does it later.
    with contextlib.suppress(StoreReadOnlyError):
        database.write_locked("settle", tidy)


# ---- the check


def check(database: Database, *, repair: bool) -> CheckReport:
    """Look for damage, and with `repair` mend everything that can be rebuilt from the rows.

    The indexes of terms are compared with the rows, and the rows with one another (see consistency); the
    server itself checks pages.
    """
    index_problems, row_problems = database.read(_look)
    found = (*index_problems, *row_problems)
    if not found or not repair or database.read(user_keys.problems):
        return CheckReport(found)

    def mend(connection: Connection) -> None:
        _lock(connection)
        consistency.mend_rows(connection, TERMS)
        if index_problems:
            reindex(connection)
        if consistency.chunk_problems(connection, ServerChunks()):
            consistency.mend_chunks(connection, ServerChunks())

    database.write_locked(REBUILDING, mend)
    left = {problem for problems in database.read(_look) for problem in problems}
    return CheckReport(found, tuple(problem for problem in found if problem not in left))


def refresh_index(database: Database) -> None:
    """Rebuild the terms if another version of the tokenizer has made them."""
    if database.read(_is_outdated):
        database.write_locked(REBUILDING, _refresh)


def _refresh(connection: Connection) -> None:
    # Another process may have been first.
    if _is_outdated(connection):
        _lock(connection)
        reindex(connection)


def _is_outdated(connection: Connection) -> bool:
    rows = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer_version'")
    return rows != [(TOKENIZER_VERSION,)]


def _look(connection: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the problems of the index of terms, and of rows."""
    # Reading a large memory takes longer than a statement may.
    connection.run("SET LOCAL statement_timeout = 0")
    if unreadable := user_keys.problems(connection):
        # Nothing can be compared with texts that can't be read, and nothing be mended.
        return (), unreadable
    other_terms, other_hashes = _compare_rows(connection)
    problems = [inflected(n, words) for what, words in _COUNTED if (n := consistency.count(connection, what))]
    if _is_outdated(connection):
        problems.append("the index of terms was made by another version of the tokenizer")
    elif other_terms:
        problems.append(
            inflected(other_terms, "{} [memory is|memories are] in the index of terms with other words")
        )
    row_problems = consistency.problems(connection, other_hashes)
    return tuple(problems), (*row_problems, *consistency.chunk_problems(connection, ServerChunks()))


def _compare_rows(connection: Connection) -> tuple[int, int]:
    """Return how many rows the index has with other terms, and how many have the hash of another text."""
    other_terms = other_hashes = 0
    after = -(1 << 63)
    while page := connection.execute(_ROWS, (after,)):
        for memory_id, question, answer, digest, doc_len, source, *indexed in page:
            other_hashes += not consistency.is_own_hash(question, answer, digest)
            is_missing = indexed[0] is None  # counted as such
            signs = discourse.signs(question, answer, source)
            found = terms_of(memory_id >> SEQUENCE_BITS, question, answer, signs)
            other_terms += not is_missing and not (
                doc_len == found.length and _is_stored(connection, found, indexed)
            )
        after = page[-1][0]
    return other_terms, other_hashes


def _is_stored(connection: Connection, found: Terms, indexed: Sequence[Any]) -> bool:
    """Return whether the columns of the index are those of these terms."""
    usual, terms, repeated, counts, length = indexed
    if (usual, length) != (found.usual, found.length) or (repeated is None) != (found.repeated is None):
        return False
    # A blind memory has hashes, in their own order.
    wanted = dict(zip(connection.stored_words(found.repeated or ()), found.counts or (), strict=True))
    return sorted(terms) == sorted(connection.stored_words(found.terms)) and wanted == dict(
        zip(repeated or (), counts or (), strict=False)
    )


def _lock(connection: Connection) -> None:
    connection.run("SET LOCAL statement_timeout = 0")
    # Writers wait; readers see the state before.
    connection.run(
        "LOCK TABLE tenants, context, context_terms, knowledge_sums, nodes, edges, chunks, chunk_terms"
        " IN SHARE ROW EXCLUSIVE MODE"
    )


def reindex(connection: Connection) -> None:
    """Rebuild the terms from the rows, and all the numbers that come from them; the tables are locked."""
    connection.execute("DELETE FROM context_terms")
    unreadable = user_keys.unreadable(connection)
    for tenant, user_id in connection.execute("SELECT number, user_id FROM tenants"):
        # Whoever can't be read must not keep all others from being found.
        if user_id not in unreadable:
            memories.reindex(connection, tenant, TERMS)
    consistency.mend_sums(connection)
    consistency.reindex_chunks(connection, ServerChunks())
    connection.execute("DELETE FROM meta WHERE key = 'tokenizer_version'")
    connection.execute("INSERT INTO meta(key, value) VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))
