"""What commands print, as scenarios in the tests' own process: every line of stdout, stderr, and the code."""

from __future__ import annotations

import io
import re
import shlex
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd.cli.main import _dispatch
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError

Done = tuple[int, str, str]
FIRST, SECOND, THIRD = 1, 2, 3


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Done]:
    """Runs a command in an empty home of user steve; days are DAY, and the home is ~."""
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name, value in {"HOME": str(tmp_path), "USER_ID": "steve", "MODEL_TRIAL": "false"}.items():
        monkeypatch.setenv(name if name == "HOME" else f"SHEPHERD_{name}", value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        try:
            code = _dispatch(shlex.split(line), Screen(out, err), Namespace())
        except ShepherdError as error:
            code = error.exit_code
            err.write(f"{error} | {error.hint}\n")
        found = (re.sub(r"\d{4}-\d\d-\d\d", "DAY", one.getvalue()) for one in (out, err))
        return code, *(text.replace(str(tmp_path), "~") for text in found)  # type: ignore[return-value]

    return run


IDS = "shepherd memory list and shepherd memory search show the ids, in the first column"
IDA = f"{FIRST}\tDAY\tWhere does Ida live?\tIn Ulm.\n"
JOB = f"{SECOND}\tDAY\tWhat does Ida do?\tShe is a glazier.\n"
TEA = f"{THIRD}\tDAY\tWhich tea?\tGreen tea.\n"


def test_memories_are_added_listed_changed_and_forgotten(told: Callable[[str], Done]) -> None:
    steps: list[tuple[str, Done]] = [
        ("memory list", (0, "", "nothing is remembered yet\n")),
        ("memory add 'Where does Ida live?' 'In Ulm.'", (0, f"{FIRST}\n", "")),
        ("memory add 'What does Ida do?' 'She is a glazier.'", (0, f"{SECOND}\n", "")),
        ("memory add 'Which tea?' 'Green tea.'", (0, f"{THIRD}\n", "")),
        ("memory list --limit 3", (0, TEA + JOB + IDA, "")),
        ("memory list --limit 2", (0, TEA + JOB, "2 of 3 memories; --offset shows older ones\n")),
        ("memory list --limit 2 --offset 1", (0, JOB + IDA, "")),
        ("memory list --limit 1 --offset 1", (0, JOB, "1 of 3 memories; --offset shows older ones\n")),
        ("memory list --offset 9", (0, "", "")),
        (f"memory pin {FIRST}", (0, "", f"memory {FIRST} is pinned: it is never deleted to make space\n")),
        (f"memory show {FIRST}",
         (0, "Where does Ida live?\n\nIn Ulm.\n", f"memory {FIRST}, DAY, from user, pinned\n")),
        (f"memory pin {FIRST} --off", (0, "", f"memory {FIRST} is no longer pinned\n")),
        (f"memory edit {THIRD} --answer 'Black tea.'", (0, "", f"memory {THIRD} is changed\n")),
        (f"memory show {THIRD}", (0, "Which tea?\n\nBlack tea.\n", f"memory {THIRD}, DAY, from user\n")),
        (
            f"memory edit {THIRD}",
            (2, "", "nothing to change | use --question TEXT, --answer TEXT, or both\n"),
        ),
        ("memory show 4", (1, "", f"no memory has the id 4 | {IDS}\n")),
        ("memory search zebra", (0, "", "no memory matches\n")),
        ("memory search Ida --threshold 0.99", (0, "", "no memory matches\n")),
        (f"memory forget {SECOND} 7",
         (1, "", f"1 memory forgotten\nwarning: no memory has the id 7\n  {IDS}\n")),
        ("memory forget --question 'Which tea?'", (0, "", "1 memory forgotten\n")),
        ("memory forget --question 'Which tea?'", (1, "", "0 memories forgotten\n")),
        ("memory forget", (2, "", "nothing to forget | name an ID, --question TEXT, or --everything\n")),
        (f"memory forget {FIRST} --everything",
         (2, "", "--everything names no memory | drop the ID and --question\n")),
        ("memory check", (0, "", "no damage found\n")),
        ("memory claim --from anna --yes", (0, "", "nothing is stored for 'anna'\n")),
        ("memory forget --everything --yes",
         (0, "", "all data of steve is deleted: 1 memory, 0 facts, 0 nodes and 0 conversations\n")),
        ("memory list", (0, "", "nothing is remembered yet\n")),
    ]  # fmt: skip

    for line, done in steps:
        assert (line, told(line)) == (line, done)


def test_stats_tell_what_there_is(told: Callable[[str], Done]) -> None:
    told("memory add 'Where does Ida live?' 'In Ulm.'")
    told("facts set city Ulm")
    told(f"memory pin {FIRST}")

    code, out, err = told("memory stats")

    assert (code, err) == (0, "")
    assert re.sub(r"\d+\.\d KiB", "SIZE", out).splitlines() == [
        "memories       1, of which 1 pinned",
        "facts          1",
        "conversations  0",
        "oldest memory  DAY",
        "newest memory  DAY",
        "stored data    SIZE of at most 10.0 GiB (max_db_size), for all users together",
        "database       ~/data/shepherd/memory.db (SIZE)",
        "encryption     off (shepherd encrypt)",
        "search index   none saved",
    ]


def test_a_search_tells_what_a_message_would_get(told: Callable[[str], Done]) -> None:
    told("memory add 'Where does Ida live?' 'In Ulm.'")
    told("memory add 'What does Ida do?' 'She is a glazier.'")

    _, out, err = told("memory search glazier")
    _, two, _ = told("memory search Ida")
    _, one, _ = told("memory search Ida --limit 1")

    number, recalled, relevance, score, *rest = out.rstrip("\n").split("\t")
    assert (number, recalled, rest) == (str(SECOND), "yes", ["DAY", "What does Ida do?", "She is a glazier."])
    assert re.fullmatch(r"[01]\.\d\d", relevance)
    assert re.fullmatch(r"\d\.\d\d", score)
    assert err == ""
    assert (len(two.splitlines()), len(one.splitlines())) == (2, 1)


def test_facts_have_values_and_a_history(told: Callable[[str], Done]) -> None:
    steps: list[tuple[str, Done]] = [
        ("facts list", (0, "", "no facts yet; shepherd facts set KEY VALUE sets one\n")),
        ("facts set city Ulm", (0, "", "city = Ulm\n")),
        ("facts set city Bonn", (0, "", "city = Bonn; it was Ulm\n")),
        ("facts list", (0, "city\tBonn\tDAY\n", "")),
        ("facts get city", (0, "Bonn\n", "")),
        ("facts get zip", (1, "", "there is no fact 'zip' | shepherd facts list shows all facts\n")),
        ("facts history city", (0, "DAY\tUlm\tDAY\tuser\t\nDAY\tBonn\tnow\tuser\t\n", "")),
    ]

    for line, done in steps:
        assert (line, told(line)) == (line, done)


def test_nodes_are_added_listed_and_removed(told: Callable[[str], Done]) -> None:
    steps: list[tuple[str, Done]] = [
        ("knowledge list",
         (0, "", "no nodes; shepherd knowledge add TITLE adds one, import reads documents\n")),
        ("knowledge add Honey --kind workflow", (0, "1\n", "")),
        ("knowledge list", (0, "1\tDAY\tworkflow\t0\tHoney\t\n", "")),
        ("knowledge list --kind workflow", (0, "1\tDAY\tworkflow\t0\tHoney\t\n", "")),
        ("knowledge show 1", (0, "Honey\nkind         workflow\n", "")),
        ("knowledge show 2", (1, "", "there is no node 2 | shepherd knowledge list shows all nodes\n")),
        ("knowledge search bees", (0, "", "nothing matches\n")),
        ("knowledge export nodes.jsonl", (0, "", "1 node exported\n")),
        ("knowledge forget 1 9",
         (1, "", "1 node removed\nMessages, traces and memories that quote it stay."
          " To find them by a word of it:\n  shepherd memory audit --canary WORD\n"
          "warning: there is no node 9\n")),
        ("knowledge list --json", (0, "[]\n", "")),
    ]  # fmt: skip

    for line, done in steps:
        assert (line, told(line)) == (line, done)


def test_providers_are_added_used_and_removed(told: Callable[[str], Done]) -> None:
    local, work = "local\tllamacpp\t\ton\t\n", "work\topenai\tm\toff\tnone\n"
    steps: list[tuple[str, Done]] = [
        ("provider add work openai --base-url http://127.0.0.1:9/v1 --model m",
         (0, "", "added provider work; to switch to it: shepherd provider use work\n"
          "if its server needs a key: shepherd provider set work api_key\n")),
        ("provider list", (0, f"*\t{local}\t{work}", "")),
        ("provider set work window 4096", (0, "", "work: window is set\n")),
        ("provider set work window", (2, "", "'window' needs a value | '' is the default\n")),
        ("provider use work", (0, "", "work answers from now on\n")),
        ("provider list", (0, f"\t{local}*\t{work}", "")),
        ("provider next", (0, "", "local answers from now on\n")),
        ("provider next", (0, "", "work answers from now on\n")),
        ("provider remove work", (0, "", "work is removed\n")),
        ("provider list", (0, f"*\t{local}", "")),
        ("provider test", (2, "", "local is in this process | shepherd doctor checks it\n")),
    ]  # fmt: skip

    for line, done in steps:
        assert (line, told(line)) == (line, done)


def test_a_provider_is_shown_with_all_but_its_key(told: Callable[[str], Done]) -> None:
    told("provider add work openai --base-url http://127.0.0.1:9/v1 --model m")
    told("provider set work window 4096")

    assert told("provider show work")[1].splitlines() == [
        "name           work",
        "kind           openai",
        "model          m",
        "base_url       http://127.0.0.1:9/v1",
        "memory         auto",
        "uses_memory    off",
        "window         4096",
        "max_tokens     0",
        "thinking       0",
        "timeout        120.0",
        "retries        3",
        "key            none",
    ]


def test_settings_are_set_and_reset(told: Callable[[str], Done]) -> None:
    steps: list[tuple[str, Done]] = [
        ("config set temperature 0.5", (0, "", "temperature = 0.5\n")),
        ("config get temperature", (0, "0.5\n", "")),
        ("config unset temperature", (0, "", "reset temperature to auto (the default)\n")),
        ("config get temperature", (0, "auto\n", "")),
        ("config set temperature hot",
         (2, "", 'temperature is "hot"; expected a number from 0 to 5, or auto | '
          "shepherd config set temperature auto   (the default)\n")),
        ("config set zzz 1",
         (2, "", 'there is no setting "zzz" | shepherd config show lists all of them\n')),
    ]  # fmt: skip

    for line, done in steps:
        assert (line, told(line)) == (line, done)


def test_where_there_is_nothing_yet_it_is_said(told: Callable[[str], Done]) -> None:
    steps: list[tuple[str, Done]] = [
        ("conversations list", (0, "", "no conversation is stored yet\n")),
        ("trace tree", (0, "", "no traces yet; each turn of a stored conversation makes one\n")),
        ("trace forget --all", (0, "", "0 paths forgotten\n")),
        ("trace forget", (2, "", "nothing to forget | name SESSION or SESSION/TURN, or use --all\n")),
        ("template list", (0, "", "no templates yet; shepherd template edit NAME makes one\n")),
        ("memory learned", (0, "", "nothing has been learned yet\n")),
        ("memory audit", (0, "", "nothing to clean up\n")),
        ("memory jobs", (0, "", "nothing is waiting\n")),
        ("apikey list",
         (0, "", "there are no keys: a server listens on this machine alone, and needs none\n")),
    ]  # fmt: skip

    for line, done in steps:
        assert (line, told(line)) == (line, done)
