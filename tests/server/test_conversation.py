"""A conversation that comes in whole, without HTTP: what the model sees of it, and what is kept."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from shepherd.config import Config
from shepherd.errors import ContextOverflowError
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.chat import ChatRequest
from shepherd.server.errors import Denied
from shepherd.server.models import Models
from shepherd.server.turns import Conversations
from shepherd.types import Message

LOCAL = ProviderSettings("local", "llamacpp")
WINDOW = 512


@pytest.fixture(scope="module")
def engine(endless_model):
    with Engine(endless_model, settings=EngineSettings(n_ctx=WINDOW, slots=4, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="nobody-by-default") as memory:
        yield memory


@pytest.fixture
def new_service(engine, memory):
    """A service as after a restart: it remembers nothing but what the memory has."""

    def make(**settings):
        config = Config(**{"temperature": 0, "max_tokens": 20, "system_prompt": "Hi.", **settings})
        return Conversations(Models(LOCAL, name="tiny", engine=engine), memory=memory, config=config)

    return make


class Client:
    """One that keeps the texts alone, as OpenAI's do."""

    def __init__(self, service, user="steve", **fields):
        self.service, self.user, self.fields = service, user, fields
        self.messages = []

    def ask(self, text):
        self.messages.append(Message("user", text))
        turn = self.service.begin(ChatRequest(tuple(self.messages), self.user, **self.fields))
        for _ in turn.reply:
            pass
        turn.end()
        self.messages.append(Message("assistant", turn.reply.text))
        return turn


def test_every_turn_reads_only_what_is_new(new_service, memory):
    memory.set_fact("name", "Steve", "steve")
    client = Client(new_service())
    first = client.ask("Hello, what is my name?")

    for text in ("Is it?", "Are you sure?"):
        seen = first.end().prompt_tokens + first.end().generated_tokens
        first = client.ask(text)
        assert first.end().reused_tokens >= seen - 1
        assert first.draft.message.sent == f"{text}\n\n[facts: name=Steve]"


def test_tails_are_the_same_after_a_restart_though_the_facts_have_changed(new_service, memory):
    memory.set_fact("name", "Steve", "steve")
    client = Client(new_service())
    client.ask("Hello")
    memory.set_fact("name", "Stephen", "steve")
    client.service = new_service()

    turn = client.ask("And now?")

    sent = [message.sent for message in turn.draft.prompt if message.role == "user"]
    assert sent == ["Hello\n\n[facts: name=Steve]", "And now?\n\n[facts: name=Stephen]"]


def test_one_conversation_is_one_session_and_is_not_recalled_within_itself(new_service, memory):
    client = Client(new_service())
    client.ask("My boat is called Mary and lies in Hamburg.")

    within = client.ask("Where does my boat lie?")
    elsewhere = Client(new_service()).ask("Where does my boat lie?")

    [other, own] = memory.list_sessions("steve")
    assert [m.raw for m in memory.load_session(own.id, "steve") if m.role == "user"] == [
        "My boat is called Mary and lies in Hamburg.",
        "Where does my boat lie?",
    ]
    assert other.n_messages == 2
    assert not within.injection
    assert "Hamburg" in elsewhere.injection.tail


def test_oldest_turns_leave_a_full_window_many_at_once_and_at_the_same_place_again(new_service, memory):
    # What is recalled of the turns that left depends on the seconds between them.
    client = Client(new_service(rag_context_injection=False))
    kept = []
    for i in range(14):
        turn = client.ask(f"The quick brown fox number {i} jumps over the lazy dog.")
        kept.append(turn.history.first_kept(turn.draft))
        client.service = new_service(rag_context_injection=False) if i % 3 == 2 else client.service

    places = sorted(set(kept))
    # Not one turn later with every request: two turns leave at a time.
    assert len(places) > 1
    assert min(after - before for before, after in pairwise(places)) >= 4
    assert kept == sorted(kept)
    assert turn.end().evicted_turns == places[-1] // 2
    found = memory.search("fox number 0", user_id="steve", max_results=20)
    assert any("number 0 " in memory.question for memory in found)


def test_message_that_does_not_fit_alone_is_refused_and_nothing_is_kept(new_service, memory):
    client = Client(new_service())
    client.ask("Hello")

    with pytest.raises(ContextOverflowError):
        client.ask("the lazy dog " * 400)

    [session] = memory.list_sessions("steve")
    assert session.n_messages == 2


def test_tail_has_fewer_facts_where_there_is_no_room_for_all(new_service, memory):
    for i in range(40):
        memory.set_fact(f"fact{i:02}", "the quick brown fox", "steve")

    turn = Client(new_service()).ask("the lazy dog " * 40)

    assert 0 < len(turn.injection.facts) < 40


@pytest.mark.parametrize(
    "fields", [{"user": "unknown"}, {"user": ""}, {"user": "steve", "uses_memory": False}]
)
def test_nobody_and_those_who_do_not_want_it_have_no_memory(new_service, memory, fields):
    memory.set_fact("name", "Steve", "steve")
    memory.set_fact("name", "Nobody", "nobody-by-default")

    turn = Client(new_service(), **fields).ask("My boat is called Mary.")

    assert turn.draft.message.sent == "My boat is called Mary."
    assert turn.draft.snapshot.system.text == "Hi."
    for user in ("steve", "unknown", "", "nobody-by-default"):
        assert memory.list_sessions(user) == []
        assert memory.count_memories(user) == 0


def test_clients_own_instructions_stand_first_and_know_of_the_tail(new_service):
    client = Client(new_service())
    client.messages = [Message("system", "You are a pirate."), Message("system", "Be brief.")]

    turn = client.ask("Hello")

    assert turn.draft.snapshot.system.text.startswith("You are a pirate.\n\nBe brief.\n\n")
    assert "[facts:" in turn.draft.snapshot.system.text
    assert [message.role for message in turn.draft.prompt] == ["system", "user"]


class Leaving(threading.Event):
    """Set from the check after so many on."""

    def __init__(self, n_checks: int) -> None:
        super().__init__()
        self._left = n_checks

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize("n_checks", [0, 1])
def test_a_client_that_left_before_the_answer_began_costs_no_tokens(new_service, n_checks):
    service = new_service()
    request = ChatRequest((Message("user", "My boat is called Mary."),), "steve")

    with pytest.raises(Denied) as caught:
        service.begin(request, cancelled=Leaving(n_checks))

    assert (caught.value.status, service.models.n_lent) == (499, 0)


def test_answer_that_is_broken_off_is_kept_as_far_as_it_came(new_service, memory):
    service = new_service(max_tokens=400)
    turn = service.begin(ChatRequest((Message("user", "My boat is called Mary."),), "steve"))
    first = next(turn.reply)

    turn.reply.cancel()
    stats = turn.end()

    [session] = memory.list_sessions("steve")
    said = memory.load_session(session.id, "steve")
    assert stats.finish_reason == "cancelled"
    assert said[0].raw == "My boat is called Mary."
    assert said[1].raw.startswith(first)
    assert memory.count_memories("steve") == 0


def test_crowding_tails_are_stripped_at_once_and_stay_away(new_service, memory):
    for i in range(4):
        memory.set_fact(f"fact{i}", "the quick brown fox", "steve")
    client = Client(new_service(max_tokens=2))
    with_tail = []
    for i in range(6):
        turn = client.ask(f"Number {i}?")
        with_tail.append(sum("[facts:" in message.sent for message in turn.draft.prompt[1:]))

    assert max(with_tail) > 1
    assert any(later < earlier for earlier, later in pairwise(with_tail))
    assert min(with_tail) >= 1
