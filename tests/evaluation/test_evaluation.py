"""Corpora, measures and runs of an evaluation, on real databases."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from shepherd._native.rank import DEFAULT_WEIGHTS
from shepherd.errors import UsageError
from shepherd.evaluation import compare, evaluate, interval, is_run, read_corpus, read_run, tune, write_run
from shepherd.evaluation.answerable import THRESHOLDS, Kept, Relevances, area, measure_relevance
from shepherd.evaluation.corpora import Conversation, Question, Turn
from shepherd.evaluation.runs import GRID, ndcg_at, recall_at, reciprocal_rank, stored, texts_of
from shepherd.memory import Memory
from shepherd.sequences import sequence_of

DAY = 86_400


def conversation(name: str = "one") -> dict[str, Any]:
    texts = [
        ("D1:1", 1, "Anna", "Do you have a pet?"),
        ("D1:2", 1, "Ben", "Yes, a spaniel called Rex."),
        ("D1:3", 1, "Anna", "Lovely weather today."),
        ("D2:1", 2, "Ben", "I bought a bicycle."),
        ("D2:2", 2, "Anna", "Which colour has it?"),
        ("D2:3", 2, "Ben", "Green."),
    ]
    return {
        "id": name,
        "now": 40 * DAY,
        "turns": [
            {
                "id": id,
                "session": session,
                "time": session * DAY,
                "speaker": speaker,
                "text": text,
                "caption": "",
            }
            for id, session, speaker, text in texts
        ],
        "questions": [
            {"question": "Which pet does Ben have?", "evidence": ["D1:2"], "category": "animals"},
            {"question": "What colour is the bike?", "evidence": ["D2:3", "D9:9"], "category": "things"},
            {"question": "without evidence", "evidence": ["D9:9"], "category": "things"},
        ],
    }


REPLY = (
    "A terrace can hold many plants: tomatoes need sun and a deep pot, basil likes tomatoes, and a fig tree"
    " grows in a pot as well. Water the tomatoes in the morning, and give the fig tree some shade. Tomatoes,"
    " basil and a fig tree on one terrace are no problem if each pot has holes."
)


def talk(*, names: tuple[str, str]) -> dict[str, Any]:
    """A talk about plants in which the second speaker says all words of the question more often."""
    user, other = names
    turns = [
        ("1", "s1", user, "What can I plant?"),
        ("2", "s1", other, REPLY),
        ("3", "s2", user, "We moved, and I put a fig tree on the terrace last spring. Will it bear fruit?"),
        ("4", "s2", other, "Most need three years. Feed it in spring, and cut it back in winter."),
    ]
    return {
        "id": "talk",
        "now": 40 * DAY,
        "turns": [
            {"id": id, "session": session, "time": DAY, "speaker": speaker, "text": text}
            for id, session, speaker, text in turns
        ],
        "questions": [
            {"question": "Is there a fig tree in a pot on my terrace?", "evidence": ["3"], "category": ""}
        ],
    }


@pytest.mark.parametrize("rows", ["turns", "exchanges"])
@pytest.mark.parametrize("names", [("user", "assistant"), ("User", "AI"), ("Anna", "ChatGPT")])
def test_message_of_a_user_comes_before_a_long_reply_of_an_assistant(
    tmp_path: Path, rows: Any, names: tuple[str, str]
) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps(talk(names=names)))

    [answer] = evaluate(read_corpus(path), rows=rows)
    path.write_text(json.dumps(talk(names=("Anna", "Ben"))))
    [between_friends] = evaluate(read_corpus(path), rows=rows)

    assert answer.found[0] == "3"
    assert answer.metrics["mrr"] == 1.0
    assert between_friends.found[0] != "3"


def test_area_is_how_often_the_one_is_above_the_other() -> None:
    assert area([3.0, 2.0], [1.0, 0.0]) == 1.0
    assert area([3.0, 0.5], [1.0, 0.0]) == 0.75
    assert area([1.0, 1.0], [1.0]) == 0.5
    assert area([], [1.0]) == 0.5


def test_thresholds_keep_what_is_as_relevant() -> None:
    found = Relevances(evidence=[0.3, 0.9], others=[0.1, 0.3, 0.2, 0.5], unanswerable=[0.1])

    assert found.kept(0.3) == Kept(0.3, 1.0, 0.5, 0.0)
    assert found.kept(0.31) == Kept(0.31, 0.5, 0.25, 0.0)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(conversation(name)) + "\n" for name in ("one", "two")))
    return path


def test_measures_have_their_published_values() -> None:
    found, evidence = ["a", "b", "c", "d"], {"b", "d", "x"}

    assert recall_at(3, found, evidence) == pytest.approx(1 / 3)
    assert recall_at(10, found, evidence) == pytest.approx(2 / 3)
    assert reciprocal_rank(found, evidence) == 0.5
    assert reciprocal_rank(found, {"x"}) == 0.0
    best = 1 + 1 / math.log2(3) + 1 / 2
    assert ndcg_at(10, found, evidence) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)
    assert ndcg_at(1, ["b"], evidence) == 1.0


def test_interval_holds_the_mean_and_is_always_the_same() -> None:
    values = [0.0, 1.0, 1.0, 0.5] * 25

    one = interval(values)

    assert one == interval(values)
    assert one.mean == pytest.approx(0.625)
    assert one.low < one.mean < one.high
    assert interval([1.0] * 9).low == 1.0


def test_comparison_tells_a_difference_from_chance() -> None:
    better = compare([1.0] * 30, [0.5] * 30)
    same = compare([1.0, 0.0] * 15, [0.0, 1.0] * 15)

    assert better.difference.mean == 0.5
    assert better.p_value < 0.01
    assert same.difference.mean == 0.0
    assert same.p_value == 1.0


def test_intervals_and_probabilities_are_those_of_the_distribution() -> None:
    half = interval([0.0, 1.0] * 50)

    # The mean of 100 tosses has a deviation of 0.05.
    assert (half.low, half.high) == (pytest.approx(0.402, abs=0.02), pytest.approx(0.598, abs=0.02))
    # Of eight ways to choose three signs, two give a mean as large.
    assert compare([1.0] * 3, [0.0] * 3).p_value == pytest.approx(0.25, abs=0.03)
    assert compare([0.0] * 3, [1.0] * 3).p_value == pytest.approx(0.25, abs=0.03)
    assert compare([0.0] * 3, [1.0] * 3).difference.mean == -1.0


def turn(number: int, session: str, speaker: str, text: str = "x", answer: str = "") -> Turn:
    return Turn(str(number), session, number * DAY, speaker, text, answer)


def test_texts_of_a_memory_name_speaker_and_day() -> None:
    asked, said = turn(0, "s", "Anna", "Why?"), turn(31, "s", "", "So.")
    whole = turn(59, "s", "", "Which dog?", "Rex")

    assert texts_of([asked], dates=False) == ("Anna: Why?", "")
    assert texts_of([asked, said], dates=False) == ("Anna: Why?", "So.")
    assert texts_of([asked, said], dates=True) == ("Anna: Why? (01 January 1970)", "So. (01 February 1970)")
    assert texts_of([whole], dates=True) == ("Which dog? (01 March 1970)", "Rex")


@pytest.mark.parametrize(
    ("rows", "groups"), [("turns", ["1", "2", "3", "4", "5", "6"]), ("exchanges", ["12", "3", "4", "56"])]
)
def test_an_exchange_has_two_speakers_of_one_session(rows: Any, groups: list[str]) -> None:
    speakers = [("s", "A"), ("s", "B"), ("s", "A"), ("t", "A"), ("u", "B"), ("u", "A")]
    turns = tuple(turn(i, *place, f"text {i}") for i, place in enumerate(speakers, 1))

    with stored(Conversation("c", 9.0 * DAY, turns, ()), rows=rows) as here:
        found: dict[int, str] = {}
        for turn_id, memory_id in here.memory_of.items():
            found[memory_id] = found.get(memory_id, "") + turn_id

    assert list(found.values()) == groups
    assert list(here.turn_of.values()) == [group[0] for group in groups]


def test_turns_without_text_are_no_memories() -> None:
    turns = (turn(1, "s", "", " "), turn(2, "s", "", "", "b"))
    with stored(Conversation("c", 9.0, turns, ()), dates=False) as here:
        assert list(here.memory_of) == ["2"]


def test_evidence_is_found_by_the_real_memory(corpus: Path) -> None:
    conversations = read_corpus(corpus)

    results = evaluate(conversations)

    assert [result.question for result in results[:2]] == [
        "Which pet does Ben have?",
        "What colour is the bike?",
    ]
    assert len(results) == 4
    assert all(result.metrics["recall@3"] == 1.0 for result in results)
    assert all(result.evidence[0] in result.found for result in results)


def test_exchanges_are_one_memory_of_two_turns(corpus: Path) -> None:
    results = evaluate(read_corpus(corpus), rows="exchanges", dates=False)

    assert results[0].evidence == ["D1:1"]
    assert results[0].metrics["mrr"] == 1.0


def test_repeated_turns_count_as_the_one_memory_they_are(tmp_path: Path) -> None:
    entry = conversation()
    entry["turns"].append({**entry["turns"][1], "id": "D1:9", "time": entry["turns"][1]["time"]})
    entry["questions"][0]["evidence"] = ["D1:9"]
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps(entry))

    assert evaluate(read_corpus(path))[0].evidence == ["D1:2"]


def test_run_is_read_as_it_was_written(corpus: Path, tmp_path: Path) -> None:
    results = evaluate(read_corpus(corpus))
    path = tmp_path / "run.jsonl"

    write_run(path, results)

    assert is_run(path)
    assert not is_run(corpus)
    assert not is_run(tmp_path / "none")
    assert read_run(path) == results
    with pytest.raises(UsageError, match="No such file"):
        write_run(tmp_path / "none" / "run.jsonl", results)
    for other, message in ((corpus, "not a run"), (tmp_path / "none", "there is no such file")):
        with pytest.raises(UsageError, match=message):
            read_run(other)


@pytest.mark.parametrize(
    ("entry", "is_one"),
    [
        ({"metrics": {}, "found": []}, True),
        ({"metrics": {}}, False),
        ({"found": []}, False),
        (["metrics", "found"], False),
    ],
)
def test_a_run_begins_with_measures_and_what_was_found(tmp_path: Path, entry: object, is_one: bool) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(entry))

    assert is_run(path) == is_one


def test_fields_of_our_own_form_have_their_defaults(tmp_path: Path) -> None:
    turns = [{"id": 1, "text": "a"}, {"id": 2, "text": "b", "caption": "c", "answer": "d", "time": 5}]
    asked = [{"question": "q", "evidence": [2, 2, 9, 1]}, {"question": "r", "evidence": [9]}]
    path = tmp_path / "own.jsonl"
    empty = {"id": "y", "turns": turns, "questions": asked[1:]}
    path.write_text(
        "\n\n".join(json.dumps(one) for one in ({"id": 7, "turns": turns, "questions": asked}, empty))
    )

    assert read_corpus(path) == [
        Conversation(
            "7",
            5.0,
            (Turn("1", "", 0, "", "a"), Turn("2", "", 5, "", "b c", "d")),
            (Question("q", ("2", "1"), ""),),
        )
    ]


def test_times_are_those_that_dates_support_in_every_zone(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    earliest, latest = -30_610_224_000, 221_845_392_000  # years 1000 and 9000
    for time, is_good in ((earliest, True), (earliest - 1, False), (latest - 1, True), (latest, False)):
        turns = [{"id": 1, "text": "a", "time": time}]
        asked = [{"question": "q", "evidence": [1]}]
        path.write_text(json.dumps({"id": 1, "now": 5, "turns": turns, "questions": asked}))
        if is_good:
            assert read_corpus(path)[0].turns[0].time == time
        else:
            with pytest.raises(UsageError, match="not in unix seconds"):
                read_corpus(path)


def test_longmemeval_is_read(tmp_path: Path) -> None:
    entry = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which degree did I get?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
        "haystack_sessions": [
            [{"role": "user", "content": "I am hungry"}, {"role": "assistant", "content": "Eat."}],
            [{"role": "user", "content": "My degree is in business.", "has_answer": True}],
        ],
        "answer_session_ids": ["s2"],
    }
    path = tmp_path / "longmemeval.json"
    path.write_text(json.dumps([entry]))

    [found] = read_corpus(path)

    assert found.questions[0].evidence == ("s2:1",)
    assert found.turns[0].time == 1684549260
    assert evaluate([found])[0].metrics["recall@3"] == 1.0

    del entry["haystack_sessions"][1][0]["has_answer"]  # labelled by session alone
    path.write_text(json.dumps([entry]))
    assert read_corpus(path)[0].questions[0].evidence == ("s2:1",)


def test_rank_of_the_evidence_is_that_among_the_found(memory: Memory, tmp_path: Path) -> None:
    memory.store_memory("What is my dog called?", "Rex")
    id = memory.store_memory("Which food does the dog of our neighbours in the other street like?", "Rice")
    export, questions = tmp_path / "export.jsonl", tmp_path / "questions.jsonl"
    export.write_text("".join(json.dumps(entry) + "\n" for entry in memory.export_memories()))
    questions.write_text(json.dumps({"question": "what is my dog called?", "evidence": [id]}))

    [result] = evaluate(read_corpus(export, questions), dates=False)

    assert len(result.found) == 2
    assert result.metrics["mrr"] == 0.5


@pytest.mark.parametrize("name", [int, sequence_of], ids=["id of the export", "number"])
def test_own_memory_is_measured_with_own_questions(memory: Memory, tmp_path: Path, name) -> None:
    id = memory.store_memory("Which dog?", "Rex")
    assert id is not None
    memory.store_memory("Which city?", "Austin")
    export, questions = tmp_path / "export.jsonl", tmp_path / "questions.jsonl"
    export.write_text("".join(json.dumps(entry) + "\n" for entry in memory.export_memories()))
    questions.write_text(json.dumps({"question": "what is my dog called?", "evidence": [name(id)]}))

    [result] = evaluate(read_corpus(export, questions), dates=False)

    assert result.metrics["mrr"] == 1.0


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"id": 1, "turns": 5, "questions": []}'])
def test_file_of_another_form_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(text)

    with pytest.raises(UsageError, match=r"other\.jsonl") as caught:
        read_corpus(path)

    assert caught.value.hint


@pytest.mark.parametrize(
    ("time", "now"),
    [
        (1_700_000_000_000, 1_700_000_000),
        (1_700_000_000, 1_700_000_000_000),
        (1_700_000_000_000, None),
        (-(10**11), 1_700_000_000),
        (10**30, 0),
        (0, 10**400),
        (0, float("nan")),
    ],
)
def test_time_that_is_none_in_seconds_is_refused(tmp_path: Path, time: float, now: float | None) -> None:
    path = tmp_path / "times.jsonl"
    turn = {"id": "1", "time": time, "text": "hello pump"}
    question = {"question": "pump?", "evidence": ["1"]}
    path.write_text(json.dumps({"id": "x", "now": now, "turns": [turn], "questions": [question]}))

    with pytest.raises(UsageError, match=r"times\.jsonl") as caught:
        read_corpus(path)

    assert caught.value.hint


def test_tuning_scores_each_conversation_with_weights_chosen_without_it(corpus: Path) -> None:
    folds = tune(read_corpus(corpus))

    assert [fold.left_out for fold in folds] == ["one", "two", ""]
    assert {result.conversation for result in folds[0].results} == {"one"}
    assert len(folds[2].results) == 4


def test_weights_and_thresholds_are_tried_in_order_with_the_present_ones_among_them() -> None:
    for name, tried in GRID.items():
        assert list(tried) == sorted(set(tried)), name
        assert getattr(DEFAULT_WEIGHTS, name) in tried
    assert list(THRESHOLDS) == sorted(set(THRESHOLDS))
    assert all(0 < value < 1 for value in THRESHOLDS)


def test_without_options_each_turn_is_a_memory_with_its_day(corpus: Path) -> None:
    one = read_corpus(corpus)[0]
    with stored(one) as here:
        memories = {memory.question for memory in here.memory.list_memories()}
        assert len(memories) == 6
        assert "Ben: Green. (03 January 1970)" in memories
        assert here.memory.search("January")
    [dated] = {result.microseconds > 0 for result in evaluate([one])}
    assert dated


def test_a_question_finds_twenty_turns_at_most() -> None:
    turns = tuple(turn(n, "s", "", f"walrus {n}") for n in range(25))
    asked = Conversation("c", 9.0, turns, (Question("walrus?", ("3",), ""),))
    steps: list[str] = []

    [answer] = evaluate([asked], progress=steps.append)

    assert len(answer.found) == 20
    assert steps == ["conversation 1 of 1 \u2026", ""]


def test_relevance_is_measured_with_questions_of_its_own_and_of_others(corpus: Path) -> None:
    steps: list[str] = []
    one, two = read_corpus(corpus)
    other = Conversation(
        "other", 9.0, (turn(1, "s", "", "nothing of interest"),), (Question("sail the kite?", ("1",), ""),)
    )

    found = measure_relevance([one, other], progress=steps.append)

    assert steps == ["conversation 1 of 2 \u2026", "conversation 2 of 2 \u2026", ""]
    # Two questions of the first one, and one of the other, which finds nothing anywhere.
    assert len(found.evidence) == 2
    assert 1 <= len(found.others) <= 4
    assert sorted(found.answerable)[0] == 0.0
    assert len(found.answerable) == 3
    assert found.unanswerable[0] == 0.0
    assert len(found.unanswerable) == 3
    assert found.answerable[:2] == [pytest.approx(max(found.answerable)), pytest.approx(found.answerable[1])]
    assert len(measure_relevance([one, two, other, one, two]).unanswerable) == 27  # three others ask each
    with pytest.raises(UsageError, match="one conversation alone") as caught:
        measure_relevance([one])
    assert "several conversations" in caught.value.hint
