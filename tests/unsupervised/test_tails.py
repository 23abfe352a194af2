"""Tail shares of few values, by hand."""

import numpy as np
import pytest

from bochner.unsupervised.novelty_detector import log_tail, tail_table

FIVE = [2.0, 5.0, 1.0, 3.0, 2.0], np.ones(5)
WEIGHTED = [5.0, 3.0, 2.0, 1.0, 9.0], [1.0, 1.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("values", "weight"), [FIVE, WEIGHTED], ids=["rows", "weights"]
)
def test_equal_values_are_one_knot_at_the_middle_of_their_ranks(values, weight):
    """Of five rows the greatest value is beyond half a row, and the two equal ones
    are beyond two and one.
    """
    table = tail_table(np.array(values), np.array(weight))
    np.testing.assert_allclose(
        table,
        [[1, np.log(0.9)], [2, np.log(0.6)], [3, np.log(0.3)], [5, np.log(0.1)]],
        atol=4e-6,
    )
    np.testing.assert_allclose(
        np.exp(log_tail(table, np.array([2.0, 2.5]))),
        [0.6, np.sqrt(0.6 * 0.3)],
        rtol=1e-5,
    )


def test_beyond_the_greatest_value_the_tail_falls_as_before():
    """As that of an exponential law does, and below the least it rises towards one."""
    table = tail_table(np.array([1.0, 2.0, 3.0, 5.0]), np.ones(4))
    slope = (np.log(1 / 8) - np.log(3 / 8)) / (5 - 3)
    np.testing.assert_allclose(
        log_tail(table, np.array([7.0])), np.log(1 / 8) + 2 * slope, rtol=1e-5
    )
    below = log_tail(table, np.array([-100.0, 0.0, 1.0]))
    assert np.all(np.diff(below) < 0)
    assert below[0] < 0
