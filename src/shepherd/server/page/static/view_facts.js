// Facts: what is known for sure, what it was before, and what was forgotten.

import { get, put, remove } from "./api.js";
import { area, empty, field, fill, h, longWords, newId, words } from "./dom.js";
import { entryForm, newEntry, refill } from "./forms.js";
import { ago, beginning, count, date, iso, moment, origin } from "./format.js";
import { icon } from "./icons.js";
import { attempt, offerUndo, say } from "./notice.js";

export async function show(root) {
  const list = h("div", { class: "list" });
  const view = { list, gone: h("div", {}), summary: h("p", { class: "summary", role: "status" }) };
  fill(root, h("div", { class: "heading" }, h("h1", {}, "Facts"), addButton(view)), view.summary, list, view.gone);
  await load(view);
}

async function load(view) {
  const told = await get("/v1/facts", { history: true });
  const past = periodsByKey(told.periods);
  view.summary.textContent = told.data.length
    ? `${count(told.data.length, "fact")}, which every message may have beside it`
    : "";
  refill(view.list, told.data.length ? told.data.map((fact) => factCard(view, fact, past)) : [nothing()]);
  const known = new Set(told.data.map((fact) => fact.key));
  fill(view.gone, forgotten(view, [...past].filter(([key]) => !known.has(key))));
}

function nothing() {
  return empty(
    "No facts yet.",
    "A fact is a name and a value, such as location and Texas. Shepherd learns them from what you say; “Add a fact” tells it one.",
  );
}

/** The periods of each key's values, the newest first; keys by the newest period. */
function periodsByKey(periods) {
  const past = new Map();
  for (const period of periods.toReversed()) {
    if (!past.has(period.key)) past.set(period.key, []);
    past.get(period.key).push(period);
  }
  return past;
}

function addressOf(key) {
  return `/v1/facts/${encodeURIComponent(key)}`;
}

// ---- one fact

function factCard(view, fact, past) {
  const card = h("article", { class: "card fact", "data-id": fact.key });
  drawFact(view, card, fact, past.get(fact.key) ?? []);
  return card;
}

function drawFact(view, card, fact, changes) {
  const id = newId("fact");
  card.setAttribute("aria-labelledby", id);
  fill(
    card,
    h("h2", { class: "key" }, words(fact.key, { id })),
    longWords(fact.value, { class: "value" }),
    h(
      "div",
      { class: "foot" },
      h("p", { class: "meta" }, h("time", { datetime: iso(fact.updated_at), title: moment(fact.updated_at) }, ago(fact.updated_at)), changes[0]?.source ? words(origin(changes[0].source)) : null),
      h(
        "div",
        { class: "actions" },
        factButton("edit", "Edit", id, () => editFact(view, card, fact, changes)),
        factButton("forget", "Forget", id, (made) => forgetFact(view, fact, made)),
      ),
    ),
    pastOf(changes),
  );
}

function factButton(name, label, id, act) {
  const made = h("button", { type: "button", class: "quiet", id: newId(name), "data-act": name }, icon(name), label);
  made.setAttribute("aria-labelledby", `${made.id} ${id}`);
  made.addEventListener("click", () => act(made));
  return made;
}

function pastOf(periods) {
  if (periods.length > 1) return timeline(periods, count(periods.length - 1, "earlier value"));
  return periods[0]?.statement ? timeline(periods, "Where it comes from") : null;
}

/** From when until when each value held, who said so, and in which words. */
function timeline(periods, label) {
  if (!periods.length) return null;
  const entries = periods.map((period) =>
    h(
      "li",
      {},
      words(period.value),
      h("span", { class: "meta" }, h("span", {}, span(period)), period.source ? words(origin(period.source)) : null),
      period.statement ? words(`“${period.statement}”`, { class: "said" }, "p") : null,
    ),
  );
  return h("details", { class: "past" }, h("summary", {}, label), h("ol", { class: "timeline" }, entries));
}

function span({ since, until }) {
  const from = h("time", { datetime: iso(since), title: moment(since) }, date(since));
  if (until === null) return ["since ", from];
  if (until <= since) return [from, ", corrected"];
  return [from, " – ", h("time", { datetime: iso(until), title: moment(until) }, date(until))];
}

function editFact(view, card, fact, changes) {
  const value = area(fact.value, { name: "value" });
  const leave = () => {
    drawFact(view, card, fact, changes);
    card.querySelector("[data-act=edit]").focus();
  };
  const send = async () => {
    await put(addressOf(fact.key), { value: value.value });
    drawFact(view, card, { ...fact, value: value.value }, changes);
    await load(view);
    focusFact(view, fact.key, "edit");
    say("Saved. What it was before stays in its history.");
  };
  const form = entryForm([h("h2", { class: "key" }, words(fact.key)), field("Value", value)], { keep: "Save", send, leave });
  card.removeAttribute("aria-labelledby");
  fill(card, form);
  value.focus();
}

async function forgetFact(view, fact, button) {
  await attempt(button, async () => {
    await remove(addressOf(fact.key));
    await load(view);
    const undo = () => put(addressOf(fact.key), { value: fact.value });
    offerUndo(`Forgotten: ${beginning(fact.key, 50)}`, undo, {
      after: async () => {
        if (!view.list.isConnected) return;
        await load(view);
        focusFact(view, fact.key, "forget");
      },
    });
  });
}

function focusFact(view, key, act) {
  const cards = [...view.list.querySelectorAll(".fact")];
  const card = cards.find((one) => one.querySelector(".key").textContent === key) ?? cards[0];
  (card?.querySelector(`[data-act=${act}]`) ?? document.getElementById("view")).focus();
}

// ---- those that are gone, and new ones

function forgotten(view, gone) {
  if (!gone.length) return null;
  const entries = gone.map(([key, changes]) => {
    const last = changes[0];
    const again = h("button", { type: "button", class: "quiet" }, "Know it again");
    again.addEventListener("click", () =>
      attempt(again, async () => {
        await put(addressOf(key), { value: last.value });
        await load(view);
        focusFact(view, key, "edit");
        say("It is a fact again.");
      }),
    );
    return h("li", {}, h("div", { class: "row" }, words(key, { class: "key" }), again), timeline(changes, "What it was"));
  });
  return h("details", { class: "gone" }, h("summary", {}, `${count(gone.length, "forgotten fact")}`), h("ul", { class: "plain" }, entries));
}

function addButton(view) {
  const fields = () => {
    const key = h("input", { type: "text", name: "key", required: true, autocomplete: "off", dir: "auto" });
    const value = area("", { name: "value", required: true });
    const hint = "One or two words, such as favourite_colour. A name that is there already gets the new value.";
    const values = () => ({ key: key.value.trim(), value: value.value });
    return { parts: [field("Name", key, hint), field("Value", value)], first: key, values };
  };
  const send = async ({ key, value }, close) => {
    await put(addressOf(key), { value });
    close();
    await load(view);
    say("It is kept.");
  };
  return newEntry("Add a fact", { id: "new-fact", name: "A new fact", keep: "Keep it", fields, send, below: () => view.list });
}
