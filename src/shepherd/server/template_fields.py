"""Fields of requests for the model's chat template, and for answers that a client begins."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field

from shepherd.inference.template import TemplateOptions
from shepherd.server.errors import invalid
from shepherd.server.http import ClientBody
from shepherd.types import Message

__all__ = ["TemplateFields", "options_of", "split_prefill"]

_MOST_VARIABLES, _MOST_CHARS = 16, 1000
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}")
_SWITCHES = ("enable_thinking", "thinking")
_TAKEN = frozenset(("messages", "tools", "functions", "datetime", "add_generation_prompt", "documents"))
# OpenAI's names of efforts; templates know three.
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}

Value = str | bool | int | float | None


class TemplateFields(ClientBody):
    """Fields of OpenAI's and llama.cpp's APIs for the chat template."""

    chat_template_kwargs: dict[str, Value] | None = Field(
        default=None,
        description="Variables of the model's chat template, such as `enable_thinking`; local models only.",
    )
    reasoning_effort: str | None = Field(
        default=None,
        description="With `none`, the model answers without thinking, if its template has a switch for that.",
    )

    @property
    def template(self) -> TemplateOptions:
        """The options for the template. Denied for names that it can't have."""
        return options_of(self.chat_template_kwargs, self.reasoning_effort)


def options_of(
    variables: Mapping[str, Value] | None = None, effort: str | None = None, *, thinks: bool | None = None
) -> TemplateOptions:
    """Return the options for a template; a switch among the variables counts more than an effort."""
    given = dict(variables or {})
    field = "chat_template_kwargs"
    if len(given) > _MOST_VARIABLES:
        raise invalid(field, f"send up to {_MOST_VARIABLES} of them")
    for name, value in given.items():
        if not _NAME.fullmatch(name) or name in _TAKEN or name.endswith("_token"):
            raise invalid(
                field, "it names a variable that templates get from the conversation, or can't have"
            )
        if isinstance(value, str) and len(value) > _MOST_CHARS:
            raise invalid(field, f"a text has more than {_MOST_CHARS:,} characters")
    if effort == "none":
        thinks = False
    elif effort in _EFFORTS:
        given.setdefault("reasoning_effort", _EFFORTS[effort])
    for name in _SWITCHES:
        switch = given.pop(name, None)
        if switch is not None and not isinstance(switch, bool):
            raise invalid(field, f"{name} must be true or false")
        thinks = thinks if switch is None else switch
    return TemplateOptions(thinks, tuple(sorted(given.items())))


def split_prefill(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], str]:
    """Return the conversation, and the beginning of the answer if the client sent one as its last message.

    Denied for a conversation that asks for no answer.
    """
    last = messages[-1]
    if last.role in ("user", "tool"):
        return messages, ""
    is_begun = last.role == "assistant" and bool(last.raw) and not (last.tool_calls or last.pictures)
    if is_begun and len(messages) > 1 and messages[-2].role in ("user", "tool"):
        return messages[:-1], last.raw
    raise invalid(
        "messages",
        f"the last one is of role {last.role}; the model answers a user or a tool, or continues one text of"
        " the assistant's",
    )
