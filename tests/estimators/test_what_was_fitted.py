"""Answers and refits go by what was fitted, and not by parameters that have changed
since.
"""

from copy import deepcopy

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bochner import KernelMachineClassifier, KernelMachineRegressor


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
@pytest.mark.parametrize("features", ["fourier", "binning"])
def test_a_refit_to_the_same_rows_is_the_same_classifier(loss, features):
    X, y = load_iris(return_X_y=True)
    X, y = (
        np.tile(X, (2, 1)) + np.random.default_rng(0).normal(0, 0.05, (300, 4)),
        np.tile(y, 2),
    )
    options = {
        "features": features,
        "n_components": 40,
        "loss": loss,
        "random_state": 0,
    }
    model = KernelMachineClassifier(**options).fit(X, y)
    again = deepcopy(model).refit(X, y)
    assert model.loss_ == loss
    np.testing.assert_allclose(
        again.predict_proba(X), model.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile", "poisson"])
def test_parameters_that_change_after_a_fit_change_no_prediction(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(np.exp(0.5 + X[:, 0]))
    model = KernelMachineRegressor(
        "gaussian", n_components=40, loss=loss, random_state=0
    )
    before = model.fit(X, y).predict(X)
    refitted = deepcopy(model).refit(X, y).predict(X)
    other = "poisson" if loss == "squared" else "squared"
    model.set_params(loss=other)
    assert model.loss_ == loss
    np.testing.assert_array_equal(model.predict(X), before)
    np.testing.assert_array_equal(deepcopy(model).refit(X, y).predict(X), refitted)
    np.testing.assert_allclose(refitted, before, rtol=1e-5)
    explanation = model.explain(X[:2])
    np.testing.assert_array_equal(
        explanation.predictions,
        deepcopy(model).set_params(loss=loss).explain(X[:2]).predictions,
    )
    assert model.fit(X, y).loss_ == other
