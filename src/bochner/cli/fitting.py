"""What `bochner fit` and `bochner plan` are asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.estimators.exclusions import CLASS_LOSSES, NUMBER_LOSSES
from bochner.settings import settings


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
    """

    memory_limit: str | None = None
    checkpoint: Path | None = None
    resume: bool = False
    sample: int | None = None

    def limited(self) -> AbstractContextManager[Any]:
        """The memory limit, for what is done inside."""
        return nullcontext() if self.memory_limit is None else settings(memory_limit=self.memory_limit)

    def kept(self) -> AbstractContextManager[Any]:
        """The checkpoint, for the fit inside."""
        return nullcontext() if self.checkpoint is None else settings(checkpoint=self.checkpoint, resume=self.resume)


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
