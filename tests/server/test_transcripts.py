"""Requests with whole answers, as in the files of transcripts/: a new server and memory for each file.

A line `> METHOD PATH` is a request, `> {…}` below it its body, and `> NAME: VALUE` a header. Below are the
status, the type and the body of the answer. In a request, `$conv`, `$resp` and `$msg` stand for the last ids
of a conversation, a response and an item. What differs between runs and machines has names: ID, NOW, and N.N
for numbers with a fraction.

After a change that is meant, write them anew, and read what `git diff` shows:

    .venv/bin/python -m tests.server.test_transcripts
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from shepherd.inference import Engine, EngineSettings
from shepherd.inference.embedding import Embedder
from shepherd.memory import Memory
from shepherd.server import (  # noqa: F401
    anthropic_api,
    completion_api,
    continuation,
    conversation_resources,
    conversations_api,
    description,
    errors,
    http,
    knowledge_resources,
    llama_api,
    llama_completions,
    monitoring,
    ollama_api,
    openai_answers,
    openai_api,
    public_ids,
    pulls,
    resources,
    response_events,
    responses_api,
    responses_bodies,
    responses_tools,
    retrieval_api,
    stored_responses,
    streaming,
)
from shepherd.server.retrieval_api import Embeddings
from tests import models
from tests.conftest import SCRIPT
from tests.server.in_process import running

FOLDER = Path(__file__).with_name("transcripts")
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
# What each of these says is the same in every run but for this.
_VARYING = (
    (r"\b(chatcmpl|cmpl|msg|resp|call|rs|fc|conv|item|run|toolu|req)[-_][0-9A-Za-z]{8,}", r"\1_ID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?", "NOW"),
    (r"-?\b\d+\.\d+(e-?\d+)?", "N.N"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{16,64}\b", "ID"),
    (r"\b1[789]\d{8}\b", "NOW"),
    (r'"system_fingerprint":"\w+"', '"system_fingerprint":"ID"'),
    (r"((?:_ms|_us|_ns|duration|day)\": ?)\d+", r"\1N"),
)


@contextmanager
def served(folder: Path, model: Path) -> Iterator[httpx.Client]:
    """A client of a server whose model says "Hello, I am a shepherd. Café is open today!"."""
    models.bert(folder / "tiny-bert.gguf")
    embeddings = Embeddings("tiny-bert", lambda: Embedder(folder / "tiny-bert.gguf"))
    settings = EngineSettings(n_ctx=2048, n_threads=1)
    # Each file has an engine of its own: how much of a prompt was read before is in the answers.
    with Engine(model, settings=settings) as engine, Memory(folder / "memory.db", user_id="steve") as memory:
        server = running(
            engine, memory=memory, embeddings=embeddings, user_id="steve", context_entities=False
        )
        with server, server.client() as client:
            yield client


def answered(client: httpx.Client, lines: list[str], ids: dict[str, str]) -> list[str]:
    """Return the lines of an answer; `$conv` in a request is the last id of a conversation, and so on."""
    lines = [re.sub(r"\$(\w+)", lambda found: ids[found[1]], line) for line in lines]
    method, path = lines[0].split(" ", 1)
    headers, content = {}, None
    for line in lines[1:]:
        if re.match(r"[A-Z][\w-]+: ", line):
            name, value = line.split(": ", 1)
            headers[name] = value
        else:
            content = line
            headers.setdefault("Content-Type", "application/json")
    answer = client.request(method, path, headers=headers, content=content)
    ids.update((name[1], name[0]) for name in re.finditer(r"\b(conv|resp|msg)_[0-9A-Za-z]{8,}", answer.text))
    kind = answer.headers.get("content-type", "")
    more = [f"{name}: {answer.headers[name]}" for name in ("allow", "retry-after") if name in answer.headers]
    body = [line.rstrip() for line in answer.text.replace(str(client.base_url), "http://HOST").splitlines()]
    shown = [f"{answer.status_code} {kind}".strip(), *more, *filter(None, body)]
    return [f"  {named(line)}" for line in shown]


def named(text: str) -> str:
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text)
    return text


def written(text: str, folder: Path, model: Path) -> str:
    """Return a transcript with what its requests are answered now."""
    done: list[str] = []
    ids: dict[str, str] = {}
    with served(folder, model) as client:
        for part in re.split(r"\n(?=> [A-Z]+ /)", text):
            asked = [line[2:] for line in part.splitlines() if line.startswith("> ")]
            done += [f"> {line}" for line in asked]
            done += answered(client, asked, ids)
    return "\n".join(done) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_requests_are_answered_as_the_transcript_shows(
    name: str, tmp_path: Path, scripted_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = (FOLDER / f"{name}.txt").read_text("utf-8")

    assert written(text, tmp_path, scripted_model).splitlines() == text.splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", place)
        models.scripted(Path(place, "scripted.gguf"), script=SCRIPT)
        for file in sorted(FOLDER.glob("*.txt")):
            with tempfile.TemporaryDirectory() as home:
                file.write_text(
                    written(file.read_text("utf-8"), Path(home), Path(place, "scripted.gguf")), "utf-8"
                )
