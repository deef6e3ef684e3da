#!/usr/bin/env python3
"""Models with the shape of real ones and random weights: for speed, where no model can be fetched.

    python tools/gpu/shapes.py 8b 8b.gguf              4.9 GB, in the shape of Llama 3.1 8B
    python tools/gpu/shapes.py 35b-a3b 35b.gguf        20 GB, in the shape of Qwen3.5 35B-A3B

Quantised blocks are written directly, a tile of random ones again and again, to the disk as they are made:
100 MB of memory whatever the model. Scales are such that a row's product has the size of its input. They say
nonsense.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).parents[2]))

import gguf
import numpy as np

from tests.models import Builder

Type = gguf.GGMLQuantizationType
_BLOCKS_PER_TILE = 1 << 16


@dataclass(frozen=True)
class Shape:
    """Hyperparameters. With `n_expert` hybrid: gated delta net, attention in each `interval`-th layer."""

    name: str
    n_embd: int
    n_layer: int
    n_head: int
    n_kv: int
    head: int
    n_ff: int
    n_vocab: int
    n_ctx: int = 32768
    n_expert: int = 0
    n_used: int = 0
    n_rot: int = 0
    interval: int = 4
    state: int = 0
    key_heads: int = 0
    value_heads: int = 0


SHAPES = {
    "8b": Shape("8B", 4096, 32, 32, 8, 128, 14336, 128256),
    "0.5b": Shape("0.5B", 896, 24, 14, 2, 64, 4864, 151936),
    "35b-a3b": Shape(
        "35B-A3B", 2048, 40, 16, 2, 256, 512, 248320,
        n_expert=256, n_used=8, n_rot=64, state=128, key_heads=16, value_heads=32,
    ),
    # For tests: every tensor of the two above, small.
    "tiny-dense": Shape("tiny dense", 256, 2, 4, 2, 64, 512, 1024, n_ctx=2048),
    "tiny-moe": Shape(
        "tiny MoE", 256, 4, 4, 2, 64, 256, 1024,
        n_ctx=2048, n_expert=4, n_used=2, n_rot=16, interval=2, state=64, key_heads=2, value_heads=4,
    ),
}  # fmt: skip


def tile(kind: Type, scale: float, seed: int = 0) -> np.ndarray:
    """Random blocks of a quantisation whose values have the standard deviation `scale`; (blocks, bytes)."""
    _, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(seed).integers(0, 256, (_BLOCKS_PER_TILE, block_bytes), dtype=np.uint8)

    def put(at: int, value: float) -> None:
        blocks[:, at : at + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)

    # The divisors: standard deviations of what random bytes say in units of the block's scale.
    if kind == Type.Q8_0:
        put(0, scale / 74)
    elif kind == Type.Q4_0:
        put(0, scale / 4.6)
    elif kind == Type.Q4_K:
        put(0, scale / 257)
        put(2, 7.5 * scale / 257)  # the minimum, which makes the mean 0
    elif kind == Type.Q6_K:
        put(208, scale / 1366)
    else:
        raise ValueError(f"no blocks of {kind.name} are made here")
    return blocks


class _Tensors:
    """The tensors of a model: first named, then written in the same order."""

    def __init__(self, writer: gguf.GGUFWriter, kind: Type) -> None:
        self._writer, self._kind = writer, kind
        self._parts: list[tuple[int, Iterator[bytes]]] = []
        self._tiles: dict[tuple[Type, float], bytes] = {}

    def matrix(self, name: str, n_in: int, *n_out: int, kind: Type | None = None, gain: float = 1.0) -> None:
        """Weights from `n_in` to `n_out`, several for experts."""
        kind = kind or self._kind
        if n_in % gguf.GGML_QUANT_SIZES[kind][0]:
            kind = Type.Q8_0  # rows of 896 are no multiple of 256
        per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        row = n_in // per_block * block_bytes
        shape = (*reversed(n_out), row)
        n_bytes = row * int(np.prod(n_out))
        self._writer.add_tensor_info(name, shape, np.dtype(np.uint8), n_bytes, raw_dtype=kind)
        self._parts.append((n_bytes, self._tiled(kind, gain * n_in**-0.5, n_bytes)))

    def numbers(self, name: str, *shape: int, mean: float = 1.0, spread: float = 0.05) -> None:
        """32-bit floats; `shape` fastest first."""
        values = np.random.default_rng(len(self._parts)).standard_normal(int(np.prod(shape)), np.float32)
        data = (mean + spread * values).astype(np.float32).tobytes()
        self._writer.add_tensor_info(name, tuple(reversed(shape)), np.dtype(np.float32), len(data))
        self._parts.append((len(data), iter([data])))

    @property
    def n_bytes(self) -> int:
        """Bytes of all data, padding included."""
        return sum(n + -n % gguf.GGUF_DEFAULT_ALIGNMENT for n, _ in self._parts)

    def write(self, file: BinaryIO) -> None:
        """All data, which begins and goes on at multiples of the file's alignment."""
        file.write(bytes(-file.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))
        for n_bytes, pieces in self._parts:
            for piece in pieces:
                file.write(piece)
            file.write(bytes(-n_bytes % gguf.GGUF_DEFAULT_ALIGNMENT))

    def _tiled(self, kind: Type, scale: float, n_bytes: int) -> Iterator[bytes]:
        key = (kind, scale)
        if key not in self._tiles:
            self._tiles.clear()
            self._tiles[key] = tile(kind, scale).tobytes()
        data = self._tiles[key]
        while n_bytes > 0:
            yield data[:n_bytes]
            n_bytes -= len(data)


def _attention(tensors: _Tensors, block: str, shape: Shape, *, gated: bool) -> None:
    width = shape.head * shape.n_head
    tensors.matrix(f"{block}attn_q.weight", shape.n_embd, width * (2 if gated else 1))
    tensors.matrix(f"{block}attn_k.weight", shape.n_embd, shape.head * shape.n_kv)
    tensors.matrix(f"{block}attn_v.weight", shape.n_embd, shape.head * shape.n_kv, kind=Type.Q6_K)
    tensors.matrix(f"{block}attn_output.weight", width, shape.n_embd)


def _delta_net(tensors: _Tensors, block: str, shape: Shape) -> None:
    inner = shape.state * shape.value_heads
    channels = 2 * shape.state * shape.key_heads + inner
    tensors.matrix(f"{block}attn_qkv.weight", shape.n_embd, channels)
    tensors.matrix(f"{block}attn_gate.weight", shape.n_embd, inner)
    tensors.numbers(f"{block}ssm_conv1d.weight", 4, channels, mean=0.0, spread=0.5)
    tensors.numbers(f"{block}ssm_dt.bias", shape.value_heads, mean=0.0)
    tensors.numbers(f"{block}ssm_a", shape.value_heads, mean=-0.3)
    tensors.matrix(f"{block}ssm_beta.weight", shape.n_embd, shape.value_heads)
    tensors.matrix(f"{block}ssm_alpha.weight", shape.n_embd, shape.value_heads)
    tensors.numbers(f"{block}ssm_norm.weight", shape.state)
    tensors.matrix(f"{block}ssm_out.weight", inner, shape.n_embd)


def _experts(tensors: _Tensors, block: str, shape: Shape) -> None:
    tensors.numbers(f"{block}ffn_gate_inp.weight", shape.n_embd, shape.n_expert, mean=0.0, spread=0.02)
    tensors.matrix(f"{block}ffn_gate_exps.weight", shape.n_embd, shape.n_ff, shape.n_expert)
    tensors.matrix(f"{block}ffn_up_exps.weight", shape.n_embd, shape.n_ff, shape.n_expert)
    tensors.matrix(f"{block}ffn_down_exps.weight", shape.n_ff, shape.n_embd, shape.n_expert)
    tensors.numbers(f"{block}ffn_gate_inp_shexp.weight", shape.n_embd, mean=0.0, spread=0.02)
    tensors.matrix(f"{block}ffn_gate_shexp.weight", shape.n_embd, shape.n_ff)
    tensors.matrix(f"{block}ffn_up_shexp.weight", shape.n_embd, shape.n_ff)
    tensors.matrix(f"{block}ffn_down_shexp.weight", shape.n_ff, shape.n_embd)


def _layer(tensors: _Tensors, i: int, shape: Shape) -> None:
    block = f"blk.{i}."
    tensors.numbers(f"{block}attn_norm.weight", shape.n_embd)
    if not shape.n_expert:
        tensors.numbers(f"{block}ffn_norm.weight", shape.n_embd)
        _attention(tensors, block, shape, gated=False)
        tensors.matrix(f"{block}ffn_gate.weight", shape.n_embd, shape.n_ff)
        tensors.matrix(f"{block}ffn_up.weight", shape.n_embd, shape.n_ff)
        tensors.matrix(f"{block}ffn_down.weight", shape.n_ff, shape.n_embd)
        return
    tensors.numbers(f"{block}post_attention_norm.weight", shape.n_embd)
    if (i + 1) % shape.interval == 0:
        _attention(tensors, block, shape, gated=True)
        tensors.numbers(f"{block}attn_q_norm.weight", shape.head)
        tensors.numbers(f"{block}attn_k_norm.weight", shape.head)
    else:
        _delta_net(tensors, block, shape)
    _experts(tensors, block, shape)


def _describe(build: Builder, shape: Shape) -> None:
    w = build.writer
    n_ff = 0 if shape.n_expert else shape.n_ff
    build.shape(
        n_ctx=shape.n_ctx, n_embd=shape.n_embd, n_layer=shape.n_layer, n_ff=n_ff, n_head=shape.n_head,
        n_kv=shape.n_kv,
    )  # fmt: skip
    w.add_rope_dimension_count(shape.n_rot or shape.head)
    w.add_rope_freq_base(5e5)
    w.add_key_length(shape.head)
    w.add_value_length(shape.head)
    if shape.n_expert:
        third = shape.n_rot // 6
        w.add_rope_dimension_sections([shape.n_rot // 2 - 2 * third, third, third, 0])
        w.add_expert_count(shape.n_expert)
        w.add_expert_used_count(shape.n_used)
        w.add_expert_feed_forward_length(shape.n_ff)
        w.add_expert_shared_feed_forward_length(shape.n_ff)
        w.add_ssm_conv_kernel(4)
        w.add_ssm_inner_size(shape.state * shape.value_heads)
        w.add_ssm_state_size(shape.state)
        w.add_ssm_time_step_rank(shape.value_heads)
        w.add_ssm_group_count(shape.key_heads)
        w.add_uint32("qwen35moe.full_attention_interval", shape.interval)


def write(shape: Shape, path: Path, kind: Type = Type.Q4_K, *, hollow: bool = False) -> None:
    """Write the model; its vocabulary is real, tiny and padded. `hollow`: zeros that take no space."""
    build = Builder(path, "qwen35moe" if shape.n_expert else "llama", f"{shape.name} shape", 1)
    _describe(build, shape)
    vocab = build.bpe(pad_to=shape.n_vocab)
    tensors = _Tensors(build.writer, kind)
    n_vocab = len(vocab.tokens)
    tensors.matrix("token_embd.weight", shape.n_embd, n_vocab, gain=shape.n_embd**0.5)
    tensors.numbers("output_norm.weight", shape.n_embd)
    tensors.matrix("output.weight", shape.n_embd, n_vocab, kind=Type.Q6_K, gain=2.0)
    for i in range(shape.n_layer):
        _layer(tensors, i, shape)
    build.writer.write_header_to_file()
    build.writer.write_kv_data_to_file()
    build.writer.write_ti_data_to_file()
    file = build.writer.fout[0]
    if hollow:
        file.truncate(file.tell() + tensors.n_bytes + gguf.GGUF_DEFAULT_ALIGNMENT)
    else:
        tensors.write(file)
    build.writer.close()


def main() -> None:
    """Parse the command line and write the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("path", type=Path)
    parser.add_argument("--quant", default="q4_k", choices=("q4_0", "q4_k", "q6_k", "q8_0"))
    options = parser.parse_args()
    write(SHAPES[options.shape], options.path, Type[options.quant.upper()])
    print(f"{options.path}: {options.path.stat().st_size / 1e6:,.1f} MB")


if __name__ == "__main__":
    main()
