"""The setting knowledge_reranker: loaded when it is needed, off by default, and never the end of a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import pytest

from shepherd.config import Config
from shepherd.errors import ModelError, UsageError
from shepherd.factory import open_memory, reranker_of
from shepherd.knowledge import Knowledge
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
