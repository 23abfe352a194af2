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
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a new file beside `path`, which takes its place at the end, or
    vanishes after an error.

    What killed processes of this machine have left in the folder is removed.
    """
    target = os.path.realpath(os.fspath(path))
    if os.fspath(path).endswith(("/", os.sep)):
        raise IsADirectoryError(
            f"{os.fspath(path)} names a folder: add the name of a file in it"
        )
    if os.path.exists(target) and not os.path.isfile(target):
        wrong = IsADirectoryError if os.path.isdir(target) else OSError
        raise wrong(f"{target} is not a regular file and cannot be replaced by one")
    folder, mark = (
        os.path.dirname(target),
        f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}",
    )
    temporary = os.path.join(folder, f".bochner-{mark}.tmp")
    _remove_unfinished(folder)
    try:
        yield temporary
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        os.replace(temporary, target)
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
    """Remove files that processes of this machine were writing when they were
    killed.
    """
    if (
        os.name != "posix"
    ):  # where a signal to a process, if only to ask for it, ends it
        return
    with suppress(OSError):
        for name in os.listdir(folder):
            match = UNFINISHED.fullmatch(name)
            if match and match[1] == _machine() and not _is_alive(int(match[2])):
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
