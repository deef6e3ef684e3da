"""ChatGPT's data export: conversations.json, alone or in the ZIP archive.

An array of conversations, each a tree of messages (`mapping`) with the leaf of the branch that was read last
(`current_node`): that branch is imported, regenerated answers are not. A turn is a message of the user with
all answers until the next one. ChatGPT's own memories are messages to its tool `bio` and the user's "custom
instructions"; newer archives can have them as memories.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

from shepherd.memory.importers.records import (
    ABOUT_USER,
    Bad,
    Entry,
    json_items,
    moment,
    statement,
    text,
    understood,
)
from shepherd.memory.records import NewMemory

__all__ = ["is_part", "read"]

SOURCE = "chatgpt"

_PART = re.compile(r"(?:.*/)?(?:conversations(?:-\d+)?|memories)\.json")
# Marks of citations and of inserted widgets, in characters of private use.
_MARKS = re.compile("\ue200[^\ue201]*\ue201|[\ue200-\ue206]")


def is_part(name: str) -> bool:
    """Return True for a file of the archive that has something to import."""
    return _PART.fullmatch(name) is not None


def read(file: BufferedReader, now: int) -> Iterator[Entry]:
    """Yield the turns and memories of each conversation, in the order of the file."""
    for place, _, item in json_items(file, "conversation"):
        if isinstance(item, Bad):
            yield item
        elif isinstance(item, dict) and isinstance(item.get("mapping"), dict):
            yield from understood(place, _conversation(item, now))
        elif isinstance(item, dict) and (said := text(item.get("content")) or text(item.get("memory"))):
            created = moment(item.get("created_at", item.get("create_time")), now)
            yield statement(ABOUT_USER, said, created, SOURCE)
        else:
            yield Bad(place, "not a conversation of ChatGPT's")


def _conversation(conversation: dict[str, Any], now: int) -> Iterator[NewMemory]:
    began = moment(conversation.get("create_time"), now)
    session = "chatgpt:" + text(conversation.get("conversation_id", conversation.get("id")))
    asked: list[str] = []
    answered: list[str] = []
    asked_at = began
    for message in _branch(conversation):
        content = message.get("content")
        content = content if isinstance(content, dict) else {}
        said_at = moment(message.get("create_time"), began)
        role = _role(message)
        if role == "user" and content.get("content_type") == "user_editable_context":
            if about := text(content.get("user_profile")):
                yield statement(ABOUT_USER, about, said_at, SOURCE)
        elif role == "assistant" and message.get("recipient") == "bio":
            if noted := _text(content) or text(content.get("text")):
                yield statement(ABOUT_USER, noted, said_at, SOURCE, session)
        elif role == "user" and (said := _text(content)):
            if answered:
                yield _turn(asked, answered, asked_at, session)
                asked, answered = [], []
            asked_at = asked_at if asked else said_at
            asked.append(said)
        elif role == "assistant" and message.get("recipient", "all") == "all" and (said := _text(content)):
            answered.append(said)
    if asked or answered:
        yield _turn(asked, answered, asked_at, session)


def _turn(asked: list[str], answered: list[str], timestamp: int, session: str) -> NewMemory:
    return NewMemory("\n\n".join(asked), "\n\n".join(answered), timestamp, SOURCE, session)


def _branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages from the root to the leaf that was read last."""
    mapping = conversation["mapping"]
    node_id = conversation.get("current_node")
    if not isinstance(node_id, str) or node_id not in mapping:
        node_id = _latest_leaf(mapping)
    messages: list[dict[str, Any]] = []
    seen = set()
    while isinstance(node_id, str) and node_id in mapping and node_id not in seen:
        seen.add(node_id)
        node = mapping[node_id] if isinstance(mapping[node_id], dict) else {}
        if isinstance(node.get("message"), dict):
            messages.append(node["message"])
        node_id = node.get("parent")
    return messages[::-1]


def _latest_leaf(mapping: dict[str, Any]) -> str | None:
    leaves = [
        (moment(node["message"].get("create_time"), 0), node_id)
        for node_id, node in mapping.items()
        if isinstance(node, dict) and not node.get("children") and isinstance(node.get("message"), dict)
    ]
    return max(leaves)[1] if leaves else None


def _role(message: dict[str, Any]) -> str:
    author = message.get("author")
    metadata = message.get("metadata")
    role = text(author.get("role")) if isinstance(author, dict) else ""
    is_hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    kind = (
        (message.get("content") or {}).get("content_type") if isinstance(message.get("content"), dict) else ""
    )
    # Custom instructions are hidden in every conversation.
    return "" if is_hidden and kind != "user_editable_context" else role


def _text(content: dict[str, Any]) -> str:
    """Return the text of a message: no pictures, thoughts or tool calls."""
    if content.get("content_type") not in ("text", "multimodal_text"):
        return ""
    parts = content.get("parts")
    said = []
    for part in parts if isinstance(parts, list) else []:
        spoken = part.get("text") if isinstance(part, dict) else part
        if isinstance(spoken, str):
            said.append(spoken)
    return text(_MARKS.sub("", "\n".join(said)))
