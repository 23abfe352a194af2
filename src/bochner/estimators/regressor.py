"""Kernel ridge regression by random features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y, check_consistent_length

from bochner.data.table_statistic import TableStatistic
from bochner.estimators.base import KernelMachine
from bochner.estimators.checks import checked_weight, require_target


class KernelMachineRegressor(RegressorMixin, KernelMachine):
    """Kernel ridge regression in linear time, by random Fourier features.

    Fits  min_w sum_i s_i (y_i - b - z(x_i)'w)^2 + alpha ||w||^2  with z a random feature map of the kernel, in one
    pass over the rows and O(D^2) memory. Without arguments, kernel, lengthscale, alpha and D are chosen from the data.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        A `bochner.kernels.Kernel` is used as it is given, on columns in their own units. A name ("gaussian",
        "laplacian", "cauchy", "matern12", "matern32", "matern52", "rationalquadratic") is a kernel on standardised
        columns, its lengthscale chosen by leave-one-out errors on a sample of the rows; "auto" chooses the better of
        Gaussian and Laplacian too.
    features : {"auto", "fourier"}, default="auto"
        The feature map.
    n_components : int or "auto", default="auto"
        Number D of random features; "auto" is 2 n, within 128 and 2,048, less beyond half a million rows.
    metric : {"auto", "isotropic"}, default="auto"
        One lengthscale for all columns, after scaling.
    alpha : float, sequence of float, "auto", "loo" or "gcv", default="auto"
        Ridge term, with the meaning it has in scikit-learn's `KernelRidge`. Of a sequence, or of a path where it is
        "auto", the exact leave-one-out error decides, computed on 4,096 rows where there are more ("loo": on all
        rows, in a second pass); "gcv" minimises generalised cross-validation, without any second look at the rows.
    loss : {"squared"}, default="squared"
    random_state : int, RandomState or None, default=None
        Seed of the features and of the samples on which choices are made.
    verbose : int, default=0
        Show progress on a terminal where positive.

    Attributes
    ----------
    kernel_ : Kernel
        In units of the encoded columns.
    features_ : FourierFeatures
    encoder_ : TableEncoder
        From the rows as they come to the columns that the kernel sees.
    alpha_ : float
    alphas_ : array of shape (A,)
        What was tried, ascending.
    alpha_scores_ : array of shape (A,), or None where one alpha was given
        Criterion of each: mean squared error over the targets' variances.
    coef_ : array of shape (D, K)
        On the features, for targets of mean 0 and deviation 1.
    intercept_ : array of shape (K,)
        The same.
    target_mean_, target_scale_ : arrays of shape (K,)
        Predictions are ``(z(x)'coef_ + intercept_) * target_scale_ + target_mean_``.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: parameters out of range; missing or infinite values in arrays (data frames may have missing ones);
        negative weights; a target that is missing or not numeric.
    MemoryError
        Before any work, where D^2 moments do not fit the memory that is free.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelMachineRegressor(random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.5)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelMachineRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,) or (n, K)
            Targets; of several, each is scaled to unit variance for the choice of alpha and kernel.
        sample_weight : array of shape (n,), optional
            Not negative. A weight of w fits as w equal rows do; only their ratios matter to what is chosen, where
            alpha is chosen too.

        Returns
        -------
        self
        """
        self._begin()
        X = self._rows(X, reset=True)
        require_target(self, y)
        try:
            y = _check_y(y, multi_output=True, y_numeric=True, estimator=self).astype(np.float64, copy=False)
        except ValueError as error:
            text = "could not convert string" in str(error)
            raise ValueError(f"{error}. For classes take KernelMachineClassifier.") if text else error from None
        check_consistent_length(X, y)
        weight = checked_weight(sample_weight, X)
        moments = TableStatistic.of(y.reshape(len(y), -1), weight).summary
        mean, scale = moments.mean, np.sqrt(moments.squares / moments.weight)
        if not np.isfinite(scale).all():
            raise ValueError("The target holds values too large to standardise: divide it by a constant.")
        scale[moments.low == moments.high] = 1.0
        coef, _ = self._fit(X, y, weight, lambda part: (part.reshape(len(part), -1) - mean) / scale)
        self.target_mean_, self.target_scale_, self._one_target = mean, scale, y.ndim == 1
        self.coef_ = coef
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict targets.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, K)
        """
        scores = self._scores(X) * self.target_scale_ + self.target_mean_
        return scores[:, 0] if self._one_target else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
