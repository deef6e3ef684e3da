"""Judge of the bundled model's sentences: which forms it may use, and where its words come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from shepherd._native.text import STOP_WORDS, keywords
from shepherd.claims.keys import canonical_key, is_about, words_of
from shepherd.claims.speakers import sentences_with_speakers
from shepherd.prompt.asked_facts import words_in
from shepherd.prompt.concepts import are_related, content_words
from shepherd.prompt.fact_kinds import tells_name_asked_for
from shepherd.prompt.questions import asks_for_no_place
from shepherd.sentences import is_question, split_sentences
from shepherd.turn.claimed import Claimed
from shepherd.turn.fact_sentences import fact_clause
from shepherd.turn.quotation import repeats, without_attached
from shepherd.turn.subjects import names_a_person
from shepherd.types import Fact, Message

__all__ = [
    "ACKNOWLEDGED",
    "DECLINED",
    "DENIES",
    "FIXED_WORDS",
    "KEPT_FOR_NOW",
    "LIST",
    "NOTHING_STORED",
    "SEEN",
    "UNKNOWN",
    "Judge",
    "Sources",
    "states",
]

ACKNOWLEDGED = "Nice, I'll remember that."
UNKNOWN = "I don't know that."
NOTHING_STORED = "I have nothing stored about that."
SEEN = "I see."
KEPT_FOR_NOW = "Nice, I'll keep that in mind for this conversation."
LIST = "This is what I know:"
DECLINED = (
    "I'm only the small built-in model and can't help with that; "
    "get a full one with `shepherd model pull` or use --model FILE."
)
_FIXED = (
    ACKNOWLEDGED,
    NOTHING_STORED,
    UNKNOWN,
    SEEN,
    KEPT_FOR_NOW,
    "Hello! How can I help you?",
    "Hello!",
    "You're welcome!",
    "Goodbye!",
    "I'm Shepherd's small built-in model: I remember what you tell me and answer from it.",
    DECLINED,
)
# Forms of answers, and more words for what they are about. {v} is the value, {k} the thing that has it.
_FORMS = (
    ("nice to meet you {v}", "name"),
    # A model that is trained to quote does it like this.
    ("your notes say {v}", ""),
    ("you said {v}", ""),
    ("{k} is {v} years old", "age"),
    ("{k} is allergic to {v}", "allergy"),
    ("{k} works as an? {v}", "job"),
    ("{k} lives in {v}", "location"),
    ("{k} s birthday is {v}", "birthday"),
    ("your {k} (?:is|are) called {v}", "name"),
    ("your {k} works as an? {v}", "job"),
    ("your {k} lives in {v}", "location"),
    ("your {k} is allergic to {v}", "allergy"),
    ("your {k} (?:leaves at|is due) {v}", ""),
    ("your {k} is {v} years old", "age"),
    ("your {k} (?:is|are) {v}", ""),
    ("you live in {v}", "location"),
    ("you work as an? {v}", "job"),
    ("you work at {v}", "employer"),
    ("you are {v} years old", "age"),
    ("you are {v} tall", "height size tall how"),
    ("you are allergic to {v}", "allergy"),
    ("you are from {v}", "origin hometown birthplace nationality"),
    ("you are (?:reading|learning|working on) {v}", "reading book learning project"),
    ("you drive an? {v}", "car"),
    ("you speak {v}", "language"),
    ("you play the {v}", "plays instrument"),
    ("you went to {v}", "school"),
    ("you program in {v}", "programming language coding"),
    ("you have {v} (?:children|kids)", "children kids number"),
    ("you have {v} {k}", "number"),
    ("you get up at {v}", "wake up time gets alarm"),
    ("you support {v}", "team supports football"),
    ("you lent your {k} to {v}", ""),
    ("you want to (?:buy|travel to|give(?: {k})??) {v}", "likes"),
    ("you parked {v}", "parked car"),
    (
        "you (?:like|love|prefer|dislike|hate|use|enjoy|want|own|need|choose|recommend) {v}",
        "likes dislikes prefers uses hobby favorite",
    ),
)
# Things that an answer can name though nobody else did.
_NOUNS = frozenset(
    (
        *(
            "name",
            "nickname",
            "first",
            "last",
            "birthday",
            "age",
            "email",
            "address",
            "phone",
            "number",
            "job",
        ),
        *("favorite", "color", "hobby", "shoe", "size", "editor", "operating", "system", "diet", "children"),
    )
)
_LONGEST_THING = 6  # words
_SHORTEST_PHONE = 4  # digits, of an extension
_NO_THING = frozenset(
    (
        *("am", "are", "be", "can", "did", "do", "does", "has", "have", "i", "is"),
        *("it", "me", "was", "we", "were", "what", "when", "where", "which", "who", "will", "you"),
    )
)
# "Your children are called Mia who": a value that was copied too far.
_UNFINISHED = frozenset(("and", "but", "is", "or", "the", "which", "who", "whose", "with"))
DENIES = re.compile(
    r"\b(?:no longer|not|never|any ?more|used to|formerly|former|ex|left|quit|stopped|without)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)
_WISHES = frozenset(
    ("want", "wish", "hope", "plan", "dream", "travel", "visit", "buy", "give", "gift", "present")
)
# Names of several things, of which "is" cannot be said.
_SEVERAL = frozenset(
    ("pets", "siblings", "children", "grandchildren", "kids", "hobbies", "allergies", "languages")
)
_ASKING = frozenset(("how", "what", "when", "where", "which", "who", "whose"))
_OTHER_TIME = frozenset(("before", "was", "were", "did", "used", "previously", "ago", "formerly"))
# "Where does Ida live?" is not answered by "You live in Ulm".
_ABOUT_THE_USER = re.compile(r"you\b(?! said\b| have\b)", re.IGNORECASE)
_OWN = frozenset(("i", "my", "me", "mine", "myself", "m", "we", "our", "us", "am"))
_MYSELF = _OWN - {"my", "our"}
# "What colour is my car?", "What is my car's price?": of the car something else is asked than the car itself.
_ATTRIBUTE = re.compile(
    r"\b(?:what|which) (\w+) (?:is|are|was|has|does) (?:my|our)\b|\bthe (\w+) of (?:my|our)\b"
    r"|\bmy \w+['\u2019]s (\w+)",
    re.IGNORECASE,
)
# Words of keys such as lives_with that tell nothing of what it is.
_LINKS = frozenset(("with", "at", "in", "of", "to", "for", "from", "on"))
_FEW_WORDS = 3
# Words between a number and what it is the number of.
_MOST_BETWEEN = 2
_PART = re.compile(r"[,;:.] ")
# "What type of guitar?" says nothing of a blood type.
_GENERAL = frozenset(("type", "kind", "sort", "group", "thing", "user", "assistant"))
_FACTS = re.compile(r"^\[facts: .*$", re.MULTILINE)
_KNOWLEDGE = "=== KNOWLEDGE ==="
_GAP = re.compile(r"[^\w\s]+|_+")
_LONGEST_GAP = 3
# Markers of the blocks of a tail, which say nothing.
_MARKERS = re.compile(
    r"^=== [\w ]+ ===$|^Source: |^\[(facts|context|the user's instructions): |(?<!\S)User: |^Assistant: "
    r"|`{3,}",
    re.MULTILINE,
)
_PAIR = re.compile(r"([^=]+)=(.+)")
# Another name of the same list.
_ENDED = re.compile(r"\(\w+ is no longer ([^()]{1,400})\)")
_AGE = r"(?: \(\d{1,3}\))?"
_NAME_BEFORE = rf"[A-ZÀ-Þ][\w'-]*{_AGE}(?:,|,? and| &) "
_NAME_BEHIND = rf"{_AGE}(?:,|,? and| &) (?=[A-ZÀ-Þ][\w'-])"
_ANDS = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


class Sources:
    """Words of a conversation that an answer can quote, and the facts of its tail."""

    def __init__(self, messages: Sequence[Message], facts: Sequence[Fact]) -> None:
        text = "\n".join(_MARKERS.sub(" ", message.sent) for message in messages)
        self._text = text
        words = words_in(text)
        self._words = frozenset(words)
        self._joined = f" {' '.join(words)} "
        # Without documents, of which a word alone says nothing.
        told = (one.raw + one.sent.removeprefix(one.content).partition(_KNOWLEDGE)[0] for one in messages)
        self._told = f" {' '.join(words_in(_MARKERS.sub(' ', ' '.join(told))))} "
        self.known = tuple(facts)
        self.facts = {fact.key: fact.value for fact in facts}
        asked = next((one for one in reversed(messages) if one.role == "user"), None)
        # In an attached document, "I" and "my" mean its author; it is quoted instead.
        texts = (without_attached(one.sent.removeprefix(one.raw if one is asked else "")) for one in messages)
        self._others = [_MARKERS.sub("\n", _FACTS.sub("", text)) for text in texts]
        # "(employer is no longer Shell)"
        self.ended = frozenset(" ".join(words_in(value)) for value in _ENDED.findall(text))
        self._before = [one.raw for one in messages if one.role == "user" and one is not asked]
        self._lines: list[str] | None = None
        self._keys_of: dict[str, list[str]] = {}
        for fact in facts:
            self._keys_of.setdefault(" ".join(words_in(fact.value)), []).append(fact.key)

    def has_word(self, word: str) -> bool:
        """Return whether a word, or its singular, occurs."""
        return word in self._words or word.removesuffix("s") in self._words or f"{word}s" in self._words

    def has_beginning(self, letters: str) -> bool:
        """Return whether a word begins like this."""
        return f" {letters}" in self._joined

    def quotes(self, words: Sequence[str], *, is_whole: bool = False) -> bool:
        """Return whether these words follow each other; if they are all, not in a document alone."""
        quote = " ".join(words)
        if not quote:
            return False
        if is_whole and len(words) <= _FEW_WORDS and f" {quote} " in self._joined:
            return f" {quote} " in self._told
        # Languages without blanks between words have no words of their own.
        return f" {quote} " in self._joined or (not quote.isascii() and quote in self._joined)

    def is_said_of(self, value: Sequence[str], words: Collection[str]) -> bool:
        """Return whether a sentence with this value, or one beside it, has one of the words.

        Neither the facts nor the question are meant.
        """
        quote = f" {' '.join(value)} "
        lines = self.lines()
        for n in range(len(lines)):
            near = " ".join(lines[max(0, n - 1) : n + 2])
            if quote in f" {' '.join(words_in(near))} " and not set(words).isdisjoint(keywords(near)):
                return True
        return not words

    def is_told(self, claimed: Claimed) -> bool:
        """Return whether a sentence with a value, if any has it, tells it of those of whom it is claimed."""
        quote = f" {' '.join(claimed.value)} "
        lines = [line for line in (*self.lines(), *self._typed()) if quote in f" {' '.join(words_in(line))} "]
        return not lines or any(map(claimed.is_told_by, lines))

    def counts(self, value: Sequence[str], things: Collection[str]) -> bool:
        """Return whether a number stands beside what it counts: "2 small kids", "my fish are 56"."""
        stems = content_words(" ".join(things))
        n = len(value)
        for words in map(words_in, (part for line in self.lines() for part in _PART.split(line))):
            for at in range(len(words) - n + 1):
                if words[at : at + n] != list(value):
                    continue
                beside = words[at + n : at + n + _MOST_BETWEEN + 1]
                if words[max(0, at - 1) : at] in (["is"], ["are"]):
                    beside += words[max(0, at - _MOST_BETWEEN - 1) : at - 1]
                near = content_words(" ".join(beside))
                if any(are_related(word, stem) for word in near for stem in stems):
                    return True
        return False

    def is_told_of(
        self,
        value: Sequence[str],
        stems: Collection[str],
        *,
        of_all: bool,
        by_owner: bool = False,
        tells: Callable[[str], bool] | None = None,
    ) -> bool:
        """Return whether a sentence with this value has one of the stems (or all), or words for the same.

        With `by_owner`, a sentence that isn't from the current message must also say whose thing it is: "that
        sign looks serious" tells of nobody's sign. Only sentences count of which `tells` is true.
        """
        quote, own = f" {' '.join(value)} ", set(content_words(" ".join(value)))
        recalled = (line for line in self.lines() if not (by_owner and _OWN.isdisjoint(words_in(line))))
        for line in (*recalled, *self._typed()):
            if quote in f" {' '.join(words_in(line))} ":
                said = set(content_words(line)) - own - _GENERAL
                found = {stem: {word for word in said if are_related(word, stem)} for stem in stems}
                # One word doesn't stand for two.
                n_found = len(set().union(*found.values())) if all(found.values()) or not of_all else 0
                if n_found >= (len(found) if of_all else 1) and (tells is None or tells(line)):
                    return True
        return False

    def is_denied(self, value: Sequence[str]) -> bool:
        """Return whether these words were last said to hold no longer: "I no longer live in Ulm".

        What the user said in the conversation is in order, unlike what was recalled.
        """
        quote = f" {' '.join(value)} "
        typed = [line for line in self._typed() if quote in f" {' '.join(words_in(line))} "]
        if typed:
            return DENIES.search(typed[-1]) is not None
        if " ".join(value) in self.ended:
            return True
        said = [line for line in self.lines() if quote in f" {' '.join(words_in(line))} "]
        return bool(said) and all(map(DENIES.search, said))

    def tells_ended(self, text: str) -> bool:
        """Return whether a text has a value that a remark behind a memory says to have ended."""
        words = f" {' '.join(words_in(text))} "
        return any(f" {value} " in words for value in self.ended)

    def _typed(self) -> list[str]:
        """Return the sentences that the user typed before the question, the oldest first."""
        return [line for text in self._before for line in sentences_with_speakers(text)]

    def lines(self) -> list[str]:
        """Return the sentences of all messages but the question, without facts and attached documents."""
        if self._lines is None:
            self._lines = [line for text in self._others for line in sentences_with_speakers(text)]
        return self._lines

    def is_part_of_list(self, value: Sequence[str]) -> bool:
        """Return whether these words are said only beside other names: "Mia" of "Mia, Ben and Ida"."""
        text = r"\W+".join(map(re.escape, value))
        said = re.findall(rf"({_NAME_BEFORE})?\b((?i:{text}))\b({_NAME_BEHIND})?", self._text)
        return bool(said) and all(name[:1].isupper() and (before or behind) for before, name, behind in said)

    def has_gap(self, gap: str) -> bool:
        """Return whether this punctuation occurs."""
        return gap in self._text

    def keys_of(self, value: Sequence[str]) -> list[str]:
        """Return the keys of the facts that have this value; none if it is said elsewhere, too."""
        quote = " ".join(value)
        keys = self._keys_of.get(quote, [])
        return keys if self._joined.count(f" {quote} ") <= len(keys) else []


_PARTICLES = [[word] for word in ("of", "de", "du", "da", "do", "del", "della", "di", "von", "van", "der")]


@dataclass(slots=True)
class Judge:
    """Judges sentences of an answer to the message `asked`."""

    sources: Sources
    asked: str
    _most_sentences: int = field(init=False)

    def __post_init__(self) -> None:
        self._most_sentences = max(
            1, len(split_sentences(self.asked, clauses=True)) + len(_ANDS.findall(self.asked))
        )

    def accepts(self, sentence: str, said: Sequence[str]) -> bool:
        """Return whether a sentence can follow what was said."""
        whole = [*said, sentence]
        if "\ufffd" in sentence or sentence in said or repeats(whole):
            return False
        if words_in(" ".join(whole)) in FIXED_WORDS:
            return True
        continues = bool(said) and self._continues(said[-1], sentence)
        if len(said) >= self._most_sentences and not continues:
            return False
        if words_in(sentence) in FIXED_WORDS:
            return True
        if any(len(gap) > _LONGEST_GAP and not self.sources.has_gap(gap) for gap in _GAP.findall(sentence)):
            return False
        words = words_in(sentence)
        if sentence.startswith(LIST) or continues:
            return True
        if self.sources.tells_ended(sentence):
            return False
        if _ABOUT_THE_USER.match(sentence) and self._asks_of_others():
            return False
        return self.sources.quotes(words, is_whole=True) or any(
            self._fits(words, *form) for form in _COMPILED
        )

    def _asks_of_others(self) -> bool:
        """Return whether nothing is asked of the user: "Where does Ida live?", "Where does my wife live?"."""
        asked = words_in(self.asked)
        is_theirs = _MYSELF.isdisjoint(asked) and any(map(names_a_person, asked))
        return is_question(self.asked) and (_OWN.isdisjoint(asked) or is_theirs)

    def can_begin(self, text: str, said: Sequence[str]) -> bool:
        """Return whether text can be the beginning of a sentence: it was cut off."""
        words = words_in(text)
        if "\ufffd" in text or repeats([*said, text]) or len(said) >= self._most_sentences or not words:
            return False
        is_known = all(word in _REPLY_WORDS or self.sources.has_word(word) for word in words[:-1])
        last = words[-1]
        return is_known and (
            self.sources.has_beginning(last) or any(word.startswith(last) for word in _REPLY_WORDS)
        )

    def listed(self, sentence: str) -> str:
        """Return the list of all that is known with its true entries, "" if there is none."""
        entries: list[str] = []
        facts = {key.casefold(): value for key, value in self.sources.facts.items()}
        for entry in _entries(sentence.removeprefix(LIST)):
            pair = _PAIR.fullmatch(entry)
            if pair and words_in(facts.get(pair[1].strip().casefold(), "")) == words_in(pair[2]):
                longer = f"{LIST} {', '.join([*entries, entry])}."
                if entry not in entries and not repeats([longer]):
                    entries.append(entry)
        return f"{LIST} {', '.join(entries)}." if entries else ""

    def first_clause(self, sentence: str) -> str:
        """Return the part before the first comma as a sentence, if it ends with the value of a fact."""
        clause, comma, _ = sentence.partition(",")
        words = words_in(clause)
        is_fact = bool(comma) and any(self.sources.keys_of(words[n:]) for n in range(1, len(words)))
        return f"{clause}." if is_fact else ""

    def _continues(self, before: str, sentence: str) -> bool:
        """Return whether a sentence goes on with a quotation, such as of a value with a full stop in it."""
        return self.sources.quotes([*words_in(before)[-1:], *words_in(sentence)])

    def _fits(self, words: Sequence[str], form: re.Pattern[str], about: str) -> bool:
        found = form.fullmatch(" ".join(words))
        if found is None:
            return False
        groups = found.groupdict()
        thing, value = (groups.get("k") or "").split(), groups["v"].split()
        if not all(word in _NOUNS or self.sources.has_word(word) for word in thing):
            return False
        # "Your hotel do we stay is …": words of the question that name no thing.
        if not _NO_THING.isdisjoint(thing):
            return False
        if self._is_odd(words, thing, about, groups["v"]):
            return False
        # "Where did I live before Berlin?" is not answered by what the question names, nor is "How do I get
        # the ferry to Bardsey?" by "Your ferry leaves at Bardsey".
        asked = set(words_in(self.asked))
        says_nothing = asked.issuperset(thing) and not asked.isdisjoint(_ASKING)
        is_repeated = asked.issuperset(value) and (says_nothing or not asked.isdisjoint(_OTHER_TIME))
        counts = "children" if about.startswith("children") else ""
        claimed = Claimed(words, thing, value, about)
        # "Do I live in a flat?" is not answered by the town.
        is_beside = not asked.intersection(value) and asks_for_no_place(self.asked)
        is_bad = is_beside or is_repeated or value[-1] in _UNFINISHED or claimed.is_of_today(self.asked)
        if is_bad or not tells_name_asked_for(self.asked, counts, groups["v"], is_name=about == "name"):
            return False
        keys = self.sources.keys_of(value)
        said = " ".join((*words_in(self.asked), *thing, *words[: len(words) - len(value)], about))
        if not self.sources.quotes(value):
            return False
        known = [fact.key for fact in self.sources.known if words_in(fact.value)[: len(value)] == value]
        # "You went to University." is no part of "University of Hull".
        if not keys and any(_goes_on_behind(fact.value, value) for fact in self.sources.known):
            return False
        # "Your brother lives in Tom": `brother` says who that is, and not where.
        if about not in ("", "name") and any({*thing, "name"}.issuperset(words_in(key)) for key in known):
            return False
        if keys:
            return any(self._says_of(said, key, claimed) for key in keys)
        if any(self._says_of(said, key, claimed) for key in known):
            return True
        if STOP_WORDS.issuperset(value) or self.sources.is_part_of_list(value):
            return False
        if not "".join(value).isdigit():
            return self._is_backed(claimed)
        is_told = not known and self.sources.is_told(claimed)
        return is_told and self._is_number_of(value, thing, about)

    def _is_number_of(self, value: Sequence[str], thing: Sequence[str], about: str) -> bool:
        """Return whether a number is told of the thing; alone, it may be said of anything.

        "45, divorced, two kids" has no number of children.
        """
        if about.startswith("children") or about == "number":
            return self.sources.counts(value, thing or ("children", "kids"))
        things = {*keywords(" ".join(word for word in thing if word not in _NOUNS))} - STOP_WORDS
        # "Your mortgage end is 14,200" is wrong if only the joiner's price is known.
        if any(not self.sources.is_said_of(value, [word]) for word in things):
            return False
        about_it = {*keywords(self.asked), *keywords(" ".join(thing))} - STOP_WORDS
        return self.sources.is_said_of(value, about_it)

    def _is_odd(self, words: Sequence[str], thing: Sequence[str], about: str, value: str) -> bool:
        """Return whether a sentence is bad English, or says what cannot be: "Your pets is two cats"."""
        if thing[-1:] and thing[-1] in _SEVERAL and f" {thing[-1]} is " in f" {' '.join(words)} ":
            return True
        if words[0] == "your" and not about and self._reads_better("_".join(thing)):
            return True
        if words[0] == "your" and not about and thing and names_a_person(thing[-1]):
            return not self._is_said_to_be(thing, value.split())
        if about == "age" and "birthday" in thing:
            return True
        return "phone" in thing and sum(map(str.isdigit, value)) < _SHORTEST_PHONE

    def _is_said_to_be(self, thing: Sequence[str], value: Sequence[str]) -> bool:
        """Return whether "is" stands between somebody and a value: not for "My dad died in 2019"."""
        text = " ".join(value)
        for fact in self.sources.known:
            if words_in(fact.value)[: len(value)] == list(value):
                clause = " ".join(words_in(fact_clause(fact.key, fact.value)))
                is_name = {*thing, "name"}.issuperset(words_in(fact.key))
                if is_name or f" is {text}" in clause or f" are {text}" in clause:
                    return True
        said = re.compile(rf"\b{re.escape(thing[-1])}(?: \w+){{0,2}}? (?:is|are|s) {re.escape(text)}\b")
        return any(said.search(" ".join(words_in(line))) for line in self.sources.lines())

    def _reads_better(self, key: str) -> bool:
        """Return whether a fact has a sentence of its own: "You are retired", for "Your employment is"."""
        value = self.sources.facts.get(key)
        return value is not None and fact_clause(key, value).startswith("you ")

    def _is_backed(self, claimed: Claimed) -> bool:
        """Return whether what no fact says is told in one sentence with its subject, and not denied."""
        value = claimed.value
        if claimed.is_quoting:
            return not self.sources.is_denied(value)
        if list(claimed.words[:2]) == ["you", "want"]:
            return self.sources.is_said_of(value, _WISHES) and self.sources.is_told(claimed)
        # Every word of the thing counts.
        things = content_words(" ".join(claimed.thing))
        words = things or content_words(claimed.about) or content_words(self.asked)
        is_told = self.sources.is_told_of(
            value, words, of_all=bool(things), by_owner=not claimed.is_by_name, tells=claimed.is_told_by
        )
        return is_told and not self.sources.is_denied(value)

    def _says_of(self, said: str, key: str, claimed: Claimed) -> bool:
        """Return whether a sentence about a thing, with the words of the question, says a fact."""
        asked, thing = words_in(self.asked), claimed.thing
        others = (word for found in _ATTRIBUTE.findall(self.asked) for word in found if word)
        if any(not is_about(other.casefold(), key) and not _names(key, other) for other in others):
            return False
        is_named = all(
            word in _NOUNS or word in asked or is_about(word, key) or _names(key, word) for word in thing
        )
        if not is_named or not _is_about(said, key):
            return False

        def is_told_with(word: str) -> bool:
            return self.sources.is_told_of(claimed.value, [word], of_all=True)

        return claimed.is_told_by_fact(key, self.sources.known, is_told_with)


def states(sentence: str, fact: Fact, n_words: int | None = None) -> bool:
    """Return whether a sentence has the value of a fact, or its first words."""
    value = " ".join(words_in(fact.value)[:n_words])
    return f" {value} " in f" {' '.join(words_in(sentence))} "


def _goes_on_behind(whole: str, value: Sequence[str]) -> bool:
    """Return whether words begin a name that goes on: "University" of "University of Hull"."""
    words = words_in(whole)
    return words[: len(value)] == list(value) and words[len(value) : len(value) + 1] in _PARTICLES


def _compiled(form: str, about: str) -> tuple[re.Pattern[str], str]:
    thing = rf"(?P<k>\S+(?: \S+){{0,{_LONGEST_THING - 1}}}?)"
    return re.compile(form.replace("{k}", thing).replace("{v}", "(?P<v>.+)")), about


_COMPILED = tuple(_compiled(*form) for form in _FORMS)
FIXED_WORDS = [words_in(text) for text in _FIXED]
_REPLY_TEXTS = (*_FIXED, *(form for form, _ in _FORMS), " ".join(_NOUNS), LIST)
_REPLY_WORDS = frozenset(word for text in _REPLY_TEXTS for word in words_in(text))


def _names(key: str, word: str) -> bool:
    """Return whether a word is one of the key's, whatever its number and spelling."""
    named = {one.removesuffix("s") for one in words_in(key)} | {"name"}
    return not named.isdisjoint(one.removesuffix("s") for one in words_in(word))


def _is_about(said: str, key: str) -> bool:
    """Return whether words name the key of a fact: one of its words, or one in which people talk of it."""
    known = canonical_key(key)
    if is_about(said, key) or (known is not None and is_about(said, known.name)):
        return True
    words = set(said.split())
    return not words.isdisjoint({*words_in(" ".join(words_of(key)))} - _LINKS)


def _entries(text: str) -> Iterator[str]:
    """Yield the `key=value` entries of a list; a value can have commas."""
    entry = ""
    for piece in text.strip().removesuffix(".").split(", "):
        if "=" in piece and entry:
            yield entry
            entry = piece
        else:
            entry = f"{entry}, {piece}" if entry else piece
    if entry:
        yield entry
