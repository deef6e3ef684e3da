"""Conversations on disk: another engine continues them, and files that cannot be used cost a warning."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd import kept_files
from shepherd.inference import Engine, EngineSettings, load_check
from shepherd.inference.state_file import StateFileError, read_front, read_states, write_state
from shepherd.types import Message, Sampling, TurnStats
from tests.examples import examples
from tests.inference.engines import KINDS, exact_settings, run_to_end

TALK = [Message("system", "be brief"), Message("user", "what is the name of rex? " * 8)]
ANNA = kept_files.owner_of("memory.db", "anna")
BERT = kept_files.owner_of("memory.db", "bert")
GREEDY = Sampling(temperature=0)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of kept conversations, an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return kept_files.folder()


def open_engine(path: Path, **options: object) -> Engine:
    base = replace(exact_settings(n_ctx=1024), cache_disk_bytes=1 << 30)
    own: EngineSettings = replace(base, **options)  # type: ignore[arg-type]
    load_check.vouch(path)  # else each test, with its own cache, would load it in a child process first
    return Engine(path, settings=own)


def ask(engine: Engine, talk: list[Message], owner: str = ANNA, *, n: int = 6) -> TurnStats:
    """Answer, and add the answer to the talk."""
    answer = engine.generate(talk, sampling=GREEDY, max_tokens=n, owner=owner)
    run_to_end(answer)  # type: ignore[arg-type]
    talk.append(answer.message())
    return answer.stats


def written(engine: Engine) -> int:
    kept = engine.kept()
    assert kept is not None
    return kept.n_written


def wait_written(engine: Engine, n: int) -> None:
    deadline = time.monotonic() + 30
    while written(engine) < n:
        assert time.monotonic() < deadline, f"{written(engine)} of {n} are written"
        time.sleep(0.01)


def held(engine: Engine) -> int:
    return len(engine.decoder.mirror_ids)


def states(root: Path) -> list[Path]:
    return [file.path for file in kept_files.all_files(root)]


@pytest.mark.parametrize("kind", KINDS)
def test_another_engine_reads_new_tokens_only(kind: str, model_file: Callable[[str], Path]) -> None:
    talk = list(TALK)
    with open_engine(model_file(kind)) as engine:
        ask(engine, talk)
        n_held = held(engine)
        talk.append(Message("user", "and yours?"))
        undisturbed = list(talk)
        ask(engine, undisturbed, "")

    kept_files.forget(ANNA)
    talk = list(TALK)
    with open_engine(model_file(kind)) as engine:
        ask(engine, talk)
    talk.append(Message("user", "and yours?"))
    with open_engine(model_file(kind)) as engine:
        stats = ask(engine, talk)

    assert stats.reused_tokens == n_held
    assert talk[-1].raw == undisturbed[-1].raw
    assert stats.warnings == ()


@pytest.mark.parametrize("kind", KINDS)
def test_what_memory_drops_comes_back_from_disk(kind: str, model_file: Callable[[str], Path]) -> None:
    """One slot, and room for about two parked conversations: the others were dropped."""
    talks = [talk_of(i) for i in range(5)]
    with open_engine(model_file(kind)) as engine:
        ask(engine, list(TALK))
        wait_written(engine, 1)
        [file] = kept_files.all_files(kept_files.folder())
    with open_engine(model_file(kind), cache_ram_bytes=5 * file.size_bytes // 2) as engine:
        lengths = []
        for i, talk in enumerate(talks):
            ask(engine, talk)
            lengths.append(held(engine))
            wait_written(engine, i + 1)
        for talk, n_held in zip(talks, lengths, strict=True):
            talk.append(Message("user", "and yours?"))
            assert ask(engine, talk).reused_tokens == n_held


CHILD = """
import sys
import threading
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.inference.test_kept_conversations import ANNA, ask, open_engine, talk_of, written
engine = open_engine(Path(sys.argv[1]), slots=3)
for i in range(20):
    ask(engine, talk_of(i))
while written(engine) < 20:
    pass
print("ready", flush=True)
while True:
    ask(engine, talk_of(20), n=500)
"""


def talk_of(i: int) -> list[Message]:
    return [TALK[0], Message("user", f"number {i} {'is told of ' * (i + 3)}")]


def test_after_a_kill_each_conversation_reads_new_tokens_only(plain_model: Path) -> None:
    folder = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, plain_model, folder], stdout=subprocess.PIPE, text=True, cwd=folder
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()

    with open_engine(plain_model, slots=3) as engine:
        for i in range(20):
            talk = talk_of(i)
            n_before = len(engine._transcript.prompt(talk).token_ids)
            # The answer as it was sampled: greedy, so that the same comes again.
            answer = engine.generate(talk, sampling=GREEDY, max_tokens=6)
            run_to_end(answer)  # type: ignore[arg-type]
            engine.decoder.forget()
            talk += [answer.message(), Message("user", "and yours?")]
            stats = ask(engine, talk)
            assert stats.reused_tokens == n_before + len(answer.token_ids) - 1
        kept = engine.kept()
        assert kept is not None
        assert kept.n_read == 20


def test_one_file_for_a_conversation(plain_model: Path, root: Path) -> None:
    talk = list(TALK)
    with open_engine(plain_model) as engine:
        for i in range(3):
            ask(engine, talk)
            wait_written(engine, i + 1)
            assert len(states(root)) == 1
            talk.append(Message("user", "and then?"))


def test_only_the_account_can_read_them(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))

    [path] = states(root)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, root)} == {0o700}


def test_nobody_gets_the_state_of_another_owner(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
    with open_engine(plain_model) as engine:
        assert ask(engine, list(TALK), BERT).reused_tokens == 0
    with open_engine(plain_model) as engine:
        assert ask(engine, list(TALK), "").reused_tokens == 0
        assert engine.kept().n_read == 0  # type: ignore[union-attr]

    assert {path.parent.name for path in states(root)} == {ANNA, BERT}


def test_nothing_without_an_owner_is_written(plain_model: Path, root: Path) -> None:
    talk = list(TALK)
    with open_engine(plain_model) as engine:
        ask(engine, talk)
        wait_written(engine, 1)
        talk.append(Message("user", "this is private"))
        ask(engine, talk, "")

    with open(states(root)[0], "rb") as file:
        front = read_front(file, states(root)[0].stat().st_size)
    assert len(front.ids) < len(ids_of(plain_model, talk))


def ids_of(path: Path, talk: list[Message]) -> array[int]:
    with open_engine(path, cache_disk_bytes=0) as engine:
        return engine._transcript.prompt(talk).token_ids


def test_what_is_forgotten_is_deleted_and_not_written_again(plain_model: Path, root: Path) -> None:
    talk = list(TALK)
    with open_engine(plain_model, slots=2) as engine:
        ask(engine, talk)
        wait_written(engine, 1)
        ask(engine, talk_of(1))
        kept_files.forget(ANNA)
        assert states(root) == []
    assert states(root) == []  # what was in memory then is not written at the end

    with open_engine(plain_model) as engine:
        assert ask(engine, [*talk, Message("user", "and now?")]).reused_tokens == 0
    assert len(states(root)) == 1


def test_what_is_forgotten_before_it_was_written_is_not_written(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
        kept_files.forget(ANNA)

    assert states(root) == []


def test_a_file_from_before_the_words_stays(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
    [path] = states(root)
    os.utime(path, (1000, 1000))

    kept_files.forget(ANNA, since=2000)
    assert states(root) == [path]
    kept_files.forget(ANNA, since=1000)
    assert states(root) == []


def test_files_of_another_model_or_other_settings_are_passed_over(
    plain_model: Path, endless_model: Path, root: Path
) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
    [path] = states(root)
    for model, options in ((endless_model, {}), (plain_model, {"kv_type": "f16"})):
        with open_engine(model, **options) as engine:
            stats = ask(engine, list(TALK), n=1)
        assert stats.reused_tokens == 0
        assert stats.warnings == ()

    assert path in states(root)


def test_a_damaged_file_costs_a_warning(plain_model: Path, root: Path) -> None:
    talk = list(TALK)
    with open_engine(plain_model) as engine:
        ask(engine, talk)
    [path] = states(root)
    expected = talk[-1].raw
    data = bytearray(path.read_bytes())
    for where in (20, len(data) - 1):  # in the front, and in the states
        kept_files.forget(ANNA)
        damaged = bytearray(data)
        damaged[where] ^= 1
        path.write_bytes(damaged)
        again = list(TALK)
        with open_engine(plain_model) as engine:
            stats = ask(engine, again)
        assert stats.reused_tokens == 0
        assert "damaged" in " ".join(stats.warnings)
        assert again[-1].raw == expected
        assert path not in states(root)


def test_a_damaged_file_is_deleted_before_anybody_asks(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
    [path] = states(root)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)

    with open_engine(plain_model) as engine:
        deadline = time.monotonic() + 30
        while path in states(root):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert engine.kept().n_failed == 1  # type: ignore[union-attr]


def test_a_forged_file_costs_a_warning(plain_model: Path, root: Path) -> None:
    """Its checksums are right, but not what it says: ids that no vocabulary has, and a state that is none."""
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
        wait_written(engine, 1)
        prompt = array("i", engine._transcript.prompt(TALK).token_ids)
    [path] = states(root)
    with open(path, "rb") as file:
        front = read_front(file, path.stat().st_size)
    for ids, state in ((array("i", [*prompt, 1 << 30]), b"x" * 99), (prompt[:-3], os.urandom(9999))):
        kept_files.forget(ANNA)
        with open(path, "wb") as file:
            write_state(file, front.identity, 0, [(ids, memoryview(state), False)])
        os.utime(path)
        talk = list(TALK)
        with open_engine(plain_model) as engine:
            stats = ask(engine, talk)
            assert stats.reused_tokens == 0
            assert stats.finish_reason == "length"


@pytest.mark.hypothesis
def test_damage_anywhere_is_noticed(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
    [path] = states(root)
    whole = path.read_bytes()

    @settings(max_examples=examples(40))
    @given(st.integers(0, len(whole) - 1), st.integers(1, 255), st.booleans())
    def check(where: int, change: int, cut: bool) -> None:
        data = bytearray(whole)
        if cut:
            del data[where:]
        else:
            data[where] ^= change
        path.write_bytes(data)
        with pytest.raises(StateFileError), open(path, "rb") as file:
            read_states(file, read_front(file, len(data)))

    check()


def test_the_ones_used_longest_ago_make_room(plain_model: Path, root: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, talk_of(0))
        wait_written(engine, 1)
        [first] = kept_files.all_files(root)
    with open_engine(plain_model, cache_disk_bytes=7 * first.size_bytes // 2) as engine:
        for i in range(1, 3):
            ask(engine, talk_of(i))
            wait_written(engine, i)
        os.utime(first.path)
        for i in range(3, 6):
            os.utime(first.path)
            ask(engine, talk_of(i))
            wait_written(engine, i)
            assert kept_files.usage(root).size_bytes <= 7 * first.size_bytes // 2
            assert first.path in states(root)


def test_a_folder_that_cannot_be_written_costs_a_warning(plain_model: Path, root: Path) -> None:
    root.parent.mkdir(parents=True)
    root.write_text("a file in its place")
    talk = list(TALK)
    with open_engine(plain_model) as engine:
        ask(engine, talk)
        while engine.kept().n_failed == 0:  # type: ignore[union-attr]
            time.sleep(0.01)
        talk.append(Message("user", "and then?"))
        warnings = ask(engine, talk).warnings

    assert ["could not be kept on disk" in text for text in warnings] == [True]


@pytest.mark.parametrize(
    "options", [{"cache_ram_bytes": 0}, {"cache_disk_bytes": 0}, {"cache_ram_bytes": 999}]
)
def test_nothing_is_kept_without_room(options: dict[str, int], plain_model: Path, root: Path) -> None:
    with open_engine(plain_model, **options) as engine:
        ask(engine, list(TALK))

    assert states(root) == []


def test_a_reader_that_waits_does_not_keep_an_engine_from_closing(plain_model: Path) -> None:
    with open_engine(plain_model) as engine:
        ask(engine, list(TALK))
    engine = open_engine(plain_model)
    answer = engine.generate([*TALK, Message("user", "more")], max_tokens=5, owner=ANNA)

    engine.close()

    for _ in answer:
        pass
    assert answer.stats.finish_reason in ("cancelled", "length")


def test_what_is_read_ahead_comes_from_its_file_and_is_not_written_by_itself(
    plain_model: Path, root: Path
) -> None:
    talk = list(TALK)
    with open_engine(plain_model) as engine:
        ask(engine, talk)
        n_held = held(engine)
    [file] = states(root)
    before = file.read_bytes()
    with open_engine(plain_model) as engine:
        ahead = engine.read_ahead(talk, owner=ANNA)
        assert ahead is not None
        run_to_end(ahead)
        assert ahead.stats.reused_tokens >= n_held - 1
        assert ahead.stats.decoded_tokens > 0
    assert states(root) == [file]
    assert file.read_bytes() == before

    with open_engine(plain_model) as engine:
        ahead = engine.read_ahead(talk, owner=ANNA)
        assert ahead is not None
        run_to_end(ahead)
        talk.append(Message("user", "and of the other one?"))
        assert ask(engine, talk).reused_tokens >= ahead.stats.prompt_tokens
    [file] = states(root)
    assert len(file.read_bytes()) > len(before)  # the turn wrote all of it


# Ctrl-C can come between the opening of a file and its `with`; then Python closes the file, and warns.
@pytest.mark.filterwarnings("ignore:.*FileIO.*:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("delay_s", [0.0001, 0.001, 0.003, 0.01, 0.03])
def test_ctrl_c_while_an_engine_closes_leaves_no_thread_behind(endless_model: Path, delay_s: float) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    others = set(threading.enumerate())
    engine = open_engine(endless_model)
    ask(engine, list(TALK))
    answer = engine.generate(TALK, max_tokens=900, owner=ANNA)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, delay_s)
        engine.close()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGALRM, before)
    if not engine.is_closed:  # the interruption came before it began
        engine.close()
    # `enumerate` leaves out threads whose `join` was interrupted.
    assert engine._thread.wait(0)
    assert not [one.name for one in set(threading.enumerate()) - others if one.name.startswith("shepherd-")]
    assert not answer.is_running
