"""`shepherd memory audit --canary WORD`: where a word is still stored, also in sealed files."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, cast

from shepherd.canary import WordSearch
from shepherd.cli.parsing import loaded_settings, stdin_bytes
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen, counted
from shepherd.encryption import Sealer, looks_encrypted
from shepherd.errors import UsageError
from shepherd.stored_files import StoredFile, database_file, is_plain, stored_files

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.memory import Memory
    from shepherd.memory.store import MemoryStore

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
_READ = "another program reads the memory; when that has ended, the next forgetting overwrites it"
_OWN = "forget it, then shepherd sync"
_OTHER = "forget it, then shepherd sync here, and on the machine that wrote the file"
_AS_TOKENS = "as numbers of a model's tokens; delete this folder, and the model reads them again"
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
        found, unsearched, n_searched = _found(config, search, memory)
    values = [{"where": where, "what": what, "remedy": remedy} for where, what, remedy in found]
    screen.listing(
        values,
        ["where", "what it is", "how to remove it"],
        [(where, what, screen.runnable(remedy)) for where, what, remedy in found],
        empty=f"the word is in none of {counted(n_searched, 'file')}",
    )
    for where, why in unsearched:
        screen.warn(f"not searched: {where}: {why}")
    return int(bool(found or unsearched))


def _word(given: str) -> str:
    """Return the word, from stdin for "-": an argument stays in the history of the shell."""
    word = " ".join((stdin_bytes().read().decode("utf-8", "replace") if given == "-" else given).split())
    if not word:
        raise UsageError("there is no word to look for", hint="shepherd memory audit --canary WORD")
    return word


def _found(
    config: Config, search: WordSearch, memory: Memory
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]], int]:
    """Return where the word is, with the remedy; what was not searched, and why; how many files were."""
    database = database_file(config)
    tables = memory.tables_with(search.forms)
    found = [
        (f"{memory.path}: {table}", counted(n, "row"), _REMEDIES.get(table, ""))
        for table, n in tables.items()
    ]
    unsearched = []
    kept: Counter[Path] = Counter()
    files = stored_files(config)
    is_read = database is not None and _is_filled(Path(f"{database}-wal"))
    for file in files:
        if file.path == database and tables:
            continue
        try:
            if _has(file, search, memory, is_database=file.path == database):
                found.append((str(file.path), file.what, _remedy(file, database, is_read)))
        except _UnsearchedError as error:
            unsearched.append((str(file.path), str(error)))
        except _TokensError:
            kept[file.path.parent] += 1
        except FileNotFoundError:  # it was a temporary one
            continue
        except OSError as error:
            unsearched.append((str(file.path), error.strerror or str(error)))
    n_searched = len(files) - len(unsearched) - kept.total()
    unsearched += [
        (str(folder), f"{counted(n, 'kept conversation')} {_AS_TOKENS}") for folder, n in kept.items()
    ]
    synced, unread = _in_sync(memory, search)
    return found + synced, unsearched + unread, n_searched


def _is_filled(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _remedy(file: StoredFile, database: Path | None, is_read: bool) -> str:
    if file.path == database:
        return _READ if is_read else _FREE
    return _BY_KIND.get(file.what, "delete the line, or this file")


class _UnsearchedError(Exception):
    """Why a file that hides its words cannot be searched."""


class _TokensError(Exception):
    """A file has its words as ids of a model's tokens: only the model can tell which they are."""


def _has(file: StoredFile, search: WordSearch, memory: Memory, *, is_database: bool) -> bool:
    """Return whether the word is in a file. Raises _UnsearchedError, _TokensError, OSError."""
    if search.in_file(file.path):
        return True
    if file.what == "kept conversation":
        raise _TokensError
    sealer = memory.sealer
    if is_database:
        return False
    if file.what == "log of the database":
        if sealer is not None and not file.path.name.endswith("-shm") and _is_filled(file.path):
            raise _UnsearchedError("it is encrypted, and a program uses it; quit every chat and server")
        return False
    if file.what == "lines typed at the prompt":
        return _has_line(file.path, search, sealer)
    if sealer is not None and file.what == "saved search index":
        return _has_sealed(file.path, search, sealer)
    return _has_copy(file, search)


def _has_line(path: Path, search: WordSearch, sealer: Sealer | None) -> bool:
    # The user's own file in the folder of states, and that of a memory that is decrypted, are not sealed.
    if path.name.removeprefix(".").startswith("history") or path.name.endswith(".plain"):
        return False
    # Not at the top: prompt_toolkit takes a tenth of a second.
    from shepherd.commands.history import count_foreign_lines, sealed_lines

    lines = [] if sealer is None else sealed_lines(path, sealer)
    if any(search.in_bytes(line.encode("utf-8", "surrogatepass")) for line in lines):
        return True
    if n := count_foreign_lines(path, sealer):
        raise _UnsearchedError(f"{n} of its lines have another key")
    return False


def _has_sealed(path: Path, search: WordSearch, sealer: Sealer) -> bool:
    from shepherd.memory.hot_files import opened

    data = opened(path.read_bytes(), sealer)
    if data is None:
        raise _UnsearchedError("it is sealed with another key; delete it")
    return search.in_bytes(data)


def _has_copy(file: StoredFile, search: WordSearch) -> bool:
    """Return whether an encrypted copy of the database has the word in a table."""
    with open(file.path, "rb") as opened:
        head = opened.read(100)
    if not looks_encrypted(head):
        if file.what == "copy of the database" and not is_plain(file.path):
            raise _UnsearchedError("it is no database that can be read; is it compressed or encrypted?")
        return False
    from shepherd._native.store import SQLiteError
    from shepherd.errors import ShepherdError
    from shepherd.memory.database import connect
    from shepherd.memory.restore_by_user import is_by_user
    from shepherd.memory.word_rows import tables_with

    try:
        if is_by_user(str(file.path)):
            raise _UnsearchedError("its users' keys are in another file")
        with connect(str(file.path), read_only=True) as connection:
            return bool(tables_with(connection, search.forms))
    except (ShepherdError, SQLiteError) as error:
        raise _UnsearchedError(f"it is encrypted, and cannot be opened ({error})") from error


def _in_sync(memory: Memory, search: WordSearch) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Return what `shepherd sync` has sealed, with a key that is in the memory itself."""
    from shepherd.sync import sealed_texts

    found: dict[str, tuple[str, str, str]] = {}
    unsearched: dict[str, str] = {}
    for one in sealed_texts(cast("MemoryStore", memory.transactions)):
        if one.text is None:
            unsearched[one.where] = one.why
        elif one.where not in found and search.in_bytes(one.text.encode("utf-8", "surrogatepass")):
            found[one.where] = (one.where, "written by shepherd sync", _OWN if one.is_own else _OTHER)
    return list(found.values()), list(unsearched.items())
