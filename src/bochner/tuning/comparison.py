"""How candidates compare so far, and the rule by which one of them is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bochner.features import ConcatenatedFeatures
from bochner.features.base import FeatureMap
from bochner.tuning.judge import Judge, Trial
from bochner.tuning.policy import POLICY
from bochner.tuning.problem import Problem
from bochner.tuning.report import Candidate, Report

Maps = list[tuple[float, FeatureMap]]  # weights, and maps side by side


def concatenate(maps: Maps) -> FeatureMap:
    """One map of several side by side."""
    if len(maps) == 1:
        return maps[0][1]
    return ConcatenatedFeatures([part for _, part in maps], [weight for weight, _ in maps])


@dataclass(frozen=True)
class Entry:
    """A candidate that was fitted and judged, its maps not drawn; simpler ones have lower ranks."""

    name: str
    rank: int
    size: int
    maps: Maps
    trial: Trial


@dataclass(frozen=True)
class Proposal:
    """A candidate to be fitted at its final size, or the trial that stands for it where this is far behind."""

    fit: Callable[[], Entry]
    small: Entry | None = None


class Comparison:
    """Candidates of a problem that were tried and judged; sizes and seconds are those of its `Report`."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.judge = problem, problem.judge
        self.entries: list[Entry] = []
        self.sizes: list[tuple[str, float, float]] = []
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note the seconds of a stage."""
        start = self.problem.budget.elapsed
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + self.problem.budget.elapsed - start

    @cached_property
    def screened(self) -> Judge:
        """The trials of dense features: on 50,000 rows at most, fewer where a time limit asks for that."""
        least, most = POLICY.screened_rows
        if self.problem.budget.limit is not None:
            most = int(np.clip(POLICY.screened_rate * self.problem.budget.left, least, most))
        return self.judge.subsample(most)

    def loss(self, trial: Trial) -> float:
        """Mean held-out loss of a trial."""
        return self.judge.average(trial.losses)

    def _mean(self, trial: Trial) -> tuple[float, float]:
        """Mean held-out loss, and its standard error."""
        return self.loss(trial), self.judge.standard_error(trial.losses)

    def note_size(self, name: str, size: float, trial: Trial) -> float:
        """Note a trial of a size, and return its loss."""
        self.sizes.append((name, size, self.loss(trial)))
        return self.sizes[-1][-1]

    def fit(self, proposals: Sequence[Proposal]) -> None:
        """Fit what may still win at its final size, and note it; of the others their trials.

        That is what is within 15 % (log loss: 4 %) of the least loss so far.
        """
        trials = [one.small.trial for one in proposals if one.small] + [entry.trial for entry in self.entries]
        bound = POLICY.promising[self.judge.classes] * min([self.loss(trial) for trial in trials], default=np.inf)
        for one in proposals:
            fitted = one.small is None or self.loss(one.small.trial) <= bound
            self.entries.append(one.fit() if fitted or one.small is None else one.small)

    @property
    def longest(self) -> float:
        """Seconds of the fit that took longest."""
        return max((entry.trial.seconds for entry in self.entries), default=0.0)

    def decide(self) -> tuple[Entry, str]:
        """The least loss, but of several that are as good within the noise the one that is preferred; and why.

        Simple candidates are preferred for classes; for numbers those of several parts, as waves alone err on outliers.
        """
        best = min(self.entries, key=lambda entry: self.loss(entry.trial))
        preferred = sorted(self.entries, key=lambda entry: entry.rank if self.judge.classes else -entry.rank)
        chosen = next(entry for entry in preferred if not self._clearly_better(best, entry))
        if len(self.entries) == 1:
            return chosen, "the only candidate that the arguments leave"
        if chosen is best:
            return chosen, "the least loss on the rows held out"
        return chosen, f"within the noise of the least loss on the rows held out, that of {best.name}, and preferred"

    def _clearly_better(self, one: Entry, other: Entry) -> bool:
        """Whether one candidate's held-out losses are lower than another's by more than their noise."""
        gain = other.trial.losses - one.trial.losses
        return self.judge.average(gain) > POLICY.clear * self.judge.standard_error(gain)

    def report(self, chosen: str, reason: str) -> Report:
        """What was tried, and why the choice fell as it did."""
        criterion = "log loss" if self.judge.classes else "squared error"
        candidates = [Candidate(one.name, one.size, *self._mean(one.trial), one.trial.seconds) for one in self.entries]
        return Report(criterion, len(self.judge.weight_out), candidates, chosen, reason, self.sizes, self.seconds)
