"""The original's config.json, at the same path: brought up to date once, and every command works at once."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from shepherd.cli.original_config import migrate_original_config
from shepherd.config.file import ConfigFile, load
from shepherd.providers import ProviderTable
from shepherd.tools import read_servers
from tests.cli.conftest import Home
from tests.providers.upstream import running, says, usage

KEY = "sk-ant-0123456789-abcdef"
WORKSHOP = str(Path(__file__).parents[1] / "tools" / "mcp_workshop.py")

# What its save() writes for everybody.
ALWAYS = {
    "streaming": True,
    "warmup": False,
    "calibration": True,
    "thinking": False,
    "auto_provider": False,
    "tui": True,
    "truncate_limit": 0,
    "max_db_size": "10G",
    "rag_context_injection": False,
    "rag_relevance_threshold": 0.4,
    "rag_max_results": 5,
    "memory_extraction": False,
    "memory_extraction_max_tokens": 512,
    "memory_extraction_temperature": 0.1,
    "memory_extraction_min_turns": 2,
    "memory_extraction_idle_timeout": 180,
    "memory_extraction_max_turns": 20,
    "memory_extraction_queue_limit": 0,
    "memory_extraction_retry_interval": 5,
}


def write(home: Home, document: dict[str, object]) -> bytes:
    home.config.parent.mkdir(parents=True, exist_ok=True)
    home.config.write_text(json.dumps(document, indent=4), encoding="utf-8")
    return home.config.read_bytes()


def backups(home: Home) -> list[Path]:
    return sorted(home.config.parent.glob("config.json.before-migration*"))


@pytest.fixture
def theirs(home, model) -> dict[str, object]:
    """Three providers and two MCP servers."""
    document = {
        **ALWAYS,
        "max_db_size": 5 << 30,
        "system": "Be brief.",
        "providers": [
            {"name": "sonnet", "type": "anthropic", "model": "claude-sonnet-4", "priority": 50,
             "api_key": KEY, "base_url": "https://api.anthropic.com/v1/messages",
             "pricing": {"prompt_per_million": 3.0}},
            {"name": "here", "type": "llamacpp", "model": model.name, "model_path": str(model.parent),
             "priority": 1, "tp": 1, "pp": 1, "gpu_layers": -1, "n_batch": 512, "memory": True},
            {"name": "home server", "type": "ollama", "model": "qwen3", "base_url": "http://127.0.0.1:9",
             "context_size": 32768},
        ],
        "mcp_servers": [
            {"name": "fs", "command": sys.executable, "args": [WORKSHOP]},
            {"name": "db tool", "command": sys.executable, "args": [WORKSHOP], "env": {"LEVEL": "1"}},
        ],
    }  # fmt: skip
    write(home, document)
    return document


def test_every_command_works_at_once(shepherd, theirs, home):
    shepherd("facts", "set", "name", "Steve")  # the first command brings it up to date

    listed = shepherd("memory", "list")
    checked = shepherd("doctor")
    answered = shepherd("-e", "hello")

    assert (listed.returncode, checked.returncode, answered.returncode) == (0, 0, 0), checked.stdout
    assert answered.stdout.startswith("Hello, I am a shepherd")
    assert "warning" not in answered.stderr


def test_providers_servers_and_settings_are_taken_over(shepherd, theirs, home):
    done = shepherd("config", "get", "max_db_size")

    assert (done.returncode, done.stdout.strip()) == (0, str(5 << 30))
    config = load(home.config, environ={}).config
    assert config.rag_context_injection == "auto"
    assert (config.rag_relevance_threshold, config.rag_max_results) == (0.4, 5)
    assert config.system_prompt == "Be brief."
    assert config.mcp_servers == "fs,db_tool"
    assert config.provider == "here"
    table = ProviderTable(ConfigFile(home.config))
    assert table.names() == ["local", "here", "sonnet", "home-server"]
    here, sonnet, server = (table.get(name) for name in ("here", "sonnet", "home-server"))
    assert (here.kind, here.memory) == ("llamacpp", True)
    assert Path(here.model).is_file()
    assert (sonnet.kind, sonnet.model, sonnet.memory) == ("anthropic", "claude-sonnet-4", "auto")
    assert sonnet.is_at_home
    assert (server.address, server.window) == ("http://127.0.0.1:9/v1", 32768)
    fs, db = read_servers(home.config.with_name("mcp.json"))
    assert (fs.name, fs.args, db.name, db.env) == ("fs", (WORKSHOP,), "db_tool", {"LEVEL": "1"})


def test_what_became_of_what_is_told_once_and_the_file_is_kept(shepherd, theirs, home):
    before = home.config.read_bytes()

    first = shepherd("memory", "list", PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring")
    second = shepherd("memory", "list")

    assert "an older Shepherd's configuration" in first.stderr
    assert "provider sonnet taken over" in first.stderr
    assert "without pricing" in first.stderr
    assert "its API key stays in this file" in first.stderr
    assert "rag_context_injection (recall is on where the memory of a provider is on)" in first.stderr
    assert KEY not in first.stderr + first.stdout
    assert "configuration" not in second.stderr
    (kept,) = backups(home)
    assert str(kept) in first.stderr
    assert kept.read_bytes() == before
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(home.config.stat().st_mode) == 0o600


def test_recall_is_not_switched_off_by_what_the_original_always_writes(shepherd, home, model):
    write(home, ALWAYS)
    shepherd("facts", "set", "name", "Steve")

    shown = shepherd("--show-context", "-m", model, "-e", "What is my name?")

    assert "[facts: name=Steve]" in shown.stderr


def test_remote_provider_answers_with_its_key(shepherd, home):
    with running(says("From ", "afar.", counts=usage(100, 4))) as upstream:
        entry = {"name": "gpt", "type": "openai", "model": "m", "api_key": KEY, "base_url": upstream.url}
        write(home, {**ALWAYS, "providers": [entry]})

        done = shepherd("-e", "hello", PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring")

    assert (done.returncode, done.stdout) == (0, "From afar.\n"), done.stderr
    assert upstream.asked[-1].key == KEY


def test_what_cannot_be_used_is_named_and_the_rest_taken_over(shepherd, home):
    providers = [
        {"name": "trt", "type": "tensorrt", "model": "m"},
        {"name": "azure", "type": "openai", "model": "m", "deployment_name": "d", "api_key": KEY},
        {"name": "local", "type": "openai", "model": "m", "base_url": "not an address"},
        {"name": "grok", "type": "grok", "model": "grok-4", "api_key": "${XAI_KEY}"},
    ]
    write(
        home,
        {"providers": providers, "schedulers": [{"name": "default"}], "rag_max_results": 5000, "mine": 1},
    )

    done = shepherd("provider", "list")

    assert done.returncode == 0
    assert "provider trt not taken over: 'tensorrt' is not supported" in done.stderr
    assert "provider azure not taken over: deployment_name is not supported" in done.stderr
    assert "provider local-2 not taken over: base_url is not an HTTP address" in done.stderr
    assert "rag_max_results (expected a whole number from 0 to 100)" in done.stderr
    assert "schedulers (there is no scheduler; cron can run shepherd -e)" in done.stderr
    grok = ProviderTable(ConfigFile(home.config)).get("grok")
    assert (grok.kind, grok.base_url, grok.key_env) == ("openai", "https://api.x.ai/v1", "XAI_KEY")
    assert ConfigFile(home.config).read()["mine"] == 1


def test_identical_copy_is_used_again(shepherd, home):
    for _ in range(2):
        write(home, ALWAYS)
        shepherd("memory", "list")
    write(home, {**ALWAYS, "rag_max_results": 4})
    shepherd("memory", "list")

    assert [path.name for path in backups(home)] == [
        "config.json.before-migration",
        "config.json.before-migration-2",
    ]


def test_a_configuration_of_our_own_stays_as_it_is(shepherd, home):
    before = write(home, {"rag_context_injection": False, "max_db_size": "1G", "providers": {}, "later": [1]})

    done = shepherd("memory", "list")

    assert done.returncode == 0
    assert home.config.read_bytes() == before
    assert backups(home) == []


@pytest.mark.parametrize("folder", ["${NOTES}", "~"])
def test_variables_and_home_in_a_path_are_expanded(shepherd, home, tmp_path, folder):
    write(home, {"memory_database": f"{folder}/shepherd.db"})

    done = shepherd("facts", "set", "name", "Steve", NOTES=str(tmp_path))

    assert done.returncode == 0
    assert ((tmp_path if folder == "${NOTES}" else home.path) / "shepherd.db").is_file()


def test_variable_that_is_not_set_is_a_mistake(shepherd, home):
    write(home, {"memory_database": "${NOTES}/shepherd.db"})

    done = shepherd("facts", "list")

    assert done.returncode == 2
    assert "memory_database names ${NOTES}, and there is no such variable" in done.stderr


def migrated(path: Path, document: dict[str, object]) -> tuple[dict[str, object], list[str]]:
    """What a document becomes without a keyring, and the lines about it but the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    lines = migrate_original_config(ConfigFile(path))
    return json.loads(path.read_text(encoding="utf-8")), lines[1:]


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """A configuration of this process, which has no keyring."""
    monkeypatch.setenv("SHEPHERD_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return tmp_path / "config.json"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"type": "openai", "model": "m"}, {"kind": "openai", "model": "m"}),
        (
            {"type": "cli", "model": "m", "base_url": "http://h:1/v1/"},
            {"kind": "shepherd", "model": "m", "base_url": "http://h:1/v1"},
        ),
        ({"type": "grok", "model": "m"}, {"kind": "openai", "model": "m", "base_url": "https://api.x.ai/v1"}),
        (
            {"type": "grok", "model": "m", "base_url": "http://h"},
            {"kind": "openai", "model": "m", "base_url": "http://h/v1"},
        ),
        (
            {"type": "openai", "base_url": "http://h/v1/chat/completions"},
            {"kind": "openai", "base_url": "http://h/v1"},
        ),
        (
            {"type": "ollama", "base_url": "http://h:11434/api/chat"},
            {"kind": "ollama", "base_url": "http://h:11434/v1"},
        ),
        (
            {"type": "anthropic", "base_url": "https://h/v1/messages?a=b#c"},
            {"kind": "anthropic", "base_url": "https://h"},
        ),
        ({"type": "anthropic", "base_url": "https://h/a"}, {"kind": "anthropic", "base_url": "https://h/a"}),
        (
            {"type": "gemini", "base_url": "https://generativelanguage.googleapis.com/v1beta"},
            {"kind": "gemini"},
        ),
        (
            {"type": "gemini", "base_url": "https://h/v1beta/"},
            {"kind": "gemini", "base_url": "https://h/v1beta/"},
        ),
        ({"type": "llamacpp", "model": "/a/b.gguf"}, {"kind": "llamacpp", "model": "/a/b.gguf"}),
        (
            {"type": "llamacpp", "model": "~/b.gguf", "model_path": "/c"},
            {"kind": "llamacpp", "model": "~/b.gguf"},
        ),
        ({"type": "llamacpp", "model": "b.gguf"}, {"kind": "llamacpp", "model": "~/models/b.gguf"}),
        (
            {"type": "llamacpp", "model": "b.gguf", "model_path": "/c"},
            {"kind": "llamacpp", "model": "/c/b.gguf"},
        ),
        (
            {"type": "openai", "memory": True, "context_size": 1, "max_tokens": 1},
            {"kind": "openai", "memory": True, "window": 1, "max_tokens": 1},
        ),
        ({"type": "openai", "memory": 1, "context_size": 0, "max_tokens": "5"}, {"kind": "openai"}),
        ({"type": "openai", "client_id": "", "api_key": "${KEY}"}, {"kind": "openai", "key_env": "KEY"}),
        ({"type": "openai", "api_key": "k"}, {"kind": "openai", "api_key": "k"}),
        *(({"type": "openai", field: "x"}, None) for field in ("client_id", "token_url", "deployment_name")),
        ({"type": "tensorrt"}, None),
    ],
)
def test_a_provider_becomes_an_entry_of_our_form(path, theirs, ours):
    document, lines = migrated(path, {"providers": [{"name": "p", **theirs}]})

    assert document == ({} if ours is None else {"providers": {"p": ours}, "provider": "p"})
    assert ("not taken over" in lines[0]) == (ours is None)


def test_providers_are_in_the_order_of_their_priority_under_names_of_their_own(path):
    names = ["b", "a b", "a/b", "", "local", ".x", "y" * 40, "é"]
    entries = [{"name": name, "type": "openai", "priority": 9 - i} for i, name in enumerate(names)]
    entries += [
        {"type": "openai"},
        {"type": "openai", "priority": 100.5},
        {"type": "openai", "priority": "1"},
        5,
    ]

    document, lines = migrated(path, {"providers": entries})

    assert list(document["providers"]) == [
        *("provider", "y" * 36, "x", "local-2", "openai", "a-b", "a-b-2", "b"),
        *("openai-2", "openai-3", "openai-4"),
    ]
    assert document["provider"] == "provider"
    assert lines[-1] == "provider provider answers, the first by priority; shepherd provider use changes it"


def test_the_one_model_of_an_older_file_becomes_a_provider(path):
    one = {"backend": "openai", "model": "m", "api_base": "http://h", "key": "k", "context_size": 9}
    local = {"backend": "llamacpp", "model": "b.gguf", "path": "/c", "api_key": "${KEY}", "warmup": False}

    openai = {"kind": "openai", "model": "m", "base_url": "http://h/v1", "window": 9, "api_key": "k"}
    here = {"kind": "llamacpp", "model": "/c/b.gguf", "key_env": "KEY"}
    assert migrated(path, {**one, "tui": True, "calibration": True})[0]["providers"] == {"openai": openai}
    assert migrated(path, local)[0]["providers"] == {"llamacpp": here}


@pytest.mark.parametrize(
    ("theirs", "ours", "line"),
    [
        ({"max_db_size": 1 << 20}, {"max_db_size": "1048576"}, "settings taken over: max_db_size"),
        ({"max_db_size": 1000.5}, {"max_db_size": "1048576"}, "settings taken over: max_db_size"),
        ({"max_db_size": (1 << 20) + 1}, {"max_db_size": "1048577"}, "settings taken over: max_db_size"),
        ({"max_db_size": "2G", "warmup": True}, {"max_db_size": "2G"}, "settings taken over: max_db_size"),
        ({"warmup": True, "system": "a"}, {"system_prompt": "a"}, "settings taken over: system_prompt"),
        ({"warmup": True, "mine": 1}, {"mine": 1}, "not taken over: warmup"),
        ({"warmup": True, "top_k": "x"}, {}, "not taken over: warmup; top_k (expected a whole number"),
        (
            {
                "warmup": True,
                "memory_extraction": True,
                "memory_extraction_endpoint": "http://h",
                "memory_extraction_model": "m",
            },
            {
                "memory_extraction_endpoint": "http://h",
                "memory_extraction_model": "m",
                "memory_extraction": True,
            },
            "settings taken over: memory_extraction_endpoint, memory_extraction_model",
        ),
        (
            {"warmup": True, "memory_extraction_model": "m"},
            {"memory_extraction_model": "m"},
            "settings taken",
        ),
    ],
)
def test_a_setting_of_the_same_meaning_is_taken_over(path, theirs, ours, line):
    document, lines = migrated(path, theirs)

    assert document == ours
    assert lines[0].startswith(line)


def test_servers_are_added_to_a_list_without_replacing_one(path):
    servers = [
        {"name": "a", "command": "new"},
        {"name": "b c/é", "command": "x", "args": ["-n", 1], "env": {"K": "v"}},
        {"command": "y", "args": None, "env": {}},
        {"name": "none"},
        "text",
    ]
    listed = path.with_name("mcp.json")
    listed.write_text('{"mcpServers": {"a": {"command": "old"}}, "other": 1}')

    document, lines = migrated(path, {"mcp_servers": servers})

    assert json.loads(listed.read_text()) == {
        "mcpServers": {
            "a": {"command": "old"},
            "b_c__": {"command": "x", "args": ["-n", "1"], "env": {"K": "v"}},
            "server": {"command": "y", "args": []},
        },
        "other": 1,
    }
    assert document == {"mcp_servers": "a,b_c__,server"}
    assert lines == [f"MCP servers a,b_c__,server are in {listed} now"]
    listed.unlink()
    assert migrated(path, {"mcp_servers": [{"name": "none"}]}) == ({}, [])
    assert migrated(path, {"warmup": True, "mcp_servers": "a,b"})[0] == {"mcp_servers": "a,b"}
    assert not listed.exists()
