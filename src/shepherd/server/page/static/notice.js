// What the page tells: messages that go, changes that can be undone, questions before those that cannot.

import { Refused, onReached } from "./api.js";
import { fill, h } from "./dom.js";

const STAYS_MS = 8000;
let timer = 0;
let isUndoable = false;
// Whether what is said is that the server did not answer.
let isUnreached = false;

onReached(() => {
  if (!isUnreached) return;
  isUnreached = false;
  timer = setTimeout(hush, STAYS_MS);
});

function place() {
  return document.getElementById("notices");
}

/** Say something. It goes by itself. */
export function say(text) {
  hush();
  fill(place(), h("div", { class: "notice" }, h("p", {}, text)));
  timer = setTimeout(hush, STAYS_MS);
}

/** Show an error until it is closed; if the server did not answer, until soon after it answers again. */
export function complain(error) {
  hush();
  isUnreached = error.code === "unreachable";
  const close = h("button", { type: "button", class: "quiet", on: { click: hush } }, "Close");
  fill(place(), h("div", { class: "notice bad" }, h("p", {}, inWords(error)), close));
}

/** Say what was done, but not as it was meant; stays until it is read. */
export function warn(text) {
  complain(new Refused(text));
}

/** Say that something was stored; if secrets in it were masked, so that nobody misses them later. */
export function saySaved(secrets) {
  if (!secrets) {
    say("Saved.");
    return;
  }
  const [were, them] = secrets === 1 ? ["a secret in it was", "it"] : [`${secrets} secrets in it were`, "them"];
  warn(`Saved, but ${were} replaced by dots: passwords, codes and keys aren't stored. Keep ${them} in a password manager.`);
}

/** An error as a person reads it. */
export function inWords(error) {
  if (error instanceof Refused) return error.message;
  console.error(error);
  return "Something is wrong with this page. Reload it; if that doesn't help, report it to Shepherd's developers.";
}

/** Say what was done, with a button that undoes it; stays until something else is done. */
export function offerUndo(text, undo, { after = () => {} } = {}) {
  hush();
  isUndoable = true;
  const button = h("button", { type: "button" }, "Undo");
  button.addEventListener("click", async () => {
    if (await attempt(button, undo)) hush();
    after();
  });
  const close = () => {
    hush();
    after();
  };
  const dismiss = h("button", { type: "button", class: "quiet", on: { click: close } }, "Close");
  fill(place(), h("div", { class: "notice" }, h("p", {}, text), button, dismiss));
  button.focus({ preventScroll: true });
}

/** Take away what is said. */
export function hush() {
  clearTimeout(timer);
  isUndoable = isUnreached = false;
  fill(place());
}

/** Take away what only made sense in the view that is left; an undo stays. */
export function leave() {
  if (!isUndoable) hush();
}

/** Ask before something that cannot be undone; whether it is wanted. */
export function confirmed(title, text, action) {
  return new Promise((resolve) => {
    const no = h("button", { type: "button", autofocus: true }, "Cancel");
    const yes = h("button", { type: "button", class: "danger" }, action);
    const dialog = h(
      "dialog",
      { "aria-labelledby": "question-title", "aria-describedby": "question-text" },
      h("h2", { id: "question-title" }, title),
      h("p", { id: "question-text" }, text),
      h("div", { class: "actions" }, no, yes),
    );
    // At once, not when the browser tells that it was closed: the button that asked can be pressed again by then.
    const end = (isWanted) => {
      dialog.close();
      dialog.remove();
      resolve(isWanted);
    };
    no.addEventListener("click", () => end(false));
    yes.addEventListener("click", () => end(true));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      end(false);
    });
    dialog.addEventListener("close", () => end(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Run what a button does; what goes wrong is told, and the button rests meanwhile. It is not disabled: that
 * would take the keyboard's focus away.
 */
export async function attempt(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return false;
  button.setAttribute("aria-disabled", "true");
  try {
    await work();
    return true;
  } catch (error) {
    complain(error);
    return false;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}
