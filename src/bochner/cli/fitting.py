"""What `bochner fit` and `bochner plan` are asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bochner.cli.errors import CommandError
from bochner.estimators.exclusions import CLASS_LOSSES, NUMBER_LOSSES
from bochner.settings import settings

CONNECTING = 10  # seconds to wait for a scheduler
CODE = ("bochner.estimators.regressor", "bochner.estimators.classifier", "bochner.loops.trig")  # 200 MB


@dataclass(frozen=True)
class Run:
    """Settings of the run.

    Attributes
    ----------
    memory_limit : str or None
        A size such as 1.5GB.
    checkpoint : Path or None
    resume : bool
    sample : int or None
        First rows that stand for all.
    dask : str or None
        Address of a scheduler.
    device : str or None
        Where features are computed.
    """

    memory_limit: str | None = None
    checkpoint: Path | None = None
    resume: bool = False
    sample: int | None = None
    dask: str | None = None
    device: str | None = None

    @contextmanager
    def limited(self) -> Iterator[None]:
        """The memory limit and the place of all that is done inside, beside the code that is loaded before."""
        for name in CODE:
            import_module(name)
        with ExitStack() as stack:
            if self.memory_limit is not None:
                stack.enter_context(settings(memory_limit=self.memory_limit))
            if self.device is not None:
                stack.enter_context(settings(device=self.device))
            if self.dask is not None:
                stack.enter_context(settings(engine=stack.enter_context(dask_client(self.dask))))
            yield

    def kept(self) -> AbstractContextManager[Any]:
        """The checkpoint, for the fit inside."""
        return nullcontext() if self.checkpoint is None else settings(checkpoint=self.checkpoint, resume=self.resume)


def dask_client(address: str) -> Any:
    """A client of the scheduler at an address, which the caller closes."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'bochner[dask]'") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what is wrong is said by the error
    try:
        return Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"no Dask scheduler answers at {address}: {error}") from error


@dataclass(frozen=True)
class Fit:
    """The arguments of `bochner fit`.

    Attributes
    ----------
    data, out : Path
    target : str
    task : {"auto", "classification", "regression"}
    test_size : float
    exclude : list of str
    parameters : dict
        Of the estimator.
    uncertainty : bool
        Whether the model is to know intervals and standard deviations.
    run : Run
    """

    data: Path
    target: str
    out: Path | None
    task: str
    test_size: float
    exclude: list[str]
    parameters: dict[str, Any]
    uncertainty: bool = False
    run: Run = Run()

    @property
    def seed(self) -> int:
        """Seed of the split and of the features."""
        return self.parameters["random_state"]


def asked_task(arguments: Fit) -> str:
    """The task that is asked for, perhaps by a loss that only one of the two has."""
    loss = arguments.parameters["loss"]
    if arguments.task != "auto":
        return arguments.task
    if loss in NUMBER_LOSSES:
        return "regression"
    return "classification" if loss in CLASS_LOSSES else "auto"


def estimator_of(arguments: Fit, task: str) -> Any:
    from bochner.estimators import KernelMachineClassifier, KernelMachineRegressor

    if task == "regression":
        loss = arguments.parameters["loss"]
        parameters = {**arguments.parameters, "loss": "squared" if loss == "auto" else loss}
        return KernelMachineRegressor(uncertainty=arguments.uncertainty, **parameters)
    return KernelMachineClassifier(**arguments.parameters)
