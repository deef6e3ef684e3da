"""Find what must not be remembered: keys, tokens, private keys, card numbers, passwords.

Pure functions over text, meant to be right when they speak: shapes that their makers have published, numbers
whose check digit fits, words that follow "password is" and look like one, and codes near a secret's name. A
secret without a shape and without such a name near it is not found; `unexplained` looks for those in what is
typed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from shepherd._native.text import STOP_WORDS

__all__ = [
    "COVER",
    "WORDS",
    "Secret",
    "SecretKind",
    "find_secrets",
    "holds_secret",
    "is_secret",
    "masked",
    "words_of",
]

SecretKind = Literal[
    "private-key", "api-key", "token", "password", "recovery-phrase", "card-number", "account-number"
]


@dataclass(frozen=True, slots=True)
class Secret:
    """Span of a secret: `text[start:end]` is the secret alone, without the words around it."""

    kind: SecretKind
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in `text`, in order, none inside another. Time is linear in the text."""
    found = sorted(_candidates(text), key=lambda secret: (secret.start, -secret.end))
    kept: list[Secret] = []
    for secret in found:
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
        elif secret.end > kept[-1].end:
            # Two rules that see parts of one thing: all of it is the secret.
            kept[-1] = Secret(kept[-1].kind, kept[-1].start, secret.end)
    return kept


def is_secret(name: str, value: str) -> bool:
    """Return whether a fact or memory holds a secret. `name` is its key or question."""
    words = re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower()
    tells = _TELLING_NAMES.search(words) or (len(value.split()) == 1 and _VAGUE_NAMES.search(words))
    return bool(tells) or any(map(find_secrets, (name, value, f"{name}: {value}")))


def holds_secret(question: str, answer: str) -> bool:
    """Return whether a memory holds a secret; a question about passwords alone is none."""
    # What tells of a secret stands near it, so that of long texts only the ends that meet are read again.
    together = f"{question[-_MEETING:]}: {answer[:_MEETING]}"
    if any(map(find_secrets, (question, answer, together))):
        return True
    return len(answer.split()) == 1 and any(map(str.isdigit, answer)) and is_secret(question, answer)


def masked(text: str) -> tuple[str, int]:
    """Return a text of the same length with its secrets covered, and how many there are."""
    found = find_secrets(text)
    pieces, end = [], 0
    for secret in found:
        pieces += [text[end : secret.start], re.sub(r"\S", COVER, text[secret.start : secret.end])]
        end = secret.end
    return "".join([*pieces, text[end:]]), len(found)


def _word_lists() -> dict[str, str]:
    """Return the rows of each list of secret_words.txt as one row of alternatives."""
    rows: dict[str, list[str]] = {}
    text = Path(__file__).with_name("secret_words.txt").read_text("utf-8").replace("\n  ", "")
    name = ""
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]"):
            name = line.strip("[]")
            rows[name] = []
        elif line and not line.startswith("#"):
            rows[name].append(line)
    return {name: "|".join(lines) for name, lines in rows.items()}


def words_of(name: str) -> str:
    """Return the alternatives of a list as a group, with blanks that may be hyphens."""
    return "(?:" + WORDS[name].replace(" ", r"[ \-_\u2011]") + ")"


WORDS = _word_lists()

COVER = "\u2022"
# "password manager", "secret ingredient", "pin board" name no secret.
_NOT_ITSELF = WORDS["not itself"]
_VAGUE_NAMES = re.compile(r"\b(?:secret|token)\b" + _NOT_ITSELF)
# A value alone does not show that it is a password; its key or question does. Words, not parts of words.
_TELLING_NAMES = re.compile(
    rf"\b(?:{words_of('names')}|{words_of('key names')})\b{_NOT_ITSELF}", re.IGNORECASE
)

# ---- shapes that speak for themselves

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END ).){0,20000}(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
    r"|\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b",
    re.DOTALL,
)

# Boundaries of a key: neither a letter, a digit nor the middle of another word.
_EDGE, _END = r"(?<![A-Za-z0-9_\-])", r"(?![A-Za-z0-9_])"
_API_KEYS = re.compile(rf"{_EDGE}(?:{WORDS['keys']}){_END}")
_TOKENS = re.compile(
    r"\beyJ[A-Za-z0-9_\-]{10,4000}\.eyJ[A-Za-z0-9_\-]{10,8000}\.[A-Za-z0-9_\-]{10,2000}"  # JWT
    r"|\bhttps://hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}"
    r"|\bhttps://(?:canary\.|ptb\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/[A-Za-z0-9_\-]{50,}"
)
# Without a prefix: a long word of capitals, small letters and digits in no order. In an address it is an id.
_UNNAMED_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_\-/=&?%.#@+])(?=[A-Za-z0-9+]{0,80}[A-Z])(?=[A-Za-z0-9+]{0,80}[a-z])"
    r"(?=(?:[A-Za-z+]{0,40}\d){3})"
    r"[A-Za-z0-9][A-Za-z0-9+/_\-]{18,200}={0,2}(?![A-Za-z0-9_\-/.@])"
)
# Further from the name: "the API key for the server, put it in the script: crp-9f2LmQ77xTz0".
_DISTANT_KEY = re.compile(
    r"\b(?:(?:api|access|secret|client|app|private|licen[cs]e|activation|product|serial|deploy|auth)[ _-]"
    r"(?:key|token|secret)s?|token)\b[^\n{};<=]{0,80}?[\s:=\"'`(\u201c]"
    r"(?P<value>(?=[A-Za-z0-9_\-]{9,80}(?:$"
    r"|[\s.,;:!?)\"'`\u201d]))(?=[A-Za-z_\-]{0,40}\d)(?=[\d_\-]{0,40}[A-Za-z])"
    r"[A-Za-z0-9]{1,40}(?:[_\-][A-Za-z0-9]{1,40}){0,8})(?![\w/-]|\.\w)",
    re.IGNORECASE,
)
_KEY_GROUPS = re.compile(r"(?=.*\d)(?=.*[A-Z])[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){2,8}")
# AWS's secret keys have slashes, too, and a fixed length; seeds of authenticators are in base 32.
# Letters, a digit, and a mark between them that joins no words: "Quarry#19Bent".
_UNNAMED_PASSWORD = re.compile(
    r"(?<![\w#@&/.=%?+~$-])(?=\S{9,64}(?:\s|$"
    r"|[.,;:)\"']))(?=[^\s\d]{0,40}\d)(?=\S{0,40}[A-Z])(?=\S{0,40}[a-z]{2})"
    r"[A-Za-z0-9_-]{2,40}[#!?&$%^*][A-Za-z0-9#!?&$%^*_-]{2,40}(?![\w=/@:<>(\[{;|])"
)
_KEY_OF_FORTY = re.compile(r"(?<![A-Za-z0-9+/=_.\-])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=_.\-])")
# 32 bytes in hexadecimal are a key beside that word; elsewhere they are mostly hashes.
_HEX_KEY = re.compile(
    r"\b(?:keys?|schlüssel|clés?|claves?|chiavi?|chaves?|sleutels?|wallet|metamask)\b[^\n]{0,40}?"
    r"(?<![A-Za-z0-9])((?:0x)?[0-9a-fA-F]{64})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_BASE_32 = re.compile(r"(?<![A-Za-z0-9_\-])(?=(?:[A-Z]{0,30}[2-7]){3})[A-Z2-7]{26,64}(?![A-Za-z0-9_\-])")
# A word after "bearer" that is no token ("bearer of bad news") is too short or has no digit.
_BEARER = re.compile(r"\b(?:bearer|authorization:\s*basic)\s+([A-Za-z0-9_\-.~+/]{16,4000}=*)", re.IGNORECASE)
_URL_PASSWORD = re.compile(
    r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@]{0,200}:([^\s/@]{1,200})@[^\s/@]", re.IGNORECASE
)

# ---- secrets recognised by the name in front

_NAMED_KEY = re.compile(
    r"(?<![a-z0-9])(?:(?:api|access|secret|client|account|auth|encryption|signing|private|refresh|session"
    r"|bearer|webhook|deploy)[_\- ]?(?:key|secret|token)|secret|token)[\"'`]?"
    r"(?:\s{0,3}(?:[:=]|\bis\b|\bwas\b|\bist\b)\s{0,3}|\s(?=\S{24}))[\"'`]?([A-Za-z0-9_\-.~+/]{16,512}=*)",
    re.IGNORECASE,
)
_NAME = f"(?:{WORDS['password names']})"
# A purpose may stand between: "password for the router is …", "password (work): …".
_PURPOSE = f"(?:{WORDS['purposes']})?"
_VALUE = (
    r"(?:[\"'`\u201c\u2018«](?P<quoted>[^\n\"'`\u201d\u2019»]{3,128})[\"'`\u201d\u2019»]"
    r"|(?P<bare>[^\s\"'`\u201c\u201d\u2018\u2019<>]{3,128}))"
)
_PASSWORD = re.compile(
    _NAME + r"[\"'`]?" + _PURPOSE + r"(?:\s{0,3}(?:[:=\uff1a]|是|は|—|->)\s{0,3}(?::\s{0,2})?"
    r"|\s{0,3}\b(?P<link>is|was|used to be|will be|reads|ist|war|lautet|est|es|é|è|c'est)\b\s{0,3}:?\s{0,2}"
    r"|'s\s|\?\s{1,2}(?:it'?s|it is|es ist|c'est|es|è|é|het is)\s"
    # "My password? CorrectHorse7": a word that is none.
    r"|\?\s{1,2}(?=\S{0,60}(?:(?-i:[a-z][A-Z])|\d)))"
    r"(?:(?:now|literally|actually|just|simply|basically|really|currently|only|gonna be|going to be|still"
    r"|jetzt|maintenant|ahora|adesso|agora|nu|le|la|el|il|o)\s)?" + _VALUE,
    re.IGNORECASE,
)
# "I changed my password to …"
_SET_PASSWORD = re.compile(
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
# "netflix password popcorn77!", "user steve, pass Kr0kodil", "login is admin / Zx81Spectrum": words with
# digits, or with capitals inside and marks.
_BEHIND_NAME = re.compile(
    r"(?:" + _NAME + r"|\b(?:user(?:name)?|account|login)\s\S{1,64}\s?[,;]?\s(?:and\s)?pass"
    r"|\b(?:login|logins|credentials?|zugangsdaten"
    r"|identifiants?)\b(?:\s(?:is|are|ist|sind))?[:\s]{1,3}\S{1,64}\s?[/|,])"
    r"[ \t]{1,3}(?P<bare>(?:(?=[^\s\"'`<>]{0,63}\d)(?=[^\s\"'`<>]{0,63}[^\W\d_])"
    r"|(?=\S{0,63}(?-i:[a-z][A-Z]))(?=\S{0,63}[!#$%^&*]))[^\s\"'`<>]{6,128})",
    re.IGNORECASE,
)
# Several words are a passphrase if none of them is one of ordinary speech.
_PASSPHRASE = re.compile(
    rf"(?:{WORDS['passphrases']})[^\n:=.!?]{{0,40}}?\s{{0,2}}"
    r"(?P<link>[:=]|\b(?:is|was|reads|ist|lautet|est|es|è|é)\b)\s{0,2}"
    r"(?P<words>(?:[\w']{1,12}[ \-]){2,11}[\w']{2,12})(?=\s*(?:[.,;!?)\n]|$))"
    rf"|(?:{WORDS['passphrases']})[^\n:=.!?\"'\u201c\u2018]{{0,40}}[\"'\u201c\u2018]"
    r"(?P<quoted>[^\n\"'\u201d\u2019]{8,128})[\"'\u201d\u2019]",
    re.IGNORECASE,
)
# Without a mark behind it, the row may go on into speech: "is correct otter lamp 9 and the agent asks".
# No word of it is a small one.
_SPOKEN_PHRASE = re.compile(
    rf"(?:(?P<phrase>{WORDS['passphrases']})[^\n:=.!?]{{0,40}}?|{_NAME}{_PURPOSE})\s{{0,2}}"
    r"(?:[:=]|\b(?:is|was|used to be|will be|reads|ist|war|lautet|est|es|è|é)\b)\s{0,2}"
    r"(?P<words>(?:[^\W_]{1,12}[ \-]){2,8}?[^\W_]{1,12})"
    rf"(?=\s*(?:[.,;!?)\n]|$)|\s(?:{WORDS['after a phrase']})\b)",
    re.IGNORECASE,
)
_SPOKEN_HINT = re.compile(
    r"pas{1,2}[ _-]?(?:w|c|phr)|phrase|frase|wacht[wz]|kennw|senha|contrase|de passe|p/?wd?\b"
    r"|(?:safe|code|magic)[ -]?word"
)
_GOES_ON = re.compile(r"\w+(?:ed|ing|ly)", re.IGNORECASE)
# Each match contains one of these: searching for them costs a twentieth of the rule.
_PASSWORD_HINT = re.compile(WORDS["password hints"])
# A row of small words is one, too, if none of them is a word of ordinary speech: the lists that recovery
# phrases are made of (BIP 39) leave those out.
_SMALL_WORD = r"(?:\d{1,2}[.):]?\s{0,2})?[a-zäöüßà-ÿ]{3,8}"
_WORD_ROW = re.compile(
    rf"(?<![\w'\u2019-]){_SMALL_WORD}(?:(?:,\s?|\s|\s-\s)\s{{0,2}}{_SMALL_WORD}){{5,60}}(?![\w'\u2019-])"
)
_BEFOREWORDS = re.compile(
    r"(?:[:=\"'\u201c\u2018\u201e\n(\u2014-]|\b(?:is|are|was|were|starts? with|begins? with|ist|sind|lauten"
    r"|sont|son|sono|são|zijn))\s*$"
)
_PHRASE_HINT = re.compile(
    rf"(?<!\w)(?:(?P<plain>{words_of('phrases')})|{words_of('wallets')})(?!\w)", re.IGNORECASE
)
_PHRASE_NEAR, _LEASTWORDS, _LEAST_PASSPHRASE, _LEAST_SPOKEN = 120, 6, 4, 3
_PHRASE_LENGTHS = (12, 15, 18, 21, 24)
# More than a rule reads around a number or a hint, and around where question and answer meet.
_REACH, _MEETING = 500, 2000
_DIGIT = re.compile(r"\d+")

# ---- values near a name


def _names_of(name: str) -> Callable[[], re.Pattern[str]]:
    # Compiled when a text has a number: that takes a tenth of a second. Lists without capitals read a text in
    # small letters: with IGNORECASE every alternative would be tried at every word.
    tail = rf"(?![\w(-]){_NOT_ITSELF if name == 'names' else ''}"
    flags = 0 if name in _LOWER else re.IGNORECASE
    return cache(lambda: re.compile(rf"(?<![\w.-]){words_of(name)}{tail}", flags))


_LISTS = ("names", "accounts", "ids", "things", "opening")
_LOWER = frozenset(name for name in _LISTS if WORDS[name].islower())
_NAMES = {name: _names_of(name) for name in _LISTS}
# Programs and markup: what stands there is seldom anybody's code.
_CODE = re.compile(r"[{};<]|\w\(|[=!]=")
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
_IS_DIAL = re.compile(r" is \d\d?-\d\d?-\d\d?")
_OPENS = re.compile(r"(?:unlocks?|opens?|decrypts?) (?:my|our|the) ")
# "…. That unlocks my GPG key": words of a passphrase that make a sentence.
_OPENED_BYWORDS = re.compile(
    r"(?:^|[:\n.!?(]\s{1,2})(?P<words>[^\n:.!?]{12,120}?)[.,;!)]?\s(?:[\u2013\u2014-]\s)?"
    r"(?:that|this|which|it)(?:'s what)?\s(?:unlocks|opens|decrypts)\s(?:my|our|the)\s(?:\w{1,20}\s){0,2}?"
    r"(?:gpg|pgp|ssh|key|keys|keyring|keychain|vault|wallet|drive|disk|volume|backups?|manager|laptop"
    r"|archive)\b",
    re.IGNORECASE,
)
# "I unlock my ssh key with the phrase …"
_OPENED_WITH_PHRASE = re.compile(
    r"\b(?:gpg|pgp|ssh|keepass\w*|bitwarden|vaultwarden|1password|lastpass|veracrypt|luks|bitlocker"
    r"|filevault|keys?|keyring|keychain|vault|wallet|drive|disk|volume|backups?|manager|laptop|archive)\b"
    r"[^\n.:!?]{0,40}\b(?:with|is|by|using) (?:the |a |this |my )?(?:(?:pass[- ]?)?phrase|sentence):? "
    r"[\"'\u201c\u2018]?"
    r"(?P<words>(?!of\b|that\b|from\b|in\b)[^\n!?\"\u201d]{8,120}?)(?=[\"'\u201d\u2019.!?]*\s*$|[.!?]\s)",
    re.IGNORECASE,
)
# Named as one, twelve words or more are a recovery phrase, however ordinary.
_NAMED_ROW = re.compile(
    r"\b(?i:(?:recovery|seed|backup|wallet|mnemonic) (?:recovery )?(?:phrase|words)"
    r"|(?:12|15|18|21|24|twelve|twenty-four) (?:secret |recovery )?words)\b[^\n:.]{0,30}?"
    r"(?:\bis|\bare|:|=)\s{1,3}[\"'\u201c]?(?P<words>(?:[a-z]{3,8},?\s){11,23}[a-z]{3,8})\b"
)
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
_OTHER = re.compile(
    rf"(?<!\w){words_of('other numbers')}(?:(?: is|,? c'est| ist| es| è| é)?:? ?#?)$", re.IGNORECASE
)
_UNIT = re.compile(rf"[ \-]?(?:{words_of('units')}\b|[%€°:$£])", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)\d\d[-./ ]\d\d?[-./ ]\d\d?|\d\d?[-./]\d\d?[-./](?:19|20)\d\d")
_NO_CODE = re.compile(f"{_DATE.pattern}|{WORDS['no codes']}", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_NEAR, _NEAR_BEFORE, _LEAST_DIGITS, _LEAST_MIXED, _LEAST_ID = 70, 40, 3, 5, 7
_LEAST_LETTERS, _SHORT_NOTE = 5, 6
_QUESTION = re.compile(r"question|asks?|wants to know|frage|pregunta|domanda|pergunta|vraag", re.IGNORECASE)

# "The answer to my security question is Biscuit", "my memorable word for the bank is Tangerine"
_MEMORABLE = re.compile(
    rf"\b(?:{WORDS['memorable']})(?: \([^)\n]{{1,40}}\))?(?: (?:for|with|at|on) [\w' ]{{2,30}}?)?"
    r"(?: is| was|:| =) [\"'\u201c\u2018]?(?!(?:the|a|an|not|too|that|something|always|wrong|case|required"
    r"|never|what|your|you)\b)"
    r"(?P<answer>[^\W_][\w'-]{1,30}(?: (?-i:[A-Z0-9])[\w'-]{0,30}){0,3})",
    re.IGNORECASE,
)


@cache
def _security_answers() -> re.Pattern[str]:
    return re.compile(
        rf"(?<!\w){words_of('questions')}(?!\w)[^\n]{{0,90}}?"
        rf"(?:(?<!\w){words_of('answers')}|[:,(\u2014]\s(?=(?-i:[A-ZÀ-Þ])))\s?(?!to\b|for\b|zu\b)"
        rf"(?:(?:them|there|is|was|it)\s){{0,2}}(?P<answer>(?!\d{{1,3}}\b)[^\s.,;!?][^\n.,;!?]{{1,60}})",
        re.IGNORECASE,
    )


# ---- numbers of persons, by their check digits


def _is_codice_fiscale(value: str) -> bool:
    """Return whether the last letter of an Italian tax code fits."""
    odd = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
    places = [int(c) if c.isdigit() else ord(c) - ord("A") for c in value[:15]]
    total = sum(place if n % 2 else odd[place] for n, place in enumerate(places))
    return ord(value[15]) - ord("A") == total % 26


def _is_dni(value: str) -> bool:
    """Return whether the letter of a Spanish DNI or NIE fits."""
    number = value[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == value[-1]


def _is_cpf(value: str) -> bool:
    """Return whether the two check digits of a Brazilian CPF fit."""
    for n in (9, 10):
        total = sum(int(digit) * (n + 1 - at) for at, digit in enumerate(value[:n]))
        if total * 10 % 11 % 10 != int(value[n]):
            return False
    return len(set(value)) > 1


def _is_nir(value: str) -> bool:
    """Return whether the key of a French social security number fits; Corsica has letters."""
    digits = value[:13].replace("2A", "19").replace("2B", "18")
    return digits.isdigit() and 97 - int(digits) % 97 == int(value[13:])


def _is_ahv(value: str) -> bool:
    """Return whether the check digit of a Swiss AHV number fits (EAN-13)."""
    return sum(int(digit) * (3 if n % 2 else 1) for n, digit in enumerate(value)) % 10 == 0


def _is_rijksregister(value: str) -> bool:
    """Return whether the check digits of a Belgian national number fit, of a birth before or since 2000."""
    return any(97 - int(century + value[:9]) % 97 == int(value[9:]) for century in ("", "2"))


_NATIONAL_IDS: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(r"\b[A-Za-z]{6}\d\d[A-Za-z]\d\d[A-Za-z]\d{3}[A-Za-z]\b"), _is_codice_fiscale),
    (re.compile(r"(?<![\d.-])\d{3}\.\d{3}\.\d{3}-\d\d(?![\d-])"), _is_cpf),
    (
        re.compile(
            r"(?<![\d.-])[12] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d(?![\d-])"
        ),
        _is_nir,
    ),
    (re.compile(r"(?<![\w.-])[XYZ0-9]-?\d{7}-?[A-HJ-NP-TV-Z]\b"), _is_dni),
    (re.compile(r"(?<![\d.-])756\.\d{4}\.\d{4}\.\d\d(?![\d-])"), _is_ahv),
    (re.compile(r"(?<![\d.-])\d\d\.\d\d\.\d\d-\d{3}[.-]\d\d(?![\d-])"), _is_rijksregister),
    # Numbers that the US Social Security Administration issues, in their usual form.
    (re.compile(r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"), bool),
    # British National Insurance numbers have no check digit, and letters that are not given out.
    (
        re.compile(r"\b(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] \d\d \d\d \d\d [A-D]\b"),
        bool,
    ),
)
_DIGITS = re.compile(r"\d{4}[ \-]?\d{4,6}[ \-]?\d")
# Not inside a longer row of digits or a decimal number.
_CARD = re.compile(r"(?<![\d.\-])(?<!\d )\d(?:[ \-]?\d){13,18}(?!\d|[.\-]\d| \d)")
# People mistype and make up: beside the name of a card, its groups are enough.
_CARD_SHAPED = re.compile(
    r"(?<![\w./-])(?:\d{4}(?P<between>[ .\-\u2013/]|  |, )\d{4}(?P=between)\d{4}(?P=between)\d{2,5}"
    r"|\d{4}(?P<other>[ .\-])\d{6}(?P=other)\d{4,5}|[3-6]\d{14,15}|2[2-7]\d{14})"
    r"(?![\w\u2013-]|[.,]\d| \d{4}\b)"
)
_card_word = cache(lambda: re.compile(rf"(?<![\w-]){words_of('card words')}(?![\w-])", re.IGNORECASE))
_CARD_NEAR = 70
_NO_CARD = re.compile(r"\b(?:imei|iccid|isbn|iban|tracking|barcode|timestamp|order number)\b", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")

# ISO 13616: country, two check digits, letters and digits.
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
# Follows "the password is" in ordinary speech, and is not one.
_NOT_A_PASSWORD = frozenset(WORDS["ordinary"].replace("|", " ").split())
_ORDINARY = _NOT_A_PASSWORD | STOP_WORDS
# Adjectives and participles of languages whose word for "is" was read: "La password è scaduta".
_PARTICIPLE = re.compile(WORDS["participles"])
# Stands where a password would: shapes of documentation, templates, code and paths.
_PLACEHOLDER = re.compile(WORDS["placeholders"], re.IGNORECASE)


# Every key has a word at least this long. Most text has none, and costs a quarter then.
_LEAST_KEY = 15
_LEAST_KEY_PART, _LEAST_CHANGES = 6, 3


def _candidates(text: str) -> Iterator[Secret]:
    folded = text.lower()
    if "private key" in folded or "age-secret-key" in folded:
        for match in _PRIVATE_KEY.finditer(text):
            yield Secret("private-key", match.start(), match.end())
    if any(len(word) >= _LEAST_KEY for word in text.split()):
        yield from _keys(text)
    for begin, piece in _around(text, _PASSWORD_HINT.finditer(_lower(text))):
        yield from _moved(begin, _passwords(piece))
    yield from _phrases(text)
    for match in _OPENED_BYWORDS.finditer(text) if _OPENS.search(folded) else ():
        yield Secret("password", *match.span("words"))
    for match in _NAMED_ROW.finditer(text) if "phrase" in folded or "words" in folded else ():
        yield Secret("recovery-phrase", *match.span("words"))
    yield from _spoken(text, _lower(text))
    for match in _OPENED_WITH_PHRASE.finditer(text) if "phrase" in folded or "sentence" in folded else ():
        yield Secret("password", *match.span("words"))
    if any(map(str.isdigit, text)):
        for begin, piece in _around(text, _DIGIT.finditer(text)):
            yield from _moved(begin, _numbers(piece))
            yield from _moved(begin, _named_values(piece))
            yield from _moved(begin, _access_codes(piece))
        yield from _named(text)
        yield from _unnamed_passwords(text)
    if _QUESTION.search(text):
        for match in _security_answers().finditer(text):
            yield Secret("password", *match.span("answer"))


def _around(text: str, found: Iterable[re.Match[str]]) -> Iterator[tuple[int, str]]:
    """Yield the parts of a long text around what was found, each with its place; a short text as a whole."""
    if len(text) <= 4 * _REACH:
        if any(True for _ in found):
            yield 0, text
        return
    begin = end = -1
    for match in found:
        if match.start() - _REACH > end >= 0:
            yield begin, text[begin:end]
            begin = -1
        if begin < 0:
            begin = _blank_before(text, match.start() - _REACH)
        end = match.end() + _REACH
    if begin >= 0:
        yield begin, text[begin:end]


def _blank_before(text: str, place: int) -> int:
    """Return the place behind the last blank before another one, so that no word is cut, if one is near."""
    first, last = max(0, place - _REACH), max(0, place)
    return 1 + max(text.rfind(" ", first, last), text.rfind("\n", first, last), first - 1)


def _moved(by: int, found: Iterable[Secret]) -> Iterator[Secret]:
    return (Secret(secret.kind, secret.start + by, secret.end + by) for secret in found)


def _spoken(text: str, folded: str) -> Iterator[Secret]:
    """Yield what speech names as a secret, in sentences that go on: keys, passphrases, memorable words."""
    if any(hint in folded for hint in ("token", "key", "secret")):
        found = (match for match in _DISTANT_KEY.finditer(text) if _is_key_part(match["value"]))
        yield from (Secret("api-key", *match.span("value")) for match in found)
    for begin, piece in _around(text, _SPOKEN_HINT.finditer(folded)):
        yield from _moved(begin, _spoken_phrases(piece))
    if any(hint in folded for hint in ("memorable", "question", "maiden", "secret ", "security")):
        yield from (Secret("password", *match.span("answer")) for match in _MEMORABLE.finditer(text))


def _spoken_phrases(text: str) -> Iterator[Secret]:
    """Yield passphrases of which the sentence goes on, and passwords of several words."""
    for match in _SPOKEN_PHRASE.finditer(text):
        words = match["words"].casefold().replace("-", " ").split()
        strange = [word for word in words if _is_phrase([word])]
        # "The password is cached locally somewhere" tells what happens to it.
        n_least = _LEAST_SPOKEN + (_GOES_ON.fullmatch(words[0]) is not None)
        is_speech = any(word in STOP_WORDS for word in words) or 4 * len(strange) < 3 * len(words)
        if len(strange) >= n_least and not is_speech:
            yield Secret("password", *match.span("words"))


def _unnamed_passwords(text: str) -> Iterator[Secret]:
    for match in _UNNAMED_PASSWORD.finditer(text):
        if sum(map(str.isalpha, match[0])) >= _LEAST_LETTERS and not _CODE.search(text):
            yield Secret("password", *match.span())


def _numbers(text: str) -> Iterator[Secret]:
    """Yield numbers of cards, accounts and persons, known by their check digits or form."""
    if _DIGITS.search(text):
        found = (match for match in _CARD.finditer(text) if _is_card_number(match[0]))
        yield from (Secret("card-number", *match.span()) for match in found)
        found = (match for match in _IBAN.finditer(text) if _is_iban(match[0]))
        yield from (Secret("account-number", *match.span()) for match in found)
    for match in _CARD_SHAPED.finditer(text):
        if _is_called_card(text, match):
            yield Secret("card-number", *match.span())
    for pattern, is_valid in _NATIONAL_IDS:
        for match in pattern.finditer(text):
            if is_valid(re.sub(r"[ .\-/]", "", match[0]).upper()):
                yield Secret("account-number", match.start(), match.end())


def _keys(text: str) -> Iterator[Secret]:
    for match in _API_KEYS.finditer(text):
        if _is_scrambled(match[0]):
            yield Secret("api-key", match.start(), match.end())
    for match in _NAMED_KEY.finditer(text):
        if _is_random(match[1], 10) and not _PLACEHOLDER.fullmatch(match[1]):
            yield Secret("api-key", *match.span(1))
    for match in _TOKENS.finditer(text):
        yield Secret("token", match.start(), match.end())
    yield from _unnamed_keys(text)
    for match in _BEARER.finditer(text):
        if _is_random(match[1], 8):
            yield Secret("token", *match.span(1))
    for match in _URL_PASSWORD.finditer(text):
        if not _is_ordinary(match[1]):
            yield Secret("password", *match.span(1))


def _unnamed_keys(text: str) -> Iterator[Secret]:
    """Yield long words in no order, which have neither a prefix nor a name."""
    for match in _UNNAMED_TOKEN.finditer(text):
        if _is_random(match[0], 12) and _changes(match[0]) > len(match[0]) / 3:
            yield Secret("token", match.start(), match.end())
    for match in _KEY_OF_FORTY.finditer(text):
        if _is_random(match[0], 20) and _changes(match[0]) > 40 / 3:
            yield Secret("api-key", match.start(), match.end())
    for match in _HEX_KEY.finditer(text):
        yield Secret("private-key", *match.span(1))
    for match in _BASE_32.finditer(text):
        if _is_random(match[0], 10):
            yield Secret("token", match.start(), match.end())


def _passwords(text: str) -> Iterator[Secret]:
    for rule in (_PASSWORD, _SET_PASSWORD, _BEFORE_NAME, _BEHIND_NAME):
        for match in rule.finditer(text):
            secret = _password(text, match)
            if secret is not None:
                yield secret
    for match in _PASSPHRASE.finditer(text):
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
            around = text[max(0, start - _PHRASE_NEAR) : end + _PHRASE_NEAR]
            hints = list(_PHRASE_HINT.finditer(around))
            is_long = n_words >= min(_PHRASE_LENGTHS)
            lead = text[max(0, start - 12) : start]
            is_listed = any(hint["plain"] for hint in hints) and _BEFOREWORDS.search(lead)
            is_alone = n_words in _PHRASE_LENGTHS and "," not in text[start:end] and start <= first
            if (hints and is_long) or is_listed or is_alone:
                yield Secret("recovery-phrase", start, end)


def _uncommon(row: re.Match[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a row that have six or more words, hardly any of ordinary speech, and their number.

    One word in six may be ordinary, such as "hidden", since the lists have some of them. A row of which less
    than one in four is comes whole as well.
    """
    words = list(re.finditer(r"[^\W\d_]+", row[0]))
    strange = sum(word[0].casefold() not in _ORDINARY for word in words)
    n_different = len({word[0] for word in words})
    is_row = len(words) >= _LEASTWORDS and n_different > len(words) / 2 and 4 * strange >= 3 * len(words)
    if is_row and not any(word[0] in STOP_WORDS for word in words):
        yield row.start() + words[0].start(), row.start() + words[-1].end(), len(words)
    part: list[re.Match[str]] = []
    n_ordinary = 0
    for word in (*words, None):
        if word is not None and word[0].casefold() not in _ORDINARY:
            part.append(word)
            continue
        if word is not None and word[0] not in STOP_WORDS and part and n_ordinary < 1 + len(part) // 6:
            part.append(word)
            n_ordinary += 1
            continue
        # A word that comes again and again with a number is a counter.
        is_counter = any(map(str.isdigit, row[0])) and len({one[0] for one in part}) <= len(part) / 2
        if len(part) >= _LEASTWORDS and not is_counter:
            yield row.start() + part[0].start(), row.start() + part[-1].end(), len(part)
        part, n_ordinary = [], 0


def _named(text: str) -> Iterator[Secret]:
    """Yield numbers of dials and locks, and the word that somebody uses for everything."""
    for match in _DIAL.finditer(text):
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
        cut = max((one.end() for one in _SENTENCE_END.finditer(before)), default=0)
        stop = _SENTENCE_END.search(behind)
        is_year = _YEAR.fullmatch(match[0]) and not _CHOSEN.search(before, cut)
        is_other = is_year or _UNIT.match(text, end) or _OTHER.search(before)
        is_other = is_other or _HOUR.search(before + match[0]) or _PLACE.search(before, cut)
        is_counted = match[0].isdigit() and _COUNTS.match(text, end)
        if is_other or is_counted or _NO_CODE.fullmatch(match[0]) or _CODE.search(before[cut:]):
            continue
        if _ACCESS.search(before, cut) or _ACCESS.search(behind[: stop.start() if stop else None]):
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
            yield Secret(kind, start, end)


class _Names(dict[str, list[tuple[int, int]]]):
    """Places of the names of secrets in a text by list, searched for when a list is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.lower = text, _lower(text)

    def __missing__(self, name: str) -> list[tuple[int, int]]:
        text = self.lower if name in _LOWER else self.text
        self[name] = [found.span() for found in _NAMES[name]().finditer(text)]
        return self[name]


def _lower(text: str) -> str:
    """Return a text in small letters, of the same length: a few letters become two, and stay as they are."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    return lower


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
    return n_signs >= _LEAST_ID and n_digits >= _LEAST_ID - 1 and not _DATE.fullmatch(value)


def _is_near(spans: list[tuple[int, int]], text: str, start: int, end: int) -> bool:
    """Return whether one of the spans stands near a value, at most one sentence away."""
    at = bisect_left(spans, (start - _NEAR - 20, 0))
    for begin, stop in spans[at : at + 8]:
        if stop <= start and start - stop <= _NEAR and _may_go_on(text[stop:start]):
            return True
        if begin >= end:
            return begin - end <= _NEAR_BEFORE and not _SENTENCE_END.search(text, end, begin)
    return False


def _may_go_on(between: str) -> bool:
    """Return whether text between a name and its value is speech, of at most two sentences, and no code."""
    return len(_SENTENCE_END.findall(between)) < 2 and not _CODE.search(between)


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
        or _OTHER.search(lead)
        or _UNIT.match(text, end)
        or _NO_CODE.fullmatch(value)
    )


def _is_phrase(words: list[str]) -> bool:
    """Return whether no word is one of ordinary speech."""
    return not any(word.casefold() in _ORDINARY for word in words)


def _password(text: str, match: re.Match[str]) -> Secret | None:
    """Return the word behind a password's name, if it looks like a password."""
    groups = match.groupdict()
    if groups.get("quoted") is not None:
        return None if _is_ordinary(match["quoted"]) else Secret("password", *match.span("quoted"))
    value = match["bare"].rstrip(".,;:!?)]}")
    # "correct!" and "Tr0ub4dor!": the mark belongs to a password that has more than letters.
    if match["bare"].endswith("!") and not value.isalpha():
        value = match["bare"]
    start = match.start("bare")
    end = start + len(value)
    if len(value) < 3 or _is_ordinary(value):
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
    before = text[:start].rstrip(" ")
    return not before or before[-1] in ".,;:!?\n"


def _is_ordinary(value: str) -> bool:
    return value.casefold() in _NOT_A_PASSWORD or _PLACEHOLDER.fullmatch(value) is not None


def _is_mixed_case(value: str) -> bool:
    return any(letter.isupper() for letter in value[1:]) and any(letter.islower() for letter in value)


def _ends_clause(text: str, end: int) -> bool:
    rest = text[end : end + 8].lstrip(" ")
    return not rest or rest[0] in "\n\r.,;!?)" or rest.startswith(("and ", "but ", "for ", "on ", "und "))


def _is_random(value: str, least_different: int) -> bool:
    """Return whether a long value can be a key: digits and letters, and not the same few over and over."""
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return has_digit and has_letter and len(set(value)) >= least_different


def _is_scrambled(value: str) -> bool:
    """Return whether the end of a key is no word: letters with digits, or of changing case."""
    last = "".join(re.split(r"[_\-.:]", value)[1:]) or value
    is_mixed = any(map(str.isdigit, last)) and any(map(str.isalpha, last))
    return len(set(last)) >= 6 and (is_mixed or _changes(last) > len(last) / 4)


def _is_key_part(value: str) -> bool:
    """Return whether a short word is a key: groups of capitals and digits, or a part of no sense."""
    if _KEY_GROUPS.fullmatch(value):
        return True
    return any(
        len(part) >= _LEAST_KEY_PART and _changes(part) >= _LEAST_CHANGES and _is_random(part, 5)
        for part in re.split(r"[_\-]", value)
    )


def _changes(value: str) -> int:
    """Return how often the kind of character changes: capital, small letter, digit, other."""
    kinds = [1 if c.isdigit() else 2 if c.isupper() else 3 if c.islower() else 4 for c in value]
    return sum(one != other for one, other in pairwise(kinds))


# First digits and lengths of the networks that issue cards (their published ranges).
_CARDS = re.compile(WORDS["cards"])


def _is_card_number(text: str) -> bool:
    digits = re.sub(r"[ \-]", "", text)
    is_issued = _CARDS.fullmatch(digits) is not None
    return is_issued and (text == digits or _is_grouped(text)) and _luhn(digits) == 0


def _is_called_card(text: str, number: re.Match[str]) -> bool:
    """Return whether a number in the form of a card's stands beside the name of one."""
    start, end = number.span()
    lead, behind = text[max(0, start - _CARD_NEAR) : start], text[end : end + _CARD_NEAR]
    if (
        _OTHER.search(lead)
        or _NO_CARD.search(lead)
        or _CODE.search(lead + behind)
        or all(map(_YEAR.fullmatch, re.split(r"\D+", number[0])))
    ):
        return False
    return _card_word().search(lead) is not None or _card_word().search(behind) is not None


def _is_grouped(text: str) -> bool:
    # 4-4-4-4, 4-6-5, 4-6-4 and 4-4-4-4-3, as cards are printed: columns of other numbers seldom are.
    separators = {character for character in text if not character.isdigit()}
    if len(separators) != 1:
        return False
    groups = [len(group) for group in text.split(separators.pop())]
    return groups in ([4, 4, 4, 4], [4, 6, 5], [4, 6, 4], [4, 4, 4, 4, 3], [6, 13])


def _luhn(digits: str) -> int:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        total += value if place % 2 == 0 else sum(divmod(2 * value, 10))
    return total % 10


def _is_iban(text: str) -> bool:
    """Return whether the check digits of an IBAN are right: modulo 97, by ISO 7064."""
    compact = text.replace(" ", "")
    digits = "".join(str(int(letter, 36)) for letter in compact[4:] + compact[:4])
    return 15 <= len(compact) <= 34 and int(digits) % 97 == 1
