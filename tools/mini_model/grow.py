"""A larger network that computes what a trained one does.

Wider, for `train.py --resume --feed-forward N`: the new rows of the gate and of the way up are random, the
new columns of the way down are 0. They add nothing until they have learned something. The optimizer's
momentum is widened with zeros. Deeper, for `restore.py --layers N`: new layers stand behind the trained
ones, and what they write is 0.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from model import Shape, Transformer
from torch import Tensor

__all__ = ["deepened", "widened"]

_ROWS = ("ffn_gate.weight", "ffn_up.weight")
_COLUMNS = ("ffn_down.weight",)


def deepened(network: Transformer, layers: int) -> Transformer:
    """The network with so many layers."""
    shape = network.shape
    if layers < shape.layers:
        raise SystemExit(f"the network has {shape.layers} layers: it can only grow")
    larger = Transformer(dataclasses.replace(shape, layers=layers))
    with torch.no_grad():
        for block in larger.blk[shape.layers :]:
            block.attn_output.weight.zero_()
            block.ffn_down.weight.zero_()
    larger.load_state_dict({**larger.state_dict(), **network.state_dict()})
    return larger


def widened(state: dict[str, Any], feed_forward: int) -> dict[str, Any]:
    """A checkpoint's state, with that many numbers between the two halves of each feed-forward."""
    old = Shape(**state["shape"])
    if feed_forward < old.feed_forward:
        raise SystemExit(f"the checkpoint's feed-forward has {old.feed_forward} numbers: it can only grow")
    shape = dataclasses.replace(old, feed_forward=feed_forward)
    fresh = Transformer(shape).state_dict()
    weights = {}
    for name, new in fresh.items():
        trained = state["network"][name]
        weights[name] = _overlaid(new * 0 if name.endswith(_COLUMNS) else new, trained)
    sizes = [new.shape for name, new in fresh.items() if new.dim() == 2 and "token_embd" not in name]
    muon, adam = state["optimizers"]
    for index, kept in muon["state"].items():
        momentum = kept["momentum_buffer"]
        kept["momentum_buffer"] = _overlaid(momentum.new_zeros(sizes[int(index)]), momentum)
    return {
        **state,
        "shape": dataclasses.asdict(shape),
        "network": weights,
        "optimizers": [muon, adam],
    }


def _overlaid(below: Tensor, above: Tensor) -> Tensor:
    """`below` with `above` in its first rows and columns."""
    below = below.clone()
    below[tuple(slice(0, size) for size in above.shape)] = above
    return below
