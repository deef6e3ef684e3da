"""Vectors of memories on both engines: made in the background, found by meaning, gone with their memory."""

from __future__ import annotations

import numpy as np
import pytest

from shepherd.errors import ModelError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, Turn
from shepherd.memory.corpora import MEMORIES
from shepherd.memory.vectors import VectorSettings
from shepherd.memory.vectors.held import HeldVectors
from tests.postgres import IN_A_FILE, ON_A_SERVER

NOW = 1_700_000_000.0
COUNTED_FROM_THE_BEGINNING = "UPDATE meta SET value = 0 WHERE key = 'recalls_counted_since'"


def test_memory_without_a_word_of_the_question_is_found_by_meaning(open_memory, database):
    memory = open_memory()
    wanted = memory.store_memory("Rex", "Steve puppy")
    for number in range(20):
        memory.store_memory(f"what is entry {number}", f"a line about thing{number}")
    assert memory.settle_vectors()

    by_meaning = memory.search("hound", 1)
    injected = memory.recall("hound", "steve")
    with Memory(database, user_id="steve", clock=lambda: NOW) as plain:
        by_words = plain.search("hound", 1)

    assert [hit.id for hit in by_meaning] == [wanted]
    assert 0.0 < by_meaning[0].relevance <= 1.0
    assert "Steve puppy" in injected.tail
    assert by_words == []


def test_words_count_beside_vectors_and_ties_go_to_the_newer(open_memory):
    memory = open_memory()
    both = memory.store_memory("the dog is called Rex", "")
    meaning = memory.store_memory("the puppy is called Rex", "")
    memory.store_memory("it rains today", "")
    assert memory.settle_vectors()

    found = memory.search("the dog", 3)

    assert [hit.id for hit in found][:2] == [both, meaning]
    assert found[0].score == pytest.approx(1.0)
    assert all(0.0 <= hit.score <= 1.0 for hit in found)


def test_vectors_of_one_user_do_not_move_what_another_finds(open_memory):
    memory = open_memory()
    for word in ("puppy", "rain", "tax", "guitar"):
        memory.store_memory(f"about the {word}", f"it is {word}", "anna")
    assert memory.settle_vectors()
    before = memory.search("hound", 5, "anna")

    for number in range(40):
        memory.store_memory(f"dog number {number}", "a hound and a puppy", "bob")
    assert memory.settle_vectors()
    after = memory.search("hound", 5, "anna")

    assert before == after
    assert {hit.id for hit in after}.isdisjoint(hit.id for hit in memory.search("hound", 50, "bob"))


def test_edited_memory_is_found_by_what_it_says_now(open_memory):
    memory = open_memory()
    one = memory.store_memory("my pet", "it is a dog")
    memory.store_memory("my work", "it is about taxes")
    assert memory.settle_vectors()
    assert memory.search("puppy", 1)[0].id == one

    memory.edit_memory(one, answer="it is a car")
    assert memory.settle_vectors()

    assert memory.search("automobile", 1)[0].id == one
    assert memory.search("puppy", 1)[0].relevance < 0.3
    assert memory.count_vectors() == (2, 2)


def test_vector_of_a_text_that_has_changed_does_not_replace_the_new_one(open_memory):
    memory = open_memory()
    one = memory.store_memory("my pet", "it is a dog")
    assert memory.settle_vectors()
    memory.edit_memory(one, answer="it is a car")
    assert memory.settle_vectors()

    table = memory._vectors._table
    late = (one, "hash of the dog", memory._vectors.embed_query("dog"))
    memory._store.write("steve", lambda connection: table.put(connection, [late]))

    assert memory._store.read(lambda connection: table.pending(connection, 10)) == []
    assert memory.search("automobile", 1)[0].id == one
    assert memory.count_vectors() == (1, 1)


def test_vector_goes_with_its_memory(open_memory):
    memory = open_memory()
    one = memory.store_memory("my pet", "it is a dog")
    memory.store_memory("my work", "it is about taxes")
    assert memory.settle_vectors()
    memory.search("puppy", 1)

    memory.delete_memory(one)

    assert memory.count_vectors() == (1, 1)
    assert one not in [hit.id for hit in memory.search("puppy", 5)]


def test_what_was_stored_without_vectors_gets_them_later(open_memory, database, embedder):
    with Memory(database, user_id="steve", clock=lambda: NOW) as plain:
        ids = [plain.store_memory(f"what is thing {n}", f"it is a word{n}") for n in range(70)]
        plain.store_memory("who is Rex", "a dog", "anna")

    memory = open_memory()
    assert memory.settle_vectors()

    assert memory.count_vectors() == (len(ids), len(ids))
    assert memory.count_vectors("anna") == (1, 1)
    assert len(embedder.texts) == 71


def test_restart_goes_on_where_it_was(open_memory, embedder):
    memory = open_memory()
    for number in range(40):
        memory.store_memory(f"what is thing {number}", f"it is a word{number}")
    assert memory.settle_vectors()
    memory.close()
    done = len(embedder.texts)

    again = open_memory()
    again.store_memory("one more", "thing")
    assert again.settle_vectors()

    assert embedder.is_closed
    assert len(embedder.texts) == done + 1


def test_another_embedder_makes_all_vectors_again_and_does_not_use_the_old(open_memory, embedder):
    memory = open_memory()
    memory.store_memory("my pet", "it is a dog")
    assert memory.settle_vectors()
    memory.close()

    other = type(embedder)(name="other", dimension=32)
    memory = open_memory(other)
    assert memory.settle_vectors()

    assert len(other.texts) == 1
    assert memory.search("puppy", 1)[0].answer == "it is a dog"


def test_reader_with_another_embedder_searches_words(open_memory, embedder, database):
    memory = open_memory()
    memory.store_memory("my pet", "it is a dog")
    assert memory.settle_vectors()
    memory.close()
    settings = VectorSettings(lambda: type(embedder)(name="other"))

    with Memory(database, user_id="steve", clock=lambda: NOW, read_only=True, vectors=settings) as reading:
        assert reading.search("hound", 1) == []
        assert len(reading.search("pet", 1)) == 1


def test_embedder_that_fails_costs_its_part_and_not_the_answer(open_memory, embedder, caplog):
    embedder.failures = 10**6
    memory = open_memory()
    memory.store_memory("my pet", "it is a dog")

    found = memory.search("pet", 1)
    with pytest.raises(ModelError, match="away"):
        memory.settle_vectors()

    assert [hit.answer for hit in found] == ["it is a dog"]
    embedder.failures = 0
    assert memory.settle_vectors()
    assert memory.count_vectors() == (1, 1)
    assert any("the server of embeddings is away" in record.message for record in caplog.records)
    assert not any("my pet" in record.getMessage() for record in caplog.records)


def test_text_that_is_too_long_for_the_embedder_is_found_by_its_beginning(open_memory, embedder, caplog):
    embedder.longest = 300
    memory = open_memory()
    memory.store_memory("my work", "it is about taxes")
    long = memory.store_memory("a dog", "hound puppy " * 20 + "word " * 500)
    memory.store_memory("my car", "it is red", "anna")

    assert memory.settle_vectors()

    assert memory.count_vectors() == (2, 2)
    assert memory.count_vectors("anna") == (1, 1)
    assert memory.search("puppy", 1)[0].id == long
    assert not any("no vectors for" in record.getMessage() for record in caplog.records)


def test_text_that_is_refused_as_a_whole_keeps_no_other_from_its_vector(open_memory, embedder):
    embedder.refused = "§"
    memory = open_memory(relevance_threshold=0.02)
    odd = memory.store_memory("§ my pet", "§§ it is a dog")
    pet = memory.store_memory("my cat", "is a hound")
    for number in range(40):
        memory.store_memory(f"weather {number}", f"rain{number}")

    assert memory.settle_vectors()
    found = memory.search("puppy", 50)
    with_words = memory.search("the dog", 50)

    assert found[0].id == pet
    assert odd not in [hit.id for hit in found]
    assert odd in [hit.id for hit in with_words]
    memory.edit_memory(odd, question="my pet", answer="it is a dog")
    assert memory.settle_vectors()
    assert odd in [hit.id for hit in memory.search("puppy", 2)]


def test_chunk_that_is_refused_keeps_no_other_from_its_vector(open_memory, embedder):
    embedder.refused = "§"
    memory = open_memory()
    knowledge = Knowledge(memory.transactions, "steve")

    knowledge.add_node("odd", source_text="§ § §")
    knowledge.add_node("pets", source_text="a dog and a hound")
    knowledge.add_node("weather", source_text="rain and wind")

    assert memory.settle_vectors()
    assert knowledge.search("puppy", 1)[0].title == "pets"
    assert "odd" not in {hit.title for hit in knowledge.search("puppy", 10) if hit.part == "text"}


def test_questions_have_vectors_while_the_background_waits(open_memory, embedder):
    memory = open_memory()
    wanted = memory.store_memory("Rex", "Steve puppy")
    assert memory.settle_vectors()
    embed_documents = embedder.embed_documents
    embedder.embed_documents = fails
    memory.store_memory("later", "thing")
    with pytest.raises(ModelError, match="documents"):
        memory.settle_vectors()

    assert [hit.id for hit in memory.search("hound", 1)] == [wanted]
    embedder.embed_documents = embed_documents
    assert memory.settle_vectors()


def test_question_that_is_too_long_is_asked_by_its_beginning(open_memory, embedder):
    embedder.longest = 600
    memory = open_memory()
    wanted = memory.store_memory("Rex", "Steve puppy")
    assert memory.settle_vectors()

    assert memory.search("hound " * 200, 1)[0].id == wanted
    assert memory.search("hound", 1)[0].id == wanted


def test_user_without_knowledge_finds_none_beside_others(open_memory):
    memory = open_memory()
    memory.store_memory("my pet", "it is a dog")
    Knowledge(memory.transactions, "anna").add_node("pets", source_text="a dog and a hound")
    assert memory.settle_vectors()
    knowledge = Knowledge(memory.transactions, "steve")

    assert knowledge.search("puppy") == []
    assert knowledge.retrieve("puppy") == []
    knowledge.add_node("cats", source_text="a puppy and a cat")
    assert memory.settle_vectors()
    assert [hit.title for hit in knowledge.search("hound", 1)] == ["cats"]


def test_running_conversation_does_not_crowd_out_what_was_told_before(open_memory):
    memory = open_memory(relevance_threshold=0.0)
    old = memory.store_memory("garden dog", "hound puppy", session="then")
    for number in range(20):
        memory.store_memory(f"weather {number}", f"rain{number}", session="then")
    for number in range(150):
        memory.store_memory(f"question {number} about the garden dog", f"answer {number}", session="now")
    assert memory.settle_vectors()

    for question in ("what about the garden dog", "puppy"):
        assert memory.recall(question, except_session="now").results[0].id == old


def test_memory_that_changes_while_its_vector_is_made_gets_that_of_its_new_text(open_memory, embedder):
    memory = open_memory()
    edits = []

    def edit():
        if not edits:
            edits.append(memory.edit_memory(edited, answer="it is a car"))

    memory.store_memory("my work", "it is about taxes")
    assert memory.settle_vectors()
    embedder.before = edit
    edited = memory._store.add_memories("steve", [_new("my pet", "it is a dog")])[0][0]
    assert memory.settle_vectors()

    assert edits == [True]
    assert memory.count_vectors() == (2, 2)
    assert [text for text in embedder.texts if text.startswith("my pet")] == [
        "my pet\nit is a dog",
        "my pet\nit is a car",
    ]
    assert memory.search("automobile", 1)[0].id == edited


def test_conversation_that_is_in_front_of_the_model_stays_out(open_memory):
    memory = open_memory(relevance_threshold=0.02)
    here = memory.store_memory("my pet", "it is a dog", session="now")
    old = memory.store_memory("the hound", "of the neighbour", session="then")
    for number in range(10):
        memory.store_memory(f"weather {number}", f"rain{number}", session="then")
    assert memory.settle_vectors()

    found = [hit.id for hit in memory.recall("puppy", except_session="now").results]

    assert found[0] == old
    assert here not in found


def test_question_that_was_asked_often_takes_one_place_among_vectors(open_memory):
    memory = open_memory(relevance_threshold=0.0)
    wanted = memory.archive_turn(Turn("My dog is called Rex", "Noted."))
    for number in range(4):
        memory.archive_turn(Turn("what about the puppy", f"I am not sure {number}", session=f"s{number}"))
    assert memory.settle_vectors()

    found = memory.recall("what about the puppy?").results

    assert [result.question for result in found].count("what about the puppy") == 1
    assert wanted in [result.id for result in found]
    assert len(memory.search("what about the puppy?", 10)) == 5


def test_no_results_need_no_embedder(open_memory, embedder):
    memory = open_memory(max_results=0)
    memory.set_fact("name", "Steve")

    assert memory.recall("puppy").results == ()
    assert memory.search("puppy", 0) == []
    assert embedder.calls == 0


def test_recalled_by_vectors_counts_as_recalled(open_memory):
    memory = open_memory(relevance_threshold=0.02)
    recalled = memory.store_memory("my pet", "it is a dog", timestamp=NOW - 200 * 86_400)
    never = memory.store_memory("the weather", "it rains", timestamp=NOW - 200 * 86_400)
    assert memory.settle_vectors()

    assert [hit.id for hit in memory.recall("puppy").results] == [recalled]
    memory.set_fact("name", "Steve")

    memory._store.write("steve", lambda connection: connection.execute(COUNTED_FROM_THE_BEGINNING))
    left = [finding.ids for finding in memory.audit() if finding.kind == "never-recalled"]
    assert left == [(never,)]


@IN_A_FILE
def test_matrix_in_memory_follows_other_processes_and_the_file_itself_answers_the_same(
    open_memory, database, engine
):
    memory = open_memory()
    other = open_memory()
    rng = np.random.default_rng(5)
    ids = []
    for number in range(60):
        writer = (memory, other)[number % 2]
        ids.append(writer.store_memory(f"thing {number}", f"word{rng.integers(20)} word{rng.integers(20)}"))
        if number % 5 == 4:
            writer.delete_memory(ids[int(rng.integers(len(ids)))])
        if number % 7 == 6:
            writer.edit_memory(ids[-1], answer=f"word{rng.integers(20)} and more")
        assert memory.settle_vectors()
        table = memory._vectors._table
        query = memory._vectors.embed_query(f"word{rng.integers(20)}")
        held = memory._vectors._nearest("steve", query, ids[:3], 10)
        kept, table._held = table._held, HeldVectors(MEMORIES, 0)
        read = memory._vectors._nearest("steve", query, ids[:3], 10)
        table._held = kept
        if number % 10 == 9:
            kept.forget()

        assert [near.row for near in held.rows] == [near.row for near in read.rows]
        assert np.allclose([row.cosine for row in held.rows], [row.cosine for row in read.rows], atol=1e-6)
        assert held.mean == pytest.approx(read.mean, abs=1e-6)


@ON_A_SERVER
def test_both_engines_find_the_same(open_memory, embedder, tmp_path, engine):
    settings = VectorSettings(type(embedder), weight=0.5)
    on_a_server = open_memory()
    with Memory(tmp_path / "m.db", user_id="steve", clock=lambda: NOW, vectors=settings) as in_a_file:
        for memory in (on_a_server, in_a_file):
            for number in range(50):
                memory.store_memory(f"thing {number}", f"word{number % 7} of the dog word{number % 5}")
            assert memory.settle_vectors()

        for question in ("hound", "word3 puppy", "thing 4", "nothing of it"):
            ours, theirs = in_a_file.search(question, 10), on_a_server.search(question, 10)
            # Half precision in the file, single on the server.
            assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=2e-3)


def fails(texts):
    raise ModelError("no documents today")


def _new(question, answer):
    from shepherd.memory.records import NewMemory

    return NewMemory(question, answer, int(NOW))
