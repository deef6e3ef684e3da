"""Child process with MeTTa's runtime, which calls back for the predicates.

Each message is a line of JSON. It receives {"names": […]}, then {"run": text}. It sends {"call": name,
"arguments": […]}, which is answered with {"value": …} or {"error": text}, and finally {"results": […]} or
{"error": text}. What MeTTa prints goes to standard error. Run by shepherd.metta.process, never imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO


def main() -> int:
    """Serve until the other end closes."""
    # Other output on standard output would garble the lines.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines = iter(sys.stdin.buffer.readline, b"")
    names = json.loads(next(lines))["names"]
    runtime = _Runtime(names, lambda asked: _exchanged(out, asked, lines))
    _put(out, {"ready": True})
    for line in lines:
        _put(out, runtime.run(json.loads(line)["run"]))
    return 0


class _Runtime:
    def __init__(self, names: list[str], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        import hyperon  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self._hyperon = hyperon
        self._ask = ask
        self._metta = hyperon.MeTTa()
        for name in names:
            self._metta.register_atom(name, hyperon.OperationAtom(name, self._operation(name), unwrap=False))

    def run(self, text: str) -> dict[str, Any]:
        """Return the results of each expression with `!` in a text."""
        try:
            return {"results": [[self._wire(atom) for atom in atoms] for atoms in self._metta.run(text)]}
        except RuntimeError as error:  # a text that cannot be parsed
            return {"error": str(error)}

    def _operation(self, name: str) -> Callable[..., list[Any]]:
        def call(*arguments: Any) -> list[Any]:
            answer = self._ask({"call": name, "arguments": [self._wire(atom) for atom in arguments]})
            h = self._hyperon
            if "error" in answer:
                return [h.E(h.S("Error"), h.E(h.S(name), *arguments), h.ValueAtom(answer["error"]))]
            return [self._atom(answer["value"])]

        return call

    def _wire(self, atom: Any) -> Any:
        h = self._hyperon
        if isinstance(atom, h.ExpressionAtom):
            return [self._wire(child) for child in atom.get_children()]
        if isinstance(atom, h.GroundedAtom):
            try:
                content = getattr(atom.get_object(), "content", None)
            except TypeError:  # made by the runtime itself, such as a space
                content = None
            if isinstance(content, (str, int, float)):
                return content
        return {"s": str(atom)}

    def _atom(self, thing: Any) -> Any:
        h = self._hyperon
        if isinstance(thing, dict):
            return h.S(thing["s"])
        if isinstance(thing, list):
            return h.E(*(self._atom(part) for part in thing))
        return h.ValueAtom(thing)


def _exchanged(out: TextIO, asked: dict[str, Any], lines: Any) -> dict[str, Any]:
    _put(out, asked)
    answer: dict[str, Any] = json.loads(next(lines))
    return answer


def _put(out: TextIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
