"""Draws rows by two of their scores, coloured by numbers or categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bochner.display.canvas import BLUE, SINGLE, add_colour_bar, add_legend, finish, one_panel
from bochner.display.categories import categories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NUMBERS = 10  # that are whole, up to which they are labels
MOST_POINTS = 20_000


class EmbeddingDisplay:
    """Rows as points by two of their scores; colours tell categories, or numbers along a scale.

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

    def __init__(
        self,
        scores: ArrayLike,
        labels: ArrayLike | None = None,
        names: tuple[str, str] = ("Score 1", "Score 2"),
        label: str = "",
    ) -> None:
        self.scores = np.asarray(scores, np.float64)
        self.labels = None if labels is None else np.asarray(labels)
        self.names = names
        self.label = label
        if self.scores.ndim != 2 or self.scores.shape[1] != 2:
            raise ValueError(f"scores must have two columns, got shape {self.scores.shape}.")
        if self.labels is not None and self.labels.shape != (len(self.scores),):
            raise ValueError(f"labels of shape {self.labels.shape} do not fit {len(self.scores)} rows.")

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, labels: ArrayLike | None = None, *, components: tuple[int, int] = (0, 1)
    ) -> EmbeddingDisplay:
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

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> EmbeddingDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None makes a figure.
        **kwargs
            Of all points, as `Axes.scatter` takes them.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        self.ax_: Any = one_panel(ax, SINGLE)
        self.figure_ = self.ax_.figure
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
        finish([self.ax_])
        return self

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
