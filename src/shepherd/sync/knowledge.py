"""Knowledge: nodes with their passages, edges and dimensions.

A node is known by its origin, an edge by its nodes and its type, a dimension by its name: two machines that
import the same document have one node. One that is added again after it was removed is another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from shepherd.knowledge import chunks, dimensions, edges, nodes
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import Node
from shepherd.sync.merging import Merge
from shepherd.sync.records import Conflict, Operation, Register
from shepherd.sync.registers import Replica

__all__ = ["apply", "collect_deleted", "collect_dimensions", "collect_edge", "collect_node"]

_NODE = (
    "title",
    "kind",
    "description",
    "notes",
    "link",
    "event_date",
    "content_hash",
    "created_at",
    "updated_at",
    "source_text",
)
_CHANGEABLE = ("title", "kind", "description", "notes", "link", "event_date", "source_text")
_TEXTS = ("title", "description", "notes", "source_text")
_EDGE = ("type", "explanation", "confidence", "source", "created_at")
_DIMENSION = ("name", "description", "icon", "is_priority")


# ---- own changes


def collect_node(replica: Replica, local: int, at_ms: int) -> int | None:
    """Write a node that was added or changed; return about how many bytes, None if it is gone."""
    rows = replica.connection.execute(
        f"SELECT {', '.join(_NODE)}, metadata, origin FROM nodes WHERE user_id = ? AND id = ?",
        (replica.user_id, local),
    )
    if not rows:
        return None
    body = dict(zip((*_NODE, "metadata", "origin"), rows[0], strict=True))
    tags = dimensions.of_nodes(replica.connection, replica.user_id, [local]).get(local, ())
    body["dimensions"] = list(tags)
    known = replica.of_row("n", local)
    register = known[0] if known else _free(replica, "n", str(body["origin"]))
    register.local, register.note = local, {}
    replica.put(register, body, at_ms)
    return 256 + sum(len(body[name]) for name in _TEXTS)


def collect_edge(replica: Replica, local: int, at_ms: int) -> int | None:
    """Write an edge that was added or changed; None if it is gone."""
    rows = replica.connection.execute(
        f"SELECT from_node_id, to_node_id, {', '.join(_EDGE)} FROM edges WHERE user_id = ? AND id = ?",
        (replica.user_id, local),
    )
    if not rows:
        return None
    first, second, *fields = rows[0]
    ends = [register.gid for one in (first, second) for register in replica.of_row("n", one)]
    known = replica.of_row("e", local)
    if known and known[0].topic == str(fields[0]):
        register = known[0]
    else:
        # Another type is another edge.
        for register in known:
            replica.put(register, None, at_ms)
        register = _free(replica, "e", *ends, str(fields[0]))
    register.local, register.topic, register.note = local, str(fields[0]), {}
    body = {"f": ends[0], "t": ends[1], **dict(zip(_EDGE, fields, strict=True))}
    replica.put(register, body, at_ms)
    return 0


def collect_deleted(replica: Replica, kind: str, local: int, at_ms: int) -> None:
    """Write that a node or an edge was removed."""
    for register in replica.of_row(kind, local):
        register.topic = ""
        replica.put(register, None, at_ms)


def collect_dimensions(replica: Replica, at_ms: int) -> None:
    """Write the dimensions that differ from what is known of them."""
    found = {}
    for one in dimensions.all_of(replica.connection, replica.user_id):
        found[replica.folder.digest("d", one.name)] = {name: getattr(one, name) for name in _DIMENSION}
    known = {register.gid: register for register in replica.all_of("d")}
    for gid, body in found.items():
        topic = _digest(replica, body)
        register = known.get(gid) or Register("d", gid)
        if register.is_gone or register.topic != topic:
            was_gone, register.topic = register.is_gone, topic
            replica.put(register, body, at_ms)
            if was_gone:
                _unhide(replica, gid, body["name"])
    for gid in known.keys() - found.keys():
        if not known[gid].is_gone:
            known[gid].topic = ""
            replica.put(known[gid], None, at_ms)


def _free(replica: Replica, kind: str, *name: str) -> Register:
    """Return the register of a name: of those that were removed, each has another one."""
    n = 0
    while True:
        gid = replica.folder.digest(kind, *name, str(n))
        register = replica.find(kind, gid)
        if register is None or not register.is_gone:
            return register or Register(kind, gid)
        n += 1


def _digest(replica: Replica, body: dict[str, Any]) -> str:
    return replica.folder.digest("value", json.dumps(body, sort_keys=True))


# ---- changes of others


def apply(merge: Merge, operations: Iterable[Operation]) -> None:
    """Apply operations about dimensions, nodes and edges: dimensions first, then nodes."""
    by_kind: dict[str, list[Operation]] = {"d": [], "n": [], "e": []}
    for operation in operations:
        by_kind[operation.kind].append(operation)
    if not any(by_kind.values()):
        return
    shelf = chunks.shelf_of(merge.replica.connection, merge.store, merge.replica.user_id, None)
    for operation in by_kind["d"]:
        _apply_dimension(merge, shelf, operation)
    for operation in by_kind["n"]:
        if operation.body is None:
            _remove_node(merge, shelf, operation)
        else:
            _apply_node(merge, shelf, operation, operation.body)
    for operation in by_kind["e"]:
        if operation.body is None:
            register = merge.removed(operation)
            if register is not None and register.local and not merge.replica.of_row("e", register.local):
                edges.delete(merge.replica.connection, merge.replica.user_id, register.local)
                merge.report.has_forgotten = True
        elif (accepted := merge.accepted(operation)) is not None:
            accepted[0].note = operation.body
            _place_edge(merge, shelf, accepted[0])
    if by_kind["n"]:
        for register in merge.replica.pending_edges():
            _place_edge(merge, shelf, register)


def _apply_dimension(merge: Merge, shelf: Shelf, operation: Operation) -> None:
    """Unlike other items, a dimension can come back: the later operation counts."""
    replica, connection = merge.replica, merge.replica.connection
    register = replica.find("d", operation.gid) or Register("d", operation.gid)
    if register.order >= operation.order:
        return
    replica.outdate(register)
    was_gone, register.is_gone = register.is_gone, operation.body is None
    register.stamp, register.machine = operation.order
    names = {
        replica.folder.digest("d", one.name): one.name for one in dimensions.all_of(connection, shelf.user_id)
    }
    if operation.body is None:
        register.topic = ""
        if operation.gid in names:
            _hide(replica, shelf, names[operation.gid])
            dimensions.delete(connection, shelf.user_id, names[operation.gid])
            merge.report.has_forgotten = True
        replica.save(register)
        return
    body = operation.body
    register.topic = _digest(replica, body)
    replica.save(register)
    name = body["name"]
    dimensions.ensure(connection, shelf.user_id, name)
    values = {key: body[key] for key in ("description", "icon", "is_priority")}
    dimensions.change(connection, shelf.user_id, name, **values)
    if was_gone:
        _unhide(replica, operation.gid, name)


def _hide(replica: Replica, shelf: Shelf, name: str) -> None:
    """Note on the nodes of a dimension that they had it, in case it comes back."""
    gid = replica.folder.digest("d", name)
    rows = replica.connection.execute(
        "SELECT node_id FROM node_dimensions WHERE user_id = ? AND dimension = ?", (shelf.user_id, name)
    )
    for (node_id,) in rows:
        for register in replica.of_row("n", node_id):
            register.note = {"hidden": sorted({*register.note.get("hidden", ()), gid})}
            replica.save(register)


def _unhide(replica: Replica, gid: str, name: str) -> None:
    """Give a dimension that is there again to the nodes that had it."""
    for register in replica.all_of("n"):
        hidden = register.note.get("hidden", ())
        # The log may still have the removal of a node.
        if gid not in hidden or nodes.get(replica.connection, replica.user_id, register.local) is None:
            continue
        left = [one for one in hidden if one != gid]
        register.note = {"hidden": left} if left else {}
        replica.save(register)
        tags = dimensions.of_nodes(replica.connection, replica.user_id, [register.local])
        dimensions.set_of_node(
            replica.connection, replica.user_id, register.local, [*tags.get(register.local, ()), name]
        )


def _apply_node(merge: Merge, shelf: Shelf, operation: Operation, body: dict[str, Any]) -> None:
    accepted = merge.accepted(operation)
    if accepted is None:
        return
    register, is_conflict = accepted
    connection = merge.replica.connection
    if not register.local:
        # One that was removed elsewhere and added again, and the removal is still to come.
        same = nodes.by_origin(connection, shelf.user_id, body["origin"])
        register.local = 0 if same is None else same[0]
    known = nodes.get(connection, shelf.user_id, register.local, with_text=True) if register.local else None
    if is_conflict and known is not None and any(getattr(known, name) != body[name] for name in _TEXTS):
        _keep_copy(merge, shelf, known)
    shown, hidden = _visible(merge.replica, body["dimensions"])
    metadata = nodes.read_metadata(body["metadata"])
    if known is None:
        fields = {name: body[name] for name in _NODE}
        new = NewNode(**fields, metadata=metadata, dimensions=tuple(shown), origin=body["origin"])
        register.local = nodes.add(connection, shelf, new, body["updated_at"])
    else:
        values = {name: body[name] for name in _CHANGEABLE} | {"metadata": metadata, "dimensions": shown}
        merge.report.has_forgotten |= any(getattr(known, name) != body[name] for name in _TEXTS)
        nodes.change(connection, shelf, known.id, values, body["updated_at"])
        connection.execute(
            "UPDATE nodes SET created_at = ?, updated_at = ?, content_hash = ?, metadata = ?"
            " WHERE user_id = ? AND id = ?",
            (
                *(body[name] for name in ("created_at", "updated_at", "content_hash", "metadata")),
                shelf.user_id,
                known.id,
            ),
        )
    register.note = {"hidden": hidden} if hidden else {}
    merge.replica.save(register)


def _visible(replica: Replica, tags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the dimensions of a node that are not removed, and the ids of those that are."""
    shown, hidden = [], []
    for name in tags:
        gid = replica.folder.digest("d", name)
        register = replica.find("d", gid)
        if register is not None and register.is_gone:
            hidden.append(gid)
        else:
            shown.append(name)
    return shown, sorted(hidden)


def _keep_copy(merge: Merge, shelf: Shelf, known: Node) -> None:
    """Keep this machine's version of a node as another node."""
    fields = {name: getattr(known, name) for name in _NODE}
    fields["title"] = f"{known.title} (version of {merge.replica.name})"
    copy = NewNode(**fields, metadata=known.metadata, dimensions=known.dimensions, origin=uuid4().hex)
    merge.later.append(lambda: nodes.add(merge.replica.connection, shelf, copy, known.updated_at))
    merge.report.conflicts.append(
        Conflict(f"node {known.id}", "both versions are kept, this machine's as a node of its own")
    )


def _remove_node(merge: Merge, shelf: Shelf, operation: Operation) -> None:
    register = merge.removed(operation)
    if register is None or not register.local or merge.replica.of_row("n", register.local):
        return
    connection, user_id, node_id = merge.replica.connection, shelf.user_id, register.local
    merge.report_forgotten(register, f"node {node_id}")
    titles = connection.execute("SELECT title FROM nodes WHERE user_id = ? AND id = ?", (user_id, node_id))
    had = connection.execute("SELECT id FROM chunks WHERE user_id = ? AND node_id = ?", (user_id, node_id))
    rows = connection.execute(
        "SELECT id FROM edges WHERE user_id = ?1 AND (from_node_id = ?2 OR to_node_id = ?2)",
        (user_id, node_id),
    )
    for (edge_id,) in rows:
        for edge in merge.replica.of_row("e", edge_id):
            # Its machine may not have heard of the removal: it says so, or both stay away.
            merge.replica.put(edge, None, 0, after=(operation.stamp,))
    nodes.delete(connection, shelf, node_id)
    merge.store.forget_chunks(
        connection, user_id, [chunk_id for (chunk_id,) in had], [title for (title,) in titles]
    )
    merge.report.has_forgotten = True


def _place_edge(merge: Merge, shelf: Shelf, register: Register) -> None:
    """Store an edge as its register says, or keep it there until both of its nodes are here."""
    replica, connection, body = merge.replica, merge.replica.connection, register.note
    ends = [replica.find("n", body[end]) for end in ("f", "t")]
    if any(end is not None and end.is_gone for end in ends):
        replica.put(Register("e", register.gid, stamp=register.stamp), None, 0)
        return
    register.topic = body["type"]
    places = [end.local for end in ends if end is not None and end.local]
    if len(places) == 2:
        if not register.local:
            register.local, _ = edges.add(
                connection,
                shelf.user_id,
                shelf.number,
                *places,
                type=body["type"],
                explanation=body["explanation"],
                confidence=body["confidence"],
                source=body["source"],
                now=body["created_at"],
            )
        connection.execute(
            "UPDATE edges SET explanation = ?, confidence = ?, source = ?, created_at = ?"
            " WHERE user_id = ? AND id = ?",
            (
                *(body[name] for name in ("explanation", "confidence", "source", "created_at")),
                shelf.user_id,
                register.local,
            ),
        )
        register.note = {}
    replica.save(register)
