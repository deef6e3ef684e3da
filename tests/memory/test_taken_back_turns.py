"""What was made of a message goes with it: the memory of its turn, traces, the summary, and entities."""

from __future__ import annotations

from collections.abc import Callable

from shepherd.entities import EntityRegistry, SessionEntities
from shepherd.memory import Memory, Turn
from shepherd.prompt.summary import StoredSummary, Summary, SummaryStore
from shepherd.trace import Traces
from shepherd.types import Message

USER = "local"


def told(memory: Memory, clock: list[float], *texts: str) -> str:
    """Say each text in a new conversation, a minute apart, with a memory and a trace of its turn."""
    session = memory.start_session(USER)
    for number, text in enumerate(texts):
        clock[0] += 60
        ids = [m.id for m in memory.load_session(session, USER)]
        Traces(memory.transactions, USER).write(
            session,
            {f"history/turns/{i:06d}/turn_id": one for i, one in enumerate(ids)}
            | {"model": f"turn {number}"},
        )
        memory.append_message(session, Message("user", text), USER)
        memory.archive_turn(Turn(text, f"Answer {number}", clock[0], session), USER)
        memory.append_message(session, Message("assistant", f"Answer {number}"), USER)
    return session


def remembered(memory: Memory) -> list[tuple[str, str]]:
    return sorted((one.question, one.answer) for one in memory.list_memories(USER))


def open_with(database: str, clock: list[float]) -> Memory:
    return Memory(database, user_id=USER, clock=lambda: clock[0])


def test_the_memories_of_removed_turns_go_and_no_others(database: str) -> None:
    clock = [1000.0]
    with open_with(database, clock) as memory:
        told(memory, clock, "I have a boat in Kiel")
        session = told(
            memory,
            clock,
            "I have a cat",
            "I have a boat in Kiel",
            "I have a cat",
            "The key of Tom is under it",
        )
        [pinned] = [one for one in memory.list_memories(USER) if one.question.startswith("The key")]
        memory.pin_memory(pinned.id)

        memory.delete_messages(session, 3)

        assert remembered(memory) == [
            ("I have a boat in Kiel", "Answer 0"),
            ("I have a cat", "Answer 0"),
            ("The key of Tom is under it", "Answer 3"),
        ]
        assert [hit.answer for hit in memory.search("boat", user_id=USER)] == ["Answer 0"]
        assert memory.check().ok


def test_the_last_turn_takes_its_memory_along_though_a_value_in_it_is_covered(memory: Memory) -> None:
    session = memory.start_session(USER)
    memory.append_message(session, Message("user", "My locker is 4711-99"), USER)
    memory.archive_turn(Turn("My locker is 4711-99", "", None, session), USER)
    assert len(remembered(memory)) == 1

    memory.delete_last_turn(session, USER)

    assert remembered(memory) == []


def test_traces_from_the_removed_turn_on_go(database: str) -> None:
    clock = [1000.0]
    with open_with(database, clock) as memory:
        traces = Traces(memory.transactions, USER)

        def left(remove: Callable[[str], object]) -> int | None:
            session = told(memory, clock, "One thing", "Another thing", "A third thing")
            remove(session)
            return traces.last_turn(session)

        assert left(memory.delete_last_turn) == 1
        assert left(lambda session: memory.delete_messages(session, 3)) == 0
        assert left(lambda session: memory.delete_messages(session, 1)) is None
        # An answer alone is part of its turn.
        assert left(lambda session: memory.delete_messages(session, 4)) == 0


def test_traces_say_which_message_they_are_of(memory: Memory) -> None:
    """The window of a turn may have had none of the messages before it."""
    traces = Traces(memory.transactions, USER)
    session = memory.start_session(USER)
    for text in ("One thing", "Another thing", "A third thing"):
        message_id = memory.append_message(session, Message("user", text), USER)
        memory.append_message(session, Message("assistant", "Yes"), USER)
        traces.write(session, {"message_id": message_id, "model": text})

    memory.delete_messages(session, 3, USER)

    assert traces.last_turn(session) == 0


def test_a_summary_goes_with_a_message_that_it_is_made_of(database: str) -> None:
    clock = [1000.0]
    with open_with(database, clock) as memory:
        session = told(memory, clock, "One thing", "Another thing")
        _, answer, *_ = memory.load_session(session, USER)
        summaries = SummaryStore(memory.transactions, USER)

        summaries.save(session, StoredSummary(Summary(("of one thing",), 1), answer.id))
        memory.delete_messages(session, 3)
        assert summaries.load(session).summary.pieces == ("of one thing",)
        memory.delete_messages(session, 2)

        assert summaries.load(session) == StoredSummary()


def test_entities_of_a_removed_message_are_no_longer_stored(memory: Memory) -> None:
    session = memory.start_session(USER)
    memory.append_message(session, Message("user", "My sister Anna works at Acme."), USER)
    registry = EntityRegistry()
    registry.register("My sister Anna works at Acme.")
    stored = SessionEntities(memory.transactions, USER)
    stored.save(session, registry)
    assert len(stored.load(session))

    memory.delete_last_turn(session, USER)

    assert not len(stored.load(session))
