"""Factory for the parts of a conversation, by the settings: memory, engine, extraction worker, summarizer.

Every frontend starts here, or in shepherd.chat_session, so that a setting means the same in all of them.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from shepherd import encryption
from shepherd.config import Config
from shepherd.config.file import load
from shepherd.errors import (
    ConfigError,
    ShepherdError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreMissingError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.extraction import (
    EndpointExtractor,
    ExtractionWorker,
    Extractor,
    LocalExtractor,
    WorkerSettings,
)
from shepherd.extraction.local import WINDOW_TOKENS
from shepherd.http_endpoint import api_url
from shepherd.inference import Engine, EngineSettings, PriorityLock, load_check
from shepherd.inference.hub import Report
from shepherd.inference.models import BUILT_IN, is_built_in, resolve
from shepherd.memory import Memory
from shepherd.memory.account import Account, find_user, is_own_file
from shepherd.memory.database import is_encrypted, key_of_file
from shepherd.paths import default_database, expanded, from_home
from shepherd.prompt import Summarizer
from shepherd.types import ANONYMOUS_USERS, Learning

if TYPE_CHECKING:
    from shepherd.inference.embedding import Embedder, Reranker
    from shepherd.memory import ApiKeys
    from shepherd.memory.vectors import VectorSettings
    from shepherd.providers import ChatModel

__all__ = [
    "MODEL_SETTINGS",
    "LazyReranker",
    "engine_settings",
    "existing_file",
    "extraction_model",
    "is_memory_encrypted",
    "keys_without_memory",
    "learning_of",
    "memory_file",
    "model_path",
    "open_embedder",
    "open_engine",
    "open_memory",
    "open_memory_or_read_only",
    "open_memory_or_warn",
    "open_memory_to_read",
    "own_summarizer",
    "reranker_of",
    "running_worker",
    "summarizer_of",
    "sums_up",
    "unlock_copy",
    "unlock_memory",
    "vector_settings",
]

_log = logging.getLogger(__name__)

_Part = TypeVar("_Part")

# Time to learn from the last messages when a conversation ends.
_FLUSH_S = 1.5
# Window of the model that summarizes: what leaves an 8k window at once fits, in at most two parts.
_SUMMARY_WINDOW_TOKENS = 4096
# Errors that can pass by themselves, or only prevent writing. A wrong path or a foreign file is a mistake.
_TRANSIENT_ERRORS = (StoreLockedError, StoreFullError, StoreReadOnlyError)


# Settings whose values name models, with the hint for a wrong name.
MODEL_SETTINGS = {
    "model": "name a GGUF file with -m or the setting 'model'",
    "memory_vectors": "name a GGUF file or a server in memory_vectors, or set it to off",
    "knowledge_reranker": "name a GGUF file in knowledge_reranker, or set it to off",
    "memory_extraction_model": "name a GGUF file in memory_extraction_model, or unset it",
    "server_embeddings": "name a GGUF made for embeddings in server_embeddings",
    "draft_model": "name a GGUF file in draft_model, or unset it",
}


def model_path(config: Config, report: Report = lambda event: None) -> Path:
    """Return the file of the configured model; one named hf:… is downloaded if it is not here.

    Raises UsageError if there is no such file.
    """
    return existing_file(config.model, "model", report)


def existing_file(model: str, setting: str, report: Report = lambda event: None) -> Path:
    """Return the file of a model that a setting names, downloaded if need be; UsageError if there is none."""
    try:
        path = resolve(model, report)
    except UsageError as error:
        if setting == "model":
            error.hint = f"{error.hint}; {MODEL_SETTINGS[setting]}"
            raise
        raise UsageError(f"{setting}: {error}", hint=error.hint) from None
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", hint=MODEL_SETTINGS[setting])
    return path


def open_memory(
    config: Config, *, read_only: bool = False, warn: Callable[[str, str], None] = lambda message, hint: None
) -> Memory:
    """Open the memory of these settings; raises StoreError, or UsageError for an unsupported database.

    Vectors and reranker are optional: if their setting is invalid, `warn` is called, and words are searched.
    """
    named = config.memory_database
    encryption.use_settings(config.memory_key_command, config.memory_key_file)
    database = database_address(config) if "://" in named else str(from_home(named, "memory_database"))
    memory = Memory(
        database if config.memory_database else "",
        user_id=config.effective_user_id,
        read_only=read_only,
        relevance_threshold=config.rag_relevance_threshold,
        max_results=config.rag_max_results,
        recency_floor=config.rag_recency_floor,
        max_db_size=config.max_db_size,
        recall_cache_mb=config.recall_cache_mb,
        vectors=_or_none(vector_settings, config, warn),
        reranker=_or_none(reranker_of, config, warn),
        keeps_secrets=config.memory_extraction_secrets,
        blind=config.memory_blind,
    )
    if not config.user_id and "://" not in named:
        try:
            _find_account(memory, Path(database) if named else default_database(), writes=not read_only)
        except BaseException:
            memory.close()
            raise
    return memory


def database_address(config: Config) -> str:
    """Return the address of the memory of these settings, which is on a server."""
    return expanded(config.memory_database, "memory_database")


def memory_file(config: Config) -> Path | None:
    """Return the file of the memory of these settings, None if it is on a server."""
    named = config.memory_database
    if "://" in named:
        return None
    return from_home(named, "memory_database") if named else default_database()


def unlock_memory(config: Config, *, creates: bool = False) -> bool:
    """Find the key of the memory before anything else is on the screen; return whether it has one.

    `creates`: a blind memory that is not there yet is made, since its new key is asked for.
    Raises StoreKeyError.
    """
    encryption.use_settings(config.memory_key_command, config.memory_key_file)
    file = memory_file(config)
    is_new = file is not None and not file.is_file()
    if config.memory_blind and (file is None or (is_new and creates)):
        without_models = replace(config, memory_vectors="", knowledge_reranker="")
        with suppress(StoreMissingError):
            open_memory(without_models, read_only=not creates).close()
        return True
    return file is not None and file.is_file() and key_of_file(str(file)) is not None


def unlock_copy(config: Config, path: Path) -> None:
    """Find the key of another database, such as a backup; raises StoreKeyError."""
    encryption.use_settings(config.memory_key_command, config.memory_key_file)
    if path.is_file():
        key_of_file(str(path))


def is_memory_encrypted(config: Config) -> bool:
    """Return whether the memory of these settings is encrypted, used or not."""
    file = memory_file(config)
    try:
        # Also before a blind one is made.
        return file is not None and (is_encrypted(str(file)) if file.is_file() else config.memory_blind)
    except OSError:  # it cannot be read
        return True


def _find_account(memory: Memory, file: Path, *, writes: bool) -> None:
    """Let the memory be that of this account, which may have begun it under another name of the machine."""
    user, message = find_user(
        memory.transactions, Account.of_process(), is_own=is_own_file(file), writes=writes
    )
    memory.user_id = user
    if message:
        _log.warning("%s", message)


def _or_none(
    make: Callable[[Config], _Part | None], config: Config, warn: Callable[[str, str], None]
) -> _Part | None:
    try:
        return make(config)
    except ShepherdError as error:
        warn(f"{error}; only words are searched", error.hint)
        return None


def vector_settings(config: Config) -> VectorSettings | None:
    """Return how vectors are computed; raises UsageError for mistakes that show without a model."""
    wanted = config.memory_vectors.strip()
    if wanted in ("", "off"):
        return None
    # Not at the top: numpy and a client, for users with vectors.
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
    path = existing_file(wanted, "memory_vectors")
    return VectorSettings(lambda: open_embedder(config, path), config.memory_vectors_weight)


def reranker_of(config: Config) -> LazyReranker | None:
    """Return the reranker of these settings, which loads on first use; raises UsageError without a file."""
    wanted = config.knowledge_reranker.strip()
    if wanted in ("", "off"):
        return None
    return LazyReranker(config, existing_file(wanted, "knowledge_reranker"))


class LazyReranker:
    """A reranker that loads on first use, and never again if that fails. Thread-safe."""

    def __init__(self, config: Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._lock = threading.Lock()
        self._reranker: Reranker | None = None
        self._failure: ShepherdError | None = None

    @property
    def name(self) -> str:
        """Name of the file."""
        return self._path.stem

    def scores(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score per document, in their order."""
        return self._opened().scores(query, documents)

    def counted_scores(self, query: str, documents: Sequence[str]) -> tuple[list[float], int]:
        """Return the scores, and how many tokens all pairs have together."""
        return self._opened().counted_scores(query, documents)

    def close(self) -> None:
        """Unload the model. Can be called twice."""
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
                    self._reranker = Reranker(
                        self._path,
                        n_gpu_layers=config.gpu_layers,
                        n_threads=config.threads,
                        is_trusted=not config.model_trial,
                    )
                except ShepherdError as error:
                    self._failure = error
                    raise
            return self._reranker


def open_embedder(config: Config, path: Path) -> Embedder:
    """Load the embedding model at `path`, after a trial if it never was loaded here."""
    from shepherd.inference.embedding import Embedder

    return Embedder(
        path,
        n_gpu_layers=config.gpu_layers,
        n_threads=config.threads,
        is_trusted=not config.model_trial,
    )


def open_memory_to_read(
    config: Config,
    *,
    creates: bool = False,
    warn: Callable[[str, str], None] = lambda message, hint: None,
) -> Memory:
    """Open the memory of these settings to read; it need not be writable.

    Where none is at the default path, nothing was remembered yet: the memory is empty, and no file is left
    behind. `creates` is for a process that lasts, and must see what others store; it makes that database. One
    that a setting names is never made: StoreMissingError.
    """
    named = config.memory_database
    if not (named or creates or default_database().exists()):
        return _empty_memory(config, warn)
    if named and "://" not in named and not (path := from_home(named, "memory_database")).exists():
        raise StoreMissingError(
            f"{path}: there is no such database",
            hint="it is created when something is remembered; --memory-db or memory_database names another",
        )
    try:
        return open_memory(config, warn=warn)
    except StoreReadOnlyError:
        return open_memory(config, read_only=True, warn=warn)


def _empty_memory(config: Config, warn: Callable[[str, str], None]) -> Memory:
    """Return a memory in a folder that is deleted with it, and at the latest when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="shepherd-")
    try:
        memory = open_memory(
            replace(config, memory_database=os.path.join(folder.name, "memory.db")), warn=warn
        )
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(memory, folder.cleanup)
    return memory


def learning_of(
    config: Config,
    chat_model: Path | None,
    *,
    uses_memory: bool = True,
    is_writable: bool = True,
    for_everyone: bool = False,
) -> Learning:
    """Return whether facts are learned from messages, and with which model; connects to no endpoint.

    `auto` is on wherever the memory is, as `true` is: with the endpoint or the model that the settings name,
    else with the local chat model, else (for a remote one) with the bundled model. `uses_memory` is whether
    the provider uses the memory, and `is_writable` whether something can be stored in it. A missing model or
    an invalid endpoint address turns off learning only. Whether the endpoint answers isn't checked.
    """
    if not uses_memory:
        return Learning(reason="the memory is not used here")
    if not is_writable:
        return Learning(reason="the memory is read-only")
    if config.memory_extraction is False:
        return Learning(reason="memory_extraction is false")
    if not for_everyone and config.effective_user_id in ANONYMOUS_USERS:
        return Learning(reason="it is not known who you are; user_id or --user names you")
    try:
        return _learning_model(config, chat_model)
    except ShepherdError as error:
        return Learning(reason=str(error), remedy=error.hint)


def _learning_model(config: Config, chat_model: Path | None) -> Learning:
    if config.memory_extraction_endpoint:
        url = api_url("memory_extraction_endpoint", config.memory_extraction_endpoint, "")
        named = config.memory_extraction_model or "its default model"
        return Learning(True, named, urlsplit(url).hostname or url, "")
    own, where = _extraction_file(config, chat_model)
    if is_built_in(own):
        return Learning(True, BUILT_IN, "bundled", "")
    return Learning(True, own.stem, where, "")


def extraction_model(config: Config, chat_model: Path | None) -> Path | None:
    """Return the file of the model that learns, perhaps the chat's; None if an endpoint does, or nothing."""
    if config.memory_extraction is False or config.memory_extraction_endpoint:
        return None
    with suppress(ShepherdError):  # learning_of reports it
        return _extraction_file(config, chat_model)[0]
    return None


def _extraction_file(config: Config, chat_model: Path | None) -> tuple[Path, str]:
    """Return the file of the model that learns on this machine, and whether it is "chat" or "local"."""
    if chat_model is not None and not config.memory_extraction_model:
        return chat_model, "chat"
    return existing_file(config.memory_extraction_model, "memory_extraction_model"), "local"


def sums_up(config: Config, chat_model: Path | None) -> bool:
    """Return whether turns that leave the window are summarized; `auto`: by a local, not bundled model.

    The bundled model is too small for it, and a remote one may cost money.
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
    """Give a summarizer; `open_model` gets a window in tokens, and opens its model on first use."""
    window = min(chat_model.window_tokens, _SUMMARY_WINDOW_TOKENS)
    summarizer = Summarizer(
        lambda: open_model(window), max_tokens=config.history_summary_tokens, queues=queues
    )
    try:
        yield summarizer
    finally:
        summarizer.close()


@contextmanager
def own_summarizer(config: Config, path: Path) -> Iterator[Summarizer | None]:
    """Give a summarizer that loads the model at `path` when needed, None where the settings want none."""
    if not sums_up(config, path):
        yield None
        return
    summarizer = Summarizer(
        lambda: open_engine(replace(config, n_ctx=_SUMMARY_WINDOW_TOKENS), path),
        max_tokens=config.history_summary_tokens,
    )
    try:
        yield summarizer
    finally:
        summarizer.close()


@contextmanager
def running_worker(
    memory: Memory,
    config: Config,
    path: Path | None,
    engine: Engine | None,
    *,
    for_everyone: bool = False,
    open_sibling: Callable[[int], Engine] | None = None,
    yields_to: Engine | PriorityLock | None = None,
) -> Iterator[ExtractionWorker]:
    """Give a running extraction worker; at the end it has a moment for the last messages.

    What it does not reach stays queued. With `for_everyone`, as in servers, it reads the messages of all
    users after each answer. A chat's model that is not always loaded is opened with `open_sibling`, which
    gets the largest window; the worker yields to `yields_to` then.
    """
    extractor = _extractor(config, path, engine, open_sibling, yields_to or engine)
    settings = WorkerSettings(
        # The bundled model, which quotes, is so fast that the user can see at once what it learned.
        min_turns=1 if for_everyone or extractor.facts_only else config.memory_extraction_min_turns,
        max_turns=config.memory_extraction_max_turns,
        idle_timeout_s=config.memory_extraction_idle_timeout,
        queue_limit=config.memory_extraction_queue_limit,
        secrets=config.memory_extraction_secrets,
    )
    worker = ExtractionWorker(
        memory,
        extractor,
        None if for_everyone else memory.user_id,
        settings=settings,
        retry_interval_s=lambda: _retry_interval_s(config),
    )
    worker.start()
    try:
        yield worker
        # A server has to stop soon, and will run again: its jobs wait in the database.
        if not for_everyone:
            worker.flush(_FLUSH_S)
    finally:
        worker.close()


def _extractor(
    config: Config,
    path: Path | None,
    engine: Engine | None,
    open_sibling: Callable[[int], Engine] | None,
    yields_to: Engine | PriorityLock | None,
) -> Extractor:
    if config.memory_extraction_endpoint:
        return EndpointExtractor(
            config.memory_extraction_endpoint,
            model=config.memory_extraction_model,
            api_key=config.memory_extraction_api_key,
            max_tokens=config.memory_extraction_max_tokens,
            temperature=config.memory_extraction_temperature,
        )
    own = extraction_model(config, path)
    assert own is not None
    built_in = is_built_in(own)

    def open_own() -> Engine:
        if open_sibling is not None and own == path:
            return open_sibling(WINDOW_TOKENS)
        if engine is not None and own == path:
            return engine.sibling(n_ctx=min(engine.window_tokens, WINDOW_TOKENS))
        return open_engine(replace(config, n_ctx=0), own, yields_to=yields_to)

    return LocalExtractor(
        open_own,
        max_tokens=config.memory_extraction_max_tokens,
        temperature=0.0 if built_in else config.memory_extraction_temperature,
        facts_only=built_in,
        apart=built_in,  # a small model makes fewer mistakes with one sentence at a time
    )


def _retry_interval_s(config: Config) -> float:
    """Return the present setting, which a user who waits for a server can shorten without a restart."""
    try:
        return load().config.memory_extraction_retry_interval
    except ConfigError:
        return config.memory_extraction_retry_interval


def open_memory_or_warn(config: Config, warn: Callable[[str, str], None]) -> tuple[Memory | None, bool]:
    """Open the memory; returns it (None with a warning if it is busy or full) and whether it is writable."""
    try:
        return open_memory_or_read_only(config, warn)
    except _TRANSIENT_ERRORS as error:
        warn(f"no memory: {error}", error.hint)
        return None, False
    except StoreError as error:
        error.hint = "; ".join(filter(None, [error.hint, "--nomemory chats without it"]))
        raise


def open_memory_or_read_only(config: Config, warn: Callable[[str, str], None]) -> tuple[Memory, bool]:
    """Open the memory, perhaps only to read, with a warning; returns it and whether it is writable.

    Raises StoreError when it cannot be read, since a server must not run without the API keys in it.
    """
    try:
        return open_memory(config, warn=warn), True
    except StoreReadOnlyError as error:
        try:
            opened = open_memory(config, read_only=True, warn=warn)
        except StoreError:
            raise error from None
        warn(f"the memory is read-only, so nothing new is stored: {error}", error.hint)
        return opened, False


@contextmanager
def keys_without_memory(config: Config) -> Iterator[ApiKeys | None]:
    """Give the API keys for a server without memory; None when there is no database yet."""
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
    yields_to: Engine | PriorityLock | None = None,
    priority_lock: PriorityLock | None = None,
    loading: Callable[[str], None] = lambda text: None,
    slots: int = 1,
    windows: int = 1,
    keeps: bool = False,
    projector: str = "none",
    draft_model: str = "",
) -> Engine:
    """Load the model at `path`, after a trial if it is not bundled and never was loaded here.

    It generates `slots` answers at once, whose conversations share so many `windows`. If it `keeps` them,
    another process continues those that are stored in a memory (setting cache_disk_gb). `projector` is as the
    setting mmproj, and `draft_model` as the setting of that name; only models that answer messages need them.
    """
    drafts = draft_model if config.draft != "off" else ""
    for file in (path, *([existing_file(drafts, "draft_model")] if drafts else [])):
        load_check.require(file, is_trusted=is_built_in(file) or not config.model_trial, loading=loading)
    name, shown = path.stem, -1

    def report(share: float) -> None:
        nonlocal shown
        if (percent := int(100 * share)) != shown:
            shown = percent
            loading(f"loading {name}, {percent} %")

    loading(f"loading {name} …")
    try:
        settings = replace(
            engine_settings(config),
            slots=slots,
            windows=windows,
            mmproj=_file_of(projector),
            draft_model=str(file) if drafts else "",
        )
        if not keeps:
            settings = replace(settings, cache_disk_bytes=0)
        return Engine(
            path,
            settings=settings,
            yields_to=yields_to,
            priority_lock=priority_lock,
            is_trusted=True,
            tries_projector=config.model_trial,
            progress=report,
        )
    finally:
        loading("")


def _file_of(projector: str) -> str:
    return str(from_home(projector, "mmproj")) if projector not in ("", "none") else projector


def engine_settings(config: Config) -> EngineSettings:
    """Return the settings of an engine with one slot, which reads no pictures."""
    return EngineSettings(
        n_ctx=config.n_ctx,
        n_gpu_layers=config.gpu_layers,
        flash_attention=config.flash_attention,
        kv_type=config.kv_type,
        swa_full=config.swa_full,
        cache_ram_bytes=config.cache_ram_mb << 20,
        cache_disk_bytes=int(config.cache_disk_gb * 1e9),
        kv_edit=config.kv_edit,
        draft=config.draft,
        thinking=config.thinking,
        n_threads=config.threads,
        mmproj="none",
    )
