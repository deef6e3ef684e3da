"""The models of a server: loaded when they are asked for, within a budget of memory, and unloaded again.

A request that uses a model holds a lease, and a model with leases stays. A request for one that is not loaded
waits its turn; one thread loads. If there is no room, the models that were used longest ago leave. Those that
are in use take no new leases then, and leave as soon as the last one is released. Others go on answering.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from starlette.types import Receive

from shepherd.errors import InternalError, ModelError, ShepherdError
from shepherd.extraction.answer import UnavailableError
from shepherd.server.errors import Denied, refuse_gone
from shepherd.server.offers import about_engine
from shepherd.server.served_model import ServedModel
from shepherd.server.streaming import cancelled_on_disconnect

if TYPE_CHECKING:
    from shepherd.inference import Engine
    from shepherd.server.turns import Conversations

__all__ = ["ANY", "Lease", "ModelPool"]

_log = logging.getLogger(__name__)

# Names for the default model, whatever it is.
ANY = ("default", "shepherd")
# A model that could not be loaded is not tried again for so long.
_FAILED_S = 30.0
# Work in the background makes no model leave that was used since.
_IDLE_S = 60.0


class Lease:
    """The right to use a loaded model, until `release`, which may be called twice and from any thread."""

    def __init__(self, pool: ModelPool, model: ServedModel) -> None:
        self._pool, self.model = pool, model
        self._is_held = True

    @property
    def conversations(self) -> Conversations:
        """The conversations with the model."""
        assert self.model.conversations is not None
        return self.model.conversations

    @property
    def engine(self) -> Engine | None:
        """The engine, None for a provider's model."""
        return self.model.engine

    def again(self) -> Lease:
        """Return another lease of the same model, which is released by itself."""
        return self._pool.lease_again(self)

    def release(self) -> None:
        """Give the model back."""
        if self._is_held:
            self._is_held = False
            self._pool.released(self.model)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class _Wish:
    """A request for a model that has to be loaded first."""

    model: ServedModel
    future: Future[Lease] = field(default_factory=Future)


class ModelPool:
    """The models of a server; the first is the default. Thread-safe; `lease` is for the event loop.

    `budget_bytes` is for all models that are loaded, 0 for no limit; `reserved_bytes` of it are taken by
    others, such as an embedder. `aliases` are names that clients use for models. With `takes_any`, any
    other name is the default's.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        *,
        budget_bytes: int = 0,
        reserved_bytes: int = 0,
        aliases: dict[str, str] | None = None,
        takes_any: bool = True,
    ) -> None:
        self._models = list(models)
        self.budget_bytes, self.reserved_bytes = budget_bytes, reserved_bytes
        self._aliases = aliases or {}
        self._takes_any = takes_any
        self._changed = threading.Condition()
        self._wishes: list[_Wish] = []
        self._leaving: frozenset[ServedModel] = frozenset()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._settings: dict[str, Any] = {}  # changed while the server runs

    @classmethod
    def of_one(cls, conversations: Conversations, *, takes_any: bool = True) -> ModelPool:
        """Return a pool of one model that stays loaded."""
        models = conversations.models
        about = None if models.engine is None else about_engine(models.engine)
        model = ServedModel(
            models.name,
            about=about,
            provider=models.provider,
            conversations=conversations,
            engine=models.engine,
            state="loaded",
        )
        return cls([model], takes_any=takes_any)

    # ---- names

    @property
    def default(self) -> ServedModel:
        """The model that requests get which name none."""
        return self._models[0]

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """All models, the default first."""
        return tuple(self._models)

    @property
    def loaded(self) -> tuple[ServedModel, ...]:
        """Those that are loaded."""
        return tuple(model for model in self._models if model.state == "loaded")

    @property
    def names(self) -> tuple[str, ...]:
        """All names that clients can use for certain."""
        own = [name for model in self._models for name in (model.name, *model.also)]
        return tuple(dict.fromkeys([*own, *ANY, *self._aliases]))

    def find(self, name: str) -> ServedModel | None:
        """Return the model of that name, in any case; None for none."""
        wanted = self._aliases.get(name, name).lower()
        for model in self._models:
            if any(wanted == known.lower() for known in (model.name, *model.also)):
                return model
        if not wanted or wanted in ANY or self._takes_any:
            return self.default
        return None

    def takes_any(self, name: str) -> bool:
        """Return True for a name that is no model's, where such names are taken."""
        return self._takes_any and name not in self.names

    def require(self, name: str) -> ServedModel:
        """Return the model of that name; Denied if there is none."""
        model = self.find(name)
        if model is None:
            there = [one.name for one in self._models]
            verb = "is" if len(there) == 1 else "are"
            message = (
                f"there is no such model here; there {verb} {', '.join(there)} ('default' is {there[0]})"
            )
            raise Denied(404, "model_not_found", message, param="model")
        return model

    def add(self, model: ServedModel) -> None:
        """Offer another model, unless there is one of that name."""
        with self._changed:
            if all(model.name.lower() != other.name.lower() for other in self._models):
                self._models.append(model)

    def change_settings(self, values: Mapping[str, Any]) -> None:
        """Change settings of answers for all models, also those that are loaded later."""
        with self._changed:
            self._settings.update(values)
            for model in self._models:
                self._apply_settings(model)

    def _apply_settings(self, model: ServedModel) -> None:
        conversations = model.conversations
        if conversations is not None and self._settings:
            conversations.config = replace(conversations.config, **self._settings)

    # ---- leases

    async def lease(self, name: str, receive: Receive | None = None) -> Lease:
        """Return a lease of the model of that name, as soon as it is loaded.

        Denied if there is none, if it is too large, and if the client disconnects, which `receive` tells.
        ModelError if it cannot be loaded.
        """
        model = self.require(name)
        wish = self._leased_or_wished(model)
        if isinstance(wish, Lease):
            return wish
        waiting = asyncio.wrap_future(wish.future)
        try:
            if receive is None:
                return await asyncio.shield(waiting)
            gone = asyncio.get_running_loop().create_future()

            def note() -> None:
                if not gone.done():
                    gone.set_result(None)

            async with cancelled_on_disconnect(receive, note):
                await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
            refuse_gone(not waiting.done())
            return waiting.result()
        except BaseException:
            self._forget(wish)
            waiting.cancel()
            raise

    def lease_on_thread(self, name: str = "") -> Lease:
        """Like `lease`, for a thread, which waits."""
        wish = self._leased_or_wished(self.require(name))
        return wish if isinstance(wish, Lease) else wish.future.result()

    def lease_again(self, lease: Lease) -> Lease:
        """Return another lease of a model that is leased."""
        with self._changed:
            lease.model.n_leases += 1
        return Lease(self, lease.model)

    def released(self, model: ServedModel) -> None:
        """Take back a lease."""
        with self._changed:
            model.n_leases -= 1
            model.used_at = time.monotonic()
            self._changed.notify_all()

    def sibling(self, model: ServedModel, n_ctx: int, *, may_load: bool = False) -> Engine:
        """Return an engine for work in the background on a model's weights. May wait for its loading.

        UnavailableError if the model is not loaded; with `may_load`, if there is no room for it now. The
        model's `on_unload` has to close it.
        """
        used_at = model.used_at
        with self._changed:
            is_loaded = model.state == "loaded" and model not in self._leaving
            may_wait = may_load and not is_loaded and self._has_room_when_idle(model)
            if not is_loaded and not may_wait:
                raise UnavailableError(f"{model.name} is not loaded, and others use the memory")
            # Under the same lock: a model that has begun to leave waits for us to let go of it.
            try:
                wish = self._leased_or_wished(model)
            except Denied as error:
                raise UnavailableError(str(error)) from error
        try:
            lease = wish if isinstance(wish, Lease) else wish.future.result()
        except Denied as error:
            raise UnavailableError(str(error)) from error
        with lease:
            engine = lease.engine
            assert engine is not None
            made = engine.sibling(n_ctx=min(n_ctx, engine.window_tokens))
        model.used_at = used_at  # the background's use is none that keeps it
        return made

    def _leased_or_wished(self, model: ServedModel) -> Lease | _Wish:
        with self._changed:
            if self._is_closing:
                raise Denied(503, "shutting_down", "the server is shutting down")
            if model.state == "loaded" and model not in self._leaving:
                model.n_leases += 1
                return Lease(self, model)
            if model.failure is not None and time.monotonic() - model.failed_at < _FAILED_S:
                raise model.failure
            self._check_size(model)
            wish = _Wish(model)
            self._wishes.append(wish)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="shepherd-models", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return wish

    def _check_size(self, model: ServedModel) -> None:
        if 0 < self.budget_bytes < model.size_bytes + self.reserved_bytes:
            needed, budget = _mib(model.size_bytes + self.reserved_bytes), _mib(self.budget_bytes)
            message = (
                f"{model.name} needs {needed} with what is always loaded, server_models_mb allows {budget}"
            )
            raise Denied(503, "model_too_large", message, param="model")

    def _forget(self, wish: _Wish) -> None:
        """Drop a wish whose client is gone, or the lease that it has become."""
        with self._changed:
            if wish in self._wishes:
                self._wishes.remove(wish)
            self._changed.notify_all()
        if not wish.future.cancel() and wish.future.exception() is None:
            wish.future.result().release()

    # ---- the thread

    def _serve(self) -> None:
        while True:
            with self._changed:
                wish = self._next_wish()
                if wish is None:
                    return
                victims, model = self._leaving, wish.model
                for one in victims:
                    one.state = "unloading"
                model.state = "loading"
            for one in sorted(victims, key=lambda one: one.used_at):
                self._unload(one)
            failure = self._load(model)
            with self._changed:
                self._leaving = frozenset()
                self._settle(model, failure)

    def _next_wish(self) -> _Wish | None:
        """Wait for a wish, and until the models that leave for it are idle; None when the pool is closed."""
        while not self._is_closing:
            if not self._wishes:
                self._leaving = frozenset()
                self._changed.wait()
                continue
            wish = self._wishes[0]
            if wish.model.state == "loaded":  # it would have left for another, which is not wanted any more
                self._leaving = frozenset()
                self._settle(wish.model, None)
                continue
            self._leaving = self._victims(wish.model)
            if all(one.n_leases == 0 for one in self._leaving):
                return wish
            self._changed.wait()
        return None

    def _victims(self, model: ServedModel, *, idle_since: float | None = None) -> frozenset[ServedModel]:
        """Return the models that have to leave for this one: idle ones first, then by their last use."""
        if not self.budget_bytes:
            return frozenset()
        there = [one for one in self._models if one.state == "loaded" and one.open is not None]
        room = self.budget_bytes - self.reserved_bytes - sum(one.size_bytes for one in there)
        chosen = []
        for one in sorted(there, key=lambda one: (one.n_leases > 0, one.used_at)):
            if room >= model.size_bytes:
                break
            if idle_since is not None and (one.n_leases or one.used_at > idle_since):
                break
            chosen.append(one)
            room += one.size_bytes
        return frozenset(chosen) if room >= model.size_bytes else frozenset(there)

    def _has_room_when_idle(self, model: ServedModel) -> bool:
        """Return True if the model can be loaded now without a loss to anybody."""
        if self._wishes or self._leaving or self._is_closing:
            return False
        since = time.monotonic() - _IDLE_S
        return all(not one.n_leases and one.used_at <= since for one in self._victims(model))

    def _unload(self, model: ServedModel) -> None:
        try:
            model.unload()
        except Exception:
            _log.exception("unloading %s", model.name)
        with self._changed:
            model.state = "unloaded"
        _log.info("unloaded %s", model.name)

    def _load(self, model: ServedModel) -> ShepherdError | None:
        began = time.monotonic()
        try:
            model.load_engine()
            model.converse_now()
        except ShepherdError as error:
            _log.warning("loading %s failed: %s", model.name, error)
            # Clients learn the model's name, not where its file is.
            said, hint = (text.replace(str(model.path), model.name) for text in (str(error), error.hint))
            return ModelError(said, hint=hint)
        except Exception as error:
            _log.exception("loading %s", model.name)
            return InternalError(f"loading {model.name}: {type(error).__name__}")
        _log.info("loaded %s in %.1f s", model.name, time.monotonic() - began)
        return None

    def _settle(self, model: ServedModel, failure: ShepherdError | None) -> None:
        """Answer all that wait for a model."""
        model.state = "loaded" if failure is None else "unloaded"
        self._apply_settings(model)
        model.failure, model.failed_at = failure, time.monotonic()
        model.used_at = time.monotonic()
        waiting = [wish for wish in self._wishes if wish.model is model]
        self._wishes = [wish for wish in self._wishes if wish.model is not model]
        for wish in waiting:
            if not wish.future.set_running_or_notify_cancel():
                continue
            if failure is not None:
                wish.future.set_exception(failure)
            else:
                model.n_leases += 1
                wish.future.set_result(Lease(self, model))

    def load_now(self, model: ServedModel) -> None:
        """Load a model on this thread, before the server begins; its conversations follow. ShepherdError."""
        model.load_engine()
        model.state, model.used_at = "loaded", time.monotonic()

    def close(self) -> None:
        """Unload all models; answers have to have ended. May be called twice."""
        with self._changed:
            self._is_closing = True
            wishes, self._wishes = self._wishes, []
            self._changed.notify_all()
        for wish in wishes:
            if wish.future.set_running_or_notify_cancel():
                wish.future.set_exception(Denied(503, "shutting_down", "the server is shutting down"))
        if self._thread is not None:
            self._thread.join()
        for model in self._models:
            with contextlib.suppress(ModelError):
                model.stack.close()
            if model.state == "loaded" and model.open is not None:
                self._unload(model)


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 20):,.0f} MiB"
