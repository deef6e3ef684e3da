"""Whom a question about another time is about, in the languages in which people may ask such questions.

A fact of another time is found by its key alone: "Where did Tom work before?" finds the employer. It answers
only if the user is asked about, or whomever its key names.
"""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.keys import is_about, words_of
from shepherd.claims.wordings import definition
from shepherd.prompt.concepts import are_related, content_words, is_kind_of, relation_of, relations_among
from shepherd.prompt.phrases import in_key
from shepherd.prompt.questions import core_of
from shepherd.types import PastFact

__all__ = ["is_of_the_one_asked_about"]

# "… before I met him" tells nothing about whose past it is.
_LATER = re.compile(
    r"(?<=\w) (?:before|after|until|while|bevor|nachdem|bis|avant|après|jusqu|antes|después|hasta|prima|dopo"
    r"|depois|voordat|nadat|totdat)\b.*",
    re.IGNORECASE | re.DOTALL,
)
# Objects such as "me" say nothing about the subject: "How long has Tom lived with me?"
_FIRST = re.compile(
    r"\b(?:(?:my|our)self|mine|ours|we|my|our|ich|wir|je|nous|yo|nosotr[oa]s|io|noi|n[óo]s|ik|wij)\b"
    r"|\bj['\u2019]"
    # "EU" is no Portuguese pronoun, nor "i" in Italian an English one.
    r"|\b(?-i:I|eu)\b|\bi['\u2019](?:m|ve|d)\b"
    r"|\b(?:what|where|which|who|when|how|did|do|have|was|am|had|and) i\b"
    # Verbs that need no pronoun.
    r"|\b(?:vivo|viví|habito|abito|abitavo|vivevo|lavoravo|moro|morei|trabajé|trabalhei|tengo|tenho|conduzco|llamo"
    r"|chiamo|guido|estudié|studiavo|hablo|falo|llevo|on (?=(?:habit|viv|travaill)\w))\b",
    re.IGNORECASE,
)
_MINE_ELSEWHERE = re.compile(
    r"\b(?:mein\w{0,2}|unser\w{0,2}|mon|ma|mes(?! (?:pasado|passado|anterior))|notre|nos|mis?|nuestr[oa]s?"
    r"|mi[oae]|miei|nostr[oaie]|meus?|minhas?|noss[oa]s?|mijn|m['\u2019]n|onze|ons)"
    r" (?:(?:alt|früher|vorherig|ehemalig|letzt|erst|neu|ancien|précédent|dernier|premier|nouve|vieux|vieille"
    r"|antigu|anterior|últim|primer|viej|nuev|vecchi|precedent|ultim|prim|nuov|antig|velh|nov|vorig|oud|laatst"
    r"|eerst|nieuw)\w* )?(?P<thing>[^\W\d_][\w-]*)",
    re.IGNORECASE,
)
_ROLES = (
    r"colleagues?|co-?workers?|neighbou?rs?|neighbou?rhood|friends?|mates?|buddy|pal|students?|pupils?|patients?"
    r"|clients?|customers?|employees?|assistant|secretary|accountant|solicitor|hairdresser|barber|cleaner|plumber"
    r"|physio|nurse|ex|guests?|tenants?|lodger|ancestors?|hero|idol|parents-in-law|in-laws|relatives?"
    r"|great-grand\w+"
)
# "… has Tom worked …": somebody else, though the user's things may be named as well.
_SUBJECT = re.compile(
    r"\b(?:did|does|do|has|have|had|is|are|was|were) (?P<name>(?-i:(?!I\b)[A-ZÀ-Þ])[\w-]+)"
    r"(?! and (?:I|we)\b)",
    re.IGNORECASE,
)
# Words that say nothing of whom or what a question is about, in English, German, French, Spanish, Italian,
# Portuguese and Dutch. Pronouns of the second and third person are none of them.
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        "what where which who when how long since much time did does do has have had is are was were been"
        " be a an the in at on of for to from with by before previous previously former formerly earlier"
        " ever used first last old there then now still already again please and or so well also called"
        " named name as it back ago until till yet currently tell me us know can could seit wann wie lange"
        " wo wer welche welcher welches war waren ist sind hat habe haben hatte vorher früher der die das"
        " den dem des ein eine einen im am bei zu mit für von heißt hieß alte alter altes depuis quand"
        " combien de temps où qui quel quelle quels quelles est était étaient avait avant le la les l un une"
        " d du à au aux en dans chez avec pour que qu ce c ancien ancienne auparavant desde cuándo cuanto"
        " cuánto tiempo dónde donde qué quién cuál hace era estaba está antes el los las del al con por"
        " anterior antiguo antigua da quando quanto tempo dove che chi qual quale è erano stato stata prima"
        " il lo gli i nel nella di per precedente vecchio vecchia há ha onde quem foi estava o os no na nos"
        " nas em dos com sinds wanneer hoe lang waar wat welke heeft eerder vroeger het een op bij met voor"
        " van naar vorige oude",
    )
)
_WORD = re.compile(r"[^\W\d_]+")
# "What has changed for Tom?" is about a name behind such a word.
_CHANGED_FOR = re.compile(
    r"\b(?:for|at|with|about|für|bei|mit|chez|pour|avec|para|con|per|voor|met)"
    r" (?P<name>(?-i:[A-ZÀ-Þ])[\w-]+)",
    re.IGNORECASE,
)


def is_of_the_one_asked_about(question: str, fact: PastFact) -> bool:
    """Return whether a fact of another time is about the one whose past a question asks for.

    "Where did Tom work before?" does not ask for the user's own employer, nor does "Where did my wife work?".
    """
    core = core_of(question)[0]
    if fact.kind in ("began", "ended"):
        return _has_changed_for(core, fact)
    core = _LATER.sub("", core)
    if any(not _explains(fact, found["name"]) for found in _SUBJECT.finditer(core)):
        return False
    rest, is_of_others = core, False
    for found in _somebodys().finditer(core):
        rest = rest.replace(found[0], " ")
        is_of_others = is_of_others or not _names(fact, found["who"])
    for found in _MINE_ELSEWHERE.finditer(rest):
        if any(_explains(fact, word) for word in _WORD.findall(found["thing"])):
            return True
        rest = rest.replace(found[0], " ")
        is_of_others = True
    if _FIRST.search(rest):
        return True
    return not is_of_others and all(_explains(fact, word) for word in _WORD.findall(rest))


@cache
def _somebodys() -> re.Pattern[str]:
    """Return the pattern of "my wife" and the like, made when first needed: its tables take a while."""
    people = "|".join(definition(name).pattern for name in ("person", "kin", "animal"))
    return re.compile(
        rf"\b(?:my|our) (?:[\w-]+ ){{0,2}}?(?P<who>{people}|{_ROLES})\b(?:['\u2019]s?)?", re.IGNORECASE
    )


def _has_changed_for(core: str, fact: PastFact) -> bool:
    """Return whether a question for changes asks for this one: all, or those of whom or what it names."""
    names = [found["name"] for found in _CHANGED_FOR.finditer(core)]
    people = [found["who"] for found in _somebodys().finditer(core)]
    return all(_explains(fact, name) for name in names) and all(_names(fact, who) for who in people)


def _explains(fact: PastFact, word: str) -> bool:
    """Return whether a word says nothing, or names the thing that a fact is about."""
    folded = word.casefold()
    if folded in _EMPTY or is_about(folded, fact.key):
        return True
    own = (*content_words(in_key(fact.key)), *content_words(fact.value))
    return all(any(are_related(stem, key) for key in own) for stem in content_words(word)) and bool(
        content_words(word)
    )


def _names(fact: PastFact, who: str) -> bool:
    """Return whether the key of a fact is about somebody: "dog_name" about "my dog"."""
    if is_about(who.casefold(), fact.key) or who.casefold() in words_of(fact.key):
        return True
    own, asked = content_words(in_key(fact.key)), content_words(who)
    told = relations_among(own)
    return any(
        stem in own
        or any(is_kind_of(relation_of(stem), one) or is_kind_of(one, relation_of(stem)) for one in told)
        for stem in asked
    )
