"""Learning from blocks of rows in turn: recursive least squares, and scores over time in bounded memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bochner.data.array_source import ArraySource, Block
from bochner.data.table import TableEncoder
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.design.reductions import factor_bytes, require_factor_memory
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import at_most
from bochner.estimators.incremental import FIRST_ROWS, FirstRows, FixedByFirstRows
from bochner.estimators.parameters import check_parameter
from bochner.features import FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.device_features import current_device
from bochner.features.leaves import seeded
from bochner.inputs.checks import checked_rows, threads_of
from bochner.inputs.estimator import BaseKernelEstimator
from bochner.inputs.training import (
    Given,
    Stream,
    column_units,
    draw,
    encoded_source,
    encoder_of,
    given,
    given_batch,
    rows_to_map,
)
from bochner.kernels import Kernel
from bochner.selection.budget import Budget
from bochner.selection.lengthscale import choose_kernel
from bochner.solvers.factors import PrimalFactor
from bochner.sources.rows import PartChecksum, joined, part_rows, rebatch
from bochner.sources.rows import Rows as Batch

MOST_ENTRIES = 512
BATCH_ROWS = 1 << 12  # of a stream


@dataclass
class RecursiveSums:
    """Decaying sums of products of the columns of [Z, Y, 1], as of `Moments`.

    Attributes
    ----------
    matrix : array of shape (D + K + 1, D + K + 1)
    n_outputs : int
        Columns K of Y.
    n_rows : int
        That have come, those forgotten included.
    """

    matrix: NDArray[np.float64]
    n_outputs: int
    n_rows: int = 0

    @classmethod
    def empty(cls, n_features: int, n_outputs: int) -> RecursiveSums:
        """Sums of no rows."""
        return cls(np.zeros((n_features + n_outputs + 1,) * 2), n_outputs)

    def workspace(self, rows: int) -> NDArray[np.float64]:
        """Return an empty array for a block, whose first columns are for the features."""
        return np.empty((rows, len(self.matrix)))

    def add(self, A: NDArray, y: NDArray, weight: NDArray, forgetting: float) -> None:
        """Forget a little of the rows so far, and add those of a block, the last of which is the newest.

        Parameters
        ----------
        A : array of shape (b, D + K + 1)
            Whose first columns hold Z; overwritten.
        y : array of shape (b, K)
        weight : array of shape (b,)
        forgetting : float
            Above 0, at most 1.
        """
        if forgetting < 1:
            np.multiply(self.matrix, forgetting ** len(y), out=self.matrix)
            weight = weight * forgetting ** np.arange(len(y) - 1, -1, -1.0)
        self._moments().add_block(A, y, weight)
        self.n_rows += len(y)

    def solve(self, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients, shape (D, K), and intercepts, shape (K,); zeros where all weight is forgotten."""
        if not self.matrix[-1, -1] > 0:
            return np.zeros((len(self.matrix) - self.n_outputs - 1, self.n_outputs)), np.zeros(self.n_outputs)
        return PrimalFactor(self._moments(), 1).solve(alpha)

    def _moments(self) -> Moments:
        """The sums as moments, which share their memory."""
        return Moments.holding(self.matrix, self.n_rows, self.n_outputs, np.float64)


class Labelled(NamedTuple):
    """Checked rows as they came: X, y, and weights or None."""

    X: Any
    y: NDArray
    weight: NDArray | None


class OnlineKernelMachine(FixedByFirstRows, BaseKernelEstimator):
    """Ridge regression on dense random features, one block of rows after the other."""

    _allowed: ClassVar = {
        "block_size": ("a positive integer",),
        "forgetting": ("above 0 and at most 1",),
        "half_life": ("a positive number", None),
    }
    _sums: RecursiveSums | None = None
    _history: History | None = None
    _pending: list[Block] = []  # noqa: RUF012 - replaced, never changed
    _solution: tuple[NDArray, NDArray] | None = None

    def __init__(
        self,
        kernel: Kernel | str = "auto",
        features: FeatureMap | str = "fourier",
        n_components: int = 500,
        alpha: float = 0.1,
        forgetting: float = 1.0,
        half_life: float | None = None,
        block_size: int = 256,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.n_components = n_components
        self.alpha = alpha
        self.forgetting = forgetting
        self.half_life = half_life
        self.block_size = block_size
        self.random_state = random_state

    @abstractmethod
    def _labelled(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> Labelled:
        """Rows whose columns are checked, with targets and weights that are; a classifier notes the classes first."""

    @abstractmethod
    def _fix_targets(self, y: NDArray, weight: NDArray | None) -> None:
        """Keep the scale of the targets, if they have one."""

    @abstractmethod
    def _targets(self) -> Any:
        """Callable that makes targets of shape (b, K) of y."""

    @abstractmethod
    def _losses(self, scores: NDArray, targets: NDArray, weight: NDArray) -> NDArray:
        """Losses, of shape (b,), of scores of rows not learned yet, both of shape (b, K)."""

    @property
    def feature_weights_(self) -> NDArray[np.float64]:
        """Coefficients of the features, shape (D, K), for all rows so far."""
        return self._solved()[0]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, shape (K,)."""
        return self._solved()[1]

    @property
    def n_rows_(self) -> int:
        """Number of rows that have been learned from."""
        self._solved()
        assert self._sums is not None
        return self._sums.n_rows

    @property
    def score_history_(self) -> NDArray[np.float64]:
        """Rows so far and the score of the latest ones before they were learned, shape (m, 2), m at most 512."""
        self._solved()
        assert self._history is not None
        return self._history.scores()

    @property
    def prequential_score_(self) -> float:
        """Score of all rows that were predicted before they were learned; NaN where there are none."""
        self._solved()
        assert self._history is not None
        return self._history.score()

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Forget everything, and learn from rows, or from the batches of a stream in their order."""
        self._begin()
        rows = given(X, y, sample_weight)
        self._learn_all(rows, None if rows.stream is None else self._classes_of(rows.stream))
        self._solved()
        return self

    def _classes_of(self, stream: Stream) -> NDArray | None:
        """All labels of a stream, of classifiers."""
        return None

    def _learn_all(self, rows: Given, classes: Any = None) -> None:
        """Learn from more rows, or from the batches of a stream in their order."""
        if rows.stream is None:
            self._learn(rows.X, rows.y, rows.weight, classes)
            return
        for batch in _batches(rows.stream):
            self._learn(batch.X, batch.y, batch.weight, classes)

    @single_threaded_blas()
    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
        """Learn from rows in memory."""
        is_fixed = self._sums is not None and self._first is None
        X = checked_rows(self, X, reset=self._sums is None, cautions=is_fixed)
        new = self._labelled(X, y, sample_weight, classes)
        if self._sums is None or self._first is not None:
            self._warm(new)
        if self._first is None:
            self._caution_ignored(new.X, new.weight, "prepare")
        source = encoded_source(self.encoder_, new.X, new.y, new.weight, np.float64, self._targets())
        start = 0
        while start < source.n_rows:
            waiting = sum(len(block.y) for block in self._pending)
            stop = min(start + max(self.block_size - waiting, 1), source.n_rows)
            self._pending = [*self._pending, *source.take(slice(start, stop)).blocks(self.block_size)]
            if waiting + stop - start >= self.block_size:
                self._fold()
            start = stop

    def _prepare(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Forget everything, and fix the scales for good by a sample of the rows."""
        self._begin()
        X, y, sample_weight = given_batch(X, y, sample_weight)
        self._fix(self._labelled(checked_rows(self, X, reset=True), y, sample_weight, classes))
        self._history = History(0, self.block_size)
        return self

    def _warm(self, new: Labelled) -> None:
        """Fix the scales by the first rows, and again whenever their number has doubled, until there are enough."""
        rows = FirstRows.after(self._first, *new)
        if rows.are_due:
            self._pending = []
            source = self._fix(rows)
            assert self._sums is not None
            for X, y, weight in source.take(slice(0, rows.n_rows - len(new.y))).blocks(self.block_size):
                self._sums.add(self._mapped(X), y, weight, self._forgetting)
            self._history = History(self._sums.n_rows, self.block_size)
        self._first = rows.settled()

    def _fix(self, rows: Labelled | FirstRows) -> ArraySource:
        """Choose the encoding of the columns, the kernel and the features, and begin to sum; return the rows encoded.

        Columns have unit variance where neither a map nor a kernel is given.
        """
        seed, statistic = self._seed(), TableEncoder().partial_fit(rows.X, sample_weight=rows.weight).statistic_
        encoder = encoder_of(statistic, isinstance(self.features, str) and isinstance(self.kernel, str))
        self._fix_targets(rows.y, rows.weight)
        source = encoded_source(encoder, rows.X, rows.y, rows.weight, np.float64, self._targets())
        features = self._features(source, encoder, seed)
        draw(features, encoder, source, seed)
        if not features.is_dense or features.learns_weights:
            raise ValueError(
                f"{type(features).__name__} cannot be learned online, which needs dense features of fixed weights: "
                "use FourierFeatures, LinearFeatures or a transformer of scikit-learn."
            )
        require_factor_memory(
            factor_bytes(source.n_rows, features.n_features_out, source.n_outputs, np.float64), features.n_features_out
        )
        self.encoder_, self.features_, self.kernel_ = encoder, features, getattr(features, "kernel", None)
        self._sums = RecursiveSums.empty(features.n_features_out, source.n_outputs)
        self._solution = None
        return source

    def _features(self, source: ArraySource, encoder: TableEncoder, seed: int) -> FeatureMap:
        """The map as it is given, or Fourier features of a kernel that is, or of one that suits the first rows."""
        if not isinstance(self.features, str):
            return seeded(self.features, seed)
        kernel = self.kernel
        if isinstance(kernel, str):
            units, alphas = column_units(encoder), np.array([float(self.alpha)])
            if self._forgetting < 1:  # rows of other times would blur the function
                source = source.take(slice(0, max(FIRST_ROWS, round(1 / (1 - self._forgetting)))))
            kernel = choose_kernel(source, kernel, units, alphas, seed, budget=Budget())
        return FourierFeatures(kernel, self.n_components, random_state=seed)

    def _mapped(self, X: Any) -> NDArray[np.float64]:
        """Features of encoded rows, in the first columns of a workspace."""
        assert self._sums is not None
        A, dense = self._sums.workspace(X.shape[0]), self.features_.dense
        assert dense is not None
        dense.rows(X, A)
        return A

    @single_threaded_blas()
    def _fold(self) -> None:
        """Predict the rows that wait, for the history, then learn from them."""
        pending, self._pending = self._pending, []
        if not pending or self._sums is None or self._history is None:
            return
        X, y, weight = joined(pending)
        A = self._mapped(X)
        if self._sums.n_rows:
            coef, intercept = self._solve()
            self._history.add(self._losses(A[:, : len(coef)] @ coef + intercept, y, weight), weight)
        else:
            self._history = History(len(y), self.block_size)
        self._sums.add(A, y, weight, self._forgetting)
        self._solution = None

    def _solved(self) -> tuple[NDArray, NDArray]:
        """The solution for all rows so far."""
        self._fold()
        if self._sums is None or not self._sums.n_rows:
            call = "fit" if self._sums is None else "partial_fit: it is prepared, and has no rows yet"
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call {call}.")
        return self._solve()

    @single_threaded_blas()
    def _solve(self) -> tuple[NDArray, NDArray]:
        """The solution for the rows that are summed."""
        assert self._sums is not None
        if self._solution is None:
            self._solution = self._sums.solve(self.alpha)
        return self._solution

    @single_threaded_blas()
    def _scores(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Fitted function at the rows of X, shape (n, K), on so many threads at most."""
        check_is_fitted(self)
        threads, (coef, intercept) = threads_of(n_jobs), self._solved()
        source = rows_to_map(self.encoder_, checked_rows(self, X, reset=False), np.float64)
        with at_most(threads):
            return Design(source, self.features_, np.float64, place=current_device()).predict(coef, intercept)

    @property
    def _forgetting(self) -> float:
        """Factor on the weights of earlier rows with each new one."""
        return self.forgetting if self.half_life is None else 0.5 ** (1 / self.half_life)

    def _begin(self) -> None:
        """Check the parameters and forget an earlier fit."""
        self._forget_fit()
        self._sums = self._history = self._solution = self._first = None
        self._pending, self._has_cautioned = [], False
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError where a parameter is out of range."""
        for name in ("kernel", "n_components", "random_state"):
            check_parameter(name, getattr(self, name))
        if self.features != "fourier" if isinstance(self.features, str) else not hasattr(self.features, "get_params"):
            raise ValueError(f"features must be 'fourier' or a map to dense features, got {self.features!r:.200}.")
        if isinstance(self.n_components, str) or not isinstance(self.alpha, Real) or isinstance(self.alpha, bool):
            raise ValueError("n_components and alpha must be numbers: they are needed before the data are known.")
        check_parameter("alpha", self.alpha)
        super()._check_parameters()
        if self.half_life is not None and self.forgetting != 1:
            raise ValueError("half_life and forgetting set the same thing: give only one of them.")

    def __getstate__(self) -> dict[str, Any]:
        """The state without rows that wait."""
        self._fold()
        return dict(super().__getstate__())

    def __sklearn_is_fitted__(self) -> bool:
        return self._sums is not None


@dataclass
class History:
    """Losses of consecutive rows, summed over spans that double where there are too many of them.

    Attributes
    ----------
    start : int
        Rows that had come before the first one here.
    span : int
        Rows of a full entry, at least.
    entries : array of shape (m, 3)
        Rows, their weight, and their weighted losses.
    """

    start: int
    span: int
    entries: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))

    def add(self, loss: NDArray, weight: NDArray) -> None:
        """Add rows, by their losses and weights, both of shape (b,)."""
        new = np.array([[len(loss), weight.sum(), weight @ loss]])
        if len(self.entries) and self.entries[-1, 0] < self.span:
            self.entries[-1] += new[0]
            return
        if len(self.entries) == MOST_ENTRIES:
            self.entries = self.entries.reshape(MOST_ENTRIES // 2, 2, 3).sum(axis=1)
            self.span *= 2
        self.entries = np.vstack([self.entries, new])

    def scores(self) -> NDArray[np.float64]:
        """Rows that had come at the end of each entry, and 1 less the mean loss of its rows, shape (m, 2)."""
        rows, weight, loss = self.entries.T
        counted = weight > 0
        return np.column_stack([self.start + np.cumsum(rows), 1 - loss / np.where(counted, weight, 1)])[counted]

    def score(self) -> float:
        """1 less the mean loss of all rows; NaN without any."""
        _, weight, loss = self.entries.sum(axis=0)
        return float(1 - loss / weight) if weight > 0 else float("nan")


def _batches(stream: Stream) -> Iterator[Batch]:
    """Rows of a stream in their order, in batches that do not depend on those in which they are read."""
    table = stream.table
    read = (rows for part in table.parts for rows in part_rows(part, table.schema, stream.roles, PartChecksum()))
    yield from rebatch(read, BATCH_ROWS)
