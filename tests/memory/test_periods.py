"""The times that a question names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.text import keywords
from shepherd.errors import UsageError
from shepherd.memory import Memory, Turn
from shepherd.memory.periods import (
    beginning,
    day_of,
    mentions_time,
    moment_of,
    named_periods,
    named_times,
    without_time,
)

UTC = timezone.utc
# A Wednesday.
NOW = datetime(2023, 11, 15, 12, 30, tzinfo=UTC).timestamp()


def days(text: str) -> list[tuple[str, str]]:
    """First and last day of each period."""
    periods = named_periods(text, NOW, UTC)
    return [
        (
            datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d"),
            (datetime.fromtimestamp(end, UTC) - timedelta(seconds=1)).strftime("%Y-%m-%d"),
        )
        for first, end in periods
    ]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What happened on 3 May 2023?", "2023-05-03", "2023-05-03"),
        ("What happened on May 3rd, 2023?", "2023-05-03", "2023-05-03"),
        ("the 2nd of February 2020", "2020-02-02", "2020-02-02"),
        ("2023-05-03", "2023-05-03", "2023-05-03"),
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("Feb. 2020", "2020-02-01", "2020-02-29"),
        ("December, 2022", "2022-12-01", "2022-12-31"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("today", "2023-11-15", "2023-11-15"),
        ("Yesterday?", "2023-11-14", "2023-11-14"),
        ("last week", "2023-11-06", "2023-11-15"),
        ("this month", "2023-11-01", "2023-11-15"),
        ("last year", "2022-01-01", "2023-11-15"),
        ("last spring", "2023-03-01", "2023-05-31"),
        ("this past summer", "2023-06-01", "2023-08-31"),
        ("last autumn", "2022-09-01", "2022-11-30"),
        ("this fall", "2023-09-01", "2023-11-30"),
        ("last winter", "2022-12-01", "2023-02-28"),
        ("this winter", "2022-12-01", "2023-02-28"),
        ("in the summer of 2022", "2022-06-01", "2022-08-31"),
        ("since winter 2019", "2019-12-01", "2023-11-15"),
        ("two days ago", "2023-11-13", "2023-11-13"),
        ("a week ago", "2023-11-05", "2023-11-11"),
        ("the day before yesterday", "2023-11-13", "2023-11-13"),
        ("a year ago", "2022-05-17", "2023-05-16"),
        ("half a year ago", "2023-02-15", "2023-08-16"),
        ("since March", "2023-03-01", "2023-11-15"),
        ("since last December", "2022-12-01", "2023-11-15"),
        ("since early March 2022", "2022-03-01", "2023-11-15"),
        ("since the 3rd of May", "2023-05-03", "2023-11-15"),
        ("since 2021", "2021-01-01", "2023-11-15"),
        ("since yesterday", "2023-11-14", "2023-11-15"),
        ("since the day before yesterday", "2023-11-13", "2023-11-15"),
        ("since two days ago", "2023-11-13", "2023-11-15"),
        ("this week", "2023-11-13", "2023-11-15"),
        ("past week", "2023-11-06", "2023-11-15"),
        ("last month", "2023-10-01", "2023-11-15"),
        ("this year", "2023-01-01", "2023-11-15"),
        ("past year", "2022-01-01", "2023-11-15"),
        ("ten days ago", "2023-11-05", "2023-11-05"),
        ("12 weeks ago", "2023-08-20", "2023-08-26"),
        ("three months ago", "2023-08-02", "2023-09-01"),
        ("half a month ago", "2023-10-24", "2023-11-07"),
        ("999 years ago", "1923-06-11", "1924-06-09"),
        ("on 2023-11-15", "2023-11-15", "2023-11-15"),
        ("sept 2023", "2023-09-01", "2023-09-30"),
        ("in 1999", "1999-01-01", "1999-12-31"),
        ("29 February 2020", "2020-02-29", "2020-02-29"),
        ("31 December 2022", "2022-12-31", "2022-12-31"),
    ],
)
def test_period_is_what_was_said(text: str, first: str, last: str) -> None:
    assert days(text) == [(first, last)]
    assert mentions_time(keywords(text))


@pytest.mark.parametrize("text", ["room 418 on floor 12", "1250 sheep", "call 5551234", "version 2100"])
def test_a_number_that_is_no_year_says_nothing_of_when(text: str) -> None:
    assert days(text) == []
    assert not mentions_time(keywords(text))


def test_month_without_a_year_is_that_of_every_late_year() -> None:
    assert days("what did we cook in May?")[:2] == [
        ("2023-05-01", "2023-05-31"),
        ("2022-05-01", "2022-05-31"),
    ]
    assert days("during december")[0] == ("2022-12-01", "2022-12-31")


def test_several_times_are_several_periods() -> None:
    assert days("between 3 May 2023 and June 2023") == [
        ("2023-05-03", "2023-05-03"),
        ("2023-06-01", "2023-06-30"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "may I ask?",
        "I may go",
        "we march on",
        "version 2023.1 of the 45 tests",
        "31 February 2023",
        "in May 2099",
        "the last of us",
        "1.5 years ago",
        "since March 2099",
        "",
        "what is my name?",
    ],
)
def test_what_names_no_time_gives_none(text: str) -> None:
    assert days(text) == []


def test_what_a_text_says_beside_its_times_is_told_apart() -> None:
    text = "Yesterday, two days ago, four years ago or in May 2023: WHAT"

    times = named_times(text, NOW, UTC)

    assert keywords(times.text) == ["four", "year", "ago", "may", "2023"]
    assert keywords(times.dated) == ["may", "2023"]
    assert times.undated.split() == [",", ",", "or", "in", ":", "what"]


def test_what_stands_behind_the_first_two_thousand_characters_is_kept() -> None:
    times = named_times("yesterday" + " " * 2000 + "yesterday", NOW, UTC)

    assert (times.text.split(), times.undated.split()) == (["yesterday"], ["yesterday"])


def test_many_times_are_cut_off() -> None:
    assert (
        len(named_periods("May and " * 5 + " in may, in june, in july, in april, in march", NOW, UTC)) == 16
    )


def test_memory_of_the_month_that_is_asked_for_comes_first(memory: Memory) -> None:
    for month in (3, 5, 7):
        when = datetime(2023, month, 10, 12, tzinfo=UTC).timestamp()
        memory.archive_turn(
            Turn(f"We cooked a soup, number {month}.", "", timestamp=when, session=f"s{month}")
        )

    assert memory.search("Which soup did we cook in May?")[0].question == "We cooked a soup, number 5."
    assert memory.search("Which soup did we cook in March?")[0].question == "We cooked a soup, number 3."


# ---- summer time

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(scope="module")
def in_berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("asked_in", [1, 7])
@pytest.mark.parametrize("month", [1, 7])
def test_day_of_the_other_half_of_the_year_begins_at_its_midnight(
    in_berlin: None, asked_in: int, month: int
) -> None:
    now = datetime(2024, asked_in, 15, 12, tzinfo=BERLIN).timestamp()
    midnight = datetime(2023, month, 3, tzinfo=BERLIN)

    [period] = named_periods(f"What was on 2023-{month:02}-03?", now)

    assert period == (midnight.timestamp(), (midnight + timedelta(days=1)).timestamp())


@given(
    now=st.integers(1_600_000_000, 1_800_000_000),
    text=st.sampled_from(["yesterday", "last week", "last year", "on 3 July", "in 2021", "six months ago"]),
)
def test_local_time_is_that_of_its_zone_whenever_it_is_asked(in_berlin: None, now: int, text: str) -> None:
    assert named_periods(text, now) == named_periods(text, now, BERLIN)


def test_month_without_a_year_is_that_of_each_of_five_years() -> None:
    assert days("in May") == [(f"{year}-05-01", f"{year}-05-31") for year in range(2023, 2018, -1)]
    assert days("in December") == [(f"{year}-12-01", f"{year}-12-31") for year in range(2022, 2018, -1)]


def test_day_that_begins_this_very_second_is_no_future() -> None:
    midnight = datetime(2023, 11, 15, tzinfo=UTC).timestamp()

    assert named_periods("15 November", midnight, UTC)[0] == (int(midnight), int(midnight) + 86_400)
    assert named_periods("16 November 2023", midnight, UTC) == []


@pytest.mark.parametrize(
    ("sentence", "value", "is_change", "day"),
    [
        ("I've lived in Oslo since 2019", "Oslo", False, "2019-01-01"),
        ("I have lived in Oslo since March 2020", "Oslo", False, "2020-03-01"),
        ("Ich wohne seit 2019 in Oslo", "Oslo", False, "2019-01-01"),
        ("I've lived in Oslo for five years", "Oslo", False, "2018-11-16"),
        ("I've lived in Oslo for half a year", "Oslo", False, "2023-05-17"),
        ("I've lived in Oslo for about ten days", "Oslo", False, "2023-11-05"),
        ("I moved to Oslo two months ago", "Oslo", True, "2023-09-16"),
        ("I moved to Oslo last month", "Oslo", True, "2023-10-01"),
        ("I moved to Oslo on 3 May 2023", "Oslo", True, "2023-05-03"),
        ("I moved to Oslo, and last month I was in Rome", "Oslo", True, None),
        ("I moved to Oslo, and last month I was in Rome", "Rome", True, "2023-10-01"),
        ("I moved to Oslo for two years", "Oslo", True, None),
        ("I live in Oslo, where I was last month", "Oslo", False, None),
        ("I live in Oslo", "Oslo", False, None),
        ("I moved to Oslo in 2099", "Oslo", True, None),
        ("I live in Oslo since 1969", "Oslo", False, None),
        ("I live in Oslo since 1971", "Oslo", False, "1971-01-01"),
    ],
)
def test_a_sentence_says_when_what_it_states_began(
    sentence: str, value: str, is_change: bool, day: str | None
) -> None:
    began = beginning(sentence, value, int(NOW), is_change=is_change, zone=UTC)

    assert (datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d") if began else None) == day


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("Bosch last month", "Bosch"),
        ("Bosch, since the last summer", "Bosch"),
        ("Bosch two years ago", "Bosch"),
        ("Bosch for 3 weeks", "Bosch"),
        ("Bosch in 2019", "Bosch"),
        ("Bosch in May", "Bosch"),
        ("Bosch last May", "Bosch"),
        ("Bosch just yesterday", "Bosch"),
        ("Theresa May", "Theresa May"),
        ("Area 2019", "Area 2019"),
        ("yesterday", "yesterday"),
        (" yesterday", " yesterday"),
    ],
)
def test_words_of_time_at_the_end_are_no_part_of_a_value(value: str, left: str) -> None:
    assert without_time(value) == left


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023-05-03", "2023-05-03T23:59:59"),
        (" 2022-12-31 ", "2022-12-31T23:59:59"),
        ("2023-11-15", "2023-11-15T12:30"),
        ("2023-11", "2023-11-15T12:30"),
        ("2023-10", "2023-10-31T23:59:59"),
        ("2022-12", "2022-12-31T23:59:59"),
        ("2022", "2022-12-31T23:59:59"),
        ("2023", "2023-11-15T12:30"),
        ("2023-05-03T04:05", "2023-05-03T04:05"),
        ("2023-05-03T04:05Z", "2023-05-03T04:05"),
        ("2023-05-03T04:05+02:00", "2023-05-03T02:05"),
        ("2099-05-03T04:05", "2099-05-03T04:05"),
        ("yesterday", "2023-11-14T23:59:59"),
        ("May 2023", "2023-05-31T23:59:59"),
    ],
)
def test_a_date_is_the_moment_at_its_end(text: str, moment: str) -> None:
    assert moment_of(text, NOW, UTC) == datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2023-13",
        "2023-02-30",
        "2023-05-03T25:00",
        "20230503",
        "two days ago",
        "last week",
        "0000",
    ],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        moment_of(text, NOW, UTC)

    assert caught.value.hint


def test_a_day_is_named_by_its_date_or_a_word():
    names = ("2026-03-01", " 1901-02-03 ", "2099-12-31T23:30", "yesterday", "3 May 2019")
    yesterday = datetime.fromtimestamp(NOW - 86400, UTC).date().isoformat()
    assert [day_of(name, NOW, UTC) for name in names] == [
        *("2026-03-01", "1901-02-03", "2099-12-31", yesterday, "2019-05-03")
    ]
    for text in (
        "2026-02-30",
        "2026-03",
        "2026",
        "2026-W10",
        "2026-W10-1",
        "May 2019",
        "soon",
        "last week",
        "",
    ):
        with pytest.raises(UsageError, match="expected a day"):
            day_of(text, NOW, UTC)
    for text in ("two days before 3 May 2019", "not 3 May 2019", "1 or 2 May 2019", "29 February"):
        with pytest.raises(UsageError, match="expected a day"):
            day_of(text, NOW, UTC)
