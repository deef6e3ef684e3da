"""What each part of a template costs of its budget, and where each limit ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

from shepherd.inference import template_sandbox
from shepherd.inference.template_sandbox import (
    Charged,
    LimitError,
    SandboxedEnvironment,
    _Budget,
    charge_iteration,
    charge_text,
    limited,
)

STEPS, CHARS = 500_000, 64 << 20
VALUES = {
    "x": "abca",
    "y": "de",
    "xs": ["abc", "de", "f"],
    "lines": "a\nb\nc",
    "tabs": "a\tb\t",
    "ds": [{"n": 1}, {"n": 22}],
}


def rendered(source: str, **values: Any) -> tuple[str, _Budget]:
    """The text of a template, and what is left of its budget."""
    with limited():
        template = SandboxedEnvironment().from_string(source)
    block = limited()
    with block:
        text = template.render({**VALUES, **values})
    return text, block._budget


@pytest.mark.parametrize(
    ("source", "steps", "chars"),
    [
        # Steps are iterations and calls; characters are those that are made or written.
        ('{{ x }}', 0, 4),
        ('{{ xs }}', 0, 18),
        ("{{ x + 'a' + y }}", 0, 7),
        ('{% set z = x + y %}', 0, 6),
        ("{% set z = x + 'b' + y %}{{ z }}", 0, 14),
        ('{% set z = x ~ 1 ~ xs %}', 0, 23),
        ("{% set z = '%s-%s' % (x, y) %}", 0, 31),
        ("{% set z = '%s' % x %}", 0, 12),
        ('{% set z = [x, y] %}', 0, 6),
        ("{% set z = {'a': x} %}", 0, 5),
        ('{% set z = (x, y) %}', 0, 6),
        ('{{ [x, [y, x]] }}', 0, 50),
        ('{% for i in xs %}ab{% endfor %}', 4, 12),
        ('{% for i in xs %}{{ i }}{% endfor %}', 4, 6),
        ('{% for i in xs %}a{% for j in xs %}bcd{% endfor %}{% endfor %}', 16, 60),
        ('{% for i in range(150) %}{% endfor %}', 152, 0),
        ('{% for i in xs if i %}a{% endfor %}', 4, 6),
        ('{% for i in xs recursive %}abc{% endfor %}', 4, 27),
        ("{% for i in xs|map('upper') %}a{% endfor %}", 5, 15),
        ('{% macro m(a) %}abc{{ a }}{% endmacro %}', 0, 0),
        ('{% macro m(a) %}abc{{ a }}{% endmacro %}{{ m(x) }}{{ m(y) }}', 2, 36),
        ('{% macro m() %}ab{{ caller() }}{% endmacro %}{% call m() %}cde{% endcall %}', 2, 21),
        ('{% set z %}abc{% endset %}', 0, 3),
        ('{% block b %}abcd{% endblock %}', 0, 4),
        ('{% if x %}abc{% else %}defg{% endif %}', 0, 3),
        ('{% set z = x|upper %}', 0, 0),
        ('{% set z = xs|upper %}', 0, 0),
        ('{% set z = xs|list %}', 0, 9),
        ('{% set z = range(20)|list %}', 3, 20),
        ("{% set z = xs|join('--') %}", 0, 15),
        ("{% set z = [1, xs]|join('--') %}", 0, 18),
        ("{% set z = x|replace('a', 'bcd') %}", 1, 18),
        ("{% set z = x|replace('a', 'bcd', 1) %}", 1, 13),
        ('{% set z = x|center(9) %}', 1, 9),
        ('{% set z = x|indent(3) %}', 1, 4),
        ('{% set z = lines|indent(3) %}', 1, 17),
        ("{% set z = lines|indent('>>>>') %}", 1, 21),
        ('{% set z = xs|tojson %}', 1, 0),
        ('{% set z = xs|tojson(indent=2) %}', 1, 0),
        ('{% set z = [x, y]|tojson %}', 1, 12),
        ("{% set z = '%s'|format(x) %}", 1, 12),
        ("{% set z = x|wordwrap(2, true, '--') %}", 1, 14),
        ('{% set z = x|urlize %}', 1, 4),
        ('{% set z = [x]|string %}', 1, 16),
        ('{% set z = [x, y]|sort %}', 1, 14),
        ('{% set z = x|title %}', 1, 4),
        ('{% set z = x|first %}', 0, 0),
        ('{% set z = xs|length %}', 0, 0),
        ('{% set z = [y, x]|max %}', 1, 14),
        ('{% set z = x.upper() %}', 0, 0),
        ("{% set z = x.replace('a', 'bcd') %}", 1, 18),
        ("{% set z = x.replace('a', 'bcd', 1) %}", 1, 13),
        ('{% set z = x.center(9) %}', 1, 9),
        ("{% set z = x.split('b') %}", 0, 0),
        ("{% set z = '--'.join(xs) %}", 1, 25),
        ("{% set z = '--'.join([x, y]) %}", 1, 26),
        ('{% set z = tabs.expandtabs(4) %}', 1, 16),
        ('{% set z = tabs.expandtabs() %}', 1, 32),
        ("{% set z = x.translate({97: 'bcd'}) %}", 1, 20),
        ("{% set z = '{}-{}'.format(x, y) %}", 1, 32),
        ('{% set z = x.encode() %}', 1, 4),
        ('{% set z = x.title() %}', 1, 4),
        ('{% set z = x * 3 %}', 0, 32),
        ('{% set z = 3 * x %}', 0, 32),
        ('{% set z = [x] * 3 %}', 0, 21),
        ('{% set z = x * 0 %}', 0, 4),
        ('{% set z = dict(a=x) %}', 1, 6),
        ('{% set z = range(5) %}', 1, 0),
        ("{% set z = xs|map('upper')|list %}", 1, 9),
        ('{% set z = xs|batch(2)|list %}', 1, 2),
        ("{% set z = ds|map(attribute='n')|join('+') %}", 1, 4),
        ("{% set z = ds|join('+', attribute='n') %}", 0, 4),
        ("{% set z = '{}{}{}'.format(x, x, x) %}", 1, 72),
        ("{% set z = '%s%s' % (x, [x]) %}", 0, 48),
        ('{% generation %}abc{% endgeneration %}', 0, 3),
        ('{{ ds }}', 0, 21),
        ('{{ [x] }}{{ ds }}', 0, 39),
        ("{{ [x] }}{{ (1, {'a': x}) }}", 0, 49),
    ],
)  # fmt: skip
def test_cost_of_each_part_of_a_template(source: str, steps: int, chars: int) -> None:
    _, left = rendered(source)

    assert (STEPS - left.steps, CHARS - left.chars) == (steps, chars)


def test_sixteen_operands_are_added_before_their_sum_is_measured() -> None:
    # After 16 of them, 64 characters, and after all: each text is four long.
    for n, chars in ((16, 64), (17, 64 + 68), (31, 64 + 124), (32, 64 + 124 + 128)):
        _, left = rendered("{% set z = " + " + ".join(["x"] * n) + " %}")
        assert CHARS - left.chars == chars


# ---- budgets


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The processor time of this thread."""
    now = [100.0]
    monkeypatch.setattr(time, "thread_time", lambda: now[0])
    return now


def test_a_budget_has_so_many_steps(clock: list[float]) -> None:
    budget = _Budget()
    for _ in range(5):
        budget.step(STEPS // 5)
    for _ in range(100):  # it is not checked after each
        budget.step()
    with pytest.raises(LimitError, match="it does not end within the steps that it may take"):
        budget.step()


def test_a_budget_has_so_many_characters() -> None:
    budget = _Budget()
    budget.add(CHARS)
    with pytest.raises(LimitError, match="it makes more text than it may"):
        budget.add(1)


def test_a_budget_has_five_seconds_from_its_first_check_on(clock: list[float]) -> None:
    budget = _Budget()
    budget.step(100)
    assert budget.deadline is None  # it is checked when more than 100 steps were taken
    budget.step()
    assert budget.deadline == 105.0
    clock[0] = 105.0
    budget.step(101)
    clock[0] = 105.01
    budget.step(99)
    with pytest.raises(LimitError, match=r"it takes more than 5 s of processor time"):
        budget.step(2)


def test_a_budget_grows_with_the_conversation_once(clock: list[float]) -> None:
    messages = [{"content": "x" * 1000}, {"content": ["no text"]}, {}]
    more_steps, more_chars = 3 * 2000 + 9, 64 * 1000 + 3 * (1 << 16)
    budget = _Budget(messages)
    budget.add(CHARS + more_chars)
    assert budget.steps == STEPS + more_steps
    with pytest.raises(LimitError):
        budget.add(1)

    budget = _Budget(messages)
    budget.step(STEPS + more_steps)
    with pytest.raises(LimitError):
        budget.step(101)

    budget = _Budget(messages)
    budget.step(101)
    clock[0] = 105.0005  # a microsecond for each character
    budget.step(101)
    assert budget.deadline == pytest.approx(105.001)
    clock[0] = 105.002
    with pytest.raises(LimitError):
        budget.step(101)


def test_values_weigh_what_they_would_be_written_as() -> None:
    budget = _Budget()
    budget.weigh(["abc"])
    assert budget.chars == CHARS  # the template has made no container
    budget.has_containers = True
    shared = ["abc", "de"]
    for value, chars in (("abc", 3), (5, 0), (shared, 5), ([shared, shared], 10), ({"ab": shared}, 7),
                         ((1, {"x"}, frozenset("yz")), 3)):  # fmt: skip
        before = budget.chars
        budget.weigh(value)
        assert before - budget.chars == chars
    steps = budget.steps
    budget.weigh([0] * 100)
    assert budget.steps == steps
    budget.weigh([0] * 101)
    assert budget.steps == steps - 101
    budget.weigh([[0] * 60, [0] * 60])
    assert budget.steps == steps - 101 - 122


def test_new_values_cost_their_length_and_lists_have_a_limit() -> None:
    budget = _Budget()
    most = 1 << 18
    for value, chars in (
        ("abc", 3),
        ([1, 2], 2),
        ((1,), 1),
        ({1: 2}, 1),
        (b"ab", 2),
        (7, 0),
        ([0] * most, most),
    ):
        before = budget.chars
        assert budget.result(value) is value
        assert before - budget.chars == chars
    budget.result(bytes(most + 1))
    with pytest.raises(LimitError, match=f"it makes a list of more than {most} entries"):
        budget.result([0] * (most + 1))


def test_each_rendering_in_a_thread_has_a_budget_of_its_own() -> None:
    outer, inner = limited(), limited()
    with outer:
        charge_text(3)
        with inner:
            charge_text(5)
            assert list(charge_iteration("ab", 4)) == ["a", "b"]
        charge_text(7)

    assert (CHARS - outer._budget.chars, CHARS - inner._budget.chars) == (10, 13)
    assert (STEPS - outer._budget.steps, STEPS - inner._budget.steps) == (0, 2)


def test_items_that_charge_themselves_are_not_charged_again() -> None:
    class Items(Charged):
        def charged(self, n_chars: int) -> Any:
            return charge_iteration(["a", "b"], n_chars)

    text, left = rendered("{% for i in items %}<{{ i }}>{% endfor %}", items=Items())

    assert text == "<a><b>"
    assert (STEPS - left.steps, CHARS - left.chars) == (2, 4 + 6)


# ---- limits of single operations


@pytest.mark.parametrize(
    ("within", "beyond", "says"),
    [
        ("{% set z = x.center(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = x.ljust(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = x.rjust(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = x.zfill(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = tabs.expandtabs(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = x|center(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = lines|indent(n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = xs|tojson(indent=n) %}", 10_000, "it pads a text to 10001 characters"),
        ("{% set z = x|truncate(n) %}", 1_000_000, "it calls a function with the number 1000001"),
        ("{% set z = x.find('a', n) ~ x.count('a', n) %}", 1_000_000, "with the number 1000001"),
        ("{% set z = 2 ** n %}", 9_993, "it computes a number of 20002 bits"),
        ("{% set z = [n, 2 * (1 + n)] %}", 1 << 62, ""),
    ],
)
def test_a_number_can_be_as_large_as_its_limit(within: str, beyond: int, says: str) -> None:
    rendered(within, n=beyond)
    if says:
        with pytest.raises(LimitError, match=says):
            rendered(within, n=beyond + 1)


@pytest.mark.parametrize("pattern", ["%9999d", "%.9999f", "%-9999d"])
def test_fields_have_at_most_four_digits_of_width(pattern: str) -> None:
    rendered("{% set z = p % 1 %}", p=pattern)
    with pytest.raises(LimitError, match="it pads a text to a large or unknown width"):
        rendered("{% set z = p % 1 %}", p=pattern.replace("9999", "10000"))


@pytest.mark.parametrize("pattern", ["%*d", "%.*f"])
def test_fields_whose_width_is_an_argument_are_refused(pattern: str) -> None:
    with pytest.raises(LimitError, match="unknown width"):
        rendered("{% set z = p % (3, 1) %}", p=pattern)


@pytest.mark.parametrize(("pattern", "is_good"), [("{:9999}", True), ("{:10000}", False), ("{:{}}", False)])
def test_fields_in_braces_have_the_same_limits(pattern: str, is_good: bool) -> None:
    if is_good:
        rendered("{% set z = p.format(1, 2) %}", p=pattern)
        return
    with pytest.raises(LimitError, match="unknown width"):
        rendered("{% set z = p.format(1, 2) %}", p=pattern)


def test_many_fields_cost_the_widest_that_each_can_be() -> None:
    for n, chars in ((100, 100 * 2), (101, 101 * 2 + 10_000 * 101)):
        _, left = rendered("{% set z = p.format(y) %}", p="{0}" * n)
        # Also the arguments, and the text, which a format and a call make.
        assert CHARS - left.chars == chars + 2 + 2 * (2 * n)


def test_a_source_has_at_most_a_mebibyte() -> None:
    environment = SandboxedEnvironment()
    with limited():
        environment.from_string("x" * (1 << 20))
        with pytest.raises(LimitError, match="it has more than 1048576 characters"):
            environment.from_string("x" * ((1 << 20) + 1))


def test_a_list_of_anything_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_sandbox, "_MAX_ITEMS", 40)

    _, left = rendered("{% set z = range(40)|list %}")
    assert (STEPS - left.steps, CHARS - left.chars) == (1 + 40 // 8, 40)
    with pytest.raises(LimitError, match="more than 40 entries"):
        rendered("{% set z = range(41)|list %}")
    with pytest.raises(LimitError, match="more than 40 entries"):
        rendered("{% for i in xs|map('upper') %}{% endfor %}", xs=["a"] * 41)


def test_attributes_and_members_are_those_of_the_sandbox() -> None:
    values = {"d": {"a": 1, "items": 2}, "o": object()}
    source = "{{ d.a }}{{ d['a'] }}{{ d.b is defined }}{{ d['b'] is defined }}"
    source += "{{ d.items is callable }}{{ d['items'] }}"
    assert rendered(source, **values)[0] == "11FalseFalseTrue2"
    assert (
        rendered("{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}{{ n.b is defined }}")[0] == "2False"
    )
    for hidden in (
        "x.__class__",
        "d.__class__",
        "o.__class__",
        "x['__class__']",
        "x.format.__self__.__class__",
    ):
        assert rendered("{{ (" + hidden + ") is defined }}", **values)[0] == "False"
    with limited():
        assert "lipsum" not in SandboxedEnvironment().globals


def test_line_feeds_behind_blocks_and_blanks_before_them_are_dropped() -> None:
    assert rendered("a\n  {% if x %}\n b\n  {% endif %}\nc")[0] == "a\n b\nc"


def test_a_tree_is_measured_when_it_is_rendered() -> None:
    environment = SandboxedEnvironment()
    with limited():
        tree = environment.parsed("{% for i in xs %}ab{% endfor %}")
        assert "_iterable" not in repr(tree)
        template = environment.from_string(environment.measured(tree))
    block = limited()
    with block:
        assert template.render(VALUES) == "ababab"
    assert STEPS - block._budget.steps == 4
