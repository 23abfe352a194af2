"""Conjugate gradients whose state is kept after each iteration, so that they go on to the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numpy.typing import NDArray

from bochner.engines.journal import Keeper
from bochner.solvers.cg import State


class KeptState:
    """The state after the last iteration, which a keeper holds.

    Parameters
    ----------
    keeper : Keeper
    name : str
        Of these iterations among other work that the same keeper holds.

    Attributes
    ----------
    start : State or None
        Where to continue; None where nothing was kept.
    """

    def __init__(self, keeper: Keeper, name: str = "iterations") -> None:
        self.keeper, self.name, mark = keeper, name, f"{name}/"
        kept = [key for key in keeper.arrays if key.startswith(mark)]
        arrays = {key.removeprefix(mark): keeper.arrays.pop(key) for key in kept}
        self.start = State.of(arrays) if arrays else None
        self._latest = self.start

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep what `keep` is given, now and then while the block runs."""
        with self.keeper.keeping(self._contents):
            yield

    def keep(self, state: State) -> None:
        """Keep a copy of a state: the `keep` of `conjugate_gradients`."""
        latest = state.copy()
        with self.keeper.change():
            self._latest = latest

    def _contents(self) -> Iterator[tuple[str, NDArray]]:
        if self._latest is not None:
            for name, array in self._latest.arrays().items():
                yield f"{self.name}/{name}", array
