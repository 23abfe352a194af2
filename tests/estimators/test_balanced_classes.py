"""class_weight="balanced" goes by the weights of the rows, as if they were repeated."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from bochner import KernelMachineClassifier


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    return (
        X,
        np.digitize(X[:, 0] + rng.normal(size=80), [-1, 0.5]),
        rng.integers(0, 4, 80),
    )


def fitted(X, y, weight=None, class_weight="balanced"):
    model = KernelMachineClassifier(
        "gaussian",
        n_components=30,
        alpha=0.1,
        class_weight=class_weight,
        random_state=0,
    )
    return model.fit(X, y, weight)


def test_weights_are_repeats(rows):
    X, y, weight = rows
    repeated = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(fitted(X, y, weight).class_count_, repeated.class_count_)
    np.testing.assert_allclose(repeated.class_count_, weight.sum() / 3)


def test_factors_are_those_of_scikit_learn(rows):
    X, y, _ = rows
    factors = dict(
        enumerate(compute_class_weight("balanced", classes=np.arange(3), y=y))
    )
    one, two = fitted(X, y), fitted(X, y, class_weight=factors)
    np.testing.assert_allclose(one.class_count_, two.class_count_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X))


def test_a_class_without_weight_is_left_out(rows):
    X, y, _ = rows
    model = fitted(X, y, (y != 1) * 1.0)
    np.testing.assert_allclose(
        model.class_count_, [40 - (y == 1).sum() / 2, 0, 40 - (y == 1).sum() / 2]
    )
    assert (model.predict_proba(X)[:, 1] == 0).all()
