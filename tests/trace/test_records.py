"""What a turn says becomes paths: all of 3-context's, in the names of the fields."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given

from shepherd.trace import paths_of
from shepherd.trace.records import prompt_record
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
