"""Places where a text can be cut so that the ids of both parts, joined, are those of the whole text.

Most templates write control tokens, at which any text is cut. A plain dialogue has none: without other
places, all of it would be tokenised anew each turn.

A text is cut before a space or a line break if no token of the vocabulary contains that character directly
after the one before it. No token can then span the cut. SentencePiece merges pairs of neighbours, and RWKV
takes the longest token at each place: each side does so by itself. A byte-level BPE splits a text into words
first, by a pattern of its model. All of llama.cpp's patterns end a word before a space, and letters before a
line break, or treat what is on both sides alike. Signs and line breaks can be one word, so a text is
not cut between these.
"""

from __future__ import annotations

__all__ = ["TextCuts"]

# llama_vocab_type; the others choose the likeliest of all ways to cut a text, or normalise it.
_SENTENCE_PIECE, _BYTE_LEVEL, _RWKV = 1, 2, 5
_KINDS = frozenset((_SENTENCE_PIECE, _BYTE_LEVEL, _RWKV))
# SentencePiece's sign for a space.
_BLANK = "\u2581"
# tokenize_after puts this letter before a text, if no token continues it.
_SENTINEL = ord("a")


class TextCuts:
    """The places of one vocabulary.

    `kind` is llama.cpp's number of its tokenizer. `before_blank` and `before_break` are the bytes that some
    token has directly before a space or a line break.
    """

    def __init__(self, kind: int, before_blank: bytes, before_break: bytes) -> None:
        self._joined = {" ": frozenset(before_blank), "\n": frozenset(before_break)}
        self._needs_letter = kind == _BYTE_LEVEL
        is_continued = any(_SENTINEL in joined for joined in self._joined.values())
        self.has_any = kind in _KINDS and not (kind == _SENTENCE_PIECE and is_continued)

    def last(self, text: str) -> int:
        """Return the last place where the text can be cut; 0 if there is none. Cost: O(characters)."""
        at = len(text) if self.has_any else 0
        while at > 0:
            at = max(text.rfind(" ", 1, at), text.rfind("\n", 1, at))
            if at > 0 and self._can_cut(text[at - 1], text[at]):
                return at
        return 0

    def _can_cut(self, before: str, blank: str) -> bool:
        if (
            before.isspace()
            or before == _BLANK
            or before.encode("utf-8", "replace")[-1] in self._joined[blank]
        ):
            return False
        return blank == " " or not self._needs_letter or before.isalpha()
