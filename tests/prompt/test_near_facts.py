"""The fact nearest to a question that no fact explains as a whole, and questions near which none is told."""

import sys
from pathlib import Path

import pytest

from shepherd.prompt.near_facts import nearest_fact
from shepherd.prompt.questions import questions_in
from shepherd.types import Fact
from tests import programs

FACTS = {
    "occupation": "pharmacist and game designer",
    "museum": "Blackfriars Museum of Dress",
    "position": "curator of textiles",
    "registration_number": "PSI 55174",
    "helmet_size": "57 cm",
    "riding_discipline": "eventing",
    "current_project": "Saltwick Hollow",
    "bicycle": "steel Mercian tourer",
    "saddle_height": "71.5 cm",
    "fide_rating": "2287",
    "choir": "The Foyle Larks",
    "club": "Rook's Nest Chess School",
    "phone": "0912 555 210",
    "tortoise_breed": "Hermann's tortoise",
    "doctor": "Dr Chaudhry",
    "first_name": "Ana",
}
ALL = [Fact(key, value, 0, 0) for key, value in FACTS.items()]


def nearest(question: str, facts=ALL) -> tuple[str, bool] | None:
    found = [nearest_fact(one, question, facts) for one in questions_in(question)]
    return next(((near.fact.key, near.is_sure) for near in found if near), None)


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What's my position at the museum?", "position"),
        ("What's my registration number as a pharmacist?", "registration_number"),
        ("saddle height on my bike?", "saddle_height"),
        ("What is the game I'm working on called?", "current_project"),
        ("what size riding helmet do i take", "helmet_size"),
    ],
)
def test_other_facts_explain_what_the_nearest_leaves_open(question, key):
    assert nearest(question) == (key, True)


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("what kind of riding do I compete in?", "riding_discipline"),
        ("what size jousting helmet do i take", "helmet_size"),
        ("The show secretary asks what breed to put on the entry form for him.", "tortoise_breed"),
        ("which doctor should they ring if I come over faint", "doctor"),
    ],
)
def test_a_fact_that_has_the_rare_word_may_be_meant(question, key):
    assert nearest(question) == (key, False)


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What food do I dislike?", "dislikes"),
        ("Which vegetables do I hate?", "dislikes"),
        ("what kind of food do I like", "likes"),
        ("What food does my wife dislike?", None),
        ("What food do I eat?", None),
        ("Which food do I like at the museum?", None),
    ],
)
def test_what_is_liked_may_be_of_the_kind_that_is_asked_for(question, key):
    tastes = [Fact("dislikes", "coriander", 0, 0), Fact("likes", "mushrooms", 0, 0)]

    assert nearest(question, [*ALL, *tastes]) == (key and (key, False))


@pytest.mark.parametrize(
    "question",
    [
        "What is my blitz rating?",
        "Who conducts the choir?",
        "What's the guest password at the club?",
        "What's my phone number at the museum?",
        "What does my bicycle weigh?",
        "What is my bicycle worth?",
        "What colour is my bicycle?",
        "How much did my bicycle cost?",
        "What's my old helmet size?",
        "What's my sister's helmet size?",
        "What size gloves do I wear?",
        "What is Domino's breed?",
        "Where did I live before Foyle?",
        "I sold my steel bicycle at the museum",
    ],
)
def test_no_fact_comes_near_what_asks_for_something_else(question):
    assert nearest(question) is None


def test_of_two_that_come_equally_near_none_is_meant():
    facts = [Fact("riding_hat", "57 cm", 0, 0), Fact("hat_riding", "58 cm", 0, 0)]

    assert nearest("what riding hat do I compete with?", facts[:1]) == ("riding_hat", False)
    assert nearest("what riding hat do I compete with?", facts) is None


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Was ist mein Job?", "job"),
        ("Was ist unser Job?", "job"),
        ("Was war mein Job?", "previous_job"),
        ("Wat is mijn job?", "job"),
        ("Wat was mijn job?", "previous_job"),
        ("What is my job?", "job"),
        ("What was my job?", "previous_job"),
    ],
)
def test_was_is_no_past_in_german(question, key):
    facts = [Fact("job", "nurse", 0, 0), Fact("previous_job", "baker", 0, 0)]

    found = nearest_fact(questions_in(question)[0], question, facts)

    assert found is not None
    assert found.fact.key == key


@pytest.mark.parametrize("whose", ["wife", "husband", "partner", "girlfriend", "brother"])
def test_where_a_partner_lives_is_not_where_the_user_does(whose):
    facts = [Fact("location", "Lisbon", 0, 0), Fact("birthday", "4 May", 0, 0)]

    for question in (f"Where does my {whose} live?", f"When was my {whose} born?"):
        assert nearest_fact(questions_in(question)[0], question, facts) is None


def test_near_misses_stay_unanswered():
    facts: list[Fact] = []
    found = []
    for line in Path(__file__).with_name("near_misses.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("? "):
            found.append((line, nearest(line[2:], facts)))
        elif line and not line.startswith("#"):
            facts = [Fact(*pair.split("=", 1), 0, 0) for pair in line.split("; ")]

    assert len(found) > 80
    assert [one for one in found if one[1]] == []


# A pattern that is searched from each of these characters to the last takes ten seconds or more for one of
# these messages, and the system ends the process.
HOSTILE = """
import resource
from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.near_facts import nearest_fact
from shepherd.prompt.questions import questions_in
from shepherd.types import Fact
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
facts = [Fact("tea", "green", 1, 1), Fact("city", "Lisbon", 2, 2)]
for piece in ("\\n", "-", "'", "a-", ", and "):
    rest = (piece * 20_000)[:20_000]
    for text in (f"What other tea do I like? {rest}", f"What other tea, {rest}", rest):
        asked_facts(text, facts)
        for question in questions_in(text):
            nearest_fact(question, text, facts)
"""


def test_hostile_messages_are_read_in_linear_time():
    done = programs.run([sys.executable, "-c", HOSTILE], check=False)

    assert done.returncode == 0
