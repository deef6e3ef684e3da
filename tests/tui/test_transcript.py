"""The transcript by itself, in a small application without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.widgets import Static

from shepherd.tui.answer import Answer
from shepherd.tui.transcript import RecallNote, Remark, Said, Transcript
from shepherd.types import Fact, Injection, Message


class Conversation(App[None]):
    """Nothing but the transcript."""

    def compose(self) -> ComposeResult:
        yield Transcript()


def perform(act: Callable[[Transcript], Awaitable[None]]) -> None:
    async def run() -> None:
        app = Conversation()
        async with app.run_test(size=(60, 30)):
            await act(app.query_one(Transcript))

    asyncio.run(run())


def shown(transcript: Transcript) -> list[tuple[str, str]]:
    """The kinds and texts of what is there; answers without their text."""
    return [
        (type(child).__name__, "" if isinstance(child, Answer) else str(child.render()))
        for child in transcript.children
    ]


def test_a_history_has_what_was_said_and_answered() -> None:
    async def act(transcript: Transcript) -> None:
        await transcript.remark("old", "note")
        await transcript.show_history(
            [
                Message("system", "rules"),
                Message("user", "hello\x1b"),
                Message("assistant", " "),
                Message("assistant", "Hi."),
                Message("tool", "found"),
            ]
        )
        assert shown(transcript) == [("Said", "hello\ufffd"), ("Answer", "")]
        await transcript.show_message("again")
        assert shown(transcript)[-1] == ("Said", "again")
        assert [type(child) for child in transcript.query(Said)] == [Said, Said]

    perform(act)


def test_what_memory_added_is_named() -> None:
    async def act(transcript: Transcript) -> None:
        await transcript.show_recall(Injection())
        assert shown(transcript) == []
        facts = [Fact(f"k{n}", "v" * 25, 1, 1) for n in range(5)]
        await transcript.show_recall(Injection(tail="x", facts=tuple(facts)))
        await transcript.show_recall(Injection(tail="x", parts=("chunk:1",)))

        short = "v" * 23 + "…"
        names = ", ".join(f"k{n}={short}" for n in range(4))
        assert shown(transcript) == [
            ("RecallNote", f"recalled 5 facts: {names}"),
            ("RecallNote", "recalled 1 passage"),
        ]
        assert len(transcript.query(RecallNote)) == 2

    perform(act)


def test_thoughts_are_shown_until_the_answer_begins() -> None:
    async def act(transcript: Transcript) -> None:
        await transcript.think("a" * 90)
        await transcript.think(" and\nb" + "c" * 20)
        [thinking] = transcript.query(".thinking")
        assert isinstance(thinking, Static)
        assert str(thinking.render()) == "thinking: " + f"{'a' * 90} and b{'c' * 20}"[-100:]
        await transcript.write("Hi")
        await transcript.write(" there.")
        assert shown(transcript) == [("Answer", "")]
        await transcript.end_answer()
        await transcript.write("Another.")
        assert shown(transcript) == [("Answer", ""), ("Answer", "")]
        await transcript.think("more")
        await transcript.end_answer()
        assert not transcript.query(".thinking")

    perform(act)


def test_remarks_and_output_have_their_kinds() -> None:
    async def act(transcript: Transcript) -> None:
        await transcript.write("Hi")
        await transcript.remark("failed\x07", "error", "try again")
        await transcript.remark("done", "note")
        await transcript.show_output([(True, "city = Ulm"), (False, "1 fact\x1b")])

        assert shown(transcript)[1:] == [
            ("Remark", "failed\ufffd\ntry again"),
            ("Remark", "done"),
            ("Remark", "city = Ulm\n1 fact\ufffd"),
        ]
        kinds = [sorted(child.classes) for child in transcript.query(Remark)]
        assert kinds == [["-error"], ["-note"], ["-output"]]

    perform(act)


def test_hints_and_remarks_name_commands_as_they_can_be_run_here():
    shown: list[str] = []

    class Elsewhere(App[None]):
        def compose(self) -> ComposeResult:
            yield Transcript(lambda text: text.replace("shepherd ", "venv/bin/shepherd "))

    async def run() -> None:
        app = Elsewhere()
        async with app.run_test(size=(80, 30)):
            transcript = app.query_one(Transcript)
            await transcript.remark("no model", "error", "shepherd model list shows them")
            await transcript.show_output([(True, "shepherd facts list"), (False, "see shepherd doctor")])
            shown.extend(str(remark.render()) for remark in app.query(Remark))

    asyncio.run(run())

    assert shown == [
        "no model\nvenv/bin/shepherd model list shows them",
        "shepherd facts list\nsee venv/bin/shepherd doctor",
    ]
