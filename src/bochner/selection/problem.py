"""What all candidates for a model have in common: rows, wishes, time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.engines.costs import BINNED_COLUMNS
from bochner.selection.budget import Budget, grids_within_limit
from bochner.selection.policy import POLICY
from bochner.selection.split import Split, split
from bochner.selection.validation import Validator, are_mixed

SHORTEST_TRIAL = 1e-6  # seconds, where the clock saw none


@dataclass(frozen=True)
class SearchSpace:
    """What the parameters leave open, and what they fix.

    Attributes
    ----------
    features : {"auto", "fourier", "binning", "hybrid"}
    metric : {"auto", "ard", "full"}
    kernel : str
        Of Fourier features.
    n_components : int or None
    alphas : array or None
    fewest_rows : int
        Distinct rows without which nothing is learned.
    n_rows : int
        Rows that the model is fitted to at last, where those at hand are a sample of
        them.
    n_outputs : int
        Targets that it is fitted to at last, where those at hand are combinations of
        them.
    logistic : bool
        Whether classes may have the logistic loss at last.
    has_common_unit : bool
        Whether all columns are numbers in one unit, as pixels are.
    may_be_exact : bool
        Whether the model may be an exact kernel machine, which keeps its rows.
    """

    features: str = "auto"
    metric: str = "auto"
    kernel: str = "auto"
    n_components: int | None = None
    alphas: NDArray | None = None
    fewest_rows: int = POLICY.few_rows + 1
    n_rows: int = 0
    n_outputs: int = 0
    logistic: bool = False
    has_common_unit: bool = False
    may_be_exact: bool = False


@dataclass(frozen=True)
class Problem:
    """Training and validation rows, and what is asked for.

    Attributes
    ----------
    split : Split
    validator : Validator
    column_groups : int array of shape (d,)
    column_units : array of shape (d,) or None
        What one unit of each column is in the unit of the input; None where that has no
        meaning.
    space : SearchSpace
    budget : Budget
        Of the fit.
    seed : int
    trial_entries : float
        Bins of a trial.
    """

    split: Split
    validator: Validator
    column_groups: NDArray
    column_units: NDArray | None
    space: SearchSpace
    budget: Budget
    seed: int
    trial_entries: float

    @property
    def trials(self) -> Budget:
        """The time for the learning of metrics and for trials together."""
        return self.validator.budget

    @property
    def has_time(self) -> bool:
        """Whether there is time for a trial that may be left out."""
        return not self.trials.is_over

    @property
    def n_rows(self) -> int:
        """Number of all rows, also those that are not in memory."""
        return max(self.split.n_rows, self.space.n_rows)

    @property
    def n_columns(self) -> int:
        """Encoded columns."""
        return self.validator.X.shape[1]

    @property
    def n_outputs(self) -> int:
        """Targets."""
        return self.space.n_outputs or self.validator.targets.shape[1]

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse."""
        return sp.issparse(self.validator.X)

    @property
    def is_small(self) -> bool:
        """Whether rows are so few that simple candidates are preferred, unless a linear
        map was requested or there are many outputs.
        """
        narrow = not are_mixed(self.validator.targets.shape[1], self.n_rows)
        few = self.n_rows <= POLICY.simple_rows
        return few and narrow and self.space.metric != "full"

    def may_be_exact(self, learned: bool) -> bool:
        """Whether rows are so few that a kernel machine, of one lengthscale or of
        learned ones, is an exact one: up to 1,000 of classes for one, less than 2,000
        of numbers for learned ones.

        The others gain nothing: classes of learned lengthscales 1.00 to 1.02 of the
        log loss (8 tables of 400 and 900 rows), numbers of one .99 of the error, but
        1.35 on cpu_act (15 tables of 300 to 900 rows).
        """
        gains_nothing = learned == self.validator.is_classifier
        if gains_nothing or self.budget.is_short or not self.space.may_be_exact:
            return False
        return not self.is_fully_learned if learned else self.is_small

    @property
    def is_large(self) -> bool:
        """Whether there are so many rows that candidates are compared on some of
        them.
        """
        return self.n_rows > POLICY.most_raced

    @property
    def is_fully_learned(self) -> bool:
        """Whether there are enough rows for metrics that tell more than one
        lengthscale or few grids can.
        """
        return self.n_rows >= POLICY.rows_for_full_learning

    @property
    def has_sparse_linear(self) -> bool:
        """Whether a linear model of the columns as they are is tried: for sparse rows
        of more than 128 columns, unless another map, metric or size was requested.
        """
        asked = self.space.features, self.space.metric, self.space.n_components
        usual = asked == ("auto", "auto", None) and self.space.kernel == "auto"
        return self.sparse and usual and self.n_columns > POLICY.wide

    @property
    def is_sparse_and_wide(self) -> bool:
        """Whether rows are sparse with so many columns, as of text, that a linear model
        alone is fitted.
        """
        return self.has_sparse_linear and self.n_columns > POLICY.most_sparse_columns

    @property
    def allows_bins_alone(self) -> bool:
        """Whether bins may be the whole model; for numbers Fourier features stand
        beside them.
        """
        asked = self.space.features
        return asked == "binning" or (asked == "auto" and self.validator.is_classifier)

    @property
    def alphas(self) -> NDArray | None:
        """The ridge penalties that are given, in the weights of the trials; None
        where they are to be chosen.
        """
        given = self.space.alphas
        return None if given is None else given / self.split.largest_weight

    def penalties(self, factors: tuple[float, ...]) -> NDArray:
        """Ridge penalties to try, shape (A, 1): those that are given, or multiples
        of what a distinct row weighs.
        """
        given = self.alphas
        return (np.array(factors) * self.split.row_weight if given is None else given)[
            :, np.newaxis
        ]

    @property
    def n_trial_grids(self) -> int:
        """Grids of a trial; under a time limit fewer."""
        return self.trial_grids(self.validator.n_rows)

    def trial_grids(self, n_rows: int) -> int:
        """Grids of a trial of a number of rows; under a time limit fewer."""
        return int(np.clip(self.trial_entries / n_rows, *POLICY.trial_grids))

    def n_grids(self, seconds: float) -> int:
        """Grids of the model: as given; or 50 million bins, fewer for many outputs, and
        no more than a limit of memory or time allows.

        That is by the seconds of a trial, which runs over the rows to fit in some 12
        iterations.
        """
        if self.space.n_components is not None:
            return self.space.n_components
        usual = POLICY.final_entries / self.n_rows
        usual /= np.sqrt(self.validator.targets.shape[1])
        usual = min(
            np.clip(usual, *POLICY.final_grids),
            grids_within_limit(self.validator.n_rows),
        )
        each = (
            max(seconds, SHORTEST_TRIAL)
            / self.n_trial_grids
            * max(self.split.n_solved, self.space.n_rows)
            / self.validator.n_rows
        )
        # Of many outputs a trial fits combinations.
        each *= self.n_outputs / self.validator.y.shape[1]
        # One run is without the rows held out, and the next one with all
        run = self.budget.stage("solution").first_of(2)
        timely = max(run.seconds_left / each, POLICY.trial_grids[0])
        return int(min(usual, timely))


def prepare(
    source: ArraySource,
    column_groups: NDArray,
    column_units: NDArray | None,
    space: SearchSpace,
    classes: bool,
    seed: int,
    budget: Budget,
) -> Problem | None:
    """Split the rows; None where there are too few distinct ones, or only equal
    targets, to learn from.

    Parameters
    ----------
    source : ArraySource
        Encoded rows.
    classes : bool
        Whether the targets are -1 and 1.
    column_groups, column_units, space, seed, budget
        See `Problem`.
    """
    trials = budget.stage("learning", "trials")
    # Under a time limit so few bins that ten trials take half of this time at most
    entries = POLICY.trial_entries * min(trials.seconds_left / 2, 1.0)
    most = np.inf
    if trials.limit is not None:
        # Rows of many columns take longer to be numbered
        n_single = np.count_nonzero(np.bincount(column_groups) == 1)
        of_a_row = POLICY.trial_grids[0] * (1 + n_single / BINNED_COLUMNS)
        most = max(entries / of_a_row, POLICY.rows_for_full_learning)
    # What is asked for is learned whatever the rows tell of their classes
    is_open = space.fewest_rows > POLICY.fewest_asked_rows
    rows = split(source, space.fewest_rows, seed, most, classes and is_open)
    if rows is None:
        return None
    validator = Validator(
        rows.fit.whole(),
        rows.out.whole(),
        classes,
        seed,
        trials,
        rows.fit.splits,
        rows.out.group,
    )
    remaining_arguments = column_groups, column_units, space, budget, seed, entries
    return Problem(rows, validator, *remaining_arguments) if validator.y.any() else None
