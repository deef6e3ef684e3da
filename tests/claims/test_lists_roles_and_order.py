"""Several pets in one sentence, roles that are no jobs, and times at the beginning of a sentence."""

import pytest

from shepherd.claims.counts import counts_alike, merged_counts
from shepherd.claims.judge import plain_facts


def facts(line: str, key: str) -> list[str]:
    return [verdict.value for verdict in plain_facts(line) if verdict.key == key]


@pytest.mark.parametrize(
    ("line", "pets"),
    [
        ("I have a tortoise called Biscuit and a parrot named Olive", ["tortoise", "parrot"]),
        ("we have a rabbit, two hens and a goat", ["rabbit", "two hens", "goat"]),
        ("I have a dog and work at Bosch", ["dog"]),
        ("I have a dog and a cat costume", ["dog"]),
        ("I have two kids and a dog", ["dog"]),
    ],
)
def test_each_pet_of_a_sentence_is_learned(line, pets):
    assert facts(line, "pets") == pets


def test_each_pet_keeps_its_name():
    line = "I have a tortoise called Biscuit and a parrot named Olive"
    assert facts(line, "tortoise_name") == ["Biscuit"]
    assert facts(line, "parrot_name") == ["Olive"]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("I'm the lead singer in a ceilidh band", "community_role", "lead singer in a ceilidh band"),
        ("I'm secretary of the chess club", "community_role", "secretary of the chess club"),
        ("I'm a churchwarden in my parish", "community_role", "churchwarden in my parish"),
        ("I'm treasurer at the rowing club", "community_role", "treasurer at the rowing club"),
        ("I work as a singer in a band", "job", "singer"),
        ("I'm a chef at a golf club", "job", "chef"),
        ("I'm a vicar in a parish", "job", "vicar"),
        ("I'm a developer in a small team", "job", "developer"),
    ],
)
def test_a_role_among_friends_is_no_job(line, key, value):
    other = {"job": "community_role", "community_role": "job"}[key]
    assert facts(line, key) == [value]
    assert facts(line, other) == []


@pytest.mark.parametrize(
    "line",
    [
        "I'm a bad nurse, I forgot a dose today",
        "I'm a pretty good baker",
        "I'm a hard worker",
        "I'm a happy camper",
        "I'm a lazy cook",
        "I'm a terrible singer at Christmas",
        "I'm a taxi driver for my kids",
        "I'm a cook for my kids at the weekend",
        "I'm a cook, cleaner and chauffeur in this house",
        "I'm the family photographer",
        "I'm a surgeon with a needle and thread, lol",
        "I'm a detective when it comes to lost socks",
        "I'm a student of life",
        "I'm the author of a small library called pgtide",
        "Ich bin eine schlechte Köchin",
        "Je suis une mauvaise cuisinière",
        "Soy una mala cocinera",
    ],
)
def test_a_role_that_is_judged_or_played_with_is_no_job(line):
    assert facts(line, "job") == []


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("I'm a registered nurse", "registered nurse"),
        ("I'm a nurse, and I cook for my kids", "nurse"),
        ("I'm really a nurse", "nurse"),
        ("I'm an overworked nurse", "nurse"),
        ("I'm a very proud nurse", "nurse"),
        ("I'm a mad scientist", "scientist"),
        ("I'm an average adjuster", "average adjuster"),
        ("I'm a big data engineer", "big data engineer"),
        ("I'm a content manager", "content manager"),
        ("I'm a fraud analyst", "fraud analyst"),
        ("I'm a great teacher at Kings School", "teacher"),
        ("I'm a chef in the House of Lords", "chef"),
        ("I'm a teacher of two children with autism", "teacher"),
        ("I'm a cook for three kids at a nursery", "cook"),
        ("I'm a plumber for our friends at Bosch", "plumber"),
        ("I'm a nanny for two kids in Leeds", "nanny"),
        ("I'm a manager of the family business", "manager"),
        ("I'm a driver for the girls' school", "driver"),
        ("I'm an author of crime novels", "author"),
    ],
)
def test_a_job_that_only_sounds_like_one_at_home_is_learned(line, job):
    assert facts(line, "job") == [job]


def test_a_role_of_a_relative_is_not_the_users():
    assert facts("My sister is a singer in a band", "community_role") == []


@pytest.mark.parametrize(
    ("line", "routine"),
    [
        ("every Thursday I swim at the leisure centre", ["swim at the leisure centre every Thursday"]),
        ("On Fridays, we play chess, and then we eat.", ["play chess on Fridays"]),
        ("Every Monday I visit my gran and aunt", ["visit my gran and aunt every Monday"]),
        ("Every summer we go to Cornwall", ["go to Cornwall every summer"]),
        ("Every Thursday I used to swim at the pool", []),
        ("Every day I think of her", []),
        ("Every Thursday I swim?", []),
    ],
)
def test_a_time_may_stand_first_in_a_routine(line, routine):
    assert facts(line, "routine") == routine


@pytest.mark.parametrize(
    ("items", "merged"),
    [
        (["cat", "black cat"], ["black cat"]),
        (["black cat", "white cat"], ["black cat", "white cat"]),
        (["a cat", "two cats"], ["two cats"]),
        (["2", "three kids"], ["three kids"]),
        (["two kids", "daughter"], ["two kids", "daughter"]),
        (["two ponies", "pony"], ["two ponies"]),
    ],
)
def test_a_later_number_corrects_an_earlier_one(items, merged):
    assert merged_counts(items) == merged


def test_what_ended_is_meant_by_its_number():
    assert counts_alike("two cats", "cats")
    assert counts_alike("tortoise", "the tortoise")
    assert not counts_alike("two cats", "cat")
    assert not counts_alike("two cats", "three cats")
