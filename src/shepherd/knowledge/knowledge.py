"""Knowledge of one user: nodes, edges, dimensions and chunks in the memory's database."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Concatenate, ParamSpec, TypeVar

from shepherd._native.text import STOP_WORDS
from shepherd._native.text import keywords as extract_keywords
from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.fusion import CANDIDATES
from shepherd.knowledge import blocks, chunks, dimensions, edges, nodes, retrieval, transfer
from shepherd.knowledge.blocks import Focused
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.nodes import CHANGEABLE, NewNode
from shepherd.knowledge.records import ChunkResult, Dimension, Edge, Hub, Node, Part
from shepherd.transactions import ChunkHit, Connection, Transactions
from shepherd.types import ANONYMOUS_USERS

__all__ = ["Knowledge"]

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

_ROW_BYTES = 1024
# A filtered search is repeated with four times the limit until enough chunks pass the filter.
_MORE = 4
_MOST_ASKED = 4096
# Python reads weeks, too: "2026-W01-1".
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Fields of a new node in which secrets are covered. Links and origins are addresses: they stay as they are.
_COVERED = ("title", "description", "notes", "source_text", "metadata")
# Chunks up to which common words are searched for as well.
_SMALL_COLLECTION = 200


class Knowledge:
    """The knowledge of one user.

    >>> knowledge = Knowledge(memory.transactions, user_id="steve")
    >>> rag = knowledge.add_node("How RAG systems work", source_text="Retrieval comes first.")
    >>> knowledge.search("retrieval")[0].node_id == rag.id
    True

    Ids are the user's own: 1, 2, 3. An anonymous user (`""`, `"unknown"`) has nothing and cannot write.
    Thread-safe and cheap to make: one for each user. `count_tokens` counts those of the model that will read
    the chunks. If the memory has vectors, chunks are searched by words and vectors; if it has a reranker, it
    orders the best candidates for a prompt.
    """

    def __init__(
        self,
        transactions: Transactions,
        user_id: str = "local",
        *,
        count_tokens: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.user_id = storable(user_id)
        self._transactions = transactions
        self._count_tokens = count_tokens
        self._clock = clock

    @property
    def is_reranking(self) -> bool:
        """Return True if a reranker orders the results of `retrieve`."""
        return self._transactions.reranker is not None

    # ---- nodes

    def add_node(
        self,
        title: str,
        *,
        kind: str = "",
        description: str = "",
        notes: str = "",
        source_text: str = "",
        link: str = "",
        event_date: str = "",
        metadata: Mapping[str, Any] | None = None,
        dimensions: Iterable[str] = (),
    ) -> Node:
        """Store and return a new node; UsageError for an `event_date` that is no day."""
        _require_day(event_date)
        new = NewNode(
            storable(title),
            storable(kind),
            storable(description),
            storable(notes),
            storable(source_text),
            storable(link),
            storable(event_date),
            metadata,
            tuple(map(storable, dimensions)),
        )
        node_id = self.store_node(new)
        return self.get_node(node_id) or _vanished(node_id)

    def store_node(self, new: NewNode) -> int:
        """Store a node with all its fields, whose text must be storable; return its id."""
        new, _ = self.without_secrets(new)
        return self.transaction(
            lambda connection, shelf: nodes.add(connection, shelf, new, self.now()),
            _size(new),
            texts=nodes.texts_of(new),
        )

    def get_node(self, node_id: int, *, with_text: bool = False) -> Node | None:
        """Return a node of this user."""
        return self._read(None, nodes.get, node_id, with_text=with_text)

    def get_nodes(self, node_ids: Iterable[int]) -> list[Node]:
        """Return the nodes that exist, in the order given."""
        return self._read([], nodes.several, list(node_ids))

    def list_nodes(
        self, *, kind: str | None = None, dimension: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[Node]:
        """Return nodes, the latest changed first."""
        wanted: dict[str, Any] = {"kind": _storable(kind), "dimension": _storable(dimension)}
        return self._read([], nodes.listed, **wanted, limit=max(limit, 0), offset=max(offset, 0))

    def count_nodes(self, *, kind: str | None = None, dimension: str | None = None) -> int:
        """Return the number of nodes, of a kind or a dimension."""
        return self._read(0, nodes.count, kind=_storable(kind), dimension=_storable(dimension))

    def latest_change(self) -> tuple[int, int] | None:
        """Return the id and the time of the last change of a node, read from an index; None without nodes."""
        if self.user_id in ANONYMOUS_USERS:
            return None
        return self._transactions.look(lambda connection: nodes.latest_change(connection, self.user_id))

    def update_node(self, node_id: int, *, append_notes: str = "", **values: Any) -> bool:
        """Change fields of a node; False if there is no such node.

        A new `source_text` is cut into chunks and replaces the old one in one transaction. `append_notes` are
        put after the existing notes.
        """
        unknown = values.keys() - set(CHANGEABLE)
        if unknown:
            raise UsageError(f"a node has no {sorted(unknown)[0]!a}", hint="fields: " + ", ".join(CHANGEABLE))
        if (day := values.get("event_date")) is not None:
            known = self.get_node(node_id)
            if known is None or day != known.event_date:  # older ones can be anything
                _require_day(day)
        stored = {name: self.covered(_storable(value))[0] for name, value in values.items()}
        added, _ = self.covered(storable(append_notes).strip())

        def change(connection: Connection, shelf: Shelf) -> bool:
            wanted = dict(stored)
            if added:
                known = nodes.get(connection, self.user_id, node_id)
                before = wanted.get("notes", known.notes if known else "")
                wanted["notes"] = f"{before}\n\n{added}" if before else added
            return nodes.change(connection, shelf, node_id, wanted, self.now())

        size = sum(len(str(value)) for value in stored.values())
        return self.transaction(
            change, 2 * size + _ROW_BYTES, texts=self._texts_after(node_id, stored, added)
        )

    def without_secrets(self, new: NewNode) -> tuple[NewNode, int]:
        """Return a node with the secrets in _COVERED covered, unless they are kept, and their number."""
        found = {name: self.covered(getattr(new, name)) for name in _COVERED}
        n_secrets = sum(n for _, n in found.values())
        covered: dict[str, Any] = {name: value for name, (value, _) in found.items()}
        return (replace(new, **covered) if n_secrets else new), n_secrets

    def count_secrets(self, values: Mapping[str, Any], *, is_new: bool = False) -> int:
        """Return the number of secrets in fields of a node, or a new one, that are covered when stored."""
        fields = _COVERED if is_new else values
        return sum(self.covered(values.get(name))[1] for name in fields)

    def covered(self, value: Any) -> tuple[Any, int]:
        """Return a text or a JSON object with its secrets covered, unless they are kept, and their number."""
        if not value or not isinstance(value, (str, Mapping)) or self._transactions.keeps_secrets:
            return value, 0
        # Not at the top: most programs that read need no rules.
        from shepherd.secret_detection import masked, masked_value

        try:
            return masked(value) if isinstance(value, str) else masked_value(value)
        except RecursionError as error:
            raise UsageError("a value in the metadata of a node is nested too deeply") from error

    def _texts_after(self, node_id: int, values: Mapping[str, Any], added: str) -> list[str]:
        """Return the texts of a node after a change, whose vectors are made before the transaction."""
        if self._transactions.meaning is None:
            return []
        known = self.get_node(node_id)
        if known is None:
            return []
        title, description, notes = (
            values.get(name, getattr(known, name)) for name in ("title", "description", "notes")
        )
        if added:
            notes = f"{notes}\n\n{added}" if notes else added
        return [str(values.get("source_text", "")), chunks.card(title, description, notes)]

    def delete_node(self, node_id: int) -> bool:
        """Remove a node with its edges and chunks, and all copies of it; False if there is none.

        Nothing of it can be read again from a file of Shepherd's when this returns.
        """
        return bool(self.delete_nodes([node_id]))

    def delete_nodes(self, node_ids: Iterable[int]) -> list[int]:
        """Do as `delete_node` for several in one transaction; return the ids of those that were removed."""
        wanted = list(dict.fromkeys(node_ids))

        def delete(connection: Connection, shelf: Shelf) -> list[int]:
            gone: list[int] = []
            chunk_ids: list[int] = []
            titles: list[str] = []
            for node_id in wanted:
                node = nodes.get(connection, self.user_id, node_id)
                if node is None:
                    continue
                chunk_ids += _chunk_ids(connection, self.user_id, node_id)
                titles.append(node.title)
                nodes.delete(connection, shelf, node_id)
                gone.append(node_id)
            if gone:
                self._transactions.forget_chunks(connection, self.user_id, chunk_ids, titles)
            return gone

        return self.forget(delete)

    def replace_notes(self, notes: Callable[[Connection], Mapping[int, str]]) -> list[int]:
        """Replace the notes of nodes and remove all copies of the earlier ones; return the ids of the nodes.

        `notes` is called in the transaction, and can be called twice.
        """

        def replace_all(connection: Connection, shelf: Shelf) -> list[int]:
            changes = notes(connection)
            before = [chunk for node in changes for chunk in _chunk_ids(connection, self.user_id, node)]
            for node_id, text in changes.items():
                nodes.change(connection, shelf, node_id, {"notes": text}, self.now())
            left = {chunk for node in changes for chunk in _chunk_ids(connection, self.user_id, node)}
            if changes:
                gone = [chunk for chunk in before if chunk not in left]
                self._transactions.forget_chunks(connection, self.user_id, gone, [])
            return list(changes)

        return self.forget(replace_all)

    # ---- edges

    def connect(
        self,
        from_node_id: int,
        to_node_id: int,
        explanation: str,
        *,
        type: str = "related_to",
        confidence: float = 1.0,
        source: str = "user",
    ) -> Edge:
        """Return the edge of that type between two nodes: an existing one as it is, else a new one."""

        def add(connection: Connection, shelf: Shelf) -> int:
            return edges.add(
                connection,
                self.user_id,
                shelf.number,
                from_node_id,
                to_node_id,
                type=type,
                explanation=self.covered(storable(explanation))[0],
                confidence=confidence,
                source=source,
                now=self.now(),
            )[0]

        edge_id = self.transaction(add, _ROW_BYTES)
        return self.get_edge(edge_id) or _vanished(edge_id)

    def get_edge(self, edge_id: int) -> Edge | None:
        """Return an edge of this user."""
        return self._read(None, edges.get, edge_id)

    def update_edge(
        self,
        edge_id: int,
        *,
        type: str | None = None,
        explanation: str | None = None,
        confidence: float | None = None,
    ) -> bool:
        """Change the values that are not None; False if there is no such edge."""
        new: dict[str, Any] = {
            "type": type,
            "explanation": self.covered(_storable(explanation))[0],
            "confidence": confidence,
        }
        return self.transaction(
            lambda connection, _: edges.change(connection, self.user_id, edge_id, **new), _ROW_BYTES
        )

    def delete_edge(self, edge_id: int) -> bool:
        """Remove an edge; False if there is none."""
        return self._forget(lambda connection: edges.delete(connection, self.user_id, edge_id))

    def list_edges(
        self, node_id: int | None = None, *, type: str | None = None, limit: int = 100
    ) -> list[Edge]:
        """Return edges at either end of a node, or all, the newest first."""
        return self._read([], edges.of_node, node_id, type=type, limit=max(limit, 0))

    def hubs(self, limit: int = 10) -> list[Hub]:
        """Return the nodes with the most edges, without those of kind `memory`."""
        return self._read([], edges.hubs, max(limit, 0))

    # ---- dimensions

    def list_dimensions(self) -> list[Dimension]:
        """Return the dimensions, priority ones first, then by name."""
        return self._read([], dimensions.all_of)

    def set_dimension(
        self,
        name: str,
        *,
        new_name: str | None = None,
        description: str | None = None,
        icon: str | None = None,
        is_priority: bool | None = None,
    ) -> None:
        """Add a dimension, or change the values that are not None.

        A dimension that gets the name of another is merged into it.
        """
        name = dimensions.cleaned(storable(name))
        new: dict[str, Any] = {
            "new_name": None if new_name is None else dimensions.cleaned(storable(new_name)),
            "description": self.covered(_storable(description))[0],
            "icon": _storable(icon),
            "is_priority": is_priority,
        }

        def change(connection: Connection, _: Shelf) -> None:
            dimensions.ensure(connection, self.user_id, name)
            dimensions.change(connection, self.user_id, name, **new)

        self.transaction(change, _ROW_BYTES)

    def delete_dimension(self, name: str) -> bool:
        """Remove a dimension and take it off all nodes; False if there is none."""
        cleaned = dimensions.cleaned(storable(name))
        return self._forget(lambda connection: dimensions.delete(connection, self.user_id, cleaned))

    # ---- finding

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        min_relevance: float = 0.0,
        part: Part | None = None,
        node_ids: Iterable[int] | None = None,
    ) -> list[ChunkResult]:
        """Return the chunks that match a query by words and vectors, best first.

        `part` and `node_ids` restrict the search to one part, and to some nodes.
        """
        keywords = extract_keywords(storable(query))
        meaning = self._transactions.meaning
        vector = None if meaning is None or limit < 1 else meaning.embed_query(storable(query))
        wanted = None if node_ids is None else frozenset(node_ids)

        def find(connection: Connection) -> list[ChunkResult]:
            number = self._transactions.find_number(connection, self.user_id)
            if number is None or not (keywords or vector is not None) or limit < 1:
                return []
            asked = limit
            while True:
                hits = self._hits(connection, number, keywords, vector, asked, min_relevance)
                found = [
                    result
                    for result in chunks.results(connection, self.user_id, hits)
                    if (part is None or result.part == part) and (wanted is None or result.node_id in wanted)
                ]
                if len(found) >= limit or len(hits) < asked or asked >= _MOST_ASKED:
                    return found[:limit]
                asked *= _MORE

        return self.look(find, [])

    def nearest(self, vector: Sequence[float], limit: int = 10) -> list[ChunkResult]:
        """Return the chunks nearest to a vector by cosine; none without vectors in the memory."""
        meaning = self._transactions.meaning

        def find(connection: Connection) -> list[ChunkResult]:
            number = self._transactions.find_number(connection, self.user_id)
            if meaning is None or number is None or limit < 1:
                return []
            near, _ = meaning.nearest(connection, number, vector, [], limit)
            hits = [(chunk_id, 0.0, cosine, cosine) for chunk_id, cosine in near[:limit]]
            return chunks.results(connection, self.user_id, hits)

        return self.look(find, [])

    def _hits(
        self,
        connection: Connection,
        number: int,
        keywords: Sequence[str],
        vector: Any | None,
        limit: int,
        min_relevance: float,
    ) -> Sequence[ChunkHit]:
        """Return the best chunks by words and vectors, or by words alone."""
        index, meaning = self._transactions.chunks, self._transactions.meaning
        if vector is not None and meaning is not None:
            n = max(limit, CANDIDATES)
            words = index.search(connection, number, keywords, limit=n, min_relevance=0.0) if keywords else []
            near, mean = meaning.nearest(connection, number, vector, [hit[0] for hit in words], n)
            if near:
                return retrieval.fused(
                    words,
                    dict(near),
                    mean,
                    weight=meaning.weight,
                    limit=limit,
                    min_relevance=min_relevance,
                )
        if not keywords:
            return []
        hits = index.search(connection, number, keywords, limit=limit, min_relevance=min_relevance)
        # A chunk without a word of the query belongs to a node that has it in another chunk.
        return [hit for hit in hits if hit[1] > 0.0]

    def retrieve(
        self,
        query: str,
        limit: int = 10,
        *,
        min_relevance: float = 0.3,
        entities: Sequence[str] = (),
        recency_weight: float = 0.0,
        entity_weight: float = 0.0,
    ) -> list[ChunkResult]:
        """Return relevant chunks for a prompt, reordered by the reranker, by dates and by known names."""
        # Bare titles are removed below, so more chunks are requested.
        found = self.search(query, 2 * limit, min_relevance=min_relevance) or self._matching_all(query)
        found = retrieval.without_bare_titles(found)[:limit]
        if self._transactions.reranker is not None:
            found = retrieval.reranked(self._transactions.reranker, storable(query), found)
        return retrieval.boosted(
            found,
            now=self._clock(),
            entities=entities,
            recency_weight=recency_weight,
            entity_weight=entity_weight,
        )

    def _matching_all(self, query: str) -> list[ChunkResult]:
        """Return the chunks with all keywords of a query, in a small collection where these are common.

        The IDF of a word that most chunks have is near zero, and so is the relevance of a perfect match.
        """
        words = set(extract_keywords(storable(query)))
        if not words or words <= STOP_WORDS or not 0 < self._count_chunks() <= _SMALL_COLLECTION:
            return []
        found = self.search(query, _SMALL_COLLECTION)
        return [one for one in found if words <= set(extract_keywords(one.text, len(one.text)))]

    def _count_chunks(self) -> int:
        def count(connection: Connection) -> int:
            number = self._transactions.find_number(connection, self.user_id)
            rows = connection.execute("SELECT n FROM knowledge_sums WHERE number = ?", (number,))
            return int(rows[0][0]) if number is not None and rows else 0

        return self.look(count, 0)

    def find_nodes(
        self, query: str, limit: int = 10, *, kind: str | None = None, dimension: str | None = None
    ) -> list[Node]:
        """Return the nodes that match, ordered by their best chunk; the latest for a query without words."""
        if not query.strip():
            return self.list_nodes(kind=kind, dimension=dimension, limit=limit)
        asked = limit * _MORE
        while True:
            hits = self.search(query, asked)
            found = [
                node
                for node in self.get_nodes(dict.fromkeys(hit.node_id for hit in hits))
                if (kind is None or node.kind == kind) and (dimension is None or dimension in node.dimensions)
            ]
            if len(found) >= limit or len(hits) < asked or asked >= _MOST_ASKED:
                return found[:limit]
            asked *= _MORE

    def chunks_of(self, node_id: int) -> list[ChunkResult]:
        """Return the chunks of a node's text, in order."""
        return self._read([], chunks.of_node, node_id)

    # ---- focus

    def focus(self, node_ids: Iterable[int]) -> list[Node]:
        """Open these nodes and no others, the first as the primary one; return those that exist."""
        ids = list(dict.fromkeys(node_ids))

        def change(connection: Connection, _: Shelf) -> list[Node]:
            return nodes.focus(connection, self.user_id, ids, self.now())

        return self.transaction(change, _ROW_BYTES)

    def focused(self) -> list[Focused]:
        """Return the open nodes and how their content begins, the primary one first."""

        def read(connection: Connection) -> list[Focused]:
            found = nodes.focused(connection, self.user_id)
            return [
                Focused(
                    node,
                    node.notes or chunks.beginning(connection, self.user_id, node.id) or node.description,
                )
                for node in found
            ]

        return self.look(read, [])

    def claim(self, from_user: str) -> int:
        """Take over everything of another user; return how many nodes were new here."""
        other = storable(from_user)
        if other in ANONYMOUS_USERS or other == self.user_id:
            return 0

        def take(connection: Connection, shelf: Shelf) -> int:
            if self._transactions.find_number(connection, other) is None:
                return 0
            source = chunks.shelf_of(connection, self._transactions, other, None)
            return transfer.claim(connection, source, shelf, self.now())

        return self.transaction(take)

    # ---- what a model sees

    def background_block(self, limit: int = 10) -> str:
        """Return the block of the most-connected nodes, made once a session."""
        return blocks.background_block(self.hubs(limit))

    def focus_block(self) -> str:
        """Return the block of the open nodes, made every turn."""
        return blocks.focus_block(self.focused())

    # ---- transactions

    def look(self, work: Callable[[Connection], _Result], otherwise: _Result) -> _Result:
        """Return the result of `work` in a read transaction; `otherwise` for users without knowledge."""
        # The words of a question would tell the server of a blind memory what is asked.
        has_none = self.user_id in ANONYMOUS_USERS or self._transactions.is_blind
        return otherwise if has_none else self._transactions.read(work)

    def _read(
        self,
        otherwise: _Result,
        rows: Callable[Concatenate[Connection, str, _P], _Result],
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _Result:
        return self.look(lambda connection: rows(connection, self.user_id, *arguments, **options), otherwise)

    def transaction(
        self, work: Callable[[Connection, Shelf], _Result], size: int = 0, *, texts: Iterable[str] = ()
    ) -> _Result:
        """Return the result of `work` in a write transaction, with the user's shelf; it can run twice.

        `size`: bytes by which the database will grow. `texts`: parts of nodes that will be cut into chunks;
        their vectors are made before the transaction begins. UsageError for an anonymous user.
        """
        self._refuse_anonymous()
        # A model takes its time: the database must not be locked meanwhile.
        meaning = self._transactions.meaning
        vectors = {} if meaning is None else meaning.embed_documents(retrieval.pieces(texts))

        def run(connection: Connection) -> _Result:
            shelf = chunks.shelf_of(connection, self._transactions, self.user_id, self._count_tokens, vectors)
            return work(connection, shelf)

        return self._transactions.write(self.user_id, run, size=size, stays=True)

    def forget(self, work: Callable[[Connection, Shelf], _Result]) -> _Result:
        """Do as `transaction` for a deletion; if the result is true, clear its traces in other files, too."""

        def run(connection: Connection) -> _Result:
            shelf = chunks.shelf_of(connection, self._transactions, self.user_id, self._count_tokens)
            return work(connection, shelf)

        self._refuse_anonymous()
        return self._transactions.forget(self.user_id, run)

    def _forget(self, delete: Callable[[Connection], bool]) -> bool:
        self._refuse_anonymous()
        return self._transactions.forget(self.user_id, delete)

    def _refuse_anonymous(self) -> None:
        if self.user_id in ANONYMOUS_USERS:
            raise UsageError(
                "nothing is kept for this user", hint="--user or the setting 'user_id' names a user"
            )

    def now(self) -> int:
        """Return unix seconds."""
        return int(self._clock())


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_storable, value))
    return value


def _require_day(given: Any) -> None:
    """Raise UsageError for an event date that is neither empty nor a day: age and order need one."""
    try:
        is_day = not given or bool(_DAY.fullmatch(given) and date.fromisoformat(given))
    except (TypeError, ValueError):
        is_day = False
    if not is_day:
        raise UsageError("event_date is not a day", hint="write it as YYYY-MM-DD, such as 2026-03-01")


def _chunk_ids(connection: Connection, user_id: str, node_id: int) -> list[int]:
    rows = connection.execute("SELECT id FROM chunks WHERE user_id = ? AND node_id = ?", (user_id, node_id))
    return [chunk_id for (chunk_id,) in rows]


def _size(new: NewNode) -> int:
    # The text, its chunks, and the words of the chunks.
    texts = 3 * len(new.source_text) + 2 * (len(new.notes) + len(new.description))
    return texts + len(str(new.metadata or "")) + _ROW_BYTES


def _vanished(number: int) -> Any:
    raise UsageError(f"{number} was removed by another program at the same moment")
