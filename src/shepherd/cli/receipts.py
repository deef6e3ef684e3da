"""Forgetting from the command line: the lines of the prompt's history go as well, and a receipt is shown."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import loaded_settings
from shepherd.commands.screen import Screen, counted
from shepherd.errors import ShepherdError, StoreError
from shepherd.paths import history_file
from shepherd.stored_files import copies_of_database

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.encryption import Sealer
    from shepherd.memory import Memory, Receipt

__all__ = [
    "add_receipt",
    "forget_all_typed",
    "forget_typed",
    "print_receipt",
    "receipt_value",
    "typed_elsewhere",
    "warn_of_left",
]

_LINES = "lines of the prompt's history"
# Rows by table, as users know them.
_TABLES = {
    "context": "memories",
    "chunks": "chunks of documents",
    "fact_history": "changes of facts",
    "learned": "entries of what was learned",
    "ledger": "notes about requests",
    "extraction_jobs": "messages waiting to be learned from",
    "trace": "entries of traces",
    "focused_nodes": "nodes in focus",
    "node_dimensions": "assignments to dimensions",
    "session_entities": "entities of conversations",
    "session_summaries": "summaries of conversations",
    "sessions": "conversations",
}
# A shorter text is removed from the history only if it is all that was typed.
_LEAST_CHARS = 12
_ELSEWHERE = "backups, exports and copies that you made, and what a chat or server that is running holds"


def add_receipt(parser: Any) -> None:
    """Add the option of a command that forgets."""
    parser.add_argument(
        "--receipt", action="store_true", help="show what was removed, from where, and what was not"
    )


def forget_typed(
    texts: Collection[str],
    receipt: Receipt,
    arguments: Namespace,
    is_meant: Callable[[str], object] | None = None,
) -> None:
    """Delete lines from the history of the prompt: those with one of the texts, or that are meant."""
    wanted = {_folded(text) for text in texts} - {""}
    long = [text for text in wanted if len(text) >= _LEAST_CHARS]

    def is_one(line: str) -> bool:
        typed = _folded(line)
        return (
            typed in wanted
            or any(text in typed for text in long)
            or (is_meant is not None and bool(is_meant(line)))
        )

    _remove_typed(receipt, arguments, is_one, is_one)


def forget_all_typed(receipt: Receipt, arguments: Namespace, is_known: Callable[[str], bool] | None) -> None:
    """Delete all lines of the user from the history of the prompt; in one for other memories, the known."""

    def is_any(line: str) -> bool:
        return True

    _remove_typed(receipt, arguments, is_any, is_known or is_any)


def _remove_typed(
    receipt: Receipt,
    arguments: Namespace,
    is_sealed_one: Callable[[str], bool],
    is_plain_one: Callable[[str], bool],
) -> None:
    # Not at the top: prompt_toolkit takes a tenth of a second.
    from shepherd.commands.history_place import history_place

    config = loaded_settings(arguments).config
    place, sealer = history_place(config, with_memory=True)
    _note_foreign(config, sealer, receipt)
    for path in dict.fromkeys((place, history_file())):
        if path is None or not path.exists():
            continue
        from shepherd.commands.history import remove_lines

        is_plain = path == history_file()
        is_one = is_plain_one if is_plain else is_sealed_one
        try:
            n_removed = remove_lines(path, is_one, None if is_plain else sealer)
        except OSError as error:
            raise StoreError(
                f"{path}: {error.strerror}; it may contain what was forgotten", hint="delete this file"
            ) from error
        receipt.removed[_LINES] += n_removed


def _note_foreign(config: Config, sealer: Sealer | None, receipt: Receipt) -> None:
    """Name lines beside the database that nobody can read without another key."""
    from shepherd.memory_factory import memory_file

    database = memory_file(config)
    if database is None:
        return
    from shepherd.commands.history_place import sealed_history_file

    sealed = sealed_history_file(database)
    if not sealed.exists():
        return
    from shepherd.commands.history import count_foreign_lines

    try:
        n = count_foreign_lines(sealed, sealer)
    except OSError as error:
        receipt.left.append(f"{sealed}: {error.strerror}; it may contain what was forgotten")
    else:
        if n:
            receipt.left.append(
                f"{counted(n, 'line')} of another key in {sealed}; delete this file when you no longer need"
                " them"
            )


def typed_elsewhere(
    memory: Memory, users: Collection[str], arguments: Namespace
) -> Callable[[str], bool] | None:
    """Return what knows the lines that are in the users' conversations, or None if all lines belong to these.

    All databases that aren't encrypted share one history, which is that of the database in the settings file:
    for another one, only lines that it knows can be told to be its own.
    """
    from shepherd.commands.history_place import is_history_of_another

    if not is_history_of_another(loaded_settings(arguments).config):
        return None
    typed = {
        _folded(message.raw)
        for user in users
        for one in memory.list_sessions(user, limit=memory.count_sessions(user))
        for message in memory.load_session(one.id, user)
        if message.role == "user"
    }
    return lambda line: _folded(line) in typed


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def receipt_value(receipt: Receipt, arguments: Namespace) -> dict[str, object]:
    """Return the receipt for --json."""
    return {
        "removed": {_TABLES.get(name, name): n for name, n in receipt.removed.items() if n},
        "files": receipt.files,
        "left": [*receipt.left, *_copies(arguments), _ELSEWHERE],
    }


def warn_of_left(receipt: Receipt, arguments: Namespace, screen: Screen) -> None:
    """Warn of what could not be reached just now, unless a receipt names it."""
    for what in () if arguments.receipt else receipt.left:
        screen.warn(f"not reached: {what}")


def print_receipt(receipt: Receipt, arguments: Namespace, screen: Screen) -> None:
    """Print what was removed where, and what could not be reached."""
    for name, n in receipt.removed.items():
        if n:
            screen.entry("removed    ", f"{_TABLES.get(name, name)}: {n:,}")
    for path in receipt.files:
        screen.entry("deleted    ", path)
    if not receipt.left:
        screen.entry(
            "overwritten", "their words in the search index, their pages in the database, and its log"
        )
    for what in (*receipt.left, *_copies(arguments)):
        screen.entry("not reached", what)
    screen.entry("not reached", _ELSEWHERE)


def _copies(arguments: Namespace) -> list[str]:
    copies = copies_of_database(loaded_settings(arguments).config)
    return [
        f"{path}, a copy of the database; delete it when you no longer need it"
        for path in copies
        if not _has_keys(path)
    ]


def _has_keys(path: Path) -> bool:
    """Return whether a file has the keys of users' backups, which are of no use without it."""
    from shepherd.memory.restore_by_user import has_keys

    try:
        return has_keys(str(path))
    except ShepherdError:
        return False
