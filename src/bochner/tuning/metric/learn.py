"""Metrics learned from rows: one scale a column, monotone warps, a linear map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_X_y

from bochner.data.sources import ArraySource, Block
from bochner.data.weights import checked_weight
from bochner.engines.algebra import gram, product
from bochner.engines.blas import single_threaded_blas
from bochner.features.metric import Metric
from bochner.features.relevance import with_relevance
from bochner.notices import warn
from bochner.tuning.judge import standardise
from bochner.tuning.metric.basis import Basis
from bochner.tuning.metric.descent import Blocks, Schedule, learn_map, learn_scales
from bochner.tuning.policy import POLICY

KERNELS = ("laplacian", "gaussian")
MOST_CLASSES = 100


class Learned(NamedTuple):
    """A metric, and what is known beside it.

    Sizes are logarithms of the factors on the coordinates that suit each kind of blocks; a linear map may mix the first
    `n_mixed` coordinates.
    """

    metric: Metric
    sizes: NDArray
    n_mixed: int


@dataclass(frozen=True)
class Lesson:
    """What metric is to be learned, and from which rows.

    Attributes
    ----------
    kernel : {"laplacian", "gaussian"}
    sample : Block
        As of `learning_sample`.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    schedule : Schedule
    seed : int
    parts : {"both", "value"}
        What numeric columns become.
    map_schedule : Schedule, optional
        Of a linear map that is learned on top.
    common_unit : array of shape (d,), optional
        Factors on the columns, of whose principal components scales are then learned instead.
    """

    kernel: str
    sample: Block
    column_groups: NDArray
    schedule: Schedule
    seed: int
    parts: str = "both"
    map_schedule: Schedule | None = None
    common_unit: NDArray | None = None


def schedule(n_rows: int) -> Schedule:
    """How long to learn from rows out of `n_rows`: longer where there are more, but on near ones where many."""
    if n_rows > POLICY.rows_for_bins_alone:
        return Schedule(120, 512, ("wide", "near"))
    if n_rows >= POLICY.rows_for_shorter_learning:
        return Schedule(300, 512, ("wide", "near"))
    if n_rows >= POLICY.rows_for_full_learning:
        return Schedule(450, 512)
    return Schedule(225, 256, window=POLICY.window // 2)


def map_schedule(plan: Schedule) -> Schedule:
    """The same for a linear map on top."""
    return replace(plan, steps=POLICY.map_steps)


def learning_sample(source: ArraySource, seed: int) -> Block:
    """Draw rows to learn from, dense and each of them once, with standardised targets.

    With two columns of the basis for each column they make at most 30 million numbers.
    """
    width = 2 * source.X.shape[1]
    most = max(min(POLICY.learned_rows, POLICY.learned_entries // max(width, 1)), 1000)
    X, y, weight = source.sample(most, np.random.default_rng(seed)).distinct().whole()
    mean, deviation = standardise(y, weight)
    return Block(X.toarray() if hasattr(X, "toarray") else X, (y - mean) / deviation, weight)


def learn(lesson: Lesson) -> Learned:
    """Learn one scale a column of the basis or of its principal components, and a linear map where it is asked for."""
    if lesson.common_unit is not None:
        return learn_principal(lesson.sample, lesson.common_unit, lesson.schedule, lesson.seed)
    X, y, weight = lesson.sample
    basis = Basis(X, lesson.column_groups, lesson.parts, np.random.default_rng(lesson.seed))
    if not basis.points.shape[1]:
        raise ValueError("All columns are constant, so there is no distance to learn: give a column that varies.")
    blocks = Blocks(basis.points, y, lesson.schedule, lesson.seed, weight, basis.n_pairs)
    log_scales, sizes = learn_scales(lesson.kernel, blocks, basis.start, basis.column_groups)
    mixable = lesson.kernel == "laplacian" or lesson.parts == "value"
    metric = with_relevance(basis.coordinates(lesson.kernel, log_scales), X, lesson.seed)
    learned = Learned(metric, sizes, len(basis.numeric) if mixable else 0)
    return learned if lesson.map_schedule is None else learn_full(lesson, learned, lesson.map_schedule)


def learn_full(lesson: Lesson, base: Learned, plan: Schedule) -> Learned:
    """Learn a linear map on top of a metric, of the coordinates of numeric columns."""
    X, y, weight = lesson.sample
    U = base.metric.coordinates(X)
    U = np.ascontiguousarray(U - U.mean(axis=0, dtype=np.float64), dtype=np.float32)
    blocks = Blocks(U, y, plan, lesson.seed, weight)
    linear, sizes = learn_map(lesson.kernel, blocks, base.n_mixed, base.sizes)
    return Learned(with_relevance(base.metric.mixed(linear), X, lesson.seed), sizes, base.n_mixed)


def learn_principal(sample: Block, factors: NDArray, plan: Schedule, seed: int) -> Learned:
    """Learn a scale for each of the first 50 principal components, for the Gaussian kernel; for images and the like.

    The components of variance v are first scaled by v^(-1/4), half way to equal variances.

    Parameters
    ----------
    factors : array of shape (d,)
        On the columns.
    """
    X = sample.X.astype(np.float64) * factors
    X -= X.mean(axis=0)
    values, vectors = np.linalg.eigh(gram(X, np.empty((X.shape[1], X.shape[1]))) / len(X))
    kept = np.flatnonzero(values > values[-1] * POLICY.smallest_variance)[::-1][: POLICY.principal]
    linear = vectors[:, kept].T * (values[kept] ** -0.25)[:, np.newaxis]
    U = product(X, linear.T).astype(np.float32)
    start = np.full(len(kept), -0.5 * np.log(np.sqrt(values[kept]).sum()))
    log_scales, sizes = learn_scales("gaussian", Blocks(U, sample.y, plan, seed), start, np.arange(len(kept)))
    columns = np.arange(X.shape[1])
    metric = Metric(X.shape[1], columns, factors, linear=linear * np.exp(log_scales)[:, np.newaxis])
    return Learned(with_relevance(metric, sample.X, seed), sizes, 0)


@single_threaded_blas()
def learn_metric(
    X: Any, y: Any, kernel: str = "laplacian", metric: str = "ard", sample_weight: Any = None, random_state: Any = None
) -> Metric:
    """Learn a distance between rows that suits a kernel machine on these data.

    It minimises the validation loss of exact kernel ridge regression by stochastic gradient descent, on blocks of 384
    or 512 rows. Some blocks are drawn at random, some are of rows near one another. At most 100,000 rows are used.

    Parameters
    ----------
    X : array of shape (n, d)
        Numbers, in any units. Encode a data frame with `TableEncoder` first.
    y : array of shape (n,) or (n, K)
        Numbers, or class labels: strings, booleans, or at most 100 different integers.
    kernel : {"laplacian", "gaussian"}, default="laplacian"
        "laplacian" is of the L1 distance, for `BinningFeatures`; "gaussian" is of the Euclidean distance, for
        `FourierFeatures`.
    metric : {"ard", "full"}, default="ard"
        "ard": a lengthscale and a monotone warp for each column. "full": a linear map of the numeric columns on top;
        for the Gaussian kernel it maps the columns without warps.
    sample_weight : array of shape (n,), optional
        Rows of weight zero are left out.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If the kernel or metric is unknown, or there are fewer than 20 rows of positive weight, or no column that
        varies.

    Warns
    -----
    UserWarning
        If there are fewer than two numeric columns for a linear map.

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
    weight = checked_weight(sample_weight, X)
    n_rows = len(y) if weight is None else np.count_nonzero(weight)
    if n_rows < POLICY.fewest_asked_rows:
        raise ValueError(
            f"Learning a metric needs at least {POLICY.fewest_asked_rows} rows of positive weight, and there are "
            f"{n_rows}: give more rows, or choose the lengthscales of a kernel."
        )
    if labels:
        y = np.where(y[:, np.newaxis] == np.unique(y), 1.0, -1.0)
    seed = int(check_random_state(random_state).randint(2**31))
    sample = learning_sample(ArraySource(X, y.reshape(len(y), -1).astype(np.float64), weight), seed)
    parts = "value" if kernel == "gaussian" and metric == "full" else "both"
    lesson = Lesson(kernel, sample, np.arange(X.shape[1]), schedule(len(X)), seed, parts)
    learned = learn(lesson)
    if metric == "full" and learned.n_mixed > 1:
        learned = learn_full(replace(lesson, seed=seed + 1), learned, map_schedule(lesson.schedule))
    elif metric == "full":
        warn(
            "metric='full' learned no linear map: fewer than two columns have more than two values. Lengthscales of "
            "the columns were learned instead, as with metric='ard'."
        )
    return learned.metric


def _are_labels(y: NDArray) -> bool:
    """Whether targets are classes; whole numbers are, unless there are too many different ones."""
    if y.ndim != 1 or y.dtype.kind not in "iuf":
        return y.ndim == 1
    return bool((y == np.rint(y)).all()) and len(np.unique(y)) <= MOST_CLASSES
