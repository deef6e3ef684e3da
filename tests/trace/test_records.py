"""What a turn says becomes paths: all of 3-context's, in the names of the fields."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given

from shepherd.config import Config
from shepherd.prompt import Draft, Plan, take_snapshot
from shepherd.prompt.plan import LeftOut, Part, Share
from shepherd.trace import paths_of
from shepherd.trace.records import prompt_record, trace_of
from shepherd.types import Fact, Injection, Message, SearchResult, TurnStats
from tests.trace.turns import FULL, records


def test_full_turn_has_every_path():
    assert {
        "schema": 1,
        "model": "mini",
        "budget/total": 4096,
        "budget/system": 500,
        "budget/history": 1000,
        "budget/entities": 500,
        "budget/rag": 1500,
        "budget/query": 596,
        "budget/strategy": "dynamic",
        "system/base_instructions": "Be brief.",
        "system/personality": "helpful",
        "system/user_preferences": "concise",
        "system/total_tokens": 12,
        "history/summary": "They met.",
        "history/summary_tokens": 4,
        "history/verbatim_count": 1,
        "history/total_tokens": 11,
        "history/compressed": True,
        "history/compression_level": "light",
        "history/turns/0000/turn_id": 7,
        "history/turns/0000/speaker": "User",
        "history/turns/0000/tokens": 7,
        "history/turns/0000/content": "Where do I live?",
        "tail/facts/location": "Texas",
        "tail/facts/a%2Fb%2Ac": "odd",
        "tail/context/0000/id": 3,
        "tail/context/0000/score": 1.25,
        "tail/context/0000/age_days": 0.5,
        "tail/context/0000/source": "turn",
        "entities/count": 1,
        "entities/total_tokens": 9,
        "entities/0000/entity_id": "e1",
        "entities/0000/name": "Ann",
        "entities/0000/type": "person",
        "entities/0000/relevance": 0.7,
        "entities/0000/tokens": 9,
        "entities/0000/attributes/email": "a@b",
        "rag/query_used": "live",
        "rag/chunks_retrieved": 9,
        "rag/chunks_selected": 1,
        "rag/reranking_used": False,
        "rag/total_tokens": 40,
        "rag/chunks/0000/chunk_id": 1,
        "rag/chunks/0000/doc_title": "Notes",
        "rag/chunks/0000/relevance": 0.83,
        "rag/chunks/0000/tokens": 40,
        "assembled/full_prompt_length": 10,
        "assembled/full_prompt_sha256": hashlib.sha256(b"All of it.").hexdigest(),
        "assembled/total_tokens": 76,
        "assembled/under_budget": True,
        "warnings/0000": "no vectors",
        "timings/plan_ms": 0.7,
    } == FULL


def test_whole_prompt_is_written_only_on_request():
    paths = paths_of({"assembled": prompt_record("All of it.", with_prompt=True)})

    assert paths["assembled/full_prompt"] == "All of it."
    assert "assembled/full_prompt_sha256" not in paths


def test_empty_turn_says_only_its_schema():
    assert paths_of({}) == {"schema": 1}


@given(records)
def test_same_turn_gives_the_same_paths_and_loses_no_value(record):
    paths = paths_of(record)

    assert list(paths.items()) == list(paths_of(record).items())
    n_values = (record["model"] is not None) + len(record["warnings"]) + len(record["timings"])
    assert len(paths) == 1 + n_values + len(record["tail"]["facts"])


def test_numbers_that_json_cannot_hold_become_text():
    record = {"timings": {"a": float("nan"), "b": float("-inf"), "c": 2**70}}

    assert paths_of(record) == {
        "schema": 1,
        "timings/a": "nan",
        "timings/b": "-inf",
        "timings/c": str(2**70),
    }


def test_something_without_a_text_form_is_our_own_mistake():
    with pytest.raises(TypeError, match="assembled/full_prompt"):
        paths_of({"assembled": {"full_prompt": b"x"}})


SNAPSHOT = take_snapshot(
    Config(system_prompt="s", personality="helpful"),
    memory=False,
    knowledge=None,
    window_tokens=999,
    count=len,
)
ANN = Part(
    "entities", "entity:ann", "Ann: a friend. email: a@b", 9, 0.7,
    about={"title": "Ann", "type": "person", "attributes": {"email": "a@b", "age": 34}},
)  # fmt: skip
PLAN = Plan(
    window_tokens=100,
    reserve_tokens=20,
    shares=(
        Share("system", 5, 6, 7),
        Share("history", 8, 9, 10),
        Share("memory", 11, 12, 13),
        Share("entities", 14, 15, 16),
        Share("knowledge", 17, 18, 19),
        Share("focus", 20, 21, 22),
        Share("query", 23, 24, 13),
    ),
    chosen=(
        ANN,
        Part("entities", "entity:x", "X", 2),
        Part("knowledge", "chunk:1", "p", 4, 0.5, about={"title": "Notes", "chunk_id": 1, "relevance": 0.25}),
        Part("knowledge", "chunk:2", "q", 5, 0.5, about={"relevance": "odd"}),
        Part("focus", "node:4", "n", 6),
    ),
    left_out=(LeftOut(Part("memory", "memory", "m"), "no room"),),
    compression="light",
    warnings=("no vectors",),
    timings_us={"plan": 1500.0},
    about={"query_used": "live", "chunks_retrieved": 9, "reranking_used": True},
)


def draft() -> Draft:
    said = [
        Message("user", "a", tokens=3, id=7),
        Message("tool", "r", tokens=50),
        Message("assistant", "b", tokens=4),
    ]
    facts, results = (
        (Fact("city", "Ulm", 0, 0),),
        (SearchResult(3, "q", "a", 0, 1.5, 0.5, 2.0, source="turn"),),
    )
    return Draft(
        Message("user", "c", id=9), SNAPSHOT, [Message("system", "x"), *said],
        injection=Injection("t", facts, results), plan=PLAN,
    )  # fmt: skip


def test_a_turn_is_recorded_with_its_plan():
    stats = TurnStats(reused_tokens=1, decoded_tokens=2, generated_tokens=3, recall_ms=4.0, ttft_ms=5.0)

    found = trace_of(
        draft(),
        model="mini",
        summary="They met.",
        summary_tokens=5,
        prompt="whole",
        with_prompt=True,
        stats=stats,
    )

    names = {"system": 6, "history": 9, "entities": 15, "rag": 18, "query": 24, "facts": 12, "focus": 21}
    assert found == {
        "schema": 1,
        "model": "mini",
        "message_id": 9,
        **{f"budget/{name}": granted for name, granted in names.items()},
        "budget/total": 100,
        "budget/reserve": 20,
        "budget/strategy": "dynamic",
        "system/personality": SNAPSHOT.personality,
        "system/total_tokens": 7,
        "system/sha256": SNAPSHOT.system.sha256,
        "history/summary": "They met.",
        "history/summary_tokens": 5,
        "history/verbatim_count": 1,
        "history/total_tokens": 12,
        "history/compressed": False,
        "history/compression_level": "light",
        "history/turns/0000/turn_id": 7,
        "history/turns/0000/speaker": "user",
        "history/turns/0000/tokens": 3,
        "history/turns/0001/turn_id": 1,
        "history/turns/0001/speaker": "assistant",
        "history/turns/0001/tokens": 4,
        "tail/facts/city": "Ulm",
        "tail/context/0000/id": 3,
        "tail/context/0000/score": 1.5,
        "tail/context/0000/age_days": 2.0,
        "tail/context/0000/source": "turn",
        "tail/focus/0000": "node:4",
        "entities/count": 2,
        "entities/total_tokens": 16,
        "entities/0000/entity_id": "entity:ann",
        "entities/0000/name": "Ann",
        "entities/0000/type": "person",
        "entities/0000/relevance": 0.7,
        "entities/0000/tokens": 9,
        "entities/0000/attributes/email": "a@b",
        "entities/0001/entity_id": "entity:x",
        "entities/0001/name": "",
        "entities/0001/type": "unknown",
        "entities/0001/relevance": 0.0,
        "entities/0001/tokens": 2,
        "rag/query_used": "live",
        "rag/chunks_retrieved": 9,
        "rag/chunks_selected": 2,
        "rag/reranking_used": True,
        "rag/total_tokens": 19,
        "rag/chunks/0000/chunk_id": "1",
        "rag/chunks/0000/doc_title": "Notes",
        "rag/chunks/0000/relevance": 0.25,
        "rag/chunks/0000/tokens": 4,
        "rag/chunks/0001/chunk_id": "chunk:2",
        "rag/chunks/0001/doc_title": "",
        "rag/chunks/0001/relevance": 0.0,
        "rag/chunks/0001/tokens": 5,
        "assembled/full_prompt": "whole",
        "assembled/total_tokens": 100,
        "assembled/under_budget": True,
        "left_out/0000/id": "memory",
        "left_out/0000/category": "memory",
        "left_out/0000/reason": "no room",
        "warnings/0000": "no vectors",
        "timings/plan": 1.5,
        "usage/reused": 1,
        "usage/decoded": 2,
        "usage/generated": 3,
        "usage/recall_ms": 4.0,
        "usage/first_token_ms": 5.0,
    }


def test_what_a_turn_has_not_is_not_recorded():
    plain = replace(
        draft(),
        message=Message("user", "c"),
        history=[],
        injection=Injection(),
        plan=replace(PLAN, chosen=(), about={}, shares=()),
    )

    found = trace_of(plain, model="mini", summary="", summary_tokens=0)

    assert {path.partition("/")[0] for path in found} == {
        "schema",
        "model",
        "budget",
        "system",
        "history",
        "entities",
        "rag",
        "assembled",
        "left_out",
        "warnings",
        "timings",
    }
    assert (found["rag/chunks_retrieved"], found["rag/query_used"], found["rag/reranking_used"]) == (
        0,
        "",
        False,
    )
    assert found["assembled/under_budget"] is True
    assert (found["history/verbatim_count"], found["history/total_tokens"]) == (0, 0)
    assert "history/summary" not in found
    assert "history/summary_tokens" not in found
    whole = "\n".join(message.sent for message in plain.prompt)
    assert found["assembled/full_prompt_length"] == len(whole)
    assert found["assembled/full_prompt_sha256"] == hashlib.sha256(whole.encode()).hexdigest()
