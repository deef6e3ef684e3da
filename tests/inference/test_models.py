"""Models by name: fetched from a loopback hub by the real client, checked, found, described, removed."""

from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path

import gguf
import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir, try_to_load_from_cache
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import ModelError, ModelFormatError, ShepherdError, UsageError
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.hub import Hub, Transferred, Waiting
from shepherd.inference.models import BUILT_IN, ModelRegistry
from shepherd.inference.names import (
    FILE_TYPES,
    HubName,
    choose,
    is_safe_path,
    parse_hub_name,
    quant_of,
    variants,
)
from tests import models
from tests.hub import LoopbackHub

REPO = "acme/Tiny-GGUF"
SPEC = f"hf:{REPO}:Q8_0"
FILE = "tiny-q8_0.gguf"


@pytest.fixture(scope="session")
def model_bytes(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    models.llama(path)
    return path.read_bytes()


@pytest.fixture
def hub(model_bytes):
    with LoopbackHub() as served:
        served.add(REPO, FILE, model_bytes)
        served.add(REPO, "README.md", b"hello")
        yield served


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def registry(hub, cache) -> ModelRegistry:
    return registry_for(hub, cache)


def registry_for(hub: LoopbackHub, cache: Path, *, token: str | bool = False) -> ModelRegistry:
    client = Hub(endpoint=hub.endpoint, token=token, retry_wait_s=0.01)
    return ModelRegistry(cache=cache, hub=client, built_in=cache / "none.gguf")


def everything_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


# -- a whole download ----


def test_a_pulled_model_is_the_file_of_the_hub_and_an_engine_loads_it(registry, model_bytes):
    model = registry.pull(SPEC)

    assert (model.name, model.quant, model.complete) == (SPEC, "Q8_0", True)
    assert model.path.name == FILE
    assert model.path.read_bytes() == model_bytes
    with Engine(model.path, settings=EngineSettings(n_ctx=128)) as engine:
        assert engine.info.architecture == "llama"


def test_a_second_pull_downloads_nothing(registry, hub):
    first = registry.pull(SPEC)
    hub.requests.clear()

    assert registry.pull(SPEC) == first
    assert hub.asked("store") == []


def test_resolving_an_installed_model_asks_no_hub(registry, hub):
    path = registry.pull(SPEC).path
    hub.requests.clear()

    assert registry.resolve(SPEC) == path
    assert registry.resolve(f"hf:{REPO}") == path
    assert registry.resolve("TINY-q8_0") == path
    assert hub.requests == []


def test_resolving_a_model_that_is_not_here_fetches_it(registry, model_bytes):
    assert registry.resolve(SPEC).read_bytes() == model_bytes


def test_progress_grows_from_nothing_to_the_whole_size(registry, model_bytes):
    events: list[Transferred | Waiting] = []

    registry.pull(SPEC, events.append)

    sizes = [event.done_bytes for event in events if isinstance(event, Transferred)]
    assert sizes[0] == 0
    assert sizes[-1] == len(model_bytes)
    assert sizes == sorted(sizes)
    assert len(events) == len(sizes)


def test_huggingface_hub_finds_what_was_pulled(registry, hub, cache, model_bytes):
    path = registry.pull(SPEC).path
    hub.requests.clear()

    assert try_to_load_from_cache(REPO, FILE, cache_dir=cache) == str(path)
    assert hf_hub_download(REPO, FILE, cache_dir=cache, local_files_only=True) == str(path)
    assert hf_hub_download(REPO, FILE, cache_dir=cache, endpoint=hub.endpoint, token=False) == str(path)
    assert hub.asked("store") == []
    scanned = scan_cache_dir(cache)
    assert (scanned.warnings, scanned.size_on_disk) == ([], len(model_bytes))


def test_what_huggingface_hub_has_downloaded_is_not_downloaded_again(registry, hub, cache):
    path = hf_hub_download(REPO, FILE, cache_dir=cache, endpoint=hub.endpoint, token=False)
    hub.requests.clear()

    assert registry.find(SPEC).path == Path(path)
    assert registry.pull(SPEC).path == Path(path)
    assert hub.asked("store") == []


def test_a_new_commit_replaces_the_old_one_in_the_list(registry, hub, tmp_path):
    registry.pull(SPEC)
    newer = tmp_path / "newer.gguf"
    models.llama(newer, seed=2)
    hub.add(REPO, FILE, newer.read_bytes())
    hub.repos[REPO].commit = "f" * 40

    registry.pull(SPEC)

    assert [m.path.read_bytes() for m in registry.models()] == [newer.read_bytes()]


def test_all_parts_of_a_split_model_are_fetched(registry, hub, model_bytes):
    parts = [f"big/M-Q4_K_M-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for number, path in enumerate(parts):
        hub.add(REPO, path, with_name(model_bytes, number))

    model = registry.pull(f"hf:{REPO}:q4_k_m")

    assert model.name == f"hf:{REPO}:Q4_K_M"
    assert [path.name for path in model.files] == [Path(part).name for part in parts]
    assert len({path.parent for path in model.files}) == 1
    assert model.size_bytes == 3 * len(model_bytes)
    assert registry.find(f"hf:{REPO}/{parts[1]}") == model


def with_name(data: bytes, number: int) -> bytes:
    """The same model under another name of the same length, so that checksums differ."""
    return data.replace(b"tiny-plain", b"tiny-par-%d" % number)


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


def fail_store(hub: LoopbackHub, **fault: object) -> None:
    """Spoil the next answer of the store alone; the hub's own paths have /resolve/ in them."""
    hub.fail(f"/{REPO}/{FILE}", **fault)


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

    with pytest.raises(ModelError, match=r"1,152,921,504\.6 GB are to come, .* has room for"):
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

    with pytest.raises(ModelError, match="what answers there is no hub"):
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


# -- names ----


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hf:u/r", HubName("u/r")),
        ("hf:u/r:q4_k_m", HubName("u/r", quant="q4_k_m")),
        ("hf:u/r/a.GGUF", HubName("u/r", file="a.GGUF")),
        ("hf:u/r/d/a-00001-of-00002.gguf", HubName("u/r", file="d/a-00001-of-00002.gguf")),
    ],
)
def test_a_name_has_a_repository_and_perhaps_a_quantisation_or_a_file(text, name):
    assert parse_hub_name(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        *("hf:", "hf:u", "hf:u/", "hf:/r", "hf:../r", "hf:u/..", "hf:u/a--b", "hf:u/r?x", "hf:u/r\n"),
        *("hf:u/r:", "hf:u/r:q/4", "hf:u/r/", "hf:u/r/x.bin", "hf:u/r/../x.gguf", "hf:u/r/a\\b.gguf"),
        "hf:u/" + "r" * 99,
    ],
)
def test_a_malformed_name_says_what_was_expected(text):
    with pytest.raises(UsageError, match="is no name of a model") as caught:
        parse_hub_name(text)

    assert "hf:user/repo:quant" in caught.value.hint


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_a_mistake_and_never_a_way_out(text):
    try:
        name = parse_hub_name("hf:" + text)
    except UsageError:
        return
    assert ".." not in name.repo.split("/")
    assert name.repo.count("/") == 1
    assert not name.file or is_safe_path(name.file)


@pytest.mark.parametrize(
    ("file", "quant"),
    [
        ("m-q4_k_m.gguf", "Q4_K_M"),
        ("M.Q5_K_S.gguf", "Q5_K_S"),
        ("m-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"),
        ("m_fp16.gguf", "F16"),
        ("m-fp16.gguf", "F16"),
        ("m-BF16-00001-of-00002.gguf", "BF16"),
        ("Q3_K_XL/m-Q3_K_XL-00001-of-00002.gguf", "Q3_K_XL"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("qwen2.5-0.5b-instruct-q8_0.gguf", "Q8_0"),
        ("model.gguf", ""),
    ],
)
def test_the_quantisation_is_read_from_the_file_name(file, quant):
    assert quant_of(file) == quant


def test_file_types_are_those_of_llama_cpp():
    theirs = {t.value: t.name.removeprefix("MOSTLY_").removeprefix("ALL_") for t in gguf.LlamaFileType}
    del theirs[gguf.LlamaFileType.GUESSED.value]

    assert {number: FILE_TYPES.get(number) for number in theirs} == theirs


def test_projectors_and_importance_matrices_are_no_models():
    files = ["mmproj-F16.gguf", "m-F16.gguf", "imatrix_unsloth.gguf", "m.imatrix.gguf", "x.safetensors"]

    assert [variant.files for variant in variants(files)] == [("m-F16.gguf",)]


MANY = (
    "m-Q4_0.gguf",
    "m-Q4_K_M.gguf",
    "m-UD-Q4_K_XL.gguf",
    "m-BF16-00001-of-00002.gguf",
    "m-BF16-00002-of-00002.gguf",
)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("hf:u/r", "m-Q4_K_M.gguf"),
        ("hf:u/r:q4_0", "m-Q4_0.gguf"),
        ("hf:u/r:Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("hf:u/r:ud-q4_k_xl", "m-UD-Q4_K_XL.gguf"),
        ("hf:u/r:bf16", "m-BF16-00001-of-00002.gguf"),
        ("hf:u/r/M-BF16-00002-OF-00002.gguf", "m-BF16-00001-of-00002.gguf"),
        ("hf:u/r/m-q4_0.gguf", "m-Q4_0.gguf"),
    ],
)
def test_a_name_chooses_one_model_of_many(name, first):
    assert choose(parse_hub_name(name), variants(MANY)).files[0] == first


def test_a_quantisation_that_is_not_there_lists_those_that_are(registry, hub, model_bytes):
    hub.add(REPO, "other-Q4_0.gguf", model_bytes)

    with pytest.raises(UsageError, match=f"hf:{REPO} has no model of quantisation Q2_K") as caught:
        registry.pull(f"hf:{REPO}:Q2_K")

    assert caught.value.hint == f"there are hf:{REPO}:Q4_0, hf:{REPO}:Q8_0"


def test_two_models_of_one_quantisation_are_listed_by_file(registry, hub, model_bytes):
    hub.add(REPO, "larger-Q8_0.gguf", model_bytes)

    with pytest.raises(UsageError, match="has more than one model of quantisation Q8_0") as caught:
        registry.pull(SPEC)

    assert caught.value.hint == f"there are hf:{REPO}/larger-Q8_0.gguf, hf:{REPO}/{FILE}"
    assert registry.pull(f"hf:{REPO}/larger-Q8_0.gguf").complete


def test_a_repository_without_gguf_says_so(registry, hub):
    hub.add("acme/weights", "model.safetensors", b"x")

    with pytest.raises(UsageError, match="hf:acme/weights has no GGUF model"):
        registry.pull("hf:acme/weights")


def test_a_split_model_with_a_part_missing_on_the_hub_is_refused(registry, hub, model_bytes):
    hub.add(REPO, "m-Q4_K_M-00001-of-00002.gguf", model_bytes)

    with pytest.raises(UsageError, match=r"of 2 parts of m-Q4_K_M-00001-of-00002\.gguf only 1"):
        registry.pull(f"hf:{REPO}:Q4_K_M")


def test_paths_stay_paths(registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_bytes(b"")

    assert registry.resolve("plain") == Path("plain")
    assert registry.resolve("./nowhere") == Path("nowhere")
    assert registry.resolve("nowhere.gguf") == Path("nowhere.gguf")
    assert registry.resolve("/x/y") == Path("/x/y")
    assert registry.resolve("~/y.gguf") == Path.home() / "y.gguf"


def test_a_name_that_nothing_has_is_a_mistake(registry):
    with pytest.raises(UsageError, match="there is no model 'nothing'"):
        registry.resolve("nothing")


# -- what is here ----


def test_the_built_in_model_is_first_and_the_default(registry, cache, hub, model_bytes, tmp_path):
    path = tmp_path / "shepherd-mini-q8_0.gguf"
    path.write_bytes(model_bytes)
    registry.pull(SPEC)

    with_it = ModelRegistry(cache=cache, built_in=path)

    assert [model.name for model in with_it.models()] == [BUILT_IN, SPEC]
    assert with_it.resolve("") == with_it.resolve(BUILT_IN) == path
    with pytest.raises(UsageError, match="is built in"):
        with_it.remove(with_it.stored(BUILT_IN))
    assert path.exists()


def test_what_a_setting_stands_for_is_told_without_asking_a_hub(registry, hub, tmp_path):
    path = registry.pull(SPEC).path
    hub.requests.clear()

    assert registry.configured(f"hf:{REPO}") == registry.configured("tiny-q8_0") == path
    assert registry.configured(str(tmp_path / "x.gguf")) == tmp_path / "x.gguf"
    assert [registry.configured(spec) for spec in ("", "hf:a/b", "hf:bad", "nothing")] == [None] * 4
    assert hub.requests == []


def test_without_a_built_in_model_an_empty_name_is_a_mistake(registry):
    with pytest.raises(UsageError, match="no model is set"):
        registry.resolve("")


def test_a_description_tells_what_the_header_has(registry, model_bytes):
    model = registry.pull(SPEC)

    told = registry.describe(model.files)

    assert (told.title, told.architecture, told.n_ctx_train) == ("tiny-plain", "llama", 4096)
    assert told.chat_template
    assert told.quant == "Q8_0" or told.quant in FILE_TYPES.values()
    assert told.n_params > 10_000
    assert told.size_bytes == len(model_bytes)
    assert told.sha256 == (hashlib.sha256(model_bytes).hexdigest(),)


def test_a_file_outside_the_cache_can_be_described(registry, tmp_path, model_bytes):
    path = tmp_path / "mine.gguf"
    path.write_bytes(model_bytes)

    assert registry.describe((path,)).sha256 == (hashlib.sha256(model_bytes).hexdigest(),)


def test_a_damaged_model_is_listed_without_architecture(registry):
    model = registry.pull(SPEC)
    model.path.resolve().write_bytes(b"damaged")

    (listed,) = registry.models()

    assert registry.architecture(listed) == ""


def test_an_empty_cache_has_no_models(registry):
    assert registry.models() == []


# -- removing ----


def test_removing_a_model_leaves_nothing_of_it(registry, cache):
    registry.remove(registry.pull(SPEC))

    assert registry.models() == []
    assert everything_in(cache) == set()


def test_removing_a_model_leaves_its_neighbours(registry, hub, model_bytes):
    hub.add(REPO, "tiny-Q4_0.gguf", with_name(model_bytes, 7))
    hub.add(REPO, "same-as-q8-F16.gguf", model_bytes)
    others = [registry.pull(f"hf:{REPO}:{quant}") for quant in ("Q4_0", "F16")]

    registry.remove(registry.pull(SPEC))

    assert [model.name for model in registry.models()] == sorted(other.name for other in others)
    assert all(other.path.read_bytes() for other in others)


def test_removing_a_model_takes_older_commits_of_it_along(registry, hub, cache, tmp_path):
    registry.pull(SPEC)
    newer = tmp_path / "newer.gguf"
    models.llama(newer, seed=2)
    hub.add(REPO, FILE, newer.read_bytes())
    hub.repos[REPO].commit = "f" * 40

    registry.remove(registry.pull(SPEC))

    assert everything_in(cache) == set()


def test_removing_an_unfinished_download_deletes_it(registry, hub, cache):
    fail_store(hub, cut_after=50_000)
    fail_store(hub, status=404)
    with pytest.raises(ModelError):
        registry.pull(SPEC)

    registry.remove(registry.stored(SPEC))

    assert list(cache.rglob("*.incomplete")) == []
    assert registry.models() == []


def test_other_programs_files_of_the_repository_stay(registry, hub, cache):
    hf_hub_download(REPO, "README.md", cache_dir=cache, endpoint=hub.endpoint, token=False)

    registry.remove(registry.pull(SPEC))

    assert hf_hub_download(REPO, "README.md", cache_dir=cache, local_files_only=True)


def test_a_link_in_the_cache_that_leads_out_of_it_is_removed_and_its_target_stays(registry, cache, tmp_path):
    mine = tmp_path / "mine.gguf"
    models.llama(mine)
    snapshot = cache / "models--acme--Linked" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "m-Q8_0.gguf").symlink_to(mine)

    registry.remove(registry.stored("hf:acme/Linked:Q8_0"))

    assert mine.exists()
    assert registry.models() == []


def test_a_cache_without_links_works_too(registry, hub, cache, model_bytes):
    # As huggingface_hub lays it out where links cannot be made: the file itself in the snapshot.
    path = registry.pull(SPEC).path
    blob = path.resolve()
    path.unlink()
    shutil.move(blob, path)
    hub.requests.clear()

    model = registry.pull(SPEC)

    assert hub.asked("store") == []
    assert registry.describe(model.files).sha256 == (hashlib.sha256(model_bytes).hexdigest(),)
    registry.remove(model)
    assert everything_in(cache) == set()


def test_every_failure_of_this_module_is_an_expected_one(registry):
    for spec in ("hf:acme/none", "hf:bad", f"hf:{REPO}:Q1_0"):
        with pytest.raises(ShepherdError) as caught:
            registry.pull(spec)
        assert caught.value.hint
