"""The pool of a server's models without a server: names, leases, who leaves for whom, and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.config import Config
from shepherd.errors import InternalError, ModelError, ModelLoadError
from shepherd.extraction.answer import UnavailableError
from shepherd.inference import Engine, EngineSettings
from shepherd.providers import ProviderSettings
from shepherd.server.errors import Denied
from shepherd.server.models import Models
from shepherd.server.pool import Lease, ModelPool
from shepherd.server.served_model import ServedModel
from shepherd.server.turns import Conversations

MB = 1 << 20
PATIENCE_S = 10.0


class Shelf:
    """Models with a megabyte each, all of one small file; `history` says what was loaded and unloaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history: list[str] = []
        self.failing: dict[str, Exception] = {}

    def model(self, name: str, *, size_mb: int = 1, also: tuple[str, ...] = ()) -> ServedModel:
        def opened() -> Engine:
            if name in self.failing:
                raise self.failing[name]
            self.history.append(f"+{name}")
            return Engine(self.path, settings=EngineSettings(n_ctx=256, n_threads=1, slots=2, windows=2))

        def closed(engine: Engine) -> None:
            self.history.append(f"-{name}")
            engine.close()

        def converse(engine: Engine | None) -> Conversations:
            served = Models(ProviderSettings("local", "llamacpp"), name=name, engine=engine)
            return Conversations(served, memory=None, config=Config())

        return ServedModel(
            name, self.path, size_bytes=size_mb * MB, open=opened, close=closed, converse=converse, also=also
        )

    def pool(self, *names: str, budget_mb: int = 0, **options: object) -> ModelPool:
        self.made = ModelPool([self.model(name) for name in names], budget_bytes=budget_mb * MB, **options)
        return self.made


@pytest.fixture
def shelf(scripted_model) -> Iterator[Shelf]:
    shelf = Shelf(scripted_model)
    shelf.made = ModelPool([])
    yield shelf
    shelf.made.close()


# ---- names


def test_a_model_is_found_by_its_names_and_aliases_in_any_case(shelf):
    pool = ModelPool(
        [shelf.model("Big", also=("hub/big",)), shelf.model("small")],
        aliases={"gpt-4o": "small", "best": "default"},
        takes_any=False,
    )
    big, small = pool.models

    found = {
        name: pool.find(name)
        for name in ("Big", "big", "HUB/BIG", "SMALL", "gpt-4o", "best", "default", "shepherd", "")
    }
    assert found == {
        "Big": big, "big": big, "HUB/BIG": big, "SMALL": small, "gpt-4o": small, "best": big,
        "default": big, "shepherd": big, "": big,
    }  # fmt: skip
    assert pool.find("other") is None
    assert pool.names == ("Big", "hub/big", "small", "default", "shepherd", "gpt-4o", "best")
    assert pool.default is big
    assert not pool.takes_any("other")
    with pytest.raises(Denied) as caught:
        pool.require("other")
    assert str(caught.value) == "there is no such model here; there are Big, small ('default' is Big)"
    assert (caught.value.status, caught.value.code, caught.value.param) == (404, "model_not_found", "model")


def test_any_name_is_the_defaults_where_it_is_taken(shelf):
    pool = ModelPool([shelf.model("only")])

    assert pool.require("gpt-5") is pool.default
    assert pool.takes_any("gpt-5")
    assert not pool.takes_any("only")
    strict = ModelPool([shelf.model("only")], takes_any=False)
    with pytest.raises(Denied, match="there is only"):
        strict.require("gpt-5")


def test_a_model_is_added_once(shelf):
    pool = shelf.pool("one")
    pool.add(shelf.model("two"))
    pool.add(shelf.model("ONE"))

    assert [model.name for model in pool.models] == ["one", "two"]


# ---- leases and who leaves


def lent(pool: ModelPool, name: str) -> Lease:
    """Lease a model; fails where that does not end, instead of waiting for ever."""
    found: list[Lease] = []
    asking = threading.Thread(target=lambda: found.append(pool.lease_on_thread(name)), daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    assert found, f"no lease of {name}"
    return found[0]


def use(pool: ModelPool, *names: str) -> None:
    for name in names:
        lent(pool, name).release()


def test_models_are_loaded_when_they_are_asked_for_and_stay_while_there_is_room(shelf):
    pool = shelf.pool("a", "b", "c")
    assert pool.loaded == ()
    use(pool, "a", "b", "a", "c")

    assert shelf.history == ["+a", "+b", "+c"]
    assert [model.state for model in pool.models] == ["loaded"] * 3
    pool.close()
    pool.close()
    assert sorted(shelf.history[3:]) == ["-a", "-b", "-c"]
    assert [model.state for model in pool.models] == ["unloaded"] * 3


def test_the_one_used_longest_ago_leaves_for_another(shelf):
    pool = shelf.pool("a", "b", "c", budget_mb=2)
    use(pool, "a", "b", "a", "c")
    assert shelf.history == ["+a", "+b", "-b", "+c"]
    use(pool, "b")

    assert shelf.history[4:] == ["-a", "+b"]
    assert [model.name for model in pool.loaded] == ["b", "c"]


def test_what_others_take_of_the_budget_is_not_given_to_models(shelf):
    pool = shelf.pool("a", "b", budget_mb=2, reserved_bytes=1)
    use(pool, "a", "b")
    assert shelf.history == ["+a", "-a", "+b"]
    roomy = Shelf(shelf.path)
    use(roomy.pool("a", "b", budget_mb=3, reserved_bytes=MB), "a", "b")
    roomy.made.close()

    assert roomy.history[:2] == ["+a", "+b"]


def test_a_model_as_large_as_the_budget_is_loaded_and_a_larger_one_refused(shelf):
    pool = shelf.pool("a", budget_mb=2, reserved_bytes=MB)
    use(pool, "a")
    pool.add(shelf.model("b", size_mb=2))

    with pytest.raises(Denied) as caught:
        pool.lease_on_thread("b")

    assert (caught.value.status, caught.value.code, caught.value.param) == (503, "model_too_large", "model")
    assert str(caught.value) == "b needs 3 MiB with what is always loaded, server_models_mb allows 2 MiB"
    pool.budget_bytes = 0
    use(pool, "b")


def test_a_lease_holds_its_model_until_it_is_released_once(shelf):
    pool = shelf.pool("a", "b", budget_mb=1)
    lease = lent(pool, "a")
    again = lease.again()
    assert lease.model.n_leases == 2
    lease.release()
    lease.release()
    assert again.model.n_leases == 1
    assert again.engine is pool.models[0].engine
    assert again.conversations is pool.models[0].conversations
    asking = threading.Thread(target=use, args=(pool, "b"), daemon=True)
    asking.start()
    wait_for(lambda: pool.models[0] in pool._leaving)
    assert shelf.history == ["+a"]
    with again:
        pass
    asking.join(PATIENCE_S)

    assert shelf.history == ["+a", "-a", "+b"]
    assert pool.models[0].n_leases == 0


def wait_for(holds: Callable[[], object]) -> None:
    ticks = threading.Event()
    for _ in range(2000):
        if holds():
            return
        ticks.wait(0.005)
    raise AssertionError("it did not come")


def test_idle_models_leave_before_those_in_use(shelf):
    pool = shelf.pool("a", "b", "c", budget_mb=2)
    with lent(pool, "a"):
        use(pool, "b")
        use(pool, "c")

    assert shelf.history == ["+a", "+b", "-b", "+c"]


def test_all_leave_for_one_that_needs_all(shelf):
    pool = shelf.pool("a", "b", budget_mb=2)
    pool.add(shelf.model("big", size_mb=2))
    use(pool, "b", "a", "big")

    assert shelf.history == ["+b", "+a", "-b", "-a", "+big"]


# ---- failures


def test_a_failure_is_told_again_for_half_a_minute_and_names_no_path(shelf):
    pool = shelf.pool("a")
    shelf.failing["a"] = ModelLoadError(f"{shelf.path} is bad", hint=f"look at {shelf.path}")
    [model] = pool.models

    with pytest.raises(ModelError) as caught:
        pool.lease_on_thread("a")
    assert (str(caught.value), caught.value.hint) == ("a is bad", "look at a")
    assert model.state == "unloaded"
    del shelf.failing["a"]
    model.failed_at -= 25
    with pytest.raises(ModelError, match="a is bad"):
        pool.lease_on_thread("a")
    model.failed_at -= 10
    use(pool, "a")

    assert shelf.history == ["+a"]
    assert model.failure is None


def test_a_bug_while_loading_is_told_without_its_text(shelf):
    pool = shelf.pool("a")
    shelf.failing["a"] = KeyError("a secret")

    with pytest.raises(InternalError, match="loading a: KeyError"):
        pool.lease_on_thread("a")


def test_a_model_that_does_not_end_well_leaves_all_the_same(shelf):
    pool = shelf.pool("a", "b", budget_mb=1)
    use(pool, "a")
    pool.models[0].on_unload.append(lambda: {}["missing"])
    use(pool, "b")

    assert [model.state for model in pool.models] == ["unloaded", "loaded"]


def test_a_closed_pool_lends_nothing(shelf):
    pool = shelf.pool("a")
    pool.close()

    with pytest.raises(Denied) as caught:
        pool.lease_on_thread("a")
    assert (caught.value.status, caught.value.code) == (503, "shutting_down")


# ---- settings, and work in the background


def test_settings_that_change_hold_for_all_models_and_those_loaded_later(shelf):
    pool = shelf.pool("a", "b")
    use(pool, "a")
    pool.change_settings({"temperature": 0.125})
    pool.change_settings({"max_tokens": 7})
    use(pool, "b")

    for model in pool.models:
        config = model.conversations.config
        assert (config.temperature, config.max_tokens) == (0.125, 7)


def test_the_background_gets_a_window_of_its_own_and_is_no_use_that_keeps_a_model(shelf):
    pool = shelf.pool("a", "b", budget_mb=1)
    use(pool, "a")
    a, b = pool.models
    used_at = a.used_at
    with pool.sibling(a, 128) as small, pool.sibling(a, 100_000) as wide:
        assert small.window_tokens == 128
        assert wide.window_tokens == a.engine.window_tokens
    assert a.used_at == used_at
    assert a.n_leases == 0
    for may_load in (False, True):  # a was just used, and has to leave
        with pytest.raises(UnavailableError, match="b is not loaded, and others use the memory"):
            pool.sibling(b, 128, may_load=may_load)
    a.used_at -= 61
    with pytest.raises(UnavailableError, match="b is not loaded"):
        pool.sibling(b, 128)
    pool.sibling(b, 128, may_load=True).close()

    assert shelf.history == ["+a", "-a", "+b"]


def test_a_model_in_use_does_not_leave_for_the_background_however_long_it_answers(shelf):
    pool = shelf.pool("a", "b", budget_mb=1)
    with lent(pool, "a") as lease:
        lease.model.used_at -= 3600
        with pytest.raises(UnavailableError, match="b is not loaded"):
            pool.sibling(pool.models[1], 128, may_load=True)


def test_the_state_of_a_model_says_what_becomes_of_it(shelf):
    pool = shelf.pool("a", "b", budget_mb=1)
    a, b = pool.models
    states: list[tuple[str, str]] = []
    a.on_unload.append(lambda: states.append((a.state, b.state)))
    use(pool, "a", "b")

    assert states == [("unloading", "loading")]
    assert (a.state, b.state) == ("unloaded", "loaded")


def test_the_background_waits_where_nobody_has_to_leave(shelf):
    pool = shelf.pool("a", "b", budget_mb=2)
    use(pool, "a")

    pool.sibling(pool.models[1], 128, may_load=True).close()

    assert shelf.history == ["+a", "+b"]


def test_a_provider_s_model_never_leaves(shelf):
    far = ServedModel("far", size_bytes=5 * MB, state="loaded")
    pool = ModelPool([far, shelf.model("a"), shelf.model("b")], budget_bytes=MB)
    shelf.made = pool
    use(pool, "far", "a", "b")

    assert [model.name for model in pool.loaded] == ["far", "b"]
    assert not far.reads_pictures
