"""Renderings that continue from the last one: the same text as of the whole, made from a few messages."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import pytest

from shepherd.errors import ModelFormatError, TemplateError
from shepherd.inference import template_sandbox
from shepherd.inference.template import CHATML, ChatTemplate, TemplateOptions
from shepherd.inference.template_journal import Journal, Rendering
from tests.examples import examples
from tests.inference.manners import MANNERS
from tests.inference.test_template_locality import AFTER, BODIES, DEFINITIONS
from tests.inference.test_template_locality import BEFORE as PLAIN_BEFORE

Form = dict[str, Any]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "", "parameters": {}}}]

# What templates do before the loop over the messages. Each defines what the bodies below read.
SCANS = {
    "forwards": (
        "{% for m in messages %}{% if m.role == 'user' %}"
        "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    ),
    "by number": (
        "{% for i in range(messages | length) %}"
        "{% if messages[i].role == 'user' %}{% set ns.last = i %}{% endif %}{% endfor %}"
    ),
    "backwards": (
        "{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}"
        "{% if ns.searches and m.role == 'user' %}"
        "{% set ns.searches = false %}{% set ns.last = i %}{% endif %}{% endfor %}"
    ),
    "backwards to a break": (
        "{% for m in messages[::-1] %}{% if m.role == 'user' %}"
        "{% set ns.last = messages | length - 1 - loop.index0 %}{% break %}{% endif %}{% endfor %}"
    ),
    "backwards to the first": (
        "{% for i in range(messages | length - 1, -1, -1) %}"
        "{% if messages[i]['role'] == 'user' and not messages[i].get('tool_calls') %}"
        "{% set ns.last = i %}{% endif %}{% endfor %}"
    ),
    "a sum": "{% for m in messages %}{% set ns.last = ns.last + 1 %}{% endfor %}",
    "roles": (
        "{% for m in messages %}{% if m.role == 'user' %}{% set ns.by = 'user' %}{% endif %}{% endfor %}"
    ),
}
LISTS = {
    "all": "{% set some = messages %}",
    "behind the first": "{% set some = messages[1:] %}",
    "behind the system prompt": (
        "{% set some = messages[1:] if messages[0].role == 'system' else messages %}"
    ),
    "without the last": "{% set some = messages[:-1] %}",
    "behind the last question": "{% set some = messages[ns.last:] %}",
}
LOOPS = {
    "items": "{% for m in some %}BODY{% endfor %}",
    "numbers": "{% for i in range(1, messages | length) %}{% set m = messages[i] %}BODY{% endfor %}",
    "in a condition": "{% if messages %}{% for m in some %}BODY{% endfor %}{% endif %}",
}
# They read more than their message, and set more than the text.
READERS = {
    "old thoughts": (
        "{% if loop.index0 > ns.last and m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
    ),
    "not the last question": "{% if loop.index0 != ns.last %}-{% endif %}",
    "from the last question": "{% if ns.last <= loop.index0 %}-{% endif %}",
    "before it": "{% if loop.index0 < ns.last %}-{% endif %}{% if ns.last == loop.index %}={% endif %}",
    "variable": "{% if loop.index0 >= last %}-{% endif %}",
    "last question": "{{ ns.last }}",
    "last": "{% if loop.last %}!{% endif %}",
    "counted": "{% if loop.index0 == messages | length - 1 %}!{% endif %}",
    "counted on": "{% if messages | length > loop.index + 2 %}.{% endif %}",
    "length": "{{ loop.length }}{{ messages | length }}",
    "neighbours": (
        "{% if loop.index0 and messages[loop.index0 - 1].role == 'tool' %}<{% endif %}"
        "{% if not loop.last and messages[loop.index0 + 1].role == 'tool' %}>{% endif %}"
    ),
    "items beside": (
        "{% if loop.previtem and loop.previtem.role == m.role %}<{% endif %}"
        "{% if loop.nextitem is defined and loop.nextitem.role != m.role %}>{% endif %}"
    ),
    "parity": "{% if (m.role == 'user') != (ns.n % 2 == 0) %}?{% endif %}{% set ns.n = ns.n + 1 %}",
    "state": "{% if ns.by == m.role %}+{% endif %}{% set ns.by = m.role %}",
    "state, set first": "{% set ns.by = m.role %}{{ ns.by }}",
    "state, undefined": "{% set ns.by = m.name %}{{ ns.by }}",
    "counted in the list": "{% if loop.index0 == some | length - 1 %}!{% endif %}",
    "the rest": "{% set rest = messages[loop.index + 2:] %}{% if rest | length == 0 %}.{% endif %}",
    "turned round": "{{ messages[::-1][1].content }}",
    "list": "{% set ns.seen = ns.seen + [m.role] %}{{ ns.seen | length }}",
    "once": "{% if not ns.found %}first{% endif %}{% set ns.found = true %}",
    "forgets": "{% set ns.made = namespace(x=m.role) %}{{ ns.made.x }}",
    "the role before": (
        "{% set p = namespace(role=none, found=false) %}{% for j in range(loop.index0 - 1, -1, -1) %}"
        "{% if not p.found %}{% if messages[j].role != 'tool' %}"
        "{% set p.role = messages[j].role %}{% set p.found = true %}{% endif %}{% endif %}{% endfor %}"
        "{{ p.role }}"
    ),
    "results ahead": (
        "{% set p = namespace(stopped=false) %}{% for k in range(loop.index0 + 1, messages | length) %}"
        "{% if p.stopped %}{% elif messages[k].role != 'tool' %}{% set p.stopped = true %}"
        "{% else %}[{{ messages[k].content }}]{% endif %}{% endfor %}"
    ),
    "an answer ahead": (
        "{% set p = namespace(found=false) %}{% for f in messages[loop.index:] %}"
        "{% if f.role == 'assistant' and 'tool_calls' not in f %}{% set p.found = true %}{% endif %}"
        "{% endfor %}{% if p.found %}*{% endif %}"
    ),
    "all again": "{% for o in messages %}{% if o.tool_call_id == m.tool_call_id %}.{% endif %}{% endfor %}",
    "a macro": "{{ number(messages, m) }}",
    "a macro that counts": "{{ next(ns) }}",
    "selected": "{% if m == asked[-1] %}@{% endif %}",
    "selected, counted": "{{ asked | length }}",
    "ends": "{% if m.content == 'z1' %}{% break %}{% endif %}",
    "skips": "{% if m.content == 'z1' %}{% continue %}{% endif %}",
    "tools": "{% if tools and loop.first %}{{ tools | tojson }}{% endif %}",
    "day": "{{ strftime_now('%d') }}",
    "refuses": "{% if m.content == 'no' %}{{ raise_exception('no') }}{% endif %}",
    "text of all": "{% if m.content == 'z3' %}{{ messages }}{% endif %}",
    "membership": "{% if m in messages[2:] %}:{% endif %}",
}
BEGIN = (
    "{% set ns = namespace(last=-1, searches=true, n=0, by='', seen=[], found=false) %}"
    "{% macro number(all, one) %}{% for o in all %}{% if o == one %}{{ loop.index }}{% endif %}{% endfor %}"
    "{% endmacro %}"
    "{% macro next(state) %}{% set state.n = state.n + 1 %}{{ state.n }}{% endmacro %}"
)
AND = "{% set asked = messages | selectattr('role', 'equalto', 'user') | list %}{% set last = ns.last %}"
PLAIN = "<{{ m.role }}>{{ m.content }}\n"


@cache
def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos="<s>", eos="</s>")


def put_together(
    *readers: str, scan: str = "forwards", of: str = "all", loop: str = "items", after: str = AFTER[0]
) -> str:
    body = "".join(READERS[reader] for reader in readers) + PLAIN
    return BEGIN + SCANS[scan] + LISTS[of] + AND + LOOPS[loop].replace("BODY", body) + after


def rendered(source: str, forms: list[Form], journal: Journal | None = None, **more: Any) -> str | None:
    """The text; None where the template refuses the conversation."""
    more = {"add_generation_prompt": True, **more}
    try:
        return template(source).render(forms, journal=journal, **more)
    except TemplateError:
        return None


# ---- conversations


def said(choose: random.Random) -> list[Form]:
    """One turn, or a part of one."""
    turn: list[Form] = [{"role": "user", "content": choose.choice("az") + str(choose.randrange(4))}]
    if choose.random() < 0.3:
        id_ = str(choose.randrange(3))
        call = {
            "id": id_,
            "type": "function",
            "function": {"name": "f", "arguments": {"x": choose.choice([1, True])}},
        }
        turn.append({"role": "assistant", "content": "", "tool_calls": [call]})
        turn.append({"role": "tool", "content": "sun", "tool_call_id": id_})
    answer: Form = {"role": "assistant", "content": choose.choice(["yes", "z1", ""])}
    if choose.random() < 0.4:
        answer["reasoning_content"] = "hm"
    return [*turn, answer][: choose.choice([1, 4, 4])]


def changed(choose: random.Random, forms: list[Form]) -> list[Form]:
    """The conversation one step later: longer mostly, but edited, cut, evicted or copied as well."""
    forms = list(forms)
    i = choose.randrange(len(forms))
    what = choose.choice(
        ["more"] * 6
        + ["edited", "cut", "evicted", "copied", "system", "same", "another key order", "of another role"]
    )
    if what == "more":
        forms += said(choose)
    elif what == "edited":
        forms[i] = {**forms[i], "content": choose.choice(["z1", "z3", "no"])}
    elif what == "cut":
        del forms[max(1, i) :]
    elif what == "evicted":
        del forms[1 : 1 + choose.randrange(3)]
    elif what == "of another role":
        forms[i] = {**forms[i], "role": "user"}
    elif what == "copied":
        forms[i] = copy.deepcopy(forms[i])
    elif what == "system":
        forms.append({"role": "system", "content": "now"})
    elif what == "another key order":
        forms[i] = dict(reversed(forms[i].items()))
    return forms


def check(source: str, seed: int) -> None:
    choose, journal = random.Random(seed), Journal()
    forms: list[Form] = [{"role": "system", "content": "be brief"}, *said(choose)][choose.randrange(2) :]
    has_tools = asks = True
    for _ in range(9):
        if choose.random() < 0.1:
            has_tools, asks = not has_tools, choose.random() < 0.8
        more = {"tools": TOOLS if has_tools else None, "add_generation_prompt": asks}
        expected = rendered(source, forms, **more)
        assert rendered(source, forms, journal, **more) == expected, source
        forms = changed(choose, forms)


def test_text_is_that_of_the_whole_conversation() -> None:
    """Of templates that are put together at random."""
    choose = random.Random(1)
    readers = sorted(READERS)
    for i in range(examples(len(READERS))):
        some = [readers[i % len(readers)], *choose.sample(readers, choose.randrange(3))]
        source = put_together(
            *some,
            scan=choose.choice(sorted(SCANS)),
            of=choose.choice(sorted(LISTS)),
            loop="items" if choose.random() < 0.7 else choose.choice(sorted(LOOPS)),
            after=choose.choice(AFTER),
        )
        check(source, i)


def test_text_is_that_of_the_whole_conversation_with_all_that_templates_do() -> None:
    """With what the proof of locality refuses: variables that end, cyclers, shadowed names."""
    choose = random.Random(2)
    loop = "{% for m in messages %}BODY{% endfor %}"
    for i in range(examples(len(BODIES))):
        body = BODIES[i % len(BODIES)]
        before, after = choose.choice(PLAIN_BEFORE), choose.choice(AFTER)
        check(choose.choice(DEFINITIONS) + before + loop.replace("BODY", body) + after, i)


@pytest.mark.parametrize("name", sorted(MANNERS))
def test_text_is_that_of_the_whole_conversation_by_a_family(name: str) -> None:
    check(MANNERS[name].template, 3)
    check(MANNERS[name].template, 4)


# ---- how much is rendered


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Positions of the messages that were read."""
    found: list[int] = []
    read = Rendering.read

    def spy(self: Rendering, position: int) -> Any:
        found.append(position)
        return read(self, position)

    monkeypatch.setattr(Rendering, "read", spy)
    return found


# Each iteration reads what the newest message changes, or nothing can be recorded.
WHOLE = {"last question", "length", "all again", "a macro", "selected", "selected, counted"}
WHOLE |= {"forgets", "membership", "turned round"}


def read_in_last_turn(source: str, n_read: list[int], **more: Any) -> int:
    journal = Journal()
    forms: list[Form] = [{"role": "system", "content": "be brief"}]
    for i in range(40):
        call = {"id": str(i), "type": "function", "function": {"name": "f", "arguments": {}}}
        forms += [
            {"role": "user", "content": f"q{i}"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        ]
        forms.append({"role": "tool", "content": "sun", "tool_call_id": str(i)})
        forms.append({"role": "assistant", "content": f"a{i}", "reasoning_content": "hm"})
    for i in range(3):
        forms = [*forms, {"role": "user", "content": f"so {i}?"}]
        n_read.clear()
        assert rendered(source, forms, journal, **more) == rendered(source, forms, **more)
        forms.append({"role": "assistant", "content": "yes"})
    return len(n_read)


@pytest.mark.parametrize("name", sorted(READERS.keys() - WHOLE))
def test_only_new_messages_are_rendered(name: str, n_read: list[int]) -> None:
    assert 0 < read_in_last_turn(put_together(name), n_read) < 30


@pytest.mark.parametrize("scan", sorted(SCANS.keys() - {"a sum"}))
@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_only_new_messages_are_scanned(scan: str, loop: str, n_read: list[int]) -> None:
    source = put_together("old thoughts" if loop != "numbers" else "state", scan=scan, loop=loop)
    source = source.replace(READERS["old thoughts"], "{% if loop.index0 > ns.last %}-{% endif %}")

    # The list of `messages[::-1]` has all of them, unread.
    assert read_in_last_turn(source, n_read) - 170 * (scan.startswith("backwards") and "::" in source) < 30


def test_selected_messages_that_are_not_read_change_nothing(n_read: list[int]) -> None:
    unread = "{% if tools and m == asked[-1] %}@{% endif %}"
    source = put_together("state").replace(READERS["state"], unread)

    assert read_in_last_turn(source, n_read) < 30
    assert read_in_last_turn(source, n_read, tools=TOOLS) > 160


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_loop_whose_iterations_read_the_newest_message_is_rendered_as_a_whole(
    name: str, n_read: list[int]
) -> None:
    assert read_in_last_turn(put_together(name), n_read) > 150


# ---- what could be mistaken


def turns(n: int) -> list[Form]:
    pairs = [
        [{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"a{i}"}] for i in range(n)
    ]
    return [form for pair in pairs for form in pair]


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
)
def test_values_that_are_equal_but_written_in_another_way(old: object, new: object) -> None:
    source = "{% for m in messages %}{{ m.more }}\n{% endfor %}"
    journal = Journal()
    forms = turns(2)
    forms[1]["more"] = old
    rendered(source, forms, journal)
    forms[1] = {**forms[1], "more": new}

    assert rendered(source, forms, journal) == rendered(source, forms)


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
)
def test_variables_that_are_equal_but_written_in_another_way(old: object, new: object) -> None:
    source = "{% set x = messages[-1].more %}{% for m in messages %}{{ x }}\n{% endfor %}"
    journal = Journal()
    for more in (old, new):
        forms = [*turns(2), {"role": "user", "content": "", "more": more}]
        assert rendered(source, forms, journal) == rendered(source, forms)


def test_message_that_an_iteration_before_the_resumed_ones_has_read() -> None:
    source = (
        "{% set ns = namespace(x=messages[-1].content) %}{% for m in messages %}{{ m.content }}"
        "{% if loop.first %}{{ messages[4].content }}{% endif %}"
        "{% if loop.index0 == 2 %}{{ ns.x }}{% endif %}\n{% endfor %}"
    )
    journal = Journal()
    forms = turns(3)
    rendered(source, forms, journal)
    for i in (5, 4):
        forms[i] = {**forms[i], "content": "another"}
        assert rendered(source, forms, journal) == rendered(source, forms)


def test_newest_message_is_another_one_in_a_list_that_a_loop_turns_round() -> None:
    source = "{% for m in messages %}{{ messages[::-1][0].content }}\n{% endfor %}"
    journal = Journal()
    for content in ("a", "b"):
        forms = [*turns(2), {"role": "user", "content": content}]
        assert rendered(source, forms, journal) == rendered(source, forms)


def test_message_that_a_filter_selects_no_more() -> None:
    source = (
        "{% set asked = messages | selectattr('role', 'equalto', 'user') | list %}"
        "{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% for m in asked %}{{ m.content }}\n{% endfor %}"
    )
    journal = Journal()
    forms = turns(3)
    for i, role in ((2, "assistant"), (3, "user")):
        rendered(source, forms, journal)
        forms[i] = {**forms[i], "role": role}
        assert rendered(source, forms, journal) == rendered(source, forms)


@pytest.mark.parametrize(
    "use",
    [
        "{% for one in asked | reverse %}{{ one.content }}{% endfor %}",
        "{% for one in asked[::-1] %}{{ one.content }}{% endfor %}",
        "{% for one in asked[1:-1] %}{{ one.content }}{% endfor %}",
        "{{ (asked | first).content }}{{ (asked | last).content }}",
        "{{ asked[0].content }}{{ asked[-1].content }}",
        "{{ asked[9] is defined }}{{ asked | length }}{{ m in asked }}",
        "{{ asked | map(attribute='content') | join(',') }}",
    ],
)
@pytest.mark.parametrize("is_inside", [True, False])
def test_selected_messages_are_used_as_a_list_is(use: str, is_inside: bool) -> None:
    place = (use, "") if is_inside else ("", use.replace("m in asked", "messages[0] in asked"))
    select = "{% set asked = messages | selectattr('role', 'equalto', 'user') | list %}"
    source = f"{select}{{% for m in messages %}}{{{{ m.content }}}}{place[0]}{{% endfor %}}{place[1]}"
    journal = Journal()
    for n in (2, 3, 5, 4):
        shown = rendered(source, turns(n), journal)
        assert shown is not None
        assert shown == rendered(source, turns(n))


@pytest.mark.parametrize("operator", ["==", "!=", ">", ">=", "<", "<="])
@pytest.mark.parametrize(
    "left", ["loop.index0", "loop.index", "ns.last", "last", "messages | length", "some | length - 2"]
)
def test_each_comparison_is_as_in_the_whole_rendering(left: str, operator: str) -> None:
    compared = "".join(
        f"{{% if {left} {operator} {right} %}}{number}{{% endif %}}"
        for number, right in enumerate(("ns.last", "loop.index0", "loop.length - 1", "5"))
    )
    source = put_together("state").replace(READERS["state"], compared)
    journal = Journal()
    for n in (1, 2, 3, 5, 4):
        assert rendered(source, turns(n), journal) == rendered(source, turns(n))


def test_variable_of_the_same_name_that_a_macro_reads_outside_of_the_loop() -> None:
    source = (
        "{% set m = messages[-1] %}{% macro newest() %}{{ m.content }}{% endmacro %}"
        "{% for m in messages %}{{ m.content }}:{{ newest() }}\n{% endfor %}"
    )
    journal = Journal()
    for n in (2, 3):
        assert rendered(source, turns(n), journal) == rendered(source, turns(n))


def test_variable_by_the_name_of_the_loop() -> None:
    source = (
        "{% set loop = messages | length %}{% macro n() %}{{ loop }}{% endmacro %}"
        "{% for m in messages %}{{ m.content }}{{ n() }}\n{% endfor %}"
    )
    journal = Journal()
    for n in (2, 3):
        assert rendered(source, turns(n), journal) == rendered(source, turns(n))


def test_loop_that_is_not_entered_in_between() -> None:
    source = (
        "{% if messages[-1].content != 'q2' %}{% for m in messages %}{{ m.content }}\n{% endfor %}{% endif %}"
    )
    journal = Journal()
    for forms in (turns(2), turns(3)[:-1], [{"role": "user", "content": "other"}, *turns(3)[1:]]):
        assert rendered(source, forms, journal) == rendered(source, forms)


def test_text_before_the_loop_of_another_length() -> None:
    loop = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    source = "{{ messages[-1].content }}" + loop + "{{ messages | length }}"
    journal = Journal()
    for n in (2, 3):
        forms = [*turns(n), {"role": "user", "content": "long " * n}]
        assert rendered(source, forms, journal) == rendered(source, forms)


def test_two_templates_with_one_journal() -> None:
    journal = Journal()
    for source in (CHATML, CHATML.replace("im_start", "start")):
        assert rendered(source, turns(3), journal) == rendered(source, turns(3))


def test_options_are_a_part_of_what_was_read() -> None:
    made = ChatTemplate("{% for m in messages %}{{ m.content }}{{ enable_thinking }}\n{% endfor %}")
    journal = Journal()
    for thinks in (True, False):
        told = made.with_options(TemplateOptions(thinks=thinks))
        texts = [told.render(turns(2), add_generation_prompt=False, journal=one) for one in (journal, None)]
        assert texts[0] == texts[1]
        assert str(thinks) in texts[0]


def test_another_day_is_a_part_of_what_was_read() -> None:
    now = [1_700_000_000.0]
    made = ChatTemplate("{% for m in messages %}{{ strftime_now('%d') }}{% endfor %}", clock=lambda: now[0])
    journal = Journal()
    first = made.render(turns(2), add_generation_prompt=True, journal=journal)
    now[0] += 86_400
    assert made.turn_day()

    assert made.render(turns(2), add_generation_prompt=True, journal=journal) != first


def test_template_that_refuses_once_is_resumed_later(n_read: list[int]) -> None:
    source = put_together("refuses")
    journal = Journal()
    assert rendered(source, [*turns(2), {"role": "user", "content": "no"}], journal) is None
    for n in (20, 21):
        n_read.clear()
        assert rendered(source, turns(n), journal) == rendered(source, turns(n))

    assert len(n_read) < 20


def test_journal_in_use_is_left_alone() -> None:
    journal = Journal()
    rendered(CHATML, turns(2), journal)
    with journal.lock:
        assert rendered(CHATML, turns(3), journal) == rendered(CHATML, turns(3))

    assert len(journal.forms) == 4


def test_text_of_earlier_renderings_counts_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_sandbox, "_MAX_CHARS", 2600)
    monkeypatch.setattr(template_sandbox, "_CHARS_PER_CHAR", 0)
    monkeypatch.setattr(template_sandbox, "_CHARS_PER_ITEM", 0)
    made = ChatTemplate("{% for m in messages %}" + "x" * 60 + "{% endfor %}")
    journal = Journal()
    made.render(turns(8), add_generation_prompt=True, journal=journal)

    with pytest.raises(ModelFormatError, match="more text than it may"):
        made.render(turns(16), add_generation_prompt=True, journal=journal)
