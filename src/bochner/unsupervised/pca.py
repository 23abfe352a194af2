"""Kernel principal components by the moments of features, and the way back from
scores to rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from bochner.arrays import Floats
from bochner.data.array_source import ArraySource, Block
from bochner.data.encodings import NumberColumns
from bochner.data.table import TableEncoder
from bochner.data.table_input import as_dense
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import require_memory
from bochner.engines.progress import progress
from bochner.estimators.incremental import FirstRows, FixedByFirstRows
from bochner.features import NystroemFeatures
from bochner.features.base import FeatureMap
from bochner.features.distances import median_gaussian
from bochner.features.leaves import seeded
from bochner.inputs.checks import checked_rows
from bochner.inputs.opened import given_batch
from bochner.inputs.training import TrainingSet
from bochner.solvers.factors import PrimalFactor
from bochner.solvers.line_search import choose_alpha
from bochner.sources.rowwise import rowwise
from bochner.unsupervised.base import LANDMARKS, RowModel, map_for, precision_of

# Of the largest variance
ROUNDING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
PRE_IMAGE_LANDMARKS, PRE_IMAGE_ROWS = 500, 4096
UNSCALED = 1e300  # scale of a column of one value, which is taken as it is
LANDMARKS_EACH = 8  # component


class KernelPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FixedByFirstRows, RowModel
):
    """Kernel principal components of any number of rows, from one pass over them.

    With z the features of a kernel, C = Z'WZ / w - m m' their D x D covariance and v_1,
    v_2, ... its eigenvectors of the largest eigenvalues, the scores of a row are
    v_j'(z(x) - m): what scikit-learn's `KernelPCA` finds by the n x n kernel matrix
    (Schoelkopf, Smola and Mueller, 1998), and exactly that where no more than 300 rows
    are given. By default z are the Nystroem features of 300 landmarks, or of 8 for each
    component if these are more. Their leading subspace agrees with exact kernel PCA
    (cos² = .999 for 20 components of 5,000 images); random Fourier features need ten
    times as many columns for less (Lopez-Paz et al., 2014).

    Parameters
    ----------
    n_components : int or None, default=2
        Number of components, at most the number of features. None keeps all components
        that have variance.
    kernel : Kernel or "auto", default="auto"
        "auto" is a Gaussian whose lengthscale is set by the median distance between
        rows: it is exp(-1) there. A kernel that is given measures columns as
        `standardize` scales them.
    features : FeatureMap, transformer or "auto", default="auto"
        "auto" is `NystroemFeatures` of the kernel. Another map brings its own kernel:
        `NystroemFeatures` of another size, `FourierFeatures`, or `BinningFeatures` with
        `n_buckets`.
    whiten : bool, default=False
        Whether to scale the scores to unit variance.
    fit_inverse_transform : bool, default=False
        Whether to learn the map back from scores to rows, by ridge regression. This
        takes another pass over the rows.
    alpha : float or "auto", default="auto"
        Ridge penalty of the inverse map; "auto" minimises the generalised
        cross-validation error.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance, whatever the kernel.
        "auto" does so unless all columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of samples and maps.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    components_ : array of shape (K, D), float32 or float64
        In the precision of the features, which is double for up to 4,096 rows. Unit
        vectors in feature space, the largest entry of each positive.
    explained_variance_ : array of shape (K,)
        Variances of the scores, descending; scikit-learn's `eigenvalues_` over the
        number of rows.
    explained_variance_ratio_ : array of shape (K,)
        Shares of the variance in feature space, also of what landmarks leave out.
    mean_ : array of shape (D,)
        Mean features.
    features_ : FeatureMap
        Fitted.
    kernel_ : Kernel or None
        Of the map, where it has one.
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: parameters out of range, a kernel in addition to a map, bins without
        buckets, X without values, an inverse of columns that are not numbers. At
        transform: other columns.
    TypeError
        At fit: `kernel` is not a kernel, or `features` not a map.
    MemoryError
        At fit, before the pass: the moments do not fit in the free memory.

    References
    ----------
    Schoelkopf, Smola and Mueller, "Nonlinear Component Analysis as a Kernel Eigenvalue
    Problem", Neural Computation 1998. Lopez-Paz, Sra, Smola, Ghahramani and Schoelkopf,
    "Randomized Nonlinear Component Analysis", ICML 2014.
    Sterge and Sriperumbudur, "Statistical Optimality and Computational Efficiency of
    Nystrom Kernel PCA", JMLR 2022. Bakir, Weston and Schoelkopf, "Learning to Find
    Pre-Images", NIPS 2003.

    See Also
    --------
    bochner.display.ScreeDisplay : The shares of the variance.
    bochner.display.EmbeddingDisplay : Two of the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelPCA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelPCA(
    ...     n_components=20, fit_inverse_transform=True, random_state=0
    ... ).fit(X)
    >>> scores = model.transform(X)
    >>> scores.shape, bool(abs(model.inverse_transform(scores) - X).mean() < 2)
    ((1797, 20), True)
    """

    learned = "components_"
    _allowed: ClassVar = {
        "n_components": ("a positive integer", None),
        "alpha": ("a positive number", "auto"),
    }

    def __init__(
        self,
        n_components: int | None = 2,
        kernel: Any = "auto",
        features: Any = "auto",
        *,
        whiten: bool = False,
        fit_inverse_transform: bool = False,
        alpha: float | str = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.features = features
        self.whiten = whiten
        self.fit_inverse_transform = fit_inverse_transform
        self.alpha = alpha
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    @any_arrays
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array, sparse matrix, data frame or source of shape (n, d)
            Files and collections are read in passes.
        y : ignored
        sample_weight : array of shape (n,), or name of a column, optional

        Returns
        -------
        self
        """
        self._begin()
        seed = self._seed()
        rows, design = self._opened(X, sample_weight, seed)
        with progress("Summing moments", rows.n_rows, self.verbose) as advance:
            self._take(design.telling(advance).moments(), design)
        if self.fit_inverse_transform:
            # Rows are fitted to their scores, in one more pass: scores are the rows of
            # this regression, and rows its targets
            shift, scale = units_of(self.encoder_)
            rng = np.random.default_rng(seed)
            Z, y, weight = rows.sample.sample(PRE_IMAGE_ROWS, rng).whole()
            scored = ArraySource(self._scores(Z), np.empty((len(y), 0)), weight)
            kernel = median_gaussian(scored, seed)
            features = seeded(NystroemFeatures(kernel, PRE_IMAGE_LANDMARKS), seed)
            features.draw(scored.X.shape[1])
            features.fit_sample(scored.X, scored.weights)
            n_outputs = self.encoder_.n_features_out_
            size = features.n_features_out
            moments = Moments(size, n_outputs, design.dtype, shared=True)
            blocks = rows.source.blocks(PRE_IMAGE_ROWS)
            moments.add(
                features.dense,
                (
                    Block(self._scores(Z), as_dense(Z), weight)
                    for Z, _, weight in blocks
                ),
            )
            factor = PrimalFactor(moments, 2)
            alpha = self.alpha
            if isinstance(alpha, str):
                alpha = choose_alpha(factor, factor.gcv)[0]
            coef = factor.coef(alpha)
            intercept = factor.intercept(coef)
            self.inverse_ = PreImages(
                features, coef, intercept, float(alpha), shift, scale
            )
        return self

    @any_arrays
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those already seen, the first of which decide on columns, kernel
        and landmarks.

        Where the first batch has fewer than 256 rows, these are chosen again whenever
        the number of rows has doubled, until there are 256.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : ignored
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            With ``fit_inverse_transform=True``, which needs a second look at all rows.
        """
        self._check_parameters()
        if self.fit_inverse_transform:
            raise ValueError(
                "partial_fit sees each row once, and fit_inverse_transform=True "
                "needs two passes: use fit."
            )
        X, _, sample_weight = given_batch(X, None, sample_weight)
        is_new = not hasattr(self, "components_")
        X = checked_rows(self, X, reset=is_new, cautions=self._first is None)
        weight = checked_weight(sample_weight, X)
        if is_new or self._first is not None:
            rows = FirstRows.after(self._first, X, np.zeros(X.shape[0]), weight)
            if rows.are_due:
                design = self._opened(rows.X, rows.weight, self._seed())[1]
                self._take(design.moments(), design)
            self._first = rows.settled()
            if rows.are_due:
                return self
        if self._first is None:
            self._caution_ignored(X, weight, "fit")
        dtype = self.components_.dtype
        encode = partial(self.encoder_.encode, dtype=dtype)
        source = ArraySource(X, np.empty((X.shape[0], 0)), weight, encode)
        design = Design(source, self.features_, dtype)
        before = Moments.holding(self.sums_, self.n_samples_seen_, 0, dtype)
        self._take(before + design.moments(), design)
        return self

    def _begin(self) -> None:
        super()._begin()
        self._first = None
        self._has_cautioned = False

    @rowwise()
    def transform(self, X: Any) -> Floats:
        """Scores of rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame or source of shape (n, d)

        Returns
        -------
        array of shape (n, K)
            Of a collection a Dask array, not computed yet.
        """
        return self._mapped(X, self._scores, self.components_.dtype)

    @available_if(attrgetter("fit_inverse_transform"))
    @any_arrays
    def inverse_transform(self, X: Any) -> Floats:
        """Rows whose scores would be about these, in the units of the training rows.

        Parameters
        ----------
        X : array of shape (n, K)
            Scores.

        Returns
        -------
        array of shape (n, d)

        Raises
        ------
        AttributeError
            Without ``fit_inverse_transform=True``.
        ValueError
            For another number of scores.
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32])
        if scores.shape[1] != len(self.components_):
            raise ValueError(
                f"There are {len(self.components_)} scores, and X has "
                f"{scores.shape[1]} columns."
            )
        return self.inverse_(scores)

    def _opened(
        self, X: Any, sample_weight: Any, seed: int
    ) -> tuple[TrainingSet, Design]:
        """Rows, and these seen through a map for them."""
        dtype = precision_of(X)
        rows = self._open(X, sample_weight, seed, dtype)
        if self.fit_inverse_transform:
            units_of(self.encoder_)
        n_landmarks = max(LANDMARKS, LANDMARKS_EACH * int(self.n_components or 0))
        features = map_for(self.features, self.kernel, rows, seed, n_landmarks)
        return rows, rows.design(features, dtype)

    @single_threaded_blas()
    def _take(self, moments: Moments, design: Design) -> None:
        """Keep the sums, and the leading eigenvectors of the covariance."""
        features = design.features
        D = moments.n_features
        wanted = D if self.n_components is None else min(self.n_components, D)
        trace = np.trace(moments.matrix[:D, :D]) / moments.weight
        centred = moments.centred()
        covariance = centred.gram / moments.weight
        # Of all directions, also of those that landmarks leave out
        total = np.trace(covariance)
        if isinstance(features, NystroemFeatures):
            total += max(features.kernel.variance - trace, 0.0)
        largest = D - wanted, D - 1
        values, vectors = eigh(covariance, subset_by_index=largest, overwrite_a=True)
        values = np.maximum(values[::-1], 0.0)
        vectors = vectors.T[::-1]
        least = ROUNDING[moments.dtype] * values[0]
        if self.n_components is None:
            rank = max(np.count_nonzero(values > least), 1)
            values = values[:rank]
            vectors = vectors[:rank]
        values = np.where(values > least, values, 0.0)
        # The largest entry of each is positive
        largest_entries = np.abs(vectors).argmax(axis=1)
        signs = np.sign(vectors[np.arange(len(vectors)), largest_entries])
        self.features_ = features
        self.kernel_ = getattr(features, "kernel", None)
        self.sums_ = moments.matrix
        self.n_samples_seen_ = moments.n_rows
        self.mean_ = centred.feature_mean
        self.explained_variance_ = values
        self.explained_variance_ratio_ = values / (total or 1.0)
        self.components_ = (vectors * signs[:, np.newaxis]).astype(design.dtype)

    def _scores(self, X: Any) -> Floats:
        """Scores of encoded rows."""
        vectors = np.array(self.components_.T, np.float64, order="C")
        if self.whiten:
            scale = np.sqrt(self.explained_variance_)
            zeros = np.zeros(vectors.shape)
            vectors = np.divide(vectors, scale, out=zeros, where=scale > 0)
        return self.features_.dot(X, vectors.astype(X.dtype)) - self.mean_ @ vectors

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass
class PreImages:
    """Rows for scores, x = shift + scale (intercept + z(score)' coef).

    Attributes
    ----------
    features : FeatureMap
        Of scores.
    coef : array of shape (D, d)
    intercept : array of shape (d,)
    alpha : float
        The ridge penalty.
    shift, scale : arrays of shape (d,)
        Of the columns.
    """

    features: FeatureMap
    coef: Floats
    intercept: Floats
    alpha: float
    shift: Floats
    scale: Floats

    def __call__(self, scores: Floats) -> Floats:
        """Rows for scores of shape (n, K)."""
        return (
            self.features.dot(scores, self.coef) + self.intercept
        ) * self.scale + self.shift


def units_of(encoder: TableEncoder) -> tuple[Floats, Floats]:
    """Shift and scale of each column; ValueError where some are no numbers, or some
    of theirs are missing.
    """
    numbers = [
        column for column in encoder.columns_ if isinstance(column, NumberColumns)
    ]
    d = encoder.n_features_in_
    sizes = [len(column.scale) for column in numbers]
    if sizes != [d] or encoder.n_features_out_ != d:
        raise ValueError(
            "fit_inverse_transform=True needs columns of numbers without missing "
            "values, for rows cannot be made of "
            "scores where they hold text, dates or gaps: impute or drop such "
            "columns, or leave it out."
        )
    require_memory(
        32 * d**2,
        f"Rows of {d:,} columns made of scores",
        "Leave out fit_inverse_transform=True.",
    )
    scale = np.where(np.abs(numbers[0].scale) < UNSCALED, numbers[0].scale, 0.0)
    return numbers[0].shift.astype(np.float64), scale
