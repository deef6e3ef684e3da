"""What of a turn is stored, in a real database, and that undoing it leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.memory import Memory, OpenJob
from shepherd.prompt import Exchange, Summary
from shepherd.prompt.summary import StoredSummary
from shepherd.turn.recorder import ConversationStore
from shepherd.types import Message

NOW = 1_700_000_000


class Learner:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.open_job = OpenJob("host/1/a", 3)
        self.calls: list[tuple[str, str]] = []

    def told(self, session_id: str, user_id: str | None = None) -> None:
        self.calls.append(("told", session_id))

    def release(self, session_id: str = "", user_id: str | None = None) -> None:
        self.calls.append(("release", session_id))


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve", clock=lambda: NOW) as opened:
        yield opened


def store_of(
    memory: Memory | None, *, writes: bool = True, archives: bool = True, learner: Learner | None = None
):
    return ConversationStore(memory, "steve", writes=writes, archives=archives, learner=learner)


def exchange(said: str, answer: str = "I see.", **more) -> Exchange:
    steps = [Message("assistant", "I look."), Message("tool", "found")]
    return Exchange(Message("user", said, **more), Message("assistant", answer), steps=steps)


STATEMENT = "My neighbour Paula keeps three hives of bees behind the old mill."


def learned_lines(memory: Memory) -> list[str]:
    return [line for job in memory.extraction.jobs() for line in job.lines]


def test_a_turn_is_stored_with_its_steps_and_learned_from(memory):
    learner = Learner()
    store, one = store_of(memory, learner=learner), exchange(STATEMENT)

    store.write(one, model="mini", archive=True, now=NOW)

    session = store.session_id
    assert [(m.role, m.raw) for m in memory.load_session(session)] == [
        ("user", STATEMENT), ("assistant", "I look."), ("tool", "found"), ("assistant", "I see."),
    ]  # fmt: skip
    assert memory.list_sessions()[0].model == "mini"
    assert 0 < one.user.id < one.steps[0].id < one.answer.id
    assert one.in_session
    assert learner.calls == [("told", session)]
    assert learned_lines(memory) == [STATEMENT]
    assert memory.get_memory(one.memory_id).question == STATEMENT
    store.write(exchange("And they sting."), model="mini", archive=False, now=NOW)
    assert store.session_id == session
    assert (len(memory.list_sessions()), memory.count_memories()) == (1, 1)
    store.release()
    assert learner.calls[-1] == ("release", session)


@pytest.mark.parametrize(
    ("said", "options", "archive"),
    [
        (STATEMENT, {}, False),
        (STATEMENT, {"archives": False}, True),
        ("What is a hive?", {}, True),
    ],
)
def test_only_statements_become_memories_where_that_is_on(memory, said, options, archive):
    one = exchange(said)

    store_of(memory, **options).write(one, model="mini", archive=archive, now=NOW)

    assert (one.memory_id, memory.count_memories()) == (None, 0)


@pytest.mark.parametrize(
    ("composed", "is_own"),
    [
        ("", True),
        (STATEMENT, True),
        (f"{STATEMENT}\n\n[attached: notes.md]\n```\ntext\n```", True),
        (f"Translate this: {STATEMENT}", False),
        (f"{STATEMENT}\n\nTranslate that.", True),
    ],
)
def test_nothing_is_learned_from_what_a_template_makes_material_of(memory, composed, is_own):
    learner = Learner()
    one = exchange(STATEMENT, composed=composed)

    store_of(memory, learner=learner).write(one, model="mini", archive=True, now=NOW)

    assert learned_lines(memory) == ([STATEMENT] if is_own else [])
    assert (one.memory_id is not None) == is_own


def test_undoing_a_turn_leaves_nothing_of_it_and_keeps_the_one_before(memory):
    store = store_of(memory)
    before, one = exchange("Hello there."), exchange(STATEMENT)
    for written in (before, one):
        store.write(written, model="mini", archive=True, now=NOW)

    store.undo(one)
    store.undo(one)

    assert (one.in_session, one.memory_id, memory.count_memories()) == (False, None, 0)
    assert [m.raw for m in memory.load_session(store.session_id)] == [
        "Hello there.",
        "I look.",
        "found",
        "I see.",
    ]
    store_of(None).undo(before)
    assert before.in_session


def test_a_memory_that_was_there_before_is_not_undone(memory):
    known = memory.store_memory(STATEMENT, "", timestamp=NOW - 9)
    store, one = store_of(memory), exchange(STATEMENT, "")

    store.write(one, model="mini", archive=True, now=NOW)
    store.undo(one)

    assert memory.get_memory(known) is not None


def test_what_leaves_the_window_is_archived_with_its_time(memory):
    store = store_of(memory)
    first, question, told = (
        exchange(STATEMENT, created_at=NOW - 50),
        exchange("Hm?"),
        exchange("We bought a red boat in May."),
    )
    for one in (first, question, told):
        store.write(one, model="mini", archive=False, now=NOW)
        assert store.can_archive(one)

    store.archive_all([first, told], [], NOW)

    assert {(one.question, one.timestamp) for one in memory.list_memories()} == {
        (STATEMENT, NOW - 50),
        ("We bought a red boat in May.", NOW),
    }
    assert not store.can_archive(exchange(STATEMENT))
    assert not store_of(memory, archives=False).can_archive(first)
    assert not store_of(memory, writes=False).can_archive(first)


def test_a_question_that_an_exchange_beside_it_answered_is_no_memory(memory):
    store = store_of(memory)
    told = exchange("We have a dog, his name is Pixel.")
    question, other = exchange("What's the dog called?"), exchange("What's the cat called?")
    for one in (question, other):
        one.answer.raw = "Pixel."

    store.archive_all([question, other], [told, question, other], NOW)

    assert [one.question for one in memory.list_memories()] == ["What's the cat called?"]


def test_a_summary_is_stored_with_the_last_message_that_it_replaces(memory):
    store = store_of(memory)
    assert store.read_summary(store.session_id) == StoredSummary()
    first, second, private = exchange("One."), exchange("Two."), exchange("Three.")
    for one in (first, second):
        store.write(one, model="mini", archive=False, now=NOW)
    summary = Summary(("They met.",))

    store.write_summary([private], summary)
    assert store.read_summary(store.session_id) == StoredSummary()
    store.write_summary([second, first, private], summary)

    assert store.read_summary(store.session_id) == StoredSummary(summary.public, second.answer.id)
    assert store_of(None).read_summary(store.session_id) == StoredSummary()


def test_without_writing_nobody_learns(memory):
    learner = Learner()

    for store in (store_of(memory, writes=False, learner=learner), store_of(None, learner=learner)):
        assert (store.writes, store.learner) == (False, None)
        store.release()
    assert learner.calls == []


@pytest.mark.parametrize(
    ("said", "options", "is_withheld"),
    [
        ("The gate code is 4711 until Friday.", {}, True),
        ("If it beeps, tell the sitter 6604 and then unset.", {}, True),
        ("If it beeps, tell the sitter 6604 and then unset.", {"archives": False}, False),
        ("Is 4711 the gate code?", {}, False),
        (STATEMENT, {}, False),
    ],
)
def test_statement_with_what_may_be_a_code_is_withheld_in_part(memory, said, options, is_withheld):
    assert store_of(memory, **options).withholds(exchange(said)) is is_withheld


def test_nothing_is_withheld_where_secrets_are_kept(tmp_path):
    with Memory(tmp_path / "all.db", user_id="steve", keeps_secrets=True) as memory:
        assert not store_of(memory).withholds(exchange("The gate code is 4711 until Friday."))
