// While a message is written, the server's model reads what comes before it: see POST /v1/chat/read_ahead.

import { post } from "./api.js";

const PAUSE_MS = 400;
// A message that is so much longer may let more turns leave the window.
const STEP = 32;

/** Ask for it in pauses; `request()` is what would be asked for now, or null. */
export function readsAhead(input, request) {
  let timer = 0;
  let told = { about: "", due: 0 };
  const ask = async () => {
    const body = input.value.trim() && request();
    if (!body) return;
    const about = JSON.stringify([body.model, body.session, body.memory, body.messages.length]);
    if (about === told.about && input.value.length < told.due) return;
    told = { about, due: input.value.length + STEP };
    // The answer comes without it, too.
    const answer = await post("/v1/chat/read_ahead", body).catch(() => null);
    if (!answer?.reading && told.about === about) told.due = Infinity;
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  });
}
