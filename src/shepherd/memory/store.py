"""The database under a Memory: its transactions, its searches, and the care of the whole.

Rows are read and written by the modules beside this one (facts, memories, sessions, …), whose functions run
inside a transaction. Texts are storable (see escaping), times are unix seconds. Errors are those of
shepherd.errors, with path and remedy. Any method may be called from any thread.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from shepherd import kept_files
from shepherd.encryption import Sealer
from shepherd.errors import StoreFullError, UsageError
from shepherd.escaping import storable
from shepherd.memory import forgetting, memories, tenants
from shepherd.memory.facts import FactCache
from shepherd.memory.memories import TermIndex
from shepherd.memory.queries import RecallQuery
from shepherd.memory.recall_counts import RecallCounts
from shepherd.memory.records import CheckReport, ClaimCounts, MemoryStats, NewMemory
from shepherd.transactions import ChunkIndex, Connection, Meaning, Reranker
from shepherd.types import ANONYMOUS_USERS, Fact, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.corpora import Corpus
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["SMALL_ROW_BYTES", "MemoryStore", "UserRows", "size_of"]

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_Parameters = ParamSpec("_Parameters")

# Bytes of a fact or a session beside its text; only max_db_size is measured with it.
SMALL_ROW_BYTES = 512
# Seconds since 1970 up to the year 36,812.
_LARGEST_TIME = 1 << 40


class MemoryStore(ABC):
    """One database of many users; implements transactions.Transactions."""

    terms: TermIndex
    # True if reading a row takes microseconds and nobody can delay it: then no thread is worth it.
    is_in_file: bool
    chunks: ChunkIndex
    meaning: Meaning | None = None
    reranker: Reranker | None = None
    keeps_secrets: bool = False
    # True if the server of the database cannot read texts and words.
    is_blind: bool = False
    # Seals what is kept beside an encrypted database; None if it is not encrypted.
    sealer: Sealer | None = None

    def __init__(self) -> None:
        self._facts = FactCache()
        self.recall_counts = RecallCounts()
        # Called with the user after a deletion was committed, as part of `erase`; return what is left, in
        # words. For packages that keep sealed copies in the database and that the memory does not know.
        self.cleaners: list[Callable[[MemoryStore, str], list[str]]] = []

    @property
    @abstractmethod
    def path(self) -> str:
        """Absolute path of the file, or the server's address without the password."""

    @property
    @abstractmethod
    def limit_bytes(self) -> int:
        """max_db_size."""

    @abstractmethod
    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work`; everything in it sees the same moment. May run it again."""

    def read_of(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`, for texts of this user alone."""
        return self.read(work)

    def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`, for a few rows by an index."""
        return self.read(work)

    def read_for_search(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`, for a part of a user's search: of a state as old as that may be."""
        return self.read(work)

    @abstractmethod
    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """Return the result of `work` once it is committed; see transactions.Transactions."""

    @abstractmethod
    def follow(self, user_id: str) -> None:
        """Update indexes in main memory after a commit that changed memories of this user."""

    @abstractmethod
    def recall(self, user_id: str, query: RecallQuery) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Return the facts in key order and the best memories, both of one moment; counts the recall."""

    @abstractmethod
    def search(self, user_id: str, query: RecallQuery) -> list[SearchResult]:
        """Return the best memories, best first, ties to the one stored last."""

    @abstractmethod
    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""

    @abstractmethod
    def stats(self, user_id: str) -> MemoryStats:
        """Return counts of a user and sizes of the database."""

    @abstractmethod
    def clean(self, user_id: str) -> tuple[list[str], list[str]]:
        """Do the part of `erase` that differs between the engines."""

    @abstractmethod
    def tables_with(self, forms: Sequence[str]) -> dict[str, int]:
        """Return how many rows of each table have one of the forms of a word."""

    def schema_texts(self) -> list[bytes]:
        """Return the texts that the files of an empty database have."""
        return []

    @abstractmethod
    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Move everything of one user to another; each row belongs to one of them at every moment."""

    @abstractmethod
    def check(self, repair: bool) -> CheckReport:
        """Look for damage, and with `repair` mend what can be made again."""

    @abstractmethod
    def settle(self) -> None:
        """Merge what an import wrote into the form that is searched fastest; others may write meanwhile."""

    @abstractmethod
    def backup(self, path: str, keys: str = "") -> None:
        """Copy the database to a new file while it is in use.

        `keys`: encrypt each user's rows with the user's own key, and put these keys into that file.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the database; a second call does nothing."""

    # ---- the same on both engines

    def erase(self, user_id: str, since: float = 0.0, *, warns: bool = False) -> tuple[list[str], list[str]]:
        """Clean up after a committed deletion of this user: all that is not in rows and indexes of words.

        Return the files that were deleted, and what could not be reached, in words. Kept conversations that
        ended before `since`, in unix seconds, stay. `warns`: nobody looks at the result, and what is left in
        the database is logged. Outside of transactions.
        """
        removed = kept_files.forget(kept_files.owner_of(self.path, user_id), since)
        unreached = [one for cleaner in self.cleaners for one in cleaner(self, user_id)]
        # Last: it empties the log, which has what the cleaners changed.
        files, left = self.clean(user_id)
        for one in left if warns else ():
            _log.warning("what was forgotten is still in %s", one)
        return removed + files, left + unreached

    @abstractmethod
    def destroy_key(self, connection: Connection, user_id: str) -> None:
        """Destroy the user's own key, if the memory has one; nothing of the user is stored any more."""

    def older_keys(self) -> list[str]:
        """Return in words where the keys of removed users can still be, as `erase` returns what is left."""
        return []

    def remove_unreadable(self, user_id: str) -> int:
        """Delete the memories of a user whose key is gone, so that nobody can read them; return how many."""
        return 0

    def forget(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `write` for a deletion, then as `erase`; nothing more if the result is false."""

        def delete(connection: Connection) -> _Result:
            result = work(connection)
            if result:
                forgetting.note(connection)
            return result

        result = self.write(user_id, delete)
        if result:
            self.erase(user_id, warns=True)
        return result

    def forget_chunks(
        self, connection: Connection, user_id: str, chunk_ids: Sequence[int], titles: Sequence[str]
    ) -> None:
        """Remove copies of deleted nodes, given by their chunks and titles, from conversations and traces."""
        forgetting.copies_of_chunks(connection, user_id, chunk_ids, titles)

    def find_number(self, connection: Connection, user_id: str) -> int | None:
        """Return the number of a user, None if the user has stored nothing yet."""
        return tenants.find(connection, user_id)

    def ensure_number(self, connection: Connection, user_id: str) -> int:
        """Return the number of a user; a new user gets one."""
        return tenants.ensure(connection, user_id)

    def refuse_too_large(self, *texts: str) -> None:
        """Raise StoreFullError if a memory with these texts would need most of max_db_size for itself.

        All other memories would be pruned for it, and then it as well.
        """
        # Half of it: the smallest limit has little room beside the empty tables.
        n_bytes = 2 * sum(len(text.encode()) for text in texts)
        if n_bytes > self.limit_bytes // 2:
            raise StoreFullError(
                f"{self.path}: a memory of {n_bytes // 2:,} bytes is too large for max_db_size;"
                " it was not stored",
                hint="raise max_db_size to at least four times that, or store the text as knowledge",
            )

    def add_memories(self, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        """Store all or none; return each id, and whether it is new (else that of the identical one).

        Raises StoreFullError if one of them is too large for max_db_size.
        """
        for memory in new:
            self.refuse_too_large(memory.question, memory.answer)
        stored = self.write(
            user_id, lambda connection: self.terms.add(connection, user_id, new), size=size_of(new)
        )
        self.follow(user_id)
        return stored


def size_of(new: Sequence[NewMemory]) -> int:
    """Return about how many bytes new memories take."""
    text_bytes = sum(len(memory.question) + len(memory.answer) + tenants.ROW_BYTES for memory in new)
    # As much again for the terms and their index.
    return 2 * text_bytes


class UserRows:
    """Reads and writes of the users of one Memory; anonymous users have no rows.

    Each method takes a user (None: the default one), the result for an anonymous user, and a function of a
    row module with its further arguments, which runs in one transaction.
    """

    def __init__(self, store: MemoryStore, user_id: str, clock: Callable[[], float]) -> None:
        self.store = store
        self.user_id = user_id
        self.clock = clock

    def user(self, user_id: str | None) -> str | None:
        """Return the storable user id, None for an anonymous user. Raises UsageError for a reserved one."""
        user = self.user_id if user_id is None else user_id
        if user in ANONYMOUS_USERS or not user.strip():
            return None
        tenants.require_usable(user)
        return storable(user)

    def seconds(self, timestamp: float | None = None) -> int:
        """Return a time, by default now, in whole unix seconds. Raises UsageError for milliseconds."""
        moment = self.clock() if timestamp is None else timestamp
        if not abs(moment) < _LARGEST_TIME:
            raise UsageError(
                "timestamp: not a time in unix seconds", hint="give seconds since 1970, not milliseconds"
            )
        return int(moment)

    def read(
        self,
        user_id: str | None,
        default: _Result,
        function: Callable[Concatenate[Connection, str, _Parameters], _Result],
        *arguments: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Result:
        """Return function(connection, user, …)."""
        user = self.user(user_id)
        if user is None:
            return default
        return self.store.read_of(user, lambda connection: function(connection, user, *arguments, **options))

    def write(
        self,
        user_id: str | None,
        default: _Result,
        function: Callable[Concatenate[Connection, str, _Parameters], _Result],
        *arguments: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Result:
        """Return function(connection, user, …) once it is committed."""
        return self.grow(user_id, 0, default, function, *arguments, **options)

    def grow(
        self,
        user_id: str | None,
        size: int,
        default: _Result,
        function: Callable[Concatenate[Connection, str, _Parameters], _Result],
        *arguments: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Result:
        """Do as `write`; the database grows by about `size` bytes, for which older rows may be pruned."""
        user = self.user(user_id)
        if user is None:
            return default
        return self.store.write(
            user, lambda connection: function(connection, user, *arguments, **options), size=size
        )

    def read_memories(
        self,
        user_id: str | None,
        default: _Result,
        function: Callable[Concatenate[Connection, int, _Parameters], _Result],
        *arguments: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Result:
        """Return function(connection, tenant, …), or the default for a user who has stored nothing."""
        return self.read(user_id, default, _with_tenant(default, function, *arguments, **options))

    def change_memories(
        self,
        user_id: str | None,
        default: _Result,
        function: Callable[Concatenate[Connection, int, _Parameters], _Result],
        *arguments: _Parameters.args,
        **options: _Parameters.kwargs,
    ) -> _Result:
        """Do as `read_memories` in a transaction that writes; indexes in main memory follow."""
        result = self.write(user_id, default, _with_tenant(default, function, *arguments, **options))
        self.follow(user_id)
        return result

    def follow(self, user_id: str | None) -> None:
        """Update indexes in main memory after a commit that changed memories."""
        user = self.user(user_id)
        if user is not None:
            self.store.follow(user)

    def iterate_memories(self, user_id: str | None) -> Iterator[tuple[int, NewMemory]]:
        """Yield all memories with their ids, in the order they were stored.

        They are read in pages, each a transaction: writers are not held up.
        """
        after = 0
        while found := self.read_memories(user_id, [], memories.page, after):
            yield from found
            after = found[-1][0]


def _with_tenant(
    default: _Result,
    function: Callable[Concatenate[Connection, int, _Parameters], _Result],
    *arguments: _Parameters.args,
    **options: _Parameters.kwargs,
) -> Callable[[Connection, str], _Result]:
    def work(connection: Connection, user: str) -> _Result:
        tenant = tenants.find(connection, user)
        return default if tenant is None else function(connection, tenant, *arguments, **options)

    return work
