"""Draws kernel matrices beside their estimates by random features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.base import PAGE, Array, Axes, Display, Panels, side_by_side
from bochner.display.canvas import add_colour_bar
from bochner.display.columns import sample
from bochner.display.maps import estimated_gram, view

MOST_ACROSS, PICTURE, HEIGHT = 4, 1.6, 2.9  # pictures in a row; inches
ORDERS = ("component", "given")


@dataclass(eq=False, repr=False)
class GramDisplay(Display):
    """The exact kernel matrix of some rows, and the products of random features of several sizes in its place.

    With more features the noise goes: its size is printed above each picture. `from_estimator` computes, and `plot`
    draws.

    Keywords of `plot` are those of all pictures, as `Axes.imshow` takes them.

    Parameters
    ----------
    exact : array of shape (n, n)
    estimates : sequence of arrays of shape (n, n)
    sizes : sequence of int
        Of the maps, in the same order.
    unit : str
        What the sizes count.

    Attributes
    ----------
    max_errors, rms_errors : arrays of shape (len(sizes),)
        Largest size of the errors, and root of the mean of their squares.
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        The exact matrix, then the estimates.
    images_ : list of AxesImage
    colorbar_ : Colorbar

    See Also
    --------
    ErrorDisplay : The error against the number of features.
    KernelDisplay : The kernel against distance.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import GramDisplay
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> display = GramDisplay.from_estimator(FourierFeatures(Gaussian(2.0)), X, sizes=(100, 2000)).plot()
    >>> bool(display.rms_errors[1] < display.rms_errors[0] / 3)
    True
    >>> display.figure_.savefig("gram.png")
    """

    exact: Array
    estimates: Sequence[Array]
    sizes: Sequence[int]
    unit: str = "features"

    def __post_init__(self) -> None:
        self._to_arrays("exact")
        self.estimates = [np.asarray(estimate) for estimate in self.estimates]
        self.sizes = list(self.sizes)
        errors = [np.abs(estimate - self.exact) for estimate in self.estimates]
        self.max_errors = np.array([error.max() for error in errors])
        self.rms_errors = np.array([np.sqrt(np.mean(error**2)) for error in errors])

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any,
        sizes: Sequence[int] = (100, 10_000),
        *,
        order: str = "component",
        max_rows: int = 500,
        random_state: int = 0,
    ) -> Self:
        """Compute the matrices.

        Parameters
        ----------
        features : FourierFeatures, BinningFeatures, or a fitted KernelMachineRegressor or KernelMachineClassifier
            Clones of it are drawn. Of maps side by side the first is taken.
        X : rows of shape (n, d)
        sizes : sequence of int, default=(100, 10_000)
            Features of the clones; of binning features their grids, the nonzero features of a row.
        order : {"component", "given"}, default="component"
            Rows are sorted by their first principal component, so that similar ones stand together, or left as given.
        max_rows : int, default=500
            Of more rows so many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        GramDisplay
            Nothing is drawn yet.
        """
        if order not in ORDERS:
            raise ValueError(f"order must be one of {ORDERS}, got {order!r}.")
        seen = view(features)
        rows = sample(seen.rows(X), max_rows, random_state)
        if order == "component":
            rows = rows[np.argsort(_component(rows), kind="stable")]
        maps = (seen.new_draw(rows, random_state, **{seen.size_name: int(size)}) for size in sizes)
        estimates = [estimated_gram(one, rows) for one in maps]
        return cls(seen.exact(rows), estimates, sizes, seen.unit)

    def _panels(self) -> Panels:
        n = 1 + len(self.estimates)
        return side_by_side([1] * n, (PAGE[0], HEIGHT * -(-n // MOST_ACROSS)), PICTURE)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        matrices = [self.exact, *self.estimates]
        low = min(0.0, *(float(matrix.min()) for matrix in matrices))
        high = max(float(matrix.max()) for matrix in matrices)
        look: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high, "interpolation": "nearest", **kwargs}
        self.images_ = [one.imshow(matrix, **look) for one, matrix in zip(axes, matrices, strict=True)]
        errors = zip(self.sizes, self.max_errors, self.rms_errors, strict=True)
        titles = ["Exact kernel", *(f"{D:,} {self._unit(D)}\nerror: max {a:.2g}\nRMS {b:.2g}" for D, a, b in errors)]
        for one, title in zip(axes, titles, strict=True):
            one.set_title(title, loc="left")
            one.set_xticks([])
            one.set_yticks([])
        axes[0].set_ylabel(f"{len(self.exact):,} row{'s' * (len(self.exact) > 1)}")
        self.colorbar_ = add_colour_bar(self.images_[0], axes, "k(x, y)")

    def _unit(self, size: int) -> str:
        return self.unit.removesuffix("s") if size == 1 else self.unit


def _component(X: NDArray) -> NDArray:
    """First principal component of the rows, in units of standard deviations; of a sign that is always the same."""
    deviation = X.std(axis=0)
    U = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    axis = np.linalg.eigh(U.T @ U)[1][:, -1]
    return U @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))
