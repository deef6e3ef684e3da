"""config.json: values, sources, errors that name place and remedy, writes that lose nothing."""

from __future__ import annotations

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.config import SETTINGS, Config, default_user_id
from shepherd.config.file import ConfigFile, load
from shepherd.errors import ConfigError
from tests import programs


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shepherd" / "config.json"


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# -- values and where they come from ----


def test_without_a_file_every_setting_has_its_default(path):
    loaded = load(path, environ={})

    assert loaded.config == Config()
    assert set(loaded.sources.values()) == {"default"}


def test_later_sources_win(path):
    write(path, '{"top_k": 1, "top_p": 0.5, "seed": 3}')

    loaded = load(
        path, environ={"SHEPHERD_TOP_K": "2", "SHEPHERD_SEED": "4"}, options={"seed": 5, "min_p": None}
    )

    assert (loaded.config.top_p, loaded.config.top_k, loaded.config.seed) == (0.5, 2, 5)
    assert [loaded.sources[key] for key in ("min_p", "top_p", "top_k", "seed")] == [
        "default", "file", "environment", "option",
    ]  # fmt: skip


def test_an_empty_variable_counts_as_not_set(path):
    assert load(path, environ={"SHEPHERD_TOP_K": ""}).sources["top_k"] == "default"


def test_an_empty_file_is_an_empty_configuration(path):
    assert load(write(path, "\n"), environ={}).config == Config()


def test_a_byte_order_mark_is_accepted(path):
    assert load(write(path, b'\xef\xbb\xbf{"top_k": 7}'), environ={}).config.top_k == 7


def test_a_whole_number_is_accepted_where_a_number_is_expected(path):
    value = load(write(path, '{"temperature": 1}'), environ={}).config.temperature

    assert value == 1.0
    assert isinstance(value, float)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("off", False), ("auto", "auto"), ("YES", True)])
def test_injection_is_a_switch_that_also_knows_auto(path, text, value):
    assert ConfigFile(path).set("rag_context_injection", text) == value
    assert load(path, environ={}).config.rag_context_injection == value


def test_injection_is_on_unless_switched_off():
    assert Config().injection_enabled
    assert Config(rag_context_injection=True).injection_enabled
    assert not Config(rag_context_injection=False).injection_enabled


def test_the_user_is_hostname_and_username_unless_configured():
    assert Config().effective_user_id == default_user_id()
    assert Config(user_id="steve").effective_user_id == "steve"
    assert default_user_id().count(":") >= 1


def test_a_user_whom_the_system_does_not_know_is_a_number(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 987_654)  # has no entry in /etc/passwd

    assert default_user_id().endswith(":987654")


def test_every_setting_is_documented_and_its_default_is_valid():
    assert list(SETTINGS) == [f.name for f in fields(Config)]
    for setting in SETTINGS.values():
        assert setting.help
        assert not setting.help.endswith(".")
        assert setting.check(setting.default) == setting.default


# -- errors ----


def test_invalid_json_names_path_line_column_and_remedy(path):
    write(path, '{\n  "top_k": 40,\n  "seed" 1\n}')

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert str(caught.value) == f"{path}: line 3, column 10: expecting ':' delimiter"
    assert "editor" in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"rag_max_results": "many"}', 'rag_max_results is "many"; expected a whole number from 0 to 100'),
        ('{"rag_max_results": 101}', "rag_max_results is 101; expected a whole number from 0 to 100"),
        ('{"rag_max_results": 3.0}', "rag_max_results is 3.0; expected a whole number"),
        ('{"rag_max_results": true}', "rag_max_results is true; expected a whole number"),
        ('{"temperature": NaN}', "temperature is NaN; expected a number from 0 to 5"),
        ('{"temperature": 1e999}', "temperature is Infinity; expected a number"),
        ('{"temperature": null}', "temperature is null; expected a number"),
        ('{"archive_turns": "auto"}', 'archive_turns is "auto"; expected true or false'),
        ('{"archive_turns": []}', "archive_turns is []; expected true or false"),
        ('{"kv_type": "q9"}', 'kv_type is "q9"; expected one of f16, q8_0, f32'),
        ('{"max_db_size": "10"}', 'max_db_size is "10"; expected a size of at least 1M'),
        ('{"model": 5}', "model is 5; expected text"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_named_with_its_range(path, document, message):
    write(path, document)

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert str(caught.value).startswith(f"{path}: {message}")
    assert "shepherd config set" in caught.value.hint


def test_a_long_value_is_shortened_in_the_message(path):
    write(path, json.dumps({"kv_type": "x" * 10_000}))

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert len(str(caught.value)) < 150 + len(str(path))


def test_a_wrong_variable_is_named(path):
    with pytest.raises(ConfigError, match=r'^SHEPHERD_TOP_K: top_k is "lots"; expected a whole number'):
        load(path, environ={"SHEPHERD_TOP_K": "lots"})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b"[1]", "expected an object {…}, found a list"),
        (b"3", "expected an object {…}, found a number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "a number has too many digits"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(path, data, message):
    if message.startswith("a number") and not hasattr(sys, "set_int_max_str_digits"):
        message = ""
    write(path, data)

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_in_its_place_is_named(path):
    path.mkdir(parents=True)

    with pytest.raises(ConfigError, match="this is a folder, not a file"):
        load(path)
    with pytest.raises(ConfigError, match="this is a folder, not a file"):
        ConfigFile(path).set("top_k", "1")


def test_a_file_where_the_folder_should_be_is_named(tmp_path):
    (tmp_path / "shepherd").write_text("")

    with pytest.raises(ConfigError, match=r"config\.json"):
        ConfigFile(tmp_path / "shepherd" / "config.json").set("top_k", "1")


def test_an_unreadable_file_is_named(path):
    # Root may read everything, so the test asks the system for a file that nobody can: a link to itself.
    path.parent.mkdir()
    path.symlink_to(path)

    with pytest.raises(ConfigError, match=r"config\.json: cannot be read"):
        load(path)


def test_an_unknown_key_is_met_with_the_nearest_names(path):
    with pytest.raises(ConfigError) as caught:
        ConfigFile(path).set("rag_max_result", "1")

    assert caught.value.hint.startswith("did you mean rag_max_results")
    assert not path.exists()


# -- writing ----


def test_the_file_is_private_and_so_is_the_folder_made_for_it(path):
    ConfigFile(path).set("top_k", "7")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["config.json"]


def test_unset_goes_back_to_the_default(path):
    ConfigFile(path).set("top_k", "7")

    assert ConfigFile(path).unset("top_k")
    assert not ConfigFile(path).unset("top_k")
    assert load(path, environ={}).sources["top_k"] == "default"


def test_an_unknown_key_in_the_file_can_be_removed(path):
    write(path, '{"from_the_future": 1}')

    assert ConfigFile(path).unset("from_the_future")
    assert json.loads(path.read_text()) == {}


def test_a_bad_value_can_be_repaired_while_another_is_bad_too(path):
    write(path, '{"top_k": "x", "top_p": "y"}')

    ConfigFile(path).set("top_k", "1")

    assert json.loads(path.read_text()) == {"top_k": 1, "top_p": "y"}


def test_a_link_stays_a_link(path, tmp_path):
    target = write(tmp_path / "dotfiles" / "shepherd.json", "{}")
    path.parent.mkdir()
    path.symlink_to(target)

    ConfigFile(path).set("top_k", "7")

    assert path.is_symlink()
    assert json.loads(target.read_text()) == {"top_k": 7}


def test_a_pipe_is_neither_read_nor_replaced(path):
    path.parent.mkdir(parents=True)
    os.mkfifo(path)

    with pytest.raises(ConfigError, match="a device or a pipe"):
        ConfigFile(path).set("top_k", "7")

    assert path.is_fifo()


def test_nothing_is_lost_when_several_processes_change_different_keys(path):
    keys = ["top_k", "seed", "threads", "max_tokens", "n_ctx", "gpu_layers"]
    code = "import sys; from shepherd.config.file import ConfigFile; ConfigFile().set(sys.argv[1], '5')"

    def change(key):
        programs.run(
            [sys.executable, "-c", code, key],
            check=True,
            env={**programs.in_utf8(), "SHEPHERD_CONFIG": str(path)},
        )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(change, keys))

    assert json.loads(path.read_text()) == dict.fromkeys(keys, 5)


def test_a_failed_write_leaves_the_old_file_and_no_leftovers(path, monkeypatch):
    ConfigFile(path).set("top_k", "7")
    before = path.read_bytes()

    def disk_is_full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_is_full)
    with pytest.raises(ConfigError, match="No space left on device; nothing was changed"):
        ConfigFile(path).set("top_k", "8")

    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["config.json"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(
    unknown=st.dictionaries(st.text().filter(lambda key: key not in SETTINGS), json_values, max_size=5),
    top_k=st.integers(0, 1 << 20),
)
def test_unknown_keys_survive_every_change(tmp_path_factory, unknown, top_k):
    path = write(tmp_path_factory.mktemp("config") / "config.json", json.dumps(unknown))

    ConfigFile(path).set("top_k", str(top_k))
    assert json.loads(path.read_bytes()) == {**unknown, "top_k": top_k}
    assert load(path, environ={}).config.top_k == top_k

    ConfigFile(path).unset("top_k")
    assert json.loads(path.read_bytes()) == unknown


_READ = {
    "answer_formatting": ["", "bullets", " links, code blocks"],
    "context_shares": ["memory=100", "history=40, entities=15,knowledge=45,"],
    "context_order": ["", "knowledge", "history,memory"],
    "samplers": ["", "top_k", "temperature, min_p"],
}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("context_order", "memry"),
        ("context_order", "memory history"),
        ("answer_formatting", "tables"),
        ("samplers", "top_q"),
        ("context_shares", ""),
        ("context_shares", "memory=99"),
        ("context_shares", "memory=50,memory=50"),
        ("context_shares", "memory=fifty,history=50"),
        ("context_shares", "memry=100"),
        ("context_shares", "memory=\u0661\u0660\u0660"),
    ],
)
def test_a_text_that_says_nothing_is_refused_when_it_is_set_and_named_when_it_is_read(path, key, text):
    with pytest.raises(ConfigError, match=f"{key} is .*; expected"):
        ConfigFile(path).set(key, text)
    assert not path.exists() or key not in json.loads(path.read_bytes())

    write(path, json.dumps({key: text}))

    with pytest.raises(ConfigError, match=f"{key} is ") as caught:
        load(path, environ={})
    assert f"shepherd config set {key}" in caught.value.hint
    ConfigFile(path).unset(key)
    assert load(path, environ={}).config == Config()


def _values(setting):
    if setting.kind == "switch":
        return st.sampled_from([True, False, *setting.choices])
    if setting.choices:
        return st.sampled_from(setting.choices)
    if setting.kind == "whole number":
        return st.integers(int(setting.least), int(setting.most))
    if setting.kind == "number":
        return st.floats(setting.least, setting.most)
    if setting.kind == "size":
        return st.integers(1, 999_999).map(lambda n: f"{n}M")
    if setting.reads is not None:
        return st.sampled_from(_READ[setting.key])
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.data())
def test_what_is_set_is_what_is_read_back(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("config") / "config.json"
    setting = SETTINGS[data.draw(st.sampled_from(sorted(SETTINGS)))]
    value = data.draw(_values(setting))

    ConfigFile(path).set(setting.key, value if isinstance(value, str) else json.dumps(value))

    loaded = load(path, environ={})
    assert getattr(loaded.config, setting.key) == value
    assert loaded.sources[setting.key] == "file"


def test_a_sampling_setting_is_the_models_own_until_a_number_is_given(tmp_path):
    path = write(tmp_path / "config.json", "{}")
    assert load(path, environ={}).config.temperature == "auto"

    ConfigFile(path).set("temperature", "0.2")
    assert load(path, environ={}).config.temperature == 0.2

    ConfigFile(path).set("temperature", "auto")
    assert load(path, environ={}).config.temperature == "auto"
