"""The six candidates for a model: when each of them applies, and what it proposes.

Metrics that are learned are shared by several of them, and sizes are found by trials with few grids or features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bochner.engines.costs import COSTS
from bochner.features import FourierFeatures
from bochner.features.coordinates import MetricFeatures
from bochner.features.metric import Metric
from bochner.kernels import Gaussian, Kernel, Stationary
from bochner.kernels.named import NAMED
from bochner.tuning.bins import SizedMetric, grids, search_size
from bochner.tuning.comparison import Comparison, Entry, Maps, Proposal, concatenate
from bochner.tuning.judge import Judge
from bochner.tuning.kernel import choose_kernel
from bochner.tuning.metric.learn import Learned
from bochner.tuning.policy import POLICY
from bochner.tuning.problem import Problem
from bochner.tuning.search import walk_downhill
from bochner.tuning.size import choose_n_components


@dataclass(frozen=True)
class Known:
    """What was learned from the rows before candidates are fitted.

    Attributes
    ----------
    metrics : mapping of str to Learned
        By the names of what they are for.
    bins : list of SizedMetric
        Metrics for bins, the best one first, and that one with a linear map on top last.
    common_unit : Stationary or None
        The kernel of columns that had better keep their common unit.
    n_grids : int
        Of bins at their final size.
    """

    metrics: Mapping[str, Learned]
    bins: list[SizedMetric]
    common_unit: Stationary | None
    n_grids: int

    @property
    def scaled(self) -> list[SizedMetric]:
        """Those without a linear map."""
        return [one for one in self.bins if not one.learned.metric.linear_.size]


class CandidateModel(Protocol):
    """A candidate for a model."""

    def applies(self, so_far: Comparison, known: Known) -> bool:
        """Whether it is to be tried, after what was tried and in the time that is left."""

    def propose(self, so_far: Comparison, known: Known) -> Proposal | None:
        """Find its size by trials; None where these tell that it will not win."""


def _bins(so_far: Comparison, name: str, parts: list[SizedMetric], n_grids: int) -> Proposal:
    """Bins with the grids shared among metrics."""
    problem, judge = so_far.problem, so_far.judge

    def fit() -> Entry:
        maps = grids(parts, n_grids, problem.seed + 1)
        features = concatenate(maps).draw(problem.n_columns)
        penalties = np.full((1, len(parts)), parts[-1].alpha)
        trial = judge.iterate(features, judge.X, judge.X_out, penalties, POLICY.final_steps)
        return Entry(name, 1 + len(parts), n_grids, maps, trial)

    return Proposal(fit)


class ScaledBins:
    """Bins with learned scales, in grids of two starts of the learning; unless they are to have a linear map."""

    def applies(self, so_far: Comparison, known: Known) -> bool:
        space, mapped = so_far.problem.space, len(known.bins) > len(known.scaled)
        return bool(known.bins) and space.features != "hybrid" and not (space.metric == "full" and mapped)

    def propose(self, so_far: Comparison, known: Known) -> Proposal:
        return _bins(so_far, "bins, learned scales", known.scaled, known.n_grids)


class MappedBins:
    """Bins with learned scales, some of the grids with a linear map on top, where one was learned."""

    def applies(self, so_far: Comparison, known: Known) -> bool:
        return len(known.bins) > len(known.scaled) and so_far.problem.space.features != "hybrid"

    def propose(self, so_far: Comparison, known: Known) -> Proposal:
        return _bins(so_far, "bins, learned scales and linear map", known.bins, known.n_grids)


class HalfColumnBins:
    """Bins of which each grid splits a column with probability 1/2; of many rows and some columns, with time left."""

    def applies(self, so_far: Comparison, known: Known) -> bool:
        problem = so_far.problem
        many = problem.n_columns >= POLICY.fewest_halved and problem.n_rows >= POLICY.rows_for_full_learning
        wanted = bool(known.bins) and problem.space.features != "hybrid" and problem.space.metric != "full"
        return wanted and many and problem.budget.has(POLICY.patient_share)

    def propose(self, so_far: Comparison, known: Known) -> Proposal:
        best = known.scaled[0]
        halves = search_size(so_far, "random halves", best.learned, best.size + 1, 0.5)
        return _bins(so_far, "bins, random halves of the columns", [halves], known.n_grids)


def isotropic(problem: Problem) -> Stationary:
    """The kernel with one lengthscale for all columns, or for all in their common unit."""
    space, fitted = problem.space, problem.judge.fitted
    return choose_kernel(fitted, space.kernel, problem.column_units, space.alphas, problem.seed, quick=True)


def n_features(problem: Problem) -> int:
    """Fourier features of a candidate: as given, or one for each row, 128 to 2,048."""
    given = problem.space.n_components
    return choose_n_components(min(problem.n_rows, POLICY.screened_rows[1]) // 2) if given is None else given


class Family(NamedTuple):
    """Kernels of one metric, or of the encoded columns, which differ in size; lengthscales that are tried first."""

    name: str
    metric: Metric | None
    make: Callable[[float], Kernel]
    sizes: list[float]


class FourierCandidate(ABC):
    """Fourier features of a family of kernels, of which the best is taken; with time left where there are bins too."""

    rank: int

    @abstractmethod
    def family(self, so_far: Comparison, known: Known) -> Family:
        """The kernels."""

    def applies(self, so_far: Comparison, known: Known) -> bool:
        wanted = so_far.problem.space.features in ("auto", "fourier")
        return wanted and (not known.bins or so_far.problem.budget.has(POLICY.patient_share))

    def fit(self, so_far: Comparison, family: Family, size: float, n_components: int, shares: NDArray) -> Entry:
        """Fit with a lengthscale and a number of features, and judge ridge terms."""
        problem = so_far.problem
        features = FourierFeatures(family.make(size), n_components, random_state=problem.seed + 1)
        maps: Maps = [(1.0, features if family.metric is None else MetricFeatures(family.metric, features))]
        trial = so_far.screened.solve(concatenate(maps).draw(problem.n_columns), shares, problem.alphas)
        return Entry(family.name, self.rank, n_components, maps, trial)

    def propose(self, so_far: Comparison, known: Known) -> Proposal:
        """The best size by fits with few features; around the lengthscales of a metric it is looked for."""
        family, D, shares = self.family(so_far, known), n_features(so_far.problem), np.array(POLICY.shares)
        few = max(min(D // 4, POLICY.trial_features), 1)
        tried: dict[float, Entry] = {}

        def loss(size: float) -> float:
            if size not in tried:
                tried[size] = self.fit(so_far, family, size, few, shares)
                so_far.note_size(f"{family.name}, {few} features", -float(np.log2(size)), tried[size].trial)
            return so_far.loss(tried[size].trial)

        best = start = min(family.sizes, key=loss)
        if family.metric is not None:
            best = start * 2 ** walk_downhill(lambda power: loss(start * 2**power), 0.0, 0.5, POLICY.octaves)
        small = tried[best]
        nearest = int(np.argmin(np.abs(np.log(shares / small.trial.share))))
        fit = partial(self.fit, so_far, family, best, D, shares[max(nearest - 2, 0) : nearest + 2])
        return Proposal(fit if few < D else lambda: small, small)


class IsotropicFourier(FourierCandidate):
    """Fourier features with one lengthscale: the better of Gaussian and Laplacian, columns scaled or as they are."""

    rank = 0

    def applies(self, so_far: Comparison, known: Known) -> bool:
        return so_far.problem.space.metric == "auto" and super().applies(so_far, known)

    def family(self, so_far: Comparison, known: Known) -> Family:
        kernel = isotropic(so_far.problem) if known.common_unit is None else known.common_unit
        return Family("Fourier features, one lengthscale", None, lambda size: kernel, [1.0])


class ScaledFourier(FourierCandidate):
    """Fourier features with learned scales, of columns or of principal components."""

    rank = 1

    def family(self, so_far: Comparison, known: Known) -> Family:
        kernel, learned = so_far.problem.space.kernel, known.metrics["fourier"]
        name = "Fourier features, learned scales"
        name += "" if known.common_unit is None else " of principal components"
        sizes = list(dict.fromkeys(np.exp(-np.round(learned.sizes, 1)).tolist()))
        return Family(name, learned.metric, Gaussian if kernel == "auto" else NAMED[kernel], sizes)


class Hybrid:
    """Bins and Fourier features side by side, each in its metrics; where asked for, or of few rows, with time left.

    A trial with few grids tells the ridge terms of both. It favours it: what does not even win there is left out.
    """

    name = "Fourier features and bins"

    def may_apply(self, problem: Problem, binned: bool) -> bool:
        """Whether it is left open, and the rows are not too many."""
        auto = problem.space.features == "auto" and binned and problem.n_rows <= POLICY.hybrid_rows
        return auto or problem.space.features == "hybrid"

    def applies(self, so_far: Comparison, known: Known) -> bool:
        budget, asked = so_far.problem.budget, so_far.problem.space.features == "hybrid"
        needed = POLICY.hybrid_fits * so_far.longest if budget.limit else 0.0
        timely = budget.has(POLICY.hasty_share) and budget.left > needed
        return asked or (self.may_apply(so_far.problem, bool(known.bins)) and timely)

    def propose(self, so_far: Comparison, known: Known) -> Proposal | None:
        problem, judge, given = so_far.problem, so_far.judge, so_far.problem.space.n_components
        D = max(2, min(POLICY.hybrid_features, problem.n_rows // 4)) if given is None else given
        learned, bins = known.metrics["fourier"], known.bins
        kernel = Gaussian(float(np.exp(-learned.sizes[0])))
        fourier = MetricFeatures(learned.metric, FourierFeatures(kernel, D, random_state=problem.seed + 3))

        def fit(n_grids: int, seed: int, on: Judge, penalties: NDArray, steps: int) -> Entry:
            maps: Maps = [(1.0, fourier), *grids(bins, n_grids, seed)]
            drawn = concatenate(maps).draw(problem.n_columns)
            return Entry(self.name, 4, D + n_grids, maps, on.iterate(drawn, on.X, on.X_out, penalties, steps))

        smooth, rough = (problem.penalties(own)[:, 0] for own in (POLICY.hybrid_alphas, POLICY.hybrid_bin_alphas))
        pairs = np.array([[a] + [b] * len(bins) for a in smooth for b in rough])
        few, n_grids = judge.subsample(POLICY.compared_rows), problem.n_trial_grids
        trial = fit(n_grids, problem.seed, few, pairs, POLICY.hybrid_steps // 2).trial
        loss = so_far.note_size(f"{self.name}, {n_grids} grids", 0.0, trial)
        behind = few is judge and loss > min(part.loss for part in bins)
        if behind and judge.classes and problem.space.features == "auto":
            return None
        penalties = trial.penalty[np.newaxis]
        return Proposal(partial(fit, known.n_grids, problem.seed + 1, judge, penalties, POLICY.hybrid_steps))


# In the order in which they are tried; trials of those in one round are compared before any of them is fitted.
ROUNDS: tuple[tuple[CandidateModel, ...], ...] = (
    (ScaledBins(),),
    (MappedBins(),),
    (HalfColumnBins(),),
    (IsotropicFourier(), ScaledFourier()),
    (Hybrid(),),
)


def enlarge(so_far: Comparison, entry: Entry) -> Maps:
    """The same Fourier features, more of them where doubling them paid: for images, thousands of them.

    A time limit makes them fewer, but not fewer than trials take.
    """
    ((weight, features),) = entry.maps
    problem, judge, D = so_far.problem, so_far.screened, n_features(so_far.problem)
    if problem.space.n_components is not None or problem.n_rows < POLICY.rows_a_feature * D:
        return entry.maps
    half = with_size(features, D // 2).draw(problem.n_columns)
    trial = judge.solve(half, entry.trial.share * np.array(POLICY.around), None)
    ratio = so_far.loss(entry.trial) / max(judge.average(trial.losses), 1e-300)
    factor = 2 ** sum(ratio <= pays for pays in POLICY.pays)
    timed = problem.budget.limit is not None
    work = COSTS.gram_work(POLICY.grown_share * problem.budget.left if timed else POLICY.grown_seconds)
    most = max(int(np.sqrt(work / problem.n_rows)), POLICY.trial_features if timed else D)
    return [(weight, with_size(features, min(D * factor, POLICY.most_features, most)))]


def with_size(features: object, n_components: int) -> MetricFeatures | FourierFeatures:
    """Fourier features of another number."""
    if isinstance(features, MetricFeatures):
        return MetricFeatures(features.metric, with_size(features.features, n_components))
    assert isinstance(features, FourierFeatures)
    return FourierFeatures(features.kernel, n_components, random_state=features.random_state)
