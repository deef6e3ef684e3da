// Elements out of names, properties and children. Text becomes text nodes: nothing here can make markup of it.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. `properties`: `on` has listeners, `class` and all others are attributes; true is an attribute
 * without a value, false, null and undefined are none. Children are nodes, texts, lists of them, or nothing.
 */
export function h(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

/** The same in SVG. */
export function svg(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...present(children));
  return element;
}

/** Put these children, and no others, into an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** The same, but children that are there already are not moved: they keep the focus, and a press on them counts. */
export function keepOnly(element, ...children) {
  const wanted = present(children);
  for (const child of [...element.childNodes]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, i) => {
    if (element.childNodes[i] !== child) element.insertBefore(child, element.childNodes[i] ?? null);
  });
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** What somebody wrote. Its direction is its own, and it cannot turn that of the text around it. */
export function words(text, properties = {}, name = "span") {
  return h(name, { ...properties, dir: "auto", class: `words ${properties.class ?? ""}`.trim() }, text);
}

const LONG_CHARACTERS = 600;
const LONG_LINES = 8;

/** What somebody wrote, shortened when it is long, with a button for the rest. */
export function longWords(text, properties = {}) {
  const block = words(text, properties, "p");
  if (text.length <= LONG_CHARACTERS && text.split("\n").length <= LONG_LINES) return [block];
  block.classList.add("clamped");
  const button = h("button", { type: "button", class: "quiet more", "aria-expanded": "false" }, "Show all");
  button.addEventListener("click", () => {
    const isClamped = block.classList.toggle("clamped");
    button.textContent = isClamped ? "Show all" : "Show less";
    button.setAttribute("aria-expanded", String(!isClamped));
  });
  return [block, button];
}

let lastId = 0;

/** An id that no other element has. */
export function newId(stem) {
  lastId += 1;
  return `${stem}-${lastId}`;
}

/** A field with its label above it. `control` is an input, a textarea or a select. */
export function field(label, control, hint = "") {
  control.id = control.id || newId("field");
  const hinted = hint ? h("p", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (hinted) control.setAttribute("aria-describedby", hinted.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, hinted);
}

/** A textarea as high as its text. */
export function area(value, properties = {}) {
  const made = h("textarea", { rows: 2, dir: "auto", spellcheck: "true", ...properties });
  made.value = value;
  const grow = () => {
    made.style.height = "auto";
    made.style.height = `${Math.min(made.scrollHeight + 2, 480)}px`;
  };
  made.addEventListener("input", grow);
  requestAnimationFrame(grow);
  return made;
}

/** What is shown where there is nothing: why, and what to do. */
export function empty(title, advice, action = null) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", {}, advice), action);
}

/** Whether this server answers chats, and the key may ask it to. */
export function hasChat() {
  return Boolean(document.querySelector("#nav [data-view=chat]"));
}

/** The next step where nothing is stored yet, or null where the page has no chat. */
export function chatLink() {
  return hasChat() ? h("a", { class: "button", href: "#/chat" }, "Start a conversation") : null;
}
