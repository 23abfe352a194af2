"""Draws rows as points of a plane, coloured by numbers, categories, clusters or classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.base import Array, Axes, Display, Panels, fitted_attribute, side_by_side
from bochner.display.canvas import BLUE, GREY, add_colour_bar, add_legend, look, shortened
from bochner.display.columns import sample
from bochner.display.metric import table_units

MOST_CATEGORIES, NAME_WIDTH = 20, 24
MOST_NUMBERS = 10  # that are whole, up to which they are labels
MOST_POINTS = 20_000
MOST_ROWS = 2000
FAINT, SMALL, LARGE = 0.15, 10, 60


class Plane(NamedTuple):
    """A plane among rows.

    Attributes
    ----------
    centre : array of shape (d,)
    directions : array of shape (2, d)
    """

    centre: NDArray[np.float64]
    directions: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray) -> Plane:
        """The columns themselves where they are two, or else the first two principal components, their signs fixed."""
        d = rows.shape[1]
        if d == 2:
            return cls(np.zeros(2), np.eye(2))
        if d == 1:
            return cls(np.zeros(1), np.array([[1.0], [0.0]]))
        apart = rows - rows.mean(axis=0)
        _, directions = np.linalg.eigh(apart.T @ apart)
        directions = directions[:, [-1, -2]].T
        largest = np.abs(directions).argmax(axis=1)
        return cls(rows.mean(axis=0), directions * np.sign(directions[np.arange(2), largest])[:, np.newaxis])

    def points(self, rows: NDArray) -> NDArray[np.float64]:
        """Rows in the plane, shape (n, 2)."""
        return (rows - self.centre) @ self.directions.T


class Category(NamedTuple):
    """Rows that look the same.

    Attributes
    ----------
    name : str
    rows : bool array of shape (n,)
    colour, marker : str
        As matplotlib takes them.
    """

    name: str
    rows: NDArray[np.bool_]
    colour: str
    marker: str


def categories(labels: ArrayLike) -> list[Category]:
    """The 20 most frequent labels of n rows in order, and all others as one in grey."""
    names = np.array([str(label) for label in np.asarray(labels).tolist()])
    distinct, counts = np.unique(names, return_counts=True)
    shown = np.sort(distinct[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]])
    found = [Category(shortened(name, NAME_WIDTH), names == name, *look(k)) for k, name in enumerate(shown.tolist())]
    if len(shown) < len(distinct):
        found.append(Category(f"{len(distinct) - len(shown)} others", ~np.isin(names, shown), GREY, "."))
    return found


@dataclass(eq=False, repr=False)
class EmbeddingDisplay(Display):
    """Rows as points by two of their scores; colours tell categories, or numbers along a scale.

    Keywords of `plot` are those of all points, as `Axes.scatter` takes them.

    Parameters
    ----------
    scores : array of shape (n, 2)
    labels : array of shape (n,), optional
        What colours the points: text, or a few whole numbers, are categories; other numbers lie on a scale.
    names : tuple of str, default=("Score 1", "Score 2")
        Of the axes.
    label : str, default=""
        Of the colours.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    points_ : list of PathCollection
    colorbar_ : Colorbar or None

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelPCA
    >>> from bochner.display import EmbeddingDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelPCA(random_state=0).fit(X)
    >>> len(EmbeddingDisplay.from_estimator(model, X, y).plot().points_)
    10
    """

    scores: Array
    labels: Array = None
    names: tuple[str, str] = ("Score 1", "Score 2")
    label: str = ""

    def __post_init__(self) -> None:
        self._to_arrays("scores")
        self._to_arrays("labels", dtype=None)
        if self.scores.ndim != 2 or self.scores.shape[1] != 2:
            raise ValueError(f"scores must have two columns, got shape {self.scores.shape}.")
        if self.labels is not None and self.labels.shape != (len(self.scores),):
            raise ValueError(f"labels of shape {self.labels.shape} do not fit {len(self.scores)} rows.")

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, labels: ArrayLike | None = None, *, components: tuple[int, int] = (0, 1)
    ) -> Self:
        """Transform rows; of more than 20,000 some of them, evenly spaced.

        Parameters
        ----------
        model : fitted transformer
            Any of scikit-learn's kind.
        X : rows of shape (n, d)
        labels : array of shape (n,), optional
        components : (int, int), default=(0, 1)
            Numbers of the scores.

        Returns
        -------
        EmbeddingDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the model has fewer scores, or labels do not fit.
        """
        scores = np.asarray(model.transform(X))
        if not all(0 <= one < scores.shape[1] for one in components):
            raise ValueError(f"components must be two of the {scores.shape[1]} scores of the model, got {components}.")
        step = -(-len(scores) // MOST_POINTS)
        some = None if labels is None else np.asarray(labels)[::step]
        first, second = components
        return cls(scores[::step][:, [first, second]], some, (f"Score {first + 1}", f"Score {second + 1}"))

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        self.points_: list[Any] = []
        self.colorbar_: Any = None
        size = float(np.clip(20_000 / max(len(self.scores), 1), 3, 20))
        every = np.ones(len(self.scores), bool)
        if self.labels is None:
            self._scatter(every, {"s": size, "color": BLUE} | kwargs)
        elif self._are_categories():
            self._draw_categories({"s": size} | kwargs)
        else:
            self._scatter(every, {"s": size, "c": self.labels.astype(np.float64), "cmap": "viridis"} | kwargs)
            self.colorbar_ = add_colour_bar(self.points_[0], self.ax_, self.label)
        self.ax_.set_xlabel(self.names[0])
        self.ax_.set_ylabel(self.names[1])

    def _are_categories(self) -> bool:
        labels = self.labels
        assert labels is not None
        if labels.dtype.kind not in "iuf":
            return True
        distinct = np.unique(labels[np.isfinite(labels)])
        return len(distinct) <= MOST_NUMBERS and bool((distinct == np.round(distinct)).all())

    def _draw_categories(self, points: dict[str, Any]) -> None:
        """Points of each of the most frequent categories, and of the others in grey."""
        for name, rows, colour, marker in categories(np.asarray(self.labels)):
            self._scatter(rows, {"color": [colour], "marker": marker, "label": name} | points)
        add_legend(self.ax_, title=self.label or None)

    def _scatter(self, rows: Any, points: dict[str, Any]) -> None:
        self.points_.append(self.ax_.scatter(*self.scores[rows].T, **({"linewidths": 0} | points)))


@dataclass(eq=False)
class ClusterDisplay(Display):
    """Clusters of a `SpectralClustering` or `KernelKMeans`: rows in the two main coordinates, and sizes.

    Coordinates are the first two principal components of those in which the rows were clustered, where these are more.

    Keywords of `plot` are those of the points, as `Axes.scatter` takes them.

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

    def _panels(self) -> Panels:
        return side_by_side([3, 2])

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
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


@dataclass(eq=False, repr=False)
class LabelDisplay(Display):
    """Rows in two components: colours tell their classes, shades how certain these are, and large marks known labels.

    Keywords of `plot` are those of all points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
    labels : array of shape (n,)
        Predicted, but of rows with a label this.
    certainty : array of shape (n,)
        From 0, where all classes are as likely, to 1.
    known : bool array of shape (n,)
        Which rows have a label.
    names : tuple of str, default=("Component 1", "Component 2")
        Of the axes.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    points_, known_ : dict of str to PathCollection
        Rows without and with a label, by class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from bochner import SemiSupervisedClassifier
    >>> from bochner.display import LabelDisplay
    >>> X, moon = make_moons(500, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(500) < 8, moon, -1)
    >>> display = LabelDisplay.from_estimator(SemiSupervisedClassifier(random_state=0).fit(X, y), X, y).plot()
    >>> sum(len(marks.get_offsets()) for marks in display.known_.values())
    8
    """

    points: Array
    labels: Array
    certainty: Array
    known: Array
    names: tuple[str, str] = ("Component 1", "Component 2")

    def __post_init__(self) -> None:
        self._to_arrays("points", "certainty")
        self._to_arrays("labels", dtype=None)
        self.known = np.asarray(self.known, bool)
        n = len(self.points)
        if self.points.shape != (n, 2) or {a.shape for a in (self.labels, self.certainty, self.known)} != {(n,)}:
            raise ValueError("points must have two columns, and a label, certainty and mark for each row.")

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: ArrayLike | None = None, *, max_rows: int = 2000, random_state: int = 0
    ) -> Self:
        """Predict the classes of rows, in two columns in their own units, or else the main components of many.

        Parameters
        ----------
        model : SemiSupervisedClassifier
            Fitted.
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,), optional
            Labels as in the fit, -1, None or NaN where there is none.
        max_rows : int, default=2000
            Of more rows with a label, and of more without one, so many are drawn at random.
        random_state : int, default=0

        Returns
        -------
        LabelDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the model is not fitted, or y does not fit X.
        """
        from bochner.semisupervised.base import checked_marks, labelled

        classes = np.asarray(fitted_attribute(model, "classes_"))
        p = model.predict_proba(X)
        labels, known = classes[p.argmax(axis=1)].astype(object), np.zeros(len(p), bool)
        if y is not None:
            marks = checked_marks(y, model, "-1")
            if marks.shape != (len(p),):
                raise ValueError(f"y of shape {marks.shape} does not fit {len(p)} rows.")
            known = labelled(marks)
            labels[known] = marks[known].astype(classes.dtype)
        parts = [sample(np.flatnonzero(rows), max_rows, random_state) for rows in (known, ~known)]
        some = np.sort(np.concatenate(parts))
        rows = model.encoder_.encode(X, np.float64)
        names, (shift, scale) = model.encoder_.get_feature_names_out().tolist(), (np.zeros(2), np.ones(2))
        if len(names) == 2:
            shift, scale = table_units(model.encoder_.columns_, 2)
        else:
            rows, names = model.features_.coordinates(rows), ["Component 1", "Component 2"]
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        certainty = (p.max(axis=1) * len(classes) - 1) / max(len(classes) - 1, 1)
        points = shift + scale * Plane.of(rows).points(rows[some])
        return cls(points, labels[some], certainty[some], known[some], (names[0], names[1]))

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        from matplotlib.colors import to_rgba

        self.points_: dict[str, Any] = {}
        self.known_: dict[str, Any] = {}
        shade = FAINT + (1 - FAINT) * np.clip(self.certainty, 0.0, 1.0)
        for name, rows, colour, marker in categories(self.labels):
            own, free = rows & self.known, rows & ~self.known
            shades = np.tile(to_rgba(colour), (int(free.sum()), 1))
            shades[:, 3] = shade[free]
            faint = {"s": SMALL, "color": shades, "marker": marker, "linewidths": 0}
            large = {"s": LARGE, "color": [colour], "marker": marker, "label": name, "zorder": 3}
            self.points_[name] = self._scatter(free, faint | kwargs)
            self.known_[name] = self._scatter(own, large | {"edgecolors": "black", "linewidths": 1.0} | kwargs)
        add_legend(self.ax_, list(self.known_.values()))
        for axis, name in zip((self.ax_.xaxis, self.ax_.yaxis), self.names, strict=True):
            axis.set_label_text(shortened(name, NAME_WIDTH))
        labelled = f"{self.known.sum():,} of {len(self.known):,} rows with a label; shades: certainty"
        self.ax_.set_title(labelled, loc="left")

    def _scatter(self, rows: NDArray, look: dict[str, Any]) -> Any:
        return self.ax_.scatter(*self.points[rows].T, **look)
