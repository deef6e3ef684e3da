"""Import of a file, a folder, an address, an RA-H database, a graph of entities or an export of our own.

Each document is one transaction, so an interruption loses none that was reported. A repeated import
recognises unchanged documents by the hash of their bytes, and does not parse them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from shepherd.encryption import exports, scratch_folder
from shepherd.errors import DocumentError, EmptyDocumentError, UsageError
from shepherd.escaping import storable
from shepherd.knowledge import nodes, transfer
from shepherd.knowledge.importing import documents, entities, web
from shepherd.knowledge.importing.documents import Document
from shepherd.knowledge.importing.rah import RaHDatabase
from shepherd.knowledge.importing.web import WebLimits
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import Outcome
from shepherd.paths import is_special

__all__ = ["Progress", "import_from", "import_upload", "read_document", "read_upload"]

# Called with the amount done, the total (0: unknown) and a name.
Progress = Callable[[int, int, str], None]

_SQLITE = b"SQLite format 3\0"
_BEGINNING = 4096


def import_from(
    knowledge: Knowledge,
    source: str,
    *,
    dimensions: Iterable[str] = (),
    limits: WebLimits | None = None,
    progress: Progress = lambda done, total, name: None,
    stdin: BinaryIO | None = None,
) -> Iterator[Outcome]:
    """Import `source`, a path, an address or "-" for `stdin`; yield the outcome of each document.

    A file of a folder that cannot be read has the outcome `failed`, one without text `empty`, and one of
    another kind `skipped`. One that was imported before and does not exist any more has `gone`; its document
    stays. A single document raises DocumentError or UsageError.
    """
    limits = limits or WebLimits()
    tags = tuple(map(storable, dimensions))
    if not source.strip():
        raise UsageError(
            "the name of what to import is empty", hint="is a variable not set? . is the current folder"
        )
    if source == "-" and stdin is not None:
        yield from _import_piped(knowledge, _limited(stdin, "stdin", limits), "stdin", tags, limits, progress)
        return
    if "://" in source:
        yield _import_page(knowledge, source, tags, limits)
        return
    path = Path(os.path.expanduser(source))  # Path.expanduser raises for an unknown user
    if path.is_dir():
        yield from _import_folder(knowledge, path, tags, limits, progress)
    elif is_special(path):  # such as <(command) and /dev/stdin
        yield from _import_piped(knowledge, _bytes_of(path, limits), "stdin", tags, limits, progress)
    elif not path.is_file():
        raise UsageError(f"{path}: there is no such file", hint="name a file, a folder or an address")
    elif (beginning := _beginning(path)).startswith(_SQLITE):
        yield from _import_rah(knowledge, path, progress)
    elif transfer.is_export(beginning):
        yield from transfer.read(knowledge, path, progress)
    elif entities.is_graph(beginning, path.name):
        yield from entities.read(knowledge, _bytes_of(path, limits), str(path), tags, progress)
    else:
        _refuse_encrypted(beginning, str(path))
        yield _import_file(knowledge, path, tags, limits, progress)


def read_document(source: str, limits: WebLimits | None = None, stdin: BinaryIO | None = None) -> Document:
    """Return the document of a file, an address, or of `stdin` where the source is "-"; nothing is imported.

    A pipe that has a name, as a shell makes for `<(command)`, is a file. Raises DocumentError, UsageError.
    """
    limits = limits or WebLimits()
    if source == "-" and stdin is not None:
        return documents.read(_limited(stdin, "stdin", limits), "stdin")
    if "://" in source:
        page = web.fetch(source, limits)
        return documents.read(page.data, page.name, content_type=page.content_type, charset=page.charset)
    if not source:
        raise UsageError("the name of the file is empty", hint="name a file or an address")
    path = Path(os.path.expanduser(source))
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder", hint="name the files in it")
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", hint="name a file or an address")
    return documents.read(_bytes_of(path, limits), storable(path.name))


def read_upload(data: bytes, name: str, most_bytes: int) -> Document:
    """Return the document in bytes that came under a name. Raises DocumentError."""
    _refuse_large(data, name, most_bytes)
    return documents.read(data, storable(name))


def import_upload(
    knowledge: Knowledge,
    data: bytes,
    name: str,
    most_bytes: int,
    progress: Progress = lambda done, total, name: None,
) -> Iterator[Outcome]:
    """Import bytes that came under a name: a document, a graph, or an export of our own; yield its outcomes.

    A later upload with the same name replaces the earlier one. If a file with the same name and contents was
    imported already, nothing is stored. Raises DocumentError.
    """
    name = storable(name)

    def twin(digest: str) -> int | None:
        return knowledge.look(
            lambda connection: nodes.of_file(connection, knowledge.user_id, name, digest), None
        )

    yield from _import_bytes(knowledge, data, name, _upload(name), (), most_bytes, progress, twin)


def _import_piped(
    knowledge: Knowledge,
    data: bytes,
    name: str,
    tags: tuple[str, ...],
    limits: WebLimits,
    progress: Progress,
) -> Iterator[Outcome]:
    """Import what has no place that would be the same the next time: other bytes are another document."""
    place = b"piped\0" + _digest(data).encode()
    yield from _import_bytes(knowledge, data, name, place, tags, limits.most_bytes, progress)


def _import_bytes(
    knowledge: Knowledge,
    data: bytes,
    name: str,
    place: bytes,
    tags: tuple[str, ...],
    most_bytes: int,
    progress: Progress,
    twin: Callable[[str], int | None] = lambda digest: None,
) -> Iterator[Outcome]:
    beginning = data[:_BEGINNING]
    if beginning.startswith(_SQLITE):
        raise DocumentError(
            f"{name}: is a database", hint="shepherd knowledge import reads RA-H's, in a terminal"
        )
    _refuse_encrypted(beginning, name)
    if transfer.is_export(beginning):
        with scratch_folder() as folder:
            path = folder / "upload.jsonl"
            path.write_bytes(data)
            yield from transfer.read(knowledge, path, progress)
        return
    _refuse_large(data, name, most_bytes)
    if entities.is_graph(beginning, name):
        yield from entities.read(knowledge, data, name, tags, progress)
        return
    yield _store_document(
        knowledge,
        data,
        place=place,
        twin=twin,
        name=name,
        link="",
        tags=tags,
        read=lambda: documents.read(data, name, progress=lambda done, total: progress(done, total, name)),
    )


def _file(path: Path) -> bytes:
    return b"file\0" + os.fsencode(path)


def _upload(name: str) -> bytes:
    return f"upload\0{name}".encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _refuse_encrypted(beginning: bytes, name: str) -> None:
    if exports.kind_of(beginning) is not None:
        raise DocumentError(
            f"{name}: this is an encrypted export",
            hint="at a terminal, shepherd knowledge import asks for its passphrase",
        )


def _refuse_large(data: bytes, name: str, most_bytes: int) -> None:
    if len(data) > most_bytes:
        raise _too_large(name, most_bytes)


def _too_large(name: str, most_bytes: int) -> DocumentError:
    return DocumentError(
        f"{name}: larger than {most_bytes >> 20} MiB", hint="the setting knowledge_max_mb is the limit"
    )


def _import_folder(
    knowledge: Knowledge, folder: Path, tags: tuple[str, ...], limits: WebLimits, progress: Progress
) -> Iterator[Outcome]:
    unreadable: list[OSError] = []
    skipped: list[Path] = []
    added: set[int] = set()
    found = list(_documents_in(folder, unreadable.append, skipped.append))
    for done, path in enumerate(found):
        name = storable(str(path.relative_to(folder)))
        progress(done, len(found), name)
        try:
            outcome = _import_file(knowledge, path, tags, limits, lambda done, total, name: None)
            if outcome.state == "added":
                added.add(outcome.node_id)
            yield outcome
        except EmptyDocumentError as error:
            yield Outcome(name, "empty", reason=str(error))
        except (DocumentError, UsageError) as error:
            yield Outcome(name, "failed", reason=str(error))
    for failure in unreadable:
        name = storable(os.fsdecode(failure.filename))
        yield Outcome(name, "failed", reason=f"{name}: {failure.strerror}")
    yield from _gone(knowledge, folder.resolve(), added)
    for path in skipped:
        yield Outcome(storable(str(path.relative_to(folder))), "skipped")
    progress(len(found), len(found), "")


def _gone(knowledge: Knowledge, folder: Path, added: Collection[int]) -> Iterator[Outcome]:
    """Yield what was imported from files that are not there any more: from files below a folder, and from
    elsewhere if a document with the same bytes was added now, since the folder was renamed or moved.
    """
    begins = f"{folder.as_uri().rstrip('/')}/"
    none: list[tuple[int, str, str, str]] = []
    known = knowledge.look(lambda connection: nodes.of_files(connection, knowledge.user_id), none)
    moved = {content for node_id, _, _, content in known if node_id in added}
    for node_id, link, origin, content in known:
        is_below = link.startswith(begins)
        if not is_below and content not in moved:
            continue
        path = Path(url2pathname(urlsplit(link).path))
        # A link that somebody has changed tells nothing of the file that was imported.
        if origin == _digest(_file(path)) and not os.path.lexists(path):
            name = storable(str(path.relative_to(folder) if is_below else path))
            reason = f"{name}: the file is gone, and its document, node {node_id}, stays"
            yield Outcome(name, "gone", node_id, reason=reason)


def _documents_in(
    folder: Path, unreadable: Callable[[OSError], None], skipped: Callable[[Path], None]
) -> Iterator[Path]:
    """Yield files of a known kind, sorted by name; no hidden ones, no folder twice."""
    root = folder.resolve()
    for base, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(base, name)
            if name.startswith("."):
                continue
            is_there = os.path.isfile(path) and (not path.is_symlink() or _is_within(path, root))
            if is_there and (path.suffix.lower() in documents.SUFFIXES or _is_unnamed_text(path)):
                yield path
            else:
                skipped(path)


def _is_unnamed_text(path: Path) -> bool:
    """Return whether a file without a suffix, such as README or LICENSE, has text."""
    # Closing an open database would drop the locks of this process.
    if path.suffix or os.path.exists(f"{path}-shm"):
        return False
    try:
        with path.open("rb") as file:
            return documents.seems_readable(file.read(documents.SNIFFED_BYTES))
    except OSError:
        return True  # importing it tells why it cannot be read


def _is_within(link: Path, root: Path) -> bool:
    """Return True if a link leads to a file below `root` that is not hidden."""
    target = link.resolve()
    return target.is_relative_to(root) and not any(
        part.startswith(".") for part in target.relative_to(root).parts
    )


def _import_file(
    knowledge: Knowledge, path: Path, tags: tuple[str, ...], limits: WebLimits, progress: Progress
) -> Outcome:
    path = path.resolve()
    name = storable(path.name)
    data = _bytes_of(path, limits)

    def uploaded(digest: str) -> int | None:
        # An upload has no folder, so it is the same document only if its bytes are the same.
        known = _known(knowledge, _upload(name))
        return known[0] if known is not None and known[1] == digest else None

    return _store_document(
        knowledge,
        data,
        place=_file(path),
        twin=uploaded,
        name=name,
        link=path.as_uri(),
        tags=tags,
        read=lambda: documents.read(data, name, progress=lambda done, total: progress(done, total, name)),
    )


def _bytes_of(path: Path, limits: WebLimits) -> bytes:
    try:
        with path.open("rb") as file:
            return _limited(file, str(path), limits)
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}", hint="check the file and its permissions") from error


def _limited(file: BinaryIO, name: str, limits: WebLimits) -> bytes:
    data = file.read(limits.most_bytes + 1)
    if len(data) > limits.most_bytes:
        raise _too_large(name, limits.most_bytes)
    return data


def _import_page(knowledge: Knowledge, url: str, tags: tuple[str, ...], limits: WebLimits) -> Outcome:
    page = web.fetch(url, limits)
    return _store_document(
        knowledge,
        page.data,
        place=f"web\0{url.partition('#')[0]}".encode(),
        name=storable(page.name),
        link=storable(url),
        tags=tags,
        read=lambda: documents.read(
            page.data, page.name, content_type=page.content_type, charset=page.charset
        ),
        can_be_emptied=False,  # a server may answer with nothing for a while
    )


def _store_document(
    knowledge: Knowledge,
    data: bytes,
    *,
    place: bytes,
    name: str,
    link: str,
    tags: tuple[str, ...],
    read: Callable[[], documents.Document],
    twin: Callable[[str], int | None] = lambda digest: None,
    can_be_emptied: bool = True,
) -> Outcome:
    """Store the document of a place, unless `twin` has a node that was made of the same bytes elsewhere.

    A document that has lost its text loses it here, too.
    """
    digest = _digest(data)
    known = _known(knowledge, place)
    if known is not None and known[1] == digest:
        return Outcome(name, "unchanged", known[0])
    if known is None and (same := twin(digest)) is not None:
        return Outcome(name, "unchanged", same)
    try:
        document = read()
    except EmptyDocumentError as error:
        if known is None or not can_be_emptied:
            raise
        document = Document(name, "", "text", "", "", {}, f"{error} any more")
    node_id, state, n_secrets, lines = transfer.put(
        knowledge,
        NewNode(
            title=document.title,
            kind=document.kind,
            description=document.description,
            source_text=document.text,
            link=link,
            event_date=document.date,
            metadata={"file": name, **document.metadata},
            dimensions=tags,
            origin=_digest(place),
            content_hash=digest,
        ),
    )
    return Outcome(name, state, node_id, reason=document.remark, secrets=n_secrets, secret_lines=lines)


def _known(knowledge: Knowledge, place: bytes) -> tuple[int, str] | None:
    """Return id and content hash of the document of a place."""
    origin = _digest(place)
    return knowledge.look(lambda connection: nodes.by_origin(connection, knowledge.user_id, origin), None)


def _import_rah(knowledge: Knowledge, path: Path, progress: Progress) -> Iterator[Outcome]:
    with RaHDatabase(str(path), knowledge.now()) as database:
        yield from transfer.put_graph(
            knowledge,
            database.dimensions(),
            database.nodes(),
            database.edges(),
            total=database.count("nodes") + database.count("edges"),
            progress=progress,
        )


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_BEGINNING)
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}", hint="check the file and its permissions") from error
