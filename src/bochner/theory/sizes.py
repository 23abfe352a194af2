"""How many features Claim 1 and Claim 2 ask for, and what so many guarantee."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from bochner.kernels import Kernel
from bochner.kernels.base import check_count
from bochner.theory.bounds import binning_claim, fourier_claim, least_error
from bochner.theory.rates import break_rates
from bochner.theory.region import check_components, log_probability, region_of, relative

LARGEST_SIZE = 2**200


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
    """Columns D of random Fourier features for an error below `eps` everywhere, by Claim 1.

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
        The smallest D, even where paired, for which `fourier_failure_bound` is at most `delta`.

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
    eps, goal = relative(eps, kernel), log_probability(delta)
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
    """Grids P of random binning features for an error below `eps` everywhere, by Claim 2.

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
        The smallest P such that for it and for every larger one `binning_failure_bound` is at most `delta`.

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
    eps, goal = relative(eps, kernel), log_probability(delta)
    # The paper's bound, which has P before the exponential, rises up to 8 (d + 1) / eps^2.
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
    """Error that a map of a given size exceeds anywhere with probability at most `delta`, by Claim 1 or Claim 2.

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
        For Fourier features: cosines and sines in pairs, or cosines with random offsets.
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
        As in `fourier_failure_bound` and `binning_failure_bound`; if delta is not between 0 and 1, or not one of
        `n_components` and `n_grids` is given.

    Examples
    --------
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import guaranteed_error
    >>> round(guaranteed_error(Gaussian(), [[0.0], [3.0]], n_components=36824), 4)
    0.1
    """
    if (n_components is None) == (n_grids is None):
        raise TypeError("Give either n_components, of Fourier features, or n_grids, of binning features.")
    region = region_of(X, diameter, n_features)
    if n_components is not None:
        check_components(n_components, paired)
        claim, size = fourier_claim(kernel, region, paired), n_components
    else:
        check_count(n_grids, "n_grids")
        claim, size = binning_claim(kernel, region, proof), n_grids  # type: ignore[assignment]
    log_probability(delta)
    return kernel.variance * least_error(claim, int(size), float(delta))


def _smallest(holds: Callable[[int], bool], first: int = 1) -> int:
    """Smallest integer from `first` on for which something holds that goes on to hold."""
    if holds(first):
        return first
    low = high = first
    while not holds(high):
        low, high = high, 2 * high
        if high > LARGEST_SIZE:
            raise ValueError("The number of components exceeds what a machine can represent: raise eps.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
