"""A client that sends its conversation bare gets what was appended to it back, byte for byte."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.memory import Memory
from shepherd.prompt.ledger import Ledger, ShownKnowledge, conversation_hashes
from shepherd.types import Injection, Message, ToolCall


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("ledger") / "memory.db", user_id="steve") as memory:
        yield memory


users = (f"user{n}" for n in count())


@pytest.fixture
def ledger(memory: Memory) -> Ledger:
    """Of a user who has no notes yet."""
    return Ledger(memory, next(users))


def bare(*texts: str) -> list[Message]:
    """User and assistant by turns."""
    return [Message("assistant" if i % 2 else "user", text) for i, text in enumerate(texts)]


def sent(ledger: Ledger, *texts: str, tail: str = "") -> list[str]:
    """One request whose newest message gets `tail`; what the model saw."""
    messages = bare(*texts)
    restored = ledger.restore(messages)
    restored.messages[-1].sent += tail
    ledger.record(restored.messages, restored)
    return [message.sent for message in restored.messages]


def test_earlier_messages_get_their_tails_back(ledger: Ledger) -> None:
    assert sent(ledger, "hi", tail="\n\n[facts: a=b]") == ["hi\n\n[facts: a=b]"]
    assert sent(ledger, "hi", "hello", "bye", tail="\n\n[x]") == ["hi\n\n[facts: a=b]", "hello", "bye\n\n[x]"]
    assert sent(ledger, "hi", "hello", "bye", "so long", "?") == [
        "hi\n\n[facts: a=b]", "hello", "bye\n\n[x]", "so long", "?",
    ]  # fmt: skip


def test_a_message_gets_its_time_and_the_parts_of_its_tail_back(ledger: Ledger) -> None:
    question = Message(
        "user", "hi", "hi\n\n[x]", Injection("\n\n[x]", parts=("chunk:1", "focus")), created_at=1234
    )
    ledger.record([question], ledger.restore([question]))

    first, _, last = ledger.restore(bare("hi", "hello", "bye")).messages

    assert (first.sent, first.created_at) == ("hi\n\n[x]", 1234)
    assert first.injected is not None
    assert (first.injected.tail, first.injected.parts) == ("\n\n[x]", ("chunk:1", "focus"))
    assert (last.sent, last.created_at, last.injected) == ("bye", 0, None)


def test_a_conversation_that_ends_with_an_answer_is_not_noted(ledger: Ledger) -> None:
    messages = bare("hi", "hello")
    ledger.record(messages, ledger.restore(messages))

    assert ledger.restore(messages).known == frozenset()


def test_long_tails_of_many_conversations_are_not_all_kept(ledger: Ledger) -> None:
    tracemalloc.start()
    try:
        for number in range(60):
            sent(ledger, f"hi {number}", tail=f"{number} " * 50_000)
            sent(ledger, f"hi {number}", "hello", "bye")

        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 8_000_000
    finally:
        tracemalloc.stop()


def test_messages_that_were_given_are_not_changed(ledger: Ledger) -> None:
    sent(ledger, "hi", tail=" tail")
    messages = bare("hi", "hello", "bye")

    ledger.restore(messages)

    assert [message.sent for message in messages] == ["hi", "hello", "bye"]


def test_edited_conversation_gets_nothing_from_the_edit_on(ledger: Ledger) -> None:
    sent(ledger, "hi", tail=" 1")
    sent(ledger, "hi", "hello", "bye", tail=" 2")

    assert sent(ledger, "hi", "HELLO", "bye", "x", "?") == ["hi 1", "HELLO", "bye", "x", "?"]
    assert sent(ledger, "Hi", "hello", "bye", "x", "?") == ["Hi", "hello", "bye", "x", "?"]


def test_each_branch_has_its_own_tails(ledger: Ledger) -> None:
    sent(ledger, "hi", tail=" 1")
    sent(ledger, "hi", "a", "left", tail=" L")
    sent(ledger, "hi", "a", "right", tail=" R")

    assert sent(ledger, "hi", "a", "left", "b", "?") == ["hi 1", "a", "left L", "b", "?"]
    assert sent(ledger, "hi", "a", "right", "b", "?") == ["hi 1", "a", "right R", "b", "?"]


def test_second_attempt_at_a_message_replaces_its_tail(ledger: Ledger) -> None:
    sent(ledger, "hi", tail=" old")
    sent(ledger, "hi", tail=" new")
    assert sent(ledger, "hi", "a", "?") == ["hi new", "a", "?"]

    sent(ledger, "hi")
    assert sent(ledger, "hi", "a", "?") == ["hi", "a", "?"]


def test_stripped_tails_do_not_come_back(ledger: Ledger) -> None:
    sent(ledger, "hi", tail=" 1")
    messages = bare("hi", "a", "bye")
    restored = ledger.restore(messages)
    restored.messages[0].sent = "hi"
    restored.messages[-1].sent = "bye 2"

    ledger.record(restored.messages, restored, stripped=[0])

    assert sent(ledger, "hi", "a", "bye", "b", "?") == ["hi", "a", "bye 2", "b", "?"]


def test_nodes_that_were_shown_with_a_message_stay_noted_with_it(ledger: Ledger) -> None:
    first, second = (ShownKnowledge(hubs=((n, f"node {n}", n),)) for n in (1, 2))
    restored = ledger.restore(bare("hi"))
    ledger.record(restored.messages, restored, shown=first)
    restored = ledger.restore(bare("hi", "a", "bye"))
    assert restored.shown == {0: first}
    # The first message is noted anew, without its tail, and the newest one for the first time.
    ledger.record(restored.messages, restored, stripped=[0], shown=second)

    assert ledger.restore(bare("hi", "a", "bye", "b", "?")).shown == {0: first, 2: second}


def test_the_second_message_may_be_the_first_that_is_left(ledger: Ledger) -> None:
    told = [Message("system", "Be brief."), *bare("1", "a", "2")]
    restored = ledger.restore(told)
    ledger.record(restored.messages, restored, n_left=1)
    again = ledger.restore(told)
    assert again.n_left == 1
    ledger.record(again.messages, again, stripped=[1])

    assert ledger.restore(told).n_left == 1


def test_turns_that_left_leave_at_the_same_place_again(ledger: Ledger) -> None:
    texts = ["1", "a", "2", "b", "3", "c", "4"]
    sent(ledger, *texts[:5], tail=" three")
    restored = ledger.restore(bare(*texts))
    assert restored.n_left == 0

    ledger.record(restored.messages, restored, n_left=4)

    again = ledger.restore(bare(*texts, "d", "5"))
    assert again.n_left == 4
    assert again.messages[4].sent == "3 three"
    ledger.record(again.messages, again)
    assert ledger.restore(bare(*texts, "d", "5", "e", "6")).n_left == 4
    assert ledger.restore(bare("1", "a", "2", "x", "3", "c", "4")).n_left == 0


def test_everything_but_the_newest_may_have_left(ledger: Ledger) -> None:
    restored = ledger.restore(bare("1", "a", "2"))
    restored.messages[-1].sent = "2 tail"
    ledger.record(restored.messages, restored, n_left=2)

    again = ledger.restore(bare("1", "a", "2", "b", "3"))

    assert (again.n_left, again.messages[2].sent) == (2, "2 tail")


def test_other_users_get_nothing(memory: Memory) -> None:
    mine, theirs = Ledger(memory, next(users)), Ledger(memory, next(users))
    sent(mine, "hi", tail=" secret")

    assert sent(theirs, "hi", "a", "?") == ["hi", "a", "?"]


def test_a_memory_that_fails_costs_the_notes_and_not_the_request(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.db", user_id="steve")
    ledger = Ledger(memory, "steve")
    memory.close()

    assert sent(ledger, "hi", tail=" 1") == ["hi 1"]
    assert sent(ledger, "hi", "a", "?") == ["hi", "a", "?"]


def test_tools_and_roles_are_part_of_the_conversation() -> None:
    call = ToolCall("id", "add", "{}")
    variants = [
        [Message("user", "a")],
        [Message("system", "a")],
        [Message("user", "")],
        [Message("assistant", "", tool_calls=(call,))],
        [Message("assistant", "", tool_calls=(ToolCall("id", "add", '{"a":1}'),))],
        [Message("assistant", "idadd{}")],
        [Message("tool", "", tool_call_id="id")],
        [Message("tool", "id")],
    ]

    assert len({conversation_hashes(messages)[-1] for messages in variants}) == len(variants)


def test_tail_is_no_part_of_the_hash() -> None:
    assert conversation_hashes([Message("user", "a", "a tail")]) == conversation_hashes(
        [Message("user", "a")]
    )


TEXTS = st.sampled_from(["", "a", "b", "hi", "é", "\ud800", "line\nbreak", "x" * 50])
TAILS = st.sampled_from(["", "\n\n[facts: a=b]", " t\x00", "\udcff", "\n\n[context: User: q\nAssistant: a]"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.tuples(
            st.integers(0, 6),  # turns of the conversation before that are kept
            st.lists(st.tuples(TEXTS, TEXTS), max_size=2),  # turns that the client made up or edited
            TEXTS,
            TAILS,
            st.booleans(),  # whether turns leave the window
            st.booleans(),  # whether tails are stripped
        ),
        max_size=12,
    )
)
def test_what_comes_back_is_what_was_sent_whatever_the_client_does(memory: Memory, requests) -> None:
    ledger = Ledger(memory, next(users))
    tails: dict[tuple, str] = {}
    firsts: set[tuple] = set()
    turns: list[tuple[str, str]] = []
    for kept, others, text, tail, leaves, strips in requests:
        turns = turns[:kept] + others
        texts = [part for turn in turns for part in turn] + [text]
        messages = bare(*texts)

        restored = ledger.restore(messages)

        prefixes = [tuple(texts[: i + 1]) for i in range(len(texts))]
        for i, message in enumerate(restored.messages):
            is_earlier_user = i % 2 == 0 and i < len(texts) - 1
            assert message.sent == texts[i] + (tails.get(prefixes[i], "") if is_earlier_user else "")
            assert message.raw == texts[i]
        known = [i for i in range(0, len(texts) - 1, 2) if prefixes[i] in firsts]
        assert restored.n_left == max(known, default=0)

        stripped = range(0, len(texts) - 1, 2) if strips else ()
        for i in stripped:
            restored.messages[i].sent = texts[i]
            tails.pop(prefixes[i], None)
        restored.messages[-1].sent += tail
        n_left = len(texts) - 1 if leaves and len(texts) > 1 else 0
        ledger.record(restored.messages, restored, n_left=n_left, stripped=stripped)
        tails[prefixes[-1]] = tail
        firsts.discard(prefixes[-1])
        if n_left:
            firsts.add(prefixes[n_left])
        if strips:  # a note that is rewritten keeps the newest cut alone
            firsts -= {prefixes[i] for i in stripped if i not in (restored.n_left, n_left)}
        turns = [*turns, (text, "answer")]


def test_a_message_with_documents_is_known_again_by_what_the_model_read():
    asked = Message("user", "What is it?", composed="What is it?\n\n[attached: a]\n```\nSheep\n```")
    again = Message("user", asked.composed)

    assert conversation_hashes([asked]) == conversation_hashes([again])
    assert conversation_hashes([asked]) != conversation_hashes([Message("user", "What is it?")])
