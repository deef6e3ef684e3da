"""Commands in the bundled model's own answers, where PATH doesn't have the program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shepherd.memory import Memory
from tests.server.processes import ServerProcess

_OWN = Path(sys.prefix, "Scripts" if os.name == "nt" else "bin", "shepherd")
_PATH = "/usr/bin:/bin"
_TASK = "Write a poem about cheese."


def test_at_the_terminal_the_command_has_the_path_of_the_program(shepherd):
    done = shepherd("-e", _TASK, PATH=_PATH)

    assert f"run `{_OWN} -m hf:" in done.stdout, done.stderr


def test_clients_of_a_server_with_keys_see_no_path(tmp_path):
    home = tmp_path / "home"
    database = home / ".local" / "share" / "shepherd" / "memory.db"
    database.parent.mkdir(parents=True)
    with Memory(database) as memory:
        key = memory.keys.create("anna", ["chat"])[0]
    with (
        ServerProcess(home, PATH=_PATH) as server,
        server.http(Authorization=f"Bearer {key}") as client,
    ):
        answer = client.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": _TASK}]}
        ).json()

    assert "run `shepherd -m hf:" in answer["choices"][0]["message"]["content"]
