"""Knowledge: what a caller uses. One user's nodes, edges, dimensions and chunks in the memory's database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

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

_Result = TypeVar("_Result")

_ROW_BYTES = 1024
# The chunks of a search are asked for again, four times as many, until enough of them are of the wanted kind.
_MORE = 4
_MOST_ASKED = 4096


class Knowledge:
    """The knowledge of one user.

    >>> knowledge = Knowledge(memory.transactions, user_id="steve")
    >>> rag = knowledge.add_node("How RAG systems work", source_text="Retrieval comes first.")
    >>> knowledge.search("retrieval")[0].node_id == rag.id
    True

    Ids are the user's own: 1, 2, 3. Nobody (`""`, `"unknown"`) reads nothing and may write nothing.
    Thread-safe, and cheap to make: one for each user. `count_tokens` is of the model that will read the
    chunks. Where the memory has vectors, chunks get them with their document, and are found by both; where it
    has a reranker, that orders the best candidates for a prompt.
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
        """Whether a reranker orders what `retrieve` finds."""
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
        """The new node."""
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
        """The id of a new node, every field of which may be given; its text must be storable."""
        return self._change(
            lambda connection, shelf: nodes.add(connection, shelf, new, self.now()),
            _size(new),
            texts=nodes.texts_of(new),
        )

    def get_node(self, node_id: int, *, with_text: bool = False) -> Node | None:
        """That node, if it is this user's."""
        return self._read(
            lambda connection: nodes.get(connection, self.user_id, node_id, with_text=with_text), None
        )

    def get_nodes(self, node_ids: Iterable[int]) -> list[Node]:
        """Those of the nodes that are there, in the order given."""
        ids = list(node_ids)
        return self._read(lambda connection: nodes.several(connection, self.user_id, ids), [])

    def list_nodes(
        self, *, kind: str | None = None, dimension: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[Node]:
        """The latest changed first."""
        return self._read(
            lambda connection: nodes.listed(
                connection,
                self.user_id,
                kind=_storable(kind),
                dimension=_storable(dimension),
                limit=max(limit, 0),
                offset=max(offset, 0),
            ),
            [],
        )

    def count_nodes(self, *, kind: str | None = None, dimension: str | None = None) -> int:
        """How many nodes this user has; those of a kind or a dimension."""
        of = {"kind": _storable(kind), "dimension": _storable(dimension)}
        return self._read(lambda connection: nodes.count(connection, self.user_id, **of), 0)

    def latest_change(self) -> tuple[int, int] | None:
        """Which node was made or changed last, and when; None without nodes. One look into an index."""

        def look(connection: Connection) -> tuple[int, int] | None:
            rows = connection.execute(
                "SELECT id, updated_at FROM nodes WHERE user_id = ? ORDER BY updated_at DESC, id LIMIT 1",
                (self.user_id,),
            )
            return (int(rows[0][0]), int(rows[0][1])) if rows else None

        return None if self.user_id in ANONYMOUS_USERS else self._transactions.look(look)

    def update_node(self, node_id: int, *, append_notes: str = "", **values: Any) -> bool:
        """Gives a node new values of its fields; whether there was such a one.

        A new `source_text` is cut into chunks first, and takes the place of the old one in one transaction.
        `append_notes` is put after the notes that are there.
        """
        unknown = values.keys() - set(CHANGEABLE)
        if unknown:
            raise UsageError(f"a node has no {sorted(unknown)[0]!a}", hint="fields: " + ", ".join(CHANGEABLE))
        stored = {name: _storable(value) for name, value in values.items()}
        added = storable(append_notes).strip()

        def change(connection: Connection, shelf: Shelf) -> bool:
            wanted = dict(stored)
            if added:
                known = nodes.get(connection, self.user_id, node_id)
                before = wanted.get("notes", known.notes if known else "")
                wanted["notes"] = f"{before}\n\n{added}" if before else added
            return nodes.change(connection, shelf, node_id, wanted, self.now())

        size = sum(len(str(value)) for value in stored.values())
        return self._change(change, 2 * size + _ROW_BYTES, texts=self._texts_after(node_id, stored, added))

    def _texts_after(self, node_id: int, values: Mapping[str, Any], added: str) -> list[str]:
        """What a node's parts will say; only that they can get their vectors before the transaction."""
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
        """Removes a node with its edges and chunks; whether there was such a one."""
        return self._change(lambda connection, shelf: nodes.delete(connection, shelf, node_id), 0)

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
        """The edge between two nodes; an edge of that type that is there already comes back as it is."""

        def add(connection: Connection, shelf: Shelf) -> int:
            return edges.add(
                connection,
                self.user_id,
                shelf.number,
                from_node_id,
                to_node_id,
                type=type,
                explanation=storable(explanation),
                confidence=confidence,
                source=source,
                now=self.now(),
            )[0]

        edge_id = self._change(add)
        return self.get_edge(edge_id) or _vanished(edge_id)

    def get_edge(self, edge_id: int) -> Edge | None:
        """That edge, if it is this user's."""
        return self._read(lambda connection: edges.get(connection, self.user_id, edge_id), None)

    def update_edge(
        self,
        edge_id: int,
        *,
        type: str | None = None,
        explanation: str | None = None,
        confidence: float | None = None,
    ) -> bool:
        """Gives an edge what is not None; whether there was such a one."""
        text = None if explanation is None else storable(explanation)
        return self._change(
            lambda connection, _: edges.change(
                connection, self.user_id, edge_id, type=type, explanation=text, confidence=confidence
            )
        )

    def delete_edge(self, edge_id: int) -> bool:
        """Removes an edge; whether there was such a one."""
        return self._change(lambda connection, _: edges.delete(connection, self.user_id, edge_id), 0)

    def list_edges(
        self, node_id: int | None = None, *, type: str | None = None, limit: int = 100
    ) -> list[Edge]:
        """Edges at either end of a node, or all, the newest first."""
        return self._read(
            lambda connection: edges.of_node(
                connection, self.user_id, node_id, type=type, limit=max(limit, 0)
            ),
            [],
        )

    def hubs(self, limit: int = 10) -> list[Hub]:
        """The nodes with the most edges, whose count is kept with each edge; none of kind `memory`."""
        return self._read(lambda connection: edges.hubs(connection, self.user_id, max(limit, 0)), [])

    # ---- dimensions

    def list_dimensions(self) -> list[Dimension]:
        """Priority ones first, then by name."""
        return self._read(lambda connection: dimensions.all_of(connection, self.user_id), [])

    def set_dimension(
        self,
        name: str,
        *,
        new_name: str | None = None,
        description: str | None = None,
        icon: str | None = None,
        is_priority: bool | None = None,
    ) -> None:
        """Makes a dimension, or gives one new values; with the name of another it becomes one with that."""
        name = dimensions.cleaned(storable(name))
        renamed = None if new_name is None else dimensions.cleaned(storable(new_name))

        def change(connection: Connection, _: Shelf) -> None:
            dimensions.ensure(connection, self.user_id, name)
            dimensions.change(
                connection,
                self.user_id,
                name,
                new_name=renamed,
                description=None if description is None else storable(description),
                icon=None if icon is None else storable(icon),
                is_priority=is_priority,
            )

        self._change(change)

    def delete_dimension(self, name: str) -> bool:
        """Takes a dimension off all nodes and away; whether there was such a one."""
        cleaned = dimensions.cleaned(storable(name))
        return self._change(lambda connection, _: dimensions.delete(connection, self.user_id, cleaned), 0)

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
        """The chunks that fit `query`, best first; of one part, and of some nodes, if asked.

        By its words, and where there are vectors by what it means as well.
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

        return self._read(find, [])

    def _hits(
        self,
        connection: Connection,
        number: int,
        keywords: Sequence[str],
        vector: Any | None,
        limit: int,
        min_relevance: float,
    ) -> Sequence[ChunkHit]:
        """The best chunks by words and vectors, or by words alone."""
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
        # Without a word of its own: the rest of a node that has them elsewhere.
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
        """Candidates for a prompt: what is relevant enough, reordered by reranker, dates and known names."""
        found = self.search(query, limit, min_relevance=min_relevance)
        if self._transactions.reranker is not None:
            found = retrieval.reranked(self._transactions.reranker, storable(query), found)
        return retrieval.boosted(
            found,
            now=self._clock(),
            entities=entities,
            recency_weight=recency_weight,
            entity_weight=entity_weight,
        )

    def find_nodes(
        self, query: str, limit: int = 10, *, kind: str | None = None, dimension: str | None = None
    ) -> list[Node]:
        """The nodes whose card or text fits, by their best chunk; without words the latest."""
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
        """The pieces of a node's text, in order."""
        return self._read(lambda connection: chunks.of_node(connection, self.user_id, node_id), [])

    # ---- focus

    def focus(self, node_ids: Iterable[int]) -> list[Node]:
        """Opens these nodes and no others, the first as the primary one; those that are there."""
        ids = list(dict.fromkeys(node_ids))

        def change(connection: Connection, _: Shelf) -> list[Node]:
            found = nodes.several(connection, self.user_id, ids)
            connection.execute("DELETE FROM focused_nodes WHERE user_id = ?", (self.user_id,))
            for place, node in enumerate(found):
                connection.execute(
                    "INSERT INTO focused_nodes(user_id, place, node_id) VALUES(?, ?, ?)",
                    (self.user_id, place, node.id),
                )
                connection.execute(
                    "UPDATE nodes SET touched_at = ? WHERE user_id = ? AND id = ?",
                    (self.now(), self.user_id, node.id),
                )
            return found

        return self._change(change)

    def focused(self) -> list[Focused]:
        """The open nodes with how their content begins, the primary one first."""

        def read(connection: Connection) -> list[Focused]:
            rows = connection.execute(
                "SELECT node_id FROM focused_nodes WHERE user_id = ? ORDER BY place", (self.user_id,)
            )
            found = nodes.several(connection, self.user_id, [node_id for (node_id,) in rows])
            return [Focused(node, self._beginning(connection, node)) for node in found]

        return self._read(read, [])

    def _beginning(self, connection: Connection, node: Node) -> str:
        if node.notes:
            return node.notes
        rows = connection.execute(
            "SELECT text FROM chunks WHERE user_id = ? AND node_id = ? AND part = 'text' AND idx = 0",
            (self.user_id, node.id),
        )
        return rows[0][0] if rows else node.description

    def claim(self, from_user: str) -> int:
        """Takes over everything that is kept under another id; how many nodes were new here."""
        other = storable(from_user)
        if other in ANONYMOUS_USERS or other == self.user_id:
            return 0

        def take(connection: Connection, shelf: Shelf) -> int:
            if self._transactions.find_number(connection, other) is None:
                return 0
            source = chunks.shelf_of(connection, self._transactions, other, None)
            return transfer.claim(connection, source, shelf, self.now())

        return self._change(take, 0)

    # ---- what a model sees

    def background_block(self, limit: int = 10) -> str:
        """The block of the most-connected nodes, made once a session."""
        return blocks.background_block(self.hubs(limit))

    def focus_block(self) -> str:
        """The block of the open nodes, made every turn."""
        return blocks.focus_block(self.focused())

    # ---- transactions

    def transaction(
        self, work: Callable[[Connection, Shelf], _Result], size: int = 0, *, texts: Iterable[str] = ()
    ) -> _Result:
        """For the rest of this room: `work` in one write transaction, with the user's shelf.

        `texts` are parts that it will cut into chunks: these get their vectors before it begins.
        """
        return self._change(work, size, texts=texts)

    def look(self, work: Callable[[Connection], _Result], otherwise: _Result) -> _Result:
        """For the rest of this room: `work` in one read transaction; `otherwise` for nobody."""
        return self._read(work, otherwise)

    def _read(self, work: Callable[[Connection], _Result], otherwise: _Result) -> _Result:
        return otherwise if self.user_id in ANONYMOUS_USERS else self._transactions.read(work)

    def _change(
        self,
        work: Callable[[Connection, Shelf], _Result],
        size: int = _ROW_BYTES,
        *,
        texts: Iterable[str] = (),
    ) -> _Result:
        if self.user_id in ANONYMOUS_USERS:
            raise UsageError(
                "nothing is kept for this user", hint="--user or the setting 'user_id' names a user"
            )

        # A model takes its time: nobody waits for the database meanwhile.
        meaning = self._transactions.meaning
        vectors = {} if meaning is None else meaning.embed_documents(retrieval.pieces(texts))

        def run(connection: Connection) -> _Result:
            shelf = chunks.shelf_of(connection, self._transactions, self.user_id, self._count_tokens, vectors)
            return work(connection, shelf)

        return self._transactions.write(self.user_id, run, size=size, stays=True)

    def now(self) -> int:
        """Unix seconds."""
        return int(self._clock())


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_storable, value))
    return value


def _size(new: NewNode) -> int:
    # The text, its chunks, and the words of those.
    told = 3 * len(new.source_text) + 2 * (len(new.notes) + len(new.description))
    return told + len(str(new.metadata or "")) + _ROW_BYTES


def _vanished(number: int) -> Any:
    raise UsageError(f"{number} was removed by another program at the same moment")
