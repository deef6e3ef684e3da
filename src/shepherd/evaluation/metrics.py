"""Measures of a ranking, how sure they are, and whether one run is better than another."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Comparison", "Interval", "compare", "interval", "ndcg_at", "recall_at", "reciprocal_rank"]

_RESAMPLES = 2000
_SEED = 20_240_601


def recall_at(k: int, found: Sequence[str], evidence: Collection[str]) -> float:
    """Share of the evidence among the first k."""
    return sum(one in evidence for one in found[:k]) / len(evidence)


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """1 / the place of the first evidence; 0 without any."""
    return next((1.0 / place for place, one in enumerate(found, 1) if one in evidence), 0.0)


def ndcg_at(k: int, found: Sequence[str], evidence: Collection[str]) -> float:
    """Discounted gain of the first k over that of the best order; each evidence counts one."""
    gain = sum(1.0 / math.log2(place + 1) for place, one in enumerate(found[:k], 1) if one in evidence)
    best = sum(1.0 / math.log2(place + 1) for place in range(1, min(k, len(evidence)) + 1))
    return gain / best


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and where 95 of 100 means of resampled questions lie."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean difference over the same questions, and how often chance alone gives one as large."""

    difference: Interval
    p_value: float


def interval(values: Sequence[float]) -> Interval:
    """Percentile bootstrap over questions; the same values give the same interval."""
    import numpy as np

    sample = np.asarray(values, float)
    rng = np.random.default_rng(_SEED)
    means = np.array([sample[rng.integers(0, len(sample), len(sample))].mean() for _ in range(_RESAMPLES)])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(sample.mean()), float(low), float(high))


def compare(values: Sequence[float], baseline: Sequence[float]) -> Comparison:
    """Paired: both of the same questions, in the same order. The test flips signs at random, two-sided."""
    import numpy as np

    differences = np.asarray(values, float) - np.asarray(baseline, float)
    rng = np.random.default_rng(_SEED)
    observed = abs(differences.mean())
    signs = rng.integers(0, 2, (_RESAMPLES, len(differences)), np.int8) * 2 - 1
    extreme = int((np.abs((signs * differences).mean(axis=1)) >= observed - 1e-12).sum())
    return Comparison(interval(differences.tolist()), (extreme + 1) / (_RESAMPLES + 1))
