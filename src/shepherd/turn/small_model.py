"""Review of what the bundled model says: a sentence at a time, before anybody sees it.

A model of a few megabytes repeats itself or makes up words when its prompt is unlike its training. A sentence
is shown only if it is one of the model's fixed replies, or if its form is one that the model was trained to
answer in and its values stand in the conversation. The first other sentence ends the answer; if nothing came
before it, an honest one takes its place. If a question stays open, the passage found for it is quoted. Each
of several questions is answered by itself: by the model's sentence for it if that one is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from shepherd._native.text import STOP_WORDS
from shepherd.claims.corrections import corrected_facts
from shepherd.claims.judge import Verdict, ended_values, plain_facts
from shepherd.claims.keys import LISTS, is_about
from shepherd.claims.known_endings import ended_facts, opposite_items
from shepherd.claims.moves import is_certain_move
from shepherd.claims.wordings import rule
from shepherd.inference import Engine
from shepherd.inference.models import BUILT_IN
from shepherd.installation import program_from_anywhere
from shepherd.memory.facts import contradicts
from shepherd.memory.precision import is_less_precise
from shepherd.prompt.archive_policy import asks_to_forget, is_statement, told_as_question
from shepherd.prompt.asked_facts import (
    asked_facts,
    asks,
    asks_for_all,
    is_given_to_user,
    is_of_others,
    named_in,
    names_a_thing,
    words_in,
)
from shepherd.prompt.concepts import are_related, content_words
from shepherd.prompt.near_facts import NearFact, nearest_fact
from shepherd.prompt.phrases import in_key, in_question
from shepherd.prompt.plan import Part
from shepherd.prompt.questions import Question, asks_by_form, begins_question, core_of, questions_in
from shepherd.prompt.requests import indirect_request, is_bare_request
from shepherd.prompt.tasks import asks_for_reminder, is_task
from shepherd.prompt.whose_past import is_of_the_one_asked_about
from shepherd.sentences import sentence_spans, split_sentences
from shepherd.turn.answer_judge import (
    ACKNOWLEDGED,
    DECLINED,
    DENIES,
    FIXED_WORDS,
    KEPT_FOR_NOW,
    LIST,
    NOTHING_STORED,
    SEEN,
    UNKNOWN,
    Judge,
    Sources,
    states,
)
from shepherd.turn.answer_types import wanted_by
from shepherd.turn.answers import Found, joined
from shepherd.turn.courtesies import is_harmless, is_sad, reply_to_small_talk
from shepherd.turn.cries_for_help import reply_to_cry_for_help
from shepherd.turn.harms import harm_asked_about
from shepherd.turn.past_sentences import told_of_past
from shepherd.turn.quotation import quotation, sources_of
from shepherd.turn.subjects import names_a_person
from shepherd.types import Fact, FinishReason, Message, PastFact, SearchResult

__all__ = ["Promise", "Review", "is_small_model", "known_facts"]

# Characters of a sentence that is still being written; a longer one is cut off.
_LONGEST = 600
# Characters or words that the model keeps repeating, until the window is full if nothing stops it.
_CIRCLE = re.compile(r"(.{1,3}?)\1{40,}|(.{4,30}?)\2{7,}", re.DOTALL)
_SECRET = "That looks like a secret, so I won't learn it; only this conversation has it."
_WITHOUT_CODE = "I'll remember that, but not {}: it may be a code, so only this conversation has it."
_SORRY = "I'm sorry to hear that. I'll remember it."
_SORRY_FOR_NOW = "I'm sorry to hear that."
# A friend's joke is no fact about the user, and is kept as what the friend said.
_HEARSAY = "I'll remember that they said so."
_KEPT = "I'll keep what you set yourself until you change it. {}"
_FORGETS = (
    "I can't forget something just because you ask me to. In a chat, find it with `/facts` or"
    " `/memory WORDS`, then use `/forget KEY` or `/forget NUMBER`. In a shell, run"
    " `{program} facts clear KEY` or `{program} memory forget ID`."
)
_FORGETS_KEYS = (
    "I can't forget something just because you ask me to. In a chat, use {chat}, then find what you said with"
    " `/memory WORDS` and use `/forget NUMBER`. In a shell, run {shell}."
)
# Shown if the user asks for a task: a command that works as it is.
_ADVICE = (
    "I'm only the bundled demo model and can't help with that. "
    "For a full model, run `{program} -m hf:Qwen/Qwen3-4B-GGUF:Q4_K_M`."
)
# What the model can't read may be a statement, which is stored all the same.
_ADVICE_BESIDE = (
    "I'm only the bundled demo model and couldn't read it. "
    "For a full model, run `{program} -m hf:Qwen/Qwen3-4B-GGUF:Q4_K_M`."
)
# No larger model can do that here, either.
_NO_REMINDERS = "I can't set reminders, alarms or timers: I only answer when you write to me."
_MOST_KEYS = 3  # of facts that a request to forget may mean
_MEETING = re.compile("nice to meet you (.+)")
_NO_ANSWERS = (UNKNOWN, NOTHING_STORED, DECLINED)
_LAST_TOLD = 3  # messages
_TOLD_WORDS = 2  # of a value: "You drive a 2016 Volvo."
_ASKS_INDIRECTLY = re.compile(
    r"\b(?:know|remember|recall|remind|tell me|wonder|forgot|forget"
    r"|what|which|who|whose|where|when|how|why)\b",
    re.IGNORECASE,
)
# "What is 17 times 23?" is not a thing that the user could have told.
_CALCULATES = re.compile(
    r"\d ?%? ?(?:[-+*/x\u00d7\u00f7^]|times|plus|minus|multiplied by|divided by|of|to the power of) ?\d",
    re.IGNORECASE,
)
_ASKS_WHEN = re.compile(r"\W*(?:and |so )?when\b", re.IGNORECASE)
# "At breakfast", "whenever it rains"
_AT_AN_EVENT = re.compile(r"\b(?:at|during|every|each|whenever|while|as soon as) (?-i:[a-z])", re.IGNORECASE)
_PERSONAL = frozenset(("i", "my", "me", "mine", "we", "our", "us"))
# One of them stands in most English sentences that tell or ask for something, and in few of other languages.
_IN_ENGLISH = frozenset(("i", "my", "the", "are", "your", "you", "for", "to", "and", "please", "with"))
_WANTS_TO_KNOW = re.compile(
    r"\s*(?:who|whose|when|where|which|how (?:old|tall|many|much|long|often|far)"
    r"|what \w+ (?:does|do|has|have) (?:the|my|our))\b",
    re.IGNORECASE,
)


def _runnable(answer: str) -> str:
    """Return an answer whose commands can be run by those who may read it."""
    return answer.format(program=program_from_anywhere())


def _way_to_forget(asked: str, facts: Sequence[Fact]) -> str:
    """Return how the user can delete what is to be forgotten: by the keys of the facts that are meant."""
    text = " ".join(words_in(asked))
    meant = [fact for fact in facts if f" {' '.join(words_in(fact.value))} " in f" {text} "]
    if not meant:
        # "Forget my mum's birthday" is not about the user's.
        people = [*filter(names_a_person, text.split())]
        meant = [
            fact
            for fact in facts
            if (is_about(text, fact.key) or _covers(content_words(text), in_key(fact.key)))
            and _covers(content_words(in_key(fact.key)), " ".join(people))
        ]
    if not meant or len(meant) > _MOST_KEYS:
        return _runnable(_FORGETS)
    chat = " or ".join(f"`/forget {fact.key}`" for fact in meant)
    shell = " or ".join(f"`{program_from_anywhere()} facts clear {fact.key}`" for fact in meant)
    return _FORGETS_KEYS.format(chat=chat, shell=shell)


def _covers(words: Collection[str], text: str) -> bool:
    """Return whether each word of a text means the same as one of `words`."""
    return all(any(are_related(one, other) for other in words) for one in content_words(text))


def is_small_model(model: object) -> bool:
    """Return whether this is an engine with the bundled model, by the name in its file."""
    return isinstance(model, Engine) and model.info.name == BUILT_IN


def known_facts(question: str, facts: Sequence[Fact]) -> str:
    """Return the facts that a question about the user or their people asks for; "" unless it is sure which.

    Several questions are answered together or not at all.
    """
    if facts and asks_for_all(question):
        return joined([tuple(facts)])
    found = asked_facts(question, facts)
    return joined([tuple(meant) for meant in found]) if all(found) else ""


@dataclass(frozen=True, slots=True)
class Promise:
    """Rules for storing messages: whether they are stored at all, and whether with secrets in them.

    `own` returns the facts that users set themselves: what a message says against one is only proposed.
    """

    stores: bool = False
    keeps_secrets: bool = False
    own: Callable[[], Sequence[Fact]] = tuple

    def acknowledgement(self, text: str) -> str:
        """Return what can truly be said to a message that the model wants to remember."""
        if reply := reply_to_cry_for_help(text):
            return reply
        if not _tells_something(text):
            return UNKNOWN if _is_question(text) else SEEN
        if self.stores and not self.keeps_secrets:
            if _holds_secret(text):
                return _SECRET
            if left_out := _left_out(text):
                return _WITHOUT_CODE.format(left_out)
        if kept := _contradicted(plain_facts(text), self.own):
            return _KEPT.format(joined([tuple(kept.values())]))
        if asks_for_reminder(text):
            so_far = "I'll remember that" if self.stores else "I'll keep that in mind"
            return f"{so_far}, but {_NO_REMINDERS}"
        if is_sad(text):
            return _SORRY if self.stores else _SORRY_FOR_NOW
        if _is_hearsay(text):
            return _HEARSAY if self.stores else SEEN
        reply = ACKNOWLEDGED if self.stores else KEPT_FOR_NOW
        return reply if is_harmless(text) else reply.removeprefix("Nice, ")


class Review:
    """Review of one answer. `feed` and `end` return what can be shown.

    `messages` are the prompt, whose last user's message is answered; `facts`, `passages` and `memories` are
    those in its tail, and `past` the facts of another time there, which answer a question about time whatever
    the model says. `former` returns the facts that have ended, which a question may ask for; `refused` the
    values in lower case that the user undid or rejected.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        facts: Sequence[Fact],
        promise: Promise,
        passages: Sequence[Part] = (),
        memories: Sequence[SearchResult] = (),
        *,
        past: Sequence[PastFact] = (),
        former: Callable[[], Sequence[PastFact]] = tuple,
        refused: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._is_over = False
        facts = _as_told(facts, messages, refused, promise.own)
        self._quotable = (messages, passages, memories)
        self._asked = next((message.raw for message in reversed(messages) if message.role == "user"), "")
        self._promise = promise
        self._questions = questions_in(self._asked)
        # The facts that each question asks for, if that is sure.
        self._asked_for = asked_facts(self._asked, facts)
        self._judge = Judge(Sources(messages, facts), self._asked)
        self._is_held = len(self._questions) > 1
        # Of the dog's name and the user's, the dog's is asked for.
        keys = {fact.key for asked in self._asked_for for fact in asked}
        meant = [one for one in past if one.key in keys]
        meant = meant or [one for one in past if is_of_the_one_asked_about(self._asked, one)]
        self._past: Sequence[PastFact] = () if self._is_held else meant
        self._former: Callable[[], Sequence[PastFact]] | None = None if self._is_held or keys else former
        self._waiting = ""
        self._said: list[str] = []
        self._has_text = False
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """True if what was shown ends with the beginning of a sentence."""
        return self._is_cut

    @property
    def is_over(self) -> bool:
        """True once the answer has to end."""
        return self._is_over

    def feed(self, text: str) -> str:
        """Take a piece of the answer; return what is sure by now."""
        self._waiting += text
        if not self._is_over and (past := self._of_the_past()):
            return self._instead(told_of_past(past))
        if self._is_held:
            is_enough = len(self._waiting) > _LONGEST * len(self._questions) or bool(
                _CIRCLE.search(self._waiting)
            )
            return self._answers(is_cut=True) if is_enough else ""
        shown, taken = [], 0
        for begin, end in sentence_spans(self._waiting)[:-1]:
            if not self.is_over:
                shown.append(self._sentence(self._waiting[begin:end]))
            taken = end
        if taken:
            self._waiting = self._waiting[taken:].lstrip()
        is_endless = len(self._waiting) > _LONGEST or _CIRCLE.search(self._waiting)
        if is_endless and not self.is_over:
            shown.append(self._stop())
        return "".join(shown)

    def end(self, reason: FinishReason) -> str:
        """Return the rest of an answer that ended for this reason."""
        if self.is_over:
            return ""
        if reason != "cancelled" and (past := self._of_the_past()):
            return self._instead(told_of_past(past))
        if self._is_held:
            is_cut = reason in ("length", "cancelled")
            return "" if reason == "cancelled" else self._answers(is_cut=is_cut)
        rest, self._waiting = self._waiting.strip(), ""
        shown = ""
        is_cut = reason in ("length", "cancelled")
        if rest and is_cut and self._judge.can_begin(rest, self._said):
            shown, self._is_cut = self._shown(rest), True
        elif rest and not is_cut:
            shown = self._sentence(rest)
        if not self._has_text and reason != "cancelled":
            shown = self._stop()
        self._is_over = True
        return shown

    def _of_the_past(self) -> Sequence[PastFact]:
        """Return the facts of another time that the question asks for, or those that have ended."""
        if not self._past and self._former is not None and _is_question(self._asked):
            ended = self._former()
            asked = asked_facts(self._asked, [Fact(one.key, one.value, 0, 0) for one in ended])
            keys = {fact.key for meant in asked for fact in meant}
            self._past = [one for one in ended if one.key in keys and not self._was_never(one.value)]
        self._former = None
        return self._past

    def _was_never(self, value: str) -> bool:
        """Return whether the user said of a value that it never held: "I'm not allergic to it after all"."""
        messages, _, memories = self._quotable
        told = (one for source in sources_of(messages, (), memories) for one in source.sentences)
        words = f" {' '.join(words_in(value))} "
        return any(rule("never was").search(one) and words in f" {' '.join(words_in(one))} " for one in told)

    def _fixed_reply(self) -> str:
        """Return the reply to small talk or to what no model can do here, whatever it writes."""
        if asks_to_forget(self._asked):
            return _way_to_forget(self._asked, self._judge.sources.known)
        if asks_for_reminder(self._asked) and not any(self._asked_for):
            is_told = _tells_something(self._asked)
            return self._promise.acknowledgement(self._asked) if is_told else _NO_REMINDERS
        if told_as_question(self._asked):
            return self._promise.acknowledgement(self._asked)
        return reply_to_small_talk(self._asked)

    def _sentence(self, sentence: str) -> str:
        if reply := self._fixed_reply():
            return self._instead(reply)
        # "I see" and "I don't know" are no reply to "Summarise this".
        if words_in(sentence) in FIXED_WORDS and not self._said and is_task(self._asked):
            return self._passed_on(DECLINED)
        if self._misses_what_is_told(sentence):
            return self._instead(self._promise.acknowledgement(self._asked))
        is_open = self._is_asked_besides() or (
            words_in(sentence) in _COURTESIES and _is_question(self._asked)
        )
        if is_open and words_in(sentence) in FIXED_WORDS and not self._said:
            return self._passed_on(sentence if sentence in _NO_ANSWERS else UNKNOWN)
        if asks_for_all(self._asked) and not self._said:
            # "Nice to meet you, Gerald" may be out of a document.
            return self._passed_on(sentence if sentence in _NO_ANSWERS else NOTHING_STORED)
        is_learned = words_in(sentence) == words_in(SEEN) and _told(self._asked)
        if is_learned or words_in(sentence) == words_in(ACKNOWLEDGED):
            reply = self._promise.acknowledgement(self._asked)
            if self._said and (reply != ACKNOWLEDGED or reply in self._said):
                return self._stop()
            # No answer to a question; one may follow.
            return "" if reply == UNKNOWN else self._shown(reply)
        meeting = _MEETING.fullmatch(" ".join(words_in(sentence)))
        if meeting and not self._is_name(meeting[1]):
            return self._sentence(ACKNOWLEDGED)
        if sentence.startswith(LIST):
            sentence = self._judge.listed(sentence)
        if not self._said and self._is_quoted_instead(sentence):
            return self._passed_on(UNKNOWN)
        # Often the answer is right as far as the first comma.
        for part in (sentence, self._judge.first_clause(sentence)):
            is_right = part and self._judge.accepts(part, self._said) and self._tells_what_is_known(part)
            if is_right and self._has_form_asked_for(part):
                is_answer = bool(self._said) or part not in _NO_ANSWERS
                return self._shown(part) if is_answer else self._passed_on(part)
        return self._stop()

    def _misses_what_is_told(self, sentence: str) -> bool:
        """Return whether the first sentence of an answer is no reply to what the message tells.

        "You work as a nurse." is none to "I don't work there any more", and "Franek died this morning" is no
        farewell.
        """
        if self._said or not _tells_plainly(self._asked):
            return False
        words = words_in(sentence)
        denies = DENIES.search(self._asked) is not None
        return words in _FAREWELLS or (denies and words not in FIXED_WORDS)

    def _answers(self, *, is_cut: bool) -> str:
        """Return what is known of each of several questions, once the model has written its answer."""
        if reply := self._fixed_reply():
            return self._instead(reply)
        written = split_sentences(self._waiting[: _LONGEST * len(self._questions)])
        if is_cut:
            del written[-1:]
        found = [self._found(n, written) for n in range(len(self._questions))]
        self._is_over = True
        if not all(isinstance(one, Question) for one in found):
            return self._shown(joined(found))
        is_task = DECLINED in written and not all(_WANTS_TO_KNOW.match(one.text) for one in self._questions)
        return self._shown(_runnable(_ADVICE) if is_task else UNKNOWN)

    def _found(self, n: int, written: Sequence[str]) -> Found:
        """Return the answer to question `n`, by the rules of one alone; the question if there is none."""
        question, facts = self._questions[n], self._asked_for[n]
        if asks_for_reminder(question.text):
            return _NO_REMINDERS
        judge = Judge(self._judge.sources, question.text)
        near = None if facts else self._near(question)
        if near and near.is_sure:
            return (near.fact,)
        if facts:
            told = [one for one in written if not _MEETING.fullmatch(" ".join(words_in(one)))]
            stated = (one for one in told if any(states(one, fact) and _names(one, fact) for fact in facts))
            return next((one for one in stated if judge.accepts(one, ())), tuple(facts))
        quoted = quotation(question, sources_of(*self._quotable), judge.sources.known)
        if near and not (quoted and quoted.is_sure):
            return near
        if quoted and not judge.sources.tells_ended(joined([quoted])):
            return quoted
        # Whether a sentence is about this question is known by its place alone.
        own = written[n] if len(written) == len(self._questions) else ""
        is_reply = words_in(own) in FIXED_WORDS
        return own if own and not is_reply and judge.accepts(own, ()) else question

    def _is_asked_besides(self) -> bool:
        """Return whether a message asks something after what it tells, of which nothing is learned."""
        if len(self._questions) == 1 and self._asked_for[0]:
            return True
        core, _ = core_of(self._asked)
        is_asking = asks_by_form(core) or not self._asked.startswith(core)
        return is_asking and not _told(self._asked)

    def _is_quoted_instead(self, sentence: str) -> bool:
        """Return whether a quotation answers the question better than a sentence that tells no fact.

        A document does, and so does what the user surely told last, unless the sentence says the same.
        """
        known = self._judge.sources.known
        if self._asked_for[0] or not _is_question(self._asked) or any(states(sentence, one) for one in known):
            return False
        found = quotation(self._questions[0], sources_of(*self._quotable), known)
        if found is None or found.kind != "told" or sentence in _NO_ANSWERS:
            return found is not None and found.kind == "document"
        new = set(words_in(sentence)) - set(words_in(self._asked)) - STOP_WORDS
        return found.is_sure and not new.issubset(words_in(f"{found.sentence} {found.later}"))

    def _is_name(self, name: str) -> bool:
        """Return whether the user is called so, by a fact or by what he says now."""
        names = [fact.value for fact in self._judge.sources.known if fact.key == "name"]
        names += [verdict.value for verdict in plain_facts(self._asked) if verdict.key == "name"]
        return any(f" {name} " in f" {' '.join(words_in(known))} " for known in names)

    def _tells_what_is_known(self, sentence: str) -> bool:
        """Return whether a sentence has one of the facts that the question asks for, if that is sure."""
        facts = self._asked_for[0]
        if self._said or sentence in _NO_ANSWERS:
            return True
        known = self._judge.sources.known
        told = [fact for fact in known if states(sentence, fact, n_words=_TOLD_WORDS)]
        if told and all(is_given_to_user(sentence, fact, known) for fact in told):
            return False
        if not facts:
            # "How old is Saoirse?" is not answered by the user's own age.
            is_answer = _is_question(self._asked) and not sentence.startswith(LIST)
            return (
                not is_answer
                or not told
                or not all(is_of_others(self._asked, fact, known, sentence) for fact in told)
                or any(self._is_told_with_question(fact) for fact in told)
            )
        return any(_states_beginning(sentence, fact) and _names(sentence, fact) for fact in facts)

    def _has_form_asked_for(self, sentence: str) -> bool:
        """Return whether a sentence has a time where the question is "when"; a fact vouches for itself.

        "You play the viola" is no answer to "When do I play in the quartet?".
        """
        if self._said or sentence in _NO_ANSWERS or self._asked_for[0] or not _ASKS_WHEN.match(self._asked):
            return True
        holds = wanted_by(self._questions[0]).holds
        is_time = holds is None or holds.search(sentence) is not None
        return is_time or _AT_AN_EVENT.search(sentence) is not None

    def _is_told_with_question(self, fact: Fact) -> bool:
        """Return whether one sentence has the value of a fact and every word of the question.

        "I prefer Vim as my editor" says of which thing `prefers = Vim` is.
        """
        asked = content_words(self._asked)
        return bool(asked) and self._judge.sources.is_told_of(words_in(fact.value), asked, of_all=True)

    def _passed_on(self, sentence: str) -> str:
        """Return what a fact or a document says, in place of a sentence that answers nothing."""
        quoted = known_facts(self._asked, self._judge.sources.known) or self._warning()
        if not quoted and _is_question(self._asked):
            best = self._nearest()
            quoted = joined([best]) if best else ""
            quoted = "" if self._judge.sources.tells_ended(quoted) else quoted
        elif not quoted and self._is_told(sentence):
            quoted = self._promise.acknowledgement(self._asked)
        elif not quoted and sentence == DECLINED and self._may_be_told():
            noted = self._promise.acknowledgement(self._asked).removeprefix("Nice, ")
            is_plain = noted == ACKNOWLEDGED.removeprefix("Nice, ")
            quoted = f"{noted} {_runnable(_ADVICE_BESIDE)}" if is_plain else noted
        self._is_over = self._is_over or bool(quoted)
        # What was recalled may be about that, though this model cannot tell.
        if sentence == NOTHING_STORED and self._quotable[2]:
            sentence = UNKNOWN
        # Who, when or how old is something that the user may have told: nothing that a larger model would do.
        is_not_told = _WANTS_TO_KNOW.match(self._asked) or (
            _is_question(self._asked)
            and (named_in(self._asked, self._judge.sources.known) or _names_somebody(self._asked))
        )
        if sentence == DECLINED and is_not_told:
            sentence = UNKNOWN
        elif sentence == UNKNOWN and _calculates(self._asked):
            sentence = DECLINED
        return self._shown(quoted or (_runnable(_ADVICE) if sentence == DECLINED else sentence))

    def _nearest(self) -> Found | None:
        """Return the fact or the sentence that comes nearest to the question."""
        question = self._questions[0]
        near = self._near(question)
        if near and near.is_sure:
            return (near.fact,)
        best = quotation(question, sources_of(*self._quotable), self._judge.sources.known)
        return best if best and (best.is_sure or near is None) else near

    def _near(self, question: Question) -> NearFact | None:
        """Return the fact nearest to a question, unless it holds no longer."""
        near = nearest_fact(question, self._asked, self._judge.sources.known)
        return None if near and self._judge.sources.tells_ended(near.fact.value) else near

    def _warning(self) -> str:
        """Return what harms the user or their people, if the question touches it."""
        facts = harm_asked_about(self._asked, self._judge.sources.known) if _is_question(self._asked) else ()
        return joined([facts]) if facts else ""

    def _instead(self, text: str) -> str:
        self._is_over = True
        return "" if self._has_text else self._shown(text)

    def _is_told(self, sentence: str) -> bool:
        """Return whether the user told something; what is learned is no request that can be declined."""
        return bool(_told(self._asked)) or (sentence != DECLINED and _tells_plainly(self._asked))

    def _may_be_told(self) -> bool:
        """Return whether a message in another language is stored as a statement, and is no task."""
        is_told = self._promise.stores and _tells_plainly(self._asked) and not is_task(self._asked)
        return is_told and _IN_ENGLISH.isdisjoint(words_in(self._asked))

    def _stop(self) -> str:
        self._is_over = True
        if self._has_text:
            return ""
        if _tells_something(self._asked) and not self._is_asked_besides():
            return self._shown(self._promise.acknowledgement(self._asked))
        return self._passed_on(DECLINED if is_task(self._asked) else UNKNOWN)

    def _shown(self, sentence: str) -> str:
        self._said.append(sentence)
        before, self._has_text = " " if self._has_text else "", True
        return before + sentence


def _states_beginning(sentence: str, fact: Fact) -> bool:
    """Return whether a sentence has a value, or its first sentence: the others come with the next ones."""
    first = split_sentences(fact.value)[:1]
    return states(sentence, replace(fact, value=first[0]) if first else fact)


def _names(sentence: str, fact: Fact) -> bool:
    """Return whether a sentence with the value of a fact says what it is: 39 is no time to get up."""
    value, keys = content_words(fact.value), content_words(in_key(fact.key))
    said = [word for word in content_words(in_question(sentence)) if word not in value]
    return not said or any(are_related(word, key) for word in said for key in keys)


def _as_told(
    facts: Sequence[Fact],
    messages: Sequence[Message],
    refused: Callable[[], Collection[str]],
    own: Callable[[], Sequence[Fact]] = tuple,
) -> list[Fact]:
    """Return facts with the values that the last messages before the question gave them since.

    They are learned beside the conversation, perhaps after the question. A value that users refused since
    counts as little as if they had not said it, and so does one against a fact that they set themselves, and
    one with less detail.
    """
    told = [one for one in messages if one.role == "user"][-1 - _LAST_TOLD : -1]
    current = {fact.key: fact for fact in facts}
    for message in told:
        ended = {ended.value.casefold() for ended in ended_values(message.raw)}
        older = [
            one for one in current.values() if one.updated_at < message.created_at and one.key not in LISTS
        ]
        for over in ended_facts(message.raw, older):
            del current[over.key]
        verdicts = plain_facts(message.raw)
        for one in verdicts:
            for key, _ in opposite_items(one.key, one.value, one.assertion.sentence, older):
                current.pop(key, None)
        kept = _contradicted(verdicts, own)
        said = {
            one.key: one.value
            for one in verdicts
            if one.key not in kept and (one.changes or not _has_less_detail(one, current))
        }
        corrected = corrected_facts(message.raw, older)
        are_own = {fact.key for fact in own()} if any(not part.changes for part in corrected) else set()
        for part in corrected:
            # What the user set stays until the proposal is accepted.
            if not part.changes and part.key in are_own:
                continue
            if part.key not in said or part.says_more_than(said[part.key]):
                said[part.key] = part.value
        if said:
            gone = refused()
            said = {key: value for key, value in said.items() if value.casefold() not in gone}
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


def _has_less_detail(verdict: Verdict, known: Mapping[str, Fact]) -> bool:
    fact = known.get(verdict.key)
    return fact is not None and is_less_precise(verdict.key, verdict.value, fact.value)


def _contradicted(verdicts: Sequence[Verdict], own: Callable[[], Sequence[Fact]]) -> dict[str, Fact]:
    """Return, by key, the facts of the user's own that statements contradict without calling it a change."""
    stated = [one for one in verdicts if (not one.changes or one.key == "location") and one.key not in LISTS]
    known = {fact.key: fact for fact in own()} if stated else {}
    return {
        one.key: known[one.key]
        for one in stated
        if one.key in known
        and contradicts(known[one.key].value, one.value)
        and not (one.changes and is_certain_move(one.assertion.sentence, one.value, known[one.key].value))
    }


# No answers to a question.
_FAREWELLS = [words_in(text) for text in ("You're welcome!", "Goodbye!")]
_COURTESIES = [words_in(SEEN), *_FAREWELLS]


def _told(text: str) -> list[Verdict]:
    """Return what a message plainly states: not the name in "Does my sister Zoe drive?", which is learned."""
    return [one for one in plain_facts(text) if not one.assertion.in_question]


def _names_somebody(text: str) -> bool:
    """Return whether a question names somebody of the user's: "Does my sister Zoe drive?"."""
    return any(one.assertion.in_question for one in plain_facts(text))


def _is_question(text: str) -> bool:
    """Return whether a message asks something, even without a question mark."""
    is_by_form = (asks_by_form(core_of(text)[0]) or names_a_thing(text)) and not _told(text)
    if asks(text) or is_by_form or (begins_question(text) and not is_statement(text)):
        return True
    return (is_bare_request(text) or indirect_request(text) is not None) and not _told(text)


def _calculates(text: str) -> bool:
    """Return whether a message asks for a calculation that doesn't involve the user's own data."""
    return _CALCULATES.search(text) is not None and _PERSONAL.isdisjoint(words_in(text))


def _tells_plainly(text: str) -> bool:
    """Return whether a message tells something and asks for nothing: "I need to know my name" asks."""
    return not _ASKS_INDIRECTLY.search(text) and _tells_something(text)


def _tells_something(text: str) -> bool:
    """Return whether a message has something to be kept: a statement, or an instruction for all answers."""
    return is_statement(text) or (not asks(text) and bool(_told(text)))


def _is_hearsay(text: str) -> bool:
    """Return whether a message tells only what others say of the user, of which nothing is learned."""
    begins = rule("hearsay", begins=True)
    told = [sentence for sentence in split_sentences(text) if is_statement(sentence)]
    # "They say I'm slow, but I won a race" tells something else, too.
    is_others = all(begins.match(one) and " but " not in one for one in told)
    return bool(told) and is_others and not plain_facts(text)


def _holds_secret(text: str) -> bool:
    # Not at the top: few messages are acknowledged, and it takes a while to load.
    from shepherd.secret_detection import holds_secret

    return holds_secret(text, "")


def _left_out(text: str) -> str:
    """Return the first value of a message that may be a code, which is not remembered with the rest."""
    from shepherd.secret_detection.unexplained import find_unexplained

    return next((text[found.start : found.end] for found in find_unexplained(text)), "")
