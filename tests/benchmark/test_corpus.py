"""Generated memories: the same every time, each user's apart, questions that some memory answers."""

from __future__ import annotations

from shepherd.benchmark import corpus


def test_the_same_numbers_give_the_same_data():
    first, again, other = corpus.build(300, 7), corpus.build(300, 7), corpus.build(301, 7)

    assert first.digest == again.digest != other.digest
    assert first.questions == again.questions
    assert list(first.memories) == list(again.memories)


def test_memories_are_in_the_order_of_time_and_of_the_users_asked_for():
    memories = corpus.build(300, 7).memories

    times = [memory.timestamp for memory in memories]
    assert times == sorted(times)
    assert {memory.user for memory in memories} == set(range(7))
    assert [memories.user_of(i) for i in range(300)] == [memory.user for memory in memories]
    assert memories[10:12] == [memories[10], memories[11]]
    assert memories[-1] == memories[299]


def test_questions_share_words_with_a_memory_of_their_user():
    data = corpus.build(300, 7, 20)

    said: dict[int, set[str]] = {}
    for memory in data.memories:
        said.setdefault(memory.user, set()).update(memory.question_terms, memory.answer_terms)
    assert len(data.questions) == 20
    assert all(said[user] & set(words) for user, words in data.questions)


def test_three_tenths_of_the_words_of_a_memory_are_its_question():
    for memory in corpus.build(50, 3).memories:
        n_question, n_answer = len(memory.question.split()), len(memory.answer.split())

        assert 20 <= n_question + n_answer <= 60
        assert n_question == (n_question + n_answer) * 3 // 10


def test_three_quarters_of_the_words_of_questions_are_those_of_one_memory():
    data = corpus.build(300, 7)
    said: dict[int, list[set[str]]] = {}
    for memory in data.memories:
        said.setdefault(memory.user, []).append({*memory.question_terms, *memory.answer_terms})

    shared = [max(len(terms & set(words)) for terms in said[user]) for user, words in data.questions]
    n_words = [len(words) for _, words in data.questions]

    assert {3, 4, 5, 6} == set(n_words)
    assert 0.7 < sum(shared) / sum(n_words) < 0.85


def test_the_data_stays_that_of_earlier_figures():
    assert corpus.build(300, 7, 20).digest == "eaedd454be7f112a"
