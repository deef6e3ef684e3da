"""Makes the models of a server: how each is loaded, unloaded, and talked with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.errors import ShepherdError
from shepherd.factory import engine_settings, extraction_model, open_engine, summarizer_of, sums_up
from shepherd.inference import Engine, EngineSettings, PriorityLock
from shepherd.inference.load_check import model_bytes
from shepherd.inference.model import DEFAULT_WINDOW
from shepherd.model_files import existing_file
from shepherd.prompt import Summarizer
from shepherd.providers import LOCAL, ProviderSettings, RemoteModel, open_remote
from shepherd.server.models import Models
from shepherd.server.offers import Offer, windows_in
from shepherd.server.pool import ModelPool
from shepherd.server.served_model import ServedModel
from shepherd.server.stateless import Retries
from shepherd.server.turns import Conversations
from shepherd.turn.components import with_auto_resolved

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.memory import Memory

__all__ = ["ModelMaker", "reserved_bytes"]

# Windows of the engines in the background, which share the weights of a chat's model.
_BACKGROUND_WINDOW = 4096
_EMBEDDING_WINDOW = 512


@dataclass(slots=True)
class ModelMaker:
    """Maker of a server's models, with all that they share. `room_bytes` limits each of them, 0 for no limit.

    The default model, which is made first, is only limited if `limits_default`. `memory` is used by the
    providers whose own settings allow it.
    """

    config: Config
    memory: Memory | None
    is_writable: bool
    warn: Callable[[str, str], None]
    loading: Callable[[str], None]
    room_bytes: int = 0
    limits_default: bool = False
    worker: ExtractionWorker | None = None
    pool: ModelPool | None = None
    priority_lock: PriorityLock = field(default_factory=PriorityLock)
    retries: Retries = field(default_factory=Retries)

    def local(self, offer: Offer, provider: ProviderSettings | None = None) -> ServedModel:
        """Return a model of this machine, which is not loaded yet. Raises ModelError for a damaged file.

        Without `provider`, it has the settings that the model in this process has by default.
        """
        by = provider or ProviderSettings(LOCAL, "llamacpp")
        is_default = self.pool is None
        projector, draft_model = self.config.mmproj, self.config.draft_model
        if not is_default:  # the files that are named belong to the default model
            projector, draft_model = "none" if projector == "none" else "", ""
        drafts = str(existing_file(draft_model, "draft_model")) if draft_model else ""
        settings = replace(self._settings(), mmproj=projector, draft_model=drafts)
        room, own = self.room_bytes, self._background_bytes(offer, by)
        limit = 0 if room == 0 or (is_default and not self.limits_default) else max(1, room - own)
        windows, needed = windows_in(limit, offer.path, settings)
        model = ServedModel(offer.name, offer.path, offer.about, needed + own, also=offer.also, provider=by)

        def load() -> Engine:
            engine = self._open(offer.path, settings.slots, windows, projector, draft_model)
            loaded = replace(engine.settings, n_ctx=engine.n_cells, windows=1)
            model.size_bytes = model_bytes(offer.path, loaded, 0) + own
            return engine

        model.open, model.close = load, Engine.close
        model.converse = lambda engine: self._conversations(
            model, Models(by, name=model.name, engine=engine), engine
        )
        return model

    def remote(self, provider: ProviderSettings) -> ServedModel:
        """Return a provider's model. Raises ProviderError for a missing key.

        The default model has the name that the provider has for it, as clients know it from there. The others
        have the provider's name before it, since two providers may offer models of one name.
        """

        def open_one(sends: frozenset[str], uses_memory: bool) -> RemoteModel:
            return open_remote(provider, sends=sends, asks_memory=lambda: uses_memory)

        open_one(frozenset(), False).close()  # finds a missing key or client before the first request
        full = "/".join(part for part in (provider.name, provider.model) if part)
        name = full if self.pool is not None else provider.model or provider.name
        models = Models(provider, name=name, open_remote=open_one)
        also = [other for other in (full, provider.name, provider.model) if other and other != name]
        model = ServedModel(name, state="loaded", also=tuple(also), provider=provider)
        model.stack.callback(models.close)
        model.converse = lambda _: self._conversations(model, models, None)
        return model

    def _settings(self) -> EngineSettings:
        slots = self.config.server_slots
        windows = min(self.config.server_windows or slots, slots)
        return replace(engine_settings(self.config), slots=slots, windows=windows)

    def memory_of(self, provider: ProviderSettings) -> Memory | None:
        """Return the memory if conversations with the provider may use it."""
        return self.memory if provider.uses_memory else None

    def _background_bytes(self, offer: Offer, provider: ProviderSettings) -> int:
        """Return the bytes of the contexts that summaries and learning have on a model's weights."""
        uses = sums_up(self.config, offer.path) + (extraction_model(self.config, offer.path) == offer.path)
        if not uses or self.memory_of(provider) is None:
            return 0
        settings = replace(engine_settings(self.config), n_ctx=_BACKGROUND_WINDOW, n_ubatch=128)
        return uses * (model_bytes(offer.path, settings, 0) - offer.about.size_bytes)

    def _open(self, path: Path, slots: int, windows: int, projector: str, draft_model: str) -> Engine:
        engine = open_engine(
            self.config,
            path,
            loading=self.loading,
            slots=slots,
            windows=windows,
            priority_lock=self.priority_lock,
            keeps=True,
            projector=projector,
            draft_model=draft_model,
        )
        if engine.n_cells < windows * engine.window_tokens:
            self.warn(
                f"the context holds {engine.n_cells} tokens, not {windows} windows of {engine.window_tokens}:"
                " long conversations that are answered at once may be read again",
                "a smaller n_ctx or fewer server_slots fit;"
                f" server_windows = {engine.n_cells // engine.window_tokens} asks for no more",
            )
        return engine

    def _conversations(self, model: ServedModel, models: Models, engine: Engine | None) -> Conversations:
        memory = self.memory_of(models.provider)
        config = replace(self.config, max_tokens=models.provider.max_tokens or self.config.max_tokens)
        return Conversations(
            models,
            memory=memory,
            config=with_auto_resolved(config, engine),
            writes_memory=self.is_writable,
            worker=self.worker,
            summarizer=self._summarizer(model, models) if memory is not None else None,
            retries=self.retries,
        )

    def _summarizer(self, model: ServedModel, models: Models) -> Summarizer | None:
        """Open a summarizer for turns that leave the window, if the settings ask for one."""
        if not sums_up(self.config, model.path) or models.provider.kind == "shepherd":
            return None
        engine, pool = models.engine, self.pool
        if engine is not None:
            assert pool is not None
            opened = summarizer_of(self.config, lambda n: pool.sibling(model, n), engine, queues=True)
        else:
            provider, taken = models.provider, models.take()
            models.give_back(taken)
            opened = summarizer_of(
                self.config, lambda _: open_remote(provider, sends=set()), taken, queues=True
            )
        summarizer = model.stack.enter_context(opened)
        model.on_unload.append(summarizer.release)
        return summarizer


def reserved_bytes(config: Config, chat_model: Path | None) -> int:
    """Return the bytes, about, of models that are always loaded: for learning, embeddings and reranking."""
    needed = 0
    own = extraction_model(config, chat_model)
    if own is not None and own != chat_model:
        settings = replace(engine_settings(config), n_ctx=_BACKGROUND_WINDOW)
        needed += model_bytes(own, settings, 0)
    for setting in ("server_embeddings", "memory_vectors", "knowledge_reranker"):
        wanted = getattr(config, setting).strip()
        if wanted in ("", "off") or "://" in wanted:
            continue
        try:
            path = existing_file(wanted, setting)
        except ShepherdError:  # of which others warn
            continue
        # Where no other model is named, the server embeds with the memory's, which it loads for itself.
        times = 2 if setting == "memory_vectors" and not config.server_embeddings.strip() else 1
        times += setting == "knowledge_reranker"
        needed += times * model_bytes(path, EngineSettings(n_ctx=_EMBEDDING_WINDOW), DEFAULT_WINDOW)
    return needed
