"""Contents of messages in no API's shape: texts and pictures, in the order in which the client sent them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shepherd.errors import UsageError
from shepherd.lru_cache import LRUCache
from shepherd.pictures import LEFT_OUT, MARK, MOST_PICTURES, from_base64, from_data_url, marked
from shepherd.providers import ChatModel
from shepherd.server.errors import Denied, invalid
from shepherd.types import Message, Picture, Role, ToolCall

__all__ = [
    "Content",
    "check_pictures",
    "content_of",
    "joined",
    "kept_picture",
    "message_of",
    "picture_from_base64",
    "picture_from_url",
    "stored_item",
]

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
    """Return a message. Its pictures are for the model alone: `raw` has the texts."""
    if isinstance(content, str):
        return Message(role, content, tool_calls=tool_calls, tool_call_id=tool_call_id)
    raw = _BREAK.join(part for part in content if isinstance(part, str))
    if not any(isinstance(part, Picture) for part in content):
        return Message(role, raw, tool_calls=tool_calls, tool_call_id=tool_call_id)
    parts: list[str | Picture] = []
    for part in content:
        parts += [_BREAK, part] if parts else [part]
    composed, pictures = marked(parts)
    return Message(
        role, raw, tool_calls=tool_calls, tool_call_id=tool_call_id, composed=composed, pictures=pictures
    )


def joined(messages: Sequence[Message]) -> Message:
    """Return neighbouring messages of one role as one."""
    content: list[str | Picture] = []
    for message in messages:
        content += content_of(message)
    calls = tuple(call for message in messages for call in message.tool_calls)
    return message_of(messages[0].role, content, tool_calls=calls)


def content_of(message: Message) -> list[str | Picture]:
    """Return the texts and pictures of a message that `message_of` made."""
    if not message.pictures:
        return [message.raw] if message.raw else []
    texts = message.composed.split(MARK)
    content: list[str | Picture] = []
    for text, picture in zip(texts, [*message.pictures, None], strict=True):
        content += [text.strip(_BREAK)] if text.strip(_BREAK) else []
        content += [picture] if picture is not None else []
    return content


def picture_from_url(url: object, place: str) -> Picture:
    """Return the picture of a data: URL in the request's field `place`. Denied for other addresses."""
    if not isinstance(url, str):
        raise invalid(place, "it is not the address of a picture")
    if not url[:5].lower() == "data:":
        raise invalid(place, "send the picture itself, as a data: URL", "unsupported_content")
    return _checked(lambda: from_data_url(url), place)


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
    if not isinstance(url, str) or part.get("type") != "input_image" or url.startswith(_KEPT_ADDRESS):
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
        raise invalid("messages", f"the model reads text, no pictures{why}", "unsupported_content")
    if n_pictures > MOST_PICTURES:
        message = f"messages: the conversation has more than {MOST_PICTURES} pictures"
        raise Denied(413, "request_too_large", message, param="messages")
