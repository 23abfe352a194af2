"""Turns an object into a JSON tree and named tensors."""

from __future__ import annotations

import math
from functools import cached_property
from inspect import getattr_static
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.persistence.container import (
    ITEM_TYPES,
    MAX_DEPTH,
    MAX_TEXT,
    NUMERIC,
    SCALAR,
    Registry,
    file_layout,
    name_problem,
)

EXACT = 2**53  # integers up to here survive a reader that holds JSON numbers as float64
BUILTIN = (tuple, list, dict, set, frozenset, str, bytes, int, float, np.ndarray)


class Encoder:
    """Walks an object into a JSON tree and named tensors."""

    def __init__(self, registry: Registry) -> None:
        self.tags = {place: tag for tag, place in registry.items()}
        self.tensors: dict[str, NDArray] = {}
        self.open: set[int] = set()

    def tag(self, value: Any) -> str | None:
        return self.tags.get((type(value).__module__, type(value).__qualname__))

    def node(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) <= EXACT else {"$": "int", "value": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"$": "float", "value": str(value)}
        if isinstance(value, np.generic):
            return self.scalar(value, path)
        if kind in (np.ndarray, np.memmap):
            return self.array(value, path)
        if id(value) in self.open:
            raise ValueError(f"{path} contains itself, which cannot be saved.")
        if len(self.open) == MAX_DEPTH:
            raise ValueError(f"{path} nests deeper than {MAX_DEPTH} levels, which cannot be saved.")
        self.open.add(id(value))
        node = self.container(value, path)
        self.open.remove(id(value))
        return node

    def scalar(self, value: np.generic, path: str) -> Any:
        if SCALAR.fullmatch(value.dtype.str):
            return {"$": "scalar", "dtype": value.dtype.str, "value": self.node(value.item(), path)}
        return {"$": "cell", "array": self.array(np.asarray(value), path)}

    def array(self, value: NDArray, path: str) -> Any:
        dtype, shape = value.dtype, list(value.shape)
        if dtype.kind in "UO":
            if value.nbytes > MAX_TEXT:
                raise ValueError(f"{path} takes {value.nbytes} bytes, too many for an array of text to be saved.")
            items = [self.item(item, f"{path}.flat[{i}]") for i, item in enumerate(value.ravel().tolist())]
            return {"$": "items", "dtype": dtype.str, "shape": shape, "items": items}
        if not NUMERIC.fullmatch(dtype.str):
            raise TypeError(f"{path} is an array of dtype {dtype}, which cannot be saved.")
        if value.flags.f_contiguous and not value.flags.c_contiguous:  # sums over it would round in another order
            return {"$": "transposed", "array": self.array(value.T, path)}
        name = path.partition(".")[2]
        file_dtype, file_shape = file_layout(dtype, value.shape)
        little = np.array(value, dtype=dtype.newbyteorder("<"), order="C", copy=None, subok=False)
        self.tensors[name] = little.reshape(-1).view(file_dtype).reshape(file_shape)
        return {"$": "array", "dtype": dtype.str, "shape": shape, "tensor": name}

    def item(self, value: Any, path: str) -> Any:
        if isinstance(value, ITEM_TYPES):
            return self.node(value, path)
        raise TypeError(f"{path} is a {type(value).__name__}; an object array may hold only scalars and strings.")

    def container(self, value: Any, path: str) -> Any:
        if type(value) in (list, tuple):
            items = [self.node(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return items if type(value) is list else {"$": "tuple", "items": items}
        if type(value) is dict:
            if wrong := [key for key in value if type(key) is not str]:
                raise TypeError(f"{path} has the key {wrong[0]!r}; only dicts with string keys can be saved.")
            return {"$": "dict", "items": {key: self.node(item, f"{path}[{key!r}]") for key, item in value.items()}}
        if tag := self.tag(value):
            return {"$": "object", "class": tag, "state": self.state(value, path)}
        if callable(getattr(value, "fit", None)) and callable(getattr(value, "transform", None)):
            raise TypeError(
                f"{path} is a {type(value).__name__}, which cannot be saved: the file holds no objects of other "
                "libraries. Use FourierFeatures or BinningFeatures, or pickle the model for your own use."
            )
        if callable(getattr(value, "function", None)):
            raise TypeError(
                f"{path} is a {type(value).__name__}, which cannot be saved: it holds a function of your own, and the "
                "file holds no code. Pickle the model for your own use, with a function defined by def."
            )
        raise TypeError(
            f"{path} is a {type(value).__name__}, which cannot be saved; a model may hold numbers, strings, lists, "
            f"tuples, dicts, arrays, and objects of {', '.join(self.tags.values())}."
        )

    def state(self, value: Any, path: str) -> dict[str, Any]:
        attributes = getattr(value, "_state_of_file", value.__getstate__)() or {}
        if not isinstance(attributes, dict) or isinstance(value, BUILTIN):
            raise TypeError(f"{path} cannot be saved: a {type(value).__name__} has content outside of its __dict__.")
        state = {}
        for name, item in sorted(attributes.items()):
            if isinstance(getattr_static(type(value), name, None), cached_property):
                continue
            if problem := name_problem(type(value), name):
                raise TypeError(f"{path}.{name} cannot be saved: {problem}.")
            if name == "random_state" and isinstance(item, np.random.Generator | np.random.RandomState):
                item = None
            state[name] = self.node(item, f"{path}.{name}")
        return state


def encode(model: Any, registry: Registry) -> tuple[Any, dict[str, NDArray]]:
    encoder = Encoder(registry)
    if (tag := encoder.tag(model)) is None:
        raise TypeError(f"{type(model).__name__} cannot be saved; save takes one of {', '.join(registry)}.")
    if hasattr(model, "fit") and hasattr(model, "__sklearn_tags__"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    return encoder.node(model, tag), encoder.tensors
