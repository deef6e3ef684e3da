"""Models for test_turns.py: random weights that say capital letters and digits, a token each, without an end.

No token of the vocabulary joins such characters, so that an answer sent back as text is tokenised into the
ids that were sampled. Sides that keep no ids lose nothing by it; with a real model they would, now and then.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import gguf

from tests import models

_SAID = frozenset(string.ascii_uppercase + string.digits)
# Pages of the file are written in place: the shape of the tensor and its quantisation stay.
_OUTPUT = "output.weight"


def say_letters(path: Path) -> None:
    """Silence every row of the output that is no capital letter or digit: a logit of 0 wins nothing."""
    reader = gguf.GGUFReader(path, "r+")
    texts = reader.fields["tokenizer.ggml.tokens"].contents()
    silent = [i for i, text in enumerate(texts) if text not in _SAID]
    output = next(tensor for tensor in reader.tensors if tensor.name == _OUTPUT)
    output.data[silent] = 0
    output.data.flush()


def _half_billion(path: Path, *, n_ctx: int) -> None:
    from dataclasses import replace

    from tools.gpu import shapes

    shapes.write(replace(shapes.SHAPES["0.5b"], n_ctx=n_ctx), path, gguf.GGMLQuantizationType.Q4_0)


_MAKERS: dict[str, Callable[..., None]] = {
    "tiny": models.llama,
    "sliding": models.olmo2,
    "recurrent": models.mamba,
    "hybrid": models.qwen35,
    "0.5b": _half_billion,
}


def make(kind: str, folder: Path, *, n_ctx: int) -> Path:
    """A model of this kind; made once per folder."""
    path = folder / f"{kind}.gguf"
    if not path.exists():
        _MAKERS[kind](path, n_ctx=n_ctx)
        say_letters(path)
    return path
