"""Which solver serves a problem."""

import pytest
from sklearn.base import clone

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    settings,
)
from bochner.kernels import Gaussian, Laplacian
from bochner.planning.solver_choice import (
    ProblemSize,
    by_leverage,
    choose_solver,
    choose_streamed_solver,
)

FOURIER = FourierFeatures(Gaussian(2.0), 40, random_state=0)
BINS = BinningFeatures(Laplacian(8.0), 30, random_state=1)
MIXED = ConcatenatedFeatures([FOURIER, BINS])


def task(n, K=1):
    return ProblemSize(n, K)


class TestPlan:
    def drawn(self, D, features=None):
        return clone(features or FourierFeatures(Gaussian(), D, random_state=0)).draw(2)

    @pytest.mark.parametrize("n", [1, 1000, 20_000])
    def test_small_problems_are_solved_directly(self, n):
        solver, reason = choose_solver("auto", self.drawn(2000), task(n))
        assert solver == "direct"
        assert reason == "the Gram matrix takes a few seconds at most"

    def test_large_ones_are_not(self, monkeypatch):
        monkeypatch.setattr(
            "bochner.planning.solver_choice.available_memory", lambda: None
        )
        assert choose_solver("auto", self.drawn(20_000), task(522_000)).solver == "cg"
        assert choose_solver("auto", self.drawn(2048), task(60_000)).solver == "direct"

    def test_memory_decides_first(self, monkeypatch):
        features = self.drawn(2000)
        monkeypatch.setattr(
            "bochner.planning.solver_choice.available_memory", lambda: 44 * 2000**2
        )
        solver, reason = choose_solver("auto", features, task(5000))
        assert solver == "cg"
        assert "2,000 features does not fit in the free memory" in reason
        assert choose_solver("direct", features, task(1000)).solver == "direct"

    def test_a_memory_limit_decides_as_in_the_plan(self):
        features = self.drawn(2000)
        assert choose_streamed_solver("auto", features, task(10**6)).solver == "direct"
        with settings(memory_limit="50MB"):
            assert choose_solver("auto", features, task(5000)).solver == "cg"
            assert choose_streamed_solver("auto", features, task(10**6)).solver == "cg"

    def test_many_outputs_are_solved_directly(self):
        """All share one Gram matrix, and iterations take as many vectors."""
        features = self.drawn(5000)
        assert choose_solver("auto", features, task(100_000, 10)).solver == "cg"
        solver, reason = choose_solver("auto", features, task(100_000, 100))
        assert (solver, "as fast as iterations" in reason) == ("direct", True)

    def test_a_tiny_penalty_is_solved_directly(self):
        """For which iterations are many."""
        features = self.drawn(2048)
        for alpha, solver in ((5.0, "cg"), (1e-3, "direct"), (1e-6, "direct")):
            size = ProblemSize(300_000, 1, ratio=alpha / 300_000)
            assert choose_solver("auto", features, size).solver == solver

    def test_rows_are_drawn_by_leverage_where_that_pays(self):
        """Of many rows and small ridge penalties; the matrix of more features costs
        too much.
        """
        n = 261_000
        assert by_leverage(5000, n, 1, 0.1 / n)
        assert not by_leverage(5000, n, 1, 1e4 / n)
        assert by_leverage(5000, n, 10, 1e2 / n)
        assert not by_leverage(5000, 19_000, 1, 1e-4 / 19_000)
        assert not by_leverage(20_000, n, 1, 0.1 / n)
        assert not by_leverage(2000, n, 1, 0.1 / n)

    def test_what_is_asked_for(self):
        for solver in ("direct", "cg"):
            assert choose_solver(solver, self.drawn(20), task(1000)) == (
                solver,
                "as requested",
            )

    def test_bins(self):
        for features in (BINS, MIXED):
            drawn = self.drawn(0, features)
            for solver in ("auto", "cg"):
                assert choose_solver(solver, drawn, task(1000)) == (
                    "cg",
                    "the features are sparse",
                )
            with pytest.raises(
                ValueError, match="solver='direct' needs dense features"
            ):
                choose_solver("direct", drawn, task(1000))
