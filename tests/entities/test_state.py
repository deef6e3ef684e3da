"""Changes of entities by themselves: names, attributes, relations, their limits, and what a merge keeps."""

from __future__ import annotations

import pytest

from shepherd.entities import USER
from shepherd.entities.state import State


@pytest.fixture
def state() -> State:
    return State(turn=3)


def labels(state: State, entity_id: int) -> list[tuple[str, int]]:
    return [(one.label, one.target) for one in state.entities[entity_id].relations]


def attributes(state: State, entity_id: int) -> list[tuple[str, str, float]]:
    return [(one.name, one.value, one.confidence) for one in state.entities[entity_id].attributes]


def found(state: State, name: str) -> list[int]:
    return [entry.id for entry in state.names.find(name)]


def test_an_entity_begins_with_tidy_texts_and_without_salience(state):
    one = state.add(" Anna\n Weber ", "person", "f", description="  a \n friend")
    other = state.add("x" * 121, description="y" * 401, is_named=False, node_id=7)

    assert (one.id, one.name, one.description, one.salience, one.last_turn) == (
        1,
        "Anna Weber",
        "a friend",
        0.0,
        3,
    )
    assert (one.place, other.place, other.id, other.node_id) == (1, 2, 2, 7)
    assert (len(other.name), len(other.description)) == (120, 400)
    assert (found(state, "Anna Weber"), found(state, "anna"), found(state, other.name)) == ([1], [1], [])


def test_mentions_are_counted_by_turn_and_the_latest_sixteen_kept(state):
    one, other = state.add("Anna"), state.add("Tom")
    for turn in range(20):
        state.turn = turn
        state.mention(one.id, f"Anna {turn}")
    state.mention(one.id, "her")
    state.mention(other.id, "T" * 121)

    anna, tom = state.entities[one.id], state.entities[other.id]
    assert [(mention.turn, mention.n) for mention in anna.mentions] == [
        *((turn, 1) for turn in range(4, 19)),
        (19, 2),
    ]
    assert (anna.mentions[-1].text, anna.n_mentions, anna.last_turn, anna.salience) == (
        "Anna 19",
        21,
        19,
        1.0,
    )
    assert (len(tom.mentions[0].text), tom.salience) == (120, 1.0)
    assert [entity.name for entity in state.recent()] == ["Tom", "Anna"]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ((" Shoe  Size ", "40"), ("shoe size", " 41 "), [("shoe size", "41", 1.0)]),
        (("age", "34", 0.5), ("age", "35", 0.5), [("age", "35", 0.5)]),
        (("age", "34", 0.5), ("age", "35", 0.4), [("age", "34", 0.5)]),
        (("age", "34"), ("", "35"), [("age", "34", 1.0)]),
        (("age", "34"), ("age", " "), [("age", "34", 1.0)]),
        (("age", "34"), ("password", "hunter2-Xy9!kq"), [("age", "34", 1.0)]),
    ],
)
def test_an_attribute_is_replaced_by_one_that_is_as_certain(state, first, second, kept):
    one = state.add("Anna")

    state.note(one.id, *first)
    state.note(one.id, *second)

    assert attributes(state, one.id) == kept


def test_the_latest_attributes_are_kept_and_some_are_private(state):
    one = state.add("Anna")
    for number in range(25):
        state.note(one.id, f"a{number}", str(number))
    state.note(one.id, "email", "a@b.example")
    state.note(one.id, "a20", "private", private=True)
    state.note(one.id, "n" * 121, "v" * 401)

    kept = state.entities[one.id].attributes
    assert [attribute.name[:3] for attribute in kept] == [
        *(f"a{number}" for number in range(3, 20)), *("a21", "a22", "a23", "a24", "ema", "a20", "nnn"),
    ]  # fmt: skip
    assert [attribute.name[:3] for attribute in kept if attribute.private] == ["ema", "a20"]
    assert (len(kept[-1].name), len(kept[-1].value), kept[-1].turn) == (120, 400, 3)
    state.remove_attribute(one.id, "a20", "public")
    assert state.entities[one.id].attributes == kept
    state.remove_attribute(one.id, "a20", "private")
    assert state.entities[one.id].attribute("a20") is None
    assert len(state.entities[one.id].attributes) == 23


def test_a_relation_is_kept_once_and_some_have_one_target(state):
    anna, ulm, bonn = (state.add(name).id for name in ("Anna", "Ulm", "Bonn"))
    state.relate(anna, "sister of", USER)
    state.relate(anna, "sister of", USER)
    state.relate(anna, "visited", ulm)
    state.relate(anna, "visited", bonn)
    state.relate(anna, "lives in", ulm)
    state.relate(anna, "lives in", bonn)
    state.relate(anna, "knows", anna)
    state.relate(anna, "knows", 99)

    assert labels(state, anna) == [
        ("sister of", USER),
        ("visited", ulm),
        ("visited", bonn),
        ("lives in", bonn),
    ]
    assert [one.id for one in state.related("lives in", bonn)] == [anna]
    assert state.related("lives in", ulm) == []
    state.unrelate(anna, "visited", bonn)
    state.unrelate(anna, "visited", 99)
    assert labels(state, anna) == [("sister of", USER), ("visited", ulm), ("lives in", bonn)]
    for number in range(16):
        state.relate(anna, f"r{number}", USER)
    assert labels(state, anna) == [(f"r{number}", USER) for number in range(16)]
    assert state.related("sister of", USER) == []


def test_related_entities_come_the_latest_first(state):
    first, second = state.add("Anna").id, state.add("Eva").id
    for entity_id in (first, second):
        state.relate(entity_id, "friend of", USER)
    assert [one.id for one in state.related("friend of", USER)] == [second, first]
    state.mention(first, "Anna")
    assert [one.id for one in state.related("friend of", USER)] == [first, second]


def test_a_new_name_makes_an_alias_of_the_old_one_and_not_of_a_description(state):
    boss = state.add("the manager", "person", is_named=False).id
    state.rename(boss, "Bob")
    assert (state.entities[boss].name, state.entities[boss].aliases) == ("Bob", ())
    state.rename(boss, "Bob Miller")
    assert (state.entities[boss].aliases, found(state, "Bob"), found(state, "miller")) == (
        ("Bob",),
        [boss],
        [boss],
    )
    state.rename(boss, "Bob Miller")
    assert state.entities[boss].aliases == ("Bob",)
    for name in ("Bob Miller", "Bob", *(f"B{number}" for number in range(8))):
        state.alias(boss, name)
    assert state.entities[boss].aliases == tuple(f"B{number}" for number in range(8))


def test_type_and_gender_are_set_where_they_are_unknown(state):
    one, other = state.add("Anna Weber").id, state.add("Tom", "person", "m").id
    assert found(state, "Weber") == []
    state.characterise(one, "person")
    state.characterise(one, "location", "f")
    state.characterise(other, "unknown", "f")

    anna, tom = state.entities[one], state.entities[other]
    assert (anna.type, anna.gender, tom.type, tom.gender) == ("person", "f", "person", "m")
    assert found(state, "Weber") == [one]  # people are called by parts of their names


def test_a_merge_keeps_what_is_known_of_either(state):
    kept, gone = (
        state.add("Anna", description="").id,
        state.add("Annie", "person", "f", node_id=7, description="d").id,
    )
    ulm, bonn, tom = (state.add(name).id for name in ("Ulm", "Bonn", "Tom"))
    state.alias(gone, "Anna")
    state.alias(gone, "Ann")
    for entity_id, name, value in ((kept, "age", "34"), (gone, "age", "35"), (gone, "job", "nurse")):
        state.note(entity_id, name, value)
    for entity_id, label, target in (
        (kept, "lives in", ulm), (kept, "visited", bonn), (gone, "lives in", bonn), (gone, "visited", bonn),
        (gone, "visited", ulm), (gone, "knows", kept), (tom, "married to", gone), (kept, "knows", gone),
    ):  # fmt: skip
        state.relate(entity_id, label, target)

    state.merge(kept, gone)

    anna = state.entities[kept]
    assert gone not in state.entities
    assert (anna.name, anna.type, anna.gender, anna.description, anna.node_id) == (
        "Anna",
        "person",
        "f",
        "d",
        7,
    )
    assert anna.aliases == ("Annie", "Ann")
    assert attributes(state, kept) == [("job", "nurse", 1.0), ("age", "34", 1.0)]
    assert labels(state, kept) == [("lives in", ulm), ("visited", bonn), ("visited", ulm)]
    assert labels(state, tom) == [("married to", kept)]
    assert [found(state, name) for name in ("Annie", "Ann", "Anna")] == [[kept]] * 3
    assert [one.id for one in state.related("married to", kept)] == [tom]


def test_a_removed_entity_leaves_no_name_and_no_place_in_relations(state):
    one = state.add("Anna").id
    state.relate(one, "friend of", USER)

    state.remove(one)

    assert (state.entities, found(state, "Anna"), state.related("friend of", USER)) == ({}, [], [])


def test_stored_entities_are_read_back_in_the_order_of_their_mentions(state):
    one, other = state.add("Anna").id, state.add("Tom").id
    state.relate(other, "knows", one)
    state.mention(one, "Anna")

    read = State.of(reversed(list(state.entities.values())), turn=9)

    assert (read.turn, read.next_id, read.next_place) == (9, 3, 4)
    assert [entity.name for entity in read.recent()] == ["Anna", "Tom"]
    assert [entity.id for entity in read.related("knows", one)] == [other]
    assert found(read, "tom") == [other]
    copied = read.copy()
    read.rename(other, "Bob")
    assert (copied.entities[other].name, found(copied, "Tom"), found(copied, "Bob")) == ("Tom", [other], [])
