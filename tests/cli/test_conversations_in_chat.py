"""/conversations, /continue, /rename and /save, and which conversations still say what was forgotten."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.assistant import Assistant
from shepherd.commands.conversations import conversation_named, short_id, still_said, title_in_words
from shepherd.commands.screen import Screen
from shepherd.commands.slash import Chat
from shepherd.config import Config
from shepherd.errors import ShepherdError
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.types import Message


@pytest.fixture(scope="module")
def engine(scripted_model) -> Iterator[Engine]:
    with Engine(scripted_model, settings=EngineSettings(n_ctx=2048, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def chat(tmp_path, engine, monkeypatch) -> Iterator[Chat]:
    monkeypatch.chdir(tmp_path)
    config = Config(max_tokens=64, context_entities=False, temperature=0.0)
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        assistant = Assistant(engine, memory, user_id="steve", config=config)
        yield Chat(assistant, Screen(io.StringIO(), io.StringIO()))


def run(chat: Chat, line: str) -> tuple[str, str]:
    """What a line writes to stdout and stderr; an error as `message | hint`."""
    chat.screen.out, chat.screen.err = io.StringIO(), io.StringIO()
    try:
        assert chat.message_of(line) is None
    except ShepherdError as error:
        return "", f"{error} | {error.hint}"
    return chat.screen.out.getvalue(), chat.screen.err.getvalue()


def talk(memory: Memory, *said: str, user: str = "steve") -> str:
    session = memory.start_session(user, "tiny")
    for number, text in enumerate(said):
        memory.append_message(session, Message("assistant" if number % 2 else "user", text), user)
    return session


def test_single_questions_have_no_numbers_but_are_found(chat):
    alone = chat.memory.start_session("steve", is_one_off=True)
    chat.memory.append_message(alone, Message("user", "about ships"), "steve")
    only = "no conversations except 1 single question; /conversations WORDS finds it\n"
    assert run(chat, "/conversations") == ("", only)
    conversation = talk(chat.memory, "about boats", "Nice.")

    out, err = run(chat, "/conversations")

    assert out.startswith("  1  about boats\n")
    assert short_id(alone) not in out
    assert err.endswith("\n1 single question is not listed; /conversations WORDS finds it, too\n")
    assert short_id(alone) in run(chat, "/conversations ship")[0]
    chat.conversations = []
    run(chat, "/continue 1")
    assert chat.assistant.session_id == conversation


def test_the_latest_conversations_are_listed_with_their_numbers(chat):
    assert run(chat, "/conversations") == ("", "no conversation is stored yet\n")
    assert run(chat, "/conversations boat") == ("", "no conversation contains these words\n")
    ids = [talk(chat.memory, f"about boat {n}", "Nice.") for n in range(11)]

    out, err = run(chat, "/conversations")
    lines = out.splitlines()
    assert len(lines) == 20
    assert lines[0] == "  1  about boat 10"
    assert lines[1] == f"     {short_id(ids[10])} \N{MIDDLE DOT} just now \N{MIDDLE DOT} 2 messages"
    assert lines[18].startswith(" 10  ")
    assert err == "the latest 10 of 11; /continue NUMBER continues one, /conversations WORDS searches\n"
    assert chat.conversations == ids[:0:-1]

    out, err = run(chat, "/conversations boat 3")
    assert out.splitlines()[0] == "  1  about boat 3"
    assert err == "/continue NUMBER continues one, /conversations WORDS searches\n"
    assert run(chat, "/conversations boat")[1].startswith("the latest 10 of 11; ")


def test_a_conversation_is_continued_by_number_id_or_title(chat):
    first = talk(chat.memory, "about boats", "Nice.", "and sails", "Fine.")
    second = talk(chat.memory, "about 7 dogs", "Nice.")
    usage = "usage: /continue NUMBER|ID|TITLE | /conversations shows the numbers"
    assert run(chat, "/continue") == ("", usage)

    chat.listed = [1]
    assert run(chat, "/continue 2") == ("", "continued after 2 exchanges: about boats\n")
    assert chat.assistant.session_id == first
    assert chat.listed == []
    assert run(chat, "/continue 7") == ("", "continued after 1 exchange: about 7 dogs\n")
    assert run(chat, "/continue 0")[1].startswith("there is no conversation '0'")
    assert run(chat, f"/continue {first[:4]}")[1] == "continued after 2 exchanges: about boats\n"
    assert run(chat, "/continue nowhere") == (
        "",
        "there is no conversation 'nowhere' | /conversations lists them",
    )
    assert "this conversation" in run(chat, "/conversations boats")[0]
    assert "this conversation" not in run(chat, "/conversations dogs")[0]
    # The numbers are those of the last list.
    assert run(chat, "/continue 1")[1].endswith(": about 7 dogs\n")
    assert chat.assistant.session_id == second


def test_a_conversation_is_renamed_once_it_is_stored(chat):
    nothing = "nothing of this conversation is stored yet | rename it after an answer"
    assert run(chat, "/rename Boats") == ("", nothing)
    talk(chat.memory, "about boats", "Nice.")
    run(chat, "/continue 1")

    assert run(chat, "/rename  My boats ") == ("", "renamed: My boats\n")
    assert [one.title for one in chat.memory.list_sessions("steve")] == ["My boats"]
    assert run(chat, "/rename")[1] == "the title is the beginning of the first message again\n"
    assert [one.title for one in chat.memory.list_sessions("steve")] == ["about boats"]


def test_a_conversation_is_saved_as_markdown_or_json(chat, tmp_path):
    assert run(chat, "/save") == ("", "nothing has been said yet\n")
    talk(chat.memory, "about Bäume ", "Nice.")
    run(chat, "/continue 1")

    assert run(chat, "/save talk.md") == ("", "2 messages saved in talk.md\n")
    said = Path("talk.md").read_text("utf-8")
    assert said == "## You\n\nabout Bäume\n\n## Assistant\n\nNice.\n"
    assert run(chat, "/save talk.json")[1] == "2 messages saved in talk.json\n"
    messages = [
        {"role": "user", "content": "about Bäume "},
        {"role": "assistant", "content": "Nice."},
    ]
    written = Path("talk.json").read_text("utf-8")
    assert written == json.dumps({"messages": messages}, ensure_ascii=False, indent=2) + "\n"
    assert Path("talk.json").stat().st_mode & 0o777 == 0o600
    assert "talk.md" in run(chat, "/save talk.md")[1]  # it exists, and is kept
    assert Path("talk.md").read_text("utf-8") == said
    name = run(chat, "/save")[1].split()[-1]
    assert Path(name).read_text("utf-8") == said


def test_a_name_is_an_id_a_title_or_words_of_one_title(chat):
    memory = chat.memory
    boats, dogs = talk(memory, "About Boats"), talk(memory, "about dogs", "Cats, too.")
    other = talk(memory, "about birds", user="ben")

    for name in (boats, boats[:4], boats[:8].upper(), "  about   boats ", "BOATS"):
        assert conversation_named(memory, name, "steve").id == boats
    assert conversation_named(memory, "birds", "ben").id == other
    with pytest.raises(ShepherdError, match="there is no conversation") as caught:
        conversation_named(memory, boats[:3], "steve")
    assert caught.value.hint == "shepherd conversations list --all shows all conversations"
    with pytest.raises(ShepherdError, match="2 conversations match 'about'") as caught:
        conversation_named(memory, "about", "steve")
    _, *lines = caught.value.hint.split("\n")
    assert [line.split()[0] for line in lines] == [short_id(dogs), short_id(boats)]
    assert [line.split("  ")[-1] for line in lines] == ["about dogs", "About Boats"]
    with pytest.raises(ShepherdError, match="there is no conversation 'boats'"):
        conversation_named(memory, "boats", "steve", in_title=False)
    with pytest.raises(ShepherdError, match="there is no conversation 'cats'") as caught:
        conversation_named(memory, "cats", "steve")
    head, line = caught.value.hint.split("\n")
    assert head == "no title has these words, but these conversations contain them; use the id of one:"
    assert line.startswith(f"  {short_id(dogs)}  ")
    with pytest.raises(ShepherdError, match="there is no conversation ' '"):
        conversation_named(memory, " ", "steve")


def test_a_conversation_without_text_is_named_by_its_day(chat):
    talk(chat.memory, "")
    [one] = chat.memory.list_sessions("steve")

    assert title_in_words(one).startswith("conversation of 20")


def test_conversations_that_still_say_it_are_named_with_the_command(chat):
    memory = chat.memory
    assert still_said(memory, ["Rex"], "steve") == ""
    one = talk(memory, "my dog is Rex", "Nice.")
    delete = f"  shepherd conversations delete {short_id(one)}"

    assert still_said(memory, ["", " Rex ", "Rex"], "steve", current="x") == (
        f"1 conversation still contains these words. To delete it, run\n{delete}"
    )
    assert still_said(memory, [" "], "steve") == ""
    assert still_said(memory, ["Rex"], "steve", current=one) == (
        f"this conversation still contains these words. To delete it, use /clear, and run\n{delete}"
    )
    two = talk(memory, "Rex again")
    found = f"  shepherd conversations delete {short_id(two)} {short_id(one)}"
    assert still_said(memory, ["Rex"], "steve", current=two) == (
        f"2 conversations still contain these words. To delete them, use /clear, and run\n{found}"
    )
    for number in range(8):
        talk(memory, f"Rex {number}")
    assert still_said(memory, ["Rex"], "steve").startswith("10 conversations still contain these words. ")
    talk(memory, "Rex, the last")
    many = still_said(memory, ["Rex"], "steve")
    assert many.startswith("more than 10 conversations still contain these words. To delete the latest, run")
    assert len(many.splitlines()[1].split()) == 3 + 10
