"""Tokens of each user's latest answers, which the next one may repeat."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from shepherd.lru_cache import LRUCache

__all__ = ["EarlierAnswers"]

_MOST_USERS = 64
_MOST_TOKENS = 4096  # of a user; indexing them takes some microseconds per answer
_LEAST_TOKENS = 8  # a shorter answer is hardly worth a place


class EarlierAnswers:
    """The newest tokens that were generated for each user, in RAM alone. Thread-safe.

    An answer is only guessed from its own user's: how fast it comes must not tell what others were answered.
    """

    def __init__(self, end_token: int) -> None:
        self._end = end_token
        self._by_user: LRUCache[str, array[int]] = LRUCache(_MOST_USERS)

    def of(self, user: str) -> array[int] | None:
        """Return the tokens of the user's answers, the newest last; None without any."""
        return self._by_user.get(user)

    def add(self, user: str, token_ids: Sequence[int]) -> None:
        """Keep an answer; the oldest tokens leave."""
        if len(token_ids) < _LEAST_TOKENS:
            return
        # Of two answers that end at once one may be lost, which costs a guess.
        both = array("i", self._by_user.get(user) or ())
        both.extend(token_ids)
        if self._end >= 0:
            both.append(self._end)  # a guess ends here
        self._by_user.put(user, both[-_MOST_TOKENS:])
