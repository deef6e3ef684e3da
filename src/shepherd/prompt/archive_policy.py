"""Policy of archiving: which messages state something, and which exchanges become memories.

A message is left out only if every clause of it is known to say nothing that lasts, in English, German,
French, Spanish, Italian, Portuguese or Dutch: in doubt it becomes a memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from shepherd._native.text import keywords
from shepherd.claims.judge import plain_facts
from shepherd.claims.material import own_words
from shepherd.claims.statements import assertions
from shepherd.claims.wordings import alternatives, rule
from shepherd.escaping import without_blocks
from shepherd.memory.stop_words import is_filler
from shepherd.prompt.requests import is_bare_request
from shepherd.sentences import is_question, split_sentences
from shepherd.types import Message

__all__ = [
    "archived_answer",
    "asks_to_forget",
    "is_about_oneself",
    "is_refusal",
    "is_statement",
    "is_worth_a_memory",
    "told_as_question",
]


# English only: in other languages such exchanges become memories.
_KNOWS_NOTHING = re.compile(
    r"\b(nothing stored|(don.?t|do not) (know|have|recall|remember)"
    r"|no (information|record|memory)|not sure)\b",
    re.I,
)
# Without words that mean something else elsewhere: "EU", "US", "mes".
_ABOUT_ONESELF = re.compile(
    r"\b(?:I|me|my|mine|we|(?-i:[Uu]s)|our|ours|ich|mich|mir|mein\w*|wir|uns|unser\w*"
    r"|yo|mis?|mío|mía|nosotr[oa]s|nuestr\w+|soy|estoy|tengo|puedo|debo|d[oó]nde (?:vivo|trabajo)"
    r"|je|moi|mon|nous|notre|mio|mia|miei|noi|nostr\w+|meus?|minhas?|nós|noss\w+|ik|mij|mijn|wij|onze)\b"
    r"|\bj'\w|私|僕|俺|わたし|ぼく|[我咱]|ฉัน|ผม",
    re.I,
)
# As the bundled model declines, with the command that gets another one.
_BUNDLED = re.compile(
    r"\s*i'm only the (?:small built-in|bundled demo) model and can't help with that[;.][^\n]*$",
    re.IGNORECASE,
)
# As it takes note of a statement, except for a code.
_NOTED = re.compile(
    r"\s*i'm sorry to hear that\.(?: i'll remember it\.)?\s*$"
    r"|\s*i'll remember that they said so\.\s*$"
    r"|\s*(?:i'll (?:remember that|keep that in mind), but )?i can't set reminders, alarms or timers[^\n]*$"
    r"|\s*i'll remember that\. i'm only the bundled demo model and couldn't read it\.[^\n]*$"
    r"|\s*i can't forget something just because you ask me to\.[^\n]*$"
    r"|\s*i'll remember that, but not [^\n]{1,200}: it may be a code[^\n]*$"
    # Where people help, in reply to a cry for help.
    r"|\s*i'm so sorry[^\n]{1,400}findahelpline\.com[^\n]*$"
    r"|\s*i'm only a program and can't call anybody\.[^\n]*$",
    re.IGNORECASE,
)
_LONGEST_SHORT = 200  # characters; a longer answer adds something
_MOST_WORDS = 4096
# A longer message says something, whatever it begins with.
_LONGEST_SMALL_TALK = 400
# Characters. A longer message holds material: what is told about it stands before or behind. A server's other
# requests wait while a pattern is searched for, and in two million characters that took seconds.
_LONGEST_READ = 20_000

_CLAUSE_END = re.compile(
    r"[,;:!?\u2026\u2013\u2014()\[\]\"\u201c\u201d]+|\.+(?=\s|$)|\s[-/]+\s|(?<=\s)(?:but|aber|mais|pero|ma|mas|maar)\s"
)
_EDGE = " -.'\n\t"
# "what car do i drive": a question whose mark was left out. "Remind me what we said".
_BE = r"(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|should|must)"
_SUBJECT = r"(?:i|you|we|he|she|it|they|my|our|your|his|her|their|the|this|that|a|an)\b"
_SUBJECT_DE = r"(?:ich|wir|mein\w*|unser\w*|sein\w*|ihr\w*|der|die|das)\b"
_ONCE_MORE = r"(?:\s+(?:noch ?mal|noch einmal|denn|eigentlich|gleich|noch|jetzt|wieder))*"
_ASKED = re.compile(
    rf"(?:(?:what|which|whose|who|how)(?:\s+(?!{_SUBJECT}|\w+ed\b)\w+){{0,3}}?|when|where|why)"
    rf"(?:'s|\s+{_BE})\s+(?!an?\b|it\b){_SUBJECT}"
    r"|(?:(?:does|did|is|are|am|was|were|has)\s+(?:i|we|my|our)|(?:do|have)\s+(?:i|we))\s+\w"
    r"|wie\s+(?:alt|groß|hoch|lange?|oft|viele?|weit|schwer|teuer)(?:\s+\w+)?\s+(?:ist|sind|bin|war|waren|hat|haben|habe|kostet)"
    rf"{_ONCE_MORE}\s+{_SUBJECT_DE}"
    r"|(?:wo|wohin|woher|wann|warum|wieso|wer|wen|wem|was|wie|welche[rsmn]?\s+\w+)\s+(?!immer\b|auch\b|gesagt\b|ich\b)\w+"
    rf"{_ONCE_MORE}\s+{_SUBJECT_DE}"
    r"|a?donde\s+\w+\s*$|(?:a?dónde|cuándo|cuál(?:es)?|quién(?:es)?|cuánt[oa]s|por\s+qué|cómo\s+se)\s+\w+"
    r"(?=\s*$|\s+(?:yo|mi|mis|nuestr\w+|el|la|los|las)\b)"
    r"|recuérdame\s+(?:otra\s+vez\s+)?(?:qué|quién|cuándo|dónde|cómo|cuál|por\s+qué)\b"
    r"|(?:please\s+)?(?:remind|tell|show)\s+me\s+(?:again\s+)?(?:what|who|when|where|how|which|why|of|about)\b"
    r"|i\s+(?:forgot|forget|can't\s+(?:recall|remember))\s+(?:what|who|when|where|how|which|why)\b",
    re.IGNORECASE,
)
# Behind the clause that asks for it: "Forget my old number, it is 0777 now" tells, and "Forget my name, and
# my address" goes on. A colon gives what is to be forgotten.
_NEXT_CLAUSE = re.compile(
    r"(?:\s*[,;(\u2026\u2013\u2014]|\s+-+\s|\.{2,})\s*"
    r"(?:(?:and|but|because|since|as|so|instead|now|actually)\b[\s,]*)*"
    r"|\s(?:and|but)\s+(?:please\s+)?(?=(?:remember|note|keep in mind)\b)",
    re.IGNORECASE,
)
# "My wife lives in Ulm", unlike "my phone numbers and my name".
_VERB = (
    r"(?:is|are|am|was|were|has|have|had|does|do|did|can|could|will|would|should|must|may|might|\w+n't|[a-z]{2,}ed"
    r"|[a-z]{2,}[^s\W]s(?!\s+(?:and|or|too|please|as|of|from|on|for|that|i|we)\b)"
    r"|got|left|went|came|bought|sold|became|died|began|lost|found|made|gave|took|quit)"
)
_TELLS_BESIDE = re.compile(
    r"(?!that\s+(?:i|we|he|she|it|they|my|our|the)\b)"
    rf"(?:(?:i|we|he|she|it|they|there|this|that|these|those|you)(?:'(?:s|m|re|ve|d|ll))?\s+\S"
    rf"|(?:\w[\w-]*\s+){{1,5}}?{_VERB}\s+\S|\w+'s\s+(?:an?|the|not|now|in|at|called|named|my|our|\w+ing)\s"
    r"|(?:please\s+)?(?:remember|note|keep|save|use|call|add|take|put|write|say)\s+\S)",
    re.IGNORECASE,
)
# The same in other languages: "…, meine Frau ist schwanger", unlike "…, was ich gesagt habe".
_TELLS_BESIDE_ELSEWHERE = re.compile(
    r"(?!(?:(?:und|et|y|e|en)\s+)?"
    r"(?:dass|was|wo|der|die|das|que|qui|ce que|lo que|o que|che|ciò|quello|dat|wat)\b|qu')"
    r".*?\b(?:ist|sind|bin|hat|habe|haben|heißt|heiße|wohnt|wohne|lebe|lebt|arbeite|est|sont|suis|j'ai|habite"
    r"|travaille|es|está|estoy|son|soy|tengo|tiene|vivo|vive|trabajo|é|sou|tenho|moro|è|sono|ho|abito|lavoro"
    r"|ik ben|ik heb|woon|heet|werk)\s+\S",
    re.IGNORECASE,
)
# "…, it's wrong", "…, I made it up": reasons that say nothing else.
_REASON = re.compile(
    r"(?:it|that|this|they)(?:'s| is| was|'re| are| were|\s?isn't|\s?wasn't|\s?aren't)"
    r"(?: (?:no longer|not|n't|just|only|all|very|too|so))*"
    r" (?:true|right|correct|wrong|false|outdated|out of date|old|valid|private|personal|secret"
    r"|a mistake|an error|a lie|a joke|a test|none of your business)"
    r"(?: any ?more| anyway| now)?"
    r"|i (?:was|am|'m) (?:wrong|mistaken|lying|(?:only|just) testing)"
    r"|i (?:just )?(?:made (?:it|that|this) up|lied|misspoke)|i(?:'ve| have)? changed my mind"
    r"|i (?:don't|do not|never) (?:want|like|wanted|wish) (?:you|anyone|anybody|it|that|this)\b.*",
    re.IGNORECASE,
)
# Before the comma of a Japanese or Chinese question: "…ですが", "我…".
_TELLS_WIDE = re.compile(
    r"(?:(?:です|ます|でした|ました|ません|たい|ない|だ|た|る|い|な)の?(?:が|けど|けれど|けれども|ので|から|んですが|のですが|んだけど))$|^我"
)
_ASKS_BACK = re.compile(r"\b(?:me|us|more|please|details?|questions?|another|again)\b", re.IGNORECASE)
# Lines for a shell that were typed into the chat: "cd ~/notes; ls -la", "shepherd demo", "clear".
_COMMAND = re.compile(
    r"(?:\$ ?)?(?:sudo )?(?:(?:clear|exit|ls|ll|cd|pwd|top|htop|history)"
    r"|(?:cd|sudo|git|pip3?|apt(?:-get)?|npm|docker|ssh|shepherd|source)(?: [^\s]+){1,12}"
    r"|(?:[.~]{0,2}/|\.?(?:tools|bin|scripts?|venv)/)[\w./~-]+(?: [^\s]+){0,12}"
    r"|[a-z][\w.+-]{0,20}(?: [^\s]+){0,8}? (?:--?[a-z][\w=/-]*|[|]|&&)(?: [^\s]+){0,8})"
)
_PROSE = re.compile(
    r"\b(?:a|an|the|i|i'm|my|me|we|our|you|your|is|are|was|were|he|she|it|they|please|and|or|but|with|for|to|of"
    r"|how|what|why|when|where|who)\b|[.?!]$",
    re.IGNORECASE,
)
_NO_WORD = re.compile(r"[^\w\s'\u2019.,;:!?-]|(?<!\w)[:;=]-?[)(DPpoO/|]+")


def is_refusal(answer: str) -> bool:
    """Return whether an answer says only that the assistant cannot or will not help."""
    if _BUNDLED.match(_straight(answer)):
        return True
    return len(answer) <= _LONGEST_SHORT and not any(
        _says_something(sentence, _refusal()) for sentence in split_sentences(_straight(answer))
    )


def archived_answer(answer: str) -> str:
    """Return the part of an answer that is archived with a statement: nothing of a refusal or of "noted"."""
    return "" if is_refusal(answer) or _NOTED.match(_straight(answer)) else answer.strip()


# Facts of requests, which are no memories: how to answer, and how somebody is to be called.
_FACTS_ALONE = ("instructions", "name", "pronouns")


def is_statement(text: str) -> bool:
    """Return whether a message has a sentence, not a question, that says more than small talk and requests.

    "My husband's name" alone asks, and "4" says nothing by itself.
    A task with its material ("Translate: my name is Peter") states nothing, nor does what is taken back.
    "Give me a recipe, I'm vegan" is a statement, and so is "I'm vegan, is there a recipe?".
    Of a very long message, its beginning and its end count.
    """
    text = _straight(_ends_of(without_blocks(text)))
    if is_bare_request(text) or rule("taken back").search(text) or not any(map(str.isalpha, text)):
        return False
    # One "for example" in a long message unsays that sentence, and no other.
    meant = [one for one in split_sentences(text, clauses=True) if not rule("not meant").search(one)]
    text = "\n\n".join(filter(None, map(_told_beside_forgetting, meant)))
    # "You're right, I live in Ulm" gives the assistant no role.
    if not (own_words(text) or own_words(_without_small_talk(text))):
        return False
    sentences = split_sentences(text, clauses=True)
    if any(map(told_as_question, sentences)):
        return True
    if any(_says_something(_told_before(one) if is_question(one) else one) for one in sentences):
        return True
    # The name in "Where does my sister Zoe live?" is learned, but the message only asks.
    if rule("first person").search(text):
        return any(not one.in_question for one in assertions(text))
    # "Give me opera any day" has the form of a request.
    return any(fact.key not in _FACTS_ALONE and not fact.assertion.in_question for fact in plain_facts(text))


def is_about_oneself(text: str) -> bool:
    """Return whether a text has a word for its author: "me", "mein", "yo"."""
    return _ABOUT_ONESELF.search(_straight(text)) is not None


def _ends_of(text: str) -> str:
    if len(text) <= _LONGEST_READ:
        return text
    half = _LONGEST_READ // 2
    return f"{text[:half]}\n\n{text[-half:]}"


def asks_to_forget(text: str) -> bool:
    """Return whether a message begins with the request to forget something: "Forget my address"."""
    return _request_to_forget().match(_straight(text)) is not None


@cache
def _request_to_forget() -> re.Pattern[str]:
    """Return the pattern of a request to forget what was told, with the beginning of what that is.

    "Vergiss meinen Geburtstag nicht" asks for the opposite, and "Delete the last line" for work on a text.
    """
    lead = rf"(?:(?:{alternatives('polite')}|{alternatives('before a request to forget')})[\s,!]+)"
    asks = rf"(?:{alternatives('to forget')}|{alternatives('not to remember')})(?!\w)"
    aside = rf"(?:[\s,]+{alternatives('beside the verb')}(?!\w))*"
    mine = rf"{alternatives('mine')}\s+{alternatives('thing of mine')}"
    what = rf"(?:{alternatives('what to forget')}|{mine})"
    please = r"(?:bitte\s+|alsjeblieft\s+)?"
    before = rf"{please}{alternatives('what to forget, before the verb')}\s+{please}"
    last = rf"{before}{alternatives('to forget, at the end')}(?=\W*$|,)"
    return re.compile(rf"\W*(?:{lead}*{asks}{aside},?\s+{what}|{lead}+{last})", re.IGNORECASE)


def _only_asks_to_forget(text: str) -> bool:
    """Return whether a message asks to forget something, and tells nothing besides."""
    return any(map(asks_to_forget, split_sentences(text))) and not is_statement(text)


def _told_beside_forgetting(sentence: str) -> str:
    """Return a sentence without what it asks to forget: "I moved" of "Forget my address, I moved"."""
    asks = _request_to_forget().match(sentence)
    if asks is None:
        return sentence
    for mark in _NEXT_CLAUSE.finditer(sentence, asks.end()):
        told = sentence[mark.end() :].strip(_EDGE)
        tells = _TELLS_BESIDE.match(told) or _TELLS_BESIDE_ELSEWHERE.match(told)
        if tells and not _REASON.fullmatch(told):
            return told
    return ""


def told_as_question(sentence: str) -> str:
    """Return what the user tells as a question: "my sister lives in Rome" of "Did you know …?"."""
    plain = _straight(sentence)
    begin = rule("told as a question", begins=True).match(plain)
    told = plain[begin.end() :].strip(f"{_EDGE}?!,") if begin else ""
    return told if rule("first person", begins=True).match(told) and _TELLS_BESIDE.match(told) else ""


def _told_before(question: str) -> str:
    """Return what the user tells before a question: "I swim at six" of "I swim at six, any tips?"."""
    told, comma, _ = question.partition(",")
    begins = rule("first person", begins=True).match(told)
    if comma and begins and len(told.split()) > 2:
        return told
    told, comma, _ = question.rpartition("、") if "、" in question else question.rpartition("\uff0c")
    return told if comma and _TELLS_WIDE.search(told) else ""


def _says_something(sentence: str, *others: re.Pattern[str]) -> bool:
    """Return whether a clause says something; what one of `others` matches as a whole does not either."""
    if is_filler(sentence, keywords(sentence)):
        return False
    if len(sentence) > _LONGEST_SMALL_TALK:
        return True
    is_asked = False
    clauses = [clause.strip(_EDGE) for clause in _CLAUSE_END.split(_NO_WORD.sub(" ", sentence))]
    for whole in filter(None, clauses):
        said = _without_small_talk(whole)
        nothing = (rule("asides"), *others)
        if not said or is_filler(said, keywords(said)) or _is_any(nothing, whole) or _is_any(nothing, said):
            continue
        if sum(map(bool, clauses)) == 1 and _ASKED.match(said):
            is_asked = True
            continue
        asked = _request().match(said)
        # "Use vinegar" is advice in an answer, and "tell me more" is not.
        if asked and others and not _ASKS_BACK.search(said):
            asked = None
        tells = rule("first person").search(said, asked.end() if asked else 0) is not None
        if not tells and (asked or (len(clauses) == 1 and rule("questions", begins=True).match(said))):
            is_asked = True
        elif not is_asked or tells or _other().match(said):
            return True
    return False


def _without_small_talk(clause: str) -> str:
    """Return what is left of a clause behind the words of small talk at its beginning."""
    begin = _small_talk().match(clause)
    return clause[begin.end() :].strip(_EDGE) if begin else clause


def _is_any(patterns: Iterable[re.Pattern[str]], clause: str) -> bool:
    return any(pattern.fullmatch(clause) for pattern in patterns)


def _straight(text: str) -> str:
    return text.replace("\u2019", "'")


@cache
def _small_talk() -> re.Pattern[str]:
    return re.compile(rf"(?:{alternatives('small talk')}(?![\w'])[\s,.!]*)+", re.IGNORECASE)


@cache
def _refusal() -> re.Pattern[str]:
    return re.compile(rf"(?:{alternatives('refusals')}(?:$|\s+(?:but|and|that)\s*|\s+))+", re.IGNORECASE)


@cache
def _other() -> re.Pattern[str]:
    return re.compile(rf"{alternatives('others')}\s+\S+\s+\S", re.IGNORECASE)


@cache
def _request() -> re.Pattern[str]:
    """Return the pattern of a clause that begins with a request to the assistant."""
    tasks = "|".join(map(alternatives, ("work on a text", "invention", "requests")))
    object_ = rf"(?=\s+{alternatives('objects')}(?!\w)|\s*$)"
    before = rf"(?:(?:{alternatives('polite')}|{alternatives('for the assistant')})[,!]?\s+)*"
    return re.compile(
        rf"{before}(?:(?:{tasks})(?!\w){object_}|{alternatives('requests in other languages')}(?!\w))"
        rf"|{alternatives('wanted things')}(?!\w)|i\s+want\s+you\s+to\s",
        re.IGNORECASE,
    )


def is_command_line(text: str) -> bool:
    """Return whether a message is a line for a shell, typed into the chat by mistake."""
    line = text.strip()
    return "\n" not in line and _COMMAND.fullmatch(line) is not None and not _PROSE.search(line)


def is_worth_a_memory(user: Message, answer: str, others: Iterable[Message] = ()) -> bool:
    """Return whether an evicted exchange says something that memory lacks.

    `others` are other messages of the conversation; only those of the user count.

    A message without a word of its own ("who am I?", "go on") does not: it would be found in place of the
    memory that it asks for.
    A question or a request with a short answer does not, if the answer repeats the message and its recalled
    lines, knows nothing, refuses, or is about the user: the model knows that from the user alone, and a later
    recall would find its mistakes instead of the user's own words. Nor does it if the answer adds only a name
    that the user has told in another message. Nor does an answer out of the user's documents: they answer
    again, and a memory of it would outlast a change of them.
    """
    raw = without_blocks(user.raw)
    if is_filler(raw, keywords(raw)) or is_command_line(raw):
        return False
    if is_statement(raw):
        return True
    # A later recall would find what is to be forgotten.
    if _only_asks_to_forget(raw):
        return False
    if is_refusal(answer) or not _has_topic(raw) or _comes_from_passages(user, answer):
        return False
    is_asked = any(map(_asks, split_sentences(raw, clauses=True)))
    if not is_asked or len(answer) > _LONGEST_SHORT:
        return True
    if is_about_oneself(raw) or _KNOWS_NOTHING.search(answer):
        return False
    added = frozenset(keywords(answer)) - _words_read(user)
    return bool(added) and not _is_name_told(added, frozenset(keywords(raw)), others)


def _asks(sentence: str) -> bool:
    """Return whether a sentence is a question, with its mark or without: "where do I live again"."""
    said = _without_small_talk(_straight(sentence).strip(_EDGE))
    return is_question(sentence) or _ASKED.match(said) is not None


def _words_read(user: Message) -> frozenset[str]:
    """Return the keywords of a message as the model read it: later, its lines may have been stripped."""
    tail = user.injected.tail if user.injected is not None else ""
    return frozenset(keywords(f"{user.sent}\n{tail}", _MOST_WORDS))


def _is_name_told(added: frozenset[str], asked: frozenset[str], messages: Iterable[Message]) -> bool:
    """Return whether a message of the user plainly states that what is asked about has this name."""
    for message in messages:
        if message.role != "user" or len(message.raw) > _LONGEST_READ:
            continue
        for fact in plain_facts(without_blocks(message.raw)):
            about = frozenset(keywords(fact.assertion.topic))
            if fact.key.endswith("_name") and about and about <= asked and added <= set(keywords(fact.value)):
                return True
    return False


def _comes_from_passages(user: Message, answer: str) -> bool:
    """Return whether most words of an answer stand in the passages of documents that its message shows."""
    if user.injected is None or not user.injected.passages:
        return False
    said = frozenset(keywords(answer, _MOST_WORDS))
    return 2 * len(said & _words_read(user)) >= len(said)


def _has_topic(text: str) -> bool:
    """Return whether a message asks about something, and does not only greet, go on or refuse."""
    for sentence in split_sentences(_straight(text), clauses=True):
        whole = sentence.rstrip("?!. ")
        said = _without_small_talk(whole)
        if said and not _is_any((rule("asides"),), whole) and not _is_any((rule("asides"),), said):
            return True
    return False
