"""What work costs, and the sizes that follow."""

import dataclasses

import pytest

from bochner.engines.costs import COSTS, Costs
from bochner.tuning.policy import POLICY


@pytest.mark.parametrize(
    ("seconds", "work"),
    [
        (POLICY.gram_seconds, 2e12),
        (POLICY.grown_seconds, 5e12),
        (POLICY.double_seconds, 3e10),
        (POLICY.direct_share, pytest.approx(1e11 / 4, rel=1e-15)),
        (POLICY.grown_share, pytest.approx(4e10, rel=1e-15)),
    ],
)
def test_work_for_which_there_is_time(seconds, work):
    """The n D^2 that sizes have always been held to."""
    assert COSTS.gram_work(seconds) == work


def test_rates_are_small_and_do_not_change():
    assert all(0 < rate <= 1e-3 for rate in dataclasses.astuple(COSTS))
    assert Costs() == COSTS
    with pytest.raises(dataclasses.FrozenInstanceError):
        COSTS.gram = 1.0
