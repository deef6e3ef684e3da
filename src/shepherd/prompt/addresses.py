"""Parts of postal addresses: the postcode and the town; nothing where that is not sure."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

__all__ = ["postcode_in", "town_in"]

_LONGEST = 300  # characters; the time grows with the square of their number
# British and Canadian postcodes, which nothing else in an address looks like.
_LETTERS_AND_DIGITS = r"[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2}|[A-Z]\d[A-Z]\s?\d[A-Z]\d"
# Others look like the number of a house: "12345 Main Street", "12-14 High Street", "2200 NW Market Street".
_DIGITS = r"\d{4}\s?[A-Z]{2}|\d{5}(?:-\d{4})?|\d{2,3}[ -]\d{2,3}(?=\s+[A-ZÀ-Þ])"
# "D-10115" begins with the country.
_CODE = re.compile(rf"(?:(?<![\w-])|(?<=\b[A-Z]-))(?:(?P<sure>{_LETTERS_AND_DIGITS})|{_DIGITS})(?![\w-])")
_STREET = re.compile(
    r"^(?:rue|avenue|boulevard|chemin|allée|place|quai|calle|avenida|plaza|paseo|via|viale|piazza|corso|rua|travessa"
    r"|praça)\b"
    r"|\b(?:street|str?|road|rd|lane|ln|avenue|ave|av|drive|dr|way|blvd|boulevard|court|ct|place|pl|close|terrace|square"
    r"|sq|highway|hwy|parkway|pkwy|row|crescent|gardens|grove|hill|mews|park|walk|yard|house|broadway|circle|trail"
    r"|weg|allee|\w*(?:straße|strasse|str|straat|gasse|platz|laan|vägen|gatan))\b\.?(?: [NESW]{1,2})?$",
    re.IGNORECASE,
)
# "Apt 5": what is numbered here is no street.
_UNIT = re.compile(
    r"\b(?:apt|apartment|flat|unit|suite|ste|room|floor|level|box|postfach|bp|building|block|tower|no|nr|#)\.?\s*#?\s*$",
    re.IGNORECASE,
)
_TOWN = re.compile(r"[^\W\d_][^\d]*")
_STREET_WITH_NUMBER = re.compile(r"(?P<before>[^\W\d_][^\d,]*?)\s*\b\d|\b\d+\w?\s+[^\W\d_]")
_COMPASS = re.compile(r"(?:NE|NW|SE|SW)$")
_STATE = re.compile(r"(?<=\w)\s+(?!DC$)[A-Z]{2,3}$")
_COUNTY = re.compile(r"\b(?:co\.?|county|province|region)\b", re.IGNORECASE)


def postcode_in(address: str) -> str:
    """Return the postcode of an address, "" if it has none or that is not sure."""
    found = _postcode(address)
    return found[0] if found else ""


def town_in(address: str) -> str:
    """Return what stands behind the street, if that is no country; behind two commas it may be one."""
    street, *others = address.split(",")
    if len(others) != 1 or not any(map(str.isdigit, street)):
        return ""
    code = postcode_in(address)
    town = re.sub(rf"(?:\b[A-Z]-)?{re.escape(code)}", "", others[0]) if code else others[0]
    town = _STATE.sub("", town.strip())
    is_town = town and not any(map(str.isdigit, town)) and not _is_region(town) and not _STREET.search(town)
    return town if is_town else ""


def _postcode(address: str) -> re.Match[str] | None:
    """Return the last postcode of an address."""
    if len(address) > _LONGEST:
        return None
    found = (
        code for code in reversed([*_CODE.finditer(address)]) if code["sure"] or _is_postcode(address, code)
    )
    return next(found, None)


def _is_postcode(address: str, code: re.Match[str]) -> bool:
    """Return whether digits in an address are its postcode, by what stands around them."""
    begin, end = address.rfind(",", 0, code.start()) + 1, address.find(",", code.end())
    before = address[begin : code.start()].strip()
    behind = address[code.end() : end if end >= 0 else None].strip()
    later = address[end + 1 :].strip() if end >= 0 else ""
    if _UNIT.search(before) or (behind and (_STREET.search(behind) or not _TOWN.match(behind))):
        return False
    if _COMPASS.search(code[0]) and (begin == 0 or (later and not _is_region(later))):
        return False  # "2200 NW Market"
    if begin:
        return later.count(",") == 0
    if later:  # "10115 Berlin, Musterstraße 5"
        street = _STREET_WITH_NUMBER.search(later)
        return not before and bool(behind) and street is not None and not _UNIT.search(street["before"] or "")
    # "Berlin 10115", but not "Main Street 12345".
    return bool(behind) or any(map(str.isdigit, before)) or not _STREET.search(before)


def _is_region(text: str) -> bool:
    """Return whether a text is a country, a state or a county, or the two capitals that stand for one."""
    text = text.strip()
    return (
        text.casefold() in _regions()
        or re.fullmatch(r"[A-Z]{2,3}", text) is not None
        or bool(_COUNTY.search(text))
    )


@cache
def _regions() -> frozenset[str]:
    lines = Path(__file__).with_name("regions.txt").read_text(encoding="utf-8").splitlines()
    named = (line for line in lines if line and not line.startswith(("#", "[")))
    return frozenset(region.strip() for line in named for region in line.split(","))
