"""Opens the parts of a server by the settings: models, memory, extraction worker, embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError
from shepherd.extraction import ExtractionWorker
from shepherd.factory import (
    LazyReranker,
    existing_file,
    extraction_model,
    keys_without_memory,
    learning_of,
    model_path,
    open_embedder,
    open_memory_or_read_only,
    reranker_of,
    running_worker,
)
from shepherd.inference.hub import Report
from shepherd.inference.models import ModelRegistry
from shepherd.memory import Memory
from shepherd.providers import ProviderTable
from shepherd.server.middleware import require_keys_for
from shepherd.server.model_maker import ModelMaker, reserved_bytes
from shepherd.server.offers import Offer, aliases_of, budget_of, name_of, offer_of, offered
from shepherd.server.pool import ModelPool
from shepherd.server.retrieval_api import Embeddings
from shepherd.server.state import ServerState
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
        aliases, others = aliases_of(config), offered(config, report)
        embeddings = _embeddings(config)
        opened, is_writable = open_memory_or_read_only(config, warn) if memory else (None, False)
        if opened is not None:
            stack.callback(opened.close)
        keys = stack.enter_context(keys_without_memory(config)) if opened is None else opened.keys
        needs_key = require_keys_for(config.server_host, keys)
        in_use = opened if provider.uses_memory else None
        maker = ModelMaker(config, provider, in_use, is_writable, warn, loading)
        pool = _pool(maker, path, others, aliases, stack)
        if opened is not None:
            opened.wake_vectors()
        learning = learning_of(
            config, path, uses_memory=in_use is not None, is_writable=is_writable, for_everyone=True
        )
        if learning.is_on and in_use is not None:
            maker.worker = stack.enter_context(_worker(in_use, config, path, pool, maker))
        conversations = pool.default.converse_now()
        if embeddings is not None:
            stack.callback(embeddings.close)
        reranker = _reranker(config)
        if reranker is not None:
            stack.callback(reranker.close)
        yield ServerState(
            with_auto_resolved(config, pool.default.engine),
            opened,
            is_writable,
            conversations,
            maker.worker,
            embeddings,
            reranker,
            pool,
            offer=lambda stored: pool.add(maker.local(offer_of(stored))),
            needs_key=needs_key,
            keys=keys,
            learning=learning,
        )


def _pool(
    maker: ModelMaker, path: Path | None, others: list[Offer], aliases: dict[str, str], stack: ExitStack
) -> ModelPool:
    """Return the models, with the default loaded."""
    config = maker.config
    reserved = reserved_bytes(config, path)
    budget = budget_of(config)
    maker.room_bytes = max(1, budget - reserved) if budget else 0
    maker.limits_default = bool(others or config.server_models_mb)
    default = maker.local(offer_of(ModelRegistry().at(path))) if path is not None else maker.remote()
    if config.server_models_mb and default.size_bytes > maker.room_bytes:
        raise UsageError(
            f"server_models_mb: {config.server_models_mb} MiB are too few: {default.name} needs about"
            f" {default.size_bytes >> 20} MiB, and what is always loaded {reserved >> 20} MiB",
            hint="a smaller n_ctx needs less",
        )
    pool = ModelPool(
        [default],
        budget_bytes=budget and max(budget, default.size_bytes + reserved),
        reserved_bytes=reserved,
        aliases=aliases,
        takes_any=config.server_any_model and not others,
    )
    maker.pool = pool
    stack.callback(pool.close)
    for offer in others:
        model = maker.local(offer)
        if 0 < maker.room_bytes < model.size_bytes:
            maker.warn(
                f"{model.name} needs about {model.size_bytes >> 20} MiB, and cannot be loaded:"
                f" {maker.room_bytes >> 20} MiB are left for models",
                "server_models_mb allows more, a smaller n_ctx needs less",
            )
        pool.add(model)
    for name, wanted in aliases.items():
        if pool.find(wanted) is None or (wanted not in pool.names):
            raise UsageError(
                f"server_model_aliases: {name} stands for {wanted}, which is not served",
                hint=f"there are default, {', '.join(one.name for one in pool.models)}",
            )
    if default.open is not None:
        pool.load_now(default)
    return pool


def _worker(
    memory: Memory, config: Config, path: Path | None, pool: ModelPool, maker: ModelMaker
) -> AbstractContextManager[ExtractionWorker]:
    """Return a worker that learns from all users; it yields to the answers of all models."""

    @contextmanager
    def running() -> Iterator[ExtractionWorker]:
        default = pool.default
        sibling = None if path is None else (lambda n: pool.sibling(default, n, may_load=True))
        with running_worker(
            memory,
            config,
            path,
            None,
            for_everyone=True,
            open_sibling=sibling,
            yields_to=maker.priority_lock,
        ) as worker:
            if path is not None and extraction_model(config, path) == path:
                default.on_unload.append(worker.release_model)
            yield worker

    return running()


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
    return Embeddings(name_of(path), lambda: open_embedder(config, path))


def _reranker(config: Config) -> LazyReranker | None:
    try:
        return reranker_of(config)
    except ShepherdError:  # of which the memory warns when it is opened
        return None
