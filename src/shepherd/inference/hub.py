"""Client of a model hub: listings, and downloads that resume where they were interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

from shepherd.errors import ModelError
from shepherd.inference.names import HUB_PREFIX, is_safe_path

__all__ = ["Hub", "HubFile", "Listing", "PartialDownload", "Report", "Transferred", "Waiting", "disk_errors"]


_READ_BYTES = 1 << 20


class PartialDownload:
    """Opens or makes `path`; what is there already is read once, for the digest. A context manager."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes
        self.digest = hashlib.sha256()
        self.done_bytes = 0
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered, so that the file holds every byte that was counted.
            self._stream: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115  (closed in __exit__)

    @property
    def missing_bytes(self) -> int:
        """Return how much is still to come."""
        return self.size_bytes - self.done_bytes

    def __enter__(self) -> PartialDownload:
        with disk_errors(self.path):
            self._stream.seek(0)
            while chunk := self._stream.read(_READ_BYTES):
                self.digest.update(chunk)
                self.done_bytes += len(chunk)
            if self.done_bytes > self.size_bytes:
                self.restart()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not done_bytes: Ctrl-C may come after a piece was written and before it is counted.
        is_empty = os.fstat(self._stream.fileno()).st_size == 0
        self._stream.close()
        if is_empty:
            self.path.unlink(missing_ok=True)  # a refused download leaves nothing behind

    def append(self, chunk: bytes) -> None:
        """Write a piece; ModelError when it is more than there should be, or the disk refuses."""
        if len(chunk) > self.missing_bytes:
            self.restart()
            raise ModelError(
                f"{self.path}: more arrived than the {self.size_bytes:,} bytes that were announced",
                hint="the file on the hub, or the mirror, is broken",
            )
        view = memoryview(chunk)
        with disk_errors(self.path):
            while view:
                written = self._stream.write(view)  # a raw file may take less than it is given
                self.digest.update(view[:written])
                self.done_bytes += written
                view = view[written:]

    def restart(self) -> None:
        """Forget what was received."""
        with disk_errors(self.path):
            self._stream.truncate(0)
        self.digest = hashlib.sha256()
        self.done_bytes = 0

    def sync(self) -> None:
        """Onto the disk: a final name must not survive a power cut that its contents did not."""
        with disk_errors(self.path):
            os.fsync(self._stream.fileno())


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn OSError into ModelError; nothing that talks to the network belongs inside."""
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{path}: {error.strerror or type(error).__name__}",
            hint="free some space, or set HF_HUB_CACHE to another folder; the download resumes then",
        ) from error


_Result = TypeVar("_Result")

_ATTEMPTS = 5  # without a byte of progress between them: with waits of 1, 2, 4 and 8 s
_LONGEST_WAIT_S = 60.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LOG_IN = "HF_TOKEN=<token> or hf auth login gives one that may read it"
_NUMBER = re.compile(r"\[Errno (-?\d+)\] ")
_TIMEOUTS = {"ReadTimeout": "no answer in time", "ConnectTimeout": "no connection in time"}
_RANGE = re.compile(r"bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19}|\*)")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository. Size and SHA-256 are the hub's word, 0 and "" when it gives none."""

    path: str
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The GGUF files of a repository at one commit."""

    repo: str
    commit: str
    files: dict[str, HubFile]


@dataclass(frozen=True, slots=True)
class Transferred:
    """Progress of one file's download."""

    file: str
    done_bytes: int
    size_bytes: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that may pass by itself went wrong; the next attempt follows after `wait_s`."""

    reason: str
    wait_s: float


Report = Callable[["Transferred | Waiting"], None]


class _TemporaryError(Exception):
    """Worth another attempt. `wait_s` is what the hub asked for, 0 when it did not."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class Hub:
    """A client of one hub: HF_ENDPOINT and HF_TOKEN unless told otherwise. `token` False sends none."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        token: str | bool | None = None,
        retry_wait_s: float = 1.0,
    ) -> None:
        from huggingface_hub import constants

        self.endpoint = (endpoint or constants.ENDPOINT).rstrip("/")
        self._token = token
        self._retry_wait_s = retry_wait_s
        self._timeout_s = constants.HF_HUB_DOWNLOAD_TIMEOUT
        self._was_reached = False  # before that, "no connection" is an answer and not worth waiting for

    def listing(self, repo: str, report: Report) -> Listing:
        """Return the GGUF files of `user/repo` on its main branch; ModelError when it cannot be had."""
        return self._with_retries(lambda: self._ask(repo), repo, report)

    def require_checksums(self, listing: Listing, files: Sequence[HubFile]) -> None:
        """ModelError when one of these files could not be checked after its download."""
        for file in files:
            if not file.sha256:
                raise ModelError(
                    f"{HUB_PREFIX}{listing.repo}/{file.path}: {self.endpoint} gives no checksum for it",
                    hint="try another HF_ENDPOINT, or get the file by other means and use -m PATH",
                )

    def download(self, listing: Listing, file: HubFile, partial: Path, report: Report) -> None:
        """Fetch `file` into `partial`, going on where it ends; its size and SHA-256 are right on return.

        A file that turns out wrong is deleted; after any other failure, or Ctrl-C, what has come stays.
        """
        with PartialDownload(partial, file.size_bytes) as target:
            report(Transferred(file.path, target.done_bytes, file.size_bytes, file.sha256))
            self._with_retries(
                lambda: self._receive(listing, file, target, report),
                listing.repo,
                report,
                progress=lambda: target.done_bytes,
            )
            target.sync()
            found = target.digest.hexdigest()
        if found != file.sha256:
            partial.unlink(missing_ok=True)
            raise ModelError(
                f"{HUB_PREFIX}{listing.repo}/{file.path}: wrong checksum: SHA-256 {found[:12]}…, "
                f"the hub says {file.sha256[:12]}…; the download was deleted",
                hint="try again; if that doesn't help, the file or the mirror is broken",
            )

    def _receive(self, listing: Listing, file: HubFile, target: PartialDownload, report: Report) -> None:
        """One request for what is missing; raises _TemporaryError when the end was not reached."""
        if target.missing_bytes == 0:
            return
        from huggingface_hub import get_session, hf_hub_url

        url = hf_hub_url(listing.repo, file.path, revision=listing.commit, endpoint=self.endpoint)
        headers = self._headers()
        if target.done_bytes:
            headers["Range"] = f"bytes={target.done_bytes}-"
        with get_session().stream("GET", url, headers=headers, timeout=self._timeout_s) as response:
            if response.status_code >= 400:
                raise _refusal(response, self.endpoint, listing.repo)
            _align(target, response)
            for chunk in response.iter_raw():
                target.append(chunk)
                report(Transferred(file.path, target.done_bytes, file.size_bytes, file.sha256))
        if target.missing_bytes:
            raise _TemporaryError("the connection ended early")

    def _headers(self) -> dict[str, str]:
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented, not in its __all__

        from shepherd import __version__

        headers = build_hf_headers(token=self._token, library_name="shepherd", library_version=__version__)
        # A compressed body could not be resumed by its offset.
        return {**headers, "Accept-Encoding": "identity"}

    def _ask(self, repo: str) -> Listing:
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self._token)
        try:
            info = api.model_info(repo, files_metadata=True, timeout=self._timeout_s)
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            # A captive portal's login page, most of the time.
            raise _invalid_listing(repo, "cannot be listed: the server there is not a hub") from error
        self._was_reached = True
        return _checked_listing(repo, info)

    def _with_retries(
        self,
        attempt: Callable[[], _Result],
        repo: str,
        report: Report,
        *,
        progress: Callable[[], int] = lambda: 0,
    ) -> _Result:
        """Return the result of `attempt`, retried after temporary failures and while it makes progress."""
        failures, best = 0, progress()
        while True:
            try:
                return attempt()
            except ModelError:
                raise
            except Exception as error:
                trouble = self._trouble(error, repo)
                if not isinstance(trouble, _TemporaryError):
                    raise trouble from error
                failures = failures + 1 if progress() <= best else 1
                best = max(best, progress())
                wait_s = trouble.wait_s or self._retry_wait_s * 2 ** (failures - 1)
                if failures >= _ATTEMPTS or wait_s > _LONGEST_WAIT_S:
                    raise self._give_up(trouble, repo) from error
            report(Waiting(str(trouble), wait_s))
            time.sleep(wait_s)

    def _give_up(self, trouble: _TemporaryError, repo: str) -> ModelError:
        when = f"in {trouble.wait_s:.0f} s" if trouble.wait_s else "later"
        return ModelError(
            f"{HUB_PREFIX}{repo}: {self.endpoint}: {trouble}",
            hint=f"try again {when}; a download resumes where it stopped",
        )

    def _trouble(self, error: Exception, repo: str) -> Exception:
        """Translate `error` to a _TemporaryError or a ModelError; a bug stays as it is."""
        from huggingface_hub import errors

        # huggingface_hub 1 uses httpx, 2 uses httpx2; both have these classes.
        http = sys.modules[errors.HTTPError.__module__.partition(".")[0]]  # type: ignore[attr-defined]
        name = f"{HUB_PREFIX}{repo}"
        if isinstance(error, errors.HfHubHTTPError):
            self._was_reached = True
            return _refusal(error.response, self.endpoint, repo)
        if isinstance(error, errors.OfflineModeIsEnabled):
            return ModelError(
                f"{name} is not on this machine, and HF_HUB_OFFLINE forbids downloads",
                hint="unset HF_HUB_OFFLINE; shepherd model list shows what is here",
            )
        if isinstance(error, (http.ConnectError, http.ConnectTimeout)) and not self._was_reached:
            return ModelError(
                f"{name}: {self.endpoint} cannot be reached: {_reason(error)}",
                hint="check the network; HF_ENDPOINT=<url> names a mirror, -m PATH a file that is here",
            )
        if isinstance(error, (http.NetworkError, http.TimeoutException, http.RemoteProtocolError)):
            return _TemporaryError(_reason(error))
        if isinstance(error, (http.HTTPError, http.InvalidURL)):
            return ModelError(f"{name}: {self.endpoint}: {_reason(error)}", hint="check HF_ENDPOINT")
        return error


def _checked_listing(repo: str, info: Any) -> Listing:
    """Return the GGUF files in the hub's answer; ModelError when something in it is not as it must be."""
    if not isinstance(info.sha, str) or not _COMMIT.fullmatch(info.sha):
        raise _invalid_listing(repo, "names no commit")
    files = {}
    for sibling in info.siblings or ():
        path = sibling.rfilename
        if not isinstance(path, str) or not path.lower().endswith(".gguf"):
            continue
        if not is_safe_path(path):
            raise _invalid_listing(repo, f"has the file name {path[:100]!a}, which leads elsewhere")
        files[path] = HubFile(path, *_size_and_checksum(sibling.lfs))
    # Names are case-insensitive there; the cache's folders, which the hub's spelling names, may not be.
    spelled = getattr(info, "id", None)
    if not isinstance(spelled, str) or spelled.casefold() != repo.casefold():
        spelled = repo
    return Listing(spelled, info.sha, files)


def _size_and_checksum(lfs: Any) -> tuple[int, str]:
    size, sha256 = getattr(lfs, "size", None), getattr(lfs, "sha256", None)
    if isinstance(size, int) and size > 0 and isinstance(sha256, str) and _SHA256.fullmatch(sha256):
        return size, sha256
    return 0, ""


def _align(target: PartialDownload, response: Any) -> None:
    """Make the end of the file the place where this answer begins."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ModelError(f"{target.path}: the hub sends it compressed", hint="the mirror is misconfigured")
    if response.status_code != 206:
        if not _is_the_file(target, response):
            # What has come stays: the next answer may be the hub's again.
            raise _TemporaryError("the answer is not the file; is it a login page of this network?")
        target.restart()  # the server ignored Range
        return
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if not match or int(match[1]) != target.done_bytes or match[2] not in ("*", str(target.size_bytes)):
        target.restart()
        raise _TemporaryError("the hub answered with another part than was asked for")


def _is_the_file(target: PartialDownload, response: Any) -> bool:
    """Return whether an answer can be the whole file: a network that wants a login sends a page, or nothing.

    Without anything to lose, a length that is too small is left to the checks of what arrives.
    """
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if response.status_code != 200 or kind in ("text/html", "application/xhtml+xml"):
        return False
    length = response.headers.get("Content-Length", "")
    return not (target.done_bytes and length.isdecimal() and int(length) < target.size_bytes)


def _refusal(response: Any, endpoint: str, repo: str) -> Exception:
    """Return the error that a status of 400 or more means."""
    status, name = response.status_code, f"{HUB_PREFIX}{repo}"
    if status in (408, 429) or status >= 500:
        asked = response.headers.get("Retry-After", "")
        reason = "too many requests" if status == 429 else f"HTTP {status}"
        return _TemporaryError(reason, float(asked) if asked.isdecimal() and len(asked) < 9 else 0.0)
    if response.headers.get("X-Error-Code") == "GatedRepo":
        return ModelError(
            f"{name} is gated: its owner wants terms to be accepted first",
            hint=f"accept them at {endpoint}/{repo}; {_LOG_IN}",
        )
    if status == 401 and "Authorization" in response.request.headers:
        return ModelError(f"{name}: the hub does not accept the token", hint=_LOG_IN)
    if status == 403:
        return ModelError(f"{name}: the hub does not allow access to it", hint=_LOG_IN)
    if status in (401, 404):
        # The hub says 401 for what does not exist, so that private names cannot be guessed.
        return ModelError(
            f"{name}: there is no such model on {endpoint}, or it is private",
            hint=f"check the name; {_LOG_IN}",
        )
    return ModelError(f"{name}: {endpoint}: HTTP {status}", hint="check HF_ENDPOINT")


def _invalid_listing(repo: str, what: str) -> ModelError:
    return ModelError(f"{HUB_PREFIX}{repo} {what}", hint="check HF_ENDPOINT and the network")


def _reason(error: Exception) -> str:
    """Return the failure in a few words; timeouts come without any."""
    text = str(error).partition("\n")[0]
    if number := _NUMBER.match(text):  # negative ones come from looking up host names
        text = "the host name can't be resolved" if number[1].startswith("-") else text[number.end() :]
    return text or _TIMEOUTS.get(type(error).__name__, type(error).__name__)
