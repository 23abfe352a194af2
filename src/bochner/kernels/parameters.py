"""Gives kernels scikit-learn's `get_params` and `set_params`, and compares and prints them by their parameters."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from copy import deepcopy
from functools import cache
from typing import Any, Self

import numpy as np


class Parametrised:
    """What keeps the arguments of its constructor as attributes: it compares, hashes and prints by them."""

    @abstractmethod
    def _validate(self) -> None:
        """Raise TypeError or ValueError where a parameter is none."""

    @classmethod
    def _parameters(cls) -> list[str]:
        known: Any = cls  # whose own hash is that of its instances, for the type checker
        return _names(known)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name; with `deep`, those of inner kernels too, as ``left__lengthscale``."""
        params = {name: getattr(self, name) for name in self._parameters()}
        if deep:
            inner = {name: value for name, value in params.items() if isinstance(value, Parametrised)}
            for name, value in inner.items():
                params |= {f"{name}__{key}": own for key, own in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, in place; ``left__lengthscale`` reaches into an inner kernel.

        Raises ValueError or TypeError where one is unknown or out of range; then none is set.
        """
        trial = deepcopy(self)
        trial._set(params)
        trial._validate()
        self._set(params)
        return self

    def _set(self, params: dict[str, Any]) -> None:
        for name, value in params.items():
            head, _, rest = name.partition("__")
            if head not in self._parameters():
                raise ValueError(f"{type(self).__name__} has no parameter {head!r}; it has {self._parameters()}.")
            if rest:
                if not isinstance(getattr(self, head), Parametrised):
                    raise ValueError(f"{head} of {type(self).__name__} is not a kernel and has no parameter {rest!r}.")
                getattr(self, head).set_params(**{rest: value})
            else:
                setattr(self, head, value)

    def _key(self) -> tuple:
        return (type(self), *(_hashable(value) for value in self.get_params(deep=False).values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parametrised) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_short(value)}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({inside})"


@cache
def _names(cls: type) -> list[str]:
    """Names of the parameters of a class."""
    return list(inspect.signature(cls).parameters)


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple | range) or (isinstance(value, np.ndarray) and value.ndim):
        return tuple(_hashable(item) for item in value)
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _short(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return " ".join(np.array2string(value, separator=", ", threshold=6).split())
