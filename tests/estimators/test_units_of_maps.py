"""A fitted map belongs to its encoder, and the kernel of a model is one of rows in
their own units.
"""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from bochner import (
    ConcatenatedFeatures,
    FourierFeatures,
    KernelCCA,
    KernelKMeans,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    load,
    save,
)
from bochner.features import MetricFeatures
from bochner.kernels import Gaussian
from bochner.selection import learn_metric


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).uniform(size=(400, 3)) * [100, 1, 0.01]
    return X, np.sin(X[:, 0] / 15) + X[:, 1]


@pytest.fixture(scope="module")
def learned(rows):
    return KernelMachineRegressor("gaussian", n_components=64, random_state=0).fit(
        *rows
    )


@pytest.fixture(scope="module")
def isotropic(rows):
    return KernelMachineRegressor(
        "gaussian", metric="isotropic", n_components=64, random_state=0
    ).fit(*rows)


def test_maps_that_were_fitted_behind_an_encoder_are_refused(
    rows, learned, isotropic, tmp_path
):
    save(learned, tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    maps = [
        learned.features_,
        loaded.features_,
        deepcopy(learned.features_),
        learned.resized(2).features_,
        isotropic.features_,
        clone(isotropic.features_),
        clone(KernelMachineRegressor(features=isotropic.features_)).features,
        ConcatenatedFeatures([learned.features_, FourierFeatures(Gaussian(), 10)]),
        MetricFeatures(learned.metric_, FourierFeatures(Gaussian(), 10)),
    ]
    for machine in (KernelMachineRegressor, KernelMachineClassifier):
        y = rows[1] > 0 if machine is KernelMachineClassifier else rows[1]
        for features in maps:
            with pytest.raises(
                ValueError, match=r"refit on the fitted model, and resized\(factor\)"
            ):
                machine(features=features).fit(rows[0], y)


def test_parts_of_a_hybrid_that_was_fitted_are_refused_one_by_one(rows, tmp_path):
    hybrid = KernelMachineRegressor(
        features="hybrid", n_components=32, random_state=0
    ).fit(*rows)
    save(hybrid, tmp_path / "model.safetensors")
    for features in (
        hybrid.features_,
        load(tmp_path / "model.safetensors").features_,
        hybrid.resized(2).features_,
    ):
        parameters = features.get_params(deep=False)["maps"]
        for part in (*parameters, ConcatenatedFeatures(parameters)):
            with pytest.raises(ValueError, match="refit on the fitted model"):
                KernelMachineRegressor(features=clone(part)).fit(*rows)


def test_kernels_that_were_learned_behind_an_encoder_are_refused(rows, learned):
    for kernel in (
        learned.kernel_,
        clone(learned.kernel_),
        2 * learned.kernel_,
        learned.kernel_ + Gaussian(),
        Gaussian() * learned.kernel_,
    ):
        with pytest.raises(ValueError, match="kernel was taken from a fitted model"):
            KernelMachineRegressor(kernel).fit(*rows)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (KernelPCA, "features"),
        (KernelPCA, "kernel"),
        (KernelKMeans, "features"),
        (KernelCCA, "features"),
        (KernelCCA, "kernel"),
    ],
)
def test_other_estimators_refuse_them_where_columns_keep_their_units(
    rows, isotropic, kind, part
):
    X, y = rows
    given = {part: getattr(isotropic, f"{part}_")}
    targets = (np.column_stack([y, X[:, 2]]),) if kind is KernelCCA else ()
    with pytest.raises(ValueError, match=f"{part} was taken from a fitted model"):
        kind(2, standardize=False, random_state=0, **given).fit(X, *targets)
    assert kind(2, random_state=0, **given).fit(X, *targets)


def test_the_cures_work(rows, learned):
    X, y = rows
    refitted = deepcopy(learned).refit(X, y)
    np.testing.assert_allclose(refitted.predict(X), learned.predict(X), rtol=1e-5)
    assert learned.resized(2).refit(X, y).features_.n_features_out == 128
    assert KernelMachineRegressor(
        features=FourierFeatures(Gaussian([15, 1, 1]), 64, random_state=0)
    ).fit(X, y)


def test_maps_in_units_of_the_columns_may_be_given_again(rows):
    X, y = rows
    metric = learn_metric(X, y, random_state=0)
    first = KernelMachineRegressor(
        features=MetricFeatures(metric, FourierFeatures(Gaussian(), 64, random_state=0))
    )
    features = first.fit(X, y).features_
    again = KernelMachineRegressor(features=features).fit(X, y)
    np.testing.assert_allclose(again.predict(X), first.predict(X), rtol=1e-6)
    kernel = KernelMachineRegressor(
        Gaussian([15, 1, 1]), n_components=64, random_state=0
    ).fit(X, y)
    assert KernelMachineRegressor(features=kernel.features_).fit(X, y).score(
        X, y
    ) == kernel.score(X, y)


def test_kernel_matrix_is_what_the_features_estimate(rows):
    X, y = rows
    model = KernelMachineRegressor(
        "gaussian", n_components=8192, alpha=1.0, random_state=0
    ).fit(X, y)
    K, Z = (
        model.kernel_matrix(X[:20], X[20:50]),
        model.features_.transform(model.encoder_.transform(X[:50])),
    )
    noise = 1 / np.sqrt(4096)  # of the mean of products of cosines and sines, at most
    assert np.abs(K - Z[:20] @ Z[20:].T).max() < 5 * noise
    assert (
        np.abs(model.kernel_(X[:20], X[20:50]) - K).max() > 0.5
    )  # of rows in other units
    np.testing.assert_allclose(np.diag(model.kernel_matrix(X[:5])), 1)


def test_kernel_matrix_of_the_exact_solver_gives_its_predictions(rows):
    X, y = rows
    model = KernelMachineRegressor(
        "gaussian", solver="exact", alpha=0.1, random_state=0
    ).fit(X, y)
    K = model.kernel_matrix(X[:20], X)
    np.testing.assert_allclose(
        (K @ model.feature_weights_ + model.intercept_)[:, 0] * model.target_scale_
        + model.target_mean_,
        model.predict(X[:20]),
        rtol=1e-8,
    )


@pytest.mark.slow
def test_kernel_matrix_of_sums_text_and_linear_maps():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y", "z"], 300)})
    y = X["a"] + (X["b"] == "x")
    model = KernelMachineRegressor(
        features="hybrid", n_components=512, random_state=0
    ).fit(X, y)
    K = model.kernel_matrix(X[:30])
    Z = model.features_.transform(model.encoder_.transform(X[:30]))
    assert np.abs(K - (Z @ Z.T).toarray()).max() < 5 * K.max() / np.sqrt(256)
    assert np.linalg.eigvalsh(K).min() > -1e-8 * K.max()
    linear = KernelMachineRegressor(random_state=0).fit(X, y)
    assert linear.report_.chosen == "linear model"
    Z = linear.features_.transform(linear.encoder_.transform(X[:30]))
    np.testing.assert_allclose(linear.kernel_matrix(X[:30]), Z @ Z.T, atol=1e-5)
