"""What a ridge regression of an estimator is asked for, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.estimators.ridge.error_scale import CalibrationRows
from bochner.features.base import FeatureMap
from bochner.selection.choose import Verdict
from bochner.selection.validation import HeldOutPredictions
from bochner.solvers.factors import Factor
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.line_search import Score, best_alpha, choose_alpha

SCORED_ROWS = 4096


@dataclass(frozen=True)
class RidgeTask:
    """What is to be solved for the rows of a design.

    Attributes
    ----------
    alpha : float, sequence of float, "auto", "loo" or "gcv"
    tol : float
        Relative error of conjugate gradients.
    seed : int
        Of the samples of rows on which choices are made.
    calibrated : bool
        Whether predictions for rows by a model that has not seen them are wanted too.
    uncertain : bool
        Whether such predictions for the rows that intervals go by are.
    individual : bool
        Whether predictions are of the rows as they came, copies as one, and not of equal inputs as one: where what
        targets vary by among these is noise, and to be known.
    held_out : bool array of shape (n,) or None
        Rows that the features were not learned from, of which these predictions are, if they are not too few.
    verdict : Verdict or None
        What rows held out tell, where the choice of the model settles when conjugate gradients stop.
    n_iter : int or None
        Iterations that served an earlier fit of the same model.
    resumed : bool
        Whether they were those without some rows that were held out, and half as many followed with them.
    chosen : bool
        Whether a single ridge term was chosen before, by rows held out.
    merges : bool
        Whether equal rows may be one, of their mean target; another loss of numbers asks for that of each.
    """

    alpha: object
    tol: float
    seed: int
    calibrated: bool = False
    held_out: NDArray | None = None
    verdict: Verdict | None = None
    n_iter: int | None = None
    chosen: bool = False
    resumed: bool = False
    merges: bool = True
    uncertain: bool = False
    individual: bool = False

    @property
    def alphas(self) -> NDArray | None:
        """Ridge terms that are given, ascending; None where they are to be chosen."""
        return given_alphas(self.alpha)

    @property
    def is_open(self) -> bool:
        """Whether there are several ridge terms to choose from."""
        return self.alphas is None or len(self.alphas) > 1


class Stage(NamedTuple):
    """What a solution leaves for another one on the same features.

    Attributes
    ----------
    ridge : IterativeRidge
        With stored features.
    masks : list of bool arrays of shape (n,)
        Rows of its design that were held out, a set at a time.
    without : list of arrays of shape (K, D) or None
        Coefficients without the rows of each set.
    """

    ridge: IterativeRidge
    masks: list[NDArray]
    without: list[NDArray] | None


@dataclass(frozen=True)
class Fitted:
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
        Mean squared error of each on rows left out.
    held_out_predictions : HeldOutPredictions or None
        Predictions for rows by a model that has not seen them, where they were asked for and there are any.
    calibration : CalibrationRows or None
        Predictions for observations that intervals go by, where these were requested.
    n_iter : int or None
    residual : float or None
    stage : Stage or None
        Where features were stored.
    """

    features: FeatureMap
    coef: NDArray
    intercept: NDArray
    alpha: float
    alphas: NDArray
    scores: NDArray | None
    held_out_predictions: HeldOutPredictions | None
    n_iter: int | None = None
    residual: float | None = None
    calibration: CalibrationRows | None = None
    stage: Stage | None = None


def given_alphas(alpha: object) -> NDArray | None:
    """Ridge terms as the user gives them, ascending; None where they are to be chosen."""
    return None if isinstance(alpha, str) else np.unique(np.asarray(alpha, dtype=np.float64))


def decide(score: Score, given: NDArray | None, factor: Factor) -> tuple[float, NDArray, NDArray | None]:
    """Alpha, those tried, and their scores."""
    if given is None:
        return choose_alpha(factor, score)
    if len(given) == 1:
        return float(given[0]), given, None
    scores = score(given)
    return best_alpha(given, scores), given, scores
