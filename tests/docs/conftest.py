"""What the documents' commands need from outside: files, and servers on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.reader import publish, write_files
from tests.hub import LoopbackHub
from tests.postgres import Server
from tests.providers.upstream import claude_says, running


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.fixture(scope="session")
def hub(files: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub() as served:
        publish(served, files)
        yield served


@pytest.fixture
def addressed(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """A line with what it leaves open about the tests' servers: `{upstream}`, and PostgreSQL's words."""
    server: Server | None = None

    def fill_in(line: str) -> str:
        nonlocal server
        line = line.replace("{upstream}", upstream.url)
        if any(word in line for word in ("{postgres}", "{pghost}", "{programs}")):
            server = request.getfixturevalue("postgres_server")
            line = line.replace("{pghost}", str(server.folder)).replace("{programs}", str(server.programs))
        if "{postgres}" in line:
            line = line.replace("{postgres}", server.url(server.new_schema()))
        return line

    with running(claude_says({"text": "ok"})) as upstream:
        yield fill_in
    if server is not None:
        # As docs/how-to/postgresql.md calls them.
        server.execute("DROP DATABASE IF EXISTS memory")
        server.execute("DROP DATABASE IF EXISTS restored")
        server.execute("DROP ROLE IF EXISTS shepherd")
