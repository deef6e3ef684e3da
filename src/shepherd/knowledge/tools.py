"""Tools of a model over knowledge: the schemas that it is told, the function behind each, and who gets which.

Names and arguments are accepted in both spellings, `query_nodes` and `queryNodes`; schemas have the first.
Results are plain data with the words that people wrote: whoever puts them into a prompt makes them harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from shepherd.errors import UsageError
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.records import EDGE_TYPES, Edge, Node
from shepherd.tool_arguments import checked_argument
from shepherd.types import Tool

__all__ = ["ROLES", "KnowledgeTools", "RoleRow", "camel_case", "role_of", "snake_case"]

# Of a whole text, and of notes, so much comes at a time; the next part is asked for with an offset. The loop
# of tools gives a model 8,000 characters of a result.
_TEXT_CHARS, _NOTES_CHARS = 4000, 3000
_MOST_RESULTS = 50
_MOST_CHUNKS = 6
_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")
# Names of the original that are not only spelled otherwise.
_OTHER_NAMES = {
    "search_content_embeddings": "search_content",
    "get_nodes": "get_nodes_by_id",
    "search_nodes": "query_nodes",
    "list_dimensions": "query_dimensions",
}

# Arguments of the original: objects around the others, and other names, where a tool has the right-hand one.
_WRAPPERS = ("filters", "updates")
_OTHER_ARGUMENTS = {
    "search": "query",
    "node_ids": "ids",
    "node_id": "id",
    "edge_id": "id",
    "content": "notes",
    "chunk": "source_text",
    "type": "kind",
}

_Arguments = dict[str, Any]
_Schema = dict[str, Any]


class _Tool(NamedTuple):
    description: str
    properties: dict[str, _Schema]
    required: tuple[str, ...]
    run: Callable[[Knowledge, _Arguments], Any]


class RoleRow(NamedTuple):
    """Parts of the context and tools that a role gets. `tools`: their names, or None for all there are."""

    has_background: bool
    has_workflows: bool
    tools: frozenset[str] | None


_READING = frozenset({"query_nodes", "get_nodes_by_id", "search_content", "query_edges", "query_dimensions"})
_WRITING = frozenset({"create_node", "update_node", "create_edge", "update_edge"})

ROLES = {
    # Talks with the user: everything.
    "orchestrator": RoleRow(has_background=True, has_workflows=True, tools=None),
    # Carries one task out: reads and writes.
    "executor": RoleRow(has_background=False, has_workflows=False, tools=_READING | _WRITING),
    # Thinks a task over: reads, and notes what it found.
    "planner": RoleRow(has_background=False, has_workflows=False, tools=_READING | {"update_node"}),
}


def role_of(name: str) -> RoleRow:
    """Return the row of a role; UsageError lists the roles there are."""
    if name not in ROLES:
        raise UsageError(f"there is no role {name!a}", hint="roles: " + ", ".join(ROLES))
    return ROLES[name]


class KnowledgeTools:
    """The tools of one role over one user's knowledge, for whoever runs the loop of calls and results."""

    def __init__(self, knowledge: Knowledge, role: str = "orchestrator") -> None:
        allowed = role_of(role).tools
        self._knowledge = knowledge
        self._tools = {name: tool for name, tool in _TOOLS.items() if allowed is None or name in allowed}

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of `tools`."""
        return tuple(self._tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What a model is told; the same every time."""
        return tuple(
            Tool(
                name,
                tool.description,
                {"type": "object", "properties": tool.properties, "required": list(tool.required)},
            )
            for name, tool in self._tools.items()
        )

    def other_names(self, name: str) -> tuple[str, ...]:
        """What else a tool is called by: `getNodesById`, and the original's own names in both spellings."""
        originals = [original for original, plain in _OTHER_NAMES.items() if plain == name]
        spelled = [camel_case(name), *(spelling for one in originals for spelling in (one, camel_case(one)))]
        return tuple(dict.fromkeys(one for one in spelled if one != name))

    def knows(self, name: str) -> bool:
        """Whether a call of this name, in either spelling, is one of these."""
        return _plain_name(name) in self._tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool gives, as data; UsageError says what was wrong with the call."""
        plain = _plain_name(name)
        if plain not in self._tools:
            raise UsageError(f"there is no tool {name!a}", hint="tools: " + ", ".join(self._tools))
        tool = self._tools[plain]
        return tool.run(self._knowledge, _checked(plain, tool, arguments))


def snake_case(name: str) -> str:
    """`getNodesById` as `get_nodes_by_id`."""
    return _UPPER.sub(lambda match: "_" + match[1], name).lower()


def camel_case(name: str) -> str:
    """`get_nodes_by_id` as `getNodesById`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain_name(name: str) -> str:
    plain = snake_case(name.removeprefix("rah_"))
    return _OTHER_NAMES.get(plain, plain)


def _checked(name: str, tool: _Tool, arguments: Mapping[str, Any]) -> _Arguments:
    """The arguments in our spelling, of the types that the schema says; numbers may come as text."""
    given: _Arguments = {}
    for wrapper in (arguments, *(arguments.get(name) for name in _WRAPPERS)):
        for key, value in wrapper.items() if isinstance(wrapper, Mapping) else ():
            plain = snake_case(key)
            if plain not in tool.properties:
                plain = _OTHER_ARGUMENTS.get(plain, plain)
            if value is not None and key not in _WRAPPERS:
                given[plain] = value
    unknown = given.keys() - tool.properties.keys()
    if unknown:
        raise UsageError(
            f"{name} has no argument {sorted(unknown)[0]!a}", hint="arguments: " + ", ".join(tool.properties)
        )
    missing = [key for key in tool.required if key not in given]
    if missing:
        raise UsageError(f"{name} needs {missing[0]}", hint="arguments: " + ", ".join(tool.required))
    return {
        key: checked_argument(f"{name}: {key}", tool.properties[key], value) for key, value in given.items()
    }


# ---- the tools


def _query_nodes(knowledge: Knowledge, asked: _Arguments) -> Any:
    found = knowledge.find_nodes(
        asked.get("query", ""),
        _limit(asked),
        kind=asked.get("kind"),
        dimension=asked.get("dimension"),
    )
    return {"nodes": [_short(node) for node in found]}


def _get_nodes_by_id(knowledge: Knowledge, asked: _Arguments) -> Any:
    nodes = []
    missing = []
    for node_id in asked["ids"][:_MOST_RESULTS]:
        node = knowledge.get_node(node_id, with_text=asked.get("include_text", False))
        if node is None:
            missing.append(node_id)
        else:
            nodes.append(_whole(node, asked))
    return {"nodes": nodes, "missing": missing}


def _search_content(knowledge: Knowledge, asked: _Arguments) -> Any:
    limit = min(asked.get("limit", 5), _MOST_CHUNKS)
    found = knowledge.search(asked["query"], limit, part="text", node_ids=asked.get("node_ids"))
    return {
        "chunks": [
            {
                "node_id": chunk.node_id,
                "title": chunk.title,
                "start_char": chunk.start_char,
                "end_char": chunk.end_char,
                "relevance": round(chunk.relevance, 3),
                "text": chunk.text,
            }
            for chunk in found
        ]
    }


def _query_edges(knowledge: Knowledge, asked: _Arguments) -> Any:
    found = knowledge.list_edges(asked.get("node_id"), type=asked.get("type"), limit=_limit(asked))
    return {"edges": [_edge(edge) for edge in found]}


def _create_node(knowledge: Knowledge, asked: _Arguments) -> Any:
    return {"node": _short(knowledge.add_node(asked.pop("title"), **asked))}


def _update_node(knowledge: Knowledge, asked: _Arguments) -> Any:
    node_id, replaces = asked.pop("id"), asked.pop("replace", False)
    if "notes" in asked and not replaces:
        asked["append_notes"] = asked.pop("notes")
    if not asked:
        raise UsageError("update_node: nothing to change", hint="name a field and its new value")
    if not knowledge.update_node(node_id, **asked):
        raise _no_node(node_id)
    node = knowledge.get_node(node_id)
    return {"node": _short(node) if node else None}


def _create_edge(knowledge: Knowledge, asked: _Arguments) -> Any:
    edge = knowledge.connect(
        asked["from_node_id"],
        asked["to_node_id"],
        asked["explanation"],
        type=asked.get("type", "related_to"),
        confidence=asked.get("confidence", 0.8),
        source="agent",
    )
    return {"edge": _edge(edge)}


def _update_edge(knowledge: Knowledge, asked: _Arguments) -> Any:
    edge_id = asked.pop("id")
    if not knowledge.update_edge(edge_id, **asked):
        raise UsageError(f"there is no edge {edge_id}", hint="query_edges shows them")
    edge = knowledge.get_edge(edge_id)
    return {"edge": _edge(edge) if edge else None}


def _query_dimensions(knowledge: Knowledge, asked: _Arguments) -> Any:
    return {"dimensions": [asdict(dimension) for dimension in knowledge.list_dimensions()]}


def _set_dimension(knowledge: Knowledge, asked: _Arguments) -> Any:
    name = asked.pop("name")
    knowledge.set_dimension(name, **asked)
    return _query_dimensions(knowledge, {})


def _delete_dimension(knowledge: Knowledge, asked: _Arguments) -> Any:
    return {"deleted": knowledge.delete_dimension(asked["name"])}


def _get_context(knowledge: Knowledge, asked: _Arguments) -> Any:
    return {
        "hubs": [asdict(hub) for hub in knowledge.hubs(_limit(asked))],
        "focused": [_short(focused.node) for focused in knowledge.focused()],
        "dimensions": [dimension.name for dimension in knowledge.list_dimensions()],
        "n_nodes": knowledge.count_nodes(),
    }


# ---- how results look


def _limit(asked: _Arguments) -> int:
    wanted: int = asked.get("limit", 10)
    return min(max(wanted, 1), _MOST_RESULTS)


def _short(node: Node) -> dict[str, Any]:
    found = {
        "id": node.id,
        "title": node.title,
        "kind": node.kind,
        "description": node.description,
        "link": node.link,
        "event_date": node.event_date,
        "dimensions": list(node.dimensions),
        "edges": node.n_edges,
        "text_length": node.text_length,
    }
    return {name: value for name, value in found.items() if value not in ("", [], 0) or name == "id"}


def _whole(node: Node, asked: _Arguments) -> dict[str, Any]:
    found = _short(node)
    if node.notes:
        offset = max(asked.get("notes_offset", 0), 0)
        found["notes"] = node.notes[offset : offset + _NOTES_CHARS]
        if offset + _NOTES_CHARS < len(node.notes):
            found["notes_next_offset"] = offset + _NOTES_CHARS
    if asked.get("include_text", False):
        offset = max(asked.get("offset", 0), 0)
        found["text"] = node.source_text[offset : offset + _TEXT_CHARS]
        if offset + _TEXT_CHARS < node.text_length:
            found["next_offset"] = offset + _TEXT_CHARS
    return found


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "id": edge.id,
        "from": {"id": edge.from_node_id, "title": edge.from_title},
        "to": {"id": edge.to_node_id, "title": edge.to_title},
        "type": edge.type,
        "explanation": edge.explanation,
        "confidence": edge.confidence,
    }


def _no_node(node_id: int) -> UsageError:
    return UsageError(f"there is no node {node_id}", hint="query_nodes finds them")


def _text(description: str, **more: Any) -> _Schema:
    return {"type": "string", "description": description, **more}


def _whole_number(description: str) -> _Schema:
    return {"type": "integer", "description": description}


def _list_of(items: _Schema, description: str) -> _Schema:
    return {"type": "array", "items": items, "description": description}


_LIMIT = _whole_number("how many at most (10)")
_DIMENSIONS = _list_of({"type": "string"}, "its tags")
_TYPE = _text("what the edge says, read from its first node to its second", enum=list(EDGE_TYPES))
_EXPLANATION = _text("a sentence that reads from the first node to the second")
_CONFIDENCE = {"type": "number", "description": "0 to 1"}
_FIELDS = {
    "description": _text("one sentence that says what it is"),
    "notes": _text("the user's thoughts about it"),
    "source_text": _text("the whole text, if it is one"),
    "link": _text("address of the original"),
    "kind": _text("idea, person, paper, note ..."),
    "event_date": _text("when it happened, YYYY-MM-DD"),
    "dimensions": _DIMENSIONS,
}

_TOOLS = {
    "query_nodes": _Tool(
        "Find nodes of the user's knowledge by words, kind or dimension; without words the latest.",
        {
            "query": _text("words to look for"),
            "kind": _text("only of this kind"),
            "dimension": _text("only with this tag"),
            "limit": _LIMIT,
        },
        (),
        _query_nodes,
    ),
    "get_nodes_by_id": _Tool(
        "Read nodes: description, notes, tags and, if asked, their text in parts.",
        {
            "ids": _list_of({"type": "integer"}, "their numbers"),
            "include_text": {
                "type": "boolean",
                "description": f"also the text, {_TEXT_CHARS} characters at a time",
            },
            "offset": _whole_number("where in the text to begin (0); next_offset of the last result"),
            "notes_offset": _whole_number("the same in the notes; notes_next_offset of the last result"),
        },
        ("ids",),
        _get_nodes_by_id,
    ),
    "search_content": _Tool(
        "Find passages inside the texts of nodes.",
        {
            "query": _text("words to look for"),
            "node_ids": _list_of({"type": "integer"}, "only in these nodes"),
            "limit": _whole_number(f"how many at most, up to {_MOST_CHUNKS} (5)"),
        },
        ("query",),
        _search_content,
    ),
    "query_edges": _Tool(
        "List connections of a node, or the latest of all.",
        {"node_id": _whole_number("at either end"), "type": _TYPE, "limit": _LIMIT},
        (),
        _query_edges,
    ),
    "create_node": _Tool(
        "Keep something as a new node.",
        {"title": _text("one line"), **_FIELDS},
        ("title",),
        _create_node,
    ),
    "update_node": _Tool(
        "Change a node. Notes are appended unless replace is true.",
        {
            "id": _whole_number("its number"),
            "title": _text("one line"),
            **_FIELDS,
            "replace": {"type": "boolean", "description": "replace the notes instead of appending"},
        },
        ("id",),
        _update_node,
    ),
    "create_edge": _Tool(
        "Connect two nodes, with the reason.",
        {
            "from_node_id": _whole_number("the first node"),
            "to_node_id": _whole_number("the second node"),
            "explanation": _EXPLANATION,
            "type": _TYPE,
            "confidence": _CONFIDENCE,
        },
        ("from_node_id", "to_node_id", "explanation"),
        _create_edge,
    ),
    "update_edge": _Tool(
        "Change what a connection says.",
        {
            "id": _whole_number("its number"),
            "explanation": _EXPLANATION,
            "type": _TYPE,
            "confidence": _CONFIDENCE,
        },
        ("id",),
        _update_edge,
    ),
    "query_dimensions": _Tool("List the tags, with how many nodes have each.", {}, (), _query_dimensions),
    "create_dimension": _Tool(
        "Make a tag.",
        {
            "name": _text("the tag"),
            "description": _text("what it is for"),
            "icon": _text("an emoji"),
            "is_priority": {"type": "boolean", "description": "one of the main ones"},
        },
        ("name",),
        _set_dimension,
    ),
    "update_dimension": _Tool(
        "Change or rename a tag.",
        {
            "name": _text("the tag"),
            "new_name": _text("its new name"),
            "description": _text("what it is for"),
            "icon": _text("an emoji"),
            "is_priority": {"type": "boolean", "description": "one of the main ones"},
        },
        ("name",),
        _set_dimension,
    ),
    "delete_dimension": _Tool(
        "Take a tag off all nodes.", {"name": _text("the tag")}, ("name",), _delete_dimension
    ),
    "get_context": _Tool(
        "See the most-connected nodes, what the user has open, and the tags.",
        {"limit": _LIMIT},
        (),
        _get_context,
    ),
}
