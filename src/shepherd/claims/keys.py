"""The vocabulary of common keys: their spellings, and the kinds of assertions that can set them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from shepherd.claims.counts import COUNTED, merged_counts, singular

__all__ = [
    "INSTRUCTIONS",
    "KEYS",
    "LISTS",
    "OF_OTHERS",
    "Key",
    "canonical_key",
    "is_about",
    "items_of",
    "joined_items",
    "joined_values",
    "words_of",
]


@dataclass(frozen=True, slots=True)
class Key:
    """A common key: its name, and the kinds of assertions that can give it a value, no other."""

    name: str
    kinds: frozenset[str]


def _table(text: str) -> dict[str, Key]:
    table = {}
    for line in text.replace("\n      +", "").strip().splitlines():
        name, kinds, spellings = (part.strip() for part in line.split("|"))
        for spelling in (name, *spellings.split()):
            table[spelling.replace("_", "")] = Key(name, frozenset(kinds.split()))
    return table


# Name | kinds that can set it | other spellings; a line with + continues the one above.
KEYS = _table(
    """
    name | name | full_name preferred_name real_name called legal_name first_name given_name
    nickname | name attribute | nick short_name
    last_name | last_name | surname family_name
    location | location | city home home_city residence address town country lives_in live_in place
      + current_location
      + current_city living_in lives where_lives home_address home_location region state
    origin | origin | from home_country comes_from country_of_origin
    hometown | origin | home_town
    birthplace | birthplace | birth_place born_in place_of_birth
    nationality | nationality | citizenship
    employer | employer | company works_at workplace work_place works_for organization organisation
      + employed_at
      + current_employer current_company
    job | job | occupation profession role job_title title work career position works_as
    study | study | studies major field_of_study subject course studying
    school | school | university college uni studies_at
    age | age | years_old
    email | email | e_mail mail email_address e_mail_address
    phone | phone | phone_number mobile mobile_number cell telephone telephone_number cell_number cell_phone
    birthday | birthday | birth_date date_of_birth dob born bday birth_day
    birth_year | birth_year | year_of_birth born_year
    allergy | allergy | allergies allergic allergic_to food_allergy food_allergies intolerance intolerances
    diet | diet | dietary_preference dietary_preferences eating_habits food_preference
    avoids | avoids | does_not_eat doesnt_eat not_eat food_restriction dietary_restriction
      + dietary_restrictions
      + restrictions avoids_food does_not_drink
    condition | condition | medical_condition health_condition disease illness health disability
    language | language | languages spoken_language spoken_languages native_language mother_tongue speaks
      + language_spoken languages_spoken
    learning | learns | learns learning_language
    likes | likes | loves enjoys interests interest passion love like fan_of
    dislikes | dislikes avoids | hates hate dislike
    prefers | prefers | preference preferences
    hobby | hobby likes plays collects | hobbies pastime leisure
    plays | plays | instrument sport sports musical_instrument game games
    uses | uses prefers attribute | tool tools software framework programming_language
    editor | uses prefers attribute | text_editor ide code_editor
    browser | uses prefers attribute | web_browser
    shell | uses prefers attribute |
    operating_system | uses prefers attribute | os distro linux_distro linux_distribution
    car | drives owns attribute | vehicle drives car_model car_brand
    spouse | married_to relative | married_to spouse_name
    routine | routine | routines
    instructions | instructions | instruction standing_instructions
    project | works_on project attribute | works_on working_on current_project side_project
    pets | pets attribute | pet
    children | children attribute | kids
    siblings | siblings attribute |
    grandchildren | grandchildren attribute | grandkids
    medication | medication attribute | medications medicine medicines
    collects | collects | collection
    owns | owns |
    member_of | member_of | memberships
    community_role | community_role | community_roles
    fears | fears | afraid_of
    aid | aid |
    habit | habit | habits
    trait | trait | traits
    teaches | teaches |
    writes | writes |
    runs | runs |
    wears | wears |
    supports | supports |
    drinks | drinks |
    degree | degree attribute | degrees
    studied | studied |
    """
)

# A new value of these joins the earlier ones: two allergies are two.
LISTS = frozenset(
    (
        "allergy", "avoids", "condition", "dislikes", "hobby", "instructions", "language", "learning",
        "likes", "plays", "prefers", "routine", "uses", "medication", "collects", "owns", "member_of",
        "community_role", "fears", "aid", "habit", "trait", "teaches", "writes", "runs", "wears", "supports",
        "drinks", "degree", "studied", *COUNTED,
    )
)  # fmt: skip
# How the user wants to be answered, in every conversation.
INSTRUCTIONS = "instructions"
# Whole phrases, which may have commas and conjunctions of their own.
_PHRASES = (INSTRUCTIONS, "routine")
# Lists of names and descriptions, whose items may have an "and": "Arts and Crafts Society".
_NAMED = (
    "owns", "member_of", "community_role", "runs", "supports", "trait", "habit", "degree", "studied",
)  # fmt: skip
# Lists whose items are the same in other forms: "nut" and "all nuts", "hike" and "hiking", "asthmatic" and
# "asthma". Others hold names, such as "C" and "C++".
_IN_ANY_FORM = (
    "allergy", "avoids", "condition", "fears", "likes", "dislikes", "hobby", "medication", "collects", "aid",
)  # fmt: skip
# "All nuts" are more than "nuts", and "some nuts" fewer; "my cat" is another item than "cats".
_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)", re.IGNORECASE)
_SOME = re.compile(r"(?:some|most|a few|certain)\s+(?=\S)", re.IGNORECASE)
_ALL = re.compile(r"(?:all (?:kinds|sorts|types) of|all|any|every)\s+(?=\S)", re.IGNORECASE)
# Of these, names have no other forms: the bands Queen and Queens, Bath and bathing.
_OF_ACTIVITIES = ("hobby", "likes", "dislikes")
# Whoever is so has that.
_ILLNESSES = {
    "asthmatic": "asthma", "diabetic": "diabetes", "epileptic": "epilepsy", "dyslexic": "dyslexia",
    "dyspraxic": "dyspraxia", "autistic": "autism", "anaemic": "anaemia", "anemic": "anemia",
    "arthritic": "arthritis", "narcoleptic": "narcolepsy", "coeliac": "coeliac disease",
    "celiac": "celiac disease", "lactose intolerant": "lactose intolerance", "bipolar": "bipolar disorder",
}  # fmt: skip
_SHORTEST_GERUND = 6
# What a user tells of others has the relation in front: "brother_location".
OF_OTHERS = "their_"

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Words of a key that name no relation.
_SMALL = {
    "user",
    "users",
    "the",
    "of",
    "is",
    "my",
    "current",
    "s",
    "a",
    "an",
    "has",
    "name",
    "names",
    "model",
    "named",
    "called",
}


def canonical_key(key: str) -> Key | None:
    """Return the common key that this is a spelling of, if any."""
    folded = "".join(words_of(key, small=True))
    return KEYS.get(folded) or KEYS.get(folded.removeprefix("users").removeprefix("user"))


def words_of(key: str, *, small: bool = False) -> tuple[str, ...]:
    """Return the words of a key in lower case, without those that name no relation unless `small`."""
    words = re.findall(r"[^\W_]+", _CAMEL.sub(" ", key).casefold())
    return tuple(word for word in words if small or word not in _SMALL)


# Words in which people talk about a common key, beside its own, in English, German, French, Spanish, Italian,
# Portuguese and Dutch; * stands for any ending.
_WORDS = {
    "editor": "editor editors ide ides",
    "location": "live lives lived living home house resid* city town address move moved moving place wohn*"
    " lebe lebte umgezogen habit* demeur* vivo vive vivi vives vivía vivir vivevo abit* moro morava morei"
    " woon* wonen stad ciudad ville città cidade",
    "employer": "work* job employ* company arbeit* firma travail* trabaj* trabalh* lavor* werk*"
    " empresa azienda",
    "job": "work* job profession occupation arbeit* beruf travail* métier trabaj* trabalh* lavor*"
    " werk* beroep",
    "runs": "work* job run ran running business",
    "teaches": "work* job teach* taught",
    "car": "car drive drove driving vehicle auto fahre fuhr voiture coche carro macchina auto",
    "spouse": "married wife husband partner spouse verheiratet frau mann femme mari esposa marido"
    " moglie marito",
    "wife_name": "wife spouse partner married frau femme esposa moglie",
    "husband_name": "husband spouse partner married mann mari marido marito",
    "name": "name called heiße hieß heisse nom nombre llam* chiam* nome heet heette",
    "study": "study studied degree studier* étudi* estudi* studi*",
    "school": "study studied school university college schule école escuela scuola escola",
    "phone": "phone number telefon* nummer téléphone teléfono",
    "email": "email mail",
    "language": "speak spoke language sprach* spreche parle habl* falo spreek taal",
    "learning": "learn* lerne apprend* aprend* impar* leer",
    "hobby": "hobby",
    "plays": "play* spiele joue juego gioco jogo speel",
    "diet": "diet eat ate vegan vegetarian",
}  # fmt: skip


def is_about(text: str, key: str) -> bool:
    """Return whether a lower-case text, such as a question, has words in which people talk about the key."""
    words = re.findall(r"[^\W_]+", text)
    known = canonical_key(key)
    said = _WORDS.get(key if known is None else known.name, "").split()
    beginnings = tuple(word[:-1] for word in said if word.endswith("*"))
    if any(word in said or (beginnings and word.startswith(beginnings)) for word in words):
        return True
    own = words_of(key)
    return bool(own) and all(any(word in (one, f"{one}s") for word in words) for one in own)


def items_of(key: str, value: str, *, apart: bool = False) -> list[str]:
    """Return the items of the value of a list; `apart`: "nuts and latex" are two, but in lists of phrases."""
    if apart and key not in _PHRASES and key not in _NAMED:
        value = value.replace(" and ", ", ")
    return [item.strip() for item in value.split(_between(key).strip()) if item.strip()]


def joined_items(key: str, items: Iterable[str]) -> str:
    """Return items as the value of a list."""
    return _between(key).join(items)


def joined_values(key: str, known: str, new: str) -> str:
    """Return two values of a list as one, each item once, and each number as it was said last.

    What is new adds no other form of an item that is known: "nut" to "nuts", "asthmatic" to "asthma". "All
    nuts" takes the place of "nuts".
    """
    items = items_of(key, known, apart=True)
    for item in items_of(key, new, apart=True):
        form = _plain_form(key, item)
        at = next((n for n, one in enumerate(items) if _plain_form(key, one) == form), None)
        if at is None:
            items.append(item)
        elif _extent(key, item) > _extent(key, items[at]):
            items[at] = item
    if key in COUNTED:
        items = merged_counts(items, key)
    spelled = {item.casefold(): item for item in reversed(items)}
    return joined_items(key, (spelled[item] for item in dict.fromkeys(map(str.casefold, items))))


def _extent(key: str, item: str) -> int:
    """Return how many of its kind an item means: some, not said, or all."""
    if key not in _IN_ANY_FORM:
        return 1
    return 0 if _SOME.match(item) else 2 if _ALL.match(item) else 1


def _plain_form(key: str, item: str) -> str:
    """Return an item in the form that its other forms have in common."""
    folded = item.casefold()
    if key in COUNTED or (key in _OF_ACTIVITIES and item != folded):
        return item
    if key not in _IN_ANY_FORM:
        return folded
    text = folded
    for quantifier in (_ALL, _SOME, _ARTICLE):
        text = quantifier.sub("", text) if quantifier.match(text) else text
    if key == "condition":
        text = _ILLNESSES.get(text, text)
    # "Strawberry" and "strawberries"
    text = re.sub("(?:y|ie)$", "i", singular(text))
    return _infinitive(text) if key in _OF_ACTIVITIES else text


def _infinitive(text: str) -> str:
    """Return "hik" for "hike" and "hiking", "swim" for "swimming"."""
    if not text.endswith("ing") or len(text.rsplit(maxsplit=1)[-1]) < _SHORTEST_GERUND:
        return text.removesuffix("e")
    stem = text.removesuffix("ing")
    return stem[:-1] if stem[-1] == stem[-2] else stem


def _between(key: str) -> str:
    return "; " if key in _PHRASES else ", "
