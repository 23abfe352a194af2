"""Draws how labels of a few rows spread to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.canvas import SINGLE, add_legend, finish, fitted_attribute, one_panel, shortened
from bochner.display.categories import NAME_WIDTH, categories
from bochner.display.maps import sample
from bochner.display.plane import Plane
from bochner.display.warps import table_units

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAINT, SMALL, LARGE = 0.15, 10, 60


class LabelDisplay:
    """Rows in two components: colours tell their classes, shades how certain these are, and large marks known labels.

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

    def __init__(
        self,
        points: ArrayLike,
        labels: ArrayLike,
        certainty: ArrayLike,
        known: ArrayLike,
        names: tuple[str, str] = ("Component 1", "Component 2"),
    ) -> None:
        self.points, self.labels = np.asarray(points, np.float64), np.asarray(labels)
        self.certainty, self.known, self.names = np.asarray(certainty, np.float64), np.asarray(known, bool), names
        n = len(self.points)
        if self.points.shape != (n, 2) or {a.shape for a in (self.labels, self.certainty, self.known)} != {(n,)}:
            raise ValueError("points must have two columns, and a label, certainty and mark for each row.")

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: ArrayLike | None = None, *, max_rows: int = 2000, random_state: int = 0
    ) -> LabelDisplay:
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

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> LabelDisplay:
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
        self.ax_: Any = one_panel(ax, SINGLE)  # which says what to install
        from matplotlib.colors import to_rgba

        self.figure_ = self.ax_.figure
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
        finish([self.ax_])
        return self

    def _scatter(self, rows: NDArray, look: dict[str, Any]) -> Any:
        return self.ax_.scatter(*self.points[rows].T, **look)
