"""English words for finding entities: roles, kinds of things, pronouns, given names, and words that are no
names.

In other languages only names and known entities are found.
"""

from __future__ import annotations

import re

from shepherd._native.text import STOP_WORDS
from shepherd.entities.records import EntityType, Gender
from shepherd.given_names import FEMALE_NAMES, GIVEN_NAMES, MALE_NAMES

__all__ = [
    "CONNECTORS",
    "DEPARTMENTS",
    "ENDINGS",
    "FEMALE_NAMES",
    "GERMAN_POSSESSIVES",
    "GERMAN_ROLES",
    "GIVEN_NAMES",
    "HEADS",
    "HONORIFICS",
    "KINDS",
    "NO_NAMES",
    "OCCUPATIONS",
    "ORDINARY_NAMES",
    "OWNED_KINDS",
    "PERSONAL_VERBS",
    "PERSON_WORDS",
    "PLACES",
    "POSSESSIVES",
    "PRONOUNS",
    "ROLES",
    "SORTS",
    "family_of",
    "gender_of_name",
    "go_together",
    "is_occupation",
    "is_plain_word",
    "singular_role",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Roles of one person to another.
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

# One person can have several roles of the same group to another. Roles without a group (friend, colleague,
# partner) go with any.
_WORKING = "working"
_COMPANIONS = _words("partner friend flatmate roommate neighbour neighbor colleague coworker co-worker")
_FAMILY = (
    "mother mom mum father dad parent stepmother stepfather",
    "sister brother stepsister stepbrother",
    "wife husband spouse girlfriend boyfriend fiancée fiancé",
    "daughter son child kid baby",
    "aunt uncle",
    "niece nephew",
    "cousin",
    "grandmother grandma grandfather grandpa",
    "granddaughter grandson",
    "mother-in-law father-in-law",
    "sister-in-law brother-in-law",
    "daughter-in-law son-in-law",
)
_ROLE_GROUPS: dict[str, str] = {
    **dict.fromkeys(ROLES.keys() - _COMPANIONS, _WORKING),
    **{role: group for group in _FAMILY for role in group.split()},
}

# Types of "the company" and "my dog".
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

# Heads of what somebody is by work, rank or training. What else ends in "er" or "ist" is as often an opinion:
# a whiner, a charmer, a racist.
OCCUPATIONS = (
    ROLES.keys()
    - _COMPANIONS
    - _FEMALE_ROLES
    - _MALE_ROLES
    - _words("spouse child kid baby cousin parent boss client customer")
) | _words(
    "accountant actor actress actuary admin administrator adviser agent ambassador anaesthetist analyst"
    " anesthetist animator apprentice arborist archivist artist assessor astronaut astronomer attendant"
    " attorney auctioneer auditor baker banker barber barista barmaid barman barrister bartender bassist"
    " biologist bishop blacksmith blogger bookbinder bookseller bricklayer broker builder butcher buyer"
    " cabinetmaker cameraman captain cardiologist caregiver carer caretaker carpenter cashier caterer cellist"
    " chairman chairperson chairwoman chaplain chauffeur chemist chief cleaner clerk cobbler columnist"
    " commander composer concierge conductor confectioner conservator constable consultant controller cook"
    " coordinator copywriter coroner councillor councilor counsellor counselor courier crew curate curator"
    " cutler dancer deacon dean decorator dermatologist detective dev diplomat dispatcher diver dj doorman"
    " driver drummer economist electrician embalmer endocrinologist entrepreneur environmentalist estimator"
    " executive farmer farrier firefighter fireman fisherman fishmonger fitter florist footballer forester"
    " freelancer gardener geographer geologist geophysicist glazier goldsmith governor greengrocer grocer"
    " guard guide guitarist gynaecologist gynecologist hairdresser handyman hatter head headmaster"
    " headmistress headteacher historian hostess househusband housekeeper housewife hygienist illustrator"
    " imam inspector installer instructor interpreter jailer janitor jeweler jeweller jockey joiner"
    " journalist judge laborer labourer landlady landlord lawyer lead lecturer librarian lieutenant lifeguard"
    " linguist locksmith logistician machinist magistrate maid manicurist masseur masseuse mathematician"
    " mayor mechanic mediator medic merchant meteorologist midwife milkman miller miner minister missionary"
    " model monk musician nanny navigator neurologist notary novelist nun nutritionist obstetrician officer"
    " official operator optician optometrist organist orthodontist osteopath paediatrician painter paralegal"
    " paramedic pastor pathologist pediatrician pensioner pharmacist phd photographer physician physicist"
    " physio physiotherapist pianist picker pilot plasterer playwright plumber podiatrist poet policeman"
    " policewoman politician porter postdoc postie postman postwoman potter pr presenter priest principal"
    " printer producer programmer proofreader prosecutor psychiatrist psychoanalyst psychologist"
    " psychotherapist publisher pupil rabbi radiographer radiologist ranger realtor receptionist rector"
    " referee registrar rep reporter representative researcher retiree roofer sailor saleslady salesman"
    " salesperson saleswoman sculptor seamstress senator sergeant sheriff shoemaker shopkeeper singer"
    " sociologist soldier solicitor sommelier soprano specialist statistician steward stewardess stockbroker"
    " stonemason student stylist superintendent surgeon surveyor sysadmin tailor tanner technician"
    " technologist temp tenor tester tiler trader trainee translator treasurer trucker tutor typist umpire"
    " undertaker upholsterer usher valet valuer verger veterinarian vicar violinist volunteer vp waiter"
    " waitress warden watchmaker weaver welder winemaker woodworker worker writer zoologist"
)
# Endings of occupations that are made up of two words or of Greek.
_OCCUPATION = re.compile(
    r"\w{2,}(?:ologist|ographer|iatrist|iatrician|therapist|smith|wright|monger|maker|keeper|worker|master"
    r"|driver|player|teacher|nurse|dresser|grower|breeder|blower|layer|planner|officer|manager|engineer"
    r"|developer|designer|scientist)"
)
_NO_OCCUPATIONS = _words(
    "troublemaker peacemaker mischief-maker timekeeper scorekeeper puppetmaster widowmaker"
)

# Sorts of organisations, places, works, devices and animals: what something can be said to be.
SORTS = KINDS.keys() - _words("man woman guy girl boy lady gentleman person party") | _words(
    "airline airport algorithm api archive association bakery bank bar bay beach beagle bird blog bookshop"
    " bookstore bot brand brewery bridge broadcaster broker browser budgie bunny business butcher cafe café"
    " camera campsite canal canary capital carmaker castle cathedral chain charity chatbot chicken church"
    " cinema client clinic cockatiel codebase collective college collie comic community compiler congregation"
    " console consultancy continent cooperative corgi corporation council court cow dachshund dam database"
    " deli department device distribution distributor district division donkey duck editor encyclopedia"
    " engine estate exchange extension factory faculty farm ferret filesystem fish font forest format"
    " foundation franchise gallery game garage garden gecko goat goldfish goose greyhound grocer guinea-pig"
    " guitar gym hall harbor harbour hen hill hospice hostel hotel husky inn institute instrument insurer"
    " journal kernel keyboard kindergarten kitchen kitten lab laboratory labrador lake lizard machine"
    " magazine mall manual manufacturer mare market microscope mill mine ministry model module monastery"
    " mosque motorbike motorcycle mountain mule municipality museum musical neighborhood neighbourhood"
    " network newspaper ngo nonprofit nursery office opera operating-system orchestra os outlet package park"
    " peninsula pharmacy plant platform play plugin podcast poem pony poodle port practice printer program"
    " programme protocol province pub publisher pug puppy quarter railway refinery resort retailer retriever"
    " river robot router runtime salon satellite school scooter seaport series server service sheep shipyard"
    " shop snake society software spaniel spreadsheet square stadium stallion station store street studio"
    " subsidiary suburb suite supermarket supplier symphony synagogue system tablet telescope temple terminal"
    " terrier theater theatre think-tank toolkit tortoise tractor truck trust turtle union utility valley van"
    " vehicle vendor venue vineyard warehouse whippet wiki winery workshop yacht"
)

DEPARTMENTS = _words(
    "accounting accounts admin administration advertising analytics architecture audit biology cardiology"
    " catering chemistry communications compliance controlling data dermatology design development economics"
    " editorial education engineering english facilities finance geography history hr infrastructure it law"
    " legal linguistics logistics maintenance manufacturing marketing mathematics maths medicine music"
    " neurology nursing oncology operations paediatrics payroll pediatrics philosophy physics planning pr"
    " procurement product production psychiatry psychology purchasing qa quality r&d radiology recruiting"
    " recruitment research sales security shipping sociology software statistics support surgery tax"
    " technology training treasury urology"
)

# Things that people own, belong to or come from, which a conversation mentions as theirs.
OWNED_KINDS = _words(
    "company firm startup employer organization organisation university college school team band hometown"
    " dog cat horse parrot rabbit hamster"
)

# Words that change the meaning of a role before them: my customer base, my doctor appointment.
HEADS = _words("base group circle service support appointment visit office list meeting request")

PERSON_WORDS: dict[str, Gender] = {
    **dict.fromkeys(("man", "guy", "boy", "gentleman"), "m"),
    **dict.fromkeys(("woman", "girl", "lady"), "f"),
}

# Gender that a pronoun needs: "n" is a thing, "p" several people or anybody.
PRONOUNS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "m"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "f"),
    **dict.fromkeys(("it", "its", "itself"), "n"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themselves"), "p"),
}
POSSESSIVES = _words("my our his her their its")

# In German, the noun between "meine" and a name has a capital, too.
GERMAN_POSSESSIVES = frozenset(
    f"{stem}{ending}"
    for stem in ("mein", "dein", "sein", "ihr", "unser", "euer", "eur")
    for ending in ("", "e", "em", "en", "er", "es")
)
GERMAN_ROLES = _words(
    "bruder chef chefin cousin cousine enkel enkelin enkeltochter ex-freund ex-freundin freund freundin"
    " großmutter großvater halbbruder halbschwester kater katze kollege kollegen kollegin hund hündin lehrer"
    " lehrerin mutter mama mitbewohner mitbewohnerin mann nachbar nachbarin nachbarn neffe neffen nichte oma"
    " onkel opa papa partner partnerin patenkind schwager schwägerin schwester schwiegermutter schwiegersohn"
    " schwiegertochter schwiegervater sohn stiefbruder stiefmutter stiefschwester stiefvater tante tochter"
    " vater verlobte verlobter"
)

HONORIFICS: dict[str, Gender] = {
    **dict.fromkeys(("mr", "sir", "herr"), "m"),
    **dict.fromkeys(("mrs", "ms", "miss", "madam", "frau", "lady"), "f"),
    **dict.fromkeys(("dr", "prof", "professor", "doctor"), ""),
}

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

# Words between two capitalised words of one name.
CONNECTORS = _words("of de van von der den da di la del du le al bin ibn")

# Verbs of people: the word before one of them is a person, even at the beginning of a sentence.
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
# Words that are capitalised at the beginning of a sentence or heading, or by habit.
_STARTERS = _words(
    "absolutely add agreed ah also although am amazing answer any anyway apart are as ask assume at aw"
    " awesome aww based because before besides both by bye call can cannot chapter check compare congrats"
    " congratulations consider convert cool could create dear define definitely describe despite did do"
    " does don done draft during each edit either else english every exactly example excited explain"
    " explore false fantastic figure file finally find fine first fix following get give given go gonna"
    " good gosh got gotta great guess ha haha hang happy hello help here hey hi hmm hope hopefully how"
    " however i'd i'll imagine important indeed instead is it just keep last lately later let lets life"
    " like list lol look looks love lovely make man many may maybe meanwhile moreover most my nah name"
    " need never next nice no none nope not note nothing now oh ok okay omg once one only or otherwise our"
    " over page part perfect please pls plus put question read really recently remember remind right say"
    " second section see send several show since so some someone something sometimes sorry sounds speaking"
    " start step still stop such suggest sum summary super suppose sure table take tell thank thanks that"
    " then there therefore these think third this those though thus title today tomorrow tonight totally"
    " translate true try tues two ugh unfortunately use using usually version want was we wednesday"
    " welcome well were what whatever when whenever where which while who whoa whose why will with without"
    " wonderful would wow write xoxo yay yeah yep yes yesterday yet you your yup"
)
NO_NAMES = _DAYS | _TONGUES | _STARTERS | frozenset(STOP_WORDS) | frozenset(PRONOUNS) | _words("i i'm i've")

# Names that in lower case are ordinary words.
ORDINARY_NAMES = _words(
    "art bill dawn dean drew faith frank grace grant hope ivy jack joy june lily mark max may miles nick"
    " pat ray rich rob rose ruby sandy sky stone sue summer will go rust swift rest apple amazon word"
    " excel notion slack teams signal spring docker shell target orange gap visa may turkey china nice"
    " reading"
)


def family_of(label: str) -> str:
    """Return the group of relatives that a relation ("sister of") belongs to; empty if it is no relative."""
    group = _ROLE_GROUPS.get(_role(label), "")
    return "" if group == _WORKING else group


def go_together(label: str, other: str) -> bool:
    """Return whether one person can have both roles to another."""
    role, other_role = _role(label), _role(other)
    group, other_group = _ROLE_GROUPS.get(role, ""), _ROLE_GROUPS.get(other_role, "")
    if not group or not other_group:
        return True
    if group != other_group:
        return False
    return ROLES[role] == ROLES[other_role] or "" in (ROLES[role], ROLES[other_role])


def _role(label: str) -> str:
    return label.removesuffix(" of")


def singular_role(word: str) -> str:
    """Return the role of a plural such as "friends" or "bosses"; "" if it is none."""
    return next((role for role in (word[:-1], word[:-2]) if word.endswith("s") and role in ROLES), "")


def gender_of_name(name: str) -> Gender:
    """Return the gender of a person's full name, by its first word."""
    first = name.split(maxsplit=1)[0].casefold() if name else ""
    if first in FEMALE_NAMES:
        return "f"
    return "m" if first in MALE_NAMES else ""


def is_occupation(word: str) -> bool:
    """Return whether a word in lower case is what somebody can be by work, rank or training."""
    known = word in OCCUPATIONS or _OCCUPATION.fullmatch(word) is not None
    return known and word not in _NO_OCCUPATIONS


def is_plain_word(word: str) -> bool:
    """Return whether a word in lower case is more likely itself than a name."""
    return word in ORDINARY_NAMES or word in NO_NAMES or word in ROLES or word in KINDS
