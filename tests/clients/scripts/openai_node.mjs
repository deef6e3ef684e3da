// OpenAI's library for Node: chat completions and responses.
import OpenAI from "openai";

const QUESTION = process.env.QUESTION;
const RESULT = process.env.RESULT;
const client = new OpenAI({ baseURL: `${process.env.SERVER}/v1`, apiKey: "none", maxRetries: 0 });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const found = {};

const hello = [{ role: "user", content: "Hello" }];
const whole = await client.chat.completions.create({ model: "default", messages: hello });
found["chat.text"] = whole.choices[0].message.content;
found["chat.stream"] = [];
for await (const chunk of await client.chat.completions.create({ model: "default", messages: hello, stream: true })) {
  const piece = chunk.choices[0]?.delta?.content;
  if (piece) found["chat.stream"].push(piece);
}
const runner = client.chat.completions.runTools({
  model: "default",
  messages: [{ role: "user", content: QUESTION }],
  tools: [{
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters,
      parse: JSON.parse,
      function: ({ city }) => (city === "Paris" ? RESULT : "unknown"),
    },
  }],
});
found["chat.tools"] = await runner.finalContent();

const first = await client.responses.create({ model: "default", input: "Hello" });
found["responses.text"] = first.output_text;
found["responses.stream"] = [];
for await (const event of await client.responses.create({ model: "default", input: "Hello", stream: true })) {
  if (event.type === "response.output_text.delta") found["responses.stream"].push(event.delta);
}
const tools = [{ type: "function", name: "get_weather", description: "The weather of a city", parameters, strict: true }];
const asked = await client.responses.create({ model: "default", input: QUESTION, tools });
const call = asked.output.find((item) => item.type === "function_call");
const output = JSON.parse(call.arguments).city === "Paris" ? RESULT : "unknown";
const answered = await client.responses.create({
  model: "default",
  tools,
  previous_response_id: asked.id,
  input: [{ type: "function_call_output", call_id: call.call_id, output }],
});
found["responses.tools"] = answered.output_text;
console.log(JSON.stringify(found));
