"""Anthropic's library for Python."""

import json
import os

import anthropic
from anthropic import beta_tool

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
HELLO = [{"role": "user", "content": "Hello"}]
client = anthropic.Anthropic(base_url=SERVER, api_key="none", max_retries=0)


@beta_tool
def get_weather(city: str) -> str:
    """
    Return the weather of a city.

    Args:
        city: its name
    """
    return RESULT if city == "Paris" else "unknown"


whole = client.messages.create(model="default", max_tokens=500, messages=HELLO)
found = {"messages.text": whole.content[0].text}
with client.messages.stream(model="default", max_tokens=500, messages=HELLO) as stream:
    found["messages.stream"] = list(stream.text_stream)
question = [{"role": "user", "content": QUESTION}]
runner = client.beta.messages.tool_runner(
    model="default", max_tokens=500, messages=question, tools=[get_weather]
)
found["messages.tools"] = runner.until_done().content[0].text
print(json.dumps(found))
