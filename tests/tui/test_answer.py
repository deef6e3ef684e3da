"""An answer on the screen while it comes: what is drawn, what stays, what is copied."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection

from shepherd.errors import NEW_CONVERSATION
from shepherd.tui import app as application
from shepherd.tui.answer import Answer
from shepherd.tui.transcript import Transcript


class Page(App[None]):
    """A transcript alone."""

    CSS_PATH = str(Path(application.__file__).with_name("shepherd.tcss"))

    def compose(self) -> ComposeResult:
        yield Transcript()

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def answer(self) -> Answer:
        return self.query_one(Answer)

    def text(self) -> str:
        # The last columns are the scrollbar's, and empty.
        return "\n".join(strip.text[:-2].rstrip() for strip in self.screen._compositor.render_strips())


def played(play, size=(60, 12)):
    async def run():
        page = Page()
        async with page.run_test(size=size, notifications=True) as pilot:
            await play(page, pilot)

    asyncio.run(run())


def paragraphs(n: int) -> str:
    return "".join(f"paragraph{number} of an answer\n\n" for number in range(n))


def test_who_reads_back_stays_there_while_the_answer_goes_on():
    async def play(page, pilot):
        await page.transcript.write(paragraphs(30))
        await page.answer.complete()
        await pilot.pause()
        assert "paragraph29" in page.text()

        page.transcript.scroll_to(y=10, animate=False)
        await pilot.pause()
        before = page.text()
        await page.transcript.write(paragraphs(30))
        await page.transcript.end_answer()
        await pilot.pause()

        assert page.text() == before
        assert page.answer.size.height > 100

    played(play)


def test_lines_of_finished_blocks_are_drawn_once():
    async def play(page, pilot):
        await page.transcript.write("first\n\nsecond\n\nthird")
        await page.answer.complete()
        await pilot.pause()
        drawn = page.answer.render_line(0)

        for number in range(20):
            await page.transcript.write(f" word{number}\n\n")
        await page.answer.complete()
        await pilot.pause()

        assert page.answer.render_line(0) is drawn

    played(play, size=(60, 60))


def test_there_is_nothing_below_the_last_line():
    async def play(page, pilot):
        await page.transcript.write("one\n\ntwo")
        await page.answer.complete()
        await pilot.pause()

        below = page.answer.render_line(99)

        assert below.text == " " * page.answer.size.width
        assert {segment.style for segment in below} == {page.answer.visual_style.rich_style}

    played(play)


def test_a_flood_is_read_in_pieces_and_none_is_lost():
    async def play(page, pilot):
        await page.transcript.write(paragraphs(200))
        await asyncio.sleep(0)  # the first piece is read
        rest = page.answer._pending

        await page.transcript.end_answer()
        await pilot.pause()

        assert rest.endswith("paragraph199 of an answer\n\n")
        assert "paragraph0 " not in rest
        assert page.answer.size.height == 399
        assert "paragraph199" in page.text()

    played(play)


def test_pictures_come_less_often_while_somebody_types():
    typing, reading = Answer(typed_at=time.monotonic), Answer()

    assert typing._pause_s() > reading._pause_s()


def test_other_widths_show_the_same_words():
    async def play(page, pilot):
        text = " ".join(f"w{number}" for number in range(200))
        await page.transcript.write(text)
        await page.transcript.end_answer()

        for width in (30, 90, 61):
            await pilot.resize_terminal(width, 60)
            await pilot.pause()

            assert page.text().split() == text.split()

    played(play)


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("one two three four", "one two three four"),
        ("- one two three four\n- five", "• one two three four\n• five"),
        ("> one two three four", "one two three four"),
        ("```\ndef f(a, b, c, d):\n    return a\n```", "\ndef f(a, b, c, d):\n    return a"),
    ],
)
def test_what_is_marked_is_copied_as_it_was_said(text, copied):
    async def play(page, pilot):
        await page.transcript.write(text)
        await page.transcript.end_answer()
        await pilot.pause()

        page.screen.selections = {page.answer: Selection(None, None)}
        await pilot.pause()

        assert page.screen.get_selected_text() == copied

    played(play, size=(20, 12))


def test_a_part_can_be_marked_with_the_mouse():
    async def play(page, pilot):
        await page.transcript.write("one two three")
        await page.transcript.end_answer()
        await pilot.pause()

        await pilot.mouse_down(page.answer, offset=Offset(2 + 4, 0))
        await pilot.hover(page.answer, offset=Offset(2 + 6, 0))
        await pilot.mouse_up(page.answer, offset=Offset(2 + 6, 0))

        assert page.screen.get_selected_text() == "two"

    played(play)


def test_a_link_is_told_and_not_followed():
    async def play(page, pilot):
        await page.transcript.write("see [this](https://example.org/it's)")
        await page.transcript.end_answer()
        await pilot.pause()

        await pilot.click(page.answer, offset=Offset(2 + 5, 0))
        await pilot.pause()

        assert [notice.message for notice in page._notifications] == ["https://example.org/it's"]

    played(play)


def test_another_theme_is_seen_in_what_was_said_before():
    def colours(page, y):
        return {(segment.text.strip(), str(segment.style)) for segment in page.answer.render_line(y)}

    async def play(page, pilot):
        await page.transcript.write("plain **bold** `code`\n\n```python\nx = 1\n```")
        await page.transcript.end_answer()
        await pilot.pause()
        before = [colours(page, y) for y in range(5)]

        page.theme = "textual-light"
        await pilot.pause()
        await pilot.pause()

        after = [colours(page, y) for y in range(5)]
        assert not before[0] & after[0]
        assert not before[3] & after[3]
        assert {text for text, _ in before[3]} == {text for text, _ in after[3]}

    played(play)


def test_an_answer_that_breaks_off_shows_what_there_was():
    async def play(page, pilot):
        await page.transcript.write("words and a list:\n\n- one\n-")
        await page.transcript.remark("it broke", "error")
        await pilot.pause()

        assert page.text().split() == ["words", "and", "a", "list:", "•", "one", "•", "it", "broke"]

    played(play)


def test_a_hint_names_the_slash_command_that_does_it():
    async def play(page, pilot):
        await page.transcript.remark("the window is full", "error", f"shorten it; or {NEW_CONVERSATION}")
        await pilot.pause()

        assert "shorten it; or start a new conversation with /clear" in page.text()

    played(play)
