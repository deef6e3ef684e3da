"""Facts that a message says are over, found by what is known: "the car's gone" ends the fact "Kia Picanto".

For each fact, its mentions in a sentence are replaced by a mark, and wordings for its kind of fact are looked
for around them (endings.txt). What is asked, planned, supposed, reported or denied ends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from shepherd.claims.keys import INSTRUCTIONS, LISTS, canonical_key, items_of, words_of
from shepherd.claims.statements import own_sentences
from shepherd.claims.wordings import definition, endings, rule
from shepherd.types import Fact

__all__ = ["KnownEnding", "ended_facts", "opposite_items"]

_MARK = "\x01"
_ADVERBS = (
    r"(?:(?:just|finally|now|recently|sadly|actually|also|already|officially|eventually"
    r"|all) )*"
)
# "I", no subject at the beginning, or the second part of what the user did: "Sold it and binned the rest".
_SUBJECT = (
    rf"(?:(?<![\w'])(?:i|we)(?:'ve|'m|'re| have| had| am| are| was| were)? {_ADVERBS}|^{_ADVERBS}"
    r"|^(?:i|we|been|had|got|put|gave|took|sold|left|quit|\w+ed)\b[^,;.]*?(?: and|,? but)(?: then)? "
    rf"{_ADVERBS})"
)
# A time that is past, and no moment of today; and nothing says that it began again.
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_THEN = (
    rf"(?:(?:in|at the end of|early|late|mid|the end of) )*(?:(?:{_MONTH}|(?:19|20)\d\d)\b"
    rf"|(?:last|this) (?:week|month|year|spring|summer|autumn|fall|winter|{_MONTH})\b"
    r"|(?:an?|a few|a couple of|two|three|four|five|six|\d+) (?:weeks?|months?|years?) (?:ago|later)\b)"
    r"(?!.*\b(?:again|back|returned|rejoined|re-joined)\b)"
)
# Nothing follows but a time shortly before now, and nothing else is told of it: "…, and now I'm pregnant".
_LATELY = (
    r"(?=\W*$|[,.;!(]| (?:last (?:night|week|month|\w+day)|on \w+day|yesterday|today"
    rf"|this (?:morning|week|month)|in (?:{_MONTH})|at \d+ weeks|gestern|letzte woche|hier|ayer|and|so"
    r"|because|again)\b)"
    rf"(?!.*(?:{_MARK}|\b(?:ago|vor|il y a|hace|before|years?|(?:19|20)\d\d)\b))"
)
# Sections of the wordings for the keys of each kind of fact.
_SECTIONS = {
    "work": ("all", "for a time", "was for a time", "work", "work alone", "left named"),
    "teaching": ("all", "for a time", "was for a time", "activity", "work alone", "given up named"),
    "spouse": ("partner", "divorced alone", "someone"),
    "partner": ("partner", "single alone", "someone"),
    "kin": ("someone",),
    "role": ("all", "as a customer", "for a time", "was for a time", "role", "role alone", "someone"),
    "animal": ("for a time", "animal"),
    "named": ("all", "as a customer", "animal", "thing", "role"),
    "thing": ("all", "as a customer", "for a time", "thing"),
    "activity": ("all", "as a customer", "for a time", "was for a time", "activity", "given up named"),
    "business": ("all", "as a customer", "for a time", "activity", "thing"),
    "health": ("all", "as a customer", "health", "misdiagnosed", "denied"),
    "pregnancy": ("all", "as a customer", "health", "misdiagnosed", "denied", "pregnancy alone"),
    "episodes": ("all", "as a customer", "health", "misdiagnosed"),
    "allergy": ("all", "as a customer", "health", "denied allergy"),
    "avoided": ("avoided",),
    "disliked": ("disliked",),
    "diet": (
        "all",
        "as a customer",
        "for a time",
        "was for a time",
        "health",
        "diet alone",
        "misdiagnosed",
        "denied",
    ),
    "household": ("household", "someone"),
    "place": ("for a time", "place", "left named"),
}
_KINDS = {
    "work": "employer job",
    "teaching": "teaches",
    "spouse": "spouse wife husband",
    "partner": "partner girlfriend boyfriend fiance fiancee fiancé",
    "animal": "pets",
    "thing": "car uses editor browser operating_system shell",
    "business": "runs owns collects",
    "health": "condition medication aid",
    "allergy": "allergy",
    "avoided": "avoids",
    "disliked": "dislikes",
    "household": "lives_with",
    "diet": "diet",
    "place": "location",
    "activity": "plays hobby member_of learning community_role supports habit drinks project study school"
    " writes wears routine",
}
_KIND_OF = {key: kind for kind, keys in _KINDS.items() for key in keys.split()}
# Facts that nobody says are over with these words, or that stay true: a name, an age, what somebody likes.
_LASTING = frozenset(
    (
        "name", "nickname", "last_name", "origin", "hometown", "birthplace", "nationality", "age", "email",
        "phone", "birthday", "birth_year", "language", "likes", "prefers", "degree", "studied",
        "trait", "fears", "children", "siblings", "grandchildren", INSTRUCTIONS,
    )
)  # fmt: skip
# Of the user's own body or taste: what is over with others ends nothing here.
_OF_ONESELF = ("health", "pregnancy", "episodes", "allergy", "avoided", "disliked", "diet")
_MYSELF = re.compile(
    r"(?<![\w'])(?:i|im|me|my|we|our|ich|mein\w*|unser|je|j(?=')|nous|on a|soy|estoy|tengo|perdí|perdimos"
    r"|hemos|tuve|sufrí|di a luz|he (?:perdido|tenido|dado)|mi|nuestro)(?!\w)"
)
# "I was | misdiagnosed with asthma"
_I_BEFORE = re.compile(
    r"(?<![\w'])(?:i|we)(?:'(?:m|ve|re|d))?"
    r"(?: (?:am|are|was|were|have|had|got|been|can|may|also|just|now|finally|actually|really|recently))*\s*$"
)
_OTHERS = re.compile(r"(?<![\w'])(?:he|she|they|him|her|them|his|their|er|sie|il|elle|él|ella)(?!\w)")
# What may stand before a denial in its clause; "on Sundays I'm not vegan" denies little.
_BEFORE_DENIAL = re.compile(
    r"(?:(?P<clause>.*)(?:[,;:.!\u2013\u2014-]|\b(?:and|but|so|that|because)\b))?"
    r"\s*(?:(?:the|my|our|me|no|well|oh|actually|it|turns|out|that)\s+)*"
)
_AT_TIMES = re.compile(
    r"\W*(?:on|at|in|for|during|over|every|when|whenever|while|today|tonight|sometimes|am|im|beim|le|les|en|pour"
    r"|los|las|por|para)\b[^,]*$"
)
_IS_PREGNANT = re.compile(
    rf"(?<![\w'])(?:i'm|i am|im|ich bin|je suis|estoy) (?:(?:now|again|jetzt|wieder|de nouveau) )*{_MARK}"
)
# "My dog", "the car": the key says what it is.
_NAMED_BY_KEY = ("spouse", "partner", "kin", "role", "animal", "named", "thing")
# "I bought a Kindle and sold it"
_PRONOMINAL = (*_NAMED_BY_KEY, "business")
_SMALL = frozenset(
    (
        "the", "and", "for", "with", "who", "from", "near", "called", "named", "old", "new", "small", "large",
        "big", "little", "half", "year", "years", "part", "time", "own", "very", "since", "about", "every",
        "week", "month", "day", "days", "evening", "morning", "night", "weekend",
    )
)  # fmt: skip
# Other words for somebody.
_ALSO = {
    "mother": "mum mam mom mummy ma", "father": "dad daddy", "grandfather": "grandad granddad grandpa",
    "grandmother": "gran nan nana granny grandma nanny", "husband": "hubby", "wife": "missus",
    "girlfriend": "gf", "boyfriend": "bf", "dog": "puppy pup", "cat": "kitten kitty",
}  # fmt: skip
_DETERMINER = r"(?:(?:my|our|the|that|those|these|both|all)(?: of)?(?: (?:the|my|our))? )"
_ADJECTIVES = (
    r"(?:(?:mr|mrs|ms|miss|dr|prof|professor|sir|old|poor|little|lovely|dear|beloved|big|sweet|beautiful|whole"
    r"|black|white|red|blue|green)\.? )*"
)
# What ends without being named: "I lost the baby".
_PREGNANCY = re.compile(r"pregnan|schwanger|enceinte|embarazad|incinta|grávida|zwanger", re.IGNORECASE)
# "I don't have a migraine" is about today.
_EPISODES = re.compile(
    r"migraine|headache|anxi|depress|hay ?fever|vertigo|insomnia|eczema|psoriasis|rosacea|reflux|heartburn"
    r"|pain|back|knee|sleep|gout|cold sores?|allergies|rhinitis|tinnitus|panic"
    r"|migräne|heuschnupfen|rhume des foins|migraña",
    re.IGNORECASE,
)
# Behind a mention that is denied: nothing more is said of it, as in "asthma attacks" or "vegan for animals".
_END = (
    r"(?=\W*$|[,.;:!(\u2013\u2014]| (?:after all|at all|any ?more|any longer|actually|it turns out|apparently"
    r"|though|these days|again|but|and never|that was|it was|so|now)\b)"
)
_OPPOSITES = {"likes": "dislikes", "dislikes": "likes"}
_FOR_IT = re.compile(r"(?<![\w'])(?:him|her|it|them|the lot|our old (?:boy|girl|lad|man))(?!\w)")
_BEFORE_IT = re.compile(rf"\b(?:before|after|like|unlike|than|besides|off) {_MARK}")
# What they say is so.
_EXPERT = re.compile(
    r"(?<!'s )\b(?:doctor|doc|gp|consultant|allergist|specialist|surgeon|dieti[ct]ian|nurse|clinic|hospital"
    r"|psychiatrist|dentist|physio|tests?|retest|results?) (?:has |have |had )?(?:says?|said|told)"
)
_CLAUSE = re.compile(r"[,;:\u2013\u2014(]| (?:and|but|so|because|then|though|although) ")
# "My husband says: I'm not vegan"
_CLAUSE_OF_SPEAKER = re.compile(r"[,;(]| (?:and|but|so|because|then|though|although) ")
_NOT_SO = re.compile(
    r"\b(?:when|once|until|till|before|if|unless|whether|not|never|nearly|almost|nobody|dreamt|dreamed|tomorrow"
    r"|scared|terrified|dread\w*|next (?:week|month|year)|rumou?rs?)\b|n't\b"
)
# What may follow a mention without making it part of another thing.
_OTHER_NOUN = re.compile(
    r"[ -](?!(?:in|on|at|for|from|to|with|by|after|before|since|until|because|as|of|off|out|over|and|but|or"
    r"|so|then|when|last|this|next|these|yesterday|today|now|finally|completely|altogether|entirely|years?|months?|weeks?"
    r"|days?|ages|back|a|an|the|my|our|his|her|he|she|it|they|we|i|who|which|that|just|only|too|again|early|ago|mid"
    r"|cold|\w+ly|one|two|three|four|five|six|ten|is|was|has|any|any ?more|round|up|down|away|under|beside"
    r"|behind"
    # What it may be called as well: "the Monzo account".
    r"|account|subscription|membership|app|course|class|classes|lessons|allergy|intolerance|diet|club|team|group"
    r"|shop|store|firm|job|gig|role|post|site|stuff|thing|business|habit)\b)\w"
)
_ONLY_ONE = re.compile(
    r"(?:\w+ )?(?:boss|manager|landlord|landlady|gp|doctor|dentist|therapist|physio|supervisor|trainer"
    r"|accountant|lawyer|solicitor|cleaner|nanny|tutor)"
)
# "I no longer eat nuts" does not end the allergy to them.
_OF_ALLERGY = re.compile(r"allerg|intoleran|sensitiv|react")
_ONE_OF = re.compile(r"\bone of $")
_TOKEN = re.compile(r"[\w&'\u2019.+#-]*\w")
_MOST_SENTENCES, _MOST_FACTS = 40, 400


class KnownEnding(NamedTuple):
    """A fact, the value or the item of its list that is over, and the sentence that says so."""

    key: str
    value: str
    sentence: str


def ended_facts(text: str, facts: Iterable[Fact]) -> list[KnownEnding]:
    """Return which of the user's facts a message says are over."""
    sentences = [*own_sentences(text)][:_MOST_SENTENCES]
    plain = [one.casefold().replace("\u2019", "'").replace(_MARK, " ") for one in sentences]
    found = []
    for fact, _ in zip(facts, range(_MOST_FACTS), strict=False):
        kind_of_key = _kind_of(fact.key)
        for item in _items(fact) if kind_of_key else ():
            kind = _kind_of_item(kind_of_key, item)
            place = _place(plain, _mentions(fact.key, item), kind, _role(fact.key))
            if place is not None:
                found.append(KnownEnding(fact.key, item, sentences[place]))
    return found


def opposite_items(key: str, value: str, sentence: str, facts: Iterable[Fact]) -> list[tuple[str, str]]:
    """Return keys and items of known facts of which a new fact is the opposite.

    "I hate Rome in August" takes nothing from liking Rome. Who is married is engaged no longer.
    """
    if key == "spouse":
        return [(fact.key, fact.value) for fact in facts if _is_engagement(fact)]
    opposite = _OPPOSITES.get(key)
    if opposite is None or not _all_of_it().match(sentence.rpartition(value)[2]):
        return []
    said = {item.casefold() for item in items_of(key, value, apart=True)}
    return [
        (fact.key, item)
        for fact in facts
        if (known := canonical_key(fact.key)) is not None and known.name == opposite
        for item in items_of(known.name, fact.value, apart=True)
        if item.casefold() in said
    ]


def _is_engagement(fact: Fact) -> bool:
    known = canonical_key(fact.key)
    if known is None:
        return "".join(words_of(fact.key)) in ("fiance", "fiancee", "fianc\u00e9", "fianc\u00e9e")
    return known.name == "marital_status" and fact.value.casefold().startswith("engaged")


@lru_cache(1)
def _all_of_it() -> re.Pattern[str]:
    return re.compile(_END, re.IGNORECASE)


def _kind_of(key: str) -> str:
    """Return the kind of fact, "" for one that these wordings do not end."""
    known = canonical_key(key)
    name = key if known is None else known.name
    if name in _LASTING:
        return ""
    if kind := _KIND_OF.get(name):
        return kind
    words = " ".join(words_of(key))
    if words in _KIND_OF:
        return _KIND_OF[words]
    for kind, of in (("animal", "animal"), ("kin", "kin"), ("role", "person")):
        if definition(of).fullmatch(words):
            return kind if key.endswith("_name") or key == words else ""
        if (begun := definition(of).match(words)) and words[begun.end() :][:1] == " ":
            return ""  # "dog_age", "sister_employer"
    return "named" if key.endswith("_name") else "thing"


def _items(fact: Fact) -> list[str]:
    known = canonical_key(fact.key)
    if known is None or known.name not in LISTS:
        return [fact.value]
    # "I gave up the cello" leaves the oboe of "cello and oboe".
    return items_of(known.name, fact.value, apart=True)


def _kind_of_item(kind: str, item: str) -> str:
    """Return the kind of an item: a pregnancy and what comes and goes end otherwise than other conditions."""
    if kind == "health" and _PREGNANCY.search(item):
        return "pregnancy"
    return "episodes" if kind == "health" and _EPISODES.search(item) else kind


def _role(key: str) -> str:
    """Return whom a key names if nobody has two of them, else ""."""
    words = " ".join(words_of(key))
    return words if _ONLY_ONE.fullmatch(words) else ""


# Users name the roles.
@lru_cache(256)
def _wordings(section: str, role: str, of_oneself: bool) -> tuple[re.Pattern[str], ...]:
    return tuple(
        re.compile(
            line.replace("{i} ", _SUBJECT)
            .replace("{it}", rf"(?:my )?{_MARK}" if of_oneself else _MARK)
            .replace("{role}", role)
            .replace("{then}", _THEN)
            .replace("{end}", _END)
            .replace("{lately}", _LATELY)
        )
        for line in endings()[section]
    )


def _mentions(key: str, value: str) -> re.Pattern[str] | None:
    """Return the pattern of what may stand for a fact in lower case: words of its value, and what it is."""
    # Not where it is: "Halifax branch in Barnsley".
    head = re.split(r" (?:in|at|near|from|on|behind|outside) (?=.)", value, maxsplit=1)[0]
    own = [_forms(token) for token in _TOKEN.findall(head) if _says_what(token)]
    words = [word for word in words_of(key) if _kind_of(key) in _NAMED_BY_KEY]
    nouns = [re.escape(one) for word in words for one in (word, *_ALSO.get(word, "").split())]
    parts = []
    if own:
        word = f"(?:{'|'.join(own)})"
        parts.append(rf"{_DETERMINER}?{_ADJECTIVES}{word}(?:[ -](?:{word}|\d+))*")
    if nouns:
        noun = f"(?:{'|'.join(nouns)})"
        named = rf"(?:,? (?:{'|'.join(own)}),?)?" if own else ""
        # "Mum" is a name, and "dog" is none.
        whose = "?" if _kind_of(key) == "kin" else ""
        parts.append(rf"{_DETERMINER}{whose}{_ADJECTIVES}{noun}{named}")
    return re.compile(rf"(?<![\w'])(?:{'|'.join(parts)})(?![\w-])") if parts else None


def _says_what(token: str) -> bool:
    is_long = len(token) > 2 or (len(token) == 2 and token.isupper())
    return is_long and token.casefold() not in _SMALL and not token.isdigit()


def _forms(token: str) -> str:
    """Return the pattern of a word in lower case; of a verb or a noun that is no name, in all its forms."""
    word = token.casefold().replace("\u2019", "'")
    if not token.islower() or len(token) < 4 or not token.isalpha():
        return re.escape(word)
    stem = re.sub(r"(?:ing|e|es|s)$", "", word)
    return rf"{re.escape(stem if len(stem) > 2 else word)}(?:e|es|s|ing|ed|ped|ping)?"


def _place(sentences: Sequence[str], mentions: re.Pattern[str] | None, kind: str, role: str) -> int | None:
    """Return the number of the sentence that says that a fact is over."""
    of_oneself = kind in _OF_ONESELF
    marked = [_marked(sentence, mentions, of_oneself=of_oneself) for sentence in sentences]
    is_named = any(_MARK in sentence for sentence in marked)
    # "I lost the baby last year, and I'm pregnant again"
    if kind == "pregnancy" and any(map(_IS_PREGNANT.search, marked)):
        return None
    for number, sentence in enumerate(marked):
        # "We had to say goodbye to our old boy. Rex went very peacefully."
        is_followed = is_named and kind in _PRONOMINAL and not _BEFORE_IT.search(sentence)
        others = [_FOR_IT.sub(_MARK, sentence)] if is_followed else []
        for text in (sentence, *others):
            for section in _SECTIONS[kind]:
                is_here = _MARK in text or (is_named and section.endswith("named"))
                if not is_here and not section.endswith("alone"):
                    continue
                if kind == "allergy" and section in ("all", "as a customer") and not _OF_ALLERGY.search(text):
                    continue
                for match in _matches(text, section, role, of_oneself=of_oneself):
                    if of_oneself and not _is_of_user(text, match, marked):
                        continue
                    if section.startswith("denied") and not _is_plain_denial(text[: match.start()]):
                        continue
                    if _is_said(text, match):
                        return number
    return None


def _marked(sentence: str, mentions: re.Pattern[str] | None, *, of_oneself: bool) -> str:
    """Return a sentence with marks for the mentions; of what is of the user's own body, "my" is left."""
    if mentions is None:
        return sentence

    def mark(match: re.Match[str]) -> str:
        if _ONE_OF.search(sentence[: match.start()]):
            return match[0]
        return f"my {_MARK}" if of_oneself and match[0].startswith("my ") else _MARK

    return mentions.sub(mark, sentence)


def _matches(text: str, section: str, role: str, *, of_oneself: bool) -> Iterator[re.Match[str]]:
    if section == "role alone" and not role:
        return
    for wording in _wordings(section, role if section == "role alone" else "", of_oneself):
        yield from wording.finditer(text)


def _is_of_user(text: str, match: re.Match[str], sentences: Iterable[str]) -> bool:
    """Return whether a wording says "I", "me" or "my", or lacks a subject in a message about nobody else."""
    if _MYSELF.search(match[0]) or _I_BEFORE.search(text[: match.start()]):
        return True
    is_elliptic = match.re.pattern.startswith(_SUBJECT) and match.start() == 0
    return is_elliptic and not any(map(_speaks_of_others, sentences))


def _speaks_of_others(sentence: str) -> bool:
    return _OTHERS.search(sentence) is not None or _people().search(sentence) is not None


@lru_cache(1)
def _people() -> re.Pattern[str]:
    named = "|".join(definition(name).pattern for name in ("kin", "animal", "person"))
    return re.compile(rf"(?<!\w)(?:{named})(?!\w)", re.IGNORECASE)


def _is_plain_denial(before: str) -> bool:
    """Return whether a denial begins its clause, without a time or a place: "in Italy, I'm not vegan"."""
    begun = _BEFORE_DENIAL.fullmatch(_EXPERT.sub("", before))
    return begun is not None and not _AT_TIMES.match(begun["clause"] or "")


def _is_said(text: str, match: re.Match[str]) -> bool:
    """Return whether a wording is meant: its clause supposes, reports and denies nothing."""
    before = _CLAUSE.split(text[: match.start()])[-1]
    after = text[match.end() :]
    # "I dropped the cello bow"
    if match[0].endswith(_MARK) and _OTHER_NOUN.match(after):
        return False
    # "I don't work at Bosch on Fridays any more", and not "the car's gone".
    told = match[0].rpartition(_MARK)
    behind = told[2] + after
    is_own = bool(told[1]) and behind.startswith((" ", "'") if not told[2] else " ")
    if is_own and rule("not for good", begins=True).match(behind):
        return False
    if _NOT_SO.search(before) or rule("unreal").search(before):
        return False
    said = _EXPERT.sub("", _CLAUSE_OF_SPEAKER.split(text[: match.start()])[-1])
    if rule("reported").search(said):
        return False
    # "My husband: I'm not vegan!"
    if said.rstrip().endswith(":") and _speaks_of_others(said):
        return False
    return not rule("unreal", begins=True).match(after)
