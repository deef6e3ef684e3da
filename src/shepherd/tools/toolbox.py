"""Tools by name, and their calls: arguments are checked against the tool's schema before it runs.

A call is the model's text, so anything in it may be wrong. Errors are results, by which the model can correct
itself; no call ends the turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from shepherd.errors import ShepherdError, UsageError
from shepherd.escaping import shorten, storable
from shepherd.installation import runnable_from_anywhere
from shepherd.tool_arguments import checked_argument
from shepherd.types import Tool, ToolCall

__all__ = ["AssistantTool", "ToolResult", "Toolbox"]

_LONGEST_NAME = 40  # characters of an argument, in a message
_LONGEST_REASON = 300
# How often a call that takes long is asked whether the user has stopped it.
_LOOK_S = 0.1
_STOPPED = "the user has stopped it"
_MOST_ARGUMENT_CHARS = 1 << 16
# Characters of one result; a window of 8,192 tokens holds several.
_MOST_RESULT_CHARS = 8_000

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AssistantTool:
    """A tool and its action. `run` takes checked arguments and returns something that JSON can hold.

    Other values, such as times, are given as text. A tool that takes long returns a Future: it is waited for,
    and cancelled if the user stops the answer. The model sees the message of a UsageError. Other errors are
    for the user, because they may name files: the model only learns that the tool failed.
    `other_names` are aliases. A tool that `checks_itself` accepts other spellings of its arguments and
    refuses the rest.
    """

    tool: Tool
    run: Callable[[Arguments], object]
    other_names: tuple[str, ...] = ()
    checks_itself: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call: JSON for the model. `failed` means that it is an error.

    `error` is an error of which the model only learns that it happened; its `__cause__` is the exception of a
    tool that raised another one.
    """

    call_id: str
    name: str
    text: str
    failed: bool = False
    error: ShepherdError | None = field(default=None, compare=False)


class Toolbox:
    """The tools of one conversation. For one thread at a time."""

    def __init__(self, tools: Iterable[AssistantTool]) -> None:
        self._tools = {entry.tool.name: entry for entry in tools}
        self._others = {name: entry for entry in self._tools.values() for name in entry.other_names}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools for the model, in order."""
        return tuple(entry.tool for entry in self._tools.values())

    def call(self, call: ToolCall, is_stopped: Callable[[], bool] = lambda: False) -> ToolResult:
        """Run a call; never raises for its content or for what the tool finds.

        Once `is_stopped` is true, nothing is run, and a future is cancelled instead of waited for.
        """
        entry = self._tools.get(call.name) or self._others.get(call.name)
        try:
            if entry is None:
                raise UsageError("there is no tool of that name", hint=f"there are: {', '.join(self._tools)}")
            if is_stopped():
                raise UsageError(_STOPPED)
            found = entry.run(_arguments(entry, call.arguments))
            if isinstance(found, Future):
                found = _awaited(found, is_stopped)
            text = _result_text(found)
        except UsageError as error:
            content = {"error": runnable_from_anywhere(str(error))}
            if error.hint:
                content["hint"] = runnable_from_anywhere(error.hint)
            return ToolResult(call.id, call.name, _result_text(content), failed=True)
        except ShepherdError as error:
            return _failure(call, error)
        except Exception as error:  # a library's user may add any function
            said = ShepherdError(": ".join(filter(None, [type(error).__name__, _said(error)])))
            said.__cause__ = error
            return _failure(call, said)
        return ToolResult(call.id, call.name, text)


def _awaited(future: Future[object], is_stopped: Callable[[], bool]) -> object:
    """Return or raise what the future gives; UsageError once the user has stopped it."""
    try:
        while not wait((future,), timeout=_LOOK_S).done:
            if is_stopped():
                raise UsageError(_STOPPED)
        return future.result()
    finally:
        future.cancel()  # nothing, where it is done


def _failure(call: ToolCall, error: ShepherdError) -> ToolResult:
    content = {"error": "the tool failed, and the user was told why"}
    return ToolResult(call.id, call.name, _result_text(content), failed=True, error=error)


def _said(error: Exception) -> str:
    """Return the first line of an exception's message."""
    return shorten(next(iter(str(error).splitlines()), ""), _LONGEST_REASON)


def _result_text(found: object) -> str:
    """Return a result as JSON, cut if it would fill the window."""
    text = _dumped(found)
    if len(text) <= _MOST_RESULT_CHARS:
        return text
    return _dumped({"cut": text[: _MOST_RESULT_CHARS // 2], "hint": "ask for less"})


def _dumped(value: object) -> str:
    return storable(json.dumps(value, ensure_ascii=False, default=_written))


def _written(value: object) -> str:
    """Return what JSON cannot hold as text: a time, a path, bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)


def _arguments(entry: AssistantTool, text: str) -> Arguments:
    """Return the arguments of a call, checked unless the tool does that."""
    arguments = _parsed(text)
    return arguments if entry.checks_itself else _checked(entry.tool, arguments)


def _parsed(text: str) -> Arguments:
    if len(text) > _MOST_ARGUMENT_CHARS:
        raise UsageError(
            f"the arguments have {len(text):,} characters, at most {_MOST_ARGUMENT_CHARS:,} are read",
            hint="send less",
        )
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise UsageError("the arguments are not a JSON object")
    return arguments


def _checked(tool: Tool, arguments: Arguments) -> Arguments:
    """Return the arguments in their types, or raise UsageError for one that is unknown, missing or wrong."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    for name in arguments:
        if name not in properties:
            raise UsageError(
                f"{tool.name} has no argument {shorten(name, _LONGEST_NAME)!a}",
                hint=f"it takes {', '.join(properties)}" if properties else "it takes no arguments",
            )
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in tool.parameters.get("required", ()):
        if name not in given:
            raise UsageError(f"the argument {name!r} is missing")
    return {
        name: checked_argument(f"the argument {name!r}", properties[name], value)
        for name, value in given.items()
    }
