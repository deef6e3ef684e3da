"""Labelled conversations from files: JSON lines of our own format, LongMemEval's JSON, or an export.

    {"id": …, "now": …, "turns": [{"id": …, "session": …, "time": unix seconds, "speaker": …, "text": …,
     "caption": …}], "questions": [{"question": …, "evidence": [ids of turns], "category": …}]}

one conversation a line. LongMemEval (github.com/xiaowu0162/LongMemEval) is one JSON list whose entries have
`haystack_sessions`. An export is what `shepherd memory export` writes; its questions are JSON lines
{"question": …, "evidence": [ids of memories, long or as `shepherd memory list` shows them], "category": …}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from shepherd.errors import UsageError, reason_of
from shepherd.sequences import sequence_of

__all__ = ["Conversation", "Question", "Turn", "read_corpus"]

# Dates that datetime supports in any time zone, even a year earlier.
_EARLIEST, _LATEST = (datetime(year, 1, 1, tzinfo=timezone.utc).timestamp() for year in (1000, 9000))
_FORMS = "expected conversations as docs/explanation/how-recall-works.md describes, LongMemEval, or an export"


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of one speaker, with the immediate answer if it has one."""

    id: str
    session: str
    time: int
    speaker: str
    text: str
    answer: str = ""
    # Writer of a memory of one's own; of a talk, the speakers' names say who is an assistant.
    source: str = "import"


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `evidence` are the ids of turns with its answer."""

    text: str
    evidence: tuple[str, ...]
    category: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns of one user in order, and questions about them asked at `now`."""

    id: str
    now: float
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_corpus(
    path: Path, questions: Path | None = None, *, leave_out: Callable[[str], object] = lambda question: None
) -> list[Conversation]:
    """Return the conversations that have questions with evidence; UsageError for an unknown format.

    `leave_out` is called with each question that has none among the turns, and so can't be measured.
    """
    entries = list(_objects(path))
    try:
        if questions is not None:
            found = [_from_export(entries, list(_objects(questions)), leave_out)]
        elif entries and all("haystack_sessions" in entry for entry in entries):
            found = [_from_longmemeval(entry, leave_out) for entry in entries]
        else:
            found = [_from_own_form(entry, leave_out) for entry in entries]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        what = f"no field {error}" if isinstance(error, KeyError) else "a field of another kind"
        raise UsageError(f"{path}: {what}", hint=_FORMS) from error
    for conversation in found:
        moments = (conversation.now, *(turn.time for turn in conversation.turns))
        if not all(_EARLIEST <= moment < _LATEST for moment in moments):
            raise UsageError(
                f"{path}: conversation {conversation.id[:40]!r} has a time that is not in unix seconds",
                hint="give `time` and `now` in seconds since 1970, not milliseconds",
            )
    usable = [conversation for conversation in found if conversation.questions]
    if not usable:
        raise UsageError(f"{path}: no question whose evidence is among the turns", hint=_FORMS)
    return usable


def _objects(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of JSON lines or of one JSON list."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}", hint="name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8", hint=_FORMS) from error
    if text.lstrip().startswith("["):
        lines: Iterable[tuple[int, str]] = [(1, text)]
    else:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    for number, line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of 5,000 digits
            what = "nested too deeply" if isinstance(error, RecursionError) else "not JSON"
            raise UsageError(f"{path}: line {number}: {what}", hint=_FORMS) from error
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, dict):
                raise UsageError(f"{path}: line {number}: not an object", hint=_FORMS)
            yield entry


def _from_own_form(entry: Mapping[str, Any], leave_out: Callable[[str], object]) -> Conversation:
    turns = tuple(
        Turn(
            str(turn["id"]),
            str(turn.get("session", "")),
            int(turn.get("time", 0)),
            str(turn.get("speaker", "")),
            " ".join(filter(None, (str(turn["text"]), str(turn.get("caption") or "")))),
            str(turn.get("answer", "")),
        )
        for turn in entry["turns"]
    )
    now = float(entry.get("now") or max((turn.time for turn in turns), default=0))
    questions = _questions(entry["questions"], _by_id(turns), leave_out)
    return Conversation(str(entry["id"]), now, turns, questions)


def _by_id(turns: Iterable[Turn]) -> dict[str, Turn]:
    return {turn.id: turn for turn in turns}


def _questions(
    entries: Iterable[Mapping[str, Any]], known: Mapping[str, Turn], leave_out: Callable[[str], object]
) -> tuple[Question, ...]:
    """Return the questions whose evidence is among the `known` turns, by the ids that name them."""
    found = []
    for entry in entries:
        evidence = tuple(dict.fromkeys(known[str(id)].id for id in entry["evidence"] if str(id) in known))
        if evidence:
            found.append(Question(str(entry["question"]), evidence, str(entry.get("category", ""))))
        else:
            leave_out(str(entry["question"]))
    return tuple(found)


# ---- LongMemEval


def _from_longmemeval(entry: Mapping[str, Any], leave_out: Callable[[str], object]) -> Conversation:
    turns: list[Turn] = []
    told, sessions = [], []
    ids = entry.get("haystack_session_ids") or [str(i) for i in range(len(entry["haystack_sessions"]))]
    dates = entry["haystack_dates"]
    for session, date, messages in zip(ids, dates, entry["haystack_sessions"], strict=True):
        for number, message in enumerate(messages, 1):
            turn = Turn(
                f"{session}:{number}", str(session), _moment(date), message["role"], message["content"]
            )
            turns.append(turn)
            told += [turn.id] if message.get("has_answer") else []
            sessions += [turn.id] if session in entry.get("answer_session_ids", ()) else []
    # Some questions are labelled by session only.
    evidence = tuple(dict.fromkeys(told or sessions))
    question = Question(str(entry["question"]), evidence, str(entry.get("question_type", "")))
    if not evidence:
        leave_out(question.text)
    now = float(_moment(entry["question_date"]))
    return Conversation(str(entry["question_id"]), now, tuple(turns), (question,) if evidence else ())


def _moment(date: str) -> int:
    # 2023/05/20 (Sat) 02:21
    day, *_, clock = date.split()
    moment = datetime.strptime(f"{day} {clock}", "%Y/%m/%d %H:%M")
    return int(moment.replace(tzinfo=timezone.utc).timestamp())


# ---- one's own memory


def _from_export(
    entries: list[Mapping[str, Any]],
    questions: list[Mapping[str, Any]],
    leave_out: Callable[[str], object],
) -> Conversation:
    turns = tuple(
        Turn(
            str(entry["id"]),
            str(entry.get("session", "")),
            int(entry["timestamp"]),
            "",
            str(entry["question"]),
            str(entry["answer"]),
            str(entry.get("source", "import")),
        )
        for entry in entries
        if entry.get("type") == "memory"
    )
    now = float(max((turn.time for turn in turns), default=0))
    numbered = {sequence: turn for turn in turns if (sequence := _number_of(turn.id))}
    return Conversation("memory", now, turns, _questions(questions, numbered | _by_id(turns), leave_out))


def _number_of(memory_id: str) -> str:
    """Return the number by which `shepherd memory` shows a memory of an export, which has longer ids."""
    return str(sequence_of(int(memory_id))) if memory_id.isdecimal() else ""
