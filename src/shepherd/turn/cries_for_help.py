"""Replies that name help, for messages about suicide, violence or an emergency, whatever the model writes.

The words of English, German, French, Spanish, Italian, Portuguese and Dutch are known; the reply is in
English, which is all that the bundled model speaks.
"""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.material import asks_for_text, without_given_text
from shepherd.prompt.tasks import is_task

__all__ = ["needs_help", "reply_to_cry_for_help"]

_EMERGENCY = "your country's emergency number, such as 112 or 911"
_LINES = "988 in the US, 116 123 in the UK, Ireland or Germany, others at findahelpline.com"
_TO_SELF = (
    "I'm so sorry that it is this hard, and I'm glad that you say it. I'm only a small program, so please"
    f" talk to a person now: {_LINES}. If you might act on it, call {_EMERGENCY}."
)
_BY_OTHERS = (
    "I'm so sorry. Nobody has the right to do that to you, and it isn't your fault. If you're in danger, call"
    f" {_EMERGENCY}. You can talk to people who help: 1-800-799-7233 in the US, 0808 2000 247 in the UK,"
    " others at findahelpline.com."
)
_TO_OTHERS = (
    f"I'm so sorry. If somebody is in danger, call {_EMERGENCY}. Crisis lines are also there for those who"
    f" worry about somebody: {_LINES}."
)
_IN_AN_EMERGENCY = (
    f"I'm only a program and can't call anybody. Please call {_EMERGENCY}, right now, or ask somebody near"
    " you to."
)

_END = r"(?= any ?more| anymore|\s*(?:$|[.!?,;:)]))"
_SMALL = r"(?:(?:just|really|only|honestly|simply|so|truly|badly|still|sometimes|often|always) )*"
_INTENDS = (
    r"\b(?:want|wanted|wants|wanna|going|gonna|about|like|thought|think|thinking|urge|plan|planning|ready"
    r"|keep"
    r"|started|tempted|trying|tried|will|'ll)\b[^.!?\n]{0,20}?"
)
_SUICIDE = (
    r"\b(?:kill|hang|shoot|drown|strangle)(?:ing|ed)? myself\b(?! laughing| with laugh)",
    rf"{_INTENDS}\b(?:cut|hurt|harm|poison)(?:ting|ing)? myself\b",
    r"\b(?:harm(?:ing|ed)? myself|self[- ]harm(?:ing)?)\b",
    r"\b(?:end(?:ing)? (?:my (?:own )?life|it all)|tak(?:e|ing) my (?:own )?life)\b",
    r"\bI(?:'m| am| feel| have been| was) (?:\w+ )?suicidal\b|\bsuicidal (?:thoughts|feelings|ideation)\b",
    r"\b(?:commit|attempt|consider|contemplat|think\w* (?:of|about))(?:ed|ing|e)? suicide\b",
    rf"\bI(?:'d)? {_SMALL}(?:want to|wanna|wish (?:I could|to)|would like to|'d like to|hope (?:I"
    rf"|to)) {_SMALL}die"
    rf"(?= (?:now|today|tonight|so|and|already)\b|{_END})",
    r"\bI wish (?:that )?I(?:'d| had| was| were)? (?:dead|never (?:been )?born|never woke\w* up)\b",
    r"\b(?:I'd be|I'm|I am|would be|are|is) better off (?:dead|without me)\b",
    rf"\b(?:do not|don'?t|never|no longer) {_SMALL}(?:want|wish) to {_SMALL}"
    rf"(?:(?:live|be alive|exist){_END}|(?:be here|be around|go on|carry on|wake up) (?:any ?more|again"
    rf"|ever))",
    r"\bno (?:reason|point) (?:to|in) (?:live|living|go(?:ing)? on)\b|\bnothing (?:left )?to live for\b",
    r"\b(?:can't|can not|cannot) (?:go|carry) on (?:like this|living|any ?more)\b",
    r"\blife (?:is not|isn't|is no longer) worth living\b",
    rf"{_INTENDS}\bjump(?:ing)? (?:off (?:a|the) (?:bridge|roof|building)|in front of)",
    # German
    r"\b(?:bringe? mich (?:\w+ )?um\b|mich (?:\w+ )?(?:umbringen|umzubringen|erhängen|erschießen|vor (?:den"
    r"|einen) Zug)"
    r"|mir (?:\w+ )?das Leben (?:zu )?nehmen|lebensmüde|suizidal|Selbstmordgedanken|Suizidgedanken|ritze mich"
    r"|mich (?:\w+ )?ritzen)",
    r"\bich (?:will|möchte|mag) (?:(?:\w+ ){0,2}?(?:sterben|tot sein)|(?:\w+ )?nicht mehr (?:weiter)?leben)"
    rf"{_END}",
    # French
    r"\bme (?:suicider|tuer|pendre)\b|\bmettre fin à mes jours|\bj'ai envie de mourir"
    r"|\bje (?:\w+ )?suicidaire"
    r"|\bpensées suicidaires|\bje me (?:scarifie|mutile)",
    rf"\bje (?:veux|voudrais) (?:\w+ )?mourir{_END}|\bje ne veux plus vivre{_END}",
    # Spanish
    rf"\b(?:quiero|querría|quisiera|voy a|me quiero|me voy a) (?:matar(?:me)?|suicidar(?:me)?"
    rf"|morir(?:me)?){_END}"
    rf"|\bquitarme la vida|\bno quiero (?:seguir viviendo|vivir(?: más)?){_END}|\bsuicidarme",
    # Italian
    rf"\b(?:voglio|vorrei|sto per) (?:uccidermi|ammazzarmi|morire|farla finita){_END}|\bmi (?:uccido"
    rf"|ammazzo)\b"
    rf"|\b(?:suicidarmi|togliermi la vita)|\bnon voglio più vivere{_END}",
    # Portuguese
    rf"\b(?:quero|vou|queria) (?:me matar|matar-me|morrer|suicidar-me|me suicidar){_END}"
    rf"|\bnão quero (?:mais )?viver(?: mais)?{_END}|\btirar a minha (?:própria )?vida",
    # Dutch
    rf"\bik (?:wil|ga) (?:\w+ ){{0,2}}?(?:dood(?: zijn)?|sterven|niet meer leven){_END}|\b(?:mezelf"
    rf"|me) (?:\w+ )?(?:ophangen"
    r"|van kant maken|verhangen|iets aandoen)|\bzelfmoord (?:te )?(?:plegen|pleeg)|\bpleeg zelfmoord"
    r"|\bsuïcidaal",
)
_CLOSE_ONES = (
    r"(?:ex|husband|wife|partner|boyfriend|girlfriend|spouse|fianc[eé]e?|dad|father|mum|mom|mother|stepdad"
    r"|stepfather"
    r"|stepmum|stepmom|stepmother|uncle|aunt|boss|flatmate|roommate|housemate|brother|sister|coach|teacher"
    r"|carer|parents"
    r"|neighbou?r)"
)
_AGGRESSOR = (
    rf"(?:(?:my|our) (?:ex-?)?(?:\w+ )?{_CLOSE_ONES}(?: [A-Z]\w+)?|he|she|they|somebody|someone|a man)"
)
_OFTEN = r"(?:(?:has|have|had|keeps?|always|often|sometimes|again|just|also|still|regularly|once|tried to) )*"
_VIOLENCE = (
    r"\bI(?:'ve|'m| have| am)? (?:was|got|been|being) (?:\w+ )?(?:raped|molested|gang-?raped|groped|stalked"
    r"|strangled"
    r"|trafficked|sexually \w+|beaten up|beaten by (?:my|him|her|a man)|abused|assaulted|held captive)\b",
    rf"\b{_AGGRESSOR} {_OFTEN}(?:rap(?:es?|ed)|molest(?:s|ed)|abus(?:es?|ed)|assault(?:s|ed)|chok(?:es?|ed)"
    rf"|strangl(?:es?|ed)"
    r"|grop(?:es?|ed)|stalk(?:s|ed)|slap(?:s|ped)|punch(?:es|ed)?|kick(?:s|ed)|hit(?:s|ting)?|hurts"
    r"|threaten(?:s|ed)(?: to kill)?"
    r"|beat(?:en|ing)?(?= (?:me|us) (?:up|every|when|again|badly|with))|beats|kill) (?:me|us|my (?:kids"
    r"|children|son|daughter))\b"
    r"(?! (?:up (?:for|with|on)|at \w+|in (?:the|our) (?:\w+ )?(?:final|race|game|match)|to it|as "
    r"|with a (?:question|bill)))",
    r"\b(?:domestic (?:violence|abuse) (?:at home|from my|by my)|victim of (?:domestic|sexual) (?:violence"
    r"|abuse))\b",
    r"\b(?:my|an) (?:ex-?)?abusive (?:relationship|marriage|home|family|husband|wife|partner|boyfriend"
    r"|girlfriend|ex|father"
    r"|mother|dad|mum|mom|parents)\b",
    r"\bI(?:'m| am) (?:so )?(?:afraid|scared|frightened|terrified) (?:of my (?:ex-?)?(?:husband|wife"
    r"|partner|boyfriend|girlfriend"
    r"|ex|father|dad|stepfather|stepdad)|to go home)\b",
    # German
    r"\bich (?:wurde|werde|bin) (?:\w+ ){0,3}?(?:vergewaltigt|missbraucht|misshandelt|verprügelt|begrapscht"
    r"|gestalkt)",
    r"\b(?:meine?|unser) (?:ex-?)?\w+ (?:schlägt|schlug|verprügelt|misshandelt|missbraucht|würgt"
    r"|bedroht) (?:mich|uns)\b"
    r"|\b(?:meine?) \w+ hat mich (?:\w+ )?(?:geschlagen|vergewaltigt|verprügelt|gewürgt|missbraucht"
    r"|misshandelt|bedroht)\b",
    # French
    r"\bj'ai été (?:violée?|agressée?|battue?|frappée?|abusée?)|\bm'a (?:violée?|frappée?|battue?"
    r"|étranglée?)\b"
    r"|\b(?:mon|ma) [\w-]+ me (?:frappe|bat|viole|tape|menace)\b",
    # Spanish
    r"\b(?:me (?:violaron|violó|han violado|ha violado|pega|golpea|maltrata)|(?:fui|he sido) (?:violad"
    r"|maltratad|agredid)[ao])\b",
    # Italian
    r"\bsono stat[ao] (?:violentat|stuprat|picchiat|aggredit|abusat)[ao]\b|\bmi (?:picchia|ha (?:picchiat"
    r"|violentat|stuprat)[ao])\b",
    # Portuguese
    r"\bfui (?:violad|estuprad|agredid|abusad|espancad)[ao]\b|\b(?:me (?:bate|espanca|agride|violou"
    r"|estuprou)|bate-me|violou-me)\b",
    # Dutch
    r"\bik (?:ben|word|werd) (?:\w+ ){0,2}?(?:verkracht|mishandeld|misbruikt|aangerand|in elkaar geslagen)"
    r"|\bmijn \w+ (?:slaat|mishandelt|verkracht|bedreigt) (?:me|mij|ons)\b",
)
_OTHERS = (
    r"\b(?:wants?|wanted|going|threat\w+|plans?|planning|tried|tries|trying|talks?|talking"
    r"|attempt\w+)\b[^.!?\n]{0,20}?"
    r"\b(?:kill(?:ing)? (?:himself|herself|themsel(?:f|ves))|end(?:ing)? (?:his|her|their) (?:own )?life"
    r"|tak(?:e|ing) (?:his|her|their) (?:own )?life|commit(?:ting)? suicide)",
    r"\b(?:is|'s|are|'re) (?:\w+ )?suicidal\b|\bself-?harms\b",
    rf"\b(?:he|she|(?:my|our) (?:\w+ )?\w+) {_SMALL}(?:wants to die|doesn't want to (?:live|be alive)){_END}",
    r"\b(?:was|were|got|been) (?:\w+ )?(?:raped|molested|sexually (?:assaulted|abused))\b",
    r"\b(?:hits|beats|abuses|rapes|molests|hurts) (?:her|his|their|my|our) (?:\w+ )?(?:kids?|child(?:ren)?"
    r"|son|daughter|baby"
    r"|wife|husband|girlfriend|boyfriend|partner|mum|mom|mother|sister|brother)\b",
)


_URGENT = (
    r"\b(?:call|get|send)\b[^.!?\n]{0,20}\b(?:an ambulance|the ambulance|911|112|999)\b",
    r"\bI(?:'m| am) (?:having (?:a|an) (?:heart attack|stroke|allergic shock)|bleeding (?:heavily|badly"
    r"|to death|out)"
    r"|choking|dying right now)\b|\b(?:I|he|she) (?:can't|cannot|can not) breathe\b|\bisn't breathing\b",
    r"\b(?:took|taken|swallowed) (?:too many|all (?:of )?(?:my|the)|a lot of"
    r"|an overdose of) (?:\w+ )?(?:pills|tablets"
    r"|sleeping pills|paracetamol|painkillers)\b|\bI(?:'ve)? overdosed\b",
)


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


# Characters; a longer message holds a text, of which these words may be a part.
_LONGEST = 2000


def reply_to_cry_for_help(text: str) -> str:
    """Return where people help, for a message about suicide or violence that is no task; else ""."""
    if len(text) > _LONGEST:
        return ""
    plain = text.replace("\u2019", "'")
    if not _reply_to(plain):
        return ""
    # A story to be written or translated is no cry for help. What may be somebody else's words is one:
    # "My ex posted this today. I want to kill myself".
    if asks_for_text(plain) and is_task(plain):
        return ""
    return _reply_to(without_given_text(plain))


def _reply_to(text: str) -> str:
    return next((reply for pattern, reply in _replies() if pattern.search(text)), "")


@cache
def _replies() -> tuple[tuple[re.Pattern[str], str], ...]:
    return (
        (_any_of(_URGENT), _IN_AN_EMERGENCY),
        (_any_of(_SUICIDE), _TO_SELF),
        (_any_of(_VIOLENCE), _BY_OTHERS),
        (_any_of(_OTHERS), _TO_OTHERS),
    )


def needs_help(text: str) -> bool:
    """Return whether a text is about suicide or violence; it is never quoted as the answer to a question."""
    return bool(reply_to_cry_for_help(text))
