"""`shepherd eval`, as a process."""

from __future__ import annotations

import json

import gguf
import pytest

from tests import models


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    turns = [("1", "Do you have a dog?"), ("2", "Rex is his name."), ("3", "It rains.")]
    entry = {
        "id": "c",
        "now": 10_000,
        "turns": [
            {"id": id, "session": 1, "time": 100, "speaker": "Anna", "text": text} for id, text in turns
        ],
        "questions": [{"question": "Which dog has Anna?", "evidence": ["2"], "category": "pets"}],
    }
    path.write_text(json.dumps(entry))
    return str(path)


def test_measures_are_printed_by_category(shepherd, corpus):
    done = shepherd("eval", corpus)

    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["all", "pets"]
    assert rows[0][1] == "1"
    assert rows[0][2].startswith("100.0 (")
    assert "p50" in done.stderr


def test_run_is_kept_and_compared(shepherd, corpus, tmp_path):
    run = str(tmp_path / "run.jsonl")
    shepherd("eval", corpus, "--output", run)

    report = json.loads(shepherd("eval", corpus, "--baseline", run, "--json").stdout)
    again = json.loads(shepherd("eval", run, "--json").stdout)

    assert report["comparison"]["mrr"]["difference"] == [0.0, 0.0, 0.0]
    assert again["measures"]["all"] == report["measures"]["all"]


def test_weights_are_tuned(shepherd, corpus):
    report = json.loads(shepherd("eval", corpus, "--tune", "--json").stdout)

    assert set(report["weights"]) == {"default", "c", "none"}


def test_vectors_are_measured_beside_words(shepherd, corpus, tmp_path):
    models.bert(tmp_path / "encoder.gguf")
    run = str(tmp_path / "run.jsonl")
    shepherd("eval", corpus, "--output", run)

    done = shepherd("eval", corpus, "--vectors", str(tmp_path / "encoder.gguf"), "--baseline", run, "--json")

    assert json.loads(done.stdout)["comparison"]["questions"] == 1


def test_model_that_gives_no_vectors_ends_the_run(shepherd, corpus, tmp_path):
    encoder = tmp_path / "rank.gguf"
    models.bert(encoder, pooling=gguf.PoolingType.RANK, n_cls_out=1)

    done = shepherd("eval", corpus, "--vectors", str(encoder))

    assert done.returncode == 1
    assert "is a reranker" in done.stderr


def test_missing_file_is_a_mistake_of_the_caller(shepherd):
    done = shepherd("eval", "nowhere.jsonl")

    assert done.returncode == 2
    assert "nowhere.jsonl" in done.stderr
