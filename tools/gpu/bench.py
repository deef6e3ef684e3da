#!/usr/bin/env python3
"""How fast is Shepherd's engine on this GPU, beside llama_cpp.Llama, with the shapes of real models?

    PYTHONPATH=build/gpu/python python tools/gpu/bench.py 8b 35b-a3b --out bench/results/gpu.json

For each shape: reading a prompt, one more token, and the turn after, of which only what is new is to be read;
and the next turn of each of many conversations after a process was killed, for Shepherd.
With --drafts also what drafts save, beside llama-server's if it was built, with a model of that size that
recites its answers: see bench/drafts.py.
Both sides run the same ids on the same library, each in processes of their own that take turns; both are
greedy and draft nothing. Whether they say the same is told: on a GPU, batches of other sizes round
differently, and random weights make many tokens almost as likely. Printed are medians with the least and the
most; the file has all figures, hardware and versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# In place of this folder, whose bench.py would hide the folder bench.
sys.path[0] = str(HERE.parents[1])

SIDES = ("shepherd", "llama_cpp.Llama")
FIGURES = ("prefill_tokens_per_s", "ttft_ms", "decode_tokens_per_s", "turn_ttft_ms", "turn_decoded_tokens")


def prompt_ids(n: int, shift: int = 0) -> list[int]:
    """Ids of bytes and merges: nothing that ends an answer."""
    return [33 + (7 * i + 13 * shift) % 200 for i in range(n)]


def ours(model: str, options: dict[str, int]) -> dict[str, Any]:
    """One run of Shepherd."""
    from shepherd.inference import Engine, EngineSettings
    from shepherd.types import Sampling

    settings = EngineSettings(n_ctx=options["n_ctx"], n_threads=options["n_threads"], draft="off")
    with Engine(model, settings=settings) as engine:

        def answer(ids: list[int], n: int) -> Any:
            with engine.complete(ids, sampling=Sampling(temperature=0.0), max_tokens=n) as generation:
                for _ in generation:
                    pass
            return generation

        answer(prompt_ids(options["n_prompt"], 1), 4)  # kernels are loaded when first used
        first = answer(prompt_ids(options["n_prompt"]), options["n_answer"])
        history = [*prompt_ids(options["n_prompt"]), *first.token_ids]
        turn = answer([*history, *prompt_ids(options["n_turn"], 2)], 4)
        stats = first.stats
        return {
            "ids": list(first.token_ids),
            "device": engine.info.device,
            "prefill_tokens_per_s": 1000 * stats.decoded_tokens / stats.prefill_ms,
            "ttft_ms": stats.ttft_ms,
            "decode_tokens_per_s": stats.tokens_per_second,
            "turn_ttft_ms": turn.stats.ttft_ms,
            "turn_decoded_tokens": turn.stats.decoded_tokens,
        }


def peers(model: str, options: dict[str, int]) -> dict[str, Any]:
    """One run of llama_cpp.Llama, which keeps the common prefix too where the cache can be cut."""
    from llama_cpp import Llama

    llama = Llama(
        model, n_ctx=options["n_ctx"], n_gpu_layers=-1, n_threads=options["n_threads"],
        n_threads_batch=options["n_threads"], verbose=False,
    )  # fmt: skip

    def answer(ids: list[int], n: int) -> tuple[float, float, list[int]]:
        began = time.perf_counter()
        found: list[int] = []
        for token in llama.generate(ids, temp=0.0, top_k=1, repeat_penalty=1.0):
            if not found:
                first_s = time.perf_counter() - began
            found.append(token)
            if len(found) == n:
                break
        return first_s, time.perf_counter() - began, found

    answer(prompt_ids(options["n_prompt"], 1), 4)
    first_s, total_s, ids = answer(prompt_ids(options["n_prompt"]), options["n_answer"])
    history = [*prompt_ids(options["n_prompt"]), *ids]
    turn_s, _, _ = answer([*history, *prompt_ids(options["n_turn"], 2)], 4)
    return {
        "ids": ids,
        "prefill_tokens_per_s": options["n_prompt"] / first_s,
        "ttft_ms": 1000 * first_s,
        "decode_tokens_per_s": (len(ids) - 1) / (total_s - first_s),
        "turn_ttft_ms": 1000 * turn_s,
        "turn_decoded_tokens": None,
    }


def run(side: str, model: Path, options: dict[str, int]) -> dict[str, Any]:
    """One run of one side in a process of its own."""
    command = [sys.executable, __file__, "--worker", side, str(model), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(shape: str, model: Path, options: dict[str, int], rounds: int) -> dict[str, Any]:
    """All runs of both sides on one model, taking turns."""
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for n in range(rounds):
        for side in SIDES if n % 2 == 0 else reversed(SIDES):
            runs[side].append(run(side, model, options))
    said = [found.pop("ids", None) for side in SIDES for found in runs[side]]
    same = None not in said and len({tuple(ids) for ids in said}) == 1  # a run that failed said nothing
    return {"shape": shape, "bytes": model.stat().st_size, "same_answer": same, "runs": runs, **options}


def restarted(model: Path, n: int, n_threads: int) -> dict[str, Any]:
    """Return what the next turns cost after kill -9 during conversations of 2,000 tokens."""
    from bench.restarts import restart

    with tempfile.TemporaryDirectory() as folder:
        options = {"n": n, "n_tokens": 2000, "n_ctx": 4096, "n_threads": n_threads, "slots": 4}
        return asdict(restart(model, Path(folder), **options))


def drafts(name: str, folder: Path, n_threads: int, rounds: int) -> dict[str, Any]:
    """All talks of bench/drafts.py with a model of this size; the figures by talk and side."""
    from bench import drafts, recited_models
    from bench.engines import LLAMA_SERVER

    size, model = recited_models.SIZES[name], folder / f"recited-{name}.gguf"
    if not model.exists():
        recited_models.write(size, model)
    sides = drafts.makers(
        model, folder, has_llama_server=Path(LLAMA_SERVER).is_file(), n_threads=n_threads, on_gpu=True
    )
    rows = drafts.measure(model, size, sides, rounds)
    drafts.show(name, rows)
    return {talk: {name: row.summary() for name, row in by.items()} for talk, by in rows.items()}


def report(result: dict[str, Any]) -> None:
    """Print a table of one model's figures."""
    print(f"\n{result['shape']}: {result['bytes'] / 1e9:.1f} GB, same answer: {result['same_answer']}")
    for figure in FIGURES:
        cells = []
        for side in SIDES:
            values = [found[figure] for found in result["runs"][side] if found.get(figure) is not None]
            if not values:
                cells.append(f"{side} -")
                continue
            spread = f"({min(values):,.1f} to {max(values):,.1f})"
            cells.append(f"{side} {statistics.median(values):,.1f} {spread}")
        print(f"  {figure:24}" + "   ".join(cells))
    if found := result.get("restart"):
        print(
            f"  after kill -9, {found['n']} conversations of {found['n_tokens']:,} tokens, "
            f"{found['size_mb']:,.0f} MB: {found['n_decoded']:,} tokens read for {found['n_new']:,} new "
            f"ones, first token {found['first_ms']:.1f} ms, warm {found['warm_ms']:.1f} ms"
        )
    for side in SIDES:
        for found in result["runs"][side]:
            if "error" in found:
                print(f"  {side}: {found['error']}")


def machine() -> dict[str, Any]:
    """Hardware and versions."""
    import llama_cpp

    found: dict[str, Any] = {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "llama_cpp_python": llama_cpp.__version__,
        "gpu_offload": bool(llama_cpp.llama_supports_gpu_offload()),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    try:
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        found["gpu"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found["gpu"] = None
    return found


def main() -> None:
    """Parse the command line, make the models, measure, report."""
    if sys.argv[1:2] == ["--worker"]:
        side, model, options = sys.argv[2:5]
        print(json.dumps((ours if side == "shepherd" else peers)(model, json.loads(options))))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shapes", nargs="*", help="of tools/gpu/shapes.py; none: only --drafts")
    parser.add_argument("--models", type=Path, default=Path("build/gpu/models"), help="folder for the models")
    parser.add_argument("--out", type=Path, help="file for the figures, JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 is half of the cores")
    parser.add_argument(
        "--conversations", type=int, default=100, help="conversations to be killed with; 0: none (100)"
    )
    parser.add_argument(
        "--drafts", choices=("0.5b", "tiny"), help="also measure drafts, with a model of this size"
    )
    for name, default in (("prompt", 4096), ("answer", 256), ("turn", 100)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"tokens ({default})")
    given = parser.parse_args()
    options = {
        "n_prompt": given.prompt,
        "n_answer": given.answer,
        "n_turn": given.turn,
        "n_ctx": given.prompt + given.answer + given.turn + 64,
        "n_threads": given.threads or max(1, (os.cpu_count() or 1) // 2),
    }
    results = []
    for shape in given.shapes:
        model = given.models / f"{shape}.gguf"
        if not model.exists():
            given.models.mkdir(parents=True, exist_ok=True)
            subprocess.run([sys.executable, str(HERE / "shapes.py"), shape, str(model)], check=True)
        results.append(compare(shape, model, options, given.rounds))
        if given.conversations:
            results[-1]["restart"] = restarted(model, given.conversations, options["n_threads"])
        report(results[-1])
    found: dict[str, Any] = {"machine": machine(), "results": results}
    if given.drafts:
        found["drafts"] = drafts(given.drafts, given.models, options["n_threads"], given.rounds)
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"\n{given.out}")


if __name__ == "__main__":
    main()
