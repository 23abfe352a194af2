"""The workers of a Ray cluster as an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bochner.engines.base import EngineError
from bochner.engines.remote import Call, at, itself, name_of, within

POLL = 5.0  # seconds between two looks at the cluster
RETRIES = 3  # workers that may die at the same work


class RayEngine:
    """The workers of the Ray cluster that this process is connected to; one is started here where there is none.

    Work begins at once, and results stay on the nodes until they are asked for. Ray does again what a dead worker had.

    Parameters
    ----------
    patience : float, default=60
        Seconds to wait for a cluster that does not answer.

    Raises
    ------
    ImportError
        Where Ray is not installed.
    """

    is_remote = keeps_results = True

    def __init__(self, patience: float = 60.0) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("engine='ray' needs Ray: pip install 'bochner[ray]'.") from error
        from bochner.engines.packing import pack

        if not ray.is_initialized():
            ray.init()
        self.ray, self.patience, self._pack = ray, patience, pack
        self._remote = ray.remote(max_retries=RETRIES)(_do)

    @property
    def n_workers(self) -> int:
        """Processors of the cluster."""
        return max(int(self._resources().get("CPU", 0)), 1)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Give work to the cluster; a reference to its result."""
        data, outside = self._pack(Call(work, arguments), self._is_reference)
        return self._remote.options(name=f"bochner-{name_of(work)}").remote(data, *outside)

    def share(self, value: Any) -> Any:
        """A value that the cluster keeps, made by a task: what was put there by hand dies with its node."""
        return None if value is None else self.submit(itself, value)

    def result(self, handle: Any) -> Any:
        """Wait for a result and get it; an interrupt cancels the work.

        Raises
        ------
        EngineError
            Where the cluster is lost, or its workers die of this work.
        """
        if not self._is_reference(handle):
            return handle
        try:
            while not self.ray.wait([handle], timeout=POLL)[0]:
                self._resources()
            return self.ray.get(handle)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            if not isinstance(cause, self.ray.exceptions.RayError):
                raise cause from error
            raise EngineError(
                f"Ray has lost the work ({type(cause).__name__}), most likely for lack of memory: use a smaller "
                "n_components or more memory for each worker, and see Ray's logs."
            ) from error
        except KeyboardInterrupt:
            self.ray.cancel(handle, recursive=True)
            raise

    def _resources(self) -> dict[str, float]:
        lost = "The Ray cluster does not answer: see `ray status`, connect again, and start again."
        return within(self.patience, self.ray.cluster_resources, lost)

    def _is_reference(self, item: Any) -> bool:
        return isinstance(item, self.ray.ObjectRef)


def _do(data: bytes, *values: Any) -> Any:
    import ray

    from bochner.engines.packing import unpack

    with at(f"Ray node {ray.get_runtime_context().get_node_id()}"):
        return unpack(data, values).do()
