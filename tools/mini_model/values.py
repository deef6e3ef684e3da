# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""Random names, places, numbers, dates and phrases, made from syllables and short word lists.

Every maker takes a `random.Random` and returns one string. `fresh` splits all values by a hash: a tenth is
held out, so that an evaluation only shows values which training never saw.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

__all__ = ["MAKERS", "Maker", "common_noun", "fresh", "is_held_out", "listed", "made_up_word", "year"]

Maker = Callable[[Random], str]


def listed(text: str) -> list[str]:
    """The words of the text."""
    return text.split()


ONSETS = (
    "b c d f g h j k l m n p r s t v w z br cr dr fr gr pr tr bl cl fl gl pl sl ch sh th st sp sk qu y kn wh"
)
NUCLEI = listed("a e i o u a e i o ai ee ea oo ou ia io y au ei")
CODAS = listed("n r s t l m k x d p g b ck st nd rt ll ss ng th sh ff z ld rn mp") + [""] * 4
ONSET_LIST = [*ONSETS.split(), "", "", "", ""]
# Words that other words begin with: the tokenizer keeps them whole, and a value may begin with them ("butcher").
BEGINNINGS = listed(
    "but and for with on in my is the so from at as you your not can have do to of it or if no now new by am an "
    "was we he she me are our one per con pro let two all out up this that call name live work like said"
)
FIRST_NAMES = listed(
    "Anna Ben Carla David Elena Frank Greta Hugo Irene Jonas Klara Leo Mia Noah Olga Paul Rosa Sam Tara "
    "Umar Vera Will Yara Zoe John Mary James Linda Robert Susan Peter Laura Karl Nina Ivan Alice Tom "
    "Emma Lucas Julia Oscar Ruth Steve Maria Priya Kenji Siobhan Miguel Fatima Dmitri Aisha Ingrid "
    "Quentin Chloe Omar Sofia Daniel Grace Henry Isla Jack Kate Liam Maya Nora Owen Pia Ravi Sara Theo "
    "Uma Victor Wendy Yusuf Max Luna Bella Charlie Rocky Coco Milo Daisy Buddy Rex Felix Oliver Simba "
    "Nala Ginger Biscuit Pepper"
)
PLACES = listed(
    "London Paris Berlin Madrid Rome Vienna Oslo Dublin Boston Chicago Denver Seattle Tokyo Delhi Cairo "
    "Lima Sydney Toronto Prague Milan Florida Ohio Spain Norway Canada Brazil Lisbon Texas Nairobi "
    "Kyoto Antwerp Osaka Vermont Portugal Zagreb Hamburg Munich Zurich Geneva Lyon Porto Austin Dallas "
    "Atlanta Houston Mumbai Seoul Lagos Accra Quito Bogota Havana Athens Warsaw Krakow Riga Bergen "
    "Malmo Ghent Leeds Bristol"
)
NOUNS = listed(
    "coffee tea bread river mountain table window keyboard mouse laptop guitar piano bike train garden "
    "forest beach island castle bridge clock camera phone book pencil paper chair lamp apple lemon "
    "pepper cheese rice soup cake pizza fish bird horse tiger wolf rabbit dragon star moon ocean desert "
    "snow storm music jazz rock chess tennis football code editor terminal theme font plugin server "
    "python rust java linux windows debian android tabs spaces layout sushi violin kayak mango pasta "
    "vim keybindings violet origami zebra telescope saffron mode weather station school roof report "
    "robot engine ticket jacket scarf boots helmet tent map kitchen bathroom office house boat truck "
    "fence door wall box drawer shelf cup bottle knife basket bag photo letter song story puzzle novel "
    "game card drum flute cello salad noodles curry taco olive onion chocolate honey butter milk juice "
    "wine beer walnut peanut shrimp egg potato tomato bean cookie"
)
ADJECTIVES = listed(
    "red blue green black white yellow dark light small big old new fast slow cold hot fresh sweet "
    "spicy quiet loud soft hard wooden golden silver plain strong mild wild happy heavy round purple "
    "teal orange pink grey tiny large long short second electric ancient crispy iced smoked double used "
    "rusty open solar mint"
)
OCCUPATIONS = listed(
    "teacher nurse doctor lawyer baker driver pilot engineer painter writer plumber farmer chef "
    "gardener student librarian carpenter designer programmer astronaut beekeeper dentist welder "
    "translator geologist locksmith barber waiter actor dancer singer firefighter accountant mechanic "
    "electrician architect journalist manager cashier tailor butcher florist biologist chemist sailor "
    "cook guard vet pharmacist surveyor carer midwife paramedic judge notary clerk secretary consultant "
    "researcher scientist professor lecturer tutor coach trainer therapist psychologist surgeon optician "
    "courier postman bricklayer roofer glazier painter jeweller watchmaker potter weaver shoemaker fisherman "
    "miner forester gamekeeper vintner brewer confectioner grocer stockbroker banker auditor economist "
    "statistician physicist mathematician historian archaeologist linguist photographer filmmaker composer "
    "violinist drummer sculptor illustrator animator comedian magician referee lifeguard diver stuntman"
)
FIELDS = listed(
    "software sound data forklift truck bus school kindergarten music math science history night ship "
    "bridge train wedding landscape product project sales web game police travel research tax book film"
)
ROLES = listed("engineer driver teacher designer manager analyst developer guide editor nurse clerk officer")
COMPANY_ENDS = listed(
    "Logistics Labs Systems Foods Motors Bank Studios Energy Software Media Group Works Industries "
    "Partners Airlines Insurance Robotics Press Textiles Hospital University Inc Ltd GmbH Bakery Hotel"
)
MONTHS = listed("January February March April May June July August September October November December")
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
SOON = ["next", "next", "next", "this", "the coming", "early next", "late next", "the following"]
COMING = listed("week month weekend spring summer autumn winter quarter")
LANGUAGES = listed(
    "English German French Spanish Italian Dutch Portuguese Polish Czech Greek Turkish Arabic Hindi "
    "Japanese Chinese Korean Swedish Danish Finnish Russian Welsh Irish Swahili Hebrew Thai Norwegian "
    "Icelandic Romanian Bulgarian Hungarian Croatian Serbian Slovak Ukrainian Latvian Estonian Basque "
    "Catalan Galician Farsi Urdu Bengali Tamil Punjabi Nepali Vietnamese Malay Tagalog Mandarin Cantonese "
    "Zulu Yoruba Amharic Somali Latin Esperanto Georgian Armenian Mongolian Maltese Breton"
)
COUNTS = listed(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
ACCENTED = "éèüöäßñçåøłšžćâêîôûáíóúαβγδελμνορстрнмкл東京山川日本語木"
JOINERS = (" with ", " and ", " on ", " without ", " in ", " or ", " for ", " from ", " near ", " under ")


def is_held_out(text: str, one_in: int = 10) -> bool:
    """True for the texts which training never sees: a fixed tenth, by hash."""
    return zlib.crc32(text.encode()) % one_in == 0


def fresh(random: Random, maker: Maker, held_out: bool) -> str:
    """One value of `maker` from the held-out tenth, or from the rest."""
    for _ in range(400):
        value = maker(random)
        if is_held_out(value) == held_out:
            return value
    raise RuntimeError(f"{maker}: no value with held_out={held_out} in 400 draws")


def made_up_word(random: Random, low: int = 1, high: int = 3) -> str:
    """A lower-case word: syllables mostly, sometimes plain random letters."""
    kind = random.random()
    if kind < 0.12:
        return "".join(random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(random.randint(2, 9)))
    beginning = random.choice(BEGINNINGS) if 0.16 < kind < 0.24 else ""
    while True:
        word = beginning + "".join(
            random.choice(ONSET_LIST) + random.choice(NUCLEI) + random.choice(CODAS)
            for _ in range(random.randint(low, high))
        )
        if kind < 0.16:
            at = random.randrange(len(word))
            word = word[:at] + random.choice(ACCENTED) + word[at + 1 :]
        if 2 < len(word) < 14:
            return word


def made_up_name(random: Random, low: int = 1, high: int = 3) -> str:
    """A made-up word with a capital."""
    return made_up_word(random, low, high).capitalize()


def common_noun(random: Random) -> str:
    """An everyday noun."""
    return random.choice(NOUNS)


def year(random: Random) -> str:
    """A year that may stand in a statement."""
    return str(random.randint(1950, 2030))


def first_name(random: Random) -> str:
    return random.choice(FIRST_NAMES) if random.random() < 0.35 else made_up_name(random, 1, 4)


def person(random: Random) -> str:
    kind = random.random()
    if kind < 0.75:
        return first_name(random)
    if kind < 0.93:
        return f"{first_name(random)} {made_up_name(random)}"
    return f"{random.choice(['Dr.', 'Mr.', 'Mrs.', 'Miss', 'Sir', 'Aunt', 'Uncle'])} {first_name(random)}"


def place(random: Random) -> str:
    name = random.choice(PLACES) if random.random() < 0.35 else made_up_name(random, 1, 4)
    kind = random.random()
    if kind < 0.72:
        return name
    if kind < 0.86:
        return (
            f"{random.choice(['New', 'San', 'Port', 'North', 'South', 'Saint', 'East', 'El', 'La'])} {name}"
        )
    if kind < 0.93:
        return f"{name}, {random.choice(PLACES)}"
    return f"{name} {random.choice(['City', 'Falls', 'Bay', 'Hill', 'Springs', 'Island'])}"


def company(random: Random) -> str:
    kind = random.random()
    name = made_up_name(random, 1, 3)
    if kind < 0.35:
        return name
    if kind < 0.65:
        return f"{name} {random.choice(COMPANY_ENDS)}"
    if kind < 0.8:
        return (
            f"{random.choice(ADJECTIVES).capitalize()} {random.choice(NOUNS).capitalize()} "
            f"{random.choice(COMPANY_ENDS)}"
        )
    if kind < 0.9:
        return f"{name} {random.choice(['&', 'and'])} {random.choice(['Sons', 'Co', made_up_name(random)])}"
    return "".join(random.choice("ABCDEFGHIKLMNOPRSTVW") for _ in range(random.randint(2, 4)))


def occupation(random: Random) -> str:
    kind = random.random()
    if kind < 0.4:
        return random.choice(OCCUPATIONS)
    if kind < 0.7:
        return f"{random.choice(FIELDS)} {random.choice(ROLES)}"
    if kind < 0.85:
        return made_up_word(random) + random.choice(["er", "ist", "or", "man"])
    return f"{random.choice(['senior', 'junior', 'part-time', 'freelance'])} {random.choice(OCCUPATIONS)}"


def word_group(random: Random) -> str:
    kind = random.random()
    if kind < 0.25:
        return random.choice(NOUNS)
    if kind < 0.5:
        return f"{random.choice(ADJECTIVES)} {random.choice(NOUNS)}"
    if kind < 0.65:
        return f"{random.choice(NOUNS)} {random.choice(NOUNS)}"
    if kind < 0.8:
        return made_up_name(random)
    if kind < 0.87:
        return f"{random.choice('ABCDEFGHJKLMNPRSTVW')}{random.choice('ABCDEFGHKLMNPRSTX')} {made_up_name(random)}"
    if kind < 0.93:
        return f"{made_up_name(random)} {random.randint(2, 99)}"
    return made_up_word(random)


def thing(random: Random) -> str:
    kind = random.random()
    if kind < 0.2:
        return random.choice(NOUNS)
    if kind < 0.36:
        return made_up_word(random)
    if kind < 0.5:
        return made_up_name(random)
    if kind < 0.68:
        return f"{random.choice(ADJECTIVES)} {random.choice(NOUNS)}"
    if kind < 0.8:
        return f"{made_up_word(random)} {random.choice(NOUNS)}"
    if kind < 0.9:
        return f"{made_up_name(random)} {made_up_name(random)}"
    return phrase(random)


def phrase(random: Random) -> str:
    """Two to eight words."""
    kind = random.random()
    if kind < 0.55:
        return word_group(random) + random.choice(JOINERS) + word_group(random)
    article = random.choice(["a ", "the ", ""])
    if kind < 0.85:
        return f"{article}{word_group(random)}{random.choice(JOINERS)}the {word_group(random)}"
    return (
        f"{article}{word_group(random)}{random.choice(JOINERS)}{word_group(random)}"
        f"{random.choice(JOINERS)}{word_group(random)}"
    )


def topic(random: Random) -> str:
    """What one may work on, learn or read: often several words."""
    return thing(random) if random.random() < 0.5 else phrase(random)


def model_name(random: Random) -> str:
    """A product: maker and type."""
    kind = random.random()
    if kind < 0.45:
        return f"{made_up_name(random)} {made_up_name(random)}"
    if kind < 0.7:
        return f"{made_up_name(random)} {random.choice('ABCDEGHKMPSTXZ')}{random.randint(1, 999)}"
    if kind < 0.85:
        return f"{random.choice(ADJECTIVES)} {made_up_name(random)}"
    return made_up_name(random)


def age(random: Random) -> str:
    return str(random.randint(1, 99))


def date(random: Random) -> str:
    day, month, full = random.randint(1, 31), random.choice(MONTHS), random.randint(1930, 2024)
    number = MONTHS.index(month) + 1
    return random.choice(
        [
            f"{day} {month}",
            f"{month} {day}",
            f"{day} {month} {full}",
            f"{month} {day}, {full}",
            f"{full}-{number:02d}-{day:02d}",
        ]
    )


def clock(random: Random) -> str:
    hour, minute = random.randint(1, 12), random.choice([0, 5, 10, 15, 20, 30, 40, 45, 50])
    half = random.choice(["am", "pm"])
    short = f"{hour}{half}" if minute == 0 else f"{hour}:{minute:02d}{half}"
    return random.choice([short, f"{random.randint(0, 23)}:{minute:02d}", f"{hour}:{minute:02d} {half}"])


def moment(random: Random) -> str:
    """When something happens."""
    day = random.choice(DAYS)
    return random.choice(
        [
            f"{day} at {clock(random)}",
            f"{day} at {clock(random)}",
            f"{random.choice(SOON)} {random.choice([day, *COMING, random.choice(MONTHS)])}",
            f"{day} {random.choice(['morning', 'evening', 'afternoon', 'night', 'noon'])}",
            f"tomorrow at {clock(random)}",
            f"{date(random)}",
            f"{random.randint(1, 28)} {random.choice(MONTHS)} at {clock(random)}",
        ]
    )


def spot(random: Random) -> str:
    """Where a thing lies, with its preposition."""
    head = random.choice(
        ["in the", "on the", "under the", "behind the", "next to the", "in my", "inside the"]
    )
    kind = random.random()
    if kind < 0.5:
        return f"{head} {random.choice(ADJECTIVES)} {random.choice(NOUNS)}"
    if kind < 0.75:
        return f"{head} {random.choice(NOUNS)}"
    if kind < 0.9:
        return f"{head} {random.choice(NOUNS)} of the {random.choice(NOUNS)}"
    return f"on level {random.randint(1, 12)} of the {made_up_word(random)} {random.choice(NOUNS)}"


def number(random: Random) -> str:
    digits = random.randint(1, 6)
    return str(random.randint(10 ** (digits - 1), 10**digits - 1))


def code(random: Random) -> str:
    """A number, a code with letters, or a version."""
    letters = "".join(random.choice("ABCDEFGHJKLMNPRSTVWXYZ") for _ in range(random.randint(1, 3)))
    return random.choice(
        [
            number(random),
            f"{letters}-{random.randint(10, 9999)}",
            f"{letters}{random.randint(1, 999)}{random.choice('abcdefgh')}",
            f"{random.randint(1, 99)}.{random.randint(0, 99)}",
            f"{letters} {random.randint(100, 9999)} {random.choice('ABCDEF')}",
        ]
    )


def measure(random: Random) -> str:
    return random.choice(
        [
            f"{random.randint(1, 2)}.{random.randint(10, 99)} m",
            f"{random.randint(40, 210)} cm",
            f"{random.randint(30, 60)}.5",
            f"{random.randint(30, 150)} kg",
            f"{random.randint(30, 50)}",
            f"{random.randint(4, 6)} feet {random.randint(0, 11)}",
        ]
    )


STREETS = listed("Street Road Avenue Lane Drive Way Square Court Place Hill Close Boulevard Terrace Row")


def street_address(random: Random) -> str:
    """A house in a street, with its town now and then."""
    name = random.choice(
        [made_up_name(random, 1, 3), random.choice(NOUNS).capitalize(), random.choice(PLACES)]
    )
    house = f"{random.randint(1, 499)}{random.choice(['', '', '', '', 'a', 'b', 'C'])}"
    street = random.choice(
        [
            f"{house} {name} {random.choice(STREETS)}",
            f"{house} {name} {random.choice(STREETS)}",
            f"{house} {random.choice(['St.', 'Old', 'North', 'West', 'New'])} {name} {random.choice(STREETS)}",
            f"{name}{random.choice(['strasse', 'weg', 'gasse', 'straat'])} {house}",
        ]
    )
    return f"{street}, {place(random)}" if random.random() < 0.15 else street


def email(random: Random) -> str:
    end = random.choice(["com", "org", "net", "de", "io", "co.uk"])
    user = made_up_word(random, 1, 2)
    if random.random() < 0.3:
        user += (
            random.choice(["_", ".", ""])
            + random.choice("abcdefghjklm")
            + random.choice(["", "7", "21", "88"])
        )
    return f"{user}@{made_up_word(random, 1, 3)}.{end}"


def phone_number(random: Random) -> str:
    part = lambda low, high: "".join(random.choice("0123456789") for _ in range(random.randint(low, high)))  # noqa: E731
    return random.choice(
        [
            f"{part(3, 3)} {part(4, 4)}",
            f"{part(3, 3)}-{part(3, 3)}-{part(4, 4)}",
            f"+{part(2, 2)} {part(3, 3)} {part(5, 7)}",
        ]
    )


def language_list(random: Random) -> str:
    pair = random.sample(LANGUAGES, 2)
    kind = random.random()
    if kind < 0.4:
        return pair[0]
    if kind < 0.85:
        return f"{pair[0]} and {pair[1]}"
    return f"{pair[0]}, {pair[1]} and {made_up_name(random)}"


def person_list(random: Random) -> str:
    return f"{first_name(random)} and {first_name(random)}"


def count(random: Random) -> str:
    """How many: with only a dozen words and numbers, a network learns these by heart instead of reading them."""
    kind = random.random()
    if kind < 0.3:
        return random.choice(COUNTS[:12])
    if kind < 0.5:
        return random.choice(COUNTS)
    if kind < 0.6:
        return f"{random.choice(COUNTS[19:])}-{random.choice(COUNTS[:9])}"
    return str(random.randint(1, 15) if kind < 0.8 else random.randint(1, 99))


def anything(random: Random) -> str:
    """Any kind of value."""
    makers: list[Maker] = [
        person,
        place,
        thing,
        thing,
        number,
        phrase,
        email,
        date,
        code,
        measure,
        model_name,
        street_address,
    ]
    return random.choice(makers)(random)


# --- what notes say --------------------------------------------------------------------------------------


def amount_of(random: Random, units: str) -> str:
    """A number and one of the units: whole, with a fraction, or a range."""
    unit = random.choice(units.split())
    kind = random.random()
    if kind < 0.6:
        figure = str(random.randint(1, 900) if random.random() < 0.4 else random.randint(1, 60))
    elif kind < 0.8:
        figure = f"{random.randint(0, 99)}.{random.randint(1, 9)}"
    else:
        low = random.randint(1, 90)
        figure = f"{low} to {low + random.randint(1, 30)}"
    return f"{figure} {unit.replace('_', ' ')}"


def pressure(random: Random) -> str:
    return amount_of(random, "bar bar psi kPa mbar")


def temperature(random: Random) -> str:
    return amount_of(random, "degrees degrees °C °F degrees_Celsius")


def duration(random: Random) -> str:
    if random.random() < 0.15:
        return random.choice(["half an hour", "overnight", "a day and a half", "three quarters of an hour", "a fortnight", "one night", "two full days"])  # fmt: skip
    return amount_of(random, "minutes minutes hours hours days weeks months seconds years")


def interval(random: Random) -> str:
    if random.random() < 0.35:
        return f"every {random.choice([*DAYS, 'week', 'month', 'year', 'other day', 'morning', 'spring', 'second week'])}"
    if random.random() < 0.4:
        return f"{random.choice(['once', 'twice', 'three times', 'four times'])} a {random.choice(['day', 'week', 'month', 'year'])}"
    return f"every {random.randint(2, 90)} {random.choice(['days', 'weeks', 'months', 'hours', 'kilometres', 'uses'])}"


def hours(random: Random) -> str:
    first = random.randrange(5)
    days = random.choice(
        ["daily", "on weekdays", f"on {DAYS[first]}s", f"from {DAYS[first]} to {DAYS[first + 2]}"]
    )
    return random.choice([f"{days} from {clock(random)} to {clock(random)}", f"{days} until {clock(random)}", f"{clock(random)} to {clock(random)}, {days}"])  # fmt: skip


def dates(random: Random) -> str:
    low = random.randint(1, 24)
    month = random.choice(MONTHS)
    return random.choice([
        f"from {low} to {low + random.randint(1, 5)} {month}", f"from {month} {low} to {month} {low + 3}", f"in {month}",
        f"from {low} {month} until {random.choice(MONTHS)}", f"the week of {low} {month}", f"on {low} and {low + 1} {month}",
    ])  # fmt: skip


def money(random: Random) -> str:
    figure = random.choice(
        [str(random.randint(1, 9000)), f"{random.randint(1, 400)}.{random.randint(10, 99)}"]
    )
    return random.choice([f"{figure} euros", f"${figure}", f"£{figure}", f"{figure} dollars", f"€{figure}", f"{figure} a month", f"{figure} crowns"])  # fmt: skip


def people(random: Random) -> str:
    return f"{count(random)} {random.choice(['people', 'people', 'guests', 'children', 'adults', 'members', 'persons'])}"


def ratio(random: Random) -> str:
    one, two = common_noun(random), made_up_word(random)
    return random.choice([
        f"{random.randint(1, 9)} to {random.randint(1, 9)} with {one}", f"{count(random)} parts {one} and {count(random)} parts {two}",
        f"half {one}, half {two}", f"{random.randint(50, 900)} g {one} with {random.randint(50, 900)} ml {two}",
    ])  # fmt: skip


def amount(random: Random) -> str:
    return amount_of(random, "grams g kg ml litres cups spoons pieces drops mg pounds ounces handfuls")


MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        first_name, person, place, company, occupation, thing, phrase, topic, model_name, age, date, clock,
        moment, spot, number, code, measure, email, phone_number, language_list, person_list, count, street_address, anything,
        pressure, temperature, duration, interval, hours, dates, money, people, ratio, amount,
    )
}  # fmt: skip
