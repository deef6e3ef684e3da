"""What the bundled model says to greetings, questions about itself, sad news and plain facts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shepherd.claims.judge import Verdict, plain_facts
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.concepts import content_words
from shepherd.sentences import split_sentences
from shepherd.turn.cries_for_help import reply_to_cry_for_help

__all__ = ["is_harmless", "is_sad", "reply_to_small_talk"]

# Pity is the answer to these. Some words need a context: a nurse works in a hospital, and Cancer is a sign.
_SAD = re.compile(
    r"\b(?:died|(?:is|are|was|were|found|'s) (?-i:dead)|passed away|passed on|funeral(?! (?:parlou?r|home"
    r"|director))"
    r"|(?:is|are|'s|'m|am|was|were|be) dying(?! (?:to|for|of (?:laughter|boredom|heat|hunger|thirst))\b)"
    r"|(?:had|have|having|going) (?:to )?put (?:(?!(?:me|us|him|her|kids|children|baby"
    r"|phone)\b)[\w']+ ){1,3}?(?:down|to sleep)"
    r"|put (?:down|to sleep)|euthani[sz]ed|buried (?:my|our|his|her|their)|killed (?:him|her|them)sel(?:f"
    r"|ves)"
    r"|(?:took|taken) (?:his|her|their) own (?:life|lives)|hung himself|hung herself|hanged (?:him|her)self"
    r"|tumou?rs?|miscarr\w+|stillb\w+|chemo(?:therapy)?|le?uka?emia|lymphoma|multiple sclerosis|motor neurone"
    r"|(?:has|have|had|got|'s|'ve|with) (?:\w+ )?(?:MS|ALS|MND|HIV|Parkinson'?s?|Alzheimer'?s?|sepsis"
    r"|Huntington'?s?)"
    r"|diagnosed with (?!(?:adhd|add|asd|autism|dyslexia|dyspraxia|asperger)\b)|palliative|life support"
    r"|in a coma"
    r"|(?:months|weeks|days|a year|years) (?:left )?to live|(?:is|am|'m|'s|are|was|were) going (?:blind"
    r"|deaf)|paraly[sz]ed"
    r"|(?:got|was|were|been|be) run over|overdosed|amputated"
    r"|(?:is|are|'s|'m|am|was|were|been|be|lies|in|into|to) (?:in |into |to )?(?:a|the) hospice"
    r"|(?:has|have|had|got|'s|'ve|with|of|from|to|my|his|her|their) (?:[a-z]+ )?cancer"
    r"(?! (?:research|charit|nurse|ward))"
    r"|divorced|divorcing|(?:a|the|my|our|their|his|her|for) divorce(?! (?:lawyer|attorney|court))"
    r"|broke up|split up|left (?:me|us)(?= (?:for|last|alone|yesterday|today|because|after|in)\b|\s*(?:$"
    r"|[.!,;]))"
    r"|cheat(?:ed|ing|s) on me|dumped me|laid off|(?:made|am|'m|are|was|were|been|be) redundant"
    r"|(?:am|'m|is|'s|was|were|been|got|get|be) (?:sacked|fired)(?! up)|homeless|lost everything"
    r"|lost (?:my|our|the baby|his|her|their)(?! (?:virginity|bet|mind|accent|weight|way|heart))"
    r"|stolen|robbed|burgled|mugged|flooded|burn(?:t|ed) down|written off|hospitali[sz]ed"
    r"|(?:am|'m|is|'s|are|'re|was|were|been|be|lies|stay(?:ed|s)?|back|rushed|taken|admitted|ended up)"
    r" (?:in|to|into) (?:the )?hospital"
    r"|(?:a|another|his|her) (?:[a-z]+ )?stroke(?! of)|heart attack|dementia|suicide(?! (?:squad|hotline"
    r"|prevention))"
    r"|depress(?:ed|ion|ing)|grie(?:f|ving)|gravely ill|terminally|terminal (?:illness|cancer|disease)"
    r"|bankrupt|evicted"
    # German
    r"|(?:ist|sind|bin) (?:\w+ )?(?:gestorben|verstorben|tot|verunglückt|gekündigt worden)|Beerdigung"
    r"|beerdigt|Fehlgeburt"
    r"|eingeschläfert|(?:hat|habe|an|mit) \w*krebs|krebskrank|Schlaganfall|Herzinfarkt|Demenz|Depression\w*"
    r"|depressiv"
    r"|geschieden|Scheidung|Leukämie|im Krankenhaus"
    # French
    r"|(?:est|sont) (?:morte?s?|décédée?s?)|enterrement|obsèques|fausse couche|(?:un|le) cancer|licenciée?"
    r"|infarctus"
    r"|démence|dépression|dépressi(?:f|ve)|leucémie|à l'hôpital"
    # Spanish, Italian and Portuguese
    r"|(?:murió|ha muerto|falleci[óo]\w*|morreu|faleceu|è mort[oa]|decedut[oa])|funerale|aborto espontáneo"
    r"|aborto spontaneo"
    r"|(?:cáncer|câncer|cancro|tumore)|(?:divorci|divórci|divorzi)\w+|(?:me despidieron|licenziat[oa]"
    r"|demitid[oa])"
    r"|(?:infarto|enfarte|demenci[ae]|demenza|demência)|(?:depresión|depressione|depressão)|(?:leucemia)"
    # Dutch
    r"|(?:overleden|is dood|begrafenis|miskraam|ontslagen|gescheiden|beroerte|hartaanval|dementie|leukemie"
    r"|kanker))\b",
    re.IGNORECASE,
)
# "Nice" is no answer to this either, and pity may be too much.
_UNPLEASANT = re.compile(
    r"\b(?:sick|ill|unwell|poorly|fever|flu|covid|pain\w*|hurts?|injur\w+|broken?|sprained|accident|surgery"
    r"|operation|migraines?|tired|exhausted|stressed|anxious|anxiety|worried|scared|afraid|angry|upset|sad"
    r"|lonely|hate|failed|missed|unemployed|debts?|in trouble|worse|worst|unfortunately|sadly|argument"
    r"|quarrel\w*|crash(?:ed)?|dead|dying|death|die[ds]?|kill\w*|late|widow\w*|prison|jail|arrested|hospice"
    r"|shelter"
    r"|cancel\w+|over|gone|lost|clos(?:ed|ing|es)|bust|ruined|destroyed|terrible|awful|horrible|bad|badly"
    r"|war|refugee|addict\w*|alcoholic|abortion|infertile|diagnos\w+|disease|clinic|rehab|cut myself)\b",
    re.IGNORECASE,
)
# What may be called nice: plain facts with these keys, whose values say no more than a name or a word or two.
_NEUTRAL = re.compile(
    r"origin|hometown|birthplace|nationality|study|university|degree|languages?|learning|likes|prefers|plays|supports"
    r"|collects|drives|uses|pets|children|siblings|grandchildren|height|favou?rite_\w+|operating_system"
    r"|(?:\w+_)?(?:location|employer|job|age|name|nickname)"
    r"|(?:\w+_)?(?:birthday|editor|browser|laptop|phone|number|email|website|address|postcode|floor|school|hobby|team"
    r"|pronouns|timezone|time_zone|star_sign|shoe_size|size|bank|landlord|flatmate|boss|title|business|department"
    r"|room|desk|office|project|car|van|bike|bicycle|motorbike|scooter|boat|registration|plate|breed|colou?r|book"
    r"|author|film|movie|music|band|genre|song|album|show|podcast|sport|gym|club|choir|instrument|piano|guitar|violin"
    r"|game|drink|coffee|tea|beer|wine|dish|dessert|restaurant|pub|shop|season|flower|hotel|flight|airline|airport"
    r"|village|town|city|country|museum|printer|camera|router|wifi|monitor|keyboard|server|distro|shell|telescope"
    r"|locker|tent|seat|party|currency|username)"
)
_GONE = re.compile(r"(?:^|_)(?:ex|late|former|dead)(?:_|$)")
_MOST_NEUTRAL_WORDS = 6  # of a value
# Words that say something, before the first value, between two and behind the last.
_MOST_BEFORE, _MOST_BETWEEN, _MOST_BEHIND = 3, 2, 2
_GOES_ON = re.compile(
    r"\b(?:i|we|he|she|they|it|who|but|because|since|after|until|without|not?|never)\b|n't\b", re.IGNORECASE
)
_HOUSE = re.compile(r"hospi|hôpital|krankenhaus", re.IGNORECASE)
_AT_WORK = re.compile(
    r"\b(?:work\w*|arbeit\w*|travaill\w*|job|volunteer|volunteering|intern|research\w*)\b", re.IGNORECASE
)
_GREETING = (
    r"(?:(?:hi|hey|hello|good (?:morning|afternoon|evening)|thanks|thank you)(?: there| shepherd)?[\s,.!-]*)?"
)
_FINE = "I'm fine, thank you. What would you like to tell me or ask me?"
_WHO = (
    "I'm Shepherd's bundled demo model. I can remember what you tell me and answer questions about it and"
    " about your documents, but little more."
)
_SMALL_TALK = (
    (r"(?:and )?how do you do|what's up|what is up", _FINE),
    (
        r"(?:and )?how(?: are|'re|'s| is| have) (?:you|it going|things|everything|life|your day)"
        r"(?: been| going| doing)?(?: today| these days| so far| then)?",
        _FINE,
    ),
    (r"(?:are )?you (?:ok|okay|well|alright|all right)(?: today| then)?", _FINE),
    (r"who are you|what are you|what(?: is|'s) your name|tell me about yourself|introduce yourself", _WHO),
    (r"what(?: can| do) you do(?: for me)?|what are you (?:able to do|capable of|good (?:at|for))", _WHO),
    (r"what can i (?:do with you|ask you|ask)|how do you work", _WHO),
    (r"are you (?:an? )?(?:ai|bot|robot|human|person|real person|chatgpt|language model)", _WHO),
    (r"(?:it's )?(?:nice|pleased|good|great) to meet you(?: too)?", "Nice to meet you, too!"),
)
_REPLIES = tuple(
    (re.compile(rf"\W*{_GREETING}(?:{pattern})\W*", re.IGNORECASE), reply) for pattern, reply in _SMALL_TALK
)


def reply_to_small_talk(text: str) -> str:
    """Return what to say to a message whatever the model writes; "" for most of them.

    That is a cry for help, or nothing but small talk, such as "Hi, how are you?".
    """
    if reply := reply_to_cry_for_help(text):
        return reply
    plain = text.replace("\u2019", "'")
    if reply := _reply_to(plain):
        return reply
    replies = [_reply_to(question) for question in re.findall(r"[^?]+\?*", plain)]
    return " ".join(dict.fromkeys(replies)) if all(replies) else ""


def _reply_to(text: str) -> str:
    return next((reply for pattern, reply in _REPLIES if pattern.fullmatch(text)), "")


def is_harmless(text: str) -> bool:
    """Return whether "Nice" can be said to a message: it tells nothing but plain facts that are no bad news.

    Of the many ways to tell bad news, not all are known.
    """
    if is_sad(text) or _UNPLEASANT.search(text):
        return False
    facts = plain_facts(text)
    told = {fact.assertion.sentence for fact in facts}
    if not facts or any(is_statement(one) and one not in told for one in split_sentences(text)):
        return False
    if not all(map(_is_neutral, facts)):
        return False
    return all(
        _says_only(one, [fact.value for fact in facts if fact.assertion.sentence == one]) for one in told
    )


def _is_neutral(fact: Verdict) -> bool:
    is_short = len(fact.value.split()) <= _MOST_NEUTRAL_WORDS
    return is_short and _NEUTRAL.fullmatch(fact.key) is not None and not _GONE.search(fact.key)


def _says_only(sentence: str, values: Sequence[str]) -> bool:
    """Return whether a sentence says little beside its values, unlike "I live in Ulm, since my wife left"."""
    either = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    *before, behind = re.split(either, sentence, flags=re.IGNORECASE)
    if _GOES_ON.search(behind) and content_words(behind):
        return False
    most = [_MOST_BEFORE, *(_MOST_BETWEEN for _ in before[1:]), _MOST_BEHIND]
    return all(len(content_words(piece)) <= n for piece, n in zip((*before, behind), most, strict=True))


def is_sad(text: str) -> bool:
    """Return whether a message has sad news."""
    found = _SAD.search(text.replace("\u2019", "'"))
    return found is not None and not (_HOUSE.search(found[0]) and _AT_WORK.search(text))
