"""The records that everybody shares."""

from __future__ import annotations

from dataclasses import fields

from shepherd.types import Injection, Message, Picture, ToolCall


def test_a_copy_of_a_message_has_all_that_it_has_and_is_another_one():
    message = Message(
        "assistant",
        "raw",
        "raw and tail",
        Injection("tail"),
        (1, 2),
        3,
        4,
        5,
        (ToolCall("a", "b", "{}"),),
        "call",
        "thought",
        "raw in a template",
        (Picture(b"picture"),),
    )

    copy = message.copy()

    assert all(getattr(copy, field.name) == getattr(message, field.name) for field in fields(Message))
    assert all(getattr(message, field.name) for field in fields(Message))  # or the line above says little
    copy.sent = "other"
    assert message.sent == "raw and tail"
