"""Pydantic AI: an agent over chat completions and one over responses."""

import asyncio
import json
import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
provider = OpenAIProvider(base_url=f"{SERVER}/v1", api_key="none")
found = {}


def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return RESULT if city == "Paris" else "unknown"


async def stream(agent: Agent) -> list[str]:
    """Return the pieces of an answer."""
    async with agent.run_stream("Hello") as answer:
        return [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]


for name, kind in (("chat", OpenAIChatModel), ("responses", OpenAIResponsesModel)):
    model = kind("default", provider=provider)
    found[f"{name}.text"] = Agent(model).run_sync("Hello").output
    found[f"{name}.stream"] = asyncio.run(stream(Agent(model)))
    found[f"{name}.tools"] = Agent(model, tools=[get_weather]).run_sync(QUESTION).output
print(json.dumps(found))
