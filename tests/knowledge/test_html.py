"""Text of web pages: which elements begin lines or are passed over, and where title and date come from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shepherd.knowledge.importing.html import Page, read

LONG = "word " * 40  # 200 characters with its last blank


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a  b\n c", "a b c"),
        ("<p>a<p>b", "a\n\nb"),
        ("a<div>b</div>c", "a\n\nb\n\nc"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("a<b>b</b> <i>c</i>d", "ab cd"),
        ("<h1>a</h1>b<h3>c</h3>", "# a\n\nb\n\n### c"),
        ("<h6>a</h6><h7>b</h7>", "###### a\n\nb"),
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        ("<table><tr><td>a<td>b<tr><th>c</th><th>d</th></tr></table>e", "a b\nc d\n\ne"),
        ("<pre>a\n   b\n\n c</pre>d  e", "a\n   b\n\n c\n\nd e"),
        ("<pre>a<pre>b  c</pre>d  e</pre>f  g", "a\n\nb  c\n\nd  e\n\nf g"),
        ("</pre>a  b", "a b"),
        ("a<img alt='x y'>b<img>c", "a x y b c"),
        ("a &amp; b&nbsp;c &#233;", "a & b c é"),
        ("a<!-- b -->c", "ac"),
        ("a<script>b</script>c<style>d</style>", "ac"),
        ("a<nav>b<nav>c</nav>d</nav>e", "ae"),
        ("a<nav>b<div>c</div></nav>e", "ae"),
        ("a<nav>b", "a"),
        ("a<title>t</title>b", "ab"),
        ("<nav>a</nav><footer>b</footer>", "ab"),
        ("<nav>a<script>b</script></nav>", "a"),
        ("<p> a <p> <p> <p> b ", "a\n\nb"),
    ],
)
def test_elements_become_lines(markup: str, text: str) -> None:
    assert read(markup).text == text


@pytest.mark.parametrize("tag", ["main", "article"])
def test_only_a_long_main_part_is_all_of_the_text(tag: str) -> None:
    exact = LONG + "x"  # 201, and 200 without its last character

    assert read(f"a<{tag}>{exact}</{tag}>b").text == exact
    assert read(f"a<{tag}>{exact[1:]}</{tag}>b").text == exact[1:]
    assert read(f"a<{tag}>{exact[2:]}</{tag}>b").text == f"a\n\n{exact[2:]}\n\nb"
    assert read(f"a<{tag}>{exact}<{tag}>c</{tag}>d</{tag}>b").text == f"{exact}\n\nc\n\nd"
    assert read(f"</{tag}>a<{tag}>{exact}</{tag}>b").text == exact


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title> a\n b </title><h1>c</h1>", "a b"),
        ("<title>a</title><svg><title>b</title></svg><title>c</title>", "a"),
        ("<h2>a <b>b</b></h2><h1>c</h1>", "a b"),
        ("<h2>a<p>b</p></h2>", "ab"),
        ("<meta property=og:title content='a'><h1>b</h1>", "a"),
        ("<meta property=og:title content='a'><title>b</title>", "b"),
        ("<p>a", ""),
    ],
)
def test_the_title_is_the_pages_own_or_the_first_heading(markup: str, title: str) -> None:
    assert read(f"{markup}<p>text").title == title


@pytest.mark.parametrize(
    ("markup", "description", "date"),
    [
        ("<meta name=description content=' a\n b '>", "a b", ""),
        ("<meta name=Description content=a><meta property=og:description content=b>", "a", ""),
        ("<meta property=og:description content=b><meta name=description content=a>", "b", ""),
        ("<meta name=keywords content=a><meta content=b>", "", ""),
        *((f"<meta name={name} content='2024-05-01T10:00'>", "", "2024-05-01")
          for name in ("article:published_time", "date", "DC.date", "dcterms.created")),
        ("<meta itemprop=datePublished content=' 2024-05-01'>", "", "2024-05-01"),
        ("<meta name=date content='1 May 2024'>", "", ""),
        ("<time datetime=2024-05-01>x</time><time datetime=2025-01-01>y</time>", "", "2024-05-01"),
        ("<time>x</time><time datetime=2025-01-01>y</time>", "", "2025-01-01"),
        ("<meta name=date content=2024-05-01><time datetime=2025-01-01>y</time>", "", "2024-05-01"),
        ("<time datetime=2025-01-01>y</time><meta name=date content=2024-05-01>", "", "2025-01-01"),
    ],
)  # fmt: skip
def test_description_and_date_are_the_first_that_the_page_names(
    markup: str, description: str, date: str
) -> None:
    page = read(markup)

    assert (page.description, page.date) == (description, date)


def test_an_empty_page_has_nothing() -> None:
    assert read("") == Page("", "", "", "")


def test_page_of_tags_without_an_end_takes_no_hours() -> None:
    # A process of its own, which can be ended.
    script = """
from shepherd.errors import DocumentError
from shepherd.knowledge.importing.documents import read

for tag in ("<a ", "<a b='", "<!--", "</"):
    try:
        read(b"<title>" + tag.encode() * 300_000, "page.html")
    except DocumentError as error:
        print(tag, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )

    assert all(line.endswith("too many tags have no end") for line in done.stdout.splitlines())


def test_page_with_some_tags_without_an_end_is_read() -> None:
    assert "one" in read("<p>one</p>" + "<b x='" * 51 + "<p>two").text
