"""Review of what the bundled model says: a sentence at a time, before anybody sees it.

A model of a few megabytes repeats itself or makes up words when its prompt is unlike its training. A sentence
is shown only if it is one of the model's fixed replies, or if its form is one that the model was trained to
answer in and its values stand in the conversation. The first other sentence ends the answer; if nothing came
before it, an honest one takes its place. If a question stays open, the passage found for it is quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from shepherd._native.rank import ASSISTANT_ANSWER, ASSISTANT_QUESTION
from shepherd._native.text import STOP_WORDS, keywords
from shepherd.claims import plain_facts
from shepherd.claims.keys import canonical_key, is_about, words_of
from shepherd.inference import Engine
from shepherd.inference.models import BUILT_IN
from shepherd.memory.discourse import assistants
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.asked_facts import asked_facts, asks, words_in
from shepherd.prompt.plan import Part
from shepherd.sentences import is_question, sentence_spans, split_sentences
from shepherd.types import Fact, FinishReason, Message, SearchResult

__all__ = ["MOST_WORDS", "Promise", "Review", "is_small_model", "known_facts", "quotation"]

MOST_WORDS = 60
# Characters of a sentence that is still being written; a longer one is cut off.
_LONGEST = 600
_MOST_REPEATED = 2  # times that the same three words can stand in an answer

_ACKNOWLEDGED = "Nice, I'll remember that."
_UNKNOWN = "I don't know that."
_NOTHING_STORED = "I have nothing stored about that."
_SEEN = "I see."
_KEPT_FOR_NOW = "Nice, I'll keep that in mind for this conversation."
_SECRET = "That looks like a secret, so I won't learn it; only this conversation has it."
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
_LONGEST_QUOTED = 240  # characters of a sentence of the user
_NUMBER = re.compile(r"\d+")
_WANTS_TO_KNOW = re.compile(
    r"\s*(?:who|whose|when|where|which|how (?:old|tall|many|much|long|often|far))\b", re.IGNORECASE
)
_GAP = re.compile(r"[^\w\s]+|_+")
_LONGEST_GAP = 3
# Markers of the blocks of a tail, which say nothing.
_MARKERS = re.compile(
    r"^=== \w+ ===$|^Source: |^\[(facts|context|the user's instructions): |(^| )User: |^Assistant: |`{3,}",
    re.MULTILINE,
)
_PAIR = re.compile(r"([^=]+)=(.+)")
_ANDS = re.compile(r"\b(?:and|or)\b", re.IGNORECASE)


def is_small_model(model: object) -> bool:
    """Return whether this is an engine with the bundled model, by the name in its file."""
    return isinstance(model, Engine) and model.info.name == BUILT_IN


def quotation(question: str, passages: Sequence[Part], memories: Sequence[SearchResult] = ()) -> str:
    """Return what a document or the user said that may answer a question: the sentence with most of its words

    "" where no passage and no memory has more than half of these words, and the question's numbers.
    """
    asked, numbers = set(keywords(question)), set(_NUMBER.findall(question))
    best, found = 0.0, ""
    for source in (*map(_of_passage, passages), *(one for memory in memories for one in _of_memory(memory))):
        pieces = [(sentence, asked & set(keywords(sentence))) for sentence in source.sentences]
        in_title = asked & set(keywords(source.title))
        matched = [in_title, *(words for _, words in pieces)]
        if source.answers_title:
            pieces = [(sentence, words | in_title) for sentence, words in pieces]
        places = Counter(word for words in matched for word in words)
        told = set(_NUMBER.findall(" ".join((source.title, *source.sentences))))
        if 2 * len(places) <= len(asked) or not numbers <= told:
            continue
        for sentence, words in pieces:
            # A word of the title or of many sentences does not tell them apart.
            score = sum(places[word] ** -2 for word in words)
            quoted = source.form.format(sentence)
            if score > best and not _repeats([quoted]):
                best, found = score, quoted
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """Sentences that can be quoted in a form; the title says what they are about.

    With `answers_title` the title is a question, and each sentence has its words, too.
    """

    title: str
    form: str
    sentences: list[str]
    answers_title: bool = False


def _of_passage(passage: Part) -> _Source:
    title = str(passage.about.get("title", ""))
    text = "\n".join(line.lstrip("# ") for line in passage.text.splitlines()[2:-1])
    whole = [sentence for sentence in split_sentences(text) if sentence.endswith((".", "!"))]
    named = title.replace("{", "{{").replace("}", "}}")
    return _Source(title, f'I don\'t know, but your document "{named}" says: {{}}', whole)


def _of_memory(memory: SearchResult) -> Iterator[_Source]:
    """Yield what the user said, and an answer that was imported or entered by hand: no assistant's words."""
    written_by_assistants = assistants(memory.question, memory.answer, memory.source)
    if not written_by_assistants & ASSISTANT_QUESTION:
        yield _Source("", 'I don\'t know, but you told me earlier: "{}"', _quotable(memory.question))
    if not written_by_assistants & ASSISTANT_ANSWER:
        form, is_asked = 'I don\'t know, but I have this stored: "{}"', is_question(memory.question)
        yield _Source(memory.question if is_asked else "", form, _quotable(memory.answer), is_asked)


def _quotable(text: str) -> list[str]:
    said = [sentence for sentence in split_sentences(text) if not is_question(sentence)]
    return [sentence for sentence in said if len(sentence) <= _LONGEST_QUOTED]


def known_facts(question: str, facts: Sequence[Fact]) -> str:
    """Return the facts that a question about the user or his people asks for; "" unless it is sure which.

    Several questions are answered together or not at all.
    """
    found = {fact.key: fact.value for meant in asked_facts(question, facts) for fact in meant}
    shown = ", ".join(f"{key} = {value}" for key, value in found.items())
    return f"I know this about you: {shown}." if found else ""


@dataclass(frozen=True, slots=True)
class Promise:
    """What becomes of a message: whether it is stored at all, and whether it is with a secret in it."""

    stores: bool = False
    keeps_secrets: bool = False

    def acknowledgement(self, text: str) -> str:
        """Return what can truly be said to a message that the model wants to remember."""
        if not _tells_something(text):
            return _UNKNOWN if asks(text) else _SEEN
        if self.stores and not self.keeps_secrets and _holds_secret(text):
            return _SECRET
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
        self._passages = passages
        self._memories = memories
        self._asked = next((message.raw for message in reversed(messages) if message.role == "user"), "")
        self._promise = promise
        self._asked_for = asked_facts(self._asked, facts)
        self._judge = _Judge(_Sources(messages, facts), self._asked)
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
        if words_in(sentence) == words_in(_ACKNOWLEDGED):
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

    def _is_name(self, name: str) -> bool:
        """Return whether the user is called so, by a fact or by what he says now."""
        names = [fact.value for fact in self._judge.sources.known if fact.key == "name"]
        names += [verdict.value for verdict in plain_facts(self._asked) if verdict.key == "name"]
        return any(f" {name} " in f" {' '.join(words_in(known))} " for known in names)

    def _tells_what_is_known(self, sentence: str) -> bool:
        """Return whether a sentence has one of the facts that the question asks for, if that is sure."""
        if not self._asked_for or self._said or sentence in _NO_ANSWERS:
            return True
        said = f" {' '.join(words_in(sentence))} "
        return len(self._asked_for) == 1 and any(
            # The rest of a value with a full stop in it comes with the next sentence.
            f" {' '.join(words_in(fact.value)[:2])} " in said
            for fact in self._asked_for[0]
        )

    def _passed_on(self, sentence: str) -> str:
        """Return what a fact or a document says, in place of a sentence that answers nothing."""
        quoted = known_facts(self._asked, self._judge.sources.known)
        if not quoted and asks(self._asked):
            quoted = quotation(self._asked, self._passages, self._memories)
        elif not quoted and plain_facts(self._asked):  # what is learned is no request that can be declined
            quoted = self._promise.acknowledgement(self._asked)
        self._is_over = self._is_over or bool(quoted)
        # What was recalled may be about that, though this model cannot tell.
        if sentence == _NOTHING_STORED and self._memories:
            sentence = _UNKNOWN
        # Who, when or how old is something that the user may have told: nothing that a larger model would do.
        is_not_told = sentence == _DECLINED and _WANTS_TO_KNOW.match(self._asked)
        if is_not_told:
            sentence = _UNKNOWN
        return self._shown(quoted or (_ADVICE if sentence == _DECLINED else sentence))

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


class _Sources:
    """Words of a conversation that an answer can quote, and the facts of its tail."""

    def __init__(self, messages: Sequence[Message], facts: Sequence[Fact]) -> None:
        text = "\n".join(_MARKERS.sub(" ", message.sent) for message in messages)
        self._text = text
        words = words_in(text)
        self._words = frozenset(words)
        self._joined = f" {' '.join(words)} "
        self.known = tuple(facts)
        self.facts = {fact.key: fact.value for fact in facts}
        self._keys_of: dict[str, list[str]] = {}
        for fact in facts:
            self._keys_of.setdefault(" ".join(words_in(fact.value)), []).append(fact.key)

    def has_word(self, word: str) -> bool:
        """Return whether a word, or its singular, occurs."""
        return word in self._words or word.removesuffix("s") in self._words or f"{word}s" in self._words

    def has_beginning(self, letters: str) -> bool:
        """Return whether a word begins like this."""
        return f" {letters}" in self._joined

    def quotes(self, words: Sequence[str]) -> bool:
        """Return whether these words follow each other somewhere."""
        quote = " ".join(words)
        if not quote:
            return False
        # Languages without blanks between words have no words of their own.
        return f" {quote} " in self._joined or (not quote.isascii() and quote in self._joined)

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
        if "\ufffd" in sentence or _repeats(whole):
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
        return self.sources.quotes(words) or any(self._fits(words, *form) for form in _COMPILED)

    def can_begin(self, text: str, said: Sequence[str]) -> bool:
        """Return whether text can be the beginning of a sentence: it was cut off."""
        words = words_in(text)
        if "\ufffd" in text or _repeats([*said, text]) or len(said) >= self._most_sentences or not words:
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
                if entry not in entries and not _repeats([longer]):
                    entries.append(entry)
        return f"{_LIST} {', '.join(entries)}." if entries else ""

    def first_clause(self, sentence: str) -> str:
        """Return the part before the first comma as a sentence, if it ends with the value of a fact."""
        clause = sentence.partition(",")[0]
        words = words_in(clause)
        is_fact = any(self.sources.keys_of(words[n:]) for n in range(1, len(words)))
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
        keys = self.sources.keys_of(value)
        said = " ".join((*words_in(self.asked), *thing, *words[: len(words) - len(value)], about))
        is_told = self.sources.quotes(value) and (bool(keys) or not STOP_WORDS.issuperset(value))
        return is_told and (not keys or any(_is_about(said, key) for key in keys))


def _compiled(form: str, about: str) -> tuple[re.Pattern[str], str]:
    thing = rf"(?P<k>\S+(?: \S+){{0,{_LONGEST_THING - 1}}}?)"
    return re.compile(form.replace("{k}", thing).replace("{v}", "(?P<v>.+)")), about


_COMPILED = tuple(_compiled(*form) for form in _FORMS)


_FIXED_WORDS = [words_in(text) for text in _FIXED]
_REPLY_TEXTS = (*_FIXED, *(form for form, _ in _FORMS), " ".join(_NOUNS), _LIST)
_REPLY_WORDS = frozenset(word for text in _REPLY_TEXTS for word in words_in(text))


def _is_about(said: str, key: str) -> bool:
    """Return whether words name the key of a fact: one of its words, or one in which people talk of it."""
    known = canonical_key(key)
    if is_about(said, key) or (known is not None and is_about(said, known.name)):
        return True
    words = set(said.split())
    return not words.isdisjoint(words_in(" ".join(words_of(key))))


def _tells_something(text: str) -> bool:
    """Return whether a message has something to be kept: a statement, or an instruction for all answers."""
    return is_statement(text) or (not asks(text) and bool(plain_facts(text)))


def _holds_secret(text: str) -> bool:
    # Not at the top: few messages are acknowledged, and it takes a while to load.
    from shepherd.secret_detection import holds_secret

    return holds_secret(text, "")


def _repeats(sentences: Iterable[str]) -> bool:
    """Return whether an answer is too long, or has three words in a row too often."""
    words = " ".join(sentences).split()
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    return len(words) > MOST_WORDS or max(triples.values(), default=0) > _MOST_REPEATED


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
