"""What `shepherd memory` says, line by line and as JSON, in this process."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd.cli import memory as command
from shepherd.cli import receipts
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError
from shepherd.memory import Memory
from shepherd.sequences import sequence_of, stored_id
from tests.learned import propose, remember

IDS = "shepherd memory list and shepherd memory search show the ids, in the first column"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """A home folder of user steve without anything."""
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    return tmp_path


@pytest.fixture
def memory(place) -> Memory:
    """Opened where the command opens it."""
    with Memory(user_id="steve") as memory:
        yield memory


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; an error is told as the program tells it."""
    screen = Screen(io.StringIO(), io.StringIO())
    arguments = command.build_parser().parse_args(list(words))
    screen.as_json = arguments.json
    try:
        code = command.execute(arguments, screen)
    except ShepherdError as error:
        return error.exit_code, "", f"{error} | {error.hint}"
    return code, screen.out.getvalue(), screen.err.getvalue()


def three(memory: Memory) -> list[int]:
    pairs = [("Which IDE?", "VS Code"), ("Which dog?", "Rex"), ("Which city?", "Austin")]
    return [memory.store_memory(*pair, timestamp=1_700_000_000 + i) for i, pair in enumerate(pairs)]


def test_lists_say_what_is_older_or_that_there_is_nothing(memory):
    assert run("list") == (0, "", "nothing is remembered yet\n")
    assert run("list", "--json") == (0, "[]\n", "")
    three(memory)

    code, out, err = run("list", "--limit", "2")
    assert (code, err) == (0, "2 of 3 memories; --offset shows older ones\n")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["3", "2"]
    assert out.splitlines()[1].split("\t")[2:] == ["Which dog?", "Rex"]
    assert run("list", "--limit", "2", "--offset", "1")[2] == ""
    assert run("list", "--limit", "1", "--offset", "1")[2] == "1 of 3 memories; --offset shows older ones\n"
    assert run("list", "--offset", "3") == (0, "", "")
    assert len(json.loads(run("list", "--json", "--limit", "2")[1])) == 2


def test_an_empty_list_names_those_whose_memories_can_be_claimed(memory):
    memory.store_memory("Which dog?", "Rex", "ben")
    claim = (
        "steve has no memories yet, but ben has 1 memory; to take it over: shepherd memory claim --from ben"
    )
    assert run("list")[2] == f"{claim}\n"
    memory.store_memory("Which dog?", "Rex", "local")
    assert "local has 1 memory; to take it over: shepherd memory claim" in run("list")[2]
    assert run("list", "--user", "steve")[2] == "nothing is remembered yet\n"


def test_one_memory_is_shown_changed_and_pinned(memory):
    memory_id, *_ = three(memory)
    number = sequence_of(memory_id)
    memory.store_memory("Which boat?", "A ketch", source="import")

    code, out, err = run("show", str(number))
    assert (code, out) == (0, "Which IDE?\n\nVS Code\n")
    assert err.startswith(f"memory {number}, ")
    assert ", pinned" not in err
    assert run("pin", str(number))[1:] == (
        "",
        f"memory {number} is pinned: it is never deleted to make space\n",
    )
    assert run("show", str(number))[2].endswith(", pinned\n")
    assert run("pin", str(number), "--off")[2] == f"memory {number} is no longer pinned\n"
    assert run("edit", str(number), "--answer", "Helix") == (0, "", f"memory {number} is changed\n")
    assert memory.get_memory(memory_id).answer == "Helix"
    assert memory.get_memory(memory_id).question == "Which IDE?"
    assert json.loads(run("show", str(number), "--json")[1])["answer"] == "Helix"
    assert json.loads(run("pin", str(number), "--json")[1])["pinned"] is True
    assert run("edit", str(number)) == (
        2,
        "",
        "nothing to change | use --question TEXT, --answer TEXT, or both",
    )
    for words in (("show", "99"), ("pin", "99"), ("edit", "99", "--answer", "x")):
        assert run(*words) == (1, "", f"no memory has the id 99 | {IDS}")


def test_a_memory_is_added_under_its_number(memory):
    code, out, err = run("add", "Which boat?", "A ketch")
    assert (code, err) == (0, "")
    assert memory.get_memory(stored_id(memory.transactions, "steve", int(out))).answer == "A ketch"
    assert json.loads(run("add", "Which day?", "Sunday", "--json")[1]) == {"id": int(out) + 1}


def test_a_search_says_what_a_message_would_recall(memory):
    three(memory)
    assert run("search", "zebra") == (0, "", "no memory matches\n")

    code, out, err = run("search", "Which dog do I have?")
    found = json.loads(run("search", "Which dog do I have?", "--json")[1])[0]

    assert code == 0
    first = out.splitlines()[0].split("\t")
    assert first[1] == "yes"
    assert first[5:] == ["Which dog?", "Rex"]
    assert f"{float(first[2]):.2f}" == first[2]
    assert ("recalled: whether a message" in err) is any("\tno\t" in line for line in out.splitlines())
    assert found["recalled"] is True
    assert found["question"] == "Which dog?"


def test_what_is_forgotten_is_counted_and_what_is_missing_named(memory):
    ids = three(memory)
    memory.store_memory("which  DOG?", "Bello")

    assert run("forget") == (2, "", "nothing to forget | name an ID, --question TEXT, or --everything")
    assert run("forget", str(ids[0]), "99")[0] == 1
    code, out, err = run("forget", str(ids[0]))
    assert (code, out) == (1, "")
    assert err.startswith("0 memories forgotten\n")
    assert f"no memory has the id {ids[0]}" in err
    assert IDS in err
    assert run("forget", "--question", "Which dog?") == (0, "", "2 memories forgotten\n")
    assert run("forget", "--question", "Which dog?")[0] == 1
    code, out, _ = run("forget", str(ids[2]), "98", "--json", "--receipt")
    told = json.loads(out)
    assert code == 1
    assert (told["removed"], told["missing"]) == (1, [98])
    assert told["receipt"]["removed"]["memories"] == 1
    assert told["receipt"]["left"][-1] == receipts._ELSEWHERE


def test_a_receipt_says_what_was_removed_and_what_was_not(memory):
    ids = three(memory)
    Path(memory.stats().path + ".before-restore").write_bytes(b"old")

    _, out, err = run("forget", str(ids[0]), "--receipt")

    lines = out.splitlines()
    assert "removed      memories: 1" in lines
    assert "overwritten  their words in the search index, their pages in the database, and its log" in lines
    assert lines[-2].startswith(f"not reached  {memory.stats().path}.before-restore, a copy of the database;")
    assert lines[-1] == f"not reached  {receipts._ELSEWHERE}"
    assert err == "1 memory forgotten\n"


def test_lines_of_the_prompt_that_say_it_are_removed(memory, place):
    history = place / "state" / "shepherd" / "history"
    history.parent.mkdir(parents=True, exist_ok=True)
    typed = ["which  dog?", "I asked: Which dog?", "tell: my boat is a ketch", "boat", "other"]
    history.write_text("".join(f"\n# 2026-01-01\n+{line}\n" for line in typed))
    short = memory.store_memory("Which dog?", "Rex")
    long = memory.store_memory("My boat is a ketch", "Nice.")

    run("forget", str(short))
    after_short = history.read_text()
    run("forget", str(long))
    after_long = history.read_text()

    assert "+which  dog?" not in after_short
    assert "I asked: Which dog?" in after_short  # too short a text to be looked for inside a line
    assert "my boat is a ketch" in after_short
    assert "my boat is a ketch" not in after_long
    assert "+boat\n" in after_long
    assert "+other\n" in after_long


def test_everything_is_deleted_after_asking(memory):
    three(memory)
    memory.set_fact("name", "Steve")
    assert (
        run("forget", "--everything", "1")[2] == "--everything names no memory | drop the ID and --question"
    )
    code, _, err = run("forget", "--everything", "-y")

    assert code == 0
    assert err == "all data of steve is deleted: 3 memories, 1 fact, 0 nodes and 0 conversations\n"
    assert memory.count_memories() == 0
    told = json.loads(run("forget", "--everything", "-y", "--json", "--receipt")[1])
    assert told["user"] == "steve"
    assert told["rows"] == 0
    assert set(told["receipt"]) == {"removed", "files", "left"}


def test_an_export_and_an_import_are_counted(memory, place):
    three(memory)
    memory.set_fact("name", "Steve")
    file = place / "export.jsonl"

    assert run("export", str(file))[2].startswith("3 memories and 1 fact exported")
    assert json.loads(run("export", str(place / "b.jsonl"), "--json")[1])["entries"] == 5
    _, out, err = run("export")
    assert err == "3 memories and 1 fact exported\n"
    assert out.splitlines()[1:] == file.read_text().splitlines()[1:]  # the first line has the time
    assert run("import", str(file), "--user", "ben") == (0, "", "3 memories and 1 fact imported\n")
    assert run("import", str(file), "--user", "ben")[2] == "nothing imported, 4 already stored\n"
    bad = place / "bad.jsonl"
    bad.write_text('{"type": "memory", "question": "Which boat?", "answer": "A ketch"}\nnot json\n')
    code, _, err = run("import", str(bad), "--format", "shepherd")
    assert (code, err.splitlines()[0]) == (0, "1 memory imported, 1 skipped")
    assert len(err.splitlines()) > 1


def test_what_is_claimed_is_counted(memory):
    memory.store_memory("Which dog?", "Rex", "local")
    memory.set_fact("name", "Steve", "local")

    assert run("claim", "--from", "ben")[2] == "nothing is stored for 'ben'\n"
    code, _, err = run("claim", "-y")

    assert (code, err) == (
        0, "taken over from 'local': 1 memory, 1 fact, 0 nodes and 0 conversations\n"
    )  # fmt: skip
    assert memory.count_memories() == 1


def test_figures_are_in_lines(memory):
    empty = run("stats")[1]
    assert "memories       0, none of them pinned\n" in empty
    assert "oldest memory  -\n" in empty
    assert "newest memory  -\n" in empty
    number, *_ = three(memory)
    memory.pin_memory(number)
    memory.set_fact("name", "Steve")

    lines = dict(line.split(None, 1) for line in run("stats")[1].splitlines() if line.split()[0].islower())
    text = run("stats")[1]

    assert lines["memories"] == "3, of which 1 pinned"
    assert lines["facts"] == "1"
    assert lines["conversations"] == "0"
    assert "oldest memory  2023-11-1" in text
    assert "newest memory  2023-11-1" in text
    assert "encryption     off (shepherd encrypt)\n" in text
    assert ", for all users together\n" in text
    assert "(max_db_size)" in text
    assert json.loads(run("stats", "--json")[1])["memories"] == 3


def test_a_check_a_backup_and_an_audit_say_how_it_is(memory, place):
    assert run("check") == (0, "", "no damage found\n")
    assert json.loads(run("check", "--json")[1]) == {"ok": True, "problems": [], "repaired": []}
    assert run("audit") == (0, "", "nothing to clean up\n")
    copy = place / "a copy.db"
    assert run("backup", str(copy)) == (
        0, "", f"copied to {copy}; shepherd memory restore '{copy}' puts it back\n"
    )  # fmt: skip
    assert copy.exists()
    assert [command._first(tuple(range(n))) for n in (1, 10, 11)] == [
        "0", "0 1 2 3 4 5 6 7 8 9", "0 1 2 3 4 5 6 7 8 9 and 1 more",
    ]  # fmt: skip


def test_what_was_learned_is_listed_and_decided(memory):
    assert run("learned") == (0, "", "nothing has been learned yet\n")
    assert run("learned", "--waiting") == (0, "", "nothing waits for a decision\n")
    assert (
        run("learned", "--undo")[2]
        == "there is nothing to undo | shepherd memory learned lists what was learned"
    )
    remember(memory, "steve")
    assert run("learned")[2] == ""
    item = propose(memory, "steve")

    code, out, err = run("learned")
    rows = {line.split("\t")[0]: line.split("\t")[2:] for line in out.splitlines()}
    assert code == 0
    assert rows[str(item.id)][0] == "I live in Berlin."
    assert rows[str(item.id)][1].startswith("proposed: you live in Berlin")
    assert err == "--accept ID replaces what you set yourself, --reject ID leaves it\n"
    assert len(run("learned", "--waiting")[1].splitlines()) == 1
    assert run("learned", "--accept", "999")[0] == 1
    assert run("learned", "--accept")[0] == 0
    assert memory.get_fact("location") == "Berlin"
    assert run("learned")[2] == ""
    assert run("learned", "--undo", str(item.id))[0] == 0
    assert memory.get_fact("location") == "Texas"


def test_jobs_are_listed_tried_again_and_dropped(memory):
    assert run("jobs") == (0, "", "nothing is waiting\n")
    assert (
        run("jobs", "--retry", "--drop")[2] == "--retry and --drop contradict each other | give one of them"
    )
    assert run("jobs", "--drop") == (0, "", "0 jobs dropped\n")
    assert run("jobs", "--drop", "9") == (1, "", "there is no such job | shepherd memory jobs lists them")
    assert run("jobs", "--retry", "9", "--json")[0] == 1
