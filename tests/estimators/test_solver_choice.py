"""Which solver serves a problem."""

import numpy as np
import pytest
from sklearn.base import clone

from bochner import BinningFeatures, ConcatenatedFeatures, FourierFeatures
from bochner.estimators.solver import Task, iterations, iterative_seconds, plan
from bochner.kernels import Gaussian, Laplacian

FOURIER = FourierFeatures(Gaussian(2.0), 40, random_state=0)
BINS = BinningFeatures(Laplacian(8.0), 30, random_state=1)
MIXED = ConcatenatedFeatures([FOURIER, BINS])


def task(n, searched=False, calibrated=False, alpha=1.0, K=1):
    return Task(n, K, float(n), None if searched else np.array([alpha]), calibrated)


class TestPlan:
    def drawn(self, D, features=None):
        return clone(features or FourierFeatures(Gaussian(), D, random_state=0)).draw(2)

    @pytest.mark.parametrize("n", [1, 1000, 20_000])
    @pytest.mark.parametrize("searched", [False, True])
    def test_small_problems_are_solved_directly(self, n, searched):
        solver, reason = plan("auto", self.drawn(2000), task(n, searched))
        assert solver == "direct"
        assert "by conjugate gradients" in reason
        assert "by the Gram matrix" in reason

    def test_large_ones_are_not(self, monkeypatch):
        monkeypatch.setattr("bochner.estimators.solver.available_memory", lambda: None)
        assert plan("auto", self.drawn(20_000), task(522_000, True)).solver == "cg"
        assert plan("auto", self.drawn(2048), task(60_000, True)).solver == "direct"

    def test_memory_decides_first(self, monkeypatch):
        features = self.drawn(2000)
        monkeypatch.setattr("bochner.estimators.solver.available_memory", lambda: 44 * 2000**2)
        solver, reason = plan("auto", features, task(5000, True))
        assert solver == "cg"
        assert "2,000 features does not fit the memory" in reason
        assert plan("direct", features, task(1000, True)).solver == "direct"

    def test_every_run_is_counted(self):
        """That for rows left out as much again, less what is made once; the search as a run on fewer rows."""
        n, D = 261_000, 5000
        once, again = (iterative_seconds(D, task(n, calibrated=calibrated)) for calibrated in (False, True))
        assert 1.6 * once < again < 2 * once
        assert iterative_seconds(D, task(n, searched=True, calibrated=True, alpha=4.0)) > 1.05 * again
        assert iterative_seconds(D, task(n, K=3)) > 2 * once

    def test_small_ridge_terms_take_more_iterations(self):
        n = 261_000
        seconds = [iterative_seconds(5000, task(n, alpha=alpha)) for alpha in (10.0, 1.0, 0.1, 0.01)]
        assert seconds == sorted(seconds)
        assert seconds[-1] > 4 * seconds[0]
        assert [iterations(alpha, 1.0) for alpha in (1e3, 1e-300)] == [7, 500]

    def test_what_is_asked_for(self):
        for solver in ("direct", "cg"):
            assert plan(solver, self.drawn(20), task(1000, True)) == (solver, "as asked for")

    def test_bins(self):
        for features in (BINS, MIXED):
            drawn = self.drawn(0, features)
            for solver in ("auto", "cg"):
                assert plan(solver, drawn, task(1000, True)) == ("cg", "the features are sparse")
            with pytest.raises(ValueError, match="solver='direct' needs dense features"):
                plan("direct", drawn, task(1000, True))
