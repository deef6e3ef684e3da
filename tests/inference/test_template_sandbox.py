"""Chat templates of untrusted files: they end, they fill no memory, and normal ones are unchanged."""

# ruff: noqa: E501  (templates are easier to read in one line)

from __future__ import annotations

import os
import sys

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from shepherd.errors import ModelFormatError
from shepherd.inference.template import ChatTemplate
from tests import programs

MESSAGES = [{"role": "user", "content": "hello"}]

BOMBS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops without a body": "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "loop of loops": "{% for a in [range(99999)]*99999 recursive %}{{ loop([a]*9) }}{% endfor %}",
    "macro recursion": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "block recursion": "{% block b %}{% if n is not defined %}{{ self.b() }}{{ self.b() }}{% endif %}{% endblock %}",
    "repeated text": "{{ 'a' * 10**10 }}",
    "repeated product": "{{ ('a' * 100000) * 100000 }}",
    "repeated list": "{{ [1, 2] * 10**10 }}",
    "repeated conversation": "{{ (messages * 50000000)|length }}",
    "list of one long text": "{% set x = 'a' * 10000000 %}{{ ([x] * 100000)|join }}",
    "large number": "{{ 10**(10**10) }}",
    "squared number": "{% set ns = namespace(x=9) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "width": "{{ '%1000000000d' % 1 }}",
    "width of the filter": "{{ '%1000000000d'|format(1) }}",
    "width as an argument": "{{ '%*d' % (1000000000, 1) }}",
    "width in braces": "{{ '{:1000000000}'.format(1) }}",
    "width in a field": "{{ '{:{}}'.format(1, 1000000000) }}",
    "width by attr": "{{ ('{:1000000000}'|attr('format'))(1) }}",
    "many fields": "{% set x = 'a' * 1000000 %}{{ ('%(a)s' * 10000) % {'a': x} }}",
    "center": "{{ 'a'.center(10**9) }}",
    "center filter": "{{ 'a'|center(10**9) }}",
    "indent": "{{ ('\\n' * 1000000)|indent(10**9) }}",
    "zfill": "{{ 'a'.zfill(10**9) }}",
    "expandtabs": "{{ ('\\t' * 100000).expandtabs(10**9) }}",
    "translate": "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) }}",
    "bytes": "{{ (5).to_bytes(10**9, 'big') }}",
    "lipsum": "{{ lipsum(10**9) }}",
    "replace": "{% set x = 'a' * 1000000 %}{{ x|replace('a', x) }}",
    "replace method": "{% set x = 'a' * 1000000 %}{{ x.replace('a', x) }}",
    "join": "{{ range(99999)|join('a' * 1000000) }}",
    "join method": "{{ ('a' * 1000000).join('b' * 1000000) }}",
    "map": "{% set x = 'a' * 10000 %}{{ x|list|map('replace', 'a', x)|list|length }}",
    "doubling": "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "doubling by tilde": "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "doubling with with": "{% with a = 'a' %}" + "{% with a = a + a + a + a %}" * 30 + "x" + "{% endwith %}" * 31,
    "doubling in arguments": "{% macro m(x, n) %}{% if n %}{{ m(x + x, n - 1) }}{% endif %}{% endmacro %}{{ m('aa', 99) }}",
    "doubling lists": "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "shared lists": "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "shared dicts": "{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x|tojson }}",
    "compared lists": (
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}"
    ),
    "constant text": "{% for a in range(99999) %}" + "abcdefghij" * 10_000 + "{% endfor %}",
    "constant text in a set": "{% set x %}{% for a in range(99999) %}" + "abcdefghij" * 10_000 + "{% endfor %}{% endset %}",
    "long text in a loop": "{% set x = 'a' * 1000000 %}{% for a in range(99999) %}{{ x }}{% endfor %}",
    "slow loop": "{% set x = 'ab' * 5000000 %}{% for a in range(99999) %}{% if 'c' in x %}{% endif %}{% endfor %}",
    "long source": "a" * (1 << 21),
    "deep source": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
}  # fmt: skip

FEWEST_S = 1  # of processor time, for what nothing but time ends
RENDER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from shepherd.errors import ModelError
from shepherd.inference import template_sandbox
from shepherd.inference.template import ChatTemplate
assert template_sandbox._MAX_CPU_S <= 5
template_sandbox._MAX_CPU_S = float(sys.argv[1])
try:
    ChatTemplate(sys.stdin.read()).render([{"role": "user", "content": "hello"}], add_generation_prompt=True)
except ModelError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS.keys())
def test_templates_that_would_not_end_are_stopped(source: str) -> None:
    # The system ends a process that uses more time or memory.
    done = programs.run(
        [sys.executable, "-c", RENDER, str(FEWEST_S if source == BOMBS["slow loop"] else 5)],
        input=source,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},  # as what is forked has it
        check=False,
    )

    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith(
        ("ModelFormatError the model's chat template", "TemplateError the model's chat template")
    )
    assert len(done.stdout) < 1000


def test_a_stopped_template_says_what_to_do() -> None:
    template = ChatTemplate("{{ 'a' * 10**10 }}")

    with pytest.raises(
        ModelFormatError, match=r"chat template was stopped: it makes more text than it may"
    ) as caught:
        template.render(MESSAGES, add_generation_prompt=True)

    assert "publisher" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 'a' + 'b' + 'c' ~ 1 ~ none ~ [1] }}", "abc1None[1]"),
        ("{{ 1 + 2 + 3 }} {{ 1.5 + 1 }}", "6 2.5"),
        ("{{ [1] + [2, 3] }}", "[1, 2, 3]"),
        ("{{ " + " + ".join(f"'{i}'" for i in range(100)) + " }}", "".join(map(str, range(100)))),
        ("{{ '%s-%05.1f' % ('a', 2.5) }} {{ '%d'|format(3) }} {{ 7 % 4 }} {{ 2 ** 10 }} {{ '=' * 3 }}", "a-002.5 3 3 1024 ==="),
        ("{{ '{}:{:>4}'.format('a', 7) }}", "a:   7"),
        ("{{ ['a', 'b']|join(', ') }} {{ [{'n': 1}, {'n': 2}]|join('+', attribute='n') }}", "a, b 1+2"),
        ("{{ 'a-b'.split('-') }} {{ '-'.join(['a', 'b']) }} {{ 'aa'.replace('a', 'b', 1) }}", "['a', 'b'] a-b ba"),
        ("{{ 'a\nb'|indent(2) }} {{ 'a'|center(3) }}|{{ 'a'.rjust(2) }}", "a\n  b  a | a"),
        ("{{ {'a': [1, (2, 3)]}|tojson }} {{ dict(a=1)|tojson }}", '{"a": [1, [2, 3]]} {"a": 1}'),
        ("{% for i in range(3) if i %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}{% endfor %}", "11,22"),
        ("{% for i in [1, 2, 3]|select('odd') %}{{ i }}/{{ loop.length }} {% endfor %}", "1/2 3/2 "),
        ("{% macro m(x) %}<{{ x }}{{ caller() if caller }}>{% endmacro %}{{ m(1) }}{% call m(2) %}c{% endcall %}", "<1><2c>"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x }}{% filter upper %}b{% endfilter %}", "a1B"),
        ("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% with c = 3 %}{{ c }}{% endwith %}", "123"),
        ("{% for i in 'abc' %}{% if i == 'b' %}{% continue %}{% endif %}{{ i }}{% endfor %}", "ac"),
        ("{{ 'b,a'.split(',')|sort|list }} {{ [3, 1]|sum }} {{ [1, 1]|unique|list }} {{ none }}", "['a', 'b'] 4 [1] None"),
        ("{{ [1, 2, 3]|map('string')|list }} {{ messages|map(attribute='role')|join }}", "['1', '2', '3'] user"),
        ("{{ strftime_now('%c' * 1000000)|length < 20000 }}", "True"),
        ("{% generation %}x{% endgeneration %}", "x"),
    ],
)  # fmt: skip
def test_normal_expressions_keep_their_values(source: str, expected: str) -> None:
    assert ChatTemplate(source).render(MESSAGES, add_generation_prompt=True) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ [1,'a']|upper }}",
        '{{ 12|trim }}',
        '{{ none|lower }}',
        '{{ true|capitalize }}',
        "{{ ' a '|trim }}|{{ 'xax'|trim('x') }}",
        "{{ 'hello world'|title }}",
        "{{ [3,1,2]|sort|join(',') }}",
        '{{ [1,2,3]|sum }}',
        "{{ {'b':1,'a':2}|dictsort }}",
        "{{ ['a','B']|sort }}",
        '{{ [1,1,2]|unique|list }}',
        "{{ 'abc'|length }} {{ [1,2]|length }}",
        "{{ 'a,b'.split(',')|join('-') }}",
        "{{ 'abc'.startswith('a') }}",
        "{{ 'abc'[1:] }} {{ 'abc'[-1] }}",
        "{{ 'x'.ljust(3) }}|{{ 'x'.rjust(3,'.') }}|",
        "{{ '%s-%d'|format('a', 3) }}",
        "{{ '{}-{a}'.format(1, a=2) }}",
        "{{ 'a b'|replace('a','c') }}",
        '{{ [1,2,3]|batch(2)|list }}',
        '{{ range(5)|slice(2)|list }}',
        "{{ 'abc'|reverse }}",
        '{{ 2**8 }} {{ 7//2 }} {{ 7%3 }} {{ -7//2 }}',
        "{{ 'ab'*3 }} {{ [0]*3 }} {{ 3*'x' }} {{ 'ab'*0 }} {{ 'ab'*-1 }}",
        "{{ 'a'|center(5) }}|",
        "{{ 'a\nb'|indent(2) }}",
        "{{ 'a\nb'|indent(2, true) }}",
        "{{ '<a>'|e }}",
        "{{ 'ä'|urlencode }}",
        "{{ 'one two three'|truncate(7) }}",
        "{{ 'one two'|wordcount }}",
        '{{ 1.5|round }} {{ 2.567|round(1) }}',
        "{{ '7'|int + 1 }} {{ 'x'|int(3) }} {{ '1.5'|float }}",
        "{{ ['a']|first }} {{ ['a','b']|last }}",
        "{{ [{'x':1},{'x':2}]|map(attribute='x')|list }}",
        "{{ [1,2,3]|select('odd')|list }} {{ [1,2]|reject('odd')|list }}",
        "{{ [{'x':1},{'x':2}]|selectattr('x','equalto',2)|list }}",
        "{{ none is none }} {{ 1 is number }} {{ 'a' is string }} {{ [1] is iterable }} {{ x is defined }}",
        '{{ [1,2]|max }} {{ [1,2]|min }}',
        "{{ [[1,'a'],[1,'b']]|groupby(0)|length }}",
        "{{ 'abc'|list }}",
        "{{ 'a'.zfill(3) }} {{ 'a\tb'.expandtabs(4) }}",
        "{{ 'aXb'.translate({88: '-'}) }}",
        "{{ 'a'.encode() }}",
        "{{ 'abc'.replace('b', 'x', 1) }} {{ 'a-b-c'.rsplit('-', 1) }}",
        "{{ '-'.join(['a','b']) }}",
        "{{ 'abc'.count('b') }}",
        "{{ 5|string + 'x' }}",
        '{{ [1,[2]]|string }}',
        "{{ namespace(a=1).a }} {{ dict(a=1)['a'] }}",
        "{{ 'a' ~ 1 ~ none }}",
        "{{ 'x' in 'xy' }} {{ 1 in [1] }} {{ 'a' in {'a':1} }}",
        "{{ (1,2) == [1,2] }} {{ [1,2] == [1,2] }} {{ 'a' < 'b' }} {{ 1 < 2 <= 2 }}",
        "{{ 'a' if false else 'b' }}{{ 'c' if false }}",
        "{{ '%05.1f' % 3.14159 }} {{ '%x' % 255 }} {{ '%%' % () }} {{ '%(a)s' % {'a': 1} }}",
    ],
)  # fmt: skip
def test_the_limits_change_no_value_of_jinja(source: str) -> None:
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    assert (
        ChatTemplate(source).render(MESSAGES, add_generation_prompt=True)
        == plain.from_string(source).render()
    )


def test_a_long_conversation_is_no_bomb() -> None:
    # Each message looks through all messages, and the whole text is built in a variable.
    source = (
        "{% set ns = namespace(text='') %}{% for m in messages %}{% for other in messages %}{% endfor %}"
        "{% set ns.text = ns.text + m.role + ': ' + m.content + '\n' %}{% endfor %}{{ ns.text }}"
    )
    messages = [{"role": "user", "content": "hello " * 20}] * 1500

    text = ChatTemplate(source).render(messages, add_generation_prompt=True)

    assert text.count("user: ") == 1500


def test_a_long_text_is_no_bomb() -> None:
    source = "{% for m in messages %}{{ (m.content | trim).replace('a', 'b') }}{% endfor %}"
    content = "a" * (16 << 20)

    text = ChatTemplate(source).render([{"role": "user", "content": content}], add_generation_prompt=True)

    assert text == "b" * (16 << 20)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% set x = 'a' + 'b' + 'c' %}{{ x }}", "abc"),
        ("{% set x = 1 + 2 %}{{ x }}", "3"),
        ("{% set x = [1] + [2] %}{{ x[0] + x[1] }}", "3"),
        ("{% set x = " + " + ".join("'ab'" for _ in range(300)) + " %}{{ x }}", "ab" * 300),
        ("{{ " + " + ".join("'ab'" for _ in range(300)) + " }}", "ab" * 300),
    ],
)
def test_sums_of_any_length_are_what_they_were(template: str, text: str) -> None:
    assert ChatTemplate(template).render(MESSAGES, add_generation_prompt=True) == text
