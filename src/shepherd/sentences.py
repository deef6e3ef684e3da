"""Split text into sentences by its punctuation, without a model, in linear time.

Latin, Greek, Arabic, Chinese and Japanese marks end a sentence. Abbreviations, addresses and "v2.31" do not.
"""

from __future__ import annotations

import re

__all__ = ["QUESTION_MARKS", "is_abbreviation", "is_question", "sentence_spans", "split_sentences"]

QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # Latin, full width, Arabic, Greek

_CLOSING = "\"')]*_\u201d\u2019\u300d\u300f\uff09"
_ENDS = (".", "!", "\u2026", "?", "\u061f", "\u037e")
# Where a sentence can end: behind a wide mark, without a space; at a blank behind another mark; at a line
# break, from the first blank before it on, which keeps the search linear.
_BREAK = re.compile(
    rf"[\u3002\uff01\uff1f]+[{re.escape(_CLOSING)}]*\s*"
    rf"|(?<=[{re.escape(''.join(_ENDS) + ';' + _CLOSING)}])\s+"
    r"|(?<!\s)[^\S\n]*\n\s*"
)
_WIDE = ("\u3002", "\uff01", "\uff1f")
# A piece without a word, such as an emoticon, belongs to the sentence before it.
_BEGINS = re.compile(r"\W{0,3}\w")
_LONGEST_CLAUSE = 100  # characters
_LOOK_BEHIND = 24  # characters; longer than an abbreviation and the quotes behind it

_LAST_WORD = re.compile(r"(?<![\w.])([^\W_]+(?:\.[^\W_]+)*)\.$")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_LAST_MARKS = re.compile(r"[^\w\s][\W_]*$")
_LIST_NUMBER = re.compile(r"\d{1,3}\.")
# "am 3. Juli" goes on behind its full stop; "I am 14. August is hot" does not.
_ORDINAL = re.compile(
    r"(?:(?<!\bI )\bam|\b(?:vom|zum|den|dem|der|bis|ab|seit|ist|und)|^)\s?\d{1,2}\.$", re.IGNORECASE
)
_MONTH = re.compile(
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
)
_ABBREVIATIONS = frozenset(("approx", "ca", "dr", "mr", "mrs", "ms", "nr", "prof", "st", "vs"))
# These may end a sentence too. A capital behind them decides.
_FINAL_ABBREVIATIONS = frozenset(
    ("co", "corp", "etc", "inc", "jr", "ltd", "no", "sr", "a.m", "p.m", "u.s", "u.k", "e.u", "u.s.a", "d.c")
)
# Behind these, a number goes on: "ext. 17", "part no. KT-88".
_BEFORE_NUMBERS = frozenset(("no", "nos", "ext", "tel", "mob", "max", "fig", "vol", "ref", "apt", "pp"))
_NUMBER = re.compile(r"[A-Z]{0,4}[-/ ]?\d")
# "娘の名前は何ですか。", "你认识我吗", "ฉันชื่ออะไร"; not "何か" (something) or "不知道他是谁" (who he is).
_LAST_ASKING = re.compile(
    r"(?:(?:(?:です|ます|ました|でした|ません|でしょう|だろう|たい|の)(?:か|かな|かしら)|(?:です|ます|でした|ました)っけ"
    r"|は(?:何|なに|誰|だれ|どこ|いつ|いくつ|いくら|何歳|何時)|[吗嗎]"
    r"|ไหม|มั้ย|หรือเปล่า|รึเปล่า|หรือยัง)"
    r"|^(?!.*(?:不|ไม่)).*(?:[叫是]什[么麼](?:名字)?|是[谁誰]|在哪[里裡儿兒]?|อะไร|ที่ไหน|เมื่อไหร่|เมื่อไร|เท่าไหร่|เท่าไร|คือใคร))"
    r"(?:\s*(?:ครับ|คะ|ค่ะ|นะ|บ้าง))*[\s.!\u3002\uff0e\uff01\u2026\u300d\u300f\"')\uff09]*$",
    re.DOTALL,
)


def split_sentences(text: str, *, clauses: bool = False) -> list[str]:
    """Return the sentences in their order, stripped; none for blank text. See `sentence_spans`."""
    return [text[start:end] for start, end in sentence_spans(text, clauses=clauses)]


def sentence_spans(text: str, *, clauses: bool = False) -> list[tuple[int, int]]:
    """Return start and end of each sentence, without the blanks around it.

    `clauses` splits behind a semicolon as well. A line break ends a sentence, unless the next line goes on in
    lower case.
    """
    spans: list[tuple[int, int]] = []
    ends = (*_ENDS, ";") if clauses else _ENDS
    begin = len(text) - len(text.lstrip())
    for gap in _BREAK.finditer(text, begin):
        if gap.end() == len(text):
            break
        if _ends_sentence(text, begin, gap, ends) and _BEGINS.match(text, gap.end()):
            spans.append((begin, gap.start() + len(gap[0].rstrip())))
            begin = gap.end()
    end = len(text.rstrip())
    return [*spans, (begin, end)] if begin < end else spans


def _ends_sentence(text: str, begin: int, gap: re.Match[str], ends: tuple[str, ...]) -> bool:
    if gap[0].startswith(_WIDE):
        return True
    before = text[max(begin, gap.start() - _LOOK_BEHIND) : gap.start()]
    mark = before.rstrip(_CLOSING)
    if mark.endswith(ends):
        is_point = before.endswith(".") and "\n" not in gap[0]
        return not (is_point and _continues(text, begin, before, gap))
    n_lines = gap[0].count("\n")
    return n_lines > 1 or (n_lines == 1 and not text[gap.end()].islower())


def _continues(text: str, begin: int, before: str, gap: re.Match[str]) -> bool:
    """Return whether the full stop belongs to an abbreviation or to the number of a list."""
    if _LIST_NUMBER.fullmatch(text, begin, gap.start()):
        return True
    if _ORDINAL.search(before) and _MONTH.match(text, gap.end()):
        return True
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    if word[1].casefold() in _BEFORE_NUMBERS and _NUMBER.match(text, gap.end()):
        return True
    if word[1].casefold() in _FINAL_ABBREVIATIONS:
        return not text[gap.end()].isupper()
    return is_abbreviation(word[1])


def is_abbreviation(word: str) -> bool:
    """Return whether a full stop behind this word ends no sentence: "Dr", "St", "J", "J.K"."""
    word = word.casefold()
    if word in _FINAL_ABBREVIATIONS:
        return False
    return word in _ABBREVIATIONS or _INITIALS.fullmatch(word) is not None


def is_question(sentence: str) -> bool:
    """Return whether the last mark is a question mark, quotes, emphasis and an emoticon behind it aside.

    Japanese, Chinese and Thai questions often have none, and end with a word that asks: "…ですか。"
    """
    end = sentence[-_LOOK_BEHIND:]
    marks = _LAST_MARKS.search(end)
    if marks is not None and any(mark in marks[0] for mark in QUESTION_MARKS):
        return True
    return not end.isascii() and _LAST_ASKING.search(sentence[-_LONGEST_CLAUSE:]) is not None
