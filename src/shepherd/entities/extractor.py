"""Extraction of entities by a local model: slower than the rules, in any language that the model reads.

A grammar constrains the answer; names and values that the text does not contain are dropped.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shepherd.entities.records import ENTITY_TYPES, EntityType
from shepherd.errors import ShepherdError
from shepherd.types import Message, Sampling

if TYPE_CHECKING:
    from shepherd.inference import Engine

__all__ = [
    "ENTITY_GRAMMAR",
    "ENTITY_PROMPT",
    "EntityReader",
    "Extracted",
    "extract_entities",
    "parse_entities",
]

_log = logging.getLogger(__name__)

_MOST_CHARS = 4000
_MOST_TOKENS = 600

ENTITY_PROMPT = (
    "List who and what the text names, as JSON: "
    '{"entities": [{"name": "…", "type": "…", "attributes": {"key": "value"}, '
    '"relations": [{"relation": "…", "target": "…"}]}]}. '
    f"Types: {', '.join(ENTITY_TYPES)}. Only what the text says, in its words; attributes and relations may"
    " be empty. A relation reads from the entity to its target, another name of the list or user."
)

# Quoted words, in the quotes of GBNF.
_TYPES = " | ".join(rf'"\"{kind}\""' for kind in ENTITY_TYPES)
# Limits on counts and lengths stop a model that repeats itself.
ENTITY_GRAMMAR = rf"""
root       ::= "{{\"entities\": [" entities? "]}}"
entities   ::= entity (", " entity){{0,11}}
entity     ::= "{{\"name\": " text ", \"type\": " type rest
rest       ::= ", \"attributes\": {{" attributes? "}}, \"relations\": [" relations? "]}}"
type       ::= {_TYPES}
attributes ::= attribute (", " attribute){{0,5}}
attribute  ::= key ": " value
relations  ::= relation (", " relation){{0,5}}
relation   ::= "{{\"relation\": " key ", \"target\": " text "}}"
key        ::= "\"" char{{1,40}} "\""
text       ::= "\"" char{{1,80}} "\""
value      ::= "\"" char{{1,160}} "\""
char       ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{{4}})
"""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An entity that a model found; a relation's target is a name, or `user`."""

    name: str
    type: EntityType = "unknown"
    attributes: tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str], ...] = ()


def extract_entities(engine: Engine, text: str, *, max_tokens: int = _MOST_TOKENS) -> tuple[Extracted, ...]:
    """Return the entities that the model finds in the first 4,000 characters, with background priority.

    An answer that was cut off, or is not JSON, gives no entities. Raises ModelError when the engine fails,
    ContextOverflowError when its window is too small.
    """
    shown = text[:_MOST_CHARS]
    answer = engine.generate(
        [Message("system", ENTITY_PROMPT), Message("user", shown)],
        sampling=Sampling(temperature=0.0),
        max_tokens=max_tokens,
        grammar=ENTITY_GRAMMAR,
        background=True,
    )
    try:
        with answer:
            for _ in answer:
                pass
        return parse_entities(answer.text, shown)
    finally:
        answer.close()


def parse_entities(answer: str, text: str) -> tuple[Extracted, ...]:
    """Return the entities of an answer, with only the names and values that the text contains."""
    try:
        listed = json.loads(answer)["entities"]
    except (ValueError, KeyError, TypeError):
        return ()
    if not isinstance(listed, list):
        return ()
    source = _normalized(text)
    found = [one for one in (_extracted(entry, source) for entry in listed) if one is not None]
    names = {_normalized(one.name) for one in found} | {"user"}
    return tuple(
        Extracted(
            one.name,
            one.type,
            one.attributes,
            tuple((label, target) for label, target in one.relations if _normalized(target) in names),
        )
        for one in found
    )


def _extracted(entry: Any, source: str) -> Extracted | None:
    if not isinstance(entry, dict) or not _is_in(entry.get("name"), source):
        return None
    kind = entry.get("type")
    attributes, relations = entry.get("attributes"), entry.get("relations")
    return Extracted(
        " ".join(entry["name"].split()),
        kind if kind in ENTITY_TYPES else "unknown",
        tuple(
            (key, value)
            for key, value in (attributes.items() if isinstance(attributes, dict) else ())
            if key.strip() and _is_in(value, source)
        ),
        tuple(
            (relation["relation"], relation["target"])
            for relation in (relations if isinstance(relations, list) else ())
            if isinstance(relation, dict)
            and isinstance(relation.get("relation"), str)
            and isinstance(relation.get("target"), str)
            and relation["relation"].strip()
        ),
    )


def _is_in(value: Any, source: str) -> bool:
    return isinstance(value, str) and bool(value.strip()) and _normalized(value) in source


def _normalized(text: str) -> str:
    return " ".join(text.casefold().split())


class EntityReader:
    """Extracts the entities of one message at a time in the background. Call it from one thread; `close` it.

    `open_model` is called for the first message and gives an engine that belongs to this object alone, such
    as `lambda: engine.sibling(n_ctx=2048)`. Of the messages that come while one is read, only the latest is
    read.
    """

    def __init__(self, open_model: Callable[[], Engine]) -> None:
        self._open_model = open_model
        self._model: Engine | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._executor = ThreadPoolExecutor(1, "shepherd-entities")
        self._jobs: list[Future[tuple[Extracted, ...]]] = []  # whose results were not taken yet

    def begin(self, text: str) -> None:
        """Queue a message, in place of one that waits."""
        if self._is_closed:
            return
        if self._jobs and self._jobs[-1].cancel():
            self._jobs.pop()
        self._jobs.append(self._executor.submit(self._read, text))

    def take(self) -> list[Extracted]:
        """Return what was found since the last call."""
        done = [job for job in self._jobs if job.done()]
        self._jobs = [job for job in self._jobs if job not in done]
        return [one for job in done for one in job.result()]

    def drop(self) -> None:
        """Discard the messages that are queued or being read, and what was found."""
        for job in self._jobs:
            job.cancel()
        self._jobs = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until every message is read; returns False on a timeout."""
        return not wait(self._jobs, timeout_s).not_done

    def close(self) -> None:
        """Stop reading and close the model. May be called twice."""
        self.drop()
        with self._lock:
            self._is_closed = True
            model, self._model = self._model, None
        if model is not None:
            model.close()
        self._executor.shutdown()

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
        """Return the model, None once this object is closed."""
        with self._lock:
            if self._model is None and not self._is_closed:
                self._model = self._open_model()
            return self._model
