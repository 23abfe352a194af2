"""Fits in passes that go on where they were killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bochner import __version__
from bochner.data.checkpoint import Checkpoint, CheckpointError
from bochner.settings import current


def check_checkpoint() -> None:
    """Raise CheckpointError, before any work, where a fit would write over a checkpoint of another one."""
    path = current().checkpoint
    if path is not None and not current().resume and os.path.lexists(path):
        raise CheckpointError(
            f"The checkpoint {path} exists: go on from it by resume=True, or delete it, or take another name."
        )


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
    with Checkpoint(
        own.checkpoint, {**identity, "choices": choices, "version": __version__}, own.every, own.resume
    ) as keeper:
        yield keeper
