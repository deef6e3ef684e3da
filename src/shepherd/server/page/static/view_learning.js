// Learning: what was said and is still to be turned into facts and memories.

import { get, post, remove } from "./api.js";
import { empty, fill, h } from "./dom.js";
import { ago, count, integer, iso, moment } from "./format.js";
import { attempt, confirmed, say } from "./notice.js";
import { tiles } from "./plots.js";

const STATES = {
  open: "being collected",
  waiting: "waiting",
  running: "being read",
  dead: "given up",
  done: "done",
};

export async function show(root) {
  const view = { figures: h("div", {}), list: h("div", { class: "list" }) };
  const again = h("button", { type: "button" }, "Look again");
  again.addEventListener("click", () =>
    attempt(again, async () => {
      await load(view);
      say("Up to date.");
    }),
  );
  fill(
    root,
    h("div", { class: "heading" }, h("h1", {}, "Learning"), again),
    h("p", { class: "lead" }, "What you say is read again in the background, while nobody is answered, and becomes facts and memories."),
    view.figures,
    view.list,
  );
  await load(view);
}

async function load(view) {
  const { data, stats } = await get("/v1/extraction/jobs");
  fill(
    view.figures,
    tiles([
      ["To be read", integer(stats.open + stats.waiting + stats.running)],
      ["Given up", integer(stats.dead)],
      ["Done", integer(stats.done)],
      ["Facts learned", integer(stats.facts)],
      ["Memories learned", integer(stats.memories)],
    ]),
  );
  fill(view.list, data.length ? data.map((job) => jobCard(view, job)) : nothing(stats));
}

function nothing(stats) {
  if (stats.done) return empty("Nothing waits.", "All that you said has been read. New jobs appear here as you talk.");
  return empty(
    "Nothing waits to be learned.",
    "Jobs appear here when you talk with a model that learns; the setting memory_extraction says whether it does.",
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
      say("It waits for its turn again.");
    }),
  );
  return h(
    "article",
    { class: "card job", "aria-label": title },
    h("h2", {}, title),
    job.error ? h("p", { class: "problem" }, job.error) : null,
    h(
      "div",
      { class: "foot" },
      h(
        "p",
        { class: "meta" },
        h("span", {}, "said ", h("time", { datetime: iso(job.told_at), title: moment(job.told_at) }, ago(job.told_at))),
        job.attempts ? h("span", {}, count(job.attempts, "attempt")) : null,
        h("a", { href: `#/why/${encodeURIComponent(job.session)}` }, "its conversation"),
      ),
      h("div", { class: "actions" }, job.state === "dead" ? retry : null, drop),
    ),
  );
}

async function dropJob(view, job, button) {
  const isWanted = await confirmed(
    "Learn nothing from this?",
    "What was said in these messages will not become facts or memories. The conversation itself stays.",
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
