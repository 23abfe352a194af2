"""Laws of frequencies, which Bochner's theorem pairs with kernels, and of grid pitches, at unit lengthscale."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, sici

TINY = np.finfo(float).tiny
EXPANDED_FREQUENCY = 50.0  # from which the sine integral is expanded, to 24 terms: 24! / 50^24 = 1e-17
SEEDS = 4  # uniform numbers whose bits are the seed of a sampler
SETTLED = 1e-13  # relative error of the tail probability at which a quantile is found

NODES_PER_OCTAVE = 512
SPACING = np.log(2) / NODES_PER_OCTAVE
OCTAVES = np.arange(-200, 201)  # of the distances searched; their fifth powers are finite
NEGLIGIBLE = 1e-7  # of the kernel at either end, as small as what the spacing of the nodes does to it
STEADY = 1.001  # growth of a slope by octave towards 0, above which it is taken to be infinite there
ROUNDING = 4 * 16 * np.finfo(float).eps / SPACING  # of a weight, from three values each wrong by up to 16 ulp


class Uncorrelated:
    """Frequencies whose coordinates are uncorrelated."""

    @abstractmethod
    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""

    def covariance(self, n_features: int) -> NDArray:
        """E[w w'], shape (n_features, n_features)."""
        return np.diag(self.moments(n_features))


@dataclass(frozen=True)
class Isotropic(Uncorrelated):
    """Frequencies of uniform direction: a normal vector times the root of a random scale.

    A kernel that is a scale mixture of Gaussians in the Euclidean distance, k(r) = E exp(-s r^2 / 2), has the
    frequencies w = sqrt(s) z with z standard normal (*one* s for the whole vector).

    Parameters
    ----------
    scale : callable array of shape (n_uniforms, size) -> array of shape (size,)
        Draws of s from independent uniform numbers in (0, 1).
    second_moment : float
        E s, the variance of a coordinate; may be infinite.
    n_uniforms : int, default=1
    """

    scale: Callable[[NDArray], NDArray]
    second_moment: float
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size), from normal vectors of that shape and uniform numbers, (n_uniforms, size)."""
        return normal * np.sqrt(self.scale(uniform))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.full(n_features, self.second_moment)


@dataclass(frozen=True)
class RadialLaw(Uncorrelated):
    """Frequencies of uniform direction, whose length has a law that is known as numbers, one for each dimension.

    Parameters
    ----------
    quantile : callable (u, d) -> array of the shape of u
        Inverse of the distribution function of the length in d dimensions.
    second_moment : callable d -> float
        Variance of a coordinate in d dimensions.
    """

    quantile: Callable[[NDArray, int], NDArray]
    second_moment: Callable[[int], float]
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies in the directions of the normal vectors, shape (d, size)."""
        return normal * (self.quantile(uniform[0], len(normal)) / np.linalg.norm(normal, axis=0))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.full(n_features, self.second_moment(n_features))


@dataclass(frozen=True)
class Separable(Uncorrelated):
    """Frequencies with independent coordinates.

    Parameters
    ----------
    quantile : callable array of shape (d, size) -> array of that shape
        Turns uniform numbers into coordinates, as the inverse of their distribution function does.
    second_moment : float or array of shape (d,)
        Variance of a coordinate; may be infinite.
    """

    quantile: Callable[[NDArray], NDArray]
    second_moment: float | NDArray
    n_uniforms: int = 0

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size), coordinate by coordinate from the normal ones."""
        return self.quantile(np.clip(ndtr(normal), TINY, 1 - 2**-53))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.broadcast_to(np.asarray(self.second_moment, dtype=np.float64), n_features)


@dataclass(frozen=True)
class Shifted:
    """Normal frequencies about a centre and about its opposite, half of them each.

    Parameters
    ----------
    centre : float or array of shape (d,)
    """

    centre: float | NDArray
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size)."""
        return normal + np.sign(uniform - 0.5) * np.reshape(self.centre, (-1, 1))

    def moments(self, n_features: int) -> NDArray:
        """Second moments of the coordinates, shape (n_features,)."""
        return np.broadcast_to(1 + np.asarray(self.centre) ** 2, n_features)

    def covariance(self, n_features: int) -> NDArray:
        """E[w w'], shape (n_features, n_features)."""
        centre = np.broadcast_to(self.centre, n_features)
        return np.eye(n_features) + np.outer(centre, centre)


@dataclass(frozen=True)
class Drawn(Uncorrelated):
    """Frequencies that a sampler draws by itself, of a law that is not known otherwise.

    Parameters
    ----------
    sampler : callable (size, d, rng) -> array of shape (size, d)
    """

    sampler: Callable[[int, int, np.random.Generator], NDArray]
    n_uniforms: int = 1

    def frequencies(self, normal: NDArray, uniform: NDArray) -> NDArray:
        """Frequencies, shape (d, size), drawn with the bits of uniform numbers for a seed."""
        seed = np.ascontiguousarray(uniform[0, :SEEDS]).view(np.uint64)
        return self.sampler(uniform.shape[1], len(normal), np.random.default_rng(seed)).T

    def moments(self, n_features: int) -> NDArray:
        """NaN: not known."""
        return np.full(n_features, np.nan)


SpectralMeasure = Isotropic | RadialLaw | Separable | Shifted | Drawn


@dataclass(frozen=True)
class Pitches:
    """Pitches delta of random grids, independent and identically distributed over the coordinates.

    Two points at distance D share a cell of a grid of pitch delta, shifted at random, with probability
    hat(D / delta), hat(t) = max(0, 1 - t). A function k convex on (0, inf) that falls from 1 to 0 is the mixture

        k(D) = integral of hat(D / delta) p(delta) d delta,    p(delta) = delta k''(delta)

    (Rahimi and Recht, 2007, section 4): both sides have the second derivative p(D) / D and vanish at infinity. By
    parts, the distribution function is F(delta) = 1 - k(delta) + delta k'(delta).

    Parameters
    ----------
    quantile : callable array -> array
        Inverse of the distribution function of one coordinate's pitch, infinite where the coordinate does not count.
    mean_inverse : float or array of shape (d,)
        E[1 / delta] = -k'(0), the rate at which breaks come along a coordinate; may be infinite.
    smooth : bool, default=False
        Whether a row is weighted inside of its bin, by f(s) = sqrt(30) s (1 - s) at the place s in [0, 1) of each
        coordinate. The expected product of the weights of two points, 0 where they are in different cells, is then
        (1 - t)^3 (1 + 3 t + t^2) for t = D / delta < 1, in the place of hat(t).
    """

    quantile: Callable[[NDArray], NDArray]
    mean_inverse: float | NDArray
    smooth: bool = False


def mixture_of_hats(function: Callable[[NDArray], NDArray]) -> Pitches:
    """Law of the pitches of a convex function k of the distance, k(0) = 1, that falls to 0.

    Let K be the piecewise linear function through the values of k at nodes 0 = x_0 < x_1 < ... < x_n, and s_i its
    slope before x_i. Then K - K(x_n) is *exactly* a mixture of hats with the pitches x_i and the weights

        w_i = x_i (s_(i+1) - s_i),  s_(n+1) = 0,    sum_i w_i = 1 - K(x_n),

    which are nonnegative where k is convex. The nodes are spaced by h = log(2) / 512 in log x, from where k leaves 1
    to where it reaches 0 (to 1e-7 both). Hence K - k is at most h^2 / 8 max x^2 k''(x) = 2.3e-7 max x^2 k''(x) where
    k is smooth, and h / 4 = 3.4e-4 times the weight of a kink next to it.

    Parameters
    ----------
    function : callable array -> array

    Raises
    ------
    ValueError
        If k does not fall to 0, jumps at 0, or is not convex: where, and the sum of the negative weights.
    """
    nodes = _nodes(function)
    slopes = np.diff(function(nodes), prepend=1.0) / np.diff(nodes, prepend=0.0)
    weights = nodes * np.diff(slopes, append=0.0)
    _check_weights(nodes, weights)
    nodes, weights = nodes[weights > 0], weights[weights > 0]
    shares = np.cumsum(weights) / weights.sum()
    steady = slopes[0] >= STEADY * slopes[NODES_PER_OCTAVE]
    return Pitches(
        lambda u: nodes[np.minimum(np.searchsorted(shares, u), len(nodes) - 1)], -slopes[0] if steady else np.inf
    )


def _nodes(function: Callable[[NDArray], NDArray]) -> NDArray:
    distances = 2.0**OCTAVES
    values = function(distances)
    if abs(values[-1]) > NEGLIGIBLE:
        raise ValueError(
            f"No mixture of hats: function must fall to 0, and is {values[-1]:.3g} at distance {distances[-1]:.1g}."
        )
    if abs(1 - values[0]) > NEGLIGIBLE:
        raise ValueError(
            f"No mixture of hats: function must be continuous at 0, and is {values[0]:.3g} at {distances[0]:.1g}."
        )
    first = np.argmax(np.abs(1 - values) > NEGLIGIBLE) - 1
    last = np.flatnonzero(np.abs(values) > NEGLIGIBLE)[-1] + 1
    steps = np.arange(OCTAVES[first] * NODES_PER_OCTAVE, OCTAVES[last] * NODES_PER_OCTAVE + 1)
    return 2.0 ** (steps / NODES_PER_OCTAVE)


def _check_weights(nodes: NDArray, weights: NDArray) -> None:
    concave = weights < -ROUNDING
    if concave.any():
        raise ValueError(
            f"No mixture of hats: function is not convex between the distances {nodes[concave][0]:.3g} and "
            f"{nodes[concave][-1]:.3g}, where weights of hats sum to {weights[concave].sum():.3g}. Use "
            f"FourierFeatures."
        )


def fejer_quantile(u: NDArray) -> NDArray:
    """Inverse of the distribution function of Fejer's law, density (1 - cos w) / (pi w^2).

    With Si the sine integral, pi P(frequency > w) = pi / 2 - Si(w) + (1 - cos w) / w for w >= 0; the law is symmetric.
    The reciprocal r(w) of the right hand side is nearly Kepler's w - sin w: it rises from 2 / pi with
    r' = r^2 (1 - cos w) / w^2, never decreases, and keeps within 1.1 of w. As r' is 0 at the multiples of 2 pi,
    Newton's method is kept inside of brackets. The probability beyond the result is right to 1e-13 of itself, for u
    from 2.2e-308 (smaller ones count as that) to 1 - 2^-53.
    """
    u = np.asarray(u, dtype=np.float64)
    tail = np.maximum(np.minimum(u, 1 - u), TINY)
    return np.sign(u - 0.5) * _inverse_reciprocal_tail(1 / (np.pi * tail.ravel())).reshape(u.shape)


def _inverse_reciprocal_tail(r: NDArray) -> NDArray:
    w, low, high = r.copy(), np.maximum(r - 1.1, 0.0), r + 1.1
    active = np.arange(r.size)
    for _ in range(100):
        reached = _reciprocal_tail(w[active])
        wrong = np.abs(reached - r[active]) > SETTLED * r[active]
        active, reached = active[wrong], reached[wrong]
        if not active.size:
            break
        w[active], low[active], high[active] = _step(w[active], reached, r[active], low[active], high[active])
    return w


def _step(w: NDArray, reached: NDArray, r: NDArray, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Newton's step where it stays in the bracket, else its middle; and the narrowed bracket."""
    low, high = np.where(reached < r, w, low), np.where(reached > r, w, high)
    slope = (reached * np.sinc(w / (2 * np.pi))) ** 2 / 2
    with np.errstate(divide="ignore", over="ignore"):
        newton = w + (r - reached) / slope
    return np.where((low < newton) & (newton < high), newton, (low + high) / 2), low, high


def _reciprocal_tail(w: NDArray) -> NDArray:
    """1 / (pi P(frequency > w)) for w >= 0; where pi / 2 - Si(w) would cancel, by its asymptotic series.

    That is w pi P = 1 + Re(exp(-i w) sum_m m! (i / w)^m), m = 1, 2, ... (DLMF 6.2.20, 6.12.3, 6.12.4).
    """
    near = np.minimum(w, EXPANDED_FREQUENCY)
    reciprocal = 1 / (np.pi / 2 - sici(near)[0] + near / 2 * np.sinc(near / (2 * np.pi)) ** 2)
    far = w > EXPANDED_FREQUENCY
    x = w[far]
    series = np.zeros(len(x), dtype=np.complex128)
    for m in range(24, 0, -1):
        series = (1 + series) * (m * 1j / x)
    reciprocal[far] = x / (1 + np.cos(x) * series.real + np.sin(x) * series.imag)
    return reciprocal
