"""English words that say who is meant: roles, kinds of things, pronouns, given names, what is no name at all.

Lists, not rules; other languages have names and known entities, and no more.
"""

from __future__ import annotations

from shepherd._native.text import STOP_WORDS
from shepherd.entities.records import EntityType, Gender

__all__ = [
    "CONNECTORS",
    "ENDINGS",
    "FEMALE_NAMES",
    "GIVEN_NAMES",
    "HONORIFICS",
    "KINDS",
    "NO_NAMES",
    "ORDINARY_NAMES",
    "OWNED_KINDS",
    "PERSONAL_VERBS",
    "PERSON_WORDS",
    "PLACES",
    "POSSESSIVES",
    "PRONOUNS",
    "ROLES",
    "gender_of_name",
    "is_plain_word",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Who somebody is to somebody.
_FEMALE_ROLES = _words(
    "mother mom mum sister wife daughter aunt niece grandmother grandma granddaughter girlfriend fiancée"
    " stepmother stepsister mother-in-law sister-in-law daughter-in-law landlady"
)
_MALE_ROLES = _words(
    "father dad brother husband son uncle nephew grandfather grandpa grandson boyfriend fiancé stepfather"
    " stepbrother father-in-law brother-in-law son-in-law"
)
_OTHER_ROLES = _words(
    "partner spouse child kid baby cousin parent friend flatmate roommate neighbour neighbor colleague"
    " coworker co-worker boss manager supervisor mentor coach teacher tutor professor doctor dentist"
    " therapist lawyer accountant landlord client customer assistant intern student director founder"
    " cofounder ceo cto cfo president chef nurse vet trainer designer developer engineer programmer"
    " architect editor author investor recruiter secretary advisor adviser"
)
ROLES: dict[str, Gender] = {
    **dict.fromkeys(_FEMALE_ROLES, "f"),
    **dict.fromkeys(_MALE_ROLES, "m"),
    **dict.fromkeys(_OTHER_ROLES, ""),
}

# What "the company" and "my dog" are.
KINDS: dict[str, EntityType] = {
    **dict.fromkeys(_words("man woman guy girl boy lady gentleman person"), "person"),
    **dict.fromkeys(
        _words(
            "company firm startup employer organization organisation university college school bank"
            " agency team"
            " band club restaurant hospital"
        ),
        "organization",
    ),
    **dict.fromkeys(_words("city town village country state region island place area hometown"), "location"),
    **dict.fromkeys(
        _words("conference meeting party wedding festival concert event trip workshop ceremony exam"), "event"
    ),
    **dict.fromkeys(
        _words(
            "book novel film movie song album car bike phone laptop app tool product project game language"
            " library framework paper website boat"
        ),
        "object",
    ),
    **dict.fromkeys(_words("dog cat horse parrot rabbit hamster pet"), "unknown"),
}

# Of what somebody owns, belongs to or is from: what a conversation speaks of as of somebody.
OWNED_KINDS = _words(
    "company firm startup employer organization organisation university college school team band hometown"
    " dog cat horse parrot rabbit hamster"
)

PERSON_WORDS: dict[str, Gender] = {
    **dict.fromkeys(("man", "guy", "boy", "gentleman"), "m"),
    **dict.fromkeys(("woman", "girl", "lady"), "f"),
}

# Which gender a pronoun asks for: "n" is a thing, "p" several or anybody.
PRONOUNS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "m"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "f"),
    **dict.fromkeys(("it", "its", "itself"), "n"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themselves"), "p"),
}
POSSESSIVES = _words("my our his her their its")

HONORIFICS: dict[str, Gender] = {
    **dict.fromkeys(("mr", "sir", "herr"), "m"),
    **dict.fromkeys(("mrs", "ms", "miss", "madam", "frau", "lady"), "f"),
    **dict.fromkeys(("dr", "prof", "professor", "doctor"), ""),
}

FEMALE_NAMES = _words(
    "aisha alice alexandra alina amanda amelia amy ana andrea angela anita anna anne annie astrid barbara"
    " beth camila carla carmen caroline catherine charlotte chiara chloe christina claire clara daniela"
    " deborah diana elena elisabeth elizabeth ella ellen emilia emily emma erika esther eva fatima fiona"
    " frida gabriela grace greta hannah heather helen helena ingrid irene isabel isabella jane janet"
    " jennifer jessica joan johanna judith julia julie karen karin kate katherine kathrin katja laila"
    " laura lea lena leila linda lisa liz lucia lucy luisa magdalena margaret maria marie marta martha"
    " mary maya megan mei melissa mia michelle miriam monica nadia nancy naomi natalie natasha nicole nina"
    " nora olga olivia pamela patricia paula petra priya rachel rebecca rita rosa ruth sandra sara sarah"
    " silvia simone sofia sonja sophia sophie stella stephanie susan svetlana sylvia tanja teresa theresa"
    " tina ursula valentina vanessa vera victoria yasmin yuki yvonne zoe"
)
MALE_NAMES = _words(
    "aaron abdul adam adrian ahmed alan albert alexander ali alfred amir anders andre andreas andrew"
    " antonio arjun arthur ben benjamin bernd bob boris brian bruno carl carlos charles chen christian"
    " christoph christopher claude daniel dave david dennis diego dieter dmitri edward eric erik ethan"
    " felix fernando florian francesco frank franz fred friedrich gabriel george georg giovanni greg"
    " gustav hans harold harry hassan heinrich henry hiroshi hugo ian ibrahim igor ivan jack jacob jakob"
    " james jan jason javier jeff jens jim joe johannes john johnny jonas jonathan jorge jose josef joseph"
    " joshua juan jürgen karl keith ken kenneth kevin klaus kurt larry lars leo leon liam louis luca lucas"
    " luis lukas luke marcel marco marcus mario markus martin matteo matthew matthias max michael miguel"
    " mike mohamed mohammed moritz nathan nicholas nick nicolas nikolai noah oliver omar oscar otto pablo"
    " paolo patrick paul pedro peter phil philip pierre rafael rahul raj ralf richard rob robert roger"
    " roland rolf ron ryan samuel scott sebastian sergei simon stefan stephen steve steven sven thomas tim"
    " timothy tobias tom tony ulrich victor vincent vladimir walter werner wilhelm william wolfgang yusuf"
)
# Both, or either: they are names, and agree with both pronouns.
_OPEN_NAMES = _words("alex andy ashley casey chris jamie jordan kim lee morgan pat robin sam taylor terry")
GIVEN_NAMES = FEMALE_NAMES | MALE_NAMES | _OPEN_NAMES

PLACES = _words(
    "africa america amsterdam asia athens atlanta austin australia austria bangkok barcelona beijing"
    " belgium berlin bern bonn boston brazil britain brussels budapest cairo california canada chicago"
    " chile china cologne colombia copenhagen dallas delhi denmark denver dublin edinburgh egypt england"
    " europe finland florence florida france frankfurt geneva germany glasgow greece hamburg hanoi havana"
    " helsinki houston hungary india indonesia iran iraq ireland israel istanbul italy jakarta japan kenya"
    " korea kyiv lagos leipzig lisbon london luxembourg lyon madrid manchester melbourne mexico miami"
    " milan montreal morocco moscow mumbai munich nairobi naples netherlands nigeria norway oslo oxford"
    " pakistan paris peru philadelphia poland portland portugal prague rome russia salzburg scotland"
    " seattle seoul shanghai singapore spain stockholm stuttgart sweden switzerland sydney taiwan texas"
    " thailand tokyo toronto turin turkey uk ukraine usa vancouver venice vermont vienna vietnam wales"
    " warsaw washington zurich zürich"
)
_ORGANIZATION_ENDINGS = _words(
    "inc corp corporation ltd llc gmbh ag plc co company group university college institute bank"
    " foundation school hospital agency ministry labs studios airlines industries technologies systems"
)
_PLACE_ENDINGS = _words(
    "street avenue road city county lake river island mountains beach park square airport"
)
_EVENT_ENDINGS = _words("conference festival war olympics summit championship cup day week wedding")
ENDINGS: dict[str, EntityType] = {
    **dict.fromkeys(_ORGANIZATION_ENDINGS, "organization"),
    **dict.fromkeys(_PLACE_ENDINGS, "location"),
    **dict.fromkeys(_EVENT_ENDINGS, "event"),
}

# Between two capitalised words of one name.
CONNECTORS = _words("of de van von der den da di la del du le al bin ibn")

# What people do: a sentence's first word before one of these is somebody.
PERSONAL_VERBS = _words(
    "said says told tells asked asks called calls thinks thought wants wanted likes liked loves loved"
    " hates works worked lives lived moved went met married wrote writes emailed phoned texted visited"
    " knows knew got gave took made came left sent bought"
)

_DAYS = _words(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july"
    " august september october november december christmas easter"
)
_TONGUES = _words(
    "american arab arabic asian australian austrian belgian brazilian british bulgarian canadian catholic"
    " chinese christian croatian czech danish dutch egyptian english european finnish french german greek"
    " hindi hindu hungarian indian irish islamic israeli italian japanese jewish korean latin mexican"
    " muslim norwegian persian polish portuguese romanian russian scottish spanish swedish swiss thai"
    " turkish ukrainian vietnamese welsh"
)
# Capitalised where a sentence begins, an answer is laid out, or by habit.
_STARTERS = _words(
    "add also although answer apart ask assume based because before besides both bye call can check"
    " compare consider convert could create dear define describe despite does draft during each edit"
    " either else english every example explain explore find fine finally first fix following give given"
    " good great guess happy hello help here hey hi how however imagine important indeed instead just keep"
    " last lately later let lets like list look make many maybe meanwhile moreover most my name need never"
    " next nice no none not note nothing now ok okay once one only or otherwise our over please plus put"
    " read really recently remember remind right say second see send several show since so some someone"
    " something sometimes sorry start still stop sum suggest suppose sure take tell thank thanks then"
    " there therefore these think third this those though thus today tomorrow tonight translate try two"
    " unfortunately use using usually want was we welcome well were what whatever when whenever where"
    " which while who whose why will with without would write yes yesterday yet you your step summary"
    " title chapter part question section table figure file page version true false"
)
NO_NAMES = _DAYS | _TONGUES | _STARTERS | frozenset(STOP_WORDS) | frozenset(PRONOUNS) | _words("i i'm i've")

# Names that are words, too: written small they are the word.
ORDINARY_NAMES = _words(
    "art bill dawn dean drew faith frank grace grant hope ivy jack joy june lily mark max may miles nick"
    " pat ray rich rob rose ruby sandy sky stone sue summer will go rust swift rest apple amazon word"
    " excel notion slack teams signal spring docker shell target orange gap visa may turkey china nice"
    " reading"
)


def gender_of_name(name: str) -> Gender:
    """Of a person's full name, by its first word."""
    first = name.split(maxsplit=1)[0].casefold() if name else ""
    if first in FEMALE_NAMES:
        return "f"
    return "m" if first in MALE_NAMES else ""


def is_plain_word(word: str) -> bool:
    """Whether a word that is written small is more likely itself than a name."""
    return word in ORDINARY_NAMES or word in NO_NAMES or word in ROLES or word in KINDS
