"""Scores of predictions for collections of Dask."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

from bochner.features.boundary import any_arrays
from bochner.sources.dask_parts import is_collection


class LazyScore:
    """An estimator whose score also takes collections, of which no rows are gathered: predictions and targets are."""

    predict: Any

    @any_arrays
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score predictions: the share of right labels, or R2 of numbers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or such a collection of Dask
            Arrays of PyTorch, CuPy and JAX too.
        y : array of shape (n,) or (n, K); of a Dask data frame also the name of a column
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
            At most 1.
        """
        if not is_collection(X):
            return super().score(X, y, sample_weight)  # type: ignore[misc]
        import dask
        from sklearn.metrics import accuracy_score, r2_score

        y, sample_weight = (X[values] if isinstance(values, str) else values for values in (y, sample_weight))
        found, y, weight = dask.compute(self.predict(X), y, sample_weight)
        return float((accuracy_score if is_classifier(self) else r2_score)(y, found, sample_weight=weight))
