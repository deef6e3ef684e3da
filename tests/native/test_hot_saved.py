"""Saved hot indexes: whole when loaded, refused when damaged or forged, without stray memory."""

from __future__ import annotations

import math
import os
import random
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from shepherd._native import text
from shepherd._native.hot import HotIndex
from tests.native import twin_rank
from tests.native.recall_database import NOW, zipf_memories
from tests.native.saved_index import Chunk, SavedIndex, boundary_values, checksum, written
from tests.native.test_hot import document, filled, numbered, publish, row

# How many forgeries of several fields are tried, and of how many indexes each field is forged.
N_FORGERIES = int(os.environ.get("SHEPHERD_FORGERIES", "400"))
N_INDEXES = 1 + N_FORGERIES // 4000

# One word each at the length that terms have room for and around it, and far above.
LONG = [f"{'kilo' * 60}"[:n] for n in (11, 12, 13, 14, 200)]


def questions(words: Sequence[str]) -> list[list[str]]:
    """Each word alone, pairs of words, and all of them."""
    return [*([word] for word in words), *(list(pair) for pair in pairwise(words)), list(words)]


def use(index: HotIndex, words: Sequence[str]) -> None:
    """Search, save and change an index that was loaded."""
    counts = index.counts()
    assert counts is not None
    ids = {sequence for (sequence,) in struct.iter_unpack("<q", index.sequences())}
    assert len(ids) == counts["n_memories"]
    for keywords in questions(words):
        assert index.search(counts["version"], keywords, 400, NOW) is not None
        found = index.search(counts["version"], keywords, 30, NOW)
        assert found is not None
        assert ids.issuperset(hit[0] for hit in found)
        assert all(math.isfinite(number) for hit in found for number in hit)
        assert index.search(counts["version"], keywords, 3, NOW) == found[:3]
    saved = index.save()
    assert saved is not None
    assert HotIndex.load(saved).save() == saved
    change(index, counts["last_sequence"] + 1, words)


def change(index: HotIndex, first: int, words: Sequence[str]) -> None:
    if first + 40 < 1 << 32:
        index.add([row(first + i, ([word, f"new{i}"], [word] * i, NOW)) for i, word in enumerate(words)])
    index.remove(range(0, 40, 2))
    counts = index.counts()
    assert counts is not None
    assert counts["n_postings"] >= 0
    index.publish(5, counts["n_memories"], counts["total_length"])
    for keywords in questions(words):
        assert index.search(5, keywords, 9, NOW) is not None


def small_index(seed: int) -> tuple[bytes, list[str]]:
    """A saved index with lists, chunks, names and frequencies of every kind, and words that it has."""
    rng = random.Random(seed)
    stored: list[Any] = [
        (
            [rng.choice("abcdefgh") * 2, "tt"],
            ["zz"] * rng.randrange(5),
            NOW - rng.randrange(10**7),
            i // 3,
            i % 2,
        )
        for i in range(24)
    ]
    stored = [(*memory, i % 3) for i, memory in enumerate(stored)]
    stored += [((f"{word}w", word), (), NOW) for word in LONG[1::2]]
    stored.append((["echo"] * 300, ["fox"] * 255, NOW))
    rows = numbered(stored)
    index = filled(rows)
    index.remove([2, 5])
    publish(index, [row for row in rows if row[0] not in (2, 5)])
    saved = index.save()
    assert saved is not None
    return saved, ["tt", "zz", "aa", "hh", "echo", "fox", *text.keywords(f"{LONG[1]} {LONG[3]}w")]


def load(saved: bytes) -> HotIndex | None:
    try:
        return HotIndex.load(saved)
    except ValueError:
        return None


def test_damaged_bytes_are_refused() -> None:
    saved = filled(numbered(zipf_memories(4, 50, 20))).save()
    assert saved is not None
    rng = random.Random(3)
    for _ in range(200):
        damaged = bytearray(saved)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError, match="no saved index"):
            HotIndex.load(damaged)
    for n in (0, 1, 100, len(saved) - 1):
        with pytest.raises(ValueError, match="no saved index"):
            HotIndex.load(saved[:n])


def test_words_of_any_length_are_saved_and_found() -> None:
    rows = numbered([((word,), (), NOW) for word in LONG])
    saved = filled(rows).save()
    assert saved is not None
    loaded = HotIndex.load(saved)
    for sequence, word in enumerate(LONG, 1):
        for index in (filled(rows), loaded):
            found = index.search(1, text.keywords(word), 3, NOW)
            assert found is not None
            assert [hit[0] for hit in found] == [sequence]
        assert loaded.search(1, [f"{text.keywords(word)[0]}x"], 3, NOW) == []


@pytest.mark.parametrize("n_words", [0, 1, 2, 3, 64])
def test_a_loaded_index_of_few_words_takes_many_more(n_words: int) -> None:
    rows = numbered([([f"old{i}"], ["shared"][: n_words > 1], NOW) for i in range(n_words)])
    saved = filled(rows).save()
    assert saved is not None
    index = HotIndex.load(saved)
    new = [row(100 + i, ([f"new{i}", f"{'long' * 9}{i}"], ["shared"], NOW)) for i in range(500)]

    index.add(new)
    publish(index, [*rows, *new])

    documents = [document(row) for row in [*rows, *new]]
    for keywords in (["old0", "shared"], ["new7", "new499"], [f"{'long' * 9}3", "old1"]):
        assert index.search(1, keywords, 5, NOW) == twin_rank.search(documents, keywords, 5, NOW)


# ---- forgeries


def test_the_parser_names_every_byte() -> None:
    saved, _ = small_index(1)
    parsed = SavedIndex(saved)
    assert parsed.forged([]) == saved

    n_bytes = sum(field.n_bits // 8 for field in parsed.fields) + len(parsed.unused_bytes)
    names = sum(parsed.value(field) for field in parsed.named("name_length"))

    assert int.from_bytes(saved[-8:], "little") == checksum(saved[:-8])
    assert n_bytes + names + 8 == len(saved)
    assert {"next_free", "big_parts", "name_length", "document", "single_parts"} <= {
        f.name for f in parsed.fields
    }


# Fields in which another number, though not every one, makes another index that is sound.
ANY_VALUE = {
    # What a memory says of itself, and in which memories of the same length a word is.
    *(
        "version",
        "sequence",
        "label",
        "timestamp",
        "thread",
        "asks",
        "length",
        "pairs",
        "document",
        "parts",
        "single_parts",
        "big_parts",
    ),
    # Computed anew when an index is loaded, or bounds that may be loose.
    *("beside", "second", "newest", "least_len", "least_parts", "most_parts"),
    # Words, and what a list that is empty or has grown no longer uses.
    *("letter", "n_letters", "name", "name_length", "place", "old_parts", "old_len"),
}


@pytest.mark.parametrize("seed", range(N_INDEXES))
def test_a_boundary_value_in_any_field_is_refused_or_harmless(seed: int) -> None:
    """Forged with a fitting checksum: at every field each number at which a check may err, one at a time."""
    saved, words = small_index(seed)
    parsed = SavedIndex(saved)
    accepted = set()
    for field in parsed.fields:
        for value in boundary_values(parsed, field):
            index = load(parsed.forged([(field, value)]))
            if index is not None:
                accepted.add(field.name)
                use(index, words)
    assert accepted <= ANY_VALUE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("document", 0xFFFFFFFF),  # one more is 0
        ("document", 1),  # a memory that was deleted
        ("parts", 0),
        ("single_parts", 0),
        ("len", 254),
        ("most_parts", 0),
        ("least_parts", 0xFF),
        ("least_len", 254),
        ("next_free", 1),
        ("free_chunk", 1),
        ("big_parts", 0),
        ("big_parts", 1 << 30),  # more than the memory has words
        ("big_term", 0),
        ("big_document", 0),
        ("n_postings", 0),
        ("n_postings", 1 << 63),
        ("total_length", 0),
        ("n_memories", 0),
        ("sequence", 0xFFFFFFFF),
        ("doc_len", 0),
        ("asks", 3),
        ("tokenizer", 0),
    ],
)
def test_what_does_not_fit_the_rest_is_refused(name: str, value: int) -> None:
    saved, _ = small_index(1)
    parsed = SavedIndex(saved)
    fields = [field for field in parsed.named(name) if parsed.value(field) != value]
    if name == "least_len":  # a bound that a list does not have is 255 anyway
        fields = [field for field in fields if parsed.value(field) < 254]
    assert fields
    for field in fields:
        with pytest.raises(ValueError, match="no saved index"):
            HotIndex.load(parsed.forged([(field, value)]))


@pytest.mark.parametrize("seed", range(max(1, N_FORGERIES // 400)))
def test_several_forged_fields_are_refused_or_harmless(seed: int) -> None:
    saved, words = small_index(seed)
    parsed = SavedIndex(saved)
    rng = random.Random(seed)
    for _ in range(400):
        fields = rng.sample(parsed.fields, rng.randint(1, 4))
        changes = [(field, rng.choice(boundary_values(parsed, field))) for field in fields]
        index = load(parsed.forged(changes))
        if index is not None:
            use(index, words)


def test_a_list_has_each_memory_once_and_in_order() -> None:
    saved = filled([row(i, (["aa", "bb"], [], NOW)) for i in range(6)]).save()
    assert saved is not None
    parsed = SavedIndex(saved)
    for field in parsed.named("document"):
        for value in set(range(8)) - {parsed.value(field)}:
            with pytest.raises(ValueError, match="no saved index"):
                HotIndex.load(parsed.forged([(field, value)]))


def test_two_terms_with_one_word_are_refused() -> None:
    saved = filled([row(1, (["aa", "bb"], [], NOW))]).save()
    assert saved is not None
    parsed = SavedIndex(saved)
    letters = [field for field in parsed.named("letter") if parsed.value(field) == ord("b")]

    with pytest.raises(ValueError, match="no saved index"):
        HotIndex.load(parsed.forged([(field, ord("a")) for field in letters]))


def test_a_forged_list_of_free_chunks_may_not_meet_what_is_used() -> None:
    saved = filled(numbered(zipf_memories(4, 300, 60))).save()
    assert saved is not None
    parsed = SavedIndex(saved)
    [n_free] = parsed.named("n_free_units")
    size_class = next(i for i in range(7, 40) if not parsed.free[i])
    n_own = (5 + (size_class - 7) % 4) << (1 + (size_class - 7) // 4)
    for place in range(1, parsed.header["n_units"] - n_own, 3):
        changes = [(n_free, parsed.value(n_free) + n_own), (parsed.named("free_chunk")[size_class], place)]
        with pytest.raises(ValueError, match="no saved index"):
            HotIndex.load(parsed.forged(changes))


TWO = [(1, 1), (2, 1)]
PAIR = Chunk(1, (0, 1), (1, 1), (1, 1))
NAME = b"kilokilokilok"  # one byte more than a term has room for


def name_of(letters: bytes, length: int) -> dict[str, Any]:
    """A word of thirteen letters or another number of them."""
    return {"names": length.to_bytes(2, "little") + letters, "words": [(b"\0\0\0\0", None)]}


def many(parts: int, length: int, number: int | None = None) -> dict[str, Any]:
    """A memory of `length` words of which one counts so many parts; `number` is what is stored of these."""
    big = [(0, 0, parts if number is None else number)]
    words = [(b"aa", Chunk(1, (0,), (parts,), (length,)))]
    return {"documents": [(1, length)], "words": words, "n_units": 4, "big_parts": big}


# Parts that agree in everything, and the same with one of them one step beyond.
STEPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "free space ends where the heap ends": (
        {"n_units": 4, "free": {1: [1]}},
        {"n_units": 3, "free": {1: [1]}},
    ),
    "free space follows a list": (
        {"words": [(b"aa", PAIR)], "n_units": 7, "free": {1: [4]}},
        {"words": [(b"aa", PAIR)], "n_units": 7, "free": {1: [3]}},
    ),
    "free space follows free space": (
        {"n_units": 7, "free": {1: [1, 4]}},
        {"n_units": 7, "free": {1: [1, 3]}},
    ),
    "a name ends where the names end": (name_of(NAME, 13), name_of(NAME, 14)),
    "a short word is no name": (name_of(NAME, 13), name_of(NAME[:12], 12)),
    "a large number has room for 254": (many(255, 300), many(255, 300, 254)),
    "a word comes as often as there are words": (many(4800, 300), many(4800, 300, 4801)),
    "no large number is left": (
        many(255, 300),
        {**many(255, 300), "big_parts": [(0, 0, 255), (0, 1, 255)]},
    ),
    "memories are in the order of their numbers": (
        {"documents": [(1, 1), (2, 1)]},
        {"documents": [(2, 1), (2, 1)]},
    ),
    "numbers of memories have 32 bits": ({"documents": [(0xFFFFFFFE, 1)]}, {"documents": [(0xFFFFFFFF, 1)]}),
    "a length is -1 where a memory was deleted": ({"documents": [(1, -1)]}, {"documents": [(1, -2)]}),
    "newest times do not fall": (
        {"documents": [(n + 1, 1) for n in range(257)], "newest": [5, 5]},
        {"documents": [(n + 1, 1) for n in range(257)], "newest": [6, 5]},
    ),
    "newest times are those of the block": (
        {"newest": [0]},
        {"newest": [-1]},
    ),
    "a list has each memory once": (
        {"words": [(b"aa", PAIR)], "n_units": 4},
        {"words": [(b"aa", Chunk(1, (1, 1), (1, 1), (1, 1)))], "n_units": 4},
    ),
    "a word comes no more often than there are words": (
        {"documents": [(1, 2), (2, 1)], "words": [(b"aa", Chunk(1, (0, 1), (32, 1), (2, 1)))], "n_units": 4},
        {"documents": [(1, 2), (2, 1)], "words": [(b"aa", Chunk(1, (0, 1), (33, 1), (2, 1)))], "n_units": 4},
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_one_step_beyond_what_agrees_is_refused(name: str) -> None:
    saved = filled([]).save()
    assert saved is not None
    sound, forged = (written(saved, **{"documents": TWO, **parts}) for parts in STEPS[name])

    assert HotIndex.load(sound).counts() is not None
    with pytest.raises(ValueError, match="no saved index"):
        HotIndex.load(forged)


# ---- what a file holds


def test_space_that_holds_no_posting_is_saved_as_zeros() -> None:
    """Lists that grew, moved, shrank and left chunks behind: nothing of it is in the file."""
    rows = numbered(zipf_memories(4, 400, 60))
    index = filled(rows)
    index.remove(range(50, 300, 3))
    publish(index, [row for row in rows if row[0] not in range(50, 300, 3)])
    saved = index.save()
    assert saved is not None
    parsed = SavedIndex(saved)

    assert len(parsed.unused_bytes) > 500
    assert not any(parsed.unused_bytes)


def test_freed_memory_of_the_process_is_in_no_file() -> None:
    secret = b"TOPSECRETKEY"
    for n in (16, 100, 1000, 9_000, 30_000, 70_000):
        freed = [(secret * (n // len(secret) + 1))[:n] + bytes([i]) for i in range(40)]
        del freed
        saved = filled(numbered(zipf_memories(n, 300, 90))).save()
        assert saved is not None
        assert secret[:8] not in saved
