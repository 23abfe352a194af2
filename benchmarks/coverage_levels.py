"""Coverage of intervals and prediction sets by number of rows and kind of data, over
draws of the training rows.

The training rows and 1,000 new ones are drawn from the same distribution, and
everything is chosen by default. A level that the rows are too few for is refused, in so
many fits of a hundred where not in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from bochner import KernelMachineClassifier, KernelMachineRegressor
from report import Row
from runner import QUICK, repeats

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
# Of each number of rows; at 250 and 500 distinct ones what calibrates changes
FITS = {30: 40, 60: 40, 100: 40, 240: 16, 260: 16, 300: 16, 350: 16, 400: 16}
FITS |= {600: 16, 1000: 16, 5000: 20}
NEW_ROWS = 1000
COPIES = 10


class Sample(NamedTuple):
    """Inputs, targets, and weights or None; effects of levels of text, where there are
    such.
    """

    X: Any
    y: NDArray
    weight: NDArray | None = None
    effects: NDArray | None = None


def function(X: NDArray) -> NDArray:
    """A smooth function of two of three columns."""
    return X[:, 0] + np.sin(2 * X[:, 1])


def smooth(n: int, rng: np.random.Generator) -> Sample:
    """Noise of one size."""
    X = rng.standard_normal((n, 3))
    return Sample(X, function(X) + 0.3 * rng.standard_normal(n))


def heteroscedastic(n: int, rng: np.random.Generator) -> Sample:
    """Noise of .1 on one side and .5 on the other."""
    X = rng.standard_normal((n, 3))
    return Sample(X, function(X) + (0.1 + 0.4 * (X[:, 0] > 0)) * rng.standard_normal(n))


def heavy_tailed(n: int, rng: np.random.Generator) -> Sample:
    """Noise of Student's distribution with three degrees of freedom."""
    X = rng.standard_normal((n, 3))
    return Sample(X, function(X) + 0.3 * rng.standard_t(3, n))


def discrete(n: int, rng: np.random.Generator) -> Sample:
    """Columns of four values, 64 different rows of them."""
    X = rng.integers(0, 4, (n, 3)).astype(float)
    return Sample(X, function(X) + 0.3 * rng.standard_normal(n))


def ratings(n: int, rng: np.random.Generator) -> Sample:
    """Columns of four values, and whole numbers as targets."""
    X, y, *_ = discrete(n, rng)
    return Sample(X, np.round(y))


def copied(n: int, rng: np.random.Generator) -> Sample:
    """Each row ten times."""
    X, y, *_ = smooth(n, rng)
    return Sample(np.repeat(X, COPIES, axis=0), np.repeat(y, COPIES))


def weighted(n: int, rng: np.random.Generator) -> Sample:
    """Weights of 1, 2 and 5, independent of all else."""
    return smooth(n, rng)._replace(weight=rng.choice([1.0, 2.0, 5.0], n))


def coded(n: int, rng: np.random.Generator) -> Sample:
    """A column of codes from 0 to 9, whose effects follow no order, among two of
    numbers.
    """
    X = rng.standard_normal((n, 3))
    X[:, 2] = rng.integers(0, 10, n)
    effects = np.random.default_rng(0).standard_normal(10)
    target = function(X) + effects[X[:, 2].astype(int)]
    return Sample(X, target + 0.3 * rng.standard_normal(n))


def named(
    n: int, rng: np.random.Generator, effects: NDArray, n_levels: int, first: int = 0
) -> Sample:
    """A column of text with an effect of its own for each level, among two of
    numbers; levels from the first one on, below `n_levels`.
    """
    X = rng.standard_normal((n, 2))
    levels = rng.integers(first, n_levels, n)
    target = function(X) + effects[levels] + 0.3 * rng.standard_normal(n)
    names = [f"level {level}" for level in levels]
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "name": names})
    return Sample(table, target, None, effects)


def many_levels(n: int, rng: np.random.Generator) -> Sample:
    """One level for each eight rows of a fit."""
    return named(n, rng, 0.5 * rng.standard_normal(10_000), max(n // 8, 2))


KINDS: dict[str, Callable[[int, np.random.Generator], Sample]] = {
    "one size of noise": smooth,
    "two sizes of noise": heteroscedastic,
    "heavy tails": heavy_tailed,
    "discrete columns": discrete,
    "discrete columns and targets": ratings,
    "each row ten times": copied,
    "weights": weighted,
    "codes": coded,
    "many levels of text": many_levels,
    "levels that are new": many_levels,
}


def classes(n: int, rng: np.random.Generator) -> Sample:
    """Three classes that overlap."""
    X = rng.standard_normal((n, 3))
    scores = np.column_stack([X[:, 0], np.sin(2 * X[:, 1]), (X[:, 2] - X[:, 0]) / 2])
    return Sample(X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1))


def covered(kind: str, n: int, seed: int) -> list[float]:
    """Share of new targets within the intervals of each level; NaN where it is
    refused.
    """
    rng = np.random.default_rng([seed, n])
    X, y, weight, effects = KINDS[kind](n, rng)
    if kind == "each row ten times":
        new = smooth(NEW_ROWS, rng)
    elif effects is None:
        new = KINDS[kind](NEW_ROWS, rng)
    elif kind == "many levels of text":
        new = named(NEW_ROWS, rng, effects, max(n // 8, 2))
    else:
        new = named(NEW_ROWS, rng, effects, len(effects), len(effects) // 2)
    model = KernelMachineRegressor(uncertainty="intervals", random_state=seed).fit(
        X, y, weight
    )

    def share(level: float) -> float:
        low, high = model.predict_interval(new.X, level).T
        rounding = 1e-9 * np.ptp(y)
        return float(np.mean((low - rounding <= new.y) & (new.y <= high + rounding)))

    return [_or_nan(share, level) for level in LEVELS]


def in_sets(n: int, seed: int) -> list[float]:
    """Share of new labels within the prediction sets of each level; NaN where it is
    refused.
    """
    rng = np.random.default_rng([seed, n])
    X, y, *_ = classes(n, rng)
    new = classes(NEW_ROWS, rng)
    model = KernelMachineClassifier(random_state=seed).fit(X, y)
    if len(model.classes_) < 3:
        return [np.nan] * len(LEVELS)
    labels = np.arange(NEW_ROWS), new.y
    return [
        _or_nan(
            lambda level: float(model.predict_set(new.X, level)[labels].mean()), level
        )
        for level in LEVELS
    ]


def _or_nan(share: Callable[[float], float], level: float) -> float:
    try:
        return share(level)
    except ValueError:
        return np.nan


def told(shares: NDArray) -> str:
    """Mean of a level with its standard error, in percent."""
    known = 100 * shares[np.isfinite(shares)]
    if not len(known):
        return "refused"
    error = (
        f" ± {known.std(ddof=1) / np.sqrt(len(known)):.1f}" if len(known) > 1 else ""
    )
    refused = len(shares) - len(known)
    return f"{known.mean():.1f}{error}" + (
        f" (refused {100 * refused / len(shares):.0f} %)" if refused else ""
    )


def coverage() -> list[Row]:
    """A row for each kind of data and number of rows."""
    rows = []
    for n, fits in FITS.items():
        if QUICK and n > 100:
            continue
        seeds = range(repeats(fits))
        jobs = {
            f"intervals, {kind}": [delayed(covered)(kind, n, seed) for seed in seeds]
            for kind in KINDS
        }
        jobs["sets, three classes"] = [delayed(in_sets)(n, seed) for seed in seeds]
        for what, some in jobs.items():
            found = np.array(Parallel(n_jobs=-1)(some))
            values = " / ".join(told(shares) for shares in found.T)
            rows.append(
                Row(
                    f"% covered of 50 / 80 / 90 / 95 / 99 %: {what}, n = {n:,}",
                    values,
                    "within 2 s.e.",
                )
            )
    order = [what.rsplit(", n = ", 1)[0] for what, *_ in rows]
    return sorted(rows, key=lambda row: order.index(row.what.rsplit(", n = ", 1)[0]))
