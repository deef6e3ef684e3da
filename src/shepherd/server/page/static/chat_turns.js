// The turns of a conversation, as the server has them, and how those that are shown differ from them.

import { Refused, get } from "./api.js";
import { documentsIn } from "./files.js";

/** A conversation as the server has it; an empty one without a name. */
export async function loaded(name) {
  if (!name) return { name: "", title: "", turns: [] };
  const [{ id, title, model: begunWith, data }, learned] = await Promise.all([stored(name), get("/v1/learned", { limit: 500 })]);
  const turns = [];
  for (const message of data) {
    if (message.role === "user" || !turns.length) turns.push(newTurn(message.role === "user" ? message.text : "", { at: message.created_at, composed: message.composed, documents: documentsIn(message.text, message.composed), recalled: message.recalled, message: message.message, isStored: true, isLoaded: true }));
    if (message.role === "assistant") addAnswer(turns.at(-1), message);
    if (message.role === "tool") turns.at(-1).calls.at(-1)?.results.push(message.text);
  }
  for (const item of learned.data.filter((one) => one.session === id).reverse()) teacher(turns, item)?.learned.push(item);
  return { name: id, title, model: begunWith, turns, last: data.length };
}

async function stored(name) {
  try {
    return await get(`/v1/conversations/${encodeURIComponent(name)}`);
  } catch (error) {
    if (error.status !== 404) throw error;
    throw new Refused("There is no such conversation: it was deleted, or the server stopped before its first answer was complete.", 404, error.code);
  }
}

export function newTurn(text, properties = {}) {
  return { text, composed: "", documents: [], pictures: [], at: Date.now() / 1000, memory: true, usesMemory: true, answer: "", thought: "", calls: [], learned: [], recalled: null, waits: null, state: "done", problem: "", isStored: false, ...properties };
}

function addAnswer(turn, message) {
  turn.thought = [turn.thought, message.thought].filter(Boolean).join("\n\n");
  turn.calls.push(...message.calls.map((call) => ({ ...call, results: [] })));
  turn.answer = [turn.answer, message.text].filter((text) => text.trim()).join("\n\n");
}

/** The turn that something was learned from. */
function teacher(turns, item) {
  return saying(turns, item) ?? turns.findLast((turn) => turn.at <= item.at);
}

/** The turn in whose message something was stated. */
export function saying(turns, item) {
  return turns.findLast((turn) => item.statement && turn.text.includes(item.statement));
}

/**
 * Compare the turns of a conversation that are shown with those that are stored, and put in what others have said, in
 * its place. Returns whether anything `isBehind`, and the position of the `last` stored message. Turns that are both
 * shown and stored get to know their position.
 */
export async function catchUp(chat) {
  const found = await loaded(chat.name).catch((error) => {
    if (error.status !== 404) throw error;
    return null;
  });
  if (!found?.name) {
    // It was never stored, or deleted: asking again deletes nothing.
    for (const turn of chat.turns) turn.isStored = false;
    return { isBehind: false, last: 0 };
  }
  const turns = [];
  let n = 0;
  let isBehind = false;
  for (const turn of chat.turns) {
    const place = turn.isStored || turn.isUncertain ? found.turns.findIndex((one, i) => i >= n && isSame(turn, one)) : -1;
    if (place < 0 && turn.isStored && !turn.isUncertain) {
      isBehind = true;
      continue;
    }
    turn.isStored = place >= 0;
    turn.isUncertain = false;
    if (place >= 0) {
      isBehind ||= place > n;
      turns.push(...found.turns.slice(n, place));
      turn.message = found.turns[place].message;
      n = place + 1;
    }
    turns.push(turn);
  }
  isBehind ||= n < found.turns.length;
  chat.turns = [...turns, ...found.turns.slice(n)];
  return { isBehind, last: found.last };
}

/** Whether a turn that is shown is this stored one; of an interrupted answer, more or less may be stored. */
function isSame(turn, other) {
  const plain = (text) => text.replace(/\s+/g, " ").trim();
  return plain(turn.text) === plain(other.text) && (turn.isUncertain || plain(turn.answer) === plain(other.answer));
}
