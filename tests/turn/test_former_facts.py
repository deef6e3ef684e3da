"""The last value of what holds no longer, for questions about it."""

from __future__ import annotations

from shepherd.memory import Claim, EndedValue, Memory
from shepherd.turn.turn import former_facts
from tests.learned import learn

NOW = 1_700_000_000
SOLD = "We sold the Skoda last week."


def test_the_value_that_was_told_last_is_the_former_one_though_it_had_ended_before(tmp_path):
    now = float(NOW)
    with Memory(tmp_path / "memory.db", user_id="lena", clock=lambda: now) as memory:
        for sentence, value in (
            ("I drive a grey Skoda.", "grey Skoda"),
            ("It is a blue Skoda.", "blue Skoda"),
        ):
            now += 60
            learn(memory, "lena", sentence, Claim("car", value, sentence, 0, changes=True))
        now += 60
        learn(memory, "lena", SOLD, EndedValue("blue Skoda", "any", SOLD, 0))

        assert memory.get_fact("car") is None
        assert [(one.key, one.value) for one in former_facts(memory, "lena")] == [("car", "blue Skoda")]


def test_what_still_holds_is_no_former_fact(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="lena", clock=lambda: NOW) as memory:
        memory.set_fact("car", "grey Skoda")

        assert list(former_facts(memory, "lena")) == []
        assert list(former_facts(None, "lena")) == []


def test_what_the_user_has_cleared_is_no_former_fact(tmp_path):
    now = float(NOW)
    with Memory(tmp_path / "memory.db", user_id="lena", clock=lambda: now) as memory:
        learn(
            memory, "lena", "My birthday is 3 March.", Claim("birthday", "3 March", "My birthday is 3 March.")
        )
        now += 60
        memory.clear_fact("birthday")
        assert list(former_facts(memory, "lena")) == []

        now += 60
        memory.set_fact("birthday", "4 March")
        assert list(former_facts(memory, "lena")) == []
