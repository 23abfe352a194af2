"""What is done of a long sum, so that it can be gone on with to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

Contents = Callable[[], Iterable[tuple[str, NDArray]]]


class Keeper(Protocol):
    """What keeps named arrays in a safe place; see `bochner.data.checkpoint.Checkpoint`."""

    @property
    def arrays(self) -> MutableMapping[str, NDArray]:
        """What was kept when the work began, for whoever goes on from it to take out."""

    def keeping(self, contents: Contents) -> AbstractContextManager[None]:
        """Keep what `contents` yields, now and then while the block runs."""

    def change(self) -> AbstractContextManager[None]:
        """Change what is kept, which nobody writes meanwhile."""


class Statistic(Protocol):
    """Sums over rows; those of two sets of rows add up. Those that are kept have a method ``state()``.

    It returns all that they hold, as a mapping of names to arrays of floats, 64-bit integers or booleans.
    """

    def add(self, features: Any, blocks: Any) -> None:
        """Add the rows of some blocks, seen through a map."""

    def __iadd__(self, other: Any) -> Any:
        """Add those of other rows in place."""


class Journal:
    """The sums over ranges of the parts that are done, and not yet added to a larger one.

    Parameters
    ----------
    keeper : Keeper
    restore : callable (dict of str to array) -> Statistic
        Makes a statistic of its `state`.
    name : str
        Of this sum among others that the same keeper holds.
    """

    def __init__(self, keeper: Keeper, restore: Callable[[dict[str, NDArray]], Any], name: str = "sum") -> None:
        self.keeper, self.restore, self.name = keeper, restore, name
        self._sums: dict[tuple[int, int], Any] = {}
        self._n_parts = 0

    @contextmanager
    def keeping(self, n_parts: int) -> Iterator[None]:
        """Keep what is done of a sum over so many parts, beginning with what was done before."""
        self._n_parts = n_parts
        states: dict[tuple[int, int], dict[str, NDArray]] = {}
        for key in [key for key in self.keeper.arrays if key.startswith(f"{self.name}/{n_parts}/")]:
            _, _, place, name = key.rsplit("/", 3)
            first, stop = map(int, place.split("-"))
            states.setdefault((first, stop), {})[name] = self.keeper.arrays.pop(key)
        self._sums = {place: self.restore(states.pop(place)) for place in list(states)}
        with self.keeper.keeping(self._contents):
            yield
        self._sums = {}

    def _contents(self) -> Iterator[tuple[str, NDArray]]:
        for (first, stop), total in self._sums.items():
            for name, array in total.state().items():
                yield f"{self.name}/{self._n_parts}/{first}-{stop}/{name}", array

    def done(self, first: int, stop: int) -> Any:
        """The sum over the parts from `first` to before `stop`; None where it has not been done."""
        return self._sums.get((first, stop))

    def reached(self) -> tuple[int, Any]:
        """The part after the first ones that one sum holds, and that sum; 0 and None where there is none."""
        stop = max((stop for first, stop in self._sums if first == 0), default=0)
        return stop, self.done(0, stop)

    def leaf(self, first: int, work: Callable[..., Any]) -> Leaf:
        """The work of one part, which notes its result."""
        return Leaf(self, first, work)

    def keep(self, first: int, stop: int, total: Any) -> None:
        """Note the sum over a range of parts."""
        with self.keeper.change():
            self._sums[first, stop] = total

    def add(self, first: int, middle: int, stop: int, left: Any, right: Any) -> Any:
        """Add the sum over one range in place to that over the one before, while nobody writes either."""
        with self.keeper.change():
            left += right
            self._sums[first, stop] = left
            del self._sums[first, middle], self._sums[middle, stop]
        return left

    def extend(self, total: Any, place: int, add: Callable[[], object]) -> None:
        """Add a part in place to the one sum over all parts before it."""
        with self.keeper.change():
            add()
            self._sums = {(0, place + 1): total}


@dataclass(frozen=True)
class Leaf:
    """The work of one part, which notes its result."""

    journal: Journal
    first: int
    work: Callable[..., Any]

    @property
    def n_bytes(self) -> int:
        """Memory of a call."""
        return getattr(self.work, "n_bytes", 0)

    def __call__(self, part: Any, shared: Any) -> Any:
        """Do it, and note the result."""
        total = self.work(part, shared)
        self.journal.keep(self.first, self.first + 1, total)
        return total
