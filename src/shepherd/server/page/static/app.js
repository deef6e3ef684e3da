// The frame: who is here, which view is shown, light or dark. Views come from modules of their own.

import { Refused, get, onOtherSignIn, session, unreachable } from "./api.js";
import { fill, h } from "./dom.js";
import { catchDrops } from "./files.js";
import { icon } from "./icons.js";
import { askKey, askUser, keyInAddress, offerKey } from "./login.js";
import { keysButton, setKeys } from "./keys.js";
import { hush, inWords, unsay } from "./notice.js";
import { themeButton } from "./theme.js";

// Name in the address, label, and what loads the module that shows it.
const VIEWS = [
  ["chat", "Chat", () => import("./view_chat.js")],
  ["memories", "Memories", () => import("./view_memories.js")],
  ["facts", "Facts", () => import("./view_facts.js")],
  ["knowledge", "Knowledge", () => import("./view_knowledge.js")],
  ["why", "Why", () => import("./view_why.js")],
  ["learned", "Learned", () => import("./view_learning.js")],
  ["statistics", "Statistics", () => import("./view_statistics.js")],
];

// Names that addresses had before.
const FORMER = { learning: "learned" };

const main = document.getElementById("view");
let leaveView = () => {};
let shown = 0;
let keyWasRefused = false;
// Whose key the page has worked with; null without keys, undefined before that is known.
let owner;
// Whose memory it has shown.
let user;
// Without a chat API, or the right to it, the memories come first.
let views = VIEWS;

/** Where the address points to: the view, and what it is to show. */
function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const view = views.find(([known]) => known === (FORMER[name] ?? name));
  return view ? { view, rest: rest.map(decoded) } : { view: views[0], rest: [] };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

/** Find out who asks, then show the view; or ask for the key, or for the user. */
async function start() {
  if (session.hasMoved) {
    loadAnew();
    return;
  }
  try {
    const who = await known();
    keyWasRefused = false;
    if ((owner !== undefined && owner !== who.owner) || (user && user !== who.user)) {
      loadAnew();
      return;
    }
    owner = who.owner;
    user = who.user;
    session.scopes = who.scopes;
    views = who.can_chat ? VIEWS : VIEWS.filter(([name]) => name !== "chat");
    drawFrame(who);
    if (!who.user) askUser(main, who, start);
    else {
      session.settle(who.owner);
      await showView();
      loadAll();
      if (document.activeElement === document.body) main.querySelector("[data-first]")?.focus({ preventScroll: true });
    }
  } catch (error) {
    // A name that nobody can have would be refused again and again.
    if (error.code === "invalid_user") session.user = "";
    if (isUnknownKey(error)) signIn();
    else failed(error, start);
  }
}

/**
 * Begin again for somebody else: conversations, drafts, answers and what is still under way, such as an import,
 * belong to the one before.
 */
function loadAnew() {
  // The view stays, but not the one thing in it that the address names.
  history.replaceState(null, "", location.pathname + location.hash.split("/").slice(0, 2).join("/"));
  location.reload();
}

async function known() {
  const who = await get("/v1/memory/user");
  if (who.user || !who.suggested || session.user) return who;
  session.suggested = who.suggested;
  return get("/v1/memory/user");
}

function isUnknownKey(error) {
  return error instanceof Refused && error.status === 401;
}

function signIn() {
  // Two requests may be refused, and the second finds the key gone.
  keyWasRefused ||= Boolean(session.key);
  session.signOut();
  drawFrame(null);
  askKey(main, start, keyWasRefused);
}

/** If the address has another key than the current one, offer to sign in with it; returns whether it has. */
function signInByLink() {
  const key = keyInAddress();
  if (!key || key === session.key) return false;
  putAway();
  drawFrame(null);
  offerKey(main, key, start);
  return true;
}

async function showView() {
  shown += 1;
  const turn = shown;
  const {
    view: [name, label, view],
    rest,
  } = place();
  leaveView();
  leaveView = () => {};
  unsay();
  setKeys();
  markView(name);
  document.title = `${label} · Shepherd`;
  const root = h("div", { class: `view view-${name}` });
  try {
    fill(main, root);
    main.setAttribute("aria-busy", "true");
    const { show } = await loaded(view);
    const left = await show(root, rest);
    if (turn === shown) leaveView = left ?? leaveView;
    else left?.();
  } catch (error) {
    if (turn !== shown) return;
    if (isUnknownKey(error)) signIn();
    else if (session.hasMoved) start();
    else failed(error, showView);
  } finally {
    if (turn === shown) main.removeAttribute("aria-busy");
  }
}

async function loaded(view) {
  try {
    return await view();
  } catch (error) {
    console.warn(error);
    throw unreachable();
  }
}

/** Load the other views while nothing else is to be done: they are there at once, even without the server. */
function loadAll() {
  const idle = globalThis.requestIdleCallback ?? ((work) => setTimeout(work, 500));
  idle(() => views.forEach(([, , view]) => view().catch(() => {})));
}

function failed(error, again) {
  const button = h("button", { type: "button", on: { click: again } }, "Try again");
  fill(main, h("div", { class: "empty", role: "alert" }, h("p", {}, inWords(error)), button));
}

// ---- the frame

function drawFrame(who) {
  const links = views.map(([name, label]) =>
    h("li", {}, h("a", { href: `#/${name}`, "data-view": name, on: { click: again } }, icon(name), h("span", {}, label))),
  );
  fill(document.getElementById("nav"), who?.user ? h("ul", {}, links) : null);
  const reference = h("a", { href: "/docs", class: "reference" }, "API reference");
  const own = who?.user ? [userControls(who), keysButton(), reference] : null;
  fill(document.getElementById("controls"), own, themeButton());
}

/** A link to where one is already changes no address: what it names is drawn anew. */
function again(event) {
  if (event.currentTarget.hash === location.hash) showView();
}

function userControls(who) {
  const change = h("button", { type: "button", class: "quiet user", title: "Show another user's memory" });
  fill(change, h("span", { class: "whose" }, "Memory of "), h("bdi", {}, who.user));
  change.addEventListener("click", () => {
    putAway();
    askUser(main, who, start);
  });
  const note = who.is_writable ? null : h("p", { class: "hint" }, "This memory is read-only.");
  const out = h("button", { type: "button", class: "quiet" }, "Sign out");
  out.addEventListener("click", () => {
    session.signOut();
    leaveAndStart();
  });
  return [change, note, session.key ? out : null];
}

/** Put away the view that is shown, and begin again. */
function leaveAndStart() {
  putAway();
  start();
}

function putAway() {
  hush();
  leaveView();
  leaveView = () => {};
  shown += 1;
  markView("");
}

function markView(name) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

catchDrops();
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", async () => {
  const { activeElement } = document;
  if (signInByLink()) return;
  await showView();
  // Whoever has gone on by keyboard while the view was loading keeps the focus.
  if (![activeElement, document.body].includes(document.activeElement)) return;
  // As after a click on a link to another page: the keyboard goes on at its beginning, or where one writes.
  const first = main.querySelector("[data-first]");
  (first ?? main).focus({ preventScroll: true });
  if (!first) scrollTo(0, 0);
});
onOtherSignIn(leaveAndStart);
if (!signInByLink()) start();
