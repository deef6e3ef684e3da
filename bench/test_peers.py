"""How good and how fast is recall beside what else finds texts by words?

Time: 100,000 generated memories of one user (SHEPHERD_BENCH_MEMORIES), three best, each side in a process of
its own, in turns of 25 questions; four rounds, of which the first warms up. Quality: labelled conversations,
one text per turn with speaker and day, recall and reciprocal rank as `shepherd eval` measures them. Those are
not part of the project: SHEPHERD_BENCH_CONVERSATIONS names a file of the form described in
docs/explanation/how-recall-works.md.

    pip install 'shepherd-llm[bench]'
    SHEPHERD_BENCH_CONVERSATIONS=corpus.jsonl python -m pytest bench/test_peers.py --benchmark-only -s

mem0 is not among the sides: its keyword search encodes texts with a model that is downloaded on first use
(fastembed's Qdrant/bm25), lemmatises with another (spaCy's), and ranks only what a third one, the embedder,
has found; without a network none of them is there, and none of its search runs.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import pytest

from bench.peers import SIDES, Process, is_there, versions
from bench.small import IN_SMALL, count, sized
from shepherd.benchmark import corpus
from shepherd.evaluation import Conversation, read_corpus
from shepherd.evaluation.runs import recall_at, reciprocal_rank, texts_of

N_MEMORIES = count("SHEPHERD_BENCH_MEMORIES", 100_000, 2_000)
N_QUESTIONS = 100
ROUNDS = sized(4, 2)
TURN = 25
# Of sides that take tens of milliseconds, so many questions a turn tell as much.
SLOW_TURN, SLOW_US = 2, 20_000.0
CONVERSATIONS = os.environ.get("SHEPHERD_BENCH_CONVERSATIONS", "")
UNLABELLED = not (CONVERSATIONS or IN_SMALL)


def _write(path: Path, texts: list[tuple[int, str, str]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in texts), encoding="utf-8")
    return path


def _print_absent() -> None:
    for side in SIDES:
        if not is_there(side):
            print(f"  {side:<16} {versions(side)}")


def test_time_of_a_search(benchmark: Any, tmp_path: Path) -> None:
    data = corpus.build(N_MEMORIES, 1, N_QUESTIONS)
    texts = [(memory.timestamp, "", f"{memory.question} {memory.answer}") for memory in data.memories]
    path = _write(tmp_path / "texts.jsonl", texts)
    questions = [" ".join(words) for _, words in data.questions]
    sides: dict[str, Process] = {}
    times: dict[str, list[float]] = {}
    turns: dict[str, int] = {}
    try:
        for side in filter(is_there, SIDES):  # one after the other: they would slow each other down
            sides[side] = Process(side, path)
        for side, process in sides.items():
            found = process.ask(questions[:4], 3)
            assert all(ids for _, ids in found), f"{side} found nothing"
            turns[side] = SLOW_TURN if min(one for one, _ in found) > SLOW_US else TURN

        def measure() -> None:
            for number in range(ROUNDS):
                for start in range(0, N_QUESTIONS, TURN):
                    for side in sorted(sides, reverse=(start // TURN + number) % 2 == 0):
                        answers = sides[side].ask(questions[start : start + turns[side]], 3)
                        if number:
                            times.setdefault(side, []).extend(one for one, _ in answers)

        benchmark.pedantic(measure, rounds=1)
    finally:
        for process in sides.values():
            process.stop()

    print(f"\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")
    print(f"{N_MEMORIES:,} memories of one user, {N_QUESTIONS} questions, data {data.digest}, us")
    ours = statistics.median(times["shepherd, hot"])
    for side, process in sides.items():
        ordered = sorted(times[side])
        p50, p99 = statistics.median(ordered), ordered[len(ordered) * 99 // 100]
        rate = N_MEMORIES / process.seconds_to_store
        print(
            f"  {side:<16} p50 {p50:10.1f}   p99 {p99:10.1f}   {p50 / ours:8.1f} times ours, hot"
            f"   stored {rate:9,.0f} a second   {versions(side)}"
        )
    _print_absent()


def _made_up(path: Path) -> Path:
    """A short conversation in the form of the labelled ones; its figures mean nothing."""
    said = ["Do you have a dog?", "Rex is his name.", "It rains here.", "We moved to Dallas in May."]
    said += [f"Today I read chapter {number} of the book." for number in range(20)]
    turns = [
        {"id": str(number), "session": 1, "time": 100 + number, "speaker": "Anna", "text": text}
        for number, text in enumerate(said)
    ]
    questions = [
        {"question": "When did Anna move to Dallas?", "evidence": ["3"], "category": "time"},
        {"question": "Which dog has Anna?", "evidence": ["0", "1"], "category": "pets"},
    ]
    path.write_text(json.dumps({"id": "a", "now": 10_000, "turns": turns, "questions": questions}) + "\n")
    return path


@pytest.mark.skipif(UNLABELLED, reason="NO QUALITY MEASURED: SHEPHERD_BENCH_CONVERSATIONS is not set")
def test_quality_on_labelled_conversations(benchmark: Any, tmp_path: Path) -> None:
    conversations = read_corpus(
        Path(CONVERSATIONS) if CONVERSATIONS else _made_up(tmp_path / "made-up.jsonl")
    )
    measured: dict[str, list[tuple[float, float, float, float]]] = {}

    def measure() -> None:
        for number, conversation in enumerate(conversations):
            texts = [
                (turn.time, turn.session, texts_of([turn], dates=True)[0]) for turn in conversation.turns
            ]
            path = _write(tmp_path / f"{number}.jsonl", texts)
            for side in filter(is_there, SIDES):
                process = Process(side, path)
                try:
                    measured.setdefault(side, []).extend(_scores(process, conversation))
                finally:
                    process.stop()

    benchmark.pedantic(measure, rounds=1)

    n_questions = len(measured["stdlib FTS5"])
    made_up = "" if CONVERSATIONS else ", MADE UP: NO QUALITY MEASURED"
    print(f"\n{n_questions} questions about {len(conversations)} conversations, a text per turn{made_up}")
    for side, rows in measured.items():
        r5, r10, mrr, microseconds = zip(*rows, strict=True)
        print(
            f"  {side:<16} R@5 {100 * statistics.mean(r5):5.1f}   R@10 {100 * statistics.mean(r10):5.1f}"
            f"   MRR {statistics.mean(mrr):.3f}   p50 {statistics.median(microseconds):8.1f} us"
        )
    _print_absent()


def _scores(process: Process, conversation: Conversation) -> list[tuple[float, float, float, float]]:
    ids = [turn.id for turn in conversation.turns]
    questions = [question.text for question in conversation.questions]
    rows = []
    for question, (microseconds, found) in zip(
        conversation.questions, process.ask(questions, 10), strict=True
    ):
        names = [ids[number] for number in found]
        evidence = set(question.evidence)
        rows.append(
            (
                recall_at(5, names, evidence),
                recall_at(10, names, evidence),
                reciprocal_rank(names, evidence),
                microseconds,
            )
        )
    return rows
