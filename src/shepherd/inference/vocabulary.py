"""Text to token ids and back, by the model's own tokenizer."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from shepherd._native import engine as native
from shepherd.errors import ModelLoadError, UsageError
from shepherd.inference.binding import last_error, llama
from shepherd.inference.gguf import read_header

__all__ = ["Vocabulary", "open_tokenizer"]


# Tokenizers keep most texts apart from one of these; see tokenize_after.
_SENTINELS = ("\n", "a", "0", ".")
# llama_token_attr
_UNKNOWN, _CONTROL, _LSTRIP, _RSTRIP = 1, 8, 128, 256


class Vocabulary:
    """The tokenizer of a loaded model, until that is closed. Thread-safe.

    `controls` maps the text of every token that only a template may say (such as `<|im_end|>`) to its id.
    """

    def __init__(self, model: Any) -> None:
        self._c = llama()
        # Held while llama.cpp reads the vocabulary, so that it is not freed meanwhile.
        self._lock = threading.RLock()
        self._handle = handle = self._c.llama_model_get_vocab(model)
        self.n_tokens: int = self._c.llama_vocab_n_tokens(handle)
        self.bos: int = self._c.llama_vocab_bos(handle)
        self.eos: int = self._c.llama_vocab_eos(handle)
        self.adds_bos = bool(self._c.llama_vocab_get_add_bos(handle)) and self.bos >= 0
        # No token stands for more bytes than this, so n bytes are at least n / longest tokens.
        self.longest_bytes = native.longest_token(self.address)
        self.controls: dict[str, int] = {}
        self._strips: dict[int, tuple[bool, bool]] = {}
        for token, attributes, raw in native.special_tokens(self.address, _CONTROL | _UNKNOWN):
            if text := raw.decode("utf-8", "replace"):
                self.controls.setdefault(text, token)
                self._strips[token] = (bool(attributes & _LSTRIP), bool(attributes & _RSTRIP))

    @property
    def address(self) -> int:
        """Of llama.cpp's llama_vocab; 0 when closed."""
        return int(ctypes.cast(self._handle, ctypes.c_void_p).value or 0)

    @property
    def is_closed(self) -> bool:
        """Whether the model it belongs to is gone."""
        return self._handle is None

    def close(self) -> None:
        """Let go of the model's memory, which is about to be freed."""
        with self._lock:
            self._handle = None

    def _open(self) -> Any:
        """The vocabulary, for who holds the lock."""
        if self._handle is None:
            raise UsageError("the engine is closed", hint="make a new one")
        return self._handle

    @cached_property
    def control_pattern(self) -> re.Pattern[str]:
        """Matches the text of any control token, the longest first, as llama.cpp does."""
        texts = sorted(self.controls, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    @cached_property
    def prefixes_space(self) -> bool:
        """Whether text after a control token gets a blank put before it (SentencePiece)."""
        return self.detokenize(self.tokenize("a")) == b" a"

    def strips(self, token: int) -> tuple[bool, bool]:
        """Whether a control token swallows the blanks before and after it."""
        return self._strips.get(token, (False, False))

    def ids_of(self, marks: Iterable[str]) -> tuple[int, ...]:
        """Those of these texts that are control tokens, as ids, ascending."""
        return tuple(sorted({self.controls[mark] for mark in marks if mark in self.controls}))

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""
        with self._lock:
            return bool(self._c.llama_vocab_is_eog(self._open(), token))

    def piece(self, token: int) -> str:
        """The text of one token as the vocabulary writes it, control tokens included; empty for -1."""
        if token < 0:
            return ""
        with self._lock:
            return (self._c.llama_vocab_get_text(self._open(), token) or b"").decode("utf-8", "replace")

    def tokenize(self, text: str, *, special: bool = False, framed: bool = False) -> array[int]:
        """The ids of `text`, without BOS. With `special`, the text of a control token becomes that token.

        With `framed`, between the tokens that the model was trained to find around a text: BOS and EOS, CLS
        and SEP.
        """
        data = text.encode("utf-8", "replace")
        if not data and not framed:
            return array("i")
        # No token is empty and SentencePiece may put one blank before: no more ids than bytes + 1.
        # Normalising tokenizers may exceed it; they answer with the number that they need.
        capacity = len(data) + 4
        while True:
            out = (ctypes.c_int32 * capacity)()
            with self._lock:
                n = self._c.llama_tokenize(self._open(), data, len(data), out, capacity, framed, special)
            if n >= 0:
                return array("i", ctypes.string_at(out, 4 * n))
            capacity = -n

    def tokenize_after(self, text: str) -> array[int]:
        """The ids of `text` where it goes on after other ids: without SentencePiece's blank before it."""
        if text and self.prefixes_space:
            for sentinel in _SENTINELS:
                head = self.tokenize(sentinel)
                both = self.tokenize(sentinel + text)
                if both[: len(head)] == head:
                    return both[len(head) :]
        return self.tokenize(text)

    def detokenize(self, tokens: Iterable[int], *, shown: Collection[int] = ()) -> bytes:
        """The bytes that these tokens stand for; control tokens stand for none, but for those `shown`."""
        out = bytearray()
        buffer = ctypes.create_string_buffer(256)
        with self._lock:
            handle = self._open()
            for token in tokens:
                special = token in shown
                n = self._c.llama_token_to_piece(handle, token, buffer, len(buffer), 0, special)
                if n < 0:
                    buffer = ctypes.create_string_buffer(-n)
                    n = self._c.llama_token_to_piece(handle, token, buffer, len(buffer), 0, special)
                out += buffer.raw[:n]
        return bytes(out)


@contextmanager
def open_tokenizer(path: str | os.PathLike[str]) -> Iterator[Vocabulary]:
    """The vocabulary of the model at `path`, while the block runs.

    Raises ModelFormatError for a damaged file, ModelLoadError when llama.cpp refuses it.
    """
    name = os.fspath(path)
    read_header(name)
    c = llama()
    parameters = c.llama_model_default_params()
    parameters.vocab_only = True
    model = c.llama_model_load_from_file(name.encode("utf-8", "surrogateescape"), parameters)
    if not model:
        raise ModelLoadError(
            f"the tokenizer of '{name}' cannot be loaded: {last_error() or 'llama.cpp gave no reason'}",
            hint="if the architecture is unknown, upgrade llama-cpp-python",
        )
    try:
        vocabulary = Vocabulary(model)
        try:
            yield vocabulary
        finally:
            vocabulary.close()
    finally:
        c.llama_model_free(model)
