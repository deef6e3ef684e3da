"""What tools/mini_model/README.md shows and needs no PyTorch; smoke.py, in .ci/run, trains and exports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools" / "mini_model"
MODEL = ROOT / "src" / "shepherd" / "models" / "shepherd-mini-q8_0.gguf"


def said(script: str, *words: str) -> str:
    command = [sys.executable, "-B", script, *words]
    return subprocess.run(command, cwd=TOOLS, check=True, capture_output=True, encoding="utf-8").stdout


def test_card_is_what_its_script_writes() -> None:
    assert said("card.py") == (ROOT / "src/shepherd/models/MODEL_CARD.md").read_text(encoding="utf-8")


def test_curve_is_drawn_from_the_log(tmp_path: Path) -> None:
    said("curve.py", "log.csv", str(tmp_path / "curve.svg"))

    assert (tmp_path / "curve.svg").read_bytes() == (TOOLS / "curve.svg").read_bytes()


def test_conversations_can_be_looked_at() -> None:
    lines = said("generate.py", "--count", "5").splitlines()

    assert len(lines) >= 5
    assert all(json.loads(line)["messages"] for line in lines)


def test_speed_is_measured_in_the_engine(tmp_path: Path) -> None:
    report = tmp_path / "evaluation.json"
    report.write_text('{"count": 300}', encoding="utf-8")

    said("speed.py", str(MODEL), "--count", "1", "--rounds", "1", "--report", str(report))

    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["count"] == 300
    assert all(
        figure > 0 for threads in ("threads_1", "threads_2") for figure in written["speed"][threads].values()
    )
