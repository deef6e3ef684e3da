"""The single checks of `shepherd doctor`, in this process: what each finds, and what it advises."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from shepherd.cli import doctor
from shepherd.cli.doctor import Finding
from shepherd.commands.screen import Screen
from shepherd.config import Config
from shepherd.config.file import ConfigFile
from shepherd.errors import ShepherdError
from shepherd.memory import Memory
from shepherd.providers import ProviderTable

HUB = "hf:nobody/nothing-GGUF:Q4_K_M"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """A home folder without anything."""
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SHEPHERD_CONFIG", raising=False)
    return tmp_path


def add(name: str, **values: object) -> None:
    ProviderTable(ConfigFile()).add(name, values)


# ---- the database


def test_a_database_is_named_with_what_it_holds_and_whether_it_can_be_written(tmp_path, monkeypatch):
    path = tmp_path / "memory.db"
    with Memory(path, user_id="anna") as memory:
        memory.set_fact("name", "Anna")
        memory.store_memory("Which boat?", "A ketch.")
    config = Config(memory_database=str(path), user_id="anna")

    sound = doctor._database(config)
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != path)
    locked = doctor._database(config)
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != tmp_path)
    in_locked_folder = doctor._database(config)

    contents = f"{path}: 1 memory, 1 fact of anna; not encrypted"
    assert (sound.name, sound.state, sound.hint) == ("database", "ok", "")
    assert sound.detail.startswith(contents)
    assert locked.state == in_locked_folder.state == "note"
    assert locked.detail == f"{sound.detail}; it cannot be written"
    assert (locked.hint, in_locked_folder.hint) == (f"chmod u+w {path}", f"chmod u+w {tmp_path}")


def test_a_database_that_is_not_there_can_be_made_in_a_folder_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    in_new_folder = doctor._database(Config(memory_database=str(tmp_path / "a" / "b" / "memory.db")))
    below_a_file = doctor._database(Config(memory_database=str(tmp_path / "file" / "memory.db")))
    default = doctor._database(Config())
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    locked = doctor._database(Config(memory_database=str(tmp_path / "a" / "memory.db")))

    assert (in_new_folder.state, in_new_folder.hint) == ("ok", "")
    assert "doesn't exist yet: made when something is remembered" in in_new_folder.detail
    assert default.state == "ok"
    assert default.detail.startswith(str(tmp_path / "data" / "shepherd" / "memory.db"))
    assert below_a_file.state == locked.state == "problem"
    assert below_a_file.detail.endswith(f"{tmp_path / 'file'} is not a folder")
    assert locked.detail.endswith(f"{tmp_path} cannot be written")
    assert locked.hint == "--memory-db names another place"


# ---- the model, its provider, and what it learns with


def test_a_model_is_told_with_its_header(scripted_model):
    found = doctor._model(Config(model=str(scripted_model)), "")
    built_in = doctor._model(Config(), "")

    size = scripted_model.stat().st_size / 1e6
    assert (found.name, found.state, found.hint) == ("model", "ok", "")
    assert found.detail.startswith(f"{scripted_model}: ")
    assert found.detail.endswith(f", llama, {size:,.1f} MB")
    assert built_in.detail.endswith(": shepherd-mini, llama, 4.8 MB")


def test_a_model_of_the_hub_that_is_not_here_is_pulled_by_a_command():
    add("here", kind="llamacpp")
    for config, given in ((Config(model=HUB), ""), (Config(provider="here"), HUB)):
        assert doctor._model(config, given) == Finding(
            "model",
            "note",
            "hf:nobody/nothing-GGUF:Q4_K_M is not on this machine yet",
            "shepherd model pull hf:nobody/nothing-GGUF:Q4_K_M",
        )


def test_the_model_of_a_provider_is_not_tried():
    add("work", kind="openai", model="m", base_url="http://127.0.0.1:9/v1", api_key="k")
    add("friend", kind="shepherd", base_url="http://127.0.0.1:9/v1")

    named = doctor._model(Config(provider="work"), "")
    given = doctor._model(Config(provider="work"), "other")
    chosen_there = doctor._model(Config(provider="friend"), "")

    ending = "runs elsewhere, and was not tried"
    assert named == Finding("model", "note", f"m of work {ending}", "shepherd provider test work")
    assert given.detail == f"other of work {ending}"
    assert chosen_there.detail == f"the model of friend {ending}"


def test_a_provider_is_told_with_its_key_and_whether_it_gets_the_memory():
    base = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    add("stored", api_key="k", memory=True, **base)
    add("plain", **base)

    found = {name: doctor._provider(Config(provider=name)) for name in ("stored", "plain")}

    assert {one.name for one in found.values()} == {"provider"}
    assert {one.state for one in found.values()} == {"ok"}
    start = "http://127.0.0.1:9/v1, "
    assert found["stored"].detail.startswith(f"stored: {start}key from ")
    assert found["stored"].detail.endswith(", memory on")
    assert found["plain"].detail == f"plain: {start}without a key, memory off"
    assert doctor._provider(Config()) == Finding("provider", "ok", "this process")


def learning(config: Config, given: str = "", *findings: Finding) -> Finding:
    return doctor._learning(config, given, findings)


def test_nothing_is_learned_where_something_is_broken_that_it_needs(scripted_model):
    problems = [Finding(name, "problem", "") for name in ("settings", "database", "model")]

    broken = learning(Config(), str(scripted_model), *problems)
    noted = learning(Config(), str(scripted_model), Finding("model", "note", ""))

    assert broken == Finding("learning", "note", "nothing can be learned: see database and model")
    assert "see" not in noted.detail


def test_what_it_learns_with_follows_the_model_and_the_settings(scripted_model, tmp_path, monkeypatch):
    own = learning(Config(), str(scripted_model))
    set_ = learning(Config(model=str(scripted_model)))
    off = learning(Config(memory_extraction=False), str(scripted_model))
    small = learning(Config())
    missing = learning(Config(), HUB)
    path = tmp_path / "memory.db"
    with Memory(path):
        pass
    config = Config(memory_database=str(path), model=str(scripted_model))
    writable = learning(config)
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    locked = learning(config)
    not_there = learning(Config(model=str(scripted_model)))

    assert {one.name for one in (own, set_, off, small, missing, locked)} == {"learning"}
    assert own == set_ == writable
    assert own.state == off.state == "ok"
    assert own.detail != off.detail
    then = own.detail.replace("scripted", "nothing-GGUF:Q4_K_M")
    assert missing == Finding("learning", "note", f"off until the model is on this machine; then {then}")
    assert "nothing-GGUF" in then
    assert small != own
    assert locked.state == "note"
    assert locked.detail != own.detail
    assert not_there == own


def test_the_model_of_a_local_provider_is_the_one_it_learns_with(scripted_model):
    add("here", kind="llamacpp", model=HUB)
    add("work", kind="openai", model="m", base_url="http://127.0.0.1:9/v1", api_key="k")

    assert learning(Config(provider="here")).detail.startswith("off until the model is on this machine")
    assert learning(Config(provider="here"), str(scripted_model)) == learning(Config(), str(scripted_model))
    assert "until" not in learning(Config(provider="work", model=HUB)).detail


def test_a_model_for_drafts_is_looked_for_and_compared(scripted_model, plain_model, tmp_path):
    same = doctor._draft_model(Config(draft_model=str(scripted_model)), str(scripted_model))
    off = doctor._draft_model(Config(draft_model=str(scripted_model), draft="off"), "")
    pulled = doctor._draft_model(Config(draft_model=HUB), str(scripted_model))

    assert same == Finding("draft model", "ok", f"{scripted_model}: drafts for the model")
    assert off == Finding("draft model", "note", "isn't used: draft is off", "shepherd config set draft auto")
    assert pulled == Finding(
        "draft model", "note", f"{HUB} is not on this machine yet", f"shepherd model pull {HUB}"
    )
    with pytest.raises(ShepherdError):
        doctor._draft_model(Config(draft_model=str(tmp_path / "none.gguf")), str(scripted_model))


def test_search_by_meaning_is_told_and_what_is_wrong_with_it_is_a_note(tmp_path):
    off = doctor._vectors(Config(memory_vectors="off"))
    wrong = doctor._vectors(Config(memory_vectors=str(tmp_path / "none.gguf")))

    assert off == Finding("vectors", "ok", "off")
    assert (wrong.name, wrong.state) == ("vectors", "note")
    assert wrong.detail.endswith("; only words are searched")


# ---- the whole


def run(*arguments: str) -> tuple[int, str]:
    screen = Screen(io.StringIO(), io.StringIO())
    code = doctor.execute(doctor.build_parser().parse_args(list(arguments)), screen)
    return code, screen.out.getvalue()


def test_the_parts_are_told_in_their_order(scripted_model, monkeypatch):
    code, text = run("-m", str(scripted_model))
    as_json = json.loads(run("-m", str(scripted_model), "--json")[1])
    monkeypatch.setenv("SHEPHERD_DRAFT_MODEL", str(scripted_model))
    drafting = json.loads(run("-m", str(scripted_model), "--json")[1])

    names = ["Shepherd", "settings", "SQLite", "database", "vectors", "llama.cpp", "device", "model"]
    assert code == 0
    assert [line[9:].split("  ")[0] for line in text.splitlines()] == [
        *names, "conversations", "provider", "learning",
    ]  # fmt: skip
    assert [one["name"] for one in drafting] == [
        *names, "draft model", "conversations", "provider", "learning",
    ]  # fmt: skip
    assert set(as_json[0]) == {"name", "state", "detail", "hint"}


def test_a_problem_is_the_exit_code(tmp_path):
    code, text = run("-m", str(tmp_path / "none.gguf"))

    assert code == 1
    assert [line.split()[1] for line in text.splitlines() if line.startswith("problem")] == ["model"]
    assert "nothing can be learned: see model" in text
