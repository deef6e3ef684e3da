"""A message that says that something known is over ends it; what only sounds like it ends nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.claims.known_endings import ended_facts
from shepherd.types import Fact

FACTS = {
    "car": "red Toyota Yaris",
    "dog_name": "Rex",
    "employer": "Bosch in Ulm",
    "job": "welder",
    "runs": "small bakery",
    "girlfriend_name": "Anna",
    "mother_name": "Edna",
    "landlord_name": "Mr Pike",
    "boat": "Nelly",
    "allergy": "eggs, latex",
    "medication": "metformin",
    "diet": "vegetarian",
    "habit": "smoke",
    "plays": "violin, chess",
    "member_of": "community choir in Leeds",
    "learning": "Czech",
    "teaches": "physics",
    "uses": "VS Code, Vim",
    "pets": "two cats",
    "location": "Bonn",
    "likes": "tea",
    "name": "Steve",
    "avoids": "pork",
}


def ended(message: str, facts: dict[str, str] = FACTS) -> set[tuple[str, str]]:
    return {
        (one.key, one.value) for one in ended_facts(message, [Fact(*item, 0, 0) for item in facts.items()])
    }


@pytest.mark.parametrize(
    ("message", "over"),
    [
        ("I sold the car on Saturday.", [("car", "red Toyota Yaris")]),
        ("The Yaris got stolen last night!", [("car", "red Toyota Yaris")]),
        ("Sad news: Rex died in his sleep.", [("dog_name", "Rex")]),
        ("We had to put our dog down yesterday", [("dog_name", "Rex")]),
        ("We had to say goodbye to him this morning. Rex was fourteen.", [("dog_name", "Rex")]),
        ("Friday was my last day at Bosch", [("employer", "Bosch in Ulm")]),
        (
            "They let me go on Monday",
            [("employer", "Bosch in Ulm"), ("job", "welder"), ("teaches", "physics")],
        ),
        ("I retired in June.", [("employer", "Bosch in Ulm"), ("job", "welder"), ("teaches", "physics")]),
        ("After ten years we closed the bakery for good.", [("runs", "small bakery")]),
        ("Anna and I broke up", [("girlfriend_name", "Anna")]),
        ("My girlfriend left me.", [("girlfriend_name", "Anna")]),
        ("Mum passed away in May", [("mother_name", "Edna")]),
        ("We've got a new landlord", [("landlord_name", "Mr Pike")]),
        ("Mr Pike is no longer our landlord.", [("landlord_name", "Mr Pike")]),
        ("we've sold Nelly", [("boat", "Nelly")]),
        ("The boat was written off in the storm", [("boat", "Nelly")]),
        ("My consultant says I've outgrown the egg allergy.", [("allergy", "eggs")]),
        ("The doctor has taken me off metformin", [("medication", "metformin")]),
        ("btw I'm eating meat again", [("diet", "vegetarian")]),
        ("I've quit smoking", [("habit", "smoke")]),
        ("I gave up the violin.", [("plays", "violin")]),
        ("The violin went on eBay", [("plays", "violin")]),
        ("so I left the choir", [("member_of", "community choir in Leeds")]),
        ("I've packed in Czech, too hard", [("learning", "Czech")]),
        ("Exported the settings and uninstalled VS Code", [("uses", "VS Code")]),
        ("I switched from Vim to Helix", [("uses", "Vim")]),
        ("We moved away from Bonn", [("location", "Bonn")]),
        ("I've given up the violin, my hands couldn't take it", [("plays", "violin")]),
        ("I let the Yaris go to a collector", [("car", "red Toyota Yaris")]),
        ("I had a Yaris until I sold it in May.", [("car", "red Toyota Yaris")]),
        ("My car was a Yaris until last summer", [("car", "red Toyota Yaris")]),
        ("I was with Bosch until March", [("employer", "Bosch in Ulm")]),
        ("Until last month I lived in Bonn.", [("location", "Bonn")]),
        ("I moved to Bonn in 2019 and left in 2021", [("location", "Bonn")]),
        ("I play the violin. I gave it up in March.", [("plays", "violin")]),
        ("I work at Bosch. I left two years ago.", [("employer", "Bosch in Ulm")]),
        ("I have a Yaris, which I've sold since", [("car", "red Toyota Yaris")]),
        ("We had a dog called Rex until he died", [("dog_name", "Rex")]),
        ("I used to live in Bonn, but I moved away", [("location", "Bonn")]),
        ("I'm eating pork again", [("avoids", "pork"), ("diet", "vegetarian")]),
    ],
)
def test_what_is_over_is_found_by_what_is_known(message, over):
    assert ended(message) == set(over)


@pytest.mark.parametrize(
    "message",
    [
        "My neighbour sold his car",
        "My brother retired in June.",
        "My sister and her boyfriend broke up",
        "My neighbour's dog died last night.",
        "I almost sold the car.",
        "I might sell the Yaris next year",
        "If I sold the car I would miss it.",
        "Should I have sold the car?",
        "What happens when I quit my job?",
        "I didn't quit my job, that was a rumour",
        "I left Bosch early today, headache",
        "I left work early",
        "My boss said I quit my job",
        "The car broke down again",
        "One of the cats died",
        "Rex died laughing? No, he is fine" + "?",
        "Had to put Rex down for a second to answer the phone",
        "Anna and I broke up the old patio",
        "I dropped the violin bow",
        "My neighbour has come off metformin",
        "I'm allergic to eggs",
        "When I retire I'll learn Czech",
        "I sold my violin case",
        "The choir is off for the summer",
        "No more tea for me",
        "Translate into French: I sold the car.",
        'She wrote: "I sold the car."',
        "just kidding, I sold the car",
        "I live in Bonn and drive the Yaris to Bosch",
        "I stopped at Bosch on the way home",
        "I stopped the car",
        "I moved the car to the garage",
        "I put the car away",
        "I gave the Yaris in for repair",
        "We sell the boat next week",
        "I retire in June",
        "I switched VS Code to dark mode",
        "I cancelled chess tonight",
        "Said goodbye to Rex and left for work",
        "Rex killed a rat",
        "Rex passed his agility test",
        "The cat took Rex's bed",
        "Mum passed out on the train",
        "Rex is over there",
        "Czech is over for today",
        "I hung up the phone after choir",
        "Anna and I split up at the airport to find the bags",
        "Anna and I separated the eggs",
        "I'm divorced and have two kids",
        "The wedding was off the coast of Wales",
        "I had my last coffee at three",
        "My landlord left a note",
        "I handed in my keys at the hotel",
        "It is hard to be off work without chess for a day",
        "I was at Bosch until late last night",
        "I drove the Yaris until the tank was empty",
        "I lived in Bonn until 2019 and moved back last year",
        "I was in Bonn until last month for a project",
        "I play the violin. My brother gave it up.",
        "I work at Bosch. My sister left in May.",
        "I moved to Bonn and left my family behind in May",
        "I joined Bosch in 2019 and left Siemens in May",
        "I used to live in Bonn and moved back in 2020",
        "I retired my old guitar in May",
        "I no longer eat pork",
        "I quit eating pork years ago",
        "We lost Rex in the park for an hour",
        "Took the seat off the Yaris and sold it",
        "Rex died laughing at the cat",
        "Anna left me a note",
        "Anna left me her umbrella",
        "Mum passed her driving test",
        "I let the Yaris go first at the lights",
        "They let me go early today",
        "I lost my job application form",
        "I retired to the sofa",
        "I retired the Yaris for the winter",
        "No more violin in the morning",
        "I'm no longer just a welder",
        "I don't drive the Yaris in winter any more",
        "I can't stand eggs any more",
        "Next year I quit Bosch",
        "Friday was my last day at Bosch before the holidays",
        "I stopped playing the violin to answer the phone",
        "",
    ],
)
def test_what_only_sounds_like_an_end_ends_nothing(message):
    assert ended(message) == set()


HEALTH = {
    "condition": "pregnant, diabetic, asthma, migraines, enceinte",
    "allergy": "nuts, latex",
    "medication": "the pill",
    "diet": "vegan",
    "lives_with": "mum",
    "dislikes": "mushrooms",
}
PREGNANT = [("condition", "pregnant"), ("condition", "enceinte")]


@pytest.mark.parametrize(
    ("message", "over"),
    [
        ("I lost the baby", PREGNANT),
        ("I had a miscarriage last week", PREGNANT),
        ("I gave birth yesterday!", PREGNANT),
        ("Our baby was born on Friday", PREGNANT),
        ("I'm not pregnant, false alarm", [("condition", "pregnant")]),
        ("Je ne suis plus enceinte", [("condition", "enceinte")]),
        ("J'ai fait une fausse couche", PREGNANT),
        ("Ich habe das Baby verloren", PREGNANT),
        ("Turns out I'm not diabetic after all, they mixed up the samples", [("condition", "diabetic")]),
        ("I never had asthma, it was misdiagnosed", [("condition", "asthma")]),
        ("The doctor says I don't have asthma after all", [("condition", "asthma")]),
        ("My asthma diagnosis was wrong", [("condition", "asthma")]),
        ("My allergy test came back: no nut allergy", [("allergy", "nuts")]),
        ("I was misdiagnosed with asthma", [("condition", "asthma")]),
        ("They tested me and I'm not allergic to latex", [("allergy", "latex")]),
        ("I'm off the pill", [("medication", "the pill")]),
        ("I'm not vegan, I never said that", [("diet", "vegan")]),
        ("I've moved out of my mum's", [("lives_with", "mum")]),
        ("that's wrong, I don't hate mushrooms", [("dislikes", "mushrooms")]),
        ("The doctor says I never had migraines", [("condition", "migraines")]),
        ("Slept well, no migraine, so I don't have an excuse", []),
        ("I don't have a migraine, let's go out", []),
        ("Not vegan, but tasty", []),
        ("I moved from Bonn to the Ulm office, one train further", []),
        ("I lost the baby in the supermarket for a minute", []),
        ("I'm not pregnant with twins", []),
        ("I lost the baby monitor", []),
        ("My sister lost the baby", []),
        ("I'm scared that I lost the baby", []),
        ("I had a miscarriage before, so I'm nervous", []),
        ("When I gave birth to my first it took hours", []),
        ("I'm not just diabetic", []),
        ("My mum says I don't have asthma", []),
        ("I don't have asthma attacks very often", []),
        ("I never had asthma until I was thirty", []),
        ("Dinner ideas, please: no nuts, no gluten", []),
        ("I'm not nuts", []),
        ("I don't have a nut allergy card with me", []),
        ("I don't take the pill at night", []),
        ("I'm not vegan for the animals", []),
        ("My brother moved out of my mum's", []),
        ("I don't hate mushroom soup", []),
        ("Am I not diabetic?", []),
    ],
)
def test_health_ends_with_what_was_an_error_and_with_all_that_is_denied(message, over):
    assert ended(message, HEALTH) == set(over)


@pytest.mark.parametrize(
    "message",
    [
        "My son is not allergic to nuts.",
        "Lea is not allergic to latex",
        "My daughter's nut allergy was a misdiagnosis.",
        "My daughter: no nut allergy!",
        "The asthma diagnosis was wrong",
        "He was misdiagnosed with asthma.",
        "My son's doctor said there was no asthma.",
        "My brother's scan showed no asthma.",
        "My dad's asthma has cleared up",
        "My cat is off the pill",
        "My sister's pregnancy test was negative.",
        "My cat had babies. The babies are here!",
        "We had the twins yesterday, their parents were out.",
        "We had a miscarriage two years ago and now I'm pregnant.",
        "I had a miscarriage in 2015",
        "Being vegan is fine, but my husband says: I'm not vegan!",
        "My husband: I'm not vegan!",
        "On Sundays I'm not vegan.",
        "In Italy, I'm not vegan.",
        "I don't take the pill now, I take it at night.",
        "Mum moved out of her comfort zone.",
        "I moved out of mum's bedroom.",
    ],
)
def test_what_is_over_with_others_or_only_at_times_ends_nothing_of_the_user(message):
    assert ended(message, HEALTH) == set()


@pytest.mark.parametrize(
    "message",
    [
        "I switched from Bosch to Makita",
        "I cancelled my account with Bosch",
        "I moved from Bosch to the green ones",
    ],
)
def test_a_customer_leaves_no_employer(message):
    assert ended(message) == set()


def test_a_stay_elsewhere_ends_no_home():
    assert ended("We moved from Bonn to Madeira for the winter") == set()


def test_what_stays_true_whatever_is_said_is_never_ended():
    lasting = dict.fromkeys(
        ("name", "birthday", "likes", "origin", "language", "children", "brother_employer"), "Bosch"
    )

    assert ended("I quit Bosch, I'm done with Bosch, no more Bosch, Bosch died.", lasting) == set()


@given(
    st.sampled_from(["I sold {}", "{} died", "I quit {}", "I no longer use {}", "{} was stolen"]),
    st.text(max_size=30),
)
def test_only_what_is_named_is_ended(wording, thing):
    named = thing.casefold()
    over = ended(wording.format(thing), {"car": "Kia Picanto", "uses": "Vim"})

    assert {value for _, value in over} <= {
        value for value, words in (("Kia Picanto", ("kia", "picanto", "car")), ("Vim", ("vim", "use")))
        if any(word in named for word in words)
    }  # fmt: skip
