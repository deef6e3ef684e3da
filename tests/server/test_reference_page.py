"""The page that describes the API: what it says about a field, from a small document."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shepherd.server.reference.html import page_of

NOTE = {"$ref": "#/components/schemas/Note"}


def page(properties: dict[str, Any], required: tuple[str, ...] = (), **operation: Any) -> str:
    """Return the page of a document with one route, whose body has these fields."""
    body = {"type": "object", "properties": properties, "required": list(required)}
    route = {
        "tags": ["Notes"], "operationId": "add_note", "summary": "Add `one` note", "security": [],
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"200": {"content": {"application/json": {"schema": NOTE}}}},
        **operation,
    }  # fmt: skip
    note = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
        "required": ["id"],
    }
    document = {
        "info": {"description": "About it."}, "tags": [{"name": "Notes", "description": "Texts."}],
        "paths": {"/notes/{id}": {"post": route}}, "components": {"schemas": {"Note": note}},
    }  # fmt: skip
    return page_of(document)


def rows(html: str) -> dict[str, list[str]]:
    """Return type and notes of each field, without tags, by name and what stands beside it."""
    found = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td></tr>', html)
    plain = [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in found]
    return {name: cells for name, *cells in plain}


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"minimum": 1, "maximum": 2000}, "1 to 2,000."),
        ({"minimum": 0}, "At least 0."),
        ({"maximum": 0.5}, "At most 0.5."),
        ({"exclusiveMinimum": 0}, "More than 0."),
        ({"exclusiveMinimum": 0, "maximum": 1}, "More than 0, at most 1."),
        ({"minLength": 0}, ""),
        ({"minLength": 1}, "At least 1 character."),
        ({"minLength": 2, "maxLength": 3}, "At least 2 characters; at most 3 characters."),
        ({"minItems": 1, "maxItems": 4}, "At least 1 entry; at most 4 entries."),
        ({"maxProperties": 16}, "At most 16 entries."),
        ({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]}, "At most 9 characters."),
        ({"default": False}, "Default: false."),
        ({"default": []}, ""),
        ({"default": 3, "maximum": 5, "description": "How `many`."}, "How many. At most 5. Default: 3."),
    ],
)
def test_limits_and_defaults_of_a_field_are_said_in_words(schema: dict[str, Any], note: str) -> None:
    assert rows(page({"field": schema}))["field"][1] == note


def test_fields_say_their_type_and_whether_they_are_needed() -> None:
    shown = rows(
        page(
            {
                "text": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "kind": {"enum": ["a", "b", None]},
                "note": {"anyOf": [NOTE, {"type": "null"}]},
                "more": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            required=("text",),
            parameters=[{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        )
    )

    assert {name: cells[0] for name, cells in shown.items()} == {
        "id path required": "string",
        "text required": "string",
        "tags": "list of string",
        "kind": "a or b",
        "note": "Note",
        "more": "object of integer",
        # Of the answer.
        "id": "integer",
        "text optional": "string",
        # Of the shape by itself, which the body mentions first.
        "id required": "integer",
        "text": "string",
    }


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ([], "No key is needed."),
        ([{"bearer": ["chat"]}], "If the server has keys, this needs one with the scope <code>chat</code>."),
    ],
)
def test_a_route_says_which_key_it_needs(security: list[Any], said: str) -> None:
    html = page({}, security=security)

    assert said in html
    assert '<code class="path">/notes/<wbr>{id}</code>' in html
    assert "Add <code>one</code> note" in html
