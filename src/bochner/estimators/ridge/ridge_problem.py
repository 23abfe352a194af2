"""What a ridge regression of an estimator is asked for, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.blocks import SAMPLE_ROWS
from bochner.data.array_source import ArraySource
from bochner.data.row_splits import Fold
from bochner.design.design import Design
from bochner.estimators.ridge.out_of_sample import OutOfSample, UnseenRows
from bochner.features import LinearFeatures, SparseColumns
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.planning.request import given_alphas
from bochner.selection.budget import Budget
from bochner.selection.choose import ValidationOutcome
from bochner.selection.validation import HeldOutPredictions, sets_held_out
from bochner.solvers.factors import Factor, factorise
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.line_search import Score, best_alpha, choose_alpha


class Iterations(NamedTuple):
    """Stop after as many iterations as an earlier fit of the same model.

    Attributes
    ----------
    n_iter : int
        Iterations that served it.
    then_half : bool
        Whether they were those without the validation rows, after which half as many
        followed with all rows.
    """

    n_iter: int
    then_half: bool = False


class Needs(NamedTuple):
    """What is wanted in addition to the coefficients.

    Attributes
    ----------
    out_of_sample : bool
        Predictions for rows by models that have not seen them.
    observations : bool
        These for the rows as they came, copies as one; else equal inputs are one row of
        their mean target. Where targets vary among equal inputs that is noise, and to
        be known.
    error_scale : bool
        Such predictions for the rows that calibrate intervals too.
    evaluated : int
        Rows that are wanted with a function that has not seen them, if there is one
        without more than a little work.
    """

    out_of_sample: bool = False
    observations: bool = False
    error_scale: bool = False
    evaluated: int = 0


@dataclass(frozen=True)
class RidgeProblem:
    """A ridge regression on the rows of a design.

    Attributes
    ----------
    alpha : float, sequence of float, "auto", "loo" or "gcv"
        The ridge penalty, those to choose from, or by what it is chosen.
    tol : float
        Relative error of conjugate gradients.
    seed : int
        Of the samples of rows on which choices are made.
    held_out : bool array of shape (n,) or None
        Validation rows, which the features were not learned from: predictions are of
        these, if they are not too few.
    stopping : ValidationOutcome, Iterations or None
        When conjugate gradients stop: where the losses of the validation rows that
        chose the model are least; as in an earlier fit; or at the tolerance.
    needs : Needs
    penalty_selected : bool
        Whether the single alpha was chosen before, by validation rows.
    merges : bool
        Whether equal rows may be one, of their mean target; another loss of numbers
        asks for that of each.
    budget : Budget
        Of the time for it: iterations end with it.
    stores_alone : bool
        Whether the features of bins are stored and not solved for, as another loss is
        certain, which does not begin at the ridge solution.
    """

    alpha: object
    tol: float
    seed: int
    held_out: NDArray | None = None
    stopping: ValidationOutcome | Iterations | None = None
    needs: Needs = field(default_factory=Needs)
    penalty_selected: bool = False
    merges: bool = True
    budget: Budget = field(default_factory=Budget)
    stores_alone: bool = False

    @property
    def alphas(self) -> NDArray | None:
        """Ridge penalties that are given, ascending; None where they are to be
        chosen.
        """
        return given_alphas(self.alpha)

    @property
    def criterion(self) -> str | None:
        """By what the ridge penalty is chosen; None where some are given."""
        return self.alpha if isinstance(self.alpha, str) else None

    def validating(
        self, source: ArraySource, fewest: int = SAMPLE_ROWS // 2
    ) -> ArraySource:
        """The validation rows of a source; the source itself where these are too few,
        or not decided.
        """
        if self.held_out is None or self.held_out.sum() < fewest:
            return source
        return source.take(np.flatnonzero(self.held_out))

    def ends(self, coef: NDArray, n_iter: int) -> bool:
        """Whether iterations end for want of time."""
        return self.budget.is_over

    @property
    def is_open(self) -> bool:
        """Whether there are several ridge penalties to choose from."""
        return self.alphas is None or len(self.alphas) > 1

    @property
    def n_alphas(self) -> int:
        """How many ridge penalties are tried; two stand for a search."""
        return 2 if self.alphas is None else len(self.alphas)


class StoredProblem(NamedTuple):
    """Stored features of a solution, for another loss on the same rows.

    Attributes
    ----------
    ridge : IterativeRidge
        With stored features.
    folds : list of Fold
        Rows of its design that were held out, a set at a time.
    without : list of arrays of shape (K, D)
        Coefficients without the rows of each set, where these are known.
    """

    ridge: IterativeRidge
    folds: list[Fold]
    without: list[NDArray]


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients, and how they were found.

    Attributes
    ----------
    features : FeatureMap
        The map that the coefficients are of.
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    alpha : float
    alphas : array of shape (A,)
        What was tried, ascending.
    scores : array of shape (A,) or None
        Score of each: mean squared error for rows left out, or the criterion of
        `alpha="gcv"`.
    held_out_predictions : HeldOutPredictions or None
        Predictions for rows by a model that has not seen them, where they were asked
        for and there are any.
    n_iter : int or None
    residual : float or None
    calibration : OutOfSample or None
        Predictions for observations that intervals go by, where these were requested.
    stored : StoredProblem or None
        Where features were stored.
    weight : float or None
        Of all rows, where they were read in passes.
    unseen : UnseenRows or None
        Rows and a function that has not seen them, where these were asked for and there
        are any.
    seconds : float
        That the solution took.
    """

    features: FeatureMap
    coef: NDArray
    intercept: NDArray
    alpha: float
    alphas: NDArray
    scores: NDArray | None = None
    held_out_predictions: HeldOutPredictions | None = None
    n_iter: int | None = None
    residual: float | None = None
    calibration: OutOfSample | None = None
    stored: StoredProblem | None = None
    weight: float | None = None
    unseen: UnseenRows | None = None
    seconds: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether its features are the columns themselves alone."""
        parts = [leaf.features for leaf in leaves(self.features)]
        return all(isinstance(part, LinearFeatures | SparseColumns) for part in parts)


def choose_penalty_by(
    score: Score, alphas: NDArray | None, factor: Factor
) -> tuple[float, NDArray, NDArray | None]:
    """Alpha, those tried, and their scores; a single one needs none."""
    if alphas is None:
        return choose_alpha(factor, score)
    if len(alphas) == 1:
        return float(alphas[0]), alphas, None
    scores = score(alphas)
    return best_alpha(alphas, scores), alphas, scores


def stored_problem(
    design: Design, fitted: RidgeSolution, task: RidgeProblem
) -> StoredProblem:
    """The features of a ridge solution, and the rows that are held out.

    Raises
    ------
    MemoryError
        Where the features do not fit in memory.
    """
    if fitted.stored is not None:
        return fitted.stored
    # Bins that passes over the rows have numbered stay as they are
    ridge = IterativeRidge(
        Design(design.source, fitted.features, design.dtype, fixed=True), task.seed
    )
    if not isinstance(ridge.blocks, list):
        raise MemoryError(
            "The features do not fit in memory: use loss='squared', or fewer features."
        )
    source = design.source
    folds = sets_held_out(design, task.seed, task.held_out)
    fold_designs = [
        Design(source.take(np.flatnonzero(fold.fitted)), fitted.features, design.dtype)
        for fold in folds
    ]
    return StoredProblem(
        ridge, folds, [factorise(one, 1).coef(fitted.alpha).T for one in fold_designs]
    )
