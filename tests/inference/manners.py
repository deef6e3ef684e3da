# ruff: noqa: RUF001 (DeepSeek writes its markers with a fullwidth bar)
"""Chat templates in the manner of the well-known families, reduced to what concerns tools and thoughts.

`controls` are what the family has as control tokens; `call` is a call as its models write it.
"""

from __future__ import annotations

from dataclasses import dataclass

SYSTEM = "{%- set system = messages[0].content if messages[0].role == 'system' else '' %}"


@dataclass(frozen=True)
class Manner:
    """A family: its template, its control tokens, and how its models write a call of get_weather."""

    template: str
    controls: tuple[str, ...]
    call: str
    thought: str = ""
    forgets_thoughts: bool = False


CALL_JSON = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
QWEN = (
    SYSTEM
    + """
{%- if tools %}{{ '<|im_start|>system\\n' + system + '\\n<tools>' }}
{%- for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{%- endfor %}{{ '\\n</tools><|im_end|>\\n' }}
{%- elif system %}{{ '<|im_start|>system\\n' + system + '<|im_end|>\\n' }}{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}
{%- if m.reasoning_content and loop.index0 > ns.last %}
{{- '<think>\\n' + m.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}{%- endif %}
{{- m.content }}
{%- for c in m.tool_calls or [] %}
{%- if not loop.first or m.content %}{{ '\\n' }}{%- endif %}
{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}
{%- elif m.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{%- endif %}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""
)
_THOUGHTS = QWEN[QWEN.index("{%- if m.reasoning_content") : QWEN.index("{{- m.content }}")]
HERMES = QWEN.replace(_THOUGHTS, "")
LLAMA3 = (
    SYSTEM
    + """
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{%- if tools %}{{ 'Environment: ipython\\n' }}{%- endif %}{{ system + '<|eot_id|>' }}
{%- set ns = namespace(first=true) %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|start_header_id|>user<|end_header_id|>\\n\\n' }}
{%- if tools and ns.first %}{%- for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{%- endfor %}{%- endif %}
{%- set ns.first = false %}{{ m.content | trim + '<|eot_id|>' }}
{%- elif m.tool_calls %}
{%- if m.tool_calls | length != 1 %}{{ raise_exception('one call at once') }}{%- endif %}
{%- set c = m.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + c.name + '", "parameters": ' }}
{{- c.arguments | tojson }}{{ '}<|eot_id|>' }}
{%- elif m.role == 'assistant' %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}
{%- elif m.role == 'tool' %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{ m.content | tojson }}{{ '<|eot_id|>' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}{# <|python_tag|> #}"""
)
MISTRAL = """
{%- for m in messages %}
{%- if m.role == 'user' %}
{%- if loop.index0 and messages[loop.index0 - 1].role in ['user', 'tool'] %}
{{- raise_exception('by turns') }}{%- endif %}
{%- if tools and loop.first %}
{{- '[AVAILABLE_TOOLS]' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{%- endif %}
{{- '[INST]' + m.content + '[/INST]' }}
{%- elif m.tool_calls %}{{ '[TOOL_CALLS][' }}
{%- for c in m.tool_calls %}
{%- if c.id | length != 9 %}{{ raise_exception('an id has 9 characters') }}{%- endif %}
{{- '{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}
{{- ', "id": "' + c.id + '"}' }}{{ '' if loop.last else ', ' }}{%- endfor %}{{ ']' + eos_token }}
{%- elif m.role == 'assistant' %}{{ m.content + eos_token }}
{%- elif m.role == 'tool' %}
{{- '[TOOL_RESULTS]{"content": ' + m.content + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{ raise_exception('unknown role') }}{%- endif %}{%- endfor %}"""
GEMMA = """
{%- if messages[0].role == 'system' %}{{ raise_exception('no system') }}{%- endif %}
{%- for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('by turns') }}{%- endif %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | trim }}
{{- '<end_of_turn>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif %}"""
DEEPSEEK = (
    SYSTEM
    + """
{{- system }}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- elif m.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' }}
{%- elif m.role == 'assistant' %}{{ '<｜Assistant｜>' }}
{{- m.content.split('</think>')[-1] if m.content }}
{%- if m.tool_calls %}{{ '<｜tool▁calls▁begin｜>' }}
{%- for c in m.tool_calls %}
{{- '<｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + c.function.arguments }}
{{- '<｜tool▁call▁end｜>' }}{%- endfor %}{{ '<｜tool▁calls▁end｜>' }}{%- endif %}
{{- eos_token }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{%- endif %}"""
)
HARMONY = (
    SYSTEM
    + """
{{- '<|start|>developer<|message|>' + system }}
{%- if tools %}{%- for tool in tools %}{{ '\\ntype ' + tool.function.name }}{%- endfor %}{%- endif %}
{{- '<|end|>' }}
{%- set ns = namespace(called='') %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}
{%- elif m.role == 'assistant' and m.tool_calls %}
{%- if m.content and m.thinking %}{{ raise_exception('content or thinking') }}{%- endif %}
{%- if m.content or m.thinking %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + (m.content or m.thinking) + '<|end|>' }}
{%- endif %}
{%- set c = m.tool_calls[0].function %}{%- set ns.called = c.name %}
{{- '<|start|>assistant to=functions.' + c.name + '<|channel|>commentary json<|message|>' }}
{{- c.arguments | tojson }}{{ '<|call|>' }}
{%- elif m.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- elif m.role == 'tool' %}
{%- if not ns.called %}{{ raise_exception('no call before') }}{%- endif %}
{{- '<|start|>functions.' + ns.called + ' to=assistant<|channel|>commentary<|message|>' }}
{{- m.content | tojson }}{{ '<|end|>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{%- endif %}"""
)
HARMONY_CALL = (
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + '{"city": "Paris"}'
)

MANNERS = {
    "hermes": Manner(HERMES, (), f"<tool_call>\n{CALL_JSON}\n</tool_call>"),
    "qwen": Manner(
        QWEN,
        ("<tool_call>", "</tool_call>"),
        f"<tool_call>\n{CALL_JSON}\n</tool_call>",
        thought="<think>\nhm\n</think>\n\n",
        forgets_thoughts=True,
    ),
    "llama3": Manner(
        LLAMA3,
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"),
        '{"name": "get_weather", "parameters": {"city": "Paris"}}',
    ),
    "mistral": Manner(
        MISTRAL,
        ("[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]"),
        f"[TOOL_CALLS][{CALL_JSON}]",
    ),
    "gemma": Manner(GEMMA, ("<start_of_turn>", "<end_of_turn>"), f"<tool_call>\n{CALL_JSON}\n</tool_call>"),
    "deepseek": Manner(
        DEEPSEEK,
        (
            "<｜User｜>",
            "<｜Assistant｜>",
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
        ),
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        thought="<think>hm</think>",
        forgets_thoughts=True,
    ),
    "harmony": Manner(
        HARMONY,
        ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"),
        HARMONY_CALL,
        thought="<|channel|>analysis<|message|>hm<|end|><|start|>assistant",
    ),
}
