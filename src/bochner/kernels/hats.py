"""Finds the distances between which a function of the distance falls from 1 to 0."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Function: TypeAlias = Callable[[NDArray], NDArray]  # of distances, or of shares
OCTAVES = np.arange(
    -200, 201
)  # of the distances searched; their fifth powers are finite
# Of the kernel at either end, as small as what the spacing of the nodes of a mixture
# does to it
NEGLIGIBLE = 1e-7


def decay_range(values: NDArray, fault: str) -> tuple[int, int]:
    """Places in `OCTAVES` of the last distance where a function is still 1, and of the
    first from which on it is 0.

    Parameters
    ----------
    values : array of shape (len(OCTAVES),)
        Of the function, at the distances 2 ** OCTAVES.
    fault : str
        How the message begins where there are no such places.

    Raises
    ------
    ValueError
        If the function does not fall to 0, or jumps at 0.
    """
    nearest, farthest = 2.0 ** OCTAVES[[0, -1]]
    if abs(values[-1]) > NEGLIGIBLE:
        raise ValueError(
            f"{fault}: function must fall to 0, and is {values[-1]:.3g} at distance "
            f"{farthest:.1g}."
        )
    if abs(1 - values[0]) > NEGLIGIBLE:
        raise ValueError(
            f"{fault}: function must be continuous at 0, and is {values[0]:.7g} at "
            f"{nearest:.1g}."
        )
    first = np.argmax(np.abs(1 - values) > NEGLIGIBLE) - 1
    last = np.flatnonzero(np.abs(values) > NEGLIGIBLE)[-1] + 1
    return int(first), int(last)


NODES_PER_OCTAVE = 512
SPACING = np.log(2) / NODES_PER_OCTAVE
# Growth of a slope by octave towards 0, above which it is taken to be infinite there
BOUNDED_GROWTH = 1.001
# Of a weight, from three values each wrong by up to 16 ulp
ROUNDING = 4 * 16 * np.finfo(float).eps / SPACING


@dataclass(frozen=True)
class Pitches:
    """Pitches delta of random grids, independent and identically distributed over the
    coordinates.

    Two points at distance D share a cell of a grid of pitch delta, shifted at random,
    with probability hat(D / delta), hat(t) = max(0, 1 - t). A function k convex on (0,
    inf) that falls from 1 to 0 is the mixture

        k(D) = integral of hat(D / delta) p(delta) d delta,
        p(delta) = delta k''(delta)

    (Rahimi and Recht, 2007, section 4): both sides have the second derivative p(D) / D
    and vanish at infinity. By parts, the distribution function is F(delta) = 1 -
    k(delta) + delta k'(delta).

    Parameters
    ----------
    quantile : callable array -> array
        Inverse of the distribution function of one coordinate's pitch, infinite where
        the coordinate does not count.
    mean_inverse : float or array of shape (d,)
        E[1 / delta] = -k'(0), the rate at which breaks come along a coordinate; may be
        infinite.
    smooth : bool, default=False
        Whether a row is weighted inside of its bin, by f(s) = sqrt(30) s (1 - s) at the
        place s in [0, 1) of each coordinate. The expected product of the weights of two
        points, 0 where they are in different cells, is then (1 - t)^3 (1 + 3 t + t^2)
        for t = D / delta < 1, in the place of hat(t).
    """

    quantile: Function
    mean_inverse: float | NDArray
    smooth: bool = False


def mixture_of_hats(function: Function) -> Pitches:
    """Distribution of the pitches of a convex function k of the distance, k(0) = 1,
    that falls to 0.

    Let K be the piecewise linear function through the values of k at nodes 0 = x_0 <
    x_1 < ... < x_n, and s_i its slope before x_i. Then K - K(x_n) is *exactly* a
    mixture of hats with the pitches x_i and the weights

        w_i = x_i (s_(i+1) - s_i),  s_(n+1) = 0,    sum_i w_i = 1 - K(x_n),

    which are nonnegative where k is convex. The nodes are spaced by h = log(2) / 512 in
    log x, from where k leaves 1 to where it reaches 0 (to 1e-7 both). Hence K - k is at
    most h^2 / 8 max x^2 k''(x) = 2.3e-7 max x^2 k''(x) where k is smooth, and h / 4 =
    3.4e-4 times the weight of a kink next to it.

    Parameters
    ----------
    function : callable array -> array

    Raises
    ------
    ValueError
        If k does not fall to 0, jumps at 0, or is not convex: where, and the sum of the
        negative weights.
    """
    first, last = decay_range(function(2.0**OCTAVES), "No mixture of hats")
    ends = NODES_PER_OCTAVE * OCTAVES[[first, last]]
    nodes = 2.0 ** (np.arange(ends[0], ends[1] + 1) / NODES_PER_OCTAVE)
    slopes = np.diff(function(nodes), prepend=1.0) / np.diff(nodes, prepend=0.0)
    weights = nodes * np.diff(slopes, append=0.0)
    concave = weights < -ROUNDING
    if concave.any():
        raise ValueError(
            "Not a mixture of hats: function is not convex between the distances "
            f"{nodes[concave][0]:.3g} and {nodes[concave][-1]:.3g}, where weights of "
            f"hats sum to {weights[concave].sum():.3g}. Use FourierFeatures."
        )
    nodes = nodes[weights > 0]
    weights = weights[weights > 0]
    shares = np.cumsum(weights) / weights.sum()
    steady = slopes[0] >= BOUNDED_GROWTH * slopes[NODES_PER_OCTAVE]
    return Pitches(
        lambda u: nodes[np.minimum(np.searchsorted(shares, u), len(nodes) - 1)],
        -slopes[0] if steady else np.inf,
    )
