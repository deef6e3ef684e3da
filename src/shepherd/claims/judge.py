"""The judge: a claim of an extraction model becomes a fact only if the user's own words bear it out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from shepherd._native.text import terms
from shepherd.claims.counts import COUNTED
from shepherd.claims.endings import items_left, may_end
from shepherd.claims.keys import (
    INSTRUCTIONS,
    LISTS,
    OF_OTHERS,
    canonical_key,
    joined_items,
    joined_values,
    words_of,
)
from shepherd.claims.letters import begins_with_letter
from shepherd.claims.moves import is_home
from shepherd.claims.roles import is_figure_of_speech, is_judged, trade_in
from shepherd.claims.statements import Assertion, assertions, stating_sentences
from shepherd.claims.wordings import alternatives, definition, rule
from shepherd.claims.wordings import words as word_list
from shepherd.given_names import GIVEN_NAMES, NAMES_AND_WORDS

__all__ = [
    "Verdict",
    "concerns",
    "ended_values",
    "is_borne_out",
    "judge",
    "learned",
    "plain_facts",
    "supported_value",
    "value_left",
]


_TOKEN = re.compile(r"\+?[^\W_](?:[\w.+#@&'-]*[\w+#])?|[,;/&]")
# Behind a value that is new.
_NOW = re.compile(
    r"\W*(?:(?:right )?now|these days|nowadays|from now on|jetzt|maintenant|ahora|adesso|agora|nu)\b"
)
_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_AGE = re.compile(
    rf"(?:\d{{1,3}}|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:[ -](?:{_UNITS}))?"
    rf"|{_UNITS}|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen)"
    r"(?:[ -]?(?:years?|yrs?|yo|y/o|months?|weeks?)(?:[ -](?:olds?|of age|young))?)?"
)
# "My suggestion is Rome": what somebody does now, unlike "my location".
_IS_DOING = re.compile(
    r"(?<!loca)(?<!occupa)(?<!educa)(?<!medica)(?<!posi)(?<!na)(?:tion|sion)$"
    r"|(?<!instru)(?<!depart)(?<!allot)(?<!apart)(?<!equip)ment$"
)
# Words that do not follow "I'm" as a name, and are names all the same.
_ALSO_NAMES = {
    "april", "may", "june", "august", "leo", "charlie", "summer", "autumn", "winter", "honey", "christian",
}  # fmt: skip
# Words that begin no place, unless they begin a name.
_ALSO_PLACES = ("max", "free", "moon")
_SPELLINGS = {
    "favourite": "favorite", "fav": "favorite", "colour": "color",
    "neighbour": "neighbor", "neighbours": "neighbors",
    "mum": "mother", "mom": "mother", "dad": "father", "papa": "father", "mama": "mother",
    "mummy": "mother", "daddy": "father", "hubby": "husband", "wifey": "wife", "bro": "brother",
    "sis": "sister", "gf": "girlfriend", "bf": "boyfriend", "doggo": "dog", "pup": "dog", "kitty": "cat",
    "lil": "little", "engaged": "fiance", "verlobt": "fiance", "prometido": "fiance", "prometida": "fiance",
    "grandma": "grandmother", "granny": "grandmother", "gran": "grandmother", "nan": "grandmother",
    "nana": "grandmother", "grandpa": "grandfather", "grandad": "grandfather", "granddad": "grandfather",
    **{
        word: english
        for english, others in {
            "mother": "mutter mère maman madre mamá mamma mãe mamãe moeder",
            "father": "vater père padre papá papà pai papai vader",
            "sister": "schwester sœur soeur hermana sorella irmã zus zusje",
            "brother": "bruder frère hermano fratello irmão broer broertje",
            "wife": "frau femme épouse mujer esposa moglie mulher vrouw",
            "husband": "mann mari marido esposo marito man",
            "daughter": "tochter fille hija figlia filha dochter dochtertje",
            "son": "sohn fils hijo figlio filho zoon zoontje",
            "girlfriend": "freundin copine novia ragazza fidanzata namorada vriendin",
            "boyfriend": "freund copain novio ragazzo fidanzato namorado vriend",
            "grandmother": "oma mamie abuela nonna avó",
            "grandfather": "opa papi abuelo nonno avô",
            "aunt": "tante tía zia tia",
            "uncle": "onkel oncle tío zio tio oom",
            "dog": "hund hündin chien chienne perro perra cane cachorro cachorra cadela cão hond hondje",
            "cat": "katze kater chat chatte gato gata gatto gatta kat katje poes",
            "horse": "pferd cheval caballo cavallo cavalo paard",
            "rabbit": "kaninchen lapin conejo coniglio coelho konijn",
        }.items()
        for word in others.split()
    },
}  # fmt: skip
# "Hund" and "chien" are a dog: one key for a relation, whatever language it is told in.
_SPELLINGS |= {
    word: row[0]
    for line in alternatives("relations")[3:-1].split("|")
    for row in [line.split(r"\s+")]
    for word in row[1:]
}
# Kinds that a free key may have, one that is not in the vocabulary.
_FREE = {
    "likes", "dislikes", "prefers", "plays", "uses", "drives", "owns", "learns", "works_on", "language",
    "avoids", "study", "school", "collects", "supports", "teaches", "runs", "wears", "writes",
}  # fmt: skip
# Kinds that need no model: the wording alone says the key and the value.
_PLAIN = {
    "name", "last_name", "location", "origin", "birthplace", "employer", "job", "study", "school", "age",
    "email", "phone", "birthday", "birth_year", "allergy", "diet",
    "avoids", "condition", "language", "favorite",
    "hobby", "married_to", "relative", "plays", "drives",
    "learns", "prefers", "likes", "dislikes", "nationality", "employment", "runs", "teaches", "work_style",
    "degree", "studied", "height", "wears", "collects", "supports", "routine", "schedule", "trait",
    "religion",
    "marital_status", "company", "does", INSTRUCTIONS, "fears", "children", "siblings", "pets", "lives_with",
    "training_for", "pronouns", "writes", "project", "detail", "member_of", "weight", "shoe_size",
    "school_year", "medication", "aid", "time_zone", "blood_type", "habit", "grandchildren", "drinks",
    "community_role",
}  # fmt: skip
# What is learned of relatives and pets, beside their names: the last words of the keys.
_TOLD_OF_OTHERS = {
    "age", "allergy", "birthday", "birthplace", "condition", "diet", "employer", "instrument", "job",
    "language", "location", "nationality", "origin", "study",
}  # fmt: skip
_MOST_WORDS, _MOST_NAME_WORDS, _MOST_TOPIC_WORDS = 8, 4, 2
# Small words in names of models: "iPhone 13 mini".
_MODELS = ("mini", "pro", "max", "plus", "air", "ultra", "iphone", "ipad")
# "I love escaping to that world": a value that ends so was cut short.
_UNFINISHED = {
    "to",
    "for",
    "of",
    "in",
    "on",
    "at",
    "with",
    "about",
    "into",
    "from",
    "by",
    "up",
    "as",
    "and",
    "or",
}
# Properties whose values are written in small letters as often as not.
_FREELY_SPELLED = (
    "pronouns", "sign", "username", "handle", "nickname", "nick", "website", "homepage", "blog", "domain",
    "thesis", "dissertation", "major", "religion", "instrument", "profession", "occupation",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim that the user's words bear out: the key of the vocabulary, the value as the user wrote it."""

    key: str
    value: str
    assertion: Assertion

    @property
    def changes(self) -> bool:
        """True if the sentence says that the value is new: "I moved to Oslo", "my name is Maria now"."""
        behind = self.assertion.sentence.partition(self.assertion.value)[2]
        return self.assertion.changes or _NOW.match(behind) is not None


def judge(claims: Mapping[str, str], lines: Iterable[str]) -> list[Verdict]:
    """Return the claims that the lines bear out; of two statements about one key the later one counts."""
    return _borne_out(claims, [found for line in lines for found in assertions(line)])


def _borne_out(claims: Mapping[str, str], said: Sequence[Assertion]) -> list[Verdict]:
    stated = [assertion for assertion in said if not assertion.ends]
    verdicts = []
    for key, value in claims.items():
        known = canonical_key(key)
        for assertion in reversed(stated):
            quoted = supported_value(assertion, key, value)
            if quoted:
                verdicts.append(Verdict(known.name if known else key, quoted, assertion))
                break
    return verdicts


def plain_facts(line: str) -> list[Verdict]:
    """Return what a line states so plainly that no model needs to claim it."""
    return _plain(assertions(line))


def _plain(said: Iterable[Assertion]) -> list[Verdict]:
    verdicts = []
    for assertion in said:
        if assertion.ends or assertion.is_weak or not _is_plain(assertion):
            continue
        value = " ".join(_without_determiners(_TOKEN.findall(assertion.value)))
        key = _key_of(assertion)
        quoted = supported_value(assertion, key, value)
        if quoted:
            known = canonical_key(key)
            verdicts.append(Verdict(known.name if known else key, quoted, assertion))
    return verdicts


def learned(claims: Mapping[str, str], lines: Sequence[str]) -> tuple[list[Verdict], list[Assertion]]:
    """Return what is to be learned from lines, and what they say to hold no longer, oldest first.

    Learned are plain statements, and claims that are borne out: one verdict a key, the last one, the values
    of a list joined. What a line states and a later one ends is not learned.
    """
    by_key: dict[str, Verdict] = {}
    ended: list[Assertion] = []
    for line in lines:
        said = assertions(line)
        for end in said:
            if not end.ends:
                continue
            ended.append(end)
            by_key = {
                key: left for key, verdict in by_key.items() if (left := _left_of(verdict, [end])) is not None
            }
        plain = _plain(said)
        quoted = [f" {verdict.value.casefold()} " for verdict in plain]
        keys = {verdict.key for verdict in plain} - LISTS
        # A model's own key for what is known already ("job_location") adds nothing.
        claimed = [
            verdict
            for verdict in _borne_out(claims, said)
            if verdict.key not in keys
            and not any(f" {verdict.value.casefold()} " in value for value in quoted)
        ]
        # "I work at Bosch. I no longer work at Bosch": what is stated before its end holds no longer.
        for stated in (*plain, *claimed):
            verdict = _left_of(stated, [end for end in said[said.index(stated.assertion) :] if end.ends])
            if verdict is None:
                continue
            earlier, value = by_key.pop(verdict.key, None), verdict.value
            if earlier is not None and verdict.key in LISTS:
                value = joined_values(verdict.key, earlier.value, value)
            by_key[verdict.key] = replace(verdict, value=value)
    return list(by_key.values()), ended


def value_left(key: str, value: str, ends: Iterable[Assertion]) -> str:
    """Return the value of a claim without what has ended, "" if that is all of it.

    "I left Bosch" ends nothing at the Bosch of the user's wife.
    """
    for end in ends:
        if not (may_end(end.kind, key) and concerns(end.sentence, key)):
            continue
        if value.casefold() == end.value.casefold():
            return ""
        left = items_left(end.kind, end.value, key, value) if key in LISTS else None
        if left is not None:
            value = joined_items(key, left)
    return value


def _left_of(verdict: Verdict, ends: Iterable[Assertion]) -> Verdict | None:
    value = value_left(verdict.key, verdict.value, ends)
    return replace(verdict, value=value) if value else None


def is_borne_out(text: str, lines: Iterable[str]) -> bool:
    """Return whether the text stands in a sentence of the user's own words that states something."""
    wanted = _folded(_without_determiners(_TOKEN.findall(text.replace("\u2019", "'"))))
    return bool(wanted) and any(
        said[at : at + len(wanted)] == wanted
        for line in lines
        for sentence in stating_sentences(line)
        if (said := _folded(_TOKEN.findall(sentence)))
        for at in range(len(said) - len(wanted) + 1)
    )


def ended_values(line: str) -> list[Assertion]:
    """Return what a line says to hold no longer."""
    return [assertion for assertion in assertions(line) if assertion.ends]


def concerns(statement: str, key: str) -> bool:
    """Return whether a statement speaks of the person of a key: "I left Bosch" not of `brother_employer`."""
    relation, _, told = key.rpartition("_")
    if told not in _TOLD_OF_OTHERS or not _is_somebody(relation.replace("_", " ")):
        return True
    said = {_SPELLINGS.get(word, word) for word in re.findall(r"[^\W_]+", statement.casefold())}
    return set(re.findall(r"[^\W_]+", relation)) <= said


def _is_somebody(relation: str) -> bool:
    """Return whether it ends with a relative or a pet: "brother", "younger brother", "best friend"."""
    words = relation.split()
    return any(
        definition(name).fullmatch(" ".join(words[at:]))
        for at in range(len(words))
        for name in ("kin", "animal")
    )


def supported_value(assertion: Assertion, key: str, value: str) -> str:
    """Return the value as the user spells it if the assertion states that it is the user's `key`, else ""."""
    quoted = _quoted(value, assertion)
    if not (quoted and _fits_key(assertion, key) and _fits_value(assertion, quoted)):
        return ""
    return _trade(quoted) if assertion.kind.removeprefix(OF_OTHERS) == "job" else quoted


def _trade(role: str) -> str:
    """Return a job without moods, and without a judgement where it is one all the same."""
    trade = trade_in(role)
    return trade.split(maxsplit=1)[1] if is_judged(trade) and " " in trade else trade


def _is_plain(assertion: Assertion) -> bool:
    """Return whether the wording alone says key and value: "my bike is a Brompton", not "my plan is Rome"."""
    value = assertion.value
    match assertion.kind:
        case "uses":
            return all(map(_is_program, re.split(r", (?:and )?| and | & ", value)))
        case "owns":
            return all(
                word[:1].isupper() or word[:1].isdigit() or word.casefold() in _MODELS
                for word in value.split()
            )
        case "attribute":
            return _is_plain_attribute(assertion.topic, value)
    return assertion.kind in _PLAIN or assertion.kind.startswith(OF_OTHERS)


def _is_program(name: str) -> bool:
    words = name.removeprefix("a ").removeprefix("an ").split()
    is_title = bool(words) and all(word[:1].isupper() or word[:1].isdigit() for word in words)
    return is_title or rule("software").fullmatch(name.rstrip("0123456789. ")) is not None


def _is_plain_attribute(topic: str, value: str) -> bool:
    nouns = topic.split()
    if {nouns[-1], topic} & word_list("lasting"):
        return (
            any(word[:1].isupper() for word in value.split())
            or any(map(str.isdigit, value))
            or rule("software").fullmatch(value) is not None
            or _is_of_maker(value)
            or nouns[-1] in _FREELY_SPELLED
            or value.startswith("@")
        )
    # "My allotment is plot 27", and not "my results are in the file B": a few words with a name or a number.
    words = value.split()
    is_named = value[0].isupper() or any(map(str.isdigit, words[-1])) or definition("day").match(value)
    if any(definition(name).fullmatch(noun) for name in ("person", "animal") for noun in nouns):
        return False  # "My cat is Persian" is not its name
    return bool(is_named) and len(words) <= _MOST_NAME_WORDS and len(nouns) <= _MOST_TOPIC_WORDS


def _is_of_maker(value: str) -> bool:
    """Return whether a thing is told by its maker: "thinkpad x1", "an old samsung"."""
    thing = re.sub(r"^(?:an? )?(?:(?:old|new|used|second-hand|battered|trusty) )?", "", value.casefold())
    first = next(iter(re.split(r"[\s,]", thing)), "")
    return any(definition(name).fullmatch(first) is not None for name in ("gear", "marke"))


def _key_of(assertion: Assertion) -> str:
    if assertion.kind == "relative":
        return "_".join(_topic_words(assertion.topic)) + "_name"
    if assertion.kind.startswith(OF_OTHERS):
        return "_".join([*_topic_words(assertion.topic), assertion.kind.removeprefix(OF_OTHERS)])
    if assertion.kind == "does":
        return "_".join(_third_person(assertion.topic).split())
    if assertion.kind == "favorite":
        return "_".join(_SPELLINGS.get(word, word) for word in assertion.topic.split())
    if assertion.kind in ("attribute", "schedule", "detail"):
        words = _topic_words(assertion.topic)
        # A number has the key "phone".
        return "_".join([*words, "model"] if words[-1:] == ["phone"] else words)
    if assertion.kind == "origin" and rule("of a hometown").search(assertion.sentence):
        return "hometown"
    if assertion.kind == "uses" and rule("systems").fullmatch(assertion.value.rstrip("0123456789. ")):
        return "operating_system"
    return {"married_to": "spouse", "drives": "car"}.get(assertion.kind, assertion.kind)


def _third_person(verb: str) -> str:
    """Return "belongs to" for "belong to"; no verb of the frames becomes "-ies"."""
    first, *others = verb.split()
    ending = "es" if first.endswith(("ch", "sh", "ss", "x", "o")) else "s"
    return " ".join([first + ending, *others])


def _topic_words(topic: str) -> list[str]:
    return [
        _SPELLINGS.get(word, word)
        for word in re.findall(r"[\w-]+", topic)
        if word not in ("new", "dear", "sweet", "cute", "lovely", "two", "three", "four")
    ]


def _fits_key(assertion: Assertion, key: str) -> bool:
    known = canonical_key(key)
    if known is not None:
        if assertion.kind not in known.kinds or (known.name == "car" and not _may_be_car(assertion)):
            return False
        if assertion.kind in ("attribute", "relative"):
            return _names(key, assertion.topic) or known.name == "project"
        return True
    if assertion.kind in ("attribute", "relative", "favorite", "schedule", "does", "detail"):
        return _names(key, assertion.topic)
    if assertion.kind.startswith(OF_OTHERS):
        return _names(key, f"{assertion.topic} {assertion.kind.removeprefix(OF_OTHERS)}")
    if key == assertion.kind:
        return True
    return assertion.kind in _FREE and _names(key, f"{_beside(assertion)} {assertion.kind.replace('_', ' ')}")


def _beside(assertion: Assertion) -> str:
    """Return the part of the sentence that states the value: "I use vim" of "About the TV, I use vim"."""
    before, value, behind = assertion.sentence.partition(assertion.value)
    begin = max((match.end() for match in _statement().finditer(before)), default=0)
    end = _statement().search(behind)
    return f"{before[begin:]}{value}{behind[: end.start()] if end else behind}"


def _may_be_car(assertion: Assertion) -> bool:
    """Return whether what somebody owns may be a car: "a Tesla" and "a van", not "a bike"."""
    value = assertion.value
    if assertion.kind != "owns" or rule("cars").search(value):
        return True
    # "About the car, I bought a Garmin"
    others = assertion.sentence.replace(_beside(assertion), "")
    is_of_car = re.search(r"\b(?:cars?|auto|voiture|coche|macchina|carro)\b", others, re.IGNORECASE)
    return is_of_car is None and (value != value.casefold() or _is_of_maker(value))


@cache
def _statement() -> re.Pattern[str]:
    """Return the pattern of what stands before another statement of a sentence."""
    conjunction = r"(?:and|but|so|und|aber|et|mais|y|pero|e|ma|mas|en|maar)\s+"
    return re.compile(
        rf"(?:\s*[,;:\u2013\u2014]\s*(?:{conjunction})?|\s+-+\s+|\s+{conjunction})"
        rf"(?={alternatives('subjects')}(?!\w))",
        re.IGNORECASE,
    )


def _names(key: str, text: str) -> bool:
    """Return whether all words of the key stand in the text, but for inflection and spelling."""
    wanted = _stems(words_of(key))
    return bool(wanted) and wanted <= _stems(re.findall(r"[^\W_]+", text.casefold()))


def _stems(words: Iterable[str]) -> set[str]:
    return {term for word in words for term in terms(_SPELLINGS.get(word, word)) or [word]}


def _is_determiner(tokens: Sequence[str], i: int) -> bool:
    """Return whether a token is an article; the A of "A negative" is a letter."""
    token = tokens[i]
    return token.casefold() in word_list("determiners") and not begins_with_letter(
        " ".join(tokens[i : i + 2])
    )


def _without_determiners(tokens: list[str]) -> list[str]:
    """Return the words behind articles; one that is part of a name stays: "Le Guin", "The Hague"."""
    first = next((i for i in range(len(tokens)) if not _is_determiner(tokens, i)), 0)
    while first and tokens[first - 1][0].isupper() and tokens[first][0].isupper():
        first -= 1
    return tokens[first:]


def _folded(tokens: Iterable[str]) -> list[str]:
    return [token.casefold().removesuffix("'s") for token in tokens]


def _quoted(value: str, assertion: Assertion) -> str:
    """Return the words of the assertion that are the value, else "": whole items of a list, no half names."""
    text = assertion.value.replace("\u2019", "'")
    spans = [match.span() for match in _TOKEN.finditer(text)]
    tokens = [text[start:end] for start, end in spans]
    said = _folded(tokens)
    wanted = _folded(_without_determiners(_TOKEN.findall(value.replace("\u2019", "'"))))
    n = len(wanted)
    is_name = assertion.kind in ("name", "relative")
    for at in range(len(said) - n + 1) if n else ():
        if said[at : at + n] != wanted:
            continue
        begins = said[at - 1] in word_list("separators") if at else True
        if not begins:
            begins = all(_is_determiner(tokens, i) for i in range(at)) or (
                _is_determiner(tokens, at - 1) and said[at - 2] in word_list("separators")
            )
        ends = at + n == len(said) or said[at + n] in word_list("separators") or (is_name and at == 0)
        if begins and ends:
            return text[spans[at][0] : spans[at + n - 1][1]]
    return ""


def _fits_value(assertion: Assertion, value: str) -> bool:
    """Return whether the value has the form that its kind asks for."""
    folded = value.casefold()
    words = folded.split()
    match assertion.kind.removeprefix(OF_OTHERS):
        case "instructions":  # whole, with its conditions
            return _folded(_TOKEN.findall(value)) == _folded(_TOKEN.findall(assertion.value))
        case "name" | "last_name":
            return _is_name(assertion, value)
        case "age":
            return _AGE.fullmatch(folded) is not None
        case "email":
            return re.fullmatch(r"\S+@\S+\.\S+", folded) is not None
        case "phone":
            return sum(map(str.isdigit, value)) >= 5
        case "birthday" | "birth_year":
            has_number = any(map(str.isdigit, value)) or definition("feast").search(value) is not None
            return has_number and len(words) < 6 and "or" not in words
        case "job" if is_figure_of_speech(value, assertion.sentence):
            return False
        case "job" if assertion.is_weak:
            is_owner = words[0].endswith("'s")
            return words[-1] not in word_list("momentary") and not value[0].isupper() and not is_owner
        case "attribute":
            return _is_lasting(assertion.topic, value)
        case "relative":
            is_name = words[0] not in word_list("no names") - _ALSO_NAMES
            is_person = not word_list("passing") & set(assertion.topic.split())
            return is_name and is_person and not any(map(str.isdigit, value))
        case "location" | "origin" | "employer" | "birthplace":
            return _is_place(assertion, value)
    # "One sister" is a number, "one of them" is not.
    is_number = assertion.kind in COUNTED and words[0] == "one" and len(words) > 1
    is_pronoun = words[0] in word_list("pronouns") and not is_number
    return len(words) <= _MOST_WORDS and not is_pronoun and _is_thing(assertion, value)


def _is_name(assertion: Assertion, value: str) -> bool:
    words = value.casefold().split()
    if assertion.is_weak and (
        words[0] in word_list("no names") or value != assertion.value or len(words) > 3
    ):
        return False
    if words[0] in word_list("no names") - _ALSO_NAMES and not (
        value[0].isupper() and words[0] in word_list("also names")
    ):
        return False
    is_title = value[0].isupper()
    return (
        not any(map(str.isdigit, value))
        and (is_title or assertion.value.split()[0].casefold() not in word_list("determiners"))
        and (is_title or words[0] not in word_list("momentary"))
        and words[0] not in word_list("pronouns") | word_list("determiners")
        and len(words) < 6
    )


def _is_lasting(topic: str, value: str) -> bool:
    """Return whether "my … is …" lasts: "my bike is a Brompton", not "my bike is stuck"."""
    words = value.casefold().split()
    nouns = topic.split()
    return (
        not word_list("passing") & set(re.findall(r"\w+", topic))
        and (definition("stranger").fullmatch(nouns[-1]) is None or topic == "best friend")
        and not any(word.endswith(("'s", "s'")) for word in nouns)
        # "An old Volvo" is a thing, "old" alone a state.
        and not word_list("momentary")
        & {words[-1], words[0] if value == value.casefold() and not _is_of_maker(value) else ""}
        and not words[-1].endswith("ing")
        and not any(word.endswith("ing") for word in words[:2] if word.islower())
        and not _IS_DOING.search(nouns[-1])
        and (
            value[0].isupper()
            or any(map(str.isdigit, value))
            or len(nouns) > 1
            or nouns[-1] in word_list("lasting")
        )
    )


def _is_place(assertion: Assertion, value: str) -> bool:
    """Return whether people live or work there; "a dream", with an article and no name, is no place."""
    words = value.casefold().split()
    if assertion.kind == "employer" and (
        rule("software").fullmatch(value) or (len(words) == 1 and words[0].endswith("ing"))
    ):
        return False
    if assertion.kind == "employer" and _is_joined(value, assertion.sentence):
        return False
    if assertion.kind == "employer" and rule("institutions").fullmatch(value) is not None:
        return True
    has_article = assertion.value.split()[0].casefold() in word_list("determiners")
    # "The Max Planck Institute", and not "at max"
    if assertion.kind == "location" and not is_home(value, assertion.sentence):
        return False
    is_named = words[0] in _ALSO_PLACES and len(words) > 1 and value.istitle()
    return (
        (is_named or value == "US" or words[0] not in word_list("no places") | word_list("pronouns"))
        and words[-1] not in word_list("buildings")
        and not (has_article and value == value.casefold())
    )


def _is_joined(name: str, sentence: str) -> bool:
    """Return whether it is somebody whom the user joined: "I left London and joined Anna in Paris"."""
    first = name.split(maxsplit=1)[0].casefold()
    is_somebody = first in GIVEN_NAMES | NAMES_AND_WORDS and not definition("firm").match(name)
    return is_somebody and re.search(rf"\bjoined {re.escape(name)}", sentence) is not None


def _is_thing(assertion: Assertion, value: str) -> bool:
    """Return whether the words of a value are not those of a mood, a choice or a figure of speech."""
    words = value.casefold().split()
    said = assertion.value.split()
    first = said[0].casefold()
    match assertion.kind:
        case "drives":
            # "I drive a Fiat", and not "I drive him crazy".
            return any(word[:1].isupper() for word in value.split()) or bool(rule("vehicles").search(value))
        case "owns":
            # "I have a Kindle", and not "I have a Zoom call".
            return not words[0][:1].isdigit() and not (
                value[:1].isupper() and any(word.islower() and word not in _MODELS for word in value.split())
            )
        case "favorite":
            # "My favorite answer is B" is about this talk; "The Wire" has its article in the title.
            words = words[1:] if len(words) > 1 and words[0] in word_list("determiners") else words
            is_one = not word_list("no favourites") & {words[0], words[-1]}
            return is_one and not word_list("options") & {*assertion.topic.split()[1:], words[0]}
        case "plays" | "uses":
            return words[0] not in word_list("no names") and not (
                first == "the" and value == value.casefold()
            )
        case "allergy":
            return _is_allergen(value, is_own=first in ("my", "our"))
        case "medication":
            return _is_medicine(value)
        case "avoids":
            return words[0] not in word_list("no foods")
        case "study" | "learns":
            return first not in word_list("determiners") and not first.endswith("'s")
        case "condition":
            return words[-1] not in ("patients", "patient", "clients", "kids", "students", "people", "tests")
        case "likes" | "dislikes" | "prefers" | "fears":
            # What is liked in general has no article: "I love jazz", not "I love the second one".
            if words[-1] in _UNFINISHED or _is_of_the_moment(assertion, value):
                return False
            is_title = first == "the" and said[-1][:1].isupper()
            return is_title or not {first, *words} & word_list("options")
    return True


def _is_allergen(value: str, *, is_own: bool) -> bool:
    """Return whether a value may cause an allergy: of what is the user's own, animals and what is worn."""
    words = value.casefold().split()
    is_known = rule("worn allergens").search(value) is not None or any(
        definition(name).fullmatch(words[-1]) for name in ("animal", "allergen")
    )
    return is_known or not (is_own or words[0] in word_list("no allergens"))


def _is_medicine(value: str) -> bool:
    """Return whether nothing but a form or a dose follows a medicine: no "Concerta tickets"."""
    drug = definition("drug").match(value)
    behind = "" if drug is None else value[drug.end() :]
    return not behind or rule("behind a medicine", begins=True).match(behind) is not None


def _is_of_the_moment(assertion: Assertion, value: str) -> bool:
    """Return whether a like or dislike passes, or is meant in jest: "Great, I love cleaning bedpans"."""
    behind = assertion.sentence.partition(value)[2]
    if rule("for the moment", begins=True).match(behind):
        return True
    is_jest = rule("exclamations", begins=True).match(assertion.sentence) is not None
    names = ("chores", "chores behind an exclamation") if is_jest else ("chores",)
    return assertion.kind == "likes" and any(rule(name, begins=True).match(value) for name in names)
