"""What all candidates for a model have in common: rows, wishes, time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.features import ConcatenatedFeatures
from bochner.features.base import FeatureMap
from bochner.tuning.held_out import rows_held_out
from bochner.tuning.judge import Judge, Trial
from bochner.tuning.metrics import MANY_ROWS
from bochner.tuning.report import Candidate, Report

FEWEST_ROWS, FEWEST_ASKED_ROWS = 200, 20
TRIAL_ROWS = 1_000_000
TRIAL_ENTRIES, TRIAL_GRIDS = 2_000_000, (6, 100)
FINAL_ENTRIES, FINAL_GRIDS, OUTPUTS_FOR_HALF = 50_000_000, (50, 800), 4
SCREENED_ROWS, FEWEST_SCREENED, SCREENED_RATE = 50_000, 5_000, 5_000  # the last one for each second that is left
TIMED_GRIDS, TIMED_SHARE = (10, 2000), 0.6
Maps = list[tuple[float, FeatureMap]]  # weights, and maps side by side


@dataclass(frozen=True)
class SearchSpace:
    """What the user leaves open, and what not.

    Attributes
    ----------
    features : {"auto", "fourier", "binning", "hybrid"}
    metric : {"auto", "ard", "full"}
    kernel : str
        Of Fourier features.
    n_components : int or None
    alphas : array or None
    time_limit : float or None
        Seconds for the whole fit.
    fewest_rows : int
        Distinct rows without which nothing is learned.
    """

    features: str = "auto"
    metric: str = "auto"
    kernel: str = "auto"
    n_components: int | None = None
    alphas: NDArray | None = None
    time_limit: float | None = None
    fewest_rows: int = FEWEST_ROWS


class Budget:
    """Seconds since it was made, and those left of a limit."""

    def __init__(self, limit: float | None) -> None:
        self.limit, self.start = limit, time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds left; infinitely many without a limit."""
        return np.inf if self.limit is None else max(self.limit - self.elapsed, 0.0)


@dataclass
class JudgedMap:
    """A candidate that was judged.

    Attributes
    ----------
    name : str
    judged : Trial
    maps : list of (float, FeatureMap)
        Not drawn.
    loss : float
    rank : int
        Simpler candidates have lower ones.
    """

    name: str
    judged: Trial
    maps: Maps
    loss: float
    rank: int


@dataclass
class Problem:
    """Rows to fit and to judge by, and what is known of all candidates.

    Attributes
    ----------
    judge : Judge
    held_out : bool array of shape (n,)
    first_duplicate : int array of shape (n,)
        The first of the rows to fit that are equal to each; held-out ones are apart.
    column_groups : int array of shape (d,)
    units : array of shape (d,) or None
        What one unit of each column is in the unit of the input; None where that has no meaning.
    space : SearchSpace
    budget : Budget
    seed : int
    n_rows : int
        Of all rows.
    n_solved : int
        Of those that the model is solved for at last, where equal ones may be one.
    unit : float
        Mean weight of a distinct row over the largest one, in which ridge terms are measured.
    largest : float
        The largest weight of a row, by which the weights of the trials are divided.
    """

    judge: Judge
    held_out: NDArray
    first_duplicate: NDArray
    column_groups: NDArray
    units: NDArray | None
    space: SearchSpace
    budget: Budget
    seed: int
    n_rows: int
    n_solved: int
    unit: float
    largest: float
    report: Report
    entries: list[JudgedMap] = field(default_factory=list)
    n_grids: int = 0

    @property
    def alphas(self) -> NDArray | None:
        """The ridge terms that are given, in the weights of the trials; None where they are to be chosen."""
        given = self.space.alphas
        return None if given is None else given / self.largest

    @property
    def n_trial_grids(self) -> int:
        """Grids of a trial."""
        return int(np.clip(TRIAL_ENTRIES / self.judge.n_rows, *TRIAL_GRIDS))

    def plan_grids(self, seconds: float, n_fits: int) -> None:
        """Set the number of grids: as given; 50 million bins, fewer for many outputs; or what a time limit allows.

        Parameters
        ----------
        seconds : float
            Of a trial, which runs over the rows to fit in some 12 iterations.
        n_fits : int
            Candidates that are still to be fitted; the model itself is fitted after them.
        """
        if self.space.n_components is not None:
            self.n_grids = self.space.n_components
            return
        usual = FINAL_ENTRIES / self.n_rows / (1 + (self.judge.truth.shape[1] - 1) / OUTPUTS_FOR_HALF)
        self.n_grids = int(np.clip(usual, *FINAL_GRIDS))
        if self.budget.limit is not None:
            each = seconds / self.n_trial_grids * self.n_solved / self.judge.n_rows
            self.n_grids = int(np.clip(TIMED_SHARE * self.budget.left / (each * (n_fits + 2)), *TIMED_GRIDS))

    @cached_property
    def screened(self) -> Judge:
        """The trials of dense features: on 50,000 rows at most, fewer where a time limit asks for that."""
        most = SCREENED_ROWS
        if self.budget.limit is not None:
            most = int(np.clip(SCREENED_RATE * self.budget.left, FEWEST_SCREENED, SCREENED_ROWS))
        return self.judge.subsample(most)

    @property
    def n_columns(self) -> int:
        """Encoded columns."""
        return self.judge.X.shape[1]

    @property
    def is_large(self) -> bool:
        """Whether there are so many rows that a fit takes longer than all choices should."""
        return self.n_rows > MANY_ROWS

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse."""
        return sp.issparse(self.judge.X)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note the seconds of a stage."""
        start = time.perf_counter()
        yield
        self.report.seconds[name] = self.report.seconds.get(name, 0.0) + time.perf_counter() - start

    def note(self, name: str, judged: Trial, maps: Maps, size: int, rank: int) -> None:
        """Enter a candidate that was judged."""
        loss, error = self.judge.average(judged.losses), self.judge.standard_error(judged.losses)
        self.report.candidates.append(Candidate(name, int(size), loss, error, judged.seconds))
        self.entries.append(JudgedMap(name, judged, maps, loss, rank))


def prepare(
    source: ArraySource,
    column_groups: NDArray,
    units: NDArray | None,
    space: SearchSpace,
    classes: bool,
    seed: int,
    budget: Budget,
) -> Problem | None:
    """Hold out rows, a fifth of them and 10,000 at most; None where too few distinct rows are left to learn from.

    Where many of the other rows are repeated, equal ones are fitted as one, with their weight and mean target.

    Parameters
    ----------
    source : ArraySource
        Encoded rows.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    units : array of shape (d,) or None
        What one unit of each column is in the unit of the input; None where that has no meaning.
    space : SearchSpace
    classes : bool
        Whether the targets are -1 and 1.
    seed : int
    budget : Budget
    """
    X, y, weight = source.whole()
    hashes = source.row_hashes()
    held_out = rows_held_out(hashes, weight, seed)
    largest = float(weight.max())  # a common factor changes nothing
    weight = weight if largest == 1 else weight / largest
    rows = ArraySource(X, y, weight, content=source.content)
    first_duplicate = rows.first_duplicates(hashes, held_out | (weight <= 0))
    distinct = int(np.count_nonzero((first_duplicate == np.arange(len(first_duplicate))) & ~held_out & (weight > 0)))
    if distinct < space.fewest_rows or not held_out.any():
        return None
    unit = float(weight[~held_out].sum() / distinct)
    rows, leads = rows.merged(first_duplicate)
    kept = held_out[leads]
    fit = np.flatnonzero(~kept & (rows.weights > 0))
    some = rows.take(fit).sample(TRIAL_ROWS, np.random.default_rng(seed))
    out = rows.take(np.flatnonzero(kept))
    judge = Judge(some.whole(), out.whole(), classes, seed)
    if not judge.y.any():
        return None
    report = Report("log loss" if judge.classes else "squared error", out.n_rows)
    return Problem(
        judge,
        held_out,
        first_duplicate,
        column_groups,
        units,
        space,
        budget,
        seed,
        len(y),
        rows.n_rows,
        unit,
        largest,
        report,
    )


def concatenate(maps: Maps) -> FeatureMap:
    """One map of several side by side."""
    if len(maps) == 1:
        return maps[0][1]
    return ConcatenatedFeatures([part for _, part in maps], [weight for weight, _ in maps])
