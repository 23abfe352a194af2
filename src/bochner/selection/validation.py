"""Validation losses of candidates: on the validation rows of a choice, and on rows held
out of given features.

Candidates are solved side by side as columns of one run of conjugate gradients, whose
cost is mostly that of reading the features; the validation error of each is traced
after every iteration, for to stop early regularises too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Indices
from bochner.data.array_source import ArraySource
from bochner.data.hashes import row_hashes
from bochner.data.row_splits import Fold, RowSplits, complement
from bochner.data.weights import group_means
from bochner.design.design import Design
from bochner.design.normal import NormalEquations
from bochner.features.base import FeatureMap, Rows
from bochner.features.metric import Metric
from bochner.features.stored import Stored, StoredRows
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.split import folds, rows_held_out
from bochner.solvers.factors import factorise
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.line_search import best_alpha
from bochner.solvers.losses import log_loss_of
from bochner.solvers.newton import Reweighted
from bochner.solvers.sweeps import Grids, minimise_by_sweeps

SETTLING_STEPS = 4  # iterations from one look at held-out predictions to the next
SETTLED = 0.04  # of their root mean square error, by which they may still move then

Losses = Callable[[NDArray], NDArray]
Plateau = Callable[[NDArray], bool]


def are_mixed(n_outputs: int, n_rows: int) -> bool:
    """Whether random combinations of outputs are validated in their place: where there
    are few targets, as of 2,000 rows and 128 classes, all outputs are.
    """
    few = n_rows * n_outputs <= POLICY.rows_for_full_learning * POLICY.wide
    return n_outputs > (POLICY.wide if few else POLICY.mixed_outputs)


def mixture(n_outputs: int, size: int) -> NDArray:
    """Orthonormal combinations of the outputs, shape (K, size), by which many of them
    are validated.

    Their directions are uniform: of random signs some would be those of the sum of all
    classes, which is a constant.
    """
    return np.linalg.qr(np.random.default_rng(0).standard_normal((n_outputs, size)))[0]


def average(losses: NDArray, weight: NDArray) -> float:
    """Weighted mean; infinite where one is no number."""
    mean = float(weight @ losses / weight.sum())
    return mean if np.isfinite(mean) else np.inf


def mean_and_error(
    losses: NDArray, weight: NDArray, group: Indices | None = None
) -> tuple[float, float]:
    """Weighted mean, and its standard error; that of sums over groups, where the rows
    of a group, (n,), are alike.
    """
    share = weight / weight.sum()
    mean = share @ losses
    deviations = share * (losses - mean)
    if group is not None:
        deviations = np.bincount(group, deviations)
    return float(mean), float(np.sqrt(np.square(deviations).sum()))


def is_better(
    one: NDArray,
    other: NDArray,
    clear: float,
    weight: NDArray,
    group: Indices | None = None,
) -> bool:
    """Whether losses are lower than others of the same rows by more than `clear`
    standard errors, as they are than infinite ones.
    """
    with np.errstate(invalid="ignore"):
        gain, noise = mean_and_error(other - one, weight, group)
    return bool(gain == np.inf or gain > clear * noise)


def never(least: NDArray) -> bool:
    """Never stop early."""
    return False


def has_plateaued(least: NDArray) -> bool:
    """Whether the loss fell too little over the last few iterations."""
    n = POLICY.patience
    return len(least) > n and bool(
        least[-1 - n] - least[-1] <= POLICY.worthwhile * abs(least[-1])
    )


def has_stalled(losses: Sequence[float]) -> bool:
    """Whether losses have risen twice in a row, or fell too little over the last few
    steps.
    """
    if len(losses) > 2 and losses[-3] < losses[-2] < losses[-1]:
        return True
    return has_plateaued(np.minimum.accumulate(losses))


def in_time(budget: Budget, has_plateaued: Plateau, fewest: int = 0) -> Plateau:
    """Whether losses have plateaued, or no time is left after the fewest
    iterations.
    """
    return lambda least: (
        has_plateaued(least) or (len(least) >= fewest and budget.is_over)
    )


class Trace:
    """Mean losses of candidates after each iteration, and the losses and predictions of
    each when it was best.

    Where there is nothing to solve for, and so no iteration, they are those of the
    mean. `curves`, of shape (steps, A), are the least losses up to an iteration; `coef`
    and `last_losses` are those after the last of `n_done`.

    Parameters
    ----------
    equations : NormalEquations
        Of the rows that are fitted.
    rows : StoredRows
        The m validation rows.
    losses : callable (predictions of shape (K, m)) -> array of shape (m,)
    n_candidates, steps : int
    mix : array of shape (K, M), optional
        Combinations of the outputs that are fitted in their place.
    """

    def __init__(
        self,
        equations: NormalEquations,
        rows: StoredRows,
        losses: Losses,
        n_candidates: int,
        steps: int,
        mix: NDArray | None = None,
    ) -> None:
        self.equations = equations
        self.rows = rows
        self.losses_of = losses
        self.n_candidates = n_candidates
        rhs = equations.rhs
        mean = equations.target_mean
        if mix is not None:
            rhs = mix.T.astype(equations.dtype) @ rhs
            mean = mix.T @ mean
        self.rhs = np.tile(rhs, (n_candidates, 1))
        self.mean = np.tile(mean, n_candidates)
        self.n_iter = np.zeros(n_candidates, int)
        self.n_done = 0
        self.predicted = [np.tile(mean[:, np.newaxis], len(rows.weight))] * n_candidates
        self.losses = [losses(self.predicted[0])] * n_candidates
        self.losses_of_mean = self.losses[0]
        self.last_losses = self.losses
        self.curves = np.full(
            (steps, n_candidates), average(self.losses[0], rows.weight)
        )
        self.coef = np.zeros_like(self.rhs)
        self.least = np.full(n_candidates, np.inf)  # none before the first iteration

    def run(
        self,
        ridge: IterativeRidge,
        penalties: NDArray,
        tol: float,
        has_plateaued: Plateau = never,
    ) -> Trace:
        """Iterate with the penalties of the candidates, shape (A, M), until their least
        loss has plateaued.

        Parameters
        ----------
        ridge : IterativeRidge
        tol : float
            Relative error at which to stop anyway.
        has_plateaued : callable (least losses of any candidate so far) -> bool
        """
        columns = np.repeat(penalties, len(self.rhs) // len(penalties), axis=0)

        def visit(coef: NDArray, n_iter: int) -> bool:
            self.visit(coef, n_iter)
            return has_plateaued(self.curves[:n_iter].min(axis=1))

        self.coef = ridge.solve(
            self.equations, columns, tol, len(self.curves), self.rhs, visit
        ).coef
        return self

    def predict(self, coef: NDArray) -> NDArray:
        """Predictions for the validation rows by the coefficients of all candidates,
        shape (A, K, m).
        """
        offset = coef @ self.equations.feature_mean - self.mean
        F = self.rows.features.forward(coef) - offset[:, np.newaxis]
        return F.reshape(self.n_candidates, *self.predicted[0].shape)

    def visit(self, coef: NDArray, n_iter: int) -> None:
        """Validation losses of the coefficients of all candidates after an
        iteration.
        """
        F = self.predict(coef)
        each = [self.losses_of(f) for f in F]
        means = np.array([average(losses, self.rows.weight) for losses in each])
        self.n_done = n_iter
        self.last_losses = each
        for k in np.flatnonzero((means < self.least) | (n_iter == 1)):
            self.n_iter[k], self.losses[k], self.predicted[k] = (
                n_iter,
                each[k],
                F[k].copy(),
            )
        self.least = np.minimum(means, self.least)
        self.curves[n_iter - 1 :] = self.least

    def has_settled(self, coef: NDArray, n_iter: int) -> bool:
        """Whether the predictions of the only candidate have settled.

        They have where the last four iterations moved them by no more than a small
        share of what they are wrong by: the rest of the way, about as long again, then
        changes their squared error by a percent or two of itself at most.
        """
        if n_iter % SETTLING_STEPS:
            return False
        former = self.predicted[0]
        predicted = self.predict(coef)[0]
        weight = self.rows.weight
        self.predicted = [predicted]
        moved = average(np.square(predicted - former).sum(axis=0), weight)
        return moved <= SETTLED**2 * average(self.losses_of(predicted), weight)


class ValidationResult(NamedTuple):
    """The validation losses of a candidate, and where they are lowest.

    Attributes
    ----------
    losses : array of shape (n,)
        Of the validation rows, at the best of all that was tried.
    penalty : array of shape (M,)
        The best ridge penalties.
    n_iter : int
        The best number of iterations; 0 for a direct solution.
    predicted : array of shape (n, K)
        Of standardised targets.
    seconds : float
    share : float
        The best ridge penalty of a direct solution over the trace of the Gram matrix.
    coef : array of shape (D, K) or None
        Of a direct solution.
    n_rows : int
        How many were fitted.
    """

    losses: NDArray
    penalty: NDArray
    n_iter: int
    predicted: NDArray
    seconds: float
    share: float = 0.0
    coef: NDArray | None = None
    n_rows: int = 0


def standardise(y: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Weighted mean and standard deviation of targets, shape (K,); of constant ones
    1.
    """
    mean = weight @ y / weight.sum()
    deviation = np.sqrt(weight @ np.square(y - mean) / weight.sum())
    return mean, np.where(deviation > 0, deviation, 1.0)


def squares(targets: NDArray, F: NDArray) -> NDArray:
    """Squared errors of predictions (K, n) summed over the outputs, shape (n,);
    infinite where they overflow.
    """
    with np.errstate(over="ignore"):
        return np.square(targets.T - F).sum(axis=0)


class Validator:
    """Training rows of candidates, and validation rows.

    Parameters
    ----------
    fit, out : tuples (X, y, weight)
        Encoded rows, targets of shape (n, K), weights of shape (n,).
    classes : bool
        Whether the targets are -1 and 1, which a logistic loss suits.
    seed : int
    budget : Budget, optional
        Of all trials: iterations end with it.
    splits : RowSplits, optional
        Of the training rows: which of them belong together.
    group_out : int array, optional
        Groups of the validation rows.

    Attributes
    ----------
    y, y_out : arrays
        Standardised targets, or eight combinations of more than 16.
    is_classifier : bool
        Whether the targets are classes, also where combinations of many of them have
        the squared error.
    """

    def __init__(
        self,
        fit: Any,
        out: Any,
        classes: bool,
        seed: int,
        budget: Budget | None = None,
        splits: RowSplits | None = None,
        group_out: Indices | None = None,
    ) -> None:
        (self.X, y, self.weight), (self.X_out, targets, self.weight_out) = fit, out
        self.seed = seed
        self.splits = splits
        self.group_out = group_out
        self.classes = classes
        self.is_classifier = classes
        self.targets = targets
        self.budget = budget or Budget()
        self.mean, deviation = standardise(y, self.weight)
        self.deviation = np.ones(len(deviation)) if classes else deviation
        self.y = (y - self.mean) / self.deviation
        self.y_out = (targets - self.mean) / self.deviation
        if are_mixed(y.shape[1], len(y)):
            mix = mixture(y.shape[1], POLICY.mixtures)
            self.y = self.y @ mix
            self.y_out = self.y_out @ mix
            self.classes = False
        self.y = np.ascontiguousarray(self.y)

    @property
    def n_rows(self) -> int:
        """Rows to fit."""
        return len(self.y)

    @property
    def fitted(self) -> ArraySource:
        """The rows to fit, with standardised targets."""
        return ArraySource(self.X, self.y, self.weight, splits=self.splits)

    def losses(self, F: NDArray, together: bool = False) -> NDArray:
        """Loss of each validation row, shape (n,), for standardised predictions (K, n):
        squares summed over the outputs, or log losses at the best slope, of each class
        against the others or of all classes together.
        """
        if not self.classes:
            return squares(self.y_out, F)
        # In the precision of the scores: single ones take half of the time
        scores = F + self.mean[:, np.newaxis].astype(F.dtype)
        targets = self.targets.T.astype(F.dtype)
        loss = log_loss_of(len(F) if together else 1)
        each = [loss.value(targets, slope * scores) for slope in POLICY.slopes]
        return each[int(np.argmin([self.average(losses) for losses in each]))]

    @property
    def losses_of_mean(self) -> NDArray:
        """Losses of the validation rows by the mean of the targets to fit."""
        return self.losses(np.zeros(self.y_out.T.shape, np.float32))

    def final_losses(self, predictions: NDArray) -> NDArray:
        """Losses of predictions of shape (K, n) in the units of the targets; of many
        outputs of all.
        """
        if predictions.shape[0] != self.y.shape[1]:
            return squares(self.targets, predictions)
        return self.losses(((predictions.T - self.mean) / self.deviation).T)

    def average(self, losses: NDArray) -> float:
        """Weighted mean loss; infinite where one is no number."""
        return average(losses, self.weight_out)

    def mean_and_error(self, losses: NDArray) -> tuple[float, float]:
        """Weighted mean loss, and its standard error."""
        return mean_and_error(losses, self.weight_out, self.group_out)

    def better(self, one: NDArray, other: NDArray, clear: float) -> bool:
        """Whether the losses of one candidate are lower than another's by more than
        `clear` standard errors.
        """
        return is_better(one, other, clear, self.weight_out, self.group_out)

    def iterate(
        self,
        features: FeatureMap,
        penalties: NDArray,
        steps: int,
        clear: float = 0.0,
        by_logistic: bool = False,
    ) -> ValidationResult:
        """Fit by conjugate gradients, all candidates side by side, with validation
        losses after every iteration.

        The first candidate is taken than which the best one is not better by more than
        `clear` standard errors.

        Parameters
        ----------
        features : FeatureMap
            Drawn for the columns.
        penalties : array of shape (A, M)
        steps : int
        clear : float, default=0
        by_logistic : bool, default=False
            Whether losses are those of the logistic loss of bins where these are lower.
        """
        clock = Budget()
        ridge = IterativeRidge(Design(self.fitted, features, np.float32), self.seed)
        rows = StoredRows(ridge.store(self.X_out), self.y_out, self.weight_out)
        trace = Trace(ridge.equations(), rows, self.losses, len(penalties), steps)
        # A candidate that is cut short at once would seem worse than a linear model: it
        # has a sixth of its iterations, also without time
        in_limit = in_time(self.budget, has_plateaued, steps // 6)
        trace.run(ridge, penalties, 0.0, in_limit)
        best = int(np.argmin(trace.least))
        least = trace.losses[best]
        k = next(
            k
            for k, losses in enumerate(trace.losses)
            if k == best or not self.better(least, losses, clear)
        )
        n_iter = max(int(trace.n_iter[k]), 1)
        losses = trace.losses[k]
        predicted = trace.predicted[k]
        if by_logistic and isinstance(ridge.blocks, list):
            swept, scores = self._sweep(ridge, rows.features)
            if self.average(swept) < self.average(losses):
                losses = swept
                predicted = scores - self.mean[:, np.newaxis]
        return ValidationResult(
            losses,
            penalties[k],
            n_iter,
            predicted.T,
            clock.elapsed,
            n_rows=self.n_rows,
        )

    def _sweep(self, ridge: IterativeRidge, rows: Stored) -> tuple[NDArray, NDArray]:
        """Log losses of each class of the validation rows against the others, summed,
        (n,), by the logistic loss of all classes, and scores, (K, n), after the sweep
        over bins that is best for them.

        Parameters
        ----------
        ridge : IterativeRidge
            Of the rows to fit, with targets less their mean.
        rows : Stored
            Features of the validation rows.
        """
        loss = log_loss_of(len(self.mean))
        blocks = [
            StoredRows(block.features, block.y + self.mean, block.weight)
            for block in ridge.blocks
        ]
        alpha = POLICY.first_alpha * bin_penalty_unit(ridge)
        K = len(self.mean)
        problem = Reweighted(
            blocks,
            loss,
            np.full((K, 1), alpha),
            np.zeros((K, int(ridge.edges[-1]))),
            loss.scores_of(self.mean),
            ridge.dtype,
        )
        sweeps = list[tuple[NDArray, NDArray]]()

        def visit(problem: Reweighted, n_sweeps: int) -> bool:
            F = rows.forward(problem.coef) + problem.offset[:, np.newaxis]
            sweeps.append((loss.one_vs_rest(self.targets.T, F), F))
            return has_stalled([self.average(losses) for losses, _ in sweeps])

        minimise_by_sweeps(
            problem,
            Grids(blocks),
            POLICY.most_steps,
            self.seed,
            visit,
            lambda: self.budget.is_over,
        )
        return min(sweeps, key=lambda swept: self.average(swept[0]))

    def solve(
        self, features: FeatureMap, shares: NDArray, alphas: NDArray | None
    ) -> ValidationResult:
        """Fit dense features by the Gram matrix, and validate ridge penalties: those
        given, or shares of its trace.
        """
        clock = Budget()
        n_alphas = (
            len(shares if alphas is None else alphas)
            if features.n_features_out <= POLICY.n_components[0]
            else 1
        )
        factor = factorise(Design(self.fitted, features, np.float32), n_alphas)
        trace = factor.bounds[1]
        tried = shares * trace if alphas is None else alphas
        coefs, intercepts = zip(*map(factor.solve, tried), strict=True)
        # The features of the rows are computed once for all penalties
        rows = Design(ArraySource(self.X_out, self.y_out), features, np.float32)
        predicted = rows.predict(np.hstack(coefs), np.concatenate(intercepts))
        trials = [
            ValidationResult(
                self.losses(one.T),
                np.array([alpha]),
                0,
                one,
                0.0,
                float(alpha / trace),
                coef,
                self.n_rows,
            )
            for alpha, coef, one in zip(
                tried, coefs, np.split(predicted, len(coefs), axis=1), strict=True
            )
        ]
        best = min(trials, key=lambda trial: self.average(trial.losses))
        return best._replace(seconds=clock.elapsed)

    def mapped(self, metric: Metric) -> Validator:
        """Copy the validator, its rows in the coordinates of a metric."""
        rows = copy(self)
        rows.X = metric.coordinates(self.X)
        rows.X_out = metric.coordinates(self.X_out)
        return rows

    def subsample(self, n_rows: int) -> Validator:
        """Copy the validator with some of the training rows."""
        if self.n_rows <= n_rows:
            return self
        sample = self.fitted.sample(n_rows, np.random.default_rng(self.seed))
        few = copy(self)
        few.X = sample.X
        few.y = sample.y
        few.weight = sample.weights
        few.splits = sample.splits
        return few


class HeldOutPredictions(NamedTuple):
    """Predictions for rows that the model has not seen.

    Attributes
    ----------
    predicted, targets : arrays of shape (n, K)
    weight : array of shape (n,)
        How much the rows count.
    X : array or CSR matrix of shape (n, d), or None
        Encoded.
    group : int array of shape (n,) or None
        Where rows belong to groups.
    fitted_weight : array of shape (n,) or None
        With which the rows are fitted otherwise, where these are observations.
    fold : int array of shape (n,) or None
        Rows with the same number were left out together; each by itself where None.
    """

    predicted: NDArray
    targets: NDArray
    weight: NDArray
    X: Rows | None = None
    group: Indices | None = None
    fitted_weight: NDArray | None = None
    fold: Indices | None = None

    def distinct(self) -> HeldOutPredictions:
        """Equal rows as one, of their weight, mean prediction and mean target: a copy
        is no evidence of its own.
        """
        if self.X is None:
            return self
        _, first, group = np.unique(
            row_hashes(self.X), return_index=True, return_inverse=True
        )
        if len(first) == len(group):
            return self
        total, targets = group_means(group, self.targets, self.weight)
        _, predicted = group_means(group, self.predicted, self.weight)
        groups = None if self.group is None else self.group[first]
        return HeldOutPredictions(predicted, targets, total, group=groups)


class HeldOutRun(NamedTuple):
    """Result of a run without the held-out rows.

    Attributes
    ----------
    n_iter : int
        Iterations that were best for the rows; the most that there may be where they
        were not traced.
    predictions : HeldOutPredictions
    coefs : list of arrays of shape (K, D)
        Of each fold; where iterations were traced, those after the last one.
    offsets : list of arrays of shape (K,)
        Which go with the coefficients, for features as they are stored.
    error : float
        Relative error at which it was enough to stop, the largest of the folds; zero
        where iterations were traced.
    n_done : int
        Iterations that were traced, of the first fold.
    is_overdone : bool
        Whether the iterations after the best one made losses of the rows clearly
        larger, by a share of those of the mean that is worthwhile.
    """

    n_iter: int
    predictions: HeldOutPredictions
    coefs: list[NDArray]
    offsets: list[NDArray]
    error: float = 0.0
    n_done: int = 0
    is_overdone: bool = False

    @property
    def coef(self) -> NDArray:
        """Mean over the folds."""
        return np.mean(self.coefs, axis=0) if len(self.coefs) > 1 else self.coefs[0]


class HeldOut:
    """Rows held out of a ridge regression: about a fifth or 10,000; all rows in turn
    where there are few.

    Equal rows are held out together, lest one tell of the other; a row of weight zero
    is as none.

    Parameters
    ----------
    ridge : IterativeRidge
    seed : int
    rows : bool array of shape (n,), optional
        These ones instead.
    budget : Budget, optional
        Of what is asked of them, which ends with it.

    Attributes
    ----------
    folds : list of Fold
        The rows that validate at a time, and those that are fitted then; empty where
        all rows are equal.
    """

    def __init__(
        self,
        ridge: IterativeRidge,
        seed: int,
        rows: NDArray | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.ridge = ridge
        self.budget = budget or Budget()
        self._has_plateaued = has_plateaued
        self._most_traced = POLICY.traced_iterations
        if ridge.is_dense:
            # Their losses may stall for a while: all run to one end, a nearer one
            self._has_plateaued = never
            self._most_traced //= 2
        self.folds = sets_held_out(ridge.design, seed, rows)
        self._rows = [self._stored(fold.held_out) for fold in self.folds]

    def _stored(self, mask: NDArray) -> StoredRows:
        design = self.ridge.design
        X, y, weight = design.source.validating(np.flatnonzero(mask)).whole()
        return StoredRows(
            self.ridge.store(X.astype(design.dtype, copy=False), self.ridge.packed),
            y,
            weight,
        )

    def _trace(
        self,
        k: int,
        n_candidates: int,
        steps: int,
        mix: NDArray | None = None,
        losses: Losses | None = None,
    ) -> Trace:
        """A trace of the rows of fold k."""
        equations = self.ridge.equations(self.folds[k].fitted)
        rows = self._rows[k]
        losses = losses or partial(squares, rows.y if mix is None else rows.y @ mix)
        return Trace(equations, rows, losses, n_candidates, steps, mix)

    def scores(self, penalties: NDArray) -> NDArray:
        """Mean squared error of candidates, summed over the outputs, at the best number
        of iterations for each.

        Many outputs are validated by combinations, whose squares keep the sum of
        theirs in expectation.

        Parameters
        ----------
        penalties : array of shape (A, M)
            Ridge penalties of the maps.

        Returns
        -------
        array of shape (A,)
        """
        K = self.ridge.design.source.n_outputs
        most = POLICY.mixtures
        mix = mixture(K, most) * np.sqrt(K / most) if most < K else None
        weights = [rows.weight.sum() for rows in self._rows]
        curves = []
        stops = in_time(self.budget.first_of(3), self._has_plateaued)
        for k in range(len(self.folds)):
            trace = self._trace(k, len(penalties), self._most_traced, mix)
            curves.append(trace.run(self.ridge, penalties, 1e-3, stops).curves)
        return np.average(curves, axis=0, weights=weights).min(axis=0)

    def trace(
        self,
        penalty: NDArray,
        tol: float,
        losses: Losses | None = None,
        steps: int | None = None,
    ) -> HeldOutRun:
        """Predict the held-out rows at the number of iterations, at least 1, that is
        best for them.

        Parameters
        ----------
        penalty : array of shape (M,)
            Ridge penalties of the maps.
        tol : float
            Relative error at which to stop anyway.
        losses : callable (predictions of shape (K, n)) -> array of shape (n,), optional
            By which it is best, instead of the squared error; of a single fold.
        steps : int, optional
            Iterations to do, instead of those until the losses stall.
        """
        stops = in_time(
            self.budget.first_of(2),
            never if steps else self._has_plateaued,
            POLICY.trial_steps,
        )
        traces = [
            self._trace(k, 1, steps or self._most_traced, losses=losses)
            for k in range(len(self.folds))
        ]
        for trace in traces:
            trace.run(self.ridge, penalty[np.newaxis], tol, stops)
        n_iter = max(1, round(float(np.median([trace.n_iter[0] for trace in traces]))))
        predictions = self._predictions([trace.predicted[0] for trace in traces])
        ends = (
            [trace.coef for trace in traces],
            [trace.equations.intercept(trace.coef) for trace in traces],
        )
        of_mean, best, last = (
            np.concatenate(losses)
            for losses in zip(
                *((t.losses_of_mean, t.losses[0], t.last_losses[0]) for t in traces),
                strict=True,
            )
        )
        weight = predictions.weight
        # Where targets have no noise, the least rise is clear
        rise = average(last, weight) - average(best, weight)
        is_overdone = rise > POLICY.worthwhile * average(of_mean, weight) and is_better(
            best, last, POLICY.certain, weight, predictions.group
        )
        return HeldOutRun(
            n_iter,
            predictions,
            *ends,
            n_done=traces[0].n_done,
            is_overdone=is_overdone,
        )

    def solve(self, penalty: NDArray, tol: float, settled: bool = False) -> HeldOutRun:
        """Predict the held-out rows by solutions of a given relative error.

        Parameters
        ----------
        penalty : array of shape (M,)
            Ridge penalties of the maps.
        tol : float
        settled : bool, default=False
            Stop before where the predictions have settled.
        """
        coefs = list[NDArray]()
        offsets = list[NDArray]()
        predicted = list[NDArray]()
        errors = list[float]()
        budget = self.budget.first_of(2)
        for k in range(len(self.folds)):
            trace = self._trace(k, 1, 1)

            def visit(coef: NDArray, n_iter: int, trace: Trace = trace) -> bool:
                return budget.is_over or (settled and trace.has_settled(coef, n_iter))

            columns = np.tile(penalty, (len(trace.rhs), 1))
            solution = self.ridge.solve(
                trace.equations, columns, tol, POLICY.most_iterations, visit=visit
            )
            coefs.append(solution.coef)
            offsets.append(trace.equations.intercept(solution.coef))
            predicted.append(trace.predict(solution.coef)[0])
            errors.append(max(solution.error, tol))
        ends = (coefs, offsets)
        error = max(errors) if settled else tol
        return HeldOutRun(
            POLICY.most_iterations, self._predictions(predicted), *ends, error
        )

    def _predictions(self, predicted: list[NDArray]) -> HeldOutPredictions:
        """Those of all folds together, given with shape (K, n) for each."""
        numbers = [np.flatnonzero(fold.held_out) for fold in self.folds]
        fold = np.repeat(np.arange(len(numbers)), list(map(len, numbers)))
        source = self.ridge.design.source.take(np.concatenate(numbers))
        return HeldOutPredictions(
            np.concatenate([values.T for values in predicted]),
            np.concatenate([rows.y for rows in self._rows]),
            np.concatenate([rows.weight for rows in self._rows]),
            source.whole().X,
            source.group,
            fold=fold,
        )


def sets_held_out(
    design: Design, seed: int, held_out: NDArray | None = None
) -> list[Fold]:
    """Rows to hold out, a set at a time: by the splits of the rows; or those given, or
    about a fifth, or five folds of few rows.

    None where all rows are equal. Where rows were held out before, one split serves.
    """
    source = design.source
    weights = source.weights
    is_few = source.n_counted <= POLICY.folded_rows
    if source.splits is not None:
        split_folds = source.splits.folds(weights)
        return split_folds if held_out is None and is_few else split_folds[:1]
    if held_out is not None:
        masks = [held_out]
    elif is_few:
        masks = folds(design.row_hashes, weights, seed)
    else:
        masks = [rows_held_out(design.row_hashes, weights, seed)]
    return [
        complement(mask) for mask in masks if mask.any() and not mask[weights > 0].all()
    ]


def compared(design: Design, seed: int) -> Design | None:
    """Return a design of 10,000 of the rows, on which ridge penalties are compared;
    None where there are no more.
    """
    sample = design.source.sample(POLICY.compared_rows, np.random.default_rng(seed))
    return (
        None
        if sample.n_rows == design.source.n_rows
        else Design(sample, deepcopy(design.features), design.dtype)
    )


def bin_penalty_unit(ridge: IterativeRidge) -> float:
    """The kernel's variance of bins times what a distinct row weighs, in which the
    penalties of their other losses are.
    """
    return float(alphas_to_try(ridge)[0] / POLICY.bin_alphas[0])


def alphas_to_try(ridge: IterativeRidge, weight: float | None = None) -> NDArray:
    """Ridge penalties to try, shape (A,).

    For dense features shares of the centred trace of Z'WZ, from where rounding would
    show. For bins from 0.01 to 10 times the kernel's variance and what a distinct row
    weighs, equal ones taken together.

    Parameters
    ----------
    ridge : IterativeRidge
    weight : float, optional
        Sum of the weights of all rows, where `ridge` has some of them.
    """
    binned = [not part.is_dense for part in ridge.maps]
    if not any(binned):
        equations = ridge.equations()
        trace = float(equations.diagonal().sum()) or 1.0
        return (
            np.array(POLICY.shares)
            * trace
            * (1.0 if weight is None else weight / equations.weight)
        )
    squared = np.zeros((1, int(ridge.edges[-1])))
    for features, _, weight_of_rows in ridge.blocks:
        features.squares_of(binned, weight_of_rows[np.newaxis], squared)
    trace = sum(
        squared[0, a:b].sum()
        for a, b, is_binned in zip(ridge.edges, ridge.edges[1:], binned, strict=False)
        if is_binned
    )
    n_distinct = ridge.design.n_distinct
    mantissa, exponent = np.frexp(trace / sum(binned) / n_distinct)
    return np.array(POLICY.bin_alphas) * np.ldexp(
        np.round(mantissa, 9), exponent
    )  # 1, not 1 - 1e-16


def choose_penalty(
    held_out: HeldOut, alphas: NDArray | None
) -> tuple[NDArray, NDArray]:
    """Choose alpha, and where several maps are to be weighted a factor on it for each,
    one after the other.

    Parameters
    ----------
    held_out : HeldOut
    alphas : array of shape (A,) or None
        None for those of `alphas_to_try`.

    Returns
    -------
    penalty : array of shape (M,)
        Ridge penalties of the maps.
    scores : array of shape (A,)
        Of the alphas.
    """
    if alphas is None:
        alphas = alphas_to_try(held_out.ridge)
    n_maps = len(held_out.ridge.maps)
    scores = held_out.scores(np.tile(alphas[:, np.newaxis], (1, n_maps)))
    penalty = np.full(n_maps, best_alpha(alphas, scores))
    for m in range(n_maps if held_out.ridge.design.features.learns_weights else 0):
        tried = np.tile(penalty, (1 + len(POLICY.weight_steps), 1))
        tried[1:, m] *= POLICY.weight_steps
        penalty = tried[np.nanargmin(held_out.scores(tried))]
    return penalty, scores
