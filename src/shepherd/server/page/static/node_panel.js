// One node: what it says, what it is connected with, and what can be done to it.

import { get, patch, post, put, remove } from "./api.js";
import { area, field, fill, h, longWords, words } from "./dom.js";
import { entryForm } from "./forms.js";
import { beginning, count, date, fileOf, integer, origin } from "./format.js";
import { icon } from "./icons.js";
import { attempt, confirmed, offerUndo, say, saySaved } from "./notice.js";
import { named } from "./wording.js";

// As the knowledge has them; read from the first node to the second.
export const TYPES = {
  related_to: "is related to",
  part_of: "is part of",
  created_by: "was created by",
  features: "features",
  source_of: "is the source of",
  extends: "extends",
  supports: "supports",
  contradicts: "contradicts",
};

/** An element that shows a node. `around`: what the view does when the panel asks. */
export async function nodePanel(id, around) {
  const node = await get(`/v1/knowledge/nodes/${id}`);
  const panel = h("section", { class: "card panel", "aria-labelledby": "node-title" });
  draw(panel, node, around);
  return panel;
}

function draw(panel, node, around) {
  const close = h("button", { type: "button", class: "quiet", on: { click: around.close } }, "Close");
  panel.onkeydown = (event) => {
    if (event.key === "Escape" && !event.isComposing && !event.target.closest("form")) around.close();
  };
  fill(
    panel,
    h("div", { class: "row" }, h("h2", { id: "node-title", tabindex: "-1" }, words(node.title)), close),
    facts(node, around),
    node.description ? longWords(node.description) : null,
    node.notes ? [h("h3", {}, "Notes"), ...longWords(node.notes)] : null,
    node.source_text ? h("details", {}, h("summary", {}, `Text, ${count(node.text_length, "character")}`), h("pre", { class: "words scroll", dir: "auto", tabindex: "0" }, node.source_text)) : null,
    actions(panel, node, around),
    h("h3", {}, count(node.n_edges, "connection")),
    node.edges.length < node.n_edges ? h("p", { class: "hint" }, `The newest ${integer(node.edges.length)} of ${integer(node.n_edges)} are shown.`) : null,
    h("ul", { class: "connections" }, node.edges.map((edge) => connection(node, edge, around))),
    connectForm(node, around),
  );
}

function facts(node, { isFocused }) {
  const kinds = [node.kind, ...node.dimensions].filter(Boolean);
  const file = fileOf(node.link);
  return [
    isFocused ? h("p", {}, h("span", { class: "mark" }, "in focus, added to every message")) : null,
    h("p", { class: "meta" }, node.event_date ? h("span", {}, words(node.event_date)) : null, h("span", {}, `changed ${date(node.updated_at)}`), node.link && !file ? link(node.link) : null),
    file ? h("details", {}, h("summary", {}, "File: ", words(file.name)), words(file.path)) : null,
    kinds.length ? h("ul", { class: "chips" }, kinds.map((kind) => h("li", {}, words(kind)))) : null,
    node.index_error ? h("p", { class: "problem" }, node.index_error) : null,
  ];
}

/** A link only where it leads to the web: other schemes could run something. */
function link(address) {
  const isWeb = /^https?:\/\//i.test(address);
  return isWeb ? h("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, words(beginning(address, 60))) : words(beginning(address, 60));
}

function actions(panel, node, around) {
  const edit = h("button", { type: "button", class: "quiet", on: { click: () => change(panel, node, around) } }, icon("edit"), "Edit");
  const focus = h("button", { type: "button", class: "quiet", title: "A node in focus is added to every message." }, around.isFocused ? "Remove from focus" : "Put in focus");
  focus.addEventListener("click", () =>
    attempt(focus, async () => {
      await changeFocus([node.id], !around.isFocused);
      await around.changed();
      say(around.isFocused ? "No longer in focus." : "In focus: it is added to every message.");
    }),
  );
  const drop = h("button", { type: "button", class: "quiet" }, icon("forget"), "Remove");
  drop.addEventListener("click", async () => {
    const isWanted = await confirmed("Remove this node?", `“${beginning(node.title, 80)}” is deleted with its text and ${count(node.n_edges, "connection")}. This can't be undone.`, "Remove");
    if (!isWanted) return;
    await attempt(drop, async () => {
      await remove(`/v1/knowledge/nodes/${node.id}`);
      await around.gone();
      say("Removed.");
    });
  });
  return h("div", { class: "actions" }, edit, focus, drop);
}

/** Put nodes in focus, or take them out of it; those that another page has put there meanwhile stay. */
export async function changeFocus(ids, isFocused) {
  const { data } = await get("/v1/knowledge/focus");
  const focused = new Set(data.map((node) => node.id));
  for (const id of ids) isFocused ? focused.add(id) : focused.delete(id);
  await put("/v1/knowledge/focus", { node_ids: [...focused] });
}

function change(panel, node, around) {
  const title = h("input", { type: "text", name: "title", required: true, dir: "auto" });
  title.value = node.title;
  const description = area(node.description, { name: "description" });
  const notes = area(node.notes, { name: "notes" });
  const leave = () => {
    draw(panel, node, around);
    panel.querySelector("h2").focus();
  };
  const send = async () => {
    const { secrets } = await patch(`/v1/knowledge/nodes/${node.id}`, { title: title.value, description: description.value, notes: notes.value });
    await around.changed();
    saySaved(secrets);
  };
  const parts = [field("Title", title), field("Description", description), field("Notes", notes)];
  const form = entryForm(parts, { keep: "Save", send, leave, "aria-label": "Edit the node" });
  fill(panel, form);
  title.focus();
}

// ---- connections

function connection(node, edge, around) {
  const isOut = edge.from_node_id === node.id;
  const [id, title] = isOut ? [edge.to_node_id, edge.to_title] : [edge.from_node_id, edge.from_title];
  const other = h("button", { type: "button", class: "link", on: { click: () => around.open(id) } }, words(beginning(title, 80) || "untitled"));
  const type = TYPES[edge.type] ?? named(edge.type);
  const drop = h("button", { type: "button", class: "quiet", "aria-label": `Disconnect ${beginning(title, 40)}` }, "Disconnect");
  drop.addEventListener("click", () => disconnect(edge, drop, around));
  return h(
    "li",
    {},
    h("p", {}, isOut ? [`${type} `, other] : [other, ` ${type} this`]),
    edge.explanation ? words(edge.explanation, { class: "asked" }, "p") : null,
    h("div", { class: "foot" }, h("p", { class: "meta" }, edge.source ? words(origin(edge.source)) : null, h("span", {}, date(edge.created_at))), drop),
  );
}

async function disconnect(edge, button, around) {
  await attempt(button, async () => {
    await remove(`/v1/knowledge/edges/${edge.id}`);
    await around.changed();
    const { from_node_id, to_node_id, type, explanation, confidence } = edge;
    offerUndo("Disconnected.", () => post("/v1/knowledge/edges", { from_node_id, to_node_id, type, explanation, confidence }), {
      after: around.undone,
    });
  });
}

function connectForm(node, around) {
  const others = around.nodes.filter((other) => other.id !== node.id);
  if (!others.length) return null;
  const type = h("select", { name: "type" }, Object.entries(TYPES).map(([value, label]) => h("option", { value }, label)));
  const to = h("select", { name: "to" }, others.map((other) => h("option", { value: other.id }, beginning(other.title, 60) || "untitled")));
  const why = h("input", { type: "text", name: "explanation", required: true, autocomplete: "off", dir: "auto" });
  const save = h("button", { type: "submit", class: "primary" }, "Connect");
  const form = h("form", {}, field("This node", type), field("Other node", to), field("How they are connected", why), h("div", { class: "actions" }, save));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(save, async () => {
      await post("/v1/knowledge/edges", { from_node_id: node.id, to_node_id: Number(to.value), type: type.value, explanation: why.value });
      await around.changed();
      say("Connected.");
    });
  });
  return h("details", {}, h("summary", {}, "Connect it with another node"), form);
}
