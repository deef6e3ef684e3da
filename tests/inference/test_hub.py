"""A hub that breaks off, lies, refuses or is down: what was downloaded is checked, resumed, or gone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from shepherd.errors import ModelError, ModelFormatError, UsageError
from shepherd.inference.cache import Repository
from shepherd.inference.hub import Hub, HubFile, PartialDownload, Transferred, Waiting
from shepherd.inference.models import ModelRegistry
from tests.hub import LoopbackHub
from tests.inference.registries import FILE, REPO, SPEC, everything_in, fail_store, registry_for

# -- interrupted ----


def test_a_broken_connection_is_resumed_where_it_broke(registry, hub, model_bytes):
    events: list[Transferred | Waiting] = []
    fail_store(hub, cut_after=100_000)

    model = registry.pull(SPEC, events.append)

    first, second = hub.asked("store")
    assert first.range == ""
    assert second.range.startswith("bytes=")
    assert 0 < int(second.range[6:-1]) <= 100_000
    assert model.path.read_bytes() == model_bytes
    assert [type(event) for event in events].count(Waiting) == 1


def test_a_download_that_failed_goes_on_at_the_next_pull(registry, hub, cache, model_bytes):
    fail_store(hub, cut_after=50_000)
    fail_store(hub, status=404)
    with pytest.raises(ModelError):
        registry.pull(SPEC)
    (kept,) = cache.rglob("*.incomplete")
    received = kept.stat().st_size
    hub.requests.clear()

    model = registry_for(hub, cache).pull(SPEC)

    assert received > 0
    assert [request.range for request in hub.asked("store")] == [f"bytes={received}-"]
    assert model.path.read_bytes() == model_bytes
    assert not kept.exists()


def test_an_interrupted_download_is_listed_and_not_found(registry, hub):
    fail_store(hub, cut_after=50_000)
    fail_store(hub, status=404)
    with pytest.raises(ModelError):
        registry.pull(SPEC)

    (model,) = registry.models()

    assert (model.name, model.complete) == (SPEC, False)
    assert 0 < model.size_bytes <= 50_000
    assert registry.find(SPEC) is None


def test_an_interrupt_keeps_what_has_come(registry, hub, cache, model_bytes):
    def interrupt(event: Transferred | Waiting) -> None:
        if isinstance(event, Transferred) and event.done_bytes > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registry.pull(SPEC, interrupt)

    (kept,) = cache.rglob("*.incomplete")
    assert kept.read_bytes() == model_bytes[: kept.stat().st_size]
    assert registry.pull(SPEC).path.read_bytes() == model_bytes


def test_an_interrupt_before_the_first_piece_was_counted_keeps_it(tmp_path):
    class Interrupted:
        def update(self, data):
            raise KeyboardInterrupt

    with PartialDownload(tmp_path / "partial", 10) as target:
        target.digest = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            target.append(b"first")

    assert (tmp_path / "partial").read_bytes() == b"first"


def test_a_file_that_ends_too_early_is_asked_for_its_rest(registry, hub, model_bytes):
    hub.add(REPO, FILE, model_bytes, size=len(model_bytes) + 10)
    events: list[Transferred | Waiting] = []

    with pytest.raises(ModelError):
        registry.pull(SPEC, events.append)

    waiting = next(event for event in events if isinstance(event, Waiting))
    assert waiting.reason == "the connection ended early"
    assert hub.asked("store")[1].range == f"bytes={len(model_bytes)}-"


def test_a_hub_that_goes_away_after_its_listing_is_waited_for(hub, cache):
    client = Hub(endpoint=hub.endpoint, token=False, retry_wait_s=0.001)
    listing = client.listing(REPO, lambda event: None)
    hub.__exit__()
    events: list[Transferred | Waiting] = []

    with pytest.raises(ModelError, match="refused") as caught:
        client.download(listing, listing.files[FILE], cache / "part", events.append)

    assert "a download resumes where it stopped" in caught.value.hint
    assert len([event for event in events if isinstance(event, Waiting)]) == 4


def test_a_hub_without_ranges_is_read_from_the_start_again(registry, hub, model_bytes):
    hub.ranges_supported = False
    fail_store(hub, cut_after=100_000)

    assert registry.pull(SPEC).path.read_bytes() == model_bytes
    assert len(hub.asked("store")) == 2


def test_a_leftover_longer_than_the_file_is_dropped(registry, hub, cache, model_bytes):
    left_over(hub, cache, b"x" * (len(model_bytes) + 1))

    assert registry.pull(SPEC).path.read_bytes() == model_bytes


def test_a_damaged_leftover_is_noticed_and_deleted(registry, hub, cache, model_bytes):
    left_over(hub, cache, b"x" * 1000)

    with pytest.raises(ModelError, match="wrong checksum"):
        registry.pull(SPEC)

    assert list(cache.rglob("*.incomplete")) == []
    assert registry.pull(SPEC).path.read_bytes() == model_bytes


def left_over(hub: LoopbackHub, cache: Path, data: bytes) -> None:
    sha256 = hub.repos[REPO].files[FILE].sha256
    path = cache / "models--acme--Tiny-GGUF" / "blobs" / f"{sha256}.{FILE}.incomplete"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "page",
    [
        {
            "status": 200,
            "headers": {"Content-Type": "text/html; charset=utf-8"},
            "body": b"<html>log in</html>",
        },
        {"status": 200, "body": b"please log in"},
        {"status": 204},
    ],
    ids=["page", "short text", "nothing"],
)
def test_a_login_page_costs_nothing_of_what_has_come(registry, hub, model_bytes, page):
    fail_store(hub, cut_after=100_000)
    fail_store(hub, **page)

    model = registry.pull(SPEC)

    first, second, third = hub.asked("store")
    assert (first.range, second.range) == ("", third.range)
    assert second.range.startswith("bytes=")
    assert model.path.read_bytes() == model_bytes


def test_a_login_page_is_not_the_beginning_of_a_file(registry, hub, model_bytes):
    fail_store(hub, status=200, headers={"Content-Type": "text/html"}, body=b"<html>log in</html>")

    model = registry.pull(SPEC)

    assert [request.range for request in hub.asked("store")] == ["", ""]
    assert model.path.read_bytes() == model_bytes


def test_a_download_that_goes_on_is_not_removed(registry, hub, cache, model_bytes):
    fail_store(hub, stall_after=100_000)
    pulling = threading.Thread(target=registry.pull, args=(SPEC,))
    pulling.start()
    try:
        while not (partials := list(cache.rglob("*.incomplete"))) or not partials[0].stat().st_size:
            time.sleep(0.01)
        (unfinished,) = [model for model in registry.models() if model.repo]
        with pytest.raises(UsageError, match="is being downloaded"):
            registry.remove(unfinished)
    finally:
        hub.release()
        pulling.join(60)

    assert registry.find(SPEC).path.read_bytes() == model_bytes


def test_two_pulls_at_once_download_it_once(hub, cache):
    registries = [registry_for(hub, cache) for _ in range(3)]
    threads = [threading.Thread(target=registry.pull, args=(SPEC,)) for registry in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(hub.asked("store")) == 1
    assert registries[0].find(SPEC) is not None


# -- what is wrong with the hub ----


def test_a_wrong_checksum_is_reported_and_nothing_stays(registry, hub, cache, model_bytes):
    hub.add(REPO, FILE, model_bytes, sha256="0" * 64)

    with pytest.raises(ModelError, match=rf"hf:{REPO}/{FILE}: wrong checksum.*deleted"):
        registry.pull(SPEC)

    assert list(cache.rglob("*.incomplete")) == []
    assert registry.models() == []


def test_a_file_that_is_no_gguf_is_reported_and_nothing_stays(registry, hub, cache):
    hub.add(REPO, FILE, b"<html>" * 10_000)

    with pytest.raises(ModelFormatError, match=rf"^hf:{REPO}/{FILE} is not a GGUF file.*deleted") as caught:
        registry.pull(SPEC)

    assert str(cache) not in str(caught.value)
    assert list(cache.rglob("*.incomplete")) == []
    assert registry.models() == []


def test_a_gguf_that_is_cut_short_by_its_publisher_is_no_model(registry, hub, model_bytes):
    hub.add(REPO, FILE, model_bytes[: len(model_bytes) // 2])

    with pytest.raises(ModelFormatError, match="truncated"):
        registry.pull(SPEC)

    assert registry.models() == []


def test_more_bytes_than_announced_are_refused(registry, hub, cache, model_bytes):
    hub.add(REPO, FILE, model_bytes, size=1000)

    with pytest.raises(ModelError, match="more arrived than the 1,000 bytes"):
        registry.pull(SPEC)

    assert all(path.stat().st_size <= 1000 for path in cache.rglob("*.incomplete"))


def test_an_absurd_size_is_refused_before_anything_is_downloaded(registry, hub, model_bytes):
    hub.add(REPO, FILE, model_bytes, size=1 << 60)

    with pytest.raises(ModelError, match=r"1,152,921,504\.6 GB are still to download, but .* has only"):
        registry.pull(SPEC)

    assert hub.asked("store") == []


@pytest.mark.parametrize(
    "path",
    [
        "../../../../evil-Q8_0.gguf",
        "/tmp/evil-Q8_0.gguf",
        "a/../../evil-Q8_0.gguf",
        "a\\..\\evil-Q8_0.gguf",
        "C:evil-Q8_0.gguf",
        "evil\x1b[2J-Q8_0.gguf",
        "./evil-Q8_0.gguf",
        "a//evil-Q8_0.gguf",
    ],
)
def test_a_file_name_that_leads_elsewhere_is_refused(registry, hub, tmp_path, model_bytes, path):
    hub.add(REPO, path, model_bytes)

    with pytest.raises(ModelError, match="leads elsewhere") as caught:
        registry.pull(f"hf:{REPO}/{FILE}")

    assert "\x1b" not in str(caught.value)
    assert everything_in(tmp_path) == set()


def test_a_commit_that_leads_elsewhere_is_refused(registry, hub, tmp_path):
    hub.repos[REPO].commit = "../../../evil"

    with pytest.raises(ModelError, match="names no commit"):
        registry.pull(SPEC)

    assert everything_in(tmp_path) == set()


@pytest.mark.parametrize("sha256", ["../../evil", "", "G" * 64])
def test_a_checksum_that_is_none_is_refused(registry, hub, tmp_path, sha256):
    hub.repos[REPO].files[FILE].sha256 = sha256

    with pytest.raises(ModelError, match="no checksum"):
        registry.pull(SPEC)

    assert everything_in(tmp_path) == set()


def test_an_answer_that_is_no_json_is_reported(registry, hub):
    hub.fail("/api/models", status=200, body=b"<html>please log in</html>")

    with pytest.raises(ModelError, match="the server there is not a hub"):
        registry.pull(SPEC)


def test_the_place_of_the_contents_never_sees_the_token(hub, cache):
    hub.repos[REPO].token = "hf_secret"

    registry_for(hub, cache, token="hf_secret").pull(SPEC)

    assert {request.token for request in hub.asked("hub")} == {"hf_secret"}
    assert {request.token for request in hub.asked("store")} == {""}


# -- refusals ----


def test_an_unknown_repository_is_reported(registry):
    with pytest.raises(ModelError, match=r"hf:acme/none: there is no such model on http://127") as caught:
        registry.pull("hf:acme/none")

    assert "HF_TOKEN" in caught.value.hint


def test_a_gated_repository_says_where_its_terms_are(registry, hub):
    hub.repos[REPO].gated = True
    hub.repos[REPO].token = "hf_allowed"

    with pytest.raises(ModelError, match="is gated") as caught:
        registry.pull(SPEC)

    assert f"{hub.endpoint}/{REPO}" in caught.value.hint


def test_a_gate_before_the_files_alone_leaves_nothing_behind(registry, hub):
    # As on the real hub: everybody may list a gated repository.
    hub.fail("/resolve/", status=401, headers={"X-Error-Code": "GatedRepo"})

    with pytest.raises(ModelError, match="is gated"):
        registry.pull(SPEC)

    assert registry.models() == []


def test_a_refused_token_is_reported_and_not_shown(hub, cache):
    hub.repos[REPO].token = "hf_right"

    with pytest.raises(ModelError, match="the hub does not accept the token") as caught:
        registry_for(hub, cache, token="hf_wrong").pull(SPEC)

    assert "hf_wrong" not in str(caught.value) + caught.value.hint


def test_a_token_opens_a_gated_repository(hub, cache):
    hub.repos[REPO].gated = True
    hub.repos[REPO].token = "hf_right"

    assert registry_for(hub, cache, token="hf_right").pull(SPEC).complete


def test_a_hub_that_is_down_for_a_moment_is_asked_again(registry, hub, model_bytes):
    events: list[Transferred | Waiting] = []
    hub.fail("/api/models", status=503)
    hub.fail("/resolve/", status=502)
    fail_store(hub, status=500)

    assert registry.pull(SPEC, events.append).path.read_bytes() == model_bytes
    waits = [event.reason for event in events if isinstance(event, Waiting)]
    assert waits == ["HTTP 503", "HTTP 502", "HTTP 500"]


def test_a_hub_that_stays_down_is_reported_after_five_attempts(registry, hub):
    hub.fail("/api/models", status=503, times=99)

    with pytest.raises(ModelError, match=f"{hub.endpoint}: HTTP 503"):
        registry.pull(SPEC)

    assert len(hub.asked("hub")) == 5


def test_too_many_requests_wait_as_long_as_the_hub_says(registry, hub):
    events: list[Transferred | Waiting] = []
    hub.fail("/api/models", status=429, headers={"Retry-After": "1"})

    registry.pull(SPEC, events.append)

    assert next(event for event in events if isinstance(event, Waiting)) == Waiting("too many requests", 1.0)


def test_a_wait_of_an_hour_is_left_to_the_user(registry, hub):
    hub.fail("/api/models", status=429, headers={"Retry-After": "3600"})

    with pytest.raises(ModelError, match="too many requests") as caught:
        registry.pull(SPEC)

    assert "in 3600 s" in caught.value.hint


def test_a_hub_that_cannot_be_reached_is_reported_at_once(cache):
    with LoopbackHub() as gone:
        pass
    registry = registry_for(gone, cache)

    with pytest.raises(ModelError, match=f"{gone.endpoint} cannot be reached") as caught:
        registry.pull(SPEC)

    assert "HF_ENDPOINT" in caught.value.hint


@pytest.mark.parametrize(
    "endpoint", ["huggingface.co", "ftp://127.0.0.1", "http://[", "http://127.0.0.1:99999"]
)
def test_an_endpoint_that_is_no_address_is_reported(cache, endpoint):
    registry = ModelRegistry(cache=cache, hub=Hub(endpoint=endpoint, token=False, retry_wait_s=0.01))

    with pytest.raises(ModelError, match="hf:acme/Tiny-GGUF"):
        registry.pull(SPEC)


def test_a_cache_path_that_is_a_file_is_reported(hub, cache):
    cache.write_text("in the way")

    with pytest.raises(ModelError, match="Not a directory"):
        registry_for(hub, cache).pull(SPEC)


def test_a_file_that_another_downloads_is_waited_for(tmp_path):
    repository, file = Repository(tmp_path, REPO), HubFile(FILE, 9, "0" * 64)
    events: list[object] = []
    waits, entered = threading.Event(), threading.Event()

    def report(event: object) -> None:
        events.append(event)
        waits.set()

    def other() -> None:
        with repository.locked(file, report):
            entered.set()

    thread = threading.Thread(target=other)
    with repository.locked(file, events.append):
        thread.start()
        assert waits.wait(60)
        assert not entered.wait(0.2)
    thread.join(60)

    assert entered.is_set()
    assert events == [Waiting("another program is downloading it", 0.0)]


# -- spellings ----


def test_another_spelling_of_a_repository_is_the_same_one(registry, hub, model_bytes):
    stored = registry.pull(SPEC)
    hub.requests.clear()
    other = SPEC.replace(REPO, REPO.upper())

    assert registry.find(other) == stored
    hub.repos[REPO.upper()] = hub.repos[REPO]
    assert registry.pull(other) == stored
    assert hub.asked("store") == []
    assert len([model for model in registry.models() if model.repo]) == 1


def test_the_name_of_a_downloaded_file_finds_it(registry):
    stored = registry.pull(SPEC)

    assert registry.resolve(FILE) == stored.path
    assert registry.resolve("other.gguf") == Path("other.gguf")
