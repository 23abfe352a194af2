"""Arrays of other libraries, and on other devices, by the array API standard; needs the extra `arrays`.

A device is used by the parts that take most of the time: dense features, their Gram matrix, products with them. All
else, and all that a model keeps, are arrays of NumPy. What the standard does not have is here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIBRARIES = "torch", "cupy", "jax"  # in the order in which they are looked for


@dataclass(frozen=True)
class Place:
    """A device, and the library whose arrays lie there.

    Attributes
    ----------
    xp : module
        Namespace of the array API.
    device : object
    """

    xp: Any
    device: Any

    @property
    def is_host(self) -> bool:
        """Whether the arrays lie in the processor's memory."""
        return str(self.device).lower().startswith(("cpu", "array_api_strict.device('cpu", "tfrt_cpu"))

    @property
    def has_double(self) -> bool:
        """Whether there is double precision."""
        return self.put(np.zeros(1)).dtype == self.xp.float64

    def free_bytes(self) -> int | None:
        """Memory of the device that is free; None where nobody knows."""
        return None

    def put(self, array: NDArray) -> Any:
        """The array on the device."""
        array = np.ascontiguousarray(array)
        return self.xp.asarray(array if array.flags.writeable else array.copy(), device=self.device)

    def product(self, A: Any, B: Any) -> Any:
        """A B, never in less than single precision."""
        return self.xp.matmul(A, B)

    def host(self, array: Any) -> NDArray:
        """An array of the device as one of NumPy."""
        return to_host(array)

    def gram(self, Z: Any, precision: str = "full") -> Any:
        """Z'Z, of shape (D, D), in single precision or as it is."""
        return self.xp.matmul(self.xp.matrix_transpose(Z), Z)

    def __str__(self) -> str:
        return str(self.device)


def place_of(*values: Any) -> Place | None:
    """Where arrays lie, all in one place; None where there is nothing but what is NumPy's, or no array at all.

    Raises
    ------
    TypeError
        Where they are of several libraries.
    ValueError
        Where they lie on several devices.
    """
    found = [value for value in values if _library(value) is not None]
    if not found:
        return None
    libraries = sorted({str(_library(value)) for value in found})
    numbers = [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind in "biuf"]
    if len(libraries) > 1 or numbers:
        names = " and ".join(libraries + ["numpy"] * bool(numbers))
        raise TypeError(f"The arrays are of {names}: give all of them as arrays of one library.")
    from array_api_compat import array_namespace, device

    devices = list(dict.fromkeys(device(value) for value in found))
    if len(devices) > 1:
        raise ValueError(f"The arrays lie on {' and '.join(map(str, devices))}: put all of them on one device.")
    return Place(array_namespace(found[0]), devices[0])


def _library(value: Any) -> str | None:
    """The library that an array is of; None for NumPy, and for what is no array."""
    name = type(value).__module__.partition(".")[0]
    name = {"jaxlib": "jax"}.get(name, name)
    return name if name in (*LIBRARIES, "array_api_strict") and hasattr(value, "shape") else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a library says that the device has no memory left."""
    return type(error).__name__ == "OutOfMemoryError" or "RESOURCE_EXHAUSTED" in str(error)


def named(device: Any) -> Place | None:
    """The place that `settings(device=)` names; None for the processor and its own arrays of NumPy.

    Raises
    ------
    ImportError
        Where there is no library for it, with the command that installs one.
    ValueError
        Where there is no such device; says which there are.
    """
    if device is None or device == "cpu":
        return None
    if isinstance(device, Place):
        return device
    library, _, kind = str(device).rpartition(":") if str(device).startswith("torch:") else ("torch", "", str(device))
    if library != "torch":
        raise ValueError(f"device {device!r} is not known.")
    try:
        xp: Any = import_module("array_api_compat.torch")
        return Place(xp, xp.asarray([0.0], device=kind).device)
    except ImportError:
        raise ImportError("device= needs PyTorch: pip install torch array-api-compat.") from None
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"There is no device {device!r}: {error}") from None


def to_host(array: Any) -> NDArray:
    """An array of any library and device as one of NumPy."""
    if _library(array) == "torch":
        return array.detach().cpu().numpy()
    strict = sys.modules.get("array_api_strict")
    if strict is not None and _library(array) == "array_api_strict":
        array = strict.asarray(array, device=strict.Device("CPU_DEVICE"))
    return np.asarray(array)
