"""max_db_size: the oldest go, no more than needed, from those who hold most; readers do not matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native.store import Connection
from shepherd.errors import StoreFullError, UsageError
from shepherd.memory import Memory
from shepherd.memory.pruning import FileEngine, holders, prune, take_some
from shepherd.memory.records import NewMemory
from shepherd.types import Message
from tests.examples import examples

MIB = 1 << 20
ANSWER = "answer number {0}, " + "a rather long sentence about all the many things there are " * 12


def fill(memory: Memory, n: int, user_id: str = "local", start: int = 0) -> list[int]:
    """Stores n memories of about a kilobyte, in order of time, a few at a time; their ids."""
    new = [
        NewMemory(f"question {i} of {user_id}?", ANSWER.format(i), 1_000_000 + i)
        for i in range(start, start + n)
    ]
    batches = (new[first : first + 10] for first in range(0, n, 10))
    return [memory_id for batch in batches for memory_id, _ in memory._store.add_memories(user_id, batch)]


def kept(memory: Memory, user_id: str = "local") -> list[int]:
    return sorted(record.id for record in memory.list_memories(user_id, limit=1_000_000))


@pytest.mark.parametrize(
    "text", ["", "G", "ten", "-5G", "1e9", "10X", "1M1", "nan", "1023K", "0", "1048575", "9" * 30, "٣G"]
)
def test_what_is_no_size_or_too_small_is_refused(text: str, path: Path) -> None:
    with pytest.raises(UsageError, match="max_db_size"):
        Memory(path, max_db_size=text)
    assert not path.exists()


def test_oldest_memories_go_and_no_more_than_needed(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        ids = fill(memory, 1300)

        left = kept(memory)
        used = memory.stats().used_bytes

        assert left == ids[-len(left) :]
        assert 0.9 * MIB < used <= MIB
        assert memory.check().problems == ()


def test_age_is_by_time_not_by_order_of_storing(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        for i in range(2000):
            memory.store_memory(f"question {i}?", ANSWER.format(i), timestamp=5_000 - i)
            if memory.count_memories() < i + 1:
                break

        # Stored last, but the oldest.
        assert memory.get_memory(kept(memory)[0]).question == "question 0?"  # type: ignore[union-attr]


def test_smaller_limit_is_reached_when_the_next_memory_is_stored(database: str) -> None:
    with Memory(database) as memory:
        ids = fill(memory, 3000)
        before = memory.stats().used_bytes
    assert before > 3 * MIB

    with Memory(database, max_db_size="2M") as memory:
        [last] = fill(memory, 1, start=3000)
        left = kept(memory)

        assert left == [*ids, last][-len(left) :]
        assert 1.9 * MIB < memory.stats().used_bytes <= 2 * MIB


def test_reader_that_holds_the_file_does_not_make_pruning_empty_the_table(path: Path) -> None:
    with Memory(path) as memory:
        fill(memory, 3000)
    reader = Connection(str(path), read_only=True)
    reader.execute("BEGIN")
    [(seen,)] = reader.execute("SELECT count(*) FROM context")

    with Memory(path, max_db_size="2M") as memory:
        fill(memory, 50, start=3000)

        # The file could not shrink, the log only grew; what counts is what is in use.
        assert path.stat().st_size > 3 * MIB
        assert memory.count_memories() > 1100
        assert 1.9 * MIB < memory.stats().used_bytes <= 2 * MIB
        assert reader.execute("SELECT count(*) FROM context") == [(seen,)]
    reader.close()


def test_pinned_memories_and_facts_stay(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        first = fill(memory, 20)
        for memory_id in first:
            memory.pin_memory(memory_id)
        for n in range(100):
            memory.set_fact(f"key{n}", f"value {n}")

        fill(memory, 1300, start=20)

        assert set(first) <= set(kept(memory))
        assert len(memory.get_all_facts()) == 100
        assert len(kept(memory)) < 1000


def test_limit_that_pinned_memories_exceed_costs_no_pinned_memory(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory(database) as memory:
        ids = fill(memory, 1500)
        for memory_id in ids:
            memory.pin_memory(memory_id)

    with Memory(database, max_db_size="1M") as memory:
        memory.set_fact("name", "Steve")

        assert kept(memory) == ids
        assert "max_db_size" in caplog.text


def test_huge_message_does_not_cost_every_memory(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        ids = fill(memory, 100)

        memory.append_message(memory.start_session(), Message("user", "x" * 10 * MIB))
        ids += fill(memory, 1, start=100)

        assert kept(memory) == ids


def test_huge_memory_is_refused_and_costs_none(database: str) -> None:
    large = "".join(f"{n:06} word{n} " for n in range(20_000))[: MIB // 4] + "ä"
    with Memory(database, max_db_size="1M") as memory:
        ids = fill(memory, 100)

        for store in (
            lambda: memory._store.add_memories("local", [NewMemory("What?", large * 8, 2_000_000)]),
            lambda: memory.store_memory("What?", large),
            lambda: memory.store_memory("What?", large, source="tool"),
            lambda: memory.import_memories([{"question": large, "answer": "this"}]),
            lambda: memory.edit_memory(ids[0], answer=large),
        ):
            with pytest.raises(StoreFullError, match="too large for max_db_size"):
                store()

        assert kept(memory) == ids
        ids += fill(memory, 1, start=100)
        assert kept(memory) == ids


def test_largest_memory_that_is_stored_stays(database: str) -> None:
    large = "".join(f"{n:06} word{n} " for n in range(20_000))[: MIB // 4 - 5]
    with Memory(database, max_db_size="1M") as memory:
        fill(memory, 10)
        [(memory_id, _)] = memory._store.add_memories("local", [NewMemory("What?", large, 2_000_000)])

        assert kept(memory)[-1] == memory_id
        assert [found.id for found in memory.search("word999")] == [memory_id]


def test_user_who_holds_little_loses_nothing_to_one_who_holds_much(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        small = fill(memory, 50, "anna")

        fill(memory, 1500, "bob", start=1000)

        assert kept(memory, "anna") == small
        assert 100 < len(kept(memory, "bob")) < 1000


def test_users_who_all_hold_much_end_with_equal_shares(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        for start in range(0, 600, 100):
            for user in ("anna", "bob", "carl"):
                fill(memory, 100, user, start=start)

        counts = [len(kept(memory, user)) for user in ("anna", "bob", "carl")]

        # A merge of the index frees pages at once: whoever stored last may be ahead by what they hold.
        assert max(counts) - min(counts) <= 30
        assert min(counts) > 50


def test_old_conversations_go_before_memories_but_never_the_latest(database: str) -> None:
    now = [1_000.0]
    with Memory(database, max_db_size="1M", clock=lambda: now[0]) as memory:
        ids = fill(memory, 100)
        for _ in range(60):
            now[0] += 1
            session = memory.start_session()
            for n in range(20):
                memory.append_message(session, Message("user", f"{n} " + ANSWER))

        sessions = memory.list_sessions(limit=100)

        assert kept(memory) == ids
        assert 1 < len(sessions) < 60
        assert sessions[0].id == session
        assert sessions[0].n_messages == 20
        assert memory.stats().used_bytes <= MIB
        assert memory.check().problems == ()


# ---- what holds for any users and any limit

USERS = ("anna", "bob", "carl")


@settings(max_examples=examples(10))
@given(
    st.lists(st.tuples(st.sampled_from(USERS), st.integers(1, 60)), min_size=1, max_size=6),
    st.integers(40, 400),
    st.integers(2, 50),
)
def test_any_pruning_takes_the_oldest_unpinned_of_those_above_their_share(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[str, int]], room_kib: int, pin_every: int
) -> None:
    path = tmp_path_factory.mktemp("pruning") / "memory.db"
    with Memory(path) as memory:
        limit = memory.stats().used_bytes + (room_kib << 10)  # what is less can never be reached
        stored: dict[str, list[int]] = {user: [] for user in USERS}
        for user, n in batches:
            lines = [
                {"question": f"question {i} of {user}?", "answer": ANSWER.format(i), "timestamp": i}
                for i in range(len(stored[user]), len(stored[user]) + n)
            ]
            memory.import_memories([*lines, {"type": "fact", "key": f"key{n}", "value": "v"}], user)
            stored[user] = kept(memory, user)
        pinned = {i for ids in stored.values() for i in ids[::pin_every]}
        for user in USERS:
            for memory_id in pinned.intersection(stored[user]):
                memory.pin_memory(memory_id, user_id=user)
        facts = {user: memory.get_all_facts(user) for user in USERS}
        before = {user: len(ids) for user, ids in stored.items()}

        prune(memory._store._database, limit)  # type: ignore[attr-defined]

        after = {user: kept(memory, user) for user in USERS}
        for user in USERS:
            gone = set(stored[user]) - set(after[user])
            assert not gone & pinned
            # By age: whatever is kept and not pinned is newer than whatever went.
            loose = [i for i in after[user] if i not in pinned]
            assert not gone or not loose or max(gone) < min(loose)
            # Nobody gave who held less than another who still could have given.
            for other in USERS:
                if gone and [i for i in after[other] if i not in pinned]:
                    assert len(after[other]) <= before[user]
            assert memory.get_all_facts(user) == facts[user]
        assert memory.check().problems == ()
        if any(i not in pinned for ids in after.values() for i in ids):
            assert memory.stats().used_bytes <= limit


def test_a_step_takes_at_most_half_of_what_its_user_holds_more(path: Path) -> None:
    with Memory(path) as memory:
        fill(memory, 100, "anna")
        fill(memory, 60, "steve")
        with memory._store._database.write() as connection:  # type: ignore[attr-defined]
            n_removed = take_some(connection, FileEngine(str(path)), 150_000, {}, set())
            left = [(holder.user_id, holder.n) for holder in holders(connection, {}, 2)]

    assert n_removed is not None
    assert 15 <= n_removed <= 20
    assert left == [("anna", 100 - n_removed), ("steve", 60)]


def test_only_conversation_of_a_user_is_never_pruned(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        session = memory.start_session()
        memory.append_message(session, Message("user", "Hello " * 1000))

        fill(memory, 1000)

        assert memory.count_memories() < 1000
        assert [message.raw for message in memory.load_session(session)] == ["Hello " * 1000]
