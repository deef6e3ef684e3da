"""`shepherd knowledge`: what a user keeps on purpose, and how it hangs together."""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import (
    LARGEST_ID,
    MOST_ROWS,
    Parser,
    add_action,
    add_common_options,
    add_memory_options,
    loaded_settings,
    stdin_bytes,
    whole_number,
)
from shepherd.cli.progress import amount, working
from shepherd.commands.screen import Screen, counted
from shepherd.errors import DocumentError, ShepherdError, UsageError
from shepherd.paths import new_file

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.knowledge import Knowledge, Node
    from shepherd.knowledge.importing import WebLimits
    from shepherd.knowledge.records import Outcome

__all__ = ["build_parser", "execute"]

_ID, _OFFSET, _COUNT = whole_number(1, LARGEST_ID), whole_number(0, LARGEST_ID), whole_number(1, MOST_ROWS)


def build_parser() -> Parser:
    """The options of `shepherd knowledge`."""
    parser = Parser(
        prog="shepherd knowledge",
        description="Nodes (notes, people, documents), directed edges between them, and dimensions (tags).",
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    _add_reading(actions)
    _add_changing(actions)
    _add_carrying(actions)
    for action in actions.choices.values():
        add_memory_options(action)
        add_common_options(action)
    return parser


def _add_reading(actions: Any) -> None:
    listing = add_action(actions, "list", "nodes, the latest changed first")
    listing.add_argument("--kind", metavar="KIND", help="only nodes of this kind")
    listing.add_argument("--dimension", metavar="NAME", help="only nodes with this tag")
    listing.add_argument("--limit", type=_COUNT, default=50, metavar="N", help="how many (50)")
    listing.add_argument(
        "--offset", type=_OFFSET, default=0, metavar="N", help="how many newer ones to skip (0)"
    )

    show = add_action(actions, "show", "one node with its edges")
    show.add_argument("id", type=_ID, metavar="ID", help="its number, as list shows it")
    show.add_argument("--text", action="store_true", help="the whole text of a document, too")

    search = add_action(actions, "search", "passages that fit some words, with scores")
    search.add_argument("query", nargs="+", metavar="WORDS", help="what to look for")
    search.add_argument("--limit", type=_COUNT, default=10, metavar="N", help="how many (10)")
    search.add_argument(
        "--threshold", type=float, default=0.0, metavar="N", help="least relevance, 0 to 1 (0)"
    )

    hubs = add_action(actions, "hubs", "the most-connected nodes, as a model is told")
    hubs.add_argument("--limit", type=_COUNT, default=10, metavar="N", help="how many (10)")
    add_action(actions, "dimensions", "tags, and how many nodes have each")


def _add_changing(actions: Any) -> None:
    add = add_action(actions, "add", "keep something as a new node")
    add.add_argument("title", metavar="TITLE", help="one line")
    _add_fields(add, "a tag; may be given again")

    edit = add_action(actions, "edit", "change a node")
    edit.add_argument("id", type=_ID, metavar="ID", help="its number")
    edit.add_argument("--title", metavar="TEXT", help="new title")
    edit.add_argument("--append", metavar="TEXT", help="put this after its notes")
    _add_fields(edit, "a tag, in place of those it has; may be given again")
    edit.add_argument(
        "--no-dimension", dest="dimension", action="store_const", const=[], help="take its tags off"
    )

    forget = add_action(actions, "forget", "delete nodes with their edges and texts")
    forget.add_argument("ids", type=_ID, nargs="+", metavar="ID", help="their numbers")

    link = add_action(actions, "link", "connect two nodes")
    link.add_argument("from_id", type=_ID, metavar="FROM", help="number of the first node")
    link.add_argument("to_id", type=_ID, metavar="TO", help="number of the second node")
    link.add_argument("explanation", metavar="WHY", help="a sentence that reads from the first to the second")
    link.add_argument("--type", default="related_to", metavar="TYPE", help="what it says (related_to)")

    unlink = add_action(actions, "unlink", "remove edges")
    unlink.add_argument("ids", type=_ID, nargs="+", metavar="EDGE", help="their numbers, as show has them")

    focus = add_action(actions, "focus", "the nodes that are open; numbers open these and no others")
    focus.add_argument("ids", type=_ID, nargs="*", metavar="ID", help="their numbers, the primary one first")
    focus.add_argument("--clear", action="store_true", help="open none")


def _add_fields(action: Parser, dimension_help: str) -> None:
    action.add_argument("--description", metavar="TEXT", help="one sentence that says what it is")
    action.add_argument("--notes", metavar="TEXT", help="your thoughts about it")
    action.add_argument("--kind", metavar="KIND", help="idea, person, paper …")
    action.add_argument("--link", metavar="URL", help="where the original is")
    action.add_argument("--date", metavar="YYYY-MM-DD", help="when it happened")
    action.add_argument("--text", metavar="FILE", help="its whole text; - is stdin")
    action.add_argument("--dimension", action="append", metavar="NAME", help=dimension_help)


def _add_carrying(actions: Any) -> None:
    importing = add_action(actions, "import", "documents, folders, web pages, an RA-H database, our export")
    importing.add_argument("sources", nargs="+", metavar="SOURCE", help="files, folders, addresses")
    importing.add_argument("--dimension", action="append", metavar="NAME", help="a tag for what is new")
    export = add_action(actions, "export", "write everything as JSON lines")
    export.add_argument("file", nargs="?", default="-", metavar="FILE", help="where to (stdout)")


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; gives its exit code."""
    from shepherd.factory import open_memory, open_memory_to_read
    from shepherd.knowledge import Knowledge

    config = loaded_settings(arguments).config
    reads = arguments.action in _READING or (
        arguments.action == "focus" and not (arguments.ids or arguments.clear)
    )
    with (open_memory_to_read if reads else open_memory)(config) as memory:
        knowledge = Knowledge(memory.transactions, memory.user_id)
        if arguments.action == "import":
            return _import(knowledge, arguments, screen, config)
        return _ACTIONS[arguments.action](knowledge, arguments, screen) or 0


# ---- reading


def _list(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    nodes = knowledge.list_nodes(
        kind=arguments.kind, dimension=arguments.dimension, limit=arguments.limit, offset=arguments.offset
    )
    if arguments.json:
        screen.json(nodes)
        return
    rows = [
        (node.id, _day(node.updated_at), node.kind, node.n_edges, node.title, ", ".join(node.dimensions))
        for node in nodes
    ]
    screen.table(["id", "changed", "kind", "edges", "title", "dimensions"], rows)
    if not nodes:
        screen.note("no nodes; shepherd knowledge add TITLE keeps one, import reads documents")


def _show(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    node = _existing(knowledge, arguments.id, with_text=arguments.text)
    edges = knowledge.list_edges(node.id)
    if arguments.json:
        screen.json({"node": node, "edges": edges})
        return
    screen.print(node.title, "bold")
    facts = [
        ("kind", node.kind),
        ("description", node.description),
        ("link", node.link),
        ("date", node.event_date),
        ("dimensions", ", ".join(node.dimensions)),
        ("text", f"{node.text_length:,} characters, {node.index_state}" if node.text_length else ""),
    ]
    for name, value in facts:
        if value:
            screen.print(f"{name:12} {value}")
    if node.notes:
        screen.print(f"\n{node.notes}")
    for edge in edges:
        screen.print(
            f"edge {edge.id}: {edge.from_title} ({edge.from_node_id}) {edge.type}"
            f" {edge.to_title} ({edge.to_node_id}): {edge.explanation}"
        )
    if node.source_text:
        screen.print(f"\n{node.source_text}")


def _search(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    found = knowledge.search(
        " ".join(arguments.query), arguments.limit, min_relevance=_share(arguments.threshold)
    )
    if arguments.json:
        screen.json(found)
        return
    rows = [
        (r.node_id, f"{r.relevance:.2f}", f"{r.score:.2f}", f"{r.start_char}-{r.end_char}", r.title, r.text)
        for r in found
    ]
    screen.table(["node", "relevance", "score", "characters", "title", "text"], rows)
    if not found:
        screen.note("nothing matches")


def _hubs(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    if arguments.json:
        screen.json(knowledge.hubs(arguments.limit))
        return
    block = knowledge.background_block(arguments.limit)
    screen.print(block) if block else screen.note("no nodes")


def _dimensions(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    found = knowledge.list_dimensions()
    if arguments.json:
        screen.json(found)
        return
    rows = [(d.name, d.n_nodes, "priority" if d.is_priority else "", d.description) for d in found]
    screen.table(["name", "nodes", "priority", "description"], rows)


# ---- changing


def _add(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    node = knowledge.add_node(arguments.title, **_fields(arguments))
    screen.json({"id": node.id}) if arguments.json else screen.print(str(node.id))


def _edit(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    values = _fields(arguments)
    if arguments.title is not None:
        values["title"] = arguments.title
    if not values and not arguments.append:
        raise UsageError("nothing to change", hint="--title, --notes, --append and others; see --help")
    _existing(knowledge, arguments.id)
    knowledge.update_node(arguments.id, append_notes=arguments.append or "", **values)
    if arguments.json:
        screen.json(knowledge.get_node(arguments.id))


def _forget(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    return _removed(arguments, screen, "node", [i for i in arguments.ids if not knowledge.delete_node(i)])


def _link(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    edge = knowledge.connect(arguments.from_id, arguments.to_id, arguments.explanation, type=arguments.type)
    if arguments.json:
        screen.json(edge)
    else:
        screen.note(f"edge {edge.id}: {edge.from_title} {edge.type} {edge.to_title}")


def _unlink(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    return _removed(arguments, screen, "edge", [i for i in arguments.ids if not knowledge.delete_edge(i)])


def _focus(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    missing: list[int] = []
    if arguments.ids or arguments.clear:
        found = {node.id for node in knowledge.focus(arguments.ids)}
        missing = [node_id for node_id in arguments.ids if node_id not in found]
    if arguments.json:
        screen.json({"nodes": [focused.node for focused in knowledge.focused()], "missing": missing})
    else:
        block = knowledge.focus_block()
        screen.print(block) if block else screen.note("no node is open")
        for node_id in missing:
            screen.warn(f"there is no node {node_id}")
    return 1 if missing else 0


def _removed(arguments: Namespace, screen: Screen, noun: str, missing: list[int]) -> int:
    removed = len(arguments.ids) - len(missing)
    if arguments.json:
        screen.json({"removed": removed, "missing": missing})
    else:
        screen.note(f"{counted(removed, noun)} removed")
        for number in missing:
            screen.warn(f"there is no {noun} {number}")
    return 1 if missing else 0


def _fields(arguments: Namespace) -> dict[str, Any]:
    """The fields that were given."""
    given = {
        "description": arguments.description,
        "notes": arguments.notes,
        "kind": arguments.kind,
        "link": arguments.link,
        "event_date": arguments.date,
        "dimensions": arguments.dimension,
        "source_text": None if arguments.text is None else _text(arguments.text),
    }
    return {name: value for name, value in given.items() if value is not None}


def _text(file: str) -> str:
    if file == "-":
        return stdin_bytes().read().decode("utf-8", "replace")
    try:
        return Path(os.path.expanduser(file)).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", hint="name a file with the text") from error


# ---- carrying


def _import(knowledge: Knowledge, arguments: Namespace, screen: Screen, config: Config) -> int:
    from shepherd.knowledge.importing import WebLimits

    counts: Counter[str] = Counter()
    outcomes = []
    try:
        for outcome in _outcomes(knowledge, arguments, screen, WebLimits.of(config)):
            counts[outcome.state] += 1
            outcomes.append(outcome)
    except (KeyboardInterrupt, ShepherdError) as error:
        if outcomes or isinstance(error, KeyboardInterrupt):
            screen.note(f"{counts['added']:,} added; the same command goes on with the rest")
        raise
    if arguments.json:
        screen.json({"counts": dict(counts), "documents": outcomes})
    else:
        screen.note(
            f"{counts['added']:,} added, {counts['changed']:,} changed, {counts['unchanged']:,} unchanged,"
            f" {counts['failed']:,} failed"
        )
        for outcome in outcomes:
            if outcome.state == "failed":
                screen.warn(outcome.reason)
    return 1 if counts["failed"] else 0


def _outcomes(
    knowledge: Knowledge, arguments: Namespace, screen: Screen, limits: WebLimits
) -> Iterator[Outcome]:
    """Of every source; one of several that cannot be read does not end the others."""
    from shepherd.knowledge.importing import import_from
    from shepherd.knowledge.records import Outcome

    with amount(screen, "importing") as progress:
        for source in arguments.sources:
            try:
                yield from import_from(
                    knowledge,
                    source,
                    dimensions=arguments.dimension or (),
                    limits=limits,
                    progress=lambda done, total, name: progress(done, total),
                )
            except (DocumentError, UsageError) as error:
                if len(arguments.sources) == 1:
                    raise
                yield Outcome(source, "failed", reason=str(error))


def _export(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    from shepherd.knowledge import transfer

    count = 0
    target = nullcontext(screen.utf8()) if arguments.file == "-" else new_file(arguments.file)
    shows = nullcontext() if arguments.file == "-" else working(screen, "exporting")
    with shows, target as file:
        for record in transfer.records(knowledge):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += record["type"] == "node"
    if arguments.json and arguments.file != "-":
        screen.json({"file": arguments.file, "nodes": count})
    else:
        screen.note(f"{counted(count, 'node')} exported")


# ---- helpers


_READING = ("list", "show", "search", "hubs", "dimensions", "export")
_ACTIONS = {
    "list": _list,
    "show": _show,
    "search": _search,
    "hubs": _hubs,
    "dimensions": _dimensions,
    "add": _add,
    "edit": _edit,
    "forget": _forget,
    "link": _link,
    "unlink": _unlink,
    "focus": _focus,
    "export": _export,
}


def _existing(knowledge: Knowledge, node_id: int, *, with_text: bool = False) -> Node:
    node = knowledge.get_node(node_id, with_text=with_text)
    if node is None:
        raise ShepherdError(f"there is no node {node_id}", hint="shepherd knowledge list shows them")
    return node


def _share(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"--threshold is {value}; expected a number from 0 to 1")
    return value


def _day(timestamp: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(timestamp))
