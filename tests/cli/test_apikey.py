"""`shepherd apikey`: a key is shown once, listed without itself, and ended by its id."""

from __future__ import annotations

import json

from shepherd.memory import Memory
from shepherd.server.middleware import require_keys_for


def test_a_key_alone_is_on_stdout_and_the_list_does_not_show_it(shepherd):
    made = shepherd("apikey", "create", "--owner", "anna", "--label", "laptop")
    listed = shepherd("apikey", "list")

    key = made.stdout.strip()
    assert (made.returncode, made.stdout.count("\n")) == (0, 1)
    assert "not shown again" in made.stderr
    assert listed.stdout.split("\t")[1:3] == ["anna", "chat memory"]
    assert "laptop" in listed.stdout
    assert key not in listed.stdout


def test_the_first_key_says_that_requests_without_one_are_refused(shepherd):
    first, second = shepherd("apikey", "create"), shepherd("apikey", "create")

    assert "refuse requests without a key, even after you revoke it" in first.stderr
    assert "refuse requests" not in second.stderr


def test_the_owner_is_the_one_who_asks_unless_another_is_named(shepherd):
    made = json.loads(shepherd("apikey", "create", "--scope", "chat", "--json").stdout)

    assert (made["owner"], made["scopes"]) == ("steve", ["chat"])
    assert made["key"].startswith("shepherd_")
    [listed] = json.loads(shepherd("apikey", "list", "--json").stdout)
    assert listed == {name: value for name, value in made.items() if name != "key"}


def test_a_revoked_key_stays_in_the_list_as_such(shepherd):
    key_id = json.loads(shepherd("apikey", "create", "--json").stdout)["id"]

    done = shepherd("apikey", "revoke", key_id)

    assert (done.returncode, done.stdout) == (0, "")
    assert key_id in done.stderr
    assert "revoked 20" in shepherd("apikey", "list").stdout


def test_cleared_keys_are_all_gone_and_then_none_is_needed(shepherd, home):
    shepherd("apikey", "create")
    shepherd("apikey", "revoke", json.loads(shepherd("apikey", "create", "--json").stdout)["id"])

    unasked = shepherd("apikey", "clear")
    assert unasked.returncode == 2
    assert "Delete 2 keys (1 valid)?" in unasked.stderr
    assert len(shepherd("apikey", "list").stdout.splitlines()) == 2

    assert "2 keys deleted" in shepherd("apikey", "clear", "--yes").stderr
    with Memory(home.database) as memory:
        assert require_keys_for("127.0.0.1", memory.keys) is False
    assert shepherd("apikey", "clear").stderr == "there are no keys\n"


def test_a_link_has_the_key_behind_the_address_that_the_settings_or_the_caller_name(shepherd):
    shepherd("config", "set", "server_host", "192.0.2.7")
    shepherd("config", "set", "server_port", "8123")

    of_settings = shepherd("apikey", "create", "--link")
    of_caller = json.loads(shepherd("apikey", "create", "--link", "https://home.example/", "--json").stdout)

    link, _, key = of_settings.stdout.strip().partition("#key=")
    assert (link, key.startswith("shepherd_")) == ("http://192.0.2.7:8123/", True)
    assert "anyone who has this link can read and change the memory" in of_settings.stderr
    assert of_caller["link"] == f"https://home.example/#key={of_caller['key']}"


def test_a_link_that_could_not_open_the_page_makes_no_key(shepherd):
    narrow = shepherd("apikey", "create", "--link", "--scope", "chat")
    other = shepherd("apikey", "create", "--link", "home.example")
    fragment = shepherd("apikey", "create", "--link", "http://home.example/#/facts")

    assert (narrow.returncode, other.returncode, fragment.returncode) == (2, 2, 2)
    assert "add --scope memory" in narrow.stderr
    assert "http://192.168.1.5:8000" in other.stderr
    assert "http://192.168.1.5:8000" in fragment.stderr
    assert shepherd("apikey", "list").stdout == ""


def test_mistakes_say_what_to_do(shepherd):
    scope = shepherd("apikey", "create", "--scope", "memry")
    owner = shepherd("apikey", "create", "--owner", "anna/bob")
    missing = shepherd("apikey", "revoke", "beef")

    assert (scope.returncode, owner.returncode, missing.returncode) == (2, 2, 1)
    assert "there is no scope 'memry'" in scope.stderr
    assert "did you mean memory" in scope.stderr
    assert "without spaces and slashes" in owner.stderr
    assert "shepherd apikey list" in missing.stderr


def test_a_database_that_is_named_is_created_with_a_key_and_not_to_list_keys(shepherd, tmp_path):
    path = tmp_path / "keys.db"

    listed = shepherd("apikey", "list", "--memory-db", path)
    assert "there is no such database" in listed.stderr
    assert not path.exists()
    assert shepherd("apikey", "create", "--memory-db", path).returncode == 0
    assert path.exists()
