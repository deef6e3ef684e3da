"""Providers in the configuration: what a field may be, whose key is whose, which rules of memory hold."""

from __future__ import annotations

import json
import stat

import pytest

from shepherd.config.file import ConfigFile
from shepherd.errors import ConfigError, ProviderKeyError, UsageError
from shepherd.providers import KINDS, ProviderSettings, ProviderTable, open_remote
from shepherd.providers.keys import find_key, forget_in_keyring, store_in_keyring, without_key
from tests.keyrings import keyring_in_memory


@pytest.fixture
def table(tmp_path) -> ProviderTable:
    return ProviderTable(ConfigFile(tmp_path / "config.json"))


def test_the_model_in_this_process_is_there_without_any_entry(table):
    assert table.names() == ["local"]
    assert table.get("") == table.get("local") == ProviderSettings("local", "llamacpp")


def test_what_was_added_is_there_in_order_and_the_file_is_the_users_alone(table, tmp_path):
    table.add("work", {"kind": "openai", "model": "m"})
    table.add("claude", {"kind": "anthropic"})

    assert table.names() == ["local", "work", "claude"]
    assert table.get("work").model == "m"
    assert stat.S_IMODE((tmp_path / "config.json").stat().st_mode) == 0o600


def test_other_settings_and_unknown_fields_stay(table, tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"top_k": 3, "providers": {"work": {"kind": "openai", "newer": 1}}}')

    table.set("work", "model", "m")

    assert json.loads(path.read_text()) == {
        "top_k": 3,
        "providers": {"work": {"kind": "openai", "newer": 1, "model": "m"}},
    }


def test_removing_the_chosen_one_lets_the_local_one_answer(table, tmp_path):
    table.add("work", {"kind": "openai"})
    ConfigFile(tmp_path / "config.json").set("provider", "work")

    table.remove("work")

    assert json.loads((tmp_path / "config.json").read_text()) == {"providers": {}}


def test_removing_another_one_leaves_the_choice(table, tmp_path):
    table.add("work", {"kind": "openai"})
    table.add("claude", {"kind": "anthropic"})
    ConfigFile(tmp_path / "config.json").set("provider", "work")

    table.remove("claude")

    assert json.loads((tmp_path / "config.json").read_text()) == {
        "provider": "work",
        "providers": {"work": {"kind": "openai"}},
    }


def test_what_was_set_of_the_local_one_can_be_removed_and_it_cannot(table):
    table.set("local", "retries", "3")
    assert table.get("local").retries == 3

    table.remove("local")

    assert table.get("local") == ProviderSettings("local", "llamacpp")
    with pytest.raises(UsageError, match="'local' cannot be removed"):
        table.remove("local")


def test_an_empty_text_is_the_default_again(table, tmp_path):
    table.add("work", {"kind": "openai", "model": "m", "window": 5000})

    assert table.set("work", "window", " ").window == ProviderSettings("work", "openai").window

    assert json.loads((tmp_path / "config.json").read_text())["providers"]["work"] == {
        "kind": "openai",
        "model": "m",
    }


def test_a_section_that_is_no_table_is_left_as_it_is(table, tmp_path):
    (tmp_path / "config.json").write_text('{"providers": [1]}')

    with pytest.raises(ConfigError, match="providers"):
        table.set("local", "model", "m")

    assert (tmp_path / "config.json").read_text() == '{"providers": [1]}'


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("anthropic", "run shepherd provider add anthropic anthropic"),
        ("nothing-like-it", "shepherd provider list"),
    ],
)
def test_an_unknown_name_is_told_with_what_adds_it(table, name, hint):
    with pytest.raises(UsageError) as caught:
        table.get(name)

    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["", "a b", "-x", "ünïcode", "x" * 41, "a/b", "local"])
def test_names_that_would_be_trouble_are_refused(table, name):
    with pytest.raises(UsageError):
        table.add(name, {"kind": "openai"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("window", "-1"),
        ("timeout", "soon"),
        ("retries", "99"),
        ("memory", "maybe"),
        ("base_url", "ftp://x"),
        ("kind", "openai"),
        ("modell", "m"),
        ("base_url", "http://user:pass@host/"),
        ("base_url", "http://host/?key=1"),
        ("base_url", "http://host:port/"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_the_file_is_as_before(table, tmp_path, key, text):
    table.add("work", {"kind": "openai"})
    before = (tmp_path / "config.json").read_bytes()

    with pytest.raises(UsageError) as caught:
        table.set("work", key, text)

    assert caught.value.hint
    assert "pass" not in str(caught.value)
    assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    "providers",
    ["[]", '{"work": 1}', '{"work": {"kind": "x"}}', '{"work": {"model": "m"}}', '{"work": {"kind": 1}}'],
)
def test_a_damaged_entry_is_told_with_its_place(table, tmp_path, providers):
    (tmp_path / "config.json").write_text(f'{{"providers": {providers}}}')

    with pytest.raises(ConfigError, match="provider"):
        table.get("work")


def test_a_name_that_is_nearly_right_is_suggested(table):
    table.add("claude", {"kind": "anthropic"})

    with pytest.raises(UsageError) as caught:
        table.get("cluade")

    assert caught.value.hint == "did you mean claude?"


# ---- memory


@pytest.mark.parametrize(
    ("kind", "memory", "uses"),
    [
        ("llamacpp", "auto", True),
        ("llamacpp", False, False),
        ("openai", "auto", False),
        ("openai", True, True),
        ("ollama", "auto", False),
        ("shepherd", "auto", False),
        ("shepherd", True, False),
    ],
)
def test_memory_is_for_the_model_in_this_process_unless_set(kind, memory, uses):
    assert ProviderSettings("x", kind, memory=memory).uses_memory is uses


# ---- keys


def test_environment_wins_over_the_file():
    provider = ProviderSettings("x", "anthropic", api_key="sk-file")

    assert find_key(provider, {"ANTHROPIC_API_KEY": "sk-environment"}).source == "ANTHROPIC_API_KEY"
    assert find_key(provider, {}).source == "config.json"


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_the_usual_key_is_not_sent_to_another_address(kind):
    environ = dict.fromkeys(KINDS[kind].key_variables, "sk-secret")
    provider = ProviderSettings("x", kind, base_url="http://10.0.0.5:8000/v1")

    assert not find_key(provider, environ)
    assert find_key(ProviderSettings("x", kind), environ)


def test_a_variable_that_was_named_is_sent_to_the_address_that_was_named():
    provider = ProviderSettings("x", "openai", base_url="http://10.0.0.5:8000/v1", key_env="WORK_KEY")

    assert find_key(provider, {"WORK_KEY": "sk-1", "OPENAI_API_KEY": "sk-2"}).value == "sk-1"


def test_keys_are_in_no_repr():
    provider = ProviderSettings("x", "openai", api_key="sk-secret-1234")

    assert "sk-secret" not in repr(provider) + repr(find_key(provider, {}))


def test_a_word_that_is_also_a_short_key_is_left_alone():
    assert without_key("none was sent", "none") == "none was sent"
    assert without_key("got sk-12345678", "sk-12345678") == "got ***"


def test_a_provider_without_a_model_says_so():
    with pytest.raises(UsageError, match="has no model"):
        open_remote(ProviderSettings("x", "anthropic", api_key="sk-1"))


def test_the_keyring_is_used_where_there_is_one():
    with keyring_in_memory():
        store_in_keyring("x", "sk-in-the-drawer")
        assert find_key(ProviderSettings("x", "openai", api_key="sk-file"), {}).source == "keyring"

        forget_in_keyring("x")
        assert find_key(ProviderSettings("x", "openai", api_key="sk-file"), {}).source == "config.json"


def test_without_a_keyring_there_is_none(monkeypatch):
    monkeypatch.setattr("shepherd.system_keyring.find_spec", lambda name: None)

    assert find_key(ProviderSettings("x", "openai"), {}).source == ""


def test_a_key_that_is_needed_and_missing_is_told(monkeypatch):
    for variable in KINDS["gemini"].key_variables:
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(ProviderKeyError):
        open_remote(ProviderSettings("x", "gemini", model="m"))
