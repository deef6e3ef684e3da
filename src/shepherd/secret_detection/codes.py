"""Codes of doors, locks and devices, and other values beside the name of a secret."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache

from shepherd.secret_detection.anchors import Anchored, folded
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
    around,
    lowered,
    moved,
    words_of,
)

__all__ = ["find", "find_near"]


def _names_of(name: str) -> Anchored:
    # Lists without capitals read a text in small letters: with IGNORECASE every alternative would be tried.
    tail = rf"(?![\w(-]){NOT_ITSELF if name.endswith('names') else ''}"
    return Anchored(rf"(?<![\w.-]){words_of(name)}{tail}", 0 if name in _LOWER else re.IGNORECASE)


_LISTS = ("names", "compound names", "accounts", "ids", "things", "opening")
_LOWER = frozenset(name for name in _LISTS if WORDS[name].islower())
# Each name that begins with any word contains this.
_COMPOUND_HINT = "geheim"
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
_DIAL = Anchored(
    rf"(?<!\w)(?:{_TURNS}(?: to)? \d{{1,2}}"
    r"(?:,? (?:then|and|und|dann|puis|et|luego|y|poi|e|en|dan)|,)? ?){2,5}"
    rf"{_TURNS}(?: to)? \d{{1,2}}(?!\d)",
    re.IGNORECASE,
)
# "The bike lock is 7725", "lockbox at the flat: 0852": what opens with nothing but a number.
_LOCK_IS = Anchored(
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
_KEYED_HINT = re.compile(r"[*#]\d|star|hash|asterisk|pound")
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
# Where none of these words is near, not even cut off, nothing else is asked.
_ACCESS_WORD = Anchored(words_of("access"))
_compound = cache(lambda: re.compile(rf"(?<!\w)(?:{WORDS['codes that open nothing']})(?!\w)", re.IGNORECASE))
_BEFORE_ACCESS, _BEHIND_ACCESS = 50, 30
# "I use Snowball1987 for everything"
_USED_FOR_ALL = Anchored(
    r"\b(?:i|we) (?:always |still |just |basically )?(?:use|reuse|have) "
    r"(?P<word>(?=\S*\d\S*\d)(?=\S*[^\W\d_]{3})\S{6,64}) (?:for|on|as) "
    r"(?:basically |pretty much |literally |almost |nearly |practically )?"
    r"(?:everything|every (?:site|account)|all (?:of )?(?:my|our|the) (?:accounts|logins|sites|passwords))",
    re.IGNORECASE,
)
# "phone: 416-555-0139" is a number to call; the code that unlocks a phone is shorter.
_PHONE = re.compile(r"\b(?:phone|handy|téléphone|telefono|móvil)\W{1,3}$", re.IGNORECASE)
_PHONE_DIGITS = 7
_LABELLED = re.compile(r"[:=] ?$| (?:is|ist|est|es|è|é) $")
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
# In a document, these stand between a name and the value that it is given.
_GIVEN = re.compile(
    r"[\"'`)\]]{0,2}(?:[ ,]{0,2}|\s?\((?=[\d -]+\))|['\u2019]s\s"
    rf"|(?:{WORDS['purposes']}|(?:\s[^\W\d]{{1,20}}){{1,2}})?\s{{0,2}}(?:[:=\uff1a]|->|\u2014|=>)\s{{0,8}}"
    rf"|[^\n.,;:!?()]{{0,45}}?(?<!\w){words_of('assignments')}"
    r"(?: (?:the|a|now|still|der|die|das|le|la|el|il|o|de|het))?:?\s?"
    rf"|[^\n.;:!()]{{0,45}}?[,.?!\u2014-]\s{{1,2}}{words_of('assignments to it')}"
    r"(?: (?:the|le|die|el|il|o|de|het))?\s)"
    r"[\"'`\u201c\u2018]?",
    re.IGNORECASE,
)
_CHANGED_TO = re.compile(
    rf"\b(?:{WORDS['changed passwords']})\b[^\n.!?;:]{{0,60}}?\s(?:to|as|auf|en|a|para|naar)\s[\"'\u201c]?$",
    re.IGNORECASE,
)
_AND = re.compile(r"[,;/&] {0,2}(?:(?:and|und|et|y|e|en|or|oder) )?|\s(?:and|und|et|y|e|en|or|oder|/|&)\s")
_ENTERED = re.compile(rf"(?<!\w){words_of('entering')}:?\s[\"'\u201c]?$", re.IGNORECASE)
_GIVEN_BEHIND = (
    r"[\"'`\u201d]?\s?(?:[=(\u2014]|<-+|->|,?\s?"
    rf"(?:{words_of('links behind')}))\s?(?:{words_of('articles')}\s(?:[^\W\d]{{1,12}}\s){{0,2}}?)?"
)
_access_behind = cache(
    lambda: re.compile(_GIVEN_BEHIND + rf"{words_of('access')}(?![\w-]|/\w)", re.IGNORECASE)
)
_name_behind_given = cache(
    lambda: re.compile(_GIVEN_BEHIND + rf"{words_of('names', 'compound names')}(?![\w-]|/\w)", re.IGNORECASE)
)
_thing_behind_given = cache(
    lambda: re.compile(
        _GIVEN_BEHIND + rf"(?:{words_of('things')}|{words_of('opening')})(?![\w-]|/\w)", re.IGNORECASE
    )
)
_name_behind = cache(
    lambda: re.compile(_BEHIND + rf"{words_of('names', 'compound names')}(?![\w-]|/\w)", re.IGNORECASE)
)
_thing_behind = cache(
    lambda: re.compile(_BEHIND + rf"(?:{words_of('things')}|{words_of('opening')})(?![\w-])", re.IGNORECASE)
)
_PASSWORD_LIKE = re.compile(
    r"(?=\S*[^\W\d_])(?=\S*\d)(?=\S*(?:[!#$%^&*_?\-]|[a-z]\d+[a-z]|[a-z]{3}\d{2}))(?!(?i:wpa|802|ipv|v\d))"
    r"(?![a-z]+[-_.]?\d{1,3}(?!\S))"
    r"[^\s@/\\]{8,64}"
)
# "wifi: mac80211: fix …", "mac80211_scan", "CVE-2025-71127": names of a program's parts and of reports.
_IDENTIFIER = re.compile(
    r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*:\s|[a-z0-9]+(?:_[a-z0-9]+)+(?![\w!?#*$%&-])|(?:[A-Z]{2,10}-)+\d+(?:-\d+)*(?![\w!?#*$%&-])"
)
_NUMBERED_WORD = re.compile(r"[^\W\d]+\d|\d+")
_NEAR, _NEAR_BEFORE, _LEAST_DIGITS, _LEAST_MIXED, _LEAST_ID = 70, 40, 3, 5, 7
_SHORT_NOTE = 6  # words
_MOST_VALUE, _MOST_LIST = 100, 400  # characters of a value, and of values in a row behind a name
_MOST_NAME, _MOST_AND = 20, 8  # further characters up to a name, and between two values in a row


def find(text: str) -> Iterator[Secret]:
    """Yield numbers of dials, keypads and locks, and the word that somebody uses for everything."""
    small = folded(text)
    for match in _DIAL.finditer(text, small):
        yield Secret("password", match.start(), match.end())
    for begin, piece in around(text, _KEYED_HINT.finditer(small)):
        yield from moved(begin, (Secret("password", *match.span()) for match in _KEYED.finditer(piece)))
    for match in _LOCK_IS.finditer(text, small):
        yield Secret("password", *match.span("code"))
    for match in _USED_FOR_ALL.finditer(text, small):
        yield Secret("password", *match.span("word"))


def _access_codes(text: str, *, in_document: bool) -> Iterator[Secret]:
    """Yield what looks like a code in a sentence about what codes open: "the till opens with 9051".

    The other rules know how people say it. This one does not, and forgets a number too many rather than keep
    a code.
    """
    access = [found.span() for found in _ACCESS_WORD.finditer(text, folded(text))]
    at = 0
    for match in _CODE_ALONE.finditer(text):
        start, end = match.span("code")
        while at < len(access) and access[at][1] <= start - _BEFORE_ACCESS:
            at += 1
        if at == len(access) or access[at][0] >= end + _BEHIND_ACCESS:
            continue
        before = text[max(0, start - _BEFORE_ACCESS) : start]
        behind = text[end : end + _BEHIND_ACCESS]
        cut = max((one.end() for one in SENTENCE_END.finditer(before)), default=0)
        stop = SENTENCE_END.search(behind)
        sentence_ends = stop.start() if stop else len(behind)
        if not (_ACCESS.search(before, cut) or _ACCESS.search(behind[:sentence_ends])):
            continue
        is_about_access = _is_assigned if in_document else _is_near_access
        if in_document and not is_about_access(before[cut:], behind[:sentence_ends]):
            continue
        plain = _without_compounds(text[max(0, start - 2 * _BEFORE_ACCESS) : start])
        lead, tail = plain[len(plain) - len(before[cut:]) :], _without_compounds(behind[:sentence_ends])
        if not is_about_access(lead, tail):
            continue
        is_year = YEAR.fullmatch(match[0]) and not _CHOSEN.search(before, cut)
        is_other = is_year or UNIT.match(text, end) or OTHER_NUMBER.search(before)
        is_other = is_other or _HOUR.search(before + match[0]) or _PLACE.search(before, cut)
        is_counted = match[0].isdigit() and _COUNTS.match(text, end)
        if is_other or is_counted or NO_CODE.fullmatch(match[0]) or PROGRAM_TEXT.search(before[cut:]):
            continue
        yield Secret("password", start, end)


def _without_compounds(text: str) -> str:
    """Return a text of the same length without "area code", "dead code" and others that open nothing."""
    return _compound().sub(lambda match: " " * len(match[0]), text)


def _is_near_access(before: str, behind: str) -> bool:
    return bool(_ACCESS.search(before) or _ACCESS.search(behind))


def _is_assigned(before: str, behind: str) -> bool:
    """Return whether the value between two parts of a sentence is given to what opens, or opens something."""
    found = [match.span() for match in _ACCESS.finditer(before)]
    is_entered = _ENTERED.search(before) and (found or _ACCESS.search(behind))
    return (
        bool(is_entered)
        or _is_given(found, before, len(before))
        or _access_behind().match(behind) is not None
    )


def _is_given(names: list[tuple[int, int]], text: str, start: int) -> bool:
    """Return whether a name before a value in the same sentence is given this value.

    "The code is 4711", "code for the door: 4711", "PIN 4711", but neither "code for gfx801 and gfx900" nor
    "remove dead code (#15534)".
    """
    changed = _CHANGED_TO.search(text, max(0, start - _NEAR), start)
    at = bisect_left(names, (start - _NEAR - 20, 0))
    return any(
        stop <= start
        and start - stop <= _NEAR
        and (_GIVEN.fullmatch(text, stop, start) or (changed is not None and changed.start() < begin))
        for begin, stop in names[at : bisect_left(names, (start, 0))]
    )


def _named_values(text: str, *, in_document: bool) -> Iterator[Secret]:
    """Yield values that look like codes beside the name of a secret, in its sentence or the next one."""
    values = list(_VALUE_LIKE.finditer(text))
    if not values:
        return
    near = _Names(text)
    is_named = bool(near["names"] or near["accounts"] or near["things"])
    spans = sorted(near["names"] + near["accounts"] + near["things"] + near["ids"])
    regions = _regions(spans, _NEAR_BEFORE + _MOST_VALUE, _NEAR + _MOST_LIST)
    close = _regions(spans, 2 * _MOST_VALUE + _NEAR, _NEAR + _MOST_NAME)
    region = closest = 0
    kind_of = _kind_in_document if in_document else _kind_of
    last: Secret | None = None
    for match in values:
        start = match.start()
        while region < len(regions) and regions[region][1] < start:
            region += 1
        if region == len(regions) or start < regions[region][0]:
            continue
        while closest < len(close) and close[closest][1] < start:
            closest += 1
        is_close = closest < len(close) and close[closest][0] <= start
        is_next = last is not None and start - last.end <= _MOST_AND
        if not is_close and not is_next:
            continue
        end = start + len(match[0].rstrip(".,;:!?"))
        kind = None
        if is_close and (is_named or _is_id(text[start:end])):
            kind = kind_of(near, text, start, end)
        if kind is None and is_next and last is not None and _AND.fullmatch(text, last.end, start):
            kind = last.kind if _is_code(text, start, end) else None
        if kind is not None:
            # Groups of digits may end with the blank behind them.
            last = Secret(kind, start, start + len(text[start:end].rstrip()))
            yield last


def _regions(names: list[tuple[int, int]], before: int, behind: int) -> list[tuple[int, int]]:
    """Return the parts of a text, in order and apart, in which a value can stand near a name."""
    regions: list[tuple[int, int]] = []
    for begin, stop in names:
        first, last = begin - before, stop + behind
        if regions and first <= regions[-1][1]:
            regions[-1] = regions[-1][0], max(last, regions[-1][1])
        else:
            regions.append((first, last))
    return regions


class _Names(dict[str, list[tuple[int, int]]]):
    """Places of the names of secrets in a text by list, searched for when a list is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.lower, self.folded = text, lowered(text), folded(text)

    def __missing__(self, name: str) -> list[tuple[int, int]]:
        text = self.lower if name in _LOWER else self.text
        spans = [found.span() for found in _NAMES[name].finditer(text, self.folded)]
        if name == "names" and _COMPOUND_HINT in self.lower:
            spans = sorted([*spans, *self["compound names"]])
        self[name] = spans
        return spans


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
        and not _is_phone(text, start, value)
        and _is_behind(near["things"], text, start)
        and (text.endswith(": ", 0, start) or _IS_DIAL.fullmatch(text[start - 4 : end]) is not None)
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
    is_password_like = _PASSWORD_LIKE.fullmatch(value) and not _IDENTIFIER.match(text, start)
    if is_password_like and _is_near(near["accounts"], text, start, end):
        return "password"
    return None


def _kind_in_document(near: _Names, text: str, start: int, end: int) -> SecretKind | None:
    """Return what a value is, if the text gives it to a name: what a text merely mentions nearby is kept."""
    value = text[start:end]
    if text.startswith("(", end) or _IDENTIFIER.match(text, start):
        return None
    if _is_id(value) and _is_near(near["ids"], text, start, end):
        return "account-number"
    is_code = (
        _is_code_alone(value) and _is_given_a_code(near, text, start, end) and _is_code(text, start, end)
    )
    if is_code or (_is_given(near["accounts"], text, start) and _PASSWORD_LIKE.fullmatch(value)):
        return "password"
    return None


def _is_given_a_code(near: _Names, text: str, start: int, end: int) -> bool:
    """Return whether a text gives a value to a name or to what a code opens."""
    value = text[start:end]
    is_given = _is_given(near["names"], text, start) or _name_behind_given().match(text, end)
    if is_given or _is_note(near["names"], text, start, end):
        return True
    is_opened = _is_near(near["things"], text, start, end) and _is_near(near["opening"], text, start, end)
    if is_opened and (
        _is_given(near["opening"], text, start)
        or _is_given(near["things"], text, start)
        or _thing_behind_given().match(text, end)
    ):
        return True
    # "The safe in the study: 31-08-22"
    is_labelled = not value.strip("0123456789- ") and _LABELLED.search(text, max(0, start - 4), start)
    return bool(is_labelled and not _is_phone(text, start, value) and _is_given(near["things"], text, start))


def _is_phone(text: str, start: int, value: str) -> bool:
    is_long = sum(map(str.isdigit, value)) >= _PHONE_DIGITS
    return is_long and _PHONE.search(text, max(0, start - _NEAR), start) is not None


def _is_note(names: list[tuple[int, int]], text: str, start: int, end: int) -> bool:
    """Return whether a number ends a short line that begins with a name: "PIN tablet kids 1177"."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    line = text[first : last if last >= 0 else len(text)]
    is_short = len(line) <= 8 * _SHORT_NOTE and len(line.split()) <= _SHORT_NOTE
    is_last = not text[end : first + len(line)].strip(" .") and not text[start:end].strip("0123456789- ")
    return (
        is_short
        and is_last
        and any(begin == first for begin, _ in names[bisect_left(names, (first, 0)) :][:1])
    )


def _is_id(value: str) -> bool:
    """Return whether a value can be the number of an account or a person, and is no date."""
    n_signs, n_digits = sum(map(str.isalnum, value)), sum(map(str.isdigit, value))
    return (
        n_signs >= _LEAST_ID
        and n_digits >= _LEAST_ID - 1
        and not value.startswith("//")
        and not DATE.fullmatch(value)
    )


def _is_near(spans: list[tuple[int, int]], text: str, start: int, end: int) -> bool:
    """Return whether one of the spans stands near a value, at most one sentence away."""
    at = bisect_left(spans, (start - _NEAR - 20, 0))
    for begin, stop in spans[at : at + 8]:
        if stop <= start and start - stop <= _NEAR and _may_go_on(text[stop:start]):
            return True
        if begin >= end:
            return begin - end <= _NEAR_BEFORE and not SENTENCE_END.search(text, end, begin)
    return False


def _is_behind(spans: list[tuple[int, int]], text: str, start: int) -> bool:
    """Return whether one of the spans stands near before a value."""
    at = bisect_left(spans, (start - _NEAR - 20, 0))
    return any(
        stop <= start and start - stop <= _NEAR and _may_go_on(text[stop:start])
        for _, stop in spans[at : at + 8]
    )


def _may_go_on(between: str) -> bool:
    """Return whether text between a name and its value is speech, of at most two sentences, and no code."""
    return len(SENTENCE_END.findall(between)) < 2 and not PROGRAM_TEXT.search(between)


def _is_code(text: str, start: int, end: int) -> bool:
    """Return whether a value looks like a code: enough digits, or digits among letters or marks."""
    value = text[start:end]
    if not _is_code_alone(value):
        return False
    lead = text[max(0, start - 40) : start]
    return not (
        lead.endswith(("$", "€", "£"))
        or OTHER_NUMBER.search(lead)
        or UNIT.match(text, end)
        or NO_CODE.fullmatch(value)
    )


def _is_code_alone(value: str) -> bool:
    n_digits = sum(map(str.isdigit, value))
    is_mixed = n_digits > 0 and len(value) >= _LEAST_MIXED and not _NUMBERED_WORD.fullmatch(value)
    return n_digits >= _LEAST_DIGITS or is_mixed


def find_near(text: str, *, in_document: bool = False) -> Iterator[Secret]:
    """Yield the codes in a text that was cut out around its numbers."""
    yield from _named_values(text, in_document=in_document)
    yield from _access_codes(text, in_document=in_document)
