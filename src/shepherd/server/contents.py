"""Contents of messages in no API's shape: texts and pictures, in the order in which the client sent them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shepherd.errors import UsageError
from shepherd.lru_cache import LRUCache
from shepherd.pictures import LEFT_OUT, MOST_PICTURES, from_base64, from_data_url, marked
from shepherd.providers import ChatModel
from shepherd.server.errors import Denied, invalid
from shepherd.server.picture_addresses import fetched_picture, is_address
from shepherd.types import Message, Picture, Role, ToolCall

__all__ = [
    "Content",
    "Note",
    "Part",
    "check_pictures",
    "kept_picture",
    "message_of",
    "noted",
    "picture_from_base64",
    "picture_from_url",
    "stored_item",
]


class Note(str):
    """A text that a program has put beside the user's words: the model reads it, and nothing is learned."""

    __slots__ = ()


# Elements that programs write: Claude Code's <system-reminder>, Codex's <environment_context>.
_ELEMENTS = re.compile(
    r"(?:\s*<([a-z]+(?:[_-][a-z]+)+)>(?:(?!</\1>).)*</\1>)+\s*",
    re.DOTALL,
)


def noted(text: str) -> str:
    """Return a text of a user's message, as a Note if a program has written it."""
    return Note(text) if _ELEMENTS.fullmatch(text) else text


# Texts and pictures.
Content = Sequence[str | Picture]
_BREAK = "\n"


def message_of(
    role: Role,
    content: str | Content,
    *,
    tool_calls: tuple[ToolCall, ...] = (),
    tool_call_id: str = "",
) -> Message:
    """Return a message. Pictures and notes are for the model alone: `raw` has the other texts."""
    if isinstance(content, str):
        return Message(role, content, tool_calls=tool_calls, tool_call_id=tool_call_id)
    texts = [part for part in content if isinstance(part, str)]
    said = [text for text in texts if not isinstance(text, Note)]
    raw = _BREAK.join(said or texts)
    if len(texts) == len(content):
        whole = _BREAK.join(texts)
        composed = whole if whole != raw else ""
        return Message(role, raw, tool_calls=tool_calls, tool_call_id=tool_call_id, composed=composed)
    parts: list[str | Picture] = []
    for part in content:
        parts += [_BREAK, part] if parts else [part]
    composed, pictures = marked(parts)
    return Message(
        role, raw, tool_calls=tool_calls, tool_call_id=tool_call_id, composed=composed, pictures=pictures
    )


@dataclass
class Part:
    """A message, or what of it is a message of its own for the model."""

    role: Role
    content: list[str | Picture]
    calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    thought: str = ""

    def message(self) -> Message:
        """Return it in no API's shape."""
        made = message_of(self.role, self.content, tool_calls=self.calls, tool_call_id=self.tool_call_id)
        made.thought = self.thought
        return made


def picture_from_url(url: object, place: str) -> Picture:
    """Return the picture of a data: URL in the request's field `place`, or at an address on the web.

    Denied for other addresses, and for those on the web unless the operator allows them.
    """
    if not isinstance(url, str):
        raise invalid(place, "it is not the address of a picture")
    if is_address(url):
        return _checked(lambda: _fetched(url), place)
    if not url[:5].lower() == "data:":
        raise invalid(place, "send the picture itself, as a data: URL", "unsupported_content")
    return _checked(lambda: from_data_url(url), place)


def _fetched(url: str) -> Picture:
    picture = fetched_picture(url)
    if picture is None:
        raise UsageError(
            "this server fetches no pictures from the web",
            hint="send the picture itself, as a data: URL; or its operator sets server_fetch_pictures",
        )
    return picture


def picture_from_base64(data: object, place: str) -> Picture:
    """Return the picture of base64 text in the request's field `place`."""
    if not isinstance(data, str):
        raise invalid(place, "it is not base64 text")
    return _checked(lambda: from_base64(data), place)


# Pictures of stored responses and conversations: only in memory, never on disk.
_KEPT, _KEPT_BYTES = 256, 64 << 20
_KEPT_ADDRESS = "shepherd-picture:"
_pictures: LRUCache[str, Picture] = LRUCache(
    _KEPT, max_bytes=_KEPT_BYTES, size_of=lambda _, picture: len(picture.data)
)


def stored_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of the Responses API as it is stored: an address of our own stands for a picture."""
    found = dict(item)
    for field in ("content", "output"):
        if isinstance(item.get(field), list):
            found[field] = [_stored_part(part) for part in item[field]]
    return found


def _stored_part(part: Any) -> Any:
    url = part.get("image_url") if isinstance(part, dict) else None
    if not isinstance(url, str) or part.get("type") != "input_image":
        return part
    if url.startswith(_KEPT_ADDRESS) or is_address(url):
        return part
    picture = picture_from_url(url, "input")
    address = _KEPT_ADDRESS + picture.digest.hex()
    _pictures.put(address, picture)
    return {**part, "image_url": address}


def kept_picture(address: str | None) -> str | Picture | None:
    """Return the picture at an address of our own, or a word if it's no longer there; None for others."""
    if address is None or not address.startswith(_KEPT_ADDRESS):
        return None
    return _pictures.get(address) or LEFT_OUT


def _checked(read: Callable[[], Picture], place: str) -> Picture:
    try:
        return read()
    except UsageError as error:
        raise invalid(place, f"{error} ({error.hint})", "invalid_picture") from None


def check_pictures(messages: Sequence[Message], model: ChatModel) -> None:
    """Raise Denied if there are pictures and the model reads none, or too many."""
    n_pictures = sum(len(message.pictures) for message in messages)
    if n_pictures and not model.reads_pictures:
        why = f" ({model.picture_problem})" if model.picture_problem else ""
        raise invalid("messages", f"the model reads only text, no pictures{why}", "unsupported_content")
    if n_pictures > MOST_PICTURES:
        message = f"messages: the conversation has more than {MOST_PICTURES} pictures"
        raise Denied(413, "request_too_large", message, param="messages")
