"""A chat and a stateless client have the same turns: what is sent, what is stored, what is evicted."""

from __future__ import annotations

import json
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shepherd.assistant import Assistant, Delta, Finished
from shepherd.config import Config
from shepherd.errors import ContextOverflowError
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings, open_remote
from shepherd.providers.accounting import RatioStore
from shepherd.providers.exchange import RetryPolicy
from shepherd.server.chat import ChatRequest
from shepherd.server.models import Models
from shepherd.server.turns import Conversations
from shepherd.types import Message
from tests import models
from tests.examples import examples
from tests.providers import upstream

WINDOW = 3000
CALL = json.dumps({"name": "search_memory", "arguments": {"query": "dogs"}})
CONFIG = Config(
    temperature=0.0, max_tokens=200, memory_tools=True, context_entities=False, system_prompt="Answer."
)
USER = "steve"
# Instead of a text: the program starts again, and the conversation continues.
RESTART = "\0"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Thinks, searches the memory, and answers what it has found."""
    path = tmp_path_factory.mktemp("searching") / "searching.gguf"
    script = ["I look.", "<tool_call>", CALL, "</tool_call>"]
    models.scripted(path, script, after_tab=("Done.",), template=models.TOOL_TEMPLATE)
    with Engine(path, settings=EngineSettings(n_threads=1, slots=2, n_ctx=WINDOW)) as engine:
        yield engine


@dataclass
class Seen:
    """What one face did: the messages of each prompt, what it stored, and its answers."""

    prompts: list[list[tuple[str, str]]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    stored: list[tuple[str, str]] = field(default_factory=list)
    memories: list[tuple[str, str]] = field(default_factory=list)


class Clock:
    """The time in both runs, ten seconds a turn: times decide what may be recalled."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000.0
        patch.setattr(time, "time", lambda: self.now)

    def turns(self, texts):
        for text in texts:
            self.now += 10
            yield text


def note_prompts(patch: pytest.MonkeyPatch, seen: Seen) -> None:
    generate = Engine.generate

    def noted(engine, messages, **options):
        reply = generate(engine, messages, **options)
        seen.prompts.append([(message.role, message.sent) for message in messages])
        return reply

    patch.setattr(Engine, "generate", noted)


def with_memories(path, n_chars: int) -> Memory:
    memory = Memory(path, user_id=USER, clock=lambda: time.time())  # noqa: PLW0108 - it is replaced later
    for i in range(6 if n_chars else 0):
        memory.store_memory(f"question {i} about dogs", ("\u2200x\u2203y " * n_chars)[:n_chars])
    return memory


def note_stored(seen: Seen, memory: Memory) -> None:
    for session in memory.list_sessions(USER):
        seen.stored += [(m.role, m.sent) for m in memory.load_session(session.id, USER)]
    seen.memories = sorted((m.question, m.answer) for m in memory.list_memories(USER))


def in_chat(engine, path, texts, *, n_chars=0, **changes) -> Seen:
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch, with_memories(path, n_chars) as memory:
        clock = Clock(patch)
        note_prompts(patch, seen)
        config = replace(CONFIG, **changes)
        assistant = Assistant(engine, memory, config=config, user_id=USER)
        for text in clock.turns(texts):
            if text == RESTART:
                assistant = Assistant(engine, memory, config=config, user_id=USER)
                assistant.resume()
                continue
            try:
                finished = list(assistant.ask(text))[-1]
            except ContextOverflowError:
                seen.answers.append("overflow")
                continue
            assert isinstance(finished, Finished)
            seen.answers.append(finished.answer)
        note_stored(seen, memory)
    return seen


def over_the_api(engine, path, texts, *, n_chars=0, **changes) -> Seen:
    seen, messages = Seen(), []
    with pytest.MonkeyPatch.context() as patch, with_memories(path, n_chars) as memory:
        clock = Clock(patch)
        note_prompts(patch, seen)
        config = replace(CONFIG, **changes)
        served = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        service = Conversations(served, memory=memory, config=config)
        for text in clock.turns(texts):
            if text == RESTART:
                service = Conversations(served, memory=memory, config=config)
                continue
            asked = Message("user", text)
            request = ChatRequest((*messages, asked), USER, memory_tools=config.memory_tools)
            try:
                turn = service.begin(request)
            except ContextOverflowError:
                seen.answers.append("overflow")
                continue
            reply = turn.reply
            while reply is not None:
                for _ in reply:
                    pass
                reply = turn.next_reply()
            turn.end()
            messages += [asked, Message("assistant", turn.answer.raw)]
            seen.answers.append(turn.last_text)
        note_stored(seen, memory)
    return seen


def test_results_of_tools_that_fill_the_window_are_cut_alike(engine, tmp_path):
    chat = in_chat(engine, tmp_path / "chat.db", ["What about my dogs?"], n_chars=12_000)
    api = over_the_api(engine, tmp_path / "api.db", ["What about my dogs?"], n_chars=12_000)

    assert chat == api
    assert chat.answers == ["Done."]
    [_, (_, *_, (role, result))] = chat.prompts
    assert role == "tool"
    assert result.startswith('{"cut": ')
    assert [role for role, _ in chat.stored] == ["user", "assistant", "tool", "assistant"]


@settings(max_examples=examples(8))
@given(n_chars=st.integers(0, 12_000), n_words=st.integers(1, 400))
def test_turns_with_tools_are_sent_stored_and_answered_alike(engine, tmp_path_factory, n_chars, n_words):
    folder = tmp_path_factory.mktemp("tools")
    texts = ["dogs " * n_words]

    chat = in_chat(engine, folder / "chat.db", texts, n_chars=n_chars)

    assert over_the_api(engine, folder / "api.db", texts, n_chars=n_chars) == chat


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    """Says the same to everything: what it says does not depend on rounding."""
    path = tmp_path_factory.mktemp("talking") / "talking.gguf"
    models.scripted(path, ["I see", ", that", " is", " green", " indeed", "."])
    with Engine(path, settings=EngineSettings(n_ctx=512, slots=2, n_threads=1)) as engine:
        yield engine


SUBJECTS = ("bicycle", "aunt Melinda", "harbour", "violin")
STATEMENTS = st.tuples(st.sampled_from(SUBJECTS), st.integers(1, 25)).map(
    lambda of: f"My {of[0]} is " + "green " * of[1]
)
QUESTIONS = st.sampled_from(SUBJECTS).map(lambda subject: f"Where is my {subject}?")
TOO_LONG = st.just("fits no window " * 400)
WITHOUT_TOOLS = {"max_tokens": 20, "memory_tools": False}


# The tokens of a message that had lost its tail were those with the tail, and a turn left too early.
@settings(max_examples=examples(25))
@example(
    texts=[
        "Where is my bicycle?",
        "My bicycle is green green green green green green ",
        "My bicycle is green ",
        "Where is my bicycle?",
        "Where is my aunt Melinda?",
        "My bicycle is green green green green green ",
        "My bicycle is green ",
        "Where is my aunt Melinda?",
    ]
)
@given(texts=st.lists(st.one_of(STATEMENTS, QUESTIONS, TOO_LONG), min_size=4, max_size=20))
def test_random_conversations_are_sent_stored_and_evicted_alike(talker, tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("same")

    chat = in_chat(talker, folder / "chat.db", texts, **WITHOUT_TOOLS)

    assert over_the_api(talker, folder / "api.db", texts, **WITHOUT_TOOLS) == chat


# Short: after a restart neither face knows the exact tokens of all messages, so that a window that is nearly
# full may be compacted one turn earlier or later.
@settings(max_examples=examples(15))
@given(texts=st.lists(st.one_of(QUESTIONS, st.just(RESTART)), min_size=2, max_size=4))
def test_conversations_that_continue_after_a_restart_are_alike(talker, tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("restarted")
    texts = ["My violin is green.", *texts]

    chat = in_chat(talker, folder / "chat.db", texts, **WITHOUT_TOOLS)

    assert over_the_api(talker, folder / "api.db", texts, **WITHOUT_TOOLS) == chat


# A turn is a text and how it goes: answered, ended by the user behind the first piece, or without memory.
ANSWERED, ENDED, PRIVATE = "answered", "ended", "private"
FIRST, REST = "I see", " that it is green."


def answers_until_ended(handler: upstream.Handler) -> None:
    """Think, answer, and wait behind the first piece of a message that is to be ended."""
    handler.begin()
    handler.event(upstream.chunk({"reasoning_content": "Green?"}))
    handler.event(upstream.chunk({"content": FIRST}))
    if "END" in handler.upstream.asked[-1].said:
        while not handler.upstream.ended.wait(0.01):
            handler.raw(b": still here\n\n")
    handler.event(upstream.chunk({"content": REST}))
    handler.event(upstream.chunk({}, "stop"))
    handler.event("[DONE]")


@contextmanager
def remote_provider(path):
    with upstream.running(answers_until_ended) as there:
        url = f"{there.url}/v1"
        yield there, ProviderSettings("work", "openai", model="m", base_url=url, memory=True, api_key="k")


def remote_model(provider, path, *, uses_memory=True):
    policy, ratios = RetryPolicy(1, first_s=0.001, longest_s=0.1), RatioStore(path.with_suffix(".ratios"))
    return open_remote(provider, asks_memory=lambda: uses_memory, policy=policy, ratios=ratios)


def prompts_of(there) -> list[list[tuple[str, str]]]:
    return [[(m["role"], m["content"]) for m in asked.body["messages"]] for asked in there.asked]


def remote_chat(path, turns) -> Seen:
    seen = Seen()
    with (
        pytest.MonkeyPatch.context() as patch,
        remote_provider(path) as (there, provider),
        with_memories(path, 0) as memory,
        closing(remote_model(provider, path)) as model,
    ):
        assistant = Assistant(model, memory, config=replace(CONFIG, **WITHOUT_TOOLS), user_id=USER)
        for how, text in Clock(patch).turns(turns):
            assistant.private = how == PRIVATE
            for event in assistant.ask(text):
                if how == ENDED and isinstance(event, Delta):
                    assistant.cancel()
            seen.answers.append(assistant.last.answer)
        note_stored(seen, memory)
        seen.prompts = prompts_of(there)
    return seen


def remote_api(path, turns) -> Seen:
    seen, messages = Seen(), []
    with (
        pytest.MonkeyPatch.context() as patch,
        remote_provider(path) as (there, provider),
        with_memories(path, 0) as memory,
    ):
        served = Models(
            provider, name="m", open_remote=lambda _, uses: remote_model(provider, path, uses_memory=uses)
        )
        with closing(served):
            service = Conversations(served, memory=memory, config=replace(CONFIG, **WITHOUT_TOOLS))
            for how, text in Clock(patch).turns(turns):
                asked = Message("user", text)
                request = ChatRequest((*messages, asked), USER, uses_memory=how != PRIVATE)
                turn = service.begin(request)
                for piece in turn.reply:
                    if how == ENDED and isinstance(piece, str):
                        turn.cancel()
                assert turn.next_reply() is None
                turn.end()
                messages += [asked, Message("assistant", turn.answer.raw)]
                seen.answers.append(turn.last_text)
            note_stored(seen, memory)
            seen.prompts = prompts_of(there)
    return seen


TURNS = st.one_of(
    st.tuples(st.just(ANSWERED), st.one_of(STATEMENTS, QUESTIONS)),
    st.tuples(st.just(ENDED), st.sampled_from(SUBJECTS).map(lambda subject: f"Tell me of my {subject}. END")),
    st.tuples(st.just(PRIVATE), STATEMENTS.map(lambda text: f"Between us: {text}")),
)


@settings(max_examples=examples(12))
@given(turns=st.lists(TURNS, min_size=2, max_size=7))
def test_ended_and_private_turns_are_sent_and_stored_alike(tmp_path_factory, turns):
    folder = tmp_path_factory.mktemp("remote")

    chat = remote_chat(folder / "chat.db", turns)
    api = remote_api(folder / "api.db", turns)

    for (how, _), sent, over_api in zip(turns, chat.prompts, api.prompts, strict=True):
        # A chat keeps the beginning of its prompt; a request without memory need not explain it.
        skipped = 1 if how == PRIVATE else 0
        assert over_api[skipped:] == sent[skipped:]
    assert api.answers == chat.answers == [FIRST if how == ENDED else FIRST + REST for how, _ in turns]
    assert api.stored == chat.stored
    assert api.memories == chat.memories
    assert not [text for _, text in chat.stored for how, said in turns if how == PRIVATE and said in text]
