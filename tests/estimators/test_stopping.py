"""The two tables of conjugate gradients: which rows are held out and merged, and
when to stop.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from bochner import BinningFeatures, FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators.ridge.conjugate_gradients import merged, stop_of
from bochner.estimators.ridge.ridge_problem import Iterations, Needs, RidgeProblem
from bochner.kernels import Gaussian, Laplacian
from bochner.selection.choose import ValidationOutcome
from bochner.selection.policy import POLICY
from bochner.selection.split import rows_held_out

N = 60
X = np.repeat(np.random.default_rng(0).normal(size=(N // 2, 2)), 2, axis=0)
GIVEN = np.arange(N) < 10
CHOSEN = np.where(
    np.arange(N) < 30, np.arange(N) // 2 * 2, np.arange(N)
)  # copies that were one in the choice
VERDICT = ValidationOutcome(SimpleNamespace(first_duplicate=CHOSEN), losses=None)
LATER, AGAIN = Iterations(7), Iterations(7, then_half=True)


def design_of(dense):
    features = (
        FourierFeatures(Gaussian(), 10) if dense else BinningFeatures(Laplacian(), 5)
    )
    return Design(
        ArraySource(X, np.arange(N)[:, np.newaxis] + 0.0), features.draw(2), np.float64
    )


@pytest.mark.parametrize("merges", [True, False])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("stopping", "given", "mask", "n_rows"),
    [
        (VERDICT, True, "given", 45),
        (AGAIN, False, "content", 36),
        (LATER, False, None, 30),
        (None, True, "given", 60),
        (None, False, "content of bins", 36),
    ],
)
def test_rows_held_out_and_merged(policy, stopping, given, mask, n_rows, dense, merges):
    policy(folded_rows=20)
    problem = RidgeProblem(
        1.0, 1e-2, 0, GIVEN if given else None, stopping, merges=merges
    )
    design, held_out, number = merged(design_of(dense), problem)
    if mask == "content of bins" and dense:
        mask, n_rows = None, N
    if not merges:
        n_rows = N
    assert design.n_rows == n_rows
    expected = {"given": GIVEN, None: None}.get(
        mask, rows_held_out(design_of(dense).row_hashes, np.ones(N), 0)
    )
    assert (held_out is None) == (expected is None)
    if expected is not None:
        assert (held_out[number] == expected).all()
    assert (design.source.X[number] == X).all()


def test_few_rows_of_bins_are_left_to_folds():
    design, held_out, number = merged(
        design_of(dense=False), RidgeProblem("auto", 1e-2, 0)
    )
    assert design.n_rows == N
    assert held_out is None
    assert (number == np.arange(N)).all()


class Runs:
    """Validation rows that tell how they were asked."""

    def __init__(self, dense=False, n_iter=5, folds=(1,), overdone=False):
        self.ridge, self.folds, self.n_iter = (
            SimpleNamespace(is_dense=dense),
            folds,
            n_iter,
        )
        self.overdone = overdone

    def run(self, *called):
        self.called = called
        *_, steps = called
        return SimpleNamespace(
            n_iter=self.n_iter,
            n_done=steps if self.overdone and steps else 9,
            coef="coef",
            error=0.02,
            is_overdone=self.overdone,
        )

    def trace(self, penalty, tol, losses=None, steps=None):
        return self.run("trace", tol, losses, steps)

    def solve(self, penalty, tol, settled):
        return self.run("solve", tol, settled)


CHOOSE, WANTED = "auto", Needs(out_of_sample=True)
LATE = POLICY.traced_iterations - 1


@pytest.mark.parametrize(
    ("problem", "rows", "called", "tol", "n_iter", "goes_on"),
    [
        # the choice of the model, or an earlier fit without the validation rows: half
        # as many iterations go on
        (
            RidgeProblem(1.0, 1e-2, 0, None, VERDICT),
            Runs(),
            ("trace", 0.0, None, None),
            0.0,
            5,
            True,
        ),
        (
            RidgeProblem(1.0, 1e-2, 0, None, AGAIN),
            Runs(),
            ("trace", 0.0, None, 7),
            0.0,
            5,
            True,
        ),
        # iterations after the best one that made losses clearly larger are not kept
        (
            RidgeProblem(1.0, 1e-2, 0, None, VERDICT),
            Runs(overdone=True),
            ("trace", 0.0, None, 5),
            0.0,
            3,
            True,
        ),
        # an earlier fit
        (RidgeProblem(1.0, 1e-2, 0, None, AGAIN), Runs(folds=()), None, 0.0, 7, False),
        (RidgeProblem(1.0, 1e-2, 0, None, LATER, WANTED), Runs(), None, 0.0, 7, False),
        # a penalty to choose, of bins: where validation rows are predicted best, unless
        # that is late
        (
            RidgeProblem(CHOOSE, 1e-2, 0),
            Runs(),
            ("trace", 1e-2, None, None),
            0.0,
            5,
            False,
        ),
        (
            RidgeProblem(CHOOSE, 1e-2, 0),
            Runs(n_iter=LATE),
            ("trace", 1e-2, None, None),
            1e-2,
            500,
            False,
        ),
        # predictions that are wanted: at the tolerance, or where they have settled
        (
            RidgeProblem(1.0, 1e-2, 0, needs=WANTED),
            Runs(),
            ("solve", 1e-2, False),
            0.02,
            500,
            True,
        ),
        (
            RidgeProblem([1.0, 2.0], 1e-2, 0, needs=WANTED),
            Runs(),
            ("solve", 1e-2, True),
            0.02,
            500,
            True,
        ),
        (
            RidgeProblem([1.0, 2.0], 1e-4, 0, needs=WANTED),
            Runs(),
            ("solve", 1e-4, False),
            0.02,
            1000,
            True,
        ),
        (
            RidgeProblem(CHOOSE, 1e-2, 0, needs=WANTED),
            Runs(dense=True),
            ("solve", 1e-2, True),
            0.02,
            500,
            True,
        ),
        # else at the tolerance
        (RidgeProblem(CHOOSE, 1e-2, 0), Runs(dense=True), None, 1e-2, 500, False),
        (RidgeProblem(1.0, 1e-2, 0), Runs(), None, 1e-2, 500, False),
        (
            RidgeProblem(1.0, 1e-2, 0, needs=WANTED),
            Runs(folds=()),
            None,
            1e-2,
            500,
            False,
        ),
        (RidgeProblem(1.0, 1e-2, 0), None, None, 1e-2, 500, False),
    ],
)
def test_when_to_stop(problem, rows, called, tol, n_iter, goes_on):
    stop = stop_of(problem, rows, np.ones(1))
    assert getattr(rows, "called", None) == called
    assert (stop.tol, stop.n_iter, stop.start is not None) == (tol, n_iter, goes_on)
    assert (stop.run is not None) == (called is not None)
