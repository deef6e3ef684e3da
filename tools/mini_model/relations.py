# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""What people tell and ask: for every kind of fact its statements, questions, key and answer.

Texts are templates: `(a|b|)` chooses, `{v}` is the value, `{x}` the thing it belongs to (a dog, a colour).
`say` are clauses (lower case unless "I"), `ask` whole questions, `that` clauses after "can you tell me".
A relation with `key` is stored as a fact, one without as a question and answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from random import Random

from paraphrases import PARAPHRASES, Paraphrases
from values import listed

__all__ = ["COMPOUNDS", "RELATIONS", "Relation", "expand"]

CHOICE = re.compile(r"\(([^()]*)\)")


def expand(template: str, random: Random) -> str:
    """The template with one alternative taken in every bracket, innermost first."""
    while match := CHOICE.search(template):
        template = template[: match.start()] + random.choice(match[1].split("|")) + template[match.end() :]
    return template


@dataclass(frozen=True)
class Relation:
    """One kind of fact. `question` is how extraction names it when it is not a fact with a key."""

    name: str
    answer: str
    value: str
    ask: tuple[str, ...]
    that: tuple[str, ...]
    say: tuple[str, ...]
    key: str = ""
    aliases: tuple[str, ...] = ()
    question: str = ""
    slots: tuple[str, ...] = ()
    made_up_slots: float = 0.0
    weight: float = 1.0


SINCE = "(||||||| since {year}| for {n} years| these days| now| at the moment| with my family| again)"
# fmt: off
ANIMALS = listed(
    "dog cat hamster parrot horse rabbit turtle goat kitten puppy fish bird goldfish pony snake"
)
PEOPLE = listed(
    "brother sister wife husband son daughter boss friend mother father neighbor partner teacher "
    "roommate cousin aunt uncle grandmother grandfather girlfriend boyfriend mom dad colleague manager "
    "niece nephew dentist doctor therapist landlord coach mentor"
)
THINGS = listed(
    "boat car bike robot server band street house guitar"
)
FAVORITES = listed(
    "color food drink movie book song sport animal band city language game season number dish editor "
    "tool fruit snack tea team restaurant writer flower dessert podcast holiday vegetable planet beer "
    "colour artist singer actor show series author subject month day place country cake cheese pizza "
    "meal dinosaur"
)
GENERAL = ["email", "phone number", "timezone", "nationality", "laptop", "operating system", "bike", "door code", "gate code", "locker", "wifi name", "lucky number", "keyboard", "router", "postcode", "username", "bank", "license plate", "last name", "locker code", "blood type", "passport number", "zodiac sign", "motorcycle", "insurance", "badge id", "seat number", "weight", "middle name", "room number", "coffee order", "employee number", "order number", "flight number", "customer number", "gym", "printer", "camera", "major", "t-shirt size", "alarm time", "monitor", "website", "budget", "password hint", "ring size", "member number", "bus line", "train line", "gate", "apartment number", "parking spot", "hostname", "shell", "browser"]
OWNED = ["bikes", "cats", "dogs", "guitars", "sisters", "brothers", "siblings", "cousins", "plants", "chickens", "grandchildren", "cars", "keyboards", "shelves", "aunts", "uncles", "nieces", "nephews", "fish", "bees", "watches", "cameras", "tattoos", "housemates", "pupils", "employees", "stamps", "records", "pets", "roommates", "books", "windows", "goats", "sheep", "computers", "monitors"]
USES = {"bicycle": "ride", "motorbike": "ride", "scooter": "ride", "horse": "ride", "van": "drive", "truck": "drive", "tractor": "drive", "phone": "use", "laptop": "use", "tablet": "use", "computer": "use", "headset": "use", "camera": "use", "lens": "use", "kayak": "paddle", "boat": "sail", "telescope": "use", "oven": "use", "stove": "use", "coffee machine": "use", "guitar": "play", "piano": "play", "console": "play", "violin": "play", "watch": "wear", "perfume": "wear", "helmet": "wear", "newspaper": "read", "magazine": "read", "drone": "fly", "tent": "use", "knife": "use", "sewing machine": "use", "router": "use", "printer": "use", "pen": "write with", "racket": "play with", "board": "ride", "skis": "use", "tea": "drink", "cereal": "eat"}
PREFERENCES = ["IDE", "editor", "programming language", "shell", "theme", "browser", "font", "drink", "music", "framework", "database", "keyboard", "style", "layout", "tool", "phone", "format", "system", "library", "sauce", "coffee", "paper", "camera", "debugger", "wine", "linter", "notebook", "terminal", "seat", "tea", "temperature", "greeting", "plugin", "mattress", "bread", "milk", "pizza", "color scheme", "search engine", "file manager"]
EVENTS = listed(
    "meeting appointment lunch call interview dinner lesson date game rehearsal workshop"
)
VISITS = listed(
    "dentist doctor vet barber lawyer bank accountant therapist eye doctor"
)
RIDES = ["train", "flight", "bus", "ferry", "plane", "taxi", "boat"]
KEPT = ["keys", "passport", "spare keys", "charger", "wallet", "glasses", "umbrella", "tickets", "documents", "ladder", "tent", "toolbox", "medicine", "flashlight", "suitcase", "headphones", "bike pump", "recipe book", "gift", "spare key", "diary"]

FACTS = (
    Relation(
        "name", "Your name is {v}.", "person", weight=4, key="name",
        aliases=("user_name", "full_name", "first_name"),
        ask=("(what is|what's) my (|own |full |first )name?", "who am I?", "what am I called?",
             "what do (people|you|they|others) call me?", "(which|what) name did I (give|tell) you?",
             "I forgot my (own |)name. what is it?", "what (is|was) my name again?", "how am I called?",
             "how should you (call|address) me?", "my name is what?", "what should you call me?"),
        that=("what my name is", "my name", "my (full |first |)name", "who I am", "what I am called",
              "what I'm called", "how I am called", "what people call me", "what my name was"),
        say=("my name is {v}", "my name's {v}", "I'm {v}", "I am {v}", "(please |)call me {v}",
             "you (can|may|should) call me {v}", "(people|my friends|most people|everybody|everyone|they) "
             "(call|calls) me {v}", "I (go by|am called|am known as|get called) {v}", "this is {v}",
             "{v} is my name", "{v} here", "name's {v}", "the name is {v}", "the name's {v}",
             "my (first |full |)name is {v}", "I (introduce myself|present myself) as {v}",
             "(it's|it is) {v} (speaking|here|again)"),
    ),
    Relation(
        "location", "You live in {v}.", "place", weight=4, key="location",
        aliases=("city", "home", "home_city", "lives_in", "residence", "town"),
        ask=("where do I live( now| these days| at the moment|)?", "where am I (living|based|located)(| now)?",
             "(what|which) (city|town|place|country) (do I live in|am I in|is my home|am I living in)?",
             "(what is|what's) my (location|home|city)?", "where is my home?", "where's my home?",
             "where did I (move|relocate) to?", "in (what|which) (city|town|place) do I live?",
             "where did I say I live?", "what (city|town|place) do I call home?"),
        that=("where I live", "where I am living", "where I'm based", "(what|which) (city|town|place) I live in",
              "where my home is", "my location", "where I moved to", "where I (am|am located|reside)"),
        say=(f"I live in {{v}}{SINCE}", f"I'm living in {{v}}{SINCE}", f"I am based in {{v}}{SINCE}",
             "I('ve| have|) (just |recently |)(moved|relocated) to {v}(| last year| last month| in {year}| for work)",
             "(my home|our home|my house|my apartment|my place) is in {v}", "I reside in {v}",
             f"(I've|I have|we've|we have) (been living|lived) in {{v}}{SINCE}", f"we live in {{v}}{SINCE}",
             "(I|we) settled (down |)in {v}(| last year| in {year})", "(I am|I'm) (a resident of|at home in) {v}",
             "home is {v}( for me|)", "(I|we) (just |)(moved|relocated) (here |)to {v}", "{v} is (my home|where I live)",
             "my (current |)(city|location|town) is {v}", "I (bought|rent|have) a (house|flat|apartment) in {v}",
             "I (now |currently |still )live in {v}", "I('ve| have|) moved from {p} to {v}(| last year| in {year})", "I left {p} and (now live|live now) in {v}"),
    ),
    Relation(
        "occupation", "You work as a {v}.", "occupation", weight=2.5, key="occupation",
        aliases=("job", "profession", "work", "job_title"),
        ask=("what do I do for (a living|work)?", "(what is|what's) my (job|occupation|profession|job title)?",
             "what (do I work|am I working) as?", "(what|which) (job|profession) do I have?", "what kind of work do I do?",
             "what work do I do?", "how do I earn my (money|living)?", "what do I do (all day |)at work?"),
        that=("what I do for (a living|work)", "what my (job|occupation|profession) is", "my (job|occupation|profession)",
              "what I work as", "which job I have", "what kind of work I do"),
        say=(f"I (work|am working|'m working) as (a|an) {{v}}{SINCE}", "(I am|I'm) (a|an) {v}(| by profession| by trade)",
             "my (job|profession|occupation|job title) is {v}", "I (make|earn) my (living|money) as (a|an) {v}",
             "I (got|found|have) (a job|work) as (a|an) {v}", "I (started|began) (working |)as (a|an) {v}(| last week| in {year})",
             "for a living I am (a|an) {v}", "I (was hired|got hired|retrained|trained) as (a|an) {v}",
             "(by profession|at work) I am (a|an) {v}", "I work as (a|an) {v} in a (big |small |)(company|hospital|office|town)"),
    ),
    Relation(
        "employer", "You work at {v}.", "company", weight=2, key="employer",
        aliases=("company", "workplace", "works_at", "works_for"),
        ask=("where do I work?", "(who|what) is my employer?", "(which|what) (company|firm) do I work (for|at)?",
             "who do I work for?", "at (which|what) company am I employed?", "who employs me?", "where am I employed?",
             "who's my employer?", "where am I working?", "whom do I work for?"),
        that=("where I work", "who I work for", "who my employer is", "my employer",
              "(which|what) company I work (for|at)", "where I am employed"),
        say=(f"I work (for|at) {{v}}{SINCE}", f"I'm (employed|working) (at|by|for) {{v}}{SINCE}", "my employer is {v}",
             "I (have|got|found) a job (at|with) {v}", "I (just |recently |)(started|joined) (at |working at |)(the company |){v}",
             "my company is (called |){v}", "I (was hired|got hired) by {v}", "my (boss|office) is at {v}",
             "the company I work (for|at) is (called |){v}", "(I've|I have) been (with|at) {v} (since {year}|for {n} years)"),
    ),
    Relation(
        "age", "You are {v} years old.", "age", weight=2, key="age", aliases=("years_old", "user_age"),
        ask=("how old am I?", "(what is|what's) my age?", "how many years old am I?", "my age is what?", "how old did I say I am?"),
        that=("how old I am", "my age", "what my age is", "what age I am"),
        say=("I am {v} years old", "I'm {v} years old", "I (just |have just |'ve just |)turned {v}(| last week| yesterday| in May)",
             "my age is {v}", "I am {v}", "I'm {v}", "I (will be|became) {v} (this year|last week)", "I'm {v} (now|already)",
             "at {v} (years |)I am not (so |)young any more", "I am {v} (years of age|now|today)"),
    ),
    Relation(
        "birthday", "Your birthday is {v}.", "date", weight=2, key="birthday",
        aliases=("date_of_birth", "birth_date", "born"),
        ask=("when (is|'s) my birthday?", "when's my birthday?", "when was I born?", "(what is|what's) my (birthday|birth date|date of birth)?",
             "(what|which) (day|date) is my birthday?", "on (what|which) (day|date) is my birthday?", "when do I (have|celebrate) my birthday?"),
        that=("when my birthday is", "my birthday", "when I was born", "my date of birth", "the date of my birthday"),
        say=("my birthday is (on |){v}", "I was born (on |){v}", "my birthday falls on {v}", "I (have|celebrate) my birthday on {v}",
             "my (date of birth|birth date) is {v}", "{v} is my birthday", "I turn a year older on {v}", "my birthday's {v}"),
    ),
    Relation(
        "favorite", "Your favorite {x} is {v}.", "thing", weight=5, key="favorite_{x}", slots=tuple(FAVORITES), made_up_slots=0.2,
        aliases=("favourite_{x}", "fav_{x}", "preferred_{x}"),
        ask=("(what is|what's) my (favorite|favourite|fave) {x}?", "(which|what) {x} do I (like|love) (best|most|the most)?",
             "(which|what) {x} is my (favorite|favourite)?", "what is the {x} I (like|love) (best|most)?",
             "my (favorite|favourite) {x} is what?", "what (did I say |)(was|is) my (favorite|favourite) {x}(| again)?"),
        that=("what my (favorite|favourite) {x} is", "my (favorite|favourite) {x}", "(which|what) {x} I (like|love) (best|most|the most)",
              "the {x} I like (best|most)"),
        say=("my (all-time |absolute |)(favorite|favourite|fave) {x} is (definitely |probably |){v}", "the {x} I (like|love) (best|most|the most) is {v}",
             "{v} is (my|definitely my|still my) (favorite|favourite) {x}", "my (favorite|favourite) {x} has always been {v}",
             "(of all|among all) {x}s I (like|love) {v} (best|most)", "{v} is the {x} (that |)I (love|like) (most|best)",
             "I think {v} is the best {x}", "if I had to pick a (favorite |){x} it would be {v}", "as for {x}s, {v} is my (favorite|favourite)"),
    ),
    Relation(
        "called", "Your {x} is called {v}.", "person", weight=5, key="{x}_name", slots=tuple(ANIMALS * 2 + PEOPLE * 2 + THINGS),
        made_up_slots=0.06, aliases=("{x}", "name_of_{x}", "{x}s_name"),
        ask=("(what is|what's) my {x} called?", "(what is|what's) the name of my {x}?", "(what is|what's) my {x}'s name?", "who is my {x}?",
             "who's my {x}?", "how is my {x} called?", "what name does my {x} have?", "what did I (name|call) my {x}?",
             "what do I call my {x}?", "my {x}'s name is what?", "what (was|is) my {x}'s name(| again)?",
             "remember my {x}? what's (his|her|its) name?", "remember my {x}? what do I call (him|her|it)?"),
        that=("what my {x} is called", "my {x}'s name", "the name of my {x}", "how my {x} is called", "who my {x} is",
              "what my {x}'s name is", "what I call my {x}"),
        say=("my {x} is called {v}", "my {x}'s name is {v}", "my {x} goes by {v}", "I have (a|an) {x} (called|named) {v}",
             "the name of my {x} is {v}", "my {x} is named {v}", "(we|I) (named|called) (our|my) {x} {v}",
             "(we|I) (got|have|adopted|have got|bought) a (new |little |)({x}) (named|called) {v}", "my {x} {v} (is|sleeps|lives) here (today|now|with us)",
             "my {x} {v} (works|lives|grew up|is staying|has moved|was born|studies) (in|near|at|to) {p}", "my {x} {v} (plays|likes|wants|hates|makes|sells) (tennis|chess|music|soup|books|games)",
             "my {x} {v} and I (had lunch|went for a walk|live together|say hello)", "{v} is (the name of my|my) {x}",
             "my {x} (answers|listens) to {v}", "(everybody calls|we call) my {x} {v}", "I met my {x} {v} today"),
    ),
    Relation(
        "general", "Your {x} is {v}.", "anything", weight=6, key="{x}", slots=tuple(GENERAL), made_up_slots=0.35,
        aliases=("my_{x}", "user_{x}", "{x}"),
        ask=("(what is|what's) my {x}?", "which {x} do I have?", "my {x} is what?", "what did I say my {x} (is|was)?",
             "what (is|was) my {x} again?", "I forgot my {x}. what is it?", "(please |)give me my {x}(| please)?", "I need my {x}.",
             "what {x} do I have?", "what is the {x} I have?", "(what is|what's|what was) the {x}( again|)?"),
        that=("what my {x} is", "my {x}", "which {x} I have", "what my {x} was", "what {x} I have", "the {x}", "what the {x} is"),
        say=("my {x} is (now |){v}", "my new {x} is {v}", "{v} is (now |)my (new |){x}", "the {x} I have is {v}", "my {x}: {v}",
             "I have a new {x}, it is {v}", "they gave me a new {x}, it's {v}", "my {x} was changed to {v}", "my {x} has become {v}",
             "(as|for) my {x} (I have|I got|put down|write) {v}", "the {x} of mine is {v}", "(the|our) {x} is (now |){v}"),
    ),
    Relation(
        "amount", "You have {v} {x}.", "count", key="number_of_{x}", slots=tuple(OWNED), made_up_slots=0.15, weight=2,
        aliases=("{x}_count", "{x}", "n_{x}"),
        ask=("how many {x} do I (have|own)( now| in total|)?", "(what is|what's) the number of my {x}?", "how many {x} (did I say I have|are mine)?", "how many {x} have I got?", "do you know how many {x} I (have|own)?"),
        that=("how many {x} I (have|own)", "the number of my {x}", "how many {x} I've got"),
        say=("I (have|own|have got|keep) {v} {x}( now| at home|)", "there are {v} {x} (in my family|at my place|at home)", "my {x} are {v} in number", "(we|I) have {v} {x} now", "I've got {v} {x}", "the number of my {x} is {v}"),
    ),
    Relation(
        "used", "Your {x} is a {v}.", "model_name", key="{x}", slots=tuple(USES), made_up_slots=0.0, weight=2.5,
        aliases=("my_{x}", "{x}_model", "{x}"),
        ask=("(which|what) {x} do I {y}( now| these days|)?", "what (kind of |)(a |){x} do I {y}?", "(what is|what's) my {x}?", "what {x} (is mine|am I using)?", "(which|what) {x} (do I have|is the one I {y})?", "what do I {y} as my {x}?"),
        that=("(which|what) {x} I {y}", "what {x} I have", "my {x}"),
        say=("I {y} a {v}( now|), that's my {x}", "my (new |){x} is a {v}", "as my {x} I {y} a {v}", "I (bought|got) a new {x}, a {v}", "the {x} I {y} is a {v}", "my {x} has been a {v} for years"),
    ),
    Relation(
        "allergy", "You are allergic to {v}.", "thing", key="allergy", aliases=("allergies", "allergic_to"), weight=1.5,
        ask=("what am I allergic to?", "(what is|what's) my allergy?", "am I allergic to (anything|something)?", "(which|what) (food|foods|things|stuff) am I allergic to?",
             "do I have (any|an) (allergies|allergy)?", "what can't I eat?", "what should I not eat?"),
        that=("what I am allergic to", "what I'm allergic to", "my allergy", "if I am allergic to anything", "which allergy I have"),
        say=("(I am|I'm) (very |badly |)allergic to {v}", "I have (an|a bad) allergy to {v}", "I (can't|cannot|must not) eat {v}(| because I am allergic|, I'm allergic)",
             "my allergy is {v}", "{v} (gives|give) me an allergy", "I get (sick|ill|a rash) from {v}", "I'm allergic to {v}, so please be careful",
             "I can't stand {v}, I am allergic to it"),
    ),
    Relation(
        "car", "You drive a {v}.", "model_name", key="car", aliases=("vehicle", "drives"),
        ask=("(what|which) (kind of |)car do I (drive|have|own)?", "(what is|what's) my car?", "what do I drive?", "(which|what) car is mine?"),
        that=("(what|which) car I (drive|have|own)", "my car", "what kind of car I drive", "what I drive"),
        say=(f"I drive (a|an) {{v}}{SINCE}", "my (new |)car is (a|an) {v}", "I (have|own|bought|just bought|got) (a|an) (new |){v} (car|as my car)",
             "I (go|get) to work in my {v}", "(we|I) (now |)have a car, (a|an) {v}", "(a|an) {v} is (my car|what I drive)"),
    ),
    Relation(
        "email", "Your email is {v}.", "email", weight=1.5, key="email", aliases=("email_address", "mail"),
        ask=("(what is|what's) my (email|email address|mail address|e-mail)?", "(which|what) email (address |)do I (have|use)?"),
        that=("my email(| address)", "what my email(| address) is", "which email I use"),
        say=("my (email|email address|mail|mail address) is {v}", "you can (reach|email|write) me at {v}", "write to me at {v}", "my email: {v}",
             "send (it|mail|everything) to {v}", "I use {v} as my email", "{v} is my (email|email address)", "mail me at {v}"),
    ),
    Relation(
        "phone", "Your phone number is {v}.", "phone_number", weight=1.2, key="phone_number", aliases=("mobile", "telephone"),
        ask=("(what is|what's) my (phone number|number|telephone number|mobile number)?", "(which|what) phone number do I have?",
             "(give|tell) me my (phone |)number(| please)?", "on which number can people call me?"),
        that=("my (phone|mobile|telephone) number", "what my (phone |)number is"),
        say=("my (phone |mobile |telephone |new phone |)number is {v}", "you can (call|reach|phone) me (on|at) {v}", "call me (on|at) {v}",
             "{v} is my (phone |mobile |)number", "(my phone|my mobile): {v}", "reach me on {v}"),
    ),
    Relation(
        "languages", "You speak {v}.", "language_list", key="languages", aliases=("language", "speaks", "spoken_languages"),
        ask=("(what|which) (language|languages) do I speak?", "(what are|which are) my languages?", "what do I speak at home?", "(what|which) languages can I speak?"),
        that=("(what|which) (language|languages) I speak", "my languages", "what languages I know"),
        say=("I speak {v}(| at home| at work|)", "(I can|I am able to) speak {v}", "my (mother tongue|native language|language) is {v}", "my languages are {v}",
             "at home we speak {v}", "I grew up speaking {v}", "I'm fluent in {v}"),
    ),
    Relation(
        "instrument", "You play the {v}.", "thing", key="instrument", aliases=("plays", "musical_instrument"),
        ask=("(what|which) instrument do I play?", "(what is|what's) my instrument?", "what do I play in the band?", "do I play an instrument?"),
        that=("(what|which) instrument I play", "my instrument", "if I play an instrument"),
        say=(f"I play the {{v}}{SINCE}", "my instrument is the {v}", "I (started|am learning|began) to play the {v}", "I play the {v} in a band", "the {v} is my instrument",
             "I (have been|'ve been) playing the {v}(| since {year}| for {n} years)", "I practise the {v} every day"),
    ),
    Relation(
        "hobby", "Your hobby is {v}.", "topic", key="hobby", aliases=("hobbies", "pastime", "interests"),
        ask=("(what is|what's) my hobby?", "(what are|which are) my hobbies?", "what do I do in my (free|spare) time?", "what do I do for fun?", "which hobby do I have?"),
        that=("what my hobby is", "my hobby", "what I do in my free time", "what I do for fun", "my hobbies"),
        say=("my hobby is {v}", "my (favorite |main |)(hobby|pastime) is {v}", "in my (free|spare) time I (do|enjoy|like) {v}", "I enjoy {v} as a hobby",
             "I'm really into {v}", "as a hobby I do {v}", "I spend my (weekends|evenings|free time) (on|with) {v}", "for fun I do {v}"),
    ),
    Relation(
        "nickname", "Your nickname is {v}.", "first_name", key="nickname", aliases=("nick", "short_name"), weight=0.7,
        ask=("(what is|what's) my nickname?", "(which|what) nickname do I have?", "what's my nick?"), that=("what my nickname is", "my nickname", "which nickname I have"),
        say=("my nickname is {v}", "my (friends|brothers|colleagues) gave me the nickname {v}", "my nick is {v}", "I have the nickname {v}", "{v} is my nickname"),
    ),
    Relation(
        "height", "You are {v} tall.", "measure", key="height", aliases=("size", "how_tall"), weight=0.8,
        ask=("how tall am I?", "(what is|what's) my height?", "how tall did I say I am?"), that=("how tall I am", "my height", "what my height is"),
        say=("(I am|I'm) {v} tall", "my height is {v}", "I stand {v} tall", "I measure {v}", "I'm {v} in height"),
    ),
    Relation(
        "shoe size", "Your shoe size is {v}.", "measure", key="shoe_size", aliases=("shoes", "shoesize"), weight=0.7,
        ask=("(what is|what's) my shoe size?", "which shoe size do I (have|wear)?", "what size (are my shoes|shoes do I wear)?"), that=("my shoe size", "what my shoe size is", "which shoe size I have"),
        say=("my shoe size is {v}", "I wear (shoe size|shoes in size|size) {v}", "my shoes are (a |)size {v}", "I take shoe size {v}"),
    ),
    Relation(
        "hometown", "You are from {v}.", "place", key="hometown", aliases=("origin", "from", "birthplace"),
        ask=("where (am I|do I come) from?", "(what is|what's) my (home town|hometown|birthplace)?", "where did I grow up?", "in which (town|city|country) (did I grow up|was I born)?", "where was I born?"),
        that=("where I (am|come) from", "where I'm from", "where I grew up", "my hometown", "where I was born"),
        say=("(I am|I'm) (originally |)from {v}", "I (come|came) from {v}", "I grew up in {v}", "I was (born|raised) in {v}", "my (home town|hometown) is {v}", "my family (is|comes) from {v}"),
    ),
    Relation(
        "school", "You went to {v}.", "company", key="school", aliases=("university", "college", "studied_at"),
        ask=("(which|what) (school|university|college) did I (go to|attend|visit)?", "where did I (study|go to school)?", "where do I study?", "(what is|what's) my (school|university)?"),
        that=("where I studied", "which school I went to", "my (school|university)", "where I went to school"),
        say=("I (went to|attended|go to) {v}(| school| university)", "I (studied|study) at {v}", "my (school|university|college) (is|was) {v}", "I (graduated from|finished) {v} (in {year}|)", "I got my degree (at|from) {v}"),
    ),
    Relation(
        "editor", "Your editor is {v}.", "model_name", key="editor", aliases=("code_editor", "text_editor", "ide"),
        ask=("(which|what) (code |text |)editor (do I use|am I using|do I have)?", "(what is|what's) my editor?", "what do I (edit|write) my code (in|with)?"),
        that=("which editor I use", "my editor", "what editor I use", "what I write my code with"),
        say=("I use {v} as my (code |text |)editor", "my (code |text |)editor is {v}", "I (write|edit) (all |)my code (in|with) {v}", "I (switched|moved|changed) to {v} as my editor", "{v} is my editor(| of choice)",
             "I (do|did) all my editing in {v}", "for editing I use {v}"),
    ),
    Relation(
        "system", "Your operating system is {v}.", "model_name", key="operating_system", aliases=("os", "system", "distro"),
        ask=("(which|what) (operating system|OS|system) (do I use|am I running|do I have|is on my computer)?", "(what is|what's) my (operating system|OS)?"),
        that=("which (operating system|OS) I use", "my operating system", "what OS I run"),
        say=("I (run|use) {v} as my (operating system|OS)", "my (operating system|OS) is {v}", "my (computer|laptop|machine|PC) runs {v}", "I (installed|run|have) {v} on (all my machines|my computer|my laptop)", "I switched my (computer|laptop) to {v}"),
    ),
    Relation(
        "programming", "You program in {v}.", "thing", key="programming_language", aliases=("codes_in", "coding_language"),
        ask=("(which|what) programming language do I (use|prefer|know|write)?", "what do I program in?", "what language do I (code|program) in?", "(what is|what's) my programming language?"),
        that=("which programming language I use", "what I program in", "my programming language"),
        say=("I (program|code|write code|develop) (mostly |mainly |)in {v}", "my (main |)programming language is {v}", "I use {v} for (programming|coding)", "I (write|do) everything in {v} when I code"),
    ),
    Relation(
        "diet", "Your diet is {v}.", "thing", key="diet", aliases=("eats", "food_rules"), weight=0.7,
        ask=("(what is|what's) my diet?", "what (kind of |)diet do I (follow|have)?", "how do I eat?"), that=("what my diet is", "my diet", "which diet I follow"),
        say=("my diet is {v}", "I follow a {v} diet", "I am on a {v} diet", "my doctor put me on a {v} diet"),
    ),
    Relation(
        "children", "You have {v} children.", "count", key="children", aliases=("kids", "number_of_children"),
        ask=("how many (kids|children) do I have?", "do I have (kids|children)?", "how many (kids|children) did I say I have?"), that=("how many (kids|children) I have", "if I have (kids|children)", "the number of my children"),
        say=("I have {v} (kids|children)", "we have {v} (kids|children)", "I am a (mother|father|parent) of {v} (kids|children)", "there are {v} (kids|children) in our family", "(my wife|my husband) and I have {v} (kids|children)"),
    ),
    Relation(
        "names of children", "Your children are called {v}.", "person_list", key="children_names", aliases=("kids_names", "names_of_children"),
        ask=("what are my (kids|children) called?", "what are the names of my (kids|children)?", "what are my (kids|children)'s names?", "who are my (kids|children)?"),
        that=("what my (kids|children) are called", "the names of my (kids|children)", "my (kids|children)'s names"),
        say=("my (kids|children) are (called|named) {v}", "the names of my (kids|children) are {v}", "we (called|named) our (kids|children) {v}", "our (kids|children) are {v}", "we have two (kids|children), {v}"),
    ),
    Relation(
        "age of", "Your {x} is {v} years old.", "age", weight=1.5, key="{x}_age", slots=tuple(ANIMALS + PEOPLE), aliases=("age_of_{x}", "{x}s_age"),
        ask=("how old is my {x}?", "(what is|what's) the age of my {x}?", "(what is|what's) my {x}'s age?"), that=("how old my {x} is", "the age of my {x}", "my {x}'s age"),
        say=("my {x} is {v} years old", "my {x} (just |)turned {v}", "my {x}'s age is {v}", "I have a {v} year old {x}", "my {x} is {v} now"),
    ),
    Relation(
        "birthday of", "Your {x}'s birthday is {v}.", "date", weight=1.5, key="{x}_birthday", slots=tuple(PEOPLE), aliases=("birthday_of_{x}", "{x}s_birthday"),
        ask=("when (is|'s) my {x}'s birthday?", "when was my {x} born?", "(what is|what's) my {x}'s birthday?", "when does my {x} have (his|her|a) birthday?"), that=("when my {x}'s birthday is", "my {x}'s birthday", "the birthday of my {x}"),
        say=("my {x}'s birthday is (on |){v}", "my {x} was born (on |){v}", "my {x} has (his|her|a) birthday on {v}", "the birthday of my {x} is {v}"),
    ),
    Relation(
        "address", "Your address is {v}.", "street_address", weight=1.5, key="address", aliases=("home_address", "street", "street_address"),
        ask=("(what is|what's|what was) my (home |street |full |)address( again|)?", "(which|what) street do I live (in|on)?", "at (which|what) address do I live?", "where exactly do I live?", "what address (did I give you|do I have)?",
             "(what is|what's) the address of my (house|home|flat)?", "(give|tell) me my (home |)address(| please)."),
        that=("my (home |street |)address", "what my (home |)address is", "which street I live (in|on)", "the address of my (house|flat|home)", "my address again"),
        say=("my (home |new |postal |full |)address is (now |){v}", "I live at {v}( now| these days|)", "(we|I) (just |)moved to {v}( last week| in {year}|)", "my (house|flat|apartment|place) is at {v}", "(please |)(send|deliver|ship) (it|everything|letters|the parcel) to {v}",
             "{v} is (my|our) (home |new |)address", "my address: {v}", "(write|note) down my address: {v}", "(you can|you will|you'll) find me at {v}", "I('m| am) (now |)at home at {v}", "(we|I) (live|are living|stay) at {v}", "home is at {v}"),
    ),
    Relation(
        "allergy of", "Your {x} is allergic to {v}.", "thing", weight=1, key="{x}_allergy", slots=tuple(PEOPLE), aliases=("{x}_allergic_to", "allergy_of_{x}"),
        ask=("what is my {x} allergic to?", "what's my {x} allergic to?", "(which|what) allergy does my {x} have?", "(what is|what's) my {x}'s allergy?", "what (can't|must not|cannot) my {x} eat?", "is my {x} allergic to (anything|something)?", "does my {x} have an allergy?"),
        that=("what my {x} is allergic to", "my {x}'s allergy", "which allergy my {x} has", "what my {x} (can't|cannot) eat"),
        say=("my {x} is (very |badly |also |)allergic to {v}", "my {x} has (an|a bad|a strong) allergy to {v}", "my {x} (can't|cannot|must not) eat {v}( because of an allergy|)", "my {x}'s allergy is {v}", "my {x} gets (sick|ill|a rash) from {v}",
             "{v} (makes|make) my {x} (sick|ill)", "my {x} is allergic, to {v}", "the allergy of my {x} is {v}", "(please note that |)my {x} (must|has to) avoid {v}"),
    ),
    Relation(
        "job of", "Your {x} works as a {v}.", "occupation", weight=1, key="{x}_occupation", slots=tuple(PEOPLE), aliases=("{x}_job", "{x}_profession", "occupation_of_{x}"),
        ask=("what does my {x} do( for a living| for work| at work|)?", "(what is|what's) my {x}'s (job|profession|occupation|work)?", "what does my {x} work as?", "what (kind of |)(work|job) does my {x} (do|have)?", "what is my {x} by profession?"),
        that=("what my {x} does( for a living|)", "my {x}'s (job|profession|work|occupation)", "what my {x} works as", "which job my {x} has"),
        say=("my {x} (works|is working) as (a|an) {v}", "my {x} is (a|an) {v}( by profession| by trade|)", "my {x}'s (job|profession|occupation) is {v}", "my {x} (became|was hired as|got a job as|found work as) (a|an) {v}", "my {x} (makes|earns) a living as (a|an) {v}",
             "my {x} has (a job|work) as (a|an) {v}", "(by profession|at work) my {x} is (a|an) {v}", "my {x}'s work is (that of|being) (a|an) {v}"),
    ),
    Relation(
        "home of", "Your {x} lives in {v}.", "place", weight=1, key="{x}_location", slots=tuple(PEOPLE), aliases=("{x}_city", "{x}_home", "home_of_{x}"),
        ask=("where does my {x} live( now|)?", "where is my {x} (living|based|at home)( now|)?", "(which|what) (city|town|place) does my {x} live in?", "where did my {x} move( to|)?", "where is my {x}'s (home|house|flat)?", "in (which|what) (city|town) does my {x} live?"),
        that=("where my {x} lives", "where my {x} (is living|moved to|is based|is at home)", "(which|what) (city|town) my {x} lives in", "my {x}'s (home|town|city)"),
        say=("my {x} lives in {v}( now| these days| with the family|)", "my {x} is (living|based|at home) in {v}", "my {x} (has |just |recently |)moved to {v}( last year| in {year}|)", "my {x} has a (house|flat|home) in {v}", "{v} is where my {x} lives", "my {x}'s (home|house|flat) is in {v}",
             "my {x} went to live in {v}", "my {x} (still |now |)(stays|resides) in {v}", "the (city|town) my {x} lives in is {v}"),
    ),
    Relation(
        "wake time", "You get up at {v}.", "clock", key="wake_up_time", aliases=("gets_up", "alarm"), weight=0.8,
        ask=("when do I (get|wake) up?", "what time do I (get|wake) up?", "(what is|what's) my wake-up time?"), that=("when I (get|wake) up", "what time I get up", "my wake-up time"),
        say=("I (always |usually |)(get|wake) up at {v}", "my alarm (rings|goes off) at {v}", "I have to (get|be) up at {v} (every day|)", "my day starts at {v}"),
    ),
    Relation(
        "team", "You support {v}.", "company", key="team", aliases=("supports", "football_team"), weight=0.8,
        ask=("(which|what) (team|club) do I support?", "(what is|what's) my team?", "who do I (cheer|root) for?"), that=("which (team|club) I support", "my team", "who I cheer for"),
        say=("I support {v}(| since {year})", "my (football |)team is {v}", "I'm a (big |)(fan|supporter) of the team {v}", "I (cheer|root) for {v}", "my club is {v}"),
    ),
)  # fmt: skip

CONTEXT = (
    Relation(
        "preference", "You {y} {v}.", "topic", weight=5, question="(What|Which) {x} does the user {y}?", slots=tuple(PREFERENCES), made_up_slots=0.25,
        ask=("(what|which) {x} do I {y}?", "what kind of {x} do I {y}?", "(what|which) {x} did I say I {y}?"), that=("(what|which) {x} I {y}", "what kind of {x} I {y}", "the {x} I {y}"),
        say=("as my {x} I {y} {v}", "I {y} {v} as my {x}", "when it comes to my {x} I {y} {v}", "for my {x} I {y} {v}", "I {y} {v} when it comes to {x}", "(talking about|concerning) {x}, I {y} {v}", "I {y} {v} for my {x}",
             "my choice of {x}: I {y} {v}", "I (really |mostly |usually |always ){y} {v} as (my |a |){x}"),
    ),
    Relation(
        "dislike", "You dislike {v}.", "thing", question="What does the user dislike?", weight=1.2,
        ask=("what do I (hate|dislike|not like)?", "what don't I like?", "what can't I stand?", "what (food |things |)do I (hate|dislike)?"), that=("what I (hate|dislike)", "what I don't like", "what I can't stand"),
        say=("I (hate|dislike|can't stand|don't like|cannot stand|really hate) {v}", "I'm not a fan of {v}", "{v} is not for me, I hate it", "I have always (hated|disliked) {v}"),
    ),
    Relation(
        "like", "You like {v}.", "thing", question="What does the user like?", weight=1.5,
        ask=("what do I (like|love|enjoy)?", "what (things |)do I (like|love)?", "what did I say I (like|love)?"), that=("what I (like|love)", "what I enjoy"),
        say=("I (like|love|enjoy|adore|really like|really love) {v}", "I'm a (big |)fan of {v}", "I am crazy about {v}", "I can't live without {v}", "I have always (liked|loved) {v}"),
    ),
    Relation(
        "working on", "You are working on {v}.", "topic", question="What is the user working on?", weight=1.5,
        ask=("what am I working on?", "(what|which) project am I (working on|doing)?", "what am I (building|making|doing) (right now|at the moment)?", "what is my (current |)project?"),
        that=("what I am working on", "which project I am working on", "what I'm building", "what my current project is"),
        say=("(I am|I'm) (currently |now |)working on {v}", "I'm (building|making) {v}", "my (current |)project is {v}", "at the moment I am (building|working on) {v}", "I started (working on|building) {v}(| last week)",
             "these days I work on {v}", "our team is working on {v}"),
    ),
    Relation(
        "learning", "You are learning {v}.", "topic", question="What is the user learning?",
        ask=("what am I (learning|studying)?", "what (new |)(skill |thing |)am I learning(| right now)?", "what do I (study|learn)?"), that=("what I am learning", "what I'm studying", "what I learn"),
        say=("I'm (learning|studying|trying to learn) {v}(| at the moment| these days)", "I (started|began) (learning|to learn|to study) {v}(| last month)", "I take lessons in {v}", "I want to get better at {v}, so I am learning it", "I am teaching myself {v}"),
    ),
    Relation(
        "buying", "You want to buy {v}.", "topic", question="What does the user want to buy?",
        ask=("what do I want to buy?", "what was I going to buy?", "what did I (want|plan) to buy?", "what do I (need|have) to buy?", "what (should|must) I buy?"), that=("what I want to buy", "what I was going to buy", "what I need to buy"),
        say=("I (want|need|have|plan|would like) to buy {v}(| soon| this week| tomorrow)", "I'm going to buy {v}", "I must (not forget to |)buy {v}", "I'm saving (up |)(for|to buy) {v}", "I'd like to get {v}"),
    ),
    Relation(
        "meeting", "Your {x} with {y} is {v}.", "moment", question="When is the user's {x} with {y}?", slots=tuple(EVENTS), weight=2,
        ask=("when is my {x} with {y}?", "when's the {x} with {y}?", "what time is my {x} with {y}?", "when do I (meet|see) {y}?", "when did I say my {x} with {y} is?", "on (which|what) day is my {x} with {y}?"),
        that=("when my {x} with {y} is", "when the {x} with {y} is", "when I (meet|see) {y}", "the time of my {x} with {y}"),
        say=("my {x} with {y} is (on |){v}", "I have (a|an) {x} with {y} (on |){v}", "I'll (meet|see) {y} for the {x} {v}", "the {x} with {y} is (planned for|set for|on) {v}", "there is (a|an) {x} with {y} {v}", "{y} and I have (a|our) {x} {v}",
             "my {x} with {y} (was moved|got moved|is moved) to {v}"),
    ),
    Relation(
        "visit", "Your {x} appointment is {v}.", "moment", question="When is the user's {x} appointment?", slots=tuple(VISITS), weight=1.5,
        ask=("when is my {x} appointment?", "when do I (see|have to see|visit|go to) the {x}?", "when's my appointment with the {x}?", "when is my appointment (at|with) the {x}?", "what time is my {x} appointment?"),
        that=("when my {x} appointment is", "when I have to see the {x}", "when I go to the {x}", "the date of my {x} appointment"),
        say=("my {x} appointment is (on |){v}", "I have (an appointment (at|with) the {x}|a {x} appointment) (on |){v}", "I (have to|must|will|need to) (see|go to|visit) the {x} (on |){v}", "the {x} can see me {v}", "I (booked|made) an appointment with the {x} for {v}"),
    ),
    Relation(
        "departure", "Your {x} leaves at {v}.", "clock", question="When does the user's {x} leave?", slots=tuple(RIDES), weight=1.5,
        ask=("when does my {x} (leave|go|depart)?", "what time does my {x} (leave|go|depart)?", "when is my {x}?", "at what time is my {x}?", "when do I have to catch my {x}?"),
        that=("when my {x} (leaves|goes|departs)", "what time my {x} leaves", "the time of my {x}", "when my {x} is"),
        say=("my {x} (leaves|departs|goes) at {v}(| tomorrow| on Friday|)", "I (take|have to catch|must catch|'m taking) the {x} at {v}", "the {x} I take (leaves|goes) at {v}", "I have a {x} at {v}", "my {x} is at {v}"),
    ),
    Relation(
        "kept", "Your {x} are {v}.", "spot", question="Where are the user's {x}?", slots=tuple(KEPT), weight=2.5, made_up_slots=0.1,
        ask=("where (are|is) my {x}?", "where did I (put|leave|hide|store) (my|the) {x}?", "where do I (keep|store|have) (my|the) {x}?", "where can I find my {x}?", "in what place are my {x}?"),
        that=("where my {x} (are|is)", "where I (put|left|hid|stored) (my|the) {x}", "where I keep my {x}", "where to find my {x}"),
        say=("I (put|left|hid|stored|have put|placed) (my|the) {x} {v}", "my {x} (are|is) {v}", "I (always |)keep (my|the) {x} {v}", "the {x} (are|is) {v}", "you can find my {x} {v}", "my {x} (lie|lies) {v}"),
    ),
    Relation(
        "parked", "You parked {v}.", "spot", question="Where did the user park?", weight=1.5,
        ask=("where did I park(| my car| the car| today)?", "where is my car(| parked)?", "where's my car(| parked)?", "where did I leave (my|the) car?"), that=("where I parked(| my car| the car)", "where my car is", "where I left the car"),
        say=("I parked (my car |the car ||){v}", "I (left|put) (my|the) car {v}", "(my|the) car is parked {v}", "(my|the) car (is|stands) {v}", "today I parked {v}"),
    ),
    Relation(
        "trip", "You want to travel to {v}.", "place", question="Where does the user want to travel?", weight=1.5,
        ask=("where do I want to (travel|go)(| next|)?", "where am I (travelling|going) (to |)(next|this summer|on holiday)?", "where (is|will) my next trip (|go to)?", "which place do I want to visit?", "where (will|do) I (go|spend my holidays)?"),
        that=("where I want to travel(| to)", "where I am going on holiday", "where my next trip goes", "which place I want to visit"),
        say=("I (want|plan|would like|'d love) to (travel|go|fly) to {v}(| next year| this summer| in May)", "my next (trip|holiday|vacation) (goes to|is to|will be in) {v}", "we are (planning|booking) a trip to {v}", "I'm (travelling|going|flying) to {v} (next month|this summer|in May|soon)",
             "next (summer|year|month) I (travel|fly|go) to {v}"),
    ),
    Relation(
        "reading", "You are reading {v}.", "topic", question="What is the user reading?", weight=0.8,
        ask=("what am I reading?", "(which|what) book am I reading(| now| at the moment)?", "what book did I start?"), that=("what I am reading", "which book I am reading", "what book I started"),
        say=("I'm (reading|currently reading|just reading) (the book |){v}", "I (started|began) (reading|to read) {v}", "the book I am reading is (called |){v}", "at the moment I read {v}"),
    ),
    Relation(
        "deadline", "Your {x} is due {v}.", "moment", question="When is the user's {x} due?", slots=("report", "thesis", "homework", "essay", "project", "tax form", "article", "rent", "presentation", "application", "invoice", "exam"), weight=1.2,
        ask=("when is my {x} due?", "when's my {x} due?", "what is the deadline (of|for) my {x}?", "when do I have to (finish|hand in|submit) my {x}?", "until when do I have time for my {x}?"),
        that=("when my {x} is due", "the deadline (of|for) my {x}", "when I have to hand in my {x}"),
        say=("my {x} is due (on |by |){v}", "the deadline (of|for) my {x} is {v}", "I (have to|must|need to) (hand in|submit|finish) my {x} by {v}", "they want my {x} by {v}"),
    ),
    Relation(
        "lent", "You lent your {x} to {v}.", "person", question="Who has the user's {x}?", slots=tuple(KEPT), weight=1,
        ask=("who has my {x}?", "who did I (lend|give) my {x} to?", "who borrowed my {x}?", "to whom did I (lend|give) my {x}?"), that=("who has my {x}", "who I lent my {x} to", "who borrowed my {x}"),
        say=("I (lent|gave|borrowed) my {x} to {v}", "{v} (has|borrowed|took) my {x}", "my {x} (are|is) with {v}", "I let {v} have my {x}"),
    ),
    Relation(
        "class", "Your {x} class is {v}.", "moment", question="When is the user's {x} class?", slots=("yoga", "dance", "piano", "guitar", "language", "cooking", "painting", "swimming", "karate", "chess", "math", "history", "art", "music"), made_up_slots=0.15, weight=1,
        ask=("when is my {x} (class|lesson|course)?", "when do I have {x}(| class)?", "what day is my {x} (class|lesson)?", "when do I go to {x}(| class)?"), that=("when my {x} (class|lesson) is", "when I have {x} class", "the time of my {x} class"),
        say=("my {x} (class|lesson|course) is (on |){v}", "I have {x} (class|lessons) (on |){v}", "I go to {x} class (on |){v}", "my {x} course (starts|takes place) {v}"),
    ),
    Relation(
        "gift", "You want to give {y} {v}.", "topic", question="What does the user want to give {y}?", weight=1,
        ask=("what do I want to (give|get|buy for) {y}?", "what (is|was) the (gift|present) for {y}?", "what was I going to (give|buy for|get for|get) {y}?", "(which|what) present is for {y}?"),
        that=("what I want to give {y}", "the present for {y}", "what I was going to buy for {y}", "what the gift for {y} is"),
        say=("I want to (give|buy|get) {y} {v}", "I want to (buy|get) {v} for {y}", "the (gift|present) for {y} is {v}", "for {y} I (have|bought|will buy) {v}", "{y} gets {v} from me(| as a present)", "I bought {v} for {y}"),
    ),
)  # fmt: skip



def with_paraphrases(relation: Relation, more: Paraphrases) -> Relation:
    """The relation with further wordings."""
    return replace(
        relation, say=relation.say + more.say, ask=relation.ask + more.ask, that=relation.that + more.that
    )


RELATIONS: tuple[Relation, ...] = tuple(
    with_paraphrases(relation, PARAPHRASES.get(relation.name, Paraphrases())) for relation in FACTS + CONTEXT
)

# Several things in one clause: the relations in the order of their values, and how people run them together.
# A slot is the relation's name; relations with {x} are about the same {x}.
COMPOUNDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("name", "hometown"), ("(I'm|I am|my name is|this is) {name} (from|and I come from|and I am from) {hometown}",)),
    (("name", "age"), ("(I'm|I am|my name is) {name}(,| and I'm| and I am) {age}( years old|)", "{name}(,|, aged| and|, now) {age}( years old| years of age|, that's me)", "(I'm|I am|my name is|this is) {name}(, aged|, and my age is|. I am|. I'm) {age}( years old|)")),
    (("name", "location"), ("(I'm|I am|my name is) {name} (and (live|I live)|living) in {location}", "{name} (here, |)(living|based|at home|, living|, currently living) in {location}", "{name} here(,| and I'm|. I'm| and I am) (now |)(living|based|at home) in {location}")),
    (("name", "occupation"), ("(I'm|I am|my name is) {name}(,| and I'm| and I work as) (a|an) {occupation}", "{name} here(,|. I'm| and I am| and I'm) (a|an) {occupation}( by trade| by profession|)", "(I'm|I am|my name is) {name} and I('m| am) (working as |)(a|an) {occupation}( by trade| by profession|)")),
    (("name", "age", "location"), ("(I'm|I am|my name is) {name}, {age}( years old|), (living in|based in|and I live in) {location}",)),
    (("name", "age", "occupation"), ("(I'm|I am) {name}, (a|an) {age} year old {occupation}", "my name is {name}, I'm {age} and (I work as |)(a|an) {occupation}")),
    (("name", "employer"), ("(I'm|I am|my name is) {name} and (I |)work (for|at) {employer}", "{name} from {employer}( here|)", "(I'm|I am|my name is) {name}(,| and I'm| and I am) (employed|working) (at|by|for) {employer}")),
    (("name", "occupation", "location"), ("(I'm|I am|my name is) {name}, (a|an) {occupation} (living |based |)in {location}",)),
    (("occupation", "employer"), ("(I'm|I am|I work as) (a|an) {occupation} (at|for) {employer}", "I (started|got a job) as (a|an) {occupation} (at|with) {employer}")),
    (("occupation", "location"), ("(I'm|I am|I work as) (a|an) {occupation} in {location}", "I (work|am employed) as (a|an) {occupation} and live in {location}")),
    (("age", "occupation"), ("(I'm|I am) (a|an) {age}( |-)year( |-)old {occupation}", "(I'm|I am) {age} and work as (a|an) {occupation}")),
    (("age", "location"), ("(I'm|I am) {age}( years old|) and (I |)live in {location}", "(I'm|I am) {age}, living in {location}")),
    (("location", "occupation"), ("I live in {location} and (I |)(work|am working) as (a|an) {occupation}", "I live in {location}, where I work as (a|an) {occupation}")),
    (("location", "employer"), ("I live in {location} and (I |)work (for|at) {employer}", "I (moved|came|relocated) to {location} to work (for|at|with) {employer}", "I('m| am) (based|living) in {location} and (I |)(work|am working|am employed) (for|at|by) {employer}")),
    (("location", "hometown"), ("I live in {location}(,| but) (I'm|I am|originally I'm|I come) (originally |)from {hometown}", "I live in {location}, but I (grew up|was born|was raised) in {hometown}", "I live in {location}(,| and| but|;) originally (I'm|I am|I come) from {hometown}", "I('m| am) living in {location}(,| but| and) I (come|am) (originally |)from {hometown}")),
    (("hometown", "location"), ("I('m| am) (originally |)from {hometown} but (I |)live in {location}( now|)", "I was born in {hometown} and (I |)live in {location}( now|)", "I grew up in {hometown} and moved to {location}")),
    (("called", "age of"), ("my {x} {called} is {age of}( years old|)", "my {x} is called {called} and (he|she|it) is {age of}( years old|)", "I have (a|an) {x}, {called}, (he's|she's|who is) {age of}( years old|)")),
    (("called", "birthday of"), ("my {x} {called} (was born on|has (his|her) birthday on) {birthday of}", "my {x} {called}'s birthday is {birthday of}")),
    (("email", "phone"), ("(you can |)(reach|contact) me at {email} or {phone}", "my contact details are {email} and {phone}")),
    (("editor", "system"), ("I (use|run|work with) {editor} on {system}", "I write code in {editor} on {system}")),
    (("car", "location"), ("I drive a {car} and live in {location}",)),
)  # fmt: skip
