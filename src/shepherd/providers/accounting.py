"""Characters per token of each remote model, kept between runs in a small file that may be lost."""

from __future__ import annotations

import json
import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shepherd._native.tokens import CharsPerToken, stripped_tokens
from shepherd.paths import state_dir, write_atomically

__all__ = ["Account", "Entry", "RatioStore", "answered", "settle", "shares", "update"]


_log = logging.getLogger(__name__)
_START = 3.5
# More models than anybody uses; the file cannot grow for ever.
_MOST_MODELS = 200


class RatioStore:
    """Load and saves averages by model. A damaged or unwritable file costs accuracy, nothing else."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or state_dir() / "chars-per-token.json"

    def load(self, model: str) -> CharsPerToken:
        """Return the average of a model as it was saved last, else the start value."""
        value = self._read().get(model, _START)
        return CharsPerToken(float(value) if isinstance(value, (int, float)) else _START)

    def save(self, model: str, ratio: CharsPerToken) -> None:
        """Keep it; the newest models stay when there are too many."""
        values = self._read()
        values.pop(model, None)
        values[model] = round(ratio.value, 4)
        newest = dict(list(values.items())[-_MOST_MODELS:])
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(newest, indent=1).encode("ascii"))
        except OSError as error:
            _log.info("%s: %s", self._path, error.strerror)

    def _read(self) -> dict[str, object]:
        try:
            values = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}


# What chat templates write around a message: role, markers, line feeds.
FRAME_TOKENS = 4
# Twice as many as in any language. A server that reports fewer tokens counted only the uncached ones.
_MOST_CHARS_PER_TOKEN = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """A message: `key` says which one it is, `chars` how long it was as sent. Not counted: an estimate."""

    key: str
    chars: int
    tokens: int = 0
    is_counted: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """The counts of one prompt, the baseline first."""

    entries: tuple[Entry, ...] = ()

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return sum(entry.tokens for entry in self.entries)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of each entry."""
        return tuple(entry.tokens for entry in self.entries)

    @property
    def uncounted_chars(self) -> int:
        """Characters whose tokens are estimates."""
        return sum(entry.chars for entry in self.entries if not entry.is_counted)


def update(before: Account, prompt: Iterable[Entry], ratio: CharsPerToken) -> Account:
    """Return the account of the next prompt: known counts, and estimates for new messages.

    Messages are found again by their key, each old one once, in order; what left the prompt is forgotten. Of
    one that became shorter, since its tail was stripped, the count shrinks in proportion; a longer one is
    new.
    """
    known: dict[str, deque[Entry]] = defaultdict(deque)
    for entry in before.entries:
        known[entry.key].append(entry)
    return Account(tuple(_found(entry, known[entry.key], ratio) for entry in prompt))


def _found(entry: Entry, known: deque[Entry], ratio: CharsPerToken) -> Entry:
    old = known.popleft() if known else None
    if old is None or not old.is_counted or entry.chars > old.chars:
        return replace(entry, tokens=ratio.estimate(entry.chars) + FRAME_TOKENS, is_counted=False)
    tokens = old.tokens
    if entry.chars < old.chars:
        tokens = stripped_tokens(old.chars, old.tokens, entry.chars)
    return replace(entry, tokens=tokens, is_counted=True)


def settle(account: Account, prompt_tokens: int) -> Account:
    """Return the account after the server has counted its prompt: all entries counted, their sum that number.

    Where the new entries cannot have cost what is left (fewer than one token each), the server counts
    otherwise than it did, and all entries share its number anew.
    """
    n_chars = sum(entry.chars for entry in account.entries)
    if prompt_tokens <= 0 or not account.entries or n_chars > _MOST_CHARS_PER_TOKEN * prompt_tokens:
        return account
    new = [i for i, entry in enumerate(account.entries) if not entry.is_counted]
    left = prompt_tokens - sum(entry.tokens for entry in account.entries if entry.is_counted)
    if not new and account.entries[0].tokens + left > 0:
        new, left = [0], account.entries[0].tokens + left  # the baseline bears what the template changed
    elif left < len(new) or not new:
        new, left = list(range(len(account.entries))), prompt_tokens
    counts = dict(zip(new, shares(left, [account.entries[i].tokens for i in new]), strict=True))
    return Account(
        tuple(
            replace(entry, tokens=counts.get(i, entry.tokens), is_counted=True)
            for i, entry in enumerate(account.entries)
        )
    )


def answered(account: Account, key: str, chars: int, tokens: int, *, is_counted: bool) -> Account:
    """Return the account with the answer to its prompt, which will be a message of the next one."""
    return Account((*account.entries, Entry(key, chars, tokens, is_counted)))


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts in proportion to the weights, by largest remainder; equal parts if all are 0.

    The parts add up to `total`, and none differs from its exact share by one or more.
    """
    if not any(weights):
        weights = [1] * len(weights)
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    # Largest remainder first, the earlier of equals.
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts
