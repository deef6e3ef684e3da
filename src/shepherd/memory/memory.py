"""Memory: what a caller uses. Resolves the user, makes text storable, and renders what a message gets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.memory import tail
from shepherd.memory.api_keys import ApiKeys
from shepherd.memory.arguments import share, unix_seconds, whole
from shepherd.memory.engines import open_store
from shepherd.memory.ledger import LedgerNotes
from shepherd.memory.queries import newest_told, understood
from shepherd.memory.queue import ExtractionQueue
from shepherd.memory.records import (
    Activity,
    AuditFinding,
    CheckReport,
    ClaimCounts,
    FactChange,
    ImportCounts,
    MemoryStats,
    NewMemory,
    OpenJob,
    SessionSummary,
    Turn,
)
from shepherd.memory.repetition import without_repetitions
from shepherd.memory.replaced import FormerValues, without_replaced
from shepherd.memory.store import MemoryStore
from shepherd.memory.tail import FactsBlocks
from shepherd.transactions import Reranker, Transactions
from shepherd.types import ANONYMOUS_USERS, Fact, Injection, MemoryRecord, Message, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors import VectorRecall, VectorSettings

__all__ = ["Memory"]

_NOTHING = Injection()


class Memory:
    """Facts and memories of users in one database.

    >>> with Memory("memory.db", user_id="steve") as memory:
    ...     memory.set_fact("name", "Steve")
    ...     memory.enrich("What is my name?")
    'What is my name?\\n\\n[facts: name=Steve]'

    `database` is a path, or postgresql://…; empty is the default place. Every method takes `user_id`, the one
    given here as default; `""` and `"unknown"` are nobody: nothing is read, nothing written. Thread-safe.
    With `vectors`, what words find is fused with what a model of embeddings finds near; `reranker`, which is
    closed with the memory, orders what is found in knowledge.
    Text that UTF-8 cannot hold is stored with U+FFFD. Errors are those of shepherd.errors.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] = "",
        *,
        user_id: str = "local",
        read_only: bool = False,
        relevance_threshold: float = 0.3,
        max_results: int = 3,
        recency_floor: float = 0.9,
        max_db_size: str = "10G",
        recall_cache_mb: int = 256,
        busy_timeout_s: float = 5.0,
        vectors: VectorSettings | None = None,
        reranker: Reranker | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.user_id = user_id
        self.relevance_threshold = share("relevance_threshold", relevance_threshold)
        self.recency_floor = share("recency_floor", recency_floor)
        self.max_results = max_results
        self._clock = clock
        self._facts_blocks = FactsBlocks()
        self._former = FormerValues()
        self._store: MemoryStore = open_store(
            os.fspath(database),
            read_only=read_only,
            max_db_size=max_db_size,
            recall_cache_mb=recall_cache_mb,
            busy_timeout_s=busy_timeout_s,
        )
        self._store.reranker = reranker
        self.ledger = LedgerNotes(self._store, self._user, clock)
        self.extraction = ExtractionQueue(self._store, self._user, clock)
        self.keys = ApiKeys(self._store, clock)
        self._vectors = _open_vectors(self._store, vectors, read_only=read_only)
        if self._vectors is not None:
            self._store.meaning = self._vectors.meaning()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the database; twice is fine."""
        if self._vectors is not None:
            self._vectors.close()
        if self._store.reranker is not None:
            self._store.reranker.close()
        self._store.close()

    @property
    def transactions(self) -> Transactions:
        """The database, for what else is kept in it: Knowledge(memory.transactions, user_id)."""
        return self._store

    @property
    def recalls_at_once(self) -> bool:
        """Whether `recall` takes well below a millisecond: memory in a file, and no vectors to be made."""
        return self._store.is_in_file and self._vectors is None

    # ---- for a message

    def recall(
        self,
        message: str,
        user_id: str | None = None,
        *,
        except_session: str = "",
        except_since: int = 0,
    ) -> Injection:
        """What to append to `message`: all facts, and the memories over the threshold, as of one moment.

        Memories that `except_session` told from `except_since` (unix seconds) on stay out: the model has them
        before it already. So do turns that say nothing but what one of the facts says, or said before.
        """
        user = self._user(user_id)
        if user is None:
            return _NOTHING
        began = time.perf_counter()
        now, limit = self._clock(), self.max_results
        keywords, periods, only_times = understood(message, now)
        near = None
        if self._vectors is not None and limit > 0 and not only_times:
            near = self._vectors.search(
                user,
                message,
                keywords,
                limit=limit,
                now=now,
                recency_floor=self.recency_floor,
                min_relevance=self.relevance_threshold,
                except_session=except_session,
                except_since=except_since,
                periods=periods,
            )
        facts, results = self._store.recall(
            user,
            keywords,
            limit=limit if near is None else 0,
            now=now,
            recency_floor=self.recency_floor,
            min_relevance=self.relevance_threshold,
            except_session=except_session,
            except_since=except_since,
            periods=periods,
        )
        if only_times:
            near = newest_told(self._store, user, periods, results, limit, now, except_session, except_since)
        if near is not None:
            results = [*results, *near]
            self._store.note_recalls([result.id for result in near], now)
        block = self._facts_blocks.of(user, facts)
        results = without_repetitions(results, block.words)
        if facts and any(result.source == "turn" for result in results):
            former = self._former.of(user, facts, lambda: self._store.fact_history(user, None))
            results = without_replaced(results, former)
        return Injection(
            tail.render_tail(block.text, results, keywords),
            block.shown,
            tuple(results),
            tuple(keywords),
            (time.perf_counter() - began) * 1e6,
        )

    def enrich(self, message: str, user_id: str | None = None) -> str:
        """`message` unchanged, followed by what recall finds for it."""
        return message + self.recall(message, user_id).tail

    def search(
        self,
        query: str,
        max_results: int | None = None,
        user_id: str | None = None,
        *,
        threshold: float = 0.0,
    ) -> list[SearchResult]:
        """The best memories for the words and times of `query`, best first, ties to the one stored last."""
        user = self._user(user_id)
        if user is None:
            return []
        now = self._clock()
        limit = self.max_results if max_results is None else whole(max_results)
        keywords, periods, only_times = understood(query, now)
        threshold = share("threshold", threshold)
        if self._vectors is not None and limit > 0 and not only_times:
            near = self._vectors.search(
                user,
                query,
                keywords,
                limit=limit,
                now=now,
                recency_floor=self.recency_floor,
                min_relevance=threshold,
                periods=periods,
            )
            if near is not None:
                return near
        found = self._store.search(
            user,
            keywords,
            limit=limit,
            now=now,
            recency_floor=self.recency_floor,
            min_relevance=threshold,
            periods=periods,
        )
        return [*found, *newest_told(self._store, user, periods, found, limit, now)] if only_times else found

    # ---- memories

    def store_memory(
        self,
        question: str,
        answer: str,
        user_id: str | None = None,
        *,
        source: str = "user",
        timestamp: float | None = None,
        session: str = "",
    ) -> int | None:
        """The id of the stored memory. An identical one is left as it is, and its id comes back."""
        user = self._user(user_id)
        if user is None:
            return None
        if not question.strip() and not answer.strip():
            raise UsageError("a memory needs a question or an answer")
        new = NewMemory(
            storable(question), storable(answer), self._time(timestamp), storable(source), storable(session)
        )
        memory_id = self._store.add_memories(user, [new])[0][0]
        self.wake_vectors()
        return memory_id

    def archive_turn(self, turn: Turn, user_id: str | None = None) -> int | None:
        """Stores one exchange of a conversation as a memory; its id."""
        return self.store_memory(
            turn.question,
            turn.answer,
            user_id,
            source="turn",
            timestamp=turn.timestamp,
            session=turn.session,
        )

    def clear_memory(self, question: str, user_id: str | None = None) -> int:
        """Removes the memories with exactly this question, but for case and whitespace; how many."""
        user = self._user(user_id)
        return 0 if user is None else self._store.clear_memory(user, storable(question))

    def get_memory(self, memory_id: int, user_id: str | None = None) -> MemoryRecord | None:
        """The memory of that id, if it is this user's."""
        user = self._user(user_id)
        return None if user is None else self._store.get_memory(user, memory_id)

    def edit_memory(
        self,
        memory_id: int,
        *,
        question: str | None = None,
        answer: str | None = None,
        user_id: str | None = None,
    ) -> bool:
        """Replaces question, answer or both; whether there was such a memory."""
        user = self._user(user_id)
        if user is None:
            return False
        question = None if question is None else storable(question)
        answer = None if answer is None else storable(answer)
        is_edited = self._store.edit_memory(user, memory_id, question, answer)
        self.wake_vectors()
        return is_edited

    def pin_memory(self, memory_id: int, pinned: bool = True, user_id: str | None = None) -> bool:
        """Protects a memory from pruning, or no longer; whether there was such a memory."""
        user = self._user(user_id)
        return user is not None and self._store.pin_memory(user, memory_id, pinned)

    def delete_memory(self, memory_id: int, user_id: str | None = None) -> bool:
        """Removes a memory; whether there was such a one."""
        user = self._user(user_id)
        return user is not None and self._store.delete_memory(user, memory_id)

    def list_memories(
        self, user_id: str | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[MemoryRecord]:
        """Newest first."""
        user = self._user(user_id)
        if user is None:
            return []
        return self._store.list_memories(user, limit=whole(limit), offset=whole(offset))

    def count_memories(self, user_id: str | None = None) -> int:
        """How many memories this user has."""
        user = self._user(user_id)
        return 0 if user is None else self._store.count_memories(user)

    # ---- facts

    def set_fact(self, key: str, value: str, user_id: str | None = None, *, source: str = "user") -> None:
        """Sets a fact. A newer value replaces the older one, which stays in the history.

        A key that differs from a known one only in case and separators is the known one.
        """
        user = self._user(user_id)
        if user is None:
            return
        if not key.strip() or not value.strip():
            raise UsageError("a fact needs a key and a value", hint="clear_fact removes one")
        self._store.set_fact(
            user, storable(key.strip()), storable(value), source=storable(source), now=self._time(None)
        )

    def get_fact(self, key: str, user_id: str | None = None) -> str | None:
        """The value; also that of `favoriteColor` for `favorite_color`."""
        user = self._user(user_id)
        fact = None if user is None else self._store.get_fact(user, storable(key.strip()))
        return None if fact is None else fact.value

    def get_all_facts(self, user_id: str | None = None) -> list[Fact]:
        """In key order."""
        user = self._user(user_id)
        return [] if user is None else list(self._store.get_all_facts(user))

    def clear_fact(
        self, key: str, user_id: str | None = None, *, source: str = "user", with_history: bool = False
    ) -> bool:
        """Removes a fact, found as get_fact finds it; whether there was something to remove.

        The values that it had stay in its history, unless `with_history`: then only that it was cleared.
        """
        user = self._user(user_id)
        key, source = storable(key.strip()), storable(source)
        return user is not None and self._store.clear_fact(
            user, key, source=source, now=self._time(None), with_history=with_history
        )

    def fact_history(self, key: str | None = None, user_id: str | None = None) -> list[FactChange]:
        """Every change of a fact, or of all facts, oldest first."""
        user = self._user(user_id)
        if user is None:
            return []
        return self._store.fact_history(user, None if key is None else storable(key.strip()))

    # ---- conversations

    def start_session(self, user_id: str | None = None, model: str = "", *, name: str = "") -> str:
        """The id of a new conversation; empty for nobody.

        With a name, which is another program's for it, that of the conversation of this name or id, if it is
        there already.
        """
        user = self._user(user_id)
        if user is None:
            return ""
        return self._store.start_session(user, storable(model), self._time(None), storable(name))

    def find_session(self, name: str, user_id: str | None = None) -> str | None:
        """The id of the conversation that has this id, or was started with this name."""
        user = self._user(user_id)
        return None if user is None or not name else self._store.find_session(user, storable(name))

    def append_message(
        self, session_id: str, message: Message, user_id: str | None = None, *, job: OpenJob | None = None
    ) -> int:
        """Stores a message with what was typed, what was sent and its token ids; its id.

        With a job, what was typed is queued for extraction as well.
        """
        user = self._user(user_id)
        if user is None:
            return 0
        return self._store.append_message(user, storable(session_id), message, self._time(None), job)

    def load_session(self, session_id: str | None = None, user_id: str | None = None) -> list[Message]:
        """The messages of a conversation, oldest first; None is the latest that has any."""
        user = self._user(user_id)
        if user is None:
            return []
        return self._store.load_session(user, None if session_id is None else storable(session_id))

    def list_sessions(
        self, user_id: str | None = None, *, limit: int = 20, offset: int = 0
    ) -> list[SessionSummary]:
        """Conversations with messages, the latest first: `[0].id` is what --continue means."""
        user = self._user(user_id)
        return [] if user is None else self._store.list_sessions(user, whole(limit), whole(offset))

    def count_sessions(self, user_id: str | None = None) -> int:
        """How many conversations have messages."""
        user = self._user(user_id)
        return 0 if user is None else self._store.count_sessions(user)

    def delete_last_turn(self, session_id: str, user_id: str | None = None) -> int:
        """Takes the newest user message and all after it out; how many messages that were.

        Facts and memories that were learned from them go too, unless they have been changed since.
        """
        user = self._user(user_id)
        return 0 if user is None else self._store.delete_last_turn(user, storable(session_id))

    def clear_session(self, session_id: str, user_id: str | None = None) -> int:
        """Takes all messages out of a conversation; how many that were."""
        user = self._user(user_id)
        return 0 if user is None else self._store.clear_session(user, storable(session_id))

    # ---- looking after it

    def export_memories(self, user_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Facts, their history and memories as JSON objects, one per line of a file; see transfer."""
        # Here and below, not at the top: a conversation begins without exports, imports and audits.
        from shepherd.memory import transfer

        user = self._user(user_id)
        return iter(()) if user is None else transfer.export(self._store, user, self._time(None))

    def import_memories(
        self, lines: Iterable[str | bytes | Mapping[str, Any]], user_id: str | None = None
    ) -> ImportCounts:
        """Takes in what export_memories gave, here or elsewhere. Doubles are left out, bad lines skipped."""
        from shepherd.memory import transfer
        from shepherd.memory.importers.shepherd import read as read_lines

        user = self._user(user_id)
        if user is None:
            return ImportCounts()
        counts = transfer.take_in(self._store, user, read_lines(lines, self._time(None)))
        self.wake_vectors()
        return counts

    def import_file(
        self,
        source: str | os.PathLike[str] | BinaryIO,
        user_id: str | None = None,
        *,
        format: str = "auto",
        progress: Callable[[int, int], object] = lambda done, total: None,
    ) -> ImportCounts:
        """Takes in a file or a binary stream of one of `importers.FORMATS`; "auto" looks at its beginning.

        Never holds the whole of it. `progress` is told how far it has come, of how much (0: nobody knows).
        Doubles are left out; what is not understood is counted, and named by its line or number.
        """
        from shepherd.memory import transfer
        from shepherd.memory.importers import Source

        user = self._user(user_id)
        if user is None:
            return ImportCounts()
        with Source(source, format) as opened:
            counts = transfer.take_in(
                self._store,
                user,
                opened.entries(self._time(None)),
                lambda: progress(opened.done, opened.total),
            )
        self.wake_vectors()
        return counts

    def stats(self, user_id: str | None = None) -> MemoryStats:
        """Counts of the user, and sizes of the database."""
        user = self._user(user_id)
        return MemoryStats() if user is None else self._store.stats(user)

    def activity(self, user_id: str | None = None, *, n_recalled: int = 10) -> Activity:
        """How many memories are from which day, and which were recalled most."""
        user = self._user(user_id)
        return Activity() if user is None else self._store.activity(user, whole(n_recalled))

    def audit(self, user_id: str | None = None) -> list[AuditFinding]:
        """Memories and facts worth a look: doubles, echoes, leftovers, secrets. Changes nothing."""
        from shepherd.memory import audit

        user = self._user(user_id)
        if user is None:
            return []
        before = self._time(None) - audit.NEVER_RECALLED_S
        return audit.audit(
            self._store.iterate_memories(user),
            self._store.get_all_facts(user),
            self._store.fact_history(user, None),
            self._store.never_recalled(user, before),
        )

    def claim(self, from_user: str = "local", user_id: str | None = None) -> ClaimCounts:
        """Moves everything of `from_user` to this user: what was stored before there were users is `local`'s.

        Of what both have, this user's stays; of facts the newer. Ids of the memories change.
        """
        user = self._user(user_id)
        if user is None:
            return ClaimCounts()
        if storable(from_user) == user:
            raise UsageError("a user cannot claim from himself", hint="name another user to take over from")
        return self._store.claim(storable(from_user), user)

    def check(self, repair: bool = False) -> CheckReport:
        """Looks for damage in the whole database; with `repair` mends what can be made again."""
        return self._store.check(repair)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copies the whole database to a new file, while it is in use."""
        self._store.backup(os.fspath(path))

    # ---- vectors

    @property
    def has_vectors(self) -> bool:
        """Whether memories are found by meaning as well."""
        return self._vectors is not None

    def wake_vectors(self) -> None:
        """Lets the background look for memories without a vector, as every write does."""
        if self._vectors is not None:
            self._vectors.wake()

    def settle_vectors(self, timeout_s: float = 60.0) -> bool:
        """Waits until every memory has its vector; whether it came to that. True without vectors.

        Raises what the embedder raised, though the background tries again.
        """
        return self._vectors is None or self._vectors.wait(timeout_s)

    def count_vectors(self, user_id: str | None = None) -> tuple[int, int]:
        """How many of the user's memories have a vector, and how many there are."""
        user = self._user(user_id)
        return (0, 0) if user is None or self._vectors is None else self._vectors.counts(user)

    # ---- what every method needs

    def _user(self, user_id: str | None) -> str | None:
        user = self.user_id if user_id is None else user_id
        if user in ANONYMOUS_USERS or not user.strip():
            return None
        return storable(user)

    def _time(self, timestamp: float | None) -> int:
        return unix_seconds(self._clock() if timestamp is None else timestamp)


def _open_vectors(
    store: MemoryStore, settings: VectorSettings | None, *, read_only: bool
) -> VectorRecall | None:
    if settings is None:
        return None
    # Not at the top: who has no vectors does not need arrays.
    from shepherd.memory.vectors import VectorRecall

    return VectorRecall(store, settings, read_only=read_only)
