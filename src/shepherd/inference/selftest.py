"""Self-test of an untested llama-cpp-python build: does it compute as the engine expects?

In a process of its own, since a function whose arguments have changed ends the process: a prompt of the
built-in model is decoded, rewound and decoded again; its logits and its answer are compared with those of a
fresh context.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shepherd import subprocess_sandbox
from shepherd.errors import ModelLoadError
from shepherd.inference.names import BUILT_IN_FILE
from shepherd.installation import pip_install
from shepherd.paths import cache_dir

__all__ = ["require"]

_LIMIT_S = 60.0
_PROMPT = tuple(range(70, 86))
_CUT = 8
_ANSWER_TOKENS = 6
_N_CTX = 128


def require(version: str, library: Path, *, limit_s: float = _LIMIT_S) -> None:
    """Run the test, unless this build has passed it. Raises ModelLoadError when it fails."""
    record = _record(version, library)
    if record.exists() or not subprocess_sandbox.can_run() or not BUILT_IN_FILE.is_file():
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

    _check_answer(BUILT_IN_FILE, _check_rewind(llama(), BUILT_IN_FILE))


def _check_rewind(c: Any, path: Path) -> list[int]:
    """Compare the logits of a rewound context with a fresh one's; return the greedy answer to the prompt."""
    from shepherd.inference.binding import load_weights

    model = load_weights(str(path), n_gpu_layers=0)
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
        raise ModelLoadError("there is no context for the built-in model")
    return context


def _decode(c: Any, context: Any, tokens: Sequence[int]) -> None:
    ids = (ctypes.c_int32 * len(tokens))(*tokens)  # the batch points at it, and does not keep it
    code = c.llama_decode(context, c.llama_batch_get_one(ids, len(ids)))
    if code != 0:
        raise ModelLoadError(f"the built-in model cannot be decoded (code {code})")


def _logits(c: Any, context: Any, n_vocab: int) -> bytes:
    return ctypes.string_at(c.llama_get_logits_ith(context, -1), 4 * n_vocab)


def _check_answer(path: Path, expected: Sequence[int]) -> None:
    """Check that our own loop, by function addresses, gives the same answer."""
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
            raise ModelLoadError("the engine's greedy answer differs from the likeliest tokens of the logits")


if __name__ == "__main__":
    sys.exit(subprocess_sandbox.answer(_check))
