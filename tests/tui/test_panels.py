"""The side panel and the status line by themselves, in a small application without a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from textual.app import App, ComposeResult
from textual.widgets import OptionList

from shepherd.memory import ExtractionStats
from shepherd.prompt import Plan
from shepherd.prompt.plan import Part, Share
from shepherd.tui.conversation import ChatState
from shepherd.tui.items import PlanPart
from shepherd.tui.panels import SidePanel, StatusLine
from shepherd.turn import Finished, Recalled
from shepherd.types import Fact, Injection, SearchResult, TurnStats

STATE = ChatState("local", ("local",), "mini", 1000, "steve", None, False, False, None)
STATS = TurnStats(
    prompt_tokens=900, reused_tokens=700, decoded_tokens=200, generated_tokens=50, window_tokens=1000,
    decode_ms=500.0, ttft_ms=41.0,
)  # fmt: skip
PLAN = Plan(
    window_tokens=1000,
    shares=(Share("system", 500, 500, 500), Share("memory", 9, 9, 1), Share("query", 399, 399, 399)),
    chosen=(
        Part("knowledge", "chunk:7", " A passage. ", score=0.75, about={"title": "Notes"}),
        Part("entities", "entity:ann", "Ann: a friend"),
        Part("memory", "memory", "[facts]"),
    ),
)


class Panels(App[None]):
    """Nothing but the two."""

    def compose(self) -> ComposeResult:
        yield SidePanel()
        yield StatusLine()

    def lines(self) -> list[str]:
        strips = self.screen._compositor.render_strips()
        return [re.sub(r"\s+", " ", strip.text).strip() for strip in strips]

    @property
    def side(self) -> SidePanel:
        return self.query_one(SidePanel)

    @property
    def status(self) -> StatusLine:
        return self.query_one(StatusLine)


def shown(play: Callable[[Panels, Callable[[], Awaitable[None]]], Awaitable[None]], width: int = 80) -> None:
    async def act() -> None:
        app = Panels()
        async with app.run_test(size=(width, 40)) as pilot:
            await play(app, pilot.pause)

    asyncio.run(act())


def test_the_window_is_shown_by_its_parts() -> None:
    async def play(app, pause):
        assert "No answer yet." in app.lines()
        recalled = Recalled(Injection(), PLAN)
        app.side.show_recalled(recalled, replace(STATE, recalls=True))
        await pause()
        lines = app.lines()
        assert [line for line in lines if line.startswith("■")] == [
            "■ system 500", "■ memory 1", "■ query 399", "■ free 100",
        ]  # fmt: skip
        bar = next(line for line in lines if "█" in line)
        assert bar.index("░") == bar.count("█")
        assert 8 <= bar.count("█") / bar.count("░") <= 11
        app.side.show_state(replace(STATE, last=Finished("answer", STATS, Injection(), plan=PLAN)))
        await pause()
        lines = app.lines()
        assert {"■ answer 50", "■ free 50", "200 tokens read, 700 reused"} <= set(lines)
        estimated = replace(STATS, is_estimated=True, window_tokens=0)
        app.side.show_state(replace(STATE, last=Finished("answer", estimated, Injection(), plan=PLAN)))
        await pause()
        assert {"■ free 50", "200 tokens read, 700 reused, estimated"} <= set(app.lines())

    shown(play)


def test_a_full_window_has_a_bar_no_wider_than_the_panel() -> None:
    full = replace(PLAN, shares=(*PLAN.shares, Share("history", 0, 0, 990), Share("focus", 1, 1, 1)))

    async def play(app, pause):
        app.side.show_recalled(Recalled(Injection(), full), STATE)
        await pause()
        [bar] = [line for line in app.lines() if "█" in line]
        assert "░" not in bar
        assert len(bar) == app.side.query_one("#budget").content_size.width
        assert "■ free 0" in app.lines()

    shown(play)


def test_what_was_added_is_listed_with_its_time_and_cleared() -> None:
    injection = Injection(
        "tail", (Fact("city", "Ulm", 0, 0),), (SearchResult(3, "Which?", "That.", 0, 0.5, 0.5, 1.0),),
        recall_us=1500.0,
    )  # fmt: skip

    def options(app: Panels) -> list[str]:
        return [str(option.prompt) for option in app.query_one("#remembered", OptionList).options]

    async def play(app, pause):
        assert options(app) == ["Facts and memories that are added to your message are listed here."]
        app.side.show_recalled(Recalled(injection, PLAN), STATE)
        await pause()
        city, which, *others = options(app)
        assert city.startswith("city = Ulm")
        assert which.startswith("Which?\nThat.\nid 3")
        assert others == ["Notes\nknowledge · chunk:7 · score 0.75", "Ann: a friend\nentities · entity:ann"]
        assert "Recalled for this turn, 2 ms" in app.lines()
        app.side.clear()
        await pause()
        assert options(app) == ["Facts and memories that are added to your message are listed here."]
        assert "Recalled for this turn" in app.lines()
        for recalls, words in ((True, "Nothing was added."), (False, "Memory is not used at the moment.")):
            app.side.show_recalled(Recalled(Injection(), Plan()), replace(STATE, recalls=recalls))
            assert options(app) == [words]

    shown(play)


def test_a_part_of_a_plan_is_titled_by_its_title_or_its_text() -> None:
    assert PlanPart.of(PLAN.chosen[0]) == PlanPart("Notes", "A passage.", "knowledge · chunk:7 · score 0.75")
    assert PlanPart.of(replace(PLAN.chosen[1], text="x" * 121)).title == "x" * 119 + "…"


def test_the_status_line_says_what_matters_first(memory) -> None:
    known = replace(STATE, memory=memory, recalls=True)
    answered = replace(known, last=Finished("answer", STATS, Injection()))

    async def play(app, pause):
        async def line(state: ChatState | None = None) -> str:
            if state is not None:
                app.status.show_state(state)
            await pause()
            return app.lines()[-1]

        assert await line() == "starting …"
        assert await line(STATE) == "mini · memory off"
        assert await line(replace(known, provider="work")) == "work: mini · memory on"
        assert await line(replace(known, private=True, recalls=False)) == "mini · private"
        assert await line(replace(known, recalls=False)) == "mini · memory off"
        assert await line(replace(STATE, private=True)) == "mini · memory off"
        whole = "mini · memory on · 950 of 1,000 tokens · 700 reused · 100 tokens/s · first token after 41 ms"
        assert await line(answered) == whole
        app.status.show_answering()
        assert await line() == f"answering · esc stops · {whole}"
        app.status.show_loading("loading 5 %\x1b")
        assert await line() == "loading 5 %\ufffd"
        app.status.show_loading("")
        assert await line() == f"answering · esc stops · {whole}"
        assert await line(answered) == whole

    shown(play, width=120)


def test_the_status_line_drops_its_last_parts_where_they_do_not_fit() -> None:
    answered = replace(STATE, last=Finished("answer", STATS, Injection()))
    whole = "mini · memory off · 950 of 1,000 tokens · 700 reused · 100 tokens/s · first token after 41 ms"

    for width in (len(whole) + 2, len(whole) + 1, len(whole) - 1, 20):

        async def play(app, pause, width=width):
            room = app.status.content_size.width
            app.status.show_state(answered)
            await pause()
            parts = whole.split(" · ")
            fitting = [n for n in range(1, 7) if len(" · ".join(parts[:n])) <= room] or [1]
            assert app.lines()[-1] == " · ".join(parts[: fitting[-1]])[:room].strip()

        shown(play, width)


def test_the_status_line_says_how_learning_is_going() -> None:
    line = StatusLine()
    seen = []
    for counts in (
        {"waiting": 1, "running": 1, "dead": 3, "done": 1},
        {"dead": 1234, "done": 1},
        {"done": 1},
        {"done": 1, "open": 1},
        {},
    ):
        line._queue = ExtractionStats(**counts)
        seen.append(line._learning().plain)

    assert seen == ["learning: 2 to do", "1,234 not learned", "learning: done", "", ""]
    assert StatusLine()._learning().plain == ""
