// Memories: the newest, or what a search finds; each can be edited, pinned and forgotten.

import { get, post } from "./api.js";
import { area, empty, field, fill, h } from "./dom.js";
import { newEntry, refill } from "./forms.js";
import { count } from "./format.js";
import { memoryCard } from "./memory_card.js";
import { nextOf } from "./paging.js";
import { attempt, say } from "./notice.js";

const PAGE = 50;
const TYPING_MS = 250;

export async function show(root, [id]) {
  if (id) {
    await showOne(root, id);
    return;
  }
  const input = h("input", { type: "search", "aria-label": "Search your memories", placeholder: "Search your memories" });
  const summary = h("p", { class: "summary", role: "status" });
  const list = h("div", { class: "list" });
  const more = h("div", { class: "actions" });
  const view = { input, summary, list, more, asked: 0, query: "", total: 0 };
  const form = h("form", { role: "search", class: "search" }, input, h("button", { type: "submit" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load(view);
  });
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(view), TYPING_MS);
  });
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Memories"), addButton(view)),
    form,
    summary,
    list,
    more,
  );
  await load(view, { raises: true });
  return () => clearTimeout(timer);
}

async function showOne(root, id) {
  const record = await get(`/v1/memory/${encodeURIComponent(id)}`);
  const back = h("a", { href: "#/memories" }, "All memories");
  fill(root, h("div", { class: "heading" }, h("h1", {}, "One memory"), back), h("div", { class: "list" }, memoryCard(record)));
}

/** Show what fits the words of the search, or the newest. */
async function load(view, { raises = false } = {}) {
  view.asked += 1;
  const turn = view.asked;
  const query = view.input.value.trim();
  try {
    const found = query ? await search(query) : await get("/v1/memory", { limit: PAGE });
    if (turn !== view.asked) return; // another one was asked meanwhile
    Object.assign(view, { query, total: found.total ?? found.data.length, isCut: found.data.length === PAGE });
    refill(view.list, found.data.length ? found.data.map((record) => card(view, record)) : [nothing(query)]);
    tell(view);
  } catch (error) {
    if (raises) throw error;
    if (turn === view.asked) view.summary.textContent = error.message;
  }
}

function search(query) {
  return post("/v1/memory/search", { query, max_results: PAGE });
}

/** A card of the list, which is counted as long as it is there. */
function card(view, record) {
  return memoryCard(record, (n) => {
    view.total += n;
    tell(view);
  });
}

function cards(view) {
  return [...view.list.querySelectorAll(".memory:not([data-stray])")];
}

/** Say how many there are, and offer the next ones. */
function tell(view) {
  view.summary.textContent = view.total ? summarized(view) : "";
  if (view.query || cards(view).length >= view.total) fill(view.more);
  else if (!view.more.hasChildNodes()) offerMore(view);
}

function summarized({ query, total, isCut }) {
  if (!query) return `${count(total, "memory", "memories")}, the newest first`;
  return isCut ? `The best ${total} that fit; more words find fewer` : `${count(total, "memory fits", "memories fit")}, the best first`;
}

function nothing(query) {
  if (query) return empty("No memory has these words.", "Try fewer or other ones: a search finds the words that were said.");
  return empty(
    "Nothing is remembered yet.",
    "Talk with Shepherd, or with any program that uses this server, and what you say is kept here. “Add a memory” writes one yourself.",
  );
}

function offerMore(view) {
  const button = h("button", { type: "button" }, "Show more");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const turn = view.asked;
      const shown = cards(view);
      const known = new Set([...view.list.children].map((one) => one.dataset.id));
      const next = await nextOf((offset) => get("/v1/memory", { limit: PAGE, offset }), shown.length, known);
      if (turn !== view.asked) return;
      const added = next.data.map((record) => card(view, record));
      view.list.append(...added);
      view.total = added.length ? next.total : shown.length;
      tell(view);
      added[0]?.querySelector("button")?.focus();
    }),
  );
  fill(view.more, button);
}

function addButton(view) {
  const fields = () => {
    const question = area("", { name: "question" });
    const answer = area("", { name: "answer" });
    const hint = "What one would ask to be told this: its words find the memory.";
    const values = () => ({ question: question.value, answer: answer.value });
    return { parts: [field("Question", question, hint), field("Answer", answer)], first: question, values };
  };
  const send = async (values, close) => {
    await post("/v1/memory", values);
    close();
    view.input.value = "";
    await load(view);
    say("It is remembered.");
  };
  return newEntry("Add a memory", { id: "new-memory", name: "A new memory", keep: "Remember it", fields, send, below: () => view.list });
}
