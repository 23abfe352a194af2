"""Corrected quantiles of scores against exact probabilities of order statistics."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from scipy.stats import beta

from bochner.solvers.conformal import (
    effective_rows,
    in_order,
    require_rows,
    rows_needed,
)

RNG = np.random.default_rng(0)
SCORES = RNG.standard_normal((99, 2))
ONES = np.ones(99)


@pytest.mark.parametrize("n", [99, 48, 37])
@pytest.mark.parametrize(
    "q", ["0.03", "0.05", "0.25", "0.49", "0.5", "0.9", "0.95", "0.97"]
)
def test_they_are_the_order_statistics_of_the_theorem(n, q):
    """Of 99 rows all ranks (n + 1) q are whole numbers; of the others most, without
    the correction, are one off.
    """
    rank = (n + 1) * Fraction(q)
    rank = ceil(rank) if Fraction(q) >= Fraction(1, 2) else floor(rank)
    found = in_order(SCORES[:n], ONES[:n]).quantiles(np.array([float(q)]))
    np.testing.assert_array_equal(found[0], np.sort(SCORES[:n], axis=0)[rank - 1])


def test_between_the_ranks_upper_ends_go_up_and_lower_ones_down():
    values = np.sort(SCORES, axis=0)
    found = in_order(SCORES, ONES).quantiles(np.array([0.904, 0.096, 0.501, 0.499]))
    np.testing.assert_array_equal(found, values[[90, 8, 50, 48]])


@pytest.mark.parametrize("n", [20, 37, 48, 99])
def test_without_a_guarantee_they_are_between_the_ranks(n):
    """Type 6 of Hyndman and Fan, which is Weibull's."""
    q = np.array([0.05, 0.06, 0.25, 0.49, 0.5, 0.51, 0.9, 0.949, 0.95])
    quantiles = in_order(SCORES[:n], ONES[:n]).quantiles(q, guaranteed=False)
    expected = np.quantile(SCORES[:n], q, axis=0, method="weibull")
    np.testing.assert_allclose(quantiles, expected, atol=1e-13)


@pytest.mark.parametrize("q", [0.07, 0.2, 0.76, 0.83, 0.925])
def test_without_a_guarantee_coverage_is_the_nominal_one(q):
    """A uniform score is below the mean of the ends with a probability of q, where a
    whole rank would be up to 1 / 20 off.
    """
    draws = np.random.default_rng(7).uniform(size=(2000, 19, 1))
    ends = np.array(
        [
            in_order(scores, np.ones(19)).quantiles(np.array([q]), False).item()
            for scores in draws
        ]
    )
    assert abs(ends.mean() - q) < 4 * ends.std() / np.sqrt(len(ends))


def test_without_a_guarantee_weights_share_out_what_is_between_the_ranks():
    """The mean of the quantiles of repeated rows over the share of one row."""
    weight = RNG.integers(1, 5, 99).astype(float)
    n = effective_rows(weight)
    for q in (0.1, 0.3, 0.62, 0.9):
        quantile = in_order(SCORES, weight).quantiles(np.array([q]), False)[0]
        upper = max(q, 1 - q) * (1 + 1 / n)
        below = upper - (np.arange(4000) + 0.5) / 4000 / n
        shares = below if q > 0.5 else 1 - below
        repeated = np.repeat(SCORES, weight.astype(int), axis=0)
        steps = np.quantile(repeated, shares, axis=0, method="inverted_cdf")
        np.testing.assert_allclose(quantile, steps.mean(axis=0), atol=1e-3)


def test_without_a_guarantee_quantiles_do_not_cross_and_ties_are_kept():
    weight = RNG.exponential(size=99)
    q = np.linspace(0.03, 0.97, 400)
    quantiles = in_order(SCORES, weight).quantiles(q, guaranteed=False)
    assert (np.diff(quantiles, axis=0) >= -1e-14).all()
    ties = np.repeat([[0.1], [0.7]], 50, axis=0)
    quantiles = in_order(ties, np.ones(100)).quantiles(np.array([0.2, 0.9]), False)
    np.testing.assert_array_equal(quantiles, [[0.1], [0.7]])


def test_coverage_of_many_draws_is_that_of_the_theorem():
    """A new uniform score is at most the k-th smallest of n with a probability that
    is Beta(k, n + 1 - k).
    """
    n, q, draws = 29, 0.9, 4000
    ends = np.array(
        [
            in_order(u, np.ones(n)).quantiles(np.array([q]))[0, 0]
            for u in RNG.uniform(size=(draws, n, 1))
        ]
    )
    exact = beta(27, 3)
    assert abs(ends.mean() - exact.mean()) < 4 * exact.std() / np.sqrt(draws)
    assert exact.mean() >= q
    assert abs(ends.std() / exact.std() - 1) < 0.06


@pytest.mark.parametrize("q", [0.003, 0.1, 0.5, 0.95, 0.975, 0.999])
def test_as_many_rows_are_needed_as_leave_a_tail(q):
    n = rows_needed(q)
    ranks = np.arange(1, n + 1)
    assert (ranks / (n + 1) >= max(q, 1 - q) - 1e-9).any()
    assert not (np.arange(1, n) / n >= max(q, 1 - q) + 1e-9).any()
    values = np.arange(float(n))[:, np.newaxis]
    assert in_order(values, np.ones(n)).quantiles(np.array([q])).item() in (
        0.0,
        n - 1.0,
    )
    if n > 1:
        with pytest.raises(ValueError, match=f"needs {n:,} rows"):
            in_order(values[1:], np.ones(n - 1)).quantiles(np.array([q]))


def test_no_rows_are_too_few():
    with pytest.raises(ValueError, match=r"needs 19 rows .* there are 0"):
        in_order(np.empty((0, 1)), np.empty(0)).quantiles(np.array([0.05]))
    with pytest.raises(ValueError, match=r"coverage of at most 0\.8,"):
        require_rows(9.0, 0.95)


@pytest.mark.parametrize("q", [0.07, 0.3, 0.5, 0.8, 0.93])
def test_equal_weights_are_as_none(q):
    plain = in_order(SCORES, ONES).quantiles(np.array([q]))
    np.testing.assert_array_equal(
        in_order(SCORES, 7 * ONES).quantiles(np.array([q])), plain
    )


def test_a_weight_counts_as_so_many_rows():
    weight = RNG.integers(1, 5, 99).astype(float)
    found = in_order(SCORES, weight).quantiles(np.array([0.1, 0.9]))
    repeated = np.sort(np.repeat(SCORES, weight.astype(int), axis=0), axis=0)
    n = effective_rows(weight)
    upper = int(np.ceil(0.9 * (1 + 1 / n) * len(repeated) - 1e-6)) - 1
    np.testing.assert_array_equal(found[1], repeated[upper])
    np.testing.assert_array_equal(found[0], repeated[len(repeated) - 1 - upper])


def test_the_effective_number_of_rows_is_that_of_the_variance():
    assert effective_rows(np.full(7, 0.1)) == pytest.approx(7)
    weight = np.array([1.0, 1.0, 2.0])
    assert effective_rows(weight) == pytest.approx(16 / 6)
    assert 1 / effective_rows(weight) == pytest.approx(np.square(weight / 4).sum())
