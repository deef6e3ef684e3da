"""`shepherd trace`: what each turn showed the model, and why, as paths with values."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

from shepherd.cli.exports import (
    add_export_options,
    add_import_options,
    decrypted,
    export_target,
    remark_of_export,
)
from shepherd.cli.parsing import (
    Parser,
    add_action,
    add_actions,
    finish_actions,
    loaded_settings,
    stdin_bytes,
    whole_number,
)
from shepherd.cli.progress import amount
from shepherd.commands.screen import Screen, counted
from shepherd.errors import ShepherdError, UsageError, reason_of
from shepherd.escaping import storable

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.memory import Memory
    from shepherd.metta import Host
    from shepherd.trace import Format, Traces, Value

__all__ = ["build_parser", "execute"]

_PATHS = """\
A path is /context/SESSION/TURN/…, or SESSION/TURN/… for short; `last` is the latest session or turn, and `*`
matches any one name, as in last/last/budget, */*/assembled/total_tokens and last/*/warnings.
"""
_SHOWN_CHARS = 120


def build_parser() -> Parser:
    """Build the parser of `shepherd trace`."""
    parser = Parser(
        prog="shepherd trace",
        description="Show what the model saw in each turn, and why. Each session keeps its last 200 turns.",
        epilog=_PATHS,
    )
    actions = add_actions(parser)
    tree = add_action(actions, "tree", "show sessions, their turns, or everything below a path, as a tree")
    tree.add_argument(
        "path", nargs="?", default="", metavar="PATH", help="path to begin at (default: all sessions)"
    )
    tree.add_argument(
        "--depth",
        type=whole_number(0, 1_000_000_000),
        default=0,
        metavar="N",
        help="number of levels to show (default: all)",
    )
    get = add_action(actions, "get", "print the values at and below a path, or those that match a pattern")
    get.add_argument("path", metavar="PATH", help="a path; `*` stands for one name")
    diff = add_action(actions, "diff", "show the differences between two turns, or any two paths")
    diff.add_argument("before", metavar="PATH", help="first turn or path, such as last/3")
    diff.add_argument("after", metavar="PATH", help="second turn or path, such as last/4")
    export = add_action(actions, "export", "write traces as lines of a path and a value, or as MeTTa atoms")
    add_export_options(export)
    export.add_argument("--path", default="", metavar="PATH", help="export only what is below this path")
    export.add_argument(
        "--format",
        choices=("paths", "metta"),
        metavar="FORMAT",
        help="paths or metta (default: metta for a *.metta file, else paths)",
    )
    importing = add_action(actions, "import", "read a file that export wrote, in either format")
    importing.add_argument("file", metavar="FILE", help="file to read; - is stdin")
    add_import_options(importing)
    forget = add_action(actions, "forget", "delete the trace of a turn, of a session, or all traces")
    forget.add_argument("path", nargs="?", default="", metavar="PATH", help="SESSION or SESSION/TURN")
    forget.add_argument("--all", action="store_true", help="delete all traces; conversations stay")
    metta = add_action(actions, "metta", "evaluate MeTTa with the atoms of a path and 28 predicates")
    metta.add_argument(
        "program", metavar="PROGRAM", help="expressions; those that begin with ! are evaluated"
    )
    metta.add_argument(
        "--path", default="", metavar="PATH", help="load the atoms below this path into the space"
    )
    for action in actions.choices.values():
        action.epilog = _PATHS
    finish_actions(actions, with_memory=True)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.memory_factory import open_memory, open_memory_to_read
    from shepherd.trace import Traces

    config = loaded_settings(arguments).config
    opened = open_memory if arguments.action in ("import", "forget") else open_memory_to_read
    with opened(config) as memory:
        traces = Traces(memory.transactions, memory.user_id)
        return _ACTIONS[arguments.action](_Source(config, memory, traces), arguments, screen)


class _Source:
    """Traces of a user, and the full paths for short ones."""

    def __init__(self, config: Config, memory: Memory, traces: Traces) -> None:
        self._config = config
        self._memory = memory
        self.traces = traces

    def path(self, text: str) -> str:
        """Return the full path for a short one."""
        from shepherd.trace import shown_path

        first, _, rest = text.partition("/")
        session, turn = "", None
        if first == "last":
            session = self._latest()
        if rest.partition("/")[0] == "last":
            turn = self.traces.last_turn(session or first)
        return shown_path(text, last_session=session, last_turn=turn)

    @contextmanager
    def host(self) -> Iterator[Host]:
        """Give the host of MeTTa's predicates, with the models of these settings."""
        from shepherd.factory import own_summarizer
        from shepherd.inference.models import resolve
        from shepherd.inference.tokenization import open_tokenizer
        from shepherd.metta import host_of
        from shepherd.prompt.window_budget import TokenCounts

        path = resolve(self._config.model)
        transactions, user_id = self._memory.transactions, self.traces.user_id
        if not path.exists():
            yield host_of(transactions, user_id)
            return
        with open_tokenizer(path) as vocabulary, own_summarizer(self._config, path) as summarizer:
            yield host_of(
                transactions,
                user_id,
                count_tokens=TokenCounts(lambda text: len(vocabulary.tokenize(text))),
                summarize=None if summarizer is None else summarizer.summarize,
            )

    def _latest(self) -> str:
        kept = set(self.traces.children())
        for session in self._memory.list_sessions(self.traces.user_id, limit=100):
            if session.id in kept:
                return session.id
        raise ShepherdError(
            "`last` is the latest stored conversation, and no stored conversation has a trace",
            hint="shepherd trace tree lists all sessions",
        )


# ---- actions


def _tree(source: _Source, arguments: Namespace, screen: Screen) -> int:
    root = source.path(arguments.path)
    _refuse_pattern(root, "tree")
    level = root.count("/")
    if level >= 3:
        entries = source.traces.below(root)
        depth = arguments.depth or 99
        if screen.as_json:
            screen.json(_nested(entries, root))
        else:
            _print_tree(entries, root, depth, screen)
        return _found(entries, root, screen)
    names = source.traces.children(root)
    if screen.as_json:
        screen.json({name: source.traces.children(f"{root}/{name}") if level == 1 else {} for name in names})
    elif level == 2:
        for name in names:
            screen.print(name)
    else:
        rows = []
        for name in names:
            turns = source.traces.children(f"{root}/{name}")
            rows.append((name, len(turns), turns[0].lstrip("0") or "0", turns[-1].lstrip("0") or "0"))
        screen.table(["session", "turns", "first", "last"], rows)
    return _found(names, root, screen)


def _get(source: _Source, arguments: Namespace, screen: Screen) -> int:
    path = source.path(arguments.path)
    entries = source.traces.matching(path)
    if screen.as_json:
        screen.json(dict(entries))
    elif len(entries) == 1 and entries[0][0] == path:
        screen.print(_text(entries[0][1]))
    else:
        for name, value in entries:
            screen.print(f"{name} = {_line(value)}")
    return _found(entries, path, screen)


def _diff(source: _Source, arguments: Namespace, screen: Screen) -> int:
    from shepherd.trace import diff

    roots = [source.path(arguments.before), source.path(arguments.after)]
    sides = []
    for root in roots:
        _refuse_pattern(root, "diff")
        sides.append(source.traces.below(root))
        if not sides[-1]:
            return _found([], root, screen)
    changes = diff(sides[0], sides[1], before_root=roots[0], after_root=roots[1])
    for change in [] if screen.as_json else changes:
        if change.before is not None:
            screen.print(f"- {change.path} = {_line(change.before)}", "red")
        if change.after is not None:
            screen.print(f"+ {change.path} = {_line(change.after)}", "green")
    screen.result(changes, note=counted(len(changes), "difference"))
    return 0


def _export(source: _Source, arguments: Namespace, screen: Screen) -> int:
    from shepherd.trace import export

    root = source.path(arguments.path)
    _refuse_pattern(root, "export")
    form: Format = arguments.format or ("metta" if arguments.file.endswith(".metta") else "paths")
    n = 0
    with export_target(arguments, "trace", screen) as file:
        for line in export(source.traces, root, form=form):
            n += line.startswith(("/", "(context "))
            file.write(line)
    if screen.as_json and arguments.file != "-":
        screen.json({"file": arguments.file, "format": form, "paths": n})
    else:
        screen.note(f"{counted(n, 'path')} exported{remark_of_export(arguments)}")
    return 0


def _import(source: _Source, arguments: Namespace, screen: Screen) -> int:
    from shepherd.trace import import_file

    with decrypted(arguments.file, "trace", arguments) as opened:
        file = nullcontext(opened) if opened is not None else _opened(arguments.file)
        with file as lines, amount(screen, "importing") as progress:
            n = import_file(source.traces, lines, lambda done: progress(done, 0))
    screen.result({"paths": n}, note=f"{counted(n, 'path')} imported")
    return 0


def _forget(source: _Source, arguments: Namespace, screen: Screen) -> int:
    if arguments.path and arguments.all:
        raise UsageError(
            "SESSION and --all cannot be combined", hint="name SESSION or SESSION/TURN, or use --all alone"
        )
    if not arguments.path and not arguments.all:
        raise UsageError("nothing to forget", hint="name SESSION or SESSION/TURN, or use --all")
    if arguments.all:
        n = source.traces.clear()
    else:
        path = source.path(arguments.path)
        _refuse_pattern(path, "forget")
        n = source.traces.remove(*_turn_of(path))
        if not n:
            return _found([], path, screen)
    screen.result({"paths": n}, note=f"{counted(n, 'path')} forgotten")
    return 0


def _metta(source: _Source, arguments: Namespace, screen: Screen) -> int:
    from shepherd.metta import Metta, as_metta, functions

    program = storable(arguments.program)
    with source.host() as host, Metta(functions(host)) as metta:
        if arguments.path:
            path = source.path(arguments.path)
            entries = source.traces.matching(path)
            if not entries:
                return _found(entries, path, screen)
            metta.load(entries)
        results = [[as_metta(value) for value in values] for values in metta.run(program)]
    if screen.as_json:
        screen.json(results)
        return 0
    for value in chain.from_iterable(results):
        screen.print(value)
    return 0


_ACTIONS: dict[str, Callable[[_Source, Namespace, Screen], int]] = {
    "tree": _tree,
    "get": _get,
    "diff": _diff,
    "export": _export,
    "import": _import,
    "forget": _forget,
    "metta": _metta,
}


# ---- helpers


def _opened(file: str) -> Any:
    if file == "-":
        return nullcontext(stdin_bytes())
    try:
        return open(file, "rb")
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}", hint="name a file that trace export wrote") from error


def _print_tree(entries: list[tuple[str, Value]], root: str, depth: int, screen: Screen) -> None:
    """Print each name once, indented by its level, with its value behind it."""
    shown: list[str] = []
    for path, value in entries:
        segments = path[len(root) :].strip("/").split("/")
        shared = 0
        while shared < min(len(shown), len(segments)) and shown[shared] == segments[shared]:
            shared += 1
        for level in range(shared, min(len(segments), depth)):
            is_leaf = level == len(segments) - 1
            screen.print(f"{'  ' * level}{segments[level]}{f' = {_line(value)}' if is_leaf else ''}")
        shown = segments


def _nested(entries: list[tuple[str, Value]], root: str) -> dict[str, Any]:
    """Return the values in nested objects, by the segments of their paths."""
    tree: dict[str, Any] = {}
    for path, value in entries:
        *parents, name = path[len(root) :].strip("/").split("/")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return tree


def _turn_of(path: str) -> tuple[str, int | None]:
    """Return the session of a path, and the turn's number if the path has one."""
    segments = path.strip("/").split("/")[1:]
    if not 1 <= len(segments) <= 2 or not all(segments) or not all(s.isdecimal() for s in segments[1:]):
        raise UsageError(f"{path} is neither a turn nor a session", hint="name SESSION or SESSION/TURN")
    return segments[0], int(segments[1]) if len(segments) == 2 else None


def _refuse_pattern(path: str, action: str) -> None:
    if "*" in path.split("/"):
        raise UsageError(f"{action} takes one path, without `*`", hint="trace get takes patterns")


def _found(things: list[Any], path: str, screen: Screen) -> int:
    if things or path == "/context":
        if not things:
            screen.note("no traces yet; each turn of a stored conversation makes one")
        return 0
    screen.warn(f"there is nothing at {path}", "shepherd trace tree shows what there is")
    return 1


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _line(value: Value) -> str:
    """Return a value on one line, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
