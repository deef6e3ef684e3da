"""The conversation at the prompt, in a pseudo-terminal, as a person has it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial

import pexpect
import pytest

from shepherd.server.process import address_in_network
from tests import programs

ANSWER = "Hello, I am a shepherd. Café is open today!"
CTRL_C, CTRL_D, UP, ALT_ENTER = "\x03", "\x04", "\x1b[A", "\x1b\r"
# The line under an answer ends with its time, or with why it ended early.
TURN_ENDED = r"[\d.]+ (?:µs|ms|s)(?=\x1b|\r| ·)"
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()][A-Z0-9]|[=>78])")


class Terminal:
    """A `shepherd` in a terminal: `type` a line, `expect` what is shown, without escape sequences."""

    def __init__(self, child: pexpect.spawn) -> None:
        self.child = child

    def type(self, text: str, enter: bool = True) -> None:
        self.child.send(text + ("\r" if enter else ""))

    def expect(self, pattern: str) -> str:
        """What was shown before the pattern and with it."""
        self.child.expect(pattern)
        return _ESCAPES.sub("", self.child.before + self.child.after)

    def go_back_to(self, pattern: str) -> None:
        """Press the up-arrow until a line is shown: each prompt loads its history beside the first keys."""
        for _ in range(20):
            self.type(UP, enter=False)
            if self.child.expect([pattern, pexpect.TIMEOUT], timeout=3) == 0:
                return
        raise AssertionError(f"{pattern} is not in the history")

    def prompt(self) -> str:
        return self.expect(r"(private)?>( |\x08|\x1b\[[0-9;?]*[a-zA-Z])+")

    def end(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.signalstatus is None
        return self.child.exitstatus


def start(home, *arguments, **variables: str) -> Terminal:
    home.has_asked()
    child = programs.spawn(
        sys.executable,
        ["-m", "shepherd", *map(str, arguments)],
        # prompt_toolkit asks the terminal where the cursor is, and nobody would answer.
        env={**home.environment, "PROMPT_TOOLKIT_NO_CPR": "1", **variables},
        dimensions=(40, 100),
        encoding="utf-8",
        timeout=60,
        maxread=1 << 16,
        searchwindowsize=1 << 17,
    )
    return Terminal(child)


@pytest.fixture
def terminal(home) -> Iterator[Callable[..., Terminal]]:
    """Starts `shepherd` in a terminal of 100 columns and waits for its prompt."""
    started = []

    def begin(*arguments, wait: bool = True, **variables: str) -> Terminal:
        terminal = start(home, *arguments, **variables)
        started.append(terminal.child)
        if wait:
            terminal.prompt()
        return terminal

    yield begin
    for child in started:
        child.close(force=True)


@pytest.fixture(scope="module")
def idle(new_home, tmp_path_factory, model) -> Iterator[Terminal]:
    """A conversation in which nothing has been said; for commands that change nothing."""
    terminal = start(new_home(tmp_path_factory.mktemp("idle") / "home"), "-m", model)
    terminal.prompt()
    yield terminal
    terminal.child.close(force=True)


def test_an_answer_is_shown_and_the_prompt_comes_back(terminal, model):
    chat = terminal("-m", model)

    chat.type("My dog is called Rex")

    assert ANSWER in chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type(CTRL_D, enter=False)
    assert chat.end() == 0


def test_the_greeting_says_what_is_running(terminal, model, shepherd):
    shepherd("facts", "set", "name", "Steve")

    chat = terminal("-m", model, wait=False)

    greeting = chat.expect("Ctrl-D quits")
    assert "tiny-scripted" in greeting
    assert "window 4,096 tokens" in greeting
    assert "0 memories and 1 fact of steve" in greeting


def test_the_answer_is_streamed(terminal, endless_model):
    """Its beginning is on the screen while the end, 65,000 tokens later, is not even generated."""
    chat = terminal("-m", endless_model, "--max-tokens", "0", "--ctx", "65536")

    chat.type("hello")
    chat.expect(r"(?s)hello.{300}")

    chat.type(CTRL_C, enter=False)
    chat.expect("stopped")


def test_reading_of_a_long_message_is_shown_until_the_answer_begins(terminal, endless_model):
    chat = terminal(
        *("-m", endless_model, "--ctx", "32768", "--max-tokens", "3", "--nomemory", "-e", "word " * 8_000),
        wait=False,
    )

    chat.expect(r"reading [\d,]+ of [\d,]+ tokens")
    assert chat.end() == 0


def test_ctrl_c_ends_the_answer_and_not_the_program(terminal, endless_model):
    chat = terminal("-m", endless_model, "--max-tokens", "0", "--ctx", "65536")

    for _ in range(2):
        chat.type("hello")
        chat.expect(r"(?s)hello.{300}")
        chat.type(CTRL_C, enter=False)
        assert "Traceback" not in chat.expect("stopped")
        chat.prompt()
    chat.type("/stats")
    assert "ended by Ctrl-C" in chat.expect("times")
    chat.prompt()
    chat.type("/quit")
    assert chat.end() == 0


def test_what_is_typed_during_an_answer_is_not_in_it_and_at_the_next_prompt(terminal, endless_model):
    chat = terminal("-m", endless_model, "--max-tokens", "0", "--ctx", "65536")
    chat.type("hello")
    chat.expect(r"(?s)hello.{300}")

    chat.type("typed ahead", enter=False)
    chat.type(CTRL_C, enter=False)

    assert "typed" not in chat.expect("stopped")
    chat.prompt()
    chat.expect("typed ahead")
    chat.type(" and sent")
    chat.expect(r"(?s) and sent.{300}")


def test_what_is_typed_while_the_model_loads_is_shown_once_at_the_prompt(terminal, model):
    chat = terminal("-m", model, "--continue", wait=False)
    chat.expect("loading scripted")

    chat.type("typed ahead")

    assert "typed" not in chat.expect("Ctrl-D quits")
    chat.prompt()
    chat.expect("typed ahead")
    chat.expect(ANSWER)
    chat.prompt()


def test_a_question_on_the_command_line_shows_that_the_model_loads(terminal, model):
    chat = terminal("-m", model, "what is a sheep?", wait=False)

    chat.expect(r"loading scripted, 100 %")
    chat.expect(ANSWER)
    assert chat.end() == 0


def test_ctrl_c_clears_the_line_and_twice_ends_the_program(terminal, model):
    chat = terminal("-m", model)

    chat.type("half a message", enter=False)
    chat.expect("message")
    chat.type(CTRL_C, enter=False)
    chat.type("/stats")
    chat.expect("nothing has been answered yet")
    chat.prompt()
    chat.type(CTRL_C, enter=False)
    chat.expect("Ctrl-C once more")
    chat.prompt()
    chat.type(CTRL_C, enter=False)

    assert chat.end() == 0


def test_quitting_says_that_it_learns_and_ctrl_c_skips_that(terminal, model, shepherd):
    # Whoever connects waits for an answer that never comes: learning ends only when it is skipped.
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        settings = {"endpoint": url, "model": "m", "min_turns": "1"}
        for name, value in settings.items():
            shepherd("config", "set", f"memory_extraction_{name}", value)
        chat = terminal("-m", model)
        chat.type("My dog is called Rex")
        chat.expect(TURN_ENDED)
        chat.prompt()

        chat.type(CTRL_D, enter=False)
        chat.expect("learning from your last messages; Ctrl-C skips it")
        chat.type(CTRL_C + CTRL_C, enter=False)

        assert "Traceback" not in chat.expect("the rest will be learned at the next start")
        assert chat.end() == 0
    [job] = json.loads(shepherd("memory", "jobs", "--json").stdout)
    assert job["state"] in ("waiting", "running")
    assert shepherd("memory", "check").returncode == 0


def test_a_backslash_or_alt_enter_begins_a_new_line(terminal, model, shepherd):
    chat = terminal("-m", model)

    chat.type("first line\\")
    chat.type("second line" + ALT_ENTER + "third line")
    chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type("/quit")
    chat.end()

    assert "\tfirst line\\nsecond line\\nthird line\t" in shepherd("memory", "list").stdout


def test_pasted_lines_are_one_message(terminal, model, shepherd):
    chat = terminal("-m", model)

    chat.type("\x1b[200~pasted one\rpasted two\x1b[201~")
    chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type("/quit")
    chat.end()

    assert "\tpasted one\\npasted two\t" in shepherd("memory", "list").stdout


def test_lines_come_back_in_the_next_process(terminal, model, home):
    first = terminal("-m", model)
    first.type("/memory something rare")
    first.expect("no memory matches")
    first.prompt()
    first.type("/quit")
    first.end()

    second = terminal("-m", model)
    second.go_back_to("/quit")
    second.go_back_to("memory something rare")  # the slash is on the screen already

    assert stat.S_IMODE(home.history.stat().st_mode) == 0o600


def test_private_lines_are_not_kept_anywhere(terminal, model, home, shepherd):
    chat = terminal("-m", model)

    chat.type("/private")
    chat.expect("private: nothing is recalled or stored")
    assert "private>" in chat.prompt()
    chat.type("My secret is 42")
    chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type("/private off")
    chat.expect("memory is used again")
    chat.prompt()
    chat.type("/quit")
    chat.end()

    assert "secret" not in home.history.read_text()
    assert shepherd("memory", "list").stdout == ""
    assert b"secret" not in home.database.read_bytes()


def test_why_shows_what_was_appended_and_the_numbers_work(terminal, model, shepherd):
    shepherd("facts", "set", "name", "Steve")
    shepherd("memory", "forget", shepherd("memory", "add", "Which car?", "A van").stdout.strip())
    shepherd("memory", "add", "Which IDE does the user prefer?", "VS Code with vim keys")
    chat = terminal("-m", model)

    chat.type("which IDE do I prefer?")
    chat.expect(r"recalled 1 fact, 1 memory")
    chat.prompt()
    chat.type("/why")
    shown = chat.expect(r"/edit 2, /forget 2, /pin 2")
    for expected in ("recall took", "name = Steve", "set by you · just now",
                     "2  Which IDE does the user prefer?", "VS Code with vim",
                     "just now", "entered by hand", "score ", "relevance "):  # fmt: skip
        assert expected in shown

    chat.prompt()
    chat.type("/pin 2")
    chat.expect("pinned")
    chat.prompt()
    chat.type("/forget 2")
    chat.expect("forgotten")
    chat.prompt()
    chat.type("/forget name")
    chat.expect("the fact name is forgotten")
    chat.prompt()
    chat.type("/quit")
    chat.end()
    assert shepherd("memory", "list").stdout == ""
    assert shepherd("facts", "list").stdout == ""


def test_forgetting_says_which_conversations_still_have_the_words(terminal, model, shepherd):
    chat = terminal("-m", model)
    chat.type("My sister keeps bees in the garden.")
    chat.prompt()
    chat.type("/memory")
    chat.expect("1  My sister keeps bees")
    chat.prompt()
    chat.type("/forget 1")
    told = chat.expect("conversations delete ([0-9a-f]{8})")
    assert "this conversation still contains these words. To delete it, use /clear, and" in told
    chat.prompt()
    chat.type("/quit")
    chat.end()

    memory_id = shepherd("memory", "add", "My sister keeps bees in the garden.", "").stdout.strip()
    told = shepherd("memory", "forget", memory_id).stderr
    session = shepherd("conversations", "list").stdout[:8]
    assert told == (
        "1 memory forgotten\n1 conversation still contains these words. To delete it, run\n"
        f"  shepherd conversations delete {session}\n"
    )
    shepherd("conversations", "delete", session)
    memory_id = shepherd("memory", "add", "My sister keeps bees in the garden.", "").stdout.strip()
    assert shepherd("memory", "forget", memory_id).stderr == "1 memory forgotten\n"


def test_a_memory_is_edited_at_the_prompt(terminal, model, shepherd):
    shepherd("memory", "add", "Which IDE?", "Emacs")
    chat = terminal("-m", model)

    chat.type("/memory")
    chat.expect("1  Which IDE")
    chat.prompt()
    chat.type("/edit 1")
    chat.expect("question: .*Which IDE")
    chat.type("")
    chat.expect("answer: .*Emacs")
    chat.type(" with evil mode")
    chat.expect("changed")
    chat.prompt()
    chat.type("/quit")
    chat.end()

    assert shepherd("memory", "list").stdout.endswith("\tWhich IDE?\tEmacs with evil mode\n")


def test_one_key_begins_to_change_what_was_listed(terminal, model, shepherd):
    shepherd("memory", "forget", shepherd("memory", "add", "Which car?", "A van").stdout.strip())
    shepherd("memory", "add", "Which IDE?", "Emacs")
    chat = terminal("-m", model)

    chat.type("which ide?")
    chat.prompt()
    chat.type("/why")
    chat.expect("Alt-E edits it")
    chat.type("\x1bp", enter=False)
    chat.expect("/pin 2")
    chat.type("")
    chat.expect("pinned")
    chat.prompt()
    chat.type("/memory")
    chat.expect("Alt-E edits it")
    chat.type("\x1bf", enter=False)
    chat.expect("/forget 2")
    chat.type("")
    chat.expect("forgotten")

    chat.prompt()
    chat.type("/quit")
    chat.end()
    assert shepherd("memory", "list").stdout == ""


def test_facts_are_set_shown_and_listed(terminal, model):
    chat = terminal("-m", model)

    chat.type("/facts favourite_color deep blue")
    chat.expect("favourite_color = ")
    chat.prompt()
    chat.type("/facts favouriteColor")
    chat.expect("favouriteColor = deep blue")
    chat.prompt()
    chat.type("/facts")
    chat.expect("favourite_color = deep blue")


def test_stats_show_the_tokens_and_times_of_the_last_turn(terminal, model):
    chat = terminal("-m", model)
    for _ in range(2):
        chat.type("hello")
        chat.expect(TURN_ENDED)
        chat.prompt()

    chat.type("/stats")

    shown = chat.expect(r"total [0-9.]+ \S+")
    assert re.search(r"prompt +\d+ tokens: [1-9]\d* reused, \d+ decoded", shown)
    assert re.search(r"answer +6 tokens generated, [\d.]+ tokens/s, ended by the model", shown)
    assert re.search(r"window +4,096 tokens, \d+ % used", shown)
    assert re.search(r"times +recall \S+ .s, prefill \S+ \S+, first token \S+ \S+, total", shown)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("/save", "nothing has been said yet"),
        ("/rename x", "nothing of this conversation is stored yet"),
        ("/continue", r"usage: /continue"),
        ("/conversations", "no conversation is stored yet"),
        ("/tools", "the model has no tools"),
        ("/config n_ctx 8", "n_ctx does not change while a conversation runs"),
        ("/config top_kk 8", "did you mean top_k"),
        ("/config top_k many", 'top_k is "many"; expected a whole number'),
        ("/config", "max_tokens"),
        ("/model", "tiny-scripted, window of 4,096 tokens"),
        ("/memroy", "there is no command /memroy.*did you mean /memory"),
        ("/fact name", "there is no command /fact.*did you mean /facts or /"),
        ("/etc/fstab", "there is no command /etc/fstab.*type two"),
        ("/forget", r"usage: /forget"),
        ("/forget 12345", "no memory has the number 12345"),
        ("/forget nonsense", "no fact of that name and no memory of that question"),
        ("/pin", "usage: /pin"),
        ("/facts nothing", "there is no fact 'nothing'"),
        ("/undo", "there is nothing to undo"),
        ("/why", "nothing has been answered yet"),
        ("/help", r"/memory \[WORDS\].*/quit"),
    ],
)
def test_commands_answer_at_the_prompt_and_nothing_reaches_the_model(idle, typed, shown):
    idle.type(typed)

    assert ANSWER not in idle.expect("(?s)" + shown)
    idle.prompt()


@pytest.mark.parametrize(
    ("typed", "message"), [("//etc/fstab", "/etc/fstab"), (" /etc/fstab", " /etc/fstab")]
)
def test_a_message_may_begin_with_a_slash(terminal, model, typed, message, shepherd):
    chat = terminal("-m", model)

    chat.type(typed)
    chat.expect(TURN_ENDED)
    chat.prompt()
    chat.type("/quit")
    chat.end()

    assert f"\t{message}\t" in shepherd("memory", "list").stdout


def test_a_conversation_is_saved_once_without_what_memory_appended(terminal, home, model, shepherd, tmp_path):
    shepherd("facts", "set", "name", "Steve")
    file = tmp_path / "said.json"
    chat = terminal("-m", model)
    chat.type("what is my name")
    chat.prompt()

    chat.type(f"/save {file}")
    chat.expect("2 messages saved in")
    chat.prompt()
    chat.type(f"/save {file}")
    chat.expect(r"already\s+exists")
    chat.prompt()
    chat.type("/save ~/said.md")
    chat.expect("2 messages saved in")

    assert (home.path / "said.md").read_text(encoding="utf-8").startswith("## You\n\nwhat is my name\n")
    said = json.loads(file.read_text(encoding="utf-8"))["messages"]
    assert said == [
        {"role": "user", "content": "what is my name"},
        {"role": "assistant", "content": ANSWER},
    ]


def test_a_setting_holds_from_the_next_answer_on_and_for_this_conversation_alone(
    terminal, endless_model, shepherd
):
    chat = terminal("-m", endless_model)

    chat.type("/config max_tokens 3")
    chat.expect("max_tokens = 3 in this conversation")
    chat.prompt()
    chat.type("hello")

    chat.expect(f"{TURN_ENDED} · cut at the longest allowed answer")
    assert shepherd("config", "get", "max_tokens").stdout == "1024\n"


def test_another_model_goes_on_with_the_conversation(terminal, model, endless_model):
    chat = terminal("-m", endless_model, "--max-tokens", "8")
    chat.type("hello")
    chat.prompt()

    chat.type(f"/model {model}")
    chat.expect("tiny-scripted answers from now on")
    chat.prompt()
    chat.type("and you?")

    assert ANSWER in chat.expect(TURN_ENDED)


def test_undo_and_clear_change_the_conversation(terminal, model):
    chat = terminal("-m", model)
    chat.type("hello")
    chat.expect(TURN_ENDED)
    chat.prompt()

    chat.type("/undo")
    chat.expect("are removed")
    chat.prompt()
    chat.type("/clear")
    chat.expect("a new conversation")
    chat.prompt()
    chat.type("/undo")
    chat.expect("there is nothing to undo")


def test_a_conversation_is_continued_and_then_only_the_new_is_decoded(terminal, model):
    first = terminal("-m", model)
    first.type("hello one")
    first.expect(TURN_ENDED)
    first.prompt()
    first.type("/quit")
    first.end()

    second = terminal("-m", model, "--continue", wait=False)
    second.expect("continued after 1 exchange")
    second.prompt()
    decoded = []
    for text in ("and two", "and three"):
        second.type(text)
        second.prompt()
        second.type("/stats")
        decoded.append(int(re.search(r"([\d,]+) decoded", second.expect("times"))[1]))
        second.prompt()

    assert decoded[0] < 2 * decoded[1]  # what the first process has read is on disk


def test_another_conversation_is_listed_continued_and_renamed(terminal, model, shepherd):
    for text in ("about tomatoes", "about taxes"):
        shepherd("-m", model, "-e", text)
    chat = terminal("-m", model)
    chat.type("/conversations TOMATOES")
    assert "1  about tomatoes" in chat.expect("/continue NUMBER")
    chat.prompt()

    chat.type("/continue 1")
    assert "continued after 1 exchange: about tomatoes" in chat.expect("> about tomatoes")
    chat.expect("Café is open today")
    chat.prompt()
    chat.type("and now?")
    chat.prompt()
    chat.type("/rename Garden")
    chat.expect("renamed: Garden")
    chat.prompt()
    chat.type("/conversations")
    shown = chat.expect("1 single question is not listed")
    assert re.search(r"1  Garden\s+\w{8} · just now · 4 messages · this conversation\s+/continue", shown)
    chat.prompt()
    chat.type("/continue nowhere")
    chat.expect("there is no conversation 'nowhere'")


def test_what_is_undone_or_forgotten_is_not_in_the_history(terminal, model, home):
    chat = terminal("-m", model)
    for line in ("what is open?", "My secret is the word heron", "My dog is called Rex"):
        chat.type(line)
        chat.prompt()
    chat.type("/undo")
    chat.expect("the last message and its answer are removed")
    chat.prompt()
    chat.type("/forget My secret is the word heron")
    chat.expect("1 memory forgotten")
    chat.prompt()
    chat.type("My dog is called Rex", enter=False)
    chat.type(CTRL_C, enter=False)
    chat.go_back_to("/forget")
    chat.go_back_to("undo")
    chat.go_back_to("what is open")

    saved = home.history.read_text()
    assert "Rex" not in saved
    assert "+My secret" not in saved
    assert "+what is open?\n" in saved
    assert stat.S_IMODE(home.history.stat().st_mode) == 0o600


def test_an_overflow_is_an_error_and_the_conversation_goes_on(terminal, model):
    chat = terminal("-m", model, "--ctx", "512")

    chat.type("\x1b[200~" + "many words " * 300 + "\x1b[201~")
    chat.expect("error:.*512")
    chat.expect("start a new conversation with /clear")
    chat.prompt()
    chat.type("hello")

    assert ANSWER in chat.expect(TURN_ENDED)


def test_control_characters_of_a_memory_do_not_reach_the_terminal(terminal, model, shepherd):
    shepherd("memory", "add", "which title?", "\x1b]0;owned\x07 \x1b[2J")
    chat = terminal("-m", model)

    chat.type("/memory title")
    chat.expect("which title")
    chat.prompt()

    assert "\x1b]0;owned" not in chat.child.before
    assert "\x1b[2J" not in chat.child.before


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_where_they_are_not_wanted(terminal, model, variables):
    chat = terminal("-m", model, wait=False, **variables)
    chat.child.expect("Ctrl-D quits")

    assert "\x1b[2m" not in chat.child.before
    chat.prompt()
    chat.type("hello")
    chat.expect(TURN_ENDED)
    assert "\x1b[3" not in chat.child.before


def test_answers_go_to_a_pipe_while_the_prompt_stays_on_the_terminal(home, model, tmp_path):
    out = tmp_path / "answers.txt"
    child = pexpect.spawn(
        "/bin/sh",
        ["-c", f"{sys.executable} -m shepherd -m {model} > {out}"],
        env={**home.environment, "PROMPT_TOOLKIT_NO_CPR": "1"}, encoding="utf-8", timeout=60,
    )  # fmt: skip
    child.expect("> ")
    child.send("hello\r")
    child.expect(TURN_ENDED)
    child.expect("> ")
    child.send(CTRL_D)
    child.expect(pexpect.EOF)

    assert out.read_text() == f"{ANSWER}\n"


@pytest.mark.parametrize(("user", "is_said"), [("", True), ("steve", False)])
def test_a_server_says_if_requests_without_a_user_have_no_memory(terminal, model, user, is_said):
    server = terminal("serve", "-m", model, "--port", "0", wait=False, SHEPHERD_USER_ID=user)
    server.expect("listening on")

    assert (
        "without memory; to give them yours: shepherd serve --user" in " ".join(server.child.before.split())
    ) == is_said


def test_a_server_at_a_terminal_says_where_the_page_is_and_logs_for_people(terminal, model):
    server = terminal("serve", "-m", model, "--port", "0", wait=False)
    server.expect("listening on ")
    page = re.search(r"the page is at (http://\S+/);", server.expect("/v1"))[1]

    for path in ("", "v1/models", "v1/nothing"):
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(page + path, timeout=60).close()

    shown = server.expect(r"other 404 · \S+ \S+ · request \w+")
    assert re.search(r"\d\d:\d\d:\d\d GET /v1/models 200 · ", shown)
    assert "GET / " not in shown
    assert "{" not in shown


def test_a_server_for_others_prints_only_addresses_that_can_be_reached(terminal, shepherd, model):
    shepherd("apikey", "create")
    server = terminal("serve", "-m", model, "--port", "0", "--host", "0.0.0.0", wait=False)
    server.expect("listening on http://0.0.0.0:")
    said = re.sub(r"\s+", "", server.expect("/v1"))
    addresses = re.findall(r"http://[\d.]+:\d+/", said)
    # A machine without a network has only itself.
    if address_in_network("0.0.0.0"):
        said = server.expect(r"your\s+network,\s+the\s+page\s+is\s+at\s+http://[\d.]+:\d+/")
        addresses.append(re.search(r"http://[\d.]+:\d+/$", said)[0])

    assert addresses
    for address in addresses:
        assert "//0.0.0.0" not in address
        urllib.request.urlopen(address, timeout=60).close()


def test_tools_of_the_bundled_model_are_said_to_go_unused(terminal):
    chat = terminal("--memtools")

    chat.type("/tools")

    assert "search_memory" in chat.expect("calls no tools, even if it has some")


def test_a_server_warns_of_a_provider_that_takes_no_connection(terminal, shepherd, model):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    shepherd("provider", "add", "away", "openai", "--base-url", url, "--model", "m")

    server = terminal("serve", "-m", model, "--port", "0", "--providers", "all", wait=False)

    server.expect(r"warning:\S* provider away \S+\s+refused\s+the\s+connection")


@pytest.mark.parametrize("way", ["closed", "SIGHUP", "SIGTERM"])
def test_the_end_of_the_terminal_during_an_answer_loses_nothing(home, endless_model, shepherd, way):
    home.has_asked()
    child = pexpect.spawn(  # a child of our own, whose end can be waited for when the terminal is gone
        sys.executable,
        ["-m", "shepherd", "-m", str(endless_model), "--max-tokens", "0", "--ctx", "65536"],
        env={**home.environment, "PROMPT_TOOLKIT_NO_CPR": "1"},
        encoding="utf-8",
        timeout=60,
        # Under nohup, the tests would ignore it, and so would the program.
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )
    child.expect("> ")
    child.send("Remember the milk\r")
    # More than what tells the time until an answer begins: before that, there is nothing to keep.
    child.expect(r"(?s)the milk.{6000}")

    if way == "closed":
        child.ptyproc.fileobj.close()
    else:
        child.kill(getattr(signal, way))
        child.expect(pexpect.EOF)
    status = child.wait()

    assert status == 128 + (signal.SIGTERM if way == "SIGTERM" else signal.SIGHUP)
    [one] = json.loads(shepherd("conversations", "list", "--json").stdout)
    kept = shepherd("conversations", "show", one["id"]).stdout
    assert "Remember the milk" in kept
    assert len(kept) > 100  # some of the answer, too
    assert not list(home.history.parent.glob("crash-*"))
