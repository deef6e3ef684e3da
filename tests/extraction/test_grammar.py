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


@pytest.mark.parametrize(
    ("pieces", "facts", "items", "is_allowed"),
    [
        (2, [(8, 8)], [], True),
        (2, [(9, 1)], [], False),
        (2, [(1, 9)], [], False),
        (3, [(16, 8)], [], True),
        (3, [(17, 1)], [], False),
        (3, [(8, 16)], [], True),
        (3, [(8, 17)], [], False),
        (4, [(24, 8)], [], True),
        (4, [(8, 8), (8, 8)], [], True),
        (3, [(8, 8), (8, 8)], [], False),
        (3, [], [(1, 1)], False),
        (4, [], [(8, 8)], True),
        (4, [], [(9, 1)], False),
        (5, [], [(16, 8)], True),
        (5, [], [(8, 16)], True),
        (5, [], [(8, 17)], False),
        (6, [(8, 8)], [(8, 8)], True),
        (5, [(8, 8)], [(8, 8)], False),
    ],
)
def test_an_answer_has_eight_bytes_for_each_piece(pieces, facts, items, is_allowed, accepts):
    answer = {
        "facts": {"abcd"[i] * key: "v" * value for i, (key, value) in enumerate(facts)},
        "context": [{"q": "q" * question, "a": "a" * answer} for question, answer in items],
    }

    assert accepts(bounded_grammar(32 + 8 * pieces), json.dumps(answer)) is is_allowed


@pytest.mark.parametrize(
    ("pieces", "key", "is_allowed"),
    [
        (3, "abcde" + "é" + "fghijkl", True),
        (3, "abcdef" + "é" + "g", False),
        (4, "abcdef" + "é" + "ghijklm", True),
        (4, "abcdefgh" + "é" + "ghijklm", True),
        (4, "abcdefgh" + "é" + "ghijklmn", False),
        (3, "é" + "abcdefgh" + "ijklmno", True),
    ],
)  # fmt: skip
def test_a_letter_of_several_bytes_takes_a_piece_with_what_is_before_it(pieces, key, is_allowed, accepts):
    answer = json.dumps({"facts": {key: "v"}, "context": []}, ensure_ascii=False)

    assert accepts(bounded_grammar(32 + 8 * pieces), answer) is is_allowed
