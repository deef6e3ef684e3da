"""Jinja's sandbox with limits of time and memory, for templates out of untrusted files.

Jinja's own sandbox protects Python's objects, not the machine: nested loops do not end, and thirty doublings
of a string fill the memory. Here each rendering has a budget of steps (iterations, calls), of characters that
it makes, and of processor time. All that can grow a value is measured, beforehand if it grows much: `+`, `~`,
`*`, `**`, `%`, literals, filters, methods and output. Normal templates need a small part of the budget.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import update_wrapper, wraps
from itertools import islice
from types import BuiltinMethodType
from typing import Any, cast

from jinja2 import Environment, nodes, pass_environment
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

__all__ = ["Charged", "LimitError", "SandboxedEnvironment", "charge_iteration", "charge_text", "limited"]

# Templates of real models have up to 50 KB.
_MAX_SOURCE_CHARS = 1 << 20
_MAX_STEPS = 500_000
_MAX_CHARS = 64 << 20
_MAX_CPU_S = 5.0
_MAX_ITEMS = 1 << 18
_MAX_WIDTH = 10_000  # of a padded field, an indent
_MAX_NUMBER = 1_000_000  # other arguments
_MAX_BITS = 20_000
# For each character, and for each message and tool, of the conversation.
_CHARS_PER_CHAR, _CHARS_PER_ITEM, _STEPS_PER_ITEM, _CPU_S_PER_CHAR = 64, 1 << 16, 2000, 1e-6
_STEPS_PER_CHECK = 100
_PIECES = 4096
_LONGEST_CHAIN = 16  # operands of `+` that are added before the result is measured

# A width of five digits or one that is an argument, and a field inside a field.
_WIDE_PERCENT = re.compile(r"%[^%a-zA-Z]*(?:\d{5}|\*)")
_WIDE_BRACES = re.compile(r"\{[^{}]*(?:\d{5}|\{)")
_CONTAINERS = frozenset((dict, list, tuple))


class LimitError(Exception):
    """The template exceeds a limit."""


class _Budget:
    """Steps, characters and time that one rendering has left.

    The allowance for the conversation's own size is added when the basic one is spent: most never need it.
    """

    __slots__ = ("_conversation", "chars", "deadline", "has_containers", "next_check", "steps")

    def __init__(self, conversation: Sequence[Mapping[str, Any]] = ()) -> None:
        self.steps, self.chars = _MAX_STEPS, _MAX_CHARS
        self.next_check = _MAX_STEPS - _STEPS_PER_CHECK
        self.deadline: float | None = None  # of the thread's processor time, from the first check on
        self._conversation = conversation
        # Whether the template has made a container: without one, nothing is referred to more often than it
        # is in the conversation.
        self.has_containers = False

    def step(self, n: int = 1) -> None:
        self.steps -= n
        if self.steps < self.next_check:
            self.check()

    def check(self) -> None:
        now = time.thread_time()
        if self.deadline is None:
            self.deadline = now + _MAX_CPU_S
        if (self.steps < 0 or now > self.deadline) and not self._extend():
            if self.steps < 0:
                raise LimitError("it does not end within the steps that it may take")
            raise LimitError(f"it takes more than {_MAX_CPU_S:g} s of processor time")
        self.next_check = self.steps - _STEPS_PER_CHECK

    def add(self, n_chars: int) -> None:
        self.chars -= n_chars
        if self.chars < 0 and not self._extend():
            raise LimitError("it makes more text than it may")

    def _extend(self) -> bool:
        """Add the allowance for the conversation, once; return whether all limits are kept by then."""
        n_items, conversation = len(self._conversation), self._conversation
        self._conversation = ()
        contents = (message.get("content") for message in conversation)
        n_chars = sum(len(content) for content in contents if isinstance(content, str))
        self.chars += _CHARS_PER_CHAR * n_chars + _CHARS_PER_ITEM * n_items
        self.steps += _STEPS_PER_ITEM * n_items + n_items * n_items
        if self.deadline is not None:
            self.deadline += _CPU_S_PER_CHAR * n_chars
        is_in_time = self.deadline is None or time.thread_time() <= self.deadline
        return self.steps >= 0 and self.chars >= 0 and is_in_time

    def weigh(self, value: object) -> None:
        """Charge all that a value holds as it would be written: a shared object each time."""
        if not self.has_containers:
            return
        n_chars = n_items = 0
        waiting = [value]
        for one in waiting:  # grows meanwhile
            kind = one.__class__
            if kind is str:
                n_chars += len(one)  # type: ignore[arg-type]
            elif kind in _CONTAINERS or isinstance(one, (list, tuple, set, frozenset, Mapping)):
                n_items += len(one)  # type: ignore[arg-type]
                if n_items > _STEPS_PER_CHECK:
                    self.step(n_items)
                    n_items = 0
                waiting += one  # type: ignore[arg-type]
                if isinstance(one, Mapping):
                    waiting += one.values()
        self.add(n_chars)

    def result(self, value: Any) -> Any:
        """Charge a new value, without what it refers to."""
        if value.__class__ is str:
            self.add(len(value))
        elif isinstance(value, (list, tuple, set, dict, bytes)):
            if len(value) > _MAX_ITEMS and not isinstance(value, bytes):
                raise LimitError(f"it makes a list of more than {_MAX_ITEMS} entries")
            self.add(len(value))
        return value


class _State(threading.local):
    budget = _Budget()


_state = _State()


class limited:  # noqa: N801  (used like a function)
    """Give this thread's compiling or rendering inside the block a fresh budget.

    `conversation`: the messages and tools, by whose size the budget grows.
    """

    __slots__ = ("_before", "_budget")

    def __init__(self, conversation: Sequence[Mapping[str, Any]] = ()) -> None:
        self._budget = _Budget(conversation)

    def __enter__(self) -> None:
        self._before, _state.budget = _state.budget, self._budget

    def __exit__(self, *_: object) -> None:
        _state.budget = self._before


# ---- operators, literals and output: the transformer turns them into these filters


def _sum(first: Any, *others: Any) -> Any:
    for other in others:
        first = first + other
    if first.__class__ in (int, float):
        return first
    if first.__class__ is not str:
        _state.budget.has_containers = True
    return _state.budget.result(first)


def _concat(*values: Any) -> str:
    weigh = _state.budget.weigh
    for value in values:
        if value.__class__ is not str:
            weigh(value)
    text = "".join(map(str, values))
    _state.budget.add(len(text))
    return text


def _remainder(left: Any, right: Any) -> Any:
    if left.__class__ is int:
        return left % right
    if isinstance(left, (str, bytes)):
        _formatted(left, right)
    return _state.budget.result(left % right)


def _literal(value: Any) -> Any:
    _state.budget.has_containers = True
    _state.budget.weigh(value)
    return value


def _count(n_chars: int) -> int:
    """Charge one call of a body that has so many characters of its own."""
    budget = _state.budget
    budget.step()
    budget.add(n_chars)
    return 0


def _output(value: Any) -> Any:
    """Charge a value that is about to be written as text; texts are charged when they are joined."""
    if value.__class__ is not str:
        _state.budget.weigh(value)
    return value


def _concatenated(pieces: Iterable[str]) -> str:
    """Join what a template, a macro or a block has written."""
    budget, kept = _state.budget, []
    iterator = iter(pieces)
    while piece := list(islice(iterator, _PIECES)):
        budget.add(sum(map(len, piece)))
        kept += piece
    return "".join(kept)


class _Transformer(NodeTransformer):
    """Measures what operators, literals and bodies make."""

    def visit_Add(self, node: nodes.Add) -> nodes.Expr:  # noqa: N802  (as everywhere here, the node's name)
        operands = [self.visit(operand) for operand in _operands(node)]
        while len(operands) > 1:
            head = operands[:_LONGEST_CHAIN]
            operands[:_LONGEST_CHAIN] = [_filter("_sum", head[0], head[1:], node.lineno)]
        return cast("nodes.Expr", operands[0])

    def visit_Mod(self, node: nodes.Mod) -> nodes.Expr:  # noqa: N802
        left, right = self.visit(node.left), self.visit(node.right)
        return _filter("_remainder", left, [right], node.lineno)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        operands = [self.visit(operand) for operand in node.nodes]
        return _filter("_concat", operands[0], operands[1:], node.lineno)

    def visit_List(self, node: nodes.List) -> nodes.Expr:  # noqa: N802
        return self._measured(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:  # noqa: N802
        return self._measured(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        return self._measured(node) if node.ctx == "load" else node

    def _measured(self, node: nodes.Expr) -> nodes.Expr:
        is_constant = all(isinstance(child, nodes.Const) for child in node.iter_child_nodes())
        self.generic_visit(node)
        return node if is_constant else _filter("_literal", node, [], node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        n_chars = _own_chars(node.body)
        self.generic_visit(node)
        if node.recursive:
            node.body.insert(0, _counter(n_chars, node.lineno))
        iterated = cast("nodes.Expr", node.iter)
        node.iter = _filter("_iterable", iterated, [nodes.Const(n_chars)], node.lineno)
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        node.nodes = [self._written(child) for child in node.nodes]
        return node

    def _written(self, child: nodes.Expr) -> nodes.Expr:
        """Return the expression of an output. Texts that are only added up there cannot grow further."""
        if isinstance(child, (nodes.TemplateData, nodes.Const)):
            return child
        operands = _operands(child)
        if 1 < len(operands) <= _LONGEST_CHAIN and any(_is_text(operand) for operand in operands):
            total = self.visit(operands[0])
            for operand in operands[1:]:
                total = nodes.Add(total, self.visit(operand), lineno=child.lineno)
            return cast("nodes.Expr", total)
        visited: nodes.Expr = self.visit(child)
        return _filter("_output", visited, [], child.lineno)

    def _visit_body(self, node: Any) -> Any:
        n_chars = _own_chars(node.body)
        self.generic_visit(node)
        node.body.insert(0, _counter(n_chars, node.lineno))
        return node

    visit_Macro = visit_CallBlock = visit_Block = _visit_body  # noqa: N815


def _filter(name: str, value: nodes.Expr, arguments: list[nodes.Expr], line: int) -> nodes.Filter:
    return nodes.Filter(value, name, arguments, [], None, None, lineno=line)


def _operands(node: nodes.Expr) -> list[nodes.Expr]:
    """Return the operands of a chain of `+`; another expression is its own only one."""
    operands: list[nodes.Expr] = []
    while isinstance(node, nodes.Add):
        operands.append(node.right)
        node = node.left
    return [node, *reversed(operands)]


def _is_text(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _counter(n_chars: int, line: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(_filter("_count", nodes.Const(n_chars, lineno=line), [], line), lineno=line)


def _own_chars(body: Iterable[nodes.Node]) -> int:
    """Characters of template text in a body, without those of loops inside, which are counted there."""
    n_chars = 0
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, nodes.TemplateData):
            n_chars += len(node.data)
        elif not isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock)):
            waiting += node.iter_child_nodes()
    return n_chars


# ---- filters and methods that make more than they get


class _LongLoop:
    """An iterable of many items, with a check of the time every so often."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        iterator, check = iter(self._items), _state.budget.check
        for _ in range(0, len(self._items), _STEPS_PER_CHECK):
            check()
            yield from islice(iterator, _STEPS_PER_CHECK)


class Charged:
    """Items of a loop that charges each iteration itself, because it may end early."""

    __slots__ = ()

    def charged(self, n_chars: int) -> Iterator[Any]:
        """Iterate within the budget; the loop's body has so many characters of its own."""
        raise NotImplementedError  # abstract: each kind of items counts in its own way


def charge_iteration(items: Iterable[Any], n_chars: int) -> Iterator[Any]:
    """Yield the items, and charge each iteration of a body with so many characters of its own."""
    budget = _state.budget
    for item in items:
        budget.step()
        budget.add(n_chars)
        yield item


def charge_text(n_chars: int) -> None:
    """Charge text that the template has written."""
    _state.budget.add(n_chars)


def _iterable(value: Any, n_chars: int) -> Any:
    """Charge a loop over a value, whose body has so many characters of its own."""
    if isinstance(value, Charged):
        return value.charged(n_chars)
    if not hasattr(value, "__len__"):
        value = _list(value)
    n, budget = len(value), _state.budget
    budget.step(n + 1)
    budget.add(n * n_chars)
    return value if n <= _STEPS_PER_CHECK else _LongLoop(value)


def _list(value: Iterable[Any]) -> list[Any]:
    budget = _state.budget
    items = list(islice(value, _MAX_ITEMS + 1))
    budget.result(items)
    budget.step(len(items) >> 3)
    for item in items:
        if item.__class__ is str:
            budget.add(len(item))
    return items


def _replaced(text: str, old: str, new: str, count: int | None = None) -> None:
    if isinstance(text, (str, bytes)) and isinstance(old, (str, bytes)) and isinstance(new, (str, bytes)):
        n = text.count(old)
        growth = (n if count is None or count < 0 else min(n, count)) * len(new)
        _state.budget.add(len(text) + growth)


def _joined(separator: Any, values: Iterable[Any]) -> list[Any]:
    items = _list(values)
    budget = _state.budget
    budget.add(len(str(separator)) * len(items))
    for item in items:
        if item.__class__ is not str:
            budget.weigh(item)
    return items


def _formatted(pattern: Any, *arguments: Any) -> None:
    """Check `%` and `format`: no large widths, and all arguments at every field."""
    text = str(pattern)
    if _WIDE_PERCENT.search(text) or _WIDE_BRACES.search(text):
        raise LimitError("it pads a text to a large or unknown width")
    budget = _state.budget
    n_fields = text.count("%") + text.count("{")
    before, budget.has_containers = budget.chars, True
    budget.weigh(arguments)
    budget.add((before - budget.chars) * n_fields + _MAX_WIDTH * (n_fields > 100) * n_fields)


def _narrow(value: Any) -> None:
    if isinstance(value, int) and abs(value) > _MAX_WIDTH:
        raise LimitError(f"it pads a text to {value} characters")


def _small(arguments: Iterable[Any]) -> None:
    for argument in arguments:
        if isinstance(argument, int) and abs(argument) > _MAX_NUMBER:
            raise LimitError(f"it calls a function with the number {str(argument)[:20]}")


def _indented(text: Any, width: Any = 4, *_: Any, **__: Any) -> None:
    _narrow(width)
    step = width if isinstance(width, int) else len(str(width))
    _state.budget.add(str(text).count("\n") * max(step, 0))


def _decorated(text: Any, *arguments: Any, **keywords: Any) -> None:
    """Check filters that may write their text arguments at every word."""
    written = (*arguments, *keywords.values())
    _state.budget.add(len(str(text)) * sum(len(one) for one in written if isinstance(one, str)))


def _expanded(text: Any, size: int = 8) -> None:
    _narrow(size)
    _state.budget.add(text.count("\t") * size)


def _translated(text: str, table: Any) -> None:
    values = table.values() if isinstance(table, Mapping) else [table]
    longest = max((len(one) for one in values if isinstance(one, str)), default=1)
    _state.budget.add(len(text) * longest)


def _padded(text: Any, width: Any = 80, *_: Any) -> None:
    _narrow(width)


def _serialised(_: Any, *arguments: Any, **keywords: Any) -> None:
    for one in (*arguments, *keywords.values()):
        _narrow(one)


_FILTER_CHECKS: dict[str, Callable[..., None]] = {
    "center": _padded,
    "tojson": _serialised,
    "format": lambda text, *arguments, **keywords: _formatted(text, arguments, keywords),
    "indent": _indented,
    "replace": lambda s, old, new, count=None: _replaced(str(s), str(old), str(new), count),
    "urlize": _decorated,
    "wordwrap": _decorated,
}
_METHOD_CHECKS: dict[str, Callable[..., None]] = {
    "center": _padded,
    "expandtabs": _expanded,
    "ljust": _padded,
    "replace": _replaced,
    "rjust": _padded,
    "translate": _translated,
    "zfill": _padded,
}
# They write a value of any kind as text, or compare values.
_WRITING = _FILTER_CHECKS.keys() | {
    "e",
    "escape",
    "forceescape",
    "pprint",
    "string",
    "striptags",
    "title",
    "truncate",
    "urlencode",
    "xmlattr",
}
_COMPARING = frozenset(("dictsort", "groupby", "max", "min", "sort", "sum", "unique"))
_PLAIN_TEXT_FILTERS: dict[str, Callable[..., str]] = {
    "capitalize": str.capitalize,
    "lower": str.lower,
    "trim": str.strip,
    "upper": str.upper,
}
# They return a part of a text, or a number.
_HARMLESS_METHODS = frozenset(
    name
    for name in dir(str)
    if re.fullmatch(r"is\w+|[lr]?(?:find|index|partition|split|strip)|(?:end|start)swith|(?:low|upp)er", name)
)


def _checked_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if name in _PLAIN_TEXT_FILTERS:
        change = _PLAIN_TEXT_FILTERS[name]

        def changed(value: Any, *arguments: Any) -> str:
            if value.__class__ is not str:
                _state.budget.weigh(value)
                value = str(value)
            return change(value, *arguments)

        return changed
    n_passed = int(hasattr(function, "jinja_pass_arg"))
    weighs, check = name in _WRITING or name in _COMPARING, _FILTER_CHECKS.get(name)

    @wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        budget = _state.budget
        budget.step()
        value, *rest = arguments[n_passed:]
        _small((*rest, *keywords.values()))
        if weighs:
            budget.weigh(value)
        if check is not None:
            check(value, *rest, **keywords)
        return budget.result(function(*arguments, **keywords))

    return checked


@pass_environment
def _join(environment: Environment, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    items = _joined(d, value)
    return str(d).join(map(str, items))


class _Generation(Extension):
    """`{% generation %}`: marks an answer for training; renders as its body."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


_JINJAS_OWN = ("_loop_vars", "_block_vars")  # arguments that compiled templates add to a call
_DICT_NAMES = frozenset(dir(dict))
# Names that the sandbox allows in any case: it refuses those that begin with _, and wraps formats.
_PLAIN_NAMES: dict[type, frozenset[str]] = {
    str: frozenset(name for name in dir(str) if name[0] != "_" and not name.startswith("format")),
    LoopContext: frozenset(name for name in dir(LoopContext) if name[0] != "_"),
}


class SandboxedEnvironment(ImmutableSandboxedEnvironment):
    """Environment of chat templates. Rendering and compiling belong into a `limited` block.

    It has a short way to the attributes that templates ask for most: the sandbox asks for Python's attributes
    before the members of a message and checks what it finds, which made up half of a rendering.
    """

    intercepted_binops = frozenset(("*", "**"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
        self.concat = _concatenated  # type: ignore[method-assign]
        unchanged = {
            "abs",
            "attr",
            "default",
            "d",
            "first",
            "float",
            "int",
            "items",
            "last",
            "length",
            "count",
            "safe",
        }
        for name, function in FILTERS.items():
            if name not in unchanged:
                self.filters[name] = _checked_filter(name, function)
        self.filters |= {
            "_concat": _concat,
            "_count": _count,
            "_iterable": _iterable,
            "_literal": _literal,
            "_output": _output,
            "_remainder": _remainder,
            "_sum": _sum,
            "join": _join,
            "list": _list,
        }
        del self.globals["lipsum"]
        self.globals["dict"] = lambda *arguments, **members: _literal(dict(*arguments, **members))

    @staticmethod
    def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that keeps to the budget, checked as the one of that name."""
        return _checked_filter(name, function)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > _MAX_SOURCE_CHARS:
            raise LimitError(f"it has more than {_MAX_SOURCE_CHARS} characters")
        template: nodes.Template = _Transformer().visit(super()._parse(source, name, filename))
        return template

    def parsed(self, source: str) -> nodes.Template:
        """Return the syntax tree of a template as it was written, without what measures it."""
        return super()._parse(source, None, None)

    def measured(self, tree: nodes.Template) -> nodes.Template:
        """Return a syntax tree with what measures it, for `from_string`."""
        measured: nodes.Template = _Transformer().visit(tree)
        measured.set_environment(self)
        return measured

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute, or a member of that name."""
        kind = type(obj)
        if kind is dict and attribute not in _DICT_NAMES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if attribute in _PLAIN_NAMES.get(kind, ()):
            return getattr(obj, attribute)
        if kind is Namespace and attribute[0] != "_" and hasattr(obj, attribute):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return a member, or an attribute of that name."""
        if type(obj) is dict and type(argument) is str and argument not in _DICT_NAMES:
            return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute an intercepted operator within the budget."""
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * (abs(right) if operator == "**" else 1) + right.bit_length()
            if bits > _MAX_BITS:
                raise LimitError(f"it computes a number of {bits} bits")
        elif operator == "*":
            self._check_repetition(left, right)
        return _state.budget.result(super().call_binop(context, operator, left, right))

    def _check_repetition(self, left: Any, right: Any) -> None:
        value, times = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(times, int) and isinstance(value, (str, bytes, list, tuple)):
            budget = _state.budget
            before = budget.chars
            budget.has_containers = True
            budget.weigh(value)
            budget.add((before - budget.chars + len(value)) * max(times - 1, 0))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a function within the budget."""
        if __obj.__class__ is BuiltinMethodType:
            owner, name = __obj.__self__, __obj.__name__
            named = {key: value for key, value in kwargs.items() if key not in _JINJAS_OWN}
            if owner.__class__ is str and name in _HARMLESS_METHODS:
                return __obj(*args, **named)
            _small((*args, *named.values()))
            if isinstance(owner, (str, bytes)):
                if name == "join" and args:
                    args = (_joined(owner, args[0]),)
                elif (check := _METHOD_CHECKS.get(name)) is not None:
                    check(owner, *args, **named)
        budget = _state.budget
        budget.step()
        return budget.result(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return `str.format` of a text, within the budget; None for another function."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*arguments: Any, **keywords: Any) -> str:
            _formatted(value.__self__, arguments, keywords)
            text: str = _state.budget.result(wrapped(*arguments, **keywords))
            return text

        return update_wrapper(checked, value)
