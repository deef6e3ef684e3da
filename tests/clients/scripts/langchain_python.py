"""LangChain's client for OpenAI's protocol, and its agent."""

import json
import os

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
found = {}


@tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return RESULT if city == "Paris" else "unknown"


for name, uses_responses in (("chat", False), ("responses", True)):
    chat = ChatOpenAI(
        model="default",
        base_url=f"{SERVER}/v1",
        api_key="none",
        max_retries=0,
        use_responses_api=uses_responses,
    )
    found[f"{name}.text"] = chat.invoke("Hello").text
    found[f"{name}.stream"] = [piece.text for piece in chat.stream("Hello") if piece.text]
    bound = chat.bind_tools([get_weather])
    messages = [HumanMessage(QUESTION)]
    asked = bound.invoke(messages)
    messages += [asked, *(get_weather.invoke(call) for call in asked.tool_calls)]
    found[f"{name}.tools"] = bound.invoke(messages).text
print(json.dumps(found))
