"""Eight users who talk to one server at once, each with a life of his own, and what must be true afterwards.

Nothing is faked and nobody waits for anything: a user tells something in every fourth turn and asks for
it in the others, over HTTP, with the whole conversation in each request, as fast as the server answers.
What was told is learned by the server's own model meanwhile. The bench asks for 200 turns, a test for a
few.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from shepherd.memory import Memory
from tests.server.processes import ServerProcess

__all__ = ["User", "ask_once_more", "check", "eight_users", "talk", "wait_until_learned"]

MAX_TOKENS = 24
# Told by each: a sentence, and the question for it. The last two correct the first city and job.
_TELLINGS = (
    ("My name is {}.", "What is my name?"),
    ("I live in {}.", "Where do I live?"),
    ("My dog is called {}.", "What is my dog called?"),
    ("I work as a {}.", "What is my job?"),
    ("My sister is called {}.", "What is my sister called?"),
    ("I moved to {}.", "Where do I live?"),
)
# Invented: no model says such a word that has not read it, so that one in another's conversation is a leak,
# wherever it stands. The small model extracts 98 of 100 such words, these among them.
_LIVES = (
    ("Ritivun", "Zovesar", "Dinemun", "rebemir", "Zofafux", "Nefazar"),
    ("Vefekir", "Pefemin", "Lofekal", "kurarin", "Kizinir", "Tizobus"),
    ("Loranar", "Redezol", "Pipivon", "rizibon", "Gipulel", "Kudisil"),
    ("Fasetis", "Fadupon", "Gulinor", "bavoler", "Tufodes", "Lebokes"),
    ("Reponis", "Kinofas", "Zufozir", "dokuvux", "Lavitun", "Vilutis"),
    ("Kileras", "Pilinix", "Silisis", "lezolix", "Fufezis", "Katofux"),
    ("Pokupin", "Gerorer", "Vesaner", "bedifor", "Pamolox", "Dugetin"),
    ("Lokozax", "Lapukal", "Pulukir", "mozusul", "Nefumus", "Geralas"),
)
_MOVED_FROM, _MOVED_TO = 1, 5


@dataclass
class User:
    """One client, which keeps its conversation; `re_read` counts tokens that were read though not new."""

    name: str
    life: tuple[str, ...]
    messages: list[dict[str, str]] = field(default_factory=list)
    n_told: int = 0
    turns: int = 0
    evictions: int = 0
    new: int = 0
    re_read: int = 0
    right: int = 0
    seconds: list[float] = field(default_factory=list)
    _seen: int = 0

    def say(self, client: httpx.Client, turn: int) -> None:
        """One turn: something new while there is, else a question for what was told."""
        if turn % 4 == 0 and self.n_told < len(self.life):
            self.tell(client)
            return
        self.ask(client, turn % self.n_told)

    def tell(self, client: httpx.Client) -> None:
        """What has not been told yet."""
        sentence, _ = _TELLINGS[self.n_told]
        self._turn(client, sentence.format(self.life[self.n_told]))
        self.n_told += 1

    def ask(self, client: httpx.Client, which: int) -> None:
        """For something that was told; whether the answer has it is counted."""
        has_moved = which == _MOVED_FROM and self.n_told > _MOVED_TO
        answer = self._turn(client, _TELLINGS[which][1])
        self.right += self.life[_MOVED_TO if has_moved else which] in answer

    def facts(self) -> set[str]:
        """The values that are known of him once all that was told is learned."""
        has_moved = self.n_told > _MOVED_TO
        return {
            word for i, word in enumerate(self.life[: self.n_told]) if not (has_moved and i == _MOVED_FROM)
        }

    def _turn(self, client: httpx.Client, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        body = {"model": "default", "user": self.name, "messages": self.messages, "max_tokens": MAX_TOKENS}
        began = time.perf_counter()
        answer = client.post("/v1/chat/completions", json={**body, "temperature": 0})
        self.seconds.append(time.perf_counter() - began)
        assert answer.status_code == 200, answer.text
        reply = answer.json()
        self._count(reply["usage"])
        said: str = reply["choices"][0]["message"]["content"]
        self.messages.append({"role": "assistant", "content": said})
        return said

    def _count(self, usage: dict[str, Any]) -> None:
        prompt, cached = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
        self.turns += 1
        if prompt < self._seen:
            self.evictions += 1  # the prefix has moved, and what stays is read again once
        elif self._seen:
            self.new += prompt - self._seen
            # The last token of an answer is sampled, and never read by its own turn.
            self.re_read += max(0, (prompt - cached) - (prompt - self._seen) - 1)
        self._seen = prompt + usage["completion_tokens"]


def eight_users() -> list[User]:
    """All of them, before they have said a word."""
    return [User(life[0].lower(), life) for life in _LIVES]


def talk(server: ServerProcess, users: list[User], turns: int) -> None:
    """All of them at once, so many turns each."""

    def one(user: User) -> None:
        with server.http() as client:
            for turn in range(turns):
                user.say(client, turn)

    _together(users, one)


def ask_once_more(server: ServerProcess, users: list[User]) -> None:
    """Each asks for everything that he told, all at once."""

    def one(user: User) -> None:
        with server.http() as client:
            for which in range(user.n_told):
                user.ask(client, which)

    _together(users, one)


def wait_until_learned(server: ServerProcess, users: list[User], within_s: float) -> None:
    """Until nothing is left to be learned."""
    deadline = time.monotonic() + within_s
    with server.http() as client:
        for user in users:
            while jobs := client.get("/v1/extraction/jobs", params={"user": user.name}).json()["data"]:
                assert time.monotonic() < deadline, f"{user.name}: {len(jobs)} jobs are left"
                time.sleep(0.05)


def check(memory: Memory, users: list[User]) -> dict[str, int]:
    """Each user's facts are his own and complete, and no word in his conversation is another's; their counts.

    After `wait_until_learned` and `ask_once_more`: those last messages have his facts, all of them.
    """
    words = {user.name: set(user.life) for user in users}
    n_injected = n_messages = 0
    for user in users:
        others = {word for other, told in words.items() if other != user.name for word in told}
        facts = {fact.value for fact in memory.get_all_facts(user.name)}
        assert facts >= user.facts(), (user.name, facts)
        assert not facts & others, (user.name, facts)
        assert not (user.n_told > _MOVED_TO and user.life[_MOVED_FROM] in facts), (user.name, facts)
        sent = _appended(memory, user)
        for text in [*sent, *(message["content"] for message in user.messages)]:
            assert not any(word in text for word in others), (user.name, text)
        for tail in sent[-user.n_told :]:
            assert all(word in tail for word in user.facts()), (user.name, tail)
        assert memory.extraction.stats(user.name).dead == 0
        n_injected += sum(map(bool, sent))
        n_messages += len(sent)
    return {"messages": n_messages, "messages_with_memory": n_injected}


def _appended(memory: Memory, user: User) -> list[str]:
    """What each of his messages got, in the order in which they were said."""
    sessions = sorted(memory.list_sessions(user.name), key=lambda session: session.id)
    assert len(sessions) == 1, f"{user.name}: one conversation became {len(sessions)}"
    messages = memory.load_session(sessions[0].id, user.name)
    return [m.sent.removeprefix(m.raw) for m in messages if m.role == "user"]


def _together(users: list[User], what: Any) -> None:
    with ThreadPoolExecutor(len(users)) as pool:
        list(pool.map(what, users))
