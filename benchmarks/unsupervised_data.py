"""Rows and settings of ``python -m benchmarks unsupervised``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bochner import TableEncoder
from datasets import Split, load
from runner import size

MILLION = 1_000_000
CENTRES, SPREAD = 10, 1.5  # of the rows of normal distributions


def mnist(n: int = 60_000) -> Split:
    """The first training rows, and all test rows, as numbers in single precision."""
    X, y, X_test, y_test = load("mnist")
    n = size(n)
    return Split(X[:n].to_numpy(np.float32), y[:n], X_test.to_numpy(np.float32), y_test)


def few_labels(y: NDArray, each: int, seed: int) -> NDArray:
    """The labels of `each` rows of each class, -1 for all others."""
    rng, marked = np.random.default_rng(seed), np.full(len(y), -1)
    rows = np.concatenate(
        [rng.choice(np.flatnonzero(y == k), each, replace=False) for k in np.unique(y)]
    )
    marked[rows] = y[rows]
    return marked


class Novelties(NamedTuple):
    """Normal rows to learn from, as they are and as numbers; other rows, and which
    of them are not normal.
    """

    X: Any
    numbers: NDArray
    X_new: Any
    numbers_new: NDArray
    novel: NDArray[np.bool_]


def novelties(name: str, most: int = 40_000) -> Novelties:
    """Normal rows of one half, and rows of any kind of the other, as in
    scikit-learn's bench_online_ocsvm.py.
    """
    X, novel = {
        "SA": _attacks,
        "http": _http,
        "http, all columns": _http_columns,
        "covtype": _cover,
    }[name]()
    order = np.random.default_rng(0).permutation(len(X))
    first, second = order[: len(X) // 2], order[len(X) // 2 :][: size(most)]
    first = first[~novel[first]]
    known, new = X.iloc[first], X.iloc[second]
    encoder = TableEncoder().fit(known)
    return Novelties(
        known,
        encoder.encode(known, np.float64),
        new,
        encoder.encode(new, np.float64),
        novel[second].astype(bool),
    )


def _attacks() -> tuple[pd.DataFrame, NDArray]:
    """All normal rows of the 10 percent file and 3,377 attacks, as
    ``fetch_kddcup99(subset="SA")`` has them.
    """
    X, y, *_ = load("kddcup99")
    attacks = X[y != "normal"]
    drawn = attacks.iloc[np.random.RandomState(0).randint(0, len(attacks), 3377)]
    both = pd.concat([X[y == "normal"], drawn])
    return both, np.arange(len(both)) >= len(both) - len(drawn)


def _http() -> tuple[pd.DataFrame, NDArray]:
    """Logarithms of three columns, as ``fetch_kddcup99(subset="http")`` has them."""
    X, y, *_ = load("kddcup99")
    rows = ((X["service"] == "http") & (X["logged_in"].astype(int) == 1)).to_numpy()
    three = X.loc[rows, ["duration", "src_bytes", "dst_bytes"]].astype(float)
    return np.log(three + 0.1), (y != "normal")[rows]


def _http_columns() -> tuple[pd.DataFrame, NDArray]:
    X, y, *_ = load("kddcup99")
    rows = (X["service"] == "http").to_numpy()
    return X[rows], (y != "normal")[rows]


def _cover() -> tuple[pd.DataFrame, NDArray]:
    """Type 2 against 4, ten columns of numbers, all rows in the order of the file."""
    train = load("covtype")
    X, y = pd.concat([train.X, train.X_test]), np.concatenate([train.y, train.y_test])
    rows = np.isin(y, (2, 4))
    return X.iloc[:, :10][rows].astype(float), y[rows] == 4


def normal_laws(n: int, d: int = 50) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Rows of ten overlapping normal distributions in single precision, and which
    distribution each is of.
    """
    rng = np.random.default_rng(0)
    centres, laws = (
        SPREAD * rng.standard_normal((CENTRES, d)),
        rng.integers(CENTRES, size=n),
    )
    X = rng.standard_normal((n, d), dtype=np.float32)
    X += centres.astype(np.float32)[laws]
    return X, laws


def halves(X: NDArray) -> tuple[NDArray, NDArray]:
    """The left and the right half of images of 28 x 28."""
    images = X.reshape(-1, 28, 28)
    return images[:, :, :14].reshape(len(X), -1), images[:, :, 14:].reshape(len(X), -1)
