"""Everyday lines of many people, written one by one by somebody who had not seen the wordings.

`none`: no fact may come of the line. `ended`: `never` (a value, or value@key) may not become a current fact.
`want`: parts of keys and values that are to be learned. `secret`: text that may be stored nowhere.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shepherd.claims import assertions, judge, plain_facts
from shepherd.secret_detection import find_secrets

LINES = [
    json.loads(line) for line in Path(__file__).with_name("corpus.jsonl").read_text("utf-8").splitlines()
]
KEYS = [
    "name", "location", "allergy", "email", "age", "job", "employer", "birthday", "phone", "partner",
    "language", "hobby", "car", "pet", "company", "city", "favorite_color", "favorite_food", "diet",
    "likes", "uses", "sister_name", "dog_name", "origin", "plays", "study", "school", "condition",
]  # fmt: skip
MOST_WORDS = 60


def lines_of(*kinds: str) -> list[dict]:
    return [line for line in LINES if line["kind"] in kinds]


def worst_claims(text: str) -> set[tuple[str, str]]:
    """Facts accepted of a model that claims every span of three words under every common key."""
    if not assertions(text):
        return set()
    words = re.findall(r"[\w@.+'-]+", text)[:MOST_WORDS]
    spans = {
        " ".join(words[i:j]).strip(".")
        for i in range(len(words))
        for j in range(i + 1, min(i + 4, len(words) + 1))
    }
    return {(v.key, v.value) for span in spans for v in judge(dict.fromkeys(KEYS, span), [text])}


def facts_of(text: str) -> set[tuple[str, str]]:
    return {(verdict.key, verdict.value) for verdict in plain_facts(text)} | worst_claims(text)


@pytest.mark.parametrize("line", lines_of("none"), ids=lambda line: str(line["id"]))
def test_nothing_is_learned_from_what_states_nothing(line):
    assert facts_of(line["say"]) == set()


@pytest.mark.parametrize("line", lines_of("ended"), ids=lambda line: str(line["id"]))
def test_what_has_ended_or_is_somebody_elses_is_no_fact(line):
    value, _, key = line["never"].partition("@")

    assert not [
        fact
        for fact in facts_of(line["say"])
        if value.casefold() in fact[1].casefold() and key in ("", fact[0])
    ]


def test_most_of_what_people_tell_of_themselves_is_learned():
    wanted = lines_of("want")
    learned = [
        line
        for line in wanted
        if all(
            any(key in name and value.casefold() in said.casefold() for name, said in facts_of(line["say"]))
            for key, value in line["want"]
        )
    ]

    assert len(learned) >= 0.7 * len(wanted)


@pytest.mark.parametrize("line", lines_of("secret"), ids=lambda line: str(line["id"]))
def test_secrets_are_found(line):
    assert find_secrets(line["say"])
