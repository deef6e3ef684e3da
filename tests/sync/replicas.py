"""Machines in one process, each with its own memory, clock and copy of the folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shepherd.encryption.key import Argon2
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, learned
from shepherd.memory.records import Claim, Evidence
from shepherd.sync import Report, sync

NOW = 1_700_000_000
PASSPHRASE = "four random words here"


class Killed(BaseException):
    """Ends a sync in the middle, as a signal would."""


def same_every_time() -> Iterator[None]:
    """Make ids the same in every run, segments small, and the passphrase cheap."""
    source = random.Random(1)

    class Id:
        def __init__(self) -> None:
            self.hex = f"{source.getrandbits(128):032x}"

    with (
        patch("shepherd.sync.memories.uuid4", Id),
        patch("shepherd.sync.facts.uuid4", Id),
        patch("shepherd.sync.knowledge.uuid4", Id),
        patch("shepherd.knowledge.nodes.uuid4", Id),
        patch("shepherd.sync.run.secrets.token_hex", lambda n: f"{source.getrandbits(8 * n):0{2 * n}x}"),
        patch("shepherd.sync.folder.USUAL_COST", Argon2(8, 1, 1)),
        # A few frames.
        patch("shepherd.sync.registers._SEGMENT_BYTES", 1000),
    ):
        yield


class Machine:
    """One machine; `skew_s` is how far its clock is ahead."""

    def __init__(self, folder: Path, name: str, skew_s: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.skew_s, self.time = name, skew_s, NOW
        self.forgotten: set[str] = set()
        self.user = f"{name}:steve"
        self.path = folder / f"{name}.db"
        self.folder = folder / f"{name}-folder"
        self.folder.mkdir(exist_ok=True)
        self.open()

    def open(self) -> None:
        self.memory = Memory(self.path, user_id=self.user, clock=self.now)
        self.knowledge = Knowledge(self.memory.transactions, self.memory.user_id, clock=self.now)

    def close(self) -> None:
        self.memory.close()

    def now(self) -> float:
        return self.time + self.skew_s

    def do(self, change: Callable[[], Any], time: int) -> Any:
        """Change something at a time by the common clock; the log gets this machine's."""
        self.time = time
        store = self.memory.transactions
        synced = store.read(lambda c: c.execute("SELECT 1 FROM sqlite_master WHERE name = 'sync_log'"))
        if not synced:
            return change()
        [(last,)] = store.read(lambda c: c.execute("SELECT coalesce(max(seq), 0) FROM sync_log"))
        result = change()
        at = int(self.now() * 1000)
        store.write("", lambda c: c.execute("UPDATE sync_log SET at = ? WHERE seq > ?", (at, last)))
        return result

    def sync(self, kill_at: int = 0) -> Report | None:
        """Sync with the own copy of the folder; `kill_at`: end at that step, 0 for never."""
        if not kill_at:
            return sync(self.memory, self.folder, lambda is_new: PASSPHRASE)
        store, steps = self.memory.transactions, 0
        write = store.write

        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == kill_at:
                raise Killed
            result = write(*arguments, **options)
            if steps == kill_at - 1 and kill_at % 2:
                raise Killed
            return result

        with patch.object(store, "write", step):
            try:
                return sync(self.memory, self.folder, lambda is_new: PASSPHRASE)
            except Killed:
                return None

    def carry_to(self, other: Machine, share: float = 1.0) -> None:
        """Copy this machine's segments to another, as a sync tool does; the last one in part."""
        key = self.folder / "shepherd-sync.json"
        if key.exists():
            (other.folder / key.name).write_bytes(key.read_bytes())
        own = self.id()
        names = sorted(self.folder.glob(f"{own}-*"))
        for file in names:
            if file.exists():
                data = file.read_bytes()
                is_last = file == names[-1]
                (other.folder / file.name).write_bytes(data[: int(len(data) * share)] if is_last else data)
        for file in other.folder.glob(f"{own}-*"):
            if not (self.folder / file.name).exists():
                file.unlink()

    def id(self) -> str:
        """The id of this machine in the folder."""
        return self.memory.transactions.read(_own_id)

    def learn(self, key: str, value: str, session: str = "s") -> None:
        """Learn a fact from a sentence."""
        at = int(self.now())
        claim = Claim(key, value, f"My {key} is {value}.")
        evidence = Evidence(claim.statement, session, 0)
        self.memory.transactions.write(
            self.memory.user_id,
            lambda c: learned.learn_fact(
                c, self.memory.user_id, claim, since=at, told_at=at, evidence=evidence
            ),
        )

    def exported(self) -> list[str]:
        """All that is synced, as the exports have it, without local ids and in one order."""
        lines = []
        for line in self.memory.export_memories():
            if line["type"] != "shepherd-export":
                line.pop("id", None)
                lines.append(line)
        origins = {}
        for line in self.knowledge_lines():
            if line["type"] == "node":
                origins[line.pop("id")] = line["origin"]
            if line["type"] == "edge":
                line.pop("id")
                for end in ("from_node_id", "to_node_id"):
                    line[end] = origins[line[end]]
            lines.append(line)
        return sorted(json.dumps(line, sort_keys=True) for line in lines)

    def knowledge_lines(self) -> Iterator[dict[str, Any]]:
        from shepherd.knowledge import transfer

        return transfer.records(self.knowledge)


def _own_id(connection: Any) -> str:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sync_state'"):
        return "none"
    return str(connection.execute("SELECT value FROM sync_state WHERE key = 'machine'")[0][0])


def settle(machines: list[Machine], rounds: int = 4) -> None:
    """Let all machines hear of everything."""
    for _ in range(rounds):
        for machine in machines:
            machine.sync()
            for other in machines:
                if other is not machine:
                    machine.carry_to(other)


def copy_of(machine: Machine, name: str) -> None:
    """Copy the database beside it, as a backup does."""
    machine.memory.backup(machine.path.with_name(name))


def restore(machine: Machine, name: str) -> None:
    """Replace the database by a copy."""
    machine.close()
    for ending in ("", "-wal", "-shm"):
        machine.path.with_name(machine.path.name + ending).unlink(missing_ok=True)
    shutil.copy(machine.path.with_name(name), machine.path)
    machine.open()
