"""Secrets in files: values of elements, settings and columns that are named after a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shepherd.secret_detection.anchors import folded
from shepherd.secret_detection.vocabulary import Secret, SecretKind, around, is_ordinary, moved

__all__ = ["find"]

_PASSWORD = (
    r"pass(?:wor[dt]|wd|phrase|code)|pwd|kennwort|mot[ _-]?de[ _-]?passe|contrase(?:ñ|n)a|senha|wachtwoord"
    r"|парол[ья]"
)
_KEY = r"(?:api|access|secret|private)[ _-]?key|(?:client|shared)[ _-]?secret|secret|token"
_ELEMENT_HINT = re.compile(
    rf"(?:{_PASSWORD}|[_.]pass|{_KEY})(?:[\"'](?:>|\s{{1,3}}value=)|(?:\s[^<>\n]{{0,120}})?>)"
)
_SETTING_HINT = re.compile(r"(?:pass|passwd|pwd|pw|secret|token)[\"']?(?:\s{0,3}[:=]|\sis\s|(?<=rootpw)\s)")
_COLUMN_HINT = re.compile(rf"(?<![^\W_])(?:{_PASSWORD}|{_KEY}|pins?\b)")
# <password>…</password>, <property name="db.password">…<, <add key="DbPassword" value="…"/>
_NAME = rf"(?:[\w.:-]{{0,40}}[_.:-]|\w{{0,40}}?)(?:(?P<is_password>{_PASSWORD}|(?<=[_.])pass)|{_KEY})"
_ELEMENT = re.compile(
    rf"<(?:{_NAME}(?:\s[^<>\n]{{0,120}})?>"
    rf"|\w{{1,40}}\s(?:name|key|id)=[\"']{_NAME.replace('is_password', 'is_second')}[\"']"
    r"(?:>|\s{1,3}value=[\"']))\s{0,3}(?P<value>[^\s<>\"']{3,512})\s{0,3}(?:</|[\"'])",
    re.IGNORECASE,
)
# ansible_ssh_pass: …, MYSQL_PWD=…, dbPass: …, SLACK_TOKEN=…
_SETTING = re.compile(
    r"(?<![\w$%{-])(?P<name>(?:[A-Za-z]\w{0,40}?[_.])(?i:(?P<is_password>pass|pwd|pw|passwd)|secret|token)"
    r"|[a-z]\w{0,40}?(?:(?P<is_second>Pass|Pwd|Passwd)|Secret|Token)|rootpw)(?P<quote>[\"']?)"
    r"(?P<link>\s{0,3}[:=]\s{0,3}|\sis\s|(?<=rootpw)\s)"
    r"(?:(?P<mark>[\"'])(?P<quoted>[^\"'\n]{3,512})(?P=mark)|(?P<bare>[^\s\"'<>,;()\[\]{}|&]{3,512}))"
)
_WHOLE_LINE = re.compile(r"[ \t]*(?:[-#] ?)?(?:export |set |ENV )?[\"']?")
_LINE_END = re.compile(r"[ \t\r]*(?:\n|$|[ \t]#)")
# "first_pass: compile": a pass over something.
_NO_SECRET = re.compile(
    r"(?:.*_)?(?:first|second|third|last|next|prev\w*|final|n|num|nr|max|min|one|two|multi|single|per|all|any|by|tests?"
    r"|render\w*|shadow|light|depth|colou?r|low|high|band|must|should|did|will|can|is|has|opt\w*|skip"
    r"|eos|bos|pad|unk|sep|cls|mask|end|start|begin|lex\w*|string|word|sub)_?(?:pass|token)",
    re.IGNORECASE,
)
# Names, calls and paths of programs, and types.
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|\d+(?:\.\d+)*|0x[0-9a-fA-F]+|[a-z]+_[a-z_\d]+|[A-Z]+_[A-Z_\d]+"
    r"|[A-Za-z]{1,12}\d{0,2}|[\W_]+|\w*[\\`*$%{}()\[\]<>|].*"
)
# A cell that names a column, and the line below the names in Markdown.
_COLUMN = re.compile(
    rf"(?:[\w-]{{1,20}}[ _-]){{0,2}}?(?:(?P<is_password>{_PASSWORD})|(?P<is_number>pins?)|{_KEY})s?",
    re.IGNORECASE,
)
_HEADER_CELL = re.compile(r"[\w .#/()-]{0,40}")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t\r]*")
_CELLS = {
    mark: re.compile(rf"[ \t]*(?:\"(?P<quoted>[^\"\n]*)\"|(?P<bare>[^{mark}\n]*?))[ \t\r]*(?:{mark}|$)")
    for mark in (",", ";", "\t", r"\|")
}
_PLAIN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?[.!?]?")
_LEAST_KEY, _LEAST_PASSWORD, _MOST_HEADER = 8, 4, 1000

_Cell = tuple[int, int]


def find(text: str) -> Iterator[Secret]:
    """Yield the values of elements, settings and columns that are named after a secret."""
    small = folded(text)
    for hint, rule in ((_ELEMENT_HINT, _elements), (_SETTING_HINT, _settings)):
        for begin, piece in around(text, hint.finditer(small)):
            yield from moved(begin, rule(piece))
    yield from _columns(text, small)


def _elements(text: str) -> Iterator[Secret]:
    for match in _ELEMENT.finditer(text):
        is_password = match["is_password"] or match["is_second"]
        is_one = not _is_code(match["value"]) or _is_word(match["value"])
        if is_one if is_password else _is_key(match["value"]):
            yield Secret(_kind(bool(is_password)), *match.span("value"))


def _settings(text: str) -> Iterator[Secret]:
    for match in _SETTING.finditer(text):
        if _NO_SECRET.fullmatch(match["name"]):
            continue
        group = "quoted" if match["quoted"] else "bare"
        value = match[group].rstrip(".!?")
        is_password = bool(match["is_password"] or match["is_second"] or match["name"] == "rootpw")
        if not is_password and not _is_key(value):
            continue
        # A word alone may be the name of a variable, unless the line is one of a file of settings.
        is_settled = (is_password and _is_word(value) and (group == "quoted" or _is_line(text, match))) or (
            not _is_code(value) and any(map(str.isdigit, value))
        )
        if is_settled and " " not in value:
            yield Secret(_kind(is_password), match.start(group), match.start(group) + len(value))


def _is_line(text: str, setting: re.Match[str]) -> bool:
    """Return whether a setting is all of its line, as in YAML or a file of variables."""
    first = text.rfind("\n", 0, setting.start()) + 1
    is_alone = _WHOLE_LINE.fullmatch(text, first, setting.start()) and _LINE_END.match(text, setting.end())
    return bool(is_alone) and setting["link"] in ("=", ": ", " ")


def _is_word(value: str) -> bool:
    """Return whether a value is one of letters that could be a password."""
    return bool(_PLAIN.fullmatch(value)) and len(value) >= _LEAST_PASSWORD and not is_ordinary(value)


def _is_code(value: str) -> bool:
    return is_ordinary(value) or _CODE.fullmatch(value) is not None


def _is_key(value: str) -> bool:
    """Return whether a value has letters and digits enough for a token."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return has_both and len(value) >= _LEAST_KEY and not _is_code(value)


def _kind(is_password: bool) -> SecretKind:
    return "password" if is_password else "token"


# ---- tables


def _columns(text: str, small: str) -> Iterator[Secret]:
    """Yield the values below the name of a secret, in Markdown and in separated columns."""
    end = 0
    for hint in _COLUMN_HINT.finditer(small):
        if hint.start() < end:
            continue
        first = text.rfind("\n", 0, hint.start()) + 1
        end = _line_end(text, hint.end())
        if end - first > _MOST_HEADER:
            continue
        for mark, cell in _CELLS.items():
            header = _cells(cell, text, first, end)
            named = [_COLUMN.fullmatch(text, *span) for span in header]
            if (
                len(header) < 2
                or not any(named)
                or not all(_HEADER_CELL.fullmatch(text, *span) for span in header)
            ):
                continue
            rows, end = _rows(text, end, cell, len(header), is_markdown=mark == r"\|")
            for row in rows:
                for name, (start, stop) in zip(named, row, strict=True):
                    if name is not None and _fits(name, text[start:stop]):
                        yield Secret(_kind(not name.group(0).lower().endswith("token")), start, stop)
            break


def _rows(
    text: str, end: int, cell: re.Pattern[str], n_cells: int, *, is_markdown: bool
) -> tuple[list[list[_Cell]], int]:
    """Return the rows below a header that ends at `end`, and where they end."""
    if is_markdown:
        first, end = end + 1, _line_end(text, end + 1)
        if not _RULE.fullmatch(text, first, end):
            return [], first
    rows = []
    while end < len(text):
        stop = _line_end(text, end + 1)
        row = _cells(cell, text, end + 1, stop)
        if len(row) != n_cells:
            break
        rows.append(row)
        end = stop
    return rows, end


def _cells(cell: re.Pattern[str], text: str, first: int, end: int) -> list[_Cell]:
    """Return where the cells of a line are, without blanks and marks around them."""
    cells = []
    while first < end and (found := cell.match(text, first, end)):
        start, stop = found.span("quoted" if found["quoted"] is not None else "bare")
        is_marked = stop - start > 2 and text[start] == text[stop - 1] == "`"
        cells.append((start + is_marked, stop - is_marked))
        first = found.end()
    return cells


def _fits(name: re.Match[str], value: str) -> bool:
    if name["is_number"]:
        return value.isdigit() and 3 <= len(value) <= 12
    if " " in value or len(value) < _LEAST_PASSWORD:
        return False
    return _is_key(value) or (name["is_password"] is not None and (_is_word(value) or not _is_code(value)))


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)
