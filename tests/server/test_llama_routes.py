"""Routes of llama.cpp's own server: any model's name, paths without /v1, tokens, slots, reranking."""

from __future__ import annotations

from collections.abc import Iterator

import gguf
import httpx
import pytest

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
        ("/detokenize", {"tokens": [-1]}, 400, "no token of this model"),
        ("/detokenize", {"tokens": [1 << 40]}, 400, "no token of this model"),
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
    texts = ["the dog", "hello world", "a cat and the dog"]
    with server.http() as http:
        whole = http.post("/v1/rerank", json={"query": "the dog", "documents": texts}).json()
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
    assert [one["index"] for one in short["results"]] == [one["index"] for one in whole["results"][:2]]
    assert all(one["document"]["text"] == texts[one["index"]] for one in short["results"])
