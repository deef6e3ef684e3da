// An answer: thoughts and calls folded, its text, and beneath it what was recalled for it and what was learned.

import { Refused, patch, post, remove } from "./api.js";
import { fill, h, keepOnly, longWords, newId, words } from "./dom.js";
import { beginning, count, duration } from "./format.js";
import { icon } from "./icons.js";
import { showMarkdown } from "./markdown.js";
import { relevance } from "./memory_card.js";
import { attempt, offerUndo, say } from "./notice.js";
import { SAID, isDecided, proposed, replaced, result } from "./view_learning.js";
import { named } from "./wording.js";

/** The parts of a turn's answer, to be drawn by `drawAnswer` and `drawBeneath`. `again` asks once more. */
export function answerOf(turn, { again }) {
  const thought = h("div", { class: "words" });
  const parts = {
    thoughts: h("details", { class: "folded", hidden: true }, h("summary", {}, "Thoughts"), thought),
    thought,
    calls: h("div", { class: "calls" }),
    waits: h("span", { class: "hint" }),
    text: h("div", { class: "prose" }),
    problem: h("p", { class: "problem", role: "alert" }),
    beneath: h("div", { class: "beneath" }),
    again,
  };
  parts.wait = h("p", { class: "wait", hidden: true }, h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("span", { class: "hidden" }, "The answer is on its way."), parts.waits);
  parts.nodes = [parts.thoughts, parts.calls, parts.text, parts.wait, parts.problem, parts.beneath];
  return parts;
}

/** Show what has come of an answer. */
export function drawAnswer(turn) {
  const { parts } = turn;
  const isAsking = turn.state === "asking";
  parts.thoughts.hidden = !turn.thought.trim();
  if (parts.thought.textContent !== turn.thought) parts.thought.textContent = turn.thought;
  if (parts.calls.childElementCount !== turn.calls.length) fill(parts.calls, turn.calls.map(call));
  showMarkdown(parts.text, turn.answer, code);
  parts.wait.hidden = !isAsking || Boolean(turn.answer);
  drawWait(turn);
  parts.text.setAttribute("aria-busy", String(isAsking));
  parts.problem.textContent = turn.problem;
}

const SECOND_MS = 1000;

/** Say what happens until the answer begins, and count the seconds of a pause. */
function drawWait(turn) {
  const { parts } = turn;
  clearTimeout(parts.timer);
  parts.waits.textContent = (!parts.wait.hidden && !turn.thought && turn.waits?.()) || "";
  if (parts.waits.textContent) parts.timer = setTimeout(() => parts.wait.isConnected && drawWait(turn), SECOND_MS);
}

function call({ name, arguments: given, results }) {
  return h(
    "details",
    { class: "folded" },
    h("summary", {}, "Used ", words(name)),
    h("pre", { class: "words", tabindex: "0", "aria-label": "Arguments" }, given),
    results.map((text) => h("pre", { class: "words", tabindex: "0", "aria-label": "Result" }, text)),
  );
}

// ---- code

function code(text, language) {
  const button = h("button", { type: "button", class: "quiet small" }, icon("copy"), "Copy");
  button.addEventListener("click", () => attempt(button, () => copy(text)));
  const label = language ? `Code: ${language}` : "Code";
  return h(
    "div",
    { class: "code" },
    h("div", { class: "code-head" }, h("span", {}, language || "code"), button),
    h("pre", { tabindex: "0", role: "region", "aria-label": label }, h("code", {}, text)),
  );
}

/** Copy a text. Browsers offer the clipboard only to pages of this machine or behind TLS; others select and copy. */
async function copy(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const field = h("textarea", { class: "hidden", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say("Copied.");
}

// ---- beneath

/**
 * Show what was recalled for an answer and learned from its message, with what can be done. Parts that have not
 * changed stay the same elements: what was learned may come seconds after the answer, while somebody presses a button.
 */
export function drawBeneath(turn) {
  const { parts } = turn;
  if (parts.found !== turn.recalled) {
    parts.found = turn.recalled;
    parts.recalled = recalled(turn.recalled);
  }
  if (turn.learned.length) {
    parts.learned ??= h("ul", { class: "lines news", "aria-label": "What was learned" });
    const items = turn.learned.slice(parts.learned.childElementCount);
    parts.learned.append(...items.map((item) => learnedLine(turn, item)));
  }
  const says = JSON.stringify([turn.state, turn.isCut, turn.isDeleted, turn.memory, turn.usesMemory, turn.isStored, Boolean(turn.answer)]);
  if (parts.footSays !== says) {
    parts.footSays = says;
    parts.foot = foot(turn);
  }
  // The buttons come first, since the others may still grow.
  keepOnly(parts.beneath, parts.foot, parts.recalled, parts.learned);
}

/** Whether a button beneath the answer is held down: if it moved now, the press would be lost. */
export function isPressed(turn) {
  return turn.parts.beneath.matches(":active");
}

function foot(turn) {
  if (turn.state === "asking") return null;
  const copying = h("button", { type: "button", class: "quiet small" }, icon("copy"), "Copy answer");
  copying.addEventListener("click", () => attempt(copying, () => copy(turn.answer)));
  const again = h("button", { type: "button", class: "quiet small" }, icon("again"), "Ask again");
  again.addEventListener("click", () => attempt(again, turn.parts.again));
  const notes = [
    turn.state === "stopped" ? "stopped" : "",
    noAnswer(turn),
    turn.isCut && turn.answer ? "the answer reached its maximum length" : "",
    isLost(turn) ? `${turn.isDeleted ? "the conversation was deleted meanwhile: " : ""}nothing of it was stored` : "",
    turn.memory && turn.usesMemory ? "" : `${turn.memory ? "no memory with this model" : "memory was off"}: nothing was recalled, stored or learned`,
  ].filter(Boolean);
  return h("div", { class: "reply-foot" }, turn.answer ? copying : null, again, notes.length ? h("span", { class: "hint" }, notes.join(" · ")) : null);
}

/** Why there is no answer; "" if there is one, or if it says so already. */
function noAnswer(turn) {
  if (turn.answer || turn.isDeleted || turn.state !== "done") return "";
  if (turn.isLoaded) return "no answer is stored";
  return turn.isCut ? "the maximum length was reached before the answer began" : "the model gave no answer";
}

/** Whether a turn should be stored and is not: its conversation was deleted while it was answered, or the disk is full. */
function isLost(turn) {
  return turn.memory && turn.usesMemory && !turn.isStored && ["done", "stopped"].includes(turn.state);
}

function recalled(found) {
  if (!found?.tail) return null;
  const { facts, memories, passages, nodes } = found;
  const parts = [facts.length ? count(facts.length, "fact") : "", memories.length ? count(memories.length, "memory", "memories") : "", passages.length ? count(passages.length, "passage") : "", nodes.length ? count(nodes.length, "node in focus", "nodes in focus") : ""].filter(Boolean);
  const summary = `Recalled ${parts.join(", ") || "what matches"}${found.recall_us ? ` · ${duration(found.recall_us)}` : ""}`;
  // What is opened at the end of the page would be behind the field for the next message.
  const shown = (event) => event.target.open && event.target.scrollIntoView({ block: "nearest" });
  return h(
    "details",
    { class: "folded recalled", on: { toggle: shown } },
    h("summary", {}, icon("memories"), h("span", {}, summary)),
    h(
      "ul",
      { class: "lines" },
      memories.map(memoryLine),
      passages.map(passageLine),
      facts.map(factLine),
      nodes.map(nodeLine),
    ),
    h("details", {}, h("summary", {}, "Exactly as the model read it"), h("pre", { class: "words", dir: "auto", tabindex: "0" }, found.tail.trim())),
  );
}

function line(content, ...actions) {
  return h("li", { class: "line" }, h("div", { class: "line-text" }, content), h("div", { class: "line-actions" }, actions));
}

function act(label, about, work) {
  const button = h("button", { type: "button", class: "quiet small", id: newId("act") }, label);
  button.setAttribute("aria-labelledby", `${button.id} ${about}`);
  button.addEventListener("click", () => attempt(button, () => work(button)));
  return button;
}

function factLine(fact) {
  const id = newId("fact");
  const path = `/v1/facts/${encodeURIComponent(fact.key)}`;
  const forget = act("Forget", id, async (button) => {
    await remove(path);
    const item = button.closest("li");
    item.classList.add("over");
    const undo = async () => {
      await post(`${path}/restore`);
      item.classList.remove("over");
    };
    offerUndo(`Forgotten: “${named(fact.key)}: ${beginning(fact.value, 40)}”`, undo, { after: () => button.focus() });
  });
  return line(h("p", { id }, words(named(fact.key), { class: "key" }), ": ", words(fact.value, { class: "value" })), h("a", { class: "act", href: "#/facts" }, "Edit"), forget);
}

function memoryLine(memory) {
  const id = newId("memory");
  const path = `/v1/memory/${memory.id}`;
  let isPinned = false;
  const pin = act("Pin", id, async (button) => {
    ({ pinned: isPinned } = await patch(path, { pinned: !isPinned }));
    button.textContent = isPinned ? "Unpin" : "Pin";
    say(isPinned ? "Pinned: it is never deleted to make space." : "No longer pinned.");
  });
  const forget = act("Forget", id, async (button) => {
    await remove(path);
    const item = button.closest("li");
    item.classList.add("over");
    const undo = async () => {
      await post(`${path}/restore`);
      item.classList.remove("over");
    };
    offerUndo(`Forgotten: “${beginning(memory.question || memory.answer, 50)}”`, undo, { after: () => button.focus() });
  });
  const text = [
    memory.question ? words(memory.question, { class: "asked", id }, "p") : h("span", { class: "hidden", id }, beginning(memory.answer, 60)),
    longWords(memory.answer, { class: "answer" }),
    h("p", { class: "meta" }, relevance(memory.relevance)),
  ];
  return line(text, pin, h("a", { class: "act", href: `#/memories/${memory.id}` }, "Edit"), forget);
}

function passageLine(passage) {
  const text = [words(passage.title || "untitled", { class: "asked" }, "p"), words(beginning(passage.text, 240), { class: "answer" }, "p"), h("p", { class: "meta" }, relevance(passage.relevance))];
  return line(text, h("a", { class: "act", href: `#/knowledge/${passage.node_id}` }, "Open", h("span", { class: "hidden" }, ` “${beginning(passage.title, 60) || "untitled"}”`)));
}

function nodeLine(node) {
  const text = [words(node.title || "untitled", { class: "asked" }, "p"), h("p", { class: "meta" }, "in focus: added to each message")];
  return line(text, h("a", { class: "act", href: `#/knowledge/${node.id}` }, "Open", h("span", { class: "hidden" }, ` “${beginning(node.title, 60) || "untitled"}”`)));
}

// ---- what was learned

const DECIDED = { undone: "undone", rejected: "rejected", expired: "expired", accepted: "accepted", kept: "" };

function learnedLine(turn, item) {
  const id = newId("learned");
  const isProposal = item.kind === "proposed" && item.state === "new";
  const isOver = isDecided(item);
  const label = isProposal ? null : h("span", { class: "label" }, item.kind === "remembered" ? "Remembered:" : "Learned:");
  const decide = (decision, text) => act(text, id, (button) => decided(turn, item, decision, button));
  const actions = isOver || replaced(item) ? [] : isProposal ? [decide("accept", "Accept"), decide("reject", "Reject")] : [decide("undo", "Undo")];
  const made = line(
    [h("p", { id }, label, label ? " " : null, isProposal ? proposed(item) : result(item)), [DECIDED[item.state], replaced(item)].filter(Boolean).map((mark) => h("span", { class: "mark" }, mark))],
    actions,
  );
  made.classList.toggle("over", isOver);
  made.dataset.id = item.id;
  return made;
}

async function decided(turn, item, decision, button) {
  const list = button.closest("ul");
  const place = [...list.children].indexOf(button.closest("li"));
  let now = item;
  try {
    now = await post(`/v1/learned/${encodeURIComponent(item.id)}/${decision}`);
    say(SAID[decision](now));
  } catch (error) {
    if (!(error instanceof Refused) || ![404, 409].includes(error.status)) throw error;
    now = { ...item, state: "expired" };
    say("This is no longer possible: it was already decided, or has changed since.");
  }
  turn.learned[place] = now;
  const made = learnedLine(turn, now);
  list.children[place].replaceWith(made);
  (made.querySelector("button") ?? list.querySelector("button") ?? document.querySelector(".composer textarea"))?.focus();
}
