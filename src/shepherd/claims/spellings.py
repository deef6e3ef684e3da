"""Other wordings of the same: what people leave out or turn round, as the frames know it.

"im", "can't have nuts, I'm allergic" and "Ulm is my home town" become "I'm", "I'm allergic to nuts" and
"my home town is Ulm". Each pattern begins and ends with a word.
"""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.inversions import turned_round
from shepherd.claims.word_order import in_plain_order
from shepherd.pattern_index import Replacements

__all__ = ["spelled_out"]

# Behind a noun, when or where somebody has it: "I have a dog now, his name is Rex".
_BEHIND = (
    r"(?: (?:now|again|finally|already|too|as well|also|at last|once more|these days|nowadays|recently|lately"
    r"|at the moment|currently|here|nearby|abroad|(?:up|down)stairs|outside|inside|at home|yesterday|today))*"
)
_RELATION = (
    "(?:mother|mom|mum|father|dad|sister|brother|wife|husband|partner|fiancée?|girlfriend|boyfriend"
    "|daughter|son"
    "|aunt|uncle|cousin|niece|nephew|grand(?:mother|father|ma|pa|son|daughter)|flatmate|roommate|best friend"
    "|boss|dog|puppy|cat|kitten|rabbit|hamster|parrot|horse|pony|tortoise|beagle|poodle|labrador|terrier)"
)
_ANIMAL = (
    "(?:dog|cat|puppy|kitten|rabbit|bunny|hamster|guinea pig|parrot|budgie|horse|pony|tortoise|turtle|snake"
    "|gecko"
    "|lizard|ferret|goldfish|hen|goat|donkey|labrador|beagle|poodle|terrier|spaniel|collie|greyhound"
    "|whippet|tomcat)"
)
# What may stand behind its value: "Ulm is my home town".
_PROPERTY = (
    r"(?:(?:main|biggest|only|home|own) )?(?:home(?: ?town| city)?|hobby|passion|mother tongue"
    r"|native (?:language|tongue)|first language|time ?zone|employer|airport|(?:text |code )?editor"
    r"|operating system|browser|middle name|surname|last name|star sign|blood type|nationality|instrument"
    r"|sport"
    r"|(?:all[- ]time )?fav(?:ou?rite)? [\w-]+)"
)
# Conditions that people name without a verb: "coeliac since childhood", "lactose intolerant, me".
_CONDITION = (
    r"(?:(?:very |mildly |severely |strictly )?(?:coeliac|celiac|diabetic|vegan|vegetarian|pescatarian"
    r"|asthmatic|epileptic"
    r"|lactose[ -]intolerant|gluten[ -]intolerant|[\w-]+[ -]intolerant|gluten[ -]free|allergic|pregnant"
    r"|teetotal|muslim"
    r"|jewish|hindu|kosher|halal))"
)
_AVOIDED = (
    r"(?:can't|cannot|can not|mustn't|shouldn't|don't|must not|never|have to avoid|need to avoid|must avoid"
    r"|avoid"
    r"|have to watch out for|watch out for|have to be careful with|am careful with|am not allowed|'m not"
    r" allowed|steer clear of|stay away from|have to skip|skip)"
    r"(?: (?:have|eat|touch|do|drink|wear|use|take|go near|be near|be around))?"
)
# "Most Sundays", "On Thursdays", "Every other Friday night"
_OFTEN = (
    r"(?:(?:most|on|every|every other|some) )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekends?"
    r"|weeknights"
    r"|mornings|evenings|afternoons|summers|winters)(?: (?:mornings?|afternoons?|evenings?|nights?))?"
)
_WAY = (
    r"(?:wild|open[- ]water|cold[- ]water|ice|scuba|free|sea|rock|trail|fell|hill|mountain|fly|salsa|line"
    r"|ballroom|swing"
    r"|horse|bird|dragon[- ]boat|indoor|roller|figure|cross-country)"
)
_SPELLINGS = tuple(
    (rf"(?:(?<![\w'])|(?=,| ))(?:{pattern})(?!\w)", spelling)
    for pattern, spelling in (
        (r"i ?m", "I'm"),
        (r"([12]),(\d\d)(?= ?m\b)", r"\1.\2"),
        (r"stay at home(?= (?:mum|mom|mother|dad|father|parent|wife|husband)\b)", "stay-at-home"),
        (r"(?<=[a-z] )n(?= [a-z])", "and"),
        (r"ive", "I've"),
        # Slips and short forms of the words by which the frames know a statement.
        (r"al+erg(?:i[ck]|ick)|al+erjic", "allergic"),
        (r"al+ergy", "allergy"),
        (r"b[' -]?day|birfday|brithday|birhtday", "birthday"),
        (r"(?<=my )(?:fone|phne)", "phone"),
        (r"wrk(?= (?:as|at|for|in)\b)", "work"),
        (r"wrking|workin'?(?= (?:as|at|for|in)\b)", "working"),
        (r"veg[ei]t[ae]rian|veggitarian", "vegetarian"),
        (r"girlfreind|grilfriend", "girlfriend"),
        (r"boyfreind", "boyfriend"),
        (r"husb[ae]n|husbend|hubby", "husband"),
        (r"daugther|dauther|doughter", "daughter"),
        (r"favou?ri?t(?= \w)", "favourite"),
        (
            r"((?:my|our) (?:wife|husband|girlfriend|boyfriend|partner|mum|mom|dad|mother|father))s"
            r"(?= (?:called|named|name is)\b)",
            r"\1's",
        ),
        (r"id(?= (?:love|like|kill|rather|be|have|go|say|prefer|never|want|die)\b)", "I'd"),
        (r"ill(?= (?:be|have|get|try|go|do|move|never|probably|start|take|buy)\b)", "I'll"),
        (r"(do|does|did|is|are|was|were|wo|ca|have|has|had|would|should|could|ai)nt", r"\1n't"),
        (r"(what|where|who|how|that|there)s", r"\1's"),
        (r"(you|they|we)re(?= \w+(?:ing|ed|ly)\b)", r"\1're"),
        # "if you must know", "if that matters"
        (
            r",? (?:in case|if) (?:(?:that|it|this)(?:'s| is| makes| might be)? ?(?:matters|helps|help"
            r"|useful|relevant"
            r"|important|of (?:any )?(?:use|interest|help)|(?:a|any) difference|counts)(?: for [\w ]{2,25}?)?"
            r"|you(?:'re| are) (?:wondering|curious|asking|interested|(?:looking for|picking|buying"
            r"|choosing|getting"
            r"|ordering|shopping for|planning|sending) [\w ]{2,30}?)|you (?:must|want to|need to|wanna"
            r"|should) know"
            r"|you (?:were|was) wondering|you need (?:it|that)(?: for [\w ]{2,25}?)?|anyone(?:'s| is)"
            r" (?:asking|wondering)"
            r"|you hadn't (?:noticed|guessed))(?=\W*$|[,.;!?]| (?:and|so|but)\b)",
            "",
        ),
        (r"just so (?:you|u) know(?: that)?(?= (?:my|our|i|i'm|i've|we)\b)", "fyi"),
        # "falls du ihn mal erwähnen musst", "si jamais tu en as besoin", "por si lo necesitas"
        (
            r", (?:(?:nur |bloß )?falls (?:du|sie|es|das|dich|jemand)"
            r"|(?:juste )?(?:au cas où|si jamais|pour si) (?:tu|vous|ça|c'est|on)"
            r"|por si (?:acaso )?(?:lo|la|te|le|alguien|necesitas|quieres|preguntas|sirve)"
            r"|(?:nel caso|casomai|se mai) (?:ti|ne|lo|la|tu|dovessi|servisse|dovesse)"
            r"|caso (?:precises|precise|queiras|queira|você|perguntes|pergunte)"
            r"|(?:voor als|mocht|voor het geval(?: dat)?) (?:je|jij|u|het|dat))(?= )[^.;:!?]{3,70}(?=\W*$)",
            "",
        ),
        (r"wanna", "want to"),
        (r"gonna", "going to"),
        (r"u", "you"),
        (
            r"(i|we)(?:'ve|'ve got| have got)(?= (?:an?|two|three|four|five|six|seven|no|several|twins"
            r"|type)\b)",
            r"\1 have",
        ),
        (
            r"(?:ever )?since (?:i was|i were|i turned|i left|i started|i finished) [\w' -]{1,30}?"
            r"(?=\W*$|[,.;!?)]| (?:and|but|so)\b)",
            "since childhood",
        ),
        # "can't have peanuts, I'm allergic"
        (
            rf"(?:(?<=^)|(?<=[,;:.] )|(?<=and )|(?<=but ))(?:i |we )?(?:really |just |actually |also"
            rf" )?{_AVOIDED}"
            rf" (?:any )?"
            r"(?!(?:it|that|them|this|you|me|him|her|to|the|my|your)\b)([\w-]+(?: (?:(?:and|or) )?"
            r"(?!(?:in|on|at|with|from|near|to|for|over|around|because|since|if|when|so|as|the"
            r"|my)\b)[\w-]+){0,3}?)"
            r"(?: (?:in|on|at|with|near|around) [\w' ]{2,25}?)?(?: (?:at all|please|sorry|though"
            r"|anymore))?(?:,| -|;|\.|:)? (?:because |since |as |cos |cuz "
            r"|coz |'cause )?"
            r"(?:i'm|i am) (?:so |very |really |badly |deathly |severely |super |quite )?(allergic"
            r"|intolerant)"
            r"(?: to (?:them|it|those|that|the stuff))?(?= (?:and|so|but)\b|\W*$|[,.;!])",
            r"I'm \2 to \1",
        ),
        (
            r"(?:i'm|i am) (?:so |very |really |badly |deathly |severely |super |quite )?allergic,?"
            r" so (?:please |there's |i can have |absolutely |just )*no ([\w-]+(?: (?:and|or) [\w-]+)?)"
            r"(?: for me)?(?:,? please|,? thanks)?(?=\W*$|[,.;!])",
            r"I'm allergic to \1",
        ),
        (
            r"no (?!(?:go|way|idea|problem|wonder|thanks|doubt|one)\b)([\w-]+(?: (?:and|or) [\w-]+)?)(?: for"
            r" me)?(?: please)?(?:,| -|;) (?:because |since |as |cos"
            r" )?"
            r"(?:(?:i'm|i am) )?(?:so |very |really |badly |deathly |severely )?allergic(?=\W*$|[,.;!])",
            r"I'm allergic to \1",
        ),
        (
            r"(?<=^)([\w'-]+(?: [\w'-]+){0,4}),? (?:i'm |i am )?allergic to (?:both(?: of them)?|all (?:of"
            r" them|three|that)|it all)"
            r"(?=\W*$|[,.;!]| (?:and|so|but)\b)",
            r"I'm allergic to \1",
        ),
        (
            r"(?<=^)([\w'-]+(?: and [\w'-]+)?)(?: and (?:me|i) (?:don't|do not) (?:mix|agree|get (?:on"
            r"|along))"
            r"| (?:is|are) (?:off[ -]limits|out|a no[ -]go)(?: for me)?),? (?:because )?(?:i'm|i am) (?:\w+"
            r" )?allergic"
            r"(?=\W*$|[,.;!])",
            r"I'm allergic to \1",
        ),
        (
            r"(i speak) (?:two|three|four|five|six|seven|several|\d) languages(?:[:,(]| -| \()"
            r" ?((?-i:[A-Z])\w+)",
            r"\1 \2",
        ),
        (
            r"(?<=\w),? (?:and |so )?(?:we|i|they)(?:'ve| have)? (?:named|called|call) (?:him|her|them|it)(?="
            r" (?-i:[A-Z]))",
            " named",
        ),
        # "at a small firm called Acme"
        (
            r"(at|for|with|from) (?:an?|this|the) (?:[\w'-]+ ){0,4}?(?:firm|company|start-?up|agency|studio"
            r"|charity|bakery"
            r"|shop|hotel|restaurant|caf[eé]|bar|pub|practice|clinic|publisher|brewery|lab|nursery|garage"
            r"|consultancy"
            r"|ngo|non-?profit|bank|co-?op|outfit|business|salon|theatre|theater|gym"
            r"|vet's|vets|dentist's|hairdresser's|florist's|butcher's)"
            r"(?: (?:in|near|outside) (?-i:[A-Z])[\w'-]+)?,? (?:called|named|by the name of)"
            r"(?= (?-i:[A-Z\u00c0-\u00de]))",
            r"\1",
        ),
        # "I'm Portuguese, from Braga"
        (
            r"(i'm (?-i:[A-Z])\w+(?:ese|ish|ian|an|ch|ic|ek|i)),? (?:but |and )?(?:originally )?from"
            r" ((?-i:[A-Z])\w+)",
            r"\1, I'm from \2",
        ),
        (r"(?<=^)((?:my )?(?:all[- ]time )?fav(?:ou?rites?|e|s)? [\w-]+(?: [\w-]+)?):(?= )", r"\1 is"),
        # "our two kids, Mia (9) and Ben (6)"
        (r"((?-i:[A-Z])[\w'-]+) \((?:aged? )?\d{1,2}\)(?=,| and| &|\W*$|[.!;])", r"\1"),
        # "Mum of two, Ben and Lou", "married with two kids"
        (
            r"(?<=^)((?:i'm |i am |we're )?(?:an? )?(?:\w+ )?(?:mum|mom|mother|dad|father|parents?) (?:of|to)"
            r" (?:two|three|four|five)(?: kids|"
            r" children)?)(?: here)?(?:,| -|:| \()"
            r" ((?-i:[A-Z])[\w'-]+(?:, (?-i:[A-Z])[\w'-]+)*,? (?:and|&) (?-i:[A-Z])[\w'-]+)",
            r"\1, my kids are \2",
        ),
        # "I have a son, Ben, and a daughter, Ida"
        (
            r"(?<=^)((?:i|we)(?:'ve| have)(?: got)?) (an? (?:\w+ )?)(\w+)(,| called| named)"
            r" ((?-i:[A-Z])[\w'-]+),? and (an? (?:\w+ )?)(\w+)(?:,| called| named) ((?-i:[A-Z])[\w'-]+)"
            r"(?=\W*$|[,.;!])",
            r"\1 \2\3 and \6\7, my \3 is called \5, my \7 is called \8",
        ),
        (
            r"(i'm (?:\w+ )?(?:married|divorced|single|widowed|separated)),? (?:with|and have) "
            r"((?:an?|two|three|four|five|six|\d) (?:\w+ )?(?:kids?|child(?:ren)?|sons?|daughters?|boys"
            r"|girls))",
            r"\1, I have \2",
        ),
        # "I can't have gluten, coeliac since childhood"
        (
            rf"(?<=^)((?:sorry, |no, )?(?:i |we )?{_AVOIDED} [^,.!?;]{{2,40}}), ({_CONDITION})(?=\W*$|"
            rf" (?:since|for|here)\b|[,.])",
            r"\1, I'm \2",
        ),
        # "Lactose intolerant, me."
        (
            rf"(?<=^)({_CONDITION}|left[- ]handed|right[- ]handed|dyslexic|autistic|colou?r[ -]?blind),"
            rf" me(?=\W*$|[,.!;])",
            r"I'm \1,",
        ),
        # "Nuts are a no for me, allergic", "can't eat kiwi, it's an allergy", "prawns could kill me"
        (
            r"(?<=^)(?:any )?([\w-]+(?: and [\w-]+)?) (?:is|are) (?:(?:an? )?(?:big |hard |total |definite"
            r" )?no(?:[- ]go|[- ]no)?"
            r"|off the menu|off[ -]limits|out|out of the question|a problem)(?: for me)?(?:,| -|;|\.|"
            r" because| since| as|:)+ "
            r"(?:because |since |as |cos )?(?:i'm |i am )?(?:(?:very|badly|severely|really|deathly) )?"
            r"allergic(?: to (?:it|them|that))?(?=\W*$|[,.;!]| (?:since|and|so|but|for)\b)",
            r"I'm allergic to \1",
        ),
        (
            rf"(?:(?<=^)|(?<=^sorry, ))(?:i )?{_AVOIDED} (?:any )?"
            r"(?!(?:it|that|them|this|you|me|him|her|to|the|my|your)\b)([\w-]+(?: (?:(?:and|or)"
            r" )?[\w-]+){0,2}?)"
            r"(?:,| -|;|:) (?:(?!\b(?:not|no|never|nor|without|thought|isn't|wasn't)\b)[^.!?]){0,60}?"
            r"\b(?:it's|that's|because of|due to|bad|proper|real|actual|serious|severe|full-on) "
            r"(?:an? )?(?:(?:bad|proper|real|actual|serious|severe|genuine|food|full-on) )?allergy(?=\W*$"
            r"|[,.;!]| (?:and|so|but)\b)",
            r"I'm allergic to \1",
        ),
        (
            r"(?<=^)((?:pea|cashew |brazil |tree )?nuts|peanuts|cashews|walnuts|almonds|hazelnuts|shellfish"
            r"|prawns|shrimp|sesame"
            r"|penicillin|bee stings?|wasp stings?|latex|eggs|fish|kiwis?) (?:could|can|would|will|might"
            r"|nearly)"
            r" (?:literally |actually )?kill(?:ed)? me",
            r"I'm allergic to \1",
        ),
        (
            r"(?<=^)i (?:always |really |just )?swell up(?: [\w ]{2,20}?)? (?:if|when|whenever|every time"
            r"|after)"
            r" i (?:eat|have|touch|drink)",
            "I'm allergic to",
        ),
        (
            r"(?<=^)(dairy|gluten|lactose|milk|cheese|wheat|eggs|alcohol|wine|caffeine|coffee|spicy food"
            r"|onions|garlic|shellfish"
            r"|seafood|red meat) and (?:me|i) (?:don't|do not|never) (?:mix|agree|get (?:on|along)|see eye"
            r" to eye)",
            r"I avoid \1",
        ),
        # "It isn't nuts at all, I'm allergic to latex", "I'm allergic to latex, not nuts"
        (
            r"(?:it|that)(?:'s not| isn't| is not| wasn't| was never)(?: the)? ([\w-]+(?: [\w-]+){0,2}?)"
            r"(?: (?:at all|after all|anymore|any more|then|actually))*,? (?:but )?(?:i'm|i am) allergic to",
            r", I'm no longer allergic to \1, I'm allergic to",
        ),
        (
            r"(?:it|that)(?:'s not| isn't| is not| wasn't| was never)(?: the)? ([\w-]+(?: [\w-]+){0,2}?)"
            r"(?: (?:at all|after all|anymore|any more|then|actually))*,? (?:but )?(?:it's|it is) ([\w-]+(?:"
            r" [\w-]+){0,2}?)"
            r" (?:that )?(?:i'm|i am) allergic to",
            r", I'm no longer allergic to \1, I'm allergic to \2",
        ),
        (
            r"(?:i'm|i am) (?:actually )?allergic to ([\w-]+(?: [\w-]+){0,2}),? (?:and )?not (?:to"
            r" )?([\w-]+(?: [\w-]+){0,2})(?=\W*$|[,.;!])",
            r"I'm no longer allergic to \2, I'm allergic to \1",
        ),
        # "Most Sundays I go birdwatching"
        (
            rf"(?:(?<=^)|(?<=, )|(?<=and )){_OFTEN},? "
            r"(?:i(?: (?:usually|often|always|tend to|like to|love to|try to|still|also))*"
            rf" go"
            rf"|you(?:'ll| will| can)(?: usually| always)? find me(?: out)?) ((?:{_WAY} )?\w{{2,}}ing)"
            r"(?! (?:to|for|after|through|around|into|mad|over|back|home|about|errands|off|in circles|on)\b)",
            r"I go \1 regularly",
        ),
        (
            rf"(?<=^)i (?:(?:usually|often|always|still) )*go ((?:{_WAY} )?\w{{2,}}ing)(?= (?:on )?(?:most "
            rf"|some )?{_OFTEN}\b)(?! \w+day\b(?!s)| (?:every|each)\b)",
            r"I go \1 regularly",
        ),
        # "Put Ada Hall on the card, that's my name", "I'd rather be called Jo"
        (
            r"(?:(?:please|just|pls|you can|you may|you could|you should) )*(?:put|sign(?: it| this| the"
            r" (?:card|letter|email|form))?(?: with| as| from)?|(?:address|make) (?:it|this|the \w+) (?:out"
            r" )?to"
            r"|write|use|print) ((?-i:[A-Z\u00c0-\u00de])[\w'-]+(?: (?-i:[A-Z\u00c0-\u00de])[\w'-]+){0,2})"
            r"(?: (?:on|at|in|under|as|down|there|below|above|here)\b[^,.!?]{0,40})?,? (?:that's|that is"
            r"|it's) "
            r"(?:me|my (?:full |real |legal |whole |official |proper )?name)(?=\W*$|[,.;!]| (?:and|so"
            r"|but)\b)",
            r"my name is \1",
        ),
        (r"(?:puedes|podéis|puede|pueden) (?:llamarme|decirme)(?= (?-i:[A-Z\u00c0-\u00de]))", "llámame"),
        (r"(?:puoi|potete|può) chiamarmi(?= (?-i:[A-Z\u00c0-\u00de]))", "chiamami"),
        (r"(?:pls|plz)(?= (?:remember|note|keep in mind|don't forget)\b)", "please"),
        (r"(mother|father|sister|brother|son|daughter)s? in law", r"\1-in-law"),
        (r"you (?:may|might as well) call me", "call me"),
        (
            r"i(?:'d| would)? (?:much )?(?:prefer|rather|like) (?:(?:it if )?(?:you|people) (?:to"
            r" )?call(?:ed)? me"
            r"|(?:to be|to get|being|be) called)(?= (?-i:[A-Z\u00c0-\u00de]))",
            "call me",
        ),
        (
            r"(?<=^)first name(?: is|:)? ((?-i:[A-Z\u00c0-\u00de])[\w'-]+),? (?:and )?(?:surname|last name"
            r"|family name)"
            r"(?: is|:)?(?= (?-i:[A-Z\u00c0-\u00de])[\w'-]*\W*$)",
            r"my first name is \1, my last name is",
        ),
        (
            r"(?:(?<=^)|(?<=^hi, )|(?<=^hey, )|(?<=^hiya, )|(?<=^hello, ))"
            r"(?!(?:it|this|that|what|which|here|there|love|danger|trouble|nothing|hers?|his|theirs"
            r"|yours?)\b)"
            r"((?-i:[A-Z\u00c0-\u00de])[\w'-]+(?: (?-i:[A-Z\u00c0-\u00de])[\w'-]+){0,2}) is my "
            r"(?:full |real |first |given )?name(?=\W*$|[,.;!]| (?:and|but|so|since|not|btw)\b)",
            r"my name is \1",
        ),
        (
            r"(?<=^)(shoe|ring|hat|dress|jeans|trouser|collar|glove|bra|shirt) size(?: is|:)?"
            r"(?= \d[\d.]*(?:\W*$|[,.;!]| (?:so|and|but|here|btw))(?![^?]*\?))",
            r"my \1 size is",
        ),
        (r"(?<=^)(?:my )?(?:hobbies|interests|pastimes)(?: include| are|:)(?= )", "my hobbies are"),
        (
            r"(?<=^)([\w-]+(?: [\w-]+)?) is what keeps me (?:sane|going|happy)(?=\W*$|[,.;!])",
            r"my hobby is \1",
        ),
        # "my wife and I are"
        (r"i are", "we are"),
        # "a parrot, his name is Admiral"
        (rf"(?<=\w){_BEHIND},? (?:and )?(?:his|her|its|their) names?(?:'s|s| is| are)(?= [A-Z])", " named"),
        # "As a nurse in Leeds I …", "Being a nurse, I …", "At 53 I am …"
        (
            r"(?:(?:speaking )?(?<!serve )(?<!started )(?<!volunteer )(?<!job )(?<!live )"
            r"(?<!work )(?<!works )(?<!worked )(?<!working )as|being)"
            r" (an? (?!(?:\w+ )?(?:matter|starter|reminder|order|child|kid|boy|girl"
            r"|student|teenager|former|favou?r)\b)[\w' -]{3,60}?),?"
            r"(?= (?:i|i'm|i've|my|we|our)\b(?! (?:\w+ed|want|can)\b))",
            r"I'm \1,",
        ),
        (r"being(?= (?-i:[A-Z])\w+(?:ese|ish|ian|can)\b(?!\W+(?:is|was|must)\b))", "I'm"),
        (r"at (2[5-9]|[3-9]\d),?(?= i(?:'m| am| still| finally| now)\b)", r"I'm \1,"),
        (r"à (\d\d ans),?(?= je (?:me|suis|veux|peux|commence|cherche)\b)", r"j'ai \1,"),
        (r"as (?:someone|somebody) who (lives?|works?)(?= (?:in|at|for)\b)", r"I \1"),
        # "Als Hebamme brauche ich …", "weil ich bei Bosch arbeite", "omdat ik bij Philips werk"
        (
            r"als ((?!student|kind)(?-i:[A-ZÄÖÜ])[\w-]+)(?=(?: \w+){0,4} (?!war|hatt)\w+(?<!te) ich\b)",
            r"ich bin \1,",
        ),
        (r"(?:weil|da) ich (bei|in|für) ((?-i:[A-ZÄÖÜ])[\w-]+) (arbeite|wohne|lebe)", r"ich \3 \1 \2,"),
        (r"(?:omdat|daar) ik (bij|in|voor) ((?-i:[A-Z])[\w-]+) (werk|woon|leef)", r"ik \3 \1 \2,"),
        (
            r"(?:\w+ )*((?-i:[A-ZÄÖÜ])[\w-]+), (?:da)?gegen (?:d\w+ )?bin ich (?:\w+ )?allergisch",
            r"ich bin allergisch gegen \1",
        ),
        (
            r"gegen ((?-i:[A-ZÄÖÜ])[\w-]+(?: und (?-i:[A-ZÄÖÜ])[\w-]+)?) bin ich (?:\w+ )?allergisch",
            r"ich bin allergisch gegen \1",
        ),
        (r"(?<=heißt) (?:eigentlich|übrigens)", ""),
        # "Oona, my daughter, …", "Oona (my daughter)"
        (
            r"(?<!in )(?<!at )(?<!from )(?<!hi )(?<!hey )(?<!thanks )((?-i:[A-Z])[\w'-]+)(?:, | \()"
            rf"((?:my|our) (?:\w+ ){{0,2}}{_RELATION})"
            r"(?=[,)]|\W*$)",
            r"\2 \1",
        ),
        # "The ginger cat, Tom, is ours", "Tom is our cat", "a snake, she's called Ida"
        (
            rf"(?<=^)(?:the|that|this) (?:[\w'-]+ ){{0,3}}?({_ANIMAL})(?: (?:in|on|with|next to|by|at"
            rf"|behind) [\w' ]{{2,30}}?)?,"
            r" ((?-i:[A-Z\u00c0-\u00de])[\w'-]+(?: (?-i:[A-Z\u00c0-\u00de])[\w'-]+)?),? is (?:ours|mine)"
            r"(?=\W*$|[,.;!]| (?:and|but|so|too)\b)",
            r"my \1 is called \2",
        ),
        (
            r"(?<=^)(?!(?:it|this|that|what|who|which|here|there|he|she|god|jesus|today|tomorrow)\b)"
            r"((?-i:[A-Z\u00c0-\u00de])[\w'-]+(?: (?-i:[A-Z\u00c0-\u00de])[\w'-]+)?)(?: is|'s) (my|our)"
            rf" (?!favou?rite|dream|spirit|least|ideal|childhood)((?:\w+ ){{0,2}}(?:{_ANIMAL}"
            rf"|{_RELATION}))(?=\W*$|[,.;!]| (?:and|but|so|who|which)\b)",
            r"\2 \3 is called \1",
        ),
        (r"(?<=\w) and (?:named|called) (?:him|her|it)(?= (?-i:[A-Z\u00c0-\u00de]))", " named"),
        (
            rf"(?<=\w){_BEHIND},? (?:and )?(?:he|she|it|they)(?:'s| is|'re| are)(?: all| both)?"
            r" (?:called|named)(?= (?-i:[A-Z\u00c0-\u00de]))",
            " called",
        ),
        # "my dog? Ida", "favourite colour? teal"
        (
            r"(my (?:\w+ )?(?!(?:age|job|trade|profession|birthday|hobby|sign|major|height|size|employer"
            r"|car|name|instrument|language|tongue|town|hometown|pronouns|type|laptop|phone|editor|surname)\b)\w+)"
            r"\?(?= (?-i:(?!(?:His|Her|Its|It|He|She|They|The|That|This|I|We|You|What|Who|No|Not|Yes)\b)"
            r"[A-Z\u00c0-\u00de]))",
            r"\1 is called",
        ),
        (r"(?<=^)((?:my )?(?:all[- ]time )?fav(?:ou?rite|e|s)? [\w-]+(?: [\w-]+)?)(?:\?| =)(?= )", r"\1 is"),
        # "Ulm is my home town"
        (
            r"(?!(?:it|this|that|what|where|which|who|here|there|today|tomorrow|\w+thing|she|he|they|mine)\b)"
            r"((?-i:[A-Z])[\w'/&+-]*(?: (?-i:[A-Z0-9])[\w'/&+-]*)*"
            r"|(?:(?-i:[A-Z])[a-z-]+ )?\w{3,}ing)"
            rf"(?:'s| is| has been|,? (?:that|it)(?:'s| is| has been)|, which is|,) (my {_PROPERTY})"
            r"(?=\W*$|[,.!?;)]| (?:and|but|so|since|ever|for|because|these|right|by|now|btw|lol|too)\b)",
            r"\1, \2 is \1",
        ),
        (r"(in my (?:spare|free) time),(?= i\b)", r"\1"),
        # Words that say how long something has held already.
        (r"(?:(?<=living)|(?<=working)) for (?:\w+ ){1,4}?(?:year|month|week|decade)s?", ""),
        (r" (?:schon )?seit (?:\w+ ){0,3}?(?:jahr|monat|woche)\w*", ""),
        (r" depuis (?:\w+ ){1,3}?(?:ans?|années?|mois|semaines?)", ""),
        (r" desde hace (?:\w+ ){1,3}?(?:años?|mes(?:es)?|semanas?)", ""),
        (r" da (?:\w+ ){1,2}?(?:ann[oi]|mes[ei]|settiman[ae])", ""),
        (r" há (?:\w+ ){1,3}?(?:anos?|mês|meses|semanas?)", ""),
        (r" (?:al|sinds) (?:\w+ ){1,3}?(?:jaar|jaren|maand(?:en)?|weken)", ""),
    )
)


_GERMAN = re.compile(r"\b(?:ich|wir|mein\w*|unser\w*|habe|haben|bin|und|nicht)\b", re.IGNORECASE)
# "I have a dog. Her name is Ida."
_NAME_IN_NEXT = re.compile(
    rf"(?<=\w){_BEHIND}[.!] (?:his|her|its) name(?:'s| is)(?= (?-i:[A-Z\u00c0-\u00de]))", re.IGNORECASE
)


def spelled_out(text: str) -> str:
    """Return the text with apostrophes where people who type quickly leave them out: "im", "dont"."""
    text = _NAME_IN_NEXT.sub(" called", text)
    # In German, "im" means "in the".
    plain = _replacements().apply(text, first=1 if _GERMAN.search(text) else 0)
    return turned_round(in_plain_order(plain))


@cache
def _replacements() -> Replacements:
    return Replacements.of(_SPELLINGS)
