"""Columns and targets of integers whose differences double precision drops."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from bochner import KernelMachineClassifier, KernelMachineRegressor, TableEncoder
from bochner.selection import policy

N = 60
LARGE = 2**60 + np.arange(N)[::-1]  # spaced by 256 in double precision
OTHER = np.random.default_rng(0).normal(size=N)
FRAME = pd.DataFrame({"id": LARGE, "x": OTHER})
FAST = {"features": "fourier", "n_components": 10, "random_state": 0}
MESSAGE = (
    "Column '{}' counts as constant: .* subtract the least of them, or give "
    "the column as text"
)


def noted(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in found]


@pytest.mark.filterwarnings("ignore:.* seems to number the rows")
@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (np.column_stack([np.arange(N), LARGE]), "x1"),
        (np.column_stack([np.arange(N), LARGE]).astype(np.uint64) * np.uint64(8), "x1"),
        (sp.csr_array(np.column_stack([np.arange(N), -LARGE])), "x1"),
        (FRAME, "id"),
        (FRAME.astype({"id": "Int64"}), "id"),
        (FRAME.astype({"id": "uint64"}), "id"),
        (FRAME.astype({"id": object}), "id"),
        (pl.from_pandas(FRAME), "id"),
        (pa.Table.from_pandas(FRAME), "id"),
    ],
    ids=[
        "array",
        "unsigned",
        "csr",
        "pandas",
        "nullable",
        "pandas unsigned",
        "objects",
        "polars",
        "arrow",
    ],
)
def test_the_column_is_named(rows, name):
    with pytest.warns(UserWarning, match=MESSAGE.format(name)):
        encoder = TableEncoder().fit(rows)
    Z = encoder.transform(rows)
    assert np.ptp(Z.toarray() if sp.issparse(Z) else Z, axis=0).min() == 0


@pytest.mark.slow
def test_one_note_in_a_fit(tmp_path):
    FRAME.assign(y=OTHER).to_csv(tmp_path / "rows.csv", index=False)
    for fit in (
        lambda: KernelMachineRegressor(**FAST).fit(FRAME, OTHER),
        lambda: KernelMachineRegressor(**FAST).fit(tmp_path / "rows.csv", "y"),
        lambda: KernelMachineRegressor(**FAST, uncertainty="intervals").fit(
            FRAME, OTHER
        ),
    ):
        assert [text[:11] for text in noted(fit)] == ["Column 'id'"]


@pytest.mark.filterwarnings("ignore:.* seems to number the rows")
def test_integers_that_floats_tell_apart_are_not_named():
    columns = (
        2**60 + 2**12 * np.arange(N),
        np.full(N, 2**60),
        np.arange(N) + 2**50,
        LARGE - 2**60,
        np.where(OTHER > 0, 0, LARGE),
    )
    rows = np.column_stack(columns)
    for table in (rows, pd.DataFrame(rows, dtype=object)):
        TableEncoder().fit(table)  # a warning would be an error


def test_rows_without_weight_do_not_count():
    weight = np.r_[1.0, np.zeros(N - 1)]
    for rows in (
        FRAME,
        FRAME[["id"]].to_numpy(),
        sp.csr_array(FRAME[["id"]].to_numpy()),
    ):
        TableEncoder().fit(rows, sample_weight=weight)  # a warning would be an error


def test_rows_added_later_are_noted():
    rows = LARGE[:, np.newaxis]
    encoder = TableEncoder().fit(rows[:1])
    assert len(noted(lambda: encoder.partial_fit(rows[1:5]))) == 1


def test_targets():
    model = KernelMachineRegressor(**FAST)
    with pytest.warns(
        UserWarning, match=r"A target counts as constant: .* subtract the least"
    ):
        model.fit(OTHER[:, np.newaxis], LARGE)
    model.fit(OTHER[:, np.newaxis], LARGE - 2**60)


@pytest.mark.parametrize("in_passes", [False, True])
@pytest.mark.parametrize("size", [2**53, 2**60])
def test_targets_of_which_rounding_takes_digits(size, in_passes, tmp_path, monkeypatch):
    x = np.linspace(-2, 2, 400)
    y = np.round(2000 * np.sin(x)).astype(np.int64)
    pd.DataFrame({"x": x, "y": y + size}).to_parquet(tmp_path / "rows.parquet")
    if in_passes:
        small = replace(policy.POLICY, gathered_rows=100, sampled_rows=200)
        monkeypatch.setattr("bochner.inputs.opened.POLICY", small)
    model = KernelMachineRegressor(**FAST)
    told = noted(lambda: model.fit(tmp_path / "rows.parquet", "y"))
    lost = np.std(y - ((y + size).astype(np.float64) - size))
    is_told = any("predictions lose digits: subtract the least" in one for one in told)
    assert is_told == (lost > 10)


def test_classes_of_large_integers_stay_distinct():
    model = KernelMachineClassifier(**FAST).fit(
        OTHER[:, np.newaxis], 2**60 + (OTHER > 0)
    )
    assert model.classes_.tolist() == [2**60, 2**60 + 1]
    assert model.score(OTHER[:, np.newaxis], 2**60 + (OTHER > 0)) > 0.9
