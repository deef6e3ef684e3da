"""Numbers of cards, accounts and persons, known by their check digits or form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from shepherd.secret_detection.vocabulary import (
    OTHER_NUMBER,
    PROGRAM_TEXT,
    WORDS,
    YEAR,
    Secret,
    around,
    moved,
    words_of,
)

__all__ = ["find"]


def _is_codice_fiscale(value: str) -> bool:
    """Return whether the last letter of an Italian tax code fits."""
    odd = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
    places = [int(c) if c.isdigit() else ord(c) - ord("A") for c in value[:15]]
    total = sum(place if n % 2 else odd[place] for n, place in enumerate(places))
    return ord(value[15]) - ord("A") == total % 26


def _is_dni(value: str) -> bool:
    """Return whether the letter of a Spanish DNI or NIE fits."""
    number = value[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == value[-1]


def _is_cpf(value: str) -> bool:
    """Return whether the two check digits of a Brazilian CPF fit."""
    for n in (9, 10):
        total = sum(int(digit) * (n + 1 - at) for at, digit in enumerate(value[:n]))
        if total * 10 % 11 % 10 != int(value[n]):
            return False
    return len(set(value)) > 1


def _is_nir(value: str) -> bool:
    """Return whether the key of a French social security number fits; Corsica has letters."""
    digits = value[:13].replace("2A", "19").replace("2B", "18")
    return digits.isdigit() and 97 - int(digits) % 97 == int(value[13:])


def _is_ahv(value: str) -> bool:
    """Return whether the check digit of a Swiss AHV number fits (EAN-13)."""
    return sum(int(digit) * (3 if n % 2 else 1) for n, digit in enumerate(value)) % 10 == 0


def _is_rijksregister(value: str) -> bool:
    """Return whether the check digits of a Belgian national number fit, of a birth before or since 2000."""
    return any(97 - int(century + value[:9]) % 97 == int(value[9:]) for century in ("", "2"))


_NATIONAL_IDS: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(r"\b[A-Za-z]{6}\d\d[A-Za-z]\d\d[A-Za-z]\d{3}[A-Za-z]\b"), _is_codice_fiscale),
    (re.compile(r"(?<![\d.-])\d{3}\.\d{3}\.\d{3}-\d\d(?![\d-])"), _is_cpf),
    (
        re.compile(
            r"(?<![\d.-])[12] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d(?![\d-])"
        ),
        _is_nir,
    ),
    (re.compile(r"(?<![\w.-])[XYZ0-9]-?\d{7}-?[A-HJ-NP-TV-Z]\b"), _is_dni),
    (re.compile(r"(?<![\d.-])756\.\d{4}\.\d{4}\.\d\d(?![\d-])"), _is_ahv),
    (re.compile(r"(?<![\d.-])\d\d\.\d\d\.\d\d-\d{3}[.-]\d\d(?![\d-])"), _is_rijksregister),
    # Numbers that the US Social Security Administration issues, in their usual form.
    (re.compile(r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"), bool),
    # British National Insurance numbers have no check digit, and letters that are not given out.
    (
        re.compile(r"\b(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] \d\d \d\d \d\d [A-D]\b"),
        bool,
    ),
)
# Each of these numbers has a part like this.
_ID_HINT = re.compile(
    r"\d(?:\d[A-Za-z]\d\d[A-Za-z]\d{3}|\d\d\.\d{3}\.\d{3}-|\d{6}-?[A-Z]|\d\d\.\d{4}\.\d{4}\."
    r"|\d\.\d\d\.\d\d-\d{3}|\d\d-\d\d-\d{4}|\d \d\d \d\d [A-D]"
    r"|(?<![\d.-].) ?\d\d ?\d\d ?[0-9AB]{2} ?\d{3} ?\d{3} ?\d\d)"
)
# Every card as it is printed has a part like this.
_CARD_HINT = re.compile(r"\d\d{3}[ \-]?(?:\d{4}[ \-]?\d{4}|\d{6}[ \-]\d{4})")
_DIGITS = re.compile(r"\d{4}[ \-]?\d{4,6}[ \-]?\d")
# Not inside a longer row of digits or a decimal number.
_CARD = re.compile(r"(?<![\d.\-])(?<!\d )\d(?:[ \-]?\d){13,18}(?!\d|[.\-]\d| \d)")
# People mistype and make up: beside the name of a card, its groups are enough.
_CARD_SHAPED = re.compile(
    r"(?<![\w./-])(?:\d{4}(?P<between>[ .\-\u2013/]|  |, )\d{4}(?P=between)\d{4}(?P=between)\d{2,5}"
    r"|\d{4}(?P<other>[ .\-])\d{6}(?P=other)\d{4,5}|[3-6]\d{14,15}|2[2-7]\d{14})"
    r"(?![\w\u2013-]|[.,]\d| \d{4}\b)"
)
_card_word = cache(lambda: re.compile(rf"(?<![\w-]){words_of('card words')}(?![\w-])", re.IGNORECASE))
_CARD_NEAR = 70
_NO_CARD = re.compile(r"\b(?:imei|iccid|isbn|iban|tracking|barcode|timestamp|order number)\b", re.IGNORECASE)
# ISO 13616: country, two check digits, letters and digits.
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")


def find(text: str) -> Iterator[Secret]:
    """Yield numbers of cards, accounts and persons, known by their check digits or form."""
    if _DIGITS.search(text):
        for begin, piece in around(text, _CARD_HINT.finditer(text)):
            found = (match for match in _CARD.finditer(piece) if _is_card_number(match[0]))
            yield from moved(begin, (Secret("card-number", *match.span()) for match in found))
        found = (match for match in _IBAN.finditer(text) if _is_iban(match[0]))
        yield from (Secret("account-number", *match.span()) for match in found)
    for match in _CARD_SHAPED.finditer(text):
        if _is_called_card(text, match):
            yield Secret("card-number", *match.span())
    for begin, piece in around(text, _ID_HINT.finditer(text)):
        for pattern, is_valid in _NATIONAL_IDS:
            found = (
                match
                for match in pattern.finditer(piece)
                if is_valid(re.sub(r"[ .\-/]", "", match[0]).upper())
            )
            yield from moved(begin, (Secret("account-number", *match.span()) for match in found))


# First digits and lengths of the networks that issue cards (their published ranges).
_CARDS = re.compile(WORDS["cards"])


def _is_card_number(text: str) -> bool:
    digits = re.sub(r"[ \-]", "", text)
    is_issued = _CARDS.fullmatch(digits) is not None
    return is_issued and (text == digits or _is_grouped(text)) and _luhn(digits) == 0


def _is_called_card(text: str, number: re.Match[str]) -> bool:
    """Return whether a number in the form of a card's stands beside the name of one."""
    start, end = number.span()
    lead, behind = text[max(0, start - _CARD_NEAR) : start], text[end : end + _CARD_NEAR]
    if (
        OTHER_NUMBER.search(lead)
        or _NO_CARD.search(lead)
        or PROGRAM_TEXT.search(lead + behind)
        or all(map(YEAR.fullmatch, re.split(r"\D+", number[0])))
    ):
        return False
    return _card_word().search(lead) is not None or _card_word().search(behind) is not None


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
