"""Measure an exported model through llama.cpp: `python evaluate.py MODEL.gguf`.

Every cell has fresh random values from the held-out share; "known" wordings occur in training, "held-out"
ones are combinations that never do. A reply counts only when it equals the expected one as a whole.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import smalltalk
from generator import (
    EVALUATED_JOBS,
    EXTRACTION_PROMPT,
    REQUEST,
    SENTENCES,
    SHEPHERD_BASE,
    SHEPHERD_TAIL,
    Message,
    Split,
    conversation,
    tail,
)
from relations import RELATIONS
from runner import Runner

__all__ = ["chats", "parity", "probes", "table"]

HERE = Path(__file__).parent
# Percent that the model has to reach, with known and with held-out wordings.
BARS = {
    "facts": (97, 90), "context": (95, 88), "nothing": (95, 88), "answered": (97, 97), "extract": (92, 80),
    "extract_nothing": (98, 95), "acknowledge": (97, 90), "small_talk": (97, 90), "history": (94, 85),
    "notes": (92, 88),
}  # fmt: skip
TITLES = {
    "facts": "answer from a fact, exact",
    "context": "answer from a memory, exact",
    "notes": "answer from a document: the sentence that contains it",
    "nothing": "say that nothing is stored",
    "answered": "answer if the answer is stored, rather than say that nothing is",
    "several": "answer two or three questions in one message",
    "extract": "extract from a line of one to three statements, exact",
    "extract_lines": "extract from one to four lines, one request for each sentence",
    "together": "extract from one to four lines, all in one request",
    "extract_nothing": "extract nothing where there is nothing",
    "acknowledge": "acknowledge a statement",
    "small_talk": "reply in the right way to small talk, or decline",
    "history": "answer from a conversation of 2 to 16 turns",
}
SHOWN = 3  # failures of each cell in a report
Result = dict[str, float]
Cell = tuple[str, bool]  # a job, and whether its wordings are held out


def samples(job: str, count: int, *, held_out: bool, seed: int) -> Iterator[list[Message]]:
    """Conversations for one cell."""
    random = Random(f"{seed}:{job}:{held_out}")
    for _ in range(count):
        yield conversation(random, job, Split(held_out, True, plain=True))


def table(
    runner: Runner,
    count: int,
    *,
    seed: int = 2026,
    held_out: Sequence[bool] = (False, True),
    failures: list[dict[str, Any]] | None = None,
    watch: Callable[[list[Cell]], Iterable[Cell]] = iter,
) -> dict[str, Result]:
    """Percent right for every job, keys "known" and "held_out"; "json" is the share of valid JSON.

    `held_out`: which of the two are asked, wordings that it was trained on (False) and others (True).
    Extraction is asked about one sentence at a time, as in Shepherd; "together" is all lines in one request.
    """
    results: dict[str, Result] = {}
    cells = [(job, is_held_out) for job in EVALUATED_JOBS for is_held_out in held_out]
    refused = {is_held_out: [0, 0] for is_held_out in held_out}
    for job, is_held_out in watch(cells):
        right = valid = together = shown = 0
        for messages in samples(job, count, held_out=is_held_out, seed=seed):
            expected = messages[-1][1]
            if job.startswith("extract"):
                parsed = learned(runner, messages)
                valid += parsed is not None
                good = parsed == json.loads(expected)
                if job == "extract_lines":
                    together += parse(runner.reply(messages[:-1], as_json=True)) == json.loads(expected)
                reply = json.dumps(parsed, ensure_ascii=False)
            else:
                reply = runner.reply(messages[:-1])
                good = is_right(reply, expected, messages[-2][1])
            if job in ("facts", "context"):
                refused[is_held_out][0] += reply == smalltalk.NOTHING
                refused[is_held_out][1] += 1
            right += good
            if not good and failures is not None and shown < SHOWN:
                shown += 1
                failures.append(
                    {
                        "job": job,
                        "held_out": is_held_out,
                        "said": messages[-2][1],
                        "expected": expected,
                        "reply": reply,
                    }
                )
        column = "held_out" if is_held_out else "known"
        results.setdefault(job, {})[column] = 100 * right / count
        if job.startswith("extract"):
            results.setdefault("json", {}).setdefault(column, 100.0)
            results["json"][column] = min(results["json"][column], 100 * valid / count)
        if job == "extract_lines":
            results.setdefault("together", {})[column] = 100 * together / count
    results["answered"] = {
        "held_out" if is_held_out else "known": 100 - 100 * wrong / total
        for is_held_out, (wrong, total) in refused.items()
    }
    return results


def is_right(reply: str, expected: str, asked: str) -> bool:
    """True if the reply is the expected one. A value may have the capital with which memory shows it.

    Nothing tells that "Solar tea", as an answer in memory begins, was once told as "solar tea".
    """
    at = next((i for i, (a, b) in enumerate(zip(reply, expected, strict=False)) if a != b), 0)
    as_told = reply[:at] + reply[at : at + 1].lower() + reply[at + 1 :]
    return reply == expected or (as_told == expected and f"\nAssistant: {reply[at : at + 3]}" in asked)


def learned(runner: Runner, messages: Sequence[Message]) -> Any:
    """What Shepherd would store of the lines: each sentence asked about alone, without values nobody said.

    None when an answer is no JSON.
    """
    system, (_, request) = messages[0], messages[1]
    all_learned: dict[str, Any] = {"facts": {}, "context": []}
    for line in request.split("\n"):
        said = line.casefold()
        for sentence in SENTENCES["split_sentences"](line.removeprefix("User: ")):
            asked = REQUEST["extraction_request"]([sentence])
            parsed = parse(runner.reply([system, ("user", asked)], as_json=True))
            if parsed is None:
                return None
            all_learned["facts"] |= {k: v for k, v in parsed["facts"].items() if v.casefold() in said}
            all_learned["context"] += [pair for pair in parsed["context"] if pair["a"].casefold() in said]
    return all_learned


def parse(reply: str) -> Any:
    """The JSON of a reply; None when it is none."""
    try:
        return json.loads(reply)
    except ValueError:
        return None


# --- probes and chats ------------------------------------------------------------------------------------


def messages_of(probe: dict[str, Any]) -> list[Message]:
    """The conversation that a hand-written probe stands for."""
    if "lines" in probe:
        return [("system", EXTRACTION_PROMPT), ("user", REQUEST["extraction_request"](probe["lines"]))]
    said = [*probe["say"]]
    said[-1] += tail(probe.get("facts", {}), probe.get("context", []))
    roles = ("user", "assistant")
    return [
        ("system", "You are a helpful assistant."),
        *((roles[index % 2], text) for index, text in enumerate(said)),
    ]


def holds(reply: str, value: str) -> bool:
    """True if the value stands in the reply as a whole."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", reply) is not None


def extracted(reply: str, expected: dict[str, str]) -> bool:
    """True if the facts are the expected ones; `a|b` as key allows either, and nothing else may be there."""
    parsed = parse(reply)
    if (
        not isinstance(parsed, dict)
        or len(parsed["facts"]) != len(expected)
        or (not expected and parsed["context"])
    ):
        return False
    return all(
        any(parsed["facts"].get(key) == value for key in keys.split("|")) for keys, value in expected.items()
    )


FIXED = {
    "nothing": smalltalk.NOTHING,
    "history_nothing": smalltalk.NOTHING,
    "greet": smalltalk.HELLO,
    "thank": smalltalk.WELCOME,
    "bye": smalltalk.BYE,
    "who": smalltalk.WHO,
    "other": smalltalk.OTHER,
}


def probe_is_right(probe: dict[str, Any], reply: str) -> bool:
    """Judge one probe."""
    job = probe["job"]
    if job == "extract":
        return extracted(reply, probe["expect"])
    if job == "acknowledge":
        return holds(reply, probe["expect"]) if "expect" in probe else reply.startswith("Nice")
    if job in FIXED:
        return reply == FIXED[job]
    wanted = probe["expect"] if isinstance(probe["expect"], list) else [probe["expect"]]
    return all(holds(reply, value) for value in wanted)


def probes(
    runner: Runner, path: Path = HERE / "probes.jsonl"
) -> tuple[float, dict[str, str], list[dict[str, Any]]]:
    """Percent right over the hand-written probes, right/all for each job, and the failures."""
    tried = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    counts: dict[str, list[int]] = {}
    failures = []
    for probe in tried:
        reply = runner.reply(messages_of(probe), as_json="lines" in probe)
        good = probe_is_right(probe, reply)
        count = counts.setdefault(probe["job"], [0, 0])
        count[0] += good
        count[1] += 1
        if not good:
            failures.append({**probe, "reply": reply})
    share = 100 * sum(good for good, _ in counts.values()) / len(tried)
    return share, {job: f"{good}/{total}" for job, (good, total) in counts.items()}, failures


def chats(runner: Runner) -> dict[str, list[dict[str, str]]]:
    """Wrong turns of each scripted chat; the model reads its own replies, tails stay in the history."""
    wrong: dict[str, list[dict[str, str]]] = {}
    for chat in json.loads((HERE / "chats.json").read_text(encoding="utf-8")):
        history: list[Message] = [("system", f"{SHEPHERD_BASE}\n\n{SHEPHERD_TAIL}")]
        wrong[chat["name"]] = []
        for turn in chat["turns"]:
            history.append(("user", turn["say"] + tail(turn.get("facts", {}), turn.get("context", []))))
            reply = runner.reply(history)
            history.append(("assistant", reply))
            if turn["expect"] not in reply:
                wrong[chat["name"]].append({"say": turn["say"], "expected": turn["expect"], "reply": reply})
    return wrong


# --- the file against the network ------------------------------------------------------------------------

TEXTS = (
    "What is my name?\n\n[facts: location=São Paulo, name=Jürgen 東京]",
    'a  b\t c\n\n\n d 12345 x_y=z "q": {}, [] 🙂',
    "I'LL don't it's we've   trailing  ",
    "<|im_start|>user and <|im_end|> are text here",
    "\u200b\u00a0\r\n mixed Ærø",
)


def parity(path: Path, checkpoint: Path) -> dict[str, float]:
    """How the file in llama.cpp differs from the trained network: token ids of texts, and logits."""
    import torch
    from tokenizer import Tokenizer
    from train import load

    runner = Runner(path, all_logits=True)
    tokenizer = Tokenizer(HERE / "tokenizer.json")
    network, _ = load(checkpoint)
    conversations = [m for job in EVALUATED_JOBS for m in samples(job, 5, held_out=False, seed=5)]
    texts = [*TEXTS, *(text for messages in conversations for _, text in messages)]
    different = sum(runner.tokenize(text, special=False) != tokenizer.encode(text) for text in texts)
    worst, agree, total = 0.0, 0, 0
    for messages in conversations:
        ids = tokenizer.conversation(messages)[0][:1000].astype(np.int64)
        with torch.no_grad():
            expected = network(torch.from_numpy(ids)[None])[0].numpy()
        got = runner.logits(ids.tolist())
        worst = max(worst, float(np.abs(got - expected).max()))
        agree += int((got.argmax(-1) == expected.argmax(-1)).sum())
        total += len(ids)
    return {
        "texts_with_other_tokens": different,
        "texts": len(texts),
        "largest_logit_difference": worst,
        "same_best_token_percent": 100 * agree / total,
    }


# --- report ----------------------------------------------------------------------------------------------


def markdown(results: dict[str, Result]) -> str:
    """The table with bars; a missed bar is marked."""
    rows = ["| job | known wordings | held-out wordings | bar |", "|---|---|---|---|"]
    for job, title in TITLES.items():
        if job not in results:
            continue
        figures = [results[job]["known"], results[job]["held_out"]]
        bar = BARS.get(job, (0, 0))
        cells = [
            f"{figure:.1f} %" + ("" if figure >= least else " **missed**")
            for figure, least in zip(figures, bar, strict=True)
        ]
        rows.append(
            f"| {title} | {cells[0]} | {cells[1]} | {f'{bar[0]} / {bar[1]}' if job in BARS else ''} |"
        )
    return "\n".join(rows)


def main() -> None:
    """The command line."""
    from tqdm import tqdm

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--checkpoint", type=Path, help="compare with the trained network, too")
    parser.add_argument("--count", type=int, default=300, help="conversations in each cell")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--report", type=Path, help="write all figures and some failures as JSON")
    parser.add_argument("--no-table", action="store_true", help="probes and chats only")
    options = parser.parse_args()
    runner = Runner(options.model, threads=options.threads)
    report: dict[str, Any] = {
        "model": options.model.name,
        "size_bytes": runner.size_bytes,
        "parameters": runner.parameters,
        "wordings": sum(len(r.ask) + len(r.that) + len(r.say) for r in RELATIONS),
        "count": options.count,
    }
    measures: list[tuple[str, Callable[[], Any]]] = [
        ("probes", lambda: probes(runner)),
        ("chats", lambda: chats(runner)),
    ]
    for name, measure in measures:
        report[name] = measure()
        print(f"{name}: {json.dumps(report[name], ensure_ascii=False, indent=1)}")
    if not options.no_table:
        failures: list[dict[str, Any]] = []
        report["table"] = table(runner, options.count, failures=failures, watch=tqdm)
        report["failures"] = failures
        print(markdown(report["table"]), f"\nvalid JSON: {report['table']['json']}")
    if options.checkpoint:
        report["parity"] = parity(options.model, options.checkpoint)
    print(json.dumps({key: report.get(key) for key in ("parity", "size_bytes")}, indent=1))
    if options.report:
        options.report.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
