"""Save and load models: one safetensors file with a JSON tree of allowed classes and a checksum, no pickle.

The format is specified in ``docs/format.md``. A class becomes storable by its name in `CLASSES`, if
its ``__getstate__`` gives a dict of numbers, strings, lists, tuples, dicts, arrays and storable objects.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from inspect import getattr_static
from keyword import iskeyword
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ModelFileError", "describe", "load", "save"]

Registry = Mapping[str, tuple[str, str]]
Path = str | os.PathLike[str]

CLASSES: Registry = {
    name: (module, name)
    for module, names in {
        "bochner.estimators.regressor": ["KernelMachineRegressor"],
        "bochner.estimators.classifier": ["KernelMachineClassifier"],
        "bochner.features.fourier": ["FourierFeatures"],
        "bochner.kernels.stationary": ["Gaussian", "Laplacian", "Cauchy", "Matern", "RationalQuadratic"],
        "bochner.kernels.base": ["Sum", "Product", "Scaled"],
        "bochner.data.table": ["TableEncoder"],
        "bochner.data.table_statistic": ["TableStatistic", "Summary"],
        "bochner.data.table_encodings": ["NumberColumns", "TextColumn", "TimeColumn"],
    }.items()
    for name in names
}

FORMAT, VERSION, OLDEST = "bochner-model", 1, 1
MAX_HEADER, MAX_VALUES, MAX_TEXT, MAX_DEPTH = 2**26, 2**22, 2**28, 64
EXACT = 2**53  # integers up to here survive a reader that holds JSON numbers as float64
BLANK = "0" * 64
CODES = {"|b1": "BOOL", "|i1": "I8", "|u1": "U8", "<f2": "F16", "<f4": "F32", "<f8": "F64"}
CODES |= {f"<{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "iu" for size in (2, 4, 8)}
SCALAR = re.compile(r"\|b1|\|[iu]1|[<>]([iu][248]|f[248])")
NUMERIC = re.compile(SCALAR.pattern + r"|[<>](c8|c16|[mM]8(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)")
ITEMS = re.compile(r"[<>]U\d{1,9}|\|O")
LEAVES = (type(None), bool, int, float, str, np.generic)
BUILTIN = (tuple, list, dict, set, frozenset, str, bytes, int, float, np.ndarray)
KINDS = {"int", "float", "scalar", "cell", "tuple", "dict", "items", "array", "object"}
NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
FOREIGN = "give a file that bochner.save wrote"
DAMAGED = "copy the file again or save the model anew"


class ModelFileError(ValueError):
    """A model file is damaged, foreign, or of a format version that this release does not read."""


def save(model: Any, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a model to one file, which takes the place of `path` only once it is complete.

    The same model gives the same bytes. A NumPy generator as `random_state` is stored as None: what was drawn with it
    is stored itself.

    Parameters
    ----------
    model : fitted estimator, feature map, table encoder, or kernel
    path : str or path-like
        By convention it ends in ``.safetensors``.
    metadata : dict of str to str, optional
        Kept beside the model under the checksum; `describe` returns it.

    Raises
    ------
    NotFittedError
        If `model` is an estimator that is not fitted.
    TypeError
        If its class, or the value of an attribute, cannot be saved; the message names the attribute. If `metadata`
        holds anything but strings.
    ValueError
        If it contains itself, nests deeper than 64 levels, or holds too much text for the header.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bochner.kernels import Gaussian
    >>> from bochner.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "kernel.safetensors"
    ...     save(Gaussian(lengthscale=2.0), path)
    ...     load(path)
    Gaussian(lengthscale=2.0)
    """
    _save(model, path, CLASSES, metadata)


def load(path: Path) -> Any:
    """Read a model that `save` wrote; nothing from the file is executed.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of an unsupported format version.
    OSError
        If it cannot be opened (FileNotFoundError, IsADirectoryError, PermissionError).
    """
    return _load(path, CLASSES)


def describe(path: Path) -> dict[str, Any]:
    """Summarise a model file from its header, without building the model or verifying the checksum.

    Returns
    -------
    dict
        ``format_version``, ``library_version``, ``class``, ``n_tensors``, ``tensor_bytes``, ``file_bytes``,
        ``metadata``, and ``tree``: nested dicts, lists and scalars fit for JSON, an object as its class and its
        attributes, a numeric array as ``"array float32 (500, 54)"``.

    Raises
    ------
    ModelFileError, OSError
        As `load`.
    """
    with _faults_of(path), open(os.fspath(path), "rb") as file:
        header = _read_header(file)
        tree = _Summary(dict.fromkeys(header.tensors), CLASSES).root(header.tree)
    return {
        "format_version": header.format_version,
        "library_version": header.library_version,
        "class": tree["class"],
        "n_tensors": len(header.tensors),
        "tensor_bytes": header.size - len(header.raw),
        "file_bytes": header.size,
        "metadata": header.metadata,
        "tree": tree,
    }


def _save(model: Any, path: Path, registry: Registry, metadata: Mapping[str, str] | None = None) -> None:
    metadata = dict(metadata or {})
    if not all(type(text) is str for item in metadata.items() for text in item):
        raise TypeError("metadata must be a dict of strings to strings.")
    _write(path, _pack(*_encode(model, registry), metadata))


def _pack(tree: Any, tensors: dict[str, NDArray], metadata: Mapping[str, str] | None = None) -> list[Any]:
    order = sorted(tensors, key=lambda name: -tensors[name].itemsize)
    buffers = [tensors[name].reshape(-1).view(np.uint8) for name in order]
    blank = _header(tree, {name: tensors[name] for name in order}, metadata)
    mark = b'"checksum":"%s"'
    return [blank.replace(mark % BLANK.encode(), mark % _digest([blank, *buffers]).encode(), 1), *buffers]


def _header(tree: Any, tensors: dict[str, NDArray], metadata: Mapping[str, str] | None) -> bytes:
    from bochner import __version__

    strings = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "library_version": __version__,
        "checksum": BLANK,
        "tree": json.dumps(tree, allow_nan=False, separators=(",", ":")),
    }
    if metadata:
        strings["metadata"] = json.dumps(metadata, separators=(",", ":"))
    entries: dict[str, Any] = {"__metadata__": strings}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        entries[name] = {"dtype": CODES[tensor.dtype.str], "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER or _values(text) > MAX_VALUES:
        raise ValueError("The model holds too much text, or too many values outside of numeric arrays, to be saved.")
    return len(text).to_bytes(8, "little") + text


def _values(text: bytes) -> int:
    return sum(text.count(mark) for mark in b",[{")


def _digest(chunks: Iterable[Any]) -> str:
    sha = hashlib.sha256()
    for chunk in chunks:
        sha.update(chunk)
    return sha.hexdigest()


def _write(path: Path, chunks: Iterable[Any]) -> None:
    target = os.path.realpath(os.fspath(path))
    temporary = os.path.join(os.path.dirname(target), f".bochner-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if os.path.exists(target):
                os.chmod(temporary, os.stat(target).st_mode & 0o777)
            for chunk in chunks:
                file.write(chunk)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


class _Encoder:
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
            items = [self.leaf(item, f"{path}.flat[{i}]") for i, item in enumerate(value.ravel().tolist())]
            return {"$": "items", "dtype": dtype.str, "shape": shape, "items": items}
        if not NUMERIC.fullmatch(dtype.str):
            raise TypeError(f"{path} is an array of dtype {dtype}, which cannot be saved.")
        name = path.partition(".")[2]
        stored, stored_shape = _stored(dtype, value.shape)
        little = np.array(value, dtype=dtype.newbyteorder("<"), order="C", copy=None, subok=False)
        self.tensors[name] = little.reshape(-1).view(stored).reshape(stored_shape)
        return {"$": "array", "dtype": dtype.str, "shape": shape, "tensor": name}

    def leaf(self, value: Any, path: str) -> Any:
        if isinstance(value, LEAVES):
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
        raise TypeError(
            f"{path} is a {type(value).__name__}, which cannot be saved; a model may hold numbers, strings, lists, "
            f"tuples, dicts, arrays, and objects of {', '.join(self.tags.values())}."
        )

    def state(self, value: Any, path: str) -> dict[str, Any]:
        attributes = value.__getstate__() or {}
        if not isinstance(attributes, dict) or isinstance(value, BUILTIN):
            raise TypeError(f"{path} cannot be saved: a {type(value).__name__} has content outside of its __dict__.")
        state = {}
        for name, item in sorted(attributes.items()):
            if isinstance(getattr_static(type(value), name, None), cached_property):
                continue
            if fault := _name_fault(type(value), name):
                raise TypeError(f"{path}.{name} cannot be saved: {fault}.")
            if name == "random_state" and isinstance(item, np.random.Generator | np.random.RandomState):
                item = None
            state[name] = self.node(item, f"{path}.{name}")
        return state


def _encode(model: Any, registry: Registry) -> tuple[Any, dict[str, NDArray]]:
    encoder = _Encoder(registry)
    if (tag := encoder.tag(model)) is None:
        raise TypeError(f"{type(model).__name__} cannot be saved; save takes one of {', '.join(registry)}.")
    if hasattr(model, "fit") and hasattr(model, "__sklearn_tags__"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    return encoder.node(model, tag), encoder.tensors


def _name_fault(cls: type, name: str) -> str | None:
    if not name.isidentifier() or iskeyword(name) or name.startswith("__"):
        return "it is no attribute name"
    shadowed = getattr_static(cls, name, None)
    if callable(shadowed) or hasattr(type(shadowed), "__get__"):
        return f"it would hide {cls.__name__}.{name}"
    return None


def _stored(dtype: np.dtype, shape: tuple[int, ...]) -> tuple[np.dtype, tuple[int, ...]]:
    """Dtype and shape in the file: dates as int64, complex numbers as pairs of floats, all little-endian."""
    if dtype.kind in "mM":
        return np.dtype("<i8"), shape
    if dtype.kind == "c":
        return np.dtype(f"<f{dtype.itemsize // 2}"), (*shape, 2)
    return dtype.newbyteorder("<"), shape


class _Fault(Exception):
    """What is wrong with a file and what to do; becomes a ModelFileError that names the file."""

    def __init__(self, reason: str, advice: str = DAMAGED) -> None:
        super().__init__(f"{reason}; {advice}")


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    try:
        yield
    except _Fault as fault:
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}: {fault}.") from None


class _Header(NamedTuple):
    raw: bytes
    size: int
    format_version: int
    library_version: str
    checksum: str
    metadata: dict[str, str]
    tree: Any
    tensors: list[str]


def _load(path: Path, registry: Registry) -> Any:
    from safetensors import SafetensorError
    from safetensors.numpy import load as read_tensors

    with _faults_of(path):
        with open(os.fspath(path), "rb") as file:
            header = _read_header(file)
            file.seek(0)
            data = file.read(header.size)
        blank = header.raw.replace(header.checksum.encode(), BLANK.encode())
        body = memoryview(data)[len(header.raw) :]
        if not data.startswith(header.raw) or header.raw.count(header.checksum.encode()) != 1:
            raise _Fault("its header is inconsistent")
        if _digest([blank, body]) != header.checksum:
            raise _Fault("its checksum does not match its content: it was changed or damaged")
        try:
            tensors = read_tensors(data)
        except (SafetensorError, ValueError, KeyError) as error:
            raise _Fault(f"its tensors are invalid ({error})") from None
        return _Decoder(tensors, registry).root(header.tree)


def _read_header(file: BinaryIO) -> _Header:
    size = os.fstat(file.fileno()).st_size
    head = file.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > min(size - 8, MAX_HEADER):
        raise _Fault(f"it is no model or was cut short: a header of {length} bytes in a file of {size}", FOREIGN)
    text = file.read(length)
    entries = _parse(text, FOREIGN)
    metadata = entries.pop("__metadata__", None) if isinstance(entries, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise _Fault("it is not a bochner model", FOREIGN)
    written = _read_version(metadata)
    library, checksum, tree = (metadata.get(key) for key in ("library_version", "checksum", "tree"))
    own = _read_metadata(metadata.pop("metadata", "{}"))
    if len(metadata) != 5 or not isinstance(library, str) or not isinstance(tree, str) or not library.isprintable():
        raise _Fault("its metadata are incomplete")
    if not isinstance(checksum, str) or not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise _Fault("its checksum is malformed")
    _check_size(entries, size - 8 - length)
    nodes = _parse(tree.encode(errors="replace"))
    return _Header(head + text, size, written, library, checksum, own, nodes, list(entries))


def _read_metadata(text: Any) -> dict[str, str]:
    own = _parse(text.encode(errors="replace")) if isinstance(text, str) else None
    if not isinstance(own, dict) or not all(isinstance(value, str) for value in own.values()):
        raise _Fault("its metadata are malformed")
    return own


def _check_size(entries: dict[str, Any], room: int) -> None:
    try:
        ends = [entry["data_offsets"][1] for entry in entries.values()]
    except (TypeError, KeyError, IndexError):
        ends = [None]
    if not all(type(end) is int for end in ends):
        raise _Fault("its list of tensors is malformed")
    end = max(ends, default=0)
    if end != room:
        raise _Fault(f"it was cut short or added to: its tensors end at byte {end} and the file at {room}")


def _read_version(metadata: dict[str, Any]) -> int:
    written = metadata.get("format_version")
    if not isinstance(written, str) or not re.fullmatch(r"[0-9]{1,9}", written):
        raise _Fault("its format version is malformed")
    if int(written) > VERSION:
        raise _Fault(
            f"its format version {written} is newer than {VERSION}, the newest that is known", "upgrade bochner"
        )
    if int(written) < OLDEST:
        raise _Fault(f"its format version {written} is no longer read", "save the model anew with this release")
    return int(written)


def _parse(text: bytes, advice: str = DAMAGED) -> Any:
    if _values(text) > MAX_VALUES:
        raise _Fault(f"its header holds more than {MAX_VALUES} values", advice)
    try:
        return json.loads(text.decode(), parse_int=_integer, parse_constant=_refuse, object_pairs_hook=_unique)
    except RecursionError:
        raise _Fault("its header nests too deeply", advice) from None
    except ValueError as error:
        raise _Fault(f"its header is no valid JSON ({error})", advice) from None


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= 20 else _refuse("a long integer")


def _refuse(what: str) -> Any:
    raise ValueError(f"it holds {what:.20}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return result if len(result := dict(pairs)) == len(pairs) else _refuse("a repeated key")


class _Decoder:
    """Rebuilds an object from a JSON tree and tensors, checking every node."""

    def __init__(self, tensors: Mapping[str, Any], registry: Registry) -> None:
        self.tensors = dict(tensors)
        self.registry = registry

    def root(self, node: Any) -> Any:
        if not isinstance(node, dict) or node.get("$") != "object":
            raise _Fault("its tree does not begin with an object")
        value = self.value(node)
        if self.tensors:
            raise _Fault(f"its tensor {min(self.tensors)!r:.60} belongs to nothing")
        return value

    def value(self, node: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise _Fault("its tree nests too deeply")
        if isinstance(node, list):
            return [self.value(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node if not isinstance(node, float) or math.isfinite(node) else _malformed("number")
        kind = node.get("$")
        if not isinstance(kind, str) or kind not in KINDS:
            _malformed("node")
        return getattr(self, f"read_{kind}")(node, depth)

    def read_int(self, node: Any, depth: int) -> int:
        (digits,) = _fields(node, value=str)
        return int(digits, 16) if re.fullmatch(r"-?0x[0-9a-f]+", digits) else _malformed("integer")

    def read_float(self, node: Any, depth: int) -> float:
        (name,) = _fields(node, value=str)
        return NONFINITE[name] if name in NONFINITE else _malformed("number")

    def read_scalar(self, node: Any, depth: int) -> Any:
        name, value = _fields(node, dtype=str, value=object)
        dtype, value = _dtype(name, SCALAR), self.value(value, depth + 1)
        if type(value) is not {"b": bool, "f": float}.get(dtype.kind, int):
            _malformed("scalar")
        try:
            with np.errstate(over="ignore"):
                return np.array(value, dtype)[()]
        except OverflowError:
            return _malformed("scalar")

    def read_cell(self, node: Any, depth: int) -> Any:
        (array,) = _fields(node, array=dict)
        if array.get("$") not in ("array", "items") or array.get("shape") != []:
            _malformed("scalar")
        return self.value(array, depth + 1)[()]

    def read_tuple(self, node: Any, depth: int) -> tuple:
        (items,) = _fields(node, items=list)
        return tuple(self.value(item, depth + 1) for item in items)

    def read_dict(self, node: Any, depth: int) -> dict[str, Any]:
        (items,) = _fields(node, items=dict)
        return {key: self.value(item, depth + 1) for key, item in items.items()}

    def read_items(self, node: Any, depth: int) -> Any:
        name, shape, items = _fields(node, dtype=str, shape=list, items=list)
        dtype, values = _dtype(name, ITEMS), [self.value(item, depth + 1) for item in items]
        allowed = str if dtype.kind == "U" else LEAVES
        if dtype.itemsize * len(items) > MAX_TEXT or not all(isinstance(value, allowed) for value in values):
            _malformed("array of text or objects")
        return self.filled(values, dtype, _shape(shape, dtype))

    def filled(self, items: list, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
        if math.prod(shape) != len(items):
            _malformed("array")
        array = np.empty(len(items), dtype)
        array[:] = items
        return array.reshape(shape)

    def read_array(self, node: Any, depth: int) -> Any:
        name, shape, tensor = _fields(node, dtype=str, shape=list, tensor=str)
        if tensor not in self.tensors:
            _malformed("array")
        dtype = _dtype(name, NUMERIC)
        return self.restored(self.tensors.pop(tensor), dtype, _shape(shape, dtype))

    def restored(self, tensor: NDArray, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
        if (tensor.dtype, tensor.shape) != _stored(dtype, shape):
            _malformed("array")
        if dtype.kind == "b" and tensor.size and tensor.view(np.uint8).max() > 1:
            _malformed("array of booleans")
        little = tensor.reshape(-1).view(dtype.newbyteorder("<")).reshape(shape)
        return little.astype(dtype, copy=False)

    def read_object(self, node: Any, depth: int) -> Any:
        tag, state = _fields(node, **{"class": str, "state": dict})
        if tag not in self.registry:
            raise _Fault(f"it holds the class {tag!r:.60}, which this release does not load", "upgrade bochner")
        return self.built(tag, {name: self.value(item, depth + 1) for name, item in state.items()})

    def built(self, tag: str, state: dict[str, Any]) -> Any:
        module, qualname = self.registry[tag]
        cls: Any = import_module(module)
        for part in qualname.split("."):
            cls = getattr(cls, part)
        for name in state:
            if fault := _name_fault(cls, name):
                raise _Fault(f"it holds the attribute {name!r:.60} of {tag}, and {fault}")
        instance = cls.__new__(cls)
        instance.__dict__.update(state)
        return instance


class _Summary(_Decoder):
    """Renders a tree for reading: no tensor is read and no object built."""

    def read_float(self, node: Any, depth: int) -> Any:
        return str(super().read_float(node, depth))

    def read_scalar(self, node: Any, depth: int) -> Any:
        return self.value(node.get("value"), depth + 1)

    def read_cell(self, node: Any, depth: int) -> Any:
        return self.value(node.get("array"), depth + 1)

    def read_tuple(self, node: Any, depth: int) -> Any:
        return list(super().read_tuple(node, depth))

    def filled(self, items: list, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
        return items if len(items) <= 20 else self.restored(None, dtype, shape)

    def restored(self, tensor: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
        return f"array {dtype} {shape}"

    def built(self, tag: str, state: dict[str, Any]) -> Any:
        return {"class": tag, **state}


def _malformed(what: str) -> Any:
    raise _Fault(f"its tree holds a malformed {what}")


def _fields(node: dict[str, Any], **kinds: type) -> list[Any]:
    if set(node) != {"$", *kinds} or not all(isinstance(node[name], kind) for name, kind in kinds.items()):
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
    return tuple(shape) if math.prod(max(n, 1) for n in shape) * dtype.itemsize < 2**62 else _malformed("shape")
