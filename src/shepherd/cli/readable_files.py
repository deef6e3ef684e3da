"""Files beside a memory that has become encrypted and that are still readable: seal, delete or name them."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from shepherd import kept_files
from shepherd.commands.history_place import sealed_history_file, seals_plain_history
from shepherd.commands.screen import Screen
from shepherd.config import Config
from shepherd.config.file import load
from shepherd.encryption import MemoryKey, Sealer
from shepherd.errors import ShepherdError
from shepherd.memory_factory import memory_file
from shepherd.overwriting import remove, remove_tree
from shepherd.paths import default_database, history_file
from shepherd.stored_files import leftovers, readable_copies, stored_files

__all__ = ["remove_copies", "seal_or_warn", "seal_readable", "seal_when_made"]


def seal_readable(path: Path, config: Config, key: MemoryKey, screen: Screen) -> None:
    """Seal the prompt's history, delete what nobody needs, and name the rest that can be read.

    Raises OSError if the history cannot be sealed.
    """
    # Not at the top: prompt_toolkit takes a tenth of a second.
    from shepherd.commands.history import seal_history

    remove_copies(path)
    for leftover in leftovers(config):  # logs, and what killed runs have left
        with contextlib.suppress(OSError):  # it is named if it is a database
            remove(leftover)
    plain = history_file()
    if seals_plain_history(config):
        seal_history(plain, sealed_history_file(path), Sealer(key))
    elif plain.is_file() and plain.stat().st_size:
        screen.warn(
            f"{plain} has the lines typed in all memories that are not encrypted, and stays readable",
            "delete it if it may have lines of this memory",
        )
    _warn_of_databases(config, screen)


def seal_or_warn(path: Path, config: Config, screen: Screen) -> None:
    """Do the same, if the memory is encrypted, for a command whose own work is done already."""
    from shepherd.memory.database import key_of_file

    if (key := key_of_file(str(path))) is None:
        return
    try:
        seal_readable(path, config, key, screen)
    except OSError as error:  # the next chat tries again
        screen.warn(f"{history_file()}: {error.strerror}; the lines in it stay readable", "delete it")


def seal_when_made(file: str, config: Config, screen: Screen) -> None:
    """Do the same for a blind memory that was just made."""
    path = memory_file(config)
    if path is not None and os.path.realpath(path) == os.path.realpath(file):
        seal_or_warn(path, config, screen)


def remove_copies(path: Path) -> None:
    """Delete saved indexes and conversations, which can be made again."""
    # Where the database is a link, its indexes are beside the link.
    remove_tree(f"{os.path.abspath(path)}-hot")
    for owner in kept_files.owners(kept_files.folder()):
        kept_files.forget(owner)


def _warn_of_databases(config: Config, screen: Screen) -> None:
    """Name older copies of this memory, backups, other memories, and indexes of one on a server."""
    named = _memory_of_settings()
    memories = {default_database().resolve(), named}
    for copy in readable_copies(config):
        encrypt = "shepherd encrypt"
        if copy != named:
            encrypt += f" --memory-db {shlex.quote(str(copy))}"
        if copy in memories:
            screen.warn(f"{copy} is another memory, and not encrypted", f"{encrypt} encrypts it")
        elif ".before-" in copy.name:
            screen.warn(f"{copy} is an older copy of this memory, and not encrypted", "delete it")
        else:
            screen.warn(
                f"{copy} is a database of Shepherd, such as a backup, and not encrypted",
                f"delete it if it is a backup; if it is another memory, {encrypt} encrypts it",
            )
    indexes = sorted({file.path.parent for file in stored_files(config) if "hot-indexes" in file.path.parts})
    for folder in indexes:
        screen.warn(f"{folder} has saved search indexes of a PostgreSQL memory", "delete it")


def _memory_of_settings() -> Path | None:
    """Return the file of the memory that is used without options."""
    try:
        file = memory_file(load().config)
    except ShepherdError:
        return None
    return None if file is None else file.resolve()
