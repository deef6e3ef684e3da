"""The commands of the prompt that change how the conversation runs, or keep it: /model, /config, /save."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.cli.parsing import near_miss, new_file
from shepherd.cli.render import counted
from shepherd.config import SETTINGS
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.cli.slash import Chat
    from shepherd.types import Message

__all__ = ["LIVE_SETTINGS", "change_model", "change_setting", "save_conversation"]

# What a turn reads anew. Everything else was used when the model or the memory was opened.
LIVE_SETTINGS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "seed",
    "max_tokens",
    "rag_context_injection",
    "injection_retention",
    "archive_turns",
    "tool_rounds",
)


def change_model(chat: Chat, argument: str) -> None:
    """/model: say which one answers, or go on with another of the same provider."""
    if chat.session is not None and argument:
        chat.session.switch(chat.session.provider.name, argument)
        chat.screen.note(f"{chat.assistant.engine.info.name} answers from here on")
        return
    if argument:
        raise UsageError("the model cannot change here", hint="start a conversation with shepherd -m NAME")
    model = chat.assistant.engine
    chat.screen.print(f"{model.info.name}, window of {counted(model.window_tokens, 'token')}")
    if chat.session is None or not chat.session.provider.is_local:
        return
    from shepherd.inference.models import ModelRegistry

    for stored in ModelRegistry().models():
        chat.screen.print(f"  {stored.name}")
    chat.screen.note("/model NAME goes on with another; shepherd model pull fetches one")


def change_setting(chat: Chat, argument: str) -> None:
    """/config: settings that hold for this conversation; the file stays as it is."""
    key, _, value = argument.partition(" ")
    if not key:
        for name in LIVE_SETTINGS:
            chat.screen.print(f"{name:22} {_shown(chat, name)}")
        chat.screen.note("/config KEY VALUE changes one for this conversation, shepherd config set for good")
        return
    if key not in SETTINGS:
        raise UsageError(
            f"there is no setting {key!a}", hint=near_miss(key, SETTINGS) or "/config lists them"
        )
    if not value.strip():
        chat.screen.print(f"{key} = {_shown(chat, key)}")
        return
    if key not in LIVE_SETTINGS:
        raise UsageError(
            f"{key} does not change while a conversation runs",
            hint=f"shepherd config set {key} VALUE, then start again",
        )
    try:
        parsed = SETTINGS[key].parse(value.strip())
    except ValueError:
        raise UsageError(f"{key}: expected {SETTINGS[key].expected}") from None
    chat.assistant.config = replace(chat.assistant.config, **{key: parsed})
    if chat.session is not None:
        chat.session.config = replace(chat.session.config, **{key: parsed})
        chat.session.is_limited |= key == "max_tokens"
    chat.screen.note(f"{key} = {_shown(chat, key)} in this conversation")


def save_conversation(chat: Chat, argument: str) -> None:
    """/save: what was said, without what memory appended, as Markdown, or as JSON by the file's name."""
    messages = [message for message in chat.assistant.history if message.role in ("user", "assistant")]
    if not messages:
        chat.screen.note("nothing has been said yet")
        return
    path = os.path.expanduser(argument) or time.strftime("shepherd-%Y%m%d-%H%M%S.md")
    with new_file(path) as file:
        file.write(_as_json(messages) if path.endswith(".json") else _as_markdown(messages))
    chat.screen.note(f"{counted(len(messages), 'message')} saved in {path}")


def _as_json(messages: list[Message]) -> str:
    said = [{"role": message.role, "content": message.raw} for message in messages]
    return json.dumps({"messages": said}, ensure_ascii=False, indent=2) + "\n"


def _as_markdown(messages: list[Message]) -> str:
    parts = [f"## {_SPEAKERS[message.role]}\n\n{message.raw.strip()}\n" for message in messages]
    return "\n".join(parts)


_SPEAKERS = {"user": "You", "assistant": "Assistant"}


def _shown(chat: Chat, key: str) -> object:
    return SETTINGS[key].shown(getattr(chat.assistant.config, key))
