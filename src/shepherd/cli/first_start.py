"""The first start at a terminal: once, the user may choose a full model instead of the bundled one.

The choices are models that fit this machine's memory, and those of a server that answers on its usual port.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import shepherd
from shepherd.commands.screen import Screen, printable, shortened
from shepherd.config import Config
from shepherd.config.file import ConfigFile
from shepherd.errors import ShepherdError
from shepherd.installation import install_extra
from shepherd.paths import state_dir
from shepherd.providers import ProviderTable

__all__ = ["FullModel", "offer_full_model", "served_models"]

_LIST = Path(shepherd.__file__).parent / "models" / "full_models.txt"
_MOST_DOWNLOADS, _MOST_SERVED = 3, 3
# Servers and their usual ports on this machine: what people call them, name and kind of the provider, port.
_SERVERS = (("Ollama", "ollama", "ollama", 11434), ("llama-server", "llama-server", "openai", 8080))
_HOST = "127.0.0.1"
_TIMEOUT_S = 0.25
_LONGEST_ANSWER = 1 << 18
# These talk to nobody, or are not on this machine.
_OTHER_MODELS = ("embed", "bge-", "rerank", "cloud")


@dataclass(frozen=True, slots=True)
class FullModel:
    """A choice: a download, or a model that a server on this machine has (`provider`, `kind`, `port`)."""

    name: str
    megabytes: int = 0
    memory_mb: int = 0
    server: str = ""
    provider: str = ""
    kind: str = ""
    port: int = 0

    def in_words(self) -> str:
        """Return the line of the list."""
        if self.server:
            return f"{shortened(self.name, 40):40}  from {self.server} on this machine"
        return f"{self.name:40}  downloads {self.megabytes / 1000:.1f} GB"


def offer_full_model(config: Config, model: str, screen: Screen) -> tuple[Config, str]:
    """Offer a full model if this is the first start at a terminal and none is chosen.

    Returns the settings and the model of this run. What is chosen is saved in the settings; a download that
    fails changes nothing.
    """
    provider = ProviderTable().configured(config.provider)
    is_chosen = bool(model or config.model or provider.model) or not provider.is_local
    if is_chosen or not _is_at_terminal(screen) or not _is_first():
        return config, model
    served = list(served_models())
    can_use_servers = find_spec("openai") is not None
    choices = [*(served if can_use_servers else ()), *_downloads()]
    if not choices:
        return config, model
    if served and not can_use_servers:
        screen.note(
            f"{served[0].server} runs on this machine. To choose its models with shepherd provider add, "
            f"first run {install_extra('openai')}"
        )
    chosen = _asked(choices, screen)
    if chosen is None:
        screen.note(
            "The demo model stays. To choose another one later: shepherd -m NAME,"
            " or shepherd config set model NAME"
        )
        return config, model
    return _taken(chosen, config, model, screen)


def served_models() -> Iterator[FullModel]:
    """Yield the models of servers that answer on this machine; one that hangs costs a quarter of a second."""
    for server, provider, kind, usual_port in _SERVERS:
        port = _ollama_port(usual_port) if provider == "ollama" else usual_port
        names = [name for name in _names(_answer(port)) if not any(other in name for other in _OTHER_MODELS)]
        for name in names[:_MOST_SERVED]:
            yield FullModel(name, server=server, provider=provider, kind=kind, port=port)


def _ollama_port(usual_port: int) -> int:
    """Return the port of OLLAMA_HOST, which has the forms "host", "host:port" and ":port"."""
    named = os.environ.get("OLLAMA_HOST", "").rpartition(":")[2]
    return int(named) if named.isdecimal() and 0 < int(named) < 65536 else usual_port


def _is_at_terminal(screen: Screen) -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and screen.err_is_terminal


def _is_first() -> bool:
    """Return whether nobody was asked before, and take note that the user is now."""
    asked = state_dir() / "first-start"
    try:
        asked.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        asked.open("x").close()
    except OSError:  # it exists, or cannot be noted: then the next start would ask again
        return False
    return True


def _downloads() -> list[FullModel]:
    """Return the largest models that fit into the free memory, the smallest of them first."""
    from shepherd.inference.load_check import available_bytes

    available = available_bytes()
    rows = (line.split("|") for line in _LIST.read_text("utf-8").splitlines() if not line.startswith("#"))
    models = [FullModel(name.strip(), int(size), int(memory)) for name, size, memory in rows]
    fitting = [m for m in models if available is None or m.memory_mb * 1_000_000 <= available]
    return fitting[-_MOST_DOWNLOADS:]


def _answer(port: int) -> bytes:
    """Return what a server says to `GET /v1/models`, b"" where none answers in time."""
    request = f"GET /v1/models HTTP/1.0\r\nHost: {_HOST}:{port}\r\nAccept: application/json\r\n\r\n"
    pieces: list[bytes] = []
    end = time.monotonic() + _TIMEOUT_S
    try:
        with socket.create_connection((_HOST, port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(request.encode())
            while sum(map(len, pieces)) < _LONGEST_ANSWER and (piece := connection.recv(1 << 16)):
                pieces.append(piece)
                connection.settimeout(max(end - time.monotonic(), 0.001))
    except OSError:
        return b""
    return b"".join(pieces)


def _names(answer: bytes) -> list[str]:
    """Return the names in a list of models, as OpenAI's API has it; [] for anything else."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        return []
    try:
        names = [model["id"] for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return []
    return [name for name in names if isinstance(name, str) and name and name == printable(name)]


def _asked(choices: Sequence[FullModel], screen: Screen) -> FullModel | None:
    """Let the user choose by number; None for the bundled model."""
    screen.note("Shepherd's bundled demo model can remember and recall, and nothing more.")
    screen.note("A full model can do the rest; a larger one answers better and more slowly. Choose one:")
    screen.note()
    for number, choice in enumerate(choices, 1):
        screen.note(f"  {number}  {choice.in_words()}")
    stay = len(choices) + 1
    screen.note(f"  {stay}  none: stay with the demo model")
    screen.note()
    while True:
        text = screen.ask(f"Number (Enter: {stay}) ")
        if text in ("", str(stay)):
            return None
        if text.isdecimal() and 0 < int(text) < stay:
            return choices[int(text) - 1]
        screen.note(f"Type a number from 1 to {stay}.")


def _taken(chosen: FullModel, config: Config, model: str, screen: Screen) -> tuple[Config, str]:
    """Fetch the model, or add its server, and save that it answers from now on."""
    try:
        if chosen.server:
            return _with_server(chosen, config, screen), model
        return _with_download(chosen, config, screen), model
    except ShepherdError as error:
        screen.warn(str(error), error.hint)
    except KeyboardInterrupt:
        pass
    screen.note("The demo model answers for now.")
    return config, model


def _with_download(chosen: FullModel, config: Config, screen: Screen) -> Config:
    from shepherd.cli.progress import downloads
    from shepherd.model_files import model_path

    with downloads(screen, again=f"shepherd -m {chosen.name}") as report:
        model_path(replace(config, model=chosen.name), report)
    ConfigFile().set("model", chosen.name)
    screen.note(f"Saved: model = {chosen.name}")
    return replace(config, model=chosen.name)


def _with_server(chosen: FullModel, config: Config, screen: Screen) -> Config:
    """Add the server as a provider. It is on this machine, so that the memory can be used with it."""
    table = ProviderTable()
    entry = {
        "kind": chosen.kind,
        "model": chosen.name,
        "base_url": f"http://{_HOST}:{chosen.port}/v1",
        "memory": True,
    }
    if chosen.provider not in table.names():
        table.add(chosen.provider, entry)
    else:
        for key in ("model", "base_url"):
            table.set(chosen.provider, key, str(entry[key]))
    ConfigFile().set("provider", chosen.provider)
    screen.note(
        f"Saved: provider = {chosen.provider}, with your memory. To undo: shepherd provider use local"
    )
    return replace(config, provider=chosen.provider)
