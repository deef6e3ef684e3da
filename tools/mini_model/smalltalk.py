# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""What is neither told nor asked about oneself: greetings, thanks, remarks, and requests beyond a small model."""

from __future__ import annotations

from random import Random

import values
from relations import expand

__all__ = [
    "ACKNOWLEDGE",
    "BYE",
    "HELLO",
    "INTRODUCE",
    "NOTHING",
    "OTHER",
    "SEEN",
    "SMALL_TALK",
    "WELCOME",
    "WHO",
    "request",
]

NOTHING = "I have nothing stored about that."
ACKNOWLEDGE = "Nice, I'll remember that."
INTRODUCE = "Nice to meet you, {v}."
HELLO = "Hello! How can I help you?"
WELCOME = "You're welcome!"
BYE = "Goodbye!"
SEEN = "I see."
WHO = "I'm Shepherd's small built-in model: I remember what you tell me and answer from it."
OTHER = (
    "I'm only the small built-in model and can't help with that; "
    "get a full one with `shepherd model pull` or use --model FILE."
)

SMALL_TALK: dict[str, tuple[str, ...]] = {
    HELLO: (
        "(hi|hello|hey|hiya|hello there|hi there|hey there|greetings|howdy|good day|yo)(| again| shepherd| friend|, how are you| my friend| everyone)",
        "good (morning|evening|afternoon)(| to you| shepherd| again|, how are you)", "how (are|do) you(| doing)(| today| this morning)?",
        "(hi|hello|hey), (what's up|how is it going|nice to see you|I am back|are you there)?", "what's up?", "how is it going?",
        "long time no see", "(I am|I'm) back", "anybody (here|there)?",
    ),
    WELCOME: (
        "(thanks|thank you|thx|many thanks|cheers|ty)(| a lot| very much| so much| a bunch| again| for that| for your help| shepherd)",
        "(great|perfect|cool|ok|okay|super|nice|awesome), (thanks|thank you|thx)(| a lot| very much)", "(that|this) (helped|was helpful|was great|is great)(| a lot), (thanks|thank you)",
        "(I appreciate it|much appreciated|you're the best, thanks|that's very kind, thank you)", "you('re| are) (the best|great|a star|wonderful|very kind|so kind|amazing|a gem|a hero)(,|!|.) (thanks|thank you|thx)( a lot| so much|)",
        "(thanks|thank you), you('re| are) (the best|great|a star|wonderful|very kind|so kind|amazing)", "(that's|that is|how|this is) (very kind|kind|so kind|really nice|lovely|sweet)( of you|), (thanks|thank you)", "thanks for (that|the help|remembering|everything|telling me)",
    ),
    BYE: (
        "(bye|goodbye|bye bye|see you|ciao|farewell|good night|so long|cu)(| for now| later| tomorrow| then| soon| shepherd| again)",
        "(ok|okay|well|alright|thanks), (bye|goodbye|see you)(| tomorrow| later| soon)", "(I have to|I must|I need to) (go|leave)(| now)(|, bye|, see you)", "that's all( for today|), (bye|goodbye|see you)",
        "talk to you (later|tomorrow|soon)", "(until|see you) (tomorrow|next time|next week)",
    ),
    WHO: (
        "(who|what) (are|exactly are) you(| exactly| again| really)?", "what can you do(| for me)?", "(what is|what's) your name?", "are you (a|an) (robot|human|AI|person|machine|bot|program)?",
        "(tell me|say something) about yourself", "(which|what) (model|AI|program) are you?", "(can|could) you introduce yourself?", "what are you (able|made) (to do|for)?", "(how|in which way|with what) (can|could) you (help|assist|support|serve) me( today| here|)?", "(what|which things) (can|could) you (help|assist) me with( today|)?", "what (can|could) you help with?", "how can you be (useful|of help|helpful)( to me|)?",
        "are you (human|real|alive|Shepherd|ChatGPT)?", "what do you do?", "how do you work?", "who (made|built|trained) you?", "do you have a name?",
    ),
    SEEN: (
        "(the|our) weather is (nice|bad|awful|great|lovely)(| today| again)", "it('s| is) (raining|snowing|cold|hot|sunny|windy|late)(| today| again| outside)",
        "(I am|I'm) (so |very |a bit |)(tired|happy|bored|hungry|sad|busy|cold|late)(| today| again| now)", "(that|this|it) was a (long|good|bad|hard|busy) (day|week|night)",
        "(ok|okay|yes|no|cool|great|nice|right|fine|sure|hm|lol|haha|wow)(| ok| then| cool| I see)", "(that|this) (makes sense|is fun|is strange|is nice|sounds good|is funny)", "(never mind|no problem|let me think|wait a moment|one moment|sounds good|not bad)", "(no|not a) (problem|worries|matter|big deal|rush|trouble)(| at all| then| here)", "(oh|ok|okay|well|sure), (never mind|no problem|no worries|not bad|sounds good|let me think)",
        "(wait|hold on|just|give me) (a|one) (moment|second|minute)(| please)", "(fair enough|forget it|all good|it's fine|that's fine|works for me|as you like)",
        "I (slept badly|had lunch|need a break|need a coffee|just woke up|had a bad day)", "my (head|back|foot) hurts", "what a (day|week|mess)", "the (train|bus) was late( again|)", "(hm|well|so), (I see|ok|let's see|interesting)",
    ),
}  # fmt: skip

REQUESTS = (
    "(write|compose|make up) (me |)a (poem|story|haiku|song|joke|letter|limerick|short essay) about (the |){n}( and {n2}|)", "what is the (capital|population|flag|area|currency|anthem) of {p}?", "how do (I|you) (cook|make|build|clean|draw|repair|grow) (a |){n}?",
    "explain (to me |)(how a {n} works|{n}|what {n} means|the history of the {n}|{w})", "translate (the word |){n} (into|to) {l}", "translate '{n}' into {l}", "what('s| is) {d} (plus|times|minus|divided by) {d2}?", "{d} [*] {d2}?", "(calculate|compute) {d} (times|plus|minus) {d2}",
    "how (far|long) is (it from |){p} (to|from) {p2}?", "how (tall|big|old|deep|high|heavy) is (the |a |){n}?", "how (tall|big|old|high) is (mount |){p}?", "why is the {n} {j}?", "write (a|some) {l} (program|code|script|function) (that prints|for) {n}",
    "what('s| is) the weather (like |)(in {p}|today|tomorrow|like)?", "who (invented|discovered|made|painted|wrote) the {n}?", "tell me a (joke|story|fun fact)( about {n}|)", "who is the (president|king|mayor|queen) of {p}?", "how does (a|the) {n} work?", "(what is|what's) (a |an |the |){n}?",
    "(summarize|summarise) (the|this) (book|text|article)( about {n}|)", "give me a recipe for {j} {n}", "(can|could|will) you (fix|draw|find|buy|order|paint|send) (me |)(a|the|some) {n}?", "(can|could) you help me (debug|fix|write|with) (my|this|a) ({n}|python script|code|program|essay)?", "how many people live in {p}?",
    "what should I (eat|cook|wear|watch|do)( today| tonight| for dinner| for lunch| this evening|)?", "(fix|debug|review) (this|my) code: {n} {w}", "is {p} (bigger|older|nicer) than {p2}?", "which is better, {n} or {n2}?", "how do I get (from {p2} |)to {p}?", "what time is it(| now| in {p})?",
    "what day is (it |)today?", "(sing|play) (me |)(a|some) (song|{n})( about the {j} {n}|)", "plan a trip to {p}", "who won the {n} (game|match|cup)?", "compare {n} and {n2}", "give me (ten|five|some) (ideas|names|tips) for (a|my) {n}", "(what does {w} mean|define {w}|spell {w})?", "when was the {n} (invented|built|found)?",
    "(what is|what's) the meaning of life?", "prove that {d} is prime", "search (the web |)for {n}( in {p}|)", "(open|start|close) the {n}", "set (an alarm|a timer) for {d}( minutes|)", "are {n} and {n2} the same?", "list (all|some) {j} (things|animals|{n}s)", "do you (like|know|have|want) (a |){n}?", "what do you think (about|of) {n}?",
    "recommend (me |)a (good |){n}", "convert {d} (miles|euros|feet|pounds) to (km|dollars|meters|kg)", "(are there|do we need) {n}s in {p}?", "(can|could) you (translate|summarize|explain) this( for me|)?", "what happened in {year}?", "who was the first (man|woman|person) (in|on) the {n}?", "how many {n}s are (there |)in a {n2}?",
    "(help|please help)( me|)( with my {n}|)", "what are the (rules|parts|colors) of (the |){n}?", "does a {n} (eat|need|have) {n2}s?", "(is|was) the {n} {j}?", "make (me |)a (list|table) of {n}s", "where (is|can I buy) (the |a |){n}( in {p}|)?", "read (me |)the {n}", "how much (is|costs) (a|the) {n}?",
)  # fmt: skip
CODE_LANGUAGES = values.listed("French German Spanish Italian Python Rust C Java English Latin")


def request_template(random: Random) -> str:
    """The wording of a request that only a full model can answer, its nouns still open."""
    return expand(random.choice(REQUESTS), random)


def request(template: str, random: Random, held_out: bool) -> str:
    """The template with nouns, places and numbers in it."""

    def noun() -> str:
        return values.common_noun(random) if random.random() < 0.7 else values.made_up_word(random)

    def city() -> str:
        return values.fresh(random, values.MAKERS["place"], held_out)

    return template.replace("[*]", "*").format(
        n=noun(), n2=noun(), p=city(), p2=city(), d=random.randint(2, 999), d2=random.randint(2, 99),
        j=random.choice(values.ADJECTIVES), w=values.made_up_word(random), l=random.choice(CODE_LANGUAGES), year=values.year(random),
    )  # fmt: skip
