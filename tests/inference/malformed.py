"""Whole GGUF files that llama.cpp does not survive: a real model with one number changed."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import gguf
import numpy as np

_FORMATS = {4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q"}  # GGUF value types


def with_number(source: Path, key: str, value: float, path: Path) -> Path:
    """Copies the GGUF at `source` to `path`, where the number under `key` is `value`."""
    data = bytearray(source.read_bytes())
    name = key.encode()
    needle = struct.pack("<Q", len(name)) + name
    at = data.index(needle) + len(needle)
    [kind] = struct.unpack_from("<I", data, at)
    struct.pack_into(_FORMATS[kind], data, at + 4, value)
    path.write_bytes(data)
    return path


def without_numbers(source: Path, tensor: str, rows: slice, path: Path) -> Path:
    """Copies the GGUF at `source` to `path`, where these rows of a tensor of 32-bit floats are NaN."""
    [found] = [one for one in gguf.GGUFReader(source).tensors if one.name == tensor]
    data = bytearray(source.read_bytes())
    values = np.frombuffer(data, np.float32, found.n_elements, int(found.data_offset))
    values.reshape(found.data.shape)[rows] = math.nan
    path.write_bytes(data)
    return path
