"""The exported model in llama.cpp: greedy replies, logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np
from generator import REQUEST, Message
from llama_cpp import Llama, LlamaGrammar

__all__ = ["Runner"]

# As Shepherd asks: under its own grammar, with as many tokens as it gives.
MOST_TOKENS = 512
GRAMMAR: str = REQUEST["bounded_grammar"](MOST_TOKENS)
EXACT = llama_cpp.GGML_TYPE_F32


class Runner:
    """A GGUF loaded by llama.cpp."""

    def __init__(self, path: Path, *, threads: int = 2, all_logits: bool = False) -> None:
        self.llama = Llama(
            str(path),
            n_ctx=2048,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
            logits_all=all_logits,
            # What is compared to the network is the file, not the rounding of the cache.
            **({"type_k": EXACT, "type_v": EXACT} if all_logits else {}),
        )
        self.size_bytes = path.stat().st_size
        self.parameters = int(llama_cpp.llama_model_n_params(self.llama.model))

    def close(self) -> None:
        """Free the model."""
        self.llama.close()

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids as llama.cpp sees them."""
        return self.llama.tokenize(text.encode(), add_bos=False, special=special)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a conversation up to where the assistant speaks; text of users stays text."""
        ids: list[int] = []
        for role, text in messages:
            ids += self.tokenize(f"<|im_start|>{role}\n") + self.tokenize(text, special=False)
            ids += self.tokenize("<|im_end|>\n")
        return [*ids, *self.tokenize("<|im_start|>assistant\n")]

    def reply(self, messages: Sequence[Message], *, as_json: bool = False) -> str:
        """The most likely reply, token by token; under the grammar of extraction if asked for."""
        grammar = LlamaGrammar.from_string(GRAMMAR, verbose=False) if as_json else None
        said: list[int] = []
        for token in self.llama.generate(
            self.prompt(messages), top_k=1, temp=0.0, repeat_penalty=1.0, grammar=grammar
        ):
            if token == self.llama.token_eos() or len(said) == MOST_TOKENS:
                break
            said.append(token)
        return self.llama.detokenize(said).decode("utf-8", "replace")

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Logits (time, vocabulary) behind every id; needs `all_logits`."""
        self.llama.reset()
        self.llama.eval(list(ids))
        return np.array(self.llama.scores[: len(ids)])
