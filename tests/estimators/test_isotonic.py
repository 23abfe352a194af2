"""The isotonic curve that takes the place of the link of two numbers."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from bochner import KernelMachineClassifier, load, save
from bochner.estimators.class_probabilities import (
    curve_if_better,
    curve_probabilities,
    fit_curve,
)
from bochner.kernels import Gaussian


def scored(n=4000, K=3, seed=0):
    """Scores, and classes drawn by probabilities that are no softmax of a cubic in
    them.
    """
    rng = np.random.default_rng(seed)
    f = rng.uniform(-1.5, 1.5, (n, K))
    p = np.where(f > 0, 0.9, 0.02) + 0.05 * expit(4 * f)
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return f, np.eye(K)[y], p


def test_against_scikit_learn():
    f, members, _ = scored()
    weight = np.random.default_rng(1).uniform(0, 2, len(f))
    oracle = IsotonicRegression(
        out_of_bounds="clip", y_min=1 / 4002, y_max=1 - 1 / 4002
    )
    oracle.fit(f.ravel(), members.ravel(), weight.repeat(3))
    new = np.random.default_rng(2).uniform(-3, 3, (100, 3))
    each = oracle.predict(new.ravel()).reshape(new.shape)
    found = curve_probabilities(new, fit_curve(f, members, weight))
    np.testing.assert_allclose(found, each / each.sum(axis=1, keepdims=True), atol=1e-5)


def test_keeps_the_order_of_the_classes():
    f, members, _ = scored()
    curve = fit_curve(f, members, np.ones(len(f)))
    new = np.random.default_rng(2).uniform(-9, 9, (1000, 3))
    p = curve_probabilities(new, curve)
    np.testing.assert_array_equal(p.argmax(axis=1), new.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    assert p.min() > 0


def test_is_taken_where_it_is_better():
    f, members, p = scored()
    plain = softmax(2 * f, axis=1)
    curve = curve_if_better(f, members, np.ones(len(f)), plain)
    new, truth, _ = scored(seed=1)
    losses = [
        -(truth * np.log(q)).sum(axis=1).mean()
        for q in (curve_probabilities(new, curve), softmax(2 * new, axis=1))
    ]
    assert losses[0] < losses[1] - 0.05
    assert curve_if_better(f, members, np.ones(len(f)), p) is None
    assert curve_if_better(f, members, np.ones(len(f)), plain, most=f.size - 1) is None


def test_is_not_taken_of_few_rows():
    f, members, _ = scored(999)
    assert curve_if_better(f, members, np.ones(999), np.full(f.shape, 1 / 3)) is None
    more, others, _ = scored(1500)
    assert (
        curve_if_better(
            more,
            others,
            (np.arange(1500) < 999).astype(float),
            np.full(more.shape, 1 / 3),
        )
        is None
    )


def test_is_not_taken_of_few_rows_of_a_class():
    """Steps between 40 rows of one class and 5,000 of the other are chance."""
    rng = np.random.default_rng(0)
    is_rare = np.arange(5040) < 40
    f = np.where(is_rare, 1.0, -1.0) + 0.2 * rng.standard_normal(5040)
    members = np.eye(2)[is_rare.astype(int)]
    scores = np.stack([-f, f], axis=1)
    plain = softmax(0.5 * scores, axis=1)
    weight = np.ones(5040)
    assert curve_if_better(scores, members, weight, plain) is None
    # As many rows of equal classes have one
    others = members[:, ::-1]
    both = np.concatenate([scores, scores[:, ::-1]])
    evenly = np.concatenate([members, others])
    assert (
        curve_if_better(both, evenly, np.ones(len(both)), softmax(0.5 * both, axis=1))
        is not None
    )


@pytest.mark.parametrize("K", [2, 3])
def test_of_a_machine(K, tmp_path):
    """Scores that tell only on which side a row is, and labels of which some are
    wrong.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    sector = (
        np.floor((np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi) + 0.5) * K).astype(int) % K
    )
    y = np.where(rng.random(3000) < 0.15, rng.integers(0, K, 3000), sector)
    model = KernelMachineClassifier(
        kernel=Gaussian(0.2), n_components=200, alpha=1.0, random_state=0
    ).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(
        model.classes_[proba.argmax(axis=1)], model.predict(X)
    )
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        load(tmp_path / "model.safetensors").predict_proba(X), proba
    )
    model.curve_ = fit_curve(
        np.linspace(-1, 1, 50)[:, None], np.linspace(0.1, 0.9, 50)[:, None], np.ones(50)
    )
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(
        model.classes_[proba.argmax(axis=1)], model.predict(X)
    )
    np.testing.assert_allclose(proba.sum(axis=1), 1)
