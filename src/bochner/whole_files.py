"""Files that are replaced only by complete ones."""

from __future__ import annotations

import os
import re
import secrets
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

UNFINISHED = re.compile(r"\.bochner-([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{8}\.tmp")


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = False) -> Iterator[str]:
    """Yield the name of a new file beside `path`, which takes its place at the end, or vanishes after an error.

    What killed processes of this machine have left in the folder is removed.

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
    mark = name if durable else f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = os.path.join(folder, f".bochner-{mark}.tmp")
    _remove_unfinished(folder)
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


def _machine() -> str:
    """Eight digits that tell this machine from others that may share its folders."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _remove_unfinished(folder: str) -> None:
    """Remove files that processes of this machine were writing when they were killed."""
    if os.name != "posix":  # where a signal to a process, if only to ask for it, ends it
        return
    with suppress(OSError):
        for name in os.listdir(folder):
            found = UNFINISHED.fullmatch(name)
            if found and found[1] == _machine() and not _is_alive(int(found[2])):
                os.unlink(os.path.join(folder, name))


def _is_alive(process: int) -> bool:
    """Whether there is a process of this number, of any user."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _flush(path: str, flags: int) -> None:
    """Wait until what was written to a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
