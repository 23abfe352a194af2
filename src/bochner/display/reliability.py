"""Draws how often what was predicted with a probability came true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.base import Array, Axes, Display, Panels, SubplotSpec
from bochner.display.canvas import GREY, LOOKS, add_legend, draw_band, percent_ticks, shortened
from bochner.scores import Reliability, judged_event, reliability

SIZE, HEIGHTS = (5.0, 5.2), (4, 1)  # inches; ratio of the panels
MOST_CLASSES, NAME_WIDTH, CELLS = len(LOOKS), 24, 50


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Frequency of an event against its predicted probability, in bins of about equal counts of rows.

    Right probabilities lie on the diagonal. Bands are Wilson's 95 % intervals of the frequencies; the title has the
    expected calibration error, the mean distance from the diagonal; below, how often which probability was predicted.
    `from_estimator` and `from_predictions` collect, and `plot` draws.

    Keywords of `plot` are those of all lines, as `Axes.plot` takes them.

    Parameters
    ----------
    curves : dict of str to bochner.scores.Reliability
        By name.
    counts : dict of str to array of shape (C,)
        Rows by their probability, in C cells of equal width from 0 to 1.
    event : str
        Whose probability it is.
    n_classes : int, optional
        Where only some classes are drawn.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
        The diagram, and the histogram.
    lines_ : list of Line2D
    bands_ : list of PolyCollection
    diagonal_ : Line2D
    histograms_ : list of StepPatch

    See Also
    --------
    bochner.scores.expected_calibration_error : The number in the title.
    CoverageDisplay : The same for intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bochner import KernelMachineClassifier
    >>> from bochner.display import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KernelMachineClassifier(random_state=0).fit(X[:400], y[:400])
    >>> display = ReliabilityDisplay.from_estimator(model, X[400:], y[400:], n_bins=5).plot()
    >>> len(display.lines_)
    1
    >>> display.figure_.savefig("reliability.png")
    """

    curves: Mapping[str, Reliability]
    counts: Mapping[str, Array]
    event: str = "event"
    n_classes: int | None = None

    def __post_init__(self) -> None:
        self.curves = dict(self.curves)
        self.counts = {name: np.asarray(own, np.float64) for name, own in self.counts.items()}

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, each: bool = False, n_bins: int = 15, sample_weight: Any = None
    ) -> Self:
        """Predict probabilities, and count.

        Parameters
        ----------
        model : fitted classifier with `predict_proba` and `classes_`
            Any of scikit-learn's kind.
        X : rows of shape (n, d)
            That the model has not seen.
        y : array of shape (n,)
            Labels.
        each, n_bins, sample_weight
            As of `from_predictions`.

        Returns
        -------
        ReliabilityDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model that has no probabilities, and as `from_predictions`.
        """
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"{type(model).__name__} has no probabilities: give a classifier with predict_proba.")
        proba, classes = model.predict_proba(X), model.classes_
        return cls.from_predictions(y, proba, classes=classes, each=each, n_bins=n_bins, sample_weight=sample_weight)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        each: bool = False,
        n_bins: int = 15,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Count what came of predicted probabilities.

        Parameters
        ----------
        y : array of shape (n,)
            Labels; for `proba` of one column whether the event happened.
        proba : array of shape (n,) or (n, K)
        classes : array of shape (K,), optional
            Labels of the columns of `proba`; by default those of y, sorted.
        each : bool, default=False
            Each class against the rest, of more than 7 the most frequent ones. Otherwise of two classes the second, of
            more whether the class of the largest probability is right.
        n_bins : int, default=15
        sample_weight : array of shape (n,), optional

        Returns
        -------
        ReliabilityDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For shapes that do not fit, labels that are not among the classes, and probabilities beyond 0 and 1.
        """
        p, truth = np.asarray(proba, np.float64), np.asarray(y)
        if p.ndim == 1:
            return cls._collected({"event": (truth, p)}, "the event", n_bins, sample_weight)
        labels = np.unique(truth) if classes is None else np.asarray(classes)
        if p.ndim != 2 or p.shape != (len(truth), len(labels)):
            raise ValueError(f"proba of shape {p.shape} does not fit {len(truth)} rows and {len(labels)} classes.")
        position = {label: k for k, label in enumerate(labels.tolist())}
        if unknown := set(truth.tolist()) - set(position):
            raise ValueError(f"y has labels that are none of the classes: {sorted(map(str, unknown))[:5]}.")
        at = np.array([position[label] for label in truth.tolist()])
        if not each:
            event = f"class {labels[1]}" if len(labels) == 2 else "the predicted class"
            return cls._collected({event: judged_event(at, p)}, event, n_bins, sample_weight)
        frequent = np.argsort(-np.bincount(at, minlength=len(labels)), kind="stable")[:MOST_CLASSES]
        events = {str(labels[k]): (at == k, p[:, k]) for k in np.sort(frequent)}
        display = cls._collected(events, "the class", n_bins, sample_weight)
        return cls(display.curves, display.counts, display.event, len(labels))

    @classmethod
    def _collected(
        cls, events: Mapping[str, tuple[NDArray, NDArray]], event: str, n_bins: int, sample_weight: Any
    ) -> Self:
        curves = {name: reliability(*own, n_bins, sample_weight) for name, own in events.items()}
        counts = {name: np.histogram(p, CELLS, (0, 1), weights=sample_weight)[0] for name, (_, p) in events.items()}
        return cls(curves, counts, event)

    def _panels(self) -> Panels:
        def build(figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
            grid = place.subgridspec(2, 1, height_ratios=HEIGHTS, **({"hspace": 0.1} if spaced else {}))
            top = figure.add_subplot(grid[0])
            return [top, figure.add_subplot(grid[1], sharex=top)]

        return Panels(2, SIZE, build)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        low, high = _span(list(self.curves.values()))
        (self.diagonal_,) = axes[0].plot([low, high], [low, high], "--", color=GREY, linewidth=1)
        self.lines_, self.bands_, self.histograms_ = list[Any](), list[Any](), list[Any]()
        for (name, curve), look in zip(self.curves.items(), cycle(LOOKS), strict=False):
            self._draw_curve(axes, name, curve, *look, kwargs)
        for panel in axes:
            panel.set_xlim(low, high)
        axes[0].set_ylim(low, high)
        self._label(axes)

    def _draw_curve(
        self, axes: list[Axes], name: str, curve: Reliability, colour: str, marker: str, kwargs: dict[str, Any]
    ) -> None:
        ends = curve.interval
        label = f"{shortened(name, NAME_WIDTH)}: {_percent(curve.error)}"
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "clip_on": False, "label": label}
        self.lines_ += axes[0].plot(curve.probability, curve.frequency, **(look | kwargs))
        if len(ends) > 1:
            band: Any = draw_band(axes[0], curve.probability, ends.T, colour)
        else:
            band = axes[0].vlines(curve.probability, *ends.T, color=colour, alpha=0.4, linewidth=4)
        self.bands_.append(band)
        own = self.counts[name]
        steps: dict[str, Any] = {"color": colour, "fill": len(self.curves) == 1, "linewidth": 1.2}
        if len(self.curves) == 1:
            steps["alpha"] = 0.35
        self.histograms_.append(axes[1].stairs(own / own.sum(), np.linspace(0, 1, len(own) + 1), **steps))

    def _label(self, axes: list[Axes]) -> None:
        top, below = axes
        top.set_ylabel("Frequency")
        top.tick_params(labelbottom=False)
        below.set_xlabel(f"Predicted probability of {shortened(self.event, NAME_WIDTH)}")
        below.set_ylabel("Rows")
        percent_ticks(below.yaxis)
        below.set_ylim(bottom=0)
        below.locator_params(axis="y", nbins=3)
        curves = list(self.curves.values())
        bins = f"{len(curves[0].weight)} bins of equal counts" if len(curves[0].weight) > 1 else "one bin"
        if len(curves) == 1:
            title = f"Calibration error {_percent(curves[0].error)} ({bins})"
        else:
            some = f"{len(curves)} most frequent of {self.n_classes}" if (self.n_classes or 0) > len(curves) else "Each"
            title = f"{some} classes against the rest" if some != "Each" else "Each class against the rest"
            add_legend(top, self.lines_, "Calibration error")
        top.set_title(title, loc="left")


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.1 else f"{100 * share:.0f}%"


def _span(curves: list[Reliability]) -> tuple[float, float]:
    """Ends of both axes: tenths, or hundredths where all is rare or sure, around all probabilities and bands."""
    values = np.concatenate([np.append(curve.probability, curve.interval) for curve in curves])
    step = 0.1 if np.ptp(values) > 0.15 else 0.02
    low, high = np.floor(values.min() / step) * step, np.ceil(values.max() / step) * step
    return max(float(low), 0.0), min(float(high), 1.0) if high > low else float(low + step)
