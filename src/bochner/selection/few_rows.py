"""One lengthscale and its ridge penalty for few rows, by leave-one-out errors.

With 250 rows or less the kernel matrix of all rows is small: leave-one-out predictions
for every row are exact, for all ridge penalties at the price of one factorisation a
lengthscale. Scores of classes become probabilities by p = softmax(a f), a the best of a
few slopes. Squared error would choose by how near -1 and 1 the scores of certain rows
are; the log loss, by the rows that are in doubt. Errors of numbers are taken for normal
with the variance that they have.

Such a small number of rows also chooses by chance: what is taken is no minimum, but the
mean of the logarithms of lengthscales and ridge penalties, weighted by the likelihood
of the leave-one-out predictions (Sundararajan and Keerthi, 2001) and a wide prior about
what serves most problems. Columns of much the same spread, as pixels, keep their common
unit, and others are scaled to unit variance; the kernel is Gaussian. The other unit or
a Laplacian kernel is taken where it is better by two standard errors of the rows'
losses. The least loss alone took the wrong unit for 2 of 40 draws of 100 images of
digits, at 27 and 30 % wrong instead of 21.

References
----------
Sundararajan and Keerthi, "Predictive Approaches for Choosing Hyperparameters in
Gaussian Processes", Neural Computation 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.hashes import row_hashes
from bochner.design.design import Design
from bochner.features.nystroem import KernelRows
from bochner.kernels import Stationary
from bochner.selection.budget import Budget
from bochner.selection.lengthscale import (
    AUTO,
    COMMON_UNIT,
    SCALED,
    common_unit_lengths,
    deviations,
    kernel_at,
)
from bochner.selection.policy import POLICY
from bochner.selection.report import Candidate, Report
from bochner.selection.split import fold_numbers
from bochner.selection.validation import (
    HeldOutPredictions,
    is_better,
    mean_and_error,
)
from bochner.solvers.factors import KernelFactor
from bochner.solvers.kernel_matrix import centred_kernel
from bochner.solvers.line_search import Tried

# Beyond which a score says no more, as in the link of the fitted model
HIGHEST_SCORE = 2.0


class FewRows(NamedTuple):
    """The kernel and the ridge penalty for a unit of weight, selected for few rows,
    with the report.

    Predictions are for the distinct rows, by machines without each and choices without
    its tenth of the rows.
    """

    kernel: Stationary
    alpha_per_weight: float
    report: Report
    predictions: HeldOutPredictions


class LengthscaleTrial(NamedTuple):
    """A kernel, its power, and for each ridge penalty the logarithms of its prior and
    of its posterior weight, losses of rows, (A, n), and predictions, (A, n, K).
    """

    way: str
    power: float
    log_prior: NDArray
    log_weights: NDArray
    losses: NDArray
    predicted: NDArray

    @property
    def best(self) -> NDArray:
        """Losses of the rows by the ridge penalty of the greatest weight."""
        losses: NDArray = self.losses[self.log_weights.argmax()]
        return losses


@dataclass
class LengthscaleSearch:
    """Kernels of the rows with columns of given lengths, up to a factor.

    Parameters
    ----------
    rows : Block
        X dense, targets from -1 to 1 or standardised numbers, weights.
    name : str
        Of the kernel.
    way : str
        Of the lengths, for people.
    lengths : array of shape (d,)
    spread : array of shape (d,)
        Deviations of the columns.
    alphas : array of shape (A,) or None
    is_classifier : bool, default=True
        Whether the losses are log losses of classes, not squared errors.

    Attributes
    ----------
    probabilities : array of shape (n, K) or None
        Shares of the classes, one row's worth of which is shared by all.
    """

    rows: Block
    name: str
    way: str
    lengths: NDArray
    spread: NDArray
    alphas: NDArray | None
    is_classifier: bool = True
    probabilities: NDArray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # Before threads ask for them
        if self.is_classifier:
            y = self.rows.y
            self.probabilities = class_shares(both_classes(y), 1 / (len(y) + 2))

    def kernel(self, power: float) -> Stationary:
        """The kernel with the lengthscale 1.5^power times the spread of the columns."""
        return kernel_at(self.name, self.lengths, self.spread, power)

    def penalties(self, trace: float) -> NDArray:
        """Ridge penalties to try."""
        return (
            np.array(POLICY.few_shares) * trace / len(self.rows.y)
            if self.alphas is None
            else self.alphas
        )

    def trial(self, power: float) -> LengthscaleTrial:
        """Leave-one-out losses of all ridge penalties."""
        X, y, weight = self.rows
        features = KernelRows(self.kernel(power)).fit(X)
        centred = centred_kernel(
            Design(ArraySource(X, y, weight), features, np.float64).dense, X, weight
        )
        factor = KernelFactor(centred, y, weight, 2)
        errors = factor.leave_one_out(self.penalties(factor.trace))
        predicted = y - errors
        if self.probabilities is None:
            losses = np.square(errors).sum(axis=2)
        else:
            losses = best_losses(predicted, self.probabilities, weight)
        log_prior = self._prior(power)
        log_weights = log_prior + self.log_likelihood(losses, weight)
        return LengthscaleTrial(
            self.way, power, log_prior, log_weights, losses, predicted
        )

    def log_likelihood(self, losses: NDArray, weight: NDArray) -> NDArray:
        """Logarithms of the likelihood of rows of some weights, for losses of shape
        (A, n); errors of numbers are normal with the variance that suits them best.
        """
        _, y, row_weight = self.rows
        n_rows = len(y) * weight.sum() / row_weight.sum()
        mean = losses @ (weight / weight.sum())
        if self.probabilities is not None:
            return -n_rows * mean
        least = np.finfo(np.float64).tiny
        return -n_rows * y.shape[1] / 2 * np.log(np.maximum(mean, least))

    def _prior(self, power: float) -> NDArray:
        """Log prior weights of a lengthscale and of the ridge penalties."""
        centre, deviation = POLICY.few_power
        prior = -(((power - centre) / deviation) ** 2) / 2
        if self.alphas is not None:
            return np.full(len(self.alphas), prior)
        share, factor = POLICY.few_share
        return (
            prior
            - (np.log(np.array(POLICY.few_shares) / share) / np.log(factor)) ** 2 / 2
        )

    def alpha_per_weight(self, power: float, log_share: float) -> float:
        """The ridge penalty of a share of the kernel's mean eigenvalue, for a unit
        of weight.
        """
        X, y, weight = self.rows
        share = weight / weight.sum()
        K = self.kernel(power)(X)
        total = share @ np.diag(K)
        spread = max(
            total - share @ K @ share, np.finfo(np.float64).eps * total
        )  # of one row with all weight none
        return float(np.exp(log_share) * spread / len(y))


def choose_for_few(
    source: ArraySource,
    name: str,
    column_units: NDArray | None,
    alphas: NDArray | None,
    is_classifier: bool,
    most_rows: int,
    seed: int,
    budget: Budget | None = None,
) -> FewRows | None:
    """Choose the lengthscale of a kernel and the ridge penalty for few rows, by 400 of
    them at most.

    Parameters
    ----------
    source : ArraySource
        Its targets are -1 and 1, or standardised numbers.
    name : str
        A key of `bochner.kernels.catalogue.NAMED`; "auto" is Gaussian, or Laplacian
        where that is clearly better, as for categories that are written as numbers.
    column_units : array of shape (d,) or None
        What one unit of each encoded column is in the unit of the input; None where
        that has no meaning.
    alphas : array of shape (A,) or None
        The ridge penalties allowed; None where they are chosen too.
    is_classifier : bool
    most_rows : int
        Distinct rows at most.
    seed : int
        Of the rows that choose.
    budget : Budget, optional
        In whose time other kernels and units than the preferred ones are tried.

    Returns
    -------
    FewRows or None
        None where the rows are too many or too long, less than five distinct ones, or
        all equal in their targets.
    """
    if (
        source.n_counted == 0
        or min(source.n_counted, most_rows) * source.X.shape[1] > POLICY.final_entries
        # Predictions of all trials are held
        or not (is_classifier or source.n_outputs <= POLICY.mixed_outputs)
    ):
        return None
    clock = Budget()
    rows = _distinct(source, most_rows, seed)
    if rows is None:
        return None
    spread = deviations(rows.X, rows.weight)
    if not spread.any():
        return None
    ways = {SCALED: np.ones(len(spread))}  # the first is preferred
    if column_units is not None:
        common = {COMMON_UNIT: common_unit_lengths(column_units, spread)}
        ways = (
            common | ways
            if _are_alike(spread / common[COMMON_UNIT], POLICY.alike)
            else ways | common
        )
    kernels = AUTO if name == "auto" else (name,)
    searches = dict[str, LengthscaleSearch]()
    for kernel in kernels:
        for way, lengths in ways.items():
            label = way if kernel == kernels[0] else f"{way}, {kernel} kernel"
            searches[label] = LengthscaleSearch(
                rows, kernel, label, lengths, spread, alphas, is_classifier
            )
    few = _decide(searches, clock, budget or Budget())
    if is_classifier:
        return few
    # That of numbers stands for the variance of their noise, whatever the number of
    # rows
    searched = float(rows.weight.sum() / source.weights.sum())
    return few._replace(alpha_per_weight=searched * few.alpha_per_weight)


def _distinct(source: ArraySource, most: int, seed: int) -> Block | None:
    """Distinct dense rows, or some of them; None if there are too many or too few, or
    all have the same target.
    """
    # Few rows repeated a hundred times and more are looked for no more
    if source.n_rows > most * 100:
        return None
    distinct = source.counted().distinct()
    if not POLICY.n_folds <= distinct.n_rows <= most:
        return None
    sample = distinct.sample(POLICY.searched_rows, np.random.default_rng(seed))
    X, y, weight = sample.whole()
    if not np.ptp(y, axis=0).any():
        return None
    return Block(X if isinstance(X, np.ndarray) else X.toarray(), y, weight)


def _decide(
    ways: dict[str, LengthscaleSearch], clock: Budget, budget: Budget
) -> FewRows:
    """Search lengthscales on a coarse grid, then their neighbours, and average
    around the best.
    """
    tried: Tried[tuple[str, float], LengthscaleTrial] = Tried(
        lambda place: ways[place[0]].trial(place[1])
    )

    def best(places: Sequence[tuple[str, float]]) -> tuple[str, float]:
        tried.compute(places)
        return max(places, key=lambda place: tried[place].log_weights.max())

    way = next(iter(ways))
    tried.compute((way, power) for power in POLICY.few_powers)
    # Each other kernel or unit takes as long again, with the neighbours of the best
    if 2 * len(ways) * clock.elapsed > budget.seconds_left:
        ways = {way: ways[way]}
    tried.compute((way, power) for way in ways for power in POLICY.few_powers)
    preferred, *others = [
        best([(way, power) for power in POLICY.few_powers]) for way in ways
    ]
    places = [preferred, best(others)] if others else [preferred]
    for _ in range(2):
        places = [
            best([(way, power), (way, power - 1), (way, power + 1)])
            for way, power in places
        ]
    way, power = places[0]
    weight = ways[way].rows.weight
    losses = [tried[place].best for place in places]
    if others and is_better(losses[1], losses[0], POLICY.certain, weight):
        way, power = places[1]
    near = [
        trial
        for (trial_way, trial_power), trial in tried.items()
        if trial_way == way and abs(trial_power - power) <= 1
    ]
    log_weights = np.array([trial.log_weights for trial in near])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    power = float(weights.sum(axis=1) @ [trial.power for trial in near])
    chosen = ways[way]
    per_weight = 0.0
    if chosen.alphas is None:
        per_weight = chosen.alpha_per_weight(
            power, float(weights.sum(axis=0) @ np.log(POLICY.few_shares))
        )
    trials = list(tried.values())
    report = _report(trials, chosen, clock)
    return FewRows(
        chosen.kernel(power), per_weight, report, _cross_chosen(trials, chosen)
    )


def _cross_chosen(
    trials: Sequence[LengthscaleTrial], search: LengthscaleSearch
) -> HeldOutPredictions:
    """Leave-one-out predictions for each row by the machine selected without its fold.

    By the machine that was chosen with a row, its score is too good: of 30 rows of
    three classes, sets that should hold 80 % held 78, of choices without them 80.
    """
    X, y, weight = search.rows
    log_prior = np.concatenate([trial.log_prior for trial in trials])
    losses = np.concatenate([trial.losses for trial in trials])
    predicted = np.concatenate([trial.predicted for trial in trials])
    fold = fold_numbers(row_hashes(X), 0, POLICY.crossed_folds[0])
    cross_predicted = np.empty(y.shape)
    for number in np.unique(fold):
        out = fold == number
        log_likelihood = search.log_likelihood(losses, np.where(out, 0.0, weight))
        best = int(np.argmax(log_prior + log_likelihood))
        cross_predicted[out] = predicted[best, out]
    return HeldOutPredictions(cross_predicted, y, weight, X)


def _are_alike(spread: NDArray, share: float) -> bool:
    """Whether `share` of the columns beside one matter in their common unit, as if they
    were of one kind.
    """
    squares = np.square(spread[spread > 0] / spread.max())
    effective = squares.sum() ** 2 / np.square(squares).sum()
    return bool(effective >= 1 + share * (len(squares) - 1))


def share_unit(source: ArraySource, column_units: NDArray | None) -> bool:
    """Whether all columns are numbers that may have one unit, as pixels have."""
    spread = (
        np.zeros(1) if column_units is None else deviations(source.X, source.weights)
    )
    if column_units is None or not spread.any():
        return False
    return _are_alike(spread / common_unit_lengths(column_units, spread), POLICY.alike)


def best_losses(scores: NDArray, probabilities: NDArray, weight: NDArray) -> NDArray:
    """Log losses of p = softmax(a f) at the best slope a for each set of scores.

    The exponentials of doubled slopes are squares, so that ten slopes take two
    exponentials a score.

    Parameters
    ----------
    scores : array of shape (A, n, K)
        f; of two classes one score, which is that of the second, and less that of the
        first.
    probabilities : array of shape (n, K)
    weight : array of shape (n,)

    Returns
    -------
    array of shape (A, n)
    """
    f = np.clip(both_classes(scores), -HIGHEST_SCORE, HIGHEST_SCORE)
    f = f - f.max(axis=2, keepdims=True)
    linear = np.einsum("ank,nk->an", f, probabilities)
    share = weight / weight.sum()
    best = np.full(f.shape[:2], np.inf)
    for slope in (1.0, 1.5):
        powers = np.exp(slope * f)
        for _ in range(POLICY.few_doublings):
            losses = np.log(powers.sum(axis=2)) - slope * linear
            lower = losses @ share < best @ share
            best[lower] = losses[lower]
            powers = np.square(powers)
            slope = 2 * slope
    return best


def both_classes(values: NDArray) -> NDArray:
    """Targets or scores, shape (..., K), of which one stands for two classes: that
    of the second, less the first.
    """
    return (
        np.concatenate([-values, values], axis=-1) if values.shape[-1] == 1 else values
    )


def class_shares(targets: NDArray, doubt: float = 0.0) -> NDArray[np.float64]:
    """Shares of the classes in each row, (n, K), whose targets are from -1 to 1;
    `doubt` is shared by all classes.
    """
    shares: NDArray = (targets + 1) / (targets + 1).sum(axis=1, keepdims=True)
    return doubt / targets.shape[1] + (1 - doubt) * shares if doubt else shares


def _report(
    trials: list[LengthscaleTrial], search: LengthscaleSearch, clock: Budget
) -> Report:
    """Report of the lowest loss of each kernel and way to scale the columns, of which
    one search is chosen.
    """
    weight = search.rows.weight
    share = weight / weight.sum()
    candidates = []
    names = list(dict.fromkeys(trial.way for trial in trials))
    for name in names:
        losses = min(
            (trial.best for trial in trials if trial.way == name), key=share.dot
        )
        loss_and_error = mean_and_error(losses, weight)
        candidates.append(
            Candidate(name, len(weight), *loss_and_error, clock.elapsed / len(names))
        )
    reason = "the only way that the columns allow"
    if len(names) > 1:
        reason = (
            "preferred for few rows; no other has a clearly lower leave-one-out loss"
            if search.way == names[0]
            else "clearly lower leave-one-out loss"
        )
    return Report(
        "squared error" if search.probabilities is None else "log loss",
        len(weight),
        candidates,
        search.way,
        reason,
        seconds={"one lengthscale": clock.elapsed},
    )
