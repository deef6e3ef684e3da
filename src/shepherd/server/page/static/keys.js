// Single keys: "/" goes to the search, j and k walk a list, "?" tells all of them. They can be switched off, since
// speech input types letters that nobody meant as keys.

import { fill, h } from "./dom.js";

const NAME = "shepherd.keys";
const EVERYWHERE = [
  ["/", "Search this view"],
  ["?", "Show this list of keys"],
];
const IN_LISTS = [
  ["j or ↓, k or ↑", "Go to the next or the previous entry"],
  ["Enter", "Open or close the entry"],
  ["x", "Select the entry, or deselect it"],
  ["Shift with ↓, ↑ or a click", "Select several in a row"],
  ["Escape", "Close the entry, clear the selection, or leave an empty search"],
];
const IN_GRAPH = [
  ["Arrow keys", "Move from node to node"],
  ["Enter", "Open the node"],
  ["Shift with an arrow key", "Move the node"],
  ["+, −, Home", "Zoom in, zoom out, show all"],
];
const WHEN_WRITING = [
  ["Enter", "Send the message, or save a field of one line"],
  ["Shift + Enter", "Begin a new line"],
  ["Escape", "Stop the answer, or close a form without saving"],
];

let view = {};

function areOn() {
  return localStorage.getItem(NAME) !== "off";
}

/** What keys act on in the view that is shown: `search`, a field, and `rows`, a list of rows.js. */
export function setKeys(targets = {}) {
  view = targets;
}

function isWriting(element) {
  return Boolean(element?.closest("input:not([type=checkbox]), textarea, select, [contenteditable], dialog"));
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === view.search && !event.target.value && view.rows) {
    event.preventDefault();
    view.rows.focus();
    return;
  }
  if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
  if (view.rows?.key(event, areOn())) event.preventDefault();
  else if (areOn() && event.key === "/" && view.search?.isConnected) {
    event.preventDefault();
    view.search.focus();
    view.search.select();
  } else if (areOn() && event.key === "?") {
    event.preventDefault();
    showKeys();
  }
});

/** A button that shows the keys. */
export function keysButton() {
  return h("button", { type: "button", class: "quiet keys-button", on: { click: showKeys } }, "Keyboard");
}

function showKeys() {
  const before = document.activeElement;
  const part = (title, keys) => [h("h3", {}, title), h("dl", { class: "keys" }, keys.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text))))];
  const single = h("input", { type: "checkbox", id: "single-keys", checked: areOn() });
  single.addEventListener("change", () => localStorage.setItem(NAME, single.checked ? "on" : "off"));
  const close = h("button", { type: "button", class: "primary", autofocus: true }, "Close");
  const dialog = h("dialog", { "aria-labelledby": "keys-title", class: "wide" });
  const lists = [part("Everywhere", EVERYWHERE), part("In lists", IN_LISTS), part("In the graph", IN_GRAPH), part("When you write", WHEN_WRITING)];
  fill(
    dialog,
    h("h2", { id: "keys-title" }, "Keys"),
    h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-labelledby": "keys-title" }, lists),
    h("label", { class: "check", for: "single-keys" }, single, "Use single letters and signs as keys"),
    h("div", { class: "actions" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
}
