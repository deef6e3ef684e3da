"""The format of saved hot indexes (hot_save.c) in Python: to name every field of one, and to forge it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Chunk", "Field", "SavedIndex", "boundary_values", "checksum", "written"]

_MASK = (1 << 64) - 1
_HEADER = (
    *("magic", "format", "tokenizer", "size", "n_documents", "n_names", "n_terms", "n_units", "n_big_parts"),
    *("version", "n_memories", "total_length", "n_postings", "n_free_units"),
)
_N_CLASSES = 120
_BLOCK = 256
_ONCE = 16  # parts of a word that a person wrote once
_STEPS = (1, 4, _ONCE, 2 * _ONCE, 3 * _ONCE)  # the most parts of each step of a list's bounds but the last
_LONG = 255


@dataclass(frozen=True)
class Field:
    """A number of a saved index: its name, where it is, and its format for `struct`."""

    name: str
    at: int
    format: str

    @property
    def n_bits(self) -> int:
        """Bits of the number."""
        return 8 * struct.calcsize(self.format)


def _mixed(lane: int, part: int) -> int:
    lane = (lane ^ part) * 0x9FB21C651E98DF25 & _MASK
    return lane ^ (lane >> 29)


def _closed(lanes: list[int], size: int) -> int:
    total = size
    for lane in lanes:
        total = (total ^ lane) * 0xD6E8FEB86659FD93 & _MASK
        total ^= total >> 32
    return total


def checksum(saved: bytes) -> int:
    """The checksum of hot_save.c over everything before it."""
    lanes = [1, 2, 3, 4]
    for i, (part,) in enumerate(struct.iter_unpack("<Q", saved)):
        lanes[i % 4] = _mixed(lanes[i % 4], part)
    return _closed(lanes, len(saved))


def class_units(size_class: int) -> int:
    """Units of 8 bytes of a chunk of the heap."""
    return size_class + 2 if size_class <= 6 else (5 + (size_class - 7) % 4) << (1 + (size_class - 7) // 4)


def class_capacity(size_class: int) -> int:
    """Postings that a chunk has room for."""
    return (class_units(size_class) * 8 - 8) // 6


class SavedIndex:
    """The fields of a sound saved index, and its bytes that hold nothing."""

    def __init__(self, saved: bytes) -> None:
        self._saved = saved
        self._lanes = [[lane] for lane in (1, 2, 3, 4)]  # of the checksum, before each of their words
        for i, (part,) in enumerate(struct.iter_unpack("<Q", saved[:-8])):
            self._lanes[i % 4].append(_mixed(self._lanes[i % 4][-1], part))
        self._fields: list[Field] = []
        self._unused: list[range] = []
        self.header: dict[str, int] = {}
        at = self._read_header()
        self._sections: dict[str, int] = {}
        n_documents = self.header["n_documents"]
        for name, size in (
            ("documents", 12 * n_documents),
            ("near", 16 * n_documents),
            ("pairs", 32 * n_documents),
            ("newest", 8 * -(-n_documents // _BLOCK)),
            ("names", self.header["n_names"]),
            ("terms", 24 * self.header["n_terms"]),
            ("heap", 8 * self.header["n_units"]),
            ("big_parts", 16 * self.header["n_big_parts"]),
        ):
            self._sections[name] = at
            padding = -size % 8
            self._unused.append(range(at + size, at + size + padding))
            at += size + padding
        assert at == len(saved) - 8 == self.header["size"]
        self._read_documents()
        self._read_terms()
        self._read_heap()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Every number, in no particular order; those of free and unfilled space of the heap are missing."""
        return tuple(self._fields)

    @property
    def unused_bytes(self) -> bytes:
        """Everything that belongs to no field, one after the other."""
        return b"".join(self._saved[part.start : part.stop] for part in self._unused)

    def value(self, field: Field) -> int:
        """The number in a field."""
        return int(struct.unpack_from(f"<{field.format}", self._saved, field.at)[0])

    def named(self, name: str) -> list[Field]:
        """The fields of a name."""
        return [field for field in self._fields if field.name == name]

    def forged(self, changes: list[tuple[Field, int]]) -> bytes:
        """The saved index with other numbers in some fields, unsigned, and a checksum that fits."""
        changed = bytearray(self._saved[:-8])
        first = [len(changed) // 8] * 4  # word of each lane from which its checksum is another
        for field, value in changes:
            changed[field.at : field.at + field.n_bits // 8] = value.to_bytes(field.n_bits // 8, "little")
            for word in range(field.at // 8, (field.at + field.n_bits // 8 - 1) // 8 + 1):
                first[word % 4] = min(first[word % 4], word)
        words = struct.unpack(f"<{len(changed) // 8}Q", changed)
        lanes = []
        for lane, word in enumerate(first):
            mixed = self._lanes[lane][(word + 3 - lane) // 4]
            for part in words[word::4] if word < len(words) else ():
                mixed = _mixed(mixed, part)
            lanes.append(mixed)
        return bytes(changed) + _closed(lanes, len(changed)).to_bytes(8, "little")

    def _add(self, name: str, at: int, format: str) -> int:
        field = Field(name, at, format)
        self._fields.append(field)
        return self.value(field)

    def _read_header(self) -> int:
        for i, name in enumerate(_HEADER):
            self.header[name] = self._add(name, 8 * i, "Q")
        at = 8 * len(_HEADER)
        self.free = [self._add("free_chunk", at + 4 * i, "I") for i in range(_N_CLASSES - 1)]
        self._unused.append(range(at + 4 * (_N_CLASSES - 1), at + 4 * _N_CLASSES))
        return at + 4 * _N_CLASSES

    def _add_all(self, at: int, fields: Iterator[tuple[str, str]]) -> int:
        for name, format in fields:
            self._add(name, at, format)
            at += struct.calcsize(format)
        return at

    def _read_documents(self) -> None:
        names = ("documents", "near", "pairs", "newest")
        at, near, pairs, newest = (self._sections[name] for name in names)
        for _ in range(self.header["n_documents"]):
            at = self._add_all(at, zip(("sequence", "doc_len", "label"), "Iii", strict=True))
            names = ("timestamp", "thread", "beside", "second", "asks", "length")
            near = self._add_all(near, zip(names, "qiBBBB", strict=True))
            pairs = self._add_all(pairs, iter([("pairs", "Q")] * 4))
        for i in range(-(-self.header["n_documents"] // _BLOCK)):
            self._add("newest", newest + 8 * i, "q")

    def _read_terms(self) -> None:
        self._chunks: list[tuple[int, int, int]] = []
        for i in range(self.header["n_terms"]):
            at = self._sections["terms"] + 24 * i
            n, place = self._add("n", at, "I"), self._add("place", at + 4, "I")
            size_class = self._add("size_class", at + 10, "B")
            # Once the list has a chunk, or is empty, the single posting is left as it was.
            kind = "old" if size_class or not n else "single"
            self._add_all(at + 8, iter(((f"{kind}_parts", "B"), (f"{kind}_len", "B"))))
            if self._add("n_letters", at + 11, "B") == _LONG:
                name = self._sections["names"] + self._add("name", at + 12, "I")
                self._add("name_length", name, "H")
                self._unused.append(range(at + 16, at + 24))
            else:
                self._add_all(at + 12, iter([("letter", "B")] * 12))
            if size_class:
                self._chunks.append((n, place, size_class))

    def _read_heap(self) -> None:
        heap = self._sections["heap"]
        if self.header["n_units"]:
            self._unused.append(range(heap, heap + 8))
        for n, place, size_class in self._chunks:
            at = heap + 8 * place
            self._add_all(at, iter([*[("least_len", "B")] * 6, ("least_parts", "B"), ("most_parts", "B")]))
            documents, capacity = at + 8, class_capacity(size_class)
            weights = documents + 4 * capacity
            self._add_all(documents, iter([("document", "I")] * n))
            self._add_all(weights, iter([("parts", "B"), ("len", "B")] * n))
            self._unused += [
                range(documents + 4 * n, weights),
                range(weights + 2 * n, at + 8 * class_units(size_class)),
            ]
        for size_class, place in enumerate(self.free):
            while place:
                at = heap + 8 * place
                place = self._add("next_free", at, "I")  # noqa: PLW2901
                self._unused.append(range(at + 4, at + 8 * class_units(size_class)))
        for i in range(self.header["n_big_parts"]):
            at = self._sections["big_parts"] + 16 * i
            self._add_all(at, zip(("big_document", "big_term", "big_parts"), "III", strict=True))
            self._unused.append(range(at + 12, at + 16))


def boundary_values(saved: SavedIndex, field: Field) -> list[int]:
    """Numbers at which a check of this field may err, as unsigned numbers of its width."""
    own = saved.value(field)
    header = saved.header
    counts = [
        header[name] for name in ("n_documents", "n_names", "n_terms", "n_units", "n_big_parts", "size")
    ]
    near = [n + step for n in (own, *counts) for step in (-1, 0, 1)]
    powers = [(1 << bits) + step for bits in (7, 8, 15, 16, 31, 32, 63, 64) for step in (-2, -1, 0)]
    wanted = {value % (1 << field.n_bits) for value in (0, 1, 2, 3, 4, *near, *powers)}
    return sorted(wanted - {own % (1 << field.n_bits)})


@dataclass(frozen=True)
class Chunk:
    """A word's list of memories: their numbers, the parts that the word counts in each, and their lengths."""

    place: int
    documents: tuple[int, ...]
    parts: tuple[int, ...]
    lengths: tuple[int, ...]
    size_class: int = 1

    def write(self, heap: bytearray) -> None:
        """Write it where its place is."""
        at = 8 * self.place
        shown = [
            (min(one, 255), min(length, 255)) for one, length in zip(self.parts, self.lengths, strict=True)
        ]
        least = [255] * (1 + len(_STEPS))
        for one, length in shown:
            step = sum(one > most for most in _STEPS)
            least[step] = min(least[step], length)
        of_all = [one for one, _ in shown]
        heap[at : at + 8] = bytes([*least, min(of_all), max(of_all)])
        documents = at + 8
        struct.pack_into(f"<{len(shown)}I", heap, documents, *self.documents)
        weights = documents + 4 * class_capacity(self.size_class)
        heap[weights : weights + 2 * len(shown)] = bytes(number for pair in shown for number in pair)


def written(
    empty: bytes,
    *,
    documents: list[tuple[int, int]],
    words: list[tuple[bytes, Chunk | None]] = [],  # noqa: B006
    names: bytes = b"",
    n_units: int = 1,
    free: dict[int, list[int]] | None = None,
    big_parts: list[tuple[int, int, int]] = [],  # noqa: B006
    newest: list[int] | None = None,
) -> bytes:
    """Return a saved index of these parts, which all agree, with the constants of an empty one.

    `documents` are sequences and lengths; a word without a chunk is in memory 0 once. A word of four bytes
    that begins with a zero is the place of a name. `free` are the places of free chunks by their class, and
    `big_parts` are memory, word and number.
    """
    header = dict(zip(_HEADER, struct.unpack_from(f"<{len(_HEADER)}Q", empty), strict=True))
    heap = bytearray(8 * n_units)
    for _, chunk in words:
        if chunk is not None:
            chunk.write(heap)
    first = [0] * _N_CLASSES
    for size_class, places in (free or {}).items():
        for place, after in zip(places, [*places[1:], 0], strict=True):
            struct.pack_into("<I", heap, 8 * place, after)
        first[size_class] = places[0]
    terms = bytearray()
    for word, chunk in words:
        is_name = word[:1] == b"\0"
        n, place, kind = (len(chunk.documents), chunk.place, chunk.size_class) if chunk else (1, 0, 0)
        own = (0, 0) if chunk else (_ONCE, documents[0][1])
        terms += struct.pack("<IIBBBB", n, place, *own, kind, _LONG if is_name else len(word))
        terms += (word[:0:-1] + b"\0" if is_name else word).ljust(12, b"\0")
    n_blocks = -(-len(documents) // _BLOCK)
    sections = (
        b"".join(struct.pack("<Iii", sequence, length, 0) for sequence, length in documents),
        struct.pack("<qiBBBB", 0, 0, 0, 0, 0, 0) * len(documents),
        bytes(32 * len(documents)),
        struct.pack(f"<{n_blocks}q", *(newest or [0] * n_blocks)),
        names,
        bytes(terms),
        bytes(heap),
        b"".join(struct.pack("<IIII", *big, 0) for big in big_parts),
    )
    body = b"".join(part.ljust(len(part) + -len(part) % 8, b"\0") for part in sections)
    header |= {
        "n_documents": len(documents),
        "n_names": len(names),
        "n_terms": len(words),
        "n_units": n_units,
        "n_big_parts": len(big_parts),
        "n_memories": sum(length >= 0 for _, length in documents),
        "total_length": sum(max(length, 0) for _, length in documents),
        "n_postings": sum(len(chunk.documents) if chunk else 1 for _, chunk in words),
        "n_free_units": sum(class_units(kind) * len(places) for kind, places in (free or {}).items()),
        "size": 8 * len(_HEADER) + 4 * _N_CLASSES + len(body),
    }
    saved = struct.pack(f"<{len(_HEADER)}Q{_N_CLASSES}I", *(header[name] for name in _HEADER), *first) + body
    return saved + checksum(saved).to_bytes(8, "little")
