"""How much faster are keywords in C than the same rules in Python?

The peer is the tests' twin with its stems remembered, as a program in Python would do it, so that the
pure-Python stemmer does not decide the contest. The bar is a tenth of its time for 1 KB, with scopes too.
"""

import functools

import pytest

from bench.small import JUDGED
from shepherd._native import text
from tests.native import twin_text as twin

QUESTION = "What did I tell you about the Kubernetes project?"
PARAGRAPH = """\
We moved the staging cluster to Kubernetes v1.31 on Friday evening, because the old machines in the Dallas
office kept losing power. Steve's notes say that node.js services need 512 MB each, that user@example.com gets
the alerts, and that nobody should touch 192.168.0.14 before the certificates are renewed in March. I prefer
VS Code with vim keybindings, dark themes and a four-space indentation; my sister keeps telling me that Emacs
is better, but she writes C++ for a living. Remember that the quarterly review was postponed, that the travel
budget is nearly exhausted, and that the database backups run at two in the morning. The next release should
contain the faster search, the new configuration format and the translations that the volunteers have been
working on since the summer. If the nightly tests fail again, look at the disk first: last time it was full
of core dumps, and it took us three days to understand why the indexer had stopped without any message.
"""
TEXTS = {
    "a question of 49 bytes": QUESTION,
    "1 KB of prose": PARAGRAPH[:1024],
    "1 KB with typographic quotes": PARAGRAPH[:1024].replace("'", "’").replace(": ", " — "),  # noqa: RUF001
    "1 KB of Japanese": "私の猫の名前はタマです。東京のオフィスに勤めています。" * 12,
}


@pytest.fixture(autouse=True)
def _remembered_stems(monkeypatch):
    class Remembering:
        stemWord = staticmethod(functools.lru_cache(maxsize=None)(twin._english.stemWord))  # noqa: N815

    monkeypatch.setattr(twin, "_english", Remembering)


@pytest.mark.parametrize("name", TEXTS)
def test_keywords(contest, name):
    ratio = contest(f"keywords of {name}", TEXTS[name], text.keywords, twin.keywords)

    if name == "1 KB of prose":
        assert ratio >= 10 or not JUDGED


def test_scoped_terms(contest):
    ratio = contest(
        "scoped terms of 1 KB of prose",
        PARAGRAPH[:1024],
        lambda t: text.scoped(t, 17),
        lambda t: twin.scoped(t, 17),
    )

    assert ratio >= 10 or not JUDGED


def test_keywords_stop_at_the_cap(contest):
    """What is 10 MB long costs as much as its beginning."""
    ratio = contest("keywords of 10 MB", PARAGRAPH * 10_000, text.keywords, lambda t: text.keywords(t[:2000]))

    assert ratio >= 0.5 or not JUDGED  # both read as much: it is 1 where nothing disturbs
