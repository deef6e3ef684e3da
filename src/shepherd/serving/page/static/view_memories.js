// Memories: the newest, or what a search finds; each can be edited, pinned and forgotten.

import { get, post } from "./api.js";
import { area, empty, field, fill, h } from "./dom.js";
import { newEntry } from "./forms.js";
import { count } from "./format.js";
import { memoryCard } from "./memory_card.js";
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
  const view = { input, summary, list, more, asked: 0 };
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
    fill(view.list, found.data.length ? found.data.map((record) => memoryCard(record)) : nothing(query));
    view.summary.textContent = summarized(query, found);
    offerMore(view, query, found.total ?? 0, found.data.length);
  } catch (error) {
    if (raises) throw error;
    if (turn === view.asked) view.summary.textContent = error.message;
  }
}

function search(query) {
  return post("/v1/memory/search", { query, max_results: PAGE });
}

function summarized(query, found) {
  if (query) return found.data.length ? `${count(found.data.length, "memory fits", "memories fit")}, the best first` : "";
  return found.total ? `${count(found.total, "memory", "memories")}, the newest first` : "";
}

function nothing(query) {
  if (query) return empty("No memory has these words.", "Try fewer or other ones: a search finds the words that were said.");
  return empty(
    "Nothing is remembered yet.",
    "Talk with Shepherd, or with any program that uses this server, and what you say is kept here. “Add a memory” writes one yourself.",
  );
}

function offerMore(view, query, total, n) {
  if (query || n >= total) {
    fill(view.more);
    return;
  }
  const button = h("button", { type: "button" }, "Show more");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const found = await get("/v1/memory", { limit: PAGE, offset: n });
      const cards = found.data.map((record) => memoryCard(record));
      view.list.append(...cards);
      offerMore(view, query, found.total, n + found.data.length);
      cards[0]?.querySelector("button")?.focus();
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
