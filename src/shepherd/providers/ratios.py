"""Characters per token of each remote model, kept between runs in a small file that may be lost."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from shepherd._native.tokens import CharsPerToken
from shepherd.atomic_file import write_atomically
from shepherd.paths import state_dir

__all__ = ["RatioStore"]

_log = logging.getLogger(__name__)
_START = 3.5
# More models than anybody uses; the file cannot grow for ever.
_MOST_MODELS = 200


class RatioStore:
    """Loads and saves averages by model. A damaged or unwritable file costs accuracy, nothing else."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or state_dir() / "chars-per-token.json"

    def load(self, model: str) -> CharsPerToken:
        """The average of a model as it was saved last, else the start value."""
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
