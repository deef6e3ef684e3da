"""Events of a turn, as text and as JSON; trees of paths; what is shown of a provider and of conversations."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from shepherd.cli import conversations, jsonlines, trace
from shepherd.cli.conversation import _output, show_turn
from shepherd.cli.markdown import MarkdownStream
from shepherd.commands.screen import Screen
from shepherd.config import Config
from shepherd.errors import InternalError, ShepherdError, UsageError
from shepherd.memory import Memory
from shepherd.tools import ToolResult
from shepherd.trace import Traces, import_file
from shepherd.turn import Delta, Finished, Recalled, Warned
from shepherd.types import Fact, Injection, Message, SearchResult, Thought, ToolCall, TurnStats

INJECTION = Injection(
    " [tail]",
    (Fact("city", "Ulm", 0, 0),),
    (SearchResult(5 << 40 | 3, "Which?", "That.", 0, 0.5, 0.5, 1.0),),
    keywords=("which",),
)
END = Finished("So it is.", TurnStats(generated_tokens=3, finish_reason="length"), INJECTION)


class Talk:
    """Gives the events of one turn."""

    def __init__(self, *events: Any) -> None:
        self._events = events
        self.asked: list[Any] = []
        self.private = False

    def ask(self, message: str, **how: Any) -> Iterator[Any]:
        self.asked.append((message, how, self.private))
        yield from self._events

    def cancel(self) -> None:
        """There is nothing to end."""


def screen() -> Screen:
    return Screen(io.StringIO(), io.StringIO())


def told(on: Screen) -> tuple[str, str]:
    return on.out.getvalue(), on.err.getvalue()  # type: ignore[attr-defined]


def test_an_answer_is_on_stdout_and_everything_else_on_stderr() -> None:
    talk = Talk(
        Recalled(INJECTION), Thought("hm"), Delta("So"), ToolCall("1", "look", '{"a": 1}'),
        ToolResult("1", "look", '{"b": 2}'), ToolResult("1", "look", "no such thing", failed=True),
        Warned("slow", "wait"), Delta(" it is.\n"), END,
    )  # fmt: skip
    on = screen()

    finished = show_turn(talk, "how", on, composed="how exactly", show_context=True)  # type: ignore[arg-type]

    assert finished is END
    assert told(on) == (
        "So\n it is.\n",
        '[prompt+context] how exactly [tail]\ncalls look {"a": 1}\nlook: no such thing\n'
        "warning: slow\n  wait\n",
    )
    assert talk.asked == [("how", {"composed": "how exactly", "pictures": ()}, False)]


@pytest.mark.parametrize(
    ("injection", "composed", "shows", "note"),
    [
        (INJECTION, "", True, "[prompt+context] how [tail]\n"),
        (Injection(), "how now", True, "[prompt+context] how now\n"),
        (Injection(), "", True, ""),
        (INJECTION, "how now", False, ""),
    ],
)
def test_the_context_is_shown_where_there_is_one(injection, composed, shows, note) -> None:
    on = screen()

    show_turn(Talk(Recalled(injection), Delta("x"), END), "how", on, composed=composed, show_context=shows)  # type: ignore[arg-type]

    assert told(on) == ("x\n", note)


def test_a_turn_without_an_end_is_a_bug_and_its_line_ends() -> None:
    on = screen()

    with pytest.raises(InternalError):
        show_turn(Talk(Delta("x")), "how", on)  # type: ignore[arg-type]

    assert told(on)[0] == "x\n"


@pytest.mark.parametrize(
    ("plain", "is_terminal", "term", "renders"),
    [
        (False, True, "xterm", True),
        (False, True, "dumb", False),
        (True, True, "xterm", False),
        (False, False, "xterm", False),
    ],
)
def test_markdown_is_rendered_on_a_terminal_that_can(plain, is_terminal, term, renders, monkeypatch) -> None:
    monkeypatch.setenv("TERM", term)
    on = screen()
    on.out_is_terminal = is_terminal

    assert isinstance(_output(on, plain=plain), MarkdownStream) is renders


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (Delta("a"), {"event": "delta", "text": "a"}),
        (Thought("b"), {"event": "thought", "text": "b"}),
        (Warned("c", "d"), {"event": "warning", "message": "c", "hint": "d"}),
        (ToolCall("1", "look", "{}"), {"event": "tool_call", "id": "1", "name": "look", "arguments": "{}"}),
        (ToolResult("1", "look", "no", failed=True),
         {"event": "tool_result", "id": "1", "name": "look", "result": "no", "failed": True}),
    ],
)  # fmt: skip
def test_every_event_has_its_json(event, named) -> None:
    on = screen()

    jsonlines.put(on, *jsonlines._named(event, "", str))

    assert json.loads(told(on)[0]) == named


def test_what_is_recalled_and_what_a_turn_cost_are_told_in_full() -> None:
    name, recalled = jsonlines._named(Recalled(INJECTION), "Which one?", str)
    end, finished = jsonlines._named(END, "", str)

    assert (name, end) == ("recalled", "finished")
    assert (recalled["facts"], recalled["keywords"], recalled["tail"]) == (
        {"city": "Ulm"},
        ["Which"],
        " [tail]",
    )
    assert [one["id"] for one in recalled["memories"]] == [3]
    assert (finished["answer"], finished["finish_reason"]) == ("So it is.", "length")
    assert finished["stats"]["generated_tokens"] == 3
    assert not {"warnings", "finish_reason"} & finished["stats"].keys()


@pytest.mark.parametrize(
    ("with_memory", "private", "during"), [(True, False, False), (False, False, True), (True, True, True)]
)
def test_memory_is_used_unless_a_line_or_the_conversation_forbids_it(with_memory, private, during) -> None:
    cancelled = Finished("", TurnStats(finish_reason="cancelled"), Injection())
    message = SimpleNamespace(typed="how", composed="", pictures=())
    for end in (END, cancelled):
        talk = Talk(end)
        talk.private = private

        interrupted = jsonlines._answer(talk, screen(), message, with_memory)  # type: ignore[arg-type]

        assert interrupted is (end is cancelled)
        assert [one[2] for one in talk.asked] == [during]
        assert talk.private is private


# ---- traces


ENTRIES = [
    ("/context/s/000001/a/b", 1),
    ("/context/s/000001/a/c", "two"),
    ("/context/s/000002/a", None),
    ("/context/t/000001/a", "x" * 200),
]


def test_a_tree_has_each_name_once() -> None:
    on, flat = screen(), screen()

    trace._print_tree(ENTRIES, "/context/s", 9, on)
    trace._print_tree(ENTRIES[:3], "/context/s", 2, flat)

    first, long = told(on)[0].splitlines()[:-1], told(on)[0].splitlines()[-1]
    assert first[:5] == ["000001", "  a", "    b = 1", '    c = "two"', "000002"]
    assert first[5] == "  a = null"
    assert long.endswith("…")
    assert len(trace._line("x" * 200)) == trace._SHOWN_CHARS
    assert trace._line("x" * (trace._SHOWN_CHARS - 2)).endswith('x"')
    assert told(flat)[0].splitlines() == ["000001", "  a", "000002", "  a = null"]


def test_paths_are_nested_by_their_segments() -> None:
    assert trace._nested(ENTRIES[:3], "/context/s") == {
        "000001": {"a": {"b": 1, "c": "two"}},
        "000002": {"a": None},
    }


@pytest.mark.parametrize(
    ("path", "turn"),
    [("/context/s", ("s", None)), ("/context/s/000012", ("s", 12)), ("/context/s/7/", ("s", 7))],
)
def test_a_path_names_a_session_or_a_turn(path, turn) -> None:
    assert trace._turn_of(path) == turn


@pytest.mark.parametrize("path", ["/context", "/context/s/x", "/context/s/1/a", "/context//1"])
def test_another_path_is_no_turn(path) -> None:
    with pytest.raises(UsageError, match="is neither a turn nor a session"):
        trace._turn_of(path)


# ---- conversations


@pytest.fixture(scope="module")
def talks(tmp_path_factory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("talks") / "memory.db", user_id="steve") as memory:
        for number in range(3):
            session = memory.start_session()
            memory.append_message(session, Message("user", f"question {number}"))
            memory.append_message(session, Message("assistant", f"answer {number}"))
        yield memory


@pytest.mark.parametrize(
    ("limit", "offset", "n", "note"),
    [
        (5, 0, 3, ""),
        (3, 0, 3, ""),
        (2, 0, 2, "2 of 3 conversations; --offset shows older ones\n"),
        (2, 1, 2, ""),
        (1, 1, 1, "1 of 3 conversations; --offset shows older ones\n"),
        (2, 3, 0, ""),
    ],
)
def test_a_list_says_if_there_are_older_ones(limit, offset, n, note, talks) -> None:
    on = screen()

    conversations._list(talks, SimpleNamespace(limit=limit, offset=offset, all=False), on)  # type: ignore[arg-type]

    assert (len(told(on)[0].splitlines()), told(on)[1]) == (n, note)


@pytest.mark.parametrize(
    ("text", "limit", "n", "note"),
    [
        ("question", 3, 3, ""),
        ("question", 2, 2, "2 of 3 conversations; --limit shows more\n"),
        ("nowhere", 2, 0, "no conversation contains this text\n"),
    ],
)
def test_a_search_says_if_there_are_more(text, limit, n, note, talks) -> None:
    on = screen()

    conversations._search(talks, SimpleNamespace(limit=limit, text=[text]), on)  # type: ignore[arg-type]

    assert (len(told(on)[0].splitlines()), told(on)[1]) == (n, note)


def test_last_is_the_latest_conversation_with_a_trace_and_its_last_turn(tmp_path) -> None:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        first, second, third = (memory.start_session() for _ in range(3))
        for at, session in enumerate((first, second, third)):
            memory.append_message(session, Message("user", "hello", created_at=1000 + at))
        traces = Traces(memory.transactions, "steve")
        source = trace._Source(Config(), memory, traces)
        with pytest.raises(ShepherdError, match="no stored conversation has a trace"):
            source.path("last")
        text = "".join(f'/context/{one}/{n:06}/model\t"m"\n' for one in (first, second) for n in (3, 12))
        import_file(traces, io.BufferedReader(io.BytesIO(text.encode())))

        assert source.path("last") == f"/context/{second}"
        assert source.path("last/last/model") == f"/context/{second}/000012/model"
        assert source.path(f"{first}/last") == f"/context/{first}/000012"
        assert source.path(f"{first}/3") == f"/context/{first}/000003"
