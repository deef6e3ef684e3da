"""A checkpoint from a GGUF, to train on from: `python restore.py MODEL.gguf --out run/checkpoint.pt`.

The optimizers begin anew, so `train.py --resume` warms up again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch
from grow import deepened
from model import Shape, Transformer
from train import MILLION, Progress, make_optimizers, save

__all__ = ["halves", "main", "restored"]


def halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Query or key rows with the first of all rotary pairs before the second: what the export undoes."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def restored(path: Path) -> Transformer:
    """The network in a GGUF that `export.py` wrote; quantised weights become what llama.cpp computes with."""
    reader = gguf.GGUFReader(path)

    def field(name: str) -> int:
        return int(reader.fields[f"llama.{name}"].contents())

    shape = Shape(
        field("vocab_size"),
        field("embedding_length"),
        field("block_count"),
        field("attention.head_count"),
        field("attention.head_count_kv"),
        field("feed_forward_length"),
    )
    weights = {}
    for tensor in reader.tensors:
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if ".attn_q." in tensor.name:
            array = halves(array, shape.heads)
        elif ".attn_k." in tensor.name:
            array = halves(array, shape.kv_heads)
        weights[tensor.name] = torch.from_numpy(np.array(array, dtype=np.float32))
    network = Transformer(shape)
    network.load_state_dict(weights)
    return network


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, default=Path("run/checkpoint.pt"))
    parser.add_argument("--layers", type=int, default=0, help="add layers up to this number")
    parser.add_argument("--tokens", type=float, default=0.0, help="millions of tokens it was trained on")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    network = restored(options.model)
    network = deepened(network, options.layers or network.shape.layers)
    progress = Progress(tokens=int(options.tokens * MILLION), level=1.0)
    save(options.out, network, make_optimizers(network, 0.0), progress)


if __name__ == "__main__":
    main()
