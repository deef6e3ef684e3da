# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""Sentences from which nothing is learned, though they look like statements about the user.

The kinds are those that Shepherd's own check knows (docs/explanation/learning.md): questions, wishes and plans,
conditions and pretence, negation, the past, what others are or say, tasks and their material, the moment.
`{v}` is a value of the relation, `{x}` its slot, `{n}` a noun, `{m}` a name.
"""

from __future__ import annotations

import re
from random import Random

import values
from items import Split, make_item, wording
from relations import RELATIONS

__all__ = ["KINDS", "unsaid"]

BY_NAME = {relation.name: relation for relation in RELATIONS}

# By relation: what a statement of it looks like when it is none. "*" stands with any value.
KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "question": {
        "name": ("is my name {v}?", "am I (called |){v}?", "did I say (that |)my name is {v}?", "who is {v}?", "do you know (somebody|anybody) called {v}?", "are you called {v}?", "is your name {v}?"),
        "location": ("do I live in {v}?", "should I move to {v}?", "how far is {v}?", "is {v} (nice|expensive|a good place to live)?", "have you been to {v}?", "where in {v} (could|can) one live?", "what is it like to live in {v}?"),
        "employer": ("do I work (at|for) {v}?", "is {v} a good (company|employer)?", "what does {v} (do|make|sell)?"),
        "occupation": ("am I (a|an) {v}?", "what does (a|an) {v} (do|earn)?", "should I become (a|an) {v}?"),
        "age": ("am I {v}?", "is {v} old?", "(do I look|would you think I'm) {v}?"),
        "favorite": ("is {v} a good {x}?", "is {v} my favorite {x}?", "do you like {v}?", "would {v} be a good {x}?"),
        "allergy": ("can one be allergic to {v}?", "am I allergic to {v}?", "(is|are) {v} (healthy|good for me)?"),
        "called": ("is my {x} called {v}?", "is {v} a good name for a {x}?", "who is {v}?", "(should|shall) I call my {x} {v}?"),
    },
    "wish": {
        "location": ("I('d| would) (love|like) to (live in|move to) {v}( one day| some day|)", "I (might|may|could) move to {v}( next year|)", "I'm thinking (of moving to|about) {v}", "one day I('ll| will) live in {v}", "I dream of (living in|a house in) {v}", "I wish I lived in {v}", "maybe I('ll| will) end up in {v}"),
        "employer": ("I('d| would) (love|like) to work (for|at) {v}", "I applied (at|to) {v}( yesterday|)", "I have an interview (at|with) {v}( on Monday|)", "I hope {v} (hires|takes) me"),
        "occupation": ("I (want|hope|would like) to (be|become) (a|an) {v}( one day|)", "I('d| would) have made a good {v}", "I'm (thinking of becoming|training to be) (a|an) {v}( maybe|)", "as a child I wanted to be (a|an) {v}"),
        "car": ("I('d| would) (love|like) (to have |)(a|an) {v}", "I dream of (owning |)(a|an) {v}"),
        "called": ("I (want|would like) a {x} called {v}( one day|)", "if we get a {x}, we('ll| will) call it {v}", "we (might|may) call the {x} {v}"),
        "languages": ("I('d| would) (love|like) to (speak|learn) {v}( one day|)", "I wish I spoke {v}", "I (should|might) learn {v}( some time|)"),
        "instrument": ("I('d| would) (love|like) to play the {v}", "I wish I could play the {v}"),
    },
    "pretence": {
        "name": ("(let's say|suppose|imagine|pretend|assume) my name is {v}", "if my name were {v}, (what would you say|you would laugh)", "(act|talk|answer) as if I were {v}", "in the (story|game|play) my name is {v}", "call yourself {v}( from now on|)", "you are {v}( now|, a pirate|)"),
        "location": ("(let's say|suppose|imagine|pretend|assume) I live in {v}", "if I lived in {v}, I('d| would) (buy a {n}|be happy)", "(what if|say) I lived in {v}"),
        "age": ("if I were {v}, I('d| would) (travel|retire|start again)", "(let's say|suppose|imagine) I am {v}( years old|)", "(when|once) I am {v}, I('ll| will) (retire|move|buy a {n})"),
        "occupation": ("(let's say|suppose|imagine|pretend) I am (a|an) {v}", "if I were (a|an) {v}, I('d| would) (earn more|be rich)", "(act|answer|talk) (as|like) (a|an) {v}", "you are (a|an) {v} now"),
        "allergy": ("(suppose|let's say|imagine) (I am|somebody is) allergic to {v}",),
    },
    "negation": {
        "name": ("my name is not {v}", "I'm not {v}", "(don't|do not|never) call me {v}", "nobody calls me {v}"),
        "location": ("I (don't|do not|never) live(d|) in {v}", "I'm not (from|in|living in) {v}", "I (don't|wouldn't) want to live in {v}"),
        "employer": ("I (don't|do not) work (for|at) {v}( any more|)", "I('m| am) not (with|at) {v}", "I never worked for {v}"),
        "occupation": ("I('m| am) (not|no) (a|an) {v}", "I (don't|never) work(ed|) as (a|an) {v}"),
        "age": ("I('m| am) not {v}( yet|)", "I('m| am) (nowhere near|far from) {v}"),
        "allergy": ("I('m| am) not allergic to {v}", "I have no allergy to {v}", "I can eat {v}( without a problem|)"),
        "favorite": ("{v} is not my favorite {x}", "I (don't|do not) (even |)like {v}( as a {x}|)"),
        "called": ("my {x} is not called {v}", "I (don't|do not) have a {x} called {v}", "I have no {x}"),
        "car": ("I (don't|do not) (drive|own|have) (a|an) {v}", "I have no car"),
    },
    "past": {
        "location": ("I used to live in {v}", "I (no longer|don't) live in {v}( any more|)", "I (left|moved away from) {v} (in {y}|last year|years ago)", "(back then|until {y}|as a child) I lived in {v}", "I was (once |)based in {v} (before|for {d} years)"),
        "employer": ("I used to work (for|at) {v}", "I (quit|lost|left) my job at {v}", "I no longer work (for|at) {v}", "I was with {v} (until {y}|for {d} years|before)", "{v} (fired|sacked) me( in {y}|)"),
        "occupation": ("I used to (be|work as) (a|an) {v}", "I was (a|an) {v} (before|until {y}|for {d} years)", "I('m| am) no longer (a|an) {v}"),
        "car": ("I (sold|crashed|scrapped|gave away) (my|the) {v}( in {y}| last week|)", "I used to drive (a|an) {v}", "I had (a|an) {v} (before|once|until {y})"),
        "called": ("my {x} {v} (died|passed away|ran away)( in {y}| last year|)", "we (had|used to have) a {x} called {v}", "I used to have a {x} called {v}"),
        "favorite": ("{v} used to be my favorite {x}", "my favorite {x} was {v} (once|before|as a child)"),
        "instrument": ("I used to play the {v}", "I (gave up|stopped playing|no longer play) the {v}( in {y}|)"),
    },
    "others": {
        "name": ("(he|she|the man|my boss) said: my name is {v}", "(his|her|their|the author's|your) name is {v}", "(the letter|the mail) is signed by {v}", "{v} (called|rang|wrote)( again| today|)", "(he|she) (goes by|is called) {v}", '"my name is {v}", (he|she|the stranger) said'),
        "location": ("(he|she|{m}|a friend|somebody) lives in {v}", "(he|she|{m}) (moved|is moving) to {v}", "the (company|server|conference|hotel) is in {v}", "{m} (is|comes) from {v}", "they (all |)live in {v}"),
        "employer": ("(he|she|{m}|a friend) works (for|at) {v}", "{v} (announced|released|sells) a (new |){n}", "the {n} (is|was) made by {v}"),
        "occupation": ("(he|she|{m}|the neighbour) is (a|an) {v}", "we (need|are looking for) (a|an) {v}", "(a|an|the) {v} (came|helped us|was here) (today|yesterday)"),
        "age": ("(he|she|{m}|the house|the car) is {v}( years old|)", "{m} (turned|will be) {v}( this year|)"),
        "email": ("(his|her|their|{m}'s) email is {v}", "(write|send it) to {v}, that's {m}'s address", "the mail came from {v}"),
        "phone": ("(his|her|{m}'s|the plumber's) number is {v}", "somebody called from {v}"),
        "allergy": ("(he|she|{m}|a guest) is allergic to {v}", "(some|many) people are allergic to {v}"),
        "favorite": ("(his|her|{m}'s) favorite {x} is {v}", "(most people|they all) like {v}"),
    },
    "task": {
        "name": ("(translate|rewrite|correct|spell|shorten)( this|)( into French| into German|): (my name is|I am called) {v}", "write a (story|poem|letter|mail) (about|signed by|for) {v}", 'fix this: name = "{v}"', "summarize: {v} (went|came) to (the |){n}", "User: my name is {v}", "name: {v}; role: {n}", "ERROR: user {v} not found", "> my name is {v}"),
        "location": ("(translate|rewrite|correct)( this|)( into Spanish| into German|): I live in {v}", "write a (story|poem) about {v}", "plan a (trip|weekend) in {v}", "find (me |)a (hotel|flat|restaurant) in {v}", "what('s| is) the weather in {v}?", "region: {v}", "the server in {v} (failed|is down|is slow)", '"I live in {v}" - is that (correct|good English)?'),
        "occupation": ("write a (job ad|letter) for (a|an) {v}", "(translate|rewrite)( this|): I work as (a|an) {v}", "explain what (a|an) {v} does", "role: {v}"),
        "employer": ("write a (mail|letter) to {v}", "summarize the news about {v}", "compare {v} and {n} Ltd"),
        "allergy": ("(translate|correct)( this|)( into French|): I am allergic to {v}", "list (dishes|recipes) without {v}", "(give me|find) a recipe (with|without) {v}"),
        "age": ("calculate {v} times {d}", "sort: {v}, {d}, {d}", "age = {v}"),
        "favorite": ("write a (review|poem) about {v}", "explain {v}( to me|)", "compare {v} (and|with) (the |){n}"),
        "code": ("(the|this) (code|script) (prints|returns) {v}", "const {x} = '{v}';", "SELECT {x} FROM t WHERE id = {d}", "Traceback: {x} is {v}", "{x}: {v} # default"),
    },
    "moment": {
        "location": ("I('m| am) (at|in) the (airport|station|hotel|office) (in|of) {v}( right now|)", "I('m| am) (just |)(visiting|passing through|on the way to|stuck in) {v}", "I('m| am) (flying|travelling|driving) to {v} (today|tomorrow)", "greetings from {v}"),
        "*": ("I('m| am) (so |very |a bit |)(tired|hungry|bored|cold|late|busy|sick|stressed|confused)( today| now| right now|)", "I('m| am) (on|in) the (bus|train|car|bath)( right now|)", "I (need|want) a (coffee|break|{n})( now|)", "I just (ate|had|saw|dropped) (a |the |){n}", "(my|the) (computer|build|internet|printer|screen) (is slow|crashed|failed|froze)( again|)", "I('m| am) (waiting|looking) for (a |the |my |){n}", "I have (a headache|no time|a lot to do)( today|)", "I('ll| will) (buy|bring|cook) {n} (tonight|later|tomorrow)", "I('m| am) (home|back|here|done|ready)( now| again|)"),
    },
    "secret": {
        "*": ("my (password|passphrase|login) is {k}", "my pin( code|) is {d4}", "(the|my) (api key|token|secret) is {k}", "my card number is {c}", "(password|pw|pass): {k}"),
    },
}  # fmt: skip


def key(random: Random) -> str:
    """What a password or a key may look like."""
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "".join(random.choice(letters) for _ in range(random.randint(8, 24)))


def unsaid(random: Random, split: Split, kind: str = "") -> str:
    """One sentence of the kind, or of any, from which nothing is to be learned. Raises NoWordingError."""
    table = KINDS[kind or random.choice([*KINDS])]
    name = random.choice([*table])
    template = wording(random, table[name], split)
    relation = BY_NAME.get(name, BY_NAME["general"])
    item = make_item(random, split, relation)
    text = template
    for slot, value in (
        ("{v}", item.value),
        ("{x}", item.x),
        ("{n}", values.common_noun(random)),
        ("{m}", values.first_name(random)),
        ("{y}", values.year(random)),
        ("{k}", key(random)),
        ("{d4}", f"{random.randint(0, 9999):04d}"),
        ("{c}", " ".join(f"{random.randint(0, 9999):04d}" for _ in range(4))),
    ):
        text = text.replace(slot, value)
    text = re.sub(r"\{d\}", lambda _: str(random.randint(2, 90)), text)
    if text[-1] not in "?.!;:'\")":
        text += random.choice([".", ".", ".", "!", "", "..."])
    return text[:1].upper() + text[1:] if random.random() < 0.8 else text
