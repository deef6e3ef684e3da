"""Opens the parts of a server by the settings: model, memory, extraction worker, embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from shepherd.config import Config
from shepherd.errors import ShepherdError
from shepherd.extraction import ExtractionWorker
from shepherd.factory import (
    LazyReranker,
    existing_file,
    keys_without_memory,
    learning_of,
    model_path,
    open_embedder,
    open_engine,
    open_memory_or_read_only,
    persistent_kv_cache,
    reranker_of,
    running_worker,
    summarizer_of,
    sums_up,
)
from shepherd.inference import Engine
from shepherd.inference.hub import Report
from shepherd.inference.models import BUILT_IN, is_built_in
from shepherd.memory import Memory
from shepherd.prompt import Summarizer
from shepherd.providers import ProviderSettings, ProviderTable, RemoteModel, open_remote
from shepherd.server.middleware import require_keys_for
from shepherd.server.models import Models
from shepherd.server.retrieval_api import Embeddings
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from shepherd.turn.components import with_auto_resolved

__all__ = ["opened_server"]


@contextmanager
def opened_server(
    config: Config,
    *,
    model: str = "",
    memory: bool = True,
    warn: Callable[[str, str], None],
    loading: Callable[[str], None] = lambda text: None,
    report: Report = lambda event: None,
) -> Iterator[ServerState]:
    """Open the parts of a server, and close them at the end; `model` overrides the provider's.

    Cheap checks come first. The database is open for keys and for the memory's routes even if the provider's
    rules keep memory out of conversations, and for keys alone without `memory`. StoreError if it cannot be
    opened: keys could not be checked.
    """
    with ExitStack() as stack:
        provider = ProviderTable().get(config.provider)
        provider = replace(provider, model=model) if model else provider
        config = replace(config, model=provider.model or config.model) if provider.is_local else config
        config = replace(config, max_tokens=provider.max_tokens or config.max_tokens)
        path = model_path(config, report) if provider.is_local else None
        embeddings = _embeddings(config)
        opened, is_writable = open_memory_or_read_only(config, warn) if memory else (None, False)
        if opened is not None:
            stack.callback(opened.close)
        keys = stack.enter_context(keys_without_memory(config)) if opened is None else opened.keys
        needs_key = require_keys_for(config.server_host, keys)
        models = _models(config, provider, path, opened, stack, warn, loading)
        config = with_auto_resolved(config, models.engine)
        if opened is not None:
            opened.wake_vectors()
        in_use = opened if provider.uses_memory else None
        worker: ExtractionWorker | None = None
        learning = learning_of(
            config, path, uses_memory=in_use is not None, is_writable=is_writable, for_everyone=True
        )
        if learning.is_on and in_use is not None:
            worker = stack.enter_context(
                running_worker(in_use, config, path, models.engine, for_everyone=True)
            )
        summarizer = _summarizer(config, models, provider, path, stack) if in_use is not None else None
        conversations = Conversations(
            models,
            memory=in_use,
            config=config,
            writes_memory=is_writable,
            worker=worker,
            summarizer=summarizer,
        )
        if embeddings is not None:
            stack.callback(embeddings.close)
        reranker = _reranker(config)
        if reranker is not None:
            stack.callback(reranker.close)
        yield ServerState(
            config,
            opened,
            is_writable,
            conversations,
            worker,
            embeddings,
            reranker,
            needs_key=needs_key,
            keys=keys,
            learning=learning,
        )


def _models(
    config: Config,
    provider: ProviderSettings,
    path: Path | None,
    memory: Memory | None,
    stack: ExitStack,
    warn: Callable[[str, str], None],
    loading: Callable[[str], None],
) -> Models:
    if path is None:

        def open_one(sends: frozenset[str], uses_memory: bool) -> RemoteModel:
            return open_remote(provider, sends=sends, asks_memory=lambda: uses_memory)

        open_one(frozenset(), False).close()  # finds a missing key or client before the first request
        models = Models(provider, name=provider.model or provider.name, open_remote=open_one)
    else:
        engine = _engine(config, path, memory, stack, warn, loading)
        models = Models(provider, name=_name(path), engine=engine)
    stack.callback(models.close)
    return models


def _summarizer(
    config: Config, models: Models, provider: ProviderSettings, path: Path | None, stack: ExitStack
) -> Summarizer | None:
    """Open a summarizer for turns that leave the window, if the settings ask for one."""
    if not sums_up(config, path) or provider.kind == "shepherd":
        return None
    engine = models.engine
    if engine is not None:
        opened = summarizer_of(config, lambda n: engine.sibling(n_ctx=n), engine, queues=True)
    else:
        model = models.take()
        models.give_back(model)
        opened = summarizer_of(config, lambda _: open_remote(provider, sends=set()), model, queues=True)
    return stack.enter_context(opened)


def _engine(
    config: Config,
    path: Path,
    memory: Memory | None,
    stack: ExitStack,
    warn: Callable[[str, str], None],
    loading: Callable[[str], None],
) -> Engine:
    slots = config.server_slots
    windows = min(config.server_windows or slots, slots)
    engine = open_engine(config, path, loading=loading, slots=slots, windows=windows)
    stack.callback(engine.close)
    if engine.n_cells < windows * engine.window_tokens:
        warn(
            f"the context holds {engine.n_cells} tokens, not {windows} windows of {engine.window_tokens}:"
            " long conversations that are answered at once may be read again",
            "a smaller n_ctx or fewer server_slots fit;"
            f" server_windows = {engine.n_cells // engine.window_tokens} asks for no more",
        )
    stack.enter_context(persistent_kv_cache(engine, config, memory, warn))
    return engine


def _embeddings(config: Config) -> Embeddings | None:
    wanted, setting = config.server_embeddings.strip(), "server_embeddings"
    if not wanted and "://" not in config.memory_vectors:
        wanted, setting = config.memory_vectors.strip(), "memory_vectors"
    if wanted in ("", "off"):
        return None
    try:
        path = existing_file(wanted, setting)
    except ShepherdError:
        if setting == "memory_vectors":  # of which the memory warns when it is opened
            return None
        raise
    return Embeddings(_name(path), lambda: open_embedder(config, path))


def _reranker(config: Config) -> LazyReranker | None:
    try:
        return reranker_of(config)
    except ShepherdError:  # of which the memory warns when it is opened
        return None


def _name(path: Path) -> str:
    """Return the name that clients use for the model of this file."""
    return BUILT_IN if is_built_in(path) else path.stem
