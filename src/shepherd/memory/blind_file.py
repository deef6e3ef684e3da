"""A blind memory in a file: a memory that is never stored unencrypted, such as on a network share.

The whole file is encrypted, page by page, which hides more than ciphertexts in a readable database would,
also counts, times and which words are equal. Otherwise it is like any encrypted memory.
"""

from __future__ import annotations

import contextlib
import os

from shepherd.encryption import KeyEntry
from shepherd.encryption.key_file import refuse_foreign, refuse_own_names, write_entries
from shepherd.encryption.server_key import forget_new, new_key
from shepherd.encryption.unlocking import require_ciphers, settings_in_use, tell_made
from shepherd.errors import StoreError
from shepherd.memory import failures
from shepherd.memory.conversion import convert
from shepherd.memory.database import Database, is_encrypted
from shepherd.memory.identify import refuse_lost
from shepherd.memory.overwriting import LOGS
from shepherd.paths import from_home

__all__ = ["prepare"]


def prepare(path: str, *, read_only: bool) -> None:
    """Make an encrypted database if there is none; raises StoreError for an unencrypted one.

    Raises StoreKeyError if there is no key for a new one; then nothing is made.
    """
    file = os.path.realpath(path)
    refuse_lost(file)
    try:
        if os.path.isfile(file) and not is_encrypted(file):
            raise StoreError(
                f"{file}: the memory isn't encrypted, and memory_blind is on",
                hint="run shepherd encrypt, or turn it off with shepherd config unset memory_blind",
            )
    except OSError as error:
        raise failures.from_os_error(file, error) from error
    if read_only or os.path.exists(file):
        return
    require_ciphers(file)
    if named := settings_in_use().file:
        refuse_own_names(from_home(named, "memory_key_file"), path)
    refuse_foreign(file)
    key, source, place = new_key(file)
    entry = KeyEntry(key.salt, source, key.check, place)
    # Under another name: nobody must find it before it is encrypted, although its tables are empty.
    making = f"{file}.making-{os.getpid()}"
    try:
        _remove(making)
        Database(making).close()
        convert(making, None, key, entry)
        is_first = _named(making, file)
    except OSError as error:
        forget_new(key)
        raise failures.from_os_error(file, error) from error
    except BaseException:
        forget_new(key)
        raise
    finally:
        _remove(making)
    if is_first:
        write_entries(file, (entry,))
        tell_made(file)
    else:
        forget_new(key)


def _named(making: str, file: str) -> bool:
    """Give a new file its name; return False if another process was first."""
    try:
        os.link(making, file)
    except FileExistsError:
        return False
    except OSError:
        # A share without hard links.
        if os.path.exists(file):
            return False
        os.rename(making, file)
    return True


def _remove(making: str) -> None:
    for name in (making, *(making + end for end in ("-key", *LOGS))):
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)
