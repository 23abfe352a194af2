"""What libraries of arrays do each in their own way: devices, copies, exact products, triangular solves.

A class for each library has all that the array API standard does not have, in a file of its own. Nothing of a library
is imported before one of its arrays or devices is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXTRA = "python -m pip install 'bochner[arrays]'"


class Standard:
    """A library that follows the standard, of which nothing else is known.

    Parameters
    ----------
    name : str
        Of the module.
    """

    in_place = False  # whether parts of its arrays can be added to
    home = "CPU_DEVICE"  # the device in the processor's memory

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_installed(self) -> bool:
        """Whether it can be imported, as far as can be told without doing so."""
        return find_spec(self.name) is not None

    @property
    def module(self) -> Any:
        """The library itself."""
        return import_module(self.name)

    @property
    def xp(self) -> Any:
        """Its namespace of the standard."""
        return self.module

    def holds(self, value: Any) -> bool:
        """Whether a value is one of its arrays."""
        return type(value).__module__.partition(".")[0] == self.name and hasattr(value, "__array_namespace__")

    def devices(self) -> list[str]:
        """Texts that name its devices, the one to take first."""
        return sorted(map(self.text, self.xp.__array_namespace_info__().devices()), key=self.home.__eq__)

    def device(self, text: str) -> Any:
        """The device that one of its texts names."""
        return self.module.Device(text)

    def device_of(self, array: Any) -> Any:
        """Where an array lies."""
        return array.device

    def text(self, device: Any) -> str:
        """The text that names a device."""
        return str(device).split("'")[1]

    def spelled(self, kind: str) -> str:
        """A kind of devices as the library has it, "cuda" and "gpu" being one."""
        return {"gpu": "cuda"}.get(kind, kind)

    def is_host(self, device: Any) -> bool:
        """Whether the device's memory is the processor's."""
        return self.text(device).partition(":")[0] == self.home

    def has_double(self, device: Any) -> bool:
        """Whether there is float64 on the device."""
        return "float64" in self.xp.__array_namespace_info__().dtypes(device=device)

    def capability(self, device: Any) -> tuple[int, int] | None:
        """The compute capability of a CUDA device; None for others."""
        return None

    def put(self, array: Any, device: Any) -> Any:
        """A copy of an array of NumPy on the device, or an array of the library that is moved there."""
        if self.holds(array):
            return array.to_device(device)
        if array.dtype == np.float64 and not self.has_double(device):
            array = array.astype(np.float32)
        return self.xp.asarray(array, device=device, copy=True)

    def ahead(self, blocks: Iterable[Any], device: Any) -> Iterator[Any]:
        """Blocks on the device, each of them an array, None, or a tuple of such."""
        return (self._all_put(block, device) for block in blocks)

    def _all_put(self, block: Any, device: Any) -> Any:
        if isinstance(block, tuple):
            return tuple(self._all_put(part, device) for part in block)
        return None if block is None else self.put(block, device)

    def host(self, array: Any) -> NDArray:
        """An array as one of NumPy."""
        return np.from_dlpack(array)

    def matmul(self, A: Any, B: Any, precision: str = "full") -> Any:
        """The product A B, in the whole precision of the arrays unless it is to be "fast"."""
        return self.xp.matmul(A, B)

    def has_halves(self, Z: Any) -> bool:
        """Whether tensor cores multiply FP16 and add in float32 where an array of float32 lies."""
        return False

    def half_product(self, A: Any, B: Any) -> Any:
        """The product of arrays of FP16, of which all sums are taken in float32."""
        raise NotImplementedError(f"{self.name} has no products of FP16 with sums in float32.")

    def squares(self, L: Any) -> Any:
        """The sum of squares of each column of FP16, in float32."""
        raise NotImplementedError(f"{self.name} has no sums of FP16 in float32.")

    def free_bytes(self, device: Any) -> int | None:
        """Bytes that are free on the device; None where that is not known."""
        return None

    def give_back(self) -> None:
        """Return the memory that the library keeps for further arrays to the device."""

    def cholesky(self, A: Any) -> Any:
        """The lower factor; NaN or LinAlgError where A is not positive definite."""
        return self._by_scipy("cholesky", A, lower=True)

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """Solve L X = B, or L' X = B, for a lower L."""
        return self._by_scipy("solve_triangular", L, B, trans=int(transposed), lower=True)

    def eigh(self, A: Any) -> tuple[Any, Any]:
        """Eigenvalues, ascending, and eigenvectors."""
        return self._by_scipy("eigh", A)

    def _by_scipy(self, function: str, *arrays: Any, **options: Any) -> Any:
        device = self.device_of(arrays[0])
        solve = getattr(import_module("scipy.linalg"), function)
        return self._all_put(solve(*map(self.host, arrays), **options), device)


class Compatible(Standard):
    """A library that `array_api_compat` brings to the standard."""

    in_place, home = True, "cpu"

    @property
    def xp(self) -> Any:
        """The namespace, where `array_api_compat` is installed."""
        try:
            return import_module(f"array_api_compat.{self.name}")
        except ModuleNotFoundError as error:
            raise ImportError(f"Arrays of {self.name} need array-api-compat: {EXTRA}.") from error

    def text(self, device: Any) -> str:
        """Kind and number, "cuda:0"."""
        return str(device)
