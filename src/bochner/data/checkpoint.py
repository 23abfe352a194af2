"""Keeps what is done of long work in a file that survives a kill at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray


class CheckpointError(ValueError):
    """A checkpoint is damaged, in use, or of other work; the message says what differs and what to do."""


class Checkpoint:
    """One file of named arrays, and what they belong to.

    Parameters
    ----------
    path : str
    identity : dict of str to str
        What the work is: its data, settings, seed, versions; compared entry by entry.
    every : float
        Seconds from one writing to the next, at least.
    resume : bool
        Whether to begin with what the file holds.
    """

    def __init__(self, path: str, identity: Mapping[str, str], every: float = 60.0, resume: bool = False) -> None:
        raise NotImplementedError

    arrays: dict[str, NDArray]
    facts: dict[str, Any]
