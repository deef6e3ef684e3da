"""Roles in a band, a club, a choir, a team, a play or a parish, which are no jobs."""

from __future__ import annotations

import re

__all__ = ["is_work", "role_in"]

_SPORTS = (
    "football|soccer|cricket|rugby|hockey|netball|basketball|volleyball|handball|baseball|softball"
    "|swim(?:ming)?|rowing|quiz|darts|relay|sailing|tennis|badminton|bowls|polo|debat(?:e|ing)|chess|lacrosse|cycling|ski"
    "|snooker|pool|first|second|third|local|village|school|county|women's|men's|girls'|boys'|ladies'|veterans'"
)
_BODY = (
    r"(?:(?:brass |marching |wind |steel |pipe |big )?band|choir|chorus|choral society|(?!night)club|am-?dram"
    r"|troupe|troop|scouts|guides|cadets|parish|congregation|church council|pta|play|musical|panto(?:mime)?"
    r"|quartet|quintet|ensemble|allotment (?:society|association)|operatic society|drama (?:society|group)"
    rf"|(?:{_SPORTS})(?: \w+)? (?:team|side|squad|eleven|xi)|under[- ]\d+'?s?)"
)
# "in a ceilidh band", "of the local cricket team", "in our parish"
_IN = re.compile(
    r"\s*\b(?P<in>in|of|for|with|at|on)\s+(?:an?|the|our|my|this|(?=(?-i:[A-Z])))\s*"
    rf"(?:(?!(?:and|but|who|which|that|in|at)\b)[\w'&-]+\s+){{0,5}}?{_BODY}"
    r"(?=\W*$|\s*[,.;:!?()]|\s+(?:and|but|so|in|from|near|called|named|here|since|for|too|now|where|which)\b)",
    re.IGNORECASE,
)
_OFFICE = (
    r"chair(?:man|woman|person)?|president|secretary|treasurer|captain|skipper|leader|(?:church)?warden"
    r"|trustee"
)
_ROLE = re.compile(
    rf"(?:\w*(?:er|or|ist|ian|man|woman|lead)|{_OFFICE}|coach|umpire|deacon|soprano|alto|tenor|baritone|bass"
    r"|understudy|goalie|steward|verger|vocals|delegate|cox)$",
    re.IGNORECASE,
)
# Who is paid there.
_PAID = re.compile(r"\b(?:vicar|priest|pastor|curate|rector|minister|chaplain|nurse|teacher)$", re.IGNORECASE)
_WORK = re.compile(
    r"\b(?:work\w*|jobs?|employ\w*|living|hired|paid|salar\w+|profession\w*|occupation|trade|full[- ]time"
    r"|part[- ]time|freelanc\w+|promoted|gig)\b",
    re.IGNORECASE,
)


def is_work(text: str) -> bool:
    """Return whether a clause speaks of work: "I work as a singer in a band"."""
    return _WORK.search(text) is not None


def role_in(value: str, behind: str) -> str:
    """Return a role with the body that stands behind it, "" for a job: "captain of the cricket team".

    Clubs have cooks and porters, too: they work at a club, and officers are officers of it.
    """
    found = _IN.match(behind)
    if found is None or _PAID.search(value) or not _ROLE.search(value):
        return ""
    if found["in"].casefold() == "at" and not re.search(rf"\b(?:{_OFFICE})$", value, re.IGNORECASE):
        return ""
    return f"{value} {found[0].strip()}"
