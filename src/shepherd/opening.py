"""From settings to a conversation that is ready: opens the memory and the engine, closes them again.

Every frontend starts here, so that a setting means the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.errors import (
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.hub import Report
from shepherd.inference.models import resolve
from shepherd.memory import Memory

__all__ = ["model_path", "open_memory", "open_memory_to_read", "opened_assistant"]

# What may pass by itself, or concerns writing alone. A wrong path or a foreign file is a mistake to correct.
_WEATHER = (StoreLockedError, StoreFullError, StoreReadOnlyError)


def model_path(config: Config, report: Report = lambda event: None) -> Path:
    """The file of the configured model; one named hf:… is fetched when it is not here. UsageError without."""
    path = resolve(config.model, report)
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", hint="-m or the setting 'model' names a GGUF file")
    return path


def open_memory(config: Config, *, read_only: bool = False) -> Memory:
    """The memory of these settings; raises StoreError, or UsageError for a database this build cannot use."""
    from_url = "://" in config.memory_database
    database = config.memory_database if from_url else str(Path(config.memory_database).expanduser())
    return Memory(
        database if config.memory_database else "",
        user_id=config.effective_user_id,
        read_only=read_only,
        relevance_threshold=config.rag_relevance_threshold,
        max_results=config.rag_max_results,
        recency_floor=config.rag_recency_floor,
        max_db_size=config.max_db_size,
    )


def open_memory_to_read(config: Config) -> Memory:
    """The memory of these settings, also where it may not be written."""
    try:
        return open_memory(config)
    except StoreReadOnlyError:
        return open_memory(config, read_only=True)


@contextmanager
def opened_assistant(
    config: Config,
    *,
    memory: bool = True,
    warn: Callable[[str, str], None],
    loading: Callable[[str], None] = lambda text: None,
) -> Iterator[Assistant]:
    """An assistant whose memory and engine are closed at the end.

    Mistakes are found in the order of their cost: model path, database, then the model is loaded. A database
    that is locked, full or read-only costs a warning and the memory; one that is wrong raises StoreError.
    `loading` is told what takes its time, and "" when that is over.
    """
    path = model_path(config)
    with ExitStack() as stack:
        opened, is_writable = _memory_in_any_weather(config, warn) if memory else (None, False)
        if opened is not None:
            stack.callback(opened.close)
        loading(f"loading {path} …")
        try:
            engine = Engine(path, settings=_engine_settings(config))
        finally:
            loading("")
        stack.callback(engine.close)
        yield Assistant(engine=engine, memory=opened, config=config, writes_memory=is_writable)


def _memory_in_any_weather(config: Config, warn: Callable[[str, str], None]) -> tuple[Memory | None, bool]:
    """The memory, if it can be had, and whether it can be written."""
    try:
        return open_memory(config), True
    except StoreReadOnlyError as error:
        try:
            opened = open_memory(config, read_only=True)
        except StoreError:
            warn(f"no memory: {error}", error.hint)
            return None, False
        warn(f"memory is only read, nothing new is kept: {error}", error.hint)
        return opened, False
    except _WEATHER as error:
        warn(f"no memory: {error}", error.hint)
        return None, False
    except StoreError as error:
        error.hint = "; ".join(filter(None, [error.hint, "--nomemory chats without it"]))
        raise


def _engine_settings(config: Config) -> EngineSettings:
    return EngineSettings(
        n_ctx=config.n_ctx,
        n_gpu_layers=config.gpu_layers,
        flash_attention=config.flash_attention,
        kv_type=config.kv_type,
        n_threads=config.threads,
    )
