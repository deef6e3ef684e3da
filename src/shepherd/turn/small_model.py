"""Review of what the bundled model says: a sentence at a time, before anybody sees it.

A model of a few megabytes repeats itself or makes up words when its prompt is unlike its training. A sentence
is shown only if it is one of the model's fixed replies, or if its form is one that the model was trained to
answer in and its values stand in the conversation. The first other sentence ends the answer; if nothing came
before it, an honest one takes its place. If a question stays open, the passage found for it is quoted. Each
of several questions is answered by itself: by the model's sentence for it if that one is right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from shepherd._native.text import STOP_WORDS, keywords
from shepherd.claims import ended_values, plain_facts
from shepherd.claims.keys import LISTS, canonical_key, is_about, items_of, words_of
from shepherd.inference import Engine
from shepherd.inference.models import BUILT_IN
from shepherd.prompt.archive_policy import asks_to_forget, is_statement
from shepherd.prompt.asked_facts import asked_facts, asks, asks_for_all, words_in
from shepherd.prompt.plan import Part
from shepherd.prompt.questions import Question, begins_question, questions_in
from shepherd.sentences import is_question, sentence_spans, split_sentences
from shepherd.turn.answers import Found, joined
from shepherd.turn.quotation import quotation, repeats, sources_of
from shepherd.types import Fact, FinishReason, Message, SearchResult

__all__ = ["Promise", "Review", "is_small_model", "known_facts"]

# Characters of a sentence that is still being written; a longer one is cut off.
_LONGEST = 600

_ACKNOWLEDGED = "Nice, I'll remember that."
_UNKNOWN = "I don't know that."
_NOTHING_STORED = "I have nothing stored about that."
_SEEN = "I see."
_KEPT_FOR_NOW = "Nice, I'll keep that in mind for this conversation."
_SECRET = "That looks like a secret, so I won't learn it; only this conversation has it."
_WITHOUT_CODE = "I'll remember that, but not {}: it may be a code, so only this conversation has it."
_FORGETS = (
    "I can't forget by being asked; `/forget WORDS` in a chat does, or `shepherd facts clear KEY` and "
    "`shepherd memory forget ID`."
)
_LIST = "This is what I know:"

_DECLINED = (
    "I'm only the small built-in model and can't help with that; "
    "get a full one with `shepherd model pull` or use --model FILE."
)
# What is shown for it: a command that works as it is.
_ADVICE = (
    "I'm only the small built-in model and can't help with that; "
    "`shepherd model pull hf:Qwen/Qwen3-4B-GGUF:Q4_K_M` gets a full one."
)
_MEETING = re.compile("nice to meet you (.+)")
_NO_ANSWERS = (_UNKNOWN, _NOTHING_STORED, _DECLINED)

_FIXED = (
    _ACKNOWLEDGED,
    _NOTHING_STORED,
    _UNKNOWN,
    _SEEN,
    _KEPT_FOR_NOW,
    "Hello! How can I help you?",
    "Hello!",
    "You're welcome!",
    "Goodbye!",
    "I'm Shepherd's small built-in model: I remember what you tell me and answer from it.",
    _DECLINED,
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
_LAST_TOLD = 3  # messages
_NO_THING = frozenset(
    (
        *("am", "are", "be", "can", "did", "do", "does", "has", "have", "i", "is"),
        *("it", "me", "was", "we", "were", "what", "when", "where", "which", "who", "will", "you"),
    )
)
_DENIES = re.compile(
    r"\b(?:no longer|not|never|any ?more|used to|formerly|former|ex|left|quit|stopped|without)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)
_ASKS_INDIRECTLY = re.compile(
    r"\b(?:know|remember|recall|remind|tell me|wonder|forgot|forget"
    r"|what|which|who|whose|where|when|how|why)\b",
    re.IGNORECASE,
)
_WISHES = frozenset(
    ("want", "wish", "hope", "plan", "dream", "travel", "visit", "buy", "give", "gift", "present")
)
_OF_HEALTH = ("allergy", "avoids", "condition")
_OTHER_TIME = frozenset(("before", "was", "were", "did", "used", "previously", "ago", "formerly"))
_WANTS_TO_KNOW = re.compile(
    r"\s*(?:who|whose|when|where|which|how (?:old|tall|many|much|long|often|far))\b", re.IGNORECASE
)
# "Where does Ida live?" is not answered by "You live in Ulm".
_ABOUT_THE_USER = re.compile(r"you\b(?! said\b)", re.IGNORECASE)
_OWN = frozenset(("i", "my", "me", "mine", "myself", "m", "we", "our", "us", "am"))
# "What colour is my car?", "What is my car's price?": of the car something else is asked than the car itself.
_ATTRIBUTE = re.compile(
    r"\b(?:what|which) (\w+) (?:is|are|was|has|does) (?:my|our)\b|\bthe (\w+) of (?:my|our)\b"
    r"|\bmy \w+['\u2019]s (\w+)",
    re.IGNORECASE,
)
_FEW_WORDS = 3
_FACTS = re.compile(r"^\[facts: .*$", re.MULTILINE)
_KNOWLEDGE = "=== KNOWLEDGE ==="
_GAP = re.compile(r"[^\w\s]+|_+")
_LONGEST_GAP = 3
# Markers of the blocks of a tail, which say nothing.
_MARKERS = re.compile(
    r"^=== \w+ ===$|^Source: |^\[(facts|context|the user's instructions): |(^| )User: |^Assistant: |`{3,}",
    re.MULTILINE,
)
_PAIR = re.compile(r"([^=]+)=(.+)")
# Another name of the same list.
_NAME_BEFORE, _NAME_BEHIND = r"[A-ZÀ-Þ][\w'-]*(?:,|,? and| &) ", r"(?:,|,? and| &) (?=[A-ZÀ-Þ][\w'-])"
_ANDS = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def is_small_model(model: object) -> bool:
    """Return whether this is an engine with the bundled model, by the name in its file."""
    return isinstance(model, Engine) and model.info.name == BUILT_IN


def known_facts(question: str, facts: Sequence[Fact]) -> str:
    """Return the facts that a question about the user or his people asks for; "" unless it is sure which.

    Several questions are answered together or not at all.
    """
    if facts and asks_for_all(question):
        return joined([tuple(facts)])
    found = asked_facts(question, facts)
    return joined([tuple(meant) for meant in found]) if all(found) else ""


@dataclass(frozen=True, slots=True)
class Promise:
    """What becomes of a message: whether it is stored at all, and whether it is with a secret in it."""

    stores: bool = False
    keeps_secrets: bool = False

    def acknowledgement(self, text: str) -> str:
        """Return what can truly be said to a message that the model wants to remember."""
        if not _tells_something(text):
            return _UNKNOWN if _is_question(text) else _SEEN
        if self.stores and not self.keeps_secrets:
            if _holds_secret(text):
                return _SECRET
            if left_out := _left_out(text):
                return _WITHOUT_CODE.format(left_out)
        return _ACKNOWLEDGED if self.stores else _KEPT_FOR_NOW


class Review:
    """Review of one answer. `feed` and `end` return what can be shown.

    `messages` are the prompt, whose last user's message is answered; `facts`, `passages` and `memories` are
    those in its tail.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        facts: Sequence[Fact],
        promise: Promise,
        passages: Sequence[Part] = (),
        memories: Sequence[SearchResult] = (),
    ) -> None:
        self._is_over = False
        facts = _as_told(facts, messages)
        self._quotable = (messages, passages, memories)
        self._asked = next((message.raw for message in reversed(messages) if message.role == "user"), "")
        self._promise = promise
        self._questions = questions_in(self._asked)
        # The facts that each question asks for, if that is sure.
        self._asked_for = asked_facts(self._asked, facts)
        self._judge = _Judge(_Sources(messages, facts), self._asked)
        self._is_held = len(self._questions) > 1
        self._waiting = ""
        self._said: list[str] = []
        self._has_text = False

    @property
    def is_over(self) -> bool:
        """True once the answer has to end."""
        return self._is_over

    def feed(self, text: str) -> str:
        """Take a piece of the answer; return what is sure by now."""
        self._waiting += text
        if self._is_held:
            is_enough = len(self._waiting) > _LONGEST * len(self._questions)
            return self._answers(is_cut=True) if is_enough else ""
        shown, taken = [], 0
        for begin, end in sentence_spans(self._waiting)[:-1]:
            if not self.is_over:
                shown.append(self._sentence(self._waiting[begin:end]))
            taken = end
        if taken:
            self._waiting = self._waiting[taken:].lstrip()
        if len(self._waiting) > _LONGEST and not self.is_over:
            shown.append(self._stop())
        return "".join(shown)

    def end(self, reason: FinishReason) -> str:
        """Return the rest of an answer that ended for this reason."""
        if self.is_over:
            return ""
        if self._is_held:
            is_cut = reason in ("length", "cancelled")
            return "" if reason == "cancelled" else self._answers(is_cut=is_cut)
        rest, self._waiting = self._waiting.strip(), ""
        shown = ""
        is_cut = reason in ("length", "cancelled")
        if rest and is_cut and self._judge.can_begin(rest, self._said):
            shown = self._shown(rest)
        elif rest and not is_cut:
            shown = self._sentence(rest)
        if not self._has_text and reason != "cancelled":
            shown = self._stop()
        self._is_over = True
        return shown

    def _sentence(self, sentence: str) -> str:
        if asks_to_forget(self._asked):
            return self._instead(_FORGETS)
        # "You work as a nurse." is no reply to "I don't work there any more."
        is_told = _DENIES.search(self._asked) and not self._said and _tells_plainly(self._asked)
        if is_told and words_in(sentence) not in _FIXED_WORDS:
            return self._instead(self._promise.acknowledgement(self._asked))
        if words_in(sentence) in _COURTESIES and _is_question(self._asked):
            return self._passed_on(_UNKNOWN)
        if asks_for_all(self._asked) and not self._said:
            return self._passed_on(sentence)
        is_learned = words_in(sentence) == words_in(_SEEN) and plain_facts(self._asked)
        if is_learned or words_in(sentence) == words_in(_ACKNOWLEDGED):
            reply = self._promise.acknowledgement(self._asked)
            if self._said and reply != _ACKNOWLEDGED:
                return self._stop()
            # No answer to a question; one may follow.
            return "" if reply == _UNKNOWN else self._shown(reply)
        meeting = _MEETING.fullmatch(" ".join(words_in(sentence)))
        if meeting and not self._is_name(meeting[1]):
            return self._sentence(_ACKNOWLEDGED)
        if sentence.startswith(_LIST):
            sentence = self._judge.listed(sentence)
        # Often the answer is right as far as the first comma.
        for part in (sentence, self._judge.first_clause(sentence)):
            if part and self._judge.accepts(part, self._said) and self._tells_what_is_known(part):
                is_answer = bool(self._said) or part not in _NO_ANSWERS
                return self._shown(part) if is_answer else self._passed_on(part)
        return self._stop()

    def _answers(self, *, is_cut: bool) -> str:
        """Return what is known of each of several questions, once the model has written its answer."""
        written = split_sentences(self._waiting[: _LONGEST * len(self._questions)])
        if is_cut:
            del written[-1:]
        found = [self._found(n, written) for n in range(len(self._questions))]
        self._is_over = True
        if not all(isinstance(one, Question) for one in found):
            return self._shown(joined(found))
        is_task = _DECLINED in written and not all(_WANTS_TO_KNOW.match(one.text) for one in self._questions)
        return self._shown(_ADVICE if is_task else _UNKNOWN)

    def _found(self, n: int, written: Sequence[str]) -> Found:
        """Return the answer to question `n`, by the rules of one alone; the question if there is none."""
        question, facts = self._questions[n], self._asked_for[n]
        judge = _Judge(self._judge.sources, question.text)
        if facts:
            told = [one for one in written if not _MEETING.fullmatch(" ".join(words_in(one)))]
            stated = (one for one in told if any(_states(one, fact) for fact in facts))
            return next((one for one in stated if judge.accepts(one, ())), tuple(facts))
        quoted = quotation(question, sources_of(*self._quotable), judge.sources.known)
        if quoted:
            return quoted
        # Whether a sentence is about this question is known by its place alone.
        own = written[n] if len(written) == len(self._questions) else ""
        is_reply = words_in(own) in _FIXED_WORDS
        return own if own and not is_reply and judge.accepts(own, ()) else question

    def _is_name(self, name: str) -> bool:
        """Return whether the user is called so, by a fact or by what he says now."""
        names = [fact.value for fact in self._judge.sources.known if fact.key == "name"]
        names += [verdict.value for verdict in plain_facts(self._asked) if verdict.key == "name"]
        return any(f" {name} " in f" {' '.join(words_in(known))} " for known in names)

    def _tells_what_is_known(self, sentence: str) -> bool:
        """Return whether a sentence has one of the facts that the question asks for, if that is sure."""
        facts = self._asked_for[0]
        if not facts or self._said or sentence in _NO_ANSWERS:
            return True
        # The rest of a value with a full stop in it comes with the next sentence.
        return any(_states(sentence, fact, n_words=2) for fact in facts)

    def _passed_on(self, sentence: str) -> str:
        """Return what a fact or a document says, in place of a sentence that answers nothing."""
        quoted = known_facts(self._asked, self._judge.sources.known) or self._warning()
        if not quoted and _is_question(self._asked):
            best = quotation(self._questions[0], sources_of(*self._quotable), self._judge.sources.known)
            quoted = joined([best]) if best else ""
        elif not quoted and self._is_told(sentence):
            quoted = self._promise.acknowledgement(self._asked)
        self._is_over = self._is_over or bool(quoted)
        # What was recalled may be about that, though this model cannot tell.
        if sentence == _NOTHING_STORED and self._quotable[2]:
            sentence = _UNKNOWN
        # Who, when or how old is something that the user may have told: nothing that a larger model would do.
        is_not_told = sentence == _DECLINED and _WANTS_TO_KNOW.match(self._asked)
        if is_not_told:
            sentence = _UNKNOWN
        return self._shown(quoted or (_ADVICE if sentence == _DECLINED else sentence))

    def _warning(self) -> str:
        """Return a fact about the user's health that a question touches: "Can I take penicillin?"."""
        words = f" {' '.join(words_in(self._asked))} "
        facts = [
            Fact(fact.key, item, fact.created_at, fact.updated_at)
            for fact in self._judge.sources.known
            if fact.key in _OF_HEALTH and _is_question(self._asked)
            for item in items_of(fact.key, fact.value)
            if f" {' '.join(words_in(item))} " in words
        ]
        return joined([tuple(facts)]) if facts else ""

    def _instead(self, text: str) -> str:
        self._is_over = True
        return "" if self._has_text else self._shown(text)

    def _is_told(self, sentence: str) -> bool:
        """Return whether the user told something; what is learned is no request that can be declined."""
        return bool(plain_facts(self._asked)) or (sentence != _DECLINED and _tells_plainly(self._asked))

    def _stop(self) -> str:
        self._is_over = True
        if self._has_text:
            return ""
        if _tells_something(self._asked):
            return self._shown(self._promise.acknowledgement(self._asked))
        return self._passed_on(_UNKNOWN)

    def _shown(self, sentence: str) -> str:
        self._said.append(sentence)
        before, self._has_text = " " if self._has_text else "", True
        return before + sentence


def _as_told(facts: Sequence[Fact], messages: Sequence[Message]) -> list[Fact]:
    """Return facts with the values that the last messages before the question gave them since.

    They are learned beside the conversation, perhaps after the question.
    """
    told = [one for one in messages if one.role == "user"][-1 - _LAST_TOLD : -1]
    current = {fact.key: fact for fact in facts}
    for message in told:
        ended = {ended.value.casefold() for ended in ended_values(message.raw)}
        said = {verdict.key: verdict.value for verdict in plain_facts(message.raw)}
        for key, fact in [*current.items()]:
            if fact.updated_at >= message.created_at or key in LISTS:
                continue
            if key in said:
                current[key] = replace(fact, value=said[key])
            elif fact.value.casefold() in ended:
                del current[key]
        when = message.created_at
        new = (key for key in said if key not in current and key not in LISTS)
        current |= {key: Fact(key, said[key], when, when) for key in new}
    return list(current.values())


class _Sources:
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
        texts = (one.sent.removeprefix(one.raw if one is asked else "") for one in messages)
        self._others = [_MARKERS.sub("\n", _FACTS.sub("", text)) for text in texts]
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

    def is_denied(self, value: Sequence[str]) -> bool:
        """Return whether these words are only said to hold no longer: "I no longer live in Ulm"."""
        quote = f" {' '.join(value)} "
        said = [line for line in self.lines() if quote in f" {' '.join(words_in(line))} "]
        return bool(said) and all(map(_DENIES.search, said))

    def lines(self) -> list[str]:
        """Return the sentences of all messages but the question, without facts."""
        if self._lines is None:
            self._lines = split_sentences("\n".join(self._others))
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


@dataclass(slots=True)
class _Judge:
    """Judges sentences of an answer to the message `asked`."""

    sources: _Sources
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
        if words_in(" ".join(whole)) in _FIXED_WORDS:
            return True
        continues = bool(said) and self._continues(said[-1], sentence)
        if len(said) >= self._most_sentences and not continues:
            return False
        if words_in(sentence) in _FIXED_WORDS:
            return True
        if any(len(gap) > _LONGEST_GAP and not self.sources.has_gap(gap) for gap in _GAP.findall(sentence)):
            return False
        words = words_in(sentence)
        if sentence.startswith(_LIST) or continues:
            return True
        is_of_others = is_question(self.asked) and _OWN.isdisjoint(words_in(self.asked))
        if is_of_others and _ABOUT_THE_USER.match(sentence):
            return False
        return self.sources.quotes(words, is_whole=True) or any(
            self._fits(words, *form) for form in _COMPILED
        )

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
        for entry in _entries(sentence.removeprefix(_LIST)):
            pair = _PAIR.fullmatch(entry)
            if pair and words_in(facts.get(pair[1].strip().casefold(), "")) == words_in(pair[2]):
                longer = f"{_LIST} {', '.join([*entries, entry])}."
                if entry not in entries and not repeats([longer]):
                    entries.append(entry)
        return f"{_LIST} {', '.join(entries)}." if entries else ""

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
        # "Where did I live before Berlin?" is not answered by what the question names.
        asked = set(words_in(self.asked))
        if asked.issuperset(value) and not asked.isdisjoint(_OTHER_TIME):
            return False
        keys = self.sources.keys_of(value)
        said = " ".join((*words_in(self.asked), *thing, *words[: len(words) - len(value)], about))
        if not self.sources.quotes(value):
            return False
        known = [fact.key for fact in self.sources.known if words_in(fact.value) == value]
        # "Your brother lives in Tom": `brother` says who that is, and not where.
        if about not in ("", "name") and any({*thing, "name"}.issuperset(words_in(key)) for key in known):
            return False
        if keys:
            return any(self._says_of(said, thing, key) for key in keys)
        if any(self._says_of(said, thing, key) for key in known):
            return True
        if STOP_WORDS.issuperset(value) or self.sources.is_part_of_list(value):
            return False
        if not "".join(value).isdigit():
            return self._is_backed(words[: len(words) - len(value)], value)
        # A number alone may be said of anything.
        about_it = {*keywords(self.asked), *keywords(" ".join(thing))} - STOP_WORDS
        return not known and self.sources.is_said_of(value, about_it)

    def _is_backed(self, said: Sequence[str], value: Sequence[str]) -> bool:
        """Return whether what no fact says is not denied where it is told, nor said of something else."""
        if list(said[:2]) == ["you", "want"]:
            return self.sources.is_said_of(value, _WISHES)
        return not self.sources.is_denied(value)

    def _says_of(self, said: str, thing: Sequence[str], key: str) -> bool:
        """Return whether a sentence about a thing, with the words of the question, says a fact."""
        asked = words_in(self.asked)
        others = (word for found in _ATTRIBUTE.findall(self.asked) for word in found if word)
        if any(not is_about(other.casefold(), key) and not _names(key, other) for other in others):
            return False
        is_named = all(
            word in _NOUNS or word in asked or is_about(word, key) or _names(key, word) for word in thing
        )
        return is_named and _is_about(said, key)


def _states(sentence: str, fact: Fact, n_words: int | None = None) -> bool:
    """Return whether a sentence has the value of a fact, or its first words."""
    value = " ".join(words_in(fact.value)[:n_words])
    return f" {value} " in f" {' '.join(words_in(sentence))} "


def _compiled(form: str, about: str) -> tuple[re.Pattern[str], str]:
    thing = rf"(?P<k>\S+(?: \S+){{0,{_LONGEST_THING - 1}}}?)"
    return re.compile(form.replace("{k}", thing).replace("{v}", "(?P<v>.+)")), about


_COMPILED = tuple(_compiled(*form) for form in _FORMS)


_FIXED_WORDS = [words_in(text) for text in _FIXED]
# No answers to a question.
_COURTESIES = [words_in(text) for text in (_SEEN, "You're welcome!", "Goodbye!")]
_REPLY_TEXTS = (*_FIXED, *(form for form, _ in _FORMS), " ".join(_NOUNS), _LIST)
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
    return not words.isdisjoint(words_in(" ".join(words_of(key))))


def _is_question(text: str) -> bool:
    """Return whether a message asks something, even without a question mark."""
    return asks(text) or (begins_question(text) and not is_statement(text))


def _tells_plainly(text: str) -> bool:
    """Return whether a message tells something and asks for nothing: "I need to know my name" asks."""
    return not _ASKS_INDIRECTLY.search(text) and _tells_something(text)


def _tells_something(text: str) -> bool:
    """Return whether a message has something to be kept: a statement, or an instruction for all answers."""
    return is_statement(text) or (not asks(text) and bool(plain_facts(text)))


def _holds_secret(text: str) -> bool:
    # Not at the top: few messages are acknowledged, and it takes a while to load.
    from shepherd.secret_detection import holds_secret

    return holds_secret(text, "")


def _left_out(text: str) -> str:
    """Return the first value of a message that may be a code, which is not remembered with the rest."""
    from shepherd.secret_detection.unexplained import find_unexplained

    return next((text[found.start : found.end] for found in find_unexplained(text)), "")


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
