"""`shepherd knowledge`: notes, documents and the connections between them."""

from __future__ import annotations

import json
import shutil
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from shepherd.cli.exports import (
    add_export_options,
    add_import_options,
    decrypted,
    export_target,
    remark_of_export,
)
from shepherd.cli.misplaced import refuse_memories
from shepherd.cli.parsing import (
    ID,
    Parser,
    add_action,
    add_actions,
    add_limit,
    add_search,
    finish_actions,
    loaded_settings,
    stdin_bytes,
)
from shepherd.cli.progress import amount, working
from shepherd.commands.screen import Screen, counted, day
from shepherd.encryption import scratch_folder
from shepherd.errors import DocumentError, EmptyDocumentError, ShepherdError, UsageError

if TYPE_CHECKING:
    from shepherd.knowledge import Knowledge, Node
    from shepherd.knowledge.importing import WebLimits
    from shepherd.knowledge.records import Outcome

__all__ = ["build_parser", "execute"]


def build_parser() -> Parser:
    """Build the parser of `shepherd knowledge`."""
    parser = Parser(
        prog="shepherd knowledge",
        description="Manage nodes (notes, people, documents), the edges between them, and dimensions (tags).",
    )
    actions = add_actions(parser)
    _add_reading(actions)
    _add_changing(actions)
    _add_transfer(actions)
    finish_actions(actions, with_memory=True)
    return parser


def _add_reading(actions: Any) -> None:
    listing = add_action(actions, "list", "list nodes, most recently changed first")
    listing.add_argument("--kind", metavar="KIND", help="list only nodes of this kind")
    listing.add_argument("--dimension", metavar="NAME", help="list only nodes with this tag")
    add_limit(listing, 50, with_offset=True)

    show = add_action(actions, "show", "show a node with its edges")
    show.add_argument("id", type=ID, metavar="ID", help="id of the node, as list shows it")
    show.add_argument("--text", action="store_true", help="show the whole text of a document, too")

    add_search(actions, "show passages that match the words, with scores")
    add_limit(add_action(actions, "hubs", "list the most-connected nodes, as a model sees them"), 10)
    add_action(actions, "dimensions", "list tags, and the number of nodes with each")


def _add_changing(actions: Any) -> None:
    add = add_action(actions, "add", "add a node")
    add.add_argument("title", metavar="TITLE", help="title of the node, on one line")
    _add_fields(add, "a tag; can be repeated")

    edit = add_action(actions, "edit", "change a node")
    edit.add_argument("id", type=ID, metavar="ID", help="id of the node, as list shows it")
    edit.add_argument("--title", metavar="TEXT", help="new title")
    edit.add_argument("--append", metavar="TEXT", help="text to append to its notes")
    _add_fields(edit, "tag that replaces the current ones; can be repeated")
    edit.add_argument(
        "--no-dimension", dest="dimension", action="store_const", const=[], help="remove its tags"
    )

    forget = add_action(actions, "forget", "delete nodes with their edges and texts")
    forget.add_argument("ids", type=ID, nargs="+", metavar="ID", help="ids of the nodes, as list shows them")

    link = add_action(actions, "link", "connect two nodes")
    link.add_argument("from_id", type=ID, metavar="FROM", help="id of the first node")
    link.add_argument("to_id", type=ID, metavar="TO", help="id of the second node")
    link.add_argument(
        "explanation", metavar="WHY", help='how the first node relates to the second, such as "builds on it"'
    )
    link.add_argument(
        "--type", default="related_to", metavar="TYPE", help="type of the edge (default: related_to)"
    )

    unlink = add_action(actions, "unlink", "remove edges")
    unlink.add_argument(
        "ids", type=ID, nargs="+", metavar="EDGE", help="ids of the edges, as show lists them"
    )

    focus = add_action(actions, "focus", "list the nodes in focus, or put others in focus")
    focus.add_argument(
        "ids", type=ID, nargs="*", metavar="ID", help="ids of the nodes, the primary one first"
    )
    focus.add_argument("--clear", action="store_true", help="remove all nodes from focus")


def _add_fields(action: Parser, dimension_help: str) -> None:
    action.add_argument("--description", metavar="TEXT", help="one-sentence description")
    action.add_argument("--notes", metavar="TEXT", help="your notes about it")
    action.add_argument("--kind", metavar="KIND", help="idea, person, paper …")
    action.add_argument("--link", metavar="URL", help="address of the original")
    action.add_argument("--date", metavar="YYYY-MM-DD", help="day of the event, or a word such as yesterday")
    action.add_argument("--text", metavar="FILE", help="file with its text; - is stdin")
    action.add_argument("--dimension", action="append", metavar="NAME", help=dimension_help)


def _add_transfer(actions: Any) -> None:
    importing = add_action(
        actions,
        "import",
        "import documents, folders, web pages, databases of RA-H (a program for notes), MCP's memory.jsonl,"
        " or Shepherd's own export",
    )
    importing.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="files, folders, addresses; - is stdin"
    )
    importing.add_argument(
        "--dimension", action="append", metavar="NAME", help="tag for new nodes; can be repeated"
    )
    add_import_options(importing)
    export = add_action(actions, "export", "write everything as JSON lines")
    add_export_options(export)


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.knowledge import Knowledge
    from shepherd.memory_factory import open_memory, open_memory_to_read

    reads = arguments.action in ("list", "show", "search", "hubs", "dimensions", "export")
    if arguments.action == "focus":
        reads = not (arguments.ids or arguments.clear)
    # Only a search needs the vectors, and warns where they cannot be used.
    options: dict[str, Any] = {"warn": screen.warn} if arguments.action == "search" else {}
    opened = open_memory_to_read if reads else open_memory
    with opened(loaded_settings(arguments).config, **options) as memory:
        knowledge = Knowledge(memory.transactions, memory.user_id)
        return _ACTIONS[arguments.action](knowledge, arguments, screen) or 0


# ---- reading


def _list(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    nodes = knowledge.list_nodes(
        kind=arguments.kind, dimension=arguments.dimension, limit=arguments.limit, offset=arguments.offset
    )
    rows = [
        (node.id, day(node.updated_at), node.kind, node.n_edges, node.title, ", ".join(node.dimensions))
        for node in nodes
    ]
    empty = "no nodes; shepherd knowledge add TITLE adds one, import reads documents"
    screen.listing(nodes, ["id", "changed", "kind", "edges", "title", "dimensions"], rows, empty=empty)


def _show(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    node = _existing(knowledge, arguments.id, with_text=arguments.text)
    edges = knowledge.list_edges(node.id)
    if screen.as_json:
        screen.json({"node": node, "edges": edges})
        return
    screen.print(node.title, "bold")
    fields = [
        ("kind", node.kind),
        ("description", node.description),
        ("link", node.link),
        ("date", node.event_date),
        ("dimensions", ", ".join(node.dimensions)),
        ("text", f"{counted(node.text_length, 'character')}, {node.index_state}" if node.text_length else ""),
    ]
    for name, value in fields:
        if value:
            screen.print(f"{name:12} {value}")
    if node.notes:
        screen.print(f"\n{node.notes}")
    for edge in edges:
        explanation = "; ".join(edge.explanation.split("\n"))
        screen.print(
            f"edge {edge.id}: {edge.from_title} ({edge.from_node_id}) {edge.type}"
            f" {edge.to_title} ({edge.to_node_id}): {explanation}"
        )
    if node.source_text:
        screen.print(f"\n{node.source_text}")


def _search(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    found = knowledge.search(
        " ".join(arguments.query), arguments.limit, min_relevance=_share(arguments.threshold)
    )
    rows = [
        (r.node_id, f"{r.relevance:.2f}", f"{r.score:.2f}", f"{r.start_char}-{r.end_char}", r.title, r.text)
        for r in found
    ]
    headers = ["node", "relevance", "score", "characters", "title", "text"]
    screen.listing(found, headers, rows, empty="nothing matches")


def _hubs(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    if screen.as_json:
        screen.json(knowledge.hubs(arguments.limit))
        return
    block = knowledge.background_block(arguments.limit)
    screen.print(block) if block else screen.note("no nodes")


def _dimensions(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    found = knowledge.list_dimensions()
    rows = [(d.name, d.n_nodes, "priority" if d.is_priority else "", d.description) for d in found]
    screen.listing(found, ["name", "nodes", "priority", "description"], rows)


# ---- changing


def _add(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    values = _fields(arguments, screen)
    node = knowledge.add_node(arguments.title, **values)
    n_secrets = knowledge.count_secrets({"title": arguments.title, **values}, is_new=True)
    screen.result({"id": node.id, "secrets": n_secrets}, str(node.id))
    _warn_of_secrets(screen, n_secrets)


def _edit(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    values = _fields(arguments, screen)
    if arguments.title is not None:
        values["title"] = arguments.title
    if not values and not arguments.append:
        raise UsageError("nothing to change", hint="use --title, --notes, --append …; see --help")
    _existing(knowledge, arguments.id)
    knowledge.update_node(arguments.id, append_notes=arguments.append or "", **values)
    n_secrets = knowledge.count_secrets({"append_notes": arguments.append, **values})
    if screen.as_json:
        screen.json({**asdict(_existing(knowledge, arguments.id)), "secrets": n_secrets})
    _warn_of_secrets(screen, n_secrets)


def _warn_of_secrets(screen: Screen, n_secrets: int, name: str = "", lines: Sequence[int] = ()) -> None:
    """Say that secrets were covered, and where: what was typed can't be read from the memory again."""
    if n_secrets and not screen.as_json:
        of_document = f"{name}: " if name else ""
        numbers = ", ".join(f"{line:,}" for line in lines[:_MOST_LINES])
        more = " and others" if len(lines) > _MOST_LINES else ""
        where = f" ({'line' if len(lines) == 1 else 'lines'} {numbers}{more})" if lines else ""
        screen.warn(
            f"{of_document}{counted(n_secrets, 'secret')} masked, such as a password, a code or a key{where}",
            "memory_extraction_secrets = true stores them as they are",
        )


_MOST_LINES = 5

# Quotations are the user's and the model's own words; only copies of the text go with the node.
_QUOTED = (
    "Messages, traces and memories that quote it stay. To find them by a word of it:\n"
    "  shepherd memory audit --canary WORD"
)


def _forget(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    missing = [i for i in arguments.ids if not knowledge.delete_node(i)]
    return _removed(arguments, screen, "node", missing, still=_QUOTED)


def _link(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    edge = knowledge.connect(arguments.from_id, arguments.to_id, arguments.explanation, type=arguments.type)
    screen.result(edge, note=f"edge {edge.id}: {edge.from_title} {edge.type} {edge.to_title}")


def _unlink(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    return _removed(arguments, screen, "edge", [i for i in arguments.ids if not knowledge.delete_edge(i)])


def _focus(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    missing: list[int] = []
    if arguments.ids and arguments.clear:
        raise UsageError("focus takes ids or --clear, not both", hint="other ids replace those in focus")
    if arguments.ids or arguments.clear:
        found = {node.id for node in knowledge.focus(arguments.ids)}
        missing = [node_id for node_id in arguments.ids if node_id not in found]
    if screen.as_json:
        screen.json({"nodes": [focused.node for focused in knowledge.focused()], "missing": missing})
    else:
        block = knowledge.focus_block()
        screen.print(block) if block else screen.note("no node is in focus")
        for node_id in missing:
            screen.warn(f"there is no node {node_id}")
    return 1 if missing else 0


def _removed(arguments: Namespace, screen: Screen, noun: str, missing: list[int], *, still: str = "") -> int:
    """Say what was removed, and behind that what is `still` there; return the exit code."""
    removed = len(arguments.ids) - len(missing)
    note = f"{counted(removed, noun)} removed" + (f"\n{still}" if removed and still else "")
    screen.result({"removed": removed, "missing": missing}, note=note)
    for number in [] if screen.as_json else missing:
        screen.warn(f"there is no {noun} {number}")
    return 1 if missing else 0


def _fields(arguments: Namespace, screen: Screen) -> dict[str, Any]:
    """Return the fields that were given."""
    from shepherd.knowledge.importing import WebLimits
    from shepherd.memory.periods import day_of

    limits = WebLimits.of(loaded_settings(arguments).config)
    given = {
        "description": arguments.description,
        "notes": arguments.notes,
        "kind": arguments.kind,
        "link": arguments.link,
        "event_date": arguments.date and day_of(arguments.date, time.time()),
        "dimensions": arguments.dimension,
        "source_text": None if arguments.text is None else _text(arguments.text, limits, screen),
    }
    return {name: value for name, value in given.items() if value is not None}


def _text(file: str, limits: WebLimits, screen: Screen) -> str:
    """Return the text of a document, read as an import reads it; one without text removes it."""
    from shepherd.knowledge.importing import read_document

    try:
        document = read_document(file, limits, stdin_bytes() if file == "-" else None)
    except EmptyDocumentError:
        return ""
    if document.remark:
        screen.warn(document.remark)
    return document.text


# ---- import and export

_SHOWN = 5  # skipped files, or kinds of them


def _import(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> int:
    from shepherd.knowledge.importing import WebLimits

    counts: Counter[str] = Counter()
    outcomes = []
    try:
        for outcome in _outcomes(
            knowledge, arguments, screen, WebLimits.of(loaded_settings(arguments).config)
        ):
            counts[outcome.state] += 1
            outcomes.append(outcome)
    except (KeyboardInterrupt, ShepherdError) as error:
        if outcomes or isinstance(error, KeyboardInterrupt):
            screen.note(f"{counts['added']:,} added; the same command continues with the rest")
        raise
    order = ("added", "changed", "unchanged", "failed", "empty", "gone", "skipped")
    states = [state for state in order if counts[state]]
    screen.result(
        {"counts": dict(counts), "documents": outcomes},
        note=", ".join(f"{counts[state]:,} {state}" for state in states) or "nothing to import",
    )
    for outcome in [] if screen.as_json else outcomes:
        if outcome.state == "failed":
            screen.warn(outcome.reason)
        elif outcome.reason:
            screen.note(outcome.reason)
        if outcome.state in ("added", "changed"):
            _warn_of_secrets(screen, outcome.secrets, outcome.name, outcome.secret_lines)
    gone = [str(outcome.node_id) for outcome in outcomes if outcome.state == "gone"]
    if gone and not screen.as_json:
        screen.note(
            f"to remove {'it' if len(gone) == 1 else 'them'}: shepherd knowledge forget {' '.join(gone)}"
        )
    skipped = [outcome.name for outcome in outcomes if outcome.state == "skipped"]
    if skipped and not screen.as_json:
        screen.note(_skipped(skipped))
    n_without = counts["empty"] + counts["skipped"]
    is_nothing = n_without > 0 and n_without + counts["gone"] == len(outcomes)
    return 1 if counts["failed"] or is_nothing else 0


def _skipped(names: Sequence[str]) -> str:
    """Return which files of folders were not imported, and how to import them."""
    kinds = Counter(PurePath(name).suffix.lower() or "without suffix" for name in names)
    by_kind = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common(_SHOWN))
    more = ", …" if len(kinds) > _SHOWN else ""
    examples = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    shown = examples if len(names) <= _SHOWN else f"{by_kind}{more} (such as {examples})"
    return (
        f"skipped, because from a folder only text, Markdown, HTML and PDF are imported: {shown}\n"
        "to import other text, such as CSV or code, name the files: shepherd knowledge import FILE …;"
        " save other documents, such as Word's, as PDF or text first"
    )


def _outcomes(
    knowledge: Knowledge, arguments: Namespace, screen: Screen, limits: WebLimits
) -> Iterator[Outcome]:
    """Import every source; one of several that cannot be read does not stop the others."""
    from shepherd.knowledge.importing import import_from
    from shepherd.knowledge.records import Outcome

    with amount(screen, "importing") as progress:
        for source in arguments.sources:
            try:
                with _readable(source, arguments) as readable:
                    yield from import_from(
                        knowledge,
                        readable,
                        stdin=stdin_bytes() if readable == "-" else None,
                        dimensions=arguments.dimension or (),
                        limits=limits,
                        progress=lambda done, total, name: progress(done, total),
                    )
            except (DocumentError, UsageError) as error:
                if len(arguments.sources) == 1:
                    raise
                if isinstance(error, EmptyDocumentError):
                    yield Outcome(source, "empty", reason=str(error))
                else:
                    yield Outcome(source, "failed", reason=_with_hint(error))


@contextmanager
def _readable(source: str, arguments: Namespace) -> Iterator[str]:
    """Give what can be imported: the source itself, or a decrypted copy of an encrypted export."""
    with decrypted(source, "knowledge", arguments) as opened:
        if opened is None:
            if source.strip():
                refuse_memories(source)
            yield source
            return
        with scratch_folder() as folder:
            copy = folder / "export.jsonl"
            with copy.open("wb") as file:
                shutil.copyfileobj(opened, file)
            yield str(copy)


def _with_hint(error: ShepherdError) -> str:
    """Return what failed; for a file of the wrong kind, with the command that imports it."""
    return f"{error}: {error.hint}" if "shepherd memory " in error.hint else str(error)


def _export(knowledge: Knowledge, arguments: Namespace, screen: Screen) -> None:
    from shepherd.knowledge import transfer

    count = 0
    shows = nullcontext() if arguments.file == "-" else working(screen, "exporting")
    with export_target(arguments, "knowledge", screen) as file, shows:
        for record in transfer.records(knowledge):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += record["type"] == "node"
    if screen.as_json and arguments.file != "-":
        screen.json({"file": arguments.file, "nodes": count})
    else:
        screen.note(f"{counted(count, 'node')} exported{remark_of_export(arguments)}")


# ---- helpers


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
    "import": _import,
    "export": _export,
}


def _existing(knowledge: Knowledge, node_id: int, *, with_text: bool = False) -> Node:
    node = knowledge.get_node(node_id, with_text=with_text)
    if node is None:
        raise ShepherdError(f"there is no node {node_id}", hint="shepherd knowledge list shows all nodes")
    return node


def _share(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"--threshold is {value}; expected a number from 0 to 1")
    return value
