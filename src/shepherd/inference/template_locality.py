"""Proof that a chat template writes each message by itself.

Such a template writes `before`, then a text for each message, then `after`. These depend on that message, on
the first one and on what is the same in every rendering of a conversation (tools, names, constants), and on
nothing else. So a conversation's text is that of a shorter one, with the texts of the other messages between:
new messages are rendered without the old ones.

The proof is by the syntax tree, and refuses what it does not know:

- `messages` is what one loop goes over, which is not inside of another loop, a macro or a block that collects
  text; else only `messages[0]` is read;
- the loop has no condition and no `break`, and asks only whether an iteration is the first one;
- nothing is carried from one iteration to the next: the loop and macros set no attributes of namespaces, and
  there are no cyclers, joiners, random choices, or variables whose values can be iterated only once. Other
  variables that are set in a loop end with the iteration, and the sandbox lets nothing be changed in place;
- the clock is not read: two renderings of one conversation could differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

__all__ = ["UNKNOWN_NODES", "writes_each_message_by_itself"]

_MESSAGES, _LOOP = "messages", "loop"
_STATEFUL = frozenset(("cycler", "joiner", "strftime_now", "caller", "self", "varargs", "kwargs"))
# Filters whose values can be iterated only once.
_ONCE = frozenset(("batch", "items", "map", "reject", "rejectattr", "reverse", "select", "selectattr"))
_ONCE |= {"slice", "unique"}
UNKNOWN_NODES = (
    *(nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block, nodes.CallBlock),
    *(nodes.ContextReference, nodes.DerivedContextReference, nodes.EnvironmentAttribute),
    *(nodes.ExtensionAttribute, nodes.ImportedName, nodes.InternalName, nodes.OverlayScope),
    *(nodes.ScopedEvalContextModifier, nodes.EvalContextModifier),
)


def writes_each_message_by_itself(template: nodes.Template) -> bool:
    """Return whether that is proven for a template, as Jinja parses it."""
    loops = list(_loops_over_messages(template.body))
    if len(loops) != 1 or any(_is_unknown(node) for node in template.find_all(nodes.Node)):
        return False
    loop = loops[0]
    if loop.test is not None or loop.else_ or loop.recursive or not isinstance(loop.target, nodes.Name):
        return False
    if loop.target.name in (_MESSAGES, _LOOP) or _assigned(template) & {_MESSAGES, _LOOP}:
        return False
    n_iterated = 1
    n_first = sum(_is_first_message(node) for node in template.find_all(nodes.Getitem))
    n_named = sum(node.name == _MESSAGES for node in template.find_all(nodes.Name))
    if n_named != n_iterated + n_first:
        return False
    carried = [loop, *template.find_all(nodes.Macro)]
    if any(next(node.find_all(nodes.NSRef), None) is not None for node in carried):
        return False
    inside = {id(node) for node in loop.find_all(nodes.Filter)}
    if any(node.name in _ONCE and id(node) not in inside for node in template.find_all(nodes.Filter)):
        return False
    return all(_asks_only_for_the_first(node) for node in loop.body)


def _loops_over_messages(body: list[nodes.Node]) -> Iterator[nodes.For]:
    """Yield the loops over all messages that are at the top, or in conditions there."""
    for node in body:
        if isinstance(node, nodes.For) and _is_messages(node.iter):
            yield node
        elif isinstance(node, nodes.If):
            for part in (node.body, *(other.body for other in node.elif_), node.else_):
                yield from _loops_over_messages(part)


def _is_messages(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == _MESSAGES


def _is_first_message(node: nodes.Getitem) -> bool:
    return _is_messages(node.node) and isinstance(node.arg, nodes.Const) and node.arg.value == 0


def _is_unknown(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Name):
        return node.name in _STATEFUL
    if isinstance(node, nodes.Filter):
        return node.name == "random"
    return isinstance(node, (*UNKNOWN_NODES, nodes.Break))


def _assigned(template: nodes.Template) -> set[str]:
    """Return all names that the template gives a value, but for those that loops go through."""
    names = {node.name for node in template.find_all(nodes.Name) if node.ctx in ("store", "param")}
    return names | {node.name for node in template.find_all(nodes.Macro)}


def _asks_only_for_the_first(node: nodes.Node) -> bool:
    """Return whether a part of the loop's body asks the loop only whether this is the first message."""
    if isinstance(node, nodes.Name):
        return node.name != _LOOP
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name) and node.node.name == _LOOP:
        return node.attr == "first"
    if isinstance(node, nodes.For):  # its body has a loop of its own
        parts = [node.iter, *([] if node.test is None else [node.test]), *node.else_]
        return all(_asks_only_for_the_first(part) for part in parts)
    return all(_asks_only_for_the_first(child) for child in node.iter_child_nodes())
