"""Make stored text harmless before a model sees it: it can be read, but never taken for structure.

One rule covers everything that has a meaning in a prompt: an ASCII character that would be read as structure
is replaced by its fullwidth twin (U+FF3D for `]`, U+FF5C for `|`). People and models still read the text, no
backslash has to be undone, a client that looks for the next `]` finds the real one, and NFKC folds the twins
back. Escaping twice changes nothing.

What is replaced, and only that:

    [ ]                    always: they open and close our blocks, and [INST] is a marker of its own
    |                      standing alone (` | ` separates results)
    <  >                   in special tokens and tags of tool calls: <|im_start|>, </s>, <<SYS>>, <function=
    :                      after a role at the start of a line, and after User, Assistant, System anywhere
    =                      in a fact's key, and after ", " in its value (`, key=` starts the next fact)
    line breaks            by the two characters \\n
    control characters     by their pictures (U+241B for escape), C1 and lone surrogates by U+FFFD
    bidi, zero-width, tags removed: they are invisible, and reorder or hide what is read

Roles and tokens are recognised in disguise, too: with invisible characters inside, and with letters that look
like the Latin ones (fullwidth, mathematical, Cyrillic, Greek …). Other text in these letters is not changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

__all__ = [
    "ATTACHED",
    "PIPED",
    "escape_fact_key",
    "escape_fact_value",
    "escape_lines",
    "escape_text",
    "shorten",
    "storable",
    "without_blocks",
    "without_openings",
]

# Begins the block of a document that the user attached to a message.
ATTACHED = "[attached: "
# The name of such a block with what was piped in.
PIPED = "stdin"

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

# Opens a block of memory, as our tails and those of other programs write it.
_BLOCK = re.compile(
    r"[\[\uff3b]\s*(?:facts|context|(?:the user['\u2019]s )?instructions|knowledge|entities|memor(?:y|ies)"
    r"|focused nodes?|conversation summary|source)\s*[:\uff1a]",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[\[\]\uff3b\uff3d]")

_ROLES = "user|assistant|system|human|developer|tool|function|ipython|model|bot|ai"
_SHOWN_ROLES = "User|USER|Assistant|ASSISTANT|System|SYSTEM|Human|HUMAN"
_ROLE_NAMES = tuple(_ROLES.split("|"))
_ROLE_COLON = re.compile(
    # At the start of a value or of one of its lines (by now `\n` in two characters), in any case, behind
    # quote or list marks; elsewhere only spelled as our own block and the common templates write them.
    rf"((?:\A|\\n)[\s>*#_-]*(?i:{_ROLES})[\s*_]*|(?<![^\W_])(?:{_SHOWN_ROLES})\s*):"
)
_LONE_BAR = re.compile(r"(?<!\S)\|(?!\S)")
# Each way begins with a bracket, so that a search skips all other characters fast.
_TOKEN = re.compile(
    r">(?<=[|\uff5c]>)|<(?=[|\uff5c]|<\s*/?\s*SYS\s*>|(/?)(?:\w{1,16}:)?(\w{1,48})(>|=| name=))",
    re.IGNORECASE,
)
_TOKEN_NAMES = frozenset(
    ("s", "bos", "eos", "eot", "pad", "unk", "mask", "sep", "cls", "sop", "eop", "sys", "think", "thinking",
     "image", "audio", "video", "tool", "tools", "toolcall", "escape", "function", "function_calls", "invoke",
     "channel")
)  # fmt: skip
_TOKEN_PREFIXES = (
    "tool_", "im_", "fim_", "file_", "extra_id_", "reserved_", "begin_", "start_", "end_", "arg_"
)  # fmt: skip
_NUMBERED_TOKEN = re.compile(r"unused\d+|0x[0-9a-f]{2}")

# ---- disguises

# Unicode's default-ignorable characters that may stay in a text, such as variation selectors of emoji, and
# blanks without width or ink. Each of the two ligatures is two letters.
_HIDDEN_RANGES = (
    (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200C, 0x200D), (0x2065, 0x2065),
    (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0100, 0xE01EF),
)  # fmt: skip
_HIDDEN = "".join(chr(code) for first, last in _HIDDEN_RANGES for code in range(first, last + 1))
_LIGATURES = "\ufb05\ufb06"
_DISGUISE = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _HIDDEN_RANGES) + _LIGATURES + "]"
)
# A text with more of them is looked at in full.
_FEW_DISGUISES = 16
# What may stand between a role and its colon.
_BLANKS = " \t\xa0*_" + _HIDDEN
_LONGEST_ROLE = 9
_TAG = re.compile(r"<[^<>=]{1,80}?(?:>|=| name=)|<[^\w<>=]{1,16}[|\uff5c]")
# A word before a colon or inside a tag; circled and squared letters are symbols, not letters.
_LETTER = "(?:[^\\W\\d_]|[\u24b6-\u24e9\U0001f110-\U0001f189])"
_LABEL = re.compile(
    rf"{_LETTER}{{2,9}}(?=[\s*_]*:)"
    rf"|(?<=<)/?(?:\w|{_LETTER}){{1,24}}|(?<=:)(?:\w|{_LETTER}){{1,24}}(?=>)"
)
# Letters that look like Latin ones, beside those that NFKC maps. Source: Unicode's UTS 39, confusables.txt,
# and small capitals.
_LOOKALIKES = {
    letter: latin
    for letters, latins in (
        (  # Cyrillic
            "\u0430\u0432\u0441\u0501\u0435\u0493\u04bb\u0456\u0458\u043a\u04cf\u043c\u043f\u043e\u0440\u051b"
            "\u0433\u0455\u0442\u0446\u0475\u051d\u0445\u0443\u04af\u044c\u044f\u0410\u0412\u0421\u0500\u0415"
            "\u050c\u041d\u0406\u0408\u041a\u04c0\u041c\u041e\u0420\u051a\u0405\u0422\u0474\u051c\u0425\u0423"
            "\u04ae\u042c",
            "abcdefhijklmnopqrstuvwxyybrabcdeghijklmopqstvwxyyb",
        ),
        (  # Greek
            "\u03b1\u03b2\u03f2\u03b5\u03b7\u03b9\u03f3\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c9\u03c7"
            "\u03b3\u0391\u0392\u03f9\u0395\u0397\u0399\u037f\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
            "\u0396",
            "abcenijkuvoptuwxyabcehijkmnoptyxz",
        ),
        (  # Armenian
            "\u057d\u0585\u0570\u0578\u0581\u0566\u0575\u0561\u054f\u054d\u0555\u053c",
            "uohngqjwsuol",
        ),
        (  # Cherokee
            "\u13aa\u13f4\u13df\u13a0\u13ac\u13c0\u13bb\u13ab\u13e6\u13de\u13b7\u13e2\u13a1\u13da\u13a2\u13d9"
            "\u13b3\u13c3\u13a5\u13bd",
            "abcdeghjklmprstvwziy",
        ),
        (  # Lisu
            "\ua4ee\ua4d0\ua4da\ua4d3\ua4f0\ua4dd\ua4d6\ua4e7\ua4f2\ua4d9\ua4d7\ua4e1\ua4df\ua4e0\ua4f3\ua4d1"
            "\ua4e3\ua4e2\ua4d4\ua4f4\ua4e6\ua4ea\ua4eb\ua4ec\ua4dc",
            "abcdefghijklmnoprstuvwxyz",
        ),
        (  # Latin
            "\u0131\u0237\u0251\u0261\u0269\u028f\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a"
            "\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u1d22\u01c0\u0184\u0185",
            "ijagiyabcdefghijklmnoprstuvwzlbb",
        ),
    )
    for letter, latin in zip(letters, latins, strict=True)
}
# Ordinary words of Russian and Greek that look like these.
_ORDINARY = ("bot", "ai")


def storable(text: str) -> str:
    """`text` as UTF-8 can hold it: surrogate pairs joined, lone surrogates (undecodable input) as U+FFFD.

    Surrogates that stand for bytes of UTF-8, as in an argument under the locale C, become its letters.
    """
    if text.isascii():  # constant time: a flag of the string object
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        with suppress(UnicodeError):
            return text.encode("utf-8", "surrogateescape").decode("utf-8")
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


def without_blocks(text: str, gap: str = " ") -> str:
    """Return a message without the blocks `[facts: …]`, `[context: …]` and the like, each replaced by `gap`.

    A block may hold brackets, and one that nothing closes ends with the text. A bracket that closes nothing
    belongs to the block before it. Text without a block is returned unchanged.
    """
    opening = _BLOCK.search(text) if "[" in text or "\uff3b" in text else None
    if opening is None:
        return text
    kept, at = [], 0
    while opening is not None:
        kept.append(text[at : opening.start()])
        at = _block_end(text, opening.end())
        opening = _BLOCK.search(text, at)
    return gap.join([*kept, text[at:]])


def without_openings(text: str) -> str:
    """Return a text in which nothing opens one of these blocks; all else stays, as code and data need it."""
    if "[" not in text and "\uff3b" not in text:
        return text
    return _BLOCK.sub(lambda found: f"({found[0][1:]}", text)


def _block_end(text: str, start: int) -> int:
    depth, end = 1, 0
    for bracket in _BRACKET.finditer(text, start):
        if bracket[0] in "]\uff3d":
            depth -= 1
            if depth < 0 or (depth == 0 and not end):
                depth, end = 0, bracket.end()
        elif end and _BLOCK.match(text, bracket.start()):
            break
        else:
            depth += 1
    return end or len(text)


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
    clean = _without_markers(clean)
    if _BLOCK_LINE.match(clean) or (not clean.isascii() and _BLOCK_LINE.match(_DISGUISE.sub("", clean))):
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
    text = _without_markers(text)
    if "|" in text:
        text = _LONE_BAR.sub(_TWIN[0x7C], text)
    if "[" in text or "]" in text:
        text = text.translate(_BRACKETS)
    return text


def _without_markers(text: str) -> str:
    """`text` with the colons of roles and the angle brackets of tokens replaced by their twins."""
    # A few memchr calls decide for most text that nothing has to be done; the patterns cost 10 times that.
    is_ascii = text.isascii()
    if ":" in text:
        text = _ROLE_COLON.sub("\\1" + _TWIN[0x3A], text)
    if "<" in text or ">" in text:
        text = _TOKEN.sub(lambda match: _TWIN[ord(match[0])] if _is_token(match) else match[0], text)
    if is_ascii or not _may_be_disguised(text):
        return text
    plain, places = _undisguised(text)
    found = [match.end() - 1 for match in _ROLE_COLON.finditer(plain)]
    found += [match.start() for match in _TOKEN.finditer(plain) if _is_token(match)]
    characters = list(text)
    for place in found:
        at = place if places is None else places[place]
        characters[at] = _TWIN[ord(characters[at])]
    return "".join(characters)


def _is_token(match: re.Match[str]) -> bool:
    closing, name, end = match.groups()
    if name is None:
        return True
    name = name.lower()
    if end == "=":
        return name in ("function", "parameter")
    if end != ">":
        return name in ("invoke", "parameter")
    is_known = name in _TOKEN_NAMES or name.startswith(_TOKEN_PREFIXES)
    return is_known or bool(_NUMBERED_TOKEN.fullmatch(name)) or (name == "parameter" and closing == "/")


def _may_be_disguised(text: str) -> bool:
    """Look at the surroundings of colons and brackets alone, which takes some microseconds."""
    if not (":" in text or "<" in text or ">" in text):
        return False
    hidden = _DISGUISE.findall(text)
    if len(hidden) > _FEW_DISGUISES:
        return True
    reach = len(hidden)
    at = text.find(":")
    while at >= 0:
        word = _shown(text[:at].rstrip(_BLANKS)[-_LONGEST_ROLE - reach :], hidden)[-_LONGEST_ROLE:]
        if (hidden or not word.isascii()) and _in_latin(word).lower().endswith(_ROLE_NAMES):
            return True
        at = text.find(":", at + 1)
    at = text.find("<")
    while at >= 0:
        tag = _TAG.match(text, at)
        if tag is not None and not tag[0].isascii():
            match = _TOKEN.match("".join(map(_latin, _shown(tag[0], hidden))))
            if match is not None and _is_token(match):
                return True
        at = text.find("<", at + 1)
    return bool(hidden) and ">" in text and "|" in text


def _shown(text: str, hidden: Sequence[str]) -> str:
    """Return the text without what is hidden in it, ligatures in letters."""
    if not hidden:
        return text
    return _DISGUISE.sub(lambda match: "st" if match[0] in _LIGATURES else "", text)


def _undisguised(text: str) -> tuple[str, list[int] | None]:
    """Return the text in plain letters, and the place in `text` of each of its characters if they moved."""
    places = None
    if hidden := _DISGUISE.findall(text):
        places = [i for i, char in enumerate(text) for _ in range(_width(char))]
        text = _shown(text, hidden)
    return _LABEL.sub(lambda match: _in_latin(match[0]), text), places


def _width(char: str) -> int:
    return 2 if char in _LIGATURES else not _DISGUISE.match(char)


@lru_cache(4096)
def _in_latin(word: str) -> str:
    """Return a word in the Latin letters that it seems to be written in, in the same length and case."""
    if word.isascii():
        return word
    latin = "".join(map(_latin, word))
    is_foreign = latin.lower() in _ORDINARY and not any(
        "LATIN" in unicodedata.name(char, "") for char in word
    )
    return word if is_foreign else latin


def _latin(char: str) -> str:
    seen = _LOOKALIKES.get(char) or unicodedata.normalize("NFKC", char)
    if len(seen) != 1:
        return char
    return seen.upper() if char.isupper() else seen


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
