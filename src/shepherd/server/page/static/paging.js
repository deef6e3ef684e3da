// Lists that are longer than what is asked for at once, or than what is wanted first.

import { h } from "./dom.js";
import { count } from "./format.js";
import { attempt } from "./notice.js";

/**
 * The next entries behind `offset` that are not `known` by their ids, with the total; none at the end. What came
 * in at the top meanwhile moves all others down: what is shown already is asked for again, and passed over.
 */
export async function nextOf(ask, offset, known) {
  for (let from = offset; ; ) {
    const { data, total } = await ask(from);
    const fresh = data.filter((entry) => !known.has(String(entry.id)));
    if (fresh.length || !data.length) return { data: fresh, total };
    from += data.length;
  }
}

/** A button that shows or hides the single questions, which the list of conversations leaves out. */
export function oneOffsButton(leftOut, areShown, toggle) {
  const label = areShown ? "Hide single questions" : `Show ${count(leftOut, "single question")}`;
  const button = h("button", { type: "button", class: "quiet one-offs" }, label);
  button.addEventListener("click", () => attempt(button, toggle));
  return button;
}
