// Knowledge: nodes and what connects them, as a picture or as a list.

import { Refused, get, post, removeEach } from "./api.js";
import { runnable } from "./commands.js";
import { area, empty, field, fill, h, words } from "./dom.js";
import { transfer } from "./files.js";
import { newEntry } from "./forms.js";
import { ago, beginning, count, fileOf, integer, moment } from "./format.js";
import { drawnGraph } from "./graph.js";
import { setKeys } from "./keys.js";
import { changeFocus, nodePanel } from "./node_panel.js";
import { complain, confirmed, inWords, say, saySaved } from "./notice.js";
import { Rows, TIMES, choice, period, toolbar } from "./rows.js";

const MOST_NODES = 150;
const MOST_HUBS = 50;
const MOST_EDGES = 1000;
const MOST_LISTED = 1000;
const NAMES = ["node", "nodes"];
// Forms that are open in the panel of a node: what is written there stays.
const WRITTEN = ".panel > form, .panel details[open] form";

export async function show(root, [id]) {
  const view = {
    is_list: false,
    chosen: 0,
    // Nodes that were opened, and searches: only the last answer is shown.
    opened: 0,
    searched: 0,
    picture: h("div", {}),
    side: h("div", { hidden: true }),
    split: h("div", { class: "split" }),
    summary: h("p", { class: "summary", role: "status" }),
    results: h("div", {}),
  };
  const changed = () => drawRows(view);
  view.kind = choice("Kind", [["", "All kinds"]], changed);
  view.focus = choice("Focus", [["", "In focus or not"], ["true", "In focus"], ["false", "Not in focus"]], changed);
  view.time = choice("Changed", TIMES, changed);
  view.order = choice("Order", [["newest", "Last changed first"], ["connected", "Most connected first"], ["title", "By title"]], changed);
  view.choices = [view.kind, view.focus, view.time, view.order];
  view.rows = nodeRows(view);
  fill(view.split, view.picture, view.side);
  const [form, input] = searchForm(view);
  const tools = toolbar(form, view.choices);
  view.filters = tools.querySelector(".filters");
  view.filters.hidden = true;
  const imports = h("div", {});
  view.transfer = transfer(root, imports, { path: "/v1/knowledge/export", name: "knowledge", changed: () => load(view) });
  fill(root, h("div", { class: "heading" }, h("h1", {}, "Knowledge"), heading(view)), imports, tools, view.results, view.summary, view.split);
  setKeys({ search: input, rows: view.rows });
  await load(view);
  if (id) await open(view, Number(id));
}

async function load(view) {
  const [latest, hubs, edges, focus] = await Promise.all([
    get("/v1/knowledge/nodes", { limit: MOST_LISTED }),
    get("/v1/knowledge/hubs", { limit: MOST_HUBS }),
    get("/v1/knowledge/edges", { limit: MOST_EDGES }),
    get("/v1/knowledge/focus"),
  ]);
  view.total = latest.total;
  view.edges = edges.data;
  view.focused = new Set(focus.data.map((node) => node.id));
  view.all = latest.data;
  view.nodes = chosenNodes(latest.data, hubs.data);
  const kinds = [...new Set(view.all.map((node) => node.kind))].filter(Boolean).sort();
  view.kind.draw([["", "All kinds"], ...kinds.map((kind) => [kind, kind])]);
  draw(view);
}

/** The most connected and the latest, each once. */
function chosenNodes(latest, hubs) {
  const nodes = new Map(hubs.filter((hub) => hub.n_edges > 0).map((hub) => [hub.id, { ...hub }]));
  for (const node of latest) if (nodes.size < MOST_NODES || nodes.has(node.id)) nodes.set(node.id, node);
  return [...nodes.values()];
}

function draw(view) {
  const isListed = view.is_list && view.nodes.length > 0;
  view.filters.hidden = !isListed;
  if (!view.nodes.length) {
    view.summary.textContent = "";
    fill(view.picture, nothing());
    return;
  }
  if (isListed) {
    view.summary.textContent = "";
    view.graph = null;
    drawRows(view);
    fill(view.picture, view.rows.element);
    return;
  }
  const all = view.total === view.nodes.length;
  view.summary.textContent = all
    ? `${count(view.total, "node")}, ${connections(view)}`
    : `${integer(view.nodes.length)} of ${count(view.total, "node")}: the most connected and the latest. Search finds the others.`;
  view.graph = drawnGraph(view.nodes, view.edges, view.focused, (id) => open(view, id));
  fill(view.picture, view.graph.element);
  view.graph.mark(view.chosen);
}

function connections({ nodes, edges }) {
  const all = nodes.reduce((sum, node) => sum + node.n_edges, 0) / 2; // each has two ends
  return edges.length < all ? `the newest ${integer(edges.length)} of ${count(all, "connection")}` : count(edges.length, "connection");
}

function nothing() {
  return empty(
    "No knowledge yet.",
    [
      "Give Shepherd documents to answer from: press “Import”, or drop PDF, Markdown, HTML or text files here. ",
      h("code", {}, runnable("shepherd knowledge import FOLDER")),
      " in a terminal imports a folder. “Add a node” lets you write a note of your own.",
    ],
  );
}

// ---- the list

function nodeRows(view) {
  return new Rows({
    label: "Nodes",
    names: NAMES,
    columns: "node-rows",
    id: (node) => node.id,
    line: (node) => ({
      main: [words(beginning(node.title, 160) || "untitled", { class: "question" }), fileName(node)],
      cells: [
        words(node.kind, { class: "cell kind" }),
        h("span", { class: "cell recalls" }, node.n_edges ? count(node.n_edges, "connection") : ""),
        h("span", { class: "cell when", title: moment(node.updated_at) }, ago(node.updated_at)),
      ],
      mark: view.focused.has(node.id) ? "pinned" : "",
    }),
    // It is shown beside the list.
    open: (node) => {
      open(view, node.id);
      return null;
    },
    actions: [
      ["Put in focus", (nodes) => focusAll(view, nodes, true)],
      ["Remove from focus", (nodes) => focusAll(view, nodes, false)],
      ["Remove", (nodes) => removeAll(view, nodes)],
    ],
  });
}

/** The name of the file that a node was made of, behind a title that is not the same. */
function fileName(node) {
  const file = fileOf(node.link);
  return file && file.name.replace(/\.\w+$/, "") !== node.title ? [" ", words(file.name, { class: "answer" })] : null;
}

/** Show the nodes that fit the choices. */
function drawRows(view) {
  const { since = -Infinity, until = Infinity } = period(view.time.value);
  const shown = view.all.filter(
    (node) =>
      (!view.kind.value || node.kind === view.kind.value) &&
      (!view.focus.value || String(view.focused.has(node.id)) === view.focus.value) &&
      node.updated_at >= since &&
      node.updated_at < until,
  );
  if (view.order.value === "connected") shown.sort((a, b) => b.n_edges - a.n_edges);
  if (view.order.value === "title") shown.sort((a, b) => a.title.localeCompare(b.title));
  view.rows.set(shown, empty("No node matches these filters.", "Choose “All kinds” or another time to see more."));
  const all = view.total === view.all.length ? count(view.total, ...NAMES) : `the latest ${integer(view.all.length)} of ${count(view.total, ...NAMES)}`;
  view.rows.say(shown.length === view.all.length ? `${all}, ${connections({ ...view, nodes: view.all })}` : `${shown.length} of ${all}`);
}

async function focusAll(view, nodes, isFocused) {
  await changeFocus(nodes.map((node) => node.id), isFocused);
  view.rows.select([]);
  await load(view);
  view.rows.focus();
  say(isFocused ? `In focus: ${nodes.length === 1 ? "it is" : "they are"} added to every message.` : "No longer in focus.");
}

async function removeAll(view, nodes) {
  const isWanted = await confirmed(
    `Remove ${count(nodes.length, ...NAMES)}?`,
    `${nodes.length === 1 ? "It is deleted with its" : "They are deleted with their"} text and connections. This can't be undone.`,
    "Remove",
  );
  if (!isWanted) return;
  const done = [];
  let failure = null;
  try {
    await removeEach(nodes, (node) => `/v1/knowledge/nodes/${node.id}`, done);
  } catch (error) {
    failure = error;
  }
  // Without a failure, the others were removed elsewhere.
  const gone = (failure ? done : nodes).map((node) => node.id);
  if (gone.includes(view.chosen)) close(view);
  view.rows.remove(gone);
  await load(view).catch((error) => {
    failure ??= error;
  });
  view.rows.focus();
  if (failure) complain(new Refused(`Removed: ${done.length} of ${count(nodes.length, ...NAMES)}. ${inWords(failure)}`, failure.status, failure.code));
  else say(`Removed: ${count(done.length, ...NAMES)}.`);
}

// ---- one node beside it

async function open(view, id) {
  view.opened += 1;
  const turn = view.opened;
  const panel = await nodePanel(id, {
    open: (other) => open(view, other),
    close: () => close(view),
    changed: async () => {
      await load(view);
      if (view.opened === turn) await open(view, id);
    },
    undone: async () => {
      if (!view.split.isConnected) return; // the view was left
      await load(view);
      if (view.chosen === id && !view.side.querySelector(WRITTEN)) await open(view, id);
    },
    gone: async () => {
      close(view);
      await load(view);
    },
    nodes: view.nodes,
    isFocused: view.focused.has(id),
  }).catch((error) => h("p", { class: "card problem" }, error.message));
  if (view.opened !== turn) return; // another node was opened meanwhile, or this one closed
  view.chosen = id;
  view.side.hidden = false;
  view.split.classList.add("open");
  fill(view.side, panel);
  view.graph?.mark(id);
  panel.querySelector("h2")?.focus({ preventScroll: true });
  // Where the panel is below the graph and not beside it.
  if (panel.getBoundingClientRect().top > innerHeight / 2) panel.scrollIntoView();
}

function close(view) {
  const id = view.chosen;
  view.opened += 1;
  view.chosen = 0;
  view.side.hidden = true;
  fill(view.side);
  view.split.classList.remove("open");
  view.graph?.mark(0);
  if (view.is_list) view.rows.focus(id);
  else (view.picture.querySelector(`.node[data-id="${id}"]`) ?? document.getElementById("view")).focus();
}

// ---- above it

function heading(view) {
  const picture = h("button", { type: "button", "aria-pressed": "true" }, "Graph");
  const list = h("button", { type: "button", "aria-pressed": "false" }, "List");
  const turn = (is_list) => {
    view.is_list = is_list;
    picture.setAttribute("aria-pressed", String(!is_list));
    list.setAttribute("aria-pressed", String(is_list));
    draw(view);
  };
  picture.addEventListener("click", () => turn(false));
  list.addEventListener("click", () => turn(true));
  return h("div", { class: "actions" }, h("div", { class: "switch", role: "group", "aria-label": "Show as" }, picture, list), view.transfer, addButton(view));
}

function searchForm(view) {
  const input = h("input", { type: "search", "aria-label": "Search your knowledge", placeholder: "Search your knowledge" });
  const form = h("form", { role: "search", class: "search" }, input, h("button", { type: "submit" }, "Search"));
  input.addEventListener("input", () => {
    if (input.value) return;
    view.searched += 1;
    fill(view.results);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    view.searched += 1;
    const turn = view.searched;
    const query = input.value.trim();
    try {
      const results = query ? await found(view, query) : null;
      if (turn === view.searched) fill(view.results, results);
    } catch (error) {
      if (turn === view.searched) complain(error);
    }
  });
  return [form, input];
}

async function found(view, query) {
  const { data } = await post("/v1/knowledge/search", { query, max_results: 20 });
  if (!data.length) return empty("No passage contains these words.", "Try fewer or different words.");
  const nodes = new Map();
  for (const piece of data) if (!nodes.has(piece.node_id)) nodes.set(piece.node_id, piece);
  const entries = [...nodes.values()].map((piece) => {
    const button = h("button", { type: "button", class: "link" }, words(beginning(piece.title, 120) || "untitled"));
    button.addEventListener("click", () => open(view, piece.node_id));
    return h("li", {}, button, h("p", { class: "asked" }, words(beginning(piece.text, 200))));
  });
  return h("section", { class: "card", "aria-label": "Found" }, h("h2", { role: "status" }, `${count(nodes.size, "node")} found`), h("ul", { class: "connections" }, entries));
}

function addButton(view) {
  const fields = () => {
    const title = h("input", { type: "text", name: "title", required: true, autocomplete: "off", dir: "auto" });
    const notes = area("", { name: "notes" });
    const values = () => ({ title: title.value, notes: notes.value });
    return { parts: [field("Title", title), field("Notes", notes)], first: title, values };
  };
  const send = async (values, close) => {
    const node = await post("/v1/knowledge/nodes", values);
    close();
    await load(view);
    await open(view, node.id);
    saySaved(node.secrets);
  };
  return newEntry("Add a node", { id: "new-node", name: "A new node", keep: "Save", fields, send, below: () => view.split });
}
