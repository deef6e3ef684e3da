"""Repositories in huggingface_hub's cache: their models, and files added and removed.

The layout is documented ("Understand caching") and shared with other programs:

    models--user--repo/blobs/<sha256>                      contents
    models--user--repo/snapshots/<commit>/<file>.gguf      a link to them, by the publisher's name
    models--user--repo/refs/main                           the newest commit
    models--user--repo/blobs/<sha256>.<file>.incomplete    Shepherd's own: a download to resume
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from shepherd.errors import ModelError, UsageError
from shepherd.inference.hub import HubFile, Listing, Report, Waiting, disk_errors
from shepherd.inference.names import HUB_PREFIX, Variant, is_projector, is_safe_path, stem_of, variants

__all__ = ["Holding", "Repository", "repositories"]

_FOLDER = "models--"
_PARTIAL = re.compile(r"[0-9a-f]{64}\.(.+)\.incomplete", re.DOTALL)
_LONGEST_LABEL = 160  # file systems end at 255 bytes


def repositories(cache: Path) -> list[str]:
    """Return the `user/repo` of all models in the cache, sorted."""
    names = (folder.name.removeprefix(_FOLDER) for folder in cache.glob(f"{_FOLDER}*--*"))
    return sorted(name.replace("--", "/", 1) for name in names)


@dataclass(frozen=True, slots=True)
class Holding:
    """A model of a repository, as far as it is here. `paths` are in the order of its parts."""

    variant: Variant
    paths: tuple[Path, ...]
    complete: bool


class Repository:
    """The folder of `user/repo`; it need not exist yet."""

    def __init__(self, cache: Path, repo: str) -> None:
        self.repo = repo
        cache, name = Path(os.path.abspath(cache)), _FOLDER + repo.replace("/", "--")
        self.folder = cache / name
        self._locks = cache / ".locks" / name
        self._blobs = self.folder / "blobs"

    def holdings(self) -> list[Holding]:
        """Return the models that are here, by file name: of several commits, the newest complete one."""
        found: dict[str, Holding] = {}
        for paths in self._snapshots():
            for variant in variants(paths):
                stem = stem_of(variant.files[0])
                known = found.get(stem)
                if known is None or (variant.is_complete and not known.complete):
                    here = tuple(paths[file] for file in variant.files)
                    found[stem] = Holding(variant, here, variant.is_complete)
        partials = self._unfinished()
        for variant in variants(partials):
            stem = stem_of(variant.files[0])
            known = found.get(stem)
            if known is None or not known.complete:
                here = tuple(partials[file] for file in variant.files)
                found[stem] = Holding(variant, (*(known.paths if known else ()), *here), complete=False)
        return [found[stem] for stem in sorted(found)]

    def _snapshots(self) -> list[dict[str, Path]]:
        """Return the GGUF files of each commit that is here, newest commit first."""
        newest = self._newest_commit()
        folders = [path for path in self.folder.glob("snapshots/*") if path.is_dir()]
        folders.sort(key=lambda path: (path.name == newest, path.stat().st_mtime), reverse=True)
        return [{file: path for file, path in _gguf_files(folder) if path.is_file()} for folder in folders]

    def _unfinished(self) -> dict[str, Path]:
        """Downloads of ours that were not finished, by file name."""
        found = {}
        for path in sorted(self._blobs.glob("*.incomplete")):
            match = _PARTIAL.fullmatch(path.name)
            if match and is_safe_path(file := unquote(match[1])):
                found[file] = path
        return found

    def download_path(self, file: HubFile) -> Path:
        """Return the path of an unfinished download, named so that it can be listed and removed."""
        return self._blobs / f"{file.sha256}.{quote(file.path, safe='')[-_LONGEST_LABEL:]}.incomplete"

    def has(self, listing: Listing, file: HubFile) -> bool:
        """Return whether the contents are here, from us or from another program."""
        return self.contents(listing, file) != self.download_path(file)

    def require_space(self, listing: Listing, files: Sequence[HubFile]) -> None:
        """ModelError when what is missing of these files does not fit on the disk."""
        missing = [file for file in files if not self.has(listing, file)]
        needed = sum(file.size_bytes - _size(self.download_path(file)) for file in missing)
        folder = self.folder
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise ModelError(
                f"{HUB_PREFIX}{self.repo}: {needed / 1e9:,.1f} GB are still to download, "
                f"but {folder} has only {free / 1e9:,.1f} GB free",
                hint="shepherd model list shows what to delete; HF_HUB_CACHE=<folder> names another disk",
            )

    @contextmanager
    def locked(self, file: HubFile, report: Report) -> Iterator[None]:
        """Nobody else downloads `file` meanwhile; it is the lock that huggingface_hub takes, too."""
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

        path = self._locks / f"{file.sha256}.lock"
        with ExitStack() as stack:
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    stack.enter_context(WeakFileLock(path, timeout=0.1))
                except TimeoutError:
                    report(Waiting("another program is downloading it", 0.0))
                    stack.enter_context(WeakFileLock(path))
            yield

    def contents(self, listing: Listing, file: HubFile) -> Path:
        """Return where the bytes of `file` are, complete or not."""
        pointer, blob = self._pointer(listing, file), self._blob(file)
        places = (path for path in (pointer, blob) if _has_size(path, file.size_bytes))
        return next(places, self.download_path(file))

    def install(self, listing: Listing, file: HubFile) -> None:
        """Give a complete download its final names."""
        pointer, blob, partial = self._pointer(listing, file), self._blob(file), self.download_path(file)
        with disk_errors(pointer):
            if not self.has(listing, file):
                os.replace(partial, blob)
            partial.unlink(missing_ok=True)
            if _has_size(pointer, file.size_bytes):
                return
            pointer.parent.mkdir(parents=True, exist_ok=True)
            pointer.unlink(missing_ok=True)
            try:
                pointer.symlink_to(os.path.relpath(blob, pointer.parent))
            except OSError:  # a file system without links: the file itself, as huggingface_hub does it
                os.replace(blob, pointer)

    def set_newest(self, commit: str) -> None:
        """Note which commit the main branch was at."""
        reference = self.folder / "refs" / "main"
        with disk_errors(reference):
            reference.parent.mkdir(parents=True, exist_ok=True)
            reference.write_text(commit, encoding="ascii")

    def remove(self, stem: str) -> None:
        """Delete the model of that stem: links, contents that nothing else needs, unfinished downloads.

        UsageError if another program is downloading it.
        """
        unfinished = {file: path for file, path in self._unfinished().items() if stem_of(file) == stem}
        if any(_is_held(self._locks / f"{path.name.partition('.')[0]}.lock") for path in unfinished.values()):
            raise UsageError(
                f"{HUB_PREFIX}{self.repo}: {stem} is being downloaded", hint="stop the download first"
            )
        with disk_errors(self.folder):
            for folder in self.folder.glob("snapshots/*"):
                if folder.is_symlink():  # it may lead anywhere
                    continue
                for file, path in _gguf_files(folder):
                    if stem_of(file) == stem:
                        self._remove_file(path)
            for path in unfinished.values():
                path.unlink(missing_ok=True)
            if not self.holdings():
                self._remove_projectors()
            self._tidy()

    def _remove_projectors(self) -> None:
        """Delete what no model is left to need."""
        for folder in self.folder.glob("snapshots/*"):
            for file, path in [] if folder.is_symlink() else _gguf_files(folder):
                if is_projector(file):
                    self._remove_file(path)
        for file, path in self._unfinished().items():
            if is_projector(file):
                path.unlink()

    def _remove_file(self, path: Path) -> None:
        blob = Path(os.path.normpath(path.parent / os.readlink(path))) if path.is_symlink() else None
        path.unlink()
        # A link that leads out of this repository is not followed.
        if blob is None or blob.parent != self._blobs:
            return
        links = (p for p in self.folder.glob("snapshots/**/*") if p.is_symlink())
        if not any(os.path.basename(os.readlink(link)) == blob.name for link in links):
            blob.unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove folders that became empty, and the repository when no file is left in it."""
        for parent, _, _ in os.walk(self.folder / "snapshots", topdown=False):
            if not os.listdir(parent):
                os.rmdir(parent)
        if not any(self._blobs.glob("*")) and not (self.folder / "snapshots").exists():
            shutil.rmtree(self.folder)
            # Who waits for one needs the file.
            if not any(_is_held(lock) for lock in self._locks.glob("*.lock")):
                shutil.rmtree(self._locks, ignore_errors=True)

    def _newest_commit(self) -> str:
        try:
            return (self.folder / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def _pointer(self, listing: Listing, file: HubFile) -> Path:
        return self.folder / "snapshots" / listing.commit / file.path

    def _blob(self, file: HubFile) -> Path:
        return self._blobs / file.sha256


def _is_held(lock: Path) -> bool:
    """Return whether a program holds a lock of huggingface_hub at this moment."""
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    if not lock.exists():
        return False
    try:
        with WeakFileLock(lock, timeout=0.1):
            return False
    except TimeoutError:
        return True


def _gguf_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the GGUF files below a snapshot by their name in the repository; dangling links too."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".gguf")
    return [(path.relative_to(folder).as_posix(), path) for path in paths]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _has_size(path: Path, size_bytes: int) -> bool:
    return path.is_file() and _size(path) == size_bytes
