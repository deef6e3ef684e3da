"""Write the table of headline figures in bench/README.md from the newest results of each kind.

    .venv/bin/python -m bench.headlines                write the table
    .venv/bin/python -m bench.headlines --check        fail if the table is not that of the results

A result is bench/results/KIND-YYYY-MM-DD.json and names its machine.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
README = FOLDER / "README.md"
BEGIN, END = "<!-- headlines: begin -->", "<!-- headlines: end -->"
_NAME = re.compile(r"(?P<kind>[a-z-]+)-(?P<date>\d{4}-\d\d-\d\d)\.json")


@dataclass(frozen=True)
class Row:
    """One figure: the question, Shepherd's value, and the peers' values in the same run."""

    question: str
    ours: str
    peers: str = ""


def _recall(result: dict[str, Any]) -> Iterator[Row]:
    measures = result["measures"]
    peer = f"stdlib sqlite3 {measures['stdlib']['p50_us']:,.0f} µs"
    where = f"{result['memories']:,} memories of one user"
    yield Row(
        f"Find the three best of {where}, with their rows, p50", _us(measures["search-hot"], "p50"), peer
    )
    yield Row(
        f"Recall for a message, with 8 facts, {where}, p50 / p99",
        f"{_us(measures['inject'], 'p50')} / {_us(measures['inject'], 'p99')}",
    )
    bulk, stdlib = measures["bulk"]["per_second"], measures["stdlib-bulk"]["per_second"]
    yield Row("Store memories in bulk, per second", f"{bulk:,.0f}", f"stdlib sqlite3 {stdlib:,.0f}")


def _us(measure: dict[str, float], percentile: str) -> str:
    return f"{measure[f'{percentile}_us']:,.0f} µs"


def _peers(result: dict[str, Any]) -> Iterator[Row]:
    sides = dict(result["sides"])
    ours = sides.pop("Shepherd")
    others = {name: side for name, side in sides.items() if not name.startswith("Shepherd")}
    yield Row(
        f"Evidence among the best five results, {result['questions']} questions about labelled conversations",
        f"{ours['recall_at_5']:.1f} %",
        ", ".join(f"{name} {side['recall_at_5']:.1f} %" for name, side in others.items()),
    )
    yield Row(
        f"Search {result['memories']:,} memories of one user, p50",
        _us(ours, "p50"),
        ", ".join(f"{name} {_us(side, 'p50')}" for name, side in others.items()),
    )


def _turns(result: dict[str, Any]) -> Iterator[Row]:
    run = [run for run in result["runs"] if run["kind"].startswith("tiny")][-1]
    injected = run["scenarios"]["stateless, injected"]
    yield Row(
        "Tokens read per turn, memory appended to each message",
        _tokens(injected["Shepherd"]),
        ", ".join(f"{name} {_tokens(injected[name])}" for name in ("llama_cpp.Llama", "llama-server")),
    )


def _tokens(side: dict[str, float]) -> str:
    return f"{side['decoded_per_turn']:.0f}"


def _turns_served(result: dict[str, Any]) -> Iterator[Row]:
    run = result["runs"][-1]
    append = run["scenarios"]["append"]
    yield Row(
        "First token of the next turn over HTTP, best",
        f"{append['shepherd serve']['first_ms']['best']:.2f} ms",
        f"llama-server {append['llama-server']['first_ms']['best']:.2f} ms",
    )
    together = run["tokens_per_s_of_eight_at_once_median"]
    yield Row(
        "Tokens per second of eight answers at once over HTTP",
        f"{together['shepherd serve']:,}",
        f"llama-server {together['llama-server']:,},"
        f" with its window split {together['llama-server, split']:,}",
    )


def _serving(result: dict[str, Any]) -> Iterator[Row]:
    token = result["token_of_eight_streams_alone"]
    four = result["token_of_eight_streams_four_apis"]
    yield Row(
        "Time that the server adds to a token, eight streams, median: one API / four at once",
        f"{token['median_us']:.1f} / {four['median_us']:.1f} µs",
    )
    alone, busy = (result["memory"][name]["wall_ms"] for name in ("alone", "beside_64_streams"))
    yield Row(
        "Time that memory adds to a request, p50: alone / beside 64 streams",
        f"{alone['p50']:.2f} / {busy['p50']:.2f} ms",
    )
    yield Row("The same, p99", f"{alone['p99']:.2f} / {busy['p99']:.2f} ms")


_SHAPES = {"8b": "an 8B model", "35b-a3b": "a 35B model with 3B active"}


def _gpu(result: dict[str, Any]) -> Iterator[Row]:
    for one in result["results"]:
        figures = []
        for side in ("shepherd", "llama_cpp.Llama"):
            names = ("prefill_tokens_per_s", "decode_tokens_per_s", "turn_ttft_ms")
            runs = one["runs"][side]
            read, said, first = (statistics.median(run[name] for run in runs) for name in names)
            figures.append(f"{read:,.0f} / {said:,.0f} / {first:.0f} ms")
        where = f"On a GPU, in the shape of {_SHAPES[one['shape']]}"
        yield Row(
            f"{where}: tokens read per second / tokens written per second / first token of the next turn",
            figures[0],
            f"llama_cpp.Llama {figures[1]}",
        )


def _server(result: dict[str, Any]) -> Iterator[Row]:
    yield Row(
        f"Tokens read twice, {result['users']} users, {result['turns_of_each']} turns each over HTTP",
        f"{result['re_read_tokens']:,} of {result['new_tokens']:,}",
    )


def _conversation(result: dict[str, Any]) -> Iterator[Row]:
    ours, stripped = (result["sides"][name]["per_token"] for name in ("Shepherd", "Shepherd, tails stripped"))
    yield Row(
        f"Tokens read per token of a conversation, {result['turns']} turns with memories in every message",
        f"{ours:.2f}",
        f"memories removed from earlier messages {stripped:.2f}",
    )


def _startup(result: dict[str, Any]) -> Iterator[Row]:
    times = result["median_ms"]
    yield Row(
        "Start: `shepherd --help` / prompt of `shepherd chat` / `shepherd tui`",
        " / ".join(f"{times[f'shepherd {name}']:.0f}" for name in ("--help", "chat", "tui")) + " ms",
        f"`import llama_cpp` {times['import llama_cpp']:.0f} ms",
    )


def _encryption(result: dict[str, Any]) -> Iterator[Row]:
    runs = result["runs"].values()
    yield Row(
        "An encrypted memory: recall with the index in memory / by FTS5 alone / store a memory, p50",
        " / ".join(f"{run['encrypted_p50_us']:.0f}" for run in runs) + " µs",
        "plain " + " / ".join(f"{run['plain_p50_us']:.0f}" for run in runs) + " µs",
    )


KINDS: dict[str, Callable[[dict[str, Any]], Iterator[Row]]] = {
    "recall": _recall,
    "peers": _peers,
    "conversation": _conversation,
    "turns": _turns,
    "turns-served": _turns_served,
    "gpu": _gpu,
    "serving": _serving,
    "server": _server,
    "startup": _startup,
    "encryption": _encryption,
}


def newest() -> dict[str, tuple[str, Path]]:
    """Date and file of the newest result of each kind."""
    found: dict[str, tuple[str, Path]] = {}
    for path in sorted(FOLDER.glob("results/*.json")):
        if named := _NAME.fullmatch(path.name):
            found[named["kind"]] = (named["date"], path)
    return found


def table() -> str:
    """Return the table as Markdown."""
    rows = [
        "| Measurement | Shepherd | Others in the same bench | Machine | Date |",
        "|---|---|---|---|---|",
    ]
    results = newest()
    for kind, rows_of in KINDS.items():
        date, path = results[kind]
        result = json.loads(path.read_text(encoding="utf-8"))
        end = f"{result['machine']} | [{date}](results/{path.name}) |"
        rows += [f"| {row.question} | {row.ours} | {row.peers} | {end}" for row in rows_of(result)]
    return "\n".join(rows)


def with_table(text: str) -> str:
    """Return the text of the README with the table of the results in its place."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{README.name} has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    """Write or check the table."""
    parser = argparse.ArgumentParser(description="Write the table of headline figures in bench/README.md.")
    parser.add_argument("--check", action="store_true", help="fail if the table is out of date")
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    if options.check:
        if text != with_table(text):
            raise SystemExit("the table is out of date: run python -m bench.headlines")
        return
    README.write_text(with_table(text), encoding="utf-8")


if __name__ == "__main__":
    main()
