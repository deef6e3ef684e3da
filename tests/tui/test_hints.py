"""The list of commands that begin with the text at the prompt."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult

from shepherd.tui.prompt import Hints


class Listing(App[None]):
    """Nothing but the hints."""

    def compose(self) -> ComposeResult:
        yield Hints()


def listed(names: list[str]) -> list[str]:
    usages = {name: (f"/{name}", f"about {name}") for name in names}

    async def act() -> list[str]:
        app = Listing()
        async with app.run_test():
            hints = app.query_one(Hints)
            hints.show(names, usages)
            assert hints.display is bool(names)
            return str(hints.render()).splitlines()

    return asyncio.run(act())


def test_commands_stand_with_their_help_in_columns():
    assert listed(["why", "memory"]) == ["/why     about why", "/memory  about memory"]


@pytest.mark.parametrize(("n", "last"), [(6, "/f  about f"), (7, "and 1 more; /help lists them")])
def test_more_than_six_commands_are_counted(n: int, last: str):
    lines = listed(list("abcdefg"[:n]))

    assert len(lines) == n
    assert lines[-1] == last
