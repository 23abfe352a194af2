"""Draws what one random feature does to rows, as Figures 1 and 2 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.base import PAGE, Array, Axes, Display, Panels, SubplotSpec, side_by_side
from bochner.display.canvas import GREY, LOOKS, VERMILION, add_colour_bar, box_around, few_ticks, label_axes, shortened
from bochner.display.map_view import view
from bochner.display.row_access import column_pair, sample
from bochner.features.binning import BinningFeatures
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
    SpectrumDisplay : The distribution of the frequencies.

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
            Of more rows, this many are drawn at random.
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
        look: dict[str, Any] = {"s": 16, "cmap": "viridis", "linewidths": 0, "zorder": 3} | kwargs
        look = {"c": self.angles / (2 * np.pi)} | look
        self.points_ = axes[0].scatter(*self.points.T, **look)
        self._draw_wave(axes[0])
        turn = np.linspace(0, 2 * np.pi, 361)
        (self.circle_,) = axes[1].plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=1)
        self.circle_points_ = axes[1].scatter(np.cos(self.angles), np.sin(self.angles), **look)
        self._label_circle(axes[1])
        self.colorbar_ = add_colour_bar(self.points_, axes, "w'x / 2π [wavelengths]")

    def _draw_wave(self, ax: Axes) -> None:
        """Crests, and the direction."""
        from matplotlib.collections import LineCollection

        low, high = box_around(self.points, 0.08)
        span = high - low
        crests = _crests(self.direction, self.phase, low, high)
        segments: Any = () if crests is None else crests
        self.crests_ = ax.add_collection(LineCollection(segments, colors=GREY, linewidths=0.8, linestyles="--"))
        even = 1 / EVEN <= span[0] / span[1] <= EVEN
        middle, step = (low + high) / 2, _step(self.direction, span, np.ones(2) if even else span)
        look = {"arrowstyle": "-|>", "color": VERMILION, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        self.arrow_ = ax.annotate("", middle + step / 2, middle - step / 2, arrowprops=look, zorder=4)
        few_ticks(ax.xaxis, self.points[:, 0], 4)
        few_ticks(ax.yaxis, self.points[:, 1], 4)
        title = "Rows; the waves are short" if crests is None else "Rows, and crests of cos(w'x)"
        ax.set_aspect("equal" if even else "auto")
        x, y = map(shortened, self.names)
        label_axes(ax, x, y, title, xlim=(low[0], high[0]), ylim=(low[1], high[1]))

    def _label_circle(self, ax: Axes) -> None:
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.axvline(0, color=GREY, linewidth=0.5)
        frame = {"xticks": [-1, 0, 1], "yticks": [-1, 0, 1], "xlim": (-1.2, 1.2), "ylim": (-1.2, 1.2)}
        label_axes(ax, "cos(w'x)", "sin(w'x)", "The two features", aspect="equal", **frame)


def _step(w: NDArray, box: NDArray, scale: NDArray) -> NDArray:
    """From crest to crest, at right angles where columns are drawn to these scales; or what can be seen of it."""
    wave = w * scale
    if not wave.any():
        return np.zeros(2)
    step = 2 * np.pi * scale * wave / (wave @ wave)
    room = 1 / np.max(np.abs(step) / box)  # steps for which there is room
    return step * np.clip(1.0, 0.15 * room, 0.9 * room)


def _crests(w: NDArray, phase: float, low: NDArray, high: NDArray) -> NDArray | None:
    """Segments of the lines w'x + phase = 2 pi n in a box and beyond, shape (m, 2, 2); None for too many."""
    if not w.any():
        return np.empty((0, 2, 2))
    corners = np.array([[x, y] for x in (low[0], high[0]) for y in (low[1], high[1])])
    turns = (corners @ w + phase) / (2 * np.pi)
    first, last = np.ceil(turns.min()), np.floor(turns.max())
    if last - first > MOST_CRESTS:
        return None
    n, j = np.arange(first, last + 1)[:, np.newaxis], int(np.argmax(np.abs(w)))
    ends = np.empty((len(n), 2, 2))
    ends[..., 1 - j] = low[1 - j], high[1 - j]
    ends[..., j] = (2 * np.pi * n - phase - w[1 - j] * ends[..., 1 - j]) / w[j]  # as a function of the other coordinate
    return ends


HEIGHTS, LEAST, MOST = (2.5, 1.4), 2.0, 2.6  # inches; widths of a grid
MOST_LINES, MOST_ROWS, MOST_FRAMED, AXIS_WIDTH = 100, 24, 40, 26
ZERO = "#eeeeee"  # of what is 0
STYLES = ("-", "--", ":", "-.")
COLOURS = [colour for colour, _ in LOOKS]
STRIDE = 3  # of 7 colours: cells side by side, and corner to corner, differ


@dataclass(eq=False, repr=False)
class GridDisplay(Display):
    """Random grids over the points of two columns, and the features that they are: Figure 2 of Rahimi and Recht (2007).

    Each grid of a map has random pitches and shifts. Points in one cell have one colour. Below are the indicators of
    the cells for some of the rows, a single 1 for each row. The probability that two rows share a cell is their kernel.
    Other columns than the two split the cells further, which is not drawn. `from_estimator` collects, and `plot` draws.

    Keywords of `plot` are those of the points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
    pitches, shifts : arrays of shape (P, F, 2)
        Of P grids of F lattices; an infinite pitch splits nothing.
    names : sequence of 2 str
        Of the columns.
    n_columns : int, default=2
        Of the map.

    Attributes
    ----------
    cells : int array of shape (P, n, F, 2)
        floor((x - shift) / pitch).
    bins : int array of shape (P, n)
        Numbers of the cells that have points, from 0 on in each grid.
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2, P)
        The grids, and below them the features.
    points_ : list of PathCollection
    lines_ : list of LineCollection
        Of each grid, those of all lattices and both columns.
    features_ : list of QuadMesh
        Rows by bins, masked where the row is not in the bin.

    See Also
    --------
    CircleDisplay : The same for Fourier features.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import BinningFeatures
    >>> from bochner.display import GridDisplay
    >>> from bochner.kernels import Laplacian
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> features = BinningFeatures(Laplacian(0.5), 50, random_state=0).fit(X)
    >>> display = GridDisplay.from_estimator(features, X).plot()
    >>> display.axes_.shape, display.bins.shape
    ((2, 3), (3, 60))
    >>> display.figure_.savefig("grids.png")
    """

    points: Array
    pitches: Array
    shifts: Array
    names: Sequence[str] = ("x0", "x1")
    n_columns: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        places = (self.points[:, np.newaxis] - self.shifts[:, np.newaxis]) / self.pitches[:, np.newaxis]
        self.cells = np.floor(places).astype(np.int64)
        self.bins = np.array([_numbered(cells) for cells in self.cells.reshape(*self.cells.shape[:2], -1)])

    @classmethod
    def from_estimator(
        cls,
        features: Any,
        X: Any,
        *,
        columns: Sequence[int | str] = (0, 1),
        n_grids: int = 3,
        max_rows: int = 300,
        random_state: int = 0,
    ) -> Self:
        """Collect the first grids of a map, and points.

        Parameters
        ----------
        features : BinningFeatures, or a fitted KernelMachineRegressor or KernelMachineClassifier
            Drawn where it is not fitted. Of maps side by side the first that has grids is taken.
        X : rows of shape (n, d)
        columns : two of int or str, default=(0, 1)
            By number, or name where they have names.
        n_grids : int, default=3
            At most so many.
        max_rows : int, default=300
            Of more rows, this many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        GridDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a map without grids, rows of one column, and columns that are not two.
        """
        if n_grids < 1:
            raise ValueError(f"n_grids must be positive, got {n_grids}.")
        seen = view(features, BinningFeatures)
        rows = seen.rows(X)
        names = seen.names(X, rows.shape[1])
        two = column_pair(columns, names)
        own = seen.fitted_map(rows, random_state)
        points = sample(rows, max_rows, random_state)[:, two]
        pitches, shifts = own.pitches_[:n_grids, :, two], own.shifts_[:n_grids, :, two]
        return cls(points, pitches, shifts, [names[j] for j in two], rows.shape[1])

    def _panels(self) -> Panels:
        P = len(self.pitches)

        def build(figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
            room = {"hspace": 0.6, "wspace": 0.35} if spaced else {}
            grid = place.subgridspec(2, P, height_ratios=HEIGHTS, **room)
            return [figure.add_subplot(grid[i, p]) for i in range(2) for p in range(P)]

        width = float(np.clip(PAGE[0], LEAST * P, MOST * P))
        return Panels(2 * P, (width, sum(HEIGHTS)), build)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        P = len(self.pitches)
        self.axes_ = self.axes_.reshape(2, P)
        drawn = [self._draw_grid(axes[p], p, kwargs) for p in range(P)]
        self.points_, self.lines_ = [one for one, _ in drawn], [lines for _, lines in drawn]
        self.features_ = [self._draw_features(axes[P + p], p) for p in range(P)]
        label_axes(axes[0], y=shortened(self.names[1], AXIS_WIDTH))
        label_axes(axes[P], y="Some rows" if len(self.points) > MOST_ROWS else "Rows")

    def _colours(self, p: int) -> list[str]:
        """Of the rows by their cells."""
        flat = self.cells[p].reshape(len(self.points), -1)
        return [COLOURS[i] for i in flat @ (STRIDE ** np.arange(flat.shape[1])) % len(COLOURS)]

    def _draw_grid(self, ax: Axes, p: int, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        from matplotlib.collections import LineCollection

        look: dict[str, Any] = {"s": 12, "c": self._colours(p), "linewidths": 0, "zorder": 3, **kwargs}
        dots = ax.scatter(*self.points.T, **look)
        low, high = box_around(self.points, 0.06)
        segments, styles, crowded = [], [], False
        for f, (pitches, shifts) in enumerate(zip(self.pitches[p], self.shifts[p], strict=True)):
            for axis in (0, 1):
                at = _walls(pitches[axis], shifts[axis], low[axis], high[axis])
                crowded |= at is None
                for wall in () if at is None else at:
                    ends = np.array([low, high])
                    ends[:, axis] = wall
                    segments.append(ends)
                    styles.append(STYLES[f % len(STYLES)])
        lines = ax.add_collection(LineCollection(segments, colors=GREY, linewidths=0.8, linestyles=styles or "-"))
        few_ticks(ax.xaxis, self.points[:, 0], 4)
        few_ticks(ax.yaxis, self.points[:, 1], 4)
        title, frame = f"Grid {p + 1}" + (", too fine to draw" if crowded else ""), np.array([low, high]).T
        label_axes(ax, shortened(self.names[0], AXIS_WIDTH), "", title, xlim=frame[0], ylim=frame[1])
        return dots, lines

    def _draw_features(self, ax: Axes, p: int) -> Any:
        """Indicators of the cells for some of the rows."""
        from matplotlib.colors import ListedColormap
        from matplotlib.ticker import MaxNLocator

        n_bins, rows = self.bins[p].max() + 1, _some_of_each(self.bins[p])
        one_hot, colours = np.full((len(rows), n_bins), np.nan), self._colours(p)
        one_hot[np.arange(len(rows)), self.bins[p, rows]] = [COLOURS.index(colours[i]) for i in rows]
        look: dict[str, Any] = {"vmin": -0.5, "vmax": len(COLOURS) - 0.5, "edgecolor": "white"}
        cmap = ListedColormap(COLOURS).with_extremes(bad=ZERO)
        places = np.arange(n_bins + 1) - 0.5, np.arange(len(rows) + 1) - 0.5
        mesh = ax.pcolormesh(*places, np.ma.masked_invalid(one_hot), cmap=cmap, **look)
        mesh.set_linewidth(0.6 if n_bins <= MOST_FRAMED else 0.0)
        ax.set_facecolor(ZERO)
        ax.invert_yaxis()
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        ax.set_yticks([])
        ax.set_xlabel(f"Bin, of {n_bins:,}" + (" in these columns" if self.n_columns > 2 else ""))
        return mesh


def _numbered(cells: NDArray) -> NDArray:
    """Numbers of different rows, in their order."""
    return np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)


def _some_of_each(bins: NDArray) -> NDArray:
    """Rows, one of each bin and then others, sorted by bin."""
    first = np.unique(bins, return_index=True)[1]
    others = np.setdiff1d(np.arange(len(bins)), first)
    room = max(MOST_ROWS - len(first), 0)
    more = others[np.unique(np.linspace(0, len(others) - 1, min(room, len(others))).astype(int))]
    some = np.concatenate([first[:MOST_ROWS], more])
    return some[np.argsort(bins[some], kind="stable")]


def _walls(pitch: float, shift: float, low: float, high: float) -> NDArray | None:
    """Where cells end between two points; None for too many."""
    if not np.isfinite(pitch):
        return np.empty(0)
    if (high - low) / pitch > MOST_LINES:
        return None
    return shift + pitch * np.arange(np.ceil((low - shift) / pitch), np.floor((high - shift) / pitch) + 1)
