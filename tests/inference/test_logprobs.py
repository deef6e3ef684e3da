"""Log-probabilities of the tokens: against llama_cpp's own logits, and in step with the text."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from llama_cpp import GGML_TYPE_F32, Llama

from shepherd.errors import UsageError
from shepherd.inference import Engine, Generation
from shepherd.types import Message, Sampling
from tests import models
from tests.conftest import SCRIPT
from tests.inference.engines import exact_settings, run_to_end

GREEDY = Sampling(temperature=0.0)
HELLO = [Message("user", "hello")]
PROMPT = list(range(40, 70))


def open_engine(path: Path) -> Engine:
    return Engine(path, settings=exact_settings())


def log_softmax(path: Path, ids: list[int]) -> np.ndarray:
    """One row for each id: what llama_cpp's own class gives for the token after it."""
    peer = Llama(
        str(path),
        n_ctx=512,
        n_threads=1,
        n_threads_batch=1,
        type_k=GGML_TYPE_F32,
        type_v=GGML_TYPE_F32,
        logits_all=True,
        verbose=False,
    )
    peer.eval(ids)
    logits = np.array(peer.scores[: len(ids)], dtype=np.float64)
    peer.close()
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def answer_with_logprobs(path: Path, sampling: Sampling, n: int, grammar: str = "") -> Generation:
    with open_engine(path) as engine:
        generation = engine.complete(PROMPT, sampling=sampling, max_tokens=24, logprobs=n, grammar=grammar)
        run_to_end(generation)
    return generation


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        Sampling(seed=3, temperature=1.4, top_k=5),
        Sampling(seed=4, temperature=0.3, repeat_penalty=1.5),
    ],
)
def test_values_are_the_log_softmax_of_the_raw_logits(sampling: Sampling, endless_model: Path) -> None:
    generation = answer_with_logprobs(endless_model, sampling, 20)

    found = generation.logprobs
    expected = log_softmax(endless_model, [*PROMPT, *generation.token_ids])[len(PROMPT) - 1 :]
    assert [token.token_id for token in found] == list(generation.token_ids)
    for token, row in zip(found, expected, strict=False):
        likeliest = np.sort(row)[::-1][:20]
        assert math.isclose(token.logprob, row[token.token_id], abs_tol=1e-4)
        np.testing.assert_allclose([other.logprob for other in token.top], likeliest, atol=1e-4)
        np.testing.assert_allclose(likeliest, row[[other.token_id for other in token.top]], atol=1e-4)
        assert sum(math.exp(other.logprob) for other in token.top) < 1


@pytest.mark.parametrize("grammar", ["", "root ::= [a-z ]+"])
def test_values_after_sampling_are_those_of_what_the_samplers_left(grammar: str, endless_model: Path) -> None:
    sampling = Sampling(seed=3, temperature=0.5, top_k=3, top_p=1.0, min_p=0.0)
    with open_engine(endless_model) as engine:
        options = {"sampling": sampling, "max_tokens": 12, "grammar": grammar}
        runs = [
            engine.complete(PROMPT, **options, logprobs=n, after_sampling=after)
            for n, after in ((20, False), (20, True), (None, False))
        ]
        for run in runs:
            run_to_end(run)
    before, after, plain = runs

    assert after.token_ids == before.token_ids == plain.token_ids
    for raw, left in zip(before.logprobs, after.logprobs, strict=True):
        assert len(left.top) <= 3
        assert sum(math.exp(one.logprob) for one in left.top) == pytest.approx(1, abs=1e-5)
        if grammar:
            continue
        # The three likeliest, with half the temperature.
        weights = [math.exp(one.logprob / 0.5) for one in raw.top[:3]]
        assert [one.token_id for one in left.top] == [one.token_id for one in raw.top[:3]]
        for one, weight in zip(left.top, weights, strict=True):
            assert math.exp(one.logprob) == pytest.approx(weight / sum(weights), rel=1e-3)


def test_greedy_answer_takes_the_likeliest_token_each_time(endless_model: Path) -> None:
    generation = answer_with_logprobs(endless_model, GREEDY, 1)

    assert len(generation.logprobs) == 24
    for token in generation.logprobs:
        assert [(other.token_id, other.logprob) for other in token.top] == [(token.token_id, token.logprob)]


def test_grammar_does_not_change_what_the_model_thought(endless_model: Path) -> None:
    generation = answer_with_logprobs(endless_model, GREEDY, 3, grammar='root ::= "zebra crossing"')

    assert generation.text == "zebra crossing"
    rows = log_softmax(endless_model, [*PROMPT, *generation.token_ids])[len(PROMPT) - 1 :]
    for token, row in zip(generation.logprobs, rows, strict=False):
        assert math.isclose(token.logprob, row[token.token_id], abs_tol=1e-4)
        assert math.isclose(token.top[0].logprob, row.max(), abs_tol=1e-4)


def test_pieces_of_the_tokens_are_the_text_and_none_comes_before_its_text(scripted_model: Path) -> None:
    with open_engine(scripted_model) as engine:
        answer = engine.generate(HELLO, sampling=GREEDY, logprobs=2)
        text = told = b""
        for piece in answer:
            text += str(piece).encode()
            told += b"".join(token.piece for token in answer.take_logprobs())
            assert text.startswith(told)

        assert told == text == "".join(SCRIPT).encode()
        assert answer.take_logprobs() == []
        assert b"".join(token.piece for token in answer.logprobs) == text


def test_halves_of_a_character_are_tokens_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "bytes.gguf"
    alphabet = models.byte_alphabet()
    raw = [b"\xf0\x9f", b"\x98", b"\x80", b"ok"]
    models.scripted(path, ["".join(alphabet[byte] for byte in piece) for piece in raw], as_bytes=True)

    with open_engine(path) as engine, engine.generate(HELLO, sampling=GREEDY, logprobs=0) as answer:
        assert "".join(map(str, answer)) == "\U0001f600ok"

        assert [token.piece for token in answer.logprobs] == raw
        assert [token.top for token in answer.logprobs] == [()] * len(raw)


def test_tokens_that_a_stop_string_cuts_off_have_none(scripted_model: Path) -> None:
    with open_engine(scripted_model) as engine:
        answer = engine.generate(HELLO, sampling=GREEDY, stop=["d. Caf"], logprobs=1)
        text = "".join(map(str, answer))

        said = b"".join(token.piece for token in answer.logprobs)
        assert text == "Hello, I am a shepher"
        assert said
        assert text.encode().startswith(said)
        assert len(answer.logprobs) < answer.stats.generated_tokens


def test_nobody_who_does_not_ask_gets_any(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        generation = engine.complete(PROMPT, sampling=GREEDY, max_tokens=5)
        run_to_end(generation)

        assert generation.logprobs == ()
        assert generation.take_logprobs() == []


@pytest.mark.parametrize("n", [-1, 21])
def test_more_than_there_are_is_refused(n: int, endless_model: Path) -> None:
    with open_engine(endless_model) as engine, pytest.raises(UsageError, match="logprobs is"):
        engine.generate(HELLO, logprobs=n)
