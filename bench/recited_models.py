"""Models that recite a text, whatever they were told: for measuring drafts, which depend on what is said.

Positions are learned, as in GPT-2, and nothing but the position decides: blocks compute all they would in a
real model of this size and write nothing, so the output at position p is the row that agrees with p's
embedding. One file serves all texts: only rows of its output change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from shepherd.inference import load_check
from tests.models import Builder
from tools.gpu.shapes import tile

Type = gguf.GGMLQuantizationType
# The logit of what is to be said; all others are about 0.
_LOGIT = 20.0


@dataclass(frozen=True)
class Size:
    """Hyperparameters of a model with learned positions."""

    n_embd: int
    n_layer: int
    n_head: int
    n_ff: int
    n_vocab: int
    n_ctx: int = 4096


SIZES = {
    # The weights of the shape of 0.5B in tools/gpu/shapes.py: two matrices of 7,296 are three of 4,864.
    "0.5b": Size(896, 24, 14, 7296, 151936),
    # A model to draft with for it. Its vocabulary is as large, and so it takes a fifth of the time.
    "50m": Size(448, 6, 7, 1792, 151936),
    "tiny": Size(256, 2, 4, 512, 512),
}


# Models that draft for others, by size.
DRAFTING = {"0.5b": "50m", "tiny": "tiny"}


def _positions(size: Size) -> np.ndarray:
    """An embedding of each position that the layer norms leave as it is."""
    vectors = np.random.default_rng(1).standard_normal((size.n_ctx, size.n_embd), dtype=np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    return vectors / vectors.std(axis=1, keepdims=True)


def write(size: Size, path: Path) -> None:
    """Write a model that says nothing yet."""
    build = Builder(path, "gpt2", "recites", 1)
    w, n = build.writer, size.n_embd
    build.shape(n_ctx=size.n_ctx, n_embd=n, n_layer=size.n_layer, n_ff=size.n_ff, n_head=size.n_head,
                n_kv=size.n_head)  # fmt: skip
    w.add_layer_norm_eps(1e-5)
    vocab = build.bpe(pad_to=size.n_vocab)
    _add(w, "token_embd.weight", n, len(vocab.tokens), 0.0)
    w.add_tensor("position_embd.weight", _positions(size))
    _add_norm(w, "output_norm", n)
    _add(w, "output.weight", n, len(vocab.tokens), 0.0, Type.Q8_0)
    for i in range(size.n_layer):
        block = f"blk.{i}."
        _add_norm(w, block + "attn_norm", n)
        _add_norm(w, block + "ffn_norm", n)
        for name, n_in, n_out, scale in (
            ("attn_qkv", n, 3 * n, 1.0),
            ("attn_output", n, n, 0.0),
            ("ffn_up", n, size.n_ff, 1.0),
            ("ffn_down", size.n_ff, n, 0.0),
        ):
            _add(w, f"{block}{name}.weight", n_in, n_out, scale)
            w.add_tensor(f"{block}{name}.bias", np.zeros(n_out, np.float32))
    build.write()


def _add_norm(writer: gguf.GGUFWriter, name: str, n: int) -> None:
    writer.add_tensor(name + ".weight", np.ones(n, np.float32))
    writer.add_tensor(name + ".bias", np.zeros(n, np.float32))


def _add(
    writer: gguf.GGUFWriter, name: str, n_in: int, n_out: int, scale: float, kind: Type = Type.Q4_0
) -> None:
    per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = n_in // per_block * n_out
    blocks = tile(kind, scale * n_in**-0.5)
    data = np.resize(blocks, (n_blocks, block_bytes)).reshape(n_out, -1)
    writer.add_tensor(name, data, raw_dtype=kind)


def recite(path: Path, size: Size, start: int, ids: Sequence[int]) -> None:
    """Make the model say these ids after a prompt of `start` tokens.

    There can be half as many as its embedding has numbers.
    """
    reader = gguf.GGUFReader(path, "r+")
    output = next(tensor for tensor in reader.tensors if tensor.name == "output.weight")
    # The first id is the output at the last position of the prompt.
    said = _positions(size)[start - 1 : start - 1 + len(ids)]
    # At each of these positions, its own token has the logit, and the others have none.
    rows = np.linalg.pinv(said).T * _LOGIT
    output.data[:] = 0
    for token in set(ids):
        row = rows[[i for i, other in enumerate(ids) if other == token]].sum(axis=0, dtype=np.float32)
        output.data[token] = gguf.quants.quantize(row[None], Type.Q8_0)[0]
    output.data.flush()
    load_check.vouch(path)
