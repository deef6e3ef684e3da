"""What an answer of a hub means, how often and how long something is tried again, and the partial file."""

from __future__ import annotations

import hashlib
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shepherd.errors import ModelError
from shepherd.inference.hub import (
    Hub,
    HubFile,
    Listing,
    PartialDownload,
    Transferred,
    Waiting,
    _align,
    _checked_listing,
    _reason,
    _refusal,
    _size_and_checksum,
    _TemporaryError,
)

HUB = "https://hub.example"
LOG_IN = "HF_TOKEN=<token> or hf auth login gives one that may read it"
DIGEST = "a" * 64


def response(status: int, sent: dict[str, str] | None = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(status_code=status, headers=named, request=SimpleNamespace(headers=sent or {}))


# ---- refusals


@pytest.mark.parametrize(
    ("answer", "says", "hint"),
    [
        (
            response(403, X_Error_Code="GatedRepo"),
            "hf:a/b is gated: its owner wants terms to be accepted first",
            f"accept them at {HUB}/a/b; {LOG_IN}",
        ),
        (response(401, {"Authorization": "x"}), "hf:a/b: the hub does not accept the token", LOG_IN),
        (response(403, {"Authorization": "x"}), "hf:a/b: the hub does not allow access to it", LOG_IN),
        *(
            (
                response(status, sent),
                f"hf:a/b: there is no such model on {HUB}, or it is private",
                f"check the name; {LOG_IN}",
            )
            for status, sent in ((401, {}), (404, {}), (404, {"Authorization": "x"}))
        ),
        (response(400), f"hf:a/b: {HUB}: HTTP 400", "check HF_ENDPOINT"),
        (response(499), f"hf:a/b: {HUB}: HTTP 499", "check HF_ENDPOINT"),
    ],
)
def test_a_refusal_says_what_it_means(answer: Any, says: str, hint: str) -> None:
    error = _refusal(answer, HUB, "a/b")

    assert isinstance(error, ModelError)
    assert (str(error), error.hint) == (says, hint)


@pytest.mark.parametrize(
    ("answer", "says", "wait_s"),
    [
        (response(408), "HTTP 408", 0.0),
        (response(429, Retry_After="7"), "too many requests", 7.0),
        (response(500, Retry_After="99999999"), "HTTP 500", 99999999.0),
        (response(503, Retry_After="999999999"), "HTTP 503", 0.0),
        (response(503, Retry_After="Fri, 31 Dec 1999"), "HTTP 503", 0.0),
    ],
)
def test_what_may_pass_is_tried_again_when_the_hub_says(answer: Any, says: str, wait_s: float) -> None:
    error = _refusal(answer, HUB, "a/b")

    assert isinstance(error, _TemporaryError)
    assert (str(error), error.wait_s) == (says, wait_s)


# ---- listings


def listing_of(sha: object, *files: object) -> Listing:
    siblings = [SimpleNamespace(rfilename=name, lfs=SimpleNamespace(size=5, sha256=DIGEST)) for name in files]
    return _checked_listing("a/b", SimpleNamespace(sha=sha, siblings=siblings or None))


def test_a_listing_has_the_gguf_files_alone() -> None:
    listing = listing_of("0" * 40, "b.GGUF", "README.md", None, "x/c.gguf")

    files = {name: HubFile(name, 5, DIGEST) for name in ("b.GGUF", "x/c.gguf")}
    assert listing == Listing("a/b", "0" * 40, files)
    assert listing_of("0" * 40).files == {}


@pytest.mark.parametrize("sha", [None, "main", "0" * 39, "0" * 41])
def test_a_listing_without_a_commit_is_refused(sha: object) -> None:
    with pytest.raises(ModelError, match=r"^hf:a/b names no commit$") as caught:
        listing_of(sha)

    assert caught.value.hint == "check HF_ENDPOINT and the network"


def test_a_name_that_leads_elsewhere_is_shown_in_part() -> None:
    with pytest.raises(ModelError) as caught:
        listing_of("0" * 40, "../" + "x" * 200 + ".gguf")

    assert str(caught.value) == f"hf:a/b has the file name '../{'x' * 97}', which leads elsewhere"


@pytest.mark.parametrize(
    ("size", "sha256", "expected"),
    [
        (1, DIGEST, (1, DIGEST)),
        (0, DIGEST, (0, "")),
        ("1", DIGEST, (0, "")),
        (1, DIGEST + "a", (0, "")),
        (1, None, (0, "")),
    ],
)
def test_size_and_checksum_count_only_together(
    size: object, sha256: object, expected: tuple[int, str]
) -> None:
    assert _size_and_checksum(SimpleNamespace(size=size, sha256=sha256)) == expected
    assert _size_and_checksum(None) == (0, "")


def test_a_file_without_a_checksum_is_not_downloaded() -> None:
    listing = Listing("a/b", "0" * 40, {})
    hub = Hub(endpoint=HUB + "/")

    hub.require_checksums(listing, [HubFile("m.gguf", 5, DIGEST)])
    with pytest.raises(ModelError) as caught:
        hub.require_checksums(listing, [HubFile("m.gguf")])

    assert str(caught.value) == f"hf:a/b/m.gguf: {HUB} gives no checksum for it"
    assert caught.value.hint == "try another HF_ENDPOINT, or get the file by other means and use -m PATH"


# ---- parts of files


def partial(path: Path, data: bytes = b"", *, size: int = 10) -> PartialDownload:
    if data:
        path.write_bytes(data)
    return PartialDownload(path, size)


def test_what_is_there_counts_and_is_continued(tmp_path: Path) -> None:
    with partial(tmp_path / "new" / "part") as target:
        assert (target.done_bytes, target.missing_bytes) == (0, 10)
        target.append(b"0123")
        assert (target.done_bytes, target.missing_bytes) == (4, 6)
    with partial(tmp_path / "new" / "part") as target:
        assert target.done_bytes == 4
        target.append(b"456789")
        target.sync()

    assert target.missing_bytes == 0
    assert target.digest.hexdigest() == hashlib.sha256(b"0123456789").hexdigest()
    assert target.path.read_bytes() == b"0123456789"


def test_more_than_was_announced_begins_anew(tmp_path: Path) -> None:
    with partial(tmp_path / "whole", b"0123456789") as target:
        assert target.done_bytes == 10
    with partial(tmp_path / "long", b"0123456789x") as target:
        assert (target.done_bytes, target.digest.hexdigest()) == (0, hashlib.sha256().hexdigest())
    assert not (tmp_path / "long").exists()

    with partial(tmp_path / "part", b"01234") as target:
        with pytest.raises(ModelError, match=r"part: more arrived than the 10 bytes that were announced"):
            target.append(b"012345")
        assert (target.done_bytes, target.digest.hexdigest()) == (0, hashlib.sha256().hexdigest())
        target.append(b"xy")
    assert (tmp_path / "part").read_bytes() == b"xy"


def test_a_download_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    with partial(tmp_path / "part"):
        pass

    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ModelError) as caught:
        PartialDownload(tmp_path / "file" / "part", 10)

    assert str(caught.value) == f"{tmp_path / 'file' / 'part'}: File exists"
    assert "HF_HUB_CACHE" in caught.value.hint


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (response(206, Content_Range="bytes 4-9/10"), b"0123"),
        (response(206, Content_Range="bytes 4-9/*"), b"0123"),
        (response(200), b""),
        (response(200, Content_Range="bytes 4-9/10"), b""),
    ],
)
def test_an_answer_goes_on_where_it_begins(tmp_path: Path, answer: Any, left: bytes) -> None:
    with partial(tmp_path / "part", b"0123") as target:
        _align(target, answer)
        assert target.path.read_bytes() == left
        assert target.done_bytes == len(left)


@pytest.mark.parametrize("named", ["", "bytes 3-9/10", "bytes 5-9/10", "bytes 4-9/11", "4-9/10"])
def test_another_part_than_was_asked_for_begins_anew(tmp_path: Path, named: str) -> None:
    with partial(tmp_path / "part", b"0123") as target:
        with pytest.raises(_TemporaryError, match="another part than was asked for"):
            _align(target, response(206, Content_Range=named))
        assert target.done_bytes == 0


def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    with partial(tmp_path / "part", b"0123") as target:
        with pytest.raises(ModelError, match=r"part: the hub sends it compressed"):
            _align(target, response(206, Content_Range="bytes 4-9/10", Content_Encoding="gzip"))
        _align(target, response(206, Content_Range="bytes 4-9/10", Content_Encoding="identity"))
        assert target.done_bytes == 4


# ---- attempts


class Attempts:
    """Something that fails with these errors, one after the other, and counts what it has done until then."""

    def __init__(self, *errors: Exception | int) -> None:
        self.errors, self.done = list(errors), 0

    def __call__(self) -> str:
        while self.errors and isinstance(self.errors[0], int):
            self.done += self.errors.pop(0)  # type: ignore[arg-type]
        if self.errors:
            raise self.errors.pop(0)  # type: ignore[misc]
        return "done"


def tried(*errors: Exception | int) -> list[float]:
    """The waits between attempts, in seconds; raises what they end with."""
    events: list[Transferred | Waiting] = []
    attempts = Attempts(*errors)
    hub = Hub(endpoint=HUB, token=False)
    try:
        assert hub._with_retries(attempts, "a/b", events.append, progress=lambda: attempts.done) == "done"
    finally:
        waits = [event.wait_s for event in events if isinstance(event, Waiting)]
        slept.append(waits)
    return waits


slept: list[list[float]] = []


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    slept.clear()
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def broken(wait_s: float = 0.0) -> Exception:
    return _BrokenError(wait_s)


class _BrokenError(Exception):
    def __init__(self, wait_s: float) -> None:
        super().__init__("it broke off")
        self.wait_s = wait_s


@pytest.fixture(autouse=True)
def _broken_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Hub._trouble

    def told(hub: Hub, error: Exception, repo: str) -> Exception:
        if isinstance(error, _BrokenError):
            return _TemporaryError(str(error), error.wait_s)
        return trouble(hub, error, repo)

    monkeypatch.setattr(Hub, "_trouble", told)


def test_waits_double_and_the_fifth_failure_is_told() -> None:
    assert tried(*[broken()] * 4) == [1.0, 2.0, 4.0, 8.0]

    with pytest.raises(ModelError) as caught:
        tried(*[broken()] * 5)

    assert slept[-1] == [1.0, 2.0, 4.0, 8.0]
    assert str(caught.value) == f"hf:a/b: {HUB}: it broke off"
    assert caught.value.hint == "try again later; a download resumes where it stopped"


def test_progress_begins_the_count_anew() -> None:
    assert tried(broken(), broken(), 5, broken(), broken()) == [1.0, 2.0, 1.0, 2.0]
    # A part that began anew is none until it is longer than the one before.
    assert tried(5, broken(), -5, broken(), 5, broken(), 1, broken()) == [1.0, 2.0, 4.0, 1.0]


def test_the_hub_says_how_long_to_wait_up_to_a_minute() -> None:
    assert tried(broken(60.0)) == [60.0]

    with pytest.raises(ModelError) as caught:
        tried(broken(61.0))

    assert slept[-1] == []
    assert caught.value.hint == "try again in 61 s; a download resumes where it stopped"


def test_other_errors_are_not_tried_again() -> None:
    for error in (ModelError("no"), ZeroDivisionError("a bug")):
        with pytest.raises(type(error)) as caught:
            tried(error, broken())
        assert caught.value is error
        assert slept[-1] == []


def test_a_failure_without_words_has_the_name_of_its_kind() -> None:
    timeout = type("ReadTimeout", (Exception,), {})

    assert _reason(timeout()) == "no answer in time"
    assert _reason(ValueError()) == "ValueError"
    assert _reason(ValueError("one\ntwo")) == "one"
    assert _reason(OSError(111, "Connection refused")) == "Connection refused"
    assert _reason(socket.gaierror(-2, "Name or service not known")) == "the host name can't be resolved"


def test_offline_is_an_answer() -> None:
    from huggingface_hub.errors import OfflineModeIsEnabled

    error = Hub(endpoint=HUB)._trouble(OfflineModeIsEnabled("no"), "a/b")

    assert isinstance(error, ModelError)
    assert str(error) == "hf:a/b is not on this machine, and HF_HUB_OFFLINE forbids downloads"
    assert error.hint == "unset HF_HUB_OFFLINE; shepherd model list shows what is here"


def test_only_a_hub_that_was_reached_is_waited_for() -> None:
    from huggingface_hub import errors

    http = sys.modules[errors.HTTPError.__module__.partition(".")[0]]  # httpx, or httpx2
    hub = Hub(endpoint=HUB)
    for error in (http.ConnectError("refused"), http.ConnectTimeout("")):
        refused = hub._trouble(error, "a/b")
        assert isinstance(refused, ModelError)
        assert f"hf:a/b: {HUB} cannot be reached: " in str(refused)
    hub._was_reached = True
    for error in (
        http.ConnectError("refused"),
        http.ReadTimeout(""),
        http.RemoteProtocolError("cut"),
        http.ReadError("cut"),
    ):
        trouble = hub._trouble(error, "a/b")
        assert isinstance(trouble, _TemporaryError)
        assert trouble.wait_s == 0
    wrong = hub._trouble(http.InvalidURL("no address"), "a/b")
    assert isinstance(wrong, ModelError)
    assert (str(wrong), wrong.hint) == (f"hf:a/b: {HUB}: no address", "check HF_ENDPOINT")
