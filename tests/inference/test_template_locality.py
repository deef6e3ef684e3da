"""Templates that are proven to write each message by itself: a prompt is made of its newest messages."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from shepherd.errors import TemplateError
from shepherd.inference import EngineSettings
from shepherd.inference.model import LoadedModel
from shepherd.inference.template import CHATML, GENERIC, ChatTemplate
from shepherd.inference.tokenization import Prompt, Vocabulary
from shepherd.inference.transcript import Transcript
from shepherd.types import Message, Tool
from tests import models
from tests.examples import examples
from tests.inference.manners import MANNERS

TOOL = Tool("get_weather", "Weather of a city", {"type": "object", "properties": {}})
LOOP = "{% for m in messages %}BODY{% endfor %}"
PLAIN = "<{{ m.role }}>{{ m.content }}\n"
# Each is harmless or not, in the loop, before it and after it.
BODIES = [
    PLAIN,
    "{% if loop.first %}[{% endif %}" + PLAIN,
    "{% if loop.last %}!{% endif %}" + PLAIN,
    "{{ loop.index }}" + PLAIN,
    "{{ loop.length }}" + PLAIN,
    "{% if loop.changed(m.role) %}~{% endif %}" + PLAIN,
    "{{ loop.cycle('a', 'b') }}" + PLAIN,
    "{% if loop.previtem %}{{ loop.previtem.role }}{% endif %}" + PLAIN,
    "{% if messages[loop.index0 - 1].role == 'user' %}u{% endif %}" + PLAIN,
    "{{ messages | length }}" + PLAIN,
    "{{ messages[0].content }}" + PLAIN,
    "{{ messages[-1].content }}" + PLAIN,
    "{% set x = (x or '') + 'x' %}{{ x }}" + PLAIN,
    "{% set ns.n = ns.n + 1 %}{{ ns.n }}" + PLAIN,
    "{{ ns.n }}" + PLAIN,
    "{% if m.content == 'x3' %}{% break %}{% endif %}" + PLAIN,
    "{% if m.content == 'x3' %}{% continue %}{% endif %}" + PLAIN,
    "{% for p in m.content.split() %}{{ loop.index }}{{ p }}{% endfor %}" + PLAIN,
    "{% for p in [loop.index] %}{{ p }}{% endfor %}" + PLAIN,
    "{% for p in m.content if loop.index > 2 %}{{ p }}{% endfor %}" + PLAIN,
    "{{ once | first }}" + PLAIN,
    "{{ many() }}" + PLAIN,
    "{{ cycle.next() }}" + PLAIN,
    "{% if not loop.first %}{{ joined() }}{% endif %}" + PLAIN,
    "{{ written(m) }}",
    "{% for o in messages %}.{% endfor %}" + PLAIN,
    "{% set messages = [m] %}{{ messages | length }}" + PLAIN,
    "{% with messages = [m] %}{{ messages[0].content }}{% endwith %}" + PLAIN,
]
BEFORE = [
    "",
    "{{ bos_token }}",
    "{{ messages[0].content | length }}",
    "{{ messages | length }}",
    "{% for m in messages %}{{ m.role }}{% endfor %}",
    "{% set messages = messages[1:] %}",
    "{% set loop = 3 %}",
    "{% if tools %}{{ tools | length }}{% endif %}",
]
AROUND = [
    LOOP,
    "{% if messages[0].role == 'system' %}" + LOOP + "{% else %}no{% endif %}",
    "{% set text %}" + LOOP + "{% endset %}{{ text | upper }}",
    "{% filter upper %}" + LOOP + "{% endfilter %}",
    "{% macro all() %}" + LOOP + "{% endmacro %}{{ all() }}",
    "{% for o in [1, 2] %}" + LOOP + "{% endfor %}",
    "{% for m in messages if m.content %}BODY{% endfor %}",
    "{% for m in messages %}BODY{% else %}none{% endfor %}",
    "{% for m in messages | reverse %}BODY{% endfor %}",
]
AFTER = [
    "{% if add_generation_prompt %}<assistant>{% endif %}",
    "{{ ns.n }}<",
    "{{ messages[-1].role }}<",
    "<",
]
SETS = (
    "{% set ns = namespace(n=0) %}{% set once = 'abcdefghijkl' | list %}"
    "{% macro written(m) %}({{ m.role }}){{ m.content }}{% endmacro %}"
)
STATES = (
    "{% set once = 'abcdefghijkl' | map('upper') %}",
    "{% set cycle = cycler('a', 'b') %}",
    "{% set joined = joiner(', ') %}",
    "{% set ns = namespace(n=0) %}{% macro many() %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endmacro %}",
)
DEFINITIONS = ["", SETS, *STATES]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vocabulary]:
    path = tmp_path_factory.mktemp("vocabulary") / "model.gguf"
    models.llama(path)
    model = LoadedModel(path, EngineSettings(n_ctx=256, n_threads=1))
    yield model.vocabulary
    model.close()


def is_local(source: str) -> bool:
    return ChatTemplate(source).is_local


def made(by: Transcript, messages: list[Message], tools: list[Tool]) -> Prompt | None:
    try:
        return by.prompt(messages, tools)
    except TemplateError:
        return None


def test_prompt_of_a_proven_template_is_that_of_the_whole_conversation(vocabulary: Vocabulary) -> None:
    """Of templates put together at random, those that are proven; one in a few is."""
    choose = random.Random(1)
    n_proven = 0
    for i in range(examples(250)):
        parts = [choose.choice(some) for some in (DEFINITIONS, BEFORE, AROUND[:2], BODIES, AFTER)]
        if i < len(BODIES):  # each body alone, too
            parts = [SETS, "", LOOP, BODIES[i], AFTER[0]]
        definitions, before, around, body, after = parts
        source = definitions + before + around.replace("BODY", body) + after
        if is_local(source):
            n_proven += 1
            check(vocabulary, source, [TOOL] if i % 2 else [])
    assert n_proven > 15


def check(vocabulary: Vocabulary, source: str, tools: list[Tool]) -> None:
    going_on = Transcript(vocabulary, ChatTemplate(source, bos="<s>"))
    messages = [Message("system", "be brief")]
    for i in range(5):
        messages.append(Message("user", f"x{i}"))
        whole = made(Transcript(vocabulary, ChatTemplate(source, bos="<s>")), messages, tools)
        assert made(going_on, messages, tools) == whole, source
        messages.append(Message("assistant", f"answer {i}"))


KNOWN = [CHATML, GENERIC, LOOP.replace("BODY", PLAIN), MANNERS["deepseek"].template]


@pytest.mark.parametrize("source", KNOWN)
def test_these_write_each_message_by_itself(source: str) -> None:
    assert is_local(source)


NOT_BODIES = [2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 18, 19, 25, 26, 27]


@pytest.mark.parametrize(
    "source",
    [
        *(LOOP.replace("BODY", BODIES[i]) for i in NOT_BODIES),
        *(before + LOOP.replace("BODY", PLAIN) for before in BEFORE[3:7]),
        *(around.replace("BODY", PLAIN) for around in AROUND[2:]),
        *(state + LOOP.replace("BODY", PLAIN) for state in STATES),
        "{{ strftime_now('%d') }}" + LOOP.replace("BODY", PLAIN),
        "{{ [1, 2] | random }}" + LOOP.replace("BODY", PLAIN),
        MANNERS["qwen"].template,
    ],
)
def test_these_do_not_or_are_not_proven(source: str) -> None:
    assert not is_local(source)
