// Small line drawings, of our own.

import { svg } from "./dom.js";

const DRAWINGS = {
  chat: ["M4 6.5A2.5 2.5 0 0 1 6.5 4h11A2.5 2.5 0 0 1 20 6.5v7a2.5 2.5 0 0 1-2.5 2.5H11l-5 4v-4.1A2.5 2.5 0 0 1 4 13.5z"],
  memories: ["M7 4h10v16l-5-4-5 4z", "M10 8.5h4"],
  facts: ["M5 4h14v16H5z", "M9 9h6M9 13h6M9 17h3"],
  knowledge: ["M6 7a2 2 0 1 0 .01 0M18 5a2 2 0 1 0 .01 0M15 17a2 2 0 1 0 .01 0", "M8 8.6l8-1.2M7.4 10.6l6.4 6.8M17.5 9l-1.8 8"],
  why: ["M12 3a9 9 0 1 0 .01 0", "M9.6 9.6a2.5 2.5 0 1 1 3.4 2.3c-.7.3-1 .8-1 1.6M12 16.6v.1"],
  learned: ["M12 5v14M5 12h14", "M7.5 7.5l9 9M16.5 7.5l-9 9"],
  statistics: ["M4 20h16", "M7 17v-5M12 17V6M17 17v-8"],
  pin: ["M9 3h6l-1 6 3 3v2H7v-2l3-3z", "M12 14v7"],
  edit: ["M4 20l1-4L16 5l3 3L8 19z"],
  add: ["M12 5v14M5 12h14"],
  send: ["M5 12h14M13 6l6 6-6 6"],
  stop: ["M7 7h10v10H7z"],
  copy: ["M9 9h10v11H9z", "M5 15V4h10"],
  again: ["M19 12a7 7 0 1 1-2.2-5.1", "M19 4v4h-4"],
  list: ["M4 6h16M4 12h16M4 18h10"],
  off: ["M7 4h10v16l-5-4-5 4z", "M4 4l16 16"],
  open: ["M12 15V4M7.5 8.5L12 4l4.5 4.5", "M4 15v5h16v-5"],
  save: ["M12 4v11M7.5 10.5L12 15l4.5-4.5", "M4 15v5h16v-5"],
  attach: ["M19 11l-7.5 7.5a4.5 4.5 0 0 1-6.4-6.4l8-8a3 3 0 0 1 4.3 4.3l-8 8a1.5 1.5 0 0 1-2.2-2.2L14 7.5"],
  forget: ["M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13"],
};

/** A drawing that says nothing to a screen reader: its button has words. */
export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    DRAWINGS[name].map((path) => svg("path", { d: path })),
  );
}
