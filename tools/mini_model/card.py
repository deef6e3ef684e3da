"""Write the model card from the measurements: `python card.py > ../../src/shepherd/models/MODEL_CARD.md`.

Reads card.md, log.csv, evaluation.json (the shipped file) and evaluation-f16.json (the unquantised one). The
figures are evaluate.py's; those on speed, speed.py's.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

from evaluate import BARS, Result, markdown

__all__ = ["card"]

HERE = Path(__file__).parent
COLUMNS = ("known", "held_out")
EXAM_BAR = 90
GROUPS = {
    "facts": "about facts",
    "notes": "about notes",
    "memories": "about memories",
    "several": "several questions at once",
    "unknown": "about what isn't stored",
    "told": "statements",
    "beyond": "requests beyond the model",
}


def card() -> str:
    """The whole page."""
    shipped, unquantised = (load(name) for name in ("evaluation.json", "evaluation-f16.json"))
    with (HERE / "log.csv").open(encoding="utf-8") as log:
        last = list(csv.DictReader(log))[-1]
    one, two = (shipped["speed"][f"threads_{threads}"] for threads in (1, 2))
    figures = {
        "SIZE": f"{shipped['size_bytes'] / 1e6:.1f}",
        "PARAMETERS": f"{shipped['parameters'] / 1e6:.1f}",
        "WORDINGS": f"{shipped['wordings']:,}",
        "TOKENS": f"{int(last['tokens']) / 1e6:.1f}",
        "MINUTES": f"{int(last['seconds']) / 60:.0f}",
        "COUNT": str(shipped["count"]),
        "TABLE": markdown(shipped["table"]),
        "MISSED": missed(shipped["table"]),
        **exam(load("exam-report.json")),
        "PROBECOUNT": str(len((HERE / "probes.jsonl").read_text(encoding="utf-8").splitlines())),
        "PROBES": f"{shipped['probes'][0]:.0f} %",
        "CHATS": chats(shipped["chats"]),
        "JSON": f"{min(shipped['table']['json'].values()):.1f} %",
        "LOGIT16": f"{unquantised['parity']['largest_logit_difference']:.3f}",
        "Q8": loss(lost(shipped["table"], unquantised["table"])),
        "READ": f"{one['read_tokens_s']:,.0f}",
        "WRITE": f"{one['decode_tokens_s']:,.0f}",
        "READ2": f"{two['read_tokens_s']:,.0f}",
        "WRITE2": f"{two['decode_tokens_s']:,.0f} (bar: 1,000)",
        "LOAD": f"{max(one['load_ms'], two['load_ms']):.0f} (bar: 200)",
    }
    template = (HERE / "card.md").read_text(encoding="utf-8")
    return re.sub("@([A-Z0-9]+)@", lambda found: figures[found[1]], template)


def load(name: str) -> Any:
    """A report of evaluate.py."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def missed(table: dict[str, Result]) -> str:
    """A sentence on the cells below their bar."""
    below = sum(
        table[job][column] < bar
        for job, bars in BARS.items()
        if job in table
        for column, bar in zip(COLUMNS, bars, strict=True)
    )
    if not below:
        return "Every cell reaches its bar."
    verb = "misses its" if below == 1 else "miss their"
    cells = 2 * len(BARS.keys() & table.keys())
    return f"**{below} of {cells} cells {verb} bar.**"


def lost(shipped: dict[str, Result], unquantised: dict[str, Result]) -> float:
    """The most points that a cell loses by quantisation; 0 when it loses nowhere."""
    return max(
        0.0,
        *(
            unquantised[job][column] - shipped[job][column]
            for job in BARS.keys() & shipped.keys()
            for column in COLUMNS
        ),
    )


def loss(points: float) -> str:
    """What quantisation costs, with tenths of a point rounded up."""
    most = f"at most {math.ceil(10 * points) / 10:.1f} points in a" if points else "nothing in any"
    return f"loses {most} cell (bar: 1)"


def exam(counts: dict[str, list[int]]) -> dict[str, str]:
    """The figures of exam.py, whose report has right, all and garbled answers of each group."""
    shares = [
        f"{GROUPS[group]} {100 * right / total:.0f} %"
        + ("" if 100 * right >= EXAM_BAR * total else f" ({right} of {total}, **missed**)")
        for group, (right, total, _) in counts.items()
    ]
    return {
        "EXAMCOUNT": str(sum(total for _, total, _ in counts.values())),
        "EXAM": ", ".join(shares),
        "EXAMBAR": str(EXAM_BAR),
        "GARBLED": str(sum(garbled for _, _, garbled in counts.values())),
    }


def chats(wrong: dict[str, list[Any]]) -> str:
    """How many turns of the scripted chats are right."""
    turns = sum(len(chat["turns"]) for chat in load("chats.json"))
    return f"{turns - sum(map(len, wrong.values()))} of {turns} turns right"


if __name__ == "__main__":
    print(card(), end="")
