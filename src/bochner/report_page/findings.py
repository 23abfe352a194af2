"""Collects all that a page says of a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.display.metric import MetricDisplay
from bochner.features.leaves import leaves
from bochner.planning.plan import Plan
from bochner.report_page.curves import Curve, curves
from bochner.report_page.dependence import Dependence, dependences
from bochner.report_page.judged import Judged, judge, scores
from bochner.report_page.rows import Rows
from bochner.theory import kernel_error
from bochner.theory.errors import KernelError
from bochner.theory.exact import estimated_kernel

ERROR_ROWS, ERROR_PAIRS, MOST_WARPS = 2000, 1000, 8


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
    judged : Judged
    scores : dict
        As by `bochner.scores.summaries`.
    relevance : array of shape (d,), or None
    warps : list of Warp
    by_rows, by_size : Curve or None
    curve_note : str
    dependences : list of Dependence
    error : KernelError or str
        Or why there is none.
    plan : Plan or None
        Of a fit on the given rows.
    """

    model: Any
    rows: Rows
    origin: Origin
    judged: Judged
    scores: dict[str, Any]
    relevance: NDArray | None
    by_rows: Curve | None
    by_size: Curve | None
    curve_note: str
    dependences: list[Dependence]
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
    judged = judge(model, rows)
    if origin.baseline is None and judged.proba is None and model.loss != "poisson":
        origin = replace(origin, baseline=float(model.target_mean_[0]))
    relevance = getattr(model, "feature_importances_", None)
    warps = [] if model.metric_ is None else MetricDisplay.from_estimator(model, MOST_WARPS).warps
    by_rows, by_size, note = curves(model, rows)
    first = _ordered(relevance, len(rows.names))
    return Findings(
        model,
        rows,
        origin,
        judged,
        scores(model, rows, judged, origin.baseline),
        relevance,
        by_rows,
        by_size,
        note,
        dependences(model, rows, first, judged.proba),
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
            some = rows.some(ERROR_ROWS, 4).native
            if all(getattr(leaf.features, "column_share", 1.0) == 1 for leaf in leaves(model.features_)):
                return kernel_error(model, some, n_pairs=ERROR_PAIRS, random_state=0)
            encoded = model.encoder_.encode(some, dtype=np.float64)
            return kernel_error(model.features_, encoded, _expected(model), n_pairs=ERROR_PAIRS, random_state=0)
        except (ValueError, TypeError) as reason:
            return str(reason)


def _expected(model: Any) -> Callable[[NDArray, NDArray], NDArray]:
    """The kernel that the features estimate, where some of its grids split only a share of the columns."""
    parts = [(leaf, estimated_kernel(leaf.features)) for leaf in leaves(model.features_)]
    return lambda A, B: np.sum([leaf.weight * own(leaf.rows(A), leaf.rows(B)) for leaf, own in parts], axis=0)


def _plan(model: Any, X: Any, y: Any) -> Plan | None:
    try:
        return model.plan(X, y)
    except (MemoryError, ValueError, TypeError):
        return None
