// The list of conversations: search, choose, rename, delete. It stays as it is while conversations change beside it.

import { get, patch, post, remove, session } from "./api.js";
import { fill, h, newId, words } from "./dom.js";
import { beginning, moment } from "./format.js";
import { icon } from "./icons.js";
import { entryForm } from "./forms.js";
import { attempt, complain, confirmed, say } from "./notice.js";
import { oneOffsButton } from "./paging.js";

const PAGE = 50;
let made = null;

/** The list, with this conversation marked; `renamed` hears of its new title. It is loaded anew when it is shown. */
export function conversationList(name, renamed) {
  if (!made || made.user !== `${session.key} ${session.user}`) made = build();
  made.current = name;
  made.renamed = renamed;
  load(made, { keepsForm: true }).catch(complain);
  return made.element;
}

/** Load the list again, after something was said in the conversation of that name. */
export async function listed(name, { isNew = false } = {}) {
  if (!made) return;
  if (isNew) {
    // The list knows conversations by their ids.
    const found = await get(`/v1/conversations/${encodeURIComponent(name)}`).catch(() => null);
    if (found && made.current === "") made.current = found.id;
    if (found) made.ids.set(found.id, name);
  }
  await load(made, { keepsForm: true });
}

/** A link to a new conversation, also where the address doesn't name the one that is shown. */
export function newChat(label) {
  const link = h("a", { class: "new-chat", href: "#/chat" }, icon("add"), label);
  link.addEventListener("click", () => {
    if (link.hash === location.hash) dispatchEvent(new Event("hashchange"));
  });
  return link;
}

function build() {
  const input = h("input", { type: "search", placeholder: "Search conversations", "aria-label": "Search conversations", autocomplete: "off", dir: "auto" });
  const list = h("div", { class: "chat-groups" });
  const more = h("div", { class: "actions" });
  const note = h("p", { class: "hint", role: "status" });
  const element = h(
    "aside",
    { class: "chat-list", "aria-label": "Conversations" },
    h("div", { class: "list-top" }, newChat("New conversation"), h("button", { type: "button", class: "quiet list-close" }, "Close")),
    input,
    note,
    list,
    more,
  );
  const view = { element, input, list, more, note, n: 0, isOld: false, shown: PAGE, oneOffs: false, hasOneOffs: false, current: "", ids: new Map(), user: `${session.key} ${session.user}` };
  input.addEventListener("input", () => {
    view.shown = PAGE;
    load(view).catch(complain);
  });
  return view;
}

/** Load the list. With `keepsForm`, while a title is being written, only once that is done. */
async function load(view, { keepsForm = false } = {}) {
  view.n += 1;
  const turn = view.n;
  const query = view.input.value.trim();
  const { data, total, left_out } = query ? await post("/v1/conversations/search", { query, limit: view.shown }) : await get("/v1/conversations", { limit: view.shown, one_offs: view.oneOffs });
  if (turn !== view.n) return;
  view.isOld = keepsForm && Boolean(view.list.querySelector("form"));
  if (view.isOld) return;
  fill(view.note, data.length ? (query ? `${total} found` : null) : query ? "No conversation contains these words." : "Your conversations appear here.");
  fill(view.list, groups(data).map(([label, entries]) => group(view, label, entries)));
  if (left_out) view.hasOneOffs = true;
  fill(view.more, total > data.length ? moreButton(view) : null, !query && view.hasOneOffs ? oneOffsButton(left_out, view.oneOffs, () => toggle(view)) : null);
}

async function toggle(view) {
  view.oneOffs = !view.oneOffs;
  await load(view);
  view.more.querySelector(".one-offs")?.focus();
}

function moreButton(view) {
  const button = h("button", { type: "button", class: "quiet" }, "Show more");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const before = view.list.querySelectorAll("a").length;
      view.shown += PAGE;
      await load(view);
      view.list.querySelectorAll("a")[before]?.focus();
    }),
  );
  return button;
}

/** Conversations by when they were used last, in words. */
function groups(data) {
  const midnight = new Date().setHours(0, 0, 0, 0) / 1000;
  const months = new Intl.DateTimeFormat("en", { month: "long", year: "numeric" });
  const label = (at) => {
    if (at >= midnight) return "Today";
    if (at >= midnight - 86_400) return "Yesterday";
    if (at >= midnight - 6 * 86_400) return "This week";
    return months.format(new Date(at * 1000));
  };
  const found = new Map();
  for (const one of data) {
    const of = label(one.updated_at);
    found.set(of, [...(found.get(of) ?? []), one]);
  }
  return [...found];
}

function group(view, label, entries) {
  const id = newId("group");
  return h("section", { "aria-labelledby": id }, h("h2", { class: "group", id }, label), h("ul", { class: "plain" }, entries.map((one) => entry(view, one))));
}

function entry(view, one) {
  const id = newId("talk");
  const title = beginning(one.title, 100) || `Conversation of ${moment(one.created_at)}`;
  const isCurrent = view.current === one.id || (view.ids.has(one.id) && view.ids.get(one.id) === view.current);
  // By the name that this page has given it, an answer in progress is found.
  const link = h("a", { href: `#/chat/${encodeURIComponent(view.ids.get(one.id) ?? one.id)}`, "aria-current": isCurrent ? "page" : null, title: `${moment(one.updated_at)}` }, words(title, { id }));
  const drop = h("button", { type: "button", class: "quiet drop", id: newId("drop") }, icon("forget"), h("span", { class: "hidden" }, "Delete"));
  drop.setAttribute("aria-labelledby", `${drop.id} ${id}`);
  drop.addEventListener("click", () => dropConversation(view, one, title, isCurrent, drop));
  const name = h("button", { type: "button", class: "quiet name", id: newId("name") }, icon("edit"), h("span", { class: "hidden" }, "Rename"));
  name.setAttribute("aria-labelledby", `${name.id} ${id}`);
  name.addEventListener("click", () => rename(view, one, made, isCurrent));
  const made = h("li", { class: "talk", "data-id": one.id }, link, h("div", { class: "talk-actions" }, name, drop));
  return made;
}

function rename(view, one, item, isCurrent) {
  const input = h("input", { type: "text", name: "title", "aria-label": "Title of the conversation", maxlength: "200", dir: "auto", autocomplete: "off" });
  input.value = beginning(one.title, 200);
  const before = [...item.childNodes];
  const toName = () => view.list.querySelector(`[data-id="${one.id}"] .name`)?.focus();
  const leave = () => {
    fill(item, before);
    toName();
    if (view.isOld) load(view).then(toName).catch(complain);
  };
  const send = async () => {
    const { title } = await patch(`/v1/conversations/${encodeURIComponent(one.id)}`, { title: input.value });
    if (isCurrent) view.renamed?.(title);
    await load(view);
    toName();
    say(input.value.trim() ? "Renamed." : "The title is the beginning of the first message again.");
  };
  fill(item, entryForm([input], { keep: "Save", send, leave, class: "rename", "aria-label": "Rename the conversation" }));
  input.focus();
  input.select();
}

async function dropConversation(view, one, title, isCurrent, button) {
  const isWanted = await confirmed("Delete this conversation?", `“${beginning(title, 80)}” is deleted for good. What was learned from it stays.`, "Delete");
  if (!isWanted) return;
  await attempt(button, async () => {
    await remove(`/v1/conversations/${encodeURIComponent(one.id)}`);
    await load(view);
    say("Deleted.");
    if (isCurrent) location.hash = "#/chat";
    else view.input.focus();
  });
}
