"""Where other people's words begin in a message: labels of pasted chats and e-mails, names before words."""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.wordings import alternatives, definition, words
from shepherd.sentences import split_sentences

__all__ = ["FIRST_PERSON", "begin_of_others", "sentences_with_speakers"]

# Words in the first person, as a document holds them.
FIRST_PERSON = (
    r"[\"'\u201c\u201e\u00ab(]?\s*(?:i|i'm|im|i've|my|we|our|dear|hello|hi|name|ich|mein\w*|wir|unser\w*"
    r"|je|j'\w+|mon|ma|mes|nous|yo|mi|mis|soy|tengo|vivo|me|io|sono|ho|mio|mia|eu|sou|tenho|moro|meu|minha|ik|mijn|wij)(?![\w'])"
)
_CAPITAL = r"(?-i:[A-Z\u00c0-\u00de])"
# "Lea: I live in Ulm." What follows a label is somebody else's.
_WITH_COLON = re.compile(
    r"(?:^|(?<=[.!?\n]))[ \t]*(?!(?:Fav\w*|Note|PS|P\.S|FYI|Btw|Update|Fact|Correction|Also"
    r"|Wrong|Incorrect|No|Nope|Actually|Background|Context|Reminder|Intro|Heads up|Disclaimer|Edit"
    r"|Detail|Details|Info|Kontext|Hinweis|Contexte|Précision|Contexto|Detalhe|Detalle|Nota|Contesto|Dettaglio"
    r"|Korrektur|Corrección|Correzione|Correção|Correctie)\b)[\[(]?"
    r"[A-Z\u00c0-\u00de][\w.-]*(?: [A-Z\u00c0-\u00de][\w.-]*)?[\])]?(?: \([^)\n]*\))?:[ \t]+(?=\S)",
    re.MULTILINE,
)
# A name, a name with a title or what somebody does, or a handle: "Dr Khan", "Paul (DevOps)", "lea_m".
_WORD = rf"(?:{_CAPITAL}[\w.'\u2019-]{{0,40}}|(?=[\w.-]{{0,30}}[_\d])(?=[\w.-]{{0,30}}[a-z])[\w.-]{{1,31}})"
_SURNAME = rf"(?: (?:(?:van|von|de|der|den|da|di|del|la|bin|al) ){{0,2}}{_CAPITAL}[\w.'\u2019-]{{0,40}})"
_NAME = rf"(?:@[\w.-]{{1,31}}|{_WORD}){_SURNAME}{{0,3}}(?: ?\([^()\n]{{1,40}}\))?"
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
        rf"^[ \t]*(?P<name>{_NAME})[ \t,@|\u00b7\u2022\u2013\u2014-]*{_STAMP}[ \t]*$(?=\s*\S)",
        # The name on a line of its own: "Lea Müller\n10:32"
        rf"^[ \t]*(?P<name>{_NAME})[ \t]*\n[ \t]*{_STAMP}[ \t]*$(?=\s*\S)",
        # "10:32 Lea", "29/11/2026, 10:32 - Lea Müller: …", "[10:32] <lea> …"
        rf"^[ \t]*{_STAMP}[ \t,\u2013\u2014-]*"
        rf"(?:(?P<name>{_NAME})[ \t]*(?::|$)|<[\w.@+ -]{{1,30}}>)(?=\s*\S)",
        # "On Monday, Lea Müller <lea@example.org> wrote:"
        r"^[^\n]{2,120}\b(?:wrote|writes|schrieb|schreibt|a écrit|écrit|escribió|ha scritto|escreveu|schreef)"
        r"\s?:[ \t]*$",
        r"^[ \t>*_-]*(?:begin )?(?:forwarded|original|weitergeleitete|ursprüngliche)"
        r" (?:message|e-?mail|nachricht)\b[^\n]{0,60}$",
        r"^[ \t]*(?:fwd?|wg|tr|rv)\b(?::|(?= (?:from|by)\b))",
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


_MOST_LABELS = 40  # of a pasted chat that is read to its end; the time grows with their square
# A label up to the words behind it.
_LABEL = re.compile(r"\s*(?P<label>[^\n]{1,120}?)(?::\s+|:?[ \t]*\n\s*|\s[-\u2013\u2014]+\s+)")


def begin_of_others(text: str) -> int:
    """Return where the first words begin that a label marks as somebody else's, else the text's length."""
    found = [match.start() for pattern in (_WITH_COLON, *_LABELS[3:]) if (match := pattern.search(text))]
    for pattern in (*_LABELS[:3], _ON_NEXT_LINE, _WITH_DASH):
        starts = (one.start() for one in pattern.finditer(text) if _is_somebody(one["name"]))
        found.append(next(starts, len(text)))
    return min(found, default=len(text))


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


def _is_somebody(name: str | None) -> bool:
    """Return whether a label names somebody: "Lea", and neither "Hi", "Monday" nor "Work"."""
    if name is None or re.fullmatch(_KIN, name, re.IGNORECASE) or definition("person").fullmatch(name):
        return True
    first = re.split(r"[ (]", name.casefold(), maxsplit=1)[0].strip(".,")
    return not (
        first in words("no names")
        or _no_label().match(name)
        or definition("occupation").fullmatch(first) is not None
    )


@cache
def _no_label() -> re.Pattern[str]:
    return re.compile(rf"\W*(?:{alternatives('fillers')}|{alternatives('headings')})(?!\w)", re.IGNORECASE)
