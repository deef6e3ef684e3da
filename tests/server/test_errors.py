"""What a client learns about each failure, in the shape of its API; and contents of messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from shepherd.errors import (
    ContextOverflowError,
    DocumentError,
    EmptyDocumentError,
    InternalError,
    ModelError,
    NoTokenError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    ProviderUnavailableError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    TemplateError,
    UsageError,
)
from shepherd.server.conversation_resources import TextSearch
from shepherd.server.errors import (
    Denied,
    Problem,
    anthropic_error,
    body_of,
    error_of,
    invalid,
    missing,
    openai_error,
    problem_of,
    problem_of_fields,
    refuse_gone,
    unsupported,
)
from shepherd.server.openai_api import ChatBody
from shepherd.server.resources import FactValue

USER_FIRST = "many models want user and assistant by turns, the user first"


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (Denied(409, "taken", "no", param="name", headers={"A": "b"}),
         Problem(409, "taken", "no", "name", (("A", "b"),))),
        (Denied(418, "tea", "no"), Problem(418, "tea", "no")),
        (KeyError("a secret"), Problem(500, "internal_error", "this is a bug in Shepherd: KeyError")),
        (ContextOverflowError("too long", prompt_tokens=9, window_tokens=5),
         Problem(400, "context_length_exceeded", "too long", "messages",
                 more=(("n_prompt_tokens", 9), ("n_ctx", 5)))),
        (UsageError("odd", hint="even"), Problem(400, "invalid_request", "odd (even)")),
        (EmptyDocumentError("empty"), Problem(400, "invalid_request", "empty")),
        (DocumentError("broken"), Problem(400, "invalid_request", "broken")),
        (NoTokenError("no"), Problem(400, "invalid_request", "no", "logit_bias")),
        (TemplateError("no"), Problem(400, "invalid_request", f"no ({USER_FIRST})", "messages")),
        (TemplateError("no", hint="do"), Problem(400, "invalid_request", "no (do)", "messages")),
        (ProviderUnavailableError("busy", retry_after_s=1.5),
         Problem(503, "upstream_unavailable", "busy", None, (("Retry-After", "2"),))),
        (ProviderUnavailableError("busy"), Problem(503, "upstream_unavailable", "busy")),
        (ProviderUnavailableError("busy", hint="or /provider NAME in a chat"),
         Problem(503, "upstream_unavailable", "busy (try again later, or choose another model)")),
        (ProviderUnavailableError("off", hint="start llama-server", is_absent=True),
         Problem(503, "upstream_unavailable", "off (start llama-server)")),
        (ProviderKeyError("key"), Problem(502, "upstream_refused", "key")),
        (ProviderRefusedError("no", said="too long", hint="x"),
         Problem(400, "invalid_request", "no: too long")),
        (ProviderRefusedError("no", hint="x"), Problem(400, "invalid_request", "no (x)")),
        (ProviderError("broken"), Problem(502, "upstream_failed", "broken")),
        (StoreLockedError("locked"), Problem(503, "memory_busy", "locked", None, (("Retry-After", "1"),))),
        (StoreFullError("full"), Problem(500, "memory_failed", "full")),
        (StoreError("lost"), Problem(500, "memory_failed", "lost")),
        (ModelError("gone"), Problem(500, "model_failed", "gone")),
        (InternalError("bug"), Problem(500, "model_failed", "bug")),
        (missing("memory"), Problem(404, "not_found", "this user has no such memory")),
        (invalid("n", "too many"), Problem(400, "invalid_request", "n: too many", "n")),
        (unsupported("audio", "text only"),
         Problem(400, "unsupported_parameter", "audio: not supported here (text only)", "audio")),
    ],
)  # fmt: skip
def test_a_failure_has_its_status_code_and_words(error: Exception, problem: Problem) -> None:
    assert problem_of(error) == problem


def test_a_command_in_an_error_can_be_run_as_it_is(program_at_home: str) -> None:
    for error in (
        StoreError("lost", hint="run `shepherd memory check`"),
        Denied(500, "memory_failed", "lost (run `shepherd memory check`)"),
    ):
        assert problem_of(error).message == f"lost (run `{program_at_home} memory check`)"


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (403, "permission_error", "permission_error"),
        (404, "not_found_error", "not_found_error"),
        (409, "invalid_request_error", "invalid_request_error"),
        (413, "invalid_request_error", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (499, "invalid_request_error", "invalid_request_error"),
        (500, "server_error", "api_error"),
        (503, "server_error", "overloaded_error"),
        (529, "server_error", "overloaded_error"),
    ],
)
def test_each_api_has_its_own_kinds_of_errors(status: int, openai: str, anthropic: str) -> None:
    problem = Problem(status, "why", "because", "field")

    assert openai_error(problem) == {
        "error": {"message": "because", "type": openai, "param": "field", "code": "why"}
    }
    assert anthropic_error(problem) == {
        "type": "error",
        "error": {"type": anthropic, "message": "why: because"},
    }


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1/messages2", "openai"),
        ("/v1/chat/completions", "openai"),
        ("/", "openai"),
        ("/api/chat", "ollama"),
        ("/api", "openai"),
        ("/apix", "openai"),
    ],
)
def test_the_path_decides_the_shape(path: str, kind: str) -> None:
    body = error_of(Problem(400, "why", "because"), path)

    found = (
        "anthropic"
        if body.get("type") == "error"
        else "openai"
        if isinstance(body["error"], dict)
        else "ollama"
    )
    assert found == kind
    if kind == "ollama":
        assert body == {"error": "because (why)"}
    assert json.loads(body_of(Problem(400, "why", "because"), path)) == body


HI = [{"role": "user", "content": "Hi"}]
STRING, OBJECT = "Input should be a valid string", "Input should be a valid object"


@pytest.mark.parametrize(
    ("body", "given", "field", "reason"),
    [
        (FactValue, {"value": "y", "Value": "x"}, "Value", "Extra inputs are not permitted"),
        (TextSearch, {"query": 5}, "query", STRING),
        (ChatBody, {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
         "messages.0.content.0.text", STRING),
        (ChatBody, {"messages": HI, "tool_choice": {"type": "function", "function": 5}},
         "tool_choice.function", OBJECT),
        (ChatBody, {"messages": HI, "tool_choice": 5},
         "tool_choice", "Input should be 'auto', 'none' or 'required'"),
        (ChatBody, {"messages": HI, "stop": ["a", 5]}, "stop.1", STRING),
        (ChatBody, {"messages": HI, "stop": 5}, "stop", STRING),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_type_is_named_with_the_reason(
    body: type[BaseModel], given: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        body.model_validate(given)
    errors = [{**error, "loc": ("body", *error["loc"])} for error in raised.value.errors()]

    assert problem_of_fields(errors) == Problem(400, "invalid_request", f"{field}: {reason}", field)


def test_a_client_that_has_left_is_refused() -> None:
    refuse_gone(False)
    with pytest.raises(Denied, match="has disconnected") as caught:
        refuse_gone(True)
    assert (caught.value.status, caught.value.code) == (499, "client_closed_request")
