"""Devices of PyTorch: where tensors lie, copies to and from them, exact products and
factors.

PyTorch is not imported before one of its tensors or devices is asked for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = re.compile(r"(cuda|mps)(:\d+)?")
# Compute capabilities with float64 at half the speed of float32
FAST_DOUBLE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
# Those whose products in float64 are as fast as in float32 (A100, H100, H200)
EQUAL_DOUBLE = ((8, 0), (9, 0))
MOST_PINNED = 2**30  # bytes; pinned memory is kept for further copies

_exact_products = Lock()


@dataclass(frozen=True)
class Device:
    """A device of PyTorch.

    Attributes
    ----------
    device : torch.device
    """

    device: Any

    @property
    def torch(self) -> Any:
        """The library."""
        return import_module("torch")

    @property
    def is_host(self) -> bool:
        """Whether the device's memory is the processor's, where NumPy works as well."""
        return self.device.type == "cpu"

    @property
    def has_double(self) -> bool:
        """Whether there is float64: everywhere but on Apple's GPUs."""
        return self.device.type != "mps"

    @property
    def has_fast_double(self) -> bool:
        """Whether float64 is fast: in the processor's memory, and on CUDA devices of
        data centres.
        """
        return self.is_host or self._capability in FAST_DOUBLE

    @property
    def has_equal_double(self) -> bool:
        """Whether products in float64 take no longer than those in float32."""
        return self._capability in EQUAL_DOUBLE

    @property
    def _capability(self) -> tuple[int, int] | None:
        """Generation of a CUDA device; None for any other device."""
        if self.device.type != "cuda":
            return None
        return self.torch.cuda.get_device_capability(self.device)

    def put(self, array: Any) -> Any:
        """A copy of an array of NumPy on the device, in float32 for float64 where that
        is not there.

        A tensor is moved there, without its history of derivatives.
        """
        torch = self.torch
        if is_tensor(array):
            return array.detach().to(self.device)
        if array.dtype == np.float64 and not self.has_double:
            array = array.astype(np.float32)
        pinned = self.device.type == "cuda" and array.nbytes <= MOST_PINNED
        like = torch.from_numpy(np.empty(0, array.dtype))
        staged = like.new_empty(array.shape, pin_memory=pinned)
        np.copyto(staged.numpy(), array)
        return staged.to(self.device, non_blocking=pinned)

    def ahead(self, blocks: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Blocks on the device, each a tuple of arrays, or None in their places.

        The next one is copied while the present one is worked on, if the device can do
        so.
        """
        if self.device.type != "cuda":
            yield from map(self._all_put, blocks)
            return
        cuda = self.torch.cuda
        stream = cuda.Stream(self.device)
        waiting = list[tuple[Any, Any]]()
        for block in blocks:
            with cuda.stream(stream):
                waiting.append((self._all_put(block), stream.record_event()))
            if len(waiting) > 1:
                yield self._arrived(*waiting.pop(0))
        for copied in waiting:
            yield self._arrived(*copied)

    def _all_put(self, block: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(None if part is None else self.put(part) for part in block)

    def _arrived(self, block: tuple[Any, ...], event: Any) -> tuple[Any, ...]:
        """A block, once the present stream waits for its copy and its memory waits
        for the present stream.
        """
        present = self.torch.cuda.current_stream(self.device)
        present.wait_event(event)
        for part in block:
            if part is not None:
                part.record_stream(present)
        return block

    def product(self, A: Any, B: Any) -> Any:
        """The product A B in the whole precision of the tensors, never in TF32, also
        where the process allows it: its switch is off for the start of the product.
        """
        switch = self.torch.backends.cuda.matmul
        name, exact = (
            ("fp32_precision", "ieee")
            if hasattr(switch, "fp32_precision")
            else ("allow_tf32", False)
        )
        with _exact_products:
            before = getattr(switch, name)
            is_exact = before in (exact, "none")
            try:
                if not is_exact:
                    setattr(switch, name, exact)
                return self.torch.matmul(A, B)
            finally:
                if not is_exact:
                    setattr(switch, name, before)

    def cholesky(self, A: Any) -> Any:
        """The lower factor L of A = LL', of shape (D, D).

        Raises
        ------
        numpy.linalg.LinAlgError
            Where A is not positive definite.
        """
        L, failed = self.torch.linalg.cholesky_ex(A)
        if failed:
            raise np.linalg.LinAlgError("The matrix is not positive definite.")
        return L

    def solve_triangular(self, L: Any, B: Any, transposed: bool = False) -> Any:
        """Solve L X = B, or L' X = B, for X of shape (D, K), with a lower L."""
        return self.torch.linalg.solve_triangular(
            L.mT if transposed else L, B, upper=transposed
        )

    def free_bytes(self) -> int | None:
        """Bytes that are free on the device, or kept for further tensors; None where
        that is not known.
        """
        if self.device.type != "cuda":
            return None
        cuda = self.torch.cuda
        cached_bytes = cuda.memory_reserved(self.device) - cuda.memory_allocated(
            self.device
        )
        return cuda.mem_get_info(self.device)[0] + cached_bytes

    def memory_error(self, n_bytes: int, what: str, cure: str) -> MemoryError:
        """The error to raise where `n_bytes` for `what` could not be had; the cure is a
        sentence.

        Memory that PyTorch keeps for further tensors goes back to the device.
        """
        self.torch.cuda.empty_cache()
        free = self.free_bytes()
        there = "" if free is None else f" and {free / 1e9:,.2f} GB are free"
        return MemoryError(
            f"{what} needs {n_bytes / 1e9:,.2f} GB on {self}{there}. {cure}"
        )

    def __str__(self) -> str:
        return str(self.device)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether PyTorch says by an error that its device has too little memory."""
    said = isinstance(error, RuntimeError) and any(
        text in str(error) for text in ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    )
    return said or type(error).__name__ == "OutOfMemoryError"


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch, of any class that derives from it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library than NumPy: a tensor, or one of
    the array API standard.
    """
    if isinstance(value, np.ndarray | np.generic):
        return False
    return is_tensor(value) or all(
        hasattr(type(value), name) for name in ("__array_namespace__", "__dlpack__")
    )


def device_of(*values: Any) -> Device | None:
    """Where tensors lie, all in one place; None where there are none.

    Raises
    ------
    ValueError
        Where they lie on several devices.
    """
    devices = list(dict.fromkeys(value.device for value in values if is_tensor(value)))
    if len(devices) > 1:
        raise ValueError(
            f"Tensors on {' and '.join(map(str, devices))} were given together: move "
            "all of them to one device."
        )
    return Device(devices[0]) if devices else None


def parse_device(device: Any) -> Device | None:
    """The device that `settings(device=)` names; None for the processor and arrays of
    NumPy.

    Parameters
    ----------
    device : str, torch.device, Device or None
        "cuda", "cuda:1", "mps" or "cpu".

    Raises
    ------
    ImportError
        Where PyTorch is not installed, with the command that installs it.
    ValueError
        Where there is no such device; says which there are. Where no device can be
        meant.
    """
    if device is None or isinstance(device, Device):
        return device
    name = str(device)
    if name == "cpu":
        return None
    if not NAMES.fullmatch(name):
        raise ValueError(
            f"device must be 'cuda', 'cuda:1', 'mps' or 'cpu', got {device!r}."
        )
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise ImportError(
            f"device={name!r} needs PyTorch: python -m pip install torch."
        ) from error
    # The current GPU, the other ones, the processor
    cuda = torch.cuda
    first = cuda.current_device() if cuda.is_available() else 0
    numbers = sorted(range(cuda.device_count()), key=lambda k: k != first)
    gpu_names = [f"cuda:{k}" for k in numbers]
    there = [*gpu_names, *["mps"] * torch.backends.mps.is_available(), "cpu"]
    device_name = next((one for one in there if f"{one}:".startswith(f"{name}:")), None)
    if device_name is None:
        raise ValueError(
            f"device={name!r} is not available: PyTorch has {', '.join(there)}. "
            "Choose an available device, install a "
            "build of PyTorch that supports it, or leave device= out."
        )
    return Device(torch.device(device_name))


def to_host(array: Any) -> NDArray:
    """An array of any library and device as one of NumPy; a view where it lies in the
    processor's memory.

    Raises
    ------
    TypeError
        Where the library lets no other one read the array.
    """
    if is_tensor(array):
        array = array.detach().cpu()
        # NumPy has not this type
        return (array.float() if "bfloat16" in str(array.dtype) else array).numpy()
    if not is_foreign(array):
        return np.asarray(array)
    for way in (np.from_dlpack, partial(np.from_dlpack, device="cpu"), np.asarray):
        with suppress(BufferError, RuntimeError, TypeError, ValueError):
            return way(array)
    kind = f"{type(array).__module__}.{type(array).__qualname__}"
    raise TypeError(
        f"NumPy cannot read this {kind}: copy it to the memory of the processor, as "
        "an array of NumPy."
    )
