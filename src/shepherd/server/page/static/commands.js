// Commands for a terminal, as they can be run on the server's computer, where PATH may not have the program.

const PROGRAM = document.querySelector("meta[name=program]").content;
const COMMANDS = [
  ...["apikey", "bench", "chat", "completion", "config", "context", "conversations", "decrypt", "demo", "doctor"],
  ...["encrypt", "eval", "facts", "fragment", "knowledge", "mcp", "memory", "model", "provider", "serve", "sync"],
  ...["template", "tools", "trace", "tui"],
];
const NAMED = new RegExp(`(?<![\\w./-])shepherd(?= (?:-|(?:${COMMANDS.join("|")})\\b))`, "g");

/** The text with the program of the server in place of `shepherd` before a command. */
export function runnable(text) {
  return text.replace(NAMED, () => PROGRAM);
}
