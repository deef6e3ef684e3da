"""What is read from the words of servers that refuse a prompt as too long, and what a model learns of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import ContextOverflowError
from shepherd.providers import ProviderSettings, open_remote
from shepherd.providers.accounting import Account, Entry, RatioStore, update
from shepherd.providers.exchange import Usage
from shepherd.providers.failures import Overflow, overflow_of
from shepherd.types import Message
from tests.providers.test_chat_completions import answer
from tests.providers.upstream import refuses, says, usage

OPENAI = "This model's maximum context length is 6048 tokens. "
# Who says it: the words, the window and the prompt without its answer; 0 where the words do not tell.
SAID = {
    "OpenAI": (OPENAI + "However, your messages resulted in 7000 tokens. Please reduce it.", 6048, 7000),
    "OpenAI, with tools": (
        OPENAI + "However, your messages resulted in 7173 tokens (6900 in the messages, 273 in the "
        "functions).",
        6048,
        7173,
    ),
    "OpenAI before, vLLM, DeepSeek": (
        OPENAI + "However, you requested 6616 tokens (568 in the messages, 6048 in the completion). Please "
        "reduce the length of the messages or completion.",
        6048,
        568,
    ),
    "OpenAI before, with tools": (
        OPENAI + "However, you requested 6616 tokens (500 in the messages, 68 in the functions, and 6048 in "
        "the completion).",
        6048,
        568,
    ),
    "OpenAI's completions": (
        "This model's maximum context length is 4097 tokens, however you requested 4162 tokens (1090 in your "
        "prompt; 3072 for the completion). Please reduce your prompt; or completion length.",
        4097,
        1090,
    ),
    "OpenAI now": ("Your input exceeds the context window of this model. Please adjust it.", 0, 0),
    "vLLM": (
        "'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is "
        "8192 tokens and your request has 7500 input tokens (1024 > 8192 - 7500).",
        8192,
        7500,
    ),
    "vLLM now": (
        "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens "
        "and your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens.",
        262144,
        0,  # it has stopped counting
    ),
    "vLLM, the prompt alone": (
        "The decoder prompt (length 12345) is longer than the maximum model length of 8192.",
        8192,
        12345,
    ),
    "SGLang": (
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a "
        "total of 40000 tokens: 30000 tokens from the input messages and 10000 tokens for the completion.",
        32768,
        30000,
    ),
    "SGLang, the prompt alone": (
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        8192,
        9000,
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens "
        "(140000 of text input, 10000 in the output). Please reduce the length of either one.",
        131072,
        140000,
    ),
    "Anthropic": ("prompt is too long: 210,000 tokens > 200,000 maximum", 200_000, 210_000),
    "Anthropic, with the answer": (
        "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input length "
        "or `max_tokens` and try again",
        200_000,
        198_000,
    ),
    "Gemini": (
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
        1_200_293,
    ),
    "Vertex": (
        "Unable to submit request because the input token count is 1048577 but model only supports up to "
        "1048576. Reduce the input token count and try again.",
        1_048_576,
        1_048_577,
    ),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
        537_812,
    ),
    "Mistral": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        32768,
        40000,
    ),
    "Groq": ("Please reduce the length of the messages or completion.", 0, 0),
    "llama-server": (
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        8192,
        9000,
    ),
    "LM Studio": (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with "
        "context length of only 4096 tokens, which is not enough.",
        4096,
        0,
    ),
    "Shepherd": ("the prompt has 300 tokens, the window 256, none left to answer", 256, 300),
    "nobody": ("The context length is a matter of taste: 12 of 30 like it.", 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("who", SAID)
def test_each_number_is_what_the_words_beside_it_say(who):
    message, window, prompt = SAID[who]
    codes = ["context_length_exceeded"] if who == "Shepherd" else []

    assert overflow_of(400, codes, {"message": message}) == Overflow(window, prompt)


def test_numbers_in_fields_are_taken_from_there():
    error = {"message": "the request exceeds it", "n_prompt_tokens": 9000, "n_ctx": 8192}

    assert overflow_of(400, ["exceed_context_size_error"], error) == Overflow(8192, 9000)


@pytest.mark.parametrize(
    ("status", "is_overflow"), [(0, True), (413, True), (422, True), (401, False), (500, False)]
)
def test_words_count_with_a_status_that_refuses_a_request(status, is_overflow):
    error = {"message": "This model's maximum context length is 8192 tokens."}

    assert (overflow_of(status, [], error) is not None) == is_overflow


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for m",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "messages: at least one message is required",
    ],
)
def test_a_request_that_is_wrong_otherwise_is_no_overflow(message):
    assert overflow_of(400, ["invalid_request_error"], {"message": message}) is None


words = st.sampled_from(["maximum context length is ", "requested ", " tokens (", " in the completion", ">"])


@given(st.lists(words | st.from_regex(r"[0-9,. ]{0,30}", fullmatch=True), max_size=20))
def test_no_words_break_the_reading(parts):
    read = overflow_of(400, ["context_length_exceeded"], {"message": "".join(parts)})

    assert read is not None
    assert min(read.window, read.prompt) >= 0


# ---- what is learned


@pytest.mark.parametrize("who", SAID)
def test_after_a_refusal_there_is_still_room_for_a_word(new_model, who):
    told = {"message": SAID[who][0], "code": "context_length_exceeded"}
    model = new_model("openai", refuses(400, told), says("ok"))

    with pytest.raises(ContextOverflowError):
        answer(model, [Message("user", "word " * 100)], max_tokens=1000)
    _, reply = answer(model, [Message("user", "hi")], max_tokens=1000)

    assert reply.text == "ok"


def test_an_account_is_not_settled_with_what_the_answer_takes(new_model):
    told = {"message": SAID["OpenAI before, vLLM, DeepSeek"][0]}
    model = new_model("openai", refuses(400, told), says("ok", counts=usage(560, 1)))
    question = [Message("user", "word " * 400)]

    with pytest.raises(ContextOverflowError) as caught:
        answer(model, question, max_tokens=6048)
    _, reply = answer(model, question, max_tokens=6048)

    assert "568 tokens and the answer's, its window has 6,048" in str(caught.value)
    assert reply.text == "ok"
    assert model.upstream.asked[1].body["max_tokens"] < 6048 - 500


def test_a_refusal_teaches_how_many_characters_a_token_has(new_model):
    told = {"message": "prompt is too long: 2000 tokens > 1900 maximum"}
    model = new_model("openai", refuses(400, told))
    before = model.count_tokens("x" * 1000)

    with pytest.raises(ContextOverflowError):
        answer(model, [Message("user", "x" * 10_000)])

    assert 200 <= model.count_tokens("x" * 1000) < before


def test_a_refusal_without_numbers_costs_the_answer_first(new_model):
    told = {"message": "too many tokens", "code": "context_length_exceeded"}
    model = new_model("openai", refuses(400, told))
    bodies = model.upstream.asked

    for _ in range(4):
        with pytest.raises(ContextOverflowError):
            answer(model, [Message("user", "hi")], max_tokens=1000)

    asked = [asked.body["max_tokens"] for asked in bodies]
    assert asked == sorted(asked, reverse=True)
    assert len(set(asked)) == 4
    assert asked[-1] > 10


tokens = st.integers(1, 20_000)


@given(
    st.lists(
        st.tuples(st.just("fits"), tokens, tokens)
        | st.tuples(st.just("refused"), st.integers(0, 20_000), st.integers(0, 20_000)),
        max_size=20,
    )
)
def test_what_fitted_once_always_fits_and_nothing_is_refused_twice(tmp_path_factory, events):
    provider = ProviderSettings("work", "openai", model="m", base_url="http://127.0.0.1:9/v1")
    model = open_remote(provider, ratios=RatioStore(tmp_path_factory.mktemp("r") / "ratios.json"))
    fitted = 0

    for kind, one, other in events:
        account = update(Account(), [Entry("k", 3500)], model._ratio)
        if kind == "fits":
            model.learn(account, "word", Usage(one, other), is_text=True)
            fitted = min(max(fitted, one + other), model.window_tokens)
            continue
        before = model.window_tokens
        asked = min(1024, before - account.total)
        error = ContextOverflowError("too long", prompt_tokens=one, window_tokens=other)
        known = model.learn_window(error, account, asked)

        assert fitted <= model.window_tokens <= before
        assert model.window_tokens < known.total + asked or model.window_tokens <= fitted or asked < 0
    model.close()
