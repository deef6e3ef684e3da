"""Make stored text harmless before a model sees it: it can be read, but never taken for structure.

One rule covers everything that has a meaning in a prompt: an ASCII character that would be read as structure
is replaced by its fullwidth twin (U+FF3D for `]`, U+FF5C for `|`). People and models still read the text, no
backslash has to be undone, a client that looks for the next `]` finds the real one, and NFKC folds the twins
back. Escaping twice changes nothing.

What is replaced, and only that:

    [ ]                    always: they open and close our blocks, and [INST] is a marker of its own
    |                      standing alone (` | ` separates results)
    <  >                   in special tokens: <|im_start|>, <start_of_turn>, </s>, <<SYS>>, <think>
    :                      after a role at the start of a line, and after User, Assistant, System anywhere
    =                      in a fact's key, and after ", " in its value (`, key=` starts the next fact)
    line breaks            by the two characters \\n
    control characters     by their pictures (U+241B for escape), C1 and lone surrogates by U+FFFD
    bidi, zero-width, tags removed: they are invisible, and reorder or hide what is read
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["escape_fact_key", "escape_fact_value", "escape_lines", "escape_text", "shorten", "storable"]

ELLIPSIS = "…"

_TWIN = {ord(c): chr(ord(c) + 0xFEE0) for c in "[]|:<>=,"}
_BRACKETS = {ord(c): _TWIN[ord(c)] for c in "[]"}
_EQUALS = {0x3D: _TWIN[0x3D]}
# What opens a block where it begins a line: [facts: …], [USER], === FOCUSED NODES ===.
_BLOCK_LINE = re.compile(r"[\[\uff3b]|={3,}")
_BLOCK_TWINS = {**_BRACKETS, **_EQUALS}
_KEY_TWINS = {ord(c): _TWIN[ord(c)] for c in "=,"}
_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    0x09: " ",
    0x7F: "\u2421",
}
# Soft hyphen, Mongolian vowel separator, zero-width space, bidi marks, embeddings, overrides and isolates,
# word joiner and invisible operators, byte order mark, interlinear annotations, tag characters.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# The joiners are spelling in Persian, the Indic scripts and emoji, and only there.
_STRAY_JOINER = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")
_SURROGATE = re.compile("[\ud800-\udfff]")

_ROLES = "user|assistant|system|human|developer|tool|function|ipython|model|bot|ai"
_SHOWN_ROLES = "User|USER|Assistant|ASSISTANT|System|SYSTEM|Human|HUMAN"
_ROLE_COLON = re.compile(
    # At the start of a value or of one of its lines (by now `\n` in two characters), in any case, behind
    # quote or list marks; elsewhere only spelled as our own block and the common templates write them.
    rf"((?:\A|\\n)[\s>*#_-]*(?i:{_ROLES})[\s*_]*|(?<![^\W_])(?:{_SHOWN_ROLES})\s*):"
)
_LONE_BAR = re.compile(r"(?<!\S)\|(?!\S)")
_SPECIAL_TOKEN = re.compile(
    r"<(?=[|\uff5c])|(?<=[|\uff5c])>|<(?=<\s*/?\s*SYS\s*>)|<(?=/?(?:"
    r"s|bos|eos|eot|pad|unk|mask|sep|cls|sop|eop|sys|think|thinking|image|audio|video|unused\d+|0x[0-9a-f]{2}"
    r"|tools?|tool_\w+|im_\w+|fim_\w+|file_\w+|extra_id_\w+|reserved_\w+|begin_\w+|start_\w+|end_\w+)>)",
    re.IGNORECASE,
)


def storable(text: str) -> str:
    """`text` as UTF-8 can hold it: surrogate pairs joined, lone surrogates (undecodable input) as U+FFFD."""
    if text.isascii():  # constant time: a flag of the string object
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def escape_text(text: str, limit: int) -> str:
    """Return a question, answer or other value as it may stand inside a block, at most `limit` characters."""
    return shorten(_structure(_visible(_beginning(text, limit))), limit)


def escape_lines(text: str, limit: int) -> str:
    """Return a message with its lines, for places where turns stand one below the other.

    No line of it begins a block or speaks for somebody else; brackets inside a line stay, as code has them.
    """
    lines = [_spoken(line) for line in _beginning(text, limit).splitlines()]
    return shorten("\n".join(lines).strip("\n"), limit)


def escape_fact_value(text: str, limit: int) -> str:
    """Return a fact's value. `Austin, Texas` stays; `Austin, admin=yes` cannot pass for two facts."""
    escaped = escape_text(text, limit)
    if "=" in escaped and ", " in escaped:
        first, rest = escaped.split(", ", 1)
        escaped = f"{first}, {rest.translate(_EQUALS)}"
    return escaped


def escape_fact_key(text: str, limit: int) -> str:
    """Return a fact's key: as a value, and without `=` and `,`."""
    return escape_text(text, limit).translate(_KEY_TWINS)


def shorten(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, cut between graphemes, with an ellipsis for what is missing."""
    if len(text) <= limit:
        return text
    end = max(limit - len(ELLIPSIS), 0)
    while end > 0 and _joins(text, end):
        end -= 1
    return text[:end].rstrip() + ELLIPSIS if limit > 0 else ""


def _spoken(line: str) -> str:
    clean = _visible(line)
    indent = line[: len(line) - len(line.lstrip(" "))] if clean else ""
    if ":" in clean:
        clean = _ROLE_COLON.sub("\\1" + _TWIN[0x3A], clean)
    if "<" in clean or ">" in clean:
        clean = _SPECIAL_TOKEN.sub(lambda match: _TWIN[ord(match[0])], clean)
    if _BLOCK_LINE.match(clean):
        clean = clean.translate(_BLOCK_TWINS)
    return indent + clean


def _beginning(text: str, limit: int) -> str:
    # A 10 MB value is not escaped in full to show its first line. The factor leaves room for what escaping
    # removes; should that not be enough, what is shown is shorter than it could be, never wrong.
    enough = 4 * limit + 64
    return text if len(text) <= enough else text[:enough] + ELLIPSIS


def _visible(text: str) -> str:
    """One line without characters that cannot be seen."""
    # isprintable() knows controls, format characters, separators and surrogates, at C speed.
    if text.isprintable():
        return text.strip()
    text = _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", text))
    # Indentation stays: lists and code are read by it. Blank lines and trailing blanks do not.
    lines = [line.rstrip() for line in text.strip().splitlines()]
    text = "\\n".join(line for line in lines if line)
    return _STRAY_JOINER.sub("", text.translate(_CONTROLS)).strip()


def _structure(text: str) -> str:
    """`text` with every character that could be taken for structure replaced by its twin."""
    # A few memchr calls decide for most text that nothing has to be done; the patterns cost 10 times that.
    if ":" in text:
        text = _ROLE_COLON.sub("\\1" + _TWIN[0x3A], text)
    if "<" in text or ">" in text:
        text = _SPECIAL_TOKEN.sub(lambda match: _TWIN[ord(match[0])], text)
    if "|" in text:
        text = _LONE_BAR.sub(_TWIN[0x7C], text)
    if "[" in text or "]" in text:
        text = text.translate(_BRACKETS)
    return text


def _joins(text: str, index: int) -> bool:
    """Return whether the character at `index` belongs to the grapheme of the one before it."""
    char, before = text[index], text[index - 1]
    if char.isascii():
        return False
    code = ord(char)
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or code == 0x200D
        or before == "\u200d"
        or 0x1F3FB <= code <= 0x1F3FF  # skin tones
        or 0x1160 <= code <= 0x11FF  # Hangul vowels and final consonants
        or (_is_regional(code) and _is_inside_flag(text, index))
    )


def _is_regional(code: int) -> bool:
    return 0x1F1E6 <= code <= 0x1F1FF


def _is_inside_flag(text: str, index: int) -> bool:
    # Flags are pairs of regional letters: a cut may fall between two flags, not inside one.
    count = 0
    while index - count > 0 and _is_regional(ord(text[index - count - 1])):
        count += 1
    return count % 2 == 1
