// All that was kept of one turn: what the prompt was made of, and how much room each part took.

import { get } from "./api.js";
import { fill, h, words } from "./dom.js";
import { count, duration, integer, percent } from "./format.js";
import { inWords } from "./notice.js";
import { shares } from "./plots.js";

// In the order of a prompt; what is not named here comes after, under its own name.
const GROUPS = {
  system: "Instructions",
  history: "The conversation so far",
  entities: "People and things",
  rag: "Knowledge",
  tail: "Added to the message",
  left_out: "Omitted, and why",
  warnings: "Warnings",
  assembled: "The whole prompt",
  timings: "Times",
};
const LISTS = { turns: "Turns", context: "Memories", chunks: "Passages", focus: "Nodes in focus" };
const ROOM = ["system", "history", "entities", "rag", "query", "facts", "focus", "reserve"];
// What tells that two turns had the same prompt, and nothing else.
const CHECKS = /sha256$|^schema$|_length$/;
const INDEX = /^\d{4,}$/;

/** A list of turns, each of which is asked for when it is opened. */
export function turnTraces(session, turns) {
  const path = `/v1/trace/${encodeURIComponent(session)}`;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "The prompt of each turn"),
    h("p", { class: "hint" }, "You see each part of the prompt with its size, the newest turn first. Empty parts are omitted."),
    turns.toReversed().map((turn) => turnDetails(path, turn)),
  );
}

function turnDetails(path, turn) {
  const content = h("div", { class: "block" });
  const details = h("details", { class: "traced" }, h("summary", {}, `Turn ${turn + 1}`), content);
  details.addEventListener("toggle", async () => {
    if (!details.open || content.hasChildNodes()) return;
    fill(content, h("p", { class: "hint" }, "Loading …"));
    try {
      fill(content, drawn(Object.entries((await get(`${path}/${turn}`)).data)));
    } catch (error) {
      fill(content, h("p", { class: "problem", role: "alert" }, inWords(error)));
    }
  });
  return details;
}

function drawn(entries) {
  const groups = new Map(Object.keys(GROUPS).map((name) => [name, []]));
  const others = [];
  const checks = [];
  for (const [path, value] of entries) {
    const [group, ...rest] = path.split("/");
    if (group === "budget" || value === 0 || value === false || value === "") continue;
    if (CHECKS.test(path)) checks.push([[...path.split("/")], value]);
    else if (groups.has(group)) groups.get(group).push([rest, value]);
    else others.push([[group, ...rest], value]);
  }
  return [
    room(new Map(entries)),
    [...groups].filter(([, values]) => values.length).map(([group, values]) => part(GROUPS[group], values)),
    others.length ? part("Other", others) : null,
    checks.length ? h("details", {}, h("summary", {}, "Hashes and lengths, to compare turns"), rows("Hashes and lengths, to compare turns", checks)) : null,
  ];
}

function room(values) {
  const parts = ROOM.map((name) => ({ label: name, value: values.get(`budget/${name}`) })).filter(({ value }) => typeof value === "number" && value > 0);
  if (parts.length < 2) return null;
  const strategy = values.get("budget/strategy");
  const total = values.get("budget/total");
  return [
    shares("Room for each part, in tokens", parts, { format: integer, unit: "Tokens" }),
    total ? h("p", { class: "hint" }, `The window has ${integer(total)} tokens.`, strategy ? ` Strategy: ${strategy}.` : "") : null,
  ];
}

/** A part of the prompt: what is said once, and a table for each list. */
function part(title, values) {
  if (title === GROUPS.timings) return h("section", { class: "block" }, h("h3", {}, title), rows(title, values, milliseconds));
  const single = [];
  const lists = new Map();
  for (const [path, value] of values) {
    // Facts have names of the user's own: one may be called 2024.
    const at = path[0] === "facts" ? -1 : path.findIndex((segment) => INDEX.test(segment));
    if (at < 0) {
      single.push([path, value]);
      continue;
    }
    const list = path.slice(0, at).join("/");
    if (!lists.has(list)) lists.set(list, new Map());
    const items = lists.get(list);
    if (!items.has(path[at])) items.set(path[at], new Map());
    const [field = "", ...below] = path.slice(at + 1);
    const item = items.get(path[at]);
    // What an item has below a field is told in one cell: "age = 3, colour = blue".
    if (below.length) item.set(field, [item.get(field), `${below.map(readable).join(" / ")} = ${value}`].filter(Boolean).join(", "));
    else item.set(field, value);
  }
  return h(
    "section",
    { class: "block" },
    h("h3", {}, title),
    single.length ? rows(title, single) : null,
    [...lists].map(([list, items]) => table(LISTS[list] ?? (list ? readable(list) : title), items)),
  );
}

const milliseconds = (_, value) => duration(value * 1000);

function rows(title, values, format = shown) {
  const row = ([path, value]) => h("tr", {}, h("th", { scope: "row" }, words(path.map(readable).join(" / ") || "text")), h("td", {}, format(path, value)));
  return scroll(title, h("table", { class: "pairs" }, h("tbody", {}, values.map(row))));
}

function table(title, items) {
  const fields = [...new Set([...items.values()].flatMap((item) => [...item.keys()]))];
  const head = fields.some(Boolean) ? h("thead", {}, h("tr", {}, fields.map((field) => h("th", { scope: "col" }, readable(field))))) : null;
  const row = (item) => h("tr", {}, fields.map((field) => h("td", {}, item.has(field) ? shown([field], item.get(field)) : "")));
  return scroll(title, h("table", {}, h("caption", { class: "hidden" }, title), head, h("tbody", {}, [...items.values()].map(row))));
}

function scroll(title, content) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, content);
}

/** A value in the form that its name asks for. */
function shown(path, value) {
  const name = path.at(-1) ?? "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return words(String(value));
  if (name === "relevance") return percent(value);
  if (name === "age_days") return count(Math.round(value), "day");
  if (name.endsWith("id")) return String(value);
  return Number.isInteger(value) ? integer(value) : value.toPrecision(3);
}

/** A part of a path: escapes taken back, and blanks for underscores. Digits stay: a name may be a year. */
function readable(segment) {
  let text = segment;
  try {
    text = decodeURIComponent(segment);
  } catch {
    // Not ours, but somebody's own path.
  }
  return text.replaceAll("_", " ");
}
