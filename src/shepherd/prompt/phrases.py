"""Phrases in questions about the user and in keys of facts, as the one word that stands for both.

"When do I get up?" asks for `wake_up_time`, "What should they call me?" for `nickname`. Texts of notes are
compared without them: there, "work out" is often no gym.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["in_key", "in_question"]

_I = r"(?:i|we)"
_DO = r"(?:do|did|does|can|could|should|must|shall|am|are|have|has|will|would|wo)"
_NOT = r"(?:n['\u2019]?t|\snot|\snever)"


def _compiled(*pairs: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), word) for pattern, word in pairs)


# In questions and in keys.
_NAMES = _compiled(
    (r"\be[ -]?mails?\b", "email"),
    (r"\b(?:last|family) name\b", "surname"),
    (r"\bt[ -]?shirts?\b", "shirt"),
    (r"\btime[ -]?zone\b", "timezone"),
    (r"\b(?:post|postal|zip)[ -]?codes?\b", "postcode"),
    (r"\b(?:user ?name|user[ -]?id|log[ -]?in(?: name)?|sign[ -]?in name|screen name)\b", "username"),
    (r"\bcall[ -]?sign\b", "callsign"),
    (r"\boperating system\b|\bOS\b", "os"),
    (
        r"\b(?<!favourite )(?<!favorite )(?:second|2nd|other|holiday|weekend|summer|vacation)"
        r" (?:home|house|place|cottage)\b",
        "secondhome",
    ),
    (
        r"\b(?:wak(?:e|es|ing)|g(?:et|ets|etting)|got|gotten) up\b|\b(?:wake|wakes)(?=[ -]?(?:time|hour))",
        "wake",
    ),
    (r"\b(?:go(?:es|ing)? to (?:bed|sleep)|hit the (?:sack|hay)|turn in(?=\W*$)|bed ?time)\b", "bedtime"),
    (r"\bstay up(?: till| until)?\b", "bedtime"),
    (
        r"\b(?:mov(?:e|ed|es|ing))[ -]?(?:in|into)\b(?: the| our| my| this)?(?: (?:flat|house|apartment))?",
        "movein",
    ),
    (r"\bmov(?:e|ed|es|ing)[ -]?out\b", "moveout"),
    (r"\bmoved? (?:here |away )?from\b|\bcame (?:here )?from\b", "former home"),
    (r"\bgod(?:father|mother|parent) (?:of|to)\b", "godchild"),
    (r"\bwhose god(?:father|mother|parent)\b", "whose godchild"),
    (r"\bgod(?:father|mother|parent)\b", "godparent"),
    (r"\b(?:closest|best) (?:friend|mate|pal|buddy)\b|\bbestie\b", "bestfriend"),
    (r"\bbaby[ -]?sitter\b", "babysitter"),
    (r"\bmicro[ -]?chip\b", "chip"),
    (r"\b(?:kind|sort|type|style|genre)s? of music\b", "genre"),
    (r"\balma mater\b", "university"),
    (r"\bcleaning (?:lady|woman|man)\b", "cleaner"),
    (r"\blast[ -]born\b|\bbaby of the family\b", "youngest"),
    (r"\b(?:national|social) (?:insurance|security)\b", "socialsecurity"),
    (r"\bnational health\b", "nhs"),
    (r"\b(?:star|zodiac) sign\b|\bsign of the zodiac\b|\bzodiac\b", "starsign"),
    (r"\b(?:side|second|extra|weekend) (?:job|gig|hustle|business)\b", "sidejob"),
    (r"\bmarital status\b|\bfamily status\b|\bcivil status\b", "marital"),
    (r"\bdue date\b", "duedate"),
    (r"\bwork(?:ing)? out\b|\blift(?:ing)? weights?\b|\bfitness (?:studio|centre|center|club)\b", "gym"),
)

_LOVE = r"(?:spouse|husband|wife|partner|boyfriend|girlfriend|fianc\u00e9e?)['\u2019]?s"
_OTHERS = r"(?:people|they|others|you|anyone|everyone|clients|customers)"
_EATS = r"(?:eat|have|drink|touch|tolerate|stomach|digest)"
_PART_TIME = r"(?:part[ -]?time|student|evening|holiday|saturday)"
_BESIDE = r"(?:on the side of|next to|besides?|alongside|parallel to|while)"
_MAIN = r"(?:stud(?:ies|y|ying)|school|uni(?:versity)?|college|degree|(?:main |day )?job)"
_MY_JOB = r"(?:with )?(?:my|the) (?:job|career)\b"
_RETIRING = r"(?:(?:i|we) )?(?:retir(?:ed?|ing)|my retirement|retirement|(?:took|drew) my pension)\b"
_STOMACH = r"(?:my|our) (?:stomach|body|gut|tummy|skin|system|belly)"
_COPES = r"(?:tolerate|handle|take|digest|stand|cope with|bear|agree with|like)"
# What people are paid for, unlike what they play, sing or run for.
_TRADES = (
    r"(?:work|driv|fly|cook|bak|teach|lectur|nurs|writ|edit|report|cod|program|design|build|weld|drill|dig|haul|truck"
    r"|guard|clean|cater|translat|interpret|freelanc|consult|research|deliver|sell|farm|fish|log|mine|photograph)"
    r"(?:e|ing|ming)?"
)
_AT_WORK = r"(?:my |the )?(?:work|office|job|workplace)"

# In questions alone.
# A pattern that begins with spaces begins at the first of them: in 20,000 lines that are empty, the search
# from each to the last took seconds.
_ABOUT_NAMES = _compiled(
    (r"\bwhat (?:was|is) it (?:again )?(?=(?:that|which)\b)", "what "),
    (r"(?:,|(?<!\s))\s+(?:both|all(?: (?:two|three|four|five))?) of (?:them|us)\b", ""),
    (r"\b(?:pls|plz)\b", "please"),
    (r"\b(?:first and (?:last|second|family)|first name and surname|full) names?\b", "name"),
    (
        r"^\W*(?:my )?name(?: please)?,? (?:both )?first and (?:last|second|family)(?: name)?\b",
        "my name please",
    ),
    (
        r"\bhow (?:is|are) (?:it|that|they) (?:spelled|spelt|written)\b"
        r"|\bhow do (?:you|i) spell (?:it|that)\b",
        "what is it",
    ),
    (r"\bany (?-i:[A-ZÀ-Þ])\w+ (?=languages?\b)", "any "),
    (r"\b(sister|brother|son|daughter|child|girl|boy) in the middle\b", r"middle \1"),
    (r"\bsecond name\b", "surname"),
    (
        r"\bnumber (?:is |do i (?:have|wear) )?on (?:my|the) (?:[\w-]+ )?(?:shirt|jersey|back|kit|bib)\b",
        "is my jersey number",
    ),
    (
        r"\bwhat (?:sort|kind|type) of (?:doctor|surgeon|nurse|teacher|engineer|scientist|researcher|artist"
        r"|designer|lawyer|writer|cook|chef|manager|builder|consultant|specialist|therapist|technician|mechanic|musician)"
        r" (?:is|was) (?=(?:my|our) [\w'\u2019 -]+\W*$)",
        "what is the job of ",
    ),
    (r"\bfirst names? and (?:surname|(?:last|family|second) name)s?\b", "name"),
    (r"\b(?:did|do) (?:i|we) (?:name|call) (?=(?:my|our|the)\b)", "is the name of "),
    (
        r"\bwhat(?:['\u2019]?s| is) (?:wrong|the (?:matter|problem|trouble)) with\b",
        "what is the condition of",
    ),
    (r"\bwhat do(?:es)? (?:my |our |the )?[\w'\u2019-]+(?: [\w'\u2019-]+)? call me\b", "what is my nickname"),
    (r"\b(?:no|nr|num)\b\.?(?=\s*(?:\?|$|please|again))", "number"),
    (
        r"\b(?<!number )(?:should|do|can) (?:you|they|people|others|everyone|i be)(?: all)?"
        r" call(?:ed)?(?: me)?\b"
        r"|\b(?:do )?i (?:like|want|prefer) (?:people |others )?to (?:use|be called)(?: for me)?\b",
        "is my nickname",
    ),
    (
        r"\bhow (?:is|are|do (?:you|i|we) (?:spell|write)) "
        r"(?=(?:my|our)\b.*\b(?:spelled|spelt|written|name)\b)",
        "what is ",
    ),
    (rf"\bwhere (?:can|do|should|could) {_OTHERS} email me\b", "what is my email"),
    (r"\bhow (?:is|are) (?=(?:my|our) [\w'\u2019 -]+ (?:called|named)\b)", "what is "),
    (
        r"\b(?:the )?(?:place|company|firm)(?: called| named)? (?:that |where )?(?:i|we) work"
        r"(?: at| in| for)?\b",
        "my employer",
    ),
    (r"\bwhat (?:am i|i['\u2019]?m|i am) (?:called|named)(?=\W*$)", "what is my name"),
    (r"\b(which|what) trains?(?= (?:do|did|should|must|can|am|are|to|takes?|gets?)\b)", r"\1 rail"),
    (r"\bhow (?:am i|do (?:they|people|you) call me)(?: called| named)?(?=\W*$)", "what is my name"),
    (r"\bgo by\b|\bshort(?:er)? (?:form|version) of my name\b", "nickname"),
    (
        r"\b(?:under|on) (?:the )?stage\b"
        r"|\bname (?:do |did )?i (?:perform|release|publish|appear|record|play)(?: \w+)? under\b",
        "stage name",
    ),
    (rf"\b(?:my )?{_LOVE} (?:mother|mum|mom|mam)\b|\bMIL\b", "my motherinlaw"),
    (rf"\b(?:my )?{_LOVE} (?:father|dad)\b|\bFIL\b", "my fatherinlaw"),
    (r"\bwhose (?:books?|novels?)\b", "which author"),
    (r"\b(?:bed and breakfast|B ?& ?B|b and b|BnB)\b", "guesthouse"),
    (r"\btogether with\b(?: now)?", "my partner"),
    (r"\bif i (?:faint|collapse|fall|get hurt|get ill|crash)\b", "in an emergency"),
    (r"\bwhose grandparent\b", "who are the grandchildren of whom"),
    (r"\bthe (?:woman|person) who gave birth to me\b", "my mother"),
    (r"\bhow should (?:i|we) be (?:referred to|addressed)\b", "what are my pronouns"),
    (rf"\bhow should {_OTHERS} (?:refer to|address|talk about)\b", "what are my pronouns"),
    (
        rf"\bhow (?:do|would) {_I} (?:like |want |prefer )?to be (?:referred to|addressed)\b",
        "what are my pronouns",
    ),
)
_ABOUT_LIKES = _compiled(
    (r"\b(?:stay|steer|keep)(?:ing)? (?:well )?(?:away|clear) (?:from|of)\b", "avoid"),
    (
        rf"\b(?:that |which )?{_STOMACH} (?:can(?:no|['\u2019]?)t|can not|do(?:es)?(?:n['\u2019]?t| not)"
        rf"|won['\u2019]?t) (?:really )?{_COPES}\b",
        "do i avoid",
    ),
    (rf"\b(?:can|does|will)(?:n['\u2019]?t)? {_STOMACH} (?:not )?(?:really )?{_COPES}\b", "do i avoid"),
    (
        rf"\b{_DO}{_NOT} {_I} (?:really |ever )?(?:like|love|stand|bear|enjoy)\b(?: to eat| eating)?",
        "do i dislike",
    ),
    (rf"\b{_I} (?:{_DO}{_NOT}|cannot|do not) (?:really )?(?:like|love|stand|bear|enjoy)\b", "i dislike"),
    (rf"\b(?:can|do|should|must|may){_NOT} {_I} {_EATS}\b", "do i avoid"),
    (rf"\b{_I} (?:{_DO}{_NOT}|cannot|do not) {_EATS}\b", "i avoid"),
    (rf"\b{_DO} {_I} not {_EATS}\b", "do i avoid"),
    (rf"\b{_DO} {_I} not (?:really |ever )?(?:like|love|stand|bear|enjoy)\b", "do i dislike"),
    (rf"\b(?:can|must|may|should)(?:{_NOT}) {_EATS}\b", "avoid"),
    (rf"\bhow (?:do|did) {_I} (?:keep|stay|get) (?:fit|in shape|active)\b", "what is my sport"),
    (
        rf"\bhow (?:do )?{_I} (?:like to )?spend (?:my|our) (?:weekends?|evenings?|free time|spare time)\b",
        "what is my hobby",
    ),
    (rf"\bhow (?:do|does|did) {_I} eat\b", "what is my diet"),
    (r"\bwhat (?:present|gift)s? (?:do|would) i (?:want|like)\b|\bon my wish ?list\b", "what is my wish"),
    (r"\b(?:get|give|buy)(?:s|ing)? me for (?:my )?(birthday|christmas)\b", r"my \1 wish"),
    (r"\bi (?:want|would like|['\u2019]d like|wish) for (?:my )?(birthday|christmas)\b", r"my \1 wish"),
    (r"\bdo i wish for\b", "is my wish"),
    (
        rf"\b(?:(?:where|how) do {_I} (?:watch|stream)|do {_I} (?:watch|stream)(?=.* on\W*$))"
        r" (?:films?|movies?|series|shows?|tv)(?: online| on)?\b",
        "what is my streaming",
    ),
    (rf"\bdo {_I} (?:watch|stream) (?:films?|movies?|series|shows?|tv)(?: online| on)?\b", "is my streaming"),
    (rf"\bwhere do {_I} (?:like |prefer )?(?:to )?sit\b", "which seat do i like"),
    (
        rf"\bwhere do {_I} play (?=(?:in|on|for) (?:the|my|our) (?:\w+ )?(?:team|side|squad|pitch|field)\b)",
        "what position do i play ",
    ),
)
_ABOUT_LIVES = _compiled(
    (rf"\b{_PART_TIME} (?=job\b)", "side "),
    (
        rf"\bwhat do {_I} do (?:(?:at|on|in) (?:the )?\w+ )?to (?:earn|make)"
        r" (?:a (?:bit|little)|some) (?:extra|more)(?: money| cash)?\b",
        "what is my sidejob",
    ),
    (rf"\bwork (?:part[ -]?time|{_BESIDE} (?:my |the )?{_MAIN})\b", "sidejob"),
    (rf"\b(?:stop(?:ped)?|quit|gave up|give up|finish(?:ed)?) (?:work(?:ing)?\b(?! on)|{_MY_JOB})", "retire"),
    (
        rf"\bwhat did {_I} (?:do|work as)(?: for (?:work|a living))? before {_RETIRING}",
        "what was my former job",
    ),
    (rf"(?<=\w) before {_RETIRING}", ""),
    (r"\b(teach|taught) (?:at|in) (?:the )?(?:school|college|university)\b", r"\1"),
    (r"(\bwhat am i \w+ing) in (?:my|our) (?:free|spare) time\b", r"\1"),
    (
        r"\bwhere (?:would i|i would|i['\u2019]d) (?:really )?(?:like|love|dream) to (?:travel|go|visit)\b"
        r"(?: to)?(?: (?:one|some) ?day)?",
        "what is my dream destination",
    ),
    (
        rf"\bhow (?:do|can|did|should|am) {_I} (?:usually |normally )?(?:get|go|travel|come|ride|commute)"
        rf"(?: in)?(?: to)? {_AT_WORK}\b",
        "what is my commute",
    ),
    (rf"\bhow do {_I} commute\b", "what is my commute"),
    (rf"\b(?:do )?{_I} (?:take|catch|ride)(?: \w+)? to (?:get to )?{_AT_WORK}\b", "is my commute"),
    (rf"\bhow (?:do|did|does|can) {_I} (?:earn|make) (?:my |our |a )?(?:money|living)\b", "what is my job"),
    (
        rf"\bwhat do {_I} (?:make|earn|get)(?= (?:a|per|each|every) (?:year|month|week|hour)|\W*$)",
        "what is my salary",
    ),
    (r"\bat (?:home|ours|my place|our place)\b", ""),
    (r"\bwork(?:ing)? on\b", "project"),
    (r"\bon the side\b", "sidejob"),
    (rf"\b(do|did) ({_I}) work (?:for|at)\b", r"\1 \2 employer"),
    (r"\b(?:employs|hired|hires) (?:me|us)\b", "is my employer"),
    (rf"\b(?:am|are) {_I} (?:currently |now )?employed(?: by| at| with| in)?(?=\W*$)", "is my employer"),
    (rf"\b(do|did|am) ({_I}) (?:currently |now )?{_TRADES} (?:for|at)(?=\W*$)", r"\1 \2 employer"),
    (
        rf"\bhow (?:can|do|could|should) (?:i be reached|{_OTHERS} (?:reach|ring|call|phone) me)\b",
        "what is my phone",
    ),
    (
        rf"\bnumbers? (?:do|can|should|could|will) {_OTHERS} (?:ring|call|reach|phone|text) me\b",
        "is my phone number",
    ),
    (rf"\bhow (?:do|can|did) {_I} (?:open|unlock|get into|get in|enter|disarm)\b", "what is the code of"),
    (
        rf"\b(?:where|to which church) do {_I} (?:go to (?:church|mass|chapel)|worship|pray)\b",
        "what is my church",
    ),
    (
        r"\bsomething happens to me\b|\bi have an accident\b|\bi(?:['\u2019]m| am) in an accident\b",
        "i have an emergency",
    ),
    (
        r"\b(?:is|are|should be|to be|be) (?:informed|notified|called|rung|contacted|told)"
        r"(?= in (?:an |case of )?(?:an )?emergency)",
        "is the contact",
    ),
)
_ABOUT_TIMES = _compiled(
    (
        r"\b(?:am|will|have) i (?:be |turn |turned |turning |over |under |older than |younger than )*\d{1,3}"
        r"(?: years old)?\b(?: yet| already| soon| now)*",
        "how old am i",
    ),
    (r"\bam i (?:taller|smaller|shorter) than [\w. ]+", "how tall am i"),
    (r"\bdo i weigh (?:more|less|over|under) (?:than )?[\w. ]+", "how much do i weigh"),
    (r"(?<!\s)\s+or not\b", ""),
    (r"\bin (?:my|our|the) family\b", "of my relatives"),
    (r"\bhow (?:early|late) do\b", "when do"),
    (r"\bhow long have (?:i|we) been\b", "when did i"),
    (r"\bsince when\b|\bhow long ago did\b", "when did"),
    (r"\buntil when\b|\bhow long is (?=.*\b(?:valid|good)\b)", "when "),
    (
        rf"\bwhen (?:do|must|should|will) {_I} (?:have to |need to )?(?:need|get|renew) (?:a |my )?(?:new )?"
        r"(passport|licen[cs]e|visa|card|permit)\b",
        r"when is the expiry of my \1",
    ),
    (r"\btie(?:d)? the knot\b", "marry"),
    (r"\bdid i come into the world\b|\bdid my life begin\b", "was i born"),
    (r"\b(?:get|turn) (?:a|one) year older\b", "birthday"),
)
_QUESTIONS = (*_ABOUT_NAMES, *_ABOUT_LIKES, *_ABOUT_LIVES, *_ABOUT_TIMES)

_KEYS = _compiled(
    (r"^(?:user|display|own|my) name$", "name"),
    (r"^(?:first (?:and )?(?:last|family) name|first name and surname|first and last names?)$", "full name"),
    # It may be the only one.
    (rf"\b{_PART_TIME} job\b", "side job job"),
    (r"\b(?:previous|former|last|old) (?:city|town|place|home|residence|location)\b", "former home"),
    (r"\blives? in\b", "location"),
    (r"\bworks? (?:for|at)\b", "employer"),
)


@lru_cache(maxsize=1024)
def in_key(key: str) -> str:
    """Return the words of a key with one for each phrase: "wake time" of `wake_up_time`."""
    return _replaced(key.replace("_", " "), _KEYS)


@lru_cache(maxsize=256)
def in_question(text: str) -> str:
    """Return a question with one word for each phrase."""
    return _replaced(text, _QUESTIONS)


def _replaced(text: str, before: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, word in (*before, *_NAMES):
        text = pattern.sub(word, text)
    return text
