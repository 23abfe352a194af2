"""What all estimators on feature maps share."""

from __future__ import annotations

from typing import Any, ClassVar

import narwhals as nw
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from bochner.data.table_input import is_frame
from bochner.features.base import KernelParameter
from bochner.inputs.checks import SCALINGS, checked_rows, require_one_of
from bochner.inputs.opened import given_batch
from bochner.sources.opening import is_streamed


class BaseKernelEstimator(KernelParameter):
    """An estimator with a parameter `random_state`, whose fits begin anew, and which
    takes sparse rows.

    A regressor takes several targets.

    Attributes
    ----------
    _allowed : dict of str to tuple
        What parameters may be, as `require_one_of` takes it.
    """

    random_state: Any
    _allowed: ClassVar[dict[str, tuple[Any, ...]]] = {}
    # Of the rows of the fit, where a column told to which group each belongs
    _group_column: str | None = None

    def _check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of its range."""
        for name, allowed in ({"standardize": SCALINGS} | self._allowed).items():
            if hasattr(self, name):
                require_one_of(name, getattr(self, name), *allowed)

    def _forget_fit(self) -> None:
        """Delete all that an earlier fit has learned, so that a fit that fails
        leaves no mixture behind.
        """
        for name in list(vars(self)):
            if name.endswith("_") and not name.endswith("__"):
                delattr(self, name)

    def _seed(self) -> int:
        """Seed of a fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    def _column_of_groups(self, X: Any) -> str | None:
        """The column that told the groups of the rows of the fit, where a data frame
        has it; it is no input.
        """
        name = self._group_column
        if name is None or not is_frame(X):
            return None
        return name if name in nw.from_native(X, eager_only=True).columns else None

    def _in_memory(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> tuple[Any, Any, Any]:
        """Later rows as of `given_batch`, of sources with the columns of the fit."""
        names = getattr(self, "feature_names_in_", None)
        return given_batch(X, y, sample_weight, names=names)

    def _rows(self, X: Any, *, reset: bool, cautions: bool = True) -> Any:
        """Rows as `checked_rows` has them. The column of groups may stay in later
        tables, and files that fit the memory are read.
        """
        if not reset and not hasattr(X, "shape") and is_streamed(X):
            X, _, _ = self._in_memory(X, None)
        column = None if reset else self._column_of_groups(X)
        if column is not None:
            X = nw.from_native(X, eager_only=True).drop(column).to_native()
        return checked_rows(self, X, reset=reset, cautions=cautions)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags
