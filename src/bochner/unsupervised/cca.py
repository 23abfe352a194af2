"""Kernel canonical correlations of two tables by the joint moments of their features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from bochner.data.hashes import uniform
from bochner.data.sources import as_it_is, rows_of
from bochner.data.table import TableEncoder
from bochner.data.table_input import check_frame, is_frame, refuse_text, require_finite
from bochner.design import Design
from bochner.engines.local import LOCAL
from bochner.estimators.checks import checked_weight, refuse_lazy
from bochner.estimators.model import draw, encoded_source, rows_to_map
from bochner.estimators.rows import checked_rows
from bochner.estimators.tables import given
from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.unsupervised.base import RowModel
from bochner.unsupervised.canonical import CanonicalPairs, Covariances, choose_ridge
from bochner.unsupervised.maps import map_for

ALPHAS = np.geomspace(1e-6, 10, 15)
FEWEST_HALVED = 20  # rows, of which there are halves to judge by
LANDMARKS = 1000
DOUBLE_ROWS = 4096  # at most, of which sums in double precision cost nothing


class KernelCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowModel):
    """Kernel canonical correlation analysis: directions in two feature spaces whose scores are most correlated.

    With z and u the features of rows x and y, C their covariances and g a ridge term, the directions are
    (C_zz + g_z I)^-1/2 and (C_uu + g_u I)^-1/2 times the singular vectors of (C_zz + g_z I)^-1/2 C_zu
    (C_uu + g_u I)^-1/2 (Bach and Jordan, 2002; on random features Lopez-Paz et al., 2014). All three come from one
    pass over the rows, and no n x n matrix is made.

    Parameters
    ----------
    n_components : int, default=2
        Pairs of directions; at most as many as features of either side.
    kernel, y_kernel : Kernel or "auto", default="auto"
        Of the rows of X and of y; "auto" for a Gaussian that is exp(-1) at their median distance.
    features, y_features : FeatureMap, transformer or "auto", default="auto"
        Maps with kernels of their own; "auto" for the Nystroem features of 1,000 landmarks.
    alpha : float or "auto", default="auto"
        Ridge terms over the mean variances of the features: g_z = alpha tr(C_zz) / D. "auto" for the one whose
        directions of either half of the rows are most correlated on the other half, 1e-6 to 10.
    standardize : bool or "auto", default="auto"
        Whether columns of numbers get unit variance; the last where they are in no common unit, as pixels are.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    correlations_ : array of shape (K,)
        Of the scores of the rows of the fit. These are as high as alpha lets them; see `score` for other rows.
    alpha_ : float
    alphas_, alpha_scores_ : arrays of shape (A,)
        What was tried, and mean correlations on the rows left out; where alpha was chosen.
    x_weights_, y_weights_ : arrays of shape (D, K) and (E, K)
        Directions, in feature space.
    x_mean_, y_mean_ : arrays of shape (D,) and (E,)
        Mean features.
    features_, y_features_ : FeatureMap
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: parameters out of range, other numbers of rows, files and folders. At transform: other columns.

    References
    ----------
    Bach and Jordan, "Kernel Independent Component Analysis", JMLR 2002. Lopez-Paz, Sra, Smola, Ghahramani and
    Schoelkopf, "Randomized Nonlinear Component Analysis", ICML 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelCCA
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(-3, 3, 1000)
    >>> X = np.column_stack([np.cos(angle), rng.standard_normal(1000)])
    >>> Y = np.column_stack([angle, rng.standard_normal(1000)])
    >>> model = KernelCCA(n_components=1, random_state=0).fit(X[:800], Y[:800])
    >>> bool(model.score(X[800:], Y[800:]) > 0.95), bool(abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.1)
    (True, True)
    """

    correlations_: NDArray[np.float64]
    x_weights_: NDArray[np.float64]
    y_weights_: NDArray[np.float64]

    def __init__(
        self,
        n_components: int = 2,
        kernel: Any = "auto",
        features: Any = "auto",
        *,
        y_kernel: Any = "auto",
        y_features: Any = "auto",
        alpha: float | str = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.features = features
        self.y_kernel = y_kernel
        self.y_features = y_features
        self.alpha = alpha
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    @any_arrays
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the directions.

        Parameters
        ----------
        X, y : arrays, sparse matrices or data frames of shape (n, d) and (n, e)
            Two tables of the same rows; y may be one column.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        self._begin()
        seed = self._seed()
        X, _, sample_weight, stream = given(X, None, sample_weight)
        if stream is not None:
            raise ValueError("KernelCCA takes two tables in memory, and X is a larger source: give a sample of it.")
        X, y = checked_rows(self, X, reset=True), _second(y)
        check_consistent_length(X, y)
        weight, dtype = (
            checked_weight(sample_weight, X),
            np.dtype(np.float64 if X.shape[0] <= DOUBLE_ROWS else np.float32),
        )
        self.encoder_, self.features_ = self._side(X, weight, dtype, (self.features, self.kernel), seed)
        self.y_encoder_, self.y_features_ = self._side(y, weight, dtype, (self.y_features, self.y_kernel), seed + 1)
        seen = Seen(self.y_encoder_, self.y_features_, y, dtype)
        source = encoded_source(self.encoder_, X, np.arange(X.shape[0]), weight, dtype, seen)
        self._solve(Design(source, self.features_, dtype, engine=LOCAL), seed)
        return self

    def _side(
        self, X: Any, weight: NDArray | None, dtype: np.dtype, wanted: tuple[Any, Any], seed: int
    ) -> tuple[TableEncoder, FeatureMap]:
        """Encoder and drawn map of one table."""
        encoder = self._encoder(X, weight)
        source = encoded_source(encoder, X, np.empty((X.shape[0], 0)), weight, dtype, as_it_is)
        features = map_for(*wanted, source, seed, LANDMARKS)
        draw(features, encoder, source, seed)
        if features.dense is None:
            raise ValueError("KernelCCA needs dense features on both sides: give FourierFeatures or NystroemFeatures.")
        return encoder, features

    def _solve(self, design: Design, seed: int) -> None:
        """Sum the moments, of halves where these are to judge, and solve."""
        hashes, counted, alpha = design.row_hashes, design.source.weights > 0, self.alpha
        if alpha == "auto" and len(np.unique(hashes[counted])) >= FEWEST_HALVED:
            in_first = uniform(hashes, seed) < 0.5  # with all that are equal to it
            parts = [design.source.take(np.flatnonzero(half & counted)) for half in (in_first, ~in_first)]
            first, second = (design.of(part).moments() for part in parts)
            alpha, self.alpha_scores_ = choose_ridge((first, second), ALPHAS, self.n_components)
            self.alphas_, moments = ALPHAS.copy(), first + second
        else:
            moments, alpha = design.moments(), 0.1 if alpha == "auto" else alpha
        known = Covariances.of(moments)
        found = CanonicalPairs(known, moments.dtype).directions(float(alpha), self.n_components)
        self.alpha_, self.x_mean_, self.y_mean_ = float(alpha), known.x_mean, known.y_mean
        self.correlations_ = known.correlations(*found)
        self.x_weights_, self.y_weights_ = found.x.astype(moments.dtype), found.y.astype(moments.dtype)

    @any_arrays
    def transform(self, X: Any, y: Any = None) -> Any:
        """Scores of rows of one table or both.

        Parameters
        ----------
        X, y : arrays, sparse matrices or data frames of shape (n, d) and (n, e)

        Returns
        -------
        array of shape (n, K), or a tuple of two where y is given
        """
        check_is_fitted(self)
        found = self._mapped(X, self._x_scores, self.x_weights_.dtype)
        if y is None:
            return found
        rows = rows_to_map(self.y_encoder_, _second(y), self.y_weights_.dtype)
        return found, np.concatenate([self._y_scores(block.X) for block in rows.blocks(1 << 16)])

    @any_arrays
    def score(self, X: Any, y: Any) -> float:
        """Mean correlation of the pairs of scores.

        Parameters
        ----------
        X, y : arrays, sparse matrices or data frames of shape (n, d) and (n, e)
            Rows, as a rule others than those of the fit.

        Returns
        -------
        float
        """
        scores = np.hstack(self.transform(X, y))
        K = len(self.correlations_)
        scores = scores - scores.mean(axis=0)
        A, B = scores[:, :K], scores[:, K:]
        return float(Covariances(A.T @ A, B.T @ B, A.T @ B, A[0], B[0]).correlations(np.eye(K), np.eye(K)).mean())

    @property
    def _n_features_out(self) -> int:
        return len(self.correlations_)

    def _x_scores(self, X: Any) -> NDArray[np.float64]:
        return self.features_.dot(X, self.x_weights_) - self.x_mean_ @ self.x_weights_

    def _y_scores(self, y: Any) -> NDArray[np.float64]:
        return self.y_features_.dot(y, self.y_weights_) - self.y_mean_ @ self.y_weights_

    def _check_parameters(self) -> None:
        n, alpha = self.n_components, self.alpha
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n_components must be a positive integer, got {n!r}.")
        if alpha != "auto" and (not isinstance(alpha, Real) or isinstance(alpha, bool) or not 0 <= alpha < np.inf):
            raise ValueError(f"alpha must be a number of at least 0 or 'auto', got {alpha!r}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class Seen:
    """Features of the rows of a table, by their numbers.

    Parameters
    ----------
    encoder : TableEncoder
    features : FeatureMap
        Drawn, dense.
    rows : array, CSR matrix or data frame of shape (n, e)
    dtype : dtype
    """

    def __init__(self, encoder: TableEncoder, features: FeatureMap, rows: Any, dtype: np.dtype) -> None:
        self.encoder, self.features, self.rows, self.dtype = encoder, features, rows, dtype

    def __call__(self, numbers: NDArray[np.intp]) -> NDArray:
        """Features of shape (b, E)."""
        dense: Any = self.features.dense
        return dense.rows(self.encoder.encode(rows_of(self.rows, numbers), self.dtype))


def _second(y: Any) -> Any:
    """The second table, checked; one column as a table of one."""
    if y is None:
        raise ValueError("KernelCCA requires y to be passed, but the target y is None: give the second table.")
    if is_frame(y):
        check_frame(y)
        return y
    refuse_lazy(y)
    refuse_text(y)
    y = y if hasattr(y, "ndim") else np.asarray(y)
    if y.ndim == 1:
        y = np.asarray(y).reshape(-1, 1)
    y = check_array(y, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, input_name="y")
    require_finite(y)
    return y
