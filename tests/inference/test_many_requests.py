"""Requests of any size leave other answers, and the closing of the engine, undisturbed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.errors import ContextOverflowError, ShepherdError, UsageError
from shepherd.inference import Engine
from shepherd.inference.tools import one_call_each
from shepherd.types import Message, Sampling, Tool, ToolCall
from tests.inference.engines import exact_settings
from tests.models import llama

GREEDY = Sampling(temperature=0.0)
HELLO = [Message("user", "hello")]
SLOW = [Message("user", "slow")]
# Rendering "slow" takes a second or so.
TEMPLATE = (
    "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if 'slow' in messages[-1].content %}{% set x = 'ab' * 1000000 %}"
    "{% for a in range(20000) %}{% if 'c' in x %}{% endif %}{% endfor %}{% endif %}"
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    path = tmp_path / "slow.gguf"
    llama(path, template=TEMPLATE)
    with Engine(path, settings=exact_settings(n_ctx=2048)) as engine:
        yield engine


class Background(threading.Thread):
    """A call on a thread of its own, and what it raised."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self.error = error


def test_an_answer_does_not_wait_for_the_prompt_of_another(engine: Engine) -> None:
    slow = Background(lambda: engine.generate(SLOW))

    with engine.generate(HELLO, sampling=GREEDY, max_tokens=8) as answer:
        text = "".join(map(str, answer))

    assert text
    assert slow.is_alive()
    slow.join()


def test_closing_does_not_wait_for_a_prompt(engine: Engine) -> None:
    slow = Background(lambda: engine.generate(SLOW))

    engine.close()

    assert slow.is_alive()
    slow.join()
    assert isinstance(slow.error, ShepherdError)
    with pytest.raises(UsageError, match="closed"):
        engine.generate(HELLO)


def test_a_request_that_was_cancelled_before_decodes_nothing(engine: Engine) -> None:
    with engine.generate(HELLO, max_tokens=8, is_cancelled=lambda: True) as answer:
        assert list(answer) == []

    assert answer.stats.finish_reason == "cancelled"
    assert answer.stats.decoded_tokens == answer.stats.generated_tokens == 0


def test_as_many_tools_as_no_window_holds_are_refused_before_they_are_rendered(engine: Engine) -> None:
    tools = [Tool(f"tool_{i}", "", {}) for i in range(100_000)]

    with pytest.raises(ContextOverflowError, match="at least"):
        engine.generate(HELLO, tools=tools)


def test_more_messages_than_the_window_has_tokens_are_refused(engine: Engine) -> None:
    with pytest.raises(ContextOverflowError, match="at least"):
        engine.generate([Message("user", "x")] * 400_000)


# A quadratic way takes minutes for these, and the system ends the process.
LINEAR = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from shepherd.inference.template import ChatTemplate, CHATML
from shepherd.inference.tools import ToolPrompt, check_tools, one_call_each
from shepherd.types import Message, Tool, ToolCall
n = 100_000
check_tools([Tool(f"tool_{i}", "", {}) for i in range(n)])
messages = []
for i in range(n // 4):
    calls = tuple(ToolCall(f"{i}-{k}", "add", "{}") for k in range(2))
    messages += [Message("assistant", "", tool_calls=calls)]
    messages += [Message("tool", "1", tool_call_id=call.id) for call in calls]
owners, single = one_call_each(messages)
assert len(single) == n
results = [Message("tool", "x" * 200, tool_call_id=str(i)) for i in range(n)]
assert len(ToolPrompt(ChatTemplate(CHATML)).prepare(results, ()).entries) == 1
"""


def test_tools_calls_and_results_take_linear_time() -> None:
    done = subprocess.run([sys.executable, "-c", LINEAR], check=False)

    assert done.returncode == 0


def test_calls_of_one_message_are_told_apart_with_their_results() -> None:
    both = (ToolCall("1", "add", "{}"), ToolCall("2", "add", "{}"))
    messages = [
        Message("user", "q"),
        Message("assistant", "let me", tool_calls=both),
        Message("tool", "second", tool_call_id="2"),
        Message("tool", "first", tool_call_id="1"),
        Message("assistant", "done"),
    ]

    owners, single = one_call_each(messages)

    assert owners == [0, 1, 3, 1, 2, 4]
    assert [message.raw for message in single] == ["q", "let me", "first", "", "second", "done"]
