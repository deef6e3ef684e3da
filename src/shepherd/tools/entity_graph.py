"""The nine tools of MCP's reference memory server over the user's nodes and edges.

Names, arguments and results are those of that server, so that prompts written for it work as they are.
Results say in `leftOut` how much of them was left out because it was too long for one result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.knowledge.entity_graph import Entity, EntityGraph, Relation, cleaned_name
from shepherd.knowledge.observations import cleaned_observation, observations_of
from shepherd.knowledge.records import Node
from shepherd.tool_arguments import checked_argument
from shepherd.tools.toolbox import Arguments, AssistantTool
from shepherd.types import Tool

__all__ = ["GRAPH_READS", "GRAPH_WRITES", "entity_tools", "graph_output", "graph_text", "whole_graph"]

# Characters of a result, below the limit of the toolbox; of these, characters of entities if relations
# have to be left out otherwise.
_MOST_CHARS, _ENTITY_CHARS = 7_500, 5_000
_MOST_NODES = 250  # the shortest entity takes 40 characters
# The same where a client reads all of it, which no model sees by itself.
_ALL_CHARS, _ALL_ENTITY_CHARS, _ALL_NODES = 2_000_000, 1_500_000, 50_000
_MOST_NAMED = 10
_MOST_QUERY_CHARS = 2048

_Schema = dict[str, Any]


def _text(description: str) -> _Schema:
    return {"type": "string", "description": description}


def _texts(description: str) -> _Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _object(properties: _Schema) -> _Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list_of(properties: _Schema) -> _Schema:
    return {"type": "array", "items": _object(properties)}


_ENTITY = {
    "name": _text("unique name of the entity"),
    "entityType": _text("what it is, such as person"),
    "observations": _texts("what is known about it, one fact each"),
}
_RELATION = {
    "from": _text("name of the entity where the relation begins"),
    "to": _text("name of the entity where it ends"),
    "relationType": _text("verb in active voice, such as works_at"),
}
_ADDITION = {
    "entityName": _text("name of an existing entity"),
    "contents": _texts("what to add, one fact each"),
}
_DELETION = {
    "entityName": _text("name of the entity"),
    "observations": _texts("observations to delete, in the same words"),
}
_LEFT_OUT = {"type": "object", "description": "how many were left out; the hint says how to read them"}
_GRAPH = {"entities": _list_of(_ENTITY), "relations": _list_of(_RELATION)}
_DONE = {"success": {"type": "boolean"}, "message": {"type": "string"}}


class _Row(NamedTuple):
    description: str
    arguments: _Schema
    result: _Schema


_READING = {
    "read_graph": _Row("Read all entities and relations of the user's knowledge graph.", {}, _GRAPH),
    "search_nodes": _Row(
        "Find the entities whose name, type or observations contain a text, with their relations.",
        {"query": _text("text to look for; case is ignored")},
        _GRAPH,
    ),
    "open_nodes": _Row(
        "Read entities by their names, with their relations.",
        {"names": _texts("names of the entities")},
        _GRAPH,
    ),
}
_WRITING = {
    "create_entities": _Row(
        "Create entities in the user's knowledge graph. Existing ones stay as they are.",
        {"entities": _list_of(_ENTITY)},
        {"entities": _list_of(_ENTITY)},
    ),
    "create_relations": _Row(
        "Create relations between entities. Use the active voice.",
        {"relations": _list_of(_RELATION)},
        {"relations": _list_of(_RELATION)},
    ),
    "add_observations": _Row(
        "Add observations to existing entities.",
        {"observations": _list_of(_ADDITION)},
        {"results": _list_of({"entityName": {"type": "string"}, "addedObservations": _texts("new ones")})},
    ),
    "delete_entities": _Row(
        "Delete entities and their relations.", {"entityNames": _texts("names of the entities")}, _DONE
    ),
    "delete_observations": _Row(
        "Delete observations of entities.", {"deletions": _list_of(_DELETION)}, _DONE
    ),
    "delete_relations": _Row("Delete relations.", {"relations": _list_of(_RELATION)}, _DONE),
}
_ROWS = {**_WRITING, **_READING}
GRAPH_READS = frozenset(_READING)
GRAPH_WRITES = frozenset(_WRITING)


def graph_output(name: str) -> _Schema | None:
    """Return the JSON schema of a tool's results; None for another tool."""
    if name not in _ROWS:
        return None
    shape = _object(_ROWS[name].result)
    return {**shape, "properties": {**shape["properties"], "leftOut": _LEFT_OUT}}


def graph_text(name: str, result: Mapping[str, Any]) -> str:
    """Return a result as text, for clients that ignore structured content."""
    if name in GRAPH_WRITES and len(result) == 1:
        [result] = result.values()
    elif name in GRAPH_WRITES and "message" in result:
        return str(result["message"])
    return json.dumps(result, ensure_ascii=False)


def entity_tools(knowledge: Knowledge, *, writes: bool, keeps_secrets: bool) -> list[AssistantTool]:
    """Return the tools over this user's graph; those that change nothing unless `writes`.

    A call with text that looks like a secret is refused as a whole, unless `keeps_secrets`.
    """
    tools = _EntityTools(EntityGraph(knowledge), keeps_secrets)
    return [
        AssistantTool(
            Tool(name, row.description, _object(row.arguments)), partial(_run, getattr(tools, name), row)
        )
        for name, row in (_ROWS if writes else _READING).items()
    ]


def whole_graph(knowledge: Knowledge) -> dict[str, Any]:
    """Return all entities and relations of the user, as `read_graph` does, up to two million characters."""
    graph = EntityGraph(knowledge)
    return _shown(graph, *graph.latest(_ALL_NODES), rooms=(_ALL_CHARS, _ALL_ENTITY_CHARS))


def _run(action: Callable[[Arguments], object], row: _Row, arguments: Arguments) -> object:
    for name, schema in row.arguments.items():
        fields = schema.get("items", {}).get("properties")
        if fields:
            arguments[name] = [_checked(name, fields, item) for item in arguments[name]]
    return action(arguments)


def _checked(name: str, fields: _Schema, item: Mapping[str, Any]) -> Arguments:
    """Return the fields of an object in an array; unknown ones are dropped, as that server does."""
    for field in fields:
        if item.get(field) is None:
            raise UsageError(f"{name}: {field} is missing", hint=f"each has: {', '.join(fields)}")
    return {
        field: checked_argument(f"{name}: {field}", schema, item[field]) for field, schema in fields.items()
    }


class _EntityTools:
    def __init__(self, graph: EntityGraph, keeps_secrets: bool) -> None:
        self._graph = graph
        self._keeps_secrets = keeps_secrets

    # ---- changing

    def create_entities(self, arguments: Arguments) -> object:
        entities = [
            Entity(
                cleaned_name(one["name"]), cleaned_name(one["entityType"]), _observations(one["observations"])
            )
            for one in arguments["entities"]
        ]
        for entity in entities:
            self._refuse_secrets(entity.name, (entity.kind, *entity.observations))
        created = self._graph.create_entities(entities)
        return _some("entities", [_entity(one.name, one.kind, one.observations) for one in created])

    def create_relations(self, arguments: Arguments) -> object:
        relations = [_relation_of(one) for one in arguments["relations"]]
        for relation in relations:
            self._refuse_secrets(relation.from_name, (relation.type,))
        return _some("relations", list(map(_relation, self._graph.create_relations(relations))))

    def add_observations(self, arguments: Arguments) -> object:
        additions = [
            (cleaned_name(one["entityName"]), _observations(one["contents"]))
            for one in arguments["observations"]
        ]
        for name, texts in additions:
            self._refuse_secrets(name, texts)
        added = self._graph.add_observations(additions)
        return _some("results", [{"entityName": name, "addedObservations": new} for name, new in added])

    def delete_entities(self, arguments: Arguments) -> object:
        names = list(dict.fromkeys(map(cleaned_name, arguments["entityNames"])))
        deleted = self._graph.delete_entities(names)
        return _done(len(deleted), "entity", "entities", [name for name in names if name not in deleted])

    def delete_observations(self, arguments: Arguments) -> object:
        deletions = [
            (cleaned_name(one["entityName"]), _observations(one["observations"]))
            for one in arguments["deletions"]
        ]
        n_deleted, missing = self._graph.delete_observations(deletions)
        return _done(n_deleted, "observation", "observations", missing)

    def delete_relations(self, arguments: Arguments) -> object:
        relations = [_relation_of(one) for one in arguments["relations"]]
        return _done(self._graph.delete_relations(relations), "relation", "relations", [])

    def _refuse_secrets(self, name: str, texts: Iterable[str]) -> None:
        from shepherd.secret_detection import holds_secret  # 20 ms, and few calls add something

        if not self._keeps_secrets and any(holds_secret(name, text) for text in texts):
            raise UsageError(
                "there is something that looks like a secret, and secrets are not stored",
                hint="nothing of this call was stored; leave it out",
            )

    # ---- reading

    def read_graph(self, arguments: Arguments) -> object:
        return _shown(self._graph, *self._graph.latest(_MOST_NODES))

    def search_nodes(self, arguments: Arguments) -> object:
        if len(arguments["query"]) > _MOST_QUERY_CHARS:
            raise UsageError(f"the query has more than {_MOST_QUERY_CHARS:,} characters")
        return _shown(self._graph, *self._graph.matching(arguments["query"], _MOST_NODES))

    def open_nodes(self, arguments: Arguments) -> object:
        return _shown(self._graph, *self._graph.named(map(cleaned_name, arguments["names"]), _MOST_NODES))


# ---- results


def _observations(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, dict.fromkeys(map(cleaned_observation, texts))))


def _relation_of(item: Mapping[str, str]) -> Relation:
    return Relation(*(cleaned_name(item[field]) for field in _RELATION))


def _relation(relation: Relation) -> dict[str, str]:
    return dict(zip(_RELATION, relation, strict=True))


def _entity(name: str, kind: str, observations: Iterable[str]) -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) + len(", ")


def _shown(
    graph: EntityGraph,
    nodes: Sequence[Node],
    total: int,
    *,
    rooms: tuple[int, int] = (_MOST_CHARS, _ENTITY_CHARS),
) -> dict[str, Any]:
    """Return as much of a graph as fits: the first nodes, in the order in which they were created.

    `rooms` are characters for all of it, and for entities if relations have to be left out otherwise.
    """
    most, _ = rooms
    found: dict[str, Any] = {}
    for room in rooms:
        entities, n_observations = _fitting_entities(nodes, room)
        relations = graph.relations_of(sorted(entities))
        written = list(map(_relation, relations))
        fitting = _fitting(written, most - sum(map(_size, entities.values())))
        left_out = {
            "entities": total - len(entities),
            "observations": n_observations,
            "relations": len(written) - len(fitting),
        }
        shown = [entities[node_id] for node_id in sorted(entities)]
        found = {"entities": shown, "relations": fitting, **_left_out(left_out)}
        if not left_out["relations"]:
            break
    return found


def _fitting(items: Sequence[Any], room: int) -> list[Any]:
    """Return the first items that fit into so many characters."""
    for n, item in enumerate(items):
        room -= _size(item)
        if room < 0:
            return list(items[:n])
    return list(items)


def _fitting_entities(nodes: Sequence[Node], room: int) -> tuple[dict[int, dict[str, Any]], int]:
    """Return the first entities that fit, by id, and how many observations are missing in them.

    One of several entities gets at most a third of the room, so that it does not displace all others.
    """
    most = room if len(nodes) == 1 else room // 3
    found: dict[int, dict[str, Any]] = {}
    n_left = 0
    for node in nodes:
        observations = observations_of(node.notes)
        fitting = _fitting(observations, most - _size(_entity(node.title, node.kind, [])))
        entity = _entity(node.title, node.kind, fitting)
        if (size := _size(entity)) > room:
            break
        found[node.id] = entity
        n_left += len(observations) - len(fitting)
        room -= size
    return found, n_left


def _left_out(counts: Mapping[str, int]) -> dict[str, Any]:
    left = {name: n for name, n in counts.items() if n}
    if not left:
        return {}
    hint = (
        "this is too much for one result: search_nodes and open_nodes read parts, and get_nodes_by_id (with"
        " ids of query_nodes) reads long notes"
    )
    return {"leftOut": {**left, "hint": hint}}


def _some(name: str, items: Sequence[Any]) -> dict[str, Any]:
    """Return what was stored, as much of it as fits."""
    fitting = _fitting(items, _MOST_CHARS)
    n_left = len(items) - len(fitting)
    if not n_left:
        return {name: fitting}
    return {name: fitting, "leftOut": {name: n_left, "hint": "these were stored as well"}}


def _done(n: int, noun: str, nouns: str, missing: Sequence[str]) -> dict[str, Any]:
    message = f"{n:,} {noun if n == 1 else nouns} deleted"
    if missing:
        named = ", ".join(name[:100] for name in missing[:_MOST_NAMED])
        more = f" and {len(missing) - _MOST_NAMED:,} others" if len(missing) > _MOST_NAMED else ""
        message += f"; these entities don't exist: {named}{more}"
    return {"success": True, "message": message}
