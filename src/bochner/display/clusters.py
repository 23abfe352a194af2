"""Draws clusters: the rows in two coordinates, and how many there are of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.canvas import BLUE, GREY, PAGE, finish, fitted_attribute, look, panels, side_by_side
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
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
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

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence or array of them, optional
            A subplot whose place the panels take, or two Axes. None makes a figure.
        **kwargs
            Of the points, as `Axes.scatter` takes them.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without matplotlib.
        ValueError
            For a number of Axes that does not fit.
        """
        axes = panels(ax, 2, PAGE, side_by_side([3, 2]))
        self.axes_, self.figure_ = np.array(axes, dtype=object), axes[0].figure
        left, right = axes
        self.points_ = []
        for k in range(len(self.sizes)):
            colour, marker = look(k)
            points: dict[str, Any] = {"s": 10, "color": colour, "marker": marker, "alpha": 0.7, "linewidths": 0}
            self.points_.append(left.scatter(*self.points[self.labels == k].T, **(points | kwargs)))
            box = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": colour}
            left.annotate(str(k), self.centers[k], ha="center", va="center", fontsize="small", bbox=box)
        left.set_xlabel("First coordinate")
        left.set_ylabel("Second coordinate")
        left.set_title("Rows by cluster, and the centres", loc="left")
        self.bars_ = right.bar(np.arange(len(self.sizes)), self.sizes, color=BLUE)
        right.axhline(self.sizes.mean(), color=GREY, linestyle="--", linewidth=1)
        right.locator_params(axis="x", integer=True)
        right.set_xlabel("Cluster")
        right.set_ylabel("Rows")
        right.set_title("Sizes, and their mean", loc="left")
        finish(axes)
        return self
