// What the page tells: messages that go, changes that can be undone, questions before those that cannot.

import { Refused, onReached } from "./api.js";
import { fill, h } from "./dom.js";

const STAYS_MS = 8000;
// Errors that are told at once; of more only their number.
const MOST_TOLD = 5;
let timer = 0;
// Whether what is said is that the server did not answer.
let isUnreached = false;

addEventListener("keydown", (event) => {
  // It closes a dialog first.
  const isTaken = event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]");
  if (event.key === "Escape" && !isTaken) unsay();
});

onReached(() => {
  if (!isUnreached) return;
  isUnreached = false;
  timer = setTimeout(unsay, STAYS_MS);
});

function place() {
  return document.getElementById("notices");
}

/** Show a notice in place of the one before; what can be undone stays above it. */
function show(notice) {
  unsay();
  place().append(notice);
}

/** Take away what is said; what can be undone stays. */
export function unsay() {
  clearTimeout(timer);
  isUnreached = false;
  place().querySelector(":scope > :not(.undo)")?.remove();
}

/** Say something. It goes by itself. */
export function say(text) {
  show(h("div", { class: "notice" }, h("p", {}, text)));
  timer = setTimeout(unsay, STAYS_MS);
}

/** Show errors until they are closed; if the server did not answer, until soon after it answers again. */
export function complain(...errors) {
  const texts = [...new Set(errors.map(inWords))];
  const told = texts.length > MOST_TOLD ? [...texts.slice(0, MOST_TOLD), `and ${texts.length - MOST_TOLD} more`] : texts;
  const close = h("button", { type: "button", class: "quiet", on: { click: unsay } }, "Close");
  const words = h("div", { class: "told" }, told.map((text) => h("p", {}, text)));
  show(h("div", { class: "notice bad" }, words, close));
  // A keyboard has to reach what scrolls.
  if (words.scrollHeight > words.clientHeight) words.tabIndex = 0;
  isUnreached = errors.some(({ code }) => code === "unreachable");
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

/** Whether another try is of no use: the server no longer has what is wanted, or it was changed since. */
export function isFinal(error) {
  return [404, 409].includes(error.status);
}

/** An error as a person reads it. */
export function inWords(error) {
  if (error instanceof Refused) return error.message;
  console.error(error);
  return "Something is wrong with this page. Reload it; if that doesn't help, report it to Shepherd's developers.";
}

/**
 * Say what was done, with a button that undoes it; stays until it is pressed or closed, or something else can be
 * undone. If `undo` fails, the notice says why, and the button can be pressed again.
 */
export function offerUndo(text, undo, { after = () => {} } = {}) {
  hush();
  const button = h("button", { type: "button" }, "Undo");
  const dismiss = h("button", { type: "button", class: "quiet" }, "Close");
  const problem = h("p", { class: "problem", role: "alert" });
  const notice = h("div", { class: "notice undo" }, h("p", {}, text), problem, button, dismiss);
  const end = () =>
    attempt(dismiss, async () => {
      notice.remove();
      await after();
    });
  const failed = (error) => {
    problem.textContent = inWords(error);
    notice.classList.add("bad");
    if (!isFinal(error)) return;
    button.remove();
    dismiss.focus({ preventScroll: true });
  };
  button.addEventListener("click", async () => {
    problem.textContent = "";
    if (await attempt(button, undo, failed)) end();
  });
  dismiss.addEventListener("click", end);
  place().append(notice);
  button.focus({ preventScroll: true });
}

/** Take away what is said, and what can be undone. */
export function hush() {
  unsay();
  fill(place());
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
 * Run what a button does; what goes wrong is told, by default as any error, and the button rests meanwhile. It is
 * not disabled: that would take the keyboard's focus away.
 */
export async function attempt(button, work, tell = complain) {
  if (button.getAttribute("aria-disabled") === "true") return false;
  button.setAttribute("aria-disabled", "true");
  try {
    await work();
    return true;
  } catch (error) {
    tell(error);
    return false;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}
