"""Scores of intervals against scikit-learn's pinball loss and a slow count."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

from bochner.scores import (
    interval_coverage,
    interval_losses,
    interval_score,
    interval_width,
)

RNG = np.random.default_rng(0)
Y = RNG.standard_normal(500)
CENTRE, HALF = RNG.standard_normal(500), RNG.random(500)
INTERVAL = np.stack([CENTRE - HALF, CENTRE + HALF], axis=1)


@pytest.mark.parametrize("coverage", [0.1, 0.8, 0.99])
@pytest.mark.parametrize("weight", [None, RNG.integers(0, 3, 500)])
def test_the_score_is_that_of_the_pinball_losses(coverage, weight):
    tail = (1 - coverage) / 2
    losses = [
        mean_pinball_loss(Y, end, alpha=q, sample_weight=weight)
        for end, q in zip(INTERVAL.T, (tail, 1 - tail), strict=True)
    ]
    assert interval_score(Y, INTERVAL, coverage, weight) == pytest.approx(
        sum(losses) / tail
    )


def test_coverage_and_width_are_counted():
    inside = [low <= y <= high for y, (low, high) in zip(Y, INTERVAL, strict=True)]
    assert interval_coverage(Y, INTERVAL) == np.mean(inside)
    assert interval_width(INTERVAL) == pytest.approx(2 * HALF.mean())
    assert interval_coverage(INTERVAL[:, 0], INTERVAL) == 1.0  # ends are inside
    weight = RNG.integers(0, 3, 500)
    assert interval_coverage(Y, INTERVAL, weight) == pytest.approx(
        interval_coverage(np.repeat(Y, weight), np.repeat(INTERVAL, weight, axis=0))
    )


def test_several_targets_are_averaged():
    two, both = (
        np.column_stack([Y, -Y]),
        np.stack([INTERVAL, -INTERVAL[:, ::-1]], axis=1),
    )
    assert interval_losses(two, both, 0.9).shape == (500, 2)
    for score in (
        interval_coverage,
        lambda y, interval: interval_score(y, interval, 0.9),
    ):
        assert score(two, both) == pytest.approx(score(Y, INTERVAL))
    assert interval_width(both) == pytest.approx(interval_width(INTERVAL))


def test_the_quantiles_have_the_least_score():
    y = RNG.standard_normal(100_000)
    best = norm.ppf(0.95)
    scores = [
        interval_score(y, np.tile([-z, z], (len(y), 1)), 0.9)
        for z in (best, 0.9 * best, 1.1 * best)
    ]
    assert scores[0] == min(scores)
    assert scores[0] == pytest.approx(2 * norm.pdf(best) / 0.05, rel=0.01)


def test_refusals():
    with pytest.raises(ValueError, match="coverage must be within 0 and 1"):
        interval_score(Y, INTERVAL, 90)
    with pytest.raises(ValueError, match="do not match"):
        interval_coverage(Y[:3], INTERVAL)
    for wrong in (Y, INTERVAL[:0]):
        with pytest.raises(ValueError, match="interval must be of shape"):
            interval_width(wrong)
    with pytest.raises(ValueError, match="sample_weight"):
        interval_width(INTERVAL, np.zeros(500))
