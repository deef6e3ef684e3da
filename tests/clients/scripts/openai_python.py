"""OpenAI's library for Python: chat completions and responses."""

import json
import os

import openai

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": PARAMETERS}
HELLO = [{"role": "user", "content": "Hello"}]
client = openai.OpenAI(base_url=f"{SERVER}/v1", api_key="none", max_retries=0)


def weather(arguments: str) -> str:
    """Return what the tool finds."""
    return RESULT if json.loads(arguments) == {"city": "Paris"} else "unknown"


chat = client.chat.completions
found = {"chat.text": chat.create(model="default", messages=HELLO).choices[0].message.content}
chunks = chat.create(model="default", messages=HELLO, stream=True)
found["chat.stream"] = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
messages = [{"role": "user", "content": QUESTION}]
tools = [{"type": "function", "function": FUNCTION}]
asked = chat.create(model="default", messages=messages, tools=tools).choices[0].message
call = asked.tool_calls[0]
messages += [asked, {"role": "tool", "tool_call_id": call.id, "content": weather(call.function.arguments)}]
answered = chat.create(model="default", messages=messages, tools=tools)
found["chat.tools"] = answered.choices[0].message.content

found["responses.text"] = client.responses.create(model="default", input="Hello").output_text
events = client.responses.create(model="default", input="Hello", stream=True)
found["responses.stream"] = [event.delta for event in events if event.type == "response.output_text.delta"]
offered = [{"type": "function", "strict": True, **FUNCTION}]
first = client.responses.create(model="default", input=QUESTION, tools=offered)
called = next(item for item in first.output if item.type == "function_call")
output = {"type": "function_call_output", "call_id": called.call_id, "output": weather(called.arguments)}
second = client.responses.create(
    model="default", input=[output], tools=offered, previous_response_id=first.id
)
found["responses.tools"] = second.output_text
print(json.dumps(found))
