"""Hashes of what rows hold."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import kstest

from bochner.data.hashes import row_hashes, uniform

X = np.random.default_rng(0).integers(-4, 5, (500, 6)).astype(float)
NAMES = list("abcdef")
TEXT = ["Jena", None, "Bern"] * 4
TABLES = {
    "text": TEXT,
    "categories": pd.Categorical(TEXT),
    "truth": [True, False, None] * 4,
    "dates": pd.to_datetime(["2020-01-01", None, "2021-05-05"] * 4),
    "durations": pd.to_timedelta([1, 2, 3] * 4, unit="h"),
    "of several kinds": [1, "1", None] * 4,
    "large": [10**30, 10**30 + 1, 0] * 4,
    "missing": [np.nan] * 12,
}


@pytest.mark.parametrize(
    "form",
    [
        np.float32,
        np.int64,
        np.asfortranarray,
        sp.csr_array,
        lambda X: pd.DataFrame(X, columns=NAMES),
        lambda X: pd.DataFrame(X.astype(int), columns=NAMES).convert_dtypes(),
        lambda X: pl.DataFrame(X, schema=NAMES),
    ],
)
def test_numbers_hash_the_same_in_every_form(form):
    np.testing.assert_array_equal(row_hashes(form(X)), row_hashes(X))


def test_equal_rows_alone_have_equal_hashes():
    _, group = np.unique(X, axis=0, return_inverse=True)
    _, found = np.unique(row_hashes(X), return_inverse=True)
    assert (
        len(np.unique(group))
        == len(np.unique(found))
        == len(np.unique(group * 1000 + found))
    )
    assert len(np.unique(row_hashes(X[:, [0, 1]]))) < 82
    np.testing.assert_array_equal(row_hashes(-X[:, :1] * 0), row_hashes(X[:, :1] * 0))
    assert (row_hashes(X[:, ::-1]) != row_hashes(X)).mean() > 0.9


def test_small_whole_numbers_and_rows_that_differ_by_a_hair_do_not_collide():
    many = np.stack(np.meshgrid(*[np.arange(60.0)] * 3), axis=-1).reshape(-1, 3)
    assert len(np.unique(row_hashes(many))) == len(many)
    assert (
        len(
            np.unique(
                row_hashes(1 + np.arange(1000)[:, np.newaxis] * np.finfo(float).eps)
            )
        )
        == 1000
    )


@pytest.mark.parametrize("name", TABLES)
def test_tables(name):
    """Rows by themselves, and in any order, hash as they do together."""
    frame = pd.DataFrame({"number": np.repeat([0.0, 1.0], 6), "column": TABLES[name]})
    hashes = row_hashes(frame)
    np.testing.assert_array_equal(
        np.concatenate([row_hashes(frame[a : a + 1]) for a in range(12)]), hashes
    )
    np.testing.assert_array_equal(row_hashes(frame[::-1])[::-1], hashes)
    assert len(np.unique(hashes)) == len(
        frame.astype({"column": object}).astype(str).drop_duplicates()
    )


def test_libraries_agree():
    moments = [datetime.datetime(2020, 1, 1, 12), None, datetime.datetime(1969, 5, 5)]
    columns = {
        "a": [1, 2, 3],
        "text": ["x", None, "y"],
        "time": moments,
        "flag": [True, False, True],
    }
    np.testing.assert_array_equal(
        row_hashes(pd.DataFrame(columns)), row_hashes(pl.DataFrame(columns))
    )


@pytest.mark.parametrize("seed", range(3))
def test_numbers_from_hashes_are_uniform_and_differ_by_seed(seed):
    hashes = row_hashes(np.arange(20_000.0)[:, np.newaxis])
    u, other = uniform(hashes, seed), uniform(hashes, seed + 1)
    assert kstest(u, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u, other)[0, 1]) < 4 / np.sqrt(20_000)


def test_arrow_columns_that_double_precision_rounds():
    rows = {
        "day": [datetime.date(2021, 4, 28), datetime.date(2020, 10, 7), None],
        "id": [2**53 + 1, -(2**60) - 1, None],
    }
    frame = pl.DataFrame(rows)
    np.testing.assert_array_equal(row_hashes(frame.to_arrow()), row_hashes(frame))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_of_frames_on_arrow_have_the_hashes_of_others(unit):
    """Nanoseconds since 1970 are more than a double holds without rounding."""
    moments = pd.Series(
        pd.Timestamp("2020-01-01 10:00") + pd.to_timedelta([0, 9, 0], "D")
    )
    on_arrow = moments.astype(f"timestamp[{unit}][pyarrow]")
    expected = row_hashes(moments.to_frame("day"))
    np.testing.assert_array_equal(row_hashes(on_arrow.to_frame("day")), expected)
    large = pd.Series([2**60, 2**60 + 1, 5], dtype="int64[pyarrow]")
    assert len(np.unique(row_hashes(large.to_frame("id")))) in (2, 3)
