"""What all estimators on feature maps share."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from bochner.features.base import KernelParameter
from bochner.inputs.checks import SCALINGS, require_one_of


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

    def _check_parameters(self) -> None:
        """Raise ValueError where a parameter is out of its range."""
        for name, allowed in ({"standardize": SCALINGS} | self._allowed).items():
            if hasattr(self, name):
                require_one_of(name, getattr(self, name), *allowed)

    def _forget_fit(self) -> None:
        """Delete all that an earlier fit has learned, so that a fit that fails
        leaves no mixture behind.
        """
        for name in [
            name
            for name in vars(self)
            if name.endswith("_") and not name.endswith("__")
        ]:
            delattr(self, name)

    def _seed(self) -> int:
        """Seed of a fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags
