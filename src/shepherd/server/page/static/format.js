// Numbers and times in words.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  [365.25 * DAY, "year"],
  [30.4375 * DAY, "month"],
  [DAY, "day"],
  [HOUR, "hour"],
  [MINUTE, "minute"],
];
const relative = new Intl.RelativeTimeFormat("en");
const dates = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
const moments = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const integers = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const SOURCES = {
  user: "entered by hand",
  turn: "from a conversation",
  extraction: "learned from what you said",
  model: "stored by the model",
  tool: "stored by the model",
  import: "imported",
  migration: "from an older Shepherd's database",
  chatgpt: "imported from ChatGPT",
  mem0: "imported from mem0",
  llm: "imported from llm",
  mcp: "stored by another assistant",
  agent: "made by the model",
  similarity: "found by similarity",
};
const WRITERS = {
  user: "you",
  turn: "conversation",
  extraction: "learned",
  model: "model",
  tool: "model",
  import: "imported",
  migration: "older Shepherd",
  chatgpt: "ChatGPT",
  mcp: "assistant",
  agent: "model",
};

/** The moment as the machine writes it, for `datetime`. */
export function iso(seconds) {
  return when(seconds).toISOString();
}

/** What an import says may be farther away than dates reach. */
function when(seconds) {
  return new Date(Math.max(Math.min(seconds, 8.64e12), -8.64e12) * 1000);
}

/** "3 days ago", of unix seconds. It counts whole units, as the terminal does: "1 year ago" until two years are over. */
export function ago(seconds) {
  const distance = seconds - Date.now() / 1000;
  for (const [length, unit] of STEPS) {
    if (Math.abs(distance) >= length) return relative.format(Math.trunc(distance / length), unit);
  }
  return "just now";
}

/** "22 Nov 2026", of unix seconds. */
export function date(seconds) {
  return dates.format(when(seconds));
}

/** "22 Nov 2026, 11:40", of unix seconds. */
export function moment(seconds) {
  return moments.format(when(seconds));
}

/** "12,345" */
export function integer(n) {
  return integers.format(n);
}

/** "12.3K" */
export function short(n) {
  return compact.format(n);
}

/** "1 memory", "2 memories" */
export function count(n, one, many = `${one}s`) {
  return `${integer(n)} ${n === 1 ? one : many}`;
}

/** "83 %", of a share. */
export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** "3.4 MB" */
export function bytes(n) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const step = n < 1 ? 0 : Math.min(Math.floor(Math.log(n) / Math.log(1024)), units.length - 1);
  const value = n / 1024 ** step;
  return `${value >= 100 || step === 0 ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}

/** "42 µs", "1.3 ms", "2 s" */
export function duration(microseconds) {
  if (microseconds < 1000) return `${Math.round(microseconds)} µs`;
  if (microseconds < 1e6) return `${(microseconds / 1000).toFixed(1)} ms`;
  return `${(microseconds / 1e6).toFixed(1)} s`;
}

/** Who wrote a memory, a fact or an edge, in words. */
export function origin(source) {
  if (!source) return "";
  return SOURCES[source] ?? (source.startsWith("import") ? "imported" : source);
}

/** The same in a word or two. */
export function writer(source) {
  if (!source) return "";
  return WRITERS[source] ?? (source.startsWith("import") ? "imported" : source);
}

/** A text for comparing: without case and accents. */
export function folded(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

/** The beginning of a text, for places where one line is enough. */
export function beginning(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  const letters = Array.from(line);
  return letters.length <= length ? line : `${letters.slice(0, length - 1).join("")}…`;
}

/** The path and the name of the file behind a file:// address; null for any other address. */
export function fileOf(address) {
  if (!/^file:\/\//i.test(address)) return null;
  let path = address.slice("file://".length);
  try {
    path = decodeURIComponent(path);
  } catch {
    // A name whose bytes are no UTF-8 stays as it is.
  }
  return { path, name: path.slice(path.lastIndexOf("/") + 1) };
}
