"""`ShepherdStore`, a LangGraph store whose items are the user's knowledge. Needs the extra `langgraph`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from shepherd.adapters import items
from shepherd.adapters.items import StoredItem
from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.installation import install_extra
from shepherd.knowledge import Knowledge, nodes
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.nodes import NewNode
from shepherd.memory import Memory
from shepherd.transactions import Connection

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )
except ImportError as error:
    raise UsageError(
        "ShepherdStore needs langgraph, which is not installed",
        hint=install_extra("langgraph"),
    ) from error

__all__ = ["ShepherdStore"]

# Items of one query while a filter is applied to them.
_PAGE = 500
# Chunks of the first query for each wanted item: most items have one.
_PIECES = 2
_MOST_PIECES = 1 << 20
_ROW_BYTES = 2048


class ShepherdStore(BaseStore):
    """LangGraph store in a Memory's database, which the caller opens and closes.

    >>> store = ShepherdStore(memory, user_label=1)
    >>> store.put(("memories", "steve"), "food", {"likes": "pizza with olives"})
    >>> [item.key for item in store.search(("memories", "steve"), query="olives?")]
    ['food']

    Without `user_label` all items belong to one user: `user_id`, else the Memory's. With it, the label at
    that place of a namespace is the user: ("memories", "steve") is Steve's with 1. Users share nothing, so
    every search and list must name one.

    Each item is a node of kind `langgraph` in the user's knowledge, and can be seen, searched and deleted
    there. A search with a query returns items that match by words (and vectors, if the Memory has them);
    `score` is the relevance, 0..1. A search without a query returns the latest changed first. `fields` are
    the default paths to search; "$" is the whole value.

    Secrets in a value (a password, a key, a card number …) are covered by dots, unless the Memory keeps
    secrets; `get` returns the value as it is stored. Namespaces and keys are stored as they are.

    The reads of a batch see the state before it; the writes of one user are one transaction. Thread-safe.
    Raises UsageError for values and queries that are not supported, else the StoreErrors of the Memory.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        user_id: str | None = None,
        user_label: int | None = None,
        fields: Sequence[str] = ("$",),
        clock: Callable[[], float] = time.time,
    ) -> None:
        if user_label is not None and (user_id is not None or user_label < 0):
            raise UsageError(
                "user_label: takes the user from the namespace",
                hint="give user_id or user_label, which counts the labels from 0",
            )
        if isinstance(fields, str):
            raise UsageError("fields: one text instead of a list of paths", hint='fields=["text"]')
        self._memory = memory
        self._user_id = memory.user_id if user_id is None else user_id
        self._user_label = user_label
        self._fields = tuple(fields)
        self._clock = clock

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Return the result of each operation, in their order."""
        asked = list(ops)
        # Before any write: an error in the last operation must store nothing.
        writes = self._planned_writes(asked)
        results = [self._read(op) for op in asked]
        for user_id, puts in writes.items():
            self._write(user_id, puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    # ---- reading

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        if isinstance(op, PutOp):
            return None
        raise UsageError(f"a store does not know the operation {type(op).__name__}")

    def _get(self, op: GetOp) -> Item | None:
        namespace = _full(op.namespace)
        user_id = self._user_of(namespace)
        found: StoredItem | None = None
        found = self._knowledge(user_id).look(
            lambda connection: items.find(connection, user_id, namespace, str(op.key)), found
        )
        return None if found is None else Item(**_fields_of(found))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.limit < 0 or op.offset < 0:
            raise UsageError("limit and offset of a search are not negative")
        prefix = items.checked_namespace(op.namespace_prefix)
        user_id = self._user_of(prefix)
        if op.query and op.query.strip():
            found = self._found(user_id, prefix, op)
        else:
            found = [(item, None) for item in self._latest(user_id, prefix, op)]
        return [SearchItem(**_fields_of(item), score=score) for item, score in found]

    def _latest(self, user_id: str, prefix: tuple[str, ...], op: SearchOp) -> list[StoredItem]:
        def read(connection: Connection) -> list[StoredItem]:
            if not op.filter:
                return items.page_under(connection, user_id, prefix, limit=op.limit, offset=op.offset)
            found: list[StoredItem] = []
            for item in _all_under(connection, user_id, prefix):
                if len(found) >= op.offset + op.limit:
                    break
                if items.is_taken(item.value, op.filter):
                    found.append(item)
            return found[op.offset :]

        nothing: list[StoredItem] = []
        return self._knowledge(user_id).look(read, nothing)

    def _found(
        self, user_id: str, prefix: tuple[str, ...], op: SearchOp
    ) -> list[tuple[StoredItem, float | None]]:
        """Return the items that match the query with their relevance, ranked by their best chunk."""
        knowledge = self._knowledge(user_id)
        candidates: dict[int, StoredItem] = {}

        def candidates_of(connection: Connection) -> dict[int, StoredItem]:
            return {
                item.node_id: item
                for item in _all_under(connection, user_id, prefix)
                if items.is_taken(item.value, op.filter)
            }

        candidates = knowledge.look(candidates_of, candidates)
        wanted = op.offset + op.limit
        if not candidates or not wanted:
            return []
        asked = min(_PIECES * wanted, _MOST_PIECES)
        while True:
            pieces = knowledge.search(str(op.query), asked, part="text", node_ids=candidates)
            relevance: dict[int, float | None] = {}
            for piece in pieces:
                relevance.setdefault(piece.node_id, piece.relevance)
            if len(relevance) >= wanted or len(pieces) < asked or asked >= _MOST_PIECES:
                break
            asked = min(4 * asked, _MOST_PIECES)
        best = list(relevance.items())[op.offset : wanted]
        return [(candidates[node_id], score) for node_id, score in best]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        if op.limit < 0 or op.offset < 0 or (op.max_depth is not None and op.max_depth < 1):
            raise UsageError("limit and offset of a list are not negative, and max_depth is 1 or more")
        conditions = tuple(op.match_conditions or ())
        for condition in conditions:
            _check_condition(condition)
        prefix = _known_prefix(conditions)
        user_id = self._user_of(self._path_with_user(conditions) or prefix)

        def read(connection: Connection) -> set[tuple[str, ...]]:
            return {
                namespace[: op.max_depth]
                for namespace in items.namespaces_under(connection, user_id, prefix)
                if all(_matches(namespace, condition) for condition in conditions)
            }

        nothing: set[tuple[str, ...]] = set()
        return sorted(self._knowledge(user_id).look(read, nothing))[op.offset : op.offset + op.limit]

    # ---- writing

    def _planned_writes(self, ops: Sequence[Op]) -> dict[str, dict[tuple[tuple[str, ...], str], PutOp]]:
        """Return by user the last write of each item, with a value that can be stored."""
        planned: dict[str, dict[tuple[tuple[str, ...], str], PutOp]] = {}
        for op in ops:
            if isinstance(op, PutOp):
                if op.ttl is not None:
                    raise UsageError("items of this store do not expire", hint="drop ttl")
                namespace = _full(op.namespace)
                value = None if op.value is None else items.storable_value(op.value)
                key = str(op.key)
                planned.setdefault(self._user_of(namespace), {})[namespace, key] = op._replace(value=value)
        return planned

    def _write(self, user_id: str, puts: Mapping[tuple[tuple[str, ...], str], PutOp]) -> None:
        now = self._clock()
        knowledge = self._knowledge(user_id)
        new = {
            place: self._node(knowledge, *place, put, now) if put.value is not None else None
            for place, put in puts.items()
        }

        def write(connection: Connection, shelf: Shelf) -> None:
            for (namespace, key), node in new.items():
                _put(connection, shelf, items.find(connection, user_id, namespace, key), node, int(now))

        knowledge.transaction(
            write,
            sum(
                4 * len(node.source_text) + len(str(node.metadata)) + _ROW_BYTES
                for node in new.values()
                if node is not None
            ),
            texts=[text for node in new.values() if node is not None for text in nodes.texts_of(node)],
        )

    def _node(
        self, knowledge: Knowledge, namespace: tuple[str, ...], key: str, put: PutOp, now: float
    ) -> NewNode:
        moment = datetime.fromtimestamp(now, timezone.utc).isoformat()
        assert put.value is not None
        # Before the text is made of it: a field's name tells what its value is.
        value, _ = knowledge.covered(put.value)
        searched = _searched_text(value, self._fields if put.index is None else put.index)
        return NewNode(
            title=knowledge.covered(storable(key))[0] if key.strip() else "item without a key",
            kind=items.KIND,
            # Fields side by side can tell more than each of them.
            source_text=knowledge.covered(searched)[0],
            metadata={"value": value, "created_at": moment, "updated_at": moment},
            origin=items.origin_of(namespace, key),
        )

    # ---- users

    def _knowledge(self, user_id: str) -> Knowledge:
        return Knowledge(self._memory.transactions, user_id, clock=self._clock)

    def _path_with_user(self, conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
        """Return the path of a condition that names the user; () if there is none."""
        label = self._user_label
        paths = [tuple(condition.path) for condition in conditions if condition.match_type == "prefix"]
        return next(
            (path for path in paths if label is not None and len(path) > label and path[label] != "*"), ()
        )

    def _user_of(self, namespace: Sequence[str]) -> str:
        if self._user_label is None:
            return self._user_id
        if len(namespace) <= self._user_label or namespace[self._user_label] == "*":
            raise UsageError(
                f"a namespace of {len(namespace)} labels names no user",
                hint=f"label {self._user_label} must name the user: users share nothing",
            )
        return namespace[self._user_label]


def _full(namespace: Sequence[str]) -> tuple[str, ...]:
    checked = items.checked_namespace(namespace)
    if not checked:
        raise UsageError("the namespace of an item is empty", hint='give it a label: ("memories",)')
    return checked


def _fields_of(item: StoredItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ("namespace", "key", "value", "created_at", "updated_at")}


def _all_under(connection: Connection, user_id: str, prefix: tuple[str, ...]) -> Iterator[StoredItem]:
    offset = 0
    while page := items.page_under(connection, user_id, prefix, limit=_PAGE, offset=offset):
        yield from page
        offset += len(page)


def _searched_text(value: Mapping[str, Any], fields: Sequence[str] | bool) -> str:
    if isinstance(fields, bool):
        return items.text_of(value) if fields else ""
    if isinstance(fields, str):
        raise UsageError("index: one text instead of a list of paths", hint='index=["text"]')
    texts = [
        text
        for path in fields
        for text in ([items.text_of(value)] if path in ("", "$") else get_text_at_path(value, path))
    ]
    return "\n".join(texts)


def _put(
    connection: Connection, shelf: Shelf, known: StoredItem | None, node: NewNode | None, now: int
) -> None:
    """Store an item in place of the known one, or delete that if there is no new one."""
    if known is None:
        if node is not None:
            nodes.add(connection, shelf, node, now)
    elif node is None:
        nodes.delete(connection, shelf, known.node_id)
    else:
        metadata = {**(node.metadata or {}), "created_at": known.created_at.isoformat()}
        values = {"source_text": node.source_text, "metadata": metadata}
        nodes.change(connection, shelf, known.node_id, values, now)


def _check_condition(condition: MatchCondition) -> None:
    if condition.match_type not in ("prefix", "suffix"):
        raise UsageError("a match condition must be for a prefix or a suffix")
    items.checked_namespace(condition.path)


def _known_prefix(conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
    """Return the labels that every match begins with."""
    best: tuple[str, ...] = ()
    for condition in conditions:
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            labels = path[: path.index("*")] if "*" in path else path
            best = max(best, labels, key=len)
    return best


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
