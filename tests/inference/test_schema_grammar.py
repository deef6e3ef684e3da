"""JSON schemas as grammars: whatever a model without a plan says, it is JSON and matches the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shepherd.errors import UsageError
from shepherd.inference import Engine, schema_to_grammar
from shepherd.types import Message, Sampling
from tests import models
from tests.inference.engines import exact_settings, run_to_end

HELLO = [Message("user", "hello")]
NULL, BOOLEAN = {"type": "null"}, {"type": "boolean"}


def members(required: str, /, *, schema: Any = NULL, **properties: Any) -> dict[str, Any]:
    """An object with these members; those whose names are no words are in `schema`."""
    return {"type": "object", "properties": properties or schema, "required": required.split()}


def pattern(text: str) -> dict[str, str]:
    return {"type": "string", "pattern": text}


NODE = members("kids", kids={"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/N"}})
SCHEMAS: dict[str, dict[str, Any]] = {
    # texts that JSON or GBNF write with a backslash, and others
    "enum": {"enum": ["C:\\temp", "a\nb", 'say "hi"', "größe", "😀", "\x7f\x00", "\ud800", "\u2028"]},
    "enum of all types": {"enum": [{"k": ['"', "\\"]}, None, False, 1.50, -3]},
    "const": {"const": {"a\\": "\t"}},
    "names": members('a"b', schema={'a"b': NULL, "c\\d": NULL, "größe": NULL, "a-b": BOOLEAN, "a_b": NULL}),
    # patterns
    "digits": pattern(r"^\d{5}$"),
    "words": pattern(r"^\w{1,3}\s\S\D\W$"),
    "escaped": pattern(r'^a\.b\\\/"\t\x41\u0042$'),
    "dots": pattern("^.{2}$"),
    "classes": pattern(r"^[^\"a-y\\]{2}[\]a-]?[\d_]$"),
    "groups": pattern(r"^(?:\+49|0)(cat|dog)?x{0}b+?$"),
    "beyond ASCII": pattern("^[😀-😂]é$"),
    "without anchors": pattern(r"^\w|,$"),
    # types
    "types with enum": {"type": ["string", "null"], "enum": ["red", 5, None]},
    "types": {"type": ["integer", "array", "null"], "items": NULL, "maxItems": 2},
    "whole numbers": {"type": "integer", "minimum": 1, "exclusiveMaximum": 4},
    "signs": {"type": "number", "minimum": 0},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "date-time"},
    # references
    "root is a reference": {"$defs": {"N": NODE}, "$ref": "#/$defs/N"},
    "root in itself": members("kid", kid={"anyOf": [NULL, {"$ref": "#"}]}),
    "reference to an escaped name": {"$defs": {"a/b ~": NULL}, "$ref": "#/$defs/a~1b%20~0"},
    "names like those of references": {
        **members("N", N=NULL, M={"$ref": "#/$defs/N"}, string={"$ref": "#/$defs/string"}),
        "$defs": {"N": BOOLEAN, "string": {"enum": [1]}},
    },
    # several schemas
    "anyOf beside others": {
        **members("", a=NULL, b=NULL),
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "allOf": {
        "allOf": [{"$ref": "#/$defs/A"}, members("x", x={"enum": [1, "a", 2.5]})],
        "$defs": {"A": members("y", x={"type": "integer"}, y=NULL)},
    },
    "impossible alternatives": {"anyOf": [{"allOf": [NULL, BOOLEAN]}, False, {"const": 1}]},
    # members
    "optional": members("c", a=NULL, b=NULL, c=NULL, d=NULL),
    "all optional": members("", a=NULL, b=NULL, c=NULL),
    "any value": members("a b", a=True, b={"description": "of any type"}, c=False),
    "others": {**members("ab", a=NULL, ab=NULL), "additionalProperties": {"type": "integer"}},
    "required without a schema": {"type": "object", "required": ["z"], "additionalProperties": BOOLEAN},
    # arrays
    "places": {"type": "array", "prefixItems": [NULL], "items": BOOLEAN, "minItems": 3},
    "no items": {"type": "array", "items": False},
}  # fmt: skip


@pytest.fixture(scope="module")
def engine(endless_model: Path) -> Iterator[Engine]:
    with Engine(endless_model, settings=exact_settings(n_ctx=1024)) as engine:
        yield engine


def said(engine: Engine, schema: dict[str, Any], seeds: int = 6) -> list[str]:
    """What random answers say that come to their end."""
    # Strings and lists that end sooner.
    biases = tuple((token, 4.0) for token in b'"]}')
    grammar, found = schema_to_grammar(schema), []
    for seed in range(seeds):
        answer = engine.generate(
            HELLO, grammar=grammar, sampling=Sampling(seed=seed, logit_bias=biases), max_tokens=60
        )
        text = run_to_end(answer)
        found += [text] if answer.stats.finish_reason == "stop" else []
    return found


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_random_answers_match_their_schema(engine: Engine, schema: dict[str, Any]) -> None:
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    texts = said(engine, schema)

    assert texts
    for text in texts:
        checker.validate(json.loads(text))


def test_object_that_names_no_members_has_none(engine: Engine) -> None:
    """Arguments of a tool without parameters: anything else would only take time."""
    texts = said(engine, {"type": "object", "properties": {}}, seeds=2)

    assert [json.loads(text) for text in texts] == [{}, {}]


def test_members_of_each_object_keep_its_own_order(engine: Engine) -> None:
    inner = members("answer reason", answer=NULL, reason=NULL)

    for text in said(engine, members("reason answer", reason=NULL, answer=inner), seeds=2):
        value = json.loads(text)
        assert (list(value), list(value["answer"])) == (["reason", "answer"], ["answer", "reason"])


def test_other_members_have_no_raw_control_characters(tmp_path: Path) -> None:
    schema = {**members("", schema={"a\nb": NULL}), "additionalProperties": NULL}
    alphabet = models.byte_alphabet()

    def is_said(text: str) -> bool:
        path = tmp_path / f"{len(text)}.gguf"
        models.scripted(path, ["".join(alphabet[byte] for byte in text.encode())], as_bytes=True)
        with Engine(path, settings=exact_settings(n_ctx=256)) as engine:
            answer = engine.generate(
                HELLO, grammar=schema_to_grammar(schema), sampling=Sampling(temperature=0.0), max_tokens=2
            )
            return run_to_end(answer) == text and answer.stats.finish_reason == "stop"

    assert is_said('{"a": null}')
    assert not is_said('{"a\nc": null}')


def test_objects_with_many_and_long_names_can_have_other_members() -> None:
    names = [f"{number * 7919 % 1000:03}_a_name_of_an_ordinary_length" for number in range(200)]

    assert schema_to_grammar(
        {**members("", schema=dict.fromkeys([*names, "long" * 500], NULL)), "additionalProperties": True}
    )


REFUSED: dict[str, tuple[Any, str]] = {
    "look": (pattern("^(?=a)a$"), "pattern '^(?=a)a$': (?=a is not supported"),
    "boundary": (pattern(r"^\bword$"), r"\b is not supported"),
    "reference": (pattern(r"^(a)\1$"), r"\1 is not supported"),
    "unbalanced": (pattern("^[a$"), "it has a [ without ]"),
    "inside": (pattern("^(^a)$"), "it has ^ or $ inside"),
    "not a pattern": ({"type": "string", "pattern": 5}, "pattern is not a text"),
    "missing": ({"$ref": "#/$defs/A"}, "$ref '#/$defs/A' names nothing in it"),
    "itself": ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "leads to itself"),
    "no type": ({"type": "strnig"}, "type 'strnig'"),
    "no enum": ({"enum": "a"}, "enum is not a list"),
    "empty enum": ({"type": "integer", "enum": ["a"]}, "enum allows no value of the type"),
    "nothing": (members("a", a=False), "false allows no value"),
    "no schema": (members("a", a=[]), "'[]' stands where a schema must be"),
    "infinite": ({"type": "string", "maxLength": float("inf")}, "a number in it is too large"),
    "no number": ({"type": "string", "minLength": float("nan")}, "minLength is not a number"),
    "a place that is no number": ({"$ref": "#/anyOf/" + "1" * 5000, "anyOf": [NULL]}, "names nothing in it"),
    "another file": ({"$ref": "other.json#/a"}, "is no path in this schema, such as #/$defs/name"),
    "not alone": ({"not": NULL}, "not, without a type beside it"),
    "a bomb": (
        {
            "$ref": "#/$defs/0",
            "$defs": {"40": {}, **{f"{i}": {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(40)}},
        },
        "more than 20,000 schemas",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "says"), REFUSED.values(), ids=REFUSED)
def test_schema_that_no_grammar_can_say_is_refused_by_the_keyword(schema: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        schema_to_grammar(schema)

    assert str(caught.value).startswith("the JSON schema cannot be made a grammar: ")
    assert says in str(caught.value)
    assert caught.value.hint
