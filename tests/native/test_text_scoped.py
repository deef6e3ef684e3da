"""What FTS5 makes of scoped terms."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.store import Connection
from shepherd._native.text import keywords, match_expression, scoped, terms
from tests.native import twin_text as twin

TERM = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.fixture(scope="module")
def index():
    database = Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE entries USING fts5(body, tokenize=\"ascii tokenchars '_'\")")
    database.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(entries, 'instance')")
    yield database
    database.close()


def tokens_of(index, column):
    """The tokens that FTS5 cuts the column into, in order."""
    index.execute("DELETE FROM entries")
    index.execute("INSERT INTO entries(rowid, body) VALUES (1, ?)", [column.decode()])
    return [term for (term,) in index.execute('SELECT term FROM vocabulary ORDER BY "offset"')]


def found(index, expression):
    rows = index.execute("SELECT rowid FROM entries WHERE entries MATCH ?", [expression.decode()])
    return [rowid for (rowid,) in rows]


@given(st.one_of(st.text(), st.text("abC.+#'-_@&\" é日")), st.integers(0, 10**6))
def test_every_term_is_exactly_one_token(index, text, tenant):
    column, n_terms = scoped(text, tenant)

    tokens = tokens_of(index, column)

    assert len(tokens) == n_terms
    assert [twin.decode(token.removeprefix(f"t{tenant}_")) for token in tokens] == terms(text)


@given(TERM, TERM, st.sampled_from([1, 17, 7, 171]), st.sampled_from([1, 17, 7, 171]))
def test_a_query_finds_its_own_term_and_tenant_alone(index, stored, asked, owner, asker):
    column = match_expression([stored], owner)[1:-1]
    tokens_of(index, column)

    hits = found(index, match_expression([asked], asker))

    assert bool(hits) == ((stored, owner) == (asked, asker))


@given(TERM, TERM)
def test_different_terms_have_different_codes(one, other):
    assert (match_expression([one], 1) == match_expression([other], 1)) == (one == other)


@given(TERM, st.integers(0, 10**9))
def test_a_term_cannot_forge_a_prefix(term, tenant):
    token = match_expression([term], tenant)[1:-1].decode()

    owner, _, rest = token.partition("_")

    assert owner == f"t{tenant}"
    assert re.fullmatch("(?:[a-z0-9\x80-\U0010ffff]|_[0-9a-f]{2})+", rest)
    assert twin.decode(rest) == term


def test_a_text_that_imitates_another_tenants_terms_stays_with_its_own():
    assert scoped("t17_secret t17_5fsecret", 1)[0].split()[0] == b"t1_t17_5fsecret"


def test_any_of_the_keywords_finds_the_row(index):
    tokens_of(index, scoped("I write C++ on 192.168.0.1", 3)[0])

    assert found(index, match_expression(keywords("What do I write in C++?"), 3)) == [1]
    assert found(index, match_expression(keywords("C"), 3)) == []
    assert found(index, match_expression(keywords("C++"), 31)) == []


def test_no_keywords_make_an_empty_expression():
    assert match_expression([], 5) == b""


@pytest.mark.parametrize("function", [scoped, match_expression])
def test_a_negative_tenant_is_refused(function):
    with pytest.raises(ValueError, match="tenant -1"):
        function("x", -1)
