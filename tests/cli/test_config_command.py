"""`shepherd config`, as a process."""

from __future__ import annotations

import json
import os
import re
import stat

import pytest

from shepherd.config import SETTINGS


def test_show_lists_every_setting_with_value_and_source(shepherd, home):
    shepherd("config", "set", "top_k", "7")

    shown = shepherd("config", "show", SHEPHERD_SEED="3")

    rows = dict(line.split("\t", 1) for line in shown.stdout.splitlines())
    assert list(rows) == list(SETTINGS)
    assert rows["top_k"] == "7\tfile"
    assert rows["seed"] == "3\tenvironment"
    assert rows["user_id"] == "steve\tenvironment"
    assert rows["top_p"] == "auto\tdefault"


def test_show_as_json_has_values_of_their_types(shepherd):
    shown = json.loads(shepherd("config", "show", "--json").stdout)

    assert shown["archive_turns"] == {"value": True, "source": "default"}
    assert shown["rag_recency_floor"]["value"] == 0.9


def test_explain_says_what_each_setting_does(shepherd):
    shown = shepherd("config", "show", "--explain").stdout

    assert all(setting.help in shown for setting in SETTINGS.values())


def test_set_then_get_then_unset(shepherd, home):
    done = shepherd("config", "set", "rag_context_injection", "off")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "rag_context_injection = false\n")
    assert shepherd("config", "get", "rag_context_injection").stdout == "false\n"
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600

    done = shepherd("config", "unset", "rag_context_injection")
    assert done.stderr == "reset rag_context_injection to auto (the default)\n"
    again = shepherd("config", "unset", "rag_context_injection")
    assert again.stderr == "rag_context_injection was not set\n"


def test_unknown_keys_stay_in_the_file_and_are_mentioned(shepherd, home):
    home.config.parent.mkdir(parents=True)
    home.config.write_text('{"from_the_future": [1, {"a": null}]}')

    shepherd("config", "set", "top_k", "7")

    assert json.loads(home.config.read_text()) == {"from_the_future": [1, {"a": None}], "top_k": 7}
    assert "from_the_future" in shepherd("config", "show").stderr


def test_a_setting_that_the_environment_overrides_is_pointed_out(shepherd):
    done = shepherd("config", "set", "top_k", "7", SHEPHERD_TOP_K="8")

    assert "SHEPHERD_TOP_K is set and wins over the file" in done.stderr


def test_path_names_the_file(shepherd, home):
    assert shepherd("config", "path").stdout == f"{home.config}\n"
    assert json.loads(shepherd("config", "path", "--json").stdout) == str(home.config)


@pytest.mark.parametrize("command", [["config", "show"], ["memory", "list"], ["-m", "x.gguf", "-e", "hello"]])
def test_invalid_json_stops_every_command_with_line_and_column(shepherd, home, command):
    home.config.parent.mkdir(parents=True)
    home.config.write_text('{\n  "top_k": 7,\n}')

    done = shepherd(*command)

    assert (done.returncode, done.stdout) == (2, "")
    # Python 3.13 points at the comma, older ones at what follows it.
    assert re.search(rf"{re.escape(str(home.config))}: line (3, column 1|2, column 13): ", done.stderr)
    assert "correct it in an editor" in done.stderr


def test_a_bad_value_is_repaired_by_the_command_that_the_message_names(shepherd, home):
    home.config.parent.mkdir(parents=True)
    home.config.write_text('{"top_k": "many"}')
    failed = shepherd("config", "show")

    remedy = failed.stderr.splitlines()[1].split("(")[0].split()

    assert failed.returncode == 2
    assert shepherd(*remedy[1:]).returncode == 0
    assert shepherd("config", "get", "top_k").stdout == "auto\n"


def test_a_model_named_from_this_folder_is_found_from_others(shepherd, model):
    done = shepherd("config", "set", "model", os.path.relpath(model))

    assert done.stderr == f"model = {model}\n"
    missing = shepherd("config", "set", "model", "nofile.gguf")
    assert shepherd("config", "get", "model").stdout == f"{os.path.abspath('nofile.gguf')}\n"
    assert "to reset model to its default, run shepherd config unset model" in missing.stderr


def test_every_path_means_the_same_in_every_folder(shepherd, home):
    given = {
        "memory_database": "my.db",
        "memory_key_file": "my.key",
        "memory_vectors": "small.gguf",
        "server_models": "a.gguf, hf:user/repo:Q4_0, installed",
        "draft_model": "~/draft.gguf",
    }
    for key, value in given.items():
        shepherd("config", "set", key, value)
    shepherd("provider", "add", "mine", "llamacpp", "--model", "mine.gguf")

    stored = json.loads(home.config.read_text())
    here = os.getcwd()
    assert stored.pop("providers") == {"mine": {"kind": "llamacpp", "model": f"{here}/mine.gguf"}}
    assert stored == {
        "memory_database": f"{here}/my.db",
        "memory_key_file": f"{here}/my.key",
        "memory_vectors": f"{here}/small.gguf",
        "server_models": f"{here}/a.gguf, hf:user/repo:Q4_0, installed",
        "draft_model": "~/draft.gguf",
    }


def test_a_relative_database_in_the_file_is_named_where_it_splits_the_memory(shepherd, home):
    home.config.parent.mkdir(parents=True)
    home.config.write_text('{"memory_database": "nowhere/my.db"}')

    assert "memory_database is a relative path" in shepherd("facts").stderr
    [finding] = [f for f in json.loads(shepherd("doctor", "--json").stdout) if f["name"] == "database"]
    assert finding["state"] == "note"
    assert os.path.abspath("nowhere/my.db") in finding["detail"]


def test_an_unknown_key_is_removed_and_has_no_default(shepherd, home):
    home.config.parent.mkdir(parents=True)
    home.config.write_text('{"modle": "x"}')

    assert shepherd("config", "unset", "modle").stderr == "removed modle from the file\n"
    assert json.loads(home.config.read_text()) == {}


def test_an_origin_that_no_page_has_is_pointed_out(shepherd):
    assert "'foo bar' is not the origin" in shepherd("config", "set", "server_origins", "foo bar").stderr
    good = "https://name:8443, http://127.0.0.1, localhost"
    assert shepherd("config", "set", "server_origins", good).stderr == f"server_origins = {good}\n"


def test_a_folder_is_no_model(shepherd, tmp_path):
    assert "this is a folder, not a model" in shepherd("config", "set", "model", tmp_path).stderr
