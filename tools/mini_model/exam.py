"""Ask the bundled model, or another file, about a whole memory: `python exam.py`, `--model FILE --show`.

Through the real program: facts are set, notes imported and memories stored in an empty home folder, and
each question is a request of its own to `shepherd serve`. `exam.json` was written by hand; the generator
has nothing of it. Prints how many answers of each group are right, and how many are garbled: they repeat
themselves, are longer than 60 words, or have a word that is neither in what was stored, nor in the
question, nor in a reply that the model was taught. Ends with 1 below 90 % in a group, or with a garbled
answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import smalltalk
from relations import RELATIONS

__all__ = ["Result", "garbled", "is_right", "vocabulary"]

HERE = Path(__file__).parent
USER = "exam"
LEAST = 90  # percent in each group
LONGEST = 60  # words of an answer
# The product says these itself where it does not trust the model (shepherd.turn.small_model), and quotes.
SPARE = (
    "Your notes say: You said: I don't know for sure, but your document says: but you told me earlier said "
    "I'll keep that in mind for this conversation That looks like a secret, so learn it; only has it "
    "I'll remember that, but not: it may be a code, so couldn't read it and later "
    "This is what I know I'm only the bundled demo model. "
    "For a full, run shepherd -m hf:Qwen/Qwen3-4B-GGUF:Q4_K_M"
)
# (group, question, what the answer has to hold); an empty list asks for "not known", see is_right.
Question = tuple[str, str, list[str]]
Result = tuple[Question, str, bool, bool]
WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
NOT_KNOWN = re.compile(r"nothing stored|don't know|do not know|not told|no information", re.IGNORECASE)


def questions(exam: dict[str, Any]) -> Iterator[Question]:
    """Every question with its group and what has to be in the answer."""
    yield from (("facts", asked, [wanted]) for asked, wanted in exam["fact_questions"])
    for _, asked_here in exam["notes"].values():
        yield from (("notes", asked, [wanted]) for asked, wanted in asked_here)
    yield from (("memories", asked, [wanted]) for asked, wanted in exam["memory_questions"])
    yield from (("several", asked, wanted) for asked, wanted in exam["several"])
    yield from (("unknown", asked, []) for asked in exam["unknown"])
    yield from (("told", said, []) for said in exam["told"])
    yield from (("beyond", said, []) for said in exam["beyond"])


def is_right(question: Question, answer: str, exam: dict[str, Any]) -> bool:
    """Judge an answer that is not garbled."""
    group, _, wanted = question
    folded = answer.casefold()
    if group == "unknown":
        told = any(holds(folded, value) for value in exam["facts"].values())
        return NOT_KNOWN.search(answer) is not None and not told
    if group == "told":
        is_noted = answer.startswith(("Nice", "I'll remember that."))
        return is_noted and not any(holds(folded, v) for v in exam["facts"].values())
    if group == "beyond":
        return "and can't help with that" in answer
    return all(holds(folded, value) for value in wanted)


def holds(folded: str, value: str) -> bool:
    """True if the value stands in the text and is no part of a longer word or number."""
    return re.search(rf"(?<!\w){re.escape(value.casefold())}(?!\d)", folded) is not None


def vocabulary(exam: dict[str, Any]) -> set[str]:
    """Words that any answer may have: those of everything stored, and of the taught replies."""
    replies = [relation.answer for relation in RELATIONS]
    replies += [
        getattr(smalltalk, name) for name in smalltalk.__all__ if name.isupper() and name != "SMALL_TALK"
    ]
    stored = json.dumps({name: exam[name] for name in ("facts", "notes", "memories")}, ensure_ascii=False)
    texts = [*replies, stored.replace("\\n", " "), SPARE, *(key.replace("_", " ") for key in exam["facts"])]
    return {word.casefold() for text in texts for word in WORD.findall(text)}


def garbled(answer: str, question: str, known: set[str]) -> bool:
    """True for an answer that repeats itself, does not end, or has words from nowhere."""
    words = answer.split()
    threes = [tuple(words[place : place + 3]) for place in range(len(words) - 2)]
    if not words or len(words) > LONGEST or "\ufffd" in answer:
        return True
    if any(threes.count(three) > 2 for three in set(threes)):
        return True
    own = {word.casefold() for word in WORD.findall(question)}
    return any(word.casefold() not in known | own for word in WORD.findall(answer))


@contextmanager
def server(exam: dict[str, Any], program: str, model: str) -> Iterator[str]:
    """The address of a server with everything in its memory."""
    with tempfile.TemporaryDirectory() as home, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        folders = {f"XDG_{name}_HOME": f"{home}/{name}" for name in ("DATA", "CONFIG", "CACHE", "STATE")}
        env = {**os.environ, **folders, "HOME": home}

        def run(*words: str) -> None:
            subprocess.run([program, *words], env=env, check=True, stdout=subprocess.DEVNULL)

        notes = Path(home, "notes")
        notes.mkdir()
        for name, (text, _) in exam["notes"].items():
            (notes / name).write_text(text, encoding="utf-8")
        for key, value in exam["facts"].items():
            run("facts", "set", key, value, "--user", USER)
        run("knowledge", "import", str(notes), "--user", USER)
        chosen = ["-m", model] if model else []
        command = [program, "serve", "--port", str(port), *chosen]
        log = Path(home, "server.log")
        with (
            log.open("wb") as said,  # no pipe: nobody reads it, and a full one stops the server
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=said) as process,
        ):
            address = f"http://127.0.0.1:{port}"
            try:
                wait_for(address, process, log)
                for question, answer in exam["memories"]:
                    call(address, f"/v1/memory?user={USER}", {"question": question, "answer": answer})
                yield address
            finally:
                process.terminate()


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the server answers. Raises RuntimeError with what it printed when it ended instead."""
    for _ in range(300):
        try:
            call(address, "/health")
            return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError(f"shepherd serve ended: {log.read_text(encoding='utf-8')}") from None
            time.sleep(0.1)
    raise RuntimeError("shepherd serve does not answer")


def call(address: str, path: str, body: Any = None) -> Any:
    """The parsed answer of the server; posts if there is a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        text = response.read()
    return json.loads(text) if text else None


def examine(exam: dict[str, Any], program: str, model: str) -> list[Result]:
    """Every question, its answer, whether that is right, and whether it is garbled."""
    known = vocabulary(exam)
    results = []
    with server(exam, program, model) as address:
        for question in questions(exam):
            said = {"role": "user", "content": question[1]}
            body = {"model": "default", "user": USER, "messages": [said], "max_tokens": 120, "temperature": 0}
            reply = call(address, "/v1/chat/completions", body)
            answer = reply["choices"][0]["message"]["content"]
            bad = garbled(answer, question[1], known)
            results.append((question, answer, not bad and is_right(question, answer, exam), bad))
    return results


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="", help="a GGUF file instead of the bundled model")
    parser.add_argument("--exam", type=Path, default=HERE / "exam.json")
    parser.add_argument("--program", default=str(Path(sys.executable).with_name("shepherd")))
    parser.add_argument("--show", action="store_true", help="print what was answered wrongly")
    parser.add_argument("--report", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    exam = json.loads(options.exam.read_text(encoding="utf-8"))
    results = examine(exam, options.program, options.model)
    counts: dict[str, list[int]] = {}
    for (group, asked, _), answer, right, bad in results:
        count = counts.setdefault(group, [0, 0, 0])
        count[0] += right
        count[1] += 1
        count[2] += bad
        if options.show and not right:
            print(f"{group}{' (garbled)' if bad else ''} | {asked} | {answer}")
    for group, (right, total, bad) in counts.items():
        print(f"{group:9} {right:3} of {total:3} right ({100 * right / total:3.0f} %), {bad} garbled")
    bad = sum(count[2] for count in counts.values())
    print(f"all       {sum(c[0] for c in counts.values()):3} of {len(results):3} right, {bad} garbled")
    if options.report:
        options.report.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    return int(bad > 0 or any(100 * right < LEAST * total for right, total, _ in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
