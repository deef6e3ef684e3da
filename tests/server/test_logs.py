"""Lines of a log are JSON, and hold nothing that anybody said."""

from __future__ import annotations

import errno
import json
import logging
import subprocess
import sys

import pytest

from shepherd.errors import StoreError, UsageError
from shepherd.server.logs import JsonLines, ReadableLines, log_to
from shepherd.server.process import _remedy, bound


def line_of(error: Exception) -> dict:
    try:
        raise error
    except Exception:
        record = logging.LogRecord("shepherd", logging.ERROR, "x.py", 1, "it failed", None, sys.exc_info())
    return json.loads(JsonLines().format(record))


def test_an_error_is_logged_as_its_class_and_place():
    line = line_of(KeyError("what the user said"))

    assert (line["level"], line["message"], line["error"]["type"]) == ("error", "it failed", "KeyError")
    assert "test_logs.py" in line["error"]["where"][-1]
    assert "said" not in json.dumps(line)


def test_an_error_of_our_own_has_its_message_which_is_free_of_texts():
    assert line_of(StoreError("memory.db is locked"))["error"]["message"] == "memory.db is locked"


def test_a_server_logs_requests_with_tokens_and_without_texts(serve, scripted_model):
    with serve("-m", scripted_model) as server:
        server.ask("tell me of the sheep", "anna")
        with server.http() as client:
            client.get("/v1/facts/sheep?user=anna")
            client.get("/v1/sheep")
            client.post("/v1/chat/completions", content=b"sheep")

    lines = [json.loads(line) for line in server.log.splitlines()]
    requests = {
        (line["method"], line["route"], line["status"]): line
        for line in lines
        if line["message"] == "request"
    }
    chat = requests["POST", "/v1/chat/completions", 200]
    assert chat["tokens"]["generated"] > 0
    assert {("GET", "/v1/facts/{key:path}", 404), ("GET", "other", 404)} <= requests.keys()
    assert ("POST", "/v1/chat/completions", 400) in requests
    # Nothing happened that uvicorn would have to tell.
    assert {line["logger"].split(".")[0] for line in lines} == {"shepherd"}
    for word in ("sheep", "anna", "Café"):
        assert word not in server.log


def test_a_terminal_gets_lines_for_people():
    def line(level: int, message: str, **fields: object) -> str:
        record = logging.LogRecord("shepherd", level, "x.py", 1, message, None, None)
        record.fields = fields
        return ReadableLines().format(record)[len("12:34:56 ") :]

    chat = {"method": "POST", "route": "/v1/chat/completions", "status": 200, "ms": 1234.5, "request": "ab12"}
    tokens = {"reused": 1200, "decoded": 8, "generated": 0}

    assert line(logging.INFO, "request", **chat) == "POST /v1/chat/completions 200 · 1.2 s"
    assert line(logging.INFO, "request", **chat, tokens=tokens, ended="early", key="3f") == (
        "POST /v1/chat/completions 200 · 1.2 s · 1,200 tokens reused, 8 tokens decoded · ended early · key 3f"
    )
    assert line(logging.INFO, "request", **{**chat, "status": 500}).endswith("500 · 1.2 s · request ab12")
    assert line(logging.WARNING, "storing failed") == "warning: storing failed"


def test_a_log_file_is_its_owners_alone_also_after_rotation(tmp_path):
    program = (
        "import logging, os, sys\n"
        "from shepherd.server.logs import log_to\n"
        "os.umask(0o022)\n"
        "log_to(sys.argv[1])\n"
        "logging.getLogger('shepherd').info('first')\n"
        "os.rename(sys.argv[1], sys.argv[1] + '.1')\n"
        "logging.getLogger('shepherd').info('second')\n"
    )
    path = tmp_path / "server.log"

    subprocess.run([sys.executable, "-c", program, str(path)], check=True)

    rotated = tmp_path / "server.log.1"
    assert [file.stat().st_mode & 0o777 for file in (path, rotated)] == [0o600, 0o600]
    assert json.loads(rotated.read_text())["message"] == "first"
    assert json.loads(path.read_text())["message"] == "second"


def test_a_log_or_an_address_that_cannot_be_used_is_a_mistake_with_its_own_hint(tmp_path):
    with pytest.raises(UsageError, match="the log cannot be written: No such file") as log:
        log_to(str(tmp_path / "none" / "log"))
    with pytest.raises(UsageError, match=r"cannot listen on 203\.0\.113\.7:0") as address:  # of documentation
        bound("203.0.113.7", 0)
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen") as port:
            bound("127.0.0.1", taken.getsockname()[1])

    assert "--log names a file" in log.value.hint
    assert "name an address of this machine" in address.value.hint
    assert "--port names another port" in port.value.hint


@pytest.mark.parametrize(
    ("code", "port", "told"),
    [
        (errno.EACCES, 80, "ports below 1024 need special rights; --port names another port"),
        (errno.EACCES, 8000, "another program may have it; --port names another port"),
        (errno.EADDRINUSE, 80, "another program may have it; --port names another port"),
    ],
)
def test_an_address_that_cannot_be_had_is_explained(code, port, told):
    assert _remedy(OSError(code, ""), port, "--port") == told
