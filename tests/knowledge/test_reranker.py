"""The setting knowledge_reranker: loaded when it is needed, off by default, and never the end of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import gguf
import pytest

from shepherd.config import Config
from shepherd.errors import ModelError, UsageError
from shepherd.knowledge import Knowledge
from shepherd.knowledge.records import ChunkResult
from shepherd.knowledge.retrieval import MOST_RERANKED, reranked
from shepherd.memory_factory import open_memory, reranker_of
from shepherd.prompt import take_snapshot
from shepherd.prompt.gathering import Gatherer
from tests import models

TEXTS = ("dog in texas", "the dog jumps", "a lazy dog lives in texas")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(memory_database=str(tmp_path / "memory.db"), user_id="steve", model_trial=False)


@pytest.fixture
def cross_encoder(tmp_path: Path) -> Path:
    path = tmp_path / "rank.gguf"
    models.bert(path, pooling=gguf.PoolingType.RANK, n_cls_out=1)
    return path


def found(config: Config) -> list[str]:
    with open_memory(config) as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        if not knowledge.count_nodes():
            for text in TEXTS:
                knowledge.add_node("n", source_text=text)
        return [hit.text for hit in knowledge.retrieve("dog", min_relevance=0.0) if hit.part == "text"]


def test_the_setting_names_a_model_that_orders_passages(config, cross_encoder):
    with_model = replace(config, knowledge_reranker=str(cross_encoder))
    reranker = reranker_of(with_model)
    assert reranker is not None
    scores = dict(zip(TEXTS, reranker.scores("dog", TEXTS), strict=True))
    reranker.close()

    assert found(with_model) == sorted(TEXTS, key=lambda text: -scores[text])
    assert set(found(config)) == set(TEXTS)


def test_it_is_off_by_default(config):
    assert reranker_of(config) is None


@pytest.mark.parametrize("is_set", [True, False])
def test_a_trace_says_whether_passages_were_reranked(is_set, config, cross_encoder):
    set_up = replace(config, knowledge_reranker=str(cross_encoder) if is_set else "")
    with open_memory(set_up) as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        knowledge.add_node("dogs", source_text="the dog barks")
        snapshot = take_snapshot(set_up, memory=False, knowledge=None, window_tokens=1000, count=len)
        about = [
            Gatherer(set_up, knowledge).gather(text, None, snapshot).about for text in ("dog?", "weather?")
        ]

    assert [one["reranking_used"] for one in about] == [is_set, False]


def test_a_file_that_is_not_there_is_a_mistake(config, tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        reranker_of(replace(config, knowledge_reranker=str(tmp_path / "none.gguf")))


def test_a_file_that_is_not_there_is_warned_of_and_passages_are_found(config, tmp_path):
    warnings: list[str] = []
    broken = replace(config, knowledge_reranker=str(tmp_path / "none.gguf"))

    with open_memory(broken, warn=lambda message, hint: warnings.append(message)) as memory:
        Knowledge(memory.transactions, "steve").add_node("dogs", source_text="the dog barks")
        assert Knowledge(memory.transactions, "steve").retrieve("dog", min_relevance=0.0)

    assert warnings == [f"{tmp_path / 'none.gguf'}: there is no such file; only words are searched"]


def test_a_model_that_cannot_be_loaded_leaves_the_order_as_it_was(config, tmp_path, caplog):
    as_found = found(config)
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(100))

    assert found(replace(config, knowledge_reranker=str(damaged))) == as_found
    assert "not reranked" in caplog.text


def test_one_that_is_closed_says_so(config, cross_encoder):
    reranker = reranker_of(replace(config, knowledge_reranker=str(cross_encoder)))
    assert reranker is not None
    reranker.close()
    reranker.close()

    with pytest.raises((UsageError, ModelError)):
        reranker.scores("dog", TEXTS)


class Lengths:
    """A reranker that likes long texts; it fails on no text at all."""

    def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        if "" in documents:
            raise ModelError("nothing to read")
        return [float(len(text)) for text in documents]


def passages(*texts: str) -> list[ChunkResult]:
    return [
        ChunkResult(number, 1, "title", "text", 0, 0, len(text), text, score=0.5, relevance=0.25)
        for number, text in enumerate(texts, 1)
    ]


def test_scores_of_a_reranker_are_scaled_and_ties_keep_their_order() -> None:
    ordered = reranked(Lengths(), "q", passages("aa", "aaaa", "bb", "aaa"))

    assert [(one.id, one.score, one.relevance) for one in ordered] == [
        (2, 1.0, 0.25), (4, 0.5, 0.25), (1, 0.0, 0.25), (3, 0.0, 0.25),
    ]  # fmt: skip
    assert [one.score for one in reranked(Lengths(), "q", passages("aa", "bb"))] == [1.0, 1.0]


def test_what_cannot_be_reranked_keeps_its_order_and_scores() -> None:
    for texts in ((), ("a",), ("a", "", "aaa")):
        assert reranked(Lengths(), "q", passages(*texts)) == passages(*texts)


def test_only_the_first_are_reranked() -> None:
    many = passages(*("a" * n for n in range(1, MOST_RERANKED + 3)))

    ordered = reranked(Lengths(), "q", many)

    assert [one.id for one in ordered] == [*range(MOST_RERANKED, 0, -1), MOST_RERANKED + 1, MOST_RERANKED + 2]
    assert [one.score for one in ordered[-2:]] == [0.0, 0.0]
