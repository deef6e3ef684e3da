"""Estimates of token counts by characters per token, learned from the counts that servers return."""

from typing import final

__all__ = ["CharsPerToken", "stripped_tokens"]

@final
class CharsPerToken:
    """An exponential moving average of characters per token, always within 2 to 5.

    One per model; not for use from several threads at once. A value that is not finite starts at 3.5.
    """

    def __init__(self, value: float = 3.5) -> None: ...
    @property
    def value(self) -> float:
        """The current average, from which a new object can continue."""
    def estimate(self, n_chars: float) -> int:
        """Return the tokens of a text of so many characters, rounded up; 0 for none."""
    def observe(self, n_chars: float, n_tokens: float) -> bool:
        """Add one counted text to the average; return False when it was rejected.

        Rejected are counts that are not positive, and samples further off than a factor of 2.
        """

def stripped_tokens(chars_before: int, tokens_before: int, chars_after: int) -> int:
    """Return the tokens of a message without its tail, by its own characters per token; at least 1."""
