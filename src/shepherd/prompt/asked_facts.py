"""Facts that a question plainly asks for, by its words alone: about the user, their people and animals."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from shepherd.prompt.asked_about import facts_about_somebody, facts_about_work, facts_on_date
from shepherd.prompt.concepts import (
    FRAME,
    are_related,
    are_same,
    content_words,
    forms_of,
    is_common,
    is_kind_of,
    relation_of,
    relations_among,
    relations_asked_by,
)
from shepherd.prompt.fact_kinds import (
    DATE,
    HOW_MANY,
    HOW_MUCH,
    NUMBER,
    WHEN,
    WHO,
    YEAR,
    can_answer,
    is_human,
    is_likewise,
    is_of_this_time,
    serves,
)
from shepherd.prompt.fact_profiles import (
    AGES,
    FORMER,
    NAME,
    NAMED,
    NUMERALS,
    SIZES,
    Known,
    Profile,
    names_in,
    profile_of,
)
from shepherd.prompt.fact_values import (
    alternatives_in,
    goes_on,
    is_activity,
    is_another,
    is_beyond,
    is_diet,
    is_number,
    is_study,
    whole,
    without_animals,
)
from shepherd.prompt.facts_beside import (
    is_kind_of_employer,
    is_measure,
    is_no_name,
    is_no_work,
    is_of_another_rank,
    is_own_name,
)
from shepherd.prompt.of_others import MINE, is_of_a_work, is_of_somebody_else, is_of_user, relations_around
from shepherd.prompt.phrases import in_question
from shepherd.prompt.question_settings import is_at_another_time, is_setting, setting_of, without_clause
from shepherd.prompt.question_words import is_silent, turns_to_somebody
from shepherd.prompt.questions import Question, begins_question, core_of, open_form, questions_in
from shepherd.prompt.requests import as_question, indirect_request, is_bare_request
from shepherd.prompt.value_parts import PartOfFact, parts_asked_for
from shepherd.sentences import is_question, split_sentences
from shepherd.types import Fact

__all__ = [
    "Asked",
    "asked_by",
    "asked_facts",
    "asks",
    "asks_for_all",
    "companions",
    "explained",
    "is_given_to_user",
    "is_in_value",
    "is_of_others",
    "is_theirs",
    "named_in",
    "names_a_thing",
    "words_in",
]

_WORD = re.compile(r"[^\W_]+")
_SPELLINGS = {"favourite": "favorite", "colour": "color"}
# What a couple did, not where one of them lives.
_TOGETHER = re.compile(
    r"\b(?:i|we|us|me|our|marr(?:y|ied|iage)|wed(?:ding)?|anniversary|engage(?:d|ment)|met|meet|propose[ds]?)\b",
    re.IGNORECASE,
)
_THEIRS = re.compile(
    r"\b(?:his|her|their)\s+\w|\b(?:is|are|was|does|do|did|has|have|can|will|should)\s+(?:he|she|they)\b"
    r"|\b(?:he|she|they)(?:'s|'re)?\s+\w",
    re.IGNORECASE,
)
_INDEFINITE = re.compile(
    r"\b(?:what|who|where|which)(?:['\u2019]?s| is| are| was| does| do) (?:an?|some|any) ", re.IGNORECASE
)

# Words of a key that say too little by themselves.
_WEAK = frozenset(
    content_words(
        "name number date time type kind size code id info details main current full user model place brand"
        " status title level"
    )
)
_COUNTING = frozenset(content_words("number count"))
_NO_FACT = re.compile(
    r"\bwho (?:gave|took|takes(?! care)|made|found|got|brought|needs|uses|wrote)\b"
    r"|\b(?:why|how (?:do|does|can|could|should|would|to|is|are|am|about|come)|not)\b",
    re.IGNORECASE,
)
_TIMES = frozenset(content_words("day date month time"))
_IT = re.compile(r"\b(?:it|its|they|them)\b", re.IGNORECASE)
_WHICH_OF_MINE = re.compile(
    r"\W*(?:(?:on|in|at|for|of) )?(?:which|what) (?!(?:do|did|am|are|can|have)\b)([\w-]+(?: [\w-]+)?)"
    r" (?:(?:do|did|am|are|can|have) )?(?:i|we)\b",
    re.IGNORECASE,
)
# A name within a question; abbreviations such as GP are none.
_STRANGER = re.compile(
    r"(?<=\w )(?!PhD\b|[DM]Phil\b|[BM](?:Sc|Eng|Ed)\b)[A-ZÀ-Þ](?=[\w'\u2019-]*[a-zß-ÿ])[\w-]+"
)
# "Which part of Lagos": where a place is, and nobody's name.
_PART_OF = re.compile(r"\b(?:part|area|side|end|district|quarter|corner|bit) of [A-ZÀ-Þ][\w'\u2019-]+")
_KIND_OF = re.compile(r"\b(?:sort|kind|type|breed) of (\w+)", re.IGNORECASE)
_WHICH = re.compile(r"\W*(?:(?:on|in|at|for|of|from) )?(?:which|what) (\w+)", re.IGNORECASE)
_WHO_IS = re.compile(r"\W*who(?:['\u2019]?s| is| are) [\w'\u2019. -]+\W*", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|can|will|should|must)\b|['\u2019]s\b", re.IGNORECASE
)
# What a description in a value tells: "Biscuit, a 9-year-old border terrier".
_DESCRIBED = frozenset(content_words("breed kind sort type make model brand animal species"))
_COLORED = re.compile(
    r"\b(?:black|white|gr[ea]y|red|green|blue|yellow|orange|brown|pink|purple|silver|gold|beige|cream|tabby|ginger)\b",
    re.IGNORECASE,
)
_COUNTED = {"children": "child", "siblings": "sibling", "pets": "pet"}
_IDENTITY = re.compile(r"\bwho (?:am i|i am)\b(?!\s+(?!again|really|please|to you)\w)", re.IGNORECASE)
_TASK = re.compile(r"\bwork(?:ing)? on\b", re.IGNORECASE)
# "… before my appointment on Thursday" asks of today.
_OCCASION = re.compile(
    r"(?<=\w) (?:before|ahead of) (?:my|our|the) (?:\w+ )?(?:appointment|visit|operation|check-?up|interview"
    r"|meeting|procedure|scan|class|lesson|dinner)\b.*",
    re.IGNORECASE,
)
# "… to avoid when we eat out tonight"
_WHENEVER = re.compile(
    r"(?<=\w) (?:when(?:ever)?|if) (?:i|we|they|you)(?: have to| need to)?"
    r" (?:eat|dine|order|cook|shop|fill|buy|register|apply|sign)\b.*",
    re.IGNORECASE,
)
_CALLED_SO = re.compile(
    r"\W*(?:and )?what(?:['\u2019]?s| is| are) (?:(?:the|my|our) )?(\w+)(?: called| named)\b",
    re.IGNORECASE,
)
_TAKING = re.compile(r"\bhow (?:do (?:i|we)|i) (?:like|take|drink|have) (?:my|our)\b", re.IGNORECASE)
# "my favourite colour", with no verb that a fact could not explain.
_ONLY_A_THING = re.compile(
    r"\W*(?:and )?(?:(?:the )?[a-z]+ (?:of|for) )?(?:my|our)"
    r"(?: (?!(?:is|are|was|were|am|has|have|had|does|did|do|can|will|would|should)\b)"
    r"[\w'\u2019-]+){1,5}\W*",
    re.IGNORECASE,
)
# "What am I restoring?" is answered by "restoring a tram".
_DOING_NOW = re.compile(
    r"\W*(?:and )?what (?:am|are) (?:i|we) (?:currently |now )?(\w{2,}ing)\b", re.IGNORECASE
)
# What is known, where another one is asked for: "What other car do we have besides the Kia?"
_BESIDES = re.compile(
    r"(?:(?<!\W)\W+)?\b(?:besides|apart from|other than|except(?: for)?|in addition to|not counting)"
    r" (?:my |our |the )?(?P<known>[\w'\u2019-]+(?: [A-Z][\w-]*)?)",
    re.IGNORECASE,
)
_OTHER = re.compile(r"\b(?:other|else)\b", re.IGNORECASE)
_PLAYERS = {
    "instrument": re.compile(
        r"\b(?:violinist|violist|cellist|pianist|guitarist|drummer|flautist|flutist|trumpeter|bassist|organist|harpist"
        r"|saxophonist|clarinett?ist|percussionist|fiddler|accordionist|oboist|bassoonist)s?\b",
        re.IGNORECASE,
    ),
    "position": re.compile(
        r"\b(?:goal(?:keeper|ie)|keeper|striker|midfielder|defender|winger|forward|full-?back|centre-?(?:back|half)|prop"
        r"|hooker|fly-?half|scrum-?half|setter|libero|pitcher|catcher|quarterback|point guard)s?\b",
        re.IGNORECASE,
    ),
}
_DOING = re.compile(
    r"\b(?:does|do|did) (?P<who>(?!(?:i|we|you)\b)(?:my |our )?[\w-]+(?: [\w-]+)?) do"
    r"(?: for (?:work|a job))?(?=\W*$)",
    re.IGNORECASE,
)
# What somebody does and where they live, in a description: "Kofi, a paramedic in Leeds".
_JOBS = frozenset(content_words("job occupation work trade profession"))
_HOMES = frozenset(content_words("live living town city village country move moved settle settled based"))
_TAKES = re.compile(r"\bwhat (?:(?:do|am|should) )?i (?:have to |supposed to )?tak(?:e|ing)\b", re.IGNORECASE)
_MEDICAL = re.compile(
    r"\b(?:pharmac|chemist|doctor|nurse|hospital|surgery|medic|tablet|dos(?:e|age)|prescription|pills?)",
    re.IGNORECASE,
)
_DESCRIBED_AS = re.compile(
    r"\w,? (?:an?|the|works as an?|is an?) [a-z]\w+|\bworks? (?:as|at|for|in)\b"
    r"|, (?:retired |former )?[a-z]+(?:er|or|ist|ian|man|woman|nurse|chef|cook|vet|judge)\b"
)
_LIVES_IN = re.compile(r"\b(?:in|near|at) [A-Z]")
# What people who are asked for by it do for somebody: "Who looks after my teeth?"
_DOES = frozenset(
    content_words("look after service take care handle deal treat fix cut sort help see manage mind")
)
# Heads of keys that belong to what the others name, and are not meant by it.
_APART = frozenset(
    content_words(
        "hint registration insurance expiry price cost teacher coach owner deadline key club team card"
    )
)
# Heads of keys that the others name by themselves: "scout_group".
_GENERIC = frozenset(content_words("group service company provider supplier system club place office"))
# Which of several it is: the native language is not the one that is learned.
_TELLING = frozenset(content_words("native mother second other spare"))
_DIGITS = {stem: str(n) for n, word in enumerate(NUMERALS.split("|"), 1) for stem in content_words(word)}
# What everybody has one of, and what no key of a thing says.
_PERSONAL = frozenset(content_words("name surname first full nickname age birthday birth date height weight"))
_PLAYS = frozenset(content_words("play playing"))
_NUMBERS = frozenset(content_words("number id digits"))
# What is told apart by a number.
_NUMBERED = frozenset(
    content_words(
        "room office desk floor locker plot berth house flat apartment door cabin ward gate seat bay lot unit"
    )
)
# Who wants to know it, and what for.
_ASKERS = frozenset(content_words("client customer people others somebody anyone form reach"))
_KNOWING = r"(?:know|learn(?:ed|t)|remember(?:ed)?|stored?|saved?) (?:about|of) me"
_ALL = re.compile(
    r"(?:.*[,.!]\s*)?(?:and |so |please |can you |could you )*"
    r"(?:what (?:all |else )?(?:do|have)|(?:tell|show) me (?:all|everything|what)(?: that)?) you(?: have)?"
    rf" {_KNOWING}(?: so far| by now| now| already| yet)?\W*",
    re.IGNORECASE,
)
_MOST_KNOWN = 2
_FEW_WORDS = 4
_NEAR = 3  # words between "my" and what it belongs to


def asked_facts(question: str, facts: Sequence[Fact]) -> list[list[Fact]]:
    """Return the facts that each question of a message asks for; none where that is not sure.

    Every word of a question has to be explained by the fact: by its key or a word for the same thing, by its
    value, or by whom it is about. "Where do I work?" asks for the employer, "What is the name of my school?"
    not for the user's name, and "When is Ida's birthday?" not for the user's.
    """
    if not facts:
        return [[] for _ in questions_in(question)]
    known = Known([*facts, *parts_asked_for(question, facts)])
    found = []
    for one in questions_in(question):
        about = facts_about_somebody(one.text, known)
        found.append(_few(_facts_of(one, question, known)) if about is None else about)
    return found


def _few(facts: list[Fact]) -> list[Fact]:
    wholes = {fact.whole for fact in facts if isinstance(fact, PartOfFact)}
    facts = [fact for fact in facts if fact.key not in wholes]
    return facts if len(facts) <= _MOST_KNOWN else []


def asks_for_all(text: str) -> bool:
    """Return whether a message asks for all that is known about the user."""
    return _ALL.fullmatch(text.strip()) is not None


def named_in(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that tell who somebody is whom a text names."""
    words = set(content_words(text))
    profiles = (profile_of(fact) for fact in facts)
    return [one.fact for one in profiles if one.is_bare and not words.isdisjoint(names_in(one.fact.value))]


def companions(keys: Collection[str], facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts without which those of these keys are not understood.

    They name the twins of `twins_age`, and the `second_dog` beside the `first_dog`.
    """
    known = Known(facts)
    wanted = [one for one in known.profiles if one.fact.key in keys]
    twins = frozenset[str]().union(*(one.names for one in wanted if "twin" in one.relations))
    ranked = {rest for one in wanted if (rest := _unranked(one.fact.key))}
    return [
        one.fact
        for one in known.profiles
        if _unranked(one.fact.key) in ranked
        or (one.is_bare and not twins.isdisjoint(names_in(one.fact.value)))
    ]


def _unranked(key: str) -> str:
    """Return a key without "first" or "second", "" if it has neither."""
    rest = re.sub(r"(?:^|_)(?:first|second|third)(?=_)", "", key)
    return "" if rest == key else rest


_SAYS_YOU = re.compile(r"\byou(?:r|rs|'re)?\b", re.IGNORECASE)


def is_of_others(question: str, fact: Fact, facts: Sequence[Fact], answer: str = "") -> bool:
    """Return whether a question is about others than a fact is: "How old is Ida?".

    If an answer names the key, the fact has to explain every word: "Your operation was in May" does not tell
    when the second one is.
    """
    known = Known(facts)
    one = next(one for one in known.profiles if one.fact.key == fact.key)
    if not can_answer(one, question) or is_beyond(one, question) or _NO_FACT.search(in_question(question)):
        return True
    core, context = core_of(question)
    core = in_question(core)
    asked = _asked(core, context, known)
    names = asked.strangers | {word for word in asked.words if word in known.names}
    if (names or asked.relations) and not is_theirs(one, asked, known):
        return True
    is_named = not set(content_words(answer)).isdisjoint(one.attributes)
    # "What is the registration of my car?" is not answered by the car.
    return any(
        (is_common(word) or (is_named and not is_silent(word))) and not explained(word, one, asked, known)[0]
        for word in asked.words
    )


def is_given_to_user(sentence: str, fact: Fact, facts: Sequence[Fact]) -> bool:
    """Return whether a sentence says of the user what is somebody else's: "You play the trumpet"."""
    one = next(one for one in Known(facts).profiles if one.fact.key == fact.key)
    if not one.relations or one.is_bare or not _SAYS_YOU.search(sentence):
        return False
    if ": " in sentence:  # "Your notes say: Heat it to 79 degrees."
        return False
    said = content_words(in_question(sentence))
    return not any(relation_of(word) or word in one.names for word in said)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: the stems that have to be explained, those around it, and whom it is about.

    Of its words, `setting` are those that say where or when: see question_settings. The `text` is without
    clauses with "when" or "if", which ask for no time.
    """

    text: str
    words: tuple[str, ...]
    around: frozenset[str]
    near: frozenset[str]
    relations: frozenset[str]
    strangers: frozenset[str]
    setting: frozenset[str] = frozenset()


def _facts_of(question: Question, message: str, known: Known) -> list[Fact]:
    """Return the facts that one question asks for."""
    if dated := facts_on_date(question.text, known.profiles):
        return dated
    asked = asked_by(question, message, known)
    if asked is None:
        return []
    if (besides := _BESIDES.search(question.text)) and _OTHER.search(question.text):
        known = known.without(content_words(besides["known"]))
    if counted := [one.fact for one in known.profiles if _counts(one, asked)]:
        return counted
    scores = {one.fact.key: score for one in known.profiles if (score := _score(one, asked, known))}
    if scores and any(_is_only_of_another_time(one, asked, known) for one in known.profiles):
        # "Who was my doctor?" does not ask for the vet where the doctor is known.
        named = (one for one in known.profiles if _has_word_of(one.key, asked))
        scores = {one.fact.key: scores[one.fact.key] for one in named if one.fact.key in scores}
    if not scores:
        each = _each(asked, known) if re.search(r"\band\b", asked.text) else []
        if found := each or facts_about_work(question.text, known.profiles):
            return found
        wanted = open_form(question.text)
        return _facts_of(replace(question, text=wanted), wanted, known) if wanted else []
    best = max(scores.values())
    return [one.fact for one in known.profiles if scores.get(one.fact.key, 0.0) > best - 0.1]


def asked_by(question: Question, message: str, known: Known) -> Asked | None:
    """Return what a question of a message asks for; None if it asks for nothing that facts can tell."""
    text = _BESIDES.sub("", question.text) if _OTHER.search(question.text) else question.text
    core, context = core_of(text)
    is_indirect = indirect_request(question.text) is not None
    if question.before:
        context = f"{context} {question.before}"
    elif question.text != message:
        context = f"{context} {core_of(message)[1]}"
    core = in_question(core)
    core = _DOING.sub(lambda found: f"is {found['who']} occupation", core)
    core = _IDENTITY.sub("what is my name", _TASK.sub("project", core))
    core = _WHENEVER.sub("", _OCCASION.sub("", core))
    core = whole(_TAKING.sub("what is my", core))
    if _MEDICAL.search(message):
        core = _TAKES.sub("what is my medication", core)
    is_request = is_indirect or is_bare_request(core)
    if is_request and not asks(core):
        core = as_question(core)
    is_asking = is_request or asks(core) or begins_question(core) or _ONLY_A_THING.fullmatch(core)
    if not is_asking or _NO_FACT.search(core):
        return None
    if _INDEFINITE.search(core) and not MINE.search(core):
        return None
    return _asked(core, context, known)


def _each(asked: Asked, known: Known) -> list[Fact]:
    """Return the facts that "Where do I live and work?" asks for, one for each word."""
    found: list[Fact] = []
    for word in asked.words:
        one_word = replace(asked, words=(word,))
        scores = [(_score(one, one_word, known), one.fact) for one in known.profiles]
        best = max(score for score, _ in scores)
        meant = [fact for score, fact in scores if score and score > best - 0.1]
        if len(meant) != 1:
            return []
        found += meant
    return list(dict.fromkeys(found))


def _asked(core: str, context: str, known: Known) -> Asked:
    words = tuple(word for word in content_words(core) if word not in FRAME)
    words = tuple(word for word in words if word not in _ASKERS) or words
    if (kind := _KIND_OF.search(core)) and relations_among(content_words(kind[1])):
        words = (*words, "breed")
    around, near = content_words(context), frozenset[str]()
    is_open = (
        turns_to_somebody(words, core)
        or not set(words) - _WEAK - AGES - NAMED
        or bool(_THEIRS.search(core) or _IT.search(core))
    )
    if is_open:
        near = _near_mine(f"{context} {core}")
    choice = alternatives_in(core)
    relations = without_animals(relations_among(words), core)
    if others := without_animals(relations_among(word for word in words if word not in choice), core):
        relations = others  # "Is my pet a rabbit or a tortoise?"
    if not relations and WHO.search(core):
        relations = relations_asked_by(words)
    names = [word for word in words if word in known.names]
    if _THEIRS.search(core) and not relations and not names:
        names = [word for word in around if word in known.names]
        relations = frozenset() if names else relations_around(context)
    if not relations and not words and _IT.search(core):
        meant = relations_among(around)
        relations = meant if len(meant) == 1 else frozenset()
    if names and relations <= relations_among(choice):
        relations = frozenset()
    for name in names:
        relations |= known.names[name]
    strangers = frozenset(
        stem
        for name in _STRANGER.findall(_PART_OF.sub("", core))
        for stem in content_words(name)[:1]
        if stem not in known.names and not is_common(stem) and stem not in choice
    )
    around = around if is_open else []
    text = without_clause(core)
    return Asked(text, words, frozenset(around), near, relations, strangers, setting_of(core))


def _near_mine(text: str) -> frozenset[str]:
    """Return the stems of words that stand close behind "my" or before "I"."""
    words = re.findall(r"[\w'\u2019-]+", text)
    found: list[str] = []
    for n, word in enumerate(words):
        if MINE.fullmatch(word):
            found += words[n + 1 : n + 1 + _NEAR]
            if word.casefold() in ("i", "we"):
                found += words[max(0, n - _NEAR) : n]
    return frozenset(content_words(" ".join(found)))


def _counts(one: Profile, asked: Asked) -> bool:
    """Return whether a question asks for this number and nothing else: "How many kids do I have?"."""
    if one.fact.key not in _COUNTED or not MINE.search(asked.text):
        return False
    is_number = HOW_MANY.search(asked.text) or re.match(
        r"\W*(?:do|have) (?:i|we)\b", asked.text, re.IGNORECASE
    )
    wanted = frozenset((_COUNTED[one.fact.key],))
    return bool(is_number) and relations_among(asked.words) == wanted and len(asked.words) == 1


def _is_only_of_another_time(one: Profile, asked: Asked, known: Known) -> bool:
    """Return whether a fact has the very thing that is asked for, but not of the time that is asked about."""
    return (
        not one.relations
        and _has_word_of((one.head,), asked)
        and not is_of_this_time(one, asked.text, asked.words)
        and can_answer(one, asked.text)
        and is_theirs(one, asked, known)
    )


def _has_word_of(key: Collection[str], asked: Asked) -> bool:
    return any(are_same(word, part) for word in asked.words for part in key)


def _score(one: Profile, asked: Asked, known: Known) -> float:
    """Return how well a fact answers a question, 0.0 if it does not."""
    if not can_answer(one, asked.text) or not is_of_this_time(one, asked.text, asked.words):
        return 0.0
    if not is_likewise(one, asked.text, asked.words) or is_beyond(one, asked.text):
        return 0.0
    if not is_theirs(one, asked, known) or _is_only_beside(one, asked):
        return 0.0
    score, hits = 0.0, set()
    for word in asked.words:
        worth, hit = explained(word, one, asked, known)
        if not worth and not is_silent(word, asked.text) and not _is_asked_by_name(one, asked):
            return 0.0
        score += worth
        hits |= hit
    if HOW_MANY.search(asked.text):
        hits |= _COUNTING.intersection(one.key)
    if not hits - _WEAK and (asked.around or asked.near):
        # "…my student number, what is it?": the thing is named before the question.
        is_meant = asked.words or (asked.relations and (_IT.search(asked.text) or _THEIRS.search(asked.text)))
        others = asked.around | asked.near if is_meant else asked.near
        more = {key for key in one.attributes for word in others if are_related(word, key)}
        hits |= more
        score += 0.5 * len(more)
    needed = {word for word in one.attributes if word not in _WEAK}
    if one.is_bare:
        is_hit = bool(asked.relations)
        hits |= {key for key in one.key if relation_of(key) in asked.relations}
    else:
        is_hit = bool(hits & needed) if needed else set(one.attributes) <= hits
        is_hit = is_hit or is_in_value(asked, one) or is_own_name(one, asked.words)
    strong = [word for word in one.attributes if word not in _WEAK | _TIMES]
    is_part = len(strong) > 1 and strong[-1] in _APART and strong[-1] not in hits
    if not is_hit or is_part:
        return 0.0
    covered = len(hits & set(one.key)) / max(1, len(one.key))
    is_beside = one.head and one.head not in _WEAK and one.head not in hits and not one.is_bare
    is_other = is_beside and one.head not in _GENERIC and is_common(one.head) and not is_in_value(asked, one)
    is_thing = _WHICH_OF_MINE.match(asked.text) and not WHEN.search(asked.text)
    if is_other and is_thing:
        return 0.0  # "What car do I drive?" does not ask for its registration
    return (score + 0.5 * covered) * (0.5 if is_beside else 1.0)


def _is_only_beside(one: Profile, asked: Asked) -> bool:
    """Return whether a fact is about the thing in question, but does not answer the question."""
    words = {*asked.words, *asked.near} if not asked.words else set(asked.words)
    return (
        (not asked.relations and is_no_name(one, words))
        # "Who is my child?" does not ask who minds it.
        or (WHO.search(asked.text) is not None and not one.relations and _asks_for_somebody(asked))
        or is_measure(one, asked.text, words)
        or is_of_another_rank(one, asked.text)
        or is_no_work(one, asked.text)
        or is_at_another_time(one, asked.text)
    )


def _asks_for_somebody(asked: Asked) -> bool:
    """Return whether a question names somebody's relation to the user and nothing else."""
    return bool(asked.relations) and all(map(relation_of, asked.words))


def _is_asked_by_name(one: Profile, asked: Asked) -> bool:
    """Return whether a question asks for the thing itself, whatever it says besides: "Which car do I …"."""
    which = _WHICH_OF_MINE.match(asked.text)
    kind = content_words(which[1])[-1:] if which else []
    named = set(one.attributes) - _WEAK - _TIMES
    if not kind or kind[0] in _WEAK or one.relations or not named.isdisjoint(_TELLING):
        return False
    # A car is not its registration, nor is the position that somebody plays a job.
    is_beside = is_common(one.head) and not are_same(kind[0], one.head)
    if kind[0] not in named and not _PLAYS.isdisjoint(asked.words):
        return False
    return not is_beside and any(are_same(kind[0], word) for word in named)


def is_in_value(asked: Asked, one: Profile) -> bool:
    """Return whether the value tells more of what is asked about: "Which ward am I on?"."""
    told = [word for word in asked.words if word in one.value or not one.value.isdisjoint(forms_of(word))]
    if told and goes_on(asked.text, one.fact.value):
        return True
    if told and _WHO_IS.fullmatch(asked.text) and len(told) == len(asked.words):
        return True
    # "What is the joinery called?" is answered by "Kessler & Moe Joinery".
    if told and (called := _CALLED_SO.match(asked.text)) and set(content_words(called[1])) <= {*told}:
        return NAME.match(one.fact.value) is not None and not one.relations
    if (doing := _DOING_NOW.match(asked.text)) and one.fact.value.casefold().startswith(doing[1].casefold()):
        return True
    if asked.words and all(is_study(word, one.fact.value) for word in asked.words):
        return True
    if told and one.is_former and not FORMER.isdisjoint(content_words(asked.text)):
        return True
    which = _WHICH.match(asked.text)
    kind = content_words(which[1])[:1] if which else []
    if which is None or not kind:  # "what is …" names no kind
        is_amount = HOW_MUCH.search(asked.text) and NUMBER.search(one.fact.value)
        is_counted = HOW_MANY.search(asked.text) and not _counts_in(one.fact.value, asked.text)
        return len(told) > 1 or bool(told and is_amount and not is_counted)
    if not told or not _DESCRIBED.isdisjoint(kind):
        return bool(told)
    before = re.search(rf"([\w-]+) {re.escape(which[1])}", one.fact.value, re.IGNORECASE)
    return bool(kind) and kind[0] in told and before is not None and bool(content_words(before[1]))


def _counts_in(value: str, question: str) -> bool:
    """Return whether a value tells how many there are: "430 ewes" for "how many ewes"."""
    counted = re.search(r"\bhow many (\w+)", question, re.IGNORECASE)
    stem = counted[1].casefold().removesuffix("s") if counted else ""
    return bool(stem) and re.search(rf"\b\d[\d,.]*\W+(?:\w+\W+)?{stem}", value, re.IGNORECASE) is not None


def explained(word: str, one: Profile, asked: Asked, known: Known) -> tuple[float, set[str]]:
    """Return how well a fact explains a word of the question, and which words of its key do."""
    hits = {key for key in one.key if are_related(word, key)}
    if word in one.key:
        return 1.0, hits
    if hits:
        return 0.8 if any(are_same(word, key) for key in hits) else 0.6, hits
    relation = relation_of(word)
    if (relation and _is_one_of(relation, one.relations)) or word in one.names:
        return 0.9, hits
    if relation and serves(one, relation):
        return 0.5, hits
    if is_kind_of_employer(one, word, asked.text):
        return 0.4, hits
    # "When did Maeve and I get married?"
    of = known.names.get(word, {relation} if relation else set())
    if of and one.is_event and not one.relations and all(is_kind_of(whose, "partner") for whose in of):
        return 0.3, hits
    is_where = is_setting(word, asked.setting, one)
    return _told_by_value(word, one, asked) or (0.2 if is_where else 0.0), hits


def _told_by_value(word: str, one: Profile, asked: Asked) -> float:
    """Return how well the value of a fact explains a word that its key does not."""
    value = one.fact.value
    if _DIGITS.get(word, "-") in one.value:
        return 0.5
    if word in AGES and (one.is_age() or (not one.relations and YEAR.search(value))):
        return 0.9
    if word in NAMED and NAME.search(value):
        return 0.9 if one.is_bare else 0.4
    if word in one.value or not one.value.isdisjoint(forms_of(word)):
        return 0.5
    if any(are_same(word, other) for other in one.value):
        return 0.5
    is_told_of_them = (
        one.is_bare
        and is_human(one)
        and (
            (word in _JOBS and _DESCRIBED_AS.search(value))
            or (word in _HOMES and _LIVES_IN.search(value) and not WHEN.search(asked.text))
        )
    )
    if is_told_of_them:
        return 0.4
    choice = alternatives_in(asked.text)
    if word in choice and not choice.isdisjoint((*one.value, *one.key)):
        return 0.3
    if is_diet(word, one) or is_study(word, value):
        return 0.4
    if is_activity(word, one) or (word in _DOES and WHO.search(asked.text)):
        return 0.2
    is_described = (
        (word in _DESCRIBED and len(one.value) > 1)
        or (word == "color" and _COLORED.search(value))
        or (word == "year" and YEAR.search(value))
        or (word in FORMER and one.is_former)
    )
    if is_described:
        return 0.4
    if one.is_bare and any(
        thing.search(value) and name in asked.text.casefold() and word in (*content_words(name), *_PLAYS)
        for name, thing in _PLAYERS.items()
    ):
        return 0.4
    if word in _NUMBERS and is_number(value):
        heads = one.attributes if one.head in _NUMBERED else (one.head,)
        is_named = any(are_related(other, key) for other in asked.words if other != word for key in heads)
        return 0.4 if is_named else 0.0
    is_qualified = word in SIZES and one.relations
    is_dated = (
        word in _TIMES and (WHEN.search(asked.text) or re.search(r"\d:\d\d", value)) and DATE.search(value)
    )
    return 0.3 if is_qualified or is_dated else 0.0


def is_theirs(one: Profile, asked: Asked, known: Known) -> bool:
    """Return whether a fact is about those whom the question is about."""
    strangers = {name for name in asked.strangers if name not in one.value and name not in one.key}
    if strangers:
        return False
    if not one.relations:
        is_personal = _PERSONAL.issuperset(one.attributes)
        if is_personal and _THEIRS.search(asked.text) and not is_of_user(asked.text):
            return False  # "The landlord is Mr …, what was his last name?"
        around = asked.around | asked.near
        if not asked.relations and is_of_somebody_else(one, asked.text, asked.words, around):
            return False
        if is_of_a_work(one, asked.text):
            return False
        others = {
            relation
            for relation in asked.relations
            # "When did Maeve and I get married?", "What can't Mateo eat?"
            if not (one.is_event and is_kind_of(relation, "partner") and _TOGETHER.search(asked.text))
            and not any(relation in known.names[name] for name in one.value & known.names.keys())
            and relation not in relations_among(one.value)
            and not serves(one, relation)
            # "Who minds the children?" asks for the childminder.
            and not any(
                relation_of(word) == relation and any(are_related(word, key) for key in one.attributes)
                for word in asked.words
            )
        }
        return not others and (bool(MINE.search(asked.text)) or bool(asked.near) or _is_definite(asked, one))
    if not asked.relations:
        # A role that is asked for by what they do: "Who does my books?"
        return False
    named = known.names.keys() & set(content_words(asked.text))
    if named and one.names and named.isdisjoint(one.names):
        return False
    told = one.relations | relations_among(one.value)
    # Whoever is named needs no other relation: Maud, a twin and a daughter, has the daughters' age.
    settled = frozenset[str]().union(*(known.names[name] for name in named & one.names))
    return all(
        _is_one_of(relation, one.relations) and not is_another(relation, told)
        for relation in asked.relations - settled
    )


def _is_definite(asked: Asked, one: Profile) -> bool:
    """Return whether a question without "my" means a thing of the user: "what make is the van"."""
    if any(word in one.value for word in asked.words if word not in one.key):
        return True
    is_of_kind = (
        WHEN.search(asked.text) or WHO.search(asked.text) or re.search(r"\bwhere\b", asked.text, re.I)
    )
    if (
        is_of_kind
        and asked.words
        and all(
            word in _TIMES or is_silent(word) or any(are_same(word, key) for key in one.key)
            for word in asked.words
        )
        and not _THEIRS.search(asked.text)
    ):
        return True  # "When is choir practice?"
    is_short = len(asked.text.split()) <= _FEW_WORDS
    if is_short and is_question(asked.text) and not begins_question(asked.text[:-1]):
        return True  # "Blood type?"
    if is_short and _WHICH.match(asked.text) and not _VERB.search(asked.text):
        return True  # "what size trainers"
    return re.search(r"\b(?:the|this|that)\b", asked.text, re.IGNORECASE) is not None


def _is_one_of(relation: str, relations: frozenset[str]) -> bool:
    return any(is_kind_of(mine, relation) or is_kind_of(relation, mine) for mine in relations)


def names_a_thing(text: str) -> bool:
    """Return whether a message is nothing but the name of a thing of the user's: "my shoe size pls"."""
    return _ONLY_A_THING.fullmatch(in_question(whole(text))) is not None


def words_in(text: str) -> list[str]:
    """Return the words of a text in small letters and American spelling."""
    return [_SPELLINGS.get(word, word) for word in _WORD.findall(text.casefold())]


def asks(text: str) -> bool:
    """Return whether one of the sentences is a question."""
    return any(map(is_question, split_sentences(text, clauses=True)))
