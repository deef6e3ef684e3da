"""A wider network that computes what a trained one does, for `train.py --resume --feed-forward N`.

The new rows of the gate and of the way up are random, the new columns of the way down are 0: they add nothing
until they have learned something. The optimizer's momentum is widened with zeros.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from model import Shape, Transformer
from torch import Tensor

__all__ = ["widened"]

_ROWS = ("ffn_gate.weight", "ffn_up.weight")
_COLUMNS = ("ffn_down.weight",)


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
