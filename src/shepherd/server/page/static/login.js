// Who is here: the key, where the server asks for one, and whose memory is to be shown.

import { Refused, session, whose } from "./api.js";
import { runnable } from "./commands.js";
import { field, fill, h, newId } from "./dom.js";
import { attempt, complain, inWords } from "./notice.js";

const LINK = /^#key=(.*)$/;

/** Remove the key of a link (`#key=…`) from the address, which screenshots show, and return it; "" if there is none. */
export function keyInAddress() {
  const key = LINK.exec(location.hash)?.[1] ?? "";
  if (key) history.replaceState(null, "", location.pathname);
  return key;
}

/**
 * Ask whether to sign in with the key of a link. Not without a question: somebody else may have made the link to
 * read what is said here.
 */
export async function offerKey(main, key, done) {
  let who;
  try {
    who = await whose(key);
  } catch (error) {
    await done();
    complain(error.status === 401 ? new Refused("The server doesn't know the key in this link. It may have been revoked, or the link wasn't copied completely.") : error);
    return;
  }
  // A server without keys has no owners.
  if (!who.owner) {
    done();
    return;
  }
  const stay = staying();
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    { class: "card sign-in" },
    h("h1", {}, "Sign in with this link?"),
    h("p", {}, "It opens the memory of ", h("bdi", {}, who.owner), ", and what you say here is stored there. If that memory isn't yours, press Cancel, because somebody else can read it."),
    stay.parts,
    h("div", { class: "actions" }, button, h("button", { type: "button", class: "quiet", on: { click: done } }, "Cancel")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    session.signIn(key, stay.isWanted(), who.owner);
    done();
  });
  fill(main, form);
  button.focus();
}

/** A box to tick for staying signed in: its elements, and whether it is ticked. */
function staying() {
  const id = newId("stay");
  const box = h("input", { type: "checkbox", id, name: "stay", "aria-describedby": `${id}-hint` });
  const label = h("label", { class: "check", for: id }, box, "Stay signed in on this device");
  const hint = h("p", { class: "hint", id: `${id}-hint` }, "Otherwise you are signed out when you close this tab. Tick this only on a device of your own: until you sign out, anyone who uses this browser can read the memory.");
  return { parts: h("div", { class: "field" }, label, hint), isWanted: () => box.checked };
}

/** Ask for the key, until the server knows it. */
export function askKey(main, done, wasIn) {
  const input = h("input", {
    type: "password",
    autocomplete: "current-password",
    spellcheck: "false",
    required: true,
    name: "key",
  });
  const stay = staying();
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    { class: "card sign-in" },
    h("h1", {}, wasIn ? "Sign in again" : "Sign in"),
    wasIn ? h("p", {}, "The server no longer accepts the key: it was revoked, or belongs to another server.") : null,
    field("Your API key", input),
    stay.parts,
    problem,
    h("div", { class: "actions" }, button),
    h(
      "details",
      {},
      h("summary", {}, "I have no key"),
      h("p", {}, "The person who runs this server can create one, in a terminal on the computer where it runs:"),
      h("pre", { tabindex: "0" }, runnable("shepherd apikey create --owner YOUR-NAME")),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(button, () => tryKey(input, stay.isWanted(), problem, done));
  });
  fill(main, form);
  input.focus();
}

async function tryKey(input, stays, problem, done) {
  const key = input.value.trim();
  let who;
  try {
    who = await whose(key);
  } catch (error) {
    problem.textContent =
      error.status === 401 ? "The server does not know this key. Copy all of it, from shepherd_ on." : inWords(error);
    input.select();
    return;
  }
  session.signIn(key, stays, who.owner);
  done();
}

/** Ask whose memory is to be shown. */
export function askUser(main, who, done) {
  const input = h("input", { type: "text", autocomplete: "off", autocapitalize: "none", spellcheck: "false", name: "user", dir: "auto" });
  input.value = session.user;
  const owned = who.owner
    ? [
        "Your key belongs to ",
        h("bdi", {}, who.owner),
        ". Leave the field empty to see that memory, or enter the name of one of its users, such as an application.",
      ]
    : [
        "Each user of this server has a memory of their own, under the name that a program sends as “user”. ",
        who.suggested ? ["What you say in the terminal is kept for ", h("bdi", {}, who.suggested), "."] : "Leave the field empty to see the server's own.",
      ];
  // Without a user there is nothing to go back to.
  const cancel = who.user ? h("button", { type: "button", class: "quiet", on: { click: () => leave(done) } }, "Cancel") : null;
  const form = h(
    "form",
    { class: "card sign-in" },
    h("h1", {}, "Whose memory?"),
    h("p", {}, owned),
    field("User", input),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Show this memory"), cancel),
  );
  form.addEventListener("keydown", (event) => event.key === "Escape" && !event.isComposing && cancel?.click());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    session.user = input.value.trim();
    done();
  });
  fill(main, form);
  input.focus();
}

async function leave(done) {
  await done();
  document.querySelector(".controls .user")?.focus();
}
