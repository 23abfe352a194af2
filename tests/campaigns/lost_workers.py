"""Clusters and pools that lose what works for them, in the midst of a fit.

A trial begins a fit whose passes run elsewhere, and at a random moment a worker is
killed or frozen, the scheduler or the client is closed, the network becomes slow or
loses all connections, or all results come late. The fit gives the bits of an
undisturbed one, or there is one `EngineError`, within a minute, and no process is left.
The scheduler forgets fits that are done.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

import dask
import numpy as np
import psutil
import pyarrow as pa
from distributed import Client, LocalCluster
from pyarrow import parquet

import bochner as bo
from bochner.engines.base import EngineError
from bochner.engines.dask import DaskEngine
from bochner.engines.futures import FuturesEngine
from bochner.engines.remote import begun
from bochner.kernels import Gaussian
from bochner.selection import policy

Verdict = tuple[
    str, str, float
]  # a case in words, what is wrong with it, and its seconds
N, GROUP, LIMIT = 6000, 250, 60.0
# Seconds that a worker stands still, and that a message is late
FROZEN, LATE = 3.0, 0.05
# Of the engine, and of the scheduler with workers that do not answer
PATIENCE, SILENCE = 6.0, "8s"
PRELOADED = [
    "sklearn.linear_model",
    "pyarrow.parquet",
    "numba",
    "distributed",
    "bochner.engines.dask",
    "bochner",
]
FEATURES = bo.FourierFeatures(Gaussian(0.5), 60, random_state=0)
FITS: dict[str, dict[str, Any]] = {
    "moments": {},
    "gradients": {"solver": "cg", "tol": 1e-4},
}


@contextmanager
def streams(folder: Path) -> Iterator[Path]:
    """A folder of files, of which fits read so many rows in passes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 3)).astype(np.float32)
    table = pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "c": X[:, 2],
            "y": np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2],
        }
    )
    parquet.write_table(table, folder / "rows.parquet", row_group_size=GROUP)
    small = replace(policy.POLICY, gathered_rows=1000, sampled_rows=1500)
    with (
        patch("bochner.inputs.opened.POLICY", small),
        patch("bochner.estimators.machine.POLICY", small),
        patch("bochner.sources.arrow_files.PART_ROWS", GROUP),
    ):
        yield folder


def fitted(name: str, folder: Path, engine: Any) -> str:
    """A hash of the coefficients of a fit by an engine."""
    model = bo.KernelMachineRegressor(
        features=FEATURES, alpha=1.0, random_state=0, **FITS[name]
    )
    with bo.settings(engine=engine):
        model.fit(folder / "rows.parquet", "y")
    return sha256(np.ascontiguousarray(model.feature_weights_).tobytes()).hexdigest()


class Network:
    """What connects a scheduler with its workers and clients: it can be slow, and
    lose all connections.
    """

    def __init__(self) -> None:
        self.port, self.delay, self._writers = 0, 0.0, WeakSet[asyncio.StreamWriter]()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._server = self._run(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            answers, questions = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:  # a scheduler that has ended
            return writer.close()
        await asyncio.gather(
            self._carry(reader, questions),
            self._carry(answers, writer),
            return_exceptions=True,
        )

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        try:
            while content := await reader.read(1 << 16):
                await asyncio.sleep(self.delay)
                writer.write(content)
                await writer.drain()
        finally:
            writer.close()

    def cut(self) -> None:
        """Lose all connections. New ones can be made."""

        async def abort() -> None:
            for writer in list(self._writers):
                writer.transport.abort()

        self._run(abort())

    def close(self) -> None:
        """Make no more connections, and end the thread."""
        self.cut()
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextmanager
def cluster() -> Iterator[Client]:
    """Two processes of one thread each, and a network of their own to the scheduler."""
    multiprocessing.set_forkserver_preload(PRELOADED)
    options: dict[str, Any] = {
        "processes": True,
        "dashboard_address": ":0",
        "silence_logs": 60,
    }
    with (
        closing(Network()) as network,
        dask.config.set(
            {
                "distributed.worker.multiprocessing-method": "forkserver",
                "distributed.scheduler.worker-ttl": SILENCE,
                "distributed.comm.retry.count": 0,
            }
        ),
        LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            scheduler_kwargs={"contact_address": network.address},
            **options,
        ) as made,
    ):
        network.port, made.network = made.scheduler.port, network
        made.scale(2)
        with Client(network.address, set_as_default=False) as client:
            client.cluster = made
            client.wait_for_workers(2, timeout=LIMIT)
            yield client


@contextmanager
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two processes, by an executor."""
    multiprocessing.set_forkserver_preload(PRELOADED)
    executor = ProcessPoolExecutor(2, multiprocessing.get_context("forkserver"))
    list(executor.map(abs, range(4)))
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def worker_of(client: Client, rng: np.random.Generator) -> int:
    """The process of one of the workers, by the account of the nannies."""
    pids = [worker.pid for worker in client.cluster.workers.values() if worker.pid]
    return int(rng.choice(pids)) if pids else 0


def signalled(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, where there is one."""
    try:
        if pid:
            os.kill(pid, number)
    except ProcessLookupError:
        pass


def frozen(pid: int, seconds: float = FROZEN) -> None:
    """Let a process stand still for some time."""
    signalled(pid, signal.SIGSTOP)
    time.sleep(seconds)
    signalled(pid, signal.SIGCONT)


@contextmanager
def late() -> Iterator[None]:
    """All results of Dask come late."""
    gather = Client._gather_remote

    async def slowly(self: Client, *arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(LATE)
        return await gather(self, *arguments, **options)

    with patch.object(Client, "_gather_remote", slowly):
        yield


FAULTS: dict[str, Callable[[Client, np.random.Generator], object]] = {
    "a worker killed": lambda client, rng: signalled(
        worker_of(client, rng), signal.SIGKILL
    ),
    "all workers killed": lambda client, rng: [
        signalled(worker.pid, signal.SIGKILL)
        for worker in client.cluster.workers.values()
        if worker.pid
    ],
    "a worker frozen": lambda client, rng: frozen(worker_of(client, rng)),
    "results late": lambda client, rng: None,
    "a network that is slow": lambda client, rng: setattr(
        client.cluster.network, "delay", LATE
    ),
    "a worker frozen for good": lambda client, rng: signalled(
        worker_of(client, rng), signal.SIGSTOP
    ),
    "scheduler closed": lambda client, rng: client.cluster.sync(
        client.cluster.scheduler.close
    ),
    "cluster closed": lambda client, rng: client.cluster.close(timeout=5),
    "client closed": lambda client, rng: client.close(timeout=5),
    "connections lost": lambda client, rng: client.cluster.network.cut(),
}
LASTING = list(FAULTS)[5:]  # after which there is no cluster to go on with


def end(
    fit: Callable[[], str], fault: Callable[[], object], moment: float, expected: str
) -> str:
    """Begin a fit and a fault some seconds later; what is wrong with how the fit
    ends.
    """
    timer = threading.Timer(moment, fault)
    future = begun(fit)
    timer.start()
    try:
        error = future.exception(LIMIT)
    except TimeoutError:
        return f"hangs for {LIMIT:.0f} s"
    finally:
        timer.join(LIMIT)
    if error is None:
        return "" if future.result() == expected else "other bits"
    return "" if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"


def on_dask(
    number: int, folder: Path, first: int = 0, only: list[str] | None = None
) -> Iterator[Verdict]:
    """Fits on a cluster with a fault each. One cluster serves until a fault ends it."""
    names = list(FAULTS) if only is None else only
    with streams(folder):
        for begin in range(first, first + number, len(names)):
            seeds = range(begin, min(begin + len(names), first + number))
            lasting = [seed for seed in seeds if names[seed % len(names)] in LASTING]
            with cluster() as client:
                found = {name: undisturbed(name, folder, client) for name in FITS}
                for seed in seeds:
                    if seed not in lasting:
                        yield trial(seed, names, folder, client, found)
                size = scheduler_keeps(client)
                yield (
                    f"{begin} the scheduler",
                    f"keeps {size}" if any(size.values()) else "",
                    0.0,
                )
            for seed in lasting:
                with cluster() as client:
                    undisturbed("moments", folder, client)
                    yield trial(seed, names, folder, client, found)
                left = _left_over()
                yield f"{seed} its processes", f"left {left}" if left else "", 0.0


def undisturbed(name: str, folder: Path, client: Client) -> tuple[str, float]:
    """The bits of a fit that nothing happens to, and its seconds once workers have
    begun.
    """
    fitted(name, folder, client)
    start = time.perf_counter()
    return fitted(name, folder, client), time.perf_counter() - start


def trial(
    seed: int,
    names: list[str],
    folder: Path,
    client: Client,
    found: dict[str, tuple[str, float]],
) -> Verdict:
    """One fit with a fault, and what is wrong with its end."""
    rng, start = np.random.default_rng(seed), time.perf_counter()
    kind, name = names[seed % len(names)], list(FITS)[seed // len(names) % len(FITS)]
    expected, seconds = found[name]
    engine = DaskEngine(client, patience=PATIENCE)
    next(engine.results([engine.submit(int, "7")]))
    fit = partial(fitted, name, folder, engine)
    moment = float(rng.uniform(0, 1.1 * seconds))
    stopped = [worker.pid for worker in client.cluster.workers.values()]
    try:
        if kind == "results late":
            with late():
                wrong = end(fit, lambda: None, moment, expected)
        else:
            wrong = end(fit, partial(FAULTS[kind], client, rng), moment, expected)
    finally:
        if kind == "a network that is slow":
            client.cluster.network.delay = 0.0
        for pid in stopped:
            signalled(pid, signal.SIGCONT)
    if not wrong and kind not in LASTING:
        client.wait_for_workers(2, timeout=LIMIT)
    return (
        f"{seed} {name}, {kind} at {moment:.2f} of {seconds:.2f} s",
        wrong,
        time.perf_counter() - start,
    )


def scheduler_keeps(client: Client) -> dict[str, int]:
    """What the scheduler still knows of fits that are done."""
    scheduler, deadline = client.cluster.scheduler, time.monotonic() + 5
    while True:
        size = {
            "tasks": len(scheduler.tasks),
            "wanted": sum(len(one.wants_what) for one in scheduler.clients.values()),
        }
        if not any(size.values()) or time.monotonic() > deadline:
            return size
        time.sleep(0.05)


def _left_over() -> list[int]:
    """Processes below this one, but the server of forks and the tracker of
    resources, which serve it to its end.
    """
    own = {
        forkserver._forkserver._forkserver_pid,
        resource_tracker._resource_tracker._pid,
    }
    deadline = time.monotonic() + 10
    while True:
        below = psutil.Process().children(recursive=True)
        left = [child.pid for child in below if child.pid not in own and _lives(child)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


POOL_FAULTS: dict[str, Callable[[int], object]] = {
    "a process killed": lambda pid: signalled(pid, signal.SIGKILL),
    "a process frozen": frozen,
    "a process frozen for good": lambda pid: signalled(pid, signal.SIGSTOP),
}


def on_pools(number: int, folder: Path, first: int = 0) -> Iterator[Verdict]:
    """Fits on the processes of an executor with a fault each."""
    with streams(folder):
        with pool() as executor:
            found = {}
            for name in FITS:
                fitted(name, folder, executor)
                start = time.perf_counter()
                found[name] = (
                    fitted(name, folder, executor),
                    time.perf_counter() - start,
                )
        for seed in range(first, first + number):
            rng, start = np.random.default_rng(seed), time.perf_counter()
            kinds = [*POOL_FAULTS, "the executor shut down"]
            kind, name = (
                kinds[seed % len(kinds)],
                list(FITS)[seed // len(kinds) % len(FITS)],
            )
            expected, seconds = found[name]
            with pool() as executor:
                pid, moment = (
                    int(rng.choice(list(executor._processes))),
                    float(rng.uniform(0, 1.1 * seconds)),
                )
                fault: Callable[[], object] = partial(
                    executor.shutdown, wait=False, cancel_futures=True
                )
                if kind in POOL_FAULTS:
                    fault = partial(POOL_FAULTS[kind], pid)
                engine = FuturesEngine(executor, PATIENCE)
                wrong = end(
                    partial(fitted, name, folder, engine), fault, moment, expected
                )
                signalled(pid, signal.SIGCONT)
            if not wrong and (left := _left_over()):
                wrong = f"left {left}"
            yield (
                f"{seed} {name}, {kind} at {moment:.2f} of {seconds:.2f} s",
                wrong,
                time.perf_counter() - start,
            )
