"""Draws how normal rows are: a map of the scores, and their histogram with the offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np

from bochner.display.base import Array, Axes, Display, Panels, fitted_attribute, side_by_side
from bochner.display.canvas import BLUE, GREY, NAME_WIDTH, VERMILION, add_legend, shortened
from bochner.display.columns import sample
from bochner.display.metric import table_units
from bochner.display.points import Plane

POINTS, MARGIN = 60, 0.15
LOWEST = 0.005  # share of scores left out of the contours' range and the histogram's


@dataclass(eq=False, repr=False)
class NoveltyDisplay(Display):
    """Rows in a plane, those that are told apart, the scores around them, and the histogram of the scores.

    The plane is that of the two columns, in their own units, where the detector sees two; else that of the first two
    principal components of the encoded rows, with the scores of the plane itself, where all other components are 0.
    `from_estimator` collects, and `plot` draws.

    Keywords of `plot` are those of all points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
    scores : array of shape (n,)
    offset : float
        Rows with lower scores are told apart.
    axes : pair of arrays of shape (G,)
        Along both directions.
    surface : array of shape (G, G)
        Scores, rows along the second direction.
    names : sequence of 2 str

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
    contours_ : QuadContourSet
    normal_, novel_ : PathCollection
    offset_line_ : Line2D

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import NoveltyDetector
    >>> from bochner.display import NoveltyDisplay
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> detector = NoveltyDetector(n_components=100, n_grids=50, random_state=0).fit(X)
    >>> display = NoveltyDisplay.from_estimator(detector, X).plot()
    >>> bool(np.allclose(display.scores, detector.score_samples(X)))
    True
    >>> display.figure_.savefig("novelty.png")
    """

    points: Array
    scores: Array
    offset: float
    axes: Sequence[Array]
    surface: Array
    names: Sequence[str] = ("x0", "x1")

    def __post_init__(self) -> None:
        self._to_arrays("points", "scores", "surface")
        self.names = list(self.names)
        self.axes = tuple(np.asarray(axis, np.float64) for axis in self.axes)

    @classmethod
    def from_estimator(cls, detector: Any, X: Any, *, max_rows: int = 1000, random_state: int = 0) -> Self:
        """Collect rows and their scores.

        Parameters
        ----------
        detector : NoveltyDetector
            Fitted.
        X : array, sparse matrix or data frame of shape (n, d)
        max_rows : int, default=1000
            Of more rows so many are drawn at random; the contours' plane is that of all.
        random_state : int, default=0

        Returns
        -------
        NoveltyDisplay
            Nothing is drawn yet.
        """
        offset = float(fitted_attribute(detector, "offset_"))
        if isinstance(X, str | PathLike):
            raise TypeError("NoveltyDisplay draws rows in memory, not a path: read some rows of the file first.")
        scores = detector.score_samples(X)
        rows = detector.encoder_.encode(X, np.float64)
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        plane = Plane.of(rows)
        kept = sample(np.arange(len(rows)), max_rows, random_state)
        points = plane.points(rows[kept])
        low, high = points.min(axis=0), points.max(axis=0)
        room = MARGIN * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(a, b, POINTS) for a, b in zip(low - room, high + room, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=2).reshape(-1, 2)
        surface = detector.score_encoded(plane.centre + grid @ plane.directions).reshape(POINTS, POINTS)
        names = detector.encoder_.get_feature_names_out().tolist()
        if len(names) != 2:
            return cls(points, scores[kept], offset, (axes[0], axes[1]), surface, ["Component 1", "Component 2"])
        shift, scale = table_units(detector.encoder_.columns_, 2)  # back to those of the table
        axes = [shift[j] + scale[j] * axes[j] for j in range(2)]
        return cls(shift + scale * points, scores[kept], offset, (axes[0], axes[1]), surface, names)

    def _panels(self) -> Panels:
        return side_by_side([3, 2])

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        self._draw_map(axes[0], kwargs)
        self._draw_histogram(axes[1])

    def _draw_map(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        low = min(float(np.quantile(self.scores, LOWEST)), self.offset) - 1.0
        surface = np.clip(self.surface, low, None)
        self.contours_ = ax.contourf(*self.axes, surface, levels=12, cmap="Greys_r", alpha=0.5)
        if surface.min() < self.offset < surface.max():
            ax.contour(*self.axes, surface, levels=[self.offset], colors=VERMILION, linewidths=1.2)
        novel = self.scores < self.offset
        look: dict[str, Any] = {"linewidths": 0, "zorder": 3}
        self.normal_ = ax.scatter(
            *self.points[~novel].T, **(look | {"s": 9, "color": BLUE, "marker": "o", "label": "normal"} | kwargs)
        )
        self.novel_ = ax.scatter(
            *self.points[novel].T,
            **(look | {"s": 16, "color": VERMILION, "marker": "s", "label": "told apart"} | kwargs),
        )
        add_legend(ax)
        for which, name in zip((ax.xaxis, ax.yaxis), self.names, strict=True):
            which.set_label_text(shortened(name, NAME_WIDTH))
        ax.set_title(f"{novel.sum():,} of {len(novel):,} rows told apart", loc="left")

    def _draw_histogram(self, ax: Axes) -> None:
        low = min(float(np.quantile(self.scores, LOWEST)), self.offset - 0.5)
        ax.hist(np.clip(self.scores, low, None), bins=40, color=GREY)
        self.offset_line_ = ax.axvline(self.offset, color=VERMILION)
        ax.set_xlabel("Score: mean log share")
        ax.set_ylabel("Rows")
        ax.set_title(f"Offset {self.offset:.2f}", loc="left")
