"""Find values in what somebody types that nothing explains: a number that is no amount, date or address.

`find_secrets` knows how people write secrets. Nobody can list all the ways in which they mention a code ("If
it beeps, 6604 and then unset"), so this looks from the other side: it knows what numbers in everyday speech
mean, and returns those whose meaning it doesn't see. Of what is typed into a chat, such a value is covered
before the rest is remembered. Text that is brought in, such as a document, has too many of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain

from shepherd.secret_detection import next_sentence, told
from shepherd.secret_detection.network_names import spans_of_names
from shepherd.secret_detection.vocabulary import (
    COVER,
    NOT_ITSELF,
    ORDINARY,
    SENTENCE_END,
    WORDS,
    Secret,
    is_ordinary,
    words_of,
)

__all__ = ["covered", "find_unexplained"]

# Nobody types more at once without pasting something.
_LONGEST = 600
_CODE = re.compile(r"```|[{}<]|;(?!\s\S)|\w\(|[=!]=|^>>> ", re.MULTILINE)


def find_unexplained(text: str) -> list[Secret]:
    """Return the values of a typed message that may be codes, in order, none inside another."""
    if len(text) > _LONGEST or _CODE.search(text):
        return []
    rules = _rules()
    candidates = {*rules.of_form(text), *rules.numbers(text)}
    found = sorted(candidates - spans_of_names(text, candidates))
    kept: list[tuple[int, int]] = []
    for start, end in found:
        if kept and start < kept[-1][1]:
            kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        else:
            kept.append((start, end))
    return [Secret("password", start, end) for start, end in kept]


def covered(question: str, answer: str) -> tuple[str, str]:
    """Return an exchange with the unexplained values of the question covered, in the answer as well."""
    values = {question[found.start : found.end] for found in find_unexplained(question)}
    for value in sorted(values, key=len, reverse=True):
        alone = re.compile(
            rf"(?<![^\W{_UNSPACED_CHARACTERS}]){re.escape(value)}(?![^\W{_UNSPACED_CHARACTERS}])"
        )
        dots = COVER * max(4, len(value))
        question, answer = alone.sub(dots, question), alone.sub(dots, answer)
    return question, answer


@cache
def _rules() -> _Rules:
    # Compiled with the first message that is remembered: it takes a tenth of a second.
    return _Rules()


def _listed(name: str) -> str:
    return rf"(?<![\w-]){words_of(name)}(?![\w-])"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


class _Rules:
    """Patterns of what explains a value, and of what needs no number to look like a secret."""

    def __init__(self) -> None:
        months, sides, spelled = words_of("months"), words_of("sides"), words_of("spelled digits")
        # Between a label and its value: "number", "is", "my order no. is".
        between = (
            r"(?:'s| is| was| ist| est| es| è| é| el| der| le| il| os?| às| a| says?| are| numbers?| no| nr"
            r"| code| id|:)*[ .:#°º(]*$"
        )
        self._label = _compiled(rf"(?<![\w-]){words_of('labels')}{between}")
        self._labelled = _compiled(_listed("labels"))
        self._carried = _compiled(_listed("carried"))
        self._reached = _compiled(_listed("reached"))
        self._amount = _compiled(rf"\b{words_of('amounts')} $")
        self._measure = _compiled(rf"[ \-]?(?:[%€$£°]|{words_of('measures')}\b)")
        self._place = _compiled(_listed("places of codes"))
        self._account = _compiled(_listed("places of passwords"))
        self._quoting = _compiled(rf"\b{words_of('quoted secrets')}\b")
        self._articles = frozenset(WORDS["articles of phrases"].split("|"))
        self._uncounted = frozenset(WORDS["uncounted"].split("|"))
        self._in_year = _compiled(
            rf"\b(?:in|since|of|until|from|to|born|year|by|around|the|vor|seit|von|depuis|en|desde|dal|nel|em"
            rf"|sinds|{months}) $"
        )
        date = (
            r"\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{1,2}[./]\d{1,2}[./]\d{2}(?!\d)"
            r"|\d{4}-\d{2}-\d{2}(?:[ T]\d\d:\d\d(?::\d\d)?)?"
            rf"|\d{{1,2}}(?:st|nd|rd|th|\.|º)?(?: of| de)? {months}\b\.?,?(?: (?:de )?\d{{2,4}})?"
            rf"|{months}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:(?: ?[-\u2013] ?|, (?:and )?| and )\d{{1,2}}(?!\d))*"
            r"(?:,? \d{4})?"
            rf"|{months}\.? \d{{4}}"
        )
        self._explained = re.compile(rf"(?<![\w.,-])(?:{date}|{_EXPLAINED})", re.IGNORECASE)
        # "17 right 3 left 29 right", "left to 47, right to 12"
        turn = (
            rf"(?:\d{{1,2}} (?:to the |zur? |nach |à |a |pra |para a |para |naar )?{sides}|{sides}"
            r"(?:,? (?:past"
            r"|round|around|once|twice|three times|two times|it|all|the way|then|to|on|auf|bis|à|a"
            r"|til|till|until|turns?)){0,5} \d{1,2})"
        )
        self._dial = _compiled(
            rf"(?<!\w){turn}(?:[^\n.!?\d]{{1,14}}{turn})+(?!\d)|(?<!\w){turn}(?=[^\n.!?]{{1,20}}{sides})"
        )
        self._spelled = _compiled(rf"(?<![\w-]){spelled}(?:[ ,-]{{1,2}}{spelled}){{2,}}(?![\w-])")
        # "the wlan password in our flat is …", "netflix password changed AGAIN its …", "passphrase: …"
        named = (
            rf"(?P<phrase>{WORDS['passphrases']})|(?:{WORDS['password names']})|\b{words_of('code words')}\b"
        )
        linked = (
            rf"(?:\b(?:(?P<foreign>{words_of('telling elsewhere')})|{words_of('telling')})\b:?"
            r"|[:=\u2014\u2013]|->)\s{1,2}"
        )
        ends = r"\s,;.!?()\"\u2014\u2013"
        self._told = _compiled(
            rf"(?:{named}){NOT_ITSELF}[^\n.!?;:]{{0,60}}?{linked}(?:(?:{WORDS['before a told word']})\s)*"
            rf"[\"'\u201c\u2018\u201e]?(?P<words>[^{ends}]{{3,64}}"
            rf"(?: (?!(?:{WORDS['after a phrase']})\b)[^{ends}-][^{ends}]*){{0,11}})"
        )
        asked = words_of("asked by banks")
        self._answer = _compiled(
            rf"\b{asked}\b[^\n.!?]{{0,60}}?"
            r"(?:\b(?:is|was|(?:ours|mine) is|i (?:always )?put|i used|put|as)\b|[:,])"
            r"\s[\"'\u201c\u2018]?(?P<answer>(?!(?:a|an|the|not|my|your|what|that|when|which|so|and|for|on|they|it"
            r"|in)\b)"
            r"[A-Za-zÀ-ÿ][\w'\u2019-]{2,30}(?: (?:the |of |over )?(?-i:[A-Z])[\w'\u2019-]+){0,4})"
        )

    def of_form(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield what looks like a secret by its form or by what it stands beside, however it is explained."""
        yield from told.find(text)
        yield from (match.span() for match in self._dial.finditer(text))
        for match in self._spelled.finditer(text):
            if not _COUNTED.match(match[0]):
                yield match.span()
        for match in _SINGLE_DIGITS.finditer(text):
            if not (_DRAWN.search(text) or self._reached.search(text[: match.start()][-_BEFORE:])):
                yield match.span()
        for match in _GROUPS.finditer(text):
            if not (self._carried.search(text[: match.start()][-_BEFORE:]) or _POSTCODE.fullmatch(match[0])):
                yield match.span()
        if self._account.search(text) or self._place.search(text):
            yield from (match.span() for match in _MARKED.finditer(text))
        for match in _QUOTED.finditer(text):
            if self._quoting.search(text[: match.start()][-_BEFORE:]):
                yield match.span()
        yield from (match.span("answer") for match in self._answer.finditer(text))
        yield from (match.span("words") for match in self._told.finditer(text) if self._is_told(match))

    def _is_told(self, match: re.Match[str]) -> bool:
        """Return whether the words behind a password's name are one, and not speech about it."""
        words = match["words"].casefold().split()
        is_sentence = match["phrase"] and len(words) >= _LEAST_TOLD
        first = words[1] if is_sentence and words[0] in self._articles else words[0]
        speech = _PARTICIPLE if match["foreign"] else _SPEECH
        return not (first in ORDINARY or speech.fullmatch(first) or is_ordinary(first))

    def numbers(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield numbers, and words with digits in them, of which no rule says what they are."""
        written, text = text, _UNSPACED.sub("\n", text)
        is_locked = written != text and _LOCKED.search(written)
        explained = [match.span() for match in chain(_WEB.finditer(text), self._explained.finditer(text))]
        for match in _CANDIDATE.finditer(text):
            start = match.start()
            end = start + len(match[0].rstrip(".,;:!?-\u2013/ "))
            # A date may run into the number behind it: "March 5, 2024, 7:30".
            last = max((last for first, last in explained if first <= start < last), default=start)
            if last > start and sum(map(str.isdigit, text[last:end])) <= 2:
                continue
            if is_locked:
                if sum(map(str.isalnum, text[start:end])) >= _LEAST_LOCKED:
                    yield start, end
            elif not (
                _COUNTER.match(written, end)
                or _NUMBERED.search(written[:start][-_BEFORE_LABEL:])
                or self._explains(text, start, end)
            ):
                yield start, end

    def _explains(self, text: str, start: int, end: int) -> bool:
        value = text[start:end]
        before, behind = text[:start][-_BEFORE:], text[end : end + _BEHIND]
        before = before[max((match.end() for match in SENTENCE_END.finditer(before)), default=0) :]
        is_near_lock = bool(self._place.search(before[-45:]) or self._place.search(behind[:25]))
        earlier = next_sentence.sentence_before(text, start)
        if earlier and next_sentence.is_of_a_code(earlier):
            is_near_lock = True
        elif earlier and self._numbers(earlier):
            return True
        if any(map(str.isalpha, value)):
            is_plain = self._is_name(value, before, is_near_lock)
        else:
            is_plain = self._is_amount(value, before, behind, is_near_lock)
        if is_plain or (self._carried.search(before) and not _SECRET_LABEL.search(before)):
            return True
        is_key = any(map(str.isalpha, value)) and sum(map(str.isalnum, value)) >= _LEAST_KEY
        label = self._label.search(before)
        # "The code for the med room is 7734" numbers no room.
        is_told = label is not None and (_LINKED.search(label[0]) or _OWN_YEAR.search(before))
        is_code = is_told and _NAMED_CODE.search(before[: label.start() if label else 0])
        return bool(
            (label and not is_key and not is_code)
            or _LABEL_BEHIND.match(behind)
            or (
                not any(map(str.isalpha, value))
                and sum(map(str.isdigit, value)) >= _LEAST_PHONE
                and self._reached.search(text[:start][-40:])
            )
        )

    def _numbers(self, sentence: str) -> bool:
        """Return whether a sentence speaks of what has a number, and of nothing that a code opens."""
        labelled = self._labelled.search(sentence) or self._carried.search(sentence)
        return labelled is not None and not self._place.search(next_sentence.without_open_codes(sentence))

    def _is_name(self, value: str, before: str, is_near_lock: bool) -> bool:
        """Return whether a word with digits is the name of a thing: a type, a size, an abbreviation."""
        if _SIZE.fullmatch(value) or _STANDARD.fullmatch(value):
            return True
        if is_near_lock:
            return False
        is_short = sum(map(str.isalnum, value)) <= 3
        is_product = _AFTER_NAME.search(before) is not None and _PRODUCT.fullmatch(value) is not None
        return is_short or is_product or _ABBREVIATION.fullmatch(value) is not None

    def _is_amount(self, value: str, before: str, behind: str, is_near_lock: bool) -> bool:
        """Return whether a number counts, measures or dates something."""
        parts = re.findall(r"\d+", value)
        n_digits, n_longest = sum(map(len, parts)), max(map(len, parts), default=0)
        is_alone = len(parts) == 1
        if n_digits <= 2:
            return True
        if self._measure.match(behind) or _DIMENSION.match(behind) or _CURRENCY.search(before):
            return True
        is_listed = "," in value and not _NAMED_CODE.search(before)
        if n_longest <= 2 and (is_listed or _DRAWN.search(before)):
            return True
        if not is_near_lock and n_longest <= 3:
            if len(parts) == 2 or is_alone:
                return True
            if not re.search(r"[-\u2013]", value) and n_longest > 1 and n_digits < _LEAST_PHONE + 2:
                return True
        if all(1000 <= int(part) <= 2100 for part in parts) and len(parts) > 1:
            return True
        in_year = self._in_year.search(before) and not (is_near_lock and _OWN_YEAR.search(before))
        if _YEAR.fullmatch(value) and (not is_near_lock or in_year):
            return True
        counted = _COUNTED_WORD.match(behind)
        if counted and counted[1].lower() not in self._uncounted and (not is_near_lock or n_digits <= 3):
            return True
        if is_near_lock or not is_alone:
            return False
        is_named = n_digits <= 4 and _AFTER_NAME.search(before) is not None
        is_chosen = _CHOSEN.search(before) is not None
        return is_named or (n_digits <= 6 and not is_chosen and self._amount.search(before) is not None)


# Letters and marks of scripts that write words, or numbers and what they count, without blanks: Thai, Lao,
# Burmese, Khmer, Japanese, Chinese, Korean. A number among them is a word of its own.
_UNSPACED_CHARACTERS = (
    r"\u0e01-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff\u1000-\u103f\u1100-\u11ff\u1780-\u17df\u3000-\u31ff\u3400-\u4dbf"
    r"\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uffdc"
)
_UNSPACED = re.compile(f"[{_UNSPACED_CHARACTERS}]")
_COUNTER = re.compile(f" ?(?:{WORDS['counters without blanks']})")
_NUMBERED = re.compile(WORDS["numbered without blanks"])
_LOCKED = re.compile(WORDS["locks without blanks"])
_BEFORE_LABEL = 12
_LEAST_LOCKED = 3
_LEAST_TOLD = 3
# "expired", "annoyingly long"; "abgelaufen"
_SPEECH = re.compile(r"\w+(?:ed|ing|ly|able|ible|ful|less)|brand|see")
_PARTICIPLE = re.compile(WORDS["participles"])
_BEFORE, _BEHIND, _LEAST_PHONE, _LEAST_KEY = 60, 40, 6, 9
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_OWN_YEAR = re.compile(r"\byear $", re.IGNORECASE)
_LINKED = re.compile(r"(?:\b(?:is|was|ist|war|est|es|reads?|says?)|[èé:])[ .:]*$", re.IGNORECASE)
_NAMED_CODE = re.compile(
    r"\b(?:codes?|pins?|combo|combination|key ?pad|padlock|lock|password|pass ?code|código|codice|\w*code)\b",
    re.IGNORECASE,
)
_CHOSEN = re.compile(r"\b(?:changed?|set|reset)\b.{0,40}\bto $", re.IGNORECASE)
_DIMENSION = re.compile(r" ?(?:by|x|\u00d7) ?\d+")
_CURRENCY = re.compile(r"[$€£¥]\s?$")
_COUNTED_WORD = re.compile(r"[ \-]?([^\W\d_][\w'\u2019]*)")
# "one two three" is counting.
_COUNTED = re.compile(r"(?:one[ ,]+two[ ,]+three|three[ ,]+two[ ,]+one)\b", re.IGNORECASE)
_DRAWN = re.compile(
    r"lott\w*|loto|bingo|phone|\btel|\bcall|\bring\b|score|grades?|gcse|\btest test", re.IGNORECASE
)
# "4 4 0 9", "6 then 6 then 1", "star 6 0 4 1"
_SINGLE_DIGITS = re.compile(
    r"(?<![\w.])(?:[*#]|star|hash|pound|raute|stern)?[ -]?\d(?:(?:,? (?:then|and then|dann|puis|luego|poi|dan"
    r"|depois) |[ -])\d){2,11}(?!\w|[.,]\d)",
    re.IGNORECASE,
)
# "JT5 8QK 2WN", "H7VKQ-3NDXT-9RMPL-W2C6J"
_GROUPS = re.compile(
    r"(?<![\w-])(?=[A-Z\d -]*(?:\d[A-Z]|[A-Z]\d))(?=(?:[A-Z -]*\d){2})(?:[A-Z0-9]{2,6}[ -]){2,9}[A-Z0-9]{2,8}"
    r"(?![\w-])"
)
_POSTCODE = re.compile(r"[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}")
# "letmein_harold", "Wh!teVan": a mark inside a word.
_MARKED = re.compile(
    r"(?<![\w./@#&`-])(?=\S*[A-Za-z]{3})[A-Za-z0-9]+(?:[_!$%^*?+~][A-Za-z0-9]+)+[!?$*]*(?![\w@/(=`]|\.\w)"
)
_QUOTED = re.compile(
    r"(?<!\w)(?:'[\w-]+(?: [\w-]+){0,4}'(?!\w)|[\"\u201c][^\"\u201c\u201d\n]{3,60}[\"\u201d])"
)
_WEB = re.compile(
    r"https?://\S+|www\.\S+|[^\s@]{1,64}@[^\s@.]+\.[^\s@]+|(?<!\w)/[\w./-]+|#[0-9A-Fa-f]{6}\b"
    r"|(?<!\w)[#@]\w+|\b(?!\w*(?:key|pass|pw|token|secret))\w+=\S{1,16}(?!\S)"
    r"|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\b[\w-]+\.(?:com|org|net|de|io|co\.uk|py|js|ts|txt|pdf|csv|json|md"
    r"|ya?ml|sh|exe|zip|png|jpg|docx?|xlsx?|log|conf|cfg|ini|html|css)\b",
    re.IGNORECASE,
)
_CANDIDATE = re.compile(
    r"[*#]?\d+(?:[ \-\u2013.,/]{1,3}\d+)*[*#]?(?!\w)"
    r"|(?=[^\s\d]*\d)(?=\S*[^\W\d_])[^\s\"\u201c\u201d'\u2018\u2019(),;:]+[^\s\"\u201c\u201d'\u2018\u2019(),;:.?!]!?"
    r"|(?=\S*\d)\S{3,}"
)
_AFTER_NAME = re.compile(r"\b[A-ZÄÖÜ][\wäöüßà-ÿ-]*[a-zäöüßà-ÿ] $")
_PRODUCT = re.compile(r"[A-Za-z0-9.-]+")
# "500mg", "5k", "11s", "16GB"
_SIZE = re.compile(
    r"\d{1,5}(?:[.,]\d+)?(?:mm|cm|m|km|kg|g|ml|l|mg|mcg|iu|IU|w|W|v|V|kw|kW|kWh|mAh|Hz|rpm|bpm"
    r"|mph|ms|min|h|am|pm|AM|PM|k|K|s|st|nd|rd|th|[GMTKgmtk][Bb]|[GMk]?Hz|Mbps|MP|BC|AD|p|ft|in|lbs?|oz|€|mila|e)(?:/\w+)?|\d{1,3}x"
    r"|\d{1,3}-[a-z-]+|\d+[.)]|\d+[²³]"
)
_STANDARD = re.compile(WORDS["no codes"], re.IGNORECASE)
_ABBREVIATION = re.compile(
    r"[A-Za-z]{1,5}[- ]?\d{1,4}[A-Za-z]{0,2}|\d{1,4}[A-Za-z]{1,3}|[A-Z]{1,3}\d{1,3}[A-Z]{0,2}\d{0,2}"
    r"|\d+(?:[-x\u00d7]\d+)+[a-z]{0,3}|v?\d+(?:\.\d+)+|[A-Za-z]{2,12}\d(?:\.\d+)*"
    r"|[A-Za-z]{2,4}\d\d(?:\.\d+)*|[a-zA-Z]{2,6}/\d|[a-z]\w*\.[a-z]\w*"
)
_SECRET_LABEL = re.compile(r"key|code|pin\b|pass", re.IGNORECASE)
_LABEL_BEHIND = re.compile(
    r"\D{0,25}\b(?:room|street|road|bus|train|flight|pages?|discount|promo|checkout|% off)\b", re.IGNORECASE
)
# Coordinates, telephone numbers, prices, addresses, postal codes, times, versions, amounts, ratios, ordinals.
_EXPLAINED = "|".join(
    (
        r"-?\d{1,3}\.\d{2,}°?\s?[NSEW]?,? -?\d{1,3}\.\d{2,}",
        r"\+\d[\d ()\-]{1,}\d|\(0\d+\)[\d ]+\d|\b0\d{2,4} \d{3,4} \d{3,4}\b|\b0\d{10}\b|\b07\d{3} ?\d{6}\b",
        r"\b\d{3}-\d{3}-\d{4}\b|\b\d{3}-\d{4}\b|\b1?-?800-\S+",
        r"[€$£¥]\s?\d[\d.,]*(?: ?(?:k|m|bn|million|billion))?(?:/\w+)?",
        r"\d[\d.,]*\s?(?:[€$£¥]|(?:eur|usd|gbp|chf|euros?|dollars?|pounds?|quid|bucks|francs?|p|k|grand)\b)",
        r"\b\d{1,5}[a-z]?,? (?:(?-i:[NSEW])\.? )?(?:(?-i:[A-ZÀ-Ý])[\w'.\u2019-]+ ){0,3}(?:Street|St|Road|Rd"
        r"|Lane|Ln|Avenue|Ave|Close|Drive|Dr|Way|Court|Ct|Place|Pl|Square|Sq|Terrace|Crescent|Gardens?|Row|Hill|Park|Mews"
        r"|Walk|Grove|Boulevard|Blvd|Highway|Parkway|rue|avenue|place)\b",
        r"\b\d{1,4},? (?:bis )?(?:rue|avenue|boulevard|place|chemin|allée|quai) ",
        r"(?:\w+(?:stra(?:ße|sse)|str\.?|weg|allee|gasse|platz|ufer|ring|damm|straat|laan|gracht|plein|kade)"
        r"|(?:Calle|Via|Viale|Piazza|Corso|Rua|Avenida|Avda|Plaza|Paseo|C/|Travessa|Largo)"
        r" (?:[\wÀ-ÿ'.]+ ){0,3}?[\wÀ-ÿ']+,?) (?:n[º°.]? ?)?\d{1,4}[a-z]?\b",
        r"(?-i:\b[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}\b|\b[A-Z]{2} \d{5}(?:-\d{4})?\b"
        r"|\b\d{5} [A-ZÄÖÜÀ-Ý][\wäöüßà-ÿ-]+)",
        r"\d{1,2}(?::|h|\.)\d{2}(?::\d{2})?(?: ?[ap]m)?|\d{1,2} ?(?:am|pm|uhr|o'clock|h)\b",
        r"v?\d+(?:\.\d+){2,}|v\d+",
        r"\b[12] ?m ?\d\d\b",  # how tall somebody is
        r"\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+[.,]\d+",
        r"\d+/\d+(?:, \d+/\d+)*",
        r"\d{1,3}(?:[:x\u00d7/]|-(?=\d{1,3}(?!\d|[- ]\d)))\d{1,3}(?!\d|[- ]?\d)",
        r"(?-i:\d+(?:st|nd|rd|th|er|ème|e|º|ª|s|ers|ish|k|x)\b)",
    )
)
