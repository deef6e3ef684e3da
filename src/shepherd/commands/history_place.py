"""The file of the lines typed at a prompt: the user's own, or one beside an encrypted memory."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from shepherd.config import Config
from shepherd.config.file import load
from shepherd.encryption import Sealer
from shepherd.errors import ShepherdError, StoreError
from shepherd.memory.database import is_open, key_of_file
from shepherd.memory_factory import is_memory_encrypted, memory_file
from shepherd.paths import history_file

__all__ = ["history_place", "is_history_of_another", "sealed_history_file", "seals_plain_history"]


def history_place(config: Config, *, with_memory: bool) -> tuple[Path | None, Sealer | None]:
    """Return the file of the lines typed at a prompt, and what seals them.

    Beside an encrypted memory; nowhere (None) if that is not used, since its key is not here. If the memory
    became encrypted and its lines are as they were before, they are sealed now; likewise after a conversion
    that was killed.
    """
    path, sealer = _place(config, with_memory=with_memory)
    file = memory_file(config)
    if file is not None and path is not None:
        _complete(file, sealer)
        if sealer is not None:
            _seal_plain(config, path, sealer)
    return path, sealer


def _place(config: Config, *, with_memory: bool) -> tuple[Path | None, Sealer | None]:
    if not is_memory_encrypted(config):
        return history_file(), None
    file = memory_file(config)
    try:
        key = key_of_file(str(file)) if with_memory else None
    except (OSError, StoreError):
        key = None
    if file is None or key is None:
        return None, None
    return sealed_history_file(file), Sealer(key)


def sealed_history_file(database: Path) -> Path:
    """Return the history file of an encrypted memory."""
    return Path(f"{os.path.realpath(database)}-history")


def _complete(file: Path, sealer: Sealer | None) -> None:
    sealed = sealed_history_file(file)
    try:
        if not any(sealed.parent.glob(f"{glob.escape(sealed.name)}.*")):
            return
        # Not at the top: prompt_toolkit takes a tenth of a second.
        from shepherd.commands.history import adopt_copy, drop_copies

        adopt_copy(sealed, sealer, history_file())
        # While this process has the memory open, nobody converts it.
        if is_open(str(file)):
            drop_copies(sealed)
    except OSError:
        return  # a full disk: the next start tries again


def _seal_plain(config: Config, sealed: Path, sealer: Sealer) -> None:
    plain = history_file()
    try:
        if not plain.is_file() or is_history_of_another(config):
            return
        from shepherd.commands.history import seal_history

        seal_history(plain, sealed, sealer)
    except OSError:
        return  # a full disk: the next start tries again


def is_history_of_another(config: Config) -> bool:
    """Return whether the plain history is that of another memory: of the one in the settings file.

    All memories that aren't encrypted write into it.
    """
    return _database_of(config) != _database_of_file()


def seals_plain_history(config: Config) -> bool:
    """Return whether the plain history goes with this memory at the moment that becomes encrypted.

    Also if the settings file names a memory that doesn't exist: the environment may always name this one.
    """
    owner = _database_of_file()
    is_missing = bool(owner) and "://" not in owner and not os.path.exists(owner)
    return is_missing or owner == _database_of(config)


def _database_of_file() -> str:
    """Return the database of the settings file; "" if that cannot be read."""
    try:
        return _database_of(load(environ={}).config)
    except ShepherdError:
        return ""


def _database_of(config: Config) -> str:
    file = memory_file(config)
    return config.memory_database if file is None else os.path.realpath(file)
