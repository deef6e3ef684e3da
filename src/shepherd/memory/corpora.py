"""The two corpora that are searched, memories and chunks of documents: their tables, columns and weights.

Code that treats both alike takes a Corpus: hot indexes, ranking on a server, vectors. recall.c has the same
tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from shepherd._native.rank import PARTS, Weights
from shepherd.memory.queries import COLUMNS

__all__ = ["CHUNKS", "MEMORIES", "Corpus"]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Names of a corpus in SQL. Columns are expressions, since chunks have no time, labels or questions."""

    noun: str
    stem: str
    """First part of the names of the tables beside the rows."""
    rows: str
    sums: str
    """Table with each tenant's version, number of rows and length of all, under `number`."""
    next_sequence: str
    timestamp: str
    usual_parts: str
    """Parts (rank.PARTS) of a term of which a row in `terms` has no count."""
    thread: str
    label: str
    asks: str
    pairs: str
    question: str
    text: str
    result_columns: str
    """Columns that a search by vectors returns; "" if the caller reads the rows itself."""
    weights: Weights | None
    """Weights of the context around a row; None: those of memories, which depend on who wrote them."""
    saved_prefix: str
    """First part of the names of saved hot indexes."""
    meta_prefix: str
    """First part of the keys in `meta`."""
    bytes_per_row: int
    """Estimated size of a row in a hot index that is not built yet."""

    @property
    def changes(self) -> str:
        """Table of the rows that a version changed or removed."""
        return f"{self.stem}_changes"

    @property
    def terms(self) -> str:
        """Table of the terms of the rows, on a server."""
        return f"{self.stem}_terms"

    @property
    def vectors(self) -> str:
        """Table of the vectors of the rows."""
        return f"{self.stem}_vectors"


MEMORIES = Corpus(
    noun="memories",
    stem="context",
    rows="context",
    sums="tenants",
    next_sequence="next_sequence",
    timestamp="timestamp",
    usual_parts="usual",
    thread="thread",
    label="label",
    asks="asks",
    pairs="pairs",
    question="user_message",
    text="assistant_response",
    result_columns=COLUMNS,
    weights=None,
    saved_prefix="",
    meta_prefix="",
    bytes_per_row=270,
)
CHUNKS = Corpus(
    noun="chunks",
    stem="chunk",
    rows="chunks",
    sums="knowledge_sums",
    next_sequence="next_chunk",
    timestamp="0",
    usual_parts=str(PARTS),
    thread="node_id",
    label="0",
    asks="0",
    pairs="NULL",
    question="''",
    text="text",
    result_columns="",
    # Only the node around a chunk counts: the score of the node's best candidate, its card included.
    # Neighbours already share their overlap, and there are no questions and answers.
    weights=Weights(
        previous=0.0,
        exchange=0.0,
        answer=0.0,
        next=0.0,
        second=0.0,
        session=0.1,
        asking=1.0,
        label=1.0,
        period=1.0,
        instruction=1.0,
        preference=1.0,
        length=1.0,
        pair=0.0,
    ),
    saved_prefix="chunks-",
    meta_prefix="chunk_",
    bytes_per_row=1000,
)
