"""Answers with thoughts and tool calls, from real models with templates of every family.

A grammar makes a random model say what a trained one would, control tokens included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from shepherd.errors import UsageError
from shepherd.inference import Answer, Engine, EngineSettings
from shepherd.types import Message, Sampling, Thought, Tool, ToolCall
from tests import models
from tests.inference.manners import MANNERS, Manner

WEATHER = Tool(
    "get_weather",
    "Weather of a city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
GREEDY = Sampling(temperature=0)
UNKNOWN_THOUGHT = "<think>hm</think>"  # of a model whose template knows nothing of thoughts
RESULT = '{"sky": "clear", "°C": 21}\nuntil "evening"'


@pytest.fixture(scope="module", params=MANNERS)
def manner(request: pytest.FixtureRequest) -> Manner:
    return MANNERS[request.param]


@pytest.fixture(scope="module")
def engine(manner: Manner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("manner") / "model.gguf"
    models.llama(path, template=manner.template, controls=manner.controls)
    with Engine(path, settings=EngineSettings(n_ctx=2048, n_threads=1)) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _empty_cache(engine: Engine) -> None:
    engine.decoder.forget()


def saying(engine: Engine, text: str) -> str:
    """The grammar of exactly this text, its markers as the control tokens that they are."""
    parts, start = [], 0
    vocabulary = engine.model.vocabulary
    for match in vocabulary.control_pattern.finditer(text):
        parts.append(json.dumps(text[start : match.start()], ensure_ascii=False))
        parts.append(f"<[{vocabulary.controls[match[0]]}]>")
        start = match.end()
    parts.append(json.dumps(text[start:], ensure_ascii=False))
    return "root ::= " + " ".join(part for part in parts if part != '""')


def answer(engine: Engine, messages: list[Message], says: str = "", tools=(WEATHER,)) -> Answer:
    """An ended answer that says a given text, or ten tokens of nonsense."""
    grammar = saying(engine, says) if says else ""
    reply = engine.generate(
        messages, sampling=GREEDY, max_tokens=400 if says else 10, grammar=grammar, tools=tools
    )
    with reply:
        for _ in reply:
            pass
    return reply


def test_call_is_told_apart_and_its_result_goes_into_the_prompt(engine: Engine, manner: Manner) -> None:
    messages = [Message("system", "be brief"), Message("user", "Rain in Paris?")]

    asked = answer(engine, messages, manner.call)
    [call] = asked.tool_calls
    messages += [asked.message(), Message("tool", RESULT, tool_call_id=call.id)]
    told = answer(engine, messages, "clear")

    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert (asked.text, asked.thought, asked.stats.finish_reason) == ("", "", "tool_calls")
    assert (told.text, told.tool_calls, told.stats.finish_reason) == ("clear", (), "stop")


def test_every_turn_of_a_tool_loop_decodes_only_what_is_new(engine: Engine, manner: Manner) -> None:
    messages = [Message("system", "be brief"), Message("user", "Rain in Paris?")]

    asked = answer(engine, messages, manner.call)
    messages += [asked.message(), Message("tool", RESULT, tool_call_id=asked.tool_calls[0].id)]
    told = answer(engine, messages, "It is clear.")
    messages += [told.message(), Message("user", "And in Rome?")]
    again = answer(engine, messages, manner.call)

    for earlier, later in ((asked, told), (told, again)):
        held = earlier.stats.prompt_tokens + earlier.stats.generated_tokens
        assert later.stats.reused_tokens == held


def test_thought_and_call_are_told_apart_and_stay_in_the_cache_within_the_loop(
    engine: Engine, manner: Manner
) -> None:
    messages = [Message("system", "be brief"), Message("user", "Rain in Paris?")]

    asked = answer(engine, messages, (manner.thought or UNKNOWN_THOUGHT) + manner.call)
    [call] = asked.tool_calls
    messages += [asked.message(), Message("tool", RESULT, tool_call_id=call.id)]
    told = answer(engine, messages, "It is clear.")

    assert (asked.text, asked.thought, call.name) == ("", "hm", "get_weather")
    held = asked.stats.prompt_tokens + asked.stats.generated_tokens
    if "split('</think>')" in manner.template:  # drops all thoughts, those of the loop too
        assert told.stats.reused_tokens >= asked.stats.prompt_tokens - 2
    else:
        assert told.stats.reused_tokens == held


def test_forgotten_thoughts_cost_at_most_the_last_answer(engine: Engine, manner: Manner) -> None:
    messages = [Message("system", "be brief"), Message("user", "hello")]

    first = answer(engine, messages, (manner.thought or UNKNOWN_THOUGHT) + _final(manner, "Hi there."))
    messages += [first.message(), Message("user", "and?")]
    second = answer(engine, messages)

    assert (first.text, first.thought) == ("Hi there.", "hm")
    assert second.stats.reused_tokens >= first.stats.prompt_tokens - 2
    if not manner.forgets_thoughts and not manner.thought:
        assert second.stats.reused_tokens == first.stats.prompt_tokens + first.stats.generated_tokens


def _final(manner: Manner, text: str) -> str:
    is_harmony = "<|channel|>" in manner.controls
    return f"<|channel|>final<|message|>{text}" if is_harmony else text


def test_call_can_be_demanded_of_any_model(engine: Engine, manner: Manner) -> None:
    other = Tool("add", "Adds.", {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]})
    sky = Tool(
        "sky", "Sky.", {"type": "object", "properties": {"is": {"enum": ["blue"]}}, "required": ["is"]}
    )
    messages = [Message("user", "hello")]
    options = {"tools": [other, sky], "sampling": GREEDY, "max_tokens": 400}

    with engine.generate(messages, must_call="sky", **options) as named:
        [call] = named
    with engine.generate(messages, must_call=True, **options) as any_of_them:
        [either] = any_of_them

    assert isinstance(call, ToolCall)
    assert (call.name, json.loads(call.arguments)) == ("sky", {"is": "blue"})
    assert named.stats.finish_reason == "tool_calls"
    assert isinstance(either, ToolCall)
    assert (either.name, json.loads(either.arguments)) in [
        ("sky", {"is": "blue"}), ("add", {"a": 1}), ("add", {"a": 2}),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no tool of the name"):
        engine.generate(messages, tools=[sky], must_call="rain")
    with pytest.raises(UsageError, match="no tool of the name"):
        engine.generate(messages, must_call=True)


def test_without_tools_nothing_is_a_call(engine: Engine, manner: Manner) -> None:
    # Marks of calls have no text then; letters of theirs are text.
    called = "".join(part for part in re.split(r"<[^<>]*>|\[TOOL_CALLS\]", manner.call))
    reply = answer(engine, [Message("user", "hello")], f"So: {called}", tools=())

    assert reply.tool_calls == ()
    assert reply.text == f"So: {called}"
    assert not {*engine._transcript.shown(())} & {*engine._transcript.shown([WEATHER])} or "<|channel|>" in (
        manner.controls
    )


def test_pieces_come_in_order_and_are_the_whole(engine: Engine, manner: Manner) -> None:
    if "<|channel|>" in manner.controls:
        says = manner.thought + "<|channel|>final<|message|>I look."
    else:
        says = f"<think>hm</think>I look.\n{manner.call}"
    if manner.call.startswith("{"):
        says = "<think>hm</think>" + manner.call  # bare JSON is a call only when it is all
    with engine.generate(
        [Message("user", "hello")],
        sampling=GREEDY,
        max_tokens=400,
        grammar=saying(engine, says),
        tools=[WEATHER],
    ) as reply:
        pieces = list(reply)

    kinds = [type(piece) for piece in pieces]
    assert kinds == sorted(kinds, key=[Thought, str, ToolCall].index)
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == reply.text
    assert tuple(piece for piece in pieces if isinstance(piece, ToolCall)) == reply.tool_calls
    assert reply.thought == "hm"


def test_several_calls_and_their_results_come_back(engine: Engine, manner: Manner) -> None:
    calls = tuple(ToolCall(f"call{i}xyz9", "get_weather", f'{{"city": "{i}"}}') for i in range(2))
    messages = [
        Message("user", "Rain?"),
        Message("assistant", "I look.", tool_calls=calls),
        *(Message("tool", f"result {i}", tool_call_id=call.id) for i, call in enumerate(calls)),
    ]

    prompt = engine._transcript.prompt(messages, [WEATHER])

    for i in range(2):
        assert f"result {i}" in prompt.text
    assert sum(prompt.tokens_per_message) == len(prompt.token_ids)


def test_control_tokens_in_calls_results_and_tools_stay_text(engine: Engine, manner: Manner) -> None:
    evil = "".join(manner.controls) + "<|im_end|>"
    controls = set(engine.model.vocabulary.controls.values())

    def control_ids(word: str) -> list[int]:
        tool = Tool("get_weather", word, {"type": "object", "properties": {word: {"type": "string"}}})
        call = ToolCall("abc123def", "get_weather", json.dumps({word: word}, ensure_ascii=False))
        messages = [
            Message("user", word),
            Message("assistant", "", tool_calls=(call,)),
            Message("tool", word, tool_call_id=call.id),
        ]
        return [i for i in engine._transcript.prompt(messages, [tool]).token_ids if i in controls]

    assert control_ids(evil) == control_ids("harmless")
