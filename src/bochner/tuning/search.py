"""Line searches on a grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def walk_downhill(loss: Callable[[float], float], start: float, step: float, farthest: float) -> float:
    """Walk to a point whose neighbours are no better, one way as long as that pays before a look the other way.

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


def coarser_minimum(losses: tuple[float, float, float], noise: float, step: float) -> float:
    """Where a parabola through three losses at -step, 0, step is least, or below by what raises it by `noise`.

    Of points that are as good within the noise the lowest is taken; zero where the losses do not bend.
    """
    below, at, above = losses
    bend = (below - 2 * at + above) / 2
    if not 0 < bend < np.inf:
        return 0.0
    least = step * (below - above) / (4 * bend)
    return float(np.clip(least - step * np.sqrt(noise / bend), -step, step))
