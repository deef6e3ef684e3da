"""People move to wards, banks and apps, and live in leggings: only a place is a home."""

from __future__ import annotations

import pytest

from shepherd.claims.corrections import corrected_facts
from shepherd.claims.judge import plain_facts
from shepherd.types import Fact


def location(message: str) -> str | None:
    return {verdict.key: verdict.value for verdict in plain_facts(message)}.get("location")


@pytest.mark.parametrize(
    "message",
    [
        "I moved from A&E to ITU",
        "I moved from Leeds General to Bradford Royal",
        "I moved from Barclays to HSBC",
        "I moved from Hargreaves to Dunelm",
        "I moved to Monzo",
        "I moved to Tesco Mobile last month",
        "I moved to Ward 9",
        "I moved to Octopus for my energy",
        "I moved over to the Conservatives",
        "I live in Jira",
        "I live in Lidl leggings",
        "I live in the Matrix",
        "I live in Levi's and hoodies",
        "I moved to Claude from ChatGPT",
        "I moved from Berlin to Ulm and back",
        "I moved from Berlin to Zelp University",
        "I settled in Row F for the show",
        "I moved to Terminal 5 of Heathrow by bus",
        "We found a house in Denver, we're moving on the 1st of March",
        "I found a flat in Lisbon on Airbnb for our holiday",
        "I've just moved in with my sister in Leeds until my flat is fixed",
    ],
)
def test_what_is_no_place_is_no_home(message):
    assert location(message) is None


@pytest.mark.parametrize(
    ("message", "home"),
    [
        ("I moved to Nether Wallop last week", "Nether Wallop"),
        ("I've moved to Toul", "Toul"),
        ("I moved from Ormskirk to Kirkby", "Kirkby"),
        ("We moved from Zelp to Ombo, the house has a garden", "Ombo"),
        ("I moved from Berlin to Zelp", "Zelp"),
        ("I moved to the Isle of Skye", "Isle of Skye"),
        ("I've moved to the US for good", "US"),
        ("I live in Orange", "Orange"),
        ("I live in Zelp and my phone has no signal, for my broadband see below", "Zelp"),
        ("I live in Chapel Allerton, Leeds", "Chapel Allerton, Leeds"),
        ("I moved to Zelp for the music scene", "Zelp"),
        ("I moved from Bosch to London last year.", "London"),
        ("I live in NRW", "NRW"),
    ],
)
def test_towns_that_no_list_knows_are_homes(message, home):
    assert location(message) == home


@pytest.mark.parametrize(
    ("message", "corrected"),
    [
        ("I moved from Bosch to Siemens", ("employer", "Siemens")),
        ("I've just moved from Bosch to Siemens, same role", ("employer", "Siemens")),
        ("I moved from Zelp to Ombo", ("location", "Ombo")),
        ("I moved from Bosch to Stuttgart", None),
        ("I left Bosch for Siemens", ("employer", "Siemens")),
        ("I left Bosch for Anna, she has a job in Rome", None),
        ("I moved from Bosch to Berlin.", None),
        ("I switched from Bosch to Siemens", None),
        ("I switched jobs from Bosch to Zelp", ("employer", "Zelp")),
        ("I've moved from Bosch to Makita, better salary", ("employer", "Makita")),
        ("I moved from Bosch to Makita", None),
        ("I moved from Bosch to Siemens phones", None),
        ("We moved from Bosch to Siemens", None),
        ("I moved from Bosch to Siemens. I moved from Siemens to ABB.", ("employer", "ABB")),
        ("I moved from Bosch to Siemens and hated it, so I'm back at Bosch.", None),
        ("I went from Zelp to Paris by train", None),
        ("We've gone from Zelp to Madeira for our honeymoon", None),
        ("I moved from Zelp to the Leeds office", None),
        ("I moved from Zelp to Leeds and back", None),
        ("We left Zelp for Ombo on Friday", None),
        ("I left Bosch for Christmas", None),
        ("I left Bosch for Lent", None),
        ("I might have moved from Bosch to Siemens", None),
        ("I moved from Zelp to Netflix", None),
        ("My boss moved from Bosch to Siemens", None),
    ],
)
def test_what_is_known_says_whether_a_move_is_one_of_jobs_or_of_homes(message, corrected):
    facts = [Fact("employer", "Bosch", 0, 0), Fact("location", "Zelp", 0, 0)]

    found = [(one.key, one.value) for one in corrected_facts(message, facts)]

    assert found == ([] if corrected is None else [corrected])


@pytest.mark.parametrize(
    ("message", "is_certain"),
    [("I moved from Bosch to Siemens", False), ("I changed jobs from Bosch to Siemens", True)],
)
def test_only_a_word_of_work_makes_a_new_employer_certain(message, is_certain):
    found = corrected_facts(message, [Fact("employer", "Bosch", 0, 0)])

    assert [one.changes for one in found] == [is_certain]
