"""Routes of llama.cpp's own server: any model's name, paths without /v1, tokens, slots, reranking."""

from __future__ import annotations

import json
from collections.abc import Iterator

import gguf
import httpx
import pytest

from shepherd.server.telemetry import timings_of
from shepherd.types import TurnStats
from tests import models

HELLO = [{"role": "user", "content": "Hello, who are you?"}]
BODIES = {
    "/v1/chat/completions": {"messages": HELLO, "max_tokens": 4},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 4},
    "/v1/responses": {"input": "Hello", "max_output_tokens": 16},
    "/v1/messages": {"messages": HELLO, "max_tokens": 4},
    "/api/chat": {"messages": HELLO, "stream": False},
    "/api/generate": {"prompt": "Hello", "stream": False},
    "/api/show": {},
}


@pytest.fixture(scope="module")
def http(mini) -> Iterator[httpx.Client]:
    with mini.http() as http:
        yield http


@pytest.mark.parametrize("path", BODIES)
def test_a_request_for_any_model_is_answered(http, path):
    answer = http.post(path, json={"model": "gpt-4o", **BODIES[path]})

    assert answer.status_code == 200, answer.text


def test_a_strict_server_refuses_models_of_other_names(serve):
    server = serve(SHEPHERD_SERVER_ANY_MODEL="false")
    with server.http() as http:
        for path, body in BODIES.items():
            answer = http.post(path, json={"model": "gpt-4o", **body})
            assert answer.status_code == 404, path
            assert "there is shepherd-mini" in answer.text
            assert http.post(path, json={"model": "default", **body}).status_code == 200
        refused = http.post("/v1/chat/completions", json={"model": "x", "messages": HELLO}).json()["error"]
        assert (refused["code"], refused["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize("path", [path for path in BODIES if path.startswith("/v1/")])
def test_paths_without_v1_are_the_same_routes(http, path):
    body = {"model": "default", "temperature": 0, **BODIES[path]}
    one, other = (http.post(place, json=body) for place in (path, path.removeprefix("/v1")))

    assert one.status_code == other.status_code == 200
    assert one.json().keys() == other.json().keys()


def test_other_paths_without_v1_are_not_found(http):
    assert http.get("/models").json() == http.get("/v1/models").json()
    assert http.get("/v1/health").json() == http.get("/health").json()
    assert http.get("/memory").status_code == 404
    assert http.post("/messages", json={}).json()["type"] == "error"  # in Anthropic's shape


@pytest.mark.parametrize("text", ["Hello, who are you?", "", "Grüße 🐑\n\n日本語", "<|im_start|>user"])
def test_tokens_of_a_text_say_it_again(http, text):
    tokens = http.post("/tokenize", json={"content": text, "parse_special": False}).json()["tokens"]
    pieces = http.post(
        "/tokenize", json={"content": text, "parse_special": False, "with_pieces": True}
    ).json()["tokens"]
    said = b"".join(
        piece.encode() if isinstance(piece, str) else bytes(piece)
        for piece in (entry["piece"] for entry in pieces)
    )

    assert [entry["id"] for entry in pieces] == tokens
    assert http.post("/detokenize", json={"tokens": tokens}).json()["content"] == text == said.decode()


def test_control_tokens_are_read_where_that_is_asked_for(http):
    as_control = http.post("/tokenize", json={"content": "<|im_start|>"}).json()["tokens"]
    as_text = http.post("/tokenize", json={"content": "<|im_start|>", "parse_special": False}).json()[
        "tokens"
    ]

    assert len(as_control) == 1 < len(as_text)


def test_the_template_is_applied_as_for_an_answer(http):
    messages = [{"role": "system", "content": "Be brief."}, *HELLO]
    prompt = http.post("/apply-template", json={"messages": messages}).json()["prompt"]
    counted = http.post("/v1/messages/count_tokens", json={"model": "x", "messages": HELLO}).json()
    plain = http.post("/apply-template", json={"messages": HELLO}).json()["prompt"]
    tokens = http.post("/tokenize", json={"content": plain, "add_special": True}).json()["tokens"]

    assert prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello, who are you?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert len(tokens) == counted["input_tokens"]


def test_the_model_and_its_slots_are_described_without_anybodys_text(http):
    http.post("/v1/chat/completions", json={"model": "x", "messages": [{"role": "user", "content": "sheep"}]})
    props, slots = http.get("/props"), http.get("/slots")

    assert props.json()["model_alias"] == "shepherd-mini"
    assert props.json()["total_slots"] == len(slots.json()) == 4
    assert props.json()["default_generation_settings"]["n_ctx"] == slots.json()[0]["n_ctx"]
    assert "<|im_start|>" in props.json()["chat_template"]
    assert "sheep" not in slots.text + props.text.replace("shepherd", "")


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/detokenize", {"tokens": [-1]}, 400, "not a token of this model"),
        ("/detokenize", {"tokens": [1 << 40]}, 400, "not a token of this model"),
        ("/detokenize", {"tokens": ["a"]}, 400, "tokens.0"),
        ("/tokenize", {}, 400, "content"),
        ("/apply-template", {"messages": []}, 400, "messages"),
        ("/v1/rerank", {"query": "a", "documents": ["b"]}, 404, "knowledge_reranker"),
    ],
)
def test_what_cannot_be_done_is_refused(http, path, body, status, said):
    answer = http.post(path, json=body)

    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


def test_texts_are_ranked_by_a_reranker(serve, tmp_path):
    models.bert(tmp_path / "ranker.gguf", pooling=gguf.PoolingType.RANK, n_cls_out=1)
    server = serve(SHEPHERD_KNOWLEDGE_RERANKER=str(tmp_path / "ranker.gguf"))
    texts = ["hello world", "a cat and the dog", "the dog"]
    with server.http() as http:
        whole = http.post("/v1/rerank", json={"query": "the dog", "documents": texts}).json()
        plain = http.post("/rerank", json={"query": "the dog", "texts": texts, "return_text": True}).json()
        short = http.post(
            "/rerank",
            json={
                "query": "the dog",
                "documents": [{"text": text} for text in texts],
                "top_n": 2,
                "return_documents": True,
            },
        ).json()
        assert http.post("/rerank", json={"query": "the dog"}).status_code == 400
    scores = [result["relevance_score"] for result in whole["results"]]

    assert whole["model"] == "ranker"
    assert sorted(result["index"] for result in whole["results"]) == [0, 1, 2]
    assert scores == sorted(scores, reverse=True)
    assert [result["index"] for result in whole["results"]] == [1, 0, 2]
    assert [one["index"] for one in short["results"]] == [one["index"] for one in whole["results"][:2]]
    assert all(one["document"]["text"] == texts[one["index"]] for one in short["results"])
    assert [(one["index"], one["score"], one["text"]) for one in plain] == [
        (one["index"], one["relevance_score"], texts[one["index"]]) for one in whole["results"]
    ]


PARTS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


@pytest.fixture(scope="module")
def coder(serve, tmp_path_factory) -> Iterator[httpx.Client]:
    """A model that was made to fill gaps."""
    path = tmp_path_factory.mktemp("coder") / "coder.gguf"
    models.llama(path, controls=PARTS, ascii_only=True)
    with serve("-m", path, "--ctx", "512").http() as http:
        yield http


def streamed(http: httpx.Client, path: str, body: dict) -> list[dict]:
    text = http.post(path, json={**body, "stream": True}).text
    return [json.loads(one.removeprefix("data: ")) for one in text.split("\n\n") if one]


def test_timings_name_drafts_as_llama_server_does():
    plain, drafted = TurnStats(generated_tokens=9), TurnStats(drafted_tokens=7, accepted_tokens=5)

    assert "draft_n" not in timings_of(plain)
    assert timings_of(drafted) == timings_of(TurnStats()) | {"draft_n": 7, "draft_n_accepted": 5}


def test_timings_name_what_a_draft_model_drafted():
    stats = TurnStats(drafted_tokens=7, accepted_tokens=5, model_drafted_tokens=4, model_accepted_tokens=3)

    assert timings_of(stats) == timings_of(TurnStats()) | {
        "draft_n": 7, "draft_n_accepted": 5, "draft_model_n": 4, "draft_model_n_accepted": 3,
    }  # fmt: skip


def test_timings_are_per_token_and_per_second():
    stats = TurnStats(reused_tokens=7, decoded_tokens=4, prefill_ms=2.0, generated_tokens=5, decode_ms=10.0)

    assert timings_of(stats) == {
        "cache_n": 7, "prompt_n": 4, "prompt_ms": 2.0, "prompt_per_token_ms": 0.5,
        "prompt_per_second": 2000.0,
        "predicted_n": 5, "predicted_ms": 10.0, "predicted_per_token_ms": 2.0, "predicted_per_second": 500.0,
    }  # fmt: skip
    idle = timings_of(TurnStats())
    assert (idle["prompt_per_second"], idle["prompt_per_token_ms"], idle["predicted_per_token_ms"]) == (
        0,
        0,
        0,
    )


def test_completion_continues_a_text_as_the_openai_route_does(http):
    body = {"prompt": "My name is", "temperature": 0}
    ours = http.post("/v1/completions", json={"model": "x", "max_tokens": 6, **body}).json()
    reply = http.post("/completion", json={"n_predict": 6, "return_tokens": True, **body}).json()

    assert reply["content"] == ours["choices"][0]["text"] != ""
    assert http.post("/detokenize", json={"tokens": reply["tokens"]}).json()["content"] == reply["content"]
    assert (reply["stop"], reply["stop_type"], reply["tokens_predicted"]) == (True, "limit", 6)
    assert reply["tokens_evaluated"] == ours["usage"]["prompt_tokens"]
    assert reply["timings"]["predicted_n"] == 6
    assert reply["generation_settings"]["temperature"] == 0

    *parts, last = streamed(http, "/completion", {"n_predict": 6, **body})
    assert "".join(part["content"] for part in parts) == reply["content"]
    assert [part["stop"] for part in parts] == [False] * len(parts)
    assert (last["stop"], last["content"], last["tokens_predicted"]) == (True, "", 6)


def test_completion_takes_a_rendered_conversation_with_its_control_tokens(http):
    prompt = http.post("/apply-template", json={"messages": HELLO}).json()["prompt"]
    reply = http.post("/completion", json={"prompt": prompt, "temperature": 0, "n_predict": 5}).json()
    ids, spelled = (
        http.post("/tokenize", json={"content": prompt, "parse_special": special}).json()["tokens"]
        for special in (True, False)
    )

    assert reply["tokens_evaluated"] == len(ids) < len(spelled)


def test_completion_ends_at_a_word_and_says_which(http):
    body = {"prompt": "My name is", "temperature": 0, "n_predict": 24}
    whole = http.post("/completion", json=body).json()["content"]
    word = whole.strip()[3:6]
    reply = http.post("/completion", json={**body, "stop": ["never said", word]}).json()

    assert (reply["stop_type"], reply["stopping_word"]) == ("word", word)
    assert reply["content"] == whole[: whole.index(word)]


def test_completion_of_several_prompts_is_a_list(http):
    one, two = ({"prompt": text, "temperature": 0, "n_predict": 4} for text in ("I like", "You are"))
    both = http.post("/completion", json={**one, "prompt": ["I like", "You are"]}).json()

    assert [reply["content"] for reply in both] == [
        http.post("/completion", json=body).json()["content"] for body in (one, two)
    ]
    assert [reply["index"] for reply in both] == [0, 1]
    ids = http.post("/tokenize", json={"content": "I like", "add_special": True}).json()["tokens"]
    assert http.post("/completion", json={**one, "prompt": ids}).json()["content"] == both[0]["content"]


def test_completion_obeys_grammar_schema_and_forbidden_tokens(http):
    body = {"prompt": "My name is", "temperature": 0, "n_predict": 16}
    assert http.post("/completion", json={**body, "grammar": 'root ::= "yes"'}).json()["content"] == "yes"
    schema = {"type": "object", "properties": {"a": {"enum": [7]}}, "required": ["a"]}
    assert json.loads(http.post("/completion", json={**body, "json_schema": schema}).json()["content"]) == {
        "a": 7
    }
    likely = http.post("/completion", json={**body, "n_predict": 1, "n_probs": 3}).json()
    (entry,) = likely["completion_probabilities"]
    assert len(entry["top_logprobs"]) == 3
    without = http.post(
        "/completion", json={**body, "n_predict": 1, "n_probs": 1, "logit_bias": [[entry["id"], False]]}
    ).json()
    assert without["completion_probabilities"][0]["id"] != entry["id"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/completion", {"prompt": []}, "prompt"),
        ("/completion", {"prompt": "a", "dry_base": 0.5}, "dry_base"),
        ("/completion", {"prompt": "a", "logit_bias": [[999_999_999, 1]]}, "logit_bias"),
        ("/completion", {"prompt": "a", "grammar": "root ::= [a", "json_schema": {}}, "json_schema"),
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "input_prefix"),
        ("/v1/completions", {"model": "x", "prompt": "a", "suffix": "b"}, "suffix"),
    ],
)
def test_what_completions_cannot_do_is_refused(http, path, body, param):
    answer = http.post(path, json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_gap_is_filled_between_its_two_ends_on_every_route(coder):
    before, behind = "def add(a, b):\n    ", "\n    return c\n"
    marks = [coder.post("/tokenize", json={"content": one}).json()["tokens"] for one in PARTS]
    texts = [
        coder.post("/tokenize", json={"content": one, "parse_special": False}).json()["tokens"]
        for one in (before, behind)
    ]
    ids = [*marks[0], *texts[0], *marks[1], *texts[1], *marks[2]]
    common = {"temperature": 0, "n_predict": 8}
    wanted = coder.post("/completion", json={"prompt": ids, **common}).json()
    filled = coder.post("/infill", json={"input_prefix": before, "input_suffix": behind, **common}).json()
    typed = coder.post(
        "/infill",
        json={"input_prefix": before[:5], "prompt": before[5:], "input_suffix": behind, **common},
    ).json()
    ours = coder.post(
        "/v1/completions",
        json={"model": "x", "prompt": before, "suffix": behind, "temperature": 0, "max_tokens": 8},
    ).json()
    options = {"temperature": 0, "num_predict": 8}
    body = {"model": "x", "prompt": before, "suffix": behind, "options": options, "stream": False}
    ollama = coder.post("/api/generate", json=body).json()

    assert filled["content"] == typed["content"] == wanted["content"] != ""
    assert filled["tokens_evaluated"] == len(ids)
    assert ours["choices"][0]["text"] == ollama["response"] == wanted["content"]


@pytest.mark.parametrize(("n_before", "n_behind"), [(2000, 2000), (2000, 1), (1, 2000)])
def test_gap_in_a_text_that_is_too_long_keeps_what_is_nearest(n_before, n_behind, coder):
    before, behind = "x = 1\n" * n_before, "y = 2\n" * n_behind
    reply = coder.post(
        "/infill", json={"input_prefix": before, "input_suffix": behind, "n_predict": 4}
    ).json()

    assert reply["stop_type"] == "limit"
    assert 300 < reply["tokens_evaluated"] <= 512 * 3 // 4


def test_ollama_continues_a_raw_text(http):
    body = {"model": "x", "prompt": "My name is", "raw": True}
    options = {"temperature": 0, "num_predict": 6}
    whole = http.post("/api/generate", json={**body, "options": options, "stream": False}).json()
    lines = http.post("/api/generate", json={**body, "options": options}).text.splitlines()
    parts = [json.loads(line) for line in lines]
    ours = http.post("/completion", json={"prompt": "My name is", "temperature": 0, "n_predict": 6}).json()

    assert whole["response"] == ours["content"] == "".join(part["response"] for part in parts)
    assert (whole["done_reason"], whole["eval_count"]) == ("length", 6)
    assert [part["done"] for part in parts] == [False] * (len(parts) - 1) + [True]


def test_a_request_without_a_model_is_answered_by_the_default_one(mini):
    said = [{"role": "user", "content": "Hello"}]
    asked = {
        "/v1/chat/completions": {"messages": said, "id_slot": 0, "cache_prompt": True},
        "/v1/completions": {"prompt": "Hello", "max_tokens": 2, "id_slot": 0},
        "/v1/messages": {"messages": said, "max_tokens": 9},
        "/v1/messages/count_tokens": {"messages": said},
        "/v1/responses": {"input": "Hello"},
        "/v1/responses/input_tokens": {"input": "Hello"},
        "/v1/embeddings": {"input": "Hello"},
        "/completion": {"prompt": "Hello", "n_predict": 2},
    }
    with mini.http() as http:
        answers = {path: http.post(path, json=body) for path, body in asked.items()}
        foreign = http.post("/v1/embeddings", json={"input": "Hello", "model": "text-embedding-3-small"})
        chat = http.post("/v1/embeddings", json={"input": "Hello", "model": "shepherd-mini"})
        gap = {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "a.c"}]}
        refused = http.post("/infill", json=gap)

    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(asked, 200)
    named = {answer.json().get("model") for answer in answers.values()}
    assert named == {"shepherd-mini", "tiny-bert", None}
    assert foreign.json()["data"] == answers["/v1/embeddings"].json()["data"]
    assert chat.status_code == 404
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input_extra.0.text")
