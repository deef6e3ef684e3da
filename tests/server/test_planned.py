"""Conversations that come in whole get a chat's plan: passages, open nodes, entities, background, a trace."""

from __future__ import annotations

import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.chat import ChatRequest
from shepherd.server.models import Models
from shepherd.server.stateless import Plans
from shepherd.server.turns import Conversations
from shepherd.trace import Traces
from shepherd.types import Message

LOCAL = ProviderSettings("local", "llamacpp")
COMETS = "A comet is a lump of ice that comes from the cold and grows a tail of dust near the sun."


@pytest.fixture(scope="module")
def engine(endless_model):
    with Engine(endless_model, settings=EngineSettings(n_ctx=8192, slots=2, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="nobody-by-default") as memory:
        yield memory


@pytest.fixture
def knowledge(memory):
    return Knowledge(memory.transactions, "steve")


@pytest.fixture
def new_service(engine, memory):
    """A service as after a restart."""

    def make(**settings):
        config = Config(
            **{"temperature": 0, "max_tokens": 12, "knowledge_relevance_threshold": 0.1, **settings}
        )
        return Conversations(Models(LOCAL, name="tiny", engine=engine), memory=memory, config=config)

    return make


class Client:
    """One that keeps the texts alone."""

    def __init__(self, service, user="steve", system=""):
        self.service, self.user = service, user
        self.messages = [Message("system", system)] if system else []

    def ask(self, text):
        self.messages.append(Message("user", text))
        turn = self.service.begin(ChatRequest(tuple(self.messages), self.user))
        for _ in turn.reply:
            pass
        turn.end()
        self.messages.append(Message("assistant", turn.reply.text))
        return turn


def sent(turn):
    return [message.sent for message in turn.draft.prompt if message.role == "user"]


def test_passages_and_open_nodes_come_behind_the_message_and_stay_there_byte_for_byte(new_service, knowledge):
    node = knowledge.add_node("Comets", source_text=COMETS)
    knowledge.focus([node.id])
    client = Client(new_service())

    [first] = sent(client.ask("What is a comet made of?"))
    knowledge.focus([])
    client.service = new_service()
    again, second = sent(client.ask("Is the comet cold?"))

    assert first.startswith("What is a comet made of?\n\n=== KNOWLEDGE ===\n\nSource: Comets")
    assert COMETS in first
    assert "=== FOCUSED NODES ===" in first
    assert again == first
    # The passage stands above, and is not repeated; nothing is open any more.
    assert second == "Is the comet cold?"


def test_workflows_are_those_of_the_first_message(new_service, knowledge):
    knowledge.add_node("Weekly review", kind="workflow", description="Sums up the week")
    client = Client(new_service())
    first = client.ask("Hello").draft.prompt[0].sent
    knowledge.add_node("Monthly review", kind="workflow")
    client.service = new_service()

    assert '"Weekly review"] Sums up the week' in first
    assert client.ask("And now?").draft.prompt[0].sent == first


def test_every_turn_with_knowledge_reads_only_what_is_new(new_service, knowledge):
    knowledge.add_node("Comets", source_text=COMETS)
    knowledge.add_node("Dust", source_text="Dust of a comet's tail is fine and grey.")
    client = Client(new_service(context_entities=True))
    before = client.ask("What is a comet, my friend Anna from Austin asks.").end()

    for text in ("What is its tail made of?", "Is dust grey?", "Where does she live?"):
        seen = before.prompt_tokens + before.generated_tokens
        before = client.ask(text).end()
        assert before.reused_tokens >= seen - 1


def test_entities_of_the_talk_are_told_after_a_restart_as_before(new_service):
    client = Client(new_service(context_entities=True))
    client.ask("My sister Anna works at Acme.")
    bare = list(client.messages)

    told = sent(client.ask("Where does she work?"))[-1]
    client.service, client.messages = new_service(context_entities=True), bare
    again = sent(client.ask("Where does she work?"))[-1]

    assert "=== ENTITIES ===\n• Anna (Person)\n  Related: sister of the user, works at Acme" in told
    assert again == told


def test_entities_outlast_the_messages_that_are_read_again_as_long_as_the_server_runs(new_service):
    client = Client(new_service(context_entities=True))
    client.ask("My friend Anna lives in Austin.")
    for _ in range(13):
        client.ask("Thanks.")
    restarted = Client(new_service(context_entities=True))
    restarted.messages = [Message(one.role, one.raw) for one in client.messages]

    told, told_by_another = (sent(one.ask("Where does Anna live?"))[-1] for one in (client, restarted))

    assert "Austin" in told
    assert "Austin" not in told_by_another  # it has read 24 messages, and not the first


def test_an_edited_conversation_is_about_whom_it_speaks_of_now(new_service):
    client = Client(new_service(context_entities=True))
    client.ask("My sister Anna works at Acme.")
    client.messages = []
    client.ask("My sister Maria works at Globex.")

    told = sent(client.ask("Where does she work?"))[-1]

    # Memory still knows what was said before.
    entities = told.partition("=== ENTITIES ===")[2]
    assert "Maria" in entities
    assert "Anna" not in entities


def test_background_stays_as_it_was_when_the_conversation_began_and_what_changes_is_told_once(
    new_service, knowledge
):
    [hub, *others] = [knowledge.add_node(title) for title in ("Hub", "One", "Two", "Three", "Four")]
    for other in others[:2]:
        knowledge.connect(hub.id, other.id, "belongs to it")
    settings = {"auto_context_enabled": True, "auto_context_limit": 1}
    client = Client(new_service(**settings))
    first = client.ask("Hello.")

    for other in (hub, *others[:2], others[3]):
        knowledge.connect(others[2].id, other.id, "belongs to it, too")
    client.service = new_service(**settings)
    second, third = client.ask("Hello again."), client.ask("And again.")

    assert f'[NODE:{hub.id}:"Hub"]' in first.draft.snapshot.system.text
    assert (
        second.draft.snapshot.system.text
        == third.draft.snapshot.system.text
        == first.draft.snapshot.system.text
    )
    assert "Background context has changed: " in sent(second)[-1]
    assert '"Three"' in sent(second)[-1]
    assert sent(third)[-1] == "And again."


def test_what_a_client_says_for_itself_takes_the_place_of_what_is_set(new_service):
    service = new_service(system_prompt="Ours.", personality="conversational", answer_style="formal")

    own = Client(service, system="Yours.").ask("Hello.").draft.snapshot.system.text
    ours = Client(service).ask("Hello.").draft.snapshot.system.text

    assert own.startswith("Yours.")
    assert "Ours." not in own
    assert "formally" not in own
    assert ours.startswith("Ours.\n\nYou are a friendly companion")
    assert "Write formally." in ours


def test_each_turn_leaves_a_trace_of_what_the_model_was_shown(new_service, memory, knowledge):
    memory.set_fact("name", "Steve", "steve")
    knowledge.add_node("Comets", source_text=COMETS)
    client = Client(new_service())
    client.ask("What is a comet made of?")
    turn = client.ask("Thank you.")

    [session] = memory.list_sessions("steve")
    traces = Traces(memory.transactions, "steve")
    root = f"/context/{session.id}"
    assert traces.last_turn(session.id) == 1
    assert traces.get(f"{root}/000000/rag/chunks_selected") == 1
    titles = traces.matching(f"{root}/000000/rag/chunks/*/doc_title")
    assert [title for _, title in titles] == ["Comets"]
    assert traces.get(f"{root}/000000/tail/facts/name") == "Steve"
    assert traces.get(f"{root}/000001/history/verbatim_count") == 1
    history = turn.reply.prompt_tokens_per_message[1:-1]
    assert traces.get(f"{root}/000001/history/total_tokens") == sum(history)


def test_what_was_planned_by_its_bytes_is_counted_for_the_trace(new_service, memory, engine):
    memory.set_fact("name", "Steve", "steve")
    client = Client(new_service())

    turn = client.ask("Who am I?")

    [session] = memory.list_sessions("steve")
    budget = f"/context/{session.id}/000000/budget"
    traces = Traces(memory.transactions, "steve")
    assert traces.get(f"{budget}/facts") == engine.count_tokens("\n\n[facts: name=Steve]")
    assert traces.get(f"{budget}/query") == engine.count_tokens("Who am I?") + 8  # and its frame
    assert turn.draft.plan.total_tokens > 0


def test_a_plan_is_as_quick_as_the_users_last_one_was(new_service, memory):
    draft = Client(new_service()).ask("Who am I?").draft
    plans = Plans(memory, Config(), tells_private=True)

    told = [plans.is_quick("steve")]
    for cpu_s in (0.0005, 0.5, 0.0005):
        plans.record_cost("steve", draft, cpu_s)
        told.append(plans.is_quick("steve"))

    assert told == [False, True, False, True]
    assert not plans.is_quick("anna")


def test_nobody_has_no_plan_and_leaves_no_trace(new_service, memory):
    turn = Client(new_service(), user="unknown").ask("What is a comet made of?")

    assert turn.planner is None
    assert Traces(memory.transactions, "unknown").children() == []


def test_of_two_users_each_has_his_own_documents(new_service, knowledge):
    knowledge.add_node("Comets", source_text=COMETS)

    turn = Client(new_service(), user="maria").ask("What is a comet made of?")

    assert sent(turn) == ["What is a comet made of?"]
