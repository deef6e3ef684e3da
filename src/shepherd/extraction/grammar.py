"""The grammar of an extraction's answer, with the blanks of json.dumps, as the small model was taught.

This file imports nothing, since the small model is measured with it where the package is not installed.
"""

from __future__ import annotations

__all__ = ["ANSWER_GRAMMAR", "LONGEST_KEY", "LONGEST_QUESTION", "LONGEST_VALUE"]

# In characters. They keep a model that repeats itself from filling the whole answer.
LONGEST_KEY = 64
LONGEST_QUESTION = 200
LONGEST_VALUE = 1000

ANSWER_GRAMMAR = rf"""
root     ::= "{{\"facts\": {{" facts? "}}, \"context\": [" items? "]}}"
facts    ::= fact (", " fact){{0,31}}
items    ::= item (", " item){{0,31}}
fact     ::= "\"" char{{1,{LONGEST_KEY}}} "\": " value
item     ::= "{{\"q\": \"" char{{1,{LONGEST_QUESTION}}} "\", \"a\": " value "}}"
value    ::= "\"" char{{1,{LONGEST_VALUE}}} "\""
char     ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{{4}})
"""
