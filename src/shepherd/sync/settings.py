"""Settings that belong to the person, not to one machine: how answers read, and what is recalled for them.

Models, paths, addresses, keys, tools and limits stay with their machine.
"""

from __future__ import annotations

import json
import time
from typing import Any

from shepherd.config import SETTINGS
from shepherd.config.file import ConfigFile
from shepherd.errors import ConfigError
from shepherd.sync.merging import Merge
from shepherd.sync.records import Conflict, Operation, Register
from shepherd.sync.registers import Replica

__all__ = ["PORTABLE", "apply", "check", "collect", "mark_written", "pending", "write"]

PORTABLE = (
    *("personality", "answer_style", "answer_verbosity", "answer_level", "answer_formatting"),
    *("answer_instructions", "archive_turns", "rag_relevance_threshold", "rag_max_results"),
    *("rag_recency_floor", "knowledge_injection", "knowledge_max_chunks", "knowledge_relevance_threshold"),
    *("knowledge_recency_weight", "knowledge_entity_weight"),
)


def collect(replica: Replica, file: ConfigFile) -> None:
    """Write the settings that were changed since they were last the same as the register's value."""
    document = file.read()
    for key in PORTABLE:
        register = replica.find("s", key)
        if register is None and key not in document:
            continue
        register = register or Register("s", key, note={"v": None}, topic="null")
        value = document.get(key)
        if json.dumps(value) != register.topic:
            register.topic, register.note = json.dumps(value), {"v": value}
            replica.put(register, {"v": value}, _changed_ms(file))


def apply(merge: Merge, operations: list[Operation]) -> None:
    """Take values of others; `write` puts them into the file."""
    for operation in operations:
        accepted = merge.accepted(operation)
        if accepted is None or operation.body is None or operation.gid not in PORTABLE:
            continue
        register, is_conflict = accepted
        if is_conflict and register.note != operation.body:
            merge.report.conflicts.append(
                Conflict(f"setting {operation.gid}", f"the newer value, from {merge.frame.name}, is used")
            )
        # topic stays the value in the file.
        register.note, register.topic = operation.body, register.topic or "null"
        merge.replica.save(register)


def pending(replica: Replica) -> dict[str, Any]:
    """Return the values that the file does not have yet; None for the default."""
    found = {}
    for register in replica.all_of("s"):
        if json.dumps(register.note.get("v")) != register.topic:
            found[register.gid] = register.note.get("v")
    return found


def write(file: ConfigFile, values: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Change the file; return the values that it has now.

    A setting that this version does not accept is skipped with a warning; the other machines keep it.
    """
    taken = {}
    with file.changing() as document:
        for key, value in values.items():
            try:
                if value is None:
                    document.pop(key, None)
                else:
                    document[key] = SETTINGS[key].check(value)
                taken[key] = value
            except ValueError:
                warnings.append(f"the value that another machine has for {key} is not valid here")
    return taken


def mark_written(replica: Replica, values: dict[str, Any]) -> None:
    """Record that the file has these values."""
    for key, value in values.items():
        register = replica.find("s", key)
        if register is not None:
            register.topic = json.dumps(value)
            replica.save(register)


def _changed_ms(file: ConfigFile) -> int:
    try:
        return int(file.path.stat().st_mtime * 1000)
    except OSError:
        return int(time.time() * 1000)


def check(file: ConfigFile) -> None:
    """Raise ConfigError for a file that cannot be read, before anything is written."""
    try:
        file.read()
    except ConfigError as error:
        error.hint = error.hint or "correct the file"
        raise
