"""Draws how errors fall with training rows and features (Figure 3 of the paper), and how scores change over time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.display.base import PAGE, Array, Axes, Display, Panels, side_by_side
from bochner.display.canvas import BLUE, LOOKS, VERMILION, add_legend, draw_band, few_ticks, short_number, size_ticks
from bochner.display.columns import target_of

PANEL, HEIGHT = 1.9, 2.8  # inches
MOST_TICKS = 4
MOST_LINES = len(LOOKS)


@dataclass(eq=False, repr=False)
class LearningDisplay(Display):
    """Test error against training rows, against the size of the map, and training time: Figure 3 of Rahimi and Recht.

    Would more rows help, or more features? A curve that still falls at its right end says so. Lines are means over
    independent draws of rows and features, bands their ranges. `from_estimator` fits, and `plot` draws.

    Keywords of `plot` are those of all lines, as `Axes.plot` takes them.

    Parameters
    ----------
    rows : sequence of int, length S
    row_errors : array of shape (S, R)
        Test errors for each number of rows and each of R draws.
    sizes : sequence of int, length T
    size_errors, seconds : arrays of shape (T, R)
        Test errors and seconds of training, for each size of the map.
    error : str
        What the errors are.
    unit : str
        What the sizes count.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        Error against rows, error against size, time against size; those that there are.
    lines_ : list of Line2D
    bands_ : list of PolyCollection

    See Also
    --------
    ErrorDisplay : The error of the kernel, instead of that of predictions.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelMachineClassifier
    >>> from bochner.display import LearningDisplay
    >>> from bochner.kernels import Gaussian
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelMachineClassifier(Gaussian(25.0), n_components=200, alpha=0.1, random_state=0)
    >>> test = X[1200:], y[1200:]
    >>> display = LearningDisplay.from_estimator(
    ...     model, X[:1200], y[:1200], test=test, rows=(300, 1200), sizes=(20, 200), seeds=(0, 1)
    ... ).plot()
    >>> len(display.axes_), bool(display.row_errors[1].mean() < display.row_errors[0].mean())
    (3, True)
    >>> display.figure_.savefig("learning.png")
    """

    rows: Array = ()
    row_errors: Array = ()
    sizes: Array = ()
    size_errors: Array = ()
    seconds: Array = ()
    error: str = "Test error"
    unit: str = "features"

    def __post_init__(self) -> None:
        self._to_arrays("row_errors", "size_errors", "seconds")
        self._to_arrays("rows", "sizes", dtype=None)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: ArrayLike,
        *,
        test: tuple[Any, ArrayLike],
        rows: Sequence[int] = (),
        sizes: Sequence[int] = (),
        seeds: Sequence[int] = (0, 1, 2),
    ) -> Self:
        """Fit clones of a model to nested parts of the rows, and with maps of several sizes.

        Parameters
        ----------
        model : KernelMachineRegressor or KernelMachineClassifier
            Not fitted.
        X : array or data frame of shape (n, d)
        y : array of shape (n,)
        test : (rows, targets)
            To measure the errors on.
        rows : sequence of int, optional
            Numbers of training rows, the first ones of a random order; with the model's own `n_components`.
        sizes : sequence of int, optional
            Values of `n_components`, for all rows.
        seeds : sequence of int, default=(0, 1, 2)
            One draw for each: the order of the rows, and the `random_state` of the model.

        Returns
        -------
        LearningDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Without `rows` and `sizes`, and for more rows than there are.
        """
        n, targets = len(np.asarray(y)), np.asarray(y)
        if not (len(seeds) and (len(rows) or len(sizes))) or max(rows, default=0) > n:
            raise ValueError(f"There must be seeds, and rows up to {n} or sizes: {seeds!r}, {rows!r}, {sizes!r}.")
        pairs = [(int(part), None) for part in rows] + [(n, int(size)) for size in sizes]
        found = np.empty((len(pairs), len(seeds), 2))
        for j, seed in enumerate(seeds):
            order = np.random.default_rng(seed).permutation(n)
            for i, (part, size) in enumerate(pairs):
                own = clone(model).set_params(random_state=seed, **({} if size is None else {"n_components": size}))
                some, start = _taken(X, order[:part]), time.perf_counter()
                own.fit(some, targets[order[:part]])
                found[i, j, 1] = time.perf_counter() - start
                found[i, j, 0] = _error(own, *test)
        S = len(rows)
        error = "Share of test rows wrong" if is_classifier(model) else "RMSE over standard deviation"
        unit = "grids" if getattr(model, "features", None) == "binning" else "features"
        return cls(rows, found[:S, :, 0], sizes, found[S:, :, 0], found[S:, :, 1], error, unit)

    @property
    def _curves(self) -> list[tuple[NDArray, NDArray, str, str, str]]:
        """Numbers across and values up, the labels of both, and a colour, for each panel."""
        curves = [(self.rows, self.row_errors, "Training rows", self.error, BLUE)] * bool(len(self.rows))
        if len(self.sizes):
            across = f"Number of {self.unit}"
            curves += [(self.sizes, self.size_errors, across, self.error, BLUE)]
            curves += [(self.sizes, self.seconds, across, "Training time [s]", VERMILION)]
        return curves

    def _panels(self) -> Panels:
        n = len(self._curves)
        if not n:
            raise ValueError("There is nothing to draw: give rows or sizes.")
        return side_by_side([1] * n, (PAGE[0], HEIGHT), PANEL)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        curves = self._curves
        self.lines_, self.bands_ = list[Any](), list[Any]()
        for one, (x, values, across, up, colour) in zip(axes, curves, strict=True):
            self._draw_curve(one, x, values, {"color": colour, "marker": "o", "markersize": 4.5} | kwargs)
            one.set_xlabel(across)
            one.set_ylabel(up)
        draws = curves[0][1].shape[1]
        axes[0].set_title(f"Mean and range of {draws} draws" if draws > 1 else "One draw", loc="left")

    def _draw_curve(self, ax: Axes, x: NDArray, values: NDArray, look: dict[str, Any]) -> None:
        ax.set_xscale("log")
        self.bands_.append(draw_band(ax, x, (values.min(axis=1), values.max(axis=1)), look["color"]))
        self.lines_ += ax.plot(x, values.mean(axis=1), **look)
        size_ticks(ax.xaxis, x, MOST_TICKS, short_number)
        ax.set_ylim(bottom=0)


def _taken(X: Any, rows: NDArray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _error(model: Any, X: Any, y: ArrayLike) -> float:
    predicted = model.predict(X)
    if is_classifier(model):
        return float(np.mean(predicted != np.asarray(y)))
    truth = target_of(y)
    return float(np.sqrt(np.mean((target_of(predicted) - truth) ** 2)) / (truth.std() or 1.0))


@dataclass(eq=False, repr=False)
class DriftDisplay(Display):
    """Scores over time of rows that were predicted before they were learned: where the world changes, they fall.

    `from_estimator` takes them from one online model, or from several to compare, such as with and without forgetting;
    `plot` draws.

    Keywords of `plot` are those of all lines, as `Axes.plot` takes them.

    Parameters
    ----------
    histories : dict of str to array of shape (m, 2)
        By name, rows so far and the score of the last of them.
    what : str
        What the scores are.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    lines_ : list of Line2D
        In the order of the models.

    See Also
    --------
    bochner.OnlineKernelRegressor, bochner.OnlineKernelClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import OnlineKernelRegressor
    >>> from bochner.display import DriftDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(4000, 1))
    >>> y = np.sin(2 * X[:, 0] + np.arange(4000) / 500)
    >>> memory = {"all": None, "last": 50}
    >>> models = {name: OnlineKernelRegressor(half_life=n, random_state=0).fit(X, y) for name, n in memory.items()}
    >>> display = DriftDisplay.from_estimator(models).plot()
    >>> all_rows, last_rows = (line.get_ydata()[-1] for line in display.lines_)
    >>> bool(last_rows > all_rows + 0.5)
    True
    >>> display.figure_.savefig("drift.png")
    """

    histories: Mapping[str, Array]
    what: str = "Score"

    def __post_init__(self) -> None:
        self.histories = {str(name): np.asarray(history, np.float64) for name, history in self.histories.items()}
        if not 0 < len(self.histories) <= MOST_LINES:
            raise ValueError(f"There must be from 1 to {MOST_LINES} histories, got {len(self.histories)}.")
        for name, history in self.histories.items():
            if history.ndim != 2 or history.shape[1] != 2 or not len(history):
                raise ValueError(
                    f"The history {name!r} must be of shape (m, 2), got {history.shape}: a model has scores from its "
                    "second block of rows on."
                )

    @classmethod
    def from_estimator(cls, model: Any) -> Self:
        """Take the scores from models.

        Parameters
        ----------
        model : OnlineKernelRegressor, OnlineKernelClassifier, or dict of str to such
            Fitted, all of one kind.

        Returns
        -------
        DriftDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For models that keep no scores, have none yet, or are of both kinds.
        """
        models = dict(model) if isinstance(model, Mapping) else {type(model).__name__: model}
        for name, one in models.items():
            check_is_fitted(one)
            if not hasattr(one, "score_history_"):
                raise ValueError(f"{name!r} keeps no scores over time: give an online model, got {type(one).__name__}.")
        kinds = {is_classifier(one) for one in models.values()}
        if len(kinds) > 1:
            raise ValueError("Scores of a regressor and of a classifier do not compare: give models of one kind.")
        what = "Accuracy" if kinds == {True} else "1 - squared error / variance"
        return cls({name: one.score_history_ for name, one in models.items()}, what)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,) = axes
        self.lines_ = list[Any]()
        for (name, history), (colour, marker) in zip(self.histories.items(), LOOKS, strict=False):
            few = {"marker": marker, "markersize": 4} if len(history) <= 20 else {}
            look: dict[str, Any] = {"color": colour, "linewidth": 1.4, "label": name, **few, **kwargs}
            self.lines_ += ax.plot(history[:, 0], history[:, 1], **look)
        if len(self.histories) > 1:
            add_legend(ax)
        few_ticks(ax.xaxis, np.concatenate([history[:, 0] for history in self.histories.values()]), 6)
        ax.set_xlabel("Rows so far")
        ax.set_ylabel(self.what)
        ax.set_title("Each block of rows is predicted, then learned", loc="left")
