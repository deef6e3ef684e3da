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


def test_what_the_user_cleared_is_told_no_more_and_what_ended_is(tmp_path):
    now = float(NOW)
    with Memory(tmp_path / "memory.db", user_id="lena", clock=lambda: now) as memory:
        for key, value in (
            ("birthday", "2 March"),
            ("birthday", "3 March"),
            ("car", "Skoda"),
            ("pet", "cat"),
        ):
            now += 60
            memory.set_fact(key, value)
        now += 60
        memory.clear_fact("birthday")
        memory.clear_fact("pet")
        memory.set_fact("pet", "dog")
        now += 60
        learn(memory, "lena", SOLD, EndedValue("Skoda", "any", SOLD, 0))

        assert {one.key: one.value for one in former_facts(memory, "lena")} == {"car": "Skoda"}
        assert {one.value for one in memory.fact_periods("birthday", corrected=True)} == {
            "2 March",
            "3 March",
        }
