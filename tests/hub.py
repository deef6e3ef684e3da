"""A hub on the loopback interface: as much of the Hugging Face Hub's HTTP interface as downloads need.

Two real servers, as there: the hub answers /api/models/… and /{repo}/resolve/{commit}/{file}, and sends the
reader on to a second origin, which serves contents with ETag and Range. Faults are asked for by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?")
_TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)(?:/.*)?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")
_PIECE = 16 * 1024


@dataclass
class ServedFile:
    """A file as the hub describes it (`sha256`, `size`), and the bytes it really sends."""

    data: bytes
    sha256: str
    size: int


@dataclass
class ServedRepo:
    """A repository: its files by path, and who may read it."""

    commit: str = _COMMIT
    files: dict[str, ServedFile] = field(default_factory=dict)
    token: str = ""
    gated: bool = False


@dataclass(frozen=True)
class Request:
    """What a client asked: `server` is hub or store, `token` the bearer token it sent."""

    server: str
    method: str
    path: str
    range: str
    token: str


@dataclass
class Fault:
    """An answer to give instead of the right one, `times` times, to requests whose path contains `where`.

    With a status: that and `body`. Else the contents, but the connection ends after `cut_after` bytes, or
    pauses after `stall_after` until `hub.release()`.
    """

    where: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int = -1
    stall_after: int = -1
    body: bytes = b""
    times: int = 1


class LoopbackHub:
    """`with LoopbackHub() as hub:` serves until the block ends; `hub.endpoint` is its address."""

    def __init__(self) -> None:
        self.repos: dict[str, ServedRepo] = {}
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.ranges_supported = True
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._servers = {name: _Server(name, self) for name in ("hub", "store")}

    @property
    def endpoint(self) -> str:
        """For HF_ENDPOINT."""
        return self._servers["hub"].address

    @property
    def store(self) -> str:
        """Where contents come from: another origin, which must never see a token."""
        return self._servers["store"].address

    def __enter__(self) -> LoopbackHub:
        for server in self._servers.values():
            server.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()
        for server in self._servers.values():
            server.stop()

    def add(
        self, repo: str, path: str, data: bytes, *, sha256: str = "", size: int | None = None
    ) -> ServedFile:
        """Publish a file; `sha256` and `size` make the hub lie about it."""
        file = ServedFile(
            data, sha256 or hashlib.sha256(data).hexdigest(), len(data) if size is None else size
        )
        self.repos.setdefault(repo, ServedRepo()).files[path] = file
        return file

    def fail(self, where: str, **fault: Any) -> None:
        """Answer the next request for a path that contains `where` wrongly; see Fault."""
        self.faults.append(Fault(where, **fault))

    def release(self) -> None:
        """Let stalled answers go on."""
        self._released.set()

    def wait_for_release(self) -> None:
        """Until `release` was called."""
        self._released.wait()

    def asked(self, server: str, method: str = "GET") -> list[Request]:
        """The requests that one of the two servers got, in order."""
        with self._lock:
            return [r for r in self.requests if r.server == server and r.method == method]

    def _note(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times and fault.where in request.path:
                    fault.times -= 1
                    return fault
        return None


class _Server:
    def __init__(self, name: str, hub: LoopbackHub) -> None:
        handler = type("Handler", (_Handler,), {"hub": hub, "name": name})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    name: str
    protocol_version = "HTTP/1.1"
    timeout = 10

    def handle(self) -> None:
        """Serve one connection; a client that hangs up in the middle is no error here."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent; tests look at `hub.requests`."""

    def _answer(self) -> None:
        path = urlsplit(self.path).path
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        fault = self.hub._note(
            Request(self.name, self.command, unquote(path), self.headers.get("Range", ""), token)
        )
        if fault and fault.status:
            self._send(fault.status, fault.body, fault.headers)
        elif self.name == "store":
            self._send_contents(path, fault or Fault(""))
        elif match := _API.fullmatch(path):
            self._with_repo(match[1], token, self._send_info)
        elif match := _TREE.fullmatch(path):
            self._with_repo(match[1], token, self._send_tree)
        elif match := _RESOLVE.fullmatch(path):
            file = unquote(match[3])
            self._with_repo(match[1], token, lambda name, repo: self._send_on(name, repo, file))
        else:
            self._send(404)

    def _with_repo(self, name: str, token: str, send: Any) -> None:
        repo = self.hub.repos.get(name)
        if repo is None:
            # As the hub does it, so that the names of private repositories cannot be guessed.
            self._send(401 if not token else 404, headers={"X-Error-Code": "RepoNotFound"})
        elif repo.gated and token != repo.token:
            self._send(403 if token else 401, headers={"X-Error-Code": "GatedRepo"})
        elif repo.token and token != repo.token:
            message = (
                "Invalid credentials in Authorization header" if token else "Invalid username or password."
            )
            self._send(401, headers={"X-Error-Message": message})
        else:
            send(name, repo)

    def _send_info(self, name: str, repo: ServedRepo) -> None:
        siblings = [
            {
                "rfilename": path,
                "size": file.size,
                "blobId": hashlib.sha1(path.encode()).hexdigest(),
                "lfs": {"sha256": file.sha256, "size": file.size, "pointerSize": 134},
            }
            for path, file in repo.files.items()
        ]
        info = {"id": name, "modelId": name, "sha": repo.commit, "siblings": siblings, "tags": []}
        self._send_json(info)

    def _send_tree(self, name: str, repo: ServedRepo) -> None:
        self._send_json(
            [
                {
                    "type": "file",
                    "path": path,
                    "size": file.size,
                    "oid": hashlib.sha1(path.encode()).hexdigest(),
                    "lfs": {"oid": file.sha256, "size": file.size, "pointerSize": 134},
                }
                for path, file in repo.files.items()
            ]
        )

    def _send_on(self, name: str, repo: ServedRepo, path: str) -> None:
        if path not in repo.files:
            self._send(404, headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": repo.commit})
            return
        file = repo.files[path]
        headers = {
            "Location": f"{self.hub.store}/{name}/{quote(path)}",
            "X-Repo-Commit": repo.commit,
            "X-Linked-Etag": f'"{file.sha256}"',
            "X-Linked-Size": str(file.size),
            "ETag": f'"{file.sha256}"',
        }
        self._send(302, headers=headers)

    def _send_contents(self, path: str, fault: Fault) -> None:
        user, repo, file = unquote(path).lstrip("/").split("/", 2)
        served = self.hub.repos[f"{user}/{repo}"].files[file]
        start, status, headers = 0, 200, {"ETag": f'"{served.sha256}"'}
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match and self.hub.ranges_supported:
            start, status = int(match[1]), 206
            headers["Content-Range"] = f"bytes {start}-{served.size - 1}/{served.size}"
            if start >= len(served.data):
                self._send(416, headers={"Content-Range": f"bytes */{served.size}"})
                return
        self._send(status, served.data[start:], headers, fault)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(
        self,
        status: int,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        fault: Fault | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault and fault.cut_after >= 0:
            self.close_connection = True  # what was promised does not come any more
            body = body[: fault.cut_after]
        if fault and fault.stall_after >= 0:
            self.wfile.write(body[: fault.stall_after])
            self.hub.wait_for_release()
            body = body[fault.stall_after :]
        for start in range(0, len(body), _PIECE):
            self.wfile.write(body[start : start + _PIECE])
