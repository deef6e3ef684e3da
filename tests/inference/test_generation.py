"""An answer's numbers are the engine's, its review decides what is shown, and failures say what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd._native import engine as native
from shepherd.errors import ContextOverflowError, InternalError, ModelError, ShepherdError
from shepherd.inference import Answer, Engine
from shepherd.inference.generation import _failure
from shepherd.types import FinishReason, Message, Sampling, ToolCall
from tests import models
from tests.inference.engines import exact_settings, run_to_end
from tests.inference.manners import MANNERS
from tests.inference.test_answer import WEATHER, saying

GREEDY = Sampling(temperature=0)
HELLO = [Message("user", "hello")]
MANNER = MANNERS["qwen"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path: Path = tmp_path_factory.mktemp("generation") / "model.gguf"
    models.llama(path, template=MANNER.template, controls=MANNER.controls)
    with Engine(path, settings=exact_settings(n_ctx=1024)) as engine:
        yield engine


class Review:
    """A review that holds back what has a marker, and ends an answer that says so."""

    def __init__(self, *, says: str | None = None, last: str = "", over_at: str = "") -> None:
        self.says, self.last, self.over_at = says, last, over_at
        self.fed: list[str] = []
        self.ended: list[FinishReason] = []

    @property
    def is_over(self) -> bool:
        return bool(self.over_at) and self.over_at in "".join(self.fed)

    @property
    def is_cut(self) -> bool:
        return self.says is None

    def feed(self, text: str) -> str:
        self.fed.append(text)
        return text if self.says is None else ""

    def end(self, reason: FinishReason) -> str:
        self.ended.append(reason)
        return (self.says or "") + self.last


def begin(engine: Engine, says: str, **options: object) -> Answer:
    return engine.generate(HELLO, sampling=GREEDY, grammar=saying(engine, says), **options)  # type: ignore[arg-type]


def ended(engine: Engine, says: str, **options: object) -> Answer:
    with begin(engine, says, **options) as reply:
        for _ in reply:
            pass
    return reply


# ---- numbers


def test_numbers_are_those_of_the_engine(engine: Engine) -> None:
    engine.decoder.forget()
    began = time.perf_counter()
    generation = engine.complete(range(40, 90), sampling=GREEDY, max_tokens=9)
    run_to_end(generation)
    took_ms = 1e3 * (time.perf_counter() - began)
    stats, counts = generation.stats, generation._stream.counters()

    assert (stats.prompt_tokens, stats.reused_tokens, stats.decoded_tokens) == (50, 0, 50)
    assert stats.generated_tokens == len(generation.token_ids) == 9
    assert stats.drafted_tokens == stats.accepted_tokens == 0
    assert stats.model_drafted_tokens == stats.model_accepted_tokens == 0
    assert stats.window_tokens == engine.window_tokens
    assert stats.prefill_ms == counts["prefill_ns"] / 1e6
    assert stats.decode_ms == counts["decode_ns"] / 1e6
    assert generation._first_s is not None
    assert stats.ttft_ms == 1e3 * generation._first_s
    assert 0 < stats.prefill_ms < stats.ttft_ms <= stats.total_ms <= took_ms
    assert (stats.stopped_by, stats.warnings) == (generation._stream.stopped_by, ())


def test_without_text_the_first_token_is_when_the_engine_had_it(engine: Engine) -> None:
    silent = engine.complete(range(40, 90), max_tokens=0)
    run_to_end(silent)

    assert silent.stats.ttft_ms == silent._stream.counters()["first_token_ns"] / 1e6


def test_tokens_come_once_with_their_bytes(engine: Engine) -> None:
    reply = begin(engine, "<think>hm</think>It is clear.")
    found = []
    text = ""
    for piece in reply:
        found += reply.take_tokens()
        text += piece if isinstance(piece, str) else ""
    found += reply.take_tokens()

    assert [token for token, _ in found] == list(reply.token_ids)
    assert b"".join(data for _, data in found) == b"<think>hm</think>It is clear."
    assert text == reply.text == "It is clear."
    assert reply.take_tokens() == []
    assert len(found) > 5


def test_an_answer_is_quiet_while_nothing_comes(engine: Engine) -> None:
    reply = begin(engine, "It is clear.")
    assert reply.is_quiet

    quiet = []
    while (pieces := reply.poll()) is not None:
        quiet.append((bool(pieces), reply.is_quiet))

    assert reply.text == "It is clear."
    assert {is_quiet for has_pieces, is_quiet in quiet if has_pieces} == {False}
    assert {is_quiet for has_pieces, is_quiet in quiet if not has_pieces} <= {True}
    assert reply.poll() is None


def test_an_answer_is_a_message_of_the_conversation(engine: Engine) -> None:
    reply = ended(engine, "<think>hm</think>" + MANNER.call, tools=[WEATHER])

    message = reply.message()

    assert (message.role, message.raw, message.thought) == ("assistant", "", "hm")
    assert message.token_ids == reply.token_ids
    assert message.tokens == len(reply.token_ids) > 0
    assert message.tool_calls == reply.tool_calls
    assert [call.name for call in message.tool_calls] == ["get_weather"]


def test_a_closed_answer_gives_nothing_more(engine: Engine) -> None:
    reply = begin(engine, "It is clear.")
    while reply.is_running:
        time.sleep(0.001)
    reply.close()

    assert list(reply) == []
    assert reply.poll() is None
    reply.close()
    assert reply.text == "It is clear."


def test_a_failure_is_raised_once_and_not_after_closing(engine: Engine) -> None:
    reply = ended(engine, "It is clear.")
    reply._error = ModelError("no memory")
    with pytest.raises(ModelError):
        reply.poll()
    assert reply.poll() is None

    reply._error = ModelError("no memory")
    reply.close()
    assert list(reply) == []


# ---- reviews


def test_a_review_that_changes_nothing_leaves_the_ids(engine: Engine) -> None:
    plain = ended(engine, "It is clear. And cold.")
    review = Review()

    reply = ended(engine, "It is clear. And cold.", review=lambda: review)

    assert reply.text == "".join(review.fed) == plain.text
    assert reply.token_ids == plain.token_ids
    assert (review.ended, reply.stats.finish_reason) == (["stop"], "stop")


def test_what_a_review_says_instead_comes_in_words_with_its_own_ids(engine: Engine) -> None:
    review = Review(says="I do  not know.\n")

    with begin(engine, "It is clear.", review=lambda: review) as reply:
        pieces = list(reply)

    assert pieces == ["I", " do", "  not", " know.", "\n"]
    assert "".join(review.fed) == "It is clear."
    assert reply.text == "I do  not know.\n"
    assert reply.token_ids == tuple(engine.tokenize_prefill("I do  not know.\n"))
    assert reply.token_ids is reply.token_ids
    assert reply.message().tokens == len(reply.token_ids)


def test_a_review_can_add_to_the_end(engine: Engine) -> None:
    reply = ended(engine, "It is clear.", review=lambda: Review(last=" Is it?"), max_tokens=4)

    assert reply.text.endswith(" Is it?")
    assert reply.stats.finish_reason == "length"


def test_an_answer_in_place_of_one_that_was_cut_is_whole(engine: Engine) -> None:
    reply = ended(engine, "It is clear.", review=lambda: Review(says="I do not know."), max_tokens=4)

    assert (reply.text, reply.stats.finish_reason) == ("I do not know.", "stop")


def test_a_review_can_end_an_answer(engine: Engine) -> None:
    review = Review(over_at="clear")

    reply = ended(engine, "It is clear." + " And so on." * 40, review=lambda: review, max_tokens=900)

    assert "clear" in reply.text
    assert reply.text == "".join(review.fed)
    assert review.ended == []
    assert reply.stats.finish_reason == "stop"
    assert reply.stats.generated_tokens < 400


def test_a_review_has_no_word_about_calls(engine: Engine) -> None:
    review = Review(last="and?")

    reply = ended(engine, MANNER.call, tools=[WEATHER], review=lambda: review)

    assert [type(one) for one in reply.tool_calls] == [ToolCall]
    assert (review.ended, reply.text) == ([], "")
    assert reply.stats.finish_reason == "tool_calls"


def test_a_prompt_that_does_not_fit_is_not_reviewed(engine: Engine) -> None:
    made: list[Review] = []

    def review() -> Review:
        made.append(Review())
        return made[-1]

    with pytest.raises(ContextOverflowError):
        engine.generate([Message("user", "x " * engine.window_tokens)], review=review)

    assert made == []


def test_ids_of_reviewed_text_need_the_engine(plain_model: Path) -> None:
    with Engine(plain_model, settings=exact_settings()) as own:
        reply = own.generate(HELLO, sampling=GREEDY, max_tokens=5, review=lambda: Review(says="no"))
        run_to_end(reply)  # type: ignore[arg-type]

    assert reply.text == "no"
    assert reply.token_ids == ()


# ---- failures


@pytest.mark.parametrize(
    ("code", "kind", "says", "hint"),
    [
        (
            native.NO_MEMORY,
            ModelError,
            "no memory left for the answer",
            "close other programs, or set a smaller n_ctx",
        ),
        (
            native.NO_TOKEN,
            ModelError,
            "the model's vocabulary has no token that the grammar and logit_bias allow here",
            "allow other characters in the grammar, forbid fewer tokens, or use another model",
        ),
        (
            native.NO_NUMBERS,
            ModelError,
            "the model computed values that are not numbers",
            "fetch or convert its file again; on a GPU, try gpu_layers 0",
        ),
        (
            native.AMBIGUOUS,
            ModelError,
            "the grammar is too ambiguous to be followed: the answer so far can be read in too many ways",
            "write rules that begin alike so that they share their beginning",
        ),
        *(
            (
                code,
                InternalError,
                f"llama.cpp rejected a batch as invalid (code {code}); please report it",
                InternalError("").hint,
            )
            for code in (native.NO_LOGITS, -1)
        ),
        *(
            (
                code,
                ModelError,
                f"llama.cpp could not decode (code {code})",
                "if memory is short, set a smaller n_ctx, kv_type q8_0 or fewer gpu_layers",
            )
            for code in (1, 2, -3)
        ),
    ],
)
def test_a_failure_says_what_to_do(code: int, kind: type[ShepherdError], says: str, hint: str) -> None:
    error = _failure(code)

    assert type(error) is kind
    assert (str(error), error.hint) == (says, hint)
