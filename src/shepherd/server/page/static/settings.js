// The settings that the server can change while it runs.

import { get, patch } from "./api.js";
import { runnable } from "./commands.js";
import { field, fill, h, newId } from "./dom.js";
import { attempt, say } from "./notice.js";

const LABELS = {
  temperature: "Randomness of answers",
  max_tokens: "Maximum length of an answer, in tokens",
  rag_max_results: "Maximum number of memories added to a message",
  rag_relevance_threshold: "Minimum relevance of a memory",
  rag_recency_floor: "Weight of old memories",
};

/** A card with the settings, or null where the server has none to change. */
export async function settingsCard() {
  const told = await get("/v1/settings").catch((error) => {
    // The shared session has no such API, and a key may lack the scope.
    if ([403, 404].includes(error.status)) return null;
    throw error;
  });
  return told?.data.length ? card(told) : null;
}

function card({ data, is_changeable: isChangeable }) {
  const id = newId("settings");
  const inputs = new Map(data.map((setting) => [setting.name, control(setting, isChangeable)]));
  const save = h("button", { type: "submit", class: "primary" }, "Apply");
  const form = h(
    "form",
    { class: "settings" },
    data.map((setting) => field(LABELS[setting.name] ?? setting.name, inputs.get(setting.name), inWords(setting))),
    isChangeable ? h("div", { class: "actions" }, save) : null,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(save, async () => {
      const wanted = Object.fromEntries(data.map((setting) => [setting.name, read(setting, inputs.get(setting.name).value)]).filter(([, value], i) => value !== data[i].value));
      const now = await patch("/v1/settings", wanted);
      now.data.forEach((setting, i) => {
        data[i] = setting;
        inputs.get(setting.name).value = setting.value;
      });
      say("Applied to all messages from now on, until the server stops.");
    });
  });
  return h(
    "section",
    { class: "card", "aria-labelledby": id },
    h("h2", { id }, "Settings"),
    h("p", { class: "hint" }, isChangeable ? ["They apply to everyone who uses this server, until it stops. “", h("code", {}, runnable("shepherd config set")), "” changes them for good."] : "A server with keys keeps the settings that it was started with."),
    form,
  );
}

/** What the label does not say: a help text begins with the setting in words, and after a ";" or ":" come its values. */
function inWords({ name, help, default: usual }) {
  const [, values = ""] = LABELS[name] ? (/^[^;:]*[;:] *(.+)$/s.exec(help) ?? []) : ["", help];
  return `${values ? `${values[0].toUpperCase()}${values.slice(1)}. ` : ""}Setting ${name}; default: ${usual}.`;
}

function control(setting, isChangeable) {
  const made = h("input", { type: "text", inputmode: "decimal", name: setting.name, autocomplete: "off", spellcheck: "false", readonly: !isChangeable });
  made.value = setting.value;
  return made;
}

/** A value as its setting has it: a number, or one of its words. */
function read(setting, text) {
  const trimmed = text.trim();
  return setting.choices.includes(trimmed) || trimmed === "" || Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed);
}
