// The graph as a picture: SVG that is moved and enlarged by pointer, wheel and keys, and walked by arrow keys.

import { fill, h, svg } from "./dom.js";
import { beginning, count } from "./format.js";
import { places } from "./force.js";

const MARGIN = 60;
// Beyond so many nodes only the most connected have their names written.
const MOST_NAMED = 40;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The picture of nodes and edges; `choose` is called with a node's id. `mark(id)` shows which one is chosen. */
export function drawnGraph(nodes, edges, focused, choose) {
  const number = new Map(nodes.map((node, i) => [node.id, i]));
  const pairs = edges
    .filter((edge) => number.has(edge.from_node_id) && number.has(edge.to_node_id))
    .map((edge) => [number.get(edge.from_node_id), number.get(edge.to_node_id)]);
  const points = places(nodes.length, pairs);
  const named = new Set([...nodes].sort((a, b) => b.n_edges - a.n_edges).slice(0, MOST_NAMED));
  const lines = pairs.map(([from, to]) =>
    svg("line", { class: "edge", x1: points[from].x, y1: points[from].y, x2: points[to].x, y2: points[to].y }),
  );
  const marks = nodes.map((node, i) => drawnNode(node, points[i], named.has(node), focused.has(node.id)));
  const picture = svg(
    "svg",
    { class: "graph", role: "group", "aria-label": `Graph of ${count(nodes.length, "node")} and ${count(pairs.length, "connection")}. Arrow keys walk, Enter opens.` },
    svg("g", { "aria-hidden": "true" }, lines),
    marks,
  );
  const camera = new Camera(picture, points);
  walk(picture, marks, points, camera);
  marks.forEach((mark, i) => mark.addEventListener("click", () => choose(nodes[i].id)));
  return {
    element: h("div", { class: "card canvas" }, picture, camera.buttons()),
    mark(id) {
      const chosen = number.get(id);
      marks.forEach((mark, i) => mark.classList.toggle("chosen", i === chosen));
      lines.forEach((line, i) => line.classList.toggle("near", pairs[i].includes(chosen)));
      if (chosen !== undefined) rove(marks, marks[chosen]);
    },
  };
}

function drawnNode(node, { x, y }, isNamed, isFocused) {
  const radius = 6 + Math.min(Math.sqrt(node.n_edges) * 2.5, 14);
  const name = beginning(node.title, 80) || "untitled";
  return svg(
    "g",
    {
      class: `node ${isNamed ? "named" : ""} ${isFocused ? "in-focus" : ""}`,
      transform: `translate(${x} ${y})`,
      "data-id": node.id,
      role: "button",
      tabindex: -1,
      "aria-label": `${name}, ${count(node.n_edges, "connection")}${isFocused ? ", in focus" : ""}`,
    },
    svg("circle", { r: radius }),
    svg("text", { y: radius + 14, "text-anchor": "middle", direction: "ltr" }, beginning(node.title, 26)),
  );
}

// ---- keys

/** One stop for the Tab key; arrows go to the next node in their direction, Enter and Space open it. */
function walk(picture, marks, points, camera) {
  rove(marks, marks[0]);
  picture.addEventListener("keydown", (event) => {
    const at = marks.indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      marks[at].dispatchEvent(new MouseEvent("click"));
    } else if (event.key in DIRECTIONS) {
      const next = nearest(points, at, DIRECTIONS[event.key]);
      if (next >= 0) {
        rove(marks, marks[next]);
        marks[next].focus({ preventScroll: true });
        camera.include(points[next]);
      }
    } else if (event.key === "+" || event.key === "-") {
      camera.zoom(event.key === "+" ? 0.8 : 1.25);
    } else if (event.key === "Home") {
      camera.fit();
    } else {
      return;
    }
    event.preventDefault();
  });
}

function rove(marks, chosen) {
  for (const mark of marks) mark.setAttribute("tabindex", mark === chosen ? "0" : "-1");
}

/** The nearest in that direction; those aside count as farther. -1 where there is none. */
function nearest(points, from, [dx, dy]) {
  let best = -1;
  let least = Infinity;
  points.forEach((point, i) => {
    const [x, y] = [point.x - points[from].x, point.y - points[from].y];
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    const distance = ahead + 2 * aside;
    if (i !== from && ahead > 0 && distance < least) [best, least] = [i, distance];
  });
  return best;
}

// ---- what part of it is seen

class Camera {
  constructor(picture, points) {
    this.picture = picture;
    this.points = points;
    this.fit();
    picture.addEventListener("pointerdown", (event) => this.drag(event));
    picture.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** All of it. */
  fit() {
    const xs = this.points.map((point) => point.x);
    const ys = this.points.map((point) => point.y);
    const [left, top] = [Math.min(...xs) - MARGIN, Math.min(...ys) - MARGIN];
    this.look(left, top, Math.max(...xs) + MARGIN - left, Math.max(...ys) + MARGIN - top);
  }

  look(x, y, width, height) {
    this.box = { x, y, width, height };
    this.picture.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }

  /** Nearer with a factor below 1; the middle stays. */
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
    const scale = this.picture.getScreenCTM().a;
    const { x, y, width, height } = this.box;
    const move = (now) => this.look(x - (now.clientX - event.clientX) / scale, y - (now.clientY - event.clientY) / scale, width, height);
    const end = () => {
      this.picture.removeEventListener("pointermove", move);
    };
    this.picture.setPointerCapture(event.pointerId);
    this.picture.addEventListener("pointermove", move);
    this.picture.addEventListener("pointerup", end, { once: true });
    this.picture.addEventListener("pointercancel", end, { once: true });
  }

  buttons() {
    const made = (label, name, act) => h("button", { type: "button", "aria-label": name, title: name, on: { click: act } }, label);
    return fill(
      h("div", { class: "zoom" }),
      made("+", "Nearer", () => this.zoom(0.8)),
      made("−", "Farther", () => this.zoom(1.25)),
      made("All", "Show all", () => this.fit()),
    );
  }
}
