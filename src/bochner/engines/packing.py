"""Pickles of work that leave out what stays on a cluster: results still to come, collections."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle


def pack(value: Any, stays_out: Callable[[Any], bool]) -> tuple[bytes, list[Any]]:
    """Pickle a value without some of the objects in it, however deep these lie.

    Parameters
    ----------
    value : object
    stays_out : callable
        Whether an object is one of them.

    Returns
    -------
    bytes
        What `unpack` takes.
    list
        The objects that were left out, each once.
    """
    packer = _Packer(file := io.BytesIO(), stays_out)
    packer.dump(value)
    return file.getvalue(), packer.left_out


def unpack(data: bytes, values: Sequence[Any]) -> Any:
    """A value of what `pack` made of it, with these values in the place of the objects that were left out."""
    return _Unpacker(io.BytesIO(data), values).load()


class _Packer(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, stays_out: Callable[[Any], bool]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.stays_out, self.left_out, self.places = stays_out, list[Any](), dict[int, int]()

    def persistent_id(self, item: Any) -> int | None:
        """Place of an object among those that are left out."""
        if not self.stays_out(item):
            return None
        if id(item) not in self.places:
            self.places[id(item)] = len(self.left_out)
            self.left_out.append(item)
        return self.places[id(item)]


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, values: Sequence[Any]) -> None:
        super().__init__(file)
        self.values = values

    def persistent_load(self, place: int) -> Any:
        """What has come of an object that was left out."""
        return self.values[place]
