"""The tokenizer of a model file alone: no weights are read, so that even a large model counts at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from shepherd.errors import ModelLoadError
from shepherd.inference.binding import last_error, llama
from shepherd.inference.gguf import read_header
from shepherd.inference.vocabulary import Vocabulary

__all__ = ["open_tokenizer"]


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
