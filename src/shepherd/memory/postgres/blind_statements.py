"""Reads off the SQL of a statement which columns its parameters and results belong to.

This is no parser of SQL, but knows the forms that our statements have. What it does not understand is refused
where it could be a text: `plan_of` raises ValueError, or BlindColumns does when a text comes as a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from shepherd.memory.postgres.blind_columns import (
    COLUMNS,
    REFUSED,
    Kind,
    have_hidden,
    kind_of,
    owners_of,
    tables_in,
)

__all__ = ["LITERALS", "Parameter", "Plan", "Result", "plan_of"]

_MARK = re.compile(r"\?(\d*)")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_INSERT = re.compile(r"INSERT INTO (\w+)\(([^)]*)\)\s*(VALUES\s*\(|SELECT\s)", re.IGNORECASE)
_CHANGES = re.compile(r"(?:INSERT INTO|UPDATE)\s+(\w+)", re.IGNORECASE)
_COMPARED = re.compile(
    r"([\w.]+)\s*(?:=|<>|<=|>=|<|>|\bLIKE|\bBETWEEN(?: \S+ AND)?|\bIN \((?:\?\d*, )*)\s*(?:ANY\s*\(\s*)?$",
    re.IGNORECASE,
)
_CASE = re.compile(r"\bCASE ([\w.]+)(?: WHEN \S+ THEN \S+)* WHEN $", re.IGNORECASE)
# `a = b AND (c LIKE ?`: an operator that cannot be applied to what is stored.
_MATCHED = re.compile(r"([\w.]+)\s+(?:NOT )?LIKE\b", re.IGNORECASE)
_LITERAL = re.compile(r"([\w.]+)\s*(?:=|<>|\bIN \()\s*'([^']*)'", re.IGNORECASE)
# Literals that are stored as they are.
LITERALS = ("", "[]")
_UNORDERED = re.compile(r"(?:LIKE|BETWEEN(?: \S+ AND)?|<|>|<=|>=)\s*$", re.IGNORECASE)
# A column that the SQL does not show, as a comment: /* ?1: context_terms.terms */ of a parameter, and
# /* =5: facts.key */ of a column of the result.
_NOTE = re.compile(r"/\* ([?=])(\d+): (\w+)\.(\w+) \*/")
_COLUMN = re.compile(r"(?:CAST\()?([A-Za-z_]\w*(?:\.\w+)?)(?: AS TEXT\))?(?:\s+AS\s+(\w+))?", re.IGNORECASE)
_ALIAS = re.compile(r"\bAS\s+(\w+)$", re.IGNORECASE)
# The beginning of a text cannot be cut from what is stored.
_BEGINNING = re.compile(r"\bsubstr\(([\w.]+), 1, \d+\)", re.IGNORECASE)


# Results that cannot have another column.
_CLOSED = re.compile(r"\b(?:UNION|DISTINCT|GROUP BY)\b", re.IGNORECASE)
_LIST = re.compile(r"\bRETURNING\s+|^\s*SELECT\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: the kind of its column, None if the SQL does not tell; whether it is a user's id.

    rows: the places of the parameters that name its row, as `kind.rows` has them.
    """

    kind: Kind | None
    is_user: bool = False
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """A column of the result: its kind, None if the SQL does not tell; places of those that name its row."""

    kind: Kind | None
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """How a statement on hidden columns is sent, and its rows are read."""

    statement: str
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    n_added: int
    """Columns before those of the result that were asked for: they name rows."""
    order: tuple[int, ...]
    """Columns that the rows are sorted by on our side; () if the server's order is right."""
    stores: bool
    """True if the parameters are stored, not looked for."""
    refused: str
    """What the statement would store, if a blind memory does not have that."""


@lru_cache(1024)
def plan_of(statement: str) -> Plan | None:
    """Return the plan of a statement, None if it has nothing to do with hidden columns.

    Raises ValueError for a statement that cannot work on hidden columns.
    """
    changed = _CHANGES.match(statement.strip())
    refused = REFUSED.get(changed[1], "") if changed else ""
    text = _without_quoted(statement)
    tables = tables_in(text)
    if not refused and not have_hidden(tables):
        return None
    for column in _MATCHED.findall(text):
        _refuse_unequal(column, tables, text)
    for column, literal in _LITERAL.findall(statement):
        if literal not in LITERALS:
            _refuse_unequal(column, tables, text)
    columns = _columns(text, tables)
    added = [] if refused else _missing(text, columns)
    sent = _BEGINNING.sub(lambda found: _whole(found, tables), statement)
    if added:
        more = "".join(f"{column.shown}, " for column in added)
        # A RETURNING is the last of its kind in a statement; a SELECT is the first.
        place = list(_LIST.finditer(sent))[-1 if changed or not text.startswith("SELECT ") else 0].end()
        sent = f"{sent[:place]}{more}{sent[place:]}"
    return Plan(
        sent,
        tuple(_parameters(text, tables)),
        tuple(_results([*added, *columns])),
        len(added),
        _order(text, tables, [column.name for column in columns]),
        changed is not None,
        refused,
    )


def _whole(found: re.Match[str], tables: dict[str, str]) -> str:
    kind = kind_of(found[1], tables)
    return found[1] if kind is not None and kind.is_hidden else found[0]


def _without_quoted(statement: str) -> str:
    """Return the statement with empty literals, in one line."""
    return " ".join(_QUOTED.sub("''", statement).split())


# ---- parameters


def _parameters(text: str, tables: dict[str, str]) -> Iterator[Parameter]:
    noted = _noted(text, "?")
    text = _NOTE.sub("", text)
    columns = dict(_inserted(text))
    found: dict[int, set[str]] = {}
    for n_seen, mark in enumerate(_MARK.finditer(text), 1):
        column = columns.get(mark.start()) or _compared(text[: mark.start()], tables)
        found.setdefault(int(mark[1] or n_seen), set()).update([column] if column else [])
    for number in range(1, max(found, default=0) + 1):
        names = found.get(number, set())
        kinds = {kind for name in names if (kind := kind_of(name, tables)) is not None}
        if number in noted:
            kinds = {COLUMNS[table][column] for table, column in [noted[number]]}
        if len(kinds) > 1:
            raise ValueError(f"parameter {number} is of several kinds: {text}")
        is_user = any(name.rpartition(".")[2] == "user_id" for name in names)
        kind = kinds.pop() if kinds else None
        rows = _row_of(kind, names, found, text) if kind is not None and kind.rows else ()
        yield Parameter(kind, is_user, rows)


def _row_of(kind: Kind, names: set[str], found: dict[int, set[str]], text: str) -> tuple[int, ...]:
    """Return the places of the parameters that name the row of one with these names."""
    alias = next(iter(names)).rpartition(".")[0]
    places = []
    for column in kind.rows:
        wanted = f"{alias}.{column}" if alias else column
        known = [number - 1 for number, others in found.items() if wanted in others]
        if len(known) != 1:
            raise ValueError(
                f"the statement does not give {column}, which identifies the row of {kind.name}: {text}"
            )
        places += known
    return tuple(places)


def _inserted(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places of parameters in what an INSERT stores, each with the column."""
    found = _INSERT.match(text)
    if found is None:
        return
    names = [name.strip() for name in found[2].split(",")]
    for name, (start, end) in zip(names, _items(text, found.end()), strict=False):
        for mark in _MARK.finditer(text, start, end):
            yield mark.start(), f"{found[1]}.{name}"


def _compared(before: str, tables: dict[str, str]) -> str:
    """Return the column that a parameter after this text is compared with or given to; "" if none."""
    found = _COMPARED.search(before) or _CASE.search(before)
    if found is None:
        return ""
    if _UNORDERED.search(before) and not before.endswith("<> "):
        _refuse_unequal(found[1], tables, before)
    return found[1]


def _refuse_unequal(column: str, tables: dict[str, str], text: str) -> None:
    kind = kind_of(column, tables)
    if kind is not None and kind.is_hidden:
        raise ValueError(f"of {column} a server can find only what is equal: {text}")


# ---- results


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a result: its name, the alias before it, its tables, and its kind."""

    name: str
    alias: str = ""
    tables: frozenset[str] = frozenset()
    kind: Kind | None = None

    @property
    def shown(self) -> str:
        return f"{self.alias}.{self.name}" if self.alias else self.name

    def names_row_of(self, other: _Column) -> bool:
        """Return whether this column is of the same row as another one."""
        if self.alias and other.alias:
            return self.alias == other.alias
        return not self.tables.isdisjoint(other.tables)


def _columns(text: str, tables: dict[str, str]) -> list[_Column]:
    noted = _noted(text, "=")
    text = _NOTE.sub("", text)
    returning = re.search(r"\bRETURNING\s+", text)
    if returning:
        start = returning.end()
    elif text.startswith("SELECT "):
        start = len("SELECT ")
        start += len("DISTINCT ") if text.startswith("SELECT DISTINCT ") else 0
    else:
        return []
    items = [text[first:last].strip() for first, last in _items(text, start)]
    return [_column(item, tables, noted.get(place)) for place, item in enumerate(items, 1)]


def _noted(text: str, sign: str) -> dict[int, tuple[str, str]]:
    return {
        int(number): (table, column) for mark, number, table, column in _NOTE.findall(text) if mark == sign
    }


def _column(item: str, tables: dict[str, str], noted: tuple[str, str] | None) -> _Column:
    found = _COLUMN.fullmatch(item)
    if noted is not None:
        table, name = noted
        return _Column(name, "", frozenset([table]), COLUMNS[table][name])
    if found is not None:
        alias, _, name = found[1].rpartition(".")
        owners = frozenset(owners_of(found[1], tables))
        return _Column(found[2] or name, alias, owners, kind_of(found[1], tables))
    named = _ALIAS.search(item)
    return _Column(named[1] if named else "")


def _missing(text: str, columns: Sequence[_Column]) -> list[_Column]:
    """Return the columns that name rows of texts in the result, and are not in it."""
    added: list[_Column] = []
    for text_column in columns:
        for name in text_column.kind.rows if text_column.kind else ():
            there = [one for one in (*columns, *added) if one.name == name and one.names_row_of(text_column)]
            if not there:
                if _CLOSED.search(_outside_brackets(text)):
                    raise ValueError(
                        f"the statement does not give {name}, which identifies the row of"
                        f" {text_column.name}: {text}"
                    )
                [table] = text_column.tables
                added.append(_Column(name, text_column.alias, text_column.tables, COLUMNS[table][name]))
    return added


def _results(columns: Sequence[_Column]) -> Iterator[Result]:
    for column in columns:
        names = column.kind.rows if column.kind else ()
        yield Result(
            column.kind,
            tuple(
                next(
                    place
                    for place, one in enumerate(columns)
                    if one.name == name and one.names_row_of(column)
                )
                for name in names
            ),
        )


def _order(text: str, tables: dict[str, str], names: list[str]) -> tuple[int, ...]:
    """Return the places of the columns that the result is sorted by, if one of them is hidden."""
    depth_0 = _outside_brackets(text)
    _, found, order = depth_0.rpartition(" ORDER BY ")
    if not found:
        return ()
    order, has_limit, limit = order.partition(" LIMIT ")
    if limit == "0":
        return ()
    columns = [one.strip() for one in order.split(",")]
    kinds = [kind_of(column.split()[0], tables) for column in columns if column]
    if not any(kind is not None and kind.is_hidden for kind in kinds):
        return ()
    if has_limit or any(" " in column for column in columns):
        raise ValueError(f"a server cannot sort what it cannot read: {text}")
    return tuple(names.index(column.rpartition(".")[2]) for column in columns)


def _outside_brackets(text: str) -> str:
    depth, kept = 0, []
    for character in text:
        depth -= character == ")"
        if depth == 0:
            kept.append(character)
        depth += character == "("
    return "".join(kept)


def _items(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a list begin and end, separated by commas; it ends with its bracket."""
    depth, first = 0, start
    for place in range(start, len(text)):
        character = text[place]
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        if depth < 0 or (depth == 0 and text.startswith((" FROM ", " UNION ", " WHERE "), place)):
            yield first, place
            return
        if character == "," and depth == 0:
            yield first, place
            first = place + 1
    yield first, len(text)
