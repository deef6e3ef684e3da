"""What `shepherd conversations` says, in this process, and what is asked before data is deleted."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from types import ModuleType

import pytest

from shepherd.cli import conversations
from shepherd.cli import memory as memory_command
from shepherd.commands.conversations import short_id
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError
from shepherd.memory import Memory
from shepherd.types import Message


class Terminal(io.StringIO):
    """A stream that a person reads or types into."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def memory(tmp_path, monkeypatch) -> Iterator[Memory]:
    """Opened where the commands open it, in a home folder of user steve."""
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    monkeypatch.setenv("NO_COLOR", "1")
    with Memory(user_id="steve") as memory:
        yield memory


def talk(memory: Memory, *said: str) -> str:
    session = memory.start_session("steve", "tiny")
    for number, text in enumerate(said):
        memory.append_message(session, Message("assistant" if number % 2 else "user", text), "steve")
    return session


def run(
    *words: str, command: ModuleType = conversations, screen: Screen | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; an error is told as the program tells it."""
    screen = screen or Screen(io.StringIO(), io.StringIO())
    arguments = command.build_parser().parse_args(list(words))
    screen.as_json = arguments.json
    try:
        code = command.execute(arguments, screen)
    except ShepherdError as error:
        return error.exit_code, "", f"{error} | {error.hint}"
    return code, screen.out.getvalue(), screen.err.getvalue()


def at_terminal(answer: str, monkeypatch, *words: str, command: ModuleType = conversations):
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    return run(*words, command=command, screen=Screen(io.StringIO(), Terminal()))


def test_lists_say_what_is_older_or_that_there_is_nothing(memory):
    assert run("list") == (0, "", "no conversation is stored yet\n")
    assert run("list", "--offset", "1") == (0, "", "")
    ids = [talk(memory, f"about boat {n}", "Nice.") for n in range(3)]

    code, out, err = run("list", "--limit", "2")
    assert (code, err) == (0, "2 of 3 conversations; --offset shows older ones\n")
    assert len(out.splitlines()) == 2
    assert "about boat" in out
    assert run("list", "--limit", "2", "--offset", "1")[2] == ""
    assert len(json.loads(run("list", "--json")[1])) == len(ids)


def test_a_search_says_how_many_more_there_are(memory):
    for n in range(3):
        talk(memory, f"about boat {n}", "Nice.")

    assert run("search", "zebra") == (0, "", "no conversation contains this text\n")
    assert run("search", "boat", "--limit", "2")[2] == "2 of 3 conversations; --limit shows more\n"
    assert run("search", "boat", "--limit", "3")[2] == ""
    assert len(run("search", "boat", "1")[1].splitlines()) == 1


def test_one_is_shown_and_renamed(memory):
    one = talk(memory, "about boats", "They float.")

    code, out, err = run("show", "boats")
    assert code == 0
    assert err.startswith(f"conversation {short_id(one)}, ")
    assert err.endswith(", tiny: about boats\n")
    assert "about boats" in out
    assert "They float." in out
    told = json.loads(run("show", short_id(one), "--json")[1])
    assert (told["id"], [(m["role"], m["content"]) for m in told["messages"]]) == (
        one, [("user", "about boats"), ("assistant", "They float.")]
    )  # fmt: skip
    assert run("rename", "boats", "Ships") == (0, "", f"{short_id(one)} is now: Ships\n")
    assert json.loads(run("rename", "Ships", "", "--json")[1]) == {"id": one, "title": "about boats"}
    assert run("show", "zebra")[0] != 0


def test_what_is_deleted_is_named(memory):
    one, two = talk(memory, "about boats", "Yes."), talk(memory, "about taxes", "No.")

    assert run("delete", "nothing")[0] != 0
    code, out, err = run("delete", short_id(one), "about boats", "--receipt")
    assert (code, err) == (0, f"deleted {short_id(one)}: about boats\n")
    assert "removed      messages of conversations: 2" in out
    told = json.loads(run("delete", short_id(two), "--json", "--receipt")[1])
    assert told["deleted"] == [two]
    assert told["receipt"]["removed"]["messages of conversations"] == 2
    assert memory.list_sessions() == []
    assert json.loads(run("delete", short_id(talk(memory, "x", "y")), "--json")[1]).keys() == {"deleted"}


def test_at_a_terminal_it_is_asked_before_conversations_are_deleted(memory, monkeypatch):
    names = [short_id(talk(memory, f"about boat {n}", "Nice.")) for n in range(4)]

    code, _, err = at_terminal("n", monkeypatch, "delete", names[0])
    assert (code, len(memory.list_sessions())) == (1, 4)
    assert 'Delete "about boat 0"? This can\'t be undone. [y/N]' in err
    assert err.endswith("nothing was deleted\n")
    assert (
        'Delete "about boat 0", "about boat 1", "about boat 2"?'
        in (at_terminal("", monkeypatch, "delete", *names[:3])[2])
    )
    assert "Delete 4 conversations?" in at_terminal("no", monkeypatch, "delete", *names)[2]
    assert at_terminal("Y", monkeypatch, "delete", names[0])[0] == 0
    code, _, err = at_terminal("n", monkeypatch, "delete", names[1], "-y")
    assert (code, "Delete" in err) == (0, False)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))  # a script has said what it means
    assert run("delete", names[2], screen=Screen(io.StringIO(), Terminal()))[0] == 0
    assert len(memory.list_sessions()) == 1


def test_at_a_terminal_it_is_asked_before_a_memory_is_emptied_or_joined(memory, monkeypatch):
    memory.set_fact("name", "Steve")
    memory.store_memory("Which dog?", "Rex", "local")

    for words, asked in (
        (("forget", "--everything"), "Delete everything that is stored for 'steve': 0 memories, 1 fact"),
        (("claim",), "Take over 1 memory, 0 facts, 0 nodes and 0 conversations of 'local' as 'steve'?"),
    ):
        code, _, err = at_terminal("n", monkeypatch, *words, command=memory_command)
        assert code == 1
        assert asked in err
        assert err.endswith("nothing was changed\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    for words in (("forget", "--everything"), ("claim",)):
        code, _, err = run(*words, command=memory_command)
        assert code == 2
        assert err.endswith("| add --yes to confirm")
    assert memory.get_fact("name") == "Steve"
    assert at_terminal("yes", monkeypatch, "claim", command=memory_command)[0] == 0
    assert at_terminal("yes", monkeypatch, "forget", "--everything", command=memory_command)[0] == 0
    assert memory.count_memories() == 0
