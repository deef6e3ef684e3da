"""Settings that name missing things: warned about when set, and never in the way of the memory."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

NOSUCH = "there is no model 'nosuch'"


@pytest.mark.parametrize(
    ("key", "value", "warning"),
    [
        ("model", "nosuch", NOSUCH),
        ("memory_vectors", "nosuch", f"memory_vectors: {NOSUCH}"),
        ("memory_vectors", "ftp://host/v1", "not an HTTP address"),
        ("memory_vectors", "http://127.0.0.1:9/v1", "can't connect to 127.0.0.1:9: Connection refused"),
        ("memory_extraction_endpoint", "127.0.0.1:9", "not an HTTP address"),
        ("memory_extraction_endpoint", "http://nobody@localhost:9", "can't connect to localhost:9: "),
        ("knowledge_reranker", "/none.gguf", "/none.gguf: there is no such file"),
        ("memory_extraction_model", "nosuch", f"memory_extraction_model: {NOSUCH}"),
        ("server_embeddings", "nosuch", f"server_embeddings: {NOSUCH}"),
        ("provider", "nosuch", "there is no provider 'nosuch'"),
        ("memory_database", "/nonexistent/x/y.db", "there is no folder /nonexistent/x yet"),
        ("memory_database", "/tmp", "is a folder"),
        ("memory_database", "mysql://host/db", "only postgresql://"),
        ("memory_database", "postgresql:///db?host=/nonexistent", "cannot be reached"),
        ("mcp_servers", "nosuch", "nosuch"),
    ],
)
def test_setting_a_name_of_nothing_warns_and_is_kept(shepherd, key, value, warning):
    done = shepherd("config", "set", key, value)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"{key} = {value}\nwarning: ")
    assert warning in done.stderr
    assert shepherd("config", "get", key).stdout == f"{value}\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", ""),
        ("model", "hf:user/repo:Q4_K_M"),
        ("memory_vectors", "off"),
        ("provider", "local"),
        ("memory_database", "~/memory.db"),
        ("mcp_servers", "*"),
        ("top_k", "7"),
    ],
)
def test_setting_what_can_be_there_warns_of_nothing(shepherd, key, value):
    assert "warning" not in shepherd("config", "set", key, value).stderr


def test_setting_the_address_of_a_server_that_answers_warns_of_nothing(shepherd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        for key in ("memory_vectors", "memory_extraction_endpoint"):
            assert "warning" not in shepherd("config", "set", key, address).stderr


def test_a_model_of_an_extraction_server_is_not_looked_for_here(shepherd):
    shepherd("config", "set", "memory_extraction_endpoint", "http://127.0.0.1:9/v1")

    assert "warning" not in shepherd("config", "set", "memory_extraction_model", "small").stderr


@pytest.fixture
def broken(shepherd) -> None:
    for key in ("model", "memory_vectors", "knowledge_reranker"):
        shepherd("config", "set", key, "nosuch")


@pytest.mark.usefixtures("broken")
def test_broken_names_of_models_leave_memory_facts_and_import_working(shepherd, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"question": "Which editor?", "answer": "Helix"}\n')

    assert shepherd("facts", "set", "name", "Steve").returncode == 0
    assert shepherd("memory", "import", str(tmp_path / "mine.jsonl")).returncode == 0
    found = shepherd("memory", "search", "editor")
    listed = shepherd("memory", "list")

    assert "Helix" in found.stdout
    assert f"warning: memory_vectors: {NOSUCH}; only words are searched" in found.stderr
    assert "Helix" in listed.stdout
    assert listed.stderr == ""


@pytest.mark.usefixtures("broken")
def test_another_model_answers_though_the_configured_one_is_broken(shepherd, model):
    done = shepherd("-m", model, "-e", "hello")

    assert done.returncode == 0
    assert done.stdout
    assert f"memory_vectors: {NOSUCH}; only words are searched" in done.stderr


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("memory_extraction_model", "nosuch", f"memory_extraction_model: {NOSUCH}"),
        ("memory_extraction_endpoint", "http://[::1", "memory_extraction_endpoint is not an HTTP address"),
    ],
)
def test_what_should_learn_is_missing_and_the_rest_works(shepherd, model, key, value, reason):
    shepherd("config", "set", key, value)
    shepherd("facts", "set", "name", "Steve")

    done = shepherd("-m", model, "-e", "What is my name?")
    findings = {one["name"]: one for one in json.loads(shepherd("doctor", "--json").stdout)}

    assert done.returncode == 0
    assert done.stdout
    assert f"warning: nothing is learned: {reason}\n  " in done.stderr
    assert (findings["learning"]["state"], findings["learning"]["detail"]) == ("note", f"off: {reason}")


def test_doctor_names_servers_that_take_no_connection(shepherd):
    for key in ("memory_vectors", "memory_extraction_endpoint"):
        shepherd("config", "set", key, "http://127.0.0.1:9/v1")

    findings = {one["name"]: one for one in json.loads(shepherd("doctor", "--json").stdout)}

    for name, end in (
        ("vectors", "only words are searched"),
        ("learning", "nothing is learned until the server answers"),
    ):
        assert findings[name]["state"] == "note"
        assert "can't connect to 127.0.0.1:9: Connection refused" in findings[name]["detail"]
        assert findings[name]["detail"].endswith(end)


@pytest.mark.usefixtures("broken")
def test_a_broken_model_is_named_with_its_setting(shepherd):
    done = shepherd("-e", "hello")

    assert done.returncode == 2
    assert "there is no model 'nosuch'" in done.stderr
    assert "the setting 'model'" in done.stderr


@pytest.mark.usefixtures("broken")
def test_doctor_tells_broken_vectors_from_a_broken_database(shepherd):
    findings = {one["name"]: one for one in json.loads(shepherd("doctor", "--json").stdout)}

    assert findings["database"]["state"] == "ok"
    assert findings["vectors"]["state"] == "note"
    assert findings["vectors"]["detail"].startswith("memory_vectors: ")
    assert findings["model"]["state"] == "problem"


def test_doctor_names_unknown_keys_but_not_the_table_of_providers(shepherd, home):
    home.config.parent.mkdir(parents=True)
    home.config.write_text('{"modle": "x", "providers": {}}')

    findings = {one["name"]: one for one in json.loads(shepherd("doctor", "--json").stdout)}

    assert findings["settings"]["state"] == "note"
    assert findings["settings"]["detail"] == f"{home.config}: unknown, and ignored: modle"
    assert "did you mean model" in findings["settings"]["hint"]


def test_show_does_not_call_providers_unknown(shepherd):
    shepherd("provider", "add", "far", "openai", "--model", "m")

    assert shepherd("config", "show").stderr == ""


@pytest.mark.parametrize("command", [("memory", "list"), ("facts", "list"), ("knowledge", "list")])
def test_reading_a_database_that_is_not_there_creates_nothing(shepherd, tmp_path, command):
    database = tmp_path / "typo" / "x.db"

    done = shepherd(*command, "--memory-db", str(database))

    assert (done.returncode, done.stdout) == (1, "")
    assert f"{database}: there is no such database" in done.stderr
    assert not database.parent.exists()


@pytest.mark.parametrize(
    "command",
    [
        *(("memory", action) for action in ("list", "stats", "check", "export")),
        *(("facts", "list"), ("knowledge", "search", "sheep"), ("conversations", "list")),
        *(("context", "build", "hello"), ("apikey", "list"), ("doctor",)),
    ],
)
def test_reading_the_default_database_before_the_first_memory_creates_nothing(shepherd, home, command):
    done = shepherd(*command, TMPDIR=str(home.path))

    assert done.returncode == 0
    assert [*home.path.iterdir()] == []
    if command == ("memory", "list"):
        assert done.stderr == "nothing is remembered yet\n"
    if command == ("memory", "stats"):
        assert f"{home.database} (0 bytes)" in done.stdout


@pytest.fixture
def invalid(shepherd) -> str:
    path = Path(shepherd("config", "path").stdout.strip())
    path.parent.mkdir(parents=True, exist_ok=True)
    text = '{"temperature": "hot", "top_k": "many", "memory_database": "/nonexistent/x.db", "min_p": 0.2}'
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_every_invalid_setting_is_named_at_once(shepherd, invalid):
    done = shepherd("-e", "hi")

    assert done.returncode == 2
    assert done.stderr.count(invalid) == 1
    assert 'temperature is "hot"; expected a number' in done.stderr
    assert 'top_k is "many"; expected a whole number' in done.stderr
    assert "config set temperature auto" in done.stderr
    assert "config set top_k auto" in done.stderr


@pytest.mark.usefixtures("invalid")
def test_valid_settings_are_shown_beside_invalid_ones(shepherd):
    done = shepherd("config", "show")
    rows = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    shown = json.loads(shepherd("config", "show", "--json").stdout)

    assert done.returncode == 2
    assert (rows["temperature"], rows["top_k"], rows["min_p"]) == (
        "invalid\tfile",
        "invalid\tfile",
        "0.2\tfile",
    )
    assert done.stderr.count("error: ") == 2
    assert (shown["top_k"]["value"], shown["min_p"]["value"]) == (None, 0.2)
    assert 'top_k is "many"' in shown["top_k"]["error"]
    assert shepherd("config", "get", "min_p").stdout == "0.2\n"
    assert 'top_k is "many"' in shepherd("config", "get", "top_k").stderr


@pytest.mark.usefixtures("invalid")
def test_doctor_checks_valid_settings_beside_invalid_ones_and_says_what_it_assumed(shepherd):
    findings = {one["name"]: one for one in json.loads(shepherd("doctor", "--json").stdout)}

    assert findings["settings"]["state"] == "problem"
    assert 'temperature is "hot"' in findings["settings"]["detail"]
    assert findings["settings"]["detail"].endswith(
        "the checks below use their last valid value or the default instead"
    )
    assert "/nonexistent/x.db" in findings["database"]["detail"]


def test_doctor_says_that_it_checks_the_defaults_where_the_file_is_broken(shepherd, invalid):
    Path(invalid).write_text('{"temperature":', encoding="utf-8")
    findings = {one["name"]: one for one in json.loads(shepherd("doctor", "--json").stdout)}

    assert findings["settings"]["detail"].endswith("the checks below use the defaults instead")
