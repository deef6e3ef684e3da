"""LlamaIndex with its client for OpenAI's protocol, and its agent."""

import asyncio
import json
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

SERVER, QUESTION, RESULT = (os.environ[name] for name in ("SERVER", "QUESTION", "RESULT"))
HELLO = [ChatMessage(role="user", content="Hello")]
llm = OpenAILike(
    model="default",
    api_base=f"{SERVER}/v1",
    api_key="none",
    is_chat_model=True,
    is_function_calling_model=True,
    max_retries=0,
)


def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return RESULT if city == "Paris" else "unknown"


async def ask_agent() -> str:
    """Let the agent call the tool and use its result."""
    return str(await FunctionAgent(tools=[get_weather], llm=llm).run(QUESTION))


found = {
    "chat.text": llm.chat(HELLO).message.content,
    "chat.stream": [part.delta for part in llm.stream_chat(HELLO) if part.delta],
    "chat.tools": asyncio.run(ask_agent()),
}
print(json.dumps(found))
