"""Columns that seem to number the rows are named in a warning."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bochner import KernelMachineRegressor
from bochner.data.table import TableEncoder

N = 60


def said_of(**columns):
    """What is said of the columns of a frame."""
    X = pd.DataFrame(columns)
    X["other"] = np.sin(np.arange(len(X)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        TableEncoder().fit(X)
    return [str(one.message) for one in said]


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(N),
        np.arange(N)[::-1] + 1000,
        np.random.default_rng(0).permutation(N).astype(float),
        np.sort(np.random.default_rng(0).choice(N * 5 // 4, N, replace=False)),
        np.arange(100_000),
    ],
    ids=["in order", "backwards", "shuffled", "a part", "many"],
)
def test_different_integers_close_together_are_numbers_of_rows(numbers):
    (message,) = said_of(number=numbers)
    assert message.startswith("Column 'number' seems to number the rows, and new rows")


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(N) + 0.5,
        np.arange(N) * 2,
        np.append(np.arange(N - 1), 0),
        np.append(np.arange(N - 1.0), np.nan),
        np.random.default_rng(0).integers(0, 2 * N, N),
        np.arange(15),
        np.random.default_rng(0).integers(0, 100_000, 100_000),
    ],
    ids=["halves", "even", "twice", "missing", "drawn", "few", "many"],
)
def test_others_are_not(numbers):
    assert said_of(number=numbers) == []


def test_one_column_is_time():
    X = np.arange(N)[:, np.newaxis]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder().fit(X)


def test_days_in_order_are_not():
    assert said_of(day=pd.date_range("2024-01-01", periods=N)) == []


def test_a_fit_says_so():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.standard_normal(N), "id": rng.permutation(N)})
    with pytest.warns(UserWarning, match="'id' seems to number the rows"):
        KernelMachineRegressor(random_state=0).fit(X, np.sin(X["x"]))
