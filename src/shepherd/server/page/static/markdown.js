// Markdown as elements: what a model writes becomes nodes one by one, never markup out of text.
//
// A model may write anything, and the page shows it while it is being written. So every text gives a result, in
// time that grows with its length: nesting has a limit, and so has the search for the end of an emphasis. Links
// lead to http, https and mail addresses only. Pictures are not loaded: they are shown as links.

import { h } from "./dom.js";

const DEEPEST = 8;
const DEEPEST_INLINE = 6;
// Places that are tried as the end of an emphasis.
const MOST_TRIED = 40;
const MOST_COLUMNS = 40;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const CELLS = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const ADDRESS = /^(?:https?:\/\/|mailto:)/i;

/**
 * Show a text that may still grow in an element: blocks that are as before stay, with what is selected in them.
 * `code` makes the element of a code block from its text and its language.
 */
export function showMarkdown(element, text, code = plainCode) {
  const blocks = blocksOf(text.split(/\r\n?|\n/), 0);
  const shown = element.shownBlocks ?? [];
  let same = 0;
  while (same < blocks.length && same < shown.length && blocks[same].key === shown[same]) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  element.append(...blocks.slice(same).map((block) => drawn(block, code)));
  element.shownBlocks = blocks.map((block) => block.key);
}

function plainCode(text, language) {
  return h("pre", { tabindex: "0", "aria-label": language ? `Code: ${language}` : "Code" }, h("code", {}, text));
}

// ---- blocks

/** The blocks of lines: `type`, what it is made of, and a `key` that is equal for equal blocks. */
function blocksOf(lines, depth) {
  const blocks = [];
  for (let i = 0; i < lines.length; ) {
    const first = i;
    const block = lines[i].trim() ? blockAt(lines, i, depth) : { next: i + 1 };
    i = Math.max(block.next, first + 1);
    if (block.type) blocks.push({ ...block, depth, key: `${block.type}\n${lines.slice(first, i).join("\n")}` });
  }
  return blocks;
}

function blockAt(lines, i, depth) {
  const line = lines[i];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, i, fence);
  const heading = HEADING.exec(line);
  if (heading) return { type: "heading", level: heading[1].length, text: line.slice(heading[0].length).replace(/[ \t]+#+[ \t]*$/, ""), next: i + 1 };
  if (RULE.test(line)) return { type: "rule", next: i + 1 };
  if (depth < DEEPEST && QUOTE.test(line)) return quote(lines, i);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, i);
  if (line.includes("|") && i + 1 < lines.length && lines[i + 1].includes("-") && CELLS.test(lines[i + 1])) {
    const found = table(lines, i);
    if (found) return found;
  }
  return paragraph(lines, i, depth);
}

function fenced(lines, i, [, mark, language]) {
  const inner = [];
  let next = i + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next].trim();
    if (line.length >= mark.length && line === mark[0].repeat(line.length)) break;
    inner.push(lines[next]);
  }
  return { type: "code", language, text: inner.join("\n"), next: next + 1 };
}

function quote(lines, i) {
  const inner = [];
  let next = i;
  for (; next < lines.length && QUOTE.test(lines[next]); next += 1) inner.push(lines[next].replace(QUOTE, ""));
  return { type: "quote", inner, next };
}

function list(lines, i) {
  const [, margin, mark] = ITEM.exec(lines[i]);
  const isOrdered = /\d/.test(mark);
  const items = [];
  let next = i;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    const item = ITEM.exec(line);
    if (item && item[1].length <= margin.length + 1 && !RULE.test(line)) {
      if (/\d/.test(item[2]) !== isOrdered) break;
      items.push([line.slice(item[0].length)]);
    } else if (!line.trim()) {
      const after = lines[next + 1] ?? "";
      if (!/^ {2,}\S/.test(after) && !ITEM.test(after)) break;
      items.at(-1).push("");
    } else if (/^\s/.test(line) || (!isBlockStart(line) && lines[next - 1].trim())) {
      items.at(-1).push(unindented(line, margin.length + mark.length + 1));
    } else break;
  }
  return { type: "list", isOrdered, start: isOrdered ? Number.parseInt(mark, 10) : 1, items, next };
}

function unindented(line, most) {
  let n = 0;
  while (n < most && (line[n] === " " || line[n] === "\t")) n += 1;
  return line.slice(n);
}

function isBlockStart(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function table(lines, i) {
  const head = cells(lines[i]);
  const columns = cells(lines[i + 1]);
  if (head.length !== columns.length || head.length > MOST_COLUMNS) return null;
  const rows = [];
  let next = i + 2;
  for (; next < lines.length && lines[next].includes("|"); next += 1) rows.push(cells(lines[next]).slice(0, head.length));
  return { type: "table", head, rows, sides: columns.map(side), next };
}

/** Where the texts of a column stand, by the colons of the line below its header. */
function side(dashes) {
  const [isAtStart, isAtEnd] = [dashes.startsWith(":"), dashes.endsWith(":")];
  if (isAtEnd) return isAtStart ? "center" : "right";
  return isAtStart ? "left" : null;
}

function cells(line) {
  const found = [""];
  for (let i = 0; i < line.length; i += 1) {
    if (line[i] === "\\" && line[i + 1] === "|") {
      found[found.length - 1] += "|";
      i += 1;
    } else if (line[i] === "|") found.push("");
    else found[found.length - 1] += line[i];
  }
  if (!found[0].trim()) found.shift();
  if (found.length > 1 && !found.at(-1).trim()) found.pop();
  return found.map((cell) => cell.trim());
}

function paragraph(lines, i, depth) {
  let next = i + 1;
  while (next < lines.length && lines[next].trim() && !(depth < DEEPEST ? isBlockStart(lines[next]) : FENCE.test(lines[next]))) next += 1;
  return { type: "paragraph", text: lines.slice(i, next).map((line) => line.replace(/^\s+/, "")).join("\n"), next };
}

function drawn(block, code) {
  switch (block.type) {
    case "code":
      return code(block.text, block.language);
    case "heading":
      // The page has an h1, and the turn an h2.
      return h(`h${Math.min(block.level + 2, 6)}`, { dir: "auto" }, inline(block.text));
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, blocksOf(block.inner, block.depth + 1).map((inner) => drawn(inner, code)));
    case "list":
      return drawnList(block, code);
    case "table":
      return drawnTable(block);
    default:
      return h("p", { dir: "auto" }, inline(block.text));
  }
}

function drawnList({ isOrdered, start, items, depth }, code) {
  // Numbers stand in the margin, which must have room for the longest.
  const digits = isOrdered ? String(start + items.length - 1).length : 0;
  const properties = { dir: "auto", start: isOrdered && start !== 1 ? start : null, class: digits > 2 ? `digits-${Math.min(digits, 9)}` : null };
  return h(isOrdered ? "ol" : "ul", properties, items.map((lines) => item(lines, depth, code)));
}

function item(lines, depth, code) {
  const [first, ...others] = blocksOf(lines, depth + 1);
  if (!first) return h("li");
  // One line needs no paragraph of its own.
  const opening = first.type === "paragraph" ? inline(first.text) : drawn(first, code);
  return h("li", {}, opening, others.map((block) => drawn(block, code)));
}

function drawnTable({ head, rows, sides }) {
  // An attribute, since the page allows no styles within its text.
  const row = (name, texts) => h("tr", {}, texts.map((text, i) => h(name, { dir: "auto", scope: name === "th" ? "col" : null, "data-side": sides[i] }, inline(text))));
  const content = h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, rows.map((texts) => row("td", texts))));
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, content);
}

// ---- inside of a line

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const URL_IN_TEXT = /https?:\/\/[^\s<>"'`]+/iy;

/** The nodes and texts of a line. */
function inline(text, depth = 0) {
  const nodes = [];
  let plain = "";
  const push = (node) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  const closing = new Closings(text);
  for (let i = 0; i < text.length; ) {
    const found = markAt(text, i, depth, closing);
    if (found) {
      push(found.node);
      i = found.next;
    } else if (text[i] === "\\" && ESCAPABLE.test(text[i + 1] ?? "")) {
      plain += text[i + 1];
      i += 2;
    } else {
      plain += text[i];
      i += 1;
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

/** Where a mark comes next: a place that was found is not looked for again. */
class Closings {
  constructor(text) {
    this.text = text;
    this.places = new Map();
  }

  after(mark, from) {
    const known = this.places.get(mark);
    if (known !== undefined && (known < 0 || (known >= from && this.from.get(mark) <= from))) return known;
    const place = this.text.indexOf(mark, from);
    this.places.set(mark, place);
    (this.from ??= new Map()).set(mark, from);
    return place;
  }
}

function markAt(text, i, depth, closing) {
  const letter = text[i];
  if (letter === "`") return codeSpan(text, i, closing);
  if (letter === "\n") return { node: h("br"), next: i + 1 };
  if (letter === "h" || letter === "H") return bareLink(text, i);
  if (depth >= DEEPEST_INLINE) return null;
  if (letter === "*" || letter === "_" || letter === "~") return emphasis(text, i, depth, closing);
  if (letter === "[") return link(text, i, depth, closing);
  if (letter === "!" && text[i + 1] === "[") return link(text, i + 1, depth, closing);
  if (letter === "<") return angled(text, i, closing);
  return null;
}

function codeSpan(text, i, closing) {
  let n = 1;
  while (text[i + n] === "`") n += 1;
  const mark = "`".repeat(n);
  const end = closing.after(mark, i + n);
  if (end < 0) return { node: mark, next: i + n };
  const inner = text.slice(i + n, end).replaceAll("\n", " ");
  // With a direction of its own, it doesn't count for that of the paragraph.
  return { node: h("code", { dir: "ltr" }, inner.trim() ? inner.replace(/^ (.*) $/, "$1") : inner), next: end + n };
}

function emphasis(text, i, depth, closing) {
  const letter = text[i];
  const n = text[i + 1] === letter ? 2 : 1;
  if (letter === "~" && n === 1) return null;
  if (letter === "_" && WORD.test(text[i - 1] ?? "")) return null;
  if (!text[i + n] || /\s/.test(text[i + n])) return null;
  const mark = letter.repeat(n);
  let end = closing.after(mark, i + n);
  for (let tried = 0; end >= 0 && tried < MOST_TRIED; tried += 1) {
    // The end of "**a *b***" is its last two stars.
    while (text[end + n] === letter && n === 2) end += 1;
    const isOther = n === 1 && (text[end + 1] === letter || text[end - 1] === letter);
    const isInWord = letter === "_" && WORD.test(text[end + n] ?? "");
    if (end > i + n && !/\s/.test(text[end - 1]) && !isOther && !isInWord) {
      const name = letter === "~" ? "del" : n === 2 ? "strong" : "em";
      return { node: h(name, {}, inline(text.slice(i + n, end), depth + 1)), next: end + n };
    }
    end = text.indexOf(mark, end + (isOther ? 2 : 1));
  }
  return { node: mark, next: i + n };
}

function link(text, i, depth, closing) {
  const middle = closing.after("](", i + 1);
  if (middle < 0 || text.lastIndexOf("[", middle) !== i) return null;
  const end = text.indexOf(")", middle + 2);
  if (end < 0 || end - middle > 4096) return null;
  const [address] = text.slice(middle + 2, end).trim().split(/\s+/, 1);
  const label = text.slice(i + 1, middle);
  if (!ADDRESS.test(address)) return null;
  return { node: anchor(address, label ? inline(label, DEEPEST_INLINE) : address), next: end + 1 };
}

function angled(text, i, closing) {
  const end = closing.after(">", i);
  if (end < 0 || end - i > 2048) return null;
  const address = text.slice(i + 1, end);
  return ADDRESS.test(address) && !/\s/.test(address) ? { node: anchor(address, address), next: end + 1 } : null;
}

function bareLink(text, i) {
  if (WORD.test(text[i - 1] ?? "")) return null;
  URL_IN_TEXT.lastIndex = i;
  const found = URL_IN_TEXT.exec(text)?.[0].replace(/[.,;:!?)\]*_~]+$/, "");
  return found && found.length > 8 ? { node: anchor(found, found), next: i + found.length } : null;
}

function anchor(address, content) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return h("span", {}, content);
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return h("span", {}, content);
  return h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, content);
}
