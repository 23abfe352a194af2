"""Tables whose truth is known: rules and classes of nominal columns, few discrete
columns, many rows of numbers, and thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from datasets import Split

COLUMNS, DEPTH, CLASSES = 8, 5, 5  # of rules
TYPES, LEVELS = 18, 8  # classes, and levels of each of the columns that they depend on
STRENGTH = 1.4  # deviation of what a level does to the logit of a class
NOISE = 0.01  # deviations of numeric targets
TEST_ROWS = 20_000

Numbers = Callable[[np.ndarray], np.ndarray]


def draw(name: str, seed: int) -> Split:
    """A table by its name. Test targets are without noise where they are numbers."""
    n_rows, make = TABLES[name]
    rng = np.random.default_rng([seed, sorted(TABLES).index(name)])
    X, y, truth = make(n_rows + TEST_ROWS, rng)
    return Split(X.iloc[:n_rows], y[:n_rows], X.iloc[n_rows:], truth[n_rows:])


def named(codes: Sequence[np.ndarray]) -> pd.DataFrame:
    """Nominal columns, whose levels have names."""
    return pd.DataFrame(
        {
            f"x{j}": pd.Series(column).map("level {}".format)
            for j, column in enumerate(codes)
        }
    )


def rules(
    n: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Classes by the first of twelve rules that holds; each asks for a level of two
    or three of the columns.
    """
    codes = [rng.integers(size, size=n) for size in rng.integers(2, 6, COLUMNS)]
    y = np.full(n, rng.integers(CLASSES))
    for size in rng.integers(2, 4, 12):
        asked = rng.permutation(COLUMNS)[:size]
        holds = np.all([codes[j] == codes[j][rng.integers(n)] for j in asked], axis=0)
        y[holds] = rng.integers(CLASSES)
    return named(codes), y, y


def hierarchy(
    n: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Classes by a tree of rules: the level of a column tells which column comes
    next.
    """
    codes = [rng.integers(size, size=n) for size in rng.integers(2, 6, COLUMNS)]
    y = np.empty(n, int)

    def descend(rows: np.ndarray, left: list[int], depth: int) -> None:
        if depth == DEPTH:
            y[rows] = rng.integers(CLASSES)
            return
        j = int(rng.choice(left))
        for level in range(codes[j].max() + 1):
            descend(
                rows[codes[j][rows] == level], [k for k in left if k != j], depth + 1
            )

    descend(np.arange(n), list(range(COLUMNS)), 0)
    return named(codes), y, y


def types(
    n: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Eighteen classes, whose logits are sums of what the levels of six columns do,
    and of a pair of them.
    """
    codes = [rng.integers(LEVELS, size=n) for _ in range(6)]
    logits = sum(
        rng.normal(scale=STRENGTH, size=(LEVELS, TYPES))[column] for column in codes
    )
    logits = (
        logits
        + rng.normal(scale=STRENGTH, size=(LEVELS, LEVELS, TYPES))[codes[0], codes[1]]
    )
    y = (logits + rng.gumbel(size=(n, TYPES))).argmax(axis=1)
    return named(codes), y, y


def discrete(
    n: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A number that five discrete columns of 20,160 cells tell without noise."""
    X = rng.integers([7, 8, 9, 10, 4], size=(n, 5))
    a, b, c, d, e = X.T.astype(float)
    y = np.sin(a) * b + (c > d) * e + np.where((a + b) % 3 == 0, c, -d / 2)
    return pd.DataFrame(X.astype(float)).add_prefix("x"), y, y


def numeric(
    target: Numbers, noise: float = NOISE, uniform: bool = False
) -> Callable[[int, np.random.Generator], tuple[pd.DataFrame, np.ndarray, np.ndarray]]:
    """Ten columns, standard normal or uniform, and a target of them with noise, in its
    standard deviations.
    """

    def make(
        n: int, rng: np.random.Generator
    ) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
        draw_columns = rng.random if uniform else rng.standard_normal
        X = draw_columns((n, 10))
        truth = target(X)
        return (
            pd.DataFrame(X).add_prefix("x"),
            truth + noise * truth.std() * rng.standard_normal(n),
            truth,
        )

    return make


def linear(X: np.ndarray) -> np.ndarray:
    """Sum with weights 1 to 10."""
    return X @ np.arange(1.0, 11.0)


def smooth(X: np.ndarray) -> np.ndarray:
    """Waves, a product and a bend."""
    return (
        np.sin(2 * X[:, 0])
        + X[:, 1] * X[:, 2]
        + np.cos(X[:, 3] + X[:, 4])
        + np.tanh(2 * X[:, 5])
    )


def steps(X: np.ndarray) -> np.ndarray:
    """Steps of one column, and of one where another is positive."""
    return np.floor(2 * X[:, 0]) + (X[:, 1] > 0.3) * (X[:, 2] > 0)


def box(X: np.ndarray) -> np.ndarray:
    """One within an interval of a column, beyond a value of another."""
    return 1.0 * (np.abs(X[:, 0] - 0.5) < 0.2) * (X[:, 1] > 0.4)


def corner(X: np.ndarray) -> np.ndarray:
    """One where five columns are beyond a value, and a step of another."""
    return (X[:, :5] > 0.2).all(axis=1) + 0.5 * (X[:, 5] > 0.5)


def exclusive(X: np.ndarray) -> np.ndarray:
    """One where an odd number of three columns is beyond a half."""
    return 1.0 * ((X[:, :3] > 0.5).sum(axis=1) % 2)


def trees(X: np.ndarray) -> np.ndarray:
    """Six trees, of sixteen leaves each."""
    rng = np.random.default_rng(7)
    y = np.zeros(len(X))
    for _ in range(6):
        passed = X[:, rng.integers(8, size=4)] > rng.random(4)
        y += rng.normal(size=16)[passed @ [1, 2, 4, 8]]
    return y


def curve(X: np.ndarray) -> np.ndarray:
    """A smooth function of three columns, and two thresholds that act together."""
    smooth = np.sin(4 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2
    return smooth + (X[:, 3] > 0.6) * (X[:, 4] < 0.5)


def price(X: np.ndarray) -> np.ndarray:
    """A price with a surcharge, and a discount by two columns."""
    rules = 0.4 * (X[:, 3] > 0.65) - 0.6 * (X[:, 4] > 0.8) * (X[:, 0] > 0.5)
    return np.exp(X[:, 0] + X[:, 1] * X[:, 2] + rules)


TABLES = {
    "rules": (10_000, rules),
    "hierarchy of rules": (10_000, hierarchy),
    "eighteen types": (10_000, types),
    "discrete columns": (500_000, discrete),
    "linear": (300_000, numeric(linear)),
    "smooth": (300_000, numeric(smooth)),
    "steps": (300_000, numeric(steps)),
} | {
    f"thresholds, {target.__name__}": (4_000, numeric(target, 0.1, uniform=True))
    for target in (box, corner, curve, exclusive, price, trees)
}
NOMINAL = ("rules", "hierarchy of rules", "eighteen types")
NUMBERS = ("discrete columns", "linear", "smooth", "steps")
THRESHOLDS = tuple(name for name in TABLES if name.startswith("thresholds"))
