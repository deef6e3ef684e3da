// Ollama's library for Node.
import { Ollama } from "ollama";

const QUESTION = process.env.QUESTION;
const RESULT = process.env.RESULT;
const client = new Ollama({ host: process.env.SERVER });
const found = {};

const hello = { model: "default", messages: [{ role: "user", content: "Hello" }], options: { num_predict: 500 } };
const whole = await client.chat(hello);
found["chat.text"] = whole.message.content;
found["chat.stream"] = [];
for await (const part of await client.chat({ ...hello, stream: true })) {
  if (part.message.content) found["chat.stream"].push(part.message.content);
}
const messages = [{ role: "user", content: QUESTION }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", description: "The weather of a city", parameters } }];
const asked = await client.chat({ model: "default", messages, tools });
const { name, arguments: given } = asked.message.tool_calls[0].function;
messages.push(asked.message);
messages.push({ role: "tool", tool_name: name, content: given.city === "Paris" ? RESULT : "unknown" });
const answered = await client.chat({ model: "default", messages, tools });
found["chat.tools"] = answered.message.content;
const completed = await client.generate({ model: "default", prompt: "Hello" });
found["generate.text"] = completed.response;
console.log(JSON.stringify(found));
