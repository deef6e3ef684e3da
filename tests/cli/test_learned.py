"""Learned things are shown, undone and decided: `shepherd memory learned`, `shepherd facts`, and the chat."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from shepherd.commands.explain import (
    decided_in_words,
    item_in_words,
    learned_in_words,
    list_facts,
    news_in_words,
)
from shepherd.commands.screen import Screen
from shepherd.memory import Claim, LearnedItem, Memory, OpenJob
from shepherd.types import Message
from tests.cli.test_terminal import TURN_ENDED, Terminal, start
from tests.learned import LIVED, MOVED, learn, propose, remember


@pytest.fixture(autouse=True)
def _one_thread(home) -> None:
    home.environment["SHEPHERD_THREADS"] = "1"


@pytest.fixture
def memory(home) -> Iterator[Memory]:
    """The memory of the home's user."""
    home.database.parent.mkdir(parents=True)
    with Memory(home.database, user_id="steve") as memory:
        yield memory


def test_facts_are_listed_with_where_they_came_from(memory, screen_text):
    learn(memory, "steve", LIVED, Claim("location", "Köln", LIVED, 0))
    memory.set_fact("name", "Steve", source="user")
    memory.set_fact("color", "blue", source="tool")
    memory.set_fact("pet", "Rex", source="import")

    shown = screen_text(lambda screen: list_facts(screen, memory.get_all_facts(), memory.fact_periods()))

    assert shown.splitlines() == [
        "  color = blue", "     set by the model, with a tool · just now",
        "  location = Köln", f'     you said "{LIVED}" · just now',
        "  name = Steve", "     set by you · just now",
        "  pet = Rex", "     imported · just now",
    ]  # fmt: skip


@pytest.fixture
def screen_text() -> Callable[[Callable[[Screen], object]], str]:
    """Returns what is written to stdout, which is no terminal."""

    def text_of(write: Callable[[Screen], object]) -> str:
        out = io.StringIO()
        write(Screen(out, io.StringIO()))
        return out.getvalue()

    return text_of


@pytest.fixture
def terminal(home) -> Iterator[Callable[..., Terminal]]:
    """Starts `shepherd` in a terminal."""
    started = []

    def begin(*arguments: object, **variables: str) -> Terminal:
        chat = start(home, *arguments, **variables)
        started.append(chat.child)
        return chat

    yield begin
    for child in started:
        child.close(force=True)


# ---- words


def item(kind: str, key: str, value: str, before: str | None = None, state: str = "new") -> LearnedItem:
    return LearnedItem(7, kind, key, value, before, "I said so.", "s", 0, state)


@pytest.mark.parametrize(
    ("learned", "line"),
    [
        (item("learned", "location", "Paris"), "learned: you live in Paris · /undo 7"),
        (item("changed", "location", "Paris", "Köln"), "learned: you live in Paris (before: Köln) · /undo 7"),
        (item("ended", "location", "", "Kyiv"), "learned: you no longer live in Kyiv · /undo 7"),
        (item("remembered", "Which dog?", "Rex"), "remembered: Which dog? Rex · /undo 7"),
        (
            item("proposed", "location", "Berlin", "Texas"),
            "you said that you live in Berlin, but you set Texas yourself · /accept 7 · /reject 7",
        ),
        (
            item("proposed", "location", "", "Texas"),
            "you said that you no longer live in Texas, but you set it yourself · /accept 7 · /reject 7",
        ),
    ],
)
def test_each_thing_is_one_line_with_the_command_that_undoes_or_accepts_it(learned, line):
    assert news_in_words([learned]) == [line]


def test_of_many_things_the_latest_are_shown_with_the_number_of_the_others():
    lines = news_in_words([item("learned", f"key{n}", "value") for n in range(8)])

    assert lines[0] == "3 more things learned · /learned"
    assert [line.split()[2] for line in lines[1:]] == ["key3", "key4", "key5", "key6", "key7"]


def test_things_that_were_decided_or_replaced_since_are_no_news():
    old = [replace(item("proposed", "name", "Anna", "Steve"), state=one) for one in ("expired", "rejected")]

    assert news_in_words([*old, item("learned", "location", "Paris")]) == [
        "learned: you live in Paris · /undo 7"
    ]


def test_outside_of_a_chat_the_command_is_the_shells():
    [line] = news_in_words([item("learned", "location", "Paris")], in_chat=False)

    assert line == "learned: you live in Paris · shepherd memory learned --undo 7"


def test_a_long_text_of_several_lines_stays_one_line():
    [line] = news_in_words([item("learned", "poem", "roses\nare red\n" * 50)])

    assert "\n" not in line
    assert len(line) < 100


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        (item("changed", "location", "Paris", "Köln", "undone"), "undone: you live in Köln, as before"),
        (item("learned", "location", "Paris", None, "undone"), 'undone: "you live in Paris" is forgotten'),
        (item("ended", "location", "", "Kyiv", "undone"), "undone: you live in Kyiv, as before"),
        (
            item("remembered", "Which dog?", "Rex", None, "undone"),
            "undone: the memory 'Which dog?' is deleted",
        ),
        (item("proposed", "location", "Berlin", "Texas", "accepted"), "accepted: you live in Berlin"),
        (item("proposed", "location", "", "Texas", "accepted"), "accepted: you no longer live in Texas"),
        (
            item("proposed", "location", "Berlin", "Texas", "rejected"),
            "rejected: you live in Texas, as before",
        ),
        (item("learned", "location", "Paris", None, "kept"), "kept: you live in Paris"),
    ],
)
def test_a_decision_says_what_holds_now(decided, words):
    assert decided_in_words(decided) == words


def test_a_proposal_is_shown_beside_what_it_would_replace():
    assert (
        item_in_words(item("proposed", "location", "Berlin", "Texas"))
        == "you live in Berlin (you set: Texas)"
    )


# ---- shepherd memory learned


def test_what_was_learned_is_listed_with_its_sentence(shepherd, memory):
    remember(memory, "steve")

    rows = [line.split("\t") for line in shepherd("memory", "learned").stdout.splitlines()]
    listed = json.loads(shepherd("memory", "learned", "--json").stdout)

    assert [row[2:4] for row in rows] == [
        [MOVED, "you live in Paris (before: Köln)"],
        [LIVED, "you live in Köln"],
    ]
    assert [(entry["kind"], entry["value"], entry["before"], entry["state"]) for entry in listed] == [
        ("changed", "Paris", "Köln", "new"),
        ("learned", "Köln", None, "new"),
    ]


def test_undo_restores_what_was_known_before(shepherd, memory):
    _, changed = remember(memory, "steve")
    before = memory.get_all_facts()

    done = shepherd("memory", "learned", "--undo", str(changed.id))
    again = shepherd("memory", "learned", "--undo", str(changed.id))

    assert (done.returncode, done.stderr) == (0, "undone: you live in Köln, as before\n")
    assert memory.get_fact("location") == "Köln"
    assert before[0].value == "Paris"
    assert again.returncode == 1
    assert f"cannot undo {changed.id}" in again.stderr


def test_undo_without_a_number_takes_the_newest(shepherd, memory):
    remember(memory, "steve")

    assert shepherd("memory", "learned", "--undo").stderr == "undone: you live in Köln, as before\n"
    assert shepherd("memory", "learned", "--undo").stderr == 'undone: "you live in Köln" is forgotten\n'
    assert "there is nothing to undo" in shepherd("memory", "learned", "--undo").stderr


def test_after_another_change_nothing_is_undone(shepherd, memory):
    _, changed = remember(memory, "steve")
    memory.set_fact("location", "Rome")

    done = shepherd("memory", "learned", "--undo", str(changed.id))

    assert done.returncode == 1
    assert "changed since" in done.stderr
    assert memory.get_fact("location") == "Rome"


def test_a_proposal_waits_until_it_is_accepted(shepherd, memory):
    proposal = propose(memory, "steve")

    waiting = shepherd("memory", "learned", "--waiting")
    accepted = shepherd("memory", "learned", "--accept", "--json")

    assert "proposed: you live in Berlin (you set: Texas)" in waiting.stdout
    assert "--accept" in waiting.stderr
    assert (json.loads(accepted.stdout)["id"], json.loads(accepted.stdout)["state"]) == (
        proposal.id,
        "accepted",
    )
    assert memory.get_fact("location") == "Berlin"
    assert shepherd("memory", "learned", "--waiting").stderr == "nothing waits for a decision\n"


def test_a_rejected_proposal_leaves_the_fact_and_is_no_longer_offered(shepherd, memory):
    proposal = propose(memory, "steve")

    rejected = shepherd("memory", "learned", "--reject", str(proposal.id))

    assert rejected.stderr == "rejected: you live in Texas, as before\n"
    assert memory.get_fact("location") == "Texas"
    assert shepherd("memory", "learned", "--accept").returncode == 1


def test_one_decision_at_a_time(shepherd):
    assert shepherd("memory", "learned", "--keep", "1", "--undo", "1").returncode == 2
    assert shepherd("memory", "learned", "--undo", "99999999999999999999").returncode == 2


# ---- shepherd facts


def test_the_history_says_when_each_value_held_and_which_sentence_said_so(shepherd, memory):
    remember(memory, "steve")

    periods = json.loads(shepherd("facts", "history", "location", "--json").stdout)
    rows = [line.split("\t") for line in shepherd("facts", "history", "location").stdout.splitlines()]

    assert [(p["value"], p["statement"]) for p in periods] == [
        ("Köln", LIVED),
        ("Paris", MOVED),
    ]
    assert periods[0]["until"] == periods[1]["since"]
    assert periods[1]["until"] is None
    assert [row[1:] for row in rows][1] == ["Paris", "now", "extraction", MOVED]


def test_facts_at_a_date_are_those_of_then(shepherd, home):
    home.database.parent.mkdir(parents=True)
    times = {"Köln": "2024-03-01", "Paris": "2025-06-01"}
    for value, date in times.items():
        at = time.mktime(time.strptime(date, "%Y-%m-%d"))
        with Memory(home.database, user_id="steve", clock=lambda at=at: at) as memory:
            memory.set_fact("location", value)

    def at(*date: str) -> dict[str, str]:
        return json.loads(shepherd("facts", "at", *date, "--json").stdout)

    assert at("2024-02-29") == {}
    assert at("2024-03-01") == {"location": "Köln"}
    assert at("2025-05") == {"location": "Köln"}
    assert at("1", "July", "2025") == {"location": "Paris"}
    assert shepherd("facts", "at", "2024-12-24").stdout == "location\tKöln\n"


def test_what_is_no_date_is_an_error_that_shows_one(shepherd):
    done = shepherd("facts", "at", "someday")

    assert done.returncode == 2
    assert "2026-03-01" in done.stderr


# ---- in the chat


def test_what_is_learned_is_shown_and_the_line_that_is_typed_stays_whole(terminal, memory):
    chat = terminal("--temperature", "0")
    chat.prompt()

    chat.type("My name is Steve.")
    chat.expect(TURN_ENDED)
    chat.type("how old is a ", enter=False)
    shown = chat.expect(r"learned: your name is Steve · /undo \d+")
    chat.type("sheep")
    chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type("/undo " + shown.split()[-1])
    chat.expect('undone: "your name is Steve" is forgotten')
    chat.type("/quit")

    assert chat.end() == 0
    asked = [message.raw for message in memory.load_session() if message.role == "user"]
    assert asked == ["My name is Steve.", "how old is a sheep"]
    assert memory.get_fact("name") is None


def test_answer_does_not_repeat_what_the_user_has_undone(terminal, memory):
    memory.set_fact("location", "Ghent", source="user")
    chat = terminal("--temperature", "0")
    chat.prompt()
    chat.type("I moved to Oslo last week.")
    chat.expect(TURN_ENDED)
    shown = chat.expect(r"you live in Oslo \(before: Ghent\) · /undo \d+")
    chat.type("/undo " + shown.split()[-1])
    chat.expect("undone: you live in Ghent, as before")
    chat.type("Where do I live?")
    chat.expect("You live in Ghent")
    chat.type("/quit")

    assert chat.end() == 0


def test_what_is_learned_at_the_end_is_shown_then_or_at_the_next_start_and_once(terminal, memory):
    line = "learned: your favorite color is teal"
    chat = terminal("--temperature", "0")
    chat.prompt()
    chat.type("My favorite color is teal.")
    chat.expect(TURN_ENDED)
    chat.type("/quit")
    ended = chat.child.read()
    chat.end()

    following = terminal("--temperature", "0")
    if line not in ended:  # a machine too busy for the last moment
        following.expect(line)
    following.prompt()
    following.type("/learned")
    listed = following.expect("your favorite color is teal")
    following.type("/quit")
    following.end()
    third = terminal("--temperature", "0")
    greeting = third.prompt()
    third.type("/quit")
    third.end()

    assert '"My favorite color is teal."' in listed
    assert listed.count("your favorite color is teal") == 1
    assert line not in greeting


def test_proposals_are_accepted_and_rejected_in_the_chat(terminal, memory, model):
    propose(memory, "steve")
    chat = terminal("-m", model)

    chat.expect(r"you said that you live in Berlin, but you set Texas yourself · /accept \d+ · /reject \d+")
    chat.prompt()
    chat.type("/reject")
    chat.expect("rejected: you live in Texas, as before")
    chat.prompt()
    chat.type("/accept")
    chat.expect("there is nothing to accept")
    chat.prompt()
    learn(memory, "steve", "I live in Rome.", *_claims("Rome", "I live in Rome."))
    chat.type("/accept")
    chat.expect("accepted: you live in Rome")
    chat.prompt()
    chat.type("/keep")
    chat.expect("usage: /keep NUMBER")
    chat.type("/quit")

    assert chat.end() == 0
    assert memory.get_fact("location") == "Rome"


def _claims(value: str, sentence: str) -> list:
    from shepherd.memory import Claim

    return [Claim("location", value, sentence, 0)]


def test_in_private_nothing_is_told(terminal, memory, model):
    chat = terminal("-m", model)
    chat.prompt()
    chat.type("/private")
    chat.expect("private: nothing is recalled")
    chat.prompt()
    remember(memory, "steve")
    chat.type("/stats")
    in_private = chat.prompt()
    chat.type("/private")
    chat.expect("learned: you live in Paris")
    chat.type("/quit")
    chat.end()

    assert "Paris" not in in_private


def test_what_was_learned_waits_and_failed_is_counted(memory):
    told = []

    def tell(sentence: str) -> None:
        session = memory.start_session("steve")
        memory.append_message(session, Message("user", sentence), "steve", job=OpenJob("worker", 1))

    told.append(learned_in_words(memory, "steve"))
    learn(memory, "steve", LIVED, Claim("location", "Köln", LIVED, 0))
    told.append(learned_in_words(memory, "steve"))
    learn(
        memory, "steve", MOVED, Claim("location", "Paris", MOVED, 0, changes=True), memories=("When?", "2022")
    )
    told.append(learned_in_words(memory, "steve"))
    tell("I have a dog.")
    told.append(learned_in_words(memory, "steve"))
    job = memory.extraction.claim("worker", "steve")
    memory.extraction.fail(job, "unreadable", refused=True, most_refusals=1, retry_in_s=0)
    told.append(learned_in_words(memory, "steve"))

    assert told == [
        "",
        "1 fact from your messages",
        "2 facts and 1 memory from your messages",
        "2 facts and 1 memory from your messages, 1 group of messages still to read",
        "2 facts and 1 memory from your messages, 1 failed (shepherd memory jobs)",
    ]
