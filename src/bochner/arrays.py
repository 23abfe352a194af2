"""Arrays of other libraries, and on other devices, by the array API standard; needs the extra `arrays`.

A device is used by the parts that take most of the time: dense features, their Gram matrix, products with them. All
else, and all that a model keeps, are arrays of NumPy. What the standard does not have is here.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    def put(self, array: NDArray) -> Any:
        """The array on the device."""
        return self.xp.asarray(array, device=self.device)

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
    raise NotImplementedError


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
    raise NotImplementedError


def to_host(array: Any) -> NDArray:
    """An array of any library and device as one of NumPy."""
    return np.asarray(array)
