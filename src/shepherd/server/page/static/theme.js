// Light, dark, or as the system has it; remembered by this browser.

import { h } from "./dom.js";

const NAME = "shepherd.theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const LABELS = { auto: "system", light: "light", dark: "dark" };

function chosen() {
  const theme = localStorage.getItem(NAME);
  return theme in NEXT ? theme : "auto";
}

function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** A button that goes from one to the next. */
export function themeButton() {
  const button = h("button", { type: "button", class: "quiet theme" });
  const name = () => {
    button.textContent = `Colours: ${LABELS[chosen()]}`;
  };
  button.addEventListener("click", () => {
    const theme = NEXT[chosen()];
    localStorage.setItem(NAME, theme);
    apply(theme);
    name();
  });
  name();
  return button;
}

apply(chosen());
