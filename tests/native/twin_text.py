"""The tokenizer again, slow and plain: what `shepherd._native.text` has to compute, rule by rule.

Only the lists of stop words and of forms are shared. The stemmer is the Snowball project's own.
"""
# ruff: noqa: RUF001

import re
import unicodedata

import snowballstemmer

from shepherd._native.text import FORMS, STOP_WORDS

TERM_CHARACTERS = 64

_english = snowballstemmer.stemmer("english")

# ---------------------------------------------------------------------------------------- folding

DROPPED = (
    *range(0x0300, 0x0370), *range(0x1AB0, 0x1B00), *range(0x1DC0, 0x1E00), *range(0x20D0, 0x2100),
    *range(0xFE20, 0xFE30),  # marks over Latin, Greek, Cyrillic
    *range(0x0591, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7,  # Hebrew points
    0x0640, *range(0x064B, 0x0660), 0x0670,  # Arabic vowel signs, tatweel
    0x00AD, 0x061C, *range(0x180B, 0x1810), *range(0x200C, 0x2010), *range(0x202A, 0x202F),
    *range(0x2060, 0x2070), *range(0xFE00, 0xFE10), 0xFEFF, *range(0xE0000, 0xE01F0),  # invisible
)  # fmt: skip
_dropped = frozenset(map(chr, DROPPED))
_marks_come_off = frozenset(map(chr, (*range(0xC0, 0x2B0), *range(0x370, 0x530), *range(0x1E00, 0x2000))))
_respelled = {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i",
              "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}  # fmt: skip
_punctuation = {"‘": "'", "’": "'", "ʼ": "'", "‐": "-"}


def _is_mark(character):
    return unicodedata.category(character).startswith("M")


def _unmarked(letter):
    base = "".join(c for c in unicodedata.normalize("NFKD", letter) if not _is_mark(c))
    return _respelled.get(base, base) or letter


def _fold_character(character, after_letter):
    """What stands for one character: "" when it is dropped, " " when it is no part of a word."""
    if character.isascii():
        return character
    if character in _dropped:
        return ""
    if character in _punctuation:
        return _punctuation[character]
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.decimal(character))
    if _is_mark(character):
        return character if after_letter else " "
    if not character.isalnum():
        return " "
    return _unmarked(character) if character in _marks_come_off else character


def _with_fewer_marks(text):
    """At most 30 combining characters in a row, the limit of Unicode's Stream-Safe Text Format."""
    kept = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) else 0
        if run <= 30:
            kept.append(character)
    # Not with +=, which copies the text each time where realloc moves it, as under AddressSanitizer.
    return "".join(kept)


def fold(text):
    """NFKC, casefolded, diacritics off; everything left beyond ASCII is part of a word."""
    folded = []
    after_letter = False
    for character in unicodedata.normalize("NFKC", _with_fewer_marks(text)).casefold():
        piece = _fold_character(character, after_letter)
        folded.append(piece)
        if piece:
            after_letter = piece[-1].isalnum() or (not piece.isascii() and _is_mark(piece[-1]))
    return "".join(folded)


# ---------------------------------------------------------------------------------------- grammar

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
LETTER = f"(?:[a-z0-9]|[^\\x00-\\x7f{UNSPACED}])"
WORDS = f"{LETTER}+(?:'{LETTER}+)*"
UNIT = f"(?P<words>{WORDS})(?P<symbol>\\+\\+|\\+(?!{LETTER})|\\#(?!{LETTER}))?"
_unit = re.compile(UNIT)
_anonymous_unit = UNIT.replace("?P<words>", "?:").replace("?P<symbol>", "?:")
_form_or_run = re.compile(
    f"(?P<form>(?:(?<!\\.)\\.)?{_anonymous_unit}(?:[-_.@&]?{_anonymous_unit})*)|(?P<run>[{UNSPACED}]+)"
)
_ending = re.compile("'(?:s|m|re|ve|ll|d)$")


def _without_endings(words):
    while (shorter := _ending.sub("", words)) != words:
        words = shorter
    return words


# A final s that Porter2 keeps: behind consonants and at most one vowel it is the plural of an acronym.
_plural = re.compile("[b-df-hj-np-tv-xz]{2,}[aeiou]?(?<!s)s")
NO_PLURALS = frozenset(
    "this thus plus chris mrs cms dns fps fts gps https lts nfs nhs pms rds sms tls vps".split()  # noqa: SIM905
)


def singular(word):
    return word[:-1] if _plural.fullmatch(word) and word not in NO_PLURALS else word


def _word_terms(word, is_part, keep_stop_words):
    word = word[:TERM_CHARACTERS]
    if is_part and len(word) == 1 and not word.isdigit():
        return []
    if word in STOP_WORDS and not keep_stop_words:
        return []
    word = FORMS.get(word, word)
    return [_english.stemWord(singular(word)) if re.fullmatch("[a-z]+", word) else word]


def _unit_terms(words, is_part, keep_stop_words):
    parts = _without_endings(words).split("'")
    joined = "".join(parts)
    found = _word_terms(joined, is_part, keep_stop_words)
    if len(parts) > 1 and joined[:TERM_CHARACTERS] not in STOP_WORDS:
        for part in parts:
            found += _word_terms(part, True, keep_stop_words)
    return found


def _as_written(unit):
    return _without_endings(unit["words"]).replace("'", "") + (unit["symbol"] or "")


def _form_terms(form, keep_stop_words):
    units = list(_unit.finditer(form))
    if len(units) == 1 and units[0].group() == form and not units[0]["symbol"]:
        return _unit_terms(form, False, keep_stop_words)
    whole = _unit.sub(_as_written, form)
    found = [whole] if len(whole) <= TERM_CHARACTERS else []
    for unit in units:
        if unit["symbol"] and unit.group() != form and len(_as_written(unit)) <= TERM_CHARACTERS:
            found.append(_as_written(unit))
        found += _unit_terms(unit["words"], True, keep_stop_words)
    return found


def _run_terms(run):
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def _all_terms(folded, keep_stop_words):
    found = []
    for match in _form_or_run.finditer(folded):
        found += _run_terms(match["run"]) if match["run"] else _form_terms(match["form"], keep_stop_words)
    return found


def terms(text):
    folded = fold(text)
    return _all_terms(folded, False) or _all_terms(folded, True)


def keywords(text, cap=64):
    return list(dict.fromkeys(terms(text)))[: max(cap, 0)]


# ---------------------------------------------------------------------------------------- FTS5


def encode(term):
    return "".join(c if not c.isascii() or c in "abcdefghijklmnopqrstuvwxyz0123456789" else f"_{ord(c):02x}"
                   for c in term)  # fmt: skip


def decode(encoded):
    return re.sub("_([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), encoded)


def scoped(text, tenant):
    found = terms(text)
    return " ".join(f"t{tenant}_{encode(term)}" for term in found).encode(), len(found)


def match_expression(keywords, tenant):
    phrases = [f'"t{tenant}_{encode(keyword)}"' for keyword in keywords]
    return " OR ".join(phrases).encode("utf-8", "surrogatepass")


# ---------------------------------------------------------------------------------------- the original's rule

COMPAT_STOP_WORDS = """
the and but for nor with from into about over under
you your yours she her his him hers its our ours they them their this that these those
are was were been being have has had does did can could will would shall should may might must
what when where which who whom why how
please tell told know remember want need like just get got let say said
""".split()  # noqa: SIM905


def keywords_compat(text):
    kept = []
    for chunk in re.split("[ \t\n\v\f\r]+", text):
        word = "".join(c for c in chunk if c.isascii() and c.isalnum()).lower()
        if len(word) > 2 and word not in COMPAT_STOP_WORDS:
            kept.append(word)
    return kept
