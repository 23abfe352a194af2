"""Costs of this machine, measured once by the work itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np

from bochner.engines.algebra import PANEL, gram, shifted_cholesky, solve_cholesky
from bochner.engines.costs import COSTS, Costs, costs_file, plausible, read_costs
from bochner.engines.local import in_threads, n_threads
from bochner.features.fourier import FourierFeatures
from bochner.features.stored import StoredBytes, StoredFloats
from bochner.kernels import Gaussian
from bochner.loops.clock import CLOCK
from bochner.settings import settings
from bochner.solvers.shifted import Tridiagonal
from bochner.whole_files import replacing

REPEATS = 5  # of two under load the least was 1.4 times what five found, and is kept for good
ROWS, SIDE = 512, 768  # of matrices that are multiplied, by each thread its own
STORED = (12_288, 4096)  # rows and bytes of stored features, more than a cache holds
TICK = 1e-12  # seconds, the least that a clock is taken to tell
VECTORS = 4  # that are multiplied at once
COLUMNS = 16  # of rows whose features are computed


@cache
def machine_costs() -> Costs:
    """Costs of this machine: from the folder of caches, or measured in some tenths of a second and kept there.

    Solvers are chosen by them, and how much work a time limit allows; otherwise never maps or sizes, which would not be
    the same elsewhere.
    """
    path = costs_file(n_threads())
    costs = read_costs(path)
    if costs is None:
        with settings(memory_limit=None):  # which is that of a fit, whatever asks first
            costs = measure()
        if not plausible(costs):  # a clock that stands still, or a machine that was asleep
            return COSTS
        write_costs(costs, path)
    return costs


def timed_costs(limit: float | None) -> Costs:
    """The costs that a fit with such a time limit goes by, the usual ones without; to measure them does not count."""
    if limit is None:
        return COSTS
    with CLOCK:
        return machine_costs()


def write_costs(costs: Costs, path: Path) -> None:
    """Keep costs in a file, all of it or nothing; where no file can be written there is none."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            Path(temporary).write_text(json.dumps(asdict(costs)))


def measure() -> Costs:
    """Costs by the work itself, each piece done once before it is timed: compiled, and with its memory at hand."""
    n, D = ROWS, SIDE
    A = np.random.default_rng(0).standard_normal((n, D), dtype=np.float32)
    square, squares = A.T @ A / n, np.empty((n_threads(), D, D), np.float32)
    lower, wide = shifted_cholesky(square, 1.0, 1e-6), (A.astype(np.float64), square.astype(np.float64))
    features = FourierFeatures(Gaussian(), D, random_state=0).draw(COLUMNS)
    rows = np.ascontiguousarray(A[:, :COLUMNS])
    single = _on_each(lambda k: A @ square)
    packed = StoredBytes(STORED[0], np.ones(STORED[1]), np.zeros(STORED[1]))
    packed.Z.fill(63)  # which is 0.75 in four bytes of a number
    byte, bytes_at_once = _passes(packed)
    number, numbers_at_once = _passes(StoredFloats(packed.Z.view(np.float32)))
    sums = _on_each(lambda k: gram(A, squares[k])) / (n * D * (D + PANEL))
    loops = "gradient_step", "bin", "bin_pass"  # which would have to be compiled, and are as fast as products are
    return Costs(
        **{name: getattr(COSTS, name) * sums / COSTS.gram for name in loops},
        gram=sums,
        product=single / (n * D**2),
        double=_on_each(lambda k: wide[0] @ wide[1]) / single,
        reduction=_seconds(lambda: Tridiagonal(square[:n, :n].copy()), 1) / (4 / 3 * n**3),
        feature=_seconds(lambda: features.store(rows, packed=True)) / A.size,
        byte_pass=byte,
        byte_column=bytes_at_once,
        float_pass=number,
        float_column=numbers_at_once,
        factor_entry=_seconds(lambda: solve_cholesky(lower, A[:1].T), 1) / D**2,
    )


def _passes(stored: StoredBytes | StoredFloats) -> tuple[float, float]:
    """Seconds of an entry, there and back, for the first vector and for each further one."""
    once, more = _normal(stored, 1), _normal(stored, VECTORS)
    return once / stored.Z.size, max((more - once) / (VECTORS - 1), 0.1 * once) / stored.Z.size


def _normal(stored: StoredBytes | StoredFloats, n_columns: int) -> float:
    V = np.ones((n_columns, stored.Z.shape[1]))
    Q, weight = np.zeros_like(V), np.ones(stored.n_rows)
    return _seconds(lambda: stored.normal(V, weight, Q))


def _on_each(work: Callable[[int], object]) -> float:
    """Seconds of work that each thread does at the same time, over their number."""
    return _seconds(lambda: in_threads(work, range(n_threads()))) / n_threads()


def _seconds(work: Callable[[], object], threads: int | None = None) -> float:
    """The least of a few times, after one that is not counted: processor time a thread, if that is less.

    So other processes at the same time hardly count.
    """
    threads, times = threads or n_threads(), []
    for _ in range(REPEATS + 1):
        start, busy = time.perf_counter(), time.process_time()
        work()
        busy, wall = time.process_time() - busy, time.perf_counter() - start
        times.append(min(wall, busy / threads) if busy > 0 else wall)
    return max(min(times[1:]), TICK)
