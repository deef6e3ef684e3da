"""tools/get_sqlite.py against a server on the loopback, with archives of a few bytes."""

from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import sys
import tarfile
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tools import get_sqlite
from tools.get_sqlite import Release, SourceError, UnknownContentError

SOURCE = {"sqlite3.c": b"int sqlite3;\n", "sqlite3.h": b"#define SQLITE_VERSION_NUMBER 3053004\n"}
RELEASES = (Release("1.2.3", *(hashlib.sha3_256(SOURCE[name]).hexdigest() for name in get_sqlite.FILES)),)
PACKAGE = "pool/main/s/sqlite3/sqlite3_3.53.4.orig.tar.xz"
NOWHERE = "http://127.0.0.1:9/sqlite.tar.gz"  # the discard port: refused at once


class Server(ThreadingHTTPServer):
    """Serves `pages` by path and remembers what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path)
        if self.path == "/gibberish":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
            return
        self.send_response(404 if page is None else 200)
        if self.path == "/broken":  # the connection ends before the first piece does
            self.send_header("Transfer-Encoding", "chunked")
            page = b"ffff\r\n"
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def archive(files: dict[str, bytes], *, mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def debian_package(configure: str) -> bytes:
    makefile = "sqlite3.c:\n\tcp parts/sqlite3.c parts/sqlite3.h .\n"
    parts = {f"sqlite3-3.53.4/parts/{name}": content for name, content in SOURCE.items()}
    tree = {"sqlite3-3.53.4/configure": configure.encode(), "sqlite3-3.53.4/Makefile": makefile.encode()}
    return archive({**tree, **parts}, mode="w:xz")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_pinned_files_in_a_folder_need_no_source(tmp_path: Path) -> None:
    for name, content in SOURCE.items():
        (tmp_path / name).write_bytes(content)

    assert get_sqlite.obtain([tmp_path], [], RELEASES) == tmp_path


def test_folder_with_another_content_is_refused_and_left_alone(tmp_path: Path) -> None:
    for name in SOURCE:
        (tmp_path / name).write_bytes(b"mine")

    with pytest.raises(UnknownContentError, match="SHEPHERD_SQLITE_DIR"):
        get_sqlite.obtain([tmp_path], [], RELEASES)

    assert contents(tmp_path) == dict.fromkeys(SOURCE, b"mine")


def test_archive_is_unpacked_into_the_first_folder(server: Server, tmp_path: Path) -> None:
    server.pages["/sqlite.tar.gz"] = archive({f"sqlite-autoconf/{name}": SOURCE[name] for name in SOURCE})
    source = get_sqlite.from_archive(f"{server.url}/sqlite.tar.gz")

    folder = get_sqlite.obtain([tmp_path / "a" / "_sqlite", tmp_path / "b"], [("web", source)], RELEASES)

    assert folder == tmp_path / "a" / "_sqlite"
    assert contents(folder) == SOURCE
    assert not (tmp_path / "b").exists()


def test_second_folder_serves_when_the_first_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    server.pages["/sqlite.tar.gz"] = archive(SOURCE)
    source = get_sqlite.from_archive(f"{server.url}/sqlite.tar.gz")

    folder = get_sqlite.obtain([tmp_path / "file" / "a", tmp_path / "b"], [("web", source)], RELEASES)

    assert folder == tmp_path / "b"


def test_sources_are_asked_in_order_until_one_delivers(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages["/forged"] = archive({**SOURCE, "sqlite3.c": b"int forged;\n"})
    server.pages["/text"] = b"<html>please log in</html>"
    large = {**SOURCE, "sqlite3.c": random.Random(1).randbytes(50_000)}
    for kind in ("gz", "xz"):
        server.pages[f"/cut.{kind}"] = archive(large, mode=f"w:{kind}")[:30_000]
    half = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)  # 16: as gzip writes it
    start = half.compress(archive(large, mode="w")[:30_000]) + half.flush(zlib.Z_FULL_FLUSH)
    server.pages["/damaged"] = start + b"\xff" * 100  # a block of a kind that there is not
    server.pages["/broken"] = b""
    server.pages["/right"] = archive(SOURCE)
    refused = ["missing", "forged", "text", "cut.gz", "cut.xz", "damaged", "broken", "gibberish"]
    pages = [*refused, "right", "never"]
    sources = [(page, get_sqlite.from_archive(f"{server.url}/{page}")) for page in pages]
    sources.insert(0, ("nowhere", get_sqlite.from_archive(NOWHERE)))
    sources.insert(1, ("no URL", get_sqlite.from_archive("http://[mirror/sqlite.tar.gz")))

    folder = get_sqlite.obtain([tmp_path / "_sqlite"], sources, RELEASES)

    assert contents(folder) == SOURCE
    assert server.asked == [f"/{page}" for page in [*refused, "right"]]
    said = capsys.readouterr().err
    assert "Connection refused" in said
    assert "no URL: http://[mirror/sqlite.tar.gz: " in said
    assert "missing: " in said
    assert "are not SQLite 1.2.3" in said
    assert "text: not a tar archive" in said
    assert "cut.gz: the archive is cut or damaged" in said
    assert "cut.xz: the archive is cut or damaged" in said
    assert "damaged: the archive is cut or damaged" in said
    assert "broken: " in said
    assert "gibberish: " in said
    assert "SQLite 1.2.3 from right" in said


def test_nothing_is_stored_when_no_source_delivers(server: Server, tmp_path: Path) -> None:
    server.pages["/forged"] = archive({**SOURCE, "sqlite3.h": b"#define FORGED\n"})
    sources = [
        ("forged", get_sqlite.from_archive(f"{server.url}/forged")),
        ("nowhere", get_sqlite.from_archive(NOWHERE)),
    ]

    with pytest.raises(SourceError, match=r"(?s)no source of SQLite delivered:.*forged: .*nowhere: "):
        get_sqlite.obtain([tmp_path / "_sqlite"], sources, RELEASES)

    assert not (tmp_path / "_sqlite").exists()


def test_paths_of_an_archive_cannot_lead_out_of_the_folder(server: Server, tmp_path: Path) -> None:
    outside = tmp_path / "sqlite3.c"
    server.pages["/up"] = archive({"../../sqlite3.c": SOURCE["sqlite3.c"], str(outside): b"int forged;\n"})
    scratch = tmp_path / "deep" / "scratch"
    scratch.mkdir(parents=True)

    found = get_sqlite.from_archive(f"{server.url}/up")(scratch)

    assert found.parent == scratch
    assert sorted(path.name for path in tmp_path.rglob("*.c")) == ["sqlite3.c"]
    assert not outside.exists()


def test_source_package_is_made_into_the_two_files(server: Server, tmp_path: Path) -> None:
    package = debian_package("#!/bin/sh\nexit 0\n")
    server.pages[f"/debian/{PACKAGE}"] = package
    mirrors = [f"{server.url}/gone", f"{server.url}/debian/"]
    source = get_sqlite.from_debian(mirrors, PACKAGE, hashlib.sha256(package).hexdigest())

    folder = get_sqlite.obtain([tmp_path / "_sqlite"], [("Debian", source)], RELEASES)

    assert contents(folder) == SOURCE
    assert server.asked == [f"/gone/{PACKAGE}", f"/debian/{PACKAGE}"]


def test_source_package_with_a_wrong_hash_is_never_run(server: Server, tmp_path: Path) -> None:
    proof = tmp_path / "it ran"
    server.pages[f"/debian/{PACKAGE}"] = debian_package(f"#!/bin/sh\ntouch '{proof}'\n")
    source = get_sqlite.from_debian([f"{server.url}/debian"], PACKAGE, "0" * 64)

    with pytest.raises(SourceError, match="wrong SHA-256"):
        source(tmp_path)

    assert not proof.exists()


def test_failing_configure_is_reported_by_its_last_line(server: Server, tmp_path: Path) -> None:
    package = debian_package("#!/bin/sh\necho no C compiler found\nexit 77\n")
    server.pages[f"/debian/{PACKAGE}"] = package
    source = get_sqlite.from_debian([f"{server.url}/debian"], PACKAGE, hashlib.sha256(package).hexdigest())

    with pytest.raises(SourceError, match=r"configure .*no C compiler found"):
        source(tmp_path)


# As in the amalgamation: the header defines variables that it only declares in a file of its own.
AMALGAMATION = (
    b"/* Begin */\n/************** Begin file sqlite3.h *****/\n#ifndef SQLITE3_H\n"
    b"SQLITE_API const char sqlite3_version[] = SQLITE_VERSION;\nSQLITE_API char *sqlite3_temp_directory;\n"
    b"SQLITE_API int sqlite3_threadsafe(void);\n#endif /* SQLITE3_H */\nint sqlite3;\n"
)
HEADER = (
    b"#ifndef SQLITE3_H\nSQLITE_API SQLITE_EXTERN const char sqlite3_version[];\n"
    b"SQLITE_API SQLITE_EXTERN char *sqlite3_temp_directory;\n"
    b"SQLITE_API int sqlite3_threadsafe(void);\n#endif /* SQLITE3_H */\n"
)
WITH_CIPHERS = Release(
    "1.3.0", *(hashlib.sha3_256(part).hexdigest() for part in (AMALGAMATION, HEADER)), has_ciphers=True
)


def cipher_source(server: Server, package: bytes) -> get_sqlite.Source:
    server.pages["/apsw.tar.gz"] = package
    return get_sqlite.from_pypi(f"{server.url}/apsw.tar.gz", hashlib.sha256(package).hexdigest())


def test_header_is_cut_out_of_the_amalgamation_with_ciphers(server: Server, tmp_path: Path) -> None:
    source = cipher_source(server, archive({"apsw/sqlite3/sqlite3.c": AMALGAMATION}))

    folder = get_sqlite.obtain([tmp_path / "_sqlite"], [("PyPI", source)], [WITH_CIPHERS])

    assert contents(folder) == {"sqlite3.c": AMALGAMATION, "sqlite3.h": HEADER}


def test_package_without_an_amalgamation_is_refused(server: Server, tmp_path: Path) -> None:
    source = cipher_source(server, archive({"apsw/setup.py": b"", "apsw/sqlite3/sqlite3.c": b"int x;\n"}))

    with pytest.raises(SourceError, match="the package has no amalgamation"):
        source(tmp_path)


def test_sqlite_without_ciphers_is_replaced_once_the_other_can_be_had(server: Server, tmp_path: Path) -> None:
    for name, content in SOURCE.items():
        (tmp_path / name).write_bytes(content)
    releases = [WITH_CIPHERS, *RELEASES]
    nowhere = [("nowhere", get_sqlite.from_pypi(NOWHERE))]

    assert get_sqlite.obtain([tmp_path], [], releases, nowhere) == tmp_path
    assert contents(tmp_path) == SOURCE

    source = cipher_source(server, archive({"apsw/sqlite3/sqlite3.c": AMALGAMATION}))
    assert get_sqlite.obtain([tmp_path], [], releases, [("PyPI", source)]) == tmp_path
    assert contents(tmp_path) == {"sqlite3.c": AMALGAMATION, "sqlite3.h": HEADER}


def test_npm_package_is_packed_by_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "packed.tgz"
    packed.write_bytes(archive({f"package/deps/sqlite3/{name}": SOURCE[name] for name in SOURCE}))
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f"#!/bin/sh\necho \"$1 $2\" > '{tmp_path}/asked'\ncp '{packed}' ./better.tgz\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")

    folder = get_sqlite.obtain([tmp_path / "_sqlite"], [("npm", get_sqlite.from_npm())], RELEASES)

    assert contents(folder) == SOURCE
    assert (tmp_path / "asked").read_text() == f"pack {get_sqlite.NPM_PACKAGE}\n"


def test_mirrors_come_from_both_formats_of_apt(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://commented.example/debian sid main\n"
        "deb [signed-by=/usr/share/keyrings/x.gpg] http://one-line.example/debian bookworm main\n"
        "deb http://security.debian.org/debian-security bookworm-security main\n"
        "deb https://packages.example/tools stable main\n"
    )
    (parts / "debian.sources").write_text(
        "Types: deb\n"
        "# http://snapshot.example/debian\n"
        "URIs: http://deb822.example/debian/\n"
        " http://second.example/debian\n"
        "Suites: bookworm\n"
        "Components: main\n"
    )
    (parts / "off.list.disabled").write_text("deb http://disabled.example/debian sid main\n")

    assert get_sqlite.debian_mirrors(tmp_path) == [
        "http://one-line.example/debian",
        "http://deb822.example/debian",
        "http://second.example/debian",
        "https://deb.debian.org/debian",
    ]


def test_machine_without_apt_uses_the_public_mirror(tmp_path: Path) -> None:
    assert get_sqlite.debian_mirrors(tmp_path / "none") == ["https://deb.debian.org/debian"]


def test_command_tells_an_unknown_content_from_a_missing_one(tmp_path: Path) -> None:
    for name in SOURCE:
        (tmp_path / name).write_bytes(b"mine")

    done = subprocess.run(
        [sys.executable, get_sqlite.__file__, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert "are not SQLite 3.54.0 or 3.53.4" in done.stderr
