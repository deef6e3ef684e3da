"""Nodes and edges as entities with observations and relations, the data of MCP's reference memory server.

An entity is a node: its name is the title, its type the kind, and its observations are the lines of the
notes. A relation is an edge of the type that it names, or a line in the explanation of the `related_to` edge,
of which two nodes have only one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.knowledge import chunks, edges, nodes
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import LONGEST_TITLE, NewNode
from shepherd.knowledge.observations import (
    cleaned_observation,
    observations_of,
    with_more,
    without,
    written,
)
from shepherd.knowledge.records import EDGE_TYPES, Node
from shepherd.transactions import Connection

__all__ = [
    "Entity",
    "EntityGraph",
    "Relation",
    "check_name",
    "cleaned_name",
]

_MOST_IDS = 30  # a statement has at most 64 parameters
_PAGE = 200
_ROW_BYTES = 1024
_PLAIN = "related_to"


class Entity(NamedTuple):
    """An entity; `kind` is its type."""

    name: str
    kind: str
    observations: tuple[str, ...] = ()


class Relation(NamedTuple):
    """A relation between the entities of two names."""

    from_name: str
    to_name: str
    type: str


class _Additions(NamedTuple):
    """New notes of nodes and their cards, and the new observations of each name."""

    notes: dict[int, str]
    cards: list[str]
    added: list[tuple[str, list[str]]]


def cleaned_name(name: str) -> str:
    """Return a name, a kind or the type of a relation as it is stored: on one line."""
    return " ".join(storable(name).split())


class EntityGraph:
    """The entities and relations of one user. Each change is one transaction: all of it, or nothing.

    Several nodes can have one title: what is added goes to the oldest, and what is deleted is deleted in all.
    Names, observations and types must be cleaned, and free of secrets unless these are kept.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._user_id = knowledge.user_id

    # ---- adding

    def create_entities(self, entities: Iterable[Entity], dimensions: Sequence[str] = ()) -> list[Entity]:
        """Store the entities whose names are new, and return them."""
        wanted: dict[str, Entity] = {}
        for entity in entities:
            check_name(entity.name)
            wanted.setdefault(entity.name, entity)

        def unknown(connection: Connection) -> list[Entity]:
            known = self._ids(connection, wanted)
            return [entity for name, entity in wanted.items() if name not in known]

        def node(entity: Entity) -> NewNode:
            notes = written(dict.fromkeys(entity.observations))
            return NewNode(entity.name, entity.kind, notes=notes, dimensions=tuple(dimensions))

        def add(connection: Connection, shelf: Shelf) -> list[Entity]:
            new = unknown(connection)
            for entity in new:
                nodes.add(connection, shelf, node(entity), self._knowledge.now())
            return new

        nothing: list[Entity] = []
        new = [node(entity) for entity in self._knowledge.look(unknown, nothing)]
        return self._knowledge.transaction(
            add,
            sum(2 * len(one.notes) + _ROW_BYTES for one in new),
            texts=[text for one in new for text in nodes.texts_of(one)],
        )

    def create_relations(self, relations: Iterable[Relation]) -> list[Relation]:
        """Store the relations that are new, and return them; UsageError for an unknown entity."""
        wanted = list(dict.fromkeys(relations))

        def add(connection: Connection, shelf: Shelf) -> list[Relation]:
            ids = self._ids(connection, _ends(wanted))
            for name in _ends(wanted):
                _expect(name, ids)
            return [relation for relation in wanted if self._relate(connection, shelf, relation, ids)]

        return self._knowledge.transaction(add, _ROW_BYTES * len(wanted))

    def _relate(
        self, connection: Connection, shelf: Shelf, relation: Relation, ids: Mapping[str, list[int]]
    ) -> bool:
        """Store a relation; False if there is one of that type."""
        if relation.from_name == relation.to_name:
            raise UsageError("an entity can't be related to itself", hint="add an observation instead")
        if not relation.type:
            raise UsageError("a relation needs a type", hint='relationType is a verb, such as "works_at"')
        if self._found(connection, relation, ids):
            return False
        from_id, to_id = ids[relation.from_name][0], ids[relation.to_name][0]
        own_type = relation.type if relation.type in EDGE_TYPES else _PLAIN
        edge_id, is_new = edges.add(
            connection,
            self._user_id,
            shelf.number,
            from_id,
            to_id,
            type=own_type,
            explanation=relation.type,
            confidence=1.0,
            source="mcp",
            now=self._knowledge.now(),
        )
        known = None if is_new else edges.get(connection, self._user_id, edge_id)
        if known is not None:
            explanation = f"{known.explanation}\n{relation.type}"
            edges.change(connection, self._user_id, edge_id, explanation=explanation)
        return True

    def add_observations(self, additions: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
        """Add observations to entities; return the new ones of each. UsageError for an unknown entity."""
        wanted = list(additions)

        def plan(connection: Connection) -> _Additions:
            ids = self._ids(connection, [name for name, _ in wanted])
            notes: dict[int, str] = {}
            cards: dict[int, str] = {}
            added: list[tuple[str, list[str]]] = []
            for name, texts in wanted:
                [node] = nodes.several(connection, self._user_id, _expect(name, ids)[:1])
                before = notes.get(node.id, node.notes)
                known = set(observations_of(before))
                new = [text for text in dict.fromkeys(texts) if text and text not in known]
                added.append((name, new))
                if new:
                    notes[node.id] = with_more(before, new)
                    cards[node.id] = chunks.card(node.title, node.description, notes[node.id])
            return _Additions(notes, list(cards.values()), added)

        def add(connection: Connection, shelf: Shelf) -> list[tuple[str, list[str]]]:
            planned = plan(connection)
            for node_id, text in planned.notes.items():
                nodes.change(connection, shelf, node_id, {"notes": text}, self._knowledge.now())
            return planned.added

        cards = self._knowledge.look(plan, _Additions({}, [], [])).cards
        return self._knowledge.transaction(add, 2 * sum(map(len, cards)) + _ROW_BYTES, texts=cards)

    # ---- deleting

    def delete_entities(self, names: Iterable[str]) -> list[str]:
        """Remove entities with their relations; return the names of those that there were."""
        nothing: dict[str, list[int]] = {}
        wanted = list(names)
        known = self._knowledge.look(lambda connection: self._ids(connection, wanted), nothing)
        gone = set(self._knowledge.delete_nodes(i for ids in known.values() for i in ids)) if known else set()
        return [name for name, ids in known.items() if not gone.isdisjoint(ids)]

    def delete_observations(self, deletions: Iterable[tuple[str, Sequence[str]]]) -> tuple[int, list[str]]:
        """Remove observations; return how many there were, and the names of unknown entities."""
        wanted = list(deletions)
        n_removed, missing = 0, list[str]()

        def changed(connection: Connection) -> dict[int, str]:
            nonlocal n_removed, missing
            ids = self._ids(connection, [name for name, _ in wanted])
            n_removed, missing = 0, [name for name, _ in wanted if name not in ids]
            notes: dict[int, str] = {}
            for name, texts in wanted:
                for node in nodes.several(connection, self._user_id, ids.get(name, ())):
                    now = notes.get(node.id, node.notes)
                    kept, n = without(now, frozenset(texts))
                    n_removed += n
                    if n:
                        notes[node.id] = kept
            return notes

        self._knowledge.replace_notes(changed)
        return n_removed, missing

    def delete_relations(self, relations: Iterable[Relation]) -> int:
        """Remove relations; return how many there were."""
        wanted = list(dict.fromkeys(relations))

        def delete(connection: Connection, _: Shelf) -> int:
            ids = self._ids(connection, _ends(wanted))
            return sum(self._unrelate(connection, relation, ids) for relation in wanted)

        return self._knowledge.forget(delete)

    def _unrelate(self, connection: Connection, relation: Relation, ids: Mapping[str, list[int]]) -> bool:
        found = self._found(connection, relation, ids)
        for edge_id, type, explanation in found:
            left = [line for line in _lines(explanation) if line != relation.type]
            if type == _PLAIN and left:
                edges.change(connection, self._user_id, edge_id, explanation="\n".join(left))
            else:
                edges.delete(connection, self._user_id, edge_id)
        return bool(found)

    # ---- reading

    def latest(self, limit: int) -> tuple[list[Node], int]:
        """Return the nodes that were changed last, and how many there are in all."""
        return self._knowledge.list_nodes(limit=limit), self._knowledge.count_nodes()

    def named(self, names: Iterable[str], limit: int) -> tuple[list[Node], int]:
        """Return the nodes of these names, and how many there are."""
        nothing: dict[str, list[int]] = {}
        wanted = list(names)
        found = self._knowledge.look(lambda connection: self._ids(connection, wanted), nothing)
        ids = [i for same in found.values() for i in same]
        return self._knowledge.get_nodes(ids[:limit]), len(ids)

    def matching(self, query: str, limit: int) -> tuple[list[Node], int]:
        """Return the nodes with `query` in name, kind or an observation, and how many there are.

        Case is ignored; the node that was changed last comes first. It reads all nodes of the user.
        """
        query, after = cleaned_observation(query).casefold(), 0
        found: list[tuple[int, int]] = []
        while True:

            def page(connection: Connection, after: int = after) -> list[tuple[int, int, str, str, str]]:
                return connection.execute(
                    "SELECT id, updated_at, title, kind, notes FROM nodes WHERE user_id = ? AND id > ?"
                    f" ORDER BY id LIMIT {_PAGE}",
                    (self._user_id, after),
                )

            nothing: list[tuple[int, int, str, str, str]] = []
            rows = self._knowledge.look(page, nothing)
            for node_id, changed, title, kind, notes in rows:
                texts = (title, kind, *observations_of(notes))
                if any(query in text.casefold() for text in texts):
                    found.append((-changed, node_id))
            if len(rows) < _PAGE:
                break
            after = rows[-1][0]
        return self._knowledge.get_nodes(node_id for _, node_id in sorted(found)[:limit]), len(found)

    def ids_of(self, names: Iterable[str]) -> dict[str, int]:
        """Return the oldest node of each name that there is."""
        nothing: dict[str, list[int]] = {}
        wanted = list(names)
        found = self._knowledge.look(lambda connection: self._ids(connection, wanted), nothing)
        return {name: ids[0] for name, ids in found.items()}

    def relations_of(self, node_ids: Sequence[int]) -> list[Relation]:
        """Return the relations that begin or end at some nodes, the oldest first."""

        def read(connection: Connection) -> dict[int, tuple[str, str, str, str]]:
            found: dict[int, tuple[str, str, str, str]] = {}
            for start in range(0, len(node_ids), _MOST_IDS):
                ids = node_ids[start : start + _MOST_IDS]
                for end in ("from_node_id", "to_node_id"):
                    for edge_id, *row in connection.execute(
                        "SELECT e.id, f.title, t.title, e.type, e.explanation FROM edges e"
                        " JOIN nodes f ON f.user_id = e.user_id AND f.id = e.from_node_id"
                        " JOIN nodes t ON t.user_id = e.user_id AND t.id = e.to_node_id"
                        f" WHERE e.user_id = ? AND e.{end} IN ({', '.join('?' * len(ids))})",
                        (self._user_id, *ids),
                    ):
                        found[edge_id] = tuple(row)
            return found

        nothing: dict[int, tuple[str, str, str, str]] = {}
        rows = self._knowledge.look(read, nothing)
        return list(
            dict.fromkeys(
                Relation(from_title, to_title, name)
                for _, (from_title, to_title, type, explanation) in sorted(rows.items())
                for name in (_lines(explanation) if type == _PLAIN else [type])
            )
        )

    # ---- rows

    def _ids(self, connection: Connection, names: Iterable[str]) -> dict[str, list[int]]:
        """Return the nodes of each name that there is, the oldest first."""
        wanted = list(dict.fromkeys(names))
        found: dict[str, list[int]] = {}
        for start in range(0, len(wanted), _MOST_IDS):
            some = wanted[start : start + _MOST_IDS]
            for node_id, title in connection.execute(
                f"SELECT id, title FROM nodes WHERE user_id = ? AND title IN ({', '.join('?' * len(some))})"
                " ORDER BY id",
                (self._user_id, *some),
            ):
                found.setdefault(title, []).append(node_id)
        return {name: found[name] for name in wanted if name in found}

    def _found(
        self, connection: Connection, relation: Relation, ids: Mapping[str, list[int]]
    ) -> list[tuple[int, str, str]]:
        """Return id, type and explanation of the edges that say this."""
        pairs = [(a, b) for a in ids.get(relation.from_name, ()) for b in ids.get(relation.to_name, ())]
        rows = [
            row
            for pair in pairs
            for row in connection.execute(
                "SELECT id, type, explanation FROM edges WHERE user_id = ? AND from_node_id = ?"
                " AND to_node_id = ?",
                (self._user_id, *pair),
            )
        ]
        return [
            (edge_id, type, explanation)
            for edge_id, type, explanation in rows
            if relation.type in (_lines(explanation) if type == _PLAIN else [type])
        ]


def check_name(name: str) -> None:
    """Raise UsageError for a name that a node can't have."""
    if not name:
        raise UsageError("an entity needs a name")
    if len(name) > LONGEST_TITLE:
        raise UsageError(
            f"a name has {len(name)} characters, at most {LONGEST_TITLE} are possible",
            hint="use a shorter name, and store the rest as an observation",
        )


def _expect(name: str, ids: Mapping[str, list[int]]) -> list[int]:
    if name not in ids:
        raise UsageError(f'there is no entity named "{name}"', hint="create_entities creates it")
    return ids[name]


def _ends(relations: Iterable[Relation]) -> list[str]:
    return list(dict.fromkeys(name for one in relations for name in (one.from_name, one.to_name)))


def _lines(explanation: str) -> list[str]:
    return list(dict.fromkeys(filter(None, map(cleaned_name, explanation.split("\n")))))
