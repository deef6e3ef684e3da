"""Import of documents: what is read out of each kind, twice is once, and an interruption loses nothing."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.errors import DocumentError, UsageError
from shepherd.knowledge import Knowledge, transfer
from shepherd.knowledge.importing import WebLimits, import_from, pdf
from shepherd.knowledge.importing.documents import read
from shepherd.memory import Memory
from tests.knowledge import documents
from tests.memory.conftest import NOW

PAGE = """<!doctype html><html><head><title>Rag &amp; bone</title><meta charset=utf-8>
<meta property="article:published_time" content="2024-05-01T08:00:00Z"><style>p {}</style></head>
<body><nav>Home About</nav><script>var x = "never";</script><main><h1>Heading</h1>
<p>First   <b>bold</b> paragraph &mdash; with more words to be the main part of this page, and then some
more of them, so that nobody takes it for a teaser of another page that is longer than this one.</p>
<ul><li>one<li>two</ul><pre>def f():
    return 1</pre><table><tr><td>a</td><td>b</td></tr></table></main><footer>imprint</footer></body>"""


def states(knowledge: Knowledge, source: object, **options) -> list[str]:
    return [outcome.state for outcome in import_from(knowledge, str(source), **options)]


def contents(knowledge: Knowledge) -> list[tuple[object, ...]]:
    """Everything but times."""
    nodes = [knowledge.get_node(node.id, with_text=True) for node in knowledge.list_nodes(limit=10_000)]
    chunks = {
        node.id: [(c.idx, c.start_char, c.end_char) for c in knowledge.chunks_of(node.id)] for node in nodes
    }
    return sorted((n.title, n.kind, n.source_text, n.link, n.dimensions, tuple(chunks[n.id])) for n in nodes)


# ---- what is read


def test_a_web_page_is_read_without_menus_and_scripts():
    document = read(PAGE.encode(), "page.html")

    assert (document.title, document.kind, document.date) == ("Rag & bone", "html", "2024-05-01")
    assert document.text.startswith("# Heading\n\nFirst bold paragraph — with")
    assert document.text.endswith("- one\n- two\n\ndef f():\n    return 1\n\na b")
    assert not any(word in document.text for word in ("Home", "never", "imprint", "p {}"))


@pytest.mark.parametrize(
    "markup",
    [
        "<p>unclosed <b>everything<nav>menu",
        "<html><title>t</title><body>text<nav>menu</nav></p></div></main></body></html></html>",
        "text<script>while(1) {</script",
        "<table><tr><td>text<table><pre>",
        "text<!-- comment",
    ],
)
def test_a_broken_page_gives_what_text_it_has(markup):
    text = read(markup.encode(), "x.html").text

    assert "text" in text or "everything" in text
    assert "menu" not in text
    assert "while" not in text


def test_a_page_that_is_all_menu_is_read_nevertheless():
    assert read(b"<body><nav>Rooms <a>Prices</a></nav></body>", "x.html").text == "Rooms Prices"


def test_markdown_has_the_title_and_date_it_gives_itself():
    front = read(b'---\ntitle: "My day"\ndate: 2024-02-03T10:00\n---\n# Other\ntext', "day.md")
    heading = read(b"text\n## The heading ##\n", "day.md")

    assert (front.title, front.date) == ("My day", "2024-02-03")
    assert (heading.title, heading.date) == ("The heading", "")
    assert read(b"only text", "day.md").title == "day"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve\r\nlines\r".encode(), "naïve\nlines\n"),
        ("\ufeffnaïve".encode(), "naïve"),
        ("naïve".encode("utf-16"), "naïve"),
        ("naïve".encode("latin-1"), "naïve"),
    ],
)
def test_text_is_read_whatever_its_encoding(data, text):
    assert read(data, "a.txt").text == text


def test_a_declared_encoding_is_believed():
    page = '<meta charset="windows-1251"><p>Привет'.encode("cp1251")

    assert read(page, "x.html").text == "Привет"
    assert read("<p>Привет".encode("koi8-r"), "x.html", charset="koi8-r").text == "Привет"
    assert read(b"<meta charset=no-such><p>text", "x.html").text == "text"


def test_a_pdf_is_read_page_by_page():
    seen = []
    data = documents.pdf([["The first page."], ["The second", "has two lines."], []], title="A report")

    document = read(data, "r.pdf", progress=lambda done, total: seen.append((done, total)))

    assert (document.title, document.kind) == ("A report", "pdf")
    assert document.text == "The first page.\n\nThe second\nhas two lines.\n\n"
    starts = document.metadata["page_starts"]
    assert [document.text[start : start + 10] for start in starts] == ["The first ", "The second", ""]
    assert seen == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"%PDF-1.4\ngarbage", "cannot be read"),
        (documents.pdf([[]]), "has no text"),
        (documents.pdf([["x"]])[:200], "cannot be read"),
    ],
)
def test_a_pdf_without_text_or_sense_is_refused(data, message):
    with pytest.raises(DocumentError, match=message):
        read(data, "r.pdf")


def test_a_page_that_takes_for_ever_costs_this_document_only():
    # Half a million shown texts take minutes; and however slow the machine is, the limit is reached.
    data = documents.pdf([["A page."], ["x"] * 500_000])

    with pytest.raises(DocumentError, match=r"r\.pdf: page \d of the PDF was not read within 1 s"):
        pdf.read(data, "r.pdf", longest_page_s=1)


@pytest.mark.parametrize("data", [b"\0\1\2\3", b"", b"  \n"])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(DocumentError):
        read(data, "a.txt")


# ---- files and folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents of each kind, and what is none."""
    folder = tmp_path / "notes"
    (folder / "sub" / ".hidden").mkdir(parents=True)
    (folder / "a.md").write_text("# Alpha\nThe walrus sings.")
    (folder / "b.TXT").write_text("An otter swims. " * 200)
    (folder / "sub" / "c.html").write_text(PAGE)
    (folder / "sub" / "d.pdf").write_bytes(documents.pdf([["A platypus swims."]], title="Delta"))
    (folder / "sub" / "picture.png").write_bytes(b"\x89PNG")
    (folder / "sub" / ".hidden" / "e.md").write_text("secret")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    return folder


def test_a_folder_is_imported_twice_and_is_there_once(knowledge, folder):
    first = list(import_from(knowledge, str(folder), dimensions=["imported"]))
    before = contents(knowledge)

    assert [(o.name, o.state) for o in first] == [
        ("a.md", "added"),
        ("b.TXT", "added"),
        ("broken.pdf", "failed"),
        ("c.html", "added"),
        ("d.pdf", "added"),
    ]
    assert (
        states(knowledge, folder, dimensions=["imported"])
        == ["unchanged"] * 2 + ["failed"] + ["unchanged"] * 2
    )
    assert contents(knowledge) == before
    assert [node.dimensions for node in knowledge.list_nodes()] == [("imported",)] * 4
    assert knowledge.search("platypus")[0].title == "Delta"
    assert knowledge.get_node(1).link == (folder / "a.md").as_uri()


def test_a_changed_file_takes_the_place_of_the_old_one_and_leaves_what_a_person_wrote(knowledge, folder):
    states(knowledge, folder / "a.md")
    knowledge.update_node(1, title="My walrus", notes="important")
    (folder / "a.md").write_text("# Alpha\nThe seal sings.")

    assert states(knowledge, folder / "a.md") == ["changed"]

    node = knowledge.get_node(1, with_text=True)
    assert (node.title, node.notes, node.source_text) == (
        "My walrus",
        "important",
        "# Alpha\nThe seal sings.",
    )
    assert knowledge.search("walrus", part="text") == []
    assert knowledge.count_nodes() == 1


def test_a_text_that_a_person_changed_is_not_undone_by_the_same_file(knowledge, folder):
    states(knowledge, folder / "a.md")
    knowledge.update_node(1, source_text="my own version")

    assert states(knowledge, folder / "a.md") == ["unchanged"]
    assert knowledge.get_node(1, with_text=True).source_text == "my own version"


def test_what_is_not_there_or_too_large_is_refused(knowledge, folder):
    with pytest.raises(UsageError, match="no such file"):
        states(knowledge, folder / "nothing.md")
    with pytest.raises(DocumentError, match="larger than"):
        states(knowledge, folder / "b.TXT", limits=WebLimits(most_bytes=100))
    assert knowledge.count_nodes() == 0


class _StoppedError(Exception):
    pass


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 4), max_size=4), st.randoms(use_true_random=False))
def test_any_interruptions_come_to_the_same_in_the_end(
    memory: Memory, folder: Path, stops, chance: random.Random
):
    user = hashlib.sha256(repr((stops, chance.random())).encode()).hexdigest()
    interrupted = Knowledge(memory.transactions, f"i{user}")
    straight = Knowledge(memory.transactions, f"s{user}")
    for stop in stops:
        for number, _ in enumerate(import_from(interrupted, str(folder))):
            if number == stop:
                break
    states(interrupted, folder)
    states(straight, folder)

    assert contents(interrupted) == contents(straight)


def test_a_document_is_there_as_a_whole_or_not_at_all(knowledge, folder, monkeypatch):
    def fail(*_: object) -> None:
        raise _StoppedError

    # The last thing that storing a document does.
    monkeypatch.setattr("shepherd.knowledge.chunks._count", fail)
    with pytest.raises(_StoppedError):
        states(knowledge, folder / "b.TXT")
    assert knowledge.count_nodes() == 0
    monkeypatch.undo()

    assert states(knowledge, folder / "b.TXT") == ["added"]
    knowledge.update_node(1, notes="kept")
    monkeypatch.setattr("shepherd.knowledge.chunks._count", fail)
    (folder / "b.TXT").write_text("replaced")
    with pytest.raises(_StoppedError):
        states(knowledge, folder / "b.TXT")
    monkeypatch.undo()
    assert knowledge.search("otter")
    assert knowledge.get_node(1, with_text=True).source_text.startswith("An otter")


def test_a_killed_import_goes_on_where_it_was(path, folder, run_python):
    for number in range(40):
        (folder / f"n{number:02}.md").write_text(f"# Note {number}\nThe number {number} walrus.")
    program = """
import os, signal, sys
from shepherd.knowledge import Knowledge
from shepherd.knowledge.importing import import_from
from shepherd.memory import Memory
memory = Memory(sys.argv[1])
for number, _ in enumerate(import_from(Knowledge(memory.transactions, "steve"), sys.argv[2])):
    if number == 17:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_python(program, path, folder).returncode == -9

    with Memory(path, clock=lambda: NOW) as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        found = states(knowledge, folder)
        assert (found.count("unchanged"), found.count("added"), found.count("failed")) == (17, 27, 1)
        assert knowledge.count_nodes() == 44
        assert memory.check(repair=False).ok


# ---- our own export


def test_an_export_is_read_back_anywhere_and_changes_nothing_at_home(knowledge, memory, folder, tmp_path):
    states(knowledge, folder)
    knowledge.connect(1, 2, "see", type="supports", confidence=0.5)
    knowledge.set_dimension("sea", description="what swims", is_priority=True)
    knowledge.update_node(1, dimensions=["sea"], metadata={"n": [1]})
    file = tmp_path / "export.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in transfer.records(knowledge)))
    other = Knowledge(memory.transactions, "anna", clock=lambda: NOW)

    assert states(knowledge, file) == ["unchanged"] * 4
    assert states(other, file) == ["added"] * 4
    assert list(transfer.records(other)) == list(transfer.records(knowledge))
    assert states(other, file) == ["unchanged"] * 4


def test_a_damaged_export_is_refused_with_its_line(knowledge, tmp_path):
    file = tmp_path / "export.jsonl"
    file.write_text('{"type": "format", "format": "shepherd knowledge"}\n{"type": "node"\n')

    with pytest.raises(DocumentError, match="line 2 is damaged"):
        states(knowledge, file)


# ---- RA-H


@pytest.mark.parametrize("notes_column", ["notes", "content"])
def test_a_ra_h_database_is_imported_twice_and_is_there_once(knowledge, tmp_path, notes_column):
    documents.ra_h(tmp_path / "rah.sqlite", notes_column=notes_column)

    assert states(knowledge, tmp_path / "rah.sqlite") == ["added"] * 3
    (tmp_path / "copy.sqlite").write_bytes((tmp_path / "rah.sqlite").read_bytes())
    assert states(knowledge, tmp_path / "copy.sqlite") == ["unchanged"] * 3

    memory, building, learning = (knowledge.get_node(n, with_text=True) for n in (1, 2, 3))
    assert (memory.kind, memory.notes, memory.metadata) == ("memory", "said once", {"n": 1, "ra_h_id": 7})
    assert (building.title, building.dimensions) == ("building ra-h", ("ai", "research"))
    assert (building.created_at, building.event_date) == (1765274400, "2024-05-01")
    assert learning.source_text == "The text of the talk. " * 80
    assert len(knowledge.chunks_of(3)) > 1
    assert [(e.from_node_id, e.to_node_id, e.type, e.source) for e in knowledge.list_edges()] == [
        (3, 1, "related_to", "similarity"),
        (2, 3, "extends", "mcp"),
    ]
    assert knowledge.list_edges()[1].confidence == 0.7
    assert [hub.id for hub in knowledge.hubs()] == [3, 2]
    assert knowledge.list_dimensions()[0].description == "what is read"


def test_another_database_is_refused(knowledge, tmp_path):
    from shepherd._native.store import Connection

    with Connection(tmp_path / "x.db") as database:
        database.script("CREATE TABLE nodes(id INTEGER PRIMARY KEY)")

    with pytest.raises(DocumentError, match="not one of RA-H"):
        states(knowledge, tmp_path / "x.db")
    (tmp_path / "y.db").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    with pytest.raises(DocumentError, match="cannot be read"):
        states(knowledge, tmp_path / "y.db")
