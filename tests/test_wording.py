"""Numbers agree with their nouns and verbs."""

from __future__ import annotations

import re
from pathlib import Path

import shepherd
from shepherd._native.text import keywords
from shepherd.wording import as_written, counted, inflected, mentions

SOURCE = Path(shepherd.__file__).parent
# A number before a plural, as in f"{n} facts".
_NOUNS = "memories|facts|duplicates|nodes|chunks|entries|users|conversations|requests|jobs|items|documents"
# "{program} facts list" is a command.
_PLURAL = re.compile(rf"\{{(?!program\}})(?:[a-z][\w.]*|len\([\w.]+\))(?::,)?\}} (?:{_NOUNS})\b(?! list\b)")


def test_a_number_agrees_with_its_noun():
    assert [counted(n, "fact") for n in (0, 1, 2, 1234)] == ["0 facts", "1 fact", "2 facts", "1,234 facts"]
    assert [counted(n, "memory", "memories") for n in (1, 2)] == ["1 memory", "2 memories"]


def test_a_number_agrees_with_its_sentence():
    words = "{} [memory belongs|memories belong] to [its user|their users]"

    assert inflected(1, words) == "1 memory belongs to its user"
    assert inflected(1234, words) == "1,234 memories belong to their users"


def test_values_are_found_as_whole_words_whatever_their_case():
    finds = mentions([" C++ ", "", "new york"])

    assert finds is not None
    assert all(map(finds, ("I write c++.", "NEW YORK, of course", "(C++)")))
    assert not any(map(finds, ("C+", "newyork", "knew york", "new yorker", "")))
    assert mentions(["", "  "]) is None


def test_search_terms_are_shown_as_the_words_that_they_come_from():
    text = "Which of the neighbours' houses has C++ books, PDFs or an R\u00f4tisserie in New-York?"

    words = as_written(keywords(text), text)

    assert words[:3] == ["neighbours", "houses", "C++"]
    assert {"PDFs", "R\u00f4tisserie", "books"} <= set(words)
    assert as_written(["hous", "zebra"], "A house, the houses.") == ["house", "zebra"]
    assert as_written(["x"], "") == ["x"]


def test_no_message_has_a_number_before_a_fixed_plural():
    found = [
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for path in SOURCE.rglob("*.py")
        for match in _PLURAL.finditer(path.read_text(encoding="utf-8"))
    ]

    assert found == []
