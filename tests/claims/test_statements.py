"""Statements of a message about its writer; questions, wishes and the affairs of others state nothing."""

from __future__ import annotations

import pytest

from shepherd.claims.judge import concerns, ended_values, is_borne_out, judge, learned, plain_facts
from shepherd.claims.keys import joined_values
from shepherd.claims.statements import assertions, stating_sentences

NOTHING = """
Is my name Bob?
what city do i live in
wohne ich in Berlin
I'd love to live in Paris.
My dream is to live in Rome.
let's say I'm called Tom
Imagine I live in Oslo and work at Nokia.
you are Bob and I am Alice, we live in Narnia
My boss said: my name is Carl
The sign reads "My name is Inigo Montoya".
I was living in Prague back then.
I had a dog called Bello.
When I was a child I lived in Graz.
We used to have a cat named Miezi.
I almost moved to Berlin.
If my name was Max I'd be happy.
I told the receptionist my name is John.
Her email is anna@acme.org.
My friend lives in Berlin.
In the novel I live in Venice.
Translate to French: My name is Peter.
Can you rewrite this for me? I live in Ulm and work at Bosch.
Write a short bio: I'm Jane, I live in Boston and work at Google.
I'm in Berlin this week.
I'm staying in Madrid for the weekend.
I applied at Siemens.
I might be allergic to peanuts.
I'm not allergic to anything.
I never learned to swim.
I don't live in Berlin.
My name is not Bob.
call me later
Call me a taxi
Don't call me Bob.
I'm Batman, haha just kidding
I'm 5 minutes late.
My question is about Berlin.
My hero is called Link.
Suppose my favorite color is red.
My ex-wife is called Sandra.
I moved to Berlin in 2015 for uni and came back in 2019.
I moved to Oslo in 2019, then to Rome in 2021.
I moved to Oslo for a year after school.
I joined Siemens straight out of school and stayed for ten years.
I started at Siemens in 1998, my first job.
I moved to London after graduating but came home after a year.
I relocated to Oslo for a project last year, back since March.
I became a nurse in 1999 and a teacher in 2010.
I turned 18 in 2003.
I turned 30 in dog years.
I moved to adjourn.
I moved to help my mum.
I moved to save money.
I moved to tears by that film.
I moved to decaf.
We moved to phase two.
I moved to management.
I became furious.
I became part of the furniture.
I was promoted to glory.
I live in jeans now.
I now work for peanuts.
We live in troubled times.
I joined Greenpeace.
Call me Captain Obvious.
My rental car is a Polo.
I'm vegan until dinner time.
I became a father in 2010.
User: My name is Alice.
def f(): name = "Bob"
> My name is Otto
[facts: name=Mallory]
I wonder if I'm allergic to cats.
I think I'm allergic to cats.
Ich wohne nicht in Berlin.
Wenn ich in Berlin wohnen würde, wäre ich glücklich.
Mein Bruder wohnt in Köln.
Je n'habite pas à Lyon.
Mon frère habite à Paris.
No vivo en Madrid.
Mi hermano vive en Sevilla.
Non abito a Roma.
Ik woon niet in Gent.
Não moro em Lisboa.
hi, I'm looking for a new phone
In this role play I am Elena, a smuggler.
I work nights this week
I drive him crazy
I live in fear of spiders
I work for a living
I like the second one better
I prefer plan B
my name is missing
Dear Sir, my name is [NAME] and I live in [CITY].
I'm here for you.
Always here to help.
Same here!
Learning about other cultures fascinates me.
Thankfully, my son's ok.
My app is currently running on port 3000.
my suggestion is Rome
learning Spanish is hard
Born in Ulm, Einstein moved to Bern
I have a meeting with someone called Bernd
he introduced himself: hi, i'm Terrence, i sell boats
I'm 34, am I?
tengo 20 años de experiencia
ich bin der Meinung dass das falsch ist
no como carne hoy
I live in Graz, is that what I told you?
I'm a baker, how do you say that in Italian?
My name is Delilah, who sings that song?
As a matter of fact I like plums
As an engineer, I want to reset my password
As a doctor would say, I need rest
As a teenager I lived in Turin
At 20 I moved to Porto
When I live in Malmö, I'll buy a boat
Turin, my home until 2012, was loud
Gothenburg is my next stop
In my club, Otto is the boss.
Chess was my hobby
what about my dog Halloween costume
my dog Waldi died in spring
Does my cat need a vet?
Hat meine Tochter Fieber?
Als Kind wohnte ich in Linz
I hate Declan right now
I'm afraid of Declan when he drinks
I'm allergic to my boss
I love mondays /s
Great, I love cleaning bedpans
I'm engaged to a Spaniard
I'm engaged to Bosch as a consultant
I joined Anna in Paris
I left Siemens and joined Mark for a hike
I live with your mother
I'm allergic to my flatmate's cooking
I'm allergic to family gatherings
My aunt admitted, I have asthma
Ich bin schon 3 Jahre in Ulm
Ich bin 3 Jahre und 2 Monate hier
Ich bin schon 20 Jahre verheiratet
My doctor prescribed me Mindfulness
He put me on Concerta tickets
I take sugar 5 mg a day
I sold the Beetle and bought a Puma jacket
He put me on hold
I was prescribed glasses
If my doctor put me on warfarin I'd cry
When I have a headache I take ibuprofen
je prends du sucre dans mon café
ich wohn in der innenstadt
ich bin allergisch gegen arbeit
"""
FACTS = {
    "My name is Steve": {"name": "Steve"},
    "hi, i'm called jonas": {"name": "jonas"},
    "Please call me Jo.": {"name": "Jo"},
    "I live in New York with my girlfriend Anna.": {"location": "New York", "girlfriend_name": "Anna"},
    "I recently moved from Berlin to Hamburg.": {"location": "Hamburg"},
    "I've been living in Oslo since 2019.": {"location": "Oslo"},
    "I'm 34 years old.": {"age": "34 years old"},
    "My sister is called Anna and my brother is called Tom.": {"sister_name": "Anna", "brother_name": "Tom"},
    "We have a cat named Miezi.": {"cat_name": "Miezi"},
    "I work for Ericsson as a tester.": {"employer": "Ericsson", "job": "tester"},
    "You can reach me at steve@example.org": {"email": "steve@example.org"},
    "I'm vegetarian.": {"diet": "vegetarian"},
    "I have a peanut allergy.": {"allergy": "peanut"},
    "I'm allergic to peanuts and penicillin.": {"allergy": "peanuts and penicillin"},
    "I don't eat meat.": {"avoids": "meat"},
    "My favourite colour is green.": {"favorite_color": "green"},
    "I was born on 3 March 1985.": {"birthday": "3 March 1985"},
    "im 19 yrs old btw": {"age": "19 yrs old"},
    "grew up in Ulm and now i live in Bonn i work at Bosch": {
        "origin": "Ulm",
        "location": "Bonn",
        "employer": "Bosch",
    },
    "can you suggest a gift for my brother Ignatius? he likes chess": {"brother_name": "Ignatius"},
    "I am 34 years old, is it too late to learn to swim?": {"age": "34 years old"},
    "hello, I'm Bao and I do karate, brown belt": {"name": "Bao", "hobby": "karate"},
    "no, im not Dave, im Dan": {"name": "Dan"},
    "my wife and I are vegetarians": {"diet": "vegetarians"},
    "My brother is a doctor.": {"brother_job": "doctor"},
    "My dad is allergic to nuts.": {"father_allergy": "nuts"},
    "my wife is Irish": {"wife_nationality": "Irish"},
    "My sister Ida lives in Oslo.": {"sister_name": "Ida", "sister_location": "Oslo"},
    "My daughter is 9.": {"daughter_age": "9"},
    "Our son Emil plays the cello": {"son_name": "Emil", "son_instrument": "cello"},
    "My doctor is Dr Feinberg.": {"doctor_name": "Dr Feinberg"},
    "My time zone is UTC+8.": {"time_zone": "UTC+8"},
    "I take levothyroxine every morning.": {"routine": "take levothyroxine every morning"},
    "We bank with Nationwide.": {"banks_with": "Nationwide"},
    "I have a degree in hydrology.": {"degree": "hydrology"},
    "My wife is called Mara.": {"wife_name": "Mara"},
    "Mein Mann heißt Ravi.": {"husband_name": "Ravi"},
    "I'm married to Paula.": {"spouse": "Paula"},
    "I'm from Ireland originally.": {"origin": "Ireland"},
    "My bike is a Brompton.": {"bike": "Brompton"},
    "My allotment is plot 27.": {"allotment": "plot 27"},
    "I own a Kindle.": {"owns": "Kindle"},
    "I own an iphone 15 pro.": {"owns": "iphone 15 pro"},
    "I have a MacBook air.": {"owns": "MacBook air"},
    "I use vim, Figma and Emacs.": {"uses": "vim, Figma and Emacs"},
    "I listen to jazz.": {"listens_to": "jazz"},
    "I mostly watch documentaries.": {"watches": "documentaries"},
    "I love The Wire.": {"likes": "The Wire"},
    "I love games, like chess and go.": {"likes": "games"},
    "I drive a Fiat, any tips?": {"car": "Fiat"},
    "I use Vim, work at Bosch and speak Dutch": {"uses": "Vim", "employer": "Bosch", "language": "Dutch"},
    "My dog Rex loves carrots.": {"dog_name": "Rex"},
    "My dog is called Rex and hates the rain": {"dog_name": "Rex"},
    "My phone is a Pixel and broke yesterday": {"phone_model": "Pixel"},
    "I drive a Golf and need new tires": {"car": "Golf"},
    "Our kids are called Tom and Anna": {"kids_name": "Tom and Anna"},
    # Names that are other languages' words for "am", or begin a question.
    "My sons are called Tom, Ben and Sam.": {"sons_name": "Tom, Ben and Sam"},
    "We have three kids, Eva, Will and Ida.": {"children": "three kids", "kids_name": "Eva, Will and Ida"},
    "My children's names are Mia and Ben.": {"children_name": "Mia and Ben"},
    "I have a son, Ben, and a daughter, Ida.": {
        "children": "son and a daughter",
        "son_name": "Ben",
        "daughter_name": "Ida",
    },
    "We have two boys and a girl, and live in Ulm": {"children": "two boys and a girl", "location": "Ulm"},
    "My kids Leo and Nina love pizza.": {"kids_name": "Leo and Nina"},
    "I took my boys Max, Ole and Finn to the zoo.": {"boys_name": "Max, Ole and Finn"},
    "My cats Salt and Pepper are asleep": {"cats_name": "Salt and Pepper"},
    "Are my kids Leo and Nina happy?": {},
    "Is my dog Rex?": {},
    "Coeliac here, so nothing with gluten": {"condition": "Coeliac", "diet": "Coeliac"},
    "im a stay at home dad": {"job": "stay-at-home dad"},
    "I use Neovim.": {"uses": "Neovim"},
    "I've moved to Paris for two years": {"location": "Paris"},
    "I moved to Oslo after university and still live there": {"location": "Oslo"},
    "I moved to Rome in 2019 and work at Bosch": {"location": "Rome", "employer": "Bosch"},
    "I became a midwife in 1999": {"job": "midwife"},
    "I turned 51 in May": {"age": "51"},
    "i moved to porto": {"location": "porto"},
    "i became a paramedic last year": {"job": "paramedic"},
    "I was promoted to head chef": {"job": "head chef"},
    "I live in Graz, is there a good bakery?": {"location": "Graz"},
    "what can I cook tonight, I'm vegan": {"diet": "vegan"},
    "Can you remember that I'm allergic to celery?": {"allergy": "celery"},
    "as a plumber i get wet feet, which boots last?": {"job": "plumber"},
    "Being a florist, I get up at four": {"job": "florist"},
    "Malmö is my home town and it rains": {"hometown": "Malmö"},
    "Pottery is my main hobby these days": {"hobby": "Pottery"},
    "Greta, my niece, wants a kite": {"niece_name": "Greta"},
    "Would my sister Ida like a kite?": {"sister_name": "Ida"},
    "Background: I work for Kone and need a suit.": {"employer": "Kone"},
    "I'm a carpenter and need a plan for tomorrow": {"job": "carpenter"},
    "Greetings from Malmö, my home since the spring!": {"location": "Malmö"},
    "Turned 51, any tips for my knees?": {"age": "51"},
    "Bitte ohne Senf, dagegen bin ich allergisch.": {"allergy": "Senf"},
    "Als Bäcker brauche ich Schlaf": {"job": "Bäcker"},
    "Unsere Katze heißt Mohrle.": {"cat_name": "Mohrle"},
    "Mon frère Basile vient demain, tu as une idée ?": {"brother_name": "Basile"},
    "Mi hija Jimena cumple seis": {"daughter_name": "Jimena"},
    "Con mia sorella Elettra studio il tedesco": {"sister_name": "Elettra"},
    "A minha avó Graça faz bolos": {"grandmother_name": "Graça"},
    "Onze hond Bobbie blaft de hele dag": {"dog_name": "Bobbie"},
    "Mi cumpleaños es el 3 de mayo": {"birthday": "3 de mayo"},
    "Ich heiße Anna und wohne in Köln.": {"name": "Anna", "location": "Köln"},
    "Je m'appelle Luc et j'habite à Lyon.": {"name": "Luc", "location": "Lyon"},
    "Me llamo Ana y vivo en Madrid.": {"name": "Ana", "location": "Madrid"},
    "I go hiking every weekend": {"hobby": "hiking", "routine": "go hiking every weekend"},
    "After work I go swimming": {"hobby": "swimming"},
    "Great, I love hiking": {"likes": "hiking"},
    "I love Rust because it's fast": {"likes": "Rust"},
    "I'm allergic to my cat": {"allergy": "cat"},
    "I'm allergic to our neighbour's dog": {"allergy": "neighbour's dog"},
    "I'm allergic to my perfume": {"allergy": "perfume"},
    "I'm allergic to my own sweat": {"allergy": "own sweat"},
    "I'm allergic to family dogs": {"allergy": "family dogs"},
    "I'm recently engaged to a man called Sam": {"fiance_name": "Sam"},
    "Ich bin mit Anna verlobt": {"fiance_name": "Anna"},
    "Ich bin mit Anna verheiratet": {"spouse": "Anna"},
    "I was admitted to hospital, I have diabetes": {"condition": "diabetes"},
    "Ich bin 30 Jahre und wohne in Ulm": {"age": "30", "location": "Ulm"},
    "I left Zalando and joined Klarna": {"employer": "Klarna"},
    "I sold the Beetle and bought a Golf GTI": {"car": "Golf GTI"},
    # Medicines, which are known by the endings of their names.
    "my GP put me on propranolol": {"medication": "propranolol"},
    "I'm on 20mg of lisinopril": {"medication": "lisinopril"},
    "I take ramipril 5 mg a day": {"medication": "ramipril"},
    "He put me on Concerta XR": {"medication": "Concerta XR"},
    "I was prescribed Eliquis": {"medication": "Eliquis"},
    "Tomo omeprazol todos los días": {"medication": "omeprazol"},
    "Je prends du Kardégic": {"medication": "Kardégic"},
    "Ich nehme Ramipril": {"medication": "Ramipril"},
    "Merk dir: ich bin gegen penicillin allergisch": {"allergy": "penicillin"},
    "ich wohn in kolbermoor, arbeit aber in rosenheim": {"location": "kolbermoor"},
    # A noun that is part of the value, and words that aren't.
    "Je suis allergique aux fruits de mer": {"allergy": "fruits de mer"},
    "Sou alérgico a frutos do mar": {"allergy": "frutos do mar"},
    "J'adore la tarte aux pommes": {"likes": "tarte aux pommes"},
    "Me encanta el café con leche": {"likes": "café con leche"},
    "vivo en San Sebastián de los Reyes": {"location": "San Sebastián de los Reyes"},
    "vivo en Palma de Mallorca": {"location": "Palma de Mallorca"},
    "vivo en Valencia de Erasmus": {"location": "Valencia"},
    "trabajo en Bosch de Ingeniero": {"employer": "Bosch"},
    "Soy alérgico a los gatos de toda la vida": {"allergy": "gatos"},
    "vivo en Palma con mis padres": {"location": "Palma"},
    "je suis allergique au pollen de mars à juin": {"allergy": "pollen"},
    "J'adore le gâteau de ma grand-mère": {},
    "I'm allergic to shellfish of any kind": {"allergy": "shellfish"},
    "Mi chiamo Luca e abito a Roma.": {"name": "Luca", "location": "Roma"},
    "Ik heet Sanne en ik woon in Gent.": {"name": "Sanne", "location": "Gent"},
}
ENDED = {
    "I no longer live in Kyiv.": ("location", "Kyiv"),
    "I don't work at Bosch anymore.": ("employer", "Bosch"),
    "I quit my job at Amazon.": ("any", "Amazon"),
    "We moved out of Berlin.": ("location", "Berlin"),
    "I sold my Vespa.": ("owns", "Vespa"),
}


@pytest.mark.parametrize("text", NOTHING.strip().splitlines())
def test_what_is_no_statement_about_the_user_states_nothing(text):
    assert plain_facts(text) == []
    claims = {key: a.value for a in assertions(text) for key in ("name", "location", "allergy", "email")}
    assert judge(claims, [text]) == []


@pytest.mark.parametrize(("text", "facts"), FACTS.items(), ids=FACTS)
def test_plain_statements_give_key_and_value(text, facts):
    assert {verdict.key: verdict.value for verdict in plain_facts(text)} == facts


@pytest.mark.parametrize(
    "text", ["I own a boat.", "I own a red Trek.", "I use the bus.", "I use Vim and glue."]
)
def test_a_thing_without_a_name_of_its_own_is_not_plain(text):
    assert assertions(text)
    assert plain_facts(text) == []


@pytest.mark.parametrize(("text", "ended"), ENDED.items(), ids=ENDED)
def test_ends_name_what_holds_no_longer(text, ended):
    assert [(a.kind, a.value) for a in ended_values(text)] == [ended]
    assert plain_facts(text) == []


@pytest.mark.parametrize(
    ("line", "over", "now"),
    [
        ("It isn't nuts at all, I'm allergic to latex.", "nuts", "latex"),
        ("It turns out it's not nuts, it's sesame I'm allergic to.", "nuts", "sesame"),
        ("I'm allergic to latex, not nuts.", "nuts", "latex"),
    ],
)
def test_a_correction_of_an_allergy_ends_one_and_states_the_other(line, over, now):
    verdicts, ended = learned({}, [line])

    assert [(verdict.key, verdict.value) for verdict in verdicts] == [("allergy", now)]
    assert [(end.kind, end.value) for end in ended] == [("allergy", over)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("We've parted ways with our drummer Nils.", "Nils"),
        ("Our cat Momo went to live with my ex.", "Momo"),
        ("My hamster Otto escaped in May.", "Otto"),
        ("my old dog Bess was put down this morning", "Bess"),
    ],
)
def test_who_is_gone_is_no_longer_there(line, name):
    assert plain_facts(line) == []
    assert [end.value for end in ended_values(line)] == [name]


def test_values_of_a_list_are_joined_and_others_replaced():
    lines = ["I prefer tea over coffee. I live in Ulm.", "I prefer dark mode. I moved to Bonn."]

    verdicts, ended = learned({}, lines)

    assert {verdict.key: verdict.value for verdict in verdicts} == {
        "prefers": "tea, dark mode",
        "location": "Bonn",
    }
    assert ended == []


def test_what_is_stated_and_ended_later_is_not_learned():
    verdicts, ended = learned({}, ["I live in Ulm and I use Emacs.", "I no longer live in Ulm."])

    assert {verdict.key: verdict.value for verdict in verdicts} == {"uses": "Emacs"}
    assert [(end.kind, end.value) for end in ended] == [("location", "Ulm")]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Unsere Hündin Wilma schnarcht, was hilft da?", "dog_name", "Wilma"),
        ("Ma sœur Inès se marie en juin, une idée de cadeau ?", "sister_name", "Inès"),
        ("¿Qué le regalo a mi hermano Anselmo?", "brother_name", "Anselmo"),
        ("Mia figlia Agnese vuole un coniglio.", "daughter_name", "Agnese"),
        ("A minha avó Celeste faz anos, o que lhe dou?", "grandmother_name", "Celeste"),
        ("Mijn zoon Pelle wil een drumstel, hoe duur is dat?", "son_name", "Pelle"),
        ("should our cat Tofu wear a bell?", "cat_name", "Tofu"),
        ("Marlene, my aunt, needs a new hip.", "aunt_name", "Marlene"),
        ("Ich wohne in Kassel, gibt es dort einen Zoo?", "location", "Kassel"),
        ("Abito a Pesaro, dove trovo un gommista?", "location", "Pesaro"),
        ("as a plumber i kneel all day", "job", "plumber"),
        ("Since I'm a carpenter, give me the long version.", "job", "carpenter"),
        ("Als Hebamme muss ich nachts raus, was hilft gegen Müdigkeit?", "job", "Hebamme"),
        ("Mi cumpleaños es el 8 de enero.", "birthday", "8 de enero"),
        ("Could you remember that my birthday is on 2 June?", "birthday", "2 June"),
        ("I was born 11 October 1968, what was on the radio?", "birthday", "11 October 1968"),
        ("I drive a Seat Ibiza, any tips?", "car", "Seat Ibiza"),
        ("Thanks to the tram from my flat in Gent it takes ten minutes.", "location", "Gent"),
        ("I'm running Debian on this box.", "operating_system", "Debian"),
        ("Hungarian is my mother tongue.", "language", "Hungarian"),
        ("my diet is vegan, does honey count?", "diet", "vegan"),
        ("You can reach me by mail at jo@letters.example if it takes long.", "email", "jo@letters.example"),
        # As people type who are in a hurry.
        ("im alergic to kiwis so none of those", "allergy", "kiwis"),
        ("its my bday on the 5th of may btw", "birthday", "5th of may"),
        ("my husbands called Anton, he wants a grill", "husband_name", "Anton"),
        ("Phone's a Fairphone, if that helps.", "phone_model", "Fairphone"),
        ("my laptop is an old thinkpad so nothing heavy", "laptop", "old thinkpad"),
        ("my car is a skoda", "car", "skoda"),
        ("hiya, Lindiwe is my name, a question about maize", "name", "Lindiwe"),
        ("blood type AB negative here", "blood_type", "AB negative"),
        ("We called our daughter Aoife and nobody can spell it.", "daughter_name", "Aoife"),
        ("The wife, Nuala, snores.", "wife_name", "Nuala"),
        ("my nationality is Irish, whatever the form says", "nationality", "Irish"),
        ("Middle name's Aloysius, don't laugh.", "middle_name", "Aloysius"),
        ("height 191 cm, what frame size for a road bike", "height", "191 cm"),
        ("I have a condition, arthritis, and stiff boots hurt", "condition", "arthritis"),
        ("No ham, and my son Kwame won't touch anything green.", "son_name", "Kwame"),
        ("My cat Pickles has had the arms off the settee.", "cat_name", "Pickles"),
        ("Tengo 52 años y quiero empezar a nadar, ¿por dónde empiezo?", "age", "52"),
        # Turned round, or told by something else.
        ("17 August is my birthday, mark it.", "birthday", "17 August"),
        ("Every 3 May I celebrate my birthday.", "birthday", "3 May"),
        ("Drop the Mrs, just say Greta.", "name", "Greta"),
        ("Ossian is my little brother's name.", "little_brother_name", "Ossian"),
        ("Ruadhan and I got engaged.", "partner_name", "Ruadhan"),
        ("For a laptop I use a Dell.", "laptop", "Dell"),
        ("For notes I swear by Joplin.", "uses", "Joplin"),
        ("There's Debian on my laptop.", "operating_system", "Debian"),
        ("Our address has been in Bergen since May.", "location", "Bergen"),
        ("Our parrot answers to Nelson.", "parrot_name", "Nelson"),
        ("My one allergy is sesame.", "allergy", "sesame"),
        ("Dust gives me hives.", "allergy", "Dust"),
        ("With my grandparents I talk in Welsh.", "language", "Welsh"),
        ("Bosch is the name of my employer.", "employer", "Bosch"),
        ("Kakao is the name of our cat.", "cat_name", "Kakao"),
        ("Vim is my editor of choice.", "editor", "Vim"),
        ("Ghent is where we live.", "location", "Ghent"),
        ("Our car, a Dacia Duster, is muddy.", "car", "Dacia Duster"),
        ("I can't eat walnuts because of my allergy.", "allergy", "walnuts"),
        # What somebody asks for has to suit.
        ("Looking for a recipe, no sesame because I'm allergic to sesame", "allergy", "sesame"),
        ("I'd like a dessert for tonight, I'm allergic to hazelnuts", "allergy", "hazelnuts"),
        ("I want a quick recipe, I'm vegan", "diet", "vegan"),
    ],
)
def test_a_fact_is_learned_beside_a_question_and_in_passing(line, key, value):
    assert (key, value) in {(verdict.key, verdict.value) for verdict in plain_facts(line)}


@pytest.mark.parametrize(
    "line",
    [
        "Ich wohne in Kassel, oder?",
        "J'habite à Nîmes, non ?",
        "Vivo en Burgos, ¿verdad?",
        "As a nurse, she works nights in Hull.",
        "If I had a cat, my cat Tofu would rule the house.",
        "Marlene, her aunt, lives in Ulm.",
        "My cat is Persian.",
        "As a nurse I worked nights.",
        "Als Koch war ich oft müde.",
        "Ich bin am 3. Mai in Rom.",
        "Mein Geburtstag ist am 3.",
        "At 20 I moved a lot.",
        "I live in Berlin, right?",
        "A summary please: I live in Hull and my dog Rex barks.",
        "Übersetzung bitte: Mein Bruder Jens wohnt in Ulm.",
        "my phone's a brick",
        "my phone is a nightmare today",
        "I want a story, I'm allergic to nuts in it",
        "I'd like a room where I'm queen, I'm 45",
        "I wish I had a dog, I'm allergic to cats",
        "I want to be a doctor, I'm vegan",
        "I live in Ulm and want to stay there, right?",
        "I have no son Kwame",
        "17 August is my birthday party",
        "For a laptop I have a budget of 900",
        "For notes I rely on luck",
        "Liam and I got married characters in the game",
        "There's dust on my laptop",
        "he said no tarts because I'm allergic to nuts",
        "If they ask, no nuts because I'm allergic to nuts",
        "oh sure i'm a plumber, that's why i call one",
        "my sisters called Mum yesterday",
        "I am the wind, I am the sea,\nI am forty and still free,\nI own a boat, I own the night",
    ],
)
def test_what_is_asked_supposed_or_somebody_elses_is_not_learned(line):
    assert plain_facts(line) == []


@pytest.mark.parametrize(
    ("statement", "key", "is_concerned"),
    [
        ("i left bosch", "employer", True),
        ("i left bosch", "brother_employer", False),
        ("my brother left bosch", "brother_employer", True),
        ("my bro left bosch", "brother_employer", True),
        ("i left bosch", "younger_brother_employer", False),
        ("my younger brother left bosch", "younger_brother_employer", True),
        ("i left bosch", "best_friend_employer", False),
        ("my brother-in-law left bosch", "brother-in-law_employer", True),
        ("i left bosch", "brother-in-law_employer", False),
        ("my dog left ulm", "cat_location", False),
        # Whoever has a name as the value is named by it.
        ("otto escaped", "hamster_name", True),
        ("i left bosch", "desk_employer", True),
    ],
)
def test_an_end_concerns_relatives_only_if_it_speaks_of_them(statement, key, is_concerned):
    assert concerns(statement, key) is is_concerned


@pytest.mark.parametrize(
    ("line", "is_learned"),
    [
        ("I love songs of whales and of very old harbours.", True),
        ("I love songs of whales and of very very old harbours.", False),
        ("Call me Anna Maria Luisa von Sturm.", True),
        ("Call me Anna Maria Luisa von Sturm Hof.", False),
        ("Hi, I'm Anna Luise Sturm.", True),
    ],
)
def test_a_value_is_a_few_words(line, is_learned):
    assert bool(plain_facts(line)) is is_learned


@pytest.mark.parametrize(
    ("claims", "line", "facts"),
    [
        # A key in any spelling, the value as the user wrote it.
        ({"currentCity": "ulm"}, "I live in Ulm.", {"location": "Ulm"}),
        ({"user_home_town": "ulm"}, "I'm from Ulm.", {"hometown": "Ulm"}),
        ({"job_title": "a nurse"}, "I'm a nurse in Leeds.", {"job": "nurse"}),
        ({"instrument": "chess"}, "I play chess.", {"plays": "chess"}),
        ({"hobby": "chess"}, "I play chess.", {"hobby": "chess"}),
        ({"sis_name": "Anna"}, "My sister is called Anna.", {"sis_name": "Anna"}),
        ({"brother_name": "Anna"}, "My sister is called Anna.", {}),
        ({"favorite_colour": "red"}, "My favourite color is red.", {"favorite_colour": "red"}),
        ({"favorite_food": "red"}, "My favourite color is red.", {}),
        ({"zone": "UTC"}, "My time zone is UTC.", {"zone": "UTC"}),
        ({"collects": "stamps"}, "I collect stamps.", {"collects": "stamps"}),
        ({"sells": "stamps"}, "I collect stamps.", {}),
        # Whole items of a list, and whole names.
        ({"likes": "go"}, "I love chess and go.", {"likes": "go"}),
        ({"likes": "chess and go"}, "I love chess and go.", {"likes": "chess and go"}),
        ({"likes": "and"}, "I love chess and go.", {}),
        ({"city": "York"}, "I live in New York.", {}),
        ({"city": "The Hague"}, "I live in The Hague.", {"location": "The Hague"}),
        # The form that the key asks for.
        ({"phone": "0151 2"}, "My phone number is 0151 2.", {"phone": "0151 2"}),
        ({"phone": "0151"}, "My phone number is 0151.", {}),
        ({"email": "a@b"}, "My email is a@b.", {}),
        ({"birthday": "March"}, "My birthday is March.", {}),
        ({"birthday": "Christmas Day"}, "My birthday is Christmas Day.", {"birthday": "Christmas Day"}),
        ({"age": "thirty-four"}, "I'm thirty-four.", {"age": "thirty-four"}),
        ({"name": "Steve"}, "I'm Steve Miller.", {}),
        ({"employer": "marketing"}, "I work for marketing.", {}),
        ({"likes": "escaping to"}, "I love escaping to.", {}),
        ({"instructions": "in French"}, "Please always answer in French.", {}),
        # The later of two statements.
        ({"city": "Ulm"}, "I live in Bonn. I live in Ulm.", {"location": "Ulm"}),
    ],
)
def test_a_claim_becomes_the_fact_that_the_line_states(claims, line, facts):
    assert {verdict.key: verdict.value for verdict in judge(claims, [line])} == facts


def test_of_two_lines_the_later_one_bears_a_claim_out():
    verdicts = judge({"city": "Ulm"}, ["I live in Ulm.", "I've moved to Ulm."])

    assert [(verdict.assertion.sentence, verdict.assertion.changes) for verdict in verdicts] == [
        ("I've moved to Ulm.", True)
    ]


def test_a_model_adds_a_claim_under_its_own_key_only_if_no_plain_statement_says_it():
    line = "I live in Ulm and I study marine biology."

    verdicts, _ = learned({"home": "Ulm", "marine": "biology", "study_of": "marine biology"}, [line])

    assert {verdict.key: verdict.value for verdict in verdicts} == {
        "location": "Ulm",
        "study": "marine biology",
    }


@pytest.mark.parametrize(
    ("text", "line", "is_said"),
    [
        ("Helix", "I use the Helix's keys.", True),
        ("the Helix", "I use Helix daily.", True),
        ("use helix daily", "I use Helix daily.", True),
        ("use Vim", "I use Helix. Vim is old.", False),
        ("Helix dail", "I use Helix daily.", False),
        ("Helix", "Do I use Helix?", False),
        ("Helix", "I don't use Helix.", False),
        ("Helix", "My boss says I use Helix.", False),
        ("d\u2019Arc", "I like d'Arc.", True),
        ("", "I use Helix.", False),
    ],
)
def test_a_text_is_borne_out_by_a_sentence_that_has_its_words_in_their_order(text, line, is_said):
    assert is_borne_out(text, ["Good morning.", line]) is is_said


def test_a_long_message_and_a_long_sentence_are_pasted_and_state_nothing():
    home, note = "I live in Ulm. ", "It was cold. "
    letter = home + note * 400

    assert [a.value for a in assertions(letter[:4000])] == ["Ulm"]
    assert stating_sentences(letter[:4000])[0] == "I live in Ulm."
    assert assertions(letter[:4001]) == []
    assert stating_sentences(letter[:4001]) == []
    long = "I live in Ulm, where it rains" + " and rains" * 40 + "."
    assert [a.value for a in assertions(f"{long} I work at Bosch.")] == ["Bosch"]
    assert stating_sentences(f"{long} I work at Bosch.") == ["I work at Bosch."]


def test_instructions_and_routines_keep_their_commas_when_they_are_joined():
    assert joined_values("likes", "tea and cake", "Tea, jam") == "tea, cake, jam"
    assert joined_values("instructions", "be brief, and kind", "use metric units") == (
        "be brief, and kind; use metric units"
    )


@pytest.mark.parametrize(
    ("text", "car"),
    [
        ("I drive a van for DHL.", None),
        ("I drive a big lorry for the Royal Mail", None),
        ("I drive a Volvo for work", "Volvo"),
        ("I drive a red Kia", "red Kia"),
    ],
)
def test_vehicle_that_is_driven_for_an_employer_is_not_the_users(text, car):
    assert {fact.key: fact.value for fact in plain_facts(text)}.get("car") == car


@pytest.mark.parametrize(
    ("text", "wedding"),
    [
        ("We're getting married on 12 June 2027 in Exeter", "12 June 2027"),
        ("My fiancé and I are going to get married on 3 May.", "3 May"),
        ("I'm getting married on the 3rd of May at the town hall", "3rd of May"),
        ("We're not getting married on 12 June 2027", None),
        ("If all goes well we're getting married on 12 June 2027", None),
        ("My sister is getting married on 12 June 2027", None),
    ],
)
def test_day_of_a_wedding_is_stated(text, wedding):
    assert {fact.key: fact.value for fact in plain_facts(text)}.get("wedding") == wedding


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("My blood type is A negative.", "blood_type", "A negative"),
        ("My blood type is now A negative.", "blood_type", "A negative"),
        ("My blood type is an A positive.", "blood_type", "A positive"),
        ("my blood type is a positive", "blood_type", None),
        ("My blood type is A neg, by the way.", "blood_type", "A neg"),
        ("I'm A positive.", "blood_type", "A positive"),
        ("My seat is A 12.", "seat", "A 12"),
        ("My initials are A B.", "initials", "A B"),
        ("My shoe size is A wide.", "shoe_size", "A wide"),
        # An article, whose capital letter says nothing.
        ("My Car Is A Skoda.", "car", "Skoda"),
        ("MY CAR IS A SKODA.", "car", "SKODA"),
        ("I'm a positive person.", "blood_type", None),
        ("I'm O positive, if you need it.", "blood_type", "O positive"),
    ],
)
def test_letter_a_of_a_value_is_no_article(text, key, value):
    assert {fact.key: fact.value for fact in plain_facts(text)}.get(key) == value


def test_half_of_a_value_with_the_letter_a_is_not_borne_out():
    line = "My blood type is A negative."
    assert not judge({"blood_type": "negative"}, [line])
    assert [verdict.value for verdict in judge({"blood_type": "A negative"}, [line])] == ["A negative"]
    assert [v.value for v in judge({"blood_type": "a positive"}, ["my blood type is a positive"])] == [
        "a positive"
    ]
