"""Says whose a database file is from its bytes, before SQLite may write to it.

Looking must not change anything: SQLite's own read-only open of a database in WAL mode makes files beside it,
and rolls another program's journal back. So the 100-byte header is read here, as the file format describes it
(sqlite.org/fileformat2.html, section 1.3).

POSIX drops all locks that a process has on a file when it closes any descriptor of it: `identify` must not be
called for a file that this process has open through SQLite. Database sees to that.
"""

from __future__ import annotations

import os
import re
import struct
from enum import Enum

from shepherd.errors import ForeignDatabaseError
from shepherd.memory.schema import APPLICATION_ID, USER_VERSION

__all__ = ["Owner", "identify", "refuse_version"]

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_SNIFFED_BYTES = 1 << 20
_LEAF_TABLE_PAGE = 0x0D

# SQLite keeps CREATE statements as text, normalised up to the name. Both of the original's generations.
_OLD_TABLE = re.compile(rb"CREATE TABLE [\"'`\[]?(?:context|conversations)[\"'`\]]?\s*\(", re.IGNORECASE)
_OLD_COLUMNS = (b"user_message", b"assistant_response", b"timestamp")

_ELSEWHERE = "point memory_database (or --memory-db) at another file; this one was left untouched"


class Owner(Enum):
    """Who may write to the file."""

    NOBODY = "new or empty"
    SHEPHERD = "ours"


def identify(path: str) -> Owner:
    """Whether the existing file is empty or ours; ForeignDatabaseError otherwise. OSError as it comes."""
    with open(path, "rb") as file:
        head = file.read(_SNIFFED_BYTES)
    if not head:
        return Owner.NOBODY
    if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
        raise ForeignDatabaseError(f"{path}: this file is not a database", hint=_ELSEWHERE)
    (user_version,) = struct.unpack_from(">I", head, 60)
    (application_id,) = struct.unpack_from(">I", head, 68)
    if application_id == APPLICATION_ID:
        refuse_version(path, user_version)
        return Owner.SHEPHERD
    log = _beginning_of(path + "-wal")
    if application_id == 0 and user_version == 0 and not log and _has_no_tables(head):
        return Owner.NOBODY
    if application_id == 0 and any(_is_old_shepherd(part) for part in (head, log)):
        raise ForeignDatabaseError(
            f"{path}: an older Shepherd database; this build cannot migrate it yet",
            hint="keep it for the version that can, and " + _ELSEWHERE,
        )
    raise ForeignDatabaseError(f"{path}: this database belongs to another program", hint=_ELSEWHERE)


def refuse_version(path: str, user_version: int) -> None:
    """ForeignDatabaseError when a database of ours is newer than this build."""
    if user_version > USER_VERSION:
        raise ForeignDatabaseError(
            f"{path}: made by a newer Shepherd: format {user_version}, this build reads up to {USER_VERSION}",
            hint="upgrade shepherd-llm, or " + _ELSEWHERE,
        )


def _has_no_tables(head: bytes) -> bool:
    # Page 1 is the root of the schema table; its b-tree header follows the file header.
    page_type, _, n_cells = struct.unpack_from(">BHH", head, _HEADER_BYTES) if len(head) > 108 else (0, 0, 1)
    return bool(page_type == _LEAF_TABLE_PAGE and n_cells == 0)


def _is_old_shepherd(data: bytes) -> bool:
    return _OLD_TABLE.search(data) is not None and all(column in data for column in _OLD_COLUMNS)


def _beginning_of(path: str) -> bytes:
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read(_SNIFFED_BYTES)
