"""Draws how errors fall with rows and features (Figure 3 of the paper), and how
models are chosen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing as take

from bochner.display import canvas
from bochner.display.base import Array, Block, Display, Look, Values, fitted_attribute
from bochner.display.canvas import BLUE, DOTTED, GREY, VERMILION


class LearningDisplay(Display):
    """Test error against training rows, against the size of the map, and training time:
    Figure 3 of Rahimi and Recht.

    Would more rows help, or more features? A curve that still falls at its right end
    says so. Lines are means over independent draws of rows and features, bands their
    ranges. `from_estimator` fits, and `plot` draws.

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
    >>> model = KernelMachineClassifier(
    ...     Gaussian(25.0), n_components=200, alpha=0.1, random_state=0
    ... )
    >>> test = X[1200:], y[1200:]
    >>> display = LearningDisplay.from_estimator(
    ...     model,
    ...     X[:1200],
    ...     y[:1200],
    ...     test=test,
    ...     rows=(300, 1200),
    ...     sizes=(20, 200),
    ...     seeds=(0, 1),
    ... ).plot()
    >>> (
    ...     len(display.axes_),
    ...     bool(display.row_errors[1].mean() < display.row_errors[0].mean()),
    ... )
    (3, True)
    >>> display.figure_.savefig("learning.png")
    """

    rows: Values = ()
    row_errors: Array = ()
    sizes: Values = ()
    size_errors: Array = ()
    seconds: Array = ()
    error: str = "Test error"
    unit: str = "features"

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
        """Fit clones of a model to nested parts of the rows, and with maps of several
        sizes.

        Parameters
        ----------
        model : KernelMachineRegressor or KernelMachineClassifier
            Not fitted.
        X : array or data frame of shape (n, d)
        y : array of shape (n,)
        test : (rows, targets)
            To measure the errors on.
        rows : sequence of int, optional
            Numbers of training rows, the first ones of a random order; with the model's
            own `n_components`.
        sizes : sequence of int, optional
            Values of `n_components`, for all rows.
        seeds : sequence of int, default=(0, 1, 2)
            One draw for each: the order of the rows, and the `random_state` of the
            model.

        Returns
        -------
        LearningDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Without `rows` and `sizes`, and for more rows than there are.
        """
        targets = np.asarray(y)
        n = len(targets)
        is_class = is_classifier(model)
        if not (len(seeds) and (len(rows) or len(sizes))) or max(rows, default=0) > n:
            raise ValueError(
                f"There must be seeds, and rows up to {n} or sizes: {seeds!r}, "
                f"{rows!r}, {sizes!r}."
            )
        S = len(rows)
        parts = [*map(int, rows), *[n] * len(sizes)]
        errors, seconds = np.empty((2, len(parts), len(seeds)))
        for j, seed in enumerate(seeds):
            order = np.random.default_rng(seed).permutation(n)
            for i, part in enumerate(parts):
                machine = clone(model).set_params(random_state=seed)
                if i >= S:
                    machine.set_params(n_components=int(sizes[i - S]))
                training_rows = take(X, order[:part])
                start = time.perf_counter()
                machine.fit(training_rows, targets[order[:part]])
                seconds[i, j] = time.perf_counter() - start
                # Share of wrong labels, or the root of 1 - R2: RMSE over deviation
                missed = 1 - machine.score(*test)
                errors[i, j] = missed if is_class else np.sqrt(missed)
        error = "Error rate" if is_class else "RMSE / deviation"
        unit = "grids" if getattr(model, "features", None) == "binning" else "features"
        return cls(rows, errors[:S], sizes, errors[S:], seconds[S:], error, unit)

    @property
    def _curves(self) -> list[tuple[NDArray, NDArray, str, str, str]]:
        """Numbers across and values up, the labels of both, and a colour, for each
        panel.
        """
        across = f"Number of {self.unit}"
        curves = [
            (self.rows, self.row_errors, "Training rows", self.error, BLUE),
            (self.sizes, self.size_errors, across, self.error, BLUE),
            (self.sizes, self.seconds, across, "Training time [s]", VERMILION),
        ]
        return [curve for curve in curves if len(curve[0])]

    def _blocks(self) -> list[Block]:
        n = len(self._curves)
        if not n:
            raise ValueError("There is nothing to draw: give rows or sizes.")
        return [Block(2.8, n, 1.9)]

    def _draw(self, kwargs: Look) -> None:
        self.lines_ = []
        self.bands_ = []
        for ax, curve in zip(self.axes_, self._curves, strict=True):
            x, values, across, up, colour = curve
            ax.set_xscale("log")
            ends = values.min(axis=1), values.max(axis=1)
            self.bands_.append(canvas.draw_band(ax, x, ends, colour))
            look = {"color": colour, **DOTTED, **kwargs}
            self.lines_ += ax.plot(x, values.mean(axis=1), **look)
            ax.set(xlabel=across, ylabel=up, ylim=(0, None))
        self.ax_.set_title(canvas.of_draws(self._curves[0][1]))


UNITS = {
    "squared error": "standardised squared error",
    "log loss": "log loss [nats]",
    "one-vs-rest log loss": "one-vs-rest log loss [nats]",
}


class SizeDisplay(Display):
    """The search for the scale of the metric, and the candidates for a model, by their
    loss on validation rows.

    There are two panels, each left out if there is nothing to show. One has the loss
    against the scale of the metric, one line for each name, with a star at its minimum.
    The other has the candidates at their final sizes, the best on top, with the
    standard errors of their losses, the chosen one in colour. `from_estimator`
    and `from_report` collect, and `plot` draws.

    Keywords of `plot` are those of the lines of the sizes, as `Axes.plot` takes them.

    Parameters
    ----------
    sizes : sequence of (str, float, float)
        Name, logarithm to base 2 of the scale, loss.
    candidates : sequence of bochner.selection.Candidate
    chosen : str
        Name of the chosen candidate.
    criterion : str
        The loss.
    rows_held_out : int

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        In the order sizes, candidates; those that there are.
    lines_ : list of Line2D
        Of the sizes.
    minima_ : list of Line2D
        The stars.
    errorbars_ : list of ErrorbarContainer
        Of the candidates, by their loss.

    Examples
    --------
    >>> from bochner.display import SizeDisplay
    >>> from bochner.selection import Candidate, Report
    >>> tried = [("bins", -1.0, 0.31), ("bins", 0.0, 0.26), ("bins", 1.0, 0.28)]
    >>> candidates = [
    ...     Candidate("bins", 800, 0.25, 0.01, 1.5),
    ...     Candidate("Fourier features", 2000, 0.3, 0.01, 0.4),
    ... ]
    >>> report = Report(
    ...     "squared error", 500, candidates, "bins", "lowest validation loss", tried
    ... )
    >>> display = SizeDisplay.from_report(report).plot()
    >>> display.minima_[0].get_xdata().tolist()
    [0.0]
    >>> display.figure_.savefig("sizes.png")
    """

    sizes: Sequence[tuple[str, float, float]] = ()
    candidates: Sequence[Any] = ()
    chosen: str = ""
    criterion: str = "loss"
    rows_held_out: int = 0

    @classmethod
    def from_report(cls, report: Any) -> Self:
        """Collect what is to be drawn of a report.

        Parameters
        ----------
        report : bochner.selection.Report

        Returns
        -------
        SizeDisplay
            Nothing is drawn yet.
        """
        names = ("sizes", "candidates", "chosen", "criterion", "rows_held_out")
        return cls(**{name: getattr(report, name) for name in names})

    @classmethod
    def from_estimator(cls, model: Any) -> Self:
        """Collect what is to be drawn of the report of a fitted model.

        Parameters
        ----------
        model : KernelMachineRegressor or KernelMachineClassifier

        Returns
        -------
        SizeDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the model is not fitted, or has no report: with a kernel of its own,
            or on too few rows.
        """
        return cls.from_report(fitted_attribute(model, "report_"))

    def _blocks(self) -> list[Block]:
        # Inches: what is above and below the candidates, and each of them
        candidates = 1.4 + 0.6 * len(self.candidates)
        n = bool(self.sizes) + bool(self.candidates)
        if not n:
            raise ValueError(
                "There is nothing to draw: neither sizes nor candidates were tried."
            )
        return [Block(max(candidates, 3.2 if self.sizes else 0.0), n, 5.0)]

    def _draw(self, kwargs: Look) -> None:
        loss = f"Mean {UNITS.get(self.criterion, self.criterion)}"
        self.lines_: list[Any] = []
        self.minima_: list[Any] = []
        self.errorbars_: list[Any] = []
        if self.sizes:
            curves: dict[str, list[tuple[float, float]]] = {}
            for name, size, value in self.sizes:
                curves.setdefault(name, []).append((size, value))
            for k, (name, curve) in enumerate(curves.items()):
                colour, marker = canvas.look(k)
                tried = np.array(sorted(curve))
                best = tried[[np.argmin(np.nan_to_num(tried[:, 1], nan=np.inf))]]
                look: Look = {"marker": marker, "markersize": 4.5, "color": colour}
                look["label"] = canvas.shortened(name)
                self.lines_ += self.ax_.plot(*tried.T, **look | kwargs)
                look = {"color": colour, "markersize": 14, "markeredgecolor": "white"}
                self.minima_ += self.ax_.plot(*best.T, "*", **look)
            self.ax_.locator_params(axis="x", integer=True, min_n_ticks=1)
            title = "Scales tried, the best starred"
            self.ax_.set(xlabel="Scale of the metric (log2)", ylabel=loss, title=title)
            canvas.add_legend(self.ax_, self.lines_)
        if not self.candidates:
            return
        ax = self.axes_[-1]
        ranked = sorted(self.candidates, key=lambda one: one.loss)
        labels = []
        for i, one in enumerate(ranked):
            is_chosen = one.name == self.chosen
            look = {"fmt": "o", "markersize": 7, "capsize": 3}
            look["color"] = BLUE if is_chosen else GREY
            look["markerfacecolor"] = BLUE if is_chosen else "white"
            self.errorbars_.append(
                ax.errorbar(one.loss, i, xerr=one.standard_error, **look)
            )
            time = f"{one.seconds:.1f} s" if one.seconds >= 0.05 else "< 0.1 s"
            # Parts of a name stand below each other
            name = one.name.replace(", ", ",\n")
            labels.append(f"{name}\nsize {one.size:,}, {time}")
        ax.set_yticks(np.arange(len(ranked)), labels)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", alpha=0.3)
        title = "Candidates"
        if self.rows_held_out:
            title += f" on {self.rows_held_out:,} validation rows"
        ends = (len(ranked) - 0.5, -0.5)
        ax.set(xlabel=f"{loss} ± s.e.", title=title, ylim=ends)
