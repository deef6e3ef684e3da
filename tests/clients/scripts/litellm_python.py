"""LiteLLM, by three of the APIs."""

import json
import os

import litellm

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
HELLO = [{"role": "user", "content": "Hello"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": FUNCTION}]
ROUTES = {
    "openai": {"model": "openai/default", "api_base": f"{SERVER}/v1"},
    "anthropic": {"model": "anthropic/default", "api_base": SERVER, "max_tokens": 500},
    "ollama": {"model": "ollama_chat/default", "api_base": SERVER},
}
found = {}
for name, route in ROUTES.items():
    sent = {**route, "api_key": "none", "num_retries": 0}
    found[f"{name}.text"] = litellm.completion(messages=HELLO, **sent).choices[0].message.content
    chunks = litellm.completion(messages=HELLO, stream=True, **sent)
    found[f"{name}.stream"] = [text for chunk in chunks if (text := chunk.choices[0].delta.content)]
    messages = [{"role": "user", "content": QUESTION}]
    asked = litellm.completion(messages=messages, tools=TOOLS, **sent).choices[0].message
    call = asked.tool_calls[0]
    weather = RESULT if json.loads(call.function.arguments) == {"city": "Paris"} else "unknown"
    result = {"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": weather}
    answered = litellm.completion(messages=[*messages, asked, result], tools=TOOLS, **sent)
    found[f"{name}.tools"] = answered.choices[0].message.content
print(json.dumps(found))
