"""Find what must not be remembered: keys, tokens, private keys, card numbers, passwords.

Pure functions over text. Meant to be right when they speak: shapes that their makers have published, numbers
whose check digit fits, and words that follow "password is" and look like one. A secret without a shape and
without such a word before it is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shepherd._native.text import STOP_WORDS

__all__ = ["Secret", "SecretKind", "find_secrets", "holds_secret", "is_secret", "masked"]

SecretKind = Literal[
    "private-key", "api-key", "token", "password", "recovery-phrase", "card-number", "account-number"
]


@dataclass(frozen=True, slots=True)
class Secret:
    """Span of a secret: `text[start:end]` is the secret alone, without the words around it."""

    kind: SecretKind
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in `text`, in order, none inside another. Time is linear in the text."""
    found = sorted(_candidates(text), key=lambda secret: (secret.start, -secret.end))
    kept: list[Secret] = []
    for secret in found:
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
        elif secret.end > kept[-1].end:
            # Two rules that see parts of one thing: all of it is the secret.
            kept[-1] = Secret(kept[-1].kind, kept[-1].start, secret.end)
    return kept


def is_secret(name: str, value: str) -> bool:
    """Return whether a fact or memory holds a secret. `name` is its key or question."""
    words = re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower()
    tells = _TELLING_NAMES.search(words) or (len(value.split()) == 1 and _VAGUE_NAMES.search(words))
    return bool(tells) or any(map(find_secrets, (name, value, f"{name}: {value}")))


def holds_secret(question: str, answer: str) -> bool:
    """Return whether a memory holds a secret; a question about passwords alone is none."""
    if any(map(find_secrets, (question, answer, f"{question}: {answer}"))):
        return True
    return len(answer.split()) == 1 and any(map(str.isdigit, answer)) and is_secret(question, answer)


def masked(text: str) -> tuple[str, int]:
    """Return a text of the same length with its secrets covered, and how many there are."""
    found = find_secrets(text)
    pieces, end = [], 0
    for secret in found:
        pieces += [text[end : secret.start], re.sub(r"\S", _COVER, text[secret.start : secret.end])]
        end = secret.end
    return "".join([*pieces, text[end:]]), len(found)


_COVER = "\u2022"
# "password manager", "secret ingredient", "pin board" name no secret.
_NOT_ITSELF = (
    r"(?! (?:managers?|policy|policies|rules?|app|hint|generator|length|limit|budget|count|expiry|reset|santa"
    r"|ingredient|garden|sauce|recipe|place|spot|talent|word|board|cushion|header)\b)"
)
# With one word as the value.
_VAGUE_NAMES = re.compile(r"\b(?:secret|token)\b" + _NOT_ITSELF)
# A value alone does not show that it is a password; its key or question does. Words, not parts of words.
_TELLING_NAMES = re.compile(
    r"\b(?:pass ?(?:word|phrase|code|wort)s?|passwd|pwd|kennwort|contrase\w+|mot de passe|mdp|senha"
    r"|palavra passe|parola d ordine"
    r"|wachtwoord|geheimzahl|pin|pincode|puk|otp|totp"
    r"|(?:api|access|private|secret|signing|encryption|ssh|recovery|licen[cs]e|auth\w*|door|alarm)"
    r" (?:key|token|code|phrase)s?"
    r"|(?:client|shared|app) secret|credentials?|seed phrase|mnemonic|cvv|cvc|ssn"
    r"|social security number|(?:credit |debit )?card number)\b" + _NOT_ITSELF
)


# ---- shapes that speak for themselves

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END ).){0,20000}(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
    r"|\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b",
    re.DOTALL,
)

# Boundaries of a key: neither a letter, a digit nor the middle of another word.
_EDGE, _END = r"(?<![A-Za-z0-9_\-])", r"(?![A-Za-z0-9_])"
_API_KEYS = re.compile(
    _EDGE
    + "(?:"
    + "|".join(
        (
            r"sk-[A-Za-z0-9]{20,120}|sk-(?:proj|svcacct|admin|ant-[a-z0-9]{2,8}"
            r"|or-v1)-[A-Za-z0-9_\-]{20,200}",
            r"(?:gsk_|xai-|pplx-|r8_|fw_|tgp_v1_)[A-Za-z0-9_\-]{30,120}",  # Groq, xAI, Perplexity …
            r"hf_[A-Za-z0-9]{30,60}",  # Hugging Face
            r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",  # AWS
            r"gh[oprsu]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{40,255}",
            r"(?:glpat|gldt|glrt|glcbt)-[A-Za-z0-9_\-]{20,64}",  # GitLab
            r"xox[abeoprs]-[A-Za-z0-9\-]{10,250}|xapp-\d-[A-Za-z0-9\-]{10,250}",  # Slack
            r"AIza[A-Za-z0-9_\-]{35}|GOCSPX-[A-Za-z0-9_\-]{28}|ya29\.[A-Za-z0-9_\-]{20,500}",  # Google
            r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,100}",  # Stripe
            r"SG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{30,64}",  # SendGrid
            r"SK[0-9a-f]{32}|key-[0-9a-f]{32}",  # Twilio, Mailgun
            r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_\-]{50,300}|dckr_pat_[A-Za-z0-9_\-]{27}",
            r"shepherd_[0-9a-f]{64}",  # our own server's
            r"do[opr]_v1_[0-9a-f]{64}|dapi[0-9a-f]{32}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
            r"lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{43}",  # Linear, Notion
            r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_\-]{33}",  # Telegram
        )
    )
    + ")"
    + _END
)
_TOKENS = re.compile(
    r"\beyJ[A-Za-z0-9_\-]{10,4000}\.eyJ[A-Za-z0-9_\-]{10,8000}\.[A-Za-z0-9_\-]{10,2000}"  # JWT
    r"|\bhttps://hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}"
    r"|\bhttps://(?:canary\.|ptb\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/[A-Za-z0-9_\-]{50,}"
)
# A word after "bearer" that is no token ("bearer of bad news") is too short or has no digit.
_BEARER = re.compile(r"\b(?:bearer|authorization:\s*basic)\s+([A-Za-z0-9_\-.~+/]{16,4000}=*)", re.IGNORECASE)
_URL_PASSWORD = re.compile(
    r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@]{0,200}:([^\s/@]{1,200})@[^\s/@]", re.IGNORECASE
)

# ---- secrets recognised by the name in front

_NAMED_KEY = re.compile(
    r"(?<![a-z0-9])(?:(?:api|access|secret|client|account|auth|encryption|signing|private|refresh|session"
    r"|bearer|webhook|deploy)[_\- ]?(?:key|secret|token)|secret|token)[\"'`]?"
    r"\s{0,3}(?:[:=]|\bis\b|\bwas\b|\bist\b)\s{0,3}[\"'`]?([A-Za-z0-9_\-.~+/]{16,512}=*)",
    re.IGNORECASE,
)
_NAME = (
    r"(?:pass[ \-_]?(?:word|wd|code|phrase)|\bpwd|\bp/w|\bpw\b|passwort|kennwort|zugangscode|mot de passe"
    r"|\bmdp\b|contraseña"
    r"|\bclave (?:del?|de la|de mi) (?:wi-?fi|red|correo|cuenta|banco)|senha|palavra[ \-]passe"
    r"|parola d'ordine|wachtwoord|hasło"
    r"|пароль|密码|密碼|パスワード|비밀번호"
    r"|(?:wlan|wi-?fi|wpa\d?|network)[ \-_]?(?:key|code|schlüssel|clave))"
)
# A purpose may stand between: "password for the router is …", "password (work): …".
_PURPOSE = (
    r"(?:\s(?:for|to|of|on|at|in|für|fürs|zum|zur|vom|von|meiner|pour|de|du|des|del|della|dello|dell|do|da"
    r"|para|per|van|voor)"
    r"[\s'][^\n:=.!?]{1,60}?|\s?\([^)\n]{1,40}\))?"
)
_VALUE = (
    r"(?:[\"'`\u201c\u2018«](?P<quoted>[^\n\"'`\u201d\u2019»]{3,128})[\"'`\u201d\u2019»]"
    r"|(?P<bare>[^\s\"'`\u201c\u201d\u2018\u2019<>]{3,128}))"
)
_PASSWORD = re.compile(
    _NAME + r"[\"'`]?" + _PURPOSE + r"(?:\s{0,3}(?:[:=\uff1a]|是|は|—|->)\s{0,3}(?::\s{0,2})?"
    r"|\s{0,3}\b(?P<link>is|was|ist|war|lautet|est|es|é|è|c'est)\b\s{0,3}:?\s{0,2}|'s\s)"
    r"(?:(?:now|gonna be|going to be|still|jetzt|maintenant|ahora|adesso|agora|nu|le|la|el|il|o)\s)?"
    + _VALUE,
    re.IGNORECASE,
)
# "I changed my password to …"
_SET_PASSWORD = re.compile(
    r"\b(?:set|sets|changed?|reset|updated?|made)\s(?:\S{1,20}\s){0,4}?"
    + _NAME
    + _PURPOSE
    + r"\s(?:to|as|into)\s"
    + _VALUE,
    re.IGNORECASE,
)
# "hunter2 is my password", '"open sesame" as the password'. What follows the name makes it something else.
_AFTER = (
    r"\s(?:is|as|ist|est|es|è|é)\s(?:my|the|our|your|mein|das|mon|le|mi|la|a minha|mijn"
    r"|het)\s(?:\w{1,20}\s){0,2}?"
)
_ONLY = r"\b(?!['\-]?\w)(?=\s*(?:[.,;!)\n]|$|for\b|on\b|to\b))"
_BEFORE_NAME = re.compile(_VALUE + _AFTER + _NAME + _ONLY, re.IGNORECASE)
# "netflix password popcorn77!", "user steve, pass Kr0kodil", "login is admin / Zx81Spectrum": words with
# digits alone.
_BEHIND_NAME = re.compile(
    r"(?:"
    + _NAME
    + r"|\buser(?:name)?\s\S{1,64}\s?[,;]?\s(?:and\s)?pass|\b(?:login|logins|credentials?|zugangsdaten"
    r"|identifiants?)\b(?:\s(?:is|are|ist|sind))?[:\s]{1,3}\S{1,64}\s?[/|,])"
    r"[ \t]{1,3}(?P<bare>(?=[^\s\"'`<>]{0,63}\d)(?=[^\s\"'`<>]{0,63}[^\W\d_])[^\s\"'`<>]{6,128})",
    re.IGNORECASE,
)
# Several words are a passphrase if none of them is one of ordinary speech.
_PASSPHRASE = re.compile(
    r"pass[ \-_]?phrase[^\n:=.!?]{0,40}?\s{0,2}(?:[:=]|\bis\b"
    r"|\bist\b)\s{0,2}((?:[a-z]{3,12}[ \-]){2,9}[a-z]{3,12})(?=\s*(?:[.,;!?)\n]|$))",
    re.IGNORECASE,
)
# Each match contains one of these: searching for them costs a twentieth of the rule.
_PASSWORD_HINTS = (
    "pass", "pwd", "p/w", "pw", "mdp", "kennwort", "zugang", "contrase", "clave", "senha", "parola",
    "wachtw", "hasło", "парол",
    "wlan", "wifi", "wi-fi", "wpa", "network", "login", "credential", "identifiant", "密", "パス", "비밀"
)  # fmt: skip
_PIN_NAME = (
    r"(?:(?:\w{2,12}[ \-])?pin(?:[ \-]?(?:code|number|nummer))?|pincode|(?:code|codice|código"
    r"|codigo)[ \-]pin|geheimzahl|cvv2?|cvc2?"
    r"|(?:security|door|gate|alarm|safe|entry|unlock|vault|lock|bike lock) (?:code|combination)|(?:tür"
    r"|alarm|haus|safe|tresor)[ \-]?code"
    r"|code (?:secret|de sécurité)|code (?:de|du|d')\s?(?:la |ma |mon |l')?(?:carte|porte|portail|immeuble"
    r"|alarme|coffre|téléphone)(?: bancaire| bleue)?"
    r"|código (?:de|da|do|del) (?:la |mi |minha |meu )?(?:alarma|alarme|puerta|porta|tarjeta|cartão"
    r"|seguridad|segurança)"
    r"|codice (?:della |dell'|di )(?:carta|porta|allarme|sicurezza)|(?:deur|alarm|toegangs)code)"
)
_PIN = re.compile(
    r"\b"
    + _PIN_NAME
    # The thing that it opens: "the PIN of my phone is …".
    + r"(?:\s(?:of|for|to|on|von|vom|für|zu|zur|meiner|der|de|du|d|del|della|dell|do|da|van|voor|per"
    r"|para)[\s'][^\n:=.!?\d]{1,40}?)?"
    r"\s{0,2}(?:[:=]|is|was|ist|lautet|est|es|è|é|'s)\s{0,2}(?:now |still |le |la |el |il |jetzt "
    r"|nu )?(?P<pin>\d{3,10})\b(?![./:]\d)"
    r"|\b(?:cvv2?|cvc2?)\s(?P<cvv>\d{3,4})\b"
    r"|\b(?P<before>\d{4,8})\s(?:is|ist|est|es|è|é)\s(?:my|the|our|meine|die|mon|le|mi|il mio|o meu"
    r"|mijn)\s(?:\w{1,20}\s){0,2}?pin(?:[ \-]?code)?\b"
    r"(?!\s+\w)",
    re.IGNORECASE,
)
_RECOVERY_PHRASE = re.compile(
    r"\b(?:(?:seed|recovery|backup|secret)\s(?:phrase|words|seed)|wallet\s(?:words|phrase)|mnemonic)"
    r"(?:\s(?:for|of|to)\s[^\n:=.!?]{1,40}?)?\s?(?:[:=]|is|are)\s{0,3}[\"'`]?"
    r"((?:(?:\d{1,2}[.):]?\s{0,2})?[a-z]{3,8}[\s,]{1,3}){11,23}(?:\d{1,2}[.):]?\s{0,2})?[a-z]{3,8})\b",
    re.IGNORECASE,
)
# A whole line of twelve or twenty-four small words is one, too, if none of them is a word of ordinary
# speech: the lists
# that recovery phrases are made of (BIP 39) leave those out.
_WORDS_ALONE = re.compile(r"^[ \t]*((?:[a-z]{3,8}[ \t]+){11,23}[a-z]{3,8})[ \t]*$", re.MULTILINE)
_PHRASE_LENGTHS = (12, 15, 18, 21, 24)
_DIGITS = re.compile(r"\d{4}[ \-]?\d{4,6}[ \-]?\d")
# Not inside a longer row of digits or a decimal number.
_CARD = re.compile(r"(?<![\d.\-])(?<!\d )\d(?:[ \-]?\d){13,18}(?!\d|[.\-]\d| \d)")

# ISO 13616: country, two check digits, up to 30 letters and digits, often in groups of four.
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
# Numbers that the US Social Security Administration issues, in their usual form.
_SOCIAL_SECURITY = re.compile(r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])")

# The same and others where they are called so.
_NAMED_SOCIAL_SECURITY = re.compile(
    r"\b(?:ssn|social security(?: number| no\.?)?|sozialversicherungsnummer|numéro de (?:sécurité sociale"
    r"|sécu)|insurance number)"
    r"\s{0,2}(?:[:=]|is|ist|est)?\s{0,2}((?:\d[ .\-]?){9}(?:(?:\d[ .\-]?){3,6})?(?<=\d)"
    r"|\d{2} ?\d{6} ?[A-Z] ?\d{3}|[A-Z]{2} ?(?:\d{2} ?){3}[A-D])\b",
    re.IGNORECASE,
)

# Follows "the password is" in ordinary speech, and is not one.
_NOT_A_PASSWORD = frozenset(
    word
    for line in (
        "a abgelaufen about above active after again all already also always an and another any anything",
        "as ask at auf available back bad based because been before being below best better blank bool",
        "both broken but by bytes can cannot case changed changing checked compromised confidential",
        "configured considered correct correctly created current currently das dein deleted der die",
        "different disabled easy eight ein eine either el empty enabled encrypted enough entered ever",
        "exactly expired expires expiring expiré falsch false field fine first for forgotten from",
        "generated getting given going gone good great hard hashed her here hidden him his how identical",
        "if im important in incorrect incorrecta incorrecte input inside int invalid is it its just kept",
        "known la last later le leaked leer les less like likely long longer los lost made mandatory",
        "maybe me mein mine missing more much my needed never new nicht nil no none not nothing now null",
        "number object of off okay old on once one only optional or our out over overdue pass password",
        "posted printed probably protected public quite random rather really recommended rejected",
        "required reset resetting richtig right safe same saved secret secure secured sent set shared",
        "short should shown sicher simple so some something somewhere stale still stolen stored str",
        "strange string strong stronger such taped temporary terrible text that the their them there",
        "these they this those three to too true twelve two type typed un una unchanged undefined under",
        "une unique unknown unsafe unset unsicher until up updated used useful usually valid vencida",
        "vergessen very vide visible wanted was weak what when where which with without working written",
        "wrong you your yours zu",
        # of other languages, beside participles
        "auch demasiado errada fout fraco falsche faux gesperrt jetzt kort kurz lang larga lenta long longa",
        "lunga mauvais molto muito muy noch nog nova nuova nueva onjuist schwach segura sicura simple",
        "stark te troppo trop unsicher veilig vecchia velha vieja zwak corta court curta giusta certa misma",
        "same simpler who whose why how where this here login username user name",
    )
    for word in line.split()
)
# Adjectives and participles of languages whose word for "is" was read: "La password è scaduta".
_PARTICIPLE = re.compile(
    r"(?:ge|ver|be|ab|zer|er|ent|an|aus|ein)\w+(?:t|en)|\w+(?:[aiu][td]|rt|tt|ss|st|rect|os|iv"
    r"|bil)[oaie]s?|\w+(?:é|ée|és|ées|ect|ible|able)"
    r"|\w+(?:lich|bar|ig|isch|los)"
)
# Stands where a password would: shapes of documentation, templates, code and paths.
_PLACEHOLDER = re.compile(
    r"[*•.xX_\-#?…]{3,}|.*\*{3}.*|[${%<\[(].*|[A-Za-z_][\w.]*[(\[{].*|~?/.*|https?:.*"
    r"|(?:self|this|os|env|process|config|settings|args|request|params|user|form)\.\w.*"
    r"|(?:your|my|the|some|example|sample|dummy|test|fake|new|old|user|db|admin|current)[_\-]?"
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|key|token)\w*|change[_\-]?me|redacted|hidden|placeholder",
    re.IGNORECASE,
)


# Every key has a word at least this long. Most text has none, and costs a quarter then.
_LEAST_KEY = 15


def _candidates(text: str) -> Iterator[Secret]:
    folded = text.lower()
    if "private key" in folded or "age-secret-key" in folded:
        for match in _PRIVATE_KEY.finditer(text):
            yield Secret("private-key", match.start(), match.end())
    if any(len(word) >= _LEAST_KEY for word in text.split()):
        yield from _keys(text)
    yield from _passwords(text, folded)
    if _DIGITS.search(text):
        for match in _CARD.finditer(text):
            if _is_card_number(match[0]):
                yield Secret("card-number", match.start(), match.end())
        for match in _IBAN.finditer(text):
            if _is_iban(match[0]):
                yield Secret("account-number", match.start(), match.end())
    for match in _SOCIAL_SECURITY.finditer(text):
        yield Secret("account-number", match.start(), match.end())
    for match in _NAMED_SOCIAL_SECURITY.finditer(text):
        yield Secret("account-number", *match.span(1))


def _keys(text: str) -> Iterator[Secret]:
    for match in _API_KEYS.finditer(text):
        if _is_random(match[0], 12):
            yield Secret("api-key", match.start(), match.end())
    for match in _NAMED_KEY.finditer(text):
        if _is_random(match[1], 10) and not _PLACEHOLDER.fullmatch(match[1]):
            yield Secret("api-key", *match.span(1))
    for match in _TOKENS.finditer(text):
        yield Secret("token", match.start(), match.end())
    for match in _BEARER.finditer(text):
        if _is_random(match[1], 8):
            yield Secret("token", *match.span(1))
    for match in _URL_PASSWORD.finditer(text):
        if not _is_ordinary(match[1]):
            yield Secret("password", *match.span(1))


def _passwords(text: str, folded: str) -> Iterator[Secret]:
    if any(hint in folded for hint in _PASSWORD_HINTS):
        for rule in (_PASSWORD, _SET_PASSWORD, _BEFORE_NAME, _BEHIND_NAME):
            for match in rule.finditer(text):
                secret = _password(text, match)
                if secret is not None:
                    yield secret
        for match in _PASSPHRASE.finditer(text):
            if _is_phrase(match[1].replace("-", " ").split()):
                yield Secret("password", *match.span(1))
    if any(hint in folded for hint in ("pin", "cvv", "cvc", "code", "cod", "geheimzahl", "código")):
        for match in _PIN.finditer(text):
            yield Secret("password", *match.span(match.lastgroup or 0))
    if any(hint in folded for hint in ("phrase", "words", "seed", "mnemonic")):
        for match in _RECOVERY_PHRASE.finditer(text):
            yield Secret("recovery-phrase", *match.span(1))
    for match in _WORDS_ALONE.finditer(text):
        words = match[1].split()
        if len(words) in _PHRASE_LENGTHS and _is_phrase(words):
            yield Secret("recovery-phrase", *match.span(1))


def _is_phrase(words: list[str]) -> bool:
    """Return whether no word is one of ordinary speech."""
    return not any(word.casefold() in STOP_WORDS or word.casefold() in _NOT_A_PASSWORD for word in words)


def _password(text: str, match: re.Match[str]) -> Secret | None:
    """Return the word behind a password's name, if it looks like a password."""
    groups = match.groupdict()
    if groups.get("quoted") is not None:
        return None if _is_ordinary(match["quoted"]) else Secret("password", *match.span("quoted"))
    value = match["bare"].rstrip(".,;:!?)]}")
    # "correct!" and "Tr0ub4dor!": the mark belongs to a password that has more than letters.
    if match["bare"].endswith("!") and not value.isalpha():
        value = match["bare"]
    start = match.start("bare")
    end = start + len(value)
    if len(value) < 3 or _is_ordinary(value):
        return None
    is_plain = value.replace("-", "").isalpha() and not _is_mixed_case(value)
    if not is_plain:
        return Secret("password", start, end)
    link = (groups.get("link") or "").casefold()
    is_foreign = link not in ("", "is", "was") or "wachtwoord" in match[0].casefold()
    if is_foreign and _PARTICIPLE.fullmatch(value):
        return None
    # A plain word that ends the sentence is a password; in "kept safe in …" it is speech.
    if match.re is _BEFORE_NAME:
        return Secret("password", start, end) if _begins_clause(text, start) else None
    return Secret("password", start, end) if _ends_clause(text, end) else None


def _begins_clause(text: str, start: int) -> bool:
    before = text[:start].rstrip(" ")
    return not before or before[-1] in ".,;:!?\n"


def _is_ordinary(value: str) -> bool:
    return value.casefold() in _NOT_A_PASSWORD or _PLACEHOLDER.fullmatch(value) is not None


def _is_mixed_case(value: str) -> bool:
    return any(letter.isupper() for letter in value[1:]) and any(letter.islower() for letter in value)


def _ends_clause(text: str, end: int) -> bool:
    rest = text[end : end + 8].lstrip(" ")
    return not rest or rest[0] in "\n\r.,;!?)" or rest.startswith(("and ", "but ", "for ", "on ", "und "))


def _is_random(value: str, least_different: int) -> bool:
    """Return whether a long value can be a key: digits and letters, and not the same few over and over."""
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return has_digit and has_letter and len(set(value)) >= least_different


# First digits and lengths of the networks that issue cards (their published ranges).
_CARDS = re.compile(
    r"4\d{15}"  # Visa
    r"|5[1-5]\d{14}|222[1-9]\d{12}|22[3-9]\d{13}|2[3-6]\d{14}|27[01]\d{13}|2720\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|30[0-5]\d{11}|3[689]\d{12}"  # Diners Club
    r"|6011\d{12}|64[4-9]\d{13}|65\d{14}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}"  # UnionPay
    r"|(?:50|5[6-8]|6[37])\d{14}"  # Maestro
)


def _is_card_number(text: str) -> bool:
    digits = re.sub(r"[ \-]", "", text)
    is_issued = _CARDS.fullmatch(digits) is not None
    return is_issued and (text == digits or _is_grouped(text)) and _luhn(digits) == 0


def _is_grouped(text: str) -> bool:
    # 4-4-4-4, 4-6-5, 4-6-4 and 4-4-4-4-3, as cards are printed: columns of other numbers seldom are.
    separators = {character for character in text if not character.isdigit()}
    if len(separators) != 1:
        return False
    groups = [len(group) for group in text.split(separators.pop())]
    return groups in ([4, 4, 4, 4], [4, 6, 5], [4, 6, 4], [4, 4, 4, 4, 3], [6, 13])


def _luhn(digits: str) -> int:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        total += value if place % 2 == 0 else sum(divmod(2 * value, 10))
    return total % 10


def _is_iban(text: str) -> bool:
    """Return whether the check digits of an IBAN are right: modulo 97, by ISO 7064."""
    compact = text.replace(" ", "")
    digits = "".join(str(int(letter, 36)) for letter in compact[4:] + compact[:4])
    return 15 <= len(compact) <= 34 and int(digits) % 97 == 1
