"""What the small model is trained to say, the program lets through."""

import re
from random import Random

import generator
import pytest
from items import Split

from shepherd.turn.small_model import Promise, Review
from shepherd.types import Fact, Message

FACTS = re.compile(r"\[facts: (.*?)\]")


# What a memory says is restated only if its sentence names the thing and its owner. Others are quoted.
@pytest.mark.parametrize(("job", "least"), [("facts", 35), ("notes", 40), ("context", 29), ("nothing", 40)])
def test_the_review_keeps_the_answers_of_the_training(job, least):
    kept = 0
    for seed in range(40):
        *before, (_, said), (_, reply) = generator.conversation(Random(seed), job, Split(plain=True))
        shown = FACTS.search(said)
        pairs = re.split(r", (?=[^,\]]*=)", shown[1]) if shown else []
        facts = [Fact(*pair.split("=", 1), 0, 0) for pair in pairs]
        messages = [Message(role.replace("earlier", "assistant"), text) for role, text in before]
        messages.append(Message("user", said.partition("\n\n")[0], sent=said))
        review = Review(messages, facts, Promise(stores=True))
        kept += review.feed(reply) + review.end("stop") == reply

    assert kept >= least
