"""The memory as its callers use it: resolves users, makes text storable, and renders what a message gets."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from shepherd import kept_files
from shepherd._native.text import STOP_WORDS
from shepherd.encryption import Sealer
from shepherd.errors import SecretError, UsageError
from shepherd.escaping import storable, without_blocks
from shepherd.lru_cache import FIFODict
from shepherd.memory import (
    facts,
    forgetting,
    injection_format,
    learned,
    memories,
    recall_counts,
    sessions,
    tenants,
)
from shepherd.memory.api_keys import ApiKeys
from shepherd.memory.cleared_facts import ClearedFact, ClearedFacts
from shepherd.memory.courses import arranged, asks_for_order
from shepherd.memory.extraction_queue import ExtractionQueue
from shepherd.memory.forgetting import Receipt
from shepherd.memory.injection_format import FactsBlocks
from shepherd.memory.ledger import LedgerNotes
from shepherd.memory.phrasing import is_about_several, is_request
from shepherd.memory.queries import (
    RecallQuery,
    asked_time,
    extract_keywords,
    may_ask_for_time,
    newest_results,
    parse_query,
)
from shepherd.memory.records import (
    Activity,
    AuditFinding,
    CheckReport,
    ClaimCounts,
    FactChange,
    FactPeriod,
    ImportCounts,
    LearnedItem,
    MemoryFilter,
    MemoryStats,
    NewMemory,
    OpenJob,
    SessionMark,
    SessionSummary,
    Turn,
)
from shepherd.memory.redundant_turns import (
    Contradictions,
    Former,
    FormerValues,
    fact_words,
    outdated_by,
    repeats,
    without_former_values,
    without_repetitions,
)
from shepherd.memory.sqlite import open_store
from shepherd.memory.stop_words import is_filler
from shepherd.memory.store import SMALL_ROW_BYTES, MemoryStore, UserRows, size_of
from shepherd.memory.undoable import undoable
from shepherd.transactions import Connection, Reranker, Transactions
from shepherd.types import Fact, Injection, MemoryRecord, Message, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors import VectorRecall, VectorSettings

__all__ = ["Memory"]

_Result = TypeVar("_Result")

_NOTHING = Injection()
_ALL = MemoryFilter()
# The largest whole number of either database; nobody has more rows.
_LARGEST = (1 << 63) - 1
# The default threshold, and the number of memories up to which common words pass it.
_RELEVANCE, _SMALL_MEMORY = 0.3, 200
# Source of what a tool call of a model stores.
_TOOL = "tool"
# Memories of a user that can be restored after they were forgotten, and the number of users with such.
_MOST_FORGOTTEN = 200
_MOST_FORGETTERS = 256
_MOST_ITEMS = 1000
# Refused values among which those of the last messages are.
_MOST_REFUSED = 20
# A message is stored when its turn ends; what it says may be in a file since the turn began.
_LONGEST_TURN_S = 3600


class Memory:
    """Facts and memories of users in one database.

    >>> with Memory("memory.db", user_id="steve") as memory:
    ...     memory.set_fact("name", "Steve")
    ...     memory.enrich("What is my name?")
    'What is my name?\\n\\n[facts: name=Steve]'

    `database` is a path, or postgresql://…; empty is the default place. Every method takes `user_id`, by
    default the one given here; `""` and `"unknown"` are anonymous: nothing is read or written for them.
    `vectors`: memories are ranked by an embedding model as well as by words. `reranker`: orders the passages
    of knowledge; closed with the memory. Text with a secret (a password, a key, a card number …) is refused
    with SecretError, unless `keeps_secrets`. `blind`: a PostgreSQL server gets texts and words only
    encrypted, and a file is encrypted as a whole. Text that UTF-8 cannot encode is stored with U+FFFD.
    Thread-safe. Errors are those of shepherd.errors.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] = "",
        *,
        user_id: str = "local",
        read_only: bool = False,
        relevance_threshold: float = _RELEVANCE,
        max_results: int = 3,
        recency_floor: float = 0.9,
        max_db_size: str = "10G",
        recall_cache_mb: int = 256,
        busy_timeout_s: float = 5.0,
        vectors: VectorSettings | None = None,
        reranker: Reranker | None = None,
        keeps_secrets: bool = False,
        blind: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if blind and vectors is not None and "://" in os.fspath(database):
            raise UsageError(
                "memory_blind: vectors tell their server what a text is about, so a blind memory has none",
                hint="shepherd config set memory_vectors off",
            )
        tenants.require_usable(user_id)
        self.relevance_threshold = _share("relevance_threshold", relevance_threshold)
        self.recency_floor = _share("recency_floor", recency_floor)
        self.max_results = max_results
        self._clock = clock
        self._facts_blocks = FactsBlocks()
        self._former = FormerValues()
        self._contradictions = Contradictions()
        # In this process alone: what is forgotten must not stay on disk.
        self._forgotten: FIFODict[str, deque[memories.Deleted]] = FIFODict(_MOST_FORGETTERS)
        self._forgotten_lock = threading.Lock()
        self._cleared_facts = ClearedFacts()
        self._store: MemoryStore = open_store(
            os.fspath(database),
            read_only=read_only,
            max_db_size=max_db_size,
            recall_cache_mb=recall_cache_mb,
            busy_timeout_s=busy_timeout_s,
            blind=blind,
        )
        self._store.reranker = reranker
        self._store.keeps_secrets = keeps_secrets
        self._rows = UserRows(self._store, user_id, clock)
        self.ledger = LedgerNotes(self._rows)
        self.extraction = ExtractionQueue(self._rows)
        self.keys = ApiKeys(self._store, clock)
        self._vectors = _open_vectors(self._store, vectors, read_only=read_only)
        if self._vectors is not None:
            self._store.meaning = self._vectors.chunks

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and the models; a second call does nothing."""
        if self._vectors is not None:
            self._vectors.close()
        if self._store.reranker is not None:
            self._store.reranker.close()
        self._store.close()

    @property
    def keeps_secrets(self) -> bool:
        """True if text with a secret is stored like other text."""
        return self._store.keeps_secrets

    @property
    def user_id(self) -> str:
        """The user of every call that names none."""
        return self._rows.user_id

    @user_id.setter
    def user_id(self, user_id: str) -> None:
        self._rows.user_id = user_id

    def files_owner(self, user_id: str | None = None) -> str:
        """Return the name of a user in kept_files, under which an engine may keep conversations; "" for none.

        Whatever deletes words here also deletes those files. They are not encrypted, so that there are none
        beside an encrypted memory.
        """
        user = self._rows.user(user_id)
        if user is None or self._store.sealer is not None:
            return ""
        return kept_files.owner_of(self._store.path, user)

    @property
    def transactions(self) -> Transactions:
        """The database, for other packages that keep rows in it: Knowledge(memory.transactions, user_id)."""
        return self._store

    @property
    def sealer(self) -> Sealer | None:
        """Seals files of what this memory knows, such as caches; None if the memory is not encrypted."""
        return self._store.sealer

    @property
    def recalls_at_once(self) -> bool:
        """True if `recall` takes well below a millisecond: memory in a file, and no embedding model."""
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
        """Return the text to append to `message`: all facts and the memories over the threshold.

        A message that asks for an order of events gets up to twice as many memories, the oldest first. Of
        memories that contradict one another, the newest comes first.
        Memories that `except_session` stored from `except_since` (unix seconds) on are left out, since they
        are still in the prompt, and so are turns that only repeat a fact or state a former value of one.
        """
        user = self._rows.user(user_id)
        if user is None:
            return _NOTHING
        began = time.perf_counter()
        now = self._clock()
        keywords, periods, only_times = parse_query(message, now)
        says_nothing = not periods and is_filler(message, keywords)
        is_ordered = asks_for_order(message)
        query = RecallQuery(
            [] if says_nothing else keywords,
            2 * self.max_results if is_ordered else self.max_results,
            now,
            self.recency_floor,
            self.relevance_threshold,
            except_session,
            except_since,
            periods,
            distinct_questions=True,
            is_request=is_request(message),
            is_about_several=is_about_several(message),
        )
        more = None
        if self._vectors is not None and query.limit > 0 and not (only_times or says_nothing):
            more = self._vectors.search(user, message, query)
        found, results = self._store.recall(user, query if more is None else query._replace(limit=0))
        if only_times:
            more = self._store.read_for_search(
                user, lambda connection: newest_results(connection, user, query, results)
            )
        if more is not None:
            results = [*results, *more]
        elif not (results or only_times or says_nothing):
            more = self._with_all_words(user, query)
            results = more
        if more:
            self._store.recall_counts.note([result.id for result in more], now)
        block = injection_format.block_for(self._facts_blocks.of(user, found), message)
        results = without_repetitions(results, block.words)
        asked = None
        if may_ask_for_time(message, periods):
            asked = asked_time(message, periods)
        notes: dict[int, str] = {}
        if results:
            former = self._former.of(
                user,
                found or (),
                lambda: self._store.read_for_search(
                    user, lambda connection: facts.history(connection, user, None)
                ),
            )
            if former.values:
                # A question about the past is answered from the past as well.
                results = results if asked else without_former_values(results, former)
                results = _without_outdated(results, former, notes, keeps=asked is not None)
            contradicted = self._contradictions.of(user, found or (), results)
            notes = {key: injection_format.note_of(*both) for key, both in contradicted.items()} | notes
            results, days = arranged(message, results, keywords, is_ordered=is_ordered)
            for memory_id, day in days.items():
                notes[memory_id] = day + notes.get(memory_id, "")
        text, past = block.text, []
        if asked is not None:
            periods_held = self._store.read_for_search(
                user, lambda connection: facts.periods(connection, user, None)
            )
            past = injection_format.past_facts(asked, periods_held)
            text = injection_format.with_past_facts(text, [*map(injection_format.past_pair, past)])
        return Injection(
            injection_format.render_tail(text, results, keywords, notes),
            block.shown,
            tuple(results),
            tuple(keywords),
            (time.perf_counter() - began) * 1e6,
            fewer_facts=block.fewer,
            past=tuple(past),
        )

    def _with_all_words(self, user: str, query: RecallQuery) -> list[SearchResult]:
        """Return memories with all keywords of a query, in a small memory, unless the threshold was raised.

        A word that most memories have doesn't tell them apart, so that even a perfect match has no relevance.
        """
        words = set(query.keywords)
        if not words or words <= STOP_WORDS or query.min_relevance > _RELEVANCE:
            return []
        found = [
            result
            for result in self._store.search(user, query._replace(min_relevance=0.0))
            if words <= {*extract_keywords(result.question), *extract_keywords(result.answer)}
        ]
        return found if found and self.count_memories(user) <= _SMALL_MEMORY else []

    def enrich(self, message: str, user_id: str | None = None) -> str:
        """Return `message` with the text that `recall` finds for it."""
        return message + self.recall(message, user_id).tail

    def search(
        self,
        query: str,
        max_results: int | None = None,
        user_id: str | None = None,
        *,
        threshold: float = 0.0,
    ) -> list[SearchResult]:
        """Return the best memories for the words and times of `query`, best first, ties to the latest."""
        user = self._rows.user(user_id)
        if user is None:
            return []
        now = self._clock()
        limit = self.max_results if max_results is None else _whole(max_results)
        keywords, periods, only_times = parse_query(query, now)
        asked = RecallQuery(
            keywords,
            limit,
            now,
            self.recency_floor,
            _share("threshold", threshold),
            periods=periods,
            is_request=is_request(query),
            is_about_several=is_about_several(query),
        )
        if self._vectors is not None and limit > 0 and not only_times:
            near = self._vectors.search(user, query, asked)
            if near is not None:
                return near
        found = self._store.search(user, asked)
        if only_times:
            found += self._store.read_for_search(
                user, lambda connection: newest_results(connection, user, asked, found)
            )
        return found

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
        """Store a memory and return its id. If an identical one is stored, return the id of that."""
        user = self._rows.user(user_id)
        if user is None:
            return None
        self._check_texts(question, answer)
        seconds = self._rows.seconds(timestamp)
        new = NewMemory(storable(question), storable(answer), seconds, storable(source), storable(session))
        if source == _TOOL:
            self._store.refuse_too_large(new.question, new.answer)
            memory_id = self._rows.grow(
                user, size_of([new]) + SMALL_ROW_BYTES, 0, _store_and_list, new, self._store.terms
            )
            self._rows.follow(user)
        else:
            memory_id = self._store.add_memories(user, [new])[0][0]
        self.wake_vectors()
        return memory_id

    def archive_turn(self, turn: Turn, user_id: str | None = None) -> int | None:
        """Store one exchange of a conversation as a memory and return its id.

        None if it has a secret, or only repeats facts. Blocks of memory that the exchange carries, such as
        `[facts: …]`, are left out, and values that may be codes are covered.
        """
        texts = self._archived(turn, user_id)
        if texts is None:
            return None
        try:
            return self.store_memory(
                *texts, user_id, source="turn", timestamp=turn.timestamp, session=turn.session
            )
        except SecretError:
            return None

    def _archived(self, turn: Turn, user_id: str | None) -> tuple[str, str] | None:
        """Return the question and the answer that `archive_turn` stores, None if it stores nothing."""
        question, answer = without_blocks(turn.question), without_blocks(turn.answer)
        if not question.strip() or repeats(question, fact_words(self.get_all_facts(user_id))):
            return None
        if not self._store.keeps_secrets:
            # Not at the top: their patterns take a while to compile, and a conversation begins without them.
            from shepherd.secret_detection import holds_secret
            from shepherd.secret_detection.unexplained import covered

            if holds_secret(question, answer):
                return None
            question, answer = covered(question, answer)
        return storable(question), storable(answer)

    def clear_memory(
        self, question: str, user_id: str | None = None, *, receipt: Receipt | None = None
    ) -> int:
        """Delete the memories with exactly this question, except for case and whitespace; return how many.

        As with every forgetting, nothing of them can be read again from a file when this returns (with
        PostgreSQL, from a file of Shepherd's). `receipt` is filled with what was removed where.
        """
        return len(
            self._forget_memories(
                user_id,
                receipt,
                lambda connection, tenant: memories.delete_question(
                    connection, tenant, storable(question), self._store.terms
                ),
            )
        )

    def get_memory(self, memory_id: int, user_id: str | None = None) -> MemoryRecord | None:
        """Return the memory of that id, if it is this user's."""
        return self._rows.read_memories(user_id, None, memories.get, memory_id)

    def edit_memory(
        self,
        memory_id: int,
        *,
        question: str | None = None,
        answer: str | None = None,
        user_id: str | None = None,
    ) -> bool:
        """Replace question, answer or both; return whether there is such a memory.

        The former texts are forgotten as clear_memory forgets a memory.
        """
        question = None if question is None else storable(question)
        answer = None if answer is None else storable(answer)
        self._store.refuse_too_large(question or "", answer or "")

        def work(connection: Connection, user: str) -> tuple[bool, Counter[str]]:
            tenant = tenants.find(connection, user)
            before = None if tenant is None else memories.get(connection, tenant, memory_id)
            if tenant is None or before is None:
                return False, Counter()
            # Neither text alone need be a secret, nor empty: "What is my PIN?" and "4711" are one together.
            texts = (
                before.question if question is None else question,
                before.answer if answer is None else answer,
            )
            self._check_texts(*texts)
            memories.edit(connection, tenant, memory_id, question, answer, self._store.terms)
            former = (memory_id, before.question, before.answer)
            is_asked_anew = question not in (None, before.question)
            return True, forgetting.copies_of_memories(connection, user, [former], withdraw=is_asked_anew)

        is_edited = self._forget(user_id, False, work)
        self.wake_vectors()
        return is_edited

    def pin_memory(self, memory_id: int, pinned: bool = True, user_id: str | None = None) -> bool:
        """Protect a memory from pruning, or no longer; return whether there is such a memory."""
        return self._rows.change_memories(user_id, False, memories.pin, memory_id, pinned)

    def delete_memory(self, memory_id: int, user_id: str | None = None) -> bool:
        """Delete a memory; return whether there was one."""
        return bool(self.delete_memories([memory_id], user_id))

    def delete_memories(
        self, memory_ids: Sequence[int], user_id: str | None = None, *, receipt: Receipt | None = None
    ) -> list[int]:
        """Delete memories in one transaction; return the ids of those that there were. See clear_memory."""
        ids = list(dict.fromkeys(memory_ids))
        deleted = self._forget_memories(
            user_id,
            receipt,
            lambda connection, tenant: memories.delete_and_keep(connection, tenant, ids, self._store.terms),
        )
        gone = {one.id for one in deleted}
        return [memory_id for memory_id in ids if memory_id in gone]

    def drop_memories(self, memory_ids: Sequence[int], user_id: str | None = None) -> int:
        """Delete memories that only repeat what is stored elsewhere; return how many.

        Nobody has asked to forget their words: copies and files stay as they are.
        """
        ids = list(dict.fromkeys(memory_ids))
        return self._rows.change_memories(user_id, 0, memories.delete, ids, self._store.terms)

    def restore_forgotten(
        self, memory_id: int | None = None, user_id: str | None = None
    ) -> MemoryRecord | None:
        """Restore a memory that this process has deleted, by default the last one, exactly as it was.

        None if there is no such memory: the last 200 of each user can be restored, while the process runs.
        Raises UsageError if another memory says the same now.
        """
        user = self._rows.user(user_id)
        with self._forgotten_lock:
            forgotten = self._forgotten.get(user) if user is not None else None
            wanted = [one for one in forgotten or () if memory_id in (None, one.id)]
        if not wanted or forgotten is None:
            return None
        deleted = wanted[-1]
        self._rows.change_memories(user_id, False, memories.restore, deleted, self._store.terms)
        with self._forgotten_lock:
            if deleted in forgotten:
                forgotten.remove(deleted)
        self.wake_vectors()
        return self.get_memory(deleted.id, user_id)

    def _forget_memories(
        self,
        user_id: str | None,
        receipt: Receipt | None,
        delete: Callable[[Connection, int], list[memories.Deleted]],
    ) -> list[memories.Deleted]:
        """Delete memories with all copies of them, and keep them in this process to be restored."""

        def work(connection: Connection, user: str) -> tuple[list[memories.Deleted], Counter[str]]:
            tenant = tenants.find(connection, user)
            deleted = [] if tenant is None else delete(connection, tenant)
            texts = [(one.id, one.row[1], one.row[2]) for one in deleted]
            removed = forgetting.copies_of_memories(connection, user, texts)
            return deleted, removed + Counter({forgetting.MEMORIES: len(deleted)})

        nothing: list[memories.Deleted] = []
        deleted = self._forget(
            user_id,
            nothing,
            work,
            receipt,
            since=lambda deleted: min((one.known_since for one in deleted), default=0),
        )
        self._keep_forgotten(user_id, deleted)
        return deleted

    def _forget(
        self,
        user_id: str | None,
        default: _Result,
        work: Callable[[Connection, str], tuple[_Result, Counter[str]]],
        receipt: Receipt | None = None,
        *,
        since: Callable[[_Result], int] = lambda _: 0,
    ) -> _Result:
        """Return the result of `work` once it is committed, and nothing of what it deleted is left anywhere.

        `work` also returns the numbers of rows that it removed, for the receipt. `since` returns the time in
        unix seconds before which no kept conversation can have what was deleted.
        """
        user = self._rows.user(user_id)
        if user is None:
            return default

        def delete(connection: Connection) -> tuple[_Result, Counter[str]]:
            result, removed = work(connection, user)
            if result:
                forgetting.note(connection)
            return result, removed

        result, removed = self._store.write(user, delete)
        if not result:
            return result
        self._rows.follow(user_id)
        since_s = since(result) - _LONGEST_TURN_S
        files, left = self._store.erase(user, since_s, warns=receipt is None)
        if receipt is not None:
            receipt.removed += removed
            receipt.files += files
            receipt.left += [one for one in left if one not in receipt.left]
        return result

    def clean_up(self, user_id: str | None = None) -> None:
        """Overwrite what this user's deletions of other rows have left, as every forgetting does."""
        user = self._rows.user(user_id)
        if user is not None:
            self._store.clean(user)

    def _keep_forgotten(self, user_id: str | None, deleted: Sequence[memories.Deleted]) -> None:
        user = self._rows.user(user_id)
        if user is None or not deleted:
            return
        with self._forgotten_lock:
            forgotten = self._forgotten.get(user)
            if forgotten is None:
                forgotten = self._forgotten[user] = deque(maxlen=_MOST_FORGOTTEN)
            forgotten.extend(deleted)

    def list_memories(
        self,
        user_id: str | None = None,
        *,
        limit: int = 50,
        offset: int = 0,
        wanted: MemoryFilter = _ALL,
        order: Literal["newest", "oldest", "recalled"] = "newest",
    ) -> list[MemoryRecord]:
        """Return the memories that are `wanted`, newest first, or oldest or most often recalled first."""
        return self._rows.read_memories(
            user_id,
            [],
            memories.page_of,
            limit=_whole(limit),
            offset=_whole(offset),
            wanted=wanted,
            order=order,
        )

    def count_memories(self, user_id: str | None = None, wanted: MemoryFilter = _ALL) -> int:
        """Return the number of memories, or of those that are `wanted`."""
        return self._rows.read_memories(user_id, 0, memories.count, wanted)

    def count_recalls(self, memory_ids: Sequence[int], user_id: str | None = None) -> dict[int, int]:
        """Return how often each of these memories was put beside a message, without those that never were."""
        return self._rows.read_memories(user_id, {}, recall_counts.of, list(memory_ids))

    # ---- facts

    def set_fact(
        self,
        key: str,
        value: str,
        user_id: str | None = None,
        *,
        source: str = "user",
        since: float | None = None,
    ) -> None:
        """Set a fact. A newer value replaces the older one, which stays in the history.

        A key that differs from a known one only in case and separators is the known one. `since` is when the
        value began to hold, by default now.
        """
        if self._rows.user(user_id) is None:
            return
        if not key.strip() or not value.strip():
            raise UsageError("a fact needs a key and a value", hint="clear_fact removes one")
        self._refuse_secret("is_secret", key, value)
        key, value = storable(key.strip()), storable(value)
        size = len(key) + len(value) + SMALL_ROW_BYTES
        now = self._rows.seconds()
        begins = 0 if since is None else self._rows.seconds(since)
        write = _set_and_list if source == _TOOL else facts.set_value
        self._rows.grow(
            user_id, size, None, write, key, value, source=storable(source), now=now, since=begins
        )

    def get_fact(self, key: str, user_id: str | None = None) -> str | None:
        """Return the value; `favoriteColor` finds `favorite_color` as well."""
        fact = self._rows.read(user_id, None, facts.find, storable(key.strip()))
        return None if fact is None else fact.value

    def get_all_facts(self, user_id: str | None = None) -> list[Fact]:
        """Return the facts in key order."""
        return list(self._rows.read(user_id, (), facts.of_user))

    def facts_set_by_user(self, user_id: str | None = None) -> list[Fact]:
        """Return the facts that were set or imported: what contradicts one of them is only proposed."""
        return list(self._rows.read(user_id, (), facts.set_by_user, learned.SOURCE))

    def clear_fact(
        self,
        key: str,
        user_id: str | None = None,
        *,
        source: str = "user",
        with_history: bool = False,
        receipt: Receipt | None = None,
    ) -> bool:
        """Remove a fact, found as get_fact finds it; return whether there was anything to remove.

        Its values stay in the history, unless `with_history`: then only the fact that it was cleared does,
        and the sentences with one of these values are removed everywhere, as clear_memory does.
        """
        options: dict[str, Any] = {
            "source": storable(source),
            "now": self._rows.seconds(),
            "terms": self._store.terms,
            "with_history": with_history,
        }
        key = storable(key.strip())

        def work(connection: Connection, user: str) -> tuple[bool, Counter[str]]:
            values = facts.values_of(connection, user, key)
            if not learned.clear_fact(connection, user, key, **options):
                return False, Counter()
            removed = forgetting.copies_of_values(connection, user, values)
            return True, removed + Counter({forgetting.FACTS: len(values)})

        user = self._rows.user(user_id)
        if user is None:
            return False
        if with_history:
            self._cleared_facts.forget(user, key)
            return self._forget(user_id, False, work, receipt)
        cleared = ClearedFact()
        is_cleared = self._rows.write(user_id, False, learned.clear_fact, key, **options, cleared=cleared)
        self._rows.follow(user_id)
        if is_cleared:
            self._cleared_facts.add(user, cleared)
        return is_cleared

    def restore_fact(self, key: str, user_id: str | None = None) -> Fact | None:
        """Restore a fact that this process has cleared, with its source, its times and its sentence.

        None if there is no such fact: the last 200 of each user can be restored, while the process runs.
        Raises UsageError if it was set again since.
        """
        user, key = self._rows.user(user_id), storable(key.strip())
        cleared = None if user is None else self._cleared_facts.find(user, key)
        if user is None or cleared is None:
            return None
        is_restored = self._rows.write(user_id, False, _restore_fact, cleared, self._store.terms)
        self._cleared_facts.forget(user, key)
        now = self._rows.read(user_id, None, facts.find, key)
        if not is_restored and now is not None:
            raise UsageError(
                "fact: it was set again since it was cleared", hint="its history has both values"
            )
        self._rows.follow(user_id)
        self.wake_vectors()
        return now

    def fact_history(self, key: str | None = None, user_id: str | None = None) -> list[FactChange]:
        """Return every change of a fact, or of all facts, oldest first."""
        return self._rows.read(user_id, [], facts.history, None if key is None else storable(key.strip()))

    def facts_at(self, when: float, user_id: str | None = None) -> tuple[Fact, ...]:
        """Return the facts that held at a time, as far as is known now, in key order.

        >>> with Memory("memory.db", user_id="steve") as memory:
        ...     memory.set_fact("location", "Texas", since=1_700_000_000)
        ...     [fact.value for fact in memory.facts_at(1_700_000_001)]
        ['Texas']
        """
        return self._rows.read(user_id, (), facts.at, when)

    def fact_periods(
        self,
        key: str | None = None,
        user_id: str | None = None,
        *,
        corrected: bool = False,
        forgotten: bool = True,
    ) -> list[FactPeriod]:
        """Return the values of a fact, or of all, and from when until when each held, oldest first.

        With `corrected` also values that held at no time, since others replaced them: they end as they begin.
        Without `forgotten`, values from before the fact was cleared are left out, unless their end was told.
        """
        wanted = None if key is None else storable(key.strip())
        return self._rows.read(user_id, [], facts.periods, wanted, corrected=corrected, forgotten=forgotten)

    # ---- what was learned

    def learned(
        self,
        limit: int = 50,
        before_id: int | None = None,
        waiting_only: bool = False,
        user_id: str | None = None,
    ) -> list[LearnedItem]:
        """Return what was learned from the user's words, newest first.

        `waiting_only`: only the proposals that wait to be accepted or rejected.
        `before_id`: only items with a smaller id, for the next page.
        """
        if before_id is not None and not _may_exist(before_id):
            return []
        return self._rows.read(
            user_id, [], learned.items, _whole(limit), before_id, waiting_only=waiting_only
        )

    def learned_since(self, item_id: int, user_id: str | None = None) -> list[LearnedItem]:
        """Return the items with a larger id, oldest first, at most 1,000: those not shown yet."""
        return self._rows.read(user_id, [], learned.items_since, _whole(item_id), _MOST_ITEMS)

    def undoable(self, items: Sequence[LearnedItem], user_id: str | None = None) -> frozenset[int]:
        """Return the ids of those that `undo` would undo: nothing was changed again since."""
        ids = [item.id for item in items]
        if not ids:
            return frozenset()
        return self._rows.read(user_id, frozenset(), undoable, min(ids), max(ids)) & frozenset(ids)

    def refused_values(self, user_id: str | None = None) -> frozenset[str]:
        """Return the values, in lower case, that the user undid or rejected lately."""
        return self._rows.read(user_id, frozenset(), learned.refused_values, _MOST_REFUSED)

    def take_news(self, user_id: str | None = None) -> list[LearnedItem]:
        """Return what this user was not shown yet, oldest first, at most 1,000, and mark it as shown.

        Each item is returned once, whatever process asks.
        """
        if not self._rows.read(user_id, [], learned.news, 1):
            return []
        return self._rows.write(user_id, [], learned.mark_shown, _MOST_ITEMS)

    def keep(self, item_id: int, user_id: str | None = None) -> LearnedItem | None:
        """Mark an item as looked at and right; return it, None if there is no such new item."""
        return self._rows.write(user_id, None, learned.keep, item_id) if _may_exist(item_id) else None

    def undo(self, item_id: int | None = None, user_id: str | None = None) -> LearnedItem | None:
        """Undo an item, None the newest that can be undone: all is exactly as before; return it.

        None if there is no such item, or if it was undone or never took effect. If the fact or the memory was
        changed again since, nothing is undone, and the item's state is not "undone".
        """
        if item_id is not None and not _may_exist(item_id):
            return None
        item = self._rows.write(user_id, None, learned.undo, item_id, self._store.terms)
        self._rows.follow(user_id)
        return item

    def accept(self, item_id: int | None = None, user_id: str | None = None) -> LearnedItem | None:
        """Accept a proposal, None the newest that waits; return it, None if there is none.

        The fact then counts as set by the user, and `undo` takes it back.
        """
        if item_id is not None and not _may_exist(item_id):
            return None
        return self._rows.write(user_id, None, learned.accept, item_id, self._rows.seconds())

    def reject(self, item_id: int | None = None, user_id: str | None = None) -> LearnedItem | None:
        """Reject a proposal, None the newest that waits; return it, None if there is none."""
        if item_id is not None and not _may_exist(item_id):
            return None
        item = self._rows.write(user_id, None, learned.reject, item_id, self._store.terms)
        self._rows.follow(user_id)
        return item

    def _check_texts(self, question: str, answer: str) -> None:
        """Raise UsageError for a memory without words, and SecretError for one with a secret."""
        if not question.strip() and not answer.strip():
            raise UsageError("a memory needs a question or an answer")
        self._refuse_secret("holds_secret", question, answer)

    def _refuse_secret(self, rule: Literal["holds_secret", "is_secret"], name: str, value: str) -> None:
        if self._store.keeps_secrets:
            return
        # Not at the top: its patterns take 20 ms to compile, and a conversation begins without them.
        from shepherd import secret_detection

        if getattr(secret_detection, rule)(name, value):
            raise SecretError(
                "that looks like a secret (a password, PIN, key, or the number of a card or account),"
                " and secrets are not stored",
                hint="memory_extraction_secrets = true stores them as well",
            )

    # ---- conversations

    def start_session(
        self,
        user_id: str | None = None,
        model: str = "",
        *,
        name: str = "",
        is_one_off: bool = False,
        mark: SessionMark | None = None,
    ) -> str:
        """Start a conversation and return its id; empty for an anonymous user.

        With a name, under which another program knows it, return the conversation of this name or id if there
        is one. `is_one_off`: it is a single question, which --continue passes over. Raises ConflictError if
        the user was deleted since the `mark`.
        """
        now = self._rows.seconds()
        return self._rows.grow(
            user_id,
            SMALL_ROW_BYTES,
            "",
            sessions.start,
            storable(model),
            now,
            storable(name),
            is_one_off,
            mark,
        )

    def mark_session(
        self, session_id: str = "", user_id: str | None = None, *, answered: int = 0
    ) -> SessionMark:
        """Return what is stored of a conversation, for a turn that begins; "" is a new conversation.

        With the id of a message to be `answered` again, the mark has that one as the last; 0 if it was
        deleted, or the user has said something since.
        """
        session = storable(session_id)
        mark = self._rows.read(user_id, SessionMark(), sessions.mark, session, answered)
        if not mark.tenant and self.get_all_facts(user_id):
            # Facts alone give a user no number, by whose loss a deletion of the user is known.
            self._rows.grow(user_id, SMALL_ROW_BYTES, 0, tenants.ensure)
            mark = self._rows.read(user_id, mark, sessions.mark, session, answered)
        return mark

    def find_session(self, name: str, user_id: str | None = None) -> str | None:
        """Return the id of the conversation that has this id, or was started with this name."""
        return self._rows.read(user_id, None, sessions.find, storable(name)) if name else None

    def append_message(
        self,
        session_id: str,
        message: Message,
        user_id: str | None = None,
        *,
        job: OpenJob | None = None,
        mark: SessionMark | None = None,
    ) -> int:
        """Store a message with the text typed, the text sent and its token ids; return its id.

        With a job, the text typed is queued for extraction as well. Raises ConflictError if the conversation
        or the user was deleted since the `mark`.
        """
        return self._rows.grow(
            user_id,
            sessions.size_of(message),
            0,
            sessions.append,
            storable(session_id),
            message,
            self._rows.seconds(),
            job,
            mark,
        )

    def answer_again(
        self,
        session_id: str,
        asked: Message | None,
        messages: Sequence[Message],
        user_id: str | None = None,
        *,
        mark: SessionMark,
        turn: Turn | None = None,
    ) -> list[int] | None:
        """Store another answer in place of all that follows the message of the `mark`; return the ids.

        All happens in one transaction. None if the user has said something since: nothing is changed. `asked`
        is that message as the model has seen it now, None if it isn't the user's. `turn` is what
        `archive_turn` will get: a memory of the earlier answer becomes that. With None, or if `archive_turn`
        wouldn't store it, that memory keeps the question alone. Raises ConflictError if the conversation was
        deleted since the mark.
        """
        terms, now = self._store.terms, self._rows.seconds()
        ids = self._rows.grow(
            user_id,
            sum(map(sessions.size_of, messages)),
            None,
            sessions.answer_again,
            storable(session_id),
            asked,
            messages,
            now,
            terms,
            mark,
            None if turn is None else self._archived(turn, user_id),
        )
        self._rows.follow(user_id)
        self.wake_vectors()
        return ids

    def append_messages(self, name: str, messages: Sequence[Message], user_id: str | None = None) -> str:
        """Append messages to the conversation of this name or id, or to a new one; return its id.

        All of them are stored together, or none; another writer's stand before or behind them.
        """

        def append(connection: Connection, user: str, now: int) -> str:
            session = sessions.start(connection, user, "", now, storable(name), False)
            for message in messages:
                sessions.append(connection, user, session, message, now)
            return session

        size = SMALL_ROW_BYTES + sum(map(sessions.size_of, messages))
        return self._rows.grow(user_id, size, "", append, self._rows.seconds())

    def load_session(self, session_id: str | None = None, user_id: str | None = None) -> list[Message]:
        """Return the messages of a conversation, oldest first; None is the latest one with messages."""
        return self._rows.read(
            user_id, [], sessions.load, None if session_id is None else storable(session_id)
        )

    def list_sessions(
        self,
        user_id: str | None = None,
        *,
        limit: int = 20,
        offset: int = 0,
        words: str = "",
        one_offs: bool = True,
    ) -> list[SessionSummary]:
        """Return conversations with messages, the latest first.

        With `words`, only those with a message or a title that contains this text, in any case and with or
        without accents. Without `one_offs`, single questions are left out, unless they were
        continued or given a title: `[0].id` is then what --continue means.
        """
        return self._rows.read(
            user_id, [], sessions.summaries, _whole(limit), _whole(offset), storable(words), one_offs
        )

    def count_sessions(self, user_id: str | None = None, *, words: str = "", one_offs: bool = True) -> int:
        """Return the number of conversations that `list_sessions` would return without a limit."""
        return self._rows.read(user_id, 0, sessions.count, storable(words), one_offs)

    def rename_session(self, session_id: str, title: str, user_id: str | None = None) -> None:
        """Give a conversation a title; with "" its first message is the title again.

        Raises UsageError if this user has no such conversation.
        """
        title = " ".join(storable(title).split())
        self._rows.write(user_id, None, sessions.rename, storable(session_id), title)

    def title_of_session(self, session_id: str, user_id: str | None = None) -> str:
        """Return the title of a conversation, or the beginning of its first message; "" if there is none."""
        return self._rows.read(user_id, "", sessions.title_of, storable(session_id))

    def model_of_session(self, session_id: str, user_id: str | None = None) -> str:
        """Return the name of the model that a conversation was begun with; "" if it is unknown."""
        return self._rows.read(user_id, "", sessions.model_of, storable(session_id))

    def delete_last_turn(self, session_id: str, user_id: str | None = None) -> int:
        """Delete the newest user message and all after it; return how many messages.

        Facts and memories that were learned from them are deleted too, unless they were changed since.
        """
        terms, session = self._store.terms, storable(session_id)
        return self._forget_messages(
            user_id,
            lambda connection, user: len(sessions.delete_last_turn(connection, user, session, terms)),
            since=self._rows.read(user_id, 0, sessions.said_at, session),
        )

    def delete_messages(
        self, session_id: str, position: int, user_id: str | None = None, *, last_known: int | None = None
    ) -> int:
        """Delete the message at a position of a conversation, counted from 1, and all after it.

        Returns how many. What was learned from them is deleted as `delete_last_turn` does. Raises
        ConflictError, and deletes nothing, if the conversation has messages after position `last_known`.
        """
        terms, session, first = self._store.terms, storable(session_id), max(_whole(position), 1)
        known = None if last_known is None else _whole(last_known)
        return self._forget_messages(
            user_id,
            lambda connection, user: len(
                sessions.delete_from(connection, user, session, first, terms, known)
            ),
            since=self._rows.read(user_id, 0, sessions.said_at, session, first),
        )

    def clear_session(
        self, session_id: str, user_id: str | None = None, *, receipt: Receipt | None = None
    ) -> int:
        """Delete all messages of a conversation, with its title; return how many messages. See clear_memory.

        What was learned from them stays, but messages that wait to be learned from are deleted too. Raises
        UsageError if this user has no such conversation.
        """
        session = storable(session_id)
        return self._forget_messages(
            user_id, lambda connection, user: sessions.clear(connection, user, session), receipt
        )

    def _forget_messages(
        self,
        user_id: str | None,
        delete: Callable[[Connection, str], int],
        receipt: Receipt | None = None,
        since: int = 0,
    ) -> int:
        def work(connection: Connection, user: str) -> tuple[int, Counter[str]]:
            n = delete(connection, user)
            return n, Counter({forgetting.MESSAGES: n})

        return self._forget(user_id, 0, work, receipt, since=lambda _: since)

    def delete_user(self, user_id: str | None = None, *, receipt: Receipt | None = None) -> int:
        """Delete everything that is stored of a user, in every table; return how many rows there were.

        With it go the parts of the user's memory that programs with the user's API keys have named, and the
        keys, which are revoked. It can't be undone. See clear_memory.
        """
        from shepherd.memory import removal

        user = self._rows.user(user_id)
        if user is None:
            return 0
        removed, files, left = removal.remove_user(self._store, user, self._rows.seconds())
        with self._forgotten_lock:
            self._forgotten.pop(user, None)
        self._cleared_facts.forget(user)
        if receipt is not None:
            receipt.removed += removed
            receipt.files += files
            receipt.left += left
        return removed.total()

    # ---- maintenance

    def export_memories(self, user_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield facts, their history and memories as JSON objects, one per line of a file; see transfer."""
        # Here and below, not at the top: a conversation begins without exports, imports and audits.
        from shepherd.memory import transfer

        user = self._rows.user(user_id)
        return iter(()) if user is None else transfer.export(self._rows, user, self._rows.seconds())

    def import_memories(
        self, lines: Iterable[str | bytes | Mapping[str, Any]], user_id: str | None = None
    ) -> ImportCounts:
        """Import lines of export_memories, of this or another database; skip duplicates and bad lines."""
        from shepherd.memory import transfer
        from shepherd.memory.importers.shepherd import read as read_lines

        user = self._rows.user(user_id)
        if user is None:
            return ImportCounts()
        counts = transfer.take_in(self._rows, user, read_lines(lines, self._rows.seconds()))
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
        """Import a file or a binary stream of one of `importers.FORMATS`; "auto" detects it at its beginning.

        Never holds the whole of it. `progress(done, total)` is called after each transaction; a total of 0 is
        unknown. Duplicates are skipped; bad entries are counted and named by their line or number. Of a file
        that is no export, the only problem is `importers.NO_EXPORT`.
        """
        from shepherd.memory import transfer
        from shepherd.memory.importers import NO_EXPORT, Source

        user = self._rows.user(user_id)
        if user is None:
            return ImportCounts()
        with Source(source, format) as opened:
            counts = transfer.take_in(
                self._rows,
                user,
                opened.entries(self._rows.seconds()),
                lambda: progress(opened.done, opened.total),
            )
            n_read = counts.memories + counts.facts + counts.duplicates + counts.secrets
            if counts.problems and not (n_read or opened.is_recognized):
                counts = replace(counts, problems=(NO_EXPORT,))
        self.wake_vectors()
        return counts

    def stats(self, user_id: str | None = None) -> MemoryStats:
        """Return counts of the user and sizes of the database."""
        user = self._rows.user(user_id)
        return MemoryStats() if user is None else self._store.stats(user)

    def activity(self, user_id: str | None = None, *, n_recalled: int = 10) -> Activity:
        """Return the number of memories of each day, and the most recalled ones."""
        return self._rows.read_memories(user_id, Activity(), tenants.activity, _whole(n_recalled))

    @property
    def path(self) -> str:
        """Absolute path of the database, or the server's address without the password."""
        return self._store.path

    def tables_with(self, forms: Sequence[str]) -> dict[str, int]:
        """Return how many rows of each table, of all users, have one of these forms of a word."""
        return self._store.tables_with(forms)

    def schema_texts(self) -> list[bytes]:
        """Return the texts that the file of an empty memory has, which nobody said."""
        return self._store.schema_texts()

    def audit(self, user_id: str | None = None) -> list[AuditFinding]:
        """Return what a person may want to look at: memories that are duplicates or echoes, secrets, …

        Secrets are looked for in facts and knowledge, too.
        """
        from shepherd.memory import audit
        from shepherd.memory.audit_of_knowledge import secrets_in_knowledge

        user = self._rows.user(user_id)
        if user is None:
            return []
        before = self._rows.seconds() - audit.NEVER_RECALLED_S
        unused: list[int] = self._rows.read_memories(user_id, [], recall_counts.never_recalled, before)
        return audit.audit(
            self._rows.iterate_memories(user_id),
            self.get_all_facts(user_id),
            self.fact_history(None, user_id),
            [memory_id for memory_id in unused if memory_id not in self._store.recall_counts],
            () if self._store.is_blind else secrets_in_knowledge(self._store.read, user),
        )

    def claim(self, from_user: str = "local", user_id: str | None = None) -> ClaimCounts:
        """Move everything of `from_user` to this user; `local` has what was stored before there were users.

        If both have the same, this user's stays; of facts the newer one. Ids of the memories change.
        """
        user = self._rows.user(user_id)
        if user is None:
            return ClaimCounts()
        if storable(from_user) == user:
            raise UsageError(
                "a user cannot claim their own memories", hint="name another user to take over from"
            )
        claimed = self._store.claim(storable(from_user), user)
        if claimed and (owner := self.files_owner(from_user)):
            kept_files.forget(owner)
        return claimed

    def check(self, repair: bool = False) -> CheckReport:
        """Look for damage in the whole database; with `repair` mend what can be made again."""
        return self._store.check(repair)

    def backup(self, path: str | os.PathLike[str], *, keys: str | os.PathLike[str] = "") -> None:
        """Copy the whole database to a new file, while it is in use.

        `keys`: encrypt what each user has with a key of the user, and put these keys into that file, which is
        replaced. Who is deleted later can't be read in the copy with the file of a later backup.
        """
        self._store.backup(os.fspath(path), os.fspath(keys))

    # ---- vectors

    @property
    def has_vectors(self) -> bool:
        """True if an embedding model ranks memories as well."""
        return self._vectors is not None

    def wake_vectors(self) -> None:
        """Make the background look for memories without a vector, as every write does."""
        if self._vectors is not None:
            self._vectors.wake()

    def settle_vectors(self, timeout_s: float = 60.0) -> bool:
        """Wait until every memory has its vector; return False after the timeout. True without vectors.

        Raises what the embedder raised, though the background tries again.
        """
        return self._vectors is None or self._vectors.wait(timeout_s)

    def count_vectors(self, user_id: str | None = None) -> tuple[int, int]:
        """Return how many of the user's memories have a vector, and how many there are."""
        user = self._rows.user(user_id)
        return (0, 0) if user is None or self._vectors is None else self._vectors.counts(user)


def _open_vectors(
    store: MemoryStore, settings: VectorSettings | None, *, read_only: bool
) -> VectorRecall | None:
    if settings is None:
        return None
    # Not at the top: numpy is loaded only with vectors.
    from shepherd.memory.vectors import VectorRecall

    return VectorRecall(store, settings, read_only=read_only)


def _without_outdated(
    results: Iterable[SearchResult], former: Former, notes: dict[int, str], *, keeps: bool
) -> list[SearchResult]:
    """Return the results without those that only state a former value of a fact, unless `keeps`.

    Others that state one get a note of what is current.
    """
    kept = []
    for result in results:
        outdated = outdated_by(result, former)
        if outdated is not None:
            value, says_more = outdated
            if not says_more and not keeps:
                continue
            notes[result.id] = injection_format.note_of(value.fact, value.text)
        kept.append(result)
    return kept


def _set_and_list(
    connection: Connection, user_id: str, key: str, value: str, *, source: str, now: int, since: int
) -> None:
    """Set a fact by a tool call of a model, and list it as learned."""
    change = facts.set_value(connection, user_id, key, value, source=source, now=now, since=since)
    if change is not None:
        learned.note_change(connection, user_id, change, at=now)


def _restore_fact(
    connection: Connection, user_id: str, cleared: ClearedFact, terms: memories.TermIndex
) -> bool:
    return cleared.restore(connection, user_id, terms)


def _store_and_list(connection: Connection, user_id: str, new: NewMemory, terms: memories.TermIndex) -> int:
    """Store a memory by a tool call of a model, and list it as learned if it is new."""
    [(memory_id, is_new)] = terms.add(connection, user_id, [new])
    if is_new:
        learned.note_memory(connection, user_id, memory_id, new.question, new.answer, at=new.timestamp)
    return memory_id


def _may_exist(item_id: int) -> bool:
    """Return False for a number that no database can hold."""
    return 0 < item_id <= _LARGEST


def _whole(n: int) -> int:
    """Return a number of rows that either database takes: at least 0. Raises UsageError for half a row."""
    if not isinstance(n, int):
        raise UsageError(f"a number of rows, an offset or an id is a whole number, not a {type(n).__name__}")
    return min(max(n, 0), _LARGEST)


def _share(name: str, value: float) -> float:
    """Return the value; raises UsageError unless it is from 0 to 1."""
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name}: {value} is not between 0 and 1")
    return value
