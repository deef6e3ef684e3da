"""Who the model is and how it is to answer: personality and preferences, for P0 and P2.

Plain sentences, the same for the same settings. Over a budget, preferences go first, the last of them first;
base instructions and personality never do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shepherd.errors import UsageError
from shepherd.escaping import escape_lines
from shepherd.setting import listed

__all__ = ["FORMATS", "LEVELS", "STYLES", "VERBOSITIES", "Preferences", "personality", "preferences_block"]

STYLES = {
    "formal": "Write formally.",
    "professional": "Write in a professional and clear way.",
    "casual": "Write casually, as in a talk.",
    "friendly": "Write warmly, as a friend.",
}
VERBOSITIES = {
    "concise": "Keep answers short.",
    "moderate": "Give answers of moderate length.",
    "detailed": "Give thorough answers with details.",
}
LEVELS = {
    "beginner": "Explain in plain words, without jargon.",
    "intermediate": "Use technical terms, and explain the rarer ones briefly.",
    "expert": "Use technical language freely.",
}
FORMATS = {
    "bullets": "Use bullet points for lists.",
    "numbered lists": "Use numbered lists for steps.",
    "code blocks": "Put code into code blocks.",
    "links": "Give links to sources.",
}
_PERSONALITIES = {
    "helpful": "You are helpful: accurate, to the point, and honest about what you do not know.",
    "conversational": "You are a friendly companion to talk with: lively and natural.",
}
_HEADLINE = "User preferences:"
_LONGEST_LINE = 500
_LONGEST_PERSONALITY = 4000
_LINE_ENDS = ("\n", ";")


@dataclass(frozen=True, slots=True)
class Preferences:
    """How a user wants to be answered; empty fields say nothing. `lines` are in the user's own words."""

    style: str = ""
    verbosity: str = ""
    level: str = ""
    formatting: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, style: str, verbosity: str, level: str, formatting: str, lines: str) -> Preferences:
        """From settings: `formatting` with commas, `lines` with line feeds or semicolons between them.

        Raises UsageError for a format that there is none of.
        """
        try:
            formats = listed(formatting, FORMATS)
        except ValueError as error:
            raise UsageError(f"answer_formatting: {error}", hint=f"formats: {', '.join(FORMATS)}") from None
        own = lines.replace(_LINE_ENDS[1], _LINE_ENDS[0]).splitlines()
        return cls(style, verbosity, level, formats, tuple(line.strip() for line in own if line.strip()))

    @property
    def sentences(self) -> list[str]:
        """One a line, the first the last to go."""
        asked = [
            STYLES.get(self.style, ""),
            VERBOSITIES.get(self.verbosity, ""),
            LEVELS.get(self.level, ""),
            *(FORMATS[name] for name in FORMATS if name in self.formatting),
            *(escape_lines(line, _LONGEST_LINE) for line in self.lines),
        ]
        return list(dict.fromkeys(filter(None, asked)))


def personality(text: str) -> str:
    """The sentence for `helpful`, `conversational` or `expert in …`; any other text describes itself."""
    wanted = text.strip()
    if domain := wanted.removeprefix("expert in ") if wanted.startswith("expert in ") else "":
        return f"You are an expert in {domain}. Give precise answers with the details that matter."
    return _PERSONALITIES.get(wanted, wanted[:_LONGEST_PERSONALITY])


def preferences_block(preferences: Preferences, fits: Callable[[str], bool]) -> str:
    """`User preferences:` and its lines, as many from the first on as `fits` says yes to; or nothing."""
    lines = preferences.sentences
    while lines:
        block = "\n".join([_HEADLINE, *lines])
        if fits(block):
            return block
        lines.pop()
    return ""
