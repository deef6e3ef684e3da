#!/usr/bin/env python3
"""Bring SQLite's amalgamation (sqlite3.c and sqlite3.h) into a folder, from whichever registry answers.

Shepherd compiles SQLite into its own store module, because SQLite before 3.51.3 can corrupt the kind of
database that Shepherd keeps, and because SQLite itself cannot encrypt one. The source is not in the
repository; CMake calls this tool when it needs it:

    tools/get_sqlite.py [--plain] FOLDER [FOLDER ...]

It prints the first FOLDER that holds the source already, or else fetches it into the first that can be
written: SQLite3 Multiple Ciphers, which is SQLite with encryption, or SQLite itself if that cannot be had or
with --plain. If a FOLDER holds SQLite itself, it is replaced as soon as the other can be fetched. Nothing is
used that does not have one of the hashes below, wherever it came from. Exit status 1 and a line per source on
stderr when no source delivered, 2 when a FOLDER holds something else. Needs the standard library and, for
Debian's source package, a C compiler and make.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

try:
    from lzma import LZMAError
except ImportError:  # a Python built without lzma opens no .tar.xz either

    class LZMAError(Exception):  # type: ignore[no-redef]
        """Never raised."""


__all__ = [
    "RELEASES",
    "Release",
    "SourceError",
    "UnknownContentError",
    "cipher_sources",
    "debian_mirrors",
    "from_archive",
    "from_debian",
    "from_pypi",
    "obtain",
    "plain_sources",
    "verify",
]

FILES = ("sqlite3.c", "sqlite3.h")
CONNECT_TIMEOUT_S = 6.0  # for one answer of the network; a host that is not there costs this much
DOWNLOAD_TIMEOUT_S = 180.0  # for one whole archive of 4 to 12 MB
COMMAND_TIMEOUT_S = 300.0  # Debian's `./configure && make sqlite3.c` takes about 15 s
ARCHIVE_LIMIT_BYTES = 64 << 20  # several times the largest archive: a wrong answer does not fill the disk


class SourceError(Exception):
    """A source did not deliver the files that are wanted; the message says why."""


class UnknownContentError(SourceError):
    """A folder holds files of the right names with another content."""


@dataclass(frozen=True)
class Release:
    """An amalgamation that Shepherd accepts, by the SHA3-256 of its two files."""

    version: str
    sqlite3_c: str
    sqlite3_h: str
    has_ciphers: bool = False


RELEASES = (
    # SQLite3 Multiple Ciphers 2.6. Its header is cut out of its sqlite3.c.
    Release(
        "3.54.0",
        "7b9cc2be54fbbc6d748619671b638b1fdf46d6b156fdec3af4405eb7bd98a369",
        "9849b4448f96fe7a0d61c22c69c1beb57642898f0c1e2191254ef00dc0cb6988",
        has_ciphers=True,
    ),
    Release(
        "3.53.4",
        "67f423e9ebbbdc473cbc4772c872ee6b89f31fde4ed0279a5c25d5f65c043a16",
        "89d0de498b1012938bb78dc18b68fea52e26f7f7b6db6347d126a2e58b86a05c",
    ),
    Release(
        "3.54.1",
        "4e59d2c8634a24c9ec62c3bb68f7bc6cdc544b3998926a2c6f50334013f68bd6",
        "15ef3f5dbc4a7a980f828fa0d1e473cee5a124e7bb77e9bc70fc0bfa3f9a2af8",
    ),
)

# The source package of apsw-sqlite3mc has the amalgamation in sqlite3/sqlite3.c. It is unpacked, never run.
PYPI_URL = (
    "https://files.pythonhosted.org/packages/db/8f/bca0cdff784541de327f61b055efad355b14d390b36615548715dc6e9d55"
    "/apsw_sqlite3mc-3.54.0.0.tar.gz"
)
PYPI_SHA256 = "60a021cd9f6c8f3e2aa6cb54e197cb344379d5eb9a688b7647a136fc24956db4"
_HEADER_BEGINS = b"/************** Begin file sqlite3.h "
_HEADER_ENDS = b"#endif /* SQLITE3_H */\n"
# Inside sqlite3.c the header defines what it only declares in a file of its own.
_VARIABLE = re.compile(rb"^SQLITE_API ((?:const )?char [^(;=]*?)(?: = SQLITE_VERSION)?;", re.MULTILINE)
SQLITE_ORG_URL = "https://sqlite.org/2026/sqlite-autoconf-3530400.tar.gz"
DEBIAN_MIRROR = "https://deb.debian.org/debian"
DEBIAN_PATH = "pool/main/s/sqlite3/sqlite3_3.53.4.orig.tar.xz"
# Its configure script is run, so the archive is checked before, not only what comes out of it.
DEBIAN_SHA256 = "05366adc8ee80c6b1faa71285b49d133c2121238ca58934b077fdeb95934abd4"
NPM_PACKAGE = "better-sqlite3@13.2.0"

Source = Callable[[Path], Path]
"""Given a scratch folder, returns the folder in it that holds the two files, or raises SourceError."""


def obtain(
    folders: Sequence[Path],
    sources: Iterable[tuple[str, Source]],
    releases: Sequence[Release] = RELEASES,
    better: Iterable[tuple[str, Source]] = (),
) -> Path:
    """The first of `folders` that holds a verified amalgamation, fetched if none does.

    If it holds one without ciphers, one of `better` replaces it, if they deliver.
    Raises UnknownContentError when a folder holds something else, SourceError when no source delivered.
    """
    for folder in folders:
        if all((folder / name).exists() for name in FILES):
            if not verify(folder, releases).has_ciphers:
                _fetch(folder, better, releases)
            return folder
    target = next(filter(_is_writable, folders), None)
    if target is None:
        raise SourceError(f"none of the folders can be written: {', '.join(map(str, folders))}")
    refusals = _fetch(target, sources, releases)
    if refusals is not None:
        raise SourceError("\n".join(["no source of SQLite delivered:", *refusals]))
    return target


def _fetch(
    target: Path, sources: Iterable[tuple[str, Source]], releases: Sequence[Release]
) -> list[str] | None:
    """Bring the files of the first source that delivers; the refusals of all sources if none does."""
    refusals = []
    for name, source in sources:
        with tempfile.TemporaryDirectory(prefix="shepherd-sqlite-") as scratch:
            try:
                found = source(Path(scratch))
                release = verify(found, releases)
                _store(found, target)
            except (SourceError, OSError) as error:
                _say(f"{name}: {error}")
                refusals.append(f"  {name}: {error}")
                continue
        _say(f"SQLite {release.version} from {name} is in {target}")
        return None
    return refusals


def verify(folder: Path, releases: Sequence[Release] = RELEASES) -> Release:
    """The release that the files in `folder` are, byte for byte; UnknownContentError if none."""
    hashes = []
    for name in FILES:
        try:
            hashes.append(hashlib.sha3_256((folder / name).read_bytes()).hexdigest())
        except OSError as error:
            raise SourceError(f"{folder / name} cannot be read: {error.strerror}") from error
    for release in releases:
        if hashes == [release.sqlite3_c, release.sqlite3_h]:
            return release
    known = " or ".join(release.version for release in releases)
    raise UnknownContentError(
        f"the files in {folder} are not SQLite {known} (SHA3-256 of sqlite3.c is {hashes[0]}); "
        "delete that folder, or name it in SHEPHERD_SQLITE_DIR if you want exactly this SQLite"
    )


def from_pypi(url: str = PYPI_URL, sha256: str = PYPI_SHA256) -> Source:
    """A source that takes sqlite3.c out of a source package, and sqlite3.h out of sqlite3.c."""

    def source(scratch: Path) -> Path:
        folder = _extract(_first_download([url], sha256), scratch)
        try:
            whole = (folder / "sqlite3.c").read_bytes()
            start = whole.index(b"\n", whole.index(_HEADER_BEGINS)) + 1
            end = whole.index(_HEADER_ENDS, start) + len(_HEADER_ENDS)
        except (OSError, ValueError) as error:
            raise SourceError(f"{url}: the package has no amalgamation") from error
        (folder / "sqlite3.h").write_bytes(_VARIABLE.sub(rb"SQLITE_API SQLITE_EXTERN \1;", whole[start:end]))
        return folder

    return source


def from_archive(url: str) -> Source:
    """A source that takes the two files out of a tar archive at `url`."""

    def source(scratch: Path) -> Path:
        return _extract(download(url), scratch)

    return source


def from_debian(mirrors: Sequence[str], path: str = DEBIAN_PATH, sha256: str = DEBIAN_SHA256) -> Source:
    """A source that makes the amalgamation from the first mirror that has Debian's source package."""

    def source(scratch: Path) -> Path:
        if not shutil.which("make"):
            raise SourceError("make is not installed")
        archive = scratch / path.rsplit("/", 1)[-1]
        archive.write_bytes(_first_download([f"{mirror.rstrip('/')}/{path}" for mirror in mirrors], sha256))
        _unpack(archive, scratch)
        tree = next((entry for entry in scratch.iterdir() if entry.is_dir()), scratch)
        _say("making sqlite3.c (15 s)")
        _run(["./configure", "--disable-tcl"], tree)
        _run(["make", "sqlite3.c"], tree)
        return tree

    return source


def from_npm(package: str = NPM_PACKAGE) -> Source:
    """A source that takes the files out of an npm package which carries them, through npm itself."""

    def source(scratch: Path) -> Path:
        npm = shutil.which("npm")
        if not npm:
            raise SourceError("npm is not installed")
        patience = ["--fetch-retries=1", f"--fetch-timeout={int(DOWNLOAD_TIMEOUT_S * 1000)}"]
        _run([npm, "pack", package, "--ignore-scripts", "--silent", *patience], scratch)
        archive = next(scratch.glob("*.tgz"), None)
        if archive is None:
            raise SourceError(f"npm pack {package} left no archive")
        return _extract(archive.read_bytes(), scratch)

    return source


def cipher_sources() -> list[tuple[str, Source]]:
    """Return the sources of SQLite with encryption."""
    return [("PyPI's apsw-sqlite3mc", from_pypi())]


def plain_sources() -> list[tuple[str, Source]]:
    """Return the sources of SQLite itself in the order of trial: its makers, Debian's mirror, npm."""
    return [
        ("sqlite.org", from_archive(SQLITE_ORG_URL)),
        ("Debian's source package", from_debian(debian_mirrors())),
        (f"npm's {NPM_PACKAGE}", from_npm()),
    ]


def debian_mirrors(apt: Path = Path("/etc/apt")) -> list[str]:
    """The mirrors that apt is set up with, then deb.debian.org; not the ones for security updates.

    Reads the one-line format (`deb [options] URI suite component`) and deb822 (`URIs:` in a stanza).
    """
    found: list[str] = []
    for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))]:
        if path.suffix not in {".list", ".sources"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for line in re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE).splitlines():
            if re.match(r"(deb|deb-src)\s|URIs:", line, re.IGNORECASE):
                found += re.findall(r"https?://\S+", line)
            elif re.match(r"\s+https?://", line):  # a deb822 field goes on in indented lines
                found += line.split()
    names = (uri.rstrip("/") for uri in found)
    mirrors = [uri for uri in names if re.search(r"debian[^/]*$", uri) and not uri.endswith("security")]
    return list(dict.fromkeys([*mirrors, DEBIAN_MIRROR]))


def download(url: str) -> bytes:
    """The bytes at `url`; the environment's proxies and certificates hold."""
    _say(f"fetching {url}")
    deadline = time.monotonic() + DOWNLOAD_TIMEOUT_S
    chunks = io.BytesIO()
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S) as answer:
            while chunk := answer.read(1 << 16):
                chunks.write(chunk)
                if chunks.tell() > ARCHIVE_LIMIT_BYTES:
                    raise SourceError(f"{url} is larger than {ARCHIVE_LIMIT_BYTES >> 20} MB")
                if time.monotonic() > deadline:
                    raise SourceError(f"{url} took longer than {DOWNLOAD_TIMEOUT_S:.0f} s")
    # URLError and HTTPError are OSErrors; ValueError: apt names a mirror whose URL is none.
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{url}: {getattr(error, 'reason', None) or error}") from error
    return chunks.getvalue()


def _first_download(urls: Sequence[str], sha256: str) -> bytes:
    refusals = []
    for url in urls:
        try:
            data = download(url)
        except SourceError as error:
            refusals.append(str(error))
            continue
        found = hashlib.sha256(data).hexdigest()
        if found == sha256:
            return data
        refusals.append(f"{url}: wrong SHA-256 {found}")
    raise SourceError("; ".join(refusals))


def _extract(archive: bytes, scratch: Path) -> Path:
    # Only two files are read, by name, into a folder of ours: the archive's paths decide nothing.
    folder = scratch / "amalgamation"
    folder.mkdir()
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                name = member.name.rsplit("/", 1)[-1]
                if name in FILES and (content := tar.extractfile(member)) is not None:
                    (folder / name).write_bytes(content.read())
    except tarfile.TarError as error:
        raise SourceError(f"not a tar archive: {error}") from error
    except (EOFError, zlib.error, LZMAError) as error:
        raise SourceError(f"the archive is cut or damaged: {error}") from error
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    # For archives whose hash was right. A Python built without lzma leaves .tar.xz to tar.
    try:
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(folder, filter="data")
            else:
                tar.extractall(folder)
    except tarfile.CompressionError:
        _run(["tar", "-xf", str(archive)], folder)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{' '.join(command)}: no end after {COMMAND_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        output = done.stdout.decode(errors="replace").strip().splitlines()
        raise SourceError(f"{' '.join(command)}: {output[-1] if output else f'exit {done.returncode}'}")


def _is_writable(folder: Path) -> bool:
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def _store(found: Path, target: Path) -> None:
    # Each file appears whole or not at all, also when two builds fetch at once.
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        partial = target / f".{name}.{os.getpid()}"
        shutil.copyfile(found / name, partial)
        partial.replace(target / name)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description="Bring SQLite's amalgamation into a folder.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--plain", action="store_true", help="SQLite itself, which cannot encrypt")
    arguments = parser.parse_args()
    releases = [release for release in RELEASES if not (arguments.plain and release.has_ciphers)]
    better = [] if arguments.plain else cipher_sources()
    try:
        print(obtain(arguments.folders, [*better, *plain_sources()], releases, better))
    except SourceError as error:
        _say(str(error))
        return 2 if isinstance(error, UnknownContentError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
