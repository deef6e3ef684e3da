"""What stands for the turns that left: `[Conversation summary: …]`, and the line by which turns are told.

The label is put on once, where the text is shown. What was summed up is never summed up again: each fold adds
a piece that was made of the turns themselves, and the oldest pieces go when the summary gets too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shepherd.context.exchanges import Exchange
from shepherd.escaping import escape_lines, escape_text
from shepherd.types import Message

__all__ = ["NO_SUMMARY", "QUESTION_MARKS", "Summary", "speech_act", "told", "told_for_summary"]

_LABEL = "Conversation summary"
# Of one piece: 1,024 tokens may be asked for. A model may write pages all the same.
_LONGEST_PIECE = 8000
_LONGEST_LINE = 20_000
QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # Latin, full width, Arabic, Greek
_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool"}


@dataclass(frozen=True, slots=True)
class Summary:
    """What was said before the history begins, in pieces, oldest first; `n_turns` are summed up in them.

    Of the pieces, `private` are those of turns that nothing may be written down of.
    """

    pieces: tuple[str, ...] = ()
    n_turns: int = 0
    private: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """As the model sees it, label and all; empty without pieces."""
        return f"[{_LABEL}: {' '.join(self.pieces)}]" if self.pieces else ""

    @property
    def kept(self) -> Summary:
        """As much of it as may be written down."""
        return Summary(tuple(piece for piece in self.pieces if piece not in self.private), self.n_turns)

    def with_pieces(
        self, more: Sequence[str], n_turns: int, *, fits: Callable[[str], bool], is_private: bool = False
    ) -> Summary:
        """The summary with more pieces; the oldest ones go until `fits` says yes to the text."""
        clean = tuple(filter(None, map(_clean, more)))
        pieces = (*self.pieces, *clean)
        while len(pieces) > 1 and not fits(Summary(pieces).text):
            pieces = pieces[1:]
        private = self.private.union(clean) if is_private else self.private
        return Summary(pieces, self.n_turns + n_turns, private.intersection(pieces))


NO_SUMMARY = Summary()


def _clean(piece: str) -> str:
    # A model may repeat the label that it was shown.
    said = " ".join(piece.split()).removeprefix("[").removeprefix(f"{_LABEL}:").strip()
    return escape_text(said, _LONGEST_PIECE)


def told(message: Message, *, times: bool = False, act: str = "") -> str:
    """`Speaker: text`, with `[HH:MM]` before it and the speech act after the speaker, if asked.

    The text is as it was said, but that no line of it can pass for a speaker or for a block.
    """
    clock = ""
    if times and message.created_at:
        clock = f"[{time.strftime('%H:%M', time.localtime(message.created_at))}] "
    speaker = _SPEAKERS.get(message.role, "System")
    return f"{clock}{speaker}{f' ({act})' if act else ''}: {escape_lines(message.raw, _LONGEST_LINE)}"


def speech_act(text: str) -> str:
    """What a message of the user does: `question` or `statement`, as far as its end tells."""
    return "question" if text.rstrip().endswith(QUESTION_MARKS) else "statement"


def told_for_summary(exchanges: Sequence[Exchange]) -> list[str]:
    """Each exchange as the summariser reads it: raw texts, without tails, thoughts and tools."""
    return [
        "\n".join([told(exchange.user, act=speech_act(exchange.user.raw)), told(exchange.answer)])
        for exchange in exchanges
    ]
