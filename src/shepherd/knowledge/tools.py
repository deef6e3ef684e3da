"""Tools of a model over knowledge: their schemas, the function of each, and the roles that get them.

Names and arguments are accepted in both spellings, `query_nodes` and `queryNodes`; schemas have the first.
Results have the words of users as they are: a caller that puts them into a prompt must escape them.
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

# Characters of a text and of notes in one result; an offset requests the next part. The loop of tools
# cuts a result at 8,000 characters.
_TEXT_CHARS, _NOTES_CHARS = 4000, 3000
_MOST_RESULTS = 50
_MOST_CHUNKS = 6
_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")
# Tools of the original program under other names.
_OTHER_NAMES = {
    "search_content_embeddings": "search_content",
    "get_nodes": "get_nodes_by_id",
    "search_nodes": "query_nodes",
    "list_dimensions": "query_dimensions",
}

# Arguments of the original program: objects around the others, and other names.
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
    """Parts of the context and tools of a role; `tools` is None for all of them."""

    has_background: bool
    has_workflows: bool
    tools: frozenset[str] | None
    instructions: str = ""


_READING = frozenset({"query_nodes", "get_nodes_by_id", "search_content", "query_edges", "query_dimensions"})
_WRITING = frozenset({"create_node", "update_node", "create_edge", "update_edge"})

ROLES = {
    # Talks with the user.
    "orchestrator": RoleRow(has_background=True, has_workflows=True, tools=None),
    # Carries out one task: reads and writes.
    "executor": RoleRow(
        has_background=False,
        has_workflows=False,
        tools=_READING | _WRITING,
        instructions="Carry out the one task that you are given, with your tools, and nothing else."
        " End with a short report: what you did, what you found, what is left.",
    ),
    # Plans a task: reads, and adds to notes.
    "planner": RoleRow(
        has_background=False,
        has_workflows=False,
        tools=_READING | {"update_node"},
        instructions="Work through the task or workflow that you are given step by step. Say your plan first,"
        " look up what each step needs, and add what you find to the notes of its node.",
    ),
}


def role_of(name: str) -> RoleRow:
    """Return the row of a role; UsageError lists the roles there are."""
    if name not in ROLES:
        raise UsageError(f"there is no role {name!a}", hint="roles: " + ", ".join(ROLES))
    return ROLES[name]


class KnowledgeTools:
    """Tools of one role over one user's knowledge."""

    def __init__(self, knowledge: Knowledge, role: str = "orchestrator") -> None:
        allowed = role_of(role).tools
        self._knowledge = knowledge
        self._tools = {name: tool for name, tool in _TOOLS.items() if allowed is None or name in allowed}

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order of `tools`."""
        return tuple(self._tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Schemas for the model; the same in every turn, so that a prefix cache can hold them."""
        return tuple(
            Tool(
                name,
                tool.description,
                {"type": "object", "properties": tool.properties, "required": list(tool.required)},
            )
            for name, tool in self._tools.items()
        )

    def other_names(self, name: str) -> tuple[str, ...]:
        """Return the other names of a tool: `getNodesById`, and those of the original in both spellings."""
        originals = [original for original, plain in _OTHER_NAMES.items() if plain == name]
        spelled = [camel_case(name), *(spelling for one in originals for spelling in (one, camel_case(one)))]
        return tuple(dict.fromkeys(one for one in spelled if one != name))

    def knows(self, name: str) -> bool:
        """Return True for the name of one of these tools, in any spelling."""
        return _plain_name(name) in self._tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return the result of a call as data; UsageError names what is wrong with it."""
        plain = _plain_name(name)
        if plain not in self._tools:
            raise UsageError(f"there is no tool {name!a}", hint="tools: " + ", ".join(self._tools))
        tool = self._tools[plain]
        return tool.run(self._knowledge, _checked(plain, tool, arguments))


def snake_case(name: str) -> str:
    """Return `get_nodes_by_id` for `getNodesById`."""
    return _UPPER.sub(lambda match: "_" + match[1], name).lower()


def camel_case(name: str) -> str:
    """Return `getNodesById` for `get_nodes_by_id`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain_name(name: str) -> str:
    plain = snake_case(name.removeprefix("rah_"))
    return _OTHER_NAMES.get(plain, plain)


def _checked(name: str, tool: _Tool, arguments: Mapping[str, Any]) -> _Arguments:
    """Return the arguments in our spelling, converted to the types of the schema."""
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
    wanted = {name: asked.get(name) for name in ("kind", "dimension")}
    found = knowledge.find_nodes(asked.get("query", ""), _limit(asked), **wanted)
    return {"nodes": [_short(node) for node in found]}


def _get_nodes_by_id(knowledge: Knowledge, asked: _Arguments) -> Any:
    ids = asked["ids"][:_MOST_RESULTS]
    found = {i: knowledge.get_node(i, with_text=asked.get("include_text", False)) for i in ids}
    nodes = [_whole(node, asked) for node in map(found.get, ids) if node is not None]
    return {"nodes": nodes, "missing": [i for i in ids if found[i] is None]}


def _search_content(knowledge: Knowledge, asked: _Arguments) -> Any:
    limit = min(asked.get("limit", 5), _MOST_CHUNKS)
    found = knowledge.search(asked["query"], limit, part="text", node_ids=asked.get("node_ids"))
    names = ("node_id", "title", "start_char", "end_char")
    return {
        "chunks": [
            {
                **{name: getattr(chunk, name) for name in names},
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
    n_secrets = knowledge.count_secrets(asked, is_new=True)
    return {"node": _short(knowledge.add_node(asked.pop("title"), **asked)), **_masked(n_secrets)}


def _update_node(knowledge: Knowledge, asked: _Arguments) -> Any:
    node_id, replaces = asked.pop("id"), asked.pop("replace", False)
    if "notes" in asked and not replaces:
        asked["append_notes"] = asked.pop("notes")
    if not asked:
        raise UsageError("update_node: nothing to change", hint="name a field and its new value")
    if not knowledge.update_node(node_id, **asked):
        raise _no_node(node_id)
    node = knowledge.get_node(node_id)
    return {"node": _short(node) if node else None, **_masked(knowledge.count_secrets(asked))}


def _masked(n_secrets: int) -> dict[str, int]:
    """Return what tells the model that the node is not as it wrote it."""
    return {"masked_secrets": n_secrets} if n_secrets else {}


def _create_edge(knowledge: Knowledge, asked: _Arguments) -> Any:
    return {"edge": _edge(knowledge.connect(**{"confidence": 0.8, **asked}, source="agent"))}


def _update_edge(knowledge: Knowledge, asked: _Arguments) -> Any:
    edge_id = asked.pop("id")
    if not knowledge.update_edge(edge_id, **asked):
        raise UsageError(f"there is no edge {edge_id}", hint="query_edges shows them")
    edge = knowledge.get_edge(edge_id)
    return {"edge": _edge(edge) if edge else None}


def _query_dimensions(knowledge: Knowledge, asked: _Arguments) -> Any:
    return {"dimensions": [asdict(dimension) for dimension in knowledge.list_dimensions()]}


def _set_dimension(knowledge: Knowledge, asked: _Arguments) -> Any:
    knowledge.set_dimension(**asked)
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
        **{
            name: getattr(node, name) for name in ("id", "title", "kind", "description", "link", "event_date")
        },
        "dimensions": list(node.dimensions),
        "edges": node.n_edges,
        "text_length": node.text_length,
    }
    return {name: value for name, value in found.items() if value not in ("", [], 0) or name == "id"}


def _whole(node: Node, asked: _Arguments) -> dict[str, Any]:
    found = _short(node)
    if node.notes:
        found |= _part(node.notes, asked.get("notes_offset", 0), _NOTES_CHARS, "notes", "notes_next_offset")
    if asked.get("include_text", False):
        found |= _part(node.source_text, asked.get("offset", 0), _TEXT_CHARS, "text", "next_offset")
    return found


def _part(text: str, offset: int, size: int, name: str, next_offset: str) -> dict[str, Any]:
    offset = max(offset, 0)
    end = offset + size
    return {name: text[offset:end], **({next_offset: end} if end < len(text) else {})}


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "id": edge.id,
        "from": {"id": edge.from_node_id, "title": edge.from_title},
        "to": {"id": edge.to_node_id, "title": edge.to_title},
        **{name: getattr(edge, name) for name in ("type", "explanation", "confidence")},
    }


def _no_node(node_id: int) -> UsageError:
    return UsageError(f"there is no node {node_id}", hint="query_nodes finds them")


def _text(description: str, **more: Any) -> _Schema:
    return {"type": "string", "description": description, **more}


def _whole_number(description: str) -> _Schema:
    return {"type": "integer", "description": description}


def _list_of(items: _Schema, description: str) -> _Schema:
    return {"type": "array", "items": items, "description": description}


def _yes_or_no(description: str) -> _Schema:
    return {"type": "boolean", "description": description}


_LIMIT = _whole_number("how many at most (10)")
_TYPE = _text("what the edge says, read from its first node to its second", enum=list(EDGE_TYPES))
_EDGE_FIELDS = {
    "explanation": _text("a sentence that reads from the first node to the second"),
    "type": _TYPE,
    "confidence": {"type": "number", "description": "0 to 1"},
}
_DIMENSION_FIELDS = {
    "description": _text("what it is for"),
    "icon": _text("an emoji"),
    "is_priority": _yes_or_no("one of the main ones"),
}
_FIELDS = {
    "description": _text("one sentence that says what it is"),
    "notes": _text("the user's thoughts about it"),
    "source_text": _text("the whole text, if it is one"),
    "link": _text("address of the original"),
    "kind": _text("idea, person, paper, note ..."),
    "event_date": _text("when it happened, YYYY-MM-DD"),
    "dimensions": _list_of({"type": "string"}, "its tags"),
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
            "include_text": _yes_or_no(f"also the text, {_TEXT_CHARS} characters at a time"),
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
            "replace": _yes_or_no("replace the notes instead of appending"),
        },
        ("id",),
        _update_node,
    ),
    "create_edge": _Tool(
        "Connect two nodes, with the reason.",
        {
            "from_node_id": _whole_number("the first node"),
            "to_node_id": _whole_number("the second node"),
            **_EDGE_FIELDS,
        },
        ("from_node_id", "to_node_id", "explanation"),
        _create_edge,
    ),
    "update_edge": _Tool(
        "Change what a connection says.",
        {"id": _whole_number("its number"), **_EDGE_FIELDS},
        ("id",),
        _update_edge,
    ),
    "query_dimensions": _Tool("List the tags, with how many nodes have each.", {}, (), _query_dimensions),
    "create_dimension": _Tool(
        "Make a tag.",
        {"name": _text("the tag"), **_DIMENSION_FIELDS},
        ("name",),
        _set_dimension,
    ),
    "update_dimension": _Tool(
        "Change or rename a tag.",
        {"name": _text("the tag"), "new_name": _text("its new name"), **_DIMENSION_FIELDS},
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
