// The graph as a picture: SVG that is moved and enlarged by pointer, wheel and keys, and walked by arrow keys.

import { fill, h, svg } from "./dom.js";
import { beginning, count } from "./format.js";
import { places } from "./force.js";
import { placeLabels } from "./graph_labels.js";
import { TYPES } from "./node_panel.js";
import { named } from "./wording.js";

const MARGIN = 60;
// Kinds with a colour of their own; all others share the last one.
const COLOURS = 8;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STEP = 20;
// A pointer that moves less than this has clicked.
const STILL_PX = 4;
// Where nodes were dragged to, by their ids; gone with the page.
const moved = new Map();

/** The picture of nodes and edges; `choose` is called with a node's id. `mark(id)` shows which one is chosen. */
export function drawnGraph(nodes, edges, focused, choose) {
  const graph = new Graph(nodes, edges, focused, choose);
  return { element: graph.element, mark: (id) => graph.mark(id) };
}

class Graph {
  constructor(nodes, edges, focused, choose) {
    const number = new Map(nodes.map((node, i) => [node.id, i]));
    this.choose = choose;
    this.number = number;
    const known = edges.filter((edge) => number.has(edge.from_node_id) && number.has(edge.to_node_id));
    const pairs = known.map((edge) => [number.get(edge.from_node_id), number.get(edge.to_node_id)]);
    const points = places(nodes.length, pairs);
    const kinds = kindsOf(nodes);
    this.nodes = nodes.map((node, i) => this.node(node, moved.get(node.id) ?? points[i], kinds, focused.has(node.id)));
    this.edges = known.map((edge, i) => this.edge(edge, this.nodes[pairs[i][0]], this.nodes[pairs[i][1]]));
    this.picture = svg(
      "svg",
      { class: "graph", role: "group", "aria-label": `Graph of ${count(nodes.length, "node")} and ${count(known.length, "connection")}. Use the arrow keys to move, and Enter to open a node.` },
      svg("g", { "aria-hidden": "true" }, this.edges.map((edge) => [edge.line, edge.name])),
      this.nodes.map((node) => node.mark),
    );
    this.camera = new Camera(this.picture, this.nodes, () => this.label());
    this.element = h("div", { class: "card canvas" }, this.picture, this.camera.buttons(), legend(kinds));
    this.walk();
    this.nodes.forEach((node) => this.draw(node));
    new ResizeObserver(() => this.label()).observe(this.picture);
  }

  node(node, { x, y }, kinds, isFocused) {
    const radius = 6 + Math.min(Math.sqrt(node.n_edges) * 2.5, 14);
    const name = beginning(node.title, 80) || "untitled";
    const text = beginning(node.title, 26);
    const label = svg("text", { "text-anchor": "middle", direction: "ltr" }, text);
    const mark = svg(
      "g",
      {
        class: `node kind-${Math.min(kinds.indexOf(node.kind), COLOURS - 1)} ${isFocused ? "in-focus" : ""}`,
        "data-id": node.id,
        role: "button",
        tabindex: -1,
        "aria-label": `${name}, ${node.kind ? `${beginning(node.kind, 30)}, ` : ""}${count(node.n_edges, "connection")}${isFocused ? ", in focus" : ""}`,
      },
      svg("circle", { r: radius }),
      label,
    );
    const made = { id: node.id, x, y, radius, text, name: label, weight: node.n_edges + (isFocused ? 1000 : 0), isChosen: false, mark };
    mark.addEventListener("pointerdown", (event) => this.drag(event, made));
    mark.addEventListener("click", () => made.wasDragged || this.choose(made.id));
    return made;
  }

  edge(edge, from, to) {
    const text = TYPES[edge.type] ?? beginning(named(edge.type), 30);
    return { from, to, text, isNear: false, line: svg("line", { class: "edge" }), name: svg("text", { class: "edge-name", "text-anchor": "middle" }, text) };
  }

  mark(id) {
    const chosen = this.nodes[this.number.get(id)];
    for (const node of this.nodes) {
      node.isChosen = node === chosen;
      node.mark.classList.toggle("chosen", node.isChosen);
    }
    for (const edge of this.edges) {
      edge.isNear = edge.from === chosen || edge.to === chosen;
      edge.line.classList.toggle("near", edge.isNear);
      edge.name.classList.toggle("near", edge.isNear);
    }
    if (chosen) this.rove(chosen);
    this.label();
  }

  /** Show a node where it is, and the edges at it. */
  draw(node) {
    node.mark.setAttribute("transform", `translate(${node.x} ${node.y})`);
    for (const { from, to, line } of this.edges) {
      if (from !== node && to !== node) continue;
      for (const [name, value] of Object.entries({ x1: from.x, y1: from.y, x2: to.x, y2: to.y })) line.setAttribute(name, value);
    }
  }

  label() {
    const scale = this.camera.scale();
    if (scale) placeLabels(this.nodes, this.edges, scale, this.camera.frame());
  }

  place(node, x, y) {
    Object.assign(node, { x, y });
    moved.set(node.id, { x, y });
    this.draw(node);
  }

  drag(event, node) {
    if (event.button !== 0) return;
    const scale = this.camera.scale();
    const { x, y } = node;
    node.wasDragged = false;
    const move = (now) => {
      const [dx, dy] = [now.clientX - event.clientX, now.clientY - event.clientY];
      if (!node.wasDragged && Math.hypot(dx, dy) < STILL_PX) return;
      node.wasDragged = true;
      this.place(node, x + dx / scale, y + dy / scale);
    };
    following(node.mark, event, move, () => node.wasDragged && this.label());
  }

  // ---- keys

  /** One stop for the Tab key; arrows go to the next node in their direction, Enter and Space open it. */
  walk() {
    this.rove(this.nodes[0]);
    this.picture.addEventListener("keydown", (event) => {
      const node = this.nodes.find(({ mark }) => mark === document.activeElement);
      if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" || event.key === " ") {
        this.choose(node.id);
      } else if (event.key in DIRECTIONS && event.shiftKey) {
        const [dx, dy] = DIRECTIONS[event.key];
        this.place(node, node.x + dx * STEP, node.y + dy * STEP);
        this.label();
      } else if (event.key in DIRECTIONS) {
        const next = nearest(this.nodes, node, DIRECTIONS[event.key]);
        if (next) {
          this.rove(next);
          next.mark.focus({ preventScroll: true });
          this.camera.include(next);
        }
      } else if (event.key === "+" || event.key === "-") {
        this.camera.zoom(event.key === "+" ? 0.8 : 1.25);
      } else if (event.key === "Home") {
        this.camera.fit();
      } else {
        return;
      }
      event.preventDefault();
    });
  }

  rove(chosen) {
    for (const { mark } of this.nodes) mark.setAttribute("tabindex", mark === chosen.mark ? "0" : "-1");
  }
}

/** The kinds of nodes, the most frequent first. */
function kindsOf(nodes) {
  const sums = new Map();
  for (const { kind } of nodes) sums.set(kind, (sums.get(kind) ?? 0) + 1);
  return [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([kind]) => kind);
}

function legend(kinds) {
  if (kinds.length < 2) return null;
  const names = kinds.length > COLOURS ? [...kinds.slice(0, COLOURS - 1), "others"] : kinds;
  return h("ul", { class: "legend kinds", "aria-label": "Colours by kind" }, names.map((kind, i) => h("li", {}, h("span", { class: `dot kind-${i}`, "aria-hidden": "true" }), h("bdi", {}, beginning(kind, 24) || "no kind"))));
}

/** The nearest in that direction; those aside count as farther. */
function nearest(nodes, from, [dx, dy]) {
  let best = null;
  let least = Infinity;
  for (const node of nodes) {
    const [x, y] = [node.x - from.x, node.y - from.y];
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    const distance = ahead + 2 * aside;
    if (node !== from && ahead > 0 && distance < least) [best, least] = [node, distance];
  }
  return best;
}

/** Call `move` for a pointer until it is lifted, then `end`. */
function following(element, event, move, end = () => {}) {
  const stop = () => {
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", stop);
    element.removeEventListener("pointercancel", stop);
    end();
  };
  element.setPointerCapture(event.pointerId);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", stop);
  element.addEventListener("pointercancel", stop);
}

// ---- what part of it is seen

class Camera {
  constructor(picture, nodes, looked) {
    this.picture = picture;
    this.nodes = nodes;
    this.looked = looked;
    this.fit();
    picture.addEventListener("pointerdown", (event) => this.drag(event));
    picture.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** All of it. */
  fit() {
    const xs = this.nodes.map((node) => node.x);
    const ys = this.nodes.map((node) => node.y);
    const [left, top] = [Math.min(...xs) - MARGIN, Math.min(...ys) - MARGIN];
    this.look(left, top, Math.max(...xs) + MARGIN - left, Math.max(...ys) + MARGIN - top);
  }

  look(x, y, width, height) {
    this.box = { x, y, width, height };
    this.picture.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
    if (this.picture.isConnected) this.looked();
  }

  /** Pixels for each unit of the graph; 0 while it is not shown. */
  scale() {
    const { width, height } = this.picture.getBoundingClientRect();
    return Math.min(width / this.box.width, height / this.box.height);
  }

  /** All that is seen: the box, and what the picture shows beside it. */
  frame() {
    const shown = this.picture.getBoundingClientRect();
    const scale = this.scale();
    const [width, height] = [shown.width / scale, shown.height / scale];
    return { x: this.box.x + (this.box.width - width) / 2, y: this.box.y + (this.box.height - height) / 2, width, height };
  }

  /** Zooms in with a factor below 1, and keeps the middle in place. */
  zoom(factor) {
    const { x, y, width, height } = this.box;
    if (width * factor < 80 || width * factor > 20000) return;
    this.look(x + (width * (1 - factor)) / 2, y + (height * (1 - factor)) / 2, width * factor, height * factor);
  }

  /** Move as far as a point needs to be seen. */
  include({ x, y }) {
    const { width, height } = this.box;
    const within = (low, at, size) => Math.min(Math.max(low, at - size + MARGIN / 2), at - MARGIN / 2);
    this.look(within(this.box.x, x, width), within(this.box.y, y, height), width, height);
  }

  /** With Ctrl, as maps do: the wheel alone scrolls the page. */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.1 : 0.9);
  }

  drag(event) {
    if (event.target.closest(".node")) return;
    const scale = this.scale();
    const { x, y, width, height } = this.box;
    following(this.picture, event, (now) => this.look(x - (now.clientX - event.clientX) / scale, y - (now.clientY - event.clientY) / scale, width, height));
  }

  buttons() {
    const made = (label, name, act) => h("button", { type: "button", "aria-label": name, title: name, on: { click: act } }, label);
    return fill(
      h("div", { class: "zoom" }),
      made("+", "Zoom in", () => this.zoom(0.8)),
      made("−", "Zoom out", () => this.zoom(1.25)),
      made("All", "Show all", () => this.fit()),
    );
  }
}
