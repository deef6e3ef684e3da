"""The lines of what is listed and read: facts, memories, parts of a plan."""

from __future__ import annotations

import time

import pytest
from textual.content import Content

from shepherd.commands.explain import provenance
from shepherd.prompt.plan import Part
from shepherd.tui.items import PlanPart, _in_full, _in_short
from shepherd.types import Fact, MemoryRecord

NOW = int(time.time())
LONG_AGO = NOW - 3 * 86_400 - 60
FACT = Fact("city", "Ulm", LONG_AGO, LONG_AGO)
RECORD = MemoryRecord(3 << 40 | 7, "Which\ndog?", "Rex\x1b", LONG_AGO, False, "user")
PINNED = MemoryRecord(8, "Which dog?", "", LONG_AGO, True, "user")
PASSAGE = PlanPart("Bees", "They\x07 fly.", "knowledge \N{MIDDLE DOT} chunk:1")
FFFD = "\ufffd"


def styles(content: Content) -> list[tuple[str, str]]:
    return [(content.plain[span.start : span.end], str(span.style)) for span in content.spans]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (FACT, "city = Ulm \N{MIDDLE DOT} 3 days ago"),
        (RECORD, f"Which dog?\nRex{FFFD}\nid 7 \N{MIDDLE DOT} 3 days ago \N{MIDDLE DOT} entered by hand"),
        (PINNED, f"\N{BLACK DIAMOND} Which dog?\n{provenance(PINNED)}"),
        (PASSAGE, "Bees\nknowledge \N{MIDDLE DOT} chunk:1"),
        (Fact("k" * 121, "v" * 120, 1, LONG_AGO), f"{'k' * 119}… = {'v' * 120} \N{MIDDLE DOT} 3 days ago"),
    ],
)
def test_an_item_is_listed_in_a_few_lines(item, text):
    short = _in_short(item)
    assert short.plain == text
    assert "bold" in [style for _, style in styles(short)]
    gone = _in_short(item, gone=True)
    assert gone.plain == f"{text}\nforgotten"
    assert (text, "strike dim") in styles(gone)


@pytest.mark.parametrize(
    ("item", "title", "text", "source"),
    [
        (FACT, "city", "Ulm", "a fact, 3 days ago"),
        (RECORD, "Which\ndog?", f"Rex{FFFD}", provenance(RECORD)),
        (PASSAGE, "Bees", f"They{FFFD} fly.", "knowledge \N{MIDDLE DOT} chunk:1"),
    ],
)
def test_an_item_is_read_in_full_with_its_source(item, title, text, source):
    full = _in_full(item)

    assert full.plain == f"{title}\n\n{text}\n\n{source}"
    assert styles(full) == [(f"{title}\n\n", "bold"), (f"\n\n{source}", "dim")]


def test_a_part_of_a_plan_has_its_title_or_its_beginning():
    part = Part("knowledge", f"chunk:{3 << 40 | 1}", " They fly. ", score=0.456, about={"title": "Bees"})
    assert PlanPart.of(part) == PlanPart(
        "Bees", "They fly.", "knowledge \N{MIDDLE DOT} chunk:1 \N{MIDDLE DOT} score 0.46"
    )
    bare = Part("focus", "node:2", "x" * 121, score=0.0, about={})
    assert PlanPart.of(bare) == PlanPart("x" * 119 + "…", "x" * 121, "focus \N{MIDDLE DOT} node:2")
