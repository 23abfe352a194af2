"""Predictions: the same to the bit by any number of threads, and by one row or many
at a time.
"""

import pickle
import threading
import warnings
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.kernel_approximation import Nystroem

from bochner import (
    AnchorFeatures,
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
)
from bochner.data.table import TableEncoder
from bochner.engines import local
from bochner.features import Metric, MetricFeatures, TransformerFeatures
from bochner.kernels import Gaussian, Laplacian, SmoothBins
from bochner.loops.compile import LOOPS
from bochner.planning.request import FitRequest

METRIC = Metric(
    4,
    [3, 0, 1],
    [2.0, 1.0, 1.0],
    warped=[1],
    knots=[[0.0, 1.0]],
    levels=[[0.0, 2.0]],
    slopes=[0.5],
)
MIXED = METRIC.mixed([[1.0, 0.5], [-0.5, 1.0]])
BINS = MetricFeatures(METRIC, BinningFeatures(Laplacian(3.0), 9))
MAPS = {
    "bins": BINS,
    "smooth bins": BinningFeatures(SmoothBins(6.0), 9),
    "buckets": BinningFeatures(Laplacian(6.0), 9, n_buckets=20),
    "side by side": ConcatenatedFeatures(
        [
            BINS,
            MetricFeatures(MIXED, FourierFeatures(Gaussian(2.0), 40)),
            LinearFeatures(),
        ],
        [1.0, 2.0, 0.5],
    ),
}
rng = np.random.default_rng(0)
X, NEW = rng.standard_normal((400, 4)), rng.standard_normal((700, 4))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])


def regressor(name, y=Y):
    return KernelMachineRegressor(features=MAPS[name], alpha=0.1, random_state=0).fit(
        X, y
    )


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def precision(request, monkeypatch):
    """Of the models that are fitted."""
    monkeypatch.setattr(FitRequest, "dtype", lambda *_: np.dtype(request.param))
    return request.param


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", MAPS)
def test_any_number_of_threads(name, threads, precision, monkeypatch):
    model = regressor(name)
    expected = model.predict(NEW, n_jobs=1)
    monkeypatch.setattr(local, "n_threads", lambda: threads)
    monkeypatch.setattr("bochner.features.grids.BLOCK_ROWS", 100)
    again = regressor(name)
    for n_jobs in (None, -1, 1, 2, 3, np.int64(4)):
        np.testing.assert_array_equal(again.predict(NEW, n_jobs=n_jobs), expected)


@pytest.mark.parametrize("name", MAPS)
def test_some_rows_at_a_time(name, precision):
    """Bins have the bits of all rows at once; products of matrices round as their
    sizes let them.
    """
    model = regressor(name)
    expected = model.predict(NEW)
    for rows in (1, 3, 8, 9, 100):
        found = np.vstack(
            [model.predict(NEW[a : a + rows]) for a in range(0, 200, rows)]
        )
        if name == "bins":
            np.testing.assert_array_equal(found[:200], expected[: len(found)][:200])
        np.testing.assert_allclose(
            found[:200], expected[:200], rtol=0, atol=200 * np.finfo(precision).eps
        )


@pytest.mark.parametrize("name", MAPS)
def test_is_the_product_of_features_and_coefficients(name, precision):
    """By the sparse or dense features themselves, in double precision; each row is a
    sum of 49 terms at most.
    """
    model = regressor(name)
    Z = model.features_.transform(model.encoder_.encode(NEW, precision)).astype(float)
    scores = Z @ model.feature_weights_.astype(float) + model.intercept_
    size = np.asarray((abs(Z) @ np.abs(model.feature_weights_)).max())
    found = (model.predict(NEW) - model.target_mean_) / model.target_scale_
    np.testing.assert_allclose(
        found, scores, rtol=0, atol=60 * np.finfo(precision).eps * size
    )


def test_classes_and_their_probabilities():
    for labels in (Y[:, 0] > 0, np.digitize(Y[:, 0], [-0.5, 0.5])):
        model = KernelMachineClassifier(
            features=MAPS["side by side"], random_state=0
        ).fit(X, labels)
        for method in (model.predict, model.predict_proba, model.decision_function):
            np.testing.assert_array_equal(method(NEW, n_jobs=1), method(NEW))


def test_one_is_the_calling_thread_alone(monkeypatch):
    """No other thread writes features."""
    model, seen, write = regressor("side by side"), set(), FourierFeatures.write

    def note(self, rows, out):
        seen.add(threading.get_ident())
        write(self, rows, out)

    monkeypatch.setattr(local, "n_threads", lambda: 4)
    monkeypatch.setattr(FourierFeatures, "write", note)
    model.predict(NEW, n_jobs=1)
    assert seen == {threading.get_ident()}


@pytest.mark.slow
@pytest.mark.parametrize("Machine", [KernelMachineRegressor, KernelMachineClassifier])
def test_few_rows_start_no_thread(Machine, monkeypatch):
    """Of a model of the sizes that fits choose; loops are never parallel by
    themselves, and many rows are shared.
    """
    maps = [FourierFeatures(Gaussian(2.0), 2048), BinningFeatures(Laplacian(3.0), 800)]
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = Machine(
        features=ConcatenatedFeatures(maps, [1.0, 1.0]), alpha=0.1, random_state=0
    )
    model.fit(frame, Y[:, 0] > 0 if Machine is KernelMachineClassifier else Y[:, 0])
    assert not any(loop.targetoptions.get("parallel") for loop in LOOPS)

    def refuse(*arguments):
        raise AssertionError("A thread was asked for.")

    monkeypatch.setattr(local, "n_threads", lambda: 4)
    monkeypatch.setattr(local._pool, "submit", refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for n_rows in (1, 10, 100):
        model.predict(frame[:n_rows])
        if Machine is KernelMachineClassifier:
            model.predict_proba(frame[:n_rows])
    with pytest.raises(AssertionError, match="A thread was asked for"):
        model.predict(pd.concat([frame] * 5))


@pytest.mark.parametrize(
    ("n_jobs", "error", "message"),
    [
        (
            0,
            ValueError,
            "n_jobs must be positive, or -1 or None for all threads, got 0",
        ),
        (-2, ValueError, "got -2"),
        (1.5, TypeError, "n_jobs must be an integer or None, got 1.5"),
        ("all", TypeError, "got 'all'"),
        (True, TypeError, "got True"),
    ],
)
def test_refuses_what_is_no_number_of_threads(bins_regressor, n_jobs, error, message):
    with pytest.raises(error, match=message):
        bins_regressor.model.predict(NEW, n_jobs=n_jobs)


def test_sparse_rows_have_the_bins_of_dense_ones():
    sparse = sp.csr_array(X * (np.abs(X) > 1))
    model = KernelMachineRegressor(
        features=BinningFeatures(Laplacian(6.0), 9), alpha=0.1, random_state=0
    )
    model.fit(sparse, Y)
    rows = sp.csr_array(NEW * (np.abs(NEW) > 1))
    encoded = model.encoder_.encode(rows, np.float64)
    found = model.features_.dot(encoded, model.feature_weights_)
    np.testing.assert_allclose(
        found,
        model.features_.dot(encoded.toarray(), model.feature_weights_),
        rtol=0,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "method", ["predict_interval", "decision_function", "predict_set"]
)
def test_rows_of_files(method, tmp_path):
    """As those of the frame, whatever the method."""
    frame = pd.DataFrame(X, columns=[f"column{j}" for j in range(X.shape[1])])
    frame.to_parquet(tmp_path / "rows.parquet")
    if method == "predict_interval":
        model = KernelMachineRegressor(
            Gaussian(2.0), alpha=0.1, uncertainty="intervals"
        ).fit(frame, Y[:, 0])
    else:
        model = KernelMachineClassifier(Gaussian(2.0), alpha=0.1).fit(
            frame, Y[:, 0] > 0
        )
    found = getattr(model, method)
    assert_allclose(found(tmp_path / "rows.parquet"), found(frame), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "dtype"),
    [
        ("fourier", np.float32),
        ("fourier", np.int64),
        ("fourier", np.float64),
        ("binning", np.float64),
        ("hybrid", np.float64),
    ],
)
def test_a_few_rows_are_predicted_as_any(features, dtype):
    """To the bit as a list of lists, which takes the general way; missing values
    take it too.
    """
    rng = np.random.default_rng(0)
    X = (10 * rng.standard_normal((300, 4))).astype(dtype)
    y = np.sin(X[:, 0] / 5) + X[:, 1] / 10
    for model, target in (
        (KernelMachineRegressor, y),
        (KernelMachineClassifier, y > 0),
    ):
        fitted = model(features=features, n_components=50, random_state=0).fit(
            X, target
        )
        names = (
            ["predict"]
            if model is KernelMachineRegressor
            else ["predict", "predict_proba", "decision_function"]
        )
        for method in (getattr(fitted, name) for name in names):
            for rows in (X[:1], X[5:12], X[200:]):
                np.testing.assert_array_equal(method(rows), method(rows.tolist()))
            np.testing.assert_array_equal(method(X[:1], n_jobs=1), method(X[:1]))


MORE_MAPS = {
    "cosines": FourierFeatures(Gaussian(2.0), 31),
    "transform": FourierFeatures(Gaussian(2.0), 64, sampling="structured"),
    "anchors": AnchorFeatures(20, 3),
    "transformer": TransformerFeatures(Nystroem(n_components=10, random_state=0)),
}


@pytest.mark.parametrize("features", [*MAPS, *MORE_MAPS])
def test_a_few_rows_are_predicted_as_any_by_every_map(features, monkeypatch):
    model = KernelMachineRegressor(
        features=(MAPS | MORE_MAPS)[features], alpha=1.0, random_state=0
    ).fit(X, Y)
    expected = []
    for rows in (NEW[:1], NEW[:9], NEW[:100]):
        expected.append(model.predict(rows))
    monkeypatch.setattr(TableEncoder, "encode_few", lambda *arguments: None)
    for found in expected:
        np.testing.assert_array_equal(model.predict(NEW[: len(found)]), found)


def frame_of(n, seed=0):
    """Columns of many types, with missing values, rare categories and such that the
    fit may not see.
    """
    rng = np.random.default_rng(seed)
    towns = [f"town {k}" for k in range(130)]
    return pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n)),
            "count": rng.integers(0, 9, n).astype(np.int16),
            "truth": rng.random(n) < 0.5,
            "kind": pd.Categorical(
                rng.choice(["a", "b", None], n), categories=["b", "unused", "a"]
            ),
            "level": pd.Categorical(rng.integers(0, 3, n) + seed),
            "town": rng.choice(towns, n),
            "thing": pd.Series(
                rng.choice(["x", "y", None, f"only in {seed}"], n), dtype=object
            ),
        }
    )


@pytest.mark.parametrize(
    "columns", [["number", "count"], ["number", "kind", "town"], list(frame_of(1))]
)
def test_a_few_rows_of_a_frame_are_predicted_as_any(columns, monkeypatch):
    frame, new = frame_of(600)[columns], frame_of(90, seed=1)[columns]
    model = KernelMachineClassifier(features="fourier", n_components=20, random_state=0)
    model.fit(frame, frame["number"].fillna(0) > 0.3)
    arrays = []
    # Which are numbers to polars
    texts = {name: str for name in columns if name == "level"}
    polars = [pl.from_pandas(rows.astype(texts)) for rows in (new[:1], new[7:8], new)]
    for rows in (
        frame[:1],
        new[:1],
        new[7:8],
        *polars,
        new[:1],
        new,
        new[::-1],
        new.convert_dtypes()[:5],
    ):
        few = model.encoder_.encode_few(rows, np.float64)
        assert (few is None) == (
            isinstance(rows, pd.DataFrame) and "level" in columns
        )  # categories that are numbers
        arrays.append((rows, model.decision_function(rows), model.predict_proba(rows)))
    monkeypatch.setattr(TableEncoder, "encode_few", lambda *arguments: None)
    for rows, scores, shares in arrays:
        np.testing.assert_array_equal(model.decision_function(rows), scores)
        np.testing.assert_array_equal(model.predict_proba(rows), shares)


WRONG = {
    "count": pl.lit("3"),
    "kind": pl.lit(1.5),
    "thing": pl.lit([1]),
    "town": pl.lit(True),
    "number": pl.lit(np.inf),
    "truth": pl.lit(date(2020, 1, 1)),
    "level": pl.lit(b"1"),
}


def test_a_row_of_a_frame_that_is_wrong_is_refused_or_warned_of_as_many_are(
    monkeypatch,
):
    frame = frame_of(200)
    model = KernelMachineRegressor(features="fourier", n_components=20, random_state=0)
    model.fit(frame, frame["count"])
    of_array = KernelMachineRegressor(
        features="fourier", n_components=20, random_state=0
    )
    of_array.fit(frame[["number", "count"]].fillna(0).to_numpy(), frame["count"])
    row = frame[:1]
    bad = [
        (model, row.drop(columns="count")),
        (model, row[["count", *row.columns.drop("count")]]),
        (model, pd.concat([row, row["count"]], axis=1)),
        (model, row.rename(columns={"count": 3})),
        (model, row[:0]),
        (model, row.assign(count="many")),
        (model, row.assign(count=pd.Categorical([3]))),
        (model, row.assign(kind=1.5)),
        (model, row.assign(thing=[[1]])),
        (model, row.assign(thing=pd.Series(["\ud800"], dtype=object))),
        (model, row.assign(number=np.inf)),
        (model, row.assign(number=1e300, count=1e300)),
        (model, row.assign(number=pd.Timestamp("2020"))),
        (model, row.to_numpy()),
        (model, pl.from_pandas(row).drop("count")),
        (model, pl.from_pandas(row[["count", *row.columns.drop("count")]])),
        (model, pl.from_pandas(row[:0])),
        *[
            (model, pl.from_pandas(row).with_columns(**{name: value}))
            for name, value in WRONG.items()
        ],
        (of_array, row[["number", "count"]].fillna(0)),
    ]

    def answer(model, rows):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = model.predict(rows).tolist()
            except (ValueError, TypeError) as error:
                found = str(error)
        return found, [str(warning.message) for warning in caught]

    found = [answer(*pair) for pair in bad]
    assert found[-1][1]
    monkeypatch.setattr(TableEncoder, "encode_few", lambda *arguments: None)
    assert found == [answer(*pair) for pair in bad]


def test_what_an_encoder_keeps_for_later_rows_is_not_saved():
    frame = frame_of(200).drop(columns="level")
    encoder = TableEncoder().fit(frame)
    before = pickle.dumps(encoder)
    assert encoder.encode_few(frame[:1], np.float32) is not None
    assert pickle.dumps(encoder) == before
    other = frame.assign(kind=pd.Categorical(["a"] * 200, categories=["a"]))
    np.testing.assert_array_equal(
        encoder.encode_few(other[:3], np.float32), encoder.transform(other[:3])
    )
    encoder.partial_fit(frame.assign(kind=pd.Categorical(["c"] * 200)))
    np.testing.assert_array_equal(
        encoder.encode_few(frame[:3], np.float32), encoder.transform(frame[:3])
    )


def test_a_row_that_is_wrong_is_refused_as_many_are(line_regressor, monkeypatch):
    """With the same texts as the general way has, also after a right one."""
    model, X = line_regressor.model, line_regressor.X
    model.predict(X[:1])
    row, text = X[:1], np.array([["a", "b", "c", "d"]])
    bad = [
        row[:, :2],
        X[0],
        X[:0],
        row.astype(complex),
        text,
        row * np.inf,
        row * 1e300,
        row > 0,
    ]

    def answer(rows):
        try:
            return model.predict(rows).tolist()
        except ValueError as error:
            return str(error)

    found = [answer(rows) for rows in bad]
    assert "X has 2 features, but KernelMachineRegressor is expecting 4" in found[0]
    monkeypatch.setattr(TableEncoder, "encode_few", lambda *arguments: None)
    assert found == [answer(rows) for rows in bad]
