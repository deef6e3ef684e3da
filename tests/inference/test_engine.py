"""The engine as its users see it: answers, their ids and costs, cancelling, closing, refusing."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from llama_cpp import Llama

from shepherd._native.engine import MOST_SLOTS
from shepherd.errors import ContextOverflowError, InternalError, UsageError
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.binding import llama
from shepherd.types import Message, Sampling
from tests import models
from tests.conftest import SCRIPT
from tests.inference.engines import KINDS, exact_settings, run_to_end

ANSWER = "".join(SCRIPT)
GREEDY = Sampling(temperature=0.0)
HELLO = [Message("user", "hello")]


def open_engine(path: Path, n_ctx: int = 1024) -> Engine:
    return Engine(path, settings=exact_settings(n_ctx=n_ctx))


def test_scripted_model_says_its_script(scripted_model: Path) -> None:
    with open_engine(scripted_model) as engine:
        generation = engine.generate(HELLO, sampling=GREEDY)
        text = run_to_end(generation)

    assert text == generation.text == ANSWER
    assert len(generation.token_ids) == len(SCRIPT)
    assert generation.stats.finish_reason == "stop"
    assert generation.stats.generated_tokens == len(SCRIPT)
    assert generation.stats.prompt_tokens == sum(generation.prompt_tokens_per_message)
    assert generation.stats.window_tokens == 1024
    assert generation.stats.ttft_ms <= generation.stats.total_ms


def test_greedy_answer_is_that_of_llama_cpps_own_python_class(endless_model: Path) -> None:
    prompt = list(range(40, 90))
    peer = Llama(str(endless_model), n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False)
    expected = [
        token
        for token, _ in zip(peer.generate(prompt, temp=0.0, repeat_penalty=1.0), range(200), strict=False)
    ]
    peer.close()

    with Engine(endless_model, settings=EngineSettings(n_ctx=1024, n_threads=1)) as engine:
        generation = engine.complete(prompt, sampling=GREEDY, max_tokens=200)
        run_to_end(generation)

    assert list(generation.token_ids) == expected


@pytest.mark.parametrize("kind", [*KINDS, "spm"])
def test_text_is_what_the_ids_say(kind: str, model_file: Callable[[str], Path]) -> None:
    with open_engine(model_file(kind)) as engine:
        for seed in range(5):
            generation = engine.generate(HELLO, sampling=Sampling(seed=seed, temperature=1.5), max_tokens=60)
            text = run_to_end(generation)

            said = engine.model.vocabulary.detokenize(generation.token_ids)
            assert text == said.decode("utf-8", "replace")


def test_characters_split_over_tokens_and_invalid_bytes_are_streamed_whole(tmp_path: Path) -> None:
    path = tmp_path / "bytes.gguf"
    alphabet = models.byte_alphabet()
    raw = [b"\xf0\x9f", b"\x98", b"\x80", b"\xff", b"ok", b"\xe2\x82"]
    models.scripted(path, ["".join(alphabet[byte] for byte in piece) for piece in raw], as_bytes=True)

    with open_engine(path) as engine:
        generation = engine.generate(HELLO, sampling=GREEDY)
        pieces = list(generation)

    assert "".join(pieces) == "\U0001f600\ufffdok\ufffd"


def test_stop_string_across_token_borders_ends_the_answer_before_it(scripted_model: Path) -> None:
    with open_engine(scripted_model) as engine:
        generation = engine.generate(HELLO, sampling=GREEDY, stop=["d. Caf"])
        text = run_to_end(generation)

        assert text == "Hello, I am a shepher"
        assert generation.stats.finish_reason == "stop"
        assert engine.model.vocabulary.detokenize(generation.token_ids).decode() == text


def test_answer_cut_by_a_stop_string_goes_on_without_reading_it_again(scripted_model: Path) -> None:
    with open_engine(scripted_model) as engine:
        first = engine.generate(HELLO, sampling=GREEDY, stop=[" Caf"])
        run_to_end(first)
        answer = Message("assistant", first.text, token_ids=first.token_ids)
        second = engine.generate([*HELLO, answer, Message("user", "and?")], sampling=GREEDY)
        run_to_end(second)

        assert second.stats.reused_tokens == first.stats.prompt_tokens + len(first.token_ids)


def test_stop_string_that_never_comes_changes_nothing(scripted_model: Path) -> None:
    with open_engine(scripted_model) as engine:
        assert run_to_end(engine.generate(HELLO, sampling=GREEDY, stop=["today?", ""])) == ANSWER


def test_max_tokens_ends_the_answer_by_its_length(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        generation = engine.generate(HELLO, sampling=Sampling(seed=1), max_tokens=17)
        run_to_end(generation)

    assert generation.stats.finish_reason == "length"
    assert generation.stats.generated_tokens == len(generation.token_ids) == 17


def test_end_of_the_window_ends_the_answer_by_its_length(endless_model: Path) -> None:
    with open_engine(endless_model, n_ctx=256) as engine:
        generation = engine.generate(HELLO, sampling=Sampling(seed=1), max_tokens=5000)
        run_to_end(generation)

        assert generation.stats.finish_reason == "length"
        # The last one needs no room: nothing comes after it.
        assert generation.stats.prompt_tokens + generation.stats.generated_tokens == 256 + 1
        assert len(engine.decoder.mirror_ids) == 256


def test_max_tokens_zero_reads_the_prompt_only(plain_model: Path) -> None:
    with open_engine(plain_model) as engine:
        generation = engine.generate(HELLO, max_tokens=0)

        assert run_to_end(generation) == ""
        assert generation.stats.decoded_tokens == generation.stats.prompt_tokens


def test_progress_counts_the_tokens_that_the_cache_lacks(plain_model: Path) -> None:
    with open_engine(plain_model) as engine:
        first = engine.generate(HELLO, sampling=GREEDY, max_tokens=2)
        run_to_end(first)
        longer = [*HELLO, first.message(), Message("user", "and a good day to you")]
        second = engine.generate(longer, sampling=GREEDY, max_tokens=2)
        run_to_end(second)

    assert first.progress == (first.stats.prompt_tokens, first.stats.prompt_tokens)
    assert second.progress == (second.stats.decoded_tokens, second.stats.decoded_tokens)
    assert second.stats.reused_tokens > 0


def test_progress_grows_while_a_long_prompt_is_read(endless_model: Path) -> None:
    with Engine(endless_model, settings=EngineSettings(n_ctx=8192, n_ubatch=64)) as engine:
        answer = engine.generate([Message("user", "word " * 1500)], max_tokens=1)
        seen = [(0, 0)]
        while answer.is_running:
            if answer.progress != seen[-1]:
                seen.append(answer.progress)
        run_to_end(answer)

    assert len(seen) > 10
    assert seen == sorted(seen)
    assert {total for _, total in seen[1:]} == {answer.stats.decoded_tokens}


def test_loading_reports_its_progress(scripted_model: Path) -> None:
    shares: list[float] = []
    with Engine(scripted_model, settings=exact_settings(), progress=shares.append):
        pass

    assert shares
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_same_seed_same_answer_and_another_seed_another(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:

        def answer(seed: int | None) -> str:
            return run_to_end(engine.generate(HELLO, sampling=Sampling(seed=seed), max_tokens=40))

        assert answer(1) == answer(1)
        assert answer(1) != answer(2)
        assert answer(None) != answer(None)


def test_seed_of_the_settings_is_for_answers_without_one(endless_model: Path) -> None:
    settings = EngineSettings(n_ctx=512, n_threads=1, seed=5)
    with Engine(endless_model, settings=settings) as engine:
        answers = [run_to_end(engine.generate(HELLO, max_tokens=40)) for _ in range(2)]
        given = run_to_end(engine.generate(HELLO, sampling=Sampling(seed=5), max_tokens=40))

    assert answers == [given, given]


def test_sampler_is_built_once_for_the_same_settings(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        for _ in range(3):
            run_to_end(engine.generate(HELLO, sampling=Sampling(seed=3), max_tokens=2))
        assert engine._samplers.built == 1

        run_to_end(engine.generate(HELLO, sampling=GREEDY, max_tokens=2))
        assert engine._samplers.built == 2


def test_repeat_penalty_sees_the_tail_of_the_prompt(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        prompt = list(range(40, 80))
        first = engine.complete(prompt, sampling=GREEDY, max_tokens=1)
        run_to_end(first)
        favourite = first.token_ids[0]

        strict = Sampling(temperature=0.0, repeat_penalty=100.0, repeat_last_n=4)
        seen = engine.complete(
            [favourite, *prompt[:-4], favourite, *prompt[-3:]], sampling=strict, max_tokens=1
        )
        run_to_end(seen)
        far = engine.complete([favourite, *prompt], sampling=strict, max_tokens=1)
        run_to_end(far)

    assert seen.token_ids != (favourite,)
    assert len(far.token_ids) == 1


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=-1),
        Sampling(temperature=float("nan")),
        Sampling(top_k=-1),
        Sampling(top_p=0),
        Sampling(min_p=2),
        Sampling(repeat_penalty=0),
        Sampling(repeat_last_n=-1),
        Sampling(seed=-1),
        Sampling(seed=1 << 32),
    ],
)
def test_sampling_out_of_range_is_refused(plain_model: Path, sampling: Sampling) -> None:
    with open_engine(plain_model) as engine:
        with pytest.raises(UsageError) as caught:
            engine.generate(HELLO, sampling=sampling)
        assert "use a number" in caught.value.hint

        assert run_to_end(engine.generate(HELLO, max_tokens=1)) is not None


def test_cancel_from_another_thread_ends_the_answer_within_a_token(endless_model: Path) -> None:
    with open_engine(endless_model, n_ctx=4096) as engine:
        generation = engine.generate(HELLO, sampling=Sampling(seed=1), max_tokens=4000)
        next(generation)
        threading.Thread(target=generation.cancel).start()
        text = "".join(generation)

        assert generation.stats.finish_reason == "cancelled"
        assert 0 < generation.stats.generated_tokens < 4000
        assert generation.text.endswith(text)
        # What was said stays, and the next turn goes on from it.
        answer = Message("assistant", generation.text, token_ids=generation.token_ids)
        more = engine.generate([*HELLO, answer, Message("user", "go on")], max_tokens=3)
        run_to_end(more)
        assert (
            more.stats.reused_tokens >= generation.stats.prompt_tokens + generation.stats.generated_tokens - 1
        )


def test_cancel_reaches_into_a_micro_batch(plain_model: Path) -> None:
    """On the CPU, llama.cpp gives up inside llama_decode; what was in it is then not in the cache."""
    settings = EngineSettings(n_ctx=4096, n_threads=1, n_ubatch=4096, n_batch=4096)
    with Engine(plain_model, settings=settings) as engine:
        generation = engine.complete([5] * 4000, max_tokens=4)
        generation.cancel()
        generation.close()

        assert generation.stats.finish_reason == "cancelled"
        assert generation.stats.decoded_tokens in (0, 4000)
        assert engine.decoder.position_max + 1 == len(engine.decoder.mirror_ids)


def test_answer_wakes_an_event_loop(scripted_model: Path) -> None:
    async def listen(engine: Engine) -> str:
        loop, pieces = asyncio.get_running_loop(), []
        theirs, ours = os.pipe()
        os.set_blocking(theirs, False)
        os.set_blocking(ours, False)
        ready = asyncio.Event()
        loop.add_reader(theirs, lambda: (os.read(theirs, 512), ready.set()))
        generation = engine.generate(HELLO, sampling=GREEDY)
        assert generation.notify(ours)
        while True:
            await asyncio.wait_for(ready.wait(), 30)
            ready.clear()
            while found := generation.poll():
                pieces += found
            if found is None:
                break
        loop.remove_reader(theirs)
        os.close(theirs)
        os.close(ours)
        assert generation.stats.finish_reason == "stop"
        return "".join(pieces)

    with open_engine(scripted_model) as engine:
        assert asyncio.run(listen(engine)) == ANSWER


def test_closed_answer_gives_no_piece_that_nobody_had_read(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        generation = engine.generate(HELLO, sampling=GREEDY, max_tokens=30)
        first = next(iter(generation))

        generation.close()

        assert list(generation) == []
        assert generation.poll() is None
        assert generation.text.startswith(first)
        assert generation.text != first or generation.stats.generated_tokens <= 1


def test_second_answer_waits_for_the_first(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        first = engine.generate(HELLO, sampling=GREEDY, max_tokens=300)
        second = engine.generate(HELLO, sampling=GREEDY, max_tokens=2)

        said = run_to_end(second)
        # Its turn came when the first had ended, which nobody had to read for that.
        assert not first.is_running
        assert run_to_end(first).startswith(said)
        assert first.stats.generated_tokens == 300


def test_dropped_answer_is_cancelled_and_the_engine_free_again(endless_model: Path) -> None:
    with open_engine(endless_model) as engine:
        engine.generate(HELLO, max_tokens=900)
        gc.collect()

        generation = engine.generate(HELLO, max_tokens=2)

        assert run_to_end(generation)


def test_closing_while_generating_ends_the_answer(endless_model: Path) -> None:
    engine = open_engine(endless_model, n_ctx=4096)
    generation = engine.generate(HELLO, max_tokens=4000)
    next(generation)

    engine.close()
    engine.close()

    for _ in generation:
        pass
    assert generation.stats.finish_reason == "cancelled"
    assert engine.is_closed
    for use in (
        lambda: engine.generate(HELLO),
        lambda: engine.complete([1]),
        lambda: engine.count_tokens("a"),
        lambda: engine.tokenize("a"),
        lambda: engine.count_prompt_tokens(HELLO),
    ):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_answer_cut_by_a_stop_string_outlives_its_engine(scripted_model: Path) -> None:
    engine = open_engine(scripted_model)
    generation = engine.generate(HELLO, sampling=GREEDY, stop=["d. Caf"])
    while generation.is_running:
        pass
    engine.close()

    assert run_to_end(generation) == "Hello, I am a shepher"
    # The last token's half cannot be tokenised any more, and half the ids would say something else.
    assert generation.token_ids == ()


def test_vocabulary_of_a_closed_engine_is_refused(plain_model: Path) -> None:
    engine = open_engine(plain_model)
    vocabulary = engine.model.vocabulary
    engine.close()

    for use in (
        lambda: vocabulary.tokenize("a"),
        lambda: vocabulary.detokenize([1]),
        lambda: vocabulary.piece(1),
        lambda: vocabulary.is_end(1),
    ):
        with pytest.raises(UsageError, match="closed"):
            use()
    assert vocabulary.address == 0


def test_forgotten_engine_frees_its_thread(plain_model: Path) -> None:
    before = set(threading.enumerate())
    engine = open_engine(plain_model)
    assert len(set(threading.enumerate()) - before) == 1

    del engine
    gc.collect()

    # Threads of earlier tests may end meanwhile.
    assert set(threading.enumerate()) <= before


def test_results_before_the_end_are_refused(endless_model: Path) -> None:
    with open_engine(endless_model) as engine, engine.generate(HELLO, max_tokens=900) as generation:
        for read in (lambda: generation.text, lambda: generation.token_ids, lambda: generation.stats):
            with pytest.raises(RuntimeError, match="not ended"):
                read()


def test_engines_answer_side_by_side_in_threads(scripted_model: Path, endless_model: Path) -> None:
    answers: list[str] = []

    def ask(path: Path) -> None:
        with open_engine(path) as engine:
            for _ in range(5):
                answers.append(run_to_end(engine.generate(HELLO, sampling=GREEDY, max_tokens=50)))

    threads = [threading.Thread(target=ask, args=(path,)) for path in [scripted_model, endless_model] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers.count(ANSWER) == 10
    assert len(set(answers)) == 2


def test_prompt_beyond_the_window_is_refused_with_its_numbers_before_anything_is_decoded(
    plain_model: Path,
) -> None:
    with open_engine(plain_model, n_ctx=256) as engine:
        with pytest.raises(ContextOverflowError) as caught:
            engine.generate([Message("user", "x " * 300)])

        needed = engine.count_prompt_tokens([Message("user", "x " * 300)])
        assert caught.value.prompt_tokens == needed > 256
        assert caught.value.window_tokens == 256
        assert str(needed) in str(caught.value)
        assert "n_ctx" in caught.value.hint
        assert "start a new conversation" in caught.value.hint
        assert "/clear" not in caught.value.hint
        assert engine.decoder.mirror_ids == []


def test_ten_megabytes_are_refused_without_being_tokenised(plain_model: Path) -> None:
    with open_engine(plain_model, n_ctx=256) as engine:
        with pytest.raises(ContextOverflowError, match="at least") as caught:
            engine.generate([Message("user", "a quick brown fox. " * 550_000)])

        assert caught.value.prompt_tokens > 256


def test_prompt_that_fills_the_window_but_for_one_token_is_answered(plain_model: Path) -> None:
    with open_engine(plain_model, n_ctx=256) as engine:
        assert run_to_end(engine.complete([5] * 255, max_tokens=9)) is not None
        with pytest.raises(ContextOverflowError):
            engine.complete([5] * 256, max_tokens=9)


def test_bad_arguments_are_refused(plain_model: Path) -> None:
    with open_engine(plain_model) as engine:
        with pytest.raises(UsageError, match="max_tokens is -1"):
            engine.generate(HELLO, max_tokens=-1)
        with pytest.raises(UsageError, match="no token ids"):
            engine.complete([])
        with pytest.raises(UsageError, match="vocabulary"):
            engine.complete([10**6])


@pytest.mark.parametrize(
    "options",
    [
        {"kv_type": "q9"},
        {"flash_attention": "maybe"},
        {"kv_type": "q8_0", "flash_attention": "off"},
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        EngineSettings(**options)  # type: ignore[arg-type]
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("n_ctx", 0, 1 << 24),
        ("n_gpu_layers", -1, 1 << 16),
        ("n_threads", 0, 512),
        ("n_batch", 1, 1 << 16),
        ("n_ubatch", 1, 1 << 16),
        ("slots", 1, MOST_SLOTS),
        ("windows", 1, MOST_SLOTS),
        ("cache_ram_bytes", 0, 1 << 50),
    ],
)
def test_settings_are_allowed_up_to_the_ends_of_their_ranges(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(EngineSettings(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        with pytest.raises(UsageError, match=f"^{name} is {value}$") as caught:
            EngineSettings(**{name: value})
        assert caught.value.hint == f"use a number from {least} to {most}"


@pytest.mark.parametrize(
    "options",
    [{"kv_type": "q8_0"}, {"flash_attention": "on"}, {"n_ubatch": 7}, {"n_threads": 2}, {"n_gpu_layers": 3}],
)
def test_settings_of_every_sort_answer(scripted_model: Path, options: dict[str, object]) -> None:
    with Engine(scripted_model, settings=EngineSettings(n_ctx=512, **options)) as engine:  # type: ignore[arg-type]
        assert run_to_end(engine.generate(HELLO, sampling=GREEDY)) == ANSWER


def test_model_is_described(model_file: Callable[[str], Path]) -> None:
    for name, kind in [
        ("plain", "plain"),
        ("sliding", "sliding"),
        ("recurrent", "recurrent"),
        ("hybrid", "hybrid"),
    ]:
        with open_engine(model_file(name)) as engine:
            info = engine.info
            assert info.cache_kind == kind
            assert info.name == f"tiny-{name}"
            assert info.n_vocab == 401
            assert info.n_ctx_train == 4096
            assert info.n_params > 50_000
            assert info.device


def test_window_is_the_models_own_up_to_the_default(tmp_path: Path, plain_model: Path) -> None:
    long = tmp_path / "long.gguf"
    models.llama(long, n_ctx=65536)

    with Engine(plain_model) as engine:
        assert engine.window_tokens == 4096
    with Engine(long) as engine:
        assert engine.window_tokens == 8192
    with Engine(long, settings=EngineSettings(n_ctx=300)) as engine:
        assert engine.window_tokens == 300


def test_context_that_does_not_fit_memory_is_refused_with_what_to_change(plain_model: Path) -> None:
    """In a process of its own that may have 4 GiB of addresses; the cache alone would need 8."""
    script = (
        "import resource, sys\n"
        "from shepherd.errors import ModelLoadError\n"
        "from shepherd.inference import Engine, EngineSettings\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "try:\n"
        "    Engine(sys.argv[1], settings=EngineSettings(n_ctx=1 << 24, kv_type='f32', n_threads=1))\n"
        "except ModelLoadError as error:\n"
        "    print(error, '|', error.hint)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(plain_model)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert "no context of 16777216 tokens" in done.stdout
    assert "smaller n_ctx" in done.stdout
    assert done.stderr == ""


def test_model_without_template_and_its_tokens_is_given_a_plain_dialogue(tmp_path: Path) -> None:
    path = tmp_path / "bare.gguf"
    models.llama(path, template=None)

    with open_engine(path) as engine:
        # Its vocabulary has ChatML's tokens.
        assert "<|im_start|>" in engine.template.source


def test_log_of_llama_cpp_goes_to_python_logging(
    plain_model: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, logger="shepherd.llama"), open_engine(plain_model):
        pass

    assert any("llama_model_loader" in record.getMessage() for record in caplog.records)
    assert capfd.readouterr().err == ""


def test_failed_decoding_is_an_error_after_the_text_before_it(plain_model: Path) -> None:
    with open_engine(plain_model) as engine:
        run_to_end(engine.complete([1, 2, 3, 4], max_tokens=3))
        c = llama()
        memory = c.llama_get_memory(engine.model.context_address)
        c.llama_memory_seq_rm(memory, 0, engine.decoder.position_max, -1)

        with pytest.raises(InternalError, match="code -1"):
            list(engine.complete([*engine.decoder.mirror_ids, 9, 9], max_tokens=3))

        # The cache was brought in line, and the next answer is as good as any.
        assert run_to_end(engine.complete([1, 2, 3, 4], max_tokens=3)) is not None


FORKED = """
import os, sys
from shepherd.errors import UsageError
from shepherd.inference import Engine

engine = Engine(sys.argv[1])
if os.fork() == 0:
    try:
        engine.count_tokens("a")
        engine.generate([])
    except UsageError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
engine.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_told_that_nobody_would_answer(plain_model: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(plain_model)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "forked after the engine was made" in said
