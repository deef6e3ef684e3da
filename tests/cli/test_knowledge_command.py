"""`shepherd knowledge`, as processes."""

from __future__ import annotations

import json
import zipfile

import pytest

from tests.cli.conftest import in_latin_1


@pytest.fixture
def two(shepherd):
    """Two nodes with an edge."""
    shepherd(
        "knowledge", "add", "Emma", "--kind", "book", "--dimension", "books", "--text", "-", input="A walrus."
    )
    shepherd("knowledge", "add", "Jane Austen", "--notes", "a writer", "--date", "1775-12-16")
    shepherd("knowledge", "link", "1", "2", "Emma was written by her", "--type", "created_by")


def test_list_show_and_search_tell_what_is_there(shepherd, two):
    listed = [line.split("\t") for line in shepherd("knowledge", "list").stdout.splitlines()]
    shown = shepherd("knowledge", "show", "1", "--text").stdout
    [found] = json.loads(shepherd("knowledge", "search", "walrus", "--json").stdout)

    assert sorted((row[0], row[4]) for row in listed) == [("1", "Emma"), ("2", "Jane Austen")]
    assert "edge 1: Emma (1) created_by Jane Austen (2): Emma was written by her" in shown
    assert shown.endswith("\nA walrus.\n")
    assert (found["node_id"], found["text"], found["start_char"]) == (1, "A walrus.", 0)
    assert shepherd("knowledge", "search", "submarine").stderr == "nothing matches\n"
    assert shepherd("knowledge", "dimensions").stdout == "books\t1\t\t\n"


def test_hubs_and_focus_are_what_a_model_is_told(shepherd, two):
    hubs = shepherd("knowledge", "hubs").stdout
    focus = shepherd("knowledge", "focus", "2", "9")

    assert '[NODE:1:"Emma"] (edges: 1)\n' in hubs
    assert (focus.returncode, focus.stderr) == (1, "warning: there is no node 9\n")
    assert '### Primary: [NODE:2:"Jane Austen"]\nPreview: a writer\n' in focus.stdout
    assert shepherd("knowledge", "focus").stdout == focus.stdout
    assert shepherd("knowledge", "focus", "2", "--clear").returncode == 2
    assert shepherd("knowledge", "focus", "--clear").stderr == "no node is in focus\n"


def test_a_node_is_edited_and_forgotten(shepherd, two):
    shepherd("knowledge", "edit", "2", "--append", "of novels", "--dimension", "people")
    node = json.loads(shepherd("knowledge", "show", "2", "--json").stdout)["node"]
    nothing = shepherd("knowledge", "edit", "2")
    gone = shepherd("knowledge", "forget", "2", "7")

    assert (node["notes"], node["dimensions"]) == ("a writer\n\nof novels", ["people"])
    assert (nothing.returncode, "nothing to change" in nothing.stderr) == (2, True)
    assert (gone.returncode, gone.stderr) == (
        1,
        "1 node removed\nMessages, traces and memories that quote it stay. To find them by a word of it:\n"
        "  shepherd memory audit --canary WORD\nwarning: there is no node 7\n",
    )
    assert shepherd("knowledge", "unlink", "1").stderr.startswith("0 edges removed")
    assert shepherd("knowledge", "show", "2").returncode == 1


def test_a_folder_is_imported_twice(shepherd, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Alpha\nwalrus")
    (tmp_path / "notes" / "bad.pdf").write_bytes(b"%PDF-1.4")

    first = shepherd("knowledge", "import", tmp_path / "notes", "--dimension", "imported")
    second = json.loads(shepherd("knowledge", "import", tmp_path / "notes" / "a.md", "--json").stdout)

    assert first.returncode == 1
    assert first.stderr.startswith("1 added, 1 failed\nwarning: bad.pdf: ")
    assert second["counts"] == {"unchanged": 1}


def test_one_of_several_sources_that_cannot_be_read_does_not_end_the_others(shepherd, tmp_path):
    (tmp_path / "a.md").write_text("# Alpha\nwalrus")
    (tmp_path / "b.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "c.md").write_text("# Gamma\notter")
    sources = [tmp_path / name for name in ("a.md", "b.png", "no.md", "c.md")]

    done = shepherd("knowledge", "import", *sources)
    again = json.loads(shepherd("knowledge", "import", *sources, "--json").stdout)

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "2 added, 2 failed",
        "warning: b.png: this is not text",
        f"warning: {tmp_path / 'no.md'}: there is no such file",
    ]
    assert again["counts"] == {"unchanged": 2, "failed": 2}
    assert shepherd("knowledge", "import", tmp_path / "no.md").returncode == 2


def test_an_empty_note_is_mentioned_and_is_no_failure(shepherd, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Alpha\nwalrus")
    (notes / "blank.txt").write_text("\n\n  \n")
    (notes / "empty.md").touch()

    done = shepherd("knowledge", "import", notes)
    named = shepherd("knowledge", "import", notes / "a.md", notes / "empty.md", "--json")

    assert (done.returncode, done.stderr.splitlines()) == (0, [
        "1 added, 2 empty",
        "blank.txt: there is no text in it",
        "empty.md: there is no text in it",
    ])  # fmt: skip
    assert (named.returncode, json.loads(named.stdout)["counts"]) == (0, {"unchanged": 1, "empty": 1})
    (notes / "a.md").unlink()
    assert shepherd("knowledge", "import", notes).returncode == 1  # nothing was imported
    assert shepherd("knowledge", "import", notes / "empty.md").returncode == 1


def test_documents_whose_files_are_gone_are_named_with_the_command_that_removes_them(shepherd, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (notes / name).write_text(f"walrus of {name}")
    shepherd("knowledge", "import", notes)
    (notes / "a.md").rename(notes / "d.md")
    (notes / "b.md").unlink()

    done = shepherd("knowledge", "import", notes)

    assert done.returncode == 0
    said = done.stderr.splitlines()
    assert said[:3] == [
        "1 added, 1 unchanged, 2 gone",
        "a.md: the file is gone, and its document, node 1, stays",
        "b.md: the file is gone, and its document, node 2, stays",
    ]
    assert said[3].startswith("to remove them: ")
    assert said[3].endswith("knowledge forget 1 2")
    shepherd("knowledge", "forget", "1", "2")
    assert shepherd("knowledge", "import", notes).stderr.splitlines() == ["2 unchanged"]


def test_graph_of_the_mcp_memory_server_is_imported(shepherd, tmp_path):
    graph = tmp_path / "memory.jsonl"
    rex = {
        "type": "entity",
        "name": "Rex",
        "entityType": "dog",
        "observations": ["Likes the lake", "x" * 5000],
    }
    likes = [
        {"type": "relation", "from": "Rex", "to": "Anna", "relationType": verb} for verb in ("likes", "has")
    ]
    graph.write_text("\n".join(map(json.dumps, [rex, *likes])) + "\nnonsense\n", encoding="utf-8")

    first = shepherd("knowledge", "import", graph)
    again = json.loads(shepherd("knowledge", "import", graph, "--json").stdout)

    assert (first.returncode, first.stderr.splitlines()[0]) == (1, "2 added, 1 failed")
    assert f"{graph}: line 4: not JSON" in first.stderr
    assert again["counts"] == {"unchanged": 2, "failed": 1}
    assert "edge 1: Rex (1) related_to Anna (2): likes; has\n" in shepherd("knowledge", "show", "1").stdout


def test_exports_of_chats_are_refused_with_the_command_that_imports_them(shepherd, tmp_path):
    chats = [{"title": "t", "mapping": {}}]
    files = {name: tmp_path / name for name in ("conversations.json", "chats.zip", "mem0.json", "mine.jsonl")}
    files["conversations.json"].write_text(json.dumps(chats))
    with zipfile.ZipFile(files["chats.zip"], "w") as archive:
        archive.writestr("export/conversations.json", json.dumps(chats))
    files["mem0.json"].write_text('{"results": [{"memory": "likes tea"}]}')
    shepherd("memory", "add", "Which dog?", "Rex")
    shepherd("memory", "export", files["mine.jsonl"])
    told = {name: shepherd("knowledge", "import", file) for name, file in files.items()}

    for name, source in (
        ("conversations.json", "ChatGPT"),
        ("chats.zip", "ChatGPT"),
        ("mem0.json", "mem0"),
        ("mine.jsonl", "Shepherd's memories"),
    ):
        assert told[name].returncode == 2
        assert f"{files[name]}: this is an export of {source}\n" in told[name].stderr
        assert f"shepherd memory import {files[name]} imports it" in told[name].stderr
    both = shepherd("knowledge", "import", files["mem0.json"], tmp_path / "no.md")
    assert f"shepherd memory import {files['mem0.json']} imports it" in both.stderr
    assert shepherd("knowledge", "list").stdout == ""

    files["mem0.json"].rename(tmp_path / "mem0.txt")
    assert shepherd("knowledge", "import", tmp_path / "mem0.txt").returncode == 0
    shepherd("memory", "backup", tmp_path / "copy.db")
    assert "shepherd memory restore" in shepherd("knowledge", "import", tmp_path / "copy.db").stderr


def test_an_address_of_this_machine_is_not_fetched(shepherd):
    done = shepherd("knowledge", "import", "http://127.0.0.1/")

    assert done.returncode == 2
    assert "is an address of this machine" in done.stderr
    assert "knowledge_allowed_hosts" in done.stderr


def test_tags_are_replaced_and_taken_off(shepherd, two):
    def tags() -> list[str]:
        return json.loads(shepherd("knowledge", "show", "1", "--json").stdout)["node"]["dimensions"]

    shepherd("knowledge", "edit", "1", "--dimension", "novels", "--dimension", "england")
    assert tags() == ["england", "novels"]
    shepherd("knowledge", "edit", "1", "--notes", "read")
    assert tags() == ["england", "novels"]
    shepherd("knowledge", "edit", "1", "--no-dimension")
    assert tags() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "9" * 23), f"argument ID: '{'9' * 23}' is not an id; ids are whole numbers"),
        (("focus", "9" * 23), f"argument ID: '{'9' * 23}' is not an id; ids are whole numbers"),
        (("forget", "0"), "argument ID: '0' is not an id; ids are whole numbers"),
        (("list", "--limit", "-5"), "argument --limit: expected a whole number from 1 to"),
        (("list", "--limit", "9" * 23), "argument --limit: expected a whole number from 1 to"),
        (("list", "--offset", "9" * 23), "argument --offset: expected a whole number from 0 to"),
        (("search", "x", "--limit", "many"), "argument --limit: expected a whole number from 1 to"),
    ],
)
def test_a_number_that_cannot_be_is_the_callers_mistake(shepherd, arguments, message):
    done = shepherd("knowledge", *arguments)

    assert done.returncode == 2
    assert done.stderr.startswith(f"shepherd: error: {message}")


def test_the_largest_numbers_are_taken(shepherd, two):
    largest = str((1 << 63) - 1)

    assert shepherd("knowledge", "show", largest).stderr.startswith(
        f"shepherd: error: there is no node {largest}"
    )
    assert shepherd("knowledge", "list", "--limit", "1000000000", "--offset", largest).returncode == 0
    found = shepherd("knowledge", "search", "walrus", "--limit", "1000000000")
    assert found.stdout.startswith("1\t")


def test_a_filter_that_is_not_utf_8_finds_nothing(shepherd, two):
    done = shepherd("knowledge", "list", "--kind", b"caf\xe9", "--dimension", b"\xff")

    assert (done.returncode, done.stdout) == (0, "")


def test_an_export_is_utf_8_in_any_locale(shepherd, two):
    shepherd("knowledge", "add", "Café 日本")

    done = shepherd("knowledge", "export", **in_latin_1())

    assert [json.loads(line).get("title") for line in done.stdout.splitlines()][-2] == "Café 日本"


def test_an_export_is_lines_of_json_that_import_reads(shepherd, two, tmp_path):
    shepherd("knowledge", "export", tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    done = shepherd("knowledge", "import", tmp_path / "all.jsonl", "--user", "anna")

    assert [line["type"] for line in lines] == ["format", "dimension", "node", "node", "edge"]
    assert done.stderr.startswith("2 added")
    assert shepherd("knowledge", "list", "--user", "anna").stdout.count("\n") == 2


def test_an_import_names_the_lines_with_masked_secrets_and_its_export_has_none(shepherd, tmp_path):
    (tmp_path / "keys.md").write_text(
        "# Keys\n\nThe door code is 4471.\nFlight LH 1234, booking code X7K9PQ\nPIN: 8812\n"
    )
    first = shepherd("knowledge", "import", tmp_path / "keys.md")
    shepherd("knowledge", "export", tmp_path / "all.jsonl")
    again = shepherd("knowledge", "import", tmp_path / "all.jsonl")

    assert "keys.md: 2 secrets masked, such as a password, a code or a key (lines 3, 5)\n" in first.stderr
    assert "masked" not in again.stderr
    assert "LH 1234, booking code X7K9PQ" in (tmp_path / "all.jsonl").read_text()


def test_a_warning_says_that_a_code_in_a_note_was_masked(shepherd):
    added = shepherd("knowledge", "add", "Alarm", "--notes", "The alarm code is 4471.")
    edited = shepherd("knowledge", "edit", "1", "--append", "The PIN is 8812.")
    harmless = shepherd("knowledge", "edit", "1", "--append", "It is by the door.")
    as_json = json.loads(shepherd("knowledge", "add", "x", "--notes", "My PIN is 8812.", "--json").stdout)
    warning = (
        "warning: 1 secret masked, such as a password, a code or a key\n"
        "  memory_extraction_secrets = true stores them as they are\n"
    )

    assert (added.stdout, added.stderr) == ("1\n", warning)
    assert edited.stderr == warning
    assert harmless.stderr == ""
    assert as_json == {"id": 2, "secrets": 1}


def test_what_a_folder_has_beside_documents_is_named_and_alone_it_is_no_success(shepherd, tmp_path):
    for name in ("notes", "tables"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "contacts.csv").write_text("anna,1")
    (tmp_path / "notes" / "a.md").write_text("# Alpha\nwalrus")

    both = shepherd("knowledge", "import", tmp_path / "notes")
    alone = shepherd("knowledge", "import", tmp_path / "tables")
    named = shepherd("knowledge", "import", tmp_path / "tables" / "contacts.csv")

    assert (both.returncode, alone.returncode, named.returncode) == (0, 1, 0)
    assert both.stderr.startswith("1 added, 1 skipped\nskipped, because ")
    assert "PDF are imported: contacts.csv\n" in both.stderr
    assert alone.stderr.startswith("1 skipped\n")


def test_an_empty_name_is_not_the_current_folder(shepherd):
    done = shepherd("knowledge", "import", "")

    assert (done.returncode, done.stdout) == (2, "")
    assert "the name of what to import is empty" in done.stderr


def test_a_text_is_read_as_an_import_reads_it_and_a_date_is_a_day(shepherd, tmp_path):
    (tmp_path / "utf16.txt").write_bytes("Zürich".encode("utf-16"))
    (tmp_path / "table.docx").write_bytes(b"PK\x03\x04\0\0")

    shepherd("knowledge", "add", "City", "--text", tmp_path / "utf16.txt", "--date", "3 May 2019")
    refused = shepherd("knowledge", "edit", "1", "--text", tmp_path / "table.docx")
    wrong = shepherd("knowledge", "edit", "1", "--date", "2026-02-30")
    shown = json.loads(shepherd("knowledge", "show", "1", "--text", "--json").stdout)["node"]

    assert (refused.returncode, wrong.returncode) == (1, 2)
    assert "this is not text" in refused.stderr
    assert (shown["source_text"], shown["event_date"]) == ("Zürich", "2019-05-03")
    shepherd("knowledge", "edit", "1", "--text", "-", input="")
    assert json.loads(shepherd("knowledge", "show", "1", "--json").stdout)["node"]["text_length"] == 0
