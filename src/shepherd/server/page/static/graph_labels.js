// Where the names in a graph go: none covers another, and what finds no place is shown when it is pointed at.

const LETTER_PX = 12;
const EDGE_LETTER_PX = 11;
const LINE_PX = 15;
const GAP_PX = 3;
const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

function widthOf(text, size, weight = 400) {
  const key = `${size} ${weight} ${text}`;
  if (!widths.has(key)) {
    pen.font = `${weight} ${size}px ui-sans-serif, system-ui, sans-serif`;
    // The page's font may be a little wider than this one.
    widths.set(key, pen.measureText(text).width * 1.08 + 2);
  }
  return widths.get(key);
}

function areApart(a, b) {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
}

/**
 * Place the names of nodes and edges, the most important first. `nodes` are {x, y, radius, text, name, weight, isChosen},
 * `name` an SVG text; the chosen node's name is bold and always shown; `edges` {from, to, text, name, isNear}, with points. `scale` is pixels for each unit of the graph, `frame` the part
 * that is seen, in units; a name that would be cut by its border is not written.
 */
export function placeLabels(nodes, edges, scale, frame) {
  const seen = { left: frame.x * scale, top: frame.y * scale, right: (frame.x + frame.width) * scale, bottom: (frame.y + frame.height) * scale };
  const isIn = (box) => box.x >= seen.left && box.y >= seen.top && box.x + box.width <= seen.right && box.y + box.height <= seen.bottom;
  const taken = nodes.map(({ x, y, radius }) => ({ x: (x - radius) * scale, y: (y - radius) * scale, width: 2 * radius * scale, height: 2 * radius * scale }));
  const isFree = (box) => isIn(box) && taken.every((other) => areApart(box, other));
  for (const node of [...nodes].sort((a, b) => b.isChosen - a.isChosen || b.weight - a.weight)) {
    const width = widthOf(node.text, LETTER_PX, node.isChosen ? 600 : 400);
    const [x, y, radius] = [node.x * scale, node.y * scale, node.radius * scale];
    const places = [
      [x - width / 2, y + radius + GAP_PX],
      [x - width / 2, y - radius - GAP_PX - LINE_PX],
      [x + radius + GAP_PX, y - LINE_PX / 2],
      [x - radius - GAP_PX - width, y - LINE_PX / 2],
    ].map(([left, top]) => ({ x: left, y: top, width, height: LINE_PX }));
    const found = places.find(isFree);
    const box = found ?? places[0];
    if (found || node.isChosen) taken.push(box);
    write(node.name, (box.x + width / 2 - x) / scale, (box.y + LINE_PX * 0.78 - y) / scale, LETTER_PX / scale, !found);
  }
  for (const edge of [...edges].sort((a, b) => b.isNear - a.isNear)) {
    const width = widthOf(edge.text, EDGE_LETTER_PX, edge.isNear ? 600 : 400);
    const length = Math.hypot(edge.to.x - edge.from.x, edge.to.y - edge.from.y) * scale;
    const [x, y] = [((edge.from.x + edge.to.x) / 2) * scale, ((edge.from.y + edge.to.y) / 2) * scale];
    const box = { x: x - width / 2, y: y - LINE_PX / 2, width, height: LINE_PX };
    const isShown = length > width + (edge.isNear ? 0 : 40) && isFree(box);
    if (isShown) taken.push(box);
    write(edge.name, x / scale, (y + EDGE_LETTER_PX * 0.35) / scale, EDGE_LETTER_PX / scale, !isShown);
  }
}

function write(name, x, y, size, isCrowded) {
  name.setAttribute("x", x);
  name.setAttribute("y", y);
  name.style.fontSize = `${size}px`;
  name.style.strokeWidth = `${size / 3}px`;
  name.classList.toggle("crowded", isCrowded);
}
