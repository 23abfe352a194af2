"""Devices: where arrays lie, and the library whose arrays they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.devices.libraries import Cupy, Jax, Standard
from bochner.devices.pytorch import Torch

LIBRARIES = "torch", "cupy", "jax"  # in the order in which they are looked for
KNOWN = {one.name: one for one in (Torch(), Cupy(), Jax(), Standard("array_api_strict"))}
MODULES = {"jaxlib": "jax"} | {name: name for name in KNOWN}  # where their arrays are defined
KINDS = "cuda", "gpu", "mps", "tpu", "cpu"
FAST_DOUBLE = (6, 0), (7, 0), (8, 0), (9, 0), (10, 0)  # compute capabilities with float64 at half the speed of float32
MEMORY_MESSAGES = "out of memory", "RESOURCE_EXHAUSTED", "CUBLAS_STATUS_ALLOC_FAILED"


@dataclass(frozen=True)
class Device:
    """A device, and the library whose arrays lie there.

    Attributes
    ----------
    xp : module
        Namespace of the array API.
    device : object
        As the library has it.
    """

    xp: Any
    device: Any

    @property
    def library(self) -> Standard:
        """What the library does in its own way."""
        parts = self.xp.__name__.removeprefix("array_api_compat.").partition(".")
        return KNOWN[parts[0]]

    @property
    def is_host(self) -> bool:
        """Whether the device's memory is the processor's, where NumPy works as well."""
        return self.library.is_host(self.device)

    @property
    def has_double(self) -> bool:
        """Whether there is float64."""
        return self.library.has_double(self.device)

    @property
    def has_fast_double(self) -> bool:
        """Whether float64 is fast: in the processor's memory, and on CUDA devices of data centres."""
        fast = self.is_host or self.library.capability(self.device) in FAST_DOUBLE
        return fast and self.has_double

    def put(self, array: Any) -> Any:
        """A copy of an array of NumPy on the device, in float32 for float64 where that is not there.

        What is one of the library's arrays is moved there, without its history of derivatives.
        """
        return self.library.put(array, self.device)

    def ahead(self, blocks: Iterable[Any]) -> Iterator[Any]:
        """Blocks on the device, each an array, None, or a tuple of such; copies overlap with work where they can."""
        return self.library.ahead(blocks, self.device)

    def host(self, array: Any) -> NDArray:
        """An array of the device as one of NumPy; it may be read-only."""
        return self.library.host(array)

    def product(self, A: Any, B: Any) -> Any:
        """The product A B in the whole precision of the arrays, never in TF32."""
        return self.library.matmul(A, B)

    def cholesky(self, A: Any) -> Any:
        """The lower factor L of A = LL', of shape (D, D).

        Raises
        ------
        numpy.linalg.LinAlgError
            Where A is not positive definite.
        """
        try:
            L = self.library.cholesky(A)
        except RuntimeError as error:
            if not type(error).__name__.endswith("LinAlgError"):
                raise
            raise np.linalg.LinAlgError("The matrix is not positive definite.") from error
        if not self.xp.all(self.xp.isfinite(self.xp.linalg.diagonal(L))):
            raise np.linalg.LinAlgError("The matrix is not positive definite.")
        return L

    def solve_triangular(self, L: Any, B: Any, transposed: bool = False) -> Any:
        """Solve L X = B, or L' X = B, for X of shape (D, K), with a lower L."""
        return self.library.solve_triangular(L, B, transposed)

    def eigh(self, A: Any) -> tuple[Any, Any]:
        """Eigenvalues, ascending, of shape (D,), and eigenvectors, of shape (D, D), of a symmetric A."""
        return self.library.eigh(A)

    def free_bytes(self) -> int | None:
        """Bytes that are free on the device; None where that is not known."""
        return self.library.free_bytes(self.device)

    def memory_error(self, n_bytes: int, what: str, cure: str) -> MemoryError:
        """The error to raise where `n_bytes` for `what` could not be had; the cure is a sentence.

        Memory that the library keeps for further arrays goes back to the device.
        """
        self.library.give_back()
        free = self.free_bytes()
        there = "" if free is None else f" and {free / 1e9:,.2f} GB are free"
        return MemoryError(f"{what} needs {n_bytes / 1e9:,.2f} GB on {self}{there}. {cure}")

    def __str__(self) -> str:
        return f"{self.library.name}:{self.library.text(self.device)}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return parse_device, (str(self),)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a library says by an error that its device has too little memory."""
    said = isinstance(error, RuntimeError) and any(text in str(error) for text in MEMORY_MESSAGES)
    return said or type(error).__name__ == "OutOfMemoryError"


def is_host(place: Device | None) -> bool:
    """Whether arrays lie in the processor's memory, where NumPy works as well."""
    return place is None or place.is_host


def device_of(*values: Any) -> Device | None:
    """Where arrays lie, all in one place; None where there is nothing but what is NumPy's, or no array at all.

    Lists, numbers and arrays of text, which only NumPy has, go with arrays of any library.

    Raises
    ------
    ImportError
        Where `array_api_compat` is missing.
    TypeError
        Where they are of several libraries.
    ValueError
        Where they lie on several devices.
    """
    found = [(library, value) for value in values if (library := _library_of(value)) is not None]
    if not found:
        return None
    library, first = found[0]
    others = {one.name for one, _ in found} | {_module(value) for value in values if _is_numeric(value)}
    if len(others) > 1:
        raise TypeError(
            f"Arrays of {' and '.join(sorted(others))} were given together: convert all of them to one library."
        )
    devices = list(dict.fromkeys(library.text(library.device_of(value)) for _, value in found))
    if len(devices) > 1:
        raise ValueError(
            f"Arrays on {' and '.join(devices)} of {library.name} were given together: move all of them to one device."
        )
    return Device(library.xp, library.device_of(first))


def _library_of(value: Any) -> Standard | None:
    """The library of an array; None where it is NumPy's, or no array. Looks at names first, lest modules be loaded."""
    for base in type(value).__mro__:
        name = MODULES.get(base.__module__.partition(".")[0])
        if name is not None:
            return KNOWN[name] if KNOWN[name].holds(value) else None
    return None


def _module(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _is_numeric(value: Any) -> bool:
    """Whether it is an array, a table or a sparse matrix in the processor's memory that is not of text."""
    if _library_of(value) is not None or np.ndim(getattr(value, "shape", None) or 0) == 0:
        return False
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind is None or kind in "biufc"


def parse_device(device: Any) -> Device | None:
    """The place that `settings(device=)` names; None for the processor and its own arrays of NumPy.

    Parameters
    ----------
    device : str, torch.device, Device or None
        "cuda", "cuda:1", "gpu", "mps", where the first installed library that has it is taken; or after a library's
        name, "torch:cuda", "torch:cpu", "cupy:cuda:1", "jax:gpu"; or a library alone for its first accelerator.

    Raises
    ------
    ImportError
        Where there is no library for it, with the command that installs one.
    ValueError
        Where there is no such device; says which there are. Where no device can be meant.
    """
    if device is None or isinstance(device, Device) or device == "cpu":
        return device if isinstance(device, Device) else None
    if _module(device) == "torch":
        device = f"torch:{device}"
    library, wanted = _parsed(device)
    installed = [KNOWN[name] for name in ([library] if library else LIBRARIES) if KNOWN[name].is_installed]
    if not installed:
        raise ImportError(
            f"device={device!r} needs {library or 'a library of arrays'}: python -m pip install {library or 'torch'}, "
            f"and {Standard.cure}."
        )
    there = []
    for one in installed:  # up to the first, as JAX takes most of a GPU's memory when it is asked for its devices
        texts = one.devices()
        for text in texts:
            if _matches(one, text, wanted):
                return Device(one.xp, one.device(text))
        there.append(f"{one.name} has {', '.join(texts) or 'none'}")
    raise ValueError(
        f"device={device!r} is not available: {'; '.join(there)}. Choose an available device, install a build of the "
        "library that supports it, or leave device= out."
    )


def _parsed(device: Any) -> tuple[str | None, str]:
    """The library that a text names, if any, and the device, empty for any accelerator."""
    first, _, rest = device.partition(":") if isinstance(device, str) else ("", "", "")
    library, wanted = (first, rest) if first in KNOWN else (None, device)
    if first == "array_api_strict" or (library and not wanted):
        return library, wanted
    kind, colon, number = wanted.partition(":") if isinstance(wanted, str) else ("", "", "")
    if kind not in KINDS or bool(colon) != number.isdecimal():
        raise ValueError(
            "device must be a name such as 'cuda', 'cuda:1', 'mps', 'torch:cuda' or 'jax:gpu', or 'cpu', got "
            f"{device!r}."
        )
    return library, wanted


def _matches(library: Standard, text: str, wanted: str) -> bool:
    if not wanted:
        return text.partition(":")[0] != library.home
    kind, _, number = wanted.partition(":")
    spelled = library.spelled(kind) + f":{number}" * bool(number)
    return spelled in (text, text.partition(":")[0])


def to_host(array: Any) -> NDArray:
    """An array of any library and device as one of NumPy; a view where it lies in the processor's memory."""
    library = _library_of(array)
    return np.asarray(array) if library is None else library.host(array)
