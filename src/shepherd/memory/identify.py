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

__all__ = ["OLD_COLUMNS", "Owner", "foreign", "identify", "refuse_version"]

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_SNIFFED_BYTES = 1 << 20
_LEAF_TABLE_PAGE = 0x0D

# The original's memories, in both of its generations; user_id came later.
OLD_COLUMNS = frozenset({"id", "user_message", "assistant_response", "timestamp", "content_hash"})
# SQLite keeps CREATE statements as text, normalised up to the name.
_OLD_TABLE = re.compile(rb"CREATE TABLE [\"'`\[]?(?:context|conversations)[\"'`\]]?\s*\(", re.IGNORECASE)
_LONGEST_STATEMENT = 4096
_CONSTRAINTS = (b"PRIMARY", b"UNIQUE", b"CHECK", b"FOREIGN", b"CONSTRAINT")

_ELSEWHERE = "point memory_database (or --memory-db) at another file; this one was left untouched"


class Owner(Enum):
    """Who may write to the file."""

    NOBODY = "new or empty"
    SHEPHERD = "ours"
    ORIGINAL = "the original Shepherd's, to be migrated"


def identify(path: str) -> Owner:
    """Whose the existing file is; ForeignDatabaseError when it is nobody's of these. OSError as it comes.

    Of a file that is to be migrated this is a first look: what SQLite then sees in it decides.
    """
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
    if application_id == 0 and any(_is_original(part) for part in (head, log)):
        return Owner.ORIGINAL
    raise foreign(path)


def foreign(path: str) -> ForeignDatabaseError:
    """The error for a database that somebody else made."""
    return ForeignDatabaseError(f"{path}: this database belongs to another program", hint=_ELSEWHERE)


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


def _is_original(data: bytes) -> bool:
    """Whether a table of the original's name and columns is created somewhere in the bytes."""
    for match in _OLD_TABLE.finditer(data):
        columns = _columns(data[match.end() : match.end() + _LONGEST_STATEMENT])
        if OLD_COLUMNS <= columns <= OLD_COLUMNS | {"user_id"}:
            return True
    return False


def _columns(definition: bytes) -> set[str]:
    """Names of the columns in what follows the first bracket of CREATE TABLE name(…)."""
    parts, depth, start = [], 1, 0
    for place, byte in enumerate(definition):
        depth += (byte == ord("(")) - (byte == ord(")"))
        if depth == 0 or (depth == 1 and byte == ord(",")):
            parts.append(definition[start:place])
            start = place + 1
        if depth == 0:
            break
    names = [part.split(maxsplit=1)[0] for part in parts if part.strip()]
    # Constraints of the table follow its columns.
    return {
        name.strip(b"\"'`[]").decode(errors="replace").casefold()
        for name in names
        if name.upper().partition(b"(")[0] not in _CONSTRAINTS
    }


def _beginning_of(path: str) -> bytes:
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read(_SNIFFED_BYTES)
