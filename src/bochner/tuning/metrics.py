"""Metrics learned from rows: one scale a column, monotone warps, a linear map."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_X_y

from bochner.data.sources import ArraySource
from bochner.engines.algebra import gram, product
from bochner.engines.blas import single_threaded_blas
from bochner.features.metric import Metric
from bochner.tuning.basis import Basis
from bochner.tuning.learning import Blocks, Schedule, learn_map, learn_scales

LEARNED_ROWS, LEARNED_ENTRIES = 100_000, 30_000_000
MANY_ROWS, MOST_ROWS, SOME_ROWS = 200_000, 100_000, 2_000
MAP_STEPS = 300
PAIRS = 8192
PRINCIPAL, SMALLEST_VARIANCE = 50, 1e-9
KERNELS = ("laplacian", "gaussian")
FEWEST_ROWS, MOST_CLASSES = 20, 100
Advance = Callable[[int], object]


class Learned(NamedTuple):
    """A metric and what is known beside it.

    Attributes
    ----------
    metric : Metric
    sizes : array of shape (Q,)
        Logarithms of the factors on the coordinates that suit each kind of blocks.
    n_mixed : int
        The first coordinates, which a linear map may mix.
    """

    metric: Metric
    sizes: NDArray
    n_mixed: int


def schedule(n_rows: int, n_columns: int) -> Schedule:
    """How long to learn from rows out of `n_rows`: more steps for more columns, on nearer rows where there are many."""
    if n_rows > MANY_ROWS:
        return Schedule(120, 512, ("wide", "near"))
    if n_rows >= MOST_ROWS:
        return Schedule(300, 512, ("wide", "near"))
    if n_rows >= SOME_ROWS:
        return Schedule(450, 512)
    return Schedule(225, 256)


class Sample(NamedTuple):
    """Rows to learn from, dense and each of them once, their standardised targets, and weights."""

    X: NDArray
    y: NDArray
    weight: NDArray


def learning_sample(source: ArraySource, seed: int, width: int) -> Sample:
    """Draw rows to learn from.

    Parameters
    ----------
    source : ArraySource
        Encoded on the way out.
    seed : int
    width : int
        Columns of the basis, which with the rows make at most 30 million numbers.
    """
    most = max(min(LEARNED_ROWS, LEARNED_ENTRIES // max(width, 1)), 1000)
    X, y, weight = source.sample(most, np.random.default_rng(seed)).distinct().whole()
    X = X.toarray() if hasattr(X, "toarray") else X
    mean = weight @ y / weight.sum()
    deviation = np.sqrt(weight @ np.square(y - mean) / weight.sum())
    return Sample(X, (y - mean) / np.where(deviation > 0, deviation, 1.0), weight)


def learn_diagonal(
    kernel: str, sample: Sample, column_groups: NDArray, plan: Schedule, seed: int, parts: str, advance: Advance = id
) -> Learned:
    """Learn one scale a column of the basis.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian"}
    sample : Sample
    column_groups : int array of shape (d,)
    plan : Schedule
    seed : int
    parts : {"both", "rank", "value"}
        What numeric columns become.
    """
    basis = Basis(sample.X, column_groups, parts, np.random.default_rng(seed))
    if not basis.points.shape[1]:
        raise ValueError("All columns are constant, which leaves no distance to learn: give a column that varies.")
    blocks = Blocks(basis.points, sample.y, plan, seed, sample.weight)
    log_scales, sizes = learn_scales(kernel, blocks, basis.start, basis.column_groups, advance)
    metric = basis.coordinates(kernel, log_scales)
    mixable = kernel == "laplacian" or parts == "value"
    return Learned(with_relevance(metric, sample.X, seed), sizes, len(basis.numeric) if mixable else 0)


def learn_full(kernel: str, sample: Sample, base: Learned, plan: Schedule, seed: int, advance: Advance = id) -> Learned:
    """Learn a linear map on top of a metric, of the coordinates of numeric columns."""
    metric = base.metric
    U = metric.coordinates(sample.X)
    U = np.ascontiguousarray(U - U.mean(axis=0, dtype=np.float64), dtype=np.float32)
    blocks = Blocks(U, sample.y, Schedule(MAP_STEPS, plan.block, plan.kinds), seed, sample.weight)
    linear = learn_map(kernel, blocks, base.n_mixed, base.sizes, advance)
    return Learned(with_relevance(metric.mixed(linear), sample.X, seed), base.sizes, base.n_mixed)


def learn_principal(sample: Sample, units: NDArray, plan: Schedule, seed: int) -> Learned:
    """Learn a scale for each of the first 50 principal components, for the Gaussian kernel; for images and the like.

    The components of variance v are first scaled by v^(-1/4), half way to equal variances.

    Parameters
    ----------
    units : array of shape (d,)
        Factors on the columns.
    """
    X = sample.X.astype(np.float64) * units
    X -= X.mean(axis=0)
    values, vectors = np.linalg.eigh(gram(X, np.empty((X.shape[1], X.shape[1]))) / len(X))
    kept = np.flatnonzero(values > values[-1] * SMALLEST_VARIANCE)[::-1][:PRINCIPAL]
    linear = vectors[:, kept].T * (values[kept] ** -0.25)[:, np.newaxis]
    U = product(X, linear.T).astype(np.float32)
    start = np.full(len(kept), -0.5 * np.log(np.sqrt(values[kept]).sum()))
    log_scales, sizes = learn_scales("gaussian", Blocks(U, sample.y, plan, seed), start, np.arange(len(kept)))
    columns = np.arange(X.shape[1])
    metric = Metric(X.shape[1], columns, units, linear=linear * np.exp(log_scales)[:, np.newaxis])
    return Learned(with_relevance(metric, sample.X, seed), sizes, 0)


def with_relevance(metric: Metric, X: NDArray, seed: int) -> Metric:
    """Set the share of each column in the mean L1 distance of two rows."""
    rng = np.random.default_rng(seed)
    a, b = (X[rng.integers(len(X), size=min(PAIRS, 4 * len(X)))] for _ in range(2))
    moved = np.abs(metric._unmixed(a) - metric._unmixed(b)).mean(axis=0, dtype=np.float64)
    q = metric.linear_.shape[1]
    moved[:q] *= np.abs(metric.linear_).sum(axis=0)
    total = np.bincount(metric.source_, moved, metric.n_features_in_)
    metric.relevance_ = total / (total.sum() or 1.0)
    return metric


@single_threaded_blas()
def learn_metric(
    X: Any, y: Any, kernel: str = "laplacian", metric: str = "ard", sample_weight: Any = None, random_state: Any = None
) -> Metric:
    """Learn the distance that suits a kernel machine on some rows.

    Stochastic gradient descent on the held-out loss of exact kernel ridge regression on blocks of 384 or 512 rows, some
    of them at random and some near to one another; 100,000 rows at most are looked at.

    Parameters
    ----------
    X : array of shape (n, d)
        Numbers, in any units. Encode a data frame by `TableEncoder` first.
    y : array of shape (n,) or (n, K)
        Numbers, or class labels: text, truth values, or at most 100 different whole numbers.
    kernel : {"laplacian", "gaussian"}, default="laplacian"
        Of the L1 or the Euclidean distance, for `BinningFeatures` or `FourierFeatures`.
    metric : {"ard", "full"}, default="ard"
        A scale and a monotone warp for each column, or a linear map of the numeric columns on top; for the Gaussian
        kernel that is one of the columns as they are.
    sample_weight : array of shape (n,), optional
        Rows of weight zero are left out.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        Unknown kernel or metric, fewer than 20 rows of positive weight, or no column that varies.

    Warns
    -----
    UserWarning
        Where there are not two numeric columns for a linear map.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.tuning import learn_metric
    >>> X = np.random.default_rng(0).standard_normal((1000, 5))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> metric = learn_metric(X, y, random_state=0)
    >>> bool(metric.relevance_[:2].sum() > 0.8)
    True
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS}, got {kernel!r}.")
    if metric not in ("ard", "full"):
        raise ValueError(f"metric must be 'ard' or 'full', got {metric!r}.")
    labels = _are_labels(np.asarray(y))
    X, y = check_X_y(X, y, dtype=[np.float64, np.float32], multi_output=not labels, y_numeric=not labels)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    n_rows = len(y) if weight is None else np.count_nonzero(weight)
    if n_rows < FEWEST_ROWS:
        raise ValueError(
            f"A metric is learned from {FEWEST_ROWS} rows of positive weight at least, and here are {n_rows}: "
            "give more rows, or choose the lengthscales of a kernel."
        )
    if labels:
        y = np.where(y[:, np.newaxis] == np.unique(y), 1.0, -1.0)
    seed = int(check_random_state(random_state).randint(2**31))
    source = ArraySource(X, y.reshape(len(y), -1).astype(np.float64), weight)
    sample, column_groups = learning_sample(source, seed, 2 * X.shape[1]), np.arange(X.shape[1])
    plan = schedule(len(X), X.shape[1])
    parts = "value" if kernel == "gaussian" and metric == "full" else "both"
    learned = learn_diagonal(kernel, sample, column_groups, plan, seed, parts)
    if metric == "full" and learned.n_mixed > 1:
        learned = learn_full(kernel, sample, learned, plan, seed + 1)
    elif metric == "full":
        warnings.warn(
            "metric='full' learned no linear map: fewer than two columns have more than two values. The scales of the "
            "columns were learned, as by metric='ard'.",
            stacklevel=3,
        )
    return learned.metric


def _are_labels(y: NDArray) -> bool:
    """Whether targets are classes; whole numbers are, unless there are too many different ones."""
    if y.ndim != 1 or y.dtype.kind not in "iuf":
        return y.ndim == 1
    return bool((y == np.rint(y)).all()) and len(np.unique(y)) <= MOST_CLASSES
