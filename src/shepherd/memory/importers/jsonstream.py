"""Reads a large JSON document item by item: never more of it in memory than its largest item."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["items"]

_CHUNK = 1 << 16
# A conversation of a lifetime is smaller. What goes on for longer is not JSON, or not meant to be read.
_LARGEST_ITEM = 1 << 26
# Cut off inside a literal or an escape, the error lies this close to the end of what has been read.
_LONGEST_LITERAL = 16
_SPACE = " \t\r\n"


def items(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """The items of an array as ("", item); of an object (key, value), its arrays item by item.

    ValueError where the document ends being JSON; what came before has been given by then.
    """
    buffer = _Buffer(file)
    opening = buffer.next_sign()
    if opening == "[":
        yield from _array("", buffer)
    elif opening == "{":
        yield from _object(buffer)
    else:
        raise ValueError("not JSON: neither an array nor an object")
    if buffer.next_sign():
        raise ValueError("not JSON: something follows the end")


def _array(key: str, buffer: _Buffer) -> Iterator[tuple[str, Any]]:
    buffer.take("[")
    if buffer.next_sign() == "]":
        buffer.take("]")
        return
    while True:
        yield key, buffer.value()
        if buffer.next_sign() == "]":
            buffer.take("]")
            return
        buffer.take(",")


def _object(buffer: _Buffer) -> Iterator[tuple[str, Any]]:
    buffer.take("{")
    if buffer.next_sign() == "}":
        buffer.take("}")
        return
    while True:
        buffer.next_sign()
        key = buffer.value()
        if not isinstance(key, str):
            raise ValueError("not JSON: a key is not a text")
        buffer.take(":")
        if buffer.next_sign() == "[":
            yield from _array(key, buffer)
        else:
            yield key, buffer.value()
        if buffer.next_sign() == "}":
            buffer.take("}")
            return
        buffer.take(",")


class _Buffer:
    """The part of the document that is being looked at."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._place = 0
        self._is_whole = False

    def next_sign(self) -> str:
        """The next character that is no white space, left where it is; "" at the end."""
        while True:
            while self._place < len(self._text) and self._text[self._place] in _SPACE:
                self._place += 1
            if self._place < len(self._text) or not self._read_more():
                return self._text[self._place : self._place + 1]

    def take(self, sign: str) -> None:
        """Goes on behind the character that must be next."""
        if self.next_sign() != sign:
            is_over = self._place == len(self._text)
            raise ValueError("not JSON: it ends too early" if is_over else f"not JSON: {sign!r} is missing")
        self._place += 1

    def value(self) -> Any:
        """The whole value that begins here."""
        self.next_sign()
        while True:
            try:
                value, end = self._parse(self._text, self._place)
            except json.JSONDecodeError as error:
                if not self._may_go_on(error) or not self._read_more():
                    raise ValueError(f"not JSON ({error.msg})") from None
            except RecursionError:
                raise ValueError("not JSON: nested too deeply") from None
            else:
                if not self._is_cut(value, end) or not self._read_more():
                    self._place = end
                    return value

    def _is_cut(self, value: Any, end: int) -> bool:
        # "1" of 15, of 1.5 and of 1e5: a number is whole when something follows that cannot belong to it.
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return end == len(self._text) or (is_number and self._text[end] not in ",]}" + _SPACE)

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _LONGEST_LITERAL
        return is_cut and len(self._text) - self._place < _LARGEST_ITEM

    def _read_more(self) -> bool:
        """Reads as much again as is unread, so that a large item is parsed a few times and not a thousand."""
        while not self._is_whole:
            data = self._file.read(max(_CHUNK, len(self._text) - self._place))
            self._is_whole = not data
            more = self._decode(data, final=self._is_whole)
            if more:
                self._text, self._place = self._text[self._place :] + more, 0
                return True
        return False
