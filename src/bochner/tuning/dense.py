"""Random Fourier features with one lengthscale or learned metrics, alone and beside bins, as candidates for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.features import FourierFeatures
from bochner.features.metric import Metric, MetricFeatures
from bochner.kernels import Gaussian, Kernel, Stationary
from bochner.tuning.bandwidth import NAMED, SEPARABLE, choose_kernel
from bochner.tuning.bins import SizedMetric, descend, grids, penalties
from bochner.tuning.judge import Trial
from bochner.tuning.metrics import Learned
from bochner.tuning.problem import SCREENED_ROWS, JudgedMap, Maps, Problem, concatenate
from bochner.tuning.size import choose_n_components

SMALL, SHARES = 512, np.geomspace(1e-7, 1e-1, 7)
HYBRID_ROWS, HYBRID_FEATURES, HYBRID_STEPS = 50_000, 1000, 48
HYBRID_ALPHAS, HYBRID_LAMBDAS, HYBRID_TRIAL_ROWS = (0.001, 0.01, 0.1, 1.0), (0.3, 1.0), 16_384
MOST_FEATURES, GROWN_WORK, GROWN_RATE, ROWS_A_FEATURE = 8192, 5e12, 4e10, 4
AROUND = np.array([0.3, 1.0, 3.0])
OCTAVES = 4.0
PAYS, PAYS_MUCH = 0.98, 0.93
PROMISING = {"squared error": 1.15, "log loss": 1.04}
HYBRID = "Fourier features and bins"


def isotropic(problem: Problem) -> Stationary:
    """The kernel with one lengthscale for all columns, or for all in their common unit."""
    return choose_kernel(
        problem.judge.fitted, problem.space.kernel, problem.units, problem.space.alphas, problem.seed, quick=True
    )


@dataclass
class Family:
    """Kernels of one metric, which differ in size.

    Attributes
    ----------
    metric : Metric or None
        None is the encoded columns.
    make : callable (lengthscale) -> Kernel
    sizes : list of float
        Lengthscales to try; from the best of several the search goes on.
    """

    metric: Metric | None
    make: Callable[[float], Kernel]
    sizes: list[float]


def family(problem: Problem, learned: Learned) -> Family:
    """Kernels of the learned coordinates, in the sizes that the kinds of blocks like to begin with."""
    name = problem.space.kernel
    make = Gaussian if name == "auto" else NAMED[name]
    return Family(learned.metric, make, list(dict.fromkeys(np.exp(-np.round(learned.sizes, 1)).tolist())))


def gradient_kernel(name: str) -> str:
    """The kernel by whose distance metrics are learned for a named one."""
    return "laplacian" if name in (*SEPARABLE, "matern12") else "gaussian"


def n_features(problem: Problem) -> int:
    """Features of a candidate: as given, or one for each row, 128 to 2,048."""
    given = problem.space.n_components
    return choose_n_components(min(problem.n_rows, SCREENED_ROWS) // 2) if given is None else given


def judge_fourier(problem: Problem, families: Mapping[str, Family]) -> None:
    """Judge named families of kernels, the best of each, as told by fits with few features.

    Those that may still win, within 15 % (log loss: 4 %) of the least loss so far, are fitted at their final size.
    """
    judge, D = problem.screened, n_features(problem)
    small = max(min(D // 4, SMALL), 1)

    def fit(one: Family, size: float, n_components: int, shares: NDArray) -> tuple[Trial, Maps]:
        features = FourierFeatures(one.make(size), n_components, random_state=problem.seed + 1)
        maps: Maps = [(1.0, features if one.metric is None else MetricFeatures(one.metric, features))]
        return judge.solve(concatenate(maps).draw(problem.n_columns), shares, problem.alphas), maps

    def search(name: str, one: Family) -> tuple[float, float, Trial, Maps]:
        tried: dict[float, tuple[Trial, Maps]] = {}

        def loss(size: float) -> float:
            if size not in tried:
                tried[size] = fit(one, size, small, SHARES)
                label = f"{name}, {small} features"
                problem.report.sizes.append((label, -float(np.log2(size)), judge.average(tried[size][0].losses)))
            return judge.average(tried[size][0].losses)

        best = min(one.sizes, key=loss)
        if one.metric is not None:
            start = best
            best = start * 2 ** descend(lambda power: loss(start * 2**power), 0.0, 0.5, OCTAVES)
        return loss(best), best, *tried[best]

    found = {name: search(name, one) for name, one in families.items()}
    least = min([one[0] for one in found.values()] + [entry.loss for entry in problem.entries])
    for rank, (name, (loss, size, judged, maps)) in enumerate(found.items()):
        whole = small < D and loss <= PROMISING[problem.report.criterion] * least
        if whole:
            nearest = int(np.argmin(np.abs(np.log(SHARES / judged.share))))
            judged, maps = fit(families[name], size, D, SHARES[max(nearest - 2, 0) : nearest + 2])
        problem.note(name, judged, maps, D if whole else small, rank)


def enlarge(problem: Problem, entry: JudgedMap) -> Maps:
    """The same Fourier features, more of them where doubling them paid: for images, thousands of them.

    A time limit makes them fewer, but not fewer than trials take.
    """
    ((weight, features),) = entry.maps
    D = n_features(problem)
    if problem.space.n_components is not None or problem.n_rows < ROWS_A_FEATURE * D:
        return entry.maps
    judge = problem.screened
    half = judge.solve(with_size(features, D // 2).draw(problem.n_columns), entry.judged.share * AROUND, None)
    ratio = entry.loss / max(judge.average(half.losses), 1e-300)
    factor = 1 if ratio > PAYS else 2 if ratio > PAYS_MUCH else 4
    work = GROWN_WORK if problem.budget.limit is None else GROWN_RATE * problem.budget.left
    most = max(int(np.sqrt(work / problem.n_rows)), D if problem.budget.limit is None else SMALL)
    return [(weight, with_size(features, min(D * factor, MOST_FEATURES, most)))]


def with_size(features: object, n_components: int) -> MetricFeatures | FourierFeatures:
    """Fourier features of another number."""
    if isinstance(features, MetricFeatures):
        return MetricFeatures(features.metric, with_size(features.features, n_components))
    assert isinstance(features, FourierFeatures)
    return FourierFeatures(features.kernel, n_components, random_state=features.random_state)


def judge_hybrid(problem: Problem, learned: Learned, bins: list[SizedMetric]) -> None:
    """Judge Fourier features and bins side by side; trials with few grids tell the ridge terms of both."""
    judge, given = problem.judge, problem.space.n_components
    n_grids = problem.n_grids
    D = max(2, min(HYBRID_FEATURES, problem.n_rows // 4)) if given is None else given
    kernel = Gaussian(float(np.exp(-learned.sizes[0])))
    fourier = MetricFeatures(learned.metric, FourierFeatures(kernel, D, random_state=problem.seed + 3))
    small: Maps = [(1.0, fourier), *grids(bins, problem.n_trial_grids, problem.seed)]
    terms = penalties(problem, np.array(HYBRID_LAMBDAS))[:, 0]
    smooth = penalties(problem, np.array(HYBRID_ALPHAS))[:, 0]
    pairs = [[a] + [b] * len(bins) for a in smooth for b in terms]
    drawn = concatenate(small).draw(problem.n_columns)
    few = judge.subsample(HYBRID_TRIAL_ROWS)
    trial = few.iterate(drawn, few.X, few.X_out, np.array(pairs), HYBRID_STEPS // 2)
    problem.report.sizes.append((f"{HYBRID}, {problem.n_trial_grids} grids", 0.0, judge.average(trial.losses)))
    behind = few is judge and judge.average(trial.losses) > min(part.loss for part in bins)
    if behind and judge.classes and problem.space.features == "auto":
        return  # few grids favour it; if it does not even win with them, it will not with many
    maps: Maps = [(1.0, fourier), *grids(bins, n_grids, problem.seed + 1)]
    drawn = concatenate(maps).draw(problem.n_columns)
    judged = judge.iterate(drawn, judge.X, judge.X_out, trial.penalty[np.newaxis], HYBRID_STEPS)
    problem.note(HYBRID, judged, maps, D + n_grids, 4)
