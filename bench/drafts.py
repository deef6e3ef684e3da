"""Measure drafts: answers that repeat what was said, and one that doesn't, by models that recite them.

Every side gets the same prompt and says the same answer, so only tokens per batch and per second differ.
The model recites (recited_models.py), because no model of random weights repeats anything. Each round starts
every side anew: some of llama-server's modes remember the answers to earlier requests. Speed is tokens per
second that the process computed, on one thread: the clock also shows what else the machine does.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import recited_models
from bench.engines import Library, LlamaServer, Side, Turn

_PASSAGE = (
    "The harbour froze early that year. Ships from the south lay at the quay until April, and their crews, "
    "who had been promised wages by the week, spent what they had in the taverns along Mill Street. In the "
    "second week of January the mayor opened the old granary to them. He had beds carried in and a stove "
    "lit, and paid for it himself; the council, which met twice about the matter, could not agree on whose "
    "duty it was."
)
_CHANGES = (("harbour", "river"), ("April", "May"), ("Mill Street", "Church Lane"), ("mayor", "bishop"))
_CODE = '''\
def longest_run(values):
    """Return the first index and the length of the longest run of equal values."""
    best_start = best_length = 0
    start = 0
    for i, value in enumerate(values):
        if i and value != values[i - 1]:
            start = i
        length = i - start + 1
        if length > best_length:
            best_start, best_length = start, length
    return best_start, best_length
'''
_TASKS = (
    ("Repair the roof of the barn", "Ann Weber", "in_progress", False),
    ("Order seed potatoes for the lower field", "Karim Diallo", "not_started", True),
    ("Sell the old tractor", "Ann Weber", "finished", False),
    ("Have the well water tested", "Karim Diallo", "in_progress", True),
)
_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "assigned_to": {"type": "string"},
            "status": {"enum": ["not_started", "in_progress", "finished"]},
            "needs_a_decision": {"type": "boolean"},
        },
        "required": ["title", "assigned_to", "status", "needs_a_decision"],
    },
}
_FREE = (
    "Bread rises because yeast eats sugar and breathes out gas. The gas is caught in the dough by gluten, a "
    "mesh that forms when flour is wetted and worked. Warmth speeds all of this up, salt slows it down, and "
    "too long a wait lets the mesh tear, so that a loaf which stood overnight on the stove comes out flat. "
    "Cold dough takes longer and tastes better."
)


@dataclass(frozen=True)
class Talk:
    """A question, and the model's answer to it."""

    name: str
    question: str
    answer: str
    schema: Mapping[str, Any] | None = None
    repeats: bool = True
    # A second model drafts, which recites the same, or something else.
    by_model: bool = False
    # The first answer in which it drafts, rather than the second.
    is_first: bool = False
    # Of the speed without drafts, on one thread of a CPU, where a batch of 16 takes as long as six of one.
    least_ratio: float = 1.5


def talks() -> list[Talk]:
    """All of them, free text last."""
    changed, renamed = _PASSAGE, _CODE
    for old, new in _CHANGES:
        changed = changed.replace(old, new)
    for old, new in (("longest_run", "longest_plateau"), ("best_length", "top_length")):
        renamed = renamed.replace(old, new)
    quoted = ". ".join(_PASSAGE.split(". ")[1:3])
    wishes = ", ".join(f"{old} to {new}" for old, new in _CHANGES)
    tasks = "; ".join(
        f"{title} ({who}), {status.replace('_', ' ')}{', to be decided' if is_open else ''}"
        for title, who, status, is_open in _TASKS
    )
    keys = tuple(_SCHEMA["items"]["properties"])  # type: ignore[index]
    found = json.dumps([dict(zip(keys, one, strict=True)) for one in _TASKS])
    return [
        Talk("repeat with changes", f"Repeat this text, and change {wishes}: {_PASSAGE}", changed),
        Talk("quote a passage", f"{_PASSAGE}\n\nWhat did the mayor do? Quote it.", f'It says: "{quoted}."'),
        Talk("JSON by a schema", f"Write this list of tasks as JSON: {tasks}.", found, _SCHEMA),
        Talk("edit code", f"Call it longest_plateau, and best_length top_length:\n\n{_CODE}", renamed),
        Talk(
            "free text",
            f"{_PASSAGE}\n\nSomething else: why does bread rise?",
            _FREE,
            repeats=False,
            least_ratio=0.98,
        ),
        *(
            Talk(
                f"free text, by a draft model{which}",
                f"{_PASSAGE}\n\nSomething else: why does bread rise?",
                _FREE,
                repeats=False,
                by_model=True,
                is_first=bool(which),
                least_ratio=1.2,
            )
            for which in (", first answer", "")
        ),
    ]


@dataclass
class Row:
    """The figures of one side in one talk, by round."""

    per_s: list[float] = field(default_factory=list)
    per_cpu_s: list[float] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    tokens: int = 0

    def add(self, turn: Turn, n: int) -> None:
        """One answer of n tokens; the first comes with the prompt."""
        self.tokens = n
        self.per_s.append((n - 1) / (turn.inner_said_s or turn.said_s))
        self.per_cpu_s.append(n / turn.cpu_s if turn.cpu_s else self.per_s[-1])
        self.drafted.append(turn.drafted)
        self.accepted.append(turn.accepted)

    @property
    def per_batch(self) -> float:
        """Tokens per batch, of all rounds."""
        return self.tokens * len(self.per_s) / (self.tokens * len(self.per_s) - sum(self.accepted))

    @property
    def speed(self) -> float:
        """Tokens per second that was computed, the best of all rounds."""
        return max(self.per_cpu_s)

    def summary(self) -> dict[str, Any]:
        """Return the part of it that goes into a file."""
        return {
            "tokens": self.tokens,
            "tokens_per_batch": round(self.per_batch, 2),
            "tokens_per_s": _best_and_median(self.per_s),
            "tokens_per_cpu_s": _best_and_median(self.per_cpu_s),
            "drafted": self.drafted,
            "accepted": self.accepted,
        }


def _best_and_median(values: list[float]) -> dict[str, float]:
    return {"best": round(max(values), 1), "median": round(statistics.median(values), 1)}


# A draft model that is always wrong may cost so much, with what it costs to find out.
_LEAST_WRONG = 0.98

Rows = dict[str, dict[str, Row]]
_BY_MODEL, _BY_WRONG_MODEL = "Shepherd, draft model", "Shepherd, wrong draft model"
_THEIRS_BY_MODEL = "llama-server, draft model"
_WAYS = ("none", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")


def makers(
    model: Path, folder: Path, *, has_llama_server: bool, n_threads: int = 1, on_gpu: bool = False
) -> dict[str, Callable[[], Side]]:
    """Return makers of each side: Shepherd's modes, and llama-server's ways to draft."""
    options: dict[str, Any] = {
        "model": str(model),
        "n_ctx": 4096,
        "n_threads": n_threads,
        "n_batch": 512,
        "slots": 1,
        "cache_bytes": 512 << 20,
        "user": "steve",
    }

    def ours(name: str, mode: str, draft_model: Path | None = None) -> Callable[[], Side]:
        more = {"draft_model": str(draft_model)} if draft_model else {}
        return lambda: Library(name, "shepherd", {**options, "draft": mode, **more})

    def theirs(name: str, *way: str) -> Callable[[], Side]:
        more = [*way, *(["-ngl", "999", "-ngld", "999"] if on_gpu else [])]
        return lambda: LlamaServer(name, {**options, "drafts": more}, folder)

    found = {
        "Shepherd": ours("Shepherd", "auto"),
        "Shepherd, off": ours("Shepherd, off", "off"),
        "Shepherd, always": ours("Shepherd, always", "always"),
        _BY_MODEL: ours(_BY_MODEL, "auto", _drafting(model)),
        _BY_WRONG_MODEL: ours(_BY_WRONG_MODEL, "auto", _wrong(model)),
    }
    if has_llama_server:
        found |= {f"llama-server, {way}": theirs(f"llama-server, {way}", "--spec-type", way) for way in _WAYS}
        found[_THEIRS_BY_MODEL] = theirs(_THEIRS_BY_MODEL, "--model-draft", str(_drafting(model)))
    return found


def _drafting(model: Path) -> Path:
    return model.with_name(f"drafts-for-{model.name}")


def _wrong(model: Path) -> Path:
    return model.with_name(f"wrong-for-{model.name}")


def _sides_of(talk: Talk, sides: Mapping[str, Callable[[], Side]]) -> dict[str, Callable[[], Side]]:
    both = ("Shepherd, off", "llama-server, none")
    by_model = (_BY_MODEL, _BY_WRONG_MODEL, _THEIRS_BY_MODEL)
    return {name: make for name, make in sides.items() if name in both or (name in by_model) == talk.by_model}


def measure(
    model: Path, size: recited_models.Size, sides: Mapping[str, Callable[[], Side]], rounds: int
) -> Rows:
    """All talks with all sides, which are started for each answer."""
    rows: Rows = {}
    for talk in talks():
        start, ids = _prompt(model, talk, size)
        if talk.by_model:
            ids = _recited_by_draft_models(model, size, start, ids)
        recited_models.recite(model, size, start, ids)
        for n in range(rounds):
            for name, make in list(_sides_of(talk, sides).items())[:: -1 if n % 2 else 1]:
                rows.setdefault(talk.name, {}).setdefault(name, Row()).add(
                    _turn(make, talk, len(ids)), len(ids)
                )
    return rows


def _recited_by_draft_models(model: Path, size: recited_models.Size, start: int, ids: list[int]) -> list[int]:
    """Make one model that drafts say this as well, and another one say it backwards; what all can say."""
    sizes = recited_models.SIZES
    small = next(sizes[b] for a, b in recited_models.DRAFTING.items() if sizes[a] == size)
    said = ids[: small.n_embd // 2]
    for path, words in ((_drafting(model), said), (_wrong(model), said[::-1])):
        if not path.exists():
            recited_models.write(small, path)
        recited_models.recite(path, small, start, words)
    return said


def _prompt(model: Path, talk: Talk, size: recited_models.Size) -> tuple[int, list[int]]:
    """The length of the prompt, and the ids of the answer with the end of the turn."""
    from shepherd.inference import Engine
    from shepherd.types import Message

    with Engine(model, is_trusted=True) as engine:
        ids = engine.tokenize(talk.answer)[: size.n_embd // 2]
        return engine.count_prompt_tokens([Message("user", talk.question)]), ids


def _turn(make: Callable[[], Side], talk: Talk, n: int) -> Turn:
    side = make()
    try:
        # The first answer of a process also loads the weights. Then the prompt is read.
        side.turn([["user", "hello"]], 4)
        # A draft model has shown how good it is after the first answer.
        taught = n if talk.by_model and not talk.is_first else 1
        side.turn([["user", talk.question]], taught, talk.schema)
        turn = side.turn([["user", talk.question]], n, talk.schema)
    finally:
        side.close()
    said = f"{side.name}, {talk.name}: it said {turn.text!r}"
    assert turn.text, said
    assert talk.answer.startswith(turn.text), said
    return turn


def show(kind: str, rows: Rows) -> None:
    """Print a table."""
    columns = "tokens per batch  tokens/CPU s: best, median  tokens/s: best  drafted  accepted"
    print(f"\n\n{kind}, drafts\n{'':<34}{columns}")
    for talk, sides in rows.items():
        print(talk)
        for name, row in sides.items():
            median = statistics.median(row.per_cpu_s)
            print(
                f"  {name:<32}{row.per_batch:16.2f}{row.speed:19,.1f} {median:8,.1f}{max(row.per_s):16,.1f}"
                f"{statistics.median(row.drafted):9,.0f}{statistics.median(row.accepted):10,.0f}",
                flush=True,
            )


def check(rows: Rows, *, is_judged: bool) -> None:
    """Tokens per batch do not depend on the machine where all candidates are drafted; speed does."""
    for talk in talks():
        sides = rows[talk.name]
        if talk.repeats:
            assert sides["Shepherd, always"].per_batch >= 2.0, talk.name
        if not is_judged:
            continue
        without = sides["Shepherd, off"].speed
        if talk.by_model:
            wrong = sides[_BY_WRONG_MODEL].speed / without
            assert wrong >= _LEAST_WRONG, f"{talk.name}: {wrong:.2f} times the speed with a wrong one"
        ratio = sides[_BY_MODEL if talk.by_model else "Shepherd"].speed / without
        if talk.repeats:
            assert sides["Shepherd"].per_batch >= 2.0, talk.name
        assert ratio >= talk.least_ratio, f"{talk.name}: {ratio:.2f} times the speed"


def write(runs: Mapping[str, Rows], path: Path) -> None:
    """Add the figures to a file that test_turns.py has written, or begin one."""
    data = json.loads(path.read_text()) if path.exists() else {}
    data["drafts"] = {
        kind: {talk: {name: row.summary() for name, row in sides.items()} for talk, sides in rows.items()}
        for kind, rows in runs.items()
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
