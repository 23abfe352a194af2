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


class Standard:
    """A library that follows the standard, of which nothing else is known.

    Parameters
    ----------
    name : str
        Of the module.
    """

    in_place = False  # whether parts of its arrays can be added to
    home = "CPU_DEVICE"  # the device in the processor's memory
    cure = "python -m pip install 'bochner[arrays]'"  # of what libraries need beside

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

    def matmul(self, A: Any, B: Any) -> Any:
        """The product A B, in the whole precision of the arrays."""
        return self.xp.matmul(A, B)

    def free_bytes(self, device: Any) -> int | None:
        """Bytes that are free on the device; None where that is not known."""
        return None

    def give_back(self) -> None:
        """Return the memory that the library keeps for further arrays to the device."""

    def cholesky(self, A: Any) -> Any:
        """The lower factor; NaN or LinAlgError where A is not positive definite."""
        return self.xp.linalg.cholesky(A)

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """Solve L X = B, or L' X = B, for a lower L."""
        from scipy.linalg import solve_triangular

        X = solve_triangular(self.host(L), self.host(B), trans=int(transposed), lower=True)
        return self.put(X, self.device_of(L))

    def eigh(self, A: Any) -> tuple[Any, Any]:
        """Eigenvalues, ascending, and eigenvectors."""
        return tuple(self.xp.linalg.eigh(A))


class Compatible(Standard):
    """A library that `array_api_compat` brings to the standard."""

    in_place, home = True, "cpu"

    @property
    def xp(self) -> Any:
        """The namespace, where `array_api_compat` is installed."""
        try:
            return import_module(f"array_api_compat.{self.name}")
        except ModuleNotFoundError as error:
            raise ImportError(f"Arrays of {self.name} need array-api-compat: {self.cure}.") from error

    def text(self, device: Any) -> str:
        """Kind and number, "cuda:0"."""
        return str(device)


class Cupy(Compatible):
    """Arrays of CuPy, whose products are in float32 where `CUPY_TF32` is not set."""

    def __init__(self) -> None:
        super().__init__("cupy")

    def holds(self, value: Any) -> bool:
        """Whether it is one of its arrays."""
        return isinstance(value, self.module.ndarray)

    def devices(self) -> list[str]:
        """All of CUDA."""
        runtime = self.module.cuda.runtime
        try:
            return [f"cuda:{k}" for k in range(runtime.getDeviceCount())]
        except runtime.CUDARuntimeError:  # no driver
            return []

    def device(self, text: str) -> Any:
        """One of its devices."""
        return self.module.cuda.Device(int(text.partition(":")[2]))

    def text(self, device: Any) -> str:
        """Kind and number, "cuda:0"."""
        return f"cuda:{device.id}"

    def has_double(self, device: Any) -> bool:
        """Everywhere."""
        return True

    def capability(self, device: Any) -> tuple[int, int] | None:
        """As CUDA tells."""
        digits = device.compute_capability
        return int(digits[:-1]), int(digits[-1])

    def put(self, array: Any, device: Any) -> Any:
        """A copy on the device."""
        with device:
            return self.module.asarray(array if self.holds(array) else np.ascontiguousarray(array))

    def host(self, array: Any) -> NDArray:
        """A copy."""
        return array.get()

    def free_bytes(self, device: Any) -> int | None:
        """What the device has free, and what the pool keeps for further arrays."""
        with device:
            return device.mem_info[0] + self.module.get_default_memory_pool().free_bytes()

    def give_back(self) -> None:
        """Empty the pool."""
        self.module.get_default_memory_pool().free_all_blocks()

    def cholesky(self, A: Any) -> Any:
        """An error, and no numbers without meaning, where A is not positive definite."""
        import cupyx

        with cupyx.errstate(linalg="raise"):
            return super().cholesky(A)

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """By the device's library."""
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, trans=int(transposed), lower=True)


class Jax(Standard):
    """Arrays of JAX; what is to be exact is said with each call."""

    home = "cpu"

    def __init__(self) -> None:
        super().__init__("jax")

    @property
    def xp(self) -> Any:
        """Its namespace of the standard."""
        return self.module.numpy

    def holds(self, value: Any) -> bool:
        """Whether it is one of its arrays."""
        return isinstance(value, self.module.Array)

    def devices(self) -> list[str]:
        """Those of the default platform, and the processor."""
        found = [self.text(device) for kind in (None, self.home) for device in self._devices(kind)]
        return list(dict.fromkeys(found))

    def _devices(self, kind: str | None) -> list[Any]:
        """Of a platform, or of the default one; none where the process leaves it out, as by JAX_PLATFORMS."""
        try:
            return self.module.devices(kind)
        except RuntimeError:
            return []

    def device(self, text: str) -> Any:
        """One of its devices."""
        kind, _, number = text.partition(":")
        return next(device for device in self.module.devices(kind) if str(device.id) == number)

    def text(self, device: Any) -> str:
        """Kind and number, "gpu:0"; of the first device where an array lies on several."""
        first = _first(device)
        return f"{first.platform}:{first.id}"

    def spelled(self, kind: str) -> str:
        """A kind of devices as the library has it."""
        return {"cuda": "gpu"}.get(kind, kind)

    def has_double(self, device: Any) -> bool:
        """Where the process has set `jax_enable_x64`."""
        return bool(self.module.config.jax_enable_x64) and _first(device).platform in ("cpu", "gpu")

    def capability(self, device: Any) -> tuple[int, int] | None:
        """As CUDA tells."""
        major, dot, minor = str(getattr(_first(device), "compute_capability", "")).partition(".")
        return (int(major), int(minor)) if dot and minor.isdecimal() else None

    def put(self, array: Any, device: Any) -> Any:
        """A copy on the device."""
        return self.module.device_put(array if self.holds(array) else np.array(array), device)

    def host(self, array: Any) -> NDArray:
        """The array, in float32 where it is of bfloat16."""
        found = np.asarray(array)
        return found.astype(np.float32) if found.dtype.name == "bfloat16" else found

    def matmul(self, A: Any, B: Any) -> Any:
        """In float32 throughout."""
        return self.xp.matmul(A, B, precision="highest")

    def free_bytes(self, device: Any) -> int | None:
        """What is left of JAX's share of the device."""
        figures = _first(device).memory_stats()
        return figures["bytes_limit"] - figures["bytes_in_use"] if figures and "bytes_limit" in figures else None

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """By the device's library."""
        return self.module.scipy.linalg.solve_triangular(L, B, trans=int(transposed), lower=True)


def _first(device: Any) -> Any:
    """The device, or the first one of those over which an array is spread."""
    return min(device.device_set, key=lambda each: each.id) if hasattr(device, "device_set") else device
