"""The workers of a Dask cluster as an engine: whether they live, what memory they
have, and why work is lost.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from functools import cached_property, partial
from math import inf
from time import monotonic, sleep
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakSet

import cloudpickle
import dask
from distributed import Client, Future, KilledWorker, get_worker
from distributed.comm.core import CommClosedError

from bochner.engines.base import EngineError
from bochner.engines.remote import Call, begun
from bochner.settings import as_size

T = TypeVar("T")
LOOK = 5.0  # seconds between two looks at the cluster, at most
IDLE = 5  # times the patience that a cluster may do nothing
# Of the memory limit of a worker: Dask begins to spill there, and cannot spill what is
# in use
OWN_SHARE = 0.6
POLL = 0.2  # seconds between two looks at work that is done elsewhere
CANCEL = 10.0  # seconds that a cluster may take to give up work
LOST = (
    "The Dask scheduler was lost: check that it runs, connect a new Client, and "
    "start again."
)
SILENT = (
    "The Dask scheduler, or a worker of it, does not answer: check that it runs, "
    "connect a new Client, and start again."
)
LARGE = 1 << 20  # bytes of a task, beyond which Dask may warn of what cannot be helped
NO_WARNING = {"distributed.admin.large-graph-warning-threshold": "1 TB"}

# Clients of clusters whose workers have the versions of this process
_same: WeakSet[Client] = WeakSet()


def _versions(process: dict[str, Any]) -> set[str]:
    """What must be the same everywhere, of what Dask says of a process."""
    packages = process["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    libraries = {
        f"{name} {packages[name] or 'missing'}" for name in ("numpy", "bochner")
    }
    return {f"Python {python}", *libraries}


def _is_busy(worker: dict[str, Any]) -> bool:
    """Whether a worker computes, or gets what it computes with; also where it does
    not tell.
    """
    counts = worker["metrics"].get("task_counts", {"executing": 1})
    return any(counts.get(state) for state in ("executing", "flight", "long-running"))


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
                "Client(..., asynchronous=False), or fit in a separate thread with "
                "asyncio.to_thread."
            )
        self.client = client
        self.patience = patience
        self._watched = dict[Future, Callable[[], object]]()
        self._begin_to_look()

    @property
    def n_workers(self) -> int:
        """Threads of all workers."""
        workers = self._workers().values()
        return max(sum(worker["nthreads"] for worker in workers), 1)

    @property
    def n_processes(self) -> int:
        """Workers of the cluster: processes, which keep results each for itself."""
        return max(len(self._workers()), 1)

    @property
    def worker_memory(self) -> int | None:
        """Bytes that work may take on the smallest worker, for all of its threads;
        None where workers have no limit.
        """
        limit, _ = self._smallest
        return None if limit == inf else int(OWN_SHARE * limit)

    def _begin_to_look(self) -> None:
        """Count the times from now on."""
        self._looked = self._had_workers = self._was_busy = monotonic()

    def _workers(self) -> dict[str, Any]:
        """The workers by their addresses.

        Raises
        ------
        EngineError
            Where the scheduler does not answer.
        """
        client = self.client
        # One that connects anew has given up all work, too
        if client.status == "running":
            answer = self._answer(partial(client.scheduler_info, n_workers=-1))
            if client.status == "running":
                return answer["workers"]
        raise EngineError(SILENT)

    def _look(self) -> None:
        """Look at the cluster, every few seconds.

        Raises
        ------
        EngineError
            Where it is lost, has had no workers for some time, or none of them does
            anything.
        """
        now = monotonic()
        soon = now - self._looked < min(LOOK, self.patience / 4)
        if soon and self.client.status == "running":
            return
        workers = self._workers().values()
        self._looked = now
        if workers:
            self._had_workers = now
        if any(map(_is_busy, workers)):
            self._was_busy = now
        if now - self._had_workers > self.patience:
            raise EngineError(
                f"The Dask scheduler has had no workers for {self.patience:.0f} s: "
                "they may have died for lack of memory, or have not started; check "
                "their logs, start workers, and start again."
            )
        if now - self._was_busy > IDLE * self.patience:
            paused = sum(one.get("status") == "paused" for one in workers)
            raise EngineError(
                f"The Dask scheduler has work, but none of its {len(workers)} workers "
                f"has made progress for {IDLE * self.patience:.0f} s ({paused} of them "
                "are paused for lack of memory): restart the cluster and start again."
            )

    @cached_property
    def _smallest(self) -> tuple[float, int]:
        """Memory limit, maybe infinite, and threads of the worker that has the least
        memory for a thread; once there are workers, of the versions of this process.

        Raises
        ------
        EngineError
            Where there are none, or naming one that has no bochner, or another version
            of it, of NumPy or of Python.
        """
        self._begin_to_look()
        while not (workers := self._workers().values()):
            self._look()
            sleep(POLL)
        if self.client not in _same:
            ask = partial(self.client.get_versions, packages=["numpy", "bochner"])
            answer: Any = self._answer(ask)
            own_versions = _versions(answer["client"])
            for address, worker in answer["workers"].items():
                theirs = _versions(worker)
                if theirs != own_versions:
                    raise EngineError(
                        f"The worker at {address} has "
                        f"{', '.join(sorted(theirs - own_versions))}, and this process "
                        f"has {', '.join(sorted(own_versions - theirs))}: install the "
                        "same versions everywhere."
                    )
            _same.add(self.client)
        worker_sizes = [
            (one["memory_limit"] or inf, one["nthreads"]) for one in workers
        ]
        return min(worker_sizes, key=lambda one: one[0] / one[1])

    def _answer(self, ask: Callable[[], T]) -> T:
        """What a call returns, which may never do so."""
        try:
            return begun(ask).result(self.patience)
        except TimeoutError:
            raise EngineError(SILENT) from None

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say why, where the cluster fails, and not the work."""
        try:
            yield
        except EngineError:
            raise
        except KilledWorker as error:
            worker = error.last_worker
            raise EngineError(
                f"{error.allowed_failures + 1} workers have died on the same task, the "
                f"last of them at {worker.address}, whose memory_limit is "
                f"{worker.memory_limit and as_size(worker.memory_limit)}, most likely "
                "for lack of memory: use a smaller n_components, fewer threads a "
                "worker, or workers with a larger memory_limit, and check the workers' "
                "logs."
            ) from error
        except Exception as error:
            reason = getattr(error, "reason", "")
            if (
                self.client.status != "running"
                or isinstance(error, CommClosedError)
                or reason == "scheduler-connection-lost"
            ):
                raise EngineError(LOST) from error
            if isinstance(error, CancelledError):
                raise EngineError(
                    f"Dask has given up the work ({str(error).splitlines()[0]}): "
                    "scattered data are lost with their worker; give collections or "
                    "files, and start again."
                ) from error
            raise

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        """Give work to the cluster; a future of its result.

        Raises
        ------
        EngineError
            Where the cluster is lost or has no workers, or they have other versions.
        MemoryError
            Where a worker has not the memory that the work says it takes.
        """
        need = getattr(work, "n_bytes", 0)
        limit, threads = self._smallest
        threads = 1 if getattr(work, "whole_worker", False) else threads
        free = OWN_SHARE * limit / threads
        if need > free:
            raise MemoryError(
                f"{name_of(work)} needs {as_size(need)}, and {as_size(free)} are free "
                f"on a worker (tasks at a time: {threads}; memory_limit of "
                f"{as_size(limit)}). Use a smaller n_components, fewer threads a "
                "worker, or workers with a larger memory_limit."
            )
        packer = _Packer()
        packer.dump(Call(work, arguments))
        given = packer.file.getvalue(), *packer.left_out
        name = f"bochner-{name_of(work)}-{uuid4().hex}"
        changes = NO_WARNING if len(given[0]) > LARGE else {}
        with self._explaining(), dask.config.set(changes):
            if all(isinstance(one, Future) for one in packer.left_out):
                return self.client.submit(_do, *given, key=name, fifo_timeout=0)
            lazy = dask.delayed(_do, pure=False)(*given, dask_key_name=name)
            return self.client.compute(lazy, fifo_timeout=0)

    def share(self, value: Any) -> Future:
        """A value that the cluster keeps, made by a task: scattered ones die with
        their worker.
        """
        return self.submit(identity, value)

    def watch(self, handle: Future, done: Callable[[], object]) -> None:
        """Call ``done()`` while a result is waited for, once that of the handle is
        there.
        """
        self._watched[handle] = done

    def results(self, handles: Sequence[Future]) -> Generator[Any]:
        """Wait for results and get them one by one; an interrupt, or a failure,
        cancels the work.

        Raises
        ------
        EngineError
            Where the cluster is lost, has no workers, does nothing, or its workers die
            of this work.
        """
        for handle in handles:
            yield self._result(handle)

    def _result(self, handle: Future) -> Any:
        self._begin_to_look()
        with self._explaining():
            try:
                pending = begun(handle.result)
                while not wait([pending], POLL).done:
                    self._tell()
                    self._look()
                self._tell()
                return pending.result()
            except BaseException:
                if self.client.status == "running":
                    wait([begun(partial(self.client.cancel, [handle]))], CANCEL)
                raise
            finally:
                self._watched = {}

    def _tell(self) -> None:
        """Call what is to be called of the results that are there, which are kept
        for it no longer.
        """
        for future in [one for one in self._watched if one.status == "finished"]:
            self._watched.pop(future)()


def identity(value: Any) -> Any:
    """The value: work that makes of it what a cluster keeps, and can make again."""
    return value


def name_of(work: Callable[..., Any]) -> str:
    """What to call work where users see it."""
    work = getattr(work, "func", work)
    return getattr(work, "__name__", type(work).__name__).strip("_<>")


def _do(data: bytes, *values: Any) -> Any:
    call: Call = _Unpacker(data, values).load()
    worker = get_worker()
    where = f"worker {worker.name} at {worker.address}"
    return call.do(worker.state.nthreads, where)


class _Packer(cloudpickle.Pickler):
    """Pickles without the futures and lazy objects of Dask, however deep these lie."""

    def __init__(self) -> None:
        super().__init__(file := io.BytesIO())
        self.file = file
        self.left_out = list[Any]()
        self.places = dict[int, int]()

    def persistent_id(self, item: Any) -> int | None:
        """Place of an object among those that are left out."""
        if not isinstance(item, Future) and not (
            hasattr(type(item), "__dask_graph__") and dask.is_dask_collection(item)
        ):
            return None
        place = self.places.setdefault(id(item), len(self.left_out))
        self.left_out[place : place + 1] = [item]
        return place


class _Unpacker(pickle.Unpickler):
    def __init__(self, data: bytes, values: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.values = values

    def persistent_load(self, place: int) -> Any:
        """What has come of an object that was left out."""
        return self.values[place]
