"""Fits in parts: the first rows, sums of moments over all rows, and validation rows
among them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.array_source import ArraySource
from bochner.data.hashes import uniform
from bochner.data.table import TableEncoder
from bochner.data.table_input import as_dense, is_frame
from bochner.data.table_statistic import TableStatistic, is_constant, part_offsets
from bochner.data.weights import NEGLIGIBLE, are_one, checked_weight, group_means
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.devices.device import Device
from bochner.estimators.ridge.direct import solve_directly
from bochner.estimators.ridge.ridge_problem import Needs, RidgeProblem, RidgeSolution
from bochner.features.base import FeatureMap
from bochner.notices import listed, warn
from bochner.sources.rows import concat, stacked

# That fix encodings, kernel and features for good, where the first batch has not more
FIRST_ROWS = 256
MOST = 4096
MIX_FIRST = "shuffle the rows, or call prepare with a sample of all rows first."
# Deviations of the first targets from their mean at which that of all rows is told of
FAR_MEAN = 2.0
PROBED = 8  # rows whose features distinguish maps


class SolvedAttribute:
    """A result that is solved for when it is read, after `partial_fit`.

    The instance then holds it as a plain attribute, as after `fit`, which comes before
    this one.
    """

    is_plain = True  # in the instance, so that files may hold it
    # The method of models that completes it, and what to say where it does not
    completes = "_solve_if_needed"
    missing = "{!r} object has no attribute {!r}"

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        getattr(model, self.completes)()
        if self.name in vars(model):
            return vars(model)[self.name]
        raise AttributeError(self.missing.format(type(model).__name__, self.name))


def solved() -> Any:
    """Declare a result that is solved for when it is read."""
    return SolvedAttribute()


def check_half_life(half_life: Any) -> None:
    """Raise ValueError where this is neither None nor a positive number."""
    is_number = isinstance(half_life, Real) and not isinstance(half_life, bool)
    if half_life is not None and not (is_number and half_life > 0):
        raise ValueError(
            "half_life must be a positive number of rows, or None to forget "
            f"nothing, got {half_life!r}."
        )


def decay_of(n_rows: int, half_life: float | None) -> Floats:
    """What is left of the weight of each row of a batch, all of that of the last
    one.
    """
    if half_life is None:
        return np.ones(n_rows)
    # Of ages over the tiniest half-lives nothing is left
    with np.errstate(over="ignore"):
        return np.exp2(-np.arange(n_rows - 1, -1, -1.0) / float(half_life))


def left_after(n_rows: int, half_life: float | None) -> float:
    """What is left of the weight of a row after `n_rows` further ones."""
    return float(decay_of(n_rows + 1, half_life)[0])


def decayed(weight: Floats | None, decay: Floats, X: Any) -> Floats | None:
    """Weights of rows times what is left of them by their age.

    Raises
    ------
    ValueError
        Where hardly anything is left of the rows that have weight.
    """
    if are_one(decay):
        return weight
    remaining_weight = decay if weight is None else weight * decay
    if weight is not None and remaining_weight.max() <= NEGLIGIBLE * weight.max():
        raise ValueError(
            "The last rows of the batch have no weight, and half_life forgets all "
            "before them: give a longer half_life."
        )
    return checked_weight(remaining_weight, X)


class FirstRows(NamedTuple):
    """Rows so far, while they are too few.

    Attributes
    ----------
    X : array, CSR matrix or data frame of n rows
    y : array of n rows
    weight : array of shape (n,) or None
    n_fixed : int
        Rows by which the encodings were fixed last.
    decay : array of shape (n,)
        What is left of the weight of each row by its age.
    """

    X: Any
    y: Any
    weight: Any
    n_fixed: int
    decay: Floats

    @classmethod
    def after(
        cls,
        before: tuple | None,
        X: Any,
        y: Any,
        weight: Any,
        half_life: float | None = None,
    ) -> FirstRows:
        """Other rows after those that were kept, where there are some, whose weight
        is halved in `half_life` rows; ValueError for frames and arrays.
        """
        n_rows = X.shape[0]
        decay = decay_of(n_rows, half_life)
        if before is None:
            return cls(X, y, weight, 0, decay)
        first = cls(*before)
        if first.weight is not None or weight is not None:
            given = (first.n_rows, first.weight), (n_rows, weight)
            weight = np.concatenate(
                [np.ones(n) if one is None else np.asarray(one) for n, one in given]
            )
        return cls(
            stacked([first.X, X]),
            np.concatenate([np.asarray(first.y), np.asarray(y)]),
            weight,
            first.n_fixed,
            np.concatenate([left_after(n_rows, half_life) * first.decay, decay]),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def are_due(self) -> bool:
        """Whether they fix the encodings again: their number has doubled."""
        return self.n_rows >= 2 * self.n_fixed

    def settled(self) -> tuple | None:
        """The first rows after they have fixed the encodings, as a plain tuple for a
        file; None where that was for good.
        """
        if self.n_rows >= FIRST_ROWS:
            return None
        n_fixed = self.n_rows if self.are_due else self.n_fixed
        return tuple(self._replace(n_fixed=n_fixed))


class FixedByFirstRows:
    """A model whose encoder is fixed by its first rows, and ignores the columns
    which did not vary in them.
    """

    encoder_: TableEncoder
    # Rows so far, while they are too few to fix the encodings for good
    _first: tuple | None = None
    _has_cautioned: bool = False

    def _state_of_file(self) -> dict[str, Any]:
        """The state; without first rows that are no arrays, which a file cannot
        hold, and with a warning.
        """
        state: Any = self.__getstate__()
        if self._first is None:
            return state
        rows = FirstRows(*self._first)
        if isinstance(rows.X, np.ndarray):
            return state | {"_first": tuple(rows._replace(y=np.asarray(rows.y)))}
        warn(
            f"The first {rows.n_fixed} rows fix the scales and the kernel of the "
            "loaded model for good, for the file holds no rows of frames and sparse "
            f"matrices: save it after {FIRST_ROWS} rows, or prepare it."
        )
        return state | {"_first": None}

    def _caution_ignored(self, X: Any, weight: NDArray | None, method: str) -> None:
        """Warn once where ignored columns vary in later rows; `method` is that by
        which a sample shows it before.
        """
        if self._has_cautioned:
            return
        # The columns that the encoder ignores and that vary with these rows
        encoder = self.encoder_
        before = encoder.statistic_
        low = before.summary.low
        high = before.summary.high
        is_single = is_constant(low, high) & encoder.with_std
        is_empty = before.missing == before.rows
        rows = nw.from_native(X, eager_only=True) if is_frame(X) else X
        kinds = before.expected()
        names = []
        for j, ends in enumerate(pairwise(part_offsets(before.kinds).tolist())):
            part = slice(*ends)
            if not (is_empty[j] or (ends[0] < ends[1] and is_single[part].all())):
                continue
            column = nw.to_native(rows[:, [j]], pass_through=True)
            now = TableStatistic.of(column, weight, kinds=[kinds[j]])
            varies = now.missing[0] < now.rows
            if not is_empty[j]:
                least = np.minimum(low[part], now.summary.low)
                greatest = np.maximum(high[part], now.summary.high)
                varies = not is_constant(least, greatest).all()
            if varies:
                names.append(before.name(j))
        if not names:
            return
        self._has_cautioned = True
        noun, have, are = (
            ("Column", "has", "is") if len(names) == 1 else ("Columns", "have", "are")
        )
        warn(
            f"{noun} {listed(names)} had no two different values in the rows that "
            f"fixed the encoding, and {are} ignored, but {have} others now: call "
            f"{method} with a sample of all rows first."
        )

    def _caution_missing(self, classes: NDArray) -> None:
        """Warn of classes that the first rows lack, once these fix all but the
        coefficients for good.
        """
        if self._first is None and len(classes):
            warn(
                "The first rows, by which all but the coefficients is chosen, have "
                f"none of {listed(map(str, classes))}: {MIX_FIRST}"
            )

    def _caution_moved(self, sums: PartialFitState) -> None:
        """Warn once where the mean of all targets, standardised by the first rows,
        has moved far from theirs, once these fix all else for good.
        """
        if self._has_cautioned or self._first is not None:
            return
        if np.abs(sums.mean_targets).max() > FAR_MEAN:
            self._has_cautioned = True
            warn(
                "The mean of the targets has moved by more than two deviations of the "
                "first ones, by whose rows all but the coefficients is chosen: "
                f"{MIX_FIRST}"
            )


@dataclass
class ValidationSample:
    """The distinct rows whose content has the smallest hashes, with their weight and
    mean target.

    A row that is among them at last has been so from its first copy on, so that sums
    over its copies are complete ("k minimum values": Beyer, Haas, Reinwald, Sismanis
    and Gemulla, 2007).

    Attributes
    ----------
    X : array of shape (m, d), or data, indices, row starts and shape of a CSR matrix
        Encoded.
    y : array of shape (m, K)
    weight : array of shape (m,)
    place : array of shape (m,)
        Hashes as numbers from 0 to 1, ascending.
    """

    X: Any
    y: Floats
    weight: Floats
    place: Floats

    @classmethod
    def of(cls, source: ArraySource, seed: int) -> ValidationSample:
        """Those among the rows of a source."""
        counted = source.counted()
        place = uniform(counted.row_hashes(), seed)
        if len(place) > MOST:
            smallest = place <= np.partition(place, MOST - 1)[MOST - 1]
            counted = counted.take(np.flatnonzero(smallest))
            place = place[smallest]
        return _least(*counted.whole(), place)

    def __add__(self, other: ValidationSample) -> ValidationSample:
        return _least(
            concat([self.rows, other.rows]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weight, other.weight]),
            np.concatenate([self.place, other.place]),
        )

    @property
    def rows(self) -> Any:
        """Encoded rows, an array or a CSR matrix."""
        if isinstance(self.X, tuple):
            return sp.csr_array(self.X[:3], shape=tuple(self.X[3]))
        return self.X

    @property
    def source(self) -> ArraySource:
        """The rows as a source."""
        return ArraySource(self.rows, self.y, self.weight)


def _least(X: Any, y: NDArray, weight: NDArray, place: NDArray) -> ValidationSample:
    """The rows of the smallest places, equal ones as one."""
    place, first, group = np.unique(place, return_index=True, return_inverse=True)
    total, mean = group_means(group, y, weight)
    X = X[first[:MOST]]
    if sp.issparse(X):
        X = X.data, X.indices, X.indptr, X.shape
    else:
        X = np.ascontiguousarray(X)
    return ValidationSample(X, mean[:MOST], total[:MOST], place[:MOST])


@dataclass
class PartialFitState:
    """Sums over rows; those of two sets of rows add up, where all that was chosen
    before is the same.

    Attributes
    ----------
    matrix : array of shape (D + K + 1, D + K + 1)
        Of the moments.
    n_rows : int
        Rows that are summed.
    single : bool
        Whether features are in single precision.
    validation : ValidationSample
        Some of the rows, or before there are any some of those on which all was chosen.
    alpha : float, list of float or str
        As it was given.
    alpha_per_weight : float or None
        The ridge penalty for a unit of weight, where it was chosen before.
    error_scale : bool
        Whether the spread of the errors is wanted.
    out_of_sample : bool
        Whether predictions for the validation rows are wanted.
    seed : int
    digest : str
        Of all that was chosen before.
    """

    matrix: Floats
    n_rows: int
    single: bool
    validation: ValidationSample
    alpha: Any
    alpha_per_weight: float | None
    error_scale: bool
    out_of_sample: bool
    seed: int
    digest: str

    @classmethod
    def empty(
        cls, design: Design, problem: RidgeProblem, choice: Any
    ) -> PartialFitState:
        """Sums over no rows, for the map, targets and problem of a design, and the
        choice of the model; some of its rows validate at first.
        """
        source = design.source
        single = design.dtype == np.float32
        validation = ValidationSample.of(problem.validating(source), problem.seed)
        facts = (
            problem.alpha if problem.alphas is None else problem.alphas.tolist(),
            choice.model.alpha_per_weight if problem.penalty_selected else None,
            problem.needs.error_scale,
            problem.needs.out_of_sample,
        )
        # Hash of the facts, of how the map sees some rows, and of their targets
        n_features = design.features.n_features_out
        probe = validation.rows[:PROBED]
        told = (n_features, probe.shape, *facts, single)
        digest = blake2b(repr(told).encode(), digest_size=16)
        unit = np.random.default_rng(0).standard_normal((n_features, 1))
        values = design.features.dot(probe, unit.astype(probe.dtype))
        for array in (as_dense(probe), values, validation.y[:PROBED]):
            digest.update(np.ascontiguousarray(array).tobytes())
        size = n_features + source.n_outputs + 1
        matrix = np.zeros((size, size))
        return cls(
            matrix, 0, single, validation, *facts, problem.seed, digest.hexdigest()
        )

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features."""
        return np.dtype(np.float32 if self.single else np.float64)

    @property
    def mean_targets(self) -> Floats:
        """Of the rows that are summed, shape (K,)."""
        D = len(self.matrix) - 1 - self.validation.y.shape[1]
        return self.matrix[-1, D:-1] / self.matrix[-1, -1]

    def plus(self, design: Design, remaining_share: float = 1.0) -> PartialFitState:
        """The sums, of which a share is left, with the rows of a design."""
        moments = design.moments()
        validation = self.validation
        if isinstance(design.source, ArraySource):
            if remaining_share != 1:
                # The rows of whose weight a share is left, but for those of which
                # nothing is
                weight = validation.weight * remaining_share
                rows = weight > 0
                validation = _least(
                    validation.rows[rows],
                    validation.y[rows],
                    weight[rows],
                    validation.place[rows],
                )
            new = ValidationSample.of(design.source, self.seed)
            is_begun = self.n_rows and len(validation.place)
            validation = validation + new if is_begun else new
        matrix = self.matrix * remaining_share
        matrix += moments.matrix
        n_rows = self.n_rows + moments.n_rows
        return replace(self, matrix=matrix, n_rows=n_rows, validation=validation)

    def __add__(self, other: PartialFitState) -> PartialFitState:
        """Sums over the rows of both; ValueError where these are not of one map,
        encoding and target scale.
        """
        if self.digest != other.digest:
            raise ValueError(
                "The models cannot be merged: their encoders, maps, targets, ridge "
                "penalties or seeds differ. Prepare one model, and give each worker a "
                "copy, made with bochner.save and bochner.load."
            )
        validation = self.validation
        if self.n_rows and other.n_rows:
            validation = validation + other.validation
        elif other.n_rows:
            validation = other.validation
        matrix = self.matrix + other.matrix
        n_rows = self.n_rows + other.n_rows
        return replace(self, matrix=matrix, n_rows=n_rows, validation=validation)

    def solve(
        self, features: FeatureMap, place: Device | None = None, evaluated: int = 0
    ) -> RidgeSolution:
        """Solve for the rows that are summed, on a device where one is given; as
        many of them are to be left out.
        """
        moments = Moments.holding(
            self.matrix, self.n_rows, self.validation.y.shape[1], self.dtype
        )
        alpha = self.alpha
        if self.alpha_per_weight is not None:
            alpha = [self.alpha_per_weight * moments.weight]
        needs = Needs(self.out_of_sample, self.error_scale, self.error_scale, evaluated)
        design = Design(self.validation.source, features, self.dtype, place=place)
        problem = RidgeProblem(alpha, 0.0, self.seed, needs=needs)
        solution = solve_directly(design, problem, moments, overwrite=False)
        return replace(solution, weight=moments.weight)
