"""From settings to the parts of a conversation: the memory, the engine, the worker that learns.

Every frontend starts here, or in shepherd.chat_session, so that a setting means the same in all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.config.file import load
from shepherd.errors import (
    ConfigError,
    SessionCacheError,
    ShepherdError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.extraction import EndpointExtractor, ExtractionWorker, Extractor, LocalExtractor, WorkerSettings
from shepherd.extraction.local import WINDOW_TOKENS
from shepherd.inference import Engine, EngineSettings, load_check
from shepherd.inference.hub import Report
from shepherd.inference.models import is_built_in, resolve
from shepherd.memory import Memory
from shepherd.paths import default_database, from_home
from shepherd.prompt import Summarizer
from shepherd.turn.components import supports_entity_blocks
from shepherd.types import ANONYMOUS_USERS

if TYPE_CHECKING:
    from shepherd.inference.embedding import Embedder, Reranker
    from shepherd.memory import ApiKeys
    from shepherd.memory.vectors import VectorSettings
    from shepherd.providers import ChatModel

__all__ = [
    "LazyReranker",
    "existing_file",
    "extracts",
    "keys_without_memory",
    "memory_of_a_server",
    "model_path",
    "open_embedder",
    "open_engine",
    "open_memory",
    "open_memory_or_warn",
    "open_memory_to_read",
    "persistent_kv_cache",
    "reranker_of",
    "summarizer_of",
    "sums_up",
    "supports_entity_blocks",
    "vector_settings",
    "worked",
]

# At the end of a conversation: how long it may take to learn from what was said last.
_FLUSH_S = 1.5
# Of the model that sums up: a fold of an 8k window, in at most two parts.
SUMMARY_WINDOW_TOKENS = 4096
# What may pass by itself, or concerns writing alone. A wrong path or a foreign file is a mistake to correct.
_TRANSIENT_ERRORS = (StoreLockedError, StoreFullError, StoreReadOnlyError)


def model_path(config: Config, report: Report = lambda event: None) -> Path:
    """The file of the configured model; one named hf:… is fetched when it is not here. UsageError without."""
    return existing_file(config.model, "-m or the setting 'model' names a GGUF file", report)


def existing_file(name: str, hint: str, report: Report = lambda event: None) -> Path:
    """Return the file of a model that a setting names, downloaded if need be; UsageError if there is none."""
    path = resolve(name, report)
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", hint=hint)
    return path


def open_memory(config: Config, *, read_only: bool = False) -> Memory:
    """The memory of these settings; raises StoreError, or UsageError for a database this build cannot use."""
    from_url = "://" in config.memory_database
    named = config.memory_database
    database = named if from_url else str(from_home(named, "memory_database"))
    return Memory(
        database if config.memory_database else "",
        user_id=config.effective_user_id,
        read_only=read_only,
        relevance_threshold=config.rag_relevance_threshold,
        max_results=config.rag_max_results,
        recency_floor=config.rag_recency_floor,
        max_db_size=config.max_db_size,
        recall_cache_mb=config.recall_cache_mb,
        vectors=vector_settings(config),
        reranker=reranker_of(config),
    )


def vector_settings(config: Config) -> VectorSettings | None:
    """How vectors are made by these settings; UsageError for what can be seen to be wrong without a model."""
    wanted = config.memory_vectors.strip()
    if wanted in ("", "off"):
        return None
    # Not at the top: arrays and a client, for those who have vectors.
    from shepherd.memory.vectors import VectorSettings

    if "://" in wanted:
        from shepherd.inference.embedding_endpoint import EndpointEmbedder, embeddings_url

        embeddings_url(wanted)
        return VectorSettings(
            lambda: EndpointEmbedder(
                wanted, model=config.memory_vectors_model, api_key=config.memory_vectors_api_key
            ),
            config.memory_vectors_weight,
        )
    path = existing_file(wanted, "memory_vectors names a GGUF file, a server, or is off")
    return VectorSettings(lambda: open_embedder(config, path), config.memory_vectors_weight)


def reranker_of(config: Config) -> LazyReranker | None:
    """The reranker of these settings, loaded when it is first asked; UsageError where there is no file."""
    wanted = config.knowledge_reranker.strip()
    if wanted in ("", "off"):
        return None
    return LazyReranker(config, existing_file(wanted, "knowledge_reranker names a GGUF file, or is off"))


class LazyReranker:
    """A reranker that is loaded when it is first asked, and tried before if it never was. Thread-safe.

    One that cannot be loaded is not tried again.
    """

    def __init__(self, config: Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._lock = threading.Lock()
        self._reranker: Reranker | None = None
        self._failure: ShepherdError | None = None

    def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        """One score per document, in their order."""
        return self._opened().scores(query, documents)

    def close(self) -> None:
        """Lets go of the model; twice is fine."""
        with self._lock:
            reranker, self._reranker = self._reranker, None
            self._failure = self._failure or UsageError("the reranker is closed")
        if reranker is not None:
            reranker.close()

    def _opened(self) -> Reranker:
        from shepherd.inference.embedding import Reranker

        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._reranker is None:
                config = self._config
                try:
                    load_check.require(self._path, is_trusted=not config.model_trial)
                    self._reranker = Reranker(
                        self._path, n_gpu_layers=config.gpu_layers, n_threads=config.threads
                    )
                except ShepherdError as error:
                    self._failure = error
                    raise
            return self._reranker


def open_embedder(config: Config, path: Path) -> Embedder:
    """The model of embeddings at `path`, loaded; one that was never loaded here is tried before."""
    from shepherd.inference.embedding import Embedder

    load_check.require(path, is_trusted=not config.model_trial)
    return Embedder(path, n_gpu_layers=config.gpu_layers, n_threads=config.threads)


def open_memory_to_read(config: Config) -> Memory:
    """The memory of these settings, also where it may not be written."""
    try:
        return open_memory(config)
    except StoreReadOnlyError:
        return open_memory(config, read_only=True)


def extracts(config: Config, chat_model: Path | None, *, for_everyone: bool = False) -> bool:
    """Whether facts are learned from what is said; `auto` is on where it costs nothing.

    Without a chat model here, which is with a remote one, the model that comes with Shepherd extracts unless
    another is set.
    """
    wanted = config.memory_extraction
    by_default = not (config.memory_extraction_model or config.memory_extraction_endpoint)
    is_free = by_default if chat_model is None else is_built_in(chat_model)
    on = is_free if wanted == "auto" else wanted is True
    return on and (for_everyone or config.effective_user_id not in ANONYMOUS_USERS)


def sums_up(config: Config, chat_model: Path | None) -> bool:
    """Whether turns that leave the window are summed up; `auto`: by a model here that is up to it.

    The model that comes with Shepherd is too small for it, and one elsewhere may cost money.
    """
    wanted = config.history_summary
    return chat_model is not None and not is_built_in(chat_model) if wanted == "auto" else wanted is True


@contextmanager
def summarizer_of(
    config: Config,
    open_model: Callable[[int], ChatModel],
    chat_model: ChatModel,
    *,
    queues: bool = False,
) -> Iterator[Summarizer]:
    """Give a summarizer whose model `open_model` opens with that window, when it is first needed."""
    window = min(chat_model.window_tokens, SUMMARY_WINDOW_TOKENS)
    summarizer = Summarizer(
        lambda: open_model(window), max_tokens=config.history_summary_tokens, queues=queues
    )
    try:
        yield summarizer
    finally:
        summarizer.close()


@contextmanager
def persistent_kv_cache(engine: Engine, path: Path, warn: Callable[[str, str], None]) -> Iterator[None]:
    """The engine's cache from this file, and back into it; whatever is wrong with it costs reading again."""
    try:
        engine.load_session(path)
    except SessionCacheError as error:
        warn(str(error), error.hint)
    yield
    try:
        engine.save_session(path)
    except SessionCacheError as error:
        warn(str(error), error.hint)


@contextmanager
def worked(
    memory: Memory,
    config: Config,
    path: Path | None,
    engine: Engine | None,
    *,
    for_everyone: bool = False,
) -> Iterator[ExtractionWorker]:
    """A worker at work; at the end it has a moment for what was said last, and the rest stays queued.

    One `for_everyone`, as servers have it, looks at what any user said, after each answer.
    """
    settings = WorkerSettings(
        min_turns=1 if for_everyone else config.memory_extraction_min_turns,
        max_turns=config.memory_extraction_max_turns,
        idle_timeout_s=config.memory_extraction_idle_timeout,
        queue_limit=config.memory_extraction_queue_limit,
        secrets=config.memory_extraction_secrets,
    )
    worker = ExtractionWorker(
        memory,
        _extractor(config, path, engine),
        None if for_everyone else config.effective_user_id,
        settings=settings,
        retry_interval_s=lambda: _retry_interval_s(config),
    )
    worker.start()
    try:
        yield worker
        # A server is to be gone soon, and comes back: what is due waits for that in the database.
        if not for_everyone:
            worker.flush(_FLUSH_S)
    finally:
        worker.close()


def _extractor(config: Config, path: Path | None, engine: Engine | None) -> Extractor:
    if config.memory_extraction_endpoint:
        return EndpointExtractor(
            config.memory_extraction_endpoint,
            model=config.memory_extraction_model,
            api_key=config.memory_extraction_api_key,
            max_tokens=config.memory_extraction_max_tokens,
            temperature=config.memory_extraction_temperature,
        )
    named = config.memory_extraction_model
    hint = "memory_extraction_model names a GGUF file, or is empty for the chat's"
    own = path if path is not None and not named else existing_file(named, hint)
    built_in = is_built_in(own)

    def open_own() -> Engine:
        if engine is not None and own == path:
            return engine.sibling(n_ctx=min(engine.window_tokens, WINDOW_TOKENS))
        return open_engine(replace(config, n_ctx=0), own, yields_to=engine)

    return LocalExtractor(
        open_own,
        max_tokens=config.memory_extraction_max_tokens,
        temperature=0.0 if built_in else config.memory_extraction_temperature,
        copies=built_in,
        apart=built_in,  # a small model errs less over one sentence at a time, and costs nothing
    )


def _retry_interval_s(config: Config) -> float:
    """As the configuration says now: a user who waits for a server shortens it without a restart."""
    try:
        return load().config.memory_extraction_retry_interval
    except ConfigError:
        return config.memory_extraction_retry_interval


def open_memory_or_warn(config: Config, warn: Callable[[str, str], None]) -> tuple[Memory | None, bool]:
    """The memory, if it can be had, and whether it can be written."""
    try:
        return memory_of_a_server(config, warn)
    except _TRANSIENT_ERRORS as error:
        warn(f"no memory: {error}", error.hint)
        return None, False
    except StoreError as error:
        error.hint = "; ".join(filter(None, [error.hint, "--nomemory chats without it"]))
        raise


def memory_of_a_server(config: Config, warn: Callable[[str, str], None]) -> tuple[Memory, bool]:
    """The memory, and whether it can be written; StoreError where it cannot even be read.

    No weather excuses a server: who may ask is in the database, and without it everybody could.
    """
    try:
        return open_memory(config), True
    except StoreReadOnlyError as error:
        try:
            opened = open_memory(config, read_only=True)
        except StoreError:
            raise error from None
        warn(f"memory is only read, nothing new is kept: {error}", error.hint)
        return opened, False


@contextmanager
def keys_without_memory(config: Config) -> Iterator[ApiKeys | None]:
    """The keys, for a server that leaves the rest of the database alone; None where there is none yet."""
    named = config.memory_database
    file = from_home(named, "memory_database") if named else default_database()
    if "://" not in named and not file.exists():
        yield None
        return
    with open_memory_to_read(replace(config, memory_vectors="off", knowledge_reranker="off")) as memory:
        yield memory.keys


def open_engine(
    config: Config,
    path: Path,
    *,
    yields_to: Engine | None = None,
    loading: Callable[[str], None] = lambda text: None,
    slots: int = 1,
    windows: int = 1,
) -> Engine:
    """The model at `path`, loaded; one from outside that was never loaded here is tried before.

    With `slots` it makes so many answers at once, whose conversations share so many `windows`.
    """
    load_check.require(path, is_trusted=is_built_in(path) or not config.model_trial, loading=loading)
    loading(f"loading {path} …")
    try:
        settings = replace(_engine_settings(config), slots=slots, windows=windows)
        return Engine(path, settings=settings, yields_to=yields_to)
    finally:
        loading("")


def _engine_settings(config: Config) -> EngineSettings:
    return EngineSettings(
        n_ctx=config.n_ctx,
        n_gpu_layers=config.gpu_layers,
        flash_attention=config.flash_attention,
        kv_type=config.kv_type,
        swa_full=config.swa_full,
        cache_ram_bytes=config.cache_ram_mb << 20,
        kv_edit=config.kv_edit,
        n_threads=config.threads,
    )
