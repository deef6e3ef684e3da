"""Instructor: answers in a form, as a call of a tool and by a schema, whole and while they come."""

import json
import os

import instructor
import openai
from pydantic import BaseModel

SERVER = os.environ["SERVER"]
PROMPT = [{"role": "user", "content": "Describe a person."}]


class Person(BaseModel):
    """A person."""

    name: str
    age: int


client = openai.OpenAI(base_url=f"{SERVER}/v1", api_key="none", max_retries=0)
found = {}
for name, mode in (("tools", instructor.Mode.TOOLS), ("schema", instructor.Mode.JSON_SCHEMA)):
    patched = instructor.from_openai(client, mode=mode)
    asked = {"model": "default", "response_model": Person, "messages": PROMPT, "max_retries": 0}
    person = patched.chat.completions.create(**asked)
    found[f"{name}.person"] = person.model_dump()
    parts = patched.chat.completions.create_partial(**asked)
    found[f"{name} in a stream.person"] = list(parts)[-1].model_dump()
print(json.dumps(found))
