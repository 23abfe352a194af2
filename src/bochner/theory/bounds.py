"""Claim 1 and Claim 2: what they ask of a kernel, bounds on errors, the least errors
for which they hold, and sizes.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats
from bochner.kernels import Kernel
from bochner.kernels.base import Leaf, check_count, check_kernel, check_positive
from bochner.theory.region import (
    Region,
    check_components,
    log_probability,
    region_of,
    relative,
)


def spectral_variance(kernel: Kernel, n_features: int) -> float:
    """Variance of the frequencies, sigma_p^2 = E[w'w], which is minus the trace of the
    Hessian of k / k(0) at 0.

    Frequencies of the factors of a product add, and so do their variances; for a sum
    they are averaged, weighted by the variances of its terms.

    Parameters
    ----------
    kernel : Kernel
    n_features : int
        Columns d of the rows.

    Returns
    -------
    float
        In radians^2 per squared unit of the columns.

    Raises
    ------
    ValueError
        If it is infinite, as for Laplacian, Hat, or Matern with nu <= 1: Claim 1 does
        not apply. If lengthscales do not fit `n_features`.
    TypeError
        If `kernel` is not a kernel.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007,
    Claim 1.

    Examples
    --------
    >>> from bochner.kernels import Gaussian, Matern
    >>> from bochner.theory import spectral_variance
    >>> spectral_variance(Gaussian(2.0), n_features=3)
    0.75
    >>> spectral_variance(Gaussian(2.0) * Matern(nu=2.0), n_features=3)
    6.75
    """
    return float(second_moments(kernel, n_features).sum())


def second_moments(kernel: Kernel, n_features: int) -> Floats:
    """E[w_j^2], shape (d,); ValueError where one is infinite."""

    def of_leaf(leaf: Leaf) -> NDArray:
        moments = leaf.second_moments(n_features)
        if np.isnan(moments).any():
            raise ValueError(
                f"The frequencies of {leaf!r} can only be drawn, and their variance, "
                "which Claim 1 needs, is not known: use pointwise_failure_bound, or "
                "measure the error by kernel_error."
            )
        if not np.isfinite(moments).all():
            raise ValueError(
                f"The frequencies of {leaf!r} have no finite variance, for it is not "
                "twice differentiable at 0: Claim 1 does not apply. Use one that is "
                "(Gaussian, Matern with nu > 1, RationalQuadratic), use "
                "pointwise_failure_bound, or measure the error by kernel_error."
            )
        return moments

    return _averaged(kernel, n_features, of_leaf)


def break_rates(kernel: Kernel, n_features: int) -> Floats:
    """Mean number of breaks of a random grid per unit of each column, E[1 / pitch_j].

    An interval of length r along column j has r E[1 / pitch_j] breaks on average; the
    slope of k / k(0) at 0 along the column is minus E[1 / pitch_j]. The grids of the
    factors of a product overlay one another, so their breaks add; for a sum the rates
    are averaged, weighted by the variances of its terms.

    Parameters
    ----------
    kernel : Kernel
        A mixture of hats.
    n_features : int
        Columns d of the rows.

    Returns
    -------
    array of shape (d,)

    Raises
    ------
    ValueError
        If the kernel is not a mixture of hats; if its bins are smooth; if a rate is
        infinite; if the number of lengthscales is not `n_features`.
    TypeError
        If `kernel` is not a kernel.

    References
    ----------
    Rahimi and Recht (2007), Claim 2, where alpha = E[1 / pitch] is the same for all
    columns.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import break_rates
    >>> break_rates(Laplacian([1.0, 4.0]), n_features=2)
    array([1.  , 0.25])
    """

    def of_leaf(leaf: Leaf) -> NDArray:
        law = leaf.pitch_measure()
        columns = leaf.columns(n_features)
        if law.smooth:
            raise ValueError(
                "Claim 2 is about estimates that are constant inside of bins, and "
                f"{leaf!r} weights rows there. Use "
                "Laplacian, or measure the error by kernel_error."
            )
        rates = np.broadcast_to(np.asarray(law.mean_inverse, np.float64), len(columns))
        if not np.isfinite(rates).all():
            raise ValueError(
                f"The grids of {leaf!r} have infinitely many breaks per unit, E[1 / "
                "pitch] = inf: Claim 2 does not apply. Use a kernel of finite slope at "
                "0, such as Laplacian, or measure the error by kernel_error."
            )
        total = np.zeros(n_features)
        total[columns] = rates / leaf.scales(n_features)
        return total

    return _averaged(kernel, n_features, of_leaf)


def lipschitz_constant(kernel: Kernel, n_features: int) -> float:
    """Lipschitz constant L_k of k / k(0) with respect to the L1 norm, for mixtures of
    hats.

    These are products of convex functions, steepest at 0 along the column with the
    highest rate of breaks.

    Parameters
    ----------
    kernel : Kernel
        A mixture of hats.
    n_features : int

    Returns
    -------
    float
        Per unit of the columns.

    Raises
    ------
    ValueError, TypeError
        As in `break_rates`.

    References
    ----------
    Rahimi and Recht (2007), Claim 2.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import lipschitz_constant
    >>> lipschitz_constant(Laplacian([1.0, 4.0]), n_features=2)
    1.0
    """
    return float(break_rates(kernel, n_features).max())


def _averaged(
    kernel: Kernel, n_features: int, of_leaf: Callable[[Leaf], NDArray]
) -> Floats:
    """Sum over the factors of each term and mean over the terms, shape (d,)."""
    check_kernel(kernel)
    check_count(n_features, "n_features")
    total = np.zeros(n_features)
    for variance, leaves in kernel.terms():
        for leaf in leaves:
            leaf.scales(n_features)  # fails first where they do not fit
            total += variance * of_leaf(leaf)
    return total / kernel.variance


LogBound = Callable[
    [float, int], float
]  # of eps, in units of k(0), and a size: log of a bound on the probability
SHARES = np.geomspace(1e-4, 0.95, 160)[:, np.newaxis]  # of eps that brackets may cost
PROOFS = ("brackets", "paper")


def fourier_claim(kernel: Kernel, region: Region, paired: bool = True) -> LogBound:
    """Log of Claim 1's bound, a function of eps and D."""
    moments = second_moments(kernel, region.n_features)
    seen = moments > 0
    d = int(seen.sum())
    deviations = np.sqrt(moments)
    product = np.sqrt(moments.sum()) * region.diameter(seen.astype(np.float64))
    product = min(product, np.sqrt(d) * region.diameter(deviations))
    factor, rate = (2.0**8, 1 / (8 * (d + 2))) if paired else (98.0, 1 / (32 * (d + 1)))

    def log_bound(eps: float, n_components: int) -> float:
        if eps > (2 if paired else 3):  # no error is larger
            return -np.inf
        turns = product / eps
        claim = (
            np.log(factor) + 2 * np.log(max(turns, 1.0)) - n_components * eps**2 * rate
        )
        if not paired:
            return float(claim)
        return float(min(claim, 2 * np.log(2 * turns))) if turns > 0 else -np.inf

    return log_bound


def binning_claim(kernel: Kernel, region: Region, proof: str) -> LogBound:
    """Log of Claim 2's bound, a function of eps and P."""
    if proof not in PROOFS:
        raise ValueError(f"proof must be one of {PROOFS}, got {proof!r}.")
    breaks = break_rates(kernel, region.n_features) * region.ranges()
    breaks = breaks[breaks > 0]
    d = len(breaks)

    def log_bound(eps: float, n_grids: int) -> float:
        if eps > 1 or not d:  # no error is larger; all rows are always in one bin
            return -np.inf
        if proof == "paper":
            return float(
                np.log(36)
                + np.log(n_grids)
                + np.log(breaks.sum())
                - (n_grids * eps**2 / 8 + np.log(eps)) / (d + 1)
            )
        # Log of twice the number of boxes, for each share of eps that brackets may cost
        boxes = np.full(len(SHARES), np.log(2))
        for start in range(0, d, 256):
            cells = np.ceil(2 * d * breaks[start : start + 256] / (SHARES * eps))
            boxes += np.log1p(cells * ((cells + 1) / 2)).sum(axis=1)
        return float(np.min(boxes - 2 * n_grids * (eps * (1 - SHARES[:, 0])) ** 2))

    return log_bound


def least_error(claim: LogBound, size: int, delta: float) -> float:
    """Smallest eps, in units of k(0), that a claim exceeds with probability at most
    `delta`, to 1e-6 of itself.
    """
    goal = np.log(delta)
    low = np.log(1e-12)
    high = np.log(4.0)
    if claim(float(np.exp(low)), size) <= goal:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if claim(float(np.exp(middle)), size) <= goal:
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def fourier_failure_bound(
    eps: float,
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    n_components: int,
    paired: bool = True,
    diameter: float | None = None,
    n_features: int | None = None,
) -> float:
    """Claim 1: bound on the probability that random Fourier features err by `eps` for
    some pair of points.

    For a set M of diameter diam(M) in d dimensions and m independent frequencies
    (Rahimi and Recht, 2007, Claim 1)

        P[sup over x, y in M of |z(x)'z(y) - k(x, y)| >= eps]
            <= 2^8 (sigma_p diam(M) / eps)^2 exp(-m eps^2 / (4 (d + 2))),    sigma_p^2 =
            E[w'w].

    The claim writes D for m: its proof has m independent terms cos(w'(x - y)) in [-1,
    1]. For paired cosines and sines, with D = 2 m columns, the exponent is -D eps^2 /
    (8 (d + 2)), as in Proposition 1 of Sutherland and Schneider (2015), who have 66 in
    place of 2^8. With random offsets the terms are in [-2, 2] and depend on x and y,
    not on x - y alone; then it is their Proposition 2,

        98 (sigma_p diam(M) / eps)^2 exp(-D eps^2 / (32 (d + 1))).

    Both hold for sigma_p diam(M) >= eps; smaller sets are treated as if they were so
    large, and for paired features the bound is also at most (2 sigma_p diam(M) /
    eps)^2, by the mean slope of the error. (The proofs use sigma_p^2 as the mean of the
    largest squared slope of the error. It is certainly less than 4 sigma_p^2, and with
    this and the best net the constant for paired features becomes at most 258.) Columns
    may be measured in any unit: sigma_p diam(M) is the smaller of the products in the
    units of X and in those in which all E[w_j^2] are 1, over the columns that the
    kernel compares.

    Orthogonal frequencies, and others that repel one another, are not independent;
    their errors are usually smaller, but the claim does not cover them. For a sum of
    kernels m is treated as if it split evenly.

    Parameters
    ----------
    eps : float
        Error, in units of the kernel; the claim is applied to eps / k(x, x).
    kernel : Kernel
    X : array of shape (n, d), optional
        M is any set of the same diameter, which is exact for up to 2,000 rows, and
        otherwise bounded from above.
    n_components : int
        Columns D of the map, even if paired.
    paired : bool, default=True
    diameter, n_features : float and int, optional
        Given in place of X.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If sigma_p is infinite (Laplacian, Hat, Matern with nu <= 1, ...); if numbers
        are out of range; if D is odd and `paired`.
    TypeError
        If X is sparse, or neither X nor diameter and n_features are given; if an
        argument has the wrong type.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    Sutherland and Schneider, "On the Error of Random Fourier Features", UAI 2015.

    Examples
    --------
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import fourier_failure_bound
    >>> round(
    ...     fourier_failure_bound(0.2, Gaussian(), [[0.0], [3.0]], n_components=10_000),
    ...     6,
    ... )
    0.003328
    """
    claim = fourier_claim(kernel, region_of(X, diameter, n_features), paired)
    check_components(n_components, paired)
    return _capped(claim(relative(eps, kernel), int(n_components)))


def binning_failure_bound(
    eps: float,
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    n_grids: int,
    proof: str = "paper",
    diameter: float | None = None,
    n_features: int | None = None,
) -> float:
    """Claim 2: bound on the probability that random binning features err by `eps` for
    some pair of points.

    With P independent grids, alpha = E[1 / pitch] and L_k the Lipschitz constant of k
    in the L1 norm (Rahimi and Recht, 2007, Claim 2)

        P[sup over x, y in M of |z(x)'z(y) - k(x, y)| > eps]
            <= 36 d P alpha diam(M) exp(-(P eps^2 / 8 + ln(eps / L_k)) / (d + 1)).

    This is the claim, proof="paper". Its value depends on the unit of length, only
    through L_k. Here each column is measured in the unit in which alpha = L_k = 1 (the
    lengthscale, for a Laplacian), and d alpha diam(M) is replaced by what it bounds:
    the mean number of breaks b_1 + ... + b_d of a grid along the columns, b_j = E[1 /
    pitch_j] range_j. The proof has a gap: its net of points depends on the grids, but
    is treated as if it did not.

    proof="brackets" has no such gap, and is far sharper. z(x)'z(y) is the share of
    grids without a break between x and y in any column. It therefore lies between the
    shares for the next larger and the next smaller box with corners on a fixed lattice,
    and so does k. Split column j into n_j = ceil(2 d b_j / h) equal parts: the two
    boxes then differ by at most 2 b_j / n_j breaks on average along the column, and by
    at most h in total. There are at most N = prod_j (1 + n_j (n_j + 1) / 2) boxes, and
    Hoeffding's inequality holds for each, hence

        P[sup over x, y in M of |z(x)'z(y) - k(x, y)| >= eps]
            <= 2 N exp(-2 P (eps - h)^2), any 0 < h < eps,

    and the smallest bound over a fixed set of h is returned. Both proofs need rows in
    bins that training rows occupy.

    Parameters
    ----------
    eps : float
        Error, in units of the kernel; the claim is applied to eps / k(x, x).
    kernel : Kernel
        A mixture of hats.
    X : array of shape (n, d), optional
        M is the box around the rows.
    n_grids : int
        P.
    proof : {"paper", "brackets"}, default="paper"
    diameter, n_features : float and int, optional
        Given in place of X: all ranges are then the diameter.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If the kernel is not a mixture of hats, has smooth bins or infinitely many
        breaks; if numbers are out of range.
    TypeError
        If X is sparse, or neither X nor diameter and n_features are given; if an
        argument has the wrong type.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import binning_failure_bound
    >>> X = [[0.0], [3.0]]
    >>> binning_failure_bound(0.2, Laplacian(), X, n_grids=1000)
    1.0
    >>> binning_failure_bound(
    ...     0.2, Laplacian(), X, n_grids=1000, proof="brackets"
    ... ) < 1e-9
    True
    """
    claim = binning_claim(kernel, region_of(X, diameter, n_features), proof)
    check_count(n_grids, "n_grids")
    return _capped(claim(relative(eps, kernel), int(n_grids)))


def pointwise_failure_bound(
    eps: float,
    *,
    n_components: int | None = None,
    n_grids: int | None = None,
    paired: bool = True,
    variance: float = 1.0,
) -> float:
    """Bound on the probability that the estimate of one kernel value errs by `eps`, by
    Hoeffding's inequality.

    z(x)'z(y) is a mean of m independent terms. Cosines of D / 2 frequencies are in [-1,
    1]: 2 exp(-D eps^2 / 4). Products of cosines with random offsets, 2 cos(.) cos(.),
    are in [-2, 2]: 2 exp(-D eps^2 / 8). For each of P grids two rows share a bin or
    not, 0 or 1: 2 exp(-2 P eps^2); this does not cover the weights of `SmoothBins`. The
    bound holds for every kernel of such maps, whatever its frequencies.

    Parameters
    ----------
    eps : float
        Error, in units of the kernel.
    n_components : int, optional
        Columns D of random Fourier features, even where paired.
    n_grids : int, optional
        P of random binning features; either this or `n_components`.
    paired : bool, default=True
    variance : float, default=1.0
        k(x, x), the unit of the error.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError, TypeError
        If numbers are out of range or of another type; if not one of `n_components` and
        `n_grids` is given.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007,
    section 3.

    Examples
    --------
    >>> from bochner.theory import pointwise_failure_bound
    >>> round(pointwise_failure_bound(0.1, n_components=2000), 4)
    0.0135
    """
    check_positive(variance, "variance")
    check_positive(eps, "eps")
    _require_one(n_components, n_grids)
    if n_grids is not None:
        check_count(n_grids, "n_grids")
        exponent = 2.0 * n_grids
    else:
        check_components(n_components, paired)
        exponent = n_components / (4 if paired else 8)  # type: ignore[operator]
    return _capped(np.log(2) - exponent * (float(eps) / float(variance)) ** 2)


def _require_one(n_components: int | None, n_grids: int | None) -> None:
    if (n_components is None) == (n_grids is None):
        raise TypeError(
            "Give either n_components, of Fourier features, or n_grids, of binning "
            "features."
        )


def _capped(log_bound: float) -> float:
    return float(np.exp(min(float(log_bound), 0.0)))


LARGEST_SIZE = sys.maxsize


def required_components(
    eps: float,
    delta: float,
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    paired: bool = True,
    diameter: float | None = None,
    n_features: int | None = None,
) -> int:
    """Columns D of random Fourier features for an error below `eps` everywhere, by
    Claim 1.

    Parameters
    ----------
    eps, delta : float
    kernel : Kernel
    X : array of shape (n, d), optional
    paired : bool, default=True
    diameter, n_features : float and int, optional
        Given in place of X.

    Returns
    -------
    int
        The smallest D, even where paired, for which `fourier_failure_bound` is at most
        `delta`.

    Raises
    ------
    ValueError, TypeError
        As in `fourier_failure_bound`; if delta is not between 0 and 1.

    Examples
    --------
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import required_components
    >>> required_components(0.1, 0.05, Gaussian(), [[0.0], [3.0]])
    36824
    """
    claim = fourier_claim(kernel, region_of(X, diameter, n_features), paired)
    eps = relative(eps, kernel)
    goal = log_probability(delta)
    step = 2 if paired else 1
    return step * _smallest(lambda m: claim(eps, step * m) <= goal)


def required_grids(
    eps: float,
    delta: float,
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    proof: str = "paper",
    diameter: float | None = None,
    n_features: int | None = None,
) -> int:
    """Grids P of random binning features for an error below `eps` everywhere, by Claim
    2.

    Parameters
    ----------
    eps, delta : float
    kernel : Kernel
        A mixture of hats.
    X : array of shape (n, d), optional
    proof : {"paper", "brackets"}, default="paper"
        See `binning_failure_bound`.
    diameter, n_features : float and int, optional
        Given in place of X.

    Returns
    -------
    int
        The smallest P such that for it and for every larger one `binning_failure_bound`
        is at most `delta`.

    Raises
    ------
    ValueError, TypeError
        As in `binning_failure_bound`; if delta is not between 0 and 1.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import required_grids
    >>> required_grids(0.1, 0.05, Laplacian(), [[0.0], [3.0]])
    30656
    >>> required_grids(0.1, 0.05, Laplacian(), [[0.0], [3.0]], proof="brackets")
    952
    """
    region = region_of(X, diameter, n_features)
    claim = binning_claim(kernel, region, proof)
    eps = relative(eps, kernel)
    goal = log_probability(delta)
    # The paper's bound, which has P before the exponential, rises up to 8 (d + 1) /
    # eps^2.
    d = np.count_nonzero(break_rates(kernel, region.n_features) * region.ranges())
    peak = int(8 * (d + 1) / eps**2) if proof == "paper" else 1
    if peak > 1 and all(claim(eps, size) <= goal for size in (peak, peak + 1)):
        return 1
    return _smallest(lambda size: claim(eps, size) <= goal, peak)


def guaranteed_error(
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    n_components: int | None = None,
    n_grids: int | None = None,
    delta: float = 0.05,
    paired: bool = True,
    proof: str = "paper",
    diameter: float | None = None,
    n_features: int | None = None,
) -> float:
    """Error that a map of a given size exceeds anywhere with probability at most
    `delta`, by Claim 1 or Claim 2.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d), optional
    n_components : int, optional
        Columns D of random Fourier features.
    n_grids : int, optional
        P of random binning features; either this or `n_components`.
    delta : float, default=0.05
    paired : bool, default=True
        For Fourier features: cosines and sines in pairs, or cosines with random
        offsets.
    proof : {"paper", "brackets"}, default="paper"
        For binning features: see `binning_failure_bound`.
    diameter, n_features : float and int, optional
        Given in place of X.

    Returns
    -------
    float
        The smallest eps for which the bound is at most `delta`, in units of the kernel.

    Raises
    ------
    ValueError, TypeError
        As in `fourier_failure_bound` and `binning_failure_bound`; if delta is not
        between 0 and 1, or not one of `n_components` and `n_grids` is given.

    Examples
    --------
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import guaranteed_error
    >>> round(guaranteed_error(Gaussian(), [[0.0], [3.0]], n_components=36824), 4)
    0.1
    """
    _require_one(n_components, n_grids)
    region = region_of(X, diameter, n_features)
    if n_components is not None:
        check_components(n_components, paired)
        claim = fourier_claim(kernel, region, paired)
        size = n_components
    else:
        check_count(n_grids, "n_grids")
        claim, size = binning_claim(kernel, region, proof), n_grids  # type: ignore[assignment]
    log_probability(delta)
    return kernel.variance * least_error(claim, int(size), float(delta))


def _smallest(holds: Callable[[int], bool], first: int = 1) -> int:
    """Smallest integer from `first` on for which something holds that goes on to
    hold.
    """
    sizes = range(first, LARGEST_SIZE + 1)
    place = bisect_left(sizes, True, key=holds)
    if place == len(sizes):
        raise ValueError(
            "The number of components exceeds what a machine can represent: raise eps."
        )
    return sizes[place]
