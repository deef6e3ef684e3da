"""What a stateless request makes of its messages, and how its turn is stored: without a model or a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from shepherd.config import Config
from shepherd.errors import StoreError
from shepherd.memory import Memory, OpenJob, SessionMark
from shepherd.prompt import Compaction, Exchange, take_snapshot
from shepherd.prompt.compaction import PendingSummary
from shepherd.prompt.draft import Draft
from shepherd.prompt.ledger import Ledger, Restored, conversation_hashes
from shepherd.server.chat import ChatRequest
from shepherd.server.stateless import (
    ClientHistory,
    FinishedTurn,
    Plans,
    RequestPlanner,
    RequestStore,
    Retries,
)
from shepherd.types import Message, ToolCall, TurnStats

STATEMENT = "My boat is a ketch called Nora."
EARLIER = "A ketch has two masts, of which the one behind, the mizzen, is shorter and before the rudder." * 3
LATER = EARLIER.replace("A ketch", "Nora, as a ketch,")
CALLS = (ToolCall("c1", "look", "{}"),)
SNAPSHOT = take_snapshot(
    Config(system_prompt="Be brief."), memory=False, knowledge=None, window_tokens=4096, count=len
)
TALK = [
    Message("system", "Speak French."),
    Message("system", "Be kind."),
    Message("user", "one"),
    Message("assistant", "1"),
    Message("system", "Now be quick."),
    Message("user", "two"),
    Message("assistant", "2"),
    Message("user", "three"),
]


def begun(messages: list[Message] = TALK, **restored: Any) -> ClientHistory:
    given = {"n_left": 0, "known": frozenset(), **restored}
    return ClientHistory.begin(Restored([message.copy() for message in messages], **given))


def said(messages: list[Message]) -> list[str]:
    return [message.raw for message in messages]


# ---- the history


def test_the_newest_message_is_a_copy_with_the_present_time():
    restored = Restored([Message("user", "hi", created_at=5)], 0, frozenset())
    before = int(time.time())
    history = ClientHistory.begin(restored)

    assert history.newest is not restored.messages[0]
    assert history.newest.raw == "hi"
    assert before <= history.newest.created_at <= time.time()
    assert restored.messages[0].created_at == 5
    assert len(restored.messages) == 1


def test_the_clients_instructions_are_the_system_messages_at_the_beginning():
    assert begun().n_instructions == 2
    assert begun().instructions == "Speak French.\n\nBe kind."
    assert begun(TALK[2:]).n_instructions == 0
    assert begun(TALK[2:]).instructions == ""
    assert begun(TALK[:2]).n_instructions == 2


@pytest.mark.parametrize(
    ("n_left", "kept"),
    [
        (0, ["one", "1", "Now be quick.", "two", "2"]),
        (3, ["1", "Now be quick.", "two", "2"]),
        (5, ["Now be quick.", "two", "2"]),
        (7, ["Now be quick."]),
    ],
)
def test_what_left_the_window_stays_out_but_for_system_messages(n_left, kept):
    history = begun(n_left=n_left)
    draft = history.draft(SNAPSHOT)

    assert said(draft.history) == kept
    assert draft.message is history.newest
    assert draft.snapshot is SNAPSHOT
    assert not draft.private
    assert said([message for _, message in history.evicted(draft)]) == [
        message for message in ("one", "1", "two", "2") if message not in kept
    ]
    assert [history.messages[i].raw for i, _ in history.evicted(draft)] == [
        message.raw for _, message in history.evicted(draft)
    ]
    assert history.evicted_turns(draft) == sum(word not in kept for word in ("one", "two"))
    first = history.messages[history.first_kept(draft)].raw
    assert first == next((word for word in kept if word != "Now be quick."), "three")


def test_a_result_of_a_tool_is_answered_without_a_plan():
    assert begun([Message("user", "hi"), Message("tool", "42")]).draft(SNAPSHOT).private


def test_exchanges_have_the_key_of_their_last_message():
    messages = [
        Message("user", "one"), Message("assistant", ""), Message("tool", "42"), Message("assistant", "1"),
        Message("user", "two"), Message("assistant", "2"), Message("user", "three"),
    ]  # fmt: skip
    history = begun(messages)
    keys = [f"key{i}" for i in range(len(messages))]

    first, second = history.exchanges(history.draft(SNAPSHOT), keys)

    assert (first.user.raw, said(list(first.steps)), first.answer.raw) == ("one", ["", "42"], "1")
    assert (second.user.raw, list(second.steps), second.answer.raw) == ("two", [], "2")
    assert (first.key, second.key) == ("key3", "key5")


def test_an_answer_without_a_question_is_an_exchange_too():
    history = begun([Message("assistant", "Welcome!"), Message("user", "hi")])

    [only] = history.exchanges(history.draft(SNAPSHOT), ["a", "b"])

    assert (only.user.raw, only.answer.raw, only.key) == ("", "Welcome!", "a")


def test_messages_that_lost_their_tails_are_named_by_their_places():
    history = begun()
    draft = history.draft(SNAPSHOT)
    draft.strip([history.messages[2], history.messages[5]])

    assert history.stripped(draft) == {2, 5}


# ---- storing a turn


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="nobody-by-default") as memory:
        yield memory


@pytest.fixture
def store(memory) -> RequestStore:
    return RequestStore(memory, Config(), None)


def finished(
    messages: list[Message],
    answer: str = "An answer.",
    *,
    change: Callable[[Draft], None] = lambda draft: None,
    restored: Restored | None = None,
    **fields: Any,
) -> FinishedTurn:
    history = ClientHistory.begin(restored or Restored(list(messages), 0, frozenset()))
    draft = history.draft(SNAPSHOT)
    change(draft)
    given = {"last_text": answer, "is_whole": True, "model_name": "tiny", **fields}
    return FinishedTurn(
        "steve",
        draft,
        history,
        Message("assistant", answer),
        None,
        stats=TurnStats(),
        mark=SessionMark(),
        **given,
    )


def write(store: RequestStore, turn: FinishedTurn) -> str:
    """Store a turn that begins now; return the id of its conversation."""
    mark = store.mark(turn.history, turn.user_id, turn.session_name)
    return store.write(replace(turn, mark=mark)).session


def stored(memory: Memory, session: str) -> list[str]:
    return said(memory.load_session(session, user_id="steve"))


def test_a_turn_is_stored_in_a_conversation_of_its_user(store, memory):
    session = write(store, finished([Message("user", "Which boat is best?")], "A ketch."))

    assert stored(memory, session) == ["Which boat is best?", "A ketch."]
    [listed] = memory.list_sessions("steve")
    assert listed.id == session
    assert memory.list_sessions("nobody-by-default") == []


def test_the_next_turn_joins_the_conversation_that_the_ledger_knows(store, memory):
    talk = [Message("user", "Which boat is best?")]
    first = write(store, finished(talk, "A ketch."))
    talk += [Message("assistant", "A ketch."), Message("user", "Why?")]
    restored = store.restore(tuple(talk), "steve", conversation_hashes(talk))
    second = write(store, finished(talk, "It is easy.", restored=restored))

    assert restored.session == first == second
    assert stored(memory, first) == ["Which boat is best?", "A ketch.", "Why?", "It is easy."]


def test_the_same_message_within_ten_minutes_is_a_retry_and_its_answer_replaces_the_earlier_one(
    store, memory, monkeypatch
):
    def ask(answer: str, **fields: Any) -> str:
        return write(store, finished([Message("user", "Which boat is best?")], answer, **fields))

    first, retried = ask("A ketch."), ask("A yawl.")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 500)
    later = ask("A sloop.")
    monkeypatch.setattr(time, "monotonic", lambda: now + 700)
    new = ask("A cutter.")

    assert first == retried == later != new
    assert stored(memory, first) == ["Which boat is best?", "A sloop."]
    assert stored(memory, new) == ["Which boat is best?", "A cutter."]


def test_a_retry_replaces_the_steps_of_tools_too_and_also_after_the_result_of_a_tool(store, memory):
    def look(draft: Draft) -> None:
        draft.steps += [Message("assistant", "I look."), Message("tool", "42")]

    def ask(answer: str, change: Callable[[Draft], None] = lambda draft: None) -> str:
        return write(store, finished([Message("user", "Look!")], answer, change=change))

    def go_on(answer: str) -> None:
        talk = [Message("user", "Look!"), Message("assistant", "I look once more."), Message("tool", "43")]
        restored = store.restore(tuple(talk), "steve", conversation_hashes(talk))
        write(store, finished(talk, answer, restored=restored))

    session = ask("Found.", look)
    ask("I look once more.")
    go_on("43.")
    go_on("It is 43.")
    assert stored(memory, session) == ["Look!", "I look once more.", "It is 43."]
    assert ask("Nothing there.") == session
    assert stored(memory, session) == ["Look!", "Nothing there."]
    calls = replace(finished([Message("user", "Look!")]), answer=Message("assistant", "", tool_calls=CALLS))
    write(store, calls)
    assert stored(memory, session) == ["Look!"]


def test_a_retry_without_an_answer_keeps_the_earlier_one(store, memory):
    session = write(store, finished([Message("user", "Which boat is best?")], "A ketch."))

    assert write(store, finished([Message("user", "Which boat is best?")], "")) == session
    assert stored(memory, session) == ["Which boat is best?", "A ketch."]


@pytest.mark.parametrize(
    ("earlier", "is_stopped", "kept"),
    [("A ketch.", False, ["A ketch."]), ("A ketch.", True, ["A ya"]), ("", False, ["A ya"])],
)
def test_an_answer_that_was_cut_off_replaces_an_earlier_one_only_if_the_user_stopped_it(
    store, memory, earlier, is_stopped, kept
):
    session = write(store, finished([Message("user", "Which boat is best?")], earlier))
    cut = finished([Message("user", "Which boat is best?")], "A ya", is_whole=False, is_stopped=is_stopped)

    assert write(store, cut) == session
    assert stored(memory, session) == ["Which boat is best?", *kept]


def test_a_retry_with_another_model_replaces_the_answer_too(memory):
    retries = Retries()
    one, other = (RequestStore(memory, Config(), None, retries) for _ in range(2))
    session = write(one, finished([Message("user", "Which boat is best?")], "A ketch."))

    assert write(other, finished([Message("user", "Which boat is best?")], "A yawl.")) == session
    assert stored(memory, session) == ["Which boat is best?", "A yawl."]


def test_a_result_whose_question_was_never_stored_begins_one_conversation_however_often_it_is_sent(
    store, memory
):
    talk = [Message("user", "Look!"), Message("assistant", "", tool_calls=CALLS), Message("tool", "42")]

    def ask(talk: list[Message], answer: str) -> str:
        restored = store.restore(tuple(talk), "steve", conversation_hashes(talk))
        return write(store, finished(talk, answer, restored=restored))

    session = ask(talk, "42.")
    assert ask(talk, "It is 42.") == session
    assert ask([*talk, Message("assistant", "It is 42."), Message("user", "Sure?")], "Yes.") == session
    assert stored(memory, session) == ["It is 42.", "Sure?", "Yes."]
    memory.clear_session(session, "steve")
    assert ask(talk, "42.") != session


@pytest.mark.parametrize("goes_on", ["before", "meanwhile"])
def test_the_beginning_of_a_conversation_that_has_gone_on_begins_another_one(store, memory, goes_on):
    def go_on(answer: str = "A ketch.") -> str:
        talk = [Message("user", "Hello"), Message("assistant", answer), Message("user", "Why?")]
        restored = store.restore(tuple(talk), "steve", conversation_hashes(talk))
        return write(store, finished(talk, "So.", restored=restored))

    first = write(store, finished([Message("user", "Hello")], "A ketch."))
    if goes_on == "before":
        go_on()
    again = finished([Message("user", "Hello")], "A yawl.")
    again = replace(again, mark=store.mark(again.history, "steve", ""))
    if goes_on == "meanwhile":
        go_on()
    second = store.write(again).session
    assert go_on("A yawl.") == second != first

    assert stored(memory, first) == ["Hello", "A ketch.", "Why?", "So."]
    assert stored(memory, second) == ["Hello", "A yawl.", "Why?", "So."]


@pytest.mark.parametrize("is_first", [True, False])
def test_the_same_messages_twice_at_once_leave_the_answer_that_was_made_last(store, memory, is_first):
    def begin(answer: str) -> FinishedTurn:
        turn = finished([Message("user", "Which boat is best?")], answer)
        return replace(turn, mark=store.mark(turn.history, "steve", ""))

    session = "" if is_first else store.write(begin("A ketch.")).session
    yawl, sloop, cutter = [begin("A yawl."), begin("A sloop."), begin("A cutter.")]
    session = session or store.write(yawl).session
    assert [store.write(turn).session for turn in (yawl, sloop)] == [session, session]

    assert stored(memory, session) == ["Which boat is best?", "A sloop."]
    memory.clear_session(session, "steve")
    assert store.write(cutter).is_deleted
    assert memory.list_sessions("steve") == []


@pytest.mark.parametrize(
    ("how", "shown", "remembered"),
    [
        ({"is_whole": True}, LATER, LATER),
        ({"is_whole": False}, EARLIER, EARLIER),
        ({"is_whole": False, "is_stopped": True}, LATER, ""),
    ],
    ids=["whole", "cut", "stopped"],
)
def test_the_memory_of_a_turn_has_the_answer_that_is_shown_if_that_is_whole(
    store, memory, how, shown, remembered
):
    session = write(store, finished([Message("user", STATEMENT)], EARLIER))
    write(store, finished([Message("user", STATEMENT)], LATER, **how))

    [found] = memory.list_memories(user_id="steve")
    assert (found.question, found.answer) == (STATEMENT, remembered)
    assert stored(memory, session) == [STATEMENT, shown]


def test_a_named_conversation_can_say_the_same_again(store, memory):
    first = write(store, finished([Message("user", "Go on.")], "Yes.", session_name="talk"))
    restored = store.restore((Message("user", "Go on."),), "steve", ["x"], "talk")
    second = write(
        store, finished([Message("user", "Go on.")], "Done.", session_name="talk", restored=restored)
    )
    unknown = store.restore((Message("user", "Go on."),), "steve", ["x"], "other")

    assert restored.session == first == second
    assert stored(memory, first) == ["Go on.", "Yes.", "Go on.", "Done."]
    assert unknown.session == ""
    assert memory.find_session("talk", "steve") == first


def test_steps_are_stored_before_the_last_text_and_an_empty_answer_is_not(store, memory):
    def with_step(draft: Draft) -> None:
        draft.steps.append(Message("assistant", "I look."))

    session = write(
        store, finished([Message("user", "Look!")], "I look. Found.", last_text="Found.", change=with_step)
    )
    empty = write(store, finished([Message("user", "Look again!")], ""))
    thinking = replace(finished([Message("user", "Think!")]), answer=Message("assistant", "", thought="Hm."))
    thought = write(store, thinking)

    assert stored(memory, session) == ["Look!", "I look.", "Found."]
    assert stored(memory, empty) == ["Look again!"]
    assert [message.thought for message in memory.load_session(thought, "steve")] == ["", "Hm."]


def test_a_result_of_a_tool_is_no_message_of_the_user(store, memory):
    messages = [Message("user", "Look!"), Message("assistant", "I look."), Message("tool", "42")]

    session = write(store, finished(messages, "Found."))

    assert stored(memory, session) == ["Found."]


@pytest.mark.parametrize(
    ("settings", "fields", "n"),
    [
        ({}, {}, 1),
        ({"archive_turns": False}, {}, 0),
        ({}, {"is_whole": False}, 0),
        ({}, {"answer": "  "}, 0),
    ],
)
def test_a_statement_with_a_whole_answer_becomes_a_memory(memory, settings, fields, n):
    write(RequestStore(memory, Config(**settings), None), finished([Message("user", STATEMENT)], **fields))

    assert memory.count_memories("steve") == n
    assert memory.count_memories("nobody-by-default") == 0


def test_a_question_becomes_none_and_what_left_the_window_does_once(store, memory):
    talk = [
        Message("user", STATEMENT), Message("assistant", "Nice."),
        Message("user", "Which day is best for sailing?"),
    ]  # fmt: skip

    def leave(draft: Draft) -> None:
        draft.evict(draft.history[:2])

    write(store, finished(talk[2:]))
    assert memory.count_memories("steve") == 0
    write(store, finished(talk, change=leave))
    [found] = memory.list_memories(user_id="steve")
    assert found.question == STATEMENT
    # In the next request they are known to have left.
    memory.clear_memory(STATEMENT, "steve")
    write(store, finished(talk, restored=Restored(list(talk), 2, frozenset())))
    assert memory.count_memories("steve") == 0


def test_where_the_window_begins_is_noted(store, memory):
    talk = list(TALK)

    def leave(draft: Draft) -> None:
        draft.evict(draft.history[:2])

    write(store, finished(talk, change=leave))
    again = Ledger(memory, "steve").restore([*talk, Message("assistant", "3"), Message("user", "four")])
    whole = Ledger(memory, "ben").restore(talk)

    assert again.n_left == 5
    assert whole.n_left == 0


class Worker:
    """Takes note of what it is told of; messages are added to its job."""

    open_job = OpenJob("worker", 1)

    def __init__(self) -> None:
        self.told_of: list[tuple[str, str]] = []

    def told(self, session: str, user: str) -> None:
        self.told_of.append((session, user))


def test_what_the_user_said_is_told_to_the_worker(memory):
    worker = Worker()
    session = write(RequestStore(memory, Config(), worker), finished([Message("user", STATEMENT)]))

    assert worker.told_of == [(session, "steve")]
    job = memory.extraction.claim("worker", "steve")
    assert job is not None
    assert len(job.message_ids) == 1


def test_a_failing_memory_costs_no_answer(store, memory, monkeypatch, caplog):
    def fail(*arguments: Any, **more: Any) -> str:
        raise StoreError("the disk is full")

    monkeypatch.setattr(memory, "append_message", fail)
    failed = store.write(finished([Message("user", STATEMENT)]))
    monkeypatch.setattr(memory, "find_session", fail)
    restored = store.restore((Message("user", "hi"),), "steve", ["x"], "talk")

    assert failed.session
    assert not failed.is_stored
    assert restored.session == ""
    assert memory.count_memories("steve") == 0
    assert [record.getMessage() for record in caplog.records] == [
        "storing the turn failed: the disk is full",
        "looking up the conversation failed: the disk is full",
    ]


# ---- what is planned for the next request


class Noting(Compaction):
    """Notes which exchanges may be summed up; a summary of the first of them is pending then."""

    def prepare(self, draft: Draft, exchanges: Sequence[Exchange], budget: Any) -> None:
        self.offered = [exchange.user.raw for exchange in exchanges]
        self.pending = PendingSummary(None, list(exchanges[:2]), False)  # type: ignore[arg-type]


def test_turns_that_left_are_not_summed_up_and_a_summary_in_preparation_is_found_again(memory):
    plans = Plans(memory, Config(), tells_private=True, summarizer=object())  # type: ignore[arg-type]
    talk = [
        Message("user", "one"), Message("assistant", "1"), Message("user", "two"),
        Message("assistant", "2"), Message("user", "three"),
    ]  # fmt: skip
    history = begun(talk)
    draft = history.draft(SNAPSHOT)
    exchanges = history.exchanges(draft, ["k0", "k1", "k2", "k3", "k4"])
    draft.evict(draft.history[:2])
    compaction, answer = Noting(verbatim=2), Message("assistant", "3")
    planned = RequestPlanner(
        draft, None, None, history.restored, compaction, exchanges, lambda summary: SNAPSHOT
    )  # type: ignore[arg-type]

    plans.ended(planned, "steve", answer, "k5")

    assert compaction.offered == ["two", "three"]
    assert compaction.pending.exchanges[-1].key == "k5"
    again = [Exchange(Message("user", "x"), answer, key=key) for key in ("k1", "k5")]
    assert plans._pending_of("steve", again) is compaction.pending
    assert plans._pending_of("ben", again) is None
    assert plans._pending_of("steve", again[:1]) is None
    without = Plans(memory, Config(), tells_private=True)
    without.ended(planned, "steve", answer, "k5")
    assert without._pending_of("steve", again) is None


@pytest.mark.parametrize(
    ("user", "uses_memory", "has_memory", "injects", "knows", "explains"),
    [
        ("steve", True, True, True, True, True),
        ("steve", True, True, False, True, False),
        ("steve", False, True, True, False, False),
        ("", True, True, True, False, False),
        ("steve", True, False, True, False, False),
    ],
)
def test_knowledge_and_recall_are_for_users_with_a_memory(
    memory, user, uses_memory, has_memory, injects, knows, explains
):
    plans = Plans(memory if has_memory else None, Config(rag_context_injection=injects), tells_private=True)
    request = ChatRequest((Message("user", "hi"),), user, uses_memory=uses_memory)

    assert (plans._knowledge(request) is not None) is knows
    assert plans._explains(request) is explains


def test_a_plan_is_quick_below_two_milliseconds_and_private_ones_do_not_count(memory):
    plans = Plans(memory, Config(), tells_private=True)
    draft = begun().draft(SNAPSHOT)
    assert not plans.is_quick("steve")
    plans.record_cost("steve", draft, 0.0019)
    assert plans.is_quick("steve")
    assert not plans.is_quick("ben")
    plans.record_cost("steve", draft, 0.002)
    assert not plans.is_quick("steve")
    draft.private = True
    plans.record_cost("steve", draft, 0.001)
    assert not plans.is_quick("steve")
