"""Probabilities of scores without rows to calibrate them by."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

from bochner import KernelMachineClassifier
from bochner.estimators.class_probabilities import (
    fit_link,
    fit_temperature,
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


@pytest.mark.parametrize("size", [0.0, 1e-16])
def test_equal_scores_tell_of_no_factor(size):
    rng = np.random.default_rng(0)
    scores = per_class(size * rng.standard_normal((60, 1)))
    labels = rng.integers(0, 2, 60)
    targets = 2 * np.eye(2)[labels] - 1
    assert fit_temperature(scores, targets, np.ones(60))[0] == pytest.approx(
        1, abs=1e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize("fit", [fit_link, fit_temperature])
def test_few_rows_tell_better_links_than_maximum_likelihood(fit):
    """Log losses of new rows, whose probabilities are somewhat other ones than the
    series has them, by fits to sixty rows.
    """
    rng = np.random.default_rng(0)
    is_cubic = fit is fit_link
    rows = np.full(60, 1.0)

    def draw(n):
        f = per_class(rng.uniform(-1, 1, (n, 1)))
        p = softmax(1.5 * f + is_cubic * f**3, axis=1)
        is_second = rng.uniform(size=n) < p[:, 1]
        return f, np.where(is_second[:, np.newaxis] == [False, True], 1.0, -1.0)

    def loss(link, f, targets):
        log_p = log_softmax(link[0] * f + link[1] * f**3, axis=1)
        return -log_p[targets > 0].mean()

    new = draw(20_000)
    gains = []
    for _ in range(400):
        scores, targets = draw(60)
        likeliest = minimize(
            lambda link, *few: loss([link[0], is_cubic * link[1]], *few),
            [1.0, 1.0],
            (scores, targets),
            bounds=[(1e-2, 50), (0, 50)],
        ).x * [1, is_cubic]
        gains.append(loss(likeliest, *new) - loss(fit(scores, targets, rows), *new))
    assert np.mean(gains) > 4 * np.std(gains) / np.sqrt(len(gains)) > 0


@pytest.mark.parametrize("fit", [fit_link, fit_temperature])
def test_many_rows_tell_the_link(fit):
    rng = np.random.default_rng(1)
    f = per_class(rng.uniform(-1, 1, (100_000, 1)))
    p = softmax(3 * f + (fit is fit_link) * f**3, axis=1)
    np.testing.assert_allclose(
        probabilities(f, fit(f, 2 * p - 1, np.ones(len(f)))), p, atol=2e-3
    )


@pytest.mark.parametrize("fit", [fit_link, fit_temperature])
def test_a_row_that_recurs_leaves_the_others_to_tell_the_link(fit):
    """Of nominal columns one row may be half of the table: the other half tells no less
    for it.
    """
    rng = np.random.default_rng(2)
    f = per_class(rng.uniform(-2, 2, (5_000, 1)))
    p = softmax(3 * f + (fit is fit_link) * f**3, axis=1)
    is_second = rng.uniform(size=len(f)) < p[:, 1]
    targets = np.where(is_second[:, np.newaxis] == [False, True], 1.0, -1.0)
    alone = fit(f, targets, np.ones(len(f)))
    # It is as sure as the series has it
    recurring = per_class(np.array([[-2.0]]))
    shares = softmax(3 * recurring + (fit is fit_link) * recurring**3, axis=1)
    beside = fit(
        np.concatenate([f, recurring]),
        np.concatenate([targets, 2 * shares - 1]),
        np.append(np.ones(len(f)), 5_000),
    )
    found, expected = (probabilities(f, link) for link in (beside, alone))
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("way", ["scaled", "copied"])
def test_only_ratios_of_weights_matter(loss, way):
    """Nor are copies of all rows evidence beside what theory expects."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.normal(size=60) > 0
    model = KernelMachineClassifier(random_state=0, loss=loss)
    expected = model.fit(X, y).predict_proba(X)
    if way == "scaled":
        model.fit(X, y, sample_weight=np.full(60, 1e5))
    else:
        model.fit(np.tile(X, (20, 1)), np.tile(y, 20))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


def test_a_row_far_from_all_others_does_not_make_all_unsure():
    """Scores of 1,000 rows are logarithms of their probabilities; a wrong one of
    hundreds in a single row says nothing of the others.
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 2, (1000, 3))
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    labels = (shares.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1)
    targets = 2.0 * np.eye(3)[labels] - 1
    alone = fit_temperature(scores, targets, np.ones(1000))[0]
    scores[0] = -500 * targets[0]
    assert alone == pytest.approx(1, abs=0.1)
    assert fit_temperature(scores, targets, np.ones(1000))[0] > 0.85 * alone
