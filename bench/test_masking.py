"""What do the beginnings of rules, and second passes over what changed alone, save when a document is masked?

The peer tries every rule at every character, reads the whole text again after each pass, and masks the same.

    python -m pytest bench/test_masking.py --benchmark-only -s
"""

from __future__ import annotations

import random
import string
from typing import Any

import pytest

from bench.small import JUDGED, sized
from shepherd.secret_detection import masked
from tests.plain_secret_rules import without_anchors

SEED = 20_261_129
CHARS = sized(50_000, 10_000)
LEAST_GAIN = 2.0
SAID = (
    "GET /api/v1/items/{n}?page={m} HTTP/1.1 200 {n}",
    "user {u} logged in from 10.0.{m}.7 port {n}",
    "password check failed for user {u}: wrong password",
    "cache miss for key items:{n}, loading from disk",
    "worker[{m}]: processed batch {n} of {m}",
)
SECRET = ("connecting with password={s}", "login as admin, password: {s}", "postgres://app:{s}@db/prod")
NOTES = ("called twice", "prefers email", "", "moved to a new flat", "asks for an invoice")


def _secret(chance: random.Random) -> str:
    return "".join(chance.choices(string.ascii_letters + string.digits, k=12))


def log() -> str:
    """Lines of a log, of which one in 300 has a password."""
    chance, lines, length = random.Random(SEED), [], 0
    while length < CHARS:
        said = chance.choice(SAID if chance.randrange(300) else SECRET)
        n, m, user = chance.randrange(99_999), chance.randrange(500), chance.choice(("anna", "bob", "root"))
        said = said.format(n=n, m=m, u=user, s=_secret(chance))
        lines.append(f"2026-11-{m % 28 + 1:02d} 10:{n % 60:02d}:{m % 60:02d},{n % 1000:03d} {said}")
        length += len(lines[-1]) + 1
    return "\n".join(lines)


def table() -> str:
    """Rows of customers, of which one in 300 has a password or a PIN in its note."""
    chance, lines, length = random.Random(SEED), ["id,name,email,amount,date,phone,note"], 0
    while length < CHARS:
        n, m = chance.randrange(99_999), chance.randrange(28)
        secret = chance.choice((f"wifi password is {_secret(chance)}", f"PIN {n % 9000 + 1000}"))
        note = chance.choice(NOTES) if chance.randrange(300) else secret
        lines.append(
            f"{n},Anna Schmidt,anna{m}@example.com,{n / 100:.2f},2026-10-{m + 1:02d},+49 731 {n * 7},{note}"
        )
        length += len(lines[-1]) + 1
    return "\n".join(lines)


def _plainly(text: str) -> tuple[str, int]:
    with without_anchors():
        return masked(text)


@pytest.mark.parametrize("document", [log, table])
def test_masking_a_document(contest: Any, document: Any) -> None:
    ratio = contest(f"masking a {document.__name__} of {CHARS:,} characters", document(), masked, _plainly)

    assert ratio >= LEAST_GAIN or not JUDGED
