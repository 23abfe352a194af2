"""Probabilities of scores without rows to calibrate them by."""

import numpy as np
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from bochner.estimators.class_probabilities import (
    fit_stack,
    link_of,
    per_class,
    probabilities,
    stacked_scores,
)
from bochner.selection.validation import HeldOutPredictions


def test_two_classes_by_one_score():
    """Half the score each way: softmax of 2 f / 2 + (2 / 3) (f / 2)^3 and of its
    opposite.
    """
    f = np.linspace(-1.5, 1.5, 7)[:, np.newaxis]
    p = probabilities(per_class(f), link_of(None, 2))
    np.testing.assert_allclose(p[:, 1:], expit(2 * f + f**3 / 6), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_more_classes_by_their_scores():
    f = np.random.default_rng(0).uniform(-1, 1, (5, 3))
    np.testing.assert_allclose(
        probabilities(per_class(f), link_of(None, 3)),
        softmax(2 * f + 2 / 3 * f**3, axis=1),
    )


def test_stack_is_a_logistic_regression_on_both_scores():
    """On f, f^3 and g without an intercept, by scikit-learn, where no coefficient
    would be negative.
    """
    rng = np.random.default_rng(0)
    f, g = rng.uniform(-1.5, 1.5, (2, 20_000, 1))
    y = 2.0 * (rng.uniform(size=f.shape) < expit(0.8 * f + 0.5 * f**3 + 1.2 * g)) - 1
    one, two = (HeldOutPredictions(scores, y, np.ones(len(y))) for scores in (f, g))
    basis = np.hstack([f / 2, (f / 2) ** 3, g / 2])
    expected = (
        LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10)
        .fit(basis, y[:, 0] > 0)
        .coef_[0]
        / 2
    )
    stack = fit_stack(one, two)
    np.testing.assert_allclose(stack, expected, rtol=0.02)
    np.testing.assert_allclose(
        stacked_scores(np.hstack([f, g]), stack)[:, 0], 2 * basis @ stack, rtol=1e-12
    )


def test_stack_leaves_out_what_adds_nothing():
    rng = np.random.default_rng(1)
    f = rng.uniform(-1, 1, (5_000, 3))
    y = (
        2.0
        * (
            np.arange(3)
            == (3 * f + rng.gumbel(size=f.shape)).argmax(axis=1)[:, np.newaxis]
        )
        - 1
    )
    one, two = (HeldOutPredictions(scores, y, np.ones(len(y))) for scores in (f, -f))
    assert fit_stack(one, two)[2] == 0
    assert not fit_stack(two, one)[:2].any()
