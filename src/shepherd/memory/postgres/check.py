"""Looks for damage in a schema, and mends what can be made again from the rows themselves.

The index of terms against the rows, and the rows against one another as on the other engine; pages are the
server's own affair.
"""

from __future__ import annotations

from shepherd._native.text import TOKENIZER_VERSION
from shepherd.memory import chunk_upkeep, consistency, memories
from shepherd.memory.postgres.chunk_index import ServerChunks
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.terms import TERMS, add_all, terms_of
from shepherd.memory.records import CheckReport
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["check", "refresh_index"]

_PAGE = 500
_COUNTED = (
    (
        "FROM context WHERE id NOT IN (SELECT id FROM context_terms)",
        "{} memories are missing from the index of terms",
    ),
    (
        "FROM context_terms WHERE id NOT IN (SELECT id FROM context)",
        "{} entries of the index of terms have no memory",
    ),
    (
        "FROM context c JOIN context_terms t ON t.id = c.id"
        " WHERE (t.doc_len, t.timestamp) IS DISTINCT FROM (c.doc_len, c.timestamp)",
        "{} entries of the index of terms differ from their memory",
    ),
    (
        "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = current_schema() AND NOT i.indisvalid",
        "{} indexes are not valid; REINDEX SCHEMA makes them again",
    ),
)
_ROWS = (
    "SELECT c.id, c.user_message, c.assistant_response, c.content_hash, c.doc_len,"
    " t.terms, t.repeated, t.counts, t.doc_len"
    f" FROM context c LEFT JOIN context_terms t ON t.id = c.id WHERE c.id > ? ORDER BY c.id LIMIT {_PAGE}"
)


def check(database: Database, *, repair: bool) -> CheckReport:
    """Looks for damage; with `repair` mends everything that can be made again from the rows."""
    index_problems, row_problems = database.read(_look)
    found = (*index_problems, *row_problems)
    if not found or not repair:
        return CheckReport(found)

    def mend(connection: Connection) -> None:
        _lock(connection)
        consistency.mend_rows(connection, add_all, TERMS)
        if index_problems:
            _reindex(connection)
        if chunk_upkeep.problems(connection, ServerChunks()):
            chunk_upkeep.mend(connection, ServerChunks())

    database.write_locked("schema", mend)
    left = {problem for problems in database.read(_look) for problem in problems}
    return CheckReport(found, tuple(problem for problem in found if problem not in left))


def refresh_index(database: Database) -> None:
    """Makes the terms again when another version of the tokenizer has made them."""
    if database.read(_is_outdated):
        database.write_locked("schema", _refresh)


def _refresh(connection: Connection) -> None:
    # Another process may have been first.
    if _is_outdated(connection):
        _lock(connection)
        _reindex(connection)


def _is_outdated(connection: Connection) -> bool:
    rows = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer_version'")
    return rows != [(TOKENIZER_VERSION,)]


def _look(connection: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Problems of the index of terms, and of rows."""
    other_terms, other_hashes = _compare_rows(connection)
    problems = [words.format(n) for what, words in _COUNTED if (n := consistency.count(connection, what))]
    if _is_outdated(connection):
        problems.append("the index of terms was made by another version of the tokenizer")
    elif other_terms:
        problems.append(f"{other_terms} memories are in the index of terms with other words")
    row_problems = consistency.problems(connection, other_hashes)
    return tuple(problems), (*row_problems, *chunk_upkeep.problems(connection, ServerChunks()))


def _compare_rows(connection: Connection) -> tuple[int, int]:
    """How many rows the index has with other terms, and how many have the hash of another text."""
    other_terms = other_hashes = 0
    after = -(1 << 63)
    while page := connection.execute(_ROWS, (after,)):
        for memory_id, question, answer, digest, doc_len, *indexed in page:
            other_hashes += not consistency.is_own_hash(question, answer, digest)
            is_missing = indexed[0] is None  # counted as such
            found = terms_of(memory_id >> SEQUENCE_BITS, question, answer)
            other_terms += not is_missing and (tuple(indexed) != found or doc_len != found.length)
        after = page[-1][0]
    return other_terms, other_hashes


def _lock(connection: Connection) -> None:
    # Writers wait; readers see what was there before.
    connection.run(
        "LOCK TABLE tenants, context, context_terms, knowledge_sums, nodes, edges, chunks, chunk_terms"
        " IN SHARE ROW EXCLUSIVE MODE"
    )


def _reindex(connection: Connection) -> None:
    """Makes the terms again from the rows, and all the numbers that come from them."""
    connection.execute("DELETE FROM context_terms")
    for (tenant,) in connection.execute("SELECT number FROM tenants"):
        memories.reindex(connection, tenant, TERMS)
    consistency.mend_sums(connection)
    chunk_upkeep.reindex(connection, ServerChunks())
    connection.execute("DELETE FROM meta WHERE key = 'tokenizer_version'")
    connection.execute("INSERT INTO meta(key, value) VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))
