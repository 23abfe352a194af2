"""Draws a kernel over distance beside its estimate by random features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.base import Array, Axes, Display
from bochner.display.canvas import BLUE, GREY, VERMILION, add_legend, shortened
from bochner.display.maps import View, view
from bochner.features.fourier import FourierFeatures
from bochner.theory.exact import bias_and_variance

HALVES = 5.0  # distances shown, in units of that at which the kernel is half of what it is at 0
NAME_WIDTH = 40
KNOWN = "k ± 2 sd, known for independent draws"


@dataclass(eq=False, repr=False)
class KernelDisplay(Display):
    """The exact kernel over distance, a map's estimate z(x)'z(x + t e) of it, and the band of its deviations.

    By Bochner's theorem the estimate is right in the mean (Rahimi and Recht, 2007, section 3); the band shows how far
    one draw goes astray. It is the mean ± 2 standard deviations of independent draws or, for m independent pairs of
    cosine and sine of a kernel k with k(0) = 1, the kernel ± 2 known ones:

        Var z(x)'z(x + t e) = ((1 + k(2t)) / 2 - k(t)^2) / m,

    as the mean of cos(a)^2 is (1 + E cos(2a)) / 2. `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of the line of the estimate, as `Axes.plot` takes them.

    Parameters
    ----------
    distances, kernel, estimate : arrays of shape (T,)
    centre, deviation : arrays of shape (T,)
        The band is centre ± 2 deviation.
    band : str
        What it is.
    size : str
        That of the map, in words.
    along : str
        Name of the direction.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    kernel_line_, estimate_line_ : Line2D
    band_ : PolyCollection

    See Also
    --------
    GramDisplay : The same for all pairs of some rows.
    ErrorDisplay : How the error falls with the number of features.

    Examples
    --------
    >>> from bochner import FourierFeatures
    >>> from bochner.display import KernelDisplay
    >>> from bochner.kernels import Gaussian
    >>> features = FourierFeatures(Gaussian(2.0), 200, random_state=0)
    >>> display = KernelDisplay.from_estimator(features, [[0.0, 0.0]], max_distance=6.0).plot()
    >>> display.kernel_line_.get_ydata()[[0, -1]].round(3).tolist()
    [1.0, 0.011]
    >>> display.figure_.savefig("kernel.png")
    """

    distances: Array
    kernel: Array
    estimate: Array
    centre: Array
    deviation: Array
    band: str = "band"
    size: str = ""
    along: str = ""

    def __post_init__(self) -> None:
        self._to_arrays("distances", "kernel", "estimate", "centre", "deviation")

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any = None,
        *,
        direction: int | ArrayLike = 0,
        max_distance: float | None = None,
        n_points: int = 200,
        n_draws: int = 20,
        random_state: int = 0,
    ) -> Self:
        """Compute the kernel, the estimate and the band.

        Parameters
        ----------
        features : FourierFeatures, BinningFeatures, or a fitted KernelMachineRegressor or KernelMachineClassifier
            Drawn where it is not fitted. Bins are learned on the points of the line, in the grids of the map; without
            a `random_state` of its own those are drawn again. Of maps side by side the first is drawn.
        X : rows of shape (n, d), optional
            The line starts at the first one; at 0 without. Needed where the map is not fitted.
        direction : int or array of shape (d,), default=0
            Column along which the rows differ, or a vector, which is made one of length 1.
        max_distance : float, optional
            Otherwise 5 times the distance at which the kernel is halved.
        n_points : int, default=200
        n_draws : int, default=20
            Independent draws for the band, at least 2; or 0 for the known deviations, for sampling="iid" and one term.
        random_state : int, default=0

        Returns
        -------
        KernelDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a map whose number of columns is not known, a direction that is none, and `n_draws` that do not fit.
        """
        seen = view(features)
        start = _start(seen, X, direction)
        names = seen.names(X, start.shape[1])
        e, along = _unit(direction, names)
        if max_distance is not None and not 0 < max_distance < np.inf:
            raise ValueError(f"max_distance must be positive and finite, got {max_distance}.")
        if n_points < 2:
            raise ValueError(f"n_points must be at least 2, got {n_points}.")
        t = np.linspace(0, max_distance or _reach(seen, start[:1], e), n_points)
        line = start[:1] + t[:, np.newaxis] * e
        kernel = seen.exact(line[:1], line)[0]
        own = seen.same_draw(line, random_state) if seen.unit == "grids" else seen.fitted_map(start, random_state)
        estimate = estimates_from_first(own, line)
        if n_draws == 0:
            centre, deviation, band = kernel, _known(own, line), KNOWN
        else:
            centre, deviation = _redraws(seen, start, line, n_draws, random_state)
            band = f"mean ± 2 sd of {n_draws} draws"
        size = f"{getattr(seen.features, seen.size_name):,} {seen.unit}"
        return cls(t, kernel, estimate, centre, deviation, band, size, along)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,) = axes
        low, high = self.centre - 2 * self.deviation, self.centre + 2 * self.deviation
        look: dict[str, Any] = {"color": GREY, "alpha": 0.25, "linewidth": 0}
        self.band_ = ax.fill_between(self.distances, low, high, label=self.band, **look)
        (self.kernel_line_,) = ax.plot(self.distances, self.kernel, color=BLUE, linewidth=2, label="k, exact")
        label = "z(x)'z(x + t e)" + (f", {self.size}" if self.size else "")
        own: dict[str, Any] = {"color": VERMILION, "linewidth": 1.2, "label": label, **kwargs}
        (self.estimate_line_,) = ax.plot(self.distances, self.estimate, **own)
        ax.set_xlabel(f"Distance t along {shortened(self.along, NAME_WIDTH)}" if self.along else "Distance t")
        ax.set_ylabel("Kernel")
        ax.margins(x=0)
        add_legend(ax, [self.kernel_line_, self.estimate_line_, self.band_])


def estimates_from_first(features: Any, line: NDArray) -> NDArray[np.float64]:
    """z(x)'z(y) of the first row x and every row y."""
    Z = features.transform(line)
    first = Z[:1].T
    return np.asarray((Z @ first).toarray() if hasattr(Z, "tocsc") else Z @ first).ravel()


def _start(seen: View, X: Any, direction: int | ArrayLike) -> NDArray:
    """The rows that are known, or a row of zeros."""
    if X is not None:
        return seen.rows(X)
    if seen.fitted:
        return np.zeros((1, seen.features.n_features_in_))
    if np.ndim(direction):
        return np.zeros((1, np.size(direction)))
    raise ValueError("How many columns there are is not known: fit the map, or give X.")


def _unit(direction: int | ArrayLike, names: list[str]) -> tuple[NDArray, str]:
    d = len(names)
    if not np.ndim(direction):
        if not isinstance(direction, int | np.integer) or not 0 <= direction < d:
            raise ValueError(f"direction must be a column from 0 to {d - 1} or a vector of {d}, got {direction!r}.")
        return np.eye(d)[direction], names[direction]
    e = np.asarray(direction, np.float64)
    length = np.linalg.norm(e)
    if e.shape != (d,) or not 0 < length < np.inf:
        raise ValueError(f"direction must be a vector of {d} finite numbers, not all 0, got {direction!r}.")
    return e / length, "the direction"


def _reach(seen: View, start: NDArray, e: NDArray) -> float:
    """Distance worth showing."""
    t = np.geomspace(1e-9, 1e9, 2001)
    below = seen.exact(start, start + t[:, np.newaxis] * e)[0] <= seen.features.kernel.variance / 2
    return float(HALVES * t[np.argmax(below)]) if below.any() else HALVES


def _known(features: Any, line: NDArray) -> NDArray:
    """Standard deviation of the mean of independent cosines."""
    pairs = isinstance(features, FourierFeatures) and features.sampling == "iid" and not len(features.offsets_)
    if not pairs or len(features.kernel.terms()) > 1:
        raise ValueError(
            "Deviations are known for FourierFeatures with sampling='iid', paired=True, an even number of features "
            "and a kernel of one term: otherwise use n_draws of 2 or more."
        )
    known = bias_and_variance(features)
    assert known is not None
    return np.sqrt(known(np.broadcast_to(line[:1], line.shape), line)[1])


def _redraws(seen: View, start: NDArray, line: NDArray, n_draws: int, random_state: int) -> tuple[NDArray, NDArray]:
    """Mean and standard deviation of the estimate over draws."""
    if n_draws < 2:
        raise ValueError(f"n_draws must be 0 or at least 2, got {n_draws}.")
    rows = line if seen.unit == "grids" else start
    seeds = np.random.default_rng(random_state).integers(2**31, size=n_draws).tolist()
    draws = np.array([estimates_from_first(seen.new_draw(rows, seed), line) for seed in seeds])
    return draws.mean(axis=0), draws.std(axis=0, ddof=1)
