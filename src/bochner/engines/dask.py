"""The workers of a Dask cluster as an engine: whether they live, what memory they
have, and why work is lost.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import nullcontext
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakSet

import cloudpickle

from bochner.engines.base import EngineError
from bochner.engines.remote import Call, at, begun, itself, name_of, within
from bochner.settings import as_size

if TYPE_CHECKING:
    from distributed import Client, Future

LOOK = 5.0  # seconds between two looks at the cluster, at most
IDLE = 5  # times the patience that a cluster may do nothing
# Of the memory limit of a worker: Dask begins to spill there, and cannot spill what is
# in use
OWN_SHARE = 0.6

# Clients of clusters whose workers have the versions of this process
_same: WeakSet[Client] = WeakSet()


class Cluster:
    """The cluster of a client.

    Parameters
    ----------
    client : distributed.Client
    patience : float
        Seconds that are waited for an answer, and for workers.
    """

    def __init__(self, client: Client, patience: float) -> None:
        self.client = client
        self.patience = patience
        self._memory: tuple[int, int] | None = None
        self.begin_to_look()

    @property
    def name(self) -> str:
        """How users know it."""
        scheduler = self.client.scheduler
        return (
            "The Dask scheduler at "
            f"{getattr(scheduler, 'address', 'an unknown address')}"
        )

    def begin_to_look(self) -> None:
        """Count the times from now on."""
        now = monotonic()
        self.looked = self.had_workers = self.was_busy = now

    def workers(self) -> dict[str, Any]:
        """The workers by their addresses.

        Raises
        ------
        EngineError
            Where the scheduler does not answer.
        """
        lost = (
            f"{self.name} does not answer: check that it runs, connect a new "
            "Client, and start again."
        )
        deadline = monotonic() + self.patience
        while self.client.status != "running":
            if self.client.status in ("closing", "closed") or monotonic() > deadline:
                raise EngineError(lost)
            sleep(0.05)
        found = within(
            self.patience, lambda: self.client.scheduler_info(n_workers=-1), lost
        )
        if self.client.status != "running":
            raise EngineError(lost)
        return found["workers"]

    def look(self) -> None:
        """Look at the cluster, every few seconds.

        Raises
        ------
        EngineError
            Where it is lost, has had no workers for some time, or none of them does
            anything.
        """
        now = monotonic()
        if (
            now - self.looked < min(LOOK, self.patience / 4)
            and self.client.status == "running"
        ):
            return
        workers = self.workers()
        self.looked = now
        if workers:
            self.had_workers = now
        if any(_is_busy(worker) for worker in workers.values()):
            self.was_busy = now
        if now - self.had_workers > self.patience:
            raise EngineError(self._without_workers())
        if now - self.was_busy > IDLE * self.patience:
            raise EngineError(
                f"{self.name} has work, but none of its {len(workers)} workers has "
                "made progress for "
                f"{IDLE * self.patience:.0f} s{_paused(workers)}: restart the "
                "cluster and start again."
            )

    def _without_workers(self) -> str:
        return (
            f"{self.name} has had no workers for {self.patience:.0f} s: they may "
            "have died for lack of memory, or have "
            "not started; check their logs, start workers, and start again."
        )

    def _wait_for_one(self) -> dict[str, Any]:
        deadline = monotonic() + self.patience
        while not (workers := self.workers()):
            if monotonic() > deadline:
                raise EngineError(self._without_workers())
            sleep(0.1)
        return workers

    def smallest(self) -> tuple[int, int]:
        """Memory limit, 0 for none, and threads of the worker that has the least
        memory for a thread.
        """
        if self._memory is None:
            workers = [
                (one["memory_limit"] or 0, one["nthreads"])
                for one in self._wait_for_one().values()
            ]
            limited = [one for one in workers if one[0]]
            self._memory = min(limited, key=lambda one: one[0] / one[1], default=(0, 1))
        return self._memory

    def require_memory(self, work: Callable[..., Any]) -> None:
        """Raise MemoryError where work takes more than a worker has for it."""
        need = getattr(work, "n_bytes", 0)
        if not need:
            return
        limit, threads = self.smallest()
        if getattr(work, "whole_worker", False):
            threads = 1
        free = OWN_SHARE * limit / threads
        if limit and need > free:
            raise MemoryError(
                f"{name_of(work)} needs {as_size(need)}, and {as_size(free)} are "
                "free on a worker (tasks at a time: "
                f"{threads}; memory_limit of {as_size(limit)}). Use a smaller "
                "n_components, fewer "
                "threads a worker, or workers with a larger memory_limit."
            )

    def require_same_versions(self) -> None:
        """Ask all workers, once for each client, for their versions.

        Raises
        ------
        EngineError
            Naming a worker that has no bochner, or another version of it, of NumPy or
            of Python.
        """
        if self.client in _same:
            return
        self._wait_for_one()
        ask = _asker()
        own = _asker()()
        call = lambda: self.client.run(ask, on_error="return")  # noqa: E731
        found = within(
            self.patience,
            call,
            f"{self.name} has workers that do not answer: restart them and start "
            "again.",
        )
        for address, versions in found.items():
            if versions != own and not isinstance(
                versions, Exception
            ):  # of workers that have left meanwhile
                raise EngineError(_difference(address, versions, own))
        _same.add(self.client)


def _asker() -> Callable[[], dict[str, str]]:
    """What returns versions; it travels as code, for workers that have no bochner."""

    def versions() -> dict[str, str]:
        import sys
        from importlib import import_module

        found = {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        for name in ("numpy", "bochner"):
            try:
                found[name] = import_module(name).__version__
            except ImportError:
                found[name] = ""
        return found

    return versions


def _difference(address: str, theirs: dict[str, str], ours: dict[str, str]) -> str:
    other = [name for name in ours if theirs[name] != ours[name]]
    there, here = (
        ", ".join(f"{name} {of[name] or 'missing'}" for name in other)
        for of in (theirs, ours)
    )
    return (
        f"The worker at {address} has {there}, and this process has {here}: "
        "install the same versions everywhere."
    )


def _paused(workers: dict[str, Any]) -> str:
    paused = sum(worker.get("status") == "paused" for worker in workers.values())
    return f" ({paused} of them are paused for lack of memory)" if paused else ""


def _is_busy(worker: dict[str, Any]) -> bool:
    """Whether a worker computes, or gets what it computes with; also where it does
    not tell.
    """
    counts = (worker.get("metrics") or {}).get("task_counts")
    return counts is None or any(
        counts.get(state) for state in ("executing", "flight", "long-running")
    )


LOST = (
    "The Dask scheduler was lost: check that it runs, connect a new Client, and "
    "start again."
)


def explained(error: BaseException, connected: bool) -> EngineError | None:
    """What to say where the cluster, not the work, has failed; None of what the work
    itself has raised.

    Parameters
    ----------
    error : BaseException
    connected : bool
        Whether the client is still connected to its scheduler: where not, works are
        given up for no reason.
    """
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    if isinstance(error, KilledWorker):
        worker = error.last_worker
        limit = (
            f", whose memory_limit is {as_size(worker.memory_limit)},"
            if worker.memory_limit
            else ""
        )
        return EngineError(
            f"{error.allowed_failures + 1} workers have died on the same task, the "
            "last of them at "
            f"{worker.address}{limit} most likely for lack of memory: use a smaller "
            "n_components, fewer threads a "
            "worker, or workers with a larger memory_limit, and check the workers' "
            "logs."
        )
    if isinstance(error, CancelledError):
        if not connected or getattr(error, "reason", "") == "scheduler-connection-lost":
            return EngineError(LOST)
        return EngineError(
            f"Dask has given up the work ({str(error).splitlines()[0]}): scattered "
            "data are lost with their worker; "
            "give collections or files, and start again."
        )
    if isinstance(error, ModuleNotFoundError) and error.name == "bochner":
        return EngineError(
            "bochner is not installed on a worker of the Dask cluster: install the "
            "same version everywhere."
        )
    if isinstance(error, CommClosedError):
        return EngineError(
            f"The connection to the Dask cluster was lost ({error}): connect a new "
            "Client, and start again."
        )
    return None


POLL = 0.2  # seconds between two looks at work that is done elsewhere
LARGE = 1 << 20  # bytes of a task, beyond which Dask may warn of what cannot be helped
CANCEL = 10.0  # seconds that a cluster may take to give up work


class DaskEngine:
    """The workers of a Dask cluster. Work begins at once; results stay on the workers
    until they are asked for.

    No work is bound to a worker and all of it can be done again, so that it survives
    workers that die. What it is given may hold futures and lazy objects of Dask,
    however deep: the work gets what comes of them, and partitions are let go when it is
    done.

    Parameters
    ----------
    client : distributed.Client
        One that is not asynchronous.
    patience : float, default=60
        Seconds to wait for a scheduler that does not answer or a cluster that has no
        workers; five times as long for one that does nothing.

    Raises
    ------
    TypeError
        Where the client is asynchronous.
    """

    is_remote = keeps_results = True

    def __init__(self, client: Client, patience: float = 60.0) -> None:
        if client.asynchronous:
            raise TypeError(
                "engine must be a Client that is not asynchronous: make it with "
                "Client(..., asynchronous=False), or "
                "fit in a separate thread with asyncio.to_thread."
            )
        self.client = client
        self.cluster = Cluster(client, patience)
        self._watched: list[tuple[Future, Callable[[], object]]] = []

    @property
    def n_workers(self) -> int:
        """Threads of all workers."""
        return max(
            sum(worker["nthreads"] for worker in self.cluster.workers().values()), 1
        )

    @property
    def n_processes(self) -> int:
        """Workers of the cluster: processes, which keep results each for itself."""
        return max(len(self.cluster.workers()), 1)

    @property
    def worker_memory(self) -> int | None:
        """Bytes that work may take on the smallest worker, for all of its threads;
        None where workers have no limit.
        """
        limit, _ = self.cluster.smallest()
        return int(OWN_SHARE * limit) or None

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        """Give work to the cluster; a future of its result.

        Raises
        ------
        EngineError
            Where the cluster is lost or has no workers, or they have other versions.
        MemoryError
            Where a worker has not the memory that the work says it takes.
        """
        self.cluster.require_same_versions()
        self.cluster.require_memory(work)
        try:
            return self._send(work, *arguments)
        except Exception as error:
            if self.client.status in ("closing", "closed"):  # since the last look
                raise EngineError(LOST) from error
            raise

    def _send(self, work: Callable[..., Any], *arguments: Any) -> Future:
        import dask

        data, outside = pack(Call(work, arguments), _stays_out)
        name = f"bochner-{name_of(work)}-{uuid4().hex}"
        silent = "distributed.admin.large-graph-warning-threshold"
        with nullcontext() if len(data) < LARGE else dask.config.set({silent: "1 TB"}):
            if all(_is_future(one) for one in outside):
                return self.client.submit(_do, data, *outside, key=name, fifo_timeout=0)
            inner = [one if _is_future(one) else _culled(one) for one in outside]
            lazy = dask.delayed(_do, pure=False)(data, *inner, dask_key_name=name)
            return self.client.compute(lazy, fifo_timeout=0)

    def share(self, value: Any) -> Any:
        """A value that the cluster keeps, made by a task: scattered ones die with
        their worker.
        """
        return None if value is None else self.submit(itself, value)

    def watch(self, handle: Future, done: Callable[[], object]) -> None:
        """Call ``done()`` while a result is waited for, once that of the handle is
        there.
        """
        self._watched.append((handle, done))

    def result(self, handle: Any) -> Any:
        """Wait for a result and get it; an interrupt, or a failure, cancels the work.

        Raises
        ------
        EngineError
            Where the cluster is lost, has no workers, does nothing, or its workers die
            of this work.
        """
        if not _is_future(handle):
            return handle
        self.cluster.begin_to_look()
        try:
            pending = begun(handle.result)
            while not wait([pending], POLL).done:
                self._tell()
                self.cluster.look()
            self._tell()
            return pending.result()
        except BaseException as error:
            if connected := self.client.status == "running":
                wait([begun(lambda: self.client.cancel([handle]))], CANCEL)
            if (known := explained(error, connected)) is not None:
                raise known from error
            raise
        finally:
            self._watched = []

    def _tell(self) -> None:
        """Call what is to be called of the results that are there, which are kept
        for it no longer.
        """
        watched = self._watched
        self._watched = []
        for future, done in watched:
            if future.status == "finished":
                done()
            else:
                self._watched.append((future, done))


def _do(data: bytes, *values: Any) -> Any:
    from distributed import get_worker

    worker = get_worker()
    with at(f"worker {worker.name} at {worker.address}"):
        call: Call = unpack(data, values)
        whole = getattr(call.work, "whole_worker", False)
        return call.do(worker.state.nthreads if whole else 1)


def _is_future(item: Any) -> bool:
    from distributed import Future

    return isinstance(item, Future)


def _stays_out(item: Any) -> bool:
    if not hasattr(type(item), "__dask_graph__"):
        return _is_future(item)
    from dask import is_dask_collection

    return is_dask_collection(item)


def _culled(item: Any) -> Any:
    """A lazy object with the part of its graph that it needs, as the whole of it
    would travel with each partition.
    """
    from dask import delayed
    from dask.delayed import Delayed
    from dask.optimization import cull
    from dask.utils import ensure_dict

    if not isinstance(item, Delayed):
        return delayed(item)
    graph, _ = cull(ensure_dict(item.__dask_graph__()), [item.key])
    return Delayed(item.key, graph)


def pack(value: Any, stays_out: Callable[[Any], bool]) -> tuple[bytes, list[Any]]:
    """Pickle a value without some of the objects in it, however deep these lie.

    Parameters
    ----------
    value : object
    stays_out : callable
        Whether an object is one of them.

    Returns
    -------
    bytes
        What `unpack` takes.
    list
        The objects that were left out, each once.
    """
    packer = _Packer(file := io.BytesIO(), stays_out)
    packer.dump(value)
    return file.getvalue(), packer.left_out


def unpack(data: bytes, values: Sequence[Any]) -> Any:
    """A value of what `pack` made of it, with these values in the place of the
    objects that were left out.
    """
    return _Unpacker(io.BytesIO(data), values).load()


class _Packer(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, stays_out: Callable[[Any], bool]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.stays_out = stays_out
        self.left_out = list[Any]()
        self.places = dict[int, int]()

    def persistent_id(self, item: Any) -> int | None:
        """Place of an object among those that are left out."""
        if not self.stays_out(item):
            return None
        if id(item) not in self.places:
            self.places[id(item)] = len(self.left_out)
            self.left_out.append(item)
        return self.places[id(item)]


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, values: Sequence[Any]) -> None:
        super().__init__(file)
        self.values = values

    def persistent_load(self, place: int) -> Any:
        """What has come of an object that was left out."""
        return self.values[place]
