"""The service behind all chat APIs, called directly: what begins at once, is kept, and is given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.template import TemplateOptions
from shepherd.memory import Memory
from shepherd.prompt.ledger import conversation_hashes
from shepherd.providers import ProviderSettings
from shepherd.server.chat import ChatRequest, delete_replaced
from shepherd.server.errors import Denied
from shepherd.server.models import Models
from shepherd.server.turns import Conversations, ServedTurn, _joined
from shepherd.turn import Turn
from shepherd.types import Message, Picture, ReplySchema, Tool
from tests.vision_models import png

ANSWER = "Hello, I am a shepherd. Café is open today!"
LOOK = Tool("look", "Looks", {"type": "object", "properties": {}})
HI = (Message("user", "Hello you"),)


@pytest.fixture(scope="module")
def engine(scripted_model) -> Iterator[Engine]:
    with Engine(scripted_model, settings=EngineSettings(n_ctx=1024, n_threads=1, slots=3)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="nobody-by-default") as memory:
        yield memory


@pytest.fixture
def service_of(engine) -> Callable[..., Conversations]:
    """A service as after a restart."""

    def make(memory: Memory | None = None, *, config: Config | None = None, **options: Any) -> Conversations:
        models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        config = config or Config(temperature=0.0, max_tokens=64)
        return Conversations(models, memory=memory, config=config, **options)

    return make


def asked(*messages: Message, user: str = "steve", **fields: Any) -> ChatRequest:
    return ChatRequest(messages or HI, user, **fields)


def answered(service: Conversations, request: ChatRequest) -> ServedTurn:
    turn = service.begin(request)
    for _ in turn.reply:
        pass
    turn.end()
    return turn


# ---- what begins on the event loop


@pytest.mark.parametrize(
    ("fields", "at_once"),
    [
        ({}, True),
        ({"tools": (LOOK,)}, False),
        ({"memory_tools": True}, False),
        ({"schema": ReplySchema({"type": "object"})}, False),
        ({"n": 2}, False),
        ({"grammar": 'root ::= "a"'}, False),
        ({"prefill": "Well"}, False),
        ({"template": TemplateOptions(thinks=True)}, False),
        ({"logprobs": 1}, True),
    ],
)
def test_plain_requests_begin_at_once(service_of, fields, at_once):
    assert service_of().begins_at_once(asked(**fields)) is at_once


def test_long_texts_and_pictures_begin_on_a_thread(service_of):
    service = service_of()
    half = 16_384 // 2
    texts = [Message("user", "x" * half), Message("assistant", "y", thought="z" * (half - 1))]

    assert service.begins_at_once(asked(*texts))
    assert not service.begins_at_once(asked(*texts, Message("user", "x")))
    picture = Message("user", "see", pictures=(Picture(png("red")),))
    assert not service.begins_at_once(asked(picture))


def test_with_a_memory_only_users_whose_last_plan_was_quick_begin_at_once(service_of, memory):
    service = service_of(memory)
    quick, private = asked(), asked(uses_memory=False)

    assert not service.begins_at_once(quick)
    assert service.begins_at_once(private)
    assert service.begins_at_once(asked(user=""))
    service._plans._cost_s.put("steve", 0.001)
    assert service.begins_at_once(quick)
    service._plans._cost_s.put("steve", 0.01)
    assert not service.begins_at_once(quick)
    service.models.engine = None
    assert not service.begins_at_once(private)


# ---- what is kept


def test_a_turn_is_kept_of_users_with_a_memory_that_is_written(service_of, memory):
    assert service_of(memory).keeps(asked())
    assert not service_of(memory).keeps(asked(uses_memory=False))
    assert not service_of(memory).keeps(asked(user=""))
    assert not service_of(memory, writes_memory=False).keeps(asked())
    assert not service_of(None).keeps(asked())


def test_a_turn_is_stored_once_and_its_model_given_back(service_of, memory):
    service = service_of(memory)
    turn = service.begin(asked())
    for _ in turn.reply:
        pass
    assert service.models.n_lent == 1
    stats = turn.end()

    assert turn.end() is stats
    assert service.models.n_lent == 0
    [session] = memory.list_sessions("steve")
    assert turn.stored.session == session.id
    assert [m.raw for m in memory.load_session(session.id, user_id="steve")] == ["Hello you", ANSWER]


def test_what_failed_is_not_stored(service_of, memory):
    service = service_of(memory)
    turn = service.begin(asked())
    for _ in turn.reply:
        pass
    turn.end(failed=True)

    assert memory.list_sessions("steve") == []
    assert service.models.n_lent == 0


def test_a_cancelled_answer_is_stored_and_becomes_no_memory(endless_model, memory):
    told = asked(Message("user", "My boat is a ketch called Nora."))
    settings = EngineSettings(n_ctx=2048, n_threads=1)
    with Engine(endless_model, settings=settings) as engine:
        models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        service = Conversations(models, memory=memory, config=Config(max_tokens=1500))
        turn = service.begin(told)
        next(iter(turn.reply))
        turn.cancel()
        stats = turn.end()

    assert stats.finish_reason == "cancelled"
    assert len(memory.list_sessions("steve")) == 1
    assert memory.count_memories("steve") == 0


# ---- answers that are used again


def spoken(service: Conversations, talk: tuple[Message, ...], session: str = "") -> list[Message]:
    turn = answered(service, asked(*talk, Message("user", "And you?"), session=session))
    return turn.history.messages


def test_an_answer_comes_back_with_the_ids_that_were_sampled(service_of, memory):
    service = service_of(memory)
    first = answered(service, asked())
    talk = (*HI, Message("assistant", ANSWER))

    same = spoken(service, talk)
    edited = spoken(service, (*HI, Message("assistant", ANSWER + "!")))
    of_another = answered(service, asked(*talk, Message("user", "And you?"), user="ben")).history.messages

    assert same[1].token_ids == first.answer.token_ids != ()
    assert same[1].tokens >= len(first.answer.token_ids)
    assert same[0].tokens > 0
    assert edited[1].token_ids == ()
    assert of_another[1].token_ids == ()
    assert talk[1].token_ids == ()


def test_counts_of_the_engine_are_known_for_the_next_request(service_of, memory):
    service = service_of(memory)
    turn = answered(service, asked())
    request = asked(*HI, Message("assistant", ANSWER), Message("user", "And you?"))
    hashes = conversation_hashes(request.messages)

    restored = service._restored(request, hashes).messages
    of_another = service._restored(replace(request, user_id="ben"), hashes).messages

    assert restored[0].tokens == turn.history.messages[0].tokens > 0
    assert restored[1].tokens == len(turn.answer.token_ids) > 0
    assert restored[2].tokens == 0
    assert [message.tokens for message in of_another] == [0, 0, 0]


def test_the_time_of_recall_is_in_milliseconds(service_of, memory):
    memory.set_fact("name", "Steve", "steve")
    turn = service_of(memory).begin(asked(Message("user", "What is my name?")))
    for _ in turn.reply:
        pass

    assert turn.end().recall_ms == turn.injection.recall_us / 1000 > 0


def test_after_a_restart_the_ids_are_read_from_the_memory(service_of, memory):
    first = answered(service_of(memory), asked())
    talk = (*HI, Message("assistant", ANSWER))

    assert spoken(service_of(memory), talk)[1].token_ids == first.answer.token_ids
    assert spoken(service_of(None), talk)[1].token_ids == ()
    service = service_of(memory)
    service._recovered.put(("steve", first.stored.session), True)  # read once
    assert spoken(service, talk)[1].token_ids == ()


def test_the_next_turn_reads_only_what_is_new(service_of, memory):
    service = service_of(memory)
    before = answered(service, asked()).stats
    after = answered(service, asked(*HI, Message("assistant", ANSWER), Message("user", "And you?"))).stats

    assert after.reused_tokens >= before.prompt_tokens + before.generated_tokens - 1


# ---- several answers


def test_several_answers_share_a_prompt_and_the_first_is_stored(service_of, memory):
    service = service_of(memory)
    first = service.begin(asked(n=3))
    others = first.others
    assert service.models.n_lent == 3
    for turn in (first, *others):
        for _ in turn.reply:
            pass
        turn.end()

    assert [turn.answer.raw for turn in (first, *others)] == [ANSWER] * 3
    assert service.models.n_lent == 0
    [session] = memory.list_sessions("steve")
    assert session.n_messages == 2
    assert [bool(turn.stored.session) for turn in others] == [False, False]
    assert [turn.stats.recall_ms == 0 for turn in others] == [True, True]


def test_if_one_of_several_cannot_begin_none_goes_on(service_of, memory, monkeypatch):
    service = service_of(memory)
    another, calls = Turn.another, []

    def fail(turn: Turn, i: int) -> Turn:
        calls.append(i)
        if i == 2:
            raise Denied(503, "busy", "no slot")
        return another(turn, i)

    monkeypatch.setattr(Turn, "another", fail)
    with pytest.raises(Denied, match="no slot"):
        service.begin(asked(n=3))

    assert calls == [1, 2]
    assert service.models.n_lent == 0
    assert memory.list_sessions("steve") == []


# ---- the memory's tools, and what is replaced


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"prefill": "Well"}, "messages", "invalid_request"),
        ({"uses_memory": False}, "memory_tools", "invalid_request"),
        ({"n": 2}, "n", "invalid_request"),
        ({"user": ""}, "user", "no_user"),
        ({"tools": (Tool("search_memory", "", {}),)}, "tools", "invalid_request"),
    ],
)
def test_memory_tools_that_cannot_be_had_are_refused(service_of, memory, fields, param, code):
    names = {tool.name for tool in service_of(memory)._toolbox(asked(memory_tools=True)).tools}
    if "tools" in fields:
        fields = {"tools": (replace(fields["tools"][0], name=min(names)),)}
    with pytest.raises(Denied) as caught:
        service_of(memory)._toolbox(asked(memory_tools=True, **fields))

    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)


def test_memory_tools_are_there_where_they_are_asked_for(service_of, memory):
    assert service_of(memory)._toolbox(asked()) is None
    writing = service_of(memory)._toolbox(asked(memory_tools=True, tools=(LOOK,))).tools
    with pytest.raises(Denied) as caught:
        service_of(None)._toolbox(asked(memory_tools=True))

    assert len(writing) > 1
    assert caught.value.code == "no_memory"


def test_messages_that_a_request_replaces_are_deleted(service_of, memory):
    answered(service_of(memory), asked(session="talk"))
    session = memory.find_session("talk", "steve")

    delete_replaced(memory, asked(session="other", replaces=1))
    delete_replaced(None, asked(session="talk", replaces=1))
    assert len(memory.load_session(session, user_id="steve")) == 2
    delete_replaced(memory, asked(session="talk", replaces=2))
    assert [m.raw for m in memory.load_session(session, user_id="steve")] == ["Hello you"]


# ---- small things


def test_tokens_of_a_prompt_are_those_of_the_engine(service_of, engine):
    messages = [Message("user", "Hello you")]

    assert service_of().count_tokens(messages) == engine.count_prompt_tokens(messages, ())
    assert service_of().count_tokens(messages, [LOOK]) > service_of().count_tokens(messages)


def test_a_client_that_has_gone_gets_nothing(service_of):
    gone = threading.Event()
    gone.set()
    service = service_of()
    with pytest.raises(Denied) as caught:
        service.begin(asked(), cancelled=gone)

    assert caught.value.status == 499
    assert service.models.n_lent == 0


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a\n\nb"),
        (["", "b"], "b"),
        (["a", ""], "a"),
        ([" ", "b"], " b"),
        (["a", "", "b"], "a\n\nb"),
    ],
)
def test_replies_are_joined_by_a_blank_line(texts, whole):
    assert _joined(texts) == whole
