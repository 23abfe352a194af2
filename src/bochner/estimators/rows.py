"""Rows as estimators take them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import validate_data

from bochner.data.table_input import check_frame, checked_sparse, is_frame, refuse_text, require_finite
from bochner.estimators.checks import refuse_lazy


def checked_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as a data frame or as a finite array or CSR matrix of real numbers, its columns checked."""
    if is_frame(X):
        check_frame(X)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    refuse_lazy(X)
    refuse_text(X)
    X = checked_sparse(X)
    X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
    require_finite(X)
    return X
