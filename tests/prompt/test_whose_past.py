"""Whose past a question asks for, in several languages."""

from __future__ import annotations

import pytest

from shepherd.prompt.whose_past import is_of_the_one_asked_about
from shepherd.types import PastFact

FACTS = {
    "employer": PastFact("held", "employer", "Siemens", 0, 1),
    "location": PastFact("since", "location", "Berlin", 0),
    "car": PastFact("held", "car", "Skoda", 0, 1),
    "phone": PastFact("held", "phone", "0777", 0, 1),
    "dog_name": PastFact("held", "dog_name", "Fips", 0, 1),
    "wife_employer": PastFact("held", "wife_employer", "Aldi", 0, 1),
    "doctor": PastFact("since", "doctor", "Dr Wu", 0),
}


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Where did Tom work before?", "employer"),
        ("where did tom work before?", "employer"),
        ("Can you tell me where Tom worked before?", "employer"),
        ("Where did my boss work before?", "employer"),
        ("Where did you work before?", "employer"),
        ("Where did my kids' teacher work before?", "employer"),
        ("How long has Tom worked at Siemens?", "employer"),
        ("Wie lange arbeitet mein Bruder schon dort?", "employer"),
        ("Wie lange arbeitet sie schon dort?", "employer"),
        ("Depuis combien de temps travaille-t-elle là ?", "employer"),
        ("Where did Mozart live before?", "location"),
        ("Where did the Pope live before?", "location"),
        ("Where did humans live before farming?", "location"),
        ("Where was Einstein living before 1933?", "location"),
        ("Where did my wife live before?", "location"),
        ("Where did Tom live before I met him?", "location"),
        ("How long has Tom lived with me in Berlin?", "location"),
        ("My brother moved. Where did he live before?", "location"),
        ("Since when does my sister live in Berlin?", "location"),
        ("Since when does mum live in Berlin?", "location"),
        ("Seit wann wohnt Tom in Berlin?", "location"),
        ("Seit wann wohnt meine Schwester in Berlin?", "location"),
        ("Où habitait Paul avant ?", "location"),
        ("Où habitait ma sœur avant ?", "location"),
        ("¿Dónde vivía Pablo antes?", "location"),
        ("¿Desde cuándo vive mi hermana en Berlín?", "location"),
        ("Da quando vive Paolo a Berlino?", "location"),
        ("Onde morava a minha irmã antes?", "location"),
        ("Sinds wanneer woont mijn zus in Berlijn?", "location"),
        ("Hoe lang woont Piet al in Berlijn?", "location"),
        ("What car did my neighbour drive before?", "car"),
        ("Which car did Hamilton drive before?", "car"),
        ("What was my boss's car before?", "car"),
        ("¿Qué coche conducía mi padre antes?", "car"),
        ("What was Tom's phone number before?", "phone"),
        ("Who was Tom's doctor before?", "doctor"),
    ],
)
def test_the_users_own_past_is_not_that_of_others(question, key):
    assert not is_of_the_one_asked_about(question, FACTS[key])


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Where did I work before?", "employer"),
        ("Can you tell me where I worked before?", "employer"),
        ("Have I ever worked at Siemens?", "employer"),
        ("Previous employer?", "employer"),
        ("Wie lange arbeite ich schon dort?", "employer"),
        ("Quel était mon ancien travail avant ?", "employer"),
        ("Cuál era mi trabajo antes?", "employer"),
        ("Da quanto tempo lavoro qui?", "employer"),
        ("Hoe lang werk ik hier al?", "employer"),
        ("Where did we live before?", "location"),
        ("where have i lived before?", "location"),
        ("Where did my wife and I live before?", "location"),
        ("Did Tom and I live in Berlin before?", "location"),
        ("Where did I live before Tom moved in?", "location"),
        ("My brother lives in Rome. Where did I live before?", "location"),
        ("How long have I lived in Germany?", "location"),
        ("What was our address before?", "location"),
        ("Seit wann wohne ich in Berlin?", "location"),
        ("Où est-ce que j'habitais avant ?", "location"),
        ("¿Dónde vivía antes?", "location"),
        ("¿Desde cuándo vivo en Berlín?", "location"),
        ("Dove abitavo prima?", "location"),
        ("Desde quando moro em Berlim?", "location"),
        ("Sinds wanneer woon ik in Berlijn?", "location"),
        ("What car did I drive before?", "car"),
        ("Since when do we have the car?", "car"),
        ("How long has my car been a Skoda?", "car"),
        ("What was my phone number before?", "phone"),
        ("What was my dog called before?", "dog_name"),
        ("What was my wife's employer before?", "wife_employer"),
        ("How long has my doctor been Dr Wu?", "doctor"),
    ],
)
def test_the_past_of_the_user_and_of_whom_a_key_names_is_asked_for(question, key):
    assert is_of_the_one_asked_about(question, FACTS[key])


@pytest.mark.parametrize(
    ("question", "is_meant"),
    [
        ("What has changed?", True),
        ("What has changed in my life?", True),
        ("Was hat sich im letzten Monat geändert?", True),
        ("What changed at Siemens?", True),
        ("What changed at Bosch?", False),
        ("What has changed for Tom?", False),
        ("What has changed for my sister?", False),
    ],
)
def test_changes_are_those_of_whom_or_what_a_question_names(question, is_meant):
    assert is_of_the_one_asked_about(question, PastFact("ended", "employer", "Siemens", 0, 1)) is is_meant
