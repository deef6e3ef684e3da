"""What a memory's text and place tell ranking."""

from __future__ import annotations

from pathlib import Path

import pytest

from shepherd._native.rank import ASSISTANT_ANSWER, ASSISTANT_QUESTION, INSTRUCTS, PREFERS, key
from shepherd._native.store import Connection
from shepherd._native.text import terms
from shepherd.memory import Memory, Turn
from shepherd.memory.discourse import (
    ASKS_LAST,
    ASKS_NOT,
    ASKS_ONLY,
    PAUSE_S,
    Neighbour,
    asks,
    assistants,
    label,
    pairs_of,
    signs,
    thread,
    wishes,
)
from tests.native import twin_rank
from tests.postgres import IN_A_FILE


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("How are you?", "", ASKS_ONLY),
        ("Nice! How are you?!", " ", ASKS_ONLY),
        ("How are you? (08 May 2023)", "", ASKS_ONLY),
        ("Anna", "How are you?", ASKS_ONLY),
        ("何歳ですか\N{FULLWIDTH QUESTION MARK}", "", ASKS_ONLY),
        ("Which IDE?", "vim", ASKS_NOT),
        ("Which IDE?", "Vim. And you?", ASKS_LAST),
        ("I use vim.", "Really?", ASKS_LAST),
        ("Why? Because.", "", ASKS_NOT),
        ("see example.com/?page=1 for v2.31", "", ASKS_NOT),
        ("", "", ASKS_NOT),
    ],
)
def test_memory_asks_when_its_last_sentence_does(question: str, answer: str, expected: int) -> None:
    assert asks(question, answer) == expected


@pytest.mark.parametrize(
    ("question", "answer", "word"),
    [
        ("Anna: hello", "", "anna"),
        (" Dr. Anna Smith: hello", "", "dr"),
        ("", "Address: Elm Street 5", "address"),
        ("\u00c9lodie: salut", "", "elodi"),
        ("at 12:30 we met", "", ""),
        ("https://example.com", "", ""),
        ("what I would like to say: nothing", "", ""),
        ("hello", "Anna: hello", ""),
    ],
)
def test_label_is_the_first_word_before_a_colon(question: str, answer: str, word: str) -> None:
    assert label(question, answer) == key(word)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Always use metric units.", INSTRUCTS),
        ("User: always use metric units", INSTRUCTS),
        ("Thanks! Please never use emoji.", INSTRUCTS),
        ("Use metric units from now on", INSTRUCTS),
        ("Include sources when I ask about medicine", INSTRUCTS),
        ("Ok, so whenever we cook: no garlic", INSTRUCTS),
        ("I prefer vim.", PREFERS),
        ("I\u2019d really rather walk", PREFERS),
        ("My preference is tea", PREFERS),
        ("I prefer French. Always answer in it.", INSTRUCTS | PREFERS),
        ("I have always liked tea and never coffee", 0),
        ("Never mind.", 0),
        ("She prefers tea", 0),
        ("", 0),
        ("word " * 800 + "I prefer tea", 0),
    ],
)
def test_wishes_are_what_a_text_asks_of_answers_and_what_it_prefers(text: str, expected: int) -> None:
    assert wishes(text) == expected


def test_wishes_of_an_assistant_are_none() -> None:
    said = "I prefer tea. Always answer in French."

    assert signs("Hello", said, "turn") == ASSISTANT_ANSWER
    assert signs(f"AI: {said}", "", "import") == ASSISTANT_QUESTION
    assert signs(said, "Hello", "turn") == ASSISTANT_ANSWER | INSTRUCTS | PREFERS
    assert signs("AI: Hello", said, "import") == ASSISTANT_QUESTION | INSTRUCTS | PREFERS


@pytest.mark.parametrize(
    ("question", "answer", "source", "expected"),
    [
        ("Which dog?", "A terrier.", "turn", ASSISTANT_ANSWER),
        ("Which dog?", "A terrier.", "chatgpt", ASSISTANT_ANSWER),
        ("Which dog?", "A terrier.", "llm", ASSISTANT_ANSWER),
        ("", "A terrier.", "turn", ASSISTANT_ANSWER),
        ("I have a dog.", " ", "turn", 0),
        ("AI: can it paint?", "", "turn", 0),
        ("About me", "I have a dog.", "chatgpt", 0),
        ("Which dog has the user?", "a terrier", "extraction", 0),
        ("Bot: R2-D2", "", "user", 0),
        ("Claude: my cousin", "of Lyon", "tool", 0),
        ("User: Which dog?", "Assistant: A terrier.", "import", ASSISTANT_ANSWER),
        ("user: Which dog?", "assistant: A terrier.", "import", ASSISTANT_ANSWER),
        ("ChatGPT: A terrier.", "", "import", ASSISTANT_QUESTION),
        ("AI Assistant: Which dog?", "Bot: That one?", "import", ASSISTANT_QUESTION | ASSISTANT_ANSWER),
        ("Assistant: Which dog?", "Anna: A terrier.", "import", ASSISTANT_QUESTION),
        ("Anna: Which dog?", "Bob: The assistant: a terrier.", "import", 0),
        ("Assistant manager: Anna", "", "import", 0),
        ("Which dog?", "A terrier.", "migration", 0),
    ],
)
def test_texts_of_an_assistant_are_known_by_source_and_label(
    question: str, answer: str, source: str, expected: int
) -> None:
    assert assistants(question, answer, source) == expected
    assert signs(question, answer, source) == asks(question, answer) | expected


def test_session_is_a_thread_wherever_its_memories_stand() -> None:
    first = thread(1, 0, "s1", None)

    assert first == thread(900, 10**9, "s1", Neighbour(5, 0, "s2")) > 0
    assert thread(2, 0, "s2", Neighbour(first, 0, "s1")) != first


def test_memories_without_session_belong_together_until_a_pause() -> None:
    first = thread(7, 1000, "", None)
    before = Neighbour(first, 1000, "")

    assert first < 0
    assert thread(8, 1000 + PAUSE_S, "", before) == first
    assert thread(8, 1000 - PAUSE_S, "", before) == first
    assert thread(8, 1001 + PAUSE_S, "", before) not in (0, first)
    assert thread(8, 1000, "", Neighbour(key("s"), 1000, "s")) < 0


def test_statement_of_the_user_comes_before_a_long_reply_with_the_same_words(memory: Memory) -> None:
    reply = "Dogs sleep a lot. A dog needs a warm place to sleep, and dogs like sofas, beds and a dog bed."
    memory.archive_turn(Turn("My cat is tired, where do animals sleep?", reply, session="s"))
    memory.archive_turn(Turn("It rains again and I am at home, and my dog Rex likes it", "", session="s"))

    found = [result.question for result in memory.search("dog")]

    assert found[0].startswith("It rains again")
    assert len(found) == 2


def test_reply_is_as_relevant_as_a_message_of_the_same_words(memory: Memory) -> None:
    for number in range(20):
        memory.store_memory(
            f"Tell me about topic number {number}.", f"Topic {number} is dull.", source="turn"
        )
    replied = memory.store_memory("Any ideas?", "Try sourdough with rye and caraway.", source="turn")
    said = memory.store_memory("I try weaving with willow and hazel.", "Good idea!", source="turn")
    [found] = memory.recall("What was that about sourdough and caraway?").results
    assert found.id == replied
    [other] = memory.recall("What was that about willow and hazel?").results
    assert other.id == said
    assert found.relevance > 0.9 * other.relevance > 0.5
    assert found.score < 0.5 * other.score


def test_edited_answer_is_still_the_assistants(memory: Memory) -> None:
    told = memory.archive_turn(Turn("Which pet?", "A parrot, perhaps, or a canary.", session="s"))
    memory.archive_turn(
        Turn("I would like a hamster and a large wheel for it in the garden", "", session="t")
    )
    assert told is not None

    memory.edit_memory(told, answer="A hamster.")

    assert next(result.question for result in memory.search("hamster")).startswith("I would like")


def test_undone_deletion_counts_as_before(memory: Memory) -> None:
    memory.archive_turn(Turn("Which dog?", "A terrier is a dog for you, a small dog.", session="s"))
    before = memory.search("dog")
    memory.clear_memory("Which dog?")
    assert memory.search("dog") == []

    assert memory.restore_forgotten() is not None

    assert memory.search("dog") == before


def test_answer_is_found_by_the_words_of_its_question(memory: Memory) -> None:
    told = ["How long have you been married?", "Five years already!", "Time flies."]
    for text in told:
        memory.archive_turn(Turn(text, "", session="s"))
    memory.archive_turn(Turn("Seven years it took to build.", "", session="another"))

    found = [result.question for result in memory.search("How long are they married?")]

    assert found[0] == told[1]
    assert told[0] in found


def test_neighbour_without_a_word_of_the_question_is_no_result_outside_of_sessions(memory: Memory) -> None:
    memory.store_memory("Which dog?", "Rex")
    memory.store_memory("Which tea?", "green")

    assert [result.question for result in memory.search("dog")] == ["Which dog?"]


def test_neighbour_of_another_session_has_no_part(memory: Memory) -> None:
    memory.archive_turn(Turn("Do you have a dog?", "", session="one"))
    memory.archive_turn(Turn("It rained.", "", session="two"))

    assert [result.question for result in memory.search("dog")] == ["Do you have a dog?"]


def test_edited_memory_asks_no_more(memory: Memory) -> None:
    asking = memory.archive_turn(Turn("Do you have a dog?", "", session="s"))
    memory.archive_turn(Turn("Rex.", "", session="s"))
    assert asking is not None
    assert memory.search("dog")[0].question == "Rex."

    memory.edit_memory(asking, question="I have a dog.")

    assert memory.search("dog")[0].question == "I have a dog."


def test_deleted_neighbour_is_neither_result_nor_evidence(memory: Memory) -> None:
    asking = memory.archive_turn(Turn("Do you have a dog?", "", session="s"))
    silent = memory.archive_turn(Turn("Rex.", "", session="s"))
    assert asking is not None
    assert silent is not None
    memory.search("dog")

    memory.delete_memory(silent)
    assert [result.id for result in memory.search("dog")] == [asking]

    memory.delete_memory(asking)
    assert memory.search("dog") == []


@IN_A_FILE
def test_repaired_index_knows_threads_and_questions(memory: Memory, path: Path) -> None:
    for text in ("Do you have a dog?", "Rex.", "Nice."):
        memory.archive_turn(Turn(text, "", session="s"))
    before = memory.search("dog")
    with Connection(str(path)) as connection:
        connection.execute("UPDATE context SET thread = 0, label = 0, asks = 0")
        connection.execute("UPDATE tenants SET version = version + 1, edits = edits + 1")
        connection.execute("UPDATE meta SET value = -1 WHERE key = 'tokenizer_version'")
    assert memory.search("dog") != before

    assert memory.check(repair=True).ok

    assert memory.search("dog") == before


# ---- words side by side


def bits(*texts: str) -> set[int]:
    return {bit for text in texts for bit in twin_rank.pairs(0, terms(text), ())}


@pytest.mark.parametrize(
    ("question", "answer", "signs_", "own"),
    [
        ("The red roof leaks", "Noted, a red roof.", ASSISTANT_ANSWER, ["red roof leak"]),
        ("AI: A red roof leaks", "It was my blue roof", ASSISTANT_QUESTION, ["It was my blue roof"]),
        ("Tom: the red roof", "Anna: the blue door", 0, ["Tom: the red roof", "Anna: the blue door"]),
        ("Was ist C++ f\u00fcr dich?", "", 0, ["Was ist C++ f\u00fcr dich?"]),
        (" ".join(f"w{n}" for n in range(99)), "", 0, [" ".join(f"w{n}" for n in range(32))]),
    ],
)
def test_pairs_are_those_of_the_first_words_that_people_wrote(
    question: str, answer: str, signs_: int, own: list[str]
) -> None:
    assert pairs_of(question, answer, signs_) == twin_rank.stored_pairs(bits(*own))


def test_a_text_of_one_word_has_no_pairs() -> None:
    assert pairs_of("Roofs!", "", 0) == pairs_of("", "A red roof", ASSISTANT_ANSWER) == b""
