"""Install published clients, try them against `shepherd serve`, and print what works.

    tools/clients                            all, which takes about half an hour
    tools/clients codex "openai (node)"      those whose names contain one of these
    tools/clients --installed build/clients  keep the installations there (3 GB), for another run
    tools/clients --write                    write the results into docs/reference/clients.md

Each client gets an environment and a home of its own, and runs unchanged. The model is a scripted one, whose
answers are known (tests/clients/model.py). It needs Linux on x86-64, Node.js 20 or later, npm and a network.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.catalogue import CLIENTS, Client, Place, Step
from tests.clients.model import ANSWER, FROM_RESULT, NOTE, PERSON, QUESTION, RESULT, write_model
from tests.server.processes import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "clients.md"
SCRIPTS = Path(__file__).parent / "scripts"
HEAD = "| client | version | tried | result |\n|---|---|---|---|\n"
N_CTX = 1 << 17  # Claude Code's instructions and tools are 37,000 tokens of the tiny model
PATIENCE_S = 300
LONGEST_REASON = 300
EXPECTED = {"text": ANSWER, "stream": ANSWER, "tools": FROM_RESULT, "person": PERSON}


class Failed(Exception):  # noqa: N818 - a result, not a mistake of this program
    """A client doesn't work; the message says what it printed."""


def install(client: Client, folder: Path) -> None:
    """Install a client, unless these versions are in the folder already."""
    stamp, wanted = folder / "installed.json", json.dumps(dict(client.packages))
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if client.kind == "python":
        said([sys.executable, "-m", "venv", str(folder)])
        named = [f"{name}=={version}" for name, version in client.packages.items()]
        said([str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *named])
    else:
        named = [f"{name}@{version}" for name, version in client.packages.items()]
        (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
        # Programs bring their executables in packages of their own, so no script of theirs has to run.
        said(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *named], cwd=folder)
    stamp.write_text(wanted, encoding="utf-8")


def said(command: Sequence[str], **options: Any) -> str:
    """Return what a program prints. Failed if it fails."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=options.pop("timeout", 3 * PATIENCE_S),
            **options,
        )
    except subprocess.TimeoutExpired:
        raise Failed("it doesn't end") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode:
        raise Failed(f"exit code {done.returncode}: {done.stdout[-LONGEST_REASON:]}")
    return done.stdout


def environment(place: Place, **variables: str) -> dict[str, str]:
    """Return the environment of a client: a home of its own, and no settings of this process."""
    own = {"HOME": str(place.folder), "SERVER": place.server, "QUESTION": QUESTION, "RESULT": RESULT}
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    return {**kept, "PYTHONUTF8": "1", "NO_COLOR": "1", **own, **variables}


def run_script(client: Client, place: Place) -> dict[str, str]:
    """Run a script; return the results by what was tried, "" for success."""
    source = SCRIPTS / client.script
    if client.kind == "python":
        command = [str(place.installed / "bin" / "python"), str(source)]
    else:  # Node finds packages from where the script is
        shutil.copy(source, place.installed)
        command = ["node", str(place.installed / source.name)]
    printed = said(command, env=environment(place), cwd=place.folder, timeout=PATIENCE_S)
    found = json.loads(printed.strip().splitlines()[-1])
    return {name: judged(name, value) for name, value in found.items()}


def judged(name: str, value: Any) -> str:
    """Return what is wrong with a value that a script has found, "" for nothing."""
    what = name.rpartition(".")[2]
    if what == "stream":
        if len(value) < 2:
            return f"came in {len(value)} parts"
        value = "".join(value)
    return "" if value == EXPECTED[what] else f"gave {str(value)[:LONGEST_REASON]!r}"


def run_steps(client: Client, place: Place) -> dict[str, str]:
    """Run the steps of a program; return the results by what was tried, "" for success."""
    assert client.steps is not None
    place.write(NOTE, RESULT + "\n")
    steps, variables = client.steps(place)
    return {name: tried(step, place, variables) for name, step in steps.items()}


def tried(step: Step, place: Place, variables: dict[str, str]) -> str:
    """Run one step; return what is wrong, "" for nothing."""
    try:
        printed = said(
            step.command, env=environment(place, **variables), cwd=place.folder, timeout=PATIENCE_S
        )
    except Failed as failed:
        return str(failed)
    found = (place.folder / step.file).read_text(encoding="utf-8") if step.file else printed
    return "" if step.expected in found else f"gave {found[-LONGEST_REASON:]!r}"


def result_of(client: Client, place: Place) -> dict[str, str]:
    """Install a client and try it."""
    try:
        install(client, place.installed)
        return (run_script if client.script else run_steps)(client, place)
    except Failed as failed:
        return {"installation" if not place.installed.exists() else "all": str(failed)}


def row(client: Client, results: dict[str, str]) -> str:
    """Return the client's line of the table."""
    apis: dict[str, list[str]] = {}
    for name in results:
        api, _, what = name.rpartition(".")
        apis.setdefault(api, []).append(what)
    tried_ = "; ".join(f"{api}: {', '.join(what)}" if api else ", ".join(what) for api, what in apis.items())
    wrong = [f"{name}: {reason}" for name, reason in results.items() if reason]
    result = "; ".join(wrong).replace("\n", " ").replace("|", "/") or "works"
    return f"| {client.name} | {client.version} | {tried_} | {result} |"


def write_table(rows: Mapping[str, str]) -> None:
    """Write the rows of these clients into the page; those of others stay."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(HEAD)
    old, _, after = rest.partition("\n\n")
    found = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines()} | dict(rows)
    lines = [found[client.name] for client in CLIENTS if client.name in found]
    PAGE.write_text(f"{before}{HEAD}" + "\n".join(lines) + f"\n\n{after}", encoding="utf-8")


def main() -> None:
    """Try the clients that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="tools/clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="clients whose names contain one of these; all by default")
    parser.add_argument(
        "--installed", type=Path, metavar="FOLDER", help="keep the installations in this folder"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the results into docs/reference/clients.md"
    )
    options = parser.parse_args()
    wanted = [name.lower() for name in options.names]
    clients = [one for one in CLIENTS if not wanted or any(name in one.name.lower() for name in wanted)]
    if not clients:
        known = ", ".join(one.name for one in CLIENTS)
        parser.error(f"no client's name contains {' or '.join(options.names)}; there are {known}")
    with tempfile.TemporaryDirectory(prefix="clients-") as scratch:
        rows, n_failed = try_all(clients, Path(scratch), options.installed)
    if options.write:
        write_table(rows)
    sys.exit(1 if n_failed else 0)


def try_all(clients: Sequence[Client], scratch: Path, kept: Path | None) -> tuple[dict[str, str], int]:
    """Try clients, one after the other, and print the table; return its rows by name, and how many fail."""
    model = scratch / "scripted.gguf"
    write_model(model, n_ctx=N_CTX)
    rows: dict[str, str] = {}
    n_failed = 0
    with ServerProcess(scratch / "server", "-m", str(model), "--ctx", str(N_CTX)) as server:
        for i, client in enumerate(clients):
            begun = time.monotonic()
            folder = scratch / f"work-{i}"
            folder.mkdir()
            name = "".join(letter if letter.isalnum() else "-" for letter in client.name.lower())
            place = Place(server.url, (kept or scratch / "installed").absolute() / name, folder)
            results = result_of(client, place)
            rows[client.name] = row(client, results)
            n_failed += any(results.values())
            print(f"{rows[client.name]}  {time.monotonic() - begun:.0f} s", flush=True)
            if kept is None:
                shutil.rmtree(place.installed, ignore_errors=True)
    return rows, n_failed


if __name__ == "__main__":
    main()
