"""Expected answers: the words that a text has to share with a question, and the form of its answer.

"How long does it soak?" is answered by a span of time, "who do I ring" by a name. A form that an answer must
have is `holds`; one that makes an answer likelier among others is `likely`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from shepherd._native.text import STOP_WORDS, keywords
from shepherd.prompt.concepts import FRAME, content_words, is_common, relations_among
from shepherd.prompt.questions import Question, relations_in

__all__ = ["BACK", "NUMBER", "Wanted", "content_of", "numbers_in", "tells_somebody", "wanted_by"]

NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")

_NUMERAL = (
    r"\b(?:\d[\d.,:/]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|half"
    r"|several|few|dozen|both|no)"
)
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SPELLED = {
    **{word: str(number) for number, word in enumerate(_TEENS.split(), 10)},
    **{word: str(10 * number) for number, word in enumerate(_TENS.split(), 2)},
}
_SOME = rf"(?:{_NUMERAL}|\b(?:an?|whole|all|another))"
_SPAN = (
    r"(?:sec(?:ond)?s?|min(?:ute)?s?|hours?|hrs?|h|days?|nights?|overnight|weeks?|weekends?|months?|years?|terms?|spring|summer|autumn|fall"
    r"|winter)\b"
)
_MONTH = (
    r"(?:january|february|(?-i:March)|april|(?-i:May)|june|july|august|september|october|november|december"
    r"|(?-i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec))"
)
_DAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?-i:Mon|Tue|Wed|Thu|Fri|Sat|Sun))"
_MONEY = (
    r"[$\u00a3\u20ac\u00a5]|\d(?:p|k)\b|\b(?:pounds?|quid|dollars?|bucks|euros?|cents?|pence|kroner|kr|francs?|yen|rupees?|usd|eur|gbp|chf"
    r"|sek|nok|dkk|free|nothing)\b"
)
_LENGTH = (
    r"(?:cm|mm|m|km|k|met(?:re|er)s?|feet|foot|ft|inch(?:es)?|in(?=\W*(?:$|[.,;)/]))|miles?|yards?|pages?)\b"
)
_WEIGHT = r"(?:kg|g|mg|kilos?|(?:kilo|milli)?gram(?:me)?s?|pounds?|lbs?|oz|ounces?|stones?|ton(?:ne)?s?)\b"
_VOLUME = (
    r"(?:ml|cl|dl|l|lit(?:re|er)s?|pints?|gallons?|quarts?|cups?|tbsp|tsp|(?:table|tea)?spoons?(?:fuls?)?|scoops?|drops?|tins?"
    r"|cans?|sachets?|handfuls?|cloves?|pinch|knob|thumb|bunch|parts?)\b"
)
# Of money; a number alone may be one, a year is none.
# "Plot 61" and "Korenmarkt 4" cost nothing, unlike "Rent 85".
_UNNAMED = "".join(rf"(?-i:(?<![A-ZÀ-Þ]\w{{{n}}}\s))" for n in range(1, 16))
_LABELS = r"\b(?:rent|prices?|fees?|costs?|deposit|budget|dues|subs|balance|total|excess)\s\d"
_AMOUNT = rf"{_MONEY}|{_LABELS}|(?!\b(?:19|20)\d\d\b){_UNNAMED}(?!no\b){_NUMERAL}(?![a-z])"
_PRICE = rf"{_MONEY}|\d[.,]\d\d\b"
_LASTING = (
    rf"{_SOME}\W*(?:\w+\W+)?{_SPAN}|\b(?:hour|day|week|month|year)long\b|\bovernight\b|{_NUMERAL}\W*[hm]\b"
    r"|\b(?:until|till)\b|\bor (?:two|so)\b"
)
# A measure that "how …" asks for. Its adjective need not be in the answer.
_MEASURES = {
    "long": rf"{_LASTING}|{_NUMERAL}\W*{_LENGTH}",
    "often": r"\b(?:every|each|once|twice|daily|weekly|fortnightly|monthly|yearly|annually|quarterly|always"
    rf"|never|times|{_DAY})\b|\bper\W+(?:day|week|month|year)\b|\b(?:two|three|four) \w+s\b",
    "old": rf"(?<!every )(?<!for )(?<!after ){_NUMERAL}\W+(?:years?|months?|weeks?)\b"
    r"|\b(?:aged?|turn(?:s|ed)|born|built in)\b"
    r"|\b(?:installed|bought|built|made|new|since|from|fitted)\b\W*(?:\w+\W+){0,3}?(?:19|20)\d\d\b",
    "hot": rf"\d\W*(?:degrees|\u00b0|c\b|f\b)|\bdegrees\b|\bmark \d"
    rf"|\b\d{{1,3}}(?:\.\d)?\b(?!\W*(?:{_WEIGHT}|{_VOLUME}|{_LENGTH}|{_SPAN}))",
    "hard": r"\d\W*(?:bar|psi|kpa)\b|\b\d\.\d\b",
    "far": rf"{_SOME}\W*(?:kilomet\w*|minutes?|hours?|{_LENGTH})",
    "tall": r"\d\W*(?:cm|mm|m|met(?:re|er)s?|feet|foot|ft|inch(?:es)?)\b",
    "heavy": rf"{_NUMERAL}\W*{_WEIGHT}",
    "much": rf"\b{_NUMERAL}\b|\d{_WEIGHT}|\d{_VOLUME}|{_MONEY}"
    r"|\b(?:a|an) (?:pinch|knob|thumb|handful|bunch|splash|spoon|cup|tin)\b",
    "many": rf"\b{_NUMERAL}\b|\d",
    "": rf"\b{_NUMERAL}\b|\d",
}
_SAME = {
    **dict.fromkeys(("cold", "warm"), "hot"),
    **dict.fromkeys(("high",), ""),
    **dict.fromkeys(
        (
            "large",
            "big",
            "wide",
            "deep",
            "thick",
            "fast",
            "strong",
            "loud",
            "bright",
            "steep",
            "late",
            "soon",
        ),
        "",
    ),
}
_TIME = (
    rf"\d{{1,2}}[:.]\d\d|\b(?:{_DAY}|{_MONTH}|{_SPAN}|\d{{4}}|\d+(?:st|nd|rd|th)|(?:at|after|before|until|till|since|from|by|past"
    rf"|week|in)\W+{_NUMERAL}|\d+\W+to\W+\d+|\d+k|[ap]\.?m|o['\u2019]clock|noon|midnight|morning|afternoon|evening|bedtime|tonight|today"
    r"|tomorrow|yesterday|(?:after|before)\W+(?!that\b|all\b|it\b|this\b)[a-z]+|daily|weekly|easter|christmas|holidays|now|soon|ago|always|never|tides?|birthday|below|above|when|once)\b"
)
# The thing that an adjective measures, as texts have it: "Height 2.6 m".
_NOUNS = {
    "high": "height",
    "tall": "height",
    "heavy": "weight",
    "wide": "width",
    "deep": "depth",
    "long": "length",
    "far": "distance",
    "fast": "speed",
    "hot": "temperature",
    "cold": "temperature",
    "warm": "temperature",
    "hard": "pressure",
    "steep": "gradient",
    "big": "size",
    "large": "size",
    "strong": "strength",
}
_AT_MOST = re.compile(r"\bhow many\b.*\b(?:may|can|could|are allowed|is allowed)\b", re.IGNORECASE)
_SO_FAR = re.compile(r"\b(?:already|so far|until now|up to now|by now)\b", re.IGNORECASE)
_UNITS = {
    "gram": "g(?:ram)?",
    "milligram": "m(?:illi)?g",
    "kilo": "(?:kg|kilo)",
    "kilogram": "(?:kg|kilo)",
    "litre": "l(?:it)?",
    "liter": "l(?:it)?",
    "millilitre": "ml",
    "minute": "min",
    "second": "sec",
    "hour": "h(?:our|rs?)?",
    "metre": "m(?:et)?",
    "meter": "m(?:et)?",
    "mile": "mi",
    "people": "(?:people|persons?)",
    "person": "(?:people|persons?)",
    "guest": "(?:people|persons?|guest)",
    "spoon": "(?:tbsp|tsp|spoon)",
    "kilometre": "km",
    "kilometer": "km",
}
_SERVES = r"\b(?:feeds?|serves?|seats?|sleeps?|fits?|makes|enough for|for|max(?:imum)?)\W+"
_HOW = re.compile(r"\bhow\s+(\w+)", re.IGNORECASE)
_NO_MEASURE = frozenset(
    re.findall(
        r"\w+",
        "is are am was were do does did have has had can could will would should must may might to about come"
        " i you we he she it they the my",
    )
)
_CLOCK = (
    r"\d{1,2}[:.]\d\d|\b(?:\d+\W*[ap]\.?m|noon|midnight|(?:half|quarter)\W+(?:past|to|\w+)|o['\u2019]clock"
    rf"|\d{{1,2}} (?:to|and) \d{{1,2}}\b(?!\W*{_MONTH})"
    rf"|(?:at|after|before|until|by|from|till|o)\W+{_NUMERAL}"
    rf"(?!\W*(?:(?:to|and|-)\W*\d{{1,2}}\W*)?(?:{_MONTH}|%|degrees))"
    rf"|{_DAY}\W+\d{{1,2}}\b|0\d{{3}})\b"
)
_WHEN = re.compile(
    r"\W*(?:and\s+)?(?:(?:at|on|in|by|from|since|until|till|for)\s+)?(?:when(?:['\u2019]?s)?"
    r"|(?:what|which)(?:['\u2019]?s| is| are)?(?: the)?\s+(?:visiting |opening |office )?"
    r"(?P<unit>times?|hours|dates?|deadline|days?|weekdays?|nights?|mornings?|months?|years?))\b",
    re.IGNORECASE,
)
_DATES = {
    "month": rf"\b{_MONTH}\b",
    "year": r"\b(?:19|20)\d\d\b",
    "day": rf"\b(?:{_DAY}|\d+(?:st|nd|rd|th)|\d{{1,2}} {_MONTH}|{_MONTH} \d{{1,2}}|weekdays?"
    r"|weekends?|daily)\b",
}
_DATES |= {
    "date": _DATES["day"],
    "weekday": _DATES["day"],
    "night": _DATES["day"],
    "morning": _DATES["day"],
    "deadline": _DATES["day"],
}
_WHO = re.compile(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
# "What's the name of Ida's judo teacher?" is answered by a name.
_NAME_OF_SOMEBODY = re.compile(
    r"\bnames? of (?:the|my|our|\w+['\u2019]s) (?:[\w-]+ ){0,2}?(?:man|woman|person|girl|boy|lady|guy|teacher"
    r"|driver|coach|doctor|nurse|vet|owner|neighbou?r|boss|landlord|landlady|plumber|electrician|mechanic|trainer|tutor)\b",
    re.IGNORECASE,
)
# "Mein Zahnarzt ist krank" does not answer "Wer ist mein Zahnarzt?", which may have any form.
_NO_BE = r"(?! (?:ist|sind|war|waren|es|son|era|est|sont|était|is|zijn|è|sono|é|são)\b)"
# Questions in German, Spanish, French, Dutch, Italian and Portuguese: what asks, which no answer repeats, and
# the form of the answer.
_ELSEWHERE = tuple(
    (re.compile(rf"\W*(?:und |y |et |en |e )?(?:{asks})(?![\w'\u2019])", re.IGNORECASE), holds)
    for asks, holds in (
        (
            r"wann|um wie ?viel uhr|(?:desde |hasta )?cuándo|a qué hora|quand(?: est-ce que)?|à quelle heure"
            r"|wanneer|hoe laat|quando|a che ora|a que horas?",
            r"\d|\b(?:\w+(?:tag|woche|monat)s?|heute|morgen|mittags?|abends?|lunes|martes|miércoles|jueves|viernes"
            r"|sábado|domingo|hoy|mañana|\w+di|dimanche|demain|midi|soir|\w+dag|vandaag|\w+dì|sabato|domenica|oggi"
            r"|domani|\w+-feira|hoje|amanhã)\b",
        ),
        (
            r"wo|wohin|a?dónde|où(?: est-ce que)?|waar|dove|onde",
            r"\b(?:i[nm]?|am|an|auf|unter|über|bei|beim|neben|hinter|vor|zwischen|nach|aus|en|al?|debajo|encima|detrás"
            r"|cerca|à|aux?|chez|sous|sur|dans|derrière|devant|près|op|onder|bij|naast|achter|voor|sotto|sopra|su[li]?"
            r"|nel\w*|all[ae']|da|dietro|em|n[ao]s?|sob|sobre)\b",
        ),
        (
            r"wie (?:viele?|alt|lange?|groß|hoch|weit|schwer|teuer|oft)|wieviele?|cuánt[oa]s?(?: años)?"
            r"|combien(?: de| d['\u2019])?(?: est-ce que)?|quel âge|hoe (?:oud|veel|lang|groot|hoog|ver)"
            r"|hoeveel|quant[oaie]s?(?: anni| anos)?",
            r"\d|\b(?:zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|dos|tres|cuatro|cinco|seis|siete|ocho|nueve"
            r"|diez|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|twee|drie|vijf|zes|zeven|negen|tien|due|tre|quattro"
            r"|cinque|sei|sette|otto|nove|dieci|dois|duas|três|sete|oito|dez)\b",
        ),
        (r"wie(?= (?:hei(?:ß|ss)|nenn))|cómo(?= (?:me|se) llam)|comment(?= (?:je m|s)['\u2019]appelle)", ""),
        (r"hoe(?= heet)|come(?= (?:mi|si) chiam)|como(?= (?:me chamo|se chama))", ""),
        (
            rf"(?:wer|wen|wem|quién(?:es)?|chi|quem){_NO_BE}|wogegen|a qué|à quoi|waarvoor|waartegen|a cosa",
            "",
        ),
        (rf"(?:was(?= \w+(?:e|t) (?:ich|mein\w*|unser\w*)\b)|wat|cosa|qué){_NO_BE}", ""),
    )
)
# "Is my dad still alive?" is answered by "My dad passed away", and so is "What happened to my dad?".
_ALIVE = re.compile(
    r"\b(?:alive|dead|deceased|still (?:with us|around|living))(?=\W*$|\s+(?:or|now|today|yet|already)\b)"
    r"|\bdid\b.*\b(?:die|pass away)\b",
    re.IGNORECASE,
)
_DIES = "alive dead deceased still around living die died pass passed away"
# What is said of the one asked about, who stands before it: "My sister's cat died" tells nothing of her.
_FATE = (
    r"(?:(?:is|are|was|were|has|have|had|also|both|sadly|just|suddenly|already|still)\s+)*"
    r"(?:died|passed away|deceased|alive|buried|no longer with us"
    r"|(?:dead|passed)(?=\W*$|[.,;!?]| (?:now|since|in|on|last)\b))"
)
_DEATH = r"\b(?:died|dead|passed away|death|funeral|buried|no longer with us)\b"
_HAPPENED = re.compile(r"\bwhat(?:['\u2019]s| has| did)? happen(?:ed)? (?:to|with)\b", re.IGNORECASE)
_MISHAP = (
    rf"{_DEATH}|\b(?:accidents?|br(?:oke|oken)|fell|crash\w*|stolen|stole|hurt|injur\w*|hospital|operat\w*"
    r"|surgery|fired|sacked|redundant|divorced?|arrested|burn\w*|flooded|sold|ran away|lost|cancell?ed|closed"
    r"|scrapped)\b"
)
_WHERE = re.compile(r"\W*(?:and\s+)?(?:from\s+)?where\b", re.IGNORECASE)
_PLACE = (
    r"\b(?:in|at|on|under|behind|beside|inside|from|near|above|below|next to|outside|over|top of|between)\b"
)
# "Where do we get the pellets?" is answered by "from the cooperative".
_SOURCE = re.compile(
    r"\W*(?:and\s+)?(?:from\s+)?where\s+(?:do|did|can|could|should|must) (?:i|we|you|they)"
    r" (?:get|buy|order|fetch|source|purchase)\b(?!\s+(?:on|off|out|in|up|to)\b)",
    re.IGNORECASE,
)
_FROM = r"\b(?:from|bought|buy|order(?:ed)?|suppl(?:y|ies|ied|iers?)|sells?|sold|shops?|stores?|markets?)\b"
_COLOR = (
    r"\b(?:black|white|gr[ea]y|red|green|blue|yellow|orange|brown|pink|purple|silver|gold|beige|cream|teal|navy"
    r"|turquoise|maroon|burgundy|ochre|amber|ivory|lilac|violet|magenta|crimson|scarlet|khaki|olive|mustard|coral"
    r"|peach|bronze|copper|charcoal|indigo|cyan|rust|tan|hazel|blonde?|ginger|auburn)\b"
)
_PHONE = r"\d[\d ()/-]{4,}\d"
# What a noun behind "what" or "which" wants the answer to have, if not the noun itself.
_KINDS = (
    (r"temp\w*|degrees", _MEASURES["hot"]),
    (r"pressures?|psi", r"\d\W*(?:bar|psi|kpa)\b|\b\d[\d.]*\b"),
    (r"(?:tele)?phone numbers?|mobile numbers?", _PHONE),
    (r"numbers?", r"\d"),
    (r"price|fees?|rent|cost|charge|rate|penalty|fine|deposit|excess|balance|dues|subs", rf"{_MONEY}|\d"),
    (r"percent\w*|share|discount|strength|ratio", r"%|\bper ?cent|\d|\bto\b|\bhalf\b"),
    (r"passwords?|pin|login", r"\b(?:pass\w*|pin|code|key|login)\b|\u2022"),
    (r"codes?|combination|reference|serial", r"\d|\u2022"),
    (
        r"sizes?|angle|speed|rpm|settings?|dose|dosage|amount|length|height|width|level",
        r"\d|\b(?:small|medium|large)\b",
    ),
    (r"colou?rs?", _COLOR),
    (r"emails?|e-mail|mail address", r"@"),
)  # fmt: skip
_ADDRESS_NOUN = re.compile(r" (?:(?:home|postal|street|full|exact|delivery|mailing) )?address", re.IGNORECASE)
_NETWORK_ADDRESS = re.compile(r" (?:[\w'\u2019-]+ ){0,2}?IP(?: address)?", re.IGNORECASE)
_NETWORK = r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){2,}"
# The number of a house beside the name of its street.
_ADDRESS = (
    rf"\b(?!{_MONTH})(?-i:[A-ZÀ-Þ][a-zß-ÿ]{{2,}}),? \d{{1,4}}\b"
    rf"|\b\d{{1,4}}[a-z]?,? (?!{_MONTH})(?-i:[A-ZÀ-Þ]\w+)|@|\bwww\b|\d+\.\d+\.\d+"
)
_KIND = re.compile(
    r"\b(?:what|which)(?:['\u2019]?s| is| are| was)?(?: (?:the|our|my))?"
    r"(?P<nouns>(?: (?!(?:do|does|did|is|are|was|of|for|on|in|to|must|should|can|has|have|i|we)\b)"
    r"[\w'\u2019-]+){1,4})",
    re.IGNORECASE,
)
_ABOUT = re.compile(r"\bwhat(?:['\u2019]?s| is| are| was) (?:.+) about\b", re.IGNORECASE)
_ACRONYM = 4  # letters, at most
# "What mustn't he eat?" is answered by "No lamb bones".
_DENIES = re.compile(r"n['\u2019]t\b|\b(?:not|never|avoid|forbidden|without)\b", re.IGNORECASE)
_DENIED = r"\b(?:no|not|never|cannot|without|except|avoid|only|hates?)\b|n['\u2019]t\b"
_COSTS = frozenset(("cost", "pay", "price", "charg", "spend", "earn", "paid", "worth"))
_ASKS_PRICE = re.compile(
    r"\bwhat\b.*\b(?:cost|charge|pay|paid|come to|go for|sell for)\b|\bhow much (?:is|are|was|were)\b",
    re.IGNORECASE,
)
_SURNAME = re.compile(r"\b(?:surname|(?:last|family|second) name)\b", re.IGNORECASE)
# A first name alone is none.
_FULL_NAME = r"(?-i:\b[A-ZÀ-Þ][\w.'\u2019-]* [A-ZÀ-Þ][\w'\u2019-]+)|\b(?:surname|(?:last|family) name)\b"
_WHOSE = re.compile(r"(\w+)['\u2019]s? (?:surname|(?:last|family|second) name)\b", re.IGNORECASE)
# "the quickdraws with the red tape" are nobody's company.
_WITH = re.compile(
    r"\bwith (?:whom?|me|us)\b|\bwhom?\b.*\bwith\b(?:\W*$| (?:in|on|at|to|for)\b)", re.IGNORECASE
)
_WITH_SOMEBODY = (
    r"\b(?:with|and|shar\w+|alongside|together|joined|joins|beside|by|plus|through|via)\b"
    r"(?: (?:my|our|the))?[^.!?]*?"
    r"(?:(?-i:\b[A-ZÀ-Þ][a-zß-ÿ]+)|\bm[ou]m|\bdad|sister|brother|friend|colleague|cousin|boss)"
    r"|(?-i:\b[A-ZÀ-Þ][a-zß-ÿ]+),? and (?:I|me)\b"
)
_IN_CHOIR = re.compile(
    r"\b(?:part|voice)\b.*\b(?:sing|choir|chorus)|\bsing\b.*\b(?:part|voice)\b", re.IGNORECASE
)
_VOICES = frozenset(content_words("part voice sing"))
_VOICE = r"\b(?:soprano|mezzo|alto|contralto|tenor|baritone|bass|treble|descant)s?\b"
# "How can I tell that the bread is done?"
_SIGN = re.compile(
    r"\bhow (?:can|do|will|would|should) (?:i|we|you|one) (?:tell|know|see|check|notice|find out)"
    r" (?:that|when|if|whether)\b.* (?:is|are|has|have|needs?) (?:to be )?(\w+)\W*$",
    re.IGNORECASE,
)
_SHOULD_BE = re.compile(r"\bwhat should\b.*\bbe (?:at|set (?:at|to)|pumped (?:up )?to)\W*$", re.IGNORECASE)
_IS_THE = re.compile(
    r"\b(?:what|which) (?:\w+ ){1,3}(?:is|are|means?) (?:the )?(\w+)(?: ones?)?\W*$", re.IGNORECASE
)
_OWNED = re.compile(
    r"\b(?!(?:what|who|where|when|how|it|that|there|let|here)['\u2019])\w+['\u2019]s?\s+(\w+)(?:\s+(\w+))?",
    re.I,
)
_TRIP = r"(?:ferry|flight|train|bus|coach|boat|crossing|sailing|plane|journey|trip|leg|drive|way|ride)"
_WAY_BACK = re.compile(
    rf"\b(?:brings?|takes?|gets?|fly|go|drive|travel|come) (?:us |me )?(?:back|home)\b"
    rf"|\b{_TRIP}\s+(?:back|home)\b|\b(?:return|homeward|inbound)\s+{_TRIP}\b",
    re.IGNORECASE,
)
BACK = re.compile(r"\b(?:back|home\w*|return\w*|inbound)\b", re.IGNORECASE)
_CALLS = frozenset(content_words("ring call phone dial text reach"))
_MY_NUMBER = re.compile(r"\bmy (?:(?:tele)?phone|mobile) number\b", re.IGNORECASE)
_DIALS = re.compile(r"\bnumber\b.*\b(?:ring|call|phone|dial|text|reach)\b", re.IGNORECASE)
_LASTS = frozenset(("take", "last", "stay"))
_NAME = re.compile(r"(?<=\w)[,;]?\s+([A-ZÀ-Þ](?:[\w-]|['\u2019](?!s\b))*)\b(?!\.\d)")
_LETTER = re.compile(r"(?<=[a-z] )(?!I\b)[A-Z](?![\w'\u2019.])")
_YES_OR_NO = re.compile(
    r"\W*(?:and\s+)?(?:is|are|was|were|do|does|did|has|have|can|could|will)\b", re.IGNORECASE
)
_PERSONS_NUMBER = re.compile(r"\b[A-ZÀ-Þ][\w-]+['\u2019]s (?:(?:tele)?phone |mobile |cell )?number\b")
_BIRTH = re.compile(r"\b(?:birthday|birth date|date of birth)\b", re.IGNORECASE)
_WEEKDAYS = frozenset(content_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"))
_DAYS = {
    day[:2].casefold(): day
    for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
}
# "Mon chien" is no Monday.
_SHORT_DAY = re.compile(
    r"\b(?:Mon(?! (?!at|to|and|or|until|till|is|the|from|morning|afternoon|evening|night)[a-zà-ÿ]{2,})"
    r"|Tue|Wed|Thu|Fri|Sat|Sun|(?i:tues|weds|thurs?))\b"
)
_NO_NAMES = _WEEKDAYS | frozenset(
    content_words(
        "January February March April June July August September October November December"
        " Mon Tue Wed Thu Fri Sat Sun"
    )
)
# Somebody in a text who is not named: "the night porter", "Gran".
_SOMEBODY = re.compile(
    r"\b(?:mr|mrs|ms|miss|dr|prof|sister|father|aunt|uncle)\b|\b(?:the|a|an|my|our|his|her)\s+(?:\w+\s+){0,2}?"
    r"(?:porter|manager|nurse|doctor|teacher|driver|owner|leader|captain|coach|secretary|treasurer|keeper|cleaner"
    r"|supplier|dealer|council|office|school|company|club|farmer|plumber|neighbou?r|landlord|agent|vicar|warden"
    r"|steward|chair|boys|girls|children|kids|parents?|in-laws|\w+(?:ists?|ians?|men|man|woman|women))\b",
    re.IGNORECASE,
)
# Capitals that name no thing, but the form of the answer.
_FORMS = frozenset(content_words("IP"))
# Words that say nothing about what a text has to hold.
_VAGUE = frozenset(
    content_words("get got need use using go going like again want still may might mr mrs ms dr")
)
# Words that ask for something to be told, and that a note about it rarely has.
_SLIGHT = (
    FRAME
    | _WEEKDAYS
    | frozenset(
        content_words(
            "allow suppose happen mean means come comes came run thing stuff big many much high low"
            " hard first last best next new old time day week month year number amount name person people"
            " place able let tell said say does per each moment currently when away once until without"
            " afterwards finally"
        )
    )
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The content of a question, which a sentence has to match.

    `words` are its content words, of which the `slight` ones weigh little; `hints` are words that the answer
    may have besides, such as "height" for "how high". `needed` are numbers and names that the source has to
    have, `context` the words of the question before it. A sentence has to match `holds`;
    among those that do, it is likelier if it matches `likely`. `asked` is the thing of "which tray".
    `letters` tell things apart that are called the same: "oven B". Of "the caravan's tyres" the tyres are
    `owned`; `way` are the words of "the ferry home", which a text about the way out does not answer.
    `is_color` and `is_place`: a colour or a place is asked for.
    """

    words: frozenset[str]
    slight: frozenset[str]
    hints: frozenset[str]
    needed: frozenset[str]
    context: frozenset[str]
    holds: re.Pattern[str] | None
    likely: re.Pattern[str] | None = None
    is_person: bool = False
    is_yes_or_no: bool = False
    asked: frozenset[str] = frozenset()
    letters: frozenset[str] = frozenset()
    is_place: bool = False
    is_color: bool = False
    owned: frozenset[str] = frozenset()
    way: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Form:
    """The words of a question that have to be found, and patterns and hints of its answer: see Wanted."""

    words: frozenset[str]
    holds: str = ""
    likely: str = ""
    hints: Collection[str] = ()
    asked: Collection[str] = ()


# Characters; the time to read a question grows with the square of its length.
_LONGEST = 2000


def wanted_by(question: Question) -> Wanted:
    """Return what answers a question; of a very long one, its beginning counts."""
    text, context = question.text[:_LONGEST], content_of(question.before[:_LONGEST])
    words = content_of(text)
    heavy = words - _VAGUE if len(words - _VAGUE) > 1 else words
    form = _form_of_fate(text, heavy) or _form_elsewhere(text, heavy) or _form_of(text, heavy)
    likely = form.likely or (_DENIED if _DENIES.search(text) else "")
    letters = frozenset(_LETTER.findall(text))
    small = {letter.casefold() for letter in letters}
    # Of "error F28" the number is needed alone.
    called = (name for name in _NAME.findall(text) if not NUMBER.search(name))
    names = {word for name in called for word in keywords(name)} - STOP_WORDS - _FORMS
    relations = {word for relation in relations_in(text) for word in keywords(relation)}
    if _MY_NUMBER.search(text):
        names |= {"phone"}  # somebody else's is not meant
    weekdays = form.words & _WEEKDAYS
    needed = frozenset({*NUMBER.findall(text), *names, *relations, *weekdays}) - _VAGUE - small
    words = form.words - small or form.words
    if not words:  # "And when?"
        words, context = context, frozenset()
    return Wanted(
        words,
        words & _SLIGHT,
        frozenset(form.hints) - words,
        needed,
        context,
        re.compile(form.holds, re.IGNORECASE) if form.holds else None,
        re.compile(likely, re.IGNORECASE) if likely else None,
        is_person=(_WHO.search(text) or _NAME_OF_SOMEBODY.search(text)) is not None,
        is_yes_or_no=_YES_OR_NO.match(text) is not None,
        is_place=likely == _PLACE,
        is_color=likely == _COLOR,
        asked=frozenset(form.asked) & words,
        letters=letters,
        owned=_owned(text) & words,
        way=content_of(way[0]) if (way := _WAY_BACK.search(text)) else frozenset(),
    )


def _form_of(text: str, words: frozenset[str]) -> _Form:
    """Return the form of the answer to a question with these words."""
    measured = _HOW.search(text)
    if measured and measured[1].casefold() not in _NO_MEASURE:
        return _measured(text, words, measured[1].casefold(), text[measured.end() :])
    if _BIRTH.search(text):
        return _Form(words, rf"\d[./]\d|\b{_MONTH}\b")
    if asks_when := _WHEN.match(text):
        unit = (asks_when["unit"] or "").casefold().removesuffix("s")
        holds = _CLOCK if unit in ("time", "hour") else _TIME
        others = words.difference(keywords(unit)) or words
        return _Form(others, holds, _DATES.get(unit, ""), keywords(unit))
    if _SOURCE.match(text):
        return _Form(words, likely=_FROM)
    if _WHERE.match(text):
        return _Form(words, likely=_PLACE)
    if _SURNAME.search(text):
        return _Form(words, _full_name_in(text))
    if _WHO.search(text) and _WITH.search(text):
        return _Form(words, _WITH_SOMEBODY)
    if _IN_CHOIR.search(text):
        return _Form(words - _VOICES or words, _VOICE)
    if sign := _SIGN.search(text):
        likely = rf"\b(?:{re.escape(sign[1])}|done|ready|means?|until|when)\b"
        return _Form(words, likely=likely, hints=(*keywords("means"), *keywords(sign[1])))
    if _SHOULD_BE.search(text):
        return _Form(words, likely=_MEASURES[""])
    if _ASKS_PRICE.search(text) and words & _COSTS:
        return _Form(words - _COSTS or words, _AMOUNT, _PRICE, ("cost",))
    if kind := _KIND.search(text):
        return _of_kind(text, words, kind["nouns"])
    return _Form(words, hints=("topic",) if _ABOUT.search(text) else ())


def _form_of_fate(text: str, words: frozenset[str]) -> _Form | None:
    """Return the form of the answer to "Is … alive?" and "What happened to …?", None for other questions."""
    if _ALIVE.search(text):
        others = words - content_of(_DIES) or words
        return _Form(others, _fate_of(text, others))
    if _HAPPENED.search(text):
        return _Form(words - content_of("happen happened") or words, _MISHAP)
    return None


def _form_elsewhere(text: str, words: frozenset[str]) -> _Form | None:
    """Return the form of the answer to a question in another language than English, None for others."""
    for asks, holds in _ELSEWHERE:
        if asked := asks.match(text):
            # "suis-je"
            inverted = {word for word in words if word.endswith("-je")} | {"je"}
            return _Form(words - content_of(asked[0]) - inverted or words, holds)
    return None


def _fate_of(text: str, words: frozenset[str]) -> str:
    """Return the form of a sentence that says whether those whom a question names with these stems live."""
    # Somebody may be told of by name ("Bob died"), or in a sentence of their own ("He died in May").
    named = [re.escape(one) for one in _WORD.findall(text) if not words.isdisjoint(content_of(one))]
    names = rf"(?:{'|'.join((*named, '(?-i:[A-ZÀ-Þ][a-zß-ÿ]+)'))})"
    who = rf"{names}(?!['\u2019\w])"
    owner = r"(?:\w+['\u2019]s?\s+)?" if re.search(r"\w['\u2019]s?\s", text) else ""
    return (
        rf"(?:^\W*|[.,;:]\s+|\b(?:and|that|but)\s+)(?:(?:my|our|the)\s+)?{owner}(?:[a-z]+\s+)?{who}"
        rf"(?:\s+(?:(?-i:[A-ZÀ-Þ])\w+|and\s+\w+))?,?\s+{_FATE}"
        rf"|\b{who}[^.!?]*[.!?,;]\s*(?:but\s+|and\s+)?(?:he|she|they)\s+{_FATE}"
        rf"|\b(?:lost|buried)\s+(?:my|our)\s+{who}(?=\W*$|\s+(?:in|on|to|last|when|at|this)\b)"
        rf"|\b{names}['\u2019]s?\s+(?:death|funeral)\b|\b(?:death|funeral)\s+of\s+(?:my|our)\s+{who}"
    )


def _of_kind(text: str, words: frozenset[str], nouns: str) -> _Form:
    """Return the form of an answer to "which tray …" or "what is the price …"."""
    asked = keywords(nouns)[-1:]
    if one := _IS_THE.search(text):  # "Which band is the strong one?" stands beside "strong"
        asked = keywords(one[1])[-1:] or asked
    if _PERSONS_NUMBER.search(text):
        return _Form(words - content_of("number phone") or words, _PHONE, hints=("contact", "phone"))
    if _DIALS.search(text):  # "What number do I ring …"
        return _Form(words - _CALLS - {*asked} or words, r"\d{3}", hints=("contact",))
    if _ADDRESS_NOUN.fullmatch(nouns):
        return _Form(words - content_of("address") or words, _ADDRESS, hints=content_of("address"))
    if _NETWORK_ADDRESS.fullmatch(nouns):
        return _Form(words - content_of("IP address") or words, _NETWORK, hints=content_of("address"))
    holds = next((form for noun, form in _KINDS if re.search(rf"\b(?:{noun})$", nouns, re.IGNORECASE)), "")
    if holds == _COLOR:  # It may be told as "RAL 7044".
        return _Form(words, likely=holds, asked=asked)
    # "form W-6"
    likely = rf"\b{re.escape(asked[0])}\w*\W{{1,2}}(?-i:[A-Z]*\d|[A-Z])" if asked and not holds else ""
    return _Form(words, holds, likely, asked=asked)


def _measured(text: str, words: frozenset[str], adjective: str, rest: str) -> _Form:
    """Return the form of the answer to "how long …" and the like."""
    pattern, likely = _MEASURES.get(_SAME.get(adjective, adjective), ""), ""
    verbs: Collection[str] = _LASTS if adjective == "long" else ()
    if not words.isdisjoint(verbs):
        pattern = _LASTING
    if adjective == "much" and (words & _COSTS or _ASKS_PRICE.search(text)):
        pattern, likely, verbs = _AMOUNT, _PRICE, _COSTS
    if not pattern:
        return _Form(words)
    named = words - {adjective, *keywords(adjective)}
    words = named.difference(verbs) or named or words
    if adjective == "old":  # "Leo is 7.", "Leo, who is 7", "Leo (7)"
        who = "|".join(re.findall(r"\w+", rest))
        be = r"(?:\W+(?:who|he|she|they))?(?:\W+(?:is|am|are)|['\u2019](?:s|m|re))"
        pattern = (
            rf"{pattern}|\b(?:{who}){be}\W+(?:\w+\W+)?{_NUMERAL}"
            r"(?=\W*(?:$|[.,;!)]|(?:and|but|now|already)\b))"
            rf"|\b(?:{who}) \({_NUMERAL}\)"
        )
    if adjective == "much" and not likely:
        likely = rf"\d ?(?:{_WEIGHT}|{_VOLUME})"
    if adjective == "many" and _AT_MOST.search(text):
        likely = r"\b(?:no more than|at most|max(?:imum)?|up to|limit\w*|only)\b"
    elif adjective in ("many", "much") and _SO_FAR.search(text):
        likely = r"\b(?:so far|already|done|until now|up to now|as of)\b"
    elif adjective == "many" and (counted := _counted(text)):
        likely = rf"{_NUMERAL}\W*(?:\w+\W+){{0,2}}?{counted}|{counted}\w*(?::|,)?\s*\d|{_SERVES}{_NUMERAL}"
    noun = "cost" if likely == _PRICE else _NOUNS.get(adjective, "")
    return _Form(words, pattern, likely, keywords(noun))


def tells_somebody(sentence: str, known: frozenset[str]) -> bool:
    """Return whether a sentence has a word that may stand for a person or a company and is not `known`."""
    if _SOMEBODY.search(sentence):
        return True
    for found in _WORD.finditer(sentence):
        word = found[0]
        stems = content_of(word)
        if (
            not word[0].isupper()
            or (word.isupper() and len(word) <= _ACRONYM)
            or stems <= known
            or not stems.isdisjoint(_NO_NAMES)
        ):
            continue
        begins = found.start() == 0 or sentence[: found.start()].rstrip().endswith(":")
        if not begins or word.casefold() not in STOP_WORDS:
            return True
    return not relations_among(content_of(sentence)) <= relations_among(known)


def content_of(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that say something; "Weds" is Wednesday."""
    return frozenset(content_words(_SHORT_DAY.sub(lambda found: _DAYS[found[0][:2].casefold()], text)))


def _full_name_in(text: str) -> str:
    """Return the form of a name with a surname, of the one whom a question names: "Jonas Weber"."""
    owner = _WHOSE.search(text)
    if owner is None or any(map(is_common, keywords(owner[1]))):
        return _FULL_NAME
    return rf"\b{re.escape(owner[1])} (?-i:[A-ZÀ-Þ])|\b(?:surname|(?:last|family) name)\b"


def numbers_in(text: str) -> frozenset[str]:
    """Return the numbers of a text in digits, with those of ten and more that are spelled out."""
    spelled = (_SPELLED.get(word) for word in re.findall(r"[a-z]+", text.casefold()))
    return frozenset((*NUMBER.findall(text), *filter(None, spelled)))


def _owned(text: str) -> frozenset[str]:
    """Return the stems behind the first owner in a question: the tyres of "the caravan's tyres"."""
    found = _OWNED.search(text)
    return content_of(f"{found[1]} {found[2] or ''}") if found else frozenset()


def _counted(text: str) -> str:
    """Return how the word of what is counted begins: "bike" of "how many bikes"."""
    found = re.search(r"\bhow many\s+(\w+)", text, re.IGNORECASE)
    word = found[1].casefold() if found else ""
    if unit := _UNITS.get(word.removesuffix("s")):
        return unit
    return "" if word.casefold() in _NO_MEASURE else re.escape(word.removesuffix("s").removesuffix("ie"))
