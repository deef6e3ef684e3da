// Vercel's AI SDK with its providers for OpenAI's responses, compatible servers, Anthropic and Ollama.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { createOllama } from "ollama-ai-provider-v2";
import { z } from "zod";

const { QUESTION, RESULT, SERVER } = process.env;
const models = {
  responses: createOpenAI({ baseURL: `${SERVER}/v1`, apiKey: "none" })("default"),
  compatible: createOpenAICompatible({ name: "shepherd", baseURL: `${SERVER}/v1`, supportsStructuredOutputs: true })("default"),
  anthropic: createAnthropic({ baseURL: `${SERVER}/v1`, apiKey: "none" })("default"),
  ollama: createOllama({ baseURL: `${SERVER}/api` })("default"),
};
const found = {};

const get_weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => (city === "Paris" ? RESULT : "unknown"),
});
for (const [name, model] of Object.entries(models)) {
  found[`${name}.text`] = (await generateText({ model, prompt: "Hello", maxRetries: 0 })).text;
  found[`${name}.stream`] = [];
  const failed = [];
  const streamed = streamText({ model, prompt: "Hello", maxRetries: 0, onError: ({ error }) => failed.push(error) });
  for await (const piece of streamed.textStream) found[`${name}.stream`].push(piece);
  if (failed.length) throw failed[0];
  const answered = await generateText({
    model,
    prompt: QUESTION,
    tools: { get_weather },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  });
  found[`${name}.tools`] = answered.text;
}
const person = z.object({ name: z.string(), age: z.number().int() });
const described = await generateText({
  model: models.compatible,
  prompt: "Describe a person.",
  output: Output.object({ schema: person }),
  maxRetries: 0,
});
found["compatible.person"] = described.output;
console.log(JSON.stringify(found));
