"""Train the network: `python train.py --out run --minutes 80`; stop it at any time, `--resume` goes on.

Conversations are generated while it trains, by a second process, so none is seen twice. The learning rate
warms up, stays, and falls over the last part of the budget (tokens or minutes, whichever ends first).
Minutes are processor time of the loop, on idle cores that of the clock; helpers use as much beside it.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from circuit import set_copying_circuit
from grow import widened
from helper import GradientOf, Helper
from model import Shape, Transformer, compile_parts
from tokenizer import Tokenizer, learn
from torch import Tensor
from tqdm import tqdm

__all__ = ["main"]

LONGEST = 2048  # tokens, the window of rendering.py; longer conversations are dropped
CHUNK = 1500  # conversations generated and sorted by length together
EASY = 0.4  # up to this level
EASY_JOBS = {"repeat": 12, "history": 8, "extract": 14}
MILLION = 1_000_000
# Conversations are short and simple until the loss says that copying has emerged; then they grow.
FIRST_LEVEL, LEVEL_STEP, GOOD_LOSS = 0.15, 0.05, 0.2
COPIES = 0.2  # share of plain copies at the first level


def padded(length: int) -> int:
    """Lengths in steps, so that few shapes occur."""
    return -(-length // 16) * 16


Row = tuple[np.ndarray, np.ndarray]  # ids, and 1 where the loss counts


def stored_rows(paths: Sequence[Path], random: Random) -> Iterator[Row]:
    """The rows of files that generate.py wrote, in a new order each time around."""
    rows: list[Row] = []
    for path in paths:
        stored = np.load(path)
        ends = np.cumsum(stored["lengths"])[:-1]
        rows += zip(np.split(stored["ids"], ends), np.split(stored["said"], ends), strict=True)
    while True:
        random.shuffle(rows)
        yield from rows


def generated(tokenizer: Tokenizer, random: Random, level: float) -> list[Row]:
    """The rows of one new conversation."""
    from generator import JOBS, TRAINING, rows

    mix = {**JOBS, **EASY_JOBS} if level < EASY else JOBS
    job = random.choices([*mix], [*mix.values()])[0]
    split = dataclasses.replace(TRAINING, level=level)
    return [tokenizer.conversation(messages) for messages in rows(random, job, tokenizer.count, split)]


def batches(
    tokenizer: Tokenizer,
    seed: str,
    level: Any,
    batch_tokens: int,
    choices: int,
    paths: Sequence[Path] = (),
) -> Iterator[Row]:
    """Endless batches (ids, 1 where the loss counts) of conversations with about the same length.

    At the full level they are `choices` times as large as what is learned from: `learn_hardest` chooses.
    """
    random = Random(seed)
    stored = stored_rows(paths, random) if paths else None
    waiting: list[Row] = []
    while True:
        now = level.value
        most = batch_tokens * (choices if now == 1 else 1)
        copies = COPIES * (EASY - now) / (EASY - FIRST_LEVEL)
        for _ in range(CHUNK):
            if random.random() < copies:
                made = [copy_of_anything(random, tokenizer)]
            elif stored is not None:
                # Long conversations wait until short ones are mastered.
                made = [row for row in itertools.islice(stored, 1) if len(row[0]) <= LONGEST * now]
            else:
                made = generated(tokenizer, random, now)
            waiting += [row for row in made if len(row[0]) <= LONGEST and row[1].any()]
        waiting.sort(key=lambda row: len(row[0]))
        ready, first = [], 0
        while first < len(waiting):
            rows, last = waiting[first : first + 1], first + 1
            while last < len(waiting) and padded(len(waiting[last][0])) * (len(rows) + 1) <= most:
                rows.append(waiting[last])
                last += 1
            if last == len(waiting):
                break
            # No batch may pad much: the shorter rows wait for others of their length.
            ready.append(collate(rows, tokenizer.pad))
            first = last
        waiting = waiting[first:]
        random.shuffle(ready)
        yield from ready


def copy_of_anything(random: Random, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """A conversation in which the assistant repeats random tokens: every token is one that can be copied."""
    ordinary = len(tokenizer.tokens) - 3
    body = [random.randrange(ordinary) for _ in range(random.randint(3, 30))]
    asked = [
        *tokenizer.heads["user"],
        *tokenizer.encode("Repeat: "),
        *body,
        tokenizer.end,
        *tokenizer.newline,
    ]
    ids = [*asked, *tokenizer.heads["assistant"], *body, tokenizer.end]
    said = [0] * (len(ids) - len(body) - 1) + [1] * (len(body) + 1)
    return np.array(ids, dtype=np.uint16), np.array(said, dtype=np.uint8)


def collate(rows: list[tuple[np.ndarray, np.ndarray]], pad: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows padded at the right to one length."""
    width = padded(max(len(ids) for ids, _ in rows))
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    said = np.zeros((len(rows), width), dtype=bool)
    for index, (row, mask) in enumerate(rows):
        ids[index, : len(row)] = row
        said[index, : len(row)] = mask
    return ids, said


def feed(queue: Any, tokenizer_path: Path, *arguments: Any) -> None:
    """The generating process."""
    for batch in batches(Tokenizer(tokenizer_path), *arguments):
        queue.put(batch)


def losses_of(network: Transformer, ids: Tensor, said: Tensor) -> Tensor:
    """Cross entropy of each token that the assistant says, in the order of the rows."""
    with torch.autocast(ids.device.type, torch.bfloat16):
        hidden = network.hidden(ids[:, :-1], said[:, 1:])
        return network.losses(hidden, ids[:, 1:][said[:, 1:]])


def learn_hardest(network: Transformer, ids: Tensor, said: Tensor, most: int) -> tuple[int, float]:
    """Add the gradient of those rows that the network is most wrong about, up to `most` tokens of them.

    Returns the said tokens behind the gradient, and the mean loss of all rows.
    Late in training a hundredth of the tokens has nine tenths of the loss: to read a row and drop it costs
    a third of learning from it, and the third of the rows that is kept has seven eighths of the loss.
    """
    rows, kept = max(1, most // ids.shape[1]), slice(None)
    if rows < len(ids):
        row_of = torch.arange(len(ids), device=ids.device)[:, None].expand_as(said[:, 1:])[said[:, 1:]]
        with torch.no_grad():
            parts = zip(ids.split(rows), said.split(rows), strict=True)
            losses = torch.cat([losses_of(network, *part) for part in parts])
            wrong = torch.zeros(len(ids), device=ids.device).index_add_(0, row_of, losses)
        kept, mean = wrong.topk(rows).indices, losses.mean().item()
    loss = losses_of(network, ids[kept], said[kept]).mean()
    loss.backward()
    return int(said[kept, 1:].sum()), mean if rows < len(ids) else loss.item()


def make_optimizers(network: Transformer, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for the embedding and the norms."""
    inner = [
        weight
        for name, weight in network.named_parameters()
        if weight.dim() == 2 and "token_embd" not in name
    ]
    outer = [
        weight for name, weight in network.named_parameters() if weight.dim() != 2 or "token_embd" in name
    ]
    return [
        torch.optim.Muon(
            inner, lr=rate, weight_decay=0.05, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(outer, lr=0.75 * rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def schedule(step: int, progress: float, warm_up: int, decay_from: float) -> float:
    """Share of the full learning rate at this step and part of the budget."""
    warm = min(1.0, (step + 1) / warm_up)
    fall = 1.0 if progress < decay_from else max(0.01, (1 - progress) / (1 - decay_from))
    return warm * fall


@dataclasses.dataclass
class Progress:
    """How far a run is; stored with the weights."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    level: float = FIRST_LEVEL


def save(
    path: Path, network: Transformer, optimizers: list[torch.optim.Optimizer], progress: Progress
) -> None:
    """Write the checkpoint, whole or not at all."""
    part = path.with_suffix(".part")
    state = {
        "shape": dataclasses.asdict(network.shape),
        "network": network.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "progress": dataclasses.asdict(progress),
    }
    torch.save(state, part)
    part.replace(path)


def load(path: Path, feed_forward: int = 0) -> tuple[Transformer, dict[str, Any]]:
    """The network of a checkpoint, and everything else in it; wider if `feed_forward` says so."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    if feed_forward and feed_forward != state["shape"]["feed_forward"]:
        state = widened(state, feed_forward)
    network = Transformer(Shape(**state["shape"]))
    network.load_state_dict(state["network"])
    return network, state


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("run"), help="folder of the checkpoint and the log")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--tokens", type=float, default=100.0, help="budget in millions of tokens")
    parser.add_argument(
        "--minutes", type=float, default=240.0, help="budget of processor time, earlier runs included"
    )
    # A quick warm-up shakes the copying circuit apart, and it takes a million tokens to come back.
    parser.add_argument("--warm-up", type=int, default=150, help="steps until the rate is full")
    parser.add_argument(
        "--decay-from", type=float, default=0.5, help="part of the budget where the rate begins to fall"
    )
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument(
        "--choices", type=int, default=3, help="read so many rows for one that is learned from"
    )
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument(
        "--feed-forward", type=int, default=0, help="768 for a fresh network; a checkpoint grows to it"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of the training loop itself")
    parser.add_argument(
        "--rows",
        type=Path,
        action="append",
        default=[],
        help="train on this file of generate.py, and on no other rows",
    )
    parser.add_argument(
        "--feeders", type=int, default=1, help="processes that make conversations; one feeds 250,000 tokens/s"
    )
    parser.add_argument("--helpers", type=int, default=1, help="processes that compute gradients beside it")
    parser.add_argument(
        "--compile", action="store_true", help="fuse operations: a third faster, after a minute of compiling"
    )
    parser.add_argument("--log-every", type=int, default=50, help="steps between two lines of the log")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Train until the budget is spent; save every few minutes and at the end."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(options.seed)
    if options.compile:
        compile_parts()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer_path = Path(__file__).with_name("tokenizer.json")
    if not tokenizer_path.exists():
        learn(tokenizer_path)
    tokenizer = Tokenizer(tokenizer_path)
    checkpoint, progress = options.out / "checkpoint.pt", Progress()
    if options.resume:
        network, state = load(checkpoint, options.feed_forward)
        progress = Progress(**state["progress"])
        network.to(device)
        optimizers = make_optimizers(network, options.rate)
        for optimizer, stored in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
    else:
        shape = Shape(
            len(tokenizer.tokens),
            options.width,
            options.layers,
            options.width // 32,
            options.width // 64,
            options.feed_forward or 768,
        )
        network = Transformer(shape)
        set_copying_circuit(network)
        network.to(device)
        optimizers = make_optimizers(network, options.rate)
    queue: Any = multiprocessing.get_context("spawn").Queue(maxsize=24)
    level: Any = multiprocessing.get_context("spawn").Value("d", progress.level)
    seed, settings = (
        f"{options.seed}:{progress.tokens}",
        (level, options.batch_tokens, options.choices, options.rows),
    )
    feeders = [
        multiprocessing.get_context("spawn").Process(
            target=feed, args=(queue, tokenizer_path, f"{number}:{seed}", *settings), daemon=True
        )
        for number in range(options.feeders)
    ]
    for feeder in feeders:
        feeder.start()
    gradient_of = functools.partial(learn_hardest, most=options.batch_tokens)
    helpers = [Helper(network, queue, gradient_of, options.compile) for _ in range(options.helpers)]
    try:
        run(options, network, optimizers, progress, queue, checkpoint, helpers, level, gradient_of)
    finally:
        for helper in helpers:
            helper.stop()
        for feeder in feeders:
            feeder.kill()
        save(checkpoint, network, optimizers, progress)


def run(
    options: argparse.Namespace,
    network: Transformer,
    optimizers: list[torch.optim.Optimizer],
    progress: Progress,
    queue: Any,
    checkpoint: Path,
    helpers: list[Helper],
    level: Any,
    gradient_of: GradientOf,
) -> None:
    """The loop over batches."""
    device = network.token_embd.weight.device
    rates = [
        [options.rate] * len(optimizers[0].param_groups),
        [0.75 * options.rate] * len(optimizers[1].param_groups),
    ]
    budget, saved = options.tokens * MILLION, time.monotonic()
    started = time.process_time() - progress.seconds
    log_path, window, mean = options.out / "log.csv", [], float("nan")
    asked_to_stop: list[int] = []
    # A flag, not an exception: in the middle of a gradient an exception would get lost.
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_stop.append(number))
    bar = tqdm(
        total=int(budget),
        initial=progress.tokens,
        unit="tok",
        unit_scale=True,
        mininterval=2,
        disable=os.environ.get("CI") == "1",
    )
    with log_path.open("a", newline="", encoding="utf-8") as log_file:
        log = csv.writer(log_file)
        if log_file.tell() == 0:
            log.writerow(["step", "tokens", "seconds", "loss", "rate", "level"])
        while True:
            progress.seconds = time.process_time() - started
            part = max(progress.tokens / budget, progress.seconds / 60 / options.minutes)
            if part >= 1 or asked_to_stop:
                break
            share = schedule(progress.step, part, options.warm_up, options.decay_from)
            for optimizer, full in zip(optimizers, rates, strict=True):
                for group, rate in zip(optimizer.param_groups, full, strict=True):
                    group["lr"] = rate * share
            ids, said = (torch.from_numpy(array).to(device) for array in queue.get())
            counted, loss = gradient_of(network, ids, said)
            window.append(loss)
            seen = ids.numel()
            for helper in helpers:
                more, its_loss = helper.take(network, counted)
                if more:
                    seen += more
                    window.append(its_loss)
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            for helper in helpers:
                helper.publish(network)
            progress.step += 1
            progress.tokens += seen
            bar.update(seen)
            if progress.step % options.log_every == 0:
                mean, window = sum(window) / len(window), []
                figures = (f"{progress.seconds:.0f}", f"{mean:.5f}", f"{share:.4f}", f"{progress.level:.2f}")
                log.writerow([progress.step, progress.tokens, *figures])
                if mean < GOOD_LOSS:
                    progress.level = level.value = min(1.0, progress.level + LEVEL_STEP)
                log_file.flush()
                bar.set_postfix(step=progress.step, loss=f"{mean:.4f}", part=f"{part:.3f}")
            if time.monotonic() - saved > 120:
                save(checkpoint, network, optimizers, progress)
                saved = time.monotonic()
    bar.close()


if __name__ == "__main__":
    main()
