# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""Documents of a user, and things told in passing: sentences, the questions they answer, and much beside the point.

A `Line` is one sentence that answers one question. The model answers by quoting the sentence, so it has to find
the one about the right thing *and* the right matter: beside it stand other matters of the same thing, the same
matter of other things, and chatter. Half of all nouns and verbs are made up, so that finding is learned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import values
from items import NoWordingError, Split, wording
from relations import expand
from rendering import Note

__all__ = ["Line", "chatter", "document", "make_line", "reply_chatter", "told_line"]

KINDS: dict[str, tuple[str, ...]] = {
    "device": ("boiler", "pump", "heater", "dishwasher", "dryer", "freezer", "kiln", "lathe", "sewing machine", "mower", "chainsaw", "generator", "compressor", "projector", "scanner", "oven", "dehumidifier", "thermostat", "sander", "3D printer", "router", "loom", "telescope", "trailer", "tractor", "scooter", "drone", "amplifier", "mixer", "aquarium", "hot tub", "saw", "alarm", "toaster", "clock", "stove", "winch", "drill"),
    "place": ("cabin", "cottage", "allotment", "workshop", "garage", "cellar", "attic", "office", "studio", "boathouse", "greenhouse", "barn", "flat", "meeting room", "lab", "gym", "clubhouse", "hut", "chapel", "library", "kitchen", "shed", "hall", "depot", "guest room", "shop", "warehouse", "archive", "canteen"),
    "gathering": ("book club", "chess club", "running group", "orchestra", "evening class", "yoga course", "band practice", "stand-up", "quiz night", "market", "summer party", "swimming lesson", "theatre group", "language course", "scout meeting", "annual meeting", "sale", "film night", "workshop", "reunion", "training", "retreat", "open day", "raffle"),
    "stuff": ("plaster", "resin", "paint", "dough", "concrete", "dye", "compost", "jam", "sourdough", "ink", "grout", "wax", "stain", "mortar", "marinade", "yoghurt", "batter", "soap", "clay", "sealant", "syrup", "stock", "brine", "primer", "filler"),
    "contact": ("plumber", "electrician", "vet", "landlord", "caretaker", "gardener", "accountant", "locksmith", "babysitter", "cleaner", "roofer", "tutor", "chimney sweep", "midwife", "painter", "mechanic", "tailor", "notary", "joiner", "insurer"),
    "work": ("report", "website", "budget", "exhibition", "newsletter", "move", "renovation", "catalogue", "grant application", "release", "audit", "survey", "conference", "thesis", "migration", "brochure", "campaign", "inventory", "tender", "pilot"),
    "living": ("orchid", "fern", "cactus", "lemon tree", "basil", "bonsai", "tortoise", "gecko", "hedgehog", "rabbit", "parrot", "pony", "olive tree", "cat", "dog", "rose", "vine", "budgie"),
    "computer": ("server", "backup", "database", "mail server", "cluster", "wiki", "firewall", "build machine", "camera system", "calendar", "test system", "mirror", "job queue", "cache", "dashboard"),
    "trip": ("ferry", "train", "flight", "tour", "crossing", "bus", "hike", "cruise", "transfer", "night train", "excursion"),
}  # fmt: skip
ALL = tuple(KINDS)


@dataclass(frozen=True)
class Matter:
    """One thing that notes say: sentences with `{s}` (the thing) and `{v}`, questions with `{s}`, kinds of value."""

    kinds: tuple[str, ...]
    value: tuple[str, ...]
    says: tuple[str, ...]
    asks: tuple[str, ...]
    choices: tuple[str, ...] = ("",)


def _m(kinds: str, value: str, says: Sequence[str], asks: Sequence[str], choices: str = "") -> Matter:
    fitting = ALL if kinds == "*" else tuple(kinds.split())
    words = tuple(word.replace("_", " ") for word in choices.split()) or ("",)
    return Matter(fitting, tuple(value.split()), tuple(says), tuple(asks), words)


# `{o}` is an object, the same in sentence and question; `{b}` a verb, to which -s and -ed are added; `{c}` one of
# the matter's choices, of a pair the first, `{i}` the second. What brackets choose among has to mean the same,
# since sentence and question choose for themselves.
MATTERS = (
    _m("device", "pressure", ("{s} (runs|works) at {v}( and hums a little|)", "(set|keep) {s} to {v}", "the pressure of {s} (should be|is) {v}", "{s} needs (a pressure of |){v}"), ("(what|which) pressure does {s} need?", "at (what|which) pressure does {s} (run|work)?", "how much pressure (is right for {s}|does {s} need)?", "what is the pressure of {s}?")),
    _m("device stuff place", "temperature", ("{s} (is kept|should be kept|stays) at {v}", "the (right |best |)temperature for {s} is {v}", "heat {s} to {v}(, not more|)", "{s} must not get warmer than {v}"), ("(what|which) temperature (does {s} need|is right for {s})?", "how (warm|hot) (should|may|does) {s} (be|get)?", "at (what|which) temperature (do I keep|should I keep) {s}?", "what is the temperature for {s}?")),
    _m("device stuff", "duration", ("{s} (needs|takes) {v}( to get ready| until it is ready|)", "it takes {v} until {s} is (done|ready)"), ("how long does {s} (take|need)?", "how (long|much time) does {s} (take|need)( to get ready|)?", "how long until {s} is ready?")),
    _m("device stuff", "duration", ("let {s} {c} for {v}", "{s} (has to|must|should) {c} for {v}", "{s} {c}s for {v}"), ("how long (should|must|does) {s} {c}?", "for how long do I let {s} {c}?", "how long do I let {s} {c}?"), "rest stand run cool soak settle bake boil cure ferment warm"),
    _m("device living computer place", "interval", ("{s} is {c} {v}", "{s} (must be|has to be|should be|gets) {c} {v}", "{v} {s} is {c}"), ("how often (is {s}|must {s} be|should {s} be) {c}?", "how often do (I|we) have {s} {c}?", "when is {s} {c}?"), "cleaned checked serviced watered fed restarted emptied aired oiled inspected heated swept brushed"),
    _m("device place computer work", "spot", ("the {o} (for|of) {s} (is|are|is kept|are kept|lies) {v}", "(you find|we keep|I put) the {o} (for|of) {s} {v}", "{v} (is|are) the {o} (for|of) {s}"), ("where (is|are) the {o} (for|of) {s}?", "where (do I find|do we keep|did I put) the {o} (for|of) {s}?", "where can I find {s}'s {o}?", "in which place is the {o} (for|of) {s}?")),
    _m("place device computer", "person", ("the key (to|of|for) {s} is with {v}", "{v} (has|keeps|looks after) the key (to|of) {s}", "ask {v} for the key (to|of) {s}"), ("who has the key (to|of) {s}?", "(with whom|with who|where) is the key (to|of|for) {s}?", "who keeps the key (to|of) {s}?", "who do I ask for the key (to|of) {s}?")),
    _m("place gathering work device living", "person", ("{v} (runs|leads|looks after|takes care of|is responsible for|is in charge of) {s}", "{s} is (run|led|looked after) by {v}", "(for|about) {s}, (ask|call|talk to) {v}"), ("who (runs|leads|looks after|takes care of|is responsible for|is in charge of) {s}?", "who (do I ask|do I call|should I talk to) about {s}?", "by whom is {s} (run|led|looked after)?")),
    _m("gathering work trip", "moment", ("{s} (is|takes place|begins|starts) (on |){v}", "we (meet for|have) {s} (on |){v}", "(on |){v} (is|there is) {s}", "{s} was moved to {v}"), ("when (is {s}|does {s} take place|does {s} begin|does {s} start)?", "when('s| is) {s}?", "(what|which) day is {s}?", "when do we (meet for|have) {s}?")),
    _m("gathering place trip", "place", ("{s} (is|takes place|meets) in {v}", "you find {s} in {v}", "the place for {s} is {v}", "we (go to|hold) {s} in {v}"), ("where (is {s}|does {s} take place|does {s} meet)?", "(in|at) (what|which) (place|town) is {s}?", "where do (I|we) (go to|find) {s}?")),
    _m("place contact computer", "hours", ("{s} is (open|available|there|at work) {v}", "(opening hours|hours) of {s}: {v}", "you can (reach|visit) {s} {v}"), ("when is {s} (open|available|there|at work)?", "(what are|which are) the (opening |)hours of {s}?", "when can I (reach|visit) {s}?", "until when is {s} open?")),
    _m("place trip gathering", "dates", ("{s} is {c} {v}", "{v}, {s} is {c}", "they have {s} {c} {v}"), ("when is {s} {c}?", "(for|on) which days is {s} {c}?", "from when (to when |)is {s} {c}?"), "booked reserved closed planned rented cancelled painted"),
    _m("contact gathering", "phone_number", ("{s} has the number {v}", "the (phone |)number of {s} is {v}", "call {s} (at|on) {v}"), ("(what is|what's) the (phone |)number of {s}?", "(which|what) number does {s} have?", "how can I (call|reach) {s}( by phone|)?", "on which number do I call {s}?")),
    _m("contact", "person", ("{s} is called {v}", "{s} is named {v}", "the name of {s} is {v}", "{v} is {s}( who helped us|)"), ("(what is|what's) {s} called?", "who is {s}?", "(what is|what's) the name of {s}?", "what was the name of {s}( again|)?")),
    _m("computer device work", "model_name", ("{s} (is called|goes by the name of|has the name) {v}", "(our name for|the name of) {s} is {v}", "{s} is (known|listed) as {v}"), ("(what is|what's) {s} called?", "(what is|what's) the name of {s}?", "(which|what) name does {s} have?", "under (what|which) name is {s} (known|listed)?")),
    _m("device contact gathering trip work stuff", "money", ("{s} (costs|cost|costs us) {v}", "the (price|fee|cost) (of|for) {s} is {v}", "we (pay|paid) {v} for {s}", "{s} comes to {v}"), ("(how much|what) (does|did) {s} cost?", "what is the (price|fee|cost) (of|for) {s}?", "how much (do|did) we pay for {s}?", "what (do|did) we pay for {s}?")),
    _m("place gathering trip device", "people", ("{s} has room for {v}", "{v} (fit into|can join|are allowed in) {s}", "at most {v} (can use|take part in|come to) {s}"), ("how many (people |)(fit into|can join|are allowed in) {s}?", "for how many (people |)(is there room in {s}|does {s} have room)?", "how many (can use|take part in|come to) {s}?")),
    _m("computer place device trip", "code", ("{s} has the {c} {v}", "the {c} (on|of|for) {s} is {v}", "{s} is listed under the {c} {v}"), ("(what is|what's) the {c} (of|on|for) {s}?", "(which|what) {c} does {s} have?", "under (what|which) {c} is {s} listed?", "tell me the {c} of {s}."), "serial_number inventory_number label room_number port booking_code article_number order_number plate gate platform"),
    _m("stuff", "ratio", ("mix {s} {v}", "{s} is mixed {v}", "for {s}, take {v}", "{s} consists of {v}"), ("how do I mix {s}?", "how is {s} mixed?", "what (does {s} consist of|do I take for {s})?", "in (what|which) ratio (is {s} mixed|do I mix {s})?")),
    _m("stuff living device", "amount", ("{s} (needs|gets|takes) {v} of {o}", "give {s} {v} of {o}", "(use|add) {v} of {o} (for|to) {s}"), ("how much {o} does {s} (need|get|take)?", "how much {o} (do I give|goes into|is right for) {s}?", "(what|which) amount of {o} does {s} (need|get|take)?")),
    _m("device computer place", "date", ("the {c} (of|for) {s} (ends|runs out) on {v}", "{s} has (a|its) {c} until {v}", "until {v} there is a {c} for {s}"), ("when does the {c} (of|for) {s} (end|run out)?", "until when (is there|does {s} have) a {c}( for {s}|)?", "how long is the {c} (of|for) {s}?"), "warranty licence contract lease permit subscription guarantee"),
    _m("device computer place living", "date", ("{s} was {c} on {v}", "on {v} {s} was {c}", "(we had|they have) {s} {c} on {v}"), ("when was {s} {c}?", "on which (day|date) was {s} {c}?", "when did we have {s} {c}?"), "bought installed repaired checked delivered replaced insured moved weighed vaccinated built"),
    _m("work gathering", "date", ("{s} (is due|must be finished|has to be ready|ends) (on |by ){v}", "the (deadline|last day) (for|of) {s} is {v}"), ("when (is|must) {s} (due|be finished|ready)?", "(what is|what's|when is) the (deadline|last day) (for|of) {s}?", "until when (do we have time for|must we finish) {s}?")),
    _m("work computer", "spot", ("the files (of|for) {s} are {v}", "{s} is (stored|saved|kept) {v}", "we keep {s} {v}"), ("where are the files (of|for) {s}?", "where is {s} (stored|saved|kept)?", "where do we keep {s}?")),
    _m("trip", "clock", ("{s} (leaves|departs|goes) at {v}", "departure of {s}: {v}"), ("(when|at what time) does {s} (leave|depart|go)?", "(what time|when) is the departure of {s}?")),
    _m("trip", "clock", ("{s} (arrives|gets in|is back) at {v}", "arrival of {s}: {v}"), ("(when|at what time) (does {s} arrive|is {s} back)?", "(what time|when) is the arrival of {s}?")),
    _m("living place device", "thing", ("{s} is {c} {v}", "they have {s} {c} {v}"), ("what is {s} {c}?", "(which|what) thing is {s} {c}?"), "filled_with made_of covered_with fed_with cleaned_with painted_with kept_in"),
    _m("*", "thing", ("the {o} of {s} is {v}", "{s} has {v} as its {o}", "as (for|to) the {o} of {s}: {v}", "{s}, {o}: {v}"), ("(what is|what's) the {o} of {s}?", "(which|what) {o} does {s} have?", "(what is|what's) {s}'s {o}?", "tell me the {o} of {s}.")),
    _m("*", "anything", ("the {o} of {s} (is|was|stays) {v}", "{s} has the {o} {v}", "{o} of {s}: {v}"), ("(what is|what's|what was) the {o} of {s}?", "(which|what) {o} does {s} have?", "I need the {o} of {s}.", "do you know the {o} of {s}?")),
    _m("*", "thing", ("{s} {b}s {v}", "{s} (always|often|mostly) {b}s {v}", "what {s} {b}s is {v}"), ("what does {s} {b}?", "(which|what) (thing |)does {s} {b}?", "do you know what {s} {b}s?")),
    _m("*", "person", ("{v} {b}s {s}", "{s} was {b}ed by {v}", "it was {v} who {b}ed {s}"), ("who {b}(s|ed) {s}?", "by whom was {s} {b}ed?", "who was it that {b}ed {s}?")),
    _m("*", "moment", ("(they|we) {b} {s} (on |){v}", "{s} is {b}ed (on |){v}"), ("when (is {s} {b}ed|do we {b} {s}|do they {b} {s})?", "on which day is {s} {b}ed?")),
    _m("*", "place", ("(they|we) {b} {s} in {v}", "{s} is {b}ed in {v}"), ("where (is {s} {b}ed|do we {b} {s}|do they {b} {s})?", "in (which|what) (town|place) is {s} {b}ed?")),
)  # fmt: skip

# What is told in passing in a conversation, about oneself; quoted as "You said: …". A choice is "past/infinitive".
TOLD = (
    _m("device place stuff", "place", ("I {c} {s} (in|at) {v} (last week|on Monday|yesterday)(, finally|)", "it was in {v} that I {c} {s}", "in {v} I {c} {s}"), ("where did I {i} {s}?", "in which place did I {i} {s}?"), "bought/buy found/find sold/sell lost/lose repaired/repair saw/see left/leave"),
    _m("device stuff living work", "money", ("I paid {v} for {s}(, which was a lot|)", "{s} cost me {v}", "in the end I paid {v} for {s}"), ("how much did I pay for {s}?", "what did {s} cost( me|)?", "what did I pay for {s}?")),
    _m("device stuff living work", "money", ("I sold {s} for {v}", "I got {v} for {s}( when I sold it|)"), ("for how much did I sell {s}?", "how much did I get for {s}?")),
    _m("gathering trip work", "person", ("I went to {s} with {v}( and it was great|)", "{v} came with me to {s}"), ("who did I go to {s} with?", "with whom did I go to {s}?", "who came with me to {s}?")),
    _m("gathering trip work", "person", ("I met {v} at {s}(, what a surprise|)", "at {s} I met {v}"), ("who did I meet at {s}?", "whom did I meet at {s}?")),
    _m("device stuff living", "person", ("{v} gave me {s} (for my birthday|as a present|last year)", "I got {s} from {v}"), ("who gave me {s}?", "from whom did I get {s}?", "who did I get {s} from?")),
    _m("device stuff living", "person", ("I borrowed {s} from {v}( for the weekend|)", "{s} is borrowed from {v}"), ("from whom did I borrow {s}?", "who did I borrow {s} from?", "whose is {s} that I borrowed?")),
    _m("work gathering trip", "moment", ("I (have to|need to|want to) {c} {s} {v}", "{v} I have to {c} {s}"), ("when (do I have to|do I need to|do I want to) {c} {s}?", "when will I {c} {s}?"), "finish prepare see join present cancel leave"),
    _m("work gathering trip", "moment", ("{s} got moved to {v}(, sadly|)", "they moved {s} to {v}"), ("to when (did they move {s}|was {s} moved)?", "when is {s} now?")),
    _m("device place computer", "thing", ("I {c} {s} with {v}(, which worked|)", "with {v} I {c} {s}"), ("with what did I {i} {s}?", "what did I {i} {s} with?", "what did I use to {i} {s}?"), "repaired/repair cleaned/clean fixed/fix painted/paint filled/fill covered/cover"),
    _m("living device work stuff", "duration", ("I have had {s} for {v}( now|)", "it is {v} that I have had {s}"), ("how long have I had {s}?", "for how long have I had {s}?")),
    _m("living device work stuff", "duration", ("I spent {v} on {s}", "{s} kept me busy for {v}"), ("how long did I spend on {s}?", "how long did {s} keep me busy?")),
    _m("*", "thing", ("I {b}ed {s} with {v}( last weekend|)", "when I {b}ed {s} I used {v}"), ("with what did I {b} {s}?", "what did I {b} {s} with?", "what did I use (when I {b}ed|to {b}) {s}?")),
    _m("*", "place", ("I {b}ed {s} in {v}( last summer|)", "it was in {v} that I {b}ed {s}"), ("where did I {b} {s}?", "in which place did I {b} {s}?")),
    _m("*", "moment", ("I {b}ed {s} (on |){v}", "I will {b} {s} (on |){v}"), ("when (did|will) I {b} {s}?", "on which day (did|will) I {b} {s}?")),
    _m("*", "anything", ("the {o} of {s} (that |)I (told you about|mentioned|talked about) is {v}", "I (wrote down|noted|looked up) the {o} (of|for) {s}: {v}"), ("what did I say the {o} of {s} (is|was)?", "what is the {o} of {s}?", "which {o} did I write down for {s}?")),
)  # fmt: skip

OBJECTS = values.listed(
    "manual filter charger cable lamp spare receipt remote oil fuse switch valve cover handle ladder label brush tank hose sensor battery lid basket tray rack timer plan list map log folder colour size weight length width height brand material age owner sponsor motto logo address alarm code number floor entrance exit door window roof insurance rate limit version branch host port domain format font theme topic title author chapter sugar salt water flour milk sand lime powder feed fertiliser bark honey vinegar pepper thread wool paper tape string nails screws paint gloves keys tickets vouchers invoices drawings samples photos minutes"
)
VERBS_HERE = values.listed(
    "repair paint order collect deliver borrow test review sign answer design print record weld fill lift load pack plant visit inspect adjust attach open start warm"
)


def made_up_verb(random: Random) -> str:
    """A verb to which -s and -ed can be added."""
    while True:
        word = values.made_up_word(random, 1, 2)
        if word.isascii() and word.isalpha() and word[-1] in "klmnprt" and len(word) > 3:
            return word


def thing(random: Random, kind: str) -> str:
    """What a line is about, with its article: "the boiler", "the dravel pump", "Tessa's cabin"."""
    noun = random.choice(KINDS[kind]) if random.random() < 0.75 else values.made_up_word(random, 2, 3)
    how = random.random()
    if how < 0.45:
        return f"the {noun}"
    if how < 0.6:
        return f"the {random.choice(values.ADJECTIVES)} {noun}"
    if how < 0.72:
        return f"the {values.made_up_word(random, 1, 2)} {noun}"
    if how < 0.8:
        return f"the {noun} in {values.place(random)}"
    if how < 0.88:
        return f"{values.first_name(random)}'s {noun}"
    return f"the {random.choice(values.NOUNS)} {noun}"


@dataclass(frozen=True)
class Line:
    """One sentence, and what it answers. `told` lines are the user's own words, the others stand in documents."""

    matter: Matter
    about: str
    object: str
    verb: str
    value: str
    choice: str
    sentence: str
    told: bool = False

    @property
    def topic(self) -> str:
        """What must be different between two lines that stand side by side."""
        own = self.object if any("{o}" in ask for ask in self.matter.asks) else ""
        own += self.verb if any("{b}" in ask for ask in self.matter.asks) else ""
        return f"{self.about}: {own} {self.choice} {self.matter.asks[0][:12] if not own else ''}"

    def is_like(self, other: Line) -> bool:
        """True if a question for one may be meant for the other."""
        if self.about != other.about:
            return False
        return self.topic == other.topic or bool(
            not self.choice and self.matter.value == other.matter.value and self.verb == other.verb
        )

    def question(self, random: Random, split: Split) -> str:
        """A question that the sentence answers."""
        text = fill(wording(random, self.matter.asks, split), self.about, self.object, self.verb, self.choice)
        frame = random.random()
        if frame < 0.12 and text.endswith("?"):
            text = (
                random.choice(
                    ("hey, ", "quick question: ", "tell me, ", "ok, ", "hi! ", "and ", "one more thing: ")
                )
                + text
            )
        text = text[:1].upper() + text[1:] if random.random() > 0.12 else text
        return text.rstrip("?.") if random.random() < 0.1 else text

    def answer(self) -> str:
        """The sentence, and where it is from."""
        return f'You said: "{self.sentence}"' if self.told else f"Your notes say: {self.sentence}"


def fill(template: str, about: str, thing_: str, verb: str, choice: str, value: str = "") -> str:
    """The template with its slots filled."""
    past, _, infinitive = choice.partition("/")
    slots = (
        ("{s}", about),
        ("{o}", thing_),
        ("{b}", verb),
        ("{c}", past),
        ("{i}", infinitive),
        ("{v}", value),
    )
    for slot, text in slots:
        template = template.replace(slot, text)
    return template


def make_line(
    random: Random,
    split: Split,
    *,
    about: str = "",
    kind: str = "",
    matter: Matter | None = None,
    told: bool = False,
) -> Line:
    """A line about a thing, or about a new one. Raises NoWordingError."""
    table = TOLD if told else MATTERS
    if matter is None:
        fitting = [one for one in table if not kind or kind in one.kinds]
        matter = random.choice(fitting or table)
    kind = kind if kind in matter.kinds else random.choice(matter.kinds)
    about = about or thing(random, kind)
    object_ = random.choice(OBJECTS) if random.random() < 0.6 else values.made_up_word(random, 1, 3)
    verb = random.choice(VERBS_HERE) if random.random() < 0.5 else made_up_verb(random)
    value = values.fresh(random, values.MAKERS[random.choice(matter.value)], split.values_held_out)
    choice = random.choice(matter.choices)
    sentence = fill(wording(random, matter.says, split), about, object_, verb, choice, value)
    sentence = sentence[:1].upper() + sentence[1:] + "."
    return Line(matter, about, object_, verb, value, choice, sentence, told)


def told_line(random: Random, split: Split) -> Line:
    """Something that the user told in passing."""
    return make_line(random, split, told=True)


def document(random: Random, split: Split, most_lines: int) -> tuple[Note, list[Line]]:
    """A passage about one thing or a few, with as many lines as asked for at most, and the lines in it."""
    kind = random.choice(ALL)
    about = thing(random, kind)
    lines: list[Line] = []
    for _ in range(random.randint(1, max(1, most_lines))):
        try:
            if random.random() < 0.7:
                line = make_line(random, split, about=about, kind=kind)
            elif lines and random.random() < 0.6:
                # The same matter of another thing: what is easily mistaken.
                line = make_line(random, split, matter=random.choice(lines).matter)
            else:
                line = make_line(random, split)
        except NoWordingError:
            continue
        if not any(line.is_like(other) for other in lines):
            lines.append(line)
    if not lines:
        return document(random, split, most_lines)
    for place, line in enumerate(lines):
        if place and line.about == about == lines[place - 1].about and random.random() < 0.2:
            # As people write on: "The pump …. It …".
            start = f"{about[:1].upper()}{about[1:]} "
            if line.sentence.startswith(start):
                lines[place] = replace(line, sentence=f"It {line.sentence.removeprefix(start)}")
    texts = [line.sentence for line in lines]
    for _ in range(random.choice((0, 0, 0, 1, 1, 2, 3)) if most_lines > 1 else 0):
        texts.insert(random.randrange(len(texts) + 1), chatter(random, 1))
    name = re.sub(r"^the ", "", about)
    heading = name[:1].upper() + name[1:]
    body = layout(random, texts)
    text = f"# {heading}\n\n{body}" if random.random() < 0.55 else body
    title = (
        heading if random.random() < 0.7 else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "note"
    )
    date = f"{random.randint(2015, 2026)}-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"
    return Note(title, text, date if random.random() < 0.3 else ""), lines


def layout(random: Random, texts: Sequence[str]) -> str:
    """Sentences as a paragraph, as several, or as a list."""
    kind = random.random()
    if kind < 0.6:
        return " ".join(texts)
    if kind < 0.75:
        return "\n\n".join(texts)
    mark = random.choice(("- ", "* ", "", "• "))
    return "\n".join(f"{mark}{text}" for text in texts)


# --- beside the point ------------------------------------------------------------------------------------

CHATTER = (
    "(yesterday|last week|on Sunday|this morning) {p} and I (went|drove|walked) to {c} to see (the |a ){j} {n}", "(that|this|it) (sounds|looks|is) (really |so |pretty |)(great|lovely|awful|interesting|fun), {p}", "how was the {n}( in {c}|)", "(I'm|I am|we're) (so |really |)(glad|happy|sorry|excited) about the {n}",
    "(my|our) {n} (broke|fell down|got lost|was stolen) (again|yesterday|on the way to {c})", "{p} (says|thinks|told us) that the {j} {n} is (too |)(expensive|old|small|good)", "(have|did) you ever (try|see|hear about) (a |the |){j} {n}", "I (really |)(think|hope|guess) (we|they) will (find|get|need) a {n}( soon|)",
    "the {n} was (full of|next to|covered with) {n2} and {n3}", "{p} lives in {c} with (a |two |three ){n}s", "{p}'s (sister|brother|dog|boss|cat) is called {p2}", "{p} works as a {o} (in|near) {c}", "{p} is {d} (years old|now) and (loves|hates) {n}", "(it took|we needed) {d} (minutes|hours|days) (to get|from) there",
    "(there are|we saw|they had) {d} {n}s (in|at) the {n2}", "(wow|oh|yes|no|well|hm), (that's|that is|it is) (quite |)(a {n}|something|nice|a pity)", "(take care|see you|talk to you) (soon|later|tomorrow), {p}", "(thanks|thank you), {p}( so much|), (I appreciate it|that means a lot)", "(any|do you have) plans for the (weekend|summer|evening|{n})",
    "(the weather|the food|the music) in {c} was (great|terrible|so-so)", "we (talked|argued|laughed) about {n} and {n2} (all night|for hours|the whole way)", "(what|which) (kind of |){n} (was it|do you mean|did they have)", "I (could|would) never (eat|buy|use) a {j} {n}", "(remember|forget) the {n} (from|in) {c}", "(a friend|a neighbour|my colleague) of (mine|ours) has (a |the same ){j} {n}",
    "{w} {w2} {n} {w3}", "(it is|it was) about {j} {n2} and the {w} of {c}", "{p} (painted|wrote|built|sold) a {n} for {p2}", "(the|that) {n} (means|meant) (a lot|nothing|much) to {p}", "(we|they) (might|may|should) (go|come) to {c} (in|by) {m}",
)  # fmt: skip
REPLIES = (
    "(sure|of course|certainly|great question|absolutely)! (here are|here is|these are|let me list) (some|a few|{d}) (ideas|tips|steps|options) for (a |your |the ){j} {n}", "(first|next|then|finally), (take|put|check|open|clean|choose) the {n} (and|before you) (add|remove|try) the {n2}", "(a|the) {n} (usually |often |)(has|needs|costs|takes) {d} {n2}s",
    "(it's|it is) (important|best|a good idea) to (keep|check|use|avoid) the {j} {n}", "in {c}, (people|many|most) (like|use|prefer) {n} with {n2}", "the {n} is (a |an |){j} (kind of|sort of|type of) {n2}", "(let me know|tell me) if you (need|want) (more|help|examples)( about {n}|)", "(you could|you can|try to|I would) (start|begin) with (a |the |){n}",
    "(in short|overall|in summary), (a |the ){n} (works|is better|is worth it) when (the |){n2} is {j}", "{d} (grams|ml|pieces) of {n} (are|is) enough for {d} people", "(I hope|hopefully) (this|that) helps with (the|your) {n}",
)  # fmt: skip


def chatter(random: Random, sentences: int, templates: Sequence[str] = CHATTER) -> str:
    """Sentences that answer nothing about the user."""
    found = []
    for _ in range(sentences):
        text = expand(random.choice(templates), random)
        ends = (
            ".!" if not text.startswith(("how ", "have ", "did ", "what ", "which ", "any ", "do ")) else "?"
        )
        text = re.sub(
            r"\{([a-z]\d?)\}",
            lambda slot: FILLERS[slot[1][0]](random),
            text,
        )
        found.append(text[:1].upper() + text[1:] + (random.choice(ends) if random.random() < 0.95 else ""))
    return " ".join(found)


FILLERS = {
    "p": values.first_name,
    "c": values.place,
    "j": lambda random: random.choice(values.ADJECTIVES),
    "n": lambda random: random.choice(values.NOUNS) if random.random() < 0.8 else values.made_up_word(random),
    "w": values.made_up_word,
    "o": values.occupation,
    "d": lambda random: str(random.randint(2, 400)),
    "m": lambda random: random.choice(values.MONTHS),
}


def reply_chatter(random: Random, sentences: int) -> str:
    """What an assistant or another person answered."""
    return chatter(random, sentences, REPLIES if random.random() < 0.6 else CHATTER)
