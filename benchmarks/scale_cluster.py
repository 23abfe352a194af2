"""Fits on the workers of a cluster that is this machine: parts of ``python -m
benchmarks scale``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from threading import Timer
from typing import Any, NamedTuple

import numpy as np

import scale_data
from report import Row
from runner import repeats, size
from scale_fit import ALPHA, LENGTHSCALE, digest

ROWS, KILLED_ROWS = 4_000_000, 1_000_000
SAMPLE, FEATURES, GRIDS = 100_000, 1000, 50
FITS, KILLS = 3, 20
WAIT = 120  # seconds, at most, until workers are there


class Timed(NamedTuple):
    """Seconds of a fit and of one with all choices made, and the model."""

    fit: float
    refit: float
    model: Any


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    """A client of `n_workers` processes of one thread each."""
    from dask.distributed import Client, LocalCluster

    local = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
    )
    with local, Client(local) as client:
        client.wait_for_workers(n_workers, timeout=WAIT)
        yield client


def machine(name: str) -> Any:
    """A model of which nothing is to be chosen but the iterations of conjugate
    gradients, for bins.
    """
    from bochner import BinningFeatures, FourierFeatures, KernelMachineRegressor
    from bochner.kernels import Gaussian, Laplacian

    if name == "bins":
        features: Any = BinningFeatures(Laplacian(4 * LENGTHSCALE), GRIDS)
        return KernelMachineRegressor(
            features=features, solver="cg", alpha=ALPHA, random_state=0
        )
    features = FourierFeatures(Gaussian(LENGTHSCALE), FEATURES)
    return KernelMachineRegressor(
        features=features, solver="direct", alpha=ALPHA, random_state=0
    )


def source(n: int) -> Any:
    """Rows in files, of which the first stand for all."""
    import bochner

    return bochner.open_source(scale_data.folder(n), sample=min(SAMPLE, n // 4))


def timed(name: str, n: int, client: Any = None) -> Timed:
    """Medians of fits of the first `n` rows, on a cluster or in this process, after
    one of few rows.
    """
    import bochner

    fits, refits = [], []
    with bochner.settings(engine=client):
        model = machine(name).fit(source(size(100_000)), "target")
        for _ in range(repeats(FITS)):
            start = time.perf_counter()
            model = machine(name).fit(source(n), "target")
            fits.append(time.perf_counter() - start)
        again = machine(name).fit(source(n), "target")
        for _ in range(repeats(FITS)):
            start = time.perf_counter()
            again.refit(source(n), "target")
            refits.append(time.perf_counter() - start)
    return Timed(median(fits), median(refits), model)


def speed() -> list[Row]:
    """Two workers against one, and their models against that of this process."""
    n, rows = size(ROWS), []
    bars = {"moments": "same bits", "bins": "<= 1e-6"}
    for name, title, bar in (
        ("moments", f"moments, D = {FEATURES:,}", 1.8),
        ("bins", f"bins, {GRIDS} grids", 1.6),
    ):
        found = []
        for n_workers in (1, 2):
            with cluster(n_workers) as client:
                found.append(timed(name, n, client))
        one, two, local = *found, timed(name, n)
        what = f"Dask, 2 processes of one thread, {title}, {n:,} rows"
        passes = (
            f"{two.refit:.1f} s, {one.refit / two.refit:.2f} times as fast as "
            "one process"
        )
        rows += [
            Row(
                f"{what}: passes",
                passes,
                f">= {bar} times",
                "the threads of one process",
                two.refit / local.refit,
            ),
            Row(
                f"{what}: whole fit",
                f"{two.fit:.1f} s, {one.fit / two.fit:.2f} times as fast",
                "",
            ),
        ]
        for where, other in (("one process", one), ("no cluster", local)):
            error = (
                np.abs(two.model.feature_weights_ - other.model.feature_weights_).max()
                / np.abs(other.model.feature_weights_).max()
            )
            same = (
                "same bits"
                if digest(two.model) == digest(other.model)
                else f"{error:.1e}"
            )
            rows.append(Row(f"{what}: coefficients against {where}", same, bars[name]))
    return rows


def workers() -> list[Row]:
    """Fits of which a worker is killed at some moment, each on a cluster of its own."""
    import bochner

    n = size(KILLED_ROWS)
    with cluster(2) as client, bochner.settings(engine=client):
        machine("moments").fit(source(size(100_000)), "target")
        start = time.perf_counter()
        plain = digest(machine("moments").fit(source(n), "target"))
        whole = time.perf_counter() - start
    same, shares = 0, []
    for share in np.linspace(0.1, 0.9, repeats(KILLS)):
        with cluster(2) as client, bochner.settings(engine=client):
            machine("moments").fit(source(size(100_000)), "target")
            pid = next(iter(client.run(os.getpid).values()))
            timer = Timer(share * whole, os.kill, (pid, signal.SIGKILL))
            start = time.perf_counter()
            timer.start()
            model = machine("moments").fit(source(n), "target")
            took = time.perf_counter() - start
            timer.cancel()
        same += digest(model) == plain
        shares.append((took - whole) / (share * whole / 2))
    what = (
        f"Dask, 2 processes, D = {FEATURES:,}, {n:,} rows, a worker killed at 10 "
        f"to 90 % of {whole:.0f} s"
    )
    over = f"{median(shares):.2f}, at most {max(shares):.2f}"
    return [
        Row(f"{what}: same bits", f"{same} of {len(shares)}", "all"),
        Row(f"{what}: time lost over what the worker had done", over, "<= 2"),
    ]
