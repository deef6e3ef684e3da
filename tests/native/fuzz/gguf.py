"""Fuzz the reading of model files: mutated headers are read or refused with an error of the model."""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path
from typing import Any

from shepherd.errors import ModelError
from shepherd.inference.gguf import read_header

_BOUNDARIES = (
    0,
    1,
    2,
    3,
    31,
    32,
    255,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 62,
    1 << 63,
    (1 << 64) - 1,
)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _value(rng: random.Random, kind: int, depth: int = 0) -> bytes:
    if kind == 8:
        return _text(rng.randbytes(rng.randrange(20)))
    if kind == 9:
        inner = rng.choice([*_SCALARS, 8] if depth > 2 else [*_SCALARS, 8, 9])
        n = rng.randrange(5)
        return struct.pack("<IQ", inner, n) + b"".join(_value(rng, inner, depth + 1) for _ in range(n))
    return rng.randbytes(struct.calcsize(_SCALARS[kind]))


def sound(rng: random.Random) -> bytes:
    """Return a file with keys of every type and a few tensors."""
    keys = [(b"general.architecture", 8, _text(b"llama"))]
    keys += [(b"key.%d" % i, kind, _value(rng, kind)) for i, kind in enumerate([*_SCALARS, 8, 9, 9])]
    rng.shuffle(keys)
    names = [b"token_embd.weight", *(b"blk.%d.w" % i for i in range(rng.randrange(4)))]
    tensors = [
        _text(name) + struct.pack("<IQQIQ", 2, 32, 4, rng.choice([0, 1, 8]), 512 * i)
        for i, name in enumerate(names)
    ]
    head = b"GGUF" + struct.pack("<IQQ", rng.choice([2, 3]), len(tensors), len(keys))
    head += b"".join(_text(key) + struct.pack("<I", kind) + value for key, kind, value in keys) + b"".join(
        tensors
    )
    return head + bytes(-len(head) % 32) + rng.randbytes(512 * len(tensors))


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return the content with up to four changes: boundary values, other bytes, cuts and repeats."""
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(max(1, min(len(changed), 900)))
        format, bits = rng.choice([("<I", 32), ("<Q", 64), ("<B", 8)])
        changes: list[Any] = [
            lambda at=at, f=format, b=bits: changed.__setitem__(
                slice(at, at + b // 8), struct.pack(f, rng.choice(_BOUNDARIES) & ((1 << b) - 1))
            ),
            lambda at=at: changed.__setitem__(slice(at, at + 1), rng.randbytes(1)),
            lambda at=at: changed.__delitem__(slice(at, at + rng.choice([1, 8, 1 << 30]))),
            lambda at=at: changed.__setitem__(slice(at, at), changed[: rng.randrange(64)]),
        ]
        rng.choices(changes, (6, 3, 1, 1))[0]()
    return bytes(changed)


def run(seed: int) -> None:
    """Read one sound file and two hundred mutations of it."""
    rng = random.Random(seed)
    content = sound(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        path.write_bytes(content)
        assert read_header(path).architecture == "llama"
        for _ in range(200):
            path.write_bytes(mutated(content, rng))
            try:
                header = read_header(path)
            except ModelError:
                continue
            assert header.architecture
            assert all(tensor.offset < header.file_bytes for tensor in header.tensors)
