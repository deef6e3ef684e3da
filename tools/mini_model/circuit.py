"""Starting weights with which a network copies before it has learned anything.

"After A came B, here is A again, so say B" needs two layers: heads of the first bring every position the
token before it, heads of the second look for the position whose token before is the present one, and repeat
what stands there. Gradient descent finds this circuit only after some millions of tokens, and hardly learns
anything else until then: 5.3 M tokens from random weights left copies of random tokens at 10 % right. Set by
hand it copies 97 % of them with all other weights random, and training starts with the language instead.

Source: the induction heads of Elhage et al., "A Mathematical Framework for Transformer Circuits", 2021.
"""

from __future__ import annotations

import math

import torch
from model import Shape, Transformer
from torch import Tensor

__all__ = ["set_copying_circuit"]

CONSTANT = (
    0.16  # one number of every embedding is the same: by it heads attend to a position, whatever stands there
)
SHARPNESS = 10.0  # of the look at the token before; 0.65 of it are the nats between it and its neighbours
MATCH = 30.0  # nats by which an equal token is preferred
BRING, REPEAT = 2.0, 6.0  # how loud the two layers speak, in units of the embedding


def set_copying_circuit(network: Transformer, seed: int = 0) -> None:
    """Put the circuit into the first two layers; everything else that writes to the stream starts at zero."""
    shape = network.shape
    random = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(shape.width, shape.width, generator=random))
    basis[0] = 0  # the constant is no content
    size = shape.kv_heads * shape.head_width
    content, before = (
        basis[:, :size].T,
        basis[:, size : 2 * size].T,
    )  # what is read, and where layer 0 writes it
    with torch.no_grad():
        embedding = network.token_embd.weight
        embedding[:, 0] = CONSTANT
        loudness = float(embedding.pow(2).mean(1).sqrt().mean())
        for block in network.blk:
            block.attn_output.weight.zero_()
            block.ffn_down.weight.zero_()
        first, second = network.blk[0], network.blk[1]
        query, key = previous_position(shape)
        scale = math.sqrt(SHARPNESS * math.sqrt(shape.head_width)) / (CONSTANT / loudness)
        slow = slow_pairs(shape)
        match = math.sqrt(MATCH * math.sqrt(shape.head_width) / len(slow))
        for group in range(shape.kv_heads):
            keys = slice(group * shape.head_width, (group + 1) * shape.head_width)
            # Of the heads that share these keys the first is set; the others are free to learn.
            at = group * (shape.heads // shape.kv_heads) * shape.head_width
            queries = slice(at, at + shape.head_width)
            for weight, rows, direction in ((first.attn_k, keys, key), (first.attn_q, queries, query)):
                weight.weight[rows] = 0
                weight.weight[rows, 0] = direction * scale
            first.attn_v.weight[keys] = content[keys]
            first.attn_output.weight[:, queries] = BRING * loudness * before[keys].T
            second.attn_k.weight[keys] = only(before[keys], slow) * match
            second.attn_q.weight[queries] = only(content[keys], slow) * match
            second.attn_v.weight[keys] = content[keys]
            second.attn_output.weight[:, queries] = REPEAT * loudness * content[keys].T
        turn(network, random)


def turn(network: Transformer, random: torch.Generator) -> None:
    """Write the residual stream in another orthonormal basis: the network computes the same.

    No single number is large then. A large one spoils its whole block of 32 when the file is quantised.
    """
    width = network.shape.width
    basis, _ = torch.linalg.qr(torch.randn(width, width, generator=random))
    network.token_embd.weight.copy_(network.token_embd.weight @ basis)
    for block in network.blk:
        for reads in (block.attn_q, block.attn_k, block.attn_v, block.ffn_gate, block.ffn_up):
            reads.weight.copy_(reads.weight @ basis)
        for writes in (block.attn_output, block.ffn_down):
            writes.weight.copy_(basis.T @ writes.weight)


def previous_position(shape: Shape) -> tuple[Tensor, Tensor]:
    """Query and key whose product after rotation is largest one position back: the quickest pairs suffice."""
    half = shape.head_width // 2
    frequency = shape.rope_theta ** (-torch.arange(half) / half)
    share = torch.zeros(half)
    share[:5] = torch.tensor([1.0, 1.0, 0.6, 0.4, 0.4])
    still = torch.zeros(half)
    return (
        torch.cat((share.sqrt() * frequency.cos(), -share.sqrt() * frequency.sin())),
        torch.cat((share.sqrt(), still)),
    )


def slow_pairs(shape: Shape) -> Tensor:
    """Indices of the rotary pairs that hardly turn within some hundred positions: contents meet there."""
    half = shape.head_width // 2
    pairs = torch.arange(half // 2, half)
    return torch.cat((pairs, pairs + half))


def only(rows: Tensor, kept: Tensor) -> Tensor:
    """The rows with all but the kept ones zero."""
    result = torch.zeros_like(rows)
    result[kept] = rows[kept]
    return result
