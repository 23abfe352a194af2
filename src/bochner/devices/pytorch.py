"""PyTorch: pinned memory, copies beside arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.devices.libraries import Compatible

MOST_PINNED = 2**30  # bytes; pinned memory is kept for further copies


class Torch(Compatible):
    """Tensors of PyTorch."""

    def __init__(self) -> None:
        super().__init__("torch")
        self._lock = Lock()

    def holds(self, value: Any) -> bool:
        """Whether it is a tensor, of any class that derives from it."""
        return isinstance(value, self.module.Tensor)

    def devices(self) -> list[str]:
        """The current GPU, the other ones, the processor."""
        torch = self.module
        first = torch.cuda.current_device() if torch.cuda.is_available() else 0
        found = [f"cuda:{k}" for k in sorted(range(torch.cuda.device_count()), key=lambda k: k != first)]
        return found + ["mps"] * torch.backends.mps.is_available() + ["cpu"]

    def device(self, text: str) -> Any:
        """One of its devices."""
        return self.module.device(text)

    def has_double(self, device: Any) -> bool:
        """Everywhere but on Apple's GPUs."""
        return device.type != "mps"

    def capability(self, device: Any) -> tuple[int, int] | None:
        """As CUDA tells."""
        return self.module.cuda.get_device_capability(device) if device.type == "cuda" else None

    def put(self, array: Any, device: Any) -> Any:
        """A copy by pinned memory; or a tensor without its history."""
        torch = self.module
        if self.holds(array):
            return array.detach().to(device)
        if array.dtype == np.float64 and not self.has_double(device):
            array = array.astype(np.float32)
        pinned = device.type == "cuda" and array.nbytes <= MOST_PINNED
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        staged = torch.empty(array.shape, dtype=dtype, pin_memory=pinned)
        np.copyto(staged.numpy(), array)
        return staged.to(device, non_blocking=pinned)

    def ahead(self, blocks: Iterable[Any], device: Any) -> Iterator[Any]:
        """Blocks on the device; the next one is copied while the present one is worked on."""
        if device.type != "cuda":
            yield from super().ahead(blocks, device)
            return
        cuda = self.module.cuda
        stream, waiting = cuda.Stream(device), None
        for block in blocks:
            with cuda.stream(stream):
                copied = self._all_put(block, device), stream.record_event()
            if waiting is not None:
                yield self._arrived(*waiting, device)
            waiting = copied
        if waiting is not None:
            yield self._arrived(*waiting, device)

    def _arrived(self, block: Any, event: Any, device: Any) -> Any:
        """A block, once the present stream waits for its copy and its memory waits for the present stream."""
        present = self.module.cuda.current_stream(device)
        present.wait_event(event)
        for part in block if isinstance(block, tuple) else (block,):
            if part is not None:
                part.record_stream(present)
        return block

    def host(self, array: Any) -> NDArray:
        """The tensor without its history, in float32 where it is of bfloat16."""
        array = array.detach().cpu()
        return (array.float() if array.dtype == self.module.bfloat16 else array).numpy()

    def matmul(self, A: Any, B: Any) -> Any:
        """Not in TF32, also where the process allows it."""
        with self._exact():
            return self.module.matmul(A, B)

    @contextmanager
    def _exact(self) -> Iterator[None]:
        """Set what holds for the whole process for the start of one product, where it has to be."""
        switch = self.module.backends.cuda.matmul
        name, exact = ("fp32_precision", "ieee") if hasattr(switch, "fp32_precision") else ("allow_tf32", False)
        with self._lock:
            before = getattr(switch, name)
            if before in (exact, "none"):
                yield
                return
            self._switch(name, exact)
            try:
                yield
            finally:
                self._switch(name, before)

    def _switch(self, name: str, value: Any) -> None:
        setattr(self.module.backends.cuda.matmul, name, value)

    def free_bytes(self, device: Any) -> int | None:
        """What the device has free, and what is kept for further tensors."""
        cuda = self.module.cuda
        if device.type != "cuda":
            return None
        return cuda.mem_get_info(device)[0] + cuda.memory_reserved(device) - cuda.memory_allocated(device)

    def give_back(self) -> None:
        """Empty the cache."""
        self.module.cuda.empty_cache()

    def solve_triangular(self, L: Any, B: Any, transposed: bool) -> Any:
        """By the device's library."""
        return self.module.linalg.solve_triangular(L.mT if transposed else L, B, upper=transposed)
