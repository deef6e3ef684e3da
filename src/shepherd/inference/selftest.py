"""Whether an untested llama-cpp-python computes as the engine expects: asked once for each build of it.

In a process of its own, since a function whose arguments have changed ends the process: a tiny model is
written, decoded, rewound and decoded again; logits and answers are compared with those of a fresh context.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import random
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shepherd import subprocess_sandbox
from shepherd.errors import ModelLoadError, pip_install
from shepherd.paths import cache_dir

__all__ = ["require", "write_tiny_model"]

_LIMIT_S = 60.0
_PROMPT = tuple(range(70, 86))
_CUT = 8
_ANSWER_TOKENS = 6

# The tiny model: one layer of llama's architecture.
_N_EMBD, _N_FF, _N_HEAD, _N_CTX = 32, 64, 2, 128
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY, _INT32 = 4, 6, 7, 8, 9, 5  # GGUF value types
_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6  # llama_token_type
_ALIGNMENT = 32


def require(version: str, library: Path, *, limit_s: float = _LIMIT_S) -> None:
    """Returns when this build has passed, now or before. ModelLoadError when it has not."""
    record = _record(version, library)
    if record.exists() or not subprocess_sandbox.can_run():
        return
    ending = subprocess_sandbox.run(__name__, [], limit_s=limit_s)
    if ending.kind != "good":
        raise ModelLoadError(
            f"llama-cpp-python {version} was not tested with this Shepherd, and fails its self-test:"
            f" {ending.what}",
            hint=pip_install("'llama-cpp-python>=0.3.36,<0.4'") + ", or upgrade Shepherd",
        )
    with contextlib.suppress(OSError):  # without a cache it is tested again
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()


def _record(version: str, library: Path) -> Path:
    status = library.stat() if library.exists() else None
    key = f"{version}\0{library}\0{status and (status.st_size, status.st_mtime_ns)}"
    return cache_dir() / "selftests" / hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:40]


# ---- in the child


def _check() -> None:
    from shepherd.inference.binding import llama

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        write_tiny_model(path)
        _check_answer(path, _check_rewind(llama(), path))


def _check_rewind(c: Any, path: Path) -> list[int]:
    """Compares the logits of a rewound context with a fresh one's; gives the greedy answer to the prompt."""
    parameters = c.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = c.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise ModelLoadError("a tiny model does not load")
    n_vocab = int(c.llama_vocab_n_tokens(c.llama_model_get_vocab(model)))
    rewound, fresh = _context(c, model), _context(c, model)
    memory = c.llama_get_memory(rewound)
    _decode(c, rewound, [*_PROMPT[:_CUT], *reversed(_PROMPT)])
    if not c.llama_memory_seq_rm(memory, 0, _CUT, -1) or c.llama_memory_seq_pos_max(memory, 0) != _CUT - 1:
        raise ModelLoadError("a sequence cannot be cut")
    for part in (_PROMPT[:_CUT], _PROMPT[_CUT:]):  # split as the other one was
        _decode(c, fresh, part)
    _decode(c, rewound, _PROMPT[_CUT:])
    if _logits(c, rewound, n_vocab) != _logits(c, fresh, n_vocab):
        raise ModelLoadError("after a rewind the logits are not those of a fresh context")
    answer: list[int] = []
    while len(answer) < _ANSWER_TOKENS:
        logits = struct.unpack(f"{n_vocab}f", _logits(c, fresh, n_vocab))
        answer.append(max(range(n_vocab), key=logits.__getitem__))
        _decode(c, fresh, answer[-1:])
    for context in (rewound, fresh):
        c.llama_free(context)
    c.llama_model_free(model)
    return answer


def _context(c: Any, model: Any) -> Any:
    parameters = c.llama_context_default_params()
    parameters.n_ctx = _N_CTX
    parameters.n_threads = parameters.n_threads_batch = 1
    parameters.flash_attn_type = 0
    parameters.type_k = parameters.type_v = 0  # f32
    context = c.llama_init_from_model(model, parameters)
    if not context:
        raise ModelLoadError("there is no context for a tiny model")
    return context


def _decode(c: Any, context: Any, tokens: Sequence[int]) -> None:
    ids = (ctypes.c_int32 * len(tokens))(*tokens)  # the batch points at it, and does not keep it
    code = c.llama_decode(context, c.llama_batch_get_one(ids, len(ids)))
    if code != 0:
        raise ModelLoadError(f"a tiny model cannot be decoded (code {code})")


def _logits(c: Any, context: Any, n_vocab: int) -> bytes:
    return ctypes.string_at(c.llama_get_logits_ith(context, -1), 4 * n_vocab)


def _check_answer(path: Path, expected: Sequence[int]) -> None:
    """Whether our own loop, by function addresses, gives the same."""
    from shepherd.inference.engine import Engine
    from shepherd.inference.model import EngineSettings
    from shepherd.types import Sampling

    settings = EngineSettings(n_ctx=_N_CTX, n_threads=1, n_gpu_layers=0, flash_attention="off", kv_type="f32")
    with Engine(path, settings=settings) as engine:
        greedy = Sampling(temperature=0.0)
        with engine.complete(_PROMPT, sampling=greedy, max_tokens=_ANSWER_TOKENS) as answer:
            for _ in answer:
                pass
        stop = next((i for i, token in enumerate(expected) if engine.model.vocabulary.is_end(token)), None)
        if tuple(answer.token_ids) != tuple(expected[:stop]):
            raise ModelLoadError("the engine's greedy answer is not the one that the logits say")


def write_tiny_model(path: Path) -> None:
    """Writes a GGUF of 60 KB: one layer, random weights, a SentencePiece vocabulary of bytes.

    Source of the format: ggml's docs/gguf.md.
    """
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256]
    keys = [
        _key("general.architecture", _STRING, _text("llama")),
        _key("general.name", _STRING, _text("self-test")),
        _key("llama.attention.layer_norm_rms_epsilon", _FLOAT32, struct.pack("<f", 1e-6)),
        _key("tokenizer.ggml.model", _STRING, _text("llama")),
        _key("tokenizer.ggml.tokens", _ARRAY, _array(_STRING, [_text(text) for text in texts])),
        _key("tokenizer.ggml.scores", _ARRAY, _array(_FLOAT32, [struct.pack("<f", 0.0)] * len(texts))),
        _key(
            "tokenizer.ggml.token_type", _ARRAY, _array(_INT32, [struct.pack("<i", kind) for kind in kinds])
        ),
        _key("tokenizer.ggml.add_bos_token", _BOOL, b"\0"),
    ]
    numbers = {
        "llama.context_length": _N_CTX,
        "llama.embedding_length": _N_EMBD,
        "llama.block_count": 1,
        "llama.feed_forward_length": _N_FF,
        "llama.attention.head_count": _N_HEAD,
        "llama.rope.dimension_count": _N_EMBD // _N_HEAD,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    keys += [_key(name, _UINT32, struct.pack("<I", number)) for name, number in numbers.items()]
    infos, data = _tensors(len(texts))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + data)


def _tensors(n_vocab: int) -> tuple[list[bytes], bytes]:
    """The descriptions and the weights of all tensors, of unit size in the mean."""
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (_N_EMBD, n_vocab),
        "output.weight": (_N_EMBD, n_vocab),
        "output_norm.weight": (_N_EMBD,),
        "blk.0.attn_norm.weight": (_N_EMBD,),
        "blk.0.ffn_norm.weight": (_N_EMBD,),
        **{f"blk.0.attn_{part}.weight": (_N_EMBD, _N_EMBD) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate.weight": (_N_EMBD, _N_FF),
        "blk.0.ffn_up.weight": (_N_EMBD, _N_FF),
        "blk.0.ffn_down.weight": (_N_FF, _N_EMBD),
    }
    draw = random.Random(1)  # the same model every time
    infos, data = [], bytearray()
    for name, shape in shapes.items():
        scale = 1.0 if name == "token_embd.weight" else 2 * shape[0] ** -0.5
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights = [1.0] * n if len(shape) == 1 else [draw.gauss(0, scale) for _ in range(n)]
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        infos.append(_text(name) + sizes + struct.pack("<IQ", 0, len(data)))
        data += struct.pack(f"<{n}f", *weights)
        data += bytes(-len(data) % _ALIGNMENT)
    return infos, bytes(data)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _key(name: str, kind: int, value: bytes) -> bytes:
    return _text(name) + struct.pack("<I", kind) + value


def _array(kind: int, values: Sequence[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


if __name__ == "__main__":
    sys.exit(subprocess_sandbox.answer(_check))
