"""`shepherd model` as its users meet it: processes, a home of their own, a hub on the loopback interface."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pexpect
import pytest

from tests import models, programs
from tests.hub import LoopbackHub

REPO = "acme/Tiny-GGUF"
NAME = f"hf:{REPO}:Q8_0"
FILE = "tiny-q8_0.gguf"
SAID = ["Noted:", " thank", " you", " kindly."]


@pytest.fixture(scope="session")
def model_bytes(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    models.scripted(path, SAID)
    return path.read_bytes()


@pytest.fixture
def hub(model_bytes):
    with LoopbackHub() as served:
        served.add(REPO, FILE, model_bytes)
        yield served


@pytest.fixture
def environment(home, hub) -> dict[str, str]:
    """The home's own, and the hub's address; nothing of the caller's HF_… settings."""
    kept = {key: value for key, value in home.environment.items() if not key.startswith("HF_")}
    return {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home.path / "hf")}


@pytest.fixture
def model(environment):
    """Runs `shepherd model` with arguments; other keywords are environment variables."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "shepherd", "model", *arguments]
        return programs.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            env={**environment, **variables},
            timeout=120,
            check=False,
        )

    return run


def downloaded(model) -> list[dict[str, object]]:
    """What `model list` tells, without the model that comes with the package."""
    return [entry for entry in json.loads(model("list", "--json").stdout) if not entry["built_in"]]


def on_a_terminal(environment: dict[str, str], *arguments: str) -> pexpect.spawn:
    command = ["-m", "shepherd", "model", *arguments]
    return programs.spawn(sys.executable, command, env=environment, encoding="utf-8", timeout=60)


# -- pull ----


def test_pull_prints_the_path_on_stdout_and_what_to_do_next_on_stderr(model, home, model_bytes):
    done = model("pull", NAME)

    path = done.stdout.removesuffix("\n")
    assert done.returncode == 0, done.stderr
    assert path.startswith(f"{home.path}/hf/hub/models--acme--Tiny-GGUF/snapshots/")
    assert Path(path).read_bytes() == model_bytes
    assert f"{NAME} is here" in done.stderr
    assert f"shepherd config set model {NAME}" in done.stderr
    assert "\x1b" not in done.stderr
    assert "%" not in done.stderr


def test_pull_as_json_is_one_object_and_says_nothing_else(model, model_bytes):
    done = model("pull", "--json", NAME)

    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["name"] == NAME
    assert told["size_bytes"] == len(model_bytes)
    assert (told["architecture"], told["complete"], told["default"]) == ("llama", True, False)


def test_a_second_pull_fetches_nothing(model, hub):
    model("pull", NAME)
    hub.requests.clear()

    assert model("pull", NAME).returncode == 0
    assert hub.asked("store") == []


def test_the_token_of_the_environment_opens_a_gated_model(model, hub):
    hub.repos[REPO].gated, hub.repos[REPO].token = True, "hf_right"

    refused, opened = model("pull", NAME), model("pull", NAME, HF_TOKEN="hf_right")

    assert (refused.returncode, opened.returncode) == (1, 0)
    assert f"accept them at {hub.endpoint}/{REPO}" in refused.stderr
    assert "hf_right" not in opened.stdout + opened.stderr


def test_mistakes_are_one_line_and_a_remedy(model):
    done = model("pull", f"hf:{REPO}:Q2_K")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"shepherd: error: hf:{REPO} has no model of quantisation Q2_K",
        f"  there is hf:{REPO}:Q8_0",
    ]


def test_a_name_without_hf_is_a_mistake(model):
    done = model("pull", "acme/Tiny-GGUF")

    assert done.returncode == 2
    assert "did you mean hf:acme/Tiny-GGUF?" in done.stderr


def test_an_unreachable_hub_is_told_at_once(model):
    with LoopbackHub() as gone:
        pass

    done = model("pull", NAME, HF_ENDPOINT=gone.endpoint)

    assert done.returncode == 1
    assert f"{gone.endpoint} cannot be reached" in done.stderr


def test_offline_mode_forbids_the_download_and_says_so(model):
    done = model("pull", NAME, HF_HUB_OFFLINE="1")

    assert done.returncode == 1
    assert "HF_HUB_OFFLINE" in done.stderr


def test_a_wrong_checksum_fails_and_nothing_is_installed(model, hub, model_bytes):
    hub.add(REPO, FILE, model_bytes, sha256="0" * 64)

    done = model("pull", NAME)

    assert done.returncode == 1
    assert "wrong checksum" in done.stderr
    assert downloaded(model) == []


def test_a_hub_that_is_down_for_a_moment_costs_a_warning(model, hub):
    hub.fail("/api/models", status=503)

    done = model("pull", NAME)

    assert done.returncode == 0
    assert "warning: HTTP 503; next attempt in 1 s" in done.stderr


def test_an_interrupt_ends_with_130_and_the_next_pull_goes_on(model, hub, environment, home, model_bytes):
    hub.fail(f"/{REPO}/{FILE}", stall_after=100_000)
    running = programs.Popen(
        [sys.executable, "-m", "shepherd", "model", "pull", NAME],
        stderr=subprocess.PIPE,
        env=environment,
        encoding="utf-8",
    )
    wait_for_partial(home)

    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    received = partial_size(home)
    hub.release()
    hub.requests.clear()
    done = model("pull", NAME)

    assert running.returncode == 130
    assert "the same command continues the download" in errors
    assert done.returncode == 0
    assert [request.range for request in hub.asked("store")] == [f"bytes={received}-"]
    assert Path(done.stdout.removesuffix("\n")).read_bytes() == model_bytes


def partial_size(home) -> int:
    """How much of the unfinished download is there."""
    return max((path.stat().st_size for path in home.path.rglob("*.incomplete")), default=0)


def wait_for_partial(home) -> None:
    """Waits until some of the download has come."""
    deadline = time.monotonic() + 60
    while not partial_size(home):
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.02)


def test_a_hub_that_falls_silent_is_asked_again(model, hub):
    hub.fail(f"/{REPO}/{FILE}", stall_after=100_000)

    done = model("pull", NAME, HF_HUB_DOWNLOAD_TIMEOUT="1")

    assert done.returncode == 0, done.stderr
    assert "next attempt in 1 s" in done.stderr
    assert [request.range for request in hub.asked("store")][1].startswith("bytes=")


def test_a_terminal_sees_a_bar_and_the_bar_goes_away(hub, environment):
    hub.fail(f"/{REPO}/{FILE}", stall_after=100_000)
    terminal = programs.spawn(
        sys.executable,
        ["-m", "shepherd", "model", "pull", NAME],
        env=environment,
        encoding="utf-8",
        timeout=60,
    )

    terminal.expect_exact(FILE)
    terminal.expect("[KM]iB")
    hub.release()
    terminal.expect_exact(f"{NAME} is here")
    terminal.expect(pexpect.EOF)
    terminal.close()

    assert terminal.exitstatus == 0


# -- list, show, rm ----


def test_list_has_a_line_per_model(model):
    model("pull", NAME)

    done = model("list")

    own, fetched = done.stdout.splitlines()
    name, size, quant, architecture, state, where = fetched.split("\t")
    assert (name, quant, architecture, state) == (NAME, "Q8_0", "llama", "")
    assert size.endswith("iB")
    assert where.startswith("~/hf/hub/models--acme--Tiny-GGUF/snapshots/")
    assert own.split("\t")[-2:] == ["default", "built in"]
    assert "2 models" in done.stderr


def test_a_list_of_the_built_in_model_alone_says_how_to_fetch_another(model):
    done = model("list")

    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("shepherd-mini\t")
    assert "shepherd model pull hf:user/repo:quant" in done.stderr


def test_the_configured_model_is_marked(model, home):
    model("pull", NAME)
    home.config.parent.mkdir(parents=True)
    home.config.write_text(json.dumps({"model": f"hf:{REPO}"}))

    assert [entry["default"] for entry in downloaded(model)] == [True]
    assert "\tdefault\t" in model("list").stdout


def test_a_configured_model_that_is_not_here_does_not_disturb_the_list(model, home):
    home.config.parent.mkdir(parents=True)
    home.config.write_text(json.dumps({"model": "hf:malformed"}))

    assert model("list").returncode == 0


def test_show_tells_what_the_header_says(model):
    model("pull", NAME)

    done = model("show", NAME)

    told = dict(line.split(None, 1) for line in done.stdout.splitlines() if not line.startswith("chat"))
    assert done.returncode == 0
    assert (told["name"], told["architecture"], told["licence"]) == (NAME, "llama", "not stated")
    assert told["context"] == "4,096 tokens"
    assert len(told["SHA-256"]) == 64
    assert "chat template  yes" in done.stdout


def test_show_as_json_has_the_same(model, hub):
    model("pull", NAME)

    told = json.loads(model("show", "--json", NAME).stdout)

    assert told["sha256"] == [hub.repos[REPO].files[FILE].sha256]
    assert (told["n_ctx_train"], told["chat_template"], told["licence"]) == (4096, True, "")


def test_show_takes_a_path(model, tmp_path, model_bytes):
    path = tmp_path / "mine.gguf"
    path.write_bytes(model_bytes)

    assert json.loads(model("show", "--json", str(path)).stdout)["name"] == str(path)


def test_show_of_a_file_that_is_no_model_fails(model, tmp_path):
    path = tmp_path / "mine.gguf"
    path.write_text("no model")

    done = model("show", str(path))

    assert done.returncode == 1
    assert str(path) in done.stderr


def test_rm_without_a_terminal_wants_yes(model):
    model("pull", NAME)

    asked, done = model("rm", NAME), model("rm", "--yes", NAME)

    assert (asked.returncode, done.returncode) == (2, 0)
    assert "--yes" in asked.stderr
    assert f"{NAME} is deleted" in done.stderr
    assert downloaded(model) == []


def test_rm_of_the_configured_model_says_so(model):
    model("pull", NAME)

    done = model("rm", "--yes", "--json", NAME, SHEPHERD_MODEL=NAME)

    assert "is the configured model" in done.stderr
    assert json.loads(done.stdout)["default"] is True


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("n", 1, 1), ("", 1, 1)])
def test_rm_asks_on_a_terminal(model, environment, answer, code, left):
    model("pull", NAME)
    terminal = on_a_terminal(environment, "rm", NAME)

    terminal.expect_exact("[y/N]")
    terminal.sendline(answer)
    terminal.expect(pexpect.EOF)
    terminal.close()

    assert terminal.exitstatus == code
    assert len(downloaded(model)) == left


def test_rm_never_deletes_a_file_of_the_users(model, tmp_path, model_bytes):
    path = tmp_path / "mine.gguf"
    path.write_bytes(model_bytes)

    done = model("rm", "--yes", str(path))

    assert done.returncode == 2
    assert "is a file of yours" in done.stderr
    assert path.exists()


def test_an_unknown_name_is_a_mistake(model):
    for action in ("show", "rm"):
        done = model(action, "nothing")
        assert done.returncode == 2
        assert "there is no model 'nothing'" in done.stderr


# -- chat ----


def test_chat_fetches_a_model_once_and_answers(shepherd, hub, environment):
    hugging_face = {key: environment[key] for key in ("HF_ENDPOINT", "HF_HOME")}

    def chat() -> subprocess.CompletedProcess[str]:
        return shepherd("-m", NAME, "-e", "hello", "--temperature", "0", **hugging_face)

    first, second = chat(), chat()

    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout == "".join(SAID) + "\n"
    assert len(hub.asked("store")) == 1


def test_the_name_of_a_downloaded_file_is_stored_as_it_is_unless_such_a_file_is_in_this_folder(
    model, shepherd, environment, home, tmp_path, monkeypatch
):
    cache = {"HF_HOME": environment["HF_HOME"]}
    model("pull", NAME)
    monkeypatch.chdir(tmp_path)
    shepherd("config", "set", "model", FILE, **cache)
    shepherd("config", "set", "server_models", f"{FILE}, missing.gguf, ./{FILE}", **cache)
    shepherd("provider", "add", "mine", "llamacpp", "--model", FILE, **cache)
    shepherd("provider", "set", "local", "model", FILE, **cache)
    stored = json.loads(home.config.read_text())

    assert stored["model"] == FILE
    assert stored["server_models"] == f"{FILE}, {tmp_path}/missing.gguf, {tmp_path}/{FILE}"
    assert [stored["providers"][name]["model"] for name in ("mine", "local")] == [FILE, FILE]
    (tmp_path / FILE).touch()
    assert shepherd("config", "set", "model", FILE, **cache).stderr.startswith(f"model = {tmp_path}/{FILE}\n")


def test_pulling_needs_no_hf_xet(environment):
    code = (
        "import sys; sys.modules['hf_xet'] = None;"
        f"from shepherd.cli.main import main; sys.exit(main(['model', 'pull', {NAME!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)

    assert done.returncode == 0, done.stderr
