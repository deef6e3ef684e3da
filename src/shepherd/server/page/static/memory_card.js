// One memory, with all that can be done to it.

import { patch, post, remove } from "./api.js";
import { area, field, fill, h, longWords, newId, words } from "./dom.js";
import { entryForm } from "./forms.js";
import { ago, beginning, iso, moment, origin, percent } from "./format.js";
import { icon } from "./icons.js";
import { attempt, offerUndo, say } from "./notice.js";

/** An element that shows a memory and follows its changes. It tells `counted` -1 when it is gone, 1 when back. */
export function memoryCard(record, counted = () => {}) {
  const card = h("article", { class: "card memory" });
  draw(card, record, counted);
  return card;
}

function draw(card, record, counted) {
  const id = newId("memory");
  card.dataset.id = record.id;
  const title = record.question ? beginning(record.question, 160) : beginning(record.answer, 60);
  card.setAttribute("aria-labelledby", id);
  card.classList.toggle("pinned", record.pinned);
  fill(
    card,
    h("h2", { class: "question" }, words(title, { id })),
    record.question && title !== record.question.trim() ? longWords(record.question, { class: "said" }) : null,
    record.question ? longWords(record.answer, { class: "answer" }) : null,
    h("div", { class: "foot" }, meta(record), actions(card, record, id, counted)),
  );
}

function meta(record) {
  const parts = [
    h("time", { datetime: iso(record.timestamp), title: moment(record.timestamp) }, ago(record.timestamp)),
    record.source ? words(origin(record.source)) : null,
    record.pinned ? h("span", { class: "mark" }, "pinned") : null,
    record.relevance === undefined ? null : relevance(record.relevance),
  ];
  return h("p", { class: "meta" }, parts);
}

/** How well it fits, as a bar and in words. */
export function relevance(share) {
  const level = h("span", { class: "level" });
  level.style.width = `${Math.round(share * 100)}%`;
  return h("span", { class: "relevance" }, h("span", { class: "track", "aria-hidden": "true" }, level), `fits ${percent(share)}`);
}

function actions(card, record, id, counted) {
  const button = (name, drawing, label, act) => {
    const made = h("button", { type: "button", class: "quiet", id: newId(name), "data-act": name }, icon(drawing), label);
    made.setAttribute("aria-labelledby", `${made.id} ${id}`);
    made.addEventListener("click", () => act(made));
    return made;
  };
  return h(
    "div",
    { class: "actions" },
    button("pin", "pin", record.pinned ? "Unpin" : "Pin", (made) => pin(card, record, made, counted)),
    button("edit", "edit", "Edit", () => edit(card, record, counted)),
    button("forget", "forget", "Forget", (made) => forget(card, record, made, counted)),
  );
}

function redrawn(card, record, act, counted) {
  draw(card, record, counted);
  card.querySelector(`[data-act=${act}]`)?.focus();
}

async function pin(card, record, button, counted) {
  await attempt(button, async () => {
    const changed = await patch(`/v1/memory/${record.id}`, { pinned: !record.pinned });
    redrawn(card, { ...record, ...changed }, "pin", counted);
    say(changed.pinned ? "Pinned: it stays when older memories make room." : "No longer pinned.");
  });
}

function edit(card, record, counted) {
  const question = area(record.question, { name: "question" });
  const answer = area(record.answer, { name: "answer" });
  const send = async () => {
    const changed = await patch(`/v1/memory/${record.id}`, { question: question.value, answer: answer.value });
    redrawn(card, { ...record, ...changed }, "edit", counted);
    say("Saved.");
  };
  const parts = [field("Question", question), field("Answer", answer)];
  const form = entryForm(parts, { keep: "Save", send, leave: () => redrawn(card, record, "edit", counted) });
  card.removeAttribute("aria-labelledby");
  fill(card, form);
  (record.question ? question : answer).focus();
}

async function forget(card, record, button, counted) {
  await attempt(button, async () => {
    await remove(`/v1/memory/${record.id}`);
    const [list, next] = [card.parentElement, card.nextElementSibling];
    card.remove();
    counted(-1);
    const undo = async () => {
      const restored = await post(`/v1/memory/${record.id}/restore`);
      draw(card, { ...record, ...restored }, counted);
      list.insertBefore(card, next?.parentElement === list ? next : null);
      counted(1);
    };
    offerUndo(`Forgotten: “${beginning(record.question || record.answer, 50)}”`, undo, {
      after: () => focusNear(card, list, next),
    });
  });
}

/** Where the keyboard goes on when a card is gone or back. */
function focusNear(card, list, next) {
  const near = [card, next, list?.lastElementChild].find((element) => element?.isConnected);
  (near?.querySelector("[data-act=forget]") ?? document.getElementById("view")).focus();
}
