// Facts: what is known for sure, what it was before, and what was forgotten.

import { Refused, get, post, put, removeEach } from "./api.js";
import { area, chatLink, empty, field, fill, h, longWords, newId, words } from "./dom.js";
import { entryForm, newEntry } from "./forms.js";
import { ago, beginning, count, date, folded, iso, moment, origin, writer } from "./format.js";
import { icon } from "./icons.js";
import { setKeys } from "./keys.js";
import { attempt, complain, isFinal, offerUndo, say, warn } from "./notice.js";
import { lifeline } from "./plots.js";
import { Rows, TIMES, choice, period, toolbar } from "./rows.js";
import { named } from "./wording.js";

const NAMES = ["fact", "facts"];

export async function show(root, [key]) {
  const view = { facts: [], past: new Map(), gone: h("div", {}) };
  const changed = () => draw(view);
  view.input = h("input", { type: "search", "aria-label": "Search your facts", placeholder: "Search your facts", autocomplete: "off", on: { input: changed } });
  view.source = choice("Source", [["", "All sources"]], changed);
  view.time = choice("Changed", TIMES, changed);
  view.order = choice("Order", [["name", "By name"], ["newest", "Last changed first"]], changed);
  view.rows = new Rows({
    label: "Facts",
    names: NAMES,
    columns: "fact-rows",
    id: (fact) => fact.key,
    line: (fact) => line(view, fact),
    open: (fact) => factCard(view, fact),
    actions: [["Forget", (facts) => forget(view, facts)]],
  });
  const form = h("form", { role: "search", class: "search", on: { submit: (event) => event.preventDefault() } }, view.input);
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Facts"), addButton(view)),
    toolbar(form, [view.source, view.time, view.order]),
    view.rows.element,
    view.gone,
  );
  setKeys({ search: view.input, rows: view.rows });
  await load(view);
  if (key) reveal(view, key);
}

/** Open the fact that the address names; one that is forgotten stands below the others. */
function reveal(view, key) {
  const row = view.rows.find(key);
  const past = [...view.gone.querySelectorAll("li")].find((entry) => entry.dataset.key === key);
  if (row) {
    view.rows.focus(key);
    view.rows.show(row);
  } else if (past) {
    past.closest("details").open = true;
    past.querySelector("button").focus();
  }
}

async function load(view) {
  const told = await get("/v1/facts", { history: true });
  view.past = periodsByKey(told.periods);
  view.facts = told.data.map((fact) => ({ ...fact, source: view.past.get(fact.key)?.[0]?.source ?? "" }));
  const sources = [...new Set(view.facts.map((fact) => writer(fact.source)))].filter(Boolean).sort();
  view.source.draw([["", "All sources"], ...sources.map((name) => [name, name])]);
  draw(view);
  const known = new Set(told.data.map((fact) => fact.key));
  fill(view.gone, forgotten(view, [...view.past].filter(([key]) => !known.has(key))));
}

/** Show the facts that have the words of the search and fit the choices. */
function draw(view) {
  const query = folded(view.input.value.trim());
  const { since = -Infinity, until = Infinity } = period(view.time.value);
  const shown = view.facts.filter(
    (fact) =>
      folded(`${fact.key} ${fact.key.replaceAll("_", " ")} ${fact.value}`).includes(query) &&
      (!view.source.value || writer(fact.source) === view.source.value) &&
      fact.updated_at >= since &&
      fact.updated_at < until,
  );
  if (view.order.value === "newest") shown.sort((a, b) => b.updated_at - a.updated_at);
  view.rows.set(shown, view.facts.length ? empty("No fact matches.", "Try other words, or choose “All sources” and any time.") : nothing());
  const n = count(view.facts.length, ...NAMES);
  view.rows.say(shown.length === view.facts.length ? `${n}; Shepherd can add them to every message` : `${shown.length} of ${n}`);
}

function nothing() {
  return empty(
    "No facts yet.",
    "A fact is a name and a value, such as “favourite tea” and “green tea”. Shepherd learns facts from what you say, and uses them in its answers. You can also add one yourself.",
    chatLink(),
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

function line(view, fact) {
  const n = (view.past.get(fact.key)?.length ?? 1) - 1;
  return {
    main: words(named(fact.key), { class: "key" }),
    cells: [
      words(fact.value.replace(/\s+/g, " "), { class: "cell value" }),
      words([writer(fact.source), n > 0 ? `${n} earlier` : ""].filter(Boolean).join(" · "), { class: "cell source" }),
      h("span", { class: "cell when", title: moment(fact.updated_at) }, ago(fact.updated_at)),
    ],
  };
}

function factCard(view, fact) {
  const card = h("article", { class: "card fact" });
  drawFact(view, card, fact);
  return card;
}

function drawFact(view, card, fact) {
  const id = newId("fact");
  const periods = view.past.get(fact.key) ?? [];
  card.setAttribute("aria-labelledby", id);
  fill(
    card,
    h("h2", { class: "key" }, words(named(fact.key), { id })),
    longWords(fact.value, { class: "value" }),
    h(
      "div",
      { class: "foot" },
      h("p", { class: "meta" }, h("time", { datetime: iso(fact.updated_at), title: moment(fact.updated_at) }, ago(fact.updated_at)), fact.source ? words(origin(fact.source)) : null),
      h(
        "div",
        { class: "actions" },
        factButton("edit", "Edit", id, () => editFact(view, card, fact)),
        factButton("forget", "Forget", id, (made) => attempt(made, () => forget(view, [fact]))),
      ),
    ),
    pastOf(periods, (button, period) => attempt(button, () => useAgain(view, fact, period.value))),
  );
}

/** Give a fact one of its earlier values. */
async function useAgain(view, fact, value) {
  await put(addressOf(fact.key), { value });
  await load(view);
  reopen(view, fact.key);
  view.rows.focus(fact.key);
  say("The earlier value is used again.");
}

function factButton(name, label, id, act) {
  const made = h("button", { type: "button", class: "quiet", id: newId(name), "data-act": name }, icon(name), label);
  made.setAttribute("aria-labelledby", `${made.id} ${id}`);
  made.addEventListener("click", () => act(made));
  return made;
}

function pastOf(periods, use) {
  if (periods.length > 1) return [lifeline(periods), timeline(periods, count(periods.length - 1, "earlier value"), use)];
  return periods[0]?.statement ? timeline(periods, "Where it comes from") : null;
}

/** From when until when each value held, who said so, and in which words; with `use`, earlier ones can be used again. */
function timeline(periods, label, use = null) {
  if (!periods.length) return null;
  const entries = periods.map((period) =>
    h(
      "li",
      {},
      words(period.value),
      h("span", { class: "meta" }, h("span", {}, span(period)), period.source ? words(origin(period.source)) : null),
      period.statement ? words(`“${period.statement}”`, { class: "said" }, "p") : null,
      use && period.value !== periods[0].value ? useButton(period, use) : null,
    ),
  );
  return h("details", { class: "past" }, h("summary", {}, label), h("ol", { class: "timeline" }, entries));
}

function useButton(period, use) {
  const made = h("button", { type: "button", class: "quiet", "aria-label": `Use again: ${beginning(period.value, 50)}` }, "Use again");
  made.addEventListener("click", () => use(made, period));
  return made;
}

function span({ since, until }) {
  const from = h("time", { datetime: iso(since), title: moment(since) }, date(since));
  if (until === null) return ["since ", from];
  if (until <= since) return [from, ", corrected"];
  if (date(until) === date(since)) return ["on ", from];
  return [from, " – ", h("time", { datetime: iso(until), title: moment(until) }, date(until))];
}

function editFact(view, card, fact) {
  const value = area(fact.value, { name: "value" });
  const leave = () => {
    drawFact(view, card, fact);
    card.querySelector("[data-act=edit]").focus();
  };
  const send = async () => {
    await put(addressOf(fact.key), { value: value.value });
    leave();
    await load(view);
    reopen(view, fact.key);
    view.rows.find(fact.key)?.querySelector("[data-act=edit]").focus();
    say("Saved. The earlier value stays in its history.");
  };
  const form = entryForm([h("h2", { class: "key" }, words(named(fact.key))), field("Value", value)], { keep: "Save", send, leave });
  card.removeAttribute("aria-labelledby");
  fill(card, form);
  value.focus();
}

function reopen(view, key) {
  const row = view.rows.find(key);
  if (row && !row.querySelector(".detail")) view.rows.show(row);
  if (row) view.rows.rove(key);
}

/** Forget one or several; the list is loaded anew, since those that are gone are listed below it. */
async function forget(view, facts) {
  const next = view.rows.after(facts.map((fact) => fact.key));
  const done = [];
  let failure = null;
  try {
    await removeEach(facts, (fact) => addressOf(fact.key), done);
  } catch (error) {
    failure = error;
  }
  await load(view).catch((error) => {
    failure ??= error;
  });
  const text = done.length === 1 ? `Forgotten: “${beginning(named(done[0].key), 50)}”` : `Forgotten: ${count(done.length, ...NAMES)}`;
  const after = async () => {
    if (!view.rows.element.isConnected) return;
    await load(view);
    view.rows.focus(view.rows.find(facts[0].key) ? facts[0].key : next);
  };
  if (done.length) offerUndo(text, restoring(done), { after });
  else if (!failure) say(facts.length === 1 ? "It was forgotten elsewhere." : "They were forgotten elsewhere.");
  if (failure) complain(failure);
}

/** What restores forgotten facts as they were, and says which of them it can't; if it fails halfway, the rest. */
function restoring(facts) {
  const left = [...facts];
  let refused = null;
  let n = 0;
  return async () => {
    while (left.length) {
      try {
        await restore(left[0].key);
        n += 1;
      } catch (error) {
        if (!isFinal(error)) throw error;
        refused = error;
      }
      left.shift();
    }
    if (refused && !n) throw refused;
    if (refused) warn(`${n} of ${count(facts.length, ...NAMES)} restored. Another one: ${refused.message}`);
  };
}

async function restore(key) {
  await post(`${addressOf(key)}/restore`).catch((error) => {
    throw error.status === 404 ? new Refused("This can't be undone any more: the server has been restarted since. “Restore it” below the facts sets the value again.", 404) : error;
  });
}

// ---- those that are gone, and new ones

function forgotten(view, gone) {
  if (!gone.length) return null;
  const entries = gone.map(([key, changes]) => {
    const last = changes[0];
    const again = h("button", { type: "button", class: "quiet" }, "Restore it");
    again.addEventListener("click", () =>
      attempt(again, async () => {
        await restore(key).catch((error) => {
          if (error.status !== 404) throw error;
          return put(addressOf(key), { value: last.value });
        });
        await load(view);
        view.rows.focus(key);
        say("The fact is restored.");
      }),
    );
    return h("li", { "data-key": key }, h("div", { class: "row" }, words(named(key), { class: "key" }), again), timeline(changes, "What it was"));
  });
  return h("details", { class: "gone" }, h("summary", {}, `${count(gone.length, "forgotten fact")}`), h("ul", { class: "plain" }, entries));
}

function addButton(view) {
  const fields = () => {
    const key = h("input", { type: "text", name: "key", required: true, autocomplete: "off", dir: "auto" });
    const value = area("", { name: "value", required: true });
    const hint = "One or two words, such as favourite colour. If there is already a fact with this name, it gets the new value, and the old one stays in its history.";
    const values = () => ({ key: key.value.trim(), value: value.value });
    return { parts: [field("Name", key, hint), field("Value", value)], first: key, values };
  };
  const send = async ({ key, value }, close) => {
    await put(addressOf(key), { value });
    close();
    await load(view);
    say("Saved.");
  };
  return newEntry("Add a fact", { id: "new-fact", name: "A new fact", keep: "Save", fields, send, below: () => view.rows.element });
}
