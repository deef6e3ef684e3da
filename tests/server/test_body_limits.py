"""Limits of the other bodies: llama.cpp's, of the memory, of the knowledge, of contexts and of responses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from shepherd.server.chat import MOST_TOKENS
from shepherd.server.knowledge_resources import Focus, NewEdge, NewNode, NodeChange
from shepherd.server.llama_completions import CompletionBody, InfillBody
from shepherd.server.resources import FactValue, MemoryBatch, MemoryChange, MemorySearch, NewMemory, Search
from shepherd.server.responses_bodies import ResponseBody
from shepherd.server.retrieval_api import ContextBody

EDGE = {"from_node_id": 1, "to_node_id": 2, "explanation": "why"}
LLAMA = {
    "n_predict": (-1, MOST_TOKENS), "max_tokens": (-1, MOST_TOKENS), "temperature": (0, 5),
    "top_k": (-1, MOST_TOKENS), "top_p": (0, 1), "min_p": (0, 1), "typical_p": (None, 1),
    "top_n_sigma": (-1, 100), "xtc_probability": (0, 1), "xtc_threshold": (0, 1), "mirostat": (0, 2),
    "mirostat_tau": (None, 100), "mirostat_eta": (None, 1), "repeat_penalty": (None, 1000),
    "repeat_last_n": (-1, MOST_TOKENS), "frequency_penalty": (-100, 100), "presence_penalty": (-100, 100),
    "dry_multiplier": (0, 100), "dry_base": (1, 100), "dry_allowed_length": (0, 1 << 20),
    "dry_penalty_last_n": (-1, 1 << 20), "n_probs": (0, 20),
}  # fmt: skip
NUMBERS: list[tuple[type[BaseModel], dict[str, Any], str, float | None, float]] = [
    *((CompletionBody, {"prompt": "x"}, name, *limits) for name, limits in LLAMA.items()),
    (NewMemory, {}, "timestamp", 0, 253_402_300_799),
    (Search, {"query": "x"}, "max_results", 1, 100),
    (Search, {"query": "x"}, "threshold", 0, 1),
    (NewEdge, EDGE, "confidence", 0, 1),
    (ContextBody, {"question": "x"}, "max_tokens", 1, 1 << 20),
    (ResponseBody, {"input": "x"}, "max_output_tokens", 1, MOST_TOKENS),
    (ResponseBody, {"input": "x"}, "temperature", 0, 5),
    (ResponseBody, {"input": "x"}, "top_p", 0, 1),
    (ResponseBody, {"input": "x"}, "top_logprobs", 0, 20),
    (ResponseBody, {"input": "x"}, "top_k", 0, MOST_TOKENS),
    (ResponseBody, {"input": "x"}, "min_p", 0, 1),
]  # fmt: skip


@pytest.mark.parametrize(("body", "rest", "name", "least", "most"), NUMBERS)
def test_a_number_is_taken_within_its_limits_alone(
    body: type[BaseModel], rest: dict[str, Any], name: str, least: float | None, most: float
) -> None:
    for limit, step in ((least, -1), (most, 1)):
        if limit is None:
            with pytest.raises(ValidationError):
                body(**rest, **{name: 0})
            continue
        body(**rest, **{name: limit})
        with pytest.raises(ValidationError):
            body(**rest, **{name: limit + step})


TEXT = 1 << 20
LENGTHS: list[tuple[type[BaseModel], dict[str, Any], str, str, int]] = [
    (NewMemory, {}, "question", "", TEXT),
    (NewMemory, {}, "answer", "", TEXT),
    (MemoryChange, {}, "question", "", TEXT),
    (MemoryChange, {}, "answer", "", TEXT),
    (Search, {}, "query", "", TEXT),
    (FactValue, {}, "value", "", TEXT),
    (NewNode, {"title": "t"}, "notes", "", TEXT),
    (NewNode, {}, "title", "", TEXT),
    (NodeChange, {}, "append_notes", "", TEXT),
    (ContextBody, {}, "question", "", TEXT),
    (ContextBody, {"question": "x"}, "session", "", 256),
    (ResponseBody, {"input": "x"}, "previous_response_id", "", 256),
    (MemorySearch, {"query": "x"}, "source", "list of texts", 50),
    (MemoryBatch, {"action": "pin"}, "ids", "list", 200),
    (NewNode, {"title": "t"}, "dimensions", "list of texts", 1000),
    (NodeChange, {}, "dimensions", "list of texts", 1000),
    (Focus, {}, "node_ids", "list", 1000),
    (CompletionBody, {"prompt": "x"}, "stop", "list of texts", 16),
    (CompletionBody, {"prompt": "x"}, "dry_sequence_breakers", "list of texts", 16),
    (InfillBody, {"input_prefix": "a", "input_suffix": "b"}, "input_extra", "list of files", 256),
]


@pytest.mark.parametrize(("body", "rest", "name", "kind", "most"), LENGTHS)
def test_a_text_or_a_list_is_as_long_as_its_limit(
    body: type[BaseModel], rest: dict[str, Any], name: str, kind: str, most: int
) -> None:
    one: Any = {
        "": "x",
        "list": [1],
        "list of texts": ["x"],
        "list of files": [{"filename": "f", "text": "t"}],
    }
    body(**rest, **{name: one[kind] * most})
    with pytest.raises(ValidationError):
        body(**rest, **{name: one[kind] * (most + 1)})


def test_what_is_not_sent_has_its_default() -> None:
    assert NewMemory().model_dump() == {"question": "", "answer": "", "timestamp": None}
    assert MemoryChange().model_dump() == {"question": None, "answer": None, "pinned": None}
    assert MemorySearch(query="x").model_dump() == {
        "query": "x", "max_results": 10, "threshold": 0.0, "source": [], "pinned": None, "since": None,
        "until": None, "never_recalled": False, "own_words": False,
    }  # fmt: skip
    assert NewEdge(**EDGE).model_dump() == {**EDGE, "type": "related_to", "confidence": 1.0}  # type: ignore[arg-type]
    assert set(NodeChange().model_dump().values()) == {None}
    with pytest.raises(ValidationError):
        MemoryBatch(action="pin", ids=[])
    with pytest.raises(ValidationError):
        ContextBody(question="")
