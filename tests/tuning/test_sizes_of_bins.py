"""The size of a metric for bins."""

import numpy as np
import pytest

from bochner.tuning.bins import STEP, coarse
from bochner.tuning.judge import Trial

ROWS = 400


class Mean:
    """Judges by plain means of losses."""

    def average(self, losses):
        return float(losses.mean())

    def standard_error(self, losses):
        return float(losses.std() / np.sqrt(len(losses)))


def tried(loss, noise, *sizes):
    """Losses of rows whose mean is that of the size, and whose differences between sizes have a given deviation."""
    signs = np.resize([-1.0, 1.0], ROWS)
    return {
        size: Trial(loss(size) + noise * k * signs, np.ones(1), 1, np.zeros((ROWS, 1)), 0.0)
        for k, size in enumerate(sizes)
    }


@pytest.mark.parametrize("bend", [0.01, 0.3, 5.0])
@pytest.mark.parametrize("off", [-0.2, 0.0, 0.24])
def test_without_noise_it_is_the_least_of_a_parabola(bend, off):
    found = coarse(tried(lambda size: 1 + bend * (size - 3 - off) ** 2, 0.0, 2.5, 3.0, 3.5), 3.0, Mean())
    assert found == pytest.approx(3 + off, abs=1e-6)


def test_with_noise_it_is_coarser_by_half_a_standard_error():
    bend, noise = 0.3, 0.08
    found = coarse(tried(lambda size: 1 + bend * (size - 3) ** 2, noise, 2.5, 3.0, 3.5), 3.0, Mean())
    assert found < 3
    assert bend * (found - 3) ** 2 == pytest.approx(0.5 * noise / np.sqrt(ROWS), rel=1e-6)


def test_is_never_beyond_what_was_tried():
    assert coarse(tried(lambda size: 1 + 1e-9 * (size - 3) ** 2, 1.0, 2.5, 3.0, 3.5), 3.0, Mean()) == 3 - STEP


@pytest.mark.parametrize("sizes", [(3.0,), (2.5, 3.0), (3.0, 3.5)])
def test_stays_where_neighbours_are_not_known(sizes):
    assert coarse(tried(lambda size: (size - 3) ** 2, 0.0, *sizes), 3.0, Mean()) == 3.0


def test_stays_where_losses_do_not_bend():
    assert coarse(tried(lambda size: 1.0, 0.0, 2.5, 3.0, 3.5), 3.0, Mean()) == 3.0
    assert coarse(tried(lambda size: np.inf if size < 3 else 1.0, 0.0, 2.5, 3.0, 3.5), 3.0, Mean()) == 3.0
