// Learned: proposals that wait, what was learned from which sentence, and what is still to be read.

import { Refused, get, post, put, remove } from "./api.js";
import { runnable } from "./commands.js";
import { area, chatLink, empty, field, fill, h, hasChat, newId, words } from "./dom.js";
import { entryForm, refill } from "./forms.js";
import { ago, beginning, count, integer, iso, moment } from "./format.js";
import { attempt, confirmed, say } from "./notice.js";
import { tiles } from "./plots.js";
import { named } from "./wording.js";

const PAGE = 50;
const STATES = {
  open: "being collected",
  waiting: "waiting",
  running: "being read",
  dead: "failed",
  done: "done",
};

export async function show(root) {
  const view = {
    proposals: h("div", {}),
    list: h("div", { class: "list" }),
    more: h("div", { class: "actions" }),
    figures: h("div", {}),
    jobs: h("div", { class: "list" }),
  };
  const again = h("button", { type: "button" }, "Refresh");
  again.addEventListener("click", () =>
    attempt(again, async () => {
      await load(view);
      say("Up to date.");
    }),
  );
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Learned"), again),
    h("p", { class: "lead" }, "Shepherd turns what you say about yourself into facts and memories. It uses them at once; change or undo what is wrong."),
    view.proposals,
    view.list,
    view.more,
    h("h2", { class: "part" }, "Messages to learn from"),
    view.figures,
    view.jobs,
  );
  await load(view);
}

async function load(view) {
  const [waiting, learned, queue] = await Promise.all([
    get("/v1/learned", { waiting: true, limit: PAGE }),
    get("/v1/learned", { limit: PAGE }),
    get("/v1/extraction/jobs"),
  ]);
  const ids = new Set(waiting.data.map((item) => item.id));
  const rest = learned.data.filter((item) => !ids.has(item.id));
  drawProposals(view, waiting.data);
  refill(view.list, rest.length || ids.size ? rest.map((item) => itemCard(view, item)) : [nothingLearned()]);
  offerMore(view, learned.data);
  drawQueue(view, queue);
}

function nothingLearned() {
  return empty(
    "Nothing has been learned yet.",
    "When you tell Shepherd something about yourself, such as “I moved to Lyon”, it appears here beside the sentence it came from.",
    chatLink(),
  );
}

// ---- proposals

function drawProposals(view, items) {
  if (!items.length) {
    fill(view.proposals);
    return;
  }
  fill(
    view.proposals,
    h(
      "section",
      { class: "proposals", "aria-label": "Waiting for your decision" },
      h("h2", { class: "part" }, "Waiting for your decision"),
      h("div", { class: "list" }, items.map((item) => proposalCard(view, item))),
    ),
  );
}

function proposalCard(view, item) {
  const id = newId("proposal");
  const accept = decisionButton(view, item, "accept", "Accept", id, "primary");
  const reject = decisionButton(view, item, "reject", "Reject", id);
  return h(
    "article",
    { class: "card learned proposal", "data-id": item.id, "aria-labelledby": id },
    quoted(item),
    h("p", { class: "result", id }, proposed(item)),
    h("div", { class: "foot" }, meta(item), h("div", { class: "actions" }, accept, reject)),
  );
}

export function proposed(item) {
  const own = words(item.former_sentence ?? "", { class: "value" });
  const would = item.value ? "would replace" : "contradicts";
  return ["“", said(item), `” ${would} “`, own, "”, which you set yourself."];
}

// ---- what was learned

function itemCard(view, item) {
  const card = h("article", { class: "card learned", "data-id": item.id });
  drawItem(view, card, item);
  return card;
}

function drawItem(view, card, item) {
  const id = newId("learned");
  const isOver = isDecided(item);
  card.setAttribute("aria-labelledby", id);
  card.classList.toggle("over", isOver);
  fill(
    card,
    quoted(item),
    h("p", { class: "result", id }, result(item)),
    h("div", { class: "foot" }, meta(item), h("div", { class: "actions" }, isOver || !item.undoable ? [] : decisions(view, card, item, id))),
  );
}

/** Whether it holds no longer, or never did. */
export function isDecided(item) {
  return ["undone", "rejected", "expired"].includes(item.state);
}

/** What became of it, for what nobody decided: a later change stands in the way of an undo. */
export function replaced(item) {
  return isDecided(item) || item.undoable || (item.kind === "proposed" && item.state === "new") ? "" : "changed since";
}

function decisions(view, card, item, id) {
  const isFact = ["learned", "changed"].includes(item.kind);
  return [
    item.state === "new" ? decisionButton(view, item, "keep", "Keep", id, "quiet") : null,
    isFact ? button("change", "Change", id, "quiet", () => change(view, card, item)) : null,
    decisionButton(view, item, "undo", "Undo", id, "quiet"),
  ];
}

function quoted(item) {
  return item.statement ? words(`“${item.statement}”`, { class: "said" }, "p") : h("p", { class: "said" }, "Stored by a model, here or in another program");
}

function said(item) {
  return words(item.sentence, { class: "value" });
}

export function result(item) {
  const isNew = item.before && item.value && item.kind !== "remembered";
  return [said(item), isNew ? h("span", { class: "before" }, " (before: ", words(item.before), ")") : null];
}

/** The same as one line of text. */
function inBrief(item) {
  return beginning(item.sentence, 90);
}

function before(item) {
  return beginning(item.former_sentence ?? "", 90);
}

/** A link to where it was said; where the page has no chat, to what each turn was made of. */
function conversationLink(session) {
  const view = hasChat() ? "chat" : "why";
  return h("a", { href: `#/${view}/${encodeURIComponent(session)}` }, "show the conversation");
}

function meta(item) {
  return h(
    "p",
    { class: "meta" },
    h("time", { datetime: iso(item.at), title: moment(item.at) }, ago(item.at)),
    item.kind === "remembered" ? h("span", {}, "memory") : h("a", { href: `#/facts/${encodeURIComponent(item.key)}` }, words(`fact: ${named(item.key)}`)),
    item.kind === "proposed" ? h("span", {}, "proposal") : null,
    item.state === "new" ? null : h("span", { class: "mark" }, item.state),
    replaced(item) ? h("span", { class: "mark" }, replaced(item)) : null,
    item.session ? conversationLink(item.session) : null,
  );
}

// ---- decisions

function button(name, label, id, look, act) {
  const made = h("button", { type: "button", class: look, id: newId(name), "data-act": name }, label);
  made.setAttribute("aria-labelledby", `${made.id} ${id}`);
  made.addEventListener("click", () => act(made));
  return made;
}

export const SAID = {
  keep: (item) => `Kept: “${inBrief(item)}”`,
  undo: (item) => (item.former_sentence ? `Undone: ${before(item)}, as before.` : `Undone: “${inBrief(item)}” is forgotten.`),
  accept: (item) => `Accepted: ${inBrief(item)}.`,
  reject: (item) => `Rejected: ${before(item)}, as before.`,
};

function decisionButton(view, item, decision, label, id, look = "") {
  return button(decision, label, id, look, (made) =>
    attempt(made, async () => {
      const place = placeOf(view, made);
      try {
        const decided = await post(`/v1/learned/${encodeURIComponent(item.id)}/${decision}`);
        await load(view);
        say(SAID[decision](decided));
      } catch (error) {
        if (!(error instanceof Refused) || ![404, 409].includes(error.status)) throw error;
        await load(view);
        say("This is no longer possible: it was already decided, or has changed since.");
      }
      focusNear(view, item, place);
    }),
  );
}

function placeOf(view, element) {
  return cards(view).indexOf(element.closest(".learned"));
}

function cards(view) {
  return [...view.proposals.querySelectorAll(".learned"), ...view.list.querySelectorAll(".learned")];
}

/** The keyboard continues at the same item, or else at the one in its place. */
function focusNear(view, item, place) {
  const now = cards(view);
  const same = now.find((card) => card.dataset.id === String(item.id));
  const near = [same, now[place], now.at(-1)].find((card) => card?.querySelector("button"));
  (near?.querySelector("button") ?? document.getElementById("view")).focus();
}

function change(view, card, item) {
  const input = area(item.value, { name: "value" });
  const leave = () => {
    drawItem(view, card, item);
    card.querySelector("[data-act=change]").focus();
  };
  const send = async () => {
    await put(`/v1/facts/${encodeURIComponent(item.key)}`, { value: input.value });
    drawItem(view, card, item);
    await load(view);
    focusNear(view, item, placeOf(view, card));
    say("Changed. The earlier value stays in its history.");
  };
  const parts = [quoted(item), field(named(item.key), input)];
  card.removeAttribute("aria-labelledby");
  fill(card, entryForm(parts, { keep: "Save", send, leave }));
  input.focus();
}

function offerMore(view, shown) {
  if (shown.length < PAGE) {
    fill(view.more);
    return;
  }
  const more = h("button", { type: "button" }, "Show older ones");
  more.addEventListener("click", () =>
    attempt(more, async () => {
      const { data } = await get("/v1/learned", { limit: PAGE, before: shown.at(-1).id });
      const older = data.filter((item) => !(item.kind === "proposed" && item.state === "new"));
      const added = older.map((item) => itemCard(view, item));
      view.list.append(...added);
      offerMore(view, data);
      added[0]?.querySelector("button")?.focus();
    }),
  );
  fill(view.more, more);
}

// ---- the queue

function drawQueue(view, { data, stats }) {
  fill(
    view.figures,
    tiles([
      ["Waiting", integer(stats.open + stats.waiting + stats.running)],
      ["Failed", integer(stats.dead)],
      ["Read", integer(stats.done)],
      ["Facts learned", integer(stats.facts)],
      ["Memories learned", integer(stats.memories)],
    ]),
  );
  fill(view.jobs, data.length ? data.map((job) => jobCard(view, job)) : nothing(stats));
}

function nothing(stats) {
  if (stats.done) return empty("Shepherd has read all your messages.", "New ones wait here until it has learned from them.");
  return empty(
    "No messages are waiting.",
    ["Yours wait here until Shepherd has learned from them. To check whether learning is on, run ", h("code", {}, runnable("shepherd config get memory_extraction")), " in a terminal."],
  );
}

function jobCard(view, job) {
  const title = `${count(job.messages, "message")}, ${STATES[job.state] ?? job.state}`;
  const drop = h("button", { type: "button", class: "quiet" }, "Learn nothing from it");
  drop.addEventListener("click", () => dropJob(view, job, drop));
  const retry = h("button", { type: "button" }, "Try again");
  retry.addEventListener("click", () =>
    attempt(retry, async () => {
      await post(`/v1/extraction/jobs/${encodeURIComponent(job.id)}/retry`);
      await load(view);
      say("It is back in the queue.");
    }),
  );
  return h(
    "article",
    { class: "card job", "aria-label": title },
    h("h3", {}, title),
    job.error ? h("p", { class: "problem" }, job.error) : null,
    h(
      "div",
      { class: "foot" },
      h(
        "p",
        { class: "meta" },
        h("span", {}, "said ", h("time", { datetime: iso(job.told_at), title: moment(job.told_at) }, ago(job.told_at))),
        job.attempts ? h("span", {}, count(job.attempts, "attempt")) : null,
        conversationLink(job.session),
      ),
      h("div", { class: "actions" }, job.state === "dead" ? retry : null, drop),
    ),
  );
}

async function dropJob(view, job, button) {
  const isWanted = await confirmed(
    "Learn nothing from this?",
    "Nothing from these messages becomes a fact or a memory. The conversation itself stays.",
    "Learn nothing",
  );
  if (!isWanted) return;
  await attempt(button, async () => {
    await remove(`/v1/extraction/jobs/${encodeURIComponent(job.id)}`);
    await load(view);
    say("Nothing will be learned from it.");
  });
  if (!button.isConnected) document.getElementById("view").focus();
}
