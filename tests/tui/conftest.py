"""The screen as its users meet it: the real application and a real model; the pilot presses the keys."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import textual.app
import textual.pilot
from textual.pilot import Pilot
from textual.widgets import OptionList

from shepherd.commands.gc_policy import GCPolicy
from shepherd.config.file import load
from shepherd.memory import Memory
from shepherd.tui.app import ShepherdApp
from shepherd.tui.conversation import SessionOptions
from shepherd.tui.prompt import Prompt

PATIENCE_S = 120.0


@dataclass
class Stage:
    """One run of the application."""

    app: ShepherdApp
    pilot: Pilot[None] = field(init=False)

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for it; fails with the screen's text when it does not come."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not holds():
            assert asyncio.get_running_loop().time() < deadline, f"{what} did not come:\n{self.text()}"
            await self.pilot.pause(0.02)
        await self.pilot.pause()

    async def shows(self, text: str) -> None:
        """Wait until the text is on the screen."""
        await self.until(lambda: text in self.text(), repr(text))

    async def ready(self) -> None:
        """Wait until nothing is being worked on."""
        await self.until(
            lambda: self.app.chat_state is not None and not self.app.is_answering, "the end of it"
        )

    async def type(self, text: str, *, enter: bool = True) -> None:
        """Write at the prompt, at once as a paste does."""
        self.app.screen.query_one(Prompt).insert(text)
        await self.pilot.pause()
        if enter:
            await self.pilot.press("enter")

    async def say(self, text: str) -> None:
        """Type a line, send it, and wait until it has been worked on."""
        await self.ready()
        before = self.app.chat_state
        await self.type(text)
        await self.until(lambda: self.app.chat_state is not before, "the end of the turn")
        await self.ready()

    def text(self) -> str:
        """What is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    def options(self, selector: str) -> list[str]:
        """The texts of a list."""
        listed = self.app.screen.query_one(selector, OptionList)
        return [str(option.prompt) for option in listed.options]


Play = Callable[[Stage], Awaitable[None]]
_LOOK_S, _IDLE_S, _LONGEST_WAIT_S = 0.02, 0.001, 1.0


async def until_the_screen_rests(*_: float) -> None:
    """Wait after a key until its thread has nothing to do.

    Textual's own looks at the whole process, so that each key takes a second while a model is writing.
    """
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < deadline:
        before = time.thread_time()
        await asyncio.sleep(_LOOK_S)
        if time.thread_time() - before < _IDLE_S:
            return


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the screen alone, where this version of Textual has that function."""
    for module in (textual.app, textual.pilot):
        monkeypatch.setattr(module, "wait_for_idle", until_the_screen_rests, raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder of user steve."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    monkeypatch.setenv("SHEPHERD_MODEL_TRIAL", "false")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def memory(home: Path) -> Iterator[Memory]:
    """The memory that the application will open, opened beside it."""
    with Memory(user_id="steve") as opened:
        yield opened


@pytest.fixture
def perform(home: Path) -> Callable[..., ShepherdApp]:
    """Runs the application with a model while a play presses its keys; gives it back when it has ended."""

    def run(
        play: Play,
        model: Path | str = "",
        *,
        size: tuple[int, int] = (120, 40),
        gc_policy: GCPolicy | None = None,
        **options: bool | str,
    ) -> ShepherdApp:
        app = ShepherdApp(SessionOptions(load().config, str(model), **options), gc_policy)
        app.NOTIFICATION_TIMEOUT = 600  # a busy machine must not miss what is only shown for a moment

        async def act() -> None:
            stage = Stage(app)
            async with app.run_test(size=size, notifications=True) as stage.pilot:
                await play(stage)

        try:
            asyncio.run(act())
        finally:
            app.conversation.stop()
            app.conversation.join()
        return app

    return run


# What differs from run to run, and with every word of the system prompt: times, speeds, tokens, the bar.
_VARYING = (
    (r"\d[\d,.]* (µs|ms|s\b)", "~ ms"),
    (r"\d[\d,.]* tokens/s", "~ tokens/s"),
    (r"(score|relevance) \d[\d.]*", r"\1 ~"),
    (r"\d[\d,]* of ([\d,]+) tokens", "~ of \\1 tokens"),
    (r"\d[\d,]* tokens? read, [\d,]+ reused", "~ tokens read, ~ reused"),
    (r"tokens · [\d,]+ reused", "tokens · ~ reused"),  # more where the message was written slowly
    (r"(■ \w+) +\d[\d,]*", "\\1 ~"),
    ("█+░+", "█░"),
    (r"Shepherd \d[\d.]*", "Shepherd ~"),
)


def masked(text: str) -> str:
    """The text with what varies replaced."""
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text)
    return text
