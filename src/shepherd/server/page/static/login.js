// Who is here: the key, where the server asks for one, and whose memory is to be shown.

import { get, session } from "./api.js";
import { runnable } from "./commands.js";
import { field, fill, h } from "./dom.js";
import { attempt, inWords } from "./notice.js";

/** Ask for the key, until the server knows it. */
export function askKey(main, done, wasIn) {
  const input = h("input", {
    type: "password",
    autocomplete: "current-password",
    spellcheck: "false",
    required: true,
    name: "key",
  });
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    { class: "card sign-in" },
    h("h1", {}, wasIn ? "Sign in again" : "Sign in"),
    wasIn ? h("p", {}, "The server no longer accepts the key: it was revoked, or belongs to another server.") : null,
    field("Your API key", input, "It stays in this tab and is gone when you close it."),
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
    attempt(button, () => tryKey(input, problem, done));
  });
  fill(main, form);
  input.focus();
}

async function tryKey(input, problem, done) {
  session.key = input.value.trim();
  try {
    await get("/v1/memory/user");
  } catch (error) {
    session.key = "";
    problem.textContent =
      error.status === 401 ? "The server does not know this key. Copy all of it, from shepherd_ on." : inWords(error);
    input.select();
    return;
  }
  done();
}

/** Ask whose memory is to be shown. */
export function askUser(main, who, done) {
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", name: "user", dir: "auto" });
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
    session.user = input.value;
    done();
  });
  fill(main, form);
  input.focus();
}

async function leave(done) {
  await done();
  document.querySelector(".controls .user")?.focus();
}
