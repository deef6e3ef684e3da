"""An index of patterns leaves out none that matches: every wording of the claims, in texts made from it."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from shepherd.claims import inversions, spellings, wordings
from shepherd.claims.statements import assertions
from shepherd.pattern_index import PatternIndex, Replacements, needed_words
from shepherd.prompt import concepts
from tests.claims.lines import lines_of
from tests.claims.plain_patterns import without_an_index

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as _parser

SEED = 20_261_128
# Others of a letter that `re` takes for it if case does not count, and that lower() leaves as they are, or
# makes two of.
OTHERS = str.maketrans({"i": "\u0131", "s": "\u017f", "k": "\u212a"})
MORE_OTHERS = str.maketrans({"i": "\u0130", "\u00e5": "\u212b"})


def texts_of(items: Any, chance: random.Random) -> str:
    """Return a text that most likely matches: any branch, each repetition as short as it can be or longer."""
    return "".join(piece for kind, value in items for piece in _pieces(str(kind), value, chance))


def _pieces(kind: str, value: Any, chance: random.Random) -> Iterator[str]:
    if kind == "LITERAL":
        yield chr(value)
    elif kind == "SUBPATTERN":
        yield texts_of(value[3], chance)
    elif kind == "ATOMIC_GROUP":
        yield texts_of(value, chance)
    elif kind == "BRANCH":
        yield texts_of(chance.choice(value[1]), chance)
    elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        for _ in range(value[0] + chance.randrange(2) * (value[1] > value[0])):
            yield texts_of(value[2], chance)
    elif kind == "ASSERT" and value[0] > 0:
        yield texts_of(value[1], chance)
    elif kind == "IN":
        yield _one_of(value, chance)
    elif kind == "ANY":
        yield "x"


def _one_of(value: Any, chance: random.Random) -> str:
    kind, first = value[0]
    if str(kind) == "NEGATE":
        return "x"
    if str(kind) == "CATEGORY":
        return {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "7", "CATEGORY_NOT_WORD": ","}.get(str(first), "x")
    return chr(
        first[0] if str(kind) == "RANGE" else chance.choice([one for k, one in value if str(k) == "LITERAL"])
    )


@cache
def frames() -> list[tuple[re.Pattern[str], frozenset[str]]]:
    return [(frame.pattern, frame.needed) for frame in wordings.frames()]


@cache
def turned() -> list[tuple[re.Pattern[str], frozenset[str]]]:
    tables = (*inversions._TABLES, *inversions._ELSEWHERE)
    rows = [row for table in tables for row in wordings.replacements(table)]
    return [(inversions._pattern(row.pattern), row.needed) for row in rows]


def compiled(pairs: tuple[tuple[str, str], ...]) -> list[tuple[re.Pattern[str], frozenset[str]]]:
    return [(re.compile(one, re.IGNORECASE), needed_words(one)) for one, _ in pairs]


TABLES = {
    "frames": frames,
    "turned round": turned,
    "spellings": lambda: compiled(spellings._SPELLINGS),
    "phrases": lambda: compiled(concepts._PHRASES),
}


@pytest.mark.parametrize("table", TABLES)
def test_every_pattern_is_found_in_texts_that_it_matches(table):
    patterns, chance, n_tried = TABLES[table](), random.Random(SEED), 0
    index = PatternIndex(needed for _, needed in patterns)

    for n, (pattern, _) in enumerate(patterns):
        parsed = _parser.parse(pattern.pattern, pattern.flags)
        for _ in range(2):
            made = texts_of(parsed, chance)
            forms = (made, made.upper(), made.translate(OTHERS), made.translate(MORE_OTHERS))
            for text in filter(pattern.search, forms):
                assert index.among(text) >> n & 1, (pattern.pattern, text)
                n_tried += 1

    assert n_tried > 2 * len(patterns)


def test_messages_state_the_same_as_with_every_pattern_tried():
    # Every language and kind of line is among these.
    lines = [line["say"] for line in lines_of("corpus.jsonl", "none", "want", "ended", "secret")][::36]
    asked = [*lines, *(f"{one} {two}" for one, two in itertools.pairwise(lines[::4]))]

    found = [(assertions(line), concepts.content_words(line)) for line in asked]

    with without_an_index():
        assert found == [(assertions(line), concepts.content_words(line)) for line in asked]
    assert sum(bool(stated) for stated, _ in found) > 20


@pytest.mark.parametrize("table", TABLES)
def test_nearly_all_patterns_need_a_word(table):
    needed = [words for _, words in TABLES[table]()]

    assert sum(not words for words in needed) <= 0.06 * len(needed)
    text = "What did I say about the blue bicycle when we talked yesterday?"
    assert PatternIndex(needed).among(text).bit_count() < 0.2 * len(needed)


def test_a_definition_stands_for_one_thing():
    # Words that a pattern needs are sought without what its definitions say: "<a>" may not be "x|y".
    definitions = [wordings._definitions()]
    for file in (*inversions._TABLES, *inversions._ELSEWHERE):
        rows = [line for section, line in wordings._sections(file) if section == "definitions"]
        known = dict(definitions[0])
        for line in rows:
            name, _, pattern = line.partition(" = ")
            known[name] = wordings._expanded(pattern, known)
        definitions.append(known)

    for known in definitions:
        for name, pattern in known.items():
            kind, value = _parser.parse(f"x{pattern}")[0]
            assert (str(kind), value) == ("LITERAL", ord("x")), name


def test_replacements_are_those_of_one_pattern_after_the_other():
    words = ["red", "green", "blue", "ray", "d", "x"]
    pairs = [
        (rf"\b{first}\b", second)
        for first, second in [
            *(("red", "green ray"), ("blue", "red"), ("green", "blue"), ("d", "x"), ("ray", "blue d")),
            *((r"\w", "x"), ("x x", "blue"), ("blue", "")),
        ]
    ]
    chance, replacements = random.Random(SEED), Replacements.of(pairs)

    for first in range(len(pairs)):
        for _ in range(60):
            text = expected = " ".join(chance.choices(words, k=chance.randrange(6)))
            for pattern, template in pairs[first:]:
                expected = re.sub(pattern, template, expected, flags=re.IGNORECASE)
            assert replacements.apply(text, first) == expected


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("(?:what|which) car", {" car"}),
        ("cats?|dogs?", {"cat", "dog"}),
        (r"(?:(?:red|blue)\s+)?\w+", set()),
        (r"\w+\s+in\s+(?=Ulm)", {"ulm"}),
        ("(?<=my )(?:cat)?x", {"my "}),
        ("(?:green )+tea", {"green "}),
        ("(?:green )*tea", {"tea"}),
        ("caf\u00e9 \u03bc\u03c9 noir", {"caf\u00e9 "}),
        ("(?!never)[a-z]+", set()),
        ("(?i:a|bc)", set()),
        ("a(", set()),
    ],
)
def test_words_that_a_pattern_needs(pattern, needed):
    assert needed_words(pattern) == needed
