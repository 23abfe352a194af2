"""Values far beyond all others of a column: they set no unit, and a warning names
them.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bochner import (
    KernelMachineRegressor,
    KernelPCA,
    TableEncoder,
    load,
    save,
)
from bochner.data.outliers import farthest_fences
from bochner.data.table import TargetRows
from bochner.kernels import Gaussian


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(300, 3)), rng.normal(size=(500, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300), new


def regressor(**options):
    return KernelMachineRegressor(
        "gaussian", n_components=128, random_state=0, **options
    )


def error(model, new):
    return np.sqrt(
        np.mean(np.square(model.predict(new) - np.sin(2 * new[:, 0]) - new[:, 1]))
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "count"),
    [(1e6, 1), (1e12, 1), (-999999999.0, 5), (1e300, 2)],
    ids=["1e6", "1e12", "sentinel", "1e300"],
)
def test_outliers_do_not_end_the_use_of_a_column(rows, value, count):
    X, y, new = rows
    plain = error(regressor().fit(X, y), new)
    X = X.copy()
    X[7 : 7 + count, 0] = value
    more = f", as {count - 1} more do," if count > 1 else ""
    with pytest.warns(
        UserWarning,
        match=rf"Column 'x0': {value:g}{more} lies .* make it NaN".replace("+", r"\+"),
    ):
        model = regressor().fit(X, y)
    assert (
        error(model, new) < 3 * plain
    )  # the rows themselves are noise; without robust units it was 20 times
    inside = X[:, 0][np.abs(X[:, 0]) < 100]
    ends = np.array([[value, 0, 0], [np.sign(value) * np.abs(inside).max() * 3, 0, 0]])
    nearest = inside.max() if value > 0 else inside.min()
    expected = (nearest - inside.mean()) / inside.std()
    np.testing.assert_allclose(
        model.encoder_.transform(ends)[:, 0], expected, rtol=1e-6
    )


def test_units_are_those_of_the_others_by_weight():
    rng = np.random.default_rng(0)
    X = np.append(rng.normal(5, 2, 200), 1e9)[:, np.newaxis]
    weight = np.append(rng.integers(0, 4, 200), 1).astype(float)
    encoder = TableEncoder().fit(X, sample_weight=weight)
    with pytest.warns(UserWarning, match="Column .x0.: 1e"):
        encoder = encoder.without_outliers(X, weight)
    mean = np.average(X[:200, 0], weights=weight[:200])
    deviation = np.sqrt(np.average((X[:200, 0] - mean) ** 2, weights=weight[:200]))
    np.testing.assert_allclose(
        encoder.transform(X[:5])[:, 0], (X[:5, 0] - mean) / deviation, rtol=1e-5
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_with_missing_values_and_text(rows, kind, tmp_path):
    X, y, _ = rows
    frame = {"a": X[:, 0].copy(), "b": X[:, 1], "c": np.where(X[:, 2] > 0, "x", "y")}
    frame["a"][[3, 4]] = np.nan, 1e10
    with pytest.warns(UserWarning, match="Column 'a': 1e"):
        model = regressor().fit(kind(frame), y)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").predict(kind(frame)), model.predict(kind(frame))
    )


def test_infinity_is_refused_still(rows):
    X, y, _ = rows
    X = X.copy()
    X[0, 0] = 1e12
    with pytest.warns(UserWarning, match="spread of the other values"):
        model = regressor().fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        model.predict([[np.inf, 0.0, 0.0]])


def test_other_estimators_have_robust_units_too(rows):
    X = rows[0].copy()
    X[0, 0] = 1e12
    with pytest.warns(UserWarning, match="spread of the other values"):
        model = KernelPCA(n_components=2, random_state=0).fit(X)
    assert model.encoder_.transform(X)[1:, 0].std() == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.normal(size=(5000, 2)),
        lambda rng: rng.lognormal(0, 2.5, size=(5000, 2)),
        lambda rng: rng.standard_cauchy(size=(500, 2)),
        lambda rng: rng.poisson(0.02, size=(5000, 2)).astype(float),
        lambda rng: np.where(
            rng.uniform(size=(5000, 2)) < 0.05, rng.lognormal(9, 1, (5000, 2)), 0
        ),  # incomes, mostly none
        lambda rng: rng.integers(0, 2, size=(5000, 2)) * 1e9,
        lambda rng: np.full((50, 2), 3.0),
        lambda rng: np.where(
            rng.uniform(size=(3000, 2)) < 0.8,
            1e-12 * rng.normal(size=(3000, 2)),
            rng.uniform(1, 10),
        ),
        lambda rng: 1 / (1 + np.exp(15 * rng.normal(size=(3000, 2)) + 20)),
        lambda rng: rng.normal(size=(8192, 2)) + np.resize([0, 1e6], (8192, 1)),
    ],
    ids=[
        "normal",
        "lognormal",
        "cauchy",
        "counts",
        "mostly zero",
        "two values",
        "constant",
        "two scales",
        "shares",
        "alternating",
    ],
)
def test_columns_with_heavy_tails_are_left_as_they_are(draw):
    """Nothing counts as another value, nor is there a warning, which would be an
    error.
    """
    X = draw(np.random.default_rng(0))
    (numbers,) = TableEncoder().fit(X).without_outliers(X, None).columns_
    assert not numbers.has_outliers.any()


def test_values_over_many_decades_stay_apart():
    """In single precision all below a millionth of the mean were one value."""
    rng = np.random.default_rng(0)
    X = np.column_stack([10.0 ** rng.uniform(-9, 3, 3000), rng.normal(5, 1, 3000)])
    X[:100, 0] = np.nan
    encoder = TableEncoder().fit(X).without_outliers(X, None)
    Z = encoder.transform(X).astype(np.float32)
    assert len(np.unique(Z[100:, 0])) == 2900
    order = np.argsort(X[100:, 0])
    assert np.all(np.diff(Z[100:, 0][order]) > 0)
    # What is missing counts as the mean, and columns of one scale have mean zero
    np.testing.assert_allclose(Z[:100, 0], Z[100:, 0].mean(), rtol=1e-5)
    assert abs(Z[:, -1].mean()) < 1e-5


def test_fences_by_columns_and_at_once_agree():
    X = np.random.default_rng(0).normal(size=(101, 3))
    for one, other in zip(
        farthest_fences(X),
        farthest_fences(np.vstack([X, np.full(3, np.nan)])),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_rows_without_weight_set_no_range():
    rng = np.random.default_rng(0)
    X = np.append(1e-9 * rng.normal(size=200), rng.normal(size=100))[:, np.newaxis]
    weight = np.repeat([0.0, 1.0], [200, 100])
    encoder = TableEncoder().fit(X, sample_weight=weight)
    assert encoder.without_outliers(X, weight) is encoder


def test_large_arrow_tables():
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    column = rng.normal(size=20_000)
    column[7] = 1e9
    with pytest.warns(UserWarning, match="Column 'a': 1e"):
        TableEncoder().fit(pa.table({"a": column})).without_outliers(
            pa.table({"a": column}), None
        )


def test_an_outlier_among_codes_is_no_code():
    rng = np.random.default_rng(0)
    codes = rng.integers(1, 8, 3000).astype(float)
    y = np.array([0, 3.0, -1, 2, 4, 0, -2])[codes.astype(int) - 1, np.newaxis]
    codes[5] = 1e9
    encoder = TableEncoder().fit(codes[:, np.newaxis])
    with pytest.warns(UserWarning, match="spread of the other values"):
        encoder = encoder.without_outliers(codes[:, np.newaxis], None)
    assert not encoder.with_codes(TargetRows(codes[:, np.newaxis], y, None, 0)).codes


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "float16"])
def test_ranges_are_those_of_numbers_whatever_their_type(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([0, 1, 120], 60), rng.integers(0, 2, 60)])
    X = (X if kind == "bool" else X - 60 * (kind != "uint8")).astype(kind)
    y = X[:, 1] + 0.1 * rng.normal(size=60)
    fitted, expected = (
        KernelMachineRegressor(random_state=0).fit(rows, y)
        for rows in (X, X.astype(np.float64))
    )
    np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))
    np.testing.assert_array_equal(
        KernelPCA(1, random_state=0).fit(X).transform(X),
        KernelPCA(1, random_state=0).fit(X.astype(np.float64)).transform(X),
    )


@pytest.mark.parametrize("far", [9999999999.0, -1e12])
def test_far_values_take_no_digits_where_columns_keep_their_units(far):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    y = np.sin(2 * X[:, 0]) + np.sin(2 * X[:, 1])
    marked = np.where(rng.uniform(size=6000) < 0.01, far, X[:, 1])
    X_far = np.column_stack([X[:, 0], marked])
    X_far[0, 1] = np.nan
    # Of many features, which are computed in single precision
    model = KernelMachineRegressor(
        Gaussian(1.5), n_components=4000, solver="cg", alpha=0.1, random_state=0
    ).fit(X_far[:5000], y[:5000])
    assert model.feature_weights_.dtype == np.float32
    near = np.flatnonzero(marked[5000:] != far) + 5000
    assert model.score(X_far[near], y[near]) > 0.98
    # A missing value is one of the others, and what has no far values stays as it was
    gap, middle = model.encoder_.transform([[0.5, np.nan], [0.5, np.median(X[:, 1])]])
    assert abs(gap[1] - middle[1]) < 0.1
    encoder = TableEncoder(with_std=False).fit(X)
    assert encoder.without_outliers(X, None) is encoder
