"""Messages read by a local model for whom and what they name: in the background, and taken up a turn later.

The rules have read a message before its answer is made; the model finds in any language what they do not,
while nobody waits for it. What it found is learned by the next message, unless the talk went elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from shepherd.entities import Extracted, extract_entities
from shepherd.errors import ShepherdError

if TYPE_CHECKING:
    from shepherd.inference import Engine

__all__ = ["EntityReader"]

_log = logging.getLogger(__name__)

_JOIN_S = 2.0


class EntityReader:
    """Reads one message at a time with a model that is opened for the first one. `close` it.

    `open_model` gives an engine that is this object's alone, such as `lambda: engine.sibling(n_ctx=2048)`: it
    yields to the user's. A message that comes while another is read waits; the one that waited before it is
    not read. Called from one thread.
    """

    def __init__(self, open_model: Callable[[], Engine]) -> None:
        self._open_model = open_model
        self._model: Engine | None = None
        self._changed = threading.Condition()
        self._waiting: str | None = None
        self._is_reading = False
        self._is_closed = False
        self._number = 0  # of the conversation that results belong to
        self._found: list[Extracted] = []
        self._thread: threading.Thread | None = None

    def begin(self, text: str) -> None:
        """Read this message when there is time."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting = text
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="shepherd-entities", daemon=True)
            self._thread.start()

    def take(self) -> list[Extracted]:
        """What was found since the last call."""
        with self._changed:
            found, self._found = self._found, []
            return found

    def drop(self) -> None:
        """What is read, waits or was found is of no use any more."""
        with self._changed:
            self._number += 1
            self._waiting = None
            self._found = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether nothing is read or waits, or no more within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting is None and not self._is_reading, timeout_s)

    def close(self) -> None:
        """End what is read, and close the model. May be called twice."""
        with self._changed:
            self._is_closed = True
            self._waiting = None
            model, self._model = self._model, None
            self._changed.notify_all()
        if model is not None:
            model.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_reading = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting is not None or self._is_closed)
                if self._is_closed or self._waiting is None:
                    return
                text, self._waiting = self._waiting, None
                number, self._is_reading = self._number, True
            found = self._read(text)
            with self._changed:
                if number == self._number:
                    self._found += found

    def _read(self, text: str) -> tuple[Extracted, ...]:
        try:
            model = self._opened()
            return () if model is None else extract_entities(model, text)
        except ShepherdError as error:
            _log.info("entities by the model: %s", error)
        except Exception:
            _log.exception("entities by the model")
        return ()

    def _opened(self) -> Engine | None:
        """The model; None when this was closed meanwhile."""
        if self._model is None:
            model = self._open_model()
            with self._changed:
                if not self._is_closed:
                    self._model = model
            if self._is_closed:
                model.close()
                return None
        return self._model
