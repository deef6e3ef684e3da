"""A model file from outside, loaded for the first time: in a process of its own.

The header's counts and offsets are checked before (gguf.py), but a file can be whole and still abort
llama.cpp: zero layers, a negative epsilon, a vocabulary without bytes. The trial does once what the engine
will do, load, tokenise, decode. What went well is remembered; a known file costs a few stats and one read.

Remembered: an empty file in `~/.cache/shepherd/trials`, named after a digest of the model's path, of size,
time and first megabyte of its files, and of llama-cpp-python's version. Only success is kept: what failed
may be the weather, and is tried again.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shepherd import child
from shepherd.errors import ModelLoadError
from shepherd.inference.binding import last_error, llama, version
from shepherd.inference.footprint import available_bytes
from shepherd.inference.gguf import read_header
from shepherd.inference.names import variants
from shepherd.paths import cache_dir

__all__ = ["is_known", "require", "vouch"]

_log = logging.getLogger(__name__)

_HEAD_BYTES = 1 << 20
_MOST_KNOWN = 512
# A child starts in half a second. The rest is for a cold disk of 50 MB/s and a machine that is busy.
_LIMIT_S = 60.0
_LIMIT_BYTES_PER_S = 50e6
_WINDOW = 64
# ASCII, line breaks, two, three and four bytes a character, and a byte that is no text.
_TEXT = b"Hello 42,\n\n\tworld! \xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80 \xff"
_OFF = "shepherd config set model_trial false   (loads it without a trial)"


def require(
    path: str | os.PathLike[str],
    *,
    is_trusted: bool = False,
    limit_s: float = 0,
    loading: Callable[[str], None] = lambda text: None,
) -> None:
    """Returns when the model at `path` can be loaded without harm; ModelError with the reason when not.

    A file that went well before, or is trusted, starts no process. `loading` is told when one is started,
    and "" when it has ended. `limit_s` 0 is a minute, and 20 s for each gigabyte.
    """
    name = os.fspath(path)
    if is_trusted or is_known(name) or not child.can_run():
        return
    read_header(name)  # says what is wrong better than any crash
    size = sum(file.stat().st_size for file in _files(name))
    loading(f"trying {name}, new here, in a process of its own …")
    try:
        ending = child.run(
            __name__, [os.path.abspath(name)], limit_s=limit_s or _LIMIT_S + size / _LIMIT_BYTES_PER_S
        )
    finally:
        loading("")
    if ending.kind == "broken":
        _log.warning("model '%s' was not tried before it is loaded: %s", name, ending.what)
        return
    if ending.kind != "good":
        raise _failure(name, ending, size)
    vouch(name)


def is_known(path: str | os.PathLike[str]) -> bool:
    """Whether this file, as it is now, has been loaded before by this llama-cpp-python."""
    with contextlib.suppress(OSError):  # a file that is not there is not known
        record = _record(os.fspath(path))
        if record.exists():
            with contextlib.suppress(OSError):  # in a cache that cannot be written
                record.touch()
            return True
    return False


def vouch(path: str | os.PathLike[str]) -> None:
    """Remember that this file went well."""
    # Without a cache it is tried again next time.
    with contextlib.suppress(OSError):
        record = _record(os.fspath(path))
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
        _forget_oldest(record.parent)


def _record(path: str) -> Path:
    digest = hashlib.sha256(version().encode())
    for file in _files(path):
        status = file.stat()
        digest.update(
            f"\0{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "replace")
        )
        with open(file, "rb") as opened:
            digest.update(opened.read(_HEAD_BYTES))
    return cache_dir() / "trials" / digest.hexdigest()[:40]


def _files(path: str) -> Sequence[Path]:
    """The file, or all parts of a split model: llama.cpp opens those beside the first by itself."""
    first = Path(path)
    if "-of-" not in first.name:
        return (first,)
    beside = [file.name for file in first.parent.iterdir()]
    found = next((v.files for v in variants(beside) if first.name in v.files), (first.name,))
    return tuple(first.parent / name for name in found)


def _forget_oldest(folder: Path) -> None:
    records = [(record.stat().st_mtime, record) for record in folder.iterdir()]
    for _, record in sorted(records)[:-_MOST_KNOWN]:
        record.unlink(missing_ok=True)


def _failure(path: str, ending: child.Ending, size: int) -> ModelLoadError:
    if ending.kind == "refused":
        return ModelLoadError(ending.what, hint=ending.hint)
    if ending.kind == "hung":
        return ModelLoadError(
            f"model '{path}' did not load: {ending.what}, in a trial in a process of its own",
            hint=f"try again when the machine and its disk are idle, or {_OFF}",
        )
    if ending.kind == "killed":
        available = available_bytes()
        there = "" if available is None else f"; {available / 1e9:.1f} GB are available now"
        return ModelLoadError(
            f"model '{path}' was being tried in a process of its own, which was killed (SIGKILL): most likely"
            f" memory ran out, its weights take {size / 1e9:.1f} GB{there}",
            hint="take a smaller quantisation, or close other programs; with all layers on a GPU, " + _OFF,
        )
    return ModelLoadError(
        f"model '{path}' crashes llama.cpp, found in a trial in a process of its own: {ending.what}",
        hint="the file is damaged or made for another llama.cpp: fetch or convert it again, or upgrade"
        " llama-cpp-python",
    )


# ---- in the child


def _try(path: str) -> None:
    """Load, tokenise, decode once, and give everything back."""
    c = llama()
    parameters = c.llama_model_default_params()
    parameters.n_gpu_layers = 0
    # Weights stay pages of the file: repacked ones would take as much memory again, for one token.
    parameters.use_extra_bufts = False
    model = c.llama_model_load_from_file(path.encode("utf-8", "surrogateescape"), parameters)
    if not model:
        raise ModelLoadError(
            f"model '{path}' cannot be loaded: {last_error() or 'llama.cpp gave no reason'}",
            hint="if memory is short, take a smaller quantisation; "
            "if the architecture is unknown, upgrade llama-cpp-python",
        )
    settings = c.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = _WINDOW, _WINDOW, _WINDOW
    settings.n_threads = settings.n_threads_batch = min(4, os.cpu_count() or 1)
    context = c.llama_init_from_model(model, settings)
    if not context:
        raise ModelLoadError(
            f"no context for model '{path}': {last_error() or 'llama.cpp gave no reason'}",
            hint="fetch or convert the file again, or upgrade llama-cpp-python",
        )
    tokens, n = _tokens(c, model)
    batch = c.llama_batch_get_one(tokens, n)
    code = (c.llama_encode if c.llama_model_has_encoder(model) else c.llama_decode)(context, batch)
    if code != 0:
        raise ModelLoadError(
            f"model '{path}' was loaded, but llama.cpp cannot compute it (code {code})"
            f"{': ' + reason if (reason := last_error()) else ''}",
            hint="fetch or convert the file again, or upgrade llama-cpp-python",
        )
    c.llama_free(context)
    c.llama_model_free(model)


def _tokens(c: Any, model: Any) -> tuple[Any, int]:
    """Some tokens of a text in many scripts, after a look at the pieces of all of them."""
    vocabulary = c.llama_model_get_vocab(model)
    tokens = (ctypes.c_int32 * (2 * len(_TEXT)))()
    n = c.llama_tokenize(vocabulary, _TEXT, len(_TEXT), tokens, len(tokens), True, True)
    piece = ctypes.create_string_buffer(256)
    for i in range(max(0, n)):
        c.llama_token_to_piece(vocabulary, tokens[i], piece, len(piece), 0, True)
        c.llama_vocab_is_eog(vocabulary, tokens[i])
    # A model without a vocabulary has token 0 all the same.
    return tokens, max(1, min(n, _WINDOW // 2))


if __name__ == "__main__":
    sys.exit(child.answer(lambda: _try(sys.argv[1])))
