"""Compiled loops by the processor that they are compiled for, beside limits: ``python
-m benchmarks loops``.

Every target runs in a process of its own, which compiles all loops again, on one
thread.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from report import Results, machines, table
from runner import QUICK, elapsed, run

D, TILE = 2000, 2 << 20  # features, and bytes of the tiles that feature maps work on
TARGETS = {
    "this machine": "",
    "generic": "sse2",
    "haswell": "avx2",
    "skylake-avx512": "avx512f",
    "znver4": "avx512f",
}
NOTE = """\
Nanoseconds an entry on one thread. In brackets is the ratio to the larger of two limits, measured in the same process:
the bytes that the loop reads and writes at the rate of 2 MB copies, and its additions and multiplications at the rate
of multiply-adds compiled for the same target. Columns are compilation targets (`NUMBA_CPU_NAME`, with no further
features), so one machine shows what others would run. `generic` has 128-bit vectors and no multiply-add, `haswell` 256
bits, and `skylake-avx512` and `znver4` 512. An entry is one of these: a pair of cosine and sine; a feature of a row
that is rounded to 8 bits, or multiplied in both directions for one vector; a bin of a row; a column of a row in a
lattice. The limits ignore random access to bins, and conversions between bytes, integers and floating-point numbers.
The last column has the CPU seconds for compiling the loop for this machine and calling it once."""


class Loop(NamedTuple):
    """A loop at work: its entries, and what each reads, writes and computes at
    least.
    """

    work: Callable[[], object]
    entries: int
    n_bytes: float
    operations: float = 0.0


def copies() -> Loop:
    """Bytes copied inside the cache."""
    source, target = np.ones(TILE, np.int8), np.zeros(TILE, np.int8)
    return Loop(partial(np.copyto, target, source), TILE, 2)


def multiply_adds(dtype: type) -> Loop:
    """Eight of them for each number that is read and written, in the first cache."""
    from bochner.loops.compile import compiled, use_wide_vectors

    def eight(x: Any, a: Any, t: Any) -> None:
        use_wide_vectors()
        for _ in range(100):
            for i in range(x.shape[0]):
                y = x[i]
                t[i] = (
                    ((((((t[i] * y + a) * y + a) * y + a) * y + a) * y + a) * y + a) * y
                    + a
                ) * y + a

    x = np.full(1024, 0.5, dtype)
    return Loop(
        partial(compiled(eight), x, dtype(0.5), np.ones_like(x)), 800 * len(x), 0
    )


def trig(dtype: type) -> Loop:
    """Cosines and sines of a tile."""
    from bochner.loops.trig import cos_sin

    Z = np.zeros((TILE // (D * np.dtype(dtype).itemsize), D), dtype)
    T = np.random.default_rng(0).standard_normal((len(Z), D // 2)).astype(dtype)
    operations = {np.float32: 16, np.float64: 23}[dtype]
    return Loop(
        partial(cos_sin, T, np.ones(D // 2, dtype), Z),
        T.size,
        3 * T.itemsize,
        operations,
    )


def quantised(dtype: type) -> Loop:
    """Features of a tile to 8 bits."""
    from bochner.loops.bytes import quantise

    Z = (
        np.random.default_rng(0)
        .uniform(-1, 1, (TILE // (D * np.dtype(dtype).itemsize), D))
        .astype(dtype)
    )
    centre, scale = np.zeros(D, dtype), np.full(D, 127, dtype)
    return Loop(
        partial(quantise, Z, centre, scale, np.empty(Z.shape, np.int8)),
        Z.size,
        Z.itemsize + 1,
        2,
    )


def passes(vectors: int) -> Loop:
    """Products there and back of features in 8 bits."""
    from bochner.loops.bytes import normal, normal_of_two

    rng = np.random.default_rng(0)
    Z = rng.integers(-127, 128, (TILE // D, D)).astype(np.int8)
    V, Q = (
        rng.standard_normal((vectors, D)).astype(np.float32),
        np.zeros((vectors, D), np.float32),
    )
    work, V, Q = (normal, V[0], Q[0]) if vectors == 1 else (normal_of_two, V, Q)
    return Loop(
        partial(work, Z, np.ones(len(Z), np.float32), V, Q),
        vectors * Z.size,
        1 / vectors,
        2,
    )


def bins(backward: bool) -> Loop:
    """Products of bins and a vector, there or back, of which each grid's share is in
    the cache.
    """
    from bochner.features.stored import StoredBins

    P, n, size = 16, 1 << 16, 1 << 14
    rng = np.random.default_rng(0)
    ids = rng.integers(size, size=(P, n)).astype(np.int32)
    stored = StoredBins(ids, np.ones((P, 1), np.float32), size * np.arange(P + 1))
    V, T = np.ones((1, P * size), np.float32), np.ones((1, n), np.float32)
    work = partial(stored.backward, T, V) if backward else partial(stored.forward, V)
    return Loop(work, ids.size, ids.itemsize + (12 if backward else 8))


def hashes() -> Loop:
    """Hashes of rows in the bins of one grid."""
    from bochner.loops.bins import hash_dense

    rng = np.random.default_rng(0)
    X = rng.standard_normal((54, 1024))
    pitches, shifts = rng.uniform(0.5, 2, (1, len(X))), rng.uniform(size=(1, len(X)))
    multipliers = rng.integers(1 << 62, size=(1, len(X)))
    arguments = (
        X,
        X.min(axis=1),
        X.max(axis=1),
        1 / pitches,
        shifts,
        multipliers,
        np.empty(X.shape[1], np.int64),
    )
    return Loop(partial(hash_dense, *arguments), X.size, X.itemsize, 2)


LIMITS = {
    "a byte copied": copies,
    "a multiply-add, float32": partial(multiply_adds, np.float32),
    "a multiply-add, float64": partial(multiply_adds, np.float64),
}
LOOPS = {
    "cosine and sine, float32": partial(trig, np.float32),
    "cosine and sine, float64": partial(trig, np.float64),
    "to 8 bits, float32": partial(quantised, np.float32),
    "to 8 bits, float64": partial(quantised, np.float64),
    "8-bit pass": partial(passes, 1),
    "8-bit pass, two vectors": partial(passes, 2),
    "gather": partial(bins, False),
    "scatter": partial(bins, True),
    "hash": hashes,
}


def measure(target: str) -> list[tuple[str, float, float, float]]:
    """Name, nanoseconds an entry, limit and seconds of compilation of each loop,
    where this machine can run it.
    """
    if target != "this machine":
        from llvmlite.binding import get_host_cpu_features

        if not get_host_cpu_features().get(TARGETS[target]):
            return []
        os.environ |= {"NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ""}
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"NUMBA_CACHE_DIR": cache, "NUMBA_NUM_THREADS": "1"}
        limits = {name: nanoseconds(make())[0] for name, make in LIMITS.items()}
        rows = [(name, limit, 0.0, 0.0) for name, limit in limits.items()]
        for name, make in LOOPS.items():
            loop = make()
            took, compilation = nanoseconds(loop)
            rate = limits[
                "a multiply-add, "
                f"{'float64' if 'float64' in name or name == 'hash' else 'float32'}"
            ]
            rows.append(
                (
                    name,
                    took,
                    max(
                        loop.n_bytes / 2 * limits["a byte copied"],
                        loop.operations * rate,
                    ),
                    compilation,
                )
            )
    return rows


def nanoseconds(loop: Loop) -> tuple[float, float]:
    """Least nanoseconds an entry of many calls, and processor seconds of the first
    one.
    """
    start = time.process_time()
    loop.work()
    compilation = time.process_time() - start
    calls = 1 if QUICK else max(20, int(0.5 / elapsed(loop.work)))
    return 1e9 * min(
        elapsed(loop.work) for _ in range(calls)
    ) / loop.entries, compilation


def _cell(row: Sequence[Any]) -> str:
    _, took, limit, _ = row
    return f"{took:.3f} ({took / limit:.1f})" if limit else f"{took:.4f}"


def body(results: Results) -> str:
    """A table for each machine: a loop in each line, a target in each column."""
    parts = []
    for machine in machines(results):
        found = {
            target: own[machine]["rows"]
            for target, own in results.items()
            if own.get(machine, {}).get("rows")
        }
        lines = [
            [line[0][0], *map(_cell, line), f"{line[0][3]:.2f}"]
            for line in zip(*found.values(), strict=True)
        ]
        parts.append(
            f"**{machine}**\n\n{table(['loop', *found, 'compiled in, s'], lines)}"
        )
    return "\n\n".join([*parts, NOTE])


if __name__ == "__main__":
    run(
        "Compiled loops",
        __file__,
        __doc__,
        {target: partial(measure, target) for target in TARGETS},
        body,
    )
