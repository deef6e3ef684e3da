"""The wire: statements that are sent together, so that all of them take one round trip.

Behind a pooler that gives each transaction another connection to the server (PgBouncer's transaction mode), a
connection keeps no settings. It keeps prepared statements only if the pooler prepares them wherever they are
used.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
import select
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer

from shepherd.transactions import Value

__all__ = ["Bound", "Raw", "exchange", "find_out_about_pooler"]

# A statement and its parameters.
Bound = tuple[str, Sequence[Value | Sequence[Value]]]

# For the server to hear that nobody waits any more; otherwise it would go on, with its locks.
_CANCEL_S = 2.0
# Statements that are kept prepared on a connection.
_MOST_PREPARED = 500
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)
_IN_THE_MIDDLE = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
# Names of prepared statements.
_names = itertools.count(1)


class Raw(psycopg.Connection[tuple[Any, ...]]):
    """psycopg's connection, with the statements that are prepared on it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # psycopg's own preparing of what runs often would leave its names on a pooler's connections.
        self.prepare_threshold = None
        self.adapter = Transformer(self)
        # Name by statement and types of its parameters.
        self.prepared: dict[_Key, bytes] = {}
        self.local: Bound | None = None
        """Behind a pooler: the statement that sets up each transaction."""
        self.keeps_prepared = True
        self.answer_ms: int | None = None
        """Longest time without a word from the server; None: any."""


_Key = tuple[bytes, tuple[int, ...]]


class _Sent(NamedTuple):
    """A statement with its parameters as they are sent."""

    key: _Key
    values: Sequence[Any]
    formats: Any


def exchange(raw: Raw, statements: Sequence[Bound], *, binary: bool = False) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each statement; all are sent at once. The first error of one is raised.

    psycopg's own pipelines send each statement by itself, so that the server wakes up for each, and its
    cursors cost as much as a round trip.
    """
    if not statements:
        return []
    if len(raw.prepared) > _MOST_PREPARED and raw.local is None:
        raw.prepared.clear()
        raw.execute(b"DEALLOCATE ALL", prepare=False)
    statements, added = _set_up(raw, statements)
    adapter = raw.adapter
    sent = []
    for statement, parameters in statements:
        values = adapter.dump_sequence(parameters, [PyFormat.AUTO] * len(parameters))
        sent.append(_Sent((_numbered(statement), adapter.types or ()), values, adapter.formats))
    form = pq.Format.BINARY if binary else pq.Format.TEXT
    try:
        results = _together(raw, sent, form) if _has_pipelines() else _in_turn(raw, sent, form)
    except BaseException:
        # After Ctrl-C nobody would read the answer. The server's own errors leave nothing behind.
        if raw.pgconn.transaction_status in _IN_THE_MIDDLE or raw.pgconn.pipeline_status:
            with contextlib.suppress(psycopg.Error):
                raw.cancel_safe(timeout=_CANCEL_S)
            raw.close()
        raise
    rows = []
    for place, result in enumerate(results):
        if place in added:
            continue
        adapter.set_pgresult(result)
        rows.append(adapter.load_rows(0, result.ntuples, tuple) if result.ntuples else [])
    return rows


def _set_up(raw: Raw, statements: Sequence[Bound]) -> tuple[Sequence[Bound], set[int]]:
    """Return the statements of a round trip with those that a pooler needs, and the places of the latter."""
    if raw.local is None or raw.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return statements, set()
    if statements[0][0].startswith("BEGIN"):
        return [statements[0], raw.local, *statements[1:]], {1}
    if _has_pipelines():
        # What is sent together is a transaction anyway.
        return [raw.local, *statements], {0}
    last = len(statements) + 2
    return [("BEGIN", ()), raw.local, *statements, ("COMMIT", ())], {0, 1, last}


def _together(raw: Raw, sent: Sequence[_Sent], form: pq.Format) -> list[pq.abc.PGresult]:
    """Return the results of statements, or raise the first error; one round trip."""
    pgconn = raw.pgconn
    new: dict[int, _Key] = {}  # by place among the results
    n = 0
    pgconn.enter_pipeline_mode()
    for key, values, formats in sent:
        name = raw.prepared.get(key)
        if name is None and not _may_prepare(raw):
            pgconn.send_query_params(key[0], values, key[1], formats, form)
            n += 1
            continue
        if name is None:
            name = raw.prepared[key] = b"s%d" % next(_names)
            pgconn.send_prepare(name, key[0], key[1])
            new[n] = key
            n += 1
        pgconn.send_query_prepared(name, values, formats, form)
        n += 1
    pgconn.pipeline_sync()
    results = _read(pgconn, raw.answer_ms)
    pgconn.exit_pipeline_mode()
    n_fine = next((place for place, one in enumerate(results) if one.status not in _FINE), len(results))
    for place, key in new.items():
        if place >= n_fine:
            del raw.prepared[key]
    if n_fine < len(results):
        raise psycopg.errors.error_from_result(results[n_fine])
    return [result for place, result in enumerate(results) if place not in new]


def _may_prepare(raw: Raw) -> bool:
    # Not every pooler knows DEALLOCATE ALL.
    return raw.keeps_prepared and (raw.local is None or len(raw.prepared) < _MOST_PREPARED)


def find_out_about_pooler(raw: Raw) -> None:
    """Note whether the pooler of a connection keeps prepared statements (PgBouncer 1.21 and newer).

    Such a pooler gives a statement another name on the server. Others leave the name on a connection that the
    next transaction may not get.
    """
    name = f"shepherd_{secrets.token_hex(8)}".encode()
    with raw.transaction():
        raw.pgconn.prepare(name, b"SELECT count(*) FROM pg_prepared_statements WHERE name = $1")
        result = raw.pgconn.exec_prepared(name, [name])
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        raw.keeps_prepared = result.get_value(0, 0) == b"0"
        if not raw.keeps_prepared:
            raw.pgconn.exec_(b"DEALLOCATE " + name)


def _in_turn(raw: Raw, sent: Sequence[_Sent], form: pq.Format) -> list[pq.abc.PGresult]:
    """Do as `_together` with an old libpq: a round trip for each."""
    results = []
    for key, values, formats in sent:
        raw.pgconn.send_query_params(key[0], values, key[1], formats, form)
        [result] = _read(raw.pgconn, raw.answer_ms)
        if result.status not in _FINE:
            raise psycopg.errors.error_from_result(result)
        results.append(result)
    return results


def _read(pgconn: pq.abc.PGconn, answer_ms: int | None) -> list[pq.abc.PGresult]:
    """Return the results up to the end of the pipeline, or of the one statement without a pipeline."""
    is_pipeline = pgconn.pipeline_status != pq.PipelineStatus.OFF
    results: list[pq.abc.PGresult] = []
    socket = select.poll()
    socket.register(pgconn.socket, select.POLLIN | select.POLLOUT)
    while pgconn.flush():
        # The server may wait for us to read before it reads on.
        if any(event & ~select.POLLOUT for _, event in _wait(socket, answer_ms)):
            pgconn.consume_input()
    socket.modify(pgconn.socket, select.POLLIN)
    while True:
        while pgconn.is_busy():
            _wait(socket, answer_ms)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            if not is_pipeline:
                return results
            if pgconn.status != pq.ConnStatus.OK:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        else:
            results.append(result)


def _wait(socket: select.poll, answer_ms: int | None) -> list[tuple[int, int]]:
    events = socket.poll(answer_ms)
    if not events:
        raise psycopg.OperationalError("the server does not answer")
    return events


@cache
def _has_pipelines() -> bool:
    # libpq 14 and newer; the check takes longer than a round trip.
    return psycopg.Pipeline.is_supported()


@lru_cache(256)
def _numbered(statement: str) -> bytes:
    """Replace `?` and `?1` by `$1`. No statement of ours has a question mark in a literal."""
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${match[1] or count}"

    return re.sub(r"\?(\d*)", number, statement).encode()
