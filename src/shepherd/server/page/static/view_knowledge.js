// Knowledge: nodes and what connects them, as a picture or as a list.

import { get, post } from "./api.js";
import { area, empty, field, fill, h, words } from "./dom.js";
import { newEntry } from "./forms.js";
import { ago, beginning, count, integer } from "./format.js";
import { drawnGraph } from "./graph.js";
import { nodePanel } from "./node_panel.js";
import { attempt, say } from "./notice.js";

const MOST_NODES = 150;
const MOST_HUBS = 50;
const MOST_EDGES = 1000;

export async function show(root, [id]) {
  const view = {
    is_list: false,
    chosen: 0,
    picture: h("div", {}),
    side: h("div", { hidden: true }),
    split: h("div", { class: "split" }),
    summary: h("p", { class: "summary", role: "status" }),
    results: h("div", {}),
  };
  fill(view.split, view.picture, view.side);
  fill(root, h("div", { class: "heading" }, h("h1", {}, "Knowledge"), heading(view)), searchForm(view), view.results, view.summary, view.split);
  await load(view);
  if (id) await open(view, Number(id));
}

async function load(view) {
  const [latest, hubs, edges, focus] = await Promise.all([
    get("/v1/knowledge/nodes", { limit: MOST_NODES }),
    get("/v1/knowledge/hubs", { limit: MOST_HUBS }),
    get("/v1/knowledge/edges", { limit: MOST_EDGES }),
    get("/v1/knowledge/focus"),
  ]);
  view.total = latest.total;
  view.edges = edges.data;
  view.focused = new Set(focus.data.map((node) => node.id));
  view.nodes = chosenNodes(latest.data, hubs.data);
  draw(view);
}

/** The most connected and the latest, each once. */
function chosenNodes(latest, hubs) {
  const nodes = new Map(hubs.filter((hub) => hub.n_edges > 0).map((hub) => [hub.id, { ...hub }]));
  for (const node of latest) if (nodes.size < MOST_NODES || nodes.has(node.id)) nodes.set(node.id, node);
  return [...nodes.values()];
}

function draw(view) {
  if (!view.nodes.length) {
    view.summary.textContent = "";
    fill(view.picture, nothing());
    return;
  }
  const all = view.total === view.nodes.length;
  view.summary.textContent = all
    ? `${count(view.total, "node")}, ${connections(view)}`
    : `${integer(view.nodes.length)} of ${count(view.total, "node")}: the most connected and the latest. Search finds the others.`;
  view.graph = view.is_list ? null : drawnGraph(view.nodes, view.edges, view.focused, (id) => open(view, id));
  fill(view.picture, view.is_list ? nodeTable(view) : view.graph.element);
  view.graph?.mark(view.chosen);
}

function connections({ nodes, edges }) {
  const all = nodes.reduce((sum, node) => sum + node.n_edges, 0) / 2; // each has two ends
  return edges.length < all ? `the newest ${integer(edges.length)} of ${count(all, "connection")}` : count(edges.length, "connection");
}

function nothing() {
  return empty(
    "No knowledge yet.",
    "Bring in documents with ",
    h("code", {}, "shepherd knowledge import FOLDER"),
    " in a terminal, or write a node here with “Add a node”.",
  );
}

function nodeTable(view) {
  const row = (node) => {
    const button = h("button", { type: "button", class: "link", "data-node": node.id }, words(beginning(node.title, 120) || "untitled"));
    button.addEventListener("click", () => open(view, node.id));
    return h("tr", {}, h("td", {}, button), h("td", {}, integer(node.n_edges)), h("td", {}, node.updated_at ? ago(node.updated_at) : ""));
  };
  const head = ["Node", "Connections", "Changed"].map((name) => h("th", { scope: "col" }, name));
  return h("div", { class: "card nodes" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, view.nodes.map(row))));
}

// ---- one node beside it

async function open(view, id) {
  const panel = await nodePanel(id, {
    open: (other) => open(view, other),
    close: () => close(view),
    changed: async () => {
      if (!view.split.isConnected) return; // an undo, after the view was left
      await load(view);
      await open(view, id);
    },
    gone: async () => {
      close(view);
      await load(view);
    },
    nodes: view.nodes,
    isFocused: view.focused.has(id),
    focused: [...view.focused],
  }).catch((error) => h("p", { class: "card problem" }, error.message));
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
  view.chosen = 0;
  view.side.hidden = true;
  fill(view.side);
  view.split.classList.remove("open");
  view.graph?.mark(0);
  const back = view.is_list ? `[data-node="${id}"]` : `.node[data-id="${id}"]`;
  (view.picture.querySelector(back) ?? document.getElementById("view")).focus();
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
  return h("div", { class: "actions" }, h("div", { class: "switch", role: "group", "aria-label": "Show as" }, picture, list), addButton(view));
}

function searchForm(view) {
  const input = h("input", { type: "search", "aria-label": "Search your knowledge", placeholder: "Search your knowledge" });
  const button = h("button", { type: "submit" }, "Search");
  const form = h("form", { role: "search", class: "search" }, input, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(button, async () => {
      const query = input.value.trim();
      fill(view.results, query ? await found(view, query) : null);
    });
  });
  return form;
}

async function found(view, query) {
  const { data } = await post("/v1/knowledge/search", { query, max_results: 20 });
  if (!data.length) return empty("Nothing has these words.", "Try fewer or other ones.");
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
    say("It is kept.");
  };
  return newEntry("Add a node", { id: "new-node", name: "A new node", keep: "Keep it", fields, send, below: () => view.split });
}
