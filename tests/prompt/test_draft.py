"""What a draft of a prompt knows of the messages that left it, and of tails that were stripped."""

from __future__ import annotations

import pytest

from shepherd.config import Config
from shepherd.prompt import take_snapshot
from shepherd.prompt.draft import Draft
from shepherd.prompt.exchanges import Exchange
from shepherd.types import Fact, Injection, Message

SNAPSHOT = take_snapshot(
    Config(system_prompt="Be brief."), memory=False, knowledge=None, window_tokens=999, count=len
)
TAIL = Injection("[now]", (Fact("city", "Ulm", 0, 0),))


def message(role: str, text: str, tail: str = "") -> Message:
    return Message(role, text, sent=text + tail, injected=TAIL if tail else None)  # type: ignore[arg-type]


@pytest.fixture
def draft() -> Draft:
    history = [
        message("user", "one", "[a]"), message("assistant", "1"), message("user", "two", "[b]"),
        message("assistant", "2"),
    ]  # fmt: skip
    return Draft(message("user", "three", "[now]"), SNAPSHOT, history, injection=TAIL)


def test_evicted_messages_leave_the_prompt_and_are_counted(draft: Draft) -> None:
    one, answer, *rest = draft.history
    exchanges = [Exchange(one, answer, steps=[], key="a"), Exchange(rest[0], rest[1], steps=[], key="b")]
    assert not draft.is_outdated

    draft.evict([one, answer])

    assert draft.history == rest
    assert draft.leaving == [one, answer]
    assert (draft.evicted_turns, draft.n_removed) == (1, (2, 0))
    assert draft.evicted(exchanges) == exchanges[:1]
    assert draft.is_outdated
    draft.planned()
    assert not draft.is_outdated
    draft.evict([rest[1]])
    assert draft.is_outdated
    assert draft.evicted_turns == 1


def test_stripped_tails_come_back_unless_the_turn_has_ended_well(draft: Draft) -> None:
    one, two = draft.history[0], draft.history[2]
    one.tokens = 7

    draft.strip([one])
    assert (one.sent, two.sent, draft.stripped, draft.n_removed) == ("one", "two[b]", [one], (0, 1))
    assert draft.is_outdated
    draft.restore_tails()
    assert (one.sent, one.tokens, draft.stripped) == ("one[a]", 7, [])
    draft.strip([one, two])
    draft.commit_stripped()
    draft.restore_tails()
    assert (one.sent, two.sent) == ("one", "two")


def test_the_tail_of_the_message_can_be_dropped(draft: Draft) -> None:
    draft.drop_tail()

    assert (draft.message.sent, draft.message.injected, draft.injection) == ("three", None, Injection())


def test_notes_are_taken_once(draft: Draft) -> None:
    draft.notes += [("a", ""), ("b", "do")]

    assert list(draft.take_notes()) == [("a", ""), ("b", "do")]
    assert list(draft.take_notes()) == []
