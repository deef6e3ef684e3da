"""Passwords of plain words and codes that somebody tells in a chat, in seven languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd.secret_detection import find_secrets
from shepherd.secret_detection.unexplained import covered, find_unexplained

TOLD, _, HARMLESS = (
    (Path(__file__).parent / "secrets" / "told.txt").read_text("utf-8").partition("[harmless]")
)
SECRETS = [line.split(" | ", 1) for line in TOLD.splitlines() if " | " in line and not line.startswith("#")]


def test_nothing_that_is_told_stays_readable():
    readable = [
        line
        for value, line in SECRETS
        if value in covered(line, "")[0] and not any(_overlaps(line, value, *one) for one in _found(line))
    ]

    assert readable == []


def test_speech_about_passwords_and_codes_is_left_alone():
    touched = [line for line in HARMLESS.split("\n") if line and [*_found(line), *find_unexplained(line)]]

    assert touched == []


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("I open my laptop with purple monkey dishwasher", "purple monkey dishwasher"),
        ("The office wifi password? mellon.", "mellon"),
        ("ledger never balances alone, thats the whole passphrase", "ledger never balances alone"),
        ("Das Passwort habe ich auf Kirschkern geändert", "Kirschkern"),
        (
            "It's capital G, then oatmilk, then 3 exclamation marks",
            "capital G, then oatmilk, then 3 exclamation marks",
        ),
        ("the pin is four zeros and a two", "pin is four zeros and a two"),
        ("my wallet: glove ribbon ozone walnut cactus spoon", "glove ribbon ozone walnut cactus spoon"),
        ("if the alarm company rings, say zebra", "zebra"),
    ],
)
def test_the_words_alone_are_covered(message: str, value: str) -> None:
    assert [message[found.start : found.end] for found in find_unexplained(message)] == [value]


def _found(line: str) -> list[tuple[int, int]]:
    return [(secret.start, secret.end) for secret in find_secrets(line)]


def _overlaps(line: str, value: str, start: int, end: int) -> bool:
    """Return whether a secret that was found covers at least half of the value: such a line is not stored."""
    at = line.find(value)
    return min(end, at + len(value)) - max(start, at) >= len(value) / 2
