"""How candidates compare so far, and the rule by which one of them is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from operator import call

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import in_threads
from bochner.features import ConcatenatedFeatures
from bochner.features.base import FeatureMap
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.report import Candidate, Report, RowsCurve
from bochner.selection.validation import (
    ValidationResult,
    Validator,
    average,
    mean_and_error,
    standard_error,
)

Maps = list[tuple[float, FeatureMap]]  # weights, and maps side by side
Sizes = Sequence[tuple[float, float]]
ONLY = "the only candidate that the arguments allow"
WIDE = "of many sparse columns a linear model is as good, and takes far less time"


def concatenate(maps: Maps) -> FeatureMap:
    """Combine several maps side by side into one."""
    if len(maps) == 1:
        return maps[0][1]
    return ConcatenatedFeatures(
        [part for _, part in maps], [weight for weight, _ in maps]
    )


@dataclass(frozen=True)
class CandidateResult:
    """A candidate with its validation result; simpler ones have lower ranks, a linear
    model one below zero.

    Attributes
    ----------
    name : str
    rank, size : int
    trial : ValidationResult
    of_size : callable (size) -> list of (float, FeatureMap)
        Weights, and maps that are not drawn, of a size.
    larger : callable () -> CandidateResult, optional
        Fits it at its next size.
    smaller : CandidateResult, optional
        The same at the size before.
    slope : float or None
        Of the loss over one by the size; None where that is not known.
    gain : float
        By how much its loss is expected to fall yet, until it has its final size.
    more_rows : float
        Factor by which its loss is expected to fall, until it has all rows.
    sizes : sequence of (float, float)
        Logarithms to base 2 of the factors on its coordinates that were tried, and
        their losses.
    """

    name: str
    rank: int
    size: int
    trial: ValidationResult
    of_size: Callable[[int], Maps]
    larger: Callable[[], CandidateResult] | None = None
    smaller: CandidateResult | None = None
    slope: float | None = None
    gain: float = 0.0
    more_rows: float = 1.0
    sizes: Sizes = ()

    @property
    def has_bins(self) -> bool:
        """Whether it has bins, and so was solved by iterations."""
        return self.trial.n_iter > 0

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear model, which is preferred to all others."""
        return self.rank < 0

    @property
    def losses(self) -> NDArray:
        """Losses of the validation rows, as expected at the final size with all
        rows.
        """
        return self.more_rows * (self.trial.losses - self.gain)


class Race:
    """Candidates of a problem and their validation results; sizes and seconds are those
    of its `Report`.

    `enlarged` says whether there was time for the larger sizes of what may still win,
    `pooled` whether those that are left were compared on more folds of the rows;
    `behind` are then the others. Losses are those of rows of weight `weight_out`.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.validator = problem.validator
        if problem.is_large:
            self.validator = self.validator.subsample(POLICY.raced_rows)
        self.entries: list[CandidateResult] = []
        self.sizes: list[tuple[str, float, float]] = []
        self.not_tried: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.enlarged = self.pooled = False
        self.weight_out = self.validator.weight_out
        self.behind = list[Candidate]()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the seconds of a stage."""
        start = self.problem.budget.elapsed
        yield
        self.seconds[name] = (
            self.seconds.get(name, 0.0) + self.problem.budget.elapsed - start
        )

    def note_sizes(self, name: str, sizes: Sizes) -> None:
        """Record sizes that were tried, and their losses."""
        self.sizes += [(name, *one) for one in sizes]

    def note_untried(self, reasons: Mapping[str, str]) -> None:
        """Record why candidates are not tried."""
        self.not_tried |= reasons

    @cached_property
    def screened(self) -> Validator:
        """The validator of dense features, with at most 50,000 training rows, fewer
        under a time limit.
        """
        least, most = POLICY.screened_rows
        if self.problem.budget.limit is not None:
            most = int(
                np.clip(POLICY.screened_rate * self.problem.budget.left, least, most)
            )
        return self.validator.subsample(most)

    def loss(self, entry: CandidateResult) -> float:
        """Mean validation loss that is expected at the final size."""
        return average(entry.losses, self.weight_out)

    def enter(self, candidates: Sequence[Callable[[], CandidateResult]]) -> None:
        """Fit candidates at a small size, side by side."""
        for entry in in_threads(call, candidates):
            self.add(entry)

    def add(self, entry: CandidateResult) -> None:
        """Add a candidate that is fitted at a small size."""
        self.entries.append(entry)
        self.note_sizes(entry.name, entry.sizes)

    def enlarge(self, n_grids: int, places: Sequence[int] | None = None) -> None:
        """Fit those that may still win at their next size, side by side; bins have
        `n_grids` grids in the end.

        `places` are indices of those to fit instead.
        """
        self.enlarged = True
        left = [
            k
            for k in (self._left() if places is None else places)
            if self.entries[k].larger
        ]
        larger = in_threads(lambda k: self._larger(self.entries[k], n_grids), left)
        for k, entry in zip(left, larger, strict=True):
            self.entries[k] = entry

    def near(self) -> list[int]:
        """Indices of candidates that are not clearly worse than the best one, which
        other rows may put first.
        """
        best = min(self.entries, key=self.loss).losses
        return [
            k
            for k, one in enumerate(self.entries)
            if not self.better(best, one.losses, POLICY.near)
        ]

    def pool(self, near: Sequence[CandidateResult], others: Sequence[Race]) -> None:
        """Compare near candidates, which are in all races, on the validation rows of
        all of these.

        Ridge penalties stay those of this one.
        """
        best = min(near, key=self.loss)
        self.behind = [
            self._candidate(one, best) for one in self.entries if one not in near
        ]
        races = [self, *others]
        self.entries = [
            _pooled(
                one,
                [
                    other
                    for race in races
                    for other in race.entries
                    if other.name == one.name
                ],
            )
            for one in near
        ]
        self.weight_out = np.concatenate([race.weight_out for race in races])
        self.pooled = True

    def _left(self) -> list[int]:
        """Indices of candidates that may still win; preferred ones may be further
        behind, but for many rows.
        """
        best = min(self.entries, key=self.loss)
        left = []
        for k, entry in enumerate(self.entries):
            simple = self.validator.classes
            patient = _place(entry, simple) < _place(best, simple)
            patient &= not self.problem.is_large  # where larger sizes take long
            behind = (
                POLICY.hopeless if self.validator.classes else POLICY.hopeless_hybrid
            )
            clear = behind if patient else POLICY.clear
            if entry is best or not self.better(best.losses, entry.losses, clear):
                left.append(k)
        return left

    def _larger(self, entry: CandidateResult, n_grids: int) -> CandidateResult:
        """Fit a candidate at its next size. The squared errors of bins fall as one
        over the number of grids.
        """
        assert entry.larger is not None
        found = replace(entry.larger(), smaller=entry)
        other_rows = entry.more_rows != found.more_rows
        if not found.has_bins or other_rows or not entry.size < found.size < n_grids:
            return found
        losses = entry.trial.losses - found.trial.losses
        slope = max(
            average(losses, self.weight_out) / (1 / entry.size - 1 / found.size), 0.0
        )
        gain = 0.0 if self.validator.classes else slope * (1 / found.size - 1 / n_grids)
        return replace(found, slope=slope, gain=gain)

    def grids_that_pay(self, entry: CandidateResult, n_grids: int) -> int:
        """Grids, `n_grids` at most, beyond which the loss falls by less than a
        hundredth of its standard error.
        """
        if entry.slope is None or entry.size >= n_grids:
            return n_grids
        unnoticed = POLICY.unnoticed * standard_error(
            entry.trial.losses, self.weight_out
        )
        enough = (
            int(np.ceil(1 / (unnoticed / entry.slope + 1 / n_grids)))
            if entry.slope
            else 0
        )
        return min(max(enough, entry.size, POLICY.final_grids[0]), n_grids)

    def rows_curve(self, entry: CandidateResult) -> RowsCurve:
        """Losses of a candidate with a quarter, half and all of the rows that it was
        fitted to.

        Bins are few, which tells the same sooner. Ridge penalties of the smaller fits
        are the same for a row, or next to that for dense features.
        """
        small = entry.smaller
        if (
            entry.has_bins
            and small is not None
            and small.trial.n_rows == entry.trial.n_rows
        ):
            entry = small
        n = entry.trial.n_rows
        known = entry.trial.losses
        validator = self.problem.validator

        def losses(size: int) -> NDArray:
            rows = validator.subsample(size)
            features = concatenate(entry.of_size(entry.size))
            features.draw(self.problem.n_columns).fit_sample(rows.X, rows.weight)
            if entry.has_bins:
                return rows.iterate(
                    features, entry.trial.penalty[np.newaxis], entry.trial.n_iter
                ).losses
            around = entry.trial.share * n / rows.n_rows * np.array(POLICY.around)
            return rows.solve(features, around, self.problem.alphas).losses

        sizes = [max(n // 4, 1), max(n // 2, 1), n]
        pooled = len(known) != len(validator.weight_out)  # of several folds
        found = in_threads(losses, sizes if pooled else sizes[:2])
        found = found if pooled else [*found, known]
        means, errors = zip(
            *(mean_and_error(one, validator.weight_out) for one in found), strict=True
        )
        gain, error = mean_and_error(found[1] - found[2], validator.weight_out)
        scale = means[1] if 0 < means[1] < np.inf else np.inf
        return RowsCurve(sizes, list(means), list(errors), gain / scale, error / scale)

    def decide(self) -> tuple[CandidateResult, str]:
        """The candidate of lowest loss, or a preferred one within the noise of it; and
        the reason.

        A linear model is preferred to all others. Of these, simple ones are for
        classes; for numbers those of several parts, as waves alone err on outliers. Of
        few rows they are simple ones too.
        """
        entries = self._comparable()
        best = min(entries, key=self.loss)
        simple = self.validator.classes or self.problem.is_refolded
        preferred = sorted(entries, key=lambda entry: _place(entry, simple))
        chosen = next(
            entry
            for entry in preferred
            if not self.better(best.losses, entry.losses, POLICY.clear)
        )
        if len(self.entries) == 1:
            return chosen, WIDE if self.problem.is_sparse_and_wide else ONLY
        if self.pooled and chosen is best:
            return chosen, "lowest validation loss over folds of the rows"
        if chosen is best and self.loss(best) > min(map(self.loss, self.entries)):
            return (
                chosen,
                "lowest validation loss of bins, which gain more by their final size",
            )
        if chosen is best:
            return chosen, "lowest validation loss"
        return (
            chosen,
            f"within the noise of the lowest validation loss ({best.name}), and "
            "preferred",
        )

    def _comparable(self) -> list[CandidateResult]:
        """The candidates; without those of numbers that bins come near which had no
        time for their size.
        """
        budget = self.problem.budget
        bins = [self.loss(entry) for entry in self.entries if entry.has_bins]
        if (
            budget.limit is None
            or (self.enlarged and not budget.is_short)
            or self.validator.classes
            or not bins
        ):
            return self.entries
        return [
            one
            for one in self.entries
            if one.has_bins or POLICY.hasty_gain * self.loss(one) < min(bins)
        ]

    def better(self, one: NDArray, other: NDArray, clear: float) -> bool:
        """Whether the validation losses of one candidate are lower than another's by
        so many standard errors.
        """
        gain = other - one
        return average(gain, self.weight_out) > clear * standard_error(
            gain, self.weight_out
        )

    def _why_lost(self, entry: CandidateResult, best: CandidateResult) -> str:
        """How a candidate compares with the chosen one; empty for that one."""
        if entry is best:
            return ""
        worse = entry.losses - best.losses
        behind = average(worse, self.weight_out) / (
            standard_error(worse, self.weight_out) or np.inf
        )
        where = " at a small size" if entry.larger else ""
        return (
            "as good within the noise"
            if behind < POLICY.clear
            else f"{behind:.1f} standard errors worse{where}"
        )

    def report(self, chosen: str, reason: str) -> Report:
        """The candidates, the selected one, and the reason."""
        criterion = "log loss" if self.validator.classes else "squared error"
        best = next((one for one in self.entries if one.name == chosen), None)
        candidates = [
            *(self._candidate(one, best or one) for one in self.entries),
            *self.behind,
        ]
        held_out = len(self.weight_out)
        return Report(
            criterion,
            held_out,
            candidates,
            chosen,
            reason,
            self.sizes,
            self.seconds,
            self.not_tried,
        )

    def _candidate(self, one: CandidateResult, best: CandidateResult) -> Candidate:
        """A candidate for the report, and why it lost against the best one."""
        noise = standard_error(one.trial.losses, self.weight_out)
        return Candidate(
            one.name,
            one.size,
            self.loss(one),
            noise,
            one.trial.seconds,
            self._why_lost(one, best),
        )


def _place(entry: CandidateResult, simple: bool) -> tuple[bool, int]:
    """The place of a candidate among those that are as good, the preferred ones
    first.
    """
    return not entry.is_linear, entry.rank if simple else -entry.rank


def _pooled(one: CandidateResult, folds: Sequence[CandidateResult]) -> CandidateResult:
    """A candidate with its losses of the validation rows of several folds."""
    losses = np.concatenate([own.losses for own in folds])
    return replace(one, trial=one.trial._replace(losses=losses), gain=0.0)
