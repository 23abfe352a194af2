"""Fits at the edge of what numbers can be: weights, columns and targets from 5e-324 to
1e300, few rows, equal rows.

A case is a model and a table, drawn by a seed. Its predictions are finite, or there is
an error that names the cause and the cure. Where only the unit of a column, of the
target or of the weights is another power of two, which changes no digit, predictions
are the same ones in that unit.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import bochner as bo
from bochner.kernels import Gaussian, Laplacian

Table = tuple[
    Any, Any, Any, Any, Any
]  # X, y, weights, rows to predict, and what the predictions are compared with
N, SECONDS = 60, 60.0
SMALL: dict[str, Any] = {"n_components": 20, "random_state": 0}
MODELS: dict[str, Callable[[], Any]] = {
    "learned": lambda: bo.KernelMachineRegressor(**SMALL, features="fourier"),
    "bins": lambda: bo.KernelMachineRegressor(
        features=bo.BinningFeatures(Laplacian(), 10), random_state=0
    ),
    "gradients": lambda: bo.KernelMachineRegressor(
        **SMALL, kernel=Gaussian(), solver="cg"
    ),
    "exact": lambda: bo.KernelMachineRegressor(
        kernel=Gaussian(), solver="exact", random_state=0
    ),
    "deviations": lambda: bo.KernelMachineRegressor(
        **SMALL, kernel=Gaussian(), uncertainty="std"
    ),
    "linear": lambda: bo.KernelMachineRegressor(
        features=bo.LinearFeatures(), random_state=0
    ),
    "landmarks": lambda: bo.KernelMachineRegressor(
        features=bo.NystroemFeatures(Gaussian(), 20), random_state=0
    ),
    "classes": lambda: bo.KernelMachineClassifier(**SMALL, features="fourier"),
    "logistic": lambda: bo.KernelMachineClassifier(
        features=bo.LinearFeatures(), loss="logistic", random_state=0
    ),
}
# That scale the columns themselves, and split rows by what they hold then
IN_UNITS = {"learned", "linear", "classes"}
UNCLEAR = re.compile(
    r"got (nan|inf)|singular|invalid value|divide by zero|NoneType|broadcast|out of "
    r"bounds"
)
EDGES = np.array(
    [5e-324, 1e-310, 1e-300, 1e-160, 1e-40, 1e-20, 1e20, 1e40, 1e150, 1e160, 1e300]
)


class Verdict(NamedTuple):
    """What a case came to ("finite", "same", or the type of an error), what is wrong
    with that, and seconds.
    """

    outcome: str
    wrong: str
    seconds: float


@cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets and rows to predict, of the usual size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return (
        X,
        X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=N),
        rng.normal(size=(20, 3)),
    )


@cache
def usual(name: str) -> np.ndarray:
    """Predictions of a model for the usual table."""
    X, y, rows = table()
    return _predictions(name, X, y, None, rows)


def _unit(rng: np.random.Generator, farthest: int) -> float:
    return float(np.ldexp(1.0, int(rng.integers(-farthest, farthest + 1))))


def in_another_unit(name: str, rng: np.random.Generator) -> Table:
    """The usual table in units of other powers of two, whose squares are still
    numbers in full precision.
    """
    (X, y, rows), target, weight = table(), 1.0, None
    kind = rng.integers(3)
    if kind == 0 and name in IN_UNITS:
        scale = np.array([_unit(rng, 450) for _ in range(3)])
        if name in ("classes", "learned"):
            # One candidate for few rows takes columns in their common unit
            scale[:] = scale[0]
        X, rows = X * scale, rows * scale
    elif kind == 1 and name not in ("classes", "logistic", "deviations"):
        target = _unit(rng, 450)
    elif name != "deviations":  # which weigh rows against a prior
        weight = np.full(
            N, np.ldexp(1.0, -int(rng.integers(1, 81)))
        )  # whole numbers would count as so many rows
    return X, y * target, weight, rows, usual(name) * target


def extreme_units(name: str, rng: np.random.Generator) -> Table:
    """Columns, targets or weights of extreme size."""
    X, y, rows = table()
    kind, scale = rng.integers(4), rng.choice(EDGES, 3)
    if kind == 0:
        return X * scale, y, None, rows * scale, None
    if kind == 1:
        return X, y * scale[0], None, rows, None
    if kind == 2:
        return X, y, np.full(N, scale[0]), rows, None
    return X, y, 10.0 ** rng.uniform(*np.sort(rng.uniform(-323, 300, 2)), N), rows, None


def outliers(name: str, rng: np.random.Generator) -> Table:
    """A few entries of extreme size among the usual ones."""
    X, y, rows = (part.copy() for part in table())
    size, kind = rng.choice(EDGES) * rng.choice([-1, 1]), rng.integers(3)
    if kind == 0:
        X[rng.integers(N, size=3), rng.integers(3, size=3)] = size
    elif kind == 1:
        y[rng.integers(N, size=2)] = size
    else:
        rows[rng.integers(len(rows), size=3), rng.integers(3)] = size
    return X, y, None, rows, None


def few_rows(name: str, rng: np.random.Generator) -> Table:
    """From one row to twenty, or few rows of many columns."""
    X, y, rows = table()
    if rng.integers(4):
        n = int(rng.integers(1, 21))
        return X[:n], y[:n], None, rows, None
    wide = rng.normal(size=(N, int(rng.integers(100, 2000))))
    return wide, y, None, wide[:5], None


def equal_rows(name: str, rng: np.random.Generator) -> Table:
    """Rows, targets or weights that are all equal, or differ in their last bits."""
    X, y, rows = table()
    kind, bits = rng.integers(5), rng.integers(0, int(rng.choice([1, 2, 10])), (N, 3))
    near = np.ones((N, 3)) * rng.choice([1.0, 1e10, 1e-10, 0.1]) * (1 + bits * 2.0**-52)
    if kind == 0:
        return near, y, None, near[:9], None
    if kind == 1:
        return X, near[:, 0], None, rows, None
    if kind == 2:
        return (
            X,
            y,
            np.where(np.arange(N) < rng.integers(1, 4), 1.0, 5e-324),
            rows,
            None,
        )
    if kind == 3:
        return X, y, 2.0 ** -np.arange(N, dtype=float), rows, None
    few = X[rng.integers(2, size=N)]
    return few, y, None, few[:3], None


def sparse_rows(name: str, rng: np.random.Generator) -> Table:
    """Sparse rows of extreme units."""
    X, y, rows = table()
    scale = rng.choice(EDGES, 3)
    return (
        sp.csr_matrix(X * scale * (X > 0)),
        y,
        None,
        sp.csr_matrix(rows * scale),
        None,
    )


TABLES = {
    make.__name__: make
    for make in (
        in_another_unit,
        extreme_units,
        outliers,
        few_rows,
        equal_rows,
        sparse_rows,
    )
}


def _predictions(name: str, X: Any, y: Any, weight: Any, rows: Any) -> np.ndarray:
    model = MODELS[name]()
    if name in ("classes", "logistic"):
        return model.fit(
            X, y > np.median(y) if len(set(y)) > 1 else y > 0, sample_weight=weight
        ).predict_proba(rows)
    model.fit(X, y, sample_weight=weight)
    return (
        np.concatenate(model.predict(rows, return_std=True))
        if name == "deviations"
        else model.predict(rows)
    )


def judge(seed: int) -> tuple[str, Verdict]:
    """One case, in words, and what became of it."""
    rng = np.random.default_rng(seed)
    name, kind = (
        list(MODELS)[seed % len(MODELS)],
        list(TABLES)[seed // len(MODELS) % len(TABLES)],
    )
    X, y, weight, rows, expected = TABLES[kind](name, rng)
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)  # advice
            found = _predictions(name, X, y, weight, rows)
    except (ValueError, MemoryError) as error:
        outcome, wrong = (
            type(error).__name__,
            str(error) if UNCLEAR.search(str(error)) or expected is not None else "",
        )
    except Exception as error:
        outcome, wrong = type(error).__name__, f"{type(error).__name__}: {error}"
    else:
        outcome, wrong = (
            ("finite", "") if np.isfinite(found).all() else ("not finite", "not finite")
        )
        if expected is not None and not wrong:
            differ = np.abs(found - expected).max() / np.std(expected)
            outcome, wrong = (
                "same",
                "" if differ < 1e-5 else f"differs by {differ:.2g} deviations",
            )
    seconds = time.process_time() - start
    return f"{seed} {name} {kind}", Verdict(
        outcome, wrong or (f"{seconds:.0f} s" if seconds > SECONDS else ""), seconds
    )
