"""Patterns of expressions in a chat template that are about its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jinja2 import nodes

__all__ = [
    "COUNTS",
    "LOOP",
    "MESSAGES",
    "OWN_LOOP",
    "RENDERING",
    "asks_loop_only_for",
    "call",
    "count_of",
    "counts_messages",
    "is_call_of",
    "is_named",
    "is_view",
    "outside_of_loops",
]

MESSAGES = "messages"
LOOP = "loop"
# What the rewritten template calls its loop and its rendering. No template may have these names.
OWN_LOOP = "recorded_loop_of_shepherd"
RENDERING = "rendering_of_shepherd"
COUNTS = ("length", "count")


def is_view(node: nodes.Node | None, views: Iterable[str]) -> bool:
    """Return whether this can be the messages, or a slice of them."""
    if isinstance(node, nodes.Name):
        return node.name in views
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Slice) and is_view(node.node, views)
    if isinstance(node, nodes.CondExpr):
        return is_view(node.expr1, views) or is_view(node.expr2, views)
    return isinstance(node, nodes.Or) and is_view(node.left, views)


def is_call_of(node: nodes.Node, name: str) -> bool:
    """Return whether this calls the function of that name."""
    return isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name == name


def asks_loop_only_for(node: nodes.Node, attributes: frozenset[str]) -> bool:
    """Return whether a part of a loop's body asks `loop` for these attributes alone."""
    if isinstance(node, nodes.Name):
        return node.name != LOOP
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name) and node.node.name == LOOP:
        return node.attr in attributes
    return all(asks_loop_only_for(child, attributes) for child in outside_of_loops(node))


def outside_of_loops(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield the children, without the bodies of loops, which have a `loop` of their own."""
    if not isinstance(node, nodes.For):
        yield from node.iter_child_nodes()
        return
    yield node.iter
    if node.test is not None:
        yield node.test
    yield from node.else_


def call(name: str, value: nodes.Expr, arguments: list[nodes.Expr], line: int) -> nodes.Filter:
    """Return the application of one of our own filters."""
    return nodes.Filter(value, name, arguments, [], None, None, lineno=line)


def count_of(node: nodes.Expr) -> tuple[nodes.Expr, int] | None:
    """Return X and n of `X | length - n`."""
    less = 0
    counted = node
    if isinstance(node, nodes.Sub) and isinstance(node.right, nodes.Const):
        if type(node.right.value) is not int:
            return None
        counted, less = node.left, node.right.value
    if isinstance(counted, nodes.Filter) and counted.name in COUNTS and not counted.args:
        return (counted.node, less) if isinstance(counted.node, nodes.Name) else None
    return None


def counts_messages(node: nodes.Node) -> tuple[nodes.Expr, nodes.Expr] | None:
    """Return X and Y of `range(X, Y | length)`."""
    if not isinstance(node, nodes.Call) or not is_call_of(node, "range") or len(node.args) not in (1, 2):
        return None
    count = count_of(node.args[-1])
    if count is None or count[1]:
        return None
    return (node.args[0] if len(node.args) == 2 else nodes.Const(0)), count[0]


def is_named(node: nodes.Node, name: str) -> bool:
    """Return whether this is the variable of that name."""
    return isinstance(node, nodes.Name) and node.name == name
