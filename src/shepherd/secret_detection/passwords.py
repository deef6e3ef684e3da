"""Passwords, passphrases and answers to security questions, known by the words around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from shepherd._native.text import STOP_WORDS
from shepherd.secret_detection.anchors import Anchored, folded
from shepherd.secret_detection.vocabulary import (
    ORDINARY,
    PROGRAM_TEXT,
    WORDS,
    Secret,
    SecretKind,
    around,
    is_ordinary,
    moved,
    words_of,
)

__all__ = ["find"]

# AWS's secret keys have slashes, too, and a fixed length; seeds of authenticators are in base 32.
# Letters, a digit, and a mark between them that joins no words: "Quarry#19Bent".
_MARK = re.compile(r"[#!?&$%^*][A-Za-z0-9#!?&$%^*_-]")
_UNNAMED_PASSWORD = re.compile(
    r"(?<![\w#@&/.=%?+~$-])(?=\S{9,64}(?:\s|$"
    r"|[.,;:)\"']))(?=[^\s\d]{0,40}\d)(?=\S{0,40}[A-Z])(?=\S{0,40}[a-z]{2})"
    r"[A-Za-z0-9_-]{2,40}[#!?&$%^*][A-Za-z0-9#!?&$%^*_-]{2,40}(?![\w=/@:<>(\[{;|])"
)
_NAME = f"(?:{WORDS['password names']})"
# A purpose may stand between: "password for the router is …", "password (work): …".
_PURPOSE = f"(?:{WORDS['purposes']})?"
_VALUE = (
    r"(?:[\"'`\u201c\u2018«](?P<quoted>(?!\s)[^\n\"'`\u201d\u2019»]{3,128})[\"'`\u201d\u2019»]"
    r"|(?P<bare>[^\s\"'`\u201c\u201d\u2018\u2019<>]{3,128}))"
)
_PASSWORD = Anchored(
    _NAME + r"[\"'`]?" + _PURPOSE + r"(?:\s{0,3}(?:[:=\uff1a](?!:\w)|是|は|—|->(?!\w))\s{0,3}(?::\s{0,2})?"
    r"|\s{0,3}\b(?P<link>is|was|used to be|will be|reads|ist|war|lautet|est|es|é|è|c'est)\b\s{0,3}:?\s{0,2}"
    r"|'s\s|\?\s{1,2}(?:it'?s|it is|es ist|c'est|es|è|é|het is)\s"
    # "My password? CorrectHorse7": a word that is none.
    r"|\?\s{1,2}(?=\S{0,60}(?:(?-i:[a-z][A-Z])|\d)))"
    r"(?:(?:now|literally|actually|just|simply|basically|really|currently|only|gonna be|going to be|still"
    r"|jetzt|maintenant|ahora|adesso|agora|nu|le|la|el|il|o)\s)?" + _VALUE,
    re.IGNORECASE,
)
# "I changed my password to …"
_SET_PASSWORD = Anchored(
    r"\b(?:set|sets|changed?|reset|updated?|made)\s(?:\S{1,20}\s){0,4}?"
    + _NAME
    + _PURPOSE
    + r"\s(?:to|as|into)\s"
    + _VALUE,
    re.IGNORECASE,
)
# "hunter2 is my password", '"open sesame" as the password'. What follows the name makes it something else.
_AFTER = f"(?:{WORDS['behind a password']})"
_ONLY = r"\b(?!['\-]?\w)(?=\s*(?:[.,;!)\n]|$|for\b|on\b|to\b))"
_BEFORE_NAME = re.compile(_VALUE + _AFTER + _NAME + _ONLY, re.IGNORECASE)
_IS_NAME = re.compile(_AFTER + _NAME, re.IGNORECASE)
# "netflix password popcorn77!", "user steve, pass Kr0kodil", "login is admin / Zx81Spectrum": words with
# digits, or with capitals inside and marks.
_BEHIND_NAME = Anchored(
    r"(?:" + _NAME + r"|\b(?:user(?:name)?|account|login)\s\S{1,64}\s?[,;]?\s(?:and\s)?pass"
    r"|\b(?:login|logins|credentials?|zugangsdaten"
    r"|identifiants?)\b(?:\s(?:is|are|ist|sind))?[:\s]{1,3}\S{1,64}\s?[/|,])"
    r"[ \t]{1,3}(?P<bare>(?:(?=[^\s\"'`<>]{0,63}\d)(?=[^\s\"'`<>]{0,63}[^\W\d_])"
    r"|(?=\S{0,63}(?-i:[a-z][A-Z]))(?=\S{0,63}[!#$%^&*]))[^\s\"'`<>]{6,128})",
    re.IGNORECASE,
)
# Several words are a passphrase if none of them is one of ordinary speech.
_PASSPHRASE = Anchored(
    rf"(?:{WORDS['passphrases']})[^\n:=.!?]{{0,40}}?\s{{0,2}}"
    r"(?P<link>[:=]|\b(?:is|was|reads|ist|lautet|est|es|è|é)\b)\s{0,2}"
    r"(?P<words>(?:[\w']{1,12}[ \-]){2,11}[\w']{2,12})(?=\s*(?:[.,;!?)\n]|$))"
    rf"|(?:{WORDS['passphrases']})[^\n:=.!?\"'\u201c\u2018]{{0,40}}[\"'\u201c\u2018]"
    r"(?P<quoted>[^\n\"'\u201d\u2019]{8,128})[\"'\u201d\u2019]",
    re.IGNORECASE,
)
# Without a mark behind it, the row may go on into speech: "is correct otter lamp 9 and the agent asks".
# No word of it is a small one.
_SPOKEN_PHRASE = Anchored(
    rf"(?:(?P<phrase>{WORDS['passphrases']})[^\n:=.!?]{{0,40}}?|{_NAME}{_PURPOSE})\s{{0,2}}"
    r"(?:[:=]|\b(?:is|was|used to be|will be|reads|ist|war|lautet|est|es|è|é)\b)\s{0,2}"
    r"(?P<words>(?:[^\W_]{1,12}[ \-]){2,8}?[^\W_]{1,12})"
    rf"(?=\s*(?:[.,;!?)\n]|$)|\s(?:{WORDS['after a phrase']})\b)",
    re.IGNORECASE,
)
# No name ends inside an unbroken run, such as a picture in base 64: its letters hold many hints by chance.
_OUTSIDE_RUN = r"(?![a-z0-9+/]{60})"
_SPOKEN_HINT = re.compile(
    r"(?:pas{1,2}[ _-]?(?:w|c|phr)|phrase|frase|wacht[wz]|kennw|senha|contrase|de passe|p/?wd?\b"
    rf"|(?:safe|code|magic)[ -]?word){_OUTSIDE_RUN}"
)
_GOES_ON = re.compile(r"\w+(?:ed|ing|ly)", re.IGNORECASE)
# Each match contains one of these: searching for them costs a twentieth of the rule.
_PASSWORD_HINT = re.compile(f"(?:{WORDS['password hints']}){_OUTSIDE_RUN}")
# A row of small words is one, too, if none of them is a word of ordinary speech: the lists that recovery
# phrases are made of (BIP 39) leave those out.
_SMALL_WORD = r"(?:\d{1,2}[.):]?\s{0,2})?[a-zäöüßà-ÿ]{3,8}"
_WORD_ROW = re.compile(
    rf"(?<![\w'\u2019-]){_SMALL_WORD}(?:(?:,\s?|\s|\s-\s)\s{{0,2}}{_SMALL_WORD}){{5,60}}(?![\w'\u2019-])"
)
_LETTERS = re.compile(r"[^\W\d_]+")
_BEFORE_WORDS = re.compile(
    r"(?:[:=\"'\u201c\u2018\u201e\n(\u2014-]|\b(?:is|are|was|were|starts? with|begins? with|ist|sind|lauten"
    r"|sont|son|sono|são|zijn))\s*$"
)
_PHRASE_HINT = re.compile(
    rf"(?<!\w)(?:(?P<plain>{words_of('phrases')})|{words_of('wallets')})(?!\w)", re.IGNORECASE
)
_PHRASE_NEAR, _LEAST_WORDS, _LEAST_PASSPHRASE, _LEAST_SPOKEN = 120, 6, 4, 3
_PHRASE_LENGTHS = (12, 15, 18, 21, 24)
_OPENS = re.compile(r"(?:unlocks?|opens?|decrypts?) (?:my|our|the) ")
# "…. That unlocks my GPG key": words of a passphrase that make a sentence.
_OPENED_BY_WORDS = re.compile(
    r"(?:^|[:\n.!?(]\s{1,2})(?P<words>[^\n:.!?]{12,120}?)[.,;!)]?\s(?:[\u2013\u2014-]\s)?"
    r"(?:that|this|which|it)(?:'s what)?\s(?:unlocks|opens|decrypts)\s(?:my|our|the)\s(?:\w{1,20}\s){0,2}?"
    r"(?:gpg|pgp|ssh|key|keys|keyring|keychain|vault|wallet|drive|disk|volume|backups?|manager|laptop"
    r"|archive)\b",
    re.IGNORECASE,
)
# "I unlock my ssh key with the phrase …"
_OPENED_WITH_PHRASE = Anchored(
    r"\b(?:gpg|pgp|ssh|keepass\w*|bitwarden|vaultwarden|1password|lastpass|veracrypt|luks|bitlocker"
    r"|filevault|keys?|keyring|keychain|vault|wallet|drive|disk|volume|backups?|manager|laptop|archive)\b"
    r"[^\n.:!?]{0,40}\b(?:with|is|by|using) (?:the |a |this |my )?(?:(?:pass[- ]?)?phrase|sentence):? "
    r"[\"'\u201c\u2018]?"
    r"(?P<words>(?!of\b|that\b|from\b|in\b)[^\n!?\"\u201d]{8,120}?)(?=[\"'\u201d\u2019.!?]*\s*$|[.!?]\s)",
    re.IGNORECASE,
)
# Named as one, twelve words or more are a recovery phrase, however ordinary.
_NAMED_ROW = Anchored(
    r"\b(?i:(?:recovery|seed|backup|wallet|mnemonic) (?:recovery )?(?:phrase|words)"
    r"|(?:12|15|18|21|24|twelve|twenty-four) (?:secret |recovery )?words)\b[^\n:.]{0,30}?"
    r"(?:\bis|\bare|:|=)\s{1,3}[\"'\u201c]?(?P<words>(?:[a-z]{3,8},?\s){11,23}[a-z]{3,8})\b",
    0,
)
_LEAST_LETTERS, _MOST_BLANKS = 5, 500
_QUESTION = re.compile(r"question|asks?|wants to know|frage|pregunta|domanda|pergunta|vraag", re.IGNORECASE)
# "The answer to my security question is Biscuit", "my memorable word for the bank is Tangerine"
_MEMORABLE = Anchored(
    rf"\b(?:{WORDS['memorable']})(?: \([^)\n]{{1,40}}\))?(?: (?:for|with|at|on) [\w' ]{{2,30}}?)?"
    r"(?: is| was|:| =) [\"'\u201c\u2018]?(?!(?:the|a|an|not|too|that|something|always|wrong|case|required"
    r"|never|what|your|you)\b)"
    r"(?P<answer>[^\W_][\w'-]{1,30}(?: (?-i:[A-Z0-9])[\w'-]{0,30}){0,3})",
    re.IGNORECASE,
)


# What is found by the rule is a secret as it is.
_NAMED: tuple[tuple[SecretKind, Anchored, str], ...] = (
    ("recovery-phrase", _NAMED_ROW, "words"),
    ("password", _OPENED_WITH_PHRASE, "words"),
    ("password", _MEMORABLE, "answer"),
)


@cache
def _security_answers() -> Anchored:
    return Anchored(
        rf"(?<!\w){words_of('questions')}(?!\w)[^\n]{{0,90}}?"
        rf"(?:(?<!\w){words_of('answers')}|[:,(\u2014]\s(?=(?-i:[A-ZÀ-Þ])))\s?(?!to\b|for\b|zu\b)"
        rf"(?:(?:them|there|is|was|it)\s){{0,2}}(?P<answer>(?!\d{{1,3}}\b)[^\s.,;!?][^\n.,;!?]{{1,60}})",
        re.IGNORECASE,
    )


# Adjectives and participles of languages whose word for "is" was read: "La password è scaduta".
_PARTICIPLE = re.compile(WORDS["participles"])


def _spoken_phrases(text: str, small: str) -> Iterator[Secret]:
    """Yield passphrases of which the sentence goes on, and passwords of several words."""
    for match in _SPOKEN_PHRASE.finditer(text, small):
        words = match["words"].casefold().replace("-", " ").split()
        strange = [word for word in words if _is_phrase([word])]
        # "The password is cached locally somewhere" tells what happens to it.
        n_least = _LEAST_SPOKEN + (_GOES_ON.fullmatch(words[0]) is not None)
        is_speech = any(word in STOP_WORDS for word in words) or 4 * len(strange) < 3 * len(words)
        if len(strange) >= n_least and not is_speech:
            yield Secret("password", *match.span("words"))


def _unnamed_passwords(text: str) -> Iterator[Secret]:
    for match in _UNNAMED_PASSWORD.finditer(text):
        if sum(map(str.isalpha, match[0])) >= _LEAST_LETTERS:
            yield Secret("password", *match.span())


def _passwords(text: str, small: str) -> Iterator[Secret]:
    for rule in (_PASSWORD, _SET_PASSWORD, _BEHIND_NAME):
        yield from filter(None, (_password(text, match) for match in rule.finditer(text, small)))
    # Begins with any value, and few texts have what follows the value.
    for begin, piece in around(text, _IS_NAME.finditer(text)):
        yield from moved(
            begin, filter(None, (_password(piece, match) for match in _BEFORE_NAME.finditer(piece)))
        )
    for match in _PASSPHRASE.finditer(text, small):
        words = (match["words"] or "").replace("-", " ").split()
        # Some small words are left to a sentence that somebody made up to remember it, more if it cannot
        # begin speech about a passphrase.
        n_small = sum(not _is_phrase([word]) for word in words)
        begins_as_one = _is_phrase(words[:1])
        most = (2 / 3 if match["link"] in (":", "=") else 1 / 2) if begins_as_one else 1 / 4
        is_one = begins_as_one or len(words) >= _LEAST_PASSPHRASE
        if match["quoted"] or (is_one and n_small <= most * len(words)):
            yield Secret("password", *match.span("quoted" if match["quoted"] else "words"))


def _phrases(text: str) -> Iterator[Secret]:
    """Yield rows of small words that make no sentence: recovery phrases and passphrases."""
    first = len(text) - len(text.lstrip())
    for match in _WORD_ROW.finditer(text):
        for start, end, n_words in _uncommon(match):
            nearby = text[max(0, start - _PHRASE_NEAR) : end + _PHRASE_NEAR]
            hints = list(_PHRASE_HINT.finditer(nearby))
            is_long = n_words >= min(_PHRASE_LENGTHS)
            lead = text[max(0, start - 12) : start]
            is_listed = any(hint["plain"] for hint in hints) and _BEFORE_WORDS.search(lead)
            is_alone = n_words in _PHRASE_LENGTHS and "," not in text[start:end] and start <= first
            if (hints and is_long) or is_listed or is_alone:
                yield Secret("recovery-phrase", start, end)


def _uncommon(row: re.Match[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a row that have six or more words, hardly any of ordinary speech, and their number.

    One word in six may be ordinary, such as "hidden", since the lists have some of them. A row of which less
    than one in four is comes whole as well.
    """
    words = list(_LETTERS.finditer(row[0]))
    if len(words) < _LEAST_WORDS:
        return
    is_strange = [word[0].casefold() not in ORDINARY for word in words]
    n_different = len({word[0] for word in words})
    is_row = n_different > len(words) / 2 and 4 * sum(is_strange) >= 3 * len(words)
    if is_row and not any(word[0] in STOP_WORDS for word in words):
        yield row.start() + words[0].start(), row.start() + words[-1].end(), len(words)
    part: list[re.Match[str]] = []
    n_ordinary = 0
    for word, strange in zip((*words, None), (*is_strange, False), strict=True):
        if word is not None and strange:
            part.append(word)
            continue
        if word is not None and part and n_ordinary < 1 + len(part) // 6 and word[0] not in STOP_WORDS:
            part.append(word)
            n_ordinary += 1
            continue
        if len(part) >= _LEAST_WORDS and not _is_counter(row[0], part):
            yield row.start() + part[0].start(), row.start() + part[-1].end(), len(part)
        part, n_ordinary = [], 0


def _is_counter(row: str, part: list[re.Match[str]]) -> bool:
    """Return whether a word comes again and again with a number."""
    return len({one[0] for one in part}) <= len(part) / 2 and any(map(str.isdigit, row))


def _is_phrase(words: list[str]) -> bool:
    """Return whether no word is one of ordinary speech."""
    return not any(word.casefold() in ORDINARY for word in words)


def _password(text: str, match: re.Match[str]) -> Secret | None:
    """Return the word behind a password's name, if it looks like a password."""
    groups = match.groupdict()
    if groups.get("quoted") is not None:
        return None if is_ordinary(match["quoted"]) else Secret("password", *match.span("quoted"))
    value = match["bare"].rstrip(".,;:!?)]}")
    # "correct!" and "Tr0ub4dor!": the mark belongs to a password that has more than letters.
    if match["bare"].endswith("!") and not value.isalpha():
        value = match["bare"]
    start = match.start("bare")
    end = start + len(value)
    if len(value) < 3 or is_ordinary(value):
        return None
    is_plain = value.count("-") < 2 and value.replace("-", "").isalpha() and not _is_mixed_case(value)
    if not is_plain:
        return Secret("password", start, end)
    link = (groups.get("link") or "").casefold()
    is_foreign = link not in ("", "is", "was") or "wachtwoord" in match[0].casefold()
    if is_foreign and _PARTICIPLE.fullmatch(value):
        return None
    # A plain word that ends the sentence is a password; in "kept safe in …" it is speech.
    if match.re is _BEFORE_NAME:
        return Secret("password", start, end) if _begins_clause(text, start) else None
    return Secret("password", start, end) if _ends_clause(text, end) else None


def _begins_clause(text: str, start: int) -> bool:
    before = text[max(0, start - _MOST_BLANKS) : start].rstrip(" ")
    return not before or before[-1] in ".,;:!?\n"


def _is_mixed_case(value: str) -> bool:
    return any(letter.isupper() for letter in value[1:]) and any(letter.islower() for letter in value)


def _ends_clause(text: str, end: int) -> bool:
    rest = text[end : end + 8].lstrip(" ")
    return not rest or rest[0] in "\n\r.,;!?)" or rest.startswith(("and ", "but ", "for ", "on ", "und "))


def find(text: str, *, is_program: bool | None = None) -> Iterator[Secret]:
    """Yield the passwords, passphrases and answers to security questions in a text.

    `is_program` says whether the text that this is a part of is a program.
    """
    small = folded(text)
    for begin, piece in around(text, _PASSWORD_HINT.finditer(small)):
        yield from moved(begin, _passwords(piece, folded(piece)))
    yield from _phrases(text)
    if _OPENS.search(small):
        yield from (Secret("password", *match.span("words")) for match in _OPENED_BY_WORDS.finditer(text))
    for kind, rule, group in _NAMED:
        yield from (Secret(kind, *match.span(group)) for match in rule.finditer(text, small))
    for begin, piece in around(text, _SPOKEN_HINT.finditer(small)):
        yield from moved(begin, _spoken_phrases(piece, folded(piece)))
    if is_program is None:
        is_program = PROGRAM_TEXT.search(text) is not None
    if not is_program and any(map(str.isdigit, text)):
        for begin, piece in around(text, _MARK.finditer(text)):
            yield from moved(begin, _unnamed_passwords(piece))
    if _QUESTION.search(small):
        found = _security_answers().finditer(text, small)
        yield from (Secret("password", *match.span("answer")) for match in found)
