"""What was learned, on the page: proposals, decisions, changes; and the time line of a fact."""

from __future__ import annotations

from playwright.sync_api import expect

from shepherd.memory import Claim
from tests.learned import LIVED, MOVED, learn, propose, remember


def moved_twice(memory, user: str) -> None:
    """A location that was learned and changed, in place of the one that the user has set."""
    memory.clear_fact("location", user, with_history=True)
    remember(memory, user)


def card(steve, text: str):
    return steve.page.locator("article.learned", has_text=text)


def test_each_sentence_stands_beside_what_was_learned_and_is_undone(steve, memory):
    moved_twice(memory, steve.user)
    steve.open("learning")

    moved = card(steve, MOVED)
    expect(moved.locator(".result")).to_have_text("You live in Paris (before: Köln)")
    # Undoing what was replaced since is refused, so nothing offers it.
    lived = card(steve, LIVED)
    expect(lived.locator(".mark")).to_have_text("changed since")
    expect(lived.get_by_role("button")).to_have_count(0)
    moved.get_by_role("button", name="Undo").press("Enter")

    expect(steve.page.locator("#notices")).to_contain_text("Undone: You live in Köln, as before.")
    expect(moved.locator(".mark")).to_have_text("undone")
    expect(moved.get_by_role("button")).to_have_count(0)
    expect(lived.get_by_role("button", name="Undo")).to_be_visible()
    assert memory.get_fact("location", steve.user) == "Köln"


def test_a_fact_is_found_from_what_was_learned_also_if_that_has_changed(steve, memory):
    moved_twice(memory, steve.user)
    steve.open("learning")

    card(steve, LIVED).get_by_role("link", name="fact: location").press("Enter")

    fact = steve.page.locator("article.fact")
    expect(fact).to_contain_text("Paris")
    expect(fact).to_contain_text("Köln")
    expect(steve.page.locator(".row-main:focus")).to_contain_text("location")


def test_a_forgotten_fact_is_found_from_what_was_learned(steve, memory):
    moved_twice(memory, steve.user)
    memory.clear_fact("location", steve.user)
    steve.open("learning")

    card(steve, MOVED).get_by_role("link", name="fact: location").press("Enter")

    shown = steve.page.locator(".gone li", has=steve.page.locator("button:focus"))
    expect(shown).to_contain_text("location")
    expect(shown).to_be_in_viewport()


def test_what_was_learned_is_a_sentence(steve, memory):
    tea = "My favourite tea is green tea."
    learn(memory, steve.user, tea, Claim("favorite_tea", "green tea", tea, 0))
    learn(memory, steve.user, "I take the 7:42.", memories=("Which train does the user take?", "the 7:42"))
    steve.open("learned")

    expect(card(steve, tea).locator(".result")).to_have_text("Your favorite tea is green tea")
    train = card(steve, "I take the 7:42.")
    expect(train.locator(".result")).to_have_text("Which train you take: the 7:42")
    train.get_by_role("button", name="Undo").press("Enter")
    expect(steve.page.locator("#notices")).to_contain_text(
        "Undone: “Which train you take: the 7:42” is forgotten."
    )
    steve.page.get_by_role("link", name="show the conversation").first.press("Enter")
    expect(steve.page.locator(".bubble")).to_be_visible()


def test_keep_and_change_by_the_keyboard(steve, memory):
    moved_twice(memory, steve.user)
    steve.open("learning")
    moved = card(steve, MOVED)

    moved.get_by_role("button", name="Keep").press("Enter")
    expect(moved.locator(".mark")).to_have_text("kept")
    expect(moved.get_by_role("button", name="Keep")).to_have_count(0)
    expect(moved.get_by_role("button", name="Change")).to_be_focused()
    steve.page.keyboard.press("Enter")
    steve.page.keyboard.press("Control+A")
    steve.page.keyboard.type("Paris, 11th")
    moved.get_by_role("button", name="Save").press("Enter")

    expect(steve.page.locator("#notices")).to_contain_text("Changed.")
    assert memory.get_fact("location", steve.user) == "Paris, 11th"
    expect(moved.locator(".mark")).to_have_text(["kept", "changed since"])
    expect(moved.get_by_role("button")).to_have_count(0)


def test_what_changed_elsewhere_meanwhile_is_not_undone(steve, memory):
    moved_twice(memory, steve.user)
    steve.open("learning")
    moved = card(steve, MOVED)
    memory.set_fact("location", "Rome", steve.user)

    moved.get_by_role("button", name="Undo").press("Enter")

    expect(steve.page.locator("#notices")).to_contain_text("no longer possible")
    expect(moved.locator(".mark")).to_have_text("changed since")
    assert memory.get_fact("location", steve.user) == "Rome"


def test_proposals_stand_above_and_are_accepted_or_rejected(steve, memory):
    propose(memory, steve.user)
    steve.open("learning")
    proposals = steve.page.get_by_role("region", name="Waiting for your decision")

    expect(proposals.locator(".result")).to_have_text(
        "“You live in Berlin” would replace “You live in Texas”, which you set yourself."
    )
    proposals.get_by_role("button", name="Reject").press("Enter")
    expect(proposals).to_have_count(0)
    expect(card(steve, "I live in Berlin.").locator(".mark")).to_have_text("rejected")
    rejected = memory.get_fact("location", steve.user)
    sentence = "I live in Rome."
    learn(memory, steve.user, sentence, Claim("location", "Rome", sentence, 0))
    steve.page.get_by_role("button", name="Refresh").click()
    proposals.get_by_role("button", name="Accept").press("Enter")

    expect(steve.page.locator("#notices")).to_contain_text("Accepted: You live in Rome.")
    assert rejected == "Texas"
    assert memory.get_fact("location", steve.user) == "Rome"


def test_a_fact_has_a_time_line_with_the_sentences(steve, memory):
    moved_twice(memory, steve.user)
    steve.open("facts")
    steve.page.locator('.item[data-id="location"] .row-main').press("Enter")
    location = steve.page.locator(".fact", has_text="location")

    location.get_by_text("1 earlier value").press("Enter")

    entries = location.locator(".timeline > li")
    expect(entries).to_have_count(2)
    expect(entries.nth(0)).to_contain_text("since")
    expect(entries.nth(0)).to_contain_text(f"“{MOVED}”")
    expect(entries.nth(1)).to_contain_text(f"“{LIVED}”")


def test_an_undone_forgetting_restores_the_memory_exactly(steve, memory):
    before = memory.search("allergic", 1, steve.user)[0]
    record = memory.get_memory(before.id, steve.user)
    steve.open("memories")
    steve.page.get_by_role("searchbox").fill("allergic")
    expect(steve.page.locator(".item")).to_have_count(1)

    steve.page.locator(".row-main").press("Enter")
    steve.page.locator(".memory").get_by_role("button", name="Forget").press("Enter")
    expect(steve.page.get_by_role("button", name="Undo")).to_be_focused()
    steve.page.keyboard.press("Enter")
    expect(steve.page.locator(".item")).to_have_count(1)
    steve.page.locator(".row-main").press("Enter")
    expect(steve.page.locator(".memory .meta")).to_contain_text("learned from what you said")

    assert memory.get_memory(before.id, steve.user) == record


def test_older_ones_are_shown_when_asked_for(steve, memory):
    for n in range(60):
        sentence = f"My {n}. pet is called Rex {n}."
        learn(memory, steve.user, sentence, Claim(f"pet_{n}", f"Rex {n}", sentence, 0))
    steve.open("learning")

    expect(steve.page.locator("article.learned")).to_have_count(50)
    steve.page.get_by_role("button", name="Show older ones").press("Enter")

    expect(steve.page.locator("article.learned")).to_have_count(60)
    expect(steve.page.get_by_role("button", name="Show older ones")).to_have_count(0)
