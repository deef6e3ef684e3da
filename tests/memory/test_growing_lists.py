"""Lists that grow by what is said, and numbers that are corrected."""

from collections.abc import Iterator

import pytest

from shepherd.memory import OpenJob
from shepherd.types import Message
from tests.memory.test_learned import START, Teller


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


def test_an_item_of_a_list_that_is_told_again_changes_nothing(teller: Teller) -> None:
    teller.tell("I'm allergic to cats and nuts.")
    teller.now += 60

    assert teller.tell("I'm allergic to nuts.") == (0, 0)
    assert teller.facts() == {"allergy": "cats and nuts"}


def learn_late(teller: Teller, told: str, newer: list[str]) -> dict[str, str]:
    """Tell a line in one window and the newer ones in others, which are learned from first."""
    late = OpenJob("test/1/late", 9)
    teller.memory.append_message(teller.session, Message("user", told), job=late)
    for line in newer:
        teller.now += 60
        teller.tell(line)
    teller.now += 60
    teller.memory.extraction.release(late.owner)
    teller.work()
    return teller.facts()


@pytest.mark.parametrize(
    ("key", "told", "newer", "value"),
    [
        ("allergy", "I'm allergic to nuts.", ["I'm allergic to cats."], "cats, nuts"),
        (
            "allergy",
            "I'm allergic to nuts.",
            ["I'm allergic to cats.", "I'm allergic to latex."],
            "cats, latex, nuts",
        ),
        ("allergy", "I'm allergic to cats.", ["I'm allergic to cats and nuts."], "cats and nuts"),
        ("pets", "I have two cats.", ["I have a dog.", "I have three cats."], "dog, three cats"),
        ("pets", "I have two cats.", ["I have three cats.", "I have a dog."], "three cats, dog"),
        ("pets", "I have two cats.", ["I have a dog."], "dog, two cats"),
        (
            "instructions",
            "Always use metric units.",
            ["Never use emoji."],
            "Never use emoji; Always use metric units",
        ),
        # What has ended since may be what was said.
        (
            "allergy",
            "I'm allergic to nuts.",
            ["I'm allergic to nuts and cats.", "I'm no longer allergic to nuts."],
            "cats",
        ),
        (
            "allergy",
            "I'm allergic to nuts.",
            ["I'm allergic to cats.", "I'm no longer allergic to nuts."],
            "cats",
        ),
        ("allergy", "I'm allergic to nuts.", ["I'm no longer allergic to nuts."], None),
        ("allergy", "I'm allergic to nuts and latex.", ["I'm no longer allergic to nuts."], "latex"),
        ("employer", "I work at Bosch.", ["I no longer work at Bosch."], None),
        ("car", "I drive a Kia Picanto.", ["The car's sold."], None),
        ("wife_employer", "My wife works at Bosch.", ["I left Bosch last week."], "Bosch"),
    ],
)
def test_what_is_told_first_and_learned_last_joins_a_list_unless_it_has_ended(
    teller: Teller, key: str, told: str, newer: list[str], value: str | None
) -> None:
    assert learn_late(teller, told, newer).get(key) == value


@pytest.mark.parametrize("change", ["set", "set again", "import", "clear"])
def test_what_the_user_did_with_a_list_stays_whatever_is_learned_late(teller: Teller, change: str) -> None:
    memory, late = teller.memory, OpenJob("test/1/late", 9)
    memory.append_message(teller.session, Message("user", "I'm allergic to nuts."), job=late)
    teller.now += 60
    if change == "set again":
        memory.set_fact("allergy", "latex")
    else:
        teller.tell("I'm allergic to cats.")
    teller.now += 60
    if change == "set":
        memory.set_fact("allergy", "latex")
    elif change == "set again":
        teller.tell("I'm allergic to cats.")
    elif change == "import":
        fact = {"type": "fact", "key": "allergy", "value": "latex", "updated_at": int(teller.now)}
        memory.import_memories([fact])
    else:
        memory.clear_fact("allergy")
    before = teller.facts()

    memory.extraction.release(late.owner)
    teller.work()

    assert teller.facts() == before


def test_an_item_that_is_learned_late_has_its_sentence_and_is_undone_alone(teller: Teller) -> None:
    line = "I'm allergic to nuts."
    assert learn_late(teller, line, ["I'm allergic to cats."]) == {"allergy": "cats, nuts"}

    item = teller.last()
    assert (item.kind, item.before, item.statement, item.at) == ("changed", "cats", line, START)
    held = [(period.value, period.until) for period in teller.memory.fact_periods("allergy")]
    assert held[-1] == ("cats, nuts", None)
    assert [fact.value for fact in teller.memory.facts_at(START + 60)] == ["cats, nuts"]

    assert teller.undoable() >= {item.id}
    assert teller.memory.undo(item.id).state == "undone"
    assert teller.facts() == {"allergy": "cats"}
    assert [period.value for period in teller.memory.fact_periods("allergy")] == ["cats"]


@pytest.mark.parametrize(
    ("key", "lines", "value"),
    [
        (
            "allergy",
            ["I'm allergic to nuts, latex and cats.", "I'm no longer allergic to nuts and latex."],
            "cats",
        ),
        (
            "allergy",
            ["I'm allergic to nuts, latex and cats.", "I'm no longer allergic to nuts or latex."],
            "cats",
        ),
        ("collects", ["I collect stamps.", "I collect maps.", "I no longer collect stamps and maps."], None),
        (
            "collects",
            ["I collect stamps.", "I collect maps.", "I no longer collect maps and coins."],
            "stamps",
        ),
        ("likes", ["I like tea.", "I like rock and roll.", "I no longer like rock and roll."], "tea"),
    ],
)
def test_several_items_end_at_once(teller: Teller, key: str, lines: list[str], value: str | None) -> None:
    for line in lines:
        teller.tell(line)
        teller.now += 60

    assert teller.facts().get(key) == value
