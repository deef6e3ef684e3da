// Forms: something is written and kept, or left as it was. Escape leaves, Enter in a line keeps.

import { fill, h } from "./dom.js";
import { attempt } from "./notice.js";

/** A form of these `parts`. `keep` is what its button says, `send` what that does; `leave` ends it without. */
export function entryForm(parts, { keep, send, leave, ...properties }) {
  const save = h("button", { type: "submit", class: "primary" }, keep);
  const cancel = h("button", { type: "button", class: "quiet", on: { click: leave } }, "Cancel");
  const form = h("form", properties, parts, h("div", { class: "actions" }, save, cancel));
  form.addEventListener("keydown", (event) => event.key === "Escape" && !event.isComposing && leave());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(save, send);
  });
  return form;
}

/**
 * Let Enter send the form of a text of several lines, as in a chat; Shift + Enter begins a new line. Where Enter is a
 * key on a screen, it begins a new line, and Ctrl or ⌘ + Enter sends.
 */
export function sendsWithEnter(input) {
  input.addEventListener("keydown", (event) => {
    if (event.isComposing || event.key !== "Enter") return;
    const isSending = !event.shiftKey && !matchMedia("(pointer: coarse)").matches;
    if (!isSending && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    input.form.requestSubmit();
  });
}

/**
 * Put these cards, and no others, into a list; but a card that somebody writes in stays as it is. Cards are known
 * by `data-id`; those that stay without being among the new ones come first, and have `data-stray`.
 */
export function refill(list, cards) {
  const written = [...list.children].filter((card) => card.dataset.id && card.querySelector("form"));
  const open = new Map(written.map((card) => [card.dataset.id, card]));
  const kept = cards.map((card) => {
    const stays = open.get(card.dataset.id);
    open.delete(card.dataset.id);
    delete stays?.dataset.stray;
    return stays ?? card;
  });
  for (const card of open.values()) card.dataset.stray = "";
  fill(list, [...open.values()], kept);
}

/**
 * A button that opens a form for something new, once. `fields()` gives its parts and what `send` gets of them;
 * `send(values, close)` closes it when all is well. It stands before what `below()` gives.
 */
export function newEntry(label, { id, name, keep, fields, send, below }) {
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", () => {
    if (document.getElementById(id)) return;
    const { parts, first, values } = fields();
    const close = () => {
      form.remove();
      button.focus();
    };
    const form = entryForm(parts, { class: "card", id, "aria-label": name, keep, leave: close, send: () => send(values(), close) });
    below().before(form);
    first.focus();
  });
  return button;
}
