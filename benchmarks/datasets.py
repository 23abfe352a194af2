"""The real data sets, from the folder BOCHNER_DATA, which ``python -m benchmarks
data FOLDER`` fills.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

TRAIN_ROWS = {"cpu_act": 6500, "house_16H": 18000, "covtype": 522000}


class Split(NamedTuple):
    """Train and test rows."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


def load(name: str) -> Split:
    """Load a data set with its official split, or one by
    ``numpy.random.default_rng(0).permutation``.

    Raises
    ------
    FileNotFoundError
        If BOCHNER_DATA does not hold the file.
    """
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True, as_frame=True)
        return split(X, y.to_numpy(), 1437)
    path = Path(os.environ.get("BOCHNER_DATA", "")) / f"{name}.parquet"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there: run python -m benchmarks data FOLDER, and set "
            "BOCHNER_DATA to it"
        )
    X = pd.read_parquet(path)
    y = X.pop("target").to_numpy()
    if "split" not in X:
        return split(X, y, TRAIN_ROWS.get(name, int(0.8 * len(y))))
    train = (X.pop("split") == "train").to_numpy()
    return Split(X[train], y[train], X[~train], y[~train])


def split(X: pd.DataFrame, y: np.ndarray, n_train: int) -> Split:
    """The first rows of ``numpy.random.default_rng(0).permutation``, and the others."""
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:n_train], order[n_train:]
    return Split(X.iloc[train], y[train], X.iloc[test], y[test])


def categorised(rows: Split) -> Split:
    """Strings as pandas categories."""
    if not isinstance(rows.X, pd.DataFrame):
        return rows
    both = pd.concat([rows.X, rows.X_test])
    texts = [
        name for name in both if not pd.api.types.is_numeric_dtype(both[name].dtype)
    ]
    both = both.astype(dict.fromkeys(texts, "category"))
    return Split(
        both.iloc[: len(rows.y)], rows.y, both.iloc[len(rows.y) :], rows.y_test
    )


def taken(X: Any, rows: np.ndarray) -> Any:
    """Rows of an array or a frame."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def encoder(X: Any, sparse: bool = False) -> Any:
    """Numbers to unit variance, strings one-hot (categories of fewer than 20 rows
    together).
    """
    if not isinstance(X, pd.DataFrame):
        return StandardScaler()
    texts = [name for name in X if not pd.api.types.is_numeric_dtype(X[name].dtype)]
    rare = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=20, sparse_output=sparse
    )
    return make_column_transformer((rare, texts), remainder=StandardScaler())
