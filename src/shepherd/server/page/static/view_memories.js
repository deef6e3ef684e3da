// Memories: a list that is searched, narrowed and sorted; each can be opened, edited, pinned and forgotten.

import { Refused, get, post } from "./api.js";
import { area, chatLink, empty, field, fill, h, words } from "./dom.js";
import { transfer } from "./files.js";
import { newEntry } from "./forms.js";
import { ago, count, moment, origin, writer } from "./format.js";
import { icon } from "./icons.js";
import { setKeys } from "./keys.js";
import { NOT_RESTORABLE, memoryCard, relevance } from "./memory_card.js";
import { attempt, complain, confirmed, offerUndo, say, warn } from "./notice.js";
import { nextOf } from "./paging.js";
import { Rows, TIMES, choice, period, toolbar } from "./rows.js";

const PAGE = 100;
const TYPING_MS = 250;
// As many as the server changes at once, and can restore.
const BATCH = 200;
const NAMES = ["memory", "memories"];

export async function show(root, [id]) {
  if (id) {
    await showOne(root, id);
    return;
  }
  const view = { asked: 0, query: "", total: 0, more: h("div", { class: "actions" }), imports: h("div", {}) };
  const changed = () => load(view);
  view.input = h("input", { type: "search", "aria-label": "Search your memories", placeholder: "Search your memories", autocomplete: "off" });
  view.source = choice("Source", [["", "All sources"]], changed);
  view.pinned = choice("Pinned", [["", "Pinned or not"], ["true", "Pinned"], ["false", "Not pinned"]], changed);
  view.time = choice("Date", TIMES, changed);
  view.recalled = choice("Recalled", [["", "Recalled or not"], ["never", "Never recalled"]], changed);
  view.order = choice("Order", [["newest", "Newest first"], ["oldest", "Oldest first"], ["recalled", "Most recalled first"]], changed);
  view.rows = new Rows({
    label: "Memories",
    names: NAMES,
    columns: "memory-rows",
    id: (record) => record.id,
    line,
    open: (record) => memoryCard(record, around(view, record.id)),
    actions: [
      ["Pin", (records) => pinAll(view, records, "pin")],
      ["Unpin", (records) => pinAll(view, records, "unpin")],
      ["Forget", (records) => forgetAll(view, records)],
    ],
  });
  const form = h("form", { role: "search", class: "search" }, view.input);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load(view);
  });
  let timer = 0;
  view.input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(view), TYPING_MS);
  });
  view.input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") view.rows.focus();
  });
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Memories"), h("div", { class: "actions" }, transfer(root, view.imports, { path: "/v1/memory/export", name: "memory", changed: () => Promise.all([load(view), knowSources(view)]) }), addButton(view))),
    view.imports,
    toolbar(form, [view.source, view.pinned, view.time, view.recalled, view.order]),
    view.rows.element,
    view.more,
  );
  setKeys({ search: view.input, rows: view.rows });
  await Promise.all([load(view, { raises: true }), knowSources(view)]);
  return () => clearTimeout(timer);
}

async function showOne(root, id) {
  const record = await get(`/v1/memory/${encodeURIComponent(id)}`);
  const back = h("a", { href: "#/memories" }, "All memories");
  const list = h("div", { class: "list" });
  const card = memoryCard(record, {
    changed: () => {},
    gone: () => {
      fill(list);
      const find = () => (card.isConnected ? card.querySelector("[data-act=forget]") : back).focus();
      return { back: () => fill(list, card), after: find };
    },
  });
  fill(root, h("div", { class: "heading" }, h("h1", {}, "One memory"), back), fill(list, card));
}

/** The sources that there are, in the words of the page: several may have the same. */
async function knowSources(view) {
  const { per_source: days } = await get("/v1/memory/stats");
  const named = new Map();
  for (const { source } of days) {
    const name = writer(source) || "unknown";
    named.set(name, [...new Set([...(named.get(name) ?? []), name === "imported" ? "import" : source])]);
  }
  view.source.draw([["", "All sources"], ...[...named].sort().map(([name, sources]) => [JSON.stringify(sources), name])]);
}

// ---- one line

function line(record) {
  const main = [
    record.pinned ? h("span", { class: "pin" }, icon("pin"), h("span", { class: "hidden" }, "Pinned: ")) : null,
    record.question ? words(record.question, { class: "question" }) : null,
    record.question && record.answer ? " " : null,
    record.answer ? words(record.answer, { class: "answer" }) : null,
  ];
  const recalls = record.relevance === undefined ? h("span", { class: "cell recalls" }, record.recalls ? `recalled ${record.recalls}×` : "") : h("span", { class: "cell recalls" }, relevance(record.relevance));
  const cells = [
    h("span", { class: "cell source", title: origin(record.source) }, words(writer(record.source))),
    recalls,
    h("span", { class: "cell when", title: moment(record.timestamp) }, ago(record.timestamp)),
  ];
  return { main, cells, mark: record.pinned ? "pinned" : "" };
}

/** What an open card tells the list. */
function around(view, id) {
  return {
    changed: (record) => view.rows.update(record),
    gone: () => {
      const back = takeAway(view, [id]);
      return { back, after: () => view.rows.focus() };
    },
  };
}

/** Take memories out of the list; returns what shows those of them again that are back. */
function takeAway(view, ids) {
  const { asked } = view;
  const putBack = view.rows.remove(ids);
  counted(view, -ids.length);
  return async (back = ids) => {
    // In a list that was drawn anew since, they have other places, or none.
    if (back.length < ids.length || view.asked !== asked) {
      await load(view);
      return;
    }
    putBack();
    counted(view, ids.length);
  };
}

function counted(view, n) {
  view.total += n;
  tell(view);
}

// ---- the list

function wanted(view) {
  const { source, pinned, time, recalled } = view;
  return {
    ...(source.value ? { source: JSON.parse(source.value) } : {}),
    ...(pinned.value ? { pinned: pinned.value === "true" } : {}),
    ...(recalled.value ? { never_recalled: true } : {}),
    ...period(time.value),
  };
}

/** Show what fits the words of the search, or all, as the choices want them. */
async function load(view, { raises = false } = {}) {
  view.asked += 1;
  const turn = view.asked;
  const query = view.input.value.trim();
  view.order.disabled = Boolean(query);
  try {
    const found = query ? await post("/v1/memory/search", { query, max_results: PAGE, own_words: true, ...wanted(view) }) : await listed(view, 0);
    if (turn !== view.asked) return; // another one was asked meanwhile
    if (query !== view.query) view.rows.cursor = ""; // other memories are read from their beginning
    Object.assign(view, { query, total: found.total ?? found.data.length, isCut: found.data.length === PAGE });
    view.rows.set(found.data, nothing(view, query));
    tell(view);
  } catch (error) {
    if (raises) throw error;
    if (turn === view.asked) view.rows.say(error.message);
  }
}

function listed(view, offset) {
  return get("/v1/memory", { limit: PAGE, offset, order: view.order.value, ...wanted(view) });
}

/** Say how many there are, and offer the next ones. */
function tell(view) {
  view.rows.total = view.query ? 0 : view.total;
  view.rows.say(view.total ? summarized(view) : "");
  if (view.query || view.rows.items.size >= view.total) fill(view.more);
  else if (!view.more.hasChildNodes()) offerMore(view);
}

function summarized({ query, total, isCut, order }) {
  const by = { newest: "the newest first", oldest: "the oldest first", recalled: "the most recalled first" };
  if (!query) return `${count(total, ...NAMES)}, ${by[order.value]}`;
  return isCut ? `The best ${total} matches; add words to narrow the search` : `${count(total, "memory matches", "memories match")}, the best first`;
}

function nothing(view, query) {
  if (query) return empty("No memory contains these words.", "Try fewer or different words: a search finds the words that were used.");
  if (Object.keys(wanted(view)).length) return empty("No memory matches these filters.", "Choose “All sources” or another time to see more.");
  return empty(
    "No memories yet.",
    "Talk with Shepherd, and it remembers what you say. You can also import what another assistant knows about you, or add a memory yourself.",
    chatLink(),
  );
}

function offerMore(view) {
  const button = h("button", { type: "button" }, "Show more");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const turn = view.asked;
      const next = await nextOf((offset) => listed(view, offset), view.rows.items.size, new Set(view.rows.items.keys()));
      if (turn !== view.asked) return;
      view.total = next.data.length ? next.total : view.rows.items.size;
      view.rows.append(next.data);
      fill(view.more);
      tell(view);
    }),
  );
  fill(view.more, button);
}

// ---- several at once

function batches(ids) {
  return Array.from({ length: Math.ceil(ids.length / BATCH) }, (_, i) => ids.slice(i * BATCH, (i + 1) * BATCH));
}

/** Do something to all of these; collects in `done` the ids of those that there were, also if it fails halfway. */
async function changeAll(action, ids, done = []) {
  for (const some of batches(ids)) done.push(...(await post("/v1/memory/batch", { action, ids: some })).ids);
  return done;
}

async function pinAll(view, records, action) {
  const changed = new Set(await changeAll(action, records.map((record) => record.id)));
  for (const record of records) if (changed.has(record.id)) view.rows.update({ ...record, pinned: action === "pin" });
  view.rows.select([]);
  if (changed.size < records.length) await load(view); // the others were deleted elsewhere
  view.rows.focus();
  say(`${count(changed.size, ...NAMES)} ${action === "pin" ? "pinned" : "no longer pinned"}.`);
}

async function forgetAll(view, records) {
  const ids = records.map((record) => record.id);
  const isWanted = ids.length <= BATCH || (await confirmed(`Forget ${ids.length} memories?`, `Only the last ${BATCH} of them can be restored.`, "Forget"));
  if (!isWanted) return;
  const done = [];
  let failure = null;
  try {
    await changeAll("delete", ids, done);
  } catch (error) {
    failure = error;
  }
  // Without a failure, the others were deleted elsewhere.
  const putBack = takeAway(view, failure ? done : ids);
  if (done.length) {
    const text = `Forgotten: ${count(done.length, ...NAMES)}.${done.length > BATCH ? ` Undo restores the last ${BATCH}.` : ""}`;
    offerUndo(text, () => restoreAll(done, putBack), { after: () => view.rows.focus() });
  } else if (!failure) say("They were deleted elsewhere.");
  if (failure) complain(failure);
}

/** Restore what was forgotten, as far as the server still has it, and show it by `putBack(ids)`. */
async function restoreAll(ids, putBack) {
  const back = await changeAll("restore", ids);
  if (!back.length) throw new Refused(NOT_RESTORABLE, 404);
  await putBack(back);
  if (back.length < Math.min(ids.length, BATCH)) warn(`${back.length} of ${count(ids.length, ...NAMES)} restored. The server has been restarted since, or other memories say the same as the rest.`);
}

function addButton(view) {
  const fields = () => {
    const question = area("", { name: "question" });
    const answer = area("", { name: "answer" });
    const hint = "The question that this answers. Its words are used to find the memory.";
    const values = () => ({ question: question.value, answer: answer.value });
    return { parts: [field("Question", question, hint), field("Answer", answer)], first: question, values };
  };
  const send = async (values, close) => {
    await post("/v1/memory", values);
    close();
    view.input.value = "";
    await load(view);
    say("Remembered.");
  };
  return newEntry("Add a memory", { id: "new-memory", name: "A new memory", keep: "Remember it", fields, send, below: () => view.rows.element });
}
