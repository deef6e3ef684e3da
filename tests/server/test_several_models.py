"""One server, several models: chosen by the request, loaded on demand, within a budget of memory."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from shepherd.config import Config
from shepherd.errors import ModelLoadError
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.errors import Denied
from shepherd.server.models import Models
from shepherd.server.offers import windows_in
from shepherd.server.pool import ModelPool
from shepherd.server.served_model import ServedModel
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests import models, programs
from tests.conftest import LEARNER_SCRIPT
from tests.server.processes import ServerProcess, inherited
from tests.server.running import Running

HELLO = [{"role": "user", "content": "Hello"}]
MB = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    made = {name: folder / f"{name}.gguf" for name in ("alpha", "beta", "endless", "learner")}
    models.scripted(made["alpha"], ("Alpha", " speaks."))
    models.scripted(made["beta"], ("Beta", " answers."))
    models.llama(made["endless"], ascii_only=True)
    models.scripted(made["learner"], LEARNER_SCRIPT)
    return made


def said_by(client: httpx.Client, model: str, **fields: object) -> str:
    answer = client.post("/v1/chat/completions", json={"model": model, "messages": HELLO, **fields})
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


# ---- a server process, with room for one of two


@pytest.fixture(scope="module")
def tight(serve, files) -> ServerProcess:
    """Room for one model with one window: 37 MB by the estimate."""
    return serve(
        "-m", files["alpha"], "--models", f"{files['beta']}, {files['alpha']}",
        SHEPHERD_SERVER_MODELS_MB="64",
        SHEPHERD_SERVER_MODEL_ALIASES="gpt-4o=default, small = beta",
        SHEPHERD_MEMORY_EXTRACTION="false",
    )  # fmt: skip


def resident_mb(server: ServerProcess) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory")
def test_two_models_take_turns_in_a_budget_for_one_and_memory_stays_flat(tight):
    asked = {
        "/v1/chat/completions": {"messages": HELLO, "memory": False},
        "/v1/messages": {"messages": HELLO, "max_tokens": 9, "user": "anna"},
        "/v1/responses": {"input": "Hello"},
        "/api/chat": {"messages": HELLO, "stream": False},
        "/v1/completions": {"prompt": "\n", "max_tokens": 4},
        "/completion": {"prompt": "\n", "n_predict": 4},
        "/api/generate": {"prompt": "Hello", "stream": False},
    }
    used = []
    with tight.http() as client:
        for i in range(200):
            path = list(asked)[i // 2 % len(asked)]
            name, word = (("alpha", "Alpha speaks."), ("beta", "Beta answers."))[i % 2]
            answer = client.post(path, json={"model": name, **asked[path]})
            assert answer.status_code == 200, answer.text
            assert word in answer.text, (path, answer.text)
            if i >= 60:
                used.append(resident_mb(tight))
        states = {one["id"]: one["state"] for one in client.get("/v1/models").json()["data"]}
        loaded = [one["model"] for one in client.get("/api/ps").json()["models"]]

    assert states == {"alpha": "unloaded", "beta": "loaded"}
    assert loaded == ["beta:latest"]
    assert tight.log.count("loaded beta") >= 100
    assert max(used[-20:]) - max(used[:20]) < 6, used


def test_a_request_names_a_model_by_its_name_an_alias_or_none(tight):
    with tight.http() as client:
        said = [said_by(client, name) for name in ("alpha", "gpt-4o", "default", "beta", "small")]
        tokens = client.post("/tokenize", json={"content": "Beta", "model": "beta"}).json()["tokens"]
        default = client.post("/tokenize", json={"content": "Beta"}).json()["tokens"]
        shown = client.post("/api/show", json={"model": "small:latest"}).json()
        counted = client.post("/v1/messages/count_tokens", json={"model": "beta", "messages": HELLO})

    assert said == ["Alpha speaks."] * 3 + ["Beta answers."] * 2
    assert len(tokens) == 1 < len(default)
    assert shown["model_info"]["general.basename"] == "beta"
    assert counted.json()["input_tokens"] > 1


@pytest.mark.parametrize("wanted", ["gamma", "/etc/passwd", "../beta", "beta.gguf", "hf:a/beta", "", "path"])
def test_only_models_that_the_operator_has_named_can_be_named(wanted, tight, files):
    name = str(files["beta"]) if wanted == "path" else wanted
    with tight.http() as client:
        chat = client.post("/v1/chat/completions", json={"model": name, "messages": HELLO})
        shown = client.post("/api/show", json={"model": name})

    if wanted == "":  # no model is the default one
        assert (chat.status_code, shown.status_code) == (200, 200)
    else:
        assert (chat.status_code, chat.json()["error"]["code"]) == (404, "model_not_found")
        assert "alpha, beta" in chat.json()["error"]["message"]
        assert shown.status_code == 404


def test_many_clients_of_both_models_are_all_answered(tight):
    def ask(i: int) -> str:
        with tight.http() as client:
            return said_by(client, ("alpha", "beta")[i % 2])

    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(ask, range(40)))

    assert said == ["Alpha speaks.", "Beta answers."] * 20


def test_the_next_turn_reads_only_what_is_new_while_its_model_stays(tight):
    messages = [*HELLO, {"role": "assistant", "content": "Beta answers."}, {"role": "user", "content": "So?"}]
    with tight.http() as client:
        first = client.post("/v1/chat/completions", json={"model": "beta", "messages": HELLO, "user": "eva"})
        then = client.post(
            "/v1/chat/completions", json={"model": "beta", "messages": messages, "user": "eva"}
        )

    usage = [one.json()["usage"] for one in (first, then)]
    seen = usage[0]["prompt_tokens"] + usage[0]["completion_tokens"]
    assert usage[1]["prompt_tokens_details"]["cached_tokens"] >= seen


def test_settings_that_change_hold_for_a_model_that_is_loaded_later(tight):
    with tight.http() as client:
        said_by(client, "alpha")
        client.patch("/v1/settings", json={"max_tokens": 1})
        try:
            said = [said_by(client, name) for name in ("alpha", "beta")]
        finally:
            client.patch("/v1/settings", json={"max_tokens": 1024})

    assert said == ["Alpha", "Beta"]


def test_what_was_said_is_learned_though_the_model_has_to_leave(serve, files):
    server = serve(
        "-m", files["learner"], "--models", files["beta"], "--user", "anna",
        SHEPHERD_SERVER_MODELS_MB="100",
        SHEPHERD_MEMORY_EXTRACTION="true",
        SHEPHERD_MEMORY_EXTRACTION_RETRY_INTERVAL="0.1",
        SHEPHERD_HISTORY_SUMMARY="false",
        SHEPHERD_SERVER_WINDOWS="1",
    )  # fmt: skip
    said = {"messages": [{"role": "user", "content": "My name is Steve. I use Helix as my editor."}]}
    learned: list[str] = []
    with server.http() as client:
        client.post("/v1/chat/completions", json={"model": "default", **said})
        until = time.monotonic() + 30
        while "Helix" not in "".join(learned) and time.monotonic() < until:
            for name in ("beta", "default"):
                said_by(client, name, memory=False)
            time.sleep(0.05)
            learned = [one["answer"] for one in client.get("/v1/memory").json()["data"]]
        answer = said_by(client, "beta", memory=False)

    assert "Helix" in "".join(learned)
    assert answer == "Beta answers."
    assert "Traceback" not in server.log


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"SERVER_MODELS": "nothing.gguf"}, "server_models: nothing.gguf: there is no such file"),
        ({"SERVER_MODELS": "nothing"}, "server_models: there is no model 'nothing'"),
        ({"SERVER_MODELS_MB": "1"}, "server_models_mb: 1 MiB are too few: shepherd-mini needs about"),
        ({"SERVER_MODEL_ALIASES": "gpt-4o"}, "server_model_aliases: 'gpt-4o' is not a pair of names"),
        ({"SERVER_MODEL_ALIASES": "a=b"}, "server_model_aliases: a stands for b, which is not served"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_be_followed_end_the_start_with_a_reason(settings, said, tmp_path):
    variables = {f"SHEPHERD_{name}": value for name, value in settings.items()}
    done = programs.run(
        [sys.executable, "-m", "shepherd", "serve", "--port", "0"],
        env={**inherited(), "HOME": str(tmp_path), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# ---- the pool itself, with engines of this process


class Gate:
    """Loads a model when it is opened, and says when somebody waits for that."""

    def __init__(self, path: Path) -> None:
        self.waiting, self.may_load = threading.Event(), threading.Event()
        self._path = path

    def __call__(self) -> Engine:
        self.waiting.set()
        assert self.may_load.wait(30)
        return Engine(self._path, settings=EngineSettings(n_threads=1, slots=2, windows=2))


class Pool:
    """A pool of models with a megabyte each, in a server without memory."""

    def __init__(self, files: dict[str, Path], opening: dict[str, Callable[[], Engine]], budget: int) -> None:
        self.config = Config(temperature=0.0)
        self.models = {
            name: ServedModel(
                name,
                files[name],
                size_bytes=MB,
                open=opening.get(name) or self._opener(files[name]),
                converse=lambda engine, name=name: self._converse(name, engine),
            )
            for name in ("alpha", "beta", "endless")
        }
        self.pool = ModelPool(list(self.models.values()), budget_bytes=budget * MB, takes_any=False)
        self.pool.load_now(self.pool.default)
        state = ServerState(self.config, None, False, self.pool.default.converse_now(), pool=self.pool)
        self.running = Running(create_app(state))

    def _opener(self, path: Path) -> Callable[[], Engine]:
        return lambda: Engine(path, settings=EngineSettings(n_threads=1, slots=2, windows=2))

    def _converse(self, name: str, engine: Engine | None) -> Conversations:
        served = Models(ProviderSettings("local", "llamacpp"), name=name, engine=engine)
        return Conversations(served, memory=None, config=self.config)

    def loaded(self) -> list[str]:
        return [model.name for model in self.pool.loaded]


@pytest.fixture
def pool_of(files) -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(*, budget: int, **opening: Callable[[], Engine]) -> Pool:
        made.append(Pool(files, opening, budget))
        made[-1].running.__enter__()
        return made[-1]

    yield make
    for pool in made:
        pool.running.__exit__(None, None, None)
        pool.pool.close()
        assert [model.n_leases for model in pool.models.values()] == [0, 0, 0]


def test_answers_of_other_models_go_on_while_one_is_loaded(pool_of, files):
    gate = Gate(files["beta"])
    pool = pool_of(budget=2, beta=gate)
    with pool.running.client() as client, ThreadPoolExecutor(12) as threads:
        waiting = [threads.submit(said_by, client, "beta") for _ in range(12)]  # more than there are threads
        assert gate.waiting.wait(30)
        meanwhile = [said_by(client, "alpha") for _ in range(3)]
        state = client.get("/v1/models/beta").json()["state"]
        gate.may_load.set()
        then = {answer.result() for answer in waiting}

    assert meanwhile == ["Alpha speaks."] * 3
    assert state == "loading"
    assert then == {"Beta answers."}


def test_the_model_that_was_used_longest_ago_leaves(pool_of):
    pool = pool_of(budget=2)
    with pool.running.client() as client:
        for name in ("alpha", "beta", "alpha"):
            said_by(client, name)
        said_by(client, "endless", max_tokens=3)

    assert pool.loaded() == ["alpha", "endless"]


def test_a_model_in_use_leaves_after_its_answer_and_others_take_turns(pool_of):
    pool = pool_of(budget=1)
    order: list[str] = []

    def ask(client: httpx.Client, name: str) -> None:
        said_by(client, name)
        order.append(name)

    with pool.running.client() as client, ThreadPoolExecutor(4) as threads:
        body = {"model": "endless", "messages": HELLO, "stream": True, "max_tokens": 3000}
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()
            next(lines)
            first = threads.submit(ask, client, "beta")
            wait_for(lambda: pool.models["endless"] in pool.pool._leaving)
            second = threads.submit(said_by, client, "endless", max_tokens=2)  # waits behind the other
            wait_for(lambda: len(pool.pool._wishes) == 2)
            assert (pool.loaded(), order) == (["endless"], [])
            said = sum('"content"' in line for line in lines)
        first.result()
        second.result()

    assert said > 10
    assert pool.loaded() == ["endless"]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_a_client_that_leaves_while_a_model_is_loaded_leaves_nothing_behind(pool_of, files):
    gate = Gate(files["beta"])
    pool = pool_of(budget=2, beta=gate)
    body = json.dumps({"model": "beta", "messages": HELLO}).encode()

    async def ask_and_leave() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", pool.running.port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await asyncio.to_thread(gate.waiting.wait, 30)
        writer.close()

    asyncio.run(ask_and_leave())
    wait_for(lambda: not pool.pool._wishes)
    gate.may_load.set()
    with pool.running.client() as client:
        assert said_by(client, "beta") == "Beta answers."


def test_a_model_that_cannot_be_loaded_fails_its_own_requests(pool_of):
    tries = []

    def fail() -> Engine:
        tries.append(1)
        raise ModelLoadError("no memory for it", hint="close other programs")

    pool = pool_of(budget=1, beta=fail)
    with pool.running.client() as client:
        failed = [
            client.post("/v1/chat/completions", json={"model": "beta", "messages": HELLO}) for _ in range(3)
        ]
        other = said_by(client, "alpha")

    assert [answer.status_code for answer in failed] == [500] * 3
    assert "no memory for it (close other programs)" in failed[0].json()["error"]["message"]
    assert other == "Alpha speaks."
    assert len(tries) == 1  # and not again at once


def test_a_model_larger_than_the_budget_is_refused(pool_of):
    pool = pool_of(budget=1)
    pool.models["beta"].size_bytes = 3 * MB
    with pool.running.client() as client:
        refused = client.post("/v1/chat/completions", json={"model": "beta", "messages": HELLO})

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_too_large")
    assert "needs 3 MiB" in refused.json()["error"]["message"]
    assert pool.loaded() == ["alpha"]


def test_work_in_the_background_makes_no_model_leave_that_was_just_used(pool_of):
    pool = pool_of(budget=1)
    alpha, beta = pool.models["alpha"], pool.models["beta"]
    with pool.running.client() as client:
        said_by(client, "beta")
        with pytest.raises(Exception, match="alpha is not loaded"):
            pool.pool.sibling(alpha, 512, may_load=True)
        beta.used_at -= 3600
        with pytest.raises(Exception, match="alpha is not loaded"):
            pool.pool.sibling(alpha, 512)
        with pool.pool.sibling(alpha, 512, may_load=True) as engine:
            window = engine.window_tokens
            assert pool.loaded() == ["alpha"]

    assert window == 512


def test_a_closed_pool_refuses_those_who_wait(pool_of, files):
    gate = Gate(files["beta"])
    pool = pool_of(budget=2, beta=gate)
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(pool.pool.lease_on_thread, "beta")
        assert gate.waiting.wait(30)
        later = threads.submit(pool.pool.lease_on_thread, "endless")
        wait_for(lambda: len(pool.pool._wishes) == 2)
        closing = threading.Thread(target=pool.pool.close)
        closing.start()
        with pytest.raises(Denied, match="shutting down"):
            later.result()
        gate.may_load.set()
        closing.join()
        with pytest.raises(Denied, match="shutting down"):
            waiting.result()

    assert pool.loaded() == []


def test_windows_are_as_many_as_fit(files):
    settings = EngineSettings(slots=4, windows=4)
    everything = windows_in(0, files["alpha"], settings)
    assert everything[0] == 4
    assert windows_in(everything[1], files["alpha"], settings) == everything
    assert windows_in(everything[1] - 1, files["alpha"], settings)[0] == 3
    assert windows_in(1, files["alpha"], settings)[0] == 1


def test_memory_is_the_same_with_each_model(serve, files, tmp_path):
    with Memory(tmp_path / "unused.db"):
        pass
    server = serve("-m", files["alpha"], "--models", files["beta"], SHEPHERD_MEMORY_EXTRACTION="false")
    with server.http() as client:
        said_by(client, "alpha", user="anna", session="talk")
        said_by(client, "beta", user="anna", session="talk")
        said_by(client, "beta", user="ben")
        stored = {
            user: client.get("/v1/conversations", params={"user": user}).json()["data"]
            for user in ("anna", "ben")
        }

    assert [one["n_messages"] for one in stored["anna"]] == [4]
    assert [one["n_messages"] for one in stored["ben"]] == [2]
