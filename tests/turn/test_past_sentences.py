"""What a fact was once, since when it holds, and what changed, in sentences."""

from __future__ import annotations

from datetime import datetime

import pytest

from shepherd.turn.fact_sentences import past_clause
from shepherd.turn.past_sentences import told_of_past
from shepherd.types import PastFact


def at(day: str) -> int:
    return int(datetime.fromisoformat(day).timestamp())


MARCH, MAY = at("2026-03-02"), at("2026-05-31T18:00")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("location", "Berlin", "you lived in Berlin"),
        ("origin", "Graz", "you were from Graz"),
        ("employer", "Bosch", "you worked at Bosch"),
        ("employer", "hospital", "you worked at a hospital"),
        ("job", "hospice", "you worked in a hospice"),
        ("job", "a kitchen shop", "you worked in a kitchen shop"),
        ("job", "shop assistant", "you worked as a shop assistant"),
        ("likes", "tea", "you liked tea"),
        ("learning", "Czech", "you were learning Czech"),
        ("studies", "law", "you studied law"),
        ("drives", "a Kia", "you drove a Kia"),
        ("grew_up_in", "Kent", "you grew up in Kent"),
        ("born_in", "Kent", "you were born in Kent"),
        ("fears", "spiders", "you were afraid of spiders"),
        ("cat_name", "Tom", "your cat was called Tom"),
        ("sister_location", "Ulm", "your sister lived in Ulm"),
        ("job", "nurse", "you worked as a nurse"),
        ("job", "head of sales", "you worked as the head of sales"),
        ("job", "accounting", "your job was accounting"),
        ("job", "Plumbing", "your job was Plumbing"),
        ("runs", "small bakery in Gdynia", "you ran a small bakery in Gdynia"),
        ("runs", "marathons", "you ran marathons"),
        ("runs", "the shop", "you ran the shop"),
        ("runs", "Crumb", "you ran Crumb"),
        ("pets", "two cats", "you had two cats"),
        ("routine", "swim at six", "routine: swim at six"),
    ],
)
def test_what_held_once_is_told_in_the_past(key, value, said):
    assert past_clause(key, value) == said


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (PastFact("held", "location", "Berlin", MARCH, MAY), "Until 31 May 2026, you lived in Berlin."),
        (PastFact("held", "location", "Oslo", MAY), "As of 31 May 2026, you live in Oslo."),
        (PastFact("then", "location", "Oslo", MARCH, None, "2026"), "In 2026, you lived in Oslo."),
        (PastFact("then", "location", "Oslo", MARCH, MAY, "March 2026"), "In March 2026, you lived in Oslo."),
        (PastFact("then", "location", "Oslo", 0, MAY, "2026-03-05"), "On 5 March 2026, you lived in Oslo."),
        (
            PastFact("then", "location", "Oslo", 0, MAY, "2026-03-01 to 2026-05-31"),
            "From 1 March 2026 to 31 May 2026, you lived in Oslo.",
        ),
        (
            PastFact("since", "employer", "Bosch", MARCH),
            "Since 2 March 2026, as far as I know: you work at Bosch.",
        ),
        (
            PastFact("known", "employer", "Bosch", MARCH),
            "I don't know. The earliest I know of is from 2 March 2026: you work at Bosch.",
        ),
        (
            PastFact("known", "employer", "Bosch", MARCH, MAY),
            "I don't know. The earliest I know of is from 2 March 2026: you worked at Bosch then.",
        ),
        # "Since 2019" and "since March 2021" are stored as the first second of it.
        (
            PastFact("since", "location", "Oslo", at("2019-01-01")),
            "Since 2019, as far as I know: you live in Oslo.",
        ),
        (
            PastFact("since", "location", "Oslo", at("2021-03-01")),
            "Since March 2021, as far as I know: you live in Oslo.",
        ),
        (
            PastFact("since", "location", "Oslo", at("2019-01-01T18:00")),
            "Since 1 January 2019, as far as I know: you live in Oslo.",
        ),
        (
            PastFact("known", "employer", "Bosch", at("2019-01-01")),
            "I don't know. The earliest I know of is from 2019: you work at Bosch.",
        ),
        (
            PastFact("held", "location", "Oslo", at("2019-01-01"), at("2021-03-01")),
            "Until March 2021, you lived in Oslo.",
        ),
        (PastFact("began", "employer", "Bosch", MARCH), "As of 2 March 2026, you work at Bosch."),
        (
            PastFact("began", "employer", "Bosch", MARCH, MAY),
            "From 2 March 2026 to 31 May 2026, you worked at Bosch.",
        ),
        (PastFact("ended", "employer", "Bosch", MARCH, MAY), "Until 31 May 2026, you worked at Bosch."),
    ],
)
def test_each_fact_of_another_time_is_told_with_that_time(fact, said):
    assert told_of_past([fact, fact]) == said


def test_several_are_told_in_their_order():
    found = [PastFact("held", "location", "Ulm", 0, MARCH), PastFact("held", "location", "Bonn", MARCH, MAY)]

    assert (
        told_of_past(found) == "Until 2 March 2026, you lived in Ulm. Until 31 May 2026, you lived in Bonn."
    )
