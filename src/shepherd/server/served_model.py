"""A model that a server offers: how it is loaded and unloaded, and what it is now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shepherd.errors import ShepherdError
from shepherd.inference.vision import find_projector
from shepherd.providers import LOCAL, ProviderSettings
from shepherd.server.offers import About

if TYPE_CHECKING:
    from shepherd.inference import Engine
    from shepherd.server.turns import Conversations

__all__ = ["ServedModel"]

State = Literal["unloaded", "loading", "loaded", "unloading"]


@dataclass(slots=True, eq=False)
class ServedModel:
    """A model that clients can name. Its `conversations` are there once it was loaded, and stay.

    `open` loads it and `close` unloads it; both are called by one thread at a time. A model without a file
    (of a remote `provider`) is always loaded. `also` are other names; `size_bytes` is about what it takes
    with its context. `on_unload` frees what else uses its weights.
    """

    name: str
    path: Path | None = None
    about: About | None = None
    size_bytes: int = 0
    open: Callable[[], Engine] | None = None
    close: Callable[[Engine], None] = lambda engine: engine.close()
    converse: Callable[[Engine | None], Conversations] | None = None
    also: tuple[str, ...] = ()
    provider: ProviderSettings = field(default_factory=lambda: ProviderSettings(LOCAL, "llamacpp"))
    conversations: Conversations | None = None
    engine: Engine | None = None
    on_unload: list[Callable[[], None]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)
    state: State = "unloaded"
    # The pool's, under its lock.
    n_leases: int = 0
    used_at: float = 0.0
    failed_at: float = 0.0
    failure: ShepherdError | None = None

    @property
    def reads_pictures(self) -> bool:
        """Return whether the model reads pictures; before it is loaded, whether a projector is beside it.

        False for a provider's model, about which that is unknown.
        """
        if self.engine is not None:
            return self.engine.reads_pictures
        return self.path is not None and bool(find_projector(str(self.path)))

    def load_engine(self) -> None:
        """Load the model. Raises ShepherdError."""
        assert self.open is not None
        self.engine = self.open()

    def converse_now(self) -> Conversations:
        """Return the conversations with the model, which is loaded."""
        if self.conversations is None:
            assert self.converse is not None
            self.conversations = self.converse(self.engine)
        self.conversations.models.engine = self.engine
        return self.conversations

    def unload(self) -> None:
        """Free the model; nobody uses it any more, except in the background, which ends."""
        for free in self.on_unload:
            free()
        engine, self.engine = self.engine, None
        if self.conversations is not None:
            self.conversations.models.engine = None
        if engine is not None:
            self.close(engine)
