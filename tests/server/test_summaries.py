"""A stateless client's conversation is summed up as a chat's is, and continues behind its summary."""

from __future__ import annotations

import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.prompt import Summarizer
from shepherd.providers import ProviderSettings
from shepherd.server.chat import ChatRequest
from shepherd.server.models import Models
from shepherd.server.turns import Conversations
from shepherd.trace import Traces
from shepherd.types import Message

ANSWER = "Hello, I am a shepherd. Café is open today!"
SUMMARY = f"[Conversation summary: {ANSWER}"
CONFIG = Config(temperature=0.0, max_tokens=64, rag_context_injection=False, system_prompt="Be brief.")


@pytest.fixture(scope="module")
def engine(scripted_model):
    with Engine(scripted_model, settings=EngineSettings(n_ctx=1024, n_threads=1, slots=2)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def summarizer(engine):
    summarizer = Summarizer(lambda: engine.sibling(n_ctx=1024), max_tokens=64, queues=True)
    yield summarizer
    summarizer.close()


class Client:
    def __init__(self, engine, memory, summarizer):
        served = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        self.messages, self.summarizer = [], summarizer
        self.start = lambda: Conversations(served, memory=memory, config=CONFIG, summarizer=summarizer)
        self.service = self.start()

    def ask(self, text):
        request = ChatRequest((*self.messages, Message("user", text)), "steve")
        turn = self.service.begin(request)
        for _ in turn.reply:
            pass
        turn.end()
        self.messages = [*request.messages, Message("assistant", turn.answer.raw)]
        if self.summarizer is not None and turn.planner.compaction.pending is not None:
            assert turn.planner.compaction.wait(60)
        return turn

    def talk_until_turns_left(self):
        for number in range(60):
            turn = self.ask(f"The house number {number} in our street belongs to {number} cats.")
            if turn.stats.evicted_turns:
                return turn
        raise AssertionError("nothing left")


def test_turns_that_leave_are_summed_up(engine, memory, summarizer):
    client = Client(engine, memory, summarizer)

    turn = client.talk_until_turns_left()

    assert SUMMARY in turn.draft.snapshot.system.text
    assert turn.stats.evicted_turns == turn.draft.snapshot.summary.n_turns
    [session] = memory.list_sessions("steve")
    traces = Traces(memory.transactions, "steve")
    history = f"/context/{session.id}/{traces.last_turn(session.id):06}/history"
    assert ANSWER in str(traces.get(f"{history}/summary"))


def test_summary_stays_byte_for_byte_also_after_a_restart(engine, memory, summarizer):
    client = Client(engine, memory, summarizer)
    left = client.talk_until_turns_left()
    within = client.ask("And now?")
    client.service = client.start()

    after = client.ask("And then?")

    system = left.draft.snapshot.system.text
    assert within.draft.snapshot.system.text == after.draft.snapshot.system.text == system
    assert within.stats.reused_tokens >= left.stats.prompt_tokens


def test_edited_conversation_has_no_summary_of_what_was_edited(engine, memory, summarizer):
    client = Client(engine, memory, summarizer)
    client.talk_until_turns_left()
    client.messages = [Message("user", "Something else."), *client.messages[1:4]]

    turn = client.ask("And now?")

    assert "[Conversation summary" not in turn.draft.snapshot.system.text


def test_without_a_summarizer_turns_leave_without_one(engine, memory):
    turn = Client(engine, memory, None).talk_until_turns_left()

    assert "[Conversation summary" not in turn.draft.snapshot.system.text
