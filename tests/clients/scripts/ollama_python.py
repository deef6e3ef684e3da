"""Ollama's library for Python."""

import json
import os

import ollama

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
HELLO = [{"role": "user", "content": "Hello"}]
client = ollama.Client(SERVER)


def get_weather(city: str) -> str:
    """
    Return the weather of a city.

    Args:
        city: its name
    """
    return RESULT if city == "Paris" else "unknown"


found = {"chat.text": client.chat("default", HELLO).message.content}
parts = client.chat("default", HELLO, stream=True)
found["chat.stream"] = [part.message.content for part in parts if part.message.content]
messages = [{"role": "user", "content": QUESTION}]
asked = client.chat("default", messages, tools=[get_weather]).message
call = asked.tool_calls[0].function
messages += [asked, {"role": "tool", "tool_name": call.name, "content": get_weather(**call.arguments)}]
found["chat.tools"] = client.chat("default", messages, tools=[get_weather]).message.content
found["generate.text"] = client.generate("default", "Hello").response
print(json.dumps(found))
