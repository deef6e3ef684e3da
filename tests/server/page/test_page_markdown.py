"""What a model writes becomes elements: the usual Markdown, and of hostile text nothing that runs."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from shepherd.types import Message

SHOW = """async text => {
    const { showMarkdown } = await import("/page/markdown.js");
    const element = document.createElement("div");
    showMarkdown(element, text);
    return element.innerHTML;
}"""
# The same text as it comes in pieces, and at once.
GROW = """async text => {
    const { showMarkdown } = await import("/page/markdown.js");
    const [grown, whole] = [document.createElement("div"), document.createElement("div")];
    for (let n = 1; n <= text.length; n += 1) showMarkdown(grown, text.slice(0, n));
    showMarkdown(whole, text);
    return [grown.innerHTML, whole.innerHTML];
}"""
RENDERED = {
    "**bold** and *slanted*, not 2 * 3 * 4": "<strong>bold</strong> and <em>slanted</em>, not 2 * 3 * 4",
    "***both***": "<strong><em>both</em></strong>",
    "snake_case_name and __init__": "snake_case_name and <strong>init</strong>",
    "_word_ ~~gone~~": "<em>word</em> <del>gone</del>",
    "`a * b` and ``a ` b``": '<code dir="ltr">a * b</code> and <code dir="ltr">a ` b</code>',
    r"\*stars\* and a \\": r"*stars* and a \\"[:-1],
    "one\ntwo": "one<br>two",
    "**open": "**open",
    "`let` كلمة": '<code dir="ltr">let</code> كلمة',
    "a [link](https://example.org/a) b": 'a <a href="https://example.org/a" target="_blank"'
    ' rel="noopener noreferrer">link</a> b',
    "see https://example.org/a.": 'see <a href="https://example.org/a" target="_blank"'
    ' rel="noopener noreferrer">https://example.org/a</a>.',
}
BLOCKS = {
    "# One\n\n### Three": ["h3", "h5"],
    "- a\n- b\n\n1. c\n2. d": ["ul", "ol"],
    "> quoted\n\n---\n\ntext": ["blockquote", "hr", "p"],
    "```python\nif a:\n    b\n```\ntext": ["pre", "p"],
    "| a | b |\n|---|:-:|\n| 1 | 2 |": ["div"],
    "```\nnot closed": ["pre"],
    "a | b\nno table": ["p"],
}
SAMPLE = """# Title

A **bold** [link](https://example.org) and `code`.

1. one
   - inner
   - more

2. two

```js
let a = "*no*";

a += 1;
```

| a | b |
|---|---|
| 1 | *2* |

> quoted
> > twice

last
"""
RUNNING = [
    "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>",
    "[click](javascript:window.stolen=1) [click](JaVaScRiPt:window.stolen=1) <javascript:window.stolen=1>",
    "[click](data:text/html,<script>window.stolen=1</script>) [c](vbscript:x) [c](file:///etc/passwd)",
    "[click](java\tscript:window.stolen=1) [click](\x01javascript:window.stolen=1) [c](//evil.example/x)",
    "![picture](https://example.org/track.png) ![p](javascript:window.stolen=1)",
    "[a](https://example.org\" onclick=\"window.stolen=1) [b](https://x'onmouseover='window.stolen=1)",
    "```html\n<script>window.stolen = 1</script>\n```",
    '```"><img src=x onerror=window.stolen=1>\ncode\n```',
    "| <img src=x onerror=window.stolen=1> | b |\n|---|---|\n| <svg onload=window.stolen=1> | c |",
    "\u202e[evil](https://example.org)\u2066",
]
HUGE = [
    ">" * 50_000,
    "> " * 20_000 + "deep",
    "- " * 20_000 + "deep",
    "".join("  " * n + "- deep\n" for n in range(300)),
    "[" * 50_000,
    "[" * 10_000 + "](" * 10_000,
    "*a " * 20_000,
    "**a " * 20_000,
    "_a " * 20_000 + "`" * 20_001,
    "*" * 50_000,
    "***a** b* " * 5_000,
    "<" * 50_000,
    "`a ``b " * 10_000,
    "|" * 50_000 + "\n" + "|-" * 25_000,
    "1. " * 20_000,
    "x" * 100_000,
    "https://" * 20_000,
    "\\" * 50_001,
]


@pytest.fixture
def page(mini, visit):
    shown = visit(mini.url, "a reader of Markdown")
    shown.open("chat")
    return shown.page


def test_marks_become_elements(page):
    shown = {text: page.evaluate(SHOW, text) for text in RENDERED}

    assert shown == {text: f'<p dir="auto">{inner}</p>' for text, inner in RENDERED.items()}


def test_blocks_become_elements(page):
    show = SHOW.replace("element.innerHTML", "[...element.children].map(one => one.localName)")

    assert {text: page.evaluate(show, text) for text in BLOCKS} == BLOCKS


def test_code_is_shown_to_the_letter(page):
    text = page.evaluate(
        SHOW.replace("innerHTML", "querySelector('code').textContent"), "~~~\na\n\n  *b*\n```\n~~~"
    )

    assert text == "a\n\n  *b*\n```"


def test_a_text_that_grows_ends_as_one_that_came_at_once(page):
    grown, whole = page.evaluate(GROW, SAMPLE)

    assert grown == whole
    assert whole.count("<li>") == 4
    assert "<table>" in whole


def test_blocks_that_are_complete_stay_while_the_text_grows(page):
    stays = """async ([first, second]) => {
        const { showMarkdown } = await import("/page/markdown.js");
        const element = document.createElement("div");
        showMarkdown(element, first);
        const before = element.firstChild;
        showMarkdown(element, second);
        return before === element.firstChild;
    }"""

    assert page.evaluate(stays, ["one\n\ntwo", "one\n\ntwo three"])
    assert not page.evaluate(stays, ["one", "one two"])


def test_hostile_text_of_a_model_runs_nothing(page, memory, mini):
    user = "a reader of Markdown"
    session = memory.start_session(user)
    for text in RUNNING:
        memory.append_message(session, Message("user", f"Say {text}"), user)
        memory.append_message(session, Message("assistant", text, thought=text), user)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    page.goto(f"{mini.url}/#/chat/{session}")
    expect(page.locator(".prose")).to_have_count(len(RUNNING))
    links = page.locator("main a[target]").evaluate_all("all => all.map(one => one.protocol)")
    foreign = "script, img, svg:not(.icon), iframe, [onclick], [onerror], [onload], [style]"

    assert set(links) == {"https:"}
    assert page.locator(".thread").locator(foreign).count() == 0
    assert page.evaluate("window.stolen") is None
    assert all(url.startswith(mini.url) for url in asked)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_huge_text_is_shown_and_nests_no_deeper_than_a_page_can(page):
    deepest = """async text => {
        const { showMarkdown } = await import("/page/markdown.js");
        const element = document.createElement("div");
        showMarkdown(element, text);
        const depth = one => 1 + Math.max(0, ...[...one.children].map(depth));
        return element.querySelectorAll("*").length > 100_000 ? 1e9 : depth(element);
    }"""
    depths = {n: page.evaluate(deepest, text) for n, text in enumerate(HUGE)}

    assert {n: depth for n, depth in depths.items() if depth > 40} == {}


def test_columns_of_a_table_are_aligned_as_the_line_below_the_header_says(mini, memory, visit):
    shown = visit(mini.url, "a reader of prices")
    rows = [
        "| Item | Price | Rating | Note |",
        "|:--|--:|:-:|---|",
        "| Rye | 1.20 | good |",
        "| Oats | 2 | ok | x |",
    ]
    session = memory.start_session(shown.user)
    for message in (Message("user", "prices?"), Message("assistant", "\n".join(rows))):
        memory.append_message(session, message, shown.user)
    shown.open(f"chat/{session}")

    sides = shown.page.locator(".prose tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => getComputedStyle(cell).textAlign))"
    )

    assert sides == [
        ["left", "right", "center", "start"],
        ["left", "right", "center"],
        ["left", "right", "center", "start"],
    ]


def test_words_in_a_table_stay_whole_and_long_numbers_of_a_list_have_room(mini, memory, visit):
    shown = visit(mini.url, "a reader on a phone", viewport={"width": 390, "height": 844})
    table = (
        f"| Month | Sow | {'A long heading ' * 4}|\n|---|---|---|\n| September | chillies | {'words ' * 30}|"
    )
    lines = "\n".join(f"{n}. line" for n in range(1, 101))
    session = memory.start_session(shown.user)
    for message in (Message("user", "`let` هو"), Message("assistant", f"{table}\n\n{lines}\n\n`let` هو")):
        memory.append_message(session, message, shown.user)
    shown.open(f"chat/{session}")
    page = shown.page

    heights = page.locator("td:nth-child(1), td:nth-child(2)").evaluate_all(
        """cells => cells.map((cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
        })"""
    )
    # The numbers hang in the margin of the list: three digits, a dot and a gap need 36 pixels here.
    room = page.locator(".prose ol").evaluate("one => parseFloat(getComputedStyle(one).paddingInlineStart)")

    assert heights == [1, 1]
    assert room > 36
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.locator(".prose > p")).to_have_css("direction", "rtl")
