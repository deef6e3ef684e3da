"""Options of a chat template: a switch for thoughts, and variables of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.inference import Engine, EngineSettings
from shepherd.inference.template import ChatTemplate, TemplateOptions
from shepherd.types import Message
from tests import models

_MESSAGES = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
)
_ASKS = "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
# As Qwen 3's, which have a switch; as QwQ's, whose prompt begins the thought; as R7B's, where the model does.
SWITCHED = (
    _MESSAGES + _ASKS + "{%- if enable_thinking is defined and not enable_thinking %}"
    "{{ '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"
)
# As DeepSeek V3.1's: the switch has the other name, and thoughts are off without it.
ASKED = (
    _MESSAGES
    + "{#- <think> -#}"
    + _ASKS
    + "{%- if thinking %}{{ '<think>' }}{%- else %}{{ '</think>' }}{%- endif %}"
    "{%- endif %}"
)
BEGUN = _MESSAGES + _ASKS + "{{ '<think>\n' }}{%- endif %}"
KNOWN = _MESSAGES + "{#- <think> </think> -#}" + _ASKS + "{%- endif %}"
PLAIN = _MESSAGES + _ASKS + "{%- endif %}"
EFFORT = _MESSAGES + "{{ 'effort: ' + (reasoning_effort or 'any') + '\n' }}" + _ASKS + "{%- endif %}"
HARMONY = (
    "{%- for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start|>assistant<|channel|>analysis<|message|>' }}{%- endif %}"
)
HELLO = [{"role": "user", "content": "hello"}]
OFF, ON = TemplateOptions(thinks=False), TemplateOptions(thinks=True)


@pytest.mark.parametrize(
    ("source", "options", "end"),
    [
        (SWITCHED, TemplateOptions(), "<|im_start|>assistant\n"),
        (SWITCHED, ON, "<|im_start|>assistant\n"),
        (SWITCHED, OFF, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        (ASKED, TemplateOptions(), "<|im_start|>assistant\n</think>"),
        (ASKED, ON, "<|im_start|>assistant\n<think>"),
        (ASKED, OFF, "<|im_start|>assistant\n</think>"),
        (BEGUN, ON, "<|im_start|>assistant\n<think>\n"),
        (BEGUN, OFF, "<|im_start|>assistant\n<think>\n</think>"),
        (KNOWN, TemplateOptions(), "<|im_start|>assistant\n"),
        (KNOWN, OFF, "<|im_start|>assistant\n<think></think>"),
        (PLAIN, OFF, "<|im_start|>assistant\n"),
        (HARMONY, OFF, "<|start|>assistant<|channel|>analysis<|message|>"),
        (
            EFFORT,
            TemplateOptions(variables=(("reasoning_effort", "low"),)),
            "effort: low\n<|im_start|>assistant\n",
        ),
    ],
)
def test_a_prompt_asks_for_an_answer_as_the_options_say(source, options, end):
    template = ChatTemplate(source).with_options(options)

    assert template.render(HELLO, add_generation_prompt=True).endswith(end)
    assert template.render(HELLO, add_generation_prompt=False).endswith(
        ("<|im_end|>\n", "<|end|>", "effort: low\n")
    )


def test_a_template_of_firefunction_gets_tools_and_the_day_as_it_names_them():
    source = "{{ datetime }}|{{ functions }}|{%- for m in messages %}{{ m.content }}{%- endfor %}"
    template = ChatTemplate(source, clock=lambda: 1_795_737_600.0)
    tool = {"type": "function", "function": {"name": "test"}}

    assert template.render(HELLO, add_generation_prompt=True) == "Nov 27 2026||hello"
    assert '"name": "test"' in template.render(HELLO, add_generation_prompt=True, tools=[tool])


def test_a_template_of_llama_3_says_the_day_and_not_that_of_its_training():
    source = (
        "{%- if not date_string is defined %}{%- set date_string = '26 Jul 2024' %}{%- endif %}"
        "{{ date_string }}"
    )
    days = iter((1_795_737_600.0, 1_795_737_600.0 + 86_400))
    template = ChatTemplate(source, clock=lambda: next(days))
    given = template.with_options(TemplateOptions(variables=(("date_string", "today"),)))

    assert template.render(HELLO, add_generation_prompt=True) == "27 Nov 2026"
    assert template.turn_day()
    assert template.render(HELLO, add_generation_prompt=True) == "28 Nov 2026"
    assert given.render(HELLO, add_generation_prompt=True) == "today"


@pytest.fixture(scope="module")
def open_engine(tmp_path_factory) -> Iterator[Callable[..., Engine]]:
    folder: Path = tmp_path_factory.mktemp("options")
    opened: list[Engine] = []

    def open_one(source: str, **settings: str) -> Engine:
        path = folder / f"{abs(hash(source))}.gguf"
        if not path.exists():
            models.llama(path, template=source, ascii_only=True)
        opened.append(Engine(path, settings=EngineSettings(n_threads=1, n_ctx=512, **settings)))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()


@pytest.mark.parametrize("source", [SWITCHED, BEGUN], ids=["switched", "begun"])
def test_only_the_newest_answer_is_read_again_where_the_template_drops_its_empty_thought(open_engine, source):
    engine = open_engine(source)
    messages = [Message("system", "Be brief."), Message("user", "hello")]
    before = 0
    for question in ("and now?", "and then?", "why?"):
        with engine.generate(messages, max_tokens=8, template=OFF) as answer:
            for _ in answer:
                pass
        assert answer.stats.reused_tokens >= before
        assert answer.thought == ""
        before = engine.count_prompt_tokens(messages, template=ON) - 10  # without what asks for the answer
        messages += [answer.message(), Message("user", question)]
    assert before > 60


def test_the_setting_holds_where_a_request_says_nothing(open_engine):
    engine = open_engine(SWITCHED, thinking="off")
    hello = [Message("user", "hello")]

    assert engine.render(hello).endswith("</think>\n\n")
    assert engine.render(hello, template=TemplateOptions(variables=(("other", 1),))).endswith("</think>\n\n")
    assert engine.render(hello, template=ON).endswith("assistant\n")


def test_variables_that_the_template_does_not_name_change_nothing(open_engine):
    engine = open_engine(SWITCHED)
    options = TemplateOptions(variables=(("unknown", "x"),))

    assert engine._transcript_of(options) is engine._transcript
    assert engine._transcript_of(OFF) is engine._transcript_of(TemplateOptions(thinks=False))


def test_an_answer_goes_on_after_what_was_begun(open_engine):
    engine = open_engine(BEGUN)
    hello = [Message("user", "hello")]
    whole = engine.render(hello) + "\n\n</think>\n\nthe quick"
    with engine.generate(hello, max_tokens=6, prefill="the quick") as answer:
        said = "".join(piece for piece in answer if isinstance(piece, str))
    with engine.complete(engine.tokenize_prompt(whole, special=True), max_tokens=6) as plain:
        expected = "".join(plain)

    assert answer.thought == ""
    assert answer.stats.prompt_tokens == plain.stats.prompt_tokens
    assert said
    assert expected
