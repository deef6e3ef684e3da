"""Models by name: fetched from a loopback hub by the real client, found, described, removed."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir, try_to_load_from_cache

from shepherd.errors import ModelError, ShepherdError, UsageError
from shepherd.inference import Engine, EngineSettings, load_check
from shepherd.inference.hub import Transferred, Waiting
from shepherd.inference.models import BUILT_IN, ModelRegistry
from shepherd.inference.names import (
    FILE_TYPES,
)
from tests import models, vision_models
from tests.inference.registries import FILE, REPO, SPEC, everything_in, fail_store, with_name

# -- a whole download ----


def test_a_pulled_model_is_the_file_of_the_hub_and_an_engine_loads_it(registry, model_bytes):
    model = registry.pull(SPEC)

    assert (model.name, model.quant, model.complete) == (SPEC, "Q8_0", True)
    assert model.path.name == FILE
    assert model.path.read_bytes() == model_bytes
    with Engine(model.path, settings=EngineSettings(n_ctx=128)) as engine:
        assert engine.info.architecture == "llama"


def test_a_pulled_model_is_tried_as_any_other_from_outside(registry):
    """Its checksum says that it came as it was published, not that it does no harm."""
    model = registry.pull(SPEC)

    assert not load_check.is_known(model.path)


@pytest.mark.parametrize("call", ["resolve", "stored"])
def test_a_home_of_nobody_is_named_with_the_setting(registry, call):
    with pytest.raises(UsageError, match=r"^model is '~nosuch-user/x', and there is no such user"):
        getattr(registry, call)("~nosuch-user/x")

    assert registry.configured("~nosuch-user/x") is None


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


def test_the_projector_of_a_repository_comes_and_goes_with_its_models(registry, hub, cache, tmp_path):
    path = tmp_path / "mmproj.gguf"
    vision_models.llava(path, 64)
    hub.add(REPO, "mmproj-F16.gguf", path.read_bytes())
    hub.add(REPO, "mmproj-Q8_0.gguf", b"another one")
    model = registry.pull(SPEC)

    assert [file.name for file in model.files] == [FILE]
    assert sorted(file.name for file in model.path.parent.iterdir()) == ["mmproj-F16.gguf", FILE]
    with Engine(model.path, settings=EngineSettings(n_ctx=128)) as engine:
        assert engine.reads_pictures
    registry.remove(model)
    assert everything_in(cache) == set()


def test_a_projector_that_is_none_is_refused_before_the_model_comes(registry, hub):
    hub.add(REPO, "mmproj-F16.gguf", b"no GGUF")

    with pytest.raises(ModelError, match=r"mmproj-F16\.gguf"):
        registry.pull(SPEC)
    assert registry.find(SPEC) is None


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
