"""Another loss than the squared one on stored features: its steps, and what the rows
held out say of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Indices
from bochner.data.row_splits import Fold
from bochner.estimators.ridge.out_of_sample import LinearPredictor, UnseenRows
from bochner.estimators.ridge.ridge_problem import RidgeSolution
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.validation import (
    HeldOutPredictions,
    average,
    has_stalled,
    is_better,
)
from bochner.solvers.iterative import IterativeRidge, Without
from bochner.solvers.losses import Loss, Quantile
from bochner.solvers.newton import (
    Point,
    Reweighted,
    minimise,
    precondition,
)
from bochner.solvers.quasi_newton import minimise_by_lbfgs
from bochner.solvers.sweeps import RATE, Grids, has_grids_alone, minimise_by_sweeps

WIDE_STEPS = 3  # of Newton's method for a loss that is easier to minimise
AIM = 1.02  # times a loss: what trials of another penalty must come down to


class WarmStart(NamedTuple):
    """Where to begin: the point on all rows, and then that without each set held out.

    Where steps have led to the points, their number; the point on all rows is then the
    mean of the others.
    """

    points: list[Point]
    n_steps: int = 0


class LossFit(NamedTuple):
    """Coefficients by another loss.

    Attributes
    ----------
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    loss : Loss
    alpha : float
        The ridge penalty.
    n_steps : int
        Sweeps, or steps of Newton's method.
    held_out_predictions : HeldOutPredictions or None
    fitted : list of pairs of arrays of shape (K, n)
        Targets and fitted values of the rows, block by block.
    unseen : UnseenRows or None
        The rows held out, with the solutions without them.
    """

    coef: NDArray
    intercept: NDArray
    loss: Loss
    alpha: float
    n_steps: int
    held_out_predictions: HeldOutPredictions | None
    fitted: list[tuple[NDArray, NDArray]]
    unseen: UnseenRows | None = None


class LossTrial(NamedTuple):
    """A start and a ridge penalty, the steps that were best for the rows held out,
    their loss and fitted values.

    Where the steps ended is a start for another penalty.
    """

    start: WarmStart
    alpha: float
    n_steps: int
    loss: float
    fitted: list[NDArray]
    end: WarmStart


@dataclass(frozen=True)
class LossProblem:
    """Another loss on the stored features of a ridge regression.

    Attributes
    ----------
    ridge : IterativeRidge
    folds : list of Fold
        Rows that are held out, a set at a time, and those that are fitted then.
    loss : Loss
    tol : float
        Relative error at which to stop; zero where rows held out tell the steps.
    budget : Budget
        Of the time for it: steps and trials end with it.
    by_newton : bool
        Whether Newton's method minimises the loss of bins alone too, not sweeps.
    n_iterations : int
        Of conjugate gradients in a step of Newton's method, at the most, where rows
        held out tell how many steps there are.
    unavoidable : array of shape (n,) or None
        Losses of outliers that no fitted value changes, beside which gains of all other
        rows would seem too small.
    """

    ridge: IterativeRidge
    folds: list[Fold]
    loss: Loss
    tol: float = 0.0
    budget: Budget = field(default_factory=Budget)
    by_newton: bool = False
    n_iterations: int = POLICY.most_passes
    unavoidable: NDArray | None = None

    @property
    def targets(self) -> NDArray:
        """Targets of the loss, shape (n, K)."""
        return np.concatenate([block.y for block in self.ridge.blocks])

    @property
    def sweeps(self) -> bool:
        """Whether sweeps over grids minimise the loss, not Newton's method."""
        swept = not self.tol and not self.by_newton
        return swept and has_grids_alone(self.ridge.blocks)

    @staticmethod
    def penalty_of_newton(alpha: float) -> float:
        """The ridge penalty with which steps of Newton's method regularise about as
        much as sweeps do with the given one.
        """
        return alpha / RATE

    def at_ridge(
        self,
        fitted: RidgeSolution,
        without: Sequence[NDArray],
        slope: NDArray | float = 1.0,
        origin: NDArray | float = 0.0,
    ) -> WarmStart:
        """A multiple of the ridge solution; features beside its own begin with
        coefficients of zero.

        Scores without a set have the mean of those of all rows over the other rows: an
        offset of bins, which are not centred, goes with their coefficients.

        Parameters
        ----------
        without : list of arrays of shape (K, D)
            Coefficients without each set.
        slope : float or array of shape (K, 1)
        origin : float or array of shape (K,)
            Added.
        """
        whole = fitted.coef.T
        offset = self.ridge.centred(whole, fitted.intercept)

        def point(coef: NDArray, offset: NDArray) -> Point:
            K, D = coef.shape
            widened = np.pad(slope * coef, ((0, 0), (0, int(self.ridge.edges[-1]) - D)))
            return widened, np.ravel(slope) * offset + np.broadcast_to(origin, K)

        points = [point(whole, offset)]
        for fold, coef in zip(self.folds, without, strict=bool(without)):
            mean = self.ridge.equations(fold.fitted).feature_mean[: coef.shape[1]]
            points.append(point(coef, offset + (whole - coef) @ mean))
        return WarmStart(points)

    def at_prior(self) -> WarmStart:
        """Coefficients of zero, and the scores that give all rows the shares of the
        classes.
        """
        ridge = self.ridge
        mean = np.average(self.targets, axis=0, weights=ridge.design.source.weights)
        point = np.zeros((len(mean), int(ridge.edges[-1]))), self.loss.scores_of(mean)
        return WarmStart([point] * (1 + len(self.folds)))

    def fit(
        self, start: WarmStart, alpha: float, n_steps: int | None = None
    ) -> LossFit:
        """Minimise the loss on all rows.

        Parameters
        ----------
        start : WarmStart
        alpha : float
            Ridge penalty, twice what it adds to the loss times the squares of the
            coefficients.
        n_steps : int, optional
            Steps that served an earlier fit; by default the most, as to a tolerance.
        """
        ridge = self.ridge
        if self.tol or n_steps is None:
            n_steps = POLICY.most_steps
        problem = self._problem(start.points[0], alpha)
        n_done = 0
        if isinstance(self.loss, Quantile) and not self.sweeps:
            # From afar hardly a row bends a loss that is hardly rounded off
            F = np.concatenate([rows.F for rows in problem.rows], axis=1)
            sizes = np.abs(self.targets - F.T).mean(axis=1)
            error = np.average(sizes, weights=ridge.design.source.weights)
            for loss in self.loss.wider(float(error)):
                wide = replace(self, loss=loss)
                problem = wide._problem((problem.coef, problem.offset), alpha)
                n_done += wide._minimise(problem, WIDE_STEPS)
        if n_done:
            problem = self._problem((problem.coef, problem.offset), alpha)
        n_steps = n_done + self._minimise(problem, max(n_steps - n_done, 1))
        return LossFit(
            np.ascontiguousarray(problem.coef.T.astype(ridge.design.dtype)),
            ridge.uncentred(problem.coef, problem.offset),
            self.loss,
            alpha,
            n_steps,
            None,
            [(rows.Y, rows.F) for rows in problem.rows],
        )

    def fit_given(self, start: WarmStart, alphas: NDArray) -> LossFit:
        """Minimise the loss with that of some ridge penalties which is best for the
        rows held out.
        """
        if not self.folds:
            return self.fit(start, float(alphas[0]))
        return self.fit_after(self.trial_given(start, alphas), start)

    def trial_given(self, start: WarmStart, alphas: NDArray) -> LossTrial:
        """The trial with that of some ridge penalties which is best for the rows held
        out; each is tried that there is time for.
        """
        trials = list[LossTrial]()
        whole = self.budget.first_of(2)
        for k, alpha in enumerate(alphas):
            if not trials or not whole.is_over:
                part = replace(self, budget=whole.first_of(len(alphas) - k))
                trials.append(part.trial(start, float(alpha)))
        return min(trials, key=lambda trial: trial.loss)

    def trial_searched(self, start: WarmStart, alpha: float) -> LossTrial:
        """The trial with the best ridge penalty for the rows held out, looked for from
        one on.
        """
        part = replace(self, budget=self.budget.first_of(2))
        return part.search(part.trial(start, alpha))

    @property
    def by_lbfgs(self) -> bool:
        """Whether few features have a loss of classes together."""
        return self.loss.coupled and self.ridge.edges[-1] <= POLICY.wide

    def fit_after(self, trial: LossTrial, start: WarmStart) -> LossFit:
        """Minimise the loss on all rows: in as many sweeps as a trial on fewer rows
        took, or a few more steps of Newton's method or of L-BFGS.

        These are the steps that a refit of the model takes, so that a refit to equal
        rows gives an equal model. They take about as long as the trial, and no limit
        cuts them, but those to a tolerance: a part of them would be a model that
        nothing has validated.
        """
        n_steps = trial.n_steps
        if not self.sweeps:
            # Steps before the trial began count too, and those that all rows need more
            n_steps += trial.start.n_steps
            if not self.by_lbfgs:
                n_steps = min(n_steps, POLICY.most_steps)
            n_steps += POLICY.resumed_steps
        timed = self if self.tol else replace(self, budget=Budget())
        return timed.fit(start, trial.alpha, n_steps)._replace(
            held_out_predictions=self.predictions(trial.fitted),
            unseen=self.unseen(trial.end),
        )

    def first_trial(self, unit: float, aim: float) -> LossTrial:
        """The trial from the prior with the ridge penalty that a search begins with."""
        alpha = POLICY.first_alpha * unit if self.sweeps else unit
        return self.trial_from_prior(alpha, aim)

    def trial_from_prior(self, alpha: float, aim: float = np.inf) -> LossTrial:
        """The trial of coefficients that begin with zeros."""
        # Newton's method takes steps on all rows in any case, whose scores a link of
        # zeros would not suit
        fewest_steps = 0 if self.sweeps else 1
        return self.trial(self.at_prior(), alpha, aim, fewest_steps)

    def search(self, first_trial: LossTrial) -> LossTrial:
        """The trial with the best ridge penalty for the rows held out.

        Smaller penalties than that of the first trial, which need fewer sweeps, are
        tried first, and must be clearly better, by more than a thousandth of the loss
        of zeros: where classes are separable, losses fall for ever. A larger one must
        be worthwhile, and with sweeps it is taken unless it is clearly worse. Steps of
        Newton's method begin where those for another penalty ended; sweeps, of which
        the number regularises, begin anew. Of very many entries one penalty is tried.
        """
        blocks = self.ridge.blocks
        n_entries = sum(block.y.size * block.features.width for block in blocks)
        if self.sweeps and n_entries > POLICY.most_compared:
            return first_trial

        rows = self.predictions(first_trial.fitted)
        zeros = np.zeros_like(rows.predicted.T)
        losses = self.avoidable_losses(rows.targets.T, zeros, self._held_out_rows)
        least_gain = POLICY.worthwhile * np.average(losses, weights=rows.weight)

        def is_preferred(other: LossTrial, best: LossTrial, is_larger: bool) -> bool:
            # Without a step it is as good as its start, but for rounding
            if not other.n_steps:
                return False
            if not is_larger:
                is_worth = best.loss - other.loss > least_gain
                return is_worth and self.is_clearly_better(other, best)
            if self.sweeps:
                return not self.is_clearly_better(best, other)
            return other.loss < (1 - POLICY.worthwhile) * best.loss

        best = first_trial
        for direction in (-1, 1):
            for _ in range(POLICY.most_steps):
                if self.budget.is_over:
                    return best
                start = first_trial.start if self.sweeps else best.end
                alpha = best.alpha * POLICY.penalty_step**direction
                aim = best.loss + (AIM - 1) * abs(best.loss)
                other = self.trial(start, alpha, aim)
                if not is_preferred(other, best, direction > 0):
                    break
                best = other
            if best is not first_trial:
                break
        return best

    @property
    def _held_out_rows(self) -> Indices:
        """Numbers of the rows held out, set by set."""
        return np.concatenate([np.flatnonzero(fold.held_out) for fold in self.folds])

    def avoidable_losses(self, Y: NDArray, F: NDArray, rows: NDArray) -> NDArray:
        """Losses of rows that numbers or a mask tell, (m,), by their targets and fitted
        values, (K, m), less those of outliers that no fitted value changes.
        """
        losses = self.loss.value_held_out(Y, F)
        if self.unavoidable is None:
            return losses
        return losses - self.unavoidable[rows]

    def is_clearly_better(self, one: LossTrial, two: LossTrial) -> bool:
        """Whether the loss of the rows held out is less by half a standard error."""
        first = self.predictions(one.fitted).distinct()
        second = self.predictions(two.fitted).distinct()
        losses, others = (
            self.loss.value_held_out(predictions.targets.T, predictions.predicted.T)
            for predictions in (first, second)
        )
        return is_better(losses, others, POLICY.clear, first.weight, first.group)

    def predictions_at(self, start: WarmStart) -> HeldOutPredictions:
        """Fitted values of the rows held out before any step, with their targets and
        weights.
        """
        pairs = zip(self.folds, start.points[1:], strict=True)
        return self.predictions(
            [
                _Trace(self._problem(point, 0.0, fold), self, fold).fitted[0]
                for fold, point in pairs
            ]
        )

    def predictions(self, fitted: list[NDArray]) -> HeldOutPredictions:
        """Fitted values of all rows held out, (K, m) for each set, with their
        targets and weights.
        """
        rows = self._held_out_rows
        source = self.ridge.design.source.take(rows)
        return HeldOutPredictions(
            np.concatenate(fitted, axis=1).T.astype(np.float64),
            self.targets[rows],
            source.validation_weights,
            source.whole().X,
            source.group,
        )

    def unseen(self, end: WarmStart) -> UnseenRows | None:
        """The rows held out, with the points without them as functions."""
        ridge = self.ridge
        functions = [
            LinearPredictor(
                np.ascontiguousarray(coef.T.astype(ridge.design.dtype)),
                ridge.uncentred(coef, offset),
            )
            for coef, offset in end.points[1:]
        ]
        return UnseenRows.of_sets(ridge.design, self.folds, functions, self.targets)

    def trial(
        self,
        start: WarmStart,
        alpha: float,
        aim: float = np.inf,
        fewest_steps: int = 0,
    ) -> LossTrial:
        """Fit without the rows of each set, and find the number of steps that is best
        for them.

        With a single set sweeps end where they will not come down to the loss `aim`.
        """
        traces = list[_Trace]()
        ends = list[Point]()
        for k, (fold, point) in enumerate(
            zip(self.folds, start.points[1:], strict=True)
        ):
            problem = self._problem(point, alpha, fold)
            fold_budget = self.budget.first_of(len(self.folds) - k)
            is_aimed = len(self.folds) == 1 and self.sweeps
            traces.append(_Trace(problem, self, fold, aim if is_aimed else np.inf))
            part = replace(self, budget=fold_budget)
            part._minimise(problem, POLICY.most_steps, traces[-1])
            ends.append((problem.coef, problem.offset))
        length = max(len(trace.losses) for trace in traces)
        curves = [
            np.pad(trace.losses, (0, length - len(trace.losses)), "edge")
            for trace in traces
        ]
        mean = np.average(
            curves, axis=0, weights=[trace.weight.sum() for trace in traces]
        )
        best = length - 1
        if not self.tol and length > fewest_steps:
            best = fewest_steps + int(np.argmin(mean[fewest_steps:]))
        fitted = [trace.fitted[min(best, len(trace.fitted) - 1)] for trace in traces]
        coefs, offsets = zip(*ends, strict=True)
        whole = np.mean(coefs, axis=0, dtype=coefs[0].dtype), np.mean(offsets, axis=0)
        n_steps = start.n_steps + length - 1
        end = WarmStart([whole, *ends], n_steps)
        return LossTrial(start, alpha, best, float(mean[best]), fitted, end)

    def _problem(
        self, point: Point, alpha: float, fold: Fold | None = None
    ) -> Reweighted:
        """The loss with a ridge penalty, from a point on, on all rows or those that
        are fitted in a fold.
        """
        blocks = self.ridge.blocks
        if fold is not None:
            blocks = Without(blocks, fold.fitted)
        penalty = np.full((len(point[0]), 1), alpha) / self.loss.scale
        return Reweighted(blocks, self.loss, penalty, *point, self.ridge.dtype)

    def _minimise(
        self, problem: Reweighted, n_steps: int, trace: _Trace | None = None
    ) -> int:
        """Minimise to the tolerance, or for `n_steps` steps of a few iterations each;
        `trace` may stop the steps.
        """
        inverse = partial(precondition, self.ridge)
        look = trace or (lambda problem, n_steps: False)

        def is_late() -> bool:
            return self.budget.is_over

        if self.sweeps:
            grids = Grids(self.ridge.blocks)
            return minimise_by_sweeps(
                problem, grids, n_steps, self.ridge.seed, look, is_late
            )
        if self.by_lbfgs and not self.tol:
            return minimise_by_lbfgs(problem, n_steps, look, is_late)
        if not self.tol:
            return minimise(
                problem, inverse, 0.0, n_steps, self.n_iterations, look, is_late
            )
        most = POLICY.most_iterations
        n_steps = minimise(problem, inverse, self.tol, most, most, is_late=is_late)
        if trace is not None:
            trace(problem, n_steps)
        return n_steps


class _Trace:
    """Losses of rows held out before the first step and after each, and their fitted
    values, (K, m).

    Parameters
    ----------
    problem : Reweighted
        Before the first step.
    of : LossProblem
    fold : Fold
    aim : float, optional
        The loss to come down to.
    """

    def __init__(
        self,
        problem: Reweighted,
        of: LossProblem,
        fold: Fold,
        aim: float = np.inf,
    ) -> None:
        self.of = of
        self.aim = aim
        self.held_out = fold.held_out
        self.weight = of.ridge.design.source.validation_weights[fold.held_out]
        self.losses = list[float]()
        self.fitted = list[NDArray]()
        self(problem, 0)

    def __call__(self, problem: Reweighted, n_steps: int) -> bool:
        """Note the losses; whether the last step brought nothing worthwhile."""
        Y = np.concatenate([rows.Y for rows in problem.rows], axis=1)
        F = np.concatenate([rows.F for rows in problem.rows], axis=1)
        Y = np.compress(self.held_out, Y, axis=1)
        F = np.compress(self.held_out, F, axis=1)
        self.fitted.append(F)
        losses = self.of.avoidable_losses(Y, F, self.held_out)
        self.losses.append(average(losses, self.weight))
        if n_steps > 1:
            # Losses fall by less and less: those to come lie above the line through the
            # last two.
            fall = self.losses[-2] - self.losses[-1]
            if self.losses[-1] - fall * (POLICY.most_steps - n_steps) > self.aim:
                return True
        return has_stalled(self.losses)
