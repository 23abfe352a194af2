"""What the models of rows with few labels share: missing targets, the graph of all
rows, the fitted function.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.array_source import as_it_is
from bochner.data.columns import missing_targets, values_of
from bochner.engines.progress import progress
from bochner.estimators.machine import KernelMachine
from bochner.features.anchors import AnchorFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import seeded
from bochner.inputs.checks import require_target
from bochner.inputs.training import TrainingRows
from bochner.selection.report import Report
from bochner.semisupervised.mixture import (
    MACHINE,
    LeftOut,
    answers_of,
    batches,
    mixture_of,
)
from bochner.semisupervised.smoothers import (
    Graph,
    Poisson,
    Smooth,
    Smoother,
    SmoothRidge,
    Spreading,
)
from bochner.unsupervised.base import RowModel, precision_of

UNLABELLED = -1
TEXT_OF_MARKS = "", "-1", "-1.0", "nan", "None"
ROWS_A_LANDMARK, FEWEST_LANDMARKS, MOST_LANDMARKS = 2, 100, 8000
ALPHA, FLOW_ALPHA = 0.99, 0.999
# Of least squares on the smoothest functions
COUNTS, PENALTIES = (80, 40, 20), (0.1, 1.0, 10.0)


class SemiSupervised(RowModel):
    """Functions of rows that change little where these are dense, and follow the
    targets that are known.
    """

    learned = "feature_weights_"
    machine_: KernelMachine | None = None
    share_: float = 0.0
    _allowed: ClassVar = {
        "method": ("auto", "spreading", "ridge"),
        "alpha": ("a number between 0 and 1, both left out,", "auto"),
    }

    def __init__(
        self,
        features: FeatureMap | str = "auto",
        method: str = "auto",
        alpha: Any = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.method = method
        self.alpha = alpha
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def _fit_graph(
        self, X: Any, y: Any, sample_weight: Any, groups: Any = None
    ) -> tuple[Graph, TrainingRows, int]:
        """Find landmarks, and the graph of all rows; the rows and the seed go with
        it.
        """
        self._begin()
        seed = self._seed()
        dtype = precision_of(X)
        rows = self._open(X, sample_weight, seed, dtype, y=y, groups=groups)
        # Landmarks are found in a sample of the rows
        features = self.features
        if isinstance(features, str):
            if features != "auto":
                raise ValueError(
                    f"features must be 'auto' or AnchorFeatures, got {features!r}."
                )
            wanted = max(rows.n_rows // ROWS_A_LANDMARK, FEWEST_LANDMARKS)
            wanted = min(wanted, MOST_LANDMARKS)
            features = AnchorFeatures(wanted, "auto", random_state=seed)
        elif not isinstance(features, AnchorFeatures):
            raise TypeError(
                "features must be AnchorFeatures or 'auto', got "
                f"{type(features).__name__}."
            )
        self.features_ = rows.drawn(seeded(features, seed), seed)
        with progress("Reading the graph", rows.n_rows, self.verbose) as advance:
            design = rows.design(self.features_, dtype, advance=advance, fixed=True)
            graph = Graph(design, rows.group)
        self.n_labelled_ = len(graph.number)
        assert rows.rows is not None
        return graph, rows.rows, seed

    def _chosen(
        self,
        flows: bool,
        loss_of: Callable[[Smoother], tuple[float, Any]],
        told: bool = True,
    ) -> Any:
        """What comes of the way to a function of the least loss; the losses are kept.

        Parameters
        ----------
        flows : bool
            Whether "auto" may be Poisson learning, as with few targets of a class.
        loss_of : callable
            The loss of values left out by a way, infinite where it is not known, and
            what comes of the way.
        told : bool, default=True
            Whether there are enough targets to leave values out; "auto" is Poisson
            learning otherwise, where it may be.
        """
        given = None if isinstance(self.alpha, str) else float(self.alpha)
        flows = flows and self.method == "auto"
        method = "poisson" if flows and not told else self.method
        ways: list[Smoother] = []
        if flows or method == "poisson":
            ways.append(Poisson(given or FLOW_ALPHA))
        if method in ("auto", "spreading"):
            ways.append(Spreading(given or ALPHA))
        if method in ("auto", "ridge"):
            ways += [SmoothRidge(count, one) for count in COUNTS for one in PENALTIES]
        candidates = [(way, *loss_of(way)) for way in ways]
        self.method_scores_ = {
            str(way): loss for way, loss, _ in candidates if np.isfinite(loss)
        }
        way, _, best = min(candidates, key=lambda one: one[1])
        self.method_ = way.name
        return best

    def _mix(
        self,
        rows: TrainingRows,
        graph: Graph,
        out: Floats | None,
        losses: Callable[[Floats], Floats],
        seed: int,
        targets: Callable[[NDArray], NDArray] = as_it_is,
        alone: str = "",
    ) -> None:
        """Fit the machine of the labelled rows, and choose its share.

        Parameters
        ----------
        rows : TrainingRows
        graph : Graph
        out, losses, targets
            As of `LeftOut`.
        seed : int
        alone : str
            Why the graph is to be alone, if it is.
        """
        if isinstance(self.random_state, int | np.integer):
            # As in a fit of the machine to the labelled rows
            seed = int(self.random_state)
        if self.method != "auto":
            alone = f"method={self.method!r} is the graph alone"
        self.machine_ = None
        self.share_ = 0.0
        try:
            if alone:
                raise ValueError(alone)
            left_out = LeftOut(out, losses, targets)
            mixture = mixture_of(self, rows, graph, left_out, seed)
        except ValueError as error:
            self.report_ = Report(
                chosen=f"graph, {self.method_}",
                reason="alone",
                not_tried={MACHINE: str(error).rstrip(".")},
            )
            return
        self.machine_, self.share_, self.report_ = mixture

    def _mixed(self, answers: Floats, X: Any) -> Floats:
        """Answers by the graph, beside which those of the machine have their share."""
        if self.machine_ is None:
            return answers
        X = self._rows(X, reset=False, cautions=False)
        theirs = answers_of(self.machine_, X, getattr(self, "classes_", None))
        mixed = (1 - self.share_) * answers + self.share_ * theirs.reshape(
            answers.shape
        )
        return np.asarray(mixed)

    def _all_mixed(self, answers: Floats, rows: TrainingRows) -> Floats:
        """Answers by the graph for all rows of the fit, as of `_mixed`."""
        if self.machine_ is None:
            return answers
        first = 0
        mixed = []
        for batch in batches(rows, getattr(self, "feature_names_in_", None)):
            stop = first + batch.X.shape[0]
            mixed.append(self._mixed(answers[first:stop], batch.X))
            first = stop
        return np.concatenate(mixed)

    def without_background(self) -> Self:
        """Return a copy of the fitted model whose machine is without its training
        rows to compare with.
        """
        bare = copy(self)
        if self.machine_ is not None:
            bare.machine_ = self.machine_.without_background()
        return bare

    def _values(self, X: Any) -> Floats:
        """The function of some rows, shape (n, K)."""
        weights = self.feature_weights_
        return self._mapped(
            X, lambda rows: self.features_.dot(rows, weights), weights.dtype
        )


def of_all_rows(graph: Graph, smooth: Smooth) -> tuple[Floats, Floats | None]:
    """Coefficients of the features, shape (m, K), and the function of all rows of a
    graph, (n, K), its own part included; None where their features are not kept.
    """
    weights = (graph.root[:, np.newaxis] * smooth.v).astype(graph.dtype)
    if graph.features is None:
        return weights, None
    values = np.concatenate([np.asarray(Z @ weights) for Z in graph.features])
    values[graph.number] += smooth.own * (graph.given - smooth.origin)
    return weights, values


def labelled(y: NDArray) -> NDArray[np.bool_]:
    """Which labels there are: all but the number -1, None and NaN; shape (n,)."""
    is_missing = missing_targets(y)
    if y.dtype.kind in "iuf":
        return ~(is_missing | (y == UNLABELLED))
    if y.dtype != object:
        return ~is_missing
    is_mark = [
        isinstance(label, int | float | np.number) and label == UNLABELLED
        for label in y
    ]
    return ~(is_missing | np.array(is_mark, bool))


def with_inferred_dtype(labels: NDArray) -> NDArray:
    """Labels in the type of what they are, where they are objects."""
    if labels.dtype != object or not len(labels):
        return labels
    return np.asarray(labels.tolist())


@dataclass(frozen=True)
class Memberships:
    """Labels as columns of zeros and ones, one for each class; zeros alone where there
    is none.

    Attributes
    ----------
    classes : array of shape (K,)
        Ascending.
    """

    classes: NDArray

    def __call__(self, y: NDArray) -> Floats:
        """Memberships of some rows, shape (b, K)."""
        memberships = np.zeros((len(y), len(self.classes)))
        rows = np.flatnonzero(labelled(y))
        if len(rows):
            labels = with_inferred_dtype(y[rows])
            memberships[rows, np.searchsorted(self.classes, labels)] = 1.0
        return memberships


def measured(y: NDArray) -> Floats:
    """Numbers beside a column of ones, shape (b, K + 1); zeros alone where one of
    them is missing.
    """
    values = y.reshape(len(y), -1).astype(np.float64)
    is_complete = np.isfinite(values).all(axis=1, keepdims=True)
    return np.hstack([np.where(is_complete, values, 0.0), is_complete])


def checked_marks(y: Any, estimator: Any, mark: str) -> NDArray:
    """Targets as an array; ValueError where there are none at all."""
    if y is None:
        require_target(estimator, y)
    y = values_of(y)
    targets = np.asarray(y)
    if not hasattr(y, "dtype") and targets.dtype.kind in "US":
        # Of text beside marks that are none NumPy would make text
        targets = np.asarray(y, dtype=object)
    y = targets
    if y.dtype.kind not in "biufUSO":
        raise ValueError(
            f"Targets must be numbers, text or booleans, with {mark} in rows without "
            f"one, not {y.dtype}."
        )
    return y.astype(object) if y.dtype.kind == "S" else y
