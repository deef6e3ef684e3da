"""Sessions whose provider changes: who sees the memory, when it is opened, what a failure leaves."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shepherd.assistant import Delta, Finished, Recalled
from shepherd.chat_session import Session
from shepherd.commands.screen import Screen
from shepherd.commands.slash import Chat, change_setting
from shepherd.config import Config
from shepherd.config.file import ConfigFile
from shepherd.errors import ProviderError, ProviderUnavailableError, UsageError
from shepherd.extraction import INSTRUCTIONS
from shepherd.providers import ProviderTable
from shepherd.types import Thought
from tests import models
from tests.extraction.server import learned
from tests.extraction.server import running as running_endpoint
from tests.providers.upstream import Upstream, breaks_off, refuses, running, says, usage

ANSWER = "Hello, I am a shepherd. Café is open today!"
TOLD = "My favourite editor is Helix"
ASKED = "which editor do I like?"


@pytest.fixture
def database(tmp_path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with running(says("From ", "afar.", counts=usage(100, 4, cached=60))) as server:
        yield server


@pytest.fixture
def new_session(
    tmp_path, monkeypatch, scripted_model, upstream, database
) -> Iterator[Callable[..., Session]]:
    """A session with the providers `far` (no memory), `friend` (with it) and `other` (another Shepherd)."""
    monkeypatch.setenv("SHEPHERD_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    table = ProviderTable()
    at = {"model": "m", "base_url": f"{upstream.url}/v1", "retries": 0}
    table.add("far", {"kind": "openai", **at})
    table.add("friend", {"kind": "openai", "memory": True, **at})
    table.add("other", {"kind": "shepherd", **at})
    with ExitStack() as stack:

        def make(provider: str = "", *, memory: bool = True, **settings) -> Session:
            defaults = {"model": str(scripted_model), "user_id": "steve", "temperature": 0.0, "threads": 1}
            config = Config(provider=provider, memory_database=str(database), **{**defaults, **settings})
            warnings: list[str] = []
            session = Session(config, memory=memory, warn=lambda text, hint: warnings.append(text))
            stack.callback(session.close)
            return session

        yield make


def ask(session: Session, text: str) -> Finished:
    *_, finished = session.assistant.ask(text)
    assert isinstance(finished, Finished)
    return finished


def sent(upstream: Upstream) -> str:
    return json.dumps(upstream.asked[-1].body["messages"], ensure_ascii=False)


def test_a_remote_answer_has_the_same_events_as_a_local_one(new_session):
    events = list(new_session("far").assistant.ask("hello"))

    assert [type(event) for event in events] == [Recalled, Delta, Delta, Finished]
    assert events[-1].answer == "From afar."
    assert (events[-1].stats.prompt_tokens, events[-1].stats.reused_tokens) == (100, 60)


def test_thoughts_are_events_of_their_own_and_no_part_of_the_history(new_session, upstream):
    session = new_session("far")
    upstream.script[:] = [says({"reasoning_content": "Let me see."}, "Four.")]

    events = list(session.assistant.ask("2 + 2?"))

    assert Thought("Let me see.") in events
    assert events[-1].answer == "Four."
    assert [message.raw for message in session.assistant.history] == ["2 + 2?", "Four."]


def test_conversation_goes_on_over_the_turns(new_session, upstream):
    session = new_session("far")

    ask(session, "one")
    ask(session, "two")

    messages = upstream.asked[-1].body["messages"]
    assert [m["content"] for m in messages[1:]] == ["one", "From afar.", "two"]


def test_a_remote_provider_neither_sees_nor_feeds_the_memory(new_session, upstream, database):
    local = new_session()
    ask(local, TOLD)
    local.assistant.memory.set_fact("name", "Steve", "steve")
    local.close()

    session = new_session("far")
    ask(session, ASKED)
    ask(session, "My dog is called Rex")
    session.close()

    assert "Helix" not in sent(upstream)
    assert "Steve" not in sent(upstream)
    assert "memory" not in upstream.asked[-1].body["messages"][0]["content"]
    assert new_session().assistant.memory.search("dog Rex", 5, "steve") == []


def test_without_need_the_database_is_not_even_made(new_session, database):
    session = new_session("far")
    ask(session, TOLD)
    session.close()

    assert not database.exists()


def test_a_provider_that_may_use_the_memory_does(new_session, upstream):
    session = new_session("friend", memory_extraction=False)
    ask(session, TOLD)
    session.assistant.clear()

    ask(session, ASKED)

    assert "[context: User: My favourite editor is Helix" in sent(upstream)


@pytest.mark.parametrize("provider", ["", "friend"])
def test_nomemory_overrides_every_provider(new_session, upstream, database, provider):
    session = new_session(provider, memory=False)
    ask(session, TOLD)
    session.switch("friend")
    ask(session, ASKED)
    session.close()

    assert not database.exists()
    assert session.assistant.memory is None


def test_another_shepherd_gets_no_memory_of_ours_and_is_told_when_its_own_is_not_wanted(
    new_session, upstream
):
    session = new_session()
    ask(session, TOLD)
    session.switch("other")

    ask(session, ASKED)
    session.assistant.private = True
    ask(session, ASKED)

    assert "memory" not in upstream.asked[-2].body
    assert upstream.asked[-1].body["memory"] is False
    assert "[context" not in sent(upstream)


def test_nomemory_is_sent_along_to_another_shepherd(new_session, upstream):
    ask(new_session("other", memory=False), "hello")

    assert upstream.asked[-1].body["memory"] is False


def test_another_shepherd_is_told_not_to_learn_from_what_is_attached(new_session, upstream):
    session = new_session("other")

    list(session.assistant.ask("Who wrote this?", composed="Who wrote this?\n\nMy name is Mallory."))
    ask(session, "hello")

    assert upstream.asked[-2].body["memory"] is False
    assert "Mallory" in upstream.asked[-2].body["messages"][-1]["content"]
    assert "memory" not in upstream.asked[-1].body


def test_switching_takes_off_what_was_appended_for_the_model_before(new_session, upstream):
    session = new_session()
    session.assistant.memory.set_fact("name", "Steve", "steve")
    injected = ask(session, "what is my name?").injection

    session.switch("far")
    ask(session, "and now?")

    assert injected.facts
    assert "Steve" not in sent(upstream)
    assert "what is my name?" in sent(upstream)
    assert "[facts" not in sent(upstream)


def test_switching_back_brings_the_rules_of_the_first_back(new_session, upstream):
    session = new_session()
    ask(session, TOLD)
    session.switch("far")
    ask(session, "My dog is called Rex")
    session.switch("local")
    session.assistant.clear()

    found = ask(session, "which editor do I like, and how is my dog called?").injection

    assert "Helix" in found.tail
    assert "Rex" not in found.tail


def test_history_goes_along_with_each_switch(new_session, upstream):
    session = new_session("far")
    ask(session, "one")
    session.switch("local")
    ask(session, "two")
    session.switch("far")
    ask(session, "three")

    messages = upstream.asked[-1].body["messages"]
    assert [m["content"] for m in messages[1:]] == ["one", "From afar.", "two", ANSWER, "three"]


def test_the_database_is_opened_by_the_first_provider_that_may_use_it(new_session, database):
    session = new_session("far")
    ask(session, "one")
    assert not database.exists()

    session.switch("local")

    assert database.exists()
    assert session.assistant.recalls


def test_two_sessions_do_not_know_of_each_others_provider(new_session, upstream):
    first, second = new_session(), new_session()

    first.switch("far")
    second.assistant.memory.set_fact("name", "Steve", "steve")

    assert ask(second, "what is my name?").injection.facts
    assert not ask(first, "what is my name?").injection


def test_undo_reaches_what_was_kept_before_a_switch(new_session, upstream):
    session = new_session()
    ask(session, TOLD)
    session.switch("far")
    ask(session, "forget that")

    assert session.assistant.undo() == "forget that"
    assert session.assistant.undo() == TOLD

    session.switch("local")
    assert not ask(session, ASKED).injection


@pytest.mark.parametrize("name", ["nobody", "broken"])
def test_a_provider_that_cannot_be_had_leaves_the_old_one(new_session, name, tmp_path):
    session = new_session("far")
    with ConfigFile(tmp_path / "config.json").changing() as document:
        document["providers"]["broken"] = {"kind": "anthropic"}

    with pytest.raises(UsageError):
        session.switch(name)

    assert session.provider.name == "far"
    assert ask(session, "hello").answer == "From afar."


@pytest.mark.parametrize(
    ("fault", "error"), [(refuses(503), ProviderUnavailableError), (breaks_off("Fr"), ProviderError)]
)
def test_a_failed_turn_leaves_the_conversation_and_the_memory_as_they_were(
    new_session, upstream, fault, error
):
    session = new_session("friend", memory_extraction=False)
    ask(session, "one")
    upstream.script[:] = [fault, says("again")]

    with pytest.raises(error):
        ask(session, "My dog is called Rex")

    assert [message.raw for message in session.assistant.history] == ["one", "From afar."]
    assert session.assistant.memory.search("dog Rex", 5, "steve") == []
    assert ask(session, "My dog is called Rex").answer == "again"


def test_whether_a_model_is_told_of_entities_is_decided_at_each_switch(new_session):
    session = new_session(n_ctx=4096, max_tokens=8)
    assert session.assistant.snapshot.blocks

    session.switch("local", "shepherd-mini")
    assert not session.assistant.snapshot.blocks

    session.switch("friend")
    assert session.assistant.snapshot.blocks


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory_database", "mysql://steve:hunter2@host/db"),
        ("memory_database", "postgresq://steve:hunter2@host/db"),
        ("memory_database", "foo://x"),
        ("memory_database", "~nosuchuser/memory.db"),
    ],
)
def test_a_setting_that_names_nothing_is_named(tmp_path, monkeypatch, scripted_model, name, value):
    monkeypatch.setenv("SHEPHERD_CONFIG", str(tmp_path / "config.json"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    settings = {
        "model": str(scripted_model),
        "memory_database": str(tmp_path / "memory.db"),
        "memory_extraction": True,
        "user_id": "steve",
    }

    with pytest.raises(UsageError) as caught:
        Session(Config(**{**settings, name: value}), warn=lambda text, hint: None)

    assert name in f"{caught.value} {caught.value.hint}"
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    assert list(folder.iterdir()) == []


def test_facts_are_learned_here_from_what_a_remote_model_is_told(new_session, upstream):
    session = new_session("friend")
    ask(session, "My name is Steve.")

    assert session.assistant.extraction is not None
    assert session.assistant.extraction.flush(60)
    assert session.assistant.memory.get_all_facts("steve")


def test_longest_answer_is_the_providers_own_unless_one_was_asked_for(new_session, upstream):
    ProviderTable().set("friend", "max_tokens", "4096")
    session = new_session("far", max_tokens=512)
    ask(session, "hello")
    session.switch("friend")
    ask(session, "hello")
    screen = Screen(io.StringIO(), io.StringIO())
    change_setting(Chat(session.assistant, screen, session=session), "max_tokens 16")
    ask(session, "hello")
    session.switch("far")
    session.switch("friend")
    ask(session, "hello")

    assert [asked.body["max_tokens"] for asked in upstream.asked] == [512, 4096, 16, 16]


def test_a_full_window_lets_the_oldest_turns_go_here_too(new_session, upstream):
    ProviderTable().set("far", "window", "400")
    upstream.script[:] = [says("ok")]
    session = new_session("far", max_tokens=50)

    for number in range(8):
        ask(session, f"{number} " + "word " * 60)

    texts = [m["content"] for m in upstream.asked[-1].body["messages"][1:]]
    assert texts[-1].startswith("7 ")
    assert not any(text.startswith("0 ") for text in texts)


def test_what_the_server_says_of_its_window_is_heeded_in_the_next_turn(new_session, upstream):
    session = new_session("far", max_tokens=50)
    told = {
        "message": "maximum context length is 400 tokens, you sent 500",
        "code": "context_length_exceeded",
    }
    upstream.script[:] = [says("ok")]
    for number in range(3):
        ask(session, f"{number} " + "word " * 60)
    upstream.script[:] = [refuses(400, told), says("ok")]

    with pytest.raises(UsageError):
        ask(session, "3 " + "word " * 60)

    assert ask(session, "3 " + "word " * 60).answer == "ok"
    assert len(upstream.asked[-1].body["messages"]) < 8


def test_server_whose_window_is_too_small_for_what_a_tool_found_is_asked_again(new_session, upstream):
    session = new_session("friend", memory_extraction=False, memory_tools=True, max_tokens=50)
    for number in range(20):
        session.assistant.memory.store_memory(f"dog {number}", "a long answer " * 40, "steve")
    arguments = json.dumps({"query": "dog", "limit": 20})
    call = {"index": 0, "id": "c1", "type": "function"}
    call["function"] = {"name": "search_memory", "arguments": arguments}
    told = {
        "message": "maximum context length is 2000 tokens, you sent 3000",
        "code": "context_length_exceeded",
    }
    upstream.script[:] = [says({"tool_calls": [call]}, reason="tool_calls"), refuses(400, told), says("ok")]

    assert ask(session, "What about my dog?").answer == "ok"

    first, second = (asked.body["messages"][-1]["content"] for asked in upstream.asked[-2:])
    assert len(second) < len(first)
    assert "cut" in json.loads(second)
    assert [m.role for m in session.assistant.history] == ["user", "assistant", "tool", "assistant"]


def test_provider_at_the_prompt_lists_and_switches(new_session, upstream):
    out, err = io.StringIO(), io.StringIO()
    session = new_session()
    chat = Chat(session.assistant, Screen(out, err), session=session)

    assert chat.message_of("/provider") is None
    assert chat.message_of("/provider far other-model") is None
    ask(session, "hello")

    assert out.getvalue().splitlines() == ["* local", "  far", "  friend", "  other"]
    assert "far answers from now on: other-model" in err.getvalue()
    assert "nothing is recalled or stored" in err.getvalue()
    assert upstream.asked[-1].body["model"] == "other-model"


def test_with_entity_extraction_the_model_reads_what_was_said_for_whom_it_names(new_session, tmp_path):
    found = (
        '{"entities": [{"name": "Anna", "type": "person", "attributes": {"location": "Wien"},'
        ' "relations": [{"relation": "sister of", "target": "user"}]}]}'
    )
    path = tmp_path / "finder.gguf"
    models.scripted(path, [found[i : i + 37] for i in range(0, len(found), 37)])
    session = new_session(entity_extraction=True, context_entities=True, max_tokens=8, model_trial=False)
    session.switch("local", str(path))
    list(session.assistant.ask("Meine Schwester Anna arbeitet in Wien."))
    assert session.access.reader.wait(60)

    *_, finished = session.assistant.ask("Wer ist Anna?")

    assert "• Anna (Person)\n  location: Wien" in finished.injection.tail


def test_settings_at_the_prompt_are_written_as_in_the_file(new_session):
    out, err = io.StringIO(), io.StringIO()
    session = new_session()
    chat = Chat(session.assistant, Screen(out, err), session=session)

    chat.message_of("/config")
    chat.message_of("/config archive_turns off")

    assert "archive_turns          true" in out.getvalue()
    assert "rag_context_injection  auto" in out.getvalue()
    assert err.getvalue().endswith("archive_turns = false in this conversation\n")


def test_forget_at_the_prompt_says_what_was_forgotten(new_session):
    out, err = io.StringIO(), io.StringIO()
    session = new_session()
    memory = session.assistant.memory
    assert memory is not None
    memory.store_memory("Which editor?", "Helix")
    memory.set_fact("name", "Steve")
    chat = Chat(session.assistant, Screen(out, err), session=session)

    chat.message_of("/memory")
    chat.message_of("/forget 1")
    chat.message_of("/forget name")

    assert err.getvalue() == (
        "forgotten: Which editor?\nthe fact name is forgotten; it was Steve\n"
        "To restore it: /facts set name Steve\n"
        "its history still has it. To delete that too: shepherd facts clear name --history\n"
    )
    assert memory.count_memories() == 0
    assert memory.get_all_facts() == []


def test_private_is_switched_by_its_word_and_without_one(new_session):
    session = new_session()
    chat = Chat(session.assistant, Screen(io.StringIO(), io.StringIO()), session=session)
    seen = []

    for line in ("/private off", "/private on", "/private on", "/private", "/private"):
        chat.message_of(line)
        seen.append(session.assistant.private)
    with pytest.raises(UsageError, match="usage: /private"):
        chat.message_of("/private maybe")

    assert seen == [False, True, True, False, True]


def test_why_names_the_trace_of_the_turn_unless_it_was_private(new_session):
    out, err = io.StringIO(), io.StringIO()
    session = new_session()
    chat = Chat(session.assistant, Screen(out, err), session=session)

    chat.message_of("/why")
    ask(session, "hello")
    chat.message_of("/why")
    chat.message_of("/private on")
    chat.message_of("/why")

    said = err.getvalue()
    assert said.startswith("nothing has been answered yet\n")
    assert said.count(f"all of it: shepherd trace tree {session.assistant.session_id}/0") == 1
    assert "the whole prompt: " in out.getvalue()


BUNDLED = "on, with shepherd-mini, the bundled model"
ENDPOINT = {"memory_extraction_endpoint": "http://user:pw@127.0.0.1:9/v1"}
OFF = "off: memory_extraction is false"
UNUSED = "off: the memory is not used here"


# The table in docs/explanation/learning.md.
@pytest.mark.parametrize("extraction", ["auto", True])
@pytest.mark.parametrize(
    ("provider", "settings", "state"),
    [
        ("", {"model": "shepherd-mini"}, BUNDLED),
        ("", {}, "on, with scripted, the model of the chat"),
        ("friend", {}, BUNDLED),
        ("", {"model": "shepherd-mini", **ENDPOINT}, "on, with its default model, a model at 127.0.0.1"),
        ("", ENDPOINT, "on, with its default model, a model at 127.0.0.1"),
        ("friend", {**ENDPOINT, "memory_extraction_model": "big"}, "on, with big, a model at 127.0.0.1"),
        ("", {"memory_extraction_model": "shepherd-mini"}, BUNDLED),
        ("friend", {"memory_extraction_model": "shepherd-mini"}, BUNDLED),
        ("far", {}, UNUSED),
        ("far", {**ENDPOINT, "memory_extraction_model": "big"}, UNUSED),
        ("other", {}, UNUSED),
    ],
)
def test_learning_is_on_wherever_the_memory_is_used(new_session, provider, settings, state, extraction):
    session = new_session(provider, memory_extraction=extraction, **settings)

    assert _without_name(session.assistant.learning.in_words()) == state
    assert (session.assistant.extraction is not None) == state.startswith("on")


@pytest.mark.parametrize(
    "settings", [{}, ENDPOINT, {"model": "shepherd-mini"}, {"memory_extraction_model": "shepherd-mini"}]
)
@pytest.mark.parametrize("provider", ["", "friend"])
def test_learning_is_off_where_it_was_turned_off(new_session, provider, settings):
    session = new_session(provider, memory_extraction=False, **settings)

    assert session.assistant.learning.in_words() == OFF
    assert session.assistant.extraction is None


def test_nothing_is_learned_of_somebody_unknown_and_without_memory(new_session):
    unknown = new_session("", user_id="unknown")
    without = new_session("", memory=False)

    assert unknown.assistant.extraction is without.assistant.extraction is None
    assert unknown.assistant.learning.in_words().startswith("off: it is not known who you are")
    assert without.assistant.learning.in_words() == UNUSED


def test_endpoint_learns_for_a_remote_provider_with_the_full_instructions(new_session):
    with running_endpoint(answers=[learned({"name": "Steve"})]) as server:
        session = new_session("friend", memory_extraction_endpoint=server.url, memory_extraction_model="m")
        ask(session, "My name is Steve.")

        assert session.assistant.extraction.flush(60)
    assert [fact.value for fact in session.assistant.memory.get_all_facts("steve")] == ["Steve"]
    assert [request.body["messages"][0]["content"] for request in server.requests] == [INSTRUCTIONS]


def _without_name(words: str) -> str:
    """Return the words with one name for the test's own model, whatever its file is called."""
    return re.sub(r"with [\w.-]+, the model of", "with scripted, the model of", words)
