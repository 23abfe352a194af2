"""Tests of hypotheses, their power and level: parts of ``python -m benchmarks unsupervised``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from bochner import independence_test, two_sample_test
from runner import SLOW, cost, repeats, size
from unsupervised_data import MILLION, blobs, dependent, normal_laws
from unsupervised_lines import Line, line, mean
from unsupervised_peers import hyppo_test, linear_time_mmd

LEVEL_DRAWS = 10_000 if SLOW else 2000


def two_samples() -> list[Line]:
    """Two patterns of 25 blobs: round ones, stretched ones."""
    own, theirs, costs = [], [], []
    for seed in range(repeats(200)):
        rng = np.random.default_rng(1000 + seed)
        X, Y = blobs(rng, 500, 1.0), blobs(rng, 500, 6.0)
        found, *spent = cost(partial(two_sample_test, X, Y, random_state=seed))
        costs.append(spent)
        own.append(found.p_value <= 0.05)
        theirs.append(linear_time_mmd(X, Y) <= 0.05)
    return [
        line(
            "two samples, blobs, n = 500: power at 5 %",
            mean(own, 2),
            costs,
            reference=f"linear-time MMD {mean(theirs, 2)}",
            goal=">= .85",
            reached=np.mean(own) >= 0.85,
            earlier="features' MMD .18",
        )
    ]


def level(what: str, test: Callable[[np.random.Generator, int], float]) -> list[Line]:
    """How often samples are told apart, or tables found to depend, that are not and do not."""
    low = [100.0 * (test(np.random.default_rng(seed), seed) <= 0.05) for seed in range(repeats(LEVEL_DRAWS))]
    share, error = np.mean(low), 100 * np.sqrt(0.05 * 0.95 / len(low))
    within = 0.5 if SLOW else 2 * error
    return [
        line(
            f"{what}: level at 5 %, {len(low):,} draws",
            f"{share:.2f} ± {error:.2f} %",
            goal="5 ± .5 % over 10,000 draws" + ("" if SLOW else "; here two standard errors"),
            reached=abs(share - 5) <= within,
        )
    ]


def same_law(rng: np.random.Generator, seed: int) -> float:
    """p-value of two samples of one distribution."""
    X, Y = rng.standard_normal((40, 3)), rng.standard_normal((60, 3))
    return two_sample_test(X, Y, n_permutations=199, n_components=60, random_state=seed).p_value


def no_dependence(rng: np.random.Generator, seed: int) -> float:
    """p-value of independent tables."""
    X, y = rng.standard_normal((50, 2)), rng.exponential(size=50)
    return independence_test(X, y, n_permutations=199, n_components=40, random_state=seed).p_value


def independence(name: str) -> list[Line]:
    """Power and time against hyppo's test by HSIC, with its approximate distribution."""
    peer = hyppo_test()
    found = []
    for seed in range(repeats(100) + 1):
        X, y = dependent(name, 1000, seed)
        test, took, memory = cost(partial(independence_test, X, y, random_state=seed))
        value, spent, _ = cost(partial(peer, X, y, auto=True)) if peer else (1.0, 0.0, 0.0)
        found.append((100 * (test.p_value <= 0.05), took, memory, 100 * (value <= 0.05), spent))
    own, costs, _, theirs, their_costs = (np.array(part) for part in zip(*found[1:], strict=True))
    took, spent = np.median(costs), np.median(their_costs)
    what, goal = f"independence, {name}, n = 1,000: power at 5 %, %", "hyppo's power, .1 of its time"
    if not peer:
        return [line(what, mean(own), [(took, 0.0)], reference="hyppo is not installed", goal=goal)]
    return [
        line(
            what,
            f"{mean(own)}, {took / spent:.2f} x the time",
            [one[1:3] for one in found[1:]],
            reference=f"hyppo's Hsic: {mean(theirs)}, {1000 * spent:.0f} CPU ms",
            goal=goal,
            reached=np.mean(own) >= np.mean(theirs) and took <= spent / 10,
        )
    ]


def large_independence() -> list[Line]:
    """A million pairs of rows."""
    X, _ = normal_laws(size(MILLION))
    y = X[:, 0] + 0.1 * X[:, 1] ** 2 + np.random.default_rng(1).standard_normal(len(X))
    independence_test(X[:2000], y[:2000], random_state=0)
    found, *spent = cost(partial(independence_test, X, y, random_state=0))
    p = f"p = {found.p_value:.2g}"
    return [line(f"independence, {len(X):,} x 50", p, [spent], goal="30 CPU s", reached=spent[0] <= 30)]
