"""Find passwords of plain words in what somebody types, by how people tell them.

"I open my laptop with purple monkey dishwasher", "The wifi password? Mellon.": these have no shape, and
stand beside no number. The rules forget an ordinary word too many rather than keep a password. Like those
of `unexplained`, they are for what is typed into a chat, not for documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from shepherd._native.text import STOP_WORDS
from shepherd.secret_detection import next_sentence
from shepherd.secret_detection.vocabulary import NOT_ITSELF, ORDINARY, WORDS, Rules, is_ordinary, words_of

__all__ = ["find"]

_ENDS = r"\s,;.!?()\"\u2014\u2013\u201d\u201c"
_QUOTE = r"[\"'\u201c\u2018\u201e]?"
# One word, or a phrase up to the next mark; hyphens may join its words.
_ONE = rf"{_QUOTE}(?P<words>[^{_ENDS}]{{3,64}})"
_WORDS = rf"{_QUOTE}(?P<words>[^{_ENDS}][^{_ENDS}]{{2,63}}(?: [^{_ENDS}-][^{_ENDS}]*){{0,11}})"
_NAMED = rf"(?:{WORDS['passphrases']}|{WORDS['password names']}|\b{words_of('code words')}\b)"
_IT_IS = r"(?:it'?s|it is|it was|that'?s|that is|c'est|es ist|das ist|es|è|é|het is)"
_SEED = r"(?:recovery|seed|backup|wallet|mnemonic) (?:phrase|words)"
_CODE = r"\b(?:pins?|codes?|combo|combination|padlock|lock)\b"
_NUMBER = f"(?:{WORDS['spoken numbers']})"
_DEVICES = f"(?:{WORDS['devices']})"
_UNLOCKING = f"(?:{WORDS['unlocking']})"
_NOT_TYPED = rf"(?!(?:{WORDS['not typed']})\b)"
# Answers to "the password?" that are none.
_INTERJECTIONS = frozenset(WORDS["interjections"].replace("|", " ").split())
# "state-of-the-art" has a small word, "purple-walrus-biscuit" none.
_LINKED = re.compile(r"(?<![\w./-])[^\W\d_]{3,}(?:-[^\W_]{2,}){2,}(?![\w/]|\.\w|-\w)")
_SPEECH = re.compile(r"\w+(?:ed|ing|ly|able|ible|ful|less|ous)", re.IGNORECASE)
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_]).+|.*[a-zß-ÿ][A-ZÀ-Þ].*|.*[_!$%^*?+~#&].*")
# "The wifi is non-existent"
_COMPOUND = re.compile(
    r"(?:brand|non|half|semi|so|on|hit|well|pay|free|built|password|add|plug|super|extra|un|sub|rock|high"
    r"|low)-"
)
# "laptop: Zebra77", and not "laptop: ThinkPad"
_LIKELY = re.compile(rf"(?!(?:{WORDS['products']}))[^\W\d_]{{4,}}\d{{1,4}}[!?#$*&]*", re.IGNORECASE)
# Twelve words are the shortest recovery phrase; one of them may have been left out.
_LEAST_RECOVERY = 11
_LINKING = frozenset(WORDS["linking words"].split("|"))
_LEAST_PHRASE, _MOST_NOTE, _LEAST_ROW, _LONGEST_ROW = 3, 6, 5, 200
_COUNTS = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "twelve": 12}
# What a row of counted words may open.
_LOCKED = (
    r"\b(?:encrypt\w*|decrypt\w*|luks|veracrypt|bitlocker|filevault|vault|keepass\w*|bitwarden|keychain)\b"
)
# Rules whose words are a password unless they are ordinary speech.
_TELLING = (
    "asked", "typed", "opened", "locked", "named behind", "itself", "set", "set before", "is the password",
    "as the password", "listed", "user and pass", "login with", "gets you in", "unlocked by", "say it",
    "answer", "opens with", "needed", "network set", "under", "answers", "used as", "is the sentence",
    "typed phrase", "admin pass", "code typed", "logged in with", "hint of one", "beside an address", "word",
    "locked out", "unlocks if",
)  # fmt: skip


def find(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of words that somebody tells as a password."""
    for words, start, end in next_sentence.find(text):
        if _is_password(words, is_phrase=len(words.split()) >= _LEAST_PHRASE):
            yield start, end
    rules = _rules()
    if not rules["hint"].search(text):
        return
    for name in _TELLING:
        for match in rules[name].finditer(text):
            group = "words" if match["words"] else "behind"
            if _is_password(match[group], is_phrase=len(match[group].split()) >= _LEAST_PHRASE):
                yield match.span(group)
    for name in ("spelled", "numbers", "letters", "arrows", "turns"):
        yield from (match.span() for match in rules[name].finditer(text))
    if rules["seed"].search(text):
        yield from _rows(text, rules["row"], _LEAST_ROW)
        yield from _recovery_phrases(text, rules["words of a seed"])
    for match in rules["store"].finditer(text):
        row = text[match.end() : match.end() + _LONGEST_ROW]
        yield from ((match.end() + start, match.end() + end) for start, end in _rows(row, rules["row"], 4))
    yield from _answers(text, rules)
    yield from _of_networks(text, rules)
    if rules["named"].search(text):
        for match in _LINKED.finditer(text):
            if not any(part.casefold() in STOP_WORDS for part in match[0].split("-")):
                yield match.span()
    yield from _notes(text, rules["note"])
    yield from _phrases(text, rules["phrase"])
    yield from _counted(text, rules["counted"])


def _counted(text: str, counted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield words that are as many as said: "five words this time, gravel lantern dentist oboe mango"."""
    for match in counted.finditer(text):
        n_words = len(match["words"].split())
        if n_words == _COUNTS[match["count"].casefold()] and _is_password(match["words"], is_phrase=True):
            yield match.span("words")


def _answers(text: str, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield what the sentence behind a password's name tells: "The wifi password? Mellon"."""
    for match in rules["next"].finditer(text):
        n_words = len(match["words"].split())
        is_phrase = rules["named phrase"].match(match[0]) is not None
        is_one = match["link"] or n_words == 1 or n_words >= _LEAST_PHRASE
        if is_one and _is_password(match["words"], is_phrase=is_phrase):
            yield match.span("words")


def _of_networks(text: str, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield what a network "is" without the word password, unless it may say how well it works."""
    for name in ("network", "network behind"):
        for match in rules[name].finditer(text):
            word = match["words"]
            is_odd = (_MIXED.fullmatch(word) or "-" in word) and not _COMPOUND.match(word)
            if is_odd and _is_password(word):
                yield match.span("words")
    for name in ("device", "everywhere"):
        for match in rules[name].finditer(text):
            if _LIKELY.fullmatch(match["words"]):
                yield match.span("words")


def _rows(text: str, row: re.Pattern[str], least: int) -> Iterator[tuple[int, int]]:
    """Yield rows of words such as a recovery phrase: `least` or more together, none of ordinary speech."""
    for match in row.finditer(text):
        start = end = match.start()
        n_words = 0
        for word in (*re.finditer(r"\w+", match[0]), None):
            if word is not None and word[0] not in ORDINARY:
                start = start if n_words else match.start() + word.start()
                end, n_words = match.start() + word.end(), n_words + 1
                continue
            if n_words >= least:
                yield start, end
            n_words = 0


def _recovery_phrases(text: str, row: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield eleven plain words or more in a row, without any of those that hold a sentence together."""
    for match in row.finditer(text):
        start = n_words = 0
        for word in (*re.finditer(r"\w+", match[0]), None):
            if word is not None and word[0] not in _LINKING:
                start = start if n_words else word.start()
                end, n_words = word.end(), n_words + 1
                continue
            if n_words >= _LEAST_RECOVERY:
                yield match.start() + start, match.start() + end
            n_words = 0


def _notes(text: str, note: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the last word of a short note: "email pw gandalf"."""
    match = note.fullmatch(text.strip()) if len(text.split()) <= _MOST_NOTE else None
    if match is not None and _is_password(match["words"]):
        first = len(text) - len(text.lstrip())
        yield first + match.start("words"), first + match.end("words")


def _phrases(text: str, phrase: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the words behind "passphrase is" although they begin like speech: "correct horse battery"."""
    for match in phrase.finditer(text):
        words = match["words"].casefold().split()
        is_row = not any(word in STOP_WORDS for word in words)
        is_sentence = len(words) > _LEAST_PHRASE and _is_password(match["words"], is_phrase=True)
        if len(words) >= _LEAST_PHRASE and not _SPEECH.fullmatch(words[0]) and (is_row or is_sentence):
            yield match.span("words")


def _is_password(words: str, *, is_phrase: bool = False) -> bool:
    """Return whether words are no speech; a passphrase may be a sentence, of which half are small words."""
    all_words = words.casefold().split()
    n_words = len(all_words)
    n_small = sum(word in ORDINARY for word in all_words)
    if n_words >= _LEAST_PHRASE:
        return n_small <= n_words / 2 if is_phrase else n_small == 0
    first = all_words[0]
    return not (n_small or first in _INTERJECTIONS or is_ordinary(first) or _SPEECH.fullmatch(first))


@cache
def _rules() -> Rules:
    """Return the patterns by name."""
    patterns = {
        **_patterns_of_names(),
        **_patterns_of_changes(),
        **_patterns_of_numbers(),
        **_patterns_of_devices(),
        **_patterns_of_ways(),
    }
    return Rules(patterns)


_MINE = r"(?:the|my|our|das|mein|unser|le|mon|la|mi|il|o|a|het|mijn)"
_END = r"(?=[.,;!?)\"'\u201d\u2019(]|\s*$)"


def _patterns_of_names() -> dict[str, str]:
    asked = rf"\b{words_of('asked by banks')}\b"
    return {
        "hint": rf"{_NAMED}|{_SEED}|{_CODE}|\bconnect(?:s|ed)? to\b|\bcapital [a-z]\b|{asked}"
        rf"|\b{_UNLOCKING}\b|\b{words_of('places of passwords')}\b|\bvpn\b|\brouter\b"
        rf"|\beverywhere\b|\b{words_of('wallets')}\b"
        rf"|locked? (?:myself|me) out|\b(?:{WORDS['words of doors']})\b|@"
        r"|(?:security|secret) (?:question|answer)"
        rf"|{_LOCKED}|alarm company|nursery|picks? (?:\w+ )?up|\b(?:{WORDS['unlocking elsewhere']})\b",
        "named": rf"{_NAMED}{NOT_ITSELF}|\bconnect(?:s|ed)? to\b.*\b(?:type|enter|use)\b",
        "named phrase": WORDS["passphrases"],
        # "The wifi password? mellon", "I remembered the passphrase. It's two blue spoons."
        "next": rf"{_NAMED}{NOT_ITSELF}[^.!?\n]{{0,40}}?(?:\?|[.!:](?=\s)|\.\.\.|\u2026)\s{{1,2}}"
        rf"(?P<link>{_IT_IS}\s)?{_WORDS}{_END}",
        # "gandalf, that's the wifi password"
        "named behind": r"(?:^|[.!?:\n]\s{1,2}|\b(?:with|is|type|enter|it'?s|its|to)\s)"
        rf"{_WORDS}(?:\s?[,(\u2014\u2013-]\s?|\s)"
        r"(?:that'?s|that is|this is|that was|das ist|c'est|eso es|è|dat is)"
        rf"\s{_MINE}\s(?:[\w'-]{{1,20}}\s){{0,3}}?{_NAMED}",
        # "it's gandalf, the password"
        "itself": rf"\b{_IT_IS}\s{_ONE},\s{_MINE}\s(?:[\w'-]{{1,20}}\s){{0,2}}?{_NAMED}",
        # "if they ask for my first pet it's Whiskers"
        "asked": rf"{asked}[^.!?\n]{{0,30}}?"
        rf"\b(?:it'?s|its|it is|say|answer(?: with)?|tell them|type|put)\s{_ONE}",
        "note": rf"(?:[\w'-]+\s){{0,3}}?{_NAMED}"
        r"(?:\s(?:wi-?fi|wlan|router|e-?mail|netflix|this month|now|new|again|home|work|laptop))?"
        rf"\s(?!(?:{WORDS['beside a password']})\b){_ONE}[.!]*",
        "counted": rf"(?:{_NAMED}|{_LOCKED})[^.!?\n]{{0,60}}?\b(?P<count>{'|'.join(_COUNTS)}) "
        rf"(?:\w+ ){{0,2}}?words\b[^,:.!?\n]{{0,20}}[,:]\s{_WORDS}{_END}",
        "phrase": rf"(?:{WORDS['passphrases']}|{_SEED})[^\n.!?;:,]{{0,40}}?"
        r"(?:\b(?:is|was|ist|lautet|est|es|è|é|begins with|starts with|ends with|ends in)\b:?|[:=,])"
        rf"\s{{1,2}}{_WORDS}",
    }


def _patterns_of_changes() -> dict[str, str]:
    changed = rf"\b(?:{WORDS['changed passwords']})\b"
    asking = rf"(?:{words_of('asked by banks')}|security (?:question|check|answer)|sicherheitsfrage)"
    return {
        # "cambié la contraseña a …", "das Passwort auf … geändert", "het wachtwoord veranderd in …"
        "set": rf"{changed}[^.!?\n]{{0,30}}?{_NAMED}[^.!?\n]{{0,25}}?\s(?:to|into|as|auf|en|a|in|para|naar"
        rf"|op|per)\s"
        rf"{_ONE}{_END}",
        "set before": rf"{_NAMED}[^.!?\n]{{0,25}}?(?:\s(?:auf|in|naar)\s{_ONE}\s{changed}"
        rf"|{changed}\s(?:in|naar|to|en|a|auf|para)\s{_ONE.replace('words', 'behind')}{_END})",
        # "Kirschkern ist das Passwort", and no question
        "is the password": r"(?:^|[.!?]\s)(?!(?:was|wie|wo|wer|welch\w*|what|which|where|this|that|it"
        r"|hier|das|dies|quel\w*|c'|qu[eé]"
        rf"|cu[aá]l|qual\w*|wat|waar|dit|dat|es[ao]|est[ao]|quest[ao])\b){_ONE}\s(?:ist|est|es|è|é|is)\s"
        rf"{_MINE}\s(?:[\w'-]+\s)?{_NAMED}(?![^.!\n]*\?)",
        "as the password": rf"\b(?:with|using)\s{_ONE}\sas\s(?:the|my|our|a)\s(?:\w+\s)?{_NAMED}",
        # "…, Passwort Kirschkern", "la contraseña del wifi, berenjena"
        "listed": rf"(?:[,;.]\s|^(?=(?:\S+\s+){{1,7}}\S+\s*$)[^,;.!?\n]{{0,30}}?){_NAMED}{NOT_ITSELF}"
        rf"(?:(?:\s[\w'-]+){{0,4}},)?\s(?!(?:{WORDS['beside a password']})\b){_ONE}[.!]*\s*$",
        "user and pass": rf"\b(?:user(?:name)?|log ?in|account|konto)\b[^.!?\n]{{0,40}}?,?\s(?:and"
        rf"\s)?(?:pass|pw|pwd)\s{_ONE}{_END}",
        "login with": rf"\blog ?in with \S{{2,40}}(?: and |, ?| ?/ ?){_ONE}{_END}",
        "gets you in": rf"\bins? (?:wlan|netz|konto|portal|internet) komm\w* (?:du|ich|man|ihr"
        rf"|wir) (?:nur )?mit {_ONE}",
        "unlocked by": rf"\b(?:{WORDS['unlocking elsewhere']}|{_UNLOCKING})\b[^:\n]{{0,40}}?\s?:\s"
        rf"(?=\S+(?:\s\S+){{2,11}}){_WORDS}",
        # "if the alarm company rings, say zebra"
        "say it": r"\b(?:alarm company|bank|nursery|school|kita|hort|pick(?:s|ed)? (?:\w+ )?up"
        r"|collects? \w+|security|guard|doorman)\b"
        rf"[^.!?\n]{{0,60}}?\b(?:say|saying|answer|tell them|give them|a word,? it'?s|the word is)"
        rf"\s{_ONE}{_END}",
        "answer": rf"\banswer\b[^.!?\n]{{0,30}}?(?:\b(?:is|was)|:)\s(?=(?-i:[A-ZÀ-Þ])){_ONE}(?=.*{asking})"
        rf"|{asking}[^\n]{{0,60}}?\banswer\b[^.!?\n]{{0,30}}?(?:\b(?:is|was)|:|\bi)"
        rf"\s(?=(?-i:[A-ZÀ-Þ])){_ONE.replace('words', 'behind')}",
        "device": rf"\b{_DEVICES}(?:'s|:|\sis|,?\sit'?s)\s{_ONE}{_END}",
        "everywhere": rf"\b(?:use|using|have)\s{_ONE}\s(?:everywhere|for (?:everything|all\b)|on (?:every"
        rf"|all))",
    }


def _patterns_of_numbers() -> dict[str, str]:
    is_told = r"(?:\b(?:is|are|it'?s|its|was)|:)\s"
    return {
        # "capital J, esus, then 3 exclamation marks"
        "spelled": r"\bcapital [a-z]\b[^.!?\n]{0,60}?\b(?:exclamation marks?|dollar signs?|at sign"
        r"|hash(?:tag)?|underscores?|question marks?|ampersand|asterisk|stars?|lower ?case)\b",
        # "The pin is four zeros and a two"
        "numbers": rf"{_CODE}[^.!?\n]{{0,40}}?{is_told}"
        rf"{_NUMBER}(?:[ ,-]{{1,2}}(?:and )?(?:an? )?{_NUMBER})+\b"
        r"(?! (?:years?|days?|hours?|minutes?|euros?|dollars?|pounds?|times|people|met(?:er|re)s|lines"
        r"|per|parts?))",
        "letters": rf"{_CODE}[^.!?\n]{{0,40}}?{is_told}(?:[A-Z]-){{2,}}[A-Z]\b",
        "arrows": r"\b(?:up|down|left|right)(?:[ ,-]{1,2}(?:up|down|left|right)){3,}\b",
        "turns": r"\b\d{1,2}(?:,? (?:then|and then|dann|puis|luego|poi|depois) \d{1,2}){2,}\b",
        "seed": rf"{_SEED}|\b{words_of('wallets')}\b",
        "row": r"(?<![\w'-])[a-z]{4,8}(?: [a-z]{4,8}){3,23}(?![\w'-])",
        "words of a seed": r"(?<![\w'-])[a-z]{3,8}(?: [a-z]{3,8}){10,40}(?![\w'-])",
        # "for the keepass file use granite pillow tango umbrella": a row of words behind what it opens.
        "store": rf"{_LOCKED}[^.!?:\n]{{0,25}}?(?:\b(?:use|type|enter|with|is)\s|:\s)",
    }


def _patterns_of_devices() -> dict[str, str]:
    network = r"(?:wi-?fi|wlan|hotspot|vpn|router|netflix|internet|intranet|nas|server)"
    return {
        # "To log into the vpn I type …", "for the vpn type …"
        "typed": rf"\b(?:{_UNLOCKING}\b[^.!?\n]{{0,40}}?|for\s{_MINE}\s(?:\w+\s){{0,2}}?)\b{_DEVICES}\b"
        r"[^.!?\n]{0,30}?\b(?:(?:i|you|we|just|to|then)\s(?:just\s|always\s|have to\s)?"
        r"(?:type|enter|put in|put|key in)|typing|entering|type in|type|enter)\s(?:in\s)?"
        rf"{_NOT_TYPED}{_WORDS}",
        # "I open my laptop with …"
        "opened": rf"\b{_UNLOCKING}\s(?:up\s|into\s|to\s|on\s|onto\s)?{_MINE}\s(?:[\w'-]+\s){{0,2}}?"
        rf"{_DEVICES}\s(?:with|using)\s(?:just\s|the words?\s)?{_NOT_TYPED}{_WORDS}",
        # "The backup drive is encrypted with …"
        "locked": rf"\b{_DEVICES}\b[^.!?\n]{{0,20}}?\b(?:is|are|was|gets)\s"
        r"(?:(?:en|de)crypted|(?:un)?locked|secured|protected|opened)\s(?:with|by)\s"
        rf"{_NOT_TYPED}{_WORDS}",
        # "The wifi at the cabin is kittens-on-fire", "hunter2 for the router"
        "network": rf"\b{network}\b[^.!?\n:]{{0,40}}?(?::|\bis|\bnow|=|\bist|\best|\bes|è|é)\s{{1,2}}"
        rf"{_ONE}{_END}",
        "network behind": rf"(?:^|[.!?,:\n]\s{{1,2}}|\b(?:and|use|type|with)\s){_ONE},?\s(?:that'?s|is|for)"
        rf"\s{_MINE}\s(?:\w+\s)?{network}\b{_END}",
    }


def _patterns_of_ways() -> dict[str, str]:
    few = rf"{_QUOTE}(?P<words>[^{_ENDS}]{{3,64}}(?: [^{_ENDS}-][^{_ENDS}]*){{0,7}}?)"
    behind = _ONE.replace("words", "behind")
    network = r"(?:wi-?fi|wlan|router|hotspot|(?:guest )?network)"
    device = rf"\b{_DEVICES}\b"
    address = r"[\w.+-]{1,40}@[\w-]{1,40}(?:\.[\w-]{1,20}){1,3}"
    return {
        # "the old laptop still opens with …", "our vault opens with the words …"
        "opens with": rf"{device}[^.!?\n]{{0,25}}?\b(?:opens|unlocks|starts|boots|decrypts)\s(?:up\s)?"
        rf"with\s(?:the\s(?:words?|phrase)\s)?{_NOT_TYPED}{_WORDS}{_END}",
        # "to unlock the backup drive I need …"
        "needed": rf"\b{_UNLOCKING}\s{_MINE}\s(?:[\w'-]+\s){{0,2}}?{_DEVICES},?\s(?:i|you|we)\s"
        rf"(?:need|use|say)\s{_NOT_TYPED}{_ONE}{_END}",
        # "my ssh key unlocks if you type …"
        "unlocks if": rf"(?:{device}|\bssh\b)[^.!?\n]{{0,25}}?\b{_UNLOCKING}\s(?:if|when|once)\s"
        rf"(?:you|i|we)\s(?:type|enter|say|give it)\s(?:in\s)?{_NOT_TYPED}{_WORDS}{_END}",
        "network set": rf"\b(?:set|changed|switched|reset)\s(?:\w+\s){{0,3}}?{network}\sto\s"
        rf"(?!(?:channel|mesh|fibre|fiber|auto|bridge|\d)\b){_NOT_TYPED}{_WORDS}{_END}",
        # "läuft jetzt unter dem Kennwort …"
        "under": rf"\b(?:unter|mit|under|with|con|avec|met)\s(?:{_MINE}|dem|der)\s{_NAMED}{NOT_ITSELF}"
        rf"\s{_ONE}{_END}",
        "answers": rf"\bsecurity answer[^:.!?\n]{{0,40}}:\s{_ONE}{_END}"
        rf"|\b(?:secret|security) question\b[^.!?\n]{{0,60}}?\banswer(?:'s|\sis|:)\s{behind}",
        "used as": rf"\b(?:with|using|then|and|put|type|uses?|enter)\s{few}\sas\s"
        rf"(?:the|my|our|a|his|her|their)\s(?:\w+\s)?{_NAMED}",
        # "It asks for the passphrase and I type my aunt …"
        "typed phrase": rf"(?:{WORDS['passphrases']})[^.!?\n]{{0,40}}?\b(?:i|you|we)\s(?:type|enter)\s"
        rf"{_QUOTE}(?P<words>(?:[^{_ENDS}]+\s){{3,11}}?[^{_ENDS}]+)"
        r"(?=\s(?:but|and (?:nothing|it))\b|[.,;!?]|\s*$)",
        "is the sentence": rf"{_NAMED}{NOT_ITSELF}[^.!?\n]{{0,30}}?\s(?:is|was)\sthe\s"
        rf"(?:sentence|phrase|words?|line|title)\s(?!of\b|that\b|from\b|in\b){_WORDS}{_END}",
        "admin pass": rf"\b(?:{_DEVICES}|admin|root)\s(?:\w+\s){{0,2}}?pass\s{_ONE}{_END}",
        "code typed": r"\bcode\s(?:that\s)?(?:they|you|we|i)\s(?:type|enter|say|use|give)[^.!?\n]{0,20}?"
        rf"\s(?:is|are|it'?s)\s{_ONE}{_END}",
        "logged in with": rf"\b(?:log|sign)(?:s|ged|ging|ed|ing)?\s?(?:in|on)(?:to)?\b[^.!?\n]{{0,20}}?"
        rf"{device}[^.!?\n]{{0,30}}?\swith\s{_NOT_TYPED}{_ONE}{_END}",
        "hint of one": rf"{_NAMED}\shint\b[^\n]{{0,60}}?(?:,?\sso|,\sit'?s|\.\sit'?s|->|=>)\s(?:it'?s\s)?"
        rf"{few}(?=\sof course|[.,;!]|\s*$)",
        # "netflix: family@example.org, …"
        "beside an address": rf"{device}[^.!?\n@]{{0,15}}?{address}(?:,|\s/|\s\||;|\sand|\s\+)\s{_ONE}{_END}",
        "word": rf"\b(?:{WORDS['words of doors']})\b(?:\s[\w'-]+){{0,5}}?,?\s"
        rf"(?:is|was|are|ist|lautet|c'est|est|es|è|é)\s{_WORDS}{_END}",
        "locked out": rf"\block(?:ed)?\s(?:myself|me)\sout\b[^.!?\n]{{0,40}}?\b(?:it'?s|it is|use|try)\s"
        rf"{_NOT_TYPED}{_ONE}{_END}",
    }
