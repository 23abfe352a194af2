"""Line searches on a grid."""

import numpy as np
import pytest

from bochner.solvers.line_search import coarser_minimum, walk_downhill


def parabola(bend, least):
    """Losses at -1, 0, 1."""
    return tuple(1 + bend * (point - least) ** 2 for point in (-1.0, 0.0, 1.0))


class TestCoarserMinimum:
    @pytest.mark.parametrize("bend", [0.01, 0.3, 5.0])
    @pytest.mark.parametrize("off", [-0.2, 0.0, 0.24])
    def test_without_noise_it_is_the_least_of_a_parabola(self, bend, off):
        assert coarser_minimum(parabola(bend, off), 0.0) == pytest.approx(off, abs=1e-6)

    def test_with_noise_it_is_coarser_by_as_much(self):
        found = coarser_minimum(parabola(0.3, 0.0), 0.002)
        assert found < 0
        assert 0.3 * found**2 == pytest.approx(0.002, rel=1e-6)

    def test_is_never_beyond_what_was_tried(self):
        assert coarser_minimum(parabola(1e-9, 0.0), 1.0) == -1

    @pytest.mark.parametrize("losses", [(1.0, 1.0, 1.0), (np.inf, 1.0, 1.0)])
    def test_stays_where_losses_do_not_bend(self, losses):
        assert coarser_minimum(losses, 0.0) == 0


class TestWalk:
    @pytest.mark.parametrize("least", [-3.0, 0.0, 0.5, 4.0])
    def test_ends_at_the_least(self, least):
        assert (
            walk_downhill(lambda point: (point - least) ** 2, 0.0, 0.5, 20.0) == least
        )

    def test_looks_one_way_as_long_as_that_pays(self):
        seen = []
        walk_downhill(
            lambda point: seen.append(point) or (point - 2) ** 2, 0.0, 1.0, 20.0
        )
        assert min(seen) == 0

    @pytest.mark.parametrize("sign", [1, -1])
    def test_ends_far_out(self, sign):
        assert abs(walk_downhill(lambda point: sign * point, 0.0, 1.0, 5.0)) == 5

    def test_stays_on_a_plain(self):
        assert walk_downhill(lambda point: 1.0, 3.0, 1.0, 5.0) == 3
