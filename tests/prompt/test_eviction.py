"""When the window is full the oldest whole turns leave, many at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.prompt.exchanges import turns
from shepherd.prompt.window_budget import LOW_WATER, evict, output_reserve
from shepherd.types import Message
from tests.examples import examples

ROLES = st.sampled_from(["user", "assistant", "assistant", "tool"])
CONVERSATIONS = st.tuples(
    st.lists(st.just("system"), max_size=2), st.lists(ROLES, max_size=30), st.just(["user"])
).map(lambda parts: [Message(role, "x") for part in parts for role in part])


def messages(*roles: str) -> list[Message]:
    letters = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    return [Message(letters[role], "x") for role in "".join(roles)]


def test_a_turn_is_what_follows_a_user_message() -> None:
    assert turns(messages("s", "ua", "uatata", "u")) == [[1, 2], [3, 4, 5, 6, 7, 8], [9]]


def test_messages_that_the_user_sent_at_once_are_one_turn() -> None:
    assert turns(messages("s", "uua", "uu")) == [[1, 2, 3], [4, 5]]


def test_a_greeting_before_the_first_user_message_is_a_turn() -> None:
    assert turns(messages("a", "ua", "u")) == [[0], [1, 2], [3]]


def test_system_messages_belong_to_no_turn() -> None:
    assert turns(messages("s", "ua", "s", "u")) == [[1, 2], [4]]


def test_nothing_leaves_while_there_is_room() -> None:
    assert evict(messages("suauau"), [10] * 6, window_tokens=80, max_tokens=20) == []


def test_oldest_turns_leave_down_to_the_low_water_mark() -> None:
    conversation = messages("s", "ua" * 10, "u")

    leaving = evict(conversation, [10] * 22, window_tokens=220, max_tokens=20)

    # Room of the history: 220 - 20 (system, newest) - 20 (answer) = 180; 60 % of it are 108: five turns stay.
    assert leaving == list(range(1, 11))


def test_tool_calls_leave_with_their_results() -> None:
    conversation = messages("s", "uata", "ua", "u")

    leaving = evict(conversation, [10] * 8, window_tokens=80, max_tokens=10)

    assert leaving == [1, 2, 3, 4]


def test_a_message_that_cannot_fit_evicts_nothing() -> None:
    assert evict(messages("suau"), [10, 10, 10, 1000], window_tokens=500, max_tokens=10) == []


def test_the_answers_room_shrinks_for_a_long_message() -> None:
    assert output_reserve(1000, 1024, 100) == 250
    assert output_reserve(1000, 100, 100) == 100
    assert output_reserve(1000, 1024, 900) == 50
    assert output_reserve(1000, 0, 0) == 250
    assert output_reserve(1000, 1024, 1000) == 0


@given(
    conversation=CONVERSATIONS,
    seed=st.lists(st.integers(0, 300), min_size=33, max_size=33),
    window=st.integers(1, 4000),
    max_tokens=st.integers(0, 2000),
)
def test_what_leaves_is_always_the_oldest_whole_turns(
    conversation: list[Message], seed: list[int], window: int, max_tokens: int
) -> None:
    counts = seed[: len(conversation)]

    leaving = evict(conversation, counts, window_tokens=window, max_tokens=max_tokens)

    own = turns(conversation)
    gone = [turn for turn in own if set(turn) & set(leaving)]
    assert [i for turn in gone for i in turn] == leaving  # whole turns, in order
    assert gone == own[: len(gone)]  # the oldest
    assert own[-1] not in gone
    assert all(conversation[i].role != "system" for i in leaving)

    total = sum(counts)
    history = sum(counts[i] for turn in own[:-1] for i in turn)
    fixed = total - history
    room = window - fixed - output_reserve(window, max_tokens, fixed)
    left = history - sum(counts[i] for i in leaving)
    if not leaving:
        assert history <= room or fixed >= window
    else:
        assert history > room  # not without need
        assert left <= LOW_WATER * room
        last = sum(counts[i] for i in gone[-1])
        assert left + last > LOW_WATER * room  # and not one turn more
        kept = [message for i, message in enumerate(conversation) if i not in leaving]
        rest = [count for i, count in enumerate(counts) if i not in leaving]
        assert evict(kept, rest, window_tokens=window, max_tokens=max_tokens) == []


@settings(max_examples=examples(10))
@given(size=st.integers(10, 60), window=st.integers(1000, 5000))
def test_evictions_are_far_apart(size: int, window: int) -> None:
    conversation, counts, evictions, spoken = [Message("system", "x")], [20], 0, 400

    for _ in range(spoken):
        conversation.append(Message("user", "x"))
        counts.append(size)
        leaving = set(evict(conversation, counts, window_tokens=window, max_tokens=100))
        evictions += bool(leaving)
        conversation = [m for i, m in enumerate(conversation) if i not in leaving]
        counts = [n for i, n in enumerate(counts) if i not in leaving]
        conversation.append(Message("assistant", "x"))
        counts.append(size)

    room = window - 20 - size - 100
    # Each frees 40 % of the room, give or take a turn, and then that much has to be spoken again.
    assert evictions <= spoken * 2 * size / max(1, (1 - LOW_WATER) * room - 2 * size) + 1
