"""Keys and tokens: shapes that their makers have published, and long words in no order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shepherd.secret_detection.anchors import Anchored, folded
from shepherd.secret_detection.vocabulary import (
    PLACEHOLDER,
    WORDS,
    Secret,
    around,
    changes,
    is_ordinary,
    is_random,
    moved,
)

__all__ = ["find"]

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END ).){0,20000}(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
    r"|\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b",
    re.DOTALL,
)
# Boundaries of a key: neither a letter, a digit nor the middle of another word.
_EDGE, _END = r"(?<![A-Za-z0-9_\-])", r"(?![A-Za-z0-9_])"
_API_KEYS = Anchored(rf"{_EDGE}(?:{WORDS['keys']}){_END}", 0)
_BOT_KEYS = re.compile(rf"{_EDGE}(?:{WORDS['keys of bots']}){_END}")
_BOT_HINT = ":AA"
_TOKENS = Anchored(
    r"\beyJ[A-Za-z0-9_\-]{10,4000}\.eyJ[A-Za-z0-9_\-]{10,8000}\.[A-Za-z0-9_\-]{10,2000}"  # JWT
    r"|\bhttps://hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}"
    r"|\bhttps://(?:canary\.|ptb\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/[A-Za-z0-9_\-]{50,}",
    0,
)
# Discord's bots: the number of the account in base 64, a time and a signature.
_DISCORD_TOKEN = re.compile(
    rf"{_EDGE}[MNO][A-Za-z0-9_\-]{{23,27}}\.[A-Za-z0-9_\-]{{6}}\.[A-Za-z0-9_\-]{{27,40}}{_END}"
)
_DISCORD_HINT = re.compile(r"\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27}")
# Without a prefix: a long word of capitals, small letters and digits in no order. In an address it is an id.
_UNNAMED_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_\-/=&?%.#@+])(?=[A-Za-z0-9+]{0,80}[A-Z])(?=[A-Za-z0-9+]{0,80}[a-z])"
    r"(?=(?:[A-Za-z+]{0,40}\d){3})"
    r"[A-Za-z0-9][A-Za-z0-9+/_\-]{18,200}={0,2}(?![A-Za-z0-9_\-/.@])"
)
# Further from the name: "the API key for the server, put it in the script: crp-9f2LmQ77xTz0".
_DISTANT_KEY = Anchored(
    r"\b(?:(?:api|access|secret|client|app|private|licen[cs]e|activation|product|serial|deploy|auth)[ _-]"
    r"(?:key|token|secret)s?|token)\b[^\n{};<=]{0,80}?[\s:=\"'`(\u201c]"
    r"(?P<value>(?=[A-Za-z0-9_\-]{9,80}(?:$"
    r"|[\s.,;:!?)\"'`\u201d]))(?=[A-Za-z_\-]{0,40}\d)(?=[\d_\-]{0,40}[A-Za-z])"
    r"[A-Za-z0-9]{1,40}(?:[_\-][A-Za-z0-9]{1,40}){0,8})(?![\w/-]|\.\w)",
    re.IGNORECASE,
)
_KEY_GROUPS = re.compile(r"(?=.*\d)(?=.*[A-Z])[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){2,8}")
_KEY_OF_FORTY = re.compile(r"(?<![A-Za-z0-9+/=_.\-])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_.\-])")
# 32 bytes in hexadecimal are a key beside that word; elsewhere they are mostly hashes.
_HEX_KEY = Anchored(
    r"\b(?:keys?|schlüssel|clés?|claves?|chiavi?|chaves?|sleutels?|wallet|metamask)\b[^\n]{0,40}?"
    r"(?<![A-Za-z0-9])((?:0x)?[0-9a-fA-F]{64})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
# The first of these rules begin where a run of such letters does, the last where one of capitals does.
_RUN = re.compile(r"[A-Za-z0-9+/_\-]{19,}")
_CAPITALS = re.compile(r"[A-Z2-7]{26,}")
_BASE_32 = re.compile(r"(?<![A-Za-z0-9_\-])(?=(?:[A-Z]{0,30}[2-7]){3})[A-Z2-7]{26,64}(?![A-Za-z0-9_\-])")
# A word after "bearer" that is no token ("bearer of bad news") is too short or has no digit.
_BEARER = Anchored(r"\b(?:bearer|authorization:\s*basic)\s+([A-Za-z0-9_\-.~+/]{16,4000}=*)")
_URL_HINT = re.compile(r"://[^\s/:@]{0,200}:[^\s/@]{1,200}@")
_URL_PASSWORD = re.compile(
    r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@]{0,200}:([^\s/@]{1,200})@[^\s/@]", re.IGNORECASE
)
_NAMED_KEY = Anchored(
    r"(?<![a-z0-9])(?:(?:api|access|secret|client|account|auth|encryption|signing|private|refresh|session"
    r"|bearer|webhook|deploy)[_\- ]?(?:key|secret|token)|secret|token)[\"'`]?"
    r"(?:\s{0,3}(?:[:=]|\bis\b|\bwas\b|\bist\b)\s{0,3}|\s(?=\S{24}))[\"'`]?([A-Za-z0-9_\-.~+/]{16,512}=*)",
    re.IGNORECASE,
)
# What everybody may read: certificates and signatures, public keys of SSH, hashes, names of resources.
_PUBLIC_BLOCK = re.compile(r"-----BEGIN (?P<name>(?![A-Z0-9 ]{0,40}PRIVATE)[A-Z0-9 ]{1,60})-----")
_PUBLIC = re.compile(r"(?:\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-[\w-]{1,20})\s|\barn:aws[\w-]*:\S{0,150})$")
_HASH = re.compile(r"(?:sha\d{1,3}|md5)[-:]", re.IGNORECASE)
_WORD_PART = re.compile(r"[A-Z]?[a-z]{3,}")
_MOST_BLOCK = 200_000
# Every key has a word at least this long. Most text has none, and costs a quarter then.
_LEAST_KEY = 15
_LEAST_KEY_PART, _LEAST_CHANGES = 6, 3


def _keys(text: str, small: str) -> Iterator[Secret]:
    for match in _API_KEYS.finditer(text, small):
        if _is_scrambled(match[0]):
            yield Secret("api-key", match.start(), match.end())
    if _BOT_HINT in text:
        yield from (
            Secret("api-key", *match.span()) for match in _BOT_KEYS.finditer(text) if _is_scrambled(match[0])
        )
    for match in _NAMED_KEY.finditer(text, small):
        is_key = is_random(match[1], 10) and not PLACEHOLDER.fullmatch(match[1])
        if is_key and not _is_public(text, match.start()):
            yield Secret("api-key", *match.span(1))
    for match in _TOKENS.finditer(text, small):
        yield Secret("token", match.start(), match.end())
    for begin, piece in around(text, _DISCORD_HINT.finditer(text)):
        yield from moved(begin, (Secret("token", *match.span()) for match in _DISCORD_TOKEN.finditer(piece)))
    yield from _unnamed_keys(text, small)
    for match in _BEARER.finditer(text, small):
        if is_random(match[1], 8):
            yield Secret("token", *match.span(1))
    for begin, piece in around(text, _URL_HINT.finditer(text)):
        for match in _URL_PASSWORD.finditer(piece):
            if not is_ordinary(match[1]):
                yield Secret("password", begin + match.start(1), begin + match.end(1))


def _unnamed_keys(text: str, small: str) -> Iterator[Secret]:
    """Yield long words in no order, which have neither a prefix nor a name."""
    runs = [match.start() for match in _RUN.finditer(text)]
    for match in filter(None, (_UNNAMED_TOKEN.match(text, start) for start in runs)):
        is_mixed = is_random(match[0], 12) and changes(match[0]) > len(match[0]) / 3
        if is_mixed and not _is_name(match[0]) and not _is_public(text, match.start()):
            yield Secret("token", match.start(), match.end())
    for match in filter(None, (_KEY_OF_FORTY.match(text, start) for start in runs)):
        is_mixed = is_random(match[0], 20) and changes(match[0]) > 40 / 3
        if is_mixed and not _is_public(text, match.start()):
            yield Secret("api-key", match.start(), match.end())
    for match in _HEX_KEY.finditer(text, small):
        yield Secret("private-key", *match.span(1))
    runs = [match.start() for match in _CAPITALS.finditer(text)]
    for match in filter(None, (_BASE_32.match(text, start) for start in runs)):
        if is_random(match[0], 10) and not _is_public(text, match.start()):
            yield Secret("token", match.start(), match.end())


def _is_public(text: str, start: int) -> bool:
    """Return whether what stands before a word makes it a public key or the name of a resource."""
    return _PUBLIC.search(text, max(0, start - 200), start) is not None


def _is_name(value: str) -> bool:
    """Return whether most of a word is parts of small letters: "SniX509ExtendedKeyManager", and no hash."""
    in_words = sum(len(part) for part in _WORD_PART.findall(value))
    return 2 * in_words > len(value) or _HASH.match(value) is not None


def _without_public_blocks(text: str) -> str:
    """Return a text of the same length without certificates, public keys and signatures in PEM."""
    if "-----BEGIN " not in text:
        return text
    pieces, end = [], 0
    while (begin := text.find("-----BEGIN ", end)) >= 0:
        named = _PUBLIC_BLOCK.match(text, begin)
        stop = text.find(f"-----END {named['name']}-----", begin) if named else -1
        if named is None or not begin < stop < begin + _MOST_BLOCK:
            pieces.append(text[end : begin + 11])
            end = begin + 11
            continue
        pieces += [text[end:begin], " " * (stop - begin)]
        end = stop
    return "".join([*pieces, text[end:]])


def _is_scrambled(value: str) -> bool:
    """Return whether the end of a key is no word: letters with digits, or of changing case."""
    last = "".join(re.split(r"[_\-.:]", value)[1:]) or value
    is_mixed = any(map(str.isdigit, last)) and any(map(str.isalpha, last))
    return len(set(last)) >= 6 and (is_mixed or changes(last) > len(last) / 4)


def _is_key_part(value: str) -> bool:
    """Return whether a short word is a key: groups of capitals and digits, or a part of no sense."""
    if _KEY_GROUPS.fullmatch(value):
        return True
    return any(
        len(part) >= _LEAST_KEY_PART and changes(part) >= _LEAST_CHANGES and is_random(part, 5)
        for part in re.split(r"[_\-]", value)
    )


def find(text: str) -> Iterator[Secret]:
    """Yield the keys and tokens in a text."""
    small = folded(text)
    if "private key" in small or "age-secret-key" in small:
        for match in _PRIVATE_KEY.finditer(text):
            yield Secret("private-key", match.start(), match.end())
    text = _without_public_blocks(text)
    if any(len(word) >= _LEAST_KEY for word in text.split()):
        yield from _keys(text, small)
    for match in _DISTANT_KEY.finditer(text, small):
        if _is_key_part(match["value"]):
            yield Secret("api-key", *match.span("value"))
