"""Ids of memories as their user sees them: each is a number among all memories that this user ever had.

In the database, the id of a memory or of a chunk of a document also contains the number of its user, so it
has 13 digits or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.transactions import Transactions
from shepherd.types import MemoryRecord, SearchResult

__all__ = [
    "LARGEST_SEQUENCE",
    "SEQUENCE_BITS",
    "errors_in_sequences",
    "in_sequences",
    "sequence_of",
    "stored_id",
    "with_sequence",
]

# A memory's id is tenant number << 40 | sequence: one user's memories lie together in the file, newest last,
# and 2^23 users may have 2^40 memories each. A chunk's id is made the same way.
SEQUENCE_BITS = 40
LARGEST_SEQUENCE = (1 << SEQUENCE_BITS) - 1
_STORED_ID = re.compile(r"[0-9]{13,}")

_Record = TypeVar("_Record", bound=MemoryRecord | SearchResult)


def sequence_of(stored_id: int) -> int:
    """Return the number of a memory or a chunk among those of its user."""
    return stored_id & LARGEST_SEQUENCE


def stored_id(store: Transactions, user_id: str, number: int) -> int:
    """Return the database id of the user's memory with this number; a database id is returned unchanged.

    Returns 0, which no memory has, for a user who has stored nothing yet.
    """
    if number > LARGEST_SEQUENCE:
        return number
    user = storable(user_id)
    tenant = store.read(lambda connection: store.find_number(connection, user))
    return 0 if tenant is None else tenant << SEQUENCE_BITS | number


def with_sequence(record: _Record) -> _Record:
    """Return a copy of the record, for display, with its number as its id."""
    return replace(record, id=sequence_of(record.id))


def in_sequences(text: str) -> str:
    """Return a text of our own, such as an error or `chunk:ID`, with numbers for ids of the database."""
    return _STORED_ID.sub(lambda found: str(sequence_of(int(found[0]))), text)


@contextmanager
def errors_in_sequences() -> Iterator[None]:
    """Let errors of the memory name other memories by their numbers, as in "memory 3 already says …"."""
    try:
        yield
    except UsageError as error:
        raise UsageError(in_sequences(str(error)), hint=error.hint) from None
