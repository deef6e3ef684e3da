"""Errors on their way to another process."""

from __future__ import annotations

import inspect
import pickle

from shepherd import errors
from shepherd.errors import ShepherdError


def test_every_error_can_be_sent_to_another_process() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ShepherdError)
    ]
    for kind in kinds:
        parameters = inspect.signature(kind).parameters.values()
        options = {one.name: f"its {one.name}" for one in parameters if one.kind is one.KEYWORD_ONLY}
        error = kind("the message", **options)

        other = pickle.loads(pickle.dumps(error))

        assert (type(other), str(other), vars(other)) == (kind, "the message", vars(error))
        assert options.items() <= vars(other).items()
