"""The file of the lines typed at a prompt: the user's own, or one beside an encrypted memory."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from shepherd.config import Config
from shepherd.encryption import Sealer
from shepherd.errors import StoreError
from shepherd.memory.database import is_open, key_of_file
from shepherd.memory_factory import is_memory_encrypted, memory_file
from shepherd.paths import history_file

__all__ = ["history_place", "sealed_history_file"]


def history_place(config: Config, *, with_memory: bool) -> tuple[Path | None, Sealer | None]:
    """Return the file of the lines typed at a prompt, and what seals them.

    Beside an encrypted memory; nowhere (None) if that is not used, since its key is not here. If a kill has
    left the lines as they were before the memory was converted, that is completed.
    """
    path, sealer = _place(config, with_memory=with_memory)
    file = memory_file(config)
    if file is not None and path is not None:
        _complete(file, sealer)
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
