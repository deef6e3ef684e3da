"""`shepherd context build`, as a process, and /context and /focus at the prompt."""

from __future__ import annotations

import io
import json
import os

import pytest

from shepherd.assistant import Assistant
from shepherd.cli.main import main
from shepherd.commands.screen import Screen
from shepherd.commands.slash import Chat
from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.prompt import Summary
from shepherd.prompt.summary import StoredSummary, SummaryStore
from shepherd.types import Message


@pytest.fixture
def say(tmp_path, scripted_model):
    """A prompt: what is shown for a line; `say.assistant` is the conversation."""
    settings = EngineSettings(n_ctx=2048, n_threads=1)
    with (
        Engine(scripted_model, settings=settings) as engine,
        Memory(tmp_path / "memory.db", user_id="steve") as memory,
    ):
        config = Config(max_tokens=64, context_entities=False)
        assistant = Assistant(engine, memory, user_id="steve", config=config)

        def shown(line):
            out = io.StringIO()
            try:
                Chat(assistant, Screen(out, out)).message_of(line)
            except UsageError as error:
                out.write(str(error))
            return out.getvalue()

        shown.assistant = assistant
        yield shown


def test_one_prompt_goes_to_stdout_and_its_tokens_to_stderr(shepherd):
    shepherd("facts", "set", "name", "Steve")
    shepherd("knowledge", "add", "Sheep", "--text", "-", input="Sheep eat grass on the northern hills.")

    built = shepherd("context", "build", "Where", "do", "sheep", "eat?")

    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith("[SYSTEM]\nYou are a helpful assistant.")
    assert "\n\n[CONTEXT]\n[facts: name=Steve]\n\n[KNOWLEDGE]\nSource: Sheep\n```\n" in built.stdout
    assert built.stdout.endswith("\n\n[USER]\nWhere do sheep eat?\n")
    assert " tokens of 4,096: system " in built.stderr


def test_json_gives_the_parts_with_their_tokens(shepherd):
    shepherd("facts", "set", "name", "Steve")

    built = json.loads(
        shepherd("context", "build", "--json", "--max-tokens", "900", input="Who am I?").stdout
    )

    assert built["text"].endswith("[USER]\nWho am I?")
    assert built["tokens"] <= built["max_tokens"] == 900
    assert [part["category"] for part in built["parts"]] == ["system", "memory", "query"]
    assert all(part["tokens"] > 0 for part in built["parts"])


@pytest.fixture
def talk(home):
    """A stored conversation of 60 short turns; its id."""
    home.database.parent.mkdir(parents=True, exist_ok=True)
    with Memory(home.database) as memory:
        user = "steve"
        session = memory.start_session(user)
        for n in range(60):
            said = f"My friend Anna works at Acme, and today is day {n}." if n == 0 else f"Today is day {n}."
            memory.append_message(session, Message("user", said, created_at=1_800_000_000 + n), user)
            answer = Message("assistant", f"I hope that day {n} is a good one.")
            memory.append_message(session, answer, user)
    return session


def built_with(shepherd, *options, **variables):
    done = shepherd(
        "context", "build", "--continue", "--json", "Where does Anna work?", *options, **variables
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_long_conversation_fills_the_prompt_with_turns_entities_and_a_summary(shepherd, talk):
    large = built_with(shepherd, "--max-tokens", "4000")
    middle = built_with(shepherd, "--max-tokens", "1500")
    small = built_with(shepherd, "--max-tokens", "500")

    assert len(turns_in(large)) >= 30
    for built in (middle, small):
        assert 0.85 * built["max_tokens"] <= built["tokens"] <= built["max_tokens"]
        assert (
            f"[Conversation summary: {60 - len(turns_in(built))} earlier turns are left out]" in built["text"]
        )
    assert "I hope that day 59 is a good one." in small["text"]
    assert len(turns_in(small)) < len(turns_in(middle)) < len(turns_in(large))
    assert "• Anna (Person)" in large["text"]


def turns_in(built):
    return {part["turn_id"] for part in built["parts"] if part["id"].startswith("turn:")}


def leave_window(home, talk, summary):
    """The first 57 turns have left a chat's window, and a summary stands for them."""
    with Memory(home.database) as memory:
        last = memory.load_session(talk, "steve")[113].id
        SummaryStore(memory.transactions, "steve").save(talk, StoredSummary(summary, last))


def test_turns_that_left_the_window_without_a_summary_are_shown_where_there_is_room(shepherd, talk, home):
    leave_window(home, talk, Summary())

    large, small = (built_with(shepherd, "--max-tokens", n) for n in ("4000", "500"))

    assert turns_in(large) == {*range(60)}
    assert "Conversation summary" not in large["text"]
    assert 0.85 * 500 <= small["tokens"] <= 500
    assert f"[Conversation summary: {60 - len(turns_in(small))} earlier turns are left out]" in small["text"]


def test_stored_summary_stands_for_the_turns_without_room(shepherd, talk, home):
    leave_window(home, talk, Summary(("Many days.",), 57))

    large, middle = (built_with(shepherd, "--max-tokens", n) for n in ("4000", "900"))

    assert turns_in(large) == {*range(60)}
    assert "Conversation summary" not in large["text"]
    assert 3 < len(turns_in(middle)) < 60
    assert 0.85 * 900 <= middle["tokens"] <= 900
    assert "[Conversation summary: Many days.]" in middle["text"]


def test_turns_after_the_stored_summary_are_counted_where_they_have_no_room(shepherd, talk, home):
    with Memory(home.database) as memory:
        last = memory.load_session(talk, "steve")[39].id
        summary = StoredSummary(Summary(("Twenty days.",), 20), last)
        SummaryStore(memory.transactions, "steve").save(talk, summary)

    built = built_with(shepherd, "--max-tokens", "500")

    left = 60 - 20 - len(turns_in(built))
    assert left > 0
    assert f"[Conversation summary: Twenty days. {left} later turns are left out]" in built["text"]


def test_model_that_can_sums_up_the_turns_that_are_left_out(shepherd, talk, model):
    built = built_with(shepherd, "--max-tokens", "600", "-m", model, SHEPHERD_HISTORY_SUMMARY="true")

    assert "[Conversation summary: Hello, I am a shepherd." in built["text"]


def test_too_small_a_budget_is_refused_with_the_numbers(shepherd):
    built = shepherd("context", "build", "Who am I?", "--max-tokens", "5")

    assert built.returncode == 2
    assert built.stdout == ""
    assert "more than 5" in built.stderr
    assert "--max-tokens" in built.stderr


def test_without_a_question_there_is_nothing_to_build(shepherd):
    assert shepherd("context", "build", input="").returncode == 2


def test_at_a_terminal_the_question_is_not_waited_for(monkeypatch, capsys):
    ours, theirs = os.openpty()
    with open(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        assert main(["context", "build"]) == 2
    os.close(ours)

    assert "there is no question" in capsys.readouterr().err


def test_context_and_focus_at_the_prompt(say):
    assistant = say.assistant
    sheep = assistant.knowledge.add_node("Sheep", source_text="Sheep eat grass on the northern hills.")

    assert "no node is in focus" in say("/focus")
    assert f"{sheep.id}  Sheep" in say("/focus grass")
    assert "Sheep  (primary)" in say(f"/focus {sheep.id}")
    assert "there is no node 99" in say("/focus 99")
    assert "nothing has been answered yet" in say("/context")
    list(assistant.ask("Where do sheep eat grass?"))
    shown = say("/context")
    assert "knowledge" in shown
    assert "focus" in shown
    assert "shared by strategy dynamic" in shown
    assert "no node is in focus" in say("/focus none")


def test_a_refresh_at_the_prompt_says_whether_anything_is_new(say):
    assert "nothing has changed" in say("/context refresh")

    say.assistant.knowledge.add_node("Sheep", source_text="Sheep eat grass.")

    assert "as now" in say("/context refresh")  # the tail may hold passages from here on
    assert "usage" in say("/context everything")
