"""Fits in parts: the same as one fit on all rows with the same choices, in any order
and from any place.
"""

from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    load,
    merge,
    save,
)
from bochner.kernels import Gaussian, Laplacian


def rows(n=3000, d=4, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, d)).astype(dtype)
    return (
        X,
        np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n),
        rng.integers(0, 4, n),
    )


def regressor(**changes):
    given = {
        "features": FourierFeatures(Gaussian(0.5), 150, random_state=0),
        "alpha": 1e-2,
        "random_state": 0,
    }
    return KernelMachineRegressor(**(given | changes))


def in_parts(model, X, y, weight=None, size=700):
    for first in range(0, X.shape[0], size):
        part = slice(first, first + size)
        model.partial_fit(
            X[part], y[part], sample_weight=None if weight is None else weight[part]
        )
    return model


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_are_one_fit(dtype, weighted):
    X, y, weight = rows(dtype=dtype)
    weight = weight.astype(float) if weighted else None
    whole = regressor().fit(X, y, weight)
    parts = in_parts(
        regressor().prepare(X[:500], y[:500], None if weight is None else weight[:500]),
        X,
        y,
        weight,
    )
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-6 * y.std())
    assert parts.alpha_ == whole.alpha_ == 1e-2


def test_parts_are_the_ridge_regression_of_scikit_learn():
    X, y, weight = rows()
    parts = in_parts(regressor().prepare(X[:500], y[:500]), X, y, weight.astype(float))
    Z = parts.features_.transform(parts.encoder_.encode(X, np.float64))
    truth = Ridge(alpha=1e-2, solver="cholesky").fit(Z, y, weight)
    np.testing.assert_allclose(parts.predict(X), truth.predict(Z), atol=1e-6 * y.std())


def test_single_precision_is_summed_in_double():
    X, y, _ = rows(40_000)
    whole = regressor(alpha=10.0).fit(X, y)
    parts = in_parts(regressor(alpha=10.0).prepare(X, y), X, y, size=5000)
    assert parts.feature_weights_.dtype == whole.feature_weights_.dtype == np.float32
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-5 * y.std())


def test_merged_parts_are_one_fit(tmp_path):
    X, y, _ = rows()
    first = regressor().prepare(X[:500], y[:500])
    save(first, tmp_path / "first.safetensors")
    elsewhere = in_parts(load(tmp_path / "first.safetensors"), X[:1200], y[:1200])
    save(elsewhere, tmp_path / "elsewhere.safetensors")
    here = in_parts(deepcopy(first), X[1200:], y[1200:])
    truth = in_parts(deepcopy(first), X, y).predict(X)
    back = load(tmp_path / "elsewhere.safetensors")
    for part in (here, back):  # whose solution must not be that of the merged one
        assert not np.allclose(part.predict(X), truth, atol=1e-8)
    for merged in (
        merge([here, back]),
        here + back,
        merge([back, here, first]),
        merge([merge([here]), back]),
    ):
        np.testing.assert_allclose(merged.predict(X), truth, atol=1e-8)
    assert not np.allclose(here.predict(X), truth, atol=1e-8)  # which is left as it was


def test_ridge_term_is_chosen_for_the_rows_so_far():
    X, y, _ = rows()
    model = in_parts(regressor(alpha="auto").prepare(X[:1500], y[:1500]), X, y)
    whole = regressor(alpha="auto").fit(X, y)
    assert model.alpha_ == pytest.approx(whole.alpha_, rel=10)
    assert model.score(X, y) == pytest.approx(whole.score(X, y), abs=2e-3)
    before = model.feature_weights_
    assert not np.array_equal(
        model.partial_fit(X[:100], y[:100]).feature_weights_, before
    )


@pytest.mark.slow
def test_default_regressor():
    X, y, _ = rows()
    model = in_parts(
        KernelMachineRegressor(n_components=300, random_state=0), X, y, size=1000
    )
    assert (
        model.score(X, y)
        > KernelMachineRegressor(random_state=0).fit(X, y).score(X, y) - 5e-3
    )
    assert model.report_ is not None


def test_classes():
    X, _, code = rows()
    y = np.where(X[:, 0] + X[:, 1] > 1, "high", np.where(X[:, 2] > 0.8, "odd", "low"))
    features = FourierFeatures(Gaussian(0.5), 150, random_state=0)
    machine = KernelMachineClassifier(
        features=features,
        alpha=1e-2,
        loss="squared",
        class_weight={"odd": 3.0, "low": 1.0, "high": 1.0},
    )
    whole = deepcopy(machine).fit(X, y, code)
    parts = in_parts(
        deepcopy(machine).prepare(X[:600], y[:600]), X, y, code.astype(float)
    )
    np.testing.assert_allclose(
        parts.decision_function(X), whole.decision_function(X), atol=1e-6
    )
    assert parts.classes_.tolist() == ["high", "low", "odd"]
    np.testing.assert_allclose(parts.predict_proba(X).sum(axis=1), 1)


@pytest.mark.slow
def test_a_class_that_comes_later():
    X, _, _ = rows()
    X = X[np.argsort(X[:, 0])]
    y = (X[:, 0] > 0.5).astype(int)
    model = KernelMachineClassifier(n_components=100, random_state=0)
    with pytest.warns(UserWarning, match="have none of '1': shuffle the rows"):
        model.partial_fit(X[:1000], y[:1000], classes=[0, 1])
    assert model.partial_fit(X[1000:], y[1000:]).score(X, y) > 0.95
    with pytest.raises(
        ValueError, match=r"y holds \[2\], which are not among the classes \[0, 1\]"
    ):
        model.partial_fit(X[:10], np.full(10, 2))
    with pytest.raises(ValueError, match="classes are not those of the first call"):
        model.partial_fit(X[:10], y[:10], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        KernelMachineClassifier().partial_fit(X, y)


@pytest.mark.slow
def test_frames_and_columns_by_name():
    X, y, _ = rows(1500)
    town = np.where(X[:, 0] > 0.5, "Bern", "Jena")
    frame = pl.DataFrame(
        {"a": X[:, 1], "town": town, "price": y, "weight": np.ones(len(y))}
    )
    model = regressor(features="fourier", n_components=64).prepare(
        frame[:500], "price", "weight"
    )
    later = frame.with_columns(
        town=pl.when(pl.col("a") > 0.9).then(pl.lit("Ulm")).otherwise("town")
    )
    for part in (frame[:700], later[700:]):
        model.partial_fit(part, "price", sample_weight="weight")
    whole = regressor(features="fourier", n_components=64).fit(frame, "price", "weight")
    assert (
        model.feature_names_in_.tolist()
        == whole.feature_names_in_.tolist()
        == ["a", "town"]
    )
    assert np.isfinite(model.predict(later.drop("price", "weight"))).all()
    with pytest.raises(ValueError, match="X has no column 'prize'"):
        model.partial_fit(frame, "prize")


def test_sparse_rows(tmp_path):
    X = sp.random(2000, 30, 0.2, "csr", random_state=np.random.default_rng(0))
    y = np.asarray(X.sum(axis=1)).ravel()
    model = in_parts(
        regressor(features="fourier", n_components=100, alpha="auto").prepare(
            X[:800], y[:800]
        ),
        X,
        y,
    )
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors").partial_fit(X[:300], y[:300])
    Z = model.features_.transform(model.encoder_.encode(X, np.float64))
    for found, weight in (
        (model, np.ones(2000)),
        (again, 1.0 + (np.arange(2000) < 300)),
    ):
        truth = (
            Ridge(alpha=found.alpha_, solver="cholesky").fit(Z, y, weight).predict(Z)
        )
        np.testing.assert_allclose(found.predict(X), truth, atol=1e-6 * y.std())
    assert not np.allclose(model.predict(X), again.predict(X), atol=1e-6 * y.std())


def test_hashed_bins():
    X, y, _ = rows()
    features = BinningFeatures(Laplacian(2.0), n_grids=30, n_buckets=32, random_state=0)
    model = in_parts(
        regressor(features=features, alpha=1.0).prepare(X[:500], y[:500]), X, y
    )
    Z = model.features_.transform(model.encoder_.encode(X, np.float64)).toarray()
    truth = Ridge(alpha=1.0, solver="cholesky").fit(Z, y)
    np.testing.assert_allclose(model.predict(X), truth.predict(Z), atol=1e-6 * y.std())
    assert model.solver_ == "direct"


def test_learned_bins_are_hashed(monkeypatch):
    monkeypatch.setattr("bochner.estimators.machine.HASHED_COLUMNS", 640)
    X, y, _ = rows()
    model = in_parts(
        KernelMachineRegressor(features="binning", random_state=0).prepare(
            X[:1500], y[:1500]
        ),
        X,
        y,
    )
    Z = model.features_.transform(model.encoder_.encode(X, np.float64)).toarray()
    assert Z.shape[1] == 640
    truth = Ridge(alpha=model.alpha_, solver="cholesky").fit(Z, y)
    np.testing.assert_allclose(model.predict(X), truth.predict(Z), atol=1e-6 * y.std())
    new, expected = np.random.default_rng(1).uniform(size=(500, 4)), model.score(X, y)
    assert (
        model.score(new, np.sin(5 * new[:, 0]) + new[:, 1] * new[:, 2])
        > expected - 0.02
        > 0.9
    )


def test_learned_bins_of_sums_have_no_linear_map(monkeypatch):
    """Whose bins would be beside others, where sums are of one map."""
    monkeypatch.setattr("bochner.estimators.machine.HASHED_COLUMNS", 640)
    X, y, _ = rows(2500)
    model = KernelMachineRegressor(features="binning", random_state=0)
    model.prepare(X, y).partial_fit(X, y)
    assert not model.metric_.linear_.size
    Z = model.features_.transform(model.encoder_.encode(X, np.float64)).toarray()
    truth = Ridge(alpha=model.alpha_, solver="cholesky").fit(Z, y)
    np.testing.assert_allclose(model.predict(X), truth.predict(Z), atol=1e-6 * y.std())


@pytest.mark.slow
def test_what_cannot_be_summed_is_refused():
    X, y, _ = rows(500)
    for features in (BinningFeatures(), BinningFeatures(n_grids=200, n_buckets=1000)):
        with pytest.raises(ValueError, match=r"fit\(source\), or use n_buckets=128"):
            regressor(features=features).prepare(X, y)
        assert not hasattr(regressor(features=features), "partial_fit")
    for change in ({"solver": "cg"}, {"features": "hybrid", "alpha": "auto"}):
        with pytest.raises(ValueError, match="sums moments"):
            regressor(**change).prepare(X, y)
    model = KernelMachineRegressor(
        features="binning", metric="isotropic", n_components=10
    ).partial_fit(X, y)
    assert model.features_.n_features_out == 4000  # of 500 rows


def test_a_prepared_model_has_no_rows():
    X, y, _ = rows(500)
    model = regressor().prepare(X, y)
    assert not hasattr(model, "feature_weights_")
    with pytest.raises(NotFittedError, match="has no rows yet: call partial_fit"):
        model.predict(X)
    with pytest.raises(AttributeError, match="no attribute 'nonsense_'"):
        _ = model.nonsense_


def test_only_machines_of_one_class_are_merged():
    X, y, _ = rows(300)
    numbers = KernelMachineRegressor(random_state=0).prepare(X, y)
    classes = KernelMachineClassifier(random_state=0).prepare(X, y > 0)
    for models in ([numbers, classes], "ab", [numbers, 1]):
        with pytest.raises(ValueError, match="cannot be merged"):
            merge(models)


def test_other_choices_are_not_merged():
    X, y, _ = rows(800)
    one = regressor().partial_fit(X, y)
    for other in (
        regressor(alpha=1.0),
        regressor(features=FourierFeatures(Gaussian(0.5), 150, random_state=1)),
    ):
        with pytest.raises(ValueError, match="cannot be merged"):
            one + other.partial_fit(X, y)
    with pytest.raises(ValueError, match="cannot be merged"):
        merge([one, regressor().partial_fit(X[:400], y[:400])])
    with pytest.raises(ValueError, match="can be merged"):
        one + regressor().fit(X, y)
    with pytest.raises(ValueError, match="no model"):
        merge([])


def test_what_needs_all_rows_is_refused():
    X, y, _ = rows(500)
    for change in ({"loss": "huber"}, {"uncertainty": True}, {"alpha": "loo"}):
        with pytest.raises(ValueError, match="needs all rows in memory"):
            KernelMachineRegressor(**change).partial_fit(X, y)
    with pytest.raises(ValueError, match="class_weight='balanced'"):
        KernelMachineClassifier(class_weight="balanced").partial_fit(
            X, y > 0, classes=[False, True]
        )


def test_a_fitted_model_is_not_thrown_away():
    X, y, _ = rows(800)
    model = regressor().partial_fit(X, y)
    once = model.feature_weights_
    np.testing.assert_array_equal(model.fit(X, y).feature_weights_.shape, once.shape)
    expected = model.predict(X)
    with pytest.raises(ValueError, match=r"call prepare .* call refit"):
        model.partial_fit(X[:400], y[:400])
    np.testing.assert_array_equal(model.predict(X), expected)
    with pytest.raises(ValueError, match="finalize keep no sums"):
        regressor().partial_fit(X, y).finalize().partial_fit(X, y)


def spoilt(X, y, how):
    """A batch that is to be refused: rows, targets and weights."""
    weight = np.ones(len(y))
    if how == "missing target":
        y = np.where(np.arange(len(y)) == 3, np.nan, y)
    elif how == "infinite value":
        X = np.where(np.arange(len(X))[:, np.newaxis] == 3, np.inf, X)
    elif how == "other width":
        X = X[:, :-1]
    elif how == "other targets":
        y = np.column_stack([y, y])
    elif how == "negative weight":
        weight = -weight
    return X, y, weight


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "missing target",
        "infinite value",
        "other width",
        "other targets",
        "negative weight",
    ],
)
@pytest.mark.parametrize("n_first", [40, 100, 300])
def test_a_refused_batch_leaves_the_rows_before(how, n_first):
    """Whether the first rows are kept, or due to fix the encodings again, or have
    fixed them for good.
    """
    X, y, _ = rows(600)
    model, twin = (
        KernelMachineRegressor("gaussian", n_components=64, random_state=0)
        for _ in range(2)
    )
    model.partial_fit(X[:n_first], y[:n_first])
    twin.partial_fit(X[:n_first], y[:n_first])
    for size in (10, 200):
        with pytest.raises(ValueError):
            model.partial_fit(*spoilt(X[-size:], y[-size:], how))
    np.testing.assert_array_equal(model.predict(X), twin.predict(X))
    for some in (slice(n_first, n_first + 30), slice(n_first + 30, 600)):
        model.partial_fit(X[some], y[some])
        twin.partial_fit(X[some], y[some])
    np.testing.assert_array_equal(model.predict(X), twin.predict(X))


def test_batches_of_other_kinds_are_refused_while_the_rows_are_few():
    X, y, _ = rows(60)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelMachineRegressor(
        "gaussian", n_components=64, random_state=0
    ).partial_fit(frame[:30], y[:30])
    before = model.predict(frame)
    with pytest.raises(ValueError, match="column 'a' holds"):
        model.partial_fit(frame[30:].assign(a="u"), y[30:])
    names = pytest.warns(UserWarning, match="feature names")
    with (
        names,
        pytest.raises(
            ValueError, match="Some rows are data frames and some are arrays"
        ),
    ):
        model.partial_fit(X[30:], y[30:])
    np.testing.assert_array_equal(model.predict(frame), before)


@pytest.mark.parametrize("n_first", [40, 300])
def test_a_refused_batch_of_labels_leaves_the_rows_before(n_first):
    X, y, _ = rows(600)
    labels = np.where(y > np.median(y), "up", "down")
    model, twin = (
        KernelMachineClassifier("gaussian", n_components=64, random_state=0)
        for _ in range(2)
    )
    for one in (model, twin):
        one.partial_fit(X[:n_first], labels[:n_first], classes=["down", "up"])
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[-20:], np.full(20, "sideways"))
    for one in (model, twin):
        one.partial_fit(X[n_first:], labels[n_first:])
    np.testing.assert_array_equal(model.predict_proba(X), twin.predict_proba(X))


def test_finalized_models_are_small_and_take_no_more(tmp_path):
    X, y, _ = rows(800)
    model = regressor().partial_fit(X, y)
    save(model, tmp_path / "sums.safetensors")
    predicted = model.predict(X)
    save(model.finalize(), tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_size < 0.5 * (
        tmp_path / "sums.safetensors"
    ).stat().st_size
    np.testing.assert_array_equal(
        load(tmp_path / "model.safetensors").predict(X), predicted
    )


def test_intervals():
    X, y, _ = rows()
    model = in_parts(
        regressor(uncertainty="intervals", alpha="auto").prepare(X[:1500], y[:1500]),
        X,
        y,
    )
    ends = model.predict_interval(X, coverage=0.9)
    assert 0.85 < np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) < 0.95
