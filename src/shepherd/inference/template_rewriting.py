"""Chat templates rewritten so that a rendering continues where the one before it ended.

Loops over the messages begin behind the iterations that would be the same (`template_journal`). Three other
things are rewritten, which would make each iteration depend on the newest message, or take time for all:

- comparisons with a number that is read (`loop.index0 > ns.last_user_index`) note their outcome alone;
- `range(…, messages | length)` counts only as far as the loop goes;
- a loop that can have no more effect ends: its body is one condition that begins with a switch
  (`{% if ns.searching and … %}`), or sets an attribute to a constant, which it has by now.

Everything else stays as it is. A template is not rewritten if no loop over its messages can be recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from shepherd.inference.template_locality import UNKNOWN_NODES
from shepherd.inference.template_patterns import (
    LOOP,
    MESSAGES,
    OWN_LOOP,
    RENDERING,
    asks_loop_only_for,
    call,
    count_of,
    counts_messages,
    is_call_of,
    is_view,
    outside_of_loops,
)
from shepherd.inference.template_shortcuts import Shortcuts

__all__ = ["LOOP_ATTRIBUTES", "rewritten"]

LOOP_ATTRIBUTES = frozenset(("index", "index0", "first", "last", "length", "previtem", "nextitem"))
_MIRRORED = {"gt": "lt", "gteq": "lteq", "lt": "gt", "lteq": "gteq", "eq": "eq", "ne": "ne"}


def rewritten(tree: nodes.Template) -> nodes.Template | None:
    """Rewrite a template in place; None if it has no loop that can be recorded."""
    if any(isinstance(node, UNKNOWN_NODES) for node in tree.find_all(nodes.Node)):
        return None
    if any(node.name == "random" for node in tree.find_all(nodes.Filter)):
        return None
    if any(node.name == LOOP and node.ctx != "load" for node in tree.find_all(nodes.Name)):
        return None
    views = _views(tree)
    macros = list(tree.find_all(nodes.Macro))
    cells = _Cells(_numbers(tree), _namespaces(tree))
    loops = [place for place in _places(tree.body) if _is_recordable(place[0][place[1]], views)]
    Shortcuts(views, {id(body[i]) for body, i in loops}).visit(tree)
    # From the last one of a body to its first: each is replaced by two nodes.
    for number, (body, i) in reversed(list(enumerate(loops))):
        loop = cast("nodes.For", body[i])
        body[i : i + 1] = _recorded(loop, number, macros, cells)
    return tree if loops else None


def _views(tree: nodes.Template) -> frozenset[str]:
    """Return the names that may stand for the messages or a slice of them."""
    views = {MESSAGES}
    assigned = [node for node in tree.find_all(nodes.Assign) if isinstance(node.target, nodes.Name)]
    for _ in assigned:
        new = {cast("nodes.Name", node.target).name for node in assigned if is_view(node.node, views)}
        if new <= views:
            break
        views |= new
    return frozenset(views)


def _numbers(tree: nodes.Template) -> frozenset[str]:
    """Return the variables that are set at the top: they may be numbers that a loop only compares."""
    found: set[str] = set()
    waiting = list(tree.body)
    for node in waiting:
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
            found.add(node.target.name)
        elif isinstance(node, nodes.If):
            waiting += [*node.body, *node.elif_, *node.else_]
    return frozenset(found)


def _namespaces(tree: nodes.Template) -> frozenset[str]:
    """Return the variables that are set to a new namespace."""
    return frozenset(
        node.target.name
        for node in tree.find_all(nodes.Assign)
        if isinstance(node.target, nodes.Name) and is_call_of(node.node, "namespace")
    )


def _places(body: list[nodes.Node]) -> Iterator[tuple[list[nodes.Node], int]]:
    """Yield where the loops are that stand at the top, or in conditions there: a body and an index."""
    for i, node in enumerate(body):
        if isinstance(node, nodes.For):
            yield body, i
        elif isinstance(node, nodes.If):
            for part in (node.body, *(other.body for other in node.elif_), node.else_):
                yield from _places(part)


def _is_recordable(node: nodes.Node, views: frozenset[str]) -> bool:
    if not isinstance(node, nodes.For) or not isinstance(node.target, nodes.Name):
        return False
    if node.test is not None or node.else_ or node.recursive or node.target.name == LOOP:
        return False
    if next(node.find_all(nodes.Macro), None) is not None:
        return False
    if not counts_messages(node.iter) and not _is_forward(node.iter, views):
        return False
    return all(asks_loop_only_for(child, LOOP_ATTRIBUTES) for child in node.body)


def _is_forward(node: nodes.Node, views: Iterable[str]) -> bool:
    """Return whether this is a view, not one that is sliced backwards, which is a list."""
    if isinstance(node, nodes.Getitem):
        step = node.arg.step if isinstance(node.arg, nodes.Slice) else node.arg
        return step is None and _is_forward(node.node, views)
    return is_view(node, views)


def _recorded(loop: nodes.For, number: int, macros: Sequence[nodes.Macro], cells: _Cells) -> list[nodes.Node]:
    """Return what a loop is replaced by: the text of the iterations that are the same, then the others."""
    line = loop.lineno
    items = loop.iter
    if isinstance(items, nodes.Filter):  # the end of the range at the loop's beginning is enough
        count = nodes.Filter(items.args[0], "length", [], [], None, None, lineno=line)
        items = nodes.Call(nodes.Name("range", "load"), [items.node, count], [], None, None, lineno=line)
    target = cast("nodes.Name", loop.target).name
    for child in loop.body:
        _rename(child)
    cells = cells.without(target)
    lazy = _only_compared(loop, macros, cells)
    _Comparisons(replace(cells, numbers=lazy)).visit(loop)
    # A macro doesn't see the loop's own variables, but those of the same names outside.
    names = (_read_names(loop.body) - {target} | _read_names(macros)) - {LOOP, OWN_LOOP, RENDERING} - lazy
    ordered = (*sorted(lazy), *sorted(names))
    values = [nodes.Name(name, "load", lineno=line) for name in ordered]
    about = [nodes.Const(number), nodes.Const(ordered), nodes.Const(len(lazy))]
    enter = call("_enter", nodes.Name(RENDERING, "load"), [cast("nodes.Expr", items), *about, *values], line)
    loop.iter = call("_entered", nodes.Name(RENDERING, "load"), [], line)
    loop.target = nodes.Tuple(
        [nodes.Name(target, "store", lineno=line), nodes.Name(OWN_LOOP, "store", lineno=line)], "store"
    )
    return [nodes.Output([enter], lineno=line), loop]


def _rename(node: nodes.Node) -> None:
    """Give `loop` its own name in a body."""
    if isinstance(node, nodes.Name) and node.name == LOOP:
        node.name = OWN_LOOP
        return
    for child in outside_of_loops(node):
        _rename(child)


def _read_names(parts: Iterable[nodes.Node]) -> set[str]:
    names: set[str] = set()
    for part in parts:
        for node in (part, *part.find_all((nodes.Name, nodes.NSRef))):
            if isinstance(node, nodes.NSRef) or (isinstance(node, nodes.Name) and node.ctx == "load"):
                names.add(node.name)
    return names


def _only_compared(loop: nodes.For, macros: Sequence[nodes.Macro], cells: _Cells) -> frozenset[str]:
    """Return the variables that the body only compares, and nothing else reads or sets."""
    n_other: dict[str, int] = {}
    for node in loop.find_all(nodes.Compare):
        found = cells.compared_in(node)
        if found is not None and isinstance(found[0], nodes.Name):
            n_other[found[0].name] = n_other.get(found[0].name, 0) - 1
    for part in (loop, *macros):
        for name in part.find_all(nodes.Name):
            if name.name in n_other:
                n_other[name.name] += 1
    return frozenset(name for name, n in n_other.items() if n == 0)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Names of what can be another number next time: variables, and namespaces with attributes."""

    numbers: frozenset[str]
    namespaces: frozenset[str]

    def without(self, name: str) -> _Cells:
        """Return all but one."""
        return _Cells(self.numbers - {name}, self.namespaces - {name})

    def compared_in(self, node: nodes.Compare) -> tuple[nodes.Expr, nodes.Expr, str] | None:
        """Return such a number, what it is compared with, and the operator between them."""
        if len(node.ops) != 1 or node.ops[0].op not in _MIRRORED:
            return None
        left, right, operator = node.expr, node.ops[0].expr, node.ops[0].op
        if self._has(right):
            return right, left, _MIRRORED[operator]
        return (left, right, operator) if self._has(left) else None

    def _has(self, node: nodes.Expr) -> bool:
        if isinstance(node, nodes.Getattr):
            return isinstance(node.node, nodes.Name) and node.node.name in self.namespaces
        if isinstance(node, nodes.Name):
            return node.name in self.numbers
        return count_of(node) is not None


class _Comparisons(NodeTransformer):
    """Makes comparisons tell their outcome alone."""

    def __init__(self, cells: _Cells) -> None:
        self._cells = cells

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802 (the node's name)
        found = self._cells.compared_in(node)
        is_left = found is not None and found[0] is node.expr
        self.generic_visit(node)
        if found is None:
            return node
        cell, _, operator = found
        other = node.ops[0].expr if is_left else node.expr
        told, line = nodes.Const(operator), node.lineno
        if isinstance(cell, nodes.Getattr):
            return call("_compare_attribute", other, [told, cell.node, nodes.Const(cell.attr)], line)
        if isinstance(cell, nodes.Name):
            about = [nodes.Name(RENDERING, "load"), nodes.Const(cell.name), cell]
            return call("_compare_name", other, [told, *about], line)
        holder, less = cast("tuple[nodes.Expr, int]", count_of(cell))
        return call("_compare_count", other, [told, holder, nodes.Const(less)], line)
