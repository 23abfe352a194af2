"""JAX, whose defaults differ: products in TF32, float32 where `jax_enable_x64` is not set, arrays that never change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays.standard import Standard


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

    def matmul(self, A: Any, B: Any, precision: str = "full") -> Any:
        """In float32 throughout, or as is fast on the device."""
        return self.xp.matmul(A, B, precision={"full": "highest", "fast": "default"}[precision])

    def free_bytes(self, device: Any) -> int | None:
        """What is left of JAX's share of the device."""
        figures = _first(device).memory_stats()
        return figures["bytes_limit"] - figures["bytes_in_use"] if figures and "bytes_limit" in figures else None

    def cholesky(self, A: Any) -> Any:
        """By the device's library."""
        return self.xp.linalg.cholesky(A)

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """By the device's library."""
        return self.module.scipy.linalg.solve_triangular(L, B, trans=int(transposed), lower=True)

    def eigh(self, A: Any) -> tuple[Any, Any]:
        """By the device's library."""
        return tuple(self.xp.linalg.eigh(A))


def _first(device: Any) -> Any:
    """The device, or the first one of those over which an array is spread."""
    return min(device.device_set, key=lambda each: each.id) if hasattr(device, "device_set") else device
