// All that was kept of one turn: what the prompt was made of, and how much room each part took.

import { get } from "./api.js";
import { fill, h, words } from "./dom.js";
import { integer } from "./format.js";
import { inWords } from "./notice.js";
import { shares } from "./plots.js";

// In the order of a prompt; what is not named here comes after, under its own name.
const GROUPS = {
  system: "Instructions",
  history: "The conversation so far",
  entities: "People and things",
  rag: "Knowledge",
  tail: "Put beside the message",
  left_out: "Left out, and why",
  warnings: "Warnings",
  assembled: "The whole prompt",
  budget: "Room, in tokens",
  timings: "Times",
};
const ROOM = ["system", "history", "entities", "rag", "query", "facts", "focus", "reserve"];

/** A list of turns, each of which is asked for when it is opened. */
export function turnTraces(session, turns) {
  const path = `/v1/trace/${encodeURIComponent(session)}`;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "What each turn was made of"),
    h("p", { class: "hint" }, "Every part of the prompt with its size, the newest turn first."),
    turns.toReversed().map((turn) => turnDetails(path, turn)),
  );
}

function turnDetails(path, turn) {
  const content = h("div", { class: "block" });
  const details = h("details", { class: "traced" }, h("summary", {}, `Turn ${turn + 1}`), content);
  details.addEventListener("toggle", async () => {
    if (!details.open || content.hasChildNodes()) return;
    fill(content, h("p", { class: "hint" }, "Looking it up …"));
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
  for (const [path, value] of entries) {
    const [group, ...rest] = path.split("/");
    const name = rest.map(readable).join(" / ");
    if (groups.has(group)) groups.get(group).push([name || "text", value]);
    else others.push([path.split("/").map(readable).join(" / "), value]);
  }
  return [
    room(new Map(entries)),
    [...groups].filter(([, rows]) => rows.length).map(([group, rows]) => part(GROUPS[group], rows)),
    others.length ? part("Besides", others) : null,
  ];
}

function room(values) {
  const parts = ROOM.map((name) => ({ label: name, value: values.get(`budget/${name}`) })).filter(({ value }) => typeof value === "number" && value > 0);
  return parts.length > 1 ? shares("Room for each part, in tokens", parts, { format: integer, unit: "Tokens" }) : null;
}

function part(title, rows) {
  const row = ([name, value]) => h("tr", {}, h("th", { scope: "row" }, words(name)), h("td", {}, words(String(value))));
  return h(
    "section",
    { class: "block" },
    h("h3", {}, title),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", {}, h("tbody", {}, rows.map(row)))),
  );
}

/** A part of a path: escapes taken back, places in a list counted from 1, and blanks for underscores. */
function readable(segment) {
  let text = segment;
  try {
    text = decodeURIComponent(segment);
  } catch {
    // Not ours, but somebody's own path.
  }
  return /^0\d{2,}$/.test(text) ? String(Number(text) + 1) : text.replaceAll("_", " ");
}
