"""The network: a small transformer of the Llama architecture, written so that llama.cpp computes the same.

Input and output embedding are one matrix. Parameters have the names of GGUF's tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Shape", "Transformer", "compile_parts"]

QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class Shape:
    """Sizes of the network. `width` is divided among `heads`; `kv_heads` of them have their own keys."""

    vocabulary: int
    width: int = 256
    layers: int = 5
    heads: int = 8
    kv_heads: int = 4
    feed_forward: int = 512
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

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        """hidden (batch, time, width) -> the same shape."""
        query, key, value = self.before_attention(hidden, cosine, sine)
        return self.after_attention(hidden, causal_attention(query, key, value, mask))

    def before_attention(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled queries, keys and values, each (batch, heads, time, head_width)."""
        batch, time, _ = hidden.shape
        shape = self.shape
        normed = self.attn_norm(hidden)
        query = self.attn_q(normed).view(batch, time, shape.heads, shape.head_width)
        key = self.attn_k(normed).view(batch, time, shape.kv_heads, shape.head_width)
        value = self.attn_v(normed).view(batch, time, shape.kv_heads, shape.head_width)
        query = rotate(query, cosine, sine) * shape.head_width**-0.5
        key = rotate(key, cosine, sine)
        return tuple(part.transpose(1, 2).contiguous() for part in (query, key, value))  # type: ignore[return-value]

    def after_attention(self, hidden: Tensor, mixed: Tensor) -> Tensor:
        """The block's input and what attention gathered (batch, heads, time, head_width) -> its output."""
        hidden = hidden + self.attn_output(mixed.transpose(1, 2).reshape(hidden.shape))
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

    def hidden(self, ids: Tensor) -> Tensor:
        """ids (batch, time) -> normalised hidden states (batch, time, width)."""
        time = ids.shape[1]
        half = torch.arange(0, self.shape.head_width, 2, dtype=torch.float32)
        frequency = self.shape.rope_theta ** (-half / self.shape.head_width)
        angle = torch.arange(time, dtype=torch.float32)[:, None] * frequency
        kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        cosine, sine = (part[:, None, :].to(ids.device, kind) for part in (angle.cos(), angle.sin()))
        mask = torch.full((time, time), -1e9, dtype=kind, device=ids.device).triu(1)
        hidden = self.token_embd(ids)
        for block in self.blk:
            hidden = block(hidden, cosine, sine, mask)
        return self.output_norm(hidden)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (batch, time) -> logits (batch, time, vocabulary)."""
        return functional.linear(self.hidden(ids), self.token_embd.weight)

    def loss(self, hidden: Tensor, expected: Tensor) -> Tensor:
        """Mean cross entropy of hidden states (tokens, width) against the ids that should follow (tokens)."""
        return functional.cross_entropy(functional.linear(hidden, self.token_embd.weight).float(), expected)


def compile_parts() -> None:
    """Fuse the elementwise work around the products: on a CPU half of a training step is spent there.

    Attention itself stays as it is: every length would be another program. Needs a C++ compiler.
    """
    Block.before_attention = torch.compile(Block.before_attention, dynamic=True)  # type: ignore[method-assign]
    Block.after_attention = torch.compile(Block.after_attention, dynamic=True)  # type: ignore[method-assign]
    Transformer.loss = torch.compile(Transformer.loss, dynamic=True)  # type: ignore[method-assign]


def rotate(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position on (…, time, heads, head_width): number i turns together with number i + half.

    llama.cpp turns neighbours instead; the export reorders the rows of the query and key matrices. Two
    contiguous halves are 5 % of a training step faster than every second number.
    """
    half = states.shape[-1] // 2
    first, second = states[..., :half], states[..., half:]
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1)


def causal_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention of (batch, heads, time, head_width) queries to the keys before them; heads share keys.

    Written out, and 64 queries at a time against only the keys they may see: on a CPU, forward and backward
    together, 2 to 3 times as fast as the whole square, and 3 times as fast as the fused kernel.
    """
    batch, heads, time, width = query.shape
    groups = key.shape[1]
    query = query.view(batch, groups, heads // groups, time, width)
    parts = []
    for begin in range(0, time, QUERIES_AT_ONCE):
        end = min(time, begin + QUERIES_AT_ONCE)
        # Heads that share keys are one longer query, so keys and values are never copied.
        chunk = query[:, :, :, begin:end].reshape(batch, groups, -1, width)
        scores = (chunk @ key[:, :, :end].transpose(-1, -2)).view(batch, groups, -1, end - begin, end)
        scores.add_(mask[begin:end, :end])
        mixed = scores.softmax(-1).view(batch, groups, -1, end) @ value[:, :, :end]
        parts.append(mixed.view(batch, groups, heads // groups, end - begin, width))
    return torch.cat(parts, 3).view(batch, heads, time, width)
