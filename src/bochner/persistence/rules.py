"""What writing and reading of model files share: limits, dtypes, names of attributes, and the errors of bad files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import getattr_static
from keyword import iskeyword

import numpy as np

Registry = Mapping[str, tuple[str, str]]
Path = str | os.PathLike[str]

MAX_DEPTH, MAX_TEXT = 64, 2**28
SCALAR = re.compile(r"\|b1|\|[iu]1|[<>]([iu][248]|f[248])")
NUMERIC = re.compile(SCALAR.pattern + r"|[<>](c8|c16|[mM]8(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)")
ITEM_TYPES = (type(None), bool, int, float, str, np.generic)
FOREIGN = "give a file that bochner.save wrote"
DAMAGED = "copy the file again or save the model again"


class ModelFileError(ValueError):
    """A model file is damaged, foreign, or of a format version that this release does not read."""


class Unreadable(Exception):
    """What is wrong with a file and what to do; becomes a ModelFileError that names the file."""

    def __init__(self, reason: str, advice: str = DAMAGED) -> None:
        super().__init__(f"{reason}; {advice}")


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except Unreadable as error:
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}: {error}.") from None


def name_problem(cls: type, name: str) -> str | None:
    if not name.isidentifier() or iskeyword(name) or name.startswith("__"):
        return "it is not an attribute name"
    shadowed = getattr_static(cls, name, None)
    if callable(shadowed) or hasattr(type(shadowed), "__get__"):
        return f"it would hide {cls.__name__}.{name}"
    return None


def file_layout(dtype: np.dtype, shape: tuple[int, ...]) -> tuple[np.dtype, tuple[int, ...]]:
    """Dtype and shape in the file: dates as int64, complex numbers as pairs of floats, all little-endian."""
    if dtype.kind in "mM":
        return np.dtype("<i8"), shape
    if dtype.kind == "c":
        return np.dtype(f"<f{dtype.itemsize // 2}"), (*shape, 2)
    return dtype.newbyteorder("<"), shape
