"""Every slash command with what it shows: result, stdout, stderr, and the lines that it forgets."""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Callable, Iterator

import pytest

from shepherd.assistant import Assistant
from shepherd.cli.main import parser_of
from shepherd.commands.explain import recalled_in_words
from shepherd.commands.facts import _ACTIONS
from shepherd.commands.screen import Screen
from shepherd.commands.slash import COMMANDS, Chat
from shepherd.config import Config
from shepherd.errors import ShepherdError
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Claim, Memory
from shepherd.tools.toolbox import AssistantTool
from shepherd.types import Tool
from tests.learned import learn, propose, remember

NUMBERS = "/memory and /why show the numbers"
DECIDED = "there is no such number, or it was decided or changed since | /learned lists what was learned"
# What a line gives, and what it writes to stdout and stderr.
Said = tuple[str | None, str, str]


class Editor:
    """A user who changes texts in this way, and the lines that are forgotten."""

    def __init__(self) -> None:
        self.answer: dict[str, str] | None = None
        self.forgotten: list[str] = []

    def revise(self, texts: dict[str, str]) -> dict[str, str] | None:
        return None if self.answer is None else {**texts, **self.answer}

    def forget_lines(self, lines: set[str]) -> None:
        self.forgotten = sorted(lines)


class Prompt:
    """A conversation, and what it shows for a line."""

    def __init__(self, engine: Engine, memory: Memory) -> None:
        config = Config(max_tokens=64, context_entities=False, temperature=0.0)
        self.memory, self.editor = memory, Editor()
        self.assistant = Assistant(engine, memory, user_id="steve", config=config)
        self.chat = Chat(self.assistant, Screen(io.StringIO(), io.StringIO()), self.editor)

    def __call__(self, line: str) -> Said:
        screen = self.chat.screen
        screen.out, screen.err = io.StringIO(), io.StringIO()
        self.editor.forgotten = []
        try:
            found = self.chat.message_of(line)
        except ShepherdError as error:
            found = f"{error} | {error.hint}"
        return found, screen.out.getvalue(), screen.err.getvalue()


@pytest.fixture(scope="module")
def engine(scripted_model) -> Iterator[Engine]:
    with Engine(scripted_model, settings=EngineSettings(n_ctx=2048, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def say(tmp_path, engine) -> Iterator[Prompt]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield Prompt(engine, memory)


def check(say: Callable[[str], Said], steps: list[tuple[str, Said]]) -> None:
    for line, said in steps:
        assert (line, say(line)) == (line, said)


def test_a_line_is_a_message_or_a_command(say) -> None:
    check(say, [
        ("hello", ("hello", "", "")),
        ("//etc/fstab", ("/etc/fstab", "", "")),
        (" /memory", (" /memory", "", "")),
        ("/nope", ("there is no command /nope | did you mean /undo? To send a message that begins with a"
                   " slash, type two.", "", "")),
        ("/" + "x" * 50, (f"there is no command /{'x' * 40} | /help lists them. To send a message that begins"
                          " with a slash, type two.", "", "")),
    ])  # fmt: skip


def test_before_the_first_answer_there_is_little_to_show(say) -> None:
    check(say, [
        ("/memory", (None, "", "nothing is remembered yet\n")),
        ("/context", (None, "", "nothing has been answered yet\n/context refresh reloads preferences and"
                      " background; /why shows what was appended\n")),
        ("/why", (None, "", "nothing has been answered yet\n")),
        ("/undo", (None, "", "there is nothing to undo\n")),
        ("/stats", (None, "memory  not encrypted\nlearns  off: nothing was started that learns\n",
                    "nothing has been answered yet\n")),
        ("/save", (None, "", "nothing has been said yet\n")),
        ("/conversations", (None, "", "no conversation is stored yet\n")),
        ("/learned", (None, "", "nothing has been learned yet\n")),
        ("/tools", (None, "", "the model has no tools; shepherd --memtools adds tools for the memory\n")),
        ("/clear", (None, "", "a new conversation; memories and facts stay\n")),
    ])  # fmt: skip


def test_facts_are_set_shown_and_forgotten_with_their_lines(say) -> None:
    check(say, [
        ("/facts", (None, "", "no facts yet; /facts KEY VALUE sets one\n")),
        ("/facts city Ulm", (None, "", "city = Ulm\n")),
        ("/facts city", (None, "city = Ulm\n", "")),
        ("/facts zip", ("there is no fact 'zip' | /facts lists them", "", "")),
        ("/facts", (None, "  city = Ulm\n", "")),
        ("/forget city",
         (None, "", "the fact city is forgotten; it was Ulm\nTo restore it: /facts set city Ulm\n"
          "its history still has it. To delete that too: shepherd facts clear city --history\n")),
    ])  # fmt: skip
    assert say.editor.forgotten == [
        "//facts city Ulm",
        "//facts set city Ulm",
        "/facts city Ulm",
        "/facts set city Ulm",
    ]
    assert say.memory.get_fact("city") is None


def test_facts_takes_the_actions_of_the_shell_command(say) -> None:
    today = time.strftime("%Y-%m-%d")
    missing = "there is no fact 'zip' | /facts lists them"
    check(say, [
        ("/facts history", (None, "", "no facts yet; /facts KEY VALUE sets one\n")),
        ("/facts set city New Ulm", (None, "", "city = New Ulm\n")),
        ("/facts set city Bern", (None, "", "city = Bern; it was New Ulm\n")),
        ("/facts get city", (None, "city = Bern\n", "")),
        ("/facts get zip", (missing, "", "")),
        ("/facts list", (None, "  city = Bern\n", "")),
        (f"/facts at {today}", (None, "city\tBern\n", "")),
        ("/facts at 1999-01-01", (None, "", "no fact is known for 1999-01-01 23:59\n")),
        ("/facts history city",
         (None, f"{today}\tNew Ulm\t{today}\tuser\t\n{today}\tBern\tnow\tuser\t\n", "")),
        ("/facts history zip", (missing, "", "")),
        ("/facts clear zip", (missing, "", "")),
        ("/facts clear city",
         (None, "", "the fact city is forgotten; it was Bern\nTo restore it: /facts set city Bern\n"
          "its history still has it. To delete that too: shepherd facts clear city --history\n")),
        ("/facts clear city", ("there is no fact 'city' | /facts lists them", "", "")),
        ("/facts set city Bern", (None, "", "city = Bern\n")),
        ("/facts clear city --history",
         ("/facts clear keeps the history of the fact | shepherd facts clear city --history deletes it,"
          " with its copies", "", "")),
        ("/facts clear city", (None, "", "the fact city is forgotten; it was Bern\n"
         "To restore it: /facts set city Bern\n"
         "its history still has it. To delete that too: shepherd facts clear city --history\n")),
    ])  # fmt: skip
    assert say.memory.get_all_facts("steve") == []


def test_no_name_of_an_action_becomes_a_fact_by_mistake(say) -> None:
    meant = "did you mean /facts {}? /facts set {} VALUE sets a fact of that name"
    check(say, [
        ("/facts forget city", (f"there is no action 'forget' | {meant.format('clear', 'forget')}", "", "")),
        ("/facts show city", (f"there is no action 'show' | {meant.format('get', 'show')}", "", "")),
        ("/facts add city Ulm", (f"there is no action 'add' | {meant.format('set', 'add')}", "", "")),
        ("/facts at",
         ("usage: /facts at DATE | a date is 2026-03-01 (end of the day) or 2026-03-01 14:30", "", "")),
        ("/facts at home", ("expected a date such as 2026-03-01 | a month (2026-03), a year or a moment"
                            " (2026-03-01 14:30) is possible, too", "", "")),
        ("/facts set city", ("usage: /facts set KEY VALUE | /facts lists the facts", "", "")),
        ("/facts list city", ("usage: /facts list | /facts get KEY shows one fact", "", "")),
    ])  # fmt: skip
    assert say.memory.get_all_facts("steve") == []
    assert say("/facts set history of art") == (None, "", "history = of art\n")
    assert set(_ACTIONS) == set(parser_of("facts").actions.choices)


def test_a_forgotten_fact_is_restored_by_the_command_that_is_shown(say) -> None:
    say.memory.set_fact("favourite colour", "deep 'blue'", "steve")
    say.memory.set_fact("motto", "long " * 40, "steve")
    say("/facts tortoise_name Esio Trot")

    shown = say("/forget tortoise_name")[2].splitlines()[1]
    assert shown == "To restore it: /facts set tortoise_name Esio Trot"
    say(shown.partition(": ")[2])
    assert say.memory.get_fact("tortoise_name", "steve") == "Esio Trot"
    [command] = [line for line in say("/forget favourite colour")[2].splitlines() if "restore" in line]
    assert shlex.split(command)[-4:] == ["facts", "set", "favourite colour", "deep 'blue'"]
    assert "/facts history motto shows it" in say("/forget motto")[2]


def test_memories_are_named_by_the_numbers_that_are_shown_everywhere(say) -> None:
    for n in range(12):
        say.memory.store_memory(f"question {n}", f"answer {n}", "anna", timestamp=1000 + n)
        say.memory.store_memory(f"question {n}", f"answer {n}", "steve", timestamp=1000 + n)
    long_id = say.memory.list_memories("steve", limit=1)[0].id
    foreign_id = say.memory.list_memories("anna", limit=1)[0].id

    _, out, err = say("/memory")

    numbers = [line.split()[0] for line in out.splitlines() if line[:4].strip()]
    assert numbers == [str(number) for number in range(12, 2, -1)]
    assert out.splitlines()[:2] == [" 12  question 11", "     answer 11"]
    assert err == "the newest 10 of 12 memories; /memory WORDS searches\n"
    gone = f"no memory has the number 99 | {NUMBERS}"
    check(say, [
        ("/pin 12", (None, "", "pinned: it is never deleted to make space\n")),
        (f"/pin {long_id}", (None, "", "unpinned\n")),
        (f"/pin {foreign_id}", (f"no memory has the number {foreign_id} | {NUMBERS}", "", "")),
        ("/pin", ("usage: /pin NUMBER | /memory and /why show the numbers", "", "")),
        ("/pin 13", (f"no memory has the number 13 | {NUMBERS}", "", "")),
        ("/pin 0", (f"no memory has the number 0 | {NUMBERS}", "", "")),
        ("/edit x", ("usage: /edit NUMBER | /memory and /why show the numbers", "", "")),
        ("/edit 3", (None, "", "unchanged\n")),
        ("/forget 99", (gone, "", "")),
        ("/forget 12", (None, "", "forgotten: question 11\n")),
    ])  # fmt: skip
    assert say.editor.forgotten == ["question 11"]
    say.editor.answer = {"question": "question 9", "answer": "answer 9"}
    assert say("/edit 3")[0] == "memory 3: memory 10 already says exactly this | delete one of the two"
    say.editor.answer = {"answer": "new"}
    check(say, [
        ("/edit 3", (None, "", "changed\n")),
        ("/forget question 3", (None, "", "1 memory forgotten\n")),
        ("/memory zebra", (None, "", "no memory matches\n")),
        ("/forget nothing",
         ("there is no fact of that name and no memory of that question | /memory lists them", "", "")),
        ("/forget",
         ("usage: /forget NUMBER|KEY | /memory and /facts show the numbers and keys", "", "")),
    ])  # fmt: skip
    answers = {one.question: one.answer for one in say.memory.list_memories("steve", limit=20)}
    assert answers["question 2"] == "new"
    assert not {"question 3", "question 11"} & answers.keys()
    assert len(answers) == 10
    assert say("/memory")[2] == ""


def test_private_is_switched(say) -> None:
    on, off = "private: nothing is recalled or stored; /private ends it\n", "memory is used again\n"
    for line, note, state in (
        ("/private", on, True), ("/private", off, False), ("/private on", on, True),
        ("/private on", on, True), ("/private off", off, False),
    ):  # fmt: skip
        assert (say(line), say.assistant.private) == ((None, "", note), state)
    assert say("/private maybe")[0] == "usage: /private [on|off] | "


def test_the_end_of_private_mode_tells_what_the_model_still_sees(say) -> None:
    warning = "the model still sees your private messages"
    say("/private on")
    assert warning not in say("/private off")[2]
    say("/private on")
    for _ in say.assistant.ask("I collect stamps from Zanzibar."):
        pass

    assert warning in say("/private off")[2]
    say("/clear")
    say("/private on")
    assert say("/private off")[2] == "memory is used again\n"


def test_settings_are_changed_for_the_conversation(say) -> None:
    check(say, [
        ("/config temperature", (None, "temperature = 0.0\n", "")),
        ("/config temperature 0.7", (None, "", "temperature = 0.7 in this conversation\n")),
        ("/config temperature", (None, "temperature = 0.7\n", "")),
        ("/config temperature hot",
         ('temperature is "hot"; expected a number from 0 to 5, or auto | ', "", "")),
        ("/config model x", ("model does not change while a conversation runs | shepherd config set model"
                             " VALUE, then start again", "", "")),
        ("/config nope", ("there is no setting 'nope' | /config lists them", "", "")),
        ("/config temperatur", ("there is no setting 'temperatur' | did you mean temperature?", "", "")),
        ("/model", (None, "tiny-scripted, window of 2,048 tokens\n", "")),
        ("/model x", ("the model cannot change here | start a conversation with shepherd -m NAME", "", "")),
        ("/provider x", ("the provider cannot change here | start a conversation with shepherd", "", "")),
    ])  # fmt: skip
    assert say.assistant.config.temperature == 0.7
    listed = say("/config")[1].splitlines()
    assert f"{'temperature':22} 0.7" in listed
    assert len(listed) == 26


def test_nodes_are_put_in_focus(say) -> None:
    none = (None, "", "no node is in focus; /focus WORDS searches, /focus NUMBER adds one\n")
    assert say("/focus") == none
    for title in ("Bees", "Honey"):
        say.assistant.knowledge.add_node(title)
    check(say, [
        ("/focus 1", (None, "    1  Bees  (primary)\n", "")),
        ("/focus 1,2", (None, "    1  Bees  (primary)\n    2  Honey\n", "")),
        ("/focus 9", ("there is no node 9 | /focus WORDS finds nodes", "", "")),
        ("/focus", (None, "    1  Bees  (primary)\n    2  Honey\n", "")),
        ("/focus bee", (None, "    1  Bees\n", "/focus NUMBER puts one in focus\n")),
        ("/focus zebra", (None, "", "no node matches\n")),
        ("/focus none", none),
        ("/context refresh", (None, "", "preferences and background are as now\n")),
        ("/context refresh", (None, "", "nothing has changed\n")),
        ("/context x", ("usage: /context [refresh] | ", "", "")),
    ])  # fmt: skip


def test_decisions_need_something_to_decide(say) -> None:
    check(say, [
        ("/learned x", ("usage: /learned | ", "", "")),
        ("/keep", ("usage: /keep NUMBER | /learned shows the numbers", "", "")),
        ("/keep x", ("usage: /keep NUMBER | /learned shows the numbers", "", "")),
        ("/accept", ("there is nothing to accept | /learned lists what was learned", "", "")),
        ("/reject 3", (f"cannot reject 3: {DECIDED}", "", "")),
        ("/undo 5", (f"cannot undo 5: {DECIDED}", "", "")),
    ])  # fmt: skip


def test_after_an_answer_its_tokens_are_shown_and_it_can_be_undone(say) -> None:
    for _ in say.assistant.ask("hi there"):
        pass

    _, out, _ = say("/context")
    *parts, total = out.splitlines()

    assert [line.split("\t")[0] for line in parts] == ["system", "query"]
    used = sum(int(line.split("\t")[1]) for line in parts)
    assert total == f"{used} tokens of 2,048, 64 kept for the answer, shared by strategy dynamic"
    assert say("/why")[1] == f"the whole prompt: {used} of 2,048 tokens\n"
    assert say("/undo") == (None, "", "the last message and its answer are removed\n")
    assert say.editor.forgotten == ["hi there"]


def test_help_lists_every_command_and_quit_quits(say) -> None:
    _, out, err = say("/help")

    assert all(f"  {command.usage} " in out for command in COMMANDS.values())
    assert "type two: //etc/fstab" in err
    assert not say.chat.done
    assert say("/quit") == (None, "", "")
    assert say.chat.done


def test_help_is_in_two_columns_as_wide_as_the_longest_usage(say, monkeypatch) -> None:
    monkeypatch.setattr("shepherd.commands.slash.terminal_size", lambda stream: (200, 24))
    lines = say("/help")[1].splitlines()

    width = max(len(command.usage) for command in COMMANDS.values())
    assert [line.rstrip() for line in lines] == [
        f"  {command.usage:{width}}  {command.help}" for command in COMMANDS.values()
    ]
    assert lines[-1].split() == ["/exit", "the", "same"]
    say("/exit")
    assert say.chat.done


def test_without_a_memory_its_commands_say_why(say, engine) -> None:
    say.chat.assistant = Assistant(engine, None, user_id="steve", config=say.assistant.config)
    none = (
        "this conversation has no memory | --nomemory or the provider turned it off;"
        " shepherd memory works on it"
    )
    check(say, [
        *((line, (none, "", "")) for line in ("/memory", "/facts", "/forget city", "/pin 1", "/learned")),
        ("/focus", ("this conversation has no knowledge | --nomemory or the provider turned it off", "", "")),
        ("/stats", (None, "learns  off: nothing was started that learns\n",
                    "nothing has been answered yet\n")),
    ])  # fmt: skip
    for _ in say.chat.assistant.ask("hi there"):
        pass
    out, err = say("/why")[1:]
    assert out == ""
    assert err.startswith("nothing was appended")


def test_why_says_since_when_a_fact_holds_and_the_answer_is_in_the_conversation(say) -> None:
    say.memory.set_fact("city", "Ulm", "steve")
    for _ in say.assistant.ask("Which city do I live in?"):
        pass

    why = say("/why")[1]
    forgotten = say("/forget city")[2]

    assert "city = Ulm" in why
    assert why.splitlines()[-1].startswith("the whole prompt: ")
    assert forgotten.splitlines()[0] == "the fact city is forgotten; it was Ulm"
    assert forgotten.splitlines()[-1] == "this conversation still contains it; /clear begins a new one"
    say("/facts colour blue")
    assert "still contains" not in say("/forget colour")[2]


def test_why_shows_a_passage_beside_what_else_was_appended_and_how_it_begins(say) -> None:
    text = "# House notes\n\nThe stopcock is under the sink, behind the bucket. " + "Turn it clockwise. " * 20
    say.assistant.knowledge.add_node("House notes", source_text=text)
    say.memory.set_fact("city", "Ulm", "steve")
    for _ in say.assistant.ask("Where is the stopcock of the house?"):
        pass

    _, out, err = say("/why")
    lines = out.splitlines()

    place = lines.index("passages")
    assert lines.index("facts") < place < len(lines) - 1
    assert re.fullmatch(r"  House notes, relevance [01]\.\d\d, \d+ tokens", lines[place + 1])
    assert lines[place + 2].startswith("     # House notes The stopcock is under the sink, behind")
    assert len(lines[place + 2]) == 5 + 200
    assert lines[place + 3].startswith("the whole prompt: ")
    assert out.count("House notes, relevance") == 1
    shown = "/forget KEY, /facts KEY VALUE · shepherd knowledge edit ID, forget ID"
    assert err.splitlines()[0] == f"to change it: {shown}"


def test_why_shows_the_nodes_in_focus_which_every_message_has(say) -> None:
    for title in ("Ms. Steiner", "Room 4"):
        say.assistant.knowledge.add_node(title, notes=f"About {title}.")
    say("/focus 1,2")
    say.memory.set_fact("city", "Ulm", "steve")
    for _ in say.assistant.ask("Which city do I live in?"):
        pass

    _, out, err = say("/why")
    lines = out.splitlines()

    assert re.fullmatch(r"  Ms\. Steiner, Room 4, \d+ tokens", lines[lines.index("nodes in focus") + 1])
    assert err.splitlines()[0] == "to change it: /forget KEY, /facts KEY VALUE · /focus none"
    assert recalled_in_words(say.assistant.history[-2].injected) == "recalled 1 fact, the nodes in focus"


def test_of_much_that_was_learned_the_newest_ten_are_counted(say) -> None:
    facts = [Claim(f"pet{n}_name", f"Rex {n}", "All my pets.", 0) for n in range(12)]
    learn(say.memory, "steve", "All my pets.", *facts)

    out, err = say("/learned")[1:]

    assert out.count("All my pets.") == 10
    rest = "/keep NUMBER, /undo NUMBER; shepherd memory learned"
    assert err == f"the newest 10 of 12; {rest} lists all of it\n"
    facts = [Claim(f"cat{n}_name", f"Rex {n}", "All my cats.", 0) for n in range(40)]
    learn(say.memory, "steve", "All my cats.", *facts)
    assert say("/learned")[2] == f"the newest 10 of 52; {rest} --limit 52 lists all of it\n"


def test_a_fact_that_changes_is_shown_with_what_it_was(say) -> None:
    check(say, [
        ("/facts city Ulm", (None, "", "city = Ulm\n")),
        ("/facts city Ulm", (None, "", "city = Ulm, as before\n")),
        ("/facts city  Bern ", (None, "", "city = Bern; it was Ulm\n")),
        ("/config max_tokens 9", (None, "", "max_tokens = 9 in this conversation\n")),
        ("/config max_tokens  ", (None, "max_tokens = 9\n", "")),
    ])  # fmt: skip


def test_tools_are_listed_with_what_they_do(say, engine) -> None:
    tools = [Tool("look", "Looks at it", {}), Tool("write", "Writes it", {})]
    say.chat.assistant = Assistant(
        engine,
        say.memory,
        user_id="steve",
        config=say.assistant.config,
        tools=[AssistantTool(tool, lambda arguments: "") for tool in tools],
    )

    assert say("/tools") == (None, "look  Looks at it\nwrite  Writes it\n", "")


def test_what_was_learned_is_listed_and_decided(say) -> None:
    remember(say.memory, "steve")
    propose(say.memory, "steve")
    out, err = say("/learned")[1:]
    [proposed] = [item.id for item in say.memory.learned(user_id="steve") if item.kind == "proposed"]

    assert "you live in Berlin" in out
    assert err == "/accept NUMBER, /reject NUMBER, /keep NUMBER, /undo NUMBER; shepherd memory learned" \
        " lists all of it\n"  # fmt: skip
    assert say(f"/reject {proposed}")[0] is None
    assert say("/learned")[2] == "/keep NUMBER, /undo NUMBER; shepherd memory learned lists all of it\n"


def test_a_focus_is_of_whole_numbers_that_can_be_ids(say) -> None:
    say.assistant.knowledge.add_node("Bees")
    check(say, [
        ("/focus 1, 1", (None, "    1  Bees  (primary)\n", "")),
        ("/focus 1 2", ("there is no node 2 | /focus WORDS finds nodes", "", "")),
        (f"/focus {'9' * 18}", (f"there is no node {'9' * 18} | /focus WORDS finds nodes", "", "")),
        (f"/focus {'9' * 19}", (None, "", "no node matches\n")),
        ("/focus 1 x", (None, "", "no node matches\n")),
        ("/focus none", (None, "", "no node is in focus; /focus WORDS searches, /focus NUMBER adds one\n")),
    ])  # fmt: skip
