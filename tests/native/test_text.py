"""Which terms a text has."""
# ruff: noqa: RUF001

import threading
from enum import Enum

import pytest

from shepherd._native import text
from shepherd._native.text import keywords, keywords_compat, stem, terms


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("What is my name?", ["name"]),
        ("what did I tell you about my project?", ["project"]),
        ("Where do I live now?", ["live", "now"]),
        ("What do I like?", ["like"]),
        ("Should we go to the UK in May?", ["go", "uk", "may"]),
    ],
)
def test_what_a_question_asks_about_remains(message, expected):
    assert keywords(message) == expected


def test_terms_keep_order_and_repeats():
    assert terms("cats dogs cats") == ["cat", "dog", "cat"]
    assert keywords("cats dogs cats") == ["cat", "dog"]


def test_a_text_of_stop_words_gives_all_its_words():
    assert keywords("Do you know what I am?") == ["do", "you", "know", "what", "i", "am"]
    assert terms("don't!") == ["dont"]


def test_a_text_without_words_gives_nothing():
    assert terms("") == []
    assert terms(" \t\n?!... --- 😀 \x00 \ud800") == []
    assert text.scoped("", 1) == (b"", 0)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("C++", ["c++"]),
        ("C#", ["c#"]),
        ("c++17", ["c++17", "c++", "17"]),
        (".NET", [".net", "net"]),
        ("vs-code", ["vs-code", "vs", "code"]),
        ("user@example.com", ["user@example.com", "user", "exampl", "com"]),
        ("v2.31", ["v2.31", "v2", "31"]),
        ("node.js", ["node.js", "node", "js"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("192.168.0.1", ["192.168.0.1", "192", "168", "0", "1"]),
        ("AT&T", ["at&t"]),
        ("U.S.", ["u.s"]),
        ("Notepad++", ["notepad++", "notepad"]),
        ("__init__", ["init"]),
        ("wait...what", ["wait"]),
        ("2+2=4", ["2", "2", "4"]),
        ("either/or/cats", ["cat"]),
    ],
)
def test_technical_forms_are_whole_then_in_parts(form, expected):
    assert terms(form) == expected


def test_vs_code_meets_its_hyphenated_spelling():
    assert set(keywords("VS Code")) <= set(keywords("vs-code"))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Steve's", ["steve"]),
        ("Steve’s", ["steve"]),
        ("dogs'", ["dog"]),
        ("don't cats", ["cat"]),
        ("I'd've cats", ["cat"]),
        ("O'Brien", ["obrien", "brien"]),
        ("l'amour", ["lamour", "amour"]),
        ("rock'n'roll", ["rocknrol", "rock", "roll"]),
    ],
)
def test_apostrophes_end_up_in_no_term(word, expected):
    assert terms(word) == expected


def test_short_words_and_numbers_survive():
    assert terms("Go AI UK R 42 7") == ["go", "ai", "uk", "r", "42", "7"]


def test_spelling_variants_of_one_word_meet():
    for variants in (
        ("café", "CAFE", "cafe\u0301", "ｃａｆé"),
        ("Straße", "STRASSE"),
        ("Ærøskøbing", "aeroskobing"),
        ("ὈΔΥΣΣΕΎΣ", "οδυσσευσ"),
        ("Ёлка", "елка"),
        ("٢٠٢٤", "2024"),
        ("مُحَمَّد", "محمد"),
        ("co\u00adoperate", "cooperate"),
    ):
        assert len({tuple(terms(variant)) for variant in variants}) == 1, variants


def test_marks_that_carry_meaning_stay():
    assert terms("हिंदी") == ["हिंदी"]
    assert terms("कि की") == ["कि", "की"]


def test_unspaced_scripts_become_pairs():
    assert terms("日本語") == ["日本", "本語"]
    assert terms("猫") == ["猫"]
    assert terms("안녕하세요") == ["안녕", "녕하", "하세", "세요"]
    assert terms("iPhone手机 C#の") == ["iphon", "手机", "c#", "の"]


def test_long_words_are_cut_and_long_forms_come_in_parts_only():
    assert terms("q" * 1000) == ["q" * 64]
    assert terms("-".join(["alpha1"] * 20)) == ["alpha1"] * 20
    assert terms("é7" * 500) == ["e7" * 32]


def test_keywords_stop_at_the_cap():
    many = " ".join(f"word{i}" for i in range(10_000))

    assert keywords(many) == [f"word{i}" for i in range(64)]
    assert keywords(many, 3) == ["word0", "word1", "word2"]
    assert keywords(many, 0) == []
    assert keywords(many, -1) == []
    assert len(keywords(many, 100_000)) == 10_000


@pytest.mark.parametrize(
    "unit", ["a", "é", "日", "a.", "a'", "c++", ". ", "日本、", "\u0301", "\u0301\u0323", "the "]
)
def test_megabytes_of_anything_are_fine(unit):
    long = unit * (2_000_000 // len(unit))

    assert len(keywords(long)) <= 64


def test_several_threads_read_at_once():
    long = "Kubernetes pods, die Straße, 日本語 " * 20_000
    expected = keywords(long)
    found = []

    threads = [threading.Thread(target=lambda: found.append(keywords(long))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 4


@pytest.mark.parametrize("function", [terms, keywords, keywords_compat, text.folded, text.stem])
@pytest.mark.parametrize("wrong", [None, b"bytes", 7])
def test_only_text_is_taken(function, wrong):
    with pytest.raises(TypeError):
        function(wrong)


def test_compat_keeps_the_originals_rule():
    assert keywords_compat("what did I tell you about my vs-code project?") == ["vscode", "project"]
    assert keywords_compat("Go AI UK café C++ running") == ["caf", "running"]


ACRONYMS = "GPU CPU TPU SKU PDF PC SSD VM LLM DVD DB TV URL API ID SDK VPN CSV CVE KPI NGO CFO PhD".split()  # noqa: SIM905


@pytest.mark.parametrize("acronym", ACRONYMS)
def test_plurals_of_acronyms_meet_their_singular(acronym: str) -> None:
    for plural in (f"{acronym}s", f"{acronym}s".lower(), f"{acronym}'s"):
        assert terms(plural) == terms(acronym) == terms(acronym.lower())


@pytest.mark.parametrize(
    "word",
    [
        *"us is gas bus his plus this thus yes as ass boss class Chris Mrs focus status campus".split(),  # noqa: SIM905
        *"OS AWS CSS iOS SaaS DNS GPS HTTPS SMS TLS RSS bias chaos flys gyms always series".split(),  # noqa: SIM905
    ],
)
def test_a_final_s_that_is_no_plural_of_an_acronym_is_left_to_porter2(word: str) -> None:
    assert terms(word) == terms(word.upper()) == [stem(word.lower())]


def test_words_that_keep_their_s_are_told_from_those_without() -> None:
    for one, other in (("GPS", "GP"), ("Mrs Hill", "Mr Hill"), ("thus", "Thu"), ("DNS", "DN"), ("CMS", "cm")):
        assert terms(one) != terms(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("went", "goes"),
        ("Bought", "buying"),
        ("my mom", "my mother"),
        ("pics", "a photo"),
        ("colours", "color"),
    ],
)
def test_irregular_and_colloquial_forms_meet_their_word(one, other):
    assert text.keywords(one) == text.keywords(other)


def test_forms_lead_to_words_that_are_no_forms_and_no_stop_words():
    bases = set(text.FORMS.values())

    assert all(word.isalpha() and word.islower() and len(word) <= 16 for word in (*text.FORMS, *bases))
    assert not bases & set(text.FORMS)
    assert not (bases | set(text.FORMS)) & text.STOP_WORDS


def test_stop_words_are_plain_words():
    assert all(word.isascii() and word.isalpha() and word.islower() for word in text.STOP_WORDS)
    assert not {"name", "like", "go", "work", "live", "now", "may", "us", "new", "first"} & text.STOP_WORDS


def test_all_names_are_there():
    assert sorted(text.__all__) == text.__all__
    assert all(hasattr(text, name) for name in text.__all__)


class Said(str):
    """A text of somebody's own kind, whose slices and str() are none of ours."""

    def __getitem__(self, key):
        raise AssertionError

    def __str__(self):
        raise AssertionError


class Word(str, Enum):
    CATS = "cats dogs über"


@pytest.mark.parametrize("said", [Said("cats dogs über"), Word.CATS])
def test_a_subclass_of_str_is_read_as_the_text_that_it_is(said):
    plain = "cats dogs über"
    assert terms(said) == terms(plain) == keywords(said)
    assert text.scoped(said, 1) == text.scoped(plain, 1)
    assert text.folded(said) == text.folded(plain)
    assert keywords_compat(said) == keywords_compat(plain)
    assert text.match_expression([said], 1) == text.match_expression([plain], 1)
