"""Renderings of a chat template that continue where the one before them ended, by a journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from jinja2 import Template, pass_context
from jinja2.runtime import Context

from shepherd.inference.template_journal import Journal, LoopRun, Rendering
from shepherd.inference.template_patterns import MESSAGES, OWN_LOOP, RENDERING
from shepherd.inference.template_rewriting import LOOP_ATTRIBUTES, rewritten
from shepherd.inference.template_sandbox import Charged, SandboxedEnvironment, charge_iteration
from shepherd.inference.template_views import (
    ConversationView,
    UntrackedError,
    WatchedNamespace,
    compare,
    compare_attribute,
    n_set,
    read_attribute,
    values_of,
)

__all__ = ["ResumableTemplate"]


class ResumableTemplate:
    """A template whose renderings continue from a journal."""

    def __init__(self, template: Template, environment: SandboxedEnvironment) -> None:
        self._template, self._environment = template, environment

    @classmethod
    def of(cls, source: str, plain: SandboxedEnvironment) -> ResumableTemplate | None:
        """Return the template, or None if nothing in it can be continued."""
        if OWN_LOOP in source or RENDERING in source:
            return None
        tree = rewritten(plain.parsed(source))
        if tree is None:
            return None
        environment = _environment_like(plain)
        return cls(environment.from_string(environment.measured(tree)), environment)

    def render(
        self, journal: Journal, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation, and keep its record in the journal."""

        def undefined(hint: str) -> Any:
            return self._environment.undefined(hint)

        rendering = Rendering(journal, messages, undefined)
        context = self._template.new_context(
            {**variables, MESSAGES: rendering.messages, RENDERING: rendering}
        )
        return rendering.write(self._template.root_render_func(context))


# ---- the environment


class _ResumableEnvironment(SandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute, or a member of that name."""
        kind = type(obj)
        if kind is LoopRun and attribute in LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        if kind is WatchedNamespace and attribute[0] != "_":
            try:
                return read_attribute(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


def _environment_like(plain: SandboxedEnvironment) -> SandboxedEnvironment:
    environment = _ResumableEnvironment()
    environment.filters |= plain.filters
    environment.globals |= plain.globals
    environment.globals["namespace"] = WatchedNamespace
    environment.filters |= {
        "_enter": _enter,
        "_entered": _entered,
        "_up_to": _up_to,
        "_until": _until,
        "_until_set": _until_set,
        "_compare_attribute": _compare_attribute(environment),
        "_compare_count": _compare_count,
        "_compare_name": _compare_name,
        "_selected": _selected(environment),
    }
    return environment


def _enter(
    rendering: Rendering, items: Any, number: int, names: tuple[str, ...], lazy: int, *values: Any
) -> str:
    return rendering.enter(number, items, names, values, lazy)


def _entered(rendering: Rendering) -> LoopRun:
    return rendering.entered()


class _Lazy(Charged):
    """Items of a loop that are made one by one."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def charged(self, n_chars: int) -> Iterator[Any]:
        return charge_iteration(self._items, n_chars)


def _up_to(start: Any, holder: Any) -> Any:
    """Return `range(start, holder | length)`."""
    if holder.__class__ is not ConversationView or type(start) is not int:
        return range(start, len(holder))
    return _Lazy(_counted(start, holder))


def _counted(start: int, view: ConversationView) -> Iterator[int]:
    i = start
    while view.compare_length("gt", i):
        yield i
        i += 1


def _until(items: Any, namespace: Any, attribute: str, ends: Any) -> Any:
    """Return the items up to where an attribute is true, false or a constant: `ends` says which."""
    if namespace.__class__ is not WatchedNamespace:
        return items
    if items.__class__ is _Lazy:
        items = items._items
    return _Lazy(_before(iter(items), namespace, attribute, ends))


def _before(items: Iterator[Any], namespace: WatchedNamespace, attribute: str, ends: Any) -> Iterator[Any]:
    kind, constant = ends
    while True:
        try:
            value = read_attribute(namespace, attribute)
        except AttributeError:
            value = None if kind != "is" else items  # undefined is false, and no constant
        has_ended = value.__class__ is constant.__class__ and value == constant if kind == "is" else False
        if has_ended or (kind != "is" and bool(value) is constant):
            return
        try:
            item = next(items)
        except StopIteration:
            return
        yield item


def _until_set(rendering: Rendering, count: Any, namespace: Any) -> Any:
    """Return the numbers from 0 on, up to where something is set in a namespace."""
    if namespace.__class__ is not WatchedNamespace:
        raise UntrackedError("namespace")
    return _Lazy(_before_set(range(count), namespace))


def _before_set(items: range, namespace: WatchedNamespace) -> Iterator[int]:
    n = n_set(namespace)
    for item in items:
        if n_set(namespace) != n:
            return
        yield item


def _compare_attribute(environment: SandboxedEnvironment) -> Any:
    def compared(other: Any, operator: str, namespace: Any, attribute: str) -> Any:
        if namespace.__class__ is WatchedNamespace and attribute in values_of(namespace):
            return compare_attribute(namespace, attribute, operator, other)
        return compare(operator, environment.getattr(namespace, attribute), other)

    return compared


def _compare_count(other: Any, operator: str, holder: Any, less: int) -> Any:
    """Compare `holder | length - less` with a value."""
    if holder.__class__ is ConversationView and type(other) is int:
        return holder.compare_length(operator, other + less)
    return compare(operator, len(holder) - less, other)


def _compare_name(other: Any, operator: str, rendering: Rendering, name: str, value: Any) -> Any:
    return rendering.compare_name(name, value, operator, other)


def _selected(environment: SandboxedEnvironment) -> Any:
    @pass_context
    def selected(
        context: Context, rendering: Rendering, messages: Any, number: int, name: str, *arguments: Any
    ) -> Any:
        def select(items: Any) -> list[Any]:
            found = environment.filters[name](context, items, *arguments)
            return cast("list[Any]", environment.filters["list"](found))

        return rendering.selected(number, messages, select)

    return selected
