"""What a text says of whom it names: as it is now, not as it was or might be."""

from __future__ import annotations

import pytest

from shepherd.entities import USER, EntityRegistry, Extracted


def told(*turns: str) -> EntityRegistry:
    registry = EntityRegistry()
    for text in turns:
        registry.register(text)
        registry.end_turn()
    return registry


def relations(registry: EntityRegistry, name: str) -> list[str]:
    entity = registry.find(name)
    assert entity is not None
    return [
        f"{one.label} {'the user' if one.target == USER else registry[one.target].name}"
        for one in entity.relations
    ]


def location(registry: EntityRegistry, name: str) -> str | None:
    entity = registry.find(name)
    assert entity is not None
    found = entity.attribute("location")
    return None if found is None else found.value


def attributes(registry: EntityRegistry) -> list[tuple[str, str]]:
    return [(one.name, one.value) for entity in registry for one in entity.attributes]


def test_who_moves_lives_in_one_place():
    registry = told("My sister Anna lives in Berlin.", "Anna moved to Munich last month.")

    assert relations(registry, "Anna") == ["sister of the user", "lives in Munich"]
    assert location(registry, "Anna") == "Munich"


def test_what_was_is_not_what_is():
    registry = told("Anna moved to Munich last year. Before that, Anna lived in Berlin.")

    assert relations(registry, "Anna") == ["lives in Munich", "lived in Berlin"]
    assert location(registry, "Anna") == "Munich"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom worked at Acme.", ["worked at Acme"]),
        ("Tom was a nurse at Acme.", ["worked at Acme"]),
        ("Tom studied at Initech.", ["studied at Initech"]),
        ("Tom is a former nurse at Acme.", []),
        ("Tom used to work at Acme.", []),
        ("Tom was married to Anna.", []),
    ],
)
def test_the_past_is_told_as_such_or_not_at_all(text, expected):
    assert relations(told(text), "Tom") == expected


@pytest.mark.parametrize(
    "text",
    [
        "If Anna moved to Berlin, I would be glad.",
        "I wish Anna lived in Berlin.",
        "Maybe Anna lives in Berlin.",
        "It may be that Anna works at Acme.",
        "If Dr. Weber moved to Berlin, Anna is a dentist.",
        "Anna might say that Tom works at Acme.",
    ],
)
def test_what_is_supposed_states_nothing(text):
    assert all(not entity.attributes and not entity.relations for entity in told(text))


@pytest.mark.parametrize(
    "text", ["Anna works at Berlin.", "Berlin works at Initech Corp.", "Anna is married to Berlin."]
)
def test_nobody_works_at_a_city_and_no_city_works(text):
    assert all(not entity.relations for entity in told(text))


@pytest.mark.parametrize(
    ("turns", "both"),
    [
        (("Anna and Tom live in Berlin.",), ["lives in Berlin"]),
        (("My friends Anna and Tom are from Berlin.",), ["from Berlin"]),
        (("Tom, Bob and Anna moved to Berlin.",), ["lives in Berlin"]),
        (("Anna and Tom work at Acme.", "Anna and Tom left Acme."), []),
        (("The parents of Anna and Tom live in Berlin.",), []),
    ],
)
def test_what_is_said_of_two_is_noted_of_both(turns, both):
    registry = told(*turns)
    labels = [[one for one in relations(registry, name) if "user" not in one] for name in ("Anna", "Tom")]

    assert labels == [both, both]


def test_the_subject_of_another_clause_is_not_meant():
    registry = told("I live with Anna and Tom works at Acme.")

    assert [relations(registry, name) for name in ("Anna", "Tom")] == [[], ["works at Acme"]]


def test_who_moved_from_somewhere_lives_there_no_longer():
    registry = told("Tom lives in Bonn.", "Tom moved from Bonn, and Ulm is nice.")

    assert relations(registry, "Tom") == []
    assert location(registry, "Tom") is None


def test_a_month_is_no_supposition():
    assert relations(told("In May Anna moved to Berlin."), "Anna") == ["lives in Berlin"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Anna works at Acme.", "Anna left Acme."),
        ("Anna works at Acme.", "Anna doesn't work at Acme any more."),
        ("Anna works at Acme.", "She is no longer working for Acme."),
        ("Anna works at Acme.", "Anna used to work at Acme."),
        ("Anna works at Acme.", "Anna quit Acme."),
        ("Anna is a nurse at Acme.", "Anna is not a nurse at Acme."),
        ("Anna lives in Berlin.", "She no longer lives in Berlin."),
        ("Anna lives in Berlin.", "Anna stopped living in Berlin."),
        ("Anna is married to Tom.", "Anna divorced Tom."),
        ("Anna is married to Tom.", "Anna isn't married to Tom."),
        ("Anna reports to Tom.", "Anna does not report to Tom."),
    ],
)
def test_what_has_ended_is_taken_away(before, after):
    registry = told(before, after)

    assert relations(registry, "Anna") == []
    assert location(registry, "Anna") is None


def test_only_what_was_said_to_end_does():
    registry = told("Anna works at Acme. Anna lives in Berlin.", "Anna doesn't work at Initech.")

    assert relations(registry, "Anna") == ["works at Acme", "lives in Berlin"]


def test_a_new_employer_takes_the_place_of_the_old_one():
    registry = told("Anna works at Acme.", "Anna left Acme. Anna works at Initech now.")

    assert relations(registry, "Anna") == ["works at Initech"]


def test_moving_from_there_to_here_is_read_whole():
    registry = told("Anna lives in Berlin.", "Anna moved from Berlin to Munich.")

    assert relations(registry, "Anna") == ["lives in Munich"]
    assert location(registry, "Anna") == "Munich"


def test_a_full_stop_in_a_name_does_not_hide_the_question_mark():
    assert relations(told("Does Anna work at Amazon.com?"), "Anna") == []
    assert relations(told("Anna works at Amazon.com."), "Anna") == ["works at Amazon.com"]


def test_a_question_does_not_make_one_of_its_neighbours():
    registry = told("Is Anna here? Anna works at Acme. Is Tom there, who works at Initech?")

    assert relations(registry, "Anna") == ["works at Acme"]
    assert relations(registry, "Tom") == []


def test_a_full_name_is_found_in_small_letters_and_a_surname_is_not():
    registry = told("I met Otto Zimt.")

    assert [registry[one.entity_id].name for one in registry.resolve("is otto zimt late?")] == ["Otto Zimt"]
    assert [registry[one.entity_id].name for one in registry.resolve("is otto late?")] == ["Otto Zimt"]
    assert len(registry.resolve("is Zimt late?")) == 1
    assert registry.resolve("is zimt good?") == ()


def test_what_a_model_found_does_not_replace_where_somebody_works():
    registry = told("Anna works at Acme.")

    registry.learn([Extracted("Anna", relations=(("works at", "Initech"),)), Extracted("Initech")])

    assert relations(registry, "Anna") == ["works at Acme"]


@pytest.mark.parametrize(
    ("turns", "title"),
    [
        (("Tom is a plumber.",), "plumber"),
        (("Tom is a plumber.", "Tom is a nurse."), "nurse"),
        (("Tom is a plumber.", "Tom's job is nurse."), "nurse"),
        (("Tom's job is nurse.", "Tom is a plumber."), "nurse"),
        (("Tom's job title is nurse.", "Tom's job is driver."), "driver"),
    ],
)
def test_what_is_said_of_a_job_by_name_is_surer_than_what_somebody_is(turns, title):
    tom = told(*turns).find("Tom")

    assert tom is not None
    found = tom.attribute("title")
    assert found is not None
    assert found.value == title


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("Tom's phone number is 555 1234.", "phone", "555 1234"),
        ("Tom's work email is t@b.example.", "email", "t@b.example"),
        ("Tom's email address is t@b.example.", "email", "t@b.example"),
        ("Tom's favorite soup is borscht.", "favorite soup", "borscht"),
        ("Tom is 34.", "age", "34"),
    ],
)
def test_attributes_have_short_names(text, attribute, value):
    tom = told(text).find("Tom")

    assert tom is not None
    assert [(one.name, one.value) for one in tom.attributes] == [(attribute, value)]


@pytest.mark.parametrize(
    "text",
    [
        "My sister Anna is 1.70 m tall.",
        "My colleague Eva is 5,5 km away.",
        "Anna is 10.5 years old.",
        "Anna is 6 and a half.",
        "Anna is 5, 10 minutes late at most.",
        "Room for Anna is 12.",
        "Dinner for Bob and Anna is 12.",
        "The seat next to my boss Anna is 12.",
    ],
)
def test_a_measure_or_the_number_of_something_else_is_no_age(text):
    assert attributes(told(text)) == []


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("My son Max is 3 and my niece Mia is 5.", ["3", "5"]),
        ("My daughter Lena is now 12 years old, I think it suits her.", ["12"]),
        ("I know Anna's brother Tom turned 60 last week.", ["60"]),
    ],
)
def test_an_age_is_said_of_the_subject_of_a_clause(text, age):
    assert sorted(attributes(told(text))) == [("age", years) for years in age]


@pytest.mark.parametrize(
    "text",
    [
        "Anna is a bit tired today.",
        "My boss Karl is a pain.",
        "Anna is a role model and a good cook.",
        "Anna is a hard worker.",
        "Anna's address is Wrong I think.",
        "Anna's hobby is me.",
        "Anna's favourite drink is running out.",
        "Neither Anna nor Bob lives in Ulm.",
        "Anna is a winner in my eyes.",
        "The man beside Anna is a dentist.",
        "My sister Anna's job is stressful.",
        "Anna's title is not doctor.",
        "Anna's birthday is next week.",
        "Anna's address is still unknown.",
        "Anna's address is 5 km from mine.",
        "Anna's department is being closed.",
        "Anna's hobby is getting expensive.",
        "Anna's favourite song is playing right now.",
        "Anna's favourite cake is finished.",
        "Anna's phone is 10 000 euros.",
        "Maybe Anna's birthday is 3 May.",
    ],
)
def test_a_remark_is_no_value(text):
    assert attributes(told(text)) == []


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("My neighbour Tom is a retired police officer.", "title", "retired police officer"),
        ("Tom is a radiographer now.", "title", "radiographer"),
        ("Tom works as a juggler.", "title", "juggler"),
        ("Tom's job title is head of sales.", "title", "head of sales"),
        ("Tom's birthday is on the 3rd of May, I think.", "birthday", "the 3rd of May"),
        ("Tom's birthday: 12.3.1988", "birthday", "12.3.1988"),
        ("Tom's address is 12 Elm Street, Leeds.", "address", "12 Elm Street, Leeds"),
        ("Tom's department is human resources.", "department", "human resources"),
        ("Tom's hobby is restoring clocks, but he has no time.", "hobby", "restoring clocks"),
        ("Tom's favourite film is Lost in Translation.", "favorite film", "Lost in Translation"),
        ("Tom's favourite colour is red.", "favorite colour", "red"),
        ("Tom's favourite drink is sparkling water.", "favorite drink", "sparkling water"),
        ("Tom's favourite animal is a horse.", "favorite animal", "a horse"),
        ("Tom is a proud nurse.", "title", "nurse"),
        ("Tom is a real estate agent.", "title", "real estate agent"),
        ("Because of Anna, Tom moved to Ulm.", "location", "Ulm"),
    ],
)
def test_a_value_is_noted_without_what_follows_it(text, attribute, value):
    assert attributes(told(text)) == [(attribute, value)]


def test_what_a_thing_is_describes_it_once():
    registry = told("I work at Acme.", "Acme is a bakery.", "Acme is a nurse.", "Acme is 34 years old.")

    acme = registry.find("Acme")
    assert acme is not None
    assert (acme.description, acme.attributes) == ("bakery", ())


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("Tom works at Zorbix.", "Zorbix", "organization"),
        ("Tom works at Zorbix.", "Tom", "person"),
        ("Tom lives in Quell.", "Quell", "location"),
        ("Anna's boss Tom is nice.", "Anna", "person"),
    ],
)
def test_a_relation_tells_what_both_of_its_ends_are(text, name, kind):
    entity = told(text).find(name)

    assert entity is not None
    assert entity.type == kind


def test_a_role_without_an_owner_is_doubted_more_if_two_have_it():
    one = told("My boss Tom is nice.")
    [found] = one.resolve("The boss is late.")
    assert (one[found.entity_id].name, found.confidence) == ("Tom", 0.75)

    two = told("My boss Tom is nice.", "My boss Ann is nice.")
    [found] = two.resolve("The boss is late.")
    assert (two[found.entity_id].name, found.confidence) == ("Ann", 0.75 * 0.75)


def test_a_name_is_surer_than_another_one_and_a_part_of_it():
    registry = told("Anna Miller is my sister.")
    found = [one for name in ("Anna Miller", "Miller") for one in registry.resolve(f"{name} is here.")]

    assert [(registry[one.entity_id].name, one.confidence) for one in found] == [
        ("Anna Miller", 1.0),
        ("Anna Miller", 0.8),
    ]


def test_a_turn_without_words_can_be_taken_back():
    registry = told("Tom works at Zorbix.")
    registry.end_turn()
    registry.register("Tom lives in Quell.")
    registry.end_turn()

    assert registry.roll_back()
    assert relations(registry, "Tom") == ["works at Zorbix"]
    assert registry.roll_back()  # the silent one
    assert relations(registry, "Tom") == ["works at Zorbix"]
    assert registry.roll_back()
    assert registry.find("Tom") is None
    assert not registry.roll_back()
