"""Draws the density of one column as a curve, and of two as filled contours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bochner.display.base import Array, Axes, Display, fitted_attribute
from bochner.display.canvas import BLUE, NAME_WIDTH, add_colour_bar, few_ticks, shortened

POINTS, MARGIN = (400, 120), 3.0  # along a curve and a side of a map; bandwidths around the rows
MOST_COLUMNS, LEVELS = 2, 12


@dataclass(eq=False, repr=False)
class DensityDisplay(Display):
    """The estimate of `KernelDensity`: a curve over one column, filled contours over two, in the table's units.

    `from_estimator` collects, and `plot` draws.

    Keywords of `plot` are those of the curve, as `Axes.plot` takes them, or of the map, as `Axes.contourf` does.

    Parameters
    ----------
    axes : sequence of one or two arrays of shape (G,)
        Values of each column.
    density : array of shape (G,) or (G, G)
        In one over the product of the columns' units; rows of a map along the second column.
    names : sequence of str
        Of the columns.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    curve_ : Line2D
        Of one column.
    contours_ : QuadContourSet
        Of two columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelDensity
    >>> from bochner.display import DensityDisplay
    >>> X = np.random.default_rng(0).standard_normal((1000, 1))
    >>> display = DensityDisplay.from_estimator(KernelDensity(0.3).fit(X)).plot()
    >>> (axis,) = display.axes
    >>> bool(abs(np.trapezoid(display.density, axis) - 1) < 0.01)
    True
    >>> display.figure_.savefig("density.png")
    """

    axes: Sequence[Array]
    density: Array
    names: Sequence[str] = ("x0", "x1")

    def __post_init__(self) -> None:
        self._to_arrays("density")
        self.axes = [np.asarray(axis, np.float64) for axis in self.axes]
        self.names = list(self.names)[: len(self.axes)]

    @classmethod
    def from_estimator(cls, density: Any, *, n_points: int | None = None) -> Self:
        """Read the density at even steps, from three bandwidths below the rows of the fit to three above them.

        Parameters
        ----------
        density : KernelDensity
            Fitted on one or two columns.
        n_points : int, optional
            Along each column; 400 for one, 120 for two by default.

        Returns
        -------
        DensityDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a density of three columns.
        """
        grid, encoder = fitted_attribute(density, "grid_"), density.encoder_
        names = encoder.get_feature_names_out().tolist()
        if len(names) > MOST_COLUMNS:
            raise ValueError(
                f"DensityDisplay draws one or two columns, and this density has {len(names)}: {', '.join(names)}. "
                "Fit one on the columns to look at."
            )
        low, high = grid.rows_between()
        low, high = low - MARGIN * grid.bandwidth, high + MARGIN * grid.bandwidth
        steps = POINTS[len(names) - 1] if n_points is None else n_points
        encoded = [np.linspace(a, b, steps) for a, b in zip(low, high, strict=True)]
        mesh = np.stack(np.meshgrid(*encoded), axis=-1)
        found = np.exp(grid.log_density(mesh.reshape(-1, len(names)), grid.table())).reshape(mesh.shape[:-1])
        (column,) = encoder.columns_
        units = zip(encoded, column.scale, column.shift, strict=True)
        return cls([axis * scale + shift for axis, scale, shift in units], found / np.prod(column.scale), names)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        names = [shortened(name, NAME_WIDTH) for name in self.names]
        self.ax_.set_xlabel(names[0])
        few_ticks(self.ax_.xaxis, self.axes[0], 5)
        if len(self.axes) == 1:
            self._draw_curve(kwargs)
        else:
            self._draw_map(kwargs)
            self.ax_.set_ylabel(names[1])

    def _draw_curve(self, kwargs: dict[str, Any]) -> None:
        (axis,), look = self.axes, {"color": BLUE, **kwargs}
        (self.curve_,) = self.ax_.plot(axis, self.density, **look)
        self.ax_.fill_between(axis, self.density, color=self.curve_.get_color(), alpha=0.15, linewidth=0)
        self.ax_.set_ylim(0, None)
        self.ax_.set_ylabel("Density")

    def _draw_map(self, kwargs: dict[str, Any]) -> None:
        look: dict[str, Any] = {"levels": LEVELS, "cmap": "Blues", **kwargs}
        self.contours_ = self.ax_.contourf(*self.axes, self.density, **look)
        add_colour_bar(self.contours_, self.ax_, "Density")
