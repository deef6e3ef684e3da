"""What the settings make: who learns and with which model, who summarizes, and how engines are opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest

from shepherd import encryption, factory, memory_factory, setting_checks
from shepherd._native.store import HAS_CIPHERS
from shepherd.config import Config
from shepherd.encryption.unlocking import forget_all
from shepherd.errors import ModelLoadError, StoreMissingError, StoreReadOnlyError, UsageError
from shepherd.extraction import EndpointExtractor, ExtractionWorker, LocalExtractor, WorkerSettings
from shepherd.factory import (
    engine_settings,
    extraction_model,
    learning_of,
    open_engine,
    own_summarizer,
    running_worker,
    summarizer_of,
    sums_up,
)
from shepherd.inference import Engine, EngineSettings, PriorityLock, embedding, embedding_endpoint
from shepherd.inference.names import BUILT_IN_FILE
from shepherd.memory import Memory
from shepherd.memory_factory import (
    LazyReranker,
    keys_without_memory,
    open_embedder,
    open_memory,
    open_memory_to_read,
    reranker_of,
    unlock_copy,
    unlock_memory,
    vector_settings,
)
from shepherd.model_files import existing_file, model_path
from shepherd.paths import default_database
from shepherd.setting_checks import check_setting, try_server
from shepherd.types import Learning
from tests import models
from tests.memory.blind import known_key

ANNA = Config(user_id="anna")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SHEPHERD_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    return tmp_path


# ---- who learns


@pytest.mark.parametrize(
    ("settings", "chat", "options", "expected"),
    [
        ({}, "bundled", {"uses_memory": False}, Learning(reason="the memory is not used here")),
        ({}, "bundled", {"is_writable": False}, Learning(reason="the memory is read-only")),
        ({"memory_extraction": False}, "bundled", {}, Learning(reason="memory_extraction is false")),
        ({}, "bundled", {}, Learning(True, "shepherd-mini", "bundled", "")),
        ({"memory_extraction": True}, "bundled", {}, Learning(True, "shepherd-mini", "bundled", "")),
        ({}, "model", {}, Learning(True, "model", "chat", "")),
        ({}, None, {}, Learning(True, "shepherd-mini", "bundled", "")),
        ({"memory_extraction_model": "~/model.gguf"}, None, {}, Learning(True, "model", "local", "")),
        ({"memory_extraction_model": "~/model.gguf"}, "bundled", {}, Learning(True, "model", "local", "")),
        (
            {"memory_extraction_endpoint": "http://host:1/v1"}, "bundled", {},
            Learning(True, "its default model", "host", ""),
        ),
        (
            {"memory_extraction_endpoint": "http://host:1/v1", "memory_extraction_model": "m"}, None, {},
            Learning(True, "m", "host", ""),
        ),
        (
            {"user_id": "nobody"}, "bundled", {},
            Learning(reason="it is not known who you are; user_id or --user names you"),
        ),
        (
            {"user_id": "nobody"}, "bundled", {"for_everyone": True},
            Learning(True, "shepherd-mini", "bundled", ""),
        ),
    ],
)  # fmt: skip
def test_who_learns(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    chat: str | None,
    options: dict[str, bool],
    expected: Learning,
) -> None:
    monkeypatch.setattr(factory, "ANONYMOUS_USERS", ("nobody",))
    path = {"bundled": BUILT_IN_FILE, "model": home / "model.gguf", None: None}[chat]

    assert learning_of(replace(ANNA, **settings), path, **options) == expected


def test_the_file_that_learns(home: Path) -> None:
    chat, own = home / "chat.gguf", home / "model.gguf"

    assert extraction_model(ANNA, chat) == chat
    assert extraction_model(ANNA, None) == BUILT_IN_FILE
    named = replace(ANNA, memory_extraction_model=str(own))
    assert extraction_model(named, chat) == extraction_model(named, None) == own
    assert extraction_model(replace(named, memory_extraction=False), chat) is None
    assert extraction_model(replace(ANNA, memory_extraction_endpoint="http://host"), chat) is None


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The workers that are made, each with what was asked of it."""
    made: list[Any] = []

    class Watched(ExtractionWorker):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.asked: list[object] = []
            made.append(self)

        def start(self) -> None:
            self.asked.append("start")
            super().start()

        def flush(self, deadline_s: float) -> bool:
            self.asked.append(("flush", deadline_s))
            return super().flush(deadline_s)

        def close(self) -> None:
            self.asked.append("close")
            super().close()

    monkeypatch.setattr(factory, "ExtractionWorker", Watched)
    return made


def test_a_worker_has_the_settings_and_a_moment_at_the_end(home: Path, workers: list[Any]) -> None:
    config = replace(
        ANNA, memory_extraction_min_turns=5, memory_extraction_max_turns=9, memory_extraction_secrets=True,
        memory_extraction_idle_timeout=44, memory_extraction_queue_limit=77,
        memory_extraction_retry_interval=6, memory_extraction_max_tokens=99,
        memory_extraction_temperature=0.75,
    )  # fmt: skip
    path = home / "model.gguf"
    with open_memory(config) as memory:
        with running_worker(memory, config, path, None) as worker:
            assert workers == [worker]
            assert worker.asked == ["start"]  # type: ignore[attr-defined]
        assert worker.asked == ["start", ("flush", 1.5), "close"]  # type: ignore[attr-defined]
        assert (worker._memory, worker._user_id) == (memory, "anna")
        assert worker.settings == WorkerSettings(5, 9, 44, 77, True)
        assert worker._retry_interval_s() == 5  # the file's, which says nothing
        extractor = worker._extractor
        assert isinstance(extractor, LocalExtractor)
        assert (extractor.facts_only, extractor._apart, extractor._max_tokens) == (False, False, 99)
        assert extractor._sampling.temperature == 0.75

        with running_worker(memory, config, path, None, for_everyone=True) as worker:
            pass
        assert (worker._user_id, worker.settings.min_turns) == (None, 1)
        assert worker.asked == ["start", "close"]  # type: ignore[attr-defined]

        with running_worker(memory, config, BUILT_IN_FILE, None) as worker:
            pass
        extractor = worker._extractor
        assert isinstance(extractor, LocalExtractor)
        assert (extractor.facts_only, extractor._apart) == (True, True)
        assert (extractor._sampling.temperature, worker.settings.min_turns) == (0.0, 1)

        with pytest.raises(ZeroDivisionError), running_worker(memory, config, BUILT_IN_FILE, None):
            raise ZeroDivisionError
        assert workers[3].asked == ["start", "close"]


def test_an_endpoint_learns_with_its_settings(workers: list[Any]) -> None:
    config = replace(
        ANNA, memory_extraction_endpoint="http://host:1", memory_extraction_model="m",
        memory_extraction_api_key="key", memory_extraction_max_tokens=99, memory_extraction_temperature=0.75,
        memory_extraction_min_turns=3,
    )  # fmt: skip
    with open_memory(config) as memory, running_worker(memory, config, BUILT_IN_FILE, None):
        pass

    extractor = workers[0]._extractor
    assert isinstance(extractor, EndpointExtractor)
    assert extractor.url == "http://host:1/v1/chat/completions"
    body = extractor._body
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 99, 0.75)
    assert extractor._headers == {"Authorization": "Bearer key"}
    assert workers[0].settings.min_turns == 3


def test_what_learns_shares_the_chats_weights_or_has_an_engine_of_its_own(
    home: Path, workers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    class Chat:
        window_tokens = 100_000

        def sibling(self, *, n_ctx: int) -> str:
            return f"sibling of {n_ctx}"

    def opens(config: Config, path: Path, *, yields_to: object) -> str:
        opened.append((config.n_ctx, path, yields_to))
        return "own"

    monkeypatch.setattr(factory, "open_engine", opens)
    chat, path, other, lock = Chat(), home / "chat.gguf", home / "model.gguf", PriorityLock()
    config = replace(ANNA, n_ctx=777)
    named = replace(config, memory_extraction_model=str(other))
    ways: list[tuple[Config, Any, dict[str, Any]]] = [
        (config, chat, {}),
        (config, None, {"open_sibling": lambda n: f"opened with {n}", "yields_to": lock}),
        (config, chat, {"open_sibling": lambda n: f"opened with {n}"}),
        (named, chat, {}),
        (named, chat, {"open_sibling": lambda n: f"opened with {n}", "yields_to": lock}),
        (config, None, {}),
    ]
    with open_memory(config) as memory:
        for one, engine, options in ways:
            with running_worker(memory, one, path, engine, **options):
                pass
    engines = [worker._extractor._open_engine() for worker in workers]

    largest = f"opened with {factory.WINDOW_TOKENS}"
    assert engines == [f"sibling of {factory.WINDOW_TOKENS}", largest, largest, "own", "own", "own"]
    assert opened == [(0, other, chat), (0, other, lock), (0, path, None)]
    chat.window_tokens = 300
    assert workers[0]._extractor._open_engine() == "sibling of 300"


# ---- who summarizes


@pytest.mark.parametrize(
    ("wanted", "chat", "expected"),
    [
        ("auto", "model", True), ("auto", "bundled", False), ("auto", None, False),
        (True, None, True), (True, "bundled", True), (False, "model", False),
    ],
)  # fmt: skip
def test_a_local_model_that_is_large_enough_summarizes(home: Path, wanted, chat, expected: bool) -> None:
    path = {"bundled": BUILT_IN_FILE, "model": home / "model.gguf", None: None}[chat]

    assert sums_up(replace(ANNA, history_summary=wanted), path) == expected


def test_summarizers_open_their_model_with_a_small_window(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Chat:
        window_tokens = 100_000

    monkeypatch.setattr(factory, "open_engine", lambda config, path: (config.n_ctx, path))
    config, path = replace(ANNA, history_summary_tokens=55, history_summary=True), home / "model.gguf"

    with summarizer_of(config, lambda n: n, Chat()) as summarizer:  # type: ignore[arg-type,return-value]
        assert not summarizer._is_closed
    assert summarizer._is_closed
    assert (summarizer._open_model(), summarizer._max_tokens, summarizer._queues) == (4096, 55, False)
    Chat.window_tokens = 3000
    with summarizer_of(config, lambda n: n, Chat(), queues=True) as summarizer:  # type: ignore[arg-type,return-value]
        assert (summarizer._open_model(), summarizer._max_tokens, summarizer._queues) == (3000, 55, True)
    with own_summarizer(config, path) as own:
        assert own is not None
        assert (own._open_model(), own._max_tokens, own._is_closed) == ((4096, path), 55, False)
    assert own._is_closed
    with own_summarizer(replace(config, history_summary=False), path) as none:
        assert none is None


# ---- models


def test_a_file_that_a_setting_names_must_be_there(home: Path) -> None:
    assert existing_file("~/model.gguf", "model") == home / "model.gguf"
    assert model_path(Config(model="~/model.gguf")) == home / "model.gguf"

    with pytest.raises(UsageError) as caught:
        existing_file("nothing", "model")
    assert caught.value.hint.endswith("; name a GGUF file with -m or the setting 'model'")
    with pytest.raises(UsageError, match=r"^draft_model: ") as caught:
        existing_file("nothing", "draft_model")
    assert "GGUF file, or" not in caught.value.hint
    with pytest.raises(UsageError) as caught:
        existing_file(str(home / "none.gguf"), "draft_model")
    assert str(caught.value) == f"{home / 'none.gguf'}: there is no such file"
    assert caught.value.hint == "name a GGUF file in draft_model, or unset it"


def test_a_draft_model_must_have_the_vocabulary_of_the_model(plain_model: Path, model_file: Any) -> None:
    def check(model: Path, draft: Path) -> None:
        check_setting(Config(model=str(model), draft_model=str(draft)), "draft_model")

    check(plain_model, plain_model)
    with pytest.raises(ModelLoadError, match=r"spm\.gguf.*plain\.gguf"):
        check(plain_model, model_file("spm"))
    check(plain_model.with_name("none.gguf"), model_file("spm"))


@pytest.mark.parametrize("value", ["", "off", " off ", " "])
def test_vectors_and_rerankers_are_optional(value: str) -> None:
    assert vector_settings(Config(memory_vectors=value)) is None
    assert reranker_of(Config(knowledge_reranker=value)) is None


def test_vectors_come_from_a_server_or_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_factory, "open_embedder", lambda config, path: path)
    config = Config(
        memory_vectors=" http://host:1/v1 ", memory_vectors_model="m", memory_vectors_weight=0.25,
        memory_vectors_api_key="key",
    )  # fmt: skip
    settings = vector_settings(config)
    assert settings is not None
    assert settings.weight == 0.25
    given: list[Any] = []
    monkeypatch.setattr(
        embedding_endpoint, "EndpointEmbedder", lambda *one, **options: given.append((one, options))
    )
    settings = vector_settings(config)
    assert settings is not None
    settings.open_embedder()
    assert given == [(("http://host:1/v1",), {"model": "m", "api_key": "key"})]

    settings = vector_settings(replace(config, memory_vectors="~/model.gguf"))
    assert settings is not None
    assert (settings.open_embedder(), settings.weight) == (home / "model.gguf", 0.25)


def test_a_memory_says_which_vectors_and_rerankers_it_lacks(home: Path) -> None:
    told: list[tuple[str, str]] = []
    config = replace(
        ANNA, memory_vectors="~/none.gguf", knowledge_reranker="~/none.gguf", max_db_size="5M",
        rag_max_results=7,
    )  # fmt: skip

    with open_memory(config, warn=lambda *said: told.append(said)) as memory:
        assert memory.user_id == "anna"

    assert told == [
        (f"{home / 'none.gguf'}: there is no such file; only words are searched", hint)
        for hint in ("name a GGUF file or a server in memory_vectors, or set it to off",
                     "name a GGUF file in knowledge_reranker, or set it to off")
    ]  # fmt: skip


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of each reranker and embedder that is loaded, from ranks.gguf and means.gguf."""
    models.bert(tmp_path / "ranks.gguf", pooling=gguf.PoolingType.RANK, n_cls_out=1)
    models.bert(tmp_path / "means.gguf")
    seen: list[Any] = []
    for kind in (embedding.Embedder, embedding.Reranker):

        class Watched(kind):  # type: ignore[misc,valid-type]
            def __init__(self, path: Path, **options: Any) -> None:
                seen.append((path.name, options))
                super().__init__(path, **options)

            def close(self) -> None:
                seen.append("closed")
                super().close()

        monkeypatch.setattr(embedding, kind.__name__, Watched)
    return seen


def test_a_reranker_loads_once_on_first_use(home: Path, loaded: list[Any]) -> None:
    config = Config(gpu_layers=0, threads=2, model_trial=False, knowledge_reranker="~/ranks.gguf")
    lazy = reranker_of(config)
    assert lazy is not None
    assert (lazy.name, loaded) == ("ranks", [])

    scores = lazy.scores("dog", ["texas"])
    assert lazy.counted_scores("dog", ["texas"]) == (scores, 5)

    options = {"n_gpu_layers": 0, "n_threads": 2, "is_trusted": True}
    assert loaded == [("ranks.gguf", options)]
    lazy.close()
    lazy.close()
    assert loaded[1:] == ["closed"]
    with pytest.raises(UsageError, match="the reranker is closed"):
        lazy.scores("dog", ["texas"])
    tried = replace(config, model_trial=True)
    other = LazyReranker(tried, home / "ranks.gguf")
    other.scores("dog", [])
    other.close()
    for one in (config, tried):
        open_embedder(one, home / "means.gguf").close()
    untrusted = {**options, "is_trusted": False}
    assert [one for one in loaded[2:] if one != "closed"] == [
        ("ranks.gguf", untrusted), ("means.gguf", options), ("means.gguf", untrusted),
    ]  # fmt: skip


def test_a_reranker_that_does_not_load_is_not_tried_again(home: Path, loaded: list[Any]) -> None:
    lazy = LazyReranker(Config(model_trial=False), home / "means.gguf")

    for _ in range(2):
        with pytest.raises(ModelLoadError, match="not a reranker"):
            lazy.scores("q", ["d"])
    assert len(loaded) == 1
    lazy.close()
    with pytest.raises(ModelLoadError, match="not a reranker"):
        lazy.scores("q", ["d"])


def test_an_engine_has_the_settings() -> None:
    config = Config(
        n_ctx=777, gpu_layers=3, flash_attention="on", kv_type="q8_0", swa_full=True, cache_ram_mb=5,
        cache_disk_gb=0.5, kv_edit="shift", draft="off", thinking="off", threads=6,
    )  # fmt: skip

    assert engine_settings(config) == EngineSettings(
        n_ctx=777, n_gpu_layers=3, flash_attention="on", kv_type="q8_0", swa_full=True,
        cache_ram_bytes=5 << 20, cache_disk_bytes=500_000_000, kv_edit="shift", draft="off",
        thinking="off", n_threads=6, mmproj="none",
    )  # fmt: skip


def test_an_engine_is_opened_after_a_trial_and_tells_its_progress(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    tried: list[Any] = []

    def make(path: Path, *, progress: Any, **options: Any) -> str:
        opened.append((path, options))
        for share in (0.0, 0.004, 0.01, 0.999, 1.0):
            progress(share)
        return "engine"

    monkeypatch.setattr(factory, "Engine", make)
    monkeypatch.setattr(
        factory.load_check, "require", lambda path, *, is_trusted, loading: tried.append((path, is_trusted))
    )
    told: list[str] = []
    config, path, draft = Config(n_ctx=512, cache_disk_gb=1), home / "chat.gguf", home / "model.gguf"

    assert open_engine(config, path, loading=told.append) == "engine"
    assert told == ["loading chat …", *(f"loading chat, {n} %" for n in (0, 1, 99, 100)), ""]
    usual = replace(engine_settings(config), cache_disk_bytes=0)
    assert opened.pop() == (
        path,
        {
            "settings": usual, "yields_to": None, "priority_lock": None, "is_trusted": True,
            "tries_projector": True,
        },
    )  # fmt: skip
    assert tried == [(path, False)]

    lock = PriorityLock()
    trusting = replace(config, model_trial=False)
    open_engine(
        trusting, path, slots=2, windows=3, keeps=True, projector="~/eyes.gguf", draft_model=str(draft),
        yields_to=lock, priority_lock=lock,
    )  # fmt: skip
    assert tried[1:] == [(path, True), (draft, True)]
    [(_, options)] = opened
    assert options["settings"] == replace(
        usual, cache_disk_bytes=10**9, slots=2, windows=3, mmproj=str(home / "eyes.gguf"),
        draft_model=str(draft),
    )  # fmt: skip
    assert (options["yields_to"], options["priority_lock"]) == (lock, lock)
    assert not options["tries_projector"]

    open_engine(replace(config, draft="off"), BUILT_IN_FILE, draft_model=str(draft), projector="")
    assert tried[3:] == [(BUILT_IN_FILE, True)]
    assert (opened[1][1]["settings"].draft_model, opened[1][1]["settings"].mmproj) == ("", "")


def test_a_message_about_loading_is_taken_back_after_a_failure(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Engine:
        raise ModelLoadError("no")

    monkeypatch.setattr(factory, "Engine", fails)
    told: list[str] = []
    with pytest.raises(ModelLoadError):
        open_engine(Config(model_trial=False), home / "model.gguf", loading=told.append)

    assert told[-1] == ""


# ---- memories


def test_a_server_is_only_asked_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def opens(config: Config, *, read_only: bool) -> Any:
        opened.append((config.memory_database, config.memory_vectors, config.knowledge_reranker, read_only))
        raise StoreMissingError("no memory yet")

    monkeypatch.setattr(setting_checks, "open_memory", opens)
    config = Config(memory_vectors="http://x", knowledge_reranker="hf:x")
    try_server(replace(config, memory_database="~/mine.db"), "memory_database")
    assert opened == []

    try_server(replace(config, memory_database="postgresql://host/db"), "memory_database")
    assert opened == [("postgresql://host/db", "", "", True)]


def test_keys_need_no_memory_but_its_file(home: Path) -> None:
    with keys_without_memory(ANNA) as keys:
        assert keys is None
    with keys_without_memory(replace(ANNA, memory_database="~/mine.db")) as keys:
        assert keys is None
    open_memory(ANNA).close()
    with keys_without_memory(replace(ANNA, memory_vectors="~/none.gguf")) as keys:
        assert keys is not None
        assert keys.list() == []


def test_a_memory_to_read_is_made_only_for_a_process_that_lasts(home: Path) -> None:
    with open_memory_to_read(ANNA) as memory:
        assert memory.count_memories() == 0
        assert not default_database().exists()

    with open_memory_to_read(ANNA, creates=True):
        assert default_database().exists()


def test_a_memory_to_read_need_not_be_writable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_memory(ANNA).close()
    opened: list[bool] = []

    def opens(config: Config, *, read_only: bool = False, warn: object) -> str:
        opened.append(read_only)
        if not read_only:
            raise StoreReadOnlyError("no")
        return "memory"

    monkeypatch.setattr(memory_factory, "open_memory", opens)

    assert open_memory_to_read(ANNA) == "memory"
    assert opened == [False, True]


def test_an_account_without_a_name_owns_its_memory(home: Path) -> None:
    config = Config()
    with open_memory(config) as memory:
        own = memory.user_id
        memory.set_fact("name", "Ada")
    with open_memory(config, read_only=True) as memory:
        assert memory.user_id == own
        assert memory.get_fact("name") == "Ada"


def test_the_key_of_a_memory_is_asked_for_as_the_settings_say(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(memory_factory.encryption, "use_settings", lambda *given: asked.append(given))
    config = replace(ANNA, memory_key_command="print key", memory_key_file="key.txt")

    open_memory(config).close()
    assert not unlock_memory(config)
    unlock_copy(config, home / "none.db")

    assert asked == [("print key", "key.txt")] * 3


@pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")
def test_settings_without_a_key_leave_the_one_that_a_program_has_named(home: Path, tmp_path: Path) -> None:
    with known_key(tmp_path) as file:
        Memory(tmp_path / "own.db", blind=True).close()
        moved = file.rename(tmp_path / "moved.key")
        forget_all()
        encryption.use_settings("", str(moved))
        with open_memory(ANNA, address=str(tmp_path / "own.db")) as memory:
            assert memory.stats().is_encrypted


def test_a_memory_whose_account_cannot_be_found_is_closed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Memory] = []
    close = Memory.close
    monkeypatch.setattr(Memory, "close", lambda memory: closed.append(memory) or close(memory))

    def fails(*_: object, **__: object) -> None:
        raise StoreReadOnlyError("no")

    monkeypatch.setattr(memory_factory, "find_user", fails)
    with pytest.raises(StoreReadOnlyError):
        open_memory(Config())

    assert len(closed) == 1


def test_an_account_may_have_begun_its_memory_under_another_name(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[dict[str, bool]] = []
    for read_only, told in ((False, ["it was begun as old:ada"]), (True, [])):
        message = "".join(told)
        caplog.clear()

        def finds(*_: object, message: str = message, **options: bool) -> tuple[str, str]:
            asked.append(options)
            return "old:ada", message

        monkeypatch.setattr(memory_factory, "find_user", finds)
        with open_memory(Config(), read_only=read_only) as memory:
            assert memory.user_id == "old:ada"
        assert [record.getMessage() for record in caplog.records] == told

    assert [options["writes"] for options in asked] == [True, False]
