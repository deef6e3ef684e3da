"""What is kept for later is bounded, in number and in bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shepherd.recent import Recent, Remembered


def test_entry_that_was_longest_out_of_use_goes_first():
    recent: Recent[str, int] = Recent(2)
    recent.put("one", 1)
    recent.put("two", 2)

    assert recent.get("one") == 1
    recent.put("three", 3)

    assert [recent.get(key) for key in ("one", "two", "three")] == [1, None, 3]


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=40)), max_size=60))
def test_bytes_of_all_entries_stay_within_the_limit(entries):
    recent: Recent[int, bytes] = Recent(4, most_bytes=64, size_of=lambda key, value: len(value))
    for key, value in entries:
        recent.put(key, value)

        held = [found for other in range(6) if (found := recent.get(other)) is not None]
        assert recent.n_bytes == sum(map(len, held)) <= 64
        assert len(recent) == len(held) <= 4
        # The newest one fits by itself, and is the last to go.
        assert recent.get(key) == value


def test_entry_larger_than_the_limit_is_not_kept_and_costs_no_other():
    recent: Recent[int, bytes] = Recent(4, most_bytes=64, size_of=lambda key, value: len(value))
    recent.put(1, b"x")
    recent.put(2, b"x" * 65)

    assert (recent.get(1), recent.get(2), recent.n_bytes) == (b"x", None, 1)


def test_result_is_computed_once_while_it_is_kept():
    asked = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    remembered = Remembered(length, most=9, most_bytes=10, size_of=lambda key, value: value)

    assert [remembered(text) for text in ("four", "four", "six", "four")] == [4, 4, 3, 4]
    assert asked == ["four", "six"]
    assert remembered("a long text") == 11
    assert remembered("a long text") == 11
    assert remembered("six") == 3
    assert asked == ["four", "six", "a long text", "a long text"]
    assert remembered.n_bytes == 7


def test_result_that_is_nothing_is_kept_too():
    asked = []
    remembered = Remembered(asked.append, most=2, most_bytes=9, size_of=lambda key, value: 1)

    assert [remembered("a"), remembered("a")] == [None, None]
    assert asked == ["a"]
