"""Chunks found by what they mean: vectors come and go with their document, fused with words, reranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import ModelError
from shepherd.inference.embedding import Embedder, Reranker
from shepherd.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.retrieval import fused, reranked
from shepherd.memory import Memory
from shepherd.memory.vectors import VectorSettings
from tests import models
from tests.memory.conftest import NOW
from tests.memory.vectors.conftest import Meanings
from tests.postgres import IN_A_FILE


class ByLength:
    """A reranker of the outside world: the shorter the text, the better."""

    def __init__(self) -> None:
        self.failures = 0

    def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        if self.failures:
            raise ModelError("the reranker is away")
        return [-float(len(document)) for document in documents]

    def close(self) -> None:
        pass


@pytest.fixture
def embedder() -> Meanings:
    return Meanings()


@pytest.fixture
def open_memory(database: str, embedder: Meanings) -> Iterator[Callable[..., Memory]]:
    opened: list[Memory] = []

    def open(embedder: object = embedder, **options: object) -> Memory:
        settings = VectorSettings(lambda: embedder, weight=0.5)  # type: ignore[arg-type,return-value]
        memory = Memory(
            database,
            user_id="steve",
            clock=lambda: NOW,
            **{"vectors": settings, **options},  # type: ignore[arg-type]
        )
        opened.append(memory)
        return memory

    yield open
    for memory in opened:
        memory.close()


@pytest.fixture
def meant(open_memory: Callable[..., Memory]) -> Knowledge:
    """Knowledge in a memory with vectors."""
    return Knowledge(open_memory().transactions, "steve", clock=lambda: NOW)


def n_vectors(knowledge: Knowledge) -> int:
    return knowledge.look(
        lambda connection: int(connection.execute("SELECT count(*) FROM chunk_vectors")[0][0]), 0
    )


def orphans(knowledge: Knowledge) -> int:
    sql = "SELECT count(*) FROM chunk_vectors WHERE id NOT IN (SELECT id FROM chunks)"
    return knowledge.look(lambda connection: int(connection.execute(sql)[0][0]), 0)


def test_a_document_is_found_by_words_that_it_does_not_have(meant):
    node = meant.add_node("Pets", source_text="Rex is a hound of five.")
    meant.add_node("Garage", source_text="The automobile needs oil.")

    [best, *_] = meant.search("puppy", part="text")

    assert best.node_id == node.id
    assert best.relevance > 0.3
    assert meant.get_node(node.id).index_state == "embedded"


def test_words_and_vectors_both_count(meant):
    both = meant.add_node("one", source_text="dog harbour")
    meant.add_node("two", source_text="hound garden")
    meant.add_node("three", source_text="harbour garden")

    found = meant.search("puppy harbour", part="text")

    assert found[0].node_id == both.id
    assert all(0.0 <= hit.score <= 1.0 and 0.0 <= hit.relevance <= 1.0 for hit in found)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_chunks_nearest_to_a_vector_come_in_their_order_and_from_one_user(meant, open_memory, embedder):
    dog = meant.add_node("Pets", source_text="hound").id
    both = meant.add_node("Trip", source_text="hound automobile").id
    car = meant.add_node("Garage", source_text="automobile").id
    vector = embedder.embed_query("puppy")

    found = [hit for hit in meant.nearest(vector, 9) if hit.part == "text"]

    assert [hit.node_id for hit in found] == [dog, both, car]
    assert found[0].relevance == pytest.approx(1.0, abs=0.01)
    assert len(meant.nearest(vector, 1)) == 1
    assert meant.nearest(vector, 0) == []
    assert Knowledge(open_memory().transactions, "mallory").nearest(vector) == []


def test_vectors_are_replaced_with_the_text(meant):
    node = meant.add_node("Notes", source_text="dog " * 600)
    before = n_vectors(meant)

    meant.update_node(node.id, source_text="car")

    assert n_vectors(meant) < before
    assert orphans(meant) == 0
    [best, *_] = meant.search("automobile", part="text")
    assert best.text == "car"
    assert meant.get_node(node.id).index_state == "embedded"


def test_vectors_go_with_their_node(meant):
    node = meant.add_node("Notes", source_text="dog")
    other = meant.add_node("Other", source_text="car")
    meant.search("puppy")  # held in memory from now on

    meant.delete_node(node.id)

    assert orphans(meant) == 0
    assert {hit.node_id for hit in meant.search("puppy")} <= {other.id}


def test_an_embedder_that_is_away_costs_the_vectors_and_not_the_document(open_memory, embedder):
    memory = open_memory()
    knowledge = Knowledge(memory.transactions, "steve", clock=lambda: NOW)
    knowledge.add_node("first", source_text="car")
    embedder.failures = 2  # the text, and whether it was the text

    node = knowledge.add_node("Pets", source_text="Rex is a hound of five.")

    assert node.index_state == "chunked"
    assert [hit.node_id for hit in knowledge.search("hound", part="text")][:1] == [node.id]
    assert memory.settle_vectors()
    assert knowledge.get_node(node.id).index_state == "embedded"
    assert knowledge.search("puppy", part="text")[0].node_id == node.id


def test_documents_from_before_the_vectors_get_theirs(database, open_memory):
    with Memory(database, user_id="steve", clock=lambda: NOW) as without:
        knowledge = Knowledge(without.transactions, "steve")
        node = knowledge.add_node("Pets", source_text="Rex is a hound of five.")
        assert knowledge.search("puppy") == []

    memory = open_memory()
    assert memory.settle_vectors()

    knowledge = Knowledge(memory.transactions, "steve")
    assert knowledge.search("puppy", part="text")[0].node_id == node.id


def test_vectors_of_another_embedder_are_made_again(open_memory):
    first = open_memory()
    Knowledge(first.transactions, "steve").add_node("Pets", source_text="Rex is a hound of five.")
    first.close()

    second = open_memory(Meanings(name="another", dimension=32))
    knowledge = Knowledge(second.transactions, "steve")
    assert second.settle_vectors()

    assert knowledge.search("puppy", part="text")[0].title == "Pets"
    models_used = knowledge.look(
        lambda connection: connection.execute("SELECT DISTINCT embedding_model FROM chunks"), []
    )
    assert models_used == [("another",)]


def test_another_users_documents_are_not_near(meant, open_memory):
    other = Knowledge(open_memory().transactions, "anna")
    meant.add_node("mine", source_text="dog")
    before = meant.search("puppy")

    for n in range(10):
        other.add_node(f"hers {n}", source_text="dog hound puppy")

    assert meant.search("puppy") == before
    assert all(hit.title.startswith("hers") for hit in other.search("puppy", 50))


def test_a_second_import_of_the_same_asks_the_embedder_nothing(meant, embedder):
    from shepherd.knowledge.transfer import put

    new = NewNode("Pets", source_text="Rex is a hound.", origin="file:/pets.md", content_hash="1")
    assert put(meant, new)[1] == "added"
    asked = len(embedder.texts)

    assert put(meant, new)[1] == "unchanged"

    assert len(embedder.texts) == asked
    assert n_vectors(meant) == 2


def test_candidates_for_a_prompt_are_reranked(open_memory):
    reranker = ByLength()
    knowledge = Knowledge(open_memory(vectors=None, reranker=reranker).transactions, "steve")
    for text in ("walrus harbour walrus", "walrus", "walrus harbour in the long winter"):
        knowledge.add_node("n", source_text=text)

    by_length = [hit.text for hit in knowledge.retrieve("walrus harbour", min_relevance=0.0)]
    reranker.failures = 1
    as_found = [hit.text for hit in knowledge.retrieve("walrus harbour", min_relevance=0.0)]

    assert by_length == sorted(by_length, key=len)
    assert as_found == [hit.text for hit in knowledge.search("walrus harbour")]
    assert sorted(by_length) == sorted(as_found)


hits = st.lists(
    st.tuples(st.integers(1, 30), st.floats(0, 20), st.floats(0, 20), st.floats(0, 1)),
    max_size=12,
    unique_by=lambda hit: hit[0],
)
cosines = st.dictionaries(st.integers(1, 30), st.floats(-1, 1), max_size=12)


@given(hits, cosines, st.floats(-1, 1), st.floats(0, 1), st.integers(0, 8), st.floats(0, 1))
def test_whatever_both_say_the_ranking_keeps_its_rules(words, near, mean, weight, limit, least):
    found = fused(words, near, mean, weight=weight, limit=limit, min_relevance=least)

    assert len(found) <= limit
    assert len({hit[0] for hit in found}) == len(found)
    assert {hit[0] for hit in found} <= {hit[0] for hit in words} | near.keys()
    assert all(-1e-9 <= hit[2] <= 1 + 1e-9 and least <= hit[3] <= 1 for hit in found)
    assert found == sorted(found, key=lambda hit: (-hit[2], -hit[0]))


def test_scores_of_both_are_weighed():
    found = fused(
        [(1, 8.0, 8.0, 0.5), (2, 4.0, 4.0, 0.4)],
        {1: 0.2, 2: 0.6, 3: 1.0},
        0.0,
        weight=0.25,
        limit=10,
        min_relevance=0.0,
    )

    assert [(hit[0], pytest.approx(hit[2]), pytest.approx(hit[3])) for hit in found] == [
        (1, 0.75, 0.5),
        (2, 0.75 * 0.5 + 0.25 * 0.5, 0.6),
        (3, 0.25, 1.0),
    ]


def test_a_chunk_needs_a_word_of_its_own_or_a_cosine_above_the_mean():
    # Chunks 2 to 5 have none of the words: their scores come from the other chunks of their node.
    words = [(1, 8.0, 8.0, 0.9), *((number, 0.0, 4.0, 0.8) for number in (2, 3, 4, 5))]
    cosines = {1: 0.1, 2: 0.2, 3: 0.5, 4: 0.6, 6: 0.3, 7: 0.7}

    found = fused(words, cosines, 0.5, weight=0.25, limit=10, min_relevance=0.0)

    assert sorted(hit[0] for hit in found) == [1, 4, 7]


# ---- by real models, tiny ones


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder") / "mean.gguf"
    models.bert(path)
    return path


@IN_A_FILE
def test_a_real_encoder_puts_a_text_nearest_to_itself(encoder, open_memory):
    knowledge = Knowledge(open_memory(Embedder(encoder)).transactions, "steve")
    texts = ["my dog is called rex", "i live in texas", "the quick brown fox jumps over the lazy dog"]
    for n, text in enumerate(texts):
        knowledge.add_node(f"node {n}", source_text=text)

    for text in texts:
        [best, *_] = knowledge.search(text, part="text")
        assert best.text == text
    assert {node.index_state for node in knowledge.list_nodes()} == {"embedded"}
    blob = knowledge.look(
        lambda connection: connection.execute("SELECT vector FROM chunk_vectors ORDER BY id LIMIT 1")[0][0],
        b"",
    )
    assert np.linalg.norm(np.frombuffer(blob, "<f2").astype(np.float32)) == pytest.approx(1.0, abs=1e-2)


def test_a_real_cross_encoder_orders_what_was_found(tmp_path, knowledge):
    path = tmp_path / "rank.gguf"
    models.bert(path, pooling=gguf.PoolingType.RANK, n_cls_out=1)
    for text in ("dog in texas", "the dog jumps", "a lazy dog lives in texas"):
        knowledge.add_node("n", source_text=text)
    found = knowledge.search("dog", part="text")

    with Reranker(path) as reranker:
        scores = dict(
            zip((hit.id for hit in found), reranker.scores("dog", [h.text for h in found]), strict=True)
        )
        ordered = reranked(reranker, "dog", found)

    assert [hit.id for hit in ordered] == sorted(scores, key=lambda id: -scores[id])
    assert (ordered[0].score, ordered[-1].score) == (1.0, 0.0)
    assert {hit.relevance for hit in ordered} == {hit.relevance for hit in found}
