"""What clients of llama.cpp's server send and read beside the APIs of others, in chats and completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shepherd.errors import UsageError
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.embedding import Embedder
from shepherd.memory import Memory
from shepherd.server.middleware import require_keys_for
from shepherd.server.retrieval_api import Embeddings
from tests import models
from tests.server.in_process import running
from tests.server.running import Running

HELLO = {"role": "user", "content": "hello"}
# A switch for thoughts, and a place for those of earlier answers.
TEMPLATE = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{%- if m.reasoning_content %}{{ '<think>\n' + m.reasoning_content + '\n</think>\n' }}{%- endif %}"
    "{{ m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)
UNTHOUGHT = "<|im_start|>assistant\n<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("habits") / "tiny.gguf"
    models.llama(path, ascii_only=True, template=TEMPLATE)
    with Engine(path, settings=EngineSettings(n_threads=1, n_ctx=512, slots=2)) as engine:
        yield engine


@pytest.fixture(scope="module")
def server(engine, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("memory")
    models.bert(folder / "bert.gguf")
    embeddings = Embeddings("bert", lambda: Embedder(folder / "bert.gguf"))
    with (
        Memory(folder / "memory.db") as memory,
        running(engine, memory=memory, embeddings=embeddings, server_origins="localhost") as server,
    ):
        yield server
    embeddings.close()


@pytest.fixture(scope="module")
def http(server) -> Iterator[httpx.Client]:
    with server.client() as http:
        yield http


def post(http: httpx.Client, path: str, status: int = 200, **body: Any) -> Any:
    answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def events(http: httpx.Client, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = http.post(path, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def chat(http: httpx.Client, *messages: dict[str, Any], **body: Any) -> Any:
    return post(http, "/v1/chat/completions", messages=list(messages), **{"max_tokens": 6, **body})


def prompt_of(http: httpx.Client, *messages: dict[str, Any], **body: Any) -> str:
    prompt: str = chat(http, *messages, verbose=True, **body)["__verbose"]["prompt"]
    return prompt


# ---- what an answer tells


def test_answers_tell_their_version_and_times(http):
    whole = chat(http, HELLO, model=None)
    chunks = events(http, "/v1/chat/completions", messages=[HELLO], max_tokens=6)
    counted = events(
        http,
        "/v1/chat/completions",
        messages=[HELLO],
        max_tokens=6,
        stream_options={"include_usage": True},
    )
    text = post(http, "/v1/completions", prompt="a", max_tokens=2, model="x")

    prints = {one["system_fingerprint"] for one in (whole, text, *chunks)}
    assert len(prints) == 1
    assert whole["timings"]["predicted_n"] == whole["usage"]["completion_tokens"] == 6
    assert whole["timings"]["prompt_n"] + whole["timings"]["cache_n"] == whole["usage"]["prompt_tokens"]
    assert [("timings" in one) for one in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [("timings" in one) for one in counted] == [False] * (len(counted) - 1) + [True]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant"}


def test_the_prompt_is_told_to_those_who_ask(engine, http):
    prompt = prompt_of(http, HELLO)
    with running(engine, server_verbose=True) as server, server.client() as always:
        streamed = events(always, "/v1/chat/completions", messages=[HELLO], max_tokens=2)

    assert prompt.endswith("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")
    assert streamed[-1]["__verbose"]["prompt"].endswith("hello<|im_end|>\n<|im_start|>assistant\n")
    assert "__verbose" not in chat(http, HELLO)


def test_progress_of_the_prompt_comes_before_the_answer(http):
    text = "the quick brown fox " * 40
    chunks = events(
        http,
        "/v1/chat/completions",
        messages=[{"role": "user", "content": text}],
        max_tokens=2,
        return_progress=True,
    )
    told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]

    assert told[0]["processed"] == told[0]["cache"]
    assert told[-1]["processed"] == told[-1]["total"] > 100
    places = [i for i, chunk in enumerate(chunks) if "prompt_progress" in chunk]
    first = next(
        i for i, one in enumerate(chunks) if one["choices"] and one["choices"][0]["delta"].get("content")
    )
    assert places[-1] < first


def test_a_prompt_that_is_too_long_is_counted(http):
    error = post(
        http, "/v1/chat/completions", 400, messages=[{"role": "user", "content": "the quick fox " * 400}]
    )["error"]

    assert (error["code"], error["type"]) == ("context_length_exceeded", "exceed_context_size_error")
    assert error["n_prompt_tokens"] > error["n_ctx"] == 512


def test_tokens_of_a_conversation_are_counted_as_they_are_read(http):
    counted = post(http, "/chat/completions/input_tokens", messages=[HELLO])["input_tokens"]
    prompt = post(http, "/apply-template", messages=[HELLO])["prompt"]
    tokens = post(http, "/tokenize", content=prompt, add_special=True)["tokens"]

    assert counted == len(tokens)


# ---- what a request can ask for


def test_grammars_and_schemas_hold_in_chats(http):
    by_grammar = chat(http, HELLO, grammar='root ::= "a"{5}')
    by_schema = chat(http, HELLO, json_schema={"const": "42"}, max_tokens=9)

    assert by_grammar["choices"][0]["message"]["content"] == "aaaaa"
    assert by_schema["choices"][0]["message"]["content"] == '"42"'
    for body in (
        {"grammar": "root ::= nothing("},
        {"grammar": 'root ::= "a"', "json_schema": {"const": 1}},
        {"grammar": 'root ::= "a"', "response_format": {"type": "json_object"}},
    ):
        post(http, "/v1/chat/completions", 400, messages=[HELLO], **body)


@pytest.mark.parametrize(
    "fields",
    [{"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}],
    ids=["switch", "effort"],
)
def test_thoughts_are_switched_off_in_chats(http, fields):
    assert prompt_of(http, HELLO, **fields).endswith(UNTHOUGHT)
    assert post(http, "/apply-template", messages=[HELLO], **fields)["prompt"].endswith(UNTHOUGHT)


def test_thoughts_are_switched_off_in_every_api(http):
    plain = post(http, "/v1/messages", max_tokens=2, messages=[HELLO])["usage"]
    n_plain = plain["input_tokens"] + plain["cache_read_input_tokens"]
    off = post(http, "/v1/messages", max_tokens=2, messages=[HELLO], thinking={"type": "disabled"})["usage"]
    n_off = off["input_tokens"] + off["cache_read_input_tokens"]
    ollama = post(http, "/api/chat", messages=[HELLO], think=False, stream=False, options={"num_predict": 2})
    response = post(http, "/v1/responses", input="hello", reasoning={"effort": "none"}, max_output_tokens=2)

    assert n_off > n_plain
    assert ollama["prompt_eval_count"] == response["usage"]["input_tokens"] == n_off


@pytest.mark.parametrize(
    "variables",
    [
        *({"messages": "x"}, {"bos_token": "x"}, {"9": 1}, {"enable_thinking": "no"}, {"a": "x" * 2000}),
        {f"v{number}": 1 for number in range(17)},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_variables_that_templates_cannot_have_are_refused(http, variables):
    error = post(http, "/v1/chat/completions", 400, messages=[HELLO], chat_template_kwargs=variables)["error"]

    assert error["param"] == "chat_template_kwargs"


def test_thoughts_of_earlier_answers_are_read(http):
    earlier = {"role": "assistant", "content": "yes", "reasoning_content": "a fox is quick"}
    block = [
        {"type": "thinking", "thinking": "a fox is quick", "signature": ""},
        {"type": "text", "text": "yes"},
    ]
    prompt = prompt_of(http, HELLO, earlier, HELLO)
    counts = [
        post(
            http, "/v1/messages/count_tokens", messages=[HELLO, {"role": "assistant", "content": said}, HELLO]
        )
        for said in (block, block[1:])
    ]

    assert "<think>\na fox is quick\n</think>\nyes" in prompt
    assert counts[0]["input_tokens"] > counts[1]["input_tokens"]


# ---- answers that the client begins


def test_an_answer_continues_what_the_client_began_and_is_stored_whole(server, http):
    begun = {"role": "assistant", "content": "the quick"}
    first = chat(http, HELLO, begun, user="steve", max_tokens=40)
    said = first["choices"][0]["message"]["content"]
    prompt = prompt_of(http, HELLO, begun)
    whole = {"role": "assistant", "content": "the quick" + said}
    second = chat(http, HELLO, whole, {"role": "user", "content": "and?"}, user="steve")
    [stored] = http.get("/v1/conversations", params={"user": "steve"}).json()["data"]
    messages = http.get(f"/v1/conversations/{stored['id']}", params={"user": "steve"}).json()["data"]

    assert prompt.endswith("<|im_start|>assistant\nthe quick")
    answers = [message["text"] for message in messages if message["role"] == "assistant"]
    assert answers[0] == "the quick" + said
    usage, before = second["usage"], first["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= before["prompt_tokens"] + 39
    assert not said.startswith("the quick")


@pytest.mark.parametrize("seed", [1, 3])
def test_the_next_turn_reads_an_answer_that_was_begun_as_it_was_sampled(http, seed):
    begun = {"role": "assistant", "content": "the quick"}
    first = chat(http, HELLO, begun, max_tokens=40, temperature=1, seed=seed)
    whole = {"role": "assistant", "content": "the quick" + first["choices"][0]["message"]["content"]}
    second = chat(http, HELLO, whole, {"role": "user", "content": "and?"})

    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == first["usage"]["prompt_tokens"] + 39


def test_every_chat_api_continues_what_the_client_began(http):
    begun = {"role": "assistant", "content": "the quick"}
    plain = post(http, "/api/chat", messages=[HELLO], stream=False, options={"num_predict": 2})
    ollama = post(http, "/api/chat", messages=[HELLO, begun], stream=False, options={"num_predict": 2})
    usage = post(http, "/v1/messages", max_tokens=2, messages=[HELLO, begun])["usage"]

    assert ollama["prompt_eval_count"] > plain["prompt_eval_count"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == ollama["prompt_eval_count"]


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        ([HELLO, {"role": "assistant", "content": ""}], {}),
        ([{"role": "assistant", "content": "a"}], {}),
        ([HELLO, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}], {}),
        ([HELLO, {"role": "system", "content": "a"}], {}),
        ([HELLO], {"continue_final_message": True}),
        ([HELLO, {"role": "assistant", "content": "a"}], {"add_generation_prompt": True}),
        (
            [HELLO, {"role": "assistant", "content": "a"}],
            {"continue_final_message": True, "add_generation_prompt": True},
        ),
        ([HELLO, {"role": "assistant", "content": "a"}], {"memory_tools": True, "user": "steve"}),
    ],
)
def test_a_conversation_that_asks_for_no_answer_is_refused(http, messages, fields):
    post(http, "/v1/chat/completions", 400, messages=messages, **fields)


# ---- completions


def test_a_stream_has_a_part_for_each_token(http):
    body = {"prompt": "the", "n_predict": 8, "n_probs": 3, "temperature": 0}
    *parts, last = events(http, "/completion", **body)
    whole = post(http, "/completion", **body, return_tokens=True)

    assert [part["tokens"] for part in parts] == [[token] for token in whole["tokens"]]
    assert "".join(part["content"] for part in parts) == whole["content"]
    likely = [[part["completion_probabilities"]] for part in parts]
    assert all(len(one) == 1 for [one] in likely)
    for [[one]], other in zip(likely, whole["completion_probabilities"], strict=True):
        assert one["id"] == other["id"]
        assert one["logprob"] == pytest.approx(other["logprob"], abs=1e-3)
        assert [each["id"] for each in one["top_logprobs"]] == [each["id"] for each in other["top_logprobs"]]
    assert (last["content"], last["stop"], last["timings"]["predicted_n"]) == ("", True, 8)


def test_a_stop_string_in_a_stream_cuts_the_text_as_it_does_in_a_whole_answer(http):
    body = {"prompt": "the", "n_predict": 20, "temperature": 0}
    said = post(http, "/completion", **body)["content"]
    stop = said[7:10]
    *parts, last = events(http, "/completion", **body, stop=[stop])

    assert "".join(part["content"] for part in parts) == said[: said.index(stop)]
    assert (last["stop_type"], last["stopping_word"]) == ("word", stop)


def test_probabilities_are_those_with_which_tokens_were_chosen(http):
    body = {"prompt": "the", "n_predict": 5, "n_probs": 20, "seed": 4, "post_sampling_probs": True}
    drawn = post(http, "/completion", **body, temperature=0.7, top_k=4)["completion_probabilities"]
    plain = post(http, "/completion", **body, temperature=0.7, top_k=4)["content"]
    sure = post(http, "/completion", **body, temperature=0)["completion_probabilities"]
    without = {**body, "post_sampling_probs": False, "n_probs": 0, "temperature": 0.7, "top_k": 4}

    for token in drawn:
        assert 1 <= len(token["top_probs"]) <= 4
        assert sum(one["prob"] for one in token["top_probs"]) == pytest.approx(1, abs=1e-5)
        assert token["prob"] in [one["prob"] for one in token["top_probs"]]
    assert [(token["prob"], len(token["top_probs"])) for token in sure] == [(1.0, 1)] * 5
    assert post(http, "/completion", **without)["content"] == plain


def test_prompts_can_mix_texts_and_tokens(http):
    text = "the quick brown"
    ids = post(http, "/tokenize", content=text)["tokens"]
    body = {"n_predict": 4, "temperature": 0}
    [plain, by_ids, by_object] = post(
        http, "/completion", prompt=[text, ids, {"prompt_string": text}], **body
    )
    mixed = post(http, "/completion", prompt=[*ids[:1], "quick", *ids[-1:]], **body)

    assert plain["content"] == by_ids["content"] == by_object["content"]
    assert plain["prompt"] == by_ids["prompt"] == text
    assert mixed["prompt"].startswith(plain["prompt"][0])
    post(http, "/completion", 400, prompt={"prompt_string": "a", "multimodal_data": ["iVBO"]}, **body)


def test_only_the_fields_that_were_asked_for_are_returned(http):
    fields = ["content", "generation_settings/n_predict", "timings/no such", "none"]
    found = post(http, "/completion", prompt="a", n_predict=3, response_fields=fields)

    assert found.keys() == {"content", "generation_settings/n_predict"}
    assert found["generation_settings/n_predict"] == 3


def test_completions_without_v1_are_of_the_api_that_asks(http):
    body = {"prompt": "the", "temperature": 0}
    openais = post(http, "/completions", model="default", max_tokens=4, **body)
    llamas = post(http, "/completions", n_predict=4, **body)

    assert openais["choices"][0]["text"] == llamas["content"]
    assert (openais["object"], llamas["stop"]) == ("text_completion", True)
    assert post(http, "/completions", 400, prompt=7)["error"]["param"]


# ---- embeddings


def test_embeddings_take_what_llama_server_takes(http):
    text = "the dog"
    [plain] = post(http, "/v1/embeddings", input=text)["data"]
    objects = [
        {"prompt_string": text},
        {"content": [{"type": "text", "text": "the "}, {"type": "text", "text": "dog"}]},
    ]
    found = post(http, "/v1/embeddings", input=[text, *objects, [1, 2, "dog"], [3, 4]])["data"]

    for one in found[:3]:
        assert one["embedding"] == pytest.approx(plain["embedding"], abs=1e-5)
    assert len(found) == 5
    assert len(post(http, "/v1/embeddings", input=[1, 2, 3])["data"]) == 1


def test_tokens_of_other_models_are_not_embedded(http):
    refused = post(http, "/v1/embeddings", 400, input=[[1, 2, 3]], model="text-embedding-3-small")["error"]

    assert "check_embedding_ctx_length" in refused["message"]
    for wrong in (
        [-1],
        [10**6],
        [[1], [10**6]],
        {"content": "a"},
        {"content": []},
        {},
        {"content": [{"type": "x"}]},
    ):
        post(http, "/v1/embeddings", 400, input=wrong)


# ---- who may ask


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost", 200),
        ("https://localhost:8443", 200),
        ("http://127.0.0.1:3000", 200),
        ("http://[::1]:3000", 200),
        ("http://localhost.evil.com", 403),
        ("http://notlocalhost:80", 403),
        ("http://evil.com#localhost", 403),
    ],
)
def test_all_pages_of_this_machine_may_be_allowed(http, origin, status):
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    preflight = http.options("/v1/chat/completions", headers=asked)
    answer = http.post("/tokenize", json={"content": "a"}, headers={"Origin": origin})

    assert preflight.status_code == answer.status_code == status
    allowed = origin if status == 200 else None
    assert preflight.headers.get("access-control-allow-origin") == allowed
    assert answer.headers.get("access-control-allow-origin") == allowed


def test_a_server_without_a_page_has_its_apis_alone(engine):
    with running(engine, server_page=False) as server, server.client() as http:
        assert http.get("/").status_code == 404
        assert http.get("/page/app.js").status_code == 404
        assert http.get("/health").status_code == 200


def test_a_server_listens_on_all_addresses_that_it_is_given(serve):
    server = serve("--host", "127.0.0.1, 127.0.0.2", "--nomemory")
    port = httpx.URL(server.url).port

    for host in ("127.0.0.1", "127.0.0.2"):
        assert httpx.get(f"http://{host}:{port}/health", trust_env=False).status_code == 200
    with pytest.raises(UsageError, match="without an API key"):
        require_keys_for("127.0.0.1, 0.0.0.0", None)
