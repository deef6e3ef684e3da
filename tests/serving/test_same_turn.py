"""A chat and a stateless client have the same turns: what is sent, what is stored, what is evicted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest

from shepherd.assistant import Assistant, Finished
from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.serving.chat_request import ChatRequest
from shepherd.serving.conversation import Conversations
from shepherd.serving.models import Models
from shepherd.types import Message
from tests import models

WINDOW = 3000
CALL = json.dumps({"name": "search_memory", "arguments": {"query": "dogs"}})
CONFIG = Config(
    temperature=0.0, max_tokens=200, memory_tools=True, context_entities=False, system_prompt="Answer."
)
USER = "steve"


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


def note_prompts(patch: pytest.MonkeyPatch, seen: Seen) -> None:
    generate = Engine.generate

    def noted(engine, messages, **options):
        reply = generate(engine, messages, **options)
        seen.prompts.append([(message.role, message.sent) for message in messages])
        return reply

    patch.setattr(Engine, "generate", noted)


def with_memories(path, n_chars: int) -> Memory:
    memory = Memory(path, user_id=USER)
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
        note_prompts(patch, seen)
        config = replace(CONFIG, **changes)
        assistant = Assistant(engine=engine, memory=memory, config=config, user_id=USER)
        for text in texts:
            finished = list(assistant.ask(text))[-1]
            assert isinstance(finished, Finished)
            seen.answers.append(finished.answer)
        note_stored(seen, memory)
    return seen


def over_the_api(engine, path, texts, *, n_chars=0, **changes) -> Seen:
    seen, messages = Seen(), []
    with pytest.MonkeyPatch.context() as patch, with_memories(path, n_chars) as memory:
        note_prompts(patch, seen)
        config = replace(CONFIG, **changes)
        served = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        service = Conversations(served, memory=memory, config=config)
        for text in texts:
            messages.append(Message("user", text))
            turn = service.begin(ChatRequest(tuple(messages), USER, memory_tools=config.memory_tools))
            reply = turn.reply
            while reply is not None:
                for _ in reply:
                    pass
                reply = turn.go_on()
            turn.end()
            messages.append(Message("assistant", turn.answer.raw))
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
