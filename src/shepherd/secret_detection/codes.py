"""Codes of doors, locks and devices, and other values beside the name of a secret."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache

from shepherd.secret_detection.vocabulary import (
    DATE,
    NO_CODE,
    NOT_ITSELF,
    OTHER_NUMBER,
    PROGRAM_TEXT,
    SENTENCE_END,
    UNIT,
    WORDS,
    YEAR,
    Secret,
    SecretKind,
    lowered,
    words_of,
)

__all__ = ["find", "find_near"]


def _names_of(name: str) -> Callable[[], re.Pattern[str]]:
    # Compiled when a text has a number: that takes a tenth of a second. Lists without capitals read a text in
    # small letters: with IGNORECASE every alternative would be tried at every word.
    tail = rf"(?![\w(-]){NOT_ITSELF if name == 'names' else ''}"
    flags = 0 if name in _LOWER else re.IGNORECASE
    return cache(lambda: re.compile(rf"(?<![\w.-]){words_of(name)}{tail}", flags))


_LISTS = ("names", "accounts", "ids", "things", "opening")
_LOWER = frozenset(name for name in _LISTS if WORDS[name].islower())
_NAMES = {name: _names_of(name) for name in _LISTS}
# Numbers in groups, turns of a dial, and words with a digit in them.
_TURNS = words_of("turns")
_VALUE_LIKE = re.compile(
    rf"(?<![\w.,/@-])(?<!localhost:)(?:\d{{1,2}} {_TURNS}(?:(?:,| then|,? and)? \d{{1,2}} {_TURNS}){{1,5}}"
    r"|\d{1,12}(?:[ .\-/\u2013]\d{1,8}){1,7}[ \-]?[A-Z]?\b"
    r"|[A-Z]{2}(?: ?\d\d){3} ?[A-D]\b"
    r"|(?=[^\s\d]{0,40}\d)[^\s\"'`<>()\[\]{}=,;:\u201c\u201d]{3,64})",
)
# A dial turned three times or more opens nothing but a lock.
_DIAL = re.compile(
    rf"(?<!\w)(?:{_TURNS}(?: to)? \d{{1,2}}"
    r"(?:,? (?:then|and|und|dann|puis|et|luego|y|poi|e|en|dan)|,)? ?){2,5}"
    rf"{_TURNS}(?: to)? \d{{1,2}}(?!\d)",
    re.IGNORECASE,
)
# "The bike lock is 7725", "lockbox at the flat: 0852": what opens with nothing but a number.
_LOCK_IS = re.compile(
    rf"\b{words_of('locks')}(?: (?:at|in|on|of|for|to|by|under|behind) [^\n.!?:=]{{1,30}}?)?"
    r"(?: is| are| ist| est| es| è| é|:|=) ?(?P<code>\d{3,8})"
    r"(?![\d.,]*\d|\s?[%€$£°]|\s(?:euros?|dollars?|pounds?|kg|kilos?|cm|mm|m|years?|people)\b)",
    re.IGNORECASE,
)
# Four digits or more, single digits in a row, or letters with digits, that stand alone.
_CODE_ALONE = re.compile(
    r"(?<![\w.,/@:$\u20ac\u00a3+=-])(?<!\w ['\u2019])(?P<code>[*#]?(?:\d{4,8}|\d(?:[ -]\d){3,7}(?:-?[#*])?"
    r"|(?=(?:[A-Za-z]{0,12}\d){3})(?=\d*[A-Za-z])(?!\d+[A-Za-z]{1,3}(?![A-Za-z\d]))[A-Za-z0-9]{5,16}"
    r"|\d{3,8}[A-Z])[*#]?)(?![\w:/%=(\u20ac]|[.,-]\d|-\w)"
)
# Keys of a keypad around a number: "star 60842 pound", "#2915*". "*2915*" may be Markdown.
_KEYED = re.compile(
    r"(?<![\w&*#])(?:(?:star|asterisk) \d{3,8}(?: (?:pound|hash|star|key)\b)?"
    r"|\d{3,8} (?:(?:and |then )?(?:the )?(?:hash|star|asterisk|pound)(?: key| sign)|(?:and |then )hash)\b"
    r"|#\d{3,8}\*|\*\d{3,8}#)(?!\w)",
    re.IGNORECASE,
)
# A year is a code, too, if somebody chose it: "Hotel safe: I picked 1966".
_CHOSEN = re.compile(r"\b(?:picked|chose|chosen|set (?:it|that|mine) (?:to|as)) $", re.IGNORECASE)
# An hour behind "at".
_HOUR = re.compile(
    r"\b(?:at|from|to|between|and|until|till|by|for|before|after|um|à|a las|alle)\s(?:[01]\d|2[0-3])[0-5]\d$",
    re.IGNORECASE,
)
# Behind a mere number, other words say what is counted: "4500 likes".
_COUNTS = re.compile(
    r"\s(?!(?:and|but|so|or|in|on|at|to|for|then|if|when|the|it|which|that|after|before|please|ok)\b)\w"
)
_PLACE = re.compile(
    r"\b(?:post\w*|zip|plz|cap|cep|imei|serial|model|isbn|lines?|street|room|flat|unit|port|errors?|status|closed)\b",
    re.IGNORECASE,
)
_ACCESS = re.compile(rf"(?<![\w-]){words_of('access')}(?![\w-])", re.IGNORECASE)
_BEFORE_ACCESS, _BEHIND_ACCESS = 50, 30
# "I use Snowball1987 for everything"
_USED_FOR_ALL = re.compile(
    r"\b(?:i|we) (?:always |still |just |basically )?(?:use|reuse|have) "
    r"(?P<word>(?=\S*\d\S*\d)(?=\S*[^\W\d_]{3})\S{6,64}) (?:for|on|as) "
    r"(?:basically |pretty much |literally |almost |nearly |practically )?"
    r"(?:everything|every (?:site|account)|all (?:of )?(?:my|our|the) (?:accounts|logins|sites|passwords))",
    re.IGNORECASE,
)
# "phone: 416-555-0139" is a number to call; the code that unlocks a phone is shorter.
_PHONE = re.compile(r"\b(?:phone|handy|téléphone|telefono|móvil)\W{1,3}$", re.IGNORECASE)
_PHONE_DIGITS = 7
_IS_DIAL = re.compile(r" is \d\d?-\d\d?-\d\d?")
_LINK = re.compile(
    r"(?:(?<=\w)['\u2019]s |"
    rf"(?<!\w){words_of('links')}(?: (?:the|a|my|now|der|die|das|le|la|el|il|o|de|het|the numbers?))?[:,]? ?"
    r"|[:=,\uff1a(\u2014>-])\s?[\"'`\u201c\u2018]?$",
    re.IGNORECASE,
)
_BEHIND = (
    r"[\"'`\u201d]?\s?(?:[,:=(\u2014-]|<-+|->)?\s?"
    rf"(?:{words_of('links behind')}\s)?(?:{words_of('articles')}\s(?:[^\W\d]{{1,12}}\s){{0,2}}?)?"
)
_name_behind = cache(lambda: re.compile(_BEHIND + rf"{words_of('names')}(?![\w-])", re.IGNORECASE))
_thing_behind = cache(
    lambda: re.compile(_BEHIND + rf"(?:{words_of('things')}|{words_of('opening')})(?![\w-])", re.IGNORECASE)
)
_PASSWORD_LIKE = re.compile(
    r"(?=\S*[^\W\d_])(?=\S*\d)(?=\S*(?:[!#$%^&*_?\-]|[a-z]\d+[a-z]|[a-z]{3}\d{2}))(?!(?i:wpa|802|ipv|v\d))"
    r"(?![a-z]+[-_.]?\d{1,3}(?!\S))"
    r"[^\s@/\\]{8,64}"
)
_NEAR, _NEAR_BEFORE, _LEAST_DIGITS, _LEAST_MIXED, _LEAST_ID = 70, 40, 3, 5, 7
_SHORT_NOTE = 6  # words


def find(text: str) -> Iterator[Secret]:
    """Yield numbers of dials, keypads and locks, and the word that somebody uses for everything."""
    for pattern in (_DIAL, _KEYED):
        for match in pattern.finditer(text):
            yield Secret("password", match.start(), match.end())
    for match in _LOCK_IS.finditer(text):
        yield Secret("password", *match.span("code"))
    for match in _USED_FOR_ALL.finditer(text):
        yield Secret("password", *match.span("word"))


def _access_codes(text: str) -> Iterator[Secret]:
    """Yield what looks like a code in a sentence about what codes open: "the till opens with 9051".

    The other rules know how people say it. This one does not, and forgets a number too many rather than keep
    a code.
    """
    for match in _CODE_ALONE.finditer(text):
        start, end = match.span("code")
        before = text[max(0, start - _BEFORE_ACCESS) : start]
        behind = text[end : end + _BEHIND_ACCESS]
        cut = max((one.end() for one in SENTENCE_END.finditer(before)), default=0)
        stop = SENTENCE_END.search(behind)
        sentence_ends = stop.start() if stop else len(behind)
        # Most numbers are in no sentence about what codes open: nothing else is asked about those.
        if not (_ACCESS.search(before, cut) or _ACCESS.search(behind[:sentence_ends])):
            continue
        is_year = YEAR.fullmatch(match[0]) and not _CHOSEN.search(before, cut)
        is_other = is_year or UNIT.match(text, end) or OTHER_NUMBER.search(before)
        is_other = is_other or _HOUR.search(before + match[0]) or _PLACE.search(before, cut)
        is_counted = match[0].isdigit() and _COUNTS.match(text, end)
        if is_other or is_counted or NO_CODE.fullmatch(match[0]) or PROGRAM_TEXT.search(before[cut:]):
            continue
        yield Secret("password", start, end)


def _named_values(text: str) -> Iterator[Secret]:
    """Yield values that look like codes beside the name of a secret, in its sentence or the next one."""
    values = list(_VALUE_LIKE.finditer(text))
    if not values:
        return
    near = _Names(text)
    is_named = bool(near["names"] or near["accounts"] or near["things"])
    for match in values:
        start = match.start()
        end = start + len(match[0].rstrip(".,;:!?"))
        kind = _kind_of(near, text, start, end) if is_named or _is_id(text[start:end]) else None
        if kind is not None:
            # Groups of digits may end with the blank behind them.
            yield Secret(kind, start, start + len(text[start:end].rstrip()))


class _Names(dict[str, list[tuple[int, int]]]):
    """Places of the names of secrets in a text by list, searched for when a list is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.lower = text, lowered(text)

    def __missing__(self, name: str) -> list[tuple[int, int]]:
        text = self.lower if name in _LOWER else self.text
        self[name] = [found.span() for found in _NAMES[name]().finditer(text)]
        return self[name]


def _kind_of(near: _Names, text: str, start: int, end: int) -> SecretKind | None:
    """Return what a value is by the names around it; most values have none, so that these come first."""
    value = text[start:end]
    if _is_id(value) and _is_near(near["ids"], text, start, end):
        return "account-number"
    is_named = _is_near(near["names"], text, start, end)
    has_thing = _is_near(near["things"], text, start, end)
    # "The safe in the study: 31-08-22", "My locker is 31-08-22"
    is_labelled = (
        has_thing
        and not value.strip("0123456789- ")
        and not (_PHONE.search(text[:start]) and sum(map(str.isdigit, value)) >= _PHONE_DIGITS)
        and (text[:start].endswith(": ") or _IS_DIAL.fullmatch(text[start - 4 : end]) is not None)
    )
    is_opened = is_labelled or (has_thing and _is_near(near["opening"], text, start, end))
    if (is_named or is_opened) and _is_code(text, start, end):
        is_linked = _LINK.search(text[max(0, start - _NEAR) : start]) is not None
        if is_named:
            at = bisect_left(near["names"], (start - 3, 0))
            is_adjacent = any(0 <= start - stop <= 2 for _, stop in near["names"][max(0, at - 3) : at + 1])
            # "PIN tablet kids 1177"
            is_note = not text[end:].strip(" .") and len(text.split()) <= _SHORT_NOTE
            if is_linked or is_adjacent or is_note or _name_behind().match(text, end):
                return "password"
        if is_opened and (is_linked or _thing_behind().match(text, end)):
            return "password"
    if _is_near(near["accounts"], text, start, end) and _PASSWORD_LIKE.fullmatch(value):
        return "password"
    return None


def _is_id(value: str) -> bool:
    """Return whether a value can be the number of an account or a person, and is no date."""
    n_signs, n_digits = sum(map(str.isalnum, value)), sum(map(str.isdigit, value))
    return n_signs >= _LEAST_ID and n_digits >= _LEAST_ID - 1 and not DATE.fullmatch(value)


def _is_near(spans: list[tuple[int, int]], text: str, start: int, end: int) -> bool:
    """Return whether one of the spans stands near a value, at most one sentence away."""
    at = bisect_left(spans, (start - _NEAR - 20, 0))
    for begin, stop in spans[at : at + 8]:
        if stop <= start and start - stop <= _NEAR and _may_go_on(text[stop:start]):
            return True
        if begin >= end:
            return begin - end <= _NEAR_BEFORE and not SENTENCE_END.search(text, end, begin)
    return False


def _may_go_on(between: str) -> bool:
    """Return whether text between a name and its value is speech, of at most two sentences, and no code."""
    return len(SENTENCE_END.findall(between)) < 2 and not PROGRAM_TEXT.search(between)


def _is_code(text: str, start: int, end: int) -> bool:
    """Return whether a value looks like a code: enough digits, or digits among letters or marks."""
    value = text[start:end]
    n_digits = sum(map(str.isdigit, value))
    is_mixed = n_digits > 0 and len(value) >= _LEAST_MIXED and not re.fullmatch(r"[^\W\d]+\d|\d+", value)
    if n_digits < _LEAST_DIGITS and not is_mixed:
        return False
    lead = text[max(0, start - 40) : start]
    return not (
        lead.endswith(("$", "€", "£"))
        or OTHER_NUMBER.search(lead)
        or UNIT.match(text, end)
        or NO_CODE.fullmatch(value)
    )


def find_near(text: str) -> Iterator[Secret]:
    """Yield the codes in a text that was cut out around its numbers."""
    yield from _named_values(text)
    yield from _access_codes(text)
