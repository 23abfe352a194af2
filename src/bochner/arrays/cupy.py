"""CuPy: arrays on CUDA devices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays.standard import Compatible


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
        """By the device's library."""
        import cupyx

        with cupyx.errstate(linalg="raise"):
            return self.module.linalg.cholesky(A)

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """By the device's library."""
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, trans=int(transposed), lower=True)

    def eigh(self, A: Any) -> tuple[Any, Any]:
        """By the device's library."""
        return tuple(self.module.linalg.eigh(A))
