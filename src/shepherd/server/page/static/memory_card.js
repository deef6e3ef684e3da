// One memory, with all that can be done to it.

import { Refused, patch, post, remove } from "./api.js";
import { area, field, fill, h, longWords, newId, words } from "./dom.js";
import { entryForm } from "./forms.js";
import { ago, beginning, count, iso, moment, origin, percent } from "./format.js";
import { icon } from "./icons.js";
import { attempt, offerUndo, say } from "./notice.js";

// Forgotten memories are kept only by the running server, so that nothing of them is stored.
export const NOT_RESTORABLE = "This can't be undone any more: the server has been restarted since, or has forgotten many other memories.";

/**
 * An element that shows a memory and follows its changes. `around` hears of them: `changed(record)`, and `gone()`,
 * which takes the element away and returns what puts it back and what the keyboard goes to.
 */
export function memoryCard(record, around) {
  const card = h("article", { class: "card memory" });
  draw(card, record, around);
  return card;
}

function draw(card, record, around) {
  const id = newId("memory");
  card.setAttribute("aria-labelledby", id);
  card.classList.toggle("pinned", record.pinned);
  fill(
    card,
    h("h2", { class: "hidden", id }, words(beginning(record.question || record.answer, 160))),
    record.question ? longWords(record.question, { class: "question" }) : null,
    record.answer ? longWords(record.answer, { class: "answer" }) : null,
    h("div", { class: "foot" }, meta(record), actions(card, record, id, around)),
  );
}

function meta(record) {
  const parts = [
    h("time", { datetime: iso(record.timestamp), title: moment(record.timestamp) }, ago(record.timestamp)),
    record.source ? words(origin(record.source)) : null,
    record.pinned ? h("span", { class: "mark" }, "pinned") : null,
    record.recalls === undefined ? null : h("span", {}, record.recalls ? `recalled ${count(record.recalls, "time")}` : "never recalled"),
    record.relevance === undefined ? null : relevance(record.relevance),
  ];
  return h("p", { class: "meta" }, parts);
}

/** How well it matches, as a bar and in words. */
export function relevance(share) {
  const level = h("span", { class: "level" });
  level.style.width = `${Math.round(share * 100)}%`;
  return h("span", { class: "relevance" }, h("span", { class: "track", "aria-hidden": "true" }, level), `${percent(share)} match`);
}

function actions(card, record, id, around) {
  const button = (name, drawing, label, act) => {
    const made = h("button", { type: "button", class: "quiet", id: newId(name), "data-act": name }, icon(drawing), label);
    made.setAttribute("aria-labelledby", `${made.id} ${id}`);
    made.addEventListener("click", () => act(made));
    return made;
  };
  return h(
    "div",
    { class: "actions" },
    button("pin", "pin", record.pinned ? "Unpin" : "Pin", (made) => pin(card, record, made, around)),
    button("edit", "edit", "Edit", () => edit(card, record, around)),
    button("forget", "forget", "Forget", (made) => forget(record, made, around)),
  );
}

function redrawn(card, record, act, around) {
  draw(card, record, around);
  card.querySelector(`[data-act=${act}]`)?.focus();
}

async function pin(card, record, button, around) {
  await attempt(button, async () => {
    const changed = { ...record, ...(await patch(`/v1/memory/${record.id}`, { pinned: !record.pinned })) };
    redrawn(card, changed, "pin", around);
    around.changed(changed);
    say(changed.pinned ? "Pinned: it is never deleted to make space." : "No longer pinned.");
  });
}

function edit(card, record, around) {
  const question = area(record.question, { name: "question" });
  const answer = area(record.answer, { name: "answer" });
  const send = async () => {
    const changed = { ...record, ...(await patch(`/v1/memory/${record.id}`, { question: question.value, answer: answer.value })) };
    redrawn(card, changed, "edit", around);
    around.changed(changed);
    say("Saved.");
  };
  const parts = [field("Question", question), field("Answer", answer)];
  const form = entryForm(parts, { keep: "Save", send, leave: () => redrawn(card, record, "edit", around) });
  card.removeAttribute("aria-labelledby");
  fill(card, form);
  (record.question ? question : answer).focus();
}

async function forget(record, button, around) {
  await attempt(button, async () => {
    await remove(`/v1/memory/${record.id}`);
    const { back, after } = around.gone();
    const undo = async () => {
      await post(`/v1/memory/${record.id}/restore`).catch((error) => {
        throw error.status === 404 ? new Refused(NOT_RESTORABLE, 404) : error;
      });
      await back();
    };
    offerUndo(`Forgotten: “${beginning(record.question || record.answer, 50)}”`, undo, { after });
  });
}
