"""Probabilities of scores without rows to calibrate them by."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from bochner.estimators.class_probabilities import (
    link_of,
    per_class,
    probabilities,
)


def test_two_classes_by_one_score():
    """Half the score each way: softmax of 2 f / 2 + (2 / 3) (f / 2)^3 and of its
    opposite.
    """
    f = np.linspace(-1.5, 1.5, 7)[:, np.newaxis]
    p = probabilities(per_class(f), link_of(None, "squared"))
    np.testing.assert_allclose(p[:, 1:], expit(2 * f + f**3 / 6), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_more_classes_by_their_scores():
    f = np.random.default_rng(0).uniform(-1, 1, (5, 3))
    np.testing.assert_allclose(
        probabilities(per_class(f), link_of(None, "squared")),
        softmax(2 * f + 2 / 3 * f**3, axis=1),
    )


@pytest.mark.parametrize("link", [[50.0, 0.0], [2.0, 2 / 3]])
def test_scores_at_the_end_of_the_range(link):
    """Their multiples, and the differences of these, are beyond it."""
    largest = 2.0 if link[1] else np.inf
    scores = np.array([[1e308, -1e308], [-1.7e308, 1.7e308]])
    with np.errstate(all="raise", under="ignore"):
        found = probabilities(scores, np.array(link), None, largest)
    np.testing.assert_array_equal(found, [[1, 0], [0, 1]])


def test_huge_scores_keep_their_order():
    """As `predict` has it, which takes the largest one."""
    scores = np.array([[1e40, 1e45, 0.0]])
    found = probabilities(scores, np.array([1.0, 0.0]), None, np.inf)
    np.testing.assert_array_equal(found, [[0, 1, 0]])
