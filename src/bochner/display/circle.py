"""Draws what one random Fourier feature does to rows, as Figure 1 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.base import Array, Axes, Display, Panels, side_by_side
from bochner.display.canvas import GREY, NAME_WIDTH, VERMILION, add_colour_bar, few_ticks, shortened
from bochner.display.columns import column_pair, sample
from bochner.display.maps import view
from bochner.features.fourier import FourierFeatures

MOST_CRESTS = 40
EVEN = 2.0  # ratio of the ranges of the columns up to which they have one scale


@dataclass(eq=False, repr=False)
class CircleDisplay(Display):
    """What one frequency w does to rows: the line w'x, wound around a circle. Figure 1 of Rahimi and Recht (2007).

    On the left rows in the plane of two columns, the crests of cos(w'x), where the other columns have their means, and
    an arrow across them as long as a wave, where there is room for it; on the right the same rows at the place
    (cos w'x, sin w'x), their two features. Colours go by w'x: rows that are near each other come to lie near each
    other, and whole wavelengths do not count.
    `from_estimator` collects, and `plot` draws.

    Keywords of `plot` are those of both clouds of points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
    angles : array of shape (n,)
        w'x of whole rows, in radians.
    direction : array of shape (2,)
        The part of w in the two columns.
    phase : float, default=0.0
        Of the cosine where both columns are 0, and all others have their means.
    names : sequence of 2 str
        Of the columns.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
        The plane, and the circle.
    points_, circle_points_ : PathCollection
    crests_ : LineCollection
    arrow_ : Annotation
    circle_ : Line2D
    colorbar_ : Colorbar

    See Also
    --------
    GridDisplay : The same for random binning features.
    SpectrumDisplay : The law of the frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.display import CircleDisplay
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> features = FourierFeatures(Gaussian(), 50, random_state=0).fit(X)
    >>> display = CircleDisplay.from_estimator(features, X, frequency=3).plot()
    >>> bool(np.allclose(display.angles, X @ features.frequencies_[:, 3]))
    True
    >>> display.figure_.savefig("circle.png")
    """

    points: Array
    angles: Array
    direction: Array
    phase: float = 0.0
    names: Sequence[str] = ("x0", "x1")

    def __post_init__(self) -> None:
        self._to_arrays("points", "angles", "direction")
        self.names = list(self.names)

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any,
        *,
        frequency: int = 0,
        columns: Sequence[int | str] = (0, 1),
        max_rows: int = 300,
        random_state: int = 0,
    ) -> Self:
        """Collect rows and a frequency.

        Parameters
        ----------
        features : FourierFeatures, or a fitted KernelMachineRegressor or KernelMachineClassifier
            Drawn where it is not fitted. Of maps side by side the first that has frequencies is taken.
        X : rows of shape (n, d)
        frequency : int, default=0
            Column of `frequencies_`. Where that has an offset, it is part of the angle.
        columns : two of int or str, default=(0, 1)
            By number, or name where they have names.
        max_rows : int, default=300
            Of more rows so many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        CircleDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a map without frequencies or that frequency, rows of one column, and columns that are not two.
        """
        seen = view(features, FourierFeatures)
        rows = seen.rows(X)
        names = seen.names(X, rows.shape[1])
        two = column_pair(columns, names)
        own = seen.fitted_map(rows, random_state)
        m = own.frequencies_.shape[1]
        if not isinstance(frequency, int | np.integer) or not 0 <= frequency < m:
            raise ValueError(f"frequency must be one from 0 to {m - 1}, got {frequency!r}.")
        rows = sample(rows, max_rows, random_state)
        w, lone = own.frequencies_[:, frequency], frequency - (m - len(own.offsets_))
        offset = float(own.offsets_[lone]) if lone >= 0 else 0.0
        phase = float(np.delete(rows.mean(axis=0), two) @ np.delete(w, two)) + offset
        return cls(rows[:, two], rows @ w + offset, w[two], phase, [names[j] for j in two])

    def _panels(self) -> Panels:
        return side_by_side([1, 1])

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        look: dict[str, Any] = {"c": self.angles / (2 * np.pi), "s": 16, "cmap": "viridis", "linewidths": 0}
        look |= kwargs
        self.points_ = axes[0].scatter(self.points[:, 0], self.points[:, 1], zorder=3, **look)
        self._draw_wave(axes[0])
        turn = np.linspace(0, 2 * np.pi, 361)
        (self.circle_,) = axes[1].plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=1)
        self.circle_points_ = axes[1].scatter(np.cos(self.angles), np.sin(self.angles), zorder=3, **look)
        self._label_circle(axes[1])
        self.colorbar_ = add_colour_bar(self.points_, axes, "w'x / 2π [wavelengths]")

    def _draw_wave(self, ax: Axes) -> None:
        """Crests, and the direction."""
        from matplotlib.collections import LineCollection

        low, high = self.points.min(axis=0), self.points.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        low, high = low - 0.08 * span, high + 0.08 * span
        crests = _crests(self.direction, self.phase, low, high)
        self.crests_ = ax.add_collection(LineCollection(crests or [], colors=GREY, linewidths=0.8, linestyles="--"))
        even = 1 / EVEN <= span[0] / span[1] <= EVEN
        middle, step = (low + high) / 2, _step(self.direction, high - low, np.ones(2) if even else span)
        look = {"arrowstyle": "-|>", "color": VERMILION, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        self.arrow_ = ax.annotate("", middle + step / 2, middle - step / 2, arrowprops=look, zorder=4)
        ax.set_xlim(low[0], high[0])
        ax.set_ylim(low[1], high[1])
        if even:
            ax.set_aspect("equal")
        few_ticks(ax.xaxis, self.points[:, 0], 4)
        few_ticks(ax.yaxis, self.points[:, 1], 4)
        ax.set_xlabel(shortened(self.names[0], NAME_WIDTH))
        ax.set_ylabel(shortened(self.names[1], NAME_WIDTH))
        title = "Rows; the waves are short" if crests is None else "Rows, and crests of cos(w'x)"
        ax.set_title(title, loc="left")

    def _label_circle(self, ax: Axes) -> None:
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.axvline(0, color=GREY, linewidth=0.5)
        ax.set_aspect("equal")
        ax.set_xlim(-1.2, 1.2)
        ax.set_ylim(-1.2, 1.2)
        ax.set_xticks([-1, 0, 1])
        ax.set_yticks([-1, 0, 1])
        ax.set_xlabel("cos(w'x)")
        ax.set_ylabel("sin(w'x)")
        ax.set_title("The two features", loc="left")


def _step(w: NDArray, box: NDArray, scale: NDArray) -> NDArray:
    """From crest to crest, at right angles where columns are drawn to these scales; or what can be seen of it."""
    wave = w * scale
    if not wave.any():
        return np.zeros(2)
    step = 2 * np.pi * scale * wave / (wave @ wave)
    room = 1 / np.max(np.abs(step) / box)  # steps for which there is room
    return step * np.clip(1.0, 0.15 * room, 0.9 * room)


def _crests(w: NDArray, phase: float, low: NDArray, high: NDArray) -> list[NDArray] | None:
    """Segments of the lines w'x + phase = 2 pi n in a box and beyond; None for too many."""
    if not w.any():
        return []
    corners = np.array([[x, y] for x in (low[0], high[0]) for y in (low[1], high[1])])
    turns = (corners @ w + phase) / (2 * np.pi)
    first, last = np.ceil(turns.min()), np.floor(turns.max())
    if last - first > MOST_CRESTS:
        return None
    segments, j = [], int(np.argmax(np.abs(w)))  # a line gives coordinate j as a function of the other
    for n in np.arange(first, last + 1):
        ends = np.empty((2, 2))
        ends[:, 1 - j] = low[1 - j], high[1 - j]
        ends[:, j] = (2 * np.pi * n - phase - w[1 - j] * ends[:, 1 - j]) / w[j]
        segments.append(ends)
    return segments
