"""What the machine can do at best: copies, multiply-adds, reads at random, by all
cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from runner import elapsed

MEMORY = 2**28  # bytes of an array that no cache holds


def fastest(work: Callable[[], object]) -> float:
    """Least seconds of some calls."""
    return min(elapsed(work) for _ in range(7))


def copied() -> float:
    """Bytes a second that are read and written elsewhere."""
    sources = np.array_split(np.ones(MEMORY // 8), os.cpu_count() or 1)
    targets = [np.zeros_like(source) for source in sources]
    with ThreadPoolExecutor(len(sources)) as pool:
        return MEMORY / fastest(lambda: list(pool.map(np.copyto, targets, sources)))


def multiplied(dtype: type) -> float:
    """Multiply-adds a second of a product of square matrices by BLAS."""
    A = np.random.default_rng(0).standard_normal((3000, 3000)).astype(dtype)
    return len(A) ** 3 / fastest(lambda: A @ A)


def gathered() -> float:
    """Entries of four bytes a second, read in random order."""
    values = np.ones(MEMORY // 4, np.float32)
    orders = np.random.default_rng(0).integers(
        len(values), size=(os.cpu_count() or 1, 2**22)
    )
    found = np.zeros(orders.shape, np.float32)
    with ThreadPoolExecutor(len(orders)) as pool:
        return orders.size / fastest(
            lambda: list(
                pool.map(
                    lambda order, out: values.take(order, out=out, mode="clip"),
                    orders,
                    found,
                )
            )
        )
