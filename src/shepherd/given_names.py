"""Common given names, in lower case: who bears one of them is somebody, and no company and no town."""

from __future__ import annotations

__all__ = ["FEMALE_NAMES", "GIVEN_NAMES", "MALE_NAMES", "NAMES_AND_WORDS"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FEMALE_NAMES = _names(
    "abby abigail aisha alexandra alice alina amanda amelia amy ana andrea angela anita anna anne annie"
    " astrid audrey barbara bella beth bianca brenda bridget brooke camila carla carmen carol caroline"
    " carolyn catherine charlotte chelsea cheryl chiara chloe christina cindy claire clara crystal dana"
    " daniela deborah debra denise diana donna doris dorothy eleanor elena elisabeth elizabeth ella ellen"
    " ellie emilia emily emma erika erin esther eva evelyn fatima fiona frances frida gabriela gina gloria"
    " grace greta hailey hannah heather helen helena holly ingrid irene isabel isabella jane janet"
    " jennifer jessica jill joan joanna johanna jolene josephine joyce judith julia julie karen karin kate"
    " katherine kathrin kathy katja kayla kelly kimberly kristen laila laura lauren lea leila lena leslie"
    " lily linda lisa liz lori lucia lucy luisa lynn magdalena mandy margaret maria marie marina marlene"
    " marta martha mary maya megan mei melanie melissa meredith mia michelle miriam molly monica nadia"
    " nadine nancy naomi natalie natasha nicola nicole nina nora norma olga olivia paige pamela patricia"
    " paula penny petra phoebe polly priya rachel rebecca rhonda rita roberta rosa rosie ruth sabrina"
    " sally samantha sandra sara sarah shannon sheila shirley silvia simone sofia sonja sophia sophie"
    " stella stephanie susan susanna svetlana sylvia tamara tanja tara teresa theresa tiffany tina tracy"
    " ursula valentina vanessa vera victoria vivian wendy whitney yasmin yuki yvonne zoe"
)
MALE_NAMES = _names(
    "aaron abdul adam adrian ahmed alan albert alexander alfred ali allen alvin amir anders andre andreas"
    " andrew antonio arjun arnold arthur barry bart ben benjamin bernd billy bob bobby boris brad bradley"
    " brandon brent brian bruce bruno caleb calvin cameron carl carlos chad charles chen christian"
    " christoph christopher chuck clark claude clyde cody colin connor craig curtis damian daniel danny"
    " darren dave david dennis derek diego dieter dmitri don donald doug douglas dustin dylan eddie edgar"
    " edward eli elias elijah elliot eric erik ethan eugene evan felix fernando florian francesco frank"
    " franz fred frederick friedrich gabriel gary gavin georg george gerald giovanni glenn gordon graham"
    " greg gustav hank hans harold harry hassan heinrich henry hiroshi howard hugo ian ibrahim igor isaac"
    " ivan jack jacob jake jakob james jan jared jason javier jay jeff jeffrey jens jeremy jerome jerry"
    " jesse jim joe joel johannes john johnny jon jonas jonathan jorge jose josef joseph josh joshua juan"
    " justin jürgen karl keith ken kenneth kevin kirk klaus kurt kyle larry lars lawrence leo leon liam"
    " lloyd logan louis luca lucas luis lukas luke manuel marc marcel marco marcus mario markus martin"
    " marvin matt matteo matthew matthias max maxwell michael miguel mike mitchell mohamed mohammed moritz"
    " nate nathan nathaniel neil nelson nicholas nick nicolas nikolai noah norman oliver omar oscar otto"
    " owen pablo paolo patrick paul pedro perry peter phil philip pierre preston rafael rahul raj ralf"
    " ralph randy ray raymond richard ricky rob robert rodney roger roland rolf ron ronald ross roy"
    " russell ryan sammy samuel scott sean sebastian sergei seth shane shaun simon spencer stanley stefan"
    " stephen steve steven stewart stuart sven ted theodore thomas tim timothy tobias todd tom tony travis"
    " trevor troy tyler ulrich victor vincent vladimir walter wayne werner wesley wilhelm william wolfgang"
    " yusuf zach zachary"
)
# Names of both genders, which agree with both pronouns.
_OPEN_NAMES = _names("alex andy ashley casey chris jamie jordan kim lee morgan pat robin sam taylor terry")
GIVEN_NAMES = FEMALE_NAMES | MALE_NAMES | _OPEN_NAMES
# Names that are other words as often.
NAMES_AND_WORDS = _names(
    "art bill chip daisy dawn dean dot drew faith grant hope iris ivy jack jasmine joy june mark may miles"
    " olive poppy rich rose ruby sandy sky sue violet will"
)
