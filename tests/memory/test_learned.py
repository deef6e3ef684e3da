"""What was learned from the user's words: with its sentence, and undone, accepted or rejected by the user."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.extraction.answer import Extracted, select
from shepherd.memory import LearnedItem, Memory, NewMemory, OpenJob
from shepherd.types import Message
from tests.examples import examples

START = 1_750_000_000
DAY = 86_400


class Teller:
    """Tells a memory what the user says, by the way that a turn and the worker take."""

    def __init__(self, database: str, memory: Memory | None = None, *, blind: bool = False) -> None:
        self.now = float(START)
        self.memory = memory or Memory(database, user_id="steve", clock=lambda: self.now, blind=blind)
        self.session = self.memory.start_session()

    def tell(
        self, *lines: str, facts: dict[str, str] | None = None, context: tuple[tuple[str, str], ...] = ()
    ):
        job = OpenJob("test/1/a", len(lines))
        for line in lines:
            self.memory.append_message(self.session, Message("user", line), job=job)
        return self.work(facts, context)

    def work(self, facts: dict[str, str] | None = None, context: tuple[tuple[str, str], ...] = ()):
        claimed = self.memory.extraction.claim("worker")
        assert claimed is not None
        found = Extracted(dict(facts or {}), list(context))
        kept = select(found, claimed.lines, self.memory, "steve", facts_only=False, secrets=False)
        new = [NewMemory(q, a, claimed.told_at, "extraction", claimed.session_id) for q, a in kept.context]
        return self.memory.extraction.finish(
            claimed, kept.claims, new, statements=kept.sources, dropped=kept.dropped
        )

    def facts(self) -> dict[str, str]:
        return {fact.key: fact.value for fact in self.memory.get_all_facts()}

    def last(self) -> LearnedItem:
        return self.memory.learned(1)[0]

    def undoable(self) -> frozenset[int]:
        return self.memory.undoable(self.memory.learned())

    def state(self) -> object:
        """All that undo has to restore."""
        memory = self.memory
        facts = [(f.key, f.value, f.created_at, f.updated_at, f.valid_from) for f in memory.get_all_facts()]
        changes = [
            (c.key, c.value, c.source, c.changed_at, c.valid_from, c.statement, c.session)
            for c in memory.fact_history()
        ]
        return facts, changes, memory.fact_periods(), memory.list_memories()


@pytest.fixture
def teller(database: str) -> Iterator[Teller]:
    teller = Teller(database)
    with teller.memory:
        yield teller


@pytest.mark.parametrize(
    ("first", "second", "facts"),
    [
        ("I work at Torbay Hospital.", "I work at a hospital.", {"employer": "Torbay Hospital"}),
        ("I drive a red Volvo V70.", "I drive a Volvo.", {"car": "red Volvo V70"}),
        ("I live in New York.", "I live in York.", {"location": "York"}),
        ("I work at Torbay Hospital.", "I work at a school.", {"employer": "school"}),
        ("I drive a red Volvo V70.", "I drive a blue Volvo.", {"car": "blue Volvo"}),
    ],
)
def test_what_is_told_with_less_detail_changes_nothing(
    teller: Teller, first: str, second: str, facts: dict[str, str]
) -> None:
    for line in (first, second):
        teller.now += DAY
        teller.tell(line)

    assert teller.facts() == facts


def test_less_detail_replaces_what_the_statement_says_is_over(teller: Teller) -> None:
    teller.tell("I drive a red Volvo V70.")
    teller.now += DAY
    teller.tell("I sold the V70. I drive a Volvo now.")

    assert teller.facts()["car"] == "Volvo"


def test_a_fact_has_its_sentence_its_conversation_and_its_time(teller: Teller) -> None:
    teller.now += 5
    teller.tell("Hello. I live in Lisbon, and the sun is out.")

    item = teller.last()
    assert item == LearnedItem(
        item.id,
        "learned",
        "location",
        "Lisbon",
        None,
        "I live in Lisbon, and the sun is out.",
        teller.session,
        START + 5,
        "new",
    )
    [change] = teller.memory.fact_history()
    assert (change.statement, change.session, change.source) == (item.statement, teller.session, "extraction")


def test_each_line_of_a_job_has_its_own_time_and_order(teller: Teller) -> None:
    job = OpenJob("test/1/a", 2)
    teller.memory.append_message(teller.session, Message("user", "I live in Oslo."), job=job)
    teller.now += 100
    teller.memory.append_message(teller.session, Message("user", "I moved to Rome."), job=job)
    teller.work()

    assert [(item.kind, item.value, item.before) for item in teller.memory.learned()] == [
        ("changed", "Rome", "Oslo"),
        ("learned", "Oslo", None),
    ]
    assert [(p.value, p.since, p.until) for p in teller.memory.fact_periods("location")] == [
        ("Oslo", START, START + 100),
        ("Rome", START + 100, None),
    ]


@pytest.mark.parametrize("line", ["I live in Berlin.", "I'm based in Berlin."])
def test_what_the_user_set_is_contradicted_by_a_proposal(teller: Teller, line: str) -> None:
    teller.memory.set_fact("location", "Texas")
    teller.now += 60

    assert teller.tell(line) == (0, 0)

    assert teller.facts() == {"location": "Texas"}
    [item] = teller.memory.learned(waiting_only=True)
    assert (item.kind, item.key, item.value, item.before, item.statement) == (
        "proposed",
        "location",
        "Berlin",
        "Texas",
        line,
    )


@pytest.mark.parametrize(
    ("key", "value", "line", "now"),
    [
        ("dislikes", "olives, kale", "I like olives now.", {"likes": "olives", "dislikes": "kale"}),
        ("likes", "olives", "I hate olives.", {"dislikes": "olives"}),
        ("likes", "Rome", "I hate Rome in August.", {"likes": "Rome", "dislikes": "Rome"}),
    ],
)
def test_a_new_like_ends_only_the_dislike_of_the_same(teller: Teller, key, value, line, now) -> None:
    teller.memory.set_fact(key, value, source="extraction")
    teller.memory.set_fact("avoids", "olives", source="extraction")
    teller.now += 60

    teller.tell(line)

    assert teller.facts() == {"avoids": "olives", **now}


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("I'm married to Anna.", {"spouse": "Anna"}),
        ("I broke up with Anna.", {}),
        ("My sister broke up with Mark.", {"fiance_name": "Anna"}),
    ],
)
def test_an_engagement_ends_with_a_wedding_or_a_parting(teller: Teller, line, facts) -> None:
    teller.tell("I'm engaged to Anna.")
    assert teller.facts() == {"fiance_name": "Anna"}
    teller.now += 60

    teller.tell(line)

    assert teller.facts() == facts


@pytest.mark.parametrize(
    ("key", "value", "line", "now"),
    [
        ("car", "Ford Fiesta", "I traded my Fiesta for a Golf.", {"car": "Golf"}),
        ("uses", "neovim, git", "I ditched neovim for helix.", {"uses": "git, helix"}),
    ],
)
def test_what_takes_the_place_of_something_ends_it(teller: Teller, key, value, line, now) -> None:
    teller.memory.set_fact(key, value, source="extraction")
    teller.now += 60

    teller.tell(line)

    assert teller.facts() == now


@pytest.mark.parametrize(
    ("key", "value", "line", "now"),
    [
        ("location", "Texas", "I moved to Berlin.", {"location": "Berlin"}),
        ("name", "Steve", "Call me Stefan.", {"name": "Stefan"}),
        ("employer", "Bosch", "I changed jobs from Bosch to Siemens.", {"employer": "Siemens"}),
        ("employer", "Bosch", "I left Bosch for Siemens.", {"employer": "Siemens"}),
        ("employer", "Bosch", "I left Bosch, started at Siemens on Monday.", {"employer": "Siemens"}),
        ("location", "Kyiv", "I no longer live in Kyiv.", {}),
        ("employer", "Amazon", "I quit my job at Amazon.", {}),
    ],
)
def test_what_says_that_something_changed_is_done_at_once(
    teller: Teller, key: str, value: str, line: str, now: dict[str, str]
) -> None:
    teller.memory.set_fact(key, value)
    before = teller.state()
    teller.now += 60

    assert teller.tell(line) == (1, 0)

    assert teller.facts() == now
    item = teller.last()
    assert (item.before, item.value, item.statement) == (value, now.get(key, ""), line)
    assert item.kind == ("changed" if now else "ended")
    assert teller.memory.undo(item.id).state == "undone"
    assert teller.state() == before


def test_a_move_between_companies_without_a_word_of_work_is_proposed(teller: Teller) -> None:
    teller.memory.set_fact("employer", "Bosch")
    teller.now += 60

    teller.tell("I moved from Bosch to Siemens.")

    assert [item.value for item in teller.memory.learned(waiting_only=True)] == ["Siemens"]
    assert teller.facts() == {"employer": "Bosch"}


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("I moved to Berlin in 2005.", ["Berlin"]),
        ("I moved to Berlin in January.", ["Berlin"]),
        ("I moved to Berlin last week.", []),
        ("I now live in Berlin, since 2005.", []),
    ],
)
def test_a_change_of_before_a_fact_was_set_is_proposed(
    teller: Teller, line: str, proposed: list[str]
) -> None:
    teller.memory.set_fact("location", "Texas")
    teller.now += 60

    teller.tell(line)

    assert [item.value for item in teller.memory.learned(waiting_only=True)] == proposed
    assert teller.facts() == {"location": "Texas" if proposed else "Berlin"}


@pytest.mark.parametrize(
    ("line", "home"),
    [
        ("I moved to Zelp.", "Otley"),  # It may be a bank.
        ("I moved to Zelp, we have a house there.", "Zelp"),
        ("I moved from Otley to Zelp.", "Zelp"),
    ],
)
def test_only_a_clear_move_replaces_a_home_that_was_set_by_hand(teller: Teller, line: str, home: str) -> None:
    teller.memory.set_fact("location", "Otley")
    teller.now += 60

    teller.tell(line)

    assert teller.facts() == {"location": home}
    assert [item.value for item in teller.memory.learned(waiting_only=True)] == ["Zelp"] * (home == "Otley")


def test_a_change_of_years_ago_replaces_nothing_that_was_told_since(teller: Teller) -> None:
    teller.tell("I live in Texas.")
    teller.now += 60

    teller.tell("I moved to Berlin in 2005.")

    assert teller.facts() == {"location": "Texas"}
    assert len(teller.memory.learned()) == 1


@pytest.mark.parametrize("relation", ["brother", "younger brother", "best friend"])
def test_what_ends_for_the_user_goes_on_for_relatives(teller: Teller, relation: str) -> None:
    key = relation.replace(" ", "_")
    teller.tell(f"My {relation} works at Bosch.")
    teller.now += 60
    teller.tell("I work at Bosch.")
    teller.now += 60

    teller.tell("I left Bosch in May.")

    assert teller.facts() == {f"{key}_employer": "Bosch"}
    teller.now += 60
    teller.tell(f"My {relation} moved to Ulm.")
    teller.now += 60
    teller.tell("I moved from Ulm to Bonn.")
    assert teller.facts() == {f"{key}_employer": "Bosch", f"{key}_location": "Ulm", "location": "Bonn"}


@pytest.mark.parametrize(
    ("known", "line", "facts"),
    [
        ("I don't eat meat.", "I don't eat meat any more.", {"avoids": "meat"}),
        ("I don't eat meat.", "I gave up meat.", {"avoids": "meat"}),
        ("I don't eat meat.", "I eat meat again.", {}),
        ("I hate opera.", "I no longer like opera.", {"dislikes": "opera"}),
        ("I'm afraid of spiders.", "I no longer like spiders.", {"fears": "spiders"}),
        ("I'm allergic to nuts.", "I no longer eat nuts.", {"allergy": "nuts"}),
        ("I'm allergic to nuts.", "I'm no longer allergic to nuts.", {}),
        ("I was born in Oslo.", "I left Oslo in May.", {"birthplace": "Oslo"}),
        ("My name is Rex.", "My dog Rex died.", {"name": "Rex"}),
        ("I studied physics.", "I gave up physics.", {"studied": "physics"}),
    ],
)
def test_what_the_user_stops_doing_ends_nothing_that_stays_true(
    teller: Teller, known: str, line: str, facts: dict[str, str]
) -> None:
    teller.tell(known)
    teller.now += 60

    teller.tell(line)

    assert {key: value for key, value in teller.facts().items() if key in ("avoids", *facts)} == facts


def test_routines_join_and_keep_their_own_conjunctions(teller: Teller) -> None:
    teller.tell("I go to the gym on Mondays and Fridays.")
    teller.now += 60
    teller.tell("I call my mother every Sunday.")
    teller.now += 60
    teller.tell("I go to the gym on Mondays and Fridays.")

    assert teller.facts() == {"routine": "go to the gym on Mondays and Fridays; call my mother every Sunday"}


@pytest.mark.parametrize(
    ("key", "before", "line", "left"),
    [
        ("allergy", "nuts, sesame and latex", "I'm no longer allergic to Sesame.", "nuts, latex"),
        ("allergy", "nuts and latex", "I'm no longer allergic to latex.", "nuts"),
        ("allergy", "nuts and latex", "I'm no longer allergic to kiwi.", "nuts and latex"),
        ("likes", "tea, rock and roll", "I no longer like rock and roll.", "tea"),
    ],
)
def test_an_item_of_a_list_ends_alone(teller: Teller, key: str, before: str, line: str, left: str) -> None:
    teller.memory.set_fact(key, before)
    teller.now += 60

    teller.tell(line)

    assert teller.facts() == {key: left}
    changes = [(item.kind, item.value, item.before) for item in teller.memory.learned()]
    assert changes == ([("changed", left, before)] if left != before else [])


def test_an_earlier_beginning_of_a_known_value_is_learned_and_a_later_one_is_not(teller: Teller) -> None:
    teller.tell("I live in Oslo.")
    teller.now += 60

    teller.tell("I've lived in Oslo since 2019.")
    teller.tell("I've lived in Oslo since 2019.")
    teller.tell("I've lived in Oslo since 2021.")

    assert [(item.kind, item.value, item.before) for item in teller.memory.learned()] == [
        ("learned", "Oslo", None),
        ("learned", "Oslo", None),
    ]
    [period] = teller.memory.fact_periods("location")
    assert datetime.fromtimestamp(period.since).year == 2019
    assert teller.memory.undo().state == "undone"
    assert [period.since for period in teller.memory.fact_periods("location")] == [START]


def test_standing_instructions_join_and_end_by_their_words(teller: Teller) -> None:
    teller.tell("Always use metric units.")
    teller.now += 60
    teller.tell("Thanks. Please never use emoji.")
    teller.now += 60
    teller.tell("When I ask about recipes, always give the weight in grams.")
    told = teller.facts()["instructions"]

    assert told == (
        "Always use metric units; never use emoji; When I ask about recipes, always give the weight in grams"
    )
    teller.now += 60
    teller.tell("You don't have to use metric units any more.")
    assert teller.facts()["instructions"] == told.removeprefix("Always use metric units; ")
    assert teller.memory.undo(teller.last().id).state == "undone"
    assert teller.facts()["instructions"] == told


def test_instructions_of_others_and_of_tasks_are_none(teller: Teller) -> None:
    teller.tell(
        "My boss said: always answer in German.",
        "Write a story: never use magic, said the wizard.",
        "> Always use tabs",
        "Should I always use metric units?",
        "Never mind.",
        "Never give up!",
        "From now on she kept her answers to herself.",
    )

    assert teller.facts() == {}


def test_an_end_that_does_not_name_its_relation_is_proposed_for_what_the_user_set(teller: Teller) -> None:
    teller.memory.set_fact("cat_name", "Rex")
    teller.now += 60

    teller.tell("My dog Rex died.")

    assert teller.facts() == {"cat_name": "Rex"}
    assert (teller.last().kind, teller.last().value) == ("proposed", "")
    teller.memory.accept()
    assert teller.facts() == {}
    teller.memory.undo()
    assert teller.facts() == {"cat_name": "Rex"}


def test_a_proposal_is_made_once_and_again_when_it_is_stated_again(teller: Teller) -> None:
    memory = teller.memory
    memory.set_fact("location", "Texas")
    teller.now += 60
    teller.tell("I live in Berlin.")
    teller.tell("I live in Berlin.", "Yes, I live in Berlin!")
    assert len(memory.learned()) == 1

    assert memory.reject().state == "rejected"
    assert memory.accept() is None
    assert memory.learned(waiting_only=True) == []
    teller.tell("I live in Berlin.")
    assert [item.value for item in memory.learned(waiting_only=True)] == ["Berlin"]

    teller.tell("I live in Rome.")
    assert [item.state for item in memory.learned()] == ["new", "expired", "rejected"]
    assert [item.value for item in memory.learned(waiting_only=True)] == ["Rome"]


@pytest.mark.parametrize("change", ["set", "cleared", "learned", "tool"])
def test_a_proposal_expires_when_the_fact_changes_otherwise(teller: Teller, change: str) -> None:
    memory = teller.memory
    memory.set_fact("location", "Texas")
    teller.now += 60
    teller.tell("I live in Berlin.")
    proposal = teller.last()
    teller.now += 60
    if change == "set":
        memory.set_fact("location", "Ohio")
    elif change == "cleared":
        memory.clear_fact("location")
    elif change == "tool":
        memory.set_fact("location", "Ohio", source="tool")
    else:
        teller.tell("I moved to Ohio.")

    assert memory.learned(waiting_only=True) == []
    assert next(item.state for item in memory.learned() if item.id == proposal.id) == "expired"
    assert memory.accept(proposal.id) is None
    assert memory.reject(proposal.id) is None
    assert teller.facts().get("location") != "Berlin"


def test_an_accepted_proposal_counts_as_set_and_can_be_undone(teller: Teller) -> None:
    memory = teller.memory
    memory.set_fact("location", "Texas")
    teller.now += 60
    teller.tell("I live in Berlin.")
    before = teller.state()
    teller.now += 60

    accepted = memory.accept()
    assert (accepted.state, memory.get_fact("location")) == ("accepted", "Berlin")
    assert memory.fact_history("location")[-1].statement == "I live in Berlin."
    assert memory.fact_periods("location")[-1].since == START + 60
    teller.now += 60
    teller.tell("I live in Rome.")
    assert [item.value for item in memory.learned(waiting_only=True)] == ["Rome"]

    memory.reject()
    assert teller.undoable() == {accepted.id}
    assert memory.undo(accepted.id).state == "undone"
    assert teller.state() == before
    assert memory.undo(accepted.id) is None


@pytest.mark.parametrize(
    ("known", "line"),
    [
        ({"location": "Texas"}, "I live in texas."),
        ({"location": "Austin, Texas"}, "I live in Texas."),
        ({"name": "Steve Miller"}, "I'm Steve."),
    ],
)
def test_what_says_nothing_new_proposes_nothing(teller: Teller, known: dict[str, str], line: str) -> None:
    for key, value in known.items():
        teller.memory.set_fact(key, value)
    teller.now += 60

    teller.tell(line)

    assert teller.facts() == known
    assert teller.memory.learned() == []


def test_an_imported_fact_is_contradicted_and_restored_without_a_history(teller: Teller) -> None:
    teller.memory.import_memories([{"type": "fact", "key": "location", "value": "Ohio", "updated_at": 5}])
    before = teller.state()
    teller.now += 60
    teller.tell("I moved to Texas.")
    assert len(teller.memory.fact_history()) == 2

    teller.memory.undo()

    assert teller.state() == before


def test_undo_of_what_changed_again_does_nothing_and_says_so(teller: Teller) -> None:
    teller.tell("I live in Oslo.")
    first = teller.last()
    teller.now += 60
    teller.tell("I moved to Rome.")
    second = teller.last()

    assert teller.undoable() == {second.id}
    assert teller.memory.undo(first.id).state == "new"
    assert teller.facts() == {"location": "Rome"}
    assert teller.memory.undo(second.id).state == "undone"
    assert teller.undoable() == {first.id}
    assert teller.memory.undo(first.id).state == "undone"
    assert teller.undoable() == frozenset()
    assert teller.facts() == {}
    assert teller.memory.fact_history() == []


def test_undo_leaves_a_fact_that_an_import_changed_since(teller: Teller) -> None:
    teller.tell("I live in Oslo.")
    teller.memory.import_memories(
        [{"type": "fact", "key": "location", "value": "Rome", "updated_at": START + 60}]
    )

    assert teller.undoable() == frozenset()
    assert teller.memory.undo(teller.last().id).state == "new"
    assert teller.facts() == {"location": "Rome"}


def test_a_proposal_is_not_undone_before_it_is_accepted(teller: Teller) -> None:
    teller.memory.set_fact("location", "Texas")
    teller.now += 60
    teller.tell("I live in Berlin.")

    assert teller.undoable() == frozenset()
    assert teller.memory.undo(teller.last().id) is None
    assert teller.memory.undo() is None
    assert teller.last().state == "new"


def test_values_that_were_undone_or_rejected_are_told_to_the_next_reading(teller: Teller) -> None:
    teller.memory.set_fact("location", "Texas")
    teller.now += 60
    teller.tell("I live in Berlin.")
    teller.tell("My dog is called Rex.")
    assert teller.memory.refused_values("steve") == frozenset()

    teller.memory.undo()
    assert teller.memory.refused_values("steve") == {"rex"}
    teller.memory.reject()
    assert teller.memory.refused_values("steve") == {"rex", "berlin"}
    assert teller.memory.refused_values("mary") == frozenset()


def test_undo_without_a_number_undoes_the_newest_that_can_be(teller: Teller) -> None:
    teller.tell("I live in Oslo.")
    teller.now += 60
    teller.tell("My dog is called Rex.")
    teller.memory.set_fact("dog_name", "Max")

    assert teller.memory.undo().value == "Oslo"
    assert teller.memory.undo() is None
    assert teller.facts() == {"dog_name": "Max"}


def test_what_was_kept_is_only_undone_by_its_number(teller: Teller) -> None:
    teller.tell("I live in Oslo.")
    item = teller.last()

    assert teller.memory.keep(item.id).state == "kept"
    assert teller.memory.keep(item.id) is None
    assert teller.memory.undo() is None
    assert teller.memory.undo(item.id).state == "undone"


def test_what_was_undone_is_not_learned_from_the_same_message_again(teller: Teller) -> None:
    teller.tell("I live in Oslo.", "I like it here.")
    teller.memory.undo(next(item.id for item in teller.memory.learned() if item.key == "location"))

    teller.memory.delete_last_turn(teller.session)
    while teller.memory.extraction.due_in() is not None:
        teller.work()
    assert "location" not in teller.facts()

    teller.tell("I live in Oslo.")
    assert teller.facts()["location"] == "Oslo"


# Of this memory, it isn't known which of several messages it came from.
UNSURE = (("How does bread rise?", "slowly, in a cold kitchen"),)
BREAD = "My bread needs three days to rise."


def learn_again(teller: Teller) -> None:
    """Delete the last message of a job that gave UNSURE; the others are extracted again."""
    teller.memory.delete_last_turn(teller.session)
    assert teller.memory.extraction.due_in() is not None
    while teller.memory.extraction.due_in() is not None:
        teller.work()


@pytest.mark.parametrize(
    ("key", "known", "line"),
    [
        ("employer", "Bosch", "I no longer work at Bosch."),
        ("allergy", "nuts, cats", "I'm no longer allergic to nuts."),
        ("allergy", "nuts, cats", "I'm allergic to latex."),
        ("allergy", "nuts", "I'm allergic to latex and kiwi."),
    ],
)
@pytest.mark.parametrize("source", ["user", "extraction"])
def test_a_change_that_was_undone_is_not_made_again(
    teller: Teller, key: str, known: str, line: str, source: str
) -> None:
    teller.memory.set_fact(key, known, source=source)
    teller.now += 60
    teller.tell(line, BREAD, context=UNSURE)
    [item] = [item for item in teller.memory.learned() if item.key == key]
    assert teller.memory.undo(item.id).state == "undone"

    learn_again(teller)

    assert teller.facts() == {key: known}
    teller.now += 60
    teller.tell(line)
    assert teller.facts() != {key: known}


def test_a_rejected_end_is_not_proposed_again(teller: Teller) -> None:
    teller.memory.set_fact("cat_name", "Rex")
    teller.now += 60
    teller.tell("My dog Rex died.", BREAD, context=UNSURE)
    assert teller.memory.reject().value == ""

    learn_again(teller)

    assert teller.facts() == {"cat_name": "Rex"}
    assert teller.memory.learned(waiting_only=True) == []


def test_what_else_a_message_says_is_learned_though_a_part_was_undone(teller: Teller) -> None:
    teller.memory.set_fact("allergy", "nuts, cats")
    teller.memory.set_fact("employer", "Bosch")
    teller.now += 60
    line = "I'm no longer allergic to nuts. I no longer work at Bosch. I'm allergic to latex."
    teller.tell(line, BREAD, context=UNSURE)
    [ended] = [item for item in teller.memory.learned() if item.key == "employer"]
    assert teller.memory.undo(ended.id).state == "undone"

    learn_again(teller)

    assert teller.facts() == {"allergy": "cats, latex", "employer": "Bosch"}


def tell_each(teller: Teller, *lines: str, context: tuple[tuple[str, str], ...] = UNSURE) -> None:
    """Tell lines at different times, and learn from all of them in one job."""
    job = OpenJob("test/1/a", len(lines))
    for line in lines:
        teller.memory.append_message(teller.session, Message("user", line), job=job)
        teller.now += 60
    teller.work(context=context)


def test_what_was_extracted_twice_goes_with_its_message(teller: Teller) -> None:
    tell_each(teller, "I live in Oslo.", "I work at Bosch.", BREAD)
    assert teller.facts() == {"location": "Oslo", "employer": "Bosch"}

    learn_again(teller)
    assert teller.facts() == {"location": "Oslo", "employer": "Bosch"}
    assert teller.memory.extraction.stats().facts == 2

    teller.memory.delete_last_turn(teller.session)
    assert teller.facts() == {"location": "Oslo"}
    teller.memory.delete_last_turn(teller.session)
    assert (teller.facts(), teller.memory.learned()) == ({}, [])


@pytest.mark.parametrize("then", ["waits", "runs", "is dropped", "is dead"])
def test_what_was_learned_goes_with_its_message_though_it_is_yet_to_be_extracted_again(
    teller: Teller, then: str
) -> None:
    memory, queue = teller.memory, teller.memory.extraction
    tell_each(teller, "I live in Oslo.", "I work at Bosch.", BREAD)
    memory.delete_last_turn(teller.session)
    [job] = queue.jobs()
    if then in ("runs", "is dead"):
        job = queue.claim("worker")
        assert job is not None
    if then == "is dead":
        assert queue.fail(job, "no", refused=True, most_refusals=1, retry_in_s=0)
    if then == "is dropped":
        assert queue.drop(job.id) == 1
        assert queue.jobs() == []

    memory.delete_last_turn(teller.session)
    assert teller.facts() == {"location": "Oslo"}
    memory.delete_last_turn(teller.session)
    assert (teller.facts(), memory.learned(), queue.jobs()) == ({}, [], [])
    assert memory.check().problems == ()


def test_a_message_that_is_taken_back_takes_along_what_is_left_of_it(teller: Teller) -> None:
    teller.tell("I live in Oslo and I work at Bosch.")
    assert teller.facts() == {"location": "Oslo", "employer": "Bosch"}
    teller.memory.clear_fact(teller.last().key, with_history=True)
    assert len(teller.facts()) == 1

    teller.memory.delete_last_turn(teller.session)

    assert teller.facts() == {}
    assert teller.memory.learned() == []


def test_undo_of_a_memory_removes_it_unless_it_was_edited_or_pinned(teller: Teller) -> None:
    memory = teller.memory
    line = "My bread needs three days to rise."
    for change in ("none", "edited", "pinned"):
        teller.tell(line, context=((f"How long does the bread need? {change}", "three days"),))
        item = teller.last()
        assert (item.kind, item.value, item.statement) == ("remembered", "three days", line)
        [record] = memory.list_memories()
        if change == "edited":
            memory.edit_memory(record.id, answer="four days")
            assert memory.undo(item.id) is None
        elif change == "pinned":
            memory.pin_memory(record.id)
            assert item.id not in teller.undoable()
            assert memory.undo(item.id).state == "new"
        else:
            assert item.id in teller.undoable()
            assert memory.undo(item.id).state == "undone"
            assert memory.count_memories() == 0
            continue
        assert memory.count_memories() == 1
        memory.delete_memory(record.id)
    assert memory.check().problems == ()


def test_what_a_tool_call_stores_is_listed_and_undone(teller: Teller) -> None:
    memory = teller.memory
    memory.set_fact("name", "Steve")
    before = teller.state()
    teller.now += 1
    memory.set_fact("name", "Stefan", source="tool")
    memory.set_fact("name", "Stefan", source="tool")
    memory.store_memory("Which editor?", "Helix", source="tool")
    memory.store_memory("Which editor?", "Helix", source="tool")
    memory.clear_fact("name", source="tool")

    assert [item.kind for item in memory.learned()] == ["ended", "remembered", "changed"]
    while memory.undo() is not None:
        pass
    assert teller.state() == before


def test_numbers_count_the_items_of_their_user_and_are_not_given_twice(teller: Teller) -> None:
    memory = teller.memory
    for n in range(3):
        memory.set_fact(f"other{n}", "x", "mary", source="tool")
        memory.set_fact(f"key{n}", "x", source="tool")
        assert [item.id for item in memory.learned()] == list(range(n + 1, 0, -1))

    memory.clear_fact("key2", with_history=True)
    memory.set_fact("key3", "x", source="tool")

    assert [(item.id, item.key) for item in memory.learned()] == [(4, "key3"), (2, "key1"), (1, "key0")]
    undone = memory.undo(2)
    assert undone is not None
    assert (undone.key, memory.get_fact("key1")) == ("key1", None)
    assert [item.state for item in memory.learned(user_id="mary")] == ["new"] * 3


def test_claimed_items_get_the_next_numbers_and_are_no_news(teller: Teller) -> None:
    memory = teller.memory
    for user, n in (("mary", 1), ("mary", 2), ("steve", 3)):
        memory.set_fact(f"key{n}", "x", user, source="tool")
    memory.take_news()

    memory.claim("mary")

    assert [(item.id, item.key) for item in memory.learned()] == [(3, "key2"), (2, "key1"), (1, "key3")]
    assert memory.take_news() == []
    memory.set_fact("key4", "x", source="tool")
    memory.set_fact("key5", "x", "mary", source="tool")
    assert [item.id for item in memory.take_news()] == [4]
    assert [item.id for item in memory.learned(user_id="mary")] == [1]


def test_items_are_listed_in_pages_and_by_user(teller: Teller) -> None:
    for n in range(5):
        teller.memory.set_fact(f"key{n}", "x", source="tool")
        if n:
            teller.memory.set_fact(f"key{n}", "x", "mary", source="tool")

    items = teller.memory.learned()
    assert [item.key for item in items] == [f"key{n}" for n in (4, 3, 2, 1, 0)]
    assert teller.memory.learned(2, items[1].id) == items[2:4]
    assert teller.memory.learned_since(items[2].id) == [items[1], items[0]]
    assert teller.memory.learned_since(0) == items[::-1]
    for action in (teller.memory.keep, teller.memory.undo, teller.memory.accept, teller.memory.reject):
        assert action(items[0].id, "mary") is None
    assert teller.memory.learned(user_id="unknown") == []
    assert teller.memory.undo(None, "") is None


@pytest.mark.parametrize("item_id", [0, -1, 1 << 63, 10**30])
def test_a_number_that_no_item_can_have_is_no_item(teller: Teller, item_id: int) -> None:
    teller.tell("I live in Oslo.")

    for action in (teller.memory.keep, teller.memory.undo, teller.memory.accept, teller.memory.reject):
        assert action(item_id) is None
    assert teller.memory.learned(before_id=item_id) in ([], teller.memory.learned())
    assert teller.memory.learned_since(item_id) in ([], teller.memory.learned())


# ---- forgetting


def everything(memory: Memory) -> str:
    """All texts of facts and of what was learned, as the database holds them."""
    tables = ("facts", "fact_history", "learned", "extraction_jobs")
    rows = memory.transactions.read(
        lambda connection: [connection.execute(f"SELECT * FROM {table}") for table in tables]
    )
    return str(rows)


def test_a_value_that_is_forgotten_with_its_history_is_nowhere(teller: Teller) -> None:
    memory = teller.memory
    teller.tell("My name is Anna and I live in Kyiv.")
    teller.now += 60
    teller.tell("I no longer live in Kyiv.")
    teller.now += 60
    teller.tell("I live in Lviv.")
    memory.set_fact("home", "x")
    memory.clear_fact("home", with_history=True)
    memory.set_fact("location", "Oslo")
    teller.now += 60
    teller.tell("I live in Bergen.")
    assert "Kyiv" in everything(memory)
    assert "Bergen" in everything(memory)

    assert memory.clear_fact("location", with_history=True)

    left = everything(memory)
    for value in ("Kyiv", "Lviv", "Oslo", "Bergen"):
        assert value not in left
    assert teller.facts() == {"name": "Anna"}


def test_a_memory_that_is_forgotten_is_not_in_the_list(teller: Teller) -> None:
    teller.tell("My bread needs three days.", context=(("How long does the bread need?", "three days"),))
    [record] = teller.memory.list_memories()

    teller.memory.delete_memory(record.id)

    assert "bread" not in everything(teller.memory)


def test_a_deleted_turn_takes_its_sentences_along(teller: Teller) -> None:
    teller.tell("I live in Oslo and my dog is called Rex.")
    teller.memory.set_fact("dog_name", "Max")

    teller.memory.delete_last_turn(teller.session)

    assert teller.facts() == {"dog_name": "Max"}
    assert "Oslo" not in everything(teller.memory)
    assert "I live" not in everything(teller.memory)


def test_a_deleted_conversation_takes_its_sentences_along(teller: Teller) -> None:
    teller.tell("I live in Oslo.")

    teller.memory.clear_session(teller.session)

    assert teller.facts() == {"location": "Oslo"}
    assert "I live" not in everything(teller.memory)
    assert teller.memory.undo().state == "undone"


def test_a_sentence_with_a_secret_is_not_kept(teller: Teller) -> None:
    teller.tell("I live in Oslo and my wifi password is hunter2hunter2.")

    assert teller.facts() == {"location": "Oslo"}
    assert "hunter2" not in everything(teller.memory)


def test_a_claimed_list_can_still_be_undone_and_accepted(teller: Teller) -> None:
    memory = teller.memory
    line = "My bread needs three days to rise."
    memory.set_fact("location", "Texas")
    before = teller.facts()
    teller.now += 60
    teller.tell("I live in Berlin.", "My dog is called Rex.", line, context=(("Bread?", "three days"),))
    ids = [item.id for item in memory.learned()]

    memory.claim("steve", "anna")

    assert memory.learned() == []
    assert [item.id for item in memory.learned(user_id="anna")] == ids
    assert memory.accept(None, "anna").value == "Berlin"
    assert memory.get_fact("location", "anna") == "Berlin"
    for _ in range(3):
        assert memory.undo(None, "anna") is not None
    assert memory.undo(None, "anna") is None
    assert {fact.key: fact.value for fact in memory.get_all_facts("anna")} == before
    assert memory.count_memories("anna") == 0


def test_evidence_and_beginnings_survive_an_export(teller: Teller, tmp_path) -> None:
    teller.tell("I've lived in Oslo since 2019.")
    lines = list(teller.memory.export_memories())

    with Memory(tmp_path / "other.db", user_id="steve", clock=lambda: teller.now) as other:
        other.import_memories(lines)
        assert other.fact_periods() == teller.memory.fact_periods()
        assert other.facts_at(START - 90 * DAY)[0].value == "Oslo"
        assert list(other.export_memories())[1:] == lines[1:]


# ---- memories that were forgotten by mistake


def test_a_forgotten_memory_is_restored_exactly(teller: Teller) -> None:
    memory = teller.memory
    first = memory.store_memory("Where is the key?", "Under the mat", source="turn", session=teller.session)
    memory.store_memory("Where is the cat?", "On the mat")
    memory.pin_memory(first)
    memory.search("key")
    memory.recall("Where is the key?")
    before = list(memory.export_memories()), memory.search("key mat"), memory.activity()
    teller.now += 60
    memory.delete_memory(first)
    assert memory.search("key") == []
    assert memory.restore_forgotten(first, "mary") is None

    restored = memory.restore_forgotten(first)

    assert restored is not None
    assert restored.id == first
    after = list(memory.export_memories())
    assert [{**line, "exported_at": 0} for line in after] == [
        {**line, "exported_at": 0} for line in before[0]
    ]
    assert [result.id for result in memory.search("key mat")] == [result.id for result in before[1]]
    assert memory.restore_forgotten(first) is None
    assert memory.check().problems == ()


def test_the_last_forgotten_memories_are_restored_one_by_one(teller: Teller) -> None:
    memory = teller.memory
    for n in range(210):
        memory.store_memory("same question", str(n))
    assert memory.clear_memory("same question") == 210

    assert memory.restore_forgotten().answer == "209"
    assert memory.restore_forgotten().answer == "208"
    n = 0
    while memory.restore_forgotten() is not None:
        n += 1
    assert n == 198
    assert memory.check().problems == ()


# ---- in any order

VALUES = ("Oslo", "Rome", "Lima")


class Model:
    """What learning, undo, accepting and rejecting do to one fact, in a few lines."""

    def __init__(self) -> None:
        # (value, is learned, item), the last one holds; a value None was cleared.
        self.changes: list[tuple[str | None, bool, int]] = []
        # Waiting proposals with the changes that they contradict.
        self.waiting: dict[int, tuple[str, int]] = {}
        # All that undoing an item has to restore.
        self.states: dict[int, object] = {}

    @property
    def value(self) -> str | None:
        return self.changes[-1][0] if self.changes else None

    def waits(self, item: int) -> bool:
        return item in self.waiting and self.waiting[item][1] == len(self.changes)


@settings(max_examples=examples(60))
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["state", "move", "end", "set", "clear", "undo", "accept", "reject", "keep"]),
            st.sampled_from(VALUES),
            st.integers(0, 30),
        ),
        max_size=25,
    )
)
def test_any_order_of_learning_and_deciding_is_as_in_a_model(tmp_path_factory, steps) -> None:
    teller = Teller(str(tmp_path_factory.mktemp("model") / "memory.db"))
    model = Model()
    with teller.memory as memory:
        for action, value, pick in steps:
            teller.now += 10
            if action in LINES:
                tell(teller, model, action, value)
            elif action == "set":
                memory.set_fact("location", value)
                if model.value != value:
                    model.changes.append((value, False, 0))
            elif action == "clear":
                if memory.clear_fact("location"):
                    model.changes.append((None, False, 0))
            else:
                decide(teller, model, action, pick)
            assert memory.get_fact("location") == model.value
            waiting = {item.id for item in memory.learned(waiting_only=True)}
            assert waiting == {number for number in model.waiting if model.waits(number)}
            check_periods(memory, int(teller.now))


LINES = {"state": "I live in {}.", "move": "I moved to {}.", "end": "I no longer live in {}."}


def tell(teller: Teller, model: Model, action: str, value: str) -> None:
    before, newest = teller.state(), max((item.id for item in teller.memory.learned(1)), default=0)
    teller.tell(LINES[action].format(value))
    new = teller.memory.learned_since(newest)
    is_set = model.value is not None and not model.changes[-1][1]
    if action == "state" and is_set and model.value != value:
        waiting = [number for number in model.waiting if model.waits(number)]
        assert len(new) == all(model.waiting[number][0] != value for number in waiting)
        for item in new:
            for number in waiting:
                del model.waiting[number]
            model.waiting[item.id] = (value, len(model.changes))
        return
    assert len(new) == ((model.value == value) if action == "end" else (model.value != value))
    for item in new:
        model.changes.append((None if action == "end" else value, True, item.id))
        model.states[item.id] = before


def decide(teller: Teller, model: Model, action: str, pick: int) -> None:
    memory, before = teller.memory, teller.state()
    items = memory.learned()
    if not items:
        assert memory.undo() is memory.accept() is memory.reject() is None
        return
    item = items[pick % len(items)]
    done = getattr(memory, action)(item.id)
    if action == "accept":
        assert (done is not None) == model.waits(item.id)
        if done is not None:
            model.changes.append((done.value, False, item.id))
            del model.waiting[item.id]
            model.states[item.id] = before
    elif action == "reject":
        assert (done is not None) == model.waits(item.id)
        model.waiting.pop(item.id, None)
    elif action == "undo":
        is_last = bool(model.changes) and model.changes[-1][2] == item.id
        assert (done is not None and done.state == "undone") == is_last
        if is_last:
            model.changes.pop()
        assert teller.state() == (model.states[item.id] if is_last else before)


def check_periods(memory: Memory, now: int) -> None:
    """Compare what held at each moment with a replay of the history."""
    changes = memory.fact_history()
    moments = {change.valid_from for change in changes} | {now}
    for moment in sorted(moments | {m - 1 for m in moments} | {m + 1 for m in moments}):
        held = None
        # The change recorded last of those that say something about the moment.
        for change in changes:
            if change.valid_from <= moment:
                held = change.value
        assert [fact.value for fact in memory.facts_at(moment)] == ([held] if held else [])
    assert [f.value for f in memory.facts_at(now)] == [f.value for f in memory.get_all_facts()]


def test_the_check_finds_items_whose_memory_is_gone(teller: Teller) -> None:
    memory = teller.memory
    memory.store_memory("Which editor?", "Helix", source="tool")
    memory.transactions.write(
        "steve", lambda connection: connection.execute("UPDATE learned SET memory_id = 7") and None
    )

    assert memory.check().problems == ("1 learned item belongs to no memory",)
    assert memory.check(repair=True).ok
    assert "Helix" not in str(memory.learned())
    assert memory.check().problems == ()


SECRET = "I live in Oslo, my key is sk-ant-api03-" + "aB3dE6gH9" * 8


def test_a_secret_in_a_sentence_is_not_imported_and_is_named_by_the_audit(database: str) -> None:
    line = {"type": "fact-change", "key": "location", "value": "Oslo", "statement": SECRET}

    with Memory(database, user_id="steve") as memory:
        memory.import_memories([line])
        assert [(c.value, c.statement) for c in memory.fact_history()] == [("Oslo", "")]
        assert memory.audit() == []
    with Memory(database, user_id="anna", keeps_secrets=True) as memory:
        memory.import_memories([line])
        assert [finding.kind for finding in memory.audit()] == ["secret"]


def test_facts_that_the_user_set_are_told_from_learned_ones(teller: Teller) -> None:
    teller.memory.set_fact("location", "Texas")
    teller.memory.set_fact("location", "Ohio", user_id="mary")
    teller.now += 60
    teller.tell("My dog is called Rex.")

    assert [fact.value for fact in teller.memory.facts_set_by_user("steve")] == ["Texas"]
    teller.tell("I moved to Berlin.")  # a change, which is learned
    assert teller.memory.facts_set_by_user("steve") == []
