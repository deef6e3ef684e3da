"""Keys are stored as hashes, found by themselves alone, and ended for everybody at once."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Memory
from tests.memory.conftest import NOW
from tests.postgres import IN_A_FILE


def test_a_key_is_found_with_its_owner_and_scopes(memory):
    key, made = memory.keys.create("anna", ["chat", "memory"], label="laptop")

    assert key.startswith("shepherd_")
    assert memory.keys.find(key) == made
    assert (made.owner, made.scopes, made.label) == ("anna", ("chat", "memory"), "laptop")
    assert (made.created_at, made.revoked_at) == (int(NOW), 0)


@IN_A_FILE
def test_the_key_itself_is_not_in_the_database(memory, path):
    key, made = memory.keys.create("anna", ["chat"])
    memory.close()

    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert made.id.encode() in stored
    assert key.encode() not in stored
    assert key.removeprefix("shepherd_").encode() not in stored


@pytest.mark.parametrize(
    "wrong", ["", "shepherd_", "shepherd_" + "0" * 64, "x" * 10_000, "shepherd_\ud800" + "0" * 63]
)
def test_another_key_is_not_found(memory, wrong):
    memory.keys.create("anna", ["chat"])

    assert memory.keys.find(wrong) is None


def test_part_of_a_key_is_not_found(memory):
    key, _ = memory.keys.create("anna", ["chat"])

    assert memory.keys.find(key[:-1]) is None
    assert memory.keys.find(key + "0") is None
    assert memory.keys.find(key.upper()) is None


def test_a_revoked_key_is_known_as_such_in_another_opened_memory(database, memory):
    key, made = memory.keys.create("anna", ["chat"])

    with Memory(database, clock=lambda: NOW + 5) as other:
        assert other.keys.revoke(made.id).revoked_at == int(NOW) + 5

    assert memory.keys.find(key).revoked_at == int(NOW) + 5
    assert memory.keys.are_any()


def test_revoking_twice_keeps_the_first_time(database, memory):
    _, made = memory.keys.create("anna", ["chat"])
    memory.keys.revoke(made.id)

    with Memory(database, clock=lambda: NOW + 5) as other:
        assert other.keys.revoke(made.id).revoked_at == int(NOW)
    assert memory.keys.revoke("none") is None


def test_keys_are_listed_in_the_order_they_were_made(database):
    times = iter([NOW, NOW + 1, NOW + 2])
    with Memory(database, clock=lambda: next(times)) as memory:
        assert memory.keys.list() == []
        assert not memory.keys.are_any()
        made = [memory.keys.create(owner, ["chat"])[1] for owner in ("anna", "bob", "anna")]

        assert memory.keys.list() == made


@pytest.mark.parametrize(
    "owner", ["", "unknown", "anna/bob", "/", "anna bob", "anna\0", "anna\n", "a" * 129, "\ud800"]
)
def test_what_cannot_be_told_from_another_user_owns_no_key(memory, owner):
    with pytest.raises(UsageError, match="owner"):
        memory.keys.create(owner, ["chat"])


def test_a_key_for_nothing_is_refused(memory):
    with pytest.raises(UsageError, match="needs at least one scope"):
        memory.keys.create("anna", [])


@pytest.mark.parametrize("label", ["two\nlines", "x" * 10_000])
def test_label_is_short_and_printable(memory, label):
    with pytest.raises(UsageError, match="label"):
        memory.keys.create("anna", ["chat"], label=label)
