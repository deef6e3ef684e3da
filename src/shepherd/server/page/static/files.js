// Files: dropped or chosen, imported with their progress, and saved.

import { download, session, uploaded } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, count } from "./format.js";
import { icon } from "./icons.js";
import { attempt, complain, inWords, say } from "./notice.js";

// Everything else is an export of memories, or of knowledge, which its first line says.
const DOCUMENT = /\.(pdf|md|markdown|mdown|txt|text|rst|org|log|html?|xhtml)$/i;
const OF_KNOWLEDGE = /^\s*\{[^\n]*"format": ?"shepherd knowledge/;

/** Call `taken(files)` for files that are dropped anywhere on an element. */
export function acceptDrops(element, taken) {
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0;
  const mark = (change) => {
    depth = Math.max(depth + change, 0);
    element.classList.toggle("dropping", depth > 0);
  };
  element.addEventListener("dragenter", (event) => hasFiles(event) && mark(1));
  element.addEventListener("dragleave", (event) => hasFiles(event) && mark(-1));
  element.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  element.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    mark(0);
    taken([...event.dataTransfer.files]);
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
  const begin = (files) => importAll(place, files, changed);
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
async function importAll(place, files, changed) {
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
  const rows = files.map((file) => importRow(list, file));
  try {
    for (const row of rows) await row.run();
    await changed();
  } catch (error) {
    complain(error);
  } finally {
    isImporting = false;
  }
  title.textContent = "Import complete";
  close.hidden = false;
}

function importRow(list, file) {
  const bar = h("progress", { max: "1", "aria-label": `Import of ${file.name}` });
  bar.value = 0;
  const result = h("p", { class: "hint", role: "status" }, "waiting");
  list.append(h("li", {}, h("p", {}, h("bdi", {}, file.name), h("span", { class: "hint" }, ` · ${bytes(file.size)}`)), bar, result));
  const run = async () => {
    result.textContent = "sending";
    try {
      const isKnowledge = DOCUMENT.test(file.name) || OF_KNOWLEDGE.test(await file.slice(0, 4096).text());
      const path = isKnowledge ? "/v1/knowledge/import" : "/v1/memory/import";
      for await (const event of uploaded(path, file, { name: file.name, progress: true })) {
        const { done = 0, total = 0 } = event.progress ?? {};
        if (total) bar.value = done / total;
        if (event.progress) result.textContent = total ? `${Math.round((100 * done) / total)} %` : "reading";
        if (event.result) fill(result, isKnowledge ? ofKnowledge(event.result) : ofMemories(event.result));
      }
      bar.value = 1;
    } catch (error) {
      result.className = "problem";
      result.textContent = inWords(error);
    }
  };
  return { run };
}

function ofMemories({ memories, facts, duplicates, skipped, secrets, problems }) {
  const parts = [
    `${count(memories, "memory", "memories")} and ${count(facts, "fact")} imported`,
    duplicates ? `${duplicates} already stored` : "",
    skipped ? `${skipped} skipped` : "",
    secrets ? `${secrets} with secrets skipped` : "",
  ];
  return [parts.filter(Boolean).join(", "), problemList(problems)];
}

function ofKnowledge({ added, changed, unchanged, failed, problems }) {
  const parts = [added && `${count(added, "node")} added`, changed && `${changed} changed`, unchanged && `${unchanged} already stored`, failed && `${failed} failed`];
  return [parts.filter(Boolean).join(", "), problemList(problems)];
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
