"""`shepherd eval`, as a process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import pytest

from tests import models, programs


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


def test_output_replaces_an_earlier_run_and_nothing_else(shepherd, corpus, tmp_path):
    run, notes = tmp_path / "run.jsonl", tmp_path / "notes.txt"
    notes.write_text("mine")
    before = Path(corpus).read_bytes()
    shepherd("eval", corpus, "--output", str(run))

    assert shepherd("eval", corpus, "--output", str(run)).returncode == 0
    for options in (
        [corpus, "--output", corpus],
        [corpus, "--output", str(run), "--baseline", str(run)],
        [corpus, "--output", str(notes)],
    ):
        refused = shepherd("eval", *options)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "name a new file, or an earlier run" in refused.stderr
    assert (Path(corpus).read_bytes(), notes.read_text()) == (before, "mine")
    assert shepherd("eval", str(run)).returncode == 0


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("nowhere/run.jsonl", "there is no folder "),
        (".", "this is a folder"),
        ("{corpus}/run", "there is no folder "),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_measured(
    shepherd, corpus, output, told
):
    # Of no corpus: that would be told if the output were not looked at first.
    done = shepherd("eval", "missing.jsonl", "--output", output.format(corpus=corpus))

    assert done.returncode == 2
    assert told in done.stderr
    assert "missing.jsonl" not in done.stderr


def test_a_run_and_the_table_go_into_the_file_of_a_redirected_stream(home, corpus, tmp_path):
    command = [sys.executable, "-m", "shepherd", "eval", corpus, "--output", "/dev/stdout"]
    with (tmp_path / "out").open("w") as out:
        programs.run(command, stdout=out, env=home.environment, check=True)

    run, *table = (tmp_path / "out").read_text().splitlines()
    assert json.loads(run)["question"] == "Which dog has Anna?"
    assert [line.split("\t")[0] for line in table] == ["all", "pets"]


def test_questions_without_evidence_are_counted_and_named(shepherd, corpus):
    entry = json.loads(Path(corpus).read_text())
    wrong = {"question": "Does it rain in Köln?", "evidence": ["33"]}
    Path(corpus).write_text(json.dumps({**entry, "questions": [*entry["questions"], wrong]}))

    done = shepherd("eval", corpus)

    assert done.stdout.startswith("all\t1\t")
    assert "1 question isn't measured" in done.stderr
    assert '"Does it rain in Köln?"' in done.stderr


def test_json_that_is_nested_too_deeply_is_refused(shepherd, tmp_path):
    deep = tmp_path / "deep.jsonl"
    deep.write_text('{"id": ' + "[" * 100_000)

    refused = shepherd("eval", str(deep))

    assert refused.returncode == 2
    assert "nested too deeply" in refused.stderr


@pytest.fixture
def talks(tmp_path):
    """Two conversations, about a dog and about a boat."""
    path = tmp_path / "talks.jsonl"
    entries = []
    for name, other in (("dog", "kennel"), ("boat", "harbour")):
        texts = [f"My {name} is old.", f"The {other} of the {name} is red.", f"I painted the {other}."]
        entries.append(
            {
                "id": name,
                "now": 10_000,
                "turns": [
                    {"id": str(n), "session": n, "time": 100, "speaker": "Anna", "text": text}
                    for n, text in enumerate(texts)
                ],
                "questions": [
                    {"question": f"Which colour has the {other} of the {name}?", "evidence": ["1"]}
                ],
            }
        )
    path.write_text("\n".join(map(json.dumps, entries)))
    return str(path)


def test_several_files_are_measured_and_the_least_of_all_is_shown(shepherd, corpus, talks, tmp_path):
    run = str(tmp_path / "run.jsonl")
    report = json.loads(shepherd("eval", corpus, talks, "--output", run, "--json").stdout)

    alone = [
        json.loads(shepherd("eval", file, "--json").stdout)["measures"]["all"] for file in (corpus, talks)
    ]
    assert list(report["corpora"]) == [corpus, talks]
    assert [one["measures"]["all"] for one in report["corpora"].values()] == alone
    assert report["least"]["ndcg@10"] == min(one["ndcg@10"][0] for one in alone)
    again = json.loads(shepherd("eval", run, "--baseline", run, "--json").stdout)
    assert [one["measures"] for one in again["corpora"].values()] == [
        one["measures"] for one in report["corpora"].values()
    ]
    assert all(one["comparison"]["mrr"]["difference"] == [0.0] * 3 for one in again["corpora"].values())
    printed = shepherd("eval", run).stdout.splitlines()
    assert (printed[0], printed[-1].split("\t")[0]) == (corpus, "lowest")


@pytest.mark.parametrize("option", [("--tune",), ("--questions", "mine.jsonl")])
def test_what_is_for_one_file_is_refused_for_two(shepherd, corpus, option):
    done = shepherd("eval", corpus, corpus, *option)

    assert done.returncode == 2
    assert f"{option[0]} takes one file" in done.stderr


def test_relevance_shows_what_thresholds_keep(shepherd, talks):
    found = json.loads(shepherd("eval", talks, "--relevance", "--json").stdout)["relevance"]

    assert found["area"] == 1.0
    [kept] = [row for row in found["kept"] if row["threshold"] == 0.3]
    assert (kept["evidence"], kept["unanswerable"]) == (1.0, 0.0)
    printed = shepherd("eval", talks, "--relevance").stdout
    assert "0.3\t100.0\t" in printed


def test_relevance_needs_questions_of_another_conversation(shepherd, corpus, talks, tmp_path):
    done = shepherd("eval", corpus, "--relevance")
    assert done.returncode == 2
    assert "one conversation alone" in done.stderr
    run = str(tmp_path / "run.jsonl")
    shepherd("eval", talks, "--output", run)
    assert "a run has no memories" in shepherd("eval", run, "--relevance").stderr


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
