"""What a session opens with each provider, in which order it closes, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shepherd import chat_session
from shepherd.chat_session import Session
from shepherd.config import Config
from shepherd.errors import ModelLoadError, ShepherdError
from shepherd.memory import Memory
from shepherd.providers import ProviderTable

SAVING = "saving the conversation …"
LEARNING = "learning from your last messages; Ctrl-C skips it …"


@pytest.fixture
def new_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted_model: Path
) -> Iterator[Callable[..., Any]]:
    """A session of a local model; the provider `far` is remote and isn't asked. Options are the session's."""
    monkeypatch.setenv("SHEPHERD_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    at = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    ProviderTable().add("far", {**at, "max_tokens": 77})
    ProviderTable().add("friend", {**at, "memory": True})
    with ExitStack() as stack:

        def make(provider: str = "", *, options: dict[str, Any] | None = None, **settings: Any) -> Session:
            usual = {"model": str(scripted_model), "user_id": "steve", "threads": 1, "n_ctx": 1024}
            database = str(tmp_path / "memory.db")
            config = Config(provider=provider, memory_database=database, **{**usual, **settings})
            session = Session(config, warn=lambda text, hint: None, **(options or {}))
            stack.callback(session.close)
            return session

        yield make


def test_what_is_done_at_the_end_is_told_and_the_memory_is_closed_last(new_session) -> None:
    told: list[str] = []
    ended: list[tuple[str, str]] = []

    def at_end(memory: Memory, user_id: str) -> None:
        ended.append((memory.get_fact("name") or "", user_id))

    options = {"closing": told.append, "at_end": at_end}
    session = new_session(cache_disk_gb=1, options=options)
    session.access.memory.set_fact("name", "Ada")

    session.close()
    session.close()

    assert told == [LEARNING, SAVING, ""]
    assert ended == [("Ada", "steve")]

    told.clear()
    private = new_session(memory_extraction=False, cache_disk_gb=0, options=options)
    private.assistant.private = True
    private.close()
    assert told == [""]
    assert len(ended) == 1


def test_a_local_model_has_siblings_for_what_else_it_does(new_session) -> None:
    with new_session(history_summary=True, entity_extraction=True, history_summary_tokens=99) as session:
        access, engine = session.access, session.access.model
        with access.summarizer._open_model() as summing:
            assert summing is not engine
            assert (summing.window_tokens, summing.model.path) == (1024, engine.model.path)
        with access.reader._open_model() as reading:
            assert reading.window_tokens == chat_session._READER_WINDOW
        assert access.extraction is not None
        assert (access.writes_memory, access.shows_private, access.forgetful) == (True, True, False)
        assert access.learning.where == "chat"

    with new_session(history_summary="auto") as session:
        assert session.access.summarizer is not None
        assert session.access.reader is None
    with new_session(history_summary=False, model="") as session:
        assert session.access.summarizer is None


def test_a_remote_model_has_a_client_of_its_own_for_summaries(new_session) -> None:
    with new_session("far", history_summary=True) as session:
        access = session.access
        assert (access.memory, access.extraction, access.reader) == (None, None, None)
        assert (access.writes_memory, access.shows_private, access.forgetful) == (False, False, True)
        assert not access.learning.is_on
        own = access.summarizer._open_model()
        assert own is not access.model
        assert own.provider is access.model.provider
        own.close()

    with new_session("friend", history_summary="auto") as session:
        assert session.access.summarizer is None
        assert session.access.memory is not None
        assert session.access.learning.where == "bundled"


@pytest.mark.parametrize(
    ("provider", "is_limited", "expected"),
    [("", False, 1024), ("far", False, 77), ("far", True, 1024), ("friend", False, 1024)],
)
def test_the_longest_answer_is_the_callers_the_providers_or_the_settings(
    new_session, provider: str, is_limited: bool, expected: int
) -> None:
    with new_session(provider, options={"is_limited": is_limited}) as session:
        assert session.assistant.config.max_tokens == expected


def test_files_that_settings_name_belong_to_the_settings_model(
    new_session, monkeypatch: pytest.MonkeyPatch, endless_model: Path, scripted_model: Path
) -> None:
    opened: list[tuple[str, bool, str, str]] = []
    open_engine = chat_session.open_engine

    def opens(config: Config, path: Path, **options: Any) -> object:
        named = options.pop("projector"), options.pop("draft_model")
        opened.append((path.name, options["keeps"], *named))
        return open_engine(config, path, **options)

    monkeypatch.setattr(chat_session, "open_engine", opens)
    with new_session(mmproj="eyes.gguf", draft_model="small.gguf") as session:
        assert session.provider.is_local
        session.switch("local", str(endless_model))
        session.switch("local", str(scripted_model))
    with new_session(mmproj="none", options={"memory": False}) as session:
        session.switch("local", str(endless_model))

    assert opened == [
        ("scripted.gguf", True, "eyes.gguf", "small.gguf"),
        ("endless.gguf", True, "", ""),
        ("scripted.gguf", True, "eyes.gguf", "small.gguf"),
        ("scripted.gguf", False, "none", ""),
        ("endless.gguf", False, "none", ""),
    ]


def test_a_switch_that_fails_closes_what_it_opened(
    new_session, monkeypatch: pytest.MonkeyPatch, endless_model: Path
) -> None:
    with new_session() as session:
        before, closed = session.access.model, []
        engines: list[Any] = []
        open_engine = chat_session.open_engine
        monkeypatch.setattr(
            chat_session,
            "open_engine",
            lambda *one, **more: engines.append(open_engine(*one, **more)) or engines[-1],
        )

        def fails(access: object) -> None:
            closed.append(engines[-1].is_closed)
            raise ModelLoadError("no")

        with monkeypatch.context() as patch:
            patch.setattr(session.assistant, "switch", fails)
            with pytest.raises(ShepherdError):
                session.switch("local", str(endless_model))
        assert closed == [False]
        assert engines[0].is_closed
        assert session.access.model is before
        assert not before.is_closed

        session.switch("local", str(endless_model))
        assert before.is_closed
    assert engines[1].is_closed


def test_servers_that_are_not_there_end_the_start_and_free_the_model(
    new_session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines: list[Any] = []
    open_engine = chat_session.open_engine
    monkeypatch.setattr(
        chat_session,
        "open_engine",
        lambda *one, **more: engines.append(open_engine(*one, **more)) or engines[-1],
    )

    with pytest.raises(ShepherdError):
        new_session(mcp_servers="none")

    assert engines[0].is_closed
