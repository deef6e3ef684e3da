"""Opening the memory by the settings: its file or server, its key, its vectors.

Apart from shepherd.factory: commands about the memory need no model, and need not wait for its modules.
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
from typing import TYPE_CHECKING, TypeVar, cast

from shepherd import encryption
from shepherd.config import Config
from shepherd.errors import (
    ShepherdError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreMissingError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.memory import Memory
from shepherd.memory.account import Account, find_user, is_own_file
from shepherd.memory.database import is_encrypted, key_of_file
from shepherd.memory.identify import refuse_lost
from shepherd.paths import default_database, expanded, from_home

if TYPE_CHECKING:
    from shepherd.inference.embedding import Embedder, Reranker
    from shepherd.memory import ApiKeys
    from shepherd.memory.store import MemoryStore
    from shepherd.memory.vectors import VectorSettings

__all__ = [
    "LazyReranker",
    "database_address",
    "is_memory_encrypted",
    "keys_without_memory",
    "memory_file",
    "open_embedder",
    "open_memory",
    "open_memory_or_read_only",
    "open_memory_or_warn",
    "open_memory_to_read",
    "reranker_of",
    "unlock_copy",
    "unlock_memory",
    "vector_settings",
]

_log = logging.getLogger(__name__)

_Part = TypeVar("_Part")

# Errors that can pass by themselves, or only prevent writing. A wrong path or a foreign file is a mistake.
_TRANSIENT_ERRORS = (StoreLockedError, StoreFullError, StoreReadOnlyError)


def open_memory(
    config: Config,
    *,
    address: str | None = None,
    read_only: bool = False,
    warn: Callable[[str, str], None] = lambda message, hint: None,
) -> Memory:
    """Open the memory of these settings; raises StoreError, or UsageError for an unsupported database.

    `address` is that of another database, as a program names it: nothing in it is expanded. Vectors and
    reranker are optional: if their setting is invalid, `warn` is called, and words are searched.
    """
    if address is None and not read_only and (file := _relative_file(config)) and not file.exists():
        _log.warning("%s: this is a new memory, because %s", file.absolute(), _OF_A_FOLDER)
    _use_key_of(config)
    if address is None:
        named = config.memory_database
        database = database_address(config) if "://" in named else str(from_home(named, "memory_database"))
    else:
        named = database = address
    memory = Memory(
        database if named else "",
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
    _let_sync_forget(memory)
    if not config.user_id and "://" not in named:
        try:
            _find_account(memory, Path(database) if named else default_database(), writes=not read_only)
        except BaseException:
            memory.close()
            raise
    return memory


def _use_key_of(config: Config) -> None:
    """Take the key from where the settings say. If they don't, a program may have said so itself."""
    if config.memory_key_command or config.memory_key_file:
        encryption.use_settings(config.memory_key_command, config.memory_key_file)


# Or was.
_SYNCED = (
    "SELECT 1 FROM sqlite_master WHERE name = 'sync_state'"
    " UNION ALL SELECT 1 FROM meta WHERE key >= 'sync_left/' AND key < 'sync_left0' LIMIT 1"
)


def _let_sync_forget(memory: Memory) -> None:
    """Let every deletion reach what a sync keeps in the database."""

    def clean(store: MemoryStore, user_id: str) -> list[str]:
        if not store.is_in_file or not store.read(lambda connection: connection.execute(_SYNCED)):
            return []
        # Not at the top: most memories are not synced.
        from shepherd.sync import forget_unwritten

        return forget_unwritten(store, user_id)

    cast("MemoryStore", memory.transactions).cleaners.append(clean)


# Options are made absolute where they are read.
_OF_A_FOLDER = (
    "memory_database is a relative path, so each folder has its own memory. For one memory everywhere, run"
    " shepherd config set memory_database PATH in the folder of the database"
)


def _relative_file(config: Config) -> Path | None:
    """Return the file of the memory if its setting is relative to the current folder."""
    file = memory_file(config) if config.memory_database else None
    return None if file is None or file.is_absolute() else file


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
    _use_key_of(config)
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
    _use_key_of(config)
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
    if (file := memory_file(config)) is not None and not file.exists():
        refuse_lost(str(file))
    if not (named or creates or default_database().exists()):
        return _empty_memory(config, warn)
    if named and "://" not in named and not (path := from_home(named, "memory_database")).exists():
        is_relative = _relative_file(config) is not None
        raise StoreMissingError(
            f"{path.absolute()}: there is no such database" + (f"; {_OF_A_FOLDER}" if is_relative else ""),
            hint="it is created when something is remembered; --memory-db or memory_database names another",
        )
    try:
        return open_memory(config, warn=warn)
    except StoreReadOnlyError:
        return open_memory(config, read_only=True, warn=warn)


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


def vector_settings(config: Config) -> VectorSettings | None:
    """Return how vectors are computed; raises UsageError for mistakes that show without a model."""
    wanted = config.memory_vectors.strip()
    if wanted in ("", "off"):
        return None
    # Not at the top: numpy, a client and the engine, for users with vectors.
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
    from shepherd.model_files import existing_file

    path = existing_file(wanted, "memory_vectors")
    return VectorSettings(lambda: open_embedder(config, path), config.memory_vectors_weight)


def reranker_of(config: Config) -> LazyReranker | None:
    """Return the reranker of these settings, which loads on first use; raises UsageError without a file."""
    wanted = config.knowledge_reranker.strip()
    if wanted in ("", "off"):
        return None
    from shepherd.model_files import existing_file

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
