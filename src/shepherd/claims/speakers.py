"""Other people's words in a message: labels of pasted chats and e-mails, names before words.

A line such as "Dentist 14:30" looks like a label. What follows it is somebody else's if it names somebody for
sure, or if the time is none of an appointment: messages arrive at any minute.
"""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.wordings import alternatives, definition, words
from shepherd.given_names import GIVEN_NAMES
from shepherd.sentences import split_sentences

__all__ = ["FIRST_PERSON", "begin_of_others", "sentences_with_speakers", "without_others"]

# Words in the first person, as a document holds them.
FIRST_PERSON = (
    r"[\"'\u201c\u201e\u00ab(]?\s*(?:i|i'm|im|i've|my|we|our|dear|hello|hi|name|ich|mein\w*|wir|unser\w*"
    r"|je|j'\w+|mon|ma|mes|nous|yo|mi|mis|soy|tengo|vivo|me|io|sono|ho|mio|mia|eu|sou|tenho|moro|meu|minha|ik|mijn|wij)(?![\w'])"
)
# Capitals of all alphabets, and letters of scripts that have none.
_CAPITALS = "".join(
    char
    for start, end in ((0x41, 0x590), (0x1E00, 0x2000))
    for char in map(chr, range(start, end))
    if char.isupper()
)
_CAPITAL = rf"(?-i:[{_CAPITALS}\u05d0-\u10c5\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3])"
# "Lea: I live in Ulm." What follows a label is somebody else's.
_WITH_COLON = re.compile(
    r"(?:^|(?<=[.!?\n]))[ \t]*(?!(?:Fav\w*|Note|PS|P\.S|FYI|Btw|Update|Fact|Correction|Also"
    r"|Wrong|Incorrect|No|Nope|Actually|Background|Context|Reminder|Intro|Heads up|Disclaimer|Edit"
    r"|Detail|Details|Info|Kontext|Hinweis|Contexte|Précision|Contexto|Detalhe|Detalle|Nota|Contesto|Dettaglio"
    r"|Korrektur|Corrección|Correzione|Correção|Correctie)\b)[\[(]?"
    rf"{_CAPITAL}[\w.-]*(?: {_CAPITAL}[\w.-]*)?[\])]?(?: \([^)\n]*\))?:[ \t]+(?=\S)",
    re.MULTILINE,
)
# A name, a name with a title or what somebody does, or a handle: "Dr Khan", "Paul (DevOps)", "lea_m".
_WORD = rf"(?:{_CAPITAL}[\w.'\u2019-]{{0,40}}|(?=[\w.-]{{0,30}}[_\d])(?=[\w.-]{{0,30}}[a-z])[\w.-]{{1,31}})"
_SURNAME = rf"(?: (?:(?:van|von|de|der|den|da|di|del|la|bin|al) ){{0,2}}{_CAPITAL}[\w.'\u2019-]{{0,40}})"
_NAME = rf"(?:@[\w.-]{{1,31}}|{_WORD}){_SURNAME}{{0,3}}(?: ?\([^()\n]{{1,40}}\))?"
# Before a time, "lea" is a name, too.
_NAME_AT_TIME = rf"(?:{_NAME}|[^\W\d_]{{2,20}})"
_CLOCK = r"\d{1,2}(?:[:h]\d{2}(?::\d{2})?(?:\s?[ap]\.?m\.?)?|[.:]\d{2} uhr)"
_MONTH = (
    r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|janv|févr|avr|juin|juil|août|déc|ene|abr|ago|dic)"
    r"[\w.]*"
)
_DATE = (
    r"(?:today|yesterday|heute|gestern|aujourd'hui|hier|hoy|ayer|(?:mon|tue|wed|thu|fri|sat|sun)\w*"
    rf"|(?:{_MONTH} )?\d{{1,2}}\.? ?{_MONTH}(?:,? \d{{4}})?|{_MONTH} \d{{1,2}}(?:,? \d{{4}})?"
    r"|\d{1,4}[./-]\d{1,2}[./-]\d{2,4})"
)
_STAMP = rf"[\[(]?(?:{_DATE},?\s+)?(?:(?:at|um|à|a las)\s+)?{_CLOCK}(?:,?\s+{_DATE})?[\])]?"
# Lines that hold nothing but who wrote what follows, and when.
_LABELS = tuple(
    re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    for pattern in (
        # "Lea 10:32", "Tom Baker, [29.11.26 10:32]"
        rf"^[ \t]*(?P<name>{_NAME_AT_TIME})[ \t,@|\u00b7\u2022\u2013\u2014-]*"
        rf"(?P<stamp>{_STAMP})[ \t]*$(?=\s*\S)",
        # The name on a line of its own: "Lea Müller\n10:32"
        rf"^[ \t]*(?P<name>{_NAME_AT_TIME})[ \t]*\n[ \t]*(?P<stamp>{_STAMP})[ \t]*$(?=\s*\S)",
        # "10:32 Lea", "29/11/2026, 10:32 - Lea Müller: …", "[10:32] <lea> …"
        rf"^[ \t]*(?P<stamp>{_STAMP})[ \t,\u2013\u2014-]*"
        rf"(?:(?P<name>{_NAME})[ \t]*(?::|$)|<[\w.@+ -]{{1,30}}>)(?=\s*\S)",
        # "On Monday, Lea Müller <lea@example.org> wrote:"
        r"^[^\n]{2,120}\b(?:wrote|writes|schrieb|schreibt|a écrit|écrit|escribió|ha scritto|escreveu|schreef)"
        r"\s?:[ \t]*$",
        r"^[ \t>*_-]*(?:begin )?(?:forwarded|original|weitergeleitete|ursprüngliche)"
        r" (?:message|e-?mail|nachricht)\b[^\n]{0,60}$",
        r"^[ \t]*(?:(?:fwd?|wg|tr|rv):|fwd?(?= from\b))",
        r"^[ \t]*(?:from|von|de|da|van)[ \t]*:[ \t]*\S",
    )
)
# "Lea:", and what she says on the next line; "Mum - I'm diabetic".
_TITLE = r"(?:(?:dr|mr|mrs|ms|miss|prof|sir|nurse|aunt(?:ie|y)?|uncle)\b\.? )?"
_KIN = (
    r"(?:my )?(?:mum|mom|mummy|mother|dad|daddy|father|sis|sister|bro|brother|gran|granny|nan|grandma|grandad"
    r"|grandpa|mama|papa|oma|opa|maman|mamá|papá)"
)
_NAMED = rf"(?P<name>{_TITLE}{_NAME}|{_KIN})"
_ON_NEXT_LINE = re.compile(rf"^[ \t]*{_NAMED}[ \t]*:[ \t]*\n(?=\s*\S)", re.MULTILINE | re.IGNORECASE)
_WITH_DASH = re.compile(
    rf"(?:^|(?<=[.!?\n;:\u2026]))[ \t]*{_NAMED}[ \t]+[-\u2013\u2014]+[ \t]+(?={FIRST_PERSON})",
    re.MULTILINE | re.IGNORECASE,
)
_KIN_ONLY = re.compile(_KIN, re.IGNORECASE)
_TITLED = re.compile(r"(?:dr|mr|mrs|ms|miss|prof|sir|nurse|aunt(?:ie|y)?|uncle)\b\.? ", re.IGNORECASE)
_HANDLE = re.compile(r"@\S+|[^\W\d_][\w.-]*_[\w.-]+|[^()]*\([^()]+\)")
# "Rex - my dog - is ill"
_APPOSITION = re.compile(
    r"\s*(?:my|our|mein\w*|unser\w*|mon|ma|mes|notre|nos|mi|mis|nuestr\w+|mi[oa])\b", re.IGNORECASE
)
_INTERJECTIONS = "wow|whoa|phew|yay|oops|ouch|aha|hurrah|hooray|gosh|yikes|damn|omg|tada|hurra|puh|ups|ouf|uf"
_VERSION = re.compile(r"v?\d[\w.]*|\w*\d\.\w*")
_END_OF_SENTENCE = re.compile(r"[.!?\n\u2026]|$")
_MINUTES_OF_APPOINTMENTS = 5
_LAST_LATIN = 0x24F


_MOST_LABELS = 40  # of a pasted chat that is read to its end; the time grows with their square
# A label up to the words behind it.
_LABEL = re.compile(r"\s*(?P<label>[^\n]{1,120}?)(?::\s+|:?[ \t]*\n\s*|\s[-\u2013\u2014]+\s+)")


def begin_of_others(text: str) -> int:
    """Return where the first words begin that a label surely marks as somebody else's, else the length."""
    return _others(text)[0]


def without_others(text: str, gap: str) -> str:
    """Return the text up to the first words that a label marks as somebody else's.

    Of a sentence that may begin with a name ("Coffee - I love it"), nothing but the gap is left.
    """
    begin, unsure = _others(text)
    kept, end = [], 0
    for start, ending in unsure:
        kept.append(text[end:start])
        end = ending
    return gap.join((*kept, text[end:begin]))


def sentences_with_speakers(text: str) -> list[str]:
    """Return the sentences of a text, those of others behind their labels: "10:30 Lea: I hate tea."."""
    begin = begin_of_others(text)
    found = split_sentences(text[:begin])
    for _ in range(_MOST_LABELS):
        label = _LABEL.match(text, begin)
        if label is None:
            return found
        text = text[label.end() :]
        begin = begin_of_others(text)
        found += (f"{label['label']}: {one}" for one in split_sentences(text[:begin]))
    return found


def _others(text: str) -> tuple[int, list[tuple[int, int]]]:
    """Return where others' words begin, and the sentences before that may be somebody's behind a dash."""
    found = [match.start() for pattern in (_WITH_COLON, *_LABELS[3:]) if (match := pattern.search(text))]
    for pattern in (*_LABELS[:3], _ON_NEXT_LINE):
        starts = (one.start() for one in pattern.finditer(text) if _is_label(one))
        found.append(next(starts, len(text)))
    begin = min(found)
    unsure: list[tuple[int, int]] = []
    for match in _WITH_DASH.finditer(text, 0, begin):
        if (unsure and match.start() < unsure[-1][1]) or not _is_somebody(match["name"]):
            continue
        if _is_surely_somebody(match["name"]) and not _APPOSITION.match(text, match.end()):
            return match.start(), unsure
        ending = _END_OF_SENTENCE.search(text, match.end(), begin)
        unsure.append((match.start(), begin if ending is None else ending.start()))
    return begin, unsure


def _is_label(match: re.Match[str]) -> bool:
    """Return whether a line names somebody, and none of a day's appointments: "Dentist 14:30"."""
    name = match["name"]
    if name is None or not _is_somebody(name):
        return name is None
    stamp = match.groupdict().get("stamp")
    if stamp is None or _is_surely_somebody(name):
        return True
    if name.islower():
        return False
    minutes = re.fullmatch(r"\d{1,2}[:h](\d\d)", stamp)
    return minutes is None or int(minutes[1]) % _MINUTES_OF_APPOINTMENTS != 0


def _is_surely_somebody(name: str) -> bool:
    """Return whether it is a known given name, a relation, a title, a handle, or in no Latin script."""
    if _KIN_ONLY.fullmatch(name) or _TITLED.match(name) or _HANDLE.fullmatch(name):
        return True
    first = re.split(r"[ (]", name.casefold(), maxsplit=1)[0].strip(".,")
    return first in GIVEN_NAMES or ord(name[0]) > _LAST_LATIN


def _is_somebody(name: str) -> bool:
    """Return whether a label may name somebody: "Lea", and neither "Hi", "Monday", "Work" nor "v1.2"."""
    if _KIN_ONLY.fullmatch(name) or definition("person").fullmatch(name):
        return True
    first = re.split(r"[ (]", name.casefold(), maxsplit=1)[0].strip(".,")
    return not (
        first in words("no names")
        or _no_label().match(name)
        or _VERSION.fullmatch(first)
        or definition("occupation").fullmatch(first) is not None
    )


@cache
def _no_label() -> re.Pattern[str]:
    wordings = (alternatives("fillers"), alternatives("headings"), _INTERJECTIONS)
    return re.compile(rf"\W*(?:{'|'.join(wordings)})(?!\w)", re.IGNORECASE)
