"""What Claude Code sends: notes beside the user's words and settings; threads of Anthropic's library."""

from __future__ import annotations

import json

import anthropic
import pytest

from shepherd.server.anthropic_api import MessagesBody

REMINDER = "<system-reminder>\nToday is Friday.\n</system-reminder>"


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def conversation(*messages: dict[str, object]):
    return MessagesBody.model_validate({"max_tokens": 9, "messages": messages}).conversation()


def test_notes_beside_the_users_words_are_only_read():
    blocks = [text(REMINDER), text("I moved to Oslo."), text(f"{REMINDER}\n{REMINDER}")]
    [message] = conversation({"role": "user", "content": blocks})

    assert message.raw == "I moved to Oslo."
    assert message.content == "\n".join(block["text"] for block in blocks)


@pytest.mark.parametrize("said", [f"{REMINDER} I moved to Oslo. {REMINDER}", "<system-reminder>", REMINDER])
def test_other_texts_are_the_users_words(said):
    [message] = conversation({"role": "user", "content": [text(said)]})

    assert message.raw == message.content == said


def test_system_message_within_a_conversation_is_a_note():
    messages = conversation(
        {"role": "user", "content": "Hello"},
        {"role": "system", "content": [text("Be brief.")]},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Who are you?"},
    )

    assert [(message.role, message.raw) for message in messages] == [
        ("user", "Hello"),
        ("assistant", "Hi."),
        ("user", "Who are you?"),
    ]
    assert messages[0].content == "Hello\n<system-reminder>\nBe brief.\n</system-reminder>"


def test_notes_after_a_tools_result_go_with_it():
    result = {"type": "tool_result", "tool_use_id": "a", "content": "sunny"}
    call = {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}}
    before = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": [call]}]
    *_, tool = conversation(*before, {"role": "user", "content": [result, text(REMINDER)]})
    *_, said, asked = conversation(*before, {"role": "user", "content": [result, text("And tomorrow?")]})

    assert (tool.role, tool.raw, tool.content) == ("tool", "sunny", f"sunny\n{REMINDER}")
    assert (said.role, asked.role, asked.raw) == ("tool", "user", "And tomorrow?")


def test_answers_a_request_of_claude_code(mini):
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "user": "claudia",
        "messages": [
            {"role": "user", "content": [text(REMINDER), text("I moved to Oslo.")]},
            {"role": "system", "content": "Available agents: none"},
        ],
        "metadata": {"user_id": json.dumps({"session_id": "1"})},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
    }
    with mini.http() as http:
        answer = http.post("/v1/messages", params={"beta": "true"}, json=body)
        [kept] = http.get("/v1/conversations", params={"user": "claudia"}).json()["data"]
        stored = http.get(f"/v1/conversations/{kept['id']}", params={"user": "claudia"}).json()["data"]

    assert answer.status_code == 200, answer.text
    assert stored[0]["text"] == "I moved to Oslo."
    assert "Available agents: none" in stored[0]["composed"]


def test_library_sends_the_whole_conversation_where_threads_are_refused(calling):
    with anthropic.Anthropic(base_url=calling.url, api_key="none", max_retries=0) as client:
        asked = {"model": "default", "max_tokens": 90, "messages": [{"role": "user", "content": "Hello"}]}
        with pytest.raises(anthropic.BadRequestError, match="send all messages") as refused:
            client.messages.create(**asked, extra_body={"thread": {"type": "create"}})
        runner = client.beta.messages.tool_runner(**asked, tools=[get_weather], max_iterations=1)
        answer = runner.until_done()

    assert refused.value.body["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert answer.stop_reason == "tool_use"
