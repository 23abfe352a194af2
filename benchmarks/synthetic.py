"""Tables whose truth is known: rules and classes of nominal columns, few discrete
columns, many rows of numbers, thresholds, and few rows of smooth surfaces.

The surfaces are usual ones of computer experiments: Friedman's function (Annals of
Statistics 1991), the flow through a borehole (Morris, Mitchell and Ylvisaker,
Technometrics 1993) and the cycle of a piston (Ben-Ari and Steinberg, Quality
Engineering 2007).
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


def friedman(X: np.ndarray) -> np.ndarray:
    """A wave of a product, a parabola and two lines."""
    wave = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return wave + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def within(X: np.ndarray, least: list[float], most: list[float]) -> np.ndarray:
    """The first columns, from 0 to 1, in ranges of their own."""
    return np.array(least) + np.subtract(most, least) * X[:, : len(least)]


def borehole(X: np.ndarray) -> np.ndarray:
    """Water that flows through a borehole between two aquifers."""
    least = [0.05, 100, 63_070, 990, 63.1, 700, 1_120, 9_855]
    most = [0.15, 50_000, 115_600, 1_110, 116, 820, 1_680, 12_045]
    radius, reach, upper, upper_head, lower, lower_head, length, conductivity = within(
        X, least, most
    ).T
    logarithm = np.log(reach / radius)
    leak = 2 * length * upper / (logarithm * radius**2 * conductivity)
    flow = 2 * np.pi * upper * (upper_head - lower_head)
    return flow / (logarithm * (1 + leak + upper / lower))


def piston(X: np.ndarray) -> np.ndarray:
    """Seconds that a piston takes for a cycle."""
    least = [30, 0.005, 0.002, 1_000, 90_000, 290, 340]
    most = [60, 0.02, 0.01, 5_000, 110_000, 296, 360]
    mass, surface, gas, spring, pressure, ambient, filling = within(X, least, most).T
    work = pressure * gas / filling
    force = pressure * surface + 19.62 * mass - spring * gas / surface
    root = np.sqrt(force**2 + 4 * spring * work * ambient)
    volume = surface / (2 * spring) * (root - force)
    stiffness = spring + surface**2 * work * ambient / volume**2
    return 2 * np.pi * np.sqrt(mass / stiffness)


TABLES = (
    {
        "rules": (10_000, rules),
        "hierarchy of rules": (10_000, hierarchy),
        "eighteen types": (10_000, types),
        "discrete columns": (500_000, discrete),
        "linear": (300_000, numeric(linear)),
        "smooth": (300_000, numeric(smooth)),
        "steps": (300_000, numeric(steps)),
    }
    | {
        f"thresholds, {target.__name__}": (4_000, numeric(target, 0.1, uniform=True))
        for target in (box, corner, curve, exclusive, price, trees)
    }
    | {
        f"surface, {target.__name__}": (400, numeric(target, uniform=True))
        for target in (friedman, borehole, piston)
    }
)
NOMINAL = ("rules", "hierarchy of rules", "eighteen types")
NUMBERS = ("discrete columns", "linear", "smooth", "steps")
THRESHOLDS = tuple(name for name in TABLES if name.startswith("thresholds"))
SURFACES = tuple(name for name in TABLES if name.startswith("surface"))
