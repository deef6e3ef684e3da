"""Paths of Shepherd's files, and writes that leave a file whole or unchanged."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from shepherd import overwriting
from shepherd.errors import ShepherdError, UsageError

__all__ = [
    "back_up",
    "cache_dir",
    "config_file",
    "data_dir",
    "default_database",
    "demo_model_file",
    "expanded",
    "from_any_folder",
    "from_home",
    "given_path",
    "history_file",
    "is_special",
    "locked",
    "mcp_file",
    "new_file",
    "replacing",
    "state_dir",
    "sync_folder",
    "write_atomically",
]


def write_atomically(target: Path, data: bytes) -> None:
    """Write all of `data`, or leave the file unchanged."""
    with replacing(target) as file:
        file.write(data)


def is_special(path: Path) -> bool:
    """Return whether there is something at a path that is neither a file nor a folder, such as a device."""
    return path.exists() and not (path.is_file() or path.is_dir())


@contextlib.contextmanager
def replacing(target: Path, *, overwrites: bool = False) -> Iterator[BinaryIO]:
    """Give a new file that replaces the target at the end, synced; after an error it is deleted.

    With `overwrites`, the bytes of the file that is replaced or deleted are overwritten. Whoever reads a
    file just then reads zeros. Raises UsageError for a device, a pipe or a socket, which a rename would
    delete.
    """
    if is_special(target):
        raise UsageError(f"{target}: this is a device or a pipe, not a file", hint="name a file")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        (overwriting.replace if overwrites else os.replace)(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            (overwriting.remove if overwrites else os.unlink)(temporary)
        raise
    sync_folder(target.parent)


def back_up(path: Path) -> Path:
    """Copy a file beside itself with mode 0600; return the copy, or an older one that is identical."""
    data = path.read_bytes()
    copy, number = path.with_name(f"{path.name}.before-migration"), 1
    while copy.exists():
        if copy.read_bytes() == data:
            return copy
        number += 1
        copy = path.with_name(f"{path.name}.before-migration-{number}")
    write_atomically(copy, data)
    return copy


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that what was renamed in it stays renamed after a power cut."""
    # The rename is durable only once the folder is synced; not every file system can do that.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's advisory lock, on systems that have one."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_APP = "shepherd"


def _xdg(variable: str, fallback: str) -> Path:
    # The XDG specification says to ignore a relative path.
    value = os.environ.get(variable, "")
    return Path(value) if os.path.isabs(value) else Path.home() / fallback


def config_file() -> Path:
    """Return `$SHEPHERD_CONFIG`, else `~/.config/shepherd/config.json`."""
    if named := os.environ.get("SHEPHERD_CONFIG"):
        return Path(named)
    return _xdg("XDG_CONFIG_HOME", ".config") / _APP / "config.json"


def mcp_file() -> Path:
    """Return the list of MCP servers, `mcp.json` beside the configuration."""
    return config_file().with_name("mcp.json")


def data_dir() -> Path:
    """Return the folder of data that must not be lost: `~/.local/share/shepherd`."""
    return _xdg("XDG_DATA_HOME", ".local/share") / _APP


def state_dir() -> Path:
    """Return the folder of data that can be lost without harm: `~/.local/state/shepherd`."""
    return _xdg("XDG_STATE_HOME", ".local/state") / _APP


def cache_dir() -> Path:
    """Return the folder of data that can be made again: `~/.cache/shepherd`."""
    return _xdg("XDG_CACHE_HOME", ".cache") / _APP


def default_database() -> Path:
    """Return the path of the default memory database."""
    return data_dir() / "memory.db"


def expanded(text: str, setting: str) -> str:
    """Return the value of a setting with ${VAR} replaced; UsageError for a variable that is not set."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise UsageError(
                f"{setting} names ${{{match[1]}}}, and there is no such variable", hint=f"export {match[1]}=…"
            )
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)


def from_home(text: str, setting: str) -> Path:
    """Return the path of a setting with ${VAR} and ~ replaced; UsageError for an unknown variable or user."""
    try:
        return Path(expanded(text, setting)).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{setting} is {text[:80]!a}, and there is no such user", hint="write the full path"
        ) from None


def from_any_folder(text: str) -> str:
    """Return a path that means the same in every folder; one with ~ or ${VAR} in front does already."""
    return text if not text or text.startswith(("~", "${")) else os.path.abspath(text)


def given_path(text: str) -> Path:
    """Return the path that a user wrote, with ~ replaced; UsageError for an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        if os.path.lexists(text):  # a file that is called so
            return Path(text)
        raise UsageError(f"{text[:80]!a}: there is no such user", hint="write the full path") from None


def history_file() -> Path:
    """Return the history file of the chat prompt."""
    return state_dir() / "history"


def demo_model_file() -> Path:
    """Return the file with the day on which the line about the bundled model was shown last."""
    return state_dir() / "demo-model"


@contextlib.contextmanager
def new_file(path: str) -> Iterator[TextIO]:
    """Give a new file to write, mode 0600, synced at the end; after an error it is deleted.

    Raises UsageError when it exists or cannot be created, ShepherdError when it cannot be written. What is
    exported is as private as the database that it comes from.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} already exists", hint="name a new file") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a file that can be written") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        if isinstance(error, OSError) and error.filename is None:  # such as a full disk
            raise ShepherdError(
                f"{path}: {error.strerror}; the file was deleted", hint="name a file on another disk"
            ) from error
        raise
    sync_folder(Path(path).absolute().parent)
