"""Commands with all that they print, as in the files of transcripts/, each in a new home and this process.

A line `$ …` is a command, `# …` a comment. `@ NAME` begins a file that `| ` lines fill, and `< NAME` behind
a command is its stdin.
Below a command are its lines on stdout ("  "), those on stderr ("! "), and its exit code unless it is 0
("= 1"). MODEL says "Hello, I am a shepherd. Café is open today!" to everything. What differs between runs has
names: HOME, TODAY, TIME, NOW, SIZE, ID1 …

After a change that is meant, write them anew, and read what `git diff` shows:

    .venv/bin/python -m tests.cli.test_transcripts
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

import pytest

# These imports tell tools/mutants whose commands are tested here.
from shepherd.cli import (  # noqa: F401
    apikey,
    chat,
    completion,
    composing,
    config,
    context,
    conversation,
    conversations,
    eval,
    facts,
    fragment,
    knowledge,
    main,
    memory,
    misplaced,
    model,
    original_config,
    parsing,
    provider,
    receipts,
    sync,
    template,
    tools,
    trace,
)  # fmt: skip
from shepherd.encryption import set_asker, use_settings
from shepherd.encryption.unlocking import forget_all
from tests import models
from tests.conftest import SCRIPT

FOLDER = Path(__file__).with_name("transcripts")
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


class Stream(io.TextIOWrapper):
    """A standard stream into memory; `text` is what was written."""

    def __init__(self, data: bytes = b"") -> None:
        self.bytes = io.BytesIO(data)
        buffer = io.BufferedReader(self.bytes) if data else self.bytes
        super().__init__(buffer, encoding="utf-8", write_through=not data)

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode()


class Replay:
    """Runs commands in a home folder and names what differs between runs."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, model_file: Path) -> None:
        self.home, self.patch, self.model = home, patch, model_file
        self.ids: dict[str, str] = {}
        for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
            patch.delenv(name)
        settings = {
            "HOME": str(home),
            "SHEPHERD_USER_ID": "steve",
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "SHEPHERD_MODEL_TRIAL": "false",
        }
        for name, value in settings.items():
            patch.setenv(name, value)
        (home / "here").mkdir()
        patch.chdir(home / "here")

    def run(self, line: str) -> list[str]:
        """Return the lines below a command."""
        command, _, file = line.replace("MODEL", str(self.model)).partition(" < ")
        data = Path(file).read_bytes() if file else b""
        out, err = Stream(), Stream()
        for name, stream in (("stdin", Stream(data)), ("stdout", out), ("stderr", err)):
            self.patch.setattr(f"sys.{name}", stream)
        try:
            code = main.main(shlex.split(command)[1:])
        except SystemExit as ending:  # --help
            code = int(ending.code or 0)
        shown = [f"  {text}" for text in out.text.splitlines()] + [
            f"! {text}" for text in err.text.splitlines()
        ]
        return [self.named(text).rstrip() for text in shown] + ([f"= {code}"] if code else [])

    def named(self, text: str) -> str:
        text = (
            text.replace(str(self.model), "MODEL")
            .replace(str(self.home), "HOME")
            .replace(time.strftime("%Y-%m-%d"), "TODAY")
        )
        text = re.sub(r"\b1[789]\d{8}\b", "NOW", text)
        text = re.sub(r"TODAY \d\d:\d\d\b", "TODAY TIME", text)
        text = re.sub(r"\b[\d,]+(\.\d)? ([KMG]iB|bytes)\b", "SIZE", text)
        text = re.sub(r"\b\d[\d.]* (µs|ms|s)\b|(?<=_us\": )[\d.]+", "TIME", text)
        return re.sub(
            r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{8})\b"
            r"|(?<=! conversation )[0-9a-f]{8}\b",
            self._id,
            text,
        )

    def _id(self, match: re.Match[str]) -> str:
        return self.ids.setdefault(match[0][:8], f"ID{len(self.ids) + 1}")

    def transcript(self, text: str) -> str:
        """Return a transcript with the lines that its commands print now."""
        done: list[str] = []
        file = None
        for line in text.splitlines():
            if line.startswith("$ "):
                done += [line, *self.run(line[2:])]
            elif line.startswith("@ "):
                done.append(line)
                file = Path(line[2:])
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("", "utf-8")
            elif line.startswith("|"):
                assert file is not None
                done.append(line)
                with file.open("a", encoding="utf-8") as target:
                    target.write(f"{line[2:]}\n")
            elif line.startswith("# "):
                done.append(line)
        return "\n".join(done) + "\n"


@pytest.fixture(autouse=True)
def no_key_is_known():
    yield
    set_asker(None)
    use_settings("", "")
    forget_all()


@pytest.mark.parametrize("name", NAMES)
def test_commands_print_what_the_transcript_shows(name, tmp_path, monkeypatch, scripted_model):
    text = (FOLDER / f"{name}.txt").read_text("utf-8")

    assert Replay(tmp_path, monkeypatch, scripted_model).transcript(text).splitlines() == text.splitlines()


if __name__ == "__main__":
    # Hints name `shepherd` without its folder, as in the tests.
    os.environ["PATH"] = f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as place:
        models.scripted(Path(place, "scripted.gguf"), script=SCRIPT)
        for path in sorted(FOLDER.glob("*.txt")):
            with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
                replay = Replay(Path(folder), patch, Path(place, "scripted.gguf"))
                written = replay.transcript(path.read_text("utf-8"))
            path.write_text(written, "utf-8")
