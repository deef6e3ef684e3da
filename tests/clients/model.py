"""A tiny model with which clients can be tried: it answers, calls a tool, and uses the result.

The chat template chooses which of its scripts the model says, so the answer proves what has reached the
model: it tells the temperature only if the result of a tool in the prompt has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import models

__all__ = ["ANSWER", "EDITED", "FROM_RESULT", "NOTE", "PERSON", "QUESTION", "RESULT", "write_model"]

# What it says.
ANSWER = "Hello! I count: " + " ".join(map(str, range(1, 201)))
# What it is asked where it has tools, what a tool returns, and what it then says.
QUESTION = "What is the weather in Paris?"
RESULT = "sunny, 24 degrees"
FROM_RESULT = "It is 24 degrees in Paris."
# The file that has the result, for programs that bring tools of their own.
NOTE = "weather.txt"
# An answer in a form, and the line that it writes into aider's file.
PERSON = {"name": "Anna", "age": 36}
EDITED = 'print("edited")'

# Its calls, by the tool that is offered.
_CALLS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": "Paris"},
    "Person": PERSON,
    "Bash": {"command": f"cat {NOTE}", "description": "Read the note"},
    "bash": {"command": f"cat {NOTE}", "description": "Read a note"},
    "exec_command": {"cmd": f"cat {NOTE}"},
}
# Each begins after another mark at the end of the prompt. All pieces differ, since one leads to the next.
_SCRIPTS: dict[str, tuple[str, ...]] = {
    "0": ("Hello!", " I count:", *(f" {number}" for number in range(1, 201))),
    "1": ("It is", " 24 degrees", " in Paris."),
    "2": ("There is no", " result."),
    "4": ('{"name": "Anna", ', '"age": 36 }'),
    "3": (f"note.py\n```python\n<<<<<<< SEARCH\n=======\n{EDITED}\n>>>>>>> REPLACE\n", "```\n"),
}
_CALL_MARKS = dict(zip(_CALLS, "ABCDEFGHIJ", strict=False))
_TEMPLATE = """\
{%- set picked = namespace(mark='0', results='') %}
{%- for m in messages %}{%- if m.role == 'tool' %}
{%- set picked.results = picked.results + ' ' + m.content %}{%- endif %}{%- endfor %}
{%- if picked.results %}{%- set picked.mark = '1' if '24 degrees' in picked.results else '2' %}
{%- elif tools and ('weather' in messages[-1].content or 'person' in messages[-1].content) %}
{%- for t in tools %}{%- if t.function.name in CALLS %}
{%- set picked.mark = CALLS[t.function.name] %}{%- endif %}{%- endfor %}
{%- elif 'person' in messages[-1].content %}{%- set picked.mark = '4' %}
{%- elif 'SEARCH/REPLACE' in messages[0].content %}{%- set picked.mark = '3' %}{%- endif %}
{%- if tools %}{{ '<|im_start|>system\\n<tools>' }}
{%- for t in tools %}{{ '\\n' }}{{ t | tojson }}{%- endfor %}{{ '\\n</tools><|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}
{%- for c in m.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' + picked.mark }}{%- endif %}"""


def write_model(path: Path, *, n_ctx: int = 4096) -> None:
    """Write the model as a GGUF."""
    calls = {mark: _call(name, _CALLS[name]) for name, mark in _CALL_MARKS.items()}
    template = _TEMPLATE.replace("CALLS", json.dumps(_CALL_MARKS))
    models.scripted(path, (), template=template, n_ctx=n_ctx, after={**_SCRIPTS, **calls}, head=16, n_head=1)


def _call(name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """Return a call in pieces, as the template writes it, so that a call that is demanded is the same."""
    return f'<tool_call>\n{{"name": "{name}", ', f'"arguments": {json.dumps(arguments)}}}\n</tool_call>'
