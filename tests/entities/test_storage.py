"""A registry comes back with its session, on both engines."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from shepherd.entities import EntityRegistry, SessionEntities, known_from_facts
from shepherd.errors import UsageError
from shepherd.types import Fact, Message


def everything(registry: EntityRegistry) -> tuple[int, list[dict[str, object]]]:
    return registry.turn, [asdict(entity) for entity in registry]


def told(registry: EntityRegistry, *turns: str) -> EntityRegistry:
    for text in turns:
        registry.register(text)
        registry.end_turn()
    return registry


def kept(memory, user_id: str = "steve") -> SessionEntities:
    return SessionEntities(memory.transactions, user_id)


def test_registry_comes_back_as_it_was(memory, session_id):
    registry = kept(memory).load(session_id)
    told(registry, "My sister Anna works at Acme.", "Her email is anna@acme.org.", "What about Tom \ud800?")

    kept(memory).save(session_id, registry)

    again = kept(memory).load(session_id)
    assert everything(again) == everything(registry)
    assert [again[one.entity_id].name for one in again.resolve("Is my sister there?")] == ["Anna"]


def test_conversation_goes_on_where_it_was(memory, session_id):
    store = kept(memory)
    registry = told(store.load(session_id), "I met Priya in Berlin.")
    store.save(session_id, registry)

    again = told(kept(memory).load(session_id), "ok")

    assert again.turn == 2
    priya = again.find("Priya")
    assert priya is not None
    assert again.salience(priya.id) == pytest.approx(0.8)


def test_a_new_entity_takes_no_number_of_a_stored_one(memory, session_id):
    store = kept(memory)
    store.save(session_id, told(store.load(session_id), "I met Priya in Berlin."))

    again = kept(memory).load(session_id)
    before = {entity.id: entity.name for entity in again}
    told(again, "My brother Olaf lives in Hamburg.")

    names = {entity.id: entity.name for entity in again}
    assert {number: names[number] for number in before} == before
    assert "Olaf" in names.values()


def test_only_what_changed_is_written(memory, session_id):
    store = kept(memory)
    registry = told(store.load(session_id), "I met Priya in Berlin.")
    assert store.save(session_id, registry) == 3
    assert store.save(session_id, registry) == 0

    told(registry, "Priya called.")

    assert store.save(session_id, registry) == 2


def test_what_was_taken_back_is_gone(memory, session_id):
    store = kept(memory)
    registry = told(store.load(session_id), "I met Priya.", "Tom is here.")
    store.save(session_id, registry)

    registry.roll_back()
    store.save(session_id, registry)

    assert everything(kept(memory).load(session_id)) == everything(registry)


def test_registry_begun_before_its_session_replaces_what_is_there(memory, session_id):
    kept(memory).save(session_id, told(EntityRegistry(), "I met Priya in Berlin with Tom."))

    kept(memory).save(session_id, told(EntityRegistry(), "Maria called."))

    assert [entity.name for entity in kept(memory).load(session_id)] == ["Maria"]


def test_nobody_reads_or_writes_the_entities_of_another(memory, session_id):
    kept(memory).save(session_id, told(EntityRegistry(), "I met Priya."))

    assert len(kept(memory, "mallory").load(session_id)) == 0
    with pytest.raises(UsageError, match="no session"):
        kept(memory, "mallory").save(session_id, told(EntityRegistry(), "I met Tom."))
    assert [entity.name for entity in kept(memory).load(session_id)] == ["Priya"]


@pytest.mark.parametrize("nobody", ["", "unknown"])
def test_nothing_is_kept_for_nobody(memory, nobody):
    assert kept(memory, nobody).save("any", told(EntityRegistry(), "I met Priya.")) == 0
    assert len(kept(memory, nobody).load("any")) == 0


def test_damaged_row_costs_its_entity(memory, session_id):
    kept(memory).save(session_id, told(EntityRegistry(), "I met Priya and Tom."))
    memory.transactions.write(
        "steve",
        lambda connection: connection.execute(
            "UPDATE session_entities SET record = ? WHERE session_id = ? AND id = 1",
            ('{"name": 3', session_id),
        ),
    )

    assert [entity.name for entity in kept(memory).load(session_id)] == ["Tom"]


def test_entities_go_with_their_conversation(memory, session_id):
    memory.append_message(session_id, Message("user", "I met Priya."))
    kept(memory).save(session_id, told(EntityRegistry(), "I met Priya."))

    memory.clear_session(session_id)

    assert len(kept(memory).load(session_id)) == 0


def test_entities_go_with_their_session(memory, session_id):
    kept(memory).save(session_id, told(EntityRegistry(), "I met Priya."))

    memory.transactions.write(
        "steve", lambda connection: connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    )

    rows = memory.transactions.read(lambda connection: connection.execute("SELECT * FROM session_entities"))
    assert rows == []


def test_a_session_follows_the_facts_of_the_day_it_goes_on(memory, session_id):
    store = kept(memory)
    registry = store.load(session_id, known_from_facts([Fact("wife", "Lisa", 0, 0)]))
    store.save(session_id, told(registry, "Lisa called."))

    again = kept(memory).load(session_id)
    assert [one.label for one in again[1].relations] == ["wife of"]
    again.set_known(known_from_facts([Fact("wife", "Paula", 0, 0)]))

    assert again[1].relations == ()
    assert [again[one.entity_id].name for one in again.register("my wife called")] == ["Paula"]
