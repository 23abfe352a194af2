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
