// Why did it say that: for each message, what memory put beside it, from where, and how well it fitted.

import { get, post } from "./api.js";
import { chatLink, empty, fill, hasChat, h, longWords, newId, words } from "./dom.js";
import { ago, beginning, count, duration, integer, iso, moment, origin, percent, short } from "./format.js";
import { relevance } from "./memory_card.js";
import { attempt, complain } from "./notice.js";
import { nextOf, oneOffsButton } from "./paging.js";
import { setKeys } from "./keys.js";
import { bars, stacks } from "./plots.js";
import { turnTraces } from "./turn_trace.js";
import { named } from "./wording.js";

const PAGE = 100;

export async function show(root, [session]) {
  if (session) await showConversation(root, session);
  else await showConversations(root);
}

async function showConversations(root) {
  const view = { asked: 0, oneOffs: false, hasOneOffs: false, list: h("ul", { class: "rows plain", "aria-label": "Conversations" }), more: h("div", { class: "actions" }), others: h("div", { class: "actions" }), summary: h("p", { class: "summary", role: "status" }) };
  const input = h("input", { type: "search", "aria-label": "Search conversations", placeholder: "Search conversations", autocomplete: "off", dir: "auto" });
  input.addEventListener("input", () => load(view, input.value.trim()).catch(complain));
  const form = h("form", { role: "search", class: "search", on: { submit: (event) => event.preventDefault() } }, input);
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Why did it say that?")),
    h("p", { class: "lead" }, "Choose a conversation to see what was added to each of your messages before the model read it."),
    // Where the page has no chat, the server has no search for conversations either.
    hasChat() ? h("div", { class: "tools" }, form) : null,
    view.summary,
    view.list,
    view.more,
    view.others,
  );
  setKeys({ search: input });
  await load(view, "");
}

/** Show the conversations that contain the words, or all. */
async function load(view, query) {
  view.asked += 1;
  const turn = view.asked;
  const ask = (offset) => (query ? post("/v1/conversations/search", { query, limit: PAGE, offset }) : get("/v1/trace", { limit: PAGE, offset, one_offs: view.oneOffs }));
  const { data, total, left_out } = await ask(0);
  if (turn !== view.asked) return; // another one was asked meanwhile
  view.summary.textContent = total ? `${count(total, "conversation")}, the latest first` : "";
  fill(view.list, data.length ? data.map(entry) : h("li", { class: "nothing" }, nothing(query, left_out)));
  fill(view.more);
  if (data.length < total) offerMore(view.list, view.more, ask);
  if (left_out) view.hasOneOffs = true;
  fill(view.others, !query && view.hasOneOffs ? oneOffsButton(left_out, view.oneOffs, () => toggle(view)) : null);
}

async function toggle(view) {
  view.oneOffs = !view.oneOffs;
  await load(view, "");
  view.others.querySelector(".one-offs")?.focus();
}

function nothing(query, leftOut) {
  if (query) return empty("No conversation contains these words.", "Try fewer or different words.");
  if (leftOut) return empty("No conversations except single questions.", "The button below shows them.", chatLink());
  return empty("No conversations yet.", "Once you have talked with Shepherd, you see here what it recalled for each answer.", chatLink());
}

function entry(one) {
  return h(
    "li",
    { class: "item talk-row", "data-id": one.id },
    h("a", { class: "stretch", href: `#/why/${encodeURIComponent(one.id)}` }, one.title ? words(beginning(one.title, 160)) : `Conversation of ${moment(one.created_at)}`),
    h("span", { class: "cell" }, count(one.n_messages, "message")),
    h("span", { class: "cell by" }, one.model ? words(one.model) : null),
    h("time", { class: "cell when", datetime: iso(one.updated_at), title: moment(one.updated_at) }, ago(one.updated_at)),
  );
}

function offerMore(list, more, ask) {
  const button = h("button", { type: "button" }, "Show more");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const known = new Set([...list.children].map((one) => one.dataset.id));
      const next = await nextOf(ask, list.children.length, known);
      const added = next.data.map(entry);
      list.append(...added);
      if (!added.length || list.children.length >= next.total) fill(more);
      added[0]?.querySelector("a").focus();
    }),
  );
  fill(more, button);
}

async function showConversation(root, session) {
  const path = `/v1/trace/${encodeURIComponent(session)}`;
  const [{ data, turns }, usage] = await Promise.all([get(path), get(`${path}/usage`)]);
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Why did it say that?"), h("div", { class: "actions" }, hasChat() ? h("a", { href: `#/chat/${encodeURIComponent(session)}` }, "Open the conversation") : null, h("a", { href: "#/why" }, "All conversations"))),
    data.length || turns.length ? data.map((message, i) => turn(message, data[i - 1])) : empty("This conversation has no messages.", "Facts and memories are only added to your own messages."),
    usage.data.length ? pictures(usage.data, data) : null,
    turns.length ? turnTraces(session, turns) : null,
  );
}

// Parts of a prompt in its order, with their names in the API.
const ROOM = [
  ["system", "instructions"],
  ["history", "earlier turns"],
  ["query", "your message"],
  ["facts", "facts and memories"],
  ["rag", "knowledge"],
  ["entities", "people and things"],
  ["focus", "nodes in focus"],
];
// More turns than this are too thin to be seen.
const MOST_TURNS = 60;

/** What the window was used for in each turn, which tokens were read, and how long recall took. */
function pictures(all, messages) {
  const shown = all.slice(-MOST_TURNS);
  const label = ({ turn }) => String(turn + 1);
  const parts = ROOM.filter(([name]) => shown.some(({ room }) => room[name] > 0));
  const total = Math.max(...shown.map(({ room }) => room.total ?? 0), 0);
  const used = shown.map((one) => ({ label: label(one), values: parts.map(([name]) => one.room[name] || 0) }));
  const last = used.at(-1).values.reduce((sum, value) => sum + value, 0);
  const read = shown.filter(({ usage }) => usage.decoded !== undefined);
  const [reused, decoded] = ["reused", "decoded"].map((name) => read.reduce((sum, { usage }) => sum + usage[name], 0));
  const times = read.filter(({ usage }) => usage.recall_ms > 0);
  const recalled = times.length ? times.map((one) => ({ label: label(one), value: one.usage.recall_ms * 1000 })) : messages.filter((one) => one.recall_us).map((one, i) => ({ label: String(i + 1), value: one.recall_us }));
  const isWindow = last > total / 8;
  const says = `The last of them used ${integer(last)} of ${integer(total)} tokens of the window.`;
  return h(
    "div",
    { class: "figures" },
    parts.length ? stacks("Use of the window, turn by turn", parts.map(([, name]) => name), used, { format: short, says, unit: "Turn", most: isWindow ? total : 0 }) : null,
    read.length ? stacks("Tokens read, turn by turn", ["from the cache", "newly read"], read.map((one) => ({ label: label(one), values: [one.usage.reused, one.usage.decoded] })), { format: short, says: `${percent(reused / Math.max(reused + decoded, 1))} of them were in the cache.`, unit: "Turn" }) : null,
    recalled.length ? bars("Time of a recall, turn by turn", recalled, { format: duration, says: `The longest took ${duration(Math.max(...recalled.map((one) => one.value)))}.`, unit: "Time" }) : null,
  );
}

function turn(message, previous) {
  const id = newId("message");
  return h(
    "article",
    { class: "card turn", "aria-labelledby": id },
    h("h2", { class: "question", id }, words(beginning(message.text, 120))),
    message.text.trim() === beginning(message.text, 120) ? null : longWords(message.text, { class: "said" }),
    h("p", { class: "meta" }, h("time", { datetime: iso(message.created_at), title: moment(message.created_at) }, moment(message.created_at)), message.keywords.length ? h("span", {}, "searched for ", message.keywords.map((word, i) => [i ? ", " : "", words(word)])) : null, message.recall_us ? h("span", {}, `in ${duration(message.recall_us)}`) : null),
    message.tail ? added(message, previous) : h("p", { class: "hint" }, "Nothing was added: no fact is known, and no memory was relevant enough (see “Minimum relevance of a memory” under Statistics)."),
  );
}

function added(message, previous) {
  return [
    message.facts.length ? facts(message.facts, previous?.facts ?? []) : null,
    message.memories.length ? block("Memories, the best first", h("ol", { class: "found" }, message.memories.map(found))) : null,
    message.passages.length ? block("Passages of documents", h("ul", { class: "found" }, message.passages.map(passage))) : null,
    message.nodes.length ? block("Nodes in focus", h("ul", { class: "found" }, message.nodes.map(node))) : null,
    h("details", {}, h("summary", {}, "Exactly as the model read it"), h("pre", { class: "words", dir: "auto", tabindex: "0" }, message.tail)),
  ];
}

/** The facts beside a message, folded where they are those of the message before: somebody may have many. */
function facts(shown, previous) {
  const list = h("dl", { class: "facts" }, shown.map((fact) => h("div", {}, h("dt", {}, words(named(fact.key))), h("dd", {}, words(fact.value)))));
  const told = (some) => JSON.stringify(some.map(({ key, value }) => [key, value]));
  if (told(shown) !== told(previous)) return block("Facts", list);
  const same = shown.length === 1 ? "The same fact" : `The same ${count(shown.length, "fact")}`;
  return h("details", {}, h("summary", {}, `${same} as for the message before`), list);
}

function block(title, content) {
  return h("section", { class: "block" }, h("h3", {}, title), content);
}

function passage({ node_id: node, title, text, relevance: share }) {
  return h("li", {}, words(title || "untitled", { class: "asked" }, "p"), words(beginning(text, 300), { class: "answer" }, "p"), h("p", { class: "meta" }, relevance(share), h("a", { href: `#/knowledge/${node}` }, "open the document")));
}

function node({ id, title }) {
  return h("li", {}, h("a", { href: `#/knowledge/${id}` }, words(title || "untitled")));
}

function found(memory) {
  return h(
    "li",
    {},
    memory.question ? words(memory.question, { class: "asked" }, "p") : null,
    longWords(memory.answer, { class: "answer" }),
    h(
      "p",
      { class: "meta" },
      relevance(memory.relevance),
      h("span", { title: "Memories are ranked by this score: their words and the conversation around them, weighted by age" }, `score ${memory.score.toPrecision(3)}`),
      h("span", {}, memory.age_days < 1 ? "from the same day" : `${count(Math.round(memory.age_days), "day")} old then`),
      memory.source ? words(origin(memory.source)) : null,
      h("a", { href: `#/memories/${memory.id}` }, "edit, pin or forget it"),
    ),
  );
}
