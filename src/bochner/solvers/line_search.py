"""Line searches on a grid, and the ridge penalty by a score."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import in_threads
from bochner.solvers.factors import Factor

Point = TypeVar("Point")
Result = TypeVar("Result")


class Tried(dict[Point, Result]):
    """Results by the points that were tried: each is computed when it is first asked
    for.
    """

    def __init__(self, result: Callable[[Point], Result]) -> None:
        super().__init__()
        self.result = result

    def __missing__(self, point: Point) -> Result:
        self[point] = self.result(point)
        return self[point]

    def compute(self, points: Iterable[Point]) -> None:
        """Compute the results of several points in parallel."""
        fresh = [point for point in dict.fromkeys(points) if point not in self]
        self.update(zip(fresh, in_threads(self.result, fresh), strict=True))


def walk_downhill(
    loss: Callable[[float], float], start: float, step: float, farthest: float
) -> float:
    """Walk to a point whose neighbours are no better, one way as long as that pays
    before a look the other way.

    Parameters
    ----------
    loss : callable
        Remembers what it has told.
    farthest : float
        Distance from zero from which no further step is taken.
    """
    point = start
    for way in (step, -step):
        while abs(point) < farthest and loss(point + way) < loss(point):
            point += way
        if point != start:
            break
    return point


def coarser_minimum(losses: tuple[float, float, float], noise: float) -> float:
    """Where a parabola through three losses at -1, 0, 1 is least, or below by what
    raises it by `noise`.

    Of points that are as good within the noise the lowest is taken; zero where the
    losses do not bend.
    """
    below, middle, above = losses
    bend = (below - 2 * middle + above) / 2
    if not 0 < bend < np.inf:
        return 0.0
    least = (below - above) / (4 * bend)
    return float(np.clip(least - np.sqrt(noise / bend), -1, 1))


PATH_LENGTH = 40
STEP = 6.0  # factor between alphas of the walk at first
Score: TypeAlias = Callable[[NDArray], NDArray]  # of alphas, shape (A,)


def choose_alpha(factor: Factor, score: Score) -> tuple[float, NDArray, NDArray]:
    """Minimise a score over alpha within the bounds of the factor.

    Returns
    -------
    alpha : float
        The largest of those with the least score.
    alphas, scores : arrays of shape (A,)
        What was tried, ascending, and its scores.
    """
    if factor.inverse.serves_paths:
        alphas = np.geomspace(*factor.bounds, PATH_LENGTH)
        scores = score(alphas)
    else:
        alphas, scores = _walk_downhill(score, factor.bounds)
    return best_alpha(alphas, scores), alphas, scores


def best_alpha(alphas: NDArray, scores: NDArray) -> float:
    """Return the largest alpha among those with the least score; ValueError where
    none is a number.
    """
    scores = np.where(np.isfinite(scores), scores, np.inf)
    if np.isinf(scores.min()):
        raise ValueError(
            "No ridge penalty gives finite errors: the lengthscale, the target or the "
            "weights are extreme; rescale them."
        )
    return float(alphas[np.flatnonzero(scores == scores.min())[-1]])


def _walk_downhill(
    score: Score, bounds: tuple[float, float]
) -> tuple[NDArray, NDArray]:
    """Walk downhill in log alpha from the middle until the least score is bracketed,
    then halve the step.
    """
    tried: Tried[float, float] = Tried(
        lambda log_alpha: float(score(np.exp([log_alpha]))[0])
    )
    low, high = np.log(bounds)
    best = (low + high) / 2
    width = np.log(STEP)
    while width > np.log(STEP) / 3:
        lowest = min(
            (min(max(best + shift, low), high) for shift in (0.0, width, -width)),
            key=tried.__getitem__,
        )
        if tried[lowest] < tried[best]:
            best = lowest
        else:  # of scores that are no numbers, too
            width /= 2
    logs = sorted(tried)
    return np.exp(logs), np.array([tried[log] for log in logs])
