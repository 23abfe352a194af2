"""Draws rows as points of a plane, the scores around them, and what components
explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from bochner.arrays import Floats
from bochner.data.outliers import drawn
from bochner.display import canvas
from bochner.display.base import Array, Block, Display, Look, Values, fitted_attribute
from bochner.display.canvas import BLUE, GREY, VERMILION
from bochner.display.relevance_displays import table_units
from bochner.display.row_access import principal_axes
from bochner.theory.pair_kernels import dense

FAINT = 0.15


class Plane(NamedTuple):
    """A plane among encoded rows.

    Attributes
    ----------
    centre : array of shape (d,)
    directions : array of shape (2, d)
    names : list of 2 str
        Of the directions.
    shift, scale : arrays of shape (2,)
        To units of the table.
    """

    centre: Floats
    directions: Floats
    names: list[str]
    shift: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: NDArray, encoder: Any = None) -> Plane:
        """The columns themselves where they are two, in the units of the table, or else
        the first two principal components, their signs fixed.
        """
        d = rows.shape[1]
        units = ["Component 1", "Component 2"], *table_units((), 2)
        if encoder is not None and encoder.n_features_out_ == 2:
            names = encoder.get_feature_names_out().tolist()
            units = names, *table_units(encoder.columns_, 2)
        if d <= 2:
            return cls(np.zeros(d), np.eye(2, d), *units)
        return cls(rows.mean(axis=0), principal_axes(rows, 2), *units)

    def points(self, rows: NDArray) -> Floats:
        """Rows in the plane, shape (n, 2)."""
        return (rows - self.centre) @ self.directions.T

    def in_table(self, rows: NDArray) -> Floats:
        """Rows in the plane, shape (n, 2), in units of the table."""
        return self.shift + self.scale * self.points(rows)


def categories(labels: NDArray) -> Iterator[tuple[str, NDArray, str, str]]:
    """The 20 most frequent labels of n rows, sorted, and all others as one in grey: for
    each the name, a mask of its rows, colour and marker.
    """
    values = labels if labels.dtype.kind in "iuf" else labels.astype(str)
    distinct, counts = np.unique(values, return_counts=True)
    shown = np.sort(distinct[np.argsort(-counts, kind="stable")[:20]])
    names = canvas.shortened_all(shown.tolist())
    for k, (name, value) in enumerate(zip(names, shown, strict=True)):
        yield name, values == value, *canvas.look(k)
    n_others = len(distinct) - len(shown)
    if n_others:
        yield f"{n_others} others", ~np.isin(values, shown), GREY, "."


def draw_categories(ax: Any, points: NDArray, labels: NDArray, look: Look) -> list[Any]:
    """Draw points in the colours and with the markers of their labels."""
    drawn = []
    for name, rows, colour, marker in categories(labels):
        artist = {"color": [colour], "marker": marker, "label": name, **look}
        drawn.append(ax.scatter(*points[rows].T, **artist))
    return drawn


def _check_points(points: NDArray, *others: NDArray) -> None:
    """ValueError where points do not have two columns, or others not one value for
    each.
    """
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must have two columns, got shape {points.shape}.")
    check_consistent_length(points, *others)


class EmbeddingDisplay(Display):
    """Rows as points by two of their scores; colours show categories, or numbers on a
    scale.

    Keywords of `plot` are those of all points, as `Axes.scatter` takes them.

    Parameters
    ----------
    scores : array of shape (n, 2)
    labels : array of shape (n,), optional
        What colours the points: text, or a few whole numbers, are categories; other
        numbers lie on a scale.
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
    labels: Values = None
    names: tuple[str, str] = ("Score 1", "Score 2")
    label: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_points(self.scores, self.labels)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        labels: ArrayLike | None = None,
        *,
        components: tuple[int, int] = (0, 1),
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
            raise ValueError(
                f"components must be two of the {scores.shape[1]} scores of the "
                f"model, got {components}."
            )
        step = -(-len(scores) // 20_000)
        shown_labels = None if labels is None else np.asarray(labels)[::step]
        first, second = components
        names = f"Score {first + 1}", f"Score {second + 1}"
        return cls(scores[::step, [first, second]], shown_labels, names)

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        labels = self.labels
        size = np.clip(20_000 / max(len(self.scores), 1), 3, 20)
        look: Look = {"s": size, "linewidths": 0}
        self.colorbar_ = None
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        if labels is None:
            look |= {"color": BLUE, **kwargs}
            self.points_ = [ax.scatter(*self.scores.T, **look)]
            return
        # Text, and a few whole numbers, are categories
        are_categories = labels.dtype.kind not in "iuf"
        if not are_categories:
            distinct = np.unique(labels[np.isfinite(labels)])
            are_categories = len(distinct) <= 10 and not (distinct % 1).any()
        if are_categories:
            look |= kwargs
            self.points_ = draw_categories(ax, self.scores, labels, look)
            canvas.add_legend(ax, title=self.label or None)
        else:
            look |= {"c": labels.astype(np.float64), "cmap": "viridis", **kwargs}
            self.points_ = [ax.scatter(*self.scores.T, **look)]
            self.colorbar_ = canvas.add_colour_bar(self.points_[0], ax, self.label)


class ClusterDisplay(Display):
    """Clusters of a `SpectralClustering` or `KernelKMeans`: rows in a plane, coloured
    by cluster, and sizes.

    Given rows are drawn in their two columns, in the columns' units, or by their first
    two principal components if they have more columns. Without them the training rows
    are drawn, by the first two principal components of the coordinates in which they
    were clustered.

    Keywords of `plot` are those of the points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
        The rows that are drawn.
    labels : int array of shape (n,)
        Cluster of each point.
    sizes : int array of shape (n_clusters,)
        Number of rows of each cluster, with those that are not drawn.
    names : sequence of two str
        Labels of the axes.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
    points_ : list of PathCollection
        One for each cluster that has points, of more than 20 for the largest and for
        all others.
    bars_ : BarContainer

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from bochner import SpectralClustering
    >>> from bochner.display import ClusterDisplay
    >>> X, _ = make_moons(300, noise=0.05, random_state=0)
    >>> display = ClusterDisplay.from_estimator(
    ...     SpectralClustering(2, random_state=0).fit(X), X
    ... ).plot()
    >>> [bar.get_height() for bar in display.bars_] == display.sizes.tolist()
    True
    """

    points: Array
    labels: Values
    sizes: Values
    names: Sequence[str] = ("First coordinate", "Second coordinate")

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, *, max_rows: int = 2000, random_state: int = 0
    ) -> Self:
        """Collect the training rows of a fitted model, or predict the clusters of given
        rows.

        Parameters
        ----------
        model : SpectralClustering or KernelKMeans
            Fitted.
        X : array, sparse matrix or data frame of shape (n, d), optional
            Rows to draw; by default the training rows, in the coordinates in which they
            were clustered.
        max_rows : int, default=2000
            If there are more rows, this many are drawn at random.
        random_state : int, default=0
            Seed of that draw.

        Returns
        -------
        ClusterDisplay
            Nothing is drawn yet.
        """
        labels = fitted_attribute(model, "labels_")
        n_clusters = len(fitted_attribute(model, "centers_"))
        encoder = None
        if X is None:
            seen = fitted_attribute(model, "embedding_")
        else:
            labels = np.asarray(model.predict(X))
            encoder = model.encoder_
            seen = dense(encoder.encode(X, np.float64))
        row_numbers = drawn(np.arange(len(labels)), max_rows, random_state)
        rows = seen[row_numbers]
        plane = Plane.of(rows, encoder)
        sizes = np.bincount(labels, minlength=n_clusters)
        names = cls.names if X is None else plane.names
        return cls(plane.in_table(rows), labels[row_numbers], sizes, names)

    def _blocks(self) -> list[Block]:
        return [Block(n=2)]

    def _draw(self, kwargs: Look) -> None:
        scatter_axes, bar_axes = self.axes_
        look: Look = {"s": 10, "alpha": 0.7, "linewidths": 0, **kwargs}
        self.points_ = draw_categories(scatter_axes, self.points, self.labels, look)
        canvas.add_legend(scatter_axes)
        x, y = map(canvas.shortened, self.names)
        scatter_axes.set(xlabel=x, ylabel=y, title="Rows by cluster")
        self.bars_ = bar_axes.bar(np.arange(len(self.sizes)), self.sizes, color=BLUE)
        bar_axes.axhline(self.sizes.mean(), color=GREY, linestyle="--", linewidth=1)
        bar_axes.locator_params(axis="x", integer=True)
        bar_axes.set(xlabel="Cluster", ylabel="Rows", title="Sizes, dashed the mean")


class LabelDisplay(Display):
    """Rows in two components: colours show classes, shades how certain these are, and
    large markers known labels.

    Keywords of `plot` are those of all points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
    labels : array of shape (n,)
        Predicted label, or for rows with a label this one.
    certainty : array of shape (n,)
        From 0, if all classes are equally likely, to 1.
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
    >>> display = LabelDisplay.from_estimator(
    ...     SemiSupervisedClassifier(random_state=0).fit(X, y), X, y
    ... ).plot()
    >>> sum(len(marks.get_offsets()) for marks in display.known_.values())
    8
    """

    points: Array
    labels: Values
    certainty: Array
    known: Values
    names: tuple[str, str] = ("Component 1", "Component 2")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known = self.known.astype(bool)
        _check_points(self.points, self.labels, self.certainty, self.known)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        max_rows: int = 2000,
        random_state: int = 0,
    ) -> Self:
        """Predict the classes of rows, and place them by their two columns, or by two
        principal components of more.

        Parameters
        ----------
        model : SemiSupervisedClassifier
            Fitted.
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,), optional
            Labels as in the fit, -1, None or NaN where there is none.
        max_rows : int, default=2000
            Maximum number of rows with a label, and of those without one; of more, this
            many are drawn at random.
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
        labels = classes[p.argmax(axis=1)].astype(object)
        is_labelled = np.zeros(len(p), bool)
        if y is not None:
            marks = checked_marks(y, model, "-1")
            if marks.shape != (len(p),):
                raise ValueError(
                    f"y of shape {marks.shape} does not fit {len(p)} rows."
                )
            is_labelled = labelled(marks)
            labels[is_labelled] = marks[is_labelled].astype(classes.dtype)
        parts = [
            drawn(np.flatnonzero(rows), max_rows, random_state)
            for rows in (is_labelled, ~is_labelled)
        ]
        shown = np.sort(np.concatenate(parts))
        rows = model.encoder_.encode(X, np.float64)
        rows = dense(rows if rows.shape[1] == 2 else model.features_.coordinates(rows))
        certainty = (p.max(axis=1) * len(classes) - 1) / max(len(classes) - 1, 1)
        plane = Plane.of(rows, model.encoder_)
        points = plane.in_table(rows[shown])
        x, y = plane.names
        return cls(points, labels[shown], certainty[shown], is_labelled[shown], (x, y))

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        self.points_ = {}
        self.known_ = {}
        shade = FAINT + (1 - FAINT) * np.clip(self.certainty, 0.0, 1.0)
        for name, rows, colour, marker in categories(self.labels):
            free = rows & ~self.known
            look: Look = {"marker": marker, "linewidths": 0, "s": 10}
            look |= {"color": colour, "alpha": shade[free] if free.any() else 1.0}
            look |= kwargs
            self.points_[name] = ax.scatter(*self.points[free].T, **look)
            look = {"marker": marker, "linewidths": 1.0, "s": 60, "color": [colour]}
            look |= {"edgecolors": "black", "label": name, "zorder": 3, **kwargs}
            self.known_[name] = ax.scatter(*self.points[rows & self.known].T, **look)
        canvas.add_legend(ax, list(self.known_.values()))
        n_known = f"{self.known.sum():,} of {len(self.known):,}"
        title = f"{n_known} rows with a label; shades: certainty"
        x, y = map(canvas.shortened, self.names)
        ax.set(xlabel=x, ylabel=y, title=title)


SIDE = 60  # points along a side of the contours


class NoveltyDisplay(Display):
    """Rows in a plane, which of them are novel, and the scores around them.

    The plane is that of the two columns, in their own units, where the detector sees
    two; else that of the first two principal components of the encoded rows, with the
    scores of the plane itself, where all other components are 0. `from_estimator`
    collects, and `plot` draws.

    Keywords of `plot` are those of all points, as `Axes.scatter` takes them.

    Parameters
    ----------
    points : array of shape (n, 2)
    scores : array of shape (n,)
    offset : float
        Rows with lower scores are novel.
    axes : pair of arrays of shape (G,)
        Along both directions.
    surface : array of shape (G, G)
        Scores, rows along the second direction.
    names : sequence of 2 str

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    contours_ : QuadContourSet
    normal_, novel_ : PathCollection

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
    axes: Array
    surface: Array
    names: Sequence[str] = ("x0", "x1")

    @classmethod
    def from_estimator(
        cls, detector: Any, X: Any, *, max_rows: int = 1000, random_state: int = 0
    ) -> Self:
        """Collect rows and their scores.

        Parameters
        ----------
        detector : NoveltyDetector
            Fitted.
        X : array, sparse matrix or data frame of shape (n, d)
        max_rows : int, default=1000
            Of more rows, this many are drawn at random; the contours' plane is that of
            all.
        random_state : int, default=0

        Returns
        -------
        NoveltyDisplay
            Nothing is drawn yet.
        """
        offset = float(fitted_attribute(detector, "offset_"))
        if isinstance(X, str | PathLike):
            raise TypeError(
                "NoveltyDisplay draws rows in memory, not a path: read some rows of "
                "the file first."
            )
        scores = detector.score_samples(X)
        rows = dense(detector.encoder_.encode(X, np.float64))
        plane = Plane.of(rows, detector.encoder_)
        row_numbers = drawn(np.arange(len(rows)), max_rows, random_state)
        points = plane.points(rows[row_numbers])
        low, high = points.min(axis=0), points.max(axis=0)
        beside = 0.15 * np.where(high > low, high - low, 1.0)
        sides = np.linspace(low - beside, high + beside, SIDE)
        grid = np.stack(np.meshgrid(*sides.T), axis=2).reshape(-1, 2)
        surface = detector.score_encoded(plane.centre + grid @ plane.directions)
        return cls(
            plane.in_table(rows[row_numbers]),
            scores[row_numbers],
            offset,
            (plane.shift + plane.scale * sides).T,
            surface.reshape(SIDE, SIDE),
            plane.names,
        )

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        # Few of the lowest scores are left out of the contours' range
        lowest = np.quantile(self.scores, 0.005)
        surface = np.clip(self.surface, min(lowest, self.offset) - 1.0, None)
        look: Look = {"levels": 12, "cmap": "Greys_r", "alpha": 0.5}
        self.contours_ = ax.contourf(*self.axes, surface, **look)
        if surface.min() < self.offset < surface.max():
            ax.contour(*self.axes, surface, levels=[self.offset], colors=VERMILION)
        novel = self.scores < self.offset
        look = {"linewidths": 0, "zorder": 3}
        look |= {"s": 9, "color": BLUE, "marker": "o", "label": "normal", **kwargs}
        self.normal_ = ax.scatter(*self.points[~novel].T, **look)
        look |= {"s": 16, "color": VERMILION, "marker": "s", "label": "novel", **kwargs}
        self.novel_ = ax.scatter(*self.points[novel].T, **look)
        canvas.add_legend(ax)
        n_novel = f"{novel.sum():,} of {len(novel):,}"
        title = f"{n_novel} rows are novel, with scores below {self.offset:.2f}"
        x, y = map(canvas.shortened, self.names)
        ax.set(xlabel=x, ylabel=y, title=title)


class ScreeDisplay(Display):
    """Share of the variance of each component, as bars, and the cumulative share, as a
    line.

    Keywords of `plot` are those of the bars, as `Axes.bar` takes them.

    Parameters
    ----------
    ratios : array of shape (K,)
        Shares, descending.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    bars_ : BarContainer
    line_ : Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelPCA
    >>> from bochner.display import ScreeDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> display = ScreeDisplay.from_estimator(
    ...     KernelPCA(10, random_state=0).fit(X)
    ... ).plot()
    >>> len(display.bars_)
    10
    """

    ratios: Array

    @classmethod
    def from_estimator(cls, model: Any) -> Self:
        """Take the shares of a fitted model.

        Parameters
        ----------
        model : fitted `KernelPCA`, or another with `explained_variance_ratio_`

        Returns
        -------
        ScreeDisplay
            Nothing is drawn yet.
        """
        return cls(fitted_attribute(model, "explained_variance_ratio_"))

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        total = np.cumsum(self.ratios)
        look = {"label": "each component", **kwargs}
        self.bars_, self.line_ = _draw_bars(ax, self.ratios, total, "cumulative", look)
        canvas.percent_ticks(ax.yaxis)
        explained = f"{100 * total[-1]:.3g} % of the variance"
        title = f"{len(total)} components explain {explained}"
        ax.set(xlabel="Component", ylabel="Share of the variance", title=title)


def _draw_bars(
    ax: Any, bars: NDArray, line: NDArray | None, line_label: str, bar_look: Look
) -> tuple[Any, Any]:
    """Draw values of numbered components as bars, others as a line if there are any,
    with their legend.

    Returns
    -------
    BarContainer, and Line2D or None
    """
    numbers = np.arange(1, len(bars) + 1)
    drawn = None
    columns = ax.bar(numbers, bars, **{"color": BLUE, **bar_look})
    if line is not None:
        (drawn,) = ax.plot(
            numbers, line, "o-", color=VERMILION, markersize=3, label=line_label
        )
        canvas.add_legend(ax)
    ax.locator_params(axis="x", integer=True)
    return columns, drawn


class CorrelationDisplay(Display):
    """Correlation of each pair of scores: training rows as bars, other rows as a line.

    Keywords of `plot` are those of the bars, as `Axes.bar` takes them.

    Parameters
    ----------
    correlations : array of shape (K,)
        Of the training rows.
    others : array of shape (K,), optional
        Of other rows.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    bars_ : BarContainer
    line_ : Line2D or None

    See Also
    --------
    EmbeddingDisplay : Draws a pair of scores.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelCCA
    >>> from bochner.display import CorrelationDisplay
    >>> images = load_digits().images
    >>> left, right = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
    >>> model = KernelCCA(5, random_state=0).fit(left[:500], right[:500])
    >>> display = CorrelationDisplay.from_estimator(
    ...     model, left[500:], right[500:]
    ... ).plot()
    >>> len(display.bars_)
    5
    """

    correlations: Array
    others: Array = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_consistent_length(self.correlations, self.others)

    @classmethod
    def from_estimator(cls, model: Any, X: Any = None, y: Any = None) -> Self:
        """Take the correlations of a fitted model, and those of other rows if they are
        given.

        Parameters
        ----------
        model : fitted `KernelCCA`
        X, y : what its `transform` takes, optional
            Rows other than the training rows.

        Returns
        -------
        CorrelationDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where X comes without y.
        """
        correlations = fitted_attribute(model, "correlations_")
        if X is None:
            return cls(correlations)
        if y is None:
            raise ValueError(
                "X comes without y: give the second table of the same rows."
            )
        return cls(correlations, model.correlations_of(X, y))

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        look = {"label": "training rows", **kwargs}
        self.bars_, self.line_ = _draw_bars(
            ax, self.correlations, self.others, "other rows", look
        )
        shown, where = self.correlations, "training rows"
        if self.others is not None:
            shown, where = self.others, "other rows"
        mean = shown.mean() if len(shown) else 0.0
        title = f"Mean {mean:.2f} on {where}"
        ax.set(xlabel="Pair", ylabel="Correlation", title=title)
