"""A memory that says the opposite of a known one is no duplicate of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.extraction.answer import Extracted, _source, select
from shepherd.memory import Memory
from shepherd.memory.records import Claim

EATS_MEAT = "Does the user eat meat?"
WORDS = [
    "the", "user", "likes", "coffee", "does", "not", "no", "can't", "can\u2019t", "cannot", "up", "down",
    "yes", "Tom", "Anna", "nicht", "kein", "nunca", "pas", "不", "北京", "mine", "Is", "?", "!", "5",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), max_size=8)


def kept(memory: Memory, *context: tuple[str, str]) -> list[tuple[str, str]]:
    answer = Extracted(context=list(context))
    return select(answer, ("I like it.",), memory, "steve", facts_only=False, secrets=True).context


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ((EATS_MEAT, "Yes"), (EATS_MEAT, "No")),
        ((EATS_MEAT, "Yes, he does"), (EATS_MEAT, "No, he doesn't")),
        (("What is said of coffee?", "likes coffee"), ("What is said of coffee?", "does not like coffee")),
        (("Can the user drive?", "can drive"), ("Can the user drive?", "can't drive")),
        (("Can the user drive?", "can drive"), ("Can the user drive?", "can\u2019t drive")),
        (("Can the user drive?", "can drive"), ("Can the user drive?", "cannot drive")),
        (("Whose is the red bike?", "mine"), ("Whose is the red bike?", "not mine")),
        (("Whose is the red bike?", "mine"), ("Whose is the red bike?", "yours")),
        (("Which way does the lift go?", "up"), ("Which way does the lift go?", "down")),
        (("How does the user take tea?", "with sugar"), ("How does the user take tea?", "without sugar")),
        (("Did the user move?", "moved to Berlin"), ("Did the user move?", "moved from Berlin")),
        (("Who owes whom?", "Tom owes Anna money"), ("Who owes whom?", "Anna owes Tom money")),
        (("Does Tom owe Anna money?", "Yes"), ("Does Anna owe Tom money?", "Yes")),
        (("Isst er Fleisch?", "Er isst Fleisch"), ("Isst er Fleisch?", "Er isst kein Fleisch")),
        (("Trinkt er Tee?", "Er trinkt Tee"), ("Trinkt er Tee?", "Er trinkt nie Tee")),
        (("Aime-t-il le thé ?", "il aime le thé"), ("Aime-t-il le thé ?", "il n'aime pas le thé")),
        (("\u00bfCome carne?", "Come carne"), ("\u00bfCome carne?", "No come carne")),
        (("\u00bfCome carne?", "Sí"), ("\u00bfCome carne?", "No")),
        (("喜欢咖啡", "喜欢"), ("喜欢咖啡", "不喜欢")),
    ],
)
def test_the_opposite_of_a_known_memory_is_kept(memory, known, new):
    memory.store_memory(*known)

    assert kept(memory, new) == [new]
    assert kept(memory, known) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("What editor does the user prefer?", "Helix"), ("Which editor does the user prefer?", "helix!")),
        (("Does he like tea?", "He doesn't like tea"), ("Does he like tea?", "He does not like tea.")),
        (("Does he like tea?", "He can't stand tea"), ("Does he like tea?", "He cannot stand the tea")),
    ],
)
def test_the_same_in_other_small_words_is_not_stored_again(memory, one, other):
    assert kept(memory, one, other) == [one]


def test_an_answer_that_goes_on_differently_is_kept(memory):
    begin = " ".join(f"w{n}" for n in range(80))

    context = [("What is on the list?", f"{begin} {last}") for last in ("apples", "pears")]

    assert kept(memory, *context) == context


@given(texts, texts, st.data())
def test_a_text_and_itself_with_a_not_put_in_are_never_the_same(shared_memory, question, answer, data):
    index = data.draw(st.integers(0, len(question) + len(answer)))
    said = [*question, *answer]
    said.insert(index, data.draw(st.sampled_from(["not", "NOT", "never"])))
    middle = len(question) + (index <= len(question))

    one = " ".join(question), " ".join(answer)
    other = " ".join(said[:middle]), " ".join(said[middle:])

    assert kept(shared_memory, one, other) == [one, other]


@pytest.fixture(scope="module")
def shared_memory(tmp_path_factory):
    with Memory(tmp_path_factory.mktemp("selection") / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.mark.parametrize("facts_only", [True, False])
@pytest.mark.parametrize(
    "answer", ["proper-lemon-stapler-window", "lemon-stapler", "It is proper-lemon-stapler-window"]
)
def test_secret_is_not_stored_without_the_words_around_it_either(memory, facts_only, answer):
    line = "I use Debian. The SSH key passphrase is proper-lemon-stapler-window."
    found = Extracted({}, [("What does the user want to give SSH?", answer)])

    assert select(found, [line], memory, "steve", facts_only=facts_only, secrets=False).context == []


def test_nothing_is_learned_from_what_may_be_a_code(memory):
    line = "I work at Shell and the cleaner gets 8890 from me."
    found = Extracted({"work": "Shell", "code": "8890"}, [("What does the cleaner get?", "8890")])

    chosen = select(found, [line], memory, "steve", facts_only=False, secrets=False)

    assert chosen.facts == {"employer": "Shell"}
    assert chosen.context == []
    assert "8890" not in str(chosen.claims)


def test_memories_of_a_model_that_only_finds_facts_are_dropped(memory):
    found = Extracted({"pet": "Rex"}, [("When is the user's dog?", "Rex")])

    chosen = select(found, ["My dog is called Rex."], memory, "steve", facts_only=True, secrets=False)

    assert (chosen.context, chosen.dropped) == ([], 1)


@pytest.mark.parametrize(
    ("pair", "is_kept"),
    [
        (("Which tea does the user like?", "Assam"), True),
        (("What is the wifi password?", "swordfish"), False),  # a secret by itself
        (("What is it that the cleaner gets, 8890?", "Assam"), False),  # one of the line's, in the question
        (("What does the cleaner get?", "8890"), False),
        (("What does the cleaner get?", "889"), False),  # a part of one
        (("What does the cleaner get?", "890"), False),
        (("What does the cleaner get?", "88900"), False),
    ],
)
def test_a_memory_that_tells_a_secret_of_the_line_is_dropped(memory, pair, is_kept):
    found = Extracted({}, [pair])
    line = "I like Assam and the cleaner gets 8890 from me."

    chosen = select(found, [line], memory, "steve", facts_only=False, secrets=False)

    assert (chosen.context, chosen.dropped) == (([pair], 0) if is_kept else ([], 1))


def test_values_that_nobody_stated_are_counted(memory):
    line = "My name is Steve and I live in Ulm."
    facts = {"name": "Steve", "location": "Ulm", "editor": "Vim", "job": "pilot"}
    options = {"facts_only": False, "secrets": False}

    chosen = select(Extracted(dict(facts)), (line,), memory, "steve", **options)
    assert {(claim.key, claim.value) for claim in chosen.claims} == {("name", "Steve"), ("location", "Ulm")}
    assert chosen.dropped == 2
    stated = Extracted({"name": "Steve", "location": "Ulm"}, dropped=3)
    assert select(stated, (line,), memory, "steve", **options).dropped == 3


@pytest.mark.parametrize(
    ("lines", "sources"),
    [
        (("I like Helix.",), [("I like Helix.", 0)]),
        (("Hello.", "I like Helix.", "Thanks."), [("I like Helix.", 1)]),
        (("I like Helix.", "I like Helix a lot."), [("I like Helix a lot.", 1)]),
    ],
)
def test_a_memory_has_the_sentence_and_the_line_that_it_came_from(memory, lines, sources):
    answer = Extracted(context=[("Which editor does the user like?", "Helix")])

    chosen = select(answer, lines, memory, "steve", facts_only=False, secrets=False)

    assert chosen.sources == sources


def test_a_memory_of_one_of_several_lines_has_none(memory):
    assert _source("Vim", ["I like Helix."], secrets=False) == ("", 0)
    assert _source("Vim", ["I like Helix.", "And tea."], secrets=False) == ("", -1)
    assert _source("Vim", [], secrets=False) == ("", -1)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("My new boss is called Ute.", "Ute"),
        ("My new boss is called Ute. Ute is no longer my boss.", None),
    ],
)
def test_a_new_one_is_learned_with_the_end_of_the_old_one(memory, line, name):
    memory.set_fact("boss_name", "Henrik", "steve")

    chosen = select(Extracted(), (line,), memory, "steve", facts_only=True, secrets=False)

    learned = [claim.value for claim in chosen.claims if isinstance(claim, Claim)]
    assert learned == ([] if name is None else [name])
