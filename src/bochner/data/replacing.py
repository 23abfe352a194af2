"""Writes a file so that it takes the place of an older one only once it is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = False) -> Iterator[str]:
    """Yield the name of a new file beside `path`, which takes its place at the end, or vanishes after an error.

    Parameters
    ----------
    path : str or path
    durable : bool, default=False
        Whether the file is on the disk when this is done, and not only on its way there, so that a loss of power
        leaves one of the two whole (Pillai et al., OSDI 2014). Its name is the same each time, so that a killed process
        leaves at most one behind, which the next overwrites: there must be no other writer.
    """
    target = os.path.realpath(os.fspath(path))
    if os.fspath(path).endswith(("/", os.sep)):
        raise IsADirectoryError(f"{os.fspath(path)} names a folder: add the name of a file in it")
    if os.path.exists(target) and not os.path.isfile(target):
        wrong = IsADirectoryError if os.path.isdir(target) else OSError
        raise wrong(f"{target} is not a regular file and cannot be replaced by one")
    folder, name = os.path.split(target)
    mark = name if durable else secrets.token_hex(8)
    temporary = os.path.join(folder, f".bochner-{mark}.tmp")
    try:
        if durable:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        yield temporary
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        if durable:
            _flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
        if durable and os.name == "posix":
            with suppress(OSError):  # file systems over a network may know no such thing
                _flush(folder, os.O_RDONLY)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _flush(path: str, flags: int) -> None:
    """Wait until what was written to a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
