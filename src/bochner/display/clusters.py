"""Draws clusters: the rows in two coordinates, and how many there are of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.canvas import BLUE, GREY, fitted_attribute, panels, remove_frames
from bochner.display.categories import looks
from bochner.display.maps import sample
from bochner.display.plane import Plane

MOST_ROWS = 2000


@dataclass
class ClusterDisplay:
    """Clusters of a `SpectralClustering` or `KernelKMeans`: rows in the two main coordinates, and sizes.

    Coordinates are the first two principal components of those in which the rows were clustered, where these are more.

    Parameters
    ----------
    points : array of shape (n, 2)
    labels : int array of shape (n,)
        Of the points drawn.
    centers : array of shape (n_clusters, 2)
    sizes : int array of shape (n_clusters,)
        Rows of each cluster, of all of them.

    Attributes
    ----------
    axes_ : list of Axes
    points_ : list of PathCollection
        One for each cluster.
    bars_ : BarContainer

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from bochner import SpectralClustering
    >>> from bochner.display import ClusterDisplay
    >>> X, _ = make_moons(300, noise=0.05, random_state=0)
    >>> display = ClusterDisplay.from_model(SpectralClustering(2, random_state=0).fit(X)).plot()
    >>> [bar.get_height() for bar in display.bars_] == display.sizes.tolist()
    True
    """

    points: NDArray
    labels: NDArray
    centers: NDArray
    sizes: NDArray

    @classmethod
    def from_model(cls, model: Any, *, max_rows: int = MOST_ROWS, random_state: int = 0) -> Self:
        """Look at a fitted model.

        Parameters
        ----------
        model : SpectralClustering or KernelKMeans
        max_rows : int, default=2000
            That are drawn at most.
        random_state : int, default=0
            Of their draw.
        """
        U, labels, centers = (fitted_attribute(model, name) for name in ("embedding_", "labels_", "centers_"))
        rows = sample(np.arange(len(U)), max_rows, random_state)
        plane = Plane.of(U[rows])
        points, centers = plane.points(U[rows]), plane.points(centers)
        return cls(points, labels[rows], centers, np.bincount(labels, minlength=len(centers)))

    def plot(self, ax: Any = None) -> Self:
        """Draw on new Axes, or on those given: None, one subplot, or two Axes."""
        self.axes_ = panels(ax, 2, (9, 4), _two)
        left, right = self.axes_
        self.points_ = []
        for k, (colour, marker) in enumerate(looks(len(self.sizes))):
            x, y = self.points[self.labels == k].T
            self.points_.append(left.scatter(x, y, s=8, color=colour, marker=marker, alpha=0.6, linewidths=0))
            left.annotate(str(k), self.centers[k], ha="center", va="center", fontweight="bold")
        left.set_xlabel("first coordinate")
        left.set_ylabel("second coordinate")
        left.set_title("Rows", loc="left", fontsize="medium")
        self.bars_ = right.bar(np.arange(len(self.sizes)), self.sizes, color=BLUE)
        right.axhline(self.sizes.mean(), color=GREY, linewidth=0.8)
        right.set_xlabel("cluster")
        right.set_ylabel("rows")
        right.set_title("Sizes", loc="left", fontsize="medium")
        remove_frames(self.axes_)
        return self


def _two(figure: Any, place: Any, spaced: bool) -> list[Any]:
    grid = place.subgridspec(1, 2, width_ratios=[3, 2], wspace=0.3 if spaced else None)
    return [figure.add_subplot(grid[0]), figure.add_subplot(grid[1])]
