"""Times that a question names: "in May 2023", "yesterday", "last week", as pairs of unix seconds.

English, in the local time zone. A month without a year means that month of each of the last few years. Words
that are no time, like the verb in "may I", must not be taken for one: a miss costs little, a false hit more.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Literal, NamedTuple

from shepherd._native.text import keywords
from shepherd.errors import UsageError
from shepherd.memory.records import Periods

__all__ = [
    "NamedTimes",
    "beginning",
    "day_of",
    "ending",
    "mentions_time",
    "moment_of",
    "named_periods",
    "named_times",
    "unit_named",
    "without_time",
]

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SHORT = {month[:3]: number for number, month in enumerate(_MONTHS, 1)} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|{'|'.join(sorted(_SHORT, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
# The first month of each, in the northern half of the world.
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
# 3 May 2023, May 3rd, 2023, May 2023, in May, 2023-05-03, in 2023.
_DATES = [
    re.compile(rf"\b{pattern}\b", re.ASCII)
    for pattern in (
        r"(?P<year>(?:19|20)\d\d)-(?P<number>[01]\d)-(?P<day>[0-3]\d)",
        rf"{_DAY} (?:of )?{_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        rf"{_MONTH},? (?:of )?{_YEAR}",
        rf"{_DAY} (?:of )?{_MONTH}",
        rf"{_MONTH} {_DAY}",
        rf"(?P<season>{'|'.join(_SEASONS)}),? (?:of )?{_YEAR}",
        rf"(?:in|of|during|since|last|this|early|late|mid) {_MONTH}",
        rf"(?:in|of|during|since) {_YEAR}",
    )
]
_RELATIVE = re.compile(
    r"\b(today|(?:the )?day before yesterday|yesterday"
    rf"|(?:last|this|past) (?:week|month|year|{'|'.join(_SEASONS)}))\b"
)
_AGO = re.compile(
    r"\b(half an?|an?|one|two|three|four|five|six|seven|eight|nine|ten|(?<!\d[.,])\d{1,3})"
    r" (day|week|month|year)s? ago\b"
)
# The time named is the beginning of the period, which lasts until now.
_SINCE = re.compile(r"\bsince (?:(?:early|late|mid|last|the) )?$")
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: number for number, word in enumerate(_WORDS, 1)}
_NUMBERS |= {"a": 1, "an": 1}
_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}
# "I've lived in Oslo for five years": a state that lasts until now.
_FOR = re.compile(
    r"\b(?:for|these|the (?:last|past))"
    r" (?:(?:about|over|almost|nearly|around|more than|roughly|the (?:last|past)) )*"
    r"(half an?|an?|one|two|three|four|five|six|seven|eight|nine|ten|(?<!\d[.,])\d{1,3})"
    r" (day|week|month|year)s?\b"
)
# The same in German, French, Spanish, Portuguese, Italian and Dutch.
_SINCE_YEAR = re.compile(r"\b(?:seit|depuis|desde|dal|sinds) ((?:19|20)\d\d)\b")
# Words of time at the end of a value: "Bosch yesterday".
_LATE = re.compile(
    r"[\s,]+(?:(?:since|in|on|for|from|as of|about|around|over|only|just|back|late|early|mid) )*"
    r"(?:today|yesterday|tonight"
    r"|(?:the )?(?:last|this|past) (?:week|month|year|spring|summer|autumn|fall|winter)"
    r"|(?:half an?|an?|a few|some|several|two|three|four|five|six|seven|eight|nine|ten|\d{1,3})"
    r" (?:day|week|month|year)s?(?: ago)?"
    rf"|(?:last|this) (?:{'|'.join(_MONTHS)})|(?<=in )(?:{'|'.join(_MONTHS)})|(?<=in )(?:19|20)\d\d)$",
    re.IGNORECASE,
)
# Where a clause begins whose time is another one: "I moved to Paris, and last month I was in Rome".
_CLAUSE = re.compile(
    r"[;:\u2013\u2014]|,? (?:and|but|so|because|while|although)"
    r" (?=(?:\w+ ){0,2}?(?:i|we|my|our|he|she|they|it)\b)",
    re.IGNORECASE,
)
# Behind these words stands when something ended: "I joined Bosch in 2019 and left in May".
_LEFT = re.compile(
    r"(?:,| (?:and|but|then|which|that|who))+(?: (?:i|we|he|she|they|it|then|since|just|finally|have|had))*"
    r" (?=(?:sold|left|quit|gave|given|stopped|moved|retired|resigned|dropped|cancell?ed|lost|scrapped"
    r"|ditched|died|passed|returned|got rid)\b)",
    re.IGNORECASE,
)
_UNTIL = re.compile(r"\b(?:un)?til\b", re.IGNORECASE)
_YEARS_BACK = 5
_MOST = 16
_MOST_CHARACTERS = 2000
_SIGNS = frozenset(keywords(" ".join([*_MONTHS, *_SHORT, *_LENGTHS, *_SEASONS, "today yesterday ago"])))


def mentions_time(words: Collection[str]) -> bool:
    """Return whether named_times may find a period in a text of these keywords; takes 0.5 µs."""
    # Of numbers only a year is a time by itself; a day has its month beside it, and "ago" is a sign of its
    # own.
    return not _SIGNS.isdisjoint(words) or any(
        len(word) == 4 and word.isdigit() and word[:2] in ("19", "20") for word in words
    )


class NamedTimes(NamedTuple):
    """Periods, (first second, the one after the last) each, and the lower-case text without words of time.

    "Yesterday" of last month is another day, so `text` is without such words. It has "four years ago", which
    is about the same time in another month; `dated` is without that too. Dates are always the same; `undated`
    is without them as well.
    """

    periods: Periods
    text: str
    dated: str
    undated: str


def named_periods(text: str, now: float, zone: tzinfo | None = None) -> Periods:
    """Return (first second, the one after the last) of each time named, at most 16; by default local time.

    >>> from datetime import timezone
    >>> named_periods("What did we do on 3 May 2023?", 1_700_000_000, timezone.utc)
    [(1683072000, 1683158400)]
    """
    return named_times(text, now, zone).periods


def named_times(text: str, now: float, zone: tzinfo | None = None) -> NamedTimes:
    """Return the times that the first 2,000 characters of a text name, and the rest of the text."""
    lowered, rest = text[:_MOST_CHARACTERS].lower(), text[_MOST_CHARACTERS:]
    # Naive without a zone: the local offset differs in summer, and each moment has its own.
    today = datetime.fromtimestamp(now, zone).replace(fold=0)
    found: dict[tuple[int, int], None] = {}
    for match in _RELATIVE.finditer(lowered):
        found |= _since(match, [_of_relative(match[1], today)], today)
    for match in _AGO.finditer(lowered):
        found |= _since(match, [_of_ago(match[1], match[2], today)], today)
    kept = _AGO.sub(_long_ago, _RELATIVE.sub(" ", lowered))
    dated = lowered = _AGO.sub(" ", kept)
    for pattern in _DATES:
        for match in pattern.finditer(lowered):
            found |= _since(match, _of_date(match.groupdict(), today), today)
        lowered = pattern.sub(" ", lowered)
    return NamedTimes(list(found)[:_MOST], kept + rest, dated + rest, lowered + rest)


def beginning(sentence: str, value: str, said_at: int, *, is_change: bool, zone: tzinfo | None = None) -> int:
    """Return from when on a value holds, as the sentence that states it says; 0 if it does not say.

    "Since March" is its beginning, and so is "last month" where the sentence says that something changed.

    >>> from datetime import timezone
    >>> beginning("I've lived in Oslo since 2019", "Oslo", 1_700_000_000, is_change=False, zone=timezone.utc)
    1546300800
    """
    clause = next((part for part in _CLAUSE.split(sentence) if value in part), sentence).lower()
    began = _began(clause, said_at, is_change, zone)
    return began if 0 < began < said_at else 0


def ending(sentence: str, value: str, said_at: int, zone: tzinfo | None = None) -> int:
    """Return when a value ceased to hold, as the sentence that says so says; 0 if it does not say.

    >>> from datetime import timezone
    >>> ending("I joined Bosch in 2019 and left in May 2023", "Bosch", 1_700_000_000, timezone.utc)
    1682899200
    """
    behind = _LEFT.split(sentence[max(sentence.find(value), 0) :])[-1]
    # "Until March" names a time as "in March" does.
    until = _UNTIL.search(sentence)
    named = f"in {sentence[until.end() :].lstrip()}" if until else behind
    ended = beginning(named, value, said_at, is_change=True, zone=zone)
    return ended or beginning(sentence, value, said_at, is_change=True, zone=zone)


def unit_named(moment: int) -> Literal["day", "month", "year"]:
    """Return how exactly a time was named in the local zone: "since 2019" is stored as its first second.

    If the first day of a month was named, this is "month", which is true as well: only the second is stored.
    """
    begun = datetime.fromtimestamp(moment)
    if (begun.day, begun.hour, begun.minute, begun.second) != (1, 0, 0, 0):
        return "day"
    return "year" if begun.month == 1 else "month"


def without_time(value: str) -> str:
    """Return a value without the words at its end that say when it began.

    >>> without_time("Bosch last month")
    'Bosch'
    """
    left = _LATE.sub("", value)
    return left if left.strip() else value


def _began(clause: str, said_at: int, is_change: bool, zone: tzinfo | None) -> int:
    lasted = _FOR.search(clause)
    if lasted and not is_change:
        first, end = _of_ago(lasted[1], lasted[2], datetime.fromtimestamp(said_at, zone).replace(fold=0))
        return (first + end) // 2
    year = _SINCE_YEAR.search(clause)
    if year:
        return int(datetime(int(year[1]), 1, 1, tzinfo=zone).timestamp())
    if not is_change and "since" not in clause:
        return 0
    periods = named_periods(clause, said_at, zone)
    if not periods:
        return 0
    first, end = periods[0]
    return (first + end) // 2 if _AGO.search(clause) else first


def _long_ago(match: re.Match[str]) -> str:
    return match[0] if match[2] == "year" and not match[1].startswith("half") else " "


def _since(
    match: re.Match[str], periods: list[tuple[int, int]], today: datetime
) -> dict[tuple[int, int], None]:
    """Return the periods of a match, in order; after "since" one, from the latest of them until now."""
    before = match.string[: match.start()]
    if periods and (match[0].startswith("since ") or _SINCE.search(before[-12:])):
        tomorrow = today.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        periods = [(periods[0][0], int(tomorrow.timestamp()))]
    return dict.fromkeys(periods)


def _of_date(parts: dict[str, str | None], today: datetime) -> list[tuple[int, int]]:
    if season := parts.get("season"):
        began = _season(season, int(parts["year"] or 0), today)
        return [_between(*began)] if began[0] <= today else []
    name = parts.get("month")
    month = (
        int(parts.get("number") or 0) if name is None else _SHORT[name[:4] if name == "sept" else name[:3]]
    )
    day = int(parts.get("day") or 0)
    year = parts.get("year")
    years = [int(year)] if year else range(today.year, today.year - _YEARS_BACK, -1)
    periods = []
    for one in years:
        try:
            first = today.replace(one, month or 1, day or 1, 0, 0, 0, 0)
        except ValueError:  # 31 February, or 29 in most years
            continue
        if first <= today:
            periods.append(_between(first, first + timedelta(days=1) if day else _next(first, bool(month))))
    return periods


def _season(name: str, year: int, today: datetime) -> tuple[datetime, datetime]:
    """Return begin and end of the season that begins in a year, three months."""
    first = today.replace(year, _SEASONS[name], 1, 0, 0, 0, 0)
    return first, (first + timedelta(days=95)).replace(day=1)


def _of_season(which: str, name: str, today: datetime) -> tuple[int, int]:
    """Return this season once it has begun, else the one before; the last one is over."""
    seasons = (_season(name, today.year - back, today) for back in range(3))
    is_over = which != "this"
    first, end = next(one for one in seasons if (one[1] if is_over else one[0]) <= today)
    return _between(first, end)


def _next(first: datetime, is_month: bool) -> datetime:
    if not is_month:
        return first.replace(first.year + 1)
    return (first + timedelta(days=31)).replace(day=1)


def _of_relative(words: str, today: datetime) -> tuple[int, int]:
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    if words == "today":
        return _between(midnight, midnight + day)
    if words == "yesterday":
        return _between(midnight - day, midnight)
    if words.endswith("yesterday"):
        return _between(midnight - 2 * day, midnight - day)
    which, unit = words.split()
    if unit in _SEASONS:
        return _of_season(which, unit, today)
    monday = midnight - midnight.weekday() * day
    month = midnight.replace(day=1)
    year = month.replace(month=1)
    starts = {
        "week": (monday - 7 * day, monday),
        "month": ((month - day).replace(day=1), month),
        "year": (year.replace(year.year - 1), year),
    }
    last, this = starts[unit]
    # "past week" and "last week" may mean the last seven days as well.
    return _between(last if which != "this" else this, midnight + day)


def _of_ago(number: str, unit: str, today: datetime) -> tuple[int, int]:
    """Return the time around a number of units ago: half a unit before and after, at least that day."""
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    length = _LENGTHS[unit]
    if number.startswith("half"):
        length, number = length // 2, "one"
    n = _NUMBERS.get(number) or int(number)
    middle = midnight - timedelta(days=min(n * length, 36_500))
    slack = timedelta(days=length // 2)
    return _between(middle - slack, middle + slack + timedelta(days=1))


def _between(first: datetime, end: datetime) -> tuple[int, int]:
    return int(first.timestamp()), int(end.timestamp())


_ISO_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?")
# Not "2026-W10", which is a week, nor a day of one.
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ISO_MOMENT = re.compile(rf"{_ISO_DAY.pattern}[T ]\d\d.*", re.ASCII | re.IGNORECASE)
# Only a day and its year: neither "two days before 3 May 2023" nor "29 February".
_WHOLE_DAYS = [
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"{_DAY} (?:of )?{_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        r"today|(?:the )?day before yesterday|yesterday",
    )
]
# Their periods reach until today, since "last week" may mean the last seven days.
_VAGUE = re.compile(r"\b(?:last|past|this|ago|since)\b")


def moment_of(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return the moment that a date names, in unix seconds; UsageError for anything else.

    A day, a month or a year stands for its end, or for now if it has not ended.

    >>> moment_of("2026-03-01T12:00Z", 1_800_000_000)
    1772366400.0
    """
    given = text.strip()
    try:
        if _ISO_DAY.fullmatch(given):
            end = datetime.fromisoformat(given).replace(tzinfo=zone) + timedelta(days=1)
        elif named := _ISO_MONTH.fullmatch(given):
            first = datetime(int(named[1]), int(named[2] or 1), 1, tzinfo=zone)
            end = _next(first, bool(named[2]))
        elif _ISO_MOMENT.fullmatch(given):
            exact = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", given))
            return (exact if exact.tzinfo or zone is None else exact.replace(tzinfo=zone)).timestamp()
        else:
            periods = () if _VAGUE.search(given.lower()) else named_periods(given, now, zone)
            end = datetime.fromtimestamp(max(one[1] for one in periods), timezone.utc)
        return min(end.timestamp() - 1, now)
    except (ValueError, OverflowError, OSError):
        hint = "a month (2026-03), a year or a moment (2026-03-01 14:30) is possible, too"
        raise UsageError("expected a date such as 2026-03-01", hint=hint) from None


def day_of(text: str, now: float, zone: tzinfo | None = None) -> str:
    """Return the day that a date names, as YYYY-MM-DD; UsageError for anything else, such as a month.

    >>> day_of("3 May 2023", 1_800_000_000)
    '2023-05-03'
    """
    given = text.strip()
    try:
        if _ISO_DAY.fullmatch(given) or _ISO_MOMENT.fullmatch(given):
            return datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", given)).date().isoformat()
        plain = " ".join(given.lower().split())
        if any(pattern.fullmatch(plain) for pattern in _WHOLE_DAYS):
            first, _ = max(named_periods(plain, now, zone))
            return datetime.fromtimestamp(first, zone).date().isoformat()
    except (ValueError, OverflowError, OSError):
        pass
    raise UsageError("expected a day such as 2026-03-01", hint="yesterday and 1 March 2026 are possible, too")
