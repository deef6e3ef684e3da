"""Draw the learning curve of a training log: `python curve.py log.csv curve.svg`."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 320, 60, 40
MILLION = 1_000_000


def curve(rows: list[dict[str, str]]) -> str:
    """An SVG with the loss (log scale) over the tokens seen."""
    tokens = [int(row["tokens"]) / MILLION for row in rows]
    losses = [math.log10(float(row["loss"])) for row in rows]
    low, high, last = min(losses), max(losses), tokens[-1]
    across = [LEFT + (WIDTH - LEFT - 10) * at / last for at in tokens]
    down = [10 + (HEIGHT - BOTTOM - 10) * (high - loss) / (high - low) for loss in losses]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    scale = (HEIGHT - BOTTOM - 10) / (high - low)
    marks = [
        f'<text x="{LEFT - 8}" y="{10 + scale * (high - math.log10(loss)):.1f}" text-anchor="end" '
        f'dominant-baseline="middle">{loss}</text>'
        for loss in (5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
        if low <= math.log10(loss) <= high
    ]
    marks += [
        f'<text x="{LEFT + (WIDTH - LEFT - 10) * part / 4:.1f}" y="{HEIGHT - 16}" text-anchor="middle">'
        f"{last * part / 4:.1f} M</text>"
        for part in range(5)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f'<path d="M{LEFT},10V{HEIGHT - BOTTOM}H{WIDTH - 10}" fill="none" stroke="#999"/>'
        f'<polyline points="{points}" fill="none" stroke="#2563eb" stroke-width="1.5"/>{"".join(marks)}'
        f'<text x="{WIDTH - 10}" y="20" text-anchor="end">loss of the assistant by tokens seen</text>'
        "</svg>\n"
    )


def main() -> None:
    """The command line: a log and a target."""
    log, target = (Path(name) for name in sys.argv[1:3])
    with log.open(encoding="utf-8") as file:
        target.write_text(curve(list(csv.DictReader(file))), encoding="utf-8")


if __name__ == "__main__":
    main()
