"""/openapi.json describes the server as it is: all routes, what they read, and what they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from shepherd.config import Config
from shepherd.errors import InternalError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, OpenJob
from shepherd.sequences import sequence_of
from shepherd.server import page, session_server
from shepherd.server.app import create_app, memory_app
from shepherd.server.http import JsonRoute, LenientBody
from shepherd.server.knowledge_resources import UPLOADS
from shepherd.server.reference.document import document_of
from shepherd.server.reference.html import page_of
from shepherd.server.state import AppState
from shepherd.trace import Traces
from shepherd.types import Message
from tests.server.running import Running

METHODS = ("get", "post", "put", "patch", "delete")
# Sections whose answers have other fields, too, which clients of these APIs know.
FOREIGN = {
    *("Chat (OpenAI)", "Responses (OpenAI)", "Messages (Anthropic)", "Models", "Ollama", "llama.cpp"),
    "Shared conversation",
}
STEVE = "steve"


class Api:
    """A client that compares each answer with what the document says of its route."""

    def __init__(self, client: httpx.Client, user: str = "") -> None:
        self.client, self.user = client, user
        self.document: dict[str, Any] = client.get("/openapi.json").json()
        self.asked: set[tuple[str, str]] = set()

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method, operation

    def ask(self, method: str, route: str, status: int = 200, /, **options: Any) -> Any:
        """Ask a route; `named` has its parameters. Returns the answer: JSON, events, lines, or text."""
        url = re.sub(r"\{(\w+)\}", lambda name: str(options["named"][name[1]]), route)
        given = {name: value for name, value in options.items() if name != "named"}
        if self.user:
            given["params"] = {"user": self.user, **given.get("params", {})}
        answer = self.client.request(method, url, **given)
        operation = self.document["paths"][route][method]
        self.asked.add((route, method))
        assert answer.status_code == status, answer.text
        assert str(status) in operation["responses"], f"{status} is not described"
        response = operation["responses"][str(status)]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        kind = answer.headers["content-type"].partition(";")[0]
        schema = response["content"][kind]["schema"]
        if kind == "text/event-stream":
            found = [line.removeprefix("data: ") for line in answer.text.splitlines() if line[:5] == "data:"]
            values = [json.loads(one) for one in found if one != "[DONE]"]
        elif kind == "application/x-ndjson":
            values = [json.loads(line) for line in answer.text.splitlines()]
        else:
            values = [answer.json() if kind == "application/json" else answer.text]
        assert values
        for value in values:
            self.compare(value, schema, is_closed=operation["tags"][0] not in FOREIGN)
        return values[0] if kind in ("application/json", "text/plain", "application/jsonl") else values

    def compare(self, value: Any, schema: dict[str, Any], *, is_closed: bool) -> None:
        components = {"components": self.document["components"]}
        found = [error.message for error in Draft202012Validator({**components, **schema}).iter_errors(value)]
        assert found == []
        name = schema.get("$ref", "").rpartition("/")[2]
        if is_closed and name and isinstance(value, dict):
            assert value.keys() <= self.document["components"]["schemas"][name]["properties"].keys()


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("openapi") / "memory.db") as memory:
        yield memory


@pytest.fixture(scope="module")
def own(memory: Memory) -> Iterator[Api]:
    """The routes of memory, whose user has something of everything."""
    app = create_app(AppState(Config(user_id=STEVE), memory, True))
    with Running(app) as running, running.client() as client:
        yield Api(client)


def conversation(memory: Memory, *messages: Message) -> str:
    session = memory.start_session(STEVE)
    for message in messages:
        memory.append_message(session, message, STEVE)
    return session


@pytest.fixture(scope="module")
def ids(memory: Memory) -> dict[str, Any]:
    """Parameters of paths, of things that there are."""
    memory_id = sequence_of(memory.store_memory("Which editor?", "Helix", STEVE) or 0)
    memory.recall("Which editor?", STEVE)
    for place in ("Paris", "Marfa"):
        memory.set_fact("location", place, STEVE)
    knowledge = Knowledge(memory.transactions, STEVE)
    node, other = (knowledge.add_node(title=title, source_text="Sheep eat grass.") for title in "AB")
    edge = knowledge.connect(node.id, other.id, "both are about sheep")
    knowledge.focus([node.id])
    talk = conversation(memory, Message("user", "My dog is called Rex."), Message("assistant", "Hi"))
    waiting = memory.start_session(STEVE)
    memory.append_message(waiting, Message("user", "I live in Texas"), STEVE, job=OpenJob("worker", 5))
    traces = Traces(memory.transactions, STEVE)
    traces.write(talk, {"model": "tiny", "usage/prompt_tokens": 5, "budget/history": 10}, turn=0)
    return {
        "memory_id": memory_id,
        "key": "location",
        "session": talk,
        "session_id": talk,
        "turn": 0,
        "node_id": node.id,
        "edge_id": edge.id,
        "message": 1,
        "decision": "keep",
    }


# ---- the document itself


def test_the_documents_are_valid(own):
    shared = document_of(session_server.router.routes)

    for document in (own.document, shared):
        validate(document)
        assert [name for name in document["components"]["schemas"] if "__" in name] == []
        assert all(one["summary"] for methods in document["paths"].values() for one in methods.values())
    assert shared["paths"].keys() == {"/request", "/updates", "/session", "/clear"}
    assert shared["paths"]["/updates"]["get"]["x-streams"] == {"always": True}
    assert "Shared conversation" in page_of(shared)
    uploads = {path for path, _, one in own.operations() if "octet-stream" in str(one.get("requestBody"))}
    assert uploads == UPLOADS


def test_every_route_is_in_it_and_nothing_else(own):
    routes = create_app(AppState(Config(), None, False)).routes
    real = {
        (re.sub(":path}", "}", route.path), method.lower())
        for route in routes
        for method in route.methods
        if route.path not in page.PATHS and route.path != "/docs"
    }

    assert {(path, method) for path, method, _ in own.operations()} == real


def test_methods_that_are_not_in_it_are_refused(own):
    patterns = {
        (re.compile(re.sub(r"\{(?:key|name)\}", ".+", re.sub(r"\{(?!key|name)\w+\}", "[^/]+", path))), method)
        for path, method, _ in own.operations()
    }
    answers = {}
    for path in own.document["paths"]:
        url = re.sub(r"\{\w+\}", "-1", path)
        for method in METHODS:
            is_known = any(kind == method and one.fullmatch(url) for one, kind in patterns)
            if not is_known:
                answers[method, url] = own.client.request(method, url).status_code

    assert answers
    assert {one: status for one, status in answers.items() if status != 405} == {}


def test_a_route_without_description_stops_the_server_before_it_starts():
    router = APIRouter()

    @router.get("/silent")
    def silent() -> None:
        """Say nothing."""

    async def quiet(request: Any, body: Any) -> Any:
        """Say nothing."""

    with pytest.raises(InternalError, match="silent"):
        memory_app(AppState(Config(), None, False), router)
    with pytest.raises(InternalError, match="quiet"):
        JsonRoute("/quiet", LenientBody, quiet)


def test_it_is_open_to_everybody_and_the_same_for_all(memory, own, tmp_path):
    with Memory(tmp_path / "memory.db") as other:
        other.keys.create("anna", ["memory"])
        other.set_fact("name", "Anna", "anna")
        state = AppState(
            Config(user_id="anna", server_origins="https://a.example"), other, True, needs_key=True
        )
        with Running(create_app(state)) as running, running.client() as client:
            answers = [client.get(path) for path in ("/openapi.json", "/docs")]
            again = [
                client.get(str(one.url), headers={"If-None-Match": one.headers["etag"]}) for one in answers
            ]
            closed = client.get("/v1/models")

    assert [one.status_code for one in answers] == [200, 200]
    assert [one.text for one in answers] == [own.client.get(path).text for path in ("/openapi.json", "/docs")]
    assert [one.status_code for one in again] == [304, 304]
    assert closed.status_code == 401
    operations = {path: one for path, _, one in own.operations()}
    assert operations["/health"]["security"] == operations["/openapi.json"]["security"] == []
    assert operations["/v1/facts"]["security"] == [{"bearer": ["memory"]}, {"x-api-key": ["memory"]}, {}]
    assert operations["/metrics"]["security"][0] == {"bearer": ["metrics"]}
    assert operations["/v1/messages"]["security"][0] == {"bearer": ["chat"]}


def test_errors_have_the_shape_of_the_api(own):
    missing = own.ask("get", "/v1/memory/{memory_id}", 404, named={"memory_id": 99})
    assert missing["error"]["code"] == "not_found"
    assert own.ask("post", "/v1/messages", 400, json={})["type"] == "error"
    assert isinstance(own.ask("post", "/api/chat", 400, json={"model": 1})["error"], str)
    assert own.ask("get", "/v1/facts", 400, params={"at": "never"})["error"]["param"] == "at"


# ---- what the routes answer


def test_reading_routes_answer_as_described(own, ids, mini):
    learned = own.client.get("/v1/extraction/jobs").json()["data"][0]["id"]
    named = {**ids, "job_id": learned}
    item = {"role": "user", "content": "Hello"}
    made = own.ask("post", "/v1/conversations", json={"items": [item]})
    [kept] = own.client.get(f"/v1/conversations/{made['id']}/items", params={"user": own.user}).json()["data"]
    talk = {"session": made["id"], "item": kept["id"]}
    with mini.http() as client:
        models = Api(client, "steve of openapi")
        asked = {"model": "default", "input": "Hi", "max_output_tokens": 1, "user": models.user}
        stored = models.ask("post", "/v1/responses", json=asked)
        named |= {"name": "default", "response_id": stored["id"]}
        for path, method, operation in own.operations():
            if method != "get":
                continue
            if path.startswith("/v1/conversations/{session}/items"):
                own.ask("get", path, named=talk)
                continue
            api = models if operation["tags"][0] in (*FOREIGN, "Server") else own
            api.ask("get", path, named=named)
            queried = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
            if "limit" in queried:
                api.ask("get", path, named=named, params={"limit": 1})
                api.ask("get", path, 400, named=named, params={"limit": 0})
            if "404" in operation["responses"] and "{" in path:
                nothing = {name: 99 if isinstance(value, int) else "none" for name, value in named.items()}
                api.ask("get", path, 404, named=nothing)
    assert own.ask("get", "/v1/facts", params={"history": True})["periods"]


def test_writing_routes_answer_as_described(own, memory, ids):
    steve = own.ask
    made = steve("post", "/v1/memory", 201, json={"question": "Which lunch?", "answer": "soup"})
    one = {"memory_id": made["id"]}
    steve("patch", "/v1/memory/{memory_id}", named=one, json={"pinned": True})
    assert steve("post", "/v1/memory/search", json={"query": "lunch"})["data"]
    steve("post", "/v1/memory/batch", json={"action": "unpin", "ids": [made["id"]]})
    steve("delete", "/v1/memory/{memory_id}", named=one)
    steve("post", "/v1/memory/{memory_id}/restore", named=one)
    steve("put", "/v1/facts/{key}", named={"key": "pet"}, json={"value": "Rex"})
    steve("delete", "/v1/facts/{key}", named={"key": "pet"})
    steve("post", "/v1/facts/{key}/restore", named={"key": "pet"})
    steve("delete", "/v1/facts/{key}", named={"key": "pet"})
    steve("put", "/v1/facts/{key}", named={"key": "pet"}, json={"value": "Max"})
    steve("post", "/v1/facts/{key}/restore", 409, named={"key": "pet"})
    steve("post", "/v1/facts/{key}/restore", 404, named={"key": "city"})
    steve("delete", "/v1/facts/{key}", named={"key": "pet"})
    steve("delete", "/v1/facts/{key}", 404, named={"key": "pet"})
    lines = own.client.get("/v1/memory/export").content
    steve("post", "/v1/memory/import", params={"name": "all.jsonl"}, content=lines)
    events = steve("post", "/v1/memory/import", params={"name": "all.jsonl", "progress": True}, content=lines)
    assert "result" in events[-1]
    steve("post", "/v1/knowledge/import", params={"name": "a.md"}, content=b"# Sheep\n\nThey eat grass.")
    steve("post", "/v1/documents", params={"name": "a.md"}, content=b"# Sheep")
    node = steve("post", "/v1/knowledge/nodes", 201, json={"title": "C", "source_text": "Wool."})
    chosen = {"node_id": node["id"]}
    steve("patch", "/v1/knowledge/nodes/{node_id}", named=chosen, json={"kind": "note"})
    edge = {"from_node_id": node["id"], "to_node_id": ids["node_id"], "explanation": "wool comes from sheep"}
    connected = steve("post", "/v1/knowledge/edges", 201, json=edge)
    steve("delete", "/v1/knowledge/edges/{edge_id}", named={"edge_id": connected["id"]})
    steve("put", "/v1/knowledge/focus", json={"node_ids": [node["id"]]})
    assert steve("post", "/v1/knowledge/search", json={"query": "wool"})["data"]
    steve("delete", "/v1/knowledge/nodes/{node_id}", named=chosen)
    assert steve("post", "/v1/conversations/search", json={"query": "dog"})["data"]
    gone = {"session": conversation(memory, Message("user", "Hello"), Message("assistant", "Hi"))}
    steve("patch", "/v1/conversations/{session}", named=gone, json={"title": "A talk"})
    steve("post", "/v1/conversations/{session}/stop", named=gone)
    steve("delete", "/v1/conversations/{session}/messages/{message}", named={**gone, "message": 2})
    steve("delete", "/v1/conversations/{session}", named=gone)
    item = {"role": "user", "content": "Hello"}
    talk = {"session": steve("post", "/v1/conversations", json={"items": [item]})["id"]}
    steve("post", "/v1/conversations/{session}", named=talk, json={"metadata": {"a": "b"}})
    [added] = steve("post", "/v1/conversations/{session}/items", named=talk, json={"items": [item]})["data"]
    steve("get", "/v1/conversations/{session}/items", named=talk)
    about = {**talk, "item": added["id"]}
    steve("get", "/v1/conversations/{session}/items/{item}", named=about)
    steve("get", "/v1/conversations/{session}", named=talk)
    steve("delete", "/v1/conversations/{session}/items/{item}", named=about)
    steve("delete", "/v1/conversations/{session}", named=talk)
    job = {"job_id": own.client.get("/v1/extraction/jobs").json()["data"][0]["id"]}
    steve("post", "/v1/extraction/jobs/{job_id}/retry", 404, named=job)

    written = {(path, method) for path, method, one in own.operations() if one["tags"][0] not in FOREIGN}
    left = {path for path, method in written - own.asked if method not in ("get",)}
    assert left == {
        "/v1/learned/{learned_id}/{decision}",  # test_learned.py has a worker that learns
        "/v1/extraction/jobs/{job_id}",
        "/v1/context",
        "/v1/settings",
    }


def test_models_answer_as_described(mini):
    name, said = "default", [{"role": "user", "content": "My name is Steve."}]
    with mini.http() as client:
        api = Api(client)
        post = lambda path, **body: api.ask("post", path, json=body)  # noqa: E731
        few = {"model": name, "max_tokens": 3, "messages": said}
        asked = {"user": "steve of openapi", "recalled": True, "learned": True, "logprobs": True}
        post("/v1/chat/completions", **few, logprobs=True, top_logprobs=2)
        post("/v1/chat/completions", **few, stream=True, stream_options={"include_usage": True}, **asked)
        post("/v1/chat/completions", **few, verbose=True)
        post("/v1/chat/completions", **few, stream=True, return_progress=True)
        post("/v1/chat/completions/input_tokens", model=name, messages=said)
        post("/v1/chat/read_ahead", model=name, messages=said)
        post("/v1/completions", model=name, prompt="Hi", max_tokens=2, logprobs=1)
        post("/v1/completions", model=name, prompt=["Hi", "Ho"], max_tokens=2, stream=True)
        post("/v1/messages", **few)
        post("/v1/messages", **few, stream=True)
        post("/v1/messages/count_tokens", model=name, messages=said)
        response = post("/v1/responses", model=name, input="Hi", max_output_tokens=2)
        post("/v1/responses", model=name, input="Hi", max_output_tokens=2, stream=True)
        post("/v1/responses/input_tokens", model=name, input="Hi")
        post("/v1/responses", model=name, input="Hi", max_output_tokens=2, stream=True, background=True)
        late = post("/v1/responses", model=name, input="Hi", max_output_tokens=2, background=True)
        api.ask("post", "/v1/responses/{response_id}/cancel", named={"response_id": late["id"]})
        api.ask("get", "/v1/responses/{response_id}", named={"response_id": late["id"]})
        api.ask("delete", "/v1/responses/{response_id}", named={"response_id": response["id"]})
        short = {"model": name, "options": {"num_predict": 2}}
        for stream in (True, False):
            post("/api/chat", **short, messages=said, stream=stream)
            post("/api/generate", **short, prompt="Hi", stream=stream)
        post("/api/chat", model=name, messages=[])
        post("/api/show", model=name)
        for stream in (True, False):
            post("/api/pull", model=name, stream=stream)
        post("/api/embed", model=name, input=["a", "b"])
        post("/api/embeddings", model=name, prompt="a")
        post("/v1/embeddings", model=name, input="a", encoding_format="base64")
        post("/v1/embeddings", model=name, input=["a"])
        post("/completion", prompt="Hi", n_predict=2, n_probs=2, return_tokens=True)
        post("/completion", prompt=["Hi", "Ho"], n_predict=2)
        post("/completion", prompt="Hi", n_predict=2, stream=True)
        post("/completions", prompt="Hi", n_predict=2)
        post("/completions", model=name, prompt="Hi", max_tokens=2)
        api.ask("post", "/infill", 400, json={"input_prefix": "a", "input_suffix": "b"})
        post("/tokenize", content="Hi ☃", with_pieces=True)
        tokens = post("/tokenize", content="Hi")["tokens"]
        post("/detokenize", tokens=tokens)
        post("/apply-template", messages=said)
        post("/v1/context", question="Who am I?")
        api.ask("post", "/v1/rerank", 404, json={"query": "a", "documents": ["b"]})
        api.ask("patch", "/v1/settings", json={})
    left = {
        (path, method)
        for path, method, one in api.operations()
        if one["tags"][0] in FOREIGN and method != "get" and (path, method) not in api.asked
    }
    assert left == set()


# ---- what the routes read


def body_of(document: dict[str, Any], path: str) -> dict[str, Any]:
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


REFUSED = [
    ("/v1/responses", {"input": "Hi"}, {"prompt": {"id": "one"}}),
    ("/api/chat", {"messages": [{"role": "user", "content": "Hi"}]}, {"learned": True}),
    *[
        ("/api/generate", {"prompt": "Hi"}, field)
        for field in (
            *({"template": "x"}, {"context": [1]}),
            {"learned": True},
        )
    ],
    *[
        (path, {}, {"surprise": 1})
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/embeddings", "/v1/memory", "/v1/context")
    ],
]


def test_fields_that_are_refused_are_not_in_it(mini):
    with mini.http() as client:
        api = Api(client)
        for path, rest, field in REFUSED:
            assert client.post(path, json={"model": "default", **rest, **field}).status_code == 400
            assert field.keys() & body_of(api.document, path)["properties"].keys() == set()


def test_fields_have_their_types_defaults_and_limits(own):
    chat = body_of(own.document, "/v1/chat/completions")
    fields = chat["properties"]

    assert (chat["required"], chat["additionalProperties"]) == (["messages"], True)
    assert fields["temperature"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 5}
    assert (fields["stream"]["default"], fields["n"]["default"]) == (False, 1)
    assert fields["metadata"]["x-ignored"] is True
    assert "x-ignored" not in fields["session"]
    assert body_of(own.document, "/api/chat")["properties"]["stream"]["default"] is True
    limit = {one["name"]: one for one in own.document["paths"]["/v1/memory"]["get"]["parameters"]}["limit"]
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50}


def test_the_page_is_light_and_links_to_nothing_that_is_missing(own):
    text = own.client.get("/docs").text
    anchors = re.findall(r' id="([^"]+)"', text)

    assert len(text.encode()) <= 400_000
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(anchors)
    assert {one["operationId"] for _, _, one in own.operations()} <= set(anchors)
    assert {link for link in re.findall(r'(?:href|src)="([^#"]+)"', text) if link[0] != "/"} == set()
    assert "style=" not in text
