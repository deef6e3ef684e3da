"""Everyday lines of many people, and what the judge makes of them, whatever a model claims.

The wordings are tuned on corpus.jsonl; held_out.jsonl was written before they were, and is only counted.
`none`: no fact may come of the line. `ended`: `never` (a value, or value@key) may not become a current fact.
`want`: parts of keys and values that are to be learned. `secret`: text that may be stored nowhere.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

import pytest

from shepherd.claims.judge import judge, plain_facts
from shepherd.claims.statements import assertions
from shepherd.secret_detection import find_secrets
from tests.claims.lines import false_facts, is_learned, lines_of

FILES = ("corpus.jsonl", "held_out.jsonl")
KEYS = [
    "name", "location", "allergy", "email", "age", "job", "employer", "birthday", "phone", "partner",
    "language", "hobby", "car", "pet", "company", "city", "favorite_color", "favorite_food", "diet",
    "likes", "uses", "sister_name", "dog_name", "origin", "plays", "study", "school", "condition",
]  # fmt: skip
MOST_WORDS = 60
read_once = cache(assertions)


@pytest.fixture(autouse=True)
def lines_are_read_once(monkeypatch):
    """The judge reads a line anew for each claim, and a line has hundreds of them here."""
    monkeypatch.setattr(import_module("shepherd.claims.judge"), "assertions", read_once)


def worst_claims(text: str) -> set[tuple[str, str]]:
    """Facts accepted of a model that claims every span of three words under every common key."""
    if not read_once(text):
        return set()
    words = re.findall(r"[\w@.+'-]+", text)[:MOST_WORDS]
    spans = {
        " ".join(words[i:j]).strip(".")
        for i in range(len(words))
        for j in range(i + 1, min(i + 4, len(words) + 1))
    }
    return {(v.key, v.value) for span in spans for v in judge(dict.fromkeys(KEYS, span), [text])}


def plain_facts_of(text: str) -> set[tuple[str, str]]:
    return {(verdict.key, verdict.value) for verdict in plain_facts(text)}


@pytest.mark.parametrize("file", FILES)
def test_nothing_false_is_learned_even_from_the_worst_model(file):
    lines = lines_of(file, "none", "ended")

    found = {
        line["say"]: wrong
        for line in lines
        if (wrong := false_facts(line, plain_facts_of(line["say"]) | worst_claims(line["say"])))
    }

    assert found == {}


@pytest.mark.parametrize(("file", "least"), [("corpus.jsonl", 0.9), ("held_out.jsonl", 0.8)])
def test_most_of_what_people_tell_of_themselves_is_learned_without_a_model(file, least):
    wanted = lines_of(file, "want")

    learned = [line for line in wanted if is_learned(line, plain_facts_of(line["say"]))]

    assert len(learned) >= least * len(wanted)


@pytest.mark.parametrize("line", lines_of("corpus.jsonl", "secret"), ids=lambda line: str(line["id"]))
def test_secrets_are_found(line):
    assert find_secrets(line["say"])
