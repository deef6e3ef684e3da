"""What is told with less detail changes nothing; another thing of a similar name does."""

from __future__ import annotations

import pytest

from shepherd.memory.precision import is_less_precise


@pytest.mark.parametrize(
    ("key", "known", "value"),
    [
        ("car", "red Volvo V70", "Volvo"),
        ("car", "2016 Volvo", "Volvo"),
        ("employer", "Torbay Hospital", "hospital"),
        ("favorite_color", "dark blue", "blue"),
        ("favorite_drink", "black coffee with oat milk", "black coffee"),
        ("occupation", "software engineer", "engineer"),
        ("name", "Steve Miller", "Steve"),
        ("sister_name", "Anna Maria", "anna"),
        ("laptop", "ThinkPad X13", "thinkpad"),
    ],
)
def test_less_detail_is_less_precise(key, known, value):
    assert is_less_precise(key, value, known)


@pytest.mark.parametrize(
    ("key", "known", "value"),
    [
        ("location", "New York", "York"),
        ("location", "new york", "york"),
        ("hometown", "east berlin", "berlin"),
        ("employer", "Siemens Energy", "Siemens"),
        ("occupation", "assistant manager", "manager"),
        ("occupation", "retired teacher", "teacher"),
        ("occupation", "nurse", "registered nurse"),
        ("occupation", "surgeon", "plastic surgeon"),
        ("occupation", "nurse", "school nurse"),
        ("occupation", "vice-principal of a school", "principal"),
        ("car", "Volvo", "Volvo"),
        ("car", "Volvo", "red Volvo V70"),
        ("car", "red Volvo V70", "blue Volvo"),
        ("name", "Steve Miller", "Miller"),
        ("name", "Anna from work", "Anna"),
        ("car", "Volvo", ""),
    ],
)
def test_another_thing_is_not_less_precise(key, known, value):
    assert not is_less_precise(key, value, known)
