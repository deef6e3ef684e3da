// Figures and plots, drawn as SVG; each has its numbers as a table, for those who do not see it.

import { h, newId, svg } from "./dom.js";
import { beginning, date } from "./format.js";

// In the plot's own units, of which a letter has eleven in height: fewer of them on a narrow screen.
const WIDTH = matchMedia("(max-width: 40rem)").matches ? 340 : 640;
const LABEL_WIDTH = 100;
const HEIGHT = 180;
const LEFT = 44;
const BOTTOM = 24;
const TOP = 10;

/** Figures with their names below: a list of [name, value]. */
export function tiles(figures) {
  return h(
    "dl",
    { class: "tiles" },
    figures.map(([name, value]) => h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * Bars, one for each of `points` ({label, value}), under a title. `format` writes a value; `says` is the plot in
 * one sentence. As many labels as there is room for are written below.
 */
export function bars(title, points, { format = String, says = "", unit = "" } = {}) {
  const most = ceiling(Math.max(...points.map((point) => point.value), 0));
  const step = (WIDTH - LEFT) / points.length;
  const width = Math.max(Math.min(step * 0.78, 48), 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const drawn = points.map((point, i) => {
    const x = LEFT + step * i + (step - width) / 2;
    const top = point.value ? Math.min(y(point.value), y(0) - 1.5) : y(0);
    return svg(
      "rect",
      { x, y: top, width, height: y(0) - top, rx: Math.min(3, width / 3), class: "bar-value" },
      svg("title", {}, `${point.label}: ${format(point.value)}`),
    );
  });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "plot", "aria-label": `${title}. ${says}` },
    axes(most, points, format),
    drawn,
  );
  return figure(title, picture, points, format, unit, "Bar");
}

/**
 * Bars that are cut into parts, one for each of `points` ({label, values}), under a title; `series` names the
 * parts. `most` is the height of the plot, if it is not that of the highest bar. `format`, `says` and `unit` as in
 * `bars`.
 */
export function stacks(title, series, points, { format = String, says = "", unit = "", most = 0 } = {}) {
  const sum = (point) => point.values.reduce((all, value) => all + value, 0);
  const top = most || ceiling(Math.max(...points.map(sum), 0));
  const step = (WIDTH - LEFT) / points.length;
  const width = Math.max(Math.min(step * 0.78, 48), 1);
  const high = (value) => ((HEIGHT - TOP - BOTTOM) * Math.min(value, top)) / top;
  const drawn = points.map((point, i) => {
    let y = HEIGHT - BOTTOM;
    return point.values.map((value, part) => {
      const height = high(value);
      y -= height;
      return value ? svg("rect", { x: LEFT + step * i + (step - width) / 2, y, width, height: Math.max(height - 0.5, 0.5), class: `share-${part}` }, svg("title", {}, `${point.label}, ${series[part]}: ${format(value)}`)) : null;
    }).filter(Boolean);
  });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "plot", "aria-label": `${title}. ${says}` }, axes(top, points, format), drawn.flat());
  const legend = h("ul", { class: "legend" }, series.map((name, i) => h("li", {}, h("span", { class: `dot share-${i}`, "aria-hidden": "true" }), name)));
  return framed(title, [picture, legend], h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, unit), series.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, points.map((point) => h("tr", {}, h("th", { scope: "row" }, point.label), point.values.map((value) => h("td", {}, format(value))))))));
}

/** The lines and labels of a plot whose highest value is `most`. */
function axes(most, points, format) {
  const step = (WIDTH - LEFT) / points.length;
  const every = Math.ceil(LABEL_WIDTH / step);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  return [
    [0, most / 2, most].map((value) => [
      svg("line", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value), class: "grid" }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, class: "tick", "text-anchor": "end" }, format(value)),
    ]),
    points.map((point, i) => (i % every ? null : svg("text", { x: LEFT + step * (i + 0.5), y: HEIGHT - 6, class: "tick", "text-anchor": "middle" }, point.label))).filter(Boolean),
  ].flat(2);
}

/** Rows with a bar each: entries are {label, value, says}, `label` a node. */
export function ranking(entries) {
  const most = Math.max(...entries.map((entry) => entry.value), 1);
  const bar = ({ value }) => {
    const length = h("span", { class: "level" });
    length.style.width = `${(100 * value) / most}%`;
    return h("span", { class: "track long", "aria-hidden": "true" }, length);
  };
  return h("ol", { class: "ranking" }, entries.map((entry) => h("li", {}, h("div", { class: "rank" }, entry.label, bar(entry), h("span", { class: "meta" }, entry.says)))));
}

/** One bar that is cut into parts, with its legend: parts are {label, value}. */
export function shares(title, parts, { format = String, unit = "" } = {}) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  let x = 0;
  const drawn = parts.map((part, i) => {
    const width = total ? (WIDTH * part.value) / total : 0;
    const made = svg("rect", { x, y: 0, width: Math.max(width - 2, 0), height: 20, rx: 3, class: `share share-${i}` });
    x += width;
    return made;
  });
  const says = parts.map((part) => `${part.label}: ${format(part.value)}`).join(", ");
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} 20`, role: "img", class: "plot flat", "aria-label": `${title}. ${says}`, preserveAspectRatio: "none" }, drawn);
  const legend = h(
    "ul",
    { class: "legend" },
    parts.map((part, i) => h("li", {}, h("span", { class: `dot share-${i}`, "aria-hidden": "true" }), `${part.label} `, h("b", {}, format(part.value)))),
  );
  return figure(title, [picture, legend], parts, format, unit, "Part");
}

/**
 * From when until when each value of a fact held, as a line; periods are {value, since, until}, the newest first.
 * The list of periods has the same in words.
 */
export function lifeline(periods) {
  const now = Date.now() / 1000;
  const lived = periods.filter(({ since, until }) => until === null || until > since);
  const first = Math.min(...lived.map((period) => period.since));
  const span = Math.max(now - first, 1);
  const x = (at) => (WIDTH * (Math.min(Math.max(at, first), now) - first)) / span;
  const drawn = lived.toReversed().map(({ value, since, until }, i) => {
    const [from, to] = [x(since), x(until ?? now)];
    const width = Math.max(to - from - 2, 2);
    const room = Math.floor(width / 7) - 1;
    return svg(
      "g",
      {},
      svg("rect", { x: from, y: 0, width, height: 20, rx: 4, class: `life ${until === null ? "present" : `former-${i % 2}`}` }, svg("title", {}, `${value}: ${date(since)} – ${until === null ? "now" : date(until)}`)),
      room > 2 ? svg("text", { x: from + 6, y: 14, class: "life-text" }, beginning(value, room)) : null,
    );
  });
  const ticks = [svg("text", { x: 0, y: 35, class: "tick" }, date(first)), svg("text", { x: WIDTH, y: 35, class: "tick", "text-anchor": "end" }, "now")];
  const says = lived.toReversed().map(({ value, since }) => `${value} since ${date(since)}`).join(", then ");
  return svg("svg", { viewBox: `0 0 ${WIDTH} 40`, role: "img", class: "plot lifeline", "aria-label": says }, drawn, ticks);
}

function figure(title, picture, points, format, unit, name) {
  return framed(title, picture, table(points, format, unit, name));
}

function framed(title, picture, numbers) {
  const id = newId("plot");
  return h(
    "section",
    { class: "card figure", "aria-labelledby": id },
    h("h2", { id }, title),
    picture,
    h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}, as a table` }, numbers)),
  );
}

function table(points, format, unit, name) {
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, name), h("th", { scope: "col" }, unit || "Value"))),
    h("tbody", {}, points.map((point) => h("tr", {}, h("th", { scope: "row" }, point.label), h("td", {}, format(point.value))))),
  );
}

/** The next round number, which the highest bar fits under. */
function ceiling(value) {
  if (value <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= value);
}
