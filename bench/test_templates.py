"""Measure the text of a prompt with chat templates that read more than each message by itself.

continued   milliseconds to render a conversation with a new question, from the record of the turn before
whole       the same as a whole, as every other program does it
ratio       whole by continued; the least and the most of a few runs that take turns
prompt      milliseconds to make the prompt, with its token ids

The templates are small ones in the manner of known families, and one that looks back from each message.
Prompts are also made with one that writes the system prompt into the newest question, as Mistral Nemo's does,
and as a plain dialogue without control tokens, as RWKV's.

  python -m pytest bench/test_templates.py --benchmark-only -s
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.small import JUDGED, sized
from shepherd.inference.template import CHATML, GENERIC, ChatTemplate
from shepherd.inference.template_journal import Journal
from shepherd.inference.tokenization import open_tokenizer
from shepherd.inference.transcript import Transcript
from shepherd.types import Message
from tests import models
from tests.inference.manners import MANNERS

MESSAGES = sized(2_000, 40)
TURNS = sized(8, 3)
RUNS = sized(2, 1)
LOOKING_BACK = (
    "{% for m in messages %}{% set p = namespace(role=none, found=false) %}"
    "{% for j in range(loop.index0 - 1, -1, -1) %}{% if not p.found %}{% if messages[j].role != 'tool' %}"
    "{% set p.role = messages[j].role %}{% set p.found = true %}{% endif %}{% endif %}{% endfor %}"
    "<{{ m.role }} after {{ p.role }}>{{ m.content }}</s>{% endfor %}"
)
TEMPLATES = {
    **{name: MANNERS[name].template for name in ("qwen", "llama3", "mistral", "gemma", "harmony")},
    "looking back": LOOKING_BACK,
}
SYSTEM_LAST = (
    "{% for m in messages[1:] %}{% if m.role == 'user' %}{{ '<|im_start|>' }}"
    "{% if loop.last %}{{ messages[0].content + '\n\n' }}{% endif %}{{ m.content + '<|im_end|>' }}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
)
PROMPTS = {**TEMPLATES, "chatml": CHATML, "system prompt last": SYSTEM_LAST, "plain dialogue": GENERIC}
LEAST_RATIO, MOST_MS = 5.0, 0.5
MOST_PROMPT_MS = 0.5


def _run(template: ChatTemplate) -> tuple[float, float]:
    """Milliseconds of a turn, continued and as a whole; the least of many."""
    forms = []
    for i in range(MESSAGES // 2):
        forms += [
            {"role": "user", "content": f"what is {i}?"},
            {"role": "assistant", "content": f"it is {i}"},
        ]
    journal = Journal()
    times: dict[bool, list[float]] = {True: [], False: []}
    for i in range(TURNS):
        forms = [*forms, {"role": "user", "content": f"so {i}?"}]
        texts = []
        for is_continued in (True, False) if i >= TURNS - 2 else (True,):
            started = time.thread_time()
            texts.append(
                template.render(forms, add_generation_prompt=True, journal=journal if is_continued else None)
            )
            times[is_continued].append(1e3 * (time.thread_time() - started))
        assert len(set(texts)) == 1
        forms.append({"role": "assistant", "content": "yes"})
    return min(times[True]), min(times[False], default=0.0)


@pytest.mark.parametrize("name", TEMPLATES)
def test_rendering_costs_what_is_new(benchmark, name: str) -> None:
    template = ChatTemplate(TEMPLATES[name], eos="</s>")
    runs = [benchmark.pedantic(_run, args=(template,), rounds=1)]
    runs += [_run(template) for _ in range(RUNS)]
    ratios = [whole / continued for continued, whole in runs]
    continued, whole = min(runs)
    print(
        f"\n{name}, {MESSAGES:,} messages: {continued:.3f} ms continued, {whole:.2f} ms as a whole,"
        f" ratio {min(ratios):.0f} to {max(ratios):.0f}"
    )
    benchmark.extra_info.update(continued_ms=continued, whole_ms=whole, ratio=min(ratios))
    assert (continued < MOST_MS and min(ratios) > LEAST_RATIO) or not JUDGED


def _prompt_ms(path: Path, template: ChatTemplate) -> float:
    """Milliseconds of a turn's prompt, the least of many."""
    messages = [Message("system", "you are a helpful assistant. " * 16)]
    for i in range(MESSAGES // 2):
        messages += [Message("user", f"what is {i}?"), Message("assistant", f"it is {i}")]
    times = []
    with open_tokenizer(path) as vocabulary:
        transcript = Transcript(vocabulary, template)
        for i in range(2 * TURNS):
            messages.append(Message("user", f"so {i}?"))
            started = time.thread_time()
            prompt = transcript.prompt(messages)
            times.append(1e3 * (time.thread_time() - started))
            messages.append(Message("assistant", "yes"))
        assert prompt == Transcript(vocabulary, template).prompt(messages[:-1])
    return min(times[3:])


@pytest.mark.parametrize("name", PROMPTS)
def test_prompt_costs_what_is_new(benchmark, tmp_path: Path, name: str) -> None:
    controls = sorted({control for manner in MANNERS.values() for control in manner.controls})
    models.llama(tmp_path / "model.gguf", controls=controls)
    template = ChatTemplate(PROMPTS[name], eos="</s>")
    taken = benchmark.pedantic(_prompt_ms, args=(tmp_path / "model.gguf", template), rounds=1)
    print(f"\n{name}, {MESSAGES:,} messages: {taken:.3f} ms")
    benchmark.extra_info.update(prompt_ms=taken)
    assert taken < MOST_PROMPT_MS or not JUDGED
