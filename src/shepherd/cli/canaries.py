"""`shepherd memory audit --canary WORD`: where a word is still stored."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.canary import WordSearch
from shepherd.cli.parsing import loaded_settings, stdin_bytes
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen, counted
from shepherd.errors import UsageError
from shepherd.stored_files import StoredFile, database_file, stored_files

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.memory import Memory

__all__ = ["search_everywhere"]

# How to remove the rows of a table.
_KNOWLEDGE = "shepherd knowledge search, shepherd knowledge forget ID"
_CONVERSATION = "shepherd conversations search, shepherd conversations delete ID"
_FACT = "shepherd facts history, shepherd facts clear KEY --history"
_REMEDIES = {
    "context": "shepherd memory search, shepherd memory forget ID",
    "facts": _FACT,
    "fact_history": _FACT,
    "learned": f"{_FACT}; entries about a memory are deleted with it",
    "extraction_jobs": "shepherd memory jobs, shepherd memory jobs --drop ID",
    "tenants": "shepherd memory forget --everything --user NAME",
    "api_keys": "it is the owner or the label of an API key",
    **dict.fromkeys(("sessions", "messages", "trace", "ledger"), _CONVERSATION),
    **dict.fromkeys(("session_entities", "session_summaries"), _CONVERSATION),
    **dict.fromkeys(("nodes", "edges", "chunks", "dimensions", "node_dimensions"), _KNOWLEDGE),
}
_FREE = "left from an older version; the next shepherd memory forget or facts clear --history overwrites it"
_BY_KIND = {
    "log of the database": "the next forgetting empties it, and so does closing every chat and server",
    "copy of the database": "delete this file when you no longer need it",
    "saved search index": "delete this file; it is rebuilt",
    "kept conversation": "delete this file; the conversation is read again",
    "configuration": "shepherd config, or an editor",
}


def search_everywhere(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    """List every file and table with a word; return 1 if there is one."""
    config = loaded_settings(arguments).config
    search = WordSearch(_word(arguments.canary), memory.schema_texts())
    with working(screen, "searching"):
        found = _found(config, search, memory, screen)
    values = [{"where": where, "what": what, "remedy": remedy} for where, what, remedy in found]
    n_files = len(stored_files(config))
    screen.listing(
        values,
        ["where", "what it is", "how to remove it"],
        [(where, what, screen.runnable(remedy)) for where, what, remedy in found],
        empty=f"the word is in none of {counted(n_files, 'file')}",
    )
    return int(bool(found))


def _word(given: str) -> str:
    """Return the word, from stdin for "-": an argument stays in the history of the shell."""
    word = " ".join((stdin_bytes().read().decode("utf-8", "replace") if given == "-" else given).split())
    if not word:
        raise UsageError("there is no word to look for", hint="shepherd memory audit --canary WORD")
    return word


def _found(config: Config, search: WordSearch, memory: Memory, screen: Screen) -> list[tuple[str, str, str]]:
    database = database_file(config)
    tables = memory.tables_with(search.forms)
    found = [
        (f"{memory.path}: {table}", counted(n, "row"), _REMEDIES.get(table, ""))
        for table, n in tables.items()
    ]
    for file in stored_files(config):
        if file.path == database and tables:
            continue
        if _has(file.path, search, screen):
            found.append((str(file.path), file.what, _remedy(file, database)))
    return found


def _remedy(file: StoredFile, database: Path | None) -> str:
    return _FREE if file.path == database else _BY_KIND.get(file.what, "delete the line, or this file")


def _has(path: Path, search: WordSearch, screen: Screen) -> bool:
    try:
        return search.in_file(path)
    except FileNotFoundError:  # it was a temporary one
        return False
    except OSError as error:
        screen.warn(f"{path}: {error.strerror}; it was not searched")
        return False
