"""Models fitted to other rows with all that was chosen."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_regression
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    load,
    save,
)
from bochner.kernels import Gaussian, Laplacian

RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((900, 4)), RNG.standard_normal((50, 4))
Y = np.sin(2 * X[:, 0]) + np.floor(2 * X[:, 1]) + 0.1 * RNG.standard_normal(900)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
WEIGHT = RNG.uniform(0.2, 3.0, 900)
SOME = {"n_components": 100, "random_state": 0}
BOTH = ConcatenatedFeatures(
    [FourierFeatures(Gaussian(2.0), 60), BinningFeatures(Laplacian(4.0), 20)]
)
OPTIONS = [
    {},
    {"features": "binning"},
    {"features": "fourier"},
    {"features": "hybrid"},
    {"metric": "isotropic"},
    {"metric": "full", "features": "fourier"},
    {"kernel": Gaussian(2.0)},
    {"kernel": Gaussian(2.0), "alpha": [0.1, 1.0]},
    {"kernel": Gaussian(2.0), "n_components": 2000},
    {"kernel": Gaussian(2.0), "solver": "cg", "tol": 1e-6, "alpha": 0.1},
    {"features": BinningFeatures(Laplacian(4.0), 40)},
    {"features": BOTH},
    {"features": Nystroem(n_components=30)},
    {"features": FourierFeatures(Gaussian(2.0), 60, sampling="leverage"), "alpha": 0.1},
    {"kernel": "gaussian", "solver": "exact"},
]


@pytest.mark.parametrize(
    ("options", "weight"),
    [
        *((options, None) for options in OPTIONS),
        *((options, WEIGHT) for options in OPTIONS[::2]),
    ],
    ids=lambda value: "weighted" if isinstance(value, np.ndarray) else str(value),
)
def test_the_same_rows_give_the_same_model(options, weight):
    rows, target, weight = X[:240], Y[:240], None if weight is None else weight[:240]
    model = KernelMachineRegressor(**{**SOME, **options}).fit(
        rows, target, sample_weight=weight
    )
    before, alpha, kernel = model.predict(NEW), model.alpha_, model.kernel_
    assert model.refit(rows, target, sample_weight=weight) is model
    np.testing.assert_allclose(
        model.predict(NEW), before, atol=2e-3 * np.abs(before).max()
    )  # bins: tol is 1e-2
    assert (model.alpha_, model.kernel_) == (alpha, kernel)


@pytest.mark.parametrize(
    "options",
    [{}, {"features": "binning"}, {"kernel": Gaussian(2.0)}, {"solver": "exact"}],
    ids=str,
)
def test_classes(options):
    rows, labels = X[:450], LABELS[:450]
    model = KernelMachineClassifier(**{**SOME, **options}).fit(rows, labels)
    before = model.predict_proba(NEW)
    model.refit(rows, labels)
    np.testing.assert_allclose(model.predict_proba(NEW), before, atol=1e-3)
    two = model.refit(rows[labels != "high"], labels[labels != "high"])
    assert list(two.classes_) == ["high", "low", "middle"]
    assert "high" not in two.predict(NEW)


@pytest.mark.parametrize(
    "options", [{}, {"features": "binning"}, {"metric": "isotropic"}], ids=str
)
def test_more_rows_help(options):
    model = KernelMachineRegressor(**{**SOME, "n_components": 400, **options}).fit(
        X[:300], Y[:300]
    )
    few = model.score(X[600:], Y[600:])
    assert model.refit(X[:600], Y[:600]).score(X[600:], Y[600:]) > few


@pytest.mark.slow
def test_nothing_is_chosen(monkeypatch):
    model = KernelMachineRegressor(**SOME).fit(X[:600], Y[:600])
    report = model.report_
    for name in ("choose", "choose_kernel"):
        monkeypatch.setattr(f"bochner.estimators.machine.{name}", None)
    model.refit(X, Y)
    # But for the bounds of predictions, which are those of the other rows
    assert replace(model.report_, bounds=report.bounds) == report


@pytest.mark.slow
def test_frames_with_new_categories_and_sparse_rows():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        town=np.array(["Bern", "Jena"])[(X[:, 0] > 0).astype(int)]
    )
    model = KernelMachineRegressor(**SOME).fit(frame, Y)
    other = frame.assign(town=frame["town"].where(frame["a"] < 1, "Rome"))
    assert model.refit(other, Y).score(other, Y) > 0.9
    rows = sp.csr_array(X * (np.abs(X) > 0.5))
    assert (
        KernelMachineRegressor(**SOME)
        .fit(rows[:600], Y[:600])
        .refit(rows, Y)
        .score(rows, Y)
        > 0.5
    )


@pytest.mark.slow
def test_loaded_models(tmp_path):
    model = KernelMachineRegressor(**SOME).fit(X[:600], Y[:600])
    save(model, tmp_path / "model")
    again = load(tmp_path / "model").refit(X, Y)
    np.testing.assert_array_equal(again.predict(NEW), model.refit(X, Y).predict(NEW))


@pytest.mark.slow
def test_what_fails_leaves_the_model():
    model = KernelMachineRegressor(**SOME).fit(X, Y)
    before = model.predict(NEW)
    for rows, target in (
        (X[:, :3], Y),
        (X, np.column_stack([Y, Y])),
        (X, np.where(X[:, 0] > 2, np.nan, Y)),
    ):
        with pytest.raises(ValueError, match=r"features|shape|NaN"):
            model.refit(rows, target)
        np.testing.assert_array_equal(model.predict(NEW), before)
    with pytest.raises(NotFittedError):
        KernelMachineRegressor().refit(X, Y)
    classes = KernelMachineClassifier(**SOME).fit(X, LABELS)
    with pytest.raises(ValueError, match=r"other classes than \['none'\]"):
        classes.refit(X, np.where(X[:, 0] > 1, "none", LABELS))


def halves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("n_first", [300, 100])  # the first rows fix all else, or not
def test_a_refit_keeps_no_sums(n_first):
    """To which rows could be added beside those that it has left."""
    X, y = halves()
    model = KernelMachineRegressor(random_state=0)
    model.partial_fit(X[:n_first], y[:n_first] + 100).refit(X, y)
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="fit, refit and finalize keep no sums"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="can be merged"):
        model + model


def test_another_size_of_a_model_that_was_fitted_in_parts():
    X, y = halves()
    model = KernelMachineRegressor(
        features="fourier", n_components=100, random_state=0
    ).prepare(X, y)
    with pytest.raises(NotFittedError, match="has no rows yet"):
        model.resized(2)
    larger = model.partial_fit(X, y).resized(2).refit(X, y)
    assert larger.features_.n_features_out == 2 * model.features_.n_features_out
    assert larger.score(X, y) > 0.9
    for factor in (0, -1, np.nan, np.inf, "2", True):
        with pytest.raises(ValueError, match="factor must be a positive number"):
            model.resized(factor)


@pytest.mark.slow
def test_a_refit_without_a_class_that_has_a_weight():
    X, y = halves()
    labels = np.where(y > 0.8, "rare", np.where(y > 0, "b", "c"))
    common = labels != "rare"
    model = KernelMachineClassifier(class_weight={"rare": 5.0}, random_state=0)
    model.fit(X, labels).refit(X[common], labels[common])
    assert set(model.predict(X[common])) <= {"b", "c", "rare"}
    in_parts = KernelMachineClassifier(class_weight={"rare": 5.0}, random_state=0)
    in_parts.prepare(X, labels).partial_fit(X[common], labels[common])
    in_parts.partial_fit(X[~common], labels[~common])
    assert in_parts.class_count_[2] == pytest.approx(5 * np.sum(~common))
    with pytest.raises(ValueError, match="are not in class_weight"):
        KernelMachineClassifier(class_weight={"rarer": 5.0}).fit(X, labels)


@pytest.mark.parametrize("features", ["fourier", "binning"])
def test_a_resized_model_asks_for_a_refit(features):
    X, y = make_regression(200, 3, random_state=0)
    model = KernelMachineRegressor(
        features=features, metric="isotropic", n_components=20, random_state=0
    ).fit(X, y)
    other = model.resized(2)
    with pytest.raises(NotFittedError, match="refit"):
        other.predict(X)
    assert other.refit(X, y).predict(X).shape == (200,)


def test_columns_that_were_constant_are_told():
    constant = np.column_stack([X[:, :2], np.zeros(len(X))])
    model = KernelMachineRegressor("gaussian", alpha=1.0, **SOME).fit(constant, Y)
    with pytest.warns(UserWarning, match="'x2' had no two .* call fit with a sample"):
        model.refit(X[:, :3], Y)
