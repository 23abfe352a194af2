"""The workers of a Dask cluster as an engine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bochner.engines.cluster import Cluster, explained
from bochner.engines.packing import pack, unpack
from bochner.engines.remote import Call, at, itself, name_of
from bochner.engines.waits import begun

if TYPE_CHECKING:
    from distributed import Client, Future

POLL = 0.2  # seconds between two looks at work that is done elsewhere
LARGE = 1 << 20  # bytes of a task, beyond which Dask may warn of what cannot be helped
CANCEL = 10.0  # seconds that a cluster may take to give up work


class DaskEngine:
    """The workers of a Dask cluster. Work begins at once; results stay on the workers until they are asked for.

    No work is bound to a worker and all of it can be done again, so that it survives workers that die. What it is given
    may hold futures and lazy objects of Dask, however deep: the work gets what comes of them, and partitions are let go
    when it is done.

    Parameters
    ----------
    client : distributed.Client
        One that is not asynchronous.
    patience : float, default=60
        Seconds to wait for a scheduler that does not answer or a cluster that has no workers; five times as long for
        one that does nothing.

    Raises
    ------
    TypeError
        Where the client is asynchronous.
    """

    is_remote = keeps_results = True

    def __init__(self, client: Client, patience: float = 60.0) -> None:
        if client.asynchronous:
            raise TypeError(
                "engine must be a Client that is not asynchronous: make it with Client(..., asynchronous=False), or "
                "fit in a separate thread with asyncio.to_thread."
            )
        self.client, self.cluster = client, Cluster(client, patience)
        self._watched: list[tuple[Future, Callable[[], object]]] = []

    @property
    def n_workers(self) -> int:
        """Threads of all workers."""
        return max(sum(worker["nthreads"] for worker in self.cluster.workers().values()), 1)

    @property
    def n_processes(self) -> int:
        """Workers of the cluster: processes, which keep results each for itself."""
        return max(len(self.cluster.workers()), 1)

    @property
    def worker_memory(self) -> int | None:
        """Bytes that work may take on the smallest worker, for all of its threads; None where workers have no limit."""
        return self.cluster.worker_memory()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        """Give work to the cluster; a future of its result.

        Raises
        ------
        EngineError
            Where the cluster has no workers, or they have other versions.
        MemoryError
            Where a worker has not the memory that the work says it takes.
        """
        import dask

        self.cluster.require_same_versions()
        self.cluster.require_memory(work)
        data, outside = pack(Call(work, arguments), _stays_out)
        name, silent = f"bochner-{name_of(work)}-{uuid4().hex}", "distributed.admin.large-graph-warning-threshold"
        with nullcontext() if len(data) < LARGE else dask.config.set({silent: "1 TB"}):
            if all(_is_future(one) for one in outside):
                return self.client.submit(_do, data, *outside, key=name, fifo_timeout=0)
            inner = [one if _is_future(one) else _culled(one) for one in outside]
            lazy = dask.delayed(_do, pure=False)(data, *inner, dask_key_name=name)
            return self.client.compute(lazy, fifo_timeout=0)

    def share(self, value: Any) -> Any:
        """A value that the cluster keeps, made by a task: scattered ones die with their worker."""
        return None if value is None else self.submit(itself, value)

    def watch(self, handle: Future, done: Callable[[], object]) -> None:
        """Call ``done()`` while a result is waited for, once that of the handle is there."""
        self._watched.append((handle, done))

    def result(self, handle: Any) -> Any:
        """Wait for a result and get it; an interrupt, or a failure, cancels the work.

        Raises
        ------
        EngineError
            Where the cluster is lost, has no workers, does nothing, or its workers die of this work.
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
        """Call what is to be called of the results that are there, which are kept for it no longer."""
        watched, self._watched = self._watched, []
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
        return call.do(worker.state.nthreads if call.takes_worker else 1)


def _is_future(item: Any) -> bool:
    from distributed import Future

    return isinstance(item, Future)


def _stays_out(item: Any) -> bool:
    return _is_future(item) or (hasattr(type(item), "__dask_graph__") and _is_lazy(item))


def _is_lazy(item: Any) -> bool:
    from dask import is_dask_collection

    return is_dask_collection(item)


def _culled(item: Any) -> Any:
    """A lazy object with the part of its graph that it needs, as the whole of it would travel with each partition."""
    from dask import delayed
    from dask.delayed import Delayed
    from dask.optimization import cull
    from dask.utils import ensure_dict

    if not isinstance(item, Delayed):
        return delayed(item)
    graph, _ = cull(ensure_dict(item.__dask_graph__()), [item.key])
    return Delayed(item.key, graph)
