// Anthropic's library for Node.
import Anthropic from "@anthropic-ai/sdk";

const QUESTION = process.env.QUESTION;
const RESULT = process.env.RESULT;
const client = new Anthropic({ baseURL: process.env.SERVER, apiKey: "none", maxRetries: 0 });
const found = {};

const hello = { model: "default", max_tokens: 500, messages: [{ role: "user", content: "Hello" }] };
const whole = await client.messages.create(hello);
found["messages.text"] = whole.content[0].text;
found["messages.stream"] = [];
const stream = client.messages.stream(hello).on("text", (piece) => found["messages.stream"].push(piece));
await stream.finalMessage();
const answer = await client.beta.messages.toolRunner({
  model: "default",
  max_tokens: 500,
  messages: [{ role: "user", content: QUESTION }],
  tools: [{
    type: "custom",
    name: "get_weather",
    description: "The weather of a city",
    input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    parse: (input) => input,
    run: ({ city }) => (city === "Paris" ? RESULT : "unknown"),
  }],
});
found["messages.tools"] = answer.content[0].text;
console.log(JSON.stringify(found));
