"""The network: a small transformer of the Llama architecture, written so that llama.cpp computes the same.

Input and output embedding are one matrix. Parameters have the names of GGUF's tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Shape", "Transformer", "compile_parts", "fused_attention"]

QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class Shape:
    """Sizes of the network. `width` is divided among `heads`; `kv_heads` of them have their own keys."""

    vocabulary: int
    width: int = 256
    layers: int = 5
    heads: int = 8
    kv_heads: int = 4
    feed_forward: int = 768
    rope_theta: float = 10000.0
    norm_epsilon: float = 1e-5

    @property
    def head_width(self) -> int:
        """Numbers per attention head."""
        return self.width // self.heads


class Block(nn.Module):
    """One layer: attention, then a gated feed-forward, each on a normalised copy and added back."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        keys = shape.kv_heads * shape.head_width
        self.attn_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.attn_q = nn.Linear(shape.width, shape.width, bias=False)
        self.attn_k = nn.Linear(shape.width, keys, bias=False)
        self.attn_v = nn.Linear(shape.width, keys, bias=False)
        self.attn_output = nn.Linear(shape.width, shape.width, bias=False)
        self.ffn_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.ffn_gate = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.ffn_up = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.ffn_down = nn.Linear(shape.feed_forward, shape.width, bias=False)

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor, wanted: Tensor | None = None) -> Tensor:
        """hidden (batch, time, width) -> the same shape, or (wanted, width) of the positions in a mask."""
        mixed = self.attend(*self.before_attention(hidden, cosine, sine))
        if wanted is not None:
            hidden, mixed = hidden[wanted], mixed[wanted]
        return self.after_attention(hidden, mixed)

    def before_attention(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled queries, keys and values, each (batch, time, heads, head_width)."""
        batch, time, _ = hidden.shape
        shape = self.shape
        normed = self.attn_norm(hidden)
        query = self.attn_q(normed).view(batch, time, shape.heads, shape.head_width)
        key = self.attn_k(normed).view(batch, time, shape.kv_heads, shape.head_width)
        value = self.attn_v(normed).view(batch, time, shape.kv_heads, shape.head_width)
        query = rotate(query, cosine, sine) * shape.head_width**-0.5
        key = rotate(key, cosine, sine)
        return query, key, value

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What attention gathers, (batch, time, width); heads that share keys are one longer query."""
        batch, time, groups, each = key.shape
        if query.is_cuda:
            return fused_attention(query, key, value)
        query = query.view(batch, time, groups, -1)
        parts = (part.transpose(1, 2).reshape(batch * groups, -1, each) for part in (query, key, value))
        mixed: Tensor = CausalAttention.apply(*parts)
        return mixed.view(batch, groups, time, -1).transpose(1, 2).reshape(batch, time, -1)

    def after_attention(self, hidden: Tensor, mixed: Tensor) -> Tensor:
        """The block's input and what attention gathered, both (..., width) -> its output."""
        hidden = hidden + self.attn_output(mixed)
        normed = self.ffn_norm(hidden)
        return hidden + self.ffn_down(functional.silu(self.ffn_gate(normed)) * self.ffn_up(normed))


class Transformer(nn.Module):
    """Token ids in, hidden states or logits out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocabulary, shape.width)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.reset()

    def reset(self) -> None:
        """Fresh random weights; what writes into the residual stream starts small."""
        nn.init.normal_(self.token_embd.weight, std=0.02)
        for block in self.blk:
            for name, weight in block.named_parameters():
                if weight.dim() == 2:
                    gain = 0.2 if name.startswith(("attn_output", "ffn_down")) else 0.7
                    nn.init.normal_(weight, std=gain * weight.shape[1] ** -0.5)

    def hidden(self, ids: Tensor, wanted: Tensor | None = None) -> Tensor:
        """ids (batch, time) -> normalised hidden states (batch, time, width), or (wanted, width).

        A mask `wanted` (batch, time) saves three quarters of the last layer where the loss counts a quarter.
        """
        time = ids.shape[1]
        half = torch.arange(0, self.shape.head_width, 2, dtype=torch.float32)
        frequency = self.shape.rope_theta ** (-half / self.shape.head_width)
        angle = torch.arange(time, dtype=torch.float32)[:, None] * frequency
        kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        cosine, sine = (part[:, None, :].to(ids.device, kind) for part in (angle.cos(), angle.sin()))
        hidden = self.token_embd(ids)
        for block in self.blk:
            hidden = block(hidden, cosine, sine, wanted if block is self.blk[-1] else None)
        return self.output_norm(hidden)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (batch, time) -> logits (batch, time, vocabulary)."""
        return functional.linear(self.hidden(ids), self.token_embd.weight)

    def losses(self, hidden: Tensor, expected: Tensor) -> Tensor:
        """Cross entropy of each hidden state (tokens, width) against the id that should follow (tokens)."""
        logits = functional.linear(hidden, self.token_embd.weight).float()
        return functional.cross_entropy(logits, expected, reduction="none")


def compile_parts() -> None:
    """Fuse the elementwise work around the products: on a CPU half of a training step is spent there.

    Attention itself stays as it is: every length would be another program. Needs a C++ compiler.
    """
    Block.before_attention = torch.compile(Block.before_attention, dynamic=True)  # type: ignore[method-assign]
    Block.after_attention = torch.compile(Block.after_attention, dynamic=True)  # type: ignore[method-assign]
    Transformer.losses = torch.compile(Transformer.losses, dynamic=True)  # type: ignore[method-assign]


def rotate(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position on (…, time, heads, head_width): number i turns together with number i + half.

    llama.cpp turns neighbours instead; the export reorders the rows of the query and key matrices. Two
    contiguous halves are 5 % of a training step faster than every second number.
    """
    half = states.shape[-1] // 2
    first, second = states[..., :half], states[..., half:]
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1)


def fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same as CausalAttention by torch's own kernel, which is the faster one on a GPU.

    Queries (batch, time, heads, head_width), keys and values with fewer heads -> (batch, time, width).
    """
    heads = [part.transpose(1, 2) for part in (query, key, value)]
    mixed = functional.scaled_dot_product_attention(*heads, is_causal=True, scale=1.0, enable_gqa=True)
    return mixed.transpose(1, 2).flatten(2)


class CausalAttention(torch.autograd.Function):
    """Each position's queries to the keys and values up to there.

    Queries are (n, time * shared, head_width), keys and values (n, time, head_width): `shared` heads have the
    same keys, and stand beside each other in the queries and in the result.
    Written out, and 64 queries at a time against only the keys they may see: on a CPU, forward and backward
    together, several times as fast as the whole square or the fused kernel. The way back is written out as
    well, because autograd would make and add a whole gradient of all keys for each of the pieces.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The result, (n, time * shared, head_width)."""
        mixed, shares = torch.empty_like(query), []
        hidden = torch.full((QUERIES_AT_ONCE, QUERIES_AT_ONCE), -1e9, dtype=query.dtype, device=query.device)
        hidden = hidden.triu(1).repeat_interleave(query.shape[1] // key.shape[1], 0)
        for rows, begin, end in pieces(query, key):
            scores = query[:, rows] @ key[:, :end].transpose(1, 2)
            scores[..., begin:].add_(hidden[: scores.shape[1], : end - begin])
            share = scores.softmax(-1)
            mixed[:, rows] = share @ value[:, :end]
            shares.append(share)
        ctx.save_for_backward(query, key, value, mixed, *shares)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of query, key and value from that of the result."""
        (gradient,) = gradients
        query, key, value, mixed, *shares = ctx.saved_tensors
        to_query = torch.empty_like(query)
        to_key, to_value = (torch.zeros_like(part, dtype=torch.float32) for part in (key, value))
        # What softmax takes away from every score of a row: sum(share * its gradient) = mixed * gradient.
        mean = (mixed * gradient).sum(-1, keepdim=True)
        for (rows, _, end), share in zip(pieces(query, key), shares, strict=True):
            back = gradient[:, rows]
            to_value[:, :end] += share.transpose(1, 2) @ back
            scores = (back @ value[:, :end].transpose(1, 2)).sub_(mean[:, rows]).mul_(share)
            to_query[:, rows] = scores @ key[:, :end]
            to_key[:, :end] += scores.transpose(1, 2) @ query[:, rows]
        return to_query, to_key.to(key.dtype), to_value.to(value.dtype)


def pieces(query: Tensor, key: Tensor) -> Iterator[tuple[slice, int, int]]:
    """Rows of the queries that are computed together, and the first and the last key at their own places."""
    time = key.shape[1]
    shared = query.shape[1] // time
    for begin in range(0, time, QUERIES_AT_ONCE):
        end = min(time, begin + QUERIES_AT_ONCE)
        yield slice(begin * shared, end * shared), begin, end
