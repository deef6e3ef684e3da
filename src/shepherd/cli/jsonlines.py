"""`shepherd chat --json`: one JSON object per line in and out, for other programs."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from shepherd import __version__
from shepherd.assistant import Assistant, Delta, Event, Finished, Recalled, ToolResult, Warned
from shepherd.cli import INTERRUPTED
from shepherd.cli.composing import Composed, Composer, require_room
from shepherd.cli.conversation import cancelling_on_interrupt
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError, UsageError
from shepherd.sequences import with_sequence
from shepherd.turn import warm_up
from shepherd.types import Injection, Thought, ToolCall
from shepherd.wording import as_written

__all__ = ["answer_lines", "lines_of_stdin", "parse_line", "put", "put_error", "stdout_alone"]


_KEYS = {"prompt", "memory"}


def answer_lines(
    assistant: Assistant, screen: Screen, messages: list[Composed] | None, composer: Composer | None = None
) -> int:
    """Answer the messages, or those on stdin line by line; a failed one becomes an error event.

    Returns the exit code of the last failure, 0 without one, 130 when the last answer was interrupted.
    """
    put(screen, "ready", _about(assistant))
    if messages is None:
        warm_up.begin()
    code = 0
    for line in lines_of_stdin() if messages is None else messages:
        try:
            if isinstance(line, bytes):
                prompt, with_memory = parse_line(line)
                message = Composed(prompt) if composer is None else composer.compose(prompt)
                require_room(message, assistant)
            else:
                message, with_memory = line, True
            interrupted = _answer(assistant, screen, message, with_memory)
            if composer is not None:
                composer.sent()
        except ShepherdError as error:
            code = put_error(screen, error)
        else:
            code = INTERRUPTED if interrupted else code
    return code


@contextmanager
def stdout_alone(screen: Screen) -> Iterator[None]:
    """Let only this screen write to stdout; what libraries print there, in C too, goes to stderr."""
    try:
        stdout, stderr = screen.out.fileno(), screen.err.fileno()
    except (OSError, ValueError):  # streams of an embedding program, which are no files
        yield
        return
    before = screen.out
    before.flush()
    kept = os.dup(stdout)
    os.dup2(stderr, stdout)
    # UTF-8 is the encoding of JSON, whatever the locale.
    own = open(kept, "w", encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False)  # noqa: SIM115
    screen.out = own
    try:
        yield
    finally:
        for stream in (own, before):
            with suppress(OSError):  # a closed pipe has been reported by now
                stream.flush()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # C's own buffer, before the real stdout is restored
        os.dup2(kept, stdout)
        os.close(kept)
        screen.out = before


def _answer(assistant: Assistant, screen: Screen, message: Composed, with_memory: bool) -> bool:
    """Answer one message with events; returns whether it was interrupted."""
    before, assistant.private = assistant.private, assistant.private or not with_memory
    interrupted = False
    try:
        with cancelling_on_interrupt(assistant) as is_interrupted:
            for event in assistant.ask(message.typed, composed=message.composed, pictures=message.pictures):
                if is_interrupted():  # perhaps before there was an answer to cancel
                    assistant.cancel()
                put(screen, *_named(event, message.typed, screen.runnable))
                interrupted = isinstance(event, Finished) and event.stats.finish_reason == "cancelled"
    finally:
        assistant.private = before
    return interrupted


def _named(event: Event, typed: str, runnable: Callable[[str], str]) -> tuple[str, dict[str, Any]]:
    if isinstance(event, Delta):
        return "delta", {"text": event.text}
    if isinstance(event, Recalled):
        return "recalled", _injected(event.injection, typed)
    if isinstance(event, Warned):
        return "warning", {"message": event.message, "hint": runnable(event.hint)}
    if isinstance(event, Thought):
        return "thought", {"text": event.text}
    if isinstance(event, ToolCall):
        return "tool_call", {"id": event.id, "name": event.name, "arguments": event.arguments}
    if isinstance(event, ToolResult):
        return "tool_result", {
            "id": event.call_id,
            "name": event.name,
            "result": event.text,
            "failed": event.failed,
        }
    stats = asdict(event.stats)
    stats.pop("warnings")
    return "finished", {"answer": event.answer, "finish_reason": stats.pop("finish_reason"), "stats": stats}


def _injected(injection: Injection, typed: str) -> dict[str, Any]:
    return {
        "facts": {fact.key: fact.value for fact in injection.facts},
        "memories": [asdict(with_sequence(result)) for result in injection.results],
        "keywords": as_written(injection.keywords, typed),
        "tail": injection.tail,
    }


def _about(assistant: Assistant) -> dict[str, Any]:
    return {
        "version": __version__,
        "model": assistant.engine.info.name,
        "window_tokens": assistant.engine.window_tokens,
        "user": assistant.user_id,
        "memory": assistant.recalls,
        "learning": asdict(assistant.learning),
        "messages": len(assistant.history),
    }


def parse_line(line: bytes | str) -> tuple[str, bool]:
    """Return the prompt of a line, and whether memory can be used for it."""
    try:
        request = json.loads(line)
    except UnicodeDecodeError as error:
        raise UsageError(f"byte {error.start} of the line is not UTF-8", hint="send UTF-8") from None
    except (ValueError, RecursionError):
        raise UsageError("the line is not JSON", hint='send {"prompt": "…"}') from None
    if isinstance(request, str):
        request = {"prompt": request}
    if isinstance(request, dict) and not request.keys() <= _KEYS:  # such as "memroy": false
        raise UsageError("the line has unknown keys", hint='known are "prompt" and "memory"')
    prompt = request.get("prompt") if isinstance(request, dict) else None
    memory = request.get("memory", True) if isinstance(request, dict) else None
    if not isinstance(prompt, str) or not prompt.strip() or not isinstance(memory, bool):
        raise UsageError(
            "the line is not a request", hint='send {"prompt": "…"}, with "memory": false if wanted'
        )
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("the prompt holds half of a surrogate pair", hint="send valid Unicode") from None
    return prompt, memory


def lines_of_stdin() -> Iterator[bytes]:
    """Give the lines of stdin that are not blank."""
    source: Iterable[bytes] = sys.stdin.buffer if sys.stdin is not None else ()
    for line in source:
        if line.strip():
            yield line


def put_error(screen: Screen, error: ShepherdError) -> int:
    """Write an error event; returns the exit code for it."""
    content = {"kind": type(error).__name__, "message": str(error), "hint": screen.runnable(error.hint)}
    put(screen, "error", {**content, "exit_code": error.exit_code})
    return error.exit_code


def put(screen: Screen, event: str, content: dict[str, Any]) -> None:
    """Write one event at once."""
    screen.json({"event": event, **content})
    screen.flush()
