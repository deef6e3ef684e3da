"""Possible faults of a Python source: one changed operator, boundary, constant, condition or statement each.

A fault replaces a piece of one source text; everything else stays, comments too. Standard library only.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

__all__ = ["Fault", "assigned_names", "faults_of"]

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
ARITHMETIC = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "+",
    ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Swapping two arguments of these changes nothing, or fails wherever it runs.
UNSWAPPED = ("min", "max", "cast", "isinstance", "getattr", "hasattr")
# Written for developers only.
LOGGING = re.compile(r"_log\.(?:debug|exception)\(")
OPERATOR = re.compile(r"not\s+in\b|is\s+not\b|in\b|is\b|and\b|or\b|[<>=!]=|<<|>>|//|\*\*|[-+*/%&|^<>@]")


@dataclass(frozen=True)
class Fault:
    """Replace `source[start:end]`, which is on line `line`, by `text`. `owner` is the function's first line.

    `owner` is 0 outside of functions. `names` are the assigned names if it changes an assignment's value.
    """

    start: int
    end: int
    text: str
    line: int
    owner: int
    names: tuple[str, ...] = ()

    def applied(self, source: str) -> str:
        """Return the source with this fault."""
        return source[: self.start] + self.text + source[self.end :]


def faults_of(source: str) -> list[Fault]:
    """Return all faults of a source in their order. A few do not compile: `pass` where a value is needed."""
    return sorted(set(_Finder(source).found), key=lambda fault: (fault.start, fault.end, fault.text))


def assigned_names(source: str) -> set[str]:
    """Return the names that the module and its classes assign in their bodies."""
    names = set()
    for scope in ast.walk(ast.parse(source)):
        for statement in scope.body if isinstance(scope, (ast.Module, ast.ClassDef)) else ():
            targets = statement.targets if isinstance(statement, ast.Assign) else ()
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.source = source
        lines = source.encode().splitlines(keepends=True)
        self.encoded = source.encode()
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Fault] = []
        self.owner = 0
        self.names: tuple[str, ...] = ()
        self.visit(ast.parse(source))

    # ---- places

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends, in characters."""
        ends = ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]
        begin, end = (len(self.encoded[: self.starts[line - 1] + column].decode()) for line, column in ends)
        return begin, end

    def text(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.source[begin:end]

    def add(self, start: int, end: int, text: str) -> None:
        line = self.source.count("\n", 0, start) + 1
        self.found.append(Fault(start, end, text, line, self.owner, self.names))

    def replace(self, node: ast.AST, text: str) -> None:
        self.add(*self.span(node), text)

    def between(self, left: ast.AST, right: ast.AST, text: str) -> None:
        """Replace the operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        # Brackets and comments may stand there, too.
        blanked = re.sub(r"#.*", lambda comment: " " * len(comment[0]), self.source[start:end])
        if operator := OPERATOR.search(blanked):
            self.add(start + operator.start(), start + operator.end(), text)

    # ---- what encloses a fault

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self.owner = self.owner, node.lineno
        for part in (*node.args.defaults, *(value for value in node.args.kw_defaults if value), *node.body):
            self.visit(part)
        self.owner = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        self.negate(node.test)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AugAssign) or isinstance(targets[0], (ast.Attribute, ast.Subscript)):
            self.drop(node)
        outer = self.names
        self.names = tuple(target.id for target in targets if isinstance(target, ast.Name)) or outer
        if "__all__" not in self.names and node.value is not None:
            self.visit(node.value)
        if isinstance(node, ast.AugAssign) and (text := ARITHMETIC.get(type(node.op))):
            self.between(node.target, node.value, text)
        self.names = outer

    visit_AnnAssign = visit_Assign  # noqa: N815
    visit_AugAssign = visit_Assign  # noqa: N815

    # ---- faults of statements

    def drop(self, node: ast.stmt) -> None:
        self.replace(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if LOGGING.match(self.text(node)):
            return
        if isinstance(node.value, (ast.Call, ast.Await)):
            self.drop(node)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.drop(node)  # its message is not a fault's place

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave out: they tell mypy what holds, and fail wherever they run if they are changed."""

    def visit_Break(self, node: ast.Break) -> None:
        self.replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.replace(node, "break")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value in (None, True, False)
        ):
            self.replace(node, "return None")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self.negate(node.test)
        self.generic_visit(node)

    # ---- faults of expressions

    def negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.replace(test, f"({self.text(test.operand)})")
        else:
            self.replace(test, f"not ({self.text(test)})")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            self.between(left, right, COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = isinstance(node.left, (ast.Constant, ast.JoinedStr)) and not isinstance(
            getattr(node.left, "value", ""), (int, float)
        )
        if not is_text and (text := ARITHMETIC.get(type(node.op))):
            self.between(node.left, node.right, text)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        text = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, text)
        self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                self.replace(bound, f"({self.text(bound)}) + 1")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self.replace(node, str(node.value + 1))
        elif isinstance(node.value, float):
            self.replace(node, repr(node.value * 1.5 + 0.125))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in OPPOSITES:
            self.replace(node.func, OPPOSITES[node.func.id])
        plain = [one for one in node.args[:2] if not isinstance(one, ast.Starred)]
        is_swapped = not (isinstance(node.func, ast.Name) and node.func.id in UNSWAPPED)
        if len(plain) == 2 and is_swapped and self.text(plain[0]) != self.text(plain[1]):
            start, end = self.span(plain[0])[0], self.span(plain[1])[1]
            middle = self.source[self.span(plain[0])[1] : self.span(plain[1])[0]]
            self.add(start, end, self.text(plain[1]) + middle + self.text(plain[0]))
        for part in (node.func, *node.args, *node.keywords):
            # It asserts that there are as many of each, see visit_Assert.
            if not (self.text(node.func) == "zip" and self.text(part) == "strict=True"):
                self.visit(part)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave out: before Python 3.12 its parts have no places of their own."""
