"""Fits of rows that are read in passes, or come in batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from bochner.data.array_source import Source
from bochner.data.checkpoint import Checkpoint
from bochner.design.design import Design
from bochner.devices.conversion import any_arrays
from bochner.engines.progress import progress
from bochner.estimators.base import KernelMachine, Prepared, hashed_columns
from bochner.estimators.incremental import FirstRows, IgnoresColumns, Sums, check_checkpoint, kept, kept_by_file
from bochner.estimators.ridge import Iterations, RidgeProblem, RidgeSolution, solve
from bochner.features.binning import hashed, require_hashed
from bochner.features.device_features import current_device, device_for_fit
from bochner.features.leaves import is_dense
from bochner.features.transformer import as_map
from bochner.inputs.training import Stream, encoded_source, encoder_of, engine_of, large, sampled_rows
from bochner.notices import warn
from bochner.planning.plan import Plan, Rows, described, plan_fit, refuse_limit
from bochner.selection.budget import Budget
from bochner.selection.choose import Choice
from bochner.selection.policy import POLICY
from bochner.settings import current
from bochner.sources.base import Batch
from bochner.sources.scan import TableSummary, scan
from bochner.sources.stream import StreamSource

Targets = Callable[[NDArray], NDArray]
FIRST_ROWS = 20_000  # that tell the means of features, and precondition their equations, of a fit where all is chosen
SOLVED = (
    *("coef_", "intercept_", "alpha_", "alphas_", "alpha_scores_", "n_iter_", "residual_", "spread_"),
    *("loss_", "loss_reason_", "link_", "curve_", "set_thresholds_", "n_steps_"),
)


class StreamedMachine(IgnoresColumns, KernelMachine):
    """A kernel machine whose rows may be read from files in passes, or come in batches."""

    _sums: Sums | None = None
    _first: tuple[Any, Any, Any, int] | None = None  # rows so far, while they are too few to fix the encodings for good

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model."""

    @abstractmethod
    def prepare(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fix everything but the coefficients."""

    @abstractmethod
    def refit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Solve for other rows."""

    @abstractmethod
    def _targets_of(self, overview: TableSummary) -> Targets:
        """Keep the classes, or the scale of the targets, of all rows; how targets are made of them."""

    def _weighed(self, stream: Stream, overview: TableSummary) -> tuple[Stream, Batch, float]:
        """The rows with the weights that parameters give them, their sample, and the sum of the weights."""
        return stream, overview.sample, overview.weight

    @abstractmethod
    def _keep_solution(self, fitted: RidgeSolution, choice: Choice | None) -> None:
        """Keep a solution by the squared loss."""

    @any_arrays
    def plan(self, X: Any, y: Any = None) -> Plan:
        """Estimate what `fit` would read, hold and compute, without fitting.

        Only the names of columns and the numbers of rows are read; where a file does not store them, they are estimated
        from its size. Parameters that are selected from the data ("auto") are planned as their usual values for so many
        rows and columns.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or whatever `bochner.open_source` takes
        y : array of shape (n,) or (n, K), or str or list of str, optional
            Targets; for a source the names of their columns.

        Returns
        -------
        Plan
            With `passes`, `block_rows`, `sample_rows`, `peak_bytes` in bytes, `flops`, `seconds`, `solver`, `gathered`,
            `reason` and `cures`. It prints as a small table.

        Raises
        ------
        MemoryError
            If no way to fit needs so little memory as is free, or as ``bochner.settings(memory_limit=...)`` allows. The
            message names what would fit.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> plan = KernelMachineRegressor(features="fourier", n_components=500).plan(np.zeros((10_000, 20)))
        >>> plan.solver, plan.gathered, plan.n_passes
        ('direct', True, 1)
        """
        return self.plan_rows(described(X, y, is_classifier(self)))

    def plan_rows(self, rows: Rows) -> Plan:
        """Plan a fit of a table that is described."""
        return plan_fit(self, rows)

    def _fit_stream(self, stream: Stream) -> Self:
        """Look at all rows once, choose on a sample of them, and solve for all in passes."""
        if self._needs_all is not None and stream.is_small:
            return self.fit(*stream.gather())
        self._refuse("rows that are read in passes")
        engine = engine_of(stream)
        check_checkpoint(engine)
        overview = self._look(stream)
        if stream.table.sample is None and overview.n_rows == overview.sample.X.shape[0]:
            return self.fit(*overview.sample)
        rows, source = self._seen(stream, overview, "streamed")
        choice = self._choose(rows)
        design, task = self._plan(rows, choice)
        keep = self._keep_of(stream)
        with self._progress(rows) as advance:
            passes = design.telling(advance).of(source).by(engine)
            ahead = self.solver_ == "cg" or passes.has_one_sum  # else each thread reads for itself
            passes = passes.of(replace(source, ahead=ahead))
            if self.solver_ == "direct":
                sums = self._summed(design, task, choice)
                with keep(sums.digest) as keeper:
                    fitted = sums.plus(passes, keeper).solve(design.features, design.place)
            else:
                fitted = solve("cg", passes, task, sample=rows.source, keep=keep)
        self._keep_solution(fitted, choice)
        return self

    def _keep_of(self, stream: Stream) -> Callable[[str], AbstractContextManager[Checkpoint | None]]:
        """What keeps the work on a stream, by the settings."""
        return partial(kept, {"data": stream.table.fingerprint(), "parameters": repr(self.get_params(deep=False))})

    def _refit_stream(self, stream: Stream, targets: Targets) -> Self:
        """Solve for the rows of a stream with all that was chosen; bins have the columns that they had."""
        whole = self.solver_ == "exact" or getattr(self, "loss_", self.loss) != "squared"
        if whole and stream.is_small:
            return self.refit(*stream.gather())
        if whole:
            raise ValueError(
                "This fit needed all rows in memory, and so does refit: give rows in memory, or fit again."
            )
        engine = engine_of(stream)
        check_checkpoint(engine)
        dtype, seed = self.coef_.dtype, self._seed()
        first = stream.table.sample or FIRST_ROWS
        overview = scan(replace(stream.table, sample=first), stream.roles, is_classifier(self), seed, first)
        stream, (X, y, weight), _ = self._weighed(stream, overview)
        sample = encoded_source(self.encoder_, X, y, weight, dtype, targets).encoded(dtype)
        encode = partial(self.encoder_.encode, dtype=dtype)
        source = StreamSource.of(stream.table, stream.roles, overview, encode, sample, targets)
        stopping = None if self.n_iter_ is None else Iterations(self.n_iter_)
        task = RidgeProblem(self.alpha_, self.tol, seed, stopping=stopping)
        with progress("Fitting", stream.table.n_rows, bool(self.verbose)) as advance:
            device = device_for_fit(self.features_, self.solver_, "squared", dtype)
            design = Design(source, self.features_, dtype, advance, fixed=True, place=device, engine=engine)
            fitted = solve(self.solver_, design, task, start=self.coef_, keep=self._keep_of(stream))
        self._keep(fitted)
        self.coef_ = fitted.coef
        return self

    def _look(self, stream: Stream) -> TableSummary:
        """Look at all rows once."""
        size = stream.table.sample or sampled_rows(stream.n_columns, current().memory_limit)
        with progress("Reading statistics of the rows", stream.table.n_rows, bool(self.verbose)) as advance:
            return scan(stream.table, stream.roles, is_classifier(self), self._seed(), size, advance, engine_of(stream))

    def _seen(self, stream: Stream, overview: TableSummary, way: str) -> tuple[Prepared, StreamSource]:
        """A sample of the rows, from which all is learned, and all of them in passes."""
        seed, budget = self._seed(), Budget(self.time_limit)
        stream, (X, y, weight), total = self._weighed(stream, overview)
        validate_data(self, X, reset=True, skip_check_array=True)
        self.encoder_ = encoder_of(overview.table, self._is_named)
        n_rows = overview.n_rows or stream.table.expected or POLICY.gathered_rows  # many, if nobody knows
        targets, dtype = self._targets_of(overview), self._dtype(n_rows, None)
        sample = encoded_source(self.encoder_, X, y, weight, dtype, targets)
        total *= n_rows / overview.n_seen
        rows = Prepared(sample, dtype, seed, budget, n_rows, total, way)
        encode, held = partial(self.encoder_.encode, dtype=dtype), sample.encoded(dtype)
        return rows, StreamSource.of(stream.table, stream.roles, overview, encode, held, targets, total)

    @property
    def _needs_all(self) -> str | None:
        """A parameter that asks for what needs all rows in memory; None where there is none."""
        asked = {
            f"loss={self.loss!r}": self.loss not in ("auto", "squared"),
            "solver='exact'": self.solver == "exact",
            "uncertainty with standard deviations ('intervals' does not)": self._wants("std"),
            "alpha='loo'": isinstance(self.alpha, str) and self.alpha == "loo",
        }
        return next((what for what, wanted in asked.items() if wanted), None)

    @property
    def _may_stream(self) -> bool:
        """Whether many rows in memory may be read in passes, as if they were not."""
        return self._needs_all is None

    def _large(self, X: Any, y: NDArray, weight: NDArray | None) -> Stream | None:
        """Checked rows as a stream, where they are more than a sample; MemoryError where not even these fit."""
        stream = large(X, y, weight) if self._may_stream else None
        if stream is None or X.shape[0] > sampled_rows(stream.n_columns, current().memory_limit):
            return stream
        if current().memory_limit is not None:
            refuse_limit(self, described(X, y, is_classifier(self)))
        return None

    def _refuse(self, rows: str) -> None:
        """Raise ValueError where parameters ask for what needs all rows in memory."""
        if (what := self._needs_all) is not None:
            raise ValueError(
                f"{what} needs all rows in memory, and these are {rows}: leave it out, or use at most "
                f"{POLICY.gathered_rows:,} rows, without sample=, and a memory_limit that holds them."
            )

    def _refuse_unsummed(self) -> None:
        """Raise ValueError where the parameters do not allow partial fits."""
        maps = self.features if isinstance(self.features, str) else as_map(self.features)
        for name, value in (("solver", self.solver), ("features", maps)):
            if isinstance(value, str) and value in ("cg", "exact", "hybrid"):
                raise ValueError(f"partial_fit sums moments of features, which {name}={value!r} does not support.")
        if not (isinstance(maps, str) or is_dense(maps)):
            require_hashed(maps, POLICY.hashed_columns)

    def _can_sum(self) -> bool:
        """Whether the parameters allow partial fits; AttributeError, which says why, where they do not."""
        try:
            self._refuse_unsummed()
        except ValueError as error:
            raise AttributeError(str(error)) from error
        return True

    def _prepare_sums(self, rows: Prepared) -> None:
        """Choose everything on some rows, and begin to sum others."""
        self._refuse_unsummed()
        choice = self._choose(rows)
        if choice is not None and not is_dense(choice.model.features):
            features = hashed(choice.model.features, hashed_columns(rows.n_rows))
            choice = Choice(replace(choice.model, features=features, alpha=None, is_open=True), choice.verdict)
        design, task = self._plan(rows, choice)
        if self.solver_ != "direct":
            raise ValueError(f"Partial fits need the Gram matrix: {self.solver_reason_}.")
        self.features_, self._sums = design.features, self._summed(design, task, choice)

    def _with_first(self, X: Any, y: Any, weight: Any, **options: Any) -> tuple[Any, Any, Any]:
        """Rows to add: these, or all so far where the encodings have been fixed again, by them."""
        if self._sums is not None and self._first is None:
            return X, y, weight
        X = self._rows(X, reset=self._first is None)
        rows = FirstRows.after(self._first, X, y, weight)
        if rows.are_due:
            self.prepare(rows.X, rows.y, rows.weight, **options)
            X, y, weight = rows[:3]
        self._first = rows.settled()
        return X, y, weight

    def _state_of_file(self) -> dict[str, Any]:
        """The state, without first rows that a file cannot hold."""
        state = dict(super().__getstate__())
        return state if self._first is None else state | {"_first": kept_by_file(self._first)}

    def _summed(self, design: Design, task: RidgeProblem, choice: Choice | None) -> Sums:
        """Sums over no rows yet; the rows of the design judge."""
        per_weight = None
        if task.penalty_selected and choice is not None:
            per_weight = choice.model.alpha_per_weight
        return Sums.empty(design, task, per_weight)

    def _add(self, source: Source) -> Self:
        """Add the rows of a source; what was solved before is forgotten."""
        assert self._sums is not None
        self._sums = self._sums.plus(Design(source, self.features_, self._sums.dtype, place=current_device()))
        self._forget()
        return self

    def _forget(self) -> None:
        for name in [name for name in SOLVED if name in vars(self)]:
            delattr(self, name)

    def _started(self) -> None:
        """Warn where a fit has kept no sums that others could be added to."""
        if self._sums is None and "coef_" in vars(self):
            warn(
                "partial_fit starts again, because fit keeps no sums to add rows to. To fit in parts, call prepare "
                "with a sample of the rows, then partial_fit with all of them."
            )

    def __getattr__(self, name: str) -> Any:
        """Solve for the rows so far where a result is asked for."""
        if name in SOLVED and vars(self).get("_sums") is not None and "coef_" not in vars(self):
            self._solve_sums()
            if name in vars(self):
                return vars(self)[name]
        return object.__getattribute__(self, name)  # which says what is missing

    def _solve_sums(self) -> None:
        assert self._sums is not None
        if not self._sums.n_rows:
            raise NotFittedError(f"This {type(self).__name__} is prepared, and has no rows yet: call partial_fit.")
        self._keep_solution(self._sums.solve(self.features_, current_device()), None)

    def __sklearn_is_fitted__(self) -> bool:
        return "coef_" in vars(self) or self._sums is not None

    def _begin(self) -> None:
        super()._begin()
        self._sums = self._first = None
        self._has_cautioned = False

    def __add__(self, other: Any) -> Self:
        """The model of the rows of both; see `bochner.merge`."""
        if type(other) is not type(self):
            return NotImplemented
        if self._sums is None or other._sums is None:
            raise ValueError("Only models that prepare and partial_fit have made can be merged.")
        merged = copy(self)
        merged._sums, merged._first = self._sums + other._sums, None
        merged._forget()
        return merged

    def _without_sums(self) -> Self:
        """A copy, solved for, that takes no more rows."""
        if self._sums is not None and "coef_" not in vars(self):
            self._solve_sums()
        return copy(self).finalize()

    def finalize(self) -> Self:
        """Solve for the rows so far and drop the sums, so that the model is smaller but accepts no more rows.

        Returns
        -------
        self
        """
        if self._sums is not None:
            if "coef_" not in vars(self):
                self._solve_sums()
            self._sums = self._first = None
        return self


def merge(models: Any) -> Any:
    """Merge models that were fitted in parts into one model of all their rows.

    Parameters
    ----------
    models : sequence of KernelMachineRegressor or KernelMachineClassifier
        Copies of one prepared model (see `prepare`), each after `partial_fit` on its own rows.

    Returns
    -------
    A new model; its coefficients are computed at first use.

    Raises
    ------
    ValueError
        If there is no model, or the models are not copies of one.

    Examples
    --------
    >>> import numpy as np
    >>> from copy import deepcopy
    >>> from bochner import KernelMachineRegressor, merge
    >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
    >>> y = np.sin(4 * X[:, 0]) + X[:, 1]
    >>> first = KernelMachineRegressor(random_state=0).prepare(X[:1000], y[:1000])
    >>> parts = [deepcopy(first).partial_fit(X[rows], y[rows]) for rows in (slice(0, 2000), slice(2000, 3000))]
    >>> bool(merge(parts).score(X, y) > 0.99)
    True
    """
    models = list(models)
    if not models:
        raise ValueError("There is no model to merge.")
    total = models[0]
    for model in models[1:]:
        total = total + model
    return total if len(models) > 1 else copy(total)
