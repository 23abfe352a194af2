"""Which solver serves a problem."""

import numpy as np
import pytest
from sklearn.base import clone

from bochner import BinningFeatures, ConcatenatedFeatures, FourierFeatures
from bochner.kernels import Gaussian, Laplacian
from bochner.planning.cost_model import (
    ProblemSize,
    by_leverage,
    choose_solver,
    direct_seconds,
    iterations,
    iterative_seconds,
)

FOURIER = FourierFeatures(Gaussian(2.0), 40, random_state=0)
BINS = BinningFeatures(Laplacian(8.0), 30, random_state=1)
MIXED = ConcatenatedFeatures([FOURIER, BINS])


def task(n, searched=False, calibrated=False, alpha=1.0, K=1):
    return ProblemSize(
        n, K, float(n), None if searched else np.array([alpha]), calibrated
    )


class TestPlan:
    def drawn(self, D, features=None):
        return clone(features or FourierFeatures(Gaussian(), D, random_state=0)).draw(2)

    @pytest.mark.parametrize("n", [1, 1000, 20_000])
    @pytest.mark.parametrize("searched", [False, True])
    def test_small_problems_are_solved_directly(self, n, searched):
        solver, reason = choose_solver("auto", self.drawn(2000), task(n, searched))
        assert solver == "direct"
        assert "times the work of the Gram matrix" in reason

    def test_large_ones_are_not(self, monkeypatch):
        monkeypatch.setattr(
            "bochner.planning.cost_model.available_memory", lambda: None
        )
        assert (
            choose_solver("auto", self.drawn(20_000), task(522_000, True)).solver
            == "cg"
        )
        assert (
            choose_solver("auto", self.drawn(2048), task(60_000, True)).solver
            == "direct"
        )

    def test_memory_decides_first(self, monkeypatch):
        features = self.drawn(2000)
        monkeypatch.setattr(
            "bochner.planning.cost_model.available_memory", lambda: 44 * 2000**2
        )
        solver, reason = choose_solver("auto", features, task(5000, True))
        assert solver == "cg"
        assert "2,000 features does not fit in the free memory" in reason
        assert choose_solver("direct", features, task(1000, True)).solver == "direct"

    def test_every_run_is_counted(self):
        """That for rows left out, at which the last one begins; the search as a run
        on fewer rows.
        """
        n, D = 261_000, 5000
        once, again = (
            iterative_seconds(D, task(n, calibrated=calibrated))
            for calibrated in (False, True)
        )
        assert 1.2 * once < again < 1.7 * once
        assert iterative_seconds(D, task(n, searched=True)) > iterative_seconds(
            D, task(n, alpha=1.6e-5 * n)
        )
        assert iterative_seconds(D, task(n, K=3)) > 1.4 * once

    def test_small_ridge_terms_take_more_iterations(self):
        n = 261_000
        seconds = [
            iterative_seconds(5000, task(n, alpha=alpha))
            for alpha in (10.0, 1.0, 0.1, 0.01)
        ]
        assert seconds == sorted(seconds)
        assert seconds[-1] > 2 * seconds[0]
        assert [iterations(alpha, 1.0) for alpha in (1e3, 1e-300)] == [7, 500]

    def test_rows_are_drawn_by_leverage_where_that_pays(self):
        """Of many rows and small ridge penalties; the matrix of more features costs
        too much.
        """
        assert by_leverage(5000, task(261_000, calibrated=True, alpha=0.1))
        assert not by_leverage(5000, task(261_000, calibrated=True, alpha=1e4))
        assert not by_leverage(5000, task(19_000, calibrated=True, alpha=1e-4))
        assert not by_leverage(20_000, task(261_000, calibrated=True, alpha=0.1))
        assert not by_leverage(2000, task(261_000, calibrated=True, alpha=0.1))

    def test_double_precision_costs_more(self):
        one, two = (
            ProblemSize(20_000, 1, 2e4, np.array([1.0]), True, wide)
            for wide in (False, True)
        )
        for seconds in (direct_seconds, iterative_seconds):
            assert 1.2 < seconds(2000, two) / seconds(2000, one) < 2.5

    def test_what_is_asked_for(self):
        for solver in ("direct", "cg"):
            assert choose_solver(solver, self.drawn(20), task(1000, True)) == (
                solver,
                "as requested",
            )

    def test_bins(self):
        for features in (BINS, MIXED):
            drawn = self.drawn(0, features)
            for solver in ("auto", "cg"):
                assert choose_solver(solver, drawn, task(1000, True)) == (
                    "cg",
                    "the features are sparse",
                )
            with pytest.raises(
                ValueError, match="solver='direct' needs dense features"
            ):
                choose_solver("direct", drawn, task(1000, True))
