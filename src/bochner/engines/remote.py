"""Work that is done in other processes: with the settings it was given away with, on as many threads as it may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bochner import __version__
from bochner.engines.base import EngineError
from bochner.engines.local import at_most
from bochner.settings import current, settings


def _carried() -> dict[str, Any]:
    """Settings that hold for work wherever it is done; those of memory and files are this process's own."""
    here = current()
    return {"device": here.device, "precision": here.precision}


@dataclass(frozen=True)
class Call:
    """Work and its arguments, as they travel.

    Attributes
    ----------
    work : callable
    arguments : tuple
    settings : dict
        Of who gave the work away.
    version : str
        Of bochner there.
    """

    work: Callable[..., Any]
    arguments: tuple = ()
    settings: dict[str, Any] = field(default_factory=_carried)
    version: str = __version__

    @property
    def takes_worker(self) -> bool:
        """Whether the work uses all threads of its worker."""
        return getattr(self.work, "whole_worker", False)

    def do(self, where: str, threads: int = 1) -> Any:
        """Do the work; what it raises says where.

        Parameters
        ----------
        where : str
            The worker, as users know it.
        threads : int, default=1
            That the work may use.
        """
        if self.version != __version__:
            raise EngineError(
                f"{where} has bochner {__version__}, and its work comes from {self.version}: install the same version "
                "everywhere."
            )
        own: dict[str, Any] = {"engine": None, "memory_limit": None, "checkpoint": None, "resume": False}
        try:
            with at_most(threads), settings(**own, **self.settings):
                return self.work(*self.arguments)
        except Exception as error:
            error.add_note(f"This happened on {where}.")
            raise


def name_of(work: Callable[..., Any]) -> str:
    """What to call work where users see it."""
    while isinstance(work, partial):
        work = work.func
    return getattr(work, "__name__", type(work).__name__).strip("_<>")
