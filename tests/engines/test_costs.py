"""The sizes that follow from what work costs."""

import numpy as np
import pytest

from bochner.engines.costs import gram_work, path_seconds
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY


@pytest.mark.parametrize(
    ("seconds", "work"),
    [
        (POLICY.gram_seconds, 2e12),
        (POLICY.double_seconds, 3e10),
    ],
)
def test_work_for_which_there_is_time(seconds, work):
    """The n D^2 that sizes have always been held to."""
    assert gram_work(seconds) == work


def test_features_for_which_there_is_time():
    """There is time for the direct solution of as many, but not of a tenth more."""
    size = 100_000, 50
    D = Budget(5.0).n_components(*size, 20)
    assert path_seconds(*size, D, 20) <= 5.0 < path_seconds(*size, 1.2 * D, 20)
    assert Budget(1e-9).n_components(*size, 20) == POLICY.n_components[0]
    assert Budget().n_components(*size, 20) == np.inf


def test_a_time_limit_of_less_has_less_work():
    long, short = Budget(9.0), Budget(1.0)
    assert short.is_short
    assert not long.is_short
    assert not Budget().is_short
    assert short.n_rows(10) == long.n_rows(90)
    assert short.n_components(100_000, 50, 20) < long.n_components(100_000, 50, 20)
