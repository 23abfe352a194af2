"""A short slice of the campaign of numbers at the edge, and what it has found."""

import warnings

import numbers_at_the_edge
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

import bochner as bo
from bochner.features.nystroem import k_means
from bochner.kernels import Gaussian
from bochner.selection.lengthscale import deviations

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X[:, 0] + np.sin(2 * X[:, 1])


@pytest.mark.parametrize("first", range(100, 160, 15))
def test_slice(first):
    for seed in range(first, first + 6):
        case, verdict = numbers_at_the_edge.judge(seed)
        assert not verdict.wrong, f"{case}: {verdict.wrong}"


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1e-310, 1e-200, 1.0, 1e200])
def test_linear_features_scale_columns_of_any_size(size, sparse):
    rows = sp.csr_matrix(X * size) if sparse else X * size
    found = bo.LinearFeatures().fit(rows).transform(rows)
    np.testing.assert_allclose(
        found, StandardScaler().fit_transform(X), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-300, 1.0, 2.0**300, 2.0**1000])
def test_k_means_of_rows_of_any_size(size):
    centres = k_means(X, np.ones(60), X[:5])
    np.testing.assert_array_equal(
        k_means(X * size, np.ones(60), X[:5] * size), centres * size
    )


@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
@pytest.mark.parametrize("size", [1e-250, 1.0, 1e200, 1e300])
def test_deviations_of_columns_of_any_size(size, form):
    weight = rng.uniform(size=60)
    mean = np.average(X, axis=0, weights=weight)
    expected = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(
        deviations(form(X * size), weight), expected * size, rtol=1e-12
    )


def test_deviations_far_from_zero_lose_no_digits():
    np.testing.assert_allclose(
        deviations(X + 1e9, np.ones(60)), X.std(axis=0), rtol=1e-6
    )


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_explanations_of_columns_of_any_size_add_up(size):
    model = bo.KernelMachineRegressor(features=bo.LinearFeatures(), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.fit(X * size, y).explain(X[:5] * size)
    assert np.abs(found.values).max() > 0.1
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values,
        model.predict(X[:5] * size),
        rtol=1e-9,
    )


@pytest.mark.parametrize("weight", [1.0, 2.0**-9, 2.0**-30])
def test_light_rows_give_a_classifier_too(weight):
    """The ridge penalty follows a common weight, and where one is best at which nothing
    is gained, no step is lost.

    Penalties begin where another one ended. The best one may end there, and the model
    forgot how it had come there.
    """
    model = bo.KernelMachineClassifier(
        features=bo.LinearFeatures(), loss="logistic", random_state=0
    )
    found = model.fit(X, y > 0, sample_weight=np.full(60, weight)).predict_proba(X)[
        :, 1
    ]
    assert roc_auc_score(y > 0, found) > 0.95
    assert log_loss(y > 0, found) < 0.35


def test_deviations_of_predictions_of_huge_columns():
    """Their error scale took a metric in single precision, which does not hold them."""
    model = bo.KernelMachineRegressor(
        kernel=Gaussian(1e160), n_components=20, uncertainty="std", random_state=0
    )
    mean, deviation = model.fit(X * 1e160, y).predict(X * 1e160, return_std=True)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()
    assert np.corrcoef(mean, y)[0, 1] > 0.9
