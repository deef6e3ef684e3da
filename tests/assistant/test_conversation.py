"""A conversation over turns and processes: undo, clear, continue, and a memory that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from shepherd.assistant import Assistant, Finished, Warned
from shepherd.canary import WordSearch
from shepherd.config import Config
from shepherd.errors import ShepherdError, StoreLockedError, UsageError
from shepherd.memory import Memory
from shepherd.turn.components import ModelAccess

ANSWER = "Hello, I am a shepherd. Café is open today!"


def ask(assistant, text):
    events = list(assistant.ask(text))
    assert isinstance(events[-1], Finished)
    return events


def raws(messages):
    return [message.raw for message in messages]


def test_undo_takes_the_exchange_back_everywhere(new_assistant, memory):
    assistant = new_assistant()
    ask(assistant, "first thing")
    ask(assistant, "My favourite editor is Helix")

    assert assistant.undo() == "My favourite editor is Helix"

    assert raws(assistant.history) == ["first thing", ANSWER]
    assert raws(memory.load_session()) == ["first thing", ANSWER]
    assert [record.question for record in memory.list_memories()] == ["first thing"]


def test_undo_leaves_a_memory_that_was_there_before(new_assistant, memory):
    memory.store_memory("My favourite editor is Helix", ANSWER, timestamp=1_000_000_000)
    assistant = new_assistant()
    ask(assistant, "My favourite editor is Helix")

    assistant.undo()

    assert memory.count_memories() == 1


@pytest.mark.parametrize("change", ["undo", "clear", "resume"])
def test_conversation_cannot_be_changed_during_an_answer(new_assistant, memory, change):
    assistant = new_assistant()
    ask(assistant, "first thing")
    turn = assistant.ask("My favourite editor is Helix")
    next(turn)

    with pytest.raises(UsageError, match="busy with an answer"):
        getattr(assistant, change)()
    list(turn)

    assert raws(assistant.history) == ["first thing", ANSWER, "My favourite editor is Helix", ANSWER]
    assert raws(memory.load_session()) == raws(assistant.history)


def test_open_memory_names_the_user(engine, tmp_path):
    with Memory(tmp_path / "both.db", user_id="anna") as anna, Memory(anna.path, user_id="bob") as bob:
        assistants = [Assistant(engine, anna), Assistant(ModelAccess(engine, bob))]
        for assistant in assistants:
            ask(assistant, "My favourite editor is Helix")

        assert [assistant.user_id for assistant in assistants] == ["anna", "bob"]
        assert (
            raws(anna.load_session()) == raws(bob.load_session()) == ["My favourite editor is Helix", ANSWER]
        )
        assert Assistant(engine, anna, config=Config(user_id="carl")).user_id == "carl"
        assert Assistant(engine, anna, config=Config(user_id="carl"), user_id="dora").user_id == "dora"


def test_what_is_opened_here_follows_the_settings(scripted_model, tmp_path):
    config = Config(model=str(scripted_model), n_ctx=320, rag_max_results=1, memory_extraction_secrets=True)
    with Assistant(memory=tmp_path / "own.db", config=config, user_id="anna") as assistant:
        memory = assistant.memory

        assert (str(assistant.engine.model.path), assistant.engine.window_tokens) == (
            str(scripted_model),
            320,
        )
        assert (memory.user_id, memory.max_results, memory.keeps_secrets) == ("anna", 1, True)
        assert "Session" in assistant.learning.remedy
    with pytest.raises(UsageError, match="opens no provider"):
        Assistant(config=Config(provider="openai"))


def test_undo_of_nothing_is_nothing(new_assistant):
    assert new_assistant().undo() is None


def test_clear_begins_a_new_conversation_and_keeps_what_is_remembered(new_assistant, memory):
    assistant = new_assistant()
    ask(assistant, "My favourite editor is Helix")
    first = assistant.session_id

    assistant.clear()
    ask(assistant, "hello")

    assert raws(assistant.history) == ["hello", ANSWER]
    assert assistant.session_id != first
    assert memory.count_memories() >= 1
    assert raws(memory.load_session(first)) == ["My favourite editor is Helix", ANSWER]


def test_a_conversation_goes_on_in_another_process(new_assistant, memory, tmp_path):
    memory.set_fact("name", "Steve")
    first = new_assistant()
    ask(first, "one")
    ask(first, "two")

    with Memory(tmp_path / "memory.db", user_id="steve") as reopened:
        second = new_assistant(memory=reopened)
        assert second.resume() == 2
        ask(second, "three")

    assert raws(second.history) == ["one", ANSWER, "two", ANSWER, "three", ANSWER]
    assert [m.sent for m in second.history[:4]] == [m.sent for m in first.history]
    assert [m.token_ids for m in second.history[:4]] == [m.token_ids for m in first.history]
    assert [bool(m.injected) for m in second.history] == [True, False, True, False, True, False]
    assert raws(memory.load_session()) == raws(second.history)


def test_a_continued_conversation_has_the_very_same_prompt(new_assistant, engine, memory):
    first = new_assistant(archive_turns=False)
    ask(first, "one")
    second = new_assistant(archive_turns=False)
    second.resume()

    stats_of_first = ask(first, "two")[-1].stats
    second_stats = ask(second, "two")[-1].stats

    assert second_stats.prompt_tokens == stats_of_first.prompt_tokens
    assert second_stats.decoded_tokens <= 1  # one token is always decoded, for its logits


def test_a_conversation_can_be_continued_with_another_model(new_assistant, endless_engine):
    """Its token ids mean nothing to the other vocabulary, its text does."""
    ask(new_assistant(archive_turns=False), "one")
    second = new_assistant(engine=endless_engine, max_tokens=5, archive_turns=False)
    second.resume()
    fresh = new_assistant(engine=endless_engine, max_tokens=5, archive_turns=False)
    fresh.resume()
    for exchange in fresh._exchanges:
        exchange.answer.token_ids = ()

    answers = [ask(assistant, "two")[-1].answer for assistant in (second, fresh)]

    assert answers[0] == answers[1]


def test_a_conversation_is_continued_by_its_id(new_assistant, memory):
    first = new_assistant()
    ask(first, "one")
    ask(new_assistant(), "two")
    third = new_assistant()

    assert third.resume(first.session_id) == 1
    ask(third, "three")

    assert raws(memory.load_session(first.session_id)) == ["one", ANSWER, "three", ANSWER]
    with pytest.raises(UsageError, match="no conversation"):
        new_assistant(user_id="mallory").resume(first.session_id)


@pytest.mark.parametrize("table", ["sessions", "session_summaries", "session_entities"])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_conversation_that_cannot_be_read_leaves_the_present_one(new_assistant, memory, table, is_named):
    other = new_assistant(archive_turns=False)
    ask(other, "My name is Ada.")
    assistant = new_assistant(context_entities=True, archive_turns=False, trace_turns=False)
    ask(assistant, "one")
    before = assistant.session_id, assistant.history, assistant.system_prompt
    memory.transactions.write("steve", lambda db: db.execute(f"ALTER TABLE {table} RENAME TO away"))

    with pytest.raises(ShepherdError):
        assistant.resume(other.session_id if is_named else "")

    memory.transactions.write("steve", lambda db: db.execute(f"ALTER TABLE away RENAME TO {table}"))
    assert (assistant.session_id, assistant.history, assistant.system_prompt) == before
    assert not [event for event in ask(assistant, "two") if isinstance(event, Warned)]
    assert raws(memory.load_session(before[0])) == ["one", ANSWER, "two", ANSWER]
    assert raws(memory.load_session(other.session_id)) == ["My name is Ada.", ANSWER]


def test_a_model_whose_entities_cannot_be_read_leaves_the_present_one(new_assistant, engine, memory):
    assistant = new_assistant(context_entities=True, archive_turns=False)
    ask(assistant, "one")
    before = assistant.session_id, assistant.history, assistant.system_prompt
    memory.transactions.write("steve", lambda db: db.execute("ALTER TABLE session_entities RENAME TO away"))

    with engine.sibling(n_ctx=2048) as other:
        with pytest.raises(ShepherdError):
            assistant.switch(ModelAccess(other, memory))

        memory.transactions.write(
            "steve", lambda db: db.execute("ALTER TABLE away RENAME TO session_entities")
        )
        assert assistant.engine is engine
        assert (assistant.session_id, assistant.history, assistant.system_prompt) == before
        assert all(message.token_ids for message in assistant.history[1::2])


def test_nobody_continues_the_conversation_of_another_user(new_assistant):
    ask(new_assistant(), "My secret is 42")

    assert new_assistant(user_id="mallory").resume() == 0


def test_a_question_without_its_answer_is_not_continued(new_assistant, memory):
    """The process died between the two writes."""
    assistant = new_assistant()
    ask(assistant, "one")
    memory.append_message(assistant.session_id, assistant.history[0])

    second = new_assistant()

    assert second.resume() == 1
    assert raws(second.history) == ["one", ANSWER]


def test_there_is_nothing_to_continue_without_memory(new_assistant):
    with pytest.raises(UsageError, match="without memory"):
        new_assistant(memory=None).resume()


def test_private_turns_are_left_out_when_the_conversation_is_continued(new_assistant):
    assistant = new_assistant()
    ask(assistant, "one")
    assistant.private = True
    ask(assistant, "secret")
    assistant.private = False
    ask(assistant, "three")

    second = new_assistant()
    second.resume()

    assert raws(second.history) == ["one", ANSWER, "three", ANSWER]


def test_undo_of_a_private_turn_leaves_the_stored_conversation_alone(new_assistant, memory):
    assistant = new_assistant()
    ask(assistant, "one")
    assistant.private = True
    ask(assistant, "secret")

    assert assistant.undo() == "secret"

    assert raws(memory.load_session()) == ["one", ANSWER]


# -- a memory that fails ----

_HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def impatient(tmp_path) -> Iterator[Memory]:
    """A memory that waits half a second for another's lock, not five."""
    with Memory(tmp_path / "memory.db", user_id="steve", busy_timeout_s=0.5) as opened:
        yield opened


def test_a_locked_database_costs_a_warning_and_not_the_answer(new_assistant, impatient, tmp_path):
    impatient.set_fact("name", "Steve")
    assistant = new_assistant(memory=impatient)
    path = str(tmp_path / "memory.db")
    command = [sys.executable, "-c", _HOLD_LOCK, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"

        events = ask(assistant, "My favourite editor is Helix")
        other.communicate()

    warnings = [event for event in events if isinstance(event, Warned)]
    assert events[-1].answer == ANSWER
    assert events[-1].injection.facts  # reading goes on beside a writer
    assert len(warnings) == 1
    assert path in warnings[0].message
    assert warnings[0].hint
    assert raws(assistant.history) == ["My favourite editor is Helix", ANSWER]

    ask(assistant, "My dog is called Rex")
    assert impatient.count_memories() == 1


def test_undo_that_fails_takes_nothing_back_and_may_be_tried_again(new_assistant, impatient, tmp_path):
    assistant = new_assistant(memory=impatient)
    for text in ("one", "My favourite editor is Helix", "My dog is called Rex"):
        ask(assistant, text)
    command = [sys.executable, "-c", _HOLD_LOCK, str(tmp_path / "memory.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"

        with pytest.raises(StoreLockedError):
            assistant.undo()
        other.communicate()

    assert raws(assistant.history) == raws(impatient.load_session())
    assert assistant.undo() == "My dog is called Rex"
    assert raws(assistant.history) == raws(impatient.load_session())
    assert raws(assistant.history) == ["one", ANSWER, "My favourite editor is Helix", ANSWER]


def test_a_closed_memory_costs_warnings_and_not_the_answer(new_assistant, tmp_path):
    memory = Memory(tmp_path / "other.db", user_id="steve")
    assistant = new_assistant(memory=memory)
    ask(assistant, "one")
    memory.close()

    events = ask(assistant, "My favourite editor is Helix")

    assert events[-1].answer == ANSWER
    assert any(isinstance(event, Warned) for event in events)


def test_a_memory_that_is_only_read_is_not_written_and_does_not_warn(new_assistant, memory, tmp_path):
    memory.set_fact("name", "Steve")
    memory.close()

    with Memory(tmp_path / "memory.db", user_id="steve", read_only=True) as opened:
        events = ask(new_assistant(memory=opened, writes_memory=False), "My favourite editor is Helix")

        assert events[-1].injection.facts
        assert not [event for event in events if isinstance(event, Warned)]
        assert opened.count_memories() == 0


def test_a_code_that_is_not_remembered_is_told_of(new_assistant, memory):
    events = ask(new_assistant(), "If it beeps at night, tell the sitter 6604 and then unset it")

    [warned] = [event for event in events if isinstance(event, Warned)]
    assert "may be a password or code" in warned.message
    [remembered] = memory.list_memories()
    assert "6604" not in remembered.question


def test_words_of_an_undone_exchange_are_in_no_file(new_assistant, memory, tmp_path):
    word = "Quixlemont"
    assistant = new_assistant(context_entities=True)
    list(assistant.ask("Tell me something."))
    list(assistant.ask(f"My friend {word} lives in {word}ville."))
    assert WordSearch(word).in_file(tmp_path / "memory.db-wal")

    assistant.undo()

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if WordSearch(word).in_file(path)] == []
