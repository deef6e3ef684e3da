"""Storage of a registry with its session, so that a continued conversation knows its entities.

One row for each entity, as JSON, and row 0 for the turn; a turn writes the few rows that changed. They are
deleted with their session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, get_args

from shepherd.entities.records import (
    ENTITY_TYPES,
    Attribute,
    Entity,
    Gender,
    Known,
    Mention,
    Relation,
)
from shepherd.entities.registry import EntityRegistry
from shepherd.errors import UsageError
from shepherd.transactions import Connection, Transactions
from shepherd.types import ANONYMOUS_USERS

__all__ = ["SessionEntities"]

_TURN_ROW = 0
_GENDERS = get_args(Gender)


class SessionEntities:
    """Loads and saves the registries of one user's sessions. Not thread-safe.

    >>> stored = SessionEntities(memory.transactions, "steve")
    >>> registry = stored.load(session_id)
    >>> stored.save(session_id, registry)
    0
    """

    def __init__(self, transactions: Transactions, user_id: str) -> None:
        self._transactions = transactions
        self._user_id = user_id
        # Content of one session's rows when last read or written.
        self._session_id = ""
        self._turn = 0
        self._kept: dict[int, Entity] = {}

    def load(self, session_id: str, known: Iterable[Known] = ()) -> EntityRegistry:
        """Return the registry of a session, empty if none is stored. Damaged rows are skipped."""
        rows: list[tuple[Any, ...]] = []
        if self._user_id not in ANONYMOUS_USERS:
            rows = self._transactions.read(self._rows(session_id))
        turn = 0
        entities = []
        for number, record in rows:
            try:
                if number == _TURN_ROW:
                    turn = int(json.loads(record)["turn"])
                else:
                    entities.append(_entity(number, json.loads(record)))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
        # A damaged row may have held the turn.
        turn = max([turn, *(entity.last_turn for entity in entities)])
        self._session_id, self._turn = session_id, turn
        self._kept = {entity.id: entity for entity in entities}
        return EntityRegistry(entities, turn=turn, known=known)

    def save(self, session_id: str, registry: EntityRegistry) -> int:
        """Write the changes since the last load or save; returns the number of rows.

        Raises UsageError when this user has no such session.
        """
        if self._user_id in ANONYMOUS_USERS:
            return 0
        if session_id != self._session_id:
            self._session_id, self._turn, self._kept = session_id, -1, {}
        now = {entity.id: entity for entity in registry}
        changed = {id: entity for id, entity in now.items() if self._kept.get(id) is not entity}
        gone = [id for id in self._kept if id not in now]
        if not changed and not gone and registry.turn == self._turn:
            return 0
        records = [(id, _record(entity)) for id, entity in changed.items()]
        records.append((_TURN_ROW, json.dumps({"turn": registry.turn})))
        is_first = self._turn == -1

        def write(connection: Connection) -> None:
            self._require(connection, session_id)
            if is_first:
                connection.execute("DELETE FROM session_entities WHERE session_id = ?", (session_id,))
            for id in gone:
                connection.execute(
                    "DELETE FROM session_entities WHERE session_id = ? AND id = ?", (session_id, id)
                )
            connection.execute_many(
                "INSERT INTO session_entities(session_id, id, record) VALUES(?, ?, ?)"
                " ON CONFLICT(session_id, id) DO UPDATE SET record = excluded.record",
                [(session_id, id, record) for id, record in records],
            )

        self._transactions.write(self._user_id, write, size=sum(len(record) for _, record in records))
        self._turn, self._kept = registry.turn, now
        return len(records) + len(gone)

    def _rows(self, session_id: str) -> Any:
        def read(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(
                "SELECT e.id, e.record FROM session_entities e JOIN sessions s ON s.id = e.session_id"
                " WHERE e.session_id = ? AND s.user_id = ? ORDER BY e.id",
                (session_id, self._user_id),
            )

        return read

    def _require(self, connection: Connection, session_id: str) -> None:
        found = connection.execute(
            "SELECT 1 FROM sessions WHERE id = ? AND user_id = ?", (session_id, self._user_id)
        )
        if not found:
            # The message is the same for sessions of other users.
            raise UsageError(f"there is no session {session_id!r}", hint="start a new one")


def _record(entity: Entity) -> str:
    values = asdict(entity)
    del values["id"]
    # ASCII preserves any text, lone surrogates included.
    return json.dumps(values, separators=(",", ":"))


def _entity(number: int, values: dict[str, Any]) -> Entity:
    return Entity(
        number,
        str(values["name"]),
        values["type"] if values["type"] in ENTITY_TYPES else "unknown",
        values["gender"] if values["gender"] in _GENDERS else "",
        str(values["description"]),
        tuple(map(str, values["aliases"])),
        tuple(Attribute(**one) for one in values["attributes"]),
        tuple(Relation(**one) for one in values["relations"]),
        tuple(Mention(**one) for one in values["mentions"]),
        int(values["n_mentions"]),
        float(values["salience"]),
        int(values["last_turn"]),
        int(values["place"]),
        bool(values["is_named"]),
        int(values["node_id"]),
    )
