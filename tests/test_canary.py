"""A word is found in any bytes that contain it, and in no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd import canary
from shepherd.canary import WordSearch
from tests.examples import examples

WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=3, max_size=12)


@settings(max_examples=examples(60))
@given(WORDS, st.binary(max_size=40), st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "json"]), st.data())
def test_a_word_is_found_in_every_encoding_and_case(
    word: str, around: bytes, encoding: str, data: st.DataObject
) -> None:
    written = data.draw(st.sampled_from([word, word.upper(), word.lower()]))
    # A case with other letters, as of the German sharp s, is another word.
    if written.lower() != word.lower():
        written = word
    stored = json.dumps(written).encode() if encoding == "json" else written.encode(encoding)

    assert WordSearch(word).in_bytes(around + stored + around)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Zürich", "ZU\N{COMBINING DIAERESIS}RICH"),
        ("Zu\N{COMBINING DIAERESIS}rich", "zürich"),
        ('say "hi"', '{"said": "SAY \\"HI\\""}'),
        ("🐑lamb", json.dumps("🐑Lamb")),
    ],
)
def test_other_forms_of_a_word_are_found(word: str, text: str) -> None:
    assert WordSearch(word).in_bytes(text.encode())


def test_the_forms_of_a_word_are_those_that_rows_of_a_database_can_have() -> None:
    forms = WordSearch("Zürich").forms

    assert {"zürich", "ZÜRICH", "Zürich", "zu\u0308rich", "ZU\u0308RICH", "Z\\u00fcrich", "Z\\u00dcRICH"} <= {
        *forms
    }
    assert forms == sorted(set(forms))
    assert WordSearch('a"b').forms == ['A"B', 'A\\"B', 'a"b', 'a\\"b']


@pytest.mark.parametrize("text", ["Zurich", "Zürch", "Z\\u00fcrch", "Züri ch", ""])
def test_another_word_is_not_found(text: str) -> None:
    assert not WordSearch("Zürich").in_bytes(text.encode())
    assert not WordSearch("zurichs").in_bytes(text.encode())


@pytest.mark.parametrize("at", [0, 5, 8, 59, 60, 64, 100])
def test_a_word_across_two_pieces_of_a_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(canary, "_BLOCK_BYTES", 64)
    path = tmp_path / "file"
    path.write_bytes(b"." * at + "ZÜRICH".encode("utf-16-le") + b"." * 70)

    assert WordSearch("zürich").in_file(path)
    assert not WordSearch("zürichs").in_file(path)


SCHEMA = [b"CREATE TABLE edges(id INTEGER PRIMARY KEY, from_id TEXT)", b"tableedgesedges"]


@pytest.mark.parametrize("at", [0, 1, 20, 40, 63, 64, 100])
def test_a_word_in_a_known_text_is_no_match_and_beside_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(canary, "_BLOCK_BYTES", 64)
    statement, names = SCHEMA
    known = b"." * at + names + b"\x07" + statement + b"\0" + statement[:45] + b"\0" * 80
    path = tmp_path / "file"

    for word in ("edges", "Mary", "Key", "table"):
        path.write_bytes(known)
        assert WordSearch(word).in_file(path)
        assert not WordSearch(word, SCHEMA).in_file(path)
        path.write_bytes(known + word.encode() + known)
        assert WordSearch(word, SCHEMA).in_file(path)
