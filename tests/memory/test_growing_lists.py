"""Lists that grow by what is said, and numbers that are corrected."""

from collections.abc import Iterator

import pytest

from tests.memory.test_learned import Teller


@pytest.fixture
def teller(database: str) -> Iterator[Teller]:
    teller = Teller(database)
    with teller.memory:
        yield teller


@pytest.mark.parametrize(
    ("key", "lines", "value"),
    [
        ("pets", ["I have a tortoise.", "We have two cats, Fig and Plum."], "tortoise, two cats"),
        ("pets", ["We have two cats.", "We have three cats."], "three cats"),
        ("pets", ["We have two cats.", "I have a cat."], "two cats"),
        ("pets", ["We have two cats and a dog.", "We no longer have the cats."], "dog"),
        ("pets", ["I have a tortoise and two cats.", "Our tortoise passed away."], "two cats"),
        ("pets", ["I have a cat and a dog.", "If my dog died I'd cry."], "cat, dog"),
        ("collects", ["I collect stamps.", "I collect maps.", "I no longer collect stamps."], "maps"),
        ("children", ["I have two kids.", "We have three children."], "three children"),
        ("siblings", ["I have two brothers.", "I have one sister."], "two brothers, one sister"),
        ("siblings", ["I have one sister and two brothers."], "one sister, two brothers"),
        ("collects", ["I collect stamps.", "I collect old maps."], "stamps, old maps"),
        ("fears", ["I'm afraid of spiders.", "I'm scared of heights."], "spiders, heights"),
    ],
)
def test_a_new_statement_joins_the_list_and_a_new_number_replaces_the_old(
    teller: Teller, key: str, lines: list[str], value: str
) -> None:
    for line in lines:
        teller.tell(line)
        teller.now += 60

    assert teller.facts()[key] == value


def test_a_list_that_the_user_set_grows_too(teller: Teller) -> None:
    teller.memory.set_fact("pets", "tortoise")
    teller.now += 60

    teller.tell("we have two cats, Fig and Plum")

    assert teller.facts() == {"pets": "tortoise, two cats", "cats_name": "Fig and Plum"}


def test_a_role_in_a_band_leaves_the_job_as_it_is(teller: Teller) -> None:
    teller.tell("I'm a piano tuner.")
    teller.now += 60
    teller.tell("I'm the lead singer in a ceilidh band.", facts={"job": "lead singer"})
    teller.now += 60
    teller.tell("I'm captain of our cricket team.")

    roles = "lead singer in a ceilidh band, captain of our cricket team"
    assert teller.facts() == {"job": "piano tuner", "community_role": roles}
