// Files: dropped or chosen, imported with their progress, and saved.

import { download, session, uploaded } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, count } from "./format.js";
import { icon } from "./icons.js";
import { attempt, complain, inWords, say } from "./notice.js";
import { isPicture } from "./pictures.js";

// Everything else is an export of memories, or of knowledge, which its first line says.
const DOCUMENT = /\.(pdf|md|markdown|mdown|txt|text|rst|org|log|html?|xhtml)$/i;
const OF_KNOWLEDGE = /^\s*\{[^\n]*"format": ?"shepherd knowledge/;

// The view that takes what is dropped, and what it does with it.
let receiver = { element: null, taken: () => {} };

/** Call `taken(files)` for files that are dropped anywhere in the window while an element is shown. */
export function acceptDrops(element, taken) {
  receiver = { element, taken };
}

/** Catch files that are dropped in the window: where no view takes them, a browser would open them in its place. */
export function catchDrops() {
  let depth = 0;
  const on = (name, work) =>
    addEventListener(name, (event) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      const isTaken = Boolean(receiver.element?.isConnected);
      depth = Math.max(work(event, isTaken), 0);
      if (isTaken) receiver.element.classList.toggle("dropping", depth > 0);
    });
  on("dragenter", () => depth + 1);
  on("dragleave", () => depth - 1);
  on("dragover", (event, isTaken) => {
    event.preventDefault();
    if (!isTaken) event.dataTransfer.dropEffect = "none";
    return depth;
  });
  on("drop", (event, isTaken) => {
    event.preventDefault();
    if (isTaken) receiver.taken([...event.dataTransfer.files]);
    return 0;
  });
}

/** A button that lets one choose files, for those who do not drop any. */
export function fileButton(label, drawing, taken, properties = {}) {
  const input = h("input", { type: "file", multiple: true, class: "hidden", tabindex: "-1", "aria-hidden": "true" });
  const button = h("button", { type: "button", ...properties }, icon(drawing), h("span", {}, label));
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = "";
    if (files.length) taken(files);
  });
  return [button, input];
}

/** Buttons to import files and to save all, for the head of a view. `changed()` is called after an import. */
export function transfer(root, place, { path, name, changed }) {
  const begin = (files) => importAll(place, files, changed, name);
  acceptDrops(root, begin);
  const save = h("button", { type: "button", class: "quiet" }, icon("save"), "Export");
  save.addEventListener("click", () => attempt(save, async () => saved(await download(path), `${name}-${session.user || "export"}.jsonl`)));
  return [fileButton("Import", "open", begin, { class: "quiet", title: "Import memories and facts from exports of Shepherd, ChatGPT, mem0, MCP memory and llm, or knowledge from PDF, Markdown, HTML and text files. You can also drop files here." }), save];
}

function saved(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, "-") });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

let isImporting = false;

/** Import files one after the other, and show in `place` how far it is and what came of each. */
async function importAll(place, files, changed, name) {
  if (isImporting) {
    say("An import is in progress. Drop the files again when it has ended.");
    return;
  }
  isImporting = true;
  const title = h("h2", { tabindex: "-1" }, `Importing ${count(files.length, "file")}`);
  const list = h("ul", { class: "plain imports" });
  const close = h("button", { type: "button", hidden: true }, "Close");
  const card = h("section", { class: "card", "aria-label": "Import" }, title, list, h("div", { class: "actions" }, close));
  close.addEventListener("click", () => {
    fill(place);
    document.getElementById("view").focus();
  });
  fill(place, card);
  title.focus({ preventScroll: true });
  const rows = files.map((file) => importRow(list, file, name));
  const came = [];
  try {
    for (const row of rows) came.push(await row.run());
    await changed();
  } catch (error) {
    complain(error);
  } finally {
    isImporting = false;
  }
  title.textContent = ended(came, files.length);
  close.hidden = false;
}

function ended(came, n_files) {
  const [n_new, n_known] = ["new", "known"].map((state) => came.filter((one) => one === state).length);
  if (n_known === n_files) return "Everything was already stored";
  if (n_new + n_known === n_files) return "Import complete";
  if (!n_new && !n_known) return "Nothing was imported";
  return `${n_new} of ${n_files} files imported${n_known ? `, ${n_known} already stored` : ""}`;
}

/** The line of a file; `run()` imports it, and returns "new", "known" (all of it was stored already) or "failed". */
function importRow(list, file, name) {
  const bar = h("progress", { max: "1", "aria-label": `Import of ${file.name}` });
  bar.value = 0;
  const result = h("p", { class: "hint", role: "status" }, "waiting");
  list.append(h("li", {}, h("p", {}, h("bdi", {}, file.name), h("span", { class: "hint" }, ` · ${bytes(file.size)}`)), bar, result));
  const failed = (...content) => {
    bar.hidden = true;
    result.className = "problem";
    fill(result, ...content);
    return "failed";
  };
  const run = async () => {
    if (isPicture(file)) return failed("Pictures can't be imported. You can attach them to a message in the chat.");
    result.textContent = "sending";
    let told = null;
    try {
      const isKnowledge = DOCUMENT.test(file.name) || OF_KNOWLEDGE.test(await file.slice(0, 4096).text());
      const path = isKnowledge ? "/v1/knowledge/import" : "/v1/memory/import";
      for await (const event of uploaded(path, file, { name: file.name, progress: true })) {
        const { done = 0, total = 0 } = event.progress ?? {};
        if (total) bar.value = done / total;
        if (event.progress) result.textContent = total ? `${Math.round((100 * done) / total)} %` : "reading";
        told = event.result ?? told;
      }
      const content = isKnowledge ? ofKnowledge(told, name) : ofMemories(told, name);
      if (!(isKnowledge ? told.added + told.changed + told.unchanged : told.memories + told.facts + told.duplicates)) return failed(content);
      bar.value = 1;
      fill(result, content);
      return (isKnowledge ? told.added + told.changed : told.memories + told.facts) ? "new" : "known";
    } catch (error) {
      return failed(inWords(error));
    }
  };
  return { run };
}

/** What came of an export; in the view of knowledge, with the way to the memories. */
function ofMemories({ memories, facts, duplicates, skipped, secrets, problems }, name) {
  const parts = [
    memories || facts || duplicates ? `${count(memories, "memory", "memories")} and ${count(facts, "fact")} imported` : "Nothing was imported",
    duplicates ? `${duplicates} already stored` : "",
    skipped ? `${skipped} skipped` : "",
    secrets ? `${secrets} with secrets skipped` : "",
  ];
  const way = memories && name !== "memory" ? [" · ", h("a", { href: "#/memories" }, "Show memories")] : null;
  return [parts.filter(Boolean).join(", "), way, problemList(problems)];
}

/** What came of documents; in the view of memories, with the way to them. */
function ofKnowledge({ added, changed, unchanged, failed, secrets, nodes, problems }, name) {
  const parts = [
    added && `${count(added, "node")} added`,
    changed && `${changed} changed`,
    unchanged && `${unchanged} already stored`,
    failed && `${failed} failed`,
    secrets && `${count(secrets, "secret")} in the text replaced by dots (passwords, codes and keys aren't stored)`,
  ];
  const way = nodes.length && name !== "knowledge" ? [" · ", h("a", { href: nodes.length === 1 ? `#/knowledge/${nodes[0]}` : "#/knowledge" }, "Show in Knowledge")] : null;
  return [parts.filter(Boolean).join(", ") || "Nothing was imported", way, problemList(problems)];
}

function problemList(problems) {
  return problems.length ? h("ul", {}, problems.map((text) => h("li", {}, text))) : null;
}

// ---- documents in a message

const BLOCK = /\n\n\[attached: ([^\n]*)\]\n(`{3,})\n([\s\S]*?)\n\2(?=\n\n\[attached: |$)/g;

/** The documents that a stored message has behind its text. */
export function documentsIn(text, composed) {
  if (!composed.startsWith(text)) return [];
  const behind = text ? composed.slice(text.length) : `\n\n${composed}`;
  return [...behind.matchAll(BLOCK)].map(([block, name, , content]) => ({ name, text: content, block: block.slice(2) }));
}

/** The text of a file as the server reads it. Raises Refused. */
export async function readDocument(file) {
  for await (const read of uploaded("/v1/documents", file, { name: file.name })) return read;
  return null;
}
