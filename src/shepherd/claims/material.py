"""The user's own words in a message: without tasks and their material, code, quotations and other speakers.

Everything here errs on the side of leaving a statement out: a missed fact costs less than a false one.
"""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.speakers import FIRST_PERSON, without_others
from shepherd.claims.wordings import alternatives, rule
from shepherd.escaping import without_blocks

__all__ = ["GAP", "asks_for_text", "own_words", "without_given_text"]

# Stands for what was removed: no sentence goes across it.
GAP = "\x00"

_CODE = tuple(
    re.compile(pattern, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    for pattern in (
        r"(?:^|\n)[ \t]*(```|~~~).*?(?:\n[ \t]*\1|\Z)",
        r"`[^`\n]+`",
        r"^[ \t]*[>|].*?$",
        r"\b(?:https?|ftp|file)://\S+|\bwww\.\S+",
        r"[{\[][^{}\[\]]*[\"'][^{}\[\]]*[\"']\s*:[^{}\[\]]*[}\]]",
        r"(?:(?<![\w.-])[\w.-]{1,80}=\S+\s*){2,}",
        # Verse: two lines or more that end with a comma, and the one behind them.
        r"(?:^[ \t]*(?-i:[A-Z\u00c0-\u00de])[^\n.!?:]{8,70},[ \t]*\n){2,}[^\n]*",
        # "My name is [NAME]": a letter to be filled in.
        r"(?-i:\[[A-Z][A-Z _-]*\]|<[A-Z][A-Z _-]*>|\{[A-Z][A-Z _-]*\}|\[[Yy]our [\w ]+\])|_{3,}",
    )
)
_BLOCKS_OF_CODE = _CODE[:2]
# A line of code, of a log or of settings.
_CODE_LINE = re.compile(
    r"^[ \t]*(?:"
    r"[\w.\[\]\"']+\s*(?:=|:=|\+=|=>)\s*\S.*"
    r"|(?:def|class|import|from|return|const|let|var|function|public|private|static|void|int|SELECT|INSERT|UPDATE"
    r"|print|echo|export|#include)\b.*[(){};=].*"
    r"|(?:import|from)\s+[\w.]+(?:\s+import\s+.*)?"
    r"|[{}\[\]();]+.*|.*[{};]\s*|<[/\w!][^>]*>.*|\$ .*|#!.*|//.*"
    r"|\[?\d{4}-\d{2}-\d{2}[ T].*|\[?(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE)\b.*"
    r"|\w+@[\w-]+[:~].*[$#].*"
    r")$",
    re.MULTILINE,
)
_QUOTED = re.compile(
    r"\"[^\"\n]+\"|\u201c[^\u201d\n]+[\u201d\n]?|\u201e[^\u201c\u201d\n]+[\u201c\u201d]|\u00ab[^\u00bb\n]+\u00bb"
    r"|\u2039[^\u203a\n]+\u203a|\u300c[^\u300d\n]+\u300d"
    # An apostrophe within a word ends nothing: 'I'm a rambler'.
    r"|(?<!\w)['\u2018](?:[^'\u2019\n]|(?<=\w)['\u2019](?=\w)){3,}['\u2019](?!\w)"
)
# One word in quotation marks is emphasis or a title, and belongs to the sentence.
_ONE_WORD = re.compile(r"^.[\w.\u2019'-]+.$")
# "A summary, please: …" asks for work on what follows, as "summarise" does.
_WANTED_WORK = re.compile(
    r"\b(?:summary|translation|paraphrase|correction(?!\s*:)|proofreading|rewrite|zusammenfassung|übersetzung|résumé|traduction"
    r"|resumen|traducción|riassunto|traduzione|resumo|tradução|samenvatting|vertaling)\b[^.!?\n:]{0,30}:\s",
    re.IGNORECASE,
)
# Requests whose verb stands at the end: "Kannst du das übersetzen: …", and such ones in Chinese.
_WORK_IN_THE_END = re.compile(
    r"\b(?:(?:kannst|könntest|würdest|magst) du|(?:können|könnten|würden) sie|(?:kun|kan|wil) je|bitte)\b"
    r"[^.!?\n:]{0,60}\b(?:übersetzen|korrigieren|verbessern|umformulieren|umschreiben|zusammenfassen|kürzen"
    r"|vereinfachen|prüfen|vertalen|verbeteren|corrigeren|herschrijven|samenvatten)\b"
    r"(?: bitte| alsjeblieft)?\??\s?:\s"
    r"|(?:请|請|帮我|幫我)[^\u3002\uff01\uff1f\n:\uff1a]{0,20}(?:翻译|翻譯|总结|總結|修改|润色)"
    r"[^\u3002\uff01\n:\uff1a]{0,12}[:\uff1a]",
    re.IGNORECASE,
)
# In Japanese, with the beginning of the sentence before the verb.
_WORK_IN_JAPANESE = re.compile(
    r"(?:(?:訳|翻訳|要約|校正|添削|修正|直)して|(?:翻訳|要約|校正|添削)を?お願い)"
    r"[^\u3002\uff01\uff1f\n:\uff1a]{0,12}[:\uff1a]"
)
# Blanks before a sentence on its own line: from each of 2,400 blank lines, all the others were read.
_INDENT = r"[^\S\n]*"
_CLAUSE = re.compile(r"[\u3001\u3002\uff01\uff0c\uff1f\n]")


def own_words(message: str) -> str:
    """Return the message without what the user does not say as the user, GAP in its place; "" for nothing.

    A message that asks for work on a text, or for something made up, has no words of the user's own from that
    request on; one that quotes a letter or a diary, none from its beginning on. One that takes itself back
    ("just kidding") has none at all.
    """
    # Blocks of a prompt that a client sent back.
    text = without_blocks(message, GAP).replace("\u2019", "'")
    if rule("not meant").search(text) or rule("role play", begins=True).match(text):
        return ""
    if rule("of a document").search(text):
        return ""
    if _request("work on a text").match(text) and not _is_standing(text):
        return ""
    if _request("invention").match(text) and (rule("invented things").search(text) or ":" in text):
        return ""
    pretence = _request("pretence later").search(text)
    text = _before_work(text[: pretence.start()] if pretence else text)
    text = _before_a_document(text)
    for pattern in _CODE:
        text = pattern.sub(GAP, text)
    text = _CODE_LINE.sub(GAP, text)
    return without_others(_unquoted(text), GAP)


def asks_for_text(message: str) -> bool:
    """Return whether a message begins with a request for work on a text, or for a story or a letter."""
    invents = _request("invention").match(message) and rule("invented things").search(message)
    return bool(invents or _request("work on a text").match(message))


def without_given_text(message: str) -> str:
    """Return a message up to a later request for work on a text, and without blocks of code and quotations.

    Unlike `own_words`, it keeps what only may be somebody else's.
    """
    text = _before_work(without_blocks(message, GAP).replace("\u2019", "'"))
    for pattern in _BLOCKS_OF_CODE:
        text = pattern.sub(GAP, text)
    return _unquoted(text)


def _before_work(text: str) -> str:
    """Return the text up to a later request for work on what follows."""
    later = _request("work on a text later").search(text)
    if later:
        text = text[: later.start()]
    for work in (_WANTED_WORK, _WORK_IN_THE_END):
        wanted = work.search(text)
        if wanted:
            text = text[: wanted.start()]
    wanted = _WORK_IN_JAPANESE.search(text)
    if wanted:
        ends = [match.end() for match in _CLAUSE.finditer(text, 0, wanted.start())]
        text = text[: max(ends, default=0)]
    return text


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda match: match[0][1:-1] if _ONE_WORD.match(match[0]) else GAP, text)


def _is_standing(text: str) -> bool:
    """Return whether a request is about all answers to come: "please answer in German from now on"."""
    return ":" not in text and rule("standing").search(text) is not None


def _before_a_document(text: str) -> str:
    """Return the text up to a letter or to the words of a document, which need no quotation marks."""
    letters = [_beginning("salutation")]
    if rule("close of a letter").search(text):
        letters.append(_beginning("greeting of a letter"))
    found = [match.start() for pattern in (*letters, *_documents()) if (match := pattern.search(text))]
    return text[: min(found)].rstrip("\n") if found else text


@cache
def _beginning(name: str) -> re.Pattern[str]:
    """Return the pattern of a wording that begins a line or a sentence."""
    begins = rf"(?:\A\W*|(?<=[.!?:\u2013\u2014-])[^\S\n]+|(?<=\n){_INDENT})"
    return re.compile(begins + alternatives(name), re.IGNORECASE)


@cache
def _documents() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of what introduces others' words: "the diary begins", "lyrics:", "my story - I"."""
    document = rf"(?<!\w){alternatives('documents')}(?!\w)"
    first = rf"(?=\s*{FIRST_PERSON})"
    by = r"(?:from|by|von|de|da|van) "
    somebody = r"(?:(?!\b(?:and|but|so|because|i|we|und|et|y)\b)[^.!?:,\n\u2013\u2014]){1,40}?"
    behind = r"[^.!?:\n]{0,40}?[.!?:,\n\u2013\u2014-]+"
    told = behind.replace(".!?:,", ".!:,")  # "Is what they sent correct?"
    own = (
        r"(?!(?: \w+){0,2} (?:my|our) (?:own|old|cv|r[eé]sum[eé]|notes?|profile|bio|diary|journal|blog"
        r"|website|calendar|drafts?|linkedin|phone|documents?|files?|app)\b)"
    )
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"{document}[^.!?:\n]{{0,60}}?(?<!\w){alternatives('begins')}(?!\w)"
            rf"[\w ,]{{0,20}}?[\s:,\u2013\u2014-]{first}",
            rf"{document}[^.!?:\n]{{0,40}}\s?:\s",
            # "Message from Lea", "got a text from my sister, I'm pregnant"
            rf"(?<!\w){alternatives('messages')} (?:just )?{by}{somebody}\s*[:,\n\u2013\u2014-]+{first}",
            rf"(?<!\w){alternatives('messages of the moment')} (?:just )?{by}{somebody}\s*[.!\u2026]+{first}",
            # "This is what my mum posted on Facebook.", "Ben wrote this."
            rf"(?:\A\s*|(?<=[.!?\n]){_INDENT})(?:(?!(?:i|i'm|we|wonder|know)\b)[\w']+ ){{0,4}}?"
            rf"what (?!i\b|we\b)[\w' ]{{2,30}}? {alternatives('shared')}{told}{first}",
            rf"(?<![\w'-])(?!(?:i|we|i've|we've|just|also|have|had|has|already|finally)\b)[\w'-]+ (?:just )?"
            rf"{alternatives('shared')} (?:me |us )?(?:this|the following)\b{behind}{first}",
            rf"(?<!\w){alternatives('found')}{own}{behind}{first}",
            rf"(?:\A|(?<=[.!?\n]))(?:(?!\b(?:i|i'm|we)\b)[^.!?:\n]){{0,40}}?{document}[^.!?:\n]{{0,30}}"
            rf"\s[\u2013\u2014-]\s{first}",
        )
    )


@cache
def _request(name: str) -> re.Pattern[str]:
    """Return the pattern of a request at the beginning of a sentence, with words of politeness before it."""
    polite = rf"(?:{alternatives('polite')}[,!]?\s+)*"
    return re.compile(rf"(?:\A\W*|(?<=[.!?\n;]){_INDENT}){polite}{alternatives(name)}(?!\w)", re.IGNORECASE)
