"""Calibration is that of scikit-learn's curve, and a weight is as many equal rows."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve

from bochner.scores import (
    equal_count_bins,
    expected_calibration_error,
    judged_event,
    reliability,
    wilson_interval,
)

RNG = np.random.default_rng(0)
P = RNG.beta(0.5, 0.7, 3000)
EVENT = RNG.random(3000) < P**1.5


def test_bins_are_those_of_sklearn():
    frequency, probability = calibration_curve(EVENT, P, n_bins=15, strategy="quantile")
    found = reliability(EVENT, P)
    np.testing.assert_array_equal(found.weight, 200)
    np.testing.assert_allclose(found.probability, probability, rtol=1e-12)
    np.testing.assert_allclose(found.frequency, frequency, rtol=1e-12)
    assert expected_calibration_error(EVENT, P) == pytest.approx(
        np.abs(frequency - probability).mean()
    )


def test_the_error_of_right_probabilities_is_noise_and_that_of_wrong_ones_is_not():
    p = RNG.random((200, 3000))
    right = [expected_calibration_error(RNG.random(3000) < row, row) for row in p]
    spread = np.sqrt(np.mean(p * (1 - p)) / 200) * np.sqrt(2 / np.pi)
    assert np.mean(right) == pytest.approx(spread, rel=0.05)
    assert expected_calibration_error(
        RNG.random(200_000) < 0.5, np.full(200_000, 0.7)
    ) == pytest.approx(0.2, abs=0.005)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 15, 500])
def test_weights_are_equal_rows_and_order_does_not_matter(n_bins):
    p, event = np.round(P[:400], 2), EVENT[:400]
    weight = RNG.integers(0, 4, 400)
    one, other = (
        reliability(event, p, n_bins, weight),
        reliability(np.repeat(event, weight), np.repeat(p, weight), n_bins),
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    order = RNG.permutation(400)
    again = reliability(event[order], p[order], n_bins, weight[order])
    np.testing.assert_allclose(again.frequency, one.frequency)
    assert one.error == pytest.approx(other.error)
    assert len(one.weight) <= n_bins


def test_bins_hold_equal_counts_and_equal_values():
    x = RNG.permutation(1003)
    counts = np.bincount(equal_count_bins(x, 10))
    assert counts.max() - counts.min() <= 1
    tied = equal_count_bins(
        np.repeat([0.0, 1.0, 2.0], [50, 3, 47]), 10
    )  # the end of a bin after 0 and after 2 only
    assert np.bincount(tied).tolist() == [50, 50]
    assert equal_count_bins(np.zeros(5), 3).tolist() == [0] * 5


def test_the_event_of_two_classes_and_of_more():
    happened, p = judged_event([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    assert (happened.tolist(), p.tolist()) == ([False, True, True], [0.1, 0.8, 0.3])
    happened, p = judged_event([0, 2], [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    assert (happened.tolist(), p.tolist()) == ([True, False], [0.5, 0.5])


@pytest.mark.parametrize(("right", "n"), [(0, 7), (7, 7), (3, 10), (90, 100)])
def test_intervals_of_shares_are_those_of_scipy(right, n):
    exact = binomtest(right, n).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson_interval(right / n, n), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0, 1], [0.5]), "one length"),
        (([0, 1], [0.5, 1.5]), "within 0 and 1"),
        (([0, 2], [0.5, 0.5]), "judged_event"),
        (([], []), "one row at least"),
        (([0, 1], [0.5, np.nan]), "one number for each row"),
        (([0, 1], [0.5, 0.5], 0), "n_bins"),
        (([0, 1], [0.5, 0.5], 2, [0, 0]), "sample_weight"),
        (([0, 1], [0.5, 0.5], 2, [1, -1]), "sample_weight"),
    ],
)
def test_refusals(arguments, match):
    with pytest.raises(ValueError, match=match):
        reliability(*arguments)
    with pytest.raises(ValueError, match="shapes"):
        judged_event([0, 1], [0.5, 0.5])
