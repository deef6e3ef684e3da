"""Opens the parts of a server by the settings: models, memory, extraction worker, embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError
from shepherd.extraction import ExtractionWorker
from shepherd.factory import extraction_model, learning_of, running_worker
from shepherd.inference.hub import Report
from shepherd.inference.models import ModelRegistry
from shepherd.memory import Memory
from shepherd.memory_factory import (
    LazyReranker,
    keys_without_memory,
    open_embedder,
    open_memory_or_read_only,
    reranker_of,
)
from shepherd.model_files import existing_file, model_path
from shepherd.providers import ProviderSettings, ProviderTable
from shepherd.server.middleware import require_keys_for
from shepherd.server.model_maker import ModelMaker, reserved_bytes
from shepherd.server.offers import Offer, aliases_of, budget_of, name_of, offer_of, offered, providers_of
from shepherd.server.pool import ModelPool
from shepherd.server.retrieval_api import Embeddings
from shepherd.server.served_model import ServedModel
from shepherd.server.state import ServerState
from shepherd.turn import warm_up
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
        provider = ProviderTable().configured(config.provider)
        provider = replace(provider, model=model) if model else provider
        config = replace(config, model=provider.model or config.model) if provider.is_local else config
        path = model_path(config, report) if provider.is_local else None
        served = _Served(
            provider, path, offered(config, report), providers_of(config, provider), aliases_of(config)
        )
        embeddings = _embeddings(config)
        opened, is_writable = open_memory_or_read_only(config, warn) if memory else (None, False)
        if opened is not None:
            stack.callback(opened.close)
        keys = stack.enter_context(keys_without_memory(config)) if opened is None else opened.keys
        needs_key = require_keys_for(config.server_host, keys)
        maker = ModelMaker(config, opened, is_writable, warn, loading)
        pool = _pool(served, maker, stack, report)
        if opened is not None:
            opened.wake_vectors()
        uses_memory = opened is not None and any(model.provider.uses_memory for model in pool.models)
        learning = learning_of(
            config, path, uses_memory=uses_memory, is_writable=is_writable, for_everyone=True
        )
        if learning.remedy:
            warn(f"nothing is learned: {learning.reason}", learning.remedy)
        if learning.is_on and opened is not None:
            maker.worker = stack.enter_context(_worker(opened, config, path, pool, maker))
        for loaded in pool.loaded:
            loaded.converse_now()
        conversations = pool.default.converse_now()
        if embeddings is not None:
            stack.callback(embeddings.close)
        reranker = _reranker(config)
        if reranker is not None:
            stack.callback(reranker.close)
        warm_up.begin()
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


@dataclass(frozen=True, slots=True)
class _Served:
    """Models that the settings name. `path` is the default one's file, None for a provider's model."""

    provider: ProviderSettings
    path: Path | None
    offers: list[Offer]
    providers: list[ProviderSettings]
    aliases: dict[str, str]


def _pool(served: _Served, maker: ModelMaker, stack: ExitStack, report: Report) -> ModelPool:
    """Return the models, with the default loaded."""
    config, path = maker.config, served.path
    reserved = reserved_bytes(config, path)
    budget = budget_of(config)
    maker.room_bytes = max(1, budget - reserved) if budget else 0
    maker.limits_default = bool(served.offers or served.providers or config.server_models_mb)
    if path is None:
        default = maker.remote(served.provider)
    else:
        default = maker.local(offer_of(ModelRegistry().at(path)), served.provider)
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
        aliases=served.aliases,
        takes_any=config.server_any_model and not served.offers and not served.providers,
    )
    maker.pool = pool
    stack.callback(pool.close)
    for offer in served.offers:
        _add(maker.local(offer), pool, maker)
    for provider in served.providers:
        try:
            _add(_model_of(provider, maker, report), pool, maker)
        except ShepherdError as error:
            maker.warn(f"the provider {provider.name} can't be chosen: {error}", error.hint)
    for name, wanted in served.aliases.items():
        if pool.find(wanted) is None or (wanted not in pool.names):
            raise UsageError(
                f"server_model_aliases: {name} stands for {wanted}, which is not served",
                hint=f"there are default, {', '.join(one.name for one in pool.models)}",
            )
    if default.open is not None:
        pool.load_now(default)
    return pool


def _model_of(provider: ProviderSettings, maker: ModelMaker, report: Report) -> ServedModel:
    """Return the model of a provider beside the default one. Raises ShepherdError if it has none."""
    if not provider.is_local:
        return maker.remote(provider)
    path = model_path(replace(maker.config, model=provider.model or maker.config.model), report)
    offer = offer_of(ModelRegistry().at(path))
    return maker.local(replace(offer, also=(*offer.also, provider.name)), provider)


def _add(model: ServedModel, pool: ModelPool, maker: ModelMaker) -> None:
    if 0 < maker.room_bytes < model.size_bytes:
        maker.warn(
            f"{model.name} needs about {model.size_bytes >> 20} MiB, and cannot be loaded:"
            f" {maker.room_bytes >> 20} MiB are left for models",
            "server_models_mb allows more, a smaller n_ctx needs less",
        )
    pool.add(model)


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
