"""Run of an evaluation: each conversation in a database file of its own, searched through Memory.

`tune` chooses rescoring weights; each fold is scored on the conversation left out.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shepherd._native.rank import ASSISTANT_WEIGHTS, DEFAULT_WEIGHTS, Weights
from shepherd._native.store import Connection, Recall
from shepherd._native.text import keywords
from shepherd.errors import UsageError, reason_of
from shepherd.evaluation.corpora import Conversation, Question, Turn
from shepherd.memory import Memory
from shepherd.paths import write_atomically

if TYPE_CHECKING:
    from shepherd.memory.vectors import VectorSettings

__all__ = [
    "DEPTH",
    "GRID",
    "METRICS",
    "Answered",
    "Comparison",
    "Fold",
    "Interval",
    "Rows",
    "Stored",
    "answered",
    "check_output",
    "compare",
    "evaluate",
    "interval",
    "is_run",
    "ndcg_at",
    "read_run",
    "recall_at",
    "reciprocal_rank",
    "stored",
    "texts_of",
    "tune",
    "write_run",
]

# Contents of a memory: one turn, or two turns of a session as question and answer.
Rows = Literal["turns", "exchanges"]

DEPTH = 20
METRICS = ("recall@3", "recall@5", "recall@10", "mrr", "ndcg@10")
_RESAMPLES = 2000
_SEED = 20_240_601
_USER = "eval"
_VECTORS_S = 3600.0  # for a conversation of a thousand turns and a large model without a GPU
# Values that tune() tries.
GRID: dict[str, tuple[float, ...]] = {
    "answer": (0.05, 0.4, 0.55, 0.7, 0.85, 1.0),
    "exchange": (0.05, 0.15, 0.4, 0.7),
    "session": (0.0, 0.15, 0.3, 0.45),
    "previous": (0.0, 0.05, 0.15, 0.3),
    "next": (0.0, 0.05, 0.1, 0.2, 0.3),
    "second": (0.0, 0.075, 0.15, 0.225),
    "asking": (0.7, 0.8, 0.9, 1.0),
    "label": (1.0, 1.15, 1.3),
}
_AIM = ("recall@5", "recall@10", "mrr")
# The names of strftime depend on the locale.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and the ids of the turns found for it, best first."""

    conversation: str
    question: str
    category: str
    evidence: list[str]
    found: list[str]
    metrics: dict[str, float]
    microseconds: float
    # File of its conversation, of a run over several.
    corpus: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A conversation in a database, with the memory of each turn."""

    memory: Memory
    path: Path
    memory_of: dict[str, int]
    turn_of: dict[int, str]

    def evidence(self, question: Question) -> set[str]:
        """Return the evidence, each memory as its first turn."""
        return {self.turn_of[self.memory_of[id]] for id in question.evidence}


def evaluate(
    conversations: Sequence[Conversation],
    *,
    rows: Rows = "turns",
    dates: bool = True,
    recency_floor: float = 0.9,
    vectors: VectorSettings | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Answered]:
    """Return every question's answer, in order. `dates` adds the day of a turn to its text."""
    results = []
    for number, conversation in enumerate(conversations, 1):
        progress(f"conversation {number} of {len(conversations)} …")
        with stored(
            conversation, rows=rows, dates=dates, recency_floor=recency_floor, vectors=vectors
        ) as here:
            for question in conversation.questions:
                results.append(_ask(here, conversation.id, question))
    progress("")
    return results


@contextmanager
def stored(
    conversation: Conversation,
    *,
    rows: Rows = "turns",
    dates: bool = True,
    recency_floor: float = 0.9,
    vectors: VectorSettings | None = None,
) -> Iterator[Stored]:
    """Yield the conversation in a temporary database."""
    with tempfile.TemporaryDirectory(prefix="shepherd-eval-") as folder:
        path = Path(folder, "memory.db")
        with Memory(
            path,
            user_id=_USER,
            recency_floor=recency_floor,
            vectors=vectors,
            # The questions are asked of all turns.
            keeps_secrets=True,
            clock=lambda: conversation.now,
        ) as memory:
            memory_of: dict[str, int] = {}
            for turns in _grouped(conversation.turns, rows):
                question, answer = texts_of(turns, dates=dates)
                if not question.strip() and not answer.strip():
                    continue
                id = memory.store_memory(
                    question,
                    answer,
                    timestamp=turns[0].time,
                    session=turns[0].session,
                    source=turns[0].source,
                )
                assert id is not None
                memory_of |= {turn.id: id for turn in turns}
            if not memory.settle_vectors(_VECTORS_S):
                raise UsageError(
                    f"conversation {conversation.id}: not all vectors after {_VECTORS_S:.0f} s",
                    hint="take a smaller model, or fewer conversations",
                )
            turn_of: dict[int, str] = {}
            for turn_id, id in memory_of.items():
                turn_of.setdefault(id, turn_id)
            yield Stored(memory, path, memory_of, turn_of)


def _grouped(turns: Iterable[Turn], rows: Rows) -> Iterator[list[Turn]]:
    waiting: list[Turn] = []
    for turn in turns:
        if waiting and (waiting[0].session != turn.session or waiting[0].speaker == turn.speaker):
            yield waiting
            waiting = []
        waiting.append(turn)
        if rows == "turns" or len(waiting) == 2:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def texts_of(turns: list[Turn], *, dates: bool) -> tuple[str, str]:
    """Return question and answer of a memory of one or two turns."""
    texts = [f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text for turn in turns]
    if dates:
        texts = [f"{text} ({_day(turn.time)})" for text, turn in zip(texts, turns, strict=True)]
    return texts[0], texts[1] if len(texts) > 1 else turns[0].answer


def _day(timestamp: int) -> str:
    moment = datetime.fromtimestamp(timestamp, timezone.utc)
    return f"{moment.day:02} {_MONTHS[moment.month - 1]} {moment.year}"


def _ask(here: Stored, conversation: str, question: Question) -> Answered:
    began = time.perf_counter()
    results = here.memory.search(question.text, DEPTH)
    microseconds = (time.perf_counter() - began) * 1e6
    return answered(here, conversation, question, [result.id for result in results], microseconds)


def answered(
    here: Stored, conversation: str, question: Question, ids: Iterable[int], microseconds: float
) -> Answered:
    """Return the measures of one question, from the memories found for it."""
    evidence = here.evidence(question)
    found = [here.turn_of[id] for id in ids]
    values = {
        **{f"recall@{k}": recall_at(k, found, evidence) for k in (3, 5, 10)},
        "mrr": reciprocal_rank(found, evidence),
        "ndcg@10": ndcg_at(10, found, evidence),
    }
    return Answered(
        conversation, question.text, question.category, sorted(evidence), found, values, microseconds
    )


# ---- measures


def recall_at(k: int, found: Sequence[str], evidence: Collection[str]) -> float:
    """Return the share of the evidence among the first k."""
    return sum(one in evidence for one in found[:k]) / len(evidence)


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """Return 1 / the rank of the first evidence; 0 without any."""
    return next((1.0 / place for place, one in enumerate(found, 1) if one in evidence), 0.0)


def ndcg_at(k: int, found: Sequence[str], evidence: Collection[str]) -> float:
    """Return the discounted gain of the first k over that of the best order; each evidence counts one."""
    gain = sum(1.0 / math.log2(place + 1) for place, one in enumerate(found[:k], 1) if one in evidence)
    best = sum(1.0 / math.log2(place + 1) for place in range(1, min(k, len(evidence)) + 1))
    return gain / best


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval over resampled questions."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean difference over the same questions, and the probability that chance gives one as large."""

    difference: Interval
    p_value: float


def interval(values: Sequence[float]) -> Interval:
    """Return the percentile bootstrap over questions; the same values give the same interval."""
    import numpy as np

    sample = np.asarray(values, float)
    rng = np.random.default_rng(_SEED)
    means = np.array([sample[rng.integers(0, len(sample), len(sample))].mean() for _ in range(_RESAMPLES)])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(sample.mean()), float(low), float(high))


def compare(values: Sequence[float], baseline: Sequence[float]) -> Comparison:
    """Compare two runs over the same questions in the same order by a two-sided sign-flipping test."""
    import numpy as np

    differences = np.asarray(values, float) - np.asarray(baseline, float)
    rng = np.random.default_rng(_SEED)
    observed = abs(differences.mean())
    signs = rng.integers(0, 2, (_RESAMPLES, len(differences)), np.int8) * 2 - 1
    extreme = int((np.abs((signs * differences).mean(axis=1)) >= observed - 1e-12).sum())
    return Comparison(interval(differences.tolist()), (extreme + 1) / (_RESAMPLES + 1))


# ---- runs in files


def write_run(path: Path, results: Iterable[Answered]) -> None:
    """Write one JSON line per question, all or none, to a path that `check_output` has accepted."""
    lines = (json.dumps(asdict(result), ensure_ascii=False) + "\n" for result in results)
    try:
        if (stream := _own_stream(path)) is not None:
            with os.fdopen(os.dup(stream), "w", encoding="utf-8") as shared:
                shared.writelines(lines)
        elif path.exists() and not path.is_file():  # a named pipe
            with path.open("w", encoding="utf-8") as device:
                device.writelines(lines)
        else:
            write_atomically(Path(os.path.realpath(path)), "".join(lines).encode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a file that can be written") from error


def _own_stream(path: Path) -> int | None:
    """Return the number of the output stream that `path` is, such as /dev/stdout.

    If it is redirected to a file, replacing that file would lose what is printed.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    for stream in (1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(stream)) and not stat.S_ISDIR(found.st_mode):
                return stream
    return None


def check_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise UsageError for an output that can't be written, or would replace anything but an earlier run."""
    hint = "name a new file, or an earlier run that is to be replaced"
    if _own_stream(path) is not None:
        return
    try:
        if path.is_dir():
            raise UsageError(f"{path}: this is a folder", hint="name a file in it, such as run.jsonl")
        if not path.is_file():
            _require_writable(path)
            return
        if any(path.samefile(one) for one in inputs if one.exists()):
            raise UsageError(f"{path}: this file is read, so it can't be the output", hint=hint)
        if path.stat().st_size and not is_run(path):
            raise UsageError(f"{path}: it exists, and is no run of shepherd eval", hint=hint)
        _require_writable(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=hint) from error


def _require_writable(path: Path) -> None:
    """Raise UsageError if a file can't be put there, or a device can't be written."""
    is_device = path.exists() and not path.is_file()
    target = path if is_device else Path(os.path.realpath(path)).parent
    if not (is_device or target.is_dir()):
        raise UsageError(f"{path}: there is no folder {target}", hint="create it, or name a file elsewhere")
    if not os.access(target, os.W_OK):
        raise UsageError(f"{path}: {target} can't be written", hint="name a file elsewhere")


def is_run(path: Path) -> bool:
    """Return True if a file begins as those of write_run."""
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "metrics" in first and "found" in first


def read_run(path: Path) -> list[Answered]:
    """Return the results in a file of write_run."""
    try:
        with path.open(encoding="utf-8") as file:
            return [Answered(**json.loads(line)) for line in file if line.strip()]
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}", hint="name a run that --output wrote") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path}: not a run of shepherd eval", hint="write one with shepherd eval FILE --output RUN.jsonl"
        ) from error


# ---- the choice of weights


@dataclass(frozen=True, slots=True)
class Fold:
    """Weights chosen without one conversation, and its results with them; "" if none was left out."""

    left_out: str
    weights: Weights
    results: list[Answered]


class _Open:
    """A stored conversation that can be searched with any weights; results are cached."""

    def __init__(self, stack: ExitStack, conversation: Conversation, rows: Rows, dates: bool) -> None:
        self.conversation = conversation
        self.here: Stored = stack.enter_context(stored(conversation, rows=rows, dates=dates))
        self.connection = stack.enter_context(Connection(str(self.here.path), read_only=True))
        [(self.tenant,)] = self.connection.execute("SELECT number FROM tenants")
        self.recall = Recall()
        self.known: dict[Weights, list[Answered]] = {}

    def ask(self, weights: Weights) -> list[Answered]:
        if weights not in self.known:
            self.known[weights] = [
                answered(self.here, self.conversation.id, question, self._ids(question.text, weights), 0.0)
                for question in self.conversation.questions
            ]
        return self.known[weights]

    def _ids(self, text: str, weights: Weights) -> list[int]:
        hits = self.recall.search(
            self.connection, self.tenant, keywords(text), DEPTH, self.conversation.now, weights=weights
        )
        return [hit[0] for hit in hits]


def tune(
    conversations: Sequence[Conversation],
    *,
    rows: Rows = "turns",
    dates: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Fold]:
    """Return one fold per conversation left out, then one fitted to all.

    Coordinate descent: one weight after the other gets the value of its grid that is best on the training
    conversations, until none changes.
    """
    with ExitStack() as stack:
        opened = [_Open(stack, conversation, rows, dates) for conversation in conversations]
        folds = []
        for left_out in [*opened, None]:
            progress(f"without {left_out.conversation.id} …" if left_out else "with all …")
            training = [one for one in opened if one is not left_out]
            weights = _descend(training)
            tested = [left_out] if left_out else opened
            results = [result for one in tested for result in one.ask(weights)]
            folds.append(Fold(left_out.conversation.id if left_out else "", weights, results))
        progress("")
        return folds


def _descend(training: Sequence[_Open]) -> Weights:
    if not training:
        return DEFAULT_WEIGHTS
    # The same weights are for every memory, so a talk with an assistant begins with those of such talks.
    weights = max((DEFAULT_WEIGHTS, ASSISTANT_WEIGHTS), key=lambda one: _worth(training, one))
    while True:
        before = weights
        for name, grid in GRID.items():
            # A tie keeps the present value.
            values = (getattr(weights, name), *grid)
            weights = max(
                (weights._replace(**{name: value}) for value in values), key=lambda one: _worth(training, one)
            )
        if weights == before:
            return weights


def _worth(training: Sequence[_Open], weights: Weights) -> float:
    results = [result for one in training for result in one.ask(weights)]
    return sum(sum(result.metrics[name] for name in _AIM) for result in results) / len(results)
