"""What records say that nobody has filled, and what the library does that nobody has given options."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

from shepherd.config import SETTINGS
from shepherd.entities.ranking import EntityText
from shepherd.entities.records import USER, Attribute, Entity, Known, Mention, Relation
from shepherd.extraction.answer import Extracted, Selected
from shepherd.extraction.endpoint import EndpointExtractor
from shepherd.extraction.worker import WorkerSettings
from shepherd.knowledge import Knowledge
from shepherd.knowledge.importing import WebLimits
from shepherd.knowledge.records import Dimension, Edge, Node, Outcome
from shepherd.memory import Memory
from shepherd.memory.facts import Change
from shepherd.memory.migration import Migrated
from shepherd.memory.queries import RecallQuery
from shepherd.memory.records import (
    Activity,
    AuditFinding,
    ClaimCounts,
    Evidence,
    ExtractionStats,
    FactChange,
    ImportCounts,
    MemoryStats,
    NewMemory,
    Turn,
)
from shepherd.memory.vectors import VectorSettings
from shepherd.sync import Report
from shepherd.sync.records import Operation, Register

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("record", "filled"),
    [
        (MemoryStats(), set()),
        (Activity(), set()),
        (ImportCounts(), set()),
        (ExtractionStats(), set()),
        (ClaimCounts(), set()),
        (Evidence(), set()),
        (Report(), set()),
        (Extracted(), set()),
        (Selected(), set()),
        (AuditFinding("echo", ()), {"kind"}),
        (Turn("q", "a"), {"question", "answer"}),
        (NewMemory("q", "a", 1), {"question", "answer", "timestamp", "source"}),
        (FactChange("k", "v", "user", 1), {"key", "value", "source", "changed_at"}),
        (Migrated(1, 1, 1), {"memories", "duplicates", "facts"}),
        (Register("m", "a"), {"kind", "gid"}),
        (Operation("m", "a", 1, "b", {"v": 1}), {"kind", "gid", "stamp", "machine", "body"}),
        (Change(1, "k", None, None), {"number", "key"}),
        (
            RecallQuery(["a"], 1, 1.0, 0.5, 0.5),
            {"keywords", "limit", "now", "recency_floor", "min_relevance"},
        ),
        (Node(1, "title"), {"id", "title", "index_state"}),
        (Dimension("red"), {"name"}),
        (Outcome("a", "added"), {"name", "state"}),
        (Relation("of", 1), {"label", "target"}),
        (Attribute("a", "b"), {"name", "value", "confidence"}),
        (Mention(1, "a"), {"turn", "text", "n"}),
        (Entity(1, "Ann"), {"id", "name", "type", "salience", "is_named"}),
        (Known("Ann"), {"name", "type"}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, set) else "",
)
def test_what_nobody_has_filled_is_nothing(record: Any, filled: set[str]) -> None:
    if dataclasses.is_dataclass(record):
        values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    else:
        values = record._asdict()

    assert {name for name, value in values.items() if value} == filled


def test_one_mention_is_one_and_nothing_is_doubted_that_nobody_doubts() -> None:
    assert (Mention(1, "a").n, Attribute("a", "b").confidence, Entity(1, "Ann").salience) == (1, 1.0, 1.0)
    assert (Entity(1, "Ann").type, Known("Ann").type, Node(1, "t").index_state) == (
        "unknown",
        "unknown",
        "none",
    )
    assert (NewMemory("q", "a", 1).source, USER) == ("user", 0)
    edge = Edge(1, 2, 3, "related_to", "because", 1.0, "user", NOW)
    assert (edge.from_title, edge.to_title) == ("", "")
    assert "tokens" in {field.name for field in dataclasses.fields(EntityText) if field.default == 0}


def default(function: Any, name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def test_the_library_does_without_options_what_the_settings_say() -> None:
    """The same memory gives the same answers from Python as from the command line."""
    of_memory = {
        "relevance_threshold": "rag_relevance_threshold",
        "max_results": "rag_max_results",
        "recency_floor": "rag_recency_floor",
        "max_db_size": "max_db_size",
        "recall_cache_mb": "recall_cache_mb",
    }
    assert {name: default(Memory, name) for name in of_memory} == {
        name: SETTINGS[setting].default for name, setting in of_memory.items()
    }
    assert not default(Memory, "read_only")
    assert not default(Memory, "keeps_secrets")
    of_worker = {
        "min_turns": "memory_extraction_min_turns",
        "max_turns": "memory_extraction_max_turns",
        "idle_timeout_s": "memory_extraction_idle_timeout",
        "queue_limit": "memory_extraction_queue_limit",
        "secrets": "memory_extraction_secrets",
    }
    assert dataclasses.asdict(WorkerSettings()) == {
        name: SETTINGS[setting].default for name, setting in of_worker.items()
    }
    assert default(EndpointExtractor, "max_tokens") == SETTINGS["memory_extraction_max_tokens"].default
    assert default(EndpointExtractor, "temperature") == SETTINGS["memory_extraction_temperature"].default
    assert WebLimits().most_bytes == SETTINGS["knowledge_max_mb"].default << 20
    threshold = SETTINGS["knowledge_relevance_threshold"].default
    assert default(Knowledge.retrieve, "min_relevance") == threshold
    assert default(Knowledge.retrieve, "recency_weight") == SETTINGS["knowledge_recency_weight"].default
    weight = {field.name: field.default for field in dataclasses.fields(VectorSettings)}["weight"]
    assert weight == SETTINGS["memory_vectors_weight"].default


def test_the_last_200_forgotten_memories_can_be_restored_in_this_process(tmp_path: Path) -> None:
    lines = [{"type": "memory", "question": f"question {n}", "answer": "a"} for n in range(201)]
    with Memory(tmp_path / "memory.db", clock=lambda: NOW) as memory:
        memory.import_memories(lines)
        ids = sorted(one.id for one in memory.list_memories(limit=201))
        assert len(memory.delete_memories(ids)) == 201

        assert memory.restore_forgotten(ids[0]) is None
        assert memory.restore_forgotten(ids[1]) is not None
