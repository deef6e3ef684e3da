"""The page of a server with several models and providers: which one answers, and what it may know."""

from __future__ import annotations

from playwright.sync_api import expect

from shepherd.memory import Memory


def test_a_provider_is_chosen_and_the_page_says_that_it_has_no_memory(with_providers, visit, afar):
    chat = visit(with_providers.url, "ines")
    page = chat.page
    chat.open("chat")
    choice, memory = page.get_by_label("Model"), page.locator(".memory-switch")
    groups = choice.locator("optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert groups == ["This machine", "firm", "friend"]
    expect(memory).to_have_text("Memory on")

    choice.select_option("firm/big")
    expect(memory).to_have_text("No memory")
    expect(memory).to_be_disabled()
    page.get_by_label("Message", exact=True).fill("I live in Paris.")
    page.keyboard.press("Enter")
    expect(page.locator(".prose")).to_have_text("From afar.")
    expect(page.locator(".reply-foot")).to_contain_text("no memory with this model: nothing was recalled")
    assert page.url.endswith("#/chat")  # a reload would find nothing

    choice.select_option("friend/big")
    expect(memory).to_have_text("Memory on")
    page.get_by_label("Message", exact=True).fill("I live in Rome.")
    page.keyboard.press("Enter")
    expect(page.locator(".prose")).to_have_count(2)
    expect(page.locator(".talk")).to_have_count(1)

    assert [one.body["messages"][-1]["content"][:16] for one in afar.asked[-2:]] == [
        "I live in Paris.", "I live in Rome.",
    ]  # fmt: skip
    with Memory(with_providers.database) as stored:
        assert len(stored.list_sessions("ines")) == 1


def test_a_conversation_keeps_its_model(with_providers, visit, afar):
    chat = visit(with_providers.url, "lena")
    page = chat.page
    chat.open("chat")
    choice = page.get_by_label("Model")
    choice.select_option("friend/big")
    page.get_by_label("Message", exact=True).fill("I live in Rome.")
    page.keyboard.press("Enter")
    expect(page.locator(".prose")).to_have_text("From afar.")

    page.reload()
    expect(page.locator(".prose")).to_have_text("From afar.")
    expect(choice).to_have_value("friend/big")
    other = visit(with_providers.url, "lena")  # a tab that has chosen nothing
    other.page.goto(page.url)
    expect(other.page.get_by_label("Model")).to_have_value("friend/big")
    local = other.page.get_by_label("Model").locator("option").first.get_attribute("value")
    other.page.get_by_label("Model").select_option(local)
    other.page.reload()
    expect(other.page.locator(".prose")).to_have_text("From afar.")
    expect(other.page.get_by_label("Model")).to_have_value(local)


def test_a_list_of_models_that_fails_is_read_again_and_the_choice_is_kept(with_providers, visit, afar):
    chat = visit(with_providers.url, "olga")
    page = chat.page
    chat.open("chat")
    choice = page.get_by_label("Model")
    choice.select_option("friend/big")
    say(page, "I live in Rome.")
    expect(page.locator(".prose")).to_have_text("From afar.")
    page.route("**/v1/models*", lambda route: route.abort(), times=1)
    page.reload()
    expect(page.locator(".prose")).to_have_text("From afar.")
    expect(choice).to_have_count(0)

    say(page, "I live in Oslo.")
    expect(page.locator(".prose")).to_have_text(["From afar.", "From afar."], timeout=15_000)
    address = page.url
    chat.open("memories")
    page.goto(address)
    expect(choice).to_have_value("friend/big", timeout=15_000)


def say(page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
