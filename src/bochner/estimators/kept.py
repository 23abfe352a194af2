"""Fits in passes that go on where they were killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bochner import __version__
from bochner.data.checkpoint import Checkpoint, require_none
from bochner.engines.base import Engine
from bochner.settings import current


def check_checkpoint(engine: Engine) -> None:
    """Raise, before any work, where there can be no checkpoint.

    Raises
    ------
    ValueError
        Where the work is done by others.
    CheckpointError
        Where it would be written over one of another fit.
    """
    own = current()
    if own.checkpoint is not None and engine.is_remote:
        raise ValueError(
            "checkpoint= saves sums of this process, but with engine= workers compute them, and repeat what is lost: "
            "leave out one of the two."
        )
    if own.checkpoint is not None and not own.resume:
        require_none(own.checkpoint)


@contextmanager
def kept(identity: Mapping[str, str], choices: str) -> Iterator[Checkpoint | None]:
    """A checkpoint, if the settings have one, which is removed when the fit is done.

    Parameters
    ----------
    identity : dict of str to str
        Data and parameters of the fit.
    choices : str
        Hash of what was chosen before.
    """
    own = current()
    if own.checkpoint is None:
        yield None
        return
    limit = "none" if own.memory_limit is None else f"{own.memory_limit:,} bytes"  # which cuts the blocks of sums
    whole = {**identity, "choices": choices, "memory_limit": limit, "version": __version__}
    with Checkpoint(own.checkpoint, whole, own.every, own.resume) as keeper:
        yield keeper
