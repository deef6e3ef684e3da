"""`shepherd doctor`: what is there, what is missing, what to do."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from shepherd.cli import doctor
from shepherd.commands.screen import Screen
from shepherd.config import Config
from shepherd.config.file import ConfigFile, Loaded
from shepherd.errors import StoreError
from shepherd.kept_files import Usage
from shepherd.providers import ProviderTable
from tests.providers.upstream import running, says


@pytest.fixture
def chosen(shepherd, home):
    """Adds a provider and puts it in use."""

    def choose(name, **values):
        ProviderTable(ConfigFile(home.config)).add(name, values)
        assert shepherd("provider", "use", name).returncode == 0

    return choose


@pytest.fixture
def server() -> Iterator[str]:
    with running(says("hi")) as upstream:
        yield upstream.url


def states(done):
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


def test_with_everything_in_place_all_is_well(shepherd, model):
    done = shepherd("doctor", "-m", model)

    assert done.returncode == 0
    for name in ("Shepherd", "settings", "SQLite", "database", "llama.cpp", "device", "model"):
        assert f"  {name}  " in done.stdout
    assert "problem" not in done.stdout


def test_nothing_is_made_by_looking(shepherd, model, home):
    shepherd("doctor", "-m", model)

    assert list(home.path.iterdir()) == []


def test_the_database_and_its_counts_are_named(shepherd, model, home):
    shepherd("facts", "set", "name", "Steve")

    found = states(shepherd("doctor", "-m", model, "--json"))["database"]

    assert found["state"] == "ok"
    assert found["detail"] == f"{home.database}: 0 memories, 1 fact of steve; not encrypted"


def test_without_a_model_of_the_users_the_built_in_one_is_checked(shepherd):
    done = shepherd("doctor", "--json")

    assert done.returncode == 0
    assert states(done)["model"]["state"] == "ok"
    assert "shepherd-mini" in states(done)["model"]["detail"]


def test_a_missing_model_is_a_problem_with_a_remedy(shepherd):
    done = shepherd("doctor", "--json", "-m", "nowhere.gguf")

    assert done.returncode == 1
    assert states(done)["model"]["state"] == "problem"
    assert states(done)["model"]["hint"]


def test_several_problems_are_all_named_at_once(shepherd, home, tmp_path):
    home.config.parent.mkdir(parents=True)
    home.config.write_text("{")
    (tmp_path / "no.gguf").write_bytes(b"x" * 100)

    found = states(shepherd("doctor", "--json", "-m", tmp_path / "no.gguf"))

    assert found["settings"]["state"] == "problem"
    assert "line 1, column 2" in found["settings"]["detail"]
    assert found["model"]["state"] == "problem"


def test_a_model_that_is_none_and_a_folder_as_database_are_problems(shepherd, tmp_path):
    (tmp_path / "no.gguf").write_bytes(b"x" * 100)

    found = states(shepherd("doctor", "--json", "-m", tmp_path / "no.gguf", "--memory-db", tmp_path))

    assert "GGUF" in found["model"]["detail"]
    assert found["model"]["state"] == found["database"]["state"] == "problem"
    assert "folder" in found["database"]["detail"]


def test_nothing_is_said_to_be_learned_where_model_or_database_are_missing(shepherd, model, tmp_path):
    broken = tmp_path / "no.gguf"
    broken.write_bytes(b"x" * 100)

    for options, named in (
        (("-m", broken), "see model"),
        (("-m", model, "--memory-db", broken / "memory.db"), "see database"),
        (("-m", "hf:nobody/nothing-GGUF:Q4_K_M"), "off until the model is on this machine"),
    ):
        learning = states(shepherd("doctor", "--json", *options))["learning"]
        assert learning["state"] == "note"
        assert named in learning["detail"]


def test_the_model_of_the_local_provider_in_use_is_the_one_that_is_checked(shepherd, chosen, model):
    chosen("here", kind="llamacpp", model="/nowhere/at-all.gguf")

    missing = shepherd("doctor", "--json")
    given = shepherd("doctor", "--json", "-m", model)

    assert (missing.returncode, states(missing)["model"]["state"]) == (1, "problem")
    assert "at-all.gguf" in states(missing)["model"]["detail"]
    assert (given.returncode, states(given)["model"]["state"]) == (0, "ok")


def test_a_model_left_in_the_settings_is_no_problem_where_a_provider_answers(shepherd, chosen, server):
    shepherd("config", "set", "model", "/nowhere/at-all.gguf")
    chosen("work", kind="openai", model="m", base_url=f"{server}/v1", api_key="k")

    done = shepherd("doctor", "--json")

    assert done.returncode == 0
    assert states(done)["model"]["state"] == "note"
    assert "m of work" in states(done)["model"]["detail"]
    assert states(done)["provider"]["detail"].endswith("memory off")
    shepherd("provider", "work", "set", "memory", "true")
    assert states(shepherd("doctor", "--json"))["provider"]["detail"].endswith("memory on")
    assert states(done)["SQLite"]["state"] == "ok"
    assert states(done)["model"]["hint"] == "shepherd provider test work"


def test_each_provider_is_connected_to_and_not_asked(shepherd, chosen, home):
    with running(says("hi")) as there, running(says("hi")) as absent:
        gone = absent.url
        chosen("work", kind="openai", model="m", base_url=f"{there.url}/v1", api_key="k")
        assert states(shepherd("doctor", "--json"))["providers"]["detail"].startswith("work: reachable")
        assert there.asked == []
    chosen("away", kind="ollama", model="m", base_url=f"{gone}/v1")
    in_use = shepherd("doctor", "--json")
    shepherd("provider", "use", "local")
    beside = shepherd("doctor", "--json")

    found = states(in_use)["providers"]
    assert (in_use.returncode, found["state"]) == (1, "problem")
    assert f"provider away ({gone}/v1) refused the connection" in found["detail"]
    assert "ollama serve" in found["hint"]
    assert (beside.returncode, states(beside)["providers"]["state"]) == (0, "note")


def test_a_model_file_is_checked_here_whatever_provider_is_in_use(shepherd, chosen, model):
    chosen("work", kind="openai", model="m", base_url="http://127.0.0.1:9/v1", api_key="k")

    found = states(shepherd("doctor", "--json", "-m", model))
    missing = shepherd("doctor", "--json", "-m", "/nowhere/at-all.gguf")

    assert (found["model"]["state"], found["provider"]["detail"]) == ("ok", "this process")
    assert (missing.returncode, states(missing)["model"]["state"]) == (1, "problem")


# ---- single checks, in this process


@pytest.mark.parametrize(
    ("devices", "has_nvidia", "layers", "state", "said"),
    [
        ([("cpu", "Ryzen")], False, -1, "ok", "Ryzen; no GPU was found"),
        ([("cpu", "Ryzen")], True, -1, "note", "Ryzen; the NVIDIA GPU is not used"),
        ([("cpu", "Ryzen"), ("gpu", "RTX"), ("igpu", "Iris")], True, -1, "ok", "RTX, Iris"),
        ([("cpu", "Ryzen"), ("gpu", "RTX")], True, 5, "ok", "RTX"),
        ([("cpu", "Ryzen"), ("gpu", "RTX")], True, 0, "note", "Ryzen; RTX is not used: gpu_layers is 0"),
    ],
)
def test_a_gpu_that_is_not_used_is_noted(devices, has_nvidia, layers, state, said, monkeypatch):
    monkeypatch.setattr("shepherd.inference.binding.devices", lambda: devices)
    monkeypatch.setattr("shutil.which", lambda name: "/bin/nvidia-smi" if has_nvidia else None)

    found = doctor._device(Config(gpu_layers=layers))

    assert (found.name, found.state) == ("device", state)
    assert found.detail.startswith(said)
    assert bool(found.hint) is (state == "note")


@pytest.mark.parametrize(
    ("version", "state"),
    [("3.51.2", "note"), ("3.51.3", "ok"), ("3.52.0", "ok"), ("4.0.0", "ok"), ("3.9.9", "note")],
)
def test_a_version_of_sqlite_that_can_do_harm_is_noted(version, state, monkeypatch):
    monkeypatch.setattr("shepherd._native.store.SQLITE_VERSION", version)

    found = doctor._sqlite(Config())

    assert found.state == state
    assert found.detail.startswith(f"{version}, ")
    assert ("SHEPHERD_SQLITE=bundled" in found.hint) is (state == "note")


@pytest.mark.parametrize(
    ("n", "settings", "state", "said"),
    [
        (0, {}, "ok", "0 prepared for reuse on disk, 0 bytes of 1.9 GiB, in "),
        (1, {"cache_disk_gb": 1.5}, "ok", "1 prepared for reuse on disk, 2.9 KiB of 1.4 GiB, in "),
        (0, {"cache_disk_gb": 0}, "note", "none is prepared for reuse on disk: cache_disk_gb is 0"),
        (
            1,
            {"cache_disk_gb": 0},
            "note",
            "none is prepared for reuse on disk: cache_disk_gb is 0; 2.9 KiB are left in ",
        ),
        (0, {"cache_ram_mb": 0}, "note", "none is prepared for reuse on disk: cache_ram_mb is 0"),
    ],
)
def test_what_is_kept_of_conversations_is_told_with_its_limit(n, settings, state, said, monkeypatch):
    monkeypatch.setattr("shepherd.kept_files.usage", lambda: Usage(n, 3000 * n))

    found = doctor._kept(Config(**settings))

    assert (found.name, found.state) == ("conversations", state)
    assert found.detail.startswith(said)
    assert ("are left" in found.detail) is ("are left" in said)
    assert found.detail.endswith("(a cache; your chats are in the memory)") is (state == "ok")


@pytest.mark.parametrize(
    ("written", "state", "detail", "hint"),
    [
        (None, "ok", "(no such file, so the defaults apply)", ""),
        ({"temperature": 0.5}, "ok", "config.json", ""),
        ({"temperatur": 0.5, "zzz": 1}, "note", "unknown, and ignored: temperatur, zzz", "temperature"),
        ({"zzzzzz": 1}, "note", "unknown, and ignored: zzzzzz", "shepherd config show lists all settings"),
    ],
)
def test_settings_that_nobody_knows_are_named(written, state, detail, hint, tmp_path):
    path = tmp_path / "config.json"
    if written is not None:
        path.write_text(json.dumps(written))

    found = doctor._settings(Loaded(Config(), {}, path))

    assert (found.name, found.state) == ("settings", state)
    assert found.detail.startswith(str(path))
    assert found.detail.endswith(detail)
    assert hint in found.hint
    assert bool(found.hint) is bool(hint)


def test_findings_are_in_columns_with_the_remedy_below():
    screen = Screen(io.StringIO(), io.StringIO())

    doctor._print([doctor.Finding("a", "ok", "fine"), doctor.Finding("long", "problem", "bad", "do")], screen)

    assert screen.out.getvalue().splitlines() == [
        "ok       a     fine",
        "problem  long  bad",
        "               do",
    ]


def test_a_check_that_fails_is_a_problem():
    def fails(config):
        raise StoreError("gone", hint="look")

    def lacks(config):
        raise ImportError("no libx")

    assert doctor._guarded("x", fails, Config()) == doctor.Finding("x", "problem", "gone", "look")
    missing = doctor._guarded("x", lacks, Config())
    assert (missing.state, missing.detail) == ("problem", "cannot be loaded: no libx")
    assert missing.hint.startswith("reinstall Shepherd: ")
