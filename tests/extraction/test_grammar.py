"""The grammar of answers that end within a number of tokens."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shepherd.extraction import parse_answer
from shepherd.extraction.request import bounded_grammar
from shepherd.inference import Engine
from shepherd.inference.grammar import check_grammar
from shepherd.types import Message, Sampling
from tests import models
from tests.inference.engines import exact_settings, run_to_end

HELLO = [Message("user", "hello")]


@pytest.fixture
def accepts(tmp_path) -> Callable[[str, str], bool]:
    """Whether a model that says just this text can say it under the grammar, and end."""

    def accepts(grammar: str, text: str) -> bool:
        alphabet = models.byte_alphabet()
        spelt = "".join(alphabet[byte] for byte in text.encode())
        models.scripted(tmp_path / "model.gguf", [spelt], as_bytes=True)
        with Engine(tmp_path / "model.gguf", settings=exact_settings(n_ctx=256)) as engine:
            greedy = Sampling(temperature=0.0)
            generation = engine.generate(HELLO, grammar=grammar, sampling=greedy, max_tokens=2)
            said = run_to_end(generation)
            return said == text and generation.stats.finish_reason == "stop"

    return accepts


@pytest.mark.parametrize("most_tokens", [64, 100, 200])
def test_every_answer_of_random_weights_ends_in_time(plain_model, most_tokens):
    grammar = bounded_grammar(most_tokens)
    with Engine(plain_model, settings=exact_settings(n_ctx=1024)) as engine:
        for seed in range(8):
            wild = Sampling(seed=seed, temperature=2.0, top_k=0, top_p=1.0, min_p=0.0)
            generation = engine.generate(HELLO, grammar=grammar, sampling=wild, max_tokens=most_tokens)
            text = run_to_end(generation)

            assert generation.stats.finish_reason == "stop"
            assert set(json.loads(text)) == {"facts", "context"}
            parse_answer(text)


def test_any_budget_gives_a_grammar():
    sizes = []
    for most_tokens in (16, 31, 32, 40, 48, 56, 64, 72, 80, 512, 4096, 1 << 20):
        check_grammar(bounded_grammar(most_tokens))
        sizes.append(len(bounded_grammar(most_tokens)))

    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "answer",
    [
        {"facts": {}, "context": []},
        {"facts": {"name": "Ann", "favorite_color": "mint green"}, "context": []},
        {
            "facts": {"city": "Île-de-France 東京"},
            "context": [{"q": "What does the user say?", "a": 'a "b" \\'}],
        },
        {"facts": {}, "context": [{"q": "When is the user's lunch with Bo?", "a": "Friday at 12:40 pm"}] * 4},
    ],
)
def test_ordinary_answers_are_allowed(answer, accepts):
    assert accepts(bounded_grammar(512), json.dumps(answer, ensure_ascii=False))
    assert not accepts(bounded_grammar(512), json.dumps(answer, ensure_ascii=False)[:-1])


def test_an_endless_value_is_not_allowed(accepts):
    answer = {"facts": {"name": "a" * 600}, "context": []}

    assert not accepts(bounded_grammar(512), json.dumps(answer))
    assert accepts(bounded_grammar(1024), json.dumps(answer))
