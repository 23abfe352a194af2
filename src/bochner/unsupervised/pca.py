"""Kernel principal components by the moments of features."""

from __future__ import annotations

from numbers import Integral, Real
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from bochner.data.array_source import as_it_is
from bochner.data.weights import checked_weight
from bochner.design import Design
from bochner.engines.local import LOCAL
from bochner.engines.progress import progress
from bochner.estimators.first_rows import FirstRows, IgnoresColumns, kept_by_file
from bochner.estimators.model import encoded_source
from bochner.estimators.rows import checked_rows
from bochner.estimators.tables import given_batch
from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.moments import Moments
from bochner.unsupervised.base import Opened, RowModel
from bochner.unsupervised.components import principal_components
from bochner.unsupervised.inverse import PreImages, learn_pre_images, units_of
from bochner.unsupervised.maps import LANDMARKS, map_for

LANDMARKS_EACH = 8  # component
DOUBLE_ROWS = 4096  # at most, of which sums in double precision cost nothing


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, IgnoresColumns, RowModel):
    """Kernel principal components of any number of rows, from one pass over them.

    With z the features of a kernel, C = Z'WZ / w - m m' their D x D covariance and v_1, v_2, ... its eigenvectors of
    the largest eigenvalues, the scores of a row are v_j'(z(x) - m): what scikit-learn's `KernelPCA` finds by the n x n
    kernel matrix (Schoelkopf, Smola and Mueller, 1998), and exactly that where no more than 300 rows are given. By
    default z are the Nystroem features of 300 landmarks, 8 for each component where there are more, whose leading
    subspace comes out right (cos^2 of .999 to that of all kernel values, 20 components of 5,000 images); random Fourier
    features need ten times as many columns for less (Lopez-Paz et al., 2014).

    Parameters
    ----------
    n_components : int or None, default=2
        Scores; at most as many as features. None for all that have variance.
    kernel : Kernel or "auto", default="auto"
        The last for a Gaussian that is exp(-1) at the median distance of the rows.
    features : FeatureMap, transformer or "auto", default="auto"
        A map with a kernel of its own: `NystroemFeatures` of another size, `FourierFeatures`, or `BinningFeatures` with
        `n_buckets`.
    whiten : bool, default=False
        Whether scores get unit variance.
    fit_inverse_transform : bool, default=False
        Whether rows are to be made of scores, by ridge regression on features of these, which takes another pass.
    alpha : float or "auto", default="auto"
        Ridge term of that; the last for the one of least generalised cross-validation error.
    standardize : bool or "auto", default="auto"
        Whether columns of numbers get unit variance; the last where they are in no common unit, as pixels are.
    random_state : int, RandomState or None, default=None
        Seed of samples and maps.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    components_ : array of shape (K, D), float32 or float64
        In the precision of the features, which is double for up to 4,096 rows. Unit vectors in feature space, the
        largest entry of each positive.
    explained_variance_ : array of shape (K,)
        Variances of the scores, descending; scikit-learn's `eigenvalues_` over the number of rows.
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
        At fit: parameters out of range, a kernel beside a map, bins without buckets, X without values, an inverse of
        columns that are not numbers. At transform: other columns.
    TypeError
        At fit: what is no kernel or no map.
    MemoryError
        At fit, before the pass: the moments do not fit the memory that is free.

    References
    ----------
    Schoelkopf, Smola and Mueller, "Nonlinear Component Analysis as a Kernel Eigenvalue Problem", Neural Computation
    1998. Lopez-Paz, Sra, Smola, Ghahramani and Schoelkopf, "Randomized Nonlinear Component Analysis", ICML 2014.
    Sterge and Sriperumbudur, "Statistical Optimality and Computational Efficiency of Nystrom Kernel PCA", JMLR 2022.
    Bakir, Weston and Schoelkopf, "Learning to Find Pre-Images", NIPS 2003.

    See Also
    --------
    bochner.display.ScreeDisplay : The shares of the variance.
    bochner.display.EmbeddingDisplay : Two of the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelPCA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelPCA(n_components=20, fit_inverse_transform=True, random_state=0).fit(X)
    >>> scores = model.transform(X)
    >>> scores.shape, bool(abs(model.inverse_transform(scores) - X).mean() < 2)
    ((1797, 20), True)
    """

    learned = "components_"

    components_: NDArray[np.float64]
    explained_variance_: NDArray[np.float64]
    features_: FeatureMap
    inverse_: PreImages
    _first: tuple | None = None  # rows, while they are too few to choose for good

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
        X : array, sparse matrix, data frame, path, folder or collection of Dask of shape (n, d)
            Files and collections are read in passes.
        y : ignored
        sample_weight : array of shape (n,), or name of a column, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        self._begin()
        seed = self._seed()
        rows, design = self._opened(X, sample_weight, seed)
        with progress("Summing moments", rows.n_rows, bool(self.verbose)) as advance:
            self._take(design.telling(advance).moments(), design)
        if self.fit_inverse_transform:
            whole = design.by(LOCAL)
            self.inverse_ = learn_pre_images(whole, rows.sample, self._scores, self.encoder_, self.alpha, seed)
        return self

    @any_arrays
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those already seen, the first of which decide on columns, kernel and landmarks.

        Where the first batch has fewer than 256 rows, these are chosen again whenever the number of rows has doubled,
        until there are 256.

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
                "partial_fit sees each row once, and fit_inverse_transform=True needs two passes: use fit."
            )
        X, _, sample_weight = given_batch(X, None, sample_weight)
        is_new = not hasattr(self, "components_")
        X = checked_rows(self, X, reset=is_new)
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
        source = encoded_source(self.encoder_, X, np.empty((X.shape[0], 0)), weight, dtype, as_it_is)
        design = Design(source, self.features_, dtype)
        before = Moments.holding(self.sums_, self.n_samples_seen_, 0, dtype)
        self._take(before + design.moments(), design)
        return self

    def _begin(self) -> None:
        super()._begin()
        self._first, self._has_cautioned = None, False

    def _state_of_file(self) -> dict[str, Any]:
        """The state, without first rows that a file cannot hold."""
        state = dict(super().__getstate__())
        return state if self._first is None else state | {"_first": kept_by_file(self._first)}

    @any_arrays
    def transform(self, X: Any) -> NDArray[np.float64]:
        """Scores of rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame, path, folder or collection of Dask of shape (n, d)

        Returns
        -------
        array of shape (n, K)
            Of a collection a Dask array, not computed yet.
        """
        return self._of_rows(X, "_transform", getattr(self, "feature_names_in_", None))

    def _transform(self, X: Any) -> NDArray[np.float64]:
        """Scores of rows in memory."""
        return self._mapped(X, self._scores, self.components_.dtype)

    @available_if(attrgetter("fit_inverse_transform"))
    @any_arrays
    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Rows, in the units of the fit, whose scores would be about these.

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
            raise ValueError(f"There are {len(self.components_)} scores, and X has {scores.shape[1]} columns.")
        return self.inverse_(scores)

    def _opened(self, X: Any, sample_weight: Any, seed: int) -> tuple[Opened, Design]:
        """Rows, and these seen through a map for them."""
        dtype = _precision(X)
        rows = self._open(X, sample_weight, seed, dtype)
        if self.fit_inverse_transform:
            units_of(self.encoder_)
        n_landmarks = max(LANDMARKS, LANDMARKS_EACH * int(self.n_components or 0))
        features = self._drawn(map_for(self.features, self.kernel, rows.sample, seed, n_landmarks), rows, seed)
        return rows, self._design(rows, features, dtype)

    def _take(self, moments: Moments, design: Design) -> None:
        """Keep the sums, and what follows from them."""
        found = principal_components(moments, design.features, self.n_components)
        self.features_, self.kernel_ = design.features, getattr(design.features, "kernel", None)
        self.sums_, self.n_samples_seen_ = moments.matrix, moments.n_rows
        self.mean_, self.explained_variance_ = found.mean, found.variances
        self.explained_variance_ratio_ = found.variances / (found.total or 1.0)
        self.components_ = found.vectors.astype(design.dtype)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of encoded rows."""
        scale = np.sqrt(self.explained_variance_) if self.whiten else np.ones(len(self.components_))
        vectors = np.divide(self.components_.T, scale, out=np.zeros(self.components_.T.shape), where=scale > 0)
        return self.features_.dot(X, vectors.astype(X.dtype)) - self.mean_ @ vectors

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _check_parameters(self) -> None:
        n, alpha = self.n_components, self.alpha
        if n is not None and (not isinstance(n, Integral) or isinstance(n, bool) or n < 1):
            raise ValueError(f"n_components must be a positive integer or None, got {n!r}.")
        if alpha != "auto" and (not isinstance(alpha, Real) or isinstance(alpha, bool) or not 0 < alpha < np.inf):
            raise ValueError(f"alpha must be a positive number or 'auto', got {alpha!r}.")


def _precision(X: Any) -> np.dtype:
    """Double where the rows are known to be few, single otherwise."""
    n_rows = getattr(X, "shape", (None,))[0]
    few = isinstance(n_rows, Integral) and n_rows <= DOUBLE_ROWS
    return np.dtype(np.float64 if few else np.float32)
