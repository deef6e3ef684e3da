"""Notes as a list of observations: one a line, and a line with an indent continues it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shepherd.escaping import storable

__all__ = ["cleaned_observation", "observations_of", "with_more", "without", "written"]

_INDENT = "  "


def cleaned_observation(text: str) -> str:
    """Return an observation as it is read again: trimmed, with `\\n` as line break."""
    first, *rest = storable(text).replace("\r\n", "\n").strip().split("\n")
    return "\n".join((first.rstrip(), *rest))


def observations_of(notes: str) -> list[str]:
    """Return the observations in notes."""
    return [text for text, _ in _blocks(notes) if text]


def _blocks(notes: str) -> list[tuple[str, list[str]]]:
    """Return observations with the lines that they consist of; blank lines are blocks with the text ""."""
    found: list[tuple[str, list[str]]] = []
    for line in notes.split("\n"):
        if line.startswith(_INDENT) and found and found[-1][0]:
            text, lines = found[-1]
            found[-1] = f"{text}\n{line[len(_INDENT) :]}", [*lines, line]
        else:
            found.append((line.strip(), [line]))
    return found


def written(observations: Iterable[str]) -> str:
    """Return notes that consist of these observations."""
    return "\n".join(text.replace("\n", f"\n{_INDENT}") for text in observations)


def with_more(notes: str, added: Sequence[str]) -> str:
    """Return notes with more observations at the end."""
    return "\n".join(filter(None, (notes.rstrip("\n"), written(added))))


def without(notes: str, removed: frozenset[str]) -> tuple[str, int]:
    """Return notes without some observations, otherwise as they were, and how many were removed."""
    blocks = _blocks(notes)
    kept = [lines for text, lines in blocks if not (text and text in removed)]
    return "\n".join(line for lines in kept for line in lines).strip("\n"), len(blocks) - len(kept)
