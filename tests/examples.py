"""Examples of Hypothesis: the same ones in every run, or many random ones with `tools/test --deep`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

__all__ = ["DEEP", "examples", "register_profiles"]

DEEP = "deep"
_FIXED = "fixed"
_N_EXAMPLES = 100
_TIMES_AS_MANY = 20


def examples(count: int) -> int:
    """Return `count`, or many times as many with --deep: for `settings(max_examples=…)`."""
    return count * _TIMES_AS_MANY if _is_deep() else count


def register_profiles() -> None:
    """Load the profile with fixed examples, and register the one that `--hypothesis-profile=deep` loads."""
    # The time that an example takes depends on the machine's load.
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(_FIXED, untimed, derandomize=True, database=None, max_examples=_N_EXAMPLES)
    settings.register_profile(
        DEEP,
        untimed,
        database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
        max_examples=_N_EXAMPLES * _TIMES_AS_MANY,
        print_blob=True,
    )
    settings.load_profile(_FIXED)
    # Hypothesis also draws constants out of all modules that happen to be imported, so that the examples of
    # one test would depend on the tests before it. To read them takes each process four seconds.
    constants = getattr(providers, "_get_local_constants", None)
    if constants is not None:
        none = providers.Constants()
        providers._get_local_constants = lambda: constants() if _is_deep() else none


def _is_deep() -> bool:
    return settings.get_current_profile_name() == DEEP
