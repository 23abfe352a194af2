"""Draws how well online models have predicted rows before they learned them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.display.canvas import LOOKS, SINGLE, add_legend, few_ticks, finish, one_panel

MOST_LINES = len(LOOKS)


class DriftDisplay:
    """Scores over time of rows that were predicted before they were learned: where the world changes, they fall.

    `from_estimator` takes them from one online model, or from several to compare, such as with and without forgetting;
    `plot` draws.

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

    def __init__(self, histories: Mapping[str, ArrayLike], what: str = "Score") -> None:
        self.histories = {str(name): np.asarray(history, np.float64) for name, history in histories.items()}
        self.what = what
        if not 0 < len(self.histories) <= MOST_LINES:
            raise ValueError(f"There must be from 1 to {MOST_LINES} histories, got {len(self.histories)}.")
        for name, history in self.histories.items():
            if history.ndim != 2 or history.shape[1] != 2 or not len(history):
                raise ValueError(
                    f"The history {name!r} must be of shape (m, 2), got {history.shape}: a model has scores from its "
                    "second block of rows on."
                )

    @classmethod
    def from_estimator(cls, model: Any) -> DriftDisplay:
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

    def plot(self, ax: Any = None, **kwargs: Any) -> DriftDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None makes a figure.
        **kwargs
            Of all lines, as `Axes.plot` takes them.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = one_panel(ax, SINGLE)
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_: list[Any] = []
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
        finish([ax])
        return self
