// Lists as lists: one line an entry, walked and opened by the keyboard, selected one by one or several in a row.

import { fill, h, newId } from "./dom.js";
import { refill } from "./forms.js";
import { count, integer } from "./format.js";
import { attempt } from "./notice.js";

/**
 * A list of entries. `id(item)` names one; `line(item)` gives what its line shows: `main`, and `cells` behind it;
 * `open(item, row)` gives what is shown below an open line, or null where something else shows it.
 * `actions` are done to all that are selected: [label, work(items, button)]. `names` are one and many of them.
 */
export class Rows {
  constructor({ label, id, line, open, actions, names, columns = "" }) {
    Object.assign(this, { id, line, open, names });
    this.items = new Map();
    this.selected = new Set();
    this.cursor = "";
    // Of those that are there, shown or not; a view that shows some of them sets it.
    this.total = 0;
    this.summary = h("p", { class: "summary", role: "status" });
    this.all = h("input", { type: "checkbox", "aria-label": "Select all that are shown" });
    this.all.addEventListener("change", () => this.select(this.all.checked ? this.shown() : []));
    this.bulk = h("div", { class: "bulk", role: "group", "aria-label": "All that are selected", hidden: true }, actions.map(([text, work]) => this.action(text, work)), this.clear());
    this.head = h("div", { class: "rows-head" }, this.all, this.summary, this.bulk);
    this.list = h("ul", { class: `rows plain ${columns}`, "aria-label": label });
    this.element = h("div", { class: "rows-box" }, this.head, this.list);
    this.list.addEventListener("focusin", (event) => this.rove(event.target.closest("li")?.dataset.id));
  }

  action(text, work) {
    const button = h("button", { type: "button", class: "small" }, text);
    button.addEventListener("click", () => attempt(button, () => work(this.chosen(), button)));
    return button;
  }

  clear() {
    const button = h("button", { type: "button", class: "quiet small" }, "Clear");
    button.addEventListener("click", () => {
      this.select([]);
      this.focus();
    });
    return button;
  }

  // ---- what is in it

  /** Show these, and no others; but an entry that somebody writes in stays. */
  set(items, nothing = null) {
    const selected = items.map(this.id).filter((id) => this.selected.has(String(id)));
    this.items = new Map(items.map((item) => [String(this.id(item)), item]));
    refill(this.list, items.map((item) => this.row(item)));
    if (!items.length && nothing && !this.list.childElementCount) this.list.append(h("li", { class: "nothing" }, nothing));
    this.head.hidden = !items.length && Boolean(nothing);
    this.rove(this.items.has(this.cursor) ? this.cursor : this.shown()[0]);
    this.select(selected);
  }

  /** Add these at the end, and go to the first of them. */
  append(items) {
    for (const item of items) this.items.set(String(this.id(item)), item);
    this.list.append(...items.map((item) => this.row(item)));
    this.rove(this.cursor);
    this.select([...this.selected]);
    if (items.length) this.focus(this.id(items[0]));
  }

  /** Show an entry as it is now; it stays open if it is. */
  update(item) {
    const id = String(this.id(item));
    if (!this.items.has(id)) return;
    this.items.set(id, item);
    const row = this.find(id);
    const made = this.row(item);
    row.querySelector(".row-line").replaceWith(made.querySelector(".row-line"));
    row.className = made.className;
    this.mark(row);
    this.rove(this.cursor);
  }

  /** Take entries away; return a function that puts them back to where they were. */
  remove(ids) {
    const gone = ids.map(String).map((id) => ({ id, item: this.items.get(id), row: this.find(id) })).filter(({ row }) => row);
    const focused = this.list.contains(document.activeElement) || document.activeElement === document.body;
    const places = gone.map(({ row }) => row.nextElementSibling);
    const next = this.after(gone.map(({ id }) => id));
    for (const { id, row } of gone) {
      row.remove();
      this.items.delete(id);
      this.selected.delete(id);
    }
    this.select([...this.selected]);
    this.rove(this.items.has(this.cursor) ? this.cursor : next);
    if (focused) this.focus();
    return () => {
      for (const { id, item, row } of gone.toReversed()) {
        const before = places[gone.findIndex((one) => one.id === id)];
        this.items.set(id, item);
        const back = this.row(item);
        row.replaceChildren(...back.childNodes);
        row.className = back.className;
        this.list.insertBefore(row, before?.parentElement === this.list ? before : null);
      }
      this.select([...this.selected]);
      this.rove(gone[0]?.id ?? this.cursor);
    };
  }

  /** The entry that follows the last of these, or else precedes the first. */
  after(ids) {
    const shown = this.shown();
    const last = Math.max(...ids.map((id) => shown.indexOf(id)));
    return shown.slice(last + 1).find((id) => !ids.includes(id)) ?? shown.findLast((id) => !ids.includes(id));
  }

  shown() {
    return [...this.list.children].map((row) => row.dataset.id).filter((id) => this.items.has(id));
  }

  chosen() {
    return this.shown().filter((id) => this.selected.has(id)).map((id) => this.items.get(id));
  }

  find(id) {
    return [...this.list.children].find((row) => row.dataset.id === String(id));
  }

  row(item) {
    const id = newId("row");
    const { main, cells = [], mark = "" } = this.line(item);
    const box = h("input", { type: "checkbox", tabindex: "-1", id: `${id}-box`, "aria-labelledby": `${id}-select ${id}` });
    box.addEventListener("click", (event) => this.toggle(this.id(item), box.checked, event.shiftKey));
    const button = h("button", { type: "button", class: "row-main", tabindex: "-1", "aria-expanded": "false" }, h("span", { class: "row-text", id }, main), cells);
    button.addEventListener("click", () => this.turn(this.id(item)));
    const row = h("li", { class: `item ${mark}`, "data-id": this.id(item) }, h("div", { class: "row-line" }, box, h("span", { class: "hidden", id: `${id}-select` }, "Select"), button));
    return row;
  }

  // ---- open and closed

  turn(id) {
    const row = this.find(id);
    if (row.querySelector(":scope > .detail")) this.close(row);
    else this.show(row);
  }

  show(row) {
    const content = this.open(this.items.get(row.dataset.id), row);
    if (!content) return;
    row.append(h("div", { class: "detail" }, content));
    row.querySelector(".row-main").setAttribute("aria-expanded", "true");
    row.scrollIntoView({ block: "nearest" });
  }

  close(row) {
    row.querySelector(":scope > .detail")?.remove();
    const button = row.querySelector(".row-main");
    button.setAttribute("aria-expanded", "false");
    button.focus();
  }

  // ---- the keyboard

  /** Only one entry is in the order of Tab. */
  rove(id) {
    if (id === undefined) return;
    this.cursor = String(id);
    for (const row of this.list.children) {
      for (const control of row.querySelectorAll(":scope > .row-line :is(input, button)")) control.tabIndex = row.dataset.id === this.cursor ? 0 : -1;
    }
  }

  focus(id = this.cursor) {
    const row = this.find(id) ?? this.list.firstElementChild;
    (row?.querySelector(".row-main") ?? document.getElementById("view")).focus();
    row?.scrollIntoView({ block: "nearest" });
  }

  /** Do what a key is for; return whether it was for anything. `areLetters`: letters are keys. */
  key(event, areLetters) {
    const isInside = this.list.contains(event.target);
    if (event.key === "Escape") return this.leave(event.target);
    if (isInside && event.target.closest(".detail")) return false;
    const step = { ArrowDown: 1, ArrowUp: -1, ...(areLetters ? { j: 1, k: -1, J: 1, K: -1 } : {}) }[event.key];
    if (step && (isInside || !event.key.startsWith("Arrow"))) return this.move(step, event.shiftKey, isInside);
    if (isInside && event.key === "Home") return this.go(this.shown()[0]);
    if (isInside && event.key === "End") return this.go(this.shown().at(-1));
    if (areLetters && event.key === "x" && isInside) {
      this.toggle(this.cursor, !this.selected.has(this.cursor));
      return true;
    }
    return false;
  }

  go(id) {
    if (id !== undefined) this.focus(id);
    return true;
  }

  move(step, extends_, isInside) {
    const shown = this.shown();
    const at = shown.indexOf(this.cursor);
    const next = shown[isInside ? at + step : Math.max(at, 0)];
    if (next === undefined) return true;
    if (extends_ && isInside) this.select([...this.selected, this.cursor, next]);
    this.focus(next);
    return true;
  }

  leave(target) {
    const row = target.closest?.("li.item");
    if (row && this.list.contains(row) && row.querySelector(":scope > .detail")) this.close(row);
    else if (this.selected.size) this.select([]);
    else return false;
    return true;
  }

  // ---- what is selected

  toggle(id, isOn, isRange = false) {
    const shown = this.shown();
    const [from, to] = [shown.indexOf(this.anchor ?? String(id)), shown.indexOf(String(id))].sort((a, b) => a - b);
    const ids = isRange && from >= 0 ? shown.slice(from, to + 1) : [String(id)];
    this.anchor = String(id);
    this.select(isOn ? [...this.selected, ...ids] : [...this.selected].filter((one) => !ids.includes(one)));
  }

  select(ids) {
    this.selected = new Set(ids.map(String));
    for (const row of this.list.children) this.mark(row);
    const n = this.selected.size;
    this.all.checked = n > 0 && n === this.items.size;
    this.all.indeterminate = n > 0 && n < this.items.size;
    this.bulk.hidden = !n;
    this.summary.textContent = n ? this.told(n) : (this.text ?? "");
  }

  /** How many are selected; if that is all that are shown, how many more there are. */
  told(n) {
    if (n < this.items.size || n >= this.total) return `${count(n, ...this.names)} selected`;
    const shown = n === 1 ? `The only ${this.names[0]} shown is` : `All ${count(n, ...this.names)} shown are`;
    return `${shown} selected (${integer(this.total)} in total)`;
  }

  mark(row) {
    const box = row.querySelector(":scope > .row-line > input");
    if (box) box.checked = this.selected.has(row.dataset.id);
    row.classList.toggle("selected", this.selected.has(row.dataset.id));
  }

  /** What is said of the whole list, as long as nothing is selected. */
  say(text) {
    this.text = text;
    if (!this.selected.size) this.summary.textContent = text;
  }
}

// ---- what narrows it

/** A choice among `options`, [value, label] each; the first one is none. `changed()` is called after a choice. */
export function choice(name, options, changed) {
  const made = h("select", { "aria-label": name, name: name.toLowerCase() });
  const draw = (all) => fill(made, all.map(([value, label]) => h("option", { value }, label)));
  draw(options);
  made.addEventListener("change", () => {
    made.classList.toggle("active", made.selectedIndex > 0);
    changed();
  });
  made.draw = (all) => {
    const before = made.value;
    draw(all);
    made.value = all.some(([value]) => value === before) ? before : all[0][0];
  };
  return made;
}

/** The line above a list: the search, and the choices, folded away where the screen is narrow. */
export function toolbar(search, choices) {
  const narrow = matchMedia("(max-width: 52rem)");
  const filters = h("details", { class: "filters", open: !narrow.matches }, h("summary", {}, "Filter and sort"), h("div", {}, choices));
  // A wide window has no line to open them with.
  const turned = () => {
    if (filters.isConnected) filters.open = !narrow.matches;
    else narrow.removeEventListener("change", turned);
  };
  narrow.addEventListener("change", turned);
  return h("div", { class: "tools" }, search, filters);
}

const DAY_S = 86_400;

/** Choices of time, for `choice`; `period` says what one means. */
export const TIMES = [
  ["", "Any time"],
  ["1", "Last 24 hours"],
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
  ["365", "Last year"],
  ["-365", "Over a year ago"],
];

export function period(value) {
  const days = Number(value);
  const at = Math.floor(Date.now() / 1000) - Math.abs(days) * DAY_S;
  return !days ? {} : days > 0 ? { since: at } : { until: at };
}
