"""Lines that people type, and what may and must become of them. See test_corpus.py for their fields."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent


def lines_of(file: str, *kinds: str) -> list[dict]:
    lines = [json.loads(line) for line in (FOLDER / file).read_text("utf-8").splitlines()]
    return [line for line in lines if line["kind"] in kinds]


def is_learned(line: dict, facts: set[tuple[str, str]]) -> bool:
    """Return whether the facts have every key and value that the line is to teach."""
    return all(
        any(key in name and value.casefold() in said.casefold() for name, said in facts)
        for key, value in line["want"]
    )


def false_facts(line: dict, facts: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the facts that may not come of a line of kind "none" or "ended"."""
    if line["kind"] == "none":
        return facts
    value, _, key = line["never"].partition("@")
    return {
        fact for fact in facts if value and value.casefold() in fact[1].casefold() and key in ("", fact[0])
    }
