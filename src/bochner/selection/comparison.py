"""How candidates compare so far, and the rule by which one of them is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import in_threads
from bochner.features import ConcatenatedFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves, size_name
from bochner.features.nystroem import has_kernel_rows
from bochner.selection.exact import validate_exactly
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.report import Candidate, Report, RowsCurve
from bochner.selection.validation import ValidationResult, Validator

Maps = list[tuple[float, FeatureMap]]  # weights, and maps side by side
Sizes = Sequence[tuple[float, float]]
BINS = 2  # the rank of bins with learned lengthscales
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
    """A candidate with its validation result.

    Attributes
    ----------
    name : str
    rank : int
        Simpler ones have lower ranks: a linear model -1, one lengthscale 0, learned
        lengthscales 1, bins 2, bins with a linear map 3, bins beside Fourier features
        4.
    size : int
        Grids, or features.
    trial : ValidationResult
    of_size : callable (size) -> list of (float, FeatureMap)
        Weights, and maps that are not drawn, of a size.
    larger : callable () -> CandidateResult, optional
        Fits the candidate at a larger size, by which it has its number of features.
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
    sizes: Sizes = ()

    @property
    def is_exact(self) -> bool:
        """Whether it is an exact kernel machine."""
        return has_kernel_rows(concatenate(self.of_size(self.size)))

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
        """Losses of the validation rows."""
        return self.trial.losses


class Race:
    """Candidates of a problem and their validation results; sizes and seconds are those
    of its `Report`.
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
        self.losses_of_mean = self.validator.losses_of_mean

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

    @cached_property
    def screened(self) -> Validator:
        """The validator of dense features, with at most 50,000 training rows."""
        return self.validator.subsample(POLICY.screened_rows)

    def loss(self, entry: CandidateResult) -> float:
        """Mean validation loss."""
        return self.validator.average(entry.losses)

    def add(self, entry: CandidateResult) -> None:
        """Add a candidate that is fitted."""
        self.entries.append(entry)
        self.note_sizes(entry.name, entry.sizes)

    def _beats(self, one: NDArray, simple: NDArray, clear: float) -> bool:
        """Whether losses are clearly lower than those of a simple model, or their roots
        are: of a few rows with most of the loss, as of targets that are seldom large,
        the mean tells little.
        """
        validator = self.validator
        if validator.average(one) >= validator.average(simple):
            return False
        return validator.better(one, simple, clear) or validator.better(
            np.sqrt(one), np.sqrt(simple), POLICY.certain_roots
        )

    def _log_losses(self, entry: CandidateResult) -> NDArray:
        """Log losses of the validation rows by the probabilities of all classes
        together, of three or more: a linear model has those of a softmax, for which
        losses of each class against the others would be those of another model.
        """
        validator = self.validator
        if not validator.classes or validator.y.shape[1] == 1:
            return entry.losses
        return validator.losses(entry.trial.predicted.T, together=True)

    def rows_curve(self, entry: CandidateResult) -> RowsCurve:
        """Losses of a candidate with a quarter, half and all of the rows that it was
        fitted to.

        A row has the same ridge penalty in all fits. Those of all rows are the losses
        of the comparison, but for bins of classes: these may be of the logistic loss
        there, and fewer grids tell sooner.
        """
        n = entry.trial.n_rows
        validator = self.problem.validator
        is_compared = not (entry.has_bins and validator.classes)
        size_of_model = entry.size
        if not is_compared:
            size_of_model = min(entry.size, self.problem.trial_grids(n))

        def losses(size: int) -> NDArray:
            if size == n and is_compared:
                return entry.losses
            rows = validator.subsample(size)
            features = concatenate(entry.of_size(size_of_model))
            if entry.is_exact:
                return validate_exactly(rows, features, entry.trial.share).losses
            features.draw(self.problem.n_columns).fit_sample(rows.X, rows.weight)
            if entry.has_bins:
                return rows.iterate(
                    features, entry.trial.penalty[np.newaxis], entry.trial.n_iter
                ).losses
            share = np.array([entry.trial.share * n / rows.n_rows])
            return rows.solve(features, share, self.problem.alphas).losses

        sizes = [max(n // 4, 1), max(n // 2, 1), n]
        losses_by_size = in_threads(losses, sizes)
        means, errors = zip(*map(validator.mean_and_error, losses_by_size), strict=True)
        gain, error = validator.mean_and_error(losses_by_size[1] - losses_by_size[2])
        scale = means[1] if 0 < means[1] < np.inf else np.inf
        return RowsCurve(sizes, list(means), list(errors), gain / scale, error / scale)

    def decide(self) -> tuple[CandidateResult, str]:
        """The candidate that is preferred among those within the noise of the lowest
        loss; and the reason.

        A linear model is preferred to all others. Of few rows, simple ones are; and
        where no candidate is clearly better than the mean of the targets, as what they
        seem to tell may be chance. Of more rows bins are preferred for classes, and for
        numbers beside Fourier features, which alone err on outliers and at edges, of
        which few validation rows tell. The noise is a standard error for a linear model
        and for numbers of more than few rows, else half of one.
        """
        best = min(self.entries, key=self.loss)
        is_signal = self._beats(best.losses, self.losses_of_mean, POLICY.certain)
        simple = self.problem.is_small or not is_signal

        def place(entry: CandidateResult) -> tuple[bool, int]:
            if self.validator.is_classifier and not simple:
                return not entry.is_linear, abs(entry.rank - BINS)
            return not entry.is_linear, entry.rank if simple else -entry.rank

        def is_as_good(entry: CandidateResult) -> bool:
            clear = POLICY.clear
            if not is_signal:
                clear = POLICY.certain
            elif not simple and (entry.is_linear or not self.validator.is_classifier):
                clear = POLICY.near
            if entry.is_linear:
                one, other = map(self._log_losses, (best, entry))
                return not self._beats(one, other, clear)
            return not self.validator.better(best.losses, entry.losses, clear)

        chosen = next(filter(is_as_good, sorted(self.entries, key=place)))
        if len(self.entries) == 1:
            return chosen, WIDE if self.problem.is_sparse_and_wide else ONLY
        if not is_signal:
            return chosen, "no candidate is clearly better than the mean of the targets"
        if chosen is best:
            return chosen, "lowest validation loss"
        return (
            chosen,
            f"within the noise of the lowest validation loss ({best.name}), and "
            "preferred",
        )

    def report(self, chosen: str, reason: str) -> Report:
        """The candidates, the selected one, and the reason."""
        criterion = "squared error"
        if self.validator.classes:
            one_output = self.validator.y.shape[1] == 1
            criterion = "log loss" if one_output else "one-vs-rest log loss"
        best = next((one for one in self.entries if one.name == chosen), None)
        return Report(
            criterion,
            len(self.validator.weight_out),
            [self._candidate(one, best or one) for one in self.entries],
            chosen,
            reason,
            self.sizes,
            self.seconds,
            self.not_tried,
            outliers=self._worst_hundredth(best) if best else 0.0,
        )

    def _worst_hundredth(self, entry: CandidateResult) -> float:
        """Share of the squared error that the worst hundredth of the validation rows
        has; 0 of a log loss.
        """
        if self.validator.is_classifier:
            return 0.0
        losses = np.sort(self.validator.weight_out * entry.losses)
        total = float(losses.sum())
        worst = float(losses[-max(len(losses) // 100, 1) :].sum())
        return worst / total if 0 < total < np.inf else 0.0

    def parts(self, maps: Maps, penalties: NDArray) -> list[str]:
        """Size and ridge penalty of each of several maps, in words."""
        if len(maps) == 1:
            return []
        descriptions = []
        for (_, part), penalty in zip(maps, penalties, strict=True):
            (leaf,) = leaves(part)
            size = getattr(leaf.features, size_name(leaf.features) or "")
            kind = "Fourier features" if leaf.features.is_dense else "grids"
            mapped = any(metric.linear_.size for metric in leaf.metrics)
            weighed = penalty * self.problem.split.largest_weight
            descriptions.append(
                f"{size:,} {kind}{' of a linear map' * mapped}, "
                f"ridge penalty {weighed:.3g}"
            )
        return descriptions

    def _candidate(self, one: CandidateResult, best: CandidateResult) -> Candidate:
        """A candidate for the report, and how it compares with the chosen one."""
        loss, noise = self.validator.mean_and_error(one.losses)
        behind, error = self.validator.mean_and_error(one.losses - best.losses)
        lost = "as good within the noise"
        if behind >= POLICY.clear * error:
            lost = f"{behind / (error or np.inf):.1f} standard errors worse"
        return Candidate(
            one.name,
            one.size,
            loss,
            noise,
            one.trial.seconds,
            "" if one is best else lost,
            behind,
            error,
        )
