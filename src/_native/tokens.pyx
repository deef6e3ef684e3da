# cython: language_level=3
"""Estimates of token counts by characters per token, learned from the counts that servers return."""
cimport cython
from libc.math cimport ceil, isfinite

__all__ = ["CharsPerToken", "stripped_tokens"]

# How fast the average follows; a fifth of the difference at each sample.
cdef double ALPHA = 0.2
# Natural text and code lie within, for every tokenizer in use; English prose is at 4 to 4.7, dense code at 2.5 to 3.
cdef double LEAST = 2.0
cdef double MOST = 5.0
# A sample further off than a factor of 2 counted something else (a cached prompt, tools, images).
cdef double LEAST_RATIO = 0.5
cdef double MOST_RATIO = 2.0
cdef double START = 3.5


cdef double clamped(double value) noexcept:
    return LEAST if value < LEAST else MOST if value > MOST else value


@cython.final
@cython.auto_pickle(False)
cdef class CharsPerToken:
    """An exponential moving average of characters per token, always within 2 to 5."""

    cdef double _value  # characters per token

    def __init__(self, double value=START):
        self._value = clamped(value) if isfinite(value) else START

    @property
    def value(self):
        """The current average, from which a new object can continue."""
        return self._value

    def estimate(self, double n_chars):
        """Return the tokens of a text of so many characters, rounded up; 0 for none."""
        if not n_chars > 0:
            return 0
        return int(ceil(n_chars / self._value))

    def observe(self, double n_chars, double n_tokens):
        """Add one counted text to the average; return False when it was rejected as an outlier or as no count."""
        cdef double sample, ratio
        if not (isfinite(n_chars) and isfinite(n_tokens) and n_chars > 0 and n_tokens > 0):
            return False
        sample = n_chars / n_tokens
        ratio = sample / self._value
        if not LEAST_RATIO <= ratio <= MOST_RATIO:
            return False
        self._value = clamped(self._value + ALPHA * (sample - self._value))
        return True

    def __repr__(self):
        return f"CharsPerToken({self._value:.3f})"


def stripped_tokens(chars_before, tokens_before, chars_after):
    """Return the tokens of a message without its tail, by its own characters per token; at least 1."""
    if chars_before <= 0 or tokens_before <= 0:
        return max(1, tokens_before)
    return max(1, chars_after * tokens_before // chars_before)
