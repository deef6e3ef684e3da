"""A session cache: a new engine goes on where another one stopped, and files that do not fit are refused."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.errors import SessionCacheError
from shepherd.inference import Engine, EngineSettings
from shepherd.types import Message, Sampling
from tests.examples import examples
from tests.inference.engines import KINDS, exact_settings, logits_after, read, run_to_end

TALK = [Message("system", "be brief"), Message("user", "what is the name of rex? " * 8)]


def open_engine(path: Path, **options: object) -> Engine:
    settings: EngineSettings = replace(exact_settings(n_ctx=1024), **options)  # type: ignore[arg-type]
    return Engine(path, settings=settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, model_file: Callable[[str], Path]) -> bytes:
    """What an engine of the plain model writes."""
    path = tmp_path_factory.mktemp("session") / "session"
    with open_engine(model_file("plain")) as engine:
        read(engine.decoder, range(1, 60))
        engine.save_session(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_engine_reads_new_tokens_only(
    kind: str, model_file: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "session"
    with open_engine(model_file(kind)) as engine:
        first = engine.generate(TALK, sampling=Sampling(seed=1), max_tokens=9)
        run_to_end(first)
        held = len(engine.decoder.mirror_ids)
        assert engine.load_session(path) == 0
        assert engine.save_session(path) == 1

        answer = Message("assistant", first.text, token_ids=first.token_ids)
        more = [*TALK, answer, Message("user", "and yours?")]
        undisturbed = engine.generate(more, sampling=Sampling(seed=2), max_tokens=9)
        run_to_end(undisturbed)
    with open_engine(model_file(kind)) as engine:
        assert engine.load_session(path) == 1
        second = engine.generate(more, sampling=Sampling(seed=2), max_tokens=9)
        run_to_end(second)

    assert second.stats.reused_tokens == held
    assert second.text == undisturbed.text


@pytest.mark.parametrize("kind", ["plain", "recurrent", "hybrid"])
def test_logits_after_a_restart_are_those_before_it(
    kind: str, model_file: Callable[[str], Path], tmp_path: Path
) -> None:
    tokens = [7 * i % 200 for i in range(150)]
    with open_engine(model_file(kind)) as engine:
        read(engine.decoder, tokens)
        engine.save_session(tmp_path / "session")
        expected = logits_after(engine.decoder, [*tokens, 4, 5])
    with open_engine(model_file(kind)) as engine:
        engine.load_session(tmp_path / "session")

        assert logits_after(engine.decoder, [*tokens, 4, 5]) == expected


def test_several_conversations_come_back(plain_model: Path, tmp_path: Path) -> None:
    talks = [[seed + 3 * i for i in range(60)] for seed in range(3)]
    with open_engine(plain_model, slots=3) as engine:
        for talk in talks:
            read(engine.decoder, talk)
        assert engine.save_session(tmp_path / "session") == 3
    with open_engine(plain_model, slots=2) as engine:
        assert engine.load_session(tmp_path / "session") == 3
        for talk in talks:
            assert read(engine.decoder, [*talk, 5]).counters()["reused_tokens"] == len(talk)


def test_only_the_owner_may_read_it(plain_model: Path, tmp_path: Path) -> None:
    with open_engine(plain_model) as engine:
        read(engine.decoder, [1, 2, 3])
        engine.save_session(tmp_path / "session")

    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "session").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["session"]


def test_another_model_and_other_settings_are_refused(
    saved: bytes, plain_model: Path, endless_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "session"
    path.write_bytes(saved)
    for model, options in ((endless_model, {}), (plain_model, {"kv_type": "f16"})):
        with open_engine(model, **options) as engine:
            with pytest.raises(SessionCacheError, match="another model") as caught:
                engine.load_session(path)
            assert caught.value.hint
            assert read(engine.decoder, range(1, 60)).counters()["reused_tokens"] == 0


def test_a_file_of_another_kind_is_neither_read_nor_overwritten(plain_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with open_engine(plain_model) as engine:
        read(engine.decoder, [1, 2, 3])
        for use in (engine.load_session, engine.save_session):
            with pytest.raises(SessionCacheError, match="not a session cache"):
                use(path)

    assert path.read_text() == "my notes"


def test_a_folder_that_cannot_be_written_is_an_error_with_a_way_out(
    plain_model: Path, tmp_path: Path
) -> None:
    with open_engine(plain_model) as engine, pytest.raises(SessionCacheError) as caught:
        engine.save_session(tmp_path / "nowhere" / "session")

    assert "folder" in caught.value.hint


@pytest.mark.hypothesis
def test_damage_anywhere_is_noticed(saved: bytes, plain_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "session"
    with open_engine(plain_model) as engine:

        @settings(max_examples=examples(30))
        @given(st.integers(0, len(saved) - 1), st.integers(1, 255), st.booleans())
        def check(where: int, change: int, cut: bool) -> None:
            data = bytearray(saved)
            if cut:
                del data[where:]
            else:
                data[where] ^= change
            path.write_bytes(data)
            with pytest.raises(SessionCacheError):
                engine.load_session(path)

        check()
        assert list(engine.decoder.snapshots()) == []


def test_what_does_not_fit_is_left_out(plain_model: Path, tmp_path: Path) -> None:
    with open_engine(plain_model, cache_ram_bytes=1000) as engine:
        read(engine.decoder, range(1, 60))
        assert engine.save_session(tmp_path / "session") == 0
    with open_engine(plain_model) as engine:
        assert engine.load_session(tmp_path / "session") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_window_is_left_out(kind: str, model_file: Callable[[str], Path], tmp_path: Path) -> None:
    """Nothing could follow it; and the file of an earlier version that has one is read all the same."""
    with open_engine(model_file(kind), n_ctx=256) as engine:
        read(engine.decoder, [1 + i % 200 for i in range(engine.window_tokens)])
        assert len(engine.decoder.mirror_ids) == engine.window_tokens
        assert engine.save_session(tmp_path / "session") == 0
        full = array("i", [1] * engine.window_tokens)
        assert not engine.decoder.adopt(full, b"state", False)
    with open_engine(model_file(kind), n_ctx=256) as engine:
        assert engine.load_session(tmp_path / "session") == 0


def test_no_number_of_tokens_is_too_large_to_ask_for(plain_model: Path) -> None:
    with open_engine(plain_model, n_ctx=256) as engine:
        generation = engine.generate(TALK, sampling=Sampling(seed=1), max_tokens=1 << 40)
        run_to_end(generation)

    assert 0 < generation.stats.generated_tokens <= 256
