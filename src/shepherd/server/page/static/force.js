// Places for the nodes of a graph: edges pull like springs, nodes push each other away (Fruchterman and Reingold,
// "Graph drawing by force-directed placement", 1991). The same graph has the same picture each time. All pairs push:
// n²/2 · STEPS, 4 million of them and some 30 ms for 200 nodes.

const STEPS = 220;
const SPACING = 90;
// Holds parts together that no edge connects.
const GRAVITY = 0.045;
const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));

/** `{x, y}` for each of `n` nodes; `edges` are pairs of their numbers. The middle is 0, 0. */
export function places(n, edges) {
  const nodes = Array.from({ length: n }, (_, i) => {
    // The spiral of a sunflower: even, and no two at one place.
    const radius = SPACING * 0.6 * Math.sqrt(i + 0.5);
    return { x: radius * Math.cos(i * GOLDEN_ANGLE), y: radius * Math.sin(i * GOLDEN_ANGLE), dx: 0, dy: 0 };
  });
  for (let step = 0; step < STEPS; step += 1) {
    const reach = SPACING * (1 - step / STEPS);
    push(nodes);
    pull(nodes, edges);
    for (const node of nodes) move(node, reach);
  }
  return nodes.map(({ x, y }) => ({ x, y }));
}

function push(nodes) {
  for (let i = 0; i < nodes.length; i += 1) {
    for (let j = i + 1; j < nodes.length; j += 1) {
      const [a, b] = [nodes[i], nodes[j]];
      const [x, y] = [a.x - b.x, a.y - b.y];
      const force = (SPACING * SPACING) / Math.max(x * x + y * y, 1);
      a.dx += x * force;
      a.dy += y * force;
      b.dx -= x * force;
      b.dy -= y * force;
    }
  }
}

function pull(nodes, edges) {
  for (const [from, to] of edges) {
    const [a, b] = [nodes[from], nodes[to]];
    const [x, y] = [a.x - b.x, a.y - b.y];
    const force = Math.hypot(x, y) / SPACING;
    a.dx -= x * force;
    a.dy -= y * force;
    b.dx += x * force;
    b.dy += y * force;
  }
}

function move(node, reach) {
  node.dx -= node.x * GRAVITY * 20;
  node.dy -= node.y * GRAVITY * 20;
  const length = Math.hypot(node.dx, node.dy) || 1;
  const step = Math.min(length, reach);
  node.x += (node.dx / length) * step;
  node.y += (node.dy / length) * step;
  node.dx = node.dy = 0;
}
