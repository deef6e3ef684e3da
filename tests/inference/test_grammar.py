"""Answers that must follow a grammar: always valid, whatever the weights say; bad grammars are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd.errors import ModelError, UsageError
from shepherd.inference import Engine, EngineSettings, load_check, schema_to_grammar
from shepherd.inference.grammar import check_grammar, rename_rules
from shepherd.types import Message, Sampling
from tests import models
from tests.conftest import SCRIPT
from tests.inference.engines import KINDS, exact_settings, run_to_end
from tests.inference.malformed import without_numbers

GREEDY = Sampling(temperature=0.0)
WILD = {"temperature": 1.2, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
HELLO = [Message("user", "hello")]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
        "age": {"type": "integer"},
        "alive": {"type": "boolean"},
    },
    "required": ["name", "tags", "age", "alive"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def engine(plain_model: Path) -> Iterator[Engine]:
    with Engine(plain_model, settings=exact_settings(n_ctx=1024)) as engine:
        yield engine


def test_random_weights_say_valid_json_of_the_schema(engine: Engine) -> None:
    grammar = schema_to_grammar(SCHEMA)

    for seed in range(30):
        generation = engine.generate(
            HELLO, grammar=grammar, sampling=Sampling(seed=seed, **WILD), max_tokens=400
        )
        text = run_to_end(generation)

        assert generation.stats.finish_reason == "stop"
        value = json.loads(text)
        assert list(value) == list(SCHEMA["properties"])
        assert isinstance(value["age"], int)
        assert len(value["tags"]) <= 3


@pytest.mark.parametrize("kind", [*KINDS, "spm"])
def test_every_kind_of_model_follows_the_grammar(kind: str, model_file: Callable[[str], Path]) -> None:
    grammar = schema_to_grammar({"type": "object", "additionalProperties": {"type": "string"}})

    with Engine(model_file(kind), settings=exact_settings(n_ctx=512)) as engine:
        for seed in range(8):
            sampling = Sampling(seed=seed, **WILD)
            generation = engine.generate(HELLO, grammar=grammar, sampling=sampling, max_tokens=120)
            text = run_to_end(generation)

            assert text.startswith("{")
            assert "\ufffd" not in text.rstrip("\ufffd")  # at the cut, half a character may be left
            if generation.stats.finish_reason == "stop":
                assert all(isinstance(value, str) for value in json.loads(text).values())


def test_greedy_answer_that_fits_is_the_one_without_a_grammar(endless_model: Path) -> None:
    with Engine(endless_model, settings=exact_settings(n_ctx=512)) as engine:
        free = engine.generate(HELLO, sampling=GREEDY, max_tokens=200)
        run_to_end(free)
        bound = engine.generate(HELLO, sampling=GREEDY, max_tokens=200, grammar="root ::= [ -~]*")
        run_to_end(bound)

    assert bound.token_ids == free.token_ids


def test_penalties_and_seeds_see_each_token_once(endless_model: Path) -> None:
    sampling = Sampling(seed=7, repeat_penalty=1.3, repeat_last_n=20)
    with Engine(endless_model, settings=exact_settings(n_ctx=512)) as engine:
        free = engine.generate(HELLO, sampling=sampling, max_tokens=200)
        run_to_end(free)
        bound = engine.generate(HELLO, sampling=sampling, max_tokens=200, grammar="root ::= [ -~]*")
        run_to_end(bound)

    assert bound.token_ids == free.token_ids


def test_a_refused_token_gives_way_to_the_likeliest_one_that_fits(scripted_model: Path) -> None:
    with Engine(scripted_model, settings=exact_settings()) as engine:
        generation = engine.generate(HELLO, sampling=GREEDY, grammar='root ::= "Hello, you"')

        assert run_to_end(generation) == "Hello, you"
        assert generation.stats.finish_reason == "stop"


def test_the_end_is_refused_until_the_grammar_allows_it(scripted_model: Path) -> None:
    whole = "".join(SCRIPT)
    with Engine(scripted_model, settings=exact_settings()) as engine:
        text = run_to_end(engine.generate(HELLO, sampling=GREEDY, grammar=f'root ::= "{whole}" "!!!"'))

    assert text == whole + "!!!"


def test_stop_strings_and_max_tokens_end_a_bound_answer(engine: Engine) -> None:
    letters = engine.generate(HELLO, grammar='root ::= "one two three" [a-z]*', stop=["three"])
    assert run_to_end(letters) == "one two "
    assert letters.stats.finish_reason == "stop"

    endless = engine.generate(HELLO, grammar='root ::= "a" root', max_tokens=40)
    run_to_end(endless)
    assert endless.stats.finish_reason == "length"


def test_characters_outside_ascii_come_whole(engine: Engine) -> None:
    text = "naïve 火 \U0001f600"
    generation = engine.generate(HELLO, grammar=f'root ::= "{text}"')

    assert run_to_end(generation) == text
    assert engine.model.vocabulary.detokenize(generation.token_ids).decode() == text


def test_overlong_bytes_cannot_pose_as_the_end_of_a_string(tmp_path: Path) -> None:
    """0xC0 0xA2 is a quotation mark to a careless reader: for a careful one the string would never end."""
    path = tmp_path / "overlong.gguf"
    alphabet = models.byte_alphabet()
    models.scripted(path, ['"', alphabet[0xC0], alphabet[0xA2]], as_bytes=True)
    with Engine(path, settings=exact_settings()) as engine:
        grammar = schema_to_grammar({"type": "string", "maxLength": 5})

        text = run_to_end(engine.generate(HELLO, sampling=GREEDY, grammar=grammar))

    assert "\ufffd" not in text
    assert isinstance(json.loads(text), str)


def test_cancel_ends_a_bound_answer(engine: Engine) -> None:
    generation = engine.generate(HELLO, grammar='root ::= "a" root', max_tokens=900)
    next(generation)
    generation.cancel()
    run_to_end(generation)

    assert generation.stats.finish_reason == "cancelled"


def test_the_next_answer_is_free_again_and_reuses_the_cache(engine: Engine) -> None:
    first = engine.generate(HELLO, grammar='root ::= "yes" | "no"')
    text = run_to_end(first)
    again = engine.generate(HELLO, grammar='root ::= "yes" | "no"', sampling=GREEDY)
    run_to_end(again)
    free = engine.generate(HELLO, sampling=GREEDY, max_tokens=5)
    run_to_end(free)

    assert text in ("yes", "no")
    assert free.stats.reused_tokens == free.stats.prompt_tokens - 1
    assert free.text not in ("yes", "no")


@pytest.mark.parametrize(
    "grammar",
    [
        " ",
        "nonsense",
        'x ::= "a"',
        "root ::= missing",
        'root ::= "a',
        "root ::= [a",
        'root ::= "a\\q"',
        'root ::= ("a"',
        'root ::= "a")',
        'root ::= "a"{3,1}',  # llama.cpp's parser never returns
        'root ::= "a"{99999999}',
        "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000,  # its stack overflows
        'root ::= root "a" | "b"',
        'root ::= "a\0"',
        'root ::= "\ud800"; \0',
        "".join(f"rule{i} ::= rule{i + 1}\n" for i in range(5000)) + 'rule5000 ::= "a"\nroot ::= rule0',
    ],
    ids=lambda grammar: ascii(grammar[:24]),
)
def test_what_is_no_grammar_is_refused(engine: Engine, grammar: str) -> None:
    with pytest.raises(UsageError, match="grammar"):
        engine.generate(HELLO, grammar=grammar)

    assert run_to_end(engine.generate(HELLO, grammar='root ::= "fine"')) == "fine"


def test_grammar_that_no_token_can_follow_is_an_error_and_not_an_answer(engine: Engine) -> None:
    with pytest.raises(ModelError, match="no token"):
        list(engine.generate(HELLO, grammar="root ::= [^\\x00-\\U0010FFFF]"))

    assert run_to_end(engine.generate(HELLO, grammar='root ::= "fine"')) == "fine"


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_biases_that_leave_nothing_to_the_grammar_end_this_answer_alone(
    endless_model: Path, temperature: float
) -> None:
    """Without an end, the same refused token was drawn for ever, and remembered each time."""
    with Engine(endless_model, settings=replace(exact_settings(n_ctx=1024), slots=2)) as engine:
        n_vocab = engine.info.n_vocab
        first = [i for i in range(n_vocab) if engine.detokenize([i]).startswith(b"a")]
        other = engine.generate(HELLO, max_tokens=200, sampling=GREEDY)
        for forbidden, grammar in ((first, 'root ::= "a" [a-z]*'), (range(n_vocab), "")):
            biases = tuple((i, -math.inf) for i in forbidden)
            sampling = Sampling(temperature=temperature, logit_bias=biases)

            with pytest.raises(ModelError, match="no token that the grammar and logit_bias allow"):
                list(engine.generate(HELLO, grammar=grammar, sampling=sampling))

        assert run_to_end(other) == run_to_end(engine.generate(HELLO, max_tokens=200, sampling=GREEDY))


@pytest.mark.parametrize("grammar", ["", "root ::= [a-z]*"])
def test_values_that_are_not_numbers_are_an_error_and_not_an_answer(
    plain_model: Path, tmp_path: Path, grammar: str
) -> None:
    path = without_numbers(plain_model, "output_norm.weight", slice(None), tmp_path / "model.gguf")
    load_check.vouch(path)

    with Engine(path, settings=exact_settings(n_ctx=1024)) as engine:
        for _ in range(2):  # nothing of it is kept
            answer = engine.generate(HELLO, grammar=grammar, max_tokens=20)
            with pytest.raises(ModelError, match="not numbers"):
                list(answer)
            assert answer.stats.reused_tokens == 0


def test_json_in_strings_has_no_raw_control_characters(engine: Engine) -> None:
    assert '[^"\\\\\\x00-\\x1F\\x7F]' in schema_to_grammar({"type": "string"})


def test_renamed_rules_keep_their_texts_to_the_last_one() -> None:
    grammar = 'root ::= "b" b # b\nb ::= [b]{1,2} | root-b\nroot-b ::= "x"'

    assert rename_rules(grammar, "t-") == (
        't-root ::= "b" t-b # b\nt-b ::= [b]{1,2} | t-root-b\nt-root-b ::= "x"'
    )


def test_schema_that_cannot_be_said_is_refused() -> None:
    with pytest.raises(UsageError, match="schema"):
        schema_to_grammar({"$ref": "https://example.invalid/schema.json#/missing"})


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        ({"type": "string", "minLength": 300, "maxLength": 500}, 300, 500),
        ({"type": "string", "pattern": "^[a-z]{250,300}$"}, 250, 300),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 20, "maxItems": 250}, 20, 250),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 1990}, 0, 1990),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 3}, 3, 10_000),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 0}, 0, 0),
        ({"type": "string", "maxLength": 2000}, 0, 2000),
        ({"type": "string", "minLength": 4, "maxLength": 4.0}, 4, 4),
    ],
    ids=lambda value: str(value)[:60],
)
def test_bounds_of_a_schema_hold(plain_model: Path, schema: dict, least: int, most: int) -> None:
    grammar = schema_to_grammar(schema)
    with Engine(plain_model, settings=exact_settings(n_ctx=8192)) as engine:
        for seed in range(3):
            sampling = Sampling(seed=seed, **WILD)
            generation = engine.generate(HELLO, grammar=grammar, sampling=sampling, max_tokens=8000)
            text = run_to_end(generation)
            if generation.stats.finish_reason == "stop":
                assert least <= len(json.loads(text)) <= most
                return
    assert generation.stats.finish_reason == "length"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "array", "items": {"type": "integer"}, "minItems": 10**9}, "minItems 1,000,000,000"),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 1991}, "maxItems 1,991"),
        ({"properties": {"a": {"type": "string", "maxLength": 2001}}, "type": "object"}, "maxLength 2,001"),
        ({"type": "string", "minLength": -1}, "minLength -1"),
        ({"type": "string", "maxLength": 2.5}, "maxLength 2.5"),
        ({"type": "string", "minLength": 5, "maxLength": 3}, "maxLength 3"),
        ({"type": "string", "pattern": "^a{1000000000}$"}, "a pattern that repeats 1,000,000,000"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_bounds_that_no_grammar_has_are_named(schema: dict, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        schema_to_grammar(schema)

    assert str(caught.value) == f"the JSON schema cannot be made a grammar: {told}"
    assert "up to 2,000" in caught.value.hint


def test_schema_with_many_large_bounds_is_refused_as_a_schema() -> None:
    members = {f"field{i}": {"type": "string", "maxLength": 2000 - i} for i in range(51)}

    with pytest.raises(UsageError, match=r"the JSON schema cannot be made a grammar: .* 100000 repetitions"):
        schema_to_grammar({"type": "object", "properties": members, "required": list(members)})


def test_many_repetitions_of_a_written_grammar_are_refused_by_their_sum() -> None:
    def repeating(times: int) -> str:
        return "root ::= " + " ".join(['"a"{1,2000}'] * times)

    check_grammar(repeating(50))

    with pytest.raises(UsageError, match="100000 repetitions in all"):
        check_grammar(repeating(51))


def test_completion_below_the_chat_follows_a_grammar_too(plain_model: Path) -> None:
    with Engine(plain_model, settings=EngineSettings(n_ctx=256, n_threads=1)) as engine:
        assert run_to_end(engine.complete([1, 2, 3], grammar='root ::= "abc"')) == "abc"


def test_grammar_that_can_be_read_in_ever_more_ways_ends_its_answer_and_stops_nobody(
    endless_model: Path,
) -> None:
    """Twice as many ways after each letter: the fourteenth took 4 s, the thirtieth would never have ended."""
    rules = [f's{i} ::= "a" s{i + 1} "x" | "a" s{i + 1} "y"' for i in range(40)]
    grammar = "\n".join(["root ::= s0", *rules, 's40 ::= "z"'])
    with Engine(endless_model, settings=EngineSettings(n_ctx=256, n_threads=1, slots=2)) as engine:
        ambiguous = engine.complete([1, 2, 3], grammar=grammar, max_tokens=60)
        with pytest.raises(ModelError, match="ambiguous"):
            run_to_end(ambiguous)

        assert set(ambiguous.text) == {"a"}
        assert run_to_end(engine.complete([1, 2, 3], grammar='root ::= "abc"')) == "abc"
