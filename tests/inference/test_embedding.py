"""Vectors and relevance by tiny real encoders: pooled as the file says, equal in batches and alone."""

from __future__ import annotations

import gc
import threading
from array import array
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
from llama_cpp import Llama

from shepherd.errors import ModelError, ModelFormatError, ModelLoadError, UsageError
from shepherd.inference import load_check
from shepherd.inference.binding import llama
from shepherd.inference.embedding import (
    Embedder,
    Reranker,
    _chosen_pooling,
    _cut,
    _PooledModel,
    _stated_pooling,
)
from shepherd.inference.gguf import GGUFHeader
from tests import models

TEXTS = [
    "my dog is called rex",
    "the quick brown fox jumps over the lazy dog",
    "i live in texas",
    "",
    "hello world, this is a test of a very small model",
    "Ω 東京 \x00 [SEP] [CLS]",
]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")

    def build(file, **options):
        path = folder / f"{file}.gguf"
        if not path.exists():
            models.bert(path, **options)
        return path

    return build


@pytest.fixture(scope="module")
def mean_model(build):
    return build("mean")


@pytest.fixture(scope="module")
def rank_model(build):
    return build("rank", pooling=gguf.PoolingType.RANK, n_cls_out=1)


def test_vectors_have_length_one_and_the_width_of_the_model(mean_model):
    with Embedder(mean_model) as embedder:
        vectors = embedder.embed_documents(TEXTS)

    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert embedder.dimension == 32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_a_batch_gives_what_each_text_gives_alone(mean_model):
    with Embedder(mean_model) as embedder:
        together = embedder.embed(TEXTS * 9)
        alone = np.stack([embedder.embed([text])[0] for text in TEXTS] * 9)

    # Matrix products of another size add up in another order: 2e-5 seen, 1e-3 with flash attention.
    assert np.allclose(together, alone, atol=1e-4)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (gguf.PoolingType.MEAN, "mean"),
        (gguf.PoolingType.CLS, "cls"),
        (gguf.PoolingType.LAST, "last"),
        (gguf.PoolingType.NONE, "mean"),
        (None, "mean"),
    ],
)
def test_tokens_are_pooled_as_the_file_says_and_an_encoders_as_their_mean(build, pooling, expected):
    path = build(f"pooling-{pooling}", pooling=pooling)

    with Embedder(path) as embedder:
        found = embedder.embed(TEXTS[:1])[0]
        tokens = embedder._model.vocabulary.tokenize(TEXTS[0], framed=True)
        name = embedder.pooling
    # The peer gives a row per token when nothing is pooled.
    peer = Llama(str(path), embedding=True, pooling_type=0, n_ctx=64, verbose=False)
    rows = np.asarray(peer.embed(TEXTS[0]))
    peer.close()

    assert name == expected
    assert len(rows) == len(tokens)
    row = {"mean": rows.mean(axis=0), "cls": rows[0], "last": rows[-1]}[expected]
    assert np.allclose(found, row / np.linalg.norm(row), atol=1e-4)


def test_a_causal_model_that_does_not_say_gives_its_last_token(tmp_path):
    models.llama(tmp_path / "causal.gguf")

    with Embedder(tmp_path / "causal.gguf") as embedder:
        vectors = embedder.embed([*TEXTS, *TEXTS])
        alone = embedder.embed(TEXTS[:1])

    assert embedder.pooling == "last"
    # A generative model of bytes frames nothing: no text, no token, no direction.
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0, 1, 1] * 2, atol=1e-5)
    assert np.allclose(vectors[0], alone[0], atol=1e-4)


def test_text_beyond_the_models_positions_is_cut(mean_model):
    with Embedder(mean_model) as embedder:
        vectors = embedder.embed(["dog " * 10_000, "dog " * 62, "dog " * 61])

    assert np.allclose(vectors[0], vectors[1], atol=1e-4)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-3)


def test_text_that_spells_a_control_token_does_not_become_one(mean_model):
    with Embedder(mean_model) as embedder:
        ids = embedder._model.vocabulary.tokenize("[SEP]", framed=True)

    assert ids[0] == 2
    assert ids.count(3) == 1


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("EmbeddingGemma 300M", "task: search result | query: ", "title: none | text: "),
        ("E5 large v2", "query: ", "passage: "),
        ("mxbai-embed-large-v1", "Represent this sentence for searching relevant passages: ", ""),
        ("all-MiniLM-L6-v2", "", ""),
    ],
)
def test_question_and_document_get_the_prefixes_of_their_model(build, name, query, passage):
    with Embedder(build(name.partition(" ")[0], name=name)) as embedder:
        question, document = embedder.embed_query("dog"), embedder.embed_documents(["dog"])[0]
        expected = embedder.embed([f"{query}dog", f"{passage}dog"])

    assert np.allclose(question, expected[0], atol=1e-4)
    assert np.allclose(document, expected[1], atol=1e-4)
    assert name in embedder.name


def test_closed_model_says_so_and_closing_twice_is_fine(mean_model, rank_model):
    embedder, reranker = Embedder(mean_model), Reranker(rank_model)
    for one in (embedder, reranker):
        one.close()
        one.close()

    with pytest.raises(UsageError, match="closed"):
        embedder.embed(["dog"])
    with pytest.raises(UsageError, match="closed"):
        reranker.scores("dog", ["texas"])


def test_model_that_nobody_closes_is_freed(mean_model):
    embedder = Embedder(mean_model)
    handles = embedder._model._handles

    del embedder
    gc.collect()

    assert handles.context is None
    assert handles.model is None


def test_closing_waits_for_the_batch_of_another_thread(mean_model):
    embedder = Embedder(mean_model)
    outcomes = []

    def work():
        try:
            while True:
                outcomes.append(embedder.embed(TEXTS))
        except UsageError:
            return

    thread = threading.Thread(target=work)
    thread.start()
    while not outcomes:
        pass
    embedder.close()
    thread.join()

    assert all(np.allclose(outcomes[0], one, atol=1e-4) for one in outcomes)


def test_damaged_file_and_wrong_kind_are_refused(mean_model, rank_model, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(mean_model.read_bytes()[:2000])

    with pytest.raises(ModelFormatError, match="more than the file has room for"):
        Embedder(cut)
    with pytest.raises(ModelLoadError, match="is a reranker"):
        Embedder(rank_model)
    with pytest.raises(ModelLoadError, match="not a reranker"):
        Reranker(mean_model)


def test_reranker_scores_are_the_heads_and_do_not_depend_on_the_batch(rank_model):
    query = "what is the name of the dog?"
    with Reranker(rank_model) as reranker:
        together = reranker.scores(query, TEXTS * 5)
        alone = [reranker.scores(query, [text])[0] for text in TEXTS] * 5
        nothing = reranker.scores(query, [])

    assert np.allclose(together, alone, atol=1e-4)
    assert len(set(np.round(together[:3], 4))) == 3
    assert nothing == []


def test_reranker_with_several_labels_reads_no_more_than_there_are(build):
    path = build("labels", pooling=gguf.PoolingType.RANK, n_cls_out=3)

    with Reranker(path) as reranker:
        scores = reranker.scores("dog", TEXTS)

    assert reranker._model.width == 3
    assert np.isfinite(scores).all()


def test_pair_is_framed_as_cross_encoders_know_it_and_cut_at_the_document(rank_model):
    with Reranker(rank_model) as reranker:
        vocabulary = reranker._model.vocabulary
        pair = reranker._pair("dog", "texas")
        long = reranker._pair("dog", "texas " * 500)
        both_long = reranker._pair("dog " * 500, "texas " * 500)
        scores = reranker.scores("dog " * 500, ["texas " * 500])

    dog, texas = vocabulary_ids(vocabulary, "dog"), vocabulary_ids(vocabulary, "texas")
    assert list(pair) == [2, *dog, 3, *texas, 3]
    assert len(long) == len(both_long) == 64
    assert list(long[:3]) == [2, *dog, 3]
    assert long[-1] == both_long[-1] == 3
    assert len(scores) == 1


def vocabulary_ids(vocabulary, word):
    # The vocabulary is gone with its model; the ids of a word are known from the file's own order.
    words = sorted({one.strip(".,?!") for one in models.SENTENCES.split()})
    return [5 + words.index(word)]


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([], []),
        ([10], [[0]]),
        ([11], [[0]]),
        ([5, 3, 4, 3, 5], [[1, 3, 2], [0, 4]]),
        ([4, 3, 4], [[1, 0], [2]]),
        ([0] * 17, [list(range(16)), [16]]),
    ],
)
def test_texts_of_one_length_share_a_batch_that_is_filled_to_its_limit(sizes, batches):
    texts = [array("i", [0] * size) for size in sizes]

    assert list(_PooledModel._batches(SimpleNamespace(batch_tokens=10), texts)) == batches


# ---- parts of it


def header_of(**metadata):
    names = {f"bert.{key.replace('__', '.')}": value for key, value in metadata.items()}
    return GGUFHeader(3, {"general.architecture": "bert", **names}, {}, (), 0)


@pytest.mark.parametrize(
    ("metadata", "stated", "chosen"),
    [
        ({"pooling_type": 1}, 1, -1),  # llama.cpp takes the file's
        ({"pooling_type": 3}, 3, -1),
        ({"pooling_type": 0}, 0, 3),
        ({"pooling_type": 0, "attention__causal": False}, 0, 1),
        ({"attention__causal": True}, -1, 3),
        ({"attention__causal": False}, -1, 1),
        ({"pooling_type": "mean"}, -1, 3),
    ],
)
def test_pooling_is_the_files_or_that_of_its_kind(metadata, stated, chosen):
    header = header_of(**metadata)

    assert _stated_pooling(header) == stated
    assert _chosen_pooling(header, stated) == chosen


@pytest.mark.parametrize(("n", "expected"), [(3, [0, 1, 2]), (4, [0, 1, 2, 3]), (6, [0, 1, 2, 5])])
def test_the_last_id_stays_when_a_text_is_cut(n, expected):
    assert list(_cut(array("i", range(n)), 4)) == expected


def test_a_model_is_named_by_its_file_width_and_size(mean_model):
    with Embedder(mean_model, n_threads=1) as embedder:
        assert embedder.name == f"tiny-encoder/32/{mean_model.stat().st_size}"
        assert (embedder.pooling, embedder.most_tokens) == ("mean", 64)
        assert embedder._model.batch_tokens == 512
        framed, plain = embedder.tokenize("dog"), embedder.tokenize("dog", framed=False)
        assert list(framed) == [2, *plain, 3]
        assert embedder.count_tokens("dog") == 3
        assert 3 < embedder.n_vocab == embedder._model.vocabulary.n_tokens
        parameters = []
        make = embedder._model._c.llama_init_from_model

        def made(model, given):
            parameters.append(given)
            return make(model, given)

        for n_threads in (0, 3):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(embedder._model._c, "llama_init_from_model", made)
                embedder._model._c.llama_free(embedder._model._make_context(1, n_threads))
    usual = llama().llama_context_default_params().n_threads
    assert [(one.n_threads, one.n_threads_batch) for one in parameters] == [(usual, usual), (3, 3)]
    assert {(one.n_ctx, one.n_batch, one.n_ubatch, one.n_seq_max) for one in parameters} == {
        (512, 512, 512, 16)
    }


def test_models_are_tried_unless_they_are_trusted(mean_model, rank_model, monkeypatch):
    required = []
    monkeypatch.setattr(
        load_check, "require", lambda path, *, is_trusted: required.append((path, is_trusted))
    )
    for make, path in ((Embedder, mean_model), (Reranker, rank_model)):
        make(path, n_threads=1).close()
        make(path, n_threads=1, is_trusted=True).close()

    assert required == [(path, trusted) for path in (mean_model, rank_model) for trusted in (False, True)]


def test_pairs_and_their_tokens_are_counted(rank_model):
    with Reranker(rank_model) as reranker:
        scores, n_tokens = reranker.counted_scores("dog", ["texas", "dog texas"])
        assert reranker.counted_scores("dog", []) == ([], 0)

    assert len(scores) == 2
    assert n_tokens == 5 + 6


def test_a_template_frames_a_pair_and_only_it_says_control_tokens(rank_model):
    with Reranker(rank_model) as reranker:
        reranker._template = "[CLS]{query}[SEP]{document}[SEP]"
        framed = list(reranker._pair("dog [SEP]", "texas"))
        reranker._template = ""
        assert framed == list(reranker._pair("dog [SEP]", "texas"))

    assert framed.count(3) == 2


def test_a_text_without_a_number_is_an_error(mean_model, monkeypatch):
    with Embedder(mean_model) as embedder:
        monkeypatch.setattr(
            _PooledModel, "_compute", lambda self, texts: np.full((len(texts), self.width), np.nan)
        )
        with pytest.raises(ModelError, match="gives no numbers for a text"):
            embedder.embed(["dog"])
        assert not embedder.embed_tokens([array("i")]).any()


def test_context_and_model_are_freed_once_and_in_this_order(mean_model, rank_model, monkeypatch):
    freed = []
    for name in ("llama_free", "llama_model_free"):
        free = getattr(llama(), name)
        monkeypatch.setattr(llama(), name, lambda one, free=free, name=name: freed.append(name) or free(one))
    Embedder(mean_model, n_threads=1).close()
    with Reranker(rank_model, n_threads=1) as reranker:
        pass
    reranker.close()
    assert freed == ["llama_free", "llama_model_free"] * 2

    monkeypatch.setattr(llama(), "llama_init_from_model", lambda *given: None)
    with pytest.raises(ModelLoadError, match="no context for model"):
        Embedder(mean_model, n_threads=1)
    assert freed[4:] == ["llama_model_free"]


@pytest.mark.parametrize(("n_ctx", "most", "batch"), [(514, 514, 528), (528, 528, 528), (2049, 2048, 2048)])
def test_a_text_has_at_most_2048_tokens_and_a_batch_room_for_one(build, n_ctx, most, batch):
    with Embedder(build(f"wide-{n_ctx}", n_ctx=n_ctx), n_threads=1) as embedder:
        assert embedder.most_tokens == most
        assert embedder._model.batch_tokens == batch
        ids = embedder.tokenize("dog " * 3000)
        assert len(ids) > most
        assert embedder.embed_tokens([ids]).any()
