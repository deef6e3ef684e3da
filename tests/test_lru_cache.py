"""Caches are limited in entries and in bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shepherd.lru_cache import CachedFunction, FIFODict, LRUCache


def test_entry_that_was_longest_out_of_use_goes_first():
    cache: LRUCache[str, int] = LRUCache(2)
    cache.put("one", 1)
    cache.put("two", 2)

    assert cache.get("one") == 1
    cache.put("three", 3)

    assert [cache.get(key) for key in ("one", "two", "three")] == [1, None, 3]


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=40)), max_size=60))
def test_bytes_of_all_entries_stay_within_the_limit(entries):
    cache: LRUCache[int, bytes] = LRUCache(4, max_bytes=64, size_of=lambda key, value: len(value))
    for key, value in entries:
        cache.put(key, value)

        held = [found for other in range(6) if (found := cache.get(other)) is not None]
        assert cache.n_bytes == sum(map(len, held)) <= 64
        assert len(cache) == len(held) <= 4
        # The newest one fits by itself, and is the last to go.
        assert cache.get(key) == value


def test_entry_larger_than_the_limit_is_not_kept_and_costs_no_other():
    cache: LRUCache[int, bytes] = LRUCache(4, max_bytes=64, size_of=lambda key, value: len(value))
    cache.put(1, b"x")
    cache.put(2, b"x" * 65)

    assert (cache.get(1), cache.get(2), cache.n_bytes) == (b"x", None, 1)


def test_entry_as_large_as_the_limit_is_kept_alone_and_a_larger_one_drops_the_old_value():
    cache: LRUCache[int, bytes] = LRUCache(4, max_bytes=64, size_of=lambda key, value: len(value))
    cache.put(1, b"x")
    cache.put(2, b"x" * 64)

    assert (cache.get(1), len(cache), cache.n_bytes) == (None, 1, 64)
    cache.put(2, b"x" * 65)
    assert (cache.get(2), cache.n_bytes) == (None, 0)


def test_what_is_removed_is_gone_and_the_rest_stays():
    cache: LRUCache[str, int] = LRUCache(3)
    for key in ("one", "two"):
        cache.put(key, 1)

    cache.remove("one")
    cache.remove("none")
    assert (cache.get("one"), cache.get("two"), len(cache)) == (None, 1, 1)
    cache.clear()
    assert (cache.get("two"), len(cache)) == (None, 0)


def test_a_function_computes_again_what_it_was_told_to_forget():
    asked: list[str] = []
    length_of = CachedFunction(asked.append, max_entries=2, max_bytes=9, size_of=lambda key, value: 1)

    length_of("a")
    length_of.clear()
    length_of("a")

    assert asked == ["a", "a"]


def test_result_is_computed_once_while_it_is_kept():
    asked = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    length_of = CachedFunction(length, max_entries=9, max_bytes=10, size_of=lambda key, value: value)

    assert [length_of(text) for text in ("four", "four", "six", "four")] == [4, 4, 3, 4]
    assert asked == ["four", "six"]
    assert length_of("a long text") == 11
    assert length_of("a long text") == 11
    assert length_of("six") == 3
    assert asked == ["four", "six", "a long text", "a long text"]
    assert length_of.n_bytes == 7


def test_result_that_is_nothing_is_kept_too():
    asked = []
    length_of = CachedFunction(asked.append, max_entries=2, max_bytes=9, size_of=lambda key, value: 1)

    assert [length_of("a"), length_of("a")] == [None, None]
    assert asked == ["a"]


def test_entry_added_first_goes_first_from_a_full_dictionary():
    entries: FIFODict[str, int] = FIFODict(2)
    entries["one"] = 1
    entries["two"] = 2
    entries["one"] = 3

    assert dict(entries) == {"one": 3, "two": 2}
    entries["three"] = 3

    assert dict(entries) == {"two": 2, "three": 3}


def test_copy_of_a_dictionary_has_its_entries_and_its_limit():
    entries: FIFODict[str, int] = FIFODict(2)
    entries["one"] = 1
    copied = entries.copy()
    copied["two"] = 2
    copied["three"] = 3

    assert (dict(entries), dict(copied)) == ({"one": 1}, {"two": 2, "three": 3})
