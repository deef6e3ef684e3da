"""Lines for a shell, typed into the chat by mistake, become no memories."""

from __future__ import annotations

import pytest

from shepherd.prompt.archive_policy import is_command_line, is_worth_a_memory
from shepherd.types import Message


@pytest.mark.parametrize(
    "line",
    [
        "clear",
        "shepherd demo",
        "cd ~/notes; tools/run",
        "tools/run -m nothere.gguf",
        "shepherd --help | head -60",
        "ls -la",
        "$ git status",
        "./configure --prefix=/usr",
        "sudo apt-get install chromium",
    ],
)
def test_a_command_line_is_no_memory(line: str) -> None:
    assert is_command_line(line)
    assert not is_worth_a_memory(Message("user", line), "I see.")


@pytest.mark.parametrize(
    "text",
    [
        "cat food",
        "clear skies today",
        "I use git push every day.",
        "git is my favourite tool",
        "My address is 3/4 High Street",
        "vegan/vegetarian",
        "red/green colour blind",
        "Rex - 4 years old",
        "allergic to nuts/eggs",
        "lactose free/vegan",
        "dentist 3/4",
        "docker compose up fails with the error 137",
        "my notes:\nls -la",
        "",
    ],
)
def test_words_of_a_shell_are_no_command_line(text: str) -> None:
    assert not is_command_line(text)


@pytest.mark.parametrize("text", ["a " * 200_000, "git " + "x " * 200_000, "a" * 400_000, "a -" * 100_000])
def test_long_text_is_read_in_linear_time(text: str) -> None:
    assert not is_command_line(text)
