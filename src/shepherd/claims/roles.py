"""Roles that are no jobs: in a band, a club, a team or a parish, at home, and those of figures of speech."""

from __future__ import annotations

import re

from shepherd.claims.wordings import definition, words

__all__ = ["is_figure_of_speech", "is_judged", "is_work", "role_in", "trade_in"]

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
# Behind a role that somebody has for the family, or at home: "a taxi driver for my kids". Who has a nursery
# or a firm behind them is served at work: "a cook for three kids at a nursery".
_OTHER_ROLES = (
    r"(?:(?:,|,? and|,? or) (?:an? )?(?:[a-z-]*(?:er|or|eur|ist|ian|man|maid|nurse|chef)|cook(?=,? and)))*"
)
_FAMILY = (
    r"(?:kids?|children|toddlers?|teen(?:ager)?s?|boys|girls|family|household|husband|wife|partner|boyfriend"
    r"|girlfriend|parents|mum|mom|dad|in-laws|\w+-in-law|grandkids|grandchildren|friends?|mates|cats?|dogs?)"
)
_HOME = r"(?:house(?:hold)?|family|home|flat|relationship|marriage)"
_ENDS = (
    r"(?=\W*$|\s*[,.;:!?()]"
    r"| (?:and|but|so|when|who|because|every|most|all|these|now|here|too|at|in|on|during)\b)"
    r"(?! (?:at|with|from|in|on) (?:the )?(?-i:[A-Z\u00c0-\u00de])| (?:at|in) an? )"
)
_AT_HOME = re.compile(
    rf"{_OTHER_ROLES} (?:(?:for|to|of) (?:(?:all|both|most) (?:of )?)?"
    rf"(?:my|our) (?:\w+ ){{0,2}}?{_FAMILY}{_ENDS}"
    rf"|for (?:the|these|those|two|three|four|five|six|a bunch of) (?:\w+ ){{0,2}}?{_FAMILY}{_ENDS}"
    rf"|(?:in|around) (?:this|our|my|the) (?:own )?{_HOME}{_ENDS}|at (?:my|our) (?:own|home|house)\b)",
    re.IGNORECASE,
)
# Work for a family is a job where that is what the word says.
_FAMILY_WORK = re.compile(
    r"\b(?:nanny|au pair|carer|caregiver|care ?taker|babysitter|childminder|governess|housekeeper"
    r"|tutor|nurse|mother|father|dad|mum|mom|parent|stay-at-home [a-z]+)$",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"\s*(?:,\s*)?(?:of (?:life|the (?:universe|obvious|moment)|my own|excuses|chaos|few words|many \w+)\b"
    r"|with an? (?:needle|wooden spoon|screwdriver|hammer|spatula|mop|hoover|can opener|glue gun)\b"
    r"|when it comes to\b|on paper\b|(?:some|most|many|other) days\b"
    r"|in (?:my|the) (?:head|mind|dreams|shower)\b|compared (?:to|with)\b"
    r"|if i (?:may|do) say so\b|at best\b)",
    re.IGNORECASE,
)
_AT_WORK = re.compile(
    r"\s+(?:at|with) (?:the )?(?!(?:Christmas|Easter|Halloween|Thanksgiving|\w+day)\b)[A-Z\u00c0-\u00de]"
)
# "The author of a small library": of something that somebody made.
_MAKER = re.compile(r"\b(?:author|maintainer|creator|inventor|admin|moderator|contributor)$", re.IGNORECASE)
_WORK_MADE = re.compile(
    r"\s+(?:of|to) (?:an?|this|that|my|our|the|some|several|two|three) (?:[\w'-]+ ){0,4}?(?:librar(?:y|ies)"
    r"|plug-?ins?|packages?|modules?|apps?|scripts?|tools?|posts?|blog|articles?|papers?|thread|wiki|project|mod|bot"
    r"|repo(?:sitory)?|game|font|theme|extension|add-?on|program|website|site|server|group|forum|subreddit|channel)\b",
    re.IGNORECASE,
)


def trade_in(role: str) -> str:
    """Return a role without how somebody feels in it: "nurse" of "tired nurse", "very proud nurse"."""
    said = role.split()
    while len(said) > 1 and said[0].casefold() in words("moods"):
        del said[0]
    return " ".join(said)


def is_judged(role: str) -> bool:
    """Return whether a role begins with how well, or how seriously, somebody plays it: "bad nurse"."""
    said = trade_in(role).casefold().split()
    # "Hard worker", and not "hard hat diver"
    return said[0] in words("judging") or (len(said) == 2 and said[0] in words("judging the noun"))


def is_figure_of_speech(value: str, sentence: str) -> bool:
    """Return whether a role is only judged or played with: "a bad nurse", "a taxi driver for my kids"."""
    before, _, behind = sentence.partition(value)
    last = (before.split() or [""])[-1].strip(",").casefold()
    described = f"{last} {value}" if last in words("moods") | words("judging") else value
    # "A great teacher at Kings School" works there.
    is_at_work = _AT_WORK.match(behind) is not None
    if is_judged(described) and not is_at_work:
        return True
    # "A happy camper" has no trade, "a happy farmer" has one.
    trade = trade_in(described)
    is_only_mood = trade != described and " " not in trade and not definition("occupation").fullmatch(trade)
    if is_only_mood and not (is_at_work or is_work(before)):
        return True
    if re.search(r"\bthe family \w+$", f"{before}{value}", re.IGNORECASE):
        return True
    if _MAKER.search(value) and _WORK_MADE.match(behind):
        return True
    is_at_home = _AT_HOME.match(behind) is not None and _FAMILY_WORK.search(value) is None
    return is_at_home or _FIGURE.match(behind) is not None


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
