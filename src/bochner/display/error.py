"""Draws the error of random features against their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.base import Array, Axes, Display
from bochner.display.canvas import BLUE, GREY, PURPLE, VERMILION, add_legend, draw_band, size_ticks
from bochner.display.columns import sample
from bochner.display.maps import estimated_gram, view

SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(eq=False, repr=False)
class ErrorDisplay(Display):
    """Error |z(x)'z(y) - k(x, y)| of the pairs of some rows against the number D of features, with 1 / sqrt(D).

    The mean and the largest over the pairs, averaged over independent draws, with the range over the draws; dashed, the
    lines c / sqrt(D) that fit them, and the bound where one is given (Claim 1 of Rahimi and Recht, 2007, and its
    successors hold for the largest error). `from_estimator` computes, and `plot` draws.

    Keywords of `plot` are those of the lines of the mean and the largest errors, as `Axes.plot` takes them.

    Parameters
    ----------
    sizes : sequence of int, length S
    mean_errors, max_errors : arrays of shape (S, R)
        Over the pairs, for each size and each of R draws.
    bound : array of shape (S,), optional
    unit : str
        What the sizes count.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    mean_line_, max_line_ : Line2D
    bands_ : list of PolyCollection
        Ranges over the draws, of the mean and the largest error.
    fits_ : list of Line2D
        c / sqrt(D), of the mean and the largest error.
    bound_line_ : Line2D or None

    See Also
    --------
    GramDisplay : Two of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import ErrorDisplay
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import guaranteed_error
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> features = FourierFeatures(Gaussian(2.0), sampling="iid")
    >>> bound = lambda D: guaranteed_error(Gaussian(2.0), X, n_components=D)
    >>> display = ErrorDisplay.from_estimator(features, X, sizes=(16, 64, 256), n_draws=5, bound=bound)
    >>> display.plot().mean_line_.get_xdata().tolist()
    [16, 64, 256]
    >>> display.figure_.savefig("error.png")
    """

    sizes: Array
    mean_errors: Array
    max_errors: Array
    bound: Array = None
    unit: str = "features D"

    def __post_init__(self) -> None:
        self._to_arrays("bound")
        self._to_arrays("sizes", "mean_errors", "max_errors", dtype=None)

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any,
        sizes: Sequence[int] = SIZES,
        *,
        n_draws: int = 10,
        bound: ArrayLike | Callable[[int], float] | None = None,
        max_rows: int = 200,
        random_state: int = 0,
    ) -> Self:
        """Measure the errors.

        Parameters
        ----------
        features : FourierFeatures, BinningFeatures, or a fitted KernelMachineRegressor or KernelMachineClassifier
            Clones of it are drawn. Of maps side by side the first is taken.
        X : rows of shape (n, d)
        sizes : sequence of int, default=(16, 32, ..., 4096)
            Features of the clones; of binning features their grids.
        n_draws : int, default=10
        bound : array of shape (len(sizes),), or callable D -> float, optional
            Of the error, to be drawn too; `bochner.theory.guaranteed_error` gives those of the claims.
        max_rows : int, default=200
            Of more rows so many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        ErrorDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For fewer than two different rows, no sizes or draws, and a bound of another length.
        """
        if n_draws < 1 or not len(sizes):
            raise ValueError(f"There must be sizes and draws, got sizes={sizes!r} and n_draws={n_draws}.")
        seen = view(features)
        rows = sample(np.unique(seen.rows(X), axis=0), max_rows, random_state)
        if len(rows) < 2:
            raise ValueError("X has one distinct row only, and errors are those of pairs: give two or more.")
        limit = None if bound is None else _bound(bound, sizes)
        pairs = np.triu_indices(len(rows), 1)
        exact, rng = seen.exact(rows)[pairs], np.random.default_rng(random_state)
        errors = np.empty((2, len(sizes), n_draws))
        for i, size in enumerate(sizes):
            for r, seed in enumerate(rng.integers(2**31, size=n_draws).tolist()):
                drawn = seen.new_draw(rows, seed, **{seen.size_name: int(size)})
                wrong = np.abs(estimated_gram(drawn, rows)[pairs] - exact)
                errors[:, i, r] = wrong.mean(), wrong.max()
        return cls(sizes, errors[0], errors[1], limit, "grids P" if seen.unit == "grids" else "features D")

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,) = axes
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        self.bands_: list[Any] = []
        self.fits_: list[Any] = []
        self.bound_line_ = None
        if self.bound is not None:
            (self.bound_line_,) = ax.plot(self.sizes, self.bound, ":", color=PURPLE, linewidth=2, label="bound")
        largest = {"color": VERMILION, "marker": "s", "label": "largest of the pairs"}
        self.max_line_ = self._draw_errors(ax, self.max_errors, largest | kwargs)
        mean = {"color": BLUE, "marker": "o", "label": "mean of the pairs"}
        self.mean_line_ = self._draw_errors(ax, self.mean_errors, mean | kwargs)
        self.bands_.reverse()
        self.fits_.reverse()
        self.fits_[0].set_label(f"c / √{self.unit[-1]}")
        self._label(ax)
        lines = [self.bound_line_] * (self.bound is not None) + [self.max_line_, self.mean_line_, self.fits_[0]]
        add_legend(ax, lines)

    def _draw_errors(self, ax: Axes, errors: NDArray, look: dict[str, Any]) -> Any:
        """One kind of errors: their mean over the draws, their range, and the fit."""
        mean, tiny = errors.mean(axis=1), np.finfo(float).tiny
        c = np.exp(np.mean(np.log(np.maximum(mean, tiny)) + 0.5 * np.log(self.sizes)))
        self.fits_ += ax.plot(self.sizes, c / np.sqrt(self.sizes), "--", color=GREY, linewidth=1.2)
        self.bands_.append(draw_band(ax, self.sizes, (errors.min(axis=1), errors.max(axis=1)), look["color"]))
        (line,) = ax.plot(self.sizes, mean, **({"markersize": 4.5} | look))
        return line

    def _label(self, ax: Axes) -> None:
        size_ticks(ax.xaxis, np.unique(self.sizes), 6, "{:,.0f}".format)
        ax.set_xlabel(f"Number of {self.unit}")
        ax.set_ylabel("Error of z(x)'z(y)")
        draws = self.mean_errors.shape[1]
        ax.set_title(f"Mean and range of {draws} draws" if draws > 1 else "One draw", loc="left")


def _bound(bound: Any, sizes: Sequence[int]) -> NDArray[np.float64]:
    values = np.array([bound(size) for size in sizes] if callable(bound) else bound, np.float64)
    if values.shape != (len(sizes),):
        raise ValueError(f"bound must be {len(sizes)} numbers, one for each size, got shape {values.shape}.")
    return values
