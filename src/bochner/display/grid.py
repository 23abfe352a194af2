"""Draws random grids over rows and the features that they are, as Figure 2 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.base import PAGE, Array, Axes, Display, Panels, SubplotSpec
from bochner.display.canvas import GREY, LOOKS, few_ticks, shortened
from bochner.display.columns import column_pair, sample
from bochner.display.maps import view
from bochner.features.binning import BinningFeatures

HEIGHTS, LEAST, MOST = (2.5, 1.4), 2.0, 2.6  # inches; widths of a grid
MOST_LINES, MOST_ROWS, MOST_FRAMED, NAME_WIDTH = 100, 24, 40, 26
ZERO = "#eeeeee"  # of what is 0
STYLES = ("-", "--", ":", "-.")
COLOURS = [colour for colour, _ in LOOKS]
STRIDE = 3  # of 7 colours: cells side by side, and corner to corner, differ


@dataclass(eq=False, repr=False)
class GridDisplay(Display):
    """Random grids over the points of two columns, and the features that they are: Figure 2 of Rahimi and Recht (2007).

    Each grid of a map has pitches and shifts at random. Points in one cell have one colour; below, the indicators of
    the cells for some of the rows, a 1 in each. Two rows meet in a grid with the probability that their kernel is.
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
        self._to_arrays("points", "pitches", "shifts")
        self.names = list(self.names)
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
            Of more rows so many are drawn at random.
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
        axes[0].set_ylabel(shortened(self.names[1], NAME_WIDTH))
        axes[P].set_ylabel("Some rows" if len(self.points) > MOST_ROWS else "Rows")

    def _colours(self, p: int) -> list[str]:
        """Of the rows by their cells."""
        flat = self.cells[p].reshape(len(self.points), -1)
        return [COLOURS[i] for i in flat @ (STRIDE ** np.arange(flat.shape[1])) % len(COLOURS)]

    def _draw_grid(self, ax: Axes, p: int, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        from matplotlib.collections import LineCollection

        look: dict[str, Any] = {"s": 12, "c": self._colours(p), "linewidths": 0, "zorder": 3, **kwargs}
        dots = ax.scatter(*self.points.T, **look)
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        room = 0.06 * np.where(high > low, high - low, 1.0)
        low, high = low - room, high + room
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
        ax.set_xlim(low[0], high[0])
        ax.set_ylim(low[1], high[1])
        few_ticks(ax.xaxis, self.points[:, 0], 4)
        few_ticks(ax.yaxis, self.points[:, 1], 4)
        ax.set_xlabel(shortened(self.names[0], NAME_WIDTH))
        note = ", too fine to draw" if crowded else ""
        ax.set_title(f"Grid {p + 1}{note}", loc="left")
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
