"""The state before an answer begins is shown where the answer will be."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings, open_remote
from shepherd.providers.accounting import RatioStore
from shepherd.providers.exchange import RetryPolicy
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from shepherd.types import Message
from tests.providers.upstream import refuses, says
from tests.server.in_process import running
from tests.server.running import Running

HOUR = 3600  # no test waits for the end of such a pause


@pytest.fixture
def patient(busy, tmp_path) -> Iterator[Running]:
    """A server that waits for that provider as long as it asks for."""
    config = Config()
    provider = ProviderSettings(
        "work", "openai", model="m", base_url=f"{busy.url}/v1", memory=True, api_key="k"
    )
    models = Models(
        provider,
        name="m",
        open_remote=lambda sends, asks: open_remote(
            provider,
            sends=sends,
            asks_memory=lambda: asks,
            policy=RetryPolicy(1, longest_s=HOUR),
            ratios=RatioStore(tmp_path / "ratios.json"),
        ),
    )
    with Memory(tmp_path / "memory.db", user_id="anna") as memory:
        conversations = Conversations(models, memory=memory, config=config)
        with Running(create_app(ServerState(config, memory, True, conversations))) as server:
            yield server
        models.close()


def send(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


@pytest.mark.parametrize("status", [429, 503])
def test_a_pause_before_a_provider_is_asked_again_is_counted_with_its_reason(status, patient, busy, visit):
    busy.script[:] = [refuses(status, Retry_After=str(HOUR)), says("Hello.")]
    chat = visit(patient.url)
    chat.open("chat")
    send(chat.page, "hi")

    wait = chat.page.locator(".wait .hint")
    told = re.compile(rf"^trying again in (\d+) s: provider work \S+ answers {status}: ")
    expect(wait).to_have_text(told)
    first = wait.inner_text()
    expect(wait).not_to_have_text(first)
    later = told.match(wait.inner_text())
    assert later is not None
    assert int(later[1]) < int(told.match(first)[1])
    chat.page.get_by_role("button", name="Stop").click()
    expect(wait).to_be_hidden()


def test_a_pause_ends_with_the_answer(through_busy, busy, visit):
    busy.script[:] = [refuses(429, Retry_After="1"), says("Hello.")]
    chat = visit(through_busy.url, "busy and then not")
    chat.open("chat")
    send(chat.page, "hi")

    expect(chat.page.locator(".prose")).to_have_text("Hello.")
    expect(chat.page.locator(".wait")).to_be_hidden()


def test_a_pause_is_still_counted_after_another_view_was_shown(patient, busy, visit):
    busy.script[:] = [refuses(429, Retry_After=str(HOUR)), says("Hello.")]
    chat = visit(patient.url)
    chat.open("chat")
    send(chat.page, "hi")
    wait = chat.page.locator(".wait .hint")
    expect(wait).to_contain_text("trying again in ")

    chat.page.get_by_role("link", name="Facts").click()
    expect(chat.page.get_by_role("heading", name="Facts", exact=True)).to_be_visible()
    chat.page.go_back()
    expect(wait).to_contain_text("trying again in ")
    chat.page.get_by_role("button", name="Stop").click()
    expect(chat.page.locator(".reply-foot")).to_contain_text("stopped")


def test_an_edited_message_is_back_when_a_provider_refuses_after_a_pause(through_busy, busy, visit):
    busy.script[:] = [says("First.")]
    chat = visit(through_busy.url, "busy and edited")
    page = chat.page
    chat.open("chat")
    send(page, "hi")
    expect(page.locator(".prose")).to_have_text("First.")
    expect(page.locator(".talk")).to_have_count(1)

    busy.script[:] = [refuses(429, Retry_After="1"), refuses(401)]
    page.locator("[data-act=edit]").click()
    page.locator("[name=edited]").fill("hello")
    page.get_by_role("button", name="Save and ask").click()
    expect(page.locator("#notices")).to_contain_text("the API key is not accepted")
    expect(page.locator(".prose")).to_have_text("First.")
    expect(page.locator("[name=edited]")).to_have_value("hello")
    page.reload()
    expect(page.locator(".prose")).to_have_text("First.")


@pytest.fixture
def hindered(endless_model, tmp_path) -> Iterator[tuple[Running, threading.Event]]:
    """A server that reads a long prompt for as long as another model answers, until the event is set."""
    settings, let = EngineSettings(n_ctx=16_384, n_threads=1), threading.Event()
    with (
        Engine(endless_model, settings=settings) as other,
        Engine(endless_model, settings=settings, yields_to=other) as engine,
        Memory(tmp_path / "memory.db", user_id="anna") as memory,
        running(engine, memory=memory) as server,
    ):

        def answer_on() -> None:
            for _ in iter(let.is_set, True):
                answer = other.generate([Message("user", "hello")], max_tokens=2000)
                while not let.is_set() and next(answer, None) is not None:
                    pass
                answer.close()

        thread = threading.Thread(target=answer_on)
        thread.start()
        yield server, let
        let.set()
        thread.join()


def test_the_reading_of_a_long_prompt_is_counted(hindered, visit):
    server, let = hindered
    chat = visit(server.url)
    chat.open("chat")
    send(chat.page, "the quick brown fox jumps over the lazy dog and the herons stand. " * 200)
    wait = chat.page.locator(".wait .hint")
    expect(wait).to_have_text(re.compile(r"^reading [\d,]+ of [\d,]+ tokens$"))
    first = wait.inner_text()
    expect(wait).not_to_have_text(first)
    expect(wait).to_have_text(re.compile(r"^reading [\d,]+ of [\d,]+ tokens$"))
    let.set()

    expect(chat.page.locator(".prose")).not_to_be_empty()
    expect(wait).to_be_hidden()
    chat.page.get_by_role("button", name="Stop").click()
    expect(chat.page.locator(".reply-foot")).to_contain_text("stopped")
