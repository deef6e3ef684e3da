"""Finds secrets in a user's knowledge: documents and notes, relations between them, and dimensions.

They are covered when they are stored, but earlier versions stored some, and `memory_extraction_secrets` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from shepherd.memory.records import AuditFinding
from shepherd.secret_detection import find_secrets, masked, masked_value
from shepherd.transactions import Connection

__all__ = ["PART", "secrets_in_knowledge"]

_Rows = list[tuple[Any, ...]]
_PAGE = 20
# A long text is read in parts, each with more of what stands around it than a rule reads.
PART = 1 << 18
_AROUND = 1 << 14


def secrets_in_knowledge(
    read: Callable[[Callable[[Connection], _Rows]], _Rows], user: str
) -> Iterator[AuditFinding]:
    """Yield a finding for each node, relation and dimension of a user that has secrets.

    `read` runs a function in a read transaction: one for each page and each part of a text, so that neither
    writers wait nor a long document is held as a whole.
    """

    def rows(statement: str, *parameters: Any) -> _Rows:
        return read(lambda connection: list(connection.execute(statement, (user, *parameters))))

    for node_id, title, n_chars, metadata, *texts in _pages(
        rows, "id, title, text_length, metadata, description, notes FROM nodes"
    ):
        kinds = _kinds(title, *texts) | _kinds_of_metadata(metadata)
        for start in range(0, n_chars, PART):
            kinds |= _kinds_of_part(rows, node_id, start)
        if kinds:
            name = masked(title)[0]
            yield AuditFinding("secret", (), f"{_listed(kinds)} in node {node_id} of the knowledge, {name!r}")
    for edge_id, explanation in _pages(rows, "id, explanation FROM edges"):
        if kinds := _kinds(explanation):
            yield AuditFinding("secret", (), f"{_listed(kinds)} in edge {edge_id} of the knowledge")
    for name, description in rows("SELECT name, description FROM dimensions WHERE user_id = ? ORDER BY name"):
        if kinds := _kinds(name, description):
            detail = f"{_listed(kinds)} in the dimension {masked(name)[0]!r} of the knowledge"
            yield AuditFinding("secret", (), detail)


def _pages(rows: Callable[..., _Rows], columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows in the order of their ids, which come first."""
    last = -1
    while found := rows(f"SELECT {columns} WHERE user_id = ? AND id > ? ORDER BY id LIMIT {_PAGE}", last):
        yield from found
        last = found[-1][0]


def _kinds_of_part(rows: Callable[..., _Rows], node_id: int, start: int) -> set[str]:
    first = max(0, start - _AROUND)
    n_chars = start - first + PART + _AROUND
    found = rows(
        f"SELECT substr(source_text, {first + 1}, {n_chars}) FROM nodes WHERE user_id = ? AND id = ?", node_id
    )
    return {
        secret.kind
        for (text,) in found
        for secret in find_secrets(text, in_document=True)
        if start <= first + secret.start < start + PART
    }


def _kinds(*texts: str) -> set[str]:
    return {secret.kind for text in texts for secret in find_secrets(text, in_document=True)}


def _kinds_of_metadata(stored: str) -> set[str]:
    try:
        n_secrets = masked_value(json.loads(stored))[1]
    except (ValueError, RecursionError):
        return _kinds(stored)
    # Names of fields tell most of them.
    return (_kinds(stored) or {"password"}) if n_secrets else set()


def _listed(kinds: set[str]) -> str:
    return ", ".join(sorted(kinds))
