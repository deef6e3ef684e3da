"""Thoughts that a server leaves in the answer, between <think> and </think> at its beginning, told apart."""

from __future__ import annotations

from collections.abc import Iterator

from shepherd.types import Thought

__all__ = ["ThoughtSplitter"]

_BEGIN, _END = "<think>", "</think>"


class ThoughtSplitter:
    """Feed it the pieces of one answer. Only a block that begins the answer counts: later ones are text."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def pieces(self, text: str) -> Iterator[str | Thought]:
        """What can be told apart by now; a tag that may still come is held back."""
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip()
            if not begun or (len(begun) < len(_BEGIN) and _BEGIN.startswith(begun)):
                return
            is_thought = begun.startswith(_BEGIN)
            self._state = "thought" if is_thought else "text"
            self._held = begun[len(_BEGIN) :] if is_thought else self._held
        if self._state == "thought":
            thought, end, rest = self._held.partition(_END)
            if not end:
                keep = _overlap(thought, _END)
                thought, rest = thought[: len(thought) - keep], thought[len(thought) - keep :]
            else:
                self._state = "gap"
            self._held = rest
            if thought:
                yield Thought(thought)
        if self._state == "gap":
            self._held = self._held.lstrip("\n")
            self._state = "text" if self._held else "gap"
        if self._state == "text" and self._held:
            text, self._held = self._held, ""
            yield text

    def rest(self) -> Iterator[str | Thought]:
        """What was held back, at the end of the answer."""
        held, self._held = self._held, ""
        if held:
            yield Thought(held) if self._state == "thought" else held


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
