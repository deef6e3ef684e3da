"""The state of the model before its answer begins is in the status line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shepherd.providers import ProviderTable
from tests.providers.upstream import Upstream, hangs, refuses, running, says, says_nothing


@pytest.fixture
def work(home, monkeypatch) -> Iterator[Upstream]:
    """A provider on loopback that answers, and is the chosen one."""
    with running(says("From afar.")) as upstream:
        values = {"kind": "openai", "model": "m", "base_url": f"{upstream.url}/v1", "api_key": "k"}
        ProviderTable().add("work", {**values, "retries": 1, "memory": True})
        monkeypatch.setenv("SHEPHERD_PROVIDER", "work")
        yield upstream


@pytest.mark.parametrize(("status", "reason"), [(429, "too many requests"), (503, "the server failed")])
def test_a_pause_before_another_attempt_is_shown_with_its_reason(perform, work, status, reason):
    work.script[:] = [refuses(status, Retry_After="15"), says("Hello.")]
    said = rf"trying again in 1\d s: provider work \S+ answers {status}: {reason} · esc stops"

    async def play(stage):
        await stage.ready()
        await stage.type("hi")
        await stage.until(lambda: re.search(said, stage.text()), said)
        await stage.pilot.press("escape")
        await stage.ready()
        assert "trying again" not in stage.text()
        await stage.say("hi")  # which the script answers
        await stage.shows("Hello.")

    perform(play, size=(160, 40))


def test_a_wait_is_counted_until_the_first_piece(perform, work):
    async def play(stage):
        await stage.ready()
        work.script[:] = [says_nothing()]
        await stage.type("hi")
        await stage.shows("waiting for m, 1 s · esc stops")
        await stage.pilot.press("escape")
        await stage.ready()
        work.script[:] = [hangs(["Half an"])]
        await stage.type("hi")
        await stage.shows("Half an")
        await stage.shows("answering · esc stops")
        assert "waiting for" not in stage.text()
        await stage.pilot.press("escape")
        await stage.ready()

    perform(play)
