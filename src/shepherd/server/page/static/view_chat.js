// Chat: the conversation, the field for the next message, and the list of conversations beside them.

import { get, post, streamed } from "./api.js";
import { answerOf, drawAnswer, drawBeneath, isPressed } from "./chat_answer.js";
import { conversationList, listed, newChat } from "./chat_list.js";
import { catchUp, loaded, newTurn, saying } from "./chat_turns.js";
import { runnable } from "./commands.js";
import { area, fill, h, newId, words } from "./dom.js";
import { beginning, count, integer, iso, moment } from "./format.js";
import { icon } from "./icons.js";
import { acceptDrops, fileButton, readDocument } from "./files.js";
import { entryForm, sendsWithEnter } from "./forms.js";
import { setKeys } from "./keys.js";
import { attempt, complain, confirmed, inWords, say, unsay } from "./notice.js";
import { contentOf, isPicture, pasted, readPicture, thumbnail } from "./pictures.js";
import { readsAhead } from "./reading_ahead.js";

// Conversations with an answer in progress, which goes on while another view is shown, and those whose last answer
// failed: the server may have nothing of it.
const running = new Map();
// What was typed and not sent, by conversation; gone with the page.
const drafts = new Map();
// Documents and pictures that were attached and not sent, likewise.
const attached = new Map();
// Models that answer chats, as the server lists them, and the one that is chosen.
let models = [];
let areListed = false;
let model = null;
// Under this name, the tab keeps the model that was last chosen for each conversation.
const CHOICES = "shepherd.models";
// The provider of models on the server's own machine.
const LOCAL = "local";

export async function show(root, [name = ""]) {
  const [chat] = await Promise.all([running.get(name) ?? loaded(name), knowModel()]);
  const view = { root, chat };
  takeChoice(chat);
  const side = conversationList(chat.name, (title) => {
    chat.title = title;
    drawTitle(view);
  });
  view.title = h("h1", {});
  view.thread = h("div", { class: "thread" });
  view.composer = composer(view);
  const toggle = listToggle(root, side);
  const head = h("div", { class: "chat-head" }, toggle, view.title, newChat("New"));
  fill(root, side, h("div", { class: "chat-main" }, head, view.thread, view.composer.form));
  drawTitle(view);
  drawThread(view);
  drawAttached(view);
  chat.view = view;
  acceptDrops(root, (files) => attach(view, files));
  setKeys({ search: side.querySelector("input") });
  if (chat.turns.length) toEnd();
  return () => {
    drafts.set(chat.name, view.composer.input.value);
    attached.set(chat.name, view.composer.documents);
    if (chat.view === view) chat.view = null;
  };
}

/** A button for narrow screens, where the list of conversations covers the one that is shown. */
function listToggle(root, side) {
  const toggle = h("button", { type: "button", class: "quiet list-toggle", "aria-expanded": "false", "aria-label": "Conversations", title: "Conversations" }, icon("list"));
  const turn = (isOpen) => {
    root.classList.toggle("listing", isOpen);
    toggle.setAttribute("aria-expanded", String(isOpen));
    (isOpen ? side.querySelector("a") : toggle).focus();
  };
  toggle.addEventListener("click", () => turn(!root.classList.contains("listing")));
  // The list outlives the view: these replace what the view before had set.
  const leave = (isAsked) => {
    if (isAsked && root.classList.contains("listing")) turn(false);
  };
  side.onclick = (event) => leave(event.target.closest(".list-close, a[aria-current]") || event.target.closest("a")?.hash === location.hash);
  side.onkeydown = (event) => leave(event.key === "Escape" && !event.target.closest("form"));
  return toggle;
}

async function knowModel() {
  const told = areListed ? null : await get("/v1/models").catch(() => null);
  if (told) {
    models = told.data.filter((one) => (one.task ?? "chat") === "chat");
    areListed = true;
  }
  model ??= models[0] ?? null;
}

function choices() {
  return JSON.parse(sessionStorage.getItem(CHOICES) ?? "{}");
}

function takeChoice(chat) {
  model = models.find((one) => one.id === (choices()[chat.name] ?? chat.model)) ?? model;
}

/** Keep the chosen model for a conversation, so that a reload does not change who answers. */
function keepChoice({ name }) {
  if (name && models.length > 1) sessionStorage.setItem(CHOICES, JSON.stringify({ ...choices(), [name]: model.id }));
}

/** The name of the model, or a choice where there are several; `changed()` is called when another is chosen. */
function modelChoice(changed) {
  if (models.length < 2) return h("span", { class: "model", title: model?.id ?? "" }, model?.id ?? "");
  const providers = [...new Set(models.map((one) => one.owned_by))];
  const option = (one) => h("option", { value: one.id, selected: one === model, title: one.id }, named(one, providers.length > 1));
  const options = (provider) => models.filter((one) => one.owned_by === provider).map(option);
  const groups = providers.map((provider) => h("optgroup", { label: provider === LOCAL ? "This machine" : provider }, options(provider)));
  const made = h("select", { class: "model", "aria-label": "Model" }, providers.length > 1 ? groups : models.map(option));
  made.addEventListener("change", () => {
    model = models.find((one) => one.id === made.value);
    changed();
  });
  return made;
}

/** What a model is called; in a group of its provider without the provider's name before it. */
function named(one, isGrouped) {
  return isGrouped && one.id.startsWith(`${one.owned_by}/`) ? one.id.slice(one.owned_by.length + 1) : one.id;
}

/** Whether what is said to the chosen model is recalled and stored; a provider may be kept from the memory. */
function usesMemory() {
  return model?.memory ?? true;
}

// ---- what is shown

function drawTitle(view) {
  const first = view.chat.turns[0];
  fill(view.title, first ? words(beginning(view.chat.title || first.text, 90) || `Conversation of ${moment(first.at)}`) : "New conversation");
}

function drawThread(view) {
  fill(view.thread, view.chat.turns.length ? view.chat.turns.map((turn) => turnElement(view, turn)) : greeting(view));
  view.composer.draw();
}

function greeting(view) {
  const start = (text) => {
    const button = h("button", { type: "button", class: "starter" }, text);
    button.addEventListener("click", () => {
      view.composer.input.value = text.replace("…", "");
      view.composer.input.focus();
    });
    return button;
  };
  return h(
    "div",
    { class: "greeting" },
    h("p", { class: "greeting-title" }, "What would you like to talk about?"),
    h("p", { class: "hint" }, "Shepherd recalls what you told it earlier, and shows under each answer what it recalled and what it learned."),
    h("div", { class: "actions" }, start("What do you know about me?"), start("My name is …"), start("Remember that …")),
  );
}

function turnElement(view, turn) {
  const id = newId("said");
  turn.heading = id;
  turn.element = h("article", { class: "turn-pair", "aria-labelledby": id });
  turn.asked = h("div", { class: "asked-row" });
  turn.reply = h("div", { class: "reply" });
  drawAsked(view, turn, id);
  fill(turn.element, turn.asked, turn.reply);
  drawReply(view, turn);
  return turn.element;
}

function drawAsked(view, turn, id) {
  const edit = h("button", { type: "button", class: "quiet small", "data-act": "edit" }, icon("edit"), "Edit");
  edit.id = newId("edit");
  edit.setAttribute("aria-labelledby", `${edit.id} ${id}`);
  edit.addEventListener("click", () => editMessage(view, turn, id));
  fill(
    turn.asked,
    h("h2", { class: "bubble", id }, h("span", { class: "hidden" }, "You: "), words(turn.text || "(no message)")),
    turn.pictures.length ? h("div", { class: "attachments" }, turn.pictures.map(thumbnail)) : null,
    turn.documents.length ? h("ul", { class: "plain attachments", "aria-label": "Attached documents" }, turn.documents.map((one) => h("li", { class: "chip" }, icon("attach"), words(beginning(one.name, 40)), h("span", { class: "hint" }, count(one.text.length, "character"))))) : null,
    turn.composed ? h("details", { class: "folded composed" }, h("summary", {}, "With documents or a template"), h("pre", { class: "words", dir: "auto", tabindex: "0" }, turn.composed)) : null,
    h("div", { class: "asked-foot" }, turn.memory ? null : h("span", { class: "mark" }, "memory off"), h("time", { class: "when", datetime: iso(turn.at), title: moment(turn.at) }, moment(turn.at)), edit),
  );
}

function drawReply(view, turn) {
  if (!turn.element) return;
  turn.parts = answerOf(turn, { again: () => repeat(view.chat, turn) });
  fill(turn.reply, turn.parts.nodes);
  drawAnswer(turn);
  drawBeneath(turn);
}

/** Whether the end of the page is in sight. */
function isAtEnd() {
  return scrollY + innerHeight >= document.documentElement.scrollHeight - 80;
}

function toEnd() {
  scrollTo(0, document.documentElement.scrollHeight);
}

// ---- the field for a message

function composer(view) {
  const input = area(drafts.get(view.chat.name) ?? "", { rows: 1, placeholder: "Write a message", "aria-label": "Message", name: "message", "data-first": !matchMedia("(pointer: coarse)").matches });
  const memory = h("button", { type: "button", class: "quiet small memory-switch", "aria-pressed": "false" });
  const send = h("button", { type: "submit", class: "primary" }, icon("send"), h("span", {}, "Send"));
  const stop = h("button", { type: "button", class: "stop" }, icon("stop"), "Stop");
  const chips = h("ul", { class: "plain attachments", "aria-label": "Attached files" });
  const [attaching, file] = fileButton("Attach", "attach", (files) => attach(view, files), { class: "quiet small attach", title: "Text, Markdown, HTML, PDF, or pictures for models that read them. You can also drop files here, or paste pictures." });
  const choice = modelChoice(() => {
    keepChoice(view.chat);
    made.draw();
  });
  const form = h("form", { class: "composer", "aria-label": "Your message" }, h("div", { class: "composer-box" }, chips, input, h("div", { class: "composer-foot" }, attaching, file, memory, choice, send, stop)));
  const made = { form, input, chips, documents: attached.get(view.chat.name) ?? [], isMemoryOff: false };
  made.draw = () => {
    const isBusy = Boolean(current(view.chat));
    send.hidden = isBusy;
    stop.hidden = !isBusy;
    memory.disabled = !usesMemory();
    memory.setAttribute("aria-pressed", String(made.isMemoryOff || memory.disabled));
    const says = memory.disabled ? "No memory" : made.isMemoryOff ? ["Memory off", h("span", { class: "roomy" }, " for this message")] : "Memory on";
    fill(memory, icon(made.isMemoryOff || memory.disabled ? "off" : "memories"), h("span", {}, says));
    memory.title = memory.disabled ? `“${model.owned_by}” is not allowed to use the memory of this server: nothing is recalled for it, and nothing is stored.` : "With memory off, nothing is recalled for the next message, and neither it nor its answer is stored.";
  };
  memory.addEventListener("click", () => {
    made.isMemoryOff = !made.isMemoryOff;
    made.draw();
  });
  stop.addEventListener("click", () => attempt(stop, () => stopAnswer(view.chat)));
  readsAhead(input, () => unread(view));
  input.addEventListener("paste", (event) => {
    const files = pasted(event);
    if (!files.length) return;
    event.preventDefault();
    attach(view, files);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && current(view.chat)) stopAnswer(view.chat).catch(complain);
  });
  sendsWithEnter(input);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value;
    if (isEdited(view.chat)) return;
    if ((!text.trim() && !made.documents.length) || current(view.chat)) return;
    if (made.documents.some((one) => one.isReading)) {
      say("A file is still being read. Send the message in a moment.");
      return;
    }
    input.value = "";
    input.dispatchEvent(new Event("input"));
    const [pictures, documents] = [made.documents.filter((one) => one.shown), made.documents.filter((one) => !one.shown)];
    const turn = newTurn(text, { memory: !made.isMemoryOff, documents, pictures });
    made.isMemoryOff = false;
    made.documents = [];
    drawAttached(view);
    unsay();
    // They would be in the field of the next new conversation.
    drafts.delete(view.chat.name);
    attached.delete(view.chat.name);
    ask(view.chat, turn);
    input.focus();
  });
  return made;
}

/** Read files, and attach them to the next message. */
async function attach(view, files) {
  const { composer } = view;
  composer.input.focus();
  const problems = [];
  await Promise.all(
    files.map(async (file) => {
      const one = { name: file.name, text: "", block: "", isReading: true };
      composer.documents = [...composer.documents, one];
      drawAttached(view);
      try {
        Object.assign(one, isPicture(file) ? await readPicture(file) : await readDocument(file), { name: file.name, isReading: false });
      } catch (error) {
        composer.documents = composer.documents.filter((other) => other !== one);
        problems.push(error);
      }
      drawAttached(view);
    }),
  );
  if (problems.length) complain(...problems);
}

function drawAttached(view) {
  const { composer } = view;
  const chip = (one) => {
    const drop = h("button", { type: "button", class: "quiet small", "aria-label": `Remove ${one.name}` }, "×");
    drop.addEventListener("click", () => {
      composer.documents = composer.documents.filter((other) => other !== one);
      drawAttached(view);
      composer.input.focus();
    });
    return h("li", { class: "chip", "aria-busy": String(one.isReading) }, one.shown ? thumbnail(one) : icon("attach"), words(beginning(one.name, 40)), h("span", { class: "hint" }, one.isReading ? "reading …" : one.shown ? "picture" : count(one.text.length, "character")), drop);
  };
  fill(composer.chips, composer.documents.map(chip));
}

// ---- asking

/** The messages of a conversation, as the server is told them. */
function saidIn(chat) {
  return chat.turns.filter((one) => one.answer).flatMap((one) => [{ role: "user", content: contentOf(one.pictures, one.composed || one.text) }, { role: "assistant", content: one.answer }]);
}

function chosenModel() {
  return models.length > 1 ? model.id : "default";
}

/** What the model could read of a conversation before its next message; null for nothing, and where pictures would be sent. */
function unread({ chat, composer }) {
  if (current(chat) || chat.turns.some((one) => one.pictures.length) || composer.documents.length) return null;
  const body = { model: chosenModel(), memory: !composer.isMemoryOff, messages: [...saidIn(chat), { role: "user", content: composer.input.value }] };
  if (chat.name) body.session = chat.name;
  return body;
}

/** The turn that is being answered. */
function current(chat) {
  return chat.turns.find((turn) => turn.state === "asking");
}

function randomName() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function stopAnswer(chat) {
  const turn = current(chat);
  if (!turn) return;
  turn.isStopped = true;
  const { stopped } = await post(`/v1/conversations/${encodeURIComponent(chat.name)}/stop`);
  // It had not begun, or is over.
  if (!stopped && current(chat) === turn) say("The answer has not begun. Try again in a moment.");
}

/**
 * Ask for an answer at the end of the conversation. `replaced` are the turns in whose place it comes, from position
 * `replaces` on in what is stored, where `last` is the last that is known here: they are kept until the server
 * accepts, and `refused(error)` is called if it does not.
 */
async function ask(chat, turn, { replaced = [], replaces = 0, last = 0, refused = null } = {}) {
  if (!areListed) {
    // They could not be read when the view was drawn; the conversation's own model may not be the first.
    await knowModel();
    takeChoice(chat);
  }
  const messages = saidIn(chat);
  chat.name ||= randomName();
  keepChoice(chat);
  turn.usesMemory = usesMemory();
  if (turn.memory && turn.usesMemory) point(chat, `#/chat/${chat.name}`);
  const begunAs = chat.name;
  running.set(begunAs, chat);
  chat.streams = (chat.streams ?? 0) + 1;
  turn.state = "asking";
  chat.turns.push(turn);
  if (chat.view) {
    if (chat.turns.length === 1 && !replaced.length) fill(chat.view.thread);
    chat.view.thread.append(turnElement(chat.view, turn));
    drawTitle(chat.view);
    chat.view.composer.draw();
    toEnd();
  }
  let isAccepted = false;
  const accepted = () => {
    isAccepted = true;
    for (const gone of replaced) gone.element?.remove();
  };
  try {
    const asked = { model: chosenModel(), stream: true, return_progress: true, session: begunAs, memory: turn.memory, recalled: true, learned: true, messages: [...messages, { role: "user", content: contentOf(turn.pictures, turn.text) }] };
    if (replaces) Object.assign(asked, { replaces, last_known: last });
    if (turn.documents.length) {
      asked.documents = turn.documents.map(({ name, text }) => ({ name, text }));
      turn.composed = [turn.text, ...turn.documents.map((one) => one.block)].filter(Boolean).join("\n\n");
    }
    for await (const event of streamed("/v1/chat/completions", asked)) {
      // Before another attempt to ask a provider, nobody knows yet whether it accepts.
      if (!event.retry && !isAccepted) accepted();
      heard(chat, turn, event);
    }
  } catch (error) {
    if (!isAccepted && replaced.length) {
      restore(chat, turn, replaced);
      rest(chat, begunAs);
      refused(error);
      return;
    }
    turn.problem = turn.state === "asking" ? whatIsWrong(error, turn) : "";
    if (turn.state === "asking") {
      // Without the server's own word, nobody knows what it has stored.
      turn.isUncertain = keeps(turn) && error.code === "interrupted";
      turn.isStored = turn.isUncertain && Boolean(turn.answer);
      ended(chat, turn, "failed");
    }
  }
  if (turn.state === "asking") ended(chat, turn, "done");
  draw(chat, turn, true);
  rest(chat, begunAs);
}

/** What went wrong with a message; of one that is too long with its documents, what to do with these. */
function whatIsWrong(error, { documents }) {
  if (error.code !== "context_length_exceeded" || !documents.length) return inWords(error);
  const names = documents.map(({ name }) => `“${beginning(name, 60)}”`).join(", ");
  return `With ${names}, the message is too long for this model. Import ${documents.length === 1 ? "the document" : "the documents"} under Knowledge, so that answers use the passages that match, or choose a model with a larger window. ${inWords(error)}`;
}

/**
 * When nothing is in progress, the server has all of a conversation, unless an answer failed. A stream may still tell
 * what was learned when the answer to the next message is complete.
 */
function rest(chat, name) {
  chat.streams -= 1;
  if (!chat.streams && !chat.turns.some((one) => ["asking", "failed"].includes(one.state))) running.delete(name);
}

/** Put the turns back that a refused request would have replaced. */
function restore(chat, turn, replaced) {
  turn.element?.remove();
  turn.state = "failed";
  chat.turns.splice(chat.turns.indexOf(turn), 1, ...replaced);
  for (const back of replaced) if (back.element) back.element.hidden = false;
  if (!chat.view) return;
  drawTitle(chat.view);
  chat.view.composer.draw();
}

/** Let the address of the page name what is shown, for a reload. */
function point(chat, hash) {
  if (chat.view) history.replaceState(null, "", hash);
}

function heard(chat, turn, event) {
  const choice = event.choices?.[0];
  if (event.recalled) turn.recalled = event.recalled;
  if (event.prompt_progress || event.retry) turn.waits = event.retry ? pause(event.retry) : reading(event.prompt_progress);
  for (const item of event.learned ?? []) taught(chat, turn, item);
  if (choice?.delta?.content) turn.answer += choice.delta.content;
  if (choice?.delta?.reasoning_content) turn.thought += choice.delta.reasoning_content;
  if (choice?.finish_reason) {
    turn.isDeleted = Boolean(event.session_deleted);
    turn.isCut = choice.finish_reason === "length" && !turn.isStopped && !turn.isDeleted;
    turn.isStored = keeps(turn) && Boolean(event.session);
    ended(chat, turn, "done");
    return;
  }
  draw(chat, turn, Boolean(event.recalled));
}

/** Whether a turn is stored, once it is over. */
function keeps(turn) {
  return turn.memory && turn.usesMemory;
}

/** How much of the prompt was read, in words; from the cache nothing has to be. */
function reading({ total, cache, processed }) {
  return () => (processed < total ? `reading ${integer(processed - cache)} of ${count(total - cache, "token")}` : "");
}

/** When a provider is asked again, in words, and why. */
function pause({ after_s: seconds, reason }) {
  const end = performance.now() + 1000 * seconds;
  return () => `trying again in ${Math.max(0, Math.round((end - performance.now()) / 1000))} s: ${runnable(reason)}`;
}

/**
 * Show what was learned below the message that said it, once: the stream of the turn before may tell of it first,
 * and a stream tells of what was loaded with the conversation, too, if no other one has told of it.
 */
function taught(chat, turn, item) {
  if (chat.turns.some((one) => one.learned.some((known) => known.id === item.id))) return;
  const shown = saying(chat.turns, item) ?? turn;
  shown.learned.push(item);
  draw(chat, shown, true);
}

function ended(chat, turn, state) {
  turn.state = turn.isStopped && state === "done" ? "stopped" : state;
  draw(chat, turn, true);
  chat.view?.composer.draw();
  if (turn.isStored) settled(chat);
  // Nothing is stored under this name: a reload would not find it.
  else if (!chat.turns.some((one) => one.isStored)) point(chat, "#/chat");
}

let isDue = false;
const due = new Map();

/** Draw an answer with the next picture; many pieces may come before it. */
function draw(chat, turn, isWhole) {
  const wasWhole = due.get(turn)?.isWhole;
  due.set(turn, { chat, isWhole: isWhole || wasWhole });
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(drawDue);
}

function drawDue() {
  isDue = false;
  const wasAtEnd = isAtEnd();
  const later = [];
  for (const [turn, { chat, isWhole }] of due) {
    if (!chat.view || !turn.element) continue;
    drawAnswer(turn);
    if (isWhole && isPressed(turn)) later.push([chat, turn]);
    else if (isWhole) drawBeneath(turn);
  }
  due.clear();
  for (const [chat, turn] of later) draw(chat, turn, true);
  if (wasAtEnd) toEnd();
}

/** After an answer: the list has a new first entry. */
async function settled(chat) {
  try {
    await listed(chat.name, { isNew: chat.turns.filter((one) => one.isStored).length === 1 });
  } catch (error) {
    // Below the answer it says already that the server is gone.
    if (chat.turns.at(-1)?.state !== "failed") complain(error);
  }
}

function isBusy(chat) {
  if (current(chat)) say("Stop the answer first, or wait until it is complete.");
  return Boolean(current(chat)) || isEdited(chat);
}

/** Whether a message is being edited, which a new answer would discard; if so, say what to do. */
function isEdited({ view }) {
  const form = view?.thread.querySelector(".edit-message");
  if (!form) return false;
  say("Save or cancel your edit first.");
  form.querySelector("textarea").focus();
  return true;
}

/** Ask the same again; before messages that followed are lost, ask whether that is wanted. */
async function repeat(chat, turn) {
  if (isBusy(chat)) return;
  const isLast = chat.turns.at(-1) === turn;
  const isWanted = isLast || (await confirmed("Replace this answer?", "All messages after it are deleted, and what was learned from them is undone.", "Ask again"));
  const last = isWanted ? await lastKnown(chat, turn) : null;
  if (last !== null) askAgain(chat, turn, turn.text, last, (error) => refusedAgain(chat, turn, error));
}

/** Show the error below a message that has no answer; if it has one, as a notice, because the answer is there. */
function refusedAgain(chat, turn, error) {
  if (turn.state !== "failed") {
    complain(error);
    return;
  }
  turn.problem = whatIsWrong(error, turn);
  draw(chat, turn, true);
}

/**
 * Ask again from this turn on, with the same or another text: it and all after it are replaced. `last` is the position
 * of the last stored message that is known here.
 */
function askAgain(chat, turn, text, last, refused) {
  if (isBusy(chat)) return;
  const replaced = chat.turns.splice(chat.turns.indexOf(turn));
  const replaces = replaced.find((one) => one.isStored)?.message ?? 0;
  for (const gone of replaced) if (gone.element) gone.element.hidden = true;
  ask(chat, newTurn(text, { memory: turn.memory, documents: turn.documents, pictures: turn.pictures }), { replaced, replaces, last, refused });
}

/**
 * The position of the last message that is stored of a conversation, where something is from this turn on; null if
 * another tab or device has changed it. It is shown as it is then: nobody wants to delete what they have not seen.
 */
async function lastKnown(chat, turn) {
  if (!chat.turns.slice(chat.turns.indexOf(turn)).some((one) => one.isStored || one.isUncertain)) return 0;
  const { isBehind, last } = await catchUp(chat);
  if (!isBehind) return last;
  if (chat.view) {
    drawTitle(chat.view);
    drawThread(chat.view);
    chat.view.composer.input.focus();
    toEnd();
  }
  say("This conversation was changed in another tab or on another device. It is now shown as it is.");
  return null;
}

function editMessage(view, turn, id, text = turn.text) {
  if (isBusy(view.chat)) return;
  const input = area(text, { name: "edited", "aria-label": "Your message" });
  const isLast = view.chat.turns.at(-1) === turn;
  const leave = () => {
    drawAsked(view, turn, id);
    turn.asked.querySelector("[data-act=edit]").focus();
  };
  const send = async () => {
    if (!input.value.trim()) return;
    const edited = input.value;
    // What was typed is not lost.
    const again = () => {
      if (view.chat.view !== view) return;
      if (view.chat.turns.includes(turn)) editMessage(view, turn, turn.heading, edited);
      else view.composer.input.value ||= edited;
    };
    const last = await lastKnown(view.chat, turn);
    if (last === null) {
      again();
      return;
    }
    drawAsked(view, turn, id);
    askAgain(view.chat, turn, edited, last, (error) => {
      complain(error);
      again();
    });
    view.composer.input.focus();
  };
  const hint = h("p", { class: "hint" }, isLast ? "The answer is replaced, and what was learned from this message is undone." : "This message and all after it are replaced, and what was learned from them is undone.");
  const form = entryForm([input, hint], { keep: "Save and ask", send, leave, class: "edit-message", "aria-label": "Edit your message" });
  sendsWithEnter(input);
  fill(turn.asked, h("h2", { class: "hidden", id }, "Edit your message"), form);
  input.focus();
}
