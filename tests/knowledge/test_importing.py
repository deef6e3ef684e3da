"""Import of documents: what is read out of each kind, twice is once, and an interruption loses nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.errors import DocumentError, EmptyDocumentError, UsageError
from shepherd.knowledge import Knowledge, Node, transfer
from shepherd.knowledge.importing import (
    WebLimits,
    import_from,
    import_upload,
    pdf,
    read_document,
    read_upload,
)
from shepherd.knowledge.importing.documents import read
from shepherd.memory import Memory
from tests.examples import examples
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


def test_a_marked_section_that_html_does_not_know_is_passed_over_as_browsers_do():
    markup = b"<p>text<![ x ]> and<![foo[ y ]]> more<![if !IE]>!<![CDATA[ z ]]></p>"

    assert read(markup, "x.html").text == "text and more!"


@given(st.text(st.sampled_from("<>![]-/?&;=\"' #xpCDAT"), max_size=60))
def test_any_markup_is_a_page_or_refused_as_a_document(markup):
    try:
        document = read(f"text{markup}".encode(), "x.html")
    except DocumentError:
        return
    assert document.title.strip()
    assert document.text


def test_long_runs_of_blanks_are_read_and_taken_away():
    blanks = " " * 400_000  # would take hours where a pattern takes the square of it

    assert read(f"<pre>a{blanks}\nb</pre>".encode(), "x.html").text == "a\nb"
    assert read(f"# a{blanks}b\n".encode(), "x.md").title == f"a{blanks}b"
    assert read(f"---\ntitle: a{blanks}b\n---\n".encode(), "x.md").title == f"a{blanks}b"
    assert read(f"#{blanks}\n# b".encode(), "x.md").title == "b"


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"  \n<!DOCTYPE html><p>text", "page", "html"),
        (b"<HTML lang=en><p>text", "page", "html"),
        (b"text with <html> in it", "page", "text"),
        (b"# text", "page.MD", "markdown"),
        (b"<html> is a mark", "page.txt", "text"),
    ],
)
def test_a_kind_that_the_name_does_not_tell_is_that_of_the_beginning(data, name, kind):
    assert read(data, name).kind == kind


def test_a_page_without_text_is_refused_with_its_reason():
    with pytest.raises(DocumentError, match=r"x\.html: the page has no text") as caught:
        read(b"<script>write('text')</script>", "x.html")

    assert "script" in caught.value.hint


@pytest.mark.parametrize(
    "read_within",
    [
        lambda path, most: read_document(str(path), WebLimits(most_bytes=most)),
        lambda path, most: read_document("-", WebLimits(most_bytes=most), io.BytesIO(path.read_bytes())),
        lambda path, most: read_upload(path.read_bytes(), path.name, most),
    ],
    ids=["file", "stdin", "upload"],
)
def test_a_document_is_read_up_to_the_limit(folder, read_within):
    path = folder / "a.md"
    size = path.stat().st_size

    assert read_within(path, size).text == path.read_text()
    with pytest.raises(DocumentError, match="larger than 0 MiB") as caught:
        read_within(path, size - 1)
    assert "knowledge_max_mb" in caught.value.hint


def test_only_a_file_is_read_as_a_document(folder):
    with pytest.raises(UsageError, match="is a folder"):
        read_document(str(folder))
    with pytest.raises(UsageError, match="there is no such file"):
        read_document(str(folder / "nothing.md"))
    with pytest.raises(UsageError, match="the name of the file is empty"):
        read_document("")


def test_a_page_that_is_all_menu_is_read_nevertheless():
    assert read(b"<body><nav>Rooms <a>Prices</a></nav></body>", "x.html").text == "Rooms Prices"


def test_markdown_has_the_title_and_date_it_gives_itself():
    front = read(b'---\ntitle: "My day"\ndate: 2024-02-03T10:00\n---\n# Other\ntext', "day.md")
    heading = read(b"text\n## The heading ##\n", "day.md")

    assert (front.title, front.date) == ("My day", "2024-02-03")
    assert (heading.title, heading.date) == ("The heading", "")
    assert read(b"only text", "day.md").title == "day"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# \ntext", "day"),
        ("#   \n## ##\n# Second\n", "Second"),
        ('---\ntitle: "  "\n---\ntext', "day"),
        ('---\ntitle: "  "\n---\n# Heading', "Heading"),
        ("# C#\n", "C#"),
        ("# C# #\n", "C#"),
    ],
)
def test_a_title_of_blanks_is_none(text, title):
    assert read(text.encode(), "day.md").title == title


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


@pytest.mark.parametrize(
    ("data", "text", "n_bad"),
    [
        ("Die Stra\u00dfe nach K\u00f6ln, ".encode() + b"\xff", "Die Stra\u00dfe nach K\u00f6ln, \ufffd", 1),
        (
            "Gr\u00fc\u00dfe aus Z\u00fcrich \u20ac ".encode() + b"\xff!",
            "Gr\u00fc\u00dfe aus Z\u00fcrich \u20ac \ufffd!",
            1,
        ),
        ("\u041f\u0440\u0438\u0432\u0435\u0442".encode()[:-1], "\u041f\u0440\u0438\u0432\u0435\ufffd", 1),
        # Not a letter in it is valid, or one that may be chance.
        ("Stra\u00dfe, K\u00f6ln \u00e9".encode("cp1252"), "Stra\u00dfe, K\u00f6ln \u00e9", 0),
        ("na\u00efve \u00c3\u00a9".encode("cp1252"), "na\u00efve \u00c3\u00a9", 0),
    ],
)
def test_a_bad_byte_spoils_no_text_in_utf_8(data, text, n_bad):
    document = read(data, "a.txt")

    assert document.text == text
    assert document.remark == (
        f"a.txt: {n_bad} letter could not be read (\ufffd); is it damaged?" if n_bad else ""
    )


def test_a_declared_encoding_is_believed():
    page = '<meta charset="windows-1251"><p>Привет'.encode("cp1251")

    assert read(page, "x.html").text == "Привет"
    assert read("<p>Привет".encode("koi8-r"), "x.html", charset="koi8-r").text == "Привет"
    assert read(b"<meta charset=no-such><p>text", "x.html").text == "text"
    # What a text says about pages, and a page beside what its server says, do not count.
    assert "Привет" in read('<meta charset="koi8-r"> Привет'.encode(), "x.txt").text
    assert read('<meta charset="koi8-r"><p>Привет'.encode(), "x.html", charset="utf-8").text == "Привет"


@pytest.mark.parametrize("charset", ["undefined", "idna", "punycode", "unicode_escape", "a\0b", "rot13"])
def test_what_is_no_encoding_of_pages_is_not_believed(charset):
    page = f'<meta charset="{charset}"><p>na\\u00efve ï'.encode()

    assert read(page.replace(b"\0", b""), "x.html").text == "na\\u00efve ï"
    assert read(page.replace(b"\0", b""), "x.html", charset=charset).text == "na\\u00efve ï"


@pytest.mark.parametrize("charset", ["iso-8859-1", "latin1", "us-ascii"])
def test_latin_1_is_windows_1252_as_in_browsers(charset):
    page = f"<meta charset={charset}><p>“10 €”".encode("cp1252")

    assert read(page, "x.html").text == "“10 €”"


def test_utf_8_that_calls_itself_ascii_is_read_as_it_is():
    page = "<meta charset=us-ascii><p>naïve é"

    assert read(page.encode(), "x.html").text == "naïve é"


def test_a_pdf_is_read_page_by_page():
    seen = []
    data = documents.pdf([["The first page."], ["The second", "has two lines."], []], title="A report")

    document = read(data, "r.pdf", progress=lambda done, total: seen.append((done, total)))

    assert (document.title, document.kind) == ("A report", "pdf")
    assert document.text == "The first page.\n\nThe second\nhas two lines.\n\n"
    starts = document.metadata["page_starts"]
    assert [document.text[start : start + 10] for start in starts] == ["The first ", "The second", ""]
    assert seen == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("where", ["process", "here"])
def test_ligatures_of_a_pdf_are_letters(monkeypatch, where):
    if where == "here":
        monkeypatch.setattr(pdf.subprocess_sandbox, "can_run", lambda: False)
    data = documents.pdf([["Due on the \\256fth, in the of\\256ce."]])

    assert read(data, "r.pdf").text == "Due on the fifth, in the office."


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
        ("sub/picture.png", "skipped"),
    ]
    assert states(knowledge, folder, dimensions=["imported"]) == ["unchanged"] * 2 + ["failed"] + [
        "unchanged"
    ] * 2 + ["skipped"]
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


@pytest.mark.parametrize("name", ["a.md", "b.TXT", "sub/c.html"])
def test_emptied_file_empties_its_document(knowledge, folder, name):
    states(knowledge, folder)
    before = next(node for node in knowledge.list_nodes() if node.link == (folder / name).as_uri())
    knowledge.update_node(before.id, notes="important")
    (folder / name).write_text("\n")

    [emptied] = import_from(knowledge, str(folder / name))
    again = states(knowledge, folder / name)

    node = knowledge.get_node(before.id, with_text=True)
    short = (folder / name).name
    assert (emptied.state, emptied.reason) == ("changed", f"{short}: there is no text in it any more")
    assert again == ["unchanged"]
    assert (node.title, node.notes, node.source_text) == (before.title, "important", "")
    assert all(found.node_id != before.id for found in knowledge.search("walrus otter badger", part="text"))


def test_file_without_text_that_was_never_imported_is_no_document(knowledge, folder):
    (folder / "a.md").write_text("\n")

    with pytest.raises(EmptyDocumentError):
        states(knowledge, folder / "a.md")
    assert knowledge.count_nodes() == 0


def test_document_whose_file_is_gone_is_named_and_stays(knowledge, folder):
    (folder / "100 % sure \u00e9.md").write_text("A percent.")
    states(knowledge, folder)
    elsewhere = folder.with_name("notes2")
    elsewhere.mkdir()
    (elsewhere / "z.md").write_text("Far away.")
    states(knowledge, elsewhere)
    (elsewhere / "z.md").unlink()
    links = {node.link: node.id for node in knowledge.list_nodes()}
    old = [folder / "100 % sure \u00e9.md", folder / "sub" / "c.html"]
    (folder / "a.md").rename(folder / "renamed.md")
    for path in old:
        path.unlink()

    outcomes = list(import_from(knowledge, str(folder)))

    gone = {outcome.name: outcome.node_id for outcome in outcomes if outcome.state == "gone"}
    assert gone == {str(path.relative_to(folder)): links[path.as_uri()] for path in [*old, folder / "a.md"]}
    assert all("the file is gone" in outcome.reason for outcome in outcomes if outcome.state == "gone")
    assert knowledge.count_nodes() == len(links) + 1  # the renamed one
    for node_id in gone.values():
        knowledge.delete_node(node_id)
    assert "gone" not in states(knowledge, folder)


def test_documents_of_a_renamed_folder_are_named_and_a_copy_is_none(knowledge, folder):
    states(knowledge, folder)
    links = {node.link: node.id for node in knowledge.list_nodes()}
    folder.rename(folder.with_name("renamed"))
    (folder.with_name("renamed") / "broken.pdf").unlink()

    outcomes = list(import_from(knowledge, str(folder.with_name("renamed"))))

    assert [outcome.state for outcome in outcomes] == ["added"] * 4 + ["gone"] * 4 + ["skipped"]
    gone = {Path(one.name).as_uri(): one.node_id for one in outcomes if one.state == "gone"}
    assert gone == links


def test_a_file_without_suffix_is_imported_from_a_folder_if_it_is_text(knowledge, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    read_as_text = {
        "LICENSE": b"Permission is hereby granted \xe2\x80\x94",
        "cut": "ü".encode() * 5000 + b"a",  # in a letter where the beginning ends
        "utf16": "Zürich".encode("utf-16"),
        "pdf": documents.pdf([["A platypus swims."]]),
    }
    others = {
        "program": b"\x7fELF\x02",
        "mark": b"\xff\xfe\x00",  # of UTF-16, and half a letter
        "values": b"\xff\xfe\x07\x00\x01\x00",
        "latin1": "Zürich".encode("latin-1"),
        "blank": b" \n",
        "v1.2": b"text",
    }
    for name, data in {**read_as_text, **others}.items():
        (folder / name).write_bytes(data)

    outcomes = {outcome.name: outcome.state for outcome in import_from(knowledge, str(folder))}

    assert outcomes == {**dict.fromkeys(read_as_text, "added"), **dict.fromkeys(others, "skipped")}


def test_a_pipe_is_a_document_of_its_own_each_time(knowledge, tmp_path):
    def piped(data: bytes) -> list[str]:
        return states(knowledge, "-", stdin=io.BytesIO(data))

    assert [piped(b"An otter"), piped(b"A seal"), piped(b"An otter")] == [["added"], ["added"], ["unchanged"]]
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(states, knowledge, tmp_path / "pipe")
        (tmp_path / "pipe").write_bytes(b"A walrus")
        assert done.result() == ["added"]
    with pytest.raises(UsageError, match="is empty"):
        states(knowledge, "")


def uploaded(knowledge: Knowledge, data: bytes, name: str) -> list[str]:
    return [outcome.state for outcome in import_upload(knowledge, data, name, 1 << 20)]


def test_a_file_that_is_uploaded_too_is_one_document_in_either_order(knowledge, folder):
    (folder / "sub" / "a.md").write_text("# Alpha\nAnother walrus.")
    states(knowledge, folder / "a.md")

    assert uploaded(knowledge, (folder / "a.md").read_bytes(), "a.md") == ["unchanged"]
    assert uploaded(knowledge, (folder / "sub" / "a.md").read_bytes(), "a.md") == ["added"]
    assert states(knowledge, folder / "sub" / "a.md") == ["unchanged"]
    assert knowledge.count_nodes() == 2


def test_neither_another_name_nor_other_bytes_nor_another_folder_is_the_same_document(knowledge, folder):
    data = (folder / "a.md").read_bytes()
    (folder / "sub" / "a.md").write_bytes(data)

    assert states(knowledge, folder / "a.md") == ["added"]
    assert uploaded(knowledge, data, "z.md") == ["added"]
    assert uploaded(knowledge, data + b"!", "a.md") == ["added"]
    # Each may be changed without the other.
    assert states(knowledge, folder / "sub" / "a.md") == ["added"]
    (folder / "a.md").write_bytes(data + b"!")
    assert states(knowledge, folder / "a.md") == ["changed"]
    assert {node.source_text for node in nodes_with_text(knowledge)} == {data.decode(), f"{data.decode()}!"}


def nodes_with_text(knowledge: Knowledge) -> list[Node]:
    return [knowledge.get_node(node.id, with_text=True) for node in knowledge.list_nodes()]


def test_another_users_file_is_no_document_of_ones_own(knowledge, memory, folder):
    other = Knowledge(memory.transactions, "walt")
    states(other, folder / "a.md")

    assert uploaded(knowledge, (folder / "a.md").read_bytes(), "a.md") == ["added"]


def test_a_text_that_a_person_changed_is_not_undone_by_the_same_file(knowledge, folder):
    states(knowledge, folder / "a.md")
    knowledge.update_node(1, source_text="my own version")

    assert states(knowledge, folder / "a.md") == ["unchanged"]
    assert knowledge.get_node(1, with_text=True).source_text == "my own version"


def test_what_is_not_there_or_too_large_is_refused(knowledge, folder):
    with pytest.raises(UsageError, match="no such file"):
        states(knowledge, folder / "nothing.md")
    with pytest.raises(UsageError, match="no such file"):
        states(knowledge, "~nobody-of-that-name/notes.md")
    with pytest.raises(UsageError, match="not a valid address"):
        states(knowledge, "http://127.0.0.1/\udce9")
    with pytest.raises(DocumentError, match="larger than"):
        states(knowledge, folder / "b.TXT", limits=WebLimits(most_bytes=100))
    assert knowledge.count_nodes() == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="APFS has no names that are not UTF-8")
def test_names_of_any_bytes_are_files_like_others_and_two_of_them_are_two(knowledge, tmp_path):
    folder = os.fsencode(tmp_path / "notes")
    os.mkdir(folder)
    for name in (b"caf\xe9.txt", b"caf\xe8.txt", b"caf\xe9.html", b"caf\xe9.md"):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"<p>text of " + name.hex().encode())

    assert states(knowledge, os.fsdecode(folder)) == ["added"] * 4
    assert states(knowledge, os.fsdecode(folder)) == ["unchanged"] * 4
    assert {node.title for node in knowledge.list_nodes()} == {"caf\ufffd"}


def test_nothing_in_a_folder_ends_the_import_of_the_rest(knowledge, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, data in {
        "a.md": b"#   \ntext",
        "b.md": b'---\ntitle: " "\n---\ntext',
        "c.html": b"text<![ x ]>",
        "d.html": b'<meta charset="undefined">text',
        "e.txt": b"\0",
        "f.txt": b"the last",
    }.items():
        (folder / name).write_bytes(data)

    assert states(knowledge, folder) == ["added"] * 4 + ["failed", "added"]


def test_a_link_is_followed_only_to_what_the_folder_itself_has(knowledge, folder, tmp_path):
    (tmp_path / "outside.md").write_text("private")
    (folder / "out.md").symlink_to(tmp_path / "outside.md")
    (folder / "hidden.md").symlink_to(folder / "sub" / ".hidden" / "e.md")
    (folder / "nowhere.md").symlink_to(folder / "gone.md")
    (folder / "within.html").symlink_to(folder / "sub" / "c.html")
    (tmp_path / "link").symlink_to(folder)

    outcomes = list(import_from(knowledge, str(tmp_path / "link")))

    names = [outcome.name for outcome in outcomes if outcome.state != "skipped"]
    assert names == ["a.md", "b.TXT", "broken.pdf", "c.html", "c.html", "d.pdf"]
    skipped = [outcome.name for outcome in outcomes if outcome.state == "skipped"]
    assert skipped == ["hidden.md", "nowhere.md", "out.md", "sub/picture.png"]
    assert not knowledge.search("private")
    assert not knowledge.search("secret")


def test_a_folder_that_cannot_be_listed_is_told_and_the_rest_is_imported(knowledge, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("text")
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):  # longer than a path may be, which no right to read it helps with
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    outcomes = list(import_from(knowledge, str(folder)))

    assert [outcome.state for outcome in outcomes] == ["added", "failed"]
    assert outcomes[1].reason.endswith("File name too long")


class _StoppedError(Exception):
    pass


@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
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


def test_a_folder_tells_how_far_it_is(knowledge, tmp_path):
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"# {name}\nA note.")
    seen: list[tuple[int, int, str]] = []

    states(knowledge, tmp_path, progress=lambda *step: seen.append(step))

    assert seen == [(0, 2, "a.md"), (1, 2, "b.md"), (2, 2, "")]


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


def test_an_export_is_known_by_what_stands_in_it_and_not_by_its_name(knowledge, folder, tmp_path):
    states(knowledge, folder / "a.md")
    file = tmp_path / "backup.json"
    file.write_text("".join(json.dumps(record) + "\n" for record in transfer.records(knowledge)))

    assert states(knowledge, file) == ["unchanged"]
    assert knowledge.count_nodes() == 1


def test_a_text_of_brackets_is_no_export(knowledge, tmp_path):
    (tmp_path / "x.txt").write_text("[" * 100_000)

    assert states(knowledge, tmp_path / "x.txt") == ["added"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "node", "id": 1}',
        b'{"type": "node", "title": "caf\xe9"}',
        b'{"type": "edge", "from_node_id": 1}',
        b'{"type": "dimension"}',
        b'{"type": "dimension", "name": 5}',
        b"[1]",
        b"{}",
        b"[" * 100_000,
    ],
)
def test_a_line_without_what_belongs_into_it_is_refused_with_its_number(knowledge, tmp_path, line):
    file = tmp_path / "export.jsonl"
    file.write_bytes(b'{"type": "format", "format": "shepherd knowledge"}\n' + line + b"\n")

    with pytest.raises(DocumentError, match="line 2 is damaged"):
        states(knowledge, file)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", " "),
        ("title", 5),
        ("notes", None),
        ("metadata", "x"),
        ("dimensions", [1]),
        ("created_at", "now"),
        ("updated_at", 1 << 80),
        ("id", ...),
        ("content_hash", ...),
    ],
)
def test_a_node_that_could_not_be_stored_is_refused_with_its_line(
    knowledge, memory, folder, tmp_path, field, value
):
    states(knowledge, folder / "a.md")
    file = tmp_path / "export.jsonl"
    head, node = transfer.records(knowledge)
    if value is ...:
        del node[field]
    else:
        node[field] = value
    file.write_text(f"{json.dumps(head)}\n{json.dumps(node)}\n")

    with pytest.raises(DocumentError, match="line 2 is damaged"):
        states(Knowledge(memory.transactions, "anna"), file)


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


def test_what_a_ra_h_database_leaves_blank_costs_none_of_the_rest(knowledge, tmp_path):
    from shepherd._native.store import Connection

    documents.ra_h(tmp_path / "rah.sqlite")
    with Connection(tmp_path / "rah.sqlite") as database:
        blank = json.dumps({"type": "extends", "explanation": " ", "confidence": float("nan")})
        database.execute("UPDATE edges SET context = ? WHERE from_node_id = 1573", (blank,))
        database.execute("UPDATE edges SET explanation = '  ' WHERE from_node_id = 4436")
        database.execute("UPDATE nodes SET title = '  ', chunk = ' ' WHERE id = 4436")

    assert states(knowledge, tmp_path / "rah.sqlite") == ["added"] * 3

    assert [edge.explanation for edge in knowledge.list_edges()] == ["connected in RA-H"] * 2
    assert knowledge.get_node(3).title == "node 4436"


def test_another_database_is_refused(knowledge, tmp_path):
    from shepherd._native.store import Connection

    with Connection(tmp_path / "x.db") as database:
        database.script("CREATE TABLE nodes(id INTEGER PRIMARY KEY)")

    with pytest.raises(DocumentError, match="not one of RA-H"):
        states(knowledge, tmp_path / "x.db")
    (tmp_path / "y.db").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    with pytest.raises(DocumentError, match="cannot be read"):
        states(knowledge, tmp_path / "y.db")
