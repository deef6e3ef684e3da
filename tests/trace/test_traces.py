"""Turns are kept, read back by ranges and patterns, and are nobody else's; on both engines."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory
from shepherd.trace import KEPT_TURNS, Traces, paths_of
from tests.trace.turns import FULL


def test_turn_comes_back_in_the_order_of_its_paths_with_the_kinds_of_its_values(traces):
    turn = traces.write("s", FULL)

    found = traces.turn("s", turn)

    expected = sorted((f"/context/s/000000/{path}", value) for path, value in FULL.items())
    assert found == expected
    assert [type(value) for _, value in found] == [type(value) for _, value in expected]


def test_turns_are_numbered_within_their_session(traces):
    assert [traces.write("s", FULL), traces.write("t", FULL), traces.write("s", FULL)] == [0, 0, 1]
    assert traces.last_turn("s") == 1
    assert traces.last_turn("none") is None


def test_writing_a_turn_again_replaces_it(traces):
    traces.write("s", FULL, turn=3)
    traces.write("s", paths_of({"model": "other"}), turn=3)

    assert traces.turn("s", 3) == [("/context/s/000003/model", "other"), ("/context/s/000003/schema", 1)]


def test_the_last_turn_is_replaced_by_one_of_the_same_message(traces):
    numbers = [
        traces.write("s", {"message_id": said, "model": model}) for said, model in ((1, "a"), (2, "b"))
    ]
    again = traces.write("s", {"message_id": 2})

    assert [*numbers, again] == [0, 1, 1]
    assert traces.turn("s", 1) == [("/context/s/000001/message_id", 2)]
    assert traces.get("/context/s/000000/model") == "a"
    assert traces.write("s", {"message_id": 1}) == 2


def test_flat_mapping_is_a_turn_too(traces):
    traces.write("s", {"budget/total": 5, "x/y": True})

    assert traces.get("/context/s/000000/x/y") is True
    assert traces.get("/context/s/000000/x") is None


def test_last_two_hundred_turns_of_a_session_are_kept(traces):
    for _ in range(KEPT_TURNS + 3):
        traces.write("s", {"model": "m"})
    traces.write("other", {"model": "m"}, turn=1)

    assert traces.children("/context/s") == [f"{n:06d}" for n in range(3, KEPT_TURNS + 3)]
    assert traces.children("/context/other") == ["000001"]


def test_prefix_of_a_name_is_not_below_it(traces):
    for session in ("a", "a-b", "ab", "a.b"):
        traces.write(session, {"model": session})

    assert traces.below("/context/a") == [("/context/a/000000/model", "a")]
    assert traces.children() == ["a", "a-b", "a.b", "ab"]


def test_value_and_names_below_it_are_both_found(traces):
    traces.write("s", {"x": 1, "x-y": 2, "x/z": 3})

    assert traces.below("/context/s/000000/x") == [
        ("/context/s/000000/x", 1),
        ("/context/s/000000/x/z", 3),
    ]
    assert traces.children("/context/s/000000") == ["x", "x-y"]
    assert list(traces.entries("/context/s/000000/x")) == traces.below("/context/s/000000/x")


def test_star_stands_for_one_whole_segment(traces):
    for number in range(3):
        traces.write("s", {"model": f"m{number}", "budget/strategy": "", "budget/total": number})
    traces.write("t", {"model": "n"})

    assert [value for _, value in traces.matching("/context/*/*/model")] == ["m0", "m1", "m2", "n"]
    assert traces.matching("/context/*/000001/budget") == [
        ("/context/s/000001/budget/strategy", ""),
        ("/context/s/000001/budget/total", 1),
    ]
    assert traces.matching("/context/s/*") == traces.below("/context/s")
    assert traces.matching("/context/m*/*/model") == []


def test_star_in_a_name_is_no_pattern(traces):
    traces.write("a*", {"model": "m"})
    traces.write("ab", {"model": "m"})

    assert traces.below("/context/a%2A") == [("/context/a%2A/000000/model", "m")]


def test_what_is_too_much_for_a_page_is_all_there(traces):
    traces.write("s", {f"timings/{n:05d}": n for n in range(5000)})

    assert [value for _, value in traces.entries()] == list(range(5000))


def test_turn_and_session_can_be_forgotten(traces):
    for _ in range(3):
        traces.write("s", {"model": "m"})
    traces.write("t", {"model": "m"})

    assert traces.remove("s", 2) == 1
    assert traces.last_turn("s") == 1
    assert traces.remove("s") == 2
    assert traces.children() == ["t"]


def test_all_traces_of_a_user_can_be_forgotten(memory, traces):
    for session in ("s", "t"):
        traces.write(session, {"model": "m"})
    others = Traces(memory.transactions, "mary")
    others.write("s", {"model": "m"})

    assert traces.clear() == 2
    assert traces.clear() == 0
    assert traces.children() == []
    assert others.children() == ["s"]
    assert Traces(memory.transactions, "").clear() == 0
    assert Traces(memory.transactions, "").merge([("/context/s/000000/model", "m")]) == 0


def test_a_pattern_without_a_star_is_a_path(traces):
    traces.write("s", {"model": "m", "model/name": "n", "models": "o"})

    found = traces.matching("/context/s/000000/model")
    assert found == [("/context/s/000000/model", "m"), ("/context/s/000000/model/name", "n")]


def test_nobody_reads_another_users_traces(memory, traces):
    other = Traces(memory.transactions, "anna")
    traces.write("s", FULL)

    assert other.turn("s", 0) == []
    assert other.get("/context/s/000000/model") is None
    assert other.below("/context") == other.matching("/context/*/*/model") == []
    assert other.children() == []
    assert other.last_turn("s") is None
    assert list(other.entries()) == []
    assert other.remove("s") == 0
    assert other.write("s", {"model": "hers"}) == 0
    assert traces.get("/context/s/000000/model") == "mini"


@pytest.mark.parametrize("user", ["", "unknown"])
def test_nobody_in_particular_leaves_no_traces(memory, user):
    traces = Traces(memory.transactions, user)
    traces.write("s", FULL)

    assert traces.children() == []


def test_traces_go_with_their_session(memory, traces):
    session, kept = memory.start_session(), memory.start_session()
    traces.write(session, FULL)
    traces.write(kept, FULL)

    memory.clear_session(session)

    assert traces.children() == [kept]


def test_who_claims_gets_the_traces(memory, traces):
    local = Traces(memory.transactions, "local")
    local.write("s", {"model": "theirs"})
    local.write("t", {"model": "theirs"})
    traces.write("s", {"model": "mine"})

    memory.claim("local", "steve")

    assert local.children() == []
    assert [value for _, value in traces.matching("/context/*/*/model")] == ["mine", "theirs"]


def test_traces_give_way_when_the_database_is_full(tmp_path):
    with Memory(tmp_path / "m.db", user_id="steve", max_db_size="1M") as memory:
        traces = Traces(memory.transactions, "steve")
        memory.store_memory("Which editor?", "Helix.")
        kept = []
        for n in range(40):
            traces.write("s", {"history/turns/0000/content": f"{n} " + "x" * 100_000})
            kept.append(len(traces.children("/context/s")))

        assert memory.count_memories() == 1
        assert 0 < max(kept) < 40
