"""Questions about time are answered from what held then; other messages get the same bytes as ever."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from shepherd.claims.endings import KNOWN
from shepherd.memory import Claim, EndedValue, FactPeriod, Memory, Turn
from shepherd.memory.periods import beginning, ending, without_time
from shepherd.types import Fact
from tests.learned import learn

CURRENT = "dog_name=Rex, employer=Bosch, location=Paris, name=Steve"


def at(*date: int) -> int:
    return int(datetime(*date, 12).timestamp())  # type: ignore[arg-type]


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def memory(database: str, clock: list[float]) -> Iterator[Memory]:
    """Köln from January 2026 on, Paris and a job at Bosch from 12 October; now it is 25 November."""
    clock[0] = at(2026, 1, 5)
    with Memory(database, user_id="steve", relevance_threshold=0.0, clock=lambda: clock[0]) as memory:
        for key, value in (("location", "Köln"), ("name", "Steve"), ("dog_name", "Rex")):
            memory.set_fact(key, value)
        clock[0] = at(2026, 10, 12)
        memory.set_fact("location", "Paris")
        memory.set_fact("employer", "Bosch")
        clock[0] = at(2026, 11, 25)
        yield memory


@pytest.mark.parametrize(
    ("question", "past"),
    [
        ("Where did I live in March?", "location (March 2026)=Köln"),
        (
            "where was i living in october?",
            "location (2026-01-05 to 2026-10-12)=Köln, location (since 2026-10-12)=Paris",
        ),
        ("Where did I live in 2025?", "location (known since)=2026-01-05"),
        ("Where did we live on 1 September?", "location (2026-09-01)=Köln"),
        ("Where did I live last week?", "location (since)=2026-10-12"),
        ("Since when do I live here?", "location (since)=2026-10-12"),
        ("how long have I worked at Bosch?", "employer (since)=2026-10-12"),
        ("When did I move here?", "location (since)=2026-10-12"),
        ("Seit wann wohne ich hier?", "location (since)=2026-10-12"),
        ("Depuis quand est-ce que j\u2019habite ici ?", "location (since)=2026-10-12"),
        ("¿Desde cuándo vivo aquí?", "location (since)=2026-10-12"),
        ("Da quando abito qui?", "location (since)=2026-10-12"),
        ("Desde quando moro aqui?", "location (since)=2026-10-12"),
        ("Sinds wanneer woon ik hier?", "location (since)=2026-10-12"),
        ("Where did I live before?", "location (2026-01-05 to 2026-10-12)=Köln"),
        ("Did I ever live somewhere else?", "location (2026-01-05 to 2026-10-12)=Köln"),
        ("have we ever lived anywhere else", ""),
        ("Where did I live last spring?", "location (2026-03-01 to 2026-05-31)=Köln"),
        (
            "What changed last month?",
            "location (until 2026-10-12)=Köln, employer (since 2026-10-12)=Bosch,"
            " location (since 2026-10-12)=Paris",
        ),
        ("What has changed?", "location (until 2026-10-12)=Köln, location (since 2026-10-12)=Paris"),
        ("what has changed in march?", ""),
        ("What was my dog called in March?", "dog_name (since)=2026-01-05, name (since)=2026-01-05"),
    ],
)  # fmt: skip
def test_a_question_about_time_is_answered_behind_the_current_facts(
    memory: Memory, question: str, past: str
) -> None:
    assert memory.recall(question).tail == f"\n\n[facts: {CURRENT}{', ' if past else ''}{past}]"


@pytest.mark.parametrize(
    ("question", "past"),
    [
        ("Where did I live in 2027?", "location (2027)=Paris"),
        ("Where did I live in December 2027?", "location (December 2027)=Paris"),
        ("Where did I live two weeks ago?", "location (2028-01-03 to 2028-01-09)=Paris"),
        ("Where did I live on 31 December 2027?", "location (2027-12-31)=Paris"),
        ("Where did I live in 2028?",
         "location (2026-10-12 to 2028-01-12)=Paris, location (since 2028-01-12)=Rome"),
        ("Where did I live before?",
         "location (2026-01-05 to 2026-10-12)=Köln, location (2026-10-12 to 2028-01-12)=Paris"),
    ],
)  # fmt: skip
def test_a_time_is_named_as_it_was_asked_for(
    memory: Memory, clock: list[float], question: str, past: str
) -> None:
    clock[0] = at(2028, 1, 12)
    memory.set_fact("location", "Rome")
    clock[0] = at(2028, 1, 20)

    assert memory.recall(question).tail.endswith(f", {past}]")


@pytest.mark.parametrize(
    "message",
    [
        "Where do I live?",
        "What is the weather in March?",
        "Did it rain yesterday?",
        "I was in Rome last month.",
        "How long does it take to boil an egg?",
        "My flight changed.",
        "Before I forget, what is my name?",
        "I lived in Köln before.",
        "What did we talk about last week?",
        "What did I tell you before about where I live?",
        "Remind me to call mum before noon",
        "x" * 500 + " since when do I live here?",
    ],
)
def test_other_messages_get_what_they_always_got(memory: Memory, message: str) -> None:
    assert memory.recall(message).tail == f"\n\n[facts: {CURRENT}]"


def test_the_past_is_told_where_nothing_is_current(memory: Memory) -> None:
    for fact in memory.get_all_facts():
        memory.clear_fact(fact.key)

    assert memory.recall("Where did I live in March?").tail == "\n\n[facts: location (March 2026)=Köln]"
    assert memory.recall("Where do I live?").tail == ""


def test_what_the_user_wrote_cannot_pose_as_another_time(memory: Memory, clock: list[float]) -> None:
    memory.set_fact("location", "Rome], location (March 2026)=Mars, x=")
    clock[0] += 1
    memory.set_fact("location", "Paris")

    tail = memory.recall("Where did I live before?").tail

    assert tail.count("]") == 1
    assert ", location (March 2026)=Mars" not in tail


def test_an_older_memory_says_what_is_current(memory: Memory, clock: list[float]) -> None:
    memory.max_results = 10
    clock[0] = at(2026, 3, 1)
    alone = memory.store_memory("Where do I live?", "Köln")
    memory.archive_turn(Turn("I live in Köln.", "Noted."))
    memory.store_memory("What do I do on Sundays?", "We live close to the river in Köln, so we swim there")
    memory.store_memory("Which restaurant in Köln is the best?", "Früh am Dom")
    clock[0] = at(2026, 11, 25)
    memory.store_memory("Where did I live once?", "I lived in Köln, and live in Paris")

    tail = memory.recall("Where do I live, and what do I do on Sundays in Köln?").tail
    assert "swim there (location is Paris now)" in tail
    assert "Assistant: Köln" not in tail
    assert "User: I live in Köln.\nAssistant: Noted. (location is Paris now)" in tail
    assert "Früh am Dom |" in f"{tail.removesuffix(']')} |"
    assert "live in Paris (" not in tail

    then = memory.recall("Where did I live in March?").tail
    assert "Assistant: Köln (location is Paris now)" in then
    assert alone in [result.id for result in memory.search("Where do I live?", 10)]


@pytest.mark.parametrize(
    ("told", "claim", "newer", "note"),
    [
        ("I am 34 and scared of needles.", ("age", "34"), "35", "age is 35 now"),
        ("I weigh 80 kg after Christmas.", ("weight", "80 kg"), "75 kg", "weight is 75 kg now"),
        ("I'm a nurse and hate the bus.", ("job", "nurse"), "teacher", "job is teacher now"),
        (
            "My sister lives in Rome with her dogs.",
            ("sister_location", "Rome"),
            "Oslo",
            "sister_location is Oslo now",
        ),
    ],
)
def test_a_turn_that_a_former_value_was_learned_from_says_what_is_current(
    memory: Memory, clock: list[float], told: str, claim: tuple[str, str], newer: str, note: str
) -> None:
    memory.archive_turn(Turn(told, "Noted."))
    learn(memory, "steve", told, Claim(*claim, told, 0))
    clock[0] += 3600
    memory.set_fact(claim[0], newer)

    assert f"{told}\nAssistant: Noted. ({note})" in memory.recall(told).tail


def test_a_sentence_about_a_relative_says_what_is_current(memory: Memory, clock: list[float]) -> None:
    memory.set_fact("brother_employer", "Shell")
    memory.archive_turn(Turn("My brother has worked with lasers since he joined Shell.", "Noted."))
    clock[0] += 3600
    memory.set_fact("brother_employer", "BP")

    assert "(brother_employer is BP now)" in memory.recall("What about the lasers?").tail
    assert "(brother_employer" not in memory.recall("Paris").tail


@pytest.mark.parametrize("others", [(), (("name", "Steve"),)])
def test_an_older_memory_says_what_has_ended(
    memory: Memory, clock: list[float], others: tuple[tuple[str, str], ...]
) -> None:
    for key, value in others:
        memory.set_fact(key, value)
    clock[0] = at(2026, 3, 1)
    memory.archive_turn(Turn("I work as a nurse at Shell, mostly nights.", "Noted."))
    memory.set_fact("employer", "Shell")
    assert "no longer" not in memory.recall("Where do I work?").tail
    clock[0] = at(2026, 11, 25)
    learn(memory, "steve", "I quit Shell.", EndedValue("Shell", "employer", "I quit Shell.", 0))

    assert (
        "nights.\nAssistant: Noted. (employer is no longer Shell)" in memory.recall("Where do I work?").tail
    )
    clock[0] += 1
    memory.set_fact("employer", "Shell")
    assert "no longer" not in memory.recall("Where do I work?").tail
    memory.clear_fact("employer")
    assert "no longer" not in memory.recall("Where do I work?").tail


def test_periods_and_facts_of_a_time(memory: Memory) -> None:
    january, october = at(2026, 1, 5), at(2026, 10, 12)
    assert memory.fact_periods("Location") == [
        FactPeriod("location", "Köln", january, october, "user", "", january),
        FactPeriod("location", "Paris", october, None, "user", "", october),
    ]
    assert memory.facts_at(january - 1) == ()
    assert [fact.value for fact in memory.facts_at(october - 1)] == ["Rex", "Köln", "Steve"]
    assert memory.facts_at(october)[2] == Fact("location", "Paris", october, october)
    assert memory.facts_at(1e18) == memory.facts_at(october)
    assert memory.facts_at(0, "unknown") == ()
    assert memory.fact_periods("nothing") == []


NOW = int(datetime(2026, 11, 25, 12).timestamp())


@pytest.mark.parametrize(
    ("sentence", "value", "is_change", "begins"),
    [
        ("I moved to Paris last month.", "Paris", True, (2026, 10, 1)),
        ("I moved to Paris on 3 May.", "Paris", True, (2026, 5, 3)),
        ("Since March I work at Bosch.", "Bosch", False, (2026, 3, 1)),
        ("I've lived in Oslo since 2019.", "Oslo", False, (2019, 1, 1)),
        ("I've lived in Oslo for two years now.", "Oslo", False, (2024, 11, 25)),
        ("I joined Bosch two weeks ago.", "Bosch", True, (2026, 11, 11)),
        ("I moved to Paris, and last month my sister came.", "Paris", True, None),
        ("I moved to Paris for two years.", "Paris", True, None),
        ("I live in Paris this year.", "Paris", False, None),
        ("I live in Paris.", "Paris", False, None),
        ("I moved to Paris today.", "Paris", True, (2026, 11, 25)),
        ("Ich wohne seit 2019 in Oslo.", "Oslo", False, (2019, 1, 1)),
        ("J'habite à Oslo depuis 2019.", "Oslo", False, (2019, 1, 1)),
    ],
)
def test_the_beginning_of_a_value_is_what_the_sentence_says(
    sentence: str, value: str, is_change: bool, begins: tuple[int, ...] | None
) -> None:
    found = beginning(sentence, value, NOW, is_change=is_change)

    day = None if not found else datetime.fromtimestamp(found).date()
    assert day == (None if begins is None else datetime(*begins).date())  # type: ignore[arg-type]
    assert found < NOW


@pytest.mark.parametrize(
    ("sentence", "value", "end"),
    [
        ("I sold the Kia in October.", "Kia", (2026, 10, 1)),
        ("I worked at Bosch until March.", "Bosch", (2026, 3, 1)),
        ("Until last month I lived in Rome.", "Rome", (2026, 10, 1)),
        ("I had a Kia until I sold it in May.", "Kia", (2026, 5, 1)),
        ("I joined Bosch in 2019 and left in May.", "Bosch", (2026, 5, 1)),
        ("I bought a Kia in March, but then I sold it in July.", "Kia", (2026, 7, 1)),
        ("I quit Bosch.", "Bosch", None),
    ],
)
def test_the_end_of_a_value_is_what_the_sentence_says(
    sentence: str, value: str, end: tuple[int, ...] | None
) -> None:
    found = ending(sentence, value, NOW)

    assert (datetime.fromtimestamp(found).date() if found else None) == (
        None if end is None else datetime(*end).date()  # type: ignore[arg-type]
    )


def test_a_value_that_ended_before_it_was_told_has_its_end_and_no_beginning(
    memory: Memory, clock: list[float]
) -> None:
    told = clock[0]
    drive, sold = "I drive a Kia.", "I sold the Kia in October."
    learn(memory, "steve", drive, Claim("car", "Kia", drive, 0))
    clock[0] += 60
    learn(memory, "steve", sold, EndedValue("Kia", "owns", sold, 0))

    october = int(datetime(2026, 10, 1).timestamp())
    [period] = memory.fact_periods("car", corrected=True)
    assert (period.since, period.until) == (october, october)
    assert memory.fact_periods("car") == []
    assert "car" not in {fact.key for fact in memory.facts_at(told)}


def test_an_end_of_years_ago_is_not_that_of_a_value_told_since(memory: Memory) -> None:
    lived, until = "I live in Oslo.", "I lived in Oslo until 2019."
    learn(memory, "eve", lived, Claim("location", "Oslo", lived, 0))

    assert learn(memory, "eve", until, EndedValue("Oslo", KNOWN, until, 0)) == []
    assert memory.get_fact("location", "eve") == "Oslo"


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("Bosch yesterday", "Bosch"),
        ("Siemens three weeks", "Siemens"),
        ("Volvo last week", "Volvo"),
        ("Nokia in May", "Nokia"),
        ("Today", "Today"),
        ("Studio 54", "Studio 54"),
        ("May", "May"),
        ("Forever 21", "Forever 21"),
    ],
)
def test_words_of_time_are_no_part_of_a_value(said: str, value: str) -> None:
    assert without_time(said) == value


@pytest.mark.parametrize(
    ("said", "since"), [("2019", "2019"), ("March 2021", "2021-03"), ("5 March 2021", "2021-03-05")]
)
def test_beginning_is_told_as_exactly_as_the_user_named_it(memory, clock, said, since):
    told = f"I've worked at Siemens since {said}."
    learn(memory, "eve", told, Claim("employer", "Siemens", told, 0))

    assert f"employer (since)={since}]" in memory.recall("Since when have I worked there?", "eve").tail
