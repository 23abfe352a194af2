"""Public methods take arrays of any library; of tensors they make tensors, on the
same device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from bochner.devices.device import Device, device_of, is_foreign, to_host
from bochner.settings import settings

Method = TypeVar("Method", bound=Callable[..., Any])
ARRAYS = "X", "y", "X_train", "y_train", "sample_weight", "classes", "q"
ASIDE = "classes", "q"  # few numbers, which may lie elsewhere


def any_arrays(method: Method) -> Method:
    """Let a method of an estimator take arrays of other libraries; it is given those of
    NumPy.

    Where they are tensors on a device, this is the one of the settings inside. If X is
    a tensor, numbers that the method returns go to where it lies, and are in single
    precision where X is; labels that are not numbers stay NumPy's, and sparse matrices
    SciPy's.
    """
    takes = signature(method)

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        bound = takes.bind_partial(*arguments, **named)
        foreign = {
            name: array
            for name, array in bound.arguments.items()
            if name in ARRAYS and is_foreign(array)
        }
        if not foreign:
            return method(*arguments, **named)
        place = device_of(*(foreign[name] for name in foreign if name not in ASIDE))
        for name, array in foreign.items():
            bound.arguments[name] = to_host(array)
        is_host = place is None or place.is_host
        with nullcontext() if is_host else settings(device=place):
            result = method(*bound.args, **bound.kwargs)
        X: Any = foreign.get("X")
        where = device_of(X)
        if where is None:
            return result
        return _returned(result, where, str(X.dtype).endswith("float32"))

    return cast(Method, call)


def _returned(result: Any, place: Device, single: bool) -> Any:
    """What a method has found, where it is asked for, in single precision or as it
    is.
    """
    if isinstance(result, tuple):
        return tuple(_returned(one, place, single) for one in result)
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "biuf":
        return result
    if single and result.dtype == np.float64:
        result = result.astype(np.float32)
    return place.put(result)
