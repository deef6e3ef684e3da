"""A conversation on the screen: what is typed, what comes of it, and how it is stopped."""

from __future__ import annotations

import asyncio

import pytest
from textual import events

from shepherd.cli.tui import preparing
from shepherd.config.file import load
from shepherd.tui.conversation import Prepared
from shepherd.tui.prompt import Prompt

ANSWER = "Hello, I am a shepherd. Café is open today!"


def test_it_remembers_and_shows_what_it_remembered(perform, memory):
    memory.set_fact("name", "Steve")

    async def play(stage):
        await stage.say("What is my name?")

        text = stage.text()
        assert "recalled 1 fact: name=Steve" in text
        assert "Your name is Steve" in text
        assert any("name = Steve" in option for option in stage.options("#remembered"))
        assert "reused" in text
        assert "memory on" in text

    perform(play)


def test_a_file_that_a_message_names_is_attached(perform, memory, home, monkeypatch):
    (home / "lease.md").write_text("The lease ends on 31 August 2027.\n")
    monkeypatch.chdir(home)  # a long path would break what is looked for into two lines

    async def play(stage):
        await stage.say("When does the lease in @lease.md end?")
        assert "attached: lease.md" in stage.text()
        assert "31 August 2027" in stage.text()
        await stage.type("And in @rent.md?")
        await stage.shows("there is no such file")

    perform(play, prepare=preparing(load().config))

    said = [one.raw for one in memory.load_session() if one.role == "user"]
    assert said == ["When does the lease in @lease.md end?"]


def test_an_answer_is_streamed_and_escape_stops_it(perform, endless_model, monkeypatch):
    monkeypatch.setenv("SHEPHERD_MAX_TOKENS", "0")
    monkeypatch.setenv("SHEPHERD_N_CTX", "65536")

    async def play(stage):
        for key in ("escape", "ctrl+c"):
            await stage.ready()
            await stage.type("hello")
            await stage.shows("answering · esc stops")
            await stage.pilot.press(key)
            await stage.ready()
            assert "stopped" in stage.text()
        assert len(stage.app.screen.query("Said")) == 2

    app = perform(play, endless_model)

    assert app.failure is None


def test_escape_before_the_answer_has_begun_stops_it(perform, endless_model, monkeypatch):
    monkeypatch.setenv("SHEPHERD_MAX_TOKENS", "500")
    apps = []

    def prepare(assistant, message):
        apps[0].conversation.cancel()  # as Esc does, while the files of a message are read
        return Prepared(message)

    async def play(stage):
        apps.append(stage.app)
        await stage.say("hello")
        assert "stopped" in stage.text()
        assert stage.app.chat_state.last.stats.generated_tokens < 500

    perform(play, endless_model, prepare=prepare)


def test_a_second_message_waits_at_the_prompt_while_an_answer_comes(perform, endless_model, monkeypatch):
    monkeypatch.setenv("SHEPHERD_MAX_TOKENS", "0")
    monkeypatch.setenv("SHEPHERD_N_CTX", "65536")

    async def play(stage):
        await stage.type("hello")
        await stage.shows("answering · esc stops")
        await stage.type("and more")

        await stage.shows("not sent")
        assert stage.app.screen.query_one(Prompt).text == "and more"
        await stage.pilot.press("escape")
        await stage.ready()

    perform(play, endless_model)


def test_what_is_typed_while_the_model_loads_is_answered(perform, scripted_model):
    async def play(stage):
        await stage.type("hello")
        await stage.shows(ANSWER)

    perform(play, scripted_model)


def test_conversation_is_read_while_a_message_is_written(perform, scripted_model):
    async def play(stage):
        def reading():
            return stage.app.conversation._assistant._ahead.reading

        await stage.say("hello")
        await stage.type("/hel", enter=False)
        await stage.pilot.press("ctrl+c")
        assert reading() is None
        await stage.type("and more", enter=False)
        await stage.until(reading, "what is read ahead")
        await stage.pilot.press("enter")
        await stage.ready()

        assert reading() is None
        assert ANSWER in stage.text()

    perform(play, scripted_model)


def test_ctrl_c_clears_the_prompt_and_twice_ends_the_program(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        await stage.type("not this", enter=False)
        await stage.pilot.press("ctrl+c")
        assert stage.app.screen.query_one(Prompt).text == ""
        await stage.pilot.press("ctrl+c")
        await stage.shows("once more")
        assert stage.app.is_running
        await stage.pilot.press("ctrl+c")
        await stage.until(lambda: not stage.app.is_running, "the end")

    app = perform(play, scripted_model)

    assert app.return_code == 0


def test_lines_begin_by_ctrl_j_alt_enter_and_a_backslash(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        await stage.type("one", enter=False)
        await stage.pilot.press("ctrl+j")
        await stage.type("two", enter=False)
        await stage.pilot.press("alt+enter")
        await stage.type("three\\")
        await stage.say("four")

    app = perform(play, scripted_model)

    assert app.conversation.said[0].raw == "one\ntwo\nthree\nfour"


def test_keys_that_come_at_once_are_worked_on_in_their_order(perform, scripted_model):
    async def play(stage):
        await stage.ready()

        for key in ("a", "b", "backspace", "c", "left", "d", "home", "e"):
            stage.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await stage.until(lambda: "e" in stage.app.screen.query_one(Prompt).text, "the last key")

        assert stage.app.screen.query_one(Prompt).text == "eadc"

    perform(play, scripted_model)


def test_lines_come_back_and_private_ones_only_while_it_runs(perform, scripted_model):
    async def first(stage):
        await stage.say("an open line")
        await stage.pilot.press("f6")
        await stage.until(lambda: stage.app.chat_state.private, "private")
        await stage.say("a private line")
        await stage.pilot.press("up")
        assert stage.app.screen.query_one(Prompt).text == "a private line"

    async def second(stage):
        await stage.ready()
        await stage.until(lambda: stage.app.screen.query_one(Prompt).past, "the history")
        assert stage.app.screen.query_one(Prompt).past == ["an open line"]
        await stage.pilot.press("up")
        assert stage.app.screen.query_one(Prompt).text == "an open line"
        await stage.pilot.press("down")
        assert stage.app.screen.query_one(Prompt).text == ""

    perform(first, scripted_model)
    perform(second, scripted_model)


def test_private_is_seen_and_nothing_is_kept(perform, scripted_model, memory):
    memory.set_fact("name", "Steve")

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f6")
        await stage.shows("private: nothing is recalled")
        await stage.say("My dog is called Rex")
        assert "Memory is not used" in stage.text()
        assert "name=Steve" not in stage.text()

    perform(play, scripted_model)

    assert memory.count_memories() == 0


def test_commands_are_those_of_the_other_prompt(perform, scripted_model, memory):
    async def play(stage):
        await stage.say("/facts name Steve")
        await stage.say("/facts")
        assert "name = Steve" in stage.text()
        await stage.say("/memroy")
        assert "did you mean /memory" in stage.text()
        await stage.say("//etc")
        await stage.shows("/etc")

    app = perform(play, scripted_model)

    assert memory.get_fact("name") == "Steve"
    assert [message.raw for message in app.conversation.said] == ["/etc", ANSWER]


def test_tab_completes_a_command_and_the_choices_are_listed(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        await stage.type("/me", enter=False)
        await stage.shows("/memory [WORDS]")
        await stage.pilot.press("tab")
        assert stage.app.screen.query_one(Prompt).text == "/memory "

    perform(play, scripted_model)


def test_undo_takes_the_last_exchange_from_the_screen_and_clear_all(perform, scripted_model):
    async def play(stage):
        await stage.say("first")
        await stage.say("second")
        await stage.say("/undo")
        assert "second" not in stage.text()
        assert "first" in stage.text()
        await stage.say("/clear")
        assert ANSWER not in stage.text()

    perform(play, scripted_model)


def test_another_conversation_takes_the_place_of_this_one(perform, scripted_model, memory):
    async def play(stage):
        await stage.say("about tomatoes")
        await stage.say("/clear")
        await stage.say("about taxes")
        await stage.say("/conversations tomatoes")
        await stage.shows("1  about tomatoes")
        await stage.say("/continue 1")
        await stage.shows("continued after 1 exchange: about tomatoes")
        assert "about taxes" not in stage.text()
        await stage.say("and now?")

    app = perform(play, scripted_model)

    assert [message.raw for message in app.conversation.said[::2]] == ["about tomatoes", "and now?"]
    assert [one.n_messages for one in memory.list_sessions()] == [4, 2]


def test_a_line_that_is_undone_does_not_come_back(perform, scripted_model):
    async def first(stage):
        await stage.say("an open line")
        await stage.say("a regretted line")
        await stage.say("/undo")
        assert stage.app.screen.query_one(Prompt).past == ["an open line", "/undo"]

    async def second(stage):
        await stage.ready()
        await stage.until(lambda: stage.app.screen.query_one(Prompt).past, "the history")
        assert stage.app.screen.query_one(Prompt).past == ["an open line", "/undo"]

    perform(first, scripted_model)
    perform(second, scripted_model)


def test_edit_asks_in_a_dialog(perform, scripted_model, memory):
    memory.store_memory("Which IDE?", "Emacs")

    async def play(stage):
        await stage.say("/memory")
        await stage.type("/edit 1")
        await stage.shows("question")
        await stage.pilot.press("tab", "space", "v", "i")
        await stage.pilot.press("ctrl+s")
        await stage.shows("changed")

    perform(play, scripted_model)

    assert memory.list_memories()[0].answer == "Emacs vi"


@pytest.mark.parametrize(("key", "is_allowed"), [("y", True), ("escape", False)])
def test_the_user_is_asked_before_a_tool_changes_something(perform, scripted_model, key, is_allowed):
    async def play(stage):
        await stage.ready()
        asking = asyncio.create_task(
            asyncio.to_thread(stage.app.conversation.confirm, "remove_file", {"path": "notes.md"})
        )
        await stage.shows("remove_file can change something. Allow it?")
        assert '"path": "notes.md"' in stage.text()
        await stage.pilot.press(key)
        assert await asking is is_allowed

    perform(play, scripted_model)


def test_what_a_tool_would_be_called_with_is_shown_to_its_end(perform, scripted_model):
    lines = [f"line {number}" for number in range(60)]

    async def play(stage):
        await stage.ready()
        arguments = {"lines": lines, "path": "/home/steve/[b]notes[/b]"}
        asking = asyncio.create_task(
            asyncio.to_thread(stage.app.conversation.confirm, "write_file", arguments)
        )
        await stage.shows("write_file can change something. Allow it?")
        assert "line 59" not in stage.text()
        assert "Allow  y" in stage.text()
        for _ in range(10):
            await stage.pilot.press("pagedown")
        await stage.shows('"path": "/home/steve/[b]notes[/b]"')
        assert "line 59" in stage.text()
        await stage.pilot.press("y")
        assert await asking is True

    perform(play, scripted_model, size=(80, 24))


def test_control_d_deletes_what_is_behind_the_cursor_and_quits_where_nothing_is(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        await stage.type("abc", enter=False)
        await stage.pilot.press("home", "ctrl+d")
        prompt = stage.app.screen.query_one(Prompt)
        assert prompt.text == "bc"
        await stage.pilot.press("end", "ctrl+d")
        assert (prompt.text, stage.app.is_running) == ("bc", True)
        await stage.pilot.press("backspace", "backspace", "ctrl+d")
        await stage.until(lambda: not stage.app.is_running, "the end")

    app = perform(play, scripted_model)

    assert app.failure is None


def test_quit_ends_it_and_the_next_one_continues(perform, scripted_model):
    async def first(stage):
        await stage.say("hello")
        await stage.type("/quit")
        await stage.until(lambda: not stage.app.is_running, "the end")

    async def second(stage):
        await stage.ready()
        await stage.shows(ANSWER)

    perform(first, scripted_model)
    app = perform(second, scripted_model, resume="")

    assert [message.raw for message in app.conversation.said] == ["hello", ANSWER]


def test_control_characters_of_a_memory_do_not_reach_the_terminal(perform, scripted_model, memory):
    memory.set_fact("name", "Steve\x1b]0;title\x07")

    async def play(stage):
        await stage.say("what is my name")

        assert "\x1b" not in stage.text()
        assert "\x07" not in stage.text()
        assert "Steve\N{REPLACEMENT CHARACTER}" in stage.text()

    perform(play, scripted_model)


def test_a_model_that_cannot_be_loaded_ends_it_with_the_error(perform, tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model")

    async def play(stage):
        await stage.until(lambda: not stage.app.is_running, "the end")

    app = perform(play, bad)

    assert "bad.gguf" in str(app.failure)


def test_a_turn_that_fails_is_told_and_the_next_one_works(perform, scripted_model, monkeypatch):
    monkeypatch.setenv("SHEPHERD_N_CTX", "700")

    async def play(stage):
        await stage.ready()
        stage.app.screen.query_one(Prompt).load_text("word " * 2000)
        await stage.pilot.press("enter")
        await stage.shows("window")
        await stage.say("hello")
        await stage.shows(ANSWER)

    perform(play, scripted_model)
