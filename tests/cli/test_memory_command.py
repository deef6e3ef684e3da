"""`shepherd memory` and `shepherd facts`, as processes."""

from __future__ import annotations

import json
import random
import shlex
import stat
import subprocess
import sys
import zipfile

import pytest

from shepherd.cli.memory import build_parser
from shepherd.memory import Memory, Turn
from shepherd.memory.importers import FORMATS
from tests.cli.conftest import in_latin_1
from tests.memory import originals
from tests.memory.test_check import harm

KEPT = {"SHEPHERD_MEMORY_EXTRACTION_SECRETS": "true"}


@pytest.fixture
def three(shepherd):
    """Ids of three memories, oldest first."""
    pairs = [("Which IDE?", "VS Code"), ("Which dog?", "Rex"), ("Which city?", "Austin, in Texas")]
    return [shepherd("memory", "add", question, answer).stdout.strip() for question, answer in pairs]


def test_list_is_newest_first_with_a_line_per_memory(shepherd, three):
    rows = [line.split("\t") for line in shepherd("memory", "list").stdout.splitlines()]

    assert [row[0] for row in rows] == three[::-1]
    assert rows[0][2:] == ["Which city?", "Austin, in Texas"]


def test_empty_list_names_the_command_that_takes_over_older_memories(shepherd):
    shepherd("memory", "add", "Which dog?", "Rex", "--user", "local")
    shepherd("memory", "add", "Which cat?", "Tom", "--user", "anna")

    assert "local has 1 memory; to take it over: shepherd memory claim" in shepherd("memory", "list").stderr
    named = shepherd("memory", "list", "--user", "carl").stderr
    assert named == "nothing is remembered yet\n"  # of nobody else
    shepherd("memory", "claim", "--from", "local", "--user", "bob", "--yes")
    assert (
        "anna has 1 memory; to take it over: shepherd memory claim --from anna"
        in shepherd("memory", "list").stderr
    )


def test_empty_list_of_the_only_user_names_no_other(shepherd):
    assert shepherd("memory", "list").stderr == "nothing is remembered yet\n"


def test_list_is_paged(shepherd, three):
    done = shepherd("memory", "list", "--limit", "1", "--offset", "1")

    assert done.stdout.startswith(f"{three[1]}\t")
    assert "1 of 3 memories" in done.stderr


def test_a_line_holds_one_memory_whatever_is_in_it(shepherd):
    shepherd("memory", "add", "a\tb\nc\\", "d")

    assert shepherd("memory", "list").stdout.endswith("\ta\\tb\\nc\\\\\td\n")


def test_search_ranks_and_shows_relevance_and_score(shepherd, three):
    (row,) = shepherd("memory", "search", "dog").stdout.splitlines()
    (found,) = json.loads(shepherd("memory", "search", "which", "dog", "--json", "--limit", "1").stdout)

    assert row.split("\t")[0] == three[1]
    assert (found["id"], found["answer"]) == (int(three[1]), "Rex")
    assert 0 < found["relevance"] <= 1


def test_search_says_which_memories_a_message_would_recall(shepherd, three):
    words = ("which", "dog", "barks", "at", "the", "grey", "heron", "in", "texas")
    shepherd("config", "set", "rag_relevance_threshold", "0.5")

    done = shepherd("memory", "search", *words)
    found = json.loads(shepherd("memory", "search", *words, "--json").stdout)

    marks = [line.split("\t")[1] for line in done.stdout.splitlines()]
    assert sorted(marks) == ["no", "yes"]
    assert [one["recalled"] for one in found] == [mark == "yes" for mark in marks]
    assert [one["recalled"] for one in found] == [one["relevance"] >= 0.5 for one in found]
    assert "at most 3 memories with a relevance of 0.50 or more" in done.stderr
    whole = shepherd("memory", "search", "which", "dog")
    assert (whole.stdout.split("\t")[1], whole.stderr) == ("yes", "")


def test_search_leaves_out_what_was_only_said_near_a_match(shepherd, home):
    with Memory(home.database, user_id="steve") as memory:
        session = memory.start_session()
        for question, answer in (("Good morning", "Hello."), ("My boiler leaks.", "Call a plumber.")):
            memory.archive_turn(Turn(question, answer, 1_795_000_000, session))
    words = ("search", "boiler", "plumber", "--user", "steve")

    assert len(shepherd("memory", *words).stdout.splitlines()) == 1
    assert len(shepherd("memory", *words, "--threshold", "0").stdout.splitlines()) == 2


def test_search_without_a_match_says_so_beside_the_empty_result(shepherd, three):
    done = shepherd("memory", "search", "submarine")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no memory matches\n")


def test_show_prints_one_memory_in_full(shepherd, three):
    done = shepherd("memory", "show", three[2])

    assert done.stdout == "Which city?\n\nAustin, in Texas\n"
    assert f"memory {three[2]}" in done.stderr


def test_edit_changes_what_is_found(shepherd, three):
    shepherd("memory", "edit", three[1], "--answer", "Bello")

    assert json.loads(shepherd("memory", "show", three[1], "--json").stdout)["answer"] == "Bello"
    assert shepherd("memory", "search", "bello").stdout.startswith(three[1])
    assert shepherd("memory", "search", "rex").stdout == ""


def test_pin_and_unpin(shepherd, three):
    assert json.loads(shepherd("memory", "pin", three[0], "--json").stdout)["pinned"] is True
    assert json.loads(shepherd("memory", "pin", three[0], "--off", "--json").stdout)["pinned"] is False


def test_forget_by_id_and_by_question(shepherd, three):
    assert shepherd("memory", "forget", three[0], three[1]).stderr == "2 memories forgotten\n"
    assert shepherd("memory", "forget", "--question", "which  CITY?").stderr == "1 memory forgotten\n"
    assert shepherd("memory", "list").stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [["show", "7"], ["edit", "7", "--answer", "x"], ["pin", "7"], ["forget", "7"]],
    ids=lambda arguments: arguments[0],
)
def test_a_memory_that_is_not_there_is_a_failure(shepherd, three, arguments):
    done = shepherd("memory", *arguments)

    assert done.returncode == 1
    assert (
        "no memory has the id 7\n  shepherd memory list and shepherd memory search show the ids"
        in done.stderr
    )


@pytest.mark.parametrize("arguments", [["forget"], ["edit", "7"]], ids=lambda arguments: arguments[0])
def test_nothing_to_do_is_wrong_use(shepherd, arguments):
    assert shepherd("memory", *arguments).returncode == 2


def test_the_memory_of_another_user_cannot_be_reached_by_its_id(shepherd, three):
    for arguments in (["show", three[0]], ["forget", three[0]], ["edit", three[0], "--answer", "x"]):
        assert shepherd("memory", *arguments, "--user", "mallory").returncode == 1
    assert len(shepherd("memory", "list").stdout.splitlines()) == 3


def test_unknown_remembers_nothing_and_is_told_so(shepherd):
    done = shepherd("memory", "add", "a", "b", "--user", "unknown")

    assert done.returncode == 2
    assert "nothing is kept for this user" in done.stderr


def test_export_and_import_carry_everything_to_another_database(shepherd, three, tmp_path):
    shepherd("facts", "set", "name", "Steve")
    shepherd("memory", "pin", three[1])
    there = ("--memory-db", tmp_path / "other.db")

    exported = shepherd("memory", "export")
    assert exported.stderr == "3 memories and 1 fact exported\n"
    first = shepherd("memory", "import", *there, input=exported.stdout)
    second = shepherd("memory", "import", *there, input=exported.stdout)

    assert all(json.loads(line) for line in exported.stdout.splitlines())
    assert "3 memories and 1 fact imported" in first.stderr
    assert second.stderr == "nothing imported, 4 already stored\n"
    assert [line.split("\t")[2:] for line in shepherd("memory", "list", *there).stdout.splitlines()] == [
        line.split("\t")[2:] for line in shepherd("memory", "list").stdout.splitlines()
    ]


def test_an_import_of_nothing_says_so_and_fails(shepherd, three, tmp_path):
    (tmp_path / "empty.json").write_text("")

    done = shepherd("memory", "import", tmp_path / "empty.json")

    assert done.returncode == 1
    assert "nothing imported" in done.stderr
    assert "there is nothing to import" in done.stderr
    assert "shepherd knowledge import" in done.stderr


def test_an_export_is_utf_8_in_any_locale(shepherd, tmp_path):
    shepherd("memory", "add", "Café?", "Bücher & 日本")

    exported = shepherd("memory", "export", **in_latin_1())
    imported = shepherd("memory", "import", "--memory-db", tmp_path / "other.db", input=exported.stdout)

    assert json.loads(exported.stdout.splitlines()[1])["answer"] == "Bücher & 日本"
    assert imported.stderr.startswith("1 memory ")


def test_only_the_user_can_read_an_export(shepherd, three, tmp_path):
    file = tmp_path / "export.jsonl"
    shepherd("memory", "export", file)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_import_of_which_nothing_can_be_read_has_failed(shepherd, three):
    exported = shepherd("memory", "export").stdout
    damaged = exported.replace("{", "{{")
    half = "\n".join([*exported.splitlines()[:2], "{{", ""])

    for arguments in ([], ["--json"]):
        assert shepherd("memory", "import", "--format", "shepherd", *arguments, input=damaged).returncode == 1
    assert shepherd("memory", "import", input=half).returncode == 0  # known already, and a line that is none
    assert shepherd("memory", "import", input=exported).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "9" * 23), f"argument ID: '{'9' * 23}' is not an id; ids are whole numbers"),
        (("list", "--offset", "9" * 23), "argument --offset: expected a whole number from 0 to"),
        (("list", "--limit", "-1"), "argument --limit: expected a whole number from 1 to"),
        (("search", "x", "--limit", "9" * 23), "argument --limit: expected a whole number from 1 to"),
        (("jobs", "--drop", "9" * 23), f"argument --drop: '{'9' * 23}' is not an id; ids are whole"),
        (("jobs", "--retry", "-1"), "argument --retry: '-1' is not an id; ids are whole numbers"),
    ],
)
def test_a_number_that_cannot_be_is_the_callers_mistake(shepherd, arguments, message):
    done = shepherd("memory", *arguments)

    assert done.returncode == 2
    assert done.stderr.startswith(f"shepherd: error: {message}")


def test_the_largest_numbers_are_taken(shepherd, three):
    largest = str((1 << 63) - 1)

    assert shepherd("memory", "show", largest).stderr.startswith(
        f"shepherd: error: no memory has the id {largest}"
    )
    assert shepherd("memory", "list", "--limit", "1000000000", "--offset", largest).returncode == 0
    assert shepherd("memory", "search", "dog", "--limit", "1000000000").stdout.startswith(three[1])
    assert "there is no such job" in shepherd("memory", "jobs", "--drop", largest).stderr


@pytest.mark.parametrize(
    "arguments",
    [["memory", "import"], ["trace", "import", "-"], ["knowledge", "add", "Emma", "--text", "-"]],
    ids=lambda arguments: arguments[0],
)
def test_a_closed_stdin_is_told(home, arguments):
    command = [sys.executable, "-m", "shepherd", *arguments]

    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command],
        capture_output=True, encoding="utf-8", env=home.environment, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "shepherd: error: stdin is closed")


def test_export_to_a_file_never_overwrites_one(shepherd, three, tmp_path):
    exported = shepherd("memory", "export", tmp_path / "out.jsonl", "--json")
    assert json.loads(exported.stdout) == {"file": str(tmp_path / "out.jsonl"), "entries": 3}
    before = (tmp_path / "out.jsonl").read_bytes()

    done = shepherd("memory", "export", tmp_path / "out.jsonl")

    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_exports_of_others_are_imported(shepherd, tmp_path):
    graph = tmp_path / "memory.jsonl"
    entity = {"type": "entity", "name": "Rex", "entityType": "dog", "observations": ["Likes the lake"]}
    graph.write_text(json.dumps(entity) + "\nnonsense\n", encoding="utf-8")

    first = json.loads(shepherd("memory", "import", graph, "--json").stdout)
    piped = shepherd("memory", "import", "--format", "mem0", input='[{"memory": "Likes tea"}]')
    gone = shepherd("memory", "import", tmp_path / "nothing")

    assert (first["memories"], first["skipped"]) == (1, 1)
    assert first["problems"][0].startswith("line 2: not JSON")
    assert "1 memory imported" in piped.stderr
    assert "Likes the lake" in shepherd("memory", "search", "rex").stdout
    assert (gone.returncode, "nothing" in gone.stderr) == (2, True)


def test_formats_of_the_command_are_those_of_the_importers():
    actions = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    [option] = [option for option in actions["import"]._actions if option.dest == "format"]

    assert option.choices == ("auto", *FORMATS)


@pytest.mark.parametrize(
    "command",
    [("facts", "set", "wifi_password", "greenTree19"), ("memory", "add", "wifi?", "password: greenTree19")],
)
def test_secret_is_refused_with_the_setting_that_keeps_it(shepherd, command):
    refused = shepherd(*command)

    assert refused.returncode == 2
    assert "secrets are not stored" in refused.stderr
    assert "memory_extraction_secrets = true" in refused.stderr
    assert "greenTree19" not in refused.stderr + shepherd("memory", "export", "-").stdout
    assert shepherd(*command, **KEPT).returncode == 0


def test_import_says_how_many_secrets_it_left_out(shepherd):
    lines = (
        '{"question": "wifi?", "answer": "password: greenTree19"}\n{"question": "tea?", "answer": "green"}\n'
    )

    done = shepherd("memory", "import", input=lines)
    counts = json.loads(shepherd("memory", "import", "--json", input=lines).stdout)

    assert done.returncode == 0
    assert "1 entry was not imported" in done.stderr
    assert counts["secrets"] == 1
    assert "greenTree19" not in shepherd("memory", "export", "-").stdout


def test_audit_shows_what_and_why(shepherd):
    stored = shepherd("memory", "add", "wifi?", "The password is Fritz7390", **KEPT).stdout.strip()
    shepherd("facts", "set", "bank_pin", "pin is 4711", **KEPT)

    rows = [line.split("\t") for line in shepherd("memory", "audit").stdout.splitlines()]
    findings = json.loads(shepherd("memory", "audit", "--json").stdout)

    assert [row[:2] for row in rows] == [["secret", ""], ["secret", stored]]
    assert "Fritz" not in str(rows)
    assert findings[1] == {"kind": "secret", "ids": [int(stored)], "detail": "password"}


@pytest.mark.parametrize(("n", "more"), [(10, ""), (11, " and 1 more")])
def test_audit_lists_ten_ids_of_a_finding(shepherd, n, more):
    alike = "climbing granite walls near Innsbruck on cold autumn mornings with old friends and strong coffee"
    lines = "".join(json.dumps({"question": f"Trip {i}?", "answer": alike}) + "\n" for i in range(n))
    shepherd("memory", "import", input=lines)

    [(kind, ids, _)] = [line.split("\t") for line in shepherd("memory", "audit").stdout.splitlines()]

    first = sorted(int(line.split("\t")[0]) for line in shepherd("memory", "list").stdout.splitlines())[:10]
    assert (kind, ids) == ("near-duplicate", " ".join(map(str, first)) + more)


def test_bad_lines_of_an_import_are_skipped_and_counted(shepherd):
    done = shepherd("memory", "import", input="nonsense\n[1]\n")

    assert "2 skipped" in done.stderr


def test_a_file_that_is_no_export_is_called_so_once(shepherd, tmp_path):
    document, archive = tmp_path / "lease.json", tmp_path / "photos.zip"
    project = tmp_path / "project.toml"  # begins as JSON could, and has words of an export
    document.write_text('{"lease": "It ends in May."}\n')
    project.write_text('[project]\nkeywords = ["memory", "results"]\n')
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("conversations.json", json.dumps([{"photo": n} for n in range(20)]))

    for file in (document, archive, project):
        done = shepherd("memory", "import", file)
        assert done.returncode == 1
        assert done.stderr.count("warning: ") == 1
        assert "warning: this is not an export that can be imported" in done.stderr
        assert "shepherd knowledge import FILE" in " ".join(done.stderr.split())


def test_what_belongs_into_the_knowledge_is_refused_with_the_command_that_imports_it(
    shepherd, three, tmp_path
):
    notes, lease, page, pdf = (tmp_path / name for name in ("notes", "the lease.md", "page", "scan"))
    notes.mkdir()
    lease.write_text("# Lease\n\nThe lease ends in May.\n")
    page.write_text("<!DOCTYPE html><html><p>hello</p></html>")
    pdf.write_bytes(b"%PDF-1.4\n%\xe2\xe3\n")
    shepherd("knowledge", "add", "a node")
    shepherd("knowledge", "export", tmp_path / "knowledge.jsonl")

    for source, what, imports in (
        (notes, "a folder", "the documents in it"),
        (lease, "a document, not an export of memories", "it"),
        (page, "a document, not an export of memories", "it"),
        (pdf, "a document, not an export of memories", "it"),
        (tmp_path / "knowledge.jsonl", "an export of the knowledge", "it"),
        ("https://example.com/a", "an address, not an export", "the page"),
    ):
        done = shepherd("memory", "import", source)
        assert done.returncode == 2
        assert done.stderr == (
            f"shepherd: error: {source}: this is {what}\n"
            f"  shepherd knowledge import {shlex.quote(str(source))} imports {imports}\n"
        )

    shepherd("memory", "backup", tmp_path / "copy.db")
    done = shepherd("memory", "import", tmp_path / "copy.db")
    assert f"shepherd memory restore {tmp_path / 'copy.db'} restores a backup" in done.stderr
    exported = tmp_path / "memories.txt"  # an export by any name
    shepherd("memory", "export", exported)
    assert shepherd("memory", "import", exported).returncode == 0


def test_what_is_stored_under_another_id_can_be_claimed(shepherd, three):
    asked = shepherd("memory", "claim", "--from", "steve", "--user", "stefan")
    assert (asked.returncode, len(shepherd("memory", "list").stdout.splitlines())) == (2, 3)
    assert (
        "Take over 3 memories, 0 facts, 0 nodes and 0 conversations of 'steve' as 'stefan'?" in asked.stderr
    )
    assert "add --yes to confirm" in asked.stderr

    done = shepherd("memory", "claim", "--from", "steve", "--user", "stefan", "--yes")
    again = shepherd("memory", "claim", "--from", "steve", "--user", "stefan", "--json")

    assert "taken over from 'steve': 3 memories, 0 facts, 0 nodes and 0 conversations\n" in done.stderr
    assert len(shepherd("memory", "list", "--user", "stefan").stdout.splitlines()) == 3
    assert shepherd("memory", "list").stdout == ""
    assert json.loads(again.stdout) == {"memories": 0, "facts": 0, "sessions": 0, "duplicates": 0, "nodes": 0}


def test_an_older_database_is_migrated_and_says_where_the_copy_is(shepherd, home):
    home.database.parent.mkdir(parents=True)
    rows = [("Which dog?", "Rex", 100, "h", "local")]
    columns = "user_message, assistant_response, timestamp, content_hash, user_id"
    insert = f"INSERT INTO context({columns}) VALUES(?, ?, ?, ?, ?)"
    originals.build(home.database, originals.V2_32, (insert, rows))

    claimed = shepherd("memory", "claim", "-y")

    assert f"{home.database}.before-migration" in claimed.stderr
    assert "1 memory, 0 facts" in claimed.stderr
    assert "Rex" in shepherd("memory", "search", "dog").stdout


def test_stats_check_audit_and_backup(shepherd, three, tmp_path):
    stats = json.loads(shepherd("memory", "stats", "--json").stdout)
    assert stats["memories"] == 3
    assert "memories       3, none of them pinned" in shepherd("memory", "stats").stdout
    assert json.loads(shepherd("memory", "check", "--json").stdout) == {
        "ok": True,
        "problems": [],
        "repaired": [],
    }
    assert shepherd("memory", "check").stderr == "no damage found\n"
    assert shepherd("memory", "audit").stderr == "nothing to clean up\n"

    copy = tmp_path / "copy.db"
    told = shepherd("memory", "backup", copy).stderr
    assert told == f"copied to {copy}; shepherd memory restore {copy} puts it back\n"
    copied = shepherd("memory", "list", "--memory-db", copy)
    assert copied.stdout == shepherd("memory", "list").stdout


def test_a_backup_is_restored_after_asking(shepherd, three, home, tmp_path):
    copy, kept = tmp_path / "copy.db", f"{home.database}.before-restore"
    shepherd("memory", "backup", copy)
    listed = shepherd("memory", "list").stdout
    shepherd("memory", "add", "Which cat?", "Tom")

    asked = shepherd("memory", "restore", copy)
    assert asked.returncode == 2
    assert f"Replace {home.database} with {copy} (" in asked.stderr
    assert f"The current database is kept as {kept}." in asked.stderr
    assert shepherd("memory", "list").stdout != listed

    done = shepherd("memory", "restore", copy, "--yes")
    assert done.stderr == (
        f"restored: 3 memories, 0 facts and 0 conversations of steve; the previous database is {kept}\n"
    )
    assert shepherd("memory", "list").stdout == listed
    again = shepherd("memory", "restore", kept, "-y", "--json")
    assert json.loads(again.stdout) == {
        "file": kept, "database": str(home.database), "kept": f"{kept}-2",
    }  # fmt: skip
    assert "Tom" in shepherd("memory", "list").stdout


def test_a_damaged_database_is_a_failure_that_names_it(shepherd, home):
    home.database.parent.mkdir(parents=True)
    home.database.write_bytes(b"SQLite format 3\0" + random.Random(1).randbytes(8000))

    done = shepherd("memory", "list")

    assert done.returncode == 1
    assert str(home.database) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_had_enough_of_a_long_export_is_no_error(shepherd, home):
    lines = "".join(json.dumps({"type": "memory", "question": f"question {n}", "answer": "x" * 500}) + "\n"
                    for n in range(1000))  # fmt: skip
    imported = shepherd("memory", "import", input=lines)
    assert "skipped" not in imported.stderr

    done = subprocess.run(
        f"{sys.executable} -m shepherd memory export | head -1",
        shell=True, capture_output=True, encoding="utf-8", env=home.environment, check=False,
    )  # fmt: skip

    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


# -- facts ----


def test_facts_are_set_got_listed_and_cleared(shepherd):
    shepherd("facts", "set", "favourite_color", "deep blue")
    shepherd("facts", "set", "name", "Steve")

    assert shepherd("facts", "get", "favouriteColor").stdout == "deep blue\n"
    assert [line.split("\t")[:2] for line in shepherd("facts", "list").stdout.splitlines()] == [
        ["favourite_color", "deep blue"], ["name", "Steve"],
    ]  # fmt: skip
    assert json.loads(shepherd("facts", "list", "--json").stdout)["name"] == "Steve"
    assert shepherd("facts", "clear", "name").returncode == 0
    assert shepherd("facts", "get", "name").returncode == 1


def test_the_history_of_a_fact_has_every_value(shepherd):
    for city in ("Berlin", "Austin"):
        shepherd("facts", "set", "city", city)

    history = json.loads(shepherd("facts", "history", "city", "--json").stdout)

    assert [change["value"] for change in history] == ["Berlin", "Austin"]
    assert [line.split("\t")[1] for line in shepherd("facts", "history", "city").stdout.splitlines()] == [
        "Berlin", "Austin",
    ]  # fmt: skip
    shepherd("facts", "set", "aunt", "Ida")
    shepherd("facts", "clear", "city")
    every = shepherd("facts", "history").stdout.splitlines()
    assert [line.split("\t")[:3:2] for line in every] == [
        ["aunt", "Ida"], ["city", "Berlin"], ["city", "Austin"],
    ]  # fmt: skip


def test_the_values_that_a_fact_had_can_be_taken_out_of_its_history(shepherd):
    shepherd("facts", "set", "wifi_password", "swordfish", **KEPT)
    assert shepherd("facts", "clear", "wifi_password").returncode == 0

    told = shepherd("memory", "audit").stdout
    cleared = shepherd("facts", "clear", "wifi_password", "--history")

    assert "the history of the fact 'wifi_password'" in told
    assert "shepherd facts clear KEY --history" in told
    assert cleared.returncode == 0
    assert "swordfish" not in shepherd("facts", "history", "wifi_password").stdout
    assert shepherd("memory", "audit").stderr == "nothing to clean up\n"
    assert shepherd("facts", "clear", "wifi_password", "--history").returncode == 1


def test_a_changed_fact_says_what_it_is_and_what_it_was(shepherd):
    first = shepherd("facts", "set", "favourite_color", "blue")
    second = shepherd("facts", "set", "favouriteColor", "green")
    third = shepherd("facts", "set", "favourite_color", "green")
    cleared = shepherd("facts", "clear", "favouriteColor")

    assert [done.stdout for done in (first, second, third, cleared)] == [""] * 4
    assert first.stderr == "favourite_color = blue\n"
    assert second.stderr == "favourite_color = green; it was blue\n"
    assert third.stderr == "favourite_color = green, as before\n"
    assert cleared.stderr == (
        "favourite_color is forgotten; it was green\n"
        "its history still has it. To delete that too: shepherd facts clear favourite_color --history\n"
    )
    done = shepherd("facts", "set", "name", "Steve", "--json")
    assert (json.loads(done.stdout), done.stderr) == ({"key": "name", "value": "Steve"}, "")
    done = shepherd("facts", "clear", "name", "--history")
    assert done.stderr == "name is forgotten, with all values that it had\n"


def test_a_fact_of_nobody_is_refused(shepherd):
    done = shepherd("facts", "set", "name", "Steve", "--user", "unknown")

    assert done.returncode == 2
    assert "nothing is kept for this user" in done.stderr


def test_other_names_of_an_action_are_understood_in_the_hint(shepherd):
    assert "did you mean clear?" in shepherd("facts", "delete", "name").stderr
    assert "did you mean forget?" in shepherd("memory", "delete", "1").stderr
    assert "did you mean create?" in shepherd("apikey", "add").stderr


def test_changed_memories_say_so(shepherd):
    memory_id = shepherd("memory", "add", "Which?", "Rex").stdout.strip()

    assert (
        shepherd("memory", "edit", memory_id, "--answer", "Max").stderr == f"memory {memory_id} is changed\n"
    )
    assert "is pinned" in shepherd("memory", "pin", memory_id).stderr
    assert "is no longer pinned" in shepherd("memory", "pin", memory_id, "--off").stderr


@pytest.mark.parametrize("action", ["get", "clear", "history"])
def test_a_fact_that_is_not_there_is_a_failure(shepherd, action):
    done = shepherd("facts", action, "nothing")

    assert done.returncode == 1
    assert "there is no fact 'nothing'" in done.stderr


def test_a_backup_to_a_folder_that_cannot_be_is_blamed_on_its_own_path(shepherd, three):
    done = shepherd("memory", "backup", "/proc/x")

    assert done.returncode == 1
    assert "/proc/x" in done.stderr
    assert "name another file for the backup" in done.stderr
    assert "memory_database" not in done.stderr


def test_junk_is_no_logs_db_and_no_damage_of_the_memory(shepherd, tmp_path):
    (tmp_path / "junk.txt").write_text("this is no database\n" * 100)

    done = shepherd("memory", "import", "--format", "llm", str(tmp_path / "junk.txt"))

    assert done.returncode == 2
    assert f"{tmp_path / 'junk.txt'}: this is not a readable logs.db of llm" in done.stderr
    assert "memory check" not in done.stderr


@pytest.mark.parametrize("fact", [("", "x"), ("name", " ")])
def test_a_fact_without_key_or_value_names_the_command_that_forgets(shepherd, fact):
    done = shepherd("facts", "set", *fact)

    assert done.returncode == 2
    assert "shepherd facts clear KEY" in done.stderr


def test_check_fails_until_the_damage_is_repaired(shepherd, home, three):
    harm(home.database, "INSERT INTO recalls VALUES(99, 1, 1)")

    found, as_json = shepherd("memory", "check"), shepherd("memory", "check", "--json")
    assert (found.returncode, as_json.returncode) == (1, 1)
    assert found.stdout.startswith("problem: ")
    assert found.stderr == "shepherd memory check --repair repairs what can be repaired\n"
    assert json.loads(as_json.stdout)["ok"] is False

    repaired = shepherd("memory", "check", "--repair")
    assert (repaired.returncode, repaired.stderr) == (0, "")
    assert repaired.stdout.startswith("repaired: ")
    assert shepherd("memory", "check", "--json").returncode == 0


def test_without_jobs_nothing_is_said_of_dead_ones(shepherd, three):
    assert shepherd("memory", "jobs").stderr == "nothing is waiting\n"
