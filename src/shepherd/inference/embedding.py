"""Vectors of texts, and relevances of pairs of texts, computed by llama.cpp in separate contexts.

Pooling is the model's (`<architecture>.pooling_type`). A model without this key gets the mean of its tokens
if its attention is bidirectional, and the last token if it is causal. Asserts of llama.cpp cannot be reached:
no text is longer than the positions the model has, no batch larger than the context's micro-batch (an encoder
cannot be split), and a result is as many numbers as llama.cpp has written, which is not the embedding's width
for a reranker.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shepherd.errors import ModelError, ModelLoadError, UsageError
from shepherd.inference import load_check
from shepherd.inference.binding import gpu_layers, last_error, llama, load_weights, trained_window
from shepherd.inference.gguf import GGUFHeader, read_header
from shepherd.inference.tokenization import Vocabulary
from shepherd.wording import counted

__all__ = ["Embedder", "Reranker"]

Floats = npt.NDArray[np.float32]

# llama_pooling_type
_UNSPECIFIED, _NONE, _MEAN, _LAST, _RANK = -1, 0, 1, 3, 4
# Tokens of one text and of one batch: the working memory grows with them, and attention with their square.
_MOST_TOKENS = 2048
_LEAST_BATCH = 512
_MOST_SEQUENCES = 16
_WORD_PIECE = 3  # llama_vocab_type
_HEADS = ("cls.weight", "cls.output.weight")


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """Prefixes that a model was trained with, for questions and for documents."""

    query: str = ""
    document: str = ""


# By a part of the architecture or name. Source: the publishers' model cards.
_PREFIXES = {
    "nomic-bert": _Prefixes("search_query: ", "search_document: "),
    "nomic-embed": _Prefixes("search_query: ", "search_document: "),
    "gemma-embedding": _Prefixes("task: search result | query: ", "title: none | text: "),
    "embeddinggemma": _Prefixes("task: search result | query: ", "title: none | text: "),
    "e5-": _Prefixes("query: ", "passage: "),
    "mxbai-embed": _Prefixes("Represent this sentence for searching relevant passages: "),
    "qwen3-embedding": _Prefixes("Instruct: Given a question, retrieve memories that answer it\nQuery:"),
}


class _Handles:
    """llama.cpp's model and context, freed in the right order, once."""

    def __init__(self, c: Any) -> None:
        self._c = c
        self.model: Any = None
        self.context: Any = None

    def free(self) -> None:
        context, self.context = self.context, None
        model, self.model = self.model, None
        if context is not None:
            self._c.llama_free(context)
        if model is not None:
            self._c.llama_model_free(model)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The tokens around a question and a document."""

    begin: array[int]
    between: array[int]
    end: array[int]


class _PooledModel:
    """A model and a context that gives one row of numbers per sequence. Thread-safe: one batch at a time."""

    def __init__(self, path: str | os.PathLike[str], pooling: int, n_gpu_layers: int, n_threads: int) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._c = llama()
        self._handles = handles = _Handles(self._c)
        # Who forgets to close must not keep the weights in memory.
        self._finalizer = weakref.finalize(self, handles.free)
        self.vocabulary: Vocabulary | None = None
        try:
            handles.model = load_weights(self.path, n_gpu_layers=gpu_layers(n_gpu_layers))
            # Where positions are a table, one beyond its end would be read outside of it.
            trained = trained_window(self._c, handles.model)
            self.most_tokens = min(trained or _MOST_TOKENS, _MOST_TOKENS)
            # As many for each sequence, or llama.cpp aborts when it makes the context.
            self.batch_tokens = -(-max(self.most_tokens, _LEAST_BATCH) // _MOST_SEQUENCES) * _MOST_SEQUENCES
            handles.context = self._make_context(pooling, n_threads)
            self.vocabulary = Vocabulary(handles.model)
        except BaseException:
            self.close()
            raise
        pooled = self._c.llama_pooling_type(handles.context)
        ranks = pooled == _RANK
        self.width = int(
            self._c.llama_model_n_cls_out(handles.model)
            if ranks
            else self._c.llama_model_n_embd_out(handles.model)
        )
        self.pooling = int(pooled)

    def close(self) -> None:
        """Free the context, then the model; twice is fine. Waits for the batch that is being computed."""
        with self._lock:
            if self.vocabulary is not None:
                self.vocabulary.close()
            self._finalizer()

    def rows(self, texts: Sequence[array[int]]) -> Floats:
        """(n_texts, width): what comes out for each list of ids, none of them empty or too long."""
        out = np.zeros((len(texts), self.width), np.float32)
        for numbers in self._batches(texts):
            out[numbers] = self._compute([texts[i] for i in numbers])
        if not np.isfinite(out).all():
            raise ModelError(
                f"model '{self.path}' gives no numbers for a text",
                hint="the file may be damaged; download it again",
            )
        return out

    @property
    def vocabulary_address(self) -> Any:
        """llama.cpp's llama_vocab."""
        return self._c.llama_model_get_vocab(self._handles.model)

    def template(self, name: bytes) -> str:
        """Return a template of the model's file, "" without."""
        return (self._c.llama_model_chat_template(self._handles.model, name) or b"").decode(
            "utf-8", "replace"
        )

    def _batches(self, texts: Sequence[array[int]]) -> Iterator[list[int]]:
        batch: list[int] = []
        n_tokens = 0
        # Neighbours in length, so that short texts do not wait for long ones in every batch.
        for i in sorted(range(len(texts)), key=lambda i: len(texts[i])):
            if batch and (n_tokens + len(texts[i]) > self.batch_tokens or len(batch) == _MOST_SEQUENCES):
                yield batch
                batch, n_tokens = [], 0
            batch.append(i)
            n_tokens += len(texts[i])
        if batch:
            yield batch

    def _compute(self, texts: Sequence[array[int]]) -> Floats:
        with self._lock:
            if self._handles.context is None:
                raise UsageError("the model is closed", hint="load it again")
            held = _Batch(self._c, texts)
            memory = self._c.llama_get_memory(self._handles.context)
            if memory:
                self._c.llama_memory_clear(memory, True)
                status = self._c.llama_decode(self._handles.context, held.batch)
            else:
                status = self._c.llama_encode(self._handles.context, held.batch)
            if status != 0:
                raise ModelError(
                    f"model '{self.path}': llama.cpp refused {counted(len(texts), 'text')} (status {status}):"
                    f" {last_error() or 'it gave no reason'}",
                    hint="if memory is short, take a smaller model",
                )
            return np.stack([self._row(i) for i in range(len(texts))])

    def _row(self, sequence: int) -> Floats:
        found = self._c.llama_get_embeddings_seq(self._handles.context, sequence)
        if not found:
            raise ModelError(
                f"model '{self.path}' gives no vector for a whole text",
                hint="use a model that was made for embeddings or for reranking",
            )
        # A copy: the next batch overwrites it.
        return np.ctypeslib.as_array(found, (self.width,)).astype(np.float32)

    def _make_context(self, pooling: int, n_threads: int) -> Any:
        parameters = self._c.llama_context_default_params()
        # An encoder computes a batch in one piece or aborts: micro-batch = batch = context.
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = self.batch_tokens
        parameters.n_seq_max = _MOST_SEQUENCES
        parameters.kv_unified = True
        parameters.embeddings = True
        parameters.pooling_type = pooling
        if not self._c.llama_supports_gpu_offload():
            # On the CPU it rounds to half precision: 1e-4 between a text alone and in a batch.
            parameters.flash_attn_type = 0
        if n_threads:
            parameters.n_threads = parameters.n_threads_batch = n_threads
        context = self._c.llama_init_from_model(self._handles.model, parameters)
        if not context:
            raise ModelLoadError(
                f"no context for model '{self.path}': {last_error() or 'llama.cpp gave no reason'}",
                hint="if memory is short, take a smaller model",
            )
        return context


class _Batch:
    """A llama_batch over arrays of ours; they live as long as it does."""

    def __init__(self, c: Any, texts: Sequence[array[int]]) -> None:
        lengths = [len(text) for text in texts]
        n = sum(lengths)
        self._tokens = np.concatenate([np.asarray(text, np.int32) for text in texts])
        self._positions = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
        self._sequences = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        self._counts = np.ones(n, np.int32)
        self._addresses = np.arange(n, dtype=np.uintp) * 4 + np.uintp(self._sequences.ctypes.data)
        self._outputs = np.ones(n, np.int8)
        self.batch = c.llama_batch()
        self.batch.n_tokens = n
        for field, values in (
            ("token", self._tokens),
            ("pos", self._positions),
            ("n_seq_id", self._counts),
            ("seq_id", self._addresses),
            ("logits", self._outputs),
        ):
            kind = type(getattr(self.batch, field))
            setattr(self.batch, field, ctypes.cast(values.ctypes.data, kind))


class Embedder:
    """Vectors of length 1 for texts, by a GGUF made for embeddings; close() frees it.

    >>> with Embedder("nomic-embed-text.gguf") as embedder:          # doctest: +SKIP
    ...     embedder.embed_documents(["Steve lives in Austin."]) @ embedder.embed_query("where does he live?")

    Longer texts than the model can read are cut at the end. Raises ModelFormatError for a damaged file,
    ModelLoadError for one that is refused or makes no embeddings. Thread-safe; one batch at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_gpu_layers: int = -1,
        n_threads: int = 0,
        is_trusted: bool = False,
    ) -> None:
        load_check.require(path, is_trusted=is_trusted)
        header = read_header(path)
        stated = _stated_pooling(header)
        if stated == _RANK:
            raise ModelLoadError(
                f"model '{os.fspath(path)}' is a reranker; it gives no vectors",
                hint="use a model that was made for embeddings",
            )
        self._model = _PooledModel(path, _chosen_pooling(header, stated), n_gpu_layers, n_threads)
        self._prefixes = _prefixes(header)
        self.dimension = self._model.width
        # Vectors of another file, or cut at another length, cannot be compared with these.
        self.name = f"{_name(header)}/{self.dimension}/{header.file_bytes}"

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything; twice is fine."""
        self._model.close()

    @property
    def pooling(self) -> str:
        """Return how tokens become one vector: mean, cls or last."""
        return {_MEAN: "mean", 2: "cls", _LAST: "last"}.get(self._model.pooling, "none")

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest text that is not cut, the model's own marks included."""
        return self._model.most_tokens

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the text has for this model, its own marks included."""
        vocabulary = self._model.vocabulary
        assert vocabulary is not None
        return len(vocabulary.tokenize(text, framed=True))

    def embed_query(self, text: str) -> Floats:
        """Return the vector (dimension,) of a question."""
        row: Floats = self.embed([self._prefixes.query + text])[0]
        return row

    def embed_documents(self, texts: Sequence[str]) -> Floats:
        """Return the vectors (n_texts, dimension) of what is searched."""
        return self.embed([self._prefixes.document + text for text in texts])

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the vectors (n_texts, dimension) of the texts as they are; zeros for one without a token."""
        return self.embed_tokens([self.tokenize(text) for text in texts])

    def tokenize(self, text: str, *, framed: bool = True) -> array[int]:
        """Return the ids of a text, with the model's own marks around them unless `framed` is false."""
        vocabulary = self._model.vocabulary
        assert vocabulary is not None
        return vocabulary.tokenize(text, framed=framed)

    @property
    def n_vocab(self) -> int:
        """Number of tokens that the model knows."""
        vocabulary = self._model.vocabulary
        assert vocabulary is not None
        return vocabulary.n_tokens

    def embed_tokens(self, texts: Sequence[array[int]]) -> Floats:
        """Return the vectors (n_texts, dimension) of texts given as ids; zeros for one without a token."""
        tokens = [_cut(ids, self._model.most_tokens) for ids in texts]
        out = np.zeros((len(tokens), self.dimension), np.float32)
        filled = [i for i, ids in enumerate(tokens) if ids]
        if filled:
            rows = self._model.rows([tokens[i] for i in filled])
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            out[filled] = rows / np.where(lengths > 0, lengths, 1)
        return out


class Reranker:
    """Relevance of documents to a question, by a GGUF with a classification head; close() frees it.

    Scores are the model's own numbers: higher is more relevant, comparable within one model only. Raises
    ModelLoadError for a model without such a head. Thread-safe; one batch at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_gpu_layers: int = -1,
        n_threads: int = 0,
        is_trusted: bool = False,
    ) -> None:
        load_check.require(path, is_trusted=is_trusted)
        header = read_header(path)
        if not any(tensor.name in _HEADS for tensor in header.tensors):
            raise ModelLoadError(
                f"model '{os.fspath(path)}' is not a reranker: it has no classification head",
                hint="use a model that was made for reranking",
            )
        self._model = _PooledModel(path, _RANK, n_gpu_layers, n_threads)
        self._template = self._model.template(b"rerank")
        self._frame = _frame(self._model)

    def __enter__(self) -> Reranker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything; twice is fine."""
        self._model.close()

    def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document, in their order. Of a pair that is too long the document is cut."""
        return self.counted_scores(query, documents)[0]

    def counted_scores(self, query: str, documents: Sequence[str]) -> tuple[list[float], int]:
        """Return the scores, and how many tokens all pairs have together."""
        if not documents:
            return [], 0
        pairs = [self._pair(query, document) for document in documents]
        rows = self._model.rows(pairs)
        return [float(score) for score in rows[:, 0]], sum(map(len, pairs))

    def _pair(self, query: str, document: str) -> array[int]:
        vocabulary = self._model.vocabulary
        assert vocabulary is not None
        # Only the text around query and document may become control tokens.
        parts = (
            _filled(vocabulary, self._template, query, document)
            if self._template
            else [
                self._frame.begin[:],
                vocabulary.tokenize(query),
                self._frame.between,
                vocabulary.tokenize(document),
                self._frame.end,
            ]
        )
        room = self._model.most_tokens - sum(len(part) for part in parts)
        question, said = parts[1], parts[3]
        if room < 0:
            cut = min(-room, len(said))
            del said[len(said) - cut :]
            room += cut
        if room < 0:
            del question[len(question) + room :]
        return sum(parts[1:], parts[0])


def _frame(model: _PooledModel) -> _Frame:
    """Return the tokens around a pair for cross-encoders without a template, by their kind of vocabulary.

    BERT: [CLS] query [SEP] document [SEP]; XLM-R: <s> query </s></s> document </s>.
    """
    c, vocabulary = llama(), model.vocabulary
    assert vocabulary is not None
    handle = model.vocabulary_address
    separator = int(c.llama_vocab_sep(handle))
    is_bert = c.llama_vocab_type(handle) == _WORD_PIECE
    adds_separator = bool(c.llama_vocab_get_add_sep(handle))
    end = separator if is_bert or vocabulary.eos < 0 else vocabulary.eos
    ends = [end] if adds_separator or c.llama_vocab_get_add_eos(handle) else []
    between = ends if is_bert else [*ends, *([separator] if adds_separator else [])]
    return _Frame(
        array("i", [vocabulary.bos] if vocabulary.adds_bos else []),
        array("i", [token for token in between if token >= 0]),
        array("i", [token for token in ends if token >= 0]),
    )


def _filled(vocabulary: Vocabulary, template: str, query: str, document: str) -> list[array[int]]:
    before, _, rest = template.partition("{query}")
    between, _, after = rest.partition("{document}")
    return [
        vocabulary.tokenize(before, special=True),
        vocabulary.tokenize(query),
        vocabulary.tokenize(between, special=True),
        vocabulary.tokenize(document),
        vocabulary.tokenize(after, special=True),
    ]


def _stated_pooling(header: GGUFHeader) -> int:
    stated = header.metadata.get(f"{header.architecture}.pooling_type", _UNSPECIFIED)
    return int(stated) if isinstance(stated, int) else _UNSPECIFIED


def _chosen_pooling(header: GGUFHeader, stated: int) -> int:
    if stated not in (_UNSPECIFIED, _NONE):
        return _UNSPECIFIED  # llama.cpp takes the file's
    is_causal = header.metadata.get(f"{header.architecture}.attention.causal", True)
    return _LAST if is_causal else _MEAN


def _cut(ids: array[int], most: int) -> array[int]:
    """At most so many ids; the last one, which ends a text, stays."""
    return ids if len(ids) <= most else ids[: most - 1] + ids[-1:]


def _name(header: GGUFHeader) -> str:
    return str(header.metadata.get("general.name") or header.architecture)


def _prefixes(header: GGUFHeader) -> _Prefixes:
    names = f"{header.architecture} {_name(header)}".lower().replace(" ", "-")
    return next((prefixes for word, prefixes in _PREFIXES.items() if word in names), _Prefixes())
