// Requests to this server, and its refusals in words that say what to do.
//
// The key is kept in sessionStorage, which belongs to this tab and origin and ends with the tab, or, if the user chose to
// stay signed in, in localStorage, for all tabs until somebody signs out. A cookie would be sent along with every
// request, those of other pages among them, and to every other port of this machine. Scripts can read the key, so the
// page's policy allows only this server's own.

import { runnable } from "./commands.js";

const KEY = "shepherd.key";
const USER = "shepherd.user";
const NO_KEY = /[^!-~]/;

/** What the server did not do, said to a person, with commands that can be run. `status` 0: it was not reached. */
export class Refused extends Error {
  constructor(message, status, code) {
    super(runnable(message));
    this.status = status;
    this.code = code;
  }
}

// Kept in a variable, so that a tab does not silently switch to the key of somebody who signs in in another tab.
let deviceKey = localStorage.getItem(KEY) ?? "";
// Whom this page works for, since it has shown anything: their key, user and owner.
let settled = null;

export const session = {
  get key() {
    return sessionStorage.getItem(KEY) ?? deviceKey;
  },
  /** Keep the `owner`'s key, of this tab or, if it `stays`, of this browser; no user is chosen any more. */
  signIn(key, stays, owner = "") {
    this.user = "";
    if (stays) {
      deviceKey = key;
      keep(localStorage, KEY, key);
    }
    keep(sessionStorage, KEY, stays ? "" : key);
    // With a new key of theirs, people go on where they were.
    if (owner && owner === settled?.owner) settled.key = key;
  },
  /** Forget the key, also for other tabs, and the user. */
  signOut() {
    this.signIn("", false);
    deviceKey = "";
    keep(localStorage, KEY, "");
  },
  /** Work for the user who is chosen now, as long as this page lasts. */
  settle(owner) {
    settled = { key: this.key, user: this.user, owner };
  },
  /** Whether another key or user was chosen since: nothing that is under way here is to go on in their memory. */
  get hasMoved() {
    return settled !== null && (settled.key !== this.key || settled.user !== this.user);
  },
  /** What the key allows, as the server last said. */
  scopes: [],
  /** The server's word for the user where nobody has named one; forgotten with the page. */
  suggested: "",
  /** Whose memory: one of the key owner's users, or "" for the key's owner. */
  get user() {
    return sessionStorage.getItem(USER) ?? this.suggested;
  },
  set user(value) {
    keep(sessionStorage, USER, value);
    this.suggested = "";
  },
};

function keep(storage, name, value) {
  if (value) storage.setItem(name, value);
  else storage.removeItem(name);
}

/** Call `changed` when somebody has signed in or out in another tab, and this one had that key. */
export function onOtherSignIn(changed) {
  const look = () => {
    const now = localStorage.getItem(KEY) ?? "";
    if (now === deviceKey) return;
    deviceKey = now;
    if (sessionStorage.getItem(KEY) !== null) return;
    session.user = "";
    changed();
  };
  addEventListener("storage", look);
  // A page in the back/forward cache receives no storage events.
  addEventListener("pageshow", look);
}

export const get = (path, query) => asked("GET", path, { query });
/** Ask whose memory this key reaches; it need not be the key of the person who is signed in. */
export const whose = (key) => asked("GET", "/v1/memory/user", { key, names: false });
export const post = (path, body) => asked("POST", path, { body: body ?? {} });
export const put = (path, body) => asked("PUT", path, { body });
export const patch = (path, body) => asked("PATCH", path, { body });
export const remove = (path) => asked("DELETE", path);

/** Delete several, one after the other; collects in `done` those that there were, also if it fails halfway. */
export async function removeEach(items, pathOf, done) {
  for (const item of items) {
    try {
      await remove(pathOf(item));
      done.push(item);
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  }
}

/** The answer's JSON. Raises Refused. */
async function asked(method, path, request = {}) {
  const response = await reached(method, path, request);
  const told = read(await whole(response, "text"));
  if (!response.ok || told === null) throw refusal(response, told);
  return told;
}

/** The parsed JSON, or null. */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The answer as a file. Raises Refused. */
export async function download(path) {
  const response = await reached("GET", path, {});
  if (!response.ok) throw refusal(response, read(await whole(response, "text")));
  return whole(response, "blob");
}

/** Send a file; the events of the answer, or its one JSON. Raises Refused. */
export async function* uploaded(path, file, query) {
  const response = await reached("POST", path, { query, file });
  if (!response.ok) throw refusal(response, read(await whole(response, "text")));
  if (response.headers.get("content-type")?.startsWith("text/event-stream")) yield* eventsOf(response);
  else yield read(await whole(response, "text"));
}

/** All of the answer, as "text" or "blob". Raises Refused if the connection is lost before its end. */
async function whole(response, kind) {
  try {
    return await response[kind]();
  } catch {
    throw interrupted("try again");
  }
}

/** The answer as text: the figures of /metrics. Raises Refused. */
export async function getText(path) {
  const response = await reached("GET", path, {});
  if (!response.ok) throw refusal(response, read(await whole(response, "text")));
  return whole(response, "text");
}

/**
 * The events of a streamed answer, each as its JSON. Raises Refused for a refusal, also in the middle, and when
 * the stream ends before it says that it is complete.
 */
export async function* streamed(path, body) {
  const named = session.user ? { ...body, user: session.user } : body;
  const response = await reached("POST", path, { body: named, names: false });
  if (!response.ok) throw refusal(response, read(await whole(response, "text")));
  yield* eventsOf(response);
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await piece(reader);
      if (done) break;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
        if (data === "[DONE]") return;
        const told = read(data);
        if (told?.error) throw refusal(response, told);
        if (told) yield told;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  throw interrupted();
}

async function piece(reader) {
  try {
    return await reader.read();
  } catch {
    throw interrupted();
  }
}

// Only on the server's own computer can a command start it again.
const IS_HERE = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname);

/** What to check when no answer comes, before one does `next`. */
function checks(next) {
  return IS_HERE ? `Check that “shepherd serve” is still running, then ${next}.` : `Check that this device is on the network and that Shepherd is still running on the server’s computer, then ${next}.`;
}

function interrupted(next = "ask again") {
  return new Refused(`The answer was interrupted: the connection to the server was lost. ${checks(next)}`, 0, "interrupted");
}

export function unreachable() {
  return new Refused(`The server does not answer. ${checks("try again")}`, 0, "unreachable");
}

const listeners = [];

/** Call `listener` whenever the server has begun to answer. */
export function onReached(listener) {
  listeners.push(listener);
}

function moved() {
  // As the server would say it: the key was refused or taken away.
  if (settled.key && !session.key) return new Refused("You were signed out. Reload the page to sign in again.", 401, "invalid_api_key");
  return new Refused("Another user's memory was chosen meanwhile. Reload the page to see it.", 0, "moved");
}

async function reached(method, path, { query = {}, body, file, names = true, key: other }) {
  if (other === undefined && session.hasMoved) throw moved();
  const key = other ?? session.key;
  // No header can carry other characters: the browser would throw, as it does where nobody answers.
  if (NO_KEY.test(key)) throw new Refused("The server does not know this key.", 401, "invalid_api_key");
  // A list becomes a parameter for each of its values.
  const parameters = new URLSearchParams(Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one])));
  if (session.user && names) parameters.set("user", session.user);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (file) headers["Content-Type"] = "application/octet-stream";
  const asks = parameters.toString();
  try {
    const response = await fetch(asks ? `${path}?${asks}` : path, {
      method,
      headers,
      body: file ?? (body === undefined ? undefined : JSON.stringify(body)),
      cache: "no-store",
      credentials: "omit",
    });
    for (const listener of listeners) listener();
    return response;
  } catch {
    throw unreachable();
  }
}

const ADVICE = {
  insufficient_scope:
    "This key isn't allowed to do that. “shepherd apikey create --owner NAME” creates one that can read the memory.",
  not_found: "It was deleted elsewhere. Reload the page to see the current entries.",
  conversation_changed: "This conversation was changed in another tab or on another device, so nothing was replaced. Try again to see what is new.",
  fact_changed: "It was changed meanwhile, so the new value stays. The former one is in its history.",
  no_memory: "This server runs without memory. Start it without --nomemory to see one.",
  memory_read_only: "The server's database is read-only, so you can't change anything here.",
  no_user: "Nothing is stored without a user. Choose whose memory this is at the top of the page.",
  memory_busy: "The memory is busy. Wait a moment and try again.",
  too_many_requests: "This key has too many requests at once. Wait a moment and try again.",
  overloaded: "The server is too busy. Wait a moment and try again.",
  request_too_large: "This text is too long for the server; the setting server_max_body_mb limits the size of a request.",
};

function refusal(response, told) {
  const error = told?.error ?? {};
  const code = error.code ?? "";
  const said = error.message ? `The server says: ${error.message}.` : `The server answered ${response.status}.`;
  return new Refused(ADVICE[code] ?? said, response.status, code);
}
