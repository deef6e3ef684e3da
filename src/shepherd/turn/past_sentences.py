"""Answers to questions about time: what a fact was once, since when it holds, and what changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

from shepherd.memory.periods import unit_named
from shepherd.turn.fact_sentences import fact_clause, past_clause, sentence
from shepherd.types import PastFact

__all__ = ["told_of_past"]

_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def told_of_past(found: Sequence[PastFact]) -> str:
    """Return the sentences that tell facts of another time: "Until 3 May 2026, you lived in Berlin."."""
    return " ".join(dict.fromkeys(_told(fact) for fact in found))


def _told(fact: PastFact) -> str:
    is_over = fact.until is not None
    clause = (past_clause if is_over else fact_clause)(fact.key, fact.value).rstrip(".")
    since = _moment(fact.since)
    if fact.kind == "since":
        return f"Since {since}, as far as I know: {clause}."
    if fact.kind == "known":
        return f"I don't know. The earliest I know of is from {since}: {clause}{' then' if is_over else ''}."
    if fact.kind == "then":
        return f"{sentence(_time(fact.time))}, {past_clause(fact.key, fact.value).rstrip('.')}."
    if fact.until is None:
        return f"As of {since}, {clause}."
    until = _moment(fact.until)
    return f"From {since} to {until}, {clause}." if fact.kind == "began" else f"Until {until}, {clause}."


def _time(text: str) -> str:
    """Return a day, a month, a year or two days as part of a sentence: "in March 2026"."""
    days = [_day(date.fromisoformat(day)) for day in _ISO_DAY.findall(text)]
    if not days:
        return f"in {text}"
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[1]}"


def _moment(moment: int) -> str:
    """Return the day of a time, or the month or the year if no more was named."""
    day, unit = datetime.fromtimestamp(moment), unit_named(moment)
    return _day(day) if unit == "day" else f"{day:%B %Y}" if unit == "month" else f"{day:%Y}"


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
