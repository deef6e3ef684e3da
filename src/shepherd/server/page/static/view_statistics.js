// Statistics: how much is remembered, when it came, what is used; and what the server did.

import { get, getText, session } from "./api.js";
import { chatLink, empty, fill, h, words } from "./dom.js";
import { ago, beginning, bytes, count, date, duration, integer, percent, short, writer } from "./format.js";
import { readMetrics } from "./metrics.js";
import { settingsCard } from "./settings.js";
import { bars, ranking, shares, stacks, tiles } from "./plots.js";

const DAY_S = 86400;
const MOST_BARS = 32;
// More sources than colours are told apart as "others".
const MOST_SOURCES = 6;
// Widths of a bar in days: the first that needs few enough bars.
const WIDTHS = [[1, "day"], [7, "week"], [30, "30 days"], [91, "quarter"], [365, "year"], [3650, "decade"], [36500, "century"]];

export async function show(root) {
  const stats = await get("/v1/memory/stats");
  const [told, settings] = await Promise.all([serverFigures(), settingsCard()]);
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Statistics")),
    tiles([
      ["Memories", integer(stats.memories)],
      ["Pinned", integer(stats.pinned)],
      ["Facts", integer(stats.facts)],
      ["Nodes", integer(stats.nodes)],
      ["Conversations", integer(stats.conversations)],
      ["Never recalled", integer(stats.never_recalled)],
    ]),
    stats.memories ? memoriesOverTime(stats) : empty("No memories yet.", "Once there are some, you see here when they were added and which ones are used.", chatLink()),
    stats.memories ? mostRecalled(stats.most_recalled) : null,
    stats.database ? storage(stats.database) : null,
    told ? serverPlots(told) : null,
    settings,
  );
}

/** What /metrics says, for keys that may see it; null for others. */
async function serverFigures() {
  return session.scopes.includes("metrics") ? readMetrics(await getText("/metrics")) : null;
}

// ---- one's own

/** The sources of memories in the words of the page, the largest first; small ones are others. */
function sourcesOf(days) {
  const sums = new Map();
  for (const { source, memories } of days) sums.set(writer(source) || "unknown", (sums.get(writer(source) || "unknown") ?? 0) + memories);
  const names = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return names.length > MOST_SOURCES ? [...names.slice(0, MOST_SOURCES - 1), "others"] : names;
}

function memoriesOverTime({ per_source: days, memories }) {
  const [first, last] = [days[0].day, days.at(-1).day];
  const span = last - first + 1;
  const [width, name] = WIDTHS.find(([length]) => span / length <= MOST_BARS) ?? [Math.ceil(span / MOST_BARS), "age"];
  const n = Math.max(Math.ceil(span / width), 1);
  const series = sourcesOf(days);
  const points = Array.from({ length: n }, (_, i) => ({ label: date((first + i * width) * DAY_S + DAY_S / 2), values: series.map(() => 0) }));
  for (const { day, source, memories: here } of days) {
    const place = series.indexOf(writer(source) || "unknown");
    points[Math.floor((day - first) / width)].values[place < 0 ? series.length - 1 : place] += here;
  }
  const says = `${count(memories, "memory", "memories")} between ${points[0].label} and ${date(last * DAY_S + DAY_S / 2)}.`;
  return stacks(`Memories per ${name}`, series, points, { format: integer, says, unit: "From" });
}

function mostRecalled(recalled) {
  const entries = recalled.map((record) => ({
    label: h("a", { href: `#/memories/${record.id}` }, words(beginning(record.question || record.answer, 80))),
    value: record.recalls,
    says: `${count(record.recalls, "time")} · ${ago(record.recalled_at)}`,
  }));
  const nothing = h("p", { class: "hint" }, "No memory has been recalled yet.");
  return h("section", { class: "card" }, h("h2", {}, "Recalled most"), recalled.length ? ranking(entries) : nothing);
}

function storage({ used_bytes: used, limit_bytes: limit }) {
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Space on the disk"),
    h("p", {}, `${bytes(used)} of ${bytes(limit)} are in use, by all users together. When it is full, Shepherd deletes the oldest memories that aren't pinned.`),
  );
}

// ---- the server's, since it started

function serverPlots(metrics) {
  const tokens = metrics.byLabel("shepherd_tokens_total", "kind");
  const recall = metrics.histogram("shepherd_recall_seconds");
  const made = [];
  if (recall.total) {
    const middle = recall.quantile(0.5);
    made.push(
      bars(
        "Time of a recall",
        recall.buckets.map(({ upTo, n }) => ({ label: upTo === Infinity ? "more" : `≤ ${duration(upTo * 1e6)}`, value: n })),
        { format: integer, says: `Half of ${count(recall.total, "recall")} took ${duration(middle * 1e6)} or less.`, unit: "Recalls" },
      ),
    );
  }
  const read = (tokens.reused ?? 0) + (tokens.decoded ?? 0);
  if (read) {
    made.push(
      shares(
        `Tokens of the prompts: ${percent((tokens.reused ?? 0) / read)} were in the cache`,
        [
          { label: "from the cache", value: tokens.reused ?? 0 },
          { label: "newly read", value: tokens.decoded ?? 0 },
          { label: "written as answers", value: tokens.generated ?? 0 },
        ],
        { format: short, unit: "Tokens" },
      ),
    );
  }
  const started = metrics.value("shepherd_start_time_seconds");
  return [
    h("h2", { class: "part" }, "This server"),
    h("p", { class: "summary" }, `Requests of all users since the server was started ${ago(started)}.`),
    made.length ? made : h("p", { class: "hint" }, "It has answered no requests yet."),
  ];
}
