"""The OpenAPI document as a page to read: HTML alone, without scripts, behind the page's policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

__all__ = ["page_of"]

_Schema = dict[str, Any]
_PAGE = """\
<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>API · Shepherd</title>
    <link rel="icon" href="/page/icon.svg" type="image/svg+xml">
    <link rel="service-desc" href="/openapi.json" type="application/json">
    <link rel="stylesheet" href="/page/base.css">
    <link rel="stylesheet" href="/page/docs.css">
    <script type="module" src="/page/theme.js"></script>
  </head>
  <body class="docs">
    <a class="skip" href="#view">Skip to the content</a>
    <header class="bar">
      <p class="brand"><img src="/page/icon.svg" alt="" width="28" height="28"> <a href="/">Shepherd</a></p>
      <nav aria-label="Sections"><ul class="plain">%(links)s</ul></nav>
    </header>
    <main id="view" tabindex="-1">
<h1>API</h1>
%(about)s
<p>The same as a document for programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
%(sections)s
    </main>
  </body>
</html>
"""
_UNITS = (
    ("Length", "character", "characters"),
    ("Items", "entry", "entries"),
    ("Properties", "entry", "entries"),
)
_STREAMS = {
    "text/event-stream": "Server-sent events, each",
    "application/x-ndjson": "Lines of JSON, each",
}
_HEAD = (
    '<thead class="hidden"><tr><th scope="col">Field</th><th scope="col">Type</th>'
    '<th scope="col">Notes</th></tr></thead>'
)
_REFERENCE = "#/components/schemas/"
_CODE = re.compile(r"`([^`]+)`")
_AFTER_SLASH = re.compile(r"(?<=[\w}])/")


def page_of(document: _Schema) -> str:
    """Return the page of a document."""
    return _PAGE % _Reader(document).parts()


class _Reader:
    """Writes the parts of the page, and notes which shapes they mention."""

    def __init__(self, document: _Schema) -> None:
        self._document = document
        self._schemas: dict[str, _Schema] = document["components"]["schemas"]
        # Whether they are first mentioned in an answer.
        self._mentioned: dict[str, bool] = {}

    def parts(self) -> dict[str, str]:
        names = [tag["name"] for tag in self._document["tags"]]
        sections = [self._section(tag) for tag in self._document["tags"]]
        return {
            "links": "".join(
                f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in (*names, "Schemas")
            ),
            "about": _paragraphs(self._document["info"]["description"]),
            "sections": "\n".join([*sections, self._shapes()]),
        }

    def _section(self, tag: _Schema) -> str:
        operations = [
            self._operation(path, method, operation)
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
            if operation["tags"] == [tag["name"]]
        ]
        name = tag["name"]
        head = f'<h2 id="{_anchor(name)}">{escape(name)}</h2>{_paragraphs(tag["description"])}'
        return f"<section>{head}{''.join(operations)}</section>"

    def _operation(self, path: str, method: str, operation: _Schema) -> str:
        where = _AFTER_SLASH.sub("/<wbr>", escape(path))
        marks = f'<span class="method {method}">{method.upper()}</span> <code class="path">{where}</code>'
        anchor = f'<div class="more" id="{operation["operationId"]}">'
        more = "".join(
            [
                _paragraphs(operation.get("description", "")),
                f'<p class="hint">{_access(operation)}</p>',
                self._parameters(operation.get("parameters", [])),
                self._body(operation.get("requestBody", {}).get("content", {})),
                self._answers(operation["responses"]),
            ]
        )
        summary = f'<summary>{marks} <span class="about">{_inline(operation["summary"])}</span></summary>'
        return f'<details class="card route">{summary}{anchor}{more}</div></details>\n'

    def _parameters(self, parameters: list[_Schema]) -> str:
        rows = []
        for one in parameters:
            schema = {**one["schema"], "description": one.get("description", "")}
            rows.append(self._row(one["name"], schema, one.get("required", False), where=one["in"]))
        return _table("Path and query", rows)

    def _body(self, content: _Schema) -> str:
        if not content:
            return ""
        [(kind, media)] = content.items()
        if kind != "application/json":
            return f"<h3>Body</h3><p>The file itself ({escape(kind)}).</p>"
        return self._fields("Body", media["schema"])

    def _answers(self, responses: _Schema) -> str:
        found: list[str] = []
        refused: list[str] = []
        error = ""
        for status, response in responses.items():
            if "$ref" in response:
                name = response["$ref"].rpartition("/")[2]
                refused += [status] if status != "default" else []
                [media] = self._document["components"]["responses"][name]["content"].values()
                error = self._type(media["schema"])
                continue
            for kind, media in response.get("content", {}).items():
                found.append(self._answer(status, kind, media["schema"]))
        errors = f'<p class="hint">Errors: {", ".join(refused)} ({error})</p>'
        return "".join(found) + errors

    def _answer(self, status: str, kind: str, schema: _Schema) -> str:
        if kind == "application/json":
            return self._fields(f"Answer {status}", schema, is_answer=True)
        each = {
            "text/event-stream": "A stream of events, each",
            "application/x-ndjson": "Lines of JSON, each",
        }
        if kind in each:
            return f"<h3>Stream {status}</h3><p>{each[kind]} {self._type(schema)} ({kind}).</p>"
        return f"<h3>Answer {status}</h3><p>{escape(kind)}</p>"

    def _fields(self, title: str, schema: _Schema, *, is_answer: bool = False) -> str:
        """Return the fields of a shape as a table, or its type if it has no fields."""
        shape = self._resolved(schema)
        about = _paragraphs(shape.get("description", "")) if is_answer or not title else ""
        properties = shape.get("properties")
        if not properties:
            kind = f"<p>{self._type(schema, is_answer=is_answer)}</p>"
            return f"<h3>{title}</h3>{kind}" if title else kind
        needed = shape.get("required", [])
        rows = [
            self._row(name, one, name in needed, is_answer=is_answer)
            for name, one in properties.items()
            if not one.get("x-ignored")
        ]
        ignored = [f"<code>{escape(name)}</code>" for name, one in properties.items() if one.get("x-ignored")]
        note = f'<p class="hint">Accepted and ignored: {", ".join(ignored)}</p>' if ignored else ""
        return _table(title, rows, about) + note

    def _row(
        self, name: str, schema: _Schema, is_required: bool, *, where: str = "", is_answer: bool = False
    ) -> str:
        notes = [_inline(schema.get("description", "")), _limits(schema), _default(schema)]
        said = " ".join(filter(None, notes))
        place = f' <span class="place">{where}</span>' if where else ""
        if is_answer and not is_required:
            place += ' <span class="place">optional</span>'
        elif is_required and not is_answer:
            place += ' <span class="mark">required</span>'
        head = f'<th scope="row"><code>{escape(name)}</code>{place}</th>'
        return f"<tr>{head}<td>{self._type(schema, is_answer=is_answer)}</td><td>{said}</td></tr>"

    def _type(self, schema: _Schema, *, is_answer: bool = False) -> str:
        reference = schema.get("$ref")
        if reference:
            name = reference.removeprefix(_REFERENCE)
            self._mentioned.setdefault(name, is_answer)
            return f'<a href="#schema-{name}">{name}</a>'
        if "enum" in schema:
            return " or ".join(_value(one) for one in schema["enum"] if one is not None or is_answer)
        if "const" in schema:
            return _value(schema["const"])
        if "anyOf" in schema:
            kinds = [one for one in schema["anyOf"] if is_answer or one.get("type") != "null"]
            return " or ".join(dict.fromkeys(self._type(one, is_answer=is_answer) for one in kinds))
        kind = schema.get("type", "anything")
        if kind == "array":
            return f"list of {self._type(schema.get('items', {}), is_answer=is_answer)}"
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, dict) and values:
            return f"object of {self._type(values, is_answer=is_answer)}"
        return escape(kind)

    def _resolved(self, schema: _Schema) -> _Schema:
        reference = schema.get("$ref")
        return self._schemas[reference.removeprefix(_REFERENCE)] if reference else schema

    def _shapes(self) -> str:
        """Return the shapes that the routes mention, and those that these mention."""
        written: dict[str, str] = {}
        while waiting := [name for name in self._mentioned if name not in written]:
            for name in waiting:
                table = self._fields("", self._schemas[name], is_answer=self._mentioned[name])
                title = f'<h3 id="schema-{name}">{name}</h3>'
                written[name] = f'<article class="card shape">{title}{table}</article>'
        cards = "".join(written[name] for name in sorted(written))
        return f'<section><h2 id="schemas">Schemas</h2>{cards}</section>'


def _table(title: str, rows: list[str], about: str = "") -> str:
    if not rows:
        return ""
    title = f"<h3>{title}</h3>" if title else ""
    return f"{title}{about}<table>{_HEAD}<tbody>{''.join(rows)}</tbody></table>"


def _access(operation: _Schema) -> str:
    if not operation["security"]:
        return "No key is needed."
    [scope] = operation["security"][0]["bearer"]
    return f"If the server has keys, this needs one with the scope <code>{escape(scope)}</code>."


def _limits(schema: _Schema) -> str:
    """Return the limits of a field in words."""
    found: list[str] = []
    for one in (schema, *schema.get("anyOf", ())):
        found += _limits_of(one)
    return escape("; ".join(dict.fromkeys(found))).capitalize() + "." if found else ""


def _limits_of(schema: _Schema) -> Iterator[str]:
    least, most = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if above is not None:
        yield f"more than {_number(above)}" + (f", at most {_number(most)}" if most is not None else "")
    elif least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}"
    elif least is not None:
        yield f"at least {_number(least)}"
    elif most is not None:
        yield f"at most {_number(most)}"
    for name, singular, unit in _UNITS:
        if (at_least := schema.get(f"min{name}", 0)) > 0:
            yield f"at least {_number(at_least)} {unit if at_least > 1 else singular}"
        if (at_most := schema.get(f"max{name}")) is not None:
            yield f"at most {_number(at_most)} {unit}"


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else str(value)


def _default(schema: _Schema) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"Default: {_value(value)}."


def _value(value: Any) -> str:
    said = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"<code>{escape(said)}</code>"


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def _paragraphs(text: str) -> str:
    parts: Iterable[str] = filter(None, text.split("\n\n"))
    return "".join(f"<p>{_inline(part)}</p>" for part in parts)


def _anchor(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))
