"""Every face shows a memory by its number among those of its user, and takes it; long ids are taken, too."""

from __future__ import annotations

import json
import re

import pytest

from shepherd.memory import Memory
from shepherd.sequences import SEQUENCE_BITS

LONG = re.compile(r"(?<![.0-9])[0-9]{13,}")


@pytest.fixture
def steve(shepherd, home):
    """Commands of Steve, who is the second of two users in a database; his memories are 1 and 2."""
    shepherd("memory", "add", "Which boat?", "A ketch", "--user", "anna")
    shepherd("memory", "add", "Which car?", "A van", "--user", "anna")
    shepherd("memory", "add", "Which town?", "Bonn", "--user", "anna")

    def run(*arguments: str):
        done = shepherd(*arguments, "--user", "steve")
        assert not LONG.search(done.stdout), done.stdout
        return done

    assert run("memory", "add", "Which dog?", "Rex").stdout == "1\n"
    assert json.loads(run("memory", "add", "Which cat?", "Tom", "--json").stdout) == {"id": 2}
    return run


def long_id(number: int) -> str:
    """The id of one of Steve's memories in the database."""
    return str(2 << SEQUENCE_BITS | number)


def test_lists_and_searches_show_numbers(steve):
    assert [line.split("\t")[0] for line in steve("memory", "list").stdout.splitlines()] == ["2", "1"]
    assert [one["id"] for one in json.loads(steve("memory", "list", "--json").stdout)] == [2, 1]
    assert steve("memory", "search", "dog").stdout.startswith("1\tyes\t")
    [found] = json.loads(steve("memory", "search", "dog", "--json").stdout)
    assert (found["id"], found["recalled"], found["answer"]) == (1, True, "Rex")


@pytest.mark.parametrize("name", [str, long_id], ids=["number", "long id"])
def test_commands_take_numbers_and_long_ids(steve, name):
    assert steve("memory", "show", name(1)).stdout == "Which dog?\n\nRex\n"
    assert steve("memory", "show", name(1)).stderr.startswith("memory 1, ")
    assert json.loads(steve("memory", "show", name(2), "--json").stdout)["id"] == 2
    assert steve("memory", "edit", name(1), "--answer", "Max").stderr == "memory 1 is changed\n"
    changed = json.loads(steve("memory", "edit", name(1), "--answer", "Bello", "--json").stdout)
    assert (changed["id"], changed["answer"]) == (1, "Bello")
    assert steve("memory", "pin", name(1)).stderr.startswith("memory 1 is pinned")
    assert json.loads(steve("memory", "pin", name(1), "--off", "--json").stdout)["id"] == 1
    assert steve("memory", "forget", name(1)).stderr.startswith("1 memory forgotten")
    assert [line.split("\t")[2] for line in steve("memory", "list").stdout.splitlines()] == ["Which cat?"]


@pytest.mark.parametrize("number", ["3", str(1 << SEQUENCE_BITS | 1)], ids=["number", "long id"])
def test_a_memory_of_another_user_has_no_number_here(steve, shepherd, number):
    for action in (["show"], ["edit", "--answer", "x"], ["pin"]):
        refused = steve("memory", action[0], number, *action[1:])
        assert refused.stderr.startswith(f"shepherd: error: no memory has the id {number}\n")
    gone = steve("memory", "forget", number, "2")
    assert (gone.returncode, gone.stderr.splitlines()[:2]) == (
        1,
        ["1 memory forgotten", f"warning: no memory has the id {number}"],
    )
    assert shepherd("memory", "forget", number, "--json", "--user", "steve").stdout == (
        f'{{"removed": 0, "missing": [{number}]}}\n'
    )
    kept = shepherd("memory", "list", "--user", "anna").stdout.splitlines()
    assert [line.split("\t")[3] for line in kept] == ["Bonn", "A van", "A ketch"]


def test_errors_and_hints_name_numbers(steve):
    same = steve("memory", "edit", "2", "--question", "Which dog?", "--answer", "Rex")
    assert same.stderr.splitlines()[0] == ("shepherd: error: memory 2: memory 1 already says exactly this")
    steve("facts", "set", "dog", "Rex")
    cleared = steve("facts", "clear", "dog", "--history").stderr
    assert cleared.endswith("  shepherd memory forget 1\n")


def test_an_audit_names_numbers(steve):
    steve("memory", "add", "Which dog?", "Rex!")
    found = json.loads(steve("memory", "audit", "--json").stdout)
    rows = [line.split("\t") for line in steve("memory", "audit").stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows] == [
        (one["kind"], " ".join(map(str, one["ids"]))) for one in found
    ]
    assert [1, 3] in [sorted(one["ids"]) for one in found]


def test_passages_of_a_prompt_are_named_by_numbers(steve, shepherd):
    shepherd("knowledge", "add", "Goats", "--text", "-", "--user", "steve", input="Goats climb on the rocks.")
    built = json.loads(steve("context", "build", "Where do goats climb?", "--json").stdout)
    [passage] = [part for part in built["parts"] if part["category"] == "knowledge"]
    assert passage["id"] == f"chunk:{passage['chunk_id']}"
    assert passage["chunk_id"] < 10


def test_an_export_keeps_the_ids_of_the_database_and_is_read_again(shepherd, steve, home, tmp_path):
    file = tmp_path / "steve.jsonl"
    assert shepherd("memory", "export", str(file), "--user", "steve").returncode == 0
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    ids = sorted(entry["id"] for entry in entries if entry["type"] == "memory")
    assert list(map(str, ids)) == [long_id(1), long_id(2)]
    shepherd("memory", "import", str(file), "--user", "anna")
    with Memory(home.database, user_id="anna") as memory:
        assert {one.question for one in memory.list_memories()} >= {"Which dog?", "Which cat?"}
