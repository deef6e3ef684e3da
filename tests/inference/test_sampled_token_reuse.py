"""Calls in tags whose values have no quotes: what the schema makes of them, and that they stay cached."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from shepherd.inference import token_reuse, transcript
from shepherd.inference.engine import Engine, EngineSettings
from shepherd.inference.template import Slot, TemplateLayout
from shepherd.types import Message, Sampling, Tool
from tests import models

# In the manner of Qwen3-Coder: a call is written in tags, a string as it is and all else as JSON.
CODER = """
{%- if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}
{{- '<|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '<tool_call>\\n<function=' + c.function.name + '>\\n' }}
{%- for key, value in c.function.arguments | items %}{{ '<parameter=' + key + '>\\n' }}
{{- value if value is string else value | tojson }}{{ '\\n</parameter>\\n' }}{%- endfor %}
{{- '</function>\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""
WRITE = Tool(
    "write",
    "Writes a file",
    {
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "zip": {"type": "string"},
            "mode": {"type": "integer"},
        },
    },
)
CALL = (
    '<tool_call>\n<function=write>\n<parameter=content>\n{"a": 1}\n</parameter>\n<parameter=zip>\n12345\n'
    "</parameter>\n<parameter=mode>\n420\n</parameter>\n</function>\n</tool_call>"
)


def test_string_stays_text_and_the_call_stays_in_the_cache(tmp_path) -> None:
    path = tmp_path / "coder.gguf"
    models.llama(path, template=CODER)
    messages = [Message("user", "Write it.")]

    with Engine(path, settings=EngineSettings(n_ctx=2048, n_threads=1)) as engine:
        asked = _answer(engine, messages, CALL)
        [call] = asked.tool_calls
        messages += [asked.message(), Message("tool", "done", tool_call_id=call.id)]
        told = _answer(engine, messages, "It is done.")

    assert json.loads(call.arguments) == {"content": '{"a": 1}', "zip": "12345", "mode": 420}
    assert told.stats.reused_tokens == asked.stats.prompt_tokens + asked.stats.generated_tokens


def _answer(engine: Engine, messages: list[Message], says: str):
    reply = engine.generate(
        messages,
        sampling=Sampling(temperature=0),
        max_tokens=400,
        grammar=f"root ::= {json.dumps(says)}",
        tools=[WRITE],
    )
    with reply:
        for _ in reply:
            pass
    return reply


LONG = "😀" * 5000  # four bytes each
SHAPE = (("user", True, False, ""), ("assistant", True, False, LONG))
CACHED: list[tuple[Callable[..., int], Any, Any]] = [
    (token_reuse._bytes_of_check, (tuple(range(1000)), ""), True),
    (token_reuse._bytes_of_check, ((), LONG), True),
    (token_reuse._bytes_of_asked, ((), False, LONG), (None,)),
    (token_reuse._bytes_of_asked, (SHAPE, False, ""), (None,)),
    (token_reuse._bytes_of_asked, ((), False, ""), (LONG,)),
    (transcript._bytes_of_run, (LONG,), array("i")),
    (transcript._bytes_of_run, ("",), array("i", bytes(20_000))[:]),
    (transcript._bytes_of_layout, ((), LONG), None),
    (transcript._bytes_of_layout, (SHAPE, ""), None),
    (transcript._bytes_of_layout, ((), ""), TemplateLayout((LONG, ""), (Slot(0, False),), -1)),
]


@pytest.mark.parametrize(("counted", "key", "value"), CACHED)
def test_caches_count_at_least_the_bytes_of_an_entry_and_no_multiple(counted, key, value) -> None:
    taken = _bytes_of(key) + _bytes_of(value)

    assert taken <= counted(key, value) <= 4 * taken


def _bytes_of(one: Any) -> int:
    """The bytes of an object with all that it has."""
    if isinstance(one, TemplateLayout):
        return _bytes_of(one.texts)
    return sys.getsizeof(one) + (sum(map(_bytes_of, one)) if isinstance(one, tuple) else 0)
