"""A second process that computes gradients beside the training loop, on the weights of a step or two ago.

One process of one thread each, rather than one process of two threads: when other programs share the machine,
two OpenMP threads wait for each other most of the time (measured: 1,000 tokens per CPU second against 8,200).
The loop never waits for the helper; it takes a gradient when there is one.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import torch
from model import Shape, Transformer, compile_parts
from torch import Tensor

__all__ = ["Helper"]

# Adds a gradient to the network's; returns the said tokens behind it and the loss.
GradientOf = Callable[[Transformer, Tensor, Tensor], tuple[int, float]]


class Helper:
    """The process, and the memory shared with it: weights to it, gradients from it."""

    def __init__(self, network: Transformer, queue: Any, gradient_of: GradientOf, compiled: bool) -> None:
        size = sum(weight.numel() for weight in network.parameters())
        self.weights = torch.empty(size).share_memory_()
        self.gradient = torch.empty(size).share_memory_()
        # said tokens behind the gradient, all tokens, loss; the first is 0 while there is none to take.
        self.result = torch.zeros(3, dtype=torch.float64).share_memory_()
        self.publish(network)
        inputs = (network.shape, self.weights, self.gradient, self.result, queue, gradient_of, compiled)
        self.process = multiprocessing.get_context("spawn").Process(target=work, args=inputs, daemon=True)
        self.process.start()

    def publish(self, network: Transformer) -> None:
        """Show the newest weights; the helper may read them half-written, which does no harm."""
        with torch.no_grad():
            torch.cat([weight.flatten() for weight in network.parameters()], out=self.weights)

    def take(self, network: Transformer, said: int) -> tuple[int, float]:
        """Mix a waiting gradient into the network's own, which stands for `said` tokens.

        Returns the tokens that went into it and its loss; (0, nan) when there was none.
        """
        weight, tokens, loss = self.result.tolist()
        if not weight:
            return 0, float("nan")
        share, at = weight / (weight + said), 0
        for parameter in network.parameters():
            assert parameter.grad is not None
            part = self.gradient[at : at + parameter.numel()].view_as(parameter)
            parameter.grad.lerp_(part, share)
            at += parameter.numel()
        self.result[0] = 0
        return int(tokens), loss

    def stop(self) -> None:
        """End the process."""
        self.process.kill()


def work(
    shape: Shape,
    weights: Tensor,
    gradient: Tensor,
    result: Tensor,
    queue: Any,
    gradient_of: GradientOf,
    compiled: bool,
) -> None:
    """The helper's loop: newest weights, one batch, leave the gradient, wait until it was taken."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    if compiled:
        compile_parts()
    network = Transformer(shape)
    while True:
        ids, said = (torch.from_numpy(array) for array in queue.get())
        at = 0
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(weights[at : at + parameter.numel()].view_as(parameter))
                parameter.grad = None
                at += parameter.numel()
        counted, loss = gradient_of(network, ids, said)
        while result[0] != 0:
            time.sleep(0.002)
        torch.cat([parameter.grad.flatten() for parameter in network.parameters()], out=gradient)
        result[1], result[2] = ids.numel(), loss
        result[0] = counted
