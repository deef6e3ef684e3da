"""A provider asks for a pause: a stream tells of it to those who asked for progress, and to nobody else."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.providers.upstream import refuses, says
from tests.server.processes import ServerProcess

HI = [{"role": "user", "content": "hi"}]
BUSY = 429


def ask(server: ServerProcess, **fields: Any) -> tuple[int, list[dict[str, Any]]]:
    """The status, and the chunks of a stream, or the one answer."""
    body = {"model": "default", "messages": HI, "stream": True, **fields}
    with server.http() as client:
        answer = client.post("/v1/chat/completions", json=body)
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return answer.status_code, [answer.json()]
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return answer.status_code, [json.loads(one) for one in data if one != "[DONE]"]


def said_in(chunks: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for one in chunks for choice in one["choices"])


@pytest.mark.parametrize("status", [BUSY, 503])
def test_a_pause_is_told_before_the_answer_to_who_asked_for_progress(through_busy, busy, status):
    busy.script[:] = [refuses(status, Retry_After="1"), says("Hello.")]

    code, chunks = ask(through_busy, return_progress=True, stream_options={"include_usage": True})

    assert (code, said_in(chunks)) == (200, "Hello.")
    [pause] = [one["retry"] for one in chunks if "retry" in one]
    assert "retry" in chunks[0]
    assert chunks[0]["choices"] == []
    assert 0 < pause["after_s"] <= 1
    assert pause["reason"].startswith("provider work ")
    assert f" answers {status}: " in pause["reason"]
    assert chunks[1]["choices"][0]["delta"] == {"role": "assistant"}
    assert chunks[-1]["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream": False, "return_progress": True}])
def test_other_requests_wait_and_have_nothing_but_the_answer(through_busy, busy, fields):
    busy.script[:] = [refuses(BUSY, Retry_After="1"), says("Hello.")]

    code, chunks = ask(through_busy, **fields)

    assert code == 200
    assert not any("retry" in one for one in chunks)


def test_a_failure_without_a_pause_is_a_status_also_for_who_asked_for_progress(through_busy, busy):
    busy.script[:] = [refuses(401)]

    code, [body] = ask(through_busy, return_progress=True)

    assert (code, body["error"]["code"]) == (502, "upstream_refused")


def test_a_failure_after_a_pause_ends_the_stream_with_an_error(through_busy, busy):
    busy.script[:] = [refuses(BUSY, Retry_After="1"), refuses(401)]

    code, chunks = ask(through_busy, return_progress=True)

    assert code == 200
    assert ["retry" in one for one in chunks] == [True, False]
    assert chunks[-1]["error"]["code"] == "upstream_refused"


def test_what_a_request_replaces_is_kept_until_a_piece_has_come(through_busy, busy):
    busy.script[:] = [says("First.")]
    asked = {"user": "anna of pauses", "session": "talk"}
    ask(through_busy, **asked)

    def stored() -> list[tuple[int, str]]:
        with through_busy.http() as client:
            listed = client.get("/v1/conversations/talk", params={"user": asked["user"]}).json()["data"]
        return [(one["message"], one["text"]) for one in listed]

    before = stored()
    replaces = before[0][0]
    busy.script[:] = [refuses(BUSY, Retry_After="1"), refuses(401)]
    ask(through_busy, **asked, return_progress=True, replaces=replaces)
    assert stored() == before

    busy.script[:] = [refuses(BUSY, Retry_After="1"), says("Second.")]
    ask(through_busy, **asked, return_progress=True, replaces=replaces)
    assert [text for _, text in before] == ["hi", "First."]
    assert [text for _, text in stored()] == ["hi", "Second."]


def test_openais_library_reads_a_stream_with_a_pause(through_busy, busy):
    busy.script[:] = [refuses(BUSY, Retry_After="1"), says("Hello.")]
    client = openai.OpenAI(base_url=f"{through_busy.url}/v1", api_key="none", max_retries=0)

    stream = client.chat.completions.create(
        model="default", messages=HI, stream=True, extra_body={"return_progress": True}
    )
    chunks = list(stream)

    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "Hello."
    assert chunks[0].retry["after_s"] > 0


def test_a_client_that_leaves_during_a_pause_ends_the_attempts(through_busy, busy):
    busy.script[:] = [refuses(BUSY, Retry_After="15"), says("Hello.")]
    before = len(busy.asked)
    body = {"model": "default", "messages": HI, "stream": True, "return_progress": True}
    with through_busy.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert "retry" in next(answer.iter_lines())

    busy.script[:] = [says("Hello.")]
    assert ask(through_busy)[0] == 200  # at once: nobody holds the model
    assert len(busy.asked) == before + 2
