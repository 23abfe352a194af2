"""Measures all that a report says of a model: scores, curves of refits, effects of columns, the error of the kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from narwhals.dependencies import is_into_series
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.data.columns import column_names
from bochner.data.table_input import checked_sparse, is_frame
from bochner.display.relevance_displays import MetricDisplay
from bochner.display.row_access import sample
from bochner.estimators.interpretation import relevance_in_distance
from bochner.explanations import Effects
from bochner.features.leaves import leaves, size_name
from bochner.loops.clock import CLOCK
from bochner.planning.plan import Plan
from bochner.scores import summaries
from bochner.scores.measures import Z
from bochner.theory import kernel_error
from bochner.theory.approximation import KernelError

MOST_ROWS, FEWEST_ROWS = 50_000, 20
COVERAGE = 0.9


@dataclass(frozen=True)
class Rows:
    """Rows and their targets.

    Attributes
    ----------
    X : array, sparse matrix or narwhals data frame of shape (n, d)
    y : array of shape (n,)
    names : tuple of d str
    numbers : array of shape (n,)
        Where the rows are among those that were given.
    n_given : int
    """

    X: Any
    y: NDArray
    names: tuple[str, ...]
    numbers: NDArray
    n_given: int

    @classmethod
    def of(cls, X: Any, y: Any, model: Any) -> Rows:
        """Rows as they are given, at most 50,000 of them; ValueError for targets that are no single column."""
        framed = is_frame(X)
        X = nw.from_native(X, eager_only=True) if framed else checked_sparse(X) if sp.issparse(X) else np.asarray(X)
        given = nw.from_native(y, series_only=True).to_numpy() if is_into_series(y) else np.asarray(y)
        if given.ndim == 2 and given.shape[1] == 1:
            given = given[:, 0]
        if given.ndim != 1 or len(given) != X.shape[0]:
            raise ValueError(
                f"A report is about one target of each row; y has shape {given.shape} and X {X.shape[0]:,} rows."
            )
        n = len(given)
        if n < FEWEST_ROWS:
            raise ValueError(f"A report needs {FEWEST_ROWS} rows or more to judge the model by, got {n}.")
        known = X.columns if framed else getattr(model, "feature_names_in_", None)
        whole = cls(X.tocsr() if sp.issparse(X) else X, given, tuple(column_names(known, X.shape[1])), np.arange(n), n)
        return whole.some(MOST_ROWS, 0)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def native(self) -> Any:
        """The rows as the model takes them."""
        return self.X.to_native() if isinstance(self.X, nw.DataFrame) else self.X

    def take(self, where: NDArray) -> Rows:
        """Rows by their positions."""
        return replace(self, X=self.X[where, :], y=self.y[where], numbers=self.numbers[where])

    def some(self, most: int, seed: int) -> Rows:
        """At most so many rows, drawn at random, in their order."""
        return self if len(self) <= most else self.take(sample(np.arange(len(self)), most, seed))

    def column(self, j: int) -> list[Any]:
        """Values of a column; None where one is missing."""
        if isinstance(self.X, nw.DataFrame):
            return [None if value != value else value for value in self.X[:, j].to_list()]
        values = self.X[:, [j]].toarray()[:, 0] if sp.issparse(self.X) else self.X[:, j]
        return list(values.tolist())


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows and what they are worth.

    Attributes
    ----------
    predicted : array of shape (n,)
        Numbers or labels.
    proba : array of shape (n, K), or None
    labels : array of shape (n,)
        Positions of the classes; empty of numbers.
    losses : array of shape (n,)
        Squared errors, or log losses in nats.
    seconds : float
        Of the predictions.
    """

    predicted: NDArray
    proba: NDArray | None
    labels: NDArray
    losses: NDArray
    seconds: float = 0.0


def predict(model: Any, rows: Rows) -> Predictions:
    """Predict, and compute the loss of each row.

    ValueError for several targets, for labels that the model does not know, and for targets that are not numbers.
    """
    start = CLOCK.seconds()
    if not is_classifier(model):
        y = _numbers(rows.y)
        predicted = np.asarray(model.predict(rows.native), np.float64)
        if predicted.ndim != 1:
            raise ValueError(f"A report is about one target, and the model has {predicted.shape[1]}.")
        return Predictions(predicted, None, np.empty(0, np.int64), (y - predicted) ** 2, CLOCK.seconds() - start)
    proba = np.asarray(model.predict_proba(rows.native), np.float64)
    seconds, labels = CLOCK.seconds() - start, _positions(rows.y, model.classes_)
    losses = -np.log(np.maximum(proba[np.arange(len(labels)), labels], np.finfo(float).eps))
    return Predictions(model.classes_[proba.argmax(axis=1)], proba, labels, losses, seconds)


def _positions(y: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Positions of labels among the classes, by value or as text."""
    known: dict[Any, int] = {}
    for k, label in enumerate(classes.tolist()):
        known[label] = known[str(label)] = k
    found = [known.get(label, known.get(str(label), -1)) for label in y.tolist()]
    if unknown := sorted({str(label) for label, k in zip(y.tolist(), found, strict=True) if k < 0}):
        raise ValueError(f"y has labels that the model does not know: {unknown[:5]}; leave these rows out.")
    return np.array(found)


def _numbers(y: NDArray) -> NDArray[np.float64]:
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y holds values that are not numbers ({error}), and the model predicts numbers.") from error
    if not np.isfinite(values).all():
        raise ValueError("y has values that are missing or infinite; leave these rows out.")
    return values


def scores(model: Any, rows: Rows, predictions: Predictions, baseline: Any) -> dict[str, Any]:
    """Scores with 95 % intervals beside those of a baseline.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    predictions : Predictions
    baseline : float, list of float, or None
        Mean, or shares of the classes, of the training rows; None where they are not known, for those of `rows`.
    """
    if predictions.proba is not None:
        shares = np.bincount(predictions.labels, minlength=predictions.proba.shape[1]) / len(predictions.labels)
        shares = shares if baseline is None else np.asarray(baseline)
        predicted = np.searchsorted(model.classes_, predictions.predicted)
        return summaries.classification(predictions.labels, predicted, predictions.proba, shares)
    y = _numbers(rows.y)
    found = summaries.regression(y, predictions.predicted, float(y.mean()) if baseline is None else float(baseline))
    if getattr(model, "spread_", None) is None:
        return found
    return found | summaries.intervals(y, model.predict_interval(rows.native, coverage=COVERAGE), COVERAGE)


HELD_OUT, LEARNED = 2000, 4000  # rows at most
MOST_DENSE, MOST_EXACT = 3000, 2000  # columns of dense features; rows of a kernel matrix
SHARES = (0.125, 0.25, 0.5, 1.0)
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0)
EFFECT_ROWS, EFFECT_POINTS, MOST_EFFECTS = 300, 16, 6
ERROR_ROWS, ERROR_PAIRS, MOST_WARPS = 2000, 1000, 8


@dataclass(frozen=True)
class Curve:
    """Losses of rows held out, against a size.

    Attributes
    ----------
    sizes : array of shape (s,)
    losses : array of shape (s, m)
        Of each row held out, by the model of each size.
    rooted : bool
        Whether the root of the mean loss is shown.
    base : int
        Position of the size that the model has itself, of which the next one is the double, or the last one.
    """

    sizes: NDArray
    losses: NDArray
    rooted: bool
    base: int

    @property
    def means(self) -> NDArray[np.float64]:
        """What is shown: the log loss, or the root of the mean squared error."""
        means = self.losses.mean(axis=1)
        return np.asarray(np.sqrt(means) if self.rooted else means, np.float64)

    @property
    def halves(self) -> NDArray[np.float64]:
        """Half the width of the 95 % intervals of what is shown, to first order."""
        errors = Z * self.losses.std(axis=1, ddof=1) / np.sqrt(self.losses.shape[1])
        return np.asarray(errors / (2 * np.maximum(self.means, 1e-300)) if self.rooted else errors, np.float64)

    @property
    def gain(self) -> tuple[float, float]:
        """How much less the loss is after the last doubling, by the same rows, and its standard error; in shares."""
        last = min(self.base + 1, len(self.sizes) - 1)
        fewer, more = self.losses[last - 1], self.losses[last]
        gains = (fewer - more) / fewer.mean() if fewer.mean() > 0 else np.zeros_like(fewer)
        return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def curves(model: Any, rows: Rows) -> tuple[Curve | None, Curve | None, str]:
    """Curves against rows and against features, on rows that none of the fits has seen; and what to know of them.

    What was chosen in the fit stays: metric, kernel, ridge penalty. Of many rows 6,000 are drawn, and dense maps of
    more than 3,000 features are made smaller, so that all fits together take seconds.
    """
    drawn = rows.some(HELD_OUT + LEARNED, 1)
    order = np.random.default_rng(2).permutation(len(drawn))
    m = min(len(drawn) // 4, HELD_OUT)
    held_out, most = drawn.take(np.sort(order[:m])), len(order) - m
    exact = model.solver_ == "exact"
    most = min(most, MOST_EXACT) if exact else most
    learned = drawn.take(order[m : m + most])
    width, dense = model.features_.n_features_out, model.features_.is_dense and not exact
    largest = MOST_DENSE / width if dense else 2.0
    factor = min(largest, 1.0)
    note = f"{most:,} of the given rows fit, and {m:,} judge."
    if factor < 1:
        note += f" For the curve against rows the map is made smaller, to {MOST_DENSE:,} of its {width:,} features."
    refits = _Refits(model, held_out)
    by_rows = refits.curve([round(share * most) for share in SHARES], lambda n: (factor, learned.take(np.arange(n))))
    sized = any(size_name(leaf.features) is not None for leaf in leaves(model.features_))
    factors = [one for one in FACTORS if one <= largest] if sized and not exact else []
    by_size = refits.curve(factors, lambda one: (one, learned)) if len(factors) > 1 else None
    return by_rows, by_size, note


@dataclass(frozen=True)
class _Refits:
    """The model, to be fitted again, and the rows held out to validate it."""

    model: Any
    held_out: Rows

    def curve(self, sizes: list[Any], case: Callable[[Any], tuple[float, Rows]]) -> Curve | None:
        """Losses of the model for each size; None where it cannot be fitted again to so few rows."""
        found: dict[int, NDArray] = {}
        base = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that bins have few rows is what the smallest sizes are to show
            try:
                for size in sizes:
                    factor, rows = case(size)
                    again = self.model.resized(factor).refit(rows.native, rows.y)
                    number = _size(again, size)
                    found[number] = predict(again, self.held_out).losses
                    base = number if size == 1 or isinstance(size, int) else base
            except (ValueError, MemoryError):
                return None
        own = list(found).index(base) if base else len(found) - 1
        return Curve(np.array(list(found)), np.array(list(found.values())), not is_classifier(self.model), own)


def _size(model: Any, size: Any) -> int:
    """Rows as they are; of a factor the grids, or the features where the map has none."""
    if isinstance(size, int):
        return size
    parts = [leaf.features for leaf in leaves(model.features_)]
    return sum(int(getattr(part, name)) for part in parts if (name := size_name(part)) is not None)


def effects(model: Any, rows: Rows, columns: list[int]) -> Effects | None:
    """Partial dependence on the first six of some columns that have two values or more; None without such.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    columns : list of int
    """
    asked = {"n_rows": EFFECT_ROWS, "n_curves": EFFECT_ROWS, "n_points": EFFECT_POINTS}
    found = model.effects(rows.native, columns[:MOST_EFFECTS], **asked)
    varying = tuple(one for one in found if len(one.values) > 1)
    return replace(found, columns=varying) if varying else None


@dataclass(frozen=True)
class Origin:
    """What is known of a model and its rows beside themselves.

    Attributes
    ----------
    target : str or None
        Name of the column that is predicted.
    baseline : float, list of float, or None
        Mean, or shares of the classes, of the training rows.
    held_out : dict or None
        Scores of rows held out when the model was fitted.
    rows_fitted : int or None
    numbers : array of int, or None
        Numbers of the rows in their table, where it is known.
    lines : tuple of str
        What makes the page again; empty for Python's lines.
    """

    target: str | None = None
    baseline: Any = None
    held_out: dict[str, Any] | None = None
    rows_fitted: int | None = None
    numbers: NDArray | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """What there is to say, by section; None where there is nothing.

    Attributes
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    origin : Origin
    predictions : Predictions
    scores : dict
        As by `bochner.scores.summaries`.
    relevance : array of shape (d,), or None
    warps : list of Warp
    by_rows, by_size : Curve or None
    curve_note : str
    effects : Effects or None
    error : KernelError or str
        Or why there is none.
    plan : Plan or None
        Of a fit on the given rows.
    """

    model: Any
    rows: Rows
    origin: Origin
    predictions: Predictions
    scores: dict[str, Any]
    relevance: NDArray | None
    by_rows: Curve | None
    by_size: Curve | None
    curve_note: str
    effects: Effects | None
    error: KernelError | str
    plan: Plan | None
    warps: list[Any] = field(default_factory=list)

    @property
    def columns(self) -> list[int]:
        """All columns, the most relevant first."""
        return _ordered(self.relevance, len(self.rows.names))


def find(model: Any, X: Any, y: Any, origin: Origin) -> Findings:
    """Measure everything, in seconds."""
    rows = Rows.of(X, y, model)
    predictions = predict(model, rows)
    if origin.baseline is None and predictions.proba is None and model.loss != "poisson":
        origin = replace(origin, baseline=float(model.target_mean_[0]))
    relevance = relevance_in_distance(model)
    warps = [] if model.metric_ is None else MetricDisplay.from_estimator(model, MOST_WARPS).warps
    by_rows, by_size, note = curves(model, rows)
    first = _ordered(relevance, len(rows.names))
    return Findings(
        model,
        rows,
        origin,
        predictions,
        scores(model, rows, predictions, origin.baseline),
        relevance,
        by_rows,
        by_size,
        note,
        effects(model, rows, first),
        _error(model, rows),
        _plan(model, X, y),
        list(warps),
    )


def _ordered(relevance: NDArray | None, n_columns: int) -> list[int]:
    return list(range(n_columns)) if relevance is None else np.argsort(-relevance, kind="stable").tolist()


def _error(model: Any, rows: Rows) -> KernelError | str:
    """Error of the kernel approximation on pairs of some rows, or why it is not known."""
    if model.solver_ == "exact":
        return "This model has no random features: it holds the kernel with all training rows."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return kernel_error(model, rows.some(ERROR_ROWS, 4).native, n_pairs=ERROR_PAIRS, random_state=0)
        except (ValueError, TypeError) as reason:
            return str(reason)


def _plan(model: Any, X: Any, y: Any) -> Plan | None:
    try:
        return model.plan(X, y)
    except (MemoryError, ValueError, TypeError):
        return None
