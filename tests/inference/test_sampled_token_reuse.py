"""Calls in tags whose values have no quotes: what the schema makes of them, and that they stay cached."""

from __future__ import annotations

import json

from shepherd.inference.engine import Engine, EngineSettings
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
