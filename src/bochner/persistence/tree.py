"""Objects as JSON trees and named tensors, and back again, every node of which is
checked.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache, cached_property
from hashlib import blake2b
from importlib import import_module
from inspect import Parameter, get_annotations, getattr_static, signature
from keyword import iskeyword
from typing import Any, get_origin

import numpy as np
from numpy.typing import NDArray

from bochner.persistence.container import Unreadable

MAX_DEPTH, MAX_TEXT = 64, 2**28
SCALAR = re.compile(r"\|b1|\|[iu]1|[<>]([iu][248]|f[248])")
NUMERIC = re.compile(
    SCALAR.pattern
    + r"|[<>](c8|c16|[mM]8(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)
ITEM_TYPES = (type(None), bool, int, float, str, np.generic)
EXACT = 2**53  # integers up to here survive a reader that holds JSON numbers as float64
BUILTIN = (tuple, list, dict, set, frozenset, str, bytes, int, float, np.ndarray)


def name_problem(cls: type, name: str) -> str | None:
    if not name.isidentifier() or iskeyword(name) or name.startswith("__"):
        return "it is not an attribute name"
    shadowed = getattr_static(cls, name, None)
    hides = hasattr(type(shadowed), "__get__") and not getattr(
        shadowed, "is_plain", False
    )
    if callable(shadowed) or hides:
        return f"it would hide {cls.__name__}.{name}"
    return None


def file_layout(
    dtype: np.dtype, shape: tuple[int, ...]
) -> tuple[np.dtype, tuple[int, ...]]:
    """Dtype and shape in the file: dates as int64, complex numbers as pairs of
    floats, all little-endian.
    """
    if dtype.kind in "mM":
        return np.dtype("<i8"), shape
    if dtype.kind == "c":
        return np.dtype(f"<f{dtype.itemsize // 2}"), (*shape, 2)
    return dtype.newbyteorder("<"), shape


class Encoder:
    """Walks an object into a JSON tree and named tensors."""

    def __init__(self, registry: Mapping[str, str]) -> None:
        self.registry = registry
        self.tensors: dict[str, NDArray] = {}
        self.names: dict[tuple, str] = {}
        self.open: set[int] = set()

    def tag(self, value: Any) -> str | None:
        kind = type(value)
        name = kind.__qualname__
        return name if self.registry.get(name) == kind.__module__ else None

    def node(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) <= EXACT else {"$": "int", "value": hex(value)}
        if kind is float:
            plain = {"$": "float", "value": str(value)}
            return value if math.isfinite(value) else plain
        if isinstance(value, np.generic):
            if SCALAR.fullmatch(value.dtype.str):
                plain = self.node(value.item(), path)
                return {"$": "scalar", "dtype": value.dtype.str, "value": plain}
            return {"$": "cell", "array": self.array(np.asarray(value), path)}
        if kind in (np.ndarray, np.memmap):
            return self.array(value, path)
        if id(value) in self.open:
            raise ValueError(f"{path} contains itself, which cannot be saved.")
        if len(self.open) == MAX_DEPTH:
            raise ValueError(
                f"{path} nests deeper than {MAX_DEPTH} levels, which cannot be saved."
            )
        self.open.add(id(value))
        node = self.container(value, path)
        self.open.remove(id(value))
        return node

    def array(self, value: NDArray, path: str) -> Any:
        dtype = value.dtype
        shape = list(value.shape)
        if dtype.kind in "UO":
            if value.nbytes > MAX_TEXT:
                raise ValueError(
                    f"{path} takes {value.nbytes} bytes, too many for an array of "
                    "text to be saved."
                )
            items = []
            for i, item in enumerate(value.ravel().tolist()):
                place = f"{path}.flat[{i}]"
                if not isinstance(item, ITEM_TYPES):
                    raise TypeError(
                        f"{place} is a {type(item).__name__}; an object array may hold "
                        "only scalars and strings."
                    )
                items.append(self.node(item, place))
            return {"$": "items", "dtype": dtype.str, "shape": shape, "items": items}
        if not NUMERIC.fullmatch(dtype.str):
            raise TypeError(
                f"{path} is an array of dtype {dtype}, which cannot be saved."
            )
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            # Sums over it would round in another order
            return {"$": "transposed", "array": self.array(value.T, path)}
        file_dtype, file_shape = file_layout(dtype, value.shape)
        little = np.array(
            value, dtype=dtype.newbyteorder("<"), order="C", copy=None, subok=False
        )
        tensor = little.reshape(-1).view(file_dtype).reshape(file_shape)
        # Parts of a model may share what they have learned, such as a metric: equal
        # arrays are written once.
        digest = blake2b(tensor.reshape(-1).view(np.uint8).data).digest()
        content = tensor.dtype.str, tensor.shape, digest
        name = self.names.setdefault(content, path.partition(".")[2])
        self.tensors[name] = tensor
        return {"$": "array", "dtype": dtype.str, "shape": shape, "tensor": name}

    def container(self, value: Any, path: str) -> Any:
        if type(value) in (list, tuple):
            items = [self.node(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return items if type(value) is list else {"$": "tuple", "items": items}
        if type(value) is dict:
            if wrong := [key for key in value if type(key) is not str]:
                raise TypeError(
                    f"{path} has the key {wrong[0]!r}; only dicts with string keys "
                    "can be saved."
                )
            nodes = {
                key: self.node(item, f"{path}[{key!r}]") for key, item in value.items()
            }
            return {"$": "dict", "items": nodes}
        if tag := self.tag(value):
            return {"$": "object", "class": tag, "state": self.state(value, path)}
        cure = (
            "; a model may hold numbers, strings, lists, tuples, dicts, arrays, and "
            f"objects of {', '.join(self.registry)}."
        )
        if callable(getattr(value, "fit", None)) and callable(
            getattr(value, "transform", None)
        ):
            cure = (
                ": the file holds no objects of other libraries. Use FourierFeatures "
                "or BinningFeatures, or pickle the model for your own use."
            )
        elif callable(getattr(value, "function", None)):
            cure = (
                ": it holds a function of your own, and the file holds no code. Pickle "
                "the model for your own use, with a function defined by def."
            )
        name = type(value).__name__
        raise TypeError(f"{path} is a {name}, which cannot be saved{cure}")

    def state(self, value: Any, path: str) -> dict[str, Any]:
        attributes = getattr(value, "_state_of_file", value.__getstate__)() or {}
        if not isinstance(attributes, dict) or isinstance(value, BUILTIN):
            raise TypeError(
                f"{path} cannot be saved: a {type(value).__name__} has content "
                "outside of its __dict__."
            )
        state = {}
        for name, item in sorted(attributes.items()):
            if isinstance(getattr_static(type(value), name, None), cached_property):
                continue
            if problem := name_problem(type(value), name):
                raise TypeError(f"{path}.{name} cannot be saved: {problem}.")
            if name == "random_state" and isinstance(
                item, np.random.Generator | np.random.RandomState
            ):
                item = None
            if name == "cv" and not isinstance(item, int | np.integer):
                item = None  # which belongs to the rows of the fit
            state[name] = self.node(item, f"{path}.{name}")
        return state


def encode(model: Any, registry: Mapping[str, str]) -> tuple[Any, dict[str, NDArray]]:
    encoder = Encoder(registry)
    if (tag := encoder.tag(model)) is None:
        raise TypeError(
            f"{type(model).__name__} cannot be saved; save takes one of "
            f"{', '.join(registry)}."
        )
    if hasattr(model, "fit") and hasattr(model, "__sklearn_tags__"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    return encoder.node(model, tag), encoder.tensors


ITEMS = re.compile(r"[<>]U\d{1,9}|\|O")
NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Decoder:
    """Rebuilds an object from a JSON tree and tensors, checking every node."""

    def __init__(self, tensors: Mapping[str, Any], registry: Mapping[str, str]) -> None:
        self.tensors = tensors
        self.unused = set(tensors)
        self.depth = -1
        self.registry = registry

    def root(self, node: dict[str, Any]) -> Any:
        value = self.value(node)
        if self.unused:
            raise Unreadable(f"its tensor {min(self.unused)!r:.60} belongs to nothing")
        return value

    def value(self, node: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("its tree nests too deeply")
        value = node
        if isinstance(node, list):
            value = [self.value(item) for item in node]
        elif isinstance(node, dict):
            # A method for each kind of node
            read = getattr(self, f"read_{node.get('$')}", None)
            value = _malformed("node") if read is None else read(node)
        elif isinstance(node, float) and not math.isfinite(node):
            _malformed("number")
        self.depth -= 1
        return value

    def read_int(self, node: Any) -> int:
        (digits,) = _fields(node, value=str)
        if re.fullmatch(r"-?0x[0-9a-f]+", digits):
            return int(digits, 16)
        return _malformed("integer")

    def read_float(self, node: Any) -> float:
        (name,) = _fields(node, value=str)
        return NONFINITE[name] if name in NONFINITE else _malformed("number")

    def read_scalar(self, node: Any) -> Any:
        name, value = _fields(node, dtype=str, value=object)
        dtype = _dtype(name, SCALAR)
        value = self.value(value)
        if type(value) is not {"b": bool, "f": float}.get(dtype.kind, int):
            _malformed("scalar")
        try:
            with np.errstate(over="ignore"):
                return np.array(value, dtype)[()]
        except OverflowError:
            return _malformed("scalar")

    def read_cell(self, node: Any) -> Any:
        (array,) = _fields(node, array=dict)
        if array.get("$") not in ("array", "items") or array.get("shape") != []:
            _malformed("scalar")
        return self.value(array)[()]

    def read_tuple(self, node: Any) -> tuple:
        (items,) = _fields(node, items=list)
        return tuple(self.value(item) for item in items)

    def read_dict(self, node: Any) -> dict[str, Any]:
        (items,) = _fields(node, items=dict)
        return {key: self.value(item) for key, item in items.items()}

    def read_items(self, node: Any) -> Any:
        name, shape, items = _fields(node, dtype=str, shape=list, items=list)
        dtype = _dtype(name, ITEMS)
        values = [self.value(item) for item in items]
        allowed = str if dtype.kind == "U" else ITEM_TYPES
        if dtype.itemsize * len(items) > MAX_TEXT or not all(
            isinstance(value, allowed) for value in values
        ):
            _malformed("array of text or objects")
        of_array = _shape(shape, dtype)
        if math.prod(of_array) != len(values):
            _malformed("array")
        array = np.empty(len(values), dtype)
        array[:] = values
        return array.reshape(of_array)

    def read_array(self, node: Any) -> Any:
        dtype_name, shape, name = _fields(node, dtype=str, shape=list, tensor=str)
        if name not in self.tensors:
            _malformed("array")
        self.unused.discard(name)
        tensor = self.tensors[name]
        dtype = _dtype(dtype_name, NUMERIC)
        of_array = _shape(shape, dtype)
        if (tensor.dtype, tensor.shape) != file_layout(dtype, of_array):
            _malformed("array")
        if dtype.kind == "b" and tensor.size and tensor.view(np.uint8).max() > 1:
            _malformed("array of booleans")
        little = tensor.reshape(-1).view(dtype.newbyteorder("<")).reshape(of_array)
        return little.astype(dtype, copy=False)

    def read_transposed(self, node: Any) -> Any:
        (inner,) = _fields(node, array=dict)
        if inner.get("$") != "array":
            _malformed("array")
        return self.read_array(inner).T

    def read_object(self, node: Any) -> Any:
        tag, state = _fields(node, **{"class": str, "state": dict})
        if tag not in self.registry:
            raise Unreadable(
                f"it holds the class {tag!r:.60}, which this release does not load",
                "upgrade bochner",
            )
        attributes = {name: self.value(item) for name, item in state.items()}
        cls = getattr(import_module(self.registry[tag]), tag)
        for name in getattr(cls, "_unsaved", ()):
            attributes.pop(name, None)
        for name in attributes:
            if problem := name_problem(cls, name):
                raise Unreadable(
                    f"it holds the attribute {name!r:.60} of {tag}, and {problem}"
                )
        # Attributes have the types that the class annotates; parameters that the file
        # lacks have their defaults
        kinds, parameters = declaration(cls)
        for name, value in attributes.items():
            if kinds.get(name) and not isinstance(value, kinds[name]):
                raise Unreadable(
                    f"it is inconsistent: {tag}.{name} is a {type(value).__name__}"
                )
        complete = parameters | attributes
        for name, value in complete.items():
            if value is Parameter.empty:
                raise Unreadable(f"it is inconsistent: {tag}.{name} is missing")
        instance = cls.__new__(cls)
        instance.__dict__.update(complete)
        return instance


@cache
def declaration(cls: type) -> tuple[dict[str, tuple[type, ...]], dict[str, Any]]:
    """What a class says of its attributes: the types of those that it annotates, none
    where it may be any, and its parameters with defaults.

    Data classes and estimators keep parameters by their names.
    """
    kinds = {}
    for base in reversed(cls.__mro__):
        module_names = vars(sys.modules[base.__module__])
        for name, hint in get_annotations(base).items():
            kinds[name] = (
                kinds_of(ast.parse(hint, mode="eval").body, module_names)
                if isinstance(hint, str)
                else ()
            )
    parameters = {}
    if is_dataclass(cls) or hasattr(cls, "get_params"):
        named = signature(cls).parameters.values()
        parameters = {one.name: one.default for one in named}
    return kinds, parameters


def kinds_of(hint: ast.expr, namespace: Mapping[str, Any]) -> tuple[type, ...]:
    """Classes of the values of a type hint, which is not evaluated; none where it may
    be any.

    Numbers of all kinds are alike, and so are sequences.
    """
    match hint:
        case ast.BinOp(left=left, right=right):
            kinds = kinds_of(left, namespace), kinds_of(right, namespace)
            return kinds[0] + kinds[1] if all(kinds) else ()
        case ast.Subscript(value=value):
            return kinds_of(value, namespace)
        case ast.Constant(value=None):
            return (type(None),)
        case ast.Name(id="int" | "float" | "bool"):
            return (int, float, np.generic)
        case ast.Name(id="list" | "tuple"):
            return (list, tuple)
        case ast.Name(id="NDArray") | ast.Attribute(attr="ndarray"):
            return (np.ndarray,)
        case ast.Name(id=name):
            kind = namespace.get(name, getattr(builtins, name, None))
            if get_origin(kind) is np.ndarray:
                return (np.ndarray,)
            return (kind,) if isinstance(kind, type) and kind is not Any else ()
    return ()


def _malformed(what: str) -> Any:
    raise Unreadable(f"its tree holds a malformed {what}")


def _fields(node: dict[str, Any], **kinds: type) -> list[Any]:
    if set(node) != {"$", *kinds} or not all(
        isinstance(node[name], kind) for name, kind in kinds.items()
    ):
        _malformed("node")
    return [node[name] for name in kinds]


def _dtype(name: str, pattern: re.Pattern[str]) -> np.dtype:
    try:
        return np.dtype(name) if pattern.fullmatch(name) else _malformed("dtype")
    except (TypeError, ValueError):
        return _malformed("dtype")


def _shape(shape: list, dtype: np.dtype) -> tuple[int, ...]:
    if len(shape) > 64 or not all(type(n) is int and n >= 0 for n in shape):
        _malformed("shape")
    if math.prod(max(n, 1) for n in shape) * dtype.itemsize < 2**62:
        return tuple(shape)
    return _malformed("shape")
