"""Tiny real models that read pictures: a language model and the projector file beside it, and pictures.

`seeing` is a model that says the colour of the picture before it; the others have random weights.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from tests.models import CHATML, Builder, byte_alphabet

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
SIDE, PATCH = 32, 8
PICTURE_TOKENS = (SIDE // PATCH) ** 2
_N_VISION = 8


def png(colour: str | tuple[int, int, int], side: int = SIDE, *, height: int = 0, dot: int = 0) -> bytes:
    """Return a PNG of one colour; `dot` changes one of its bytes, which makes it another picture."""
    rgb = COLOURS[colour] if isinstance(colour, str) else colour
    rows = bytearray((b"\0" + bytes(rgb) * side) * (height or side))
    rows[1] ^= dot

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", side, height or side, 8, 2, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        )
    )


def seeing(folder: Path, *, n_ctx: int = 4096) -> Path:
    """Say "red", "green" or "blue" after a picture of that colour, "nothing" without one; return its path.

    A few numbers of an embedding belong to pictures alone. The newline before an answer attends to what is
    a picture, and takes over its colours.
    """
    path = folder / "seeing.gguf"
    n_embd, n_head, head = 256, 4, 64
    newline, is_picture, colours = 249, 250, (251, 252, 253)
    build = Builder(path, "llama", "tiny-seeing", 3)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=1, n_ff=32, n_head=n_head, n_kv=n_head)
    build.writer.add_rope_dimension_count(head)
    build.writer.add_rope_freq_base(1e9)  # the last two numbers of a head hardly turn
    words = (*COLOURS, "nothing")
    vocab = build.bpe(template=CHATML, extra=words, extra_is_normal=True)
    embedding = build.random.standard_normal((len(vocab.tokens), n_embd), dtype=np.float32)
    embedding[:, newline:] = 0
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    begin = vocab.tokens.index(byte_alphabet()[ord("\n")])
    embedding[begin] = np.eye(n_embd)[newline]
    output = np.zeros_like(embedding)
    scale = 30 * n_embd**-0.5
    for word, at in zip(COLOURS, colours, strict=True):
        output[vocab.ids[word], at] = scale
    output[vocab.ids["nothing"], newline] = scale / 5
    output[vocab.ids["<|im_end|>"]] = scale * sum(embedding[vocab.ids[word]] for word in words)
    build.writer.add_tensor("token_embd.weight", embedding)
    build.writer.add_tensor("output.weight", output)
    build.writer.add_tensor("output_norm.weight", np.ones(n_embd, np.float32))
    query, key, value, out = (np.zeros((n_embd, n_embd), np.float32) for _ in range(4))
    query[head - 2, newline] = 1
    key[head - 2, is_picture] = 8
    for i, at in enumerate(colours):
        value[i, at] = 0.1
        out[at, i] = 1
    block = "blk.0."
    for name in ("attn_norm", "ffn_norm"):
        build.writer.add_tensor(f"{block}{name}.weight", np.ones(n_embd, np.float32))
    for name, weights in (("attn_q", query), ("attn_k", key), ("attn_v", value), ("attn_output", out)):
        build.writer.add_tensor(f"{block}{name}.weight", weights)
    build.matrix(block + "ffn_gate.weight", n_embd, 32)
    build.matrix(block + "ffn_up.weight", n_embd, 32)
    build.matrix(block + "ffn_down.weight", 32, n_embd, 0.0)
    build.write()
    project = np.zeros((n_embd, _N_VISION), np.float32)
    project[list(colours), [0, 1, 2]] = 1
    bias = np.eye(n_embd, dtype=np.float32)[is_picture]
    _llava(folder / "mmproj-seeing.gguf", project, bias)
    return path


def llava(path: Path, n_embd: int, *, seed: int = 4, kind: str = "mlp") -> None:
    """Random weights, as in LLaVA: a token for each patch, decoded as text is."""
    random = np.random.default_rng(seed)
    project = random.standard_normal((n_embd, _N_VISION), np.float32)
    _llava(path, project, np.zeros(n_embd, np.float32), kind)


def _llava(path: Path, project: np.ndarray, bias: np.ndarray, kind: str = "mlp") -> None:
    build = _projector(path, kind)
    _patches(build)
    build.writer.add_tensor("mm.0.weight", 3 * np.eye(_N_VISION, dtype=np.float32))
    build.writer.add_tensor("mm.0.bias", np.zeros(_N_VISION, np.float32))
    build.writer.add_tensor("mm.2.weight", project)
    build.writer.add_tensor("mm.2.bias", bias)
    build.write()


def gemma3(path: Path, n_embd: int) -> None:
    """As in Gemma 3: four tokens, which attend to each other."""
    build = _projector(path, "gemma3")
    build.writer.add_uint32("clip.vision.projector.scale_factor", 2)
    _patches(build)
    build.norm("v.post_ln", _N_VISION)
    build.matrix("mm.input_projection.weight", n_embd, _N_VISION, 1.0)
    build.vector("mm.soft_emb_norm.weight", _N_VISION)
    build.write()


def qwen2vl(path: Path, n_embd: int) -> None:
    """As in Qwen2-VL: as many tokens as the picture is large, with positions in two dimensions."""
    build = _projector(path, "qwen2vl_merger")
    _patches(build, temporal=True)
    build.norm("v.post_ln", _N_VISION)
    build.matrix("mm.0.weight", 4 * _N_VISION, 16)
    build.vector("mm.0.bias", 16, 0.0)
    build.matrix("mm.2.weight", 16, n_embd, 1.0)
    build.vector("mm.2.bias", n_embd, 0.0)
    build.write()


def _projector(path: Path, kind: str) -> Builder:
    build = Builder(path, "clip", "tiny-projector", 5)
    w = build.writer
    w.add_string("general.type", "mmproj")
    w.add_bool("clip.has_vision_encoder", True)
    w.add_string("clip.projector_type", kind)
    w.add_bool("clip.use_gelu", True)
    for name, value in (
        ("image_size", SIDE), ("patch_size", PATCH), ("embedding_length", _N_VISION), ("block_count", 1),
        ("feed_forward_length", 16), ("projection_dim", _N_VISION), ("attention.head_count", 2),
    ):  # fmt: skip
        w.add_uint32(f"clip.vision.{name}", value)
    w.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    w.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    w.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    return build


def _patches(build: Builder, *, temporal: bool = False) -> None:
    """The encoder: the mean of each colour in a patch, and one block."""
    n = _N_VISION
    patch = np.zeros((n, 3, PATCH, PATCH), np.float32)
    patch[[0, 1, 2], [0, 1, 2]] = 1 / PATCH**2
    if temporal:
        build.writer.add_tensor("v.patch_embd.weight", patch / 2)
        build.writer.add_tensor("v.patch_embd.weight.1", patch / 2)
    else:
        build.writer.add_tensor("v.patch_embd.weight", patch)
        build.writer.add_tensor("v.position_embd.weight", np.zeros((PICTURE_TOKENS, n), np.float32))
    block = "v.blk.0."
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        build.matrix(f"{block}{name}.weight", n, n)
        build.vector(f"{block}{name}.bias", n, 0.0)
    for name in ("ln1", "ln2"):
        build.norm(block + name, n)
    build.matrix(block + "ffn_up.weight", n, 16)
    build.vector(block + "ffn_up.bias", 16, 0.0)
    build.matrix(block + "ffn_down.weight", 16, n)
    build.vector(block + "ffn_down.bias", n, 0.0)


__all__ = ["COLOURS", "PICTURE_TOKENS", "gemma3", "llava", "png", "qwen2vl", "seeing"]
