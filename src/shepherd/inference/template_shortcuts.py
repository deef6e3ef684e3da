"""Loops of a chat template that count as far as they go, and end when they can have no more effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from shepherd.inference.template_patterns import (
    COUNTS,
    LOOP,
    RENDERING,
    asks_loop_only_for,
    call,
    count_of,
    counts_messages,
    is_call_of,
    is_named,
    is_view,
)

__all__ = ["Shortcuts"]

_COUNTING_ATTRIBUTES = frozenset(("index", "index0", "first"))
_SELECTING = ("selectattr", "rejectattr")


class Shortcuts(NodeTransformer):
    """Makes loops count as far as they go, and end when they can have no more effect.

    `recorded` are the ids of loops that need not end, because they begin where they ended.
    """

    def __init__(self, views: frozenset[str], recorded: set[int]) -> None:
        self._views, self._recorded = views, recorded
        self._n_selections = 0

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (the node's name)
        """Shorten a loop."""
        is_plain = node.test is None and not node.else_ and not node.recursive
        is_pure = is_view(node.iter, self._views) or is_call_of(node.iter, "range")
        end = _end_of(node, self._views) if is_plain and is_pure and id(node) not in self._recorded else None
        first = self._first_found(node) if is_plain else None
        self.generic_visit(node)
        about: list[nodes.Expr]
        if first is not None:
            count, namespace = first
            about = [count, nodes.Name(namespace, "load")]
            node.iter = call("_until_set", nodes.Name(RENDERING, "load"), about, node.lineno)
            return node
        counted = counts_messages(node.iter)
        if counted is not None:
            node.iter = call("_up_to", counted[0], [counted[1]], node.lineno)
        if end is not None:
            name, attribute, ends = end
            about = [nodes.Name(name, "load"), nodes.Const(attribute), nodes.Const(ends)]
            node.iter = call("_until", cast("nodes.Expr", node.iter), about, node.lineno)
        return node

    def _first_found(self, node: nodes.For) -> tuple[nodes.Expr, str] | None:
        """Return what a loop counts, and the namespace in which it sets the first message that it looks for.

        It goes backwards and sets the index of each message that is one; the last one is the first.
        """
        count = _counts_backwards(node.iter)
        if count is None or not isinstance(node.target, nodes.Name) or len(node.body) != 1:
            return None
        counted = cast("nodes.Name", cast("nodes.Filter", count).node)
        if counted.name not in self._views:
            return None
        found, index = node.body[0], node.target.name
        if not isinstance(found, nodes.If) or found.elif_ or found.else_ or len(found.body) != 1:
            return None
        only = found.body[0]
        if not isinstance(only, nodes.Assign) or not isinstance(only.target, nodes.NSRef):
            return None
        if not is_named(only.node, index) or not _cannot_fail(found.test, _Told(index, counted.name)):
            return None
        return count, only.target.name

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802 (the node's name)
        """Select from new messages alone."""
        self.generic_visit(node)
        inner = node.node
        if node.name != "list" or not isinstance(inner, nodes.Filter) or inner.name not in _SELECTING:
            return node
        if not isinstance(inner.node, nodes.Name) or inner.node.name not in self._views:
            return node
        if inner.kwargs or inner.dyn_args or not all(isinstance(one, nodes.Const) for one in inner.args):
            return node
        self._n_selections += 1
        about = [inner.node, nodes.Const(self._n_selections), nodes.Const(inner.name), *inner.args]
        return call("_selected", nodes.Name(RENDERING, "load"), about, node.lineno)


def _counts_backwards(node: nodes.Node) -> nodes.Expr | None:
    """Return `Y | length` of `range(Y | length - 1, -1, -1)`."""
    if not isinstance(node, nodes.Call) or not is_call_of(node, "range") or len(node.args) != 3:
        return None
    minus_one = nodes.Neg(nodes.Const(1))
    count = count_of(node.args[0])
    if count is None or count[1] != 1 or any(one != minus_one for one in node.args[1:]):
        return None
    return cast("nodes.Sub", node.args[0]).left


def _end_of(loop: nodes.For, views: frozenset[str]) -> tuple[str, str, tuple[str, Any]] | None:
    """Return the attribute by which a loop's body can have no more effect, and which value that is."""
    if not loop.body:
        return None
    *assigned, last = loop.body
    if not isinstance(last, nodes.If) or not all(_is_harmless(node, views) for node in assigned):
        return None
    if not all(asks_loop_only_for(node, _COUNTING_ATTRIBUTES) for node in loop.body):
        return None
    found = _switch(last) or (None if is_call_of(loop.iter, "range") else _latch(last, loop.target))
    if found is None:
        return None
    own = {node.name for node in loop.find_all(nodes.Name) if node.ctx == "store"}
    return None if found[0] in own | {LOOP} else found


def _is_harmless(node: nodes.Node, views: frozenset[str]) -> bool:
    """Return whether this sets a variable of the iteration to a variable or a number, which can't fail."""
    if not isinstance(node, nodes.Assign) or not isinstance(node.target, nodes.Name):
        return False
    return isinstance(node.node, nodes.Name) or _is_number(node.node, views)


def _is_number(node: nodes.Node, views: frozenset[str]) -> bool:
    if isinstance(node, (nodes.Add, nodes.Sub)):
        return _is_number(node.left, views) and _is_number(node.right, views)
    if isinstance(node, nodes.Const):
        return type(node.value) is int
    if isinstance(node, nodes.Filter):
        is_count = node.name in COUNTS and not node.args and not node.kwargs
        return is_count and isinstance(node.node, nodes.Name) and node.node.name in views
    return isinstance(node, nodes.Getattr) and is_named(node.node, LOOP) and node.attr in ("index", "index0")


def _switch(node: nodes.If) -> tuple[str, str, tuple[str, Any]] | None:
    """Return the switch that a condition begins with."""
    test = node.test
    if not node.body:  # `{% if ns.found %}{% elif … %}`
        attribute = _attribute(test)
        return None if attribute is None else (*attribute, ("bool", True))
    if node.elif_ or node.else_:
        return None
    while isinstance(test, nodes.And):
        test = test.left
    is_negated = isinstance(test, nodes.Not)
    attribute = _attribute(test.node if isinstance(test, nodes.Not) else test)
    return None if attribute is None else (*attribute, ("bool", is_negated))


def _latch(node: nodes.If, target: nodes.Node) -> tuple[str, str, tuple[str, Any]] | None:
    """Return the attribute that a condition sets to a constant, and sets nothing else."""
    if node.elif_ or node.else_ or len(node.body) != 1 or not isinstance(target, nodes.Name):
        return None
    only = node.body[0]
    if not isinstance(only, nodes.Assign) or not isinstance(only.target, nodes.NSRef):
        return None
    if not isinstance(only.node, nodes.Const) or not _cannot_fail(node.test, _Told(target.name)):
        return None
    return only.target.name, only.target.attr, ("is", only.node.value)


@dataclass(frozen=True, slots=True)
class _Told:
    """How a loop's body refers to its message: by name, or by `view[name]` if there is a view."""

    name: str
    view: str = ""

    def is_message(self, node: nodes.Node) -> bool:
        """Return whether this expression is the message, a dict."""
        if not self.view:
            return is_named(node, self.name)
        if not isinstance(node, nodes.Getitem):
            return False
        return is_named(node.arg, self.name) and is_named(node.node, self.view)


def _cannot_fail(node: nodes.Node, told: _Told) -> bool:
    """Return whether a condition about a message has no effects and raises no errors."""
    if isinstance(node, (nodes.And, nodes.Or)):
        return _cannot_fail(node.left, told) and _cannot_fail(node.right, told)
    if isinstance(node, nodes.Not):
        return _cannot_fail(node.node, told)
    if isinstance(node, nodes.Compare) and len(node.ops) == 1:
        operand = node.ops[0]
        if operand.op in ("in", "notin"):
            return isinstance(node.expr, nodes.Const) and told.is_message(operand.expr)
        is_comparable = operand.op in ("eq", "ne") and isinstance(operand.expr, nodes.Const)
        return is_comparable and _cannot_fail(node.expr, told)
    if isinstance(node, nodes.Call):
        if not isinstance(node.node, nodes.Getattr) or node.node.attr != "get" or node.kwargs:
            return False
        is_constant = len(node.args) == 1 and isinstance(node.args[0], nodes.Const)
        return is_constant and told.is_message(node.node.node)
    if isinstance(node, nodes.Getattr):
        return told.is_message(node.node)
    return (
        isinstance(node, nodes.Getitem) and told.is_message(node.node) and isinstance(node.arg, nodes.Const)
    )


def _attribute(node: nodes.Node) -> tuple[str, str] | None:
    """Return the names of `ns.attribute`."""
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return node.node.name, node.attr
    return None
