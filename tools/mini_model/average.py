"""The mean of several checkpoints of one run: `python average.py 208M.pt 228M.pt --out run/checkpoint.pt`.

The ends of two stretches of a run differ at random, besides by what was learned between; the mean has less
of that (Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018).
Optimizer and progress are those of the last one, so that `train.py --resume` goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

__all__ = ["averaged", "main"]


def averaged(states: Sequence[dict[str, Any]], weights: Sequence[float]) -> dict[str, Any]:
    """The last checkpoint's state with the weighted mean of all networks; SystemExit if shapes differ."""
    last = states[-1]
    if any(state["shape"] != last["shape"] for state in states):
        raise SystemExit("the checkpoints are of networks of different shapes")
    shares = [weight / sum(weights) for weight in weights]
    network = {
        name: sum(share * state["network"][name] for share, state in zip(shares, states, strict=True))
        for name in last["network"]
    }
    return {**last, "network": network}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoints", type=Path, nargs="+", help="in the order of the run")
    parser.add_argument("--weights", type=float, nargs="+", help="one for each checkpoint; else all the same")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    weights = options.weights or [1.0] * len(options.checkpoints)
    if len(weights) != len(options.checkpoints) or min(weights) < 0 or sum(weights) <= 0:
        parser.error(f"{len(weights)} weights for {len(options.checkpoints)} checkpoints, none below 0")
    states = [torch.load(path, map_location="cpu", weights_only=True) for path in options.checkpoints]
    torch.save(averaged(states, weights), options.out)


if __name__ == "__main__":
    main()
